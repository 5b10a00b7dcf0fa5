//! `folklore runs`: which are under way, and copies of other nodes' that are not wanted.

use clap::{Args, Subcommand};

use super::{
    Context,
    words::{count, short_node, table},
};
use crate::api::{Answer, DropRunRequest, DropRunResponse, RunSummary, RunsRequest, RunsResponse};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct RunsArgs {
    /// Ended ones whose names are remembered, too
    #[arg(long)]
    all: bool,
    #[command(subcommand)]
    command: Option<RunsCommand>,
}

#[derive(Debug, Subcommand)]
enum RunsCommand {
    /// Let the copy of another node's run go: it does not come back, and that node keeps its run
    Drop {
        /// The run's name, or its id as --json shows it
        #[arg(value_name = "RUN")]
        run: String,
    },
}

pub(super) async fn run(args: RunsArgs, context: &mut Context) -> Answer<u8> {
    if let Some(RunsCommand::Drop { run }) = args.command {
        let answer = context.client()?.post("runs/drop", &DropRunRequest { run }).await?;
        context.show(&answer, |gone: &DropRunResponse| {
            let node = short_node(&gone.copy_of);
            format!("the copy of {} at {node} is dropped, with {}", gone.name, count(u64::from(gone.steps), "step"))
        })?;
        return Ok(0);
    }
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
