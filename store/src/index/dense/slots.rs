//! Which vectors belong to which slot, and which slots a query may answer.

/// No slot, or no further vector.
const NONE: u32 = u32::MAX;

/// The slot of each vector and the vectors of each slot. A vector without a slot is deleted: twelve bytes a vector in all.
#[derive(Debug, Clone, Default)]
pub(super) struct Slots {
    slot_of: Vec<u32>,
    /// The vector of the same slot that came before.
    before: Vec<u32>,
    /// The last vector of each slot.
    last_of: Vec<u32>,
    /// Slots that have a vector.
    slots: usize,
    /// Vectors that have a slot.
    live: usize,
    /// The most vectors that one slot has had: how many may stand before the k-th distinct slot.
    per_slot_max: usize,
}

impl Slots {
    /// Gives a vector that has none a slot.
    pub fn assign(&mut self, row: u32, slot: u32) {
        let needed = row as usize + 1;
        if self.slot_of.len() < needed {
            self.slot_of.resize(needed, NONE);
            self.before.resize(needed, NONE);
        }
        if self.last_of.len() <= slot as usize {
            self.last_of.resize(slot as usize + 1, NONE);
        }
        let (Some(owner), Some(before), Some(last)) = (
            self.slot_of.get_mut(row as usize),
            self.before.get_mut(row as usize),
            self.last_of.get_mut(slot as usize),
        ) else {
            return;
        };
        if *owner != NONE || slot == NONE {
            return;
        }
        self.slots += usize::from(*last == NONE);
        self.live += 1;
        (*owner, *before) = (slot, *last);
        *last = row;
        self.per_slot_max = self.per_slot_max.max(self.rows(slot).count());
    }

    /// Deletes all vectors of a slot; says whether there were any.
    pub fn clear(&mut self, slot: u32) -> bool {
        let rows: Vec<u32> = self.rows(slot).collect();
        for row in &rows {
            if let Some(owner) = self.slot_of.get_mut(*row as usize) {
                *owner = NONE;
            }
        }
        if let Some(last) = self.last_of.get_mut(slot as usize) {
            *last = NONE;
        }
        self.live -= rows.len();
        self.slots -= usize::from(!rows.is_empty());
        !rows.is_empty()
    }

    /// The slot of a vector, unless that is deleted.
    pub fn slot(&self, row: u32) -> Option<u32> {
        self.slot_of.get(row as usize).copied().filter(|slot| *slot != NONE)
    }

    /// The vectors of a slot, the last first.
    pub fn rows(&self, slot: u32) -> impl Iterator<Item = u32> {
        let present = |row: Option<&u32>| row.copied().filter(|row| *row != NONE);
        std::iter::successors(present(self.last_of.get(slot as usize)), move |row| {
            present(self.before.get(*row as usize))
        })
    }

    /// Slots that have a vector.
    pub fn len(&self) -> usize {
        self.slots
    }

    /// Vectors that have a slot.
    pub fn live(&self) -> usize {
        self.live
    }

    pub fn per_slot_max(&self) -> usize {
        self.per_slot_max.max(1)
    }
}

/// A set of slots, one bit each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlotSet {
    words: Vec<u64>,
    len: usize,
}

impl SlotSet {
    /// Takes a slot in; says whether it is new.
    pub fn insert(&mut self, slot: u32) -> bool {
        let at = slot as usize / 64;
        if self.words.len() <= at {
            self.words.resize(at + 1, 0);
        }
        let Some(word) = self.words.get_mut(at) else { return false };
        let new = *word >> (slot % 64) & 1 == 0;
        *word |= 1 << (slot % 64);
        self.len += usize::from(new);
        new
    }

    /// Takes a slot out; says whether it was in the set.
    pub fn remove(&mut self, slot: u32) -> bool {
        let Some(word) = self.words.get_mut(slot as usize / 64) else { return false };
        let had = *word >> (slot % 64) & 1 == 1;
        *word &= !(1 << (slot % 64));
        self.len -= usize::from(had);
        had
    }

