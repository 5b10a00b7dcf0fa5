//! What set a success apart from a failure at the same task.

use super::coding;
use super::divergence;
use super::draft::Parts;
use super::moves::{Effect, Work, went_through};
use super::quote::{Side, quoted};
use super::tools::{
    ARGUMENT_BYTES, SENTENCE_BYTES, before, calls, ended, is_aside, listed, made_span, saying, shown_arguments,
    state_line, tool_of, tools_in_play, wanted_span, with,
};
use super::verdict::{Comparison, Difference, compare};
use crate::run::{Run, RunOutcome};
use folklore_protocol::lesson::LessonKind;

/// Look-ups shown that only the success made.
const SHOWN_LOOKUPS: usize = 3;
/// Arguments shown of a call that differs.
const SHOWN_ARGUMENTS: usize = 3;

/// The difference between a success and a failure, or `None` when no step shows one.
pub(super) fn between(ok: &Run, failed: &Run) -> Option<Parts> {
    match (coding::patch(ok), coding::patch(failed)) {
        (Some(right), Some(wrong)) => patches(ok, failed, right, wrong),
        _ => changes(ok, failed).or_else(|| divergence::first(ok, failed)),
    }
}

/// A contrast of tool calls that is being put together.
struct Pair<'a> {
    ok: &'a Run,
    failed: &'a Run,
    /// The success's changes: step and action.
    made: Vec<(usize, &'a str)>,
    /// The first difference, for the title.
    cause: Option<String>,
    lines: Vec<String>,
    tools: Vec<String>,
}

/// Tool calls: the success's changes stand in for what the judge expected.
fn changes(ok: &Run, failed: &Run) -> Option<Parts> {
    let made: Vec<(usize, &str)> = calls(ok)
        .filter(|(_, _, kind)| *kind == Effect::Writes)
        .filter_map(|(at, _, _)| Some((at, ok.steps.get(at)?)))
        .filter(|(_, step)| went_through(step))
        .map(|(at, step)| (at, step.action.as_str()))
        .collect();
    let expected = made.iter().map(|(_, action)| (*action).to_owned()).collect();
    let reference = Run {
        steps: failed.steps.clone(),
        outcome: RunOutcome { expected: Some(expected), ..RunOutcome::default() },
        ..Run::default()
    };
    let mut found = compare(&reference)?;
    // Where the judge's own reference is known, a change that agrees with it is no difference, however the success wrote it.
    if let Some(judged) = compare(failed) {
        let blamed =
            |step: &usize| judged.unexpected.contains(step) || judged.changed.iter().any(|(at, _, _)| at == step);
        found.changed.retain(|(step, _, _)| blamed(step));
        found.unexpected.retain(blamed);
    }
    let mut pair = Pair { ok, failed, made, cause: None, lines: Vec::new(), tools: Vec::new() };
    pair.differences(&found);
    if pair.lines.is_empty() {
        pair.answers();
    }
    pair.finish()
}

impl Pair<'_> {
    fn differences(&mut self, found: &Comparison) {
        let mut told: Vec<&str> = Vec::new();
        for &index in &found.missing {
            let Some(&(at, action)) = self.made.get(index) else { continue };
            let tool = tool_of(action);
            if told.contains(&tool) {
                continue;
            }
            told.push(tool);
            self.cause.get_or_insert_with(|| format!("{tool} made the difference"));
            self.tools.push(tool.to_owned());
            let with = with(&shown_arguments(action, &[]));
            self.lines.push(format!("Do: `{tool}`{with} {}; the failing run never did.", Side::Ok.at(at)));
            self.lines.extend(state_line(self.ok, at, Side::Ok));
            self.lines.extend(before(self.ok, at, Side::Ok));
        }
        for (step, index, differ) in &found.changed {
            self.changed(*step, *index, differ);
        }
        for &step in &found.unexpected {
            let Some(wrong) = self.failed.steps.get(step) else { continue };
            let tool = tool_of(&wrong.action);
            self.cause.get_or_insert_with(|| format!("not calling {tool} made the difference"));
            self.tools.push(tool.to_owned());
            let with = with(&shown_arguments(&wrong.action, &[]));
            let at = Side::Failed.at(step);
            self.lines.push(format!("Do not call `{tool}`{with}: only the failing run did {at}."));
            self.lines.extend(state_line(self.failed, step, Side::Failed));
        }
    }

    fn changed(&mut self, step: usize, index: usize, differ: &[Difference]) {
        let (Some(&(ok_at, right)), Some(wrong)) = (self.made.get(index), self.failed.steps.get(step)) else { return };
        let tool = tool_of(right);
        let names: Vec<&str> = differ.iter().map(|d| d.argument.as_str()).collect();
        self.cause.get_or_insert_with(|| format!("{} of {tool} made the difference", listed(&names)));
        self.tools.push(tool.to_owned());
        let shown = differ.iter().take(SHOWN_ARGUMENTS);
        let right: Vec<String> = shown.clone().filter_map(|d| wanted_span(right, d)).collect();
        let wrong: Vec<String> = shown.filter_map(|d| made_span(&wrong.action, d)).collect();
        let passed = |spans: &[String]| {
            if spans.is_empty() { format!(" without {}", listed(&names)) } else { with(spans) }
        };
        self.lines.push(format!(
            "Do: `{tool}`{} {}, not `{tool}`{} {}.",
            passed(&right),
            Side::Ok.at(ok_at),
            passed(&wrong),
            Side::Failed.at(step)
        ));
    }

    /// The same changes: then the difference may lie in what was said.
    fn answers(&mut self) {
        for answer in &self.failed.outcome.missing_answers {
            let (Some((at, line)), Some(span)) = (saying(self.ok, answer), quoted(answer, ARGUMENT_BYTES)) else {
                continue;
            };
            let Some(line) = quoted(line, SENTENCE_BYTES) else { continue };
            self.cause.get_or_insert_with(|| format!("the answer has to say {answer}"));
            let at = Side::Ok.at(at);
            self.lines.push(format!("Do: say {span} in the answer [judge]; the succeeding run said {line} {at}."));
        }
    }

    fn finish(mut self) -> Option<Parts> {
        let cause = self.cause.take()?;
        self.lines.extend(lookups(self.ok, self.failed));
        self.lines.extend(ended(self.ok, Side::Ok).map(|line| format!("The succeeding run {line}.")));
        self.lines.extend(ended(self.failed, Side::Failed).map(|line| format!("The failing run {line}.")));
        self.tools.sort();
        self.tools.dedup();
        let not_when = self
            .tools
            .first()
            .map(|tool| format!("Where {tool} is not among the tools, or the record differs from the one described."));
        Some(Parts {
            kind: LessonKind::Contrast,
            cause,
            about: None,
            when: tools_in_play(self.ok),
            not_when: not_when.unwrap_or_default(),
            lines: self.lines,
            tags: self.tools,
        })
    }
}

