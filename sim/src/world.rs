//! The world: nodes, one heap of things to come ordered by (time, sequence), and what may be done to them.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    sync::Arc,
};

use folklore_protocol::{
    Answer, AuthorId, BankId, Claim, Config, Event, Evidence, Keypair, Lesson, LessonDraft, LessonKind, Message, Node,
    PING_INTERVAL_MS, PING_TIMEOUT_MS, Record, RecordId, Root, SILENCE_CHECK_MS, Time,
};
use rand_chacha::ChaCha8Rng;

use crate::{
    clock::Clock,
    connection::Connections,
    disk::{Disk, DiskFaults, Stored},
    fact::Fact,
    heap::{Entry, Happening},
    hostile::Hostile,
    library::Library,
    link::{Link, Links, Passage, Split},
    plant::{self, Plant},
    seeds::{self, Purpose},
};

/// A store that finds that its bank may be an old copy goes on numbering this far above what it shows, as
/// `folklore_store::bank` does.
const RESTORE_GAP: u64 = 1 << 40;

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
    /// An end of a connection that has heard nothing for so long gives it up, milliseconds. Pings go every
    /// [`PING_INTERVAL_MS`], so a cut is noticed up to so much sooner.
    pub silent_ms: u64,
    /// A bug for the checks to find.
    pub plant: Option<Plant>,
    /// Every message goes through bytes and back, so that whatever a node says is also within every limit of the wire. Without,
    /// messages are handed over as they are and only their length is worked out, which is what makes thousands of nodes cheap.
    pub through_bytes: bool,
    /// What [`World::had_by`] and [`World::overdue`] tell is kept. It takes memory for each record and each request.
    pub keeps_account: bool,
    /// Facts are gathered for [`World::take_facts`].
    pub tells_facts: bool,
}

