//! The bank against a twin in memory, over random calls and restarts.

use std::collections::{BTreeMap, BTreeSet};

use folklore_protocol::{
    claim::{Claim, Outcome, Verdict},
    lesson::LessonId,
    record::{Record, RecordId},
};
use folklore_store::{
    bank::{Admission, Batch, ClaimOutcome, Incoming, Store},
    runs::{RunOutcome, RunRow},
};
use proptest::prelude::*;

use crate::common::{home, key, lesson, open_clean, run, taught};

#[derive(Debug, Clone)]
enum Call {
    Teach { author: u8, lessons: Vec<u32>, skip: bool },
    Withdraw { author: u8, lesson: u32 },
    Rate { author: u8, lesson: u32 },
    Admit { author: u8, seq: u64, lesson: u32, body: bool },
    Body { lesson: u32 },
    Run { n: u32, outcome: Outcome, bytes: usize },
    Setting { name: u8, len: usize },
    Restart,
}

fn call() -> impl Strategy<Value = Call> {
    let outcome = prop_oneof![Just(Outcome::Unknown), Just(Outcome::Success), Just(Outcome::Failure)];
    prop_oneof![
        4 => (1u8..3, proptest::collection::vec(0u32..12, 1..5), any::<bool>())
            .prop_map(|(author, lessons, skip)| Call::Teach { author, lessons, skip }),
        1 => (1u8..3, 0u32..12).prop_map(|(author, lesson)| Call::Withdraw { author, lesson }),
        1 => (1u8..3, 0u32..12).prop_map(|(author, lesson)| Call::Rate { author, lesson }),
        3 => (3u8..5, 1u64..6, 0u32..12, any::<bool>())
            .prop_map(|(author, seq, lesson, body)| Call::Admit { author, seq, lesson, body }),
        1 => (0u32..12).prop_map(|lesson| Call::Body { lesson }),
        2 => (0u32..4, outcome, prop_oneof![Just(0usize), Just(100), Just(60_000)])
            .prop_map(|(n, outcome, bytes)| Call::Run { n, outcome, bytes }),
        1 => (0u8..3, 0usize..40_000).prop_map(|(name, len)| Call::Setting { name, len }),
        1 => Just(Call::Restart),
    ]
}

#[derive(Default)]
struct Twin {
    records: Vec<Record>,
    ids: BTreeSet<RecordId>,
    bodies: BTreeSet<LessonId>,
    runs: BTreeMap<[u8; 32], RunRow>,
    settings: BTreeMap<u8, Vec<u8>>,
}

impl Twin {
    fn add(&mut self, record: Record) -> bool {
        let new = self.ids.insert(record.id());
        if new {
            self.records.push(record);
        }
        new
    }

    fn next_seq(&self, author: u8) -> u64 {
        let own = self.records.iter().filter(|r| r.author() == key(author).author());
        own.map(Record::seq).max().unwrap_or(0) + 1
    }

    /// The record by which an author teaches a lesson now.
    fn teaching(&self, author: u8, lesson: LessonId) -> Option<RecordId> {
        let about = |r: &&Record| r.author() == key(author).author() && r.claim().lesson_id() == Some(lesson);
        let taught_or_not = |r: &&Record| matches!(r.claim(), Claim::Taught { .. } | Claim::Withdrawn { .. });
        let last = self.records.iter().filter(about).filter(taught_or_not).max_by_key(|r| (r.seq(), r.id()))?;
        matches!(last.claim(), Claim::Taught { .. }).then(|| last.id())
    }

    fn check(&self, store: &Store) {
        let bank = home().id;
        let ids: Vec<RecordId> = self.records.iter().map(Record::id).collect();
        assert_eq!(store.record_ids(&bank), ids);
        for ((record, body), wanted) in store.records(&ids).unwrap().into_iter().zip(&self.records) {
            assert_eq!(&record, wanted);
            let there = record.claim().body().filter(|id| self.bodies.contains(id));
            assert_eq!(body.map(|b| b.id()), there);
        }
        let taught = self.records.iter().filter_map(|r| r.claim().body());
        let missing: BTreeSet<LessonId> = taught.filter(|id| !self.bodies.contains(id)).collect();
        assert_eq!(store.missing_bodies(&bank), missing.into_iter().collect::<Vec<_>>());
        let mut bodies = BTreeSet::new();
        store.for_each_lesson(|l| assert!(bodies.insert(l.id()))).unwrap();
        assert_eq!(bodies, self.bodies);
        assert_eq!(store.run_count(), self.runs.len());
        for (digest, wanted) in &self.runs {
            assert_eq!(store.run(digest).unwrap().as_ref(), Some(wanted));
            assert!(store.runs_of_task(&wanted.task_key).unwrap().contains(wanted));
        }
        for (name, value) in &self.settings {
            assert_eq!(store.setting(&name.to_string()).as_ref(), Some(value));
        }
    }

