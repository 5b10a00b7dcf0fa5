//! Labelled queries, and the rates at which a bank answers them.
//!
//! The queries in `tests/data` were written for this project: off-topic ones, and paraphrases of what the lessons in
//! `own_lessons.jsonl` and the runs in the shared data are about. A hash splits them: the gate was fitted on one half
//! and is judged on the other, which is called held out.

#![allow(dead_code, reason = "each test file that includes this uses a part of it")]

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use folklore_protocol::lesson::{Lesson, LessonDraft};
use folklore_store::embed::BuiltinEmbedder;
use folklore_store::recall::gate::Gate;
use folklore_store::recall::{EmptyReason, RankOptions, Ranker};
use serde::Deserialize;

/// Of off-topic queries at most this share may get an answer, in percent.
pub const OFF_TOPIC_MAX_PERCENT: usize = 5;
/// Of on-topic queries at least this share must get one, in percent.
pub const ON_TOPIC_MIN_PERCENT: usize = 95;

/// A lesson in a bank under test, and the task it is about.
#[derive(Clone)]
pub struct Doc {
    pub source: &'static str,
    pub id: String,
    pub task: String,
    pub text: String,
}

impl Doc {
    /// Indexed as a bank indexes it: by its task and by [`Lesson::text`].
    pub fn of(source: &'static str, id: String, lesson: &LessonDraft) -> Self {
        let lesson = Lesson::new(lesson.clone()).unwrap();
        Doc { source, id, task: lesson.task.clone(), text: lesson.text() }
    }
}

/// A query that some lesson about one of the tasks should answer.
#[derive(Deserialize)]
pub struct OnTopic {
    pub source: String,
    pub task_ids: Vec<String>,
    pub query: String,
}

pub fn own_lessons() -> Vec<Doc> {
    #[derive(Deserialize)]
    struct Own {
        id: String,
        #[serde(flatten)]
        lesson: LessonDraft,
    }
    let lessons = include_str!("../data/own_lessons.jsonl").lines();
    lessons
        .map(|line| serde_json::from_str(line).unwrap())
        .map(|Own { id, lesson }| Doc::of("own", id, &lesson))
        .collect()
}

pub fn on_topic() -> Vec<OnTopic> {
    include_str!("../data/on_topic_queries.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Queries of a few words: those that name no topic, whose source is `none`, and those that name one.
pub fn short() -> Vec<OnTopic> {
    include_str!("../data/short_queries.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub fn off_topic() -> Vec<&'static str> {
    include_str!("../data/off_topic_queries.txt").lines().filter(|line| !line.starts_with("# ")).collect()
}

/// Real runs and tasks, where they are present: `FOLKLORE_SHARED_DATA`, else beside the workspace.
pub fn shared_data(test: &str) -> Option<PathBuf> {
    let path = std::env::var_os("FOLKLORE_SHARED_DATA")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"), PathBuf::from);
    if path.join("tau-bench").is_dir() {
        return Some(path);
    }
    println!("{test}: skipped, {} is not there", path.display());
    None
}

pub fn ranker(docs: &[Doc]) -> Ranker {
    let mut ranker = Ranker::new(Arc::new(BuiltinEmbedder::new()), Gate::BUILTIN);
    for (slot, doc) in (0..).zip(docs) {
        ranker.add(slot, &doc.task, &doc.text).unwrap();
    }
    ranker
}

/// The best lesson for `query`, if the gate passes one.
pub fn answer<'d>(ranker: &Ranker, docs: &'d [Doc], query: &str) -> Option<&'d Doc> {
    let ranked = ranker.rank(query, &RankOptions::default());
    let doc = ranked.hits.first().and_then(|hit| docs.get(hit.slot()? as usize));
    assert_eq!(ranked.reason, doc.is_none().then_some(EmptyReason::BelowThreshold), "{query}");
    doc
}

/// FNV-1a of the query: a fixed split that no one chose.
pub fn held_out(query: &str) -> bool {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    (query.bytes().fold(0xcbf2_9ce4_8422_2325, step) >> 32) & 1 == 1
}

#[derive(Clone, Copy, Default)]
pub struct Rate {
    yes: usize,
    of: usize,
}

impl Rate {
    pub fn add(&mut self, yes: bool) {
        self.yes += usize::from(yes);
        self.of += 1;
    }
    pub fn at_least(self, percent: usize) -> bool {
        self.of > 0 && self.yes * 100 >= percent * self.of
    }
    pub fn at_most(self, percent: usize) -> bool {
        self.of > 0 && self.yes * 100 <= percent * self.of
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} ({:.1} %)", self.yes, self.of, 100.0 * self.yes as f64 / self.of.max(1) as f64)
    }
}

#[derive(Clone, Copy, Default)]
pub struct Rates {
    pub on_answered: Rate,
    pub on_right: Rate,
    pub off_answered: Rate,
    /// Short queries that name no topic.
    pub vague_answered: Rate,
    /// Short queries that name one.
    pub terse_answered: Rate,
}

/// The halves, by their place in what [`rates`] gives.
pub const HALVES: [&str; 3] = ["fitted", "held out", "all"];

/// Rates on the fitted half, the held-out half, and all. On-topic queries about sources that `docs` lack are left out.
pub fn rates(name: &str, docs: &[Doc]) -> [Rates; 3] {
    let ranker = ranker(docs);
    let sources: BTreeSet<&str> = docs.iter().map(|doc| doc.source).collect();
    let mut rates = [Rates::default(); 3];
    for on in on_topic().iter().filter(|on| sources.contains(on.source.as_str())) {
        let best = answer(&ranker, docs, &on.query);
        let right = best.is_some_and(|doc| doc.source == on.source && on.task_ids.contains(&doc.id));
        for half in [usize::from(held_out(&on.query)), 2] {
            rates[half].on_answered.add(best.is_some());
            rates[half].on_right.add(right);
        }
        if best.is_none() && !held_out(&on.query) {
            println!("{name}: no answer to {:?}", on.query);
        }
    }
    for query in off_topic() {
        let best = answer(&ranker, docs, query);
        for half in [usize::from(held_out(query)), 2] {
            rates[half].off_answered.add(best.is_some());
        }
        // Of the held-out half only the rates are shown, so that nobody tunes to its queries.
        if let Some(doc) = best.filter(|_| !held_out(query)) {
            println!("{name}: {query:?} answered by {}/{}", doc.source, doc.id);
        }
    }
    for short in short() {
        let vague = short.source == "none";
        if !vague && !sources.contains(short.source.as_str()) {
            continue;
        }
        let best = answer(&ranker, docs, &short.query);
        for half in [usize::from(held_out(&short.query)), 2] {
            let rates = &mut rates[half];
            let rate = if vague { &mut rates.vague_answered } else { &mut rates.terse_answered };
            rate.add(best.is_some());
        }
        if best.is_some() == vague && !held_out(&short.query) {
            println!("{name}: {:?} answered by {:?}", short.query, best.map(|doc| &doc.id));
        }
    }
    for (half, rates) in HALVES.iter().zip(&rates) {
        println!(
            "{name}, {half}: on-topic answered {}, by the right task {}; off-topic answered {}; of few words: with a topic \
             answered {}, without {}",
            rates.on_answered, rates.on_right, rates.off_answered, rates.terse_answered, rates.vague_answered
        );
    }
    rates
}
