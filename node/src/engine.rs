//! The engine: runs [`folklore_protocol::Node`] on the real network, the real store and the wall clock.
//!
//! One task owns the state machine and does nothing slow. What verifies, hashes or writes runs on blocking threads and comes
//! back as an event; what is sent goes to the network's queues. Everybody else talks to it through [`EngineHandle`]. `book` is
//! the address book on disk, `neighbours` what the engine itself sees to among peers.

mod book;
mod neighbours;
mod runs;
mod useful;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use folklore_protocol::message::MAX_NEAR;
use folklore_protocol::{
    Admission, Answer, AuthorId, BankId, Config, DialTarget, Effect, Event, Incoming, Item, Lesson, Message, Node,
    Record, RecordId, Root, Time,
};
use folklore_store::{
    bank::{self, Store},
    catalogue::Catalogue,
    error::WriteError,
    runs::log::RunId,
};
use tokio::sync::{mpsc, oneshot};

use crate::{
    metrics::{Direction, Metrics},
    network::{self, Address, Network, NetworkEvent, NetworkHandle},
};
use book::Book;
pub use folklore_protocol::bank::PUBLIC_SALT;
use neighbours::Neighbours;
pub use neighbours::dht_key;
use useful::Useful;

/// Commands that may wait for the engine.
const COMMAND_QUEUE: usize = 256;
/// The address book is written at most this often, and the neighbourhood looked at.
const BOOK_PAUSE: Duration = Duration::from_secs(2);
/// Without a deadline the engine looks round this often.
const IDLE: Duration = Duration::from_secs(60);

/// Milliseconds since 1970 that never go back while this process lives.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started: Instant,
    started_ms: u64,
}

impl Clock {
    /// Reads the wall clock once; from then on the monotonic one counts.
    pub fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started: Instant::now(), started_ms: u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX) }
    }

    /// Now.
    pub fn now(&self) -> Time {
        Time(self.started_ms) + u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// What is known of a peer, at one moment.
#[derive(Debug, Clone)]
pub struct PeerView {
    /// Who.
    pub id: AuthorId,
    /// Where, best first.
    pub addresses: Vec<String>,
    /// Whether a person, a ticket or the configuration named it.
    pub named: bool,
    /// Whether it is not dialled for now, since the neighbourhood has no place for it.
    pub waits_for_place: bool,
    /// Whether a connection stands.
    pub connected: bool,
    /// When it is dialled next.
    pub next_dial: Option<Time>,
    /// Dials that came to nothing since it was last connected.
    pub failures: u32,
    /// Why the last of them did.
    pub last_error: Option<String>,
    /// Until when it is shut out for breaking the protocol.
    pub barred_until: Option<Time>,
    /// Whether it greeted, so that it is known which banks it shares.
    pub greeted: bool,
    /// Records that came from it and were new.
    pub records_in: u64,
    /// Records sent to it.
    pub records_out: u64,
    /// Banks shared with it.
    pub banks: BTreeSet<BankId>,
    /// When a reconcile with it last ended.
    pub last_sync: Option<Time>,
    /// For each bank: everything the peer held at this time is here.
    pub complete_as_of: BTreeMap<BankId, Time>,
}

/// One bank, at one moment.
#[derive(Debug, Clone)]
pub struct BankView {
    /// Root over every id known.
    pub known_root: Root,
    /// Root over what is held.
    pub held_root: Root,
    /// Records held.
    pub records: usize,
    /// Records known to be missing.
    pub missing: usize,
}

/// An address that is dialled, and nobody has answered there yet.
#[derive(Debug, Clone)]
pub struct DialView {
    /// Where.
    pub address: String,
    /// When it is dialled next.
    pub next_dial: Option<Time>,
    /// Dials that came to nothing.
    pub failures: u32,
    /// Why the last of them did.
    pub last_error: Option<String>,
}

/// The engine's state, at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Every bank.
    pub banks: BTreeMap<BankId, BankView>,
    /// Every peer known, ascending by id.
    pub peers: Vec<PeerView>,
    /// Addresses where nobody has answered yet.
    pub dialing: Vec<DialView>,
}