    fn write(&mut self, store: &Store, author: u8, batch: Batch) {
        let written = store.write(home().id, &key(author), 1, batch.clone()).unwrap();
        for ((claim, body), outcome) in batch.claims.into_iter().zip(written.claims) {
            self.bodies.extend(body.map(|b| b.id()));
            let known = claim.lesson_id().and_then(|l| self.teaching(author, l));
            match (outcome, known) {
                (ClaimOutcome::Known(id), Some(known)) if claim.body().is_some() && batch.skip_if_taught => {
                    assert_eq!(id, known);
                }
                (ClaimOutcome::Written(record), known) => {
                    assert!(claim.body().is_none() || known.is_none() || !batch.skip_if_taught);
                    assert_eq!(record.seq(), self.next_seq(author));
                    assert_eq!(record.claim(), &claim);
                    assert!(self.add(record));
                }
                (outcome, known) => panic!("{outcome:?} where the twin has {known:?}"),
            }
        }
    }

    fn call(&mut self, store: &Store, call: Call) {
        let bank = home().id;
        match call {
            Call::Teach { author, lessons, skip } => {
                let claims = lessons.into_iter().map(|n| taught(&lesson(n))).collect();
                self.write(store, author, Batch { claims, skip_if_taught: skip, ..Batch::default() });
            }
            Call::Withdraw { author, lesson: n } => {
                let claim = Claim::Withdrawn { lesson_id: lesson(n).id(), reason: String::new() };
                self.write(store, author, Batch { claims: vec![(claim, None)], ..Batch::default() });
            }
            Call::Rate { author, lesson: n } => {
                let claim = Claim::Rated { lesson_id: lesson(n).id(), verdict: Verdict::Helped, run: None };
                self.write(store, author, Batch { claims: vec![(claim, None)], ..Batch::default() });
            }
            Call::Admit { author, seq, lesson: n, body } => {
                let record = Record::sign(&key(author), bank, seq, 1, taught(&lesson(n)).0).unwrap();
                let incoming = Incoming { record: record.clone(), body: body.then(|| lesson(n)) };
                let answer = store.admit(bank, vec![incoming]).unwrap();
                let new = self.add(record);
                assert_eq!(answer, [if new { Admission::Stored } else { Admission::Known }]);
                self.bodies.extend(body.then(|| lesson(n).id()));
            }
            Call::Body { lesson: n } => {
                let new = self.bodies.insert(lesson(n).id());
                assert_eq!(store.put_bodies(&[lesson(n)]).unwrap(), usize::from(new));
            }
            Call::Run { n, outcome, bytes } => {
                let row = run(n, outcome, bytes);
                let batch = Batch { runs: vec![row.clone()], ..Batch::default() };
                let answer = store.write(bank, &key(1), 1, batch).unwrap().runs;
                let wanted = match self.runs.get(&row.digest) {
                    None => RunOutcome::Stored,
                    Some(held) if held.outcome == Outcome::Unknown && outcome != Outcome::Unknown => {
                        RunOutcome::Relabelled
                    }
                    Some(_) => RunOutcome::Duplicate,
                };
                assert_eq!(answer, [wanted]);
                if wanted != RunOutcome::Duplicate {
                    self.runs.insert(row.digest, row);
                }
            }
            Call::Setting { name, len } => {
                let value = vec![name; len];
                store.set_setting(&name.to_string(), &value).unwrap();
                self.settings.insert(name, value);
            }
            Call::Restart => {}
        }
    }
}

proptest! {
    // Each case syncs a disk some dozens of times.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_bank_and_its_twin_agree_over_restarts(calls in proptest::collection::vec(call(), 1..40)) {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open_clean(dir.path());
        let mut twin = Twin::default();
        for call in calls {
            if matches!(call, Call::Restart) {
                drop(store);
                store = open_clean(dir.path());
                twin.check(&store);
            }
            twin.call(&store, call);
        }
        twin.check(&store);
        prop_assert!(store.verify(|_| ()).unwrap().ok());
    }
}
