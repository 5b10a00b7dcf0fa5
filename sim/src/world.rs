//! The world: nodes, one heap of things to come ordered by (time, sequence), and the faults.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    sync::Arc,
};

use folklore_protocol::{
    Admission, Answer, AuthorId, BankId, Claim, Config, DialTarget, Effect, Event, Evidence, Incoming, Keypair, Lesson,
    LessonDraft, LessonKind, Message, Node, Record, RecordId, Root, Ticket, Time,
};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use crate::{
    disk::{Disk, DiskFaults, Stored},
    link::{Link, Links},
    plant::{self, Plant},
};

/// A dial to a node that does not answer fails after this, milliseconds.
const DIAL_TIMEOUT_MS: u64 = 3_000;

/// What a world starts from.
#[derive(Debug, Clone)]
pub struct WorldConfig {
    /// Decides everything.
    pub seed: u64,
    /// How many nodes.
    pub nodes: usize,
    /// Every link, until changed.
    pub link: Link,
    /// The protocol's tunables.
    pub protocol: Config,
    /// Time until both ends of a cut link notice, milliseconds (what a ping finds out).
    pub notice_cut_ms: u64,
    /// A bug for the checks to find.
    pub plant: Option<Plant>,
}

impl Default for WorldConfig {
    fn default() -> Self {
        Self {
            seed: 0,
            nodes: 2,
            link: Link::default(),
            protocol: Config::default(),
            notice_cut_ms: 15_000,
            plant: None,
        }
    }
}

/// What went over the links, and what came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages sent, by kind.
    pub messages: BTreeMap<&'static str, u64>,
    /// Bytes sent, by kind of message.
    pub bytes: BTreeMap<&'static str, u64>,
    /// Records that arrived at nodes, repeats included.
    pub record_copies: u64,
    /// Messages lost to loss and cuts.
    pub lost: u64,
}

impl Counters {
    /// All bytes sent.
    pub fn total_bytes(&self) -> u64 {
        self.bytes.values().sum()
    }
}

#[derive(Debug)]
enum Happening {
    Deliver { from: usize, to: usize, connection: u64, message: Box<Message> },
    DialEnds { from: usize, to: usize },
    NoticeCut { a: usize, b: usize, connection: u64 },
    Admit { node: usize, life: u64, ticket: Ticket, bank: BankId, items: Vec<Incoming> },
    Load { node: usize, life: u64, ticket: Ticket, bank: BankId, ids: Vec<RecordId>, budget_bytes: usize },
    Search { node: usize, life: u64, ticket: Ticket, bank: BankId, query: String, hits: u32 },
    Suggest { node: usize, life: u64, ticket: Ticket, bank: BankId, near: Vec<String>, from: usize, count: usize },
    Wake { node: usize, life: u64 },
}

struct Entry(u64, u64, Happening);

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

struct SimNode {
    key: Keypair,
    node: Node,
    disk: Disk,
    seq: BTreeMap<BankId, u64>,
    up: bool,
    /// Goes up at every start, so that what an earlier life had under way does nothing.
    life: u64,
    answered: BTreeMap<u64, (Vec<Answer>, Vec<AuthorId>)>,
    /// When it is to be woken: one wake-up is under way at a time, or each message would leave one more for ever.
    wake_at: Option<u64>,
    /// When its disk first had each record.
    since: BTreeMap<(BankId, RecordId), u64>,
    /// What was acknowledged to its own agent.
    acknowledged: BTreeSet<RecordId>,
}

