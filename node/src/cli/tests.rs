//! Whole commands against a served home: what is printed, where, and with which exit code.

use std::{
    io::{Cursor, Write},
    path::Path,
    sync::{Arc, Mutex},
};

use clap::CommandFactory;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    api::{UpOptions, UpReady},
    home::{DEFAULT_BANK, DaemonNotice, HomeLock},
    http::{self, Token, double::*},
};

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Exit code, stdout, stderr.
type Ended = (u8, String, String);

fn command_with(data: &Path, args: &[&str], input: &str, launch: impl Launch) -> Ended {
    let (out, err) = (Captured::default(), Captured::default());
    let mut context = Context {
        out: Output::new(Box::new(out.clone()), Box::new(err.clone())),
        input: Box::new(Cursor::new(input.to_owned())),
        progress: false,
        data: None,
    };
    let data = data.display().to_string();
    let args = ["folklore", "--data", &data].iter().chain(args).map(OsString::from).collect::<Vec<_>>();
    let code = run(args, launch, &mut context);
    (code, out.text(), err.text())
}

fn command(data: &Path, args: &[&str], input: &str) -> Ended {
    command_with(data, args, input, async |_, _, _, _, _| panic!("only up starts a daemon"))
}

/// A home served by a double, in threads of its own.
struct Served {
    dir: tempfile::TempDir,
    memory: Double,
    notice: DaemonNotice,
    stop: CancellationToken,
    _lock: HomeLock,
    _runtime: tokio::runtime::Runtime,
}

fn served() -> Served {
    let dir = tempfile::tempdir().unwrap();
    let (home, _) = Home::create(dir.path(), DEFAULT_BANK).unwrap();
    let lock = home.lock().unwrap();
    let (memory, stop) = (Double::default(), CancellationToken::new());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(http::bind("127.0.0.1:0".parse().unwrap())).unwrap();
    let token = Token::generate().unwrap();
    let address = listener.local_addr().unwrap();
    let notice = DaemonNotice { pid: std::process::id(), http: address, token: token.reveal().into() };
    runtime.spawn(http::serve(listener, memory.clone(), token, stop.clone()));
    home.write_daemon(&lock, &notice).unwrap();
    Served { dir, memory, notice, stop, _lock: lock, _runtime: runtime }
}

impl Served {
    fn command(&self, args: &[&str]) -> Ended {
        command(self.dir.path(), args, "")
    }

    fn json(&self, args: &[&str]) -> Value {
        let (code, out, err) = self.command(&[args, &["--json"]].concat());
        assert_eq!((code, err.as_str()), (0, ""), "{args:?}");
        serde_json::from_str(&out).unwrap()
    }
}

fn parse(args: &[&str]) -> Result<Cli, clap::Error> {
    Cli::try_parse_from([&["folklore"], args].concat())
}

#[test]
fn the_command_line_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn flags_are_read_as_documented() {
    let cli = parse(&[
        "recall",
        "fix",
        "it",
        "-k",
        "3",
        "--scope",
        "network",
        "--min-score",
        "0.5",
        "--kind",
        "pitfall",
        "--kind",
        "contrast",
        "--format",
        "prompt",
        "--data",
        "/d",
        "--json",
        "-v",
    ])
    .unwrap();
    assert_eq!((cli.global.data, cli.global.json, cli.global.verbose), (Some("/d".into()), true, 1));
    assert!(matches!(cli.command, Command::Recall(_)));
    let up = [
        "up",
        "--listen",
        "127.0.0.1:0",
        "--listen",
        "/ip4/127.0.0.1/tcp/0",
        "--peer",
        "node.example:4001",
        "--http",
        "127.0.0.1:4242",
        "--mdns",
    ];
    let Command::Up(args) = parse(&up).unwrap().command else { panic!() };
    let options = UpOptions::from(args);
    assert_eq!((options.listen.len(), options.peers.len(), options.http.port(), options.mdns), (2, 1, 4242, true));
    let Command::Up(args) = parse(&["up"]).unwrap().command else { panic!() };
    assert_eq!(UpOptions::from(args), UpOptions::default());
    for args in [
        &["import", "a", "b", "--format", "f", "--outcomes", "o", "--induce", "extractive", "--bank", "b"][..],
        &["recall", "x", "--diverse", "--exclude-task", "--explain"],
        &["recall", "x", "--diverse=4"],
        &["import", "a", "--induce", "openai", "--model", "m", "--base-url", "http://127.0.0.1:1/v1", "--procedures"],
        &["induce", "0123abcd", "--ask", "contrast", "--backend", "agent", "--dry-run"],
        &["induce", "0123abcd", "--answer", "-", "--by", "m"],
        &["jobs"],
        &["jobs", "retry", "all"],
        &["attempts", "refund", "an", "order"],
        &["refine", "0123abcd", "--round", "2"],
        &["recall", "--mmr=0.5", "--exclude-task=one", "--exclude-task=two", "x", "y"],
        &["show", "x", "--limit", "0", "--offset", "20"],
        &["init", "--join", "t", "--name", "n"],
        &["rate", "x", "helped"],
        &["withdraw", "x", "--reason", "r"],
        &["forget", "x"],
        &["bank", "create", "n"],
        &["bank", "invite"],
        &["bank", "join", "t"],
        &["bank", "list"],
        &["sync", "p", "--wait", "--timeout", "5"],
        &["doctor", "--verify"],
        &["formats"],
        &["peers"],
    ] {
        assert!(parse(args).is_ok(), "{args:?}");
    }
}

