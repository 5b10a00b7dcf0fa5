//! Coded cells: a set as an endless row of sums, any prefix of which can be subtracted from another set's.
//!
//! A cell holds the XOR of the short ids that fall into it and the XOR of a check of each. Which cells an id falls into
//! follows from the id alone: cell 0, and cell `i` with probability 1 / (1 + i / 2), independently (the irregular mapping of
//! Yang, Gilad and Alizadeh, section 4). So a set may be coded as far as somebody asks, and the first cells of two sets,
//! XORed, are the first cells of their difference.
//!
//! Since the cells are independent of each other, the row may be drawn in stretches, each from a number of its own, and is
//! the same code. It is drawn in two: the cells that a bank keeps, and those beyond, which are made of the whole set when a
//! session needs them. So making them costs the few draws that fall there and not the score that leads up to them.

use serde::{Deserialize, Serialize};

use crate::record::RecordId;

/// The step of splitmix64 (Steele, Lea, Flood, OOPSLA 2014): the odd number nearest 2^64 over the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// What tells the uses of one short id apart: the cells it falls into, and its check. Any numbers do; these are in the format.
const MAPPING_KEY: u64 = 0x2438_6a88_85a3_08d3;
const FAR_KEY: u64 = 0xbe54_66cf_34e9_0c6c;
const CHECK_KEY: u64 = 0x1319_8a2e_0370_7344;
/// The first cell of the second stretch, which is drawn under a key of its own. In the format.
pub(super) const FAR: usize = 4096;

/// Mixes 64 bits so that each depends on all (the finaliser of splitmix64). It keeps no secret and needs none.
pub(super) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The check of a short id, by which a cell that holds one id alone is told from a sum of several.
pub(super) fn check_of(short: u64) -> u32 {
    (mix(short ^ CHECK_KEY) >> 32) as u32
}

/// Draws cells behind `at`, ascending, and calls `each` with those from `from` on and below `to`.
///
/// After cell `i` the next is at `i + g`, where the chance that `g` is more than `x` is ((i + 1.5) / (i + 1.5 + x))². With
/// `u` drawn evenly from (0, 1] that is `g = ceil((i + 1.5) × (1 / √u - 1))`. Only additions, products, quotients and roots
/// of `f64` occur, each of which IEEE 754 rounds in one way, so the cells are the same on every machine.
#[inline]
fn draw(mut state: u64, mut at: u32, from: u32, to: u32, each: &mut impl FnMut(usize)) {
    while at < to {
        state = state.wrapping_add(GOLDEN);
        // 53 bits: as many as an f64 holds exactly.
        let u = ((mix(state) >> 11) + 1) as i64 as f64 * (1.0 / (1u64 << 53) as f64);
        let gap = (f64::from(at) + 1.5) * (1.0 / u.sqrt() - 1.0);
        if gap > f64::from(to - at - 1) {
            return;
        }
        let whole = gap as u32;
        at += if f64::from(whole) < gap { whole + 1 } else { whole.max(1) };
        if from <= at && at < to {
            each(at as usize);
        }
    }
}

/// Calls `each` with the cells below `to` that a short id falls into, ascending, from cell `from` on.
#[inline]
pub(super) fn cells_between(short: u64, from: u32, to: u32, mut each: impl FnMut(usize)) {
    const FAR: u32 = self::FAR as u32;
    if from < to.min(FAR) {
        if from == 0 {
            each(0);
        }
        draw(mix(short ^ MAPPING_KEY), 0, from, to.min(FAR), &mut each);
    }
    if to > FAR {
        draw(mix(short ^ FAR_KEY), FAR - 1, from, to, &mut each);
    }
}

/// Whether a short id falls into cell `cell`.
fn falls_into(short: u64, cell: usize) -> bool {
    let mut falls = false;
    cells_between(short, cell as u32, cell as u32 + 1, |_| falls = true);
    falls
}

