//! Figures, not checks: `cargo test -p folklore-store --test bank -- --ignored --nocapture rate`.

use std::time::Instant;

use folklore_protocol::record::Record;
use folklore_store::bank::{Admission, Incoming};

use crate::common::{home, key, open_clean, sized_lesson, taught, teach};

/// Content bytes that make a body of about 600 bytes.
const CONTENT_BYTES: usize = 550;

#[test]
#[ignore = "prints figures"]
fn rate_of_durable_groups() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_clean(dir.path());
    let bank = home().id;
    let rounds: u32 = std::env::var("FOLKLORE_RATE_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    let incoming = |from: u32, count: u32| -> Vec<Incoming> {
        (from..from + count)
            .map(|n| {
                let body = sized_lesson(n, CONTENT_BYTES);
                let record = Record::sign(&key(2), bank, u64::from(n) + 1, 1, taught(&body).0).unwrap();
                Incoming { record, body: Some(body) }
            })
            .collect()
    };
    let body_bytes = sized_lesson(1, CONTENT_BYTES).bytes().len();
    let mut spent = 0.0;
    for round in 0..rounds {
        let group = incoming(round * 1000, 1000);
        let start = Instant::now();
        let answers = store.admit(bank, group).unwrap();
        spent += start.elapsed().as_secs_f64();
        assert!(answers.iter().all(|a| *a == Admission::Stored));
        if (round + 1) % 20 == 0 {
            println!(
                "admit, groups of 1,000: {:.0} records/s ({body_bytes}-byte bodies) up to {}",
                f64::from(20_000) / spent,
                (round + 1) * 1000
            );
            spent = 0.0;
        }
    }
    let size: u64 = std::fs::metadata(dir.path().join("bank/db")).unwrap().len();
    println!("file: {} MB", size / 1_000_000);

    let start = Instant::now();
    for n in 0..10 {
        store.write(bank, &key(1), 1, teach(10_000_000 + n * 1000..10_000_000 + (n + 1) * 1000)).unwrap();
    }
    println!("write (signing), groups of 1,000: {:.0} records/s", 10_000.0 / start.elapsed().as_secs_f64());

    let groups: Vec<_> = (0..2000).map(|n| incoming(20_000_000 + n, 1)).collect();
    let start = Instant::now();
    for group in groups {
        store.admit(bank, group).unwrap();
    }
    println!("admit, groups of one: {:.0}/s", 2000.0 / start.elapsed().as_secs_f64());

    let start = Instant::now();
    drop(store);
    println!("close: {:.2} s", start.elapsed().as_secs_f64());
    let start = Instant::now();
    let store = open_clean(dir.path());
    println!("reopen: {:.2} s for {} records", start.elapsed().as_secs_f64(), store.counts().records);
    let start = Instant::now();
    store.for_each_record(&bank, |_| ()).unwrap();
    println!("read all records: {:.2} s", start.elapsed().as_secs_f64());
    let start = Instant::now();
    store.for_each_lesson(|_| ()).unwrap();
    println!("read all lessons: {:.2} s", start.elapsed().as_secs_f64());
    drop(store);
    bare_sled(rounds, body_bytes);
}

/// The same bytes into sled alone: ascending keys, one flush a group, and a sync.
fn bare_sled(rounds: u32, body_bytes: usize) {
    for segment in [512 * 1024, 8 * 1024 * 1024] {
        let dir = tempfile::tempdir().unwrap();
        let db = sled::Config::new()
            .path(dir.path())
            .cache_capacity(32 * 1024 * 1024)
            .flush_every_ms(None)
            .segment_size(segment)
            .open()
            .unwrap();
        let file = std::fs::File::open(dir.path().join("db")).unwrap();
        let start = Instant::now();
        for round in 0..rounds {
            let mut batch = sled::Batch::default();
            for n in 0..1000u64 {
                let arrival = u64::from(round) * 1000 + n;
                for (tree, len) in [(b'l', body_bytes), (b'r', 210)] {
                    let key = [&[tree], &arrival.to_be_bytes()[..]].concat();
                    batch.insert(key, vec![arrival as u8; len]);
                }
            }
            db.apply_batch(batch).unwrap();
            db.flush().unwrap();
            file.sync_data().unwrap();
        }
        let rate = f64::from(rounds) * 1000.0 / start.elapsed().as_secs_f64();
        println!("bare sled, segments of {} KiB, body + record each: {rate:.0} records/s", segment / 1024);
    }
}
