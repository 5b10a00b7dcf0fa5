//! Durable inserts in groups of 1,000, the bank growing.

use std::{path::Path, time::Instant};

use folklore_store::bank::Admission;

use folklore_tests::figures::{Figure, Report};

use crate::sets::{self, Bare, GROUP};

/// A rate is shown for each so many records.
const WINDOW: u64 = 50_000;
/// Segment size (sled's own, the bank's), and whether record and body share a value. The best of all is the peer.
const BARES: [(usize, bool); 3] = [(512 * 1024, true), (8 * 1024 * 1024, true), (8 * 1024 * 1024, false)];

pub fn run(dir: &Path, records: u64, figures: &mut Report) {
    let ours_dir = tempfile::tempdir_in(dir).expect("a directory");
    let bare_dirs = BARES.map(|_| tempfile::tempdir_in(dir).expect("a directory"));
    let store = sets::open(ours_dir.path());
    let mut bares: Vec<Bare> = bare_dirs.iter().zip(BARES).map(|(d, (s, t))| Bare::open(d.path(), s, t)).collect();
    let mut windows: Vec<(f64, [f64; BARES.len()])> = Vec::new();
    let (mut ours, mut theirs) = (0.0, [0.0; BARES.len()]);
    println!("durable inserts, groups of {GROUP}, records/s: ours | bare sled, one value a record with its body,");
    println!("in segments of 512 KiB and of 8 MiB, and two values, of 8 MiB");
    for from in (0..records).step_by(GROUP as usize) {
        let group = sets::group(from);
        for (bare, spent) in bares.iter_mut().zip(&mut theirs) {
            let begin = Instant::now();
            bare.write(&group);
            *spent += begin.elapsed().as_secs_f64();
        }
        let begin = Instant::now();
        let answers = store.admit(sets::home().id, group).expect("admits");
        ours += begin.elapsed().as_secs_f64();
        assert!(answers.iter().all(|a| *a == Admission::Stored));
        if (from + GROUP).is_multiple_of(WINDOW) {
            let rate = |spent: f64| WINDOW as f64 / spent;
            let theirs_shown: String = theirs.iter().map(|spent| format!(" {:>7.0}", rate(*spent))).collect();
            println!("  up to {:>9}: {:>7.0} |{theirs_shown}", from + GROUP, rate(ours));
            windows.push((ours, theirs));
            (ours, theirs) = (0.0, [0.0; BARES.len()]);
        }
    }
    let done = windows.len() as u64 * WINDOW;
    if done == 0 {
        println!("  fewer than {WINDOW} records: no figure");
        return;
    }
    let total: f64 = windows.iter().map(|w| w.0).sum();
    let best = (0..BARES.len()).map(|n| windows.iter().map(|w| w.1[n]).sum::<f64>()).fold(f64::INFINITY, f64::min);
    let (rate, peer) = (done as f64 / total, done as f64 / best);
    let setting = format!("groups of {GROUP}, bodies of about 600 bytes, to {done} records, a sync a group");
    let figure = Figure::new("durable inserts", rate, "records/s").on(&setting);
    figures.add(figure.beside("bare sled, ascending keys", peer).ratio_at_least(0.8));
    // Thirds, so that one slow moment of the disk does not decide; and against the peer, so that a machine that others slow
    // down does not either.
    let third = windows.len().div_ceil(3);
    let best_of = |w: &(f64, [f64; BARES.len()])| w.1.iter().copied().fold(f64::INFINITY, f64::min);
    let ratio = |part: &[(f64, [f64; BARES.len()])]| {
        part.iter().map(best_of).sum::<f64>() / part.iter().map(|w| w.0).sum::<f64>()
    };
    let (first, last) = (ratio(&windows[..third]), ratio(&windows[windows.len() - third..]));
    // Flat: what is lost on the way to the end is no more than a slow moment of the disk takes.
    let figure = Figure::new("durable inserts, times bare sled in the last third", last, "×").on(setting);
    figures.add(figure.beside("in the first third", first).ratio_at_least(0.85));
    let size = |dir: &Path| std::fs::metadata(dir.join("db")).map_or(0, |m| m.len()) / 1_000_000;
    let theirs: Vec<String> = bare_dirs.iter().map(|dir| size(dir.path()).to_string()).collect();
    println!("  files, MB: {} | {}", size(&ours_dir.path().join("bank")), theirs.join(" "));
}
