use std::{sync::Barrier, thread};

use folklore_protocol::{
    claim::{Claim, MAX_REASON_BYTES, Outcome},
    lesson::{LessonId, MAX_CONTENT_BYTES},
    record::Record,
};
use folklore_store::{
    bank::{Admission, BankInfo, Batch, ClaimOutcome, Incoming, MAX_SETTING_BYTES, OpenOptions, Store},
    error::{OpenError, WriteError},
    runs::{MAX_RUN_BYTES, RunOutcome},
};

use crate::common::{home, key, lesson, open, open_clean, run, sized_lesson, taught, teach};

#[test]
fn what_was_written_is_there_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_clean(dir.path());
    let bank = home().id;
    let batch = Batch {
        claims: (0..50).map(|n| taught(&lesson(n))).collect(),
        runs: vec![run(1, Outcome::Failure, 300_000), run(2, Outcome::Success, 10), run(4, Outcome::Unknown, 0)],
        ..Batch::default()
    };
    let written = store.write(bank, &key(1), 1_700_000_000_000, batch.clone()).unwrap();
    let records: Vec<Record> = written.records().cloned().collect();
    assert_eq!(records.iter().map(Record::seq).collect::<Vec<_>>(), (1..=50).collect::<Vec<_>>());
    store.set_setting("peers", b"some").unwrap();
    drop(store);

    let store = open_clean(dir.path());
    assert_eq!(store.banks(), [home()]);
    let ids: Vec<_> = records.iter().map(Record::id).collect();
    assert_eq!(store.record_ids(&bank), ids);
    let held = store.records(&ids).unwrap();
    assert!(held.iter().zip(&records).zip(0..).all(|(((r, l), s), n)| r == s && l.as_ref() == Some(&lesson(n))));
    for wanted in &batch.runs {
        assert_eq!(store.run(&wanted.digest).unwrap().as_ref(), Some(wanted));
    }
    assert_eq!(store.runs_of_task("task 1").unwrap(), [batch.runs[0].clone(), batch.runs[2].clone()]);
    assert_eq!(store.setting("peers").as_deref(), Some(&b"some"[..]));
    let report = store.verify(|_| ()).unwrap();
    assert!(report.ok(), "{report:?}");
    assert_eq!((report.records, report.lessons, report.runs), (50, 50, 3));
}

#[test]
fn a_second_handle_on_one_directory_is_told_who_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_clean(dir.path());
    let second = Store::open(dir.path(), OpenOptions::default());
    let Err(error @ OpenError::Locked { .. }) = second else { panic!("{second:?}") };
    assert!(error.to_string().contains("another process"), "{error}");
    drop(store);
    open_clean(dir.path());
}

#[test]
fn records_of_others_are_admitted_once_with_their_bodies() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_clean(dir.path());
    let bank = home().id;
    let by = |n: u8, seq, what: u32| Record::sign(&key(n), bank, seq, 5, taught(&lesson(what)).0).unwrap();
    let (a, b) = (by(2, 1, 7), by(3, 1, 7));
    let first = store.admit(bank, vec![Incoming { record: a.clone(), body: None }]).unwrap();
    assert_eq!(first, [Admission::Stored]);
    assert_eq!(store.missing_bodies(&bank), [lesson(7).id()]);

    let group = vec![
        Incoming { record: a.clone(), body: Some(lesson(7)) },
        Incoming { record: b.clone(), body: Some(lesson(7)) },
        Incoming { record: b.clone(), body: None },
        Incoming { record: by(2, 2, 8), body: Some(lesson(9)) },
    ];
    let answers = store.admit(bank, group).unwrap();
    assert_eq!(answers[..3], [Admission::Known, Admission::Stored, Admission::Known]);
    assert!(matches!(answers[3], Admission::Declined { .. }));
    assert_eq!(store.missing_bodies(&bank), []);
    assert_eq!(store.counts().lessons, 1);
    assert_eq!(store.record_ids(&bank), [a.id(), b.id()]);

    let other = BankInfo::new(key(9).author(), [0; 16], "other");
    let strange = vec![Incoming { record: a.clone(), body: None }];
    assert_eq!(store.admit(other.id, strange.clone()), Err(WriteError::UnknownBank(other.id)));
    store.add_bank(other.clone()).unwrap();
    assert!(matches!(store.admit(other.id, strange).unwrap()[..], [Admission::Declined { .. }]));
}

