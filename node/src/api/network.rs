//! Status, banks, peers, sync, the doctor, and how a daemon is to run.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
};

use serde::{Deserialize, Serialize};

use super::TimeMs;
use crate::{
    embedding::EmbedderOptions,
    induction::InductionOptions,
    network::{NetworkLimits, RelayLimits},
};

/// The embedder in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbedderInfo {
    /// For example `builtin`.
    pub name: String,
    /// Which weights.
    pub revision: String,
    /// Numbers in a vector.
    pub dim: usize,
}

/// How a second embedder fares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbeddingInfo {
    /// What and where it is.
    pub service: String,
    /// What its vectors are kept under; null before it has answered.
    pub identity: Option<EmbedderInfo>,
    /// Whether it answers queries now; if not, the built-in embedder does.
    pub answers: bool,
    /// Lessons that wait for their vectors; null before it has answered.
    pub waiting: Option<u64>,
    /// Lessons that it gave no usable vectors for; they are tried again.
    pub failed: u64,
    /// What went wrong last, until something goes well.
    pub error: Option<String>,
}

/// A bank this node holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BankInfo {
    /// Bank id, hex.
    pub id: String,
    /// The owner's name for it.
    pub name: String,
    /// The owner's node id.
    pub owner: String,
    /// Records held.
    pub records: u64,
    /// Lessons whose bodies are held.
    pub lessons: u64,
    /// Root over every id known, hex; what reconcile compares.
    pub known_root: String,
    /// Root over what is held, hex. Equal roots, equal sets.
    pub held_root: String,
    /// Whether lessons go here when a request names no bank: the bank joined last, else the home's own.
    #[serde(default)]
    pub default: bool,
    /// Whether the DHT is told who holds it, so that strangers find it.
    #[serde(default)]
    pub public: bool,
}

/// A node that this one knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerInfo {
    /// Node id.
    pub id: String,
    /// Where it was reached or is said to be, as multiaddresses.
    pub addresses: Vec<String>,
    /// Whether a connection stands.
    pub connected: bool,
    /// When a reconcile with it last ended well.
    pub last_sync: Option<TimeMs>,
    /// Per bank id: everything that the peer held at this time is here.
    #[serde(default)]
    pub complete_as_of: BTreeMap<String, TimeMs>,
    /// Bytes received from it since the daemon started.
    #[serde(default)]
    pub bytes_in: u64,
    /// Bytes sent to it since the daemon started.
    #[serde(default)]
    pub bytes_out: u64,
    /// What the connection goes over.
    #[serde(default)]
    pub route: Option<RouteKind>,
    /// Of a relayed connection: what the relay said its circuit carries before it ends and a new one is made.
    #[serde(default)]
    pub circuit: Option<CircuitInfo>,
    /// Whether a person, a ticket or the configuration named it. Others are dialled while more neighbours are wanted.
    #[serde(default)]
    pub named: bool,
    /// When it is dialled next, if it is away.
    #[serde(default)]
    pub next_attempt: Option<TimeMs>,
    /// Attempts that came to nothing since it was last connected.
    #[serde(default)]
    pub failed_attempts: u32,
    /// Why the last of them did.
    #[serde(default)]
    pub last_error: Option<String>,
    /// Until when it is shut out for breaking the protocol.
    #[serde(default)]
    pub barred_until: Option<TimeMs>,
}

/// What a connection goes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RouteKind {
    /// From host to host.
    Direct,
    /// From host to host, arranged over a relay: mostly through a NAT that was opened for it.
    HolePunched,
    /// Through a relay.
    Relayed,
}

/// The bounds of a relayed circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CircuitInfo {
    /// Bytes both ways together; null: the relay named no bound.
    pub limit_bytes: Option<u64>,
    /// Seconds; null: the relay named no bound.
    pub limit_seconds: Option<u64>,
}

/// An address that is dialled, and where nobody has answered yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DialInfo {
    /// Where.
    pub address: String,
    /// When it is dialled next.
    pub next_attempt: Option<TimeMs>,
    /// Attempts that came to nothing.
    pub failed_attempts: u32,
    /// Why the last of them did.
    pub last_error: Option<String>,
}

/// Whether others can reach this node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NatKind {
    /// Nobody has tested it: no node that does so (one with `--relay`) is connected.
    #[default]
    Unknown,
    /// Somebody dialled this node and got through.
    Public,
    /// Somebody dialled this node and did not get through.
    Private,
}

/// A relay's work for others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayInfo {
    /// Nodes that are reachable through this one.
    pub reservations: u64,
    /// Circuits now.
    pub circuits: u64,
}

/// A node's part in the DHT of public banks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DhtInfo {
    /// Whether it answers others' queries.
    pub serving: bool,
    /// Nodes it knows there.
    pub nodes: u64,
    /// Public banks of its own that it announces.
    pub published: u64,
    /// Banks of which it keeps the names of others that hold them.
    pub kept: u64,
}

