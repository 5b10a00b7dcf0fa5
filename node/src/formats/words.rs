//! The words in a JSON value, whatever shape it has.

use serde_json::Value;

/// Nesting of content that is followed for words; deeper stays JSON.
const MAX_DEPTH: usize = 8;

/// A value's words: a text as it is; parts of a message by their text; nothing for null; anything else as compact JSON.
pub(super) fn words(value: &Value) -> String {
    at_depth(value, 0)
}

fn at_depth(value: &Value, depth: usize) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(parts) if depth < MAX_DEPTH && !parts.is_empty() && parts.iter().all(has_words) => {
            let texts = parts.iter().map(|part| at_depth(part, depth + 1)).filter(|text| !text.is_empty());
            texts.collect::<Vec<_>>().join("\n")
        }
        Value::Object(fields) if depth < MAX_DEPTH && has_words(value) => {
            if let Some(kind) = media(value) {
                return format!("[{kind}]");
            }
            let inside = ["text", "content", "output", "refusal"].iter().find_map(|name| fields.get(*name));
            inside.map(|inside| at_depth(inside, depth + 1)).unwrap_or_default()
        }
        other => other.to_string(),
    }
}

/// What is no text and is not kept: an image, a sound, a file.
fn media(value: &Value) -> Option<&'static str> {
    Some(match value.get("type").and_then(Value::as_str)? {
        "image" | "image_url" | "input_image" => "image",
        "input_audio" | "audio" => "audio",
        "document" | "file" | "blob" => "file",
        _ => return None,
    })
}

fn has_words(value: &Value) -> bool {
    match value {
        Value::String(_) => true,
        Value::Object(fields) => {
            media(value).is_some()
                || (fields.contains_key("text") || fields.contains_key("content") || fields.contains_key("refusal"))
                    && (fields.contains_key("type") || fields.len() <= 2)
                || (fields.len() <= 3 && fields.get("output").is_some_and(Value::is_string))
        }
        _ => false,
    }
}

/// Appends to a text, on a line of its own.
pub(super) fn join(text: &mut String, more: &str) {
    if more.is_empty() {
        return;
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(more);
}

/// An id that is a text or a number.
pub(super) fn id(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A value that may have been written as JSON, or as a Python literal, into a text, once or several times.
pub(super) fn unwrapped(value: &Value) -> Value {
    const MAX_WRAPPINGS: usize = 4;
    let mut value = value.clone();
    for _ in 0..MAX_WRAPPINGS {
        let Value::String(text) = &value else { break };
        let trimmed = text.trim_start();
        if !trimmed.starts_with(['{', '[', '"']) {
            break;
        }
        let inner = serde_json::from_str::<Value>(text).ok().or_else(|| super::arguments::literal(text));
        match inner {
            Some(inner) if !inner.is_number() => value = inner,
            _ => break,
        }
    }
    value
}

/// A programming task from its prompt: the words of the last docstring in front, because they say what is wanted, then
/// the prompt as it is.
pub(super) fn programming_task(prompt: &str) -> String {
    let docstring = ["\"\"\"", "'''"].iter().find_map(|quotes| {
        let (before, _) = prompt.trim_end().rsplit_once(quotes)?;
        let (_, inside) = before.rsplit_once(quotes)?;
        let said = inside.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(">>>"));
        Some(said.collect::<Vec<_>>().join(" ")).filter(|words| !words.is_empty())
    });
    match docstring {
        Some(mut task) => {
            join(&mut task, prompt.trim());
            task
        }
        None => prompt.trim().to_owned(),
    }
}

/// Lines of a text that grows to no more than a bound; what goes beyond is counted and said.
#[derive(Default)]
pub(super) struct Bounded {
    text: String,
    dropped: usize,
}

impl Bounded {
    /// Many times what is kept of a step's text.
    const MAX_BYTES: usize = 1024 * 1024;

    /// Appends a line.
    pub(super) fn line(&mut self, line: &str) {
        if self.text.len() + line.len() < Self::MAX_BYTES {
            self.text.push_str(line);
            self.text.push('\n');
        } else {
            self.dropped += line.len() + 1;
        }
    }

    /// The text.
    pub(super) fn finish(mut self) -> String {
        if self.dropped > 0 {
            self.text.push_str(&format!("[… {} bytes elided …]", self.dropped));
        }
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn words_come_out_of_every_usual_shape() {
        for (value, want) in [
            (json!(null), ""),
            (json!("a"), "a"),
            (json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), "a\nb"),
            (json!([{"type": "tool_result", "content": [{"type": "text", "text": "a"}]}]), "a"),
            (json!([{"type": "image", "source": {"data": "AAAA"}}, {"type": "text", "text": "b"}]), "[image]\nb"),
            (json!({"content": "a", "success": true}), "a"),
            (json!({"output": "a", "metadata": {}}), "a"),
            (json!({"url": "u", "n": 1}), "{\"n\":1,\"url\":\"u\"}"),
            (json!([{"url": "u"}]), "[{\"url\":\"u\"}]"),
            (json!([1, 2]), "[1,2]"),
        ] {
            assert_eq!(words(&value), want, "{value}");
        }
    }

    #[test]
    fn a_programming_task_begins_with_what_is_wanted() {
        let prompt = "import x\n\ndef f(n):\n    \"\"\"\n\tReturn the sum.\n    >>> f(1)\n    \"\"\"\n";
        let task = programming_task(prompt);
        assert!(task.starts_with("Return the sum.\nimport x\n") && task.ends_with("\"\"\""), "{task}");
        assert_eq!(programming_task("def f(): pass "), "def f(): pass");
    }

    #[test]
    fn wrapped_values_come_out_and_plain_text_stays() {
        assert_eq!(unwrapped(&json!("\"{\\\"a\\\":1}\"")), json!({"a": 1}));
        assert_eq!(unwrapped(&json!("{'a': 'b'}")), json!({"a": "b"}));
        assert_eq!(unwrapped(&json!("[not json")), json!("[not json"));
        assert_eq!(unwrapped(&json!("7")), json!("7"));
    }
}
