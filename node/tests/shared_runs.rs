//! Runs under way that a bank shares: who hears of them, and whose are copied, at a whole daemon.

mod common;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Instant,
};

use common::{Running, until};
use folklore_node::{
    api::UpOptions,
    network::{DialTarget, Network, NetworkConfig, NetworkEvent, NetworkHandle},
    ticket::Ticket,
};
use folklore_protocol::{
    Access, AuthorId, BankId, Claim, Config, Effect, Event, Item, Keypair, Message, Node, Policy, Record, Time,
    run_log::{RunAbout, RunHead, RunKey},
};
use serde_json::{Value, json};
use tokio::sync::mpsc::Receiver;

const SALT: [u8; 16] = [3; 16];
const FLEET: &str = "fleet";

/// A node that greets and answers as a node does, and beyond that says what the test wants.
struct Other {
    id: AuthorId,
    daemon: AuthorId,
    network: NetworkHandle,
    /// What the daemon said.
    heard: Arc<Mutex<Vec<Message>>>,
}

impl Other {
    async fn connect(key: &Keypair, bank: BankId, daemon: &Running) -> Self {
        let network = Network::start(NetworkConfig::new(key.seed())).expect("a network");
        let mut node = Node::new(key.author(), Config::default(), [9; 32]);
        node.handle(Event::BankOpened { bank, held: vec![] }, Time(0));
        network.handle.dial(DialTarget { peer: None, addresses: vec![daemon.address()] }).expect("it is dialled");
        let daemon = daemon.ready.node.parse().expect("its id");
        let other = Self { id: key.author(), daemon, network: network.handle, heard: Arc::default() };
        tokio::spawn(other.answer(node, network.events));
        other.hears("a greeting", |message| matches!(message, Message::Hello { .. })).await;
        other
    }

    /// Answers until the network ends.
    fn answer(&self, mut node: Node, mut events: Receiver<NetworkEvent>) -> impl Future<Output = ()> + use<> {
        let (network, heard, began) = (self.network.clone(), Arc::clone(&self.heard), Instant::now());
        async move {
            while let Some(event) = events.recv().await {
                let now = Time(began.elapsed().as_millis() as u64);
                match event {
                    NetworkEvent::Connected { peer, .. } => {
                        node.handle(Event::Connected { peer: AuthorId(peer), dialled: None }, now);
                    }
                    NetworkEvent::Frame { peer, bytes } => {
                        let message = Message::decode(&bytes).expect("a message");
                        node.handle(Event::Received { peer: AuthorId(peer), message: message.clone() }, now);
                        heard.lock().expect("nobody panicked").push(message);
                    }
                    _ => {}
                }
                while let Some(effect) = node.next_effect() {
                    if let Effect::Send { peer, message } = effect {
                        network.send(peer.0, message.encode()).ok();
                    }
                }
            }
        }
    }

    fn say(&self, message: &Message) {
        self.network.send(self.daemon.0, message.encode()).expect("it is sent");
    }

    /// Waits until the daemon has said something.
    async fn hears(&self, what: &str, wanted: impl Fn(&Message) -> bool) {
        until(what, async || self.heard.lock().expect("nobody panicked").iter().any(&wanted)).await;
    }

    /// Waits until the daemon has taken in whatever was said to it before.
    async fn is_heard(&self, bank: BankId, request: u64) {
        self.say(&Message::RunFetch { bank, request, run: RunKey([0; 16]), from: 1, offset: 0 });
        let answers =
            |message: &Message| matches!(message, Message::RunSteps { request: answered, .. } if *answered == request);
        self.hears("an answer", answers).await;
    }

    /// The tasks of the runs that it was told of.
    fn tasks(&self) -> BTreeSet<String> {
        let about = |message: &Message| match message {
            Message::Run { about: Some(about), .. } => Some(about.task.clone()),
            _ => None,
        };
        self.heard.lock().expect("nobody panicked").iter().filter_map(about).collect()
    }
}

/// A word about a run of this number under way.
fn word(bank: BankId, n: u8) -> Message {
    let head = RunHead { run: RunKey([n; 16]), open: true, steps: 0, state: [0; 32], marks: vec![] };
    let about = RunAbout {
        name: format!("theirs-{n}"),
        task_key: "k".into(),
        task: "Ship a parcel".into(),
        domain: String::new(),
        agent: String::new(),
        tags: vec![],
        began_ms: 1,
        branch: None,
    };
    Message::Run { bank, head, about: Some(about) }
}

