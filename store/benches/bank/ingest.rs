//! From bytes off the wire to durable records, on all cores, against all cores that only check signatures.

use std::{
    ops::AddAssign,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Instant,
};

use folklore_protocol::{identity::Keys, record::UnverifiedRecord};
use folklore_store::bank::{self, Admission, Incoming};

use folklore_tests::figures::{Figure, Report};

use crate::sets::{self, GROUP};

/// Records in a batch. (A message carries 48 KiB, fewer than sixty of these; what comes while one group is synced goes into the
/// next together.)
const BATCH: usize = 250;
/// Batches under way at once: 500 records and 1,000. A node hands storage up to 1,024 before it waits for an answer. While some
/// are being synced others are checked. The cores are those of the machine.
const UNDER_WAY: [usize; 2] = [2, 4];
/// Ours and the peer's alternate in rounds of so many records.
const ROUND: u64 = 10_000;

type Wire = (Vec<u8>, Vec<u8>);

/// What some records took: by the wall clock, and of all cores, which is what an idle machine would need at most.
#[derive(Clone, Copy, Default)]
struct Took {
    seconds: f64,
    cpu_seconds: f64,
}

impl AddAssign for Took {
    fn add_assign(&mut self, other: Self) {
        self.seconds += other.seconds;
        self.cpu_seconds += other.cpu_seconds;
    }
}

/// Runs `work` on each batch, `under_way` at once.
fn some_at_once<T: Sync>(under_way: usize, batches: &[&[T]], work: impl Fn(&[T]) + Sync) -> Took {
    let next = AtomicUsize::new(0);
    let (begin, cpu) = (Instant::now(), sets::cpu_seconds());
    thread::scope(|scope| {
        for _ in 0..under_way {
            scope.spawn(|| {
                while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(batch);
                }
            });
        }
    });
    Took { seconds: begin.elapsed().as_secs_f64(), cpu_seconds: sets::cpu_seconds() - cpu }
}

pub fn run(dir: &Path, records: u64, figures: &mut Report) {
    for under_way in UNDER_WAY {
        measure(dir, records, under_way, figures);
    }
}

fn measure(dir: &Path, records: u64, under_way: usize, figures: &mut Report) {
    let home = tempfile::tempdir_in(dir).expect("a directory");
    let store = sets::open(home.path());
    let bank = sets::home().id;
    let (mut ours, mut plain, mut ready, mut done) = (Took::default(), Took::default(), Took::default(), 0u64);
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
        // In halves, as ours does it: a machine that others use gives more to who has more threads.
        let halves = |batch: &[UnverifiedRecord], check: &(dyn Fn(&[UnverifiedRecord]) + Sync)| {
            thread::scope(|scope| {
                for half in batch.chunks(BATCH / 2) {
                    scope.spawn(move || check(half));
                }
            });
        };
        plain += some_at_once(under_way, &lists, |batch| {
            halves(batch, &|half| half.iter().for_each(|record| assert!(record.clone().verify().is_ok())));
        });
        ours += some_at_once(under_way, &batches, |batch: &[Wire]| {
            let items: Vec<_> = batch
                .iter()
                .map(|(record, body)| (UnverifiedRecord::parse(record).expect("reads"), Some(body.clone())))
                .collect();
            let good: Vec<Incoming> = bank::check(&items).into_iter().map(|item| item.expect("is good")).collect();
            let answers = store.admit(bank, good).expect("admits");
            assert!(answers.iter().all(|a| *a == Admission::Stored));
        });
        ready += some_at_once(under_way, &lists, |batch| {
            halves(batch, &|half| {
                let mut keys = Keys::default();
                half.iter().for_each(|record| assert!(record.clone().verify_with(&mut keys).is_ok()));
            });
        });
        done += ROUND;
    }
    let rate = done as f64 / ours.seconds;
    let cpu = |took: Took| took.cpu_seconds * 1e6 / done as f64;
    for (peer, took, target) in
        [("only ed25519 (strict)", plain, Some(0.6)), ("the same, the author's key unpacked once a batch", ready, None)]
    {
        let peer_value = done as f64 / took.seconds;
        let setting = format!(
            "{done} records with bodies of about 600 bytes, batches of {BATCH}, {under_way} under way at once on either side; \
             CPU {:.1} µs a record, the peer's {:.1}",
            cpu(ours),
            cpu(took)
        );
        let figure = Figure::new("ingest: decode, check signatures, store durably", rate, "records/s").on(setting);
        let figure = figure.beside(peer, peer_value);
        figures.add(match target {
            Some(ratio) => figure.ratio_at_least(ratio),
            None => figure,
        });
    }
}
