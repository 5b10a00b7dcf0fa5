//! A fault layer under the files: a process that writes to a bank is traced, and what its disk may hold after a crash at each
//! sync is built from the trace, with unsynced writes lost, torn or reordered. Every such bank must open and hold all that
//! was acknowledged. The process also rewrites its database and reopens its bank on the way.
//!
//! Ordinarily some of the sync points are tried; `FOLKLORE_ALL_CRASHES=1` tries them all.

mod disk;
mod trace;

use std::{env, fs, io::Write, path::Path, process::Command};

use folklore_protocol::{
    claim::{Claim, Outcome},
    record::Record,
};
use folklore_store::{
    bank::{Batch, Incoming, Store},
    runs::log::{Ending, Lease},
};

use self::{
    disk::{Crash, Disk},
    trace::Event,
};
use crate::common::{action, home, how_many, key, lesson, long_action, new_run, open, open_clean, run, taught, teach};

const ROLE: &str = "FOLKLORE_TEST_TRACED_WRITER";
const OPERATIONS: u32 = 200;
/// Operations before which the database is rewritten, and one before which the bank is closed and opened again.
const REWRITES: [u32; 2] = [60, 150];
const REOPENED: u32 = 110;
/// Ordinarily one sync point of so many is tried.
const SOME: u32 = 11;

/// Numbers of the lessons that an operation teaches.
fn lessons_of(n: u32) -> std::ops::Range<u32> {
    let count = match n % 10 {
        0..4 => 1 + n % 3,
        9 => 40,
        _ => 1,
    };
    n * 100..n * 100 + count
}

fn foreign(n: u32) -> Record {
    Record::sign(&key(2), home().id, u64::from(n) + 1, 1, taught(&lesson(lessons_of(n).start)).0).unwrap()
}

fn setting(n: u32) -> Vec<u8> {
    vec![n as u8; 20_000]
}

/// Steps of one run under way before it ends.
const STEPS_A_RUN: u32 = 6;

/// Which run the steps go to, and which step an operation records.
fn step_of(n: u32) -> (Lease, u32) {
    let turn = n / 10;
    (Lease { name: format!("log-{}", turn / STEPS_A_RUN), number: 1 }, turn % STEPS_A_RUN + 1)
}

fn operate(store: &Store, n: u32) {
    let (bank, me) = (home().id, key(1));
    match n % 10 {
        4 => {
            let (lease, step) = step_of(n);
            if step == 1 {
                assert_eq!(store.begin_run(new_run(&lease.name), 1).unwrap(), lease);
            }
            store.mark_started(&lease, step, &action(n), 1).unwrap();
            // Of every length up to several parts.
            let done = store.record_step(&lease, step, &long_action(n, (n * 500) as usize), 1).unwrap();
            if step == STEPS_A_RUN {
                let (state, digest) = (done.state, [n as u8; 32]);
                let ending = Ending { lease, state, outcome: Outcome::Success, digest };
                store.end_run(&me, 1, Batch::default(), &ending).map(drop).unwrap();
            }
        }
        5 => store.set_setting("book", &setting(n)).unwrap(),
        6 => {
            let rows = vec![run(n, Outcome::Unknown, 70_000), run(n, Outcome::Success, 40_000)];
            let batch = Batch { runs: rows, ..Batch::default() };
            assert_eq!(store.write(bank, &me, 1, batch).unwrap().runs.len(), 2);
        }
        7 => {
            let body = Some(lesson(lessons_of(n).start));
            store.admit(bank, vec![Incoming { record: foreign(n), body }]).map(drop).unwrap();
        }
        8 => {
            let claim = Claim::Withdrawn { lesson_id: lesson(lessons_of(n - 8).start).id(), reason: String::new() };
            store.write(bank, &me, 1, Batch { claims: vec![(claim, None)], ..Batch::default() }).map(drop).unwrap();
        }
        _ => store.write(bank, &me, 1, teach(lessons_of(n))).map(drop).unwrap(),
    }
}

/// What an acknowledged operation must have left; the error says what is missing.
fn check(store: &Store, n: u32, acknowledged: u32) -> Result<(), String> {
    match n % 10 {
        4 => {
            let (lease, step) = step_of(n);
            let held = store.checkpoint(&lease.name).map_err(|e| e.to_string())?;
            if held.info.ended.is_some() {
                return if held.info.steps == STEPS_A_RUN { Ok(()) } else { Err("ended too early".into()) };
            }
            let wanted = long_action(n, (n * 500) as usize);
            let recorded = held.steps.get(step as usize - 1).ok_or("no step")?;
            if recorded.step == wanted && held.uncertain.iter().all(|mark| mark.n > step) {
                Ok(())
            } else {
                Err("another step, or a mark that was answered".into())
            }
        }
        5 => {
            // Any later one may have taken its place, acknowledged or not.
            let held = store.setting("book").ok_or("no setting")?;
            let later = |m: &u32| m % 10 == 5 && setting(*m) == held;
            (n..=acknowledged + 1).find(later).map(drop).ok_or("an old setting".into())
        }
        6 => {
            let wanted = run(n, Outcome::Success, 40_000);
            let held = store.run(&wanted.digest).map_err(|e| e.to_string())?;
            if held.as_ref() == Some(&wanted) { Ok(()) } else { Err("no run, or without its label".into()) }
        }
        7 => {
            let held = store.record(&foreign(n).id()).map_err(|e| e.to_string())?;
            held.map(drop).ok_or("no record of another".into())
        }
        8 => Ok(()),
        _ => lessons_of(n).try_for_each(|l| match store.lesson(&lesson(l).id()) {
            Ok(Some(held)) if held == lesson(l) => Ok(()),
            other => Err(format!("lesson {l}: {other:?}")),
        }),
    }
}

