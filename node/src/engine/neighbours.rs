//! What the engine itself sees to among peers: why dials failed, which banks the DHT may know of, and letting go of peers that
//! nothing is shared with.

use std::collections::BTreeMap;

use folklore_protocol::{
    AuthorId, BankId, DialTarget, Time,
    bank::{Access, PUBLIC_SALT},
};

use super::Engine;
use crate::network::{DhtKey, DialError, DisconnectReason};

/// Failed dials whose reason is remembered: as many as there are peers in the address book.
const MAX_ERRORS: usize = 4096;
/// A peer with which nothing is shared is let go only after this, so that its greeting, a relay's place and a search of the
/// DHT have had their time.
const LONELY_MS: u64 = 120_000;

/// What is kept of each peer beside the state machine.
#[derive(Debug)]
pub(super) struct Neighbours {
    enough: usize,
    since: BTreeMap<AuthorId, Time>,
    errors: BTreeMap<DialTarget, String>,
}

impl Neighbours {
    pub(super) fn new(enough: usize) -> Self {
        Self { enough, since: BTreeMap::new(), errors: BTreeMap::new() }
    }

    pub(super) fn connected(&mut self, peer: AuthorId, dialled: Option<&str>, now: Time) {
        self.since.insert(peer, now);
        self.errors.remove(&DialTarget::Peer(peer));
        if let Some(address) = dialled {
            self.errors.remove(&DialTarget::Address(address.to_owned()));
        }
    }

    pub(super) fn disconnected(&mut self, peer: &AuthorId) {
        self.since.remove(peer);
    }

    /// Those that are connected beyond what is enough, idle ones only, the longest known first.
    fn too_many(&self, now: Time, idle: impl Fn(&AuthorId) -> bool) -> Vec<AuthorId> {
        let long = |since: &Time| now - *since >= LONELY_MS;
        let lonely = self.since.iter().filter(|(peer, since)| long(since) && idle(peer));
        let mut lonely: Vec<(Time, AuthorId)> = lonely.map(|(peer, since)| (*since, *peer)).collect();
        lonely.sort_unstable();
        lonely.truncate(self.since.len().saturating_sub(self.enough));
        lonely.into_iter().map(|(_, peer)| peer).collect()
    }

    pub(super) fn dial_failed(&mut self, target: &DialTarget, error: &DialError) {
        // No fault of the peer's, and nothing to be done about.
        if matches!(error, DialError::AlreadyConnected(_) | DialError::AlreadyDialing) {
            return;
        }
        if self.errors.len() >= MAX_ERRORS && !self.errors.contains_key(target) {
            self.errors.pop_first();
        }
        self.errors.insert(target.clone(), error.to_string());
    }

    pub(super) fn error_of(&self, peer: &AuthorId) -> Option<String> {
        self.errors.get(&DialTarget::Peer(*peer)).cloned()
    }

    pub(super) fn error_at(&self, address: &str) -> Option<String> {
        self.errors.get(&DialTarget::Address(address.to_owned())).cloned()
    }
}

/// What a public bank is called in the DHT: a hash of its id, so that whoever listens there learns of no bank it does not know.
pub fn dht_key(bank: &BankId) -> DhtKey {
    blake3::derive_key("folklore 2026 dht key of a public bank v1", &bank.0)
}

/// Why a session ended, as a word of a fixed set.
pub(super) fn why(reason: &DisconnectReason) -> &'static str {
    match reason {
        DisconnectReason::ConnectionClosed => "closed",
        DisconnectReason::ClosedHere => "closed-here",
        DisconnectReason::Silent => "silent",
        DisconnectReason::CircuitEnded => "circuit-ended",
        DisconnectReason::Upgraded => "upgraded",
        DisconnectReason::StreamEnded(_) => "broken",
        DisconnectReason::Misbehaved(_) => "misbehaved",
        DisconnectReason::Replaced => "replaced",
        DisconnectReason::Stopping => "stopping",
    }
}

impl Engine {
    /// Tells the network which banks are public: made to be found by whoever knows owner and name, and by their policy open to
    /// every reader. Of others the DHT hears nothing.
    pub(super) fn publish_banks(&self) {
        let public = |info: &folklore_store::bank::BankInfo| {
            info.salt == PUBLIC_SALT && self.catalogue.policy(&info.id).readers == Access::Anyone
        };
        let keys = self.store.banks().iter().filter(|info| public(info)).map(|info| dht_key(&info.id)).collect();
        self.network.publish(keys);
    }

    /// Lets go of peers with which no bank is shared and that nobody named, the longest known first, while more are connected
    /// than are of use. They came by the DHT, by a relay, or by themselves.
    pub(super) fn let_go(&self) {
        if self.neighbours.since.len() <= self.neighbours.enough {
            return;
        }
        let relays = self.network.reach().relays;
        let idle = |peer: &AuthorId| {
            let shares_nothing = self.node.peers().get(peer).is_none_or(|p| p.banks.is_empty() && !p.is_kept());
            shares_nothing && !relays.contains(&peer.0)
        };
        for peer in self.neighbours.too_many(self.clock.now(), idle) {
            tracing::debug!(%peer, "nothing is shared with it, letting it go");
            self.network.close(peer.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(n: u8) -> AuthorId {
        AuthorId([n; 32])
    }

    #[test]
    fn strangers_that_share_nothing_are_let_go_when_there_are_too_many_and_no_others() {
        let mut neighbours = Neighbours::new(3);
        for n in 0..8 {
            neighbours.connected(peer(n), None, Time(u64::from(10 - n)));
        }
        let idle = |p: &AuthorId| *p != peer(7);
        assert!(neighbours.too_many(Time(1000), idle).is_empty(), "each has its time first");
        let later = Time(LONELY_MS + 100);
        // Eight are connected and three are enough: five go, of those that may, the longest known first.
        assert_eq!(neighbours.too_many(later, idle), [6, 5, 4, 3, 2].map(peer));
        assert!(neighbours.too_many(later, |_| false).is_empty());
        for n in 2..7 {
            neighbours.disconnected(&peer(n));
        }
        assert!(neighbours.too_many(later, idle).is_empty(), "three are enough");
    }

    #[test]
    fn why_a_dial_failed_is_remembered_until_it_does_not() {
        let mut neighbours = Neighbours::new(3);
        let target = DialTarget::Peer(peer(1));
        neighbours.dial_failed(&target, &DialError::Full);
        neighbours.dial_failed(&target, &DialError::AlreadyDialing);
        assert_eq!(neighbours.error_of(&peer(1)), Some(DialError::Full.to_string()));
        neighbours.dial_failed(&DialTarget::Address("a:1".into()), &DialError::NoAddress);
        neighbours.connected(peer(1), Some("a:1"), Time(5));
        assert_eq!((neighbours.error_of(&peer(1)), neighbours.error_at("a:1")), (None, None));
        for n in 0..10_000u32 {
            neighbours.dial_failed(&DialTarget::Address(n.to_string()), &DialError::NoAddress);
        }
        assert!(neighbours.errors.len() <= MAX_ERRORS);
    }

    #[test]
    fn the_dht_hears_a_hash_and_not_the_id() {
        let bank = BankId([7; 32]);
        assert_ne!(dht_key(&bank), bank.0);
        assert_ne!(dht_key(&bank), dht_key(&BankId([8; 32])));
    }
}
