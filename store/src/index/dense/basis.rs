//! One bit a component: how vectors are coded, and what a query needs to be compared with codes.
//!
//! The idea is RaBitQ's (Gao and Long, SIGMOD 2024). A vector `v` is taken relative to a centre `c` and rotated at random:
//! `o = R (v − c)`. Its code is the sign of each component of `o`, as `b` in {−1, +1}. Because the rotation is random,
//! what the signs leave out points anywhere, and `⟨R q, b⟩ × ‖o‖² ÷ ⟨o, b⟩` estimates `⟨R q, o⟩` without bias. So
//! `⟨q, v⟩ ≈ ⟨q, c⟩ + ⟨R q, b⟩ × factor`, where `factor = ‖o‖² ÷ ‖o‖₁` is kept beside the code.
//!
//! The rotation is not a matrix but two rounds of random signs and a Hadamard transform: as random as is needed, and
//! `n log n` instead of `n²`. Components of the rotated query are quantised to 4 bits, so that the sums over any four of
//! them fit a table of 16 small numbers, and a scan is look-ups and additions of bytes.

use ndarray::{Array2, ArrayView1, ArrayView2, Axis, concatenate};

use crate::raw::{ENTRY_MAX, Scan};

/// Code lengths are multiples of this: 16 positions of four bits, what the widest kernel takes in one step.
pub(super) const CODE_STEP: usize = 64;
/// Levels of a component of a quantised query: 4 bits.
const LEVELS: f32 = 15.0;
/// The largest factor, as it is kept.
const FACTOR_TOP: f32 = 32767.0;
/// What that is, times the root of the code length. A rotated vector of length `r` has a factor of about
/// `r × √(π/2) ÷ √length`, and no unit vector is further than 2 from a mean of unit vectors. Larger ones are cut off.
const FACTOR_MAX: f32 = 3.0;
/// Rounds of signs and transform. One leaves structure of sparse vectors visible.
const ROUNDS: usize = 2;
/// Where to cut off a query's largest components, as parts of the largest: what is best depends on its shape.
const CLIPS: [f32; 6] = [1.0, 0.9, 0.8, 0.7, 0.6, 0.5];

/// The code length of vectors of `dim` components.
pub(super) fn code_len(dim: usize) -> usize {
    dim.next_multiple_of(CODE_STEP)
}

/// A seeded random rotation of vectors of `dim` components, padded with zeros to [`code_len`].
#[derive(Debug, Clone)]
pub(super) struct Rotation {
    /// One sign a component and round.
    signs: Vec<f32>,
    len: usize,
    /// The largest power of two within `len`: what one transform spans. Where it is less than `len`, two that overlap
    /// are applied.
    span: usize,
}

impl Rotation {
    pub fn new(dim: usize, seed: u64) -> Self {
        let len = code_len(dim);
        let mut bits = vec![0u8; (ROUNDS * len).div_ceil(8)];
        let mut hasher = blake3::Hasher::new_derive_key("folklore 2026 signs of the rotation of vectors");
        hasher.update(&seed.to_le_bytes());
        hasher.finalize_xof().fill(&mut bits);
        let sign = |at: usize| match bits.get(at / 8).map(|byte| byte >> (at % 8) & 1) {
            Some(1) => -1.0,
            _ => 1.0,
        };
        Rotation { signs: (0..ROUNDS * len).map(sign).collect(), len, span: 1 << len.ilog2() }
    }

    /// The rotated vector; lengths and angles are kept.
    pub fn apply(&self, vector: &[f32]) -> Vec<f32> {
        let mut out = vec![0.0; self.len];
        for (out, v) in out.iter_mut().zip(vector) {
            *out = *v;
        }
        for signs in self.signs.chunks_exact(self.len) {
            for (out, sign) in out.iter_mut().zip(signs) {
                *out *= sign;
            }
            if let Some(first) = out.get_mut(..self.span) {
                hadamard(first);
            }
            if self.span < self.len
                && let Some(last) = out.get_mut(self.len - self.span..)
            {
                hadamard(last);
            }
        }
        out
    }
}

