//! Status, banks, peers, sync, the doctor, and how a daemon is to run.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
};

use serde::{Deserialize, Serialize};

use super::TimeMs;

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
    /// The embedder.
    pub embedder: EmbedderInfo,
    /// The queue.
    pub jobs: JobCounts,
    /// What was done and lost when the store was opened; null when there is nothing to say.
    pub recovery: Option<Vec<String>>,
    /// The secret rules.
    pub redaction: RedactionInfo,
    /// The links.
    pub traffic: Traffic,
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
    /// Addresses of peers to dial for ever.
    pub peers: Vec<String>,
    /// Where the HTTP door opens; loopback only. Port 0 takes any free port.
    pub http: SocketAddr,
    /// Whether to look for peers, and be found, on the local network.
    pub mdns: bool,
    /// Whether peers that share a bank are shown, redacted, what agents here recall lessons for, so that what is near to it is
    /// fetched first.
    pub fetch_near: bool,
}

impl Default for UpOptions {
    fn default() -> Self {
        let http = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self { listen: Vec::new(), announce: Vec::new(), peers: Vec::new(), http, mdns: false, fetch_near: false }
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