/// How this node is connected.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkInfo {
    /// Whether others can reach it.
    pub nat: NatKind,
    /// Addresses that others confirmed, or that were configured.
    pub external: Vec<String>,
    /// What others are told, in tickets too.
    pub announced: Vec<String>,
    /// Relays through which it is reachable, node ids.
    pub relays: Vec<String>,
    /// Its work as a relay; null: it is none.
    pub relay: Option<RelayInfo>,
    /// Its part in the DHT.
    pub dht: DhtInfo,
    /// Whether only nodes with the same pre-shared key can connect.
    pub private: bool,
    /// Whether QUIC is on. A pre-shared key switches it off.
    pub quic: bool,
    /// How often each bound was hit since the daemon started, by its name.
    pub limit_hits: BTreeMap<String, u64>,
    /// Addresses where nobody has answered yet.
    pub dialing: Vec<DialInfo>,
}

/// Work waiting in the durable queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobCounts {
    /// Not done yet.
    pub waiting: u64,
    /// Given up.
    pub failed: u64,
}

/// The rules that keep secrets out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedactionInfo {
    /// Version of the rule set.
    pub rules_version: u32,
}

/// Bytes on all links since the daemon started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Received.
    pub bytes_in: u64,
    /// Sent.
    pub bytes_out: u64,
}

/// How the bank's files are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageInfo {
    /// Bytes of the database file.
    pub file_bytes: u64,
    /// Bytes of the values in it; the rest is waste until the next rewrite.
    pub live_bytes: u64,
    /// Rewrites into a fresh database since the daemon started.
    pub rewrites: u32,
    /// Whether one is under way.
    pub rewriting: bool,
    /// Why the last one came to nothing.
    pub rewrite_failed: Option<String>,
    /// Why no writes are taken at the moment; null when they are.
    pub stopped: Option<String>,
    /// Times that writing was taken up again by itself.
    pub resumed: u32,
    /// Values that could not be read since the daemon started, by name; peers are told that they are absent.
    pub unreadable: Vec<String>,
    /// How far a check of every hash and signature has come; null when none is under way.
    pub verifying: Option<Verifying>,
}

/// How far a check of every hash and signature has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verifying {
    /// Values checked.
    pub done: u64,
    /// Values to check.
    pub total: u64,
}

/// Answer of `status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// This node's id.
    pub node: String,
    /// Version of the program.
    pub version: String,
    /// The home directory.
    pub data: String,
    /// The daemon's process id.
    pub pid: u32,
    /// Address of the HTTP door, `host:port`.
    pub http: String,
    /// Multiaddresses where peers reach this node.
    pub listening: Vec<String>,
    /// The banks.
    pub banks: Vec<BankInfo>,
    /// The nodes known.
    pub peers: Vec<PeerInfo>,
    /// The embedder that answers queries now.
    pub embedder: EmbedderInfo,
    /// The second embedder; null: there is only the built-in one.
    #[serde(default)]
    pub embedding: Option<EmbeddingInfo>,
    /// The queue.
    pub jobs: JobCounts,
    /// How induction by a model fares; null where none is configured and nothing waits.
    #[serde(default)]
    pub induction: Option<super::InductionInfo>,
    /// What was done and lost when the store was opened; null when there is nothing to say.
    pub recovery: Option<Vec<String>>,
    /// The bank's files.
    #[serde(default)]
    pub storage: StorageInfo,
    /// The secret rules.
    pub redaction: RedactionInfo,
    /// The links.
    pub traffic: Traffic,
    /// How it is connected.
    #[serde(default)]
    pub network: NetworkInfo,
}

/// Answer of `bank list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BankListResponse {
    /// The banks.
    pub banks: Vec<BankInfo>,
}

/// `bank create`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BankCreateRequest {
    /// Its name, at most 64 bytes.
    pub name: String,
    /// Whether it is public: found by anybody who knows its owner and name, through the DHT. Cannot be changed later.
    #[serde(default)]
    pub public: bool,
}

/// `bank invite`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BankInviteRequest {
    /// Name or id; none: the bank this home owns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bank: Option<String>,
}

/// Answer of `bank invite`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BankInviteResponse {
    /// All that another node needs to join.
    pub ticket: String,
    /// Bank id.
    pub bank: String,
}

/// `bank join`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BankJoinRequest {
    /// What `bank invite` printed.
    pub ticket: String,
}

/// Answer of `bank join`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BankJoinResponse {
    /// Bank id.
    pub bank: String,
    /// The owner's name for it.
    pub name: String,
    /// The owner's node id.
    pub owner: String,
    /// Multiaddresses being dialled.
    pub dialing: Vec<String>,
}

/// Answer of `peers`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeersResponse {
    /// The nodes known.
    pub peers: Vec<PeerInfo>,
    /// Addresses where nobody has answered yet.
    #[serde(default)]
    pub dialing: Vec<DialInfo>,
}

