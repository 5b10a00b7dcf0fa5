//! `folklore begin`: an agent starts on a task.

use clap::Args;

use super::{Context, read_input};
use crate::{
    api::{Answer, BeginRequest, BeginResponse},
    http::MAX_BODY_BYTES,
};

#[derive(Debug, Args)]
pub(super) struct BeginArgs {
    /// The task, in any words; '-' reads it from stdin
    #[arg(required = true, value_name = "TASK")]
    task: Vec<String>,
    /// What the run is to be called [default: a random name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// What runs of this task share [default: made of the task's words]
    #[arg(long, value_name = "KEY")]
    task_key: Option<String>,
    /// Name or id of the bank that gets the lessons, and whose nodes may take the run over [default: this node alone]
    #[arg(long, value_name = "BANK")]
    bank: Option<String>,
    /// The field of work
    #[arg(long, value_name = "DOMAIN", default_value = "")]
    domain: String,
    /// Who acts: a model or agent name
    #[arg(long, value_name = "AGENT", default_value = "")]
    agent: String,
    /// A word to filter by; repeatable
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
}

pub(super) async fn run(args: BeginArgs, context: &mut Context) -> Answer<u8> {
    let client = context.client()?;
    let words = args.task.join(" ");
    let task = if words == "-" { read_input(&mut *context.input, MAX_BODY_BYTES / 2, "the task")? } else { words };
    let BeginArgs { task: _, name, task_key, bank, domain, agent, tag: tags } = args;
    let request = BeginRequest { task, task_key, name, bank, domain, agent, tags };
    let answer = client.post("begin", &request).await?;
    context.show(&answer, |begun: &BeginResponse| begun.run.clone())?;
    Ok(0)
}
