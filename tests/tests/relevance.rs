//! Nonsense gets nothing, and says why; what was lived through is found in other words.

use std::{collections::BTreeSet, fs};

use folklore_tests::{
    Node,
    inputs::{import_shared, shared_data},
    program::workspace,
};
use serde_json::{Value, json};

/// Of off-topic queries at most this share may get an answer, in percent.
const OFF_TOPIC_MAX_PERCENT: f64 = 5.0;
/// Of on-topic queries at least this share must get one, in percent.
const ON_TOPIC_MIN_PERCENT: f64 = 95.0;

fn off_topic() -> Vec<String> {
    let text =
        fs::read_to_string(workspace().join("store/tests/data/off_topic_queries.txt")).expect("the off-topic queries");
    text.lines().filter(|line| !line.starts_with("# ") && !line.trim().is_empty()).map(str::to_owned).collect()
}

/// Queries about runs of these sources, in other words than theirs.
fn on_topic(sources: &[&str]) -> Vec<String> {
    let text =
        fs::read_to_string(workspace().join("store/tests/data/on_topic_queries.jsonl")).expect("the on-topic queries");
    let queries = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a query"));
    let of_sources = queries.filter(|query| sources.iter().any(|source| query["source"] == *source));
    of_sources.map(|query| query["query"].as_str().expect("a query").to_owned()).collect()
}

/// How many percent of the queries get an answer; each that does not must say that nothing was close enough.
fn answered(node: &Node, queries: &[String], wanted: bool) -> f64 {
    let mut with_answer = 0;
    for query in queries {
        let answer = node.recall(&json!({"task": query}));
        let has_hits = answer["hits"].as_array().is_some_and(|hits| !hits.is_empty());
        if has_hits {
            assert_eq!(answer["reason"], Value::Null, "{query}");
            with_answer += 1;
        } else {
            assert_eq!(answer["reason"], "below-threshold", "{query}");
        }
        if has_hits != wanted {
            let hit = &answer["hits"][0];
            println!(
                "  {}: {query} ({} {})",
                if has_hits { "answered" } else { "no answer" },
                hit["lesson"]["title"],
                hit["score"]
            );
        }
    }
    100.0 * f64::from(with_answer) / queries.len() as f64
}

#[test]
fn off_topic_queries_get_nothing_and_paraphrases_get_an_answer_from_the_shared_runs() {
    let Some(data) = shared_data() else { return };
    let node = Node::started("a");
    let last = node.door().import(&import_shared(&data)).last().expect("events");
    assert_eq!(last["event"], "done", "{last}");
    let off = off_topic();
    assert!(off.len() >= 200, "{}", off.len());
    let on = on_topic(&["tau-bench-airline", "tau-bench-retail", "mini-swe-agent"]);
    assert!(on.len() >= 50, "{}", on.len());
    let false_answers = answered(&node, &off, false);
    let answers = answered(&node, &on, true);
    println!(
        "{} lessons: {false_answers:.1} % of {} off-topic queries answered, {answers:.1} % of {} paraphrases",
        last["lessons"],
        off.len(),
        on.len()
    );
    assert!(false_answers <= OFF_TOPIC_MAX_PERCENT);
    assert!(answers >= ON_TOPIC_MIN_PERCENT);
}

#[test]
fn off_topic_queries_get_nothing_and_the_demo_questions_get_an_answer_from_the_shipped_runs() {
    let demo = workspace().join("node/data/demo");
    let node = Node::started("a");
    let request =
        json!({"paths": [demo.join("coding"), demo.join("shop.json")], "outcomes": demo.join("coding/outcomes.json")});
    let last = node.door().import(&request).last().expect("events");
    assert_eq!((&last["event"], &last["skipped"]), (&json!("done"), &json!([])), "{last}");
    let text = fs::read_to_string(demo.join("queries.json")).expect("the demo's questions");
    let questions = texts(&serde_json::from_str(&text).expect("JSON"));
    assert!(questions.len() >= 5, "{questions:?}");
    let off = off_topic();
    let false_answers = answered(&node, &off, false);
    let answers = answered(&node, &questions, true);
    println!(
        "{} lessons: {false_answers:.1} % of {} off-topic queries answered, {answers:.1} % of {} questions",
        last["lessons"],
        off.len(),
        questions.len()
    );
    assert!(false_answers <= OFF_TOPIC_MAX_PERCENT);
    assert!(answers >= ON_TOPIC_MIN_PERCENT);
}

/// Every text called `query`, `question` or `task` in a JSON value.
fn texts(value: &Value) -> Vec<String> {
    let mut found = BTreeSet::new();
    match value {
        Value::Array(items) => items.iter().for_each(|item| found.extend(texts(item))),
        Value::Object(fields) => {
            for (name, field) in fields {
                match field {
                    Value::String(text) if ["query", "question", "ask"].contains(&name.as_str()) => {
                        found.insert(text.clone());
                    }
                    _ => found.extend(texts(field)),
                }
            }
        }
        _ => {}
    }
    found.into_iter().collect()
}

#[test]
fn an_empty_answer_says_why() {
    let node = Node::started("a");
    let reason = |request: Value| node.recall(&request)["reason"].clone();
    assert_eq!(reason(json!({"task": "open the north valve"})), "bank-empty");
    node.teach(&folklore_tests::inputs::lesson("north"));
    let on_topic = "open the valve of the north wing while the boiler is cold";
    assert_eq!(reason(json!({"task": on_topic})), Value::Null);
    assert_eq!(reason(json!({"task": on_topic, "domain": "ships"})), "filtered");
    assert_eq!(reason(json!({"task": on_topic, "kinds": ["contrast"]})), "filtered");
    assert_eq!(reason(json!({"task": on_topic, "min_score": 1.0})), "below-threshold");
    assert_eq!(reason(json!({"task": "a sonnet about the tides"})), "below-threshold");
}
