//! What a bank keeps at hand of the ids it knows, so that comparing costs no walk over them: the first coded cells, the
//! estimate, and a sum; all follow each record as it comes.

use super::{
    cells::{Cells, FAR, Salt},
    estimate::Estimate,
};
use crate::{known::ShortId, record::RecordId};

/// Fewest and most cells kept: 768 bytes and 48 KiB. 4,096 cells answer differences up to about 2,900 ids; more are made
/// when a session needs them.
const MIN_KEPT: usize = 64;
pub(super) const MAX_KEPT: usize = FAR;
/// Ids for each cell kept: a bank of 1,000 keeps 256 cells, 3 KiB.
const IDS_PER_CELL: usize = 4;

/// Something that shows every id of a set.
pub(crate) type Ids<'a> = &'a mut dyn FnMut(&mut dyn FnMut(&RecordId));

/// Kept of a set of ids. The salt of the bank is in the ids themselves (see the module above), so a short id here is the
/// first eight bytes of a record id.
#[derive(Debug, Clone)]
pub(crate) struct Sketch {
    cells: Cells,
    estimate: Estimate,
    sum: u128,
    len: usize,
    /// Goes up with every change.
    version: u64,
}

impl Default for Sketch {
    fn default() -> Self {
        Self { cells: Cells::new(MIN_KEPT), estimate: Estimate::default(), sum: 0, len: 0, version: 0 }
    }
}

/// What an id adds to the sum of a set: 128 bits to which all of it goes. Two sets that differ only in ids which share their
/// short ids have the same cells; this tells them apart. Its halves are hashes already, so nothing more is done to them than
/// to keep one from standing in for the other. The factor: digits of pi, odd.
pub(super) fn weight(id: &RecordId) -> u128 {
    const FACTOR: u128 = 0x082e_fa98_ec4e_6c89_4528_21e6_38d0_1377;
    let half =
        |from: usize| id.0[from..from + 16].iter().rev().fold(0, |value: u128, byte| value << 8 | u128::from(*byte));
    half(0_usize).wrapping_add(half(16).wrapping_mul(FACTOR))
}

fn kept_for(len: usize) -> usize {
    (len / IDS_PER_CELL).next_power_of_two().clamp(MIN_KEPT, MAX_KEPT)
}

impl Sketch {
    /// Of a whole set.
    pub(crate) fn of(len: usize, ids: Ids<'_>) -> Self {
        let mut sketch = Self { cells: Cells::new(kept_for(len)), ..Self::default() };
        ids(&mut |id| sketch.add(id));
        sketch
    }

    /// Adds an id that is not in it.
    pub(crate) fn add(&mut self, id: &RecordId) {
        self.toggle(id);
        self.sum = self.sum.wrapping_add(weight(id));
        self.len += 1;
    }

    /// Takes away an id that is in it.
    pub(crate) fn remove(&mut self, id: &RecordId) {
        self.toggle(id);
        self.sum = self.sum.wrapping_sub(weight(id));
        self.len -= 1;
    }

    fn toggle(&mut self, id: &RecordId) {
        let short = ShortId::of(id).value();
        self.cells.toggle(short);
        self.estimate.toggle(short);
        self.version += 1;
    }

    /// How many ids.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether the bank has outgrown its cells: then they are worth making anew, twice as many.
    pub(crate) fn outgrown(&self) -> bool {
        self.cells.len() < kept_for(self.len)
    }

    /// How many cells there are at least from now on: further ones are made from all `ids` where there are fewer.
    pub(crate) fn grow(&mut self, cells: usize, ids: Ids<'_>) {
        if self.cells.len() < cells {
            // The cells there are stay as they are; only those behind them are made.
            let from = self.cells.len();
            let mut grown = self.cells.lengthened(cells);
            ids(&mut |id| grown.add_from(from, ShortId::of(id).value()));
            self.cells = grown;
        }
    }

    /// Drops cells beyond those that a bank of this size keeps.
    pub(crate) fn trim(&mut self) {
        let kept = kept_for(self.len);
        if self.cells.len() > kept {
            self.cells = self.cells.first(kept);
        }
    }

    pub(super) fn cells(&self) -> &Cells {
        &self.cells
    }

    pub(super) fn estimate(&self) -> &Estimate {
        &self.estimate
    }

    pub(super) fn sum(&self) -> u128 {
        self.sum
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Bytes that cells and estimate take.
    pub(crate) fn bytes(&self) -> usize {
        12 * self.cells.len() + super::estimate::ESTIMATE_BYTES
    }
}

/// Cells of a whole set under a salt, made for one session.
pub(super) fn salted(salt: &Salt, ids: Ids<'_>, len: usize) -> Cells {
    let mut cells = Cells::new(len);
    ids(&mut |id| cells.toggle(salt.short(id)));
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u32) -> RecordId {
        RecordId(*blake3::hash(&n.to_le_bytes()).as_bytes())
    }

    #[test]
    fn it_follows_the_set_whatever_the_order_and_after_growing_and_trimming() {
        let ids: Vec<RecordId> = (0..3_000).map(id).collect();
        let mut kept = Sketch::default();
        for (n, id) in ids.iter().enumerate() {
            kept.add(id);
            if kept.outgrown() {
                kept.grow(kept_for(n + 1), &mut |each| ids[..=n].iter().for_each(each));
            }
        }
        kept.grow(5_000, &mut |each| ids.iter().for_each(each));
        for n in 0..10 {
            kept.add(&id(9_000 + n));
        }
        for n in 0..10 {
            kept.remove(&id(9_000 + n));
        }
        kept.trim();
        let anew = Sketch::of(ids.len(), &mut |each| ids.iter().rev().for_each(each));
        assert_eq!(kept.cells, anew.cells);
        assert_eq!((kept.sum, kept.len, &kept.estimate), (anew.sum, anew.len, &anew.estimate));
    }

    #[test]
    fn a_small_bank_keeps_little_and_a_large_one_is_bounded() {
        let sized = |len: usize| Sketch { cells: Cells::new(kept_for(len)), ..Sketch::default() };
        assert!(sized(0).bytes() <= 2 * 1024);
        assert!(sized(1_000).bytes() <= 4 * 1024, "{}", sized(1_000).bytes());
        assert!(sized(1_000_000).bytes() <= 64 * 1024);
        assert!(sized(usize::MAX / 2).bytes() <= 64 * 1024);
    }
}
