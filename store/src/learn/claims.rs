//! What a failed conversation is blamed for: a run of messages, and perhaps code, as when several agents talk.
//!
//! Which step is blamed, in this order:
//! 1. the first that states figures, at least [`MIN_FIGURES`] of them, which nothing before it shows: neither the task nor an
//!    earlier message nor an output. What is reckoned (`= 12`) is derived, not claimed, so it does not count in a message;
//!    in code that was run every constant does, as it is made up just so;
//! 2. else the first whose action came back with an error;
//! 3. else the last message.
//!
//! What the judge gave as the reason is not read for this: where people marked the step, that is what this is measured by.
//! The opening entry, which only hands the task on, is never blamed.

use super::coding::{patch, result_line};
use super::draft::Parts;
use super::moves::{Move, error_line};
use super::quote::{Side, piece, quoted};
use super::tools::{ARGUMENT_BYTES, SENTENCE_BYTES, ended};
use crate::run::{Run, Step, shorten};
use folklore_protocol::lesson::LessonKind;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Figures that a step has to bring in to be blamed. One may be a date or a count of what was said; three are a table.
const MIN_FIGURES: usize = 3;
/// Digits of a figure: shorter ones number lists.
const MIN_DIGITS: usize = 2;
const BOUNDS: Bounds = Bounds { figures: MIN_FIGURES, digits: MIN_DIGITS };
/// Figures that are shown.
const SHOWN_FIGURES: usize = 3;

/// From where on figures are a claim. Those in force are [`MIN_FIGURES`] and [`MIN_DIGITS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Figures that a step has to bring in.
    pub figures: usize,
    /// Digits of each.
    pub digits: usize,
}

/// The step, from 1, that a conversation is blamed for under other bounds than those in force: to see what hangs on them.
#[must_use]
pub fn blamed_under(run: &Run, bounds: Bounds) -> Option<usize> {
    let unshown = unshown_step(run, bounds).map(|(at, _)| at);
    let step = unshown.or_else(|| failed_step(run).map(|(at, ..)| at)).or_else(|| last_words(run).map(|(at, _)| at));
    step.map(|at| at + 1)
}

/// Whether a run is a conversation: somebody says something, no tool is called and no patch is handed in.
pub(super) fn is_conversation(run: &Run) -> bool {
    let of = |step: &Step| match Move::of(&step.action) {
        Move::Say(_) => Some(true),
        Move::Call { .. } => None,
        Move::Command(_) | Move::Nothing => Some(false),
    };
    let moves: Option<Vec<bool>> = run.steps.iter().map(of).collect();
    moves.is_some_and(|moves| moves.contains(&true)) && patch(run).is_none()
}

/// The pitfall of a failed conversation.
pub(super) fn pitfall(run: &Run) -> Option<Parts> {
    let due = run.outcome.missing_answers.first().and_then(|answer| quoted(answer, ARGUMENT_BYTES));
    let due = due.map(|answer| format!("Due and never said: {answer} [judge]."));
    let (mut lines, cause) = unshown(run).or_else(|| first_error(run)).or_else(|| unchecked(run))?;
    // What was asked belongs to the first line: figures and errors alone could be of any task.
    if let (Some(first), Some(asked)) = (lines.first_mut(), quoted(&run.task, SENTENCE_BYTES)) {
        let _ = write!(first, " Asked was {asked} [task].");
    }
    lines.extend(due);
    lines.extend(ended(run, Side::Only).map(|line| format!("The run {line}.")));
    Some(Parts {
        kind: LessonKind::Pitfall,
        cause,
        about: None,
        when: String::new(),
        not_when: "Where what is stated was looked up in the same run.".into(),
        lines,
        tags: Vec::new(),
    })
}

