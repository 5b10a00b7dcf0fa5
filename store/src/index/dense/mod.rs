//! The nearest vectors to a query, by scanning all of them.
//!
//! There is no graph. Each vector has a code of one bit a component ([`basis`]); a query scans all codes by SIMD look-ups
//! ([`crate::raw`]), scores the best of them again by 8-bit integers, and the best of those exactly. So an insert is an append, a
//! delete is a bit, a filter costs nothing, and what is on disk is read in order. While there are few vectors, all of
//! them are scored exactly.
//!
//! An index is in memory ([`DenseIndex::new`]) or on disk ([`DenseIndex::open`]); the layout is in [`file`] and [`block`]. What
//! is on disk is only a copy of what an embedder makes of the bank's texts: after opening, whatever is still in the bank
//! [claims](DenseIndex::claim) its vectors, and the rest goes.

mod basis;
mod block;
mod file;
pub(crate) mod head;
pub(crate) mod log;
mod partition;
#[cfg(test)]
mod samples;
mod search;
mod slots;
mod stored;

use std::{
    collections::{BTreeSet, HashSet},
    path::{Path, PathBuf},
    sync::Mutex,
};

use ndarray::{Array2, ArrayView1};

use self::{
    basis::Basis,
    block::{BLOCK_ROWS, Block, OpenBlock, Shape},
    file::Files,
    log::Entry,
    partition::PARTITION_MIN,
    slots::Slots,
    stored::Stored,
};
pub use self::{block::Key, file::VectorFileError, slots::SlotSet};
use crate::{embed::EmbedderIdentity, raw::Kernels};

/// How far from 1 the norm of a given vector may be; what is nearer is taken as it is.
const NORM_TOLERANCE: f32 = 1e-3;
/// The most components of a vector. Sums over a code of this length just fit 16 bits.
pub const MAX_DIM: usize = 4096;
/// The seed of an index in memory, which nobody else's codes are compared with.
const MEMORY_SEED: u64 = 0;
/// Deleted vectors below which nothing is written anew.
const DEAD_ROWS_MIN: usize = BLOCK_ROWS;

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
    /// More components than the index can code.
    #[error("a vector of more than {MAX_DIM} components; choose an embedder with fewer, many can shorten theirs")]
    TooWide,
    /// More rows than a `u32` can number.
    #[error("the index is full; split the bank")]
    Full,
}

/// An index of unit vectors. A slot may have several vectors; its score is that of the nearest.
#[derive(Debug)]
pub struct DenseIndex {
    shape: Shape,
    seed: u64,
    basis: Option<Basis>,
    /// Blocks on disk, the first ones.
    files: Option<Files>,
    /// Whether the files could not be written once. They are left as they are then.
    failed: bool,
    /// Full blocks in memory: all of them without files, or those that could not be written.
    full: Vec<OpenBlock>,
    /// Vectors in all blocks but the last, the deleted ones too.
    sealed_rows: usize,
    /// The last block.
    open: OpenBlock,
    slots: Slots,
    /// What was on disk at opening and nobody has claimed yet; `None` once settled.
    stored: Option<Stored>,
    /// Vectors that a query found damaged. Queries do not write, so the next write notes them.
    damaged: Mutex<BTreeSet<u32>>,
    kernels: Kernels,
}

impl DenseIndex {
    /// An empty index, in memory, of vectors with `dim` components.
    #[must_use]
    pub fn new(dim: usize) -> Self {
        let shape = Shape { dim, exact: true };
        DenseIndex {
            shape,
            seed: MEMORY_SEED,
            basis: None,
            files: None,
            failed: false,
            full: Vec::new(),
            sealed_rows: 0,
            open: OpenBlock::new(shape),
            slots: Slots::default(),
            stored: None,
            damaged: Mutex::default(),
            kernels: Kernels::best(),
        }
    }

    /// Opens the index of an embedder's vectors below the directory `vectors`, or begins it; and says in words what was
    /// damaged. The caller has that directory for itself. Nothing is found until it is [claimed](DenseIndex::claim), and
    /// what is added is not sure to be on disk until the index is [settled](DenseIndex::settle).
    ///
    /// # Errors
    /// When the file system refuses. Nothing on disk is changed then, but for damage that was cut off.
    pub fn open(vectors: &Path, identity: &EmbedderIdentity) -> Result<(Self, Vec<String>), VectorFileError> {
        Self::open_files(vectors, identity, true)
    }