#[test]
fn bodies_can_come_later_and_are_shared_by_banks() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_clean(dir.path());
    let other = BankInfo::new(key(9).author(), [0; 16], "other");
    store.add_bank(other.clone()).unwrap();
    for bank in [home().id, other.id] {
        let record = Record::sign(&key(2), bank, 1, 5, taught(&lesson(7)).0).unwrap();
        store.admit(bank, vec![Incoming { record, body: None }]).unwrap();
        assert_eq!(store.missing_bodies(&bank), [lesson(7).id()]);
    }
    assert_eq!(store.put_bodies(&[lesson(7), lesson(7)]).unwrap(), 1);
    assert_eq!(store.put_bodies(&[lesson(7)]).unwrap(), 0);
    for bank in [home().id, other.id] {
        assert_eq!(store.missing_bodies(&bank), []);
    }
}

#[test]
fn teaching_the_same_again_is_left_out_when_asked_until_withdrawn() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_clean(dir.path());
    let bank = home().id;
    let again = || Batch {
        claims: vec![taught(&lesson(1)), taught(&lesson(1)), taught(&lesson(2))],
        skip_if_taught: true,
        ..Batch::default()
    };
    let first = store.write(bank, &key(1), 1, again()).unwrap();
    let ids: Vec<_> = first.records().map(Record::id).collect();
    assert_eq!(ids.len(), 2);
    assert_eq!(first.claims[1], ClaimOutcome::Known(ids[0]));
    let known = vec![ClaimOutcome::Known(ids[0]), ClaimOutcome::Known(ids[0]), ClaimOutcome::Known(ids[1])];
    assert_eq!(store.write(bank, &key(1), 2, again()).unwrap().claims, known);
    // Another author, and the same after a restart.
    assert_eq!(store.write(bank, &key(2), 2, again()).unwrap().records().count(), 2);
    drop(store);
    let store = open_clean(dir.path());
    assert_eq!(store.write(bank, &key(1), 3, again()).unwrap().claims, known);

    let withdrawal = (Claim::Withdrawn { lesson_id: lesson(1).id(), reason: "wrong".into() }, None);
    store.write(bank, &key(1), 4, Batch { claims: vec![withdrawal], ..Batch::default() }).unwrap();
    assert_eq!(store.write(bank, &key(1), 5, again()).unwrap().records().count(), 1);
    // Without being asked nothing is left out.
    assert_eq!(store.write(bank, &key(1), 6, teach([1, 1])).unwrap().records().count(), 2);
}

#[test]
fn a_run_is_stored_once_and_takes_a_label_that_comes_later() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_clean(dir.path());
    let bank = home().id;
    let write = |store: &Store, rows: Vec<_>| {
        store.write(bank, &key(1), 1, Batch { runs: rows, ..Batch::default() }).unwrap().runs
    };
    let (unknown, failed) = (run(1, Outcome::Unknown, 90_000), run(1, Outcome::Failure, 20));
    assert_eq!(write(&store, vec![unknown.clone(), unknown.clone()]), [RunOutcome::Stored, RunOutcome::Duplicate]);
    assert_eq!(write(&store, vec![unknown.clone(), failed.clone()]), [RunOutcome::Duplicate, RunOutcome::Relabelled]);
    assert_eq!(write(&store, vec![unknown.clone(), failed.clone()]), [RunOutcome::Duplicate, RunOutcome::Duplicate]);
    drop(store);
    let store = open_clean(dir.path());
    assert_eq!(store.run(&failed.digest).unwrap(), Some(failed.clone()));
    assert_eq!(store.run_outcome(&failed.digest), Some(Outcome::Failure));
    assert_eq!(store.run_count(), 1);
    assert_eq!(store.runs_of_task(&failed.task_key).unwrap(), [failed]);
    assert!(store.verify(|_| ()).unwrap().ok());
}

