//! Ask: a similarity query to the connected peers that share the bank, with a deadline.
//!
//! Vectors never travel: the query goes out as text, each peer searches with its own embedder, and what comes back is
//! records with bodies, which the asker verifies and scores itself.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    bank::BankId,
    config::MAX_ASKS,
    event::{Answer, Effect, Ticket},
    identity::AuthorId,
    message::{Item, MAX_ASKED_HITS, MAX_QUERY_BYTES, Message},
    node::{Node, Pending, Timer},
    time::Time,
};

#[derive(Debug)]
struct Asked {
    ask: u64,
    bank: BankId,
    waiting: BTreeSet<AuthorId>,
    silent: BTreeSet<AuthorId>,
    answers: Vec<Answer>,
}

/// Queries of this node's own that are under way.
#[derive(Debug, Default)]
pub(crate) struct Asks {
    by_number: BTreeMap<u64, Asked>,
}

impl Node {
    pub(crate) fn start_ask(&mut self, ask: u64, bank: BankId, query: String, hits: u32, deadline: Time) {
        let peers = self.peers.sharing(&bank);
        if peers.is_empty() || query.len() > MAX_QUERY_BYTES || self.asks.by_number.len() >= MAX_ASKS {
            self.emit(Effect::Answered { ask, answers: Vec::new(), silent: peers });
            return;
        }
        let number = self.next_number();
        let hits = hits.clamp(1, MAX_ASKED_HITS);
        for peer in &peers {
            self.send(*peer, Message::Ask { bank, request: number, query: query.clone(), hits });
        }
        let waiting = peers.into_iter().collect();
        let asked = Asked { ask, bank, waiting, silent: BTreeSet::new(), answers: Vec::new() };
        self.asks.by_number.insert(number, asked);
        self.set_timer(deadline, Timer::Ask { number });
    }

    pub(crate) fn receive_answer(
        &mut self,
        peer: AuthorId,
        bank: BankId,
        request: u64,
        items: Vec<Item>,
        records: u64,
    ) {
        let Some(asked) = self.asks.by_number.get_mut(&request).filter(|a| a.bank == bank) else { return };
        if asked.waiting.remove(&peer) {
            asked.answers.push(Answer { peer, items, records });
        }
        if asked.waiting.is_empty() {
            self.end_ask(request);
        }
    }

    /// A peer is too busy for a query: it stays silent.
    pub(crate) fn ask_refused(&mut self, request: u64, peer: AuthorId) {
        let Some(asked) = self.asks.by_number.get_mut(&request) else { return };
        if asked.waiting.remove(&peer) {
            asked.silent.insert(peer);
        }
        if asked.waiting.is_empty() {
            self.end_ask(request);
        }
    }

    pub(crate) fn ask_disconnected(&mut self, peer: AuthorId) {
        let mut done = Vec::new();
        for (number, asked) in &mut self.asks.by_number {
            if asked.waiting.remove(&peer) {
                asked.silent.insert(peer);
                if asked.waiting.is_empty() {
                    done.push(*number);
                }
            }
        }
        done.into_iter().for_each(|number| self.end_ask(number));
    }

    pub(crate) fn end_ask(&mut self, number: u64) {
        let Some(asked) = self.asks.by_number.remove(&number) else { return };
        let silent = asked.silent.into_iter().chain(asked.waiting).collect();
        self.emit(Effect::Answered { ask: asked.ask, answers: asked.answers, silent });
    }

    pub(crate) fn receive_ask(&mut self, peer: AuthorId, bank: BankId, request: u64, query: String, hits: u32) {
        if self.may_serve(peer, bank, request) {
            let ticket = self.issue(Pending::Search { peer, bank, request });
            self.emit(Effect::Search { ticket, bank, query, hits });
        }
    }

    pub(crate) fn found(&mut self, ticket: Ticket, items: Vec<Item>) {
        let Some(Pending::Search { peer, bank, request }) = self.tickets.remove(&ticket) else { return };
        self.served(&peer);
        let records = self.held_len(&bank) as u64;
        self.send(peer, Message::Answer { bank, request, items, records });
    }
}