/// One cell, as it travels: 12 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cell {
    /// XOR of the short ids, little endian.
    pub short: [u8; 8],
    /// XOR of their checks, little endian.
    pub check: [u8; 4],
}

/// The first cells of a set. 12 bytes a cell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cells {
    pub(super) shorts: Vec<u64>,
    pub(super) checks: Vec<u32>,
}

impl Cells {
    /// `len` cells of the empty set.
    pub(super) fn new(len: usize) -> Self {
        Self { shorts: vec![0; len], checks: vec![0; len] }
    }

    /// The first `len` cells of a set.
    #[cfg(test)]
    pub(super) fn of(shorts: impl IntoIterator<Item = u64>, len: usize) -> Self {
        let mut cells = Self::new(len);
        shorts.into_iter().for_each(|short| cells.toggle(short));
        cells
    }

    pub(super) fn len(&self) -> usize {
        self.shorts.len()
    }

    /// Adds an id that is not there, or takes one away that is.
    pub(super) fn toggle(&mut self, short: u64) {
        self.toggle_each(short, |_| {});
    }

    /// The same, and tells which cells were touched.
    pub(super) fn toggle_each(&mut self, short: u64, mut touched: impl FnMut(usize)) {
        let check = check_of(short);
        let (shorts, checks) = (&mut self.shorts, &mut self.checks);
        cells_between(short, 0, shorts.len() as u32, |at| {
            shorts[at] ^= short;
            checks[at] ^= check;
            touched(at);
        });
    }

    /// Adds an id to the cells from `from` on alone.
    pub(super) fn add_from(&mut self, from: usize, short: u64) {
        let check = check_of(short);
        let (shorts, checks) = (&mut self.shorts, &mut self.checks);
        cells_between(short, from as u32, shorts.len() as u32, |at| {
            shorts[at] ^= short;
            checks[at] ^= check;
        });
    }

    /// Appends the cells of a longer row that lie behind those there are.
    pub(super) fn extend_with(&mut self, longer: Self) {
        self.shorts.extend(longer.shorts.into_iter().skip(self.checks.len()));
        self.checks.extend(longer.checks.into_iter().skip(self.checks.len()));
    }

    /// Cells `from..to` as they travel; fewer where there are fewer.
    pub(super) fn slice(&self, from: usize, to: usize) -> Vec<Cell> {
        let to = to.min(self.len());
        (from.min(to)..to)
            .map(|n| Cell { short: self.shorts[n].to_le_bytes(), check: self.checks[n].to_le_bytes() })
            .collect()
    }

    /// Appends cells that came.
    pub(super) fn extend(&mut self, cells: &[Cell]) {
        self.shorts.extend(cells.iter().map(|c| u64::from_le_bytes(c.short)));
        self.checks.extend(cells.iter().map(|c| u32::from_le_bytes(c.check)));
    }

    /// The first `len` cells alone.
    pub(super) fn first(&self, len: usize) -> Self {
        let len = len.min(self.len());
        Self { shorts: self.shorts[..len].to_vec(), checks: self.checks[..len].to_vec() }
    }

    /// The cells of the difference: as many as the shorter of the two has.
    pub(super) fn minus(&self, other: &Self) -> Self {
        Self {
            shorts: self.shorts.iter().zip(&other.shorts).map(|(a, b)| a ^ b).collect(),
            checks: self.checks.iter().zip(&other.checks).map(|(a, b)| a ^ b).collect(),
        }
    }

    /// Whether cell `at` holds nothing.
    fn is_zero(&self, at: usize) -> bool {
        self.shorts[at] == 0 && self.checks[at] == 0
    }

    /// Whether cell `at` seems to hold one id alone: the check fits, and the id is one that falls there.
    fn is_pure(&self, at: usize) -> bool {
        let short = self.shorts[at];
        self.checks[at] == check_of(short) && falls_into(short, at)
    }

