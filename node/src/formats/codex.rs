//! Codex rollouts: JSON lines of `{timestamp, type, payload}`, where `response_item` payloads are the items of OpenAI's
//! Responses API; in files of an older version the items stand on lines by themselves.
//!
//! Written from the description of the format, without files of the producer at hand. `session_meta` begins a session,
//! `turn_context` names the model; `event_msg` lines repeat for a screen what the items say. Nothing says how it ended.

use super::parts::{Gather, Parts};
use super::session::Sessions;
use super::words::{unwrapped, words};
use super::{Detect, Format, Gives, Read, decode};
use folklore_store::run::{Run, Step};
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub(super) const FORMAT: Format = Format {
    name: "codex",
    shape: "JSON lines of {timestamp, type: session_meta | response_item | turn_context, payload}, one run a session; no label",
    gives: Gives::Runs,
    from_description: true,
    detect: Detect::Fields(detect),
    read: Read::Together(|_| Box::new(Rollout::default())),
};

/// What the tool puts in front of the user's words.
const PREAMBLES: [&str; 5] =
    ["<environment_context>", "<user_instructions>", "<permissions", "# AGENTS.md", "<INSTRUCTIONS>"];

struct Rollout {
    sessions: Sessions,
    /// The session of the lines that follow.
    key: String,
}

impl Default for Rollout {
    fn default() -> Self {
        Self { sessions: Sessions::new(finish), key: "session".to_owned() }
    }
}

fn detect(names: &BTreeSet<&str>) -> bool {
    let wrapped = names.contains("type") && names.contains("payload");
    let old = names.contains("call_id") && names.contains("type");
    let first = names.contains("instructions") && names.contains("timestamp") && names.contains("id");
    wrapped || old || first
}

impl Gather for Rollout {
    fn take(&mut self, bytes: &[u8], parts: &mut Parts) -> Result<(), String> {
        let line: Value = decode(bytes)?;
        let kind = line.get("type").and_then(Value::as_str).unwrap_or_default();
        let payload = line.get("payload").unwrap_or(&line);
        let text = |name: &str| payload.get(name).and_then(Value::as_str).unwrap_or_default();
        if !line.is_object() {
            return Err("it is not an object".into());
        }
        if kind == "session_meta" || (kind.is_empty() && payload.get("instructions").is_some()) {
            self.key = format!("session {}", text("id"));
            return Ok(());
        }
        let session = self.sessions.of(&self.key, bytes.len(), parts);
        if kind == "turn_context" {
            session.agent = text("model").to_owned();
            return Ok(());
        }
        if line.get("payload").is_some() && kind != "response_item" {
            return Ok(());
        }
        match text("type") {
            "message" if text("role") == "user" => {
                let said = words(payload.get("content").unwrap_or(&Value::Null));
                if !PREAMBLES.iter().any(|start| said.trim_start().starts_with(start)) {
                    session.chat.user(&said);
                }
            }
            "function_call_output" | "custom_tool_call_output" | "local_shell_call_output" => {
                let got = unwrapped(payload.get("output").unwrap_or(&Value::Null));
                let code = got.pointer("/metadata/exit_code").and_then(Value::as_i64).unwrap_or_default();
                let got = words(&got);
                let got = if code == 0 { got } else { format!("<returncode>{code}</returncode>\n{got}") };
                session.chat.result(text("call_id"), "", &got);
            }
            "local_shell_call" => {
                let command = payload.pointer("/action/command").cloned().unwrap_or_default();
                session.chat.call(text("call_id"), "shell", &json!({ "command": command }));
            }
            "message" | "function_call" | "custom_tool_call" | "reasoning" => {
                session.chat.message(payload);
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, parts: &mut Parts) {
        self.sessions.end(parts);
        if parts.0.is_empty() {
            parts.refuse("", "it holds no message and no call");
        }
    }
}

fn finish(_key: &str, agent: String, task: String, steps: Vec<Step>) -> Run {
    let agent = if agent.is_empty() { "Codex".to_owned() } else { agent };
    Run { task_key: Run::key_from_task(&task), task, domain: "coding".into(), agent, steps, ..Run::default() }
}

#[cfg(test)]
mod tests {
    use super::super::parts::Part;
    use super::*;

    fn read(lines: &[Value]) -> Run {
        let (mut rollout, mut parts) = (Rollout::default(), Parts::default());
        for line in lines {
            rollout.take(line.to_string().as_bytes(), &mut parts).unwrap();
        }
        rollout.end(&mut parts);
        match parts.0.pop() {
            Some((_, Part::Run(run))) => *run,
            _ => panic!("no run"),
        }
    }

    #[test]
    fn wrapped_and_bare_items_give_the_same_run() {
        let items = [
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context>x</environment_context>"}]}),
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "fix it"}]}),
            json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "I test first."}], "encrypted_content": "AAAA"}),
            json!({"type": "function_call", "name": "shell", "arguments": "{\"command\":[\"bash\",\"-lc\",\"make\"]}", "call_id": "c"}),
            json!({"type": "function_call_output", "call_id": "c", "output": "{\"output\":\"no rule\",\"metadata\":{\"exit_code\":2}}"}),
            json!({"type": "local_shell_call", "call_id": "d", "action": {"type": "exec", "command": ["ls", "-l"]}}),
            json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}),
        ];
        let bare = read(&items);
        let mut wrapped = vec![json!({"type": "session_meta", "payload": {"id": "s", "instructions": null}})];
        wrapped.extend(items.iter().map(|item| json!({"timestamp": "t", "type": "response_item", "payload": item})));
        wrapped.push(json!({"type": "event_msg", "payload": {"type": "agent_message", "message": "Done."}}));
        let mut wrapped = read(&wrapped);
        assert_eq!(wrapped.task, "fix it");
        let got: Vec<_> = wrapped.steps.iter().map(|s| [s.think.as_str(), &s.action, &s.observation]).collect();
        let failed = "<returncode>2</returncode>\nno rule";
        assert_eq!(got, [["I test first.", "make", failed], ["", "ls -l", ""], ["", "respond: Done.", ""]]);
        wrapped.source = bare.source.clone();
        assert_eq!(wrapped, bare);
    }
}
