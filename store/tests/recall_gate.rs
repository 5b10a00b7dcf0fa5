//! Nonsense gets nothing, questions get answers: the gate's rates on labelled queries.
//!
//! The queries in `tests/data` were written for this project: off-topic ones, and paraphrases of what the lessons in
//! `own_lessons.jsonl` and the runs in the shared data are about. A hash splits them; the gate was fitted on the half
//! named `Fit` and is judged on the half named `Held`. Real runs are taken from `FOLKLORE_SHARED_DATA`, else from
//! `../shared/data` beside the workspace; where they are absent, the tests that need them say so and pass.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use folklore_store::embed::BuiltinEmbedder;
use folklore_store::recall::gate::Gate;
use folklore_store::recall::{EmptyReason, RankOptions, Ranker};
use serde::Deserialize;
use serde_json::Value;

/// Of off-topic queries at most this share may get an answer, in percent.
const OFF_TOPIC_MAX_PERCENT: usize = 5;
/// The same in a bank of several hundred tasks of many kinds, some of which touch everyday subjects.
const OFF_TOPIC_LARGE_MAX_PERCENT: usize = 10;
/// Of on-topic queries at least this share must get one, in percent.
const ON_TOPIC_MIN_PERCENT: usize = 95;

struct Doc {
    source: &'static str,
    id: String,
    task: String,
    text: String,
}

#[derive(Deserialize)]
struct OwnLesson {
    id: String,
    title: String,
    applies_when: String,
    not_when: String,
    content: String,
    task: String,
}

#[derive(Deserialize)]
struct OnTopic {
    source: String,
    task_ids: Vec<String>,
    query: String,
}

fn own_lessons() -> Vec<Doc> {
    include_str!("data/own_lessons.jsonl")
        .lines()
        .map(|line| {
            let lesson: OwnLesson = serde_json::from_str(line).unwrap();
            Doc {
                source: "own",
                id: lesson.id,
                task: lesson.task,
                text: [lesson.title, lesson.applies_when, lesson.not_when, lesson.content].join("\n"),
            }
        })
        .collect()
}

fn on_topic() -> Vec<OnTopic> {
    include_str!("data/on_topic_queries.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn off_topic() -> Vec<&'static str> {
    include_str!("data/off_topic_queries.txt").lines().filter(|line| !line.starts_with("# ")).collect()
}

fn shared_data() -> Option<PathBuf> {
    let path = std::env::var_os("FOLKLORE_SHARED_DATA")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"), PathBuf::from);
    if path.join("tau-bench").is_dir() {
        return Some(path);
    }
    println!("skipped: no shared data at {}", path.display());
    None
}

fn json(path: PathBuf) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// One document a run: what it was asked, and which tools it called.
fn tau_bench(data: &std::path::Path) -> Vec<Doc> {
    let files = [
        ("tau-bench-airline", "gpt-4o-airline.json"),
        ("tau-bench-retail", "retail_assertions.json"),
        ("tau-bench-retail", "retail_tool-calling.json"),
    ];
    let mut docs = Vec::new();
    for (source, file) in files {
        for run in json(data.join("tau-bench").join(file)).as_array().unwrap() {
            let tools: BTreeSet<&str> = run["traj"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|message| message["tool_calls"].as_array())
                .flatten()
                .filter_map(|call| call["function"]["name"].as_str())
                .collect();
            docs.push(Doc {
                source,
                id: run["task_id"].to_string(),
                task: run["info"]["task"]["instruction"].as_str().unwrap().into(),
                text: format!("Tool calls: {}", tools.into_iter().collect::<Vec<_>>().join(", ")),
            });
        }
    }
    docs
}

fn mini_swe_agent(data: &std::path::Path) -> Vec<Doc> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(data.join("mini-swe-agent"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(".traj.json"))
        .collect();
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let run = json(path);
            let first = run["messages"].as_array().unwrap().iter().find(|m| m["role"] == "user").unwrap();
            let first = first["content"].as_str().unwrap();
            let (_, issue) = first.split_once("<pr_description>").unwrap();
            let (issue, _) = issue.split_once("</pr_description>").unwrap();
            let issue = issue.replace("Consider the following PR description:", "");
            Doc {
                source: "mini-swe-agent",
                id: run["instance_id"].as_str().unwrap().into(),
                task: issue.trim().into(),
                text: "Tool calls: bash".into(),
            }
        })
        .collect()
}

