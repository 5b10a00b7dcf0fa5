//! The node: one deterministic state machine that owns banks' known ids, peers, announce, reconcile, fetch and ask.
//!
//! It does no I/O and does not wait. Events and the time go in through [`Node::handle`]; effects come out of
//! [`Node::next_effect`]; [`Node::next_deadline`] says when to come back with [`Event::Tick`]. Storage is asynchronous to it:
//! [`Effect::Admit`], [`Effect::Load`] and [`Effect::Search`] carry a ticket and are answered by the event that carries the
//! same one. What it needs at once, which ids are known, it keeps in memory.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use crate::{
    ask::Asks,
    bank::BankId,
    canonical::{DecodeError, shorten},
    config::{Config, MAX_ADMITTING, MAX_STRIKES, SERVED_PER_PEER},
    fetch::{Batch, Wanted},
    identity::AuthorId,
    known::{Known, Root, ShortId},
    lesson::LessonId,
    message::{
        BankTag, GreetedBank, ITEMS_BUDGET_BYTES, Item, MAX_FETCH, MAX_GREETED_BANKS, MAX_REFUSAL_BYTES, Message,
        PROTOCOL_VERSION, RefusalCode,
    },
    peers::{DialTarget, Peers, jittered},
    reconcile::{CellBatch, MAX_SAME_SHORT, Responding, Session, Which},
    record::{Record, RecordId, UnverifiedRecord},
    time::Time,
};

/// Links an effect to the event that answers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A record from elsewhere, on its way to storage, which checks its signature, its body and the policy.
#[derive(Debug, Clone)]
pub struct Incoming {
    /// The record; its signature is not checked yet.
    pub record: UnverifiedRecord,
    /// The body it names, if it came along: hash checked, form not yet.
    pub body: Option<Vec<u8>>,
}

/// What storage did with one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It is new, and durable.
    Stored,
    /// It was there.
    Known,
    /// The policy now known refuses it.
    Declined,
    /// Its signature or its body is wrong.
    Invalid,
    /// Storage could not take it now; offer it again.
    Failed,
}

/// One peer's answer to a query of this node's.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Who answered.
    pub peer: AuthorId,
    /// Records with bodies; nothing in them is verified yet.
    pub items: Vec<Item>,
    /// Records the peer says it looked through.
    pub records: u64,
}

/// What goes in.
#[derive(Debug, Clone)]
pub enum Event {
    /// A deadline has come.
    Tick,
    /// A bank is here, holding these records.
    BankOpened {
        /// Which.
        bank: BankId,
        /// Ids held.
        held: Vec<RecordId>,
    },
    /// The policy in force changed: what was declined is judged again.
    PolicyChanged {
        /// Of which bank.
        bank: BankId,
    },
    /// Somebody says where a peer is.
    AddressLearned {
        /// Who, where known.
        peer: Option<AuthorId>,
        /// Where.
        address: String,
        /// Dial it for ever (a person, a ticket, the address book said so).
        keep: bool,
    },
    /// Somebody says that a peer holds a bank of this node's: it is dialled while more neighbours are wanted.
    PeerFound {
        /// Who.
        peer: AuthorId,
        /// Where.
        address: String,
    },
    /// A connection stands. One per peer until [`Event::Disconnected`].
    Connected {
        /// With whom.
        peer: AuthorId,
        /// The address this node dialled, if it was the one to dial.
        dialled: Option<String>,
    },
    /// No connection to the peer is left.
    Disconnected {
        /// Which.
        peer: AuthorId,
    },
    /// A dial came to nothing.
    DialFailed {
        /// Which.
        target: DialTarget,
        /// The address is this node's own: it is not tried again.
        own: bool,
    },
    /// A message came.
    Received {
        /// From whom.
        peer: AuthorId,
        /// What.
        message: Message,
    },
    /// Bytes came that are no message.
    Malformed {
        /// From whom.
        peer: AuthorId,
        /// What is wrong with them.
        error: DecodeError,
    },
    /// This node itself wrote records; they are durable.
    Published {
        /// In which bank.
        bank: BankId,
        /// The records, with the bodies they name.
        items: Vec<(Record, Option<Arc<[u8]>>)>,
    },
    /// Answers [`Effect::Admit`], in the order of its items.
    Admitted {
        /// As given.
        ticket: Ticket,
        /// One for each item.
        results: Vec<Admission>,
    },
    /// Answers [`Effect::Load`].
    Loaded {
        /// As given.
        ticket: Ticket,
        /// What is held, in the order asked, as much as fits the budget.
        items: Vec<Item>,
        /// Ids that are not held.
        absent: Vec<RecordId>,
    },
    /// Answers [`Effect::Search`].
    Found {
        /// As given.
        ticket: Ticket,
        /// Records that teach the lessons found, best first, with bodies.
        items: Vec<Item>,
    },
    /// An agent here asks the connected peers.
    Ask {
        /// Comes back in [`Effect::Answered`].
        ask: u64,
        /// In which bank.
        bank: BankId,
        /// The task.
        query: String,
        /// How many hits of each peer.
        hits: u32,
        /// Answer by then with what there is.
        deadline: Time,
    },
    /// Reconcile now with this peer, or with all.
    Sync {
        /// Whom.
        peer: Option<AuthorId>,
    },
}

