//! Attempts at one task, here and as far as other nodes tell.

use folklore_tests::{
    Node,
    inputs::{hotel_file, hotel_run},
    node::join,
};
use serde_json::json;

#[test]
fn what_other_nodes_lessons_say_of_their_attempts_is_shown_beside_the_runs_here() {
    let (a, b) = (Node::started("a"), Node::started("b"));
    join(&a, &b);
    let imported = |node: &Node| {
        let file = hotel_file(node.scratch(), "desk.json", 0..3);
        node.json(["import".into(), file.into_os_string()])
    };
    assert_eq!(imported(&a)["runs"], 3);
    b.json(["sync", "--wait"]);
    assert!(!b.lesson_ids().is_empty());
    // Runs stay where they are: without one of its own, b knows the task by nothing but lessons, and no lesson has its key.
    b.run(["attempts", "hotel-1"]).code(4);
    let words = hotel_run(1)["info"]["task"]["instruction"].as_str().expect("words").to_owned();
    let told = b.json(["attempts", &words]);
    let task = &told["tasks"][0];
    assert_eq!((&task["runs"], &task["mixed"]), (&json!([]), &json!(false)), "{told}");
    assert_eq!((&task["elsewhere"][0]["author"], &task["elsewhere"][0]["attempts"]), (&json!(a.id()), &json!(1)));
    assert_eq!(imported(&b)["runs"], 3);
    let attempts = b.json(["attempts", "hotel-1"]);
    let task = &attempts["tasks"][0];
    assert_eq!(task["runs"].as_array().map(Vec::len), Some(1), "{attempts}");
    assert_eq!((&task["runs"][0]["outcome"], &task["mixed"]), (&json!("failure"), &json!(false)), "{attempts}");
    let elsewhere = &task["elsewhere"][0];
    assert_eq!(
        (&elsewhere["author"], &elsewhere["outcome"], &elsewhere["attempts"]),
        (&json!(a.id()), &json!("failure"), &json!(1)),
        "{attempts}"
    );
    let id = task["runs"][0]["run"].as_str().expect("an id");
    let prompt = b.json(["refine", id, "--round", "2"]);
    let text = prompt["prompt"].as_str().expect("a prompt");
    assert!(text.contains("> update_booking_room") && !text.contains("outcome: failure"), "{text}");
}
