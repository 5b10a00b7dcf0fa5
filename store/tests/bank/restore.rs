//! A data directory put back from a copy never numbers two records alike.

use std::{collections::HashMap, fs, path::Path, process::Command};

use folklore_protocol::record::{Record, RecordId};
use folklore_store::bank::{Admission, BankInfo, Incoming, OpenOptions, OpenReport, Store};

use crate::common::{home, key, open_clean, taught, teach};

fn sh(script: &str, dir: &Path) {
    let done = Command::new("sh").args(["-ec", script]).current_dir(dir).output().unwrap();
    assert!(done.status.success(), "{script}: {done:?}");
}

fn reopen(dir: &Path, entropy: u64) -> (Store, OpenReport) {
    let opened = Store::open(dir, OpenOptions { entropy, ..OpenOptions::default() }).unwrap();
    (opened.store, opened.report)
}

/// Every record that was ever written, by what must be unique.
#[derive(Default)]
struct World(HashMap<(RecordKey, u64), RecordId>);

type RecordKey = (folklore_protocol::bank::BankId, folklore_protocol::identity::AuthorId);

impl World {
    fn write(&mut self, store: &Store, lessons: std::ops::Range<u32>) -> Vec<Record> {
        let written = store.write(home().id, &key(1), 1, teach(lessons)).unwrap();
        let records: Vec<Record> = written.records().cloned().collect();
        for r in &records {
            let before = self.0.insert(((r.bank(), r.author()), r.seq()), r.id());
            assert!(before.is_none_or(|id| id == r.id()), "number {} twice", r.seq());
        }
        records
    }
}

#[test]
fn a_directory_put_back_from_a_copy_goes_on_with_other_numbers() {
    // Each way of putting a copy back that people use.
    for put_back in [
        "rm -rf data && cp -a copy data",
        "cp -a copy/. data/",
        "rm -rf data && mkdir data && tar -C copy -cf - . | tar -C data -xf -",
        "rm -rf data && mv copy data",
    ] {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("data");
        let mut world = World::default();
        let store = open_clean(&dir);
        world.write(&store, 0..10);
        drop(store);
        sh("cp -a data copy", root.path());
        let store = open_clean(&dir);
        world.write(&store, 10..30);
        drop(store);
        sh(put_back, root.path());

        let (store, report) = reopen(&dir, 7);
        assert!(report.restored.is_some(), "{put_back}: {report:#?}");
        assert_eq!(report.lost, 0, "{put_back}: {report:#?}");
        let records = world.write(&store, 30..40);
        assert!(records[0].seq() > 1 << 40);
        drop(store);
        // Once said, it is not said again, and numbers go on by one.
        let (store, report) = reopen(&dir, 8);
        assert!(report.is_clean(), "{put_back}: {report:#?}");
        assert_eq!(world.write(&store, 40..41)[0].seq(), records[9].seq() + 1);
    }
}

#[test]
fn a_bank_first_written_after_the_copy_was_taken_gets_other_numbers_too() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("data");
    let other = BankInfo::new(key(1).author(), [0; 16], "other");
    drop(open_clean(&dir));
    sh("cp -a data copy", root.path());
    let store = open_clean(&dir);
    store.add_bank(other.clone()).unwrap();
    let first = store.write(other.id, &key(1), 1, teach([1])).unwrap().records().next().unwrap().clone();
    assert_eq!(first.seq(), 1);
    drop(store);
    sh("rm -rf data && cp -a copy data", root.path());
    let (store, _) = reopen(&dir, 7);
    store.add_bank(other.clone()).unwrap();
    let again = store.write(other.id, &key(1), 1, teach([2])).unwrap().records().next().unwrap().clone();
    assert!(again.seq() > 1 << 40);
}

#[test]
fn two_restores_of_one_copy_differ_in_their_numbers() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("data");
    let mut world = World::default();
    let store = open_clean(&dir);
    world.write(&store, 0..10);
    drop(store);
    sh("cp -a data copy", root.path());
    for round in 0..5u32 {
        sh("rm -rf data && cp -a copy data", root.path());
        let (store, report) = reopen(&dir, u64::from(round) * 1_000_003);
        assert!(report.restored.is_some());
        world.write(&store, 100 + round * 10..110 + round * 10);
    }
}

#[test]
fn two_running_nodes_from_one_copy_differ_in_their_numbers() {
    let root = tempfile::tempdir().unwrap();
    let mut world = World::default();
    let store = open_clean(&root.path().join("data"));
    world.write(&store, 0..10);
    drop(store);
    sh("cp -a data copy", root.path());
    // The original is not a copy and goes on by one.
    let store = open_clean(&root.path().join("data"));
    assert_eq!(world.write(&store, 10..11)[0].seq(), 11);
    let (copy, _) = reopen(&root.path().join("copy"), 99);
    assert!(world.write(&copy, 11..21)[0].seq() > 1 << 40);
}

#[test]
fn moving_a_directory_is_no_restore() {
    let root = tempfile::tempdir().unwrap();
    let store = open_clean(&root.path().join("data"));
    World::default().write(&store, 0..10);
    drop(store);
    fs::rename(root.path().join("data"), root.path().join("elsewhere")).unwrap();
    open_clean(&root.path().join("elsewhere"));
}

#[test]
fn own_records_that_peers_show_push_the_numbers_up() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_clean(dir.path());
    let mut world = World::default();
    let mine = world.write(&store, 0..3);
    let own =
        |seq, what: u32| Record::sign(&key(1), home().id, seq, 1, taught(&crate::common::lesson(what)).0).unwrap();
    let shown = Incoming { record: own(50, 77), body: None };
    assert_eq!(store.admit(home().id, vec![shown]).unwrap(), [Admission::Stored]);
    assert_eq!(world.write(&store, 3..4)[0].seq(), 51);
    assert!(store.notes().is_empty());

    // A record under a number that is used here: kept, since the bank is a set, and noted.
    let twin = own(2, 78);
    assert_ne!(twin.id(), mine[1].id());
    let answer = store.admit(home().id, vec![Incoming { record: twin.clone(), body: None }]).unwrap();
    assert_eq!(answer, [Admission::Stored]);
    drop(store);
    let store = open_clean(dir.path());
    assert_eq!(store.notes().len(), 1);
    assert!(store.notes()[0].contains(&twin.id().to_string()), "{:?}", store.notes());
    // Records of strangers may be as they like.
    let strange = |what: u32| Record::sign(&key(5), home().id, 1, 1, taught(&crate::common::lesson(what)).0).unwrap();
    let both = [1, 2].map(|what| Incoming { record: strange(what), body: None });
    store.admit(home().id, both.to_vec()).unwrap();
    assert_eq!(store.notes().len(), 1);
}

#[test]
fn an_author_met_before_it_signs_here_is_taken_over_with_its_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_clean(dir.path());
    let old = Record::sign(&key(1), home().id, 9, 1, taught(&crate::common::lesson(1)).0).unwrap();
    store.admit(home().id, vec![Incoming { record: old.clone(), body: None }]).unwrap();
    let batch = folklore_store::bank::Batch { skip_if_taught: true, ..teach([1, 2]) };
    let written = store.write(home().id, &key(1), 1, batch).unwrap();
    assert_eq!(written.claims[0], folklore_store::bank::ClaimOutcome::Known(old.id()));
    assert_eq!(written.records().map(Record::seq).collect::<Vec<_>>(), [10]);
}
