//! Runs as they stand in a prompt: quoted line by line, and shortened so that it can be seen.
//!
//! Every line of a run begins with `> `, so nothing in it can end the quotation and pass for a word of ours: a page that
//! says "ignore your instructions" stays a line of what an agent was shown. What does not fit is left out of the middle of
//! long texts first, then of the middle of the run, and a line in its place says how much.

use folklore_store::run::{Run, Step};
use std::fmt::Write as _;

/// What stands in front of each line of a run.
pub const QUOTE: &str = "> ";
/// Bytes of one text of a step, tried one after the other until the run fits.
const TEXT_BYTES: [usize; 6] = [8_192, 3_072, 1_536, 768, 384, 192];
/// Bytes of the task's text.
const TASK_BYTES: usize = 4_096;
/// Least steps that are shown at either end of a run that is too long.
const LEAST_STEPS: usize = 2;

/// A run within `max` bytes, or as near to it as its least steps allow. `number` is what the prompt calls it.
#[must_use]
pub fn run(run: &Run, number: usize, max: usize) -> String {
    let head = head(run, number);
    let room = max.saturating_sub(head.len());
    for limit in TEXT_BYTES {
        let steps: Vec<String> = run.steps.iter().enumerate().map(|(at, one)| step(one, at + 1, limit)).collect();
        if steps.iter().map(String::len).sum::<usize>() <= room {
            return head + &steps.concat();
        }
    }
    let limit = TEXT_BYTES.last().copied().unwrap_or(192);
    let steps: Vec<String> = run.steps.iter().enumerate().map(|(at, one)| step(one, at + 1, limit)).collect();
    head + &both_ends(&steps, room)
}

/// As many steps from either end as fit, and a line that says how many are missing between them.
fn both_ends(steps: &[String], room: usize) -> String {
    let (mut first, mut last, mut used) = (0, 0, 64);
    while first + last < steps.len() {
        let from_end = last < first;
        let at = if from_end { steps.len() - 1 - last } else { first };
        let len = steps.get(at).map_or(0, String::len);
        if used + len > room && first.min(last) >= LEAST_STEPS {
            break;
        }
        used += len;
        if from_end {
            last += 1;
        } else {
            first += 1;
        }
    }
    let gone = steps.len() - first - last;
    let mut out = steps.iter().take(first).map(String::as_str).collect::<String>();
    if gone > 0 {
        let _ = writeln!(out, "[steps {} to {}: {gone} steps left out here]", first + 1, first + gone);
    }
    out.extend(steps.iter().skip(first + gone).map(String::as_str));
    out
}

fn head(run: &Run, number: usize) -> String {
    let mut out = format!("RUN {number}\n");
    let outcome = &run.outcome;
    let _ = writeln!(out, "outcome: {}", outcome.status);
    if !run.domain.is_empty() {
        let _ = write!(out, "domain:\n{}", quoted(&run.domain, 256));
    }
    let _ = write!(out, "task:\n{}", quoted(&run.task, TASK_BYTES));
    if let Some(reason) = &outcome.reason {
        let _ = write!(out, "what the judge said:\n{}", quoted(reason, 1_024));
    }
    for (what, texts) in [
        ("moves that the judge expected", outcome.expected.as_deref().unwrap_or_default()),
        ("words that the judge missed in the answer", &outcome.missing_answers[..]),
    ] {
        if !texts.is_empty() {
            let _ = write!(out, "{what}:\n{}", quoted(&texts.join("\n"), 2_048));
        }
    }
    out
}

fn step(step: &Step, number: usize, limit: usize) -> String {
    let mut out = format!("step {number}\n");
    for (what, text) in [("thought", &step.think), ("action", &step.action), ("observation", &step.observation)] {
        if !text.trim().is_empty() {
            let _ = write!(out, "{what}:\n{}", quoted(text, limit));
        }
    }
    out
}

/// A text as data: each line behind [`QUOTE`], the middle of a long one left out and counted.
#[must_use]
pub fn quoted(text: &str, max: usize) -> String {
    let mut out = String::new();
    let mut put = |text: &str| {
        for line in text.lines() {
            out.push_str(QUOTE);
            out.push_str(line);
            out.push('\n');
        }
    };
    if text.len() <= max {
        put(text);
        return out;
    }
    let (head, tail) = (floor(text, max * 2 / 3), ceil(text, text.len() - max / 3));
    put(text.get(..head).unwrap_or_default());
    put(&format!("[... {} bytes left out here ...]", tail - head));
    put(text.get(tail..).unwrap_or_default());
    out
}

fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn ceil(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn long(steps: usize, bytes: usize) -> Run {
        let one = |at: usize| Step {
            action: format!("look {at}"),
            observation: format!("{at} é{}end {at}", "x\n".repeat(bytes / 2)),
            ..Step::default()
        };
        Run { task: "find it".into(), steps: (1..=steps).map(one).collect(), ..Run::default() }
    }

    #[test]
    fn a_long_text_loses_its_middle_and_says_so() {
        let shown = run(&long(3, 40_000), 1, 20_000);
        assert!(shown.len() <= 20_000 && shown.contains("bytes left out here"), "{}", shown.len());
        assert!(shown.contains("> 1 é") && shown.contains("end 1\n"));
    }

    #[test]
    fn a_long_run_keeps_both_ends_and_says_what_is_missing() {
        let shown = run(&long(1_000, 400), 2, 8_192);
        assert!(shown.len() <= 8_192, "{}", shown.len());
        assert!(shown.starts_with("RUN 2\n") && shown.contains("step 1\n") && shown.contains("step 1000\n"));
        assert!(shown.contains("steps left out here]"));
    }

    proptest! {
        #[test]
        fn no_line_of_a_run_can_pass_for_one_of_ours(text in "(?s).{0,300}", max in 16_usize..400) {
            for line in quoted(&text, max).lines() {
                prop_assert!(line.starts_with(QUOTE));
            }
        }
    }
}
