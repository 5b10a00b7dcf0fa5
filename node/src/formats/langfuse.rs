//! Langfuse exports: a trace with its observations, `{trace{id, name, input, output, scores[]}, observations[{id,
//! parentObservationId, type, name, startTime, input, output, level}]}`, or the trace with the observations inside it.
//!
//! `input` and `output` are whatever the traced framework wrote: JSON, JSON inside a text, a Python literal, or words. The
//! same conversation is told at several levels; a run is read both from the generations and tools in their order, and from
//! the longest history that an observation was given, and the reading with more steps is taken. A score is a label only when
//! a person or the traced program gave it under a name that means success; what Langfuse's own model judges gave is none.

use super::chat::Chat;
use super::outcomes::from_reward;
use super::words::{unwrapped, words};
use super::{Detect, Format, Gives, Read, decode};
use folklore_store::run::{Run, RunOutcome, RunStatus, Step};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) const FORMAT: Format = Format {
    name: "langfuse",
    shape: "{trace{name, input, scores}, observations[{type, name, startTime, input, output}]}, one document a run",
    gives: Gives::Runs,
    from_description: false,
    detect: Detect::Fields(detect),
    read: Read::Run(parse),
};

/// Names of scores that say whether the task was solved.
const VERDICTS: [&str; 8] =
    ["success", "is_success", "resolved", "passed", "solved", "correct", "correctness", "reward"];

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    trace: Value,
    observations: Vec<Observation>,
    #[serde(flatten)]
    rest: serde_json::Map<String, Value>,
}

#[derive(Deserialize)]
struct Observation {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default, rename = "startTime")]
    start: String,
    #[serde(default)]
    input: Value,
    #[serde(default)]
    output: Value,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    level: Option<String>,
    #[serde(default, rename = "statusMessage")]
    status: Option<String>,
}

fn detect(names: &BTreeSet<&str>) -> bool {
    names.contains("observations")
        && (names.contains("trace") || names.contains("scores") || names.contains("projectId"))
}

fn parse(bytes: &[u8], _file: &str) -> Result<Run, String> {
    let document: Document = decode(bytes)?;
    let rest = Value::Object(document.rest);
    let trace = if document.trace.is_object() { &document.trace } else { &rest };
    let mut observations = document.observations;
    // Times are ISO 8601 in UTC, which sort as texts.
    observations.sort_by(|a, b| a.start.cmp(&b.start));
    let (by_order, by_history) = (in_order(&observations), longest_history(&observations));
    let acts = |steps: &[Step]| steps.iter().filter(|step| !step.action.is_empty()).count();
    let (mut task, steps) = match acts(&by_order.1) >= acts(&by_history.1) {
        true => by_order,
        false => by_history,
    };
    if steps.is_empty() {
        return Err(format!("none of its {} observations keeps a message or a tool call", observations.len()));
    }
    if task.trim().is_empty() {
        task = asked(trace.get("input").unwrap_or(&Value::Null));
    }
    let model = observations.iter().filter_map(|one| one.model.clone()).find(|model| !model.is_empty());
    let agent = model.unwrap_or_else(|| trace.get("name").map(words).unwrap_or_default());
    let failed = observations.iter().rev().find(|one| one.level.as_deref() == Some("ERROR"));
    let mut outcome = outcome(trace);
    if outcome.reason.is_none() {
        outcome.reason = failed.and_then(|one| one.status.clone()).map(|why| format!("an observation failed: {why}"));
    }
    Ok(Run { task_key: Run::key_from_task(&task), task, agent, steps, outcome, ..Run::default() })
}

fn outcome(trace: &Value) -> RunOutcome {
    for score in trace.get("scores").and_then(Value::as_array).into_iter().flatten() {
        let text = |name: &str| score.get(name).and_then(Value::as_str).unwrap_or_default();
        let is_verdict = VERDICTS.contains(&text("name").to_ascii_lowercase().as_str());
        if !is_verdict || text("source") == "EVAL" {
            continue;
        }
        let value = score.get("value").and_then(Value::as_f64);
        if let Some((status, reward_milli)) = value.and_then(from_reward) {
            let is_number = text("dataType") == "NUMERIC";
            return RunOutcome {
                status,
                reward_milli: is_number.then_some(reward_milli),
                judged_by: Some(format!("langfuse score {}", text("name"))),
                reason: Some(text("comment").to_owned()).filter(|_| status != RunStatus::Success),
                ..RunOutcome::default()
            };
        }
    }
    RunOutcome::default()
}

/// What an input asks for: the user's messages, a prompt, or the words.
fn asked(input: &Value) -> String {
    let input = unwrapped(input);
    let mut chat = Chat::default();
    let messages = input.get("messages").unwrap_or(&input);
    for message in messages.as_array().into_iter().flatten().chain([messages]) {
        let role = ["role", "type"].iter().find_map(|name| message.get(*name)?.as_str());
        if matches!(role, Some("user" | "human")) {
            chat.message(message);
        }
    }
    if !chat.task().is_empty() {
        return chat.task().to_owned();
    }
    let prompt = ["prompt", "question", "input", "query", "task"].iter().find_map(|name| input.get(*name)?.as_str());
    match (prompt, &input) {
        (Some(prompt), _) => prompt.to_owned(),
        (None, Value::String(text)) => text.clone(),
        _ => String::new(),
    }
}

