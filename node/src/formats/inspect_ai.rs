//! inspect_ai evaluation logs in JSON: `{version, status, eval{task, model}, plan, results, stats, samples[{id, epoch, input,
//! target, messages[], scores{name: {value, explanation}}, attachments, error}]}`.
//!
//! A sample is a run, and the epoch its attempt. Labels: the scores, `C`, `I`, `P` and `N` or a number between 0 and 1; where
//! several scorers disagree there is no label. Long texts stand in `attachments` and are put back. Packed `.eval` files are
//! zip archives: `inspect log convert --to json` unpacks them.

use super::chat::Chat;
use super::outcomes::from_reward;
use super::parts::Parts;
use super::words::{id, words};
use super::{Detect, Format, Gives, Read, decode};
use folklore_store::run::{Run, RunOutcome, RunStatus};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const FORMAT: Format = Format {
    name: "inspect",
    shape: "{version, status, eval{task, model}, samples[{id, epoch, input, messages, scores}]}, a run a sample",
    gives: Gives::Runs,
    from_description: false,
    detect: Detect::Fields(detect),
    read: Read::Several(parse),
};

/// How the log writes a text that stands in its attachments.
const ATTACHMENT: &str = "attachment://";

#[derive(Deserialize)]
struct Log<'a> {
    #[serde(default)]
    eval: Eval,
    #[serde(borrow, default)]
    samples: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize, Default)]
struct Eval {
    #[serde(default)]
    task: String,
    #[serde(default)]
    model: String,
}

