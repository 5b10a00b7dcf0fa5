//! Recall end to end: an HTTP client against a real `folklore up` that holds 100,000 lessons.
//!
//! `cargo bench -p folklore-node --bench recall [-- LESSONS]`
//!
//! The lessons are made of the labelled sets' sentences by a fixed generator (the shared data where it is there, else the set
//! that comes along), taught by the home's own key and written to its store; then the daemon is started as a process. One
//! client asks the sets' queries over one kept connection, one after the other. Timed is what the client waits: request,
//! embedding, both sides of the index, ranking, reading the body, answer. Beside it stands what the daemon's
//! `GET /healthz` takes on the same connection, the share of sockets and HTTP.
#![allow(missing_docs, reason = "a benchmark")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use folklore_node::home::Home;
use folklore_protocol::{Claim, Evidence, Lesson, LessonDraft, LessonKind};
use folklore_store::bank::{Batch, OpenOptions, Store};
use folklore_store::eval::{self, Set};

const QUERIES: usize = 2_000;
const WARM: usize = 100;
const GROUP: usize = 1_000;

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
    let shared = eval::all_shared().into_iter().filter_map(|name| match eval::shared(name, &dir)? {
        Ok(set) => Some(set),
        Err(error) => {
            println!("without {name}: {error}");
            None
        }
    });
    std::iter::once(eval::own()).chain(shared).collect()
}

fn fill(home: &Home, sets: &[Set], lessons: usize) {
    let key = home.keypair().unwrap();
    let bank = home.bank().unwrap();
    let store = Store::open(&home.store_dir(), OpenOptions { entropy: 1, ..OpenOptions::default() }).unwrap().store;
    store.add_bank(bank.clone()).unwrap();
    let docs = sets.iter().flat_map(|set| &set.docs);
    let sentences: Vec<&str> =
        docs.flat_map(|doc| [doc.task.as_str(), doc.text.as_str()]).flat_map(str::lines).collect();
    let sentences: Vec<&str> = sentences.into_iter().filter(|s| (20..180).contains(&s.len())).collect();
    let mut random = Random(7);
    for first in (0..lessons).step_by(GROUP) {
        let mut claims = Vec::new();
        for number in first..lessons.min(first + GROUP) {
            let mut sentence = || sentences[random.below(sentences.len())];
            let task = sentence().to_owned();
            let title = sentence().to_owned();
            let mut content = (0..7).map(|_| sentence()).collect::<Vec<_>>().join("\n");
            content.push_str(&format!("\nmodule {number}"));
            let draft = LessonDraft {
                kind: LessonKind::Pitfall,
                title,
                applies_when: String::new(),
                not_when: String::new(),
                content,
                task,
                domain: String::new(),
                tags: Vec::new(),
            };
            let lesson = Lesson::new(draft).unwrap();
            let claim = Claim::Taught { lesson_id: lesson.id(), evidence: Evidence::told("bench") };
            claims.push((claim, Some(lesson)));
        }
        store.write(bank.id, &key, 0, Batch { claims, runs: Vec::new(), skip_if_taught: false }).unwrap();
    }
}

/// The daemon, ended with the benchmark.
struct Daemon(Child);

impl Daemon {
    fn start(data: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_folklore"))
            .args(["up", "--json", "--data"])
            .arg(data)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("http"), "the daemon said: {line}");
        Daemon(child)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn quantile(times: &mut [Duration], share: f64) -> Duration {
    times.sort_unstable();
    times[((times.len() - 1) as f64 * share) as usize]
}

fn rss_kib(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("RssAnon:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let lessons = std::env::args().find_map(|arg| arg.parse().ok()).unwrap_or(100_000);
    let sets = sets();
    let queries: Vec<&str> = sets.iter().flat_map(|set| &set.queries).map(|query| query.text.as_str()).collect();
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("home");
    let (home, _) = Home::create(&data, "home").unwrap();
    fill(&home, &sets, lessons);
    let start = Instant::now();
    let daemon = Daemon::start(&data);
    println!("{lessons} lessons, {} queries; up after {:.2?}", queries.len(), start.elapsed());
    println!("RssAnon {} MiB", rss_kib(daemon.0.id()) / 1024);
    let notice = home.daemon().unwrap().unwrap();
    let client = reqwest::Client::new();
    let base = format!("http://{}", notice.http);
    let (mut recall, mut bare) = (Vec::new(), Vec::new());
    let mut answered = 0;
    for at in 0..QUERIES + WARM {
        let task = queries[at * 7919 % queries.len()];
        let start = Instant::now();
        let request = client.post(format!("{base}/v1/recall")).bearer_auth(&notice.token);
        let response = request.json(&serde_json::json!({"task": task})).send().await.unwrap();
        assert!(response.status().is_success(), "{}", response.status());
        let body = response.bytes().await.unwrap();
        let took = start.elapsed();
        let start = Instant::now();
        client.get(format!("{base}/healthz")).send().await.unwrap().bytes().await.unwrap();
        if at >= WARM {
            recall.push(took);
            bare.push(start.elapsed());
            let answer: serde_json::Value = serde_json::from_slice(&body).unwrap();
            answered += usize::from(answer["hits"].as_array().is_some_and(|hits| !hits.is_empty()));
        }
    }
    println!("{answered} of {QUERIES} queries answered");
    for (what, times) in [("recall over HTTP", &mut recall), ("healthz over HTTP", &mut bare)] {
        println!(
            "{what}: p50 {:.2?}, p90 {:.2?}, p99 {:.2?}, longest {:.2?}",
            quantile(times, 0.5),
            quantile(times, 0.9),
            quantile(times, 0.99),
            quantile(times, 1.0)
        );
    }
}