#[test]
fn what_cannot_be_meant_is_a_usage_error() {
    for args in [
        &["recall"][..],
        &["recall", "x", "-k", "0"],
        &["recall", "x", "-k", "101"],
        &["recall", "x", "--min-score", "1.5"],
        &["recall", "x", "--min-score", "NaN"],
        &["recall", "x", "--scope", "world"],
        &["recall", "x", "--kind", "advice"],
        &["recall", "x", "--diverse=1.5"],
        &["recall", "x", "--diverse=101"],
        &["induce"],
        &["induce", "x", "--ask", "advice"],
        &["induce", "x", "--answer", "f", "--backend", "agent"],
        &["induce", "x", "--key", "secret"],
        &["show", "x", "--limit", "1001"],
        &["rate", "x", "good"],
        &["import"],
        &["up", "--listen", "nowhere"],
        &["up", "--http", "0.0.0.0:80"],
        &["list", "--limit", "0"],
        &["bank"],
        &["dance"],
    ] {
        let (code, out, err) = command(Path::new("/nonexistent"), args, "");
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}");
        assert!(!err.is_empty());
    }
    let (code, out, _) = command(Path::new("/nonexistent"), &["--json", "rate", "x", "good"], "");
    let error: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &error["error"]["code"]), (2, &json!("bad-request")));
    let (code, out, err) = command(Path::new("/nonexistent"), &["--help"], "");
    assert!(code == 0 && out.contains("recall") && out.contains("Exit codes") && err.is_empty());
}

#[test]
fn without_a_daemon_one_line_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("home");
    let (code, out, err) = command(&data, &["status"], "");
    let expected = format!(
        "folklore: there is no folklore home in {0}: make one with 'folklore init --data {0}'\n",
        data.display()
    );
    assert_eq!((code, out.as_str(), err), (3, "", expected));
    command(&data, &["init"], "");
    let expected =
        format!("folklore: no daemon is running on {0}: start one with 'folklore up --data {0}'\n", data.display());
    for args in [&["status"][..], &["recall", "x"], &["peers"], &["teach"], &["import", "/x"], &["bank", "invite"]] {
        let (code, out, err) = command(&data, args, "{}");
        assert_eq!((code, out.as_str(), err), (3, "", expected.clone()), "{args:?}");
    }
    let (code, out, _) = command(&data, &["status", "--json"], "");
    let error: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &error["error"]["code"]), (3, &json!("unavailable")));
    // A daemon that died without a word: nobody at the port, or somebody else.
    let home = Home::open(&data).unwrap();
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let other = served();
    for http in [gone, other.notice.http] {
        let notice = DaemonNotice { pid: 1, http, token: "old".into() };
        home.write_daemon(&home.lock().unwrap(), &notice).unwrap();
        let (code, _, err) = command(&data, &["status"], "");
        assert_eq!((code, err), (3, expected.clone()));
    }
    std::fs::write(data.join("daemon.json"), "{").unwrap();
    let (code, _, err) = command(&data, &["status"], "");
    assert!(code == 3 && err.contains("start one with") && err.lines().count() == 1, "{err}");
}

