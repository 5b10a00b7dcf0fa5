//! What the engine itself sees to among peers: why dials failed, which banks the DHT may know of, and letting go of peers that
//! nothing is shared with.

use std::collections::BTreeMap;

use folklore_protocol::{
    AuthorId, BankId, DialTarget, Time,
    bank::{Access, BankSalt},
};

use super::Engine;
use crate::network::{DhtKey, DialError, DisconnectReason};

/// The salt of a public bank: whoever knows its owner and name can work out its id and look for it. That it is public is so
/// part of what it is, known to everybody who joins, and cannot be changed later.
pub const PUBLIC_SALT: BankSalt = [0; 16];

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
        let connected = self.neighbours.since.len();
        if connected <= self.neighbours.enough {
            return;
        }
        let now = self.clock.now();
        let relays = self.network.reach().relays;
        let mut lonely: Vec<(Time, AuthorId)> = Vec::new();
        for (peer, since) in &self.neighbours.since {
            let idle = self.node.peers().get(peer).is_none_or(|p| p.banks.is_empty() && !p.is_kept());
            if idle && now - *since >= LONELY_MS && !relays.contains(&peer.0) {
                lonely.push((*since, *peer));
            }
        }
        lonely.sort_unstable();
        for (_, peer) in lonely.into_iter().take(connected - self.neighbours.enough) {
            tracing::debug!(%peer, "nothing is shared with it, letting it go");
            self.network.close(peer.0);
        }
    }
}
