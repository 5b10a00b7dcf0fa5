//! What both ends of a session keep, and how it ends.

use std::collections::BTreeSet;

use super::{cells::Cells, opener::Sketching, walk::Walk};
use crate::{
    bank::BankId,
    identity::AuthorId,
    known::ShortId,
    message::SketchHead,
    node::{BankState, Node, Timer},
    peers::jittered,
    record::RecordId,
    time::Time,
};

/// A session this node opened.
#[derive(Debug)]
pub(crate) struct Session {
    pub(super) number: u64,
    pub(super) began: Time,
    pub(super) stage: Stage,
    /// Found missing here, not known yet.
    pub(super) pending: Pending,
    /// Something it found could not be had.
    pub(super) failed: bool,
    /// About how many ids differ.
    pub(super) differ: usize,
    /// Cells sent so far; what was taken apart with them has no more ids than this.
    pub(super) enough: usize,
    /// It has started over under a salt.
    pub(super) salted: bool,
    /// Records sent to the peer when it was last looked whether the session goes on.
    pub(super) served: u64,
    /// Counts what was sent, so that the timer of an earlier message does nothing.
    pub(super) step: u64,
    /// An answer is owed.
    pub(super) waiting: bool,
}

#[derive(Debug)]
pub(super) enum Stage {
    /// The root is sent.
    Compared,
    Sketching(Box<Sketching>),
    Walking(Walk),
    /// Both sides know what they lack. `confirmed`: nothing more is to be heard of the other side.
    Found {
        confirmed: bool,
    },
}

/// A session the other side opened.
#[derive(Debug)]
pub(crate) struct Responding {
    pub(super) session: u64,
    pub(super) began: Time,
    pub(super) pending: Pending,
    /// All that this side lacks is known.
    pub(super) last: bool,
    pub(super) failed: bool,
    /// Under way: the cells that came.
    pub(super) sketched: Option<Sketched>,
    /// This side's nonce, and the other's once it started over under the salt of both.
    pub(super) nonce: u64,
    pub(super) salted: bool,
    /// The weights of what is still to come add up to this, if the sketch told all.
    pub(super) expected: Option<u128>,
    /// The estimate was given.
    pub(super) estimated: bool,
    /// Ids that came in offers, those of lost ones included; and whether one was lost.
    pub(super) offered: u32,
    pub(super) offer_lost: bool,
}

#[derive(Debug)]
pub(super) struct Sketched {
    pub(super) head: SketchHead,
    pub(super) theirs: Cells,
    /// How many of them were tried.
    pub(super) tried: usize,
    pub(super) touched: Time,
}

impl Responding {
    pub(super) fn new(session: u64, began: Time, nonce: u64) -> Self {
        Self {
            session,
            began,
            pending: Pending::default(),
            last: false,
            failed: false,
            sketched: None,
            nonce,
            salted: false,
            expected: None,
            estimated: false,
            offered: 0,
            offer_lost: false,
        }
    }
}

/// Records that a session waits for: by their short ids, or whole ids where those are known.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pub(super) shorts: BTreeSet<ShortId>,
    pub(super) ids: BTreeSet<RecordId>,
}

/// A record by its id, or all that have a short id.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Which<'a> {
    Id(&'a RecordId),
    Short(ShortId),
}

/// What became of one that may have been waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    No,
    Yes,
    /// It was waited for by its short id, and is now known whole.
    Learned,
}

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.shorts.is_empty() && self.ids.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.shorts.len() + self.ids.len()
    }

    fn take(&mut self, which: Which<'_>) -> Taken {
        match which {
            Which::Id(id) => {
                let whole = self.ids.remove(id);
                match self.shorts.remove(&ShortId::of(id)) {
                    true => Taken::Learned,
                    false if whole => Taken::Yes,
                    false => Taken::No,
                }
            }
            Which::Short(short) => {
                let whole: Vec<RecordId> = self.ids.range(short.range()).copied().collect();
                whole.iter().for_each(|id| {
                    self.ids.remove(id);
                });
                if self.shorts.remove(&short) || !whole.is_empty() { Taken::Yes } else { Taken::No }
            }
        }
    }

    /// Drops what is neither wanted nor with storage, so that nothing is waited for in vain. True if there was any.
    fn sweep(&mut self, state: &BankState) -> bool {
        let before = self.len();
        self.shorts.retain(|short| state.wanted.wants(*short) || state.admitting.range(short.range()).next().is_some());
        self.ids.retain(|id| state.wanted.wants(id) || state.admitting.contains(id));
        self.len() < before
    }
}

