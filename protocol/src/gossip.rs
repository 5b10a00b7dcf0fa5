//! Announce: epidemic broadcast trees (Plumtree: Leitão, Pereira, Rodrigues, SRDS 2007), one tree a bank.
//!
//! A fresh record travels whole along the links of a spanning tree (eager) and as an id alone along the others (lazy). All
//! links start eager; the second copy of a record prunes the link it came over, so the tree builds itself from the first
//! broadcast. An id whose record does not follow within a short wait shows a gap: the record is fetched from who announced
//! it, and if that was not the first gap in a row, or a neighbour of the tree has just gone, that link is grafted into the
//! tree. (Leitão grafts at the first. Where single messages are lost and the tree is whole, each graft then brings a second
//! copy of the next record.) Announce is an optimisation: reconcile finds whatever it loses.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    admission::parse_item,
    bank::BankId,
    config::{GAPS_TO_GRAFT, MAX_ADMITTING, MAX_GRAFT_IDS, MAX_HOPS, PUSH_BATCH},
    event::Incoming,
    identity::AuthorId,
    message::{Item, MAX_IDS, Message},
    node::{Node, PushedAs, Timer},
    record::{Record, RecordId},
    time::Time,
};

impl Node {
    /// Announces records this node wrote itself.
    pub(crate) fn published(&mut self, bank: BankId, items: Vec<(Record, Option<Arc<[u8]>>)>) {
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let mut fresh = Vec::new();
        for (record, body) in items {
            if state.known.hold(record.id()) {
                fresh.push((record, body));
            }
        }
        if fresh.len() > PUSH_BATCH {
            let ids: Vec<RecordId> = fresh.iter().map(|(r, _)| r.id()).collect();
            self.have(bank, None, &ids, true);
            return;
        }
        for (record, body) in fresh {
            let item = Item { record: record.bytes().to_vec(), body: body.map(|b| b.to_vec()) };
            self.pass_on(bank, None, record.id(), item, 0);
        }
    }

    /// Passes on a record that was pushed here and is now durable.
    pub(crate) fn forward(&mut self, bank: BankId, from: AuthorId, id: RecordId, item: Item, hops: u32) {
        if hops >= MAX_HOPS {
            self.have(bank, Some(from), &[id], true);
        } else {
            self.pass_on(bank, Some(from), id, item, hops + 1);
        }
    }

    fn pass_on(&mut self, bank: BankId, from: Option<AuthorId>, id: RecordId, item: Item, hops: u32) {
        let lazy = self.banks.get(&bank).map(|b| b.lazy.clone()).unwrap_or_default();
        for peer in self.peers.sharing(&bank) {
            if Some(peer) != from && !lazy.contains(&peer) {
                self.send(peer, Message::Push { bank, hops, item: item.clone() });
                if let Some(peer) = self.peers.get_mut(&peer) {
                    peer.records_out += 1;
                }
            }
        }
        self.have(bank, from, &[id], false);
    }

    /// Tells neighbours ids: the lazy ones, or with `all` every one, since the records themselves were not pushed.
    pub(crate) fn have(&mut self, bank: BankId, from: Option<AuthorId>, ids: &[RecordId], all: bool) {
        let lazy = self.banks.get(&bank).map(|b| b.lazy.clone()).unwrap_or_default();
        for peer in self.peers.sharing(&bank) {
            if Some(peer) == from || !(all || lazy.contains(&peer)) {
                continue;
            }
            for ids in ids.chunks(MAX_IDS) {
                self.send(peer, Message::Have { bank, ids: ids.to_vec() });
            }
        }
    }

    pub(crate) fn receive_push(&mut self, peer: AuthorId, bank: BankId, hops: u32, item: Item, now: Time) {
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let Ok((record, body)) = parse_item(&bank, item.clone()) else {
            self.strike(peer, now);
            return;
        };
        let id = record.id();
        if body.is_none() && record.fields().claim.body().is_some() && state.is_new(&id) {
            // A teaching without its lesson is of no use to anyone: it is fetched, from whoever has both.
            state.wanted.want(id, peer);
            self.pump(bank, now);
            return;
        }
        if state.completes(&id, body.as_ref()) {
            state.admitting.insert(id);
            self.admit(bank, peer, vec![(id, PushedAs::Completed)], vec![Incoming { record, body }]);
            return;
        }
        if !state.is_new(&id) {
            // Somebody else is nearer to where records come from: this link leaves the tree, on both sides.
            // Said each time: what was said before may have been lost.
            state.lazy.insert(peer);
            self.send(peer, Message::Prune { bank });
            return;
        }
        if state.admitting.len() >= MAX_ADMITTING {
            // Storage is behind. Dropped here, fetched when there is room.
            state.wanted.want(id, peer);
            return;
        }
        state.lazy.remove(&peer);
        state.gaps = 0;
        state.admitting.insert(id);
        // Noted as wanted from the pusher, so that it is fetched again should storage fail now.
        state.wanted.want(id, peer);
        state.wanted.pushed(id);
        let how = PushedAs::Pushed { item, hops };
        self.admit(bank, peer, vec![(id, how)], vec![Incoming { record, body }]);
    }

    pub(crate) fn receive_have(&mut self, peer: AuthorId, bank: BankId, ids: Vec<RecordId>, now: Time) {
        let delay = self.config.graft_delay_ms;
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let new: Vec<RecordId> = ids.into_iter().filter(|id| state.is_new(id)).collect();
        if new.is_empty() {
            return;
        }
        if !state.lazy.contains(&peer) {
            // Over a link of the tree an id alone means that no push will follow.
            for id in new {
                state.wanted.want(id, peer);
            }
            self.pump(bank, now);
            return;
        }
        let held_back: &mut BTreeSet<RecordId> = state.grafts.entry(peer).or_default();
        let first = held_back.is_empty();
        let room = MAX_GRAFT_IDS.saturating_sub(held_back.len());
        held_back.extend(new.into_iter().take(room));
        if first {
            self.set_timer(now + delay, Timer::Graft { bank, peer });
        }
    }

    pub(crate) fn graft_due(&mut self, bank: BankId, peer: AuthorId, now: Time) {
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let ids = state.grafts.remove(&peer).unwrap_or_default();
        let gap: Vec<RecordId> = ids.into_iter().filter(|id| state.is_new(id)).collect();
        if gap.is_empty() {
            return;
        }
        // Many neighbours announce what was lost on one link; the first of them to be asked is enough.
        let first = gap.iter().any(|id| !state.wanted.wants(id));
        for id in gap {
            state.wanted.want(id, peer);
        }
        state.gaps += u32::from(first);
        if state.gaps >= GAPS_TO_GRAFT && state.lazy.remove(&peer) {
            state.gaps = 0;
            self.send(peer, Message::Graft { bank });
        }
        self.pump(bank, now);
    }

    pub(crate) fn receive_graft(&mut self, peer: AuthorId, bank: BankId) {
        if let Some(state) = self.banks.get_mut(&bank) {
            state.lazy.remove(&peer);
        }
    }

    pub(crate) fn receive_prune(&mut self, peer: AuthorId, bank: BankId) {
        if let Some(state) = self.banks.get_mut(&bank) {
            state.lazy.insert(peer);
        }
    }
}