    /// As [`DenseIndex::open`], but an index that is begun here does not keep vectors as they were given: a third of the
    /// room, and cosines that are some 0.00003 off. For tens of millions.
    ///
    /// # Errors
    /// As [`DenseIndex::open`].
    pub fn open_compact(vectors: &Path, identity: &EmbedderIdentity) -> Result<(Self, Vec<String>), VectorFileError> {
        Self::open_files(vectors, identity, false)
    }

    fn open_files(
        vectors: &Path,
        identity: &EmbedderIdentity,
        exact: bool,
    ) -> Result<(Self, Vec<String>), VectorFileError> {
        let (files, found) = Files::open(vectors, identity, exact)?;
        let mut index = DenseIndex::new(identity.dim);
        index.shape = files.shape();
        index.seed = files.seed();
        index.basis = files.basis().cloned();
        index.open = OpenBlock::new(index.shape);
        let sealed = files.blocks() * BLOCK_ROWS;
        index.sealed_rows = files.vectors();
        index.files = Some(files);
        for entry in found.entries {
            if let Entry::Vector { row, key, vector } = entry
                && row as usize >= sealed
            {
                index.open.push(&key, &vector, index.basis.as_ref());
            }
        }
        index.stored = Some(Stored::default());
        Ok((index, found.notes))
    }

    /// Whether it has files.
    pub(crate) fn is_on_disk(&self) -> bool {
        self.files.is_some()
    }