/// Figures in a text, in order: runs of digits with points and commas inside, of so many digits at least.
fn figures(text: &str, min_digits: usize, derived_too: bool) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = text;
    let mut before = "";
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let offset = text.len() - rest.len();
        before = text.get(..offset + start).unwrap_or(before);
        let tail = rest.get(start..).unwrap_or_default();
        let len = tail.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',').unwrap_or(tail.len());
        let (figure, behind) = tail.split_at(len);
        rest = behind;
        let figure = figure.trim_end_matches(['.', ',']);
        let derived = before.trim_end_matches([' ', '$', '€', '£', '*']).ends_with('=');
        if figure.bytes().filter(u8::is_ascii_digit).count() >= min_digits && (derived_too || !derived) {
            out.push(figure);
        }
    }
    out
}

/// What a step itself says: the words before its move, and the move.
fn said(step: &Step) -> [(&str, bool); 2] {
    let is_code = matches!(Move::of(&step.action), Move::Command(_));
    [(&step.think, false), (&step.action, is_code)]
}

/// The first step, from 0, that states figures which nothing before it shows; and these.
fn unshown_step(run: &Run, bounds: Bounds) -> Option<(usize, Vec<&str>)> {
    let all = |text| figures(text, bounds.digits, true);
    let mut shown: BTreeSet<&str> = all(&run.task).into_iter().collect();
    for (at, step) in run.steps.iter().enumerate() {
        let (mut fresh, mut seen): (Vec<&str>, BTreeSet<&str>) = Default::default();
        for (text, is_code) in said(step) {
            for figure in figures(text, bounds.digits, is_code) {
                if !shown.contains(figure) && seen.insert(figure) {
                    fresh.push(figure);
                }
            }
        }
        if fresh.len() >= bounds.figures {
            return Some((at, fresh));
        }
        for text in [&step.think, &step.action, &step.observation] {
            shown.extend(all(text));
        }
    }
    None
}

/// What is said of such a step.
fn unshown(run: &Run) -> Option<(Vec<String>, String)> {
    let (at, fresh) = unshown_step(run, BOUNDS)?;
    let step = run.steps.get(at)?;
    let first = *fresh.first()?;
    let has = |line: &str| figures(line, BOUNDS.digits, true).contains(&first);
    let line = [&step.think, &step.action].iter().flat_map(|text| text.lines()).find(|line| has(line))?;
    // A long line may be cut before the figure; then the figures stand for it.
    let line = quoted(line, SENTENCE_BYTES).filter(|line| line.contains(first));
    let told: Vec<String> = fresh.iter().take(SHOWN_FIGURES).map(|figure| format!("`{figure}`")).collect();
    let side = Side::Only.at(at);
    let stated = line.unwrap_or_else(|| told.join(", "));
    let rest = fresh.len().saturating_sub(SHOWN_FIGURES);
    let rest = if rest > 0 { format!(" and {rest} more figures") } else { String::new() };
    let mut lines = vec![
        format!("Look it up before stating {stated} {side}."),
        format!("No step before it shows {}{rest}, nor does the task {side}.", told.join(", ")),
    ];
    lines.extend(afterwards(run, at));
    Some((lines, format!("figures stated that nothing shows ({first})")))
}

/// What came of it: the first output afterwards, if there is one.
fn afterwards(run: &Run, at: usize) -> Option<String> {
    let (later, step) = run.steps.iter().enumerate().skip(at).find(|(_, step)| !step.observation.trim().is_empty())?;
    let line = error_line(&step.observation).or_else(|| result_line(&step.observation))?;
    Some(format!("What was run next printed {} {}.", quoted(line, SENTENCE_BYTES)?, Side::Only.at(later)))
}

/// The first move that came back with an error, from 0, and its line; the opening entry made none.
fn failed_step(run: &Run) -> Option<(usize, &Step, &str)> {
    let moved = run.steps.iter().enumerate().filter(|(_, step)| !step.action.trim().is_empty());
    moved.filter_map(|(at, step)| Some((at, step, trouble(&step.observation)?))).next()
}