/// Generations and tools in the order in which they began.
fn in_order(observations: &[Observation]) -> (String, Vec<Step>) {
    let mut chat = Chat::default();
    let mut told = BTreeSet::new();
    for one in observations {
        let name = one.name.as_deref().unwrap_or_default();
        let tool = name.strip_prefix("tool.").unwrap_or(name);
        if one.kind == "GENERATION" {
            for message in messages(&unwrapped(&one.input)) {
                let role = ["role", "type"].iter().find_map(|name| message.get(*name)?.as_str());
                if matches!(role, Some("user" | "human")) && told.insert(message.to_string()) {
                    chat.message(&message);
                }
            }
            answer(&unwrapped(&one.output), &mut chat);
        } else if one.kind == "TOOL" || name.starts_with("tool.") && !one.output.is_null() || chat.waits_for(tool) {
            let given = unwrapped(&one.input);
            let given = given.get("input").filter(|inner| inner.is_object()).unwrap_or(&given).clone();
            let mut result = words(&unwrapped(&one.output));
            if one.level.as_deref() == Some("ERROR") {
                result = format!("Error: {}\n{result}", one.status.as_deref().unwrap_or("no message"));
            }
            let given = Some(&given).filter(|given| given.is_object());
            chat.ran("", tool, given, &result);
        }
    }
    chat.finish()
}

/// The longest conversation that an observation was given, and what it answered.
fn longest_history(observations: &[Observation]) -> (String, Vec<Step>) {
    let mut chat = Chat::default();
    let lengths = observations.iter().map(|one| (messages(&unwrapped(&one.input)).len(), !one.output.is_null()));
    let Some((_, at)) = lengths.enumerate().map(|(at, length)| (length, at)).max() else { return chat.finish() };
    let Some(one) = observations.get(at) else { return chat.finish() };
    for message in messages(&unwrapped(&one.input)) {
        chat.message(&message);
    }
    answer(&unwrapped(&one.output), &mut chat);
    chat.finish()
}

fn messages(input: &Value) -> Vec<Value> {
    match input.get("messages").unwrap_or(input) {
        Value::Array(messages) => messages.clone(),
        one if one.get("role").is_some() => vec![one.clone()],
        _ => Vec::new(),
    }
}

fn answer(output: &Value, chat: &mut Chat) {
    // An answer of the Responses API, or a choice of the completions API, has its messages inside.
    let inside = ["output", "messages", "choices"].iter().find_map(|name| output.get(*name)?.as_array());
    match (inside, output) {
        (Some(items), _) => {
            for item in items {
                chat.message(item.get("message").unwrap_or(item));
            }
        }
        (None, Value::Null) => {}
        (None, output) => {
            if !chat.message(output) {
                chat.say(&words(output));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(document: &Value) -> Result<Run, String> {
        parse(document.to_string().as_bytes(), "")
    }

    #[test]
    fn generations_and_tools_become_steps_in_time_order() {
        let document = json!({"trace": {"name": "t", "scores": [
                {"name": "toxicity", "value": 0.8, "source": "API"}, {"name": "correctness", "value": 0, "source": "EVAL", "dataType": "NUMERIC"}]},
            "observations": [
                {"type": "TOOL", "name": "weather", "startTime": "2025-01-01T00:00:02Z", "input": "{\"city\":\"Rome\"}", "output": "sunny"},
                {"type": "GENERATION", "name": "g", "startTime": "2025-01-01T00:00:01Z", "model": "m",
                 "input": "[{\"role\":\"user\",\"content\":\"How is Rome?\"}]",
                 "output": {"output": [{"type": "function_call", "name": "weather", "arguments": "{\"city\":\"Rome\"}", "call_id": "c"}]}},
                {"type": "GENERATION", "name": "g", "startTime": "2025-01-01T00:00:03Z", "input": null, "output": "{'role': 'assistant', 'text': 'It is sunny.'}"}]});
        let run = read(&document).unwrap();
        let got: Vec<_> = run.steps.iter().map(|s| (s.action.as_str(), s.observation.as_str())).collect();
        assert_eq!(got, [("weather {\"city\":\"Rome\"}", "sunny"), ("respond: It is sunny.", "")]);
        assert_eq!((run.task.as_str(), run.agent.as_str()), ("How is Rome?", "m"));
        assert_eq!(run.outcome.status, RunStatus::Unknown, "a model's score is no label");
    }

    #[test]
    fn a_persons_score_is_a_label_and_an_empty_trace_is_refused() {
        let mut document = json!({"id": "t", "projectId": "p", "input": "q", "observations": [
                {"type": "GENERATION", "startTime": "1", "input": "hello", "output": "hi"}],
            "scores": [{"name": "Success", "value": 1, "source": "ANNOTATION", "dataType": "BOOLEAN"}]});
        let run = read(&document).unwrap();
        assert_eq!((run.outcome.status, run.outcome.reward_milli, run.task.as_str()), (RunStatus::Success, None, "q"));
        document["observations"] = json!([{"type": "SPAN", "startTime": "1"}]);
        assert!(read(&document).unwrap_err().contains("none of its 1 observations"));
    }
}
