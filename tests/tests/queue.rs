//! What waits for a model survives everything: an outage, a kill at any moment, and a stop; and is done once.

use std::{
    collections::BTreeSet,
    thread,
    time::{Duration, Instant},
};

use folklore_tests::{
    Node, PATIENCE,
    files::{files, find},
    inputs::{Dice, hotel_file, lesson},
    model::Model,
    node::text,
    until,
};
use serde_json::{Value, json};

const RUNS: u64 = 24;

fn node(model: &Model) -> Node {
    let mut node = Node::new("queue");
    let url = format!("http://{}", model.address);
    node.up_args = ["--induce", "openai", "--induce-model", "m", "--induce-url", &url].map(Into::into).to_vec();
    node.up();
    node
}

#[track_caller]
fn jobs(node: &Node) -> Value {
    node.json(["jobs"])
}

/// Imports the made-up runs for the model and returns how many jobs were queued.
#[track_caller]
fn import(node: &Node) -> u64 {
    let file = hotel_file(node.scratch(), "desk.json", 0..RUNS);
    let imported = node.run(["import".into(), file.into_os_string(), "--induce".into(), "openai".into()]).ok().json();
    assert_eq!((&imported["runs"], &imported["lessons"]), (&json!(RUNS), &json!(0)), "{imported}");
    imported["queued"].as_u64().expect("a number")
}

#[test]
fn jobs_survive_kills_at_any_moment_and_each_is_done_once() {
    for seed in [11, 12, 13] {
        let mut dice = Dice(seed);
        let model = Model::new(true);
        let mut node = node(&model);
        assert_eq!(import(&node), RUNS);
        until("the outage is noticed", PATIENCE, || jobs(&node)["error"].is_string().then_some(()));
        assert_eq!(jobs(&node)["waiting"], RUNS, "{}", jobs(&node));
        // What is written meanwhile is there at once and stays.
        let taught = node.teach(&lesson("meanwhile"));
        node.kill();
        node.up();
        assert_eq!(jobs(&node)["waiting"], RUNS, "seed {seed}: after a kill");
        model.away(false);
        let mut kills = 0;
        let began = Instant::now();
        while jobs(&node)["waiting"] != json!(0) {
            assert!(began.elapsed() < PATIENCE * 4, "seed {seed}: {}", jobs(&node));
            node.json(["jobs", "retry", "all"]);
            thread::sleep(Duration::from_millis(dice.below(400)));
            if kills < 5 {
                node.kill();
                node.up();
                kills += 1;
            } else {
                thread::sleep(Duration::from_millis(100));
            }
        }
        let listed = jobs(&node);
        assert_eq!(listed["jobs"], json!([]), "seed {seed}: {listed}");
        let ids = node.lesson_ids();
        assert!(ids.contains(&taught), "seed {seed}: what was taught meanwhile is lost");
        assert_eq!(ids.len() as u64, RUNS + 1, "seed {seed}: one lesson a run");
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
        for id in &ids {
            let shown = node.show(id);
            assert_eq!(shown["claims"].as_array().map(Vec::len), Some(1), "seed {seed}: doubled: {shown}");
        }
        assert_eq!(node.json(["doctor", "--verify"])["ok"], true);
        println!("seed {seed}: {kills} kills, {} prompts answered for {RUNS} jobs", model.asked());
    }
}

#[test]
fn a_job_can_be_dropped_and_its_run_stays() {
    let model = Model::new(true);
    let node = node(&model);
    import(&node);
    let first = text(&jobs(&node)["jobs"][0]["id"]);
    // Also while the model is being asked.
    let dropped = node.json(["jobs", "drop", &first]);
    assert_eq!(dropped["jobs"], json!([first]));
    assert_eq!(jobs(&node)["waiting"], RUNS - 1);
    node.run(["jobs", "drop", &first]).code(4);
    let status = node.status();
    assert_eq!(status["induction"]["waiting"], RUNS - 1, "{status}");
    let attempts = node.json(["attempts", "hotel-0"]);
    assert_eq!(attempts["tasks"][0]["runs"].as_array().map(Vec::len), Some(1), "{attempts}");
}

#[test]
fn a_key_is_read_from_a_file_and_shown_nowhere() {
    const KEY: &str = "quay-7f3a9c51e0-do-not-show";
    let model = Model::new(false);
    let mut node = Node::new("queue");
    let file = node.scratch().join("key");
    std::fs::write(&file, format!("{KEY}\n")).expect("a file");
    let config =
        json!({"provider": "openai", "model": "m", "url": format!("http://{}", model.address), "key_file": file});
    std::fs::write(node.data().join("induction.json"), config.to_string()).expect("a file");
    node.up();
    import(&node);
    until("all is done", PATIENCE * 2, || (jobs(&node)["waiting"] == json!(0)).then_some(()));
    assert_eq!(node.lesson_ids().len() as u64, RUNS);
    for shown in [node.status().to_string(), jobs(&node).to_string(), node.logged(), model.heard()] {
        assert!(!shown.contains(KEY), "{shown}");
    }
    node.stop();
    for file in files(node.data()).expect("the home's files") {
        let bytes = std::fs::read(&file).unwrap_or_default();
        assert_eq!(find(&bytes, KEY.as_bytes()), None, "{}", file.display());
    }
}
