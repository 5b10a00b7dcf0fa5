//! Google ReasoningBank memory files: JSON lines of
//! `{task_id, query, think_list, action_list, status, memory_items, template_id}`.
//!
//! Written from that description, without files of the producer at hand. The runs in it have no observations.
//! `memory_items` are lessons that another system distilled from the run; they point to no step, so they are not
//! taken over as lessons here.

use super::{Detect, Format, Gives, Read, decode};
use folklore_store::run::{Run, RunOutcome, RunStatus, Step};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) const FORMAT: Format = Format {
    name: "reasoning-bank",
    shape: "JSON lines of {task_id, query, think_list, action_list, status, memory_items, template_id}",
    gives: Gives::Runs,
    from_description: true,
    detect: Detect::Fields(detect),
    read: Read::Run(parse),
};

#[derive(Deserialize)]
struct Entry {
    task_id: Option<Value>,
    query: String,
    #[serde(default)]
    think_list: Option<Vec<Option<String>>>,
    #[serde(default)]
    action_list: Option<Vec<Option<String>>>,
    #[serde(default)]
    status: Option<Value>,
    #[serde(default)]
    template_id: Option<Value>,
}

fn detect(names: &BTreeSet<&str>) -> bool {
    names.contains("query") && (names.contains("action_list") || names.contains("think_list"))
}

fn parse(bytes: &[u8], _file: &str) -> Result<Run, String> {
    let entry: Entry = decode(bytes)?;
    let thinks = entry.think_list.unwrap_or_default();
    let actions = entry.action_list.unwrap_or_default();
    let count = thinks.len().max(actions.len());
    let at = |list: &[Option<String>], n: usize| list.get(n).cloned().flatten().unwrap_or_default();
    let steps = (0..count)
        .map(|n| Step { think: at(&thinks, n), action: at(&actions, n), observation: String::new() })
        .collect();
    let id = |value: &Value| match value {
        Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let task_key = match entry.task_id.as_ref().and_then(id) {
        Some(id) => format!("reasoning-bank/{id}"),
        None => Run::key_from_task(&entry.query),
    };
    let status = entry.status.as_ref().map_or(RunStatus::Unknown, status);
    Ok(Run {
        task_key,
        task: entry.query,
        agent: "reasoning-bank".into(),
        steps,
        outcome: RunOutcome {
            status,
            judged_by: (status != RunStatus::Unknown).then(|| "reasoning-bank status".to_owned()),
            ..RunOutcome::default()
        },
        tags: entry.template_id.as_ref().and_then(id).map(|id| format!("template-{id}")).into_iter().collect(),
        ..Run::default()
    })
}

/// The words seen for a verdict; anything else is no label.
fn status(value: &Value) -> RunStatus {
    match value {
        Value::Bool(true) => RunStatus::Success,
        Value::Bool(false) => RunStatus::Failure,
        Value::Number(number) => match number.as_f64() {
            Some(1.0) => RunStatus::Success,
            Some(0.0) => RunStatus::Failure,
            _ => RunStatus::Unknown,
        },
        Value::String(word) => match word.trim().to_ascii_lowercase().as_str() {
            "success" | "succeeded" | "successful" | "pass" | "passed" | "correct" => RunStatus::Success,
            "fail" | "failed" | "failure" | "unsuccessful" | "incorrect" => RunStatus::Failure,
            "partial" => RunStatus::Partial,
            _ => RunStatus::Unknown,
        },
        _ => RunStatus::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Run, String> {
        parse(line.as_bytes(), "bank.jsonl")
    }

    #[test]
    fn a_line_becomes_a_run() {
        let run = read(
            r#"{"task_id":21,"query":"Find the cheapest kettle","think_list":["sort it",null],"action_list":["click('12')","stop('7')","x"],
            "status":"success","memory_items":["a"],"template_id":3}"#,
        )
        .unwrap();
        assert_eq!((run.task_key.as_str(), run.steps.len()), ("reasoning-bank/21", 3));
        assert_eq!(run.steps[1].action, "stop('7')");
        assert_eq!(run.outcome.status, RunStatus::Success);
        assert_eq!(run.tags, ["template-3"]);
    }

    #[test]
    fn a_status_nobody_described_is_no_label() {
        for (word, want) in [
            ("\"fail\"", RunStatus::Failure),
            ("true", RunStatus::Success),
            ("\"done\"", RunStatus::Unknown),
            ("null", RunStatus::Unknown),
        ] {
            let run = read(&format!(r#"{{"query":"q","action_list":[],"status":{word}}}"#)).unwrap();
            assert_eq!(run.outcome.status, want, "{word}");
        }
    }

    #[test]
    fn a_line_without_a_query_is_refused() {
        assert!(read(r#"{"action_list":[]}"#).unwrap_err().contains("query"));
        assert!(read(r#"{"query":"q","action_list":"x"}"#).is_err());
    }
}