    /// Takes the cells of a difference apart: the short ids in it, ascending, or how many were found before it got stuck.
    ///
    /// A cell that holds one id gives it; taking that id out of its other cells leaves more of them with one. The answer
    /// stands only if nothing is left over in any cell. Cells somebody made up may give ids that nobody has, but they
    /// cannot make this go on for ever: it ends when there are more ids than cells.
    pub(super) fn peel(mut self) -> Result<Vec<u64>, usize> {
        let len = self.len();
        let mut found = Vec::new();
        let mut queue: Vec<usize> = (0..len).collect();
        while let Some(at) = queue.pop() {
            if self.is_zero(at) || !self.is_pure(at) {
                continue;
            }
            if found.len() >= len {
                return Err(0);
            }
            let short = self.shorts[at];
            found.push(short);
            self.toggle_each(short, |touched| queue.push(touched));
        }
        let empty = (0..len).all(|at| self.is_zero(at));
        found.sort_unstable();
        let repeated = found.windows(2).any(|pair| pair[0] == pair[1]);
        if empty && !repeated && len > 0 { Ok(found) } else { Err(found.len()) }
    }
}

/// How many cells tell a difference of `d` ids apart in 99 of 100 cases (measured; see the test below).
pub(super) fn cells_for(d: usize) -> usize {
    d + d * 36 / 100 + 3 * d.isqrt() + 6
}

/// The key under which short ids of one session are made, once those of the bank did not do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Salt([u8; 32]);