/// The Walsh–Hadamard transform in place, normalised, so that lengths stay. `x` has a power of two components.
fn hadamard(x: &mut [f32]) {
    let mut half = 1;
    while half < x.len() {
        for pair in x.chunks_exact_mut(2 * half) {
            let (low, high) = pair.split_at_mut(half);
            for (a, b) in low.iter_mut().zip(high) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
    let scale = (x.len() as f32).sqrt().recip();
    x.iter_mut().for_each(|x| *x *= scale);
}

/// The code of one vector.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Code {
    /// Four bits each, for four components: bit `i` is set where component `4 × position + i` is positive.
    pub nibbles: Vec<u8>,
    /// The correction, 0..=32767 for 0..=`factor_max`.
    pub factor: i16,
}

/// What codes are relative to: learned once from a sample, then kept with them. List 0 is everything, and its centre the mean;
/// where vectors are partitioned, each further list has a centre of its own.
#[derive(Debug, Clone)]
pub(super) struct Basis {
    rotation: Rotation,
    /// A centre a row, of `dim` components.
    centres: Array2<f32>,
    /// The same, rotated.
    rotated: Array2<f32>,
    /// The factor that is kept as 32767; larger ones are cut off.
    factor_max: f32,
}

impl Basis {
    /// A basis for vectors like those of `sample`, one a row.
    pub fn learn(sample: ArrayView2<'_, f32>, seed: u64) -> Self {
        let mean = sample.mean_axis(Axis(0)).map(|mean| mean.insert_axis(Axis(0)));
        Basis::new(mean.unwrap_or_else(|| Array2::zeros((1, sample.ncols()))), seed)
    }

    /// The basis that was kept: one row a list.
    pub fn new(centres: Array2<f32>, seed: u64) -> Self {
        let rotation = Rotation::new(centres.ncols(), seed);
        let mut rotated = Array2::zeros((centres.nrows(), rotation.len));
        for (mut rotated, centre) in rotated.rows_mut().into_iter().zip(centres.rows()) {
            rotated.assign(&ArrayView1::from(&rotation.apply(&centre.to_vec())));
        }
        let factor_max = FACTOR_MAX / (rotation.len as f32).sqrt();
        Basis { rotation, centres, rotated, factor_max }
    }

    /// The same with these lists.
    pub fn with_lists(&self, centroids: ArrayView2<'_, f32>, seed: u64) -> Self {
        let mean = self.centres.slice(ndarray::s![..1, ..]);
        Basis::new(concatenate(Axis(0), &[mean, centroids]).unwrap_or_else(|_| mean.to_owned()), seed)
    }

    /// A centre a row, the mean first.
    pub fn centres(&self) -> ArrayView2<'_, f32> {
        self.centres.view()
    }

    fn residual(&self, vector: &[f32], list: usize) -> Vec<f32> {
        let mut out = self.rotation.apply(vector);
        if list < self.rotated.nrows() {
            for (out, centre) in out.iter_mut().zip(self.rotated.row(list)) {
                *out -= centre;
            }
        }
        out
    }

    fn factor(&self, residual: &[f32]) -> f32 {
        let (mut sum, mut squares) = (0.0f32, 0.0f32);
        for x in residual {
            sum += x.abs();
            squares += x * x;
        }
        if sum > 0.0 { squares / sum } else { 0.0 }
    }

    /// The code of a vector relative to the centre of a list.
    pub fn encode(&self, vector: &[f32], list: usize) -> Code {
        let residual = self.residual(vector, list);
        let factor = self.factor(&residual) / self.factor_max * FACTOR_TOP;
        let nibble = |four: &[f32; 4]| (0..).zip(four).fold(0, |bits, (at, x)| bits | (u8::from(*x > 0.0) << at));
        Code {
            nibbles: residual.as_chunks::<4>().0.iter().map(nibble).collect(),
            // `as` keeps to the bounds of the type.
            factor: factor.round() as i16,
        }
    }

    /// A query made ready to be compared with codes.
    pub fn probe(&self, query: &[f32]) -> Probe {
        let rotated = self.rotation.apply(query);
        let (step, levels) = quantise(&rotated);
        let tables = levels.as_chunks::<4>().0.iter().flat_map(|four| {
            (0..16u8).map(move |bits| {
                (0..)
                    .zip(four)
                    .fold(0, |sum, (at, level)| sum + if bits >> at & 1 == 1 { *level } else { LEVELS as u8 - *level })
            })
        });
        let tables: Vec<u8> = tables.collect();
        debug_assert!(tables.iter().all(|entry| *entry <= ENTRY_MAX));
        let positions = rotated.len() / 4;
        // Half the largest sum; code lengths are bounded so that it fits.
        let bias = i16::try_from(positions * usize::from(ENTRY_MAX) / 2).unwrap_or(i16::MAX);
        let shift = (i16::MAX / bias.max(1)).ilog2();
        let unit = step * self.factor_max * (32768.0 / FACTOR_TOP) / (1u32 << shift) as f32;
        Probe { tables, bias, shift, unit, bases: self.centres.dot(&ArrayView1::from(query)).to_vec() }
    }
}

/// The step and the level, 0..=15, of each component `x`, so that `x ≈ step × (level − 7.5)`.
fn quantise(rotated: &[f32]) -> (f32, Vec<u8>) {
    let largest = rotated.iter().fold(f32::MIN_POSITIVE, |max, x| max.max(x.abs()));
    let level = |x: f32, step: f32| (x / step + LEVELS / 2.0).round().clamp(0.0, LEVELS);
    let error = |step: f32| {
        let miss = |x: &f32| (x - step * (level(*x, step) - LEVELS / 2.0)).powi(2);
        rotated.iter().map(miss).sum::<f32>()
    };
    let steps = CLIPS.map(|clip| largest * clip / (LEVELS / 2.0));
    let best = steps.into_iter().min_by(|a, b| error(*a).total_cmp(&error(*b))).unwrap_or(largest);
    (best, rotated.iter().map(|x| level(*x, best) as u8).collect())
}

