//! `folklore list`: lessons, a page at a time.

use clap::Args;
use folklore_protocol::lesson::LessonKind;

use super::{
    Context,
    recall::kinds,
    words::{short_id, table},
};
use crate::api::{Answer, DEFAULT_LIST_LIMIT, LessonSummary, ListRequest, ListResponse, MAX_LIST_LIMIT};

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Name or id of the bank [default: all]
    #[arg(long, value_name = "BANK")]
    bank: Option<String>,
    /// Only this kind
    #[arg(long, value_name = "KIND", value_parser = kinds())]
    kind: Option<LessonKind>,
    /// Only this domain
    #[arg(long, value_name = "DOMAIN")]
    domain: Option<String>,
    /// Most lessons of this page
    #[arg(long, value_name = "N", default_value_t = DEFAULT_LIST_LIMIT, value_parser = limit)]
    limit: usize,
    /// Lessons to pass over
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: usize,
}

fn limit(text: &str) -> Result<usize, String> {
    let within = |n: &usize| (1..=MAX_LIST_LIMIT).contains(n);
    text.parse().ok().filter(within).ok_or_else(|| format!("a number from 1 to {MAX_LIST_LIMIT} is wanted"))
}

pub(super) async fn run(args: ListArgs, context: &mut Context) -> Answer<u8> {
    let ListArgs { bank, kind, domain, limit, offset } = args;
    let answer = context.client()?.post("list", &ListRequest { bank, kind, domain, limit, offset }).await?;
    context.show(&answer, text)?;
    Ok(0)
}

fn text(response: &ListResponse) -> String {
    if response.lessons.is_empty() {
        return format!("no lessons on this page ({} in all)", response.total);
    }
    let row = |lesson: &LessonSummary| {
        vec![
            short_id(&lesson.id).to_owned(),
            lesson.kind.to_string(),
            lesson.state.as_str().to_owned(),
            lesson.domain.clone(),
            lesson.title.clone(),
        ]
    };
    let page = table(&response.lessons.iter().map(row).collect::<Vec<_>>());
    let next = response.next.map_or_else(String::new, |next| format!("; the next page: --offset {next}"));
    format!("{page}\n{} of {} lessons{next}", response.lessons.len(), response.total)
}
