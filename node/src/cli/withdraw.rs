//! `folklore withdraw`: take back what this node taught.

use clap::Args;

use super::{Context, rate};
use crate::api::{Answer, WithdrawRequest};

#[derive(Debug, Args)]
pub(super) struct WithdrawArgs {
    /// Lesson id, or its first characters
    id: String,
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub(super) async fn run(args: WithdrawArgs, context: &mut Context) -> Answer<u8> {
    let answer = context.client()?.post("withdraw", &WithdrawRequest { id: args.id, reason: args.reason }).await?;
    context.show(&answer, rate::text)?;
    Ok(0)
}
