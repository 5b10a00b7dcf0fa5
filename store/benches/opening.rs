//! From a closed bank to the first answer: bank, catalogue, vectors and one recall, in a process of its own.
//!
//! `cargo bench -p folklore-store --bench opening [-- LESSONS]` (default 10^6; some 10 GB below the target directory)
//!
//! The bank is filled with the lessons of `made`, opened once, which makes vectors and the catalogue's file, and closed. Then it is
//! opened again by a fresh process, three times, which tells what each part took; the files are in the page cache as they
//! are on a machine that was just used. At the end once without the catalogue's file, which is what it saves.
#![allow(missing_docs, reason = "a benchmark")]

mod made;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use folklore_protocol::{Claim, Evidence, Keypair};
use folklore_store::{
    bank::{BankInfo, Batch, OpenOptions, Store},
    catalogue::{Catalogue, Wish},
};
use folklore_tests::figures::{Figure, Report};
use made::{Made, rss_anon_kib};

const GROUP: usize = 1_000;
const ROUNDS: usize = 3;
const TARGET: Duration = Duration::from_secs(3);

fn key() -> Keypair {
    Keypair::from_seed(&[1; 32])
}

fn store(dir: &Path) -> Store {
    Store::open(&dir.join("store"), OpenOptions { entropy: 1, ..OpenOptions::default() }).expect("opens").store
}

fn fill(dir: &Path, made: &mut Made, lessons: usize) {
    let bank = BankInfo::new(key().author(), [0; 16], "home");
    let store = store(dir);
    store.add_bank(bank.clone()).expect("writes");
    for first in (0..lessons).step_by(GROUP) {
        let taught = (first..lessons.min(first + GROUP)).map(|n| {
            let lesson = made.lesson(n);
            (Claim::Taught { lesson_id: lesson.id(), evidence: Evidence::told("bench") }, Some(lesson))
        });
        let batch = Batch { claims: taught.collect(), runs: Vec::new(), skip_if_taught: false };
        store.write(bank.id, &key(), 0, batch).expect("writes");
    }
}

/// Opens, asks once and tells. In a process of its own.
fn open_and_ask(dir: &Path, query: &str) {
    let begin = Instant::now();
    let vectors = dir.join("vectors");
    let preparing = thread::spawn(move || Catalogue::prepare(key().author(), &vectors));
    let store = store(dir);
    let (bank, bank_cpu) = (begin.elapsed(), cpu());
    let prepared = preparing.join().expect("no panic");
    let catalogue = Catalogue::open_prepared(store, key().author(), prepared).expect("opens");
    let opened = begin.elapsed();
    let recalled = catalogue.recall(query, &Wish { k: 1, ..Wish::default() }, &[]).expect("answers");
    let (answered, all_cpu) = (begin.elapsed(), cpu());
    let parts = catalogue.opening();
    println!(
        "first answer after {answered:.2?} ({} hits), {all_cpu:.2} s of CPU: bank {bank:.2?} ({bank_cpu:.2} s of CPU, with what \
         was prepared meanwhile), then catalogue {:.2?} (all of it: file {:.2?}, vectors {:.2?}, what came later {:.2?}, \
         settling {:.2?}), recall {:.2?}; from the file: {}; RssAnon {} MiB",
        recalled.hits.len(),
        opened - bank,
        parts.file,
        parts.vectors,
        parts.later,
        parts.settling,
        answered - opened,
        parts.from_file,
        rss_anon_kib("self") / 1024,
    );
    // On a machine that others use the time of the wall says little; on an idle one two cores share the work, and the bank's
    // part is the longer one.
    println!("{} {}", answered.as_secs_f64(), all_cpu);
}

/// CPU seconds of all threads of this process.
fn cpu() -> f64 {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9
}

fn main() {
    let args: Vec<String> = env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    if let [open, dir, query] = &args[..]
        && open == "open"
    {
        return open_and_ask(Path::new(dir), query);
    }
    let lessons = args.first().and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    let dir: PathBuf = base.join("opening-bench");
    fs::remove_dir_all(&dir).ok();
    fs::create_dir_all(&dir).expect("a place for the bank");
    let mut made = Made::new();
    let begin = Instant::now();
    fill(&dir, &mut made, lessons);
    println!("{lessons} lessons written in {:.1?}", begin.elapsed());
    let begin = Instant::now();
    let catalogue = Catalogue::open(store(&dir), key().author(), &dir.join("vectors")).expect("opens");
    println!("opened for the first time, with vectors made and the file written, in {:.1?}", begin.elapsed());
    let begin = Instant::now();
    catalogue.save().expect("saves");
    println!("the catalogue's file written in {:.1?}", begin.elapsed());
    drop(catalogue);
    let file = dir.join("vectors").join("catalogue");
    println!("it has {} MB", fs::metadata(&file).map_or(0, |meta| meta.len()) / 1_000_000);
    let ask = || {
        let program = env::current_exe().expect("this program");
        let out = Command::new(program).args(["open", &dir.to_string_lossy(), made.query(3)]).output().expect("runs");
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        print!("{}{}", text, String::from_utf8_lossy(&out.stderr));
        let mut numbers = text.lines().last().unwrap_or_default().split(' ').filter_map(|n| n.parse::<f64>().ok());
        (numbers.next().unwrap_or(f64::NAN), numbers.next().unwrap_or(f64::NAN))
    };
    let asked: Vec<(f64, f64)> = (0..ROUNDS).map(|_| ask()).collect();
    let best = asked.iter().map(|(wall, _)| *wall).fold(f64::INFINITY, f64::min);
    let cpu = asked.iter().map(|(_, cpu)| *cpu).fold(f64::INFINITY, f64::min);
    let limit = TARGET.as_secs_f64() * (lessons as f64 / 1e6).max(0.2);
    let mut report = Report::new("opening");
    let setting =
        format!("{lessons} lessons, a process of its own, page cache warm, best of {ROUNDS}; {cpu:.2} s of CPU");
    let figure = Figure::new("from a closed bank to the first answer", best, "s").on(setting).at_most(limit);
    fs::remove_file(file).expect("removes");
    println!("without the file:");
    let (without, _) = ask();
    report.add(figure.beside("without the catalogue's file", without));
    fs::remove_dir_all(&dir).ok();
    report.finish().expect("the figures are written");
}
