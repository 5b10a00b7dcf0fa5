//! The node: one deterministic state machine that owns banks' known ids, peers, announce, reconcile, fetch and ask.
//!
//! It does no I/O and does not wait. Events and the time go in through [`Node::handle`]; effects come out of
//! [`Node::next_effect`]; [`Node::next_deadline`] says when to come back with [`Event::Tick`]. Storage is asynchronous to it:
//! [`Effect::Admit`], [`Effect::Load`] and [`Effect::Search`] carry a ticket and are answered by the event that carries the
//! same one. What it needs at once, which ids are known, it keeps in memory.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use crate::{
    admission::Delivery,
    ask::Asks,
    bank::BankId,
    canonical::{DecodeError, shorten},
    config::{
        Config, MAX_ADMITTING, MAX_GRAFT_IDS, MAX_PEERS, MAX_STRIKES, MAX_WANTED, REQUESTS_PER_PEER, SERVED_PER_PEER,
    },
    event::{Effect, Event, Ticket},
    fetch::Wanted,
    identity::AuthorId,
    known::{Known, Root, ShortId},
    message::{ITEMS_BUDGET_BYTES, Item, MAX_FETCH, MAX_REFUSAL_BYTES, Message, RefusalCode},
    peers::{DialTarget, Peers},
    reconcile::{CellBatch, Coding, Offered, Responding, Session},
    record::RecordId,
    run_log::{RunKey, Runs},
    suggest::Suggestions,
    time::Time,
};

/// Timers set at once for one peer in one bank. An answered request's timer stays until it is due and then does nothing, so
/// there are as many as requests fit into [`Config::request_timeout_ms`].
const TIMERS_A_PAIR: usize = 4096;

/// What a ticket waits for.
#[derive(Debug)]
pub(crate) enum Pending {
    Admit { bank: BankId, from: AuthorId, items: Vec<(RecordId, PushedAs)> },
    Serve { peer: AuthorId, bank: BankId, request: u64, unknown: Vec<ShortId> },
    Search { peer: AuthorId, bank: BankId, request: u64 },
    Suggest { peer: AuthorId, bank: BankId, request: u64 },
    Steps { peer: AuthorId, bank: BankId, request: u64, run: RunKey },
}

/// How a record came, and so how it is passed on.
#[derive(Debug)]
pub(crate) enum PushedAs {
    Fetched,
    Pushed {
        item: Item,
        hops: u32,
    },
    /// Known, but for the body that now came.
    Completed,
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
    Busy { bank: BankId, peer: AuthorId, connection: u64 },
    Code { bank: BankId },
    Steps { peer: AuthorId, bank: BankId, run: RunKey, request: u64 },
    StepsAgain { peer: AuthorId, bank: BankId, run: RunKey },
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
    /// Held without the body that they name: nobody who was here had it.
    pub bodiless: BTreeSet<RecordId>,
    /// How far each peer was asked what to fetch first.
    pub suggestions: BTreeMap<AuthorId, Suggestions>,
    /// Records in a row that were announced and not pushed.
    pub gaps: u32,
    /// Storage failed: nothing is fetched before this.
    pub stalled_until: Option<Time>,
    pub sessions: BTreeMap<AuthorId, Session>,
    pub responding: BTreeMap<AuthorId, Responding>,
    /// Peers of which it is fetched what an earlier connection left, before anything is compared; with the number of records
    /// that had come of each when it was last looked.
    pub resuming: BTreeMap<AuthorId, u64>,
    /// Sessions that wait for cells.
    pub coding: Vec<Coding>,
    /// When a peer last had this node code the whole set under a salt.
    pub salted_at: Option<Time>,
}

impl BankState {
    pub(crate) fn is_new(&self, id: &RecordId) -> bool {
        !self.known.contains(id) && !self.admitting.contains(id)
    }

