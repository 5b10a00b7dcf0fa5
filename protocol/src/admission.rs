//! Records on their way: asked for, given, checked for what is cheap, handed to storage, and what comes of that.

use std::collections::BTreeSet;

use crate::{
    bank::BankId,
    config::{BODIES_ASKED, MAX_ADMITTING, MAX_BODILESS},
    event::{Admission, Effect, Incoming, Ticket},
    fetch::Batch,
    identity::AuthorId,
    known::ShortId,
    lesson::LessonId,
    message::{Item, MAX_FETCH, Message},
    node::{Node, Pending, PushedAs, Timer},
    reconcile::{MAX_SAME_SHORT, Which},
    record::{RecordId, UnverifiedRecord},
    time::Time,
};

/// What came of a request for records.
pub(crate) struct Delivery {
    pub(crate) items: Vec<Item>,
    pub(crate) absent: Vec<RecordId>,
    pub(crate) unknown: Vec<ShortId>,
}

impl Node {
    pub(crate) fn receive_fetch(
        &mut self,
        peer: AuthorId,
        bank: BankId,
        request: u64,
        budget_bytes: usize,
        shorts: Vec<ShortId>,
    ) {
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
        } else if self.may_serve(peer, bank, request) {
            ids.truncate(MAX_FETCH);
            let ticket = self.issue(Pending::Serve { peer, bank, request, unknown });
            self.emit(Effect::Load { ticket, bank, ids, budget_bytes });
        }
    }

    pub(crate) fn loaded(&mut self, ticket: Ticket, items: Vec<Item>, absent: Vec<RecordId>) {
        let Some(Pending::Serve { peer, bank, request, unknown }) = self.tickets.remove(&ticket) else { return };
        self.served(&peer);
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.records_out += items.len() as u64;
        }
        self.send(peer, Message::Records { bank, request, items, absent, unknown });
    }

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
            self.ask_for_suggestions(bank, peer);
            self.set_timer(now + self.config.request_timeout_ms, Timer::Request { bank, request });
        }
        self.check_resumed(bank, now);
    }

    /// Asks a peer for bodies that nobody had who was here before: a few of them, beginning anywhere.
    pub(crate) fn want_bodies(&mut self, bank: BankId, peer: AuthorId) {
        if self.banks.get(&bank).is_none_or(|state| state.bodiless.is_empty()) {
            return;
        }
        let from = RecordId(std::array::from_fn(|_| rand_core::Rng::next_u32(&mut self.rng) as u8));
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let round = state.bodiless.range(from..).chain(state.bodiless.range(..from));
        let some: Vec<RecordId> =
            round.filter(|id| !state.admitting.contains(*id)).take(BODIES_ASKED).copied().collect();
        for id in some {
            state.wanted.want(id, peer);
        }
    }

    /// A peer has too much to do for this node: what was asked goes back, to others at once and to it after a while.
    pub(crate) fn receive_busy(&mut self, peer: AuthorId, bank: BankId, request: u64, now: Time) {
        self.ask_refused(request, peer);
        let Some(state) = self.banks.get_mut(&bank) else { return };
        if !state.wanted.is_asked(request, &peer) {
            return;
        }
        state.wanted.end(request, false);
        state.wanted.pause(peer);
        let connection = self.peers.get(&peer).map_or(0, |p| p.connection);
        self.set_timer(now + self.config.busy_pause_ms, Timer::Busy { bank, peer, connection });
        self.pump(bank, now);
    }

    pub(crate) fn busy_over(&mut self, bank: BankId, peer: AuthorId, now: Time) {
        if let Some(state) = self.banks.get_mut(&bank) {
            state.wanted.resume(&peer);
            self.pump(bank, now);
        }
    }

    pub(crate) fn receive_records(
        &mut self,
        peer: AuthorId,
        bank: BankId,
        request: u64,
        delivery: Delivery,
        now: Time,
    ) {
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
                    let completes = state.completes(&record.id(), body.as_ref());
                    if completes || state.is_new(&record.id()) {
                        if body.is_none()
                            && record.fields().claim.body().is_some()
                            && state.bodiless.len() < MAX_BODILESS
                        {
                            state.bodiless.insert(record.id());
                        }
                        state.admitting.insert(record.id());
                        admit.push((record.id(), if completes { PushedAs::Completed } else { PushedAs::Fetched }));
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

    pub(crate) fn admitted(&mut self, ticket: Ticket, results: Vec<Admission>, now: Time) {
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
                    match how {
                        PushedAs::Completed => {
                            if let Some(state) = self.banks.get_mut(&bank) {
                                state.bodiless.remove(&id);
                            }
                        }
                        PushedAs::Fetched if new => fetched.push(id),
                        PushedAs::Pushed { item, hops } if new => self.forward(bank, from, id, item, hops),
                        _ => {}
                    }
                }
                Admission::Declined => {
                    state.known.decline(id);
                    state.bodiless.remove(&id);
                    state.wanted.resolve(id);
                    self.resolved(bank, Which::Id(&id), None, true, now);
                }
                Admission::Invalid => {
                    if !state.known.contains(&id) {
                        state.bodiless.remove(&id);
                    }
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
