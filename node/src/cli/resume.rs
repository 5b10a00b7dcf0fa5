//! `folklore resume`: goes on with a run.

use clap::Args;

use super::{
    Context, recall,
    words::{count, indent, len},
};
use crate::api::{Answer, DEFAULT_K, ResumeRequest, ResumeResponse, StepView};

#[derive(Debug, Args)]
pub(super) struct ResumeArgs {
    /// The run's name
    #[arg(required_unless_present = "task", conflicts_with = "task")]
    run: Option<String>,
    /// Instead of its name: the task in words, or its key
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    /// Most lessons wanted
    #[arg(short, value_name = "N", default_value_t = DEFAULT_K)]
    k: usize,
}

pub(super) async fn run(args: ResumeArgs, context: &mut Context) -> Answer<u8> {
    let request = ResumeRequest { run: args.run, task: args.task, k: args.k };
    let answer = context.client()?.post("resume", &request).await?;
    context.show(&answer, shown)?;
    Ok(0)
}

fn shown(run: &ResumeResponse) -> String {
    let mut text = format!("{}\ntask   {}\nstate  {}\nnext   {}", run.run, one_line(&run.task), run.state, run.next);
    if let Some(branch) = &run.branch {
        text.push_str(&format!("\nbranch of a run of {}, taken over after step {}", branch.from, branch.steps));
    }
    if let Some(after) = run.lost_after {
        text.push_str(&format!("\nsteps behind step {after} are lost to damage of the disk"));
    }
    for step in &run.steps {
        text.push_str(&format!("\nstep {}\n{}", step.n, texts(step)));
    }
    for mark in &run.uncertain {
        text.push_str(&format!("\nuncertain: step {} was started at {}\n{}", mark.n, mark.at, texts(mark)));
    }
    if !run.lessons.is_empty() {
        text.push_str(&format!("\n{}\n", count(len(&run.lessons), "lesson")));
        text.push_str(&recall::hits(&run.lessons));
    }
    text
}

fn texts(step: &StepView) -> String {
    let parts = [("think", &step.think), ("action", &step.action), ("observation", &step.observation)];
    let part = |(name, text): (&str, &String)| format!("  {name}\n{}", indent(text, "    "));
    parts.into_iter().filter(|(_, text)| !text.is_empty()).map(part).collect::<Vec<_>>().join("\n")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
