//! What the network tells its owner, and the errors of its verbs.

use std::time::Duration;

use super::{
    addr::AddressError,
    frame::{FrameError, MAX_FRAME_BYTES},
    identity::{PeerKey, peer_id_text},
};

/// Something that happened. For each peer `Connected` and `Disconnected` strictly alternate, and every `Frame`
/// of the peer lies between the two of its session. Inside a session no frame is lost or overtaken; what was
/// queued or under way when it ends may be lost.
#[derive(Debug)]
pub enum NetworkEvent {
    /// This node now accepts connections at `address` (a multiaddr without `/p2p`).
    Listening {
        /// The address with its real port.
        address: String,
    },
    /// An address of the configuration cannot be listened on, or no longer.
    ListenFailed {
        /// The address as it was configured.
        address: String,
        /// Why, in words.
        error: String,
    },
    /// A session with `peer` is up: frames can be sent.
    Connected {
        /// The peer; its key has been proved in the handshake.
        peer: PeerKey,
        /// Its address as seen from here (a multiaddr without `/p2p`). Where `dialer` is false its port is a
        /// passing one and cannot be dialled.
        address: String,
        /// Whether this node dialled the connection that carries what it sends.
        dialer: bool,
        /// What the connection goes over.
        route: Route,
    },
    /// The session with `peer` is over. Another `Connected` may follow if the peer comes back.
    Disconnected {
        /// The peer.
        peer: PeerKey,
        /// Why.
        reason: DisconnectReason,
    },
    /// A dial came to nothing. A dial that ends without this has led to `Connected`.
    DialFailed {
        /// What was asked for.
        target: DialTarget,
        /// Why.
        error: DialError,
    },
    /// One frame from `peer`.
    Frame {
        /// Who sent it.
        peer: PeerKey,
        /// Its payload, 1 to [`MAX_FRAME_BYTES`] bytes.
        bytes: Vec<u8>,
    },
    /// A node on the local network announced itself by multicast DNS. Anybody there can announce anything: the
    /// dial proves it. May be left out when events are read too slowly.
    Discovered {
        /// The announced peer.
        peer: PeerKey,
        /// Where it says it is, multiaddrs without `/p2p`.
        addresses: Vec<String>,
    },
    /// A node that says it holds a public bank of this node's, as the DHT has it. Anybody can say so: the dial and the
    /// greeting prove it. May be left out when events are read too slowly.
    Found {
        /// Who.
        peer: PeerKey,
        /// Where it is said to be, multiaddrs without `/p2p`.
        addresses: Vec<String>,
    },
    /// A peer told where it listens. Its own claim; may be left out when events are read too slowly, and may come before
    /// its `Connected`.
    Identified {
        /// The peer.
        peer: PeerKey,
        /// The remote address of the connection over which it told.
        address: String,
        /// Where it says it listens, multiaddrs without `/p2p`.
        listen_addresses: Vec<String>,
    },
}

/// What a connection goes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// From host to host.
    Direct,
    /// From host to host, arranged over a relay: mostly through a NAT that was opened for it.
    HolePunched,
    /// Through a relay, which may end the circuit after so much data or time: then a new one is made.
    Relayed {
        /// Bytes, both ways together, that the relay said it carries. `None`: it said nothing, or there is no limit.
        limit_bytes: Option<u64>,
        /// How long it said the circuit lasts.
        limit_time: Option<Duration>,
    },
}

impl Route {
    /// Whether it goes through a relay.
    pub fn is_relayed(&self) -> bool {
        matches!(self, Self::Relayed { .. })
    }
}

/// Whom to dial, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialTarget {
    /// The peer that must answer there. `None`: whoever does (unless an address names one with `/p2p/ID`).
    pub peer: Option<PeerKey>,
    /// Addresses to try, as [`Address`](super::Address) accepts them.
    pub addresses: Vec<String>,
}

/// Why a session ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DisconnectReason {
    /// The connection is gone: closed by the peer, or cut.
    #[error("the connection was closed")]
    ConnectionClosed,
    /// This node closed it: [`NetworkHandle::close`](super::NetworkHandle::close) or
    /// [`NetworkHandle::block`](super::NetworkHandle::block) was called.
    #[error("this node closed the connection")]
    ClosedHere,
    /// This node closed it, since nothing was heard of the peer for too long.
    #[error("nothing was heard of it for too long")]
    Silent,
    /// The relayed circuit ended, as relays do after so much data or time. No fault of the peer's: a new one is made.
    #[error("the relayed circuit ended")]
    CircuitEnded,
    /// A direct connection came about, and the session moves to it from the relayed one.
    #[error("a direct connection takes the place of the relayed one")]
    Upgraded,
    /// The peer ended a stream or the stream broke.
    #[error("a stream ended: {0}")]
    StreamEnded(String),
    /// The peer broke the framing; it was thrown out.
    #[error("it sent what is not allowed: {0}")]
    Misbehaved(String),
    /// The peer began anew, so the former session is dead on its side (it restarted, for instance).
    #[error("the peer opened a new session")]
    Replaced,
    /// This network is stopping.
    #[error("this network is stopping")]
    Stopping,
}

