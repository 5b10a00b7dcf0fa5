//! The arguments of a tool call, in the notations that agents write them in: objects, JSON as text, Python literals.

use serde_json::{Map, Value};

/// Nesting of a Python literal that is followed.
const MAX_LITERAL_DEPTH: usize = 32;

/// An action as text: `name {"argument":"value"}`.
pub(super) fn call_text(name: &str, arguments: &Value) -> String {
    format!("{name} {arguments}")
}

/// A call's arguments as a value; text that is neither JSON nor a Python literal stays text.
pub(super) fn arguments(arguments: &Value) -> Value {
    match arguments {
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(value) => value,
            Err(_) => literal(text).map(unpack).unwrap_or_else(|| Value::String(text.clone())),
        },
        Value::Null => Value::Object(Map::new()),
        other => other.clone(),
    }
}

/// Such agents also write lists as texts inside the literal: `"['1', '2']"` is the list.
fn unpack(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(map.into_iter().map(|(key, value)| (key, unpack(value))).collect()),
        Value::String(text) if text.starts_with('[') => literal(&text).unwrap_or(Value::String(text)),
        other => other,
    }
}

/// Reads a Python literal made of dicts, lists, tuples, strings, numbers, `True`, `False` and `None`.
pub(super) fn literal(text: &str) -> Option<Value> {
    let mut rest = text.trim_start();
    let value = literal_value(&mut rest, 0)?;
    rest.trim().is_empty().then_some(value)
}

fn literal_value(rest: &mut &str, depth: usize) -> Option<Value> {
    if depth > MAX_LITERAL_DEPTH {
        return None;
    }
    *rest = rest.trim_start();
    let first = rest.chars().next()?;
    match first {
        '{' => {
            *rest = &rest[1..];
            let mut map = Map::new();
            loop {
                if eat(rest, '}') {
                    return Some(Value::Object(map));
                }
                let Value::String(key) = literal_value(rest, depth + 1)? else {
                    return None;
                };
                if !eat(rest, ':') {
                    return None;
                }
                map.insert(key, literal_value(rest, depth + 1)?);
                if !eat(rest, ',') && !rest.trim_start().starts_with('}') {
                    return None;
                }
            }
        }
        '[' | '(' => {
            let close = if first == '[' { ']' } else { ')' };
            *rest = &rest[1..];
            let mut list = Vec::new();
            loop {
                if eat(rest, close) {
                    return Some(Value::Array(list));
                }
                list.push(literal_value(rest, depth + 1)?);
                if !eat(rest, ',') && !rest.trim_start().starts_with(close) {
                    return None;
                }
            }
        }
        '\'' | '"' => {
            let mut out = String::new();
            let mut chars = rest[1..].char_indices();
            while let Some((at, c)) = chars.next() {
                match c {
                    '\\' => match chars.next()?.1 {
                        'n' => out.push('\n'),
                        't' => out.push('\t'),
                        other => out.push(other),
                    },
                    c if c == first => {
                        *rest = &rest[1 + at + 1..];
                        return Some(Value::String(out));
                    }
                    c => out.push(c),
                }
            }
            None
        }
        _ => {
            let end = rest.find([',', '}', ']', ')', ':']).unwrap_or(rest.len());
            let word = rest[..end].trim();
            *rest = &rest[end..];
            match word {
                "True" => Some(Value::Bool(true)),
                "False" => Some(Value::Bool(false)),
                "None" => Some(Value::Null),
                word => word.parse().ok().map(Value::Number),
            }
        }
    }
}

fn eat(rest: &mut &str, wanted: char) -> bool {
    let trimmed = rest.trim_start();
    match trimmed.strip_prefix(wanted) {
        Some(after) => {
            *rest = after;
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn literals_that_are_none_stay_text() {
        for text in ["{'a': }", "{'a' 1}", "['a'", "os.system('x')", "'", &"[".repeat(200), "{1: 2}", "['\\"] {
            assert_eq!(arguments(&json!(text)), json!(text), "{text}");
        }
        assert_eq!(arguments(&json!("{'it': \"isn't\", 't': (1, True,)}")), json!({"it": "isn't", "t": [1, true]}));
    }
}
