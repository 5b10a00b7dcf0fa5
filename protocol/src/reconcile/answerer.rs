//! The side that answers a session: it takes the difference apart and says what both lack.

use super::{
    MAX_LARGE, MAX_SESSION_CELLS, SALTED_EVERY_MS,
    cells::{Cell, Cells, Salt, cells_for},
    coding::{Coding, Goal},
    session::{Responding, Sketched},
    sketch::{MAX_KEPT, salted, weight},
};
use crate::{
    bank::BankId,
    config::Config,
    identity::AuthorId,
    known::{Known, Root, ShortId},
    message::{MAX_IDS, MAX_SHORT_IDS, Message, SketchAnswer, SketchHead},
    node::{BankState, Node},
    record::RecordId,
    time::Time,
};

/// One message of cells.
#[derive(Debug)]
pub(crate) struct CellBatch {
    pub(crate) head: Option<SketchHead>,
    pub(crate) from: usize,
    pub(crate) cells: Vec<Cell>,
    pub(crate) last: bool,
}

/// A difference that was taken apart.
#[derive(Debug, PartialEq, Eq)]
struct Difference {
    /// Only the answerer has these.
    ours: Vec<RecordId>,
    /// Short ids of what only the opener has.
    theirs: Vec<u64>,
    /// What the weights of the latter add up to, if nothing is hidden.
    expected: u128,
}

/// What came of an attempt.
#[derive(Debug, PartialEq, Eq)]
enum Attempt {
    Found(Difference),
    /// There are too few cells, or they do not come apart. `some`: so many ids did as make up half of the cells, so it cannot be
    /// far.
    Unclear {
        some: bool,
    },
    /// They came apart, into what cannot be.
    Impossible,
}

/// Takes apart what came, as seen from `known`, which has as many cells. The first three checks of "never wrong" are here.
fn attempt(known: &mut Known, sketched: &Sketched, salt: Option<&Salt>) -> Attempt {
    let len = sketched.theirs.len();
    let difference = match salt {
        None => sketched.theirs.minus(known.sketch().cells()),
        Some(salt) => sketched.theirs.minus(&salted(salt, &mut |each| known.for_each(each), len)),
    };
    let found = match difference.peel() {
        Ok(found) => found,
        Err(some) => return Attempt::Unclear { some: some >= len / 2 },
    };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    match salt {
        None => {
            for short in found {
                match known.with_short(ShortId::from_value(short)).as_slice() {
                    [] => theirs.push(short),
                    [id] => ours.push(*id),
                    _ => return Attempt::Impossible,
                }
            }
        }
        Some(salt) => {
            let mut by_short = std::collections::BTreeMap::new();
            known.for_each(|id| {
                let short = salt.short(id);
                if found.binary_search(&short).is_ok() {
                    by_short.insert(short, *id);
                    ours.push(*id);
                }
            });
            if by_short.len() < ours.len() {
                return Attempt::Impossible;
            }
            theirs.extend(found.into_iter().filter(|short| !by_short.contains_key(short)));
        }
    }
    let numbers_fit = sketched.head.records.checked_add(ours.len() as u64)
        == (known.known_len() as u64).checked_add(theirs.len() as u64);
    let ours_weigh = ours.iter().fold(0, |sum: u128, id| sum.wrapping_add(weight(id)));
    let expected = u128::from_le_bytes(sketched.head.sum).wrapping_sub(known.sketch().sum()).wrapping_add(ours_weigh);
    // That nothing differs cannot be either: the roots do.
    let nothing = ours.is_empty() && theirs.is_empty();
    if nothing || !numbers_fit || (theirs.is_empty() && expected != 0) {
        return Attempt::Impossible;
    }
    Attempt::Found(Difference { ours, theirs, expected })
}

impl Responding {
    /// Whether it holds more cells than a bank keeps.
    pub(super) fn is_large(&self) -> bool {
        self.sketched.as_ref().is_some_and(|s| s.theirs.len() > MAX_KEPT)
    }
}

impl BankState {
    /// Drops the cells of sessions of which nothing was heard for as long as an answer may take.
    fn drop_stale_sketches(&mut self, now: Time, config: &Config) {
        for responding in self.responding.values_mut() {
            responding.sketched.take_if(|s| now >= s.touched + config.request_timeout_ms);
        }
    }
}

