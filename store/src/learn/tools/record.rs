//! What the records showed: the state of the thing a call was about, and where a value had come from.

use super::super::moves::{Effect, Move, effect};
use super::super::quote::{Side, piece};
use super::super::verdict::Difference;
use super::{ARGUMENT_BYTES, tool_of};
use crate::run::Run;
use serde_json::Value;

/// Fields of a record that are shown as its state.
pub(crate) const SHOWN_FACTS: usize = 4;

/// Where the right value stood before the wrong one was used.
pub(crate) fn origin_line(run: &Run, step: usize, difference: &Difference) -> Option<String> {
    let wanted = difference.wanted.as_ref()?;
    let text = match wanted {
        Value::String(text) if text.len() >= 5 => text.clone(),
        _ => return None,
    };
    let found = origin(run, step, &difference.argument, &text);
    if found.is_none() && !is_id(&text) {
        // A reason or a class is chosen, not looked up.
        return None;
    }
    let Some((at, path)) = found else {
        // Nothing that was read before the call shows it: the look-up is what was missing.
        let text = piece(&text, ARGUMENT_BYTES)?;
        return Some(format!(
            "No step before it shows `{text}` [judge]: the {} has to be looked up first.",
            difference.argument
        ));
    };
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

/// A value that names one thing, so that meeting it twice is no chance.
fn is_id(text: &str) -> bool {
    text.len() >= 4 && !text.contains(' ') && text.chars().any(|c| c.is_ascii_digit())
}

/// The step before `step` whose observation shows a value, and the field it stands under. A field of the argument's own
/// name is preferred to a longer list that also has the value; a word that is no id counts in such a field only.
fn origin(run: &Run, step: usize, argument: &str, text: &str) -> Option<(usize, Option<String>)> {
    let mut first = None;
    for (at, earlier) in run.steps.iter().enumerate().take(step) {
        if !earlier.observation.contains(text) {
            continue;
        }
        let only_own_field = !is_id(text);
        let parsed = serde_json::from_str::<Value>(&earlier.observation).ok();
        let path = parsed.as_ref().and_then(|value| path_to(value, text, None));
        if let Some((parent, key)) = path {
            let shown = parent.unwrap_or_else(|| key.clone());
            if key == argument {
                return Some((at, Some(shown)));
            }
            if !only_own_field {
                first.get_or_insert((at, Some(shown)));
            }
        } else if !only_own_field {
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

pub(crate) fn seen(run: &Run, id: &str) -> bool {
    run.steps.iter().any(|step| step.observation.contains(id) || step.action.contains(id))
}

/// Where the run had the due call's record before its eyes.
pub(crate) fn looked_at(run: &Run, wanted: &str) -> Option<String> {
    let Move::Call { arguments, .. } = Move::of(wanted) else { return None };
    let ids = arguments.iter().filter(|(name, _)| name.ends_with("_id")).filter_map(|(_, value)| value.as_str());
    let id = ids.filter(|id| id.len() >= 4).find(|id| run.steps.iter().any(|step| step.observation.contains(id)))?;
    let looks = |action: &str| matches!(Move::of(action), Move::Call { name, .. } if effect(name) == Effect::Reads);
    let at = run.steps.iter().rposition(|step| step.observation.contains(id) && looks(&step.action))?;
    let facts = record_facts(&run.steps.get(at)?.observation);
    if facts.is_empty() {
        return None;
    }
    Some(shown_facts(facts, Side::Only, at))
}

/// What the record looked like before a change.
pub(crate) fn state_line(run: &Run, step: usize, side: Side) -> Option<String> {
    let facts = facts(run, step);
    let at = facts.first()?.0;
    Some(shown_facts(facts.into_iter().map(|(_, fact)| fact).collect(), side, at))
}

/// State words of the record that a call is about, from the last look at it before the call.
pub(crate) fn facts(run: &Run, step: usize) -> Vec<(usize, String)> {
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
        let is_record = ids.iter().any(|id| look.action.contains(id));
        let found = if is_record { record_facts(&look.observation) } else { Vec::new() };
        if !found.is_empty() {
            return found.into_iter().map(|fact| (at, fact)).collect();
        }
    }
    Vec::new()
}

/// Top-level fields whose value is a word of a fixed set, such as a status or a class, quoted as they stand.
pub(crate) fn record_facts(observation: &str) -> Vec<String> {
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

/// Where the ids that a change used had come from.
pub(crate) fn sources_of(run: &Run, step: usize) -> Vec<String> {
    const SHOWN: usize = 2;
    let Some(taken) = run.steps.get(step) else { return Vec::new() };
    let Move::Call { arguments, .. } = Move::of(&taken.action) else { return Vec::new() };
    let mut out = Vec::new();
    for (name, value) in arguments.iter().filter(|(name, _)| name.as_str() != "user_id") {
        let Some(text) = value.as_str().filter(|text| is_id(text)) else { continue };
        let Some((at, Some(path))) = origin(run, step, name, text) else { continue };
        let tool = run.steps.get(at).map(|step| tool_of(&step.action)).unwrap_or_default();
        if !tool.is_empty() && run.steps.get(at).is_some_and(|step| step.observation.contains(&path)) {
            out.push(format!("Its {name} stood in what `{tool}` gave, under `{path}` {}.", Side::Only.at(at)));
        }
        if out.len() == SHOWN {
            break;
        }
    }
    out
}

/// The line that tells a record's state.
pub(crate) fn shown_facts(mut facts: Vec<String>, side: Side, at: usize) -> String {
    facts.truncate(SHOWN_FACTS);
    format!("The record showed {} {}.", facts.join(", "), side.at(at))
}
