//! Useful ones first: whom a node has many records to fetch from it asks which of them are worth having before the others,
//! since a link may last for seconds.
//!
//! What a reconcile finds missing is known by short ids, which are hashes: the side that lacks a record cannot tell what it is.
//! The side that has it can. So the asker sends [`Message::Suggest`], and gets the peer's most useful records in order, a
//! page of short ids at a time; those among them that it wants are asked for first. Their order is the peer's storage's:
//! the highest seq of each author first, then the second highest of each, and so on, so that no author with many records
//! comes before the latest of another.
//!
//! **Nearest first** is for a node that allows it ([`Event::WorkingOn`](crate::Event::WorkingOn)): the question then holds up to
//! four short texts of what its agents are working on, and what is near to them, by the peer's own recall, comes first.
//! Privacy: those texts are read by every peer that shares the bank and has many records for this node, just like
//! a query that is asked of the network. The host gives only what it redacted; nothing is sent unless it gives some.
//!
//! A page costs 8 bytes an id, about one in a hundred of what it orders; pages that hold nothing wanted are few
//! ([`MAX_IDLE_PAGES`]). How far a peer was asked outlives a connection, since what came first before the cut is here already.

use crate::{
    bank::BankId,
    canonical::{Lines, normalise, shorten},
    event::{Effect, Ticket},
    identity::AuthorId,
    known::ShortId,
    message::{MAX_FETCH, MAX_NEAR, MAX_NEAR_BYTES, Message},
    node::{Node, Pending},
    record::RecordId,
    time::Time,
};

/// Pages in a row that hold nothing wanted, after which the order of a peer is taken to have nothing more to say.
const MAX_IDLE_PAGES: u32 = 2;
/// The next page is asked for when no more than this many of the suggested are left to ask for.
const FEW: usize = MAX_FETCH / 4;

/// How far a peer was asked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Suggestions {
    /// How many of its order came.
    from: u32,
    /// The question under way.
    asked: Option<u64>,
    idle_pages: u32,
    /// There is nothing more to be asked.
    over: bool,
}

impl Node {
    /// Notes what agents here are working on, as far as it may be shown.
    pub(crate) fn working_on(&mut self, texts: Vec<String>) {
        let short = |text: String| normalise(&shorten(&normalise(&text, Lines::Many), MAX_NEAR_BYTES), Lines::Many);
        self.near = texts.into_iter().map(short).filter(|text| !text.is_empty()).take(MAX_NEAR).collect();
    }

    /// Asks a peer what to fetch first, if it has many and has not been asked.
    pub(crate) fn ask_for_suggestions(&mut self, bank: BankId, peer: AuthorId) {
        let number = self.next_number();
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let (wanted, suggested) = state.wanted.to_ask(&peer);
        if wanted < self.config.suggest_from || suggested > FEW {
            return;
        }
        let suggestions = state.suggestions.entry(peer).or_default();
        if suggestions.over || suggestions.asked.is_some() {
            return;
        }
        suggestions.asked = Some(number);
        let (near, from) = (self.near.clone(), suggestions.from);
        self.send(peer, Message::Suggest { bank, request: number, near, from });
    }

    /// What a peer suggests. An answer that is lost is missed by nobody: the others are fetched in any order.
    pub(crate) fn receive_suggested(
        &mut self,
        peer: AuthorId,
        bank: BankId,
        request: u64,
        ids: Vec<ShortId>,
        now: Time,
    ) {
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let Some(suggestions) = state.suggestions.get_mut(&peer).filter(|s| s.asked == Some(request)) else { return };
        suggestions.asked = None;
        suggestions.from = suggestions.from.saturating_add(ids.len() as u32);
        suggestions.over = ids.len() < MAX_FETCH;
        if state.wanted.prefer(peer, ids) == 0 {
            suggestions.idle_pages += 1;
            suggestions.over |= suggestions.idle_pages >= MAX_IDLE_PAGES;
        } else {
            suggestions.idle_pages = 0;
        }
        self.pump(bank, now);
        self.ask_for_suggestions(bank, peer);
    }

    /// A connection is gone, and the question that was under way with it. With nothing more to fetch the next one begins anew.
    pub(crate) fn suggestions_disconnected(&mut self, peer: &AuthorId) {
        for state in self.banks.values_mut() {
            if state.wanted.is_drained(peer) {
                state.suggestions.remove(peer);
            } else if let Some(suggestions) = state.suggestions.get_mut(peer) {
                suggestions.asked = None;
            }
        }
    }

    pub(crate) fn receive_suggest(&mut self, peer: AuthorId, bank: BankId, request: u64, near: Vec<String>, from: u32) {
        if self.may_serve(peer, bank, request) {
            let ticket = self.issue(Pending::Suggest { peer, bank, request });
            self.emit(Effect::Suggest { ticket, bank, near, from: from as usize, count: MAX_FETCH });
        }
    }

    pub(crate) fn suggested(&mut self, ticket: Ticket, ids: Vec<RecordId>) {
        let Some(Pending::Suggest { peer, bank, request }) = self.tickets.remove(&ticket) else { return };
        self.served(&peer);
        let ids = ids.iter().take(MAX_FETCH).map(ShortId::of).collect();
        self.send(peer, Message::Suggested { bank, request, ids });
    }
}
