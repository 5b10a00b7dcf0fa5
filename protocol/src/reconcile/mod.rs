//! Reconcile: two peers find which records only one of them holds.
//!
//! One side opens a session and walks the id-prefix tree of [`crate::known`] from the root: it sends its hash of a prefix
//! (a probe), the other answers "same", the few ids below it, or the hashes of the sixteen prefixes one half byte longer.
//! Where ids come back the walker sees both differences at once: what it lacks it fetches, what the other lacks it offers.
//! The answering side keeps nothing but the time the session began. Equal roots end after the first probe.
//!
//! Cost: a probe is about 20 bytes and an answer 256, and each differing record makes the walk open one path of the tree, so
//! about 16 × 16 × log16(n / 16) bytes a difference that stands alone, less where differences are dense. The walk always
//! ends, at any difference, because a prefix at full depth holds one id.
//!
//! A session ends well once everything it found is known here; then this node is complete with the peer as of the time
//! the session began, and the peer with this node once it has what it was offered.

mod cells;
mod estimate;

use std::collections::{BTreeSet, VecDeque};

use crate::{
    bank::BankId,
    config::MAX_SESSION_PROBES,
    identity::AuthorId,
    known::{Prefix, Subtree},
    message::{MAX_IDS, MAX_PROBES, Message, Probe, ProbeAnswer},
    node::{Node, Timer},
    peers::jittered,
    record::RecordId,
    time::Time,
};

/// A session this node opened.
#[derive(Debug)]
pub(crate) struct Session {
    number: u64,
    began: Time,
    /// Prefixes still to ask about.
    queue: VecDeque<Prefix>,
    asked: Vec<Prefix>,
    probes: usize,
    /// Counts batches, so that the timer of an earlier one does nothing.
    step: u64,
    /// Found missing here, not known yet.
    pending: BTreeSet<RecordId>,
    /// Found missing there, not offered yet.
    offer: Vec<RecordId>,
    walked: bool,
    /// Something it found could not be had.
    failed: bool,
}

/// A session the other side opened.
#[derive(Debug)]
pub(crate) struct Responding {
    session: u64,
    began: Time,
    pending: BTreeSet<RecordId>,
    last: bool,
    failed: bool,
}

impl Node {
    /// Opens a session, unless one is under way.
    pub(crate) fn start_session(&mut self, bank: BankId, peer: AuthorId, now: Time) {
        let number = self.next_number();
        let Some(state) = self.banks.get_mut(&bank) else { return };
        if state.sessions.contains_key(&peer) {
            return;
        }
        let session = Session {
            number,
            began: now,
            queue: VecDeque::from([Prefix::root()]),
            asked: Vec::new(),
            probes: 0,
            step: 0,
            pending: BTreeSet::new(),
            offer: Vec::new(),
            walked: false,
            failed: false,
        };
        state.sessions.insert(peer, session);
        self.probe(bank, peer, now);
    }

    /// The regular comparison with a peer, and the next one after it.
    pub(crate) fn reconcile_due(&mut self, bank: BankId, peer: AuthorId, connection: u64, now: Time) {
        self.start_session(bank, peer, now);
        let at = now + jittered(self.config.reconcile_every_ms, &mut self.rng);
        self.set_timer(at, Timer::Reconcile { bank, peer, connection });
    }

    /// Asks about the next prefixes, or ends the walk.
    fn probe(&mut self, bank: BankId, peer: AuthorId, now: Time) {
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let Some(session) = state.sessions.get_mut(&peer) else { return };
        session.asked = session.queue.drain(..session.queue.len().min(MAX_PROBES)).collect();
        session.probes += session.asked.len();
        session.step += 1;
        let (number, step) = (session.number, session.step);
        if session.asked.is_empty() {
            session.walked = true;
            let offer = std::mem::take(&mut session.offer);
            self.send_offer(bank, peer, number, offer, true);
            self.check_session(bank, peer, now);
            return;
        }
        let tree = state.known.tree();
        let probes = session.asked.iter().map(|p| Probe { prefix: p.clone(), hash: tree.hash(p) }).collect();
        self.send(peer, Message::Probe { bank, session: number, probes });
        let at = now + self.config.request_timeout_ms;
        self.set_timer(at, Timer::Session { bank, peer, session: number, step });
    }

    fn send_offer(&mut self, bank: BankId, peer: AuthorId, session: u64, ids: Vec<RecordId>, last: bool) {
        let mut chunks = ids.chunks(MAX_IDS).peekable();
        if ids.is_empty() && last {
            self.send(peer, Message::Offer { bank, session, ids: Vec::new(), last });
        }
        while let Some(chunk) = chunks.next() {
            let last = last && chunks.peek().is_none();
            self.send(peer, Message::Offer { bank, session, ids: chunk.to_vec(), last });
        }
    }

    pub(crate) fn receive_probe(&mut self, peer: AuthorId, bank: BankId, session: u64, probes: Vec<Probe>, now: Time) {
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let mut same_root = false;
        let tree = state.known.tree();
        let answers = probes
            .iter()
            .map(|probe| {
                if tree.hash(&probe.prefix) == probe.hash {
                    same_root |= probe.prefix.depth() == 0;
                    return ProbeAnswer::Same;
                }
                match tree.subtree(&probe.prefix) {
                    Subtree::Ids(ids) => ProbeAnswer::Ids(ids),
                    Subtree::Children(hashes) => ProbeAnswer::Children(hashes),
                }
            })
            .collect();
        if state.responding.get(&peer).is_none_or(|r| r.session != session) {
            let responding = Responding { session, began: now, pending: BTreeSet::new(), last: false, failed: false };
            state.responding.insert(peer, responding);
        }
        self.send(peer, Message::Probed { bank, session, answers });
        if same_root {
            self.complete(bank, peer, now, now);
        }
    }

