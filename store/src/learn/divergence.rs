//! Where two runs of one task part that end in an answer: worked sums, written code, commands, look-ups.
//!
//! Runs that change something are told apart by their changes (`contrast.rs`). These leave nothing behind but what they
//! did and said, so the contrast is the first move that only the failing run made, beside the first that only the succeeding
//! run made. Moves are compared as they were made, apart from white space and the order of what is added or multiplied.

use super::draft::Parts;
use super::moves::{Move, Work, work};
use super::quote::{Side, piece, quoted};
use super::tools::{ARGUMENT_BYTES, SENTENCE_BYTES, is_aside, shown_arguments, tool_of, with};
use crate::run::{Run, shorten};
use folklore_protocol::lesson::LessonKind;
use serde_json::Value;
use std::collections::BTreeSet;

/// Bytes of each move in a title.
const TITLE_MOVE_BYTES: usize = 48;
/// Lines of code of either run that are shown beside the first.
const SHOWN_MORE: usize = 2;

/// The first difference between a success and a failure in what they did; `None` when no step shows one.
pub(super) fn first(ok: &Run, failed: &Run) -> Option<Parts> {
    sums(ok, failed).or_else(|| code(ok, failed)).or_else(|| steps(ok, failed))
}

/// A calculation: the step, what was reckoned, what came out.
struct Sum<'a> {
    at: usize,
    expression: String,
    result: &'a str,
    /// What is compared.
    key: String,
}

fn sums_of(run: &Run) -> Vec<Sum<'_>> {
    let sum = |(at, step): (usize, &'_ crate::run::Step)| {
        let Move::Call { name: "calculate", arguments } = Move::of(&step.action) else { return None };
        let expression = arguments.get("expression").and_then(Value::as_str)?.to_owned();
        // What JSON wrote in another way cannot be quoted letter for letter.
        let at_hand = step.action.contains(&expression) && !expression.contains('`') && !expression.trim().is_empty();
        let result = run.steps.get(at).map_or("", |step| step.observation.as_str());
        let key = format!("{}={}", in_order(&expression), result.trim());
        at_hand.then_some(Sum { at, expression, result, key })
    };
    run.steps.iter().enumerate().filter_map(sum).collect()
}

/// An expression without white space, with what is only added or only multiplied in one order.
fn in_order(expression: &str) -> String {
    let plain: String = expression.chars().filter(|c| !c.is_whitespace() && *c != '$' && *c != ',').collect();
    for operator in ['+', '*'] {
        let only = plain.chars().all(|c| c.is_ascii_digit() || c == '.' || c == operator);
        if only && plain.contains(operator) {
            let mut parts: Vec<&str> = plain.split(operator).collect();
            parts.sort_unstable();
            return parts.join(&operator.to_string());
        }
    }
    plain
}

/// Worked sums: the first calculation that only one of the two made.
fn sums(ok: &Run, failed: &Run) -> Option<Parts> {
    let (right, wrong) = (sums_of(ok), sums_of(failed));
    let only = |these: &[Sum<'_>], others: &[Sum<'_>]| {
        these.iter().position(|sum| !others.iter().any(|other| other.key == sum.key))
    };
    let (good, bad) = (only(&right, &wrong), only(&wrong, &right));
    let good = good.and_then(|at| right.get(at));
    let bad = bad.and_then(|at| wrong.get(at));
    let mut lines = Vec::new();
    let cause = match (good, bad) {
        (Some(good), Some(bad)) if in_order(&good.expression) == in_order(&bad.expression) => {
            let (came, other) = (quoted(good.result, ARGUMENT_BYTES)?, quoted(bad.result, ARGUMENT_BYTES)?);
            lines.push(format!(
                "Do: `{}` is {came} {}; the failing run took `{}` for {other} {}.",
                good.expression,
                Side::Ok.at(good.at),
                bad.expression,
                Side::Failed.at(bad.at)
            ));
            format!("{} is {}", brief(&good.expression), brief(good.result))
        }
        (Some(good), Some(bad)) => {
            lines.push(format!(
                "Do: reckon `{}` {}, not `{}` {}.",
                good.expression,
                Side::Ok.at(good.at),
                bad.expression,
                Side::Failed.at(bad.at)
            ));
            format!("{}, not {}", brief(&good.expression), brief(&bad.expression))
        }
        (Some(good), None) => {
            let (at, said) = answer(failed)?;
            lines.push(format!(
                "Do: reckon `{}` {}; the failing run never did and answered {} {}.",
                good.expression,
                Side::Ok.at(good.at),
                quoted(said, SENTENCE_BYTES)?,
                Side::Failed.at(at)
            ));
            format!("{} was left out", brief(&good.expression))
        }
        (None, Some(bad)) => {
            let (at, said) = answer(ok)?;
            lines.push(format!(
                "Do not reckon `{}` {}: only the failing run did; the succeeding one answered {} {}.",
                bad.expression,
                Side::Failed.at(bad.at),
                quoted(said, SENTENCE_BYTES)?,
                Side::Ok.at(at)
            ));
            format!("{} leads astray", brief(&bad.expression))
        }
        (None, None) => return None,
    };
    for (run, sum, side, whose) in [(ok, good, Side::Ok, "succeeding"), (failed, bad, Side::Failed, "failing")] {
        let thought = sum.and_then(|sum| thought(run, sum.at));
        lines.extend(thought.map(|(at, text)| format!("The {whose} run's thought was {text} {}.", side.at(at))));
    }
    if let (Some((right_at, right)), Some((wrong_at, wrong))) = (answer(ok), answer(failed))
        && right != wrong
        && let (Some(right), Some(wrong)) = (quoted(right, ARGUMENT_BYTES), quoted(wrong, ARGUMENT_BYTES))
    {
        let (right_at, wrong_at) = (Side::Ok.at(right_at), Side::Failed.at(wrong_at));
        lines.push(format!("The answers were {right} {right_at} and {wrong} {wrong_at}."));
    }
    parts(cause, "Where the same is asked of other numbers.", "Where the numbers stand for something else.", lines)
}

