//! GSM8K: the socratic answers as procedures, and models' solutions as runs.
//!
//! A socratic line is `{question, answer}`, where the answer is lines `subquestion ** step` and last `#### n`: each pair is
//! a procedure. A line of solutions is `{question, ground_truth, <model>: {is_correct, solution}, ...}`: each model's
//! solution is a run, labelled by `is_correct`; both files share a task by the question's words. A calculation, which those
//! models write as `<<9*2=18>>` and a calculator fills in, is a call of that calculator.

use super::arguments::call_text;
use super::parts::{Parts, Told};
use super::{Detect, Format, Gives, Read, decode};
use folklore_protocol::lesson::LessonKind;
use folklore_store::run::{Run, RunOutcome, RunStatus, Step};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

pub(super) const SOCRATIC: Format = Format {
    name: "gsm8k-socratic",
    shape: "JSON lines of {question, answer}, the answer in lines 'subquestion ** step' and '#### n'; procedures",
    gives: Gives::Lessons,
    from_description: false,
    detect: Detect::Fields(|names| names.len() == 2 && names.contains("question") && names.contains("answer")),
    read: Read::Several(socratic),
};

pub(super) const SOLUTIONS: Format = Format {
    name: "gsm8k-solutions",
    shape: "JSON lines of {question, ground_truth, <model>: {is_correct, solution}}, a run a model",
    gives: Gives::Runs,
    from_description: false,
    detect: Detect::Fields(is_solutions),
    read: Read::Several(solutions),
};

#[derive(Deserialize)]
struct Pair {
    question: String,
    answer: String,
}

fn socratic(bytes: &[u8], _file: &str, parts: &mut Parts) -> Result<(), String> {
    let Pair { question, answer } = decode(bytes)?;
    let mut any = false;
    for (at, line) in answer.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        if line.starts_with("####") {
            continue;
        }
        let Some((subquestion, routine)) = line.split_once(" ** ") else {
            if any {
                parts.refuse(format!("step {}", at + 1), "it is no 'subquestion ** step'");
            }
            continue;
        };
        any = true;
        let when = format!("In a problem like: {}", question.trim());
        parts.lesson(
            format!("step {}", at + 1),
            Told {
                kind: LessonKind::Procedure,
                title: subquestion,
                applies_when: &when,
                content: routine.to_owned(),
                task: subquestion,
                domain: "math",
                tags: vec!["gsm8k".to_owned()],
                outcome: None,
            },
        );
    }
    if any { Ok(()) } else { Err("no line of its answer is 'subquestion ** step'".into()) }
}

fn is_solutions(names: &BTreeSet<&str>) -> bool {
    let models = names.iter().any(|name| name.ends_with("_finetuning") || name.ends_with("_verification"));
    names.contains("question") && names.contains("ground_truth") && models
}

#[derive(Deserialize)]
struct Solution {
    solution: String,
    is_correct: Option<bool>,
}

fn solutions(bytes: &[u8], _file: &str, parts: &mut Parts) -> Result<(), String> {
    let row: Map<String, Value> = decode(bytes)?;
    let question = row.get("question").and_then(Value::as_str).ok_or("it has no question")?;
    for (model, value) in row.iter().filter(|(_, value)| value.get("solution").is_some()) {
        let solution: Solution = match serde_json::from_value(value.clone()) {
            Ok(solution) => solution,
            Err(error) => {
                parts.refuse(model.clone(), error.to_string());
                continue;
            }
        };
        let status = match solution.is_correct {
            Some(true) => RunStatus::Success,
            Some(false) => RunStatus::Failure,
            None => RunStatus::Unknown,
        };
        parts.run(
            model.clone(),
            Run {
                task_key: Run::key_from_task(question),
                task: question.to_owned(),
                domain: "math".into(),
                agent: model.clone(),
                steps: solution.solution.lines().flat_map(steps).collect(),
                outcome: RunOutcome {
                    status,
                    judged_by: solution.is_correct.map(|_| "gsm8k is_correct".to_owned()),
                    ..RunOutcome::default()
                },
                ..Run::default()
            },
        );
    }
    Ok(())
}

/// The steps of one line of a solution: its calculations, the line being the thought of the first.
fn steps(line: &str) -> Vec<Step> {
    let line = line.trim();
    if line.is_empty() {
        return Vec::new();
    }
    if let Some(answer) = line.strip_prefix("####").or_else(|| line.strip_prefix("A: ")) {
        return vec![Step { action: format!("respond: {}", answer.trim()), ..Step::default() }];
    }
    let mut steps: Vec<Step> = Vec::new();
    for piece in line.split("<<").skip(1) {
        let Some((expression, result)) = piece.split_once(">>").and_then(|(inside, _)| inside.rsplit_once('=')) else {
            continue;
        };
        let think = if steps.is_empty() { line.to_owned() } else { String::new() };
        let action = call_text("calculate", &json!({ "expression": expression.trim() }));
        steps.push(Step { think, action, observation: result.trim().to_owned() });
    }
    if steps.is_empty() {
        steps.push(Step { think: line.to_owned(), ..Step::default() });
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::super::parts::Part;
    use super::*;

    #[test]
    fn subquestions_become_procedures() {
        let mut parts = Parts::default();
        let line = json!({"question": "Eggs?", "answer": "How many sold? ** She sells 16 - 3 = <<16-3=13>>13.\nHow much? ** 13 * 2 = <<13*2=26>>26\n#### 26"});
        socratic(line.to_string().as_bytes(), "", &mut parts).unwrap();
        assert_eq!(parts.0.len(), 2);
        let (name, Part::Lesson(fields, evidence)) = &parts.0[1] else { panic!() };
        assert_eq!((name.as_str(), fields.kind, fields.task.as_str()), ("step 2", LessonKind::Procedure, "How much?"));
        assert_eq!((fields.content.as_str(), evidence.induced_by.as_str()), ("13 * 2 = <<13*2=26>>26", "imported"));
        let plain = br#"{"question":"Capital of France?","answer":"Paris"}"#;
        assert!(socratic(plain, "", &mut parts).unwrap_err().contains("subquestion ** step"));
    }

    #[test]
    fn calculations_are_steps_and_models_are_runs() {
        let mut parts = Parts::default();
        let line = json!({"question": "Eggs?", "ground_truth": "x", "6b_finetuning": {"is_correct": false, "solution": "She eats 3 + 4 = <<3+4=7>>7.\nThen nothing.\n#### 7"},
            "175b_verification": {"is_correct": "yes", "solution": "x"}});
        solutions(line.to_string().as_bytes(), "", &mut parts).unwrap();
        let Some((_, Part::Run(run))) = parts.0.iter().find(|(name, _)| name == "6b_finetuning") else { panic!() };
        assert_eq!((run.steps.len(), run.outcome.status), (3, RunStatus::Failure));
        assert_eq!(
            (run.steps[0].action.as_str(), run.steps[0].observation.as_str()),
            ("calculate {\"expression\":\"3+4\"}", "7")
        );
        assert!(matches!(&parts.0[0], (name, Part::Refused(_)) if name == "175b_verification"));
    }
}
