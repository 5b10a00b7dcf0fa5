//! A link that goes down and comes back: afterwards both sites hold the same and answer the same.

use folklore_tests::{
    Link, Node, PATIENCE,
    inputs::{Dice, hotel_file, import_shared, lesson, shared_data},
    node::{join, text},
    program::workspace,
    until,
    wait::within,
};
use serde_json::{Value, json};

/// Imports at `node` over HTTP and calls `seen` with each file's event. Returns the last event.
#[track_caller]
fn import(node: &Node, request: &Value, mut seen: impl FnMut(&Value)) -> Value {
    for event in node.door().import(request) {
        match event["event"].as_str() {
            Some("file") => seen(&event),
            Some("progress") => {}
            Some("done") => return event,
            _ => panic!("the import went wrong: {event}"),
        }
    }
    panic!("the import ended without its last event");
}

/// Queries in other words than the lessons', about runs of the shared data.
fn paraphrases() -> Vec<String> {
    let path = workspace().join("store/tests/data/on_topic_queries.jsonl");
    let text = std::fs::read_to_string(path).expect("the labelled queries of the store");
    let queries = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a query"));
    queries.filter(|q| q["source"] != "own").map(|q| q["query"].as_str().expect("a query").to_owned()).collect()
}

#[test]
fn a_link_cut_during_an_import_heals_to_equal_banks_and_equal_answers() {
    let Some(data) = shared_data() else { return };
    let (mut a, mut b) = (Node::new("a"), Node::new("b"));
    let link = Link::between(&mut a, &mut b);
    let bank = join(&a, &b);
    let first = a.teach(&lesson("north"));
    until("the first lesson is at B", PATIENCE, || b.lesson_ids().contains(&first).then_some(()));

    let mut reported = 1;
    let mut is_cut = false;
    let done = import(&a, &import_shared(&data), |file| {
        let lessons = file["lessons"].as_array().map_or(0, Vec::len);
        reported += lessons;
        if lessons > 0 && !is_cut {
            link.cut();
            is_cut = true;
        }
    });
    assert!(is_cut, "no file taught anything: {done}");
    assert_eq!(done["skipped"], json!([]), "every file of the shared data can be read");
    // 72 + 10 + 12 results of tau-bench and 13 trajectories of mini-swe-agent, see their provenance.
    assert_eq!(done["runs"], 107, "{done}");
    link.seen_as_cut(&a, &b);
    let (at_a, at_b) = (a.lesson_ids(), b.lesson_ids());
    assert_eq!(at_a.len(), reported);
    assert!(at_b.len() < at_a.len(), "the cut came too late to cut anything off: {} of {}", at_b.len(), at_a.len());
    assert_ne!(a.held_root(&bank), b.held_root(&bank));

    link.heal_to_equal(&a, &b, &bank);
    assert_eq!(a.lesson_ids().len(), reported);
    let sorted = |mut ids: Vec<String>| {
        ids.sort();
        ids
    };
    assert_eq!(sorted(a.lesson_ids()), sorted(b.lesson_ids()));
    let known = |node: &Node| node.bank(&bank)["known_root"].clone();
    assert_eq!(known(&a), known(&b));

    let (mut answered, queries) = (0, paraphrases());
    for query in &queries {
        let top = |node: &Node| {
            let hits = node.recall(&json!({"task": query, "k": 3}))["hits"].clone();
            let hits = hits.as_array().expect("a list").iter();
            hits.map(|hit| (text(&hit["lesson"]["id"]), hit["score"].clone())).collect::<Vec<_>>()
        };
        let (at_a, at_b) = (top(&a), top(&b));
        let ids = |hits: &[(String, Value)]| hits.iter().map(|hit| hit.0.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&at_a), ids(&at_b), "{query}:\n{at_a:?}\n{at_b:?}");
        answered += usize::from(!at_b.is_empty());
    }
    println!(
        "{} records, {reported} lessons; {answered} of {} paraphrases answered at B",
        a.bank(&bank)["records"],
        queries.len()
    );
    assert!(answered * 2 > queries.len(), "only {answered} of {} paraphrases got an answer", queries.len());
}