/// What was thought at a step, or right before it on the same line.
fn thought(run: &Run, at: usize) -> Option<(usize, String)> {
    let (at, step) = run.steps.iter().enumerate().take(at + 1).rev().find(|(_, step)| !step.think.trim().is_empty())?;
    Some((at, quoted(&step.think, SENTENCE_BYTES)?))
}

/// The last message of a run.
fn answer(run: &Run) -> Option<(usize, &str)> {
    run.steps.iter().enumerate().rev().find_map(|(at, step)| match Move::of(&step.action) {
        Move::Say(words) if !words.is_empty() => Some((at, words)),
        _ => None,
    })
}

/// A program that was written as the answer: the step and its lines.
fn program(run: &Run) -> Option<(usize, Vec<&str>)> {
    let (at, step) = run.steps.iter().enumerate().rev().find(|(_, step)| !step.action.trim().is_empty())?;
    let is_code = matches!(Move::of(&step.action), Move::Command(_)) && step.action.lines().nth(1).is_some();
    is_code.then(|| (at, code_lines(&step.action)))
}

/// Lines of code without comments and descriptions.
fn code_lines(text: &str) -> Vec<&str> {
    let mut in_description = false;
    let mut out = Vec::new();
    for line in text.lines().map(str::trim) {
        let marks = line.matches("\"\"\"").count() + line.matches("'''").count();
        if in_description || marks > 0 {
            in_description ^= marks % 2 == 1;
            continue;
        }
        if !line.starts_with('#') && line.chars().any(char::is_alphanumeric) {
            out.push(line);
        }
    }
    out
}

