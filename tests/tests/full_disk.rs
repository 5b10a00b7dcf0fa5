//! A disk that fills up: what was acknowledged stays, what was not is refused with a line that says what to do.

use std::{fs, io::Write, path::Path, process::Command, time::Duration};

use folklore_tests::{
    Node, PATIENCE,
    inputs::{Dice, hotel_file, lesson},
    inside::{inside, is_inside},
    model::Model,
    node::text,
    until,
};
use serde_json::json;

/// Where the small disk is, inside. The directory is there on every system, and what was in it is hidden only here.
const DISK: &str = "/mnt";
const SMALL: &str = "3m";
const LARGE: &str = "64m";

#[test]
fn a_full_disk_loses_nothing_acknowledged_and_is_worked_on_again_when_there_is_room() {
    if is_inside() {
        return on_a_small_disk();
    }
    let name = "a_full_disk_loses_nothing_acknowledged_and_is_worked_on_again_when_there_is_room";
    inside(&["-m"], &format!("mount -t tmpfs -o size={SMALL} tmpfs {DISK}"), name);
}

#[test]
fn what_a_model_answered_is_kept_while_the_disk_is_full_and_not_paid_for_again() {
    if is_inside() {
        return an_answer_on_a_small_disk();
    }
    let name = "what_a_model_answered_is_kept_while_the_disk_is_full_and_not_paid_for_again";
    inside(&["-m"], &format!("mount -t tmpfs -o size={SMALL} tmpfs {DISK}"), name);
}

fn an_answer_on_a_small_disk() {
    let model = Model::new(true);
    let mut node = Node::new_on(Path::new(DISK), "a");
    let url = format!("http://{}", model.address);
    node.up_args = ["--induce", "openai", "--induce-model", "m", "--induce-url", &url].map(Into::into).to_vec();
    node.up();
    let jobs = |node: &Node| node.json(["jobs"]);
    let file = hotel_file(node.scratch(), "desk.json", 0..1);
    node.run(["import".into(), file.into_os_string(), "--induce".into(), "openai".into()]).ok();
    until("the outage is noticed", PATIENCE, || jobs(&node)["error"].is_string().then_some(()));
    let mut dice = Dice(12);
    let mut acknowledged = 0;
    loop {
        let mut big = lesson(&format!("word{acknowledged}"));
        big["content"] = json!(dice.text("abcdefghijklmnopqrstuvwxyz ", 6000));
        if node.run_with(["teach"], &big.to_string()).code != Some(0) {
            break;
        }
        acknowledged += 1;
        assert!(acknowledged < 2000, "the disk is not small");
    }
    // And what is left of it.
    let mut rest = fs::File::create(Path::new(DISK).join("rest")).expect("a file");
    while rest.write_all(&[0; 512]).is_ok() {}
    model.away(false);
    node.json(["jobs", "retry", "all"]);
    let unwritten = |node: &Node| jobs(node)["error"].as_str().is_some_and(|error| error.contains("cannot be written"));
    until("the answer cannot be written", PATIENCE, || unwritten(&node).then_some(()));
    // Whoever put the job back would have it asked about again at once, and a person who is in a hurry too.
    for _ in 0..8 {
        std::thread::sleep(Duration::from_millis(500));
        node.run(["jobs", "retry", "all"]);
    }
    assert!(unwritten(&node) && jobs(&node)["waiting"] == 1, "{}", jobs(&node));
    assert_eq!(model.asked(), 1, "{}", jobs(&node));

    let options = format!("remount,size={LARGE}");
    let made_room = Command::new("mount").args(["-o", &options, DISK]).status().expect("mount(8) can be started");
    assert!(made_room.success());
    until("the answer is written", PATIENCE * 2, || {
        node.run(["jobs", "retry", "all"]);
        (jobs(&node)["jobs"] == json!([])).then_some(())
    });
    assert_eq!((model.asked(), node.lesson_ids().len()), (1, acknowledged + 1));
}

fn on_a_small_disk() {
    let mut node = Node::new_on(Path::new(DISK), "a");
    node.up();
    let mut dice = Dice(11);
    let mut acknowledged = Vec::new();
    let refused = loop {
        let mut big = lesson(&format!("word{}", acknowledged.len()));
        // Text that no file system packs.
        big["content"] = json!(dice.text("abcdefghijklmnopqrstuvwxyz ", 6000));
        let ran = node.run_with(["teach"], &big.to_string());
        if ran.code != Some(0) {
            break ran.code(1);
        }
        acknowledged.push(text(&ran.json()["id"]));
        assert!(acknowledged.len() < 2000, "the disk is not small");
    };
    let line = refused.one_line();
    println!("{} lessons, then: {line}", acknowledged.len());
    assert!(line.contains("full") && line.contains("restart"), "{line}");
    assert!(acknowledged.len() > 50, "{}", acknowledged.len());
    // It still answers, and from what it holds.
    let held = |node: &Node| {
        let mut listed = node.lesson_ids();
        listed.sort();
        listed
    };
    acknowledged.sort();
    assert_eq!(held(&node), acknowledged);

    node.kill();
    let options = format!("remount,size={LARGE}");
    let made_room = Command::new("mount").args(["-o", &options, DISK]).status().expect("mount(8) can be started");
    assert!(made_room.success());
    node.up();
    assert_eq!(held(&node), acknowledged);
    node.teach(&lesson("north"));
    assert_eq!(node.json(["doctor", "--verify"])["ok"], true);
    assert!(fs::read_to_string(node.log()).is_ok_and(|log| !log.contains("panicked")));
}
