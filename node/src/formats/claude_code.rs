//! Claude Code sessions: JSON lines of `{type, uuid, parentUuid, sessionId, isSidechain, message{role, content}, ...}`.
//!
//! Lines of one session are one run, those of a subagent (`isSidechain`) another. Lines of other types (summaries, snapshots,
//! what the tool notes for itself) carry no step and are passed over. Nothing in a session says whether it succeeded.

use super::parts::{Gather, Parts};
use super::session::Sessions;
use super::{Detect, Format, Gives, Read, decode};
use folklore_store::run::Run;
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) const FORMAT: Format = Format {
    name: "claude-code",
    shape: "JSON lines of {type, uuid, parentUuid, sessionId, message{role, content}}, one run a session; no label",
    gives: Gives::Runs,
    from_description: false,
    detect: Detect::Fields(detect),
    read: Read::Together(|_| Box::new(Lines(Sessions::new(finish)))),
};

fn detect(names: &BTreeSet<&str>) -> bool {
    names.contains("type")
        && (names.contains("message") || names.contains("summary") || names.contains("snapshot"))
        && ["sessionId", "leafUuid", "parentUuid", "messageId"].iter().any(|name| names.contains(name))
}

struct Lines(Sessions);

impl Gather for Lines {
    fn take(&mut self, bytes: &[u8], parts: &mut Parts) -> Result<(), String> {
        let line: Value = decode(bytes)?;
        let text = |name: &str| line.get(name).and_then(Value::as_str).unwrap_or_default();
        let is = |name: &str| line.get(name) == Some(&Value::Bool(true));
        match text("type") {
            "" => return Err("it has no type".into()),
            "user" | "assistant" => {}
            _ => return Ok(()),
        }
        let message = line.get("message").filter(|message| message.is_object()).ok_or("it has no message")?;
        if is("isMeta") || is("isApiErrorMessage") || is_command(message) {
            return Ok(());
        }
        let id = match text("sessionId") {
            "" => "without id",
            id => id,
        };
        let key = match is("isSidechain") {
            true => format!("session {id} sidechain {}", text("agentId")),
            false => format!("session {id}"),
        };
        let session = self.0.of(key.trim_end(), bytes.len(), parts);
        if let Some(model) = message.get("model").and_then(Value::as_str).filter(|model| *model != "<synthetic>") {
            session.agent = model.to_owned();
        }
        match session.chat.message(message) {
            true => Ok(()),
            false => Err("its message has no role that is known".into()),
        }
    }

    fn end(&mut self, parts: &mut Parts) {
        self.0.end(parts);
        if parts.0.is_empty() {
            parts.refuse("", "it holds no message of a user or an assistant");
        }
    }
}

/// What the user typed to the tool itself, and what the tool answered.
fn is_command(message: &Value) -> bool {
    let content = message.get("content").and_then(Value::as_str).unwrap_or_default().trim_start();
    ["<command-name>", "<command-message>", "<local-command-stdout>", "<local-command-stderr>"]
        .iter()
        .any(|tag| content.starts_with(tag))
}

fn finish(_key: &str, agent: String, task: String, steps: Vec<folklore_store::run::Step>) -> Run {
    let agent = if agent.is_empty() { "Claude Code".to_owned() } else { agent };
    Run { task_key: Run::key_from_task(&task), task, domain: "coding".into(), agent, steps, ..Run::default() }
}

#[cfg(test)]
mod tests {
    use super::super::parts::Part;
    use super::*;
    use serde_json::json;

    #[test]
    fn sessions_that_are_mixed_come_out_apart() {
        let mut lines = Lines(Sessions::new(finish));
        let mut parts = Parts::default();
        let line = |kind: &str, session: &str, side: bool, content: Value| json!({"type": kind, "sessionId": session, "isSidechain": side, "uuid": "u", "message": {"role": kind, "model": "m", "content": content}});
        for one in [
            json!({"type": "summary", "summary": "s", "leafUuid": "x"}),
            line("user", "a", false, json!("fix a")),
            line("user", "b", false, json!([{"type": "text", "text": "fix b"}])),
            line("user", "a", false, json!("<command-name>/clear</command-name>")),
            line("assistant", "a", false, json!([{"type": "text", "text": "I run it."}])),
            line(
                "assistant",
                "a",
                false,
                json!([{"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "make"}}]),
            ),
            line("user", "a", true, json!("look around")),
            line("assistant", "a", true, json!([{"type": "text", "text": "Nothing."}])),
            line(
                "user",
                "a",
                false,
                json!([{"type": "tool_result", "tool_use_id": "t", "content": "no rule", "is_error": true}]),
            ),
        ] {
            lines.take(one.to_string().as_bytes(), &mut parts).unwrap();
        }
        assert!(lines.take(b"{\"type\":\"user\"}", &mut parts).unwrap_err().contains("no message"));
        assert!(lines.take(b"{\"type\":\"user\",\"mess", &mut parts).is_err());
        lines.end(&mut parts);
        let runs: Vec<&Run> =
            parts.0.iter().filter_map(|(_, p)| if let Part::Run(run) = p { Some(&**run) } else { None }).collect();
        assert_eq!(runs.len(), 2);
        assert_eq!((runs[0].task.as_str(), runs[0].agent.as_str()), ("fix a", "m"));
        let step = &runs[0].steps[0];
        assert_eq!(
            (step.think.as_str(), step.action.as_str(), step.observation.as_str()),
            ("I run it.", "make", "Error: no rule")
        );
        assert_eq!(runs[1].task, "look around");
        assert!(matches!(&parts.0[1], (name, Part::Refused(why)) if name == "session b" && why.contains("nothing")));
    }
}