/// The id is the template: tasks of one template are relevant to each other.
fn webarena(data: &std::path::Path) -> Vec<Doc> {
    std::fs::read_to_string(data.join("retrieval/webarena_tasks_even_templates.jsonl"))
        .unwrap()
        .lines()
        .map(|line| {
            let task: Value = serde_json::from_str(line).unwrap();
            Doc {
                source: "webarena",
                id: task["template_id"].to_string(),
                task: task["intent"].as_str().unwrap().into(),
                text: String::new(),
            }
        })
        .collect()
}

fn ranker(docs: &[Doc]) -> Ranker {
    let mut ranker = Ranker::new(Arc::new(BuiltinEmbedder::new()), Gate::BUILTIN);
    for (slot, doc) in (0..).zip(docs) {
        ranker.add(slot, &doc.task, &doc.text).unwrap();
    }
    ranker
}

/// FNV-1a of the query: a fixed split that no one chose.
fn held_out(query: &str) -> bool {
    let hash = query
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    (hash >> 32) & 1 == 1
}

#[derive(Clone, Copy, Default)]
struct Rate {
    yes: usize,
    of: usize,
}

impl Rate {
    fn add(&mut self, yes: bool) {
        self.yes += usize::from(yes);
        self.of += 1;
    }
    fn at_least(self, percent: usize) -> bool {
        self.yes * 100 >= percent * self.of
    }
    fn at_most(self, percent: usize) -> bool {
        self.yes * 100 <= percent * self.of
    }
}

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{} ({:.1} %)", self.yes, self.of, 100.0 * self.yes as f64 / self.of.max(1) as f64)
    }
}

#[derive(Clone, Copy, Default)]
struct Rates {
    on_answered: Rate,
    on_right: Rate,
    off_answered: Rate,
}

/// Rates on the fitted half, the held-out half, and all; queries whose source is not in `docs` are left out.
fn rates(name: &str, docs: &[Doc]) -> [Rates; 3] {
    let ranker = ranker(docs);
    let sources: BTreeSet<&str> = docs.iter().map(|doc| doc.source).collect();
    let mut rates = [Rates::default(); 3];
    for on in on_topic().iter().filter(|on| sources.contains(on.source.as_str())) {
        let answer = ranker.rank(&on.query, &RankOptions::default());
        let best = answer.hits.first().and_then(|hit| docs.get(hit.slot()? as usize));
        let right = best.is_some_and(|doc| doc.source == on.source && on.task_ids.contains(&doc.id));
        for half in [usize::from(held_out(&on.query)), 2] {
            rates[half].on_answered.add(best.is_some());
            rates[half].on_right.add(right);
        }
        if best.is_none() {
            println!("  {name}: no answer to {:?}", on.query);
        }
    }
    for query in off_topic() {
        let answer = ranker.rank(query, &RankOptions::default());
        for half in [usize::from(held_out(query)), 2] {
            rates[half].off_answered.add(!answer.hits.is_empty());
        }
        match answer.hits.first().and_then(|hit| docs.get(hit.slot()? as usize)) {
            Some(doc) => println!("  {name}: {query:?} answered by {}/{}", doc.source, doc.id),
            None => assert_eq!(answer.reason, Some(EmptyReason::BelowThreshold)),
        }
    }
    for (half, rates) in ["fit", "held", "all"].iter().zip(&rates) {
        println!(
            "{name}, {half}: on-topic answered {}, by the right task {}; off-topic answered {}",
            rates.on_answered, rates.on_right, rates.off_answered
        );
    }
    rates
}

