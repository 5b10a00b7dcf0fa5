//! `kill -9` at any moment loses nothing that was acknowledged, and leaves no half of a group.

use std::{
    collections::HashSet,
    env,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use folklore_protocol::{claim::Outcome, record::RecordId};
use folklore_store::bank::Batch;

use crate::common::{home, how_many, key, lesson, open_clean, run, taught};

const ROLE: &str = "FOLKLORE_TEST_KILLED_WRITER";
/// Kills ordinarily, and when all are asked for.
const ROUNDS: (u32, u32) = (10, 200);
const GROUP: u32 = 20;

/// Not a test of its own: what the parent starts and kills. Prints a line for each acknowledged group.
#[test]
fn writer_to_be_killed() {
    let Ok(role) = env::var(ROLE) else { return };
    let (dir, round) = role.split_once('|').unwrap();
    let round: u32 = round.parse().unwrap();
    let store = open_clean(Path::new(dir));
    let mut out = std::io::stdout();
    for group in 0.. {
        let from = (round * 10_000 + group) * GROUP;
        let batch = Batch {
            claims: (from..from + GROUP).map(|n| taught(&lesson(n))).collect(),
            runs: vec![run(from, Outcome::Failure, 70_000)],
            ..Batch::default()
        };
        let written = store.write(home().id, &key(1), 1, batch).unwrap();
        let ids: Vec<String> = written.records().map(|r| r.id().to_string()).collect();
        writeln!(out, "acknowledged {} {}", from, ids.join(",")).unwrap();
        out.flush().unwrap();
    }
}

#[test]
fn a_killed_writer_keeps_all_it_acknowledged_and_no_half_groups() {
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged: Vec<(u32, Vec<RecordId>)> = Vec::new();
    let rounds = how_many(ROUNDS.0, ROUNDS.1);
    for round in 0..rounds {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["kill::writer_to_be_killed", "--exact", "--nocapture", "--test-threads=1"])
            .env(ROLE, format!("{}|{round}", dir.path().display()))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // The first acknowledgement says that it is under way; then at another moment in each round.
        let first = lines.by_ref().map(|l| l.unwrap()).find(|l| l.contains("acknowledged ")).unwrap();
        thread::sleep(Duration::from_millis(u64::from(round) * 23 % 190));
        child.kill().unwrap();
        child.wait().unwrap();
        for line in [first].into_iter().chain(lines.map_while(Result::ok)) {
            // The test harness may put its own words in front, and the last line may be cut.
            let Some((_, rest)) = line.split_once("acknowledged ") else { continue };
            let Some((from, ids)) = rest.split_once(' ') else { continue };
            let ids: Vec<RecordId> = ids.split(',').filter_map(|id| id.parse().ok()).collect();
            if ids.len() == GROUP as usize {
                acknowledged.push((from.parse().unwrap(), ids));
            }
        }
    }
    let store = open_clean(dir.path());
    let held: HashSet<RecordId> = store.record_ids(&home().id).into_iter().collect();
    for (from, ids) in &acknowledged {
        assert!(ids.iter().all(|id| held.contains(id)), "group {from}");
        let wanted = run(*from, Outcome::Failure, 70_000);
        assert_eq!(store.run(&wanted.digest).unwrap(), Some(wanted));
        assert!((*from..from + GROUP).all(|n| store.has_lesson(&lesson(n).id())));
    }
    println!("{rounds} kills, {} groups acknowledged, {} records held", acknowledged.len(), held.len());
    // Groups are there as a whole: numbers have no gap, and records, bodies and runs go together.
    let counts = store.counts();
    assert_eq!(counts.records % GROUP as usize, 0);
    assert_eq!((counts.lessons, counts.runs), (counts.records, counts.records / GROUP as usize));
    let mut seqs = Vec::new();
    store.for_each_record(&home().id, |r| seqs.push(r.seq())).unwrap();
    assert_eq!(seqs, (1..=counts.records as u64).collect::<Vec<_>>());
    assert!(store.verify(|_| ()).unwrap().ok());
}
