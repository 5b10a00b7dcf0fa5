//! Induction without an LLM (backend `extractive`): what the steps of finished runs teach, word for word.
//!
//! - From a failed run a **pitfall**: when, which move failed, what to do instead where the judge said so. Which step is
//!   blamed is written at [`tools`] for tool calls, at [`coding`] for commands and at [`claims`] for conversations.
//! - From a success a **strategy**: the decisive moves in order.
//! - From runs of one task with both outcomes a **contrast**: what the succeeding run did that the failing did not
//!   ([`contrast`](mod@contrast) for what was changed, [`divergence`] for what was reckoned, written or looked up).
//!
//! Every line of a lesson's content quotes the run and points to the step ([`quote`]); a lesson whose quotes do not stand
//! where it says, or that names nothing of its task, is not made, and the reason is reported. Pure and deterministic: no
//! clock, no randomness, no hash order; the simulator runs it too.

mod claims;
mod coding;
mod contrast;
mod divergence;
mod draft;
pub mod merge;
pub mod moves;
pub mod quote;
pub mod task;
mod tools;
#[cfg(test)]
mod truth_tests;
mod verdict;

pub use claims::{Bounds, blamed_under};
pub use draft::{CONTENT_BUDGET_BYTES, Draft, Given, INDUCED_BY, evidence, is_relearned};
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