/// What comes out.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Send a message. If it cannot be queued it may be dropped: every request has a timeout.
    Send {
        /// To whom.
        peer: AuthorId,
        /// What.
        message: Message,
    },
    /// Connect; answered by [`Event::Connected`] or [`Event::DialFailed`].
    Dial {
        /// To whom.
        target: DialTarget,
        /// Where, best first.
        addresses: Vec<String>,
    },
    /// Close every connection with a peer.
    Disconnect {
        /// Which.
        peer: AuthorId,
        /// Why, for the log.
        reason: &'static str,
    },
    /// Check and store records, durably.
    Admit {
        /// For [`Event::Admitted`].
        ticket: Ticket,
        /// In which bank.
        bank: BankId,
        /// The records.
        items: Vec<Incoming>,
    },
    /// Read records with their bodies.
    Load {
        /// For [`Event::Loaded`].
        ticket: Ticket,
        /// Of which bank.
        bank: BankId,
        /// Which.
        ids: Vec<RecordId>,
        /// Stop before the items pass this many bytes, but give at least one.
        budget_bytes: usize,
    },
    /// Search the own bank for a peer.
    Search {
        /// For [`Event::Found`].
        ticket: Ticket,
        /// Which bank.
        bank: BankId,
        /// The task.
        query: String,
        /// How many hits.
        hits: u32,
    },
    /// A query of this node's own has ended.
    Answered {
        /// As given.
        ask: u64,
        /// Who answered, and what.
        answers: Vec<Answer>,
        /// Who was asked and did not answer.
        silent: Vec<AuthorId>,
    },
}

/// What came of a request for records.
struct Delivery {
    items: Vec<Item>,
    absent: Vec<RecordId>,
    unknown: Vec<ShortId>,
}

/// What a ticket waits for.
#[derive(Debug)]
pub(crate) enum Pending {
    Admit { bank: BankId, from: AuthorId, items: Vec<(RecordId, PushedAs)> },
    Serve { peer: AuthorId, bank: BankId, request: u64, unknown: Vec<ShortId> },
    Search { peer: AuthorId, bank: BankId, request: u64 },
}

/// How a record came, and so how it is passed on.
#[derive(Debug)]
pub(crate) enum PushedAs {
    Fetched,
    Pushed { item: Item, hops: u32 },
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    Greeting { peer: AuthorId, connection: u64 },
    Reconcile { bank: BankId, peer: AuthorId, connection: u64 },
    Fallback { bank: BankId, peer: AuthorId, connection: u64, since: Time, served: u64 },
    Session { bank: BankId, peer: AuthorId, session: u64, step: u64 },
    Request { bank: BankId, request: u64 },
    Graft { bank: BankId, peer: AuthorId },
    Ask { number: u64 },
    Retry { bank: BankId, id: RecordId },
}

/// One bank as the protocol sees it.
#[derive(Debug, Default)]
pub(crate) struct BankState {
    pub known: Known,
    /// Neighbours that get ids only; all others get whole records.
    pub lazy: BTreeSet<AuthorId>,
    /// With storage now.
    pub admitting: BTreeSet<RecordId>,
    pub wanted: Wanted,
    /// Ids announced and held back for a while, by who has them.
    pub grafts: BTreeMap<AuthorId, BTreeSet<RecordId>>,
    /// Storage failed: nothing is fetched before this.
    pub stalled_until: Option<Time>,
    pub sessions: BTreeMap<AuthorId, Session>,
    pub responding: BTreeMap<AuthorId, Responding>,
    /// Peers of which it is fetched what an earlier connection left, before anything is compared; with the number of records
    /// that had come of each when it was last looked.
    pub resuming: BTreeMap<AuthorId, u64>,
    /// When a peer last had this node code the whole set under a salt.
    pub salted_at: Option<Time>,
}

