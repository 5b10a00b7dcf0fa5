//! Byte and frame counts, per peer and in total.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use super::{frame::FRAME_HEADER_BYTES, identity::PeerKey};

/// Counts of one peer, or of all, since the network started. Frames with their four-byte header are counted; what
/// Noise, Yamux, ping and identify add is not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrafficCount {
    /// Bytes received in whole frames.
    pub bytes_in: u64,
    /// Bytes handed to the transport.
    pub bytes_out: u64,
    /// Frames received.
    pub frames_in: u64,
    /// Frames handed to the transport.
    pub frames_out: u64,
}

/// All counts at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Over all peers, those gone and forgotten included.
    pub total: TrafficCount,
    /// For each peer that is connected or was lately.
    pub peers: BTreeMap<PeerKey, TrafficCount>,
}

/// Live counts; each number is exact, but they are not read at one instant.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    frames_in: AtomicU64,
    frames_out: AtomicU64,
}

impl Traffic {
    pub(super) fn received(&self, payload: usize) {
        self.bytes_in.fetch_add(wire_bytes(payload), Relaxed);
        self.frames_in.fetch_add(1, Relaxed);
    }

    pub(super) fn sent(&self, payload: usize) {
        self.bytes_out.fetch_add(wire_bytes(payload), Relaxed);
        self.frames_out.fetch_add(1, Relaxed);
    }

    pub(super) fn snapshot(&self) -> TrafficCount {
        TrafficCount {
            bytes_in: self.bytes_in.load(Relaxed),
            bytes_out: self.bytes_out.load(Relaxed),
            frames_in: self.frames_in.load(Relaxed),
            frames_out: self.frames_out.load(Relaxed),
        }
    }
}

fn wire_bytes(payload: usize) -> u64 {
    payload.saturating_add(FRAME_HEADER_BYTES) as u64
}
