//! Where all randomness of a run comes from: one ChaCha stream for each (seed, node, purpose).
//!
//! What is drawn for one purpose never moves what is drawn for another, so the arms of an experiment meet the same tasks and
//! the same faults although they send different messages.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// The node that stands for the world itself, where a stream belongs to no node.
pub const WORLD: u64 = u64::MAX;

/// What a stream is for. The numbers are part of what a seed means: a new purpose takes a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Purpose {
    /// A node's key.
    Key = 1,
    /// The protocol's own jitter and numbers.
    Protocol = 2,
    /// Jitter and loss of what a node sends.
    Link = 3,
    /// When a node's agents work, and on what.
    Tasks = 4,
    /// What goes wrong, when and where.
    Faults = 5,
    /// Who knows whom at the beginning.
    Topology = 6,
    /// What a hostile node makes up.
    Hostile = 7,
    /// When a node looks after its connections, and for how long all were up when a run begins.
    Carrier = 8,
}

/// The key of a stream. `life` tells starts of one node apart.
pub fn key(seed: u64, node: u64, purpose: Purpose, life: u64) -> [u8; 32] {
    let mut key = [purpose as u8; 32];
    for (at, word) in [seed, node, life].into_iter().enumerate() {
        key[8 * at..8 * (at + 1)].copy_from_slice(&word.to_le_bytes());
    }
    key
}

/// A stream.
pub fn stream(seed: u64, node: u64, purpose: Purpose) -> ChaCha8Rng {
    ChaCha8Rng::from_seed(key(seed, node, purpose, 0))
}

/// Evenly from `0..below`; 0 where that is empty. The bias of the remainder is below one in 2^32 for anything drawn here.
pub fn below(rng: &mut ChaCha8Rng, below: u64) -> u64 {
    if below == 0 { 0 } else { rng.next_u64() % below }
}

/// Whether something that happens `ppm` times in a million happens.
pub fn chance(rng: &mut ChaCha8Rng, ppm: u32) -> bool {
    rng.next_u32() % 1_000_000 < ppm
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_seed_node_and_purpose_and_are_the_same_twice() {
        let first = |seed, node, purpose| stream(seed, node, purpose).next_u64();
        let base = first(1, 2, Purpose::Tasks);
        assert_eq!(base, first(1, 2, Purpose::Tasks));
        for other in [first(2, 2, Purpose::Tasks), first(1, 3, Purpose::Tasks), first(1, 2, Purpose::Faults)] {
            assert_ne!(base, other);
        }
    }
}