#[test]
fn init_is_done_once_and_says_so_the_second_time() {
    let dir = tempfile::tempdir().unwrap();
    let made: Vec<Value> = (0..2)
        .map(|_| {
            let (code, out, _) = command(dir.path(), &["init", "--json"], "");
            assert_eq!(code, 0);
            serde_json::from_str(&out).unwrap()
        })
        .collect();
    assert_eq!((&made[0]["new"], &made[1]["new"]), (&json!(true), &json!(false)));
    assert_eq!(made[0]["node"], made[1]["node"]);
    assert_eq!(made[0]["bank"]["name"], "home");
    let (_, out, _) = command(dir.path(), &["init"], "");
    assert!(out.starts_with("there is a home already in "), "{out}");
}

#[test]
fn a_ticket_is_checked_before_a_home_is_made_and_kept_for_the_daemon() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("home");
    let (code, _, err) = command(&data, &["init", "--join", "nonsense"], "");
    assert!(code == 2 && err.contains("not a ticket") && !data.exists(), "{err}");
    let owner = folklore_protocol::identity::Keypair::from_seed(&[1; 32]).author();
    let ticket = crate::ticket::Ticket::new(owner, [7; 16], "team", vec![]).unwrap();
    let (code, out, _) = command(&data, &["init", "--json", "--join", &ticket.to_string()], "");
    let made: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &made["joins"]["name"], &made["joins"]["id"]),
        (0, &json!("team"), &json!(ticket.bank().id.to_string()))
    );
    assert_eq!(Home::open(&data).unwrap().tickets().unwrap(), std::slice::from_ref(&ticket));
    // A daemon that runs is told at once.
    let served = served();
    let (code, _, err) = served.command(&["init", "--join", &ticket.to_string()]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(served.memory.was_asked().contains(&ticket.to_string()));
}

#[test]
fn up_says_in_one_line_that_it_is_ready_and_who_has_the_home_already() {
    let dir = tempfile::tempdir().unwrap();
    let (code, _, err) = command(dir.path(), &["up"], "");
    assert!(code == 3 && err.contains("folklore init"), "{err}");
    command(dir.path(), &["init"], "");
    let launch = async |home: Home, _lock, options: UpOptions, _stop, ready: tokio::sync::oneshot::Sender<UpReady>| {
        let node = home.node()?.to_string();
        let data = home.dir().display().to_string();
        let _ = ready.send(UpReady { node, listening: options.listen, http: options.http, data, pid: 7 });
        tokio::task::yield_now().await;
        Ok(())
    };
    let (code, out, err) = command_with(dir.path(), &["up", "--listen", "127.0.0.1:1"], "", launch);
    assert_eq!((code, err.as_str(), out.lines().count()), (0, "", 1));
    assert!(out.starts_with("folklore is up: node 12D3KooW"), "{out}");
    let (_, out, _) = command_with(dir.path(), &["up", "--json"], "", launch);
    let ready: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&ready["pid"], &ready["http"]), (&json!(7), &json!("127.0.0.1:0")));
    let failing = async |_, _, _, _, _| Err(ApiError::failed("the store\nis damaged"));
    let (code, out, err) = command_with(dir.path(), &["up"], "", failing);
    assert_eq!((code, out.as_str(), err.as_str()), (1, "", "folklore: the store is damaged\n"));
    let served = served();
    let (code, _, err) = served.command(&["up"]);
    let pid = format!("pid {} at http://{}", std::process::id(), served.notice.http);
    assert!(code == 1 && err.contains(&pid) && err.lines().count() == 1, "{err}");
}

