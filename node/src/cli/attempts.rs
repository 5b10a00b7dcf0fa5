//! `folklore attempts` and `folklore refine`: several tries at one task, side by side or one after the other.

use clap::Args;

use super::{
    Context,
    words::{count, short_id, short_node, table},
};
use crate::api::{
    Answer, AttemptView, AttemptsRequest, AttemptsResponse, ElsewhereView, RefineRequest, RefineResponse, TaskAttempts,
};

#[derive(Debug, Args)]
pub(super) struct AttemptsArgs {
    /// The task's key, a part of it, or the words an agent was given
    #[arg(required = true, value_name = "TASK")]
    task: Vec<String>,
    /// Name or id of the bank [default: all]
    #[arg(long, value_name = "BANK")]
    bank: Option<String>,
}

pub(super) async fn run(args: AttemptsArgs, context: &mut Context) -> Answer<u8> {
    let request = AttemptsRequest { task: args.task.join(" "), bank: args.bank };
    let answer = context.client()?.post("attempts", &request).await?;
    context.show(&answer, text)?;
    Ok(0)
}

fn text(response: &AttemptsResponse) -> String {
    let mut parts: Vec<String> = response.tasks.iter().map(task).collect();
    if response.more > 0 {
        parts.push(format!("{} that fit are not shown: name more of the key", count(response.more, "more task")));
    }
    parts.join("\n\n")
}

fn task(task: &TaskAttempts) -> String {
    let row = |run: &AttemptView| {
        vec![
            format!("  {}", run.run.get(..16).unwrap_or(&run.run)),
            run.outcome.to_string(),
            run.reward_milli.map_or_else(String::new, |reward| format!("{:.3}", f64::from(reward) / 1000.0)),
            count(run.steps, "step"),
            run.agent.clone(),
            run.attempt.map_or_else(String::new, |n| format!("attempt {n}")),
            run.source.clone(),
        ]
    };
    let mut parts = vec![format!("{}: {}", task.key, task.task)];
    if task.runs.is_empty() {
        parts.push("  no run of it is here".to_owned());
    } else {
        parts.push(table(&task.runs.iter().map(row).collect::<Vec<_>>()));
    }
    if task.more > 0 {
        parts.push(format!("  and {}", count(task.more, "more run")));
    }
    let row = |one: &ElsewhereView| {
        vec![
            format!("  {}", short_node(&one.author)),
            one.outcome.to_string(),
            count(u64::from(one.attempts), "attempt"),
            one.agent.clone(),
            short_id(&one.lesson).to_owned(),
        ]
    };
    if !task.elsewhere.is_empty() {
        parts.push("on other nodes, by their lessons".to_owned());
        parts.push(table(&task.elsewhere.iter().map(row).collect::<Vec<_>>()));
    }
    parts.extend(task.contrasts.iter().map(|id| format!("  contrast {id}")));
    if task.mixed && task.contrasts.is_empty() {
        parts.push("  both outcomes: 'folklore induce TASK --ask contrast' compares them".to_owned());
    }
    parts.join("\n")
}

#[derive(Debug, Args)]
pub(super) struct RefineArgs {
    /// The run, by the id that 'folklore attempts' shows
    #[arg(value_name = "RUN")]
    run: String,
    /// Which look it is: the first goes through it, the second tries to refute it, later ones compare
    #[arg(long, value_name = "N", default_value_t = 1)]
    round: u32,
    /// Lessons put beside it
    #[arg(long, value_name = "N", default_value_t = 1)]
    lessons: usize,
}

pub(super) async fn refine(args: RefineArgs, context: &mut Context) -> Answer<u8> {
    let request = RefineRequest { run: args.run, round: args.round, lessons: args.lessons };
    let answer = context.client()?.post("refine", &request).await?;
    context.show(&answer, |response: &RefineResponse| response.prompt.clone())?;
    Ok(0)
}