impl Node {
    /// The regular comparison with a peer, and the next one after it.
    pub(crate) fn reconcile_due(&mut self, bank: BankId, peer: AuthorId, connection: u64, now: Time) {
        if let Some(state) = self.banks.get_mut(&bank) {
            let sketching = state.sessions.values().any(|s| matches!(s.stage, Stage::Sketching(_)));
            if !sketching && !state.responding.values().any(Responding::is_large) {
                state.known.trim_sketch();
            }
        }
        let came = self.peers.get(&peer).map_or(0, |p| p.records_in);
        let state = self.banks.get_mut(&bank);
        let before =
            state.and_then(|state| state.resuming.get_mut(&peer)).map(|before| std::mem::replace(before, came));
        // What was found on an earlier connection is fetched first, as long as that goes on.
        if before.is_none_or(|before| before == came) {
            self.stop_resuming(bank, &peer);
            self.start_session(bank, peer, now);
        }
        self.want_bodies(bank, peer);
        self.pump(bank, now);
        let at = now + jittered(self.config.reconcile_every_ms, &mut self.rng);
        self.set_timer(at, Timer::Reconcile { bank, peer, connection });
    }

    /// Fetches what an earlier session with a peer found, and compares when it is here.
    pub(crate) fn resume(&mut self, bank: BankId, peer: AuthorId, now: Time) {
        let came = self.peers.get(&peer).map_or(0, |p| p.records_in);
        if let Some(state) = self.banks.get_mut(&bank) {
            state.resuming.insert(peer, came);
        }
        self.pump(bank, now);
    }

    fn stop_resuming(&mut self, bank: BankId, peer: &AuthorId) {
        if let Some(state) = self.banks.get_mut(&bank) {
            state.resuming.remove(peer);
        }
    }

    /// Compares with peers of which all is here that was found before.
    pub(crate) fn check_resumed(&mut self, bank: BankId, now: Time) {
        let Some(state) = self.banks.get(&bank).filter(|state| state.admitting.is_empty()) else { return };
        let drained: Vec<AuthorId> =
            state.resuming.keys().filter(|peer| state.wanted.is_drained(peer)).copied().collect();
        for peer in drained {
            self.stop_resuming(bank, &peer);
            let tag = crate::message::BankTag::new(&bank, &peer, &self.me);
            let Some(other) = self.peers.get(&peer).filter(|p| p.greeted) else { continue };
            let connection = other.connection;
            if other.greeted_with(&tag).is_some_and(|greeted| greeted.resumes) {
                self.fall_back(bank, peer, connection, now);
            } else {
                self.start_session(bank, peer, now);
            }
        }
    }

    /// Leaves it to the peer to open a session, for a while.
    pub(crate) fn fall_back(&mut self, bank: BankId, peer: AuthorId, connection: u64, now: Time) {
        let served = self.peers.get(&peer).map_or(0, |p| p.records_out);
        let at = now + self.config.reconcile_fallback_ms;
        self.set_timer(at, Timer::Fallback { bank, peer, connection, since: now, served });
    }

    /// The peer has had its while. If it spent it fetching what it knew of it has another.
    pub(crate) fn fallback_due(&mut self, bank: BankId, peer: AuthorId, since: Time, served: u64, now: Time) {
        let opened = self.banks.get(&bank).is_some_and(|b| b.responding.contains_key(&peer));
        let Some(state) = self.peers.get(&peer) else { return };
        if opened || state.complete_as_of.get(&bank).is_some_and(|at| *at >= since) {
            return;
        }
        if state.records_out != served {
            self.fall_back(bank, peer, state.connection, now);
        } else {
            // With little: it may well be that nothing passes at all.
            self.start_session(bank, peer, now);
        }
    }

    /// Makes room for a session with a peer; false if one is under way that is not to be disturbed.
    pub(super) fn may_open(&mut self, bank: BankId, peer: AuthorId) -> bool {
        let Some(state) = self.banks.get_mut(&bank) else { return false };
        if state.resuming.contains_key(&peer) {
            return false;
        }
        let Some(mut session) = state.sessions.remove(&peer) else { return true };
        session.failed |= session.pending.sweep(state);
        let served = self.peers.get(&peer).map_or(0, |p| p.records_out);
        let fetching = std::mem::replace(&mut session.served, served) != served;
        if matches!(session.stage, Stage::Found { .. }) && session.pending.is_empty() && !fetching {
            return true; // All it still waited for was a word of the other side, which a new comparison replaces.
        }
        state.sessions.insert(peer, session);
        false
    }

