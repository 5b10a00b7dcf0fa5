//! OpenHands: lists of events, and the `output.jsonl` of its evaluations and of its issue resolver.
//!
//! An event is `{id, source, action, args{command | code | path | content | thought, ...}}` or `{id, cause, observation,
//! content, extras}`; the events of one list are one run. In `output.jsonl` a line is a run: `{instruction, history[events],
//! git_patch, ...}`, where old histories are pairs of action and observation and old events have their arguments beside
//! `action`. Labels: the resolver's `success`, the evaluation's `report.resolved`. An agent that says `finish` judges
//! nothing.

use super::arguments::call_text;
use super::parts::{Gather, Parts};
use super::words::{id, join, words};
use super::{Detect, Format, Gives, Read, decode};
use folklore_store::run::{MAX_STEPS, Run, RunOutcome, RunStatus, Step};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

pub(super) const EVENTS: Format = Format {
    name: "openhands-events",
    shape: "array of events {id, source, action | observation, args, cause, content}, one run a file; no label",
    gives: Gives::Runs,
    from_description: false,
    detect: Detect::Fields(is_event),
    read: Read::Together(|_| Box::new(Events::default())),
};

pub(super) const OUTPUT: Format = Format {
    name: "openhands",
    shape: "JSON lines of {instruction, history[events], git_patch | test_result, success | report}",
    gives: Gives::Runs,
    from_description: false,
    detect: Detect::Fields(is_output),
    read: Read::Run(output),
};

/// Steps kept while a list is read; a run keeps [`MAX_STEPS`] of them.
const MAX_OPEN_STEPS: usize = 4 * MAX_STEPS;
/// What an event carries besides what was done.
const NOT_ARGUMENTS: [&str; 16] = [
    "action",
    "thought",
    "keep_prompt",
    "is_confirmed",
    "action_risk",
    "confirmation_state",
    "security_risk",
    "kernel_init_code",
    "blocking",
    "hidden",
    "is_input",
    "is_static",
    "cwd",
    "impl_source",
    "wait_for_response",
    "translated_ipython_code",
];

fn is_event(names: &BTreeSet<&str>) -> bool {
    (names.contains("action") || names.contains("observation"))
        && names.contains("source")
        && (names.contains("args") || names.contains("cause") || names.contains("extras"))
}

fn is_output(names: &BTreeSet<&str>) -> bool {
    names.contains("history")
        && names.contains("instruction")
        && ["git_patch", "test_result", "issue", "metadata"].iter().any(|name| names.contains(name))
}

#[derive(Deserialize)]
struct Output {
    #[serde(default)]
    instance_id: Option<Value>,
    #[serde(default)]
    issue: Option<Value>,
    instruction: String,
    history: Vec<Value>,
    #[serde(default)]
    success: Option<bool>,
    #[serde(default)]
    result_explanation: Option<Value>,
    #[serde(default)]
    report: Option<Value>,
    #[serde(default)]
    test_result: Option<Value>,
    #[serde(default)]
    metadata: Option<Value>,
    #[serde(default)]
    error: Option<Value>,
}

fn output(bytes: &[u8], _file: &str) -> Result<Run, String> {
    let output: Output = decode(bytes)?;
    let mut events = Events::default();
    for event in &output.history {
        match event {
            // Old files: an action with its observation.
            Value::Array(pair) => pair.iter().for_each(|event| events.event(event)),
            event => events.event(event),
        }
    }
    let (told, steps) = (events.task, events.steps);
    if steps.is_empty() {
        return Err(match output.error.as_ref().map(words).filter(|error| !error.is_empty()) {
            Some(error) => format!("nothing was done in it: {error}"),
            None => "its history has no steps".into(),
        });
    }
    let issue = output.issue.as_ref();
    let part = |name: &str| issue.and_then(|issue| issue.get(name)).map(words).unwrap_or_default();
    let task = match part("title") {
        title if title.is_empty() => {
            if output.instruction.trim().is_empty() {
                told
            } else {
                output.instruction
            }
        }
        mut title => {
            join(&mut title, part("body").trim());
            title
        }
    };
    let number = issue.and_then(|issue| issue.get("number")).and_then(id);
    let task_key = match (output.instance_id.as_ref().and_then(id), number) {
        (Some(id), _) => id,
        (None, Some(number)) => format!("{}/{}#{number}", part("owner"), part("repo")),
        (None, None) => Run::key_from_task(&task),
    };
    let resolved = |value: &Option<Value>| {
        let report = value.as_ref()?;
        report.get("resolved").or_else(|| report.pointer("/report/resolved"))?.as_bool()
    };
    let report = resolved(&output.report).or_else(|| resolved(&output.test_result));
    let (verdict, judge) = match (report, output.success) {
        (Some(resolved), _) => (Some(resolved), "the benchmark's tests"),
        (None, success) => (success, "OpenHands resolver"),
    };
    let status = match verdict {
        Some(true) => RunStatus::Success,
        Some(false) => RunStatus::Failure,
        None => RunStatus::Unknown,
    };
    let reason = [&output.result_explanation, &output.error].into_iter().flatten().map(words).find(|r| !r.is_empty());
    let model = output.metadata.as_ref().and_then(|m| m.pointer("/llm_config/model")).and_then(Value::as_str);
    Ok(Run {
        task_key,
        task,
        domain: "coding".into(),
        agent: model.unwrap_or("OpenHands").to_owned(),
        steps,
        outcome: RunOutcome { status, reason, judged_by: verdict.map(|_| judge.to_owned()), ..RunOutcome::default() },
        tags: Some(part("repo")).filter(|repo| !repo.is_empty()).into_iter().collect(),
        ..Run::default()
    })
}

