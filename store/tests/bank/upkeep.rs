//! A bank that lives long: its files stay within a bound, and a rewrite of them is not noticed.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use folklore_protocol::claim::{Claim, Outcome};
use folklore_store::bank::{Batch, OpenOptions, Store};

use crate::common::{home, key, lesson, open, open_clean, run, teach};

const MB: u64 = 1_000_000;

fn bytes_under(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|e| if e.path().is_dir() { bytes_under(&e.path()) } else { e.metadata().map_or(0, |m| m.len()) }).sum()
}

fn withdraw(n: u32) -> Batch {
    let claim = Claim::Withdrawn { lesson_id: lesson(n).id(), reason: String::new() };
    Batch { claims: vec![(claim, None)], ..Batch::default() }
}

#[test]
fn overwriting_labelling_and_withdrawing_for_long_does_not_grow_the_directory_without_bound() {
    let dir = tempfile::tempdir().unwrap();
    let options = OpenOptions { rewrite_above_bytes: 40 * MB, ..OpenOptions::default() };
    let store = Store::open(dir.path(), options).unwrap().store;
    store.add_bank(home()).unwrap();
    let (bank, me) = (home().id, key(1));
    let mut written = 0;
    let mut most = 0;
    for n in 0..1200u32 {
        let value = vec![n as u8; 60_000];
        store.set_setting(["book", "other"][n as usize % 2], &value).unwrap();
        written += value.len() as u64;
        if n % 20 == 0 {
            store.write(bank, &me, 1, teach([n])).unwrap();
            let rows = vec![run(n, Outcome::Unknown, 90_000), run(n, Outcome::Failure, 10)];
            store.write(bank, &me, 1, Batch { runs: rows, ..withdraw(n) }).unwrap();
            most = most.max(bytes_under(dir.path()));
        }
    }
    // The keeper needs a moment; the bound is three times what is held and what is not worth a rewrite.
    let until = Instant::now() + Duration::from_secs(60);
    let bound = 40 * MB + 20 * MB;
    while store.upkeep().rewrites == 0 || bytes_under(dir.path()) > bound {
        assert!(Instant::now() < until, "{} bytes, {:?}", bytes_under(dir.path()), store.upkeep());
        thread::sleep(Duration::from_millis(200));
    }
    let upkeep = store.upkeep();
    println!("{written} bytes written over, at most {most} on disk, {} now: {upkeep:?}", bytes_under(dir.path()));
    assert!(upkeep.live_bytes < 2 * MB, "{upkeep:?}");
    assert!(store.verify(|_| ()).unwrap().ok());
    drop(store);
    let store = open_clean(dir.path());
    assert_eq!(store.setting("book"), Some(vec![(1198 % 256) as u8; 60_000]));
    assert_eq!((store.counts().lessons, store.counts().records, store.run_count()), (60, 120, 60));
    assert_eq!(store.run(&run(20, Outcome::Failure, 10).digest).unwrap(), Some(run(20, Outcome::Failure, 10)));
}

#[test]
fn readers_and_writers_go_on_through_a_rewrite_and_the_next_opening_is_an_ordinary_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_clean(dir.path());
    let (bank, me) = (home().id, key(1));
    // Many small packs, which the rewrite puts together.
    for n in 0..200 {
        store.write(bank, &me, 1, teach([n])).unwrap();
    }
    let (done, next, reads) = (AtomicBool::new(false), AtomicU32::new(200), AtomicU32::new(0));
    thread::scope(|scope| {
        for writer in 0..3 {
            let (store, done, next) = (store.clone(), &done, &next);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    store.write(home().id, &key(1), 1, teach([n])).unwrap();
                    store.set_setting(&format!("of writer {writer}"), &n.to_le_bytes()).unwrap();
                }
            });
        }
        for _ in 0..2 {
            let (store, done, reads) = (store.clone(), &done, &reads);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let n = reads.fetch_add(1, Ordering::Relaxed) % 200;
                    assert_eq!(store.lesson(&lesson(n).id()).unwrap(), Some(lesson(n)), "{n}");
                    if n == 0 {
                        store.for_each_record(&home().id, |_| ()).unwrap();
                    }
                }
            });
        }
        for _ in 0..3 {
            let seen = reads.load(Ordering::Relaxed);
            println!("{}", store.rewrite().unwrap());
            while reads.load(Ordering::Relaxed) == seen {
                thread::yield_now();
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    let records = next.load(Ordering::Relaxed) as usize;
    assert_eq!(store.counts().records, records);
    assert_eq!(store.upkeep().rewrites, 3);
    assert!(store.verify(|_| ()).unwrap().ok());
    assert!((0..records as u32).all(|n| store.lesson(&lesson(n).id()).unwrap() == Some(lesson(n))));
    drop(store);

    let names: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!names.iter().any(|n| n.contains("old") || n.contains("rebuild") || n.contains("new")), "{names:?}");
    // No word of a copy that was put back, though the file is another one.
    let (store, report) = open(dir.path());
    assert!(report.is_clean() && report.from_summary, "{report:#?}");
    assert_eq!(store.counts().records, records);
    assert!((0..records as u32).all(|n| store.lesson(&lesson(n).id()).unwrap() == Some(lesson(n))));
    assert!(store.verify(|_| ()).unwrap().ok());
}

#[test]
fn a_bank_that_is_closed_while_it_is_rewritten_is_none_the_worse() {
    let dir = tempfile::tempdir().unwrap();
    let options = OpenOptions { rewrite_above_bytes: 1, ..OpenOptions::default() };
    for round in 0..5u32 {
        let store = Store::open(dir.path(), options).unwrap().store;
        store.add_bank(home()).unwrap();
        for n in 0..60 {
            store.write(home().id, &key(1), 1, teach([round * 60 + n])).unwrap();
        }
        thread::sleep(Duration::from_millis(u64::from(round) * 600));
        drop(store);
        let (store, report) = open(dir.path());
        assert!(report.is_clean(), "{report:#?}");
        assert_eq!(store.counts().records, (round as usize + 1) * 60);
        assert!(store.verify(|_| ()).unwrap().ok());
    }
}
