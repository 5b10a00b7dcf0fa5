//! `folklore step`: what a run did, as JSON on stdin.

use clap::Args;
use serde_json::{Map, Value};

use super::{Context, read_input, words::short_hash};
use crate::{
    api::{Answer, ApiError, StepResponse},
    http::MAX_STEP_BODY_BYTES,
};

/// The step on stdin: {"n":1,"think":…,"action":…,"observation":…}; with "started":true it says that the action is about to
/// be started, and may have effects.
#[derive(Debug, Args)]
pub(super) struct StepArgs {
    /// The run and its lease, RUN@LEASE, as 'begin' and 'resume' answered it
    run: String,
}

pub(super) async fn run(args: StepArgs, context: &mut Context) -> Answer<u8> {
    let client = context.client()?;
    let text = read_input(&mut *context.input, MAX_STEP_BODY_BYTES - args.run.len().min(1024), "the step")?;
    let wrong = |why: String| ApiError::bad_request(format!("stdin holds no step as a JSON object: {why}"));
    if text.trim().is_empty() {
        return Err(wrong("it is empty".into()));
    }
    // Its fields are the daemon's to check: it may be newer and know more of them.
    let mut step: Map<String, Value> = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    step.insert("run".into(), Value::String(args.run));
    let answer = client.post("step", &step).await?;
    context.show(&answer, shown)?;
    Ok(0)
}

fn shown(done: &StepResponse) -> String {
    let n = done.n;
    let said = match (done.started, done.known) {
        (true, _) => format!("step {n} is marked as started"),
        (false, true) => format!("step {n} is recorded already"),
        (false, false) => format!("recorded step {n}"),
    };
    format!("{said}; next {}, state {}", done.next, short_hash(&done.state))
}
