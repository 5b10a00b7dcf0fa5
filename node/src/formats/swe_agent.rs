//! SWE-agent trajectories (`.traj`) of three ages.
//!
//! One document a run: `{environment, trajectory[{action, observation, response, thought, state, execution_time?}],
//! history[{role, content, is_demo?}], info{exit_status, submission}, replay_config?}`. `state` is JSON in a text in old
//! files and an object in new ones, and is not needed. The task is `replay_config.problem_statement` where the file has one
//! (there as an object, or as JSON in a text), else the issue in the first prompt that is no demonstration.
//! `exit_status: "submitted"` says that the agent handed something in, not that it was right: labels come from
//! `--outcomes`, by the instance id.

use super::words::words;
use super::{Detect, Format, Gives, Read, decode};
use folklore_store::run::{Run, RunOutcome, Step};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) const FORMAT: Format = Format {
    name: "swe-agent",
    shape: "{trajectory[{action, observation, thought, state}], history, info, environment}, one document a run; labels from --outcomes",
    gives: Gives::Runs,
    from_description: false,
    detect: Detect::Fields(detect),
    read: Read::Run(parse),
};

#[derive(Deserialize)]
struct Document {
    trajectory: Vec<Move>,
    #[serde(default)]
    history: Option<Vec<Message>>,
    #[serde(default)]
    info: Option<Info>,
    #[serde(default)]
    replay_config: Option<Value>,
}

#[derive(Deserialize)]
struct Move {
    #[serde(default)]
    action: Value,
    #[serde(default)]
    observation: Value,
    #[serde(default)]
    thought: Value,
    #[serde(default)]
    response: Value,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    role: String,
    #[serde(default)]
    content: Value,
    #[serde(default)]
    is_demo: Option<bool>,
}

#[derive(Deserialize, Default)]
struct Info {
    #[serde(default)]
    exit_status: Option<String>,
    #[serde(default)]
    submission: Option<String>,
}

fn detect(names: &BTreeSet<&str>) -> bool {
    names.contains("trajectory") && (names.contains("history") || names.contains("environment"))
}

fn parse(bytes: &[u8], file: &str) -> Result<Run, String> {
    let document: Document = decode(bytes)?;
    let info = document.info.unwrap_or_default();
    let config = document.replay_config.map(|config| super::words::unwrapped(&config)).unwrap_or_default();
    let problem = config.get("problem_statement");
    let text = |name: &str| problem.and_then(|p| p.get(name)).and_then(Value::as_str).filter(|t| !t.trim().is_empty());
    let history = document.history.unwrap_or_default();
    let prompt = history
        .iter()
        .filter(|message| message.role == "user" && message.is_demo != Some(true))
        .map(|message| words(&message.content))
        .find(|words| !words.trim_start().starts_with("Here is a demonstration"));
    let task = match text("text") {
        Some(text) => text.to_owned(),
        None => issue(&prompt.unwrap_or_default()).to_owned(),
    };
    let mut steps: Vec<Step> = document.trajectory.into_iter().map(step).collect();
    steps.retain(|step| *step != Step::default());
    if steps.is_empty() {
        return Err("its trajectory has no steps".into());
    }
    if let (Some(last), Some(patch)) = (steps.last_mut(), info.submission.as_deref())
        && last.observation.trim().is_empty()
    {
        last.observation = patch.to_owned();
    }
    let from_name = instance_of(file);
    let task_key = match text("id").or(from_name) {
        Some(id) => id.to_owned(),
        None => Run::key_from_task(&task),
    };
    let domain = if task_key.contains("__") { "coding" } else { "" };
    let tags = repository(&task_key).map(str::to_owned).into_iter().collect();
    let model = config.pointer("/agent/model/name").and_then(Value::as_str);
    Ok(Run {
        task_key,
        task,
        domain: domain.into(),
        agent: model.unwrap_or("SWE-agent").to_owned(),
        steps,
        outcome: RunOutcome {
            reason: info
                .exit_status
                .filter(|status| !status.trim().is_empty() && status != "submitted")
                .map(|status| format!("the run ended with {status}")),
            ..RunOutcome::default()
        },
        tags,
        ..Run::default()
    })
}