impl BankState {
    pub(crate) fn is_new(&self, id: &RecordId) -> bool {
        !self.known.contains(id) && !self.admitting.contains(id)
    }

    /// Whether a record with this short id is known or with storage.
    pub(crate) fn has_short(&self, short: ShortId) -> bool {
        self.admitting.range(short.range()).next().is_some() || !self.known.with_short(short).is_empty()
    }
}

/// The state machine.
#[derive(Debug)]
pub struct Node {
    pub(crate) me: AuthorId,
    pub(crate) config: Config,
    pub(crate) rng: ChaCha8Rng,
    pub(crate) banks: BTreeMap<BankId, BankState>,
    pub(crate) peers: Peers,
    pub(crate) asks: Asks,
    pub(crate) tickets: BTreeMap<Ticket, Pending>,
    timers: BTreeSet<(Time, u64, Timer)>,
    out: VecDeque<Effect>,
    numbers: u64,
}

impl Node {
    /// A node with no banks and no peers. `seed` decides all its randomness (jitter and numbers).
    pub fn new(me: AuthorId, config: Config, seed: [u8; 32]) -> Self {
        let mut rng = ChaCha8Rng::from_seed(seed);
        // Numbers of requests start anywhere, so that an answer to an earlier life of this node fits none of this one's.
        let numbers = rng.next_u64() >> 16;
        Self {
            me,
            config,
            rng,
            banks: BTreeMap::new(),
            peers: Peers::default(),
            asks: Asks::default(),
            tickets: BTreeMap::new(),
            timers: BTreeSet::new(),
            out: VecDeque::new(),
            numbers,
        }
    }

    /// Who this node is.
    pub fn id(&self) -> AuthorId {
        self.me
    }

    /// The address book and what is known of each peer.
    pub fn peers(&self) -> &Peers {
        &self.peers
    }

