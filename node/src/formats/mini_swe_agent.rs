//! mini-swe-agent trajectories (`*.traj.json`, `trajectory_format: "mini-swe-agent-1"`).
//!
//! One document a run: `{info{exit_status, submission, config}, messages[{role, content}], instance_id}`. The
//! assistant's text is a thought and one fenced block with the command; the user's text that follows is what the
//! command printed, with its return code. `exit_status: "Submitted"` says that the agent handed something in and
//! nothing about whether it was right, so a run without a row in a label table stays unknown.

use super::{Detect, Format, Gives, Read, decode};
use folklore_store::run::{Run, RunOutcome, Step};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) const FORMAT: Format = Format {
    name: "mini-swe-agent",
    shape: "{info, messages[{role, content}], trajectory_format, instance_id}, one document a run; labels from --outcomes",
    gives: Gives::Runs,
    from_description: false,
    detect: Detect::Fields(detect),
    read: Read::Run(parse),
};

#[derive(Deserialize)]
struct Trajectory {
    instance_id: Option<String>,
    #[serde(default)]
    info: Option<Info>,
    messages: Vec<Message>,
}

#[derive(Deserialize, Default)]
struct Info {
    #[serde(default)]
    exit_status: Option<String>,
    #[serde(default)]
    submission: Option<String>,
    #[serde(default)]
    config: Option<Value>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    /// A text, null, or a list of `{type, text}` parts.
    #[serde(default)]
    content: Value,
}

fn detect(names: &BTreeSet<&str>) -> bool {
    names.contains("messages") && (names.contains("trajectory_format") || names.contains("info"))
}

fn parse(bytes: &[u8], _file: &str) -> Result<Run, String> {
    let trajectory: Trajectory = decode(bytes)?;
    let info = trajectory.info.unwrap_or_default();
    let mut messages = trajectory.messages.into_iter().map(|m| (m.role, text(&m.content))).peekable();
    let mut task = String::new();
    while let Some((role, words)) = messages.next_if(|(role, _)| role != "assistant") {
        if role == "user" && task.is_empty() {
            task = issue(&words).to_owned();
        }
    }
    let mut steps: Vec<Step> = Vec::new();
    for (role, words) in messages {
        match role.as_str() {
            "assistant" => {
                let (think, action) = thought_and_command(&words);
                steps.push(Step { think, action, observation: String::new() });
            }
            // What came back; several messages in a row are one observation.
            _ => {
                if let Some(step) = steps.last_mut() {
                    if !step.observation.is_empty() {
                        step.observation.push('\n');
                    }
                    step.observation.push_str(observation(&words));
                }
            }
        }
    }
    if task.is_empty() && steps.is_empty() {
        return Err("it has no messages".into());
    }
    // Newer files hold the patch only here; in older ones it is also the last observation.
    if let (Some(step), Some(patch)) = (steps.last_mut(), info.submission.as_deref())
        && step.observation.trim().is_empty()
    {
        step.observation = patch.to_owned();
    }
    let task_key = match trajectory.instance_id {
        Some(id) if !id.trim().is_empty() => id,
        _ => Run::key_from_task(&task),
    };
    let mut tags = Vec::new();
    if let Some((owner, name)) = task_key.split_once("__") {
        // `owner__repository-number`: the repository is what another task would share.
        let name = name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('-');
        tags.push(if name.is_empty() { owner.to_owned() } else { name.to_owned() });
    }
    let agent = info.config.as_ref().and_then(|config| config.pointer("/model/model_name")).and_then(Value::as_str);
    Ok(Run {
        task_key,
        task,
        domain: "coding".into(),
        agent: agent.unwrap_or("mini-swe-agent").to_owned(),
        steps,
        outcome: RunOutcome {
            reason: info
                .exit_status
                .filter(|status| !status.is_empty() && status != "Submitted")
                .map(|status| format!("the run ended with {status}")),
            ..RunOutcome::default()
        },
        tags,
        ..Run::default()
    })
}

