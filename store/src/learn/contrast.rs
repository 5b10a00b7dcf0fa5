//! What set a success apart from a failure at the same task.

use super::coding;
use super::draft::Parts;
use super::moves::{Effect, Work, error_line};
use super::quote::{Side, argument, quoted};
use super::tools::{
    ARGUMENT_BYTES, SENTENCE_BYTES, before, calls, ended, shown_arguments, state_line, telling, tool_of, tools_in_play,
};
use super::verdict::compare;
use crate::run::{Run, RunOutcome};
use folklore_protocol::lesson::LessonKind;

/// Look-ups shown that only the success made.
const SHOWN_LOOKUPS: usize = 3;

/// The difference between a success and a failure, or `None` when no step shows one.
pub(super) fn between(ok: &Run, failed: &Run) -> Option<Parts> {
    match (coding::patch(ok), coding::patch(failed)) {
        (Some(right), Some(wrong)) => patches(ok, failed, right, wrong),
        _ => changes(ok, failed),
    }
}

/// Tool calls: the success's changes stand in for what the judge expected.
fn changes(ok: &Run, failed: &Run) -> Option<Parts> {
    let made: Vec<(usize, &str)> = calls(ok)
        .filter(|(at, _, kind)| {
            *kind == Effect::Writes && ok.steps.get(*at).is_some_and(|step| error_line(&step.observation).is_none())
        })
        .map(|(at, _, _)| (at, ok.steps.get(at).map_or("", |step| step.action.as_str())))
        .collect();
    let reference = Run {
        steps: failed.steps.clone(),
        outcome: RunOutcome {
            expected: Some(made.iter().map(|(_, action)| (*action).to_owned()).collect()),
            ..RunOutcome::default()
        },
        ..Run::default()
    };
    let found = compare(&reference)?;
    let mut lines = Vec::new();
    let mut cause = String::new();
    let mut tags = Vec::new();
    let mut name_first = |text: String, tool: &str| {
        if cause.is_empty() {
            cause = text;
        }
        tags.push(tool.to_owned());
    };
    for &index in &found.missing {
        let Some((at, action)) = made.get(index) else { continue };
        let tool = tool_of(action);
        name_first(format!("{tool} made the difference"), tool);
        let shown = shown_arguments(action, &[]);
        let with = if shown.is_empty() { String::new() } else { format!(" with {}", shown.join(", ")) };
        lines.push(format!("Do: `{tool}`{with} {}; the failing run never did.", Side::Ok.at(*at)));
        lines.extend(state_line(ok, *at, Side::Ok));
        lines.extend(before(ok, *at, Side::Ok));
    }
    for (step, index, differ) in &found.changed {
        let (Some((ok_at, right)), Some(wrong)) = (made.get(*index), failed.steps.get(*step)) else { continue };
        let tool = tool_of(right);
        let names: Vec<&str> = differ.iter().map(|d| d.argument.as_str()).collect();
        name_first(format!("{} of {tool} made the difference", names.join(" and ")), tool);
        let spans = |action: &str, pick: fn(&super::verdict::Difference) -> Option<&serde_json::Value>| {
            let spans = differ.iter().filter_map(|d| argument(action, &d.argument, pick(d)?, ARGUMENT_BYTES));
            spans.take(SHOWN_LOOKUPS).collect::<Vec<_>>().join(", ")
        };
        let right = spans(right, |d| d.wanted.as_ref());
        let wrong = spans(&wrong.action, |d| d.made.as_ref());
        let right = if right.is_empty() { format!("without {}", names.join(", ")) } else { format!("with {right}") };
        let wrong = if wrong.is_empty() { format!("without {}", names.join(", ")) } else { format!("with {wrong}") };
        lines.push(format!(
            "Do: `{tool}` {right} {}, not `{tool}` {wrong} {}.",
            Side::Ok.at(*ok_at),
            Side::Failed.at(*step)
        ));
    }
    for &step in &found.unexpected {
        let Some(wrong) = failed.steps.get(step) else { continue };
        let tool = tool_of(&wrong.action);
        name_first(format!("not calling {tool} made the difference"), tool);
        let shown = shown_arguments(&wrong.action, &[]);
        let with = if shown.is_empty() { String::new() } else { format!(" with {}", shown.join(", ")) };
        lines.push(format!("Do not call `{tool}`{with}: only the failing run did {}.", Side::Failed.at(step)));
        lines.extend(state_line(failed, step, Side::Failed));
    }
    if lines.is_empty() {
        // The same changes: then it was in what was said.
        let (missing, at) = (failed.outcome.missing_answers.first()?, telling(ok)?);
        lines.push(format!(
            "The answer had to say {} [judge]; the succeeding run said {} {}.",
            quoted(missing, ARGUMENT_BYTES)?,
            quoted(at.1, SENTENCE_BYTES)?,
            Side::Ok.at(at.0)
        ));
        name_first(format!("saying {missing} made the difference"), "");
    }
    lines.extend(lookups(ok, failed));
    let (good, bad) = (ended(ok, Side::Ok), ended(failed, Side::Failed));
    lines.extend(good.map(|line| format!("The succeeding run closed with {line}.")));
    lines.extend(bad.map(|line| format!("The failing run closed with {line}.")));
    // Two changes of one tool say the same thing twice.
    lines.dedup();
    tags.retain(|tag| !tag.is_empty());
    let not_when = match tags.first() {
        Some(tool) => format!("Where {tool} is not among the tools, or the record differs from the one described."),
        None => String::new(),
    };
    Some(Parts { kind: LessonKind::Contrast, cause, when: tools_in_play(ok), not_when, lines, tags })
}

