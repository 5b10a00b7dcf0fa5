//! OTLP/JSON trace exports with GenAI attributes: `{resourceSpans[{scopeSpans[{spans[]}]}]}`, one request a line or several
//! documents in one file.
//!
//! The spans of a trace may be spread over requests, so a run is put together by trace id when the file ends, or earlier
//! when too much is open. Attributes are lists of `{key, value{stringValue | intValue | ...}}`.

use super::parts::{Gather, Parts};
use super::spans::{Span, run_of};
use super::{Detect, Format, Gives, Read, decode};
use serde_json::{Map, Value};

pub(super) const FORMAT: Format = Format {
    name: "otlp",
    shape: "OTLP/JSON {resourceSpans[{scopeSpans[{spans}]}]} with gen_ai.* attributes, one run a trace; no label",
    gives: Gives::Runs,
    from_description: false,
    detect: Detect::Fields(|names| names.contains("resourceSpans")),
    read: Read::Together(|_| Box::new(Traces::default())),
};

/// Bytes of requests whose traces are open at once; beyond, the trace that began first is taken for finished.
const MAX_OPEN_BYTES: usize = 32 * 1024 * 1024;
/// Traces that are open at once; requests of one exporter mix a few.
const MAX_OPEN_TRACES: usize = 1024;
/// Nesting of attribute values that is followed.
const MAX_DEPTH: usize = 16;

/// A trace under way: its id, its spans, bytes of the requests they came in.
type Trace = (String, Vec<Span>, usize);

#[derive(Default)]
struct Traces {
    /// In the order in which they began.
    open: Vec<Trace>,
    /// Bytes of all of them.
    held: usize,
}

impl Gather for Traces {
    fn take(&mut self, bytes: &[u8], parts: &mut Parts) -> Result<(), String> {
        let request: Value = decode(bytes)?;
        let mut any = false;
        for resource in list(request.get("resourceSpans")) {
            let scopes = ["scopeSpans", "instrumentationLibrarySpans"].iter().find_map(|name| resource.get(*name));
            for span in list(scopes).flat_map(|scope| list(scope.get("spans"))) {
                any = true;
                let text = |name: &str| span.get(name).and_then(Value::as_str).unwrap_or_default();
                let id = match text("traceId") {
                    "" => "without id",
                    id => id,
                };
                let size = span_bytes(span);
                self.held += size;
                match self.open.iter_mut().find(|(trace, ..)| trace == id) {
                    Some((_, spans, held)) => {
                        spans.push(read(span));
                        *held += size;
                    }
                    None => self.open.push((id.to_owned(), vec![read(span)], size)),
                }
            }
        }
        while (self.held > MAX_OPEN_BYTES || self.open.len() > MAX_OPEN_TRACES) && !self.open.is_empty() {
            let trace = self.open.remove(0);
            self.held = self.held.saturating_sub(trace.2);
            self.close(trace, parts);
        }
        if any { Ok(()) } else { Err("it holds no spans".into()) }
    }

    fn end(&mut self, parts: &mut Parts) {
        for trace in std::mem::take(&mut self.open) {
            self.close(trace, parts);
        }
    }
}

impl Traces {
    fn close(&self, (id, spans, _): Trace, parts: &mut Parts) {
        match run_of(spans) {
            Ok(run) => parts.run(format!("trace {id}"), run),
            Err(reason) => parts.refuse(format!("trace {id}"), reason),
        }
    }
}

fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

fn span_bytes(span: &Value) -> usize {
    fn of(value: &Value) -> usize {
        match value {
            Value::String(text) => text.len() + 24,
            Value::Array(list) => list.iter().map(of).sum::<usize>() + 24,
            Value::Object(map) => map.iter().map(|(key, value)| key.len() + 48 + of(value)).sum(),
            _ => 24,
        }
    }
    of(span)
}