fn step(one: Move) -> Step {
    let (action, thought) = (words(&one.action), words(&one.thought));
    // A response that could not be parsed has neither.
    let think = if thought.trim().is_empty() && action.trim().is_empty() { words(&one.response) } else { thought };
    Step { think, action: action.trim().to_owned(), observation: words(&one.observation) }
}

/// The issue inside the prompt's template, where the template is one of SWE-agent's own.
fn issue(prompt: &str) -> &str {
    for (open, closes) in [
        ("ISSUE:\n", &["\n\nINSTRUCTIONS:"][..]),
        ("<pr_description>", &["</pr_description>"]),
        ("The CTF challenge is", &["\n\nINSTRUCTIONS:"]),
    ] {
        let Some(from) = prompt.find(open) else { continue };
        let from = if open.ends_with(['\n', '>']) { from + open.len() } else { from };
        let rest = prompt.get(from..).unwrap_or_default();
        let to = closes.iter().filter_map(|close| rest.find(close)).min().unwrap_or(rest.len());
        return rest.get(..to).unwrap_or(rest).trim();
    }
    prompt.trim()
}

/// `owner__repository-number` in a file's name, which is how SWE-agent names its files.
fn instance_of(file: &str) -> Option<&str> {
    let stem = file.strip_suffix(".traj").unwrap_or(file);
    let id = stem.rsplit("__install-1__").next().unwrap_or(stem);
    let (_, name) = id.split_once("__")?;
    let (_, number) = name.rsplit_once('-')?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(id)
}

fn repository(key: &str) -> Option<&str> {
    let (_, name) = key.split_once("__")?;
    Some(name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('-')).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(document: &Value, file: &str) -> Result<Run, String> {
        parse(document.to_string().as_bytes(), file)
    }

    #[test]
    fn the_three_ages_give_the_same_run() {
        let moves = |state: Value| {
            json!([{"action": "ls\n", "observation": "a.py", "response": "Look.\n```\nls\n```", "thought": "Look.", "state": state},
                {"action": "submit", "observation": null, "response": "x", "thought": null, "state": null, "execution_time": 0.1}])
        };
        let info = json!({"exit_status": "submitted", "submission": "diff --git", "model_stats": {}});
        let old = json!({"environment": "swe_main", "trajectory": moves(json!("{\"open_file\": \"n/a\"}")), "info": info,
            "history": [{"role": "system", "content": "rules"},
                {"role": "user", "content": "Here is a demonstration of it", "is_demo": true},
                {"role": "user", "content": "We're solving this.\nISSUE:\nFix the date\n\nINSTRUCTIONS:\nNow go"}]});
        let mut new = old.clone();
        new["trajectory"] = moves(json!({"open_file": "n/a"}));
        new["replay_config"] = json!({"problem_statement": {"text": "Fix the date", "id": "acme__tiny-7"}, "agent": {"model": {"name": "SWE-agent"}}});
        let mut text = new.clone();
        text["replay_config"] = json!(new["replay_config"].to_string());
        let want = read(&old, "acme__tiny-7.traj").unwrap();
        assert_eq!((want.task.as_str(), want.task_key.as_str()), ("Fix the date", "acme__tiny-7"));
        assert_eq!((want.steps[0].action.as_str(), want.steps[1].observation.as_str()), ("ls", "diff --git"));
        assert_eq!((want.outcome.clone(), want.tags.as_slice()), (RunOutcome::default(), &["tiny".to_owned()][..]));
        for other in [&new, &text] {
            assert_eq!(read(other, "renamed").unwrap(), want);
        }
    }

    #[test]
    fn an_early_end_is_a_reason_and_no_label() {
        let run = read(
            &json!({"trajectory": [{"response": "I give up"}], "history": [], "info": {"exit_status": "exit_cost"}}),
            "x.traj",
        )
        .unwrap();
        assert_eq!(run.outcome.reason.as_deref(), Some("the run ended with exit_cost"));
        assert_eq!((run.outcome.status, run.steps[0].think.as_str()), (Default::default(), "I give up"));
        assert!(read(&json!({"trajectory": [], "history": []}), "x").unwrap_err().contains("no steps"));
        assert!(read(&json!({"trajectory": 7, "history": []}), "x").is_err());
    }
}
