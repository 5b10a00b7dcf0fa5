//! Turns a conversation with tool calls into a task and steps, whichever of the usual spellings it is in.
//!
//! Understood are OpenAI chat messages (`content`, `tool_calls`, role `tool`), the Responses API (`function_call`,
//! `function_call_output`), Anthropic content blocks (`tool_use`, `tool_result`, `thinking`), OpenTelemetry GenAI parts
//! (`tool_call`, `tool_call_response`), LangChain messages (`type: human`) and inspect_ai's. The words of one assistant's
//! turn that calls a tool are the thought of that call; without a call they are a message to the user. What the user says
//! first is the task.

use super::arguments::{arguments, call_text};
use super::words::{join, words};
use folklore_store::run::Step;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Calls that wait for their results. More are open at once only in a broken file.
const MAX_OPEN_CALLS: usize = 256;
/// Tools whose argument is a shell command: the command itself is the action, as everywhere in the project.
const SHELLS: [&str; 11] = [
    "bash",
    "shell",
    "sh",
    "local_shell",
    "local_shell_call",
    "exec_command",
    "shell_command",
    "execute_bash",
    "terminal",
    "run_command",
    "container.exec",
];

/// A call whose result has not come.
struct Open {
    id: String,
    name: String,
    step: usize,
}

/// A conversation under way.
#[derive(Default)]
pub(super) struct Chat {
    task: String,
    steps: Vec<Step>,
    open: Vec<Open>,
    /// Reasoning that waits for the move it led to.
    thought: String,
    /// Words that are a thought if a call follows, else a message.
    said: String,
    /// Ids of calls seen, because traces tell the same call at several levels.
    seen: BTreeSet<String>,
}

impl Chat {
    /// Whether nothing was said or done yet.
    pub(super) fn is_empty(&self) -> bool {
        self.task.is_empty() && self.steps.is_empty() && self.said.is_empty() && self.thought.is_empty()
    }

    /// The task so far.
    pub(super) fn task(&self) -> &str {
        &self.task
    }

    /// Words of the user, or of whoever gives the task.
    pub(super) fn user(&mut self, text: &str) {
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        self.flush();
        match self.steps.last_mut() {
            None => join(&mut self.task, text),
            Some(step) if step.action.starts_with("respond:") || step.action.is_empty() => {
                join(&mut step.observation, text);
            }
            Some(_) => self.steps.push(Step { observation: text.to_owned(), ..Step::default() }),
        }
    }

    /// Reasoning that is not shown to the user.
    pub(super) fn think(&mut self, text: &str) {
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        if !self.said.is_empty() {
            self.flush();
        }
        join(&mut self.thought, text);
    }

    /// Words of the assistant.
    pub(super) fn say(&mut self, text: &str) {
        let text = text.trim();
        // A trace tells the same answer at several levels.
        let last = self.steps.last().and_then(|step| step.action.strip_prefix("respond: "));
        if !text.is_empty() && text != self.said && last != Some(text) {
            join(&mut self.said, text);
        }
    }

    /// A tool call.
    pub(super) fn call(&mut self, id: &str, name: &str, given: &Value) {
        if !id.is_empty() && !self.seen.insert(id.to_owned()) {
            return;
        }
        let mut think = std::mem::take(&mut self.thought);
        join(&mut think, &std::mem::take(&mut self.said));
        self.open.push(Open { id: id.to_owned(), name: name.to_owned(), step: self.steps.len() });
        if self.open.len() > MAX_OPEN_CALLS {
            self.open.remove(0);
        }
        self.steps.push(Step { think, action: action(name, given), observation: String::new() });
    }

    /// What a call gave: by the call's id, else by the tool's name, else the oldest that waits.
    pub(super) fn result(&mut self, id: &str, name: &str, text: &str) {
        match self.close(id, name) {
            Some(at) => {
                if let Some(step) = self.steps.get_mut(at) {
                    join(&mut step.observation, text);
                }
            }
            None => {
                self.flush();
                self.steps.push(Step { observation: text.trim().to_owned(), ..Step::default() });
            }
        }
    }

