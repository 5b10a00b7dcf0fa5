//! The real command: one daemon as a process of its own, and what its signals, pipes and death look like from outside.

use std::{
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    process::{Child, ChildStdout, Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

/// Nothing here takes longer on a machine that is busy with a build.
const PATIENCE: Duration = Duration::from_secs(60);

fn folklore(data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_folklore"));
    command.env_clear().arg("--data").arg(data).stdin(Stdio::null());
    command
}

fn run(data: &Path, args: &[&str]) -> Output {
    folklore(data).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A daemon under test. Killed when dropped.
struct Up {
    process: Child,
    out: BufReader<ChildStdout>,
    ready: Value,
}

impl Up {
    fn start(data: &Path) -> Self {
        let mut process =
            folklore(data).args(["up", "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let ready = serde_json::from_str(&line).unwrap_or_else(|_| {
            let mut said = String::new();
            process.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            panic!("not ready: {line}{said}");
        });
        Self { process, out, ready }
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.process.id().try_into().unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    fn wait(&mut self) -> Option<i32> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the daemon does not end");
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn teach(data: &Path, lesson: &str) -> Output {
    let mut child = folklore(data)
        .args(["teach", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(lesson.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn a_daemon_starts_serves_and_ends_cleanly_on_a_signal() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    assert!(run(data, &["init"]).status.success());
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::INT] {
        let mut up = Up::start(data);
        let status: Value = serde_json::from_slice(&run(data, &["status", "--json"]).stdout).unwrap();
        assert_eq!((&status["node"], &status["pid"]), (&up.ready["node"], &up.ready["pid"]));
        let listening = status["listening"][0].as_str().unwrap();
        assert!(listening.starts_with("/ip4/127.0.0.1/"), "loopback only unless told otherwise: {listening}");
        let second = run(data, &["up"]);
        let said = text(&second.stderr);
        let pid = format!("pid {}", up.process.id());
        assert_eq!(second.status.code(), Some(1));
        assert!(said.contains(&pid) && said.contains("http://127.0.0.1:") && said.lines().count() == 1, "{said}");
        up.signal(signal);
        assert_eq!(up.wait(), Some(0));
        let mut rest = String::new();
        up.out.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "", "stdout has the ready line and nothing else");
        assert!(!data.join("daemon.json").exists());
        assert_eq!(run(data, &["status"]).status.code(), Some(3));
    }
}

#[test]
fn what_was_taught_is_there_after_the_daemon_was_killed() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    assert!(run(data, &["init"]).status.success());
    let mut up = Up::start(data);
    let lesson = r#"{"kind":"pitfall","title":"Lock the crane before the wind rises","content":"Above 15 m/s the jib turns by itself: lock the slew brake at 12.","task":"operate a tower crane in wind"}"#;
    let taught = teach(data, lesson);
    assert!(taught.status.success(), "{}", text(&taught.stderr));
    let id = serde_json::from_slice::<Value>(&taught.stdout).unwrap()["id"].as_str().unwrap().to_owned();
    up.process.kill().unwrap();
    up.wait();
    // daemon.json is still there and leads nowhere.
    assert!(data.join("daemon.json").exists());
    let stale = run(data, &["status"]);
    let expected =
        format!("folklore: no daemon is running on {0}: start one with 'folklore up --data {0}'\n", data.display());
    assert_eq!((stale.status.code(), text(&stale.stderr)), (Some(3), expected));
    let up = Up::start(data);
    let shown = run(data, &["show", &id[..20]]);
    assert!(
        text(&shown.stdout).starts_with("Lock the crane before the wind rises [pitfall]"),
        "{}",
        text(&shown.stderr)
    );
    let again = teach(data, lesson);
    assert_eq!(serde_json::from_slice::<Value>(&again.stdout).unwrap()["new"], false);
    drop(up);
}

#[test]
fn a_closed_pipe_is_no_panic() {
    let dir = tempfile::tempdir().unwrap();
    for args in [&["formats"][..], &["--help"], &["doctor"], &["init", "--json"]] {
        let mut child = folklore(dir.path()).args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        let code = child.wait().unwrap().code();
        let expected = i32::from(args == ["doctor"]);
        assert_eq!((code, said.as_str()), (Some(expected), ""), "{args:?}");
    }
}

#[test]
fn without_a_home_directory_or_flag_the_command_says_what_is_missing() {
    let ended = Command::new(env!("CARGO_BIN_EXE_folklore")).env_clear().arg("status").output().unwrap();
    assert_eq!(ended.status.code(), Some(2));
    assert_eq!(text(&ended.stderr), "folklore: no place for a home is known: name one with --data DIR\n");
    let dir = tempfile::tempdir().unwrap();
    let ended = Command::new(env!("CARGO_BIN_EXE_folklore"))
        .env_clear()
        .env("HOME", dir.path())
        .args(["init", "--json"])
        .output()
        .unwrap();
    let made: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(made["data"], dir.path().join(".local/share/folklore").display().to_string());
}