/// What came of a query to the peers.
#[derive(Debug, Clone, Default)]
pub struct Answers {
    /// Who answered, with records nobody has verified yet.
    pub answers: Vec<Answer>,
    /// Who did not.
    pub silent: Vec<AuthorId>,
}

enum Command {
    Event(Box<Event>),
    Ask { bank: BankId, query: String, hits: u32, within_ms: u64, reply: oneshot::Sender<Answers> },
    Snapshot(oneshot::Sender<Snapshot>),
    Remember(oneshot::Sender<Result<(), WriteError>>),
}

/// The engine has stopped: the daemon is going down.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the daemon is stopping")]
pub struct Stopped;

/// Talks to a running engine. Cheap to clone; when the last one is gone the engine stops.
#[derive(Clone)]
pub struct EngineHandle {
    commands: mpsc::Sender<Command>,
    /// The clock that all of the engine's times are of.
    pub clock: Clock,
    /// The latest tasks of agents here, if peers may be shown them.
    shown: Option<Arc<Mutex<VecDeque<String>>>>,
}

impl EngineHandle {
    /// Hands the state machine an event.
    pub async fn event(&self, event: Event) -> Result<(), Stopped> {
        self.commands.send(Command::Event(Box::new(event))).await.map_err(|_| Stopped)
    }

    /// As [`EngineHandle::event`], from a blocking thread.
    pub fn event_blocking(&self, event: Event) -> Result<(), Stopped> {
        self.commands.blocking_send(Command::Event(Box::new(event))).map_err(|_| Stopped)
    }

    /// Writes the address book, with everything handed over before; durable when it returns. From a blocking thread.
    pub fn remember_peers_blocking(&self) -> Result<Result<(), WriteError>, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.commands.blocking_send(Command::Remember(reply)).map_err(|_| Stopped)?;
        answer.blocking_recv().map_err(|_| Stopped)
    }

    /// Asks the connected peers and waits for their answers, or until the time is over.
    pub async fn ask(&self, bank: BankId, query: String, hits: u32, within_ms: u64) -> Result<Answers, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(Command::Ask { bank, query, hits, within_ms, reply }).await.map_err(|_| Stopped)?;
        answer.await.map_err(|_| Stopped)
    }

    /// Whether peers may be shown what agents here are working on.
    pub fn shows_work(&self) -> bool {
        self.shown.is_some()
    }

    /// Notes a task of an agent here, without what must not leave this node: what is near to it is fetched first. Nothing
    /// happens unless peers may be shown it.
    pub async fn working_on(&self, task: String) -> Result<(), Stopped> {
        let Some(shown) = &self.shown else { return Ok(()) };
        let texts = {
            let mut latest = shown.lock().unwrap_or_else(PoisonError::into_inner);
            latest.retain(|known| *known != task);
            latest.push_front(task);
            latest.truncate(MAX_NEAR);
            latest.iter().cloned().collect()
        };
        self.event(Event::WorkingOn { texts }).await
    }

    /// How things stand.
    pub async fn snapshot(&self) -> Result<Snapshot, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(Command::Snapshot(reply)).await.map_err(|_| Stopped)?;
        answer.await.map_err(|_| Stopped)
    }
}

/// What the engine runs on.
pub struct Parts {
    /// Who this node is.
    pub me: AuthorId,
    /// Decides the node's jitter and numbers.
    pub seed: [u8; 32],
    /// The bank.
    pub store: Store,
    /// Recall over it.
    pub catalogue: Arc<Catalogue>,
    /// The carrier.
    pub network: Network,
    /// Delays and bounds.
    pub config: Config,
    /// Addresses given on the command line or in the configuration, dialled for ever.
    pub dial: Vec<String>,
    /// Peers connected at which the engine begins to let go of those it has nothing to do with.
    pub enough_peers: usize,
    /// Where it counts.
    pub metrics: Arc<Metrics>,
    /// Whether peers may be shown the latest tasks that agents here recalled lessons for.
    pub shows_work: bool,
}

