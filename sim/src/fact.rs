//! What happened in a world, as plain data for whoever measures it.

use folklore_protocol::RecordId;

/// One thing that happened. Times are true virtual time, milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each field is what it is called; nodes are by number")]
pub enum Fact {
    /// A message went onto a link.
    Sent { at_ms: u64, from: usize, to: usize, kind: &'static str, bytes: usize, records: usize },
    /// A message came.
    Arrived { at_ms: u64, from: usize, to: usize, kind: &'static str, bytes: usize },
    /// A message was lost on the way. `stopped`: by a partition.
    Lost { at_ms: u64, from: usize, to: usize, stopped: bool },
    /// A partition holds a message back.
    Held { at_ms: u64, from: usize, to: usize },
    /// A connection stands.
    Connected { at_ms: u64, a: usize, b: usize },
    /// A connection ended.
    Disconnected { at_ms: u64, a: usize, b: usize },
    /// A node has a record that came from another. `hops`: nodes that it passed, if it was pushed; fetched: `None`.
    Stored { at_ms: u64, node: usize, from: usize, id: RecordId, hops: Option<u32> },
    /// A record came that a node had already.
    Duplicate { at_ms: u64, node: usize, from: usize },
    /// A node's storage found a record wrong, and did not take it.
    Invalid { at_ms: u64, node: usize, from: usize },
    /// A node's own record is durable.
    Acknowledged { at_ms: u64, node: usize, id: RecordId },
    /// A node's own record was not taken: its disk is full, or it crashed first.
    Refused { at_ms: u64, node: usize, id: RecordId },
    /// A node stopped.
    Down { at_ms: u64, node: usize },
    /// A node started.
    Up { at_ms: u64, node: usize },
}