/// Nodes on virtual time.
pub struct World {
    config: WorldConfig,
    rng: ChaCha8Rng,
    now_ms: u64,
    sequence: u64,
    heap: BinaryHeap<Reverse<Entry>>,
    nodes: Vec<SimNode>,
    index: BTreeMap<AuthorId, usize>,
    links: Links,
    /// Standing connections, with a number that a later one between the same two does not share.
    connections: BTreeMap<(usize, usize), u64>,
    counters: Counters,
    log: EventLog,
    /// Requests that came and were not answered yet: (asker, asked, what, number), with when and over which connection.
    open: BTreeMap<(usize, usize, &'static str, u64), (u64, u64)>,
    replies: u64,
    /// Deliver this many more messages, then cut `cut_pair`.
    cut_after: Option<(u64, (usize, usize))>,
}

/// A running digest of everything that happened; equal digests, equal runs.
#[derive(Default)]
struct EventLog(u64);

impl EventLog {
    fn note(&mut self, values: &[u64]) {
        for value in values {
            // FNV-1a over 64-bit words: this tells runs apart, it secures nothing.
            self.0 = (self.0 ^ value).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
        }
    }
}

impl World {
    /// Nodes that know nobody and have no bank.
    pub fn new(config: WorldConfig) -> Self {
        let seeded = |purpose: u8, n: usize| {
            let mut seed = [purpose; 32];
            seed[..8].copy_from_slice(&config.seed.to_le_bytes());
            seed[8..16].copy_from_slice(&(n as u64).to_le_bytes());
            seed
        };
        let nodes: Vec<SimNode> = (0..config.nodes)
            .map(|n| {
                let key = Keypair::from_seed(&seeded(1, n));
                let node = Node::new(key.author(), config.protocol.clone(), seeded(2, n));
                let mut disk = Disk::default();
                disk.faults.mixes_bodies = config.plant == Some(Plant::AcceptWrongHash(n));
                disk.faults.files_twice = config.plant == Some(Plant::CountTwice(n));
                disk.faults.loses_tail = config.plant == Some(Plant::LoseTail(n));
                let (seq, answered, since) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
                SimNode {
                    key,
                    node,
                    disk,
                    seq,
                    up: true,
                    life: 0,
                    answered,
                    wake_at: None,
                    since,
                    acknowledged: BTreeSet::new(),
                }
            })
            .collect();
        Self {
            rng: ChaCha8Rng::from_seed(seeded(0, 0)),
            now_ms: 0,
            sequence: 0,
            heap: BinaryHeap::new(),
            index: nodes.iter().enumerate().map(|(n, s)| (s.key.author(), n)).collect(),
            nodes,
            links: Links::new(config.link),
            connections: BTreeMap::new(),
            counters: Counters::default(),
            log: EventLog::default(),
            open: BTreeMap::new(),
            replies: 0,
            cut_after: None,
            config,
        }
    }

    /// Virtual time, milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// What went over the links so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// A digest of everything that happened so far.
    pub fn digest(&self) -> u64 {
        self.log.0
    }

    /// Who node `n` is.
    pub fn author(&self, n: usize) -> AuthorId {
        self.nodes[n].key.author()
    }

    /// How many nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Which node an author is.
    pub fn number_of(&self, author: &AuthorId) -> Option<usize> {
        self.index.get(author).copied()
    }

    /// Whether node `n` runs.
    pub fn is_up(&self, n: usize) -> bool {
        self.nodes[n].up
    }

    /// The disk of node `n`, to look at.
    pub fn disk(&self, n: usize) -> &Disk {
        &self.nodes[n].disk
    }

    /// Records whose teaching or withdrawing was acknowledged at node `n`.
    pub fn acknowledged(&self, n: usize) -> impl Iterator<Item = &RecordId> {
        self.nodes[n].acknowledged.iter()
    }

    /// Records of a bank that the disk of node `n` had by a time.
    pub fn had_by(&self, n: usize, bank: &BankId, at_ms: u64) -> Vec<RecordId> {
        let since = self.nodes[n].since.iter();
        since.filter(|((of, _), at)| of == bank && **at <= at_ms).map(|((_, id), _)| *id).collect()
    }

    /// Requests that came to a node this long ago and were not answered, over connections that still stand: the node, and
    /// what was asked.
    pub fn overdue(&self, ms: u64) -> Vec<(usize, String)> {
        let due = |(_, (at, _)): &(&_, &(u64, u64))| self.now_ms >= at + ms;
        let open = self.open.iter().filter(due);
        open.map(|((asker, asked, what, _), (at, _))| (*asked, format!("{what} of node {asker} at {at} ms"))).collect()
    }

    /// The state machine of node `n`, to look at.
    pub fn node(&self, n: usize) -> &Node {
        &self.nodes[n].node
    }

