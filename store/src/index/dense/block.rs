//! Blocks: 4,096 vectors and their keys, in memory as on disk.
//!
//! A block has two parts. The **hot** part is what every query reads: codes and factors. The **cold** part is read at a
//! few places: keys, rows of 8-bit integers, and the vectors as they were given.
//!
//! ```text
//! hot    codes      128 groups of 32 vectors; layout in `crate::raw::Scan`
//!        factors    i16 × 4096
//! cold   keys       4096 × (id 32 bytes, part u16, of u16, check u32)
//!        bytes      4096 × (i8 × code length, scale f32)
//!        vectors    4096 × f32 × dim; where exact vectors are not kept, what the integers left of them: 4 bits a component
//! ```
//!
//! A vector as its integers say is off by about 0.0005 in its cosine. Among tens of millions that is as far as the tenth nearest is
//! from the eleventh, so that one answer in twenty was another; with 4 bits more for each component it is a sixteenth of it.

use std::borrow::Cow;

use ndarray::ArrayView2;

use super::basis::{Basis, code_len};
use crate::raw::{Buffer, GROUP, NIBBLE_BYTES, as_bytes, as_f32, as_i8, as_i16, prefetch};

/// Vectors of a block. 128 KiB of codes at 256 components: large enough to be read at memory speed, small enough that a
/// block that is not full may be kept in memory.
pub(super) const BLOCK_ROWS: usize = 4096;
/// Bytes of a key, and of what says what it belongs to.
const KEY_BYTES: usize = 40;
/// Bytes of the scale after each row of integers.
const SCALE_BYTES: usize = 4;

/// What a vector is of: a text of something that has a 32-byte id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// Whose vector, such as a lesson's id.
    pub id: [u8; 32],
    /// Which of its vectors, from 0.
    pub part: u16,
    /// How many it has in all.
    pub of: u16,
}

/// Sizes of everything in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Components of a vector.
    pub dim: usize,
    /// Whether vectors are kept as they were given; without them integers and what they left have the last word.
    pub exact: bool,
}

impl Shape {
    pub fn code_len(&self) -> usize {
        code_len(self.dim)
    }

    /// Bytes of a group's codes.
    pub fn group_bytes(&self) -> usize {
        self.code_len() / 4 * NIBBLE_BYTES
    }

    fn codes_bytes(&self) -> usize {
        BLOCK_ROWS / GROUP * self.group_bytes()
    }

    pub fn hot_bytes(&self) -> usize {
        self.codes_bytes() + BLOCK_ROWS * size_of::<i16>()
    }

    pub fn keys_bytes(&self) -> usize {
        BLOCK_ROWS * KEY_BYTES
    }

    fn row_bytes(&self) -> usize {
        self.code_len() + SCALE_BYTES
    }

    /// The ranges of the cold part that so many vectors take; between them are zeros.
    pub fn cold_ranges(&self, rows: usize) -> [std::ops::Range<usize>; 3] {
        let (integers, vectors) = (self.keys_bytes(), self.vectors_at());
        [0..integers, integers..integers + rows * self.row_bytes(), vectors..vectors + rows * self.vector_bytes()]
    }

    fn vectors_at(&self) -> usize {
        self.keys_bytes() + BLOCK_ROWS * self.row_bytes()
    }

    /// Bytes of a vector beyond its integers.
    fn vector_bytes(&self) -> usize {
        if self.exact { self.dim * size_of::<f32>() } else { self.dim.div_ceil(2) }
    }

    /// Where those of one vector are.
    fn vector_at(&self, row: usize) -> std::ops::Range<usize> {
        let start = self.vectors_at() + row * self.vector_bytes();
        start..start + self.vector_bytes()
    }

    pub fn cold_bytes(&self) -> usize {
        self.vectors_at() + BLOCK_ROWS * self.vector_bytes()
    }
}