    /// Whether a body that came is one that was lacking.
    pub(crate) fn completes(&self, id: &RecordId, body: Option<&Vec<u8>>) -> bool {
        body.is_some() && self.bodiless.contains(id) && !self.admitting.contains(id)
    }

    /// Whether a record with this short id is known or with storage.
    pub(crate) fn has_short(&self, short: ShortId) -> bool {
        self.admitting.range(short.range()).next().is_some() || !self.known.with_short(short).is_empty()
    }
}

/// How much waits at a node; each has a bound that no peer can lift.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backlog {
    /// Peers remembered.
    pub peers: usize,
    /// Peers connected.
    pub connected: usize,
    /// Banks open.
    pub banks: usize,
    /// Timers set.
    pub timers: usize,
    /// Things asked of storage and not answered.
    pub tickets: usize,
    /// Records of one bank known to be missing.
    pub wanted: usize,
    /// Records of one bank handed to storage.
    pub admitting: usize,
    /// Ids that one peer announced in one bank and that are held back.
    pub held_back: usize,
}

impl Backlog {
    /// Whether every bound holds; else which does not.
    pub fn check(&self) -> Result<(), String> {
        let a_pair = self.connected.max(1) * self.banks.max(1);
        // Of storage: loads for each peer; and records to admit, one a ticket at the least.
        let tickets = SERVED_PER_PEER * self.connected + (MAX_ADMITTING + MAX_FETCH) * self.banks;
        let bounds = [
            ("peers", self.peers, MAX_PEERS),
            ("tickets", self.tickets, tickets),
            ("wanted", self.wanted, MAX_WANTED),
            // The last batch that was asked for may come whole.
            ("admitting", self.admitting, MAX_ADMITTING + REQUESTS_PER_PEER * MAX_FETCH * self.connected.max(1)),
            ("held back", self.held_back, MAX_GRAFT_IDS),
            ("timers", self.timers, TIMERS_A_PAIR * a_pair + MAX_ADMITTING * self.banks.max(1)),
        ];
        match bounds.into_iter().find(|(_, is, most)| is > most) {
            Some((what, is, most)) => Err(format!("{is} {what}, {most} at most")),
            None => Ok(()),
        }
    }
}

/// The state machine.
#[derive(Debug)]
pub struct Node {
    pub(crate) me: AuthorId,
    pub(crate) config: Config,
    pub(crate) rng: ChaCha8Rng,
    /// Boxed: a map keeps room for eleven values from the first one on, and a node is in few banks.
    pub(crate) banks: BTreeMap<BankId, Box<BankState>>,
    pub(crate) peers: Peers,
    pub(crate) asks: Asks,
    /// Runs under way that are shared.
    pub(crate) runs: Runs,
    pub(crate) tickets: BTreeMap<Ticket, Pending>,
    /// What agents here are working on, if peers may be shown it.
    pub(crate) near: Vec<String>,
    pub(crate) timers: BTreeSet<(Time, u64, Timer)>,
    out: VecDeque<Effect>,
    pub(crate) numbers: u64,
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
            runs: Runs::default(),
            tickets: BTreeMap::new(),
            near: Vec::new(),
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

    /// How much waits here.
    pub fn backlog(&self) -> Backlog {
        let states = self.banks.values();
        Backlog {
            peers: self.peers.iter().count(),
            connected: self.peers.connected().len(),
            banks: self.banks.len(),
            timers: self.timers.len(),
            tickets: self.tickets.len(),
            wanted: states.clone().map(|state| state.wanted.len()).max().unwrap_or(0),
            admitting: states.clone().map(|state| state.admitting.len()).max().unwrap_or(0),
            held_back: states.flat_map(|state| state.grafts.values()).map(BTreeSet::len).max().unwrap_or(0),
        }
    }

