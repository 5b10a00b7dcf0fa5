//! Connections and greetings: who is here, which banks are shared, and what a greeting sets off.

use crate::{
    bank::BankId,
    canonical::shorten,
    config::GAPS_TO_GRAFT,
    event::Effect,
    identity::AuthorId,
    known::Known,
    message::{BankTag, GreetedBank, MAX_GREETED_BANKS, MAX_REFUSAL_BYTES, Message, PROTOCOL_VERSION, RefusalCode},
    node::{Node, Timer},
    peers::jittered,
    record::RecordId,
    time::Time,
};

impl Node {
    pub(crate) fn open_bank(&mut self, bank: BankId, held: Vec<RecordId>, now: Time) {
        // Said twice it is one bank: what is known and under way stays.
        let state = self.banks.entry(bank).or_default();
        if state.known.held_len() == 0 {
            state.known = Known::holding(held);
        } else {
            held.into_iter().for_each(|id| {
                state.known.hold(id);
            });
        }
        for peer in self.peers.connected() {
            self.greet(peer);
            if self.peers.get(&peer).is_some_and(|p| p.greeted) {
                self.match_banks(peer, now);
            }
        }
    }

    pub(crate) fn connected(&mut self, peer: AuthorId, dialled: Option<String>, now: Time) {
        if peer == self.me {
            if let Some(address) = dialled {
                self.peers.drop_unnamed(&address);
            }
            self.emit(Effect::Disconnect { peer, reason: "it is this node itself" });
            return;
        }
        if self.peers.get(&peer).and_then(|p| p.barred_until).is_some_and(|until| now < until) {
            self.emit(Effect::Disconnect { peer, reason: "it broke the protocol too often a while ago" });
            return;
        }
        let connection = self.next_number();
        self.peers.connected_to(peer, dialled, connection);
        self.greet(peer);
        self.set_timer(now + self.config.greeting_timeout_ms, Timer::Greeting { peer, connection });
    }

    pub(crate) fn disconnected(&mut self, peer: AuthorId, now: Time) {
        self.peers.disconnected(&peer, &self.config, &mut self.rng, now);
        for state in self.banks.values_mut() {
            state.wanted.disconnected(&peer);
            state.sessions.remove(&peer);
            state.responding.remove(&peer);
            state.resuming.remove(&peer);
            state.grafts.remove(&peer);
            if !state.lazy.remove(&peer) {
                // A neighbour of the tree is gone: the next gap is no accident.
                state.gaps = GAPS_TO_GRAFT;
            }
        }
        self.runs_disconnected(&peer, now);
        self.suggestions_disconnected(&peer);
        self.ask_disconnected(peer);
        let banks: Vec<BankId> = self.banks.keys().copied().collect();
        for bank in banks {
            self.pump(bank, now);
        }
    }

    pub(crate) fn greet(&mut self, peer: AuthorId) {
        let me = self.me;
        let banks = self.banks.iter_mut().take(MAX_GREETED_BANKS).map(|(bank, state)| GreetedBank {
            tag: BankTag::new(bank, &me, &peer),
            root: state.known.known_root(),
            records: state.known.held_len() as u64,
            resumes: !state.wanted.is_drained(&peer),
        });
        let message = Message::Hello { version: PROTOCOL_VERSION, banks: banks.collect() };
        self.send(peer, message);
    }

    /// A peer speaks another version: it is told so and let go. No breach; either side may be updated, and is dialled again.
    pub(crate) fn other_version(&mut self, peer: AuthorId, words: &str) {
        self.refuse(peer, RefusalCode::Version, &shorten(words, MAX_REFUSAL_BYTES));
        self.emit(Effect::Disconnect { peer, reason: "it speaks another version of the protocol" });
    }

    pub(crate) fn greeted(&mut self, peer: AuthorId, version: u32, banks: Vec<GreetedBank>, now: Time) {
        if version != PROTOCOL_VERSION {
            let error = crate::canonical::DecodeError::Protocol { found: version };
            self.other_version(peer, &error.to_string());
            return;
        }
        let Some(state) = self.peers.get_mut(&peer) else { return };
        state.greeted = true;
        state.tags = banks;
        self.match_banks(peer, now);
    }

    /// Finds the banks that both sides know, and starts to reconcile those whose roots differ.
    fn match_banks(&mut self, peer: AuthorId, now: Time) {
        let me = self.me;
        let Some(state) = self.peers.get_mut(&peer) else { return };
        let connection = state.connection;
        let mut differing = Vec::new();
        for (bank, known) in &mut self.banks {
            let Some(greeted) = state.greeted_with(&BankTag::new(bank, &peer, &me)).cloned() else {
                state.banks.remove(bank);
                continue;
            };
            state.banks.insert(*bank);
            // Whoever shares a bank is worth finding again, whichever side dialled.
            state.keep = true;
            let resumes = known.wanted.returned(peer);
            if greeted.root == known.known.known_root() {
                state.complete_as_of.insert(*bank, now);
                state.last_sync = Some(now);
            } else {
                differing.push((*bank, resumes, greeted.resumes));
            }
            if !state.compared_regularly.contains(bank) {
                state.compared_regularly.push(*bank);
                let at = now + jittered(self.config.reconcile_every_ms, &mut self.rng);
                let number = self.numbers + 1;
                self.numbers = number;
                self.timers.insert((at, number, Timer::Reconcile { bank: *bank, peer, connection }));
            }
        }
        for bank in self.banks.keys().copied().collect::<Vec<_>>() {
            if self.peers.get(&peer).is_some_and(|p| p.banks.contains(&bank)) {
                self.want_bodies(bank, peer);
                self.tell_runs(bank, peer);
                self.pump(bank, now);
            }
        }
        for (bank, resumes, it_resumes) in differing {
            if resumes {
                self.resume(bank, peer, now);
            } else if me < peer && !it_resumes {
                self.start_differing(bank, peer, now);
            } else {
                // One of the two opens; the other does so only if nothing came.
                self.fall_back(bank, peer, connection, now);
            }
        }
    }

    pub(crate) fn sync(&mut self, only: Option<AuthorId>, now: Time) {
        self.peers.dial_soon(only.as_ref(), now);
        let banks: Vec<BankId> = self.banks.keys().copied().collect();
        for bank in banks {
            for peer in self.peers.sharing(&bank) {
                if only.is_none_or(|o| o == peer) {
                    self.start_session(bank, peer, now);
                }
            }
        }
    }
}
