//! What the lexical index costs: building, memory, adding one more, and queries, at 10^5 and 10^6 lessons.
//!
//! `cargo bench -p folklore-store --bench lexical [-- LESSONS...]`
//!
//! Beside each query's time stands that of reading the postings of all its terms to the end, in the same run: what stopping
//! early saves; and that of a query under a filter that keeps one in a hundred. Times are CPU time of the one thread, so that a
//! busy machine does not change them; memory is what the process grew by (RssAnon).
#![allow(missing_docs, reason = "a benchmark")]

mod made;

use std::time::Duration;

use folklore_store::index::{
    SlotSet,
    lexical::{LexicalIndex, LexicalQuery},
};
use folklore_tests::figures::{Figure, Report};
use made::{Made, quantile, rss_anon_kib};

const QUERIES: usize = 500;
/// Candidates, as recall asks for.
const POOL: usize = 128;

/// CPU time of this thread so far.
fn now() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}

fn main() {
    let asked: Vec<usize> = std::env::args().filter_map(|arg| arg.parse().ok()).collect();
    let sizes = if asked.is_empty() { vec![100_000, 1_000_000] } else { asked };
    let mut report = Report::new("lexical");
    for lessons in sizes {
        let mut made = Made::new();
        let before = rss_anon_kib("self");
        let mut index = LexicalIndex::new();
        let mut building = Duration::ZERO;
        let mut bytes = 0;
        for slot in 0..lessons as u32 {
            let lesson = made.lesson(slot as usize);
            let text = lesson.text();
            bytes += lesson.task.len() + text.len();
            let start = now();
            index.add(slot, &[&lesson.task, &text]);
            building += now() - start;
        }
        let grown = rss_anon_kib("self").saturating_sub(before);
        println!(
            "{lessons} lessons of {} bytes: built in {:.2} s ({:.0}/s, {:.1} MB/s), {:.0} bytes a lesson packed, {:.0} MiB grown",
            bytes / lessons,
            building.as_secs_f64(),
            lessons as f64 / building.as_secs_f64(),
            bytes as f64 / 1e6 / building.as_secs_f64(),
            index.packed_bytes() as f64 / lessons as f64,
            grown as f64 / 1024.0,
        );
        let one_in_hundred: SlotSet = (0..lessons as u32).filter(|slot| slot % 100 == 3).collect();
        let (mut early, mut whole, mut filtered) = (Vec::new(), Vec::new(), Vec::new());
        for at in 0..QUERIES {
            let text = made.query(at);
            let start = now();
            let query = LexicalQuery::new(text);
            let weighed = index.weigh(&query, &[]);
            let found = index.search(&weighed, POOL, None);
            early.push(now() - start);
            let start = now();
            // With a pool of everything no bar is ever reached.
            let all = index.search(&weighed, lessons, None);
            whole.push(now() - start);
            assert!(all.starts_with(&found), "{text}");
            let start = now();
            let few = index.search(&weighed, POOL, Some(&one_in_hundred));
            filtered.push(now() - start);
            let expected = all.iter().filter(|(slot, _)| one_in_hundred.contains(*slot)).take(POOL);
            assert!(few.iter().eq(expected), "{text}");
        }
        println!(
            "  query, best {POOL}: p50 {:.2?}, p99 {:.2?}; every posting read and all sorted: p50 {:.2?}, p99 {:.2?}",
            quantile(&mut early, 0.5),
            quantile(&mut early, 0.99),
            quantile(&mut whole, 0.5),
            quantile(&mut whole, 0.99)
        );
        let ms = |times: &mut Vec<Duration>| quantile(times, 0.5).as_secs_f64() * 1e3;
        let setting = format!("{lessons} lessons, CPU of one thread, p50");
        let figure = Figure::new(format!("words: the best {POOL}"), ms(&mut early), "ms").on(&setting);
        report.add(figure.beside("every posting read and all sorted", ms(&mut whole)));
        let figure = Figure::new("words: among 1 %", ms(&mut filtered), "ms").on(setting);
        report.add(figure.beside("unfiltered", ms(&mut early)).ratio_at_most(1.0));
        println!(
            "  query among 1 %: p50 {:.2?}, p99 {:.2?}",
            quantile(&mut filtered, 0.5),
            quantile(&mut filtered, 0.99)
        );
        let mut adding: Vec<Duration> = Vec::new();
        let mut removing: Vec<Duration> = Vec::new();
        for slot in 0..QUERIES as u32 {
            let lesson = made.lesson(lessons + slot as usize);
            let text = lesson.text();
            let start = now();
            index.remove(slot);
            removing.push(now() - start);
            let start = now();
            index.add(slot, &[&lesson.task, &text]);
            adding.push(now() - start);
        }
        println!(
            "  one more: p50 {:.2?}, p99 {:.2?}; one less: p50 {:.2?}",
            quantile(&mut adding, 0.5),
            quantile(&mut adding, 0.99),
            quantile(&mut removing, 0.5)
        );
    }
    report.finish().expect("the figures are written");
}
