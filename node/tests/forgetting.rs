//! Forgetting through a daemon, and taking it back.

mod common;

use common::Running;
use folklore_node::api::UpOptions;
use serde_json::{Value, json};

const QUERY: &str = "start the vermilion escalator";

fn lesson() -> Value {
    json!({"kind": "pitfall", "title": "Reseat the governor", "task": QUERY,
           "content": "Before it runs the vermilion escalator needs its quartz governor reseated."})
}

/// Ids that recall and the list answer.
async fn shown(running: &Running) -> (Vec<Value>, Vec<Value>) {
    let recalled = running.post("recall", &json!({"task": QUERY})).await;
    let hits = recalled["hits"].as_array().unwrap().iter().map(|hit| hit["lesson"]["id"].clone()).collect();
    let listed = running.post("list", &json!({"limit": 10})).await;
    (hits, listed["lessons"].as_array().unwrap().iter().map(|lesson| lesson["id"].clone()).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lesson_that_was_forgotten_and_is_taught_again_is_recalled_and_listed_also_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path(), UpOptions::default()).await;
    let taught = running.post("teach", &lesson()).await;
    let id = taught["id"].clone();
    let all = (vec![id.clone()], vec![id.clone()]);
    assert_eq!(shown(&running).await, all);

    let forgotten = running.post("forget", &json!({"id": id})).await;
    assert_eq!(
        (&forgotten["erased"], &forgotten["again"], &forgotten["left"]),
        (&json!(true), &json!(false), &json!([]))
    );
    assert_eq!(shown(&running).await, (vec![], vec![]));
    let forgotten = running.post("forget", &json!({"id": id})).await;
    assert_eq!(
        (&forgotten["erased"], &forgotten["again"], &forgotten["left"]),
        (&json!(false), &json!(true), &json!([]))
    );

    let again = running.post("teach", &lesson()).await;
    assert_eq!((&again["id"], &again["new"]), (&id, &json!(true)));
    assert_eq!(shown(&running).await, all);
    let show = running.post("show", &json!({"id": id})).await;
    assert_eq!(show["total"], json!(1), "the claim was there already: {show}");
    // And once more, with nothing forgotten in between.
    assert_eq!(running.post("teach", &lesson()).await["new"], json!(false));
    running.stop().await;

    let running = Running::start(dir.path(), UpOptions::default()).await;
    assert_eq!(shown(&running).await, all);
    running.stop().await;
}