/// Written code: the first lines that only one of the two has.
fn code(ok: &Run, failed: &Run) -> Option<Parts> {
    let ((ok_at, right), (failed_at, wrong)) = (program(ok)?, program(failed)?);
    let squeezed = |line: &str| line.split_whitespace().collect::<String>();
    let only = |these: &[&'_ str], others: &[&str]| -> Vec<String> {
        let others: BTreeSet<String> = others.iter().map(|line| squeezed(line)).collect();
        let lines = these.iter().filter(|line| !others.contains(&squeezed(line)));
        lines.filter_map(|line| quoted(line, SENTENCE_BYTES)).collect()
    };
    let (good, bad) = (only(&right, &wrong), only(&wrong, &right));
    let (ok_side, failed_side) = (Side::Ok.at(ok_at), Side::Failed.at(failed_at));
    // What is written says what the lines belong to: `if n == 0:` alone could stand anywhere.
    let named = right
        .iter()
        .find(|line| ["def ", "fn ", "func ", "function ", "class "].iter().any(|word| line.starts_with(word)));
    let place = quoted(named.or(right.first())?, SENTENCE_BYTES)?;
    let mut lines = Vec::new();
    let cause = match (good.first(), bad.first()) {
        (Some(good), Some(bad)) => {
            lines.push(format!("Do, in {place}: {good} {ok_side}, not {bad} {failed_side}."));
            format!("{}, not {}", brief(&plain(good)), brief(&plain(bad)))
        }
        (Some(good), None) => {
            let last = wrong.iter().rev().find_map(|line| quoted(line, SENTENCE_BYTES))?;
            lines.push(format!(
                "Do, in {place}: {good} {ok_side}; the failing code lacks it and ends with {last} {failed_side}."
            ));
            format!("{} was left out", brief(&plain(good)))
        }
        (None, Some(bad)) => {
            let last = right.iter().rev().find_map(|line| quoted(line, SENTENCE_BYTES))?;
            lines.push(format!(
                "Do not: {bad} {failed_side}; the succeeding code, {place}, ends with {last} {ok_side}."
            ));
            format!("{} is too much", brief(&plain(bad)))
        }
        (None, None) => return None,
    };
    for (more, side, whose) in [(&good, &ok_side, "succeeding"), (&bad, &failed_side, "failing")] {
        let shown: Vec<&str> = more.iter().skip(1).take(SHOWN_MORE).map(String::as_str).collect();
        if !shown.is_empty() {
            lines.push(format!("Only the {whose} code also has {} {side}.", shown.join(", ")));
        }
    }
    for (run, side, whose) in [(ok, Side::Ok, "succeeding"), (failed, Side::Failed, "failing")] {
        let last = run.steps.iter().enumerate().rev().find(|(_, step)| step.action.trim().is_empty());
        let told = last.and_then(|(at, step)| Some((at, quoted(&step.think, SENTENCE_BYTES)?)));
        lines.extend(told.map(|(at, text)| format!("The {whose} run had told itself {text} {}.", side.at(at))));
    }
    parts(cause, "Where such a program is to be written.", "Where its tests ask for something else.", lines)
}

/// A quote without its backquotes, for a title.
fn plain(quote: &str) -> String {
    quote.replace('`', "")
}

/// Commands and look-ups: the first that only one of the two made.
fn steps(ok: &Run, failed: &Run) -> Option<Parts> {
    let moves = |run: &Run| -> Vec<(usize, String)> {
        let step = |(at, step): (usize, &'_ crate::run::Step)| {
            let is_move = match Move::of(&step.action) {
                Move::Call { name, .. } => !is_aside(name),
                Move::Command(command) => !matches!(work(command), Work::Submit),
                Move::Say(_) | Move::Nothing => false,
            };
            is_move.then(|| (at, step.action.split_whitespace().collect::<Vec<_>>().join(" ")))
        };
        run.steps.iter().enumerate().filter_map(step).collect()
    };
    let (right, wrong) = (moves(ok), moves(failed));
    let only = |these: &[(usize, String)], others: &[(usize, String)]| {
        these.iter().find(|(_, this)| !others.iter().any(|(_, other)| other == this)).map(|(at, _)| *at)
    };
    // Without a move of its own on either side there is nothing to choose between.
    let (good, bad) = (only(&right, &wrong)?, only(&wrong, &right)?);
    let (made, instead) = (shown(ok, good)?, shown(failed, bad)?);
    let mut lines = vec![format!("Do: {made} {}, not {instead} {}.", Side::Ok.at(good), Side::Failed.at(bad))];
    for (run, at, side, whose) in [(ok, good, Side::Ok, "succeeding"), (failed, bad, Side::Failed, "failing")] {
        let seen = run.steps.get(at).and_then(|step| quoted(&step.observation, SENTENCE_BYTES));
        lines.extend(seen.map(|seen| format!("The {whose} run was shown {seen} {}.", side.at(at))));
    }
    let cause = format!("{}, not {}", brief(&plain(&made)), brief(&plain(&instead)));
    parts(cause, "", "Where these moves are not among those at hand.", lines)
}

/// A move as it is shown: a tool with its arguments, or the command.
fn shown(run: &Run, at: usize) -> Option<String> {
    let action = &run.steps.get(at)?.action;
    match tool_of(action) {
        "" => quoted(action, SENTENCE_BYTES),
        tool => Some(format!("`{tool}`{}", with(&shown_arguments(action, &[])))),
    }
}

/// A move in a title.
fn brief(text: &str) -> String {
    shorten(piece(text, usize::MAX).unwrap_or_default(), TITLE_MOVE_BYTES)
}

fn parts(cause: String, when: &str, not_when: &str, lines: Vec<String>) -> Option<Parts> {
    Some(Parts {
        kind: LessonKind::Contrast,
        cause,
        about: None,
        when: when.to_owned(),
        not_when: not_when.to_owned(),
        lines,
        tags: Vec::new(),
    })
}
