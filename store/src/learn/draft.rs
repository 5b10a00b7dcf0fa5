//! Puts a lesson together: limits, quotes, specificity, evidence.

use super::quote::{self, Sources};
use super::task;
use crate::run::{Run, RunStatus, clean, one_line, shorten};
use folklore_protocol::claim::{Evidence, Outcome, RunDigest};
use folklore_protocol::lesson::{
    Lesson, LessonDraft, LessonError, LessonKind, MAX_CONDITION_BYTES, MAX_DOMAIN_BYTES, MAX_TAG_BYTES, MAX_TAGS,
    MAX_TITLE_BYTES,
};
use std::collections::BTreeSet;

/// Bytes of content that are filled; lines that would go over are left out whole, least important first. Far below the
/// limit of a lesson: what is read in the middle of a task has to be short.
pub const CONTENT_BUDGET_BYTES: usize = 1_500;
/// Bytes of the task that stand in the condition; the whole of it is a field of its own.
const SHOWN_TASK_BYTES: usize = 400;
/// Quotes with something of the task or its tools in them that a lesson needs.
const MIN_SPECIFIC_QUOTES: usize = 2;
/// What every lesson of this backend carries as `induced_by`.
pub const INDUCED_BY: &str = "extractive";

/// Looks up a lesson that a run says it had been given, by id; `None` when this node does not hold it.
pub type Given<'a> = &'a dyn Fn(&str) -> Option<LessonDraft>;

/// A lesson with what it rests on, ready to be taught.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// The lesson's fields, within their limits.
    pub fields: LessonDraft,
    /// What it was drawn from.
    pub evidence: Evidence,
}

impl Draft {
    /// The checked lesson.
    pub fn lesson(&self) -> Result<Lesson, LessonError> {
        Lesson::new(self.fields.clone())
    }
}

/// What a rule found, before it is checked.
#[derive(Debug, Clone)]
pub(super) struct Parts {
    pub kind: LessonKind,
    /// What happened, in a few words; the task's name follows it in the title.
    pub cause: String,
    /// What the lesson is about when that is narrower than the run's task.
    pub about: Option<String>,
    /// The condition beside domain and task, e.g. the tools in play.
    pub when: String,
    pub not_when: String,
    /// Statements, most important first; each with its quotes and pointers.
    pub lines: Vec<String>,
    pub tags: Vec<String>,
}

/// Checks what a rule found and makes a draft of it; the error is the reason why there is no lesson.
pub(super) fn assemble(parts: Parts, sources: Sources<'_>, runs: &[&Run], given: Given<'_>) -> Result<Draft, String> {
    let run = sources.second.unwrap_or(sources.first);
    let mut content = String::new();
    let mut told: Vec<&str> = Vec::new();
    for line in &parts.lines {
        // Two rules may find the same circumstance.
        let said = line.rsplit_once('[').map_or(line.as_str(), |(said, _)| said);
        if told.contains(&said) {
            continue;
        }
        told.push(said);
        // A line whose quotes do not stand where it says is a fault of a rule, and no lesson is worth it.
        quote::check(line, sources)?;
        if content.is_empty() || content.len() + line.len() < CONTENT_BUDGET_BYTES {
            if !content.is_empty() {
                content.push('\n');
            }
            content.push_str(line);
        }
    }
    if !is_specific(&content, &run.task) {
        return Err(format!("{} would fit any run: {}", parts.kind, one_line(&content)));
    }
    let name = parts.about.clone().unwrap_or_else(|| task::name(run));
    let title = if name.is_empty() { parts.cause.clone() } else { format!("{}: {name}", parts.cause) };
    let general = parts.about.unwrap_or_else(|| task::general(run));
    let domain = shorten(&run.domain, MAX_DOMAIN_BYTES);
    let place = if domain.is_empty() { String::new() } else { format!("In {domain}: ") };
    let shown = shorten(&general, SHOWN_TASK_BYTES);
    let end = if shown.is_empty() || shown.ends_with(['.', '?', '!', '…']) { "" } else { "." };
    let applies_when = format!("{place}{shown}{end} {}", parts.when);
    let mut tags: Vec<String> = run.tags.iter().chain(&parts.tags).map(|tag| shorten(tag, MAX_TAG_BYTES)).collect();
    tags.sort();
    tags.dedup();
    tags.truncate(MAX_TAGS);
    let fields = LessonDraft {
        kind: parts.kind,
        title: shorten(&one_line(&title), MAX_TITLE_BYTES),
        applies_when: shorten(clean(&applies_when).trim(), MAX_CONDITION_BYTES),
        not_when: shorten(clean(&parts.not_when).trim(), MAX_CONDITION_BYTES),
        content,
        task: general,
        domain,
        tags,
    };
    if is_relearned(&fields, runs, given) {
        return Err("the run had been given this lesson: it is not learned again from its own injection".into());
    }
    Ok(Draft { fields, evidence: evidence(runs) })
}

