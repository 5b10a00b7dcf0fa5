//! Quantiles of a stream in bounded memory.

/// Buckets for each doubling: a value is told to within one part in this many.
const PER_OCTAVE: u64 = 64;

/// Counts of values in buckets whose width grows with the value: exact below 128, to 1.6 % above.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum: u128,
    most: u64,
}

impl Histogram {
    /// Takes in a value.
    pub fn add(&mut self, value: u64) {
        let at = bucket(value);
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += 1;
        self.total += 1;
        self.sum += u128::from(value);
        self.most = self.most.max(value);
    }

    /// How many values.
    pub fn len(&self) -> u64 {
        self.total
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Their mean, exactly; `None` if there are none.
    pub fn mean(&self) -> Option<f64> {
        (self.total > 0).then(|| self.sum as f64 / self.total as f64)
    }

    /// The largest, exactly; `None` if there are none.
    pub fn max(&self) -> Option<u64> {
        (self.total > 0).then_some(self.most)
    }

    /// The least value that at least this share of all do not exceed (nearest rank), as the upper end of its bucket.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let rank = ((share * self.total as f64).ceil() as u64).clamp(1, self.total.max(1));
        let mut before = 0;
        for (at, count) in self.counts.iter().enumerate() {
            before += count;
            if before >= rank {
                return Some(upper_end(at).min(self.most));
            }
        }
        None
    }
}

/// Below 2 × [`PER_OCTAVE`] each value has its own; above, each doubling has [`PER_OCTAVE`].
fn bucket(value: u64) -> usize {
    let linear = 2 * PER_OCTAVE;
    if value < linear {
        return value as usize;
    }
    let octave = u64::from(value.ilog2() - linear.ilog2());
    let within = (value >> (octave + 1)) - PER_OCTAVE;
    (linear + octave * PER_OCTAVE + within) as usize
}

fn upper_end(bucket: usize) -> u64 {
    let (bucket, linear) = (bucket as u64, 2 * PER_OCTAVE);
    if bucket < linear {
        return bucket;
    }
    let (octave, within) = ((bucket - linear) / PER_OCTAVE, (bucket - linear) % PER_OCTAVE);
    (((PER_OCTAVE + within + 1) as u128) << (octave + 1)).saturating_sub(1).min(u128::from(u64::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_values_are_exact() {
        let mut histogram = Histogram::default();
        (1..=100).rev().for_each(|value| histogram.add(value));
        assert_eq!(histogram.quantile(0.5), Some(50));
        assert_eq!(histogram.quantile(0.95), Some(95));
        assert_eq!((histogram.mean(), histogram.max()), (Some(50.5), Some(100)));
        assert_eq!(Histogram::default().quantile(0.5), None);
    }

    #[test]
    fn large_values_are_told_to_within_a_sixty_fourth() {
        for value in [127, 128, 129, 255, 256, 1_000, 65_535, 65_536, 1_000_003, u64::MAX / 3, u64::MAX] {
            let end = upper_end(bucket(value));
            assert!(end >= value && end - value <= value / PER_OCTAVE, "{value} {end}");
            // The next value after a bucket's end is in the next bucket.
            if end < u64::MAX {
                assert_eq!(bucket(end) + 1, bucket(end + 1), "{value}");
            }
        }
    }
}