    /// The disk of node `n`, to break.
    pub fn disk_faults(&mut self, n: usize) -> &mut DiskFaults {
        &mut self.nodes[n].disk.faults
    }

    /// Opens a bank called `home` of node `owner` at these nodes.
    pub fn open_bank(&mut self, owner: usize, at: impl IntoIterator<Item = usize>) -> BankId {
        let bank = BankId::new(&self.author(owner), &[0; 16], "home");
        for n in at {
            self.nodes[n].disk.open(bank);
            let held = self.nodes[n].disk.ids(&bank);
            self.handle(n, Event::BankOpened { bank, held });
        }
        bank
    }

    /// Tells node `n` where node `to` is; it dials it for ever.
    pub fn introduce(&mut self, n: usize, to: usize) {
        let (peer, address) = (Some(self.author(to)), format!("sim/{to}"));
        self.handle(n, Event::AddressLearned { peer, address, keep: true });
    }

    /// Node `n` teaches lesson number `number` (the text follows from the number). `None` if its disk took nothing.
    pub fn teach(&mut self, n: usize, bank: BankId, number: u64) -> Option<RecordId> {
        self.teach_all(n, bank, [number]).pop()
    }

    /// Node `n` teaches several lessons in one group.
    pub fn teach_all(&mut self, n: usize, bank: BankId, numbers: impl IntoIterator<Item = u64>) -> Vec<RecordId> {
        let taught = |number| {
            let lesson = lesson(number);
            let claim = Claim::Taught { lesson_id: lesson.id(), evidence: Evidence::told("sim") };
            (claim, Some(lesson.bytes().clone()))
        };
        self.publish(n, bank, numbers.into_iter().map(taught))
    }

    /// Puts a record on the disk of node `n`, with the body it names or, as one that lost it would have it, without.
    pub fn place(&mut self, n: usize, bank: BankId, record: &Record, body: Option<Arc<[u8]>>) {
        self.nodes[n].disk.write(bank, &[(record.clone(), body)]);
        self.handle(n, Event::BankOpened { bank, held: vec![record.id()] });
    }

    /// Node `n` withdraws lesson number `number`. `None` if its disk took nothing.
    pub fn withdraw(&mut self, n: usize, bank: BankId, number: u64) -> Option<RecordId> {
        let claim = Claim::Withdrawn { lesson_id: lesson(number).id(), reason: "it misleads".into() };
        self.publish(n, bank, [(claim, None)]).pop()
    }

    fn publish(
        &mut self,
        n: usize,
        bank: BankId,
        claims: impl IntoIterator<Item = (Claim, Option<Arc<[u8]>>)>,
    ) -> Vec<RecordId> {
        let now_ms = self.now_ms;
        let node = &mut self.nodes[n];
        let mut items: Vec<Stored> = Vec::new();
        for (claim, body) in claims {
            let seq = node.seq.entry(bank).or_default();
            *seq += 1;
            let record = Record::sign(&node.key, bank, *seq, now_ms, claim).expect("a claim within limits");
            items.push((record, body));
        }
        if !node.up || !node.disk.write(bank, &items) {
            return Vec::new();
        }
        let ids: Vec<RecordId> = items.iter().map(|(r, _)| r.id()).collect();
        node.acknowledged.extend(&ids);
        node.since.extend(ids.iter().map(|id| ((bank, *id), now_ms)));
        self.handle(n, Event::Published { bank, items });
        ids
    }

    /// Node `n` may show its peers what its agents are working on.
    pub fn work_on(&mut self, n: usize, text: &str) {
        self.handle(n, Event::WorkingOn { texts: vec![text.into()] });
    }

    /// Node `n` asks its peers; see [`World::answered`].
    pub fn ask(&mut self, n: usize, ask: u64, bank: BankId, query: &str, within_ms: u64) {
        let deadline = Time(self.now_ms + within_ms);
        self.handle(n, Event::Ask { ask, bank, query: query.into(), hits: 4, deadline });
    }

    /// The answers to a query, and who stayed silent, once it has ended.
    pub fn answered(&self, n: usize, ask: u64) -> Option<&(Vec<Answer>, Vec<AuthorId>)> {
        self.nodes[n].answered.get(&ask)
    }