/// Starts the engine; the handle stops it when dropped.
pub fn start(parts: Parts) -> EngineHandle {
    let clock = Clock::start();
    let (commands, receiver) = mpsc::channel(COMMAND_QUEUE);
    let (done, results) = mpsc::unbounded_channel();
    let node = Node::new(parts.me, parts.config, parts.seed);
    let engine = Engine {
        node,
        clock,
        store: parts.store,
        catalogue: parts.catalogue,
        network: parts.network.handle,
        done,
        asks: BTreeMap::new(),
        next_ask: 0,
        book: Book::default(),
        book_edition: 0,
        book_written: Arc::default(),
        neighbours: Neighbours::new(parts.enough_peers),
        metrics: parts.metrics,
        useful: Arc::default(),
    };
    let shown = parts.shows_work.then(Arc::default);
    tokio::spawn(engine.run(parts.network.events, receiver, results, parts.dial));
    EngineHandle { commands, clock, shown }
}

struct Engine {
    node: Node,
    clock: Clock,
    store: Store,
    catalogue: Arc<Catalogue>,
    network: NetworkHandle,
    /// Blocking work hands its result in here. Bounded by what the state machine lets be under way.
    done: mpsc::UnboundedSender<Event>,
    asks: BTreeMap<u64, oneshot::Sender<Answers>>,
    next_ask: u64,
    book: Book,
    /// Counts the editions of the address book handed to be written.
    book_edition: u64,
    /// The latest edition on disk.
    book_written: Arc<Mutex<u64>>,
    neighbours: Neighbours,
    metrics: Arc<Metrics>,
    /// The order in which peers fetch.
    useful: Arc<Useful>,
}