#[test]
fn a_group_with_one_bad_claim_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_clean(dir.path());
    let bank = home().id;
    let long = Claim::Disputed { lesson_id: lesson(1).id(), reason: "x".repeat(MAX_REASON_BYTES + 1) };
    let bad = |claim| Batch { claims: vec![taught(&lesson(1)), claim], ..Batch::default() };
    let refused = store.write(bank, &key(1), 1, bad((long, None)));
    assert!(matches!(refused, Err(WriteError::Claim { index: 1, .. })), "{refused:?}");
    let refused = store.write(bank, &key(1), 1, bad((taught(&lesson(1)).0, Some(lesson(2)))));
    assert!(matches!(refused, Err(WriteError::Body { index: 1 })), "{refused:?}");
    let large = Batch { runs: vec![run(1, Outcome::Failure, MAX_RUN_BYTES + 1)], ..teach([1]) };
    let refused = store.write(bank, &key(1), 1, large);
    assert!(matches!(refused, Err(WriteError::TooLarge { .. })), "{refused:?}");
    assert_eq!((store.counts().records, store.counts().lessons), (0, 0));
    // And no number was used up.
    let written = store.write(bank, &key(1), 1, teach([1])).unwrap();
    assert_eq!(written.records().map(Record::seq).collect::<Vec<_>>(), [1]);
}

#[test]
fn settings_are_replaced_and_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_clean(dir.path());
    for n in 0..30usize {
        store.set_setting("book", &vec![n as u8; n * 2000]).unwrap();
    }
    store.set_setting("book", b"short").unwrap();
    assert!(matches!(store.set_setting("bank:own", b""), Err(WriteError::Reserved(_))));
    assert!(matches!(store.set_setting("x", &vec![0; MAX_SETTING_BYTES + 1]), Err(WriteError::TooLarge { .. })));
    drop(store);
    let store = open_clean(dir.path());
    assert_eq!(store.setting("book").as_deref(), Some(&b"short"[..]));
    assert!(store.verify(|_| ()).unwrap().ok());
}

#[test]
fn writers_that_wait_share_a_sync_and_get_numbers_without_gaps() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_clean(dir.path());
    let bank = home().id;
    let (writers, each) = (16u32, 20u32);
    let before = store.syncs();
    let start = Barrier::new(writers as usize);
    thread::scope(|scope| {
        for writer in 0..writers {
            let (store, start) = (store.clone(), &start);
            scope.spawn(move || {
                start.wait();
                for n in 0..each {
                    store.write(bank, &key(1), 1, teach([writer * each + n])).unwrap();
                }
            });
        }
    });
    let groups = u64::from(writers * each);
    let syncs = store.syncs() - before;
    println!("{groups} groups of one from {writers} writers took {syncs} syncs");
    assert!(syncs < groups, "{syncs} syncs for {groups} groups");
    let mut seqs = Vec::new();
    store.for_each_record(&bank, |r| seqs.push(r.seq())).unwrap();
    assert_eq!(seqs, (1..=groups).collect::<Vec<_>>());
}

#[test]
fn the_largest_values_never_reach_a_file_that_sled_does_not_sync() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_clean(dir.path());
    let bank = home().id;
    for n in 0..10 {
        let bodies = (n * 40..(n + 1) * 40).map(|n| taught(&sized_lesson(n, MAX_CONTENT_BYTES)));
        let runs = vec![run(n, Outcome::Failure, 1_000_000)];
        store.write(bank, &key(1), 1, Batch { claims: bodies.collect(), runs, ..Batch::default() }).unwrap();
    }
    assert_eq!(std::fs::read_dir(dir.path().join("bank/blobs")).unwrap().count(), 0);
    assert!(store.verify(|_| ()).unwrap().ok());
}

#[test]
fn a_run_of_many_megabytes_is_one_value() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_clean(dir.path());
    let big = run(1, Outcome::Success, 20 * 1024 * 1024);
    store.write(home().id, &key(1), 1, Batch { runs: vec![big.clone()], ..teach([1]) }).unwrap();
    drop(store);
    let store = open_clean(dir.path());
    assert_eq!(store.run(&big.digest).unwrap(), Some(big));
}

#[test]
fn unknown_ids_are_absent_and_not_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let (store, report) = open(dir.path());
    assert!(report.created && report.is_clean());
    let nobody = LessonId([0; 32]);
    assert_eq!(store.lesson(&nobody).unwrap(), None);
    assert_eq!(store.run(&[0; 32]).unwrap(), None);
    assert_eq!(store.record_ids(&home().id), []);
    assert!(matches!(store.write(home().id, &key(1), 1, teach([1])), Err(WriteError::UnknownBank(_))));
}
