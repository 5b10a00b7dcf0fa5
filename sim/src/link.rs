//! The link model: latency, jitter, loss and cuts. No other place models a link.

use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;
use rand_core::Rng;

/// What a message meets between two nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Least time under way, milliseconds.
    pub latency_ms: u64,
    /// Up to this much more, drawn evenly.
    pub jitter_ms: u64,
    /// Messages lost, per million. (A TCP stream loses none; a message dropped from a full queue is lost just so.)
    pub loss_ppm: u32,
    /// Nothing passes.
    pub cut: bool,
}

impl Default for Link {
    fn default() -> Self {
        Self { latency_ms: 20, jitter_ms: 10, loss_ppm: 0, cut: false }
    }
}

/// All links; those never touched are the default one.
#[derive(Debug, Clone, Default)]
pub struct Links {
    default: Link,
    by_pair: BTreeMap<(usize, usize), Link>,
    /// For each direction, when the last message arrives: a stream keeps its order.
    last_arrival: BTreeMap<(usize, usize), u64>,
}

impl Links {
    /// Links that are all like `default`.
    pub fn new(default: Link) -> Self {
        Self { default, by_pair: BTreeMap::new(), last_arrival: BTreeMap::new() }
    }

    /// The link between two nodes.
    pub fn get(&self, a: usize, b: usize) -> Link {
        self.by_pair.get(&(a.min(b), a.max(b))).copied().unwrap_or(self.default)
    }

    /// The link between two nodes, to change.
    pub fn get_mut(&mut self, a: usize, b: usize) -> &mut Link {
        let default = self.default;
        self.by_pair.entry((a.min(b), a.max(b))).or_insert(default)
    }

    /// When a message sent at `now_ms` arrives, or `None` if it is lost.
    pub fn arrival(&mut self, from: usize, to: usize, now_ms: u64, rng: &mut ChaCha8Rng) -> Option<u64> {
        let link = self.get(from, to);
        let (loss, jitter) = (rng.next_u32() % 1_000_000, rng.next_u64());
        if link.cut || loss < link.loss_ppm {
            return None;
        }
        let at = now_ms + link.latency_ms + jitter % (link.jitter_ms + 1);
        let last = self.last_arrival.entry((from, to)).or_default();
        *last = at.max(*last);
        Some(*last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::SeedableRng;

    #[test]
    fn loss_is_near_the_rate_asked_for_and_order_is_kept() {
        let mut rng = ChaCha8Rng::from_seed([1; 32]);
        let mut links = Links::new(Link { loss_ppm: 200_000, ..Link::default() });
        let arrivals: Vec<u64> = (0..10_000).filter_map(|n| links.arrival(0, 1, n, &mut rng)).collect();
        assert!((7_800..8_200).contains(&arrivals.len()), "{}", arrivals.len());
        assert!(arrivals.windows(2).all(|w| w[0] <= w[1]));
    }

    #[test]
    fn nothing_passes_a_cut() {
        let mut rng = ChaCha8Rng::from_seed([1; 32]);
        let mut links = Links::default();
        links.get_mut(3, 1).cut = true;
        assert_eq!(links.arrival(1, 3, 0, &mut rng), None);
        assert!(links.arrival(1, 2, 0, &mut rng).is_some());
    }
}
