//! Whole daemons, several in one process, on loopback: behind relays, in the DHT, in a private network, and their metrics.

mod common;

use std::{collections::BTreeMap, ops::Deref, os::unix::fs::PermissionsExt, path::Path};

use common::{Running, until};
use folklore_node::{api::UpOptions, network::RelayLimits};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A daemon in a home of its own.
struct Node {
    running: Running,
    _dir: TempDir,
}

impl Deref for Node {
    type Target = Running;

    fn deref(&self) -> &Running {
        &self.running
    }
}

impl Node {
    async fn start(change: impl FnOnce(&mut UpOptions)) -> Self {
        Self::start_in(change, |_| {}).await
    }

    /// Starts a daemon in a fresh home that `prepare` may write to.
    async fn start_in(change: impl FnOnce(&mut UpOptions), prepare: impl FnOnce(&Path)) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        prepare(dir.path());
        let mut options = UpOptions::default();
        change(&mut options);
        Self { running: Running::start(dir.path(), options).await, _dir: dir }
    }

    async fn ask(&self, verb: &str, body: Value) -> Value {
        self.post(verb, &body).await
    }

    async fn status(&self) -> Value {
        self.get("status").await
    }

    /// Each sample of `/metrics` by its name and labels.
    async fn metrics(&self) -> BTreeMap<String, f64> {
        let text = self.text("/metrics").await;
        let samples = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
        samples.map(|(name, value)| (name.to_owned(), value.parse().expect("a number"))).collect()
    }

    async fn teach(&self, n: usize, bank: Option<&str>) {
        let filler = "what was seen there, at some length. ".repeat(30);
        let lesson = json!({
            "kind": "pitfall", "title": format!("lesson {n}"), "content": format!("number {n}: {filler}"),
            "task": format!("task {n} of many"), "bank": bank,
        });
        self.ask("teach", lesson).await;
    }

    async fn lessons(&self) -> u64 {
        self.ask("list", json!({})).await["total"].as_u64().expect("a number")
    }

    async fn peer(&self, other: &Node) -> Option<Value> {
        let status = self.status().await;
        status["peers"].as_array()?.iter().find(|p| p["id"] == json!(other.ready.node)).cloned()
    }

    async fn stop(self) {
        self.running.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sites_behind_nats_reconcile_through_a_relay_over_as_many_circuits_as_it_takes() {
    let relay = Node::start(|options| {
        options.listen = vec!["127.0.0.1:0".into()];
        options.relay = true;
        options.relay_limits = RelayLimits { circuit_bytes: 64 * 1024, ..RelayLimits::default() };
    })
    .await;
    let hidden = |options: &mut UpOptions| {
        options.no_listen = true;
        options.via = vec![relay.address()];
    };
    let (one, two) = (Node::start(hidden).await, Node::start(hidden).await);
    for n in 0..200 {
        one.teach(n, None).await;
    }
    until("a place at the relay", async || {
        let status = one.status().await;
        status["network"]["relays"] == json!([relay.ready.node]) && status["network"]["announced"] != json!([])
    })
    .await;
    let ticket = one.ask("bank/invite", json!({})).await["ticket"].clone();
    two.ask("bank/join", json!({ "ticket": ticket })).await;
    until("everything is there", async || two.lessons().await == 200).await;
    until("both sides are at rest", async || {
        let peer = two.peer(&one).await.unwrap_or_default();
        // Its circuit may just have ended; then the next one is on its way.
        peer["route"] == json!("relayed") && peer["circuit"]["limit_bytes"] == json!(64 * 1024)
    })
    .await;
    let held =
        |status: &Value| status["banks"].as_array().unwrap().iter().map(|b| b["held_root"].clone()).collect::<Vec<_>>();
    let (at_one, at_two) = (held(&one.status().await), held(&two.status().await));
    assert!(at_one.iter().all(|root| at_two.contains(root)), "equal roots, equal sets");
    let ended = two.metrics().await.get("folklore_sessions_ended_total{kind=\"circuit-ended\"}").copied();
    assert!(ended.is_some_and(|n| n >= 3.0), "over several circuits: {ended:?}");

    // And what one learns afterwards reaches the other.
    two.teach(777, None).await;
    until("the way back", async || one.lessons().await == 201).await;
    for node in [one, two, relay] {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_public_bank_is_found_by_owner_and_name_and_a_private_one_is_not_in_the_dht() {
    let bootstrap = Node::start(|options| options.dht = true).await;
    let entry = |options: &mut UpOptions| options.bootstrap = vec![bootstrap.address()];
    let holder = Node::start(entry).await;
    let made = holder.ask("bank/create", json!({ "name": "commons", "public": true })).await;
    assert_eq!(made["public"], json!(true));
    holder.ask("bank/create", json!({ "name": "private notes" })).await;
    for n in 0..5 {
        holder.teach(n, Some("commons")).await;
    }
    let kept = async || bootstrap.status().await["network"]["dht"]["kept"].clone();
    until("the holder is named in the DHT", async || kept().await == json!(1)).await;

    let seeker = Node::start(entry).await;
    let joined = seeker.ask("bank/join", json!({ "ticket": format!("{}/commons", holder.ready.node) })).await;
    assert_eq!((&joined["bank"], &joined["dialing"]), (&made["id"], &json!([])));
    until("the lessons of somebody it was never told of", async || seeker.lessons().await == 5).await;
    // Three private banks and one public one are here, and the DHT knows of one.
    assert_eq!(kept().await, json!(1));
    assert_eq!(seeker.status().await["network"]["dht"]["published"], json!(1));
    assert_eq!(bootstrap.status().await["network"]["dht"]["published"], json!(0));
    for node in [seeker, holder, bootstrap] {
        node.stop().await;
    }
}

fn key_file(dir: &Path, byte: &str) {
    let path = dir.join("swarm.key");
    std::fs::write(&path, format!("/key/swarm/psk/1.0.0/\n/base16/\n{}\n", byte.repeat(32))).expect("it is written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("it is ours");
}

fn check<'a>(doctor: &'a Value, name: &str) -> &'a Value {
    let checks = doctor["checks"].as_array().expect("a list");
    checks.iter().find(|check| check["name"] == json!(name)).unwrap_or(&Value::Null)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wrong_pre_shared_key_is_named_by_the_doctor() {
    let one = Node::start_in(|_| {}, |dir| key_file(dir, "07")).await;
    let peer = one.address();
    let with = |peer: &str| {
        let peer = peer.to_owned();
        move |options: &mut UpOptions| options.peers = vec![peer]
    };
    let right = Node::start_in(with(&peer), |dir| key_file(dir, "07")).await;
    let wrong = Node::start_in(with(&peer), |dir| key_file(dir, "08")).await;
    until("the right one connects", async || right.peer(&one).await.is_some_and(|p| p["connected"] == json!(true)))
        .await;
    until("the wrong one is told", async || {
        let doctor = wrong.ask("doctor", json!({})).await;
        let found = check(&doctor, "pre-shared key");
        found["ok"] == json!(false) && found["detail"].as_str().is_some_and(|d| d.contains("same file"))
    })
    .await;
    let known = wrong.peer(&one).await.expect("it is dialled");
    assert!(known["last_error"].as_str().is_some_and(|e| e.contains("pre-shared key")), "{known}");
    assert!(known["failed_attempts"].as_u64() > Some(0) && known["next_attempt"].is_string(), "{known}");
    let status = one.status().await;
    assert_eq!((&status["network"]["private"], &status["network"]["quic"]), (&json!(true), &json!(false)));
    assert_eq!(check(&one.ask("doctor", json!({})).await, "pre-shared key")["ok"], json!(true));
    for node in [wrong, right, one] {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_move_with_what_happens_and_want_the_token() {
    // Somebody who is never there.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let nobody = closed.local_addr().expect("it is bound").to_string();
    drop(closed);
    let one = Node::start(|_| {}).await;
    let two = Node::start(|options| options.peers = vec![nobody]).await;
    let url = format!("http://{}/metrics", one.notice.http);
    assert_eq!(one.http.get(url).send().await.expect("it answers").status(), 401);
    let (one_before, two_before) = (one.metrics().await, two.metrics().await);

    for n in 0..40 {
        one.teach(n, None).await;
    }
    let ticket = one.ask("bank/invite", json!({})).await["ticket"].clone();
    two.ask("bank/join", json!({ "ticket": ticket })).await;
    until("the first forty", async || two.lessons().await == 40).await;
    one.teach(40, None).await;
    until("one more, pushed", async || two.lessons().await == 41).await;
    two.ask("recall", json!({ "task": "task 3 of many" })).await;
    two.ask("recall", json!({ "task": "task 3 of many", "scope": "network" })).await;

    let moved = async |node: &Node, before: &BTreeMap<String, f64>, series: &str| {
        let now = node.metrics().await;
        let sum = |samples: &BTreeMap<String, f64>| {
            samples.iter().filter(|(name, _)| name.starts_with(series)).map(|(_, value)| value).sum::<f64>()
        };
        sum(&now) > sum(before)
    };
    for series in [
        "folklore_peers{state=\"connected\"}",
        "folklore_routes{route=\"direct\"}",
        "folklore_sessions_total",
        "folklore_dials_failed_total",
        "folklore_messages_total{direction=\"in\",kind=\"hello\"}",
        "folklore_message_bytes_total{direction=\"out\",kind=\"fetch\"}",
        "folklore_reconcile_bytes_total",
        "folklore_announced_records_total{direction=\"in\"}",
        "folklore_bodies_received_total{kind=\"fetched\"}",
        "folklore_bodies_received_total{kind=\"pushed\"}",
        "folklore_admissions_total{kind=\"stored\"}",
        "folklore_store_commits_total{kind=\"peers\"}",
        "folklore_records{bank=\"home-",
        "folklore_frame_bytes_total{direction=\"in\"}",
        "folklore_recall_seconds_count{kind=\"local\"}",
        "folklore_recall_seconds_count{kind=\"network\"}",
        "libp2p_swarm_connections_established_total",
        "libp2p_identify_received_total",
        "libp2p_ping_rtt_seconds_count",
    ] {
        until(series, async || moved(&two, &two_before, series).await).await;
    }
    for series in ["folklore_store_commits_total{kind=\"own\"}", "folklore_announced_records_total{direction=\"out\"}"]
    {
        until(series, async || moved(&one, &one_before, series).await).await;
    }
    // Either side may have opened the comparison.
    until("a round trip", async || {
        let series = "folklore_reconcile_round_trips_total";
        moved(&one, &one_before, series).await || moved(&two, &two_before, series).await
    })
    .await;
    let text = two.text("/metrics").await;
    let status = two.status().await;
    for bank in status["banks"].as_array().expect("a list") {
        assert!(!text.contains(&bank["id"].as_str().expect("an id")[..16]), "the id of a bank lets others read it");
    }
    // For programs that read the token from a file.
    let file = std::fs::read_to_string(Path::new(&two.ready.data).join("door.token")).expect("it is there");
    assert_eq!(file, two.notice.token);
    one.stop().await;
    two.stop().await;
}
