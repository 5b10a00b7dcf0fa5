//! `folklore induce`: lessons from runs that are here.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{
    Context, client, read_input,
    words::{count, len, replaced},
};
use crate::{
    api::{
        Answer, ApiError, InduceAnswerRequest, InduceAnswerResponse, InduceRequest, InduceResponse,
        MAX_INDUCED_ANSWER_BYTES, ModelRequest, PromptView,
    },
    induction::Ask,
};

/// Which model is asked, for a backend that has one.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct ModelArgs {
    /// Name of the model, for a backend that asks one [default: that of the home's configuration]
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Base address of its service, as of vLLM, Ollama or llama.cpp [default: that of the home's configuration, else of the
    /// interface's author]
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Leave runs without a label alone instead of having the model judge them
    #[arg(long)]
    no_judge: bool,
    /// Also split successes into procedures
    #[arg(long)]
    procedures: bool,
    /// Bytes of runs in one prompt; what does not fit is left out and said so [default: 49152]
    #[arg(long, value_name = "BYTES")]
    prompt_bytes: Option<usize>,
}

impl From<ModelArgs> for ModelRequest {
    fn from(args: ModelArgs) -> Self {
        Self {
            model: args.model,
            base_url: args.base_url,
            judge: args.no_judge.then_some(false),
            procedures: args.procedures.then_some(true),
            prompt_bytes: args.prompt_bytes,
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct InduceArgs {
    /// Runs, by the ids that 'folklore attempts' shows, or one task for all its runs
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<String>,
    /// What is asked: 'lessons' of each run, a 'contrast' of several, 'procedures', or to 'judge' a run without a label
    #[arg(long, value_name = "WHAT", default_value = "lessons")]
    ask: Ask,
    /// 'extractive', 'agent' (print the prompt for your own model), 'openai', 'gemini' or 'anthropic' [default: that of the
    /// home's configuration, else extractive]
    #[arg(long, value_name = "BACKEND")]
    backend: Option<String>,
    #[command(flatten)]
    model: ModelArgs,
    /// Show the prompt and about how many tokens it has; ask nobody
    #[arg(long)]
    dry_run: bool,
    /// Take your own model's answer to the prompt from this file; '-' reads it from stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["backend", "dry_run"])]
    answer: Option<PathBuf>,
    /// Name of the model that answered
    #[arg(long, value_name = "NAME", requires = "answer")]
    by: Option<String>,
}

pub(super) async fn run(args: InduceArgs, context: &mut Context) -> Answer<u8> {
    if let Some(file) = &args.answer {
        let answer = read_answer(file, context)?;
        let request = InduceAnswerRequest { runs: args.runs, ask: args.ask, answer, by: args.by };
        let answer = context.client()?.post("induce/answer", &request).await?;
        context.show(&answer, answered)?;
        let response: InduceAnswerResponse = client::typed(&answer)?;
        let nothing = response.lessons.is_empty() && response.verdict.is_none() && !response.problems.is_empty();
        return Ok(if nothing { crate::api::ErrorCode::Failed.exit_code() } else { 0 });
    }
    let request = InduceRequest {
        runs: args.runs,
        ask: args.ask,
        backend: args.backend,
        model: args.model.into(),
        dry_run: args.dry_run,
    };
    let answer = context.client()?.post("induce", &request).await?;
    context.show(&answer, text)?;
    Ok(0)
}

fn read_answer(file: &PathBuf, context: &mut Context) -> Answer<String> {
    if file.as_os_str() == "-" {
        return read_input(&mut *context.input, MAX_INDUCED_ANSWER_BYTES, "the answer");
    }
    let mut opened = std::fs::File::open(file)
        .map_err(|error| ApiError::not_found(format!("cannot read {}: {error}", file.display())))?;
    read_input(&mut opened, MAX_INDUCED_ANSWER_BYTES, "the answer")
}

fn text(response: &InduceResponse) -> String {
    let mut parts: Vec<String> = response.prompts.iter().map(prompt).collect();
    if parts.is_empty() || !response.lessons.is_empty() {
        parts.push(format!("{} new", count(len(&response.lessons), "lesson")));
        parts.extend(response.lessons.iter().map(|id| format!("  {id}")));
    }
    if !response.jobs.is_empty() {
        parts = vec![format!("{} queued: 'folklore jobs' shows how far it is", count(len(&response.jobs), "job"))];
        parts.extend(response.jobs.iter().map(|id| format!("  {id}")));
    }
    parts.extend(replaced(&response.replaced, len(&response.replaced)));
    parts.extend(response.no_lesson.iter().map(|none| format!("  no lesson from {}: {}", none.run, none.reason)));
    parts.join("\n")
}

fn prompt(prompt: &PromptView) -> String {
    let ask = prompt.ask.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    let to = prompt.service.as_ref().map_or_else(
        || {
            format!(
                "For your own model; its answer goes to 'folklore induce {} --ask {ask} --answer -'.",
                prompt.runs.join(" ")
            )
        },
        |service| format!("It would go to {service}."),
    );
    format!("{to} About {} tokens.\n\n{}\n\n{}", prompt.estimated_tokens, prompt.system, prompt.user)
}

fn answered(response: &InduceAnswerResponse) -> String {
    let mut parts = vec![match response.verdict {
        Some(verdict) => format!("verdict: {verdict}"),
        None => format!("{} new", count(len(&response.lessons), "lesson")),
    }];
    parts.extend(response.lessons.iter().map(|id| format!("  {id}")));
    parts.extend(replaced(&response.replaced, len(&response.replaced)));
    if let Some(objection) = &response.objection {
        parts.push(format!("Say this to the model, and give its next answer:\n\n{objection}"));
    }
    parts.join("\n")
}
