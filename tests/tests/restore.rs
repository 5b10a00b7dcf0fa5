//! A node restored from an old copy of its data.

use std::{collections::BTreeMap, fs};

use folklore_tests::{
    Link, Node, PATIENCE,
    files::copy,
    inputs::{hotel_file, lesson},
    node::{join, text},
    until,
};
use serde_json::{Value, json};

/// Every claim that a node shows about any lesson, by author and number.
fn claims(node: &Node) -> BTreeMap<(String, u64), Vec<Value>> {
    let mut all: BTreeMap<(String, u64), Vec<Value>> = BTreeMap::new();
    for id in node.lesson_ids() {
        let shown = node.show(&id);
        for claim in shown["claims"].as_array().expect("claims") {
            let key = (text(&claim["author"]), claim["seq"].as_u64().expect("a number"));
            all.entry(key).or_default().push(claim.clone());
        }
    }
    all
}

fn no_number_twice(node: &Node) -> BTreeMap<(String, u64), Vec<Value>> {
    let all = claims(node);
    let twice: Vec<_> = all.iter().filter(|(_, claims)| claims.len() > 1).collect();
    assert!(twice.is_empty(), "one number for several records: {twice:?}");
    all
}

#[test]
fn a_node_put_back_to_an_old_copy_uses_no_number_twice_and_gets_the_rest_back() {
    let (mut a, mut b) = (Node::new("a"), Node::new("b"));
    let link = Link::between(&mut a, &mut b);
    let bank = join(&a, &b);
    let teach = |node: &Node, words: &[&str]| words.iter().map(|word| node.teach(&lesson(word))).collect::<Vec<_>>();
    let early = teach(&a, &["amber", "beryl"]);
    until("the early lessons are at B", PATIENCE, || (b.lesson_ids().len() == early.len()).then_some(()));

    a.stop();
    let kept = a.scratch().join("copy");
    copy(a.data(), &kept);
    a.up();
    link.follow(&a, &b);
    let lost = teach(&a, &["citrine", "dolomite", "epidote"]);
    a.json(["rate", &early[0], "helped"]);
    link.heal_to_equal(&a, &b, &bank);
    let before = claims(&b);
    assert_eq!(before.len(), 6, "{before:?}");

    a.stop();
    fs::remove_dir_all(a.data()).expect("the home can be removed");
    copy(&kept, a.data());
    link.cut();
    a.up();
    let status = a.status();
    println!("after the restore: {}", status["recovery"]);
    assert_eq!(a.lesson_ids().len(), early.len(), "the copy is old");
    // Before it has met anybody who knows better.
    let offline = teach(&a, &["fluorite", "garnet", "halite"]);
    link.follow(&a, &b);
    link.heal_to_equal(&a, &b, &bank);
    let online = teach(&a, &["jade", "kyanite"]);
    link.heal_to_equal(&a, &b, &bank);

    let after = no_number_twice(&b);
    assert_eq!(after.len(), 6 + offline.len() + online.len());
    assert_eq!(claims(&a).keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    let listed = a.lesson_ids();
    for id in early.iter().chain(&lost).chain(&offline).chain(&online) {
        assert!(listed.contains(id), "{id} is not back at A");
    }
    let recovery = a.status()["recovery"].clone();
    let said = recovery.as_array().is_some_and(|lines| !lines.is_empty());
    assert!(said, "status says nothing of the restore: {recovery}");
    a.stop();
    a.up();
    link.follow(&a, &b);
    assert_eq!(a.held_root(&bank), b.held_root(&bank), "the node goes on after the next start");
}

#[test]
fn a_copy_made_while_the_node_was_writing_can_be_put_back() {
    let (mut a, mut b) = (Node::new("a"), Node::new("b"));
    let link = Link::between(&mut a, &mut b);
    let bank = join(&a, &b);
    let files: Vec<_> =
        (0..20).map(|n| hotel_file(a.scratch(), &format!("{n:02}.json"), n * 10..n * 10 + 10)).collect();
    let mut events = a.door().import(&json!({"paths": files}));
    events.by_ref().filter(|event| event["event"] == "file").nth(3).expect("files are reported");
    let kept = a.scratch().join("copy");
    copy(a.data(), &kept);
    let last = events.last().expect("a last event");
    assert_eq!(last["event"], "done", "{last}");
    link.heal_to_equal(&a, &b, &bank);
    let whole = b.lesson_ids();

    a.kill();
    fs::remove_dir_all(a.data()).expect("the home can be removed");
    copy(&kept, a.data());
    link.cut();
    a.up();
    println!("{} of {} lessons in the copy; {}", a.lessons().len(), whole.len(), a.status()["recovery"]);
    assert!(a.status()["recovery"].is_array(), "status says nothing of the restore");
    let more = a.teach(&lesson("amber"));
    link.follow(&a, &b);
    link.heal_to_equal(&a, &b, &bank);
    let all = no_number_twice(&b);
    let listed = a.lesson_ids();
    assert_eq!(listed.len(), whole.len() + 1);
    assert!(whole.iter().chain([&more]).all(|id| listed.contains(id)));
    assert_eq!(all.len(), listed.len());
    // The doctor minds the restore, and nothing else.
    let doctor = a.run(["doctor", "--verify"]).json();
    let checks = doctor["checks"].as_array().expect("checks").iter();
    let bad: Vec<_> = checks.filter(|check| check["ok"] != true).map(|check| text(&check["name"])).collect();
    assert_eq!(bad, ["bank"], "{doctor}");
}

#[test]
fn an_old_copy_does_not_bring_back_what_was_withdrawn() {
    let (mut a, mut b) = (Node::new("a"), Node::new("b"));
    let link = Link::between(&mut a, &mut b);
    let bank = join(&a, &b);
    let id = b.teach(&lesson("amber"));
    link.heal_to_equal(&a, &b, &bank);
    b.stop();
    let kept = b.scratch().join("copy");
    copy(b.data(), &kept);
    b.up();
    link.follow(&a, &b);
    b.json(["withdraw", &id, "--reason", "it was a mistake"]);
    link.heal_to_equal(&a, &b, &bank);

    b.kill();
    fs::remove_dir_all(b.data()).expect("the home can be removed");
    copy(&kept, b.data());
    link.cut();
    b.up();
    assert_ne!(b.show(&id)["standing"]["state"], "withdrawn", "the copy is from before");
    link.follow(&a, &b);
    link.heal_to_equal(&a, &b, &bank);
    for node in [&a, &b] {
        assert_eq!(node.show(&id)["standing"]["state"], "withdrawn");
        assert_eq!(node.lesson_ids(), Vec::<String>::new());
    }
}

#[test]
fn a_node_whose_store_is_gone_joins_its_bank_again_and_uses_no_number_twice() {
    let (mut a, mut b) = (Node::new("a"), Node::new("b"));
    let link = Link::between(&mut a, &mut b);
    let bank = join(&a, &b);
    let mine = [b.teach(&lesson("onyx")), b.teach(&lesson("peridot"))];
    let others = [a.teach(&lesson("quartz"))];
    link.heal_to_equal(&a, &b, &bank);
    for damage in ["store", "store/bank/db"] {
        b.stop();
        let gone = b.data().join(damage);
        let removed = if gone.is_dir() { fs::remove_dir_all(&gone) } else { fs::remove_file(&gone) };
        removed.expect("it can be removed");
        b.up();
        let status = b.status();
        println!("without {damage}: {}", status["recovery"]);
        let said = status["recovery"].as_array().is_some_and(|lines| !lines.is_empty());
        assert!(said, "status says nothing of the loss of {damage}: {status}");
        assert_eq!(b.default_bank(), bank, "lessons go on going to the bank that was joined");
        // Before any peer could tell which numbers are used.
        let fresh = b.teach(&lesson(&format!("ruby of {}", damage.len())));
        link.follow(&a, &b);
        link.heal_to_equal(&a, &b, &bank);
        let listed = b.lesson_ids();
        for id in mine.iter().chain(&others).chain([&fresh]) {
            assert!(listed.contains(id), "{id} is not back at B");
        }
        let twice: Vec<_> = claims(&a).into_iter().filter(|(_, claims)| claims.len() > 1).collect();
        assert!(twice.is_empty(), "one number for several records: {twice:?}");
    }
}