impl Engine {
    async fn run(
        mut self,
        mut events: mpsc::Receiver<NetworkEvent>,
        mut commands: mpsc::Receiver<Command>,
        mut results: mpsc::UnboundedReceiver<Event>,
        dial: Vec<String>,
    ) {
        for info in self.store.banks() {
            let held = whole_records(&self.store, &self.catalogue, &info.id);
            self.handle(Event::BankOpened { bank: info.id, held });
        }
        self.apply_policies();
        for (bank, head, about) in self.store.told_runs() {
            self.handle(Event::RunShared { bank, head, about });
        }
        self.publish_banks();
        self.read_book();
        for address in dial {
            let (peer, address) = split_address(&address);
            self.handle(Event::AddressLearned { peer, address, keep: true });
        }
        let mut book_due = tokio::time::interval(BOOK_PAUSE);
        book_due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let wait = self.node.next_deadline().map_or(IDLE, |at| Duration::from_millis(at - self.clock.now()));
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => self.network_event(event),
                    None => break,
                },
                command = commands.recv() => match command {
                    Some(command) => self.command(command),
                    None => break,
                },
                Some(event) = results.recv() => {
                    if let Event::Admitted { results, .. } = &event {
                        self.metrics.admitted(results);
                    }
                    let ruled = matches!(event, Event::PolicyChanged { .. });
                    self.handle(event);
                    if ruled {
                        self.apply_policies();
                        self.publish_banks();
                    }
                }
                () = tokio::time::sleep(wait) => self.handle(Event::Tick),
                _ = book_due.tick() => {
                    self.write_book(None);
                    self.let_go();
                }
            }
        }
        tracing::debug!("the engine has stopped");
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Event(event) => {
                let banks_change = matches!(*event, Event::BankOpened { .. } | Event::PolicyChanged { .. });
                self.handle(*event);
                if banks_change {
                    self.apply_policies();
                    self.publish_banks();
                }
            }
            Command::Ask { bank, query, hits, within_ms, reply } => {
                self.next_ask += 1;
                let (ask, deadline) = (self.next_ask, self.clock.now() + within_ms);
                self.asks.insert(ask, reply);
                self.handle(Event::Ask { ask, bank, query, hits, deadline });
            }
            Command::Snapshot(reply) => {
                // The asker may have gone; nobody else misses the answer.
                let _ = reply.send(self.snapshot());
            }
            Command::Remember(reply) => self.write_book(Some(reply)),
        }
    }

    fn snapshot(&mut self) -> Snapshot {
        let mut banks = BTreeMap::new();
        for bank in self.node.banks().collect::<Vec<_>>() {
            if let Some((known_root, held_root)) = self.node.roots(&bank) {
                let (records, missing) = (self.node.held_len(&bank), self.node.missing_len(&bank));
                banks.insert(bank, BankView { known_root, held_root, records, missing });
            }
        }
        let view = |(id, peer): (&AuthorId, &folklore_protocol::Peer)| PeerView {
            id: *id,
            addresses: peer.addresses.clone(),
            named: peer.is_named(),
            waits_for_place: peer.waits_for_place(),
            connected: peer.connected,
            next_dial: peer.next_dial(),
            failures: peer.failures(),
            last_error: self.neighbours.error_of(id),
            barred_until: peer.barred_until(),
            greeted: peer.greeted,
            records_in: peer.records_in,
            records_out: peer.records_out,
            banks: peer.banks.clone(),
            last_sync: peer.last_sync,
            complete_as_of: peer.complete_as_of.clone(),
        };
        let dial = |(address, next_dial, failures): (&str, Option<Time>, u32)| DialView {
            address: address.to_owned(),
            next_dial,
            failures,
            last_error: self.neighbours.error_at(address),
        };
        let dialing = self.node.peers().unnamed().map(dial).collect();
        Snapshot { banks, peers: self.node.peers().iter().map(view).collect(), dialing }
    }

    fn network_event(&mut self, event: NetworkEvent) {
        match event {
            NetworkEvent::Connected { peer, address, dialer, route } => {
                let peer = AuthorId(peer);
                tracing::info!(%peer, address, dialer, ?route, "connected");
                self.metrics.session();
                self.neighbours.connected(peer, dialer.then_some(address.as_str()), self.clock.now());
                self.handle(Event::Connected { peer, dialled: dialer.then_some(address) });
            }
            NetworkEvent::Disconnected { peer, reason } => {
                let peer = AuthorId(peer);
                tracing::info!(%peer, %reason, "disconnected");
                self.metrics.session_ended(neighbours::why(&reason));
                self.neighbours.disconnected(&peer);
                self.handle(Event::Disconnected { peer });
            }
            NetworkEvent::DialFailed { target, error } => self.dial_failed(target, &error),
            NetworkEvent::Frame { peer, bytes } => {
                let peer = AuthorId(peer);
                match Message::decode(&bytes) {
                    Ok(message) => {
                        self.count_received(&message, bytes.len());
                        self.handle(Event::Received { peer, message });
                    }
                    Err(error) => {
                        tracing::warn!(%peer, %error, "a frame is not a message");
                        self.handle(Event::Malformed { peer, error });
                    }
                }
            }
            NetworkEvent::Discovered { peer, addresses } => self.learn(AuthorId(peer), addresses, true),
            NetworkEvent::Found { peer, addresses } => {
                for address in addresses {
                    self.handle(Event::PeerFound { peer: AuthorId(peer), address });
                }
            }
            NetworkEvent::Identified { peer, address, listen_addresses } => {
                let peer = AuthorId(peer);
                // Only from a peer on this machine are loopback addresses of use here.
                let near = is_loopback(&address);
                let usable = listen_addresses.into_iter().filter(|a| near || !is_loopback(a)).collect();
                self.learn(peer, usable, false);
            }
            NetworkEvent::Listening { address } => tracing::info!(address, "listening"),
            NetworkEvent::ListenFailed { address, error } => tracing::error!(address, error, "cannot listen"),
        }
    }

    fn learn(&mut self, peer: AuthorId, addresses: Vec<String>, keep: bool) {
        for address in addresses {
            self.handle(Event::AddressLearned { peer: Some(peer), address, keep });
        }
    }

    fn count_received(&self, message: &Message, bytes: usize) {
        self.metrics.message(Direction::In, message, bytes);
        if let Message::Push { bank, item: Item { record, body: Some(_) }, .. } = message
            && let Ok(record) = folklore_protocol::UnverifiedRecord::parse(record)
        {
            self.metrics.pushed_body(self.node.knows(bank, &record.id()));
        }
    }

    fn dial_failed(&mut self, target: network::DialTarget, error: &network::DialError) {
        tracing::debug!(%error, "a dial came to nothing");
        self.metrics.dial_failed();
        let own = matches!(error, network::DialError::OwnIdentity);
        let target = match (target.peer, target.addresses.into_iter().next()) {
            (Some(peer), _) => DialTarget::Peer(AuthorId(peer)),
            (None, Some(address)) => DialTarget::Address(address),
            (None, None) => return,
        };
        if let (network::DialError::AlreadyConnected(peer), DialTarget::Address(address)) = (error, &target) {
            // Now it is known whose address that is: it is one more of that peer's.
            let (peer, address) = (Some(AuthorId(*peer)), address.clone());
            self.handle(Event::AddressLearned { peer, address, keep: true });
            self.handle(Event::DialFailed { target, own: true });
            return;
        }
        self.neighbours.dial_failed(&target, error);
        self.handle(Event::DialFailed { target, own });
    }

    fn handle(&mut self, event: Event) {
        self.node.handle(event, self.clock.now());
        while let Some(effect) = self.node.next_effect() {
            self.carry_out(effect);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Send { peer, message } => {
                let frame = message.encode();
                let bytes = frame.len();
                match self.network.send(peer.0, frame) {
                    Ok(()) => self.metrics.message(Direction::Out, &message, bytes),
                    Err(error) => {
                        self.metrics.dropped();
                        tracing::debug!(%peer, %error, "a message was dropped");
                    }
                }
            }
            Effect::Dial { target, addresses } => {
                let peer = match &target {
                    DialTarget::Peer(peer) => Some(peer.0),
                    DialTarget::Address(_) => None,
                };
                if let Err(error) = self.network.dial(network::DialTarget { peer, addresses }) {
                    let own = matches!(error, network::DialError::OwnIdentity);
                    tracing::debug!(%error, "a dial was not begun");
                    self.neighbours.dial_failed(&target, &error);
                    // Through the queue: the state machine is in the middle of its effects.
                    let _ = self.done.send(Event::DialFailed { target, own });
                }
            }
            Effect::Disconnect { peer, reason } => {
                tracing::info!(%peer, reason, "disconnecting");
                self.network.close(peer.0);
            }
            Effect::Admit { ticket, bank, items } => self.work(
                Some(Event::Admitted { ticket, results: vec![Admission::Failed; items.len()] }),
                move |store, catalogue| {
                    let (results, ruled) = admit(store, catalogue, bank, items);
                    let mut events = vec![Event::Admitted { ticket, results }];
                    if ruled {
                        events.push(Event::PolicyChanged { bank });
                    }
                    events
                },
            ),
            Effect::Load { ticket, bank, ids, budget_bytes } => {
                self.work(Some(Event::Loaded { ticket, items: Vec::new(), absent: ids.clone() }), move |store, _| {
                    let (mut items, mut absent, mut used) = (Vec::new(), Vec::new(), 0);
                    for id in ids {
                        let (record, lesson) = match store.records(&[id]) {
                            Ok(found) => match found.into_iter().next().filter(|(r, _)| r.bank() == bank) {
                                Some(found) => found,
                                None => {
                                    absent.push(id);
                                    continue;
                                }
                            },
                            Err(error) => {
                                tracing::error!(%error, "a record could not be read");
                                absent.push(id);
                                continue;
                            }
                        };
                        let item = to_item(&record, lesson.as_ref());
                        used += item.len();
                        if used > budget_bytes && !items.is_empty() {
                            break;
                        }
                        items.push(item);
                    }
                    vec![Event::Loaded { ticket, items, absent }]
                })
            }
            Effect::Search { ticket, bank, query, hits } => self
                .work(Some(Event::Found { ticket, items: Vec::new() }), move |_, catalogue| {
                    vec![Event::Found { ticket, items: search(catalogue, &bank, &query, hits) }]
                }),
            Effect::Suggest { ticket, bank, near, from, count } => {
                let useful = Arc::clone(&self.useful);
                self.work(Some(Event::Suggested { ticket, ids: Vec::new() }), move |store, catalogue| {
                    let ids = useful.first((store, catalogue), &bank, &near, from, count).unwrap_or_else(|error| {
                        tracing::error!(%error, "a peer is given no order");
                        Vec::new()
                    });
                    vec![Event::Suggested { ticket, ids }]
                });
            }
            Effect::RunHeard { peer, bank, head, about } => {
                let (run, now, me) = (head.run, self.clock.now().0, self.node.id());
                let failed = Event::RunHeld { peer, bank, run, have: None };
                self.work(Some(failed), move |store, catalogue| {
                    // That a run has ended is heard whoever says so: its copy goes.
                    let may = !head.open || runs::copies(store, catalogue, &me, &bank, &peer);
                    let have = may.then(|| store.hear_run(peer, bank, &head, about.as_ref(), now));
                    vec![Event::RunHeld { peer, bank, run, have: runs::held(have) }]
                });
            }
            Effect::StoreSteps { peer, bank, head, from, steps } => {
                let (run, now) = (head.run, self.clock.now().0);
                let failed = Event::RunHeld { peer, bank, run, have: None };
                self.work(Some(failed), move |store, _| {
                    let have = store.copy_steps(peer, bank, &head, from, &steps, now);
                    vec![Event::RunHeld { peer, bank, run, have: runs::held(Some(have)) }]
                });
            }
            Effect::LoadSteps { ticket, peer, bank, run, from, offset, budget_bytes } => {
                let failed = Event::StepsLoaded { ticket, pieces: Vec::new() };
                self.work(Some(failed), move |store, catalogue| {
                    let may = runs::may(store, catalogue, &bank, |policy, owner| policy.may_read(owner, &peer));
                    let pieces = may.then(|| store.step_pieces(bank, &RunId(run.0), from, offset, budget_bytes));
                    let pieces = pieces.transpose().unwrap_or_else(|error| {
                        tracing::warn!(%error, "steps of a run are not given to a peer");
                        None
                    });
                    vec![Event::StepsLoaded { ticket, pieces: pieces.unwrap_or_default() }]
                });
            }
            Effect::Answered { ask, answers, silent } => {
                if let Some(reply) = self.asks.remove(&ask) {
                    // The asker may have given up.
                    let _ = reply.send(Answers { answers, silent });
                }
            }
        }
    }

    /// Runs something slow on a blocking thread. Should it panic, `failed` is what the state machine hears, so that nothing
    /// waits for ever.
    fn work(&self, failed: Option<Event>, work: impl FnOnce(&Store, &Catalogue) -> Vec<Event> + Send + 'static) {
        let (store, catalogue, done) = (self.store.clone(), self.catalogue.clone(), self.done.clone());
        tokio::task::spawn_blocking(move || {
            let events = std::panic::catch_unwind(AssertUnwindSafe(|| work(&store, &catalogue)));
            for event in events.unwrap_or_else(|_| failed.into_iter().collect()) {
                // Fails only once the engine has stopped.
                let _ = done.send(event);
            }
        });
    }
}

