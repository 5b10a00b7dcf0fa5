//! `folklore teach`: one lesson as JSON on stdin.

use clap::Args;
use serde_json::{Map, Value};

use super::{
    Context, read_input,
    words::{count, len, replaced},
};
use crate::{
    api::{Answer, ApiError, TeachResponse},
    http::MAX_TEACH_BYTES,
};

/// The lesson on stdin: {"kind":"strategy|pitfall|contrast|procedure","title":…,"content":…} and, where known,
/// "applies_when", "not_when", "task", "domain", "tags":[…].
#[derive(Debug, Args)]
pub(super) struct TeachArgs {
    /// Name or id of the bank that gets the lesson
    #[arg(long, value_name = "BANK")]
    bank: Option<String>,
}

pub(super) async fn run(args: TeachArgs, context: &mut Context) -> Answer<u8> {
    let client = context.client()?;
    let text = read_input(&mut *context.input, MAX_TEACH_BYTES, "the lesson")?;
    let answer = client.post("teach", &request(&text, args.bank)?).await?;
    context.show(&answer, shown)?;
    Ok(0)
}

/// The request. Its fields are the daemon's to check: it may be newer and know more of them.
fn request(text: &str, bank: Option<String>) -> Answer<Map<String, Value>> {
    let wrong = |why: String| ApiError::bad_request(format!("stdin holds no lesson as a JSON object: {why}"));
    if text.trim().is_empty() {
        return Err(wrong("it is empty".into()));
    }
    let mut lesson: Map<String, Value> = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    if let Some(bank) = bank {
        lesson.insert("bank".into(), Value::String(bank));
    }
    Ok(lesson)
}

fn shown(response: &TeachResponse) -> String {
    let mut text = match (&response.merged_into, response.new) {
        (Some(other), _) => format!("{} says almost the same as {other}: added to that one", response.id),
        (None, true) => format!("learned {}", response.id),
        (None, false) => format!("known already: {}", response.id),
    };
    for line in replaced(&response.replaced, len(&response.replaced)) {
        text.push_str(&format!("\n{line}"));
    }
    for redacted in &response.redacted {
        text.push_str(&format!("\nremoved a secret: {} ({})", redacted.rule, count(redacted.count, "place")));
    }
    text
}