#[test]
fn every_client_verb_answers_in_text_and_as_the_daemons_json() {
    let served = served();
    for (args, field, says) in [
        (&["status"][..], "held_root", "banks\n  home  12 records  7 lessons  held efefefefefef  own"),
        (&["recall", "refund"], "lesson", "1. Do not refund an order twice [pitfall, score 0.72]"),
        (&["show", LESSON], "claims", "failure of 1 run, by gpt-4o, judged by tau-bench, drawn by extractive"),
        (&["list"], "total", "1 of 3 lessons; the next page: --offset 1"),
        (&["rate", LESSON, "helped"], "standing", "is now unproven"),
        (&["withdraw", LESSON], "standing", "is now withdrawn"),
        (&["forget", LESSON], "erased", "is forgotten: its text is erased here"),
        (&["bank", "create", "x"], "held_root", "made bank x"),
        (&["bank", "invite"], "ticket", "folklore1aaaa"),
        (&["bank", "join", "t"], "dialing", "joined bank team"),
        (&["bank", "list"], "banks", "home  12 records"),
        (&["peers"], "peers", "connected by relay (128.00 KiB or 120 s a circuit)  last sync 2023-11-14T22:13:20.000Z"),
        (
            &["peers"],
            "dialing",
            "nobody yet at /ip4/192.0.2.1/tcp/1: tried 3 times, again at 2023-11-14T22:13:20.000Z: unre",
        ),
        (&["status"], "limit_hits", "hit: peers 2 times"),
        (&["sync", "--wait"], "complete", "complete  5 records received, 2 records sent"),
        (&["doctor"], "checks", "ok  store     12 records"),
        (&["formats"], "formats", "tau-bench"),
    ] {
        let (code, out, err) = served.command(args);
        assert_eq!((code, err.as_str()), (0, ""), "{args:?}");
        assert!(out.contains(says), "{args:?}: {out}");
        assert!(served.json(args).to_string().contains(&format!("\"{field}\":")), "{args:?}");
    }
    assert_eq!(served.json(&["recall", "nonsense"])["reason"], "below-threshold");
    let (_, out, err) = served.command(&["recall", "nonsense", "--format", "prompt"]);
    assert!(out.is_empty() && err.contains("below-threshold"), "{out}{err}");
    let (_, out, _) = served.command(&["recall", "refund", "--format", "json"]);
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["hits"][0]["lesson"]["kind"], "pitfall");
}

#[test]
fn flags_reach_the_daemon() {
    let served = served();
    served.command(&[
        "recall",
        "a",
        "b",
        "-k",
        "3",
        "--scope",
        "network",
        "--min-score",
        "0.5",
        "--kind",
        "pitfall",
        "--domain",
        "retail",
        "--bank",
        "home",
        "--timeout",
        "2",
    ]);
    let asked = served.memory.was_asked();
    for part in ["task: \"a b\"", "k: 3", "Network", "Some(0.5)", "[Pitfall]", "retail", "home", "Some(2000)"] {
        assert!(asked.contains(part), "{part}: {asked}");
    }
    let (code, out, _) = command(served.dir.path(), &["recall", "-"], "from stdin\n");
    assert_eq!(code, 0, "{out}");
    assert!(served.memory.was_asked().contains("task: \"from stdin\""));
}

