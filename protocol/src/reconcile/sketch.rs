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
/// Ids coded in one step, once there are more cells to be made than those kept: one to four milliseconds.
pub(super) const IDS_AT_ONCE: usize = 1 << 15;

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
    shorts: Shorts,
    more: Option<More>,
}

/// The short ids once more, one behind the other: 8 bytes each. Coding the whole set walks over them and not over the tree of
/// ids, which takes as long as coding. In the order of arrival, so that what comes meanwhile is behind what is coded.
#[derive(Debug, Clone, Default)]
struct Shorts {
    /// Each but the last has [`IDS_AT_ONCE`].
    parts: Vec<Vec<u64>>,
    /// An id was taken away: they are to be read anew.
    stale: bool,
}

impl Shorts {
    fn push(&mut self, short: u64) {
        match self.parts.last_mut().filter(|part| part.len() < IDS_AT_ONCE) {
            Some(part) => part.push(short),
            None => self.parts.push(vec![short]),
        }
    }
}

/// Cells beyond those there are, being made of one part of the short ids after the other.
#[derive(Debug, Clone)]
struct More {
    /// As many as there will be; those that there are already are left empty.
    cells: Cells,
    /// Parts, and ids of the next one, that are in them.
    done: (usize, usize),
}

impl Default for Sketch {
    fn default() -> Self {
        let (cells, estimate, shorts) = (Cells::new(MIN_KEPT), Estimate::default(), Shorts::default());
        Self { cells, estimate, sum: 0, len: 0, version: 0, shorts, more: None }
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
        self.shorts.push(ShortId::of(id).value());
        self.sum = self.sum.wrapping_add(weight(id));
        self.len += 1;
    }

    /// Takes away an id that is in it.
    pub(crate) fn remove(&mut self, id: &RecordId) {
        self.toggle(id);
        self.shorts = Shorts { parts: Vec::new(), stale: true };
        self.more = None;
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

    /// How many cells the bank is to keep, once it has outgrown those it has.
    pub(crate) fn outgrown(&self) -> Option<usize> {
        Some(kept_for(self.len)).filter(|cells| *cells > self.cells.len())
    }

    /// Makes more cells, as many as a session needs or the bank is to keep, of at most [`IDS_AT_ONCE`] ids at a time. True once
    /// there are so many; until then it is to be called again. `ids` shows all of the set, should that be needed.
    pub(crate) fn grow(&mut self, cells: usize, ids: Ids<'_>) -> bool {
        if self.cells.len() >= cells {
            return true;
        }
        if self.shorts.stale {
            self.shorts = Shorts::default();
            ids(&mut |id| self.shorts.push(ShortId::of(id).value()));
        }
        // Those that are being made are gone on with, be it with too few.
        let more = self.more.get_or_insert_with(|| More { cells: Cells::new(cells), done: (0, 0) });
        let (part, from) = &mut more.done;
        let have = self.cells.len();
        if let Some(shorts) = self.shorts.parts.get(*part) {
            shorts.iter().skip(*from).for_each(|short| more.cells.add_from(have, *short));
            (*part, *from) = if shorts.len() == IDS_AT_ONCE { (*part + 1, 0) } else { (*part, shorts.len()) };
        }
        if self.shorts.parts.get(*part).is_some_and(|part| part.len() > *from) {
            return false;
        }
        if let Some(more) = self.more.take() {
            self.cells.extend_with(more.cells);
        }
        self.cells.len() >= cells
    }

    /// Drops cells beyond those that a bank of this size keeps.
    pub(crate) fn trim(&mut self) {
        let kept = kept_for(self.len);
        if self.cells.len() > kept {
            self.cells = self.cells.first(kept);
        }
        self.more = None;
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

    /// Bytes that cells and estimate take, beside 8 for each short id.
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
            if let Some(cells) = kept.outgrown() {
                assert!(kept.grow(cells, &mut |each| ids[..=n].iter().for_each(each)));
            }
        }
        assert!(kept.grow(5_000, &mut |each| ids.iter().for_each(each)));
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
    fn cells_made_in_steps_are_those_of_the_set_whatever_comes_and_goes_meanwhile() {
        let large: Vec<RecordId> = (0..3 * IDS_AT_ONCE as u32 + 7).map(id).collect();
        for (comes, goes) in [(0, 0), (5, 0), (0, 3), (IDS_AT_ONCE as u32 + 9, 0), (4, 2)] {
            let mut now: std::collections::BTreeSet<RecordId> = large.iter().copied().collect();
            let mut kept = Sketch::of(large.len(), &mut |each| large.iter().for_each(each));
            let before = kept.cells.len();
            let mut steps = 0;
            while !kept.grow(6_000, &mut |each| now.iter().for_each(each)) {
                steps += 1;
                assert_eq!(kept.cells.len(), before, "none is there before all are");
                if steps == 2 {
                    for new in (0..comes).map(|n| id(9_000_000 + n)) {
                        kept.add(&new);
                        now.insert(new);
                    }
                    for old in &large[10..10 + goes] {
                        kept.remove(old);
                        now.remove(old);
                    }
                }
            }
            assert!(steps >= 3, "{steps}");
            let mut anew = Sketch::of(now.len(), &mut |each| now.iter().for_each(each));
            while !anew.grow(6_000, &mut |each| now.iter().for_each(each)) {}
            assert!(kept.cells == anew.cells && kept.sum == anew.sum, "{comes} came and {goes} went");
            assert_eq!(kept.cells, Cells::of(now.iter().map(|id| ShortId::of(id).value()), 6_000));
        }
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
