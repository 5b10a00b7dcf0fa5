//! Spans of one trace with OpenTelemetry's GenAI attributes, as a run.
//!
//! A model's span tells what it was given (`gen_ai.input.messages`) and what it answered (`gen_ai.output.messages`), a
//! tool's span what was run (`gen_ai.tool.name`, `gen_ai.tool.call.arguments`, `gen_ai.tool.call.result`). Older ways are
//! read too: `gen_ai.prompt.0.content` and `gen_ai.completion.0.content`, events such as `gen_ai.choice`, and any-agent's
//! `gen_ai.tool.args` and `gen_ai.output`. A span's status says whether the call went through, not whether the task was
//! solved, so such a run has no label.

use super::chat::Chat;
use super::words::{unwrapped, words};
use folklore_store::run::{Run, RunOutcome};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A span, whatever file it came from.
#[derive(Default)]
pub(super) struct Span {
    pub name: String,
    /// Nanoseconds since 1970, to sort by.
    pub start: u128,
    pub attributes: Map<String, Value>,
    /// Name and attributes.
    pub events: Vec<(String, Map<String, Value>)>,
    /// What went wrong, if its status says so.
    pub error: Option<String>,
    /// Whether it has no parent.
    pub is_root: bool,
}

/// What OpenTelemetry recommends for the events that carry whole conversations.
const DETAILS_EVENT: &str = "gen_ai.client.inference.operation.details";

/// Whether a span says anything about a model or a tool.
pub(super) fn is_gen_ai(span: &Span) -> bool {
    span.attributes.keys().any(|key| key.starts_with("gen_ai."))
        || span.events.iter().any(|(name, _)| name.starts_with("gen_ai."))
}

/// The run that a trace's spans tell.
pub(super) fn run_of(mut spans: Vec<Span>) -> Result<Run, String> {
    let count = spans.len();
    if !spans.iter().any(is_gen_ai) {
        return Err(format!("none of its {count} spans has gen_ai attributes"));
    }
    // The sort is stable: spans of one moment stay as the file has them.
    spans.sort_by_key(|span| span.start);
    let mut chat = Chat::default();
    let mut agent = String::new();
    let mut error = None;
    let mut told = BTreeSet::new();
    for span in &mut spans {
        if span.is_root {
            error = span.error.clone();
        }
        for (name, attributes) in &span.events {
            if name == DETAILS_EVENT {
                span.attributes.extend(attributes.clone());
            }
        }
        for name in ["gen_ai.response.model", "gen_ai.request.model"] {
            if agent.is_empty() {
                agent = span.attributes.get(name).map(words).unwrap_or_default();
            }
        }
        read(span, &mut chat, &mut told);
    }
    let (task, steps) = chat.finish();
    if steps.is_empty() {
        return Err(format!(
            "its {count} spans keep no message and no tool call: was recording of content switched off?"
        ));
    }
    Ok(Run {
        task_key: Run::key_from_task(&task),
        task,
        agent,
        steps,
        outcome: RunOutcome {
            reason: error.map(|error| format!("the trace ended with an error: {error}")),
            ..RunOutcome::default()
        },
        ..Run::default()
    })
}

fn read(span: &Span, chat: &mut Chat, told: &mut BTreeSet<String>) {
    let get = |names: &[&str]| names.iter().find_map(|name| span.attributes.get(*name));
    let text = |names: &[&str]| get(names).map(words).unwrap_or_default();
    let operation = text(&["gen_ai.operation.name"]);
    let tool = text(&["gen_ai.tool.name"]);
    if operation == "execute_tool" || (!tool.is_empty() && operation.is_empty()) {
        let given = get(&["gen_ai.tool.call.arguments", "gen_ai.tool.args", "gen_ai.tool.arguments"]).map(unwrapped);
        let result = get(&["gen_ai.tool.call.result", "gen_ai.tool.result", "gen_ai.tool.output", "gen_ai.output"]);
        let result = result.map(|result| words(&unwrapped(result))).unwrap_or_default();
        let result = match &span.error {
            Some(error) => format!("Error: {error}\n{result}"),
            None => result,
        };
        let name = if tool.is_empty() { span.name.trim_start_matches("execute_tool").trim() } else { &tool };
        chat.ran(&text(&["gen_ai.tool.call.id"]), name, given.as_ref(), result.trim());
        return;
    }
    let input = get(&["gen_ai.input.messages"]).map(unwrapped).or_else(|| numbered(span, "gen_ai.prompt."));
    // Every call repeats the conversation so far: what the user said is taken once.
    let mut user = |message: &Value, chat: &mut Chat| {
        let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
        if matches!(role, "user" | "human") && told.insert(message.to_string()) {
            chat.message(message);
        }
    };
    for message in input.as_ref().and_then(Value::as_array).into_iter().flatten() {
        user(message, chat);
    }
    let output = get(&["gen_ai.output.messages"]).map(unwrapped).or_else(|| numbered(span, "gen_ai.completion."));
    match output {
        Some(output) => {
            chat.message(&output);
        }
        None => answer(&get(&["gen_ai.output"]).map(unwrapped).unwrap_or_default(), chat),
    }
    for (name, attributes) in &span.events {
        let event = Value::Object(attributes.clone());
        match name.as_str() {
            "gen_ai.user.message" => user(&json!({"role": "user", "content": event.get("content")}), chat),
            "gen_ai.choice" => {
                let message = event.get("message").map(unwrapped).unwrap_or(event);
                let mut message = message.as_object().cloned().unwrap_or_default();
                message.entry("role").or_insert_with(|| json!("assistant"));
                chat.message(&Value::Object(message));
            }
            _ => {}
        }
    }
}

