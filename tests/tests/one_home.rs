//! One process owns a home; everybody else gets one line that says what to do. And a daemon ends as it should.

use std::{process::Stdio, thread};

use folklore_tests::{
    Node, PATIENCE,
    command::{KilledOnDrop, finish},
    folklore,
    inputs::{hotel_file, lesson},
    until,
};
use serde_json::json;

#[test]
fn a_second_daemon_on_a_home_is_told_what_to_do() {
    let node = Node::started("a");
    let second = finish(node.up_command(), None).code(1);
    let line = second.one_line();
    assert!(line.contains(&node.pid().to_string()) && line.contains("stop it"), "{line}");
    // The first one does not mind.
    node.teach(&lesson("north"));
    assert_eq!(node.notice().map(|notice| notice.0), Some(node.door().address));
}

#[test]
fn many_clients_at_once_are_all_served() {
    let node = Node::started("a");
    thread::scope(|scope| {
        let clients: Vec<_> = (0..8)
            .map(|n| {
                let node = &node;
                scope.spawn(move || {
                    let word = format!("word{n}");
                    let id = node.teach(&lesson(&word));
                    node.json(["status"]);
                    let found = node.json(["recall", &format!("open the {word} valve of a cold boiler")]);
                    assert!(found["hits"].is_array());
                    id
                })
            })
            .collect();
        let mut ids: Vec<String> = clients.into_iter().map(|client| client.join().expect("a client")).collect();
        ids.sort();
        let mut listed = node.lesson_ids();
        listed.sort();
        assert_eq!(ids, listed);
    });
}

#[test]
fn without_a_daemon_a_verb_says_how_to_start_one() {
    let node = Node::new("a");
    for verb in
        [&["status"][..], &["list"], &["recall", "anything"], &["peers"], &["import", "x.json"], &["show", "bafkr4ix"]]
    {
        let ran = node.run(verb.iter().copied()).code(3);
        let line = ran.one_line();
        assert!(line.contains("folklore up"), "{verb:?}: {line}");
        assert_eq!(ran.json()["error"]["code"], "unavailable", "{verb:?}");
    }
    let ran = node.run_with(["teach"], &lesson("north").to_string()).code(3);
    assert!(ran.one_line().contains("folklore up"));
}

#[test]
fn a_home_that_was_never_made_says_how_to_make_one() {
    let node = Node::unmade("nowhere");
    for verb in [&["status"][..], &["list"], &["up"]] {
        let ran = node.run(verb.iter().copied());
        assert!(ran.code != Some(0), "{verb:?} succeeded");
        let line = ran.one_line();
        assert!(line.contains("folklore init"), "{verb:?}: {line}");
    }
    assert!(!node.data().exists(), "asking made a home");
}

#[test]
fn a_notice_left_by_a_killed_daemon_misleads_nobody() {
    let mut node = Node::started("a");
    let id = node.teach(&lesson("north"));
    node.kill();
    assert!(node.notice().is_some(), "a killed daemon cannot have taken its notice back");
    let ran = node.run(["status"]).code(3);
    assert!(ran.one_line().contains("folklore up"), "{}", ran.stderr);
    node.up();
    assert_eq!(node.lesson_ids(), [id]);
}

#[test]
fn a_signal_ends_the_daemon_well_and_takes_its_notice_back() {
    for signal in ["TERM", "INT"] {
        let mut node = Node::started("a");
        node.teach(&lesson("north"));
        node.signal(signal);
        let status = node.ended();
        assert_eq!(status.code(), Some(0), "{signal}: {status}\n{}", node.logged());
        assert!(node.notice().is_none() && !node.data().join("daemon.json").exists(), "{signal}");
        node.up();
        assert_eq!(node.lessons().len(), 1, "{signal}");
    }
}

#[test]
fn a_signal_during_an_import_ends_it_between_files_and_loses_nothing_reported() {
    let mut node = Node::started("a");
    let files: Vec<_> =
        (0..40).map(|n| hotel_file(node.scratch(), &format!("{n:02}.json"), n * 10..n * 10 + 10)).collect();
    let mut events = node.door().import(&json!({"paths": files}));
    let first = events.find(|event| event["event"] == "file").expect("a file is reported");
    node.signal("TERM");
    let rest: Vec<_> = events.collect();
    let status = node.ended();
    assert_eq!(status.code(), Some(0), "{status}\n{}", node.logged());
    let last = rest.last().expect("a last event");
    assert!(last["event"] == "error" || last["event"] == "done", "{last}");
    node.up();
    let kept = node.lesson_ids();
    for event in rest.iter().chain([&first]).filter(|event| event["event"] == "file") {
        for id in event["lessons"].as_array().into_iter().flatten() {
            assert!(kept.iter().any(|kept| id == kept), "{id} was reported and is gone");
        }
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let node = Node::started("a");
    for n in 0..30 {
        let (code, taught) = node.door().post("teach", &lesson(&format!("word{n}")));
        assert_eq!(code, 200, "{taught}");
    }
    for json in [true, false] {
        let mut command = folklore(["list", "--data"]);
        command.arg(node.data()).args(json.then_some("--json")).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        drop(child.stdout.take());
        let status = until("the end of list", PATIENCE, || child.try_wait().expect("it is our child"));
        let mut said = String::new();
        std::io::Read::read_to_string(&mut child.stderr.take().expect("a pipe"), &mut said).expect("text");
        assert_eq!((status.code(), said.as_str()), (Some(0), ""), "json: {json}");
    }
}

#[test]
fn a_daemon_whose_log_nobody_reads_works_on() {
    let node = Node::new("a");
    let mut command = node.up_command();
    command.args(["-v", "-v", "-v"]).env("FOLKLORE_LOG", "trace").stdout(Stdio::null()).stderr(Stdio::piped());
    let mut daemon = KilledOnDrop(command.spawn().expect("the program starts"));
    drop(daemon.0.stderr.take());
    until("the daemon answers", PATIENCE, || (node.run(["status"]).code == Some(0)).then_some(()));
    let id = node.teach(&lesson("north"));
    assert_eq!(node.json(["list"])["lessons"][0]["id"], json!(id));
    assert_eq!(node.json(["doctor", "--verify"])["ok"], true);
}

#[test]
fn the_door_opens_to_the_token_on_loopback_only() {
    let node = Node::started("a");
    let (address, token) = (node.door().address, node.door().token().to_owned());
    assert!(address.ip().is_loopback());
    let ask = |headers: &str| {
        let request = format!("GET /v1/status HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
        let answer = node.door().raw(request.as_bytes()).expect("an answer");
        String::from_utf8_lossy(&answer).split(' ').nth(1).map(str::to_owned).unwrap_or_default()
    };
    let (host, bearer) = (format!("Host: {address}\r\n"), format!("Authorization: Bearer {token}\r\n"));
    assert_eq!(ask(&format!("{host}{bearer}")), "200");
    assert_eq!(ask(&host), "401");
    assert_eq!(ask(&format!("{host}Authorization: Bearer {}\r\n", token.replace(char::is_alphanumeric, "0"))), "401");
    assert_eq!(ask(&format!("Host: folklore.example\r\n{bearer}")), "403");
    assert_eq!(ask(&format!("{host}{bearer}Origin: http://folklore.example\r\n")), "403");
}
