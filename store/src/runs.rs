//! Runs as the bank keeps them: finished ones as a head that can be indexed and bytes it does not look into, and those
//! under way step by step ([`log`]).

pub mod log;

use folklore_protocol::{
    canonical::{self, DecodeError},
    claim::{Outcome, RunDigest},
};
use serde::{Deserialize, Serialize};

/// Longest task key, bytes; a longer one should be hashed by whoever makes it.
pub const MAX_TASK_KEY_BYTES: usize = 1024;
/// Longest run, bytes. The longest agent runs published as files are about 5 MB.
pub const MAX_RUN_BYTES: usize = 32 * 1024 * 1024;
/// Room for a head: the task key, the digest and lengths.
const MAX_HEAD_BYTES: usize = MAX_TASK_KEY_BYTES + 128;

/// A run in the bank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRow {
    /// BLAKE3 of the run, as whoever made it computes it. The same run is stored once.
    pub digest: RunDigest,
    /// What task it was an attempt at; runs of one task share the key.
    pub task_key: String,
    /// How it ended.
    pub outcome: Outcome,
    /// The run itself. The bank cuts it into parts and puts it together again, and looks no further.
    pub bytes: Vec<u8>,
}

/// What happened to a run that was to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunOutcome {
    /// It is new and stored.
    Stored,
    /// It was there; nothing changed.
    Duplicate,
    /// It was there without a label and now has one.
    Relabelled,
}

/// What stands in front of a run's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunHead {
    pub digest: RunDigest,
    pub task_key: String,
    pub outcome: Outcome,
    pub len: u64,
}

impl RunRow {
    /// The value in the bank: the length of the head (2 bytes, little-endian), the head, the bytes.
    pub(crate) fn to_value(&self) -> Vec<u8> {
        let head = canonical::encode(&RunHead {
            digest: self.digest,
            task_key: self.task_key.clone(),
            outcome: self.outcome,
            len: self.bytes.len() as u64,
        });
        let mut out = Vec::with_capacity(2 + head.len() + self.bytes.len());
        out.extend_from_slice(&(head.len() as u16).to_le_bytes());
        out.extend_from_slice(&head);
        out.extend_from_slice(&self.bytes);
        out
    }

    pub(crate) fn from_value(value: &[u8]) -> Result<Self, DecodeError> {
        let (head, bytes) = RunHead::split_off(value)?;
        if bytes.len() as u64 != head.len {
            return Err(DecodeError::Invalid(format!("{} bytes of a run of {}", bytes.len(), head.len)));
        }
        Ok(Self { digest: head.digest, task_key: head.task_key, outcome: head.outcome, bytes: bytes.to_vec() })
    }
}

impl RunHead {
    /// Reads the head; also returns what follows it. The first part of a value is enough.
    pub(crate) fn split_off(value: &[u8]) -> Result<(Self, &[u8]), DecodeError> {
        let (len, rest) = value.split_first_chunk::<2>().ok_or(DecodeError::Empty)?;
        let (head, bytes) = rest
            .split_at_checked(usize::from(u16::from_le_bytes(*len)))
            .ok_or_else(|| DecodeError::Malformed("a run that ends in its head".into()))?;
        Ok((canonical::decode::<Self, MAX_HEAD_BYTES>(head)?, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_reads_back_and_a_cut_one_does_not() {
        let run = RunRow {
            digest: [5; 32],
            task_key: "k".repeat(MAX_TASK_KEY_BYTES),
            outcome: Outcome::Partial,
            bytes: vec![1; 5000],
        };
        let value = run.to_value();
        assert_eq!(RunRow::from_value(&value), Ok(run));
        for len in [0, 1, 2, 40, 1100, value.len() - 1] {
            assert!(RunRow::from_value(&value[..len]).is_err(), "{len}");
        }
    }
}
