//! What needs `unsafe`: SIMD kernels, the memory map, and looking at mapped bytes as numbers. Nothing outside of this
//! module does.
//!
//! Two kernels do nearly all the work of a query, and one that of the built-in embedder. Each has a portable version,
//! which says what the others must compute, and versions for instruction sets that are looked for at run time. All versions
//! of a kernel give the same bits: they work on integers, or add the same floats in the same order. `tests` holds them to that.
#![allow(unsafe_code)]

mod buffer;
mod map;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::sync::OnceLock;

pub(crate) use buffer::{Buffer, as_bytes, as_f32, as_i8, as_i16};
pub(crate) use map::Map;

/// Vectors of one group: what a 256-bit register takes in one step.
pub(crate) const GROUP: usize = 32;
/// Bytes that a group's codes take for each four components: two vectors a byte.
pub(crate) const NIBBLE_BYTES: usize = GROUP / 2;
/// The largest entry of a look-up table: four components of 4 bits each. Four entries fit into a byte, which is how often
/// the kernels add before they widen.
pub(crate) const ENTRY_MAX: u8 = 60;

/// Codes to be scanned against the tables of one query.
///
/// `codes` holds whole groups. A group is `positions` pieces of 16 bytes, one for every four components; byte `j` of a piece
/// has the four bits of vector `j` below and those of vector `j + 16` above. `tables` has 16 entries a position, of at
/// most [`ENTRY_MAX`]. `factors` has one number of 0..=32767 a vector.
///
/// The score of a vector is, all in `i16`:
/// `sum = Σ tables[position][bits]`, `score = ((sum − bias) << shift) × factor`, divided by 2^15 and rounded.
pub(crate) struct Scan<'a> {
    pub codes: &'a [u8],
    pub factors: &'a [i16],
    pub tables: &'a [u8],
    /// Subtracted from each sum, so that a score can be negative.
    pub bias: i16,
    /// Chosen so that no sum overflows when it is shifted.
    pub shift: u32,
    /// Only scores above this are told.
    pub above: i16,
    /// The number of the first vector.
    pub first: u32,
}

impl Scan<'_> {
    /// Pieces of a group, if the slices fit one another; what every kernel relies on.
    fn positions(&self) -> Option<usize> {
        let positions = self.tables.len() / 16;
        let whole = positions > 0
            && positions.is_multiple_of(16)
            && self.tables.len() == positions * 16
            && self.factors.len().is_multiple_of(GROUP)
            && self.codes.len() == self.factors.len() / 2 * positions;
        whole.then_some(positions)
    }
}

/// A vector whose score is high enough: its number and its score.
pub(crate) type Hit = (u32, i16);

/// A row of signed bytes and what one of them means.
pub(crate) type Pick<'a> = (&'a [u8], f32);

