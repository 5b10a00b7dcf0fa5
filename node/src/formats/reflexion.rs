//! Reflexion logs: trials in an environment, and programming tasks.
//!
//! A trial file is an array of `{name: "env_0", memory[reflections], is_success}`, one row an environment, and keeps only
//! what the agent told itself after the trials that failed. A programming log is JSON lines of `{name, prompt, test,
//! solution, is_solved, reflections[]?}`. Labels: `is_success`, `is_solved`. A row is a run whose steps are the reflections
//! and, where it is kept, the last solution; each reflection is also a lesson, because it is what that agent remembered.
//! Trial rows do not say which environment they are from: the file's name tells environments and trials apart.

use super::parts::{Parts, Told};
use super::words::programming_task;
use super::{Detect, Format, Gives, Read, decode};
use folklore_protocol::claim::Outcome;
use folklore_protocol::lesson::LessonKind;
use folklore_store::run::{Run, RunOutcome, RunStatus, Step};
use serde::Deserialize;
use std::collections::BTreeSet;

pub(super) const FORMAT: Format = Format {
    name: "reflexion",
    shape: "{name, memory[reflections], is_success} a trial, or {name, prompt, solution, reflections, is_solved} a task",
    gives: Gives::Both,
    from_description: false,
    detect: Detect::Fields(detect),
    read: Read::Several(parse),
};

#[derive(Deserialize)]
struct Row {
    name: String,
    #[serde(default)]
    memory: Option<Vec<String>>,
    #[serde(default)]
    reflections: Option<Vec<String>>,
    #[serde(default)]
    prompt: Option<String>,
    #[serde(default)]
    solution: Option<String>,
    #[serde(default)]
    is_success: Option<bool>,
    #[serde(default)]
    is_solved: Option<bool>,
}

fn detect(names: &BTreeSet<&str>) -> bool {
    let trial = names.contains("memory") && names.contains("is_success");
    let task = names.contains("prompt") && names.contains("is_solved") && names.contains("solution");
    names.contains("name") && (trial || task) && !names.contains("implementations")
}

fn parse(bytes: &[u8], file: &str, parts: &mut Parts) -> Result<(), String> {
    let row: Row = decode(bytes)?;
    if row.name.trim().is_empty() {
        return Err("its name is empty".into());
    }
    let is_trial = row.prompt.is_none();
    let (series, trial) = series(file);
    let by_itself = row.reflections.is_none() && row.memory.is_none();
    let reflections = row.memory.or(row.reflections).unwrap_or_default();
    let verdict = row.is_success.or(row.is_solved);
    let status = match verdict {
        Some(true) => RunStatus::Success,
        Some(false) => RunStatus::Failure,
        None => RunStatus::Unknown,
    };
    let judge = if row.is_success.is_some() { "reflexion is_success" } else { "reflexion is_solved" };
    let task = row.prompt.as_deref().map(programming_task).unwrap_or_default();
    let task_key = if is_trial { format!("reflexion/{series}/{}", row.name) } else { row.name.clone() };
    let domain = match is_trial {
        true => {
            ["alfworld", "webshop", "hotpotqa"].into_iter().find(|known| series.contains(known)).unwrap_or_default()
        }
        false => "coding",
    };
    for (at, reflection) in reflections.iter().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
        parts.lesson(
            format!("reflection {}", at + 1),
            Told {
                kind: LessonKind::Pitfall,
                content: reflection.clone(),
                task: &task,
                domain,
                // A reflection is written after a trial that failed, whatever the last one gave.
                outcome: Some((Outcome::Failure, judge)),
                ..Told::default()
            },
        );
    }
    // Each trial that failed left a reflection.
    let failed = u32::try_from(reflections.len()).unwrap_or(u32::MAX);
    let counted = if status == RunStatus::Failure { failed.saturating_sub(1) } else { failed };
    let mut steps: Vec<Step> =
        reflections.into_iter().map(|reflection| Step { think: reflection, ..Step::default() }).collect();
    if let Some(solution) = row.solution.filter(|solution| !solution.trim().is_empty()) {
        steps.push(Step { action: solution, ..Step::default() });
    }
    parts.run(
        "",
        Run {
            task_key,
            task,
            domain: domain.into(),
            agent: if by_itself { "single attempt" } else { "Reflexion" }.to_owned(),
            attempt: trial.or(Some(counted)).filter(|_| !by_itself),
            steps,
            outcome: RunOutcome { status, judged_by: verdict.map(|_| judge.to_owned()), ..RunOutcome::default() },
            ..Run::default()
        },
    );
    Ok(())
}

/// The series of trials that a file belongs to and the trial's number, from a name like `run_trial_3.json`.
fn series(file: &str) -> (&str, Option<u32>) {
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    match stem.rsplit_once("trial_") {
        Some((series, number)) if number.parse::<u32>().is_ok() => (series.trim_end_matches('_'), number.parse().ok()),
        _ => (stem, None),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parts::Part;
    use super::*;

    fn read(row: &str, file: &str) -> (Vec<Run>, usize) {
        let mut parts = Parts::default();
        parse(row.as_bytes(), file, &mut parts).unwrap();
        let lessons = parts.0.iter().filter(|(_, part)| matches!(part, Part::Lesson(..))).count();
        let runs = parts.0.into_iter().filter_map(|(_, part)| match part {
            Part::Run(run) => Some(*run),
            _ => None,
        });
        (runs.collect(), lessons)
    }

    #[test]
    fn a_trial_and_the_next_are_two_attempts_at_one_task() {
        let (failed, lessons) =
            read(r#"{"name":"env_2","memory":[" I took the wrong plate. "],"is_success":false}"#, "alf_trial_1.json");
        let (solved, _) =
            read(r#"{"name":"env_2","memory":[" I took the wrong plate. "],"is_success":true}"#, "alf_trial_2.json");
        assert_eq!((failed[0].task_key.as_str(), lessons), ("reflexion/alf/env_2", 1));
        assert_eq!(failed[0].task_key, solved[0].task_key);
        assert_ne!(failed[0].digest(), solved[0].digest());
        assert_eq!((failed[0].outcome.status, solved[0].outcome.status), (RunStatus::Failure, RunStatus::Success));
        let (renamed, _) = read(r#"{"name":"env_2","memory":["a","b"],"is_success":false}"#, "x.json");
        assert_eq!(renamed[0].attempt, Some(1));
    }

    #[test]
    fn a_programming_task_keeps_its_reflections_and_its_solution() {
        let (runs, lessons) = read(
            r#"{"name":"mbpp_1_f","prompt":"def f():","test":"t","solution":"def f(): pass","is_solved":false,"reflections":["It ignores 0."]}"#,
            "x.jsonl",
        );
        assert_eq!((runs[0].task_key.as_str(), runs[0].steps.len(), lessons), ("mbpp_1_f", 2, 1));
        let (runs, lessons) = read(r#"{"name":"mbpp_1_f","prompt":"def f():","solution":"s","is_solved":true}"#, "x");
        assert_eq!((runs[0].agent.as_str(), runs[0].attempt, lessons), ("single attempt", None, 0));
    }
}
