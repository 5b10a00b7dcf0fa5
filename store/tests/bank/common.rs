//! Small makers of lessons, claims and runs.

use std::path::Path;

use folklore_protocol::{
    claim::{Claim, Evidence, Outcome},
    lesson::Lesson,
};
use folklore_store::{
    bank::{Batch, OpenOptions, OpenReport, Store},
    run::Step,
    runs::{
        RunRow,
        log::{NewRun, RunId},
    },
};

pub use crate::made::{home, key, sized_lesson};

pub fn lesson(n: u32) -> Lesson {
    sized_lesson(n, 300)
}

pub fn taught(lesson: &Lesson) -> (Claim, Option<Lesson>) {
    (Claim::Taught { lesson_id: lesson.id(), evidence: Evidence::told("test") }, Some(lesson.clone()))
}

/// A group that teaches the lessons of these numbers.
pub fn teach(numbers: impl IntoIterator<Item = u32>) -> Batch {
    Batch { claims: numbers.into_iter().map(|n| taught(&lesson(n))).collect(), ..Batch::default() }
}

pub fn run(n: u32, outcome: Outcome, bytes: usize) -> RunRow {
    let seed = *blake3::hash(&n.to_le_bytes()).as_bytes();
    RunRow {
        digest: seed,
        task_key: format!("task {}", n % 3),
        outcome,
        bytes: seed.iter().copied().cycle().take(bytes).collect(),
    }
}

pub fn open(dir: &Path) -> (Store, OpenReport) {
    let opened = Store::open(dir, OpenOptions { entropy: 0x1234_5678_9abc, ..OpenOptions::default() }).expect("opens");
    (opened.store, opened.report)
}

/// Opens a bank that must be in good order, with the home bank in it.
pub fn open_clean(dir: &Path) -> Store {
    let (store, report) = open(dir);
    assert!(report.is_clean(), "{:#?}", report);
    store.add_bank(home()).expect("writes");
    store
}

/// Set, the tests try as many crashes, kills and damages as the bank is said to stand.
pub const ALL: &str = "FOLKLORE_ALL_CRASHES";

/// How many of something are tried: `some` ordinarily.
pub fn how_many(some: u32, all: u32) -> u32 {
    if std::env::var_os(ALL).is_some() { all } else { some }
}

/// A run of the home bank that is to begin, its id made of its name.
pub fn new_run(name: &str) -> NewRun {
    let mut id = [0; 16];
    id.copy_from_slice(&blake3::hash(name.as_bytes()).as_bytes()[..16]);
    NewRun {
        id: RunId(id),
        name: name.to_owned(),
        bank: home().id,
        shared: false,
        task_key: "shop/7".into(),
        task: "Refund an order".into(),
        domain: "shop".into(),
        agent: "clerk".into(),
        tags: Vec::new(),
    }
}

pub fn action(n: u32) -> Step {
    long_action(n, 0)
}

/// A step whose observation has so many bytes.
pub fn long_action(n: u32, bytes: usize) -> Step {
    let seed = blake3::hash(&n.to_le_bytes()).to_hex();
    Step {
        think: format!("thought {n}"),
        action: format!("act {n}"),
        observation: seed.as_str().chars().cycle().take(bytes).collect(),
    }
}
