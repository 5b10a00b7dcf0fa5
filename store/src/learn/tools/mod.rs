//! Lessons from runs made of tool calls.

mod pitfall;
mod record;
mod strategy;
mod words;

pub(super) use pitfall::{made_span, pitfalls, wanted_span};
pub(super) use record::state_line;
pub(super) use strategy::strategy;
pub(super) use words::{before, ended, saying};

use super::moves::{Effect, Move, effect};
use super::quote::argument;
use crate::run::Run;
use serde_json::Value;

/// Bytes of a quoted sentence.
pub(super) const SENTENCE_BYTES: usize = 180;

/// Bytes of a quoted argument.
pub(super) const ARGUMENT_BYTES: usize = 110;

/// Arguments shown of one call.
const SHOWN_ARGUMENTS: usize = 4;

/// Tools named in the condition.
const SHOWN_TOOLS: usize = 6;

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

pub(super) fn tool_tags(tools: &[String]) -> Vec<String> {
    let mut tags: Vec<String> = tools.to_vec();
    tags.sort();
    tags.dedup();
    tags
}

/// Tools that only write down or compute what the agent thinks.
pub(super) fn is_aside(tool: &str) -> bool {
    ["think", "calculate"].contains(&tool)
}

/// ` with a, b`, or nothing.
pub(super) fn with(spans: &[String]) -> String {
    if spans.is_empty() { String::new() } else { format!(" with {}", spans.join(", ")) }
}

/// `a`, `a and b`, `a, b and 3 more`.
pub(super) fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [one, two] => format!("{one} and {two}"),
        [one, two, rest @ ..] => format!("{one}, {two} and {} more", rest.len()),
    }
}