/// The records of a bank, less those whose body is gone: not counted as held, they are found missing by the next reconcile
/// and come again with the body, if a peer has it. What comes without one is then held as it is.
fn whole_records(store: &Store, catalogue: &Catalogue, bank: &BankId) -> Vec<RecordId> {
    let mut held = store.record_ids(bank);
    let missing = store.missing_bodies(bank);
    if missing.is_empty() {
        return held;
    }
    let teaches = |record: &Record| record.claim().body().is_some();
    let broken: BTreeSet<RecordId> = missing
        .iter()
        .filter_map(|lesson| catalogue.claims(bank, lesson).ok())
        .flatten()
        .filter(teaches)
        .map(|record| record.id())
        .collect();
    held.retain(|id| !broken.contains(id));
    held
}

/// A record as it travels.
fn to_item(record: &Record, lesson: Option<&Lesson>) -> Item {
    Item { record: record.bytes().to_vec(), body: lesson.map(|l| l.bytes().to_vec()) }
}

fn search(catalogue: &Catalogue, bank: &BankId, query: &str, hits: u32) -> Vec<Item> {
    let found = match catalogue.search(bank, query, hits as usize) {
        Ok(found) => found,
        Err(error) => {
            tracing::error!(%error, "a query of a peer could not be answered");
            return Vec::new();
        }
    };
    let mut budget = folklore_protocol::message::ITEMS_BUDGET_BYTES;
    let items = found.iter().map(|(record, lesson)| to_item(record, Some(lesson)));
    items
        .take_while(|item| {
            let fits = item.len() <= budget;
            budget = budget.saturating_sub(item.len());
            fits
        })
        .collect()
}