    /// Node `n` reconciles with all.
    pub fn sync(&mut self, n: usize) {
        self.handle(n, Event::Sync { peer: None });
    }

    /// Gives node `to` a message as if `from` had sent it. For tests of hostile peers.
    pub fn forge(&mut self, from: usize, to: usize, message: Message) {
        let peer = self.author(from);
        self.handle(to, Event::Received { peer, message });
    }

    /// The link between two nodes, to change its latency, jitter and loss.
    pub fn link(&mut self, a: usize, b: usize) -> &mut Link {
        self.links.get_mut(a, b)
    }

    /// Cuts the links between the two groups; both ends notice after a while.
    pub fn cut(&mut self, left: &[usize], right: &[usize]) {
        for a in left {
            for b in right {
                self.cut_link(*a, *b);
            }
        }
    }

    fn cut_link(&mut self, a: usize, b: usize) {
        self.links.get_mut(a, b).cut = true;
        self.forget_requests(a, b);
        if let Some(connection) = self.connections.get(&pair(a, b)) {
            let happening = Happening::NoticeCut { a, b, connection: *connection };
            self.schedule(self.config.notice_cut_ms, happening);
        }
    }

    /// Whether the link between two nodes is cut.
    pub fn is_cut(&self, a: usize, b: usize) -> bool {
        self.links.get(a, b).cut
    }

    /// Cuts the link between two nodes once this many more messages were delivered anywhere.
    pub fn cut_after(&mut self, messages: u64, a: usize, b: usize) {
        self.cut_after = Some((messages, (a, b)));
    }

    /// Mends every cut.
    pub fn heal(&mut self) {
        for a in 0..self.nodes.len() {
            for b in 0..a {
                if self.links.get(a, b).cut {
                    self.links.get_mut(a, b).cut = false;
                }
            }
        }
    }

    /// Stops node `n` dead: what was not synced is gone, and so are its connections.
    pub fn crash(&mut self, n: usize) {
        self.nodes[n].up = false;
        self.nodes[n].life += 1;
        let broken: Vec<(usize, usize)> =
            self.connections.keys().filter(|(a, b)| *a == n || *b == n).copied().collect();
        for (a, b) in broken {
            self.connections.remove(&(a, b));
            self.forget_requests(a, b);
            let other = if a == n { b } else { a };
            self.handle(other, Event::Disconnected { peer: self.author(n) });
        }
    }

    /// Starts node `n` again from its disk; it remembers the addresses it was given.
    pub fn restart(&mut self, n: usize) {
        let addresses: Vec<(AuthorId, Vec<String>)> =
            self.nodes[n].node.peers().iter().map(|(id, p)| (*id, p.addresses.clone())).collect();
        let node = &mut self.nodes[n];
        if self.config.plant == Some(Plant::BringBackWithdrawn) {
            node.disk.lose(|record| plant::is_withdrawal(record.claim()));
        }
        node.life += 1;
        let mut seed = [3; 32];
        seed[..8].copy_from_slice(&self.config.seed.to_le_bytes());
        seed[8..16].copy_from_slice(&(n as u64).to_le_bytes());
        seed[16..24].copy_from_slice(&node.life.to_le_bytes());
        node.node = Node::new(node.key.author(), self.config.protocol.clone(), seed);
        node.wake_at = None;
        node.up = true;
        for bank in self.nodes[n].disk.banks() {
            let held = self.nodes[n].disk.ids(&bank);
            self.handle(n, Event::BankOpened { bank, held });
        }
        for (peer, addresses) in addresses {
            for address in addresses {
                self.handle(n, Event::AddressLearned { peer: Some(peer), address, keep: true });
            }
        }
    }

    /// The held root of a bank at node `n`.
    pub fn held_root(&mut self, n: usize, bank: &BankId) -> Option<Root> {
        self.nodes[n].node.roots(bank).map(|(_, held)| held)
    }

    /// Whether these nodes hold the same records of a bank.
    pub fn agree(&mut self, bank: &BankId, nodes: impl IntoIterator<Item = usize>) -> bool {
        let roots: BTreeSet<Option<Root>> = nodes.into_iter().map(|n| self.held_root(n, bank)).collect();
        roots.len() == 1
    }

