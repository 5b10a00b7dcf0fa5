//! Vectors for tests, the same at every run.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

/// Normal draws, by the sum of twelve even ones.
pub(crate) fn gaussian(rng: &mut ChaCha8Rng) -> f32 {
    let even = |rng: &mut ChaCha8Rng| rng.next_u32() as f32 / u32::MAX as f32;
    (0..12).map(|_| even(rng)).sum::<f32>() - 6.0
}

pub(crate) fn normalised(mut v: Vec<f32>) -> Vec<f32> {
    let norm = v.iter().map(|x| x * x).sum::<f32>().sqrt();
    v.iter_mut().for_each(|x| *x /= norm);
    v
}

/// A unit vector that points anywhere.
pub(crate) fn gaussian_unit(dim: usize, seed: u64) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    normalised((0..dim).map(|_| gaussian(&mut rng)).collect())
}

/// `n` unit vectors around `clusters` centres that have a direction in common, as embedded texts have.
pub(crate) fn clustered(dim: usize, n: usize, clusters: usize, seed: u64) -> Vec<Vec<f32>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let common = gaussian_unit(dim, seed + 1);
    let centres: Vec<Vec<f32>> = (0..clusters).map(|c| gaussian_unit(dim, seed + 2 + c as u64)).collect();
    (0..n)
        .map(|_| {
            let centre = &centres[rng.next_u32() as usize % clusters];
            let spread = 0.9 / (dim as f32).sqrt();
            normalised(centre.iter().zip(&common).map(|(c, m)| 0.4 * m + c + spread * gaussian(&mut rng)).collect())
        })
        .collect()
}
