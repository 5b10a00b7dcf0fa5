//! Aider chat histories: Markdown with `# aider chat started at TIME` over each session, `#### ` before the user's lines,
//! `> ` before the tool's, and the model's answers between them as they are.
//!
//! A session is a run; nothing in it says whether it succeeded. What the tool printed after an answer (edits applied,
//! commits, lint and test output) and what the user said next are the observation of that answer.

use super::chat::Chat;
use super::parts::{Gather, Parts};
use super::words::Bounded;
use super::{Detect, Format, Gives, Read};
use folklore_store::run::Run;

pub(super) const FORMAT: Format = Format {
    name: "aider",
    shape: "Markdown with '# aider chat started at', '#### ' before the user's lines and '> ' before the tool's; no label",
    gives: Gives::Runs,
    from_description: false,
    detect: Detect::Lines(detect),
    read: Read::Text(|_| Box::new(History::default())),
};

const START: &str = "# aider chat started at";

fn detect(head: &str) -> bool {
    head.lines().take(64).any(|line| line.starts_with(START))
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Speaker {
    #[default]
    Model,
    User,
    Tool,
}

#[derive(Default)]
struct History {
    /// When the session under way began; `None` before the first.
    started: Option<String>,
    speaker: Speaker,
    block: Bounded,
    chat: Chat,
    agent: String,
    /// Bytes of the session so far.
    held: usize,
    pieces: usize,
}

/// Bytes of one session that are kept open; what goes beyond is a run of its own.
const MAX_SESSION_BYTES: usize = 32 * 1024 * 1024;

impl Gather for History {
    fn take(&mut self, bytes: &[u8], parts: &mut Parts) -> Result<(), String> {
        let line = std::str::from_utf8(bytes).map_err(|error| format!("not UTF-8 at byte {}", error.valid_up_to()))?;
        let line = line.trim_end_matches('\r');
        if let Some(time) = line.strip_prefix(START) {
            self.close(parts);
            (self.started, self.pieces) = (Some(time.trim().to_owned()), 0);
            return Ok(());
        }
        self.held += line.len() + 1;
        if self.held > MAX_SESSION_BYTES {
            let started = self.started.clone();
            self.pieces += 1;
            self.close(parts);
            self.started = started;
        }
        let (speaker, words) = if let Some(words) = line.strip_prefix("####") {
            (Speaker::User, words.trim())
        } else if let Some(words) = line.strip_prefix("> ").or((line == ">").then_some("")) {
            (Speaker::Tool, words.trim_end())
        } else {
            (Speaker::Model, line)
        };
        if speaker != self.speaker && !(speaker == Speaker::Model && words.trim().is_empty()) {
            self.flush();
            self.speaker = speaker;
        }
        self.block.line(words);
        Ok(())
    }

    fn end(&mut self, parts: &mut Parts) {
        self.close(parts);
    }
}

impl History {
    /// Gives the block to whoever spoke.
    fn flush(&mut self) {
        let block = std::mem::take(&mut self.block).finish();
        let block = block.trim();
        if block.is_empty() {
            return;
        }
        match self.speaker {
            Speaker::Model => self.chat.say(block),
            Speaker::User => self.chat.user(block),
            Speaker::Tool => {
                if self.agent.is_empty() {
                    let model = block.lines().find_map(|line| {
                        let rest = ["Models: ", "Model: ", "Main model: "].iter().find_map(|p| line.strip_prefix(p))?;
                        rest.split_whitespace().next()
                    });
                    self.agent = model.unwrap_or_default().to_owned();
                }
                // What stands before the first request is the tool's greeting.
                if !self.chat.task().is_empty() {
                    self.chat.observe(block);
                }
            }
        }
    }

    fn close(&mut self, parts: &mut Parts) {
        self.flush();
        self.speaker = Speaker::Model;
        self.held = 0;
        let chat = std::mem::take(&mut self.chat);
        let agent = std::mem::take(&mut self.agent);
        let Some(started) = self.started.take() else { return };
        let name = match self.pieces {
            0 => format!("session {started}"),
            piece => format!("session {started} piece {piece}"),
        };
        let (task, steps) = chat.finish();
        if !steps.iter().any(|step| step.action.starts_with("respond:")) {
            parts.refuse(
                name,
                if task.is_empty() { "nothing was asked in it" } else { "the model answered nothing in it" },
            );
            return;
        }
        let agent = if agent.is_empty() { "aider".to_owned() } else { agent };
        let task_key = Run::key_from_task(&task);
        parts.run(name, Run { task_key, task, domain: "coding".into(), agent, steps, ..Run::default() });
    }
}

#[cfg(test)]
mod tests {
    use super::super::parts::Part;
    use super::*;

    #[test]
    fn sessions_become_runs_and_empty_ones_are_named() {
        let text = "\n# aider chat started at 2024-01-01 10:00:00\n\n> Aider v1  \n> Models: gpt-x with diff edit format  \n\n#### fix the date  \n\nI change it.\n\n```python\n> not a tool\n```\n\n> Applied edit to a.py  \n\n#### no, the other  \n\nSorry.\n\n# aider chat started at 2024-01-02 10:00:00\n\n> Aider v1\n";
        let (mut history, mut parts) = (History::default(), Parts::default());
        for line in text.lines() {
            history.take(line.as_bytes(), &mut parts).unwrap();
        }
        history.end(&mut parts);
        let (name, Part::Run(run)) = &parts.0[0] else { panic!() };
        assert_eq!(
            (name.as_str(), run.agent.as_str(), run.task.as_str()),
            ("session 2024-01-01 10:00:00", "gpt-x", "fix the date")
        );
        let last = run.steps.last().unwrap();
        assert_eq!(last.action, "respond: Sorry.");
        assert!(
            run.steps.iter().any(|step| step.observation == "Applied edit to a.py\nno, the other"),
            "{:?}",
            run.steps
        );
        assert!(matches!(&parts.0[1].1, Part::Refused(why) if why.contains("nothing was asked")));
        assert!(detect(text) && !detect("# aider\n#### x"));
    }
}