/// A block to be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block<'a> {
    pub shape: Shape,
    pub hot: &'a [u8],
    pub cold: &'a [u8],
    /// Vectors in it; the rest is zeros.
    pub rows: usize,
    /// The list whose centre its codes are relative to.
    pub list: usize,
}

impl<'a> Block<'a> {
    /// Codes and factors of whole groups from group `first` on, at most `groups` of them.
    pub fn groups(&self, first: usize, groups: usize) -> (&'a [u8], &'a [i16]) {
        let end = (first + groups).min(self.rows.div_ceil(GROUP));
        let (codes, factors) = self.hot.split_at(self.shape.codes_bytes().min(self.hot.len()));
        let group = self.shape.group_bytes();
        let codes = codes.get(first * group..end * group).unwrap_or_default();
        (codes, as_i16(factors).get(first * GROUP..end * GROUP).unwrap_or_default())
    }

    /// The key of a vector; `None` beyond the last.
    pub fn key(&self, row: usize) -> Option<(Key, u32)> {
        let bytes = self.cold.get(row * KEY_BYTES..(row + 1) * KEY_BYTES).filter(|_| row < self.rows)?;
        let (id, rest) = bytes.split_first_chunk::<32>()?;
        let (part, rest) = rest.split_first_chunk::<2>()?;
        let (of, check) = rest.split_first_chunk::<2>()?;
        let key = Key { id: *id, part: u16::from_le_bytes(*part), of: u16::from_le_bytes(*of) };
        Some((key, u32::from_le_bytes(*check.first_chunk::<4>()?)))
    }

    fn row(&self, row: usize) -> &'a [u8] {
        let at = self.shape.keys_bytes() + row * self.shape.row_bytes();
        self.cold.get(at..at + self.shape.row_bytes()).unwrap_or_default()
    }

    /// Fetches the integers of a vector into the cache.
    pub fn prefetch(&self, row: usize) {
        prefetch(self.row(row));
    }

    /// The integers of a vector and what one of them means.
    pub fn integers(&self, row: usize) -> Option<(&'a [i8], f32)> {
        let (integers, scale) = self.row(row).split_last_chunk::<SCALE_BYTES>()?;
        Some((as_i8(integers), f32::from_le_bytes(*scale)))
    }

    /// The vectors as they were given, one a row; none where they are not kept.
    pub fn vectors(&self) -> Option<ArrayView2<'a, f32>> {
        let floats = as_f32(self.cold.get(self.shape.vectors_at()..)?).get(..self.rows * self.shape.dim)?;
        ArrayView2::from_shape((self.rows, self.shape.dim), floats).ok().filter(|_| self.shape.exact)
    }

    /// A vector as it was given, or as its integers and what they left say where that is not kept. `None` if its check says that it is
    /// damaged, or if there is none.
    pub fn vector(&self, row: usize) -> Option<Cow<'a, [f32]>> {
        let (_, check) = self.key(row)?;
        let beyond = self.cold.get(self.shape.vector_at(row))?;
        if check_of(self.row(row), beyond) != check {
            return None;
        }
        if self.shape.exact {
            return Some(Cow::Borrowed(as_f32(beyond))).filter(|vector| vector.len() == self.shape.dim);
        }
        let (integers, scale) = self.integers(row)?;
        let left = beyond.iter().flat_map(|pair| [pair & 15, pair >> 4]);
        let whole = |(integer, left): (&i8, u8)| (f32::from(*integer) + (f32::from(left) - 8.0) / 16.0) * scale;
        Some(Cow::Owned(integers.iter().take(self.shape.dim).zip(left).map(whole).collect()))
    }
}

/// A block in memory, to which vectors are added.
#[derive(Debug, Clone)]
pub(super) struct OpenBlock {
    shape: Shape,
    hot: Buffer,
    cold: Buffer,
    rows: usize,
    list: usize,
    /// Vectors that have a code: all of them, or none while there is no basis.
    coded: usize,
}

impl OpenBlock {
    pub fn new(shape: Shape) -> Self {
        OpenBlock::of_list(shape, 0)
    }

