//! Lists of vectors that are near one another, so that a query need not scan them all.
//!
//! A partition pays from tens of millions of vectors on: below that, scanning everything takes some milliseconds and misses
//! nothing. Lists are found by spherical k-means over a sample; a vector belongs to the list whose centre has the largest cosine
//! with it. Many lists matter more than many rounds: a list over a few natural clusters points towards each of them, one over
//! twenty points nowhere, and what is near is scattered over all.
//!
//! With thousands of lists and tens of millions of vectors, comparing each with each would take most of an hour. So the centres
//! are themselves an index of this kind, whose codes are scanned for each vector, and the best few compared exactly.

use std::thread;

use ndarray::{Array2, ArrayView1, ArrayView2, Axis};

use super::DenseIndex;

/// Vectors from which an index is partitioned at its next opening: what is scanned in about 20 ms.
pub(super) const PARTITION_MIN: usize = 16_000_000;
/// Vectors of a list: about a block.
const LIST_ROWS: usize = 4096;
/// More lists than this cost a query more than they save it.
const LISTS_MAX: usize = 16_384;
/// Vectors of the sample for each list.
pub(super) const SAMPLE_PER_LIST: usize = 32;
/// Rounds of k-means. More move few vectors.
const ROUNDS: usize = 10;
/// Centres that are compared exactly with a vector, of those nearest by their codes.
const COMPARED: usize = 32;

/// How many lists so many vectors are parted into.
pub(super) fn lists_for(rows: usize) -> usize {
    (rows / LIST_ROWS).clamp(1, LISTS_MAX)
}

/// Centres of `lists` lists, one a row, for vectors like those of `sample`: the mean of the vectors in each.
pub(super) fn centroids(sample: ArrayView2<'_, f32>, lists: usize) -> Array2<f32> {
    let rows = sample.nrows();
    let mut centres = Array2::zeros((lists.min(rows), sample.ncols()));
    for (list, mut centre) in centres.rows_mut().into_iter().enumerate() {
        centre.assign(&sample.row(list * rows / lists.min(rows).max(1)));
    }
    for _ in 0..ROUNDS {
        let nearest = Nearest::new(&centres).of_all(sample);
        let mut sums = Array2::<f32>::zeros(centres.dim());
        let mut counts = vec![0u32; centres.nrows()];
        for (row, list) in sample.rows().into_iter().zip(nearest) {
            if let Some(count) = counts.get_mut(list) {
                *count += 1;
                let mut sum = sums.row_mut(list);
                sum += &row;
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
pub(super) struct Nearest {
    index: DenseIndex,
}

impl Nearest {
    pub fn new(centres: &Array2<f32>) -> Self {
        let mut index = DenseIndex::new(centres.ncols());
        for (list, centre) in (0u32..).zip(centres.rows()) {
            let norm = centre.dot(&centre).sqrt();
            // A centre of length zero points nowhere, so nothing is near it.
            if norm > f32::MIN_POSITIVE {
                index.add(list, &centre.mapv(|x| x / norm).to_vec()).ok();
            }
        }
        index.code_all();
        Nearest { index }
    }

    /// The centre with the largest cosine with each vector; the lower one of two that are equally near.
    pub fn of(&self, vectors: ArrayView2<'_, f32>) -> Vec<usize> {
        vectors.rows().into_iter().map(|row| self.of_one(row)).collect()
    }

    fn of_one(&self, vector: ArrayView1<'_, f32>) -> usize {
        let nearest = match vector.as_slice() {
            Some(vector) => self.index.nearest(vector, COMPARED),
            None => self.index.nearest(&vector.to_vec(), COMPARED),
        };
        nearest.map_or(0, |list| list as usize)
    }

    /// As [`Nearest::of`], on all cores.
    pub fn of_all(&self, vectors: ArrayView2<'_, f32>) -> Vec<usize> {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let rows = vectors.nrows().div_ceil(threads).max(1);
        thread::scope(|scope| {
            let parts = vectors.axis_chunks_iter(Axis(0), rows);
            let started: Vec<_> = parts.map(|part| (part, scope.spawn(move || self.of(part)))).collect();
            // A thread that died is done again here, to die with its message.
            started.into_iter().flat_map(|(part, thread)| thread.join().unwrap_or_else(|_| self.of(part))).collect()
        })
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
            let cosine = |l: usize| vector.dot(&centres.row(l)) / centres.row(l).dot(&centres.row(l)).sqrt();
            assert!((0..clusters).all(|other| cosine(list) >= cosine(other) - 1e-5));
        }
    }

    #[test]
    fn of_many_centres_the_nearest_is_found_by_their_codes() {
        let dim = 64;
        let centres = clustered(dim, 3_000, 3_000, 5).concat();
        let centres = Array2::from_shape_vec((3_000, dim), centres).unwrap();
        let vectors = clustered(dim, 500, 40, 7).concat();
        let vectors = ArrayView2::from_shape((500, dim), &vectors).unwrap();
        let found = Nearest::new(&centres).of_all(vectors);
        // These centres point anywhere, so the best is hardly nearer than the next: the hardest case. What is found is hardly
        // less near.
        let lost = |(vector, found): (ArrayView1<'_, f32>, usize)| {
            let best = centres.rows().into_iter().map(|centre| centre.dot(&vector)).fold(f32::MIN, f32::max);
            best - centres.row(found).dot(&vector)
        };
        let lost: f32 = vectors.rows().into_iter().zip(found).map(lost).sum::<f32>() / 500.0;
        assert!(lost < 0.02, "{lost}");
    }

    #[test]
    fn there_are_no_more_lists_than_vectors() {
        let vectors = clustered(16, 3, 2, 1).concat();
        assert_eq!(centroids(ArrayView2::from_shape((3, 16), &vectors).unwrap(), 10).nrows(), 3);
        assert_eq!((lists_for(0), lists_for(usize::MAX)), (1, LISTS_MAX));
    }
}
