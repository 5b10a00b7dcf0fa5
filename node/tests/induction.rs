//! A daemon whose lessons are drawn by a model: through the queue, by the agent's own model, and from several runs of one
//! task.

mod common;
mod fake_model;
mod fake_service;

use std::{path::Path, time::Duration};

use common::Running;
use fake_model::{Act, Fake, good_answer};
use folklore_node::{api::UpOptions, home::Home, induction::InductionOptions, service::ChatProvider};
use folklore_protocol::{Access, Keypair, Policy, Record, claim::Claim};
use folklore_store::bank::{BankInfo, Incoming, OpenOptions, Store};
use serde_json::{Value, json};

const MAIL: &str = "jane.roe@quayhotels.fr";

fn options(fake: &Fake) -> UpOptions {
    let induction = InductionOptions {
        provider: Some(ChatProvider::OpenAi),
        url: Some(fake.url.clone()),
        model: Some("small-1".into()),
        ..InductionOptions::default()
    };
    UpOptions { induction, ..UpOptions::default() }
}

/// One run of a made-up hotel desk, in the shape of a tau-bench result.
fn run(task: &str, trial: u64, reward: f64, room: &str) -> Value {
    let call = |name: &str, arguments: Value| {
        json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": name, "type": "function", "function": {"name": name, "arguments": arguments.to_string()}}]})
    };
    json!({
        "task_id": task, "trial": trial, "reward": reward,
        "info": {"task": {"instruction": format!("Move booking {task} to the {room} room because of the noise; mail {MAIL}."), "actions": []}},
        "traj": [
            {"role": "user", "content": format!("Please move booking {task}; write to {MAIL}.")},
            call("get_booking", json!({"booking_id": task})),
            {"role": "tool", "name": "get_booking", "content": format!("{{\"status\": \"confirmed\", \"contact\": \"{MAIL}\"}}")},
            call("update_booking_room", json!({"booking_id": task, "room": room})),
            {"role": "tool", "name": "update_booking_room", "content": "{\"status\": \"moved\"}"},
            {"role": "assistant", "content": format!("Booking {task} is in the {room} room now.")},
        ],
    })
}

fn file(dir: &Path, name: &str, runs: &[Value]) -> String {
    let path = dir.join(name);
    std::fs::write(&path, Value::from(runs).to_string()).expect("a file");
    path.display().to_string()
}

/// The last event of an import.
async fn import(node: &Running, path: &str, backend: &str) -> Value {
    let text = node.post_text("import", &json!({"paths": [path], "induce": backend})).await;
    let last = text.lines().last().expect("an event");
    let last: Value = serde_json::from_str(last).expect("JSON");
    assert_eq!(last["event"], "done", "{text}");
    last
}

