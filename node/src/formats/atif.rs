//! ATIF, the Agent Trajectory Interchange Format of Harbor (`schema_version: "ATIF-v1.x"`).
//!
//! Written from the description of the format, without files of the producer at hand. One document a run: `{schema_version,
//! session_id, agent{name, model_name}, steps[{step_id, source: system | user | agent, message, reasoning_content,
//! tool_calls[{tool_call_id, function_name, arguments}], observation{results[{source_call_id, content}]}}]}`. The reward is
//! not in it: labels come from `--outcomes`.

use super::chat::Chat;
use super::words::{id, words};
use super::{Detect, Format, Gives, Read, decode};
use folklore_store::run::Run;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) const FORMAT: Format = Format {
    name: "atif",
    shape: "{schema_version, session_id, agent, steps[{source, message, tool_calls, observation}]}, one document a run; labels from --outcomes",
    gives: Gives::Runs,
    from_description: true,
    detect: Detect::Fields(detect),
    read: Read::Run(parse),
};

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    agent: Value,
    steps: Vec<Value>,
    #[serde(default)]
    extra: Value,
}

fn detect(names: &BTreeSet<&str>) -> bool {
    names.contains("schema_version") && names.contains("steps") && names.contains("agent")
}

fn parse(bytes: &[u8], _file: &str) -> Result<Run, String> {
    let document: Document = decode(bytes)?;
    let mut chat = Chat::default();
    for step in &document.steps {
        let text = |name: &str| step.get(name).map(words).unwrap_or_default();
        match step.get("source").and_then(Value::as_str) {
            Some("user") => chat.user(&text("message")),
            Some("agent") => {
                chat.think(&text("reasoning_content"));
                chat.say(&text("message"));
                for call in step.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
                    let of = |name: &str| call.get(name).and_then(Value::as_str).unwrap_or_default();
                    let given = call.get("arguments").unwrap_or(&Value::Null);
                    chat.call(of("tool_call_id"), of("function_name"), given);
                }
            }
            Some("system") => {}
            _ => return Err(format!("step {} has no source that is known", text("step_id"))),
        }
        for result in step.pointer("/observation/results").and_then(Value::as_array).into_iter().flatten() {
            let call = result.get("source_call_id").and_then(Value::as_str).unwrap_or_default();
            chat.result(call, "", &result.get("content").map(words).unwrap_or_default());
        }
    }
    let (task, steps) = chat.finish();
    if steps.is_empty() {
        return Err("none of its steps is the agent's".into());
    }
    let agent = ["model_name", "name"].iter().find_map(|name| document.agent.get(*name)?.as_str());
    let key = ["task_id", "instance_id", "task_name"].iter().find_map(|name| document.extra.get(*name).and_then(id));
    Ok(Run {
        task_key: key.unwrap_or_else(|| Run::key_from_task(&task)),
        task,
        agent: agent.unwrap_or_default().to_owned(),
        steps,
        ..Run::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn steps_with_calls_and_results_become_steps() {
        let document = json!({"schema_version": "ATIF-v1.4", "session_id": "s", "agent": {"name": "a", "version": "1", "model_name": "m"}, "steps": [
            {"step_id": 1, "source": "system", "message": "rules"},
            {"step_id": 2, "source": "user", "message": "Create it."},
            {"step_id": 3, "source": "agent", "message": "I do.", "reasoning_content": "Hm.",
             "tool_calls": [{"tool_call_id": "c", "function_name": "write", "arguments": {"path": "a"}}],
             "observation": {"results": [{"source_call_id": "c", "content": "ok"}]}},
            {"step_id": 4, "source": "agent", "message": "Done."}]});
        let run = parse(document.to_string().as_bytes(), "").unwrap();
        let got: Vec<_> = run.steps.iter().map(|s| [s.think.as_str(), &s.action, &s.observation]).collect();
        assert_eq!(got, [["Hm.\nI do.", "write {\"path\":\"a\"}", "ok"], ["", "respond: Done.", ""]]);
        assert_eq!((run.task.as_str(), run.agent.as_str()), ("Create it.", "m"));
        let wrong = json!({"schema_version": "x", "agent": {}, "steps": [{"step_id": 1, "source": "moon"}]});
        assert!(parse(wrong.to_string().as_bytes(), "").unwrap_err().contains("step 1"));
    }
}