fn read(span: &Value) -> Span {
    let text = |name: &str| span.get(name).and_then(Value::as_str).unwrap_or_default();
    let events = list(span.get("events")).map(|event| {
        let name = event.get("name").and_then(Value::as_str).unwrap_or_default();
        (name.to_owned(), attributes(event.get("attributes")))
    });
    let start = span.get("startTimeUnixNano").map(super::words::words).unwrap_or_default();
    let status = span.get("status");
    // The code is a number in OTLP/JSON, and its name in files of some exporters.
    let failed = status.and_then(|status| status.get("code"));
    let failed = failed.is_some_and(|code| code.as_i64() == Some(2) || code.as_str() == Some("STATUS_CODE_ERROR"));
    let message = status.and_then(|status| status.get("message")).and_then(Value::as_str).unwrap_or("no message");
    Span {
        name: text("name").to_owned(),
        start: start.parse().unwrap_or_default(),
        attributes: attributes(span.get("attributes")),
        events: events.collect(),
        error: failed.then(|| message.to_owned()),
        is_root: text("parentSpanId").is_empty(),
    }
}

fn attributes(list_of: Option<&Value>) -> Map<String, Value> {
    list(list_of)
        .filter_map(|pair| Some((pair.get("key")?.as_str()?.to_owned(), plain(pair.get("value")?, 0))))
        .collect()
}

/// A typed value of OTLP as plain JSON.
fn plain(value: &Value, depth: usize) -> Value {
    let Some((kind, inner)) = value.as_object().and_then(|fields| fields.iter().next()) else { return Value::Null };
    match kind.as_str() {
        // 64-bit numbers are texts.
        "intValue" => {
            inner.as_str().and_then(|text| text.parse::<i64>().ok()).map_or_else(|| inner.clone(), Value::from)
        }
        "arrayValue" if depth < MAX_DEPTH => list(inner.get("values")).map(|value| plain(value, depth + 1)).collect(),
        "kvlistValue" if depth < MAX_DEPTH => list(inner.get("values"))
            .filter_map(|pair| Some((pair.get("key")?.as_str()?.to_owned(), plain(pair.get("value")?, depth + 1))))
            .collect::<Map<_, _>>()
            .into(),
        _ => inner.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parts::Part;
    use super::*;
    use serde_json::json;

    fn request(trace: &str, start: &str, attributes: Value) -> String {
        json!({"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": trace, "spanId": "1", "name": "chat m",
            "startTimeUnixNano": start, "attributes": attributes, "status": {}}]}]}]})
        .to_string()
    }

    fn text(key: &str, value: &str) -> Value {
        json!({"key": key, "value": {"stringValue": value}})
    }

    #[test]
    fn a_trace_over_two_requests_is_one_run() {
        let (mut traces, mut parts) = (Traces::default(), Parts::default());
        let parts_of_message = json!({"key": "gen_ai.output.messages", "value": {"arrayValue": {"values": [{"kvlistValue": {"values": [
            {"key": "role", "value": {"stringValue": "assistant"}},
            {"key": "content", "value": {"stringValue": "Here."}}]}}]}}});
        for one in [
            request("a", "2000", json!([parts_of_message])),
            request("b", "1", json!([text("http.method", "GET"), {"key": "n", "value": {"intValue": "7"}}])),
            request(
                "a",
                "1000",
                json!([
                    text("gen_ai.input.messages", "[{\"role\":\"user\",\"content\":\"find it\"}]"),
                    text(
                        "gen_ai.output.messages",
                        "[{\"role\":\"assistant\",\"content\":\"I look.\",\"tool_calls\":[{\"id\":\"c\",\"name\":\"search\",\"arguments\":{}}]}]"
                    )
                ]),
            ),
        ] {
            traces.take(one.as_bytes(), &mut parts).unwrap();
        }
        assert!(traces.take(b"{\"resourceSpans\":[]}", &mut parts).unwrap_err().contains("no spans"));
        traces.end(&mut parts);
        let (name, Part::Run(run)) = &parts.0[0] else { panic!() };
        assert_eq!((name.as_str(), run.task.as_str(), run.steps.len()), ("trace a", "find it", 2));
        assert_eq!(run.steps[1].action, "respond: Here.");
        assert!(matches!(&parts.0[1], (name, Part::Refused(_)) if name == "trace b"));
    }
}
