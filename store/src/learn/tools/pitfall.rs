//! What a failed run of tool calls is blamed for.
//!
//! Which step a pitfall blames, in this order:
//! 1. a call that changed something with other arguments than the judge expected;
//! 2. a call that changed something the judge expected to stay as it was;
//! 3. a change that was due and never made: blamed is the step that ended the run instead;
//! 4. an answer that did not say what the judge looked for: blamed is the message nearest to it;
//! 5. without any of these (labels that give no reason), the last call that came back with an error and whose tool never
//!    went through afterwards.
//!
//! Beside it, a tool that came back with one and the same error again and again is a pitfall of its own.
//!
//! What to do comes first wherever the judge's reference is known. What a failed run ended up with is never given as the
//! remedy: it may be the failure. Only the judge's reference is.

use super::super::draft::Parts;
use super::super::moves::{Effect, Move, effect, error_line, went_through};
use super::super::quote::{Side, argument, quoted};
use super::super::verdict::{Comparison, Difference, compare, differences};
use super::record::{facts, looked_at, origin_line, seen};
use super::words::{asked, nearest_answer};
use super::{
    ARGUMENT_BYTES, SENTENCE_BYTES, SHOWN_ARGUMENTS, before, ended, listed, shown_arguments, state_line, tool_of,
    tool_tags, tools_in_play, with,
};
use crate::run::{Run, shorten};
use folklore_protocol::lesson::LessonKind;
use serde_json::Value;

/// Times that one call has to meet one error before the repetition itself is the lesson.
const AGAIN: usize = 3;
/// Expected calls shown where all that was wrong is what was not expected.
const SHOWN_EXPECTED: usize = 2;

/// The pitfalls of a failed run, at most two.
pub(crate) fn pitfalls(run: &Run) -> Vec<Parts> {
    let mut out = Vec::new();
    let found = compare(run);
    if let Some(parts) = judged(run, found.as_ref()).or_else(|| unresolved(run)) {
        out.push(parts);
    }
    out.extend(repeated(run, found.as_ref()));
    out
}

/// What the judge's expectations say about a failed run.
fn judged(run: &Run, found: Option<&Comparison>) -> Option<Parts> {
    let mut blame = Blame::new(run);
    if let Some(found) = found {
        for (step, index, differ) in &found.changed {
            blame.changed(*step, *index, differ);
        }
        for &step in &found.unexpected {
            blame.unexpected(step, found.expects_change);
        }
        blame.missing(&found.missing);
    }
    blame.answers();
    blame.only_expected();
    blame.finish()
}

/// A pitfall that is being put together.
struct Blame<'a> {
    run: &'a Run,
    /// The judge's reference moves.
    expected: &'a [String],
    /// The first thing that was wrong, for the title.
    cause: Option<String>,
    /// What to do; these lines come first.
    advice: Vec<String>,
    /// What not to do.
    warnings: Vec<String>,
    /// What went wrong and how things stood.
    evidence: Vec<String>,
    not_when: Option<String>,
    /// The tools concerned.
    tools: Vec<String>,
}

impl<'a> Blame<'a> {
    fn new(run: &'a Run) -> Self {
        let (advice, warnings, evidence, tools) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self {
            run,
            expected: run.outcome.expected.as_deref().unwrap_or_default(),
            cause: None,
            advice,
            warnings,
            evidence,
            not_when: None,
            tools,
        }
    }

    /// The expected tool was called with other arguments.
    fn changed(&mut self, step: usize, index: usize, differ: &[Difference]) {
        let (Some(taken), Some(wanted)) = (self.run.steps.get(step), self.expected.get(index)) else { return };
        let tool = tool_of(wanted);
        self.tools.push(tool.to_owned());
        let names: Vec<&str> = differ.iter().map(|d| d.argument.as_str()).collect();
        self.cause.get_or_insert_with(|| format!("{tool} with the wrong {}{}", listed(&names), one_change(differ)));
        let shown = differ.iter().take(SHOWN_ARGUMENTS);
        let right: Vec<String> = shown.clone().filter_map(|d| wanted_span(wanted, d)).collect();
        let made: Vec<String> = shown.filter_map(|d| made_span(&taken.action, d)).collect();
        if !right.is_empty() {
            self.advice.push(format!("Do: `{tool}` with {} [judge].", right.join(", ")));
        }
        let at = Side::Only.at(step);
        self.evidence.push(if made.is_empty() {
            format!("Wrong: `{tool}` was called without {} {at}.", listed(&names))
        } else {
            format!("Wrong: `{tool}` was called with {} {at}.", made.join(", "))
        });
        self.evidence.extend(differ.iter().filter_map(|d| origin_line(self.run, step, d)));
        self.evidence.extend(warning(self.run, tool, step));
        self.evidence.extend(state_line(self.run, step, Side::Only));
    }

