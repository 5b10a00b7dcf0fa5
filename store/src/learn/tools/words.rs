//! What was said: how a run ended, and what the user had asked for.

use super::super::moves::{Effect, Move, effect, error_line};
use super::super::quote::{Side, quoted, sentences};
use super::{SENTENCE_BYTES, is_aside, tool_of};
use crate::run::Run;
use std::collections::BTreeSet;

/// How a run ended, as a verb with its object: the last hand-off, a last call that came back with an error, or the sentence
/// of its last words that decides something. Only words that nothing but asides followed are called its end.
pub(crate) fn ended(run: &Run, side: Side) -> Option<String> {
    let hand_off = run.steps.iter().enumerate().rev().find(
        |(_, step)| matches!(Move::of(&step.action), Move::Call { name, .. } if effect(name) == Effect::HandsOff),
    );
    if let Some((at, step)) = hand_off {
        return Some(format!("handed over with `{}` {}", tool_of(&step.action), side.at(at)));
    }
    let last = run.steps.iter().enumerate().rev().find(|(_, step)| {
        let tool = tool_of(&step.action);
        !tool.is_empty() && !is_aside(tool) || matches!(Move::of(&step.action), Move::Say(_))
    });
    if let Some((at, step)) = last
        && let (Some(error), false) = (error_line(&step.observation), tool_of(&step.action).is_empty())
    {
        let error = quoted(error, SENTENCE_BYTES)?;
        return Some(format!("ended at `{}` with {error} {}", tool_of(&step.action), side.at(at)));
    }
    let (at, sentence) = telling(run)?;
    let verb = if last.is_some_and(|(last, _)| last == at) { "ended with" } else { "said near its end" };
    Some(format!("{verb} {} {}", quoted(sentence, SENTENCE_BYTES)?, side.at(at)))
}

/// The sentence among a run's last messages that refuses, decides or states something; thanks and goodbyes do not.
pub(crate) fn telling(run: &Run) -> Option<(usize, &str)> {
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
        let sentences = sentences(words);
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

/// What was said in place of a missing answer: the line with a number in it that shares most words with the question, the
/// latest among equals.
pub(crate) fn nearest_answer(run: &Run, question: &str) -> Option<String> {
    const LONG: usize = 5;
    const SHARED: usize = 2;
    let asked = long_words(question, LONG);
    let said = run.steps.iter().enumerate().filter_map(|(at, step)| match Move::of(&step.action) {
        Move::Say(words) => Some((at, words)),
        _ => None,
    });
    let lines = said.flat_map(|(at, words)| words.lines().map(move |line| (at, line)));
    // The number in front of a list's entry answers nothing.
    let number = |line: &str| {
        line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit()).contains(|c: char| c.is_ascii_digit())
    };
    let (_, at, line) = lines
        .filter(|(_, line)| number(line))
        .map(|(at, line)| (long_words(line, LONG).intersection(&asked).count(), at, line))
        .filter(|(shared, _, _)| *shared >= SHARED)
        .max_by_key(|(shared, _, _)| *shared)?;
    Some(format!("It said {} {}.", quoted(line, SENTENCE_BYTES)?, Side::Only.at(at)))
}

fn long_words(text: &str, long: usize) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() >= long);
    words.map(str::to_lowercase).collect()
}

/// The user's words right before a change.
pub(crate) fn before(run: &Run, step: usize, side: Side) -> Option<String> {
    const WISHES: &[&str] = &[
        "want", "like to", "need", "prefer", "only", "if ", "unless", "budget", "under $", "because", "since",
        "instead", "without",
    ];
    const MIN_WISH_BYTES: usize = 40;
    let (at, words) = run.steps.iter().enumerate().take(step).rev().find_map(|(at, earlier)| {
        matches!(Move::of(&earlier.action), Move::Say(_)).then_some((at, earlier.observation.as_str()))
    })?;
    let sentence = sentences(words);
    // A bare yes tells nothing about when this happens; a wish or a limit does.
    let wishes = |sentence: &&str| WISHES.iter().any(|word| sentence.to_lowercase().contains(word));
    let sentence = sentence.filter(|s| s.len() >= MIN_WISH_BYTES).filter(wishes).max_by_key(|s| s.len())?;
    Some(format!("The user had said {} {}.", quoted(sentence, SENTENCE_BYTES)?, side.at(at)))
}

/// The sentence of a run's messages that says `answer` as a word of its own, latest first.
pub(crate) fn saying<'a>(run: &'a Run, answer: &str) -> Option<(usize, &'a str)> {
    let is_word = |line: &str| {
        line.match_indices(answer).any(|(at, _)| {
            let around = [line[..at].chars().next_back(), line[at + answer.len()..].chars().next()];
            around.iter().flatten().all(|c| !c.is_alphanumeric())
        })
    };
    run.steps.iter().enumerate().rev().find_map(|(at, step)| match Move::of(&step.action) {
        Move::Say(words) => words.lines().find(|line| is_word(line)).map(|line| (at, line)),
        _ => None,
    })
}

/// The first thing the user asked to be told: the step and the sentence.
pub(crate) fn asked(run: &Run) -> Option<(usize, &str)> {
    const ASKS: &[&str] = &["how many", "how much", "what is", "what's", "the total", "the sum", "know "];
    run.steps.iter().enumerate().find_map(|(at, step)| {
        if !matches!(Move::of(&step.action), Move::Say(_) | Move::Nothing) {
            return None;
        }
        let sentences = sentences(&step.observation);
        let asking = sentences.into_iter().find(|s| ASKS.iter().any(|word| s.to_lowercase().contains(word)))?;
        Some((at, asking))
    })
}