impl Default for WorldConfig {
    fn default() -> Self {
        Self {
            seed: 0,
            nodes: 2,
            link: Link::default(),
            protocol: Config::default(),
            silent_ms: PING_INTERVAL_MS + PING_TIMEOUT_MS,
            plant: None,
            through_bytes: true,
            keeps_account: true,
            tells_facts: false,
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
    /// Messages and dials that a partition kept from passing, lost or late.
    pub stopped: u64,
    /// Messages that a state machine was given.
    pub handled_messages: u64,
    /// Deadlines that had come when a state machine was woken. Wake-ups with nothing due are not counted and not made.
    pub handled_timers: u64,
}

impl Counters {
    /// All bytes sent.
    pub fn total_bytes(&self) -> u64 {
        self.bytes.values().sum()
    }
}

pub(crate) struct SimNode {
    pub(crate) key: Keypair,
    pub(crate) node: Node,
    pub(crate) disk: Disk,
    pub(crate) seq: BTreeMap<BankId, u64>,
    pub(crate) up: bool,
    /// Goes up at every start, so that what an earlier life had under way does nothing.
    pub(crate) life: u32,
    pub(crate) answered: BTreeMap<u64, (Vec<Answer>, Vec<AuthorId>)>,
    /// When it is to be woken: one wake-up is under way at a time, or each message would leave one more for ever.
    pub(crate) wake_at: Option<u64>,
    /// The life in which its process died, what it had handed to its disk still being written; none after a power cut.
    pub(crate) settles: Option<u32>,
    /// Until when it stands still, if it does: what would happen to it waits.
    pub(crate) paused_until: Option<u64>,
    pub(crate) clock: Clock,
    /// When it looks for silent connections: so long after each full [`SILENCE_CHECK_MS`].
    pub(crate) looks_ms: u64,
    /// Jitter and loss of what it sends.
    pub(crate) rng: ChaCha8Rng,
    /// When its disk first had each record.
    pub(crate) since: BTreeMap<(BankId, RecordId), u64>,
    /// What was acknowledged to its own agent.
    pub(crate) acknowledged: BTreeSet<RecordId>,
    /// What it does that no honest node would.
    pub(crate) hostile: Option<Box<Hostile>>,
}

/// What is owed to whom: (asker, asked, what, number).
pub(crate) type Owed = (usize, usize, &'static str, u64);

/// Nodes on virtual time.
pub struct World {
    pub(crate) config: WorldConfig,
    pub(crate) now_ms: u64,
    pub(crate) sequence: u64,
    pub(crate) heap: BinaryHeap<Reverse<Entry>>,
    pub(crate) nodes: Vec<SimNode>,
    index: BTreeMap<AuthorId, usize>,
    pub(crate) library: Library,
    pub(crate) links: Links,
    pub(crate) connections: Connections,
    pub(crate) counters: Counters,
    pub(crate) log: EventLog,
    /// Requests that came and were not answered yet, with when and over which connection.
    pub(crate) open: BTreeMap<Owed, (u64, u64)>,
    pub(crate) replies: u64,
    /// Deliver this many more messages, then cut the link between the two.
    pub(crate) cut_after: Option<(u64, (usize, usize))>,
    /// What waits behind a partition, by connection: it comes late, or is lost with the connection.
    pub(crate) held: BTreeMap<u64, Vec<Happening>>,
    /// A call that has come.
    pub(crate) called: Option<u64>,
    /// For how long all were up when it began; see [`up_since_ms`].
    pub(crate) up_since_ms: u64,
    pub(crate) facts: Vec<Fact>,
}

/// A running digest of everything that happened; equal digests, equal runs.
#[derive(Default)]
pub(crate) struct EventLog(u64);

impl EventLog {
    pub(crate) fn note(&mut self, values: &[u64]) {
        for value in values {
            // FNV-1a over 64-bit words: this tells runs apart, it secures nothing.
            self.0 = (self.0 ^ value).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
        }
    }
}

/// For how long all nodes of a run have been up when it begins, milliseconds: less than from one ping to the next.
pub(crate) fn up_since_ms(seed: u64) -> u64 {
    seeds::below(&mut seeds::stream(seed, seeds::WORLD, Purpose::Carrier), PING_INTERVAL_MS)
}

impl World {
    /// Nodes that know nobody and have no bank.
    pub fn new(config: WorldConfig) -> Self {
        let nodes: Vec<SimNode> = (0..config.nodes)
            .map(|n| {
                let seed = config.seed;
                let key = Keypair::from_seed(&seeds::key(seed, n as u64, Purpose::Key, 0));
                let protocol_seed = seeds::key(seed, n as u64, Purpose::Protocol, 0);
                let node = Node::new(key.author(), config.protocol.clone(), protocol_seed);
                let mut disk = Disk::default();
                disk.faults.mixes_bodies = config.plant == Some(Plant::AcceptWrongHash(n));
                disk.faults.files_twice = config.plant == Some(Plant::CountTwice(n));
                disk.faults.loses_tail = config.plant == Some(Plant::LoseTail(n));
                SimNode {
                    key,
                    node,
                    disk,
                    seq: BTreeMap::new(),
                    up: true,
                    life: 0,
                    answered: BTreeMap::new(),
                    wake_at: None,
                    settles: None,
                    paused_until: None,
                    clock: Clock::default(),
                    looks_ms: seeds::below(&mut seeds::stream(seed, n as u64, Purpose::Carrier), SILENCE_CHECK_MS),
                    rng: seeds::stream(seed, n as u64, Purpose::Link),
                    since: BTreeMap::new(),
                    acknowledged: BTreeSet::new(),
                    hostile: None,
                }
            })
            .collect();
        Self {
            now_ms: 0,
            sequence: 0,
            heap: BinaryHeap::new(),
            index: nodes.iter().enumerate().map(|(n, s)| (s.key.author(), n)).collect(),
            connections: Connections::new(nodes.len()),
            nodes,
            library: Library::default(),
            links: Links::new(config.link),
            counters: Counters::default(),
            log: EventLog::default(),
            open: BTreeMap::new(),
            replies: 0,
            cut_after: None,
            held: BTreeMap::new(),
            called: None,
            up_since_ms: up_since_ms(config.seed),
            facts: Vec::new(),
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

    /// What happened since this was last asked, in order; nothing unless [`WorldConfig::tells_facts`].
    pub fn take_facts(&mut self, into: &mut Vec<Fact>) {
        into.append(&mut self.facts);
    }

    pub(crate) fn tell(&mut self, fact: Fact) {
        if self.config.tells_facts {
            self.facts.push(fact);
        }
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

    /// Until when node `n` stands still, if it does.
    pub fn paused_until(&self, n: usize) -> Option<u64> {
        self.nodes[n].paused_until.filter(|until| *until > self.now_ms)
    }

    /// Whether node `n` runs.
    pub fn is_up(&self, n: usize) -> bool {
        self.nodes[n].up
    }

    /// Every record that some disk holds or held.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// The disk of node `n`, to look at.
    pub fn disk(&self, n: usize) -> &Disk {
        &self.nodes[n].disk
    }

    /// What the disk of node `n` holds of a bank, by the ids it is filed under.
    pub fn entries(&self, n: usize, bank: &BankId) -> BTreeMap<RecordId, Stored> {
        self.nodes[n].disk.entries(&self.library, bank)
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

    /// Sites of nodes and the links between them; see [`Links::place`].
    pub fn place_sites(&mut self, site_of: Vec<u16>, between: Vec<Link>) {
        self.links.place(site_of, between);
    }

    /// The id of the bank called `home` of node `owner`.
    pub fn bank_of(&self, owner: usize) -> BankId {
        BankId::new(&self.author(owner), &[0; 16], "home")
    }

    /// Opens a bank called `home` of node `owner` at these nodes.
    pub fn open_bank(&mut self, owner: usize, at: impl IntoIterator<Item = usize>) -> BankId {
        let bank = self.bank_of(owner);
        for n in at {
            self.nodes[n].disk.open(bank);
            let held = self.nodes[n].disk.ids(&self.library, &bank);
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
        self.nodes[n].disk.write(&mut self.library, bank, &[(record.clone(), body)]);
        self.handle(n, Event::BankOpened { bank, held: vec![record.id()] });
    }

    /// Puts records on the disk of node `n` before its bank is opened.
    pub(crate) fn put(&mut self, n: usize, bank: BankId, items: &[Stored]) {
        self.nodes[n].disk.write(&mut self.library, bank, items);
    }

    /// Something outside the world goes into the digest of the run.
    pub(crate) fn mark(&mut self, values: &[u64]) {
        self.log.note(&[self.now_ms]);
        self.log.note(values);
    }

    /// Node `n` withdraws lesson number `number`. `None` if its disk took nothing.
    pub fn withdraw(&mut self, n: usize, bank: BankId, number: u64) -> Option<RecordId> {
        let claim = Claim::Withdrawn { lesson_id: lesson(number).id(), reason: "it misleads".into() };
        self.publish(n, bank, [(claim, None)]).pop()
    }

    /// Node `n` writes records of its own, durable and acknowledged at once. Nothing if it is down or its disk is full.
    pub fn publish(
        &mut self,
        n: usize,
        bank: BankId,
        claims: impl IntoIterator<Item = (Claim, Option<Arc<[u8]>>)>,
    ) -> Vec<RecordId> {
        let items = self.sign(n, bank, claims);
        self.commit(n, bank, items)
    }

    /// Node `n` writes one record of its own: it is synced, acknowledged and announced when the disk is done, and a crash
    /// before that leaves nothing of it. Gives its id.
    pub fn publish_later(&mut self, n: usize, bank: BankId, claim: Claim, body: Option<Arc<[u8]>>) -> Option<RecordId> {
        if !self.nodes[n].up {
            return None;
        }
        let item = self.sign(n, bank, [(claim, body)]).pop()?;
        let (id, life, sync_ms) = (item.0.id(), self.nodes[n].life, self.nodes[n].disk.faults.sync_ms);
        self.schedule(sync_ms, Happening::Write { node: n as u32, life, write: Box::new((bank, vec![item])) });
        Some(id)
    }

    pub(crate) fn sign(
        &mut self,
        n: usize,
        bank: BankId,
        claims: impl IntoIterator<Item = (Claim, Option<Arc<[u8]>>)>,
    ) -> Vec<Stored> {
        let (now_ms, node) = (self.now_ms, &mut self.nodes[n]);
        let at_ms = node.clock.local(now_ms);
        let sign = |(claim, body)| {
            let seq = node.seq.entry(bank).or_default();
            *seq += 1;
            (Record::sign(&node.key, bank, *seq, at_ms, claim).expect("a claim within limits"), body)
        };
        claims.into_iter().map(sign).collect()
    }

    /// Records signed with this seq by node `n`, which does not count it as used.
    pub(crate) fn sign_as(&self, n: usize, bank: BankId, seq: u64, claim: Claim) -> Record {
        Record::sign(&self.nodes[n].key, bank, seq.max(1), self.now_ms, claim).expect("a claim within limits")
    }

    /// The highest seq that node `n` gave out in a bank.
    pub(crate) fn seq_of(&self, n: usize, bank: &BankId) -> u64 {
        self.nodes[n].seq.get(bank).copied().unwrap_or_default()
    }

    pub(crate) fn commit(&mut self, n: usize, bank: BankId, items: Vec<Stored>) -> Vec<RecordId> {
        let now_ms = self.now_ms;
        if !self.nodes[n].up || !self.nodes[n].disk.write(&mut self.library, bank, &items) {
            for (record, _) in items {
                self.tell(Fact::Refused { at_ms: now_ms, node: n, id: record.id() });
            }
            return Vec::new();
        }
        let ids: Vec<RecordId> = items.iter().map(|(r, _)| r.id()).collect();
        self.nodes[n].acknowledged.extend(&ids);
        if self.config.keeps_account {
            self.nodes[n].since.extend(ids.iter().map(|id| ((bank, *id), now_ms)));
        }
        for id in &ids {
            self.tell(Fact::Acknowledged { at_ms: now_ms, node: n, id: *id });
        }
        self.handle(n, Event::Published { bank, items });
        ids
    }

    /// Node `n` may show its peers what its agents are working on.
    pub fn work_on(&mut self, n: usize, text: &str) {
        self.handle(n, Event::WorkingOn { texts: vec![text.into()] });
    }

    /// Node `n` asks its peers; see [`World::answered`].
    pub fn ask(&mut self, n: usize, ask: u64, bank: BankId, query: &str, within_ms: u64) {
        let deadline = Time(self.nodes[n].clock.local(self.now_ms) + within_ms);
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

    /// Cuts the links between the two groups; each end notices after a while, by its pings. It lasts until [`World::heal`].
    pub fn cut(&mut self, left: &[usize], right: &[usize]) {
        let mut groups = vec![0; self.nodes.len()];
        left.iter().for_each(|n| groups[*n] = 1);
        right.iter().for_each(|n| groups[*n] = 2);
        self.split(Split::new(groups).between(1, 2, Passage::Cut));
    }

    /// Begins a partition: what passes between two nodes is from now on what it says. Gives the number to [`World::mend`] it.
    pub fn split(&mut self, split: Split) -> u64 {
        let hit: Vec<(u32, u64)> = self
            .connections
            .all()
            .filter(|(_, c)| {
                let (a, b) = c.ends();
                // One end that hears nothing is enough: a ping takes both ways.
                split.passage(a, b).max(split.passage(b, a)) == Passage::Cut && self.links.is_open(a, b)
            })
            .map(|(slot, c)| (slot, c.number))
            .collect();
        let number = self.links.split(split);
        for (slot, connection) in hit {
            if let Some((a, b)) = self.connections.get(slot, connection).map(|c| c.ends()) {
                self.forget_requests(a, b);
                self.goes_silent(slot, connection, &[a, b]);
            }
        }
        number
    }

    /// Ends a partition. What it held or stopped comes late, if its connection outlived the partition.
    pub fn mend(&mut self, number: u64) {
        self.links.mend(number);
        self.release();
    }

    pub(crate) fn cut_link(&mut self, a: usize, b: usize) {
        self.cut(&[a], &[b]);
    }

    /// Whether the link between two nodes is cut.
    pub fn is_cut(&self, a: usize, b: usize) -> bool {
        !self.links.is_open(a, b)
    }

    /// What passes from one node to another.
    pub fn passage(&self, from: usize, to: usize) -> Passage {
        self.links.passage(from, to)
    }

    /// Cuts the link between two nodes once this many more messages were delivered anywhere.
    pub fn cut_after(&mut self, messages: u64, a: usize, b: usize) {
        self.cut_after = Some((messages, (a, b)));
    }

    /// Mends every cut.
    pub fn heal(&mut self) {
        self.links.mend_all();
        self.release();
    }

    /// Stops node `n` dead: what was not synced is gone, and so are its connections. Its peers hear of it a trip later, as if its
    /// process had died; of a machine that goes silent they hear nothing, which is a crash while it is cut off.
    pub fn crash(&mut self, n: usize) {
        let now_ms = self.now_ms;
        if self.nodes[n].up {
            self.tell(Fact::Down { at_ms: now_ms, node: n });
        }
        self.nodes[n].up = false;
        self.nodes[n].life += 1;
        self.nodes[n].settles = None;
        self.nodes[n].paused_until = None;
        for (_, slot) in self.connections.of(n) {
            if let Some(number) = self.connections.number(slot) {
                self.log.note(&[9, number]);
                self.let_go(n, slot, number);
            }
        }
    }

    /// The process of node `n` dies. What it had handed to its disk gets there all the same.
    pub fn kill(&mut self, n: usize) {
        let life = self.nodes[n].life;
        self.crash(n);
        self.nodes[n].settles = Some(life);
    }

    /// Takes node `n` out before it ever ran: it is there to join later.
    pub fn keep_out(&mut self, n: usize) {
        self.nodes[n].up = false;
    }

    /// Starts node `n` again from its disk; it remembers the addresses it was given.
    pub fn restart(&mut self, n: usize) {
        let addresses: Vec<(AuthorId, Vec<String>)> =
            self.nodes[n].node.peers().iter().map(|(id, p)| (*id, p.addresses.clone())).collect();
        let now_ms = self.now_ms;
        let node = &mut self.nodes[n];
        if self.config.plant == Some(Plant::BringBackWithdrawn) {
            node.disk.lose(&self.library, |record| plant::is_withdrawal(record.claim()));
        }
        node.life += 1;
        let seed = seeds::key(self.config.seed, n as u64, Purpose::Protocol, u64::from(node.life));
        node.node = Node::new(node.key.author(), self.config.protocol.clone(), seed);
        node.wake_at = None;
        node.settles = None;
        node.up = true;
        if let Some(every_ms) = node.hostile.as_ref().map(|hostile| hostile.every_ms) {
            self.schedule_attack(n, every_ms);
        }
        self.tell(Fact::Up { at_ms: now_ms, node: n });
        for bank in self.nodes[n].disk.banks() {
            let held = self.nodes[n].disk.ids(&self.library, &bank);
            self.handle(n, Event::BankOpened { bank, held });
        }
        for (peer, addresses) in addresses {
            for address in addresses {
                self.handle(n, Event::AddressLearned { peer: Some(peer), address, keep: true });
            }
        }
    }

    /// What is on the disk of node `n` now, as a backup.
    pub fn copy_disk(&self, n: usize) -> Disk {
        self.nodes[n].disk.clone()
    }

    /// Puts a backup on the disk of node `n`, which must be down. What was acknowledged since is gone, and its store goes on
    /// numbering far above what it shows. Gives the ids that are acknowledged no longer.
    pub fn restore_disk(&mut self, n: usize, copy: Disk) -> Vec<RecordId> {
        let node = &mut self.nodes[n];
        node.disk.restore(copy);
        node.seq.values_mut().for_each(|seq| *seq += RESTORE_GAP);
        let held: BTreeSet<RecordId> =
            node.disk.banks().iter().flat_map(|bank| node.disk.ids(&self.library, bank)).collect();
        let gone: Vec<RecordId> = node.acknowledged.difference(&held).copied().collect();
        node.acknowledged.retain(|id| held.contains(id));
        node.since.retain(|(_, id), _| held.contains(id));
        gone
    }

    /// Node `n` stands still for a while, as a stopped virtual machine does: what would happen to it waits.
    pub fn pause(&mut self, n: usize, ms: u64) {
        let until = self.now_ms + ms;
        self.nodes[n].paused_until = Some(until);
        self.schedule_at(until, Happening::GoesOn { node: n as u32 });
        for (other, slot) in self.connections.of(n) {
            if let Some(connection) = self.connections.number(slot) {
                self.goes_silent(slot, connection, &[other]);
            }
        }
    }

    /// The clock of node `n`, to set wrong.
    pub fn clock(&mut self, n: usize) -> &mut Clock {
        &mut self.nodes[n].clock
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
        self.nodes[n].disk.whole_teachings(&self.library, bank)
    }

    /// Records node `n` holds on disk.
    pub fn on_disk(&self, n: usize, bank: &BankId) -> Vec<RecordId> {
        self.nodes[n].disk.ids(&self.library, bank)
    }

    /// Runs until `done` holds, looking after every happening, or until `limit_ms` more have passed. Tells whether it held.
    pub fn run_until(&mut self, limit_ms: u64, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.now_ms + limit_ms;
        while !done(self) {
            match self.heap.peek() {
                Some(Reverse(entry)) if entry.at_ms <= end => self.step(),
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

    /// Whoever runs the world is called at this time; see [`World::run_to_call`].
    pub fn call_at(&mut self, at_ms: u64, number: u64) {
        self.schedule_at(at_ms.max(self.now_ms), Happening::Call(number));
    }

    /// Runs until a call comes, and gives its number; `None` once `end_ms` has come.
    pub fn run_to_call(&mut self, end_ms: u64) -> Option<u64> {
        loop {
            match self.heap.peek() {
                Some(Reverse(entry)) if entry.at_ms <= end_ms => self.step(),
                _ => {
                    self.now_ms = self.now_ms.max(end_ms);
                    return None;
                }
            }
            if let Some(number) = self.called.take() {
                return Some(number);
            }
        }
    }
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
