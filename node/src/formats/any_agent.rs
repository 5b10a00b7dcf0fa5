//! Traces of any-agent: `{spans[{name, context{trace_id, span_id}, start_time, attributes{gen_ai.*}, status}], final_output}`.
//!
//! One document a run. Trace ids are 128-bit numbers, which no JSON number of 64 bits holds, so they are not read as such:
//! a document holds one trace. `status` says that a call went through; there is no label.

use super::spans::{Span, run_of};
use super::words::words;
use super::{Detect, Format, Gives, Read, decode};
use folklore_store::run::Run;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

pub(super) const FORMAT: Format = Format {
    name: "any-agent",
    shape: "{spans[{name, context, start_time, attributes{gen_ai.*}}], final_output}, one document a run; no label",
    gives: Gives::Runs,
    from_description: false,
    detect: Detect::Fields(|names| names.contains("spans")),
    read: Read::Run(parse),
};

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    spans: Vec<Entry<'a>>,
    #[serde(default)]
    final_output: Value,
}

#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(default)]
    name: String,
    #[serde(default)]
    start_time: u64,
    #[serde(default)]
    attributes: Map<String, Value>,
    #[serde(default)]
    status: Value,
    #[serde(borrow, default)]
    parent: Option<Parent<'a>>,
}

#[derive(Deserialize)]
struct Parent<'a> {
    /// A number that may be larger than 2^64, or null.
    #[serde(borrow, default)]
    span_id: Option<&'a RawValue>,
}

fn parse(bytes: &[u8], _file: &str) -> Result<Run, String> {
    let document: Document<'_> = decode(bytes)?;
    let spans = document.spans.into_iter().map(|entry| {
        let of = |name: &str| entry.status.get(name).and_then(Value::as_str);
        let failed = of("status_code").is_some_and(|code| code.eq_ignore_ascii_case("error"));
        Span {
            is_root: entry.parent.as_ref().and_then(|parent| parent.span_id).is_none(),
            start: u128::from(entry.start_time),
            error: failed.then(|| of("description").unwrap_or("no message").to_owned()),
            name: entry.name,
            attributes: entry.attributes,
            events: Vec::new(),
        }
    });
    let mut run = run_of(spans.collect())?;
    let answer = words(&document.final_output);
    let said = run.steps.iter().any(|step| step.action.starts_with("respond:"));
    if !answer.is_empty() && !said {
        run.steps.push(folklore_store::run::Step { action: format!("respond: {answer}"), ..Default::default() });
    }
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_larger_than_a_number_do_no_harm() {
        let document = br#"{"spans":[{"name":"call_llm m","start_time":5,"context":{"trace_id":115825058289444712299650141807529952578,"span_id":1},
            "parent":{"trace_id":null,"span_id":null},"status":{"status_code":"error","description":"no key"},
            "attributes":{"gen_ai.operation.name":"call_llm","gen_ai.request.model":"m","gen_ai.output":"Here."}}],"final_output":"x"}"#;
        let run = parse(document, "").unwrap();
        assert_eq!((run.agent.as_str(), run.steps[0].action.as_str(), run.steps.len()), ("m", "respond: Here.", 1));
        assert!(run.outcome.reason.unwrap().contains("no key"));
        assert!(parse(br#"{"spans":[]}"#, "").unwrap_err().contains("none of its 0 spans"));
    }
}
