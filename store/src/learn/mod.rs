//! Induction without an LLM (backend `extractive`): what the steps of finished runs teach, word for word.
//!
//! - From a failed run a **pitfall**: when, which move failed, what to do instead where the judge said so. Which step is
//!   blamed is written at [`tools`] for tool calls and at [`coding`] for commands.
//! - From a success a **strategy**: the decisive moves in order.
//! - From runs of one task with both outcomes a **contrast**: what the succeeding run did that the failing did not.
//!
//! Every line of a lesson's content quotes the run and points to the step ([`quote`]); a lesson whose quotes do not stand
//! where it says, or that names nothing of its task, is not made, and the reason is reported. Pure and deterministic: no
//! clock, no randomness, no hash order; the simulator runs it too.

mod coding;
mod contrast;
mod draft;
pub mod moves;
pub mod quote;
pub mod task;
mod tools;
mod verdict;

pub use draft::{CONTENT_BUDGET_BYTES, Draft, INDUCED_BY};
pub use verdict::{Comparison, Difference, compare, explain_verdict};

use crate::run::{Run, RunStatus};
use draft::{Parts, assemble, with_runs};
use folklore_protocol::lesson::LessonKind;
use moves::Move;
use quote::Sources;
use std::collections::BTreeMap;

/// Lessons taken from one run.
pub const MAX_LESSONS_A_RUN: usize = 3;
/// Contrasts taken from the runs of one task.
pub const MAX_CONTRASTS: usize = 5;

/// Why a run taught nothing, or less than it might.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoLesson {
    /// The run's source line.
    pub run: String,
    /// In one line.
    pub reason: String,
}

/// What induction made of some runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Induced {
    /// The lessons.
    pub lessons: Vec<Draft>,
    /// Runs and rules that gave none.
    pub no_lesson: Vec<NoLesson>,
}

impl Induced {
    fn refuse(&mut self, run: &Run, reason: impl Into<String>) {
        self.no_lesson.push(NoLesson { run: run.source.clone(), reason: reason.into() });
    }
}

/// Lessons from one run: pitfalls of a failure, a strategy of a success, at most [`MAX_LESSONS_A_RUN`].
#[must_use]
pub fn from_run(run: &Run) -> Induced {
    let mut out = Induced::default();
    if let Some(reason) = unfit(run) {
        out.refuse(run, reason);
        return out;
    }
    let parts = candidates(run);
    if parts.is_empty() {
        out.refuse(run, "no step shows what decided the outcome");
    }
    for parts in parts {
        match assemble(parts, Sources { first: run, second: None }, &[run]) {
            Ok(draft) => out.lessons.push(draft),
            Err(reason) => out.refuse(run, reason),
        }
    }
    out.lessons.truncate(MAX_LESSONS_A_RUN);
    out
}

/// Contrasts from runs of one task, at most [`MAX_CONTRASTS`]: each failing run beside the success nearest to it, one for
/// every way to fail.
#[must_use]
pub fn contrast(runs: &[&Run]) -> Induced {
    let mut out = Induced::default();
    let fit: Vec<&Run> = runs.iter().copied().filter(|run| unfit(run).is_none()).collect();
    let ok: Vec<&Run> = fit.iter().copied().filter(|run| run.outcome.status == RunStatus::Success).collect();
    let mut told: Vec<String> = Vec::new();
    for failed in fit.iter().copied().filter(|run| run.outcome.status == RunStatus::Failure) {
        let mut reason = None;
        let made = ok.iter().find_map(|ok| {
            let parts = contrast::between(ok, failed)?;
            match assemble(parts, Sources { first: ok, second: Some(failed) }, &fit) {
                Ok(draft) => Some(draft),
                Err(why) => {
                    reason.get_or_insert(why);
                    None
                }
            }
        });
        match made {
            Some(draft) if told.contains(&draft.fields.title) => {}
            Some(draft) if out.lessons.len() < MAX_CONTRASTS => {
                told.push(draft.fields.title.clone());
                out.lessons.push(draft);
            }
            Some(_) => out.refuse(failed, format!("more than {MAX_CONTRASTS} contrasts of one task")),
            None if ok.is_empty() => {}
            None => {
                out.refuse(failed, reason.unwrap_or_else(|| "no difference from the success that a step shows".into()))
            }
        }
    }
    out
}

/// Everything that a set of runs teaches: from each run by itself, then from the runs of each task together.
#[must_use]
pub fn induce(runs: &[Run]) -> Induced {
    let mut out = separately(runs);
    for group in by_task(runs).into_values() {
        let together = contrast(&group);
        out.lessons.extend(together.lessons);
        out.no_lesson.extend(together.no_lesson);
    }
    out
}

/// What runs teach each by itself.
///
/// Runs of one task that teach the same (kind and title) make one lesson whose evidence counts them all. Order: by task
/// key, then as the runs came.
#[must_use]
pub fn separately(runs: &[Run]) -> Induced {
    let mut out = Induced::default();
    for group in by_task(runs).into_values() {
        let mut same: Vec<(Draft, Vec<&Run>)> = Vec::new();
        for run in &group {
            let one = from_run(run);
            out.no_lesson.extend(one.no_lesson);
            for draft in one.lessons {
                let key =
                    |other: &Draft| other.fields.kind == draft.fields.kind && other.fields.title == draft.fields.title;
                match same.iter_mut().find(|(other, _)| key(other)) {
                    Some((_, runs)) => runs.push(run),
                    None => same.push((draft, vec![run])),
                }
            }
        }
        out.lessons.extend(same.into_iter().map(|(draft, runs)| with_runs(draft, &runs)));
    }
    out
}

fn by_task(runs: &[Run]) -> BTreeMap<&str, Vec<&Run>> {
    let mut tasks: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
    for run in runs {
        tasks.entry(&run.task_key).or_default().push(run);
    }
    tasks
}

/// Why a run can teach nothing at all.
fn unfit(run: &Run) -> Option<String> {
    match run.outcome.status {
        RunStatus::Unknown => return Some("it has no outcome label".into()),
        RunStatus::Success | RunStatus::Failure | RunStatus::Partial => {}
    }
    if run.steps.is_empty() {
        return Some("it has no steps".into());
    }
    let acted = run.steps.iter().any(|step| matches!(Move::of(&step.action), Move::Call { .. } | Move::Command(_)));
    let expected = run.outcome.expected.as_ref().is_some_and(|expected| !expected.is_empty());
    // A run that only talked teaches something when the judge expected a move.
    (!acted && !expected).then(|| "it has only messages and the judge expected no move".into())
}

fn candidates(run: &Run) -> Vec<Parts> {
    let is_tools = run.outcome.expected.is_some() || tools::calls(run).next().is_some();
    match (run.outcome.status, is_tools) {
        (RunStatus::Success, true) => tools::strategy(run).into_iter().collect(),
        (RunStatus::Success, false) => coding::lessons(run, LessonKind::Strategy),
        (_, true) => tools::pitfalls(run),
        (_, false) => coding::lessons(run, LessonKind::Pitfall),
    }
}
