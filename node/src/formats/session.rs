//! Sessions whose lines come one at a time, perhaps mixed with those of others, in bounded memory.

use super::chat::Chat;
use super::parts::Parts;
use folklore_store::run::{Run, Step};

/// Bytes of lines of all sessions that are open at once. The longest sessions of coding agents are a few tens of megabytes.
const MAX_OPEN_BYTES: usize = 32 * 1024 * 1024;

/// Sessions that are open at once. A file holds one, with the subagents it called.
const MAX_OPEN_SESSIONS: usize = 256;

/// A session under way.
#[derive(Default)]
pub(super) struct Session {
    pub chat: Chat,
    /// The model or agent, once a line has said it.
    pub agent: String,
    key: String,
    /// Bytes of the lines so far.
    held: usize,
    /// How many runs were made of it already, because it was too long for one.
    pieces: usize,
}

/// Makes a run of a session's key, agent, task and steps.
type Finish = fn(&str, String, String, Vec<Step>) -> Run;

/// All sessions of one file that are open.
pub(super) struct Sessions {
    /// In the order in which they began: a file has few at once.
    open: Vec<Session>,
    finish: Finish,
}

impl Sessions {
    pub(super) fn new(finish: Finish) -> Self {
        Self { open: Vec::new(), finish }
    }

    /// The session that a line of this many bytes belongs to.
    pub(super) fn of(&mut self, key: &str, bytes: usize, parts: &mut Parts) -> &mut Session {
        let held: usize = self.open.iter().map(|session| session.held).sum();
        if held + bytes > MAX_OPEN_BYTES {
            self.shrink(key, parts);
        }
        let at = match self.open.iter().position(|session| session.key == key) {
            Some(at) => at,
            None => {
                if self.open.len() >= MAX_OPEN_SESSIONS {
                    let oldest = self.open.remove(0);
                    self.close(oldest, parts);
                }
                self.open.push(Session { key: key.to_owned(), ..Session::default() });
                self.open.len() - 1
            }
        };
        let session = &mut self.open[at];
        session.held += bytes;
        session
    }

    /// Makes room: the oldest other session is taken for finished, else this one so far is a run of its own.
    fn shrink(&mut self, key: &str, parts: &mut Parts) {
        while self.open.iter().any(|session| session.key != key) {
            let oldest = self.open.iter().position(|session| session.key != key).unwrap_or_default();
            let session = self.open.remove(oldest);
            self.close(session, parts);
            if self.open.iter().map(|session| session.held).sum::<usize>() < MAX_OPEN_BYTES / 2 {
                return;
            }
        }
        if let Some(mut session) = self.open.pop() {
            let mut next = Session {
                key: session.key.clone(),
                agent: session.agent.clone(),
                pieces: session.pieces + 1,
                ..Session::default()
            };
            next.chat.user(session.chat.task());
            session.pieces += 1;
            self.close(session, parts);
            self.open.push(next);
        }
    }

    fn close(&self, session: Session, parts: &mut Parts) {
        let name = match session.pieces {
            0 => session.key.clone(),
            piece => format!("{} piece {piece}", session.key),
        };
        if session.chat.is_empty() {
            return;
        }
        let (task, steps) = session.chat.finish();
        if steps.is_empty() {
            parts.refuse(name, "nothing was done in it");
        } else {
            parts.run(name, (self.finish)(&session.key, session.agent, task, steps));
        }
    }

    /// The file ends: every session is finished. The error is why there was none.
    pub(super) fn end(&mut self, parts: &mut Parts) {
        for session in std::mem::take(&mut self.open) {
            self.close(session, parts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parts::Part;
    use super::*;

    #[test]
    fn an_endless_session_becomes_runs_of_bounded_size() {
        let mut sessions =
            Sessions::new(|key, _, task, steps| Run { task_key: key.into(), task, steps, ..Run::default() });
        let mut parts = Parts::default();
        for n in 0..40 {
            let session = sessions.of("s", 2 * 1024 * 1024, &mut parts);
            session.chat.user("do it");
            session.chat.call("", "look", &serde_json::json!({ "n": n }));
        }
        sessions.of("other", 10, &mut parts).chat.user("only asked");
        sessions.end(&mut parts);
        let names: Vec<_> = parts.0.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["s piece 1", "s piece 2", "s piece 2", "other"]);
        for (_, part) in &parts.0[..3] {
            assert!(matches!(part, Part::Run(run) if run.task.starts_with("do it") && !run.steps.is_empty()));
        }
        assert!(matches!(parts.0[3].1, Part::Refused(_)));
    }
}
