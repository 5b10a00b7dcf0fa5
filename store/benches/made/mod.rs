//! Lessons and queries for benchmarks of recall, the same at every run.
//!
//! A lesson is a task, a title and seven sentences drawn by a fixed generator from the labelled sets' texts (the shared data
//! where it is there, else the set that comes along), with two names that only it has, so that the vocabulary grows as that
//! of a real bank does. Queries are the sets' own.
#![allow(dead_code, reason = "each benchmark uses a part")]

use std::path::PathBuf;
use std::time::Duration;

use folklore_protocol::{Lesson, LessonDraft, LessonKind};
use folklore_store::eval::{self, Set};

/// Numbers that look random.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound
    }
}

/// Makes lessons.
pub struct Made {
    sentences: Vec<String>,
    queries: Vec<String>,
    random: Random,
}

impl Made {
    pub fn new() -> Self {
        let sets = sets();
        let docs = sets.iter().flat_map(|set| &set.docs);
        let lines = docs.flat_map(|doc| [doc.task.as_str(), doc.text.as_str()]).flat_map(str::lines);
        let sentences = lines.filter(|s| (20..180).contains(&s.len())).map(str::to_owned).collect();
        let queries = sets.iter().flat_map(|set| &set.queries).map(|query| query.text.clone()).collect();
        Self { sentences, queries, random: Random(7) }
    }

    /// The sets' queries.
    pub fn queries(&self) -> &[String] {
        &self.queries
    }

    /// The query for the n-th question, in an order in which neighbours are of different sets.
    pub fn query(&self, n: usize) -> &str {
        &self.queries[n * 7919 % self.queries.len()]
    }

    /// The next lesson, its number `n`. One in a hundred is of the domain `rare`.
    pub fn lesson(&mut self, n: usize) -> Lesson {
        let Self { sentences, random, .. } = self;
        let mut sentence = || sentences[random.below(sentences.len())].clone();
        let (task, title) = (sentence(), sentence());
        let mut content = (0..7).map(|_| sentence()).collect::<Vec<_>>().join("\n");
        content.push_str(&format!("\norder_{} of module {n}", random.below(1 << 30)));
        let draft = LessonDraft {
            kind: LessonKind::Pitfall,
            title,
            applies_when: String::new(),
            not_when: String::new(),
            content,
            task,
            domain: if n % 100 == 3 { "rare".into() } else { String::new() },
            tags: Vec::new(),
        };
        Lesson::new(draft).expect("within limits")
    }
}

fn sets() -> Vec<Set> {
    let dir = std::env::var_os("FOLKLORE_SHARED_DATA")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"), PathBuf::from);
    let shared = eval::all_shared().into_iter().filter_map(|name| match eval::shared(name, &dir)? {
        Ok(set) => Some(set),
        Err(error) => {
            println!("without {name}: {error}");
            None
        }
    });
    std::iter::once(eval::own()).chain(shared).collect()
}

/// The time that a share of the times is below.
pub fn quantile(times: &mut [Duration], share: f64) -> Duration {
    times.sort_unstable();
    times[((times.len() - 1) as f64 * share) as usize]
}

/// Memory of a process that no file backs, KiB. `self` is this one.
pub fn rss_anon_kib(process: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("RssAnon:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}
