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
const COMPARED: usize = 48;

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
        let right = vectors.rows().into_iter().zip(found).filter(|(vector, found)| {
            let best = centres.rows().into_iter().map(|centre| centre.dot(vector)).fold(f32::MIN, f32::max);
            centres.row(*found).dot(vector) >= best - 1e-5
        });
        assert!(right.count() >= 480);
    }

    /// How much of the nearest is in the nearest lists, at the size that the benchmark `large` has, with fewer vectors a list:
    /// `cargo test --release -p folklore-store --lib -- --ignored --nocapture what_the_nearest_lists_hold`.
    #[test]
    #[ignore = "takes minutes"]
    fn what_the_nearest_lists_hold() {
        // As the benchmark makes them.
        let made = |n: u64, dim: usize| {
            let draws = |stream: u64, out: &mut dyn FnMut(f32)| {
                let mut bytes = vec![0u8; 4 * dim];
                blake3::Hasher::new().update(&stream.to_le_bytes()).finalize_xof().fill(&mut bytes);
                let four = |b: &[u8; 4]| b.iter().map(|b| f32::from(*b)).sum::<f32>() / 147.8 - 3.45;
                bytes.as_chunks::<4>().0.iter().for_each(|b| out(four(b)));
            };
            let mut out = Vec::with_capacity(dim);
            draws(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 20_000, &mut |x| out.push(x));
            let mut at = 0;
            draws(n + (1 << 40), &mut |x| {
                out[at] += 0.8 * x;
                at += 1;
            });
            crate::index::dense::samples::normalised(out)
        };
        let (dim, lists, rows, asked) = (256, 7_812, 400_000u64, 100u64);
        let begin = std::time::Instant::now();
        let vectors: Vec<f32> = (0..rows).flat_map(|n| made(n, dim)).collect();
        let vectors = ArrayView2::from_shape((rows as usize, dim), &vectors).unwrap();
        let every = rows as usize / (lists * SAMPLE_PER_LIST);
        let sample = vectors.slice(ndarray::s![..;every.max(1), ..]);
        let sample = sample.slice(ndarray::s![..sample.nrows().min(lists * SAMPLE_PER_LIST), ..]);
        eprintln!("made after {:.1?}; sample of {}", begin.elapsed(), sample.nrows());
        let centres = centroids(sample, lists);
        eprintln!("centres after {:.1?}", begin.elapsed());
        let list_of = Nearest::new(&centres).of_all(vectors);
        eprintln!("lists after {:.1?}", begin.elapsed());
        let mut held = vec![0usize; lists];
        list_of.iter().for_each(|list| held[*list] += 1);
        let mut by_share = [0usize; 5];
        for query in (0..asked).map(|q| made((1 << 50) + q * 7919, dim)) {
            let query = ArrayView1::from(&query);
            let scores = vectors.dot(&query);
            let mut near: Vec<usize> = (0..rows as usize).collect();
            near.select_nth_unstable_by(10, |a, b| scores[*b].total_cmp(&scores[*a]));
            let bases = centres.dot(&query);
            let mut order: Vec<usize> = (0..lists).collect();
            order.sort_by(|a, b| bases[*b].total_cmp(&bases[*a]));
            for (found, share) in by_share.iter_mut().zip([256, 64, 16, 8, 4]) {
                let mut left = rows as usize / share;
                let mut taken = vec![false; lists];
                for list in &order {
                    taken[*list] = true;
                    left = left.saturating_sub(held[*list]);
                    if left == 0 {
                        break;
                    }
                }
                *found += near[..10].iter().filter(|row| taken[list_of[**row]]).count();
            }
        }
        for (found, share) in by_share.iter().zip([256, 64, 16, 8, 4]) {
            eprintln!("nearest 1/{share}: {:.4}", *found as f64 / (10 * asked) as f64);
        }
        eprintln!("largest list {}", held.iter().max().unwrap());
    }

    #[test]
    fn there_are_no_more_lists_than_vectors() {
        let vectors = clustered(16, 3, 2, 1).concat();
        assert_eq!(centroids(ArrayView2::from_shape((3, 16), &vectors).unwrap(), 10).nrows(), 3);
        assert_eq!((lists_for(0), lists_for(usize::MAX)), (1, LISTS_MAX));
    }
}