/// What only the success looked up.
fn lookups(ok: &Run, failed: &Run) -> Option<String> {
    let known: Vec<&str> = calls(failed).map(|(_, tool, _)| tool).collect();
    let mut seen: Vec<&str> = Vec::new();
    let mut spans = Vec::new();
    for (at, tool, kind) in calls(ok) {
        if kind == Effect::Reads && !is_aside(tool) && !seen.contains(&tool) && !known.contains(&tool) {
            seen.push(tool);
            spans.push(format!("`{tool}` {}", Side::Ok.at(at)));
        }
    }
    spans.truncate(SHOWN_LOOKUPS);
    (!spans.is_empty()).then(|| format!("Only the succeeding run looked up {}.", spans.join(", ")))
}

type Patch<'a> = (usize, Vec<coding::FilePatch<'a>>);

/// Two patches: which files and lines the success changed and the failure did not, and what each had checked.
fn patches(ok: &Run, failed: &Run, right: Patch<'_>, wrong: Patch<'_>) -> Option<Parts> {
    let told = |run: &Run, patch: &Patch<'_>, side| {
        coding::told_change(run, patch.0, &patch.1, &coding::edits(run, &patch.1), side)
    };
    if coding::changes(&right.1) == coding::changes(&wrong.1) {
        return None;
    }
    let mut lines = vec![format!("Do: {}.", told(ok, &right, Side::Ok)?)];
    lines.extend(told(failed, &wrong, Side::Failed).map(|change| format!("Not enough: {change}.")));
    let (ok_checks, failed_checks) = (checks(ok), checks(failed));
    // The last one: it is what the success rested on.
    let only_ok = ok_checks.iter().rev().find(|(_, command)| !failed_checks.iter().any(|(_, other)| other == command));
    if let Some((at, command)) = only_ok {
        let printed = printed(ok, *at);
        let command = quoted(command, SENTENCE_BYTES)?;
        lines.push(format!("Only the succeeding run checked with {command}{printed} {}.", Side::Ok.at(*at)));
    }
    match failed_checks.last() {
        Some((at, command)) => {
            let printed = printed(failed, *at);
            let command = quoted(command, SENTENCE_BYTES)?;
            lines.push(format!("The failing run's last check was {command}{printed} {}.", Side::Failed.at(*at)));
        }
        None => {
            let last = failed.steps.last().and_then(|step| quoted(&step.action, SENTENCE_BYTES))?;
            let at = Side::Failed.at(failed.steps.len() - 1);
            lines.push(format!("The failing run checked nothing before {last} {at}."));
        }
    }
    let (right, wrong) = (coding::main_files(&right.1), coding::main_files(&wrong.1));
    let (good, bad) = (right.first()?.path, wrong.first().map_or("", |file| file.path));
    // Only where the success left all of the other's files alone was that the wrong place.
    let cause = if right.iter().any(|file| wrong.iter().any(|other| other.path == file.path)) {
        format!("which change to {good} solves it")
    } else {
        format!("{good} was the place, not {bad}")
    };
    Some(Parts {
        kind: LessonKind::Contrast,
        cause,
        about: None,
        when: format!("Files: {good}."),
        not_when: format!("Where {good} looks different."),
        lines,
        tags: Vec::new(),
    })
}

/// `, which printed ...` for a command's result.
fn printed(run: &Run, at: usize) -> String {
    let line = run.steps.get(at).and_then(|step| coding::result_line(&step.observation));
    line.and_then(|line| quoted(line, SENTENCE_BYTES))
        .map_or_else(String::new, |line| format!(", which printed {line}"))
}

/// Tests and scripts a run ran.
fn checks(run: &Run) -> Vec<(usize, &str)> {
    let log = coding::commands(run).into_iter();
    log.filter(|(_, _, kind)| matches!(kind, Work::Test | Work::Run)).map(|(at, command, _)| (at, command)).collect()
}
