//! A lesson that one node forgets: its text is in no file of that home, and the peer that has it does not bring it back.

use std::{
    fs,
    path::{Path, PathBuf},
};

use folklore_tests::{
    Link, Node, PATIENCE,
    files::{files, find},
    node::join,
    until,
};
use serde_json::json;

const TEXT: &str = "the vermilion escalator needs its quartz governor reseated";

/// Files below a directory that have these bytes.
fn files_with(dir: &Path, wanted: &str) -> Vec<PathBuf> {
    let has = |path: &PathBuf| fs::read(path).is_ok_and(|bytes| find(&bytes, wanted.as_bytes()).is_some());
    files(dir).expect("a directory").into_iter().filter(has).collect()
}

#[test]
fn a_forgotten_lesson_is_in_no_file_of_the_home_and_no_peer_brings_it_back() {
    let (mut a, mut b) = (Node::new("a"), Node::new("b"));
    let link = Link::between(&mut a, &mut b);
    let bank = join(&a, &b);
    let content = format!("Before it runs {TEXT}, every time.");
    let gone =
        a.teach(&json!({"kind": "pitfall", "title": "Reseat the governor", "content": content, "task": "start it"}));
    let kept =
        a.teach(&json!({"kind": "pitfall", "title": "Oil the hinges", "content": "They squeak.", "task": "oil"}));
    until("both lessons are at B", PATIENCE, || (b.lesson_ids().len() == 2).then_some(()));
    let root = b.held_root(&bank);
    assert!(!files_with(b.data(), TEXT).is_empty(), "the test looks for the right bytes");

    let answer = b.json(["forget", &gone]);
    assert_eq!((&answer["erased"], &answer["left"]), (&json!(true), &json!([])));
    let at_b = |b: &Node| {
        assert_eq!(b.lesson_ids(), std::slice::from_ref(&kept));
        assert_eq!(files_with(b.data(), TEXT), Vec::<PathBuf>::new());
        assert_eq!(files_with(b.data(), "vermilion"), Vec::<PathBuf>::new(), "its words");
        let hits = b.recall(&json!({"task": "vermilion escalator quartz governor", "min_score": 0.3}))["hits"].clone();
        assert!(
            hits.as_array().is_some_and(|hits| hits.iter().all(|hit| hit["lesson"]["id"] != json!(gone))),
            "{hits}"
        );
        assert_eq!(b.held_root(&bank), root, "the records are all held");
    };
    at_b(&b);
    let shown = b.run(["show", &gone]).code(4);
    assert!(shown.one_line().contains("was forgotten here"), "{}", shown.stderr);

    // Another meeting, and another after a restart.
    link.heal_to_equal(&a, &b, &bank);
    at_b(&b);
    b.stop();
    b.up();
    link.follow(&a, &b);
    link.heal_to_equal(&a, &b, &bank);
    at_b(&b);
    assert_eq!(a.lesson_ids().len(), 2, "A keeps its own");
}
