//! Asking the peers: who was asked, who answered, and where a hit comes from.

use folklore_tests::{
    Link, Node, PATIENCE,
    inputs::{hotel_file, lesson},
    node::{join, text},
    until,
};
use serde_json::{Value, json};

fn peers(answer: &Value) -> [Vec<String>; 3] {
    ["asked", "answered", "silent"]
        .map(|name| answer["peers"][name].as_array().expect("a list").iter().map(text).collect())
}

#[test]
fn a_peer_behind_a_cut_link_is_not_counted_among_those_that_answered() {
    let (mut a, mut b) = (Node::new("a"), Node::new("b"));
    let link = Link::between(&mut a, &mut b);
    let bank = join(&a, &b);
    let query = json!({"task": "open the valve of the north wing while the boiler is cold", "scope": "network", "deadline_ms": 1500});

    // Connected, and nobody knows anything: A answers, with nothing.
    let answer = b.recall(&query);
    assert_eq!(peers(&answer), [vec![a.id()], vec![a.id()], vec![]], "{answer}");
    assert_eq!((&answer["hits"], &answer["reason"]), (&json!([]), &json!("bank-empty")), "{answer}");

    // The cable is pulled: the connection seems to stand, so A is asked, and is silent.
    link.freeze();
    a.teach(&lesson("north"));
    let began = std::time::Instant::now();
    let answer = b.recall(&query);
    assert!(began.elapsed().as_millis() >= 1000, "it did not wait for its deadline: {answer}");
    assert_eq!(peers(&answer), [vec![a.id()], vec![], vec![a.id()]], "{answer}");
    assert_eq!(answer["hits"], json!([]));

    // The connection is seen to be gone: nobody is asked, and nobody waited for.
    link.cut();
    link.seen_as_cut(&a, &b);
    let answer = b.recall(&query);
    assert_eq!(peers(&answer), [vec![], vec![], Vec::<String>::new()], "{answer}");

    link.heal_to_equal(&a, &b, &bank);
    let answer = b.recall(&query);
    assert_eq!(peers(&answer), [vec![a.id()], vec![a.id()], vec![]], "{answer}");
    assert_eq!(answer["hits"][0]["source"], "local", "what is here is not fetched: {answer}");
}

#[test]
fn what_is_not_here_yet_comes_from_the_peer_that_has_it() {
    let (mut a, mut b) = (Node::new("a"), Node::new("b"));
    let link = Link::between(&mut a, &mut b);
    let bank = join(&a, &b);
    link.cut();
    link.seen_as_cut(&a, &b);
    let file = hotel_file(a.scratch(), "desk.json", 0..600);
    let last = a.door().import(&json!({"paths": [file]})).last().expect("events");
    assert_eq!(last["event"], "done", "{last}");
    // So slow a link that the backlog takes long, and a question with its answer does not.
    link.limit(Some(40_000));
    link.heal();
    // Connected is not enough: only who has greeted is known to share the bank, and is asked.
    let probe = json!({"task": "anything at all", "scope": "network", "deadline_ms": 100});
    until("A can be asked", PATIENCE, || peers(&b.recall(&probe))[0].contains(&a.id()).then_some(()));

    let all = a.lessons();
    let (mut tried, mut found) = (0, 0);
    for lesson in all.iter().rev().step_by(7) {
        let id = text(&lesson["id"]);
        if b.lesson_ids().contains(&id) {
            continue;
        }
        tried += 1;
        let task = text(&lesson["task"]);
        let answer = b.recall(&json!({"task": task, "scope": "network", "deadline_ms": 20_000}));
        for hit in answer["hits"].as_array().expect("a list") {
            if hit["source"] == "local" {
                continue;
            }
            found += 1;
            assert_eq!(hit["source"], json!(a.id()), "{answer}");
            assert_eq!(hit["authors"], json!([a.id()]), "{answer}");
            // It is what A has, whole: the id is the hash of it.
            assert_eq!(hit["lesson"], a.show(&text(&hit["lesson"]["id"]))["lesson"]);
            assert_eq!(peers(&answer), [vec![a.id()], vec![a.id()], vec![]], "{answer}");
        }
        if found >= 3 {
            break;
        }
    }
    println!(
        "{found} of {tried} questions were answered by A about what B did not hold; B held {} of {}",
        b.lesson_ids().len(),
        all.len()
    );
    assert!(found > 0, "no hit came from A in {tried} questions");
    link.limit(None);
    link.heal_to_equal(&a, &b, &bank);
}
