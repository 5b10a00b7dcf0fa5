//! tau-bench result files: one array of `{task_id, reward, info{task, reward_info}, traj[chat messages], trial}`.
//!
//! A tool call with its result is a step, and so is a message to the user with the user's reply. What the user says
//! first is a step without an action. `reward` is the label; the moves of the benchmark's reference solution
//! (`info.task.actions`) are kept as what the judge expected, because the benchmark judges by the state they leave.
//! A result whose `info` holds an `error` comes from a harness that crashed: its reward of 0 judges nothing.
//!
//! Arguments come as JSON text, as objects, or as Python literals, depending on the agent that ran.

use super::arguments::{arguments, call_text};
use super::outcomes::from_reward;
use super::{Detect, Format, Gives, Read, decode};
use folklore_store::run::{Run, RunOutcome, RunStatus, Step};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

pub(super) const FORMAT: Format = Format {
    name: "tau-bench",
    shape: "array of {task_id, reward, info{task, reward_info}, traj[chat messages with tool_calls], trial}",
    gives: Gives::Runs,
    from_description: false,
    detect: Detect::Fields(detect),
    read: Read::Run(parse),
};

#[derive(Deserialize)]
struct ResultItem {
    task_id: Value,
    #[serde(default)]
    reward: Option<f64>,
    #[serde(default)]
    info: Option<Info>,
    traj: Vec<Message>,
    #[serde(default)]
    trial: Option<u32>,
}

#[derive(Deserialize, Default)]
struct Info {
    #[serde(default)]
    task: Option<Task>,
    #[serde(default)]
    reward_info: Option<RewardInfo>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Task {
    #[serde(default)]
    instruction: Option<String>,
    #[serde(default)]
    actions: Option<Vec<ExpectedAction>>,
}

#[derive(Deserialize)]
struct ExpectedAction {
    name: String,
    #[serde(default, alias = "arguments")]
    kwargs: Map<String, Value>,
}

#[derive(Deserialize)]
struct RewardInfo {
    #[serde(default)]
    info: Option<RewardDetail>,
}

#[derive(Deserialize)]
struct RewardDetail {
    /// What the answer had to say, and whether it did.
    #[serde(default)]
    outputs: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    #[serde(default)]
    content: Option<Value>,
    #[serde(default)]
    tool_calls: Option<Vec<ToolCall>>,
}

#[derive(Deserialize)]
struct ToolCall {
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    #[serde(default)]
    arguments: Value,
}

fn detect(names: &BTreeSet<&str>) -> bool {
    names.contains("traj") && names.contains("task_id") && names.contains("reward")
}

fn parse(bytes: &[u8], file: &str) -> Result<Run, String> {
    let item: ResultItem = decode(bytes)?;
    let info = item.info.unwrap_or_default();
    let task_id = match &item.task_id {
        Value::Number(number) => number.to_string(),
        Value::String(text) if !text.trim().is_empty() => text.clone(),
        _ => return Err("its task_id is neither a number nor a text".into()),
    };
    let (instruction, actions) = info.task.map(|task| (task.instruction, task.actions)).unwrap_or_default();
    let steps = steps(&item.traj);
    let expected = actions.map(|actions| {
        actions.into_iter().map(|action| call_text(&action.name, &Value::Object(action.kwargs))).collect::<Vec<_>>()
    });
    let domain = domain(&item.traj, expected.as_deref().unwrap_or_default(), file);
    let task = match instruction {
        Some(instruction) if !instruction.trim().is_empty() => instruction,
        // Without the instruction, what the user opened with is the task.
        _ => item.traj.iter().find(|m| m.role == "user").map(|m| words(m.content.as_ref())).unwrap_or_default(),
    };
    let outcome = match (item.reward.and_then(from_reward), info.error) {
        (_, Some(error)) if !error.is_null() => RunOutcome {
            reason: Some(format!("the harness stopped with an error: {}", words(Some(&error)))),
            ..RunOutcome::default()
        },
        (None, _) => RunOutcome::default(),
        (Some((status, reward_milli)), _) => RunOutcome {
            status,
            reward_milli: Some(reward_milli),
            judged_by: Some("tau-bench".into()),
            expected,
            missing_answers: missing_answers(status, info.reward_info),
            reason: None,
        },
    };
    let mut run = Run {
        task_key: format!("tau-bench/{}/{task_id}", if domain.is_empty() { "unknown" } else { domain }),
        task,
        domain: domain.to_owned(),
        agent: "tau-bench agent".into(),
        attempt: item.trial,
        steps,
        outcome,
        ..Run::default()
    };
    run.tidy();
    folklore_store::learn::explain_verdict(&mut run);
    Ok(run)
}

fn missing_answers(status: RunStatus, reward: Option<RewardInfo>) -> Vec<String> {
    if status == RunStatus::Success {
        return Vec::new();
    }
    let outputs = reward.and_then(|reward| reward.info).and_then(|info| info.outputs).unwrap_or_default();
    outputs.into_iter().filter(|(_, said)| said == &Value::Bool(false)).map(|(answer, _)| answer).collect()
}

fn steps(messages: &[Message]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    // Calls whose results have not come yet: results come in the order of the calls.
    let mut open: std::collections::VecDeque<usize> = std::collections::VecDeque::new();
    for message in messages {
        let text = words(message.content.as_ref());
        match message.role.as_str() {
            "system" => {}
            "assistant" => {
                open.clear();
                let calls = message.tool_calls.as_deref().unwrap_or_default();
                if calls.is_empty() {
                    open.push_back(steps.len());
                    steps.push(Step { action: format!("respond: {text}"), ..Step::default() });
                }
                for (at, call) in calls.iter().enumerate() {
                    open.push_back(steps.len());
                    let think = if at == 0 { text.clone() } else { String::new() };
                    let action = call_text(&call.function.name, &arguments(&call.function.arguments));
                    steps.push(Step { think, action, ..Step::default() });
                }
            }
            _ => match open.pop_front().and_then(|at| steps.get_mut(at)) {
                Some(step) => step.observation = text,
                // Nothing was asked: the user opens the conversation, or says more.
                None => steps.push(Step { observation: text, ..Step::default() }),
            },
        }
    }
    steps
}

fn words(content: Option<&Value>) -> String {
    match content {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) if parts.iter().all(|part| part.get("text").is_some()) => {
            let texts = parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str));
            texts.collect::<Vec<_>>().join("\n")
        }
        Some(other) => other.to_string(),
    }
}

