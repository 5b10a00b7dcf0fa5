//! `folklore end`: how a run went.

use clap::Args;
use folklore_protocol::claim::Outcome;

use super::{
    Context,
    words::{count, len, replaced},
};
use crate::api::{Answer, EndRequest, EndResponse};

#[derive(Debug, Args)]
pub(super) struct EndArgs {
    /// The run and its lease, RUN@LEASE
    run: String,
    /// How it went: success, failure, partial or unknown
    #[arg(long, value_name = "OUTCOME")]
    outcome: Outcome,
    /// Reward in thousandths; 1000 is a full success
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    reward_milli: Option<i32>,
    /// What the judge said
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Who judged
    #[arg(long, value_name = "NAME")]
    judged_by: Option<String>,
}

pub(super) async fn run(args: EndArgs, context: &mut Context) -> Answer<u8> {
    let EndArgs { run, outcome, reward_milli, reason, judged_by } = args;
    let request = EndRequest { run, outcome, reward_milli, reason, judged_by };
    let answer = context.client()?.post("end", &request).await?;
    context.show(&answer, shown)?;
    Ok(0)
}

fn shown(ended: &EndResponse) -> String {
    if ended.known {
        return format!("{} had ended so before ({}, {} steps)", ended.name, ended.outcome, ended.steps);
    }
    let lessons = count(len(&ended.lessons), "lesson");
    let mut text = format!("{} ended: {}, {}, {lessons}", ended.name, ended.outcome, count(ended.steps.into(), "step"));
    for id in &ended.lessons {
        text.push_str(&format!("\n{id}"));
    }
    for line in replaced(&ended.replaced, len(&ended.replaced)) {
        text.push_str(&format!("\n{line}"));
    }
    if ended.queued > 0 {
        text.push_str(&format!("\n{} for the model: 'folklore jobs' shows how far it is", count(ended.queued, "job")));
    }
    for none in &ended.no_lesson {
        text.push_str(&format!("\nno lesson: {}", none.reason));
    }
    text
}
