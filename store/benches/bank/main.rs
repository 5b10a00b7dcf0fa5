//! What the bank costs, each figure against its peer in the same run.
//!
//! `cargo bench -p folklore-store --bench bank [-- insert | open | ingest] [--records N] [--dir DIR] [--json FILE]`
//!
//! Without a word all three run. The peer of `insert` and `open` is sled alone with ascending keys, the same bytes in the
//! values and the same syncs; ours and its groups alternate, so that both see the same machine. The peer of `ingest` is as
//! many threads that only check signatures. `--json` writes what is printed as a list of figures,
//! to a path from the root of the workspace.
#![allow(missing_docs, reason = "a benchmark")]

mod figures;
mod ingest;
mod insert;
mod open;
mod sets;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use figures::Figures;

/// Records when none are asked for: enough for sled's file to be many times its cache.
const RECORDS: u64 = 200_000;

fn main() -> ExitCode {
    let mut what = Vec::new();
    let (mut records, mut dir, mut json) = (RECORDS, std::env::temp_dir(), None);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap_or_default();
        match arg.as_str() {
            "--records" => records = value().parse().expect("a number of records"),
            "--dir" => dir = PathBuf::from(value()),
            "--json" => json = Some(PathBuf::from(value())),
            // What cargo adds.
            "--bench" => {}
            _ => what.push(arg),
        }
    }
    let all = what.is_empty();
    let wanted = |name: &str| all || what.iter().any(|w| w == name);
    let mut figures = Figures::default();
    if wanted("insert") {
        insert::run(&dir, records, &mut figures);
    }
    if wanted("open") {
        open::run(&dir, records, &mut figures);
    }
    if wanted("ingest") {
        ingest::run(&dir, records.min(100_000), &mut figures);
    }
    figures.print();
    if let Some(path) = json {
        // cargo runs benchmarks in the package's directory.
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
        figures.write(&path).expect("writes the figures");
    }
    ExitCode::SUCCESS
}