/// What is said of such a move.
fn first_error(run: &Run) -> Option<(Vec<String>, String)> {
    let (at, step, error) = failed_step(run)?;
    let side = Side::Only.at(at);
    let mut lines = vec![format!(
        "{} came back with {} {side}: settle that before going on.",
        quoted(&step.action, SENTENCE_BYTES)?,
        quoted(error, SENTENCE_BYTES)?
    )];
    let next = run.steps.get(at + 1).filter(|next| !next.action.trim().is_empty());
    let next = next.and_then(|next| quoted(&next.action, SENTENCE_BYTES));
    lines.extend(next.map(|next| format!("The run went on with {next} {}.", Side::Only.at(at + 1))));
    Some((lines, format!("going on past {}", shorten(piece(error, usize::MAX)?, ARGUMENT_BYTES))))
}

/// The line of an output that tells of trouble, also of an exit code that stands in words.
fn trouble(observation: &str) -> Option<&str> {
    error_line(observation).or_else(|| {
        let failed = |line: &&str| {
            line.trim_start()
                .strip_prefix("exitcode:")
                .is_some_and(|code| code.trim_start().bytes().next().is_some_and(|c| c != b'0'))
        };
        let at = observation.lines().position(|line| failed(&line))?;
        observation.lines().skip(at).filter(|line| line.chars().any(char::is_alphanumeric)).last()
    })
}

/// The last message that says something, from 0, and its words.
fn last_words(run: &Run) -> Option<(usize, &str)> {
    run.steps.iter().enumerate().rev().find_map(|(at, step)| match Move::of(&step.action) {
        Move::Say(words) if words.split_whitespace().count() > 3 => Some((at, words)),
        _ => None,
    })
}

/// What is said of it.
fn unchecked(run: &Run) -> Option<(Vec<String>, String)> {
    let (at, words) = last_words(run)?;
    let shown = quoted(words, SENTENCE_BYTES)?;
    let lines = vec![format!("Wrong: {shown} {}, and nothing checked it afterwards.", Side::Only.at(at))];
    Some((lines, "an answer that nothing checked".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_two_digits_and_derived_ones_are_told_apart() {
        let text = "1. A ticket is $25.00, five are 5 * 25.00 = $125. In 2021, 3,000 came.";
        assert_eq!(figures(text, MIN_DIGITS, false), ["25.00", "25.00", "2021", "3,000"]);
        assert_eq!(figures(text, MIN_DIGITS, true), ["25.00", "25.00", "125", "2021", "3,000"]);
    }

    fn say(words: &str) -> Step {
        Step { action: format!("respond: Clerk: {words}"), ..Step::default() }
    }

    fn failed(steps: Vec<Step>) -> Run {
        let mut run = Run { task: "What do 12 visits to Quay Hall cost?".into(), steps, ..Run::default() };
        run.outcome.missing_answers = vec!["395".into()];
        run
    }

    #[test]
    fn the_first_statement_that_nothing_shows_is_blamed() {
        let shown = Step {
            action: "look()".into(),
            observation: "a day 31.50, a year 130, parking 18".into(),
            ..Step::default()
        };
        let run = failed(vec![
            say("I will look up the prices of 12 visits."),
            shown,
            say("A day is 31.50 and a year 130, parking 18."),
            say("A student pays 77.25, a child 41.10, a guide 99."),
        ]);
        let parts = pitfall(&run).unwrap();
        assert!(parts.lines[0].contains("77.25") && parts.lines[0].contains("[step 4]."), "{:?}", parts.lines);
        assert!(parts.lines.iter().any(|line| line == "Due and never said: `395` [judge]."), "{:?}", parts.lines);
    }

    #[test]
    fn without_such_a_statement_the_first_error_is_blamed_and_else_the_end() {
        let broken = Step {
            action: "look()".into(),
            observation: "exitcode: 1 (execution failed)\nCode output: no key".into(),
            ..Step::default()
        };
        let run = failed(vec![say("I will look up the prices."), broken, say("It worked out well in the end.")]);
        let parts = pitfall(&run).unwrap();
        assert!(parts.lines[0].contains("[step 2]") && parts.lines[1].contains("[step 3]"), "{:?}", parts.lines);
        let run = failed(vec![say("I will look up the prices."), say("The visits cost nothing at all.")]);
        assert!(pitfall(&run).unwrap().lines[0].contains("[step 2]"));
    }
}
