//! The side that opens a session: it sends cells until the other side has taken the difference apart.

use std::collections::BTreeSet;

use super::{
    MAX_BATCHES, MAX_SESSION_CELLS, MIN_CELLS, SALTED_EVERY_MS, SPARE_CELLS,
    cells::{Cells, Salt, cells_for},
    coding::{Coding, Goal},
    estimate::Estimate,
    session::{Session, Stage},
    sketch::{self, MAX_KEPT},
};
use crate::{
    bank::BankId,
    identity::AuthorId,
    known::{Known, ShortId},
    message::{MAX_CELLS, Message, SketchAnswer, SketchHead},
    node::Node,
    record::RecordId,
    time::Time,
};

/// An opener's part while it sends cells.
#[derive(Debug)]
pub(super) struct Sketching {
    head: SketchHead,
    /// Of the set as it was at `version`.
    cells: Cells,
    version: u64,
    salt: Option<Salt>,
    sent: usize,
    batches: u32,
    /// How many found ids are still announced to come, once some came.
    left: Option<usize>,
    /// Salted short ids of what the other side lacks.
    wants: Vec<u64>,
}

/// How many cells to begin with where the numbers of records differ by `d`. Where that is many, as many as do in three of
/// four cases: being short costs a round trip, and being generous costs bytes every time. Never more than are at hand
/// and fit one message: nothing is known yet of the link, nor whether the number was true.
fn first_cells(d: usize) -> usize {
    let lean = d + d * 36 / 100 + d.isqrt() * 6 / 5 + 4;
    let cells = if d < 300 { cells_for(d).max(MIN_CELLS) } else { lean };
    cells.min(MAX_KEPT)
}

/// An estimate up to this is believed, however near the numbers of records are to it: up to 2,000 ids are to be found in two
/// round trips.
const BELIEVED: usize = 3_000;

/// How many cells to make where `to` are to be sent: more are wanted now and then.
fn cells_to_make(to: usize) -> usize {
    (to + to / 4).min(MAX_SESSION_CELLS)
}

impl Sketching {
    /// Cells `from..to` and more to spare of the set as it is now, from a new beginning if the set has changed. Gives where
    /// to begin. The bank must have made them, but for salted ones.
    fn prepare(&mut self, known: &mut Known, from: usize, to: usize) -> usize {
        if to <= self.cells.len() {
            return from;
        }
        let len = cells_to_make(to);
        let from = if self.version == known.sketch().version() { from } else { 0 };
        self.cells = match &self.salt {
            None => known.sketch().cells().first(len),
            Some(salt) => sketch::salted(salt, &mut |each| known.for_each(each), len),
        };
        self.version = known.sketch().version();
        self.head = head(known, self.head.nonce);
        from
    }
}

fn head(known: &mut Known, nonce: Option<u64>) -> SketchHead {
    let sum = known.sketch().sum().to_le_bytes();
    SketchHead { root: known.known_root(), records: known.known_len() as u64, sum, nonce }
}

impl Node {
    /// Opens a session with a peer that is likely to know the same: first the roots alone.
    pub(crate) fn start_session(&mut self, bank: BankId, peer: AuthorId, now: Time) {
        if !self.may_open(bank, peer) {
            return;
        }
        self.insert_session(bank, peer, now);
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let Some(session) = state.sessions.get(&peer) else { return };
        let message = Message::Compare { bank, session: session.number, root: state.known.known_root() };
        self.send(peer, message);
        self.await_answer(bank, peer, now);
    }

    /// Opens a session with a peer whose greeting showed another root.
    pub(crate) fn start_differing(&mut self, bank: BankId, peer: AuthorId, now: Time) {
        if !self.may_open(bank, peer) {
            return;
        }
        let tag = crate::message::BankTag::new(&bank, &peer, &self.me);
        let greeted = self.peers.get(&peer).and_then(|p| p.greeted_with(&tag));
        let records = greeted.map_or(0, |greeted| greeted.records);
        self.insert_session(bank, peer, now);
        self.sketch(bank, peer, records, now);
    }

    fn insert_session(&mut self, bank: BankId, peer: AuthorId, now: Time) {
        let number = self.next_number();
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let session = Session {
            number,
            began: now,
            stage: Stage::Compared,
            pending: Default::default(),
            failed: false,
            differ: 0,
            enough: 0,
            salted: false,
            served: self.peers.get(&peer).map_or(0, |p| p.records_out),
            step: 0,
            waiting: false,
        };
        state.sessions.insert(peer, session);
    }

    /// Begins to send cells to a peer that knows `records` ids.
    fn sketch(&mut self, bank: BankId, peer: AuthorId, records: u64, now: Time) {
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let Some(session) = state.sessions.get_mut(&peer) else { return };
        let differ = usize::try_from(records).unwrap_or(usize::MAX).abs_diff(state.known.known_len());
        if differ >= MAX_SESSION_CELLS {
            self.walk(bank, peer, now);
            return;
        }
        session.differ = differ;
        session.stage = Stage::Sketching(Box::new(Sketching {
            head: head(&mut state.known, None),
            cells: state.known.sketch().cells().clone(),
            version: state.known.sketch().version(),
            salt: None,
            sent: 0,
            batches: 0,
            left: None,
            wants: Vec::new(),
        }));
        self.send_cells(bank, peer, 0, first_cells(differ), now);
    }