    /// Something was changed that was to stay.
    fn unexpected(&mut self, step: usize, expects_change: bool) {
        let Some(taken) = self.run.steps.get(step) else { return };
        let tool = tool_of(&taken.action);
        self.tools.push(tool.to_owned());
        let at = Side::Only.at(step);
        let with = with(&shown_arguments(&taken.action, &[]));
        if expects_change {
            self.cause.get_or_insert_with(|| format!("{tool} was not to be called"));
            self.warnings.push(format!("Do not call `{tool}`{with} here {at}: the judge did not expect it."));
        } else {
            self.cause.get_or_insert_with(|| format!("{tool} was called where nothing was to be changed"));
            let why = quoted_reason(self.run, "nothing was to be changed");
            self.advice.push(format!("Do: change nothing here, so do not call `{tool}`{with} {at}{why}."));
        }
        self.evidence.extend(state_line(self.run, step, Side::Only));
        let shown: Vec<String> =
            facts(self.run, step).into_iter().take(2).map(|(_, fact)| fact.replace('`', "")).collect();
        if !shown.is_empty() {
            self.not_when.get_or_insert_with(|| format!("Where the record does not show {}.", shown.join(" and ")));
        }
        self.evidence.extend(before(self.run, step, Side::Only));
    }

    /// Nothing was wrong but what was not expected: then what was expected is all there was to do.
    fn only_expected(&mut self) {
        if !self.advice.is_empty() || self.warnings.is_empty() {
            return;
        }
        for wanted in self.expected.iter().filter(|text| effect(tool_of(text)) == Effect::Writes).take(SHOWN_EXPECTED) {
            self.advice.push(format!("Do only: `{}`{} [judge].", tool_of(wanted), with(&shown_arguments(wanted, &[]))));
        }
    }

    /// Changes that were due and never made; several of one tool make one line.
    fn missing(&mut self, indices: &[usize]) {
        let mut told: Vec<&str> = Vec::new();
        let due = |tool: &str| {
            indices.iter().filter(|index| self.expected.get(**index).is_some_and(|text| tool_of(text) == tool)).count()
        };
        for wanted in indices.iter().filter_map(|&index| self.expected.get(index)) {
            let tool = tool_of(wanted);
            if told.contains(&tool) {
                continue;
            }
            told.push(tool);
            let times = match due(tool) {
                0 | 1 => "the run never did".to_owned(),
                2 => "and 1 more call of it that the run never made".to_owned(),
                more => format!("and {} more calls of it that the run never made", more - 1),
            };
            let calls = || self.run.steps.iter().filter(|step| tool_of(&step.action) == tool);
            let how = match (calls().next(), calls().any(went_through)) {
                (None, _) => "was due and never called",
                (Some(_), false) => "was due and never went through",
                // It went through with other arguments than these.
                (Some(_), true) => "was due again and not called",
            };
            self.cause.get_or_insert_with(|| format!("{tool} {how}"));
            self.advice.push(format!("Do: `{tool}`{} [judge]; {times}.", with(&shown_arguments(wanted, &[]))));
            self.evidence.extend(refused(self.run, tool));
            self.evidence.extend(unseen(self.run, wanted));
            self.evidence.extend(looked_at(self.run, wanted));
        }
        if !told.is_empty() {
            self.evidence.extend(ended(self.run, Side::Only).map(|line| format!("Instead the run {line}.")));
        }
        self.tools.extend(told.into_iter().map(str::to_owned));
    }

