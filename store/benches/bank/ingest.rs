//! From bytes off the wire to durable records, on all cores, against all cores that only check signatures.

use std::{
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Instant,
};

use folklore_protocol::record::UnverifiedRecord;
use folklore_store::bank::{self, Admission, Incoming};

use crate::{
    figures::{Figure, Figures},
    sets::{self, GROUP},
};

/// Records in a batch: about what fits into the budget of one message on the wire.
const BATCH: usize = 250;
/// Batches under way at once, as when a node fetches from several peers: while one is being synced others are checked. The
/// cores are those of the machine.
const UNDER_WAY: usize = 4;
/// Ours and the peer's alternate in rounds of so many records.
const ROUND: u64 = 10_000;

type Wire = (Vec<u8>, Vec<u8>);

/// Runs `work` on each batch, some at once. Returns seconds.
fn some_at_once<T: Sync>(batches: &[&[T]], work: impl Fn(&[T]) + Sync) -> f64 {
    let next = AtomicUsize::new(0);
    let begin = Instant::now();
    thread::scope(|scope| {
        for _ in 0..UNDER_WAY {
            scope.spawn(|| {
                while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(batch);
                }
            });
        }
    });
    begin.elapsed().as_secs_f64()
}

pub fn run(dir: &Path, records: u64, figures: &mut Figures) {
    let home = tempfile::tempdir_in(dir).expect("a directory");
    let store = sets::open(home.path());
    let bank = sets::home().id;
    let (mut ours, mut theirs, mut done) = (0.0, 0.0, 0u64);
    for from in (0..records).step_by(ROUND as usize) {
        let wire: Vec<Wire> = (from..from + ROUND)
            .step_by(GROUP as usize)
            .flat_map(sets::group)
            .map(|Incoming { record, body }| {
                (record.bytes().to_vec(), body.map(|b| b.bytes().to_vec()).unwrap_or_default())
            })
            .collect();
        let batches: Vec<&[Wire]> = wire.chunks(BATCH).collect();
        let unverified: Vec<UnverifiedRecord> =
            wire.iter().map(|(record, _)| UnverifiedRecord::parse(record).expect("reads")).collect();
        let lists: Vec<&[UnverifiedRecord]> = unverified.chunks(BATCH).collect();
        theirs += some_at_once(&lists, |batch| {
            // In halves, as ours does it: a machine that others use gives more to who has more threads.
            thread::scope(|scope| {
                for half in batch.chunks(BATCH / 2) {
                    scope.spawn(|| half.iter().for_each(|record| assert!(record.clone().verify().is_ok())));
                }
            });
        });
        ours += some_at_once(&batches, |batch: &[Wire]| {
            let items: Vec<_> = batch
                .iter()
                .map(|(record, body)| (UnverifiedRecord::parse(record).expect("reads"), Some(body.clone())))
                .collect();
            let good: Vec<Incoming> = bank::check(&items).into_iter().map(|item| item.expect("is good")).collect();
            let answers = store.admit(bank, good).expect("admits");
            assert!(answers.iter().all(|a| *a == Admission::Stored));
        });
        done += ROUND;
    }
    let (rate, peer) = (done as f64 / ours, done as f64 / theirs);
    figures.add(Figure {
        figure: "ingest: decode, check signatures, store durably".into(),
        value: rate,
        unit: "records/s".into(),
        peer: "only ed25519 (strict)".into(),
        peer_value: peer,
        ratio: rate / peer,
        setting: format!("{done} records with bodies of about 600 bytes, batches of {BATCH}, {UNDER_WAY} under way at once on either side"),
        target: "≥ 0.6".into(),
        ok: rate / peer >= 0.6,
    });
}
