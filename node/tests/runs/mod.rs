//! Runs for tests: read from files, and where the real ones are.

use folklore_node::formats::{self, Item, Outcomes, ReadOptions};
use folklore_store::run::Run;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// The runs of some files, labelled by a table.
pub fn read(paths: &[PathBuf], table: Option<&Path>) -> Vec<Run> {
    let (runs, skipped) = read_some(paths, table);
    assert!(skipped.is_empty(), "{skipped:?}");
    runs
}

/// The runs of some files, and what was left out of them.
pub fn read_some(paths: &[PathBuf], table: Option<&Path>) -> (Vec<Run>, Vec<String>) {
    let table = table.map(|path| Outcomes::read(path).unwrap());
    let options = ReadOptions { outcomes: table.as_ref(), ..ReadOptions::default() };
    let (mut runs, mut skipped) = (Vec::new(), Vec::new());
    for found in formats::expand(paths) {
        if found.problem.is_some() {
            continue;
        }
        let read = formats::read_path(&found.path, &options, &mut |item| {
            match item {
                Item::Run(run) => runs.push(*run),
                Item::Lesson(_) => {}
                Item::Skipped { item, reason } => skipped.push(format!("{item}: {reason}")),
            }
            ControlFlow::Continue(())
        });
        skipped.extend(read.err().filter(|error| !found.passes_over(error)).map(|error| error.to_string()));
    }
    (runs, skipped)
}

/// The folder of real runs; where it is absent the test says that it was skipped.
pub fn shared_data(test: &str) -> Option<PathBuf> {
    let path = std::env::var_os("FOLKLORE_SHARED_DATA").map(PathBuf::from);
    let path = path.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"));
    if path.is_dir() {
        return Some(path);
    }
    println!("{test}: skipped, {} is not there", path.display());
    None
}
