//! `folklore jobs`: the queue of what models are asked.

use clap::{Args, Subcommand};

use super::{
    Context,
    words::{count, table},
};
use crate::api::{Answer, JobRequest, JobResponse, JobState, JobView, JobsResponse};

#[derive(Debug, Args)]
pub(super) struct JobsArgs {
    #[command(subcommand)]
    command: Option<JobsCommand>,
}

#[derive(Debug, Subcommand)]
enum JobsCommand {
    /// Show what waits, what is being done and what was given up
    List,
    /// Let jobs that failed wait again, and try now whatever waits
    Retry(JobArgs),
    /// Take jobs out of the queue; their runs stay
    Drop(JobArgs),
}

#[derive(Debug, Args)]
struct JobArgs {
    /// The job's id or its first 8 digits; 'all' for every job that failed
    #[arg(value_name = "ID")]
    id: String,
}

pub(super) async fn run(args: JobsArgs, context: &mut Context) -> Answer<u8> {
    let client = context.client()?;
    match args.command.unwrap_or(JobsCommand::List) {
        JobsCommand::List => {
            let answer = client.get("jobs").await?;
            context.show(&answer, text)?;
        }
        JobsCommand::Retry(JobArgs { id }) => {
            let answer = client.post("jobs/retry", &JobRequest { id }).await?;
            context.show(&answer, |response: &JobResponse| told(response, "waits again"))?;
        }
        JobsCommand::Drop(JobArgs { id }) => {
            let answer = client.post("jobs/drop", &JobRequest { id }).await?;
            context.show(&answer, |response: &JobResponse| told(response, "is dropped"))?;
        }
    }
    Ok(0)
}

fn told(response: &JobResponse, what: &str) -> String {
    if response.jobs.is_empty() {
        return "no job has failed".to_owned();
    }
    response.jobs.iter().map(|id| format!("{id} {what}")).collect::<Vec<_>>().join("\n")
}

fn text(response: &JobsResponse) -> String {
    let mut parts = vec![format!("{} waiting, {} failed", count(response.waiting, "job"), response.failed)];
    let again = response.retry_in_s.map_or_else(String::new, |seconds| format!(" (again in {seconds} s)"));
    parts.extend(response.error.as_ref().map(|error| format!("{error}{again}")));
    let row = |job: &JobView| {
        let state = match job.state {
            JobState::Waiting => "waiting",
            JobState::Running => "running",
            JobState::Failed => "failed",
        };
        let runs = match &job.runs[..] {
            [run] => run.get(..16).unwrap_or(run).to_owned(),
            runs => count(runs.len() as u64, "run"),
        };
        vec![
            job.id.clone(),
            state.to_owned(),
            job.ask.clone(),
            runs,
            job.queued.to_string(),
            job.reason.clone().unwrap_or_else(|| job.service.clone()),
        ]
    };
    if !response.jobs.is_empty() {
        parts.push(table(&response.jobs.iter().map(row).collect::<Vec<_>>()));
    }
    parts.join("\n")
}
