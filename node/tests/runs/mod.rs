//! Runs for tests: read from files, and where the real ones are.

use folklore_node::formats::{self, Item, Outcomes, ReadOptions};
use folklore_store::learn::Draft;
use folklore_store::run::{Run, RunStatus};
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

/// Checks by plain search, not with the library's own check, that every quote stands in a step that its line names.
pub fn assert_verbatim(draft: &Draft, runs: &[&Run]) {
    let pointer = |text: &str| -> Option<(String, usize)> {
        let (side, number) = text.rsplit_once("step ")?;
        Some((side.trim().to_owned(), number.parse().ok()?))
    };
    for line in draft.fields.content.lines() {
        let mut spans: Vec<&str> = Vec::new();
        let mut pointers = 0;
        // Odd parts are quotes, even parts are the words between them.
        for (at, part) in line.split('`').enumerate() {
            if at % 2 == 1 {
                spans.push(part);
                continue;
            }
            for inside in part.split('[').skip(1).filter_map(|rest| rest.split(']').next()) {
                let stands = |run: &&Run, span: &str| match (inside, pointer(inside)) {
                    ("judge", _) => {
                        let outcome = &run.outcome;
                        let texts =
                            outcome.expected.iter().flatten().chain(&outcome.missing_answers).chain(&outcome.reason);
                        texts.into_iter().any(|text| text.contains(span))
                    }
                    ("task", _) => run.task.contains(span),
                    (_, Some((side, number))) => {
                        let fits = match side.as_str() {
                            "ok" => run.outcome.status == RunStatus::Success,
                            "failed" => run.outcome.status == RunStatus::Failure,
                            _ => true,
                        };
                        fits && run.steps.get(number - 1).is_some_and(|step| {
                            [&step.think, &step.action, &step.observation].iter().any(|text| text.contains(span))
                        })
                    }
                    _ => false,
                };
                pointers += 1;
                for span in spans.drain(..) {
                    assert!(runs.iter().any(|run| stands(run, span)), "{span:?} is not at [{inside}]: {line}");
                }
            }
        }
        assert!(pointers > 0 && spans.is_empty(), "no pointer: {line}");
    }
}