    /// Begins again, under a salt from this node's nonce and one of the peer's.
    fn sketch_salted(&mut self, bank: BankId, peer: AuthorId, theirs: u64, now: Time) {
        let ours = rand_core::Rng::next_u64(&mut self.rng);
        let Some(state) = self.banks.get_mut(&bank) else { return };
        if state.salted_at.is_some_and(|at| now < at + SALTED_EVERY_MS) {
            self.walk(bank, peer, now);
            return;
        }
        state.salted_at = Some(now);
        let Some(session) = state.sessions.get_mut(&peer) else { return };
        session.salted = true;
        let (differ, enough) = (session.differ, session.enough);
        session.stage = Stage::Sketching(Box::new(Sketching {
            head: head(&mut state.known, Some(ours)),
            cells: Cells::default(),
            version: state.known.sketch().version(),
            salt: Some(Salt::new(ours, theirs)),
            sent: 0,
            batches: 0,
            left: None,
            wants: Vec::new(),
        }));
        let cells = cells_for(differ + differ / 8).max(enough).clamp(2 * MIN_CELLS, MAX_SESSION_CELLS);
        self.send_cells(bank, peer, 0, cells, now);
    }

    /// Sends cells `from..to`, in as many messages as they need.
    pub(super) fn send_cells(&mut self, bank: BankId, peer: AuthorId, from: usize, to: usize, now: Time) {
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let Some(session) = state.sessions.get_mut(&peer) else { return };
        let Stage::Sketching(sketching) = &mut session.stage else { return };
        if to > MAX_SESSION_CELLS || sketching.batches >= MAX_BATCHES {
            self.walk(bank, peer, now);
            return;
        }
        if to > sketching.cells.len() && sketching.salt.is_none() {
            let (session, cells) = (session.number, cells_to_make(to));
            if !self.has_cells(bank, Coding { peer, session, cells, goal: Goal::Send { from, to } }, now) {
                return;
            }
        }
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let Some(session) = state.sessions.get_mut(&peer) else { return };
        let Stage::Sketching(sketching) = &mut session.stage else { return };
        let from = sketching.prepare(&mut state.known, from, to);
        sketching.sent = to;
        session.enough = to;
        sketching.batches += 1;
        let mut messages = Vec::new();
        for at in (from..to).step_by(MAX_CELLS) {
            let end = to.min(at + MAX_CELLS);
            messages.push(Message::Sketch {
                bank,
                session: session.number,
                head: (at == 0).then(|| sketching.head.clone()),
                from: at as u32,
                cells: sketching.cells.slice(at, end),
                last: end == to,
            });
        }
        messages.into_iter().for_each(|message| self.send(peer, message));
        self.await_answer(bank, peer, now);
    }

    pub(crate) fn receive_sketched(
        &mut self,
        peer: AuthorId,
        bank: BankId,
        number: u64,
        answer: SketchAnswer,
        now: Time,
    ) {
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let Some(session) = state.sessions.get_mut(&peer).filter(|s| s.number == number) else { return };
        if matches!(session.stage, Stage::Walking(_)) {
            return; // Late, or repeated.
        }
        match answer {
            SketchAnswer::Same => {
                let began = session.began;
                let compares = matches!(session.stage, Stage::Compared | Stage::Sketching(_));
                if compares
                    && session.waiting
                    && state.sessions.remove(&peer).is_some_and(|s| s.pending.is_empty() && !s.failed)
                {
                    self.complete(bank, peer, began, now);
                }
            }
            SketchAnswer::More { have, records, nonce, estimate } if session.waiting => {
                session.waiting = false;
                if matches!(session.stage, Stage::Compared) {
                    self.sketch(bank, peer, records, now);
                } else {
                    self.more(bank, peer, have as usize, nonce, estimate, now);
                }
            }
            SketchAnswer::Found { lacks, left } => {
                self.receive_found(bank, peer, Found { shorts: lacks, ..Found::default() }, left, now);
            }
            SketchAnswer::FoundSalted { lacks, wants, left } => {
                let found = Found { ids: lacks, wants, salted: true, ..Found::default() };
                self.receive_found(bank, peer, found, left, now);
            }
            SketchAnswer::Salt { nonce } => {
                if session.salted {
                    self.session_broken(bank, peer, now);
                } else {
                    self.sketch_salted(bank, peer, nonce, now);
                }
            }
            SketchAnswer::Walk => self.walk(bank, peer, now),
            SketchAnswer::Done => {
                if let Stage::Found { confirmed } = &mut session.stage {
                    *confirmed = true;
                    self.check_session(bank, peer, now);
                }
            }
            SketchAnswer::More { .. } => {}
        }
    }