impl Node {
    pub(super) fn answer(&mut self, bank: BankId, peer: AuthorId, session: u64, answer: SketchAnswer) {
        self.send(peer, Message::Sketched { bank, session, answer });
    }

    /// What is kept of a session of the peer's, made if this is news of it.
    fn responding(&mut self, bank: BankId, peer: AuthorId, session: u64, now: Time) -> Option<&mut Responding> {
        let nonce = rand_core::Rng::next_u64(&mut self.rng);
        let state = self.banks.get_mut(&bank)?;
        let responding = state.responding.entry(peer).or_insert_with(|| Responding::new(session, now, nonce));
        if responding.session != session {
            *responding = Responding::new(session, now, nonce);
        }
        Some(responding)
    }

    pub(crate) fn receive_compare(&mut self, peer: AuthorId, bank: BankId, session: u64, root: Root, now: Time) {
        let Some(state) = self.banks.get_mut(&bank) else { return };
        if state.known.known_root() == root {
            self.answer(bank, peer, session, SketchAnswer::Same);
            self.complete(bank, peer, now, now);
            return;
        }
        let records = state.known.known_len() as u64;
        let Some(responding) = self.responding(bank, peer, session, now) else { return };
        let nonce = responding.nonce;
        self.answer(bank, peer, session, SketchAnswer::More { have: 0, records, nonce, estimate: None });
    }

    pub(crate) fn receive_sketch(&mut self, peer: AuthorId, bank: BankId, session: u64, batch: CellBatch, now: Time) {
        let CellBatch { head, from, cells, last } = batch;
        if let Some(head) = head
            && !self.begin_sketch(peer, bank, session, head, now)
        {
            return;
        }
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let known = state.known.known_len();
        state.drop_stale_sketches(now, &self.config);
        let large = state.responding.iter().filter(|(other, r)| **other != peer && r.is_large()).count();
        let Some(responding) = state.responding.get_mut(&peer).filter(|r| r.session == session) else { return };
        let Some(sketched) = &mut responding.sketched else { return };
        sketched.touched = now;
        if from == sketched.theirs.len() {
            sketched.theirs.extend(&cells);
        } else if !last {
            return; // Something between was lost; the last of the batch will be told so.
        }
        let have = sketched.theirs.len();
        let both = usize::try_from(sketched.head.records).unwrap_or(usize::MAX).saturating_add(known);
        let bound = cells_for(both.min(MAX_SESSION_CELLS)).saturating_mul(2).min(MAX_SESSION_CELLS);
        if have > bound.max(super::MIN_CELLS * 8) || (have > MAX_KEPT && large >= MAX_LARGE) {
            self.answer_walk(bank, peer);
        } else if last {
            self.try_sketch(bank, peer, now);
        }
    }

    /// A set from its beginning. False if there is nothing to be done with its cells.
    fn begin_sketch(&mut self, peer: AuthorId, bank: BankId, session: u64, head: SketchHead, now: Time) -> bool {
        let Some(state) = self.banks.get_mut(&bank) else { return false };
        if state.known.known_root() == head.root {
            state.responding.remove(&peer);
            self.answer(bank, peer, session, SketchAnswer::Same);
            self.complete(bank, peer, now, now);
            return false;
        }
        let salted = head.nonce.is_some();
        let Some(responding) = self.responding(bank, peer, session, now) else { return false };
        responding.began = now;
        responding.last = false;
        (responding.offered, responding.offer_lost) = (0, false);
        responding.expected = None;
        responding.salted = salted;
        let sketched = Sketched { head, theirs: Cells::default(), tried: 0, touched: now };
        responding.sketched = Some(sketched);
        true
    }