/// The events of one run so far.
#[derive(Default)]
struct Events {
    task: String,
    model: String,
    steps: Vec<Step>,
    /// The event that each step came from, so that an observation finds its cause.
    ids: Vec<Option<i64>>,
    /// Steps left out of the middle.
    dropped: usize,
}

impl Events {
    fn event(&mut self, event: &Value) {
        let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default();
        if self.model.is_empty() {
            let model = event.pointer("/tool_call_metadata/model_response/model").and_then(Value::as_str);
            self.model = model.unwrap_or_default().to_owned();
        }
        match (text("action"), text("observation")) {
            ("", "") => {}
            ("", _) => self.observation(event),
            (action, _) => self.action(action, event),
        }
    }

    fn action(&mut self, action: &str, event: &Value) {
        // Old events have their arguments beside the action.
        let given = event.get("args").and_then(Value::as_object).or_else(|| event.as_object());
        let arg = |name: &str| given.and_then(|given| given.get(name)).map(words).unwrap_or_default();
        let think = arg("thought");
        let source = event.get("source").and_then(Value::as_str).unwrap_or_default();
        let is_first = self.steps.is_empty() && self.task.is_empty();
        let done = match action {
            "message" if source == "user" || (source.is_empty() && is_first) => return self.user(&arg("content")),
            "system" | "change_agent_state" | "recall" | "null" | "condensation" | "pause" | "resume" => return,
            "message" => format!("respond: {}", arg("content")),
            "think" => String::new(),
            "run" => arg("command"),
            "run_ipython" => arg("code"),
            "finish" => {
                let said = ["final_thought", "message"].iter().map(|name| arg(name)).find(|said| !said.is_empty());
                let said = said.unwrap_or_else(|| think.clone());
                self.push(event, Step { action: format!("respond: {said}"), ..Step::default() });
                return;
            }
            other => {
                let kept = |(name, value): (&String, &Value)| {
                    let plain = !NOT_ARGUMENTS.contains(&name.as_str()) && !value.is_null();
                    plain.then(|| (name.clone(), value.clone()))
                };
                let own = ["id", "timestamp", "source", "message", "tool_call_metadata", "timeout", "llm_metrics"];
                let given =
                    given.into_iter().flatten().filter_map(kept).filter(|(name, _)| !own.contains(&name.as_str()));
                call_text(other, &Value::Object(given.collect::<Map<_, _>>()))
            }
        };
        self.push(event, Step { think, action: done.trim().to_owned(), ..Step::default() });
    }

    fn user(&mut self, words: &str) {
        match self.steps.last_mut() {
            None => join(&mut self.task, words.trim()),
            Some(step) if step.action.starts_with("respond:") => join(&mut step.observation, words.trim()),
            Some(_) => self.push(&Value::Null, Step { observation: words.trim().to_owned(), ..Step::default() }),
        }
    }

    fn observation(&mut self, event: &Value) {
        let kind = event.get("observation").and_then(Value::as_str).unwrap_or_default();
        if matches!(kind, "null" | "agent_state_changed" | "recall" | "user_rejected") {
            return;
        }
        let mut seen = event.get("content").map(words).unwrap_or_default();
        let code = event.pointer("/extras/metadata/exit_code").or_else(|| event.pointer("/extras/exit_code"));
        let code = code.or_else(|| event.get("exit_code")).and_then(Value::as_i64).filter(|&code| code > 0);
        if let Some(code) = code {
            seen = format!("<returncode>{code}</returncode>\n{seen}");
        }
        let cause = event.get("cause").and_then(Value::as_i64);
        let at = cause.and_then(|cause| self.ids.iter().rposition(|id| *id == Some(cause)));
        let at = at.or_else(|| self.steps.len().checked_sub(1));
        match at.and_then(|at| self.steps.get_mut(at)) {
            Some(step) => join(&mut step.observation, seen.trim()),
            None => self.push(&Value::Null, Step { observation: seen.trim().to_owned(), ..Step::default() }),
        }
    }

