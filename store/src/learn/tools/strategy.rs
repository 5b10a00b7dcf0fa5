//! What a success did: the changes it made, what it looked up before them, and what stood in its way.

use super::super::draft::Parts;
use super::super::moves::{Effect, Move, error_line, went_through};
use super::super::quote::{Side, quoted};
use super::record::{record_facts, shown_facts, sources_of};
use super::words::telling;
use super::{
    SENTENCE_BYTES, before, calls, is_aside, shown_arguments, state_line, tool_of, tool_tags, tools_in_play, with,
};
use crate::run::Run;
use folklore_protocol::lesson::LessonKind;
use std::fmt::Write as _;

/// Changes of a success that are shown.
const SHOWN_WRITES: usize = 3;

/// The strategy of a success: what was changed, what was looked up before, and what the record showed.
pub(crate) fn strategy(run: &Run) -> Option<Parts> {
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
            let gave = run.steps.get(*at).is_some_and(went_through);
            if gave && *kind == Effect::Reads && *at < until && !seen.contains(tool) && !is_aside(tool) {
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
            lines.push(format!("Do: `{tool}`{} {}.", with(&shown), Side::Only.at(*at)));
        }
        if let (Some(last), more @ 1..) = (lines.last_mut(), writes.len().saturating_sub(SHOWN_WRITES)) {
            let _ = write!(last, " {more} more of its changes are not shown.");
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
        // A question to the user is not what settled it.
        let said = if sentence.ends_with('?') {
            String::new()
        } else {
            format!(", then say {} {}", quoted(sentence, SENTENCE_BYTES)?, Side::Only.at(at))
        };
        lines.push(format!("Change nothing; look up {}{said}.", looked.join(", ")));
        lines.extend(obstacle(run));
        let look = calls.iter().rev().find(|(_, tool, kind)| *kind == Effect::Reads && !is_aside(tool))?;
        let facts = run.steps.get(look.0).map(|step| record_facts(&step.observation)).unwrap_or_default();
        if !facts.is_empty() {
            lines.push(shown_facts(facts, Side::Only, look.0));
        }
        cause = "nothing was changed and that was right".to_owned();
    }
    let not_when = match tags.first() {
        Some(tool) => format!("Where {tool} is not among the tools, or the record differs from the one described."),
        None => "Where the request can be carried out with the tools at hand.".to_owned(),
    };
    Some(Parts {
        kind: LessonKind::Strategy,
        cause,
        about: None,
        when: tools_in_play(run),
        not_when,
        lines,
        tags: tool_tags(&tags),
    })
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
        !["think", "calculate", ""].contains(&tool_of(&next.action)) || matches!(Move::of(&next.action), Move::Say(_))
    });
    let (next_at, next) = next?;
    let said = match Move::of(&next.action) {
        Move::Say(words) => quoted(words, SENTENCE_BYTES)?,
        _ => format!("`{}`", tool_of(&next.action)),
    };
    Some(format!("On {error} {} the next move was {said} {}.", Side::Only.at(at), Side::Only.at(next_at)))
}