    /// Teachings that node `n` holds on disk together with their lesson.
    pub fn whole_teachings(&self, n: usize, bank: &BankId) -> usize {
        self.nodes[n].disk.whole_teachings(bank)
    }

    /// Records node `n` holds on disk.
    pub fn on_disk(&self, n: usize, bank: &BankId) -> Vec<RecordId> {
        self.nodes[n].disk.ids(bank)
    }

    /// Runs until `done` holds, looking after every happening, or until `limit_ms` more have passed. Tells whether it held.
    pub fn run_until(&mut self, limit_ms: u64, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.now_ms + limit_ms;
        while !done(self) {
            match self.heap.peek() {
                Some(Reverse(Entry(at, ..))) if *at <= end => {
                    self.step();
                }
                _ => {
                    self.now_ms = end;
                    return done(self);
                }
            }
        }
        true
    }

    /// Runs for this long.
    pub fn run_for(&mut self, ms: u64) {
        self.run_until(ms, |_| false);
    }

    fn step(&mut self) {
        let Some(Reverse(Entry(at, sequence, happening))) = self.heap.pop() else { return };
        self.now_ms = at;
        self.log.note(&[at, sequence, kind_of(&happening)]);
        match happening {
            Happening::Deliver { from, to, connection, message } => {
                if self.connections.get(&pair(from, to)) != Some(&connection) || self.links.get(from, to).cut {
                    self.counters.lost += 1;
                    return;
                }
                if let Some((left, (a, b))) = self.cut_after {
                    self.cut_after = left.checked_sub(1).map(|left| (left, (a, b)));
                    if left == 0 {
                        self.cut_link(a, b);
                        self.counters.lost += 1;
                        return;
                    }
                }
                self.counters.record_copies += copies(&message);
                self.note_request(from, to, connection, &message);
                let peer = self.author(from);
                self.handle(to, Event::Received { peer, message: *message });
            }
            Happening::DialEnds { from, to } => {
                let address = format!("sim/{to}");
                let reachable = self.nodes[to].up && !self.links.get(from, to).cut;
                if !reachable {
                    let target = DialTarget::Peer(self.author(to));
                    self.handle(from, Event::DialFailed { target, own: false });
                } else if self.nodes[from].up && !self.connections.contains_key(&pair(from, to)) {
                    self.sequence += 1;
                    self.connections.insert(pair(from, to), self.sequence);
                    let (a, b) = (self.author(from), self.author(to));
                    self.handle(from, Event::Connected { peer: b, dialled: Some(address) });
                    self.handle(to, Event::Connected { peer: a, dialled: None });
                }
            }
            Happening::NoticeCut { a, b, connection } => {
                if self.connections.get(&pair(a, b)) == Some(&connection) {
                    self.disconnect(a, b);
                }
            }
            Happening::Admit { node, life, ticket, bank, items } => {
                if self.lives(node, life) {
                    let ids: Vec<RecordId> = items.iter().map(|item| item.record.id()).collect();
                    let results: Vec<Admission> = self.nodes[node].disk.admit(bank, items);
                    let now_ms = self.now_ms;
                    for (id, _) in ids.iter().zip(&results).filter(|(_, result)| **result == Admission::Stored) {
                        self.nodes[node].since.entry((bank, *id)).or_insert(now_ms);
                    }
                    self.handle(node, Event::Admitted { ticket, results });
                }
            }
            Happening::Load { node, life, ticket, bank, ids, budget_bytes } => {
                if self.lives(node, life) {
                    let (items, absent) = self.nodes[node].disk.load(&bank, &ids, budget_bytes);
                    self.handle(node, Event::Loaded { ticket, items, absent });
                }
            }
            Happening::Search { node, life, ticket, bank, query, hits } => {
                if self.lives(node, life) {
                    let items = self.nodes[node].disk.search(&bank, &query, hits as usize);
                    self.handle(node, Event::Found { ticket, items });
                }
            }
            Happening::Suggest { node, life, ticket, bank, near, from, count } => {
                if self.lives(node, life) {
                    let ids = self.nodes[node].disk.suggest(&bank, &near, from, count);
                    self.handle(node, Event::Suggested { ticket, ids });
                }
            }
            Happening::Wake { node, life } => {
                if self.lives(node, life) && self.nodes[node].wake_at == Some(at) {
                    self.nodes[node].wake_at = None;
                    self.handle(node, Event::Tick);
                }
            }
        }
    }

