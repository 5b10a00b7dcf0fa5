//! `folklore forget`: erase the text of a lesson from this node.

use clap::Args;

use super::Context;
use crate::api::{Answer, ForgetRequest, ForgetResponse};

#[derive(Debug, Args)]
pub(super) struct ForgetArgs {
    /// Lesson id, or its first characters
    id: String,
}

pub(super) async fn run(args: ForgetArgs, context: &mut Context) -> Answer<u8> {
    let answer = context.client()?.post("forget", &ForgetRequest { id: args.id }).await?;
    context.show(&answer, text)?;
    Ok(0)
}

fn text(response: &ForgetResponse) -> String {
    let what = match (response.erased, response.again) {
        (true, _) => "its text is erased here",
        (false, true) if response.left.is_empty() => "it was before, and nothing of its text is left here",
        (false, true) => "it was before",
        (false, false) => "its text was not here",
    };
    let mut out = format!("{} is forgotten: {what}, and no peer brings it back", response.id);
    for left in &response.left {
        out.push_str("\nbut ");
        out.push_str(left);
    }
    out
}
