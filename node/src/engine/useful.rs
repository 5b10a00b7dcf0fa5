//! Which records of a bank are worth fetching first, for a peer that lacks many of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
};

use folklore_protocol::{AuthorId, BankId, RecordId};
use folklore_store::{bank::Store, catalogue::Catalogue, error::ReadError};

/// Records of one bank, the latest that came, whose order is kept: 50 bytes each.
const MAX_ORDERED: usize = 100_000;
/// Records near to a text that come before the others.
const MAX_NEAR_HITS: usize = 256;

/// Who wrote which record under which number: read once, then kept up as records come. Nothing is read before a peer asks.
#[derive(Debug, Default)]
pub(super) struct Useful {
    banks: Mutex<BTreeMap<BankId, Order>>,
}

#[derive(Debug, Default)]
struct Order {
    /// How many of the bank's records, in the order they came, are in it or are passed over.
    read: usize,
    by_author: BTreeMap<AuthorId, BTreeSet<(u64, RecordId)>>,
}

impl Order {
    fn catch_up(&mut self, store: &Store, bank: &BankId) -> Result<(), ReadError> {
        let ids = store.record_ids(bank);
        let from = self.read.max(ids.len().saturating_sub(MAX_ORDERED));
        for id in ids.get(from..).unwrap_or_default() {
            if let Some(record) = store.record(id)? {
                self.by_author.entry(record.author()).or_default().insert((record.seq(), *id));
            }
        }
        self.read = ids.len();
        // What was the latest once is not for ever: of whoever has most, the lowest numbers go.
        while self.by_author.values().map(BTreeSet::len).sum::<usize>() > 2 * MAX_ORDERED {
            let Some(most) = self.by_author.values_mut().max_by_key(|own| own.len()) else { break };
            let drop = most.len() / 2;
            (0..drop).for_each(|_| {
                most.pop_first();
            });
        }
        Ok(())
    }

    /// The highest seq of each author, then the second highest of each, and so on.
    fn in_turn(&self) -> impl Iterator<Item = RecordId> + '_ {
        let mut turns: Vec<_> = self.by_author.values().map(|own| own.iter().rev()).collect();
        std::iter::from_fn(move || {
            // One round: who has none left drops out.
            let round: Vec<RecordId> = turns.iter_mut().filter_map(|own| own.next().map(|(_, id)| *id)).collect();
            turns.retain(|own| own.len() > 0);
            (!round.is_empty()).then_some(round)
        })
        .flatten()
    }
}

impl Useful {
    /// Records `from..from + count` of the order: those near to the texts, by recall, then by turns.
    pub(super) fn first(
        &self,
        (store, catalogue): (&Store, &Catalogue),
        bank: &BankId,
        near: &[String],
        from: usize,
        count: usize,
    ) -> Result<Vec<RecordId>, ReadError> {
        let mut order = Vec::new();
        for text in near {
            let found = catalogue.search(bank, text, MAX_NEAR_HITS / near.len())?;
            order.extend(found.iter().map(|(record, _)| record.id()));
        }
        let mut banks = self.banks.lock().unwrap_or_else(PoisonError::into_inner);
        let ours = banks.entry(*bank).or_default();
        ours.catch_up(store, bank)?;
        let mut seen = BTreeSet::new();
        let all = order.into_iter().chain(ours.in_turn()).filter(|id| seen.insert(*id));
        Ok(all.skip(from).take(count).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authors_take_turns_from_their_latest_down() {
        let id = |n: u8| RecordId([n; 32]);
        let own = |numbers: &[u8]| numbers.iter().map(|n| (u64::from(*n), id(*n))).collect();
        let by_author = BTreeMap::from([(AuthorId([1; 32]), own(&[1, 2, 3])), (AuthorId([2; 32]), own(&[7]))]);
        let order = Order { read: 4, by_author };
        assert_eq!(order.in_turn().collect::<Vec<_>>(), [id(3), id(7), id(2), id(1)]);
        assert_eq!(Order::default().in_turn().count(), 0);
    }
}