    fn push(&mut self, event: &Value, step: Step) {
        self.steps.push(step);
        self.ids.push(event.get("id").and_then(Value::as_i64));
        if self.steps.len() > MAX_OPEN_STEPS {
            let (from, to) = (MAX_STEPS / 2, self.steps.len() - MAX_STEPS);
            self.dropped += to - from;
            self.steps.drain(from..to);
            self.ids.drain(from..to);
        }
    }
}

impl Gather for Events {
    fn take(&mut self, bytes: &[u8], _parts: &mut Parts) -> Result<(), String> {
        let event: Value = decode(bytes)?;
        if event.get("action").is_none() && event.get("observation").is_none() {
            return Err("it is neither an action nor an observation".into());
        }
        self.event(&event);
        Ok(())
    }

    fn end(&mut self, parts: &mut Parts) {
        let mut events = std::mem::take(self);
        if events.steps.is_empty() {
            parts.refuse("", "none of its events is a step of an agent");
            return;
        }
        if events.task.is_empty() && events.steps.len() == 1 {
            parts.refuse("", "it is one event by itself: put the events of a run into one array or file");
            return;
        }
        if events.dropped > 0 {
            let note = format!("[… {} steps elided …]", events.dropped);
            events.steps.insert(MAX_STEPS / 2, Step { observation: note, ..Step::default() });
        }
        let agent = if events.model.is_empty() { "OpenHands".to_owned() } else { events.model };
        let task_key = Run::key_from_task(&events.task);
        parts.run(
            "",
            Run { task_key, task: events.task, domain: "coding".into(), agent, steps: events.steps, ..Run::default() },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::parts::Part;
    use super::*;
    use serde_json::json;

    #[test]
    fn events_find_their_causes_and_old_pairs_read_the_same() {
        let modern = [
            json!({"id": 0, "source": "user", "action": "message", "args": {"content": "rename it"}}),
            json!({"id": 1, "source": "agent", "action": "run", "args": {"command": "mv a b", "thought": "I rename."}}),
            json!({"id": 2, "source": "agent", "action": "read", "args": {"path": "b", "thought": "", "start": null}}),
            json!({"id": 3, "source": "agent", "cause": 2, "observation": "read", "content": "text"}),
            json!({"id": 4, "source": "agent", "cause": 1, "observation": "run", "content": "mv: no", "extras": {"metadata": {"exit_code": 1}}}),
            json!({"id": 5, "source": "environment", "observation": "agent_state_changed", "content": ""}),
            json!({"id": 6, "source": "agent", "action": "finish", "args": {"thought": "Done.", "outputs": {}}}),
        ];
        let mut events = Events::default();
        let mut parts = Parts::default();
        for event in &modern {
            events.take(event.to_string().as_bytes(), &mut parts).unwrap();
        }
        assert!(events.take(b"{\"x\":1}", &mut parts).unwrap_err().contains("neither"));
        events.end(&mut parts);
        let Some((_, Part::Run(run))) = parts.0.pop() else { panic!() };
        assert_eq!((run.task.as_str(), run.outcome.status), ("rename it", RunStatus::Unknown));
        let got: Vec<_> = run.steps.iter().map(|s| (s.action.as_str(), s.observation.as_str())).collect();
        let failed = "<returncode>1</returncode>\nmv: no";
        assert_eq!(got, [("mv a b", failed), ("read {\"path\":\"b\"}", "text"), ("respond: Done.", "")]);

        let old = json!({"instance_id": "acme__tiny-7", "instruction": "rename it", "git_patch": "", "history": [
            [{"action": "run", "command": "mv a b", "thought": "I rename."}, {"observation": "run", "content": "mv: no", "exit_code": 1}]],
            "report": {"resolved": false}, "success": true});
        let run = output(old.to_string().as_bytes(), "").unwrap();
        assert_eq!((run.task_key.as_str(), run.steps[0].observation.as_str()), ("acme__tiny-7", failed));
        assert_eq!(run.outcome.status, RunStatus::Failure, "tests win over the agent's own judge");
    }

    #[test]
    fn a_run_without_a_verdict_stays_unknown_and_an_empty_one_says_why() {
        let line = json!({"instruction": "x", "issue": {"owner": "o", "repo": "r", "number": 5, "title": "T", "body": "B"},
            "history": [{"action": "run", "command": "ls"}], "success": null});
        let run = output(line.to_string().as_bytes(), "").unwrap();
        assert_eq!(
            (run.task_key.as_str(), run.task.as_str(), run.outcome.status),
            ("o/r#5", "T\nB", RunStatus::Unknown)
        );
        let line = json!({"instruction": "x", "history": [], "git_patch": "", "error": "no container"});
        assert!(output(line.to_string().as_bytes(), "").unwrap_err().contains("no container"));
    }
}
