//! `folklore show`: one lesson and what is said about it.

use clap::Args;

use super::{
    Context,
    words::{count, fields, indent, standing},
};
use crate::api::{Answer, ClaimView, ShowRequest, ShowResponse};

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// Lesson id, or its first characters
    id: String,
}

pub(super) async fn run(args: ShowArgs, context: &mut Context) -> Answer<u8> {
    let answer = context.client()?.post("show", &ShowRequest { id: args.id }).await?;
    context.show(&answer, text)?;
    Ok(0)
}

fn text(response: &ShowResponse) -> String {
    let lesson = &response.lesson.fields;
    let about = fields(&[
        ("id", &response.lesson.id),
        ("bank", &response.bank),
        ("state", &standing(&response.standing)),
        ("task", &lesson.task),
        ("domain", &lesson.domain),
        ("applies when", &lesson.applies_when),
        ("not when", &lesson.not_when),
        ("tags", &lesson.tags.join(", ")),
    ]);
    let claims = response.claims.iter().map(claim_text).collect::<Vec<_>>().join("\n");
    format!(
        "{} [{}]\n{about}\n\n{}\n\nclaims (times are the authors' own clocks)\n{claims}",
        lesson.title, lesson.kind, lesson.content
    )
}

fn claim_text(claim: &ClaimView) -> String {
    let mut lines = vec![format!("  {}  {}  {} #{}", claim.at, claim.claim, claim.author, claim.seq)];
    if let Some(evidence) = &claim.evidence {
        let mut parts = Vec::new();
        // A lesson that somebody wrote down has no run behind it.
        if evidence.attempts > 0 {
            parts.push(format!("{} of {}", evidence.outcome, count(u64::from(evidence.attempts), "run")));
        }
        for (word, name) in
            [("by", &evidence.agent), ("judged by", &evidence.judged_by), ("drawn by", &evidence.induced_by)]
        {
            if !name.is_empty() {
                parts.push(format!("{word} {name}"));
            }
        }
        if !parts.is_empty() {
            lines.push(indent(&parts.join(", "), "      "));
        }
    }
    if let Some(reason) = &claim.reason {
        lines.push(indent(reason, "      "));
    }
    lines.join("\n")
}
