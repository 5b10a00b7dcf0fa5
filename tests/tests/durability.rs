//! Acknowledged means durable: after a kill, and by what the system calls show.

use std::{collections::BTreeSet, path::PathBuf, thread, time::Duration};

use folklore_tests::{
    Node,
    files::find,
    inputs::{Dice, hotel_file, lesson},
    node::text,
    trace,
};
use serde_json::{Value, json};

const FILES: u64 = 24;
const RUNS_A_FILE: u64 = 10;

fn run_files(node: &Node) -> Vec<PathBuf> {
    let name = |file: u64| format!("desk-{file:02}.json");
    (0..FILES)
        .map(|file| hotel_file(node.scratch(), &name(file), file * RUNS_A_FILE..(file + 1) * RUNS_A_FILE))
        .collect()
}

/// The lesson ids that `file` events name.
fn named(event: &Value) -> Vec<String> {
    event["lessons"].as_array().into_iter().flatten().map(text).collect()
}

#[track_caller]
fn import_all(node: &Node, files: &[PathBuf]) -> Value {
    let last = node.door().import(&json!({"paths": files})).last().expect("events");
    assert_eq!(last["event"], "done", "{last}");
    last
}

#[test]
fn what_an_import_reported_survives_a_kill_and_the_rest_comes_once() {
    let control = Node::started("control");
    import_all(&control, &run_files(&control));
    let whole: BTreeSet<String> = control.lesson_ids().into_iter().collect();
    assert!(whole.len() as u64 >= FILES * RUNS_A_FILE / 2, "the made-up runs teach only {} lessons", whole.len());

    for seed in [1, 2, 3, 5] {
        let mut dice = Dice(seed);
        let mut node = Node::started("killed");
        let files = run_files(&node);
        let mut events = node.door().import(&json!({"paths": files}));
        let (wanted, pause) = (dice.below(FILES - 4), Duration::from_micros(dice.below(30_000)));
        let mut reported = BTreeSet::new();
        let mut seen = 0;
        while seen < wanted {
            let event = events.next().expect("the import goes on");
            seen += u64::from(event["event"] == "file");
            reported.extend(named(&event));
        }
        // A moment that no event marks.
        thread::sleep(pause);
        node.kill();
        // What had been said before the kill and was not read yet counts too.
        let rest: Vec<Value> = events.collect();
        let was_done = rest.iter().any(|event| event["event"] == "done");
        rest.iter().for_each(|event| reported.extend(named(event)));

        node.up();
        let kept: BTreeSet<String> = node.lesson_ids().into_iter().collect();
        let lost: Vec<_> = reported.difference(&kept).collect();
        assert!(lost.is_empty(), "seed {seed}: reported and lost: {lost:?}; {:?}", node.status()["recovery"]);
        assert!(kept.is_subset(&whole), "seed {seed}: lessons that no run teaches");
        let doctor = node.json(["doctor", "--verify"]);
        assert_eq!(doctor["ok"], true, "seed {seed}: {doctor}");

        let again = import_all(&node, &files);
        let (runs, duplicates) = (again["runs"].as_u64().unwrap_or(0), again["duplicates"].as_u64().unwrap_or(0));
        assert_eq!(runs + duplicates, FILES * RUNS_A_FILE, "seed {seed}: {again}");
        let listed = node.lesson_ids();
        assert_eq!(listed.len(), whole.len(), "seed {seed}");
        assert_eq!(listed.iter().cloned().collect::<BTreeSet<_>>(), whole, "seed {seed}");
        for id in &listed {
            let shown = node.show(id);
            assert_eq!(shown["claims"].as_array().map(Vec::len), Some(1), "seed {seed}: doubled: {shown}");
        }
        println!(
            "seed {seed}: killed after {seen} of {FILES} files (done: {was_done}), {} lessons kept, {} reported",
            kept.len(),
            reported.len()
        );

        let records = node.bank(&node.default_bank())["records"].clone();
        let paths = files.iter().map(|path| path.clone().into_os_string());
        let third = node.run([std::ffi::OsString::from("import")].into_iter().chain(paths)).ok().json();
        assert_eq!((&third["runs"], &third["lessons"]), (&json!(0), &json!(0)), "{third}");
        assert_eq!(third["duplicates"], FILES * RUNS_A_FILE, "{third}");
        assert_eq!(node.bank(&node.default_bank())["records"], records, "seed {seed}");
    }
}

#[test]
fn what_teach_acknowledged_survives_a_kill() {
    let mut node = Node::started("killed");
    let mut acknowledged = Vec::new();
    for round in 0..3 {
        for n in 0..5 {
            acknowledged.push(node.teach(&lesson(&format!("word{round}x{n}"))));
        }
        let rated = acknowledged.last().expect("one was taught").clone();
        node.json(["rate", &rated, "helped"]);
        node.kill();
        node.up();
        let kept = node.lesson_ids();
        assert!(acknowledged.iter().all(|id| kept.contains(id)), "round {round}");
        assert_eq!(node.show(&rated)["standing"]["helped"], 1, "round {round}");
    }
}

/// The call that answered on the connection that asked with `request`, and the call that read the question.
fn exchange<'t>(calls: &'t [trace::Call], door: &str, request: &str) -> (&'t trace::Call, Vec<&'t trace::Call>) {
    let at_door = |call: &&trace::Call| call.on.contains(&format!("[{door}->"));
    let asked = calls.iter().filter(at_door).find(|call| call.reads() && call.shown.contains(request));
    let asked = asked.unwrap_or_else(|| panic!("the trace does not show the question {request}"));
    let answers =
        calls.iter().filter(at_door).filter(|call| call.writes() && call.on == asked.on && call.began > asked.began);
    (asked, answers.collect())
}

