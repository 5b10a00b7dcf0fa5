//! What the bank costs, each figure against its peer in the same run.
//!
//! `cargo bench -p folklore-store --bench bank [-- insert | open | ingest] [--records N] [--dir DIR]`
//!
//! Without a word all three run. The peer of `insert` and `open` is sled alone with ascending keys, the same bytes in the
//! values and the same syncs; ours and its groups alternate, so that both see the same machine. The peer of `ingest` is as
//! many threads that only check signatures. Each writes `target/figures/bank-*.json`.
#![allow(missing_docs, reason = "a benchmark")]

mod ingest;
mod insert;
#[path = "../../tests/bank/made.rs"]
mod made;
mod open;
mod sets;

use std::path::{Path, PathBuf};

use folklore_tests::figures::Report;

/// Records when none are asked for: enough for sled's file to be many times its cache.
const RECORDS: u64 = 200_000;

/// What fills a report, given a directory and how many records.
type Part = fn(&Path, u64, &mut Report);

fn main() {
    let mut what = Vec::new();
    let (mut records, mut dir) = (RECORDS, std::env::temp_dir());
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap_or_default();
        match arg.as_str() {
            "--records" => records = value().parse().expect("a number of records"),
            "--dir" => dir = PathBuf::from(value()),
            // What cargo adds.
            "--bench" => {}
            _ => what.push(arg),
        }
    }
    let all = what.is_empty();
    let wanted = |name: &str| all || what.iter().any(|w| w == name);
    let parts: [(&str, Part, u64); 3] =
        [("insert", insert::run, records), ("open", open::run, records), ("ingest", ingest::run, records.min(100_000))];
    for (name, run, records) in parts.into_iter().filter(|(name, ..)| wanted(name)) {
        let mut figures = Report::new(format!("bank-{name}"));
        run(&dir, records, &mut figures);
        figures.finish().expect("the figures are written");
    }
}