/// `sync`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SyncRequest {
    /// Node id; none: every peer known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// Answer only when done, or when the time is over.
    #[serde(default)]
    pub wait: bool,
    /// How long to wait, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// What a sync did with one peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncedPeer {
    /// Node id.
    pub id: String,
    /// Whether it could be reached.
    pub reached: bool,
    /// Whether everything it held when asked is here.
    pub complete: bool,
    /// Records received.
    pub received: u64,
    /// Records sent.
    pub sent: u64,
}

/// Answer of `sync`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncResponse {
    /// Peer by peer.
    pub peers: Vec<SyncedPeer>,
    /// Whether all of them are complete.
    pub complete: bool,
    /// Node ids of those that are not.
    pub missing: Vec<String>,
}

/// `doctor`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DoctorRequest {
    /// Also read everything and check every hash and signature.
    #[serde(default)]
    pub verify: bool,
    /// Also look through every text held for secrets, by the rules of this version.
    #[serde(default)]
    pub secrets: bool,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// What.
    pub name: String,
    /// Whether it is well.
    pub ok: bool,
    /// What was found; where not well, what to do.
    pub detail: String,
}

impl Check {
    /// Something looked at and found in this state.
    pub fn new(name: impl Into<String>, ok: bool, detail: impl Into<String>) -> Self {
        Self { name: name.into(), ok, detail: detail.into() }
    }
}

/// Answer of `doctor`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoctorResponse {
    /// Whether every check is well.
    pub ok: bool,
    /// The checks, in the order they were made.
    pub checks: Vec<Check>,
}

/// Cuts or heals a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockRequest {
    /// Node id.
    pub peer: String,
    /// `true` cuts, `false` heals.
    pub blocked: bool,
}

/// Answer of the cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockResponse {
    /// Node id.
    pub peer: String,
    /// How the link is now.
    pub blocked: bool,
}

/// How a daemon is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpOptions {
    /// Addresses to listen on for peers; empty: a port on loopback, the same as last time if it is free.
    pub listen: Vec<String>,
    /// Addresses that others are told, in tickets too, instead of those listened on; empty: the ones listened on.
    pub announce: Vec<String>,
    /// Listen nowhere: others reach this node through relays, or not at all.
    pub no_listen: bool,
    /// Addresses of peers to dial for ever.
    pub peers: Vec<String>,
    /// Addresses of nodes by which others are found: dialled for ever as well.
    pub bootstrap: Vec<String>,
    /// Addresses of relays through which this node wants to be reached: dialled for ever as well.
    pub via: Vec<String>,
    /// Whether to be a relay for others.
    pub relay: bool,
    /// Whether to be reachable through relays as long as nobody has shown that it can be reached directly.
    pub use_relays: bool,
    /// Whether to serve the DHT of public banks even without one.
    pub dht: bool,
    /// Whether QUIC addresses may be used; not with a pre-shared key.
    pub quic: bool,
    /// A file with the pre-shared key of a private network; none: `swarm.key` in the home, if there is one.
    pub psk: Option<PathBuf>,
    /// Upper bounds on connections and memory.
    pub limits: NetworkLimits,
    /// Upper bounds of what is relayed for others.
    pub relay_limits: RelayLimits,
    /// Where the HTTP door opens; loopback only. Port 0 takes any free port.
    pub http: SocketAddr,
    /// Whether to look for peers, and be found, on the local network.
    pub mdns: bool,
    /// A second embedder; what it leaves out, `embedder.json` in the home may say.
    pub embedder: EmbedderOptions,
    /// The model that draws lessons; what it leaves out, `induction.json` in the home may say.
    pub induction: InductionOptions,
    /// Use the built-in embedder only, whatever `embedder.json` says.
    pub builtin_only: bool,
    /// Whether peers that share a bank are shown, redacted, what agents here recall lessons for, so that what is near to it is
    /// fetched first.
    pub fetch_near: bool,
}

impl Default for UpOptions {
    fn default() -> Self {
        let http = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self {
            listen: Vec::new(),
            announce: Vec::new(),
            no_listen: false,
            peers: Vec::new(),
            bootstrap: Vec::new(),
            via: Vec::new(),
            relay: false,
            use_relays: true,
            dht: false,
            quic: true,
            psk: None,
            limits: NetworkLimits::default(),
            relay_limits: RelayLimits::default(),
            http,
            mdns: false,
            embedder: EmbedderOptions::default(),
            induction: InductionOptions::default(),
            builtin_only: false,
            fetch_near: false,
        }
    }
}

/// What a daemon says when it answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpReady {
    /// The node's id.
    pub node: String,
    /// Where peers reach it, multiaddresses.
    pub listening: Vec<String>,
    /// Where the HTTP door is.
    pub http: SocketAddr,
    /// The home directory.
    pub data: String,
    /// Its process id.
    pub pid: u32,
}