/// An answer that is no list of messages: words, or any-agent's list of calls.
fn answer(output: &Value, chat: &mut Chat) {
    let call = |value: &Value| Some((value.get("tool.name")?.as_str()?.to_owned(), value.get("tool.args").cloned()));
    match output {
        Value::Array(calls) if !calls.is_empty() && calls.iter().all(|value| call(value).is_some()) => {
            for (name, given) in calls.iter().filter_map(call) {
                chat.call("", &name, &given.unwrap_or_default());
            }
        }
        other => chat.say(&words(other)),
    }
}

/// `prefix0.role`, `prefix0.content`, `prefix1.role` ... as messages.
fn numbered(span: &Span, prefix: &str) -> Option<Value> {
    let mut messages: BTreeMap<u32, Map<String, Value>> = BTreeMap::new();
    for (key, value) in &span.attributes {
        let Some((number, field)) = key.strip_prefix(prefix).and_then(|rest| rest.split_once('.')) else { continue };
        let Ok(number) = number.parse() else { continue };
        messages.entry(number).or_default().insert(field.to_owned(), value.clone());
    }
    let messages: Vec<Value> = messages
        .into_values()
        .map(|mut fields| {
            fields.entry("role").or_insert_with(|| json!("assistant"));
            let called = fields.get("tool_calls.0.name").cloned();
            if let Some(name) = called {
                let given = fields.get("tool_calls.0.arguments").cloned().unwrap_or_default();
                let id = fields.get("tool_calls.0.id").cloned().unwrap_or_default();
                fields.insert("tool_calls".to_owned(), json!([{"id": id, "name": name, "arguments": given}]));
            }
            Value::Object(fields)
        })
        .collect();
    (!messages.is_empty()).then_some(Value::Array(messages))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: u128, attributes: Value) -> Span {
        Span { start, attributes: attributes.as_object().cloned().unwrap(), ..Span::default() }
    }

    fn steps(spans: Vec<Span>) -> (String, Vec<[String; 3]>) {
        let run = run_of(spans).unwrap();
        (run.task, run.steps.into_iter().map(|s| [s.think, s.action, s.observation]).collect())
    }

    #[test]
    fn three_ways_of_writing_a_trace_give_the_same_run() {
        let messages = |last: Value| {
            json!([{"role": "user", "parts": [{"type": "text", "content": "find it"}]}, last]).to_string()
        };
        let current = vec![
            span(
                3,
                json!({"gen_ai.operation.name": "chat", "gen_ai.input.messages": messages(json!({"role": "tool"})),
                "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": "Here."}]}]}),
            ),
            span(
                2,
                json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search", "gen_ai.tool.call.id": "c",
                "gen_ai.tool.call.arguments": "{\"q\":\"x\"}", "gen_ai.tool.call.result": "found"}),
            ),
            span(
                1,
                json!({"gen_ai.operation.name": "chat", "gen_ai.input.messages": messages(json!({"role": "system"})),
                "gen_ai.output.messages": "[{\"role\":\"assistant\",\"parts\":[{\"type\":\"tool_call\",\"id\":\"c\",\"name\":\"search\",\"arguments\":{}}]}]"}),
            ),
        ];
        let any_agent = vec![
            span(
                1,
                json!({"gen_ai.operation.name": "call_llm", "gen_ai.input.messages": "[{\"role\":\"user\",\"content\":\"find it\"}]",
                "gen_ai.output": "[{\"tool.name\": \"search\", \"tool.args\": \"{}\"}]"}),
            ),
            span(
                2,
                json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search", "gen_ai.tool.args": "{\"q\": \"x\"}", "gen_ai.output": "found"}),
            ),
            span(3, json!({"gen_ai.operation.name": "call_llm", "gen_ai.output": "Here."})),
        ];
        let numbered = vec![
            span(
                1,
                json!({"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "find it", "gen_ai.completion.0.role": "assistant",
                "gen_ai.completion.0.tool_calls.0.name": "search", "gen_ai.completion.0.tool_calls.0.arguments": "{\"q\":\"x\"}"}),
            ),
            span(2, json!({"gen_ai.tool.name": "search", "gen_ai.tool.call.result": "found"})),
            span(3, json!({"gen_ai.completion.0.content": "Here."})),
        ];
        let want = steps(current);
        assert_eq!(want.0, "find it");
        assert_eq!(want.1[0], ["", "search {\"q\":\"x\"}", "found"].map(str::to_owned));
        assert_eq!(want.1[1][1], "respond: Here.");
        assert_eq!(steps(any_agent), want);
        assert_eq!(steps(numbered), want);
    }

    #[test]
    fn a_trace_that_tells_nothing_says_why() {
        assert!(run_of(vec![span(1, json!({"http.method": "GET"}))]).unwrap_err().contains("none of its 1 spans"));
        assert!(run_of(vec![span(1, json!({"gen_ai.request.model": "m"}))]).unwrap_err().contains("content"));
    }
}
