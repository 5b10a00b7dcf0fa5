//! Lists of vectors that are near one another, so that a query need not scan them all.
//!
//! A partition pays from tens of millions of vectors on: below that, scanning everything takes some milliseconds and misses
//! nothing, where lists miss much. With 4 million vectors in 20,000 loose clusters, the nearest quarter of 976 lists had only 78 % of
//! the ten nearest. Lists are found by k-means over a sample; a vector belongs to the list whose centre is nearest.

use ndarray::{Array1, Array2, ArrayView1, ArrayView2, Axis};

/// Vectors from which an index is partitioned at its next opening: what is scanned in about 20 ms.
pub(super) const PARTITION_MIN: usize = 16_000_000;
/// Vectors of a list: about a block.
const LIST_ROWS: usize = 4096;
/// More lists than this cost a query more than they save it.
const LISTS_MAX: usize = 4096;
/// Vectors of the sample for each list.
pub(super) const SAMPLE_PER_LIST: usize = 32;
/// Rounds of k-means. More move few vectors.
const ROUNDS: usize = 6;
/// Vectors that are compared with all centres at a time: what a matrix product does well and the caches hold.
const ROWS_AT_ONCE: usize = 1024;

/// How many lists so many vectors are parted into.
pub(super) fn lists_for(rows: usize) -> usize {
    (rows / LIST_ROWS).clamp(1, LISTS_MAX)
}

/// Centres of `lists` lists, one a row, for vectors like those of `sample`.
pub(super) fn centroids(sample: ArrayView2<'_, f32>, lists: usize) -> Array2<f32> {
    let rows = sample.nrows();
    let mut centres = Array2::zeros((lists.min(rows), sample.ncols()));
    for (list, mut centre) in centres.rows_mut().into_iter().enumerate() {
        centre.assign(&sample.row(list * rows / lists.min(rows).max(1)));
    }
    for _ in 0..ROUNDS {
        let nearest = Nearest::new(&centres).of(sample);
        let mut sums = Array2::<f32>::zeros(centres.dim());
        let mut counts = vec![0u32; centres.nrows()];
        for (row, list) in sample.rows().into_iter().zip(nearest) {
            let mut sum = sums.row_mut(list);
            sum += &row;
            if let Some(count) = counts.get_mut(list) {
                *count += 1;
            }
        }
        for ((mut centre, sum), count) in centres.rows_mut().into_iter().zip(sums.rows()).zip(counts) {
            // A centre that nothing is near to stays where it is.
            if count > 0 {
                centre.assign(&(&sum / count as f32));
            }
        }
    }
    centres
}

/// Centres, ready to be compared with.
pub(super) struct Nearest<'a> {
    centres: &'a Array2<f32>,
    /// Half of each centre's squared length: `|v − c|²` is least where `v·c` less this is greatest.
    halves: Array1<f32>,
}

impl<'a> Nearest<'a> {
    pub fn new(centres: &'a Array2<f32>) -> Self {
        Nearest { centres, halves: centres.map_axis(Axis(1), |c| c.dot(&c) / 2.0) }
    }

    /// The nearest centre of each vector; the lower one of two that are equally near.
    pub fn of(&self, vectors: ArrayView2<'_, f32>) -> Vec<usize> {
        let mut out = Vec::with_capacity(vectors.nrows());
        for chunk in vectors.axis_chunks_iter(Axis(0), ROWS_AT_ONCE) {
            let products = chunk.dot(&self.centres.t());
            out.extend(products.rows().into_iter().map(|row| self.best(row)));
        }
        out
    }

    fn best(&self, products: ArrayView1<'_, f32>) -> usize {
        let mut best = (f32::NEG_INFINITY, 0);
        for (list, (product, half)) in products.iter().zip(&self.halves).enumerate() {
            if product - half > best.0 {
                best = (product - half, list);
            }
        }
        best.1
    }
}

#[cfg(test)]
mod tests {
    use super::{super::samples::clustered, *};

    #[test]
    fn vectors_of_one_cluster_come_into_one_list() {
        let (dim, clusters) = (32, 8);
        let vectors = clustered(dim, 800, clusters, 3).concat();
        let vectors = ArrayView2::from_shape((800, dim), &vectors).unwrap();
        let centres = centroids(vectors, clusters);
        let lists = Nearest::new(&centres).of(vectors);
        let miss: f32 =
            vectors.rows().into_iter().zip(&lists).map(|(v, l)| (&v - &centres.row(*l)).mapv(|x| x * x).sum()).sum();
        let mean = vectors.mean_axis(Axis(0)).unwrap();
        let spread: f32 = vectors.rows().into_iter().map(|v| (&v - &mean).mapv(|x| x * x).sum()).sum();
        assert!(miss < 0.7 * spread, "{miss} of {spread}");
        // Nearest is nearest.
        for (vector, list) in vectors.rows().into_iter().zip(lists).step_by(37) {
            let distance = |l: usize| (&vector - &centres.row(l)).mapv(|x| x * x).sum();
            assert!((0..clusters).all(|other| distance(list) <= distance(other) + 1e-5));
        }
    }

    #[test]
    fn there_are_no_more_lists_than_vectors() {
        let vectors = clustered(16, 3, 2, 1).concat();
        assert_eq!(centroids(ArrayView2::from_shape((3, 16), &vectors).unwrap(), 10).nrows(), 3);
        assert_eq!((lists_for(0), lists_for(usize::MAX)), (1, LISTS_MAX));
    }
}