    /// Leaves those that are in the other set too.
    pub fn keep(&mut self, other: &SlotSet) {
        let others = other.words.iter().copied().chain(std::iter::repeat(0));
        self.words.iter_mut().zip(others).for_each(|(word, other)| *word &= other);
        self.count();
    }

    /// Takes in those of another set.
    pub fn add(&mut self, other: &SlotSet) {
        self.words.resize(self.words.len().max(other.words.len()), 0);
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
        self.count();
    }

    fn count(&mut self) {
        self.len = self.words.iter().map(|word| word.count_ones() as usize).sum();
    }

    /// Whether a slot is in the set.
    #[must_use]
    pub fn contains(&self, slot: u32) -> bool {
        self.words.get(slot as usize / 64).is_some_and(|word| *word >> (slot % 64) & 1 == 1)
    }

    /// How many slots are in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The slots, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        (0u32..).zip(&self.words).flat_map(|(at, &word)| {
            std::iter::successors(Some(word), |word| Some(word & word.wrapping_sub(1)))
                .take_while(|word| *word != 0)
                .map(move |word| at * 64 + word.trailing_zeros())
        })
    }
}

impl FromIterator<u32> for SlotSet {
    fn from_iter<I: IntoIterator<Item = u32>>(slots: I) -> Self {
        let mut set = SlotSet::default();
        for slot in slots {
            set.insert(slot);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn slots_are_what_a_map_of_lists_is(ops in prop::collection::vec((0u32..9, prop::bool::weighted(0.3)), 0..80)) {
            let (mut slots, mut model) = (Slots::default(), BTreeMap::<u32, Vec<u32>>::new());
            for (row, (slot, clear)) in (0u32..).zip(ops) {
                if clear {
                    prop_assert_eq!(slots.clear(slot), model.remove(&slot).is_some());
                } else {
                    slots.assign(row, slot);
                    model.entry(slot).or_default().insert(0, row);
                }
            }
            prop_assert_eq!(slots.len(), model.len());
            prop_assert_eq!(slots.live(), model.values().map(Vec::len).sum::<usize>());
            for slot in 0..10 {
                prop_assert_eq!(slots.rows(slot).collect::<Vec<_>>(), model.get(&slot).cloned().unwrap_or_default());
            }
            for (slot, rows) in model {
                for row in rows {
                    prop_assert_eq!(slots.slot(row), Some(slot));
                }
            }
        }

        #[test]
        fn sets_are_changed_as_sets_are(
            ours in prop::collection::btree_set(0u32..300, 0..60),
            theirs in prop::collection::btree_set(0u32..300, 0..60),
        ) {
            let set = |slots: &BTreeSet<u32>| slots.iter().copied().collect::<SlotSet>();
            let (mut both, mut either, mut without) = (set(&ours), set(&ours), set(&ours));
            both.keep(&set(&theirs));
            either.add(&set(&theirs));
            for slot in &theirs {
                prop_assert_eq!(without.remove(*slot), ours.contains(slot));
            }
            for (set, model) in [
                (both, ours.intersection(&theirs).copied().collect::<Vec<_>>()),
                (either, ours.union(&theirs).copied().collect()),
                (without, ours.difference(&theirs).copied().collect()),
            ] {
                prop_assert_eq!(set.len(), model.len());
                prop_assert!(set.iter().eq(model));
            }
        }

        #[test]
        fn a_set_of_slots_is_a_set(slots in prop::collection::vec(0u32..300, 0..60)) {
            let set: SlotSet = slots.iter().copied().collect();
            let model: BTreeSet<u32> = slots.into_iter().collect();
            prop_assert_eq!(set.len(), model.len());
            prop_assert!((0..400).all(|slot| set.contains(slot) == model.contains(&slot)));
            prop_assert!(set.iter().eq(model));
        }
    }
}