    /// Keeps account of requests: what came to `to`, or that what it is owed came.
    fn note_request(&mut self, from: usize, to: usize, connection: u64, message: &Message) {
        let asked = |what, number| (from, to, what, number);
        let answered = |what, number| (to, from, what, number);
        let (now_ms, open) = (self.now_ms, &mut self.open);
        match message {
            Message::Fetch { request, .. } => drop(open.insert(asked("fetch", *request), (now_ms, connection))),
            Message::Ask { request, .. } => drop(open.insert(asked("ask", *request), (now_ms, connection))),
            Message::Probe { session, .. } => drop(open.insert(asked("probe", *session), (now_ms, connection))),
            Message::Compare { session, .. } | Message::Sketch { session, last: true, .. } => {
                open.insert(asked("sketch", *session), (now_ms, connection));
            }
            Message::Suggest { request, .. } => drop(open.insert(asked("suggest", *request), (now_ms, connection))),
            Message::Suggested { request, .. } => drop(open.remove(&answered("suggest", *request))),
            Message::Busy { request, .. } => {
                for what in ["fetch", "ask", "suggest"] {
                    open.remove(&answered(what, *request));
                }
            }
            Message::Records { request, .. } => drop(open.remove(&answered("fetch", *request))),
            Message::Answer { request, .. } => drop(open.remove(&answered("ask", *request))),
            Message::Probed { session, .. } => drop(open.remove(&answered("probe", *session))),
            Message::Sketched { session, .. } => drop(open.remove(&answered("sketch", *session))),
            // It may be about any of them.
            Message::Refusal { .. } => open.retain(|(asker, other, ..), _| (*asker, *other) != (to, from)),
            _ => {}
        }
    }

    fn forget_requests(&mut self, a: usize, b: usize) {
        self.open.retain(|(asker, asked, ..), _| pair(*asker, *asked) != pair(a, b));
    }

    fn lives(&self, node: usize, life: u64) -> bool {
        self.nodes[node].up && self.nodes[node].life == life
    }

    fn schedule(&mut self, in_ms: u64, happening: Happening) {
        self.schedule_at(self.now_ms + in_ms, happening);
    }

    fn schedule_at(&mut self, at_ms: u64, happening: Happening) {
        self.sequence += 1;
        self.heap.push(Reverse(Entry(at_ms, self.sequence, happening)));
    }

    fn disconnect(&mut self, a: usize, b: usize) {
        if self.connections.remove(&pair(a, b)).is_some() {
            self.forget_requests(a, b);
            self.handle(a, Event::Disconnected { peer: self.author(b) });
            self.handle(b, Event::Disconnected { peer: self.author(a) });
        }
    }

    fn handle(&mut self, n: usize, event: Event) {
        if !self.nodes[n].up {
            return;
        }
        let now = Time(self.now_ms);
        self.nodes[n].node.handle(event, now);
        while let Some(effect) = self.nodes[n].node.next_effect() {
            self.carry_out(n, effect);
        }
        if let Some(deadline) = self.nodes[n].node.next_deadline() {
            let (life, at) = (self.nodes[n].life, deadline.0.max(self.now_ms));
            if self.nodes[n].wake_at.is_none_or(|wake| at < wake) {
                self.nodes[n].wake_at = Some(at);
                self.schedule_at(at, Happening::Wake { node: n, life });
            }
        }
    }