/// What several runs of one task say together, as evidence of a lesson drawn without a model; who draws it otherwise says so
/// in `induced_by`.
#[must_use]
pub fn evidence(runs: &[&Run]) -> Evidence {
    let statuses: Vec<RunStatus> = runs.iter().map(|run| run.outcome.status).collect();
    let outcome = match statuses.first() {
        Some(&first) if statuses.iter().all(|&status| status == first) => first.into(),
        _ => Outcome::Partial,
    };
    let rewards: Vec<i64> = runs.iter().filter_map(|run| run.outcome.reward_milli).map(i64::from).collect();
    let mean = rewards.iter().sum::<i64>() / (rewards.len().max(1) as i64);
    let reward_milli = (!rewards.is_empty()).then(|| i32::try_from(mean).unwrap_or_default());
    let mut digests: Vec<RunDigest> = runs.iter().map(|run| run.digest()).collect();
    digests.sort_unstable();
    digests.dedup();
    let run_digest = match digests.as_slice() {
        [] => None,
        [one] => Some(*one),
        several => {
            let mut hasher = blake3::Hasher::new_derive_key("folklore 2026 digest of run digests v1");
            for digest in several {
                hasher.update(digest);
            }
            Some(*hasher.finalize().as_bytes())
        }
    };
    let first = |pick: fn(&Run) -> Option<&str>| runs.iter().find_map(|run| pick(run)).unwrap_or_default().to_owned();
    let injected = runs.iter().flat_map(|run| &run.injected).filter_map(|id| id.parse().ok()).collect();
    Evidence {
        outcome,
        reward_milli,
        attempts: u32::try_from(runs.len()).unwrap_or(u32::MAX),
        judged_by: first(|run| run.outcome.judged_by.as_deref()),
        induced_by: INDUCED_BY.into(),
        run_digest,
        agent: first(|run| Some(run.agent.as_str()).filter(|agent| !agent.is_empty())),
        injected,
    }
    .normalised()
}

/// Merges the evidence of runs that teach one and the same thing into the first draft.
pub(super) fn with_runs(mut draft: Draft, runs: &[&Run]) -> Draft {
    draft.evidence = evidence(runs);
    draft
}

/// Whether content names things of its task: the first line, which says what to do or avoid, has to, and there must be
/// at least [`MIN_SPECIFIC_QUOTES`] such quotes in all.
fn is_specific(content: &str, task: &str) -> bool {
    let specific = |line: &str| {
        let spans = line.split('`').skip(1).step_by(2);
        spans.filter(|span| names_something(span) || shares_words(span, task)).count()
    };
    let mut lines = content.lines();
    let first = lines.next().map_or(0, specific);
    first > 0 && first + lines.map(specific).sum::<usize>() >= MIN_SPECIFIC_QUOTES
}

