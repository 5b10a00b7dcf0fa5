//! What a network is started with.

use std::{fmt, time::Duration};

/// How a [`Network`](super::Network) behaves. Begin with [`NetworkConfig::new`] and change what differs.
#[derive(Clone)]
pub struct NetworkConfig {
    /// The ed25519 secret seed of this node; its public key is the node's name on the network. Never printed.
    pub keypair_secret: [u8; 32],
    /// Addresses to listen on, as [`Address`](super::Address) accepts them; port 0 takes a free port. Empty: only
    /// dial.
    pub listen: Vec<String>,
    /// Addresses that others are told instead of those listened on, for a node behind a forwarded port or a relay.
    /// Empty: the ones listened on.
    pub announce: Vec<String>,
    /// Whether to announce this node, and look for others, on the local network by multicast DNS.
    pub mdns: bool,
    /// Whether QUIC addresses may be listened on and dialled. TCP always may.
    pub quic: bool,
    /// Time between two pings on a connection. A connection on which nothing was heard for
    /// `ping_interval + ping_timeout` is closed.
    pub ping_interval: Duration,
    /// How long the answer to a ping may take.
    pub ping_timeout: Duration,
    /// Upper bounds on what others, or a slow reader, can make grow.
    pub limits: NetworkLimits,
}

impl NetworkConfig {
    /// A network that listens nowhere yet, without mDNS and QUIC, with the default limits.
    pub fn new(keypair_secret: [u8; 32]) -> Self {
        Self {
            keypair_secret,
            listen: Vec::new(),
            announce: Vec::new(),
            mdns: false,
            quic: false,
            // With these a cut link is noticed within about 20 s: soon enough that a cut of a minute is seen as one,
            // late enough that a busy host is not thrown out.
            ping_interval: Duration::from_secs(10),
            ping_timeout: Duration::from_secs(10),
            limits: NetworkLimits::default(),
        }
    }
}

impl fmt::Debug for NetworkConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetworkConfig")
            .field("keypair_secret", &"(not shown)")
            .field("listen", &self.listen)
            .field("announce", &self.announce)
            .field("mdns", &self.mdns)
            .field("quic", &self.quic)
            .field("ping_interval", &self.ping_interval)
            .field("ping_timeout", &self.ping_timeout)
            .field("limits", &self.limits)
            .finish()
    }
}

/// Upper bounds of a network. Memory in the worst case is about
/// `max_peers * (outbound_bytes + 2 * MAX_FRAME_BYTES) + event_queue * MAX_FRAME_BYTES`.
#[derive(Debug, Clone)]
pub struct NetworkLimits {
    /// Frames that may wait to be written to one peer. Beyond, `send` says that the queue is full.
    pub outbound_frames: usize,
    /// Bytes of frames that may wait to be written to one peer.
    pub outbound_bytes: usize,
    /// Events that may wait for the reader of the network's events. When it is full, streams are read no further
    /// and so the senders are slowed down.
    pub event_queue: usize,
    /// Peers connected at once.
    pub max_peers: usize,
    /// Once this many peers are connected, others are let in no more, but can still be dialled: strangers
    /// cannot take every place and so choose whom this node talks to.
    pub max_inbound_peers: usize,
    /// Inbound connections whose handshake is not finished. Each lives at most 10 s.
    pub pending_inbound: usize,
    /// Dials under way.
    pub pending_dials: usize,
}

impl Default for NetworkLimits {
    fn default() -> Self {
        Self {
            // A burst of a thousand small frames is normal after a reconnect. Of the longest, 128 fit: far more than the
            // answers that one peer may have under way.
            outbound_frames: 2048,
            outbound_bytes: 2 * 1024 * 1024,
            event_queue: 64,
            max_peers: 128,
            max_inbound_peers: 96,
            pending_inbound: 64,
            pending_dials: 64,
        }
    }
}