    fn carry_out(&mut self, n: usize, effect: Effect) {
        let life = self.nodes[n].life;
        match effect {
            Effect::Send { peer, message } => self.send(n, peer, message),
            Effect::Dial { addresses, .. } => {
                let to = addresses.iter().find_map(|a| a.strip_prefix("sim/")?.parse::<usize>().ok());
                if let Some(to) = to.filter(|to| *to < self.nodes.len()) {
                    let reachable = self.nodes[to].up && !self.links.get(n, to).cut;
                    let wait = if reachable { 2 * self.links.get(n, to).latency_ms } else { DIAL_TIMEOUT_MS };
                    self.schedule(wait, Happening::DialEnds { from: n, to });
                }
            }
            Effect::Disconnect { peer, .. } => {
                if let Some(other) = self.index.get(&peer).copied() {
                    self.disconnect(n, other);
                }
            }
            Effect::Admit { ticket, bank, items } => {
                let sync_ms = self.nodes[n].disk.faults.sync_ms;
                self.schedule(sync_ms, Happening::Admit { node: n, life, ticket, bank, items });
            }
            Effect::Load { ticket, bank, ids, budget_bytes } => {
                self.schedule(0, Happening::Load { node: n, life, ticket, bank, ids, budget_bytes });
            }
            Effect::Search { ticket, bank, query, hits } => {
                self.schedule(0, Happening::Search { node: n, life, ticket, bank, query, hits });
            }
            Effect::Suggest { ticket, bank, near, from, count } => {
                self.schedule(0, Happening::Suggest { node: n, life, ticket, bank, near, from, count });
            }
            // Nobody here begins a run, so none is told of.
            Effect::RunHeard { .. } | Effect::StoreSteps { .. } | Effect::LoadSteps { .. } => {}
            Effect::Answered { ask, answers, silent } => {
                self.nodes[n].answered.insert(ask, (answers, silent));
            }
        }
    }

    fn send(&mut self, from: usize, peer: AuthorId, message: Message) {
        let Some(to) = self.index.get(&peer).copied() else { return };
        let Some(connection) = self.connections.get(&pair(from, to)).copied() else { return };
        let Some(message) = plant::said(self.config.plant, &mut self.replies, message) else { return };
        let frame = message.encode();
        let kind = message.name();
        *self.counters.messages.entry(kind).or_default() += 1;
        *self.counters.bytes.entry(kind).or_default() += frame.len() as u64;
        // Through bytes and back, so that whatever a node says is also within every limit of the wire.
        let message = Message::decode(&frame).expect("a node sends only what a node reads");
        match self.links.arrival(from, to, self.now_ms, &mut self.rng) {
            Some(at) => self.schedule_at(at, Happening::Deliver { from, to, connection, message: Box::new(message) }),
            None => self.counters.lost += 1,
        }
    }
}

fn pair(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}

/// The lesson that simulated nodes teach under a number: different text for every number.
pub fn lesson(number: u64) -> Lesson {
    let words = ["refund", "index", "migrate", "login", "invoice", "deploy", "parse", "cancel"];
    let word = words[(number % words.len() as u64) as usize];
    Lesson::new(LessonDraft {
        kind: LessonKind::Pitfall,
        title: format!("Case {number}: {word} before checking"),
        applies_when: format!("a {word} is asked for in case {number}"),
        not_when: String::new(),
        content: format!("The {word} of case {number} failed because its state was not read first [step 3]. ")
            .repeat(6),
        task: format!("{word} case {number}"),
        domain: "sim".into(),
        tags: Vec::new(),
    })
    .expect("a lesson within limits")
}

fn kind_of(happening: &Happening) -> u64 {
    match happening {
        Happening::Deliver { from, to, .. } => 1 + ((*from as u64) << 8) + ((*to as u64) << 32),
        Happening::DialEnds { from, to } => 2 + ((*from as u64) << 8) + ((*to as u64) << 32),
        Happening::NoticeCut { .. } => 3,
        Happening::Admit { node, .. } => 4 + ((*node as u64) << 8),
        Happening::Load { node, .. } => 5 + ((*node as u64) << 8),
        Happening::Search { node, .. } => 6 + ((*node as u64) << 8),
        Happening::Wake { node, .. } => 7 + ((*node as u64) << 8),
        Happening::Suggest { node, .. } => 8 + ((*node as u64) << 8),
    }
}

fn copies(message: &Message) -> u64 {
    match message {
        Message::Push { .. } => 1,
        Message::Records { items, .. } => items.len() as u64,
        _ => 0,
    }
}