/// The benchmark's domain: from the tools of the reference solution, else the policy's heading, else the file's name, else
/// the tools that were called. What all attempts at a task share comes first, because the task's key is made of it.
fn domain(messages: &[Message], expected: &[String], file: &str) -> &'static str {
    const TOOLS: [(&str, &[&str]); 3] = [
        ("airline", &["reservation", "_flight", "airport", "send_certificate"]),
        ("retail", &["order", "product", "find_user_id_by"]),
        ("telecom", &["_line", "_bill", "roaming", "_sim"]),
    ];
    const WORDS: [(&str, &str); 4] =
        [("airline", "airline"), ("retail", "retail"), ("telecom", "telecom"), ("shop", "retail")];
    let by_tools = |names: &[&str]| {
        let known = |name: &&str| TOOLS.iter().find(|(_, parts)| parts.iter().any(|part| name.contains(part)));
        names.iter().find_map(known).map(|(domain, _)| *domain)
    };
    let by_words = |text: &str| {
        let text = text.to_ascii_lowercase();
        WORDS.iter().find(|(word, _)| text.contains(word)).map(|(_, domain)| *domain)
    };
    let policy = messages.iter().find(|m| m.role == "system").map(|m| words(m.content.as_ref())).unwrap_or_default();
    let heading = policy.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let called = messages.iter().filter_map(|m| m.tool_calls.as_deref()).flatten().map(|c| c.function.name.as_str());
    let wanted: Vec<&str> = expected.iter().filter_map(|action| action.split(' ').next()).collect();
    by_tools(&wanted)
        .or_else(|| by_words(heading))
        .or_else(|| by_words(file))
        .or_else(|| by_tools(&called.collect::<Vec<_>>()))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(item: &Value) -> Result<Run, String> {
        parse(item.to_string().as_bytes(), "results.json")
    }

    fn call(name: &str, arguments: &str) -> Value {
        json!({"role": "assistant", "content": null, "tool_calls": [{"function": {"name": name, "arguments": arguments}}]})
    }

    #[test]
    fn calls_and_replies_become_steps() {
        let run = read(&json!({
            "task_id": 4, "trial": 2, "reward": 0.0,
            "info": {"task": {"instruction": "Cancel it", "actions": [{"name": "cancel_reservation", "kwargs": {"id": "Q1"}}]}},
            "traj": [
                {"role": "system", "content": "# Airline Agent Policy"},
                {"role": "user", "content": "hello"},
                {"role": "assistant", "content": "Your id?"},
                {"role": "user", "content": "Q1"},
                call("get_reservation_details", "{'id': 'Q1', 'list': \"['a', 'b']\", 'n': 2.5, 'x': None}"),
                {"role": "tool", "name": "get_reservation_details", "content": "{}"},
            ],
        }))
        .unwrap();
        assert_eq!(
            (run.task_key.as_str(), run.attempt, run.domain.as_str()),
            ("tau-bench/airline/4", Some(2), "airline")
        );
        let actions: Vec<&str> = run.steps.iter().map(|step| step.action.as_str()).collect();
        let details = r#"get_reservation_details {"id":"Q1","list":["a","b"],"n":2.5,"x":null}"#;
        assert_eq!(actions, ["", "respond: Your id?", details]);
        assert_eq!(run.steps[1].observation, "Q1");
        assert_eq!(run.outcome.status, RunStatus::Failure);
        assert!(run.outcome.reason.unwrap().contains("cancel_reservation"));
    }

    #[test]
    fn several_calls_in_one_message_take_their_results_in_order() {
        let run = read(&json!({"task_id": "a", "reward": 1.0, "info": null, "traj": [
            {"role": "assistant", "content": "two at once", "tool_calls": [
                {"function": {"name": "get_order", "arguments": {"n": 1}}}, {"function": {"name": "get_order", "arguments": {"n": 2}}}]},
            {"role": "tool", "content": "one"}, {"role": "tool", "content": "two"}]}))
        .unwrap();
        let got: Vec<_> = run.steps.iter().map(|s| (s.think.as_str(), s.observation.as_str())).collect();
        assert_eq!(got, [("two at once", "one"), ("", "two")]);
        assert_eq!((run.outcome.status, run.outcome.expected), (RunStatus::Success, None));
    }

    #[test]
    fn a_crashed_harness_and_a_missing_reward_judge_nothing() {
        let crashed = read(&json!({"task_id": 1, "reward": 0.0, "info": {"error": "timeout"}, "traj": []})).unwrap();
        assert_eq!(crashed.outcome.status, RunStatus::Unknown);
        assert!(crashed.outcome.reason.unwrap().contains("timeout"));
        let missing = read(&json!({"task_id": 1, "reward": null, "info": {}, "traj": []})).unwrap();
        assert_eq!(missing.outcome, RunOutcome::default());
        let partial = read(&json!({"task_id": 1, "reward": 0.5, "info": {}, "traj": []})).unwrap();
        assert_eq!((partial.outcome.status, partial.outcome.reward_milli), (RunStatus::Partial, Some(500)));
    }

    #[test]
    fn wrong_shapes_are_refused_with_the_field_named() {
        assert!(read(&json!({"task_id": 1, "reward": 0.0})).unwrap_err().contains("traj"));
        assert!(read(&json!({"task_id": null, "reward": 0.0, "traj": []})).unwrap_err().contains("task_id"));
        assert!(read(&json!({"task_id": 1, "reward": "x", "traj": []})).is_err());
    }
}
