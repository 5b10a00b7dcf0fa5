//! Recall end to end: an HTTP client against a real `folklore up` that holds 100,000 lessons.
//!
//! `cargo bench -p folklore-node --bench recall [-- LESSONS]`
//!
//! The lessons (`store/benches/made`) are taught by the home's own key and written to its store; then the daemon is started as a
//! process. One client asks the sets' queries over one kept connection, one after the other. Timed is what the client waits: request,
//! embedding, both sides of the index, ranking, reading the body, answer. Beside it stands the same query under a filter by domain
//! that keeps one lesson in a hundred, and what the daemon's `GET /healthz` takes on the same connection, the share of
//! sockets and HTTP.
#![allow(missing_docs, reason = "a benchmark")]

#[path = "../../store/benches/made/mod.rs"]
mod made;

mod daemon;

use std::time::Instant;

use daemon::Daemon;
use folklore_node::home::Home;
use folklore_protocol::{Claim, Evidence};
use folklore_store::bank::{Batch, OpenOptions, Store};
use folklore_tests::figures::{Figure, Report};
use made::{Made, quantile, rss_anon_kib};

const QUERIES: usize = 2_000;
const WARM: usize = 100;
const GROUP: usize = 1_000;

fn fill(home: &Home, made: &mut Made, lessons: usize) {
    let key = home.keypair().unwrap();
    let bank = home.bank().unwrap();
    let store = Store::open(&home.store_dir(), OpenOptions { entropy: 1, ..OpenOptions::default() }).unwrap().store;
    store.add_bank(bank.clone()).unwrap();
    for first in (0..lessons).step_by(GROUP) {
        let taught = (first..lessons.min(first + GROUP)).map(|number| {
            let lesson = made.lesson(number);
            (Claim::Taught { lesson_id: lesson.id(), evidence: Evidence::told("bench") }, Some(lesson))
        });
        let batch = Batch { claims: taught.collect(), runs: Vec::new(), skip_if_taught: false };
        store.write(bank.id, &key, 0, batch).unwrap();
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let lessons = std::env::args().find_map(|arg| arg.parse().ok()).unwrap_or(100_000);
    let mut made = Made::new();
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("home");
    let (home, _) = Home::create(&data, "home").unwrap();
    fill(&home, &mut made, lessons);
    let start = Instant::now();
    let daemon = Daemon::start(&data);
    println!("{lessons} lessons, {} queries; up after {:.2?}", made.queries().len(), start.elapsed());
    println!("RssAnon {} MiB", rss_anon_kib(&daemon.0.id().to_string()) / 1024);
    let notice = home.daemon().unwrap().unwrap();
    let client = reqwest::Client::new();
    let base = format!("http://{}", notice.http);
    let (mut recall, mut filtered, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    let mut answered = 0;
    for at in 0..QUERIES + WARM {
        let task = made.query(at);
        let mut took = Vec::new();
        let mut answers = Vec::new();
        for body in [serde_json::json!({"task": task}), serde_json::json!({"task": task, "domain": "rare"})] {
            let start = Instant::now();
            let request = client.post(format!("{base}/v1/recall")).bearer_auth(&notice.token);
            let response = request.json(&body).send().await.unwrap();
            assert!(response.status().is_success(), "{}", response.status());
            answers.push(response.bytes().await.unwrap());
            took.push(start.elapsed());
        }
        let start = Instant::now();
        client.get(format!("{base}/healthz")).send().await.unwrap().bytes().await.unwrap();
        if at >= WARM {
            recall.push(took[0]);
            filtered.push(took[1]);
            bare.push(start.elapsed());
            let answer: serde_json::Value = serde_json::from_slice(&answers[0]).unwrap();
            answered += usize::from(answer["hits"].as_array().is_some_and(|hits| !hits.is_empty()));
        }
    }
    println!("{answered} of {QUERIES} queries answered");
    for (what, times) in [
        ("recall over HTTP", &mut recall),
        ("recall over HTTP among 1 %", &mut filtered),
        ("healthz over HTTP", &mut bare),
    ] {
        println!(
            "{what}: p50 {:.2?}, p90 {:.2?}, p99 {:.2?}, longest {:.2?}",
            quantile(times, 0.5),
            quantile(times, 0.9),
            quantile(times, 0.99),
            quantile(times, 1.0)
        );
    }
    let mut report = Report::new("recall");
    let setting = format!("{lessons} lessons, {QUERIES} queries, one client");
    for (q, name, target_ms) in [(0.5, "p50", 5.0), (0.99, "p99", 20.0)] {
        let ms = |times: &mut Vec<_>| quantile(times, q).as_secs_f64() * 1e3;
        let (all, few, door) = (ms(&mut recall), ms(&mut filtered), ms(&mut bare));
        let figure = Figure::new(format!("recall over HTTP, {name}"), all, "ms").on(&setting).at_most(target_ms);
        report.add(figure.beside("GET /healthz", door));
        let figure = Figure::new(format!("recall over HTTP among 1 %, {name}"), few, "ms").on(&setting);
        report.add(figure.beside("unfiltered", all));
    }
    report.finish().expect("the figures are written");
}
