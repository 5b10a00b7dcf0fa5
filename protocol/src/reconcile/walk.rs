//! The last rung: descending the id-prefix tree of [`crate::known`], which always finishes.
//!
//! The opener sends its hash of a prefix (a probe), the other answers "same", the few ids below it, or the hashes of the
//! sixteen prefixes one half byte longer. Where ids come back the opener sees both differences at once: what it lacks it
//! fetches, what the other lacks it offers. The answering side keeps nothing but the time the session began.
//!
//! A probe is about 20 bytes and an answer 256, and each differing record makes the walk open one path of the tree, so about
//! 16 × 16 × log16(n / 16) bytes a difference that stands alone, less where differences are dense.

use std::collections::VecDeque;

use super::{
    session::{Responding, Stage},
    sketch::weight,
};
use crate::{
    bank::BankId,
    config::MAX_SESSION_PROBES,
    identity::AuthorId,
    known::{Prefix, Subtree},
    message::{MAX_IDS, MAX_PROBES, Message, Probe, ProbeAnswer},
    node::Node,
    record::RecordId,
    time::Time,
};

/// An opener's part of a walk.
#[derive(Debug)]
pub(super) struct Walk {
    /// Prefixes still to ask about.
    queue: VecDeque<Prefix>,
    asked: Vec<Prefix>,
    probes: usize,
    /// Found missing there, not offered yet.
    offer: Vec<RecordId>,
    /// How many were offered.
    offered: usize,
}

/// One message of ids that the opener found this side to lack.
#[derive(Debug)]
pub(crate) struct Offered {
    pub(crate) from: u32,
    pub(crate) ids: Vec<RecordId>,
    pub(crate) last: bool,
}

impl Node {
    /// Begins to walk.
    pub(super) fn walk(&mut self, bank: BankId, peer: AuthorId, now: Time) {
        let Some(session) = self.banks.get_mut(&bank).and_then(|b| b.sessions.get_mut(&peer)) else { return };
        let queue = VecDeque::from([Prefix::root()]);
        session.stage = Stage::Walking(Walk { queue, asked: Vec::new(), probes: 0, offer: Vec::new(), offered: 0 });
        self.probe(bank, peer, now);
    }

    /// Asks about the next prefixes, or ends the walk.
    fn probe(&mut self, bank: BankId, peer: AuthorId, now: Time) {
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let Some(session) = state.sessions.get_mut(&peer) else { return };
        let Stage::Walking(walk) = &mut session.stage else { return };
        let number = session.number;
        walk.asked = walk.queue.drain(..walk.queue.len().min(MAX_PROBES)).collect();
        walk.probes += walk.asked.len();
        if walk.asked.is_empty() {
            let (offer, from) = (std::mem::take(&mut walk.offer), walk.offered);
            let nothing = offer.is_empty() && from == 0;
            session.stage = Stage::Found { confirmed: nothing };
            self.send_offer(bank, peer, number, from, offer, true);
            self.await_end(bank, peer, now);
            return;
        }
        let tree = state.known.tree();
        let probes = walk.asked.iter().map(|p| Probe { prefix: p.clone(), hash: tree.hash(p) }).collect();
        self.send(peer, Message::Probe { bank, session: number, probes });
        self.await_answer(bank, peer, now);
    }

    pub(super) fn send_offer(
        &mut self,
        bank: BankId,
        peer: AuthorId,
        session: u64,
        mut from: usize,
        ids: Vec<RecordId>,
        last: bool,
    ) {
        let mut chunks = ids.chunks(MAX_IDS).peekable();
        if ids.is_empty() && last {
            self.send(peer, Message::Offer { bank, session, from: from as u32, ids: Vec::new(), last });
        }
        while let Some(chunk) = chunks.next() {
            let last = last && chunks.peek().is_none();
            self.send(peer, Message::Offer { bank, session, from: from as u32, ids: chunk.to_vec(), last });
            from += chunk.len();
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
            // A nonce is for sketches; should one follow, its head makes another.
            state.responding.insert(peer, Responding::new(session, now, 0));
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
        let Some(session) = state.sessions.get_mut(&peer).filter(|s| s.number == number) else { return };
        let Stage::Walking(walk) = &mut session.stage else { return };
        let asked = std::mem::take(&mut walk.asked);
        if asked.is_empty() {
            return; // A repeated answer.
        }
        if answers.len() != asked.len() || walk.probes > MAX_SESSION_PROBES {
            self.session_broken(bank, peer, now);
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
                    walk.offer.extend(missing_there);
                    found.extend(theirs.into_iter().filter(|id| !state.known.contains(id)));
                }
                ProbeAnswer::Children(hashes) => {
                    for (nibble, theirs) in (0u8..).zip(*hashes) {
                        let Some(child) = prefix.child(nibble) else {
                            lied = true;
                            continue;
                        };
                        if state.known.tree().hash(&child) != theirs {
                            walk.queue.push_back(child);
                        }
                    }
                }
            }
        }
        if lied {
            self.session_broken(bank, peer, now);
            return;
        }
        session.pending.ids.extend(found.iter().copied());
        let offer = if walk.offer.len() >= MAX_IDS { std::mem::take(&mut walk.offer) } else { Vec::new() };
        let from = walk.offered;
        walk.offered += offer.len();
        for id in found {
            if !state.admitting.contains(&id) && !state.wanted.want(id, peer) {
                session.failed = true;
            }
        }
        self.send_offer(bank, peer, number, from, offer, false);
        self.probe(bank, peer, now);
        self.pump(bank, now);
    }

    pub(crate) fn receive_offer(&mut self, peer: AuthorId, bank: BankId, session: u64, offered: Offered, now: Time) {
        let Offered { from, ids, last } = offered;
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let Some(responding) = state.responding.get_mut(&peer).filter(|r| r.session == session) else { return };
        responding.last |= last;
        // What a lost message held is not known here, so this side is not complete; it compares by itself at once.
        responding.offer_lost |= responding.offered != from;
        responding.failed |= responding.offer_lost;
        responding.offered = from.saturating_add(ids.len() as u32);
        let redo = last && responding.offer_lost;
        for id in ids {
            if let Some(expected) = &mut responding.expected {
                *expected = expected.wrapping_sub(weight(&id));
            }
            if state.known.contains(&id) {
                continue;
            }
            responding.pending.ids.insert(id);
            if !state.admitting.contains(&id) && !state.wanted.want(id, peer) {
                responding.failed = true;
            }
        }
        self.check_responding(bank, peer, now);
        if redo {
            self.start_session(bank, peer, now);
        }
        self.pump(bank, now);
    }
}