/// For runs that had been given no lesson, or when nothing is known of those.
pub const NONE_GIVEN: Given<'static> = &|_| None;

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
pub fn from_run(run: &Run, given: Given<'_>) -> Induced {
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
        match assemble(parts, Sources { first: run, second: None }, &[run], given) {
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
pub fn contrast(runs: &[&Run], given: Given<'_>) -> Induced {
    let mut out = Induced::default();
    let fit: Vec<&Run> = runs.iter().copied().filter(|run| unfit(run).is_none()).collect();
    let ok: Vec<&Run> = fit.iter().copied().filter(|run| run.outcome.status == RunStatus::Success).collect();
    let mut told: Vec<String> = Vec::new();
    for failed in fit.iter().copied().filter(|run| run.outcome.status == RunStatus::Failure) {
        let mut reason = None;
        let made = ok.iter().find_map(|ok| {
            let parts = contrast::between(ok, failed)?;
            match assemble(parts, Sources { first: ok, second: Some(failed) }, &fit, given) {
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
///
/// Lessons that come out word for word the same are one, whose evidence counts the runs of all.
#[must_use]
pub fn induce(runs: &[Run], given: Given<'_>) -> Induced {
    let mut out = Induced::default();
    let mut told = each(runs, given, &mut out.no_lesson);
    for (task, group) in by_task(runs) {
        let together = contrast(&group, given);
        out.no_lesson.extend(together.no_lesson);
        let fit: Vec<&Run> = group.into_iter().filter(|run| unfit(run).is_none()).collect();
        together.lessons.into_iter().for_each(|draft| tell(&mut told, task, draft, fit.clone()));
    }
    out.lessons = told.into_iter().map(|told| with_runs(told.draft, &told.runs)).collect();
    out
}

/// What runs teach each by itself.
///
/// Attempts at one task that teach the same (kind and title), and runs of any task whose lessons are about one and the same
/// thing (as which tool runs the tests) or come out word for word the same, make one lesson whose evidence counts them all.
/// Order: by task key, then as the runs came.
#[must_use]
pub fn separately(runs: &[Run], given: Given<'_>) -> Induced {
    let mut out = Induced::default();
    let told = each(runs, given, &mut out.no_lesson);
    out.lessons = told.into_iter().map(|told| with_runs(told.draft, &told.runs)).collect();
    out
}

/// A lesson, the task it came from and the runs that teach it.
struct Told<'a> {
    task: &'a str,
    draft: Draft,
    runs: Vec<&'a Run>,
}

fn each<'a>(runs: &'a [Run], given: Given<'_>, no_lesson: &mut Vec<NoLesson>) -> Vec<Told<'a>> {
    let mut told = Vec::new();
    for (task, group) in by_task(runs) {
        for run in group {
            let one = from_run(run, given);
            no_lesson.extend(one.no_lesson);
            one.lessons.into_iter().for_each(|draft| tell(&mut told, task, draft, vec![run]));
        }
    }
    told
}

fn tell<'a>(told: &mut Vec<Told<'a>>, task: &'a str, draft: Draft, runs: Vec<&'a Run>) {
    let same = told.iter_mut().find(|told| {
        let (old, new) = (&told.draft.fields, &draft.fields);
        let about_same = told.task == task || old.task == new.task;
        let attempt = about_same && old.title == new.title && new.kind != LessonKind::Contrast;
        old.kind == new.kind && (attempt || old.content == new.content)
    });
    match same {
        Some(told) => told.runs.extend(runs),
        None => told.push(Told { task, draft, runs }),
    }
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
        RunStatus::Unknown => return Some("it has no outcome label: give a table of labels with --outcomes".into()),
        RunStatus::Success | RunStatus::Failure | RunStatus::Partial => {}
    }
    if run.steps.is_empty() {
        return Some("it has no steps".into());
    }
    let acted = run.steps.iter().any(|step| matches!(Move::of(&step.action), Move::Call { .. } | Move::Command(_)));
    let expected = run.outcome.expected.as_ref().is_some_and(|expected| !expected.is_empty());
    // A run that only talked teaches something when the judge expected a move, or an answer that it did not give.
    let unsaid = !run.outcome.missing_answers.is_empty();
    (!acted && !expected && !unsaid).then(|| "it has only messages and the judge expected no move".into())
}

fn candidates(run: &Run) -> Vec<Parts> {
    let is_tools = run.outcome.expected.is_some() || tools::calls(run).next().is_some();
    match (run.outcome.status, is_tools) {
        (RunStatus::Success, true) => tools::strategy(run).into_iter().collect(),
        (RunStatus::Success, false) => coding::lessons(run, LessonKind::Strategy),
        (_, true) => tools::pitfalls(run),
        (_, false) if claims::is_conversation(run) => claims::pitfall(run).into_iter().collect(),
        (_, false) => coding::lessons(run, LessonKind::Pitfall),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{RunOutcome, Step};
    use folklore_protocol::claim::Outcome;
    use proptest::prelude::*;

    fn step(action: &str, observation: &str) -> Step {
        Step { think: String::new(), action: action.into(), observation: observation.into() }
    }

    fn run(key: &str, status: RunStatus, steps: Vec<Step>) -> Run {
        Run {
            task_key: key.into(),
            task: format!("Cancel the kettle order of {key}"),
            domain: "shop".into(),
            source: format!("test {key}"),
            steps,
            outcome: RunOutcome { status, judged_by: Some("test".into()), ..RunOutcome::default() },
            ..Run::default()
        }
    }

    fn cancelled(key: &str) -> Run {
        run(
            key,
            RunStatus::Success,
            vec![
                step("get_order {\"order_id\":\"#W77001\"}", "{\"order_id\": \"#W77001\", \"status\": \"pending\"}"),
                step(
                    "cancel_order {\"order_id\":\"#W77001\",\"reason\":\"no longer needed\"}",
                    "{\"status\": \"cancelled\"}",
                ),
            ],
        )
    }

    fn refused(key: &str) -> Run {
        let mut refused = run(
            key,
            RunStatus::Failure,
            vec![
                step("get_order {\"order_id\":\"#W77001\"}", "{\"order_id\": \"#W77001\", \"status\": \"pending\"}"),
                step("respond: I cannot cancel this order because it has already been paid for.", "Oh."),
            ],
        );
        refused.outcome.expected =
            Some(vec!["cancel_order {\"order_id\":\"#W77001\",\"reason\":\"no longer needed\"}".into()]);
        refused
    }

    #[test]
    fn a_pitfall_says_what_was_due_and_how_the_run_ended_instead() {
        let induced = from_run(&refused("a"), NONE_GIVEN);
        let lesson = &induced.lessons[0].fields;
        assert_eq!(lesson.kind, LessonKind::Pitfall);
        assert!(lesson.title.starts_with("cancel_order was due and never called"), "{}", lesson.title);
        assert!(lesson.content.starts_with("Do: `cancel_order` with `\"order_id\":\"#W77001\"`"), "{}", lesson.content);
        assert!(lesson.content.contains("`I cannot cancel this order because it has already been paid for.` [step 2]"));
        assert!(lesson.content.contains("`\"status\": \"pending\"` [step 1]"));
        assert!(lesson.applies_when.contains("In shop") && lesson.applies_when.contains("cancel_order"));
        assert_eq!(induced.lessons[0].evidence.outcome, Outcome::Failure);
    }

    #[test]
    fn both_outcomes_of_one_task_make_a_contrast() {
        let runs = [refused("a"), cancelled("a"), cancelled("b")];
        let induced = induce(&runs, NONE_GIVEN);
        let kinds: Vec<_> = induced.lessons.iter().map(|draft| draft.fields.kind).collect();
        // What `b` teaches came out word for word the same, so it counts as another attempt.
        assert_eq!(kinds, [LessonKind::Pitfall, LessonKind::Strategy, LessonKind::Contrast]);
        assert_eq!(induced.lessons[1].evidence.attempts, 2);
        let contrast = &induced.lessons[2];
        assert!(contrast.fields.content.contains("[ok step 2]") && contrast.fields.content.contains("[failed step 2]"));
        assert_eq!((contrast.evidence.outcome, contrast.evidence.attempts), (Outcome::Partial, 2));
        assert!(contrast.evidence.run_digest.is_some());
    }

    #[test]
    fn attempts_that_teach_the_same_are_counted_not_repeated() {
        let mut again = refused("a");
        again.attempt = Some(1);
        let induced = induce(&[refused("a"), again], NONE_GIVEN);
        assert_eq!(induced.lessons.len(), 1);
        assert_eq!(induced.lessons[0].evidence.attempts, 2);
    }

    #[test]
    fn runs_that_can_teach_nothing_say_why() {
        let talk = vec![step("respond: hello", "hi"), step("respond: bye", "")];
        for (run, says) in [
            (run("a", RunStatus::Unknown, cancelled("a").steps), "no outcome label"),
            (run("a", RunStatus::Failure, Vec::new()), "no steps"),
            (run("a", RunStatus::Success, talk.clone()), "only messages"),
            (run("a", RunStatus::Failure, talk), "only messages"),
            (run("a", RunStatus::Failure, cancelled("a").steps), "no step shows"),
            (
                run("a", RunStatus::Success, vec![step("ls", "x"), step("git diff", ""), step("submit", "")]),
                "would fit any run",
            ),
        ] {
            let induced = induce(&[run], NONE_GIVEN);
            assert_eq!(induced.lessons, [], "{says}");
            let reasons: Vec<_> = induced.no_lesson.iter().map(|none| none.reason.as_str()).collect();
            assert!(reasons.iter().any(|reason| reason.contains(says)), "{says}: {reasons:?}");
        }
    }

    #[test]
    fn a_lesson_is_not_learned_again_from_its_own_injection() {
        let first = from_run(&refused("a"), NONE_GIVEN).lessons.remove(0);
        let lesson = first.fields.clone();
        let mut later = refused("a");
        later.attempt = Some(7);
        later.steps.insert(0, step("think {}", ""));
        later.injected = vec!["lesson-1".into()];
        let known = |id: &str| (id == "lesson-1").then(|| lesson.clone());
        let induced = from_run(&later, &known);
        assert_eq!(induced.lessons, []);
        assert!(induced.no_lesson[0].reason.contains("its own injection"), "{:?}", induced.no_lesson);
        // Another lesson that the run had been given does not stand in the way.
        let mut other = first.fields.clone();
        other.title = "Refunds".into();
        other.content = "Use `refund_order` with `\"amount\":3` [step 1].".into();
        assert_eq!(from_run(&later, &|_| Some(other.clone())).lessons.len(), 1);
    }

    fn odd_text() -> impl Strategy<Value = String> {
        prop_oneof![
            Just(String::new()),
            "(?s).{0,80}",
            "[`\\[\\]{}\" a-z_./0-9…é]{0,60}",
            "(get|cancel|update)_order \\{\"(order_id|note)\":\"#?[A-Z0-9]{1,6}\"\\}",
            "respond: [A-Za-z .?!`]{0,80}",
            "(sed -i|cat|python|git checkout|rm|pytest|grep) [a-z/._'-]{0,20} a/b.py",
            Just("Error: no such thing as 62.50".to_owned()),
            Just("diff --git a/x.py b/x.py\n@@ -1 +1 @@\n-é `old` thing\n+né `new` thing\n\\ No newline".to_owned()),
            Just("{\"order_id\": \"A1B2\", \"status\": \"open\", \"x\": [{\"y\": \"A1B2\"}]}".to_owned()),
        ]
    }

    fn odd_run() -> impl Strategy<Value = Run> {
        let step = (odd_text(), odd_text(), odd_text()).prop_map(|(think, action, observation)| Step {
            think,
            action,
            observation,
        });
        let expected = proptest::option::of(proptest::collection::vec(odd_text(), 0..3));
        let steps = proptest::collection::vec(step, 0..8);
        (odd_text(), steps, expected, proptest::collection::vec(odd_text(), 0..2), any::<bool>()).prop_map(
            |(task, steps, expected, missing_answers, solved)| {
                let status = if solved { RunStatus::Success } else { RunStatus::Failure };
                let outcome = RunOutcome { status, expected, missing_answers, ..RunOutcome::default() };
                let mut run =
                    Run { task_key: "odd".into(), task, domain: "shop".into(), steps, outcome, ..Run::default() };
                explain_verdict(&mut run);
                run.tidy();
                run
            },
        )
    }

    proptest! {
        /// Whatever the runs look like: no panic, lessons within their limits, quotes that stand where they say, and no
        /// rule that produced one that does not.
        #[test]
        fn odd_runs_give_sound_lessons_or_reasons(runs in proptest::collection::vec(odd_run(), 1..4)) {
            let induced = induce(&runs, NONE_GIVEN);
            for draft in &induced.lessons {
                prop_assert!(draft.lesson().is_ok(), "{:?}", draft.lesson());
            }
            for none in &induced.no_lesson {
                prop_assert!(!none.reason.contains("does not stand") && !none.reason.contains("no pointer") && !none.reason.contains("open quote"), "{}", none.reason);
            }
        }
    }

    #[test]
    fn induction_is_a_function_of_its_runs() {
        let runs = [refused("a"), cancelled("a"), cancelled("b"), refused("c")];
        assert_eq!(induce(&runs, NONE_GIVEN), induce(&runs, NONE_GIVEN));
    }
}
