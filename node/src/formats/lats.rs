//! Language Agent Tree Search on programming tasks: JSON lines of `{name, prompt, implementations[], test_feedback[],
//! reflections[], solution, is_solved?, acc}`.
//!
//! The label is `is_solved`. `acc` is the rate of the whole search so far and says nothing about the row. A row without
//! `is_solved` was solved or given up at the first try, which the file does not keep, and is refused. The steps are the
//! implementations with what their tests said; between them stand the reflections, which are far more than the
//! implementations that were kept and belong to no single one.

use super::words::programming_task;
use super::{Detect, Format, Gives, Read, decode};
use folklore_store::run::{Run, RunOutcome, RunStatus, Step};
use serde::Deserialize;
use std::collections::BTreeSet;

pub(super) const FORMAT: Format = Format {
    name: "lats",
    shape: "JSON lines of {name, prompt, implementations, test_feedback, reflections, is_solved, acc}",
    gives: Gives::Runs,
    from_description: false,
    detect: Detect::Fields(detect),
    read: Read::Run(parse),
};

/// Reflections kept of a row: a search of a hundred nodes says the same thing a hundred times.
const MAX_REFLECTIONS: usize = 16;

/// What the search writes where a node has no reflection of its own.
const PLACEHOLDER: &str = "MCTS reflections";

#[derive(Deserialize)]
struct Row {
    name: String,
    prompt: String,
    #[serde(default)]
    implementations: Vec<String>,
    #[serde(default)]
    test_feedback: Vec<String>,
    #[serde(default)]
    reflections: Vec<String>,
    #[serde(default)]
    solution: Option<String>,
    #[serde(default)]
    is_solved: Option<bool>,
}

fn detect(names: &BTreeSet<&str>) -> bool {
    names.contains("name") && names.contains("prompt") && (names.contains("implementations") || names.contains("acc"))
}

fn parse(bytes: &[u8], _file: &str) -> Result<Run, String> {
    let row: Row = decode(bytes)?;
    let Some(solved) = row.is_solved else {
        return Err(format!("{} has no is_solved: it ended at the first try, which the file does not keep", row.name));
    };
    let mut feedback = row.test_feedback.into_iter();
    let mut attempts: Vec<Step> = row
        .implementations
        .into_iter()
        .map(|code| Step { action: code, observation: feedback.next().unwrap_or_default(), ..Step::default() })
        .collect();
    if let Some(solution) = row.solution.filter(|code| !attempts.iter().any(|step| step.action == *code)) {
        attempts.push(Step { action: solution, ..Step::default() });
    }
    let mut told: Vec<&str> = Vec::new();
    for reflection in row.reflections.iter().map(|text| text.trim()) {
        if !reflection.is_empty() && reflection != PLACEHOLDER && !told.contains(&reflection) {
            told.push(reflection);
        }
    }
    let more = told.len().saturating_sub(MAX_REFLECTIONS);
    let thoughts = told.into_iter().take(MAX_REFLECTIONS);
    let mut thoughts: Vec<Step> = thoughts.map(|text| Step { think: text.to_owned(), ..Step::default() }).collect();
    if more > 0 {
        thoughts.push(Step { observation: format!("[… {more} reflections elided …]"), ..Step::default() });
    }
    let last = attempts.pop();
    let steps: Vec<Step> = attempts.into_iter().chain(thoughts).chain(last).collect();
    if steps.is_empty() {
        return Err(format!("{} has no implementations", row.name));
    }
    Ok(Run {
        task_key: row.name,
        task: programming_task(&row.prompt),
        domain: "coding".into(),
        agent: "LATS".into(),
        steps,
        outcome: RunOutcome {
            status: if solved { RunStatus::Success } else { RunStatus::Failure },
            judged_by: Some("lats is_solved".into()),
            ..RunOutcome::default()
        },
        ..Run::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_rate_is_no_label() {
        let error = parse(br#"{"name":"h/1","prompt":"p","acc":1.0}"#, "").unwrap_err();
        assert!(error.contains("h/1 has no is_solved"), "{error}");
        let run = parse(
            br#"{"name":"h/1","prompt":"p","acc":1.0,"is_solved":false,"implementations":["a","b"],"test_feedback":["bad","worse"],
            "reflections":["r","MCTS reflections","r","q"],"solution":"b"}"#,
            "",
        )
        .unwrap();
        assert_eq!(run.outcome.status, RunStatus::Failure);
        let got: Vec<_> = run.steps.iter().map(|s| format!("{}{}{}", s.think, s.action, s.observation)).collect();
        assert_eq!(got, ["abad", "r", "q", "bworse"]);
    }
}
