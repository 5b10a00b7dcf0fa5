//! The `folklore-sim` command as somebody uses it: what it prints, what it writes, how it ends.

use std::{
    path::Path,
    process::{Command, Output, Stdio},
    time::Duration,
};

const SMALL: &str = r#"
about = "Two pairs of nodes, apart for four minutes."

[run]
duration = "12m"
settle = "5m"
seeds = 2

[[site]]
name = "a"
nodes = 2

[[site]]
name = "b"
nodes = 2

[[fault]]
kind = "drop-partition"
at = "3m"
for = "4m"

[workload]
task_every = "20s"

[measure]
after = "3m"
step = "1m"
"#;

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_folklore-sim"));
    command.args(args).env("RUST_BACKTRACE", "0").stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command(args).output().expect("the command starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (status.code().unwrap_or(-1), text(stdout), text(stderr))
}

fn written(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    std::fs::write(&path, text).expect("a file");
    path.to_str().expect("a path").to_string()
}

#[test]
fn a_run_reports_and_its_results_are_the_same_on_any_number_of_threads() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = written(directory.path(), "small.toml", SMALL);
    let out = |name: &str| directory.path().join(name).to_str().expect("a path").to_string();
    for (threads, name) in [("1", "one"), ("3", "three")] {
        let (code, stdout, stderr) = run(&["run", &file, "--out", &out(name), "--threads", threads]);
        assert_eq!(code, 0, "{stdout}{stderr}");
        assert!(stdout.contains("repeat_failure_rate.during") && stdout.contains("ok     all checks hold"), "{stdout}");
        assert!(stdout.contains("report.html"), "{stdout}");
    }
    let results = |name: &str| std::fs::read(Path::new(&out(name)).join("results.json")).expect("results");
    assert!(results("one") == results("three"), "the number of threads changed the results");
    let (code, stdout, _) = run(&["compare", &out("one"), &out("three")]);
    assert_eq!(code, 0);
    assert!(stdout.contains("converge.all_s") && !stdout.contains("WORSE") && !stdout.contains("better"), "{stdout}");

    // One run again, by itself, is the run it was.
    let digest = |text: &str| {
        let rows: serde_json::Value = serde_json::from_str(text).expect("JSON");
        rows["run"]["digest"].as_str().expect("a digest").to_string()
    };
    let (code, stdout, stderr) = run(&["replay", &file, "--seed", "2", "--json"]);
    assert_eq!(code, 0, "{stderr}");
    let all: serde_json::Value = serde_json::from_slice(&results("one")).expect("JSON");
    let of_two = all["rows"].as_array().expect("rows").iter().find(|row| row["seed"] == 2 && row["arm"] == "folklore");
    assert_eq!(of_two.expect("a row")["digest"], digest(&stdout));
}

#[test]
fn exit_codes_tell_what_does_not_hold_from_what_cannot_be_meant() {
    let directory = tempfile::tempdir().expect("a directory");
    let small = written(directory.path(), "small.toml", SMALL);
    let bound = "[[expect.bound]]\nfigure = \"attempts\"\nat_most = 1\n";
    let failing = written(directory.path(), "failing.toml", &format!("{SMALL}\n{bound}"));
    let (code, stdout, _) = run(&["run", &failing, "--seeds", "1", "--arm", "folklore"]);
    assert_eq!(code, 1, "{stdout}");
    assert!(stdout.contains("FAILED attempts of folklore at most 1: "), "{stdout}");

    let bad = written(directory.path(), "bad.toml", &SMALL.replace("kind = ", "knid = "));
    let (code, _, stderr) = run(&["run", &bad]);
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("bad.toml: line 17: [[fault]] needs the key `kind`"), "{stderr}");

    let (code, _, stderr) = run(&["run", "no-such-thing"]);
    assert_eq!(code, 4, "{stderr}");
    assert!(stderr.contains("two-sites-overnight"), "{stderr}");
    assert_eq!(run(&["run", &small, "--tasks", "nowhere.jsonl"]).0, 4);
    assert_eq!(run(&["run", &small, "--seeds", "0"]).0, 2);
    assert_eq!(run(&["run"]).0, 2);
    assert_eq!(run(&["replay", "swarm:many"]).0, 2);
    assert_eq!(run(&["compare", directory.path().to_str().expect("a path"), "nowhere"]).0, 4);
}

#[test]
fn scenarios_and_figures_are_listed() {
    let (code, stdout, _) = run(&["scenarios"]);
    assert_eq!(code, 0);
    assert!(stdout.lines().count() >= 12 && stdout.contains("sneakernet"), "{stdout}");
    let (code, stdout, _) = run(&["scenarios", "third-hostile"]);
    assert!(code == 0 && stdout.contains("kind = \"forge\""), "{stdout}");
    let (code, stdout, _) = run(&["figures"]);
    assert!(code == 0 && stdout.contains("repeat_failure_rate.after[@SITE]"), "{stdout}");
}

#[cfg(unix)]
#[test]
fn an_interrupt_keeps_the_seeds_that_are_finished() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = written(directory.path(), "small.toml", SMALL);
    let out = directory.path().join("out");
    // Seeds of isolated nodes take milliseconds; ninety thousand take longer than anybody waits. On a machine that is so busy
    // that none was finished yet, it is given longer.
    let results = [2, 10, 60].into_iter().find_map(|seconds| interrupted(&file, &out, seconds));
    let results = results.expect("some seed was finished within a minute");
    let seeds = results["seeds"].as_array().expect("seeds").len();
    assert!((1..90_000).contains(&seeds), "{seeds}");
    assert!(out.join("report.html").is_file());
}

/// The results of a long run that is interrupted after a while; `None` if no seed was finished.
#[cfg(unix)]
fn interrupted(file: &str, out: &Path, seconds: u64) -> Option<serde_json::Value> {
    let mut child = command(&["run", file, "--seeds", "90000", "--arm", "isolated", "--json", "--out"])
        .arg(out)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command starts");
    let (_keeps_it_open, never) = std::sync::mpsc::channel::<()>();
    assert!(never.recv_timeout(Duration::from_secs(seconds)).is_err());
    let told = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(told.success());
    let stdout = std::io::read_to_string(child.stdout.take().expect("stdout")).expect("text");
    let status = child.wait().expect("it ends");
    assert!(status.code().is_some_and(|code| code < 2), "{status:?}");
    serde_json::from_str(&stdout).ok()
}
