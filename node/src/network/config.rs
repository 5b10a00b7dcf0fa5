//! What a network is started with.

use std::{fmt, path::Path, sync::Arc, time::Duration};

use folklore_protocol::{PING_INTERVAL_MS, PING_TIMEOUT_MS};
use libp2p::{metrics::Metrics, pnet::PreSharedKey};

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
    /// Whether QUIC addresses may be listened on and dialled. TCP always may. Off where there is a [`NetworkConfig::psk`],
    /// whatever is said here.
    pub quic: bool,
    /// The key that every node of a private network has; without it nobody gets as far as a handshake. Never printed.
    pub psk: Option<PreSharedKey>,
    /// Whether to be a relay for others, within bounds; and to help them find out whether they can be reached, by dialling
    /// them back.
    pub relay: Option<RelayLimits>,
    /// Whether to reserve places at relays that this node is connected to and be reachable through them, as long as
    /// nobody has shown that it can be reached directly.
    pub use_relays: bool,
    /// Addresses of nodes behind whose NAT this node wants to be reached: dialled from the port that is listened on, so that
    /// the NAT's mapping is the one that others use.
    pub via: Vec<String>,
    /// Whether to serve the DHT when this node holds no public bank, for others.
    pub dht: bool,
    /// How often the DHT is asked for holders of public banks, and told of this one.
    pub dht_interval: Duration,
    /// How often addresses that others saw are handed to AutoNAT servers to be tested.
    pub nat_interval: Duration,
    /// Where libp2p's own metrics are counted.
    pub metrics: Option<Arc<Metrics>>,
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
            psk: None,
            relay: None,
            use_relays: true,
            via: Vec::new(),
            dht: false,
            // A holder that goes away is forgotten by the DHT after a day; one that comes is found within this.
            dht_interval: Duration::from_secs(600),
            nat_interval: Duration::from_secs(5),
            metrics: None,
            ping_interval: Duration::from_millis(PING_INTERVAL_MS),
            ping_timeout: Duration::from_millis(PING_TIMEOUT_MS),
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
            .field("psk", &self.psk.map(|_| "(not shown)"))
            .field("relay", &self.relay)
            .field("use_relays", &self.use_relays)
            .field("via", &self.via)
            .field("dht", &self.dht)
            .field("dht_interval", &self.dht_interval)
            .field("nat_interval", &self.nat_interval)
            .field("ping_interval", &self.ping_interval)
            .field("ping_timeout", &self.ping_timeout)
            .field("limits", &self.limits)
            .finish()
    }
}

/// Upper bounds of a network. Memory in the worst case is about
/// `max_peers * (outbound_bytes + 2 * MAX_FRAME_BYTES) + event_queue * MAX_FRAME_BYTES`.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// Dials under way: of the caller, and as many again of hole punching, AutoNAT and the DHT.
    pub pending_dials: usize,
    /// Connections of one peer at once. Two come about when both sides dial at the same moment, and two more belong to a
    /// peer that restarted while its former connections are not yet known to be dead.
    pub connections_per_peer: usize,
    /// No new connection is made while this process holds more physical memory than this. `None`: three quarters of what the
    /// machine has.
    pub memory_bytes: Option<usize>,
}

/// What a relay gives to others. The circuit's bounds are told to both ends, which make a new one when it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayLimits {
    /// Peers that may be reachable through this one.
    pub reservations: usize,
    /// Circuits at once.
    pub circuits: usize,
    /// Circuits of one peer at once.
    pub circuits_per_peer: usize,
    /// How long a circuit lasts.
    pub circuit_time: Duration,
    /// Bytes that a circuit carries, both ways together.
    pub circuit_bytes: u64,
}

impl Default for RelayLimits {
    /// More than libp2p's 128 KiB and 2 minutes, since a relay here is run for a known circle: a day's catch-up goes through one
    /// circuit. All circuits full are 512 MiB a quarter of an hour.
    fn default() -> Self {
        Self {
            reservations: 128,
            circuits: 64,
            circuits_per_peer: 8,
            circuit_time: Duration::from_secs(15 * 60),
            circuit_bytes: 8 * 1024 * 1024,
        }
    }
}

/// Why a file is not a pre-shared key.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The file system said no.
    #[error("cannot read the pre-shared key {path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// It holds something else.
    #[error(
        "{path} is not a pre-shared key: three lines are wanted, /key/swarm/psk/1.0.0/ then /base16/ then 64 hex digits \
         (32 random bytes)"
    )]
    Malformed {
        /// The file.
        path: String,
    },
    /// Others can read it.
    #[error("others on this machine can read the pre-shared key {path}: chmod 600 it")]
    Exposed {
        /// The file.
        path: String,
    },
}

/// Longest key file, bytes; the format has 95.
const MAX_KEY_FILE_BYTES: u64 = 1024;

/// Reads a pre-shared key in the format that other libp2p networks use (`swarm.key`).
pub fn read_psk(path: &Path) -> Result<PreSharedKey, KeyFileError> {
    use std::{io::Read, os::unix::fs::PermissionsExt};
    let text = || path.display().to_string();
    let io = |source| KeyFileError::Io { path: text(), source };
    let file = std::fs::File::open(path).map_err(io)?;
    if file.metadata().map_err(io)?.permissions().mode() & 0o077 != 0 {
        return Err(KeyFileError::Exposed { path: text() });
    }
    let mut content = String::new();
    file.take(MAX_KEY_FILE_BYTES).read_to_string(&mut content).map_err(io)?;
    content.parse().map_err(|_| KeyFileError::Malformed { path: text() })
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
            connections_per_peer: 4,
            memory_bytes: None,
        }
    }
}
