//! A disk that fills up: what was acknowledged stays, what was not is refused with a line that says what to do.

use std::{fs, path::Path, process::Command};

use folklore_tests::{
    Node,
    inputs::{Dice, lesson},
    inside::{inside, is_inside},
    node::text,
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
