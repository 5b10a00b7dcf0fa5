//! How many ids two sets differ in, told from 640 bytes a set.
//!
//! An odd sketch (Mitzenmacher, Pagh, Pham, WWW 2014): each id flips one bit, so the XOR of two sets' bits is that of their
//! difference, and the share of ones tells how many flips there were. 4,096 bits see every id, whose error is 4 % for
//! differences up to 3,000 and fades beyond 6,000; 1,024 more see one id in 128 with an error of 12 % up to 180,000.

use super::cells::mix;

const FINE_WORDS: usize = 64;
const COARSE_WORDS: usize = 16;
/// One id in so many flips a coarse bit.
const SAMPLED: u64 = 128;
/// Bytes of an estimate on the wire.
pub const ESTIMATE_BYTES: usize = 8 * (FINE_WORDS + COARSE_WORDS);
/// Sets it apart from the other uses of a short id.
const ESTIMATE_KEY: u64 = 0xa409_3822_299f_31d0;

/// The bits of one set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Estimate {
    fine: [u64; FINE_WORDS],
    coarse: [u64; COARSE_WORDS],
}

impl Default for Estimate {
    fn default() -> Self {
        Self { fine: [0; FINE_WORDS], coarse: [0; COARSE_WORDS] }
    }
}

/// A difference, as it was estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Estimated {
    /// About so many ids.
    pub(super) ids: usize,
    /// It may well be this many more percent. (A little less than two standard deviations: what is made of it, a number of
    /// cells, is generous itself.)
    pub(super) margin_percent: usize,
}

impl Estimate {
    /// Adds an id that is not there, or takes one away that is.
    pub(super) fn toggle(&mut self, short: u64) {
        let hash = mix(short ^ ESTIMATE_KEY);
        flip(&mut self.fine, hash);
        if (hash >> 32).is_multiple_of(SAMPLED) {
            flip(&mut self.coarse, hash >> 40);
        }
    }

    /// As it travels.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        self.fine.iter().chain(&self.coarse).flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Reads what came, if it has the length.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != ESTIMATE_BYTES {
            return None;
        }
        let mut words = bytes.chunks_exact(8).map(|c| c.iter().rev().fold(0, |w, byte| w << 8 | u64::from(*byte)));
        let fine = std::array::from_fn(|_| words.next().unwrap_or_default());
        let coarse = std::array::from_fn(|_| words.next().unwrap_or_default());
        Some(Self { fine, coarse })
    }

    /// How far the two sets are apart.
    pub(super) fn difference(&self, other: &Self) -> Estimated {
        let fine = flips(&self.fine, &other.fine);
        // Beyond this the share of ones is so near one half that it tells little.
        if fine < 6_000 {
            let margin_percent = match fine {
                0..1_200 => 7,
                1_200..3_000 => 9,
                _ => 14,
            };
            return Estimated { ids: fine, margin_percent };
        }
        let coarse = flips(&self.coarse, &other.coarse);
        Estimated { ids: coarse * SAMPLED as usize, margin_percent: 20 }
    }
}

fn flip(bits: &mut [u64], hash: u64) {
    let at = hash as usize % (64 * bits.len());
    bits[at / 64] ^= 1 << (at % 64);
}

/// How many flips leave as many ones as the two rows differ in: the expected ones after `d` flips of `m` bits are
/// `m / 2 × (1 - (1 - 2 / m)^d)`. By plain products, since a logarithm may differ between machines in its last bit.
fn flips(ours: &[u64], theirs: &[u64]) -> usize {
    let ones: u32 = ours.iter().zip(theirs).map(|(a, b)| (a ^ b).count_ones()).sum();
    let m = (64 * ours.len()) as f64;
    let left = 1.0 - 2.0 * f64::from(ones) / m;
    let (mut share, mut d) = (1.0, 0);
    // Half of the bits or more: as good as any number; stop at what six standard deviations below one half would say.
    while share > left && d < 2 * ours.len() * 64 {
        share *= 1.0 - 2.0 / m;
        d += 1;
    }
    d
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_machine_flips_these_bits() {
        let mut bits = Estimate::default();
        (0..200u64).for_each(|n| bits.toggle(mix(n)));
        let hash = blake3::hash(&bits.to_bytes()).to_string();
        assert_eq!(hash, "94b5abb3583c1491bb56db166ed66404f2887cfe88a7867b74c9d7e507d4ab8c");
        assert_eq!(bits.difference(&Estimate::default()), Estimated { ids: 206, margin_percent: 7 });
    }

    #[test]
    fn it_is_as_near_as_it_says() {
        for d in [0u64, 1, 10, 100, 500, 1_000, 2_000, 3_500, 5_000, 20_000, 100_000] {
            let mut off = 0;
            for trial in 0..60u64 {
                let (mut ours, mut theirs) = (Estimate::default(), Estimate::default());
                for n in 0..d {
                    let short = mix(trial << 40 | n);
                    if n % 3 == 0 { theirs.toggle(short) } else { ours.toggle(short) }
                }
                for n in 0..500 {
                    ours.toggle(mix(trial << 40 | 1 << 39 | n));
                    theirs.toggle(mix(trial << 40 | 1 << 39 | n));
                }
                let theirs = Estimate::from_bytes(&theirs.to_bytes()).unwrap();
                let told = ours.difference(&theirs);
                off += u32::from(told.ids + told.ids * told.margin_percent / 100 + 3 < d as usize);
                assert!(told.ids as u64 <= 2 * d + 3, "{told:?} of {d}");
            }
            assert!(off <= 12, "{off} of 60 estimates of {d} were too small");
        }
    }

    #[test]
    fn sets_that_have_little_in_common_are_said_to_be_far_apart() {
        let (mut ours, theirs) = (Estimate::default(), Estimate::default());
        (0..2_000_000).for_each(|n| ours.toggle(mix(n)));
        assert!(ours.difference(&theirs).ids > 100_000);
        assert_eq!(Estimate::from_bytes(&[0; 7]), None);
    }
}
