//! The carrier between nodes: moves frames (byte strings) between authenticated peers, and knows nothing of what
//! they mean.
//!
//! libp2p gives the connections: TCP with Noise and Yamux (under a pre-shared key where there is one), QUIC where it is
//! switched on, identify, ping, mDNS where it is asked for, circuits through relays with hole punching, AutoNAT, and a DHT for
//! public banks. On top lies one protocol of our own, `/folklore/1`, of length-prefixed frames
//! ([`MAX_FRAME_BYTES`]). A peer is its raw 32-byte ed25519 key; a connection with any other kind of key is refused.
//!
//! # Contract
//! - For each peer [`NetworkEvent::Connected`] and [`NetworkEvent::Disconnected`] strictly alternate; frames come
//!   between them, in order and without gaps. When a session ends, what was queued or under way may be lost.
//! - [`NetworkHandle::send`] never waits: a full queue is an error, and the caller decides.
//! - Events must be read. While they are not, nothing more is read from the peers, and so they are slowed down.
//! - Whom to dial, and when to dial again, is the caller's affair. Quiet connections are kept; dead ones are closed
//!   after [`NetworkConfig::ping_interval`] + [`NetworkConfig::ping_timeout`].
//!
//! # Parts
//! `swarm` drives libp2p in one task that never waits; `transport` puts it together and `stall` guards its sockets;
//! `behaviour` admits connections and opens streams; `session`
//! is one task a peer that makes a session of its connections and carries frames; `link` is the queue towards a
//! peer; `dial` and `addr` get from text to connections. `reach` is about NATs and relays, `candidates` bounds what strangers
//! say of this node's addresses, `dht` finds holders of public banks and `providers` is what it keeps for that.

mod addr;
mod behaviour;
mod candidates;
mod config;
mod connection;
mod dht;
mod dial;
mod event;
mod frame;
mod handle;
mod identity;
mod link;
mod providers;
mod reach;
mod session;
mod stall;
mod swarm;
#[cfg(test)]
mod tests;
mod traffic;
mod transport;

pub use addr::{Address, AddressError, MAX_ADDRESS_TEXT, MAX_ADDRESSES, with_peer};
pub use behaviour::PROTOCOL;
pub use config::{KeyFileError, NetworkConfig, NetworkLimits, RelayLimits, read_psk};
pub use dht::{DhtKey, DhtView, MAX_PUBLISHED};
pub use event::{DialError, DialTarget, DisconnectReason, NetworkEvent, Route, SendError, StartError};
pub use frame::{FRAME_HEADER_BYTES, MAX_FRAME_BYTES};
pub use handle::{Network, NetworkHandle};
pub use identity::{PeerIdError, PeerKey, parse_peer_id, peer_id_text, peer_of_secret};
pub use link::Queued;
pub use reach::{Nat, Reach, Serving};
pub use traffic::{Counters, TrafficCount};
