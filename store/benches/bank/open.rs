//! From a closed bank to one that answers, against the same bytes in sled alone, opened and read once.

use std::{path::Path, time::Instant};

use folklore_tests::figures::{Figure, Report};

use crate::sets::{self, Bare, GROUP};

/// sled's own segment size, for its peer.
const SEGMENT_BYTES: usize = 512 * 1024;

pub fn run(dir: &Path, records: u64, figures: &mut Report) {
    let ours_dir = tempfile::tempdir_in(dir).expect("a directory");
    let bare_dir = tempfile::tempdir_in(dir).expect("a directory");
    let store = sets::open(ours_dir.path());
    let mut bare = Bare::open(bare_dir.path(), SEGMENT_BYTES, true);
    for from in (0..records).step_by(GROUP as usize) {
        let group = sets::group(from);
        bare.write(&group);
        store.admit(sets::home().id, group).expect("admits");
    }
    drop(bare);
    let begin = Instant::now();
    drop(store);
    let closing = begin.elapsed().as_secs_f64();

    let (begin, cpu) = (Instant::now(), sets::cpu_seconds());
    let bare = Bare::open(bare_dir.path(), SEGMENT_BYTES, true);
    let bytes = bare.read_all();
    let (peer, peer_cpu) = (begin.elapsed().as_secs_f64(), sets::cpu_seconds() - cpu);
    drop(bare);

    let (begin, cpu) = (Instant::now(), sets::cpu_seconds());
    let store = sets::open(ours_dir.path());
    let quick = (begin.elapsed().as_secs_f64(), sets::cpu_seconds() - cpu);
    assert_eq!(store.counts().records as u64, records);
    let begin = Instant::now();
    store.for_each_record(&sets::home().id, |_| ()).expect("reads");
    let read_records = begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    store.for_each_lesson(|_| ()).expect("reads");
    let read_lessons = begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    let ids = store.record_ids(&sets::home().id);
    let some: Vec<_> = ids.iter().step_by((ids.len() / 1000).max(1)).collect();
    some.iter().for_each(|id| assert!(store.record(id).expect("reads").is_some()));
    let point = begin.elapsed().as_secs_f64() / some.len() as f64;
    drop(store);

    std::fs::remove_file(ours_dir.path().join("bank.summary")).expect("removes");
    let (begin, cpu) = (Instant::now(), sets::cpu_seconds());
    let store = sets::open(ours_dir.path());
    let whole = (begin.elapsed().as_secs_f64(), sets::cpu_seconds() - cpu);
    assert_eq!(store.counts().records as u64, records);
    println!(
        "opening {records} records: {:.2} s ({:.2} s of CPU); without the summary {:.2} s ({:.2}); sled alone {peer:.2} s \
         ({peer_cpu:.2}, {bytes} bytes); closing {closing:.2} s; then reading all records {read_records:.2} s, all bodies {read_lessons:.2} s, one \
         record {:.0} µs",
        quick.0,
        quick.1,
        whole.0,
        whole.1,
        point * 1e6
    );
    // On a machine that others use the time of the wall says little; the time of the cores bounds it on an idle one.
    let mut add = |figure: &str, (wall, cpu): (f64, f64), target_s: f64| {
        let value = wall.min(cpu);
        let limit = target_s * records as f64 / 1e6;
        let setting = format!(
            "{records} records with bodies of about 600 bytes, page cache warm; {wall:.2} s by the wall, {cpu:.2} s of CPU"
        );
        let figure = Figure::new(figure, value, "s").on(setting).at_most(limit);
        figures.add(figure.beside("sled alone, opened and read", peer.min(peer_cpu)));
    };
    add("opening a bank that was closed in good order", quick, 3.0);
    add("opening a bank without its summary, everything read and checked", whole, 8.0);
}