    /// Words that the answer lacked. Which of several questions each belongs to is not known, so the first one the user asked
    /// stands beside them as what was asked, not as theirs.
    fn answers(&mut self) {
        let question = asked(self.run);
        let mut asking = question.and_then(|(at, text)| {
            Some(format!("; the user had asked {} {}", quoted(text, SENTENCE_BYTES)?, Side::Only.at(at)))
        });
        for answer in &self.run.outcome.missing_answers {
            let Some(span) = quoted(answer, ARGUMENT_BYTES) else { continue };
            self.cause.get_or_insert_with(|| format!("the answer never said {answer}"));
            let asking = asking.take().unwrap_or_default();
            self.advice.push(format!("Do: say {span} in the answer [judge], which the run never did{asking}."));
        }
        if !self.run.outcome.missing_answers.is_empty() {
            self.evidence.extend(question.and_then(|(_, text)| nearest_answer(self.run, text)));
        }
    }

    fn finish(self) -> Option<Parts> {
        let usual = self
            .tools
            .first()
            .map(|tool| format!("Where {tool} is not among the tools, or the record differs from the one described."));
        Some(Parts {
            kind: LessonKind::Pitfall,
            cause: self.cause?,
            about: None,
            when: tools_in_play(self.run),
            not_when: self.not_when.or(usual).unwrap_or_default(),
            lines: self.advice.into_iter().chain(self.warnings).chain(self.evidence).collect(),
            tags: tool_tags(&self.tools),
        })
    }
}

/// ` (1 instead of 0)` when one short value was wrong.
fn one_change(differ: &[Difference]) -> String {
    const SHORT: usize = 24;
    match differ {
        [Difference { made: Some(made), wanted: Some(wanted), .. }] if !made.is_object() && !made.is_array() => {
            let (made, wanted) = (made.to_string(), wanted.to_string());
            if made.len() + wanted.len() <= SHORT { format!(" ({made} instead of {wanted})") } else { String::new() }
        }
        _ => String::new(),
    }
}

/// The part of an argument that differs, as it stands in the call that was made.
pub(crate) fn made_span(action: &str, difference: &Difference) -> Option<String> {
    narrowed(action, difference, |d| (d.made.as_ref(), d.wanted.as_ref()))
}

/// The same in the call that was expected.
pub(crate) fn wanted_span(expected: &str, difference: &Difference) -> Option<String> {
    narrowed(expected, difference, |d| (d.wanted.as_ref(), d.made.as_ref()))
}

fn narrowed<'a>(
    action: &str,
    difference: &'a Difference,
    pick: fn(&'a Difference) -> (Option<&'a Value>, Option<&'a Value>),
) -> Option<String> {
    let (this, other) = pick(difference);
    let this = this?;
    let whole = argument(action, &difference.argument, this, ARGUMENT_BYTES);
    // Inside lists and objects the first entry or leaf that differs says more than the beginning of the whole.
    if whole.as_ref().is_none_or(|span| span.ends_with('…'))
        && let Some(other) = other
        && let Some((name, leaf)) = first_leaf(&difference.argument, this, other)
    {
        if let (Value::Array(these), Value::Array(others)) = (this, other)
            && let Some(entry) = these.iter().find(|entry| !others.contains(entry)).map(Value::to_string)
            && entry.len() <= ARGUMENT_BYTES
            && action.contains(&entry)
        {
            return Some(format!("{} containing {}", difference.argument, quoted(&entry, ARGUMENT_BYTES)?));
        }
        return argument(action, &name, leaf, ARGUMENT_BYTES)
            .or_else(|| action.contains(&leaf.to_string()).then(|| quoted(&leaf.to_string(), ARGUMENT_BYTES)).flatten())
            .or(whole);
    }
    whole
}

/// The first named value inside `this` that is not in the same place of `other`.
fn first_leaf<'a>(name: &str, this: &'a Value, other: &Value) -> Option<(String, &'a Value)> {
    match (this, other) {
        (Value::Object(a), Value::Object(b)) => {
            a.iter().find_map(|(key, value)| first_leaf(key, value, b.get(key).unwrap_or(&Value::Null)))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.iter().enumerate().find_map(|(at, value)| first_leaf(name, value, b.get(at).unwrap_or(&Value::Null)))
        }
        (a, b) if a == b => None,
        (Value::Object(a), _) => a.iter().next().map(|(key, value)| (key.clone(), value)),
        (a, _) => Some((name.to_owned(), a)),
    }
}