    /// An answer is due; without one the session ends.
    pub(super) fn await_answer(&mut self, bank: BankId, peer: AuthorId, now: Time) {
        let Some(session) = self.banks.get_mut(&bank).and_then(|b| b.sessions.get_mut(&peer)) else { return };
        session.step += 1;
        session.waiting = true;
        let timer = Timer::Session { bank, peer, session: session.number, step: session.step };
        self.set_timer(now + self.config.request_timeout_ms, timer);
    }

    /// All is found, and the other side is to say when it has what it lacked. If it falls silent, what this side last said
    /// may be lost: they compare anew.
    pub(super) fn await_end(&mut self, bank: BankId, peer: AuthorId, now: Time) {
        self.await_answer(bank, peer, now);
        self.check_session(bank, peer, now);
    }

    /// No answer: the session is given up. What it found stays wanted; the next one goes on from there.
    pub(crate) fn session_timed_out(&mut self, bank: BankId, peer: AuthorId, number: u64, step: u64, now: Time) {
        let served = self.peers.get(&peer).map_or(0, |p| p.records_out);
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let waits = |s: &&mut Session| s.number == number && s.step == step && s.waiting;
        let Some(session) = state.sessions.get_mut(&peer).filter(waits) else { return };
        match session.stage {
            // It fetches; nothing is wrong.
            Stage::Found { .. } if std::mem::replace(&mut session.served, served) != served => {
                self.await_answer(bank, peer, now);
            }
            // This side still fetches: what is to be said of the other comes with the next comparison.
            Stage::Found { .. } if !session.pending.is_empty() => session.waiting = false,
            Stage::Found { .. } => self.start_session(bank, peer, now),
            _ => {
                state.sessions.remove(&peer);
                self.timed_out(peer);
            }
        }
    }

    /// The peer broke the rules of the session.
    pub(super) fn session_broken(&mut self, bank: BankId, peer: AuthorId, now: Time) {
        if let Some(state) = self.banks.get_mut(&bank) {
            state.sessions.remove(&peer);
        }
        self.strike(peer, now);
    }

    /// A record is known now (`well`), or cannot be had from `only` (or from anyone): sessions that wait for it go on.
    pub(crate) fn resolved(&mut self, bank: BankId, which: Which<'_>, only: Option<&AuthorId>, well: bool, now: Time) {
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let concerns = |peer: &AuthorId| only.is_none_or(|o| o == peer);
        let mut sessions = Vec::new();
        for (peer, session) in state.sessions.iter_mut().filter(|(p, _)| concerns(p)) {
            if session.pending.take(which) != Taken::No {
                session.failed |= !well;
                sessions.push(*peer);
            }
        }
        let mut responding = Vec::new();
        for (peer, session) in state.responding.iter_mut().filter(|(p, _)| concerns(p)) {
            let taken = session.pending.take(which);
            if taken != Taken::No {
                session.failed |= !well;
                responding.push(*peer);
            }
            if let (Taken::Learned, Some(expected), Which::Id(id)) = (taken, &mut session.expected, which) {
                *expected = expected.wrapping_sub(super::sketch::weight(id));
            }
        }
        sessions.into_iter().for_each(|peer| self.check_session(bank, peer, now));
        responding.into_iter().for_each(|peer| self.check_responding(bank, peer, now));
    }

    pub(super) fn check_session(&mut self, bank: BankId, peer: AuthorId, now: Time) {
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let ended = |s: &&Session| matches!(s.stage, Stage::Found { confirmed: true }) && s.pending.is_empty();
        let Some(session) = state.sessions.get(&peer).filter(ended) else { return };
        let (began, failed) = (session.began, session.failed);
        state.sessions.remove(&peer);
        if !failed {
            self.complete(bank, peer, began, now);
        }
    }

    pub(super) fn check_responding(&mut self, bank: BankId, peer: AuthorId, now: Time) {
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let Some(session) = state.responding.get(&peer).filter(|r| r.last && r.pending.is_empty()) else { return };
        let (number, began, failed, expected) = (session.session, session.began, session.failed, session.expected);
        if !failed && expected.is_some_and(|left| left != 0) {
            self.stalled(bank, peer, now);
            return;
        }
        state.responding.remove(&peer);
        if failed {
            return;
        }
        self.answer(bank, peer, number, crate::message::SketchAnswer::Done);
        self.complete(bank, peer, began, now);
    }

    pub(super) fn complete(&mut self, bank: BankId, peer: AuthorId, as_of: Time, now: Time) {
        let Some(state) = self.peers.get_mut(&peer) else { return };
        let latest = state.complete_as_of.entry(bank).or_insert(as_of);
        *latest = as_of.max(*latest);
        state.last_sync = Some(now);
    }
}
