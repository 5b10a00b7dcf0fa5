//! The example runs that ship with the program, and which lessons each task is expected to teach.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    ops::ControlFlow,
    path::Path,
};

use folklore_store::{learn, run::Run};
use serde::Deserialize;

use super::{DemoError, Step};
use crate::{
    formats::{self, Item, Outcomes, ReadOptions},
    memory,
};

macro_rules! examples {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../data/demo/", $name)))),*]
    };
}

const FILES: &[(&str, &str)] = examples![
    "shop.json",
    "coding/outcomes.json",
    "coding/acme__parcel-11.scout-large.traj.json",
    "coding/acme__parcel-11.scout-small.traj.json",
    "coding/acme__parcel-17.scout-large.traj.json",
    "coding/acme__parcel-17.scout-small.traj.json",
    "coding/acme__parcel-23.scout-large.traj.json",
    "coding/acme__parcel-23.scout-small.traj.json",
    "coding/acme__parcel-31.scout-small.traj.json",
    "coding/acme__parcel-36.scout-large.traj.json",
    "coding/acme__parcel-40.scout-large.traj.json",
    "coding/acme__tally-15.scout-large.traj.json",
    "coding/acme__tally-15.scout-small.traj.json",
    "coding/acme__tally-21.scout-large.traj.json",
    "coding/acme__tally-21.scout-small.traj.json",
    "coding/acme__tally-30.scout-large.traj.json",
    "coding/acme__tally-34.scout-small.traj.json",
    "coding/acme__tally-8.scout-large.traj.json",
    "coding/acme__tally-8.scout-small.traj.json",
];
const QUESTIONS: &str = include_str!("../../data/demo/queries.json");
/// The file that north imports while west is cut off.
const NORTHS: &str = "shop.json";

/// Writes the example runs under `dir`.
pub(super) fn write_to(dir: &Path) -> io::Result<()> {
    for (name, text) in FILES {
        let path = dir.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, text)?;
    }
    Ok(())
}

#[derive(Deserialize)]
struct Question {
    file: String,
    task_key: String,
    query: String,
}

/// Questions in other words than the lessons'.
pub(super) struct Questions {
    /// (task key, question) of what north learns while west is away.
    pub only_north_knows: Vec<(String, String)>,
}

impl Questions {
    pub(super) fn read() -> Step<Self> {
        let all: Vec<Question> = serde_json::from_str(QUESTIONS).map_err(|error| DemoError::new(error.to_string()))?;
        let norths = all.into_iter().filter(|q| q.file == NORTHS);
        Ok(Self { only_north_knows: norths.map(|q| (q.task_key, q.query)).collect() })
    }
}

/// Lesson ids that the runs of each task teach: induction is deterministic, so they are known before any node runs.
pub(super) fn expected_lessons(dir: &Path) -> Step<BTreeMap<String, BTreeSet<String>>> {
    let fail = |what: String| DemoError::new(format!("the example runs: {what}"));
    let outcomes = Outcomes::read(&dir.join("coding/outcomes.json")).map_err(|error| fail(error.to_string()))?;
    let options = ReadOptions { outcomes: Some(&outcomes), ..ReadOptions::default() };
    let mut tasks: BTreeMap<String, Vec<Run>> = BTreeMap::new();
    for found in formats::expand(&[dir.to_owned()]) {
        if found.problem.is_some() || found.path.ends_with("outcomes.json") {
            continue;
        }
        let read = formats::read_path(&found.path, &options, &mut |item| {
            if let Item::Run(mut run) = item {
                memory::clean_run(&mut run);
                tasks.entry(run.task_key.clone()).or_default().push(*run);
            }
            ControlFlow::Continue(())
        });
        read.map_err(|error| fail(error.to_string()))?;
    }
    let mut expected = BTreeMap::new();
    for (task, mut runs) in tasks {
        let mut drafts = learn::separately(&runs, learn::NONE_GIVEN).lessons;
        runs.sort_by_key(Run::digest);
        drafts.extend(learn::contrast(&runs.iter().collect::<Vec<_>>(), learn::NONE_GIVEN).lessons);
        let lessons = drafts.iter().filter_map(|draft| memory::lesson_of(draft).ok());
        expected.insert(task, lessons.map(|lesson| lesson.id().to_string()).collect());
    }
    Ok(expected)
}