/// An error that the same tool's call right before the one that is blamed had come back with.
fn warning(run: &Run, tool: &str, step: usize) -> Option<String> {
    let (at, earlier) =
        run.steps.iter().enumerate().take(step).rev().find(|(_, earlier)| tool_of(&earlier.action) == tool)?;
    let error = error_line(&earlier.observation)?;
    Some(format!("The call of it before came back with {} {}.", quoted(error, SENTENCE_BYTES)?, Side::Only.at(at)))
}

/// The due tool was called and came back with an error.
fn refused(run: &Run, tool: &str) -> Option<String> {
    let (at, error) = run.steps.iter().enumerate().rev().find_map(|(at, step)| {
        let error = error_line(&step.observation)?;
        (tool_of(&step.action) == tool).then_some((at, error))
    })?;
    let shown = run.steps.get(at).map(|step| shown_arguments(&step.action, &[])).unwrap_or_default();
    Some(format!(
        "It was tried{} and came back with {} {}.",
        with(&shown),
        quoted(error, SENTENCE_BYTES)?,
        Side::Only.at(at)
    ))
}

/// An id of the due call that no observation ever showed: nobody looked it up.
fn unseen(run: &Run, wanted: &str) -> Option<String> {
    let Move::Call { arguments, .. } = Move::of(wanted) else { return None };
    if let Some(user) = arguments.get("user_id").filter(|id| id.as_str().is_some_and(|id| !seen(run, id))) {
        let span = argument(wanted, "user_id", user, ARGUMENT_BYTES)?;
        return Some(format!("The user was never identified: no step shows {span} [judge]."));
    }
    let (name, value) = arguments.iter().find(|(name, value)| {
        name.ends_with("_id") && value.as_str().is_some_and(|id| id.len() >= 4 && !seen(run, id))
    })?;
    Some(format!(
        "Which one is meant has to be looked up first: no step of the run shows {} [judge].",
        argument(wanted, name, value, ARGUMENT_BYTES)?
    ))
}

/// A reason the judge gave, as a quote, when it says these words.
fn quoted_reason(run: &Run, words: &str) -> String {
    match &run.outcome.reason {
        Some(reason) if reason.contains(words) => format!(", since `{words}` [judge]"),
        _ => String::new(),
    }
}

/// A call that failed and whose tool never went through afterwards, for labels without a reason.
fn unresolved(run: &Run) -> Option<Parts> {
    let (at, error) =
        run.steps.iter().enumerate().rev().find_map(|(at, step)| Some((at, error_line(&step.observation)?)))?;
    let action = &run.steps.get(at)?.action;
    let tool = tool_of(action);
    let later = run
        .steps
        .iter()
        .skip(at + 1)
        .any(|step| tool_of(&step.action) == tool && error_line(&step.observation).is_none());
    if tool.is_empty() || later {
        return None;
    }
    let side = Side::Only.at(at);
    let shown = shown_arguments(action, &[]);
    let mut lines = vec![format!(
        "`{tool}`{} came back with {} {side} and never went through.",
        with(&shown),
        quoted(error, SENTENCE_BYTES)?
    )];
    lines.extend(state_line(run, at, Side::Only));
    lines.extend(ended(run, Side::Only).map(|line| format!("The run {line}.")));
    Some(Parts {
        kind: LessonKind::Pitfall,
        cause: format!("{tool} fails: {}", shorten(error, 80)),
        about: None,
        when: tools_in_play(run),
        not_when: format!("Where {tool} goes through."),
        lines,
        tags: tool_tags(&[tool.to_owned()]),
    })
}

