//! `doctor --secrets` finds what came into a bank past the rules, and tells where and of which kind, never what.

mod common;

use std::path::{Path, PathBuf};

use common::Running;
use folklore_node::{api::UpOptions, home::Home};
use folklore_protocol::{
    Keypair,
    claim::{Claim, Evidence},
    lesson::{Lesson, LessonDraft, LessonKind},
    run_log::{RunAbout, RunHead, RunKey},
};
use folklore_store::{
    bank::{BankInfo, Batch, OpenOptions, Store},
    run::{Run, Step},
    runs::{RunRow, log::StateHash},
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

/// Every file below a directory.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { dirs.push(path) } else { found.push(path) }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_invisible_characters_split_is_redacted_as_it_will_be_kept() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let running = Running::start(&home, UpOptions::default()).await;
    let key = format!("AKIA{}", "Q3Y7ABCDEFGH2345");
    let mut said = Vec::new();
    // What lessons and claims lose when they are made. The last is another letter until then.
    let invisible = [
        '\u{200b}',
        '\u{200d}',
        '\u{2060}',
        '\u{feff}',
        '\u{ad}',
        '\u{34f}',
        '\u{180e}',
        '\u{202e}',
        '\u{3164}',
        '\u{fe0f}',
        '\u{1bca0}',
        '\u{1d173}',
        '\u{e0041}',
        '\u{7}',
    ];
    let splits = invisible.iter().map(|hidden| (format!("{}{hidden}{}", &key[..9], &key[9..]), *hidden));
    for (n, (split, hidden)) in splits.chain([(key.replace('K', "\u{212a}"), '\u{212a}')]).enumerate() {
        let with = |what: &str| format!("{what} number {n} takes {split} with it.");
        let lesson = json!({"kind": "pitfall", "title": with("The gate"), "applies_when": with("The door"),
            "not_when": with("The hatch"), "content": with("The lock of the gate"), "task": with("Opening gates"),
            "domain": split, "tags": ["gates", split],
            "evidence": {"outcome": "failure", "agent": split, "judged_by": split}});
        let taught = running.post("teach", &lesson).await;
        assert_eq!(taught["redacted"], json!([{"rule": "aws-access-key-id", "count": 9}]), "{hidden:?}: {taught}");
        running.post("withdraw", &json!({"id": taught["id"], "reason": with("The reason")})).await;
        said.push(running.post("show", &json!({"id": taught["id"]})).await);

        let begun =
            json!({"task": with("The run"), "task_key": with("key"), "domain": split, "agent": split, "tags": [split]});
        let begun = running.post("begin", &begun).await;
        let step = |n: u32| json!({"run": begun["run"], "n": n, "think": with("I"), "action": with("pay"), "observation": with("it")});
        said.push(running.post("step", &step(1)).await);
        let mut started = step(2);
        started["started"] = json!(true);
        running.post("step", &started).await;
        said.push(running.post("resume", &json!({"run": begun["name"]})).await);
        let lease = said.last().unwrap()["run"].clone();
        let end = json!({"run": lease, "outcome": "failure", "reason": with("It"), "judged_by": with("The foreman")});
        said.push(running.post("end", &end).await);
    }
    let bank = dir.path().join("memento.jsonl");
    let unit = json!({"case": format!("Close the gate with {}\u{1bca0}{}", &key[..9], &key[9..]), "plan": "Turn the lock.", "case_label": "positive"});
    std::fs::write(&bank, format!("{unit}\n")).unwrap();
    said.push(running.import(&json!({"paths": [bank]})).await);
    said.push(running.post("list", &json!({"limit": 1000})).await);
    for answer in said {
        assert!(!answer.to_string().contains(&key[9..]), "{answer}");
    }
    running.stop().await;
    let searched = files(&home);
    assert!(searched.len() > 5, "{searched:?}");
    for file in searched {
        let bytes = std::fs::read(&file).unwrap();
        for part in [key.as_bytes(), &key.as_bytes()[9..]] {
            assert!(!bytes.windows(part.len()).any(|window| window == part), "{}", file.display());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bank_with_copies_of_peers_runs_is_looked_through_too() {
    let dir = tempfile::tempdir().unwrap();
    {
        let (home, _) = Home::create(dir.path(), "home").unwrap();
        let own = home.bank().unwrap();
        let store = Store::open(&home.store_dir(), OpenOptions::default()).unwrap().store;
        let bank = BankInfo::new(own.owner, [9; 16], "fleet");
        store.add_bank(own).unwrap();
        store.add_bank(bank.clone()).unwrap();
        let peer = Keypair::from_seed(&[7; 32]).author();
        let about = RunAbout {
            name: "ship".into(),
            task_key: "parcel".into(),
            task: "Ship the parcel to jane.roe@quayhotels.fr".into(),
            domain: String::new(),
            agent: "clerk".into(),
            tags: Vec::new(),
            began_ms: 1,
            branch: None,
        };
        let state = StateHash::root(&about.task_key, &about.task);
        let head = RunHead { run: RunKey([3; 16]), open: true, steps: 0, state: state.0, marks: Vec::new() };
        assert_eq!(store.hear_run(peer, bank.id, &head, Some(&about), 1), Ok(Some(0)));
    }
    let running = Running::start(dir.path(), UpOptions::default()).await;
    // One of this node's own that is called the same.
    running.post("begin", &json!({"task": "Send the letter", "name": "ship"})).await;
    let answer = running.post("doctor", &json!({"secrets": true})).await;
    let personal = check(&answer, "personal data")["detail"].as_str().unwrap();
    assert!(personal.contains("email 1 in 1 places: run ship under way"), "{personal}");
    assert_eq!(check(&answer, "secrets")["ok"], true, "{answer}");
    running.stop().await;
}