    /// Slots that have a vector.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether no slot has a vector.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.len() == 0
    }

    /// The instruction set that it scans with.
    #[must_use]
    pub fn kernels(&self) -> &'static str {
        self.kernels.name
    }

    /// Gives `slot` the vectors that the index had on disk for `id`, if it had all of them; says whether it had.
    pub fn claim(&mut self, slot: u32, id: &[u8; 32]) -> bool {
        let Some(mut stored) = self.stored.take() else { return false };
        let rows = stored.next(self, id).or_else(|| stored.complete(self, id));
        for row in rows.iter().flatten() {
            self.slots.assign(*row, slot);
        }
        self.stored = Some(stored);
        rows.is_some()
    }

    /// Ends what opening began: what was not claimed is deleted, and everything is put on disk. From here on each added
    /// vector is written to the log at once.
    ///
    /// # Errors
    /// When the file system refuses. The index goes on in memory.
    pub fn settle(&mut self) -> Result<(), VectorFileError> {
        self.stored = None;
        let listed = self.blocks().filter(|block| block.list > 0).map(|block| block.rows).sum::<usize>();
        if self.slots.live() >= PARTITION_MIN && listed < self.slots.live() / 2 {
            self.rewrite(partition::lists_for(self.slots.live()))?;
        } else if self.dead_rows() > DEAD_ROWS_MIN.max(self.slots.live() / 2) {
            self.rewrite(self.basis.as_ref().map_or(0, |basis| basis.centres().nrows() - 1))?;
        }
        self.write_log()
    }

    /// Parts the vectors into this many lists of near ones, so that a query scans some of them only. Opening does it by itself where
    /// there are tens of millions; the index must be settled.
    ///
    /// # Errors
    /// When the file system refuses. The index is as it was.
    pub fn part(&mut self, lists: usize) -> Result<(), VectorFileError> {
        self.rewrite(lists)?;
        self.write_log()
    }

    /// Begins the log anew, with the vectors of the block that is not full.
    fn write_log(&mut self) -> Result<(), VectorFileError> {
        let base = self.open_base();
        let view = self.open.view();
        let mut frames = Vec::new();
        for row in 0..view.rows {
            if let (Some((key, _)), Some(vector)) = (view.key(row), view.vector(row)) {
                frames.extend(Entry::vector_frame((base + row) as u32, &key, &vector));
            }
        }
        match &mut self.files {
            // Blocks that are in memory only come before the open one, so a log would number it wrongly.
            Some(files) if self.full.is_empty() && !self.failed => {
                files.settle(&frames).inspect_err(|_| self.failed = true)
            }
            _ => Ok(()),
        }
    }

    /// Gives `slot`, a small number, one more vector.
    ///
    /// # Errors
    /// When the vector has another dimension or is not of length 1. The index is unchanged.
    pub fn add(&mut self, slot: u32, vector: &[f32]) -> Result<(), DenseError> {
        self.add_keyed(slot, &Key { id: [0; 32], part: 0, of: 0 }, vector)
    }

    /// As [`DenseIndex::add`], under a key by which it can be claimed after the next opening.
    ///
    /// # Errors
    /// As [`DenseIndex::add`].
    pub fn add_keyed(&mut self, slot: u32, key: &Key, vector: &[f32]) -> Result<(), DenseError> {
        self.check(vector)?;
        self.append(slot, key, vector)
    }

    /// Adds a vector that was checked once. As its integers say, its length may be a little off.
    fn append(&mut self, slot: u32, key: &Key, vector: &[f32]) -> Result<(), DenseError> {
        let row = u32::try_from(self.open_base() + self.open.rows()).map_err(|_| DenseError::Full)?;
        self.open.push(key, vector, self.basis.as_ref());
        self.slots.assign(row, slot);
        if self.stored.is_none() && self.full.is_empty() {
            self.write(|files| files.log(&Entry::vector_frame(row, key, vector)));
            let damaged = std::mem::take(&mut *self.damaged.get_mut().unwrap_or_else(|e| e.into_inner()));
            for row in damaged {
                self.write(|files| files.log_damaged(row));
            }
        }
        if self.open.is_full() {
            self.seal(0);
        }
        if self.files.is_none() && self.dead_rows() > DEAD_ROWS_MIN.max(self.slots.live() / 2) {
            // In memory only, nothing can fail.
            self.rewrite(0).ok();
        }
        Ok(())
    }

    /// Removes all vectors of `slot`; says whether there were any.
    pub fn remove(&mut self, slot: u32) -> bool {
        self.slots.clear(slot)
    }

    /// Overwrites all vectors under these ids, on disk and in memory, those too that no slot has (any more).
    ///
    /// # Errors
    /// When the file system refuses. The vectors are found no more, but some of their bytes may still be there.
    pub fn erase(&mut self, ids: &HashSet<[u8; 32]>) -> Result<(), VectorFileError> {
        let is_meant = |row: &u32| {
            let block = self.block(*row as usize / BLOCK_ROWS);
            block.and_then(|block| block.key(*row as usize % BLOCK_ROWS)).is_some_and(|(key, _)| ids.contains(&key.id))
        };
        let rows: Vec<u32> = if ids.is_empty() { Vec::new() } else { self.rows().filter(is_meant).collect() };
        if rows.is_empty() {
            return Ok(());
        }
        for row in &rows {
            if let Some(slot) = self.slots.slot(*row) {
                self.slots.clear(slot);
            }
        }
        let on_disk = self.files.as_ref().map_or(0, Files::blocks);
        let (written, logged): (Vec<u32>, Vec<u32>) =
            rows.into_iter().partition(|row| (*row as usize / BLOCK_ROWS) < on_disk);
        for row in &logged {
            let block = self.full.get_mut(*row as usize / BLOCK_ROWS - on_disk).unwrap_or(&mut self.open);
            block.erase(*row as usize % BLOCK_ROWS);
        }
        let erased = self.files.as_mut().map_or(Ok(()), |files| files.erase(&written));
        if !logged.is_empty() && self.stored.is_none() {
            if let Some(files) = self.files.as_ref().filter(|_| self.failed || !self.full.is_empty()) {
                return erased.and(Err(files.given_up()));
            }
            self.write_log()?;
        }
        erased
    }

    /// Directories below `vectors`, each of which may have spaces.
    pub(crate) fn kinds(vectors: &Path) -> Result<Vec<PathBuf>, VectorFileError> {
        file::directories(vectors)
    }

    /// As [`DenseIndex::erase`], in all spaces below the directory `vectors` but those of the embedders `open`. A space
    /// of which nothing can be read is removed: it can be made again.
    pub(crate) fn erase_below(
        vectors: &Path,
        open: &[EmbedderIdentity],
        ids: &HashSet<[u8; 32]>,
    ) -> Vec<VectorFileError> {
        let erase = |space: &Path| -> Result<(), VectorFileError> {
            let Some((identity, exact)) = file::identity_of(space)? else { return file::remove_space(space) };
            let (mut index, _) = Self::open_files(vectors, &identity, exact)?;
            index.erase(ids)?;
            index.write_log()
        };
        match file::spaces(vectors) {
            Ok(spaces) => {
                let closed = spaces.iter().filter(|space| !open.iter().any(|identity| file::is_of(space, identity)));
                closed.filter_map(|space| erase(space).err()).collect()
            }
            Err(error) => vec![error],
        }
    }

    fn check(&self, vector: &[f32]) -> Result<(), DenseError> {
        if vector.len() != self.shape.dim {
            return Err(DenseError::Dimension { expected: self.shape.dim, given: vector.len() });
        }
        if vector.len() > MAX_DIM {
            return Err(DenseError::TooWide);
        }
        let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        if norm.is_nan() || (norm - 1.0).abs() > NORM_TOLERANCE {
            return Err(DenseError::NotUnit);
        }
        Ok(())
    }

    /// Does something with the files. When that fails they are left as they are, and the index goes on in memory.
    fn write(&mut self, action: impl FnOnce(&mut Files) -> Result<(), VectorFileError>) -> bool {
        let Some(files) = self.files.as_mut().filter(|_| !self.failed) else { return false };
        match action(files) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, "no more vectors are written to disk");
                self.failed = true;
                false
            }
        }
    }

    /// Puts the last block among the others, and begins one of `next_list`.
    fn seal(&mut self, next_list: usize) {
        if self.basis.is_none() {
            let base = self.open_base() as u32;
            let rows: Vec<u32> = (base..base + self.open.rows() as u32).collect();
            let basis = Basis::learn(self.gather(rows.iter()).view(), self.seed);
            self.open.encode_all(&basis);
            self.basis = Some(basis.clone());
            self.write(|files| files.set_basis(basis));
        }
        let sealed = std::mem::replace(&mut self.open, OpenBlock::of_list(self.shape, next_list));
        self.sealed_rows += sealed.rows();
        let (settled, in_order) = (self.stored.is_none(), self.full.is_empty());
        let written = in_order && self.write(|files| files.append(&sealed, settled));
        if !written {
            self.full.push(sealed);
        } else if settled {
            self.write(|files| files.settle(&[]));
        }
    }

    /// Gives codes to the vectors of a block that is not full, too: for an index that nothing is added to any more.
    fn code_all(&mut self) {
        if self.basis.is_none() {
            let rows: Vec<u32> = (0..self.open.rows() as u32).collect();
            self.basis = Some(Basis::learn(self.gather(rows.iter()).view(), self.seed));
        }
        if let Some(basis) = &self.basis {
            self.open.encode_all(basis);
        }
    }

    /// Vectors in blocks that are full, the deleted ones too.
    fn open_base(&self) -> usize {
        (self.files.as_ref().map_or(0, Files::blocks) + self.full.len()) * BLOCK_ROWS
    }

    fn dead_rows(&self) -> usize {
        (self.sealed_rows + self.open.rows()).saturating_sub(self.slots.live())
    }

    /// A block by number; the last one is not full.
    fn block(&self, number: usize) -> Option<Block<'_>> {
        let on_disk = self.files.as_ref().map_or(0, Files::blocks);
        if number < on_disk {
            return self.files.as_ref()?.block(number);
        }
        match self.full.get(number - on_disk) {
            Some(block) => Some(block.view()),
            None if number - on_disk == self.full.len() => Some(self.open.view()),
            None => None,
        }
    }

    fn blocks(&self) -> impl Iterator<Item = Block<'_>> {
        (0..).map_while(|number| self.block(number))
    }

    /// Writes all vectors that have a slot anew, without those deleted, parted into lists if there are to be any.
    fn rewrite(&mut self, lists: usize) -> Result<(), VectorFileError> {
        let live: Vec<u32> = self.rows().filter(|row| self.slots.slot(*row).is_some()).collect();
        let basis = match &self.basis {
            Some(basis) if lists > 0 => {
                let every = (live.len() / (lists * partition::SAMPLE_PER_LIST)).max(1);
                let sample = self.gather(live.iter().step_by(every));
                Some(basis.with_lists(partition::centroids(sample.view(), lists).view(), self.seed))
            }
            Some(basis) => Some(basis.with_lists(Array2::zeros((0, self.shape.dim)).view(), self.seed)),
            None => None,
        };
        let mut fresh = DenseIndex::new(self.shape.dim);
        (fresh.shape, fresh.seed, fresh.kernels) = (self.shape, self.seed, self.kernels);
        fresh.files = self.files.as_ref().map(|files| files.next_generation(basis.clone())).transpose()?;
        // Not settled: its log is written at the end.
        fresh.stored = self.files.is_some().then(Stored::default);
        fresh.basis = basis;
        fresh.open = OpenBlock::new(self.shape);
        if lists > 0 {
            let mut by_list: Vec<(u32, u32)> = self.lists_of(&live, &fresh).into_iter().zip(live).collect();
            by_list.sort_unstable();
            for list in by_list.chunk_by(|a, b| a.0 == b.0) {
                for (at, (number, row)) in list.iter().enumerate() {
                    if at.is_multiple_of(BLOCK_ROWS) {
                        fresh.begin_list(*number as usize);
                    }
                    self.copy(*row, &mut fresh);
                }
            }
            fresh.begin_list(0);
        } else {
            live.into_iter().for_each(|row| self.copy(row, &mut fresh));
        }
        if let Some(files) = &mut fresh.files {
            files.settle(&[])?;
            files.write_head()?;
        }
        fresh.stored = None;
        if let Some(old) = std::mem::replace(self, fresh).files
            && let Err(error) = old.discard()
        {
            // The next opening takes the newer one and tries again.
            tracing::warn!(%error, "vectors that were written anew are still there");
        }
        Ok(())
    }

    /// Begins a block of a list, unless that has one with nothing in it.
    fn begin_list(&mut self, list: usize) {
        if self.open.rows() > 0 {
            self.seal(list);
        } else {
            self.open = OpenBlock::of_list(self.shape, list);
        }
    }

    /// Numbers of all vectors, the deleted ones too.
    fn rows(&self) -> impl Iterator<Item = u32> {
        self.blocks().enumerate().flat_map(|(number, block)| {
            let base = (number * BLOCK_ROWS) as u32;
            base..base + block.rows as u32
        })
    }

    /// Vectors by number, one a row; zeros for one that is damaged.
    fn gather<'r>(&self, rows: impl ExactSizeIterator<Item = &'r u32>) -> Array2<f32> {
        let mut out = Array2::zeros((rows.len(), self.shape.dim));
        for (mut out, row) in out.rows_mut().into_iter().zip(rows) {
            let block = self.block(*row as usize / BLOCK_ROWS);
            if let Some(vector) = block.and_then(|block| block.vector(*row as usize % BLOCK_ROWS)) {
                out.assign(&ArrayView1::from(&*vector));
            }
        }
        out
    }

    /// The list of each vector in another index.
    fn lists_of(&self, rows: &[u32], other: &DenseIndex) -> Vec<u32> {
        let Some(basis) = &other.basis else { return vec![0; rows.len()] };
        let centres = basis.centres().slice(ndarray::s![1.., ..]).to_owned();
        let nearest = partition::Nearest::new(&centres);
        // The step that takes longest at tens of millions, and what is far apart in it is independent.
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let of = |rows: &[u32]| -> Vec<u32> {
            let chunks = rows.chunks(BLOCK_ROWS).flat_map(|rows| nearest.of(self.gather(rows.iter()).view()));
            chunks.map(|list| list as u32 + 1).collect()
        };
        std::thread::scope(|scope| {
            let parts = rows.chunks(rows.len().div_ceil(threads).max(1));
            let started: Vec<_> = parts.map(|part| (part, scope.spawn(|| of(part)))).collect();
            // A thread that died is done again here, to die with its message.
            started.into_iter().flat_map(|(part, thread)| thread.join().unwrap_or_else(|_| of(part))).collect()
        })
    }

    /// Adds one vector, with its slot and key, to another index.
    fn copy(&self, row: u32, other: &mut DenseIndex) {
        let Some(block) = self.block(row as usize / BLOCK_ROWS) else { return };
        let at = row as usize % BLOCK_ROWS;
        if let (Some(slot), Some((key, _)), Some(vector)) = (self.slots.slot(row), block.key(at), block.vector(at)) {
            // There is room: there are no more of them than here.
            other.append(slot, &key, &vector).ok();
        }
    }
}

#[cfg(test)]
mod tests;