    /// A block of one list.
    pub fn of_list(shape: Shape, list: usize) -> Self {
        let (hot, cold) = (Buffer::zeroed(shape.hot_bytes()), Buffer::zeroed(shape.cold_bytes()));
        OpenBlock { shape, hot, cold, rows: 0, list, coded: 0 }
    }

    pub fn view(&self) -> Block<'_> {
        Block { shape: self.shape, hot: self.hot.bytes(), cold: self.cold.bytes(), rows: self.rows, list: self.list }
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn is_full(&self) -> bool {
        self.rows == BLOCK_ROWS
    }

    /// Adds a vector of `dim` components; says whether there was room.
    pub fn push(&mut self, key: &Key, vector: &[f32], basis: Option<&Basis>) -> bool {
        if self.is_full() || vector.len() != self.shape.dim {
            return false;
        }
        let (at, shape) = (self.rows, self.shape);
        let cold = self.cold.bytes_mut();
        let row_at = shape.keys_bytes() + at * shape.row_bytes();
        if let Some(row) = cold.get_mut(row_at..row_at + shape.row_bytes()) {
            write_integers(vector, row);
        }
        let beyond: Cow<'_, [u8]> = if shape.exact { as_bytes(vector).into() } else { left_of(vector).into() };
        if let Some(out) = cold.get_mut(shape.vector_at(at)) {
            out.copy_from_slice(&beyond);
        }
        let check = check_of(cold.get(row_at..row_at + shape.row_bytes()).unwrap_or_default(), &beyond);
        if let Some(out) = cold.get_mut(at * KEY_BYTES..(at + 1) * KEY_BYTES) {
            let numbers = [key.part.to_le_bytes(), key.of.to_le_bytes()].concat();
            out.copy_from_slice(&[&key.id[..], &numbers, &check.to_le_bytes()].concat());
        }
        self.rows += 1;
        if let Some(basis) = basis {
            self.encode(at, vector, basis);
        }
        true
    }

    /// Overwrites a vector, its key and its code with zeros.
    pub fn erase(&mut self, at: usize) -> Option<()> {
        let (shape, hot, cold) = (self.shape, self.hot.bytes_mut(), self.cold.bytes_mut());
        erase(shape, hot, cold, at)
    }

    /// Codes what has no code yet.
    pub fn encode_all(&mut self, basis: &Basis) {
        for at in self.coded..self.rows {
            if let Some(vector) = self.view().vector(at).map(Cow::into_owned) {
                self.encode(at, &vector, basis);
            }
        }
    }

    fn encode(&mut self, at: usize, vector: &[f32], basis: &Basis) {
        let code = basis.encode(vector, self.list);
        let (group, within) = (at / GROUP, at % GROUP);
        let (byte, shift) = (within % NIBBLE_BYTES, within / NIBBLE_BYTES * 4);
        let start = group * self.shape.group_bytes();
        let codes_bytes = self.shape.codes_bytes();
        let (codes, factors) = self.hot.bytes_mut().split_at_mut(codes_bytes);
        let pieces = codes.get_mut(start..).unwrap_or_default().chunks_exact_mut(NIBBLE_BYTES);
        for (piece, nibble) in pieces.zip(&code.nibbles) {
            if let Some(out) = piece.get_mut(byte) {
                *out |= nibble << shift;
            }
        }
        if let Some(out) = factors.get_mut(at * 2..at * 2 + 2) {
            out.copy_from_slice(&code.factor.to_le_bytes());
        }
        self.coded = at + 1;
    }
}

