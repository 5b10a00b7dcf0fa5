//! Lessons from runs made of tool calls.
//!
//! Which step a pitfall blames, in this order:
//! 1. a call that changed something with other arguments than the judge expected;
//! 2. a call that changed something the judge expected to stay as it was;
//! 3. a change that was due and never made: blamed is the step that ended the run instead;
//! 4. an answer that did not say what the judge looked for: blamed is the message nearest to it;
//! 5. without any of these (labels that give no reason), the last call that came back with an error and whose tool never
//!    went through afterwards.
//!
//! Beside it, a call repeated unchanged after one and the same error is a pitfall of its own.

use super::draft::Parts;
use super::moves::{Effect, Move, effect, error_line};
use super::quote::{Side, argument, piece, quoted};
use super::verdict::{Comparison, Difference, compare};
use crate::run::{Run, shorten};
use folklore_protocol::lesson::LessonKind;
use serde_json::Value;

/// Bytes of a quoted sentence.
pub(super) const SENTENCE_BYTES: usize = 180;
/// Bytes of a quoted argument.
pub(super) const ARGUMENT_BYTES: usize = 110;
/// Arguments shown of one call.
const SHOWN_ARGUMENTS: usize = 4;
/// Changes of a success that are shown.
const SHOWN_WRITES: usize = 3;
/// Fields of a record that are shown as its state.
const SHOWN_FACTS: usize = 4;
/// Tools named in the condition.
const SHOWN_TOOLS: usize = 6;

/// The pitfalls of a failed run, at most two.
pub(super) fn pitfalls(run: &Run) -> Vec<Parts> {
    let mut out = Vec::new();
    let found = compare(run);
    if let Some(parts) = judged(run, found.as_ref()).or_else(|| unresolved(run)) {
        out.push(parts);
    }
    out.extend(repeated(run));
    out
}

