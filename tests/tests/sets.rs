//! The bank is a set: the same thing said twice, or at two nodes, is in it once, and what was taken back stays so.

use folklore_tests::{
    Link, Node, PATIENCE,
    inputs::{hotel_file, lesson},
    node::{join, text},
    until,
};
use serde_json::{Value, json};

#[test]
fn a_file_imported_twice_adds_nothing_and_says_so() {
    let node = Node::started("a");
    let file = hotel_file(node.scratch(), "desk.json", 0..6);
    let args = || ["import".into(), file.clone().into_os_string()];
    let first = node.json(args());
    assert_eq!((&first["files"], &first["runs"], &first["duplicates"]), (&json!(1), &json!(6), &json!(0)), "{first}");
    let before = node.bank(&node.default_bank());
    let second = node.json(args());
    assert_eq!(
        (&second["runs"], &second["lessons"], &second["duplicates"]),
        (&json!(0), &json!(0), &json!(6)),
        "{second}"
    );
    assert_eq!(node.bank(&node.default_bank()), before);
    // The same runs under another name are the same runs.
    let copy = hotel_file(node.scratch(), "copy.json", 0..6);
    let third = node.json(["import".into(), copy.into_os_string()]);
    assert_eq!((&third["runs"], &third["duplicates"]), (&json!(0), &json!(6)), "{third}");
    // In words, too.
    let shown = folklore_tests::command::finish(
        folklore_tests::folklore(["import".as_ref(), file.as_os_str(), "--data".as_ref(), node.data().as_os_str()]),
        None,
    );
    assert!(shown.ok().stdout.contains("6 duplicates"));
}

#[test]
fn a_lesson_taught_twice_at_one_node_is_one_claim() {
    let node = Node::started("a");
    let (code, first) = node.door().post("teach", &lesson("north"));
    let (_, second) = node.door().post("teach", &lesson("north"));
    assert_eq!((code, &first["new"], &second["new"]), (200, &json!(true), &json!(false)));
    assert_eq!(first["id"], second["id"]);
    let shown = node.show(&text(&first["id"]));
    assert_eq!(shown["claims"].as_array().map(Vec::len), Some(1), "{shown}");
}

#[test]
fn a_lesson_taught_on_both_sides_of_a_cut_is_one_with_two_claims_until_both_take_it_back() {
    let (mut a, mut b) = (Node::new("a"), Node::new("b"));
    let link = Link::between(&mut a, &mut b);
    let bank = join(&a, &b);
    link.cut();
    link.seen_as_cut(&a, &b);
    let id = a.teach(&lesson("north"));
    assert_eq!(b.teach(&lesson("north")), id, "the same content has the same id everywhere");
    link.heal_to_equal(&a, &b, &bank);

    let on_both = |what: &str, holds: &dyn Fn(&Value) -> bool| {
        for node in [&a, &b] {
            until(what, PATIENCE, || holds(&node.show(&id)).then_some(()));
        }
    };
    on_both("one lesson with two claims", &|shown| {
        shown["claims"].as_array().map(Vec::len) == Some(2)
            && shown["authors"].as_array().map(Vec::len) == Some(2)
            && shown["standing"]["taught_by"] == 2
    });
    for node in [&a, &b] {
        assert_eq!(node.lesson_ids(), [id.as_str()]);
    }

    // B is no owner: it takes back its own word, and A's stands.
    b.json(["withdraw", &id, "--reason", "it was another valve"]);
    on_both("A alone teaches it", &|shown| {
        shown["standing"]["taught_by"] == 1 && shown["standing"]["state"] != "withdrawn"
    });
    let query = json!({"task": "open the valve of the north wing while the boiler is cold"});
    assert_eq!(b.recall(&query)["hits"][0]["lesson"]["id"], json!(id));

    a.json(["withdraw", &id, "--reason", "the valve was replaced"]);
    on_both("nobody teaches it", &|shown| shown["standing"]["state"] == "withdrawn");
    let is_gone = |node: &Node| {
        let answer = node.recall(&query);
        assert_eq!(answer["hits"], json!([]), "{answer}");
        assert!(answer["reason"].is_string(), "{answer}");
        assert_eq!(node.show(&id)["standing"]["state"], "withdrawn");
    };
    is_gone(&a);
    is_gone(&b);

    a.kill();
    b.kill();
    a.up();
    b.up();
    link.follow(&a, &b);
    link.heal_to_equal(&a, &b, &bank);
    is_gone(&a);
    is_gone(&b);
}

#[test]
fn what_the_owner_withdrew_stays_withdrawn_whoever_teaches_it_again() {
    let (mut a, mut b) = (Node::new("a"), Node::new("b"));
    let link = Link::between(&mut a, &mut b);
    let bank = join(&a, &b);
    let id = b.teach(&lesson("north"));
    link.heal_to_equal(&a, &b, &bank);
    a.json(["withdraw", &id, "--reason", "there is no such valve"]);
    link.heal_to_equal(&a, &b, &bank);
    for node in [&a, &b] {
        until("it is withdrawn at both", PATIENCE, || {
            (node.show(&id)["standing"]["state"] == "withdrawn").then_some(())
        });
    }
    link.cut();
    link.seen_as_cut(&a, &b);
    assert_eq!(b.teach(&lesson("north")), id);
    link.heal_to_equal(&a, &b, &bank);
    for node in [&a, &b] {
        let shown = node.show(&id);
        assert_eq!(shown["standing"]["state"], "withdrawn", "{shown}");
        assert_eq!(node.lesson_ids(), Vec::<String>::new());
    }
}