/// Waits until the queue looks so.
async fn until(node: &Running, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..1_200 {
        let jobs = node.get("jobs").await;
        if is_so(&jobs) {
            return jobs;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the queue never came to be so: {what}: {}", node.get("jobs").await);
}

async fn until_empty(node: &Running) {
    until(node, "empty", |jobs| jobs["jobs"] == json!([])).await;
}

async fn lessons(node: &Running) -> Vec<Value> {
    node.post("list", &json!({"limit": 1000})).await["lessons"].as_array().expect("a list").clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_wait_while_the_model_is_away_and_are_drawn_from_when_it_is_back() {
    let (dir, fake) = (tempfile::tempdir().unwrap(), Fake::new([]).await);
    fake.plan([], Some(Act::Status(503, None)));
    let node = Running::start(&dir.path().join("home"), options(&fake)).await;
    let path = file(
        dir.path(),
        "desk.json",
        &[run("booking-1", 0, 0.0, "north"), run("booking-1", 1, 1.0, "south"), run("booking-2", 0, 0.0, "east")],
    );
    let done = import(&node, &path, "openai").await;
    assert_eq!((&done["runs"], &done["lessons"], &done["queued"]), (&json!(3), &json!(0), &json!(4)), "{done}");
    let jobs = until(&node, "the service is left alone", |jobs| jobs["error"].is_string()).await;
    assert_eq!((&jobs["waiting"], &jobs["failed"]), (&json!(4), &json!(0)), "{jobs}");
    let status = node.get("status").await;
    assert_eq!((&status["jobs"]["waiting"], &status["induction"]["waiting"]), (&json!(4), &json!(4)), "{status}");
    // What is written meanwhile is not lost and waits for nobody.
    let taught =
        json!({"kind": "pitfall", "title": "The lift is loud", "content": "Rooms beside the lift are loud at night."});
    node.post("teach", &taught).await;
    assert_eq!(lessons(&node).await.len(), 1);

    // A stop and a start later it is all still there.
    node.stop().await;
    let node = Running::start(&dir.path().join("home"), options(&fake)).await;
    assert_eq!(node.get("jobs").await["waiting"], 4);
    fake.plan([], None);
    node.post("jobs/retry", &json!({"id": "all"})).await;
    until_empty(&node).await;
    let listed = lessons(&node).await;
    let kinds = |kind: &str| listed.iter().filter(|lesson| lesson["kind"] == kind).count();
    assert_eq!((kinds("pitfall"), kinds("strategy"), kinds("contrast")), (3, 1, 1), "{listed:#?}");
    let id = listed.iter().find(|lesson| lesson["kind"] == "contrast").unwrap()["id"].clone();
    let shown = node.post("show", &json!({"id": id})).await;
    assert_eq!(shown["claims"][0]["evidence"]["induced_by"], "openai:small-1", "{shown}");
    assert!(shown["lesson"]["content"].as_str().unwrap().contains("Seen: `"), "{shown}");
    // Nothing that tells who it was left the node.
    let sent: String = fake.requests().iter().map(|(_, _, body)| body.to_string()).collect();
    assert!(sent.contains("update_booking_room") && !sent.contains("jane.roe"), "{sent}");
    // The same file again is all known, and nothing is asked again.
    let asked = fake.requests().len();
    let again = import(&node, &path, "openai").await;
    assert_eq!((&again["runs"], &again["duplicates"]), (&json!(0), &json!(3)), "{again}");
    until_empty(&node).await;
    assert!(fake.requests().len() <= asked + 1, "at most the contrast is asked for again");
    assert_eq!(lessons(&node).await.len(), listed.len());
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_mended_once_and_one_that_stays_broken_is_no_lesson() {
    let (dir, fake) = (tempfile::tempdir().unwrap(), Fake::new([]).await);
    let node = Running::start(&dir.path().join("home"), options(&fake)).await;
    let invented = json!({"lessons": [{"title": "Move bookings with update_booking_room", "applies_when": "A booking is moved.",
        "content": "Call update_booking_room with the booking and the room.", "evidence": [{"step": 1, "quote": "nobody said this"}]}]});
    fake.plan([Act::Says(format!("Here you are:\n```json\n{invented}\n```"))], None);
    let first = file(dir.path(), "first.json", &[run("booking-1", 0, 0.0, "north")]);
    import(&node, &first, "openai").await;
    until_empty(&node).await;
    let requests = fake.requests();
    assert_eq!(requests.len(), 2, "one objection");
    let objection = requests[1].2["messages"][3]["content"].as_str().unwrap().to_owned();
    assert!(objection.contains("does not stand in step 1"), "{objection}");
    assert_eq!(lessons(&node).await.len(), 1);

    // Broken, and broken again: the job fails, says why, and can be retried or dropped.
    let broken = |text: &str| Act::Says(text.to_owned());
    fake.plan([broken("no idea"), broken("{\"lessons\": [{\"title\": \"x\"")], None);
    let second = file(dir.path(), "second.json", &[run("booking-2", 0, 0.0, "east")]);
    import(&node, &second, "openai").await;
    let jobs = until(&node, "failed", |jobs| jobs["failed"] == 1).await;
    assert!(jobs["jobs"][0]["reason"].as_str().unwrap().contains("twice"), "{jobs}");
    assert_eq!(lessons(&node).await.len(), 1, "nothing was made of broken answers");
    let id = jobs["jobs"][0]["id"].clone();
    node.post("jobs/retry", &json!({"id": id})).await;
    until_empty(&node).await;
    assert_eq!(lessons(&node).await.len(), 2);

    fake.plan([], Some(broken("no idea")));
    let third = file(dir.path(), "third.json", &[run("booking-3", 0, 0.0, "west")]);
    import(&node, &third, "openai").await;
    let jobs = until(&node, "failed", |jobs| jobs["failed"] == 1).await;
    node.post("jobs/drop", &json!({"id": jobs["jobs"][0]["id"]})).await;
    assert_eq!(node.get("jobs").await["jobs"], json!([]));
    assert_eq!(lessons(&node).await.len(), 2);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_a_label_is_judged_and_the_verdict_is_marked_as_such() {
    let (dir, fake) = (tempfile::tempdir().unwrap(), Fake::new([]).await);
    let node = Running::start(&dir.path().join("home"), options(&fake)).await;
    // Runs of coding agents say nowhere how they ended.
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/demo/coding/acme__parcel-11.scout-small.traj.json");
    let path = path.display().to_string();
    let done = import(&node, &path, "openai").await;
    assert_eq!(done["queued"], 1, "{done}");
    until_empty(&node).await;
    let attempts = node.post("attempts", &json!({"task": "acme__parcel-11"})).await;
    let attempt = &attempts["tasks"][0]["runs"][0];
    assert_eq!(
        (&attempt["outcome"], &attempt["judged_by"]),
        (&json!("failure"), &json!("judged by openai:small-1")),
        "{attempts}"
    );
    let listed = lessons(&node).await;
    let shown = node.post("show", &json!({"id": listed[0]["id"]})).await;
    assert_eq!(shown["claims"][0]["evidence"]["judged_by"], "judged by openai:small-1", "{shown}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agents_own_model_gets_the_prompt_and_its_answer_is_checked_alike() {
    let (dir, fake) = (tempfile::tempdir().unwrap(), Fake::new([]).await);
    let node = Running::start(&dir.path().join("home"), UpOptions::default()).await;
    let path = file(dir.path(), "desk.json", &[run("booking-1", 0, 0.0, "north"), run("booking-1", 1, 1.0, "south")]);
    let done = import(&node, &path, "agent").await;
    assert!(done["no_lesson"][0]["reason"].as_str().unwrap().contains("--backend agent"), "{done}");
    let attempts = node.post("attempts", &json!({"task": "booking-1"})).await;
    let task = &attempts["tasks"][0];
    let outcomes: Vec<&str> = task["runs"].as_array().unwrap().iter().map(|r| r["outcome"].as_str().unwrap()).collect();
    assert_eq!((outcomes, &task["mixed"]), (vec!["success", "failure"], &json!(true)), "{attempts}");

    let runs: Vec<Value> = task["runs"].as_array().unwrap().iter().map(|run| run["run"].clone()).collect();
    for (ask, runs) in
        [("lessons", vec![runs[0].clone()]), ("contrast", runs.clone()), ("procedures", vec![runs[0].clone()])]
    {
        let prompt = node.post("induce/prompt", &json!({"runs": runs, "ask": ask})).await["prompts"][0].clone();
        assert!(prompt["estimated_tokens"].as_u64().unwrap() > 300 && prompt["service"].is_null(), "{prompt}");
        assert!(!prompt.to_string().contains("jane.roe"));
        // The agent's model answers.
        let body = json!({"messages": [{"role": "system", "content": prompt["system"]}, {"role": "user", "content": prompt["user"]}]});
        let answer = good_answer(&body);
        let cut = &answer[..answer.len() - 5];
        let refused = node.post("induce/answer", &json!({"runs": prompt["runs"], "ask": ask, "answer": cut})).await;
        assert!(
            refused["objection"].as_str().unwrap().contains("cut off") && refused["lessons"] == json!([]),
            "{refused}"
        );
        let taken = node
            .post("induce/answer", &json!({"runs": prompt["runs"], "ask": ask, "answer": answer, "by": "scout"}))
            .await;
        assert_eq!((taken["lessons"].as_array().unwrap().len(), &taken["objection"]), (1, &Value::Null), "{taken}");
        let shown = node.post("show", &json!({"id": taken["lessons"][0]})).await;
        assert_eq!(shown["claims"][0]["evidence"]["induced_by"], "agent:scout");
    }
    let again = node.post("attempts", &json!({"task": "booking-1"})).await;
    assert_eq!(again["tasks"][0]["contrasts"].as_array().map(Vec::len), Some(1), "{again}");

    // A dry run for a model shows the same and asks nobody; so does looking over one's own run.
    let dry =
        json!({"runs": [runs[0]], "backend": "openai", "dry_run": true, "model": {"model": "m", "base_url": fake.url}});
    let dry = node.post("induce", &dry).await;
    assert!(dry["prompts"][0]["service"].as_str().unwrap().contains("openai:m at http"), "{dry}");
    let refine = node.post("refine", &json!({"run": runs[0], "round": 2})).await;
    assert!(refine["prompt"].as_str().unwrap().contains("> update_booking_room"), "{refine}");
    assert!(fake.requests().is_empty() && node.get("jobs").await["jobs"] == json!([]));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hours_budget_holds_the_rest_back_and_says_so() {
    let (dir, fake) = (tempfile::tempdir().unwrap(), Fake::new([]).await);
    let mut options = options(&fake);
    options.induction.calls_an_hour = Some(2);
    let node = Running::start(&dir.path().join("home"), options).await;
    let runs: Vec<Value> = (0..5).map(|n| run(&format!("booking-{n}"), 0, 0.0, "north")).collect();
    import(&node, &file(dir.path(), "desk.json", &runs), "openai").await;
    let jobs = until(&node, "the budget is used up", |jobs| {
        jobs["waiting"] == 3 && jobs["error"].as_str().is_some_and(|error| error.contains("2 calls"))
    })
    .await;
    assert_eq!((&jobs["waiting"], fake.requests().len()), (&json!(3), 2), "{jobs}");
    node.stop().await;
}

/// The value of one sample of `/metrics`.
async fn sample(node: &Running, series: &str) -> f64 {
    let text = node.text("/metrics").await;
    let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("{series} is not in {text}")).parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_show_what_waits_for_a_model_and_what_it_cost() {
    let (dir, fake) = (tempfile::tempdir().unwrap(), Fake::new([]).await);
    let mut options = options(&fake);
    options.induction.calls_an_hour = Some(3);
    options.induction.tokens_an_hour = Some(1_000_000);
    // One answer that is none even after an objection: two calls, and the job is given up.
    fake.plan([Act::Says("I would rather not.".into()), Act::Says("Really not.".into())], None);
    let node = Running::start(&dir.path().join("home"), options).await;
    import(&node, &file(dir.path(), "first.json", &[run("booking-1", 0, 0.0, "north")]), "openai").await;
    until(&node, "given up", |jobs| jobs["failed"] == 1).await;
    let runs: Vec<Value> = (2..6).map(|n| run(&format!("booking-{n}"), 0, 0.0, "north")).collect();
    import(&node, &file(dir.path(), "desk.json", &runs), "openai").await;
    until(&node, "the budget is used up", |jobs| jobs["waiting"] == 3 && jobs["error"].is_string()).await;
    // The job that met the end of the budget is being put back.
    for _ in 0..1_200 {
        if sample(&node, "folklore_induction_jobs{state=\"running\"}").await == 0.0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for (series, value) in [
        ("folklore_induction_jobs{state=\"waiting\"}", 3.0),
        ("folklore_induction_jobs{state=\"running\"}", 0.0),
        ("folklore_induction_jobs{state=\"failed\"}", 1.0),
        ("folklore_induction_resting", 0.0),
        ("folklore_induction_hour_calls{kind=\"used\"}", 3.0),
        ("folklore_induction_hour_calls{kind=\"allowed\"}", 3.0),
        ("folklore_induction_hour_tokens{kind=\"allowed\"}", 1_000_000.0),
        ("folklore_induction_calls_total", 3.0),
        ("folklore_induction_jobs_ended_total{kind=\"done\"}", 1.0),
        ("folklore_induction_jobs_ended_total{kind=\"failed\"}", 1.0),
    ] {
        assert_eq!(sample(&node, series).await, value, "{series}");
    }
    let tokens = sample(&node, "folklore_induction_tokens_total").await;
    assert!(tokens > 500.0, "three prompts with a run each: {tokens}");
    assert_eq!(sample(&node, "folklore_induction_hour_tokens{kind=\"used\"}").await, tokens);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_side_by_side_get_a_different_lesson_each() {
    let dir = tempfile::tempdir().unwrap();
    let node = Running::start(&dir.path().join("home"), UpOptions::default()).await;
    let task = "Start the heating circuit of the north wing";
    let teach = async |title: &str, content: &str| {
        let lesson = json!({"kind": "pitfall", "title": title, "content": content, "task": task, "domain": "plant",
            "applies_when": "A heating circuit is started."});
        node.post("teach", &lesson).await["id"].as_str().unwrap().to_owned()
    };
    teach(
        "The north valve sticks when the boiler is cold",
        "Warm the boiler to 40 degrees before the north valve is opened.",
    )
    .await;
    teach(
        "The north valve sticks when the boiler is cold.",
        "Warm the boiler to 40 degrees before the north valve is opened!",
    )
    .await;
    teach(
        "The pump of the north wing has air in it after a repair",
        "Bleed the pump until no more bubbles come before it runs at full speed.",
    )
    .await;
    let recall =
        async |attempts: u32| node.post("recall", &json!({"task": task, "attempts": attempts, "min_score": 0.0})).await;
    let two = recall(2).await;
    let titles: Vec<&str> =
        two["hits"].as_array().unwrap().iter().map(|hit| hit["lesson"]["title"].as_str().unwrap()).collect();
    assert_eq!(titles.len(), 2, "{two}");
    assert!(
        titles.iter().any(|title| title.contains("pump")) && titles.iter().any(|title| title.contains("valve")),
        "{titles:?}"
    );
    let five = recall(5).await;
    assert_eq!(five["hits"].as_array().map(Vec::len), Some(2), "the two that say the same count once: {five}");
    assert!(five["note"].as_str().unwrap().contains("2 different lessons for 5 attempts"), "{five}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_counts_against_the_hours_budget_also_one_that_failed() {
    let (dir, fake) = (tempfile::tempdir().unwrap(), Fake::new([]).await);
    fake.plan([], Some(Act::Status(503, None)));
    let mut options = options(&fake);
    options.induction.calls_an_hour = Some(3);
    let node = Running::start(&dir.path().join("home"), options).await;
    import(&node, &file(dir.path(), "desk.json", &[run("booking-1", 0, 0.0, "north")]), "openai").await;
    let spent = |jobs: &Value| jobs["error"].as_str().is_some_and(|error| error.starts_with("3 calls"));
    let jobs = until(&node, "the budget is used up", spent).await;
    assert_eq!((&jobs["waiting"], fake.requests().len()), (&json!(1), 3), "{jobs}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_job_was_given_up_is_asked_about_again_when_that_is_wanted() {
    let (dir, fake) = (tempfile::tempdir().unwrap(), Fake::new([]).await);
    fake.plan([], Some(Act::Says("no idea".into())));
    let node = Running::start(&dir.path().join("home"), options(&fake)).await;
    import(&node, &file(dir.path(), "desk.json", &[run("booking-1", 0, 0.0, "north")]), "openai").await;
    let failed = until(&node, "given up", |jobs| jobs["failed"] == 1).await;
    fake.plan([], None);
    let again = node.post("induce", &json!({"runs": failed["jobs"][0]["runs"], "backend": "openai"})).await;
    assert_eq!(again["jobs"], json!([failed["jobs"][0]["id"]]), "{again}");
    until_empty(&node).await;
    assert_eq!(lessons(&node).await.len(), 1);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agents_model_is_named_without_the_secret_that_its_name_hid() {
    let dir = tempfile::tempdir().unwrap();
    let node = Running::start(&dir.path().join("home"), UpOptions::default()).await;
    import(&node, &file(dir.path(), "desk.json", &[run("booking-1", 0, 0.0, "north")]), "agent").await;
    let attempts = node.post("attempts", &json!({"task": "booking-1"})).await;
    let prompt = node.post("induce/prompt", &json!({"runs": [attempts["tasks"][0]["runs"][0]["run"]]})).await;
    let prompt = &prompt["prompts"][0];
    let messages = json!({"messages": [{"role": "system", "content": prompt["system"]}, {"role": "user", "content": prompt["user"]}]});
    let key = format!("AKIA{}", "Q3Y7ABCDEFGH2345");
    let by = format!("{}\u{200b}{}", &key[..9], &key[9..]);
    let taken = json!({"runs": prompt["runs"], "answer": good_answer(&messages), "by": by});
    let taken = node.post("induce/answer", &taken).await;
    let shown = node.post("show", &json!({"id": taken["lessons"][0]})).await;
    assert_eq!(shown["claims"][0]["evidence"]["induced_by"], "agent:[REDACTED:aws-access-key-id]", "{shown}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waited_brings_nothing_into_a_bank_that_this_node_may_not_write_to_any_more() {
    let (dir, fake) = (tempfile::tempdir().unwrap(), Fake::new([]).await);
    fake.plan([], Some(Act::Status(503, None)));
    let dir_of_home = dir.path().join("home");
    let owner = Keypair::from_seed(&[7; 32]);
    let bank = BankInfo::new(owner.author(), [9; 16], "desk");
    let (home, _) = Home::create(&dir_of_home, "home").unwrap();
    let open = || Store::open(&home.store_dir(), OpenOptions::default()).unwrap().store;
    {
        let store = open();
        store.add_bank(home.bank().unwrap()).unwrap();
        store.add_bank(bank.clone()).unwrap();
    }
    let node = Running::start(&dir_of_home, options(&fake)).await;
    let taught = node.post("teach", &json!({"bank": "desk", "kind": "pitfall", "title": "The lift is loud", "content": "Rooms beside it are loud."})).await;
    let path = file(dir.path(), "desk.json", &[run("booking-1", 0, 0.0, "north")]);
    let done = node.import(&json!({"paths": [path], "induce": "openai", "bank": "desk"})).await;
    assert_eq!(done["queued"], 1, "{done}");
    until(&node, "the service is left alone", |jobs| jobs["error"].is_string()).await;
    node.stop().await;
    {
        let writers = Access::Listed(vec![owner.author()]);
        let claim = Claim::Policy(Policy { writers, ..Policy::default() });
        let record = Record::sign(&owner, bank.id, 1, 1, claim).unwrap();
        open().admit(bank.id, vec![Incoming { record, body: None }]).unwrap();
    }
    fake.plan([], None);
    let asked = fake.requests().len();
    let node = Running::start(&dir_of_home, options(&fake)).await;
    let jobs = until(&node, "given up", |jobs| jobs["failed"] == 1).await;
    assert!(jobs["jobs"][0]["reason"].as_str().unwrap().contains("policy"), "{jobs}");
    assert_eq!(fake.requests().len(), asked, "nobody pays for what may not be kept");
    assert_eq!(lessons(&node).await.len(), 1);
    // Nor does a word about a lesson that is there.
    let url = format!("http://{}/v1/withdraw", node.notice.http);
    let sent = node.http.post(url).bearer_auth(&node.notice.token).json(&json!({"id": taught["id"]}));
    let refused: Value = sent.send().await.unwrap().json().await.unwrap();
    assert!(refused.to_string().contains("policy of bank 'desk'"), "{refused}");
    node.stop().await;
}
