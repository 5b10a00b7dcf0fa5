//! `folklore rate`: did it help?

use clap::{Args, ValueEnum};
use folklore_protocol::claim::Verdict;

use super::{Context, words::standing};
use crate::api::{Answer, RateRequest, StandingResponse};

#[derive(Debug, Args)]
pub(super) struct RateArgs {
    /// Lesson id, or its first characters
    id: String,
    /// What it did
    #[arg(value_enum)]
    verdict: VerdictArg,
    /// Digest of the run it was used in
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum VerdictArg {
    Helped,
    Hurt,
}

impl From<VerdictArg> for Verdict {
    fn from(arg: VerdictArg) -> Self {
        match arg {
            VerdictArg::Helped => Self::Helped,
            VerdictArg::Hurt => Self::Hurt,
        }
    }
}

pub(super) async fn run(args: RateArgs, context: &mut Context) -> Answer<u8> {
    let request = RateRequest { id: args.id, verdict: args.verdict.into(), run: args.run };
    let answer = context.client()?.post("rate", &request).await?;
    context.show(&answer, text)?;
    Ok(0)
}

/// A lesson's standing after this node has said something.
pub(super) fn text(response: &StandingResponse) -> String {
    format!("{} is now {}", response.id, standing(&response.standing))
}
