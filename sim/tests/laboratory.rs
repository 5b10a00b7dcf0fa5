//! The laboratory around the engine: seeds on threads, verdicts, reports, comparing, shrinking. The engine here is a toy.

mod toy;

use std::{
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use folklore_sim::{
    Arm, Results, Scenario, report,
    report::compare::compare,
    runner::{RunnerError, run_all},
    shrink::shrink,
};

const FILE: &str = r#"
about = "Two sites <apart> for a while."

[run]
duration = "2h"
settle = "20m"
seeds = 6

[[site]]
name = "a"
nodes = 3

[[site]]
name = "b"
nodes = 2

[[fault]]
kind = "drop-partition"
at = "30m"
for = "45m"

[measure]
after = "30m"

[expect]
converge_within = "15m"

[[expect.bound]]
figure = "repeat_failure_rate.after"
of = "oracle"
at_most = 1000
"#;

fn run(file: &str, threads: usize) -> (Arc<Scenario>, Result<Results, RunnerError>) {
    let scenario = Arc::new(Scenario::parse("toy", file).unwrap_or_else(|error| panic!("{error}")));
    let results = run_all(toy::engine, &scenario, threads, &Arc::new(AtomicBool::new(false)), &mut |_| {}, None);
    (scenario, results)
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let one = run(FILE, 1).1.expect("results");
    let four = run(FILE, 4).1.expect("results");
    assert!(one == four);
    assert_eq!((one.seeds.len(), one.rows.len()), (6, 24));
    assert!(one.pass(), "{:?}", one.verdicts);
    assert_eq!(one.verdicts.len(), 4, "checks, convergence, its time and one bound: {:?}", one.verdicts);
}

#[test]
fn an_expectation_that_does_not_hold_is_told_with_what_was_found() {
    let file = FILE
        .replace("at_most = 1000", "at_most = 0.001")
        .replace("converge_within = \"15m\"", "converge_within = \"1ms\"");
    let results = run(&file, 2).1.expect("results");
    assert!(!results.pass());
    let failed: Vec<&str> =
        results.verdicts.iter().filter(|verdict| !verdict.holds).map(|verdict| verdict.expected.as_str()).collect();
    assert_eq!(failed.len(), 2, "{failed:?}");
    assert!(failed[0].starts_with("all nodes hold all older lessons within 1ms"), "{failed:?}");
    assert_eq!(failed[1], "repeat_failure_rate.after of folklore over that of oracle at most 0.001");
    let failing = FILE.to_string() + "[[fault]]\nkind = \"crash\"\nat = \"40m\"\nfor = \"1m\"\nnodes = \"a/0\"\n";
    let results = run(&failing, 2).1.expect("results");
    assert!(results.verdicts[0].found.contains("the first with seed 1"), "{:?}", results.verdicts[0]);
}

#[test]
fn a_run_that_says_nothing_is_an_error_that_names_the_seed() {
    let file = FILE.to_string() + "[workload]\nfamilies = 13\n";
    let error = run(&file, 2).1.expect_err("an error").to_string();
    assert!(error.starts_with("seed 1, "), "{error}");
    assert!(error.ends_with("nothing was cut"), "{error}");
}

#[test]
fn a_run_that_is_stopped_keeps_the_seeds_that_are_whole() {
    let scenario = Arc::new(Scenario::parse("toy", &FILE.replace("seeds = 6", "seeds = 5000")).expect("a scenario"));
    let stop = Arc::new(AtomicBool::new(false));
    let (mut runs, flag) = (0, stop.clone());
    let results = run_all(
        toy::engine,
        &scenario,
        2,
        &stop,
        &mut |_| {
            runs += 1;
            flag.store(runs >= 30, std::sync::atomic::Ordering::Relaxed);
        },
        None,
    );
    let results = results.expect("some seeds were finished");
    assert!((1..=10).contains(&results.seeds.len()), "{}", results.seeds.len());
    assert_eq!(results.rows.len(), 4 * results.seeds.len(), "of each seed all arms");
    assert_eq!(results.seeds_asked, 5000);
    let before_any = run_all(toy::engine, &scenario, 2, &Arc::new(AtomicBool::new(true)), &mut |_| {}, None);
    assert!(matches!(before_any, Err(RunnerError::Stopped)));
}

#[test]
fn a_report_is_a_page_that_needs_nothing_beside_it_and_files_for_other_programs() {
    let (scenario, results) = run(FILE, 2);
    let results = results.expect("results");
    let kept = std::env::var_os("FOLKLORE_SIM_KEEP").map(std::path::PathBuf::from);
    let own = tempfile::tempdir().expect("a directory");
    let directory: &Path = kept.as_deref().unwrap_or(own.path());
    report::write(directory, &results, &scenario).expect("a report");
    let read =
        |name: &str| std::fs::read_to_string(directory.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let page = read("report.html");
    for part in ["timeline", "convergence", "space-time", "site-map", "held-share", "repeat-failures"] {
        assert!(page.contains(&format!("<figure id=\"{part}\">")), "{part}");
        let svg = read(&format!("{part}.svg"));
        assert!(svg.starts_with("<?xml") && svg.trim_end().ends_with("</svg>"), "{part}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{part}");
    }
    for foreign in ["<script", "http://", "https://", "url(", "@import", "<apart>"] {
        let page = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!page.contains(foreign), "{foreign}");
    }
    let loaded = Results::load(directory).expect("results");
    assert!(loaded.verdicts == results.verdicts && loaded.seeds == results.seeds && loaded.paths == results.paths);
    for row in compare(&results, &loaded) {
        // Decimal text may be off by the last bit.
        assert!((row.a.mean - row.b.mean).abs() <= 1e-12 * row.a.mean.abs(), "{}", row.figure);
    }
    assert_eq!(Scenario::parse("toy", &read("scenario.toml")).expect("a scenario"), *scenario);
    let runs = read("runs.csv");
    assert!(runs.lines().all(|line| line.split(',').count() == 4), "{}", runs.lines().next().unwrap_or_default());
    assert_eq!(runs.lines().filter(|line| line.contains(",attempts,")).count(), 24);
    assert!(read("summary.csv").lines().count() > 40);
    assert!(read("curves.csv").contains("made_up,folklore,"));
}

#[test]
fn two_experiments_are_compared_seed_by_seed() {
    let a = run(FILE, 2).1.expect("results");
    let same = compare(&a, &a);
    assert!(same.iter().all(|row| row.verdict == "same" && row.difference.mean == 0.0), "{same:?}");
    // Twice as long a cut.
    let b = run(&FILE.replace("for = \"45m\"", "for = \"80m\""), 2).1.expect("results");
    let compared = compare(&a, &b);
    let stale = compared.iter().find(|row| row.figure == "staleness.max_s" && row.arm == Arm::Folklore).expect("a row");
    assert!(stale.paired && stale.difference.n == 6);
    assert_eq!(stale.verdict, "worse", "{stale:?}");
    // Other seeds: two lots.
    let c = run(&FILE.replace("seeds = 6", "seeds = 6\nfirst_seed = 100"), 2).1.expect("results");
    assert!(compare(&a, &c).iter().all(|row| !row.paired));
    let table = report::compare::table(&compared, Some(Arm::Folklore));
    assert!(table.contains("staleness.max_s") && table.contains("WORSE"), "{table}");
}

#[test]
fn what_is_read_as_results_and_is_none_says_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let error = Results::load(directory.path()).expect_err("nothing there").to_string();
    assert!(error.contains("name a directory that `folklore-sim run --out` wrote"), "{error}");
    let file = directory.path().join("results.json");
    for text in ["", "{}", "[1,2", "{\"format\":99}"] {
        std::fs::write(&file, text).expect("a file");
        let error = Results::load(&file).expect_err(text).to_string();
        assert!(error.contains("is not what `folklore-sim run` writes"), "{error}");
    }
}

