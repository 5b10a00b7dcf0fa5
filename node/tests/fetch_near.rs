//! What a node fetches first where much is missing: of two whole daemons, and what of its work it shows for that.

mod common;

use std::{path::Path, time::Instant};

use common::{PATIENCE, Running, until};
use folklore_node::{
    api::UpOptions,
    home::Home,
    network::{DialTarget, Network, NetworkConfig, NetworkEvent},
};
use folklore_protocol::{
    AuthorId, BankId, Config, Effect, Event, Keypair, LessonId, Message, Node, RecordId, Time, record::Record,
};
use folklore_store::bank::{OpenOptions, Store};
use serde_json::json;

/// Lessons at the holder, and those among them that are about what the other works on.
const LESSONS: u64 = 240;
const NEAR: std::ops::Range<u64> = 60..72;
const WORK: &str = "refund an invoice that was paid twice";

/// What the near ones are about beside that: lessons alike are one to a recall, and so to what is near.
const ASPECTS: [&str; 12] = [
    "rounding of foreign currency",
    "partial payments",
    "a chargeback under way",
    "tax lines",
    "credit notes",
    "gift cards",
    "an expired card",
    "prorated subscriptions",
    "a bank transfer",
    "duplicates in the export",
    "limits of approval",
    "a locked ledger",
];
const WORDS: [&str; 24] = [
    "server",
    "proxy",
    "cache",
    "timeout",
    "certificate",
    "port",
    "rollback",
    "container",
    "image",
    "volume",
    "secret",
    "health",
    "probe",
    "replica",
    "traffic",
    "route",
    "header",
    "cookie",
    "session",
    "worker",
    "queue",
    "metric",
    "alert",
    "backup",
];

/// Long lessons: a connection begins with batches of one or two of them, so the order shows.
async fn teach(holder: &Running) {
    for n in 0..LESSONS {
        let word = |k: u64| WORDS[((n * 31 + k * k * (n % 7 + 1) + k * 5) % 24) as usize];
        let filler: Vec<&str> = (0..700).map(word).collect();
        let about = match ASPECTS.get(n.wrapping_sub(NEAR.start) as usize) {
            Some(aspect) => format!("{WORK}: {aspect}"),
            None => format!("deploy {} and {} behind {}", word(1), word(2), word(3)),
        };
        let lesson = json!({
            "kind": "pitfall", "title": format!("{about}, case {n}"), "task": about,
            "content": format!("case {n}: {about}. {}", filler.join(" ")),
        });
        holder.post("teach", &lesson).await;
    }
}