impl From<FrameError> for DisconnectReason {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::TooLarge(_) | FrameError::Empty => Self::Misbehaved(error.to_string()),
            FrameError::Io(error) => Self::StreamEnded(error.to_string()),
        }
    }
}

/// Why a network could not be started. Nothing is left running.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The seed is no ed25519 secret key.
    #[error("the secret of this node is not an ed25519 seed; restore it from the backup or make a new identity")]
    Key,
    /// The transport could not be set up.
    #[error("cannot set up the transport: {0}")]
    Transport(String),
    /// Addresses need QUIC, which a pre-shared key does not cover.
    #[error("a pre-shared key covers TCP only: take {0:?} out of the addresses, or do without the key")]
    QuicWithKey(String),
    /// Multicast DNS was asked for and is not to be had.
    #[error("cannot start mDNS: {0}; start without it and name a peer")]
    Mdns(String),
    /// An address to listen on is not usable.
    #[error(transparent)]
    Listen(#[from] AddressError),
    /// No tokio runtime is running in this thread.
    #[error("the network must be started inside a tokio runtime")]
    NoRuntime,
}

/// Why a dial failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DialError {
    /// The target has no address, or none but this node's own.
    #[error("there is no address to dial")]
    NoAddress,
    /// An address of the target is not usable, and no other address of it was left.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The addresses name different peers, or another than the target does.
    #[error("the addresses name different peers; dial each peer by itself")]
    ConflictingPeers,
    /// Somebody else answered.
    #[error("another peer answered there: {}; the address is stale, or the expected id is wrong", found.as_ref().map_or_else(|| "one with a key that is not ed25519".to_owned(), peer_id_text))]
    WrongPeer {
        /// Who answered; `None` where its key is not ed25519.
        found: Option<PeerKey>,
    },
    /// It is this node itself.
    #[error("that is this node itself")]
    OwnIdentity,
    /// The peer is blocked here.
    #[error("the peer is blocked on this node; unblock it first")]
    Blocked,
    /// The peer is connected already.
    #[error("already connected to {}", peer_id_text(.0))]
    AlreadyConnected(PeerKey),
    /// Another dial to the peer is under way; its outcome will come.
    #[error("a dial to this peer is under way already")]
    AlreadyDialing,
    /// As many dials as allowed are under way.
    #[error("too many dials are under way; try again when one has ended")]
    TooManyDials,
    /// As many peers as allowed are connected.
    #[error("as many peers as allowed are connected; raise max_peers or wait")]
    Full,
    /// This process holds as much memory as it may for new connections.
    #[error("this process is over its limit of memory for new connections; raise memory_bytes or find what fills it")]
    OutOfMemory,
    /// A peer behind a relay can only be dialled by name.
    #[error("an address through a relay must end in /p2p/ID of the peer behind it")]
    RelayedWithoutPeer,
    /// The peer's key is not ed25519.
    #[error("the peer's key is not ed25519; it is no node of this network")]
    NotEd25519,
    /// No address could be connected to.
    #[error("unreachable: {0}")]
    Unreachable(String),
    /// Somebody is there, and the two did not understand each other from the first byte on, while this node uses a
    /// pre-shared key.
    #[error("the pre-shared keys do not fit: the other end has another key, or none ({0}); give both the same file")]
    PreSharedKey(String),
    /// A connection came about, but no session on it: the peer closed it (it is full, or blocks this node) or does
    /// not speak the protocol.
    #[error("connected, but no session came about; the peer may be full, block this node, or speak another version")]
    NoSession,
    /// The network has been shut down.
    #[error("the network has been shut down")]
    Stopped,
}

/// Why a frame was not queued. Nothing was queued then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// No session with the peer is up.
    #[error("not connected to this peer")]
    NotConnected,
    /// The peer takes frames more slowly than they come; wait or drop.
    #[error("the queue to this peer is full")]
    Full,
    /// Longer than a frame may be; split it.
    #[error("a frame of {0} bytes is over the limit of {MAX_FRAME_BYTES}")]
    TooLarge(usize),
    /// A frame carries at least one byte.
    #[error("an empty frame cannot be sent")]
    Empty,
}