/// Whether between `from` and `to` something was written to the bank's database, with `mark` in it if given, and a durable
/// sync of it began after the last such write had ended; else what is amiss.
fn synced_between(calls: &[trace::Call], from: usize, to: usize, mark: Option<&str>) -> Result<(), String> {
    let in_bank = |call: &&trace::Call| call.on.contains("/store/") && call.on.ends_with("/db");
    let between = |call: &&trace::Call| call.began > from && call.ended < to;
    let marked = |call: &&trace::Call| mark.is_none_or(|mark| find(call.shown.as_bytes(), mark.as_bytes()).is_some());
    let written = calls.iter().filter(in_bank).filter(between).filter(|call| call.writes()).filter(marked);
    let Some(last) = written.map(|call| call.ended).max() else {
        return Err(format!("{mark:?} was not written before the answer, lines {from} to {to} of the trace"));
    };
    let synced = calls.iter().filter(in_bank).filter(between).any(|call| call.is_durable_sync() && call.began > last);
    if synced { Ok(()) } else { Err(format!("the answer came before {mark:?} was durably synced")) }
}

#[test]
fn a_durable_sync_stands_before_every_acknowledgement() {
    let mut node = Node::new("traced");
    let trace = node.scratch().join("trace");
    let Some(wrapper) = trace::wrapper(&trace) else { return };
    node.wrapper = wrapper;
    node.up();
    let id = node.teach(&lesson("zirconium"));
    let other = node.teach(&lesson("ytterbium"));
    let (code, rated) = node.door().post("rate", &json!({"id": id, "verdict": "helped"}));
    assert_eq!(code, 200, "{rated}");
    let (code, withdrawn) = node.door().post("withdraw", &json!({"id": other, "reason": "praseodymium was meant"}));
    assert_eq!(code, 200, "{withdrawn}");
    for (verb, request) in [
        ("begin", json!({"task": "promethium is to be found", "name": "a"})),
        ("step", json!({"run": "a@1", "n": 1, "action": "search", "started": true, "think": "neodymium"})),
        ("step", json!({"run": "a@1", "n": 1, "action": "search", "observation": "samarium"})),
        ("resume", json!({"run": "a", "k": 0})),
        ("end", json!({"run": "a@2", "outcome": "failure", "reason": "europium was found"})),
    ] {
        let (code, done) = node.door().post(verb, &request);
        assert_eq!(code, 200, "{done}");
    }
    let files: Vec<PathBuf> =
        (0..3).map(|n| hotel_file(node.scratch(), &format!("{n}.json"), n * 5 + 70..n * 5 + 75)).collect();
    import_all(&node, &files);
    let door = node.door().address.to_string();
    node.stop();

    let calls = trace::calls(&trace);
    for (request, mark) in [
        ("zirconium", Some("zirconium")),
        ("ytterbium", Some("ytterbium")),
        ("POST /v1/rate", None),
        ("POST /v1/withdraw", Some("praseodymium")),
        ("promethium", Some("promethium")),
        ("neodymium", Some("neodymium")),
        ("samarium", Some("samarium")),
        ("POST /v1/resume", None),
        ("POST /v1/end", Some("europium")),
    ] {
        let (asked, answers) = exchange(&calls, &door, request);
        let answer = answers.first().unwrap_or_else(|| panic!("no answer to {request}"));
        assert!(answer.shown.contains("HTTP/1.1 200"), "{}", answer.shown);
        assert_eq!(synced_between(&calls, asked.began, answer.began, mark), Ok(()), "{request}");
        // Nothing else is being written meanwhile, so all of it must be synced.
        assert_eq!(synced_between(&calls, asked.began, answer.began, None), Ok(()), "{request}");
    }
    let (asked, answers) = exchange(&calls, &door, "POST /v1/import");
    for (n, file) in files.iter().enumerate() {
        // As strace shows it; several events may be in one write.
        let event = format!(r#"\"event\":\"file\",\"path\":\"{}\""#, file.display());
        let reported = answers.iter().find(|call| call.shown.contains(&event));
        let reported = reported.unwrap_or_else(|| panic!("the trace does not show {event}"));
        let mark = format!("BK-{:05}", n * 5 + 70);
        assert_eq!(synced_between(&calls, asked.began, reported.began, Some(&mark)), Ok(()), "{event}");
    }
}

#[test]
fn the_check_on_syncs_fails_where_one_comes_too_late_or_is_none() {
    let call = |at: usize, name: &str, returned: &str| trace::Call {
        name: name.into(),
        on: "/home/store/bank/db".into(),
        shown: "word".into(),
        began: at,
        ended: at,
        returned: returned.into(),
    };
    let (write, sync) = (call(2, "pwrite64", "4"), call(3, "fdatasync", "0"));
    let holds = |calls: Vec<trace::Call>| synced_between(&calls, 1, 5, Some("word")).is_ok();
    assert!(holds(vec![write.clone(), sync.clone()]));
    assert!(!holds(vec![write.clone()]));
    assert!(!holds(vec![write.clone(), call(1, "fdatasync", "0")]), "before what it should sync");
    assert!(!holds(vec![write.clone(), call(6, "fdatasync", "0")]), "after the answer");
    assert!(!holds(vec![write.clone(), call(3, "sync_file_range", "0")]), "not durable");
    assert!(!holds(vec![write.clone(), call(3, "fdatasync", "-1 EIO")]), "it failed");
    assert!(!holds(vec![sync]), "nothing was written");
}