/// A query as tables of small numbers.
#[derive(Debug, Clone)]
pub(super) struct Probe {
    tables: Vec<u8>,
    bias: i16,
    shift: u32,
    /// What one of a score means as a cosine.
    unit: f32,
    /// The cosine of a score of zero in each list: that of the list's centre.
    bases: Vec<f32>,
}

impl Probe {
    /// The cosine of each list's centre, list 0 first.
    pub fn bases(&self) -> &[f32] {
        &self.bases
    }

    fn base(&self, list: usize) -> f32 {
        self.bases.get(list).copied().unwrap_or_default()
    }

    /// The scan of these codes of a list for vectors whose estimated cosine is at least `bar`.
    pub fn scan<'a>(&'a self, (codes, factors): (&'a [u8], &'a [i16]), list: usize, first: u32, bar: f32) -> Scan<'a> {
        // One less than the bar, and rounded down: what is below it is dropped by its cosine later.
        let above = ((bar - self.base(list)) / self.unit).floor() - 1.0;
        Scan { codes, factors, tables: &self.tables, bias: self.bias, shift: self.shift, above: above as i16, first }
    }

    /// The estimated cosine that a score in a list stands for.
    pub fn cosine(&self, list: usize, score: i16) -> f32 {
        self.base(list) + self.unit * f32::from(score)
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::{super::samples::gaussian_unit, *};

    fn dot(a: &[f32], b: &[f32]) -> f32 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn a_rotation_keeps_inner_products_whatever_the_dimension() {
        for dim in [1, 2, 63, 64, 100, 256, 384, 1000, 1536, 4096] {
            let rotation = Rotation::new(dim, 3);
            let (a, b) = (gaussian_unit(dim, 1), gaussian_unit(dim, 2));
            let (ra, rb) = (rotation.apply(&a), rotation.apply(&b));
            assert_eq!(ra.len(), code_len(dim));
            assert!((dot(&a, &b) - dot(&ra, &rb)).abs() < 1e-5, "{dim}");
            assert!((dot(&ra, &ra) - 1.0).abs() < 1e-5, "{dim}");
            assert_ne!(ra, Rotation::new(dim, 4).apply(&a));
        }
    }

    #[test]
    fn a_rotation_spreads_a_vector_of_one_component() {
        for dim in [64, 256, 384] {
            let mut vector = vec![0.0; dim];
            vector[5] = 1.0;
            let largest = Rotation::new(dim, 9).apply(&vector).iter().fold(0.0f32, |m, x| m.max(x.abs()));
            assert!(largest < 0.6, "{dim} {largest}");
        }
    }

    #[test]
    fn estimates_are_near_the_cosine_and_not_biased() {
        for dim in [64, 256, 384] {
            let rows = 400;
            let vectors: Vec<Vec<f32>> = (0..rows).map(|seed| gaussian_unit(dim, seed)).collect();
            let sample = Array2::from_shape_vec((rows as usize, dim), vectors.concat()).unwrap();
            let basis = Basis::learn(sample.view(), 5);
            let kernels = crate::raw::Kernels::best();
            let (mut errors, mut bias, mut n) = (0.0, 0.0, 0.0);
            for q in 0..20 {
                // Half way between a stored vector and another: cosines from −0.2 to 0.7.
                let mut query: Vec<f32> =
                    vectors[q as usize].iter().zip(gaussian_unit(dim, 1000 + q)).map(|(a, b)| a + b).collect();
                let norm = dot(&query, &query).sqrt();
                query.iter_mut().for_each(|x| *x /= norm);
                let probe = basis.probe(&query);
                for vector in &vectors {
                    let code = basis.encode(vector, 0);
                    let codes: Vec<u8> = code.nibbles.iter().flat_map(|n| [*n; 16]).collect();
                    let factors = [code.factor; 32];
                    let mut found = Vec::new();
                    kernels.scan(&probe.scan((&codes, &factors), 0, 0, -3.0), &mut found);
                    let miss = probe.cosine(0, found[0].1) - dot(&query, vector);
                    errors += miss * miss;
                    bias += miss;
                    n += 1.0;
                }
            }
            // The deviation that theory gives is about √(π/2 − 1) ÷ √dim = 0.76 ÷ √dim; quantising adds little.
            let deviation = f32::sqrt(errors / n) * (dim as f32).sqrt();
            assert!(deviation < 0.85, "{dim}: {deviation}");
            assert!((bias / n).abs() * (dim as f32).sqrt() < 0.05, "{dim}: {}", bias / n);
        }
    }

    #[test]
    fn a_vector_that_is_the_mean_and_a_query_of_zeros_do_no_harm() {
        let sample = Array2::from_shape_vec((2, 64), [gaussian_unit(64, 1), gaussian_unit(64, 1)].concat()).unwrap();
        let basis = Basis::learn(sample.view(), 5);
        assert!(basis.encode(&gaussian_unit(64, 2), 0).factor >= 0);
        let probe = basis.probe(&[0.0; 64]);
        assert!(probe.cosine(0, i16::MAX).is_finite() && probe.cosine(0, i16::MIN).is_finite());
    }
}