#[test]
fn contacts_too_short_for_the_backlog_still_get_it_across() {
    const CONTACT_BYTES: u64 = 64 * 1024;
    let (mut a, mut b) = (Node::new("a"), Node::new("b"));
    let link = Link::between(&mut a, &mut b);
    let bank = join(&a, &b);
    link.cut();
    link.seen_as_cut(&a, &b);
    let file = hotel_file(a.scratch(), "desk.json", 0..400);
    let done = import(&a, &json!({"paths": [file]}), |_| {});
    assert!(done["lessons"].as_u64() >= Some(300), "{done}");

    let held = |node: &Node| node.bank(&bank)["records"].as_u64().expect("a number");
    let (all, mut before, mut contacts) = (held(&a), held(&b), 0);
    let mut progress = Vec::new();
    while before < all {
        link.open_for(CONTACT_BYTES);
        until("the contact is used up, or everything is across", PATIENCE, || {
            (link.is_cut() || held(&b) == all).then_some(())
        });
        contacts += 1;
        // What was on its way to the disk when the contact ended is written all the same.
        let now = within(PATIENCE, || Some(held(&b)).filter(|now| *now > before));
        let now = now.unwrap_or_else(|| {
            panic!("contact {contacts} of {CONTACT_BYTES} bytes brought nothing: {before} of {all}, {progress:?}")
        });
        progress.push(now - before);
        before = now;
    }
    println!("{all} records in {contacts} contacts of {CONTACT_BYTES} bytes: {progress:?}");
    assert!(contacts > 1, "one contact was enough, so nothing was shown");
    link.heal_to_equal(&a, &b, &bank);
}

#[test]
fn a_node_killed_again_and_again_while_it_catches_up_gets_there() {
    let (mut a, mut b) = (Node::new("a"), Node::new("b"));
    let link = Link::between(&mut a, &mut b);
    let bank = join(&a, &b);
    link.cut();
    link.seen_as_cut(&a, &b);
    let file = hotel_file(a.scratch(), "desk.json", 0..300);
    import(&a, &json!({"paths": [file]}), |_| {});
    link.limit(Some(400_000));
    link.heal();
    let held = |node: &Node| node.bank(&bank)["records"].as_u64().expect("a number");
    let mut seen = Vec::new();
    for seed in 1..=4 {
        let wanted = seen.last().copied().unwrap_or(0) + Dice(seed).below(40) + 1;
        let now = until("B catches up", PATIENCE, || Some(held(&b)).filter(|now| *now >= wanted));
        b.kill();
        b.up();
        assert!(held(&b) >= now, "{now} records were shown and {} are there after the kill", held(&b));
        seen.push(held(&b));
        link.follow(&a, &b);
    }
    println!("killed at {seen:?} of {}", held(&a));
    link.limit(None);
    link.heal_to_equal(&a, &b, &bank);
    assert_eq!(b.json(["doctor", "--verify"])["ok"], true);
}

#[test]
fn a_sync_that_cannot_be_complete_says_who_is_missing() {
    let (mut a, mut b) = (Node::new("a"), Node::new("b"));
    let link = Link::between(&mut a, &mut b);
    let bank = join(&a, &b);
    let done = b.run(["sync", "--wait"]).ok().json();
    assert_eq!((&done["complete"], &done["missing"]), (&json!(true), &json!([])), "{done}");
    let before = b.peer(&a.id()).expect("A is known")["complete_as_of"][&bank].clone();
    assert!(before.is_string(), "{before}");
    link.cut();
    link.seen_as_cut(&a, &b);
    a.teach(&lesson("north"));
    let done = b.run(["sync", "--wait", "--timeout", "1"]).code(1).json();
    assert_eq!((&done["complete"], &done["missing"]), (&json!(false), &json!([a.id()])), "{done}");
    assert_eq!(done["peers"][0]["reached"], false, "{done}");
    link.heal();
    let done = b.run(["sync", "--wait", "--timeout", "60"]).ok().json();
    assert_eq!(done["complete"], true, "{done}");
    assert_eq!(b.lessons().len(), 1);
    assert_ne!(b.peer(&a.id()).expect("A is known")["complete_as_of"][&bank], before);
}

#[test]
fn a_node_behind_a_forwarded_port_tells_others_that_port_and_no_other() {
    let (mut a, mut b) = (Node::new("a"), Node::new("b"));
    let link = Link::between(&mut a, &mut b);
    let joined = b.json(["bank", "join", &a.ticket()]);
    let [to_a, to_b] = link.addresses();
    assert_eq!(joined["dialing"], json!([format!("{to_a}/p2p/{}", a.id())]));
    for (node, other, known) in [(&a, &b, to_b), (&b, &a, to_a)] {
        let is_told = || node.peer(&other.id()).filter(|peer| peer["addresses"] == json!([known])).map(drop);
        within(PATIENCE, is_told).unwrap_or_else(|| {
            panic!("{known} is not what is known: {:#}", node.peer(&other.id()).unwrap_or_default())
        });
    }
}