/// Overwrites a vector, its key and its code with zeros; `None` if there is no such place.
pub(super) fn erase(shape: Shape, hot: &mut [u8], cold: &mut [u8], at: usize) -> Option<()> {
    let row_at = shape.keys_bytes() + at * shape.row_bytes();
    cold.get_mut(row_at..row_at + shape.row_bytes())?.fill(0);
    cold.get_mut(shape.vector_at(at))?.fill(0);
    let check = check_of(cold.get(row_at..row_at + shape.row_bytes())?, cold.get(shape.vector_at(at))?);
    let key = cold.get_mut(at * KEY_BYTES..(at + 1) * KEY_BYTES)?;
    key.fill(0);
    key.last_chunk_mut::<4>()?.copy_from_slice(&check.to_le_bytes());
    let (group, within) = (at / GROUP, at % GROUP);
    let (byte, kept) = (within % NIBBLE_BYTES, if within < NIBBLE_BYTES { 0xf0 } else { 0x0f });
    let (codes, factors) = hot.split_at_mut_checked(shape.codes_bytes())?;
    let group = codes.get_mut(group * shape.group_bytes()..(group + 1) * shape.group_bytes())?;
    group.chunks_exact_mut(NIBBLE_BYTES).filter_map(|piece| piece.get_mut(byte)).for_each(|code| *code &= kept);
    factors.get_mut(at * 2..at * 2 + 2)?.fill(0);
    Some(())
}

/// What one of a vector's integers means.
fn scale_of(vector: &[f32]) -> f32 {
    vector.iter().fold(f32::MIN_POSITIVE, |max, x| max.max(x.abs())) / 127.0
}

/// A component as an integer of −127..=127 and what that leaves, in sixteenths of one, −8..8. Both together are the nearest
/// sixteenth, so that what was read back comes to the same when it is written again: no rewrite of the files adds to the error.
fn parts_of(x: f32, scale: f32) -> (i8, i8) {
    // Damage may have made it anything; the conversion saturates, and not a number is 0.
    let sixteenths = (x / scale * 16.0).round().clamp(-2032.0, 2032.0) as i32;
    let integer = (sixteenths + 8).div_euclid(16);
    (integer as i8, (sixteenths - 16 * integer) as i8)
}

/// What a vector's integers leave of it, two components a byte, the first in the lower half, each 8 too large.
fn left_of(vector: &[f32]) -> Vec<u8> {
    let scale = scale_of(vector);
    let left = |x: &f32| (parts_of(*x, scale).1 + 8).cast_unsigned();
    vector.chunks(2).map(|pair| pair.first().map_or(0, left) | pair.get(1).map_or(0, left) << 4).collect()
}

/// A vector as integers of −127..=127, padded with zeros, and what one of them means.
fn write_integers(vector: &[f32], row: &mut [u8]) {
    let scale = scale_of(vector);
    for (out, x) in row.iter_mut().zip(vector) {
        *out = parts_of(*x, scale).0.cast_unsigned();
    }
    if let Some(out) = row.last_chunk_mut::<SCALE_BYTES>() {
        *out = scale.to_le_bytes();
    }
}