    /// The cells sent do not tell yet: more, or another way.
    fn more(&mut self, bank: BankId, peer: AuthorId, have: usize, nonce: u64, estimate: Option<Vec<u8>>, now: Time) {
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let Some(session) = state.sessions.get_mut(&peer) else { return };
        let Stage::Sketching(sketching) = &mut session.stage else { return };
        let sent = sketching.sent;
        if have > sent {
            self.session_broken(bank, peer, now);
            return;
        }
        if have < sent {
            // A message was lost on the way.
            self.send_cells(bank, peer, have, sent, now);
            return;
        }
        let enough = cells_for(session.differ);
        // Not so few that the other side does not find them worth an attempt.
        let least = sent + sent / 24 + 8;
        let mut to = if sent < enough { enough.max(least) } else { sent + sent / 8 } + MIN_CELLS + SPARE_CELLS;
        if let Some(theirs) = estimate.as_deref().and_then(Estimate::from_bytes) {
            let told = state.known.sketch().estimate().difference(&theirs);
            // Its margin is room enough where the difference is large.
            let spare = if told.ids < 500 { SPARE_CELLS } else { 0 };
            let told_calls_for = cells_for(told.ids + told.ids * told.margin_percent / 100) + spare;
            // What the numbers of records differ by is exact if one side lacks nothing, and may well be so unless the estimate
            // is far above it. Where many differ that saves a good part of all bytes, and three round trips are few enough.
            let far = told.ids > session.differ + session.differ * told.margin_percent * 7 / 400;
            let calls_for = if far || told.ids < BELIEVED { told_calls_for } else { 0 };
            to = calls_for.max(enough + SPARE_CELLS).max(least);
            if calls_for > 0 {
                session.differ = session.differ.max(told.ids);
            }
        } else if sent > 2 * enough + 4 * MIN_CELLS && sketching.salt.is_none() {
            // Far more than the difference calls for. Somebody has prepared ids that do not come apart.
            self.sketch_salted(bank, peer, nonce, now);
            return;
        }
        self.send_cells(bank, peer, sent, to, now);
    }

    /// Part of what the other side found: short ids, or under a salt whole ids and what to offer.
    fn receive_found(&mut self, bank: BankId, peer: AuthorId, found: Found, left: u32, now: Time) {
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let Some(session) = state.sessions.get_mut(&peer) else { return };
        let Stage::Sketching(sketching) = &mut session.stage else { return };
        let came = found.shorts.len() + found.ids.len() + found.wants.len();
        let (left, announced) = (left as usize, sketching.left);
        if came + left > sketching.sent
            || (announced.is_some() && came == 0)
            || found.salted == sketching.salt.is_none()
        {
            self.session_broken(bank, peer, now);
            return;
        }
        if announced.is_some_and(|announced| announced != came + left) {
            // A message was lost. What it held is found by the next session.
            state.sessions.remove(&peer);
            return;
        }
        sketching.left = Some(left);
        sketching.wants.extend(found.wants.iter().map(|short| short.value()));
        let missing: Vec<ShortId> = found.shorts.into_iter().filter(|short| !state.has_short(*short)).collect();
        let Some(session) = state.sessions.get_mut(&peer) else { return };
        for short in missing {
            session.pending.shorts.insert(short);
            session.failed |= !state.wanted.want(short, peer);
        }
        for id in found.ids {
            if !state.known.contains(&id) {
                session.pending.ids.insert(id);
                session.failed |= !(state.admitting.contains(&id) || state.wanted.want(id, peer));
            }
        }
        if left == 0 {
            self.all_found(bank, peer, now);
        } else {
            self.await_answer(bank, peer, now);
        }
        self.pump(bank, now);
    }

    /// Both sides know what they lack, but for what this one is yet to offer under a salt.
    fn all_found(&mut self, bank: BankId, peer: AuthorId, now: Time) {
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let Some(session) = state.sessions.get_mut(&peer) else { return };
        let Stage::Sketching(sketching) = &mut session.stage else { return };
        let number = session.number;
        let offer = sketching.salt.take().map(|salt| {
            let wants: BTreeSet<u64> = std::mem::take(&mut sketching.wants).into_iter().collect();
            let mut offer = Vec::new();
            state.known.for_each(|id| {
                if wants.contains(&salt.short(id)) {
                    offer.push(*id);
                }
            });
            offer
        });
        session.stage = Stage::Found { confirmed: false };
        if let Some(offer) = offer {
            self.send_offer(bank, peer, number, 0, offer, true);
        }
        self.await_end(bank, peer, now);
    }
}

/// One message of what the other side found.
#[derive(Debug, Default)]
struct Found {
    shorts: Vec<ShortId>,
    salted: bool,
    ids: Vec<RecordId>,
    wants: Vec<ShortId>,
}