/// What the judge's expectations say about a failed run.
fn judged(run: &Run, found: Option<&Comparison>) -> Option<Parts> {
    let expected = run.outcome.expected.as_deref().unwrap_or_default();
    let mut lines = Vec::new();
    let mut cause = String::new();
    let mut not_when = String::new();
    let mut blamed = Vec::new();
    let name_first = |cause: &mut String, text: String| {
        if cause.is_empty() {
            *cause = text;
        }
    };
    if let Some(found) = found {
        for (step, index, differ) in &found.changed {
            let (Some(taken), Some(wanted)) = (run.steps.get(*step), expected.get(*index)) else { continue };
            let tool = tool_of(wanted);
            blamed.push(tool.to_owned());
            let (made, right): (Vec<_>, Vec<_>) = differ
                .iter()
                .take(SHOWN_ARGUMENTS)
                .map(|d| (made_span(&taken.action, d), wanted_span(wanted, d)))
                .unzip();
            let names: Vec<&str> = differ.iter().map(|d| d.argument.as_str()).collect();
            name_first(&mut cause, format!("{tool} with the wrong {}{}", names.join(" and "), one_change(differ)));
            let right: Vec<String> = right.into_iter().flatten().collect();
            let made: Vec<String> = made.into_iter().flatten().collect();
            let at = Side::Only.at(*step);
            if !right.is_empty() {
                lines.push(format!("Do instead: `{tool}` with {} [judge].", right.join(", ")));
            }
            if made.is_empty() {
                lines.push(format!("Wrong: `{tool}` was called without {} {at}.", names.join(", ")));
            } else {
                lines.push(format!("Wrong: `{tool}` was called with {} {at}.", made.join(", ")));
            }
            lines.extend(differ.iter().filter_map(|d| origin_line(run, *step, d)));
            lines.extend(warning(run, tool, *step));
            lines.extend(state_line(run, *step, Side::Only));
        }
        for &step in &found.unexpected {
            let Some(taken) = run.steps.get(step) else { continue };
            let tool = tool_of(&taken.action);
            blamed.push(tool.to_owned());
            let at = Side::Only.at(step);
            let shown = shown_arguments(&taken.action, &[]);
            let with = if shown.is_empty() { String::new() } else { format!(" with {}", shown.join(", ")) };
            if found.expects_change {
                name_first(&mut cause, format!("{tool} was not to be made"));
                lines.push(format!("Do not call `{tool}`{with} here {at}: the judge did not expect it."));
            } else {
                name_first(&mut cause, format!("{tool} was made where nothing was to be changed"));
                let why = quoted_reason(run, "nothing was to be changed");
                lines.push(format!("Do not call `{tool}`{with} here {at}: decline or stop instead{why}."));
            }
            lines.extend(state_line(run, step, Side::Only));
            if let Some(fact) = facts(run, step).first() {
                not_when = format!("Where the record does not show {}.", fact.1.replace('`', ""));
            }
            lines.extend(before(run, step, Side::Only));
        }
        for &index in &found.missing {
            let Some(wanted) = expected.get(index) else { continue };
            let tool = tool_of(wanted);
            blamed.push(tool.to_owned());
            name_first(&mut cause, format!("{tool} was due and never made"));
            let shown = shown_arguments(wanted, &[]);
            let with = if shown.is_empty() { String::new() } else { format!(" with {}", shown.join(", ")) };
            lines.push(format!("Do: `{tool}`{with} [judge]; the run never made it."));
            lines.extend(refused(run, tool));
            lines.extend(unseen(run, wanted));
            lines.extend(looked_at(run, wanted));
        }
        if !found.missing.is_empty() {
            lines.extend(ended(run, Side::Only).map(|line| format!("It ended with {line} instead.")));
        }
    }
    for answer in &run.outcome.missing_answers {
        name_first(&mut cause, format!("the answer never said {answer}"));
        if let Some(span) = quoted(answer, ARGUMENT_BYTES) {
            lines.push(format!("The answer had to say {span} [judge] and never did{}.", nearest_answer(run)));
        }
    }
    if lines.is_empty() {
        return None;
    }
    // What to do comes first, then what went wrong, then the circumstances.
    lines.sort_by_key(|line| if line.starts_with("Do") { 0 } else { 1 });
    if not_when.is_empty()
        && let Some(tool) = blamed.first()
    {
        not_when = format!("Where {tool} is not among the tools, or the record differs from the one described.");
    }
    Some(Parts {
        kind: LessonKind::Pitfall,
        cause,
        when: tools_in_play(run),
        not_when,
        lines,
        tags: tool_tags(&blamed),
    })
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
fn made_span(action: &str, difference: &Difference) -> Option<String> {
    narrowed(action, difference, |d| (d.made.as_ref(), d.wanted.as_ref()))
}

/// The same in the call that was expected.
fn wanted_span(expected: &str, difference: &Difference) -> Option<String> {
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
    // Inside lists and objects the first leaf that differs says more than the beginning of the whole.
    if whole.as_ref().is_none_or(|span| span.ends_with('…'))
        && let Some(other) = other
        && let Some((name, leaf)) = first_leaf(&difference.argument, this, other)
    {
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

/// Where the right value stood before the wrong one was used.
fn origin_line(run: &Run, step: usize, difference: &Difference) -> Option<String> {
    let wanted = difference.wanted.as_ref()?;
    let text = match wanted {
        Value::String(text) if text.len() >= 5 => text.clone(),
        _ => return None,
    };
    let (at, path) = origin(run, step, &difference.argument, &text)?;
    let under = path.map_or_else(String::new, |path| format!(" under `{path}`"));
    let tool = run.steps.get(at).map(|step| tool_of(&step.action)).unwrap_or_default();
    let by = if tool.is_empty() { String::new() } else { format!(" from `{tool}`") };
    Some(format!(
        "The right {} was at hand: `{}`{under}{by} {}.",
        difference.argument,
        piece(&text, ARGUMENT_BYTES)?,
        Side::Only.at(at)
    ))
}

/// The step before `step` whose observation shows a value, and the field it stands under. A field of the argument's own
/// name is preferred to a longer list that also has the value.
fn origin(run: &Run, step: usize, argument: &str, text: &str) -> Option<(usize, Option<String>)> {
    let mut first = None;
    for (at, earlier) in run.steps.iter().enumerate().take(step) {
        if !earlier.observation.contains(text) {
            continue;
        }
        let parsed = serde_json::from_str::<Value>(&earlier.observation).ok();
        let path = parsed.as_ref().and_then(|value| path_to(value, text, None));
        if let Some((parent, key)) = path {
            let shown = parent.unwrap_or_else(|| key.clone());
            if key == argument {
                return Some((at, Some(shown)));
            }
            first.get_or_insert((at, Some(shown)));
        } else {
            first.get_or_insert((at, None));
        }
    }
    first
}

/// The field of the top level that leads to a value, and the field it stands in.
fn path_to(value: &Value, text: &str, top: Option<&str>) -> Option<(Option<String>, String)> {
    match value {
        Value::Object(map) => map.iter().find_map(|(key, inner)| {
            let hit = inner.as_str() == Some(text) || key == text;
            let name = if key == text { top.unwrap_or(key) } else { key };
            if hit {
                return Some((top.map(str::to_owned), name.to_owned()));
            }
            path_to(inner, text, top.or(Some(key)))
        }),
        Value::Array(list) => list.iter().find_map(|inner| {
            if inner.as_str() == Some(text) {
                return top.map(|top| (Some(top.to_owned()), top.to_owned()));
            }
            path_to(inner, text, top)
        }),
        _ => None,
    }
}

/// An error of the same tool shortly before the call that is blamed: the warning that was read wrongly.
fn warning(run: &Run, tool: &str, step: usize) -> Option<String> {
    let (at, error) = run.steps.iter().enumerate().take(step).rev().find_map(|(at, earlier)| {
        let error = error_line(&earlier.observation)?;
        (tool_of(&earlier.action) == tool).then_some((at, error))
    })?;
    Some(format!(
        "The warning that was answered with the wrong change: {} {}.",
        quoted(error, SENTENCE_BYTES)?,
        Side::Only.at(at)
    ))
}

/// The due tool was called and came back with an error.
fn refused(run: &Run, tool: &str) -> Option<String> {
    let (at, error) = run.steps.iter().enumerate().rev().find_map(|(at, step)| {
        let error = error_line(&step.observation)?;
        (tool_of(&step.action) == tool).then_some((at, error))
    })?;
    let shown = run.steps.get(at).map(|step| shown_arguments(&step.action, &[])).unwrap_or_default();
    let with = if shown.is_empty() { String::new() } else { format!(" with {}", shown.join(", ")) };
    Some(format!("It was tried{with} and came back with {} {}.", quoted(error, SENTENCE_BYTES)?, Side::Only.at(at)))
}

/// An id of the due call that no observation ever showed: nobody looked it up.
fn unseen(run: &Run, wanted: &str) -> Option<String> {
    let Move::Call { arguments, .. } = Move::of(wanted) else { return None };
    let (name, value) = arguments.iter().find(|(name, value)| {
        name.ends_with("_id") && value.as_str().is_some_and(|id| id.len() >= 4 && !seen(run, id))
    })?;
    Some(format!(
        "Which one is meant has to be looked up first: no step of the run shows {} [judge].",
        argument(wanted, name, value, ARGUMENT_BYTES)?
    ))
}

fn seen(run: &Run, id: &str) -> bool {
    run.steps.iter().any(|step| step.observation.contains(id) || step.action.contains(id))
}

/// Where the run had the due call's record before its eyes.
fn looked_at(run: &Run, wanted: &str) -> Option<String> {
    let Move::Call { arguments, .. } = Move::of(wanted) else { return None };
    let ids = arguments.iter().filter(|(name, _)| name.ends_with("_id")).filter_map(|(_, value)| value.as_str());
    let id = ids.filter(|id| id.len() >= 4).find(|id| run.steps.iter().any(|step| step.observation.contains(id)))?;
    let at =
        run.steps.iter().rposition(|step| step.observation.contains(id) && Move::of(&step.action) != Move::Nothing)?;
    let facts = record_facts(&run.steps.get(at)?.observation);
    if facts.is_empty() {
        return None;
    }
    let shown: Vec<String> = facts.into_iter().take(SHOWN_FACTS).collect();
    Some(format!("The record showed {} {}.", shown.join(", "), Side::Only.at(at)))
}

/// How a run ended: the last hand-off, or the sentence of its last words that decides something.
pub(super) fn ended(run: &Run, side: Side) -> Option<String> {
    let hand_off = run.steps.iter().enumerate().rev().find(
        |(_, step)| matches!(Move::of(&step.action), Move::Call { name, .. } if effect(name) == Effect::HandsOff),
    );
    if let Some((at, step)) = hand_off {
        return Some(format!("`{}` {}", tool_of(&step.action), side.at(at)));
    }
    let (at, sentence) = telling(run)?;
    Some(format!("{} {}", quoted(sentence, SENTENCE_BYTES)?, side.at(at)))
}

/// The sentence among a run's last messages that refuses, decides or states something; thanks and goodbyes do not.
pub(super) fn telling(run: &Run) -> Option<(usize, &str)> {
    const DECIDES: &[&str] = &[
        "unable",
        "cannot",
        "can't",
        "can not",
        "not possible",
        "unfortunately",
        "not eligible",
        "not allowed",
        "not permitted",
        "policy",
        "only be",
        "does not",
        "do not have",
        "however",
        "has been",
        "have been",
        "successfully",
        "total",
        "refund",
        "certificate",
        "need to",
        "please provide",
        "would you like",
    ];
    const LAST_MESSAGES: usize = 4;
    let says = run.steps.iter().enumerate().rev().filter_map(|(at, step)| match Move::of(&step.action) {
        Move::Say(words) => Some((at, words)),
        _ => None,
    });
    let mut fallback = None;
    for (at, words) in says.take(LAST_MESSAGES) {
        let sentences = words.lines().flat_map(|line| line.split_inclusive(['.', '?', '!'])).map(str::trim);
        for marker in DECIDES {
            let hit = sentences.clone().find(|s| s.len() > 20 && s.to_lowercase().contains(marker));
            if let Some(sentence) = hit {
                return Some((at, sentence));
            }
        }
        let longest = sentences.max_by_key(|sentence| sentence.len()).filter(|sentence| sentence.len() > 20);
        if let Some(sentence) = longest {
            fallback.get_or_insert((at, sentence));
        }
    }
    fallback
}

/// What was said in place of a missing answer: the last message with a number in it.
fn nearest_answer(run: &Run) -> String {
    let said = run.steps.iter().enumerate().rev().find_map(|(at, step)| match Move::of(&step.action) {
        Move::Say(words) => {
            let number = |line: &&str| line.chars().any(|c| c.is_ascii_digit());
            let line = words.lines().rev().filter(number).find(|line| line.to_lowercase().contains("total"));
            line.or_else(|| words.lines().rev().find(number)).map(|line| (at, line))
        }
        _ => None,
    });
    let said =
        said.and_then(|(at, line)| Some(format!("; it said {} {}", quoted(line, SENTENCE_BYTES)?, Side::Only.at(at))));
    said.unwrap_or_default()
}

/// A reason the judge gave, as a quote, when it says these words.
fn quoted_reason(run: &Run, words: &str) -> String {
    match &run.outcome.reason {
        Some(reason) if reason.contains(words) => format!(", since `{words}` [judge]"),
        _ => String::new(),
    }
}

/// The user's words right before a change.
pub(super) fn before(run: &Run, step: usize, side: Side) -> Option<String> {
    let (at, words) = run.steps.iter().enumerate().take(step).rev().find_map(|(at, earlier)| {
        matches!(Move::of(&earlier.action), Move::Say(_)).then_some((at, earlier.observation.as_str()))
    })?;
    let sentence = words.lines().flat_map(|line| line.split_inclusive(['.', '?', '!'])).map(str::trim);
    // A bare yes tells nothing about when this happens.
    let sentence = sentence.max_by_key(|sentence| sentence.len()).filter(|sentence| sentence.len() >= 30)?;
    Some(format!("The user had said {} {}.", quoted(sentence, SENTENCE_BYTES)?, side.at(at)))
}

/// What the record looked like before a change.
pub(super) fn state_line(run: &Run, step: usize, side: Side) -> Option<String> {
    let facts = facts(run, step);
    let at = facts.first()?.0;
    let shown: Vec<String> = facts.into_iter().map(|(_, fact)| fact).take(SHOWN_FACTS).collect();
    Some(format!("The record showed {} {}.", shown.join(", "), side.at(at)))
}

/// State words of the record that a call is about, from the last look at it before the call.
fn facts(run: &Run, step: usize) -> Vec<(usize, String)> {
    let Some(Move::Call { arguments, .. }) = run.steps.get(step).map(|step| Move::of(&step.action)) else {
        return Vec::new();
    };
    let ids: Vec<&str> = arguments
        .iter()
        .filter(|(name, _)| name.ends_with("_id") || name.as_str() == "id")
        .filter_map(|(_, value)| value.as_str())
        .filter(|id| id.len() >= 4)
        .collect();
    let looks = run.steps.iter().enumerate().take(step).rev().filter(
        |(_, earlier)| matches!(Move::of(&earlier.action), Move::Call { name, .. } if effect(name) == Effect::Reads),
    );
    for (at, look) in looks {
        // The record itself, not a list that has it as one of many.
        let is_record = ids.iter().any(|id| look.action.contains(id) && look.observation.contains(id));
        let found = if is_record { record_facts(&look.observation) } else { Vec::new() };
        if !found.is_empty() {
            return found.into_iter().map(|fact| (at, fact)).collect();
        }
    }
    Vec::new()
}

/// Top-level fields whose value is a word of a fixed set, such as a status or a class, quoted as they stand.
fn record_facts(observation: &str) -> Vec<String> {
    let Ok(Value::Object(map)) = serde_json::from_str::<Value>(observation) else { return Vec::new() };
    let is_state = |value: &Value| match value {
        Value::Bool(_) => true,
        Value::String(word) => {
            (2..=32).contains(&word.len())
                && word.chars().all(|c| c.is_ascii_lowercase() || matches!(c, '_' | ' ' | '-'))
        }
        _ => false,
    };
    let mut named: Vec<(&String, &Value)> = map.iter().filter(|(_, value)| is_state(value)).collect();
    // Status and class decide what is allowed more often than the rest.
    named.sort_by_key(|(key, _)| !["status", "cabin", "class", "membership", "insurance"].contains(&key.as_str()));
    let spans = named.into_iter().filter_map(|(key, value)| {
        let (key, value) = (Value::from(key.as_str()), value);
        let spelled = [format!("{key}: {value}"), format!("{key}:{value}")];
        spelled.into_iter().find(|span| observation.contains(span.as_str())).map(|span| format!("`{span}`"))
    });
    spans.collect()
}

/// Arguments of a call worth showing: short ones, ids of persons left out.
pub(super) fn shown_arguments(action: &str, skip: &[&str]) -> Vec<String> {
    let Move::Call { arguments, .. } = Move::of(action) else { return Vec::new() };
    let mut named: Vec<(&String, &Value)> = arguments
        .iter()
        .filter(|(name, _)| name.as_str() != "user_id" && !skip.contains(&name.as_str()))
        .filter(|(name, _)| {
            !["first_name", "last_name", "email", "zip", "summary", "expression", "thought"].contains(&name.as_str())
        })
        .collect();
    named.sort_by_key(|(_, value)| value.to_string().len());
    let spans = named.into_iter().filter_map(|(name, value)| argument(action, name, value, ARGUMENT_BYTES));
    spans.take(SHOWN_ARGUMENTS).collect()
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
    let with = if shown.is_empty() { String::new() } else { format!(" with {}", shown.join(", ")) };
    let mut lines = vec![format!(
        "`{tool}`{with} came back with {} {side} and never went through.",
        quoted(error, SENTENCE_BYTES)?
    )];
    lines.extend(state_line(run, at, Side::Only));
    lines.extend(ended(run, Side::Only).map(|line| format!("The run ended with {line}.")));
    Some(Parts {
        kind: LessonKind::Pitfall,
        cause: format!("{tool} fails: {}", shorten(error, 80)),
        when: tools_in_play(run),
        not_when: format!("Where {tool} goes through."),
        lines,
        tags: tool_tags(&[tool.to_owned()]),
    })
}

/// One call made again and again against one and the same error.
fn repeated(run: &Run) -> Option<Parts> {
    const AGAIN: usize = 3;
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
    let mut lines = vec![format!(
        "Do not repeat `{tool}` after {} {}: the same came back {} times, last {} {}.",
        quoted(error, SENTENCE_BYTES)?,
        Side::Only.at(at),
        same.len(),
        quoted(error, 60)?,
        Side::Only.at(*same.last()?)
    )];
    let through = run
        .steps
        .iter()
        .enumerate()
        .skip(*same.last()? + 1)
        .find(|(_, step)| tool_of(&step.action) == tool && error_line(&step.observation).is_none());
    if let Some((at, step)) = through {
        let shown = shown_arguments(&step.action, &[]);
        if !shown.is_empty() {
            lines.push(format!("What went through in the end: {} {}.", shown.join(", "), Side::Only.at(at)));
        }
    }
    lines.extend(run.steps.get(at).and_then(|step| {
        let shown = shown_arguments(&step.action, &[]);
        (!shown.is_empty()).then(|| format!("The call was made with {} {}.", shown.join(", "), Side::Only.at(at)))
    }));
    lines.extend(ended(run, Side::Only).map(|line| format!("The run ended with {line}.")));
    Some(Parts {
        kind: LessonKind::Pitfall,
        cause: format!("repeating {tool} against the same error ({})", shorten(error, 70)),
        when: tools_in_play(run),
        not_when: format!("Where {tool} fails for another reason."),
        lines,
        tags: tool_tags(&[tool.to_owned()]),
    })
}

/// The strategy of a success: what was changed, what was looked up before, and what the record showed.
pub(super) fn strategy(run: &Run) -> Option<Parts> {
    let calls: Vec<(usize, &str, Effect)> = calls(run).collect();
    let writes: Vec<(usize, &str)> = calls
        .iter()
        .filter(|(at, _, kind)| {
            *kind == Effect::Writes && run.steps.get(*at).is_some_and(|s| error_line(&s.observation).is_none())
        })
        .map(|(at, tool, _)| (*at, *tool))
        .collect();
    let mut lines = Vec::new();
    let looks = |until: usize| {
        let mut seen: Vec<&str> = Vec::new();
        let mut spans = Vec::new();
        for (at, tool, kind) in &calls {
            if *kind == Effect::Reads && *at < until && !seen.contains(tool) && !["think", "calculate"].contains(tool) {
                seen.push(tool);
                spans.push(format!("`{tool}` {}", Side::Only.at(*at)));
            }
        }
        spans
    };
    let cause;
    let mut tags = Vec::new();
    if let Some(&(last, _)) = writes.last() {
        let mut names: Vec<&str> = Vec::new();
        for (at, tool) in writes.iter().take(SHOWN_WRITES) {
            if !names.contains(tool) {
                names.push(tool);
            }
            let step = run.steps.get(*at)?;
            let shown = shown_arguments(&step.action, &[]);
            let with = if shown.is_empty() { String::new() } else { format!(" with {}", shown.join(", ")) };
            lines.push(format!("Do: `{tool}`{with} {}.", Side::Only.at(*at)));
        }
        let looked = looks(last);
        if !looked.is_empty() {
            lines.push(format!("Look up first: {}.", looked.join(", ")));
        }
        lines.extend(state_line(run, writes.first()?.0, Side::Only));
        lines.extend(sources_of(run, last));
        lines.extend(obstacle(run));
        lines.extend(before(run, writes.first()?.0, Side::Only));
        cause = format!("{} solved it", names.join(", then "));
        tags.extend(names.into_iter().map(str::to_owned));
    } else {
        let (at, sentence) = telling(run)?;
        let looked = looks(usize::MAX);
        if looked.is_empty() {
            return None;
        }
        lines.push(format!(
            "Change nothing; look up {}, then say {} {}.",
            looked.join(", "),
            quoted(sentence, SENTENCE_BYTES)?,
            Side::Only.at(at)
        ));
        lines.extend(obstacle(run));
        let look = calls
            .iter()
            .rev()
            .find(|(_, tool, kind)| *kind == Effect::Reads && *tool != "think" && *tool != "calculate")?;
        let facts = run.steps.get(look.0).map(|step| record_facts(&step.observation)).unwrap_or_default();
        if !facts.is_empty() {
            let shown: Vec<String> = facts.into_iter().take(SHOWN_FACTS).collect();
            lines.push(format!("The record showed {} {}.", shown.join(", "), Side::Only.at(look.0)));
        }
        cause = "nothing was changed and that was right".to_owned();
    }
    let not_when = match tags.first() {
        Some(tool) => format!("Where {tool} is not among the tools, or the record differs from the one described."),
        None => "Where the request can be carried out with the tools at hand.".to_owned(),
    };
    Some(Parts { kind: LessonKind::Strategy, cause, when: tools_in_play(run), not_when, lines, tags: tool_tags(&tags) })
}

/// Where the ids that a change used had come from.
fn sources_of(run: &Run, step: usize) -> Vec<String> {
    const SHOWN: usize = 2;
    let Some(taken) = run.steps.get(step) else { return Vec::new() };
    let Move::Call { arguments, .. } = Move::of(&taken.action) else { return Vec::new() };
    let mut out = Vec::new();
    for (name, value) in arguments.iter().filter(|(name, _)| name.as_str() != "user_id") {
        let Some(text) = value.as_str().filter(|text| text.len() >= 5 && text.contains(['_', '#'])) else { continue };
        let Some((at, Some(path))) = origin(run, step, name, text) else { continue };
        let tool = run.steps.get(at).map(|step| tool_of(&step.action)).unwrap_or_default();
        if !tool.is_empty() && run.steps.get(at).is_some_and(|step| step.observation.contains(&path)) {
            out.push(format!("Its {name} came from `{tool}`, under `{path}` {}.", Side::Only.at(at)));
        }
        if out.len() == SHOWN {
            break;
        }
    }
    out
}

/// An error that a success met, and what it did next.
fn obstacle(run: &Run) -> Option<String> {
    let (at, step) = run
        .steps
        .iter()
        .enumerate()
        .rev()
        .find(|(_, step)| !tool_of(&step.action).is_empty() && error_line(&step.observation).is_some())?;
    let error = quoted(error_line(&step.observation)?, SENTENCE_BYTES)?;
    let next = run.steps.iter().enumerate().skip(at + 1).find(|(_, next)| {
        !["think", ""].contains(&tool_of(&next.action)) || matches!(Move::of(&next.action), Move::Say(_))
    });
    let (next_at, next) = next?;
    let said = match Move::of(&next.action) {
        Move::Say(words) => quoted(words, SENTENCE_BYTES)?,
        _ => format!("`{}`", tool_of(&next.action)),
    };
    Some(format!("On {error} {} the next move was {said} {}.", Side::Only.at(at), Side::Only.at(next_at)))
}

/// The calls of a run: step, tool, effect.
pub(super) fn calls(run: &Run) -> impl Iterator<Item = (usize, &str, Effect)> {
    run.steps.iter().enumerate().filter_map(|(at, step)| match Move::of(&step.action) {
        Move::Call { name, .. } => Some((at, name, effect(name))),
        _ => None,
    })
}

/// The tool an action calls; empty when it is no call.
pub(super) fn tool_of(action: &str) -> &str {
    match Move::of(action) {
        Move::Call { name, .. } => name,
        _ => "",
    }
}

/// `Tools: a, b.` of a run, changes first.
pub(super) fn tools_in_play(run: &Run) -> String {
    let expected = run.outcome.expected.iter().flatten().filter_map(|action| match Move::of(action) {
        Move::Call { name, .. } => Some(name),
        _ => None,
    });
    let mut names: Vec<&str> = calls(run).map(|(_, tool, _)| tool).chain(expected).collect();
    names.retain(|name| !["think", "calculate"].contains(name));
    names.sort_by_key(|name| (effect(name) != Effect::Writes, *name));
    names.dedup();
    names.truncate(SHOWN_TOOLS);
    if names.is_empty() { String::new() } else { format!("Tools: {}.", names.join(", ")) }
}

fn tool_tags(tools: &[String]) -> Vec<String> {
    let mut tags: Vec<String> = tools.to_vec();
    tags.sort();
    tags.dedup();
    tags
}
