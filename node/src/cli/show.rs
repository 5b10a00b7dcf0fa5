//! `folklore show`: one lesson and what is said about it.

use clap::Args;

use super::{
    Context,
    words::{count, fields, indent, standing},
};
use crate::api::{Answer, ClaimView, DEFAULT_CLAIMS_LIMIT, MAX_CLAIMS_LIMIT, ShowRequest, ShowResponse};

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// Lesson id, or its first characters
    id: String,
    /// Most claims wanted
    #[arg(long, value_name = "N", default_value_t = DEFAULT_CLAIMS_LIMIT, value_parser = limit)]
    limit: usize,
    /// Claims to leave out first
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: usize,
}

fn limit(text: &str) -> Result<usize, String> {
    let limit = text.parse().ok().filter(|n| *n <= MAX_CLAIMS_LIMIT);
    limit.ok_or_else(|| format!("a number from 0 to {MAX_CLAIMS_LIMIT} is wanted"))
}

pub(super) async fn run(args: ShowArgs, context: &mut Context) -> Answer<u8> {
    let answer =
        context.client()?.post("show", &ShowRequest { id: args.id, limit: args.limit, offset: args.offset }).await?;
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
    let mut claims = response.claims.iter().map(claim_text).collect::<Vec<_>>().join("\n");
    if let Some(next) = response.next {
        let left = response.total.saturating_sub(next as u64);
        claims.push_str(&format!("\n  {} more: --offset {next}", count(left, "claim")));
    }
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
