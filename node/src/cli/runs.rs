//! `folklore runs`: which are under way.

use clap::Args;

use super::{Context, words::table};
use crate::api::{Answer, RunSummary, RunsRequest, RunsResponse};

#[derive(Debug, Args)]
pub(super) struct RunsArgs {
    /// Ended ones whose names are remembered, too
    #[arg(long)]
    all: bool,
}

pub(super) async fn run(args: RunsArgs, context: &mut Context) -> Answer<u8> {
    let answer = context.client()?.post("runs", &RunsRequest { all: args.all }).await?;
    context.show(&answer, |answer: &RunsResponse| {
        if answer.runs.is_empty() {
            return "no run is under way".to_owned();
        }
        table(&answer.runs.iter().map(row).collect::<Vec<_>>())
    })?;
    Ok(0)
}

fn row(run: &RunSummary) -> Vec<String> {
    let state = run.outcome.map_or_else(|| "under way".to_owned(), |outcome| outcome.to_string());
    let uncertain = if run.uncertain > 0 { format!("{} uncertain", run.uncertain) } else { String::new() };
    let steps = format!("{} steps", run.steps);
    vec![format!("{}@{}", run.name, run.lease), state, steps, uncertain, run.touched.to_string(), run.task.clone()]
}