    pub(crate) fn receive_probed(
        &mut self,
        peer: AuthorId,
        bank: BankId,
        number: u64,
        answers: Vec<ProbeAnswer>,
        now: Time,
    ) {
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let Some(session) = state.sessions.get_mut(&peer).filter(|s| s.number == number && !s.walked) else { return };
        let asked = std::mem::take(&mut session.asked);
        if asked.is_empty() {
            return; // A repeated answer.
        }
        if answers.len() != asked.len() || session.probes > MAX_SESSION_PROBES {
            state.sessions.remove(&peer);
            self.strike(peer, now);
            return;
        }
        let mut found = Vec::new();
        let mut lied = false;
        for (prefix, answer) in asked.iter().zip(answers) {
            match answer {
                ProbeAnswer::Same => {}
                ProbeAnswer::Ids(theirs) => {
                    lied |= theirs.iter().any(|id| !prefix.matches(id));
                    let ours = state.known.tree().ids(prefix);
                    let missing_there = ours.into_iter().filter(|id| theirs.binary_search(id).is_err());
                    session.offer.extend(missing_there);
                    found.extend(theirs.into_iter().filter(|id| !state.known.contains(id)));
                }
                ProbeAnswer::Children(hashes) => {
                    for (nibble, theirs) in (0u8..).zip(*hashes) {
                        let Some(child) = prefix.child(nibble) else {
                            lied = true;
                            continue;
                        };
                        if state.known.tree().hash(&child) != theirs {
                            session.queue.push_back(child);
                        }
                    }
                }
            }
        }
        if lied {
            state.sessions.remove(&peer);
            self.strike(peer, now);
            return;
        }
        session.pending.extend(found.iter().copied());
        let offer = if session.offer.len() >= MAX_IDS { std::mem::take(&mut session.offer) } else { Vec::new() };
        for id in found {
            if !state.admitting.contains(&id) && !state.wanted.want(id, peer) {
                session.failed = true;
            }
        }
        self.send_offer(bank, peer, number, offer, false);
        self.probe(bank, peer, now);
        self.pump(bank, now);
    }

    pub(crate) fn receive_offer(
        &mut self,
        peer: AuthorId,
        bank: BankId,
        session: u64,
        ids: Vec<RecordId>,
        last: bool,
        now: Time,
    ) {
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let Some(responding) = state.responding.get_mut(&peer).filter(|r| r.session == session) else { return };
        responding.last |= last;
        for id in ids {
            if state.known.contains(&id) {
                continue;
            }
            responding.pending.insert(id);
            if !state.admitting.contains(&id) && !state.wanted.want(id, peer) {
                responding.failed = true;
            }
        }
        self.check_responding(bank, peer, now);
        self.pump(bank, now);
    }

    /// A record is known now (`well`), or cannot be had from `only` (or from anyone): sessions that wait for it go on.
    pub(crate) fn resolved(&mut self, bank: BankId, id: &RecordId, only: Option<&AuthorId>, well: bool, now: Time) {
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let concerns = |peer: &AuthorId| only.is_none_or(|o| o == peer);
        let mut sessions = Vec::new();
        for (peer, session) in state.sessions.iter_mut().filter(|(p, _)| concerns(p)) {
            if session.pending.remove(id) {
                session.failed |= !well;
                sessions.push(*peer);
            }
        }
        let mut responding = Vec::new();
        for (peer, session) in state.responding.iter_mut().filter(|(p, _)| concerns(p)) {
            if session.pending.remove(id) {
                session.failed |= !well;
                responding.push(*peer);
            }
        }
        sessions.into_iter().for_each(|peer| self.check_session(bank, peer, now));
        responding.into_iter().for_each(|peer| self.check_responding(bank, peer, now));
    }

    fn check_session(&mut self, bank: BankId, peer: AuthorId, now: Time) {
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let Some(session) = state.sessions.get(&peer).filter(|s| s.walked && s.pending.is_empty()) else { return };
        let (began, failed) = (session.began, session.failed);
        state.sessions.remove(&peer);
        if !failed {
            self.complete(bank, peer, began, now);
        }
    }

    fn check_responding(&mut self, bank: BankId, peer: AuthorId, now: Time) {
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let Some(session) = state.responding.get(&peer).filter(|r| r.last && r.pending.is_empty()) else { return };
        let (began, failed) = (session.began, session.failed);
        state.responding.remove(&peer);
        if !failed {
            self.complete(bank, peer, began, now);
        }
    }

    fn complete(&mut self, bank: BankId, peer: AuthorId, as_of: Time, now: Time) {
        let Some(state) = self.peers.get_mut(&peer) else { return };
        let latest = state.complete_as_of.entry(bank).or_insert(as_of);
        *latest = as_of.max(*latest);
        state.last_sync = Some(now);
    }

    /// No answer: the session is given up. What it found stays wanted; the next one goes on from there.
    pub(crate) fn session_timed_out(&mut self, bank: BankId, peer: AuthorId, number: u64, step: u64) {
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let waits = |s: &&Session| s.number == number && s.step == step && !s.asked.is_empty();
        if state.sessions.get(&peer).filter(waits).is_some() {
            state.sessions.remove(&peer);
            self.timed_out(peer);
        }
    }
}