    /// Banks that are open, ascending.
    pub fn banks(&self) -> impl Iterator<Item = BankId> + '_ {
        self.banks.keys().copied()
    }

    /// (known root, held root) of a bank.
    pub fn roots(&mut self, bank: &BankId) -> Option<(Root, Root)> {
        let state = self.banks.get_mut(bank)?;
        Some((state.known.known_root(), state.known.held_root()))
    }

    /// Records held in a bank.
    pub fn held_len(&self, bank: &BankId) -> usize {
        self.banks.get(bank).map_or(0, |b| b.known.held_len())
    }

    /// Records of a bank that are known to be missing here.
    pub fn missing_len(&self, bank: &BankId) -> usize {
        self.banks.get(bank).map_or(0, |b| b.wanted.len() + b.admitting.len())
    }

    /// Whether a record is held.
    pub fn holds(&self, bank: &BankId, id: &RecordId) -> bool {
        self.banks.get(bank).is_some_and(|b| b.known.holds(id))
    }

    /// Whether a record is known: held, declined, or on its way to storage.
    pub fn knows(&self, bank: &BankId, id: &RecordId) -> bool {
        self.banks.get(bank).is_some_and(|b| !b.is_new(id))
    }

    /// Takes one event. Timers that are due by `now` are handled first. Afterwards drain [`Node::next_effect`].
    pub fn handle(&mut self, event: Event, now: Time) {
        self.fire_timers(now);
        match event {
            Event::Tick => {}
            Event::BankOpened { bank, held } => self.open_bank(bank, held, now),
            Event::PolicyChanged { bank } => {
                if let Some(state) = self.banks.get_mut(&bank) {
                    state.known.forget_declined();
                    self.sync(None, now);
                }
            }
            Event::AddressLearned { peer: Some(peer), address, keep } => {
                if peer != self.me {
                    self.peers.learn(peer, address, keep, now);
                }
            }
            Event::AddressLearned { peer: None, address, .. } => self.peers.learn_unnamed(address, now),
            Event::PeerFound { peer, address } => {
                if peer != self.me {
                    self.peers.found(peer, address, now);
                }
            }
            Event::Connected { peer, dialled } => self.connected(peer, dialled, now),
            Event::Disconnected { peer } => self.disconnected(peer, now),
            Event::DialFailed { target: DialTarget::Address(address), own: true } => self.peers.drop_unnamed(&address),
            Event::DialFailed { target, .. } => self.peers.dial_failed(&target, &self.config, &mut self.rng, now),
            Event::Received { peer, message } => self.received(peer, message, now),
            Event::Malformed { peer, error: error @ DecodeError::Version { .. } } => {
                self.refuse(peer, RefusalCode::Version, &shorten(&error.to_string(), MAX_REFUSAL_BYTES));
                self.strike(peer, now);
            }
            Event::Malformed { peer, .. } => {
                self.refuse(peer, RefusalCode::Malformed, "that was not a message");
                self.strike(peer, now);
            }
            Event::Published { bank, items } => self.published(bank, items),
            Event::Admitted { ticket, results } => self.admitted(ticket, results, now),
            Event::Loaded { ticket, items, absent } => self.loaded(ticket, items, absent),
            Event::Found { ticket, items } => self.found(ticket, items),
            Event::Ask { ask, bank, query, hits, deadline } => self.start_ask(ask, bank, query, hits, deadline),
            Event::Sync { peer } => self.sync(peer, now),
        }
        for (target, addresses) in self.peers.due(now) {
            self.out.push_back(Effect::Dial { target, addresses });
        }
    }

    /// The next thing to do, until there is none.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.out.pop_front()
    }

    /// When to come back with [`Event::Tick`] at the latest.
    pub fn next_deadline(&self) -> Option<Time> {
        let timer = self.timers.first().map(|(time, ..)| *time);
        timer.into_iter().chain(self.peers.next_due()).min()
    }

    // ---- shared by the modules that hold the rest of this state machine ----

    pub(crate) fn emit(&mut self, effect: Effect) {
        self.out.push_back(effect);
    }

    pub(crate) fn send(&mut self, peer: AuthorId, message: Message) {
        self.out.push_back(Effect::Send { peer, message });
    }

    pub(crate) fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub(crate) fn set_timer(&mut self, at: Time, timer: Timer) {
        let number = self.next_number();
        self.timers.insert((at, number, timer));
    }

    pub(crate) fn refuse(&mut self, peer: AuthorId, code: RefusalCode, detail: &str) {
        self.send(peer, Message::Refusal { code, detail: detail.to_owned() });
    }

    /// Counts a breach of the protocol; too many end the connection and bar the peer for a while.
    pub(crate) fn strike(&mut self, peer: AuthorId, now: Time) {
        let Some(state) = self.peers.get_mut(&peer) else { return };
        state.strikes += 1;
        if state.strikes >= MAX_STRIKES {
            self.peers.strike_out(&peer, now);
            self.emit(Effect::Disconnect { peer, reason: "it broke the protocol too often" });
        }
    }

    /// Counts a request that got no answer; too many in a row and the connection is taken for dead.
    pub(crate) fn timed_out(&mut self, peer: AuthorId) {
        let Some(state) = self.peers.get_mut(&peer) else { return };
        state.timeouts += 1;
        if state.timeouts >= self.config.timeouts_before_disconnect {
            state.timeouts = 0;
            self.emit(Effect::Disconnect { peer, reason: "it is connected but does not answer" });
        }
    }

    /// Takes a place among the loads and searches under way for `peer`; refuses it as busy when there is none.
    pub(crate) fn may_serve(&mut self, peer: AuthorId) -> bool {
        let Some(state) = self.peers.get_mut(&peer) else { return false };
        if state.served >= SERVED_PER_PEER {
            self.refuse(peer, RefusalCode::Busy, "too many requests under way; wait for answers");
            return false;
        }
        state.served += 1;
        true
    }

    pub(crate) fn served(&mut self, peer: &AuthorId) {
        if let Some(state) = self.peers.get_mut(peer) {
            state.served = state.served.saturating_sub(1);
        }
    }

    pub(crate) fn issue(&mut self, pending: Pending) -> Ticket {
        let ticket = Ticket(self.next_number());
        self.tickets.insert(ticket, pending);
        ticket
    }

    // ---- connections and greetings ----

    fn open_bank(&mut self, bank: BankId, held: Vec<RecordId>, now: Time) {
        // Said twice it is one bank: what is known and under way stays.
        let state = self.banks.entry(bank).or_default();
        if state.known.held_len() == 0 {
            state.known = Known::holding(held);
        } else {
            held.into_iter().for_each(|id| {
                state.known.hold(id);
            });
        }
        for peer in self.peers.connected() {
            self.greet(peer);
            if self.peers.get(&peer).is_some_and(|p| p.greeted) {
                self.match_banks(peer, now);
            }
        }
    }

    fn connected(&mut self, peer: AuthorId, dialled: Option<String>, now: Time) {
        if peer == self.me {
            if let Some(address) = dialled {
                self.peers.drop_unnamed(&address);
            }
            self.emit(Effect::Disconnect { peer, reason: "it is this node itself" });
            return;
        }
        if self.peers.get(&peer).and_then(|p| p.barred_until).is_some_and(|until| now < until) {
            self.emit(Effect::Disconnect { peer, reason: "it broke the protocol too often a while ago" });
            return;
        }
        let connection = self.next_number();
        self.peers.connected_to(peer, dialled, connection);
        self.greet(peer);
        self.set_timer(now + self.config.greeting_timeout_ms, Timer::Greeting { peer, connection });
    }

    fn disconnected(&mut self, peer: AuthorId, now: Time) {
        self.peers.disconnected(&peer, &self.config, &mut self.rng, now);
        for state in self.banks.values_mut() {
            state.wanted.disconnected(&peer);
            state.sessions.remove(&peer);
            state.responding.remove(&peer);
            state.resuming.remove(&peer);
            state.grafts.remove(&peer);
            state.lazy.remove(&peer);
        }
        self.ask_disconnected(peer);
        let banks: Vec<BankId> = self.banks.keys().copied().collect();
        for bank in banks {
            self.pump(bank, now);
        }
    }

    fn greet(&mut self, peer: AuthorId) {
        let me = self.me;
        let banks = self.banks.iter_mut().take(MAX_GREETED_BANKS).map(|(bank, state)| GreetedBank {
            tag: BankTag::new(bank, &me, &peer),
            root: state.known.known_root(),
            records: state.known.held_len() as u64,
            resumes: !state.wanted.is_drained(&peer),
        });
        let message = Message::Hello { version: PROTOCOL_VERSION, banks: banks.collect() };
        self.send(peer, message);
    }

    fn greeted(&mut self, peer: AuthorId, version: u32, banks: Vec<GreetedBank>, now: Time) {
        if version != PROTOCOL_VERSION {
            let detail = format!("this node speaks version {PROTOCOL_VERSION}, not {version}: update the older one");
            self.refuse(peer, RefusalCode::Version, &detail);
            self.emit(Effect::Disconnect { peer, reason: "it speaks another version of the protocol" });
            return;
        }
        let Some(state) = self.peers.get_mut(&peer) else { return };
        state.greeted = true;
        state.tags = banks.into_iter().map(|bank| (bank.tag, bank)).collect();
        self.match_banks(peer, now);
    }

    /// Finds the banks that both sides know, and starts to reconcile those whose roots differ.
    fn match_banks(&mut self, peer: AuthorId, now: Time) {
        let me = self.me;
        let Some(state) = self.peers.get_mut(&peer) else { return };
        let connection = state.connection;
        let mut differing = Vec::new();
        for (bank, known) in &mut self.banks {
            let Some(greeted) = state.tags.get(&BankTag::new(bank, &peer, &me)) else {
                state.banks.remove(bank);
                continue;
            };
            state.banks.insert(*bank);
            // Whoever shares a bank is worth finding again, whichever side dialled.
            state.keep = true;
            let resumes = known.wanted.returned(peer);
            if greeted.root == known.known.known_root() {
                state.complete_as_of.insert(*bank, now);
                state.last_sync = Some(now);
            } else {
                differing.push((*bank, resumes, greeted.resumes));
            }
            if state.compared_regularly.insert(*bank) {
                let at = now + jittered(self.config.reconcile_every_ms, &mut self.rng);
                let number = self.numbers + 1;
                self.numbers = number;
                self.timers.insert((at, number, Timer::Reconcile { bank: *bank, peer, connection }));
            }
        }
        for (bank, resumes, it_resumes) in differing {
            if resumes {
                self.resume(bank, peer, now);
            } else if me < peer && !it_resumes {
                self.start_differing(bank, peer, now);
            } else {
                // One of the two opens; the other does so only if nothing came.
                self.fall_back(bank, peer, connection, now);
            }
        }
    }

    fn sync(&mut self, only: Option<AuthorId>, now: Time) {
        self.peers.dial_soon(only.as_ref(), now);
        let banks: Vec<BankId> = self.banks.keys().copied().collect();
        for bank in banks {
            for peer in self.peers.sharing(&bank) {
                if only.is_none_or(|o| o == peer) {
                    self.start_session(bank, peer, now);
                }
            }
        }
    }

    // ---- messages ----

    fn received(&mut self, peer: AuthorId, message: Message, now: Time) {
        let Some(state) = self.peers.get_mut(&peer).filter(|p| p.connected) else { return };
        if let Some(bank) = message.bank()
            && !(state.banks.contains(&bank) && self.banks.contains_key(&bank))
        {
            // It may be that its greeting, lost or late, would have shown that it knows the bank. To one who has not shown
            // it the answer is the same whether the bank is here or not.
            self.refuse(peer, RefusalCode::Bank, "show first that you know the bank");
            return;
        }
        // Whatever fits shows that the peer is alive.
        state.timeouts = 0;
        match message {
            Message::Hello { version, banks } => self.greeted(peer, version, banks, now),
            Message::Refusal { code: RefusalCode::Bank, .. } => self.greet(peer),
            // One who speaks another version hangs up by itself, and is dialled again with backoff: either may be updated.
            Message::Refusal { .. } => {}
            Message::Push { bank, hops, item } => self.receive_push(peer, bank, hops, item, now),
            Message::Have { bank, ids } => self.receive_have(peer, bank, ids, now),
            Message::Graft { bank } => self.receive_graft(peer, bank),
            Message::Prune { bank } => self.receive_prune(peer, bank),
            Message::Probe { bank, session, probes } => self.receive_probe(peer, bank, session, probes, now),
            Message::Probed { bank, session, answers } => self.receive_probed(peer, bank, session, answers, now),
            Message::Offer { bank, session, ids, last } => self.receive_offer(peer, bank, session, ids, last, now),
            Message::Fetch { bank, request, budget_bytes, ids } => {
                let budget_bytes = ITEMS_BUDGET_BYTES.min(budget_bytes as usize);
                self.receive_fetch(peer, bank, request, budget_bytes, ids);
            }
            Message::Records { bank, request, items, absent, unknown } => {
                self.receive_records(peer, bank, request, Delivery { items, absent, unknown }, now);
            }
            Message::Ask { bank, request, query, hits } => self.receive_ask(peer, bank, request, query, hits),
            Message::Answer { bank, request, items, records } => {
                self.receive_answer(peer, bank, request, items, records);
            }
            Message::Compare { bank, session, root } => self.receive_compare(peer, bank, session, root, now),
            Message::Sketch { bank, session, head, from, cells, last } => {
                self.receive_sketch(peer, bank, session, CellBatch { head, from: from as usize, cells, last }, now);
            }
            Message::Sketched { bank, session, answer } => self.receive_sketched(peer, bank, session, answer, now),
        }
    }

    fn receive_fetch(&mut self, peer: AuthorId, bank: BankId, request: u64, budget_bytes: usize, shorts: Vec<ShortId>) {
        let Some(state) = self.banks.get(&bank) else { return };
        let (mut ids, mut unknown) = (Vec::new(), Vec::new());
        for short in shorts {
            let known = state.known.with_short(short);
            if known.is_empty() {
                unknown.push(short);
            }
            ids.extend(known.into_iter().take(MAX_SAME_SHORT));
        }
        if ids.is_empty() {
            self.send(peer, Message::Records { bank, request, items: Vec::new(), absent: Vec::new(), unknown });
        } else if self.may_serve(peer) {
            ids.truncate(MAX_FETCH);
            let ticket = self.issue(Pending::Serve { peer, bank, request, unknown });
            self.emit(Effect::Load { ticket, bank, ids, budget_bytes });
        }
    }

    fn loaded(&mut self, ticket: Ticket, items: Vec<Item>, absent: Vec<RecordId>) {
        let Some(Pending::Serve { peer, bank, request, unknown }) = self.tickets.remove(&ticket) else { return };
        self.served(&peer);
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.records_out += items.len() as u64;
        }
        self.send(peer, Message::Records { bank, request, items, absent, unknown });
    }

    // ---- fetching and admission ----

    /// Asks for what is missing, wherever a peer has room for another request.
    pub(crate) fn pump(&mut self, bank: BankId, now: Time) {
        loop {
            let Some(state) = self.banks.get(&bank) else { return };
            if state.admitting.len() >= MAX_ADMITTING || state.stalled_until.is_some_and(|until| now < until) {
                break;
            }
            let Some(peer) = state.wanted.askable().into_iter().next() else { break };
            let request = self.next_number();
            let Some(state) = self.banks.get_mut(&bank) else { return };
            let Batch { ids, budget_bytes } = state.wanted.ask(peer, request);
            if ids.is_empty() {
                break;
            }
            self.send(peer, Message::Fetch { bank, request, budget_bytes: budget_bytes as u32, ids });
            self.set_timer(now + self.config.request_timeout_ms, Timer::Request { bank, request });
        }
        self.check_resumed(bank, now);
    }

    fn receive_records(&mut self, peer: AuthorId, bank: BankId, request: u64, delivery: Delivery, now: Time) {
        let Delivery { items, absent, unknown } = delivery;
        let Some(state) = self.banks.get_mut(&bank) else { return };
        if !state.wanted.is_asked(request, &peer) {
            return; // Late: it was given up, and is asked for elsewhere.
        }
        let mut breaches = u32::from(items.is_empty() && absent.is_empty() && unknown.is_empty());
        let (mut came, mut idle) = (BTreeSet::new(), BTreeSet::new());
        let mut incoming = Vec::new();
        let mut admit = Vec::new();
        state.wanted.carried(&peer, items.len(), items.iter().map(Item::len).sum());
        for item in items {
            match parse_item(&bank, item) {
                // A teaching without its lesson is taken only from the last who offers it; the others may have both.
                Ok((record, None))
                    if record.fields().claim.body().is_some()
                        && state.wanted.has_other_source(&ShortId::of(&record.id()), &peer) =>
                {
                    let short = ShortId::of(&record.id());
                    if state.wanted.came(request, &short) {
                        state.wanted.retry(short);
                        state.wanted.drop_source(&short, &peer);
                    }
                }
                Ok((record, body))
                    if came.contains(&ShortId::of(&record.id()))
                        || state.wanted.came(request, &ShortId::of(&record.id())) =>
                {
                    came.insert(ShortId::of(&record.id()));
                    if state.known.contains(&record.id()) {
                        idle.insert(ShortId::of(&record.id()));
                    }
                    if state.is_new(&record.id()) {
                        state.admitting.insert(record.id());
                        admit.push((record.id(), PushedAs::Fetched));
                        incoming.push(Incoming { record, body });
                    }
                }
                _ => breaches += 1,
            }
        }
        // Known already, and nothing new came by the same short id: it is not on its way to storage.
        for (id, _) in &admit {
            idle.remove(&ShortId::of(id));
        }
        idle.iter().for_each(|short| state.wanted.resolve(*short));
        let absent: Vec<RecordId> =
            absent.into_iter().filter(|id| state.wanted.drop_source(&ShortId::of(id), &peer)).collect();
        let mut orphans = unknown;
        orphans.retain(|short| state.wanted.drop_source(short, &peer));
        orphans.extend(state.wanted.end(request, breaches > 0));
        for id in absent {
            self.resolved(bank, Which::Id(&id), Some(&peer), breaches == 0, now);
        }
        for short in orphans.into_iter().chain(idle) {
            self.resolved(bank, Which::Short(short), Some(&peer), false, now);
        }
        (0..breaches).for_each(|_| self.strike(peer, now));
        self.admit(bank, peer, admit, incoming);
        self.pump(bank, now);
    }

    pub(crate) fn admit(
        &mut self,
        bank: BankId,
        from: AuthorId,
        items: Vec<(RecordId, PushedAs)>,
        incoming: Vec<Incoming>,
    ) {
        if incoming.is_empty() {
            return;
        }
        let ticket = self.issue(Pending::Admit { bank, from, items });
        self.emit(Effect::Admit { ticket, bank, items: incoming });
    }

    fn admitted(&mut self, ticket: Ticket, results: Vec<Admission>, now: Time) {
        let Some(Pending::Admit { bank, from, items }) = self.tickets.remove(&ticket) else { return };
        let mut fetched = Vec::new();
        for (n, (id, how)) in items.into_iter().enumerate() {
            let result = results.get(n).copied().unwrap_or(Admission::Failed);
            let Some(state) = self.banks.get_mut(&bank) else { return };
            state.admitting.remove(&id);
            match result {
                Admission::Stored | Admission::Known => {
                    let new = state.known.hold(id);
                    if let Some(peer) = self.peers.get_mut(&from).filter(|_| new) {
                        peer.records_in += 1;
                    }
                    state.wanted.resolve(id);
                    self.resolved(bank, Which::Id(&id), None, true, now);
                    if new {
                        match how {
                            PushedAs::Fetched => fetched.push(id),
                            PushedAs::Pushed { item, hops } => self.forward(bank, from, id, item, hops),
                        }
                    }
                }
                Admission::Declined => {
                    state.known.decline(id);
                    state.wanted.resolve(id);
                    self.resolved(bank, Which::Id(&id), None, true, now);
                }
                Admission::Invalid => {
                    // The id does not cover the signature, so another peer may have the true record.
                    if state.wanted.drop_source(&ShortId::of(&id), &from) {
                        self.resolved(bank, Which::Id(&id), Some(&from), false, now);
                    } else {
                        state.wanted.retry(id);
                    }
                    self.strike(from, now);
                }
                Admission::Failed => {
                    // Storage takes nothing now: what would be fetched meanwhile would be thrown away.
                    state.stalled_until = Some(now + self.config.admit_retry_ms);
                    self.set_timer(now + self.config.admit_retry_ms, Timer::Retry { bank, id });
                }
            }
        }
        self.have(bank, Some(from), &fetched, true);
        self.pump(bank, now);
    }

    // ---- timers ----

    fn fire_timers(&mut self, now: Time) {
        while let Some(entry) = self.timers.first().filter(|(at, ..)| *at <= now).cloned() {
            self.timers.remove(&entry);
            self.fire(entry.2, now);
        }
    }

    fn is_connection(&self, peer: &AuthorId, connection: u64) -> bool {
        self.peers.get(peer).is_some_and(|p| p.connected && p.connection == connection)
    }

    fn fire(&mut self, timer: Timer, now: Time) {
        match timer {
            Timer::Greeting { peer, connection } => {
                if self.is_connection(&peer, connection) && self.peers.get(&peer).is_some_and(|p| !p.greeted) {
                    self.emit(Effect::Disconnect { peer, reason: "it is connected but does not greet" });
                }
            }
            Timer::Reconcile { bank, peer, connection } => {
                if self.is_connection(&peer, connection) && self.peers.sharing(&bank).contains(&peer) {
                    self.reconcile_due(bank, peer, connection, now);
                }
            }
            Timer::Fallback { bank, peer, connection, since, served } => {
                if self.is_connection(&peer, connection) {
                    self.fallback_due(bank, peer, since, served, now);
                }
            }
            Timer::Session { bank, peer, session, step } => self.session_timed_out(bank, peer, session, step),
            Timer::Request { bank, request } => {
                let Some(state) = self.banks.get_mut(&bank) else { return };
                if let Some(peer) = state.wanted.end_timed_out(request) {
                    self.timed_out(peer);
                    self.pump(bank, now);
                }
            }
            Timer::Graft { bank, peer } => self.graft_due(bank, peer, now),
            Timer::Ask { number } => self.end_ask(number),
            Timer::Retry { bank, id } => {
                if let Some(state) = self.banks.get_mut(&bank) {
                    state.wanted.retry(id);
                    self.pump(bank, now);
                }
            }
        }
    }
}

/// Reads an item's record and checks what is cheap: that it is of this bank, and that the body is the one it names.
pub(crate) fn parse_item(bank: &BankId, item: Item) -> Result<(UnverifiedRecord, Option<Vec<u8>>), ()> {
    let record = UnverifiedRecord::parse(&item.record).map_err(|_| ())?;
    let fits = match (record.fields().claim.body(), &item.body) {
        (_, None) => true,
        (Some(id), Some(body)) => LessonId::of(body) == id,
        (None, Some(_)) => false,
    };
    if record.fields().bank != *bank || !fits {
        return Err(());
    }
    Ok((record, item.body))
}