/// A message's words, whatever shape they have; null is no words.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str));
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// The issue inside the prompt: between the description's tags, without the template's opening line.
fn issue(prompt: &str) -> &str {
    const TAGS: [(&str, &str); 3] =
        [("<pr_description>", "</pr_description>"), ("<issue>", "</issue>"), ("<task>", "</task>")];
    for (open, close) in TAGS {
        if let Some(inside) = between(prompt, open, close) {
            let inside = inside.trim();
            let rest = inside.strip_prefix("Consider the following PR description:");
            return rest.unwrap_or(inside).trim();
        }
    }
    prompt.trim()
}

fn between<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    let from = text.find(open)? + open.len();
    let to = text.get(from..)?.find(close)? + from;
    text.get(from..to)
}

/// Splits an assistant's text at its last command block. Text without a block is a thought without a command.
fn thought_and_command(words: &str) -> (String, String) {
    const OPENINGS: [&str; 3] = ["```bash\n", "```sh\n", "```mswea_bash_command\n"];
    let found = OPENINGS.iter().filter_map(|open| Some((words.rfind(open)?, open.len()))).max();
    let Some((at, length)) = found else {
        return (strip_label(words), String::new());
    };
    let body = &words[at + length..];
    // The block ends at a fence on a line of its own: a heredoc may hold backticks.
    let end = body.find("\n```").or_else(|| body.find("```")).unwrap_or(body.len());
    (strip_label(&words[..at]), body[..end].trim().to_owned())
}

fn strip_label(thought: &str) -> String {
    let thought = thought.trim();
    thought.strip_prefix("THOUGHT:").unwrap_or(thought).trim().to_owned()
}

/// What a command printed. The return code stays in front when it is not zero; the tags around the output go.
fn observation(words: &str) -> &str {
    let words = words.trim();
    match between(words, "<returncode>0</returncode>\n<output>", "</output>") {
        Some(output) if words.ends_with("</output>") => output.trim_matches('\n'),
        _ => words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(document: &str) -> Result<Run, String> {
        parse(document.as_bytes(), "x.traj.json")
    }

    #[test]
    fn a_trajectory_becomes_a_run_without_a_verdict() {
        let run = read(
            r#"{"instance_id":"acme__tiny-12","info":{"exit_status":"Submitted","submission":"diff","config":{"model":{"model_name":"m"}}},
            "messages":[{"role":"system","content":"rules"},
            {"role":"user","content":"<pr_description>\nConsider the following PR description:\nFix it\nbody</pr_description> rules"},
            {"role":"assistant","content":"THOUGHT: look ```x``` first\n\n```bash\ncat <<'E'\n```\nE\n```"},
            {"role":"user","content":"<returncode>0</returncode>\n<output>\nhello\n</output>"},
            {"role":"assistant","content":null}]}"#,
        )
        .unwrap();
        assert_eq!((run.task_key.as_str(), run.task.as_str()), ("acme__tiny-12", "Fix it\nbody"));
        assert_eq!((run.agent.as_str(), run.tags.as_slice()), ("m", &["tiny".to_owned()][..]));
        assert_eq!(run.outcome, RunOutcome::default());
        assert_eq!(run.steps.len(), 2);
        assert_eq!(run.steps[0].observation, "hello");
        assert_eq!(run.steps[1].observation, "diff");
    }

    #[test]
    fn a_failed_command_keeps_its_return_code() {
        let words = "<returncode>1</returncode>\n<output>\nboom\n</output>";
        assert_eq!(observation(words), words);
        assert_eq!(observation("<returncode>0</returncode>\n<output>\n</output>"), "");
    }

    #[test]
    fn missing_parts_are_named_not_guessed() {
        assert!(read(r#"{"info":{},"messages":[]}"#).unwrap_err().contains("no messages"));
        assert!(read(r#"{"info":{},"trajectory_format":"x"}"#).unwrap_err().contains("messages"));
        let run = read(r#"{"info":null,"messages":[{"role":"user","content":"do it"}]}"#).unwrap();
        assert!(run.task_key.starts_with("task-") && run.steps.is_empty());
    }
}