/// One tool called again and again against one and the same error.
fn repeated(run: &Run, found: Option<&Comparison>) -> Option<Parts> {
    let failed: Vec<(usize, &str, &str)> = run
        .steps
        .iter()
        .enumerate()
        .filter_map(|(at, step)| Some((at, tool_of(&step.action), error_line(&step.observation)?)))
        .filter(|(_, tool, _)| !tool.is_empty())
        .collect();
    let (first, same) = failed.iter().enumerate().find_map(|(index, (_, tool, error))| {
        let same: Vec<usize> =
            failed.iter().skip(index).filter(|(_, t, e)| t == tool && e == error).map(|(at, _, _)| *at).collect();
        (same.len() >= AGAIN).then_some((index, same))
    })?;
    let (at, tool, error) = *failed.get(first)?;
    let action = &run.steps.get(at)?.action;
    let nearest = nearest_expected(run, action);
    let mut lines = Vec::new();
    let mut instead = "Do not".to_owned();
    match (found.filter(|_| effect(tool) == Effect::Writes), &nearest) {
        (Some(found), _) if !found.expects_change => {
            instead = format!("Do: change nothing here{}, and do not", quoted_reason(run, "nothing was to be changed"));
        }
        (Some(_), Some((wanted, differ))) => {
            let spans: Vec<String> =
                differ.iter().take(SHOWN_ARGUMENTS).filter_map(|d| wanted_span(wanted, d)).collect();
            if !spans.is_empty() {
                lines.push(format!("Do: `{tool}` with {} [judge].", spans.join(", ")));
            }
        }
        (Some(_), None) => {
            let others = run.outcome.expected.iter().flatten().filter(|text| effect(tool_of(text)) == Effect::Writes);
            lines.extend(others.take(SHOWN_EXPECTED).map(|text| {
                format!(
                    "Do: `{}`{} [judge], not `{tool}` {}.",
                    tool_of(text),
                    with(&shown_arguments(text, &[])),
                    Side::Only.at(at)
                )
            }));
        }
        (None, _) => {}
    }
    lines.push(format!(
        "{instead} repeat `{tool}` after {} {}: the same came back {} times, last {} {}.",
        quoted(error, SENTENCE_BYTES)?,
        Side::Only.at(at),
        same.len(),
        quoted(error, 60)?,
        Side::Only.at(*same.last()?)
    ));
    // What was wrong with it says more than what happens to be short.
    let wrong = nearest.iter().flat_map(|(_, differ)| differ.iter().take(SHOWN_ARGUMENTS));
    let mut shown: Vec<String> = wrong.filter_map(|d| made_span(action, d)).collect();
    if shown.is_empty() {
        shown = shown_arguments(action, &[]);
    }
    if !shown.is_empty() {
        lines.push(format!("The call was made with {} {}.", shown.join(", "), Side::Only.at(at)));
    }
    lines.extend(through_later(run, tool, action, *same.last()?, found));
    lines.extend(ended(run, Side::Only).map(|line| format!("The run {line}.")));
    Some(Parts {
        kind: LessonKind::Pitfall,
        about: None,
        cause: format!("repeating {tool} against the same error ({})", shorten(error, 70)),
        when: tools_in_play(run),
        not_when: format!("Where {tool} fails for another reason."),
        lines,
        tags: tool_tags(&[tool.to_owned()]),
    })
}

/// The judge's expected call of the same tool that agrees with a call in most arguments, and where the two differ.
fn nearest_expected<'a>(run: &'a Run, action: &str) -> Option<(&'a str, Vec<Difference>)> {
    let Move::Call { name, arguments } = Move::of(action) else { return None };
    let same_tool = run.outcome.expected.iter().flatten().filter_map(|text| match Move::of(text) {
        Move::Call { name: other, arguments: wants } if other == name => {
            Some((text.as_str(), differences(&arguments, &wants)))
        }
        _ => None,
    });
    same_tool.min_by_key(|(_, differ)| differ.len())
}

/// The call of the tool that went through after all, and what the judge made of it. Without the judge's agreement it is only
/// what a failed run did.
fn through_later(run: &Run, tool: &str, action: &str, after: usize, found: Option<&Comparison>) -> Option<String> {
    let (at, step) =
        run.steps.iter().enumerate().skip(after + 1).find(|(_, s)| tool_of(&s.action) == tool && went_through(s))?;
    let (Move::Call { arguments: failed, .. }, Move::Call { arguments: made, .. }) =
        (Move::of(action), Move::of(&step.action))
    else {
        return None;
    };
    let differ = differences(&made, &failed);
    let spans: Vec<String> = differ.iter().take(SHOWN_ARGUMENTS).filter_map(|d| made_span(&step.action, d)).collect();
    let shown = with(&spans);
    let at_step = Side::Only.at(at);
    let judged = match found {
        _ if effect(tool) != Effect::Writes => "went through",
        Some(found) if found.unexpected.contains(&at) => "went through and was not to be made",
        Some(found) if found.changed.iter().any(|(step, _, _)| *step == at) => "went through and was wrong too",
        Some(_) => "went through, as the judge expected",
        None => "went through, and the run failed all the same",
    };
    Some(format!("Later `{tool}`{shown} {judged} {at_step}."))
}