    /// What came back after the last words or call, from whatever is not the user.
    pub(super) fn observe(&mut self, text: &str) {
        self.flush();
        match self.steps.last_mut() {
            Some(step) => join(&mut step.observation, text),
            None => self.steps.push(Step { observation: text.to_owned(), ..Step::default() }),
        }
    }

    /// A call told together with its result, as a span of a trace tells it. The model may have told the call before.
    pub(super) fn ran(&mut self, id: &str, name: &str, given: Option<&Value>, text: &str) {
        let known = self.open.iter().any(|open| (!id.is_empty() && open.id == id) || open.name == name);
        if !known {
            self.call(id, name, given.unwrap_or(&Value::Null));
        }
        let Some(at) = self.close(id, name) else { return };
        let Some(step) = self.steps.get_mut(at) else { return };
        // The span knows what was really run; the model's own account may have lost the arguments.
        if let Some(given) = given {
            step.action = action(name, given);
        }
        join(&mut step.observation, text.trim());
    }

    /// Whether a call of this tool waits for its result.
    pub(super) fn waits_for(&self, name: &str) -> bool {
        self.open.iter().any(|open| open.name == name)
    }

    /// Reads a message; false when it is none.
    pub(super) fn message(&mut self, message: &Value) -> bool {
        let Some(fields) = message.as_object() else {
            return match message {
                Value::Array(several) => several.iter().filter(|one| self.message(one)).count() > 0,
                _ => false,
            };
        };
        let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "function_call" | "custom_tool_call" | "tool_use" | "tool_call" | "mcp_call" => {
                self.part(message, true);
                return true;
            }
            "function_call_output" | "custom_tool_call_output" | "tool_result" | "tool_call_response" => {
                self.part(message, false);
                return true;
            }
            "reasoning" if !fields.contains_key("role") => {
                self.part(message, true);
                return true;
            }
            _ => {}
        }
        let role = match text("role") {
            "" => text("type"),
            role => role,
        };
        let content = ["content", "parts", "text"].iter().find_map(|name| fields.get(*name)).unwrap_or(&Value::Null);
        match role {
            "system" | "developer" => true,
            "user" | "human" => {
                self.content(content, false);
                true
            }
            "assistant" | "ai" | "model" | "AIMessage" => {
                for name in ["reasoning_content", "reasoning"] {
                    self.think(fields.get(name).and_then(Value::as_str).unwrap_or_default());
                }
                self.content(content, true);
                self.calls(fields);
                true
            }
            "tool" | "function" => {
                let id = ["tool_call_id", "id"].iter().find_map(|name| fields.get(*name)?.as_str()).unwrap_or_default();
                let name = ["name", "function"].iter().find_map(|name| fields.get(*name)?.as_str()).unwrap_or_default();
                if let Some(parts) = content.as_array()
                    && parts.iter().any(|part| part.get("type").and_then(Value::as_str) == Some("tool_call_response"))
                {
                    parts.iter().for_each(|part| self.part(part, false));
                    return true;
                }
                let error = fields.get("error").and_then(|error| error.get("message")).map(words).unwrap_or_default();
                let mut got = if error.is_empty() { String::new() } else { format!("Error: {error}") };
                join(&mut got, &words(content));
                self.result(id, name, &got);
                true
            }
            _ => false,
        }
    }

    fn calls(&mut self, fields: &Map<String, Value>) {
        let extra = fields.get("additional_kwargs").and_then(|extra| extra.get("tool_calls"));
        let calls = fields.get("tool_calls").filter(|calls| calls.as_array().is_some_and(|list| !list.is_empty()));
        for call in calls.or(extra).and_then(Value::as_array).into_iter().flatten() {
            self.part(call, true);
        }
        if let Some(call) = fields.get("function_call").filter(|call| call.is_object()) {
            self.part(call, true);
        }
    }

    /// A message's content: a text, or blocks of several kinds.
    fn content(&mut self, content: &Value, assistant: bool) {
        match content {
            Value::String(text) => {
                // Some frameworks put the calls into the content, as text.
                let calls = text.starts_with("[{").then(|| serde_json::from_str::<Vec<Value>>(text).ok()).flatten();
                match calls.filter(|calls| assistant && !calls.is_empty() && calls.iter().all(is_call)) {
                    Some(calls) => calls.iter().for_each(|call| self.part(call, true)),
                    None => self.words(text, assistant),
                }
            }
            Value::Array(parts) => parts.iter().for_each(|part| self.part(part, assistant)),
            Value::Object(_) => self.part(content, assistant),
            _ => {}
        }
    }

    fn words(&mut self, text: &str, assistant: bool) {
        if assistant { self.say(text) } else { self.user(text) }
    }

    fn part(&mut self, part: &Value, assistant: bool) {
        let text = |name: &str| part.get(name).and_then(Value::as_str).unwrap_or_default();
        let id =
            ["call_id", "tool_use_id", "tool_call_id", "id"].iter().map(|name| text(name)).find(|id| !id.is_empty());
        let id = id.unwrap_or_default();
        match text("type") {
            "tool_result" | "tool_call_response" | "function_call_output" | "custom_tool_call_output" => {
                let got = ["content", "output", "response", "result"].iter().find_map(|name| part.get(*name));
                let got = got.map(words).unwrap_or_default();
                let failed = part.get("is_error") == Some(&Value::Bool(true));
                let mark = if failed && !got.to_ascii_lowercase().contains("error") { "Error: " } else { "" };
                self.result(id, text("name"), &format!("{mark}{got}"));
            }
            "thinking" => self.think(text("thinking")),
            "reasoning" => {
                let summary = part.get("summary").or_else(|| part.get("content")).map(words).unwrap_or_default();
                self.think(
                    ["reasoning", "text"].iter().map(|name| text(name)).find(|t| !t.is_empty()).unwrap_or(&summary),
                );
            }
            _ if is_call(part) => {
                let function = part.get("function");
                let name = function.and_then(|f| f.get("name")).or_else(|| part.get("name")).or(function);
                let given = ["arguments", "args", "input", "parameters"].iter();
                let given = given.copied().find_map(|name| {
                    function.and_then(|f| f.get(name)).or_else(|| part.get(name)).filter(|given| !given.is_null())
                });
                let name = name.and_then(Value::as_str).unwrap_or_default();
                self.call(id, name, given.unwrap_or(&Value::Null));
            }
            "image" | "image_url" | "input_image" | "document" | "input_audio" | "audio" | "blob" | "uri" | "file" => {
                self.words(&words(part), assistant);
            }
            _ => {
                let said = words(part);
                self.words(&said, assistant);
            }
        }
    }

    fn close(&mut self, id: &str, name: &str) -> Option<usize> {
        let by_id = self.open.iter().position(|open| !id.is_empty() && open.id == id);
        let by_name = || self.open.iter().position(|open| !name.is_empty() && open.name == name);
        let oldest = || (id.is_empty() && name.is_empty() && !self.open.is_empty()).then_some(0);
        let at = by_id.or_else(by_name).or_else(oldest)?;
        Some(self.open.remove(at).step)
    }

    /// What was said and not followed by a call was meant for the user.
    fn flush(&mut self) {
        let (think, said) = (std::mem::take(&mut self.thought), std::mem::take(&mut self.said));
        if !said.is_empty() {
            self.steps.push(Step { think, action: format!("respond: {said}"), observation: String::new() });
        } else if !think.is_empty() {
            self.steps.push(Step { think, ..Step::default() });
        }
    }

    /// The task and the steps.
    pub(super) fn finish(mut self) -> (String, Vec<Step>) {
        self.flush();
        (self.task, self.steps)
    }
}