/// A check against damage, not against forgery: every query computes it for each vector that it answers with.
fn check_of(row: &[u8], exact: &[u8]) -> u32 {
    // Four chains, since one would wait for its multiplications. Each step is a bijection of the chain's state, so a
    // change of one word is always noticed before the last folding.
    let mut chains = [0x9e37_79b9_7f4a_7c15u64, 0xd1b5_4a32_d192_ed03, 0x8cb9_2ba7_2f3d_8dd7, 0xaaaa_aaaa_5555_5555];
    for part in [row, exact] {
        let (fours, rest) = part.as_chunks::<32>();
        for four in fours {
            for (chain, word) in chains.iter_mut().zip(four.as_chunks::<8>().0) {
                *chain = (*chain ^ u64::from_le_bytes(*word)).wrapping_mul(0x9fb2_1c65_1e98_df25).rotate_left(23);
            }
        }
        for byte in rest {
            chains[0] = (chains[0] ^ u64::from(*byte)).wrapping_mul(0x9fb2_1c65_1e98_df25).rotate_left(23);
        }
    }
    let folded =
        chains.into_iter().fold(0u64, |all, chain| (all.rotate_left(17) ^ chain).wrapping_mul(0x9fb2_1c65_1e98_df25));
    (folded >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::{super::samples::gaussian_unit, *};

    fn key(n: u8) -> Key {
        Key { id: [n; 32], part: u16::from(n), of: 300 }
    }

    #[test]
    fn what_was_added_is_read_back() {
        for (dim, exact) in [(2, true), (100, true), (100, false), (256, true)] {
            let mut block = OpenBlock::new(Shape { dim, exact });
            for n in 0..40 {
                assert!(block.push(&key(n), &gaussian_unit(dim, n.into()), None));
            }
            assert!(!block.push(&key(1), &vec![1.0; dim + 1], None));
            let view = block.view();
            assert_eq!(view.rows, 40);
            assert_eq!(view.key(40), None);
            for n in 0..40u8 {
                assert_eq!(view.key(n.into()).unwrap().0, key(n));
                let vector = view.vector(n.into()).unwrap();
                for (a, b) in vector.iter().zip(gaussian_unit(dim, n.into())) {
                    let scale = scale_of(&gaussian_unit(dim, n.into()));
                    assert!((a - b).abs() <= if exact { 0.0 } else { scale / 31.0 });
                }
            }
            assert_eq!(view.vectors().is_some(), exact);
        }
    }

    #[test]
    fn a_vector_that_is_not_kept_exactly_stays_what_it_is_when_it_is_written_again() {
        let shape = Shape { dim: 256, exact: false };
        let (mut first, mut again) = (OpenBlock::new(shape), OpenBlock::new(shape));
        for n in 0..200 {
            first.push(&key(n), &gaussian_unit(256, n.into()), None);
            again.push(&key(n), &first.view().vector(n.into()).unwrap(), None);
        }
        let values = |block: &OpenBlock| -> Vec<Vec<f32>> {
            (0..200).map(|row| block.view().vector(row).unwrap().into_owned()).collect()
        };
        for (first, again) in values(&first).concat().iter().zip(values(&again).concat()) {
            assert!((first - again).abs() <= 1e-6 * first.abs(), "{first} {again}");
        }
    }

    #[test]
    fn any_flipped_bit_of_a_vector_is_noticed() {
        for exact in [true, false] {
            let dim = 71;
            let mut block = OpenBlock::new(Shape { dim, exact });
            block.push(&key(1), &gaussian_unit(dim, 1), None);
            let shape = block.shape;
            let integers = shape.keys_bytes()..shape.keys_bytes() + shape.row_bytes();
            for at in [integers, shape.vector_at(0), KEY_BYTES - 4..KEY_BYTES].into_iter().flatten() {
                for bit in 0..8 {
                    block.cold.bytes_mut()[at] ^= 1 << bit;
                    assert!(block.view().vector(0).is_none(), "{at} {bit}");
                    block.cold.bytes_mut()[at] ^= 1 << bit;
                }
            }
            assert!(block.view().vector(0).is_some());
        }
    }

    #[test]
    fn codes_are_the_same_made_at_once_or_later() {
        let dim = 256;
        let vectors: Vec<Vec<f32>> = (0..70).map(|seed| gaussian_unit(dim, seed)).collect();
        let sample = ndarray::Array2::from_shape_vec((70, dim), vectors.concat()).unwrap();
        let basis = Basis::learn(sample.view(), 1);
        let (mut at_once, mut later) =
            (OpenBlock::new(Shape { dim, exact: true }), OpenBlock::new(Shape { dim, exact: true }));
        for vector in &vectors {
            at_once.push(&key(1), vector, Some(&basis));
            later.push(&key(1), vector, None);
        }
        later.encode_all(&basis);
        assert_eq!(at_once.view().groups(0, 3), later.view().groups(0, 3));
        assert_eq!(at_once.view().groups(1, 9).1.len(), 64);
        assert!(at_once.hot.bytes().iter().any(|b| *b != 0));
    }
}