/// Not a test of its own: what the other traces. Says when each operation is acknowledged.
#[test]
fn writer_to_be_traced() {
    let Ok(dir) = env::var(ROLE) else { return };
    let dir = Path::new(&dir);
    let mut store = open_clean(dir);
    let mut out = std::io::stdout();
    for n in 0..OPERATIONS {
        if n == REOPENED {
            drop(store);
            store = open_clean(dir);
        }
        if REWRITES.contains(&n) {
            store.rewrite().unwrap();
        }
        operate(&store, n);
        writeln!(out, "acknowledged {n} end").unwrap();
        out.flush().unwrap();
    }
}

fn traced(dir: &Path, trace: &Path) -> Option<String> {
    let run = Command::new("strace")
        .args([
            "-f",
            "-qq",
            "-y",
            "-xx",
            "-s",
            "100000000",
            "--seccomp-bpf",
            "-e",
            &format!("trace={}", trace::CALLS),
            "-o",
        ])
        .arg(trace)
        .arg(env::current_exe().unwrap())
        .args(["faults::writer_to_be_traced", "--exact", "--nocapture", "--test-threads=1"])
        .env(ROLE, dir)
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&run.stdout);
    if !run.status.success() && String::from_utf8_lossy(&run.stderr).contains("ptrace") {
        return None;
    }
    assert!(run.status.success() && said.contains(&format!("acknowledged {} end", OPERATIONS - 1)), "{run:?}");
    Some(fs::read_to_string(trace).unwrap())
}

#[test]
fn a_crash_at_any_sync_loses_nothing_acknowledged_whatever_becomes_of_unsynced_writes() {
    let home_dir = tempfile::tempdir().unwrap();
    // As the kernel names it.
    let root = home_dir.path().canonicalize().unwrap();
    let dir = root.join("data");
    fs::create_dir(&dir).unwrap();
    let Some(text) = traced(&dir, &root.join("trace")) else {
        println!("skipped: there is no strace here, or it may not trace");
        return;
    };
    let events = trace::read(&text, &dir);
    drop(text);
    let step = how_many(SOME, 1) as usize;
    let is_sync = |event: &Event| matches!(event, Event::Sync { .. });
    let syncs = events.iter().filter(|event| is_sync(event)).count();
    assert!(syncs >= OPERATIONS as usize, "{syncs} syncs for {OPERATIONS} acknowledgements");

    let mut disk = Disk::new(&dir);
    let (mut acknowledged, mut sync, mut crashes, mut opened) = (None, 0, 0, 0u64);
    for (number, event) in events.iter().enumerate() {
        if let Event::Said(line) = event
            && let Some(n) = line.split("acknowledged ").nth(1).and_then(|l| l.split(' ').next())
        {
            acknowledged = Some(n.parse::<u32>().unwrap());
        }
        if is_sync(event) {
            // Just before it has done its work.
            if sync % step == 0 {
                for crash in [Crash::Lost, Crash::Torn, Crash::Reordered(sync as u64)] {
                    crashes += 1;
                    let held = survives(&disk, crash, acknowledged, &format!("{crash:?} at sync {sync}"));
                    opened += u64::from(held.unwrap_or_else(|wrong| panic!("{wrong}")));
                }
            }
            sync += 1;
        }
        disk.apply(number, event);
    }
    assert_eq!(acknowledged, Some(OPERATIONS - 1));
    assert_eq!(survives(&disk, Crash::Lost, acknowledged, "after the end"), Ok(true));
    println!(
        "{crashes} crashes at {} of {syncs} syncs, {opened} with a bank: nothing acknowledged was lost",
        crashes / 3
    );

    // A planted fault, so that the check is seen to catch one: a disk that lies about syncs of the database.
    let mut lying = Disk::new(&dir);
    let of_database = |event: &Event| matches!(event, Event::Sync { path, .. } if path.ends_with("db"));
    for (number, event) in events.iter().enumerate().filter(|(_, event)| !of_database(event)) {
        lying.apply(number, event);
    }
    let caught = survives(&lying, Crash::Lost, acknowledged, "with a lying disk");
    println!("caught: {}", caught.expect_err("a disk that syncs nothing loses what was acknowledged"));
}

/// Opens what a crash left. False if there was nothing to be lost yet; the error says what is wrong.
fn survives(disk: &Disk, crash: Crash, acknowledged: Option<u32>, what: &str) -> Result<bool, String> {
    let left = tempfile::tempdir().unwrap();
    disk.after(crash, left.path());
    let (store, report) = open(left.path());
    if report.lost > 0 || !report.damaged.is_empty() {
        return Err(format!("{what}: {:?}", report.lines()));
    }
    for n in acknowledged.iter().flat_map(|last| 0..=*last) {
        check(&store, n, acknowledged.unwrap_or(0)).map_err(|missing| {
            format!("{what}, {acknowledged:?} acknowledged: operation {n}: {missing}; {:?}", report.lines())
        })?;
    }
    let verified = store.verify(|_| ()).unwrap();
    if verified.ok() { Ok(acknowledged.is_some()) } else { Err(format!("{what}: {verified:?}")) }
}