    pub(super) fn try_sketch(&mut self, bank: BankId, peer: AuthorId, now: Time) {
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let Some(responding) = state.responding.get_mut(&peer) else { return };
        let Some(sketched) = &mut responding.sketched else { return };
        let have = sketched.theirs.len();
        // Each attempt costs in proportion to what there is, so there must be a good part more than at the last.
        let worth = have > sketched.tried + sketched.tried / 32;
        let salt = sketched.head.nonce.map(|theirs| Salt::new(theirs, responding.nonce));
        if worth && salt.is_some() {
            if state.salted_at.is_some_and(|at| now < at + SALTED_EVERY_MS) && sketched.tried == 0 {
                self.answer_walk(bank, peer);
                return;
            }
            state.salted_at = Some(now);
        }
        if worth && salt.is_none() {
            let coding = Coding { peer, session: responding.session, cells: have, goal: Goal::Try };
            if !self.has_cells(bank, coding, now) {
                return;
            }
        }
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let Some(responding) = state.responding.get_mut(&peer) else { return };
        let Some(sketched) = &mut responding.sketched else { return };
        let outcome =
            if worth { attempt(&mut state.known, sketched, salt.as_ref()) } else { Attempt::Unclear { some: false } };
        sketched.tried = sketched.tried.max(have);
        match outcome {
            Attempt::Found(difference) => {
                responding.sketched = None;
                responding.expected = Some(difference.expected);
                self.tell(bank, peer, difference, salt.is_some(), now);
            }
            Attempt::Impossible => self.stalled(bank, peer, now),
            Attempt::Unclear { some } => {
                let (session, nonce) = (responding.session, responding.nonce);
                let tells = worth && !some && !std::mem::replace(&mut responding.estimated, true);
                let estimate = tells.then(|| state.known.sketch().estimate().to_bytes());
                let (have, records) = (have as u32, state.known.known_len() as u64);
                self.answer(bank, peer, session, SketchAnswer::More { have, records, nonce, estimate });
            }
        }
    }

    /// Tells the opener what it lacks, and sees to what is lacking here.
    fn tell(&mut self, bank: BankId, peer: AuthorId, difference: Difference, salted: bool, now: Time) {
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let Some(responding) = state.responding.get_mut(&peer) else { return };
        let session = responding.session;
        let theirs: Vec<ShortId> = difference.theirs.into_iter().map(ShortId::from_value).collect();
        let mut ours = difference.ours.as_slice();
        if salted {
            let mut wants = theirs.as_slice();
            loop {
                let lacks = ours.split_off(..ours.len().min(MAX_IDS)).unwrap_or_default().to_vec();
                let wanted = wants.split_off(..wants.len().min(MAX_SHORT_IDS)).unwrap_or_default().to_vec();
                let left = (ours.len() + wants.len()) as u32;
                self.answer(bank, peer, session, SketchAnswer::FoundSalted { lacks, wants: wanted, left });
                if left == 0 {
                    return; // The opener offers whole ids for what is wanted.
                }
            }
        }
        responding.last = true;
        for short in theirs {
            responding.pending.shorts.insert(short);
            let coming = state.admitting.range(short.range()).next().is_some();
            responding.failed |= !(coming || state.wanted.want(short, peer));
        }
        loop {
            let lacks = ours.split_off(..ours.len().min(MAX_SHORT_IDS)).unwrap_or_default();
            let (lacks, left) = (lacks.iter().map(ShortId::of).collect(), ours.len() as u32);
            self.answer(bank, peer, session, SketchAnswer::Found { lacks, left });
            if left == 0 {
                break;
            }
        }
        self.check_responding(bank, peer, now);
        self.pump(bank, now);
    }

    /// What was found cannot be, or not be all: on to the next rung.
    pub(super) fn stalled(&mut self, bank: BankId, peer: AuthorId, now: Time) {
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let may_salt = state.salted_at.is_none_or(|at| now >= at + SALTED_EVERY_MS);
        let Some(responding) = state.responding.get_mut(&peer) else { return };
        if responding.salted || !may_salt {
            self.answer_walk(bank, peer);
            return;
        }
        responding.last = false;
        responding.expected = None;
        responding.sketched = None;
        let (session, nonce) = (responding.session, responding.nonce);
        self.answer(bank, peer, session, SketchAnswer::Salt { nonce });
    }

    fn answer_walk(&mut self, bank: BankId, peer: AuthorId) {
        let Some(responding) = self.banks.get_mut(&bank).and_then(|b| b.responding.get_mut(&peer)) else { return };
        responding.last = false;
        responding.expected = None;
        responding.sketched = None;
        let session = responding.session;
        self.answer(bank, peer, session, SketchAnswer::Walk);
    }
}
