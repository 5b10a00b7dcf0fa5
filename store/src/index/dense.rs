//! Exact cosine search: a matrix of unit vectors scanned by matrix-vector products.

use std::collections::HashMap;

use ndarray::{Array2, ArrayView1};

use super::{Filter, keep_best};

/// Rows of one block of the matrix: 1 MiB at 256 components, so growing never copies what is there.
const BLOCK_ROWS: usize = 1024;

/// How far from 1 the norm of a given vector may be; what is nearer is taken as it is.
const NORM_TOLERANCE: f32 = 1e-3;

/// Why a vector was not added. The index is unchanged.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DenseError {
    /// Vectors of different models must not be mixed.
    #[error("a vector of {given} components in an index of {expected}; embed the text again with the bank's embedder")]
    Dimension {
        /// Components of the index's vectors.
        expected: usize,
        /// Components of the refused vector.
        given: usize,
    },
    /// Not a number, infinite, or not of length 1.
    #[error("a vector that is not of length 1; embed the text again")]
    NotUnit,
    /// More rows than a `u32` can number.
    #[error("the index is full; split the bank")]
    Full,
}

/// An exact index of unit vectors. A slot may have several vectors; its score is that of the nearest.
#[derive(Debug)]
pub struct DenseIndex {
    dim: usize,
    blocks: Vec<Array2<f32>>,
    /// The slot of each row ever used; `None` is a tombstone.
    slot_of_row: Vec<Option<u32>>,
    rows_of_slot: HashMap<u32, Vec<u32>>,
    free_rows: Vec<u32>,
    /// The most vectors one slot has had: how many rows may stand before the k-th distinct slot.
    vectors_per_slot_max: usize,
}

impl DenseIndex {
    /// An empty index of vectors with `dim` components.
    #[must_use]
    pub fn new(dim: usize) -> Self {
        DenseIndex {
            dim,
            blocks: Vec::new(),
            slot_of_row: Vec::new(),
            rows_of_slot: HashMap::new(),
            free_rows: Vec::new(),
            vectors_per_slot_max: 1,
        }
    }

