//! Nonsense gets nothing and questions get answers, in a bank of what real runs taught.
//!
//! The lessons are those that importing all of tau-bench and mini-swe-agent gives; the queries are the labelled ones of
//! `store/tests/data`. Where the runs are absent, the tests say so and pass.

#[path = "../../store/tests/labelled/mod.rs"]
mod labelled;

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use folklore_node::formats::{self, Item, Outcomes, ReadOptions};
use folklore_store::learn;
use folklore_store::run::Run;
use labelled::{Doc, OFF_TOPIC_MAX_PERCENT, ON_TOPIC_MIN_PERCENT, Rate};
use serde_json::Value;

/// "fix bug", "check the status": of queries that name no topic at most this share may get an answer, in percent.
const VAGUE_MAX_PERCENT: usize = 10;
/// "parse_duration", "LEVEL_TAGS": of those that name one in a few words at least this share must.
const TERSE_MIN_PERCENT: usize = 85;

/// Runs of every trajectory file in `dir`.
fn runs(dir: &Path) -> Vec<Run> {
    let table = dir.join("outcomes.json");
    let table = table.is_file().then(|| Outcomes::read(&table).unwrap());
    let options = ReadOptions { outcomes: table.as_ref(), ..ReadOptions::default() };
    let mut files: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut runs = Vec::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|e| e == "json")) {
        let _ = formats::read_path(file, &options, &mut |item| {
            if let Item::Run(run) = item {
                runs.push(*run);
            }
            ControlFlow::Continue(())
        });
    }
    runs
}

/// What the runs teach, each lesson under the task it was drawn from; and the tasks that taught something.
fn lessons(data: &Path) -> Vec<Doc> {
    let mut tasks: BTreeMap<String, Vec<Run>> = BTreeMap::new();
    for run in ["tau-bench", "mini-swe-agent"].iter().flat_map(|dir| runs(&data.join(dir))) {
        tasks.entry(run.task_key.clone()).or_default().push(run);
    }
    assert!(tasks.len() > 40, "{} tasks", tasks.len());
    let mut docs = Vec::new();
    for (key, runs) in &tasks {
        let (source, id) = match key.strip_prefix("tau-bench/").and_then(|rest| rest.split_once('/')) {
            Some(("airline", id)) => ("tau-bench-airline", id),
            Some(("retail", id)) => ("tau-bench-retail", id),
            _ => ("mini-swe-agent", key.rsplit('/').next().unwrap()),
        };
        docs.extend(
            learn::induce(runs, learn::NONE_GIVEN)
                .lessons
                .iter()
                .map(|draft| Doc::of(source, id.to_owned(), &draft.fields)),
        );
    }
    docs
}

#[test]
fn among_lessons_of_real_runs_nonsense_gets_nothing_and_paraphrases_get_answers() {
    let Some(data) = labelled::shared_data("recall gate") else { return };
    let docs = lessons(&data);
    println!("{} lessons", docs.len());
    let rates = labelled::rates("lessons of runs", &docs);
    for (half, rates) in labelled::HALVES.iter().zip(&rates).skip(1) {
        assert!(rates.on_answered.at_least(ON_TOPIC_MIN_PERCENT), "{half}: {}", rates.on_answered);
        assert!(rates.off_answered.at_most(OFF_TOPIC_MAX_PERCENT), "{half}: {}", rates.off_answered);
    }
}

#[test]
fn beside_other_lessons_the_rates_hold() {
    let Some(data) = labelled::shared_data("recall gate") else { return };
    let mut docs = lessons(&data);
    docs.extend(labelled::own_lessons());
    let [_, held, all] = labelled::rates("lessons of runs and own", &docs);
    assert!(held.on_answered.at_least(ON_TOPIC_MIN_PERCENT), "{}", held.on_answered);
    assert!(held.off_answered.at_most(OFF_TOPIC_MAX_PERCENT), "{}", held.off_answered);
    assert!(all.vague_answered.at_most(VAGUE_MAX_PERCENT), "{}", all.vague_answered);
    assert!(all.terse_answered.at_least(TERSE_MIN_PERCENT), "{}", all.terse_answered);
    assert!(all.on_answered.at_least(ON_TOPIC_MIN_PERCENT), "{}", all.on_answered);
    assert!(all.off_answered.at_most(OFF_TOPIC_MAX_PERCENT), "{}", all.off_answered);
}

/// One text a line of a JSON Lines file.
fn texts(path: PathBuf, field: &str) -> Vec<String> {
    let lines = fs::read_to_string(path).unwrap();
    lines
        .lines()
        .filter_map(|line| Some(serde_json::from_str::<Value>(line).unwrap()[field].as_str()?.to_owned()))
        .collect()
}

#[test]
fn questions_of_other_benchmarks_get_next_to_nothing() {
    let Some(data) = labelled::shared_data("other benchmarks") else { return };
    let docs = lessons(&data);
    let ranker = labelled::ranker(&docs);
    // Programs are what half of the lessons are about, and their prompts are long: some likeness is no error there.
    for (name, most_percent, questions) in [
        ("word problems", 3, texts(data.join("procedural/gsm8k_test_socratic_1-660.jsonl"), "question")),
        ("trivia", 1, texts(data.join("lesson-banks/memento_case_bank.jsonl"), "case")),
        ("small programs", 18, texts(data.join("reflexion/mbpp_py_simple_gpt4.jsonl"), "prompt")),
    ] {
        let mut rate = Rate::default();
        for question in questions {
            rate.add(labelled::answer(&ranker, &docs, &question).is_some());
        }
        println!("{name}: answered {rate}");
        assert!(rate.at_most(most_percent), "{name}: {rate}");
    }
}

#[test]
fn a_whole_task_finds_what_was_learned_from_it() {
    let Some(data) = labelled::shared_data("whole tasks") else { return };
    let docs = lessons(&data);
    let ranker = labelled::ranker(&docs);
    let (mut answered, mut right) = (Rate::default(), Rate::default());
    for run in ["tau-bench", "mini-swe-agent"].iter().flat_map(|dir| runs(&data.join(dir))) {
        if !docs.iter().any(|doc| run.task_key.ends_with(&format!("/{}", doc.id)) || run.task_key == doc.id) {
            continue;
        }
        let best = labelled::answer(&ranker, &docs, &run.task);
        answered.add(best.is_some());
        right.add(best.is_some_and(|doc| run.task_key.ends_with(&doc.id)));
    }
    println!("whole tasks: answered {answered}, by the same task {right}");
    assert!(answered.at_least(ON_TOPIC_MIN_PERCENT) && right.at_least(80));
}
