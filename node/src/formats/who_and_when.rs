//! Who&When: failed runs of several agents together, where people marked the decisive mistake.
//!
//! One document a run: `{question, question_ID, ground_truth, history[{role, name, content}], is_correct | is_corrected,
//! mistake_agent, mistake_step, mistake_reason}`. `is_correct` is the label. An entry of `history` is a step, except that
//! what `Computer_terminal` prints is the observation of the entry before it, and that the entry that only hands the
//! question on has no action. `mistake_step` counts entries from 0; the outcome's reason names the step of the run that the
//! entry became, counted from 1. The right answer is kept as one that was not given.

use super::words::{id, join, words};
use super::{Detect, Format, Gives, Read, decode};
use folklore_store::run::{Run, RunOutcome, RunStatus, Step};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) const FORMAT: Format = Format {
    name: "who-and-when",
    shape: "{question, ground_truth, history[{role, name, content}], mistake_agent, mistake_step, is_correct}, one document a run",
    gives: Gives::Runs,
    from_description: false,
    detect: Detect::Fields(detect),
    read: Read::Run(parse),
};

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    question: String,
    #[serde(default, alias = "question_id")]
    #[serde(rename = "question_ID")]
    question_id: Option<Value>,
    #[serde(default)]
    ground_truth: Value,
    history: Vec<Entry>,
    #[serde(default, alias = "is_corrected")]
    is_correct: Option<bool>,
    #[serde(default)]
    mistake_agent: Option<String>,
    #[serde(default)]
    mistake_step: Option<Value>,
    #[serde(default)]
    mistake_reason: Option<String>,
    #[serde(default)]
    level: Option<Value>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    content: Value,
    #[serde(default)]
    role: String,
    #[serde(default)]
    name: Option<String>,
}

fn detect(names: &BTreeSet<&str>) -> bool {
    names.contains("history") && (names.contains("mistake_agent") || names.contains("mistake_step"))
}

fn parse(bytes: &[u8], _file: &str) -> Result<Run, String> {
    let document: Document = decode(bytes)?;
    let question = document.question.trim();
    let mut steps: Vec<Step> = Vec::new();
    // The step that each entry became.
    let mut step_of = Vec::new();
    for (at, entry) in document.history.iter().enumerate() {
        let text = words(&entry.content);
        // The other half of the collection has the agent's name as its role.
        let name = entry.name.as_deref().unwrap_or(&entry.role);
        if is_terminal(name)
            && let Some(step) = steps.last_mut()
        {
            join(&mut step.observation, text.trim());
        } else if at == 0 && (text.contains(question) || text.starts_with("You are given:") || name == "human") {
            steps.push(Step { observation: text, ..Step::default() });
        } else {
            let is_run = document.history.get(at + 1).and_then(|next| next.name.as_deref()).is_some_and(is_terminal);
            steps.push(step(name, &text, is_run));
        }
        step_of.push(steps.len());
    }
    if steps.is_empty() {
        return Err("its history is empty".into());
    }
    let status = match document.is_correct {
        Some(true) => RunStatus::Success,
        Some(false) => RunStatus::Failure,
        None => RunStatus::Unknown,
    };
    let entry = document.mistake_step.as_ref().and_then(id).and_then(|id| id.parse::<usize>().ok());
    let at = entry.and_then(|entry| step_of.get(entry));
    let why = document.mistake_reason.as_deref().map(str::trim).filter(|why| !why.is_empty());
    let who = document.mistake_agent.as_deref().unwrap_or("an agent");
    let reason = match (at, why) {
        (Some(at), why) => {
            Some(format!("the decisive mistake is step {at}, by {who}: {}", why.unwrap_or("(no reason)")))
        }
        (None, why) => why.map(str::to_owned),
    };
    let answer = words(&document.ground_truth);
    let missing = (status == RunStatus::Failure && !answer.trim().is_empty()).then_some(answer);
    let task_key = match document.question_id.as_ref().and_then(id) {
        Some(id) => format!("who-and-when/{id}"),
        None => Run::key_from_task(question),
    };
    Ok(Run {
        task_key,
        task: question.to_owned(),
        agent: "several agents".into(),
        steps,
        outcome: RunOutcome {
            status,
            reason: reason.filter(|_| status != RunStatus::Success),
            judged_by: document.is_correct.map(|_| "Who&When".to_owned()),
            missing_answers: missing.into_iter().collect(),
            ..RunOutcome::default()
        },
        tags: document.level.as_ref().and_then(id).map(|level| format!("level-{level}")).into_iter().collect(),
        ..Run::default()
    })
}

fn is_terminal(name: &str) -> bool {
    matches!(name, "Computer_terminal" | "ComputerTerminal")
}

/// An agent's words. Code that was run is the action, and the words before it the thought.
fn step(name: &str, text: &str, is_run: bool) -> Step {
    if is_run && let Some((before, code)) = last_block(text) {
        let think = format!("{name}: {}", before.trim());
        return Step { think, action: code.trim().to_owned(), observation: String::new() };
    }
    Step { action: format!("respond: {name}: {}", text.trim()), ..Step::default() }
}

/// The last fenced block of a text, and what stands before it.
fn last_block(text: &str) -> Option<(&str, &str)> {
    let close = text.rfind("```")?;
    let open = text.get(..close)?.rfind("```")?;
    let inside = text.get(open + 3..close)?;
    // The first line is the language.
    let code = inside.split_once('\n').map_or(inside, |(_, code)| code);
    Some((text.get(..open)?, code)).filter(|(_, code)| !code.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_marked_entry_keeps_its_place_when_outputs_join_their_code() {
        let document = json!({
            "question": "How many?", "question_ID": "q1", "ground_truth": "Nine", "is_corrected": false, "level": 2,
            "mistake_agent": "Coder", "mistake_step": "3", "mistake_reason": "Counted wrongly.",
            "history": [
                {"role": "assistant", "name": "Coder", "content": "You are given: How many?"},
                {"role": "user", "name": "Coder", "content": "I count.\n```python\ncount()\n```\n"},
                {"role": "user", "name": "Computer_terminal", "content": "exitcode: 0\n8"},
                {"role": "user", "name": "Coder", "content": "It is 8."}],
        });
        let run = parse(document.to_string().as_bytes(), "").unwrap();
        let got: Vec<_> = run.steps.iter().map(|s| (s.action.as_str(), s.observation.as_str())).collect();
        let want = [("", "You are given: How many?"), ("count()", "exitcode: 0\n8"), ("respond: Coder: It is 8.", "")];
        assert_eq!(got, want);
        assert_eq!(run.steps[1].think, "Coder: I count.");
        assert_eq!(
            (run.outcome.status, run.outcome.missing_answers.as_slice()),
            (RunStatus::Failure, &["Nine".to_owned()][..])
        );
        let reason = run.outcome.reason.unwrap();
        assert_eq!(reason, "the decisive mistake is step 3, by Coder: Counted wrongly.");
        let empty = json!({"question": "q", "history": [], "mistake_agent": "x"});
        assert!(parse(empty.to_string().as_bytes(), "").unwrap_err().contains("empty"));
    }
}