    /// Of records that are with storage under a ticket: who sent them, and the nodes each had passed if it was pushed.
    pub fn admitting(&self, ticket: Ticket) -> Option<(AuthorId, Vec<Option<u32>>)> {
        let Some(Pending::Admit { from, items, .. }) = self.tickets.get(&ticket) else { return None };
        let hops = |(_, how): &(RecordId, PushedAs)| match how {
            PushedAs::Pushed { hops, .. } => Some(*hops),
            PushedAs::Fetched | PushedAs::Completed => None,
        };
        Some((*from, items.iter().map(hops).collect()))
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
            Event::Malformed { peer, error: error @ DecodeError::Protocol { .. } } => {
                self.other_version(peer, &error.to_string())
            }
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
            Event::Suggested { ticket, ids } => self.suggested(ticket, ids),
            Event::WorkingOn { texts } => self.working_on(texts),
            Event::Ask { ask, bank, query, hits, deadline } => self.start_ask(ask, bank, query, hits, deadline),
            Event::RunReaders { bank, readers } => self.run_readers(bank, readers),
            Event::RunShared { bank, head, about } => self.run_shared(bank, head, about),
            Event::RunHeld { peer, bank, run, have } => self.run_held(peer, bank, run, have, now),
            Event::StepsLoaded { ticket, pieces } => self.steps_loaded(ticket, pieces),
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

    /// Takes a place among the loads and searches under way for `peer`; says that it is busy when there is none.
    pub(crate) fn may_serve(&mut self, peer: AuthorId, bank: BankId, request: u64) -> bool {
        let Some(state) = self.peers.get_mut(&peer) else { return false };
        if state.served >= SERVED_PER_PEER {
            self.send(peer, Message::Busy { bank, request });
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
            Message::Offer { bank, session, from, ids, last } => {
                self.receive_offer(peer, bank, session, Offered { from, ids, last }, now);
            }
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
            Message::Busy { bank, request } => {
                self.steps_busy(peer, bank, request, now);
                self.receive_busy(peer, bank, request, now);
            }
            Message::Suggest { bank, request, near, from } => self.receive_suggest(peer, bank, request, near, from),
            Message::Suggested { bank, request, ids } => self.receive_suggested(peer, bank, request, ids, now),
            Message::Run { bank, head, about } => self.receive_run(peer, bank, head, about, now),
            Message::RunFetch { bank, request, run, from, offset } => {
                self.receive_run_fetch(peer, bank, request, run, from, offset);
            }
            Message::RunSteps { bank, request, run, pieces } => {
                self.receive_run_steps(peer, bank, request, run, pieces, now);
            }
        }
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
                    self.tell_runs(bank, peer);
                    self.reconcile_due(bank, peer, connection, now);
                }
            }
            Timer::Fallback { bank, peer, connection, since, served } => {
                if self.is_connection(&peer, connection) {
                    self.fallback_due(bank, peer, since, served, now);
                }
            }
            Timer::Session { bank, peer, session, step } => self.session_timed_out(bank, peer, session, step, now),
            Timer::Request { bank, request } => {
                let Some(state) = self.banks.get_mut(&bank) else { return };
                if let Some(peer) = state.wanted.end_timed_out(request) {
                    self.timed_out(peer);
                    self.pump(bank, now);
                }
            }
            Timer::Graft { bank, peer } => self.graft_due(bank, peer, now),
            Timer::Ask { number } => self.end_ask(number),
            Timer::Code { bank } => self.coding_due(bank, now),
            Timer::Steps { peer, bank, run, request } => {
                self.steps_timed_out((peer, bank, run), request, now);
            }
            Timer::StepsAgain { peer, bank, run } => self.steps_rested((peer, bank, run), now),
            Timer::Busy { bank, peer, connection } => {
                if self.is_connection(&peer, connection) {
                    self.busy_over(bank, peer, now);
                }
            }
            Timer::Retry { bank, id } => {
                if let Some(state) = self.banks.get_mut(&bank) {
                    state.wanted.retry(id);
                    self.pump(bank, now);
                }
            }
        }
    }
}
