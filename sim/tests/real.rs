//! The same scenario on real daemons, whole: the two programs as a user runs them.

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

use folklore_tests::{PATIENCE, program::program, until};
use serde_json::Value;

/// Longer than a dead connection is taken for alive, so that the cut is noticed; and one node dies in it.
const SMALL: &str = r#"
[run]
duration = "34s"
settle = "3m"
seeds = 1
arms = ["folklore"]
[[site]]
name = "a"
nodes = 2
[[site]]
name = "b"
nodes = 2
[links]
within = { latency = "2ms", jitter = "1ms" }
between = { latency = "40ms", jitter = "10ms", loss = "1%", rate = "2Mbit/s" }
[[fault]]
kind = "drop-partition"
at = "6s"
for = "22s"
[[fault]]
kind = "crash"
nodes = ["a/1"]
at = "10s"
for = "4s"
[[fault]]
kind = "pause"
nodes = ["b/1"]
at = "12s"
for = "3s"
[workload]
task_every = "2s"
[measure]
after = "6s"
step = "2s"
look_every = "100ms"
"#;

fn supported() -> bool {
    if cfg!(target_os = "linux") {
        return true;
    }
    println!("skipped: --real tells who dials from /proc, which only Linux has");
    false
}

/// `folklore-sim` with its homes below a directory.
fn folklore_sim(homes: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_folklore-sim"));
    command.args(args).env("FOLKLORE_PROGRAM", program()).env("TMPDIR", homes).stdin(Stdio::null());
    command
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Processes whose command line names a directory.
fn processes(of: &Path) -> Vec<String> {
    let wanted = of.display().to_string();
    let lines = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).replace('\0', " "))
    });
    lines.filter(|line| line.contains("node-") && line.contains(&wanted)).collect()
}

fn left(homes: &Path) -> usize {
    std::fs::read_dir(homes).unwrap().count()
}

#[test]
fn a_scenario_runs_on_real_daemons_and_comes_out_beside_the_simulation_and_leaves_nothing() {
    if !supported() {
        return;
    }
    let (homes, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (file, out) = (place.path().join("small.toml"), place.path().join("out"));
    std::fs::write(&file, SMALL).unwrap();
    let (file, out_text) = (file.display().to_string(), out.display().to_string());
    let ran = folklore_sim(homes.path(), &["run", &file, "--real", "--json", "--out", &out_text]).output().unwrap();
    assert!(ran.status.success(), "{}", said(&ran));
    let results: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(results["arms"], serde_json::json!(["folklore", "real"]));
    let row = |arm: &str| results["rows"].as_array().unwrap().iter().find(|row| row["arm"] == arm).unwrap().clone();
    let (simulated, real) = (row("folklore"), row("real"));
    assert_eq!(real["violations"], serde_json::json!([]));
    let figure = |row: &Value, name: &str| row["figures"][name].as_f64().unwrap_or_else(|| panic!("no {name}: {row}"));
    // The same tasks are drawn; some that find their node dead, or standing still at the end, are not attempted.
    assert!(figure(&real, "attempts") > 0.7 * figure(&simulated, "attempts"), "{real}");
    assert!(figure(&real, "converge.missing") > 0.0, "the cut kept something away: {real}");
    assert_eq!(figure(&real, "converge.left"), 0.0, "{real}");
    assert_eq!((figure(&real, "set.lost"), figure(&real, "set.stale")), (0.0, 0.0), "{real}");
    assert!(figure(&real, "bytes") > 10_000.0, "{real}");
    let plot = std::fs::read_to_string(out.join("convergence.svg")).unwrap();
    assert!(plot.contains("class=\"folklore\"") && plot.contains("class=\"real\""), "both curves are in the plot");
    println!(
        "after the heal, real against simulated: {} s and {} s",
        figure(&real, "converge.all_s"),
        figure(&simulated, "converge.all_s")
    );
    assert_eq!((left(homes.path()), processes(homes.path())), (0, Vec::new()));
}

#[test]
fn ctrl_c_ends_every_daemon_and_removes_their_homes() {
    if !supported() {
        return;
    }
    let homes = tempfile::tempdir().unwrap();
    let mut command = folklore_sim(homes.path(), &["run", "five-nodes", "--seeds", "1", "--real"]);
    let mut running = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("two daemons are there", PATIENCE, || (processes(homes.path()).len() >= 2).then_some(()));
    let sent = Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap();
    assert!(sent.success());
    until("it ends", PATIENCE, || running.try_wait().unwrap());
    assert_eq!((left(homes.path()), processes(homes.path())), (0, Vec::new()));
}

#[test]
fn what_real_processes_cannot_do_is_refused_by_name_before_anything_is_started() {
    if !supported() {
        return;
    }
    let (homes, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = place.path().join("held.toml");
    std::fs::write(&file, SMALL.replace("drop-partition", "hold-partition")).unwrap();
    for (scenario, code, words) in [
        (file.to_str().unwrap(), 2, "'hold-partition' is only simulated"),
        ("two-sites-overnight", 2, "real processes take real time"),
        ("thousand-nodes", 2, "from 2 to 15 nodes"),
    ] {
        let ran = folklore_sim(homes.path(), &["run", scenario, "--real"]).output().unwrap();
        assert_eq!(ran.status.code(), Some(code), "{}", said(&ran));
        assert!(said(&ran).contains(words), "{}", said(&ran));
    }
    let nowhere = ["run", "five-nodes", "--real", "--program", "/nowhere/folklore"];
    let ran = folklore_sim(homes.path(), &nowhere).output().unwrap();
    assert_eq!(ran.status.code(), Some(4), "{}", said(&ran));
    assert!(said(&ran).contains("--program or FOLKLORE_PROGRAM"), "{}", said(&ran));
    assert_eq!(left(homes.path()), 0);
}
