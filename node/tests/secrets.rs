//! `doctor --secrets` finds what came into a bank past the rules, and tells where and of which kind, never what.

mod common;

use common::Running;
use folklore_node::{api::UpOptions, home::Home};
use folklore_protocol::{
    claim::{Claim, Evidence},
    lesson::{Lesson, LessonDraft, LessonKind},
};
use folklore_store::{
    bank::{Batch, OpenOptions, Store},
    run::{Run, Step},
    runs::RunRow,
};
use serde_json::{Value, json};

fn check<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let checks = answer["checks"].as_array().expect("checks");
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no check {name}: {answer}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_of_an_older_bank_are_found_and_not_told() {
    let dir = tempfile::tempdir().unwrap();
    let key = format!("ghp_{}", "aB3dE5gH7jK9".repeat(3));
    let token = format!("xoxb-{}-{}-{}", "123456789012", "210987654321", "aB3dE5gH7jK9aB3dE5gH7jK9");
    let lesson = {
        let (home, _) = Home::create(dir.path(), "home").unwrap();
        let own = home.bank().unwrap();
        let store = Store::open(&home.store_dir(), OpenOptions::default()).unwrap().store;
        store.add_bank(own.clone()).unwrap();
        // As a build without today's rules would have written it.
        let lesson = Lesson::new(LessonDraft {
            kind: LessonKind::Pitfall,
            title: "Log in first".into(),
            applies_when: String::new(),
            not_when: String::new(),
            content: format!("The token {key} has run out."),
            task: "log in".into(),
            domain: String::new(),
            tags: Vec::new(),
        })
        .unwrap();
        let step = Step { observation: format!("posted with {token}"), ..Step::default() };
        let run = Run { task_key: "t".into(), task: "log in".into(), steps: vec![step], ..Run::default() };
        let row = RunRow {
            digest: run.digest(),
            task_key: "t".into(),
            outcome: run.outcome.status.into(),
            bytes: folklore_protocol::canonical::encode(&run),
        };
        let claim = Claim::Taught { lesson_id: lesson.id(), evidence: Evidence::told("person") };
        let batch = Batch { claims: vec![(claim, Some(lesson.clone()))], runs: vec![row], ..Batch::default() };
        store.write(own.id, &home.keypair().unwrap(), 1, batch).unwrap();
        lesson
    };
    let running = Running::start(dir.path(), UpOptions::default()).await;
    let answer = running.post("doctor", &json!({"secrets": true})).await;
    let found = check(&answer, "secrets");
    let detail = found["detail"].as_str().unwrap();
    assert_eq!((&found["ok"], &answer["ok"]), (&json!(false), &json!(false)));
    for part in ["github-token 1", "slack-token 1", "2 places", &lesson.id().to_string(), "run "] {
        assert!(detail.contains(part), "{part}: {detail}");
    }
    assert!(!answer.to_string().contains(&key) && !answer.to_string().contains(&token));
    running.stop().await;

    let clean = tempfile::tempdir().unwrap();
    let running = Running::start(clean.path(), UpOptions::default()).await;
    let begun = running.post("begin", &json!({"task": format!("use {key}")})).await;
    running.post("step", &json!({"run": begun["run"], "n": 1, "action": format!("curl -H {token}")})).await;
    let answer = running.post("doctor", &json!({"secrets": true})).await;
    let found = check(&answer, "secrets");
    assert!(found["ok"] == true && found["detail"].as_str().unwrap().starts_with("none in "), "{found}");
    running.stop().await;
}