/// The nodes whose runs a daemon has copies of.
async fn copies(daemon: &Running) -> Vec<Value> {
    let runs = daemon.post("runs", &json!({})).await["runs"].clone();
    let runs = runs.as_array().expect("a list").clone();
    runs.into_iter().filter(|run| !run["copy_of"].is_null()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_told_to_the_readers_of_a_bank_and_copied_of_those_whom_it_did_not_shut_out() {
    let dir = tempfile::tempdir().expect("a directory");
    let daemon = Running::start(dir.path(), UpOptions::default()).await;
    let [owner, shut_out, guest] = [21, 22, 23].map(|n| Keypair::from_seed(&[n; 32]));
    let ticket = Ticket::new(owner.author(), SALT, FLEET, vec![]).expect("a ticket");
    let bank = ticket.bank().id;
    daemon.post("bank/join", &json!({"ticket": ticket.to_string()})).await;
    let begin = async |task: &str| {
        let begun = daemon.post("begin", &json!({"task": task, "bank": bank.to_string()})).await;
        assert_eq!(begun["shared"], true, "{begun}");
    };

    // While the bank is open, whoever shares it hears and is heard.
    let other = Other::connect(&shut_out, bank, &daemon).await;
    begin("Count the boxes of shelf 7").await;
    other.hears("the run", |message| matches!(message, Message::Run { .. })).await;
    let first = BTreeSet::from(["Count the boxes of shelf 7".to_owned()]);
    assert_eq!(other.tasks(), first);
    other.say(&word(bank, 1));
    until("its run is copied", async || copies(&daemon).await.len() == 1).await;

    // The owner lists readers, and revokes the other.
    let head = Other::connect(&owner, bank, &daemon).await;
    let readers = Access::Listed(vec![head.daemon]);
    let revoked = Claim::Revoked { author: other.id, keep_through_seq: 0, reason: "it lies".into() };
    for (seq, claim) in [(1, Claim::Policy(Policy { readers, ..Policy::default() })), (2, revoked)] {
        let record = Record::sign(&owner, bank, seq, 1, claim).expect("a record");
        head.say(&Message::Push { bank, hops: 0, item: Item { record: record.bytes().to_vec(), body: None } });
    }
    // What the engine says it holds it goes by.
    let held = async || {
        let banks = daemon.get("status").await["banks"].clone();
        let of_bank = |info: &&Value| info["id"] == json!(bank.to_string());
        banks.as_array().expect("a list").iter().find(of_bank).map(|info| info["records"] == json!(2))
    };
    until("both are held", async || held().await == Some(true)).await;
    until("its copy is gone", async || copies(&daemon).await.is_empty()).await;
    begin("Move the silver to the vault of the north").await;
    head.hears(
        "the second run",
        |message| matches!(message, Message::Run { about: Some(about), .. } if about.task.contains("silver")),
    )
    .await;
    other.say(&word(bank, 2));
    other.is_heard(bank, 900).await;
    // One that comes now hears of nothing either, but may still write.
    let late = Other::connect(&guest, bank, &daemon).await;
    late.is_heard(bank, 901).await;
    late.say(&word(bank, 3));
    until("the guest's run is copied", async || !copies(&daemon).await.is_empty()).await;
    assert_eq!(other.tasks(), first, "it may not read any more");
    assert_eq!(late.tasks(), BTreeSet::new());
    let copy = copies(&daemon).await;
    assert_eq!((copy.len(), &copy[0]["copy_of"]), (1, &json!(late.id.to_string())), "{copy:?}");

    // The user may not want it either.
    let gone = daemon.post("runs/drop", &json!({"run": "theirs-3"})).await;
    assert_eq!((&gone["id"], &gone["copy_of"]), (&copy[0]["id"], &copy[0]["copy_of"]));
    late.say(&word(bank, 3));
    late.say(&word(bank, 4));
    until("another run is copied", async || !copies(&daemon).await.is_empty()).await;
    let copy = copies(&daemon).await;
    assert_eq!((copy.len(), &copy[0]["name"]), (1, &json!("theirs-4")), "{copy:?}");
    for peer in [head, other, late] {
        peer.network.shutdown().await;
    }
    daemon.stop().await;
}