#[derive(Deserialize)]
struct Sample {
    id: Value,
    #[serde(default)]
    epoch: Option<u32>,
    #[serde(default)]
    input: Value,
    messages: Vec<Value>,
    #[serde(default)]
    scores: Option<BTreeMap<String, Score>>,
    #[serde(default)]
    score: Option<Score>,
    #[serde(default)]
    attachments: Option<Map<String, Value>>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Score {
    #[serde(default)]
    value: Value,
    #[serde(default)]
    explanation: Option<String>,
}

fn detect(names: &BTreeSet<&str>) -> bool {
    names.contains("eval") && ["samples", "plan", "results", "stats"].iter().any(|name| names.contains(name))
}

fn parse(bytes: &[u8], _file: &str, parts: &mut Parts) -> Result<(), String> {
    let log: Log<'_> = decode(bytes)?;
    let samples = log.samples.unwrap_or_default();
    if samples.is_empty() {
        return Err("it holds no samples: they were not logged, or this is only the header of a log".into());
    }
    for (at, sample) in samples.into_iter().enumerate() {
        let name = format!("sample {}", at + 1);
        match decode::<Sample>(sample.get().as_bytes()) {
            Ok(sample) => match read(sample, &log.eval) {
                Ok(run) => parts.run(name, run),
                Err(reason) => parts.refuse(name, reason),
            },
            Err(reason) => parts.refuse(name, reason),
        }
    }
    Ok(())
}

fn read(mut sample: Sample, eval: &Eval) -> Result<Run, String> {
    let sample_id = id(&sample.id).ok_or("its id is neither a text nor a number")?;
    let attachments = sample.attachments.take().unwrap_or_default();
    let mut chat = Chat::default();
    for message in &mut sample.messages {
        put_back(message, &attachments, 0);
        chat.message(message);
    }
    let (told, steps) = chat.finish();
    if steps.is_empty() {
        let error = sample.error.as_ref().map(failure).unwrap_or_default();
        return Err(format!(
            "the model said and did nothing in it{}",
            if error.is_empty() { error } else { format!(": {error}") }
        ));
    }
    put_back(&mut sample.input, &attachments, 0);
    let asked = match &sample.input {
        Value::String(text) => text.clone(),
        Value::Array(messages) => {
            let user = messages.iter().filter(|m| m.get("role").and_then(Value::as_str) == Some("user"));
            user.filter_map(|message| message.get("content")).map(words).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    };
    let mut outcome = outcome(sample.scores.unwrap_or_default(), sample.score);
    if let Some(error) = &sample.error {
        // What was cut short by the harness judges nothing.
        outcome = RunOutcome {
            reason: Some(format!("the sample ended with an error: {}", failure(error))),
            ..RunOutcome::default()
        };
    }
    Ok(Run {
        task_key: format!("inspect/{}/{sample_id}", eval.task),
        task: if asked.trim().is_empty() { told } else { asked },
        domain: eval.task.clone(),
        agent: eval.model.clone(),
        attempt: sample.epoch,
        steps,
        outcome,
        ..Run::default()
    })
}

fn failure(error: &Value) -> String {
    error.get("message").map_or_else(|| words(error), words)
}

fn outcome(scores: BTreeMap<String, Score>, only: Option<Score>) -> RunOutcome {
    let scores = scores.into_iter().chain(only.map(|score| ("score".to_owned(), score)));
    let judged: Vec<_> =
        scores.filter_map(|(name, score)| Some((name, verdict(&score.value)?, score.explanation))).collect();
    let Some((name, (status, reward_milli), why)) = judged.first() else { return RunOutcome::default() };
    if let Some((other, ..)) = judged.iter().find(|(_, (other, _), _)| other != status) {
        let reason = Some(format!("the scorers {name} and {other} disagree"));
        return RunOutcome { reason, ..RunOutcome::default() };
    }
    RunOutcome {
        status: *status,
        reward_milli: *reward_milli,
        reason: why.clone().filter(|_| *status != RunStatus::Success),
        judged_by: Some(format!("inspect {name}")),
        ..RunOutcome::default()
    }
}

/// Correct, incorrect, partly, no answer; or true, false; or a number between 0 and 1.
fn verdict(value: &Value) -> Option<(RunStatus, Option<i32>)> {
    match value {
        Value::String(letter) => match letter.as_str() {
            "C" => Some((RunStatus::Success, None)),
            "I" | "N" => Some((RunStatus::Failure, None)),
            "P" => Some((RunStatus::Partial, None)),
            _ => None,
        },
        Value::Bool(right) => Some((if *right { RunStatus::Success } else { RunStatus::Failure }, None)),
        Value::Number(number) => from_reward(number.as_f64()?).map(|(status, milli)| (status, Some(milli))),
        _ => None,
    }
}

/// Puts long texts back where a reference to them stands.
fn put_back(value: &mut Value, attachments: &Map<String, Value>, depth: usize) {
    const MAX_DEPTH: usize = 16;
    match value {
        Value::String(text) => {
            if let Some(found) = text.strip_prefix(ATTACHMENT).and_then(|key| attachments.get(key)) {
                *value = found.clone();
            }
        }
        Value::Array(list) if depth < MAX_DEPTH => {
            list.iter_mut().for_each(|one| put_back(one, attachments, depth + 1))
        }
        Value::Object(map) if depth < MAX_DEPTH => {
            map.values_mut().for_each(|one| put_back(one, attachments, depth + 1));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::parts::Part;
    use super::*;
    use serde_json::json;

    #[test]
    fn each_sample_stands_for_itself() {
        let sample = |id: Value, scores: Value| {
            json!({"id": id, "epoch": 2, "input": [{"role": "user", "content": "attachment://a"}], "target": "t",
                "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "attachment://a"},
                    {"role": "assistant", "content": "I look.", "tool_calls": [{"id": "c", "function": "bash", "arguments": {"cmd": "ls"}, "type": "function"}]},
                    {"role": "tool", "tool_call_id": "c", "function": "bash", "content": "a.py"}],
                "scores": scores, "attachments": {"a": "How?"}})
        };
        let mut cut = sample(json!("y"), json!({"s": {"value": "C"}}));
        cut["error"] = json!({"message": "no memory"});
        let log = json!({"version": 2, "status": "success", "eval": {"task": "guide", "model": "m"}, "samples": [
            sample(json!(1), json!({"s": {"value": "C"}})), sample(json!(null), json!({})),
            sample(json!(3), json!({"s": {"value": "I", "explanation": "wrong"}})),
            sample(json!("x"), json!({"s": {"value": 1.0}, "t": {"value": "I"}})), cut, 7]});
        let mut parts = Parts::default();
        parse(log.to_string().as_bytes(), "", &mut parts).unwrap();
        let runs: Vec<&Run> =
            parts.0.iter().filter_map(|(_, p)| if let Part::Run(run) = p { Some(&**run) } else { None }).collect();
        let refused: Vec<&str> =
            parts.0.iter().filter(|(_, p)| matches!(p, Part::Refused(_))).map(|(name, _)| name.as_str()).collect();
        assert_eq!(refused, ["sample 2", "sample 6"]);
        let statuses: Vec<_> = runs.iter().map(|run| run.outcome.status).collect();
        use RunStatus::{Failure, Success, Unknown};
        assert_eq!(statuses, [Success, Failure, Unknown, Unknown]);
        assert_eq!(
            (runs[0].task.as_str(), runs[0].task_key.as_str(), runs[0].attempt),
            ("How?", "inspect/guide/1", Some(2))
        );
        assert_eq!((runs[0].steps[0].action.as_str(), runs[0].steps[0].observation.as_str()), ("ls", "a.py"));
        assert!(runs[2].outcome.reason.as_ref().unwrap().contains("disagree"));
        assert!(parse(br#"{"eval":{"task":"t"},"plan":{}}"#, "", &mut parts).unwrap_err().contains("no samples"));
    }
}