#[test]
fn a_run_under_way_is_written_and_taken_over_by_its_verbs() {
    let served = served();
    let (code, out, _) = served.command(&["begin", "refund", "an", "order", "--name", "shop-1", "--agent", "clerk"]);
    assert_eq!((code, out.as_str()), (0, "shop-1@1\n"));
    let paid = r#"{"n": 2, "action": "pay", "started": true}"#;
    let (code, out, _) = command(served.dir.path(), &["step", "shop-1@1"], paid);
    assert_eq!((code, out.as_str()), (0, "step 2 is marked as started; next 2, state 111111111111\n"));
    let (code, out, _) = served.command(&["resume", "shop-1"]);
    assert_eq!(code, 0);
    for part in ["shop-1@2\n", "next   2\n", "step 1\n  action\n    look up the order", "uncertain: step 2 was started"]
    {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert_eq!(served.json(&["resume", "--task", "refund an order", "-k", "0"])["lease"], 2);
    let (code, out, _) = served.command(&["runs"]);
    assert!(code == 0 && out.contains("shop-1@2  under way  1 steps  1 uncertain"), "{out}");
    let (code, out, _) = served.command(&["runs", "drop", "theirs"]);
    assert!(
        code == 0 && out.starts_with("the copy of theirs at ") && out.ends_with(" is dropped, with 5 steps\n"),
        "{out}"
    );
    assert_eq!(served.json(&["runs", "drop", "theirs"])["name"], "theirs");
    assert_eq!(served.command(&["runs", "drop"]).0, 2);
    let (code, out, _) = served.command(&["end", "shop-1@2", "--outcome", "failure", "--reward-milli", "-5"]);
    assert_eq!((code, out), (0, format!("shop-1 ended: failure, 2 steps, 1 lesson\n{LESSON}\n")));
    let asked = served.memory.was_asked();
    for part in ["task: \"refund an order\"", "agent: \"clerk\"", "started: true", "reward_milli: Some(-5)"] {
        assert!(asked.contains(part), "{part}: {asked}");
    }
    assert_eq!(served.command(&["resume"]).0, 2);
    assert_eq!(served.command(&["end", "shop-1@2", "--outcome", "fine"]).0, 2);
}

#[test]
fn exit_codes_tell_what_went_wrong() {
    let served = served();
    for (args, input, code, says) in [
        (&["show", "zzzzzzzz"][..], "", 4, "no lesson has the id zzzzzzzz"),
        (&["teach"], r#"{"kind":"pitfall","title":"refused","content":"c"}"#, 5, "policy"),
        (&["teach"], r#"{"kind":"pitfall","title":"t"}"#, 2, "missing field `content`"),
        (&["teach"], "not json", 2, "stdin holds no lesson"),
        (&["teach"], "", 2, "it is empty"),
        (&["teach"], &"x".repeat(70_000), 2, "longer than 65536 bytes"),
        (&["recall", " "], "", 2, "the task is empty"),
        (&["step", "shop-1@7"], r#"{"n": 1, "action": "a"}"#, 1, "other content"),
        (&["step", "shop-1@1"], r#"{"n": 1, "acton": "a"}"#, 2, "acton"),
        (&["step", "shop-1@1"], "[]", 2, "stdin holds no step"),
        (&["import", "/a", "--format", "unknown"], "", 2, "no format is called"),
        (&["sync", "--wait", "--timeout", "1"], "", 1, ""),
    ] {
        let (got, out, err) = command(served.dir.path(), args, input);
        assert_eq!(got, code, "{args:?}: {out}{err}");
        assert!(err.contains(says) && err.lines().count() <= 1, "{err}");
    }
    let (code, out, _) =
        command(served.dir.path(), &["teach", "--bank", "team"], r#"{"kind":"pitfall","title":"t","content":"c"}"#);
    assert_eq!((code, out), (0, format!("learned {LESSON}\nremoved a secret: github-token (1 place)\n")));
    assert!(served.memory.was_asked().contains("bank: Some(\"team\")"));
}

#[test]
fn an_import_names_each_file_and_exits_with_6_when_something_was_skipped() {
    let served = served();
    let (code, out, err) = served.command(&["import", "/x/a.json"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(
        out,
        "imported a.json: 1 run, 1 lesson, 0 duplicates\n1 file: 1 run, 1 lesson, 0 duplicates, 0 skipped\n"
    );
    let (code, out, err) = served.command(&["import", "/x/bad", "b.json"]);
    assert_eq!((code, err.as_str()), (6, "folklore: skipped: bad is empty\n"));
    assert!(out.contains("imported b.json: 1 run"), "{out}");
    let absolute = std::path::absolute("b.json").unwrap().display().to_string();
    assert!(served.memory.was_asked().contains(&absolute));
    let (code, out, _) = served.command(&["import", "/x/bad", "/y", "--json"]);
    let sum: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &sum["runs"], &sum["skipped"][0]["path"]), (6, &json!(1), &json!("/x/bad")));
    let (_, out, _) = served.command(&["import", "/y", "--events"]);
    let events: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["event"].as_str()).collect();
    assert_eq!(kinds, ["progress", "file", "done"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_path_that_is_no_text_is_skipped_and_the_others_are_imported() {
    use std::os::unix::ffi::OsStringExt;
    let served = served();
    let (out, err) = (Captured::default(), Captured::default());
    let mut context = Context {
        out: Output::new(Box::new(out.clone()), Box::new(err.clone())),
        input: Box::new(io::empty()),
        progress: false,
        data: None,
    };
    let args = vec![
        "folklore".into(),
        "--data".into(),
        served.dir.path().into(),
        "import".into(),
        OsString::from_vec(b"/x/\xff\x1b[2J.json".to_vec()),
        "/x/ok.json".into(),
    ];
    let code = run(args, async |_, _, _, _, _| Ok(()), &mut context);
    assert_eq!(code, 6);
    assert!(out.text().contains("imported ok.json") && out.text().contains("1 skipped"), "{}", out.text());
    assert!(err.text().contains("not UTF-8") && !err.text().contains('\u{1b}'), "{}", err.text());
}

#[test]
fn an_import_that_loses_its_daemon_says_what_is_kept() {
    let served = served();
    let stop = served.stop.clone();
    let memory = served.memory.clone();
    let stopper = std::thread::spawn(move || {
        while !memory.was_asked().contains("\"/x/wait\"") {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        stop.cancel();
    });
    let (code, out, err) = served.command(&["import", "/x/a", "/x/wait"]);
    stopper.join().unwrap();
    served.memory.next_file.notify_one();
    assert_eq!(code, 3, "{out}{err}");
    assert!(err.contains("stopping") && err.contains("are kept"), "{err}");
}

#[test]
fn doctor_finds_a_key_that_others_can_read_and_a_daemon_that_is_gone() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let (code, out, _) = command(dir.path(), &["doctor"], "");
    assert!(code == 1 && out.contains("TROUBLE  home"), "{out}");
    command(dir.path(), &["init"], "");
    let key = dir.path().join("identity.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let home = Home::open(dir.path()).unwrap();
    let notice = DaemonNotice { pid: 1, http: "127.0.0.1:9".parse().unwrap(), token: "old".into() };
    home.write_daemon(&home.lock().unwrap(), &notice).unwrap();
    let (code, out, _) = command(dir.path(), &["doctor"], "");
    assert!(code == 1 && out.contains("chmod 600") && out.contains("left daemon.json behind"), "{out}");
    let (code, out, _) = command(dir.path(), &["doctor", "--json"], "");
    let response: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &response["ok"]), (1, &json!(false)));
}

#[test]
fn eval_needs_no_daemon_and_tells_figures_with_intervals() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.jsonl");
    let set = "{\"doc\": \"a\", \"task\": \"cancel a flight\"}\n{\"doc\": \"b\", \"task\": \"fix a failing test\"}\n\
        {\"query\": \"call off a booked flight\", \"relevant\": [\"a\"]}\n";
    std::fs::write(&file, set).unwrap();
    let file = file.to_str().unwrap();
    let eval_of = |args: &[&str]| command(Path::new("/nowhere/home"), args, "");
    let (code, out, err) = eval_of(&["eval", "own", "--file", file, "--resamples", "50", "--json"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&answer["sets"][0]["set"], &answer["sets"][1]["set"]), (&json!("own"), &json!("mine.jsonl")));
    assert_eq!(answer["sets"][1]["systems"][2]["recall_1"]["value"], json!(1.0));
    assert_eq!(answer["mean"][2]["system"], json!("hybrid"));
    let (code, out, _) = eval_of(&["eval", "--labelled", "/nowhere", "--resamples", "50"]);
    assert!(code == 0 && out.contains("left out steps: cannot read /nowhere") && out.contains("nDCG@10"), "{out}");
    assert_eq!(eval_of(&["eval", "steps", "--labelled", "/nowhere"]).0, 4);
    assert_eq!(eval_of(&["eval", "other"]).0, 4);
    assert_eq!(eval_of(&["eval", "--file", "/nowhere/x.jsonl"]).0, 4);
}

#[test]
fn a_prompt_for_ones_own_model_says_where_its_answer_goes_and_an_unusable_one_what_to_say() {
    let served = served();
    let dir = served.dir.path();
    let (code, out, _) = command(dir, &["induce", "0123abcd", "--backend", "agent"], "");
    assert_eq!(code, 0);
    assert!(out.contains("folklore induce 0123abcd --ask lessons --answer -") && out.contains("> the run"), "{out}");
    let (code, out, _) = command(dir, &["induce", "0123abcd", "--answer", "-", "--by", "m"], "{\"lessons\": []}");
    assert_eq!((code, out.lines().next()), (0, Some("1 lesson new")));
    let (code, out, _) = command(dir, &["induce", "0123abcd", "--answer", "-"], "no idea");
    assert_eq!(code, 1);
    assert!(out.contains("put it right"), "{out}");
    assert!(served.memory.was_asked().contains("by: Some(\"m\")"));
}

#[test]
fn jobs_are_listed_with_why_they_failed_and_retried_by_id() {
    let served = served();
    let dir = served.dir.path();
    let (code, out, _) = command(dir, &["jobs"], "");
    assert_eq!(code, 0);
    assert!(out.starts_with("0 jobs waiting, 1 failed") && out.contains("no usable lesson"), "{out}");
    let (_, out, _) = command(dir, &["jobs", "retry", "abababab"], "");
    assert_eq!(out.trim(), "abababab waits again");
    let (_, out, _) = command(dir, &["jobs", "drop", "abababab"], "");
    assert_eq!(out.trim(), "abababab is dropped");
    let (code, _, err) = command(dir, &["attempts", "nothing"], "");
    assert_eq!((code, err.lines().count()), (4, 1));
}