/// Checks signatures, bodies and policy, and stores what passes. Also whether the policy in force may have changed.
fn admit(store: &Store, catalogue: &Catalogue, bank: BankId, items: Vec<Incoming>) -> (Vec<Admission>, bool) {
    // A refusal must not outlive the policy it was judged by, and another batch may bring a new one meanwhile.
    let edition = catalogue.edition(&bank);
    let policy = catalogue.policy(&bank);
    let Some(owner) = catalogue.banks().into_iter().find(|b| b.id == bank).map(|b| b.owner) else {
        return (vec![Admission::Failed; items.len()], false);
    };
    let mut results = vec![Admission::Invalid; items.len()];
    let mut incoming = Vec::new();
    let mut places = Vec::new();
    let items: Vec<_> = items.into_iter().map(|item| (item.record, item.body)).collect();
    for (place, checked) in bank::check(&items).into_iter().enumerate() {
        let bank::Incoming { record, body } = match checked {
            Ok(item) => item,
            Err(error) => {
                tracing::warn!(%error, "something from a peer");
                continue;
            }
        };
        let revoked = catalogue.revoked_after(&bank, &record.author()).is_some_and(|keep| record.seq() > keep);
        if !policy.may_write(&owner, &record.author()) || revoked {
            results[place] = Admission::Declined;
            continue;
        }
        incoming.push(bank::Incoming { record, body });
        places.push(place);
    }
    let stored = match store.admit(bank, incoming.clone()) {
        Ok(stored) => stored,
        Err(error) => {
            tracing::error!(%error, "records from a peer could not be stored");
            places.iter().for_each(|place| results[*place] = Admission::Failed);
            return (results, false);
        }
    };
    let mut records = Vec::new();
    let mut lessons = Vec::new();
    for ((place, outcome), item) in places.into_iter().zip(stored).zip(incoming) {
        results[place] = match outcome {
            bank::Admission::Stored => Admission::Stored,
            bank::Admission::Known => Admission::Known,
            bank::Admission::Declined { reason } => {
                tracing::info!(reason, "a record from a peer is declined");
                Admission::Declined
            }
        };
        if results[place] != Admission::Declined {
            records.push(item.record);
            lessons.extend(item.body);
        }
    }
    let ruled = catalogue.learn(&bank, &records, &lessons);
    if catalogue.edition(&bank) != edition {
        results.iter_mut().filter(|r| **r == Admission::Declined).for_each(|r| *r = Admission::Failed);
    }
    (results, ruled)
}

/// An address as typed, and the peer it names, if it names one.
pub fn split_address(text: &str) -> (Option<AuthorId>, String) {
    match Address::parse(text) {
        Ok(address) => match address.peer() {
            Some(peer) => {
                let suffix = format!("/p2p/{}", network::peer_id_text(&peer));
                let whole = address.to_text();
                (Some(AuthorId(peer)), whole.strip_suffix(&suffix).unwrap_or(&whole).to_owned())
            }
            None => (None, address.to_text()),
        },
        Err(_) => (None, text.to_owned()),
    }
}

fn is_loopback(address: &str) -> bool {
    address.starts_with("/ip4/127.") || address.starts_with("/ip6/::1/")
}

/// Hands the state machine records that this node wrote itself and that are durable.
pub fn published(bank: BankId, written: impl IntoIterator<Item = (Record, Option<Lesson>)>) -> Event {
    let items = written.into_iter().map(|(record, lesson)| (record, lesson.map(|l| l.bytes().clone())));
    Event::Published { bank, items: items.collect() }
}

impl std::fmt::Debug for EngineHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineHandle").finish_non_exhaustive()
    }
}