/// One version of every kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernels {
    /// The instruction set, for benchmarks and logs.
    pub name: &'static str,
    scan: fn(&Scan<'_>, usize, &mut Vec<Hit>),
    dot: fn(&[i8], &[i16]) -> i32,
    sum_rows: fn(&[Pick<'_>], &mut [f32]),
}

impl Kernels {
    /// The best version that this machine can run.
    pub fn best() -> Self {
        static BEST: OnceLock<Kernels> = OnceLock::new();
        *BEST.get_or_init(|| Self::all().pop().unwrap_or(portable::KERNELS))
    }

    /// Every version that this machine can run, the portable one first and the best one last.
    pub fn all() -> Vec<Self> {
        let mut all = vec![portable::KERNELS];
        #[cfg(target_arch = "x86_64")]
        all.extend(x86::available());
        #[cfg(target_arch = "aarch64")]
        all.extend(neon::available());
        all
    }

    /// Adds to `found` the vectors whose score is above the bar, ascending by number.
    pub fn scan(&self, scan: &Scan<'_>, found: &mut Vec<Hit>) {
        if let Some(positions) = scan.positions() {
            (self.scan)(scan, positions, found);
        }
    }

    /// The inner product of a row and a query of equal lengths, a multiple of 64. The caller keeps the sum within `i32`.
    pub fn dot(&self, row: &[i8], query: &[i16]) -> i32 {
        debug_assert!(row.len() == query.len() && row.len().is_multiple_of(64));
        (self.dot)(row, query)
    }

    /// Adds each row times its scale to `sum`, in order. Rows are as long as `sum`, a multiple of 64.
    pub fn sum_rows(&self, picks: &[Pick<'_>], sum: &mut [f32]) {
        debug_assert!(sum.len().is_multiple_of(64) && picks.iter().all(|(row, _)| row.len() == sum.len()));
        (self.sum_rows)(picks, sum);
    }
}

/// Tells the processor that `bytes` will be read soon. Does nothing where there is no such instruction.
#[inline]
pub(crate) fn prefetch(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    for line in bytes.chunks(64) {
        // SAFETY: a prefetch reads nothing and cannot fault; SSE is part of every x86-64.
        unsafe { core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::{
        ChaCha8Rng,
        rand_core::{Rng, SeedableRng},
    };

    fn bytes(rng: &mut ChaCha8Rng, n: usize) -> Vec<u8> {
        let mut out = vec![0; n];
        rng.fill_bytes(&mut out);
        out
    }

    #[test]
    fn every_version_of_the_scan_gives_the_same_bits() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for (positions, groups) in [(16, 1), (16, 3), (64, 5), (96, 2), (512, 2), (1024, 1)] {
            let bias = (positions * 30) as i16;
            let shift = (32767 / (positions as u32 * 30)).ilog2();
            for extreme in [false, true] {
                let codes = bytes(&mut rng, groups * positions * NIBBLE_BYTES);
                let mut tables = bytes(&mut rng, positions * 16);
                tables.iter_mut().for_each(|e| *e = if extreme { ENTRY_MAX * (*e & 1) } else { *e % (ENTRY_MAX + 1) });
                let factors: Vec<i16> = bytes(&mut rng, groups * GROUP * 2)
                    .as_chunks::<2>()
                    .0
                    .iter()
                    .map(|b| i16::from_le_bytes(*b) & i16::MAX)
                    .collect();
                for above in [i16::MIN, -100, 0, 500] {
                    let scan = Scan { codes: &codes, factors: &factors, tables: &tables, bias, shift, above, first: 7 };
                    let mut expected = Vec::new();
                    Kernels::all()[0].scan(&scan, &mut expected);
                    if above == i16::MIN {
                        assert_eq!(expected.len(), groups * GROUP);
                    }
                    for kernels in Kernels::all() {
                        let mut found = Vec::new();
                        kernels.scan(&scan, &mut found);
                        assert_eq!(found, expected, "{} {positions} {groups} {above}", kernels.name);
                    }
                }
            }
        }
    }

    #[test]
    fn the_scan_computes_what_its_definition_says() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let (positions, groups) = (32, 2);
        let codes = bytes(&mut rng, groups * positions * NIBBLE_BYTES);
        let tables: Vec<u8> = bytes(&mut rng, positions * 16).iter().map(|b| b % (ENTRY_MAX + 1)).collect();
        let factors: Vec<i16> = (0..groups * GROUP).map(|i| (i * 511) as i16 & i16::MAX).collect();
        let scan =
            Scan { codes: &codes, factors: &factors, tables: &tables, bias: 960, shift: 5, above: i16::MIN, first: 0 };
        for kernels in Kernels::all() {
            let mut found = Vec::new();
            kernels.scan(&scan, &mut found);
            for (at, &(row, score)) in found.iter().enumerate() {
                assert_eq!(row as usize, at);
                let (group, within) = (at / GROUP, at % GROUP);
                let sum: i32 = (0..positions)
                    .map(|p| {
                        let byte = codes[(group * positions + p) * NIBBLE_BYTES + within % 16];
                        let bits = if within < 16 { byte & 15 } else { byte >> 4 };
                        i32::from(tables[p * 16 + usize::from(bits)])
                    })
                    .sum();
                let exact = f64::from((sum - 960) << 5) * f64::from(factors[at]) / 32768.0;
                assert!((f64::from(score) - exact).abs() <= 0.5, "{}", kernels.name);
            }
        }
    }

    #[test]
    fn slices_that_do_not_fit_one_another_are_not_scanned() {
        let scan = |codes: usize, factors: usize, tables: usize| {
            let (codes, factors, tables) = (vec![0; codes], vec![1; factors], vec![1; tables]);
            let scan =
                Scan { codes: &codes, factors: &factors, tables: &tables, bias: 0, shift: 0, above: -1, first: 0 };
            let mut counts = Vec::new();
            for kernels in Kernels::all() {
                let mut found = Vec::new();
                kernels.scan(&scan, &mut found);
                counts.push(found.len());
            }
            assert!(counts.iter().all(|c| *c == counts[0]));
            counts[0]
        };
        assert_eq!(scan(256, 32, 256), 32);
        for (codes, factors, tables) in [(255, 32, 256), (256, 31, 256), (256, 32, 240), (0, 0, 0), (256, 64, 256)] {
            assert_eq!(scan(codes, factors, tables), 0);
        }
    }

    #[test]
    fn every_version_of_the_dot_gives_the_same_sum() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        for len in [64, 128, 256, 384, 1024, 4096] {
            let row: Vec<i8> = bytes(&mut rng, len).iter().map(|b| b.cast_signed()).collect();
            let query: Vec<i16> = bytes(&mut rng, len).iter().map(|b| i16::from(b.cast_signed()) * 16).collect();
            let expected: i32 = row.iter().zip(&query).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
            for kernels in Kernels::all() {
                assert_eq!(kernels.dot(&row, &query), expected, "{} {len}", kernels.name);
            }
        }
    }

    #[test]
    fn every_version_of_the_sum_of_rows_gives_the_same_bits() {
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        for (rows, len) in [(0, 64), (1, 64), (7, 256), (40, 384)] {
            let rows: Vec<Vec<u8>> = (0..rows).map(|_| bytes(&mut rng, len)).collect();
            let picks: Vec<Pick<'_>> =
                rows.iter().map(|row| (&row[..], rng.next_u32() as f32 / u32::MAX as f32)).collect();
            let mut expected = vec![0.5; len];
            Kernels::all()[0].sum_rows(&picks, &mut expected);
            for kernels in Kernels::all() {
                let mut sum = vec![0.5; len];
                kernels.sum_rows(&picks, &mut sum);
                assert_eq!(sum, expected, "{}", kernels.name);
            }
        }
    }
}
