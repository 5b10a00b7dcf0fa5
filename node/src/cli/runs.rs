//! `folklore runs`: which are under way.

use clap::Args;

use super::{
    Context,
    words::{short_node, table},
};
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
    let state = match (&run.outcome, &run.copy_of, &run.branch) {
        (Some(outcome), ..) => outcome.to_string(),
        (None, Some(node), _) => format!("under way at {}", short_node(node)),
        (None, None, Some(branch)) => format!("under way, branch of {}", short_node(&branch.from)),
        (None, None, None) => "under way".to_owned(),
    };
    let uncertain = if run.uncertain > 0 { format!("{} uncertain", run.uncertain) } else { String::new() };
    let steps = format!("{} steps", run.steps);
    let name = if run.copy_of.is_some() { run.name.clone() } else { format!("{}@{}", run.name, run.lease) };
    vec![name, state, steps, uncertain, run.touched.to_string(), run.task.clone()]
}
