//! A run begun in a fleet bank goes on at another site when its node is gone, as a branch; both are kept and counted.

use std::time::Duration;

use folklore_tests::{
    Link, Node,
    node::{join, text},
    until,
};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);
const TASK: &str = "Move the warehouse index to the new shelf numbers";

fn step(n: usize) -> Value {
    // The second is longer than a message and than a value of the bank.
    let seen = if n == 2 { "shelf ".repeat(40_000) } else { format!("seen {n}") };
    json!({"n": n, "think": format!("think {n}"), "action": format!("move {n}"), "observation": seen})
}

fn record(node: &Node, run: &str, mut step: Value) -> Value {
    step["run"] = json!(run);
    let (code, done) = node.door().post("step", &step);
    assert_eq!(code, 200, "{done}");
    done
}

fn post(node: &Node, verb: &str, request: Value) -> Value {
    let (code, answer) = node.door().post(verb, &request);
    assert_eq!(code, 200, "{verb}: {answer}");
    answer
}

/// The runs that a node lists which are another's.
fn copies(node: &Node) -> Vec<Value> {
    let runs = post(node, "runs", json!({}));
    let all = runs["runs"].as_array().expect("a list").clone();
    all.into_iter().filter(|run| !run["copy_of"].is_null()).collect()
}

#[test]
fn a_run_goes_on_elsewhere_as_a_branch_and_both_count() {
    let (mut a, mut b) = (Node::new("a"), Node::new("b"));
    let _link = Link::between(&mut a, &mut b);
    let bank = join(&a, &b);
    let first_site = a.id();
    // One that is private, and one that the fleet may take over.
    let private = post(&a, "begin", json!({"task": "Write my diary", "name": "diary"}));
    record(&a, &text(&private["run"]), step(1));
    let begun = post(&a, "begin", json!({"task": TASK, "name": "shelves", "bank": bank}));
    assert_eq!(begun["shared"], true);
    let run = text(&begun["run"]);
    let mut state = Value::Null;
    for n in 1..=5 {
        state = record(&a, &run, step(n))["state"].clone();
    }
    record(&a, &run, json!({"n": 6, "action": "burn the old labels", "started": true}));
    let copy = until("the copy at b", PATIENCE, || {
        copies(&b).into_iter().find(|run| run["steps"] == 5 && run["uncertain"] == 1)
    });
    assert_eq!((&copy["name"], &copy["state"], &copy["copy_of"]), (&json!("shelves"), &state, &json!(first_site)));
    assert_eq!(copies(&b).len(), 1, "what is private stays");
    let survives = copies(&b);
    b.stop();
    b.up();
    assert_eq!(copies(&b), survives, "a copy is durable");

    a.kill();
    let held = post(&b, "resume", json!({"task": TASK}));
    assert_eq!((&held["state"], &held["next"], &held["branch"]["from"]), (&state, &json!(6), &json!(first_site)));
    for (n, held) in (1..).zip(held["steps"].as_array().expect("steps")) {
        assert_eq!((&held["action"], &held["observation"]), (&step(n)["action"], &step(n)["observation"]));
    }
    assert_eq!(held["uncertain"][0]["action"], "burn the old labels");
    let branch = text(&held["run"]);
    record(&b, &branch, json!({"n": 6, "action": "look whether the labels are burnt"}));
    // Again it is this node's own.
    let again = post(&b, "resume", json!({"task": TASK}));
    assert_eq!((&again["name"], &again["lease"]), (&held["name"], &json!(2)));

    // The first site comes back: nothing is fenced across a partition, and both go on.
    a.up();
    record(&a, &run, step(6));
    let seen = until("the branch at a", PATIENCE, || copies(&a).into_iter().find(|run| run["steps"] == 6));
    assert_eq!((&seen["branch"]["from"], &seen["branch"]["steps"]), (&json!(first_site), &json!(5)));
    let first = post(&a, "end", json!({"run": run, "outcome": "failure", "reason": "two sites moved the same shelf"}));
    let second = post(&b, "end", json!({"run": again["run"], "outcome": "success"}));
    assert_ne!(first["digest"], second["digest"], "two attempts");
    // What has ended is collected where it was copied.
    until("no copy is left", PATIENCE, || (copies(&a).is_empty() && copies(&b).is_empty()).then_some(()));
    assert_eq!(post(&a, "runs", json!({}))["runs"].as_array().map(Vec::len), Some(1), "the diary");
}