/// What only the success looked up.
fn lookups(ok: &Run, failed: &Run) -> Option<String> {
    let tools = |run: &Run| calls(run).map(|(_, tool, _)| tool.to_owned()).collect::<Vec<_>>();
    let known = tools(failed);
    let mut seen: Vec<&str> = Vec::new();
    let mut spans = Vec::new();
    for (at, tool, kind) in calls(ok) {
        if kind == Effect::Reads
            && !["think", "calculate"].contains(&tool)
            && !seen.contains(&tool)
            && !known.iter().any(|k| k == tool)
        {
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
    let (right_shown, wrong_shown) = (coding::changes(&right.1), coding::changes(&wrong.1));
    if right_shown.is_empty() || right_shown == wrong_shown {
        return None;
    }
    let mut lines = vec![format!("Do: {} {}.", right_shown.join("; "), Side::Ok.at(right.0))];
    if !wrong_shown.is_empty() {
        lines.push(format!("Not enough: {} {}.", wrong_shown.join("; "), Side::Failed.at(wrong.0)));
    }
    let (ok_checks, failed_checks) = (checks(ok), checks(failed));
    let only_ok = ok_checks.iter().find(|(_, command)| !failed_checks.iter().any(|(_, other)| other == command));
    if let Some((at, command)) = only_ok {
        let result = ok
            .steps
            .get(*at)
            .and_then(|step| coding::result_line(&step.observation))
            .and_then(|line| quoted(line, SENTENCE_BYTES));
        let printed = result.map_or_else(String::new, |result| format!(", which printed {result}"));
        lines.push(format!(
            "Only the succeeding run checked with {}{printed} {}.",
            quoted(command, SENTENCE_BYTES)?,
            Side::Ok.at(*at)
        ));
    }
    if let Some((at, command)) = failed_checks.last() {
        let result = failed
            .steps
            .get(*at)
            .and_then(|step| coding::result_line(&step.observation))
            .and_then(|line| quoted(line, SENTENCE_BYTES));
        let printed = result.map_or_else(String::new, |result| format!(" and saw {result}"));
        lines.push(format!(
            "The failing run's last check was {}{printed} {}.",
            quoted(command, SENTENCE_BYTES)?,
            Side::Failed.at(*at)
        ));
    }
    let (good, bad) = (right.1.first()?.path, wrong.1.first().map_or("", |file| file.path));
    let cause = if good == bad {
        format!("which change to {good} solves it")
    } else {
        format!("{good} was the place, not {bad}")
    };
    Some(Parts {
        kind: LessonKind::Contrast,
        cause,
        when: format!("Files: {good}."),
        not_when: format!("Where {good} looks different."),
        lines,
        tags: Vec::new(),
    })
}

/// Tests and scripts a run ran.
fn checks(run: &Run) -> Vec<(usize, &str)> {
    let log = coding::commands(run).into_iter();
    log.filter(|(_, _, kind)| matches!(kind, Work::Test | Work::Run)).map(|(at, command, _)| (at, command)).collect()
}
