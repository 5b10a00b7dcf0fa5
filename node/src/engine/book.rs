//! The address book on disk: whom to dial after a restart.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError},
};

use folklore_protocol::{AuthorId, Event};
use folklore_store::error::WriteError;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::Engine;

/// Peers in the address book, addresses of each, and bytes of an address: together below what a setting holds (64 KiB).
const MAX_BOOK_PEERS: usize = 128;
const MAX_BOOK_ADDRESSES: usize = 3;
const MAX_BOOK_ADDRESS_BYTES: usize = 128;
/// The name of the address book among the store's settings.
const BOOK: &str = "peers";

/// Peers to dial again after a restart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Book {
    /// Those that a person, a ticket or the configuration named.
    peers: BTreeMap<String, Vec<String>>,
    /// Others that share a bank.
    #[serde(default)]
    met: BTreeMap<String, Vec<String>>,
}

impl Engine {
    pub(super) fn read_book(&mut self) {
        let Some(bytes) = self.store.setting(BOOK) else { return };
        match serde_json::from_slice::<Book>(&bytes) {
            Ok(book) => self.book = book,
            Err(error) => tracing::warn!(%error, "the address book is unreadable and is begun anew"),
        }
        for (peer, addresses) in self.book.peers.clone() {
            if let Ok(peer) = peer.parse() {
                self.learn(peer, addresses, true);
            }
        }
        for (peer, addresses) in self.book.met.clone() {
            let Ok(peer) = peer.parse::<AuthorId>() else { continue };
            for address in addresses {
                self.handle(Event::PeerFound { peer, address });
            }
        }
    }

    /// Peers worth dialling after a restart, as many as fit: those connected or heard of latest first.
    fn peers_to_remember(&self) -> Book {
        let mut kept: Vec<_> =
            self.node.peers().iter().filter(|(_, p)| p.is_kept() && !p.addresses.is_empty()).collect();
        // Whoever was named comes before whoever was met, however lately.
        kept.sort_by_key(|(id, p)| (std::cmp::Reverse((p.is_named(), p.connected, p.last_sync)), **id));
        kept.truncate(MAX_BOOK_PEERS);
        let addresses = |p: &folklore_protocol::Peer| {
            let short = p.addresses.iter().filter(|a| a.len() <= MAX_BOOK_ADDRESS_BYTES);
            short.take(MAX_BOOK_ADDRESSES).cloned().collect()
        };
        let mut book = Book::default();
        for (id, peer) in kept {
            let list = if peer.is_named() { &mut book.peers } else { &mut book.met };
            list.insert(id.to_string(), addresses(peer));
        }
        book
    }

    /// Writes the address book when it has changed, or when somebody waits for it to be on disk.
    pub(super) fn write_book(&mut self, waiting: Option<oneshot::Sender<Result<(), WriteError>>>) {
        let book = self.peers_to_remember();
        if book == self.book && waiting.is_none() {
            return;
        }
        let Ok(bytes) = serde_json::to_vec(&book) else { return };
        self.book = book;
        self.book_edition += 1;
        let (edition, written) = (self.book_edition, Arc::clone(&self.book_written));
        self.work(None, move |store, _| {
            // Held while writing, so that an older edition never lands on a newer one.
            let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
            let done = if *written > edition { Ok(()) } else { store.set_setting(BOOK, &bytes) };
            if let Err(error) = &done {
                tracing::warn!(%error, "the address book could not be written");
            } else {
                *written = edition.max(*written);
            }
            if let Some(waiting) = waiting {
                // Whoever waited may have gone.
                let _ = waiting.send(done);
            }
            Vec::new()
        });
    }
}