/// Whether a quote has a word in it that not every run has: a path, an identifier, an argument, a number.
fn names_something(span: &str) -> bool {
    const ANYWHERE: &[&str] = &[
        "respond",
        "submit",
        "complete_task_and_submit_final_output",
        "git",
        "diff",
        "reproduce_issue.py",
        "reproduce.py",
        "repro.py",
        "test.py",
        "python3",
        "returncode",
        "stdout",
        "0.0",
        "transfer_to_human_agents",
        "think",
        "utf-8",
    ];
    let breaks = |c: char| c.is_whitespace() || "\"'(){}[],;=".contains(c);
    let is_argument = span.starts_with('"') && span.contains("\":");
    span.split(breaks).map(|word| word.trim_matches(|c: char| !c.is_alphanumeric())).any(|word| {
        let inner = word.chars().any(|c| matches!(c, '_' | '/' | '.' | '-' | ':') || c.is_ascii_digit());
        let camel = word.chars().skip(1).any(char::is_uppercase) && word.chars().any(char::is_lowercase);
        word.len() >= 3 && (inner || camel || is_argument) && !ANYWHERE.contains(&word.to_ascii_lowercase().as_str())
    })
}

/// Whether a quote is about its task: it has at least two of the task's longer words.
fn shares_words(span: &str, task: &str) -> bool {
    const COMMON: &[&str] = &[
        "about",
        "after",
        "again",
        "agent",
        "another",
        "anything",
        "before",
        "being",
        "cannot",
        "could",
        "doing",
        "every",
        "first",
        "other",
        "please",
        "should",
        "something",
        "thank",
        "thanks",
        "their",
        "there",
        "these",
        "thing",
        "things",
        "those",
        "through",
        "under",
        "until",
        "using",
        "wants",
        "where",
        "whether",
        "which",
        "while",
        "without",
        "would",
        "information",
        "details",
        "provide",
        "proceed",
        "assist",
        "confirm",
    ];
    const LONG: usize = 5;
    let words = |text: &str| -> BTreeSet<String> {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.chars().count() >= LONG);
        words.map(str::to_lowercase).filter(|word| !COMMON.contains(&word.as_str())).collect()
    };
    words(span).intersection(&words(task)).count() >= 2
}

/// Whether a lesson only says again what its runs had been given: equal, or alike in four words of five.
#[must_use]
pub fn is_relearned(fields: &LessonDraft, runs: &[&Run], given: Given<'_>) -> bool {
    const ALIKE: usize = 80;
    let mut ids: Vec<&str> = runs.iter().flat_map(|run| &run.injected).map(String::as_str).collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.is_empty() {
        return false;
    }
    let id = Lesson::new(fields.clone()).map(|lesson| lesson.id().to_string()).unwrap_or_default();
    ids.into_iter().any(|other| other == id || given(other).is_some_and(|lesson| likeness(fields, &lesson) >= ALIKE))
}

/// Words that two lessons share, in hundredths of all their words. Pointers and numbers differ from run to run and do not
/// count.
fn likeness(a: &LessonDraft, b: &LessonDraft) -> usize {
    let words = |lesson: &LessonDraft| -> BTreeSet<String> {
        let text = format!("{} {}", lesson.title, lesson.content);
        let words =
            text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| word.chars().any(char::is_alphabetic));
        words.map(str::to_lowercase).collect()
    };
    let (a, b) = (words(a), words(b));
    let all = a.union(&b).count();
    (a.intersection(&b).count() * 100).checked_div(all).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_fit_any_run_are_not_specific() {
        for content in [
            "Do `respond` [step 1] and `submit` [step 2].",
            "Be careful with `the order` [step 1]; `git diff` [step 2].",
            "Run `python3 reproduce_issue.py` [step 1], then `git diff` [step 2].",
            "No quotes at all.",
            "General words `first` [step 1].\nLater `a/b.py` [step 2] and `\"x\":1` [step 2].",
        ] {
            assert!(!is_specific(content, "Return the order"), "{content}");
        }
        assert!(is_specific("Use `cancel_order` [step 1] with `\"order_id\":7` [step 1].", ""));
        assert!(is_specific(
            "Change `django/forms/models.py` [step 3].\nThe line `if fields is not None:` [step 4] and `model_to_dict` [step 1].",
            ""
        ));
    }
}