#[test]
fn a_failing_scenario_shrinks_to_what_it_takes() {
    let mut file = FILE.replace("nodes = 3", "nodes = 9").replace("[expect]\nconverge_within = \"15m\"\n", "");
    for n in 0..8 {
        let kind = ["crash", "pause", "disk-full", "isolate"][n % 4];
        file += &format!(
            "[[fault]]\nkind = \"{kind}\"\nat = \"{}m\"\nfor = \"{}m\"\nnodes = \"a/{n}\"\n",
            2 + 9 * n,
            3 + n
        );
    }
    let scenario = Scenario::parse("toy", &file).expect("a scenario");
    let shrunk = shrink(toy::engine, &scenario, &mut |_, _| {}).expect("it fails");
    let small = &shrunk.scenario;
    assert_eq!((small.nodes(), small.faults.len()), (2, 2), "{}", small.to_toml());
    assert!(small.run.duration_ms < scenario.run.duration_ms);
    assert_eq!(shrunk.found.names(), ["toy"]);
    let written = Scenario::parse("toy", &small.to_toml()).expect("what is written reads back");
    assert_eq!(written, *small);
    let good = Scenario::parse("toy", FILE).expect("a scenario");
    assert_eq!(shrink(toy::engine, &good, &mut |_, _| {}), None, "what does not fail does not shrink");
}
