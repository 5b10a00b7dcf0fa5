//! Runs under way that a bank shares: who hears of them, and whose are copied, at a whole daemon.

mod common;

use std::time::Instant;

use common::{PATIENCE, Running, until};
use folklore_node::{
    api::UpOptions,
    network::{DialTarget, Network, NetworkConfig, NetworkEvent},
    ticket::Ticket,
};
use folklore_protocol::{
    Access, AuthorId, BankId, Claim, Config, Effect, Event, Item, Keypair, Message, Node, Policy, Record, Time,
    run_log::{RunAbout, RunHead, RunKey},
};
use serde_json::{Value, json};

const SALT: [u8; 16] = [3; 16];
const FLEET: &str = "fleet";

/// A node that greets as a node does, and beyond that says what the test wants.
struct Other {
    id: AuthorId,
    network: Network,
    node: Node,
    began: Instant,
    daemon: AuthorId,
    /// What the daemon said.
    heard: Vec<Message>,
}

impl Other {
    async fn connect(key: &Keypair, bank: BankId, daemon: &Running) -> Self {
        let network = Network::start(NetworkConfig::new(key.seed())).expect("a network");
        let mut node = Node::new(key.author(), Config::default(), [9; 32]);
        node.handle(Event::BankOpened { bank, held: vec![] }, Time(0));
        network.handle.dial(DialTarget { peer: None, addresses: vec![daemon.address()] }).expect("it is dialled");
        let id = daemon.ready.node.parse().expect("its id");
        let (heard, began) = (Vec::new(), Instant::now());
        let mut other = Self { id: key.author(), network, node, began, daemon: id, heard };
        other.hears("a greeting", |message| matches!(message, Message::Hello { .. })).await;
        other
    }

    fn say(&self, message: &Message) {
        self.network.handle.send(self.daemon.0, message.encode()).expect("it is sent");
    }

    /// Waits until the daemon says something.
    async fn hears(&mut self, what: &str, wanted: impl Fn(&Message) -> bool) {
        loop {
            let event = tokio::time::timeout(PATIENCE, self.network.events.recv()).await;
            let event = event.unwrap_or_else(|_| panic!("waited too long for {what}")).expect("it runs");
            let now = Time(self.began.elapsed().as_millis() as u64);
            let mut is_it = false;
            match event {
                NetworkEvent::Connected { peer, .. } => {
                    self.node.handle(Event::Connected { peer: AuthorId(peer), dialled: None }, now);
                }
                NetworkEvent::Frame { peer, bytes } => {
                    let message = Message::decode(&bytes).expect("a message");
                    is_it = wanted(&message);
                    self.heard.push(message.clone());
                    self.node.handle(Event::Received { peer: AuthorId(peer), message }, now);
                }
                NetworkEvent::Disconnected { reason, .. } => panic!("it hung up: {reason}"),
                _ => {}
            }
            while let Some(effect) = self.node.next_effect() {
                if let Effect::Send { message, .. } = effect {
                    self.say(&message);
                }
            }
            if is_it {
                return;
            }
        }
    }

    /// Waits until the daemon has taken in whatever was said to it before.
    async fn is_heard(&mut self, bank: BankId, request: u64) {
        self.say(&Message::RunFetch { bank, request, run: RunKey([0; 16]), from: 1, offset: 0 });
        let answers =
            |message: &Message| matches!(message, Message::RunSteps { request: answered, .. } if *answered == request);
        self.hears("an answer", answers).await;
    }

    /// The tasks of the runs that it was told of.
    fn tasks(&self) -> Vec<&str> {
        let about = |message| match message {
            &Message::Run { about: Some(ref about), .. } => Some(about.task.as_str()),
            _ => None,
        };
        self.heard.iter().filter_map(about).collect()
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
    let mut other = Other::connect(&shut_out, bank, &daemon).await;
    begin("Count the boxes of shelf 7").await;
    other.hears("the run", |message| matches!(message, Message::Run { .. })).await;
    assert_eq!(other.tasks(), ["Count the boxes of shelf 7"]);
    other.say(&word(bank, 1));
    until("its run is copied", async || copies(&daemon).await.len() == 1).await;

    // The owner lists readers, and revokes the other.
    let mut head = Other::connect(&owner, bank, &daemon).await;
    let readers = Access::Listed(vec![head.daemon]);
    let revoked = Claim::Revoked { author: other.id, keep_through_seq: 0, reason: "it lies".into() };
    for (seq, claim) in [(1, Claim::Policy(Policy { readers, ..Policy::default() })), (2, revoked)] {
        let record = Record::sign(&owner, bank, seq, 1, claim).expect("a record");
        head.say(&Message::Push { bank, hops: 0, item: Item { record: record.bytes().to_vec(), body: None } });
    }
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
    let mut late = Other::connect(&guest, bank, &daemon).await;
    late.is_heard(bank, 901).await;
    late.say(&word(bank, 3));
    until("the guest's run is copied", async || !copies(&daemon).await.is_empty()).await;
    assert_eq!(other.tasks(), ["Count the boxes of shelf 7"], "it may not read any more");
    assert_eq!(late.tasks(), [""; 0]);
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
        peer.network.handle.shutdown().await;
    }
    daemon.stop().await;
}
