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
    use folklore_protocol::{Claim, Evidence, Keypair, Lesson, LessonDraft, LessonKind, Record};
    use folklore_store::bank::{self, BankInfo, OpenOptions};

    use super::*;

    fn lesson(number: u64, task: &str) -> Lesson {
        Lesson::new(LessonDraft {
            kind: LessonKind::Pitfall,
            title: format!("{task}, case {number}"),
            applies_when: String::new(),
            not_when: String::new(),
            content: format!("In case {number} the {task} failed, since its state was not read first."),
            task: task.into(),
            domain: String::new(),
            tags: vec![],
        })
        .unwrap()
    }

    #[test]
    fn what_is_near_comes_first_then_authors_take_turns_page_by_page_and_what_comes_later_is_seen() {
        let directory = tempfile::tempdir().unwrap();
        let opened = Store::open(directory.path(), OpenOptions { entropy: 1, ..OpenOptions::default() }).unwrap();
        let (many, few) = (Keypair::from_seed(&[1; 32]), Keypair::from_seed(&[2; 32]));
        let info = BankInfo::new(many.author(), [3; 16], "home");
        let (store, id) = (opened.store, info.id);
        store.add_bank(info).unwrap();
        let record = |key: &Keypair, seq: u64, task: &str| {
            let body = lesson(seq, task);
            let claim = Claim::Taught { lesson_id: body.id(), evidence: Evidence::told("test") };
            bank::Incoming { record: Record::sign(key, id, seq, 0, claim).unwrap(), body: Some(body) }
        };
        // By one author sixty, the tenth of them about something else; by another three.
        let mut all: Vec<_> = (1..=60)
            .map(|seq| record(&many, seq, if seq == 10 { "refund an invoice twice" } else { "deploy the web server" }))
            .collect();
        all.extend((1..=3).map(|seq| record(&few, seq, "migrate a database index")));
        let of = |item: &bank::Incoming| item.record.id();
        let (at, few_at) = (all.iter().map(of).collect::<Vec<_>>(), 60);
        store.admit(id, all).unwrap();
        let catalogue = Catalogue::load(store.clone(), many.author()).unwrap();
        let useful = Useful::default();
        let mut authors = [(many.author(), at[59]), (few.author(), at[few_at + 2])];
        authors.sort();
        let first = |near: &[String], from, count| useful.first((&store, &catalogue), &id, near, from, count).unwrap();
        assert_eq!(first(&[], 0, 2), authors.map(|(_, id)| id));
        let pages: Vec<RecordId> = (0..4).flat_map(|page| first(&[], page * 20, 20)).collect();
        assert_eq!(pages.len(), 63);
        assert_eq!(pages.iter().collect::<BTreeSet<_>>().len(), 63, "each once");
        assert_eq!(pages.last(), Some(&at[0]), "the oldest of whoever has most");
        assert_eq!(first(&["refund an invoice twice".into()], 0, 1), [at[9]]);
        let fresh = record(&few, 4, "log in");
        let fresh_id = fresh.record.id();
        store.admit(id, vec![fresh]).unwrap();
        assert!(first(&[], 0, 2).contains(&fresh_id));
    }

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