/// The numbers of a node's lessons in the order in which they came.
async fn came(dir: &Path) -> Vec<u64> {
    let home = Home::open(dir).expect("a home");
    let options = OpenOptions { had_bank: true, ..OpenOptions::default() };
    // What the daemon had going may hold the bank for a moment longer.
    let deadline = Instant::now() + PATIENCE;
    let store = loop {
        match Store::open(&home.store_dir(), options) {
            Ok(opened) => break opened.store,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    let number = |(record, lesson): (Record, Option<folklore_protocol::Lesson>)| {
        record.claim().body().and(lesson)?.title.rsplit(' ').next()?.parse().ok()
    };
    let ids: Vec<RecordId> = store.banks().iter().flat_map(|bank| store.record_ids(&bank.id)).collect();
    store.records(&ids).expect("they read").into_iter().filter_map(number).collect()
}

/// A daemon that works on [`WORK`] and then joins the holder's bank; what it gets, in order.
async fn joins(holder: &Running, fetch_near: bool) -> Vec<u64> {
    let dir = tempfile::tempdir().expect("a directory");
    let worker = Running::start(dir.path(), UpOptions { fetch_near, ..UpOptions::default() }).await;
    worker.post("recall", &json!({ "task": WORK })).await;
    let ticket = holder.post("bank/invite", &json!({})).await["ticket"].clone();
    worker.post("bank/join", &json!({ "ticket": ticket })).await;
    until("all of it", async || worker.post("list", &json!({})).await["total"] == json!(LESSONS)).await;
    worker.stop().await;
    let order = came(dir.path()).await;
    assert_eq!(order.len() as u64, LESSONS);
    order
}

#[tokio::test(flavor = "multi_thread")]
async fn the_latest_come_first_and_with_fetch_near_what_is_near_to_the_work_here() {
    let dir = tempfile::tempdir().expect("a directory");
    let holder = Running::start(dir.path(), UpOptions::default()).await;
    teach(&holder).await;
    let half = LESSONS as usize / 2;
    let near_early = |order: &[u64]| order[..half].iter().filter(|n| NEAR.contains(n)).count();
    let latest_early = |order: &[u64]| order[..half].iter().filter(|n| **n >= LESSONS / 2).count();
    // A few are asked for before the holder has said what to ask for first.
    let near = joins(&holder, true).await;
    // Nor does the holder's recall take all of them for near.
    assert!(near_early(&near) >= NEAR.count() * 3 / 4, "{near:?}");
    let plain = joins(&holder, false).await;
    assert!(latest_early(&plain) >= half * 3 / 4, "{plain:?}");
    assert!(near_early(&plain) <= NEAR.count() / 4, "{plain:?}");
    holder.stop().await;
}

/// What a daemon shows of its work to a peer that shares its bank and has many records for it.
async fn shown(worker: &Running, bank: BankId) -> Vec<String> {
    let key = Keypair::from_seed(&[9; 32]);
    let mut network = Network::start(NetworkConfig::new(key.seed())).expect("a network");
    let mut node = Node::new(key.author(), Config::default(), [9; 32]);
    let held = (0..200u32).map(|n| RecordId(LessonId::of(&n.to_le_bytes()).0)).collect();
    node.handle(Event::BankOpened { bank, held }, Time(0));
    network.handle.dial(DialTarget { peer: None, addresses: vec![worker.address()] }).expect("it is dialled");
    let begin = Instant::now();
    loop {
        let event = tokio::time::timeout(PATIENCE, network.events.recv()).await.expect("in time").expect("it runs");
        let now = Time(begin.elapsed().as_millis() as u64);
        match event {
            NetworkEvent::Connected { peer, .. } => {
                node.handle(Event::Connected { peer: AuthorId(peer), dialled: None }, now);
            }
            NetworkEvent::Frame { peer, bytes } => match Message::decode(&bytes).expect("a message") {
                Message::Suggest { near, .. } => {
                    network.handle.shutdown().await;
                    return near;
                }
                message => node.handle(Event::Received { peer: AuthorId(peer), message }, now),
            },
            NetworkEvent::Disconnected { reason, .. } => panic!("it hung up: {reason}"),
            _ => {}
        }
        while let Some(effect) = node.next_effect() {
            if let Effect::Send { peer, message } = effect {
                network.handle.send(peer.0, message.encode()).expect("it is sent");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_shown_of_the_work_here_is_redacted_and_nothing_is_unless_it_is_allowed() {
    let token = format!("ghp_{}", "aB3dE5gH7jK9".repeat(3));
    let task = format!("{WORK} for jane.doe@northwind-books.net with {token} from /home/jane/books");
    for fetch_near in [true, false] {
        let dir = tempfile::tempdir().expect("a directory");
        let worker = Running::start(dir.path(), UpOptions { fetch_near, ..UpOptions::default() }).await;
        worker.post("recall", &json!({ "task": task })).await;
        let bank = Home::open(dir.path()).and_then(|home| home.bank()).expect("its bank").id;
        let near = shown(&worker, bank).await;
        assert_eq!(near.len(), usize::from(fetch_near), "{near:?}");
        for text in near {
            assert!(text.contains(WORK), "{text}");
            for secret in ["jane", "northwind", &token, "aB3dE5gH7jK9"] {
                assert!(!text.contains(secret), "{text}");
            }
        }
        worker.stop().await;
    }
}