fn is_call(part: &Value) -> bool {
    let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
    matches!(kind, "tool_use" | "tool_call" | "function_call" | "custom_tool_call" | "mcp_call")
        || part.get("function").is_some_and(|f| f.get("name").is_some() || f.is_string())
        || (part.get("name").is_some_and(Value::is_string)
            && ["arguments", "args"].iter().any(|name| part.get(*name).is_some()))
}

/// A call as an action: a shell command as itself, every other call as `name {arguments}`.
pub(super) fn action(name: &str, given: &Value) -> String {
    let given = match arguments(given) {
        Value::Object(map) => map,
        Value::Null => Map::new(),
        other => Map::from_iter([("input".to_owned(), other)]),
    };
    let is_shell = SHELLS.iter().any(|shell| name.eq_ignore_ascii_case(shell));
    let command = ["command", "cmd", "script", "code"].iter().find_map(|field| given.get(*field));
    match command {
        Some(Value::String(command)) if is_shell && !command.trim().is_empty() => command.trim().to_owned(),
        // `["bash", "-lc", "make test"]`: the last is what was run.
        Some(Value::Array(words)) if is_shell => match words.as_slice() {
            [_, flag, Value::String(script)] if flag.as_str().is_some_and(|flag| flag.starts_with('-')) => {
                script.trim().to_owned()
            }
            words => words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        },
        _ => call_text(if name.is_empty() { "unnamed_tool" } else { name }, &Value::Object(given)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn steps(messages: &[Value]) -> (String, Vec<[String; 3]>) {
        let mut chat = Chat::default();
        for message in messages {
            assert!(chat.message(message), "{message}");
        }
        let (task, steps) = chat.finish();
        (task, steps.into_iter().map(|s| [s.think, s.action, s.observation]).collect())
    }

    #[test]
    fn one_conversation_in_four_spellings_gives_the_same_steps() {
        let openai = [
            json!({"role": "system", "content": "rules"}),
            json!({"role": "user", "content": "find it"}),
            json!({"role": "assistant", "content": "I look.", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "search", "arguments": "{\"q\": \"x\"}"}}]}),
            json!({"role": "tool", "tool_call_id": "c1", "content": "found"}),
            json!({"role": "assistant", "content": "Here."}),
        ];
        let anthropic = [
            json!({"role": "user", "content": [{"type": "text", "text": "find it"}]}),
            json!({"role": "assistant", "content": [{"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "c1", "name": "search", "input": {"q": "x"}}]}),
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "found"}]}]}),
            json!({"role": "assistant", "content": [{"type": "text", "text": "Here."}]}),
        ];
        let responses = [
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "find it"}]}),
            json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]}),
            json!({"type": "function_call", "name": "search", "arguments": "{\"q\":\"x\"}", "call_id": "c1"}),
            json!({"type": "function_call_output", "call_id": "c1", "output": "found"}),
            json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Here."}]}),
        ];
        let otel = [
            json!({"role": "user", "parts": [{"type": "text", "content": "find it"}]}),
            json!({"role": "assistant", "parts": [{"type": "text", "content": "I look."},
                {"type": "tool_call", "id": "c1", "name": "search", "arguments": {"q": "x"}}]}),
            json!({"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "found"}]}),
            json!({"role": "assistant", "parts": [{"type": "text", "content": "Here."}]}),
        ];
        let want = steps(&openai);
        assert_eq!(want.0, "find it");
        assert_eq!(want.1[0], ["I look.", "search {\"q\":\"x\"}", "found"].map(str::to_owned));
        assert_eq!(want.1[1], ["", "respond: Here.", ""].map(str::to_owned));
        for other in [&anthropic[..], &responses, &otel] {
            assert_eq!(steps(other), want);
        }
    }

    #[test]
    fn a_shell_tool_is_its_command() {
        assert_eq!(action("Bash", &json!({"command": " make test ", "description": "x"})), "make test");
        assert_eq!(action("shell", &json!({"command": ["bash", "-lc", "make"]})), "make");
        assert_eq!(action("shell", &json!("{\"command\":[\"ls\",\"-l\"]}")), "ls -l");
        assert_eq!(action("Edit", &json!({"command": "x"})), "Edit {\"command\":\"x\"}");
        assert_eq!(action("apply_patch", &json!("*** Begin")), "apply_patch {\"input\":\"*** Begin\"}");
    }

    #[test]
    fn results_find_their_calls_in_any_order_and_strays_are_kept() {
        let (_, got) = steps(&[
            json!({"role": "assistant", "content": null, "tool_calls": [
                {"id": "a", "function": "one", "arguments": {}}, {"id": "b", "function": "two", "arguments": {}}]}),
            json!({"role": "tool", "tool_call_id": "b", "content": "2"}),
            json!({"role": "tool", "tool_call_id": "a", "content": "1", "error": {"message": "late"}}),
            json!({"role": "tool", "tool_call_id": "z", "content": "stray"}),
        ]);
        assert_eq!(got[0][2], "Error: late\n1");
        assert_eq!((got[1][2].as_str(), got[2][2].as_str()), ("2", "stray"));
    }
}
