//! What can be tuned, with units and reasons, in one place.

/// Delays and bounds of a [`Node`](crate::Node). All times in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// A connected peer that has not greeted within this is let go: it is mute.
    pub greeting_timeout_ms: u64,
    /// Each pair of connected peers compares roots about this often (a quarter more or less), so that a lost announcement
    /// is made good without waiting for the next reconnect.
    pub reconcile_every_ms: u64,
    /// Who does not open the reconcile after a greeting waits this long for the other to do so before it opens one itself.
    pub reconcile_fallback_ms: u64,
    /// An unanswered request is given up after this. Long enough for 64 KiB over a slow relay.
    pub request_timeout_ms: u64,
    /// Requests in a row a peer may leave unanswered before the connection is taken for dead and made anew.
    pub timeouts_before_disconnect: u32,
    /// How long to wait for the whole record after its id alone was announced, before the tree is repaired.
    pub graft_delay_ms: u64,
    /// First wait before dialling again.
    pub dial_backoff_ms: u64,
    /// Longest wait before dialling again. Peers that went away are tried for ever.
    pub dial_backoff_cap_ms: u64,
    /// A peer that said it is busy is asked again after this.
    pub busy_pause_ms: u64,
    /// A peer that has at least this many records for this node is asked which of them to fetch first. Fewer come so soon that
    /// their order matters little.
    pub suggest_from: usize,
    /// A failed write (disk full, say) is tried again after this.
    pub admit_retry_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            greeting_timeout_ms: 10_000,
            reconcile_every_ms: 30_000,
            reconcile_fallback_ms: 2_000,
            request_timeout_ms: 15_000,
            timeouts_before_disconnect: 3,
            graft_delay_ms: 500,
            dial_backoff_ms: 500,
            dial_backoff_cap_ms: 30_000,
            busy_pause_ms: 500,
            suggest_from: 64,
            admit_retry_ms: 5_000,
        }
    }
}

/// Time between two pings on a connection, milliseconds. What carries the messages is outside of this crate, but how soon it finds
/// that a link is cut, and that it is not any more, decides how soon nodes are whole again: so the daemon and the simulator
/// both take it from here.
pub const PING_INTERVAL_MS: u64 = 10_000;
/// How long the answer to a ping may take, milliseconds. A connection on which nothing was heard for an interval and this is dead:
/// a cut is noticed after 10 to 20 s, soon enough that a cut of a minute is seen as one, late enough that a busy host is not
/// thrown out.
pub const PING_TIMEOUT_MS: u64 = 10_000;
/// How often it is looked for connections on which nothing is heard, milliseconds.
pub const SILENCE_CHECK_MS: u64 = 1_000;
/// A dial that has not come to the end of the handshake after this is given up, milliseconds. TCP sends the first packet of a
/// dial again after 1, 3 and 7 s, so one that begins during a cut still connects when the link comes back.
pub const DIAL_TIMEOUT_MS: u64 = 10_000;
/// Most peers remembered. Peers that were never given as an address are the first to go.
pub const MAX_PEERS: usize = 4096;
/// Most addresses remembered for a peer; the latest confirmed come first.
pub const MAX_ADDRESSES: usize = 8;
/// Longest address, bytes.
pub const MAX_ADDRESS_BYTES: usize = 256;
/// Protocol breaches after which a peer is disconnected.
pub const MAX_STRIKES: u32 = 8;
/// How long a peer with too many strikes is not dialled.
pub const STRUCK_OUT_MS: u64 = 3_600_000;
/// A dial whose outcome has not come after this is tried again, milliseconds. Longer than any transport tries.
pub const DIAL_GIVEN_UP_MS: u64 = 60_000;
/// Records held without the body they name that are remembered, so that others are asked for it; and how many of them a peer
/// is asked for when it comes, and at each regular comparison.
pub const MAX_BODILESS: usize = 4096;
/// How many bodies that are lacking a peer is asked for at a time.
pub const BODIES_ASKED: usize = 16;
/// Requests under way with one peer: one being answered while the next is on its way.
pub const REQUESTS_PER_PEER: usize = 2;
/// Loads and searches under way for one peer; more are refused as busy.
pub const SERVED_PER_PEER: usize = 8;
/// One part in this many of what a connection has carried is asked for at once, so that a cut costs no more than that.
pub const AT_STAKE: usize = 10;
/// Least bytes of records asked for in one batch: the first ones of a connection.
pub const LEAST_BATCH_BYTES: usize = 2 * 1024;
/// Records handed to storage and not yet answered, per bank. More fetches wait, more pushes are dropped.
pub const MAX_ADMITTING: usize = 1024;
/// Records known to be missing, per bank. What is beyond is found again by the next reconcile.
pub const MAX_WANTED: usize = 1 << 20;
/// Records that one peer may say it has, per bank, and that wait to be asked of it: no one fills the list for all.
pub const MAX_WANTED_OF_ONE: usize = 1 << 18;
/// Parts of the tree one reconcile may ask about: the leaves of ten million records.
pub const MAX_SESSION_PROBES: usize = 1 << 21;
/// Records in a row that came by id alone, after which the tree is taken for broken here. One may have been lost on a link
/// that is whole.
pub const GAPS_TO_GRAFT: u32 = 2;
/// Ids held back for a graft, per peer and bank.
pub const MAX_GRAFT_IDS: usize = 4096;
/// Published at once up to this many records are pushed whole; more are announced by id and fetched in batches.
pub const PUSH_BATCH: usize = 16;
/// Hops after which a pushed record is no longer passed on; reconcile carries it further.
pub const MAX_HOPS: u32 = 64;
/// Queries of this node's own under way at once.
pub const MAX_ASKS: usize = 64;