impl Salt {
    /// From a nonce of each side, so that neither can have prepared ids for it.
    pub(super) fn new(opener: u64, answerer: u64) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("folklore 2026 reconcile salt v1");
        hasher.update(&opener.to_le_bytes()).update(&answerer.to_le_bytes());
        Self(*hasher.finalize().as_bytes())
    }

    /// The short id of a record in the session.
    pub(super) fn short(&self, id: &RecordId) -> u64 {
        let hash = blake3::keyed_hash(&self.0, &id.0);
        hash.as_bytes()[..8].iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn short(n: u64) -> u64 {
        mix(n.wrapping_mul(GOLDEN))
    }

    fn difference(ours: &BTreeSet<u64>, theirs: &BTreeSet<u64>, len: usize) -> Result<Vec<u64>, usize> {
        let (ours, theirs) = (Cells::of(ours.iter().copied(), len), Cells::of(theirs.iter().copied(), len));
        ours.minus(&theirs).peel()
    }

    #[test]
    fn every_machine_makes_these_cells() {
        let first = |short: u64| {
            let mut cells = Vec::new();
            cells_between(short, 0, 60_000, |at| cells.push(at));
            let far = cells.split_off(cells.partition_point(|at| *at < FAR));
            (check_of(short), cells, far)
        };
        // Made by another implementation, in another language.
        let (near, far) = (
            vec![0, 2, 3, 5, 10, 13, 44, 46, 170, 186, 191, 402, 444, 637, 918, 1_366, 3_696, 3_950, 4_093],
            vec![8_199, 10_034, 10_063, 11_101, 14_529, 16_980, 22_565, 28_885, 32_512, 34_400, 48_074, 48_415],
        );
        assert_eq!(first(0), (3_754_404_249, near, far));
        let (near, far) = (
            vec![0, 1, 4, 12, 41, 43, 47, 71, 539, 589, 925, 1_091, 1_275, 2_229, 3_108],
            vec![7_810, 13_156, 21_723, 30_669],
        );
        assert_eq!(first(1), (1_201_062_377, near, far));
        let (near, far) = (
            vec![0, 5, 6, 17, 19, 40, 122, 124, 550, 625, 842, 2_988],
            vec![4_888, 9_615, 20_095, 21_275, 23_959, 39_505, 52_824],
        );
        assert_eq!(first(u64::MAX), (1_389_374_293, near, far));
        assert_eq!(Salt::new(1, 2).short(&RecordId([7; 32])), 0xc28f_3bac_5927_6c04);
    }

    #[test]
    #[ignore = "a measurement"]
    fn measure_cells() {
        for (d, trials) in [
            (1, 2000u64),
            (2, 2000),
            (3, 2000),
            (5, 2000),
            (10, 2000),
            (20, 2000),
            (30, 2000),
            (50, 2000),
            (100, 2000),
            (300, 600),
            (1000, 400),
            (2000, 300),
            (10_000, 40),
            (100_000, 3),
        ] {
            let mut needs: Vec<usize> = (0..trials)
                .map(|t| {
                    let ids: Vec<u64> = (0..d).map(|n| short(t << 32 | n)).collect();
                    let (mut lo, mut hi) = (d as usize, 4 * d as usize + 40);
                    let whole = Cells::of(ids, hi);
                    while lo < hi {
                        let mid = (lo + hi) / 2;
                        if whole.first(mid).peel().is_ok() { hi = mid } else { lo = mid + 1 }
                    }
                    lo
                })
                .collect();
            needs.sort();
            let mean = needs.iter().sum::<usize>() as f64 / trials as f64;
            let q = |p: f64| needs[((trials - 1) as f64 * p) as usize];
            println!(
                "d {d}: mean {mean:.1} ({:.3}) p50 {} p75 {} p90 {} p95 {} p99 {} max {} | cells_for {}",
                mean / d as f64,
                q(0.5),
                q(0.75),
                q(0.9),
                q(0.95),
                q(0.99),
                q(1.0),
                cells_for(d as usize)
            );
        }
    }

    proptest! {
        #[test]
        fn any_part_of_the_row_is_that_part_of_the_whole(short in any::<u64>(), from in 0u32..9_000, len in 0u32..9_000) {
            let mut whole = Vec::new();
            cells_between(short, 0, 20_000, |at| whole.push(at));
            prop_assert!(whole.is_sorted_by(|a, b| a < b) && whole[0] == 0);
            let mut part = Vec::new();
            cells_between(short, from, from + len, |at| part.push(at));
            whole.retain(|at| (from..from + len).contains(&(*at as u32)));
            prop_assert_eq!(&part, &whole);
            prop_assert!(part.iter().all(|at| falls_into(short, *at)));
        }

        #[test]
        fn what_peels_is_the_plain_difference(common in 0u64..2000, ours in 0u64..300, theirs in 0u64..300, spare in 0usize..40) {
            let set = |range: std::ops::Range<u64>| range.map(short).collect::<BTreeSet<u64>>();
            let (mut a, mut b) = (set(0..common), set(0..common));
            a.extend(set(10_000..10_000 + ours));
            b.extend(set(20_000..20_000 + theirs));
            let plain: Vec<u64> = a.symmetric_difference(&b).copied().collect();
            let d = (ours + theirs) as usize;
            // Never something else, however few the cells; and it comes once there are enough.
            if let Ok(found) = difference(&a, &b, d / 2 + spare) {
                prop_assert_eq!(&found, &plain);
            }
            prop_assert_eq!(difference(&a, &b, 2 * cells_for(d) + 20), Ok(plain));
        }

        #[test]
        fn cells_that_somebody_made_up_end_and_panic_nothing(cells in proptest::collection::vec((any::<u64>(), any::<u32>(), any::<bool>()), 0..200)) {
            let mut made = Cells::new(cells.len());
            for (n, (short, check, fits)) in cells.into_iter().enumerate() {
                made.shorts[n] = short;
                made.checks[n] = if fits { check_of(short) } else { check };
            }
            if let Ok(found) = made.clone().peel() {
                prop_assert_eq!(Cells::of(found, made.len()), made);
            }
        }

        #[test]
        fn one_changed_bit_is_never_taken_for_another_difference(at in 0usize..400, bit in 0u32..96) {
            let ids: Vec<u64> = (0..200).map(short).collect();
            let mut cells = Cells::of(ids, 400);
            if bit < 64 { cells.shorts[at] ^= 1 << bit } else { cells.checks[at] ^= 1 << (bit - 64) }
            prop_assert!(cells.peel().is_err());
        }
    }
}
