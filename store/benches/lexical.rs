//! What the lexical index costs: building, memory, adding one more, and queries, at 10^5 and 10^6 lessons.
//!
//! `cargo bench -p folklore-store --bench lexical [-- LESSONS...]`
//!
//! A lesson is a task and eight sentences drawn by a fixed generator from the labelled sets' texts (the shared data where it
//! is there, else the set that comes along), with two names that only it has, so that the vocabulary grows as that of a
//! real bank does. Queries are the sets' own. Beside each query's time stands that of reading the postings of all its terms
//! to the end, in the same run: what stopping early saves. Times are CPU time of the one thread, so that a busy machine does
//! not change them; memory is what the process grew by (RssAnon).
#![allow(missing_docs, reason = "a benchmark")]

use std::path::PathBuf;
use std::time::Duration;

use folklore_store::eval::{self, Set};
use folklore_store::index::lexical::{LexicalIndex, LexicalQuery};

const QUERIES: usize = 500;
/// Candidates, as recall asks for.
const POOL: usize = 128;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound
    }
}

fn sets() -> Vec<Set> {
    let dir = std::env::var_os("FOLKLORE_SHARED_DATA")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"), PathBuf::from);
    let mut sets = vec![eval::own()];
    for name in eval::all_shared() {
        match eval::shared(name, &dir) {
            Some(Ok(set)) => sets.push(set),
            Some(Err(error)) => println!("without {name}: {error}"),
            None => {}
        }
    }
    sets
}

/// CPU time of this thread so far.
fn now() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}

fn rss_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("RssAnon:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

fn quantile(times: &mut [Duration], share: f64) -> Duration {
    times.sort_unstable();
    times[((times.len() - 1) as f64 * share) as usize]
}

fn main() {
    let asked: Vec<usize> = std::env::args().filter_map(|arg| arg.parse().ok()).collect();
    let sizes = if asked.is_empty() { vec![100_000, 1_000_000] } else { asked };
    let sets = sets();
    let docs = sets.iter().flat_map(|set| &set.docs);
    let sentences: Vec<&str> =
        docs.flat_map(|doc| [doc.task.as_str(), doc.text.as_str()]).flat_map(str::lines).collect();
    let sentences: Vec<&str> = sentences.into_iter().filter(|sentence| sentence.len() > 20).collect();
    let queries: Vec<&str> = sets.iter().flat_map(|set| &set.queries).map(|query| query.text.as_str()).collect();
    println!("{} sentences, {} queries", sentences.len(), queries.len());
    for lessons in sizes {
        let mut random = Random(7);
        let mut lesson = |slot: u32| {
            let mut text = String::new();
            for _ in 0..8 {
                text.push_str(sentences[random.below(sentences.len())]);
                text.push('\n');
            }
            text.push_str(&format!("order_{} of module {}", random.below(1 << 30), slot));
            (sentences[random.below(sentences.len())], text)
        };
        let before = rss_kib();
        let mut index = LexicalIndex::new();
        let mut building = Duration::ZERO;
        let mut bytes = 0;
        for slot in 0..lessons as u32 {
            let (task, text) = lesson(slot);
            bytes += task.len() + text.len();
            let start = now();
            index.add(slot, &[task, &text]);
            building += now() - start;
        }
        let grown = rss_kib().saturating_sub(before);
        println!(
            "{lessons} lessons of {} bytes: built in {:.2} s ({:.0}/s, {:.1} MB/s), {:.0} bytes a lesson packed, {:.0} MiB grown",
            bytes / lessons,
            building.as_secs_f64(),
            lessons as f64 / building.as_secs_f64(),
            bytes as f64 / 1e6 / building.as_secs_f64(),
            index.packed_bytes() as f64 / lessons as f64,
            grown as f64 / 1024.0,
        );
        let (mut early, mut whole) = (Vec::new(), Vec::new());
        for at in 0..QUERIES {
            let text = queries[at * 7919 % queries.len()];
            let start = now();
            let query = LexicalQuery::new(text);
            let weighed = index.weigh(&query, &[]);
            let found = index.search(&weighed, POOL, &|_| true);
            early.push(now() - start);
            let start = now();
            // With a pool of everything no bar is ever reached.
            let all = index.search(&weighed, lessons, &|_| true);
            whole.push(now() - start);
            assert!(all.starts_with(&found), "{text}");
        }
        println!(
            "  query, best {POOL}: p50 {:.2?}, p99 {:.2?}; every posting read and all sorted: p50 {:.2?}, p99 {:.2?}",
            quantile(&mut early, 0.5),
            quantile(&mut early, 0.99),
            quantile(&mut whole, 0.5),
            quantile(&mut whole, 0.99)
        );
        let mut adding: Vec<Duration> = Vec::new();
        let mut removing: Vec<Duration> = Vec::new();
        for slot in 0..QUERIES as u32 {
            let (task, text) = lesson(slot);
            let start = now();
            index.remove(slot);
            removing.push(now() - start);
            let start = now();
            index.add(slot, &[task, &text]);
            adding.push(now() - start);
        }
        println!(
            "  one more: p50 {:.2?}, p99 {:.2?}; one less: p50 {:.2?}",
            quantile(&mut adding, 0.5),
            quantile(&mut adding, 0.99),
            quantile(&mut removing, 0.5)
        );
    }
}