    /// Slots that have a vector.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows_of_slot.len()
    }

    /// Whether no slot has a vector.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows_of_slot.is_empty()
    }

    /// Gives `slot` one more vector.
    ///
    /// # Errors
    /// When the vector has another dimension or is not of length 1. The index is unchanged.
    pub fn add(&mut self, slot: u32, vector: &[f32]) -> Result<(), DenseError> {
        if vector.len() != self.dim {
            return Err(DenseError::Dimension { expected: self.dim, given: vector.len() });
        }
        let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        if norm.is_nan() || (norm - 1.0).abs() > NORM_TOLERANCE {
            return Err(DenseError::NotUnit);
        }
        let row = match self.free_rows.pop() {
            Some(row) => row,
            None => {
                let row = u32::try_from(self.slot_of_row.len()).map_err(|_| DenseError::Full)?;
                if self.slot_of_row.len() == self.blocks.len() * BLOCK_ROWS {
                    self.blocks.push(Array2::zeros((BLOCK_ROWS, self.dim)));
                }
                self.slot_of_row.push(None);
                row
            }
        };
        let at = row as usize;
        if let Some(block) = self.blocks.get_mut(at / BLOCK_ROWS) {
            block.row_mut(at % BLOCK_ROWS).assign(&ArrayView1::from(vector));
        }
        if let Some(owner) = self.slot_of_row.get_mut(at) {
            *owner = Some(slot);
        }
        let rows = self.rows_of_slot.entry(slot).or_default();
        rows.push(row);
        self.vectors_per_slot_max = self.vectors_per_slot_max.max(rows.len());
        Ok(())
    }

    /// Removes all vectors of `slot`; says whether there were any.
    pub fn remove(&mut self, slot: u32) -> bool {
        let Some(rows) = self.rows_of_slot.remove(&slot) else {
            return false;
        };
        for row in rows {
            if let Some(owner) = self.slot_of_row.get_mut(row as usize) {
                *owner = None;
                self.free_rows.push(row);
            }
        }
        true
    }

    /// The `k` nearest slots that pass `filter`, with their cosine in −1..=1, best first.
    /// Empty where `query` has another dimension than the index.
    #[must_use]
    pub fn search(&self, query: &[f32], k: usize, filter: &Filter<'_>) -> Vec<(u32, f32)> {
        if query.len() != self.dim || k == 0 {
            return Vec::new();
        }
        let query = ArrayView1::from(query);
        let mut scored = Vec::new();
        // Of the best `keep` rows at least k belong to distinct slots, if there are so many.
        let keep = k.saturating_mul(self.vectors_per_slot_max);
        for (block, owners) in self.blocks.iter().zip(self.slot_of_row.chunks(BLOCK_ROWS)) {
            let products = block.dot(&query);
            // Rows below what is already kept need not bother the filter.
            let bar = match scored.get(keep - 1) {
                Some(&(_, worst)) => worst,
                None => f32::NEG_INFINITY,
            };
            scored.extend(owners.iter().zip(&products).filter_map(|(owner, &product)| {
                owner.filter(|&slot| product >= bar && filter(slot)).map(|slot| (slot, product))
            }));
            keep_best(&mut scored, keep);
        }
        let mut seen = std::collections::HashSet::new();
        scored.retain(|&(slot, _)| seen.insert(slot));
        scored.truncate(k);
        scored
    }

    /// The vectors of `slot`, in the order they were added.
    #[must_use]
    pub fn vectors(&self, slot: u32) -> Vec<Vec<f32>> {
        let row = |row: &u32| {
            let row = *row as usize;
            Some(self.blocks.get(row / BLOCK_ROWS)?.row(row % BLOCK_ROWS).to_vec())
        };
        self.rows_of_slot.get(&slot).map(|rows| rows.iter().filter_map(row).collect()).unwrap_or_default()
    }

    /// The cosine of `slot`'s nearest vector with `query`; `None` where the slot has no vector or the dimensions differ.
    #[must_use]
    pub fn similarity(&self, query: &[f32], slot: u32) -> Option<f32> {
        if query.len() != self.dim {
            return None;
        }
        let query = ArrayView1::from(query);
        self.rows_of_slot
            .get(&slot)?
            .iter()
            .filter_map(|&row| {
                let row = row as usize;
                let block = self.blocks.get(row / BLOCK_ROWS)?;
                Some(block.row(row % BLOCK_ROWS).dot(&query))
            })
            .max_by(f32::total_cmp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn unit(components: &[f32]) -> Vec<f32> {
        let norm = components.iter().map(|x| x * x).sum::<f32>().sqrt();
        components.iter().map(|x| x / norm).collect()
    }

    #[test]
    fn the_nearest_of_a_slots_vectors_is_its_score() {
        let mut index = DenseIndex::new(2);
        index.add(7, &[1.0, 0.0]).unwrap();
        index.add(7, &[0.0, 1.0]).unwrap();
        index.add(3, &unit(&[1.0, 1.0])).unwrap();
        let found = index.search(&[0.0, 1.0], 5, &|_| true);
        assert_eq!(found.iter().map(|f| f.0).collect::<Vec<_>>(), [7, 3]);
        assert!((found[0].1 - 1.0).abs() < 1e-6);
        assert_eq!(index.similarity(&[1.0, 0.0], 7), Some(1.0));
        assert_eq!(index.similarity(&[1.0, 0.0], 8), None);
        assert_eq!(index.vectors(7), [[1.0, 0.0], [0.0, 1.0]]);
        assert!(index.vectors(8).is_empty());
    }

    #[test]
    fn equal_scores_are_ordered_by_slot() {
        let mut index = DenseIndex::new(2);
        for slot in [9, 2, 5, 1] {
            index.add(slot, &[1.0, 0.0]).unwrap();
        }
        let found = index.search(&[1.0, 0.0], 3, &|_| true);
        assert_eq!(found.iter().map(|f| f.0).collect::<Vec<_>>(), [1, 2, 5]);
    }

    #[test]
    fn vectors_that_cannot_be_compared_are_refused() {
        let mut index = DenseIndex::new(2);
        assert_eq!(index.add(1, &[1.0]), Err(DenseError::Dimension { expected: 2, given: 1 }));
        for bad in [[0.0, 0.0], [2.0, 0.0], [f32::NAN, 0.0], [f32::INFINITY, 0.0]] {
            assert_eq!(index.add(1, &bad), Err(DenseError::NotUnit));
        }
        assert!(index.is_empty());
        assert!(index.search(&[1.0, 0.0, 0.0], 1, &|_| true).is_empty());
    }

    #[test]
    fn removed_slots_are_gone_and_their_rows_are_used_again() {
        let mut index = DenseIndex::new(2);
        for slot in 0..3000 {
            index.add(slot, &unit(&[slot as f32 + 1.0, 100.0])).unwrap();
        }
        let rows = index.slot_of_row.len();
        for slot in 0..3000 {
            assert!(index.remove(slot));
            assert!(!index.remove(slot));
            index.add(slot + 3000, &[1.0, 0.0]).unwrap();
        }
        assert_eq!(index.slot_of_row.len(), rows);
        assert_eq!(index.len(), 3000);
        assert_eq!(index.search(&[1.0, 0.0], 1, &|_| true), [(3000, 1.0)]);
    }

    proptest! {
        #[test]
        fn after_adding_and_removing_it_answers_as_a_fresh_one(
            vectors in prop::collection::vec((0u32..20, prop::array::uniform4(-10i8..10)), 1..60),
            removed in prop::collection::vec(0u32..20, 0..15),
            query in prop::array::uniform4(-10i8..10),
            k in 1usize..8,
        ) {
            let floats = |v: [i8; 4]| unit(&v.map(|x| f32::from(x) + 0.5));
            let mut index = DenseIndex::new(4);
            let mut fresh = DenseIndex::new(4);
            for (slot, vector) in &vectors {
                index.add(*slot, &floats(*vector)).unwrap();
                if !removed.contains(slot) {
                    fresh.add(*slot, &floats(*vector)).unwrap();
                }
            }
            for slot in &removed {
                index.remove(*slot);
            }
            let filter = |slot: u32| !slot.is_multiple_of(3);
            let found = index.search(&floats(query), k, &filter);
            prop_assert_eq!(&found, &fresh.search(&floats(query), k, &filter));
            // The brute-force answer: every slot by its best vector.
            let mut all: Vec<(u32, f32)> = (0..20)
                .filter(|slot| filter(*slot))
                .filter_map(|slot| Some((slot, fresh.similarity(&floats(query), slot)?)))
                .collect();
            keep_best(&mut all, k);
            prop_assert_eq!(found.iter().map(|f| f.0).collect::<Vec<_>>(), all.iter().map(|f| f.0).collect::<Vec<_>>());
        }
    }
}