fn assert_targets(name: &str, rates: &[Rates; 3], off_max_percent: usize) {
    for (half, rates) in ["fit", "held", "all"].iter().zip(rates).skip(1) {
        assert!(rates.on_answered.at_least(ON_TOPIC_MIN_PERCENT), "{name}, {half}: {}", rates.on_answered);
        assert!(rates.off_answered.at_most(off_max_percent), "{name}, {half}: {}", rates.off_answered);
    }
}

#[test]
fn there_are_enough_queries_of_both_kinds() {
    let (on, off) = (on_topic(), off_topic());
    assert!(off.len() >= 200 && on.len() >= 80);
    let held = off.iter().filter(|query| held_out(query)).count();
    assert!(held * 3 > off.len() && held * 3 < 2 * off.len());
    let distinct: BTreeSet<&str> = off.iter().copied().chain(on.iter().map(|on| on.query.as_str())).collect();
    assert_eq!(distinct.len(), off.len() + on.len());
}

#[test]
fn in_a_small_bank_nonsense_gets_nothing_and_paraphrases_get_answers() {
    let rates = rates("own lessons", &own_lessons());
    assert_targets("own lessons", &rates, OFF_TOPIC_MAX_PERCENT);
    assert!(rates[2].on_right.at_least(90));
}

#[test]
fn in_a_bank_of_one_lesson_only_its_own_questions_get_an_answer() {
    let lessons = own_lessons();
    let (mut own, mut foreign) = (Rate::default(), Rate::default());
    for at in 0..lessons.len() {
        let ranker = ranker(&lessons[at..=at]);
        for on in on_topic().iter().filter(|on| on.source == "own") {
            let answered = !ranker.rank(&on.query, &RankOptions::default()).hits.is_empty();
            if on.task_ids.contains(&lessons[at].id) { own.add(answered) } else { foreign.add(answered) }
        }
    }
    println!("one lesson: its questions answered {own}, questions of others {foreign}");
    assert!(own.at_least(90) && foreign.at_most(OFF_TOPIC_MAX_PERCENT));
}

#[test]
fn in_a_bank_of_real_runs_nonsense_gets_nothing_and_paraphrases_get_answers() {
    let Some(data) = shared_data() else { return };
    let mut docs = own_lessons();
    docs.extend(tau_bench(&data));
    docs.extend(mini_swe_agent(&data));
    let rates = rates("runs", &docs);
    assert_targets("runs", &rates, OFF_TOPIC_MAX_PERCENT);
}

#[test]
fn in_a_bank_of_six_hundred_tasks_the_rates_hold() {
    let Some(data) = shared_data() else { return };
    let mut docs = own_lessons();
    docs.extend(tau_bench(&data));
    docs.extend(mini_swe_agent(&data));
    docs.extend(webarena(&data));
    let rates = rates("runs and web tasks", &docs);
    assert_targets("runs and web tasks", &rates, OFF_TOPIC_LARGE_MAX_PERCENT);
}

#[test]
fn a_web_task_is_answered_by_a_task_of_the_same_template() {
    let Some(data) = shared_data() else { return };
    let docs = webarena(&data);
    let mut templates: HashMap<&str, usize> = HashMap::new();
    docs.iter().for_each(|doc| *templates.entry(doc.id.as_str()).or_default() += 1);
    let ranker = ranker(&docs);
    let (mut answered, mut right) = (Rate::default(), Rate::default());
    for (slot, doc) in (0u32..).zip(&docs).filter(|(_, doc)| templates[doc.id.as_str()] > 1) {
        let filter = |other: u32| other != slot;
        let options = RankOptions { filter: Some(&filter), ..RankOptions::default() };
        let hit = ranker.rank(&doc.task, &options).hits.first().and_then(|hit| hit.slot());
        answered.add(hit.is_some());
        right.add(hit.and_then(|hit| docs.get(hit as usize)).is_some_and(|hit| hit.id == doc.id));
    }
    println!("web tasks: answered {answered}, by the same template {right}");
    assert!(answered.at_least(ON_TOPIC_MIN_PERCENT) && right.at_least(88));
}
