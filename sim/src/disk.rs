//! The simulated disk: what is synced survives a crash, what is not does not.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use folklore_protocol::{Admission, AuthorId, BankId, Incoming, Item, Lesson, Record, RecordId, UnverifiedRecord};

/// How a disk misbehaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskFaults {
    /// A sync takes this long, milliseconds.
    pub sync_ms: u64,
    /// No room: every write fails.
    pub full: bool,
    /// A planted bug: beside each record is the body that came before its own.
    pub mixes_bodies: bool,
    /// A planted bug: each fifth record is filed under a second id too.
    pub files_twice: bool,
    /// A planted bug: the last of a batch is acknowledged and not kept.
    pub loses_tail: bool,
}

impl Default for DiskFaults {
    fn default() -> Self {
        Self { sync_ms: 5, full: false, mixes_bodies: false, files_twice: false, loses_tail: false }
    }
}

/// A record with the body it names.
pub type Stored = (Record, Option<Arc<[u8]>>);

/// One node's disk.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    /// How it misbehaves.
    pub faults: DiskFaults,
    synced: BTreeMap<BankId, BTreeMap<RecordId, Stored>>,
    /// For [`DiskFaults::mixes_bodies`].
    body_before: Option<Option<Vec<u8>>>,
}

impl Disk {
    /// Checks records as a store does, and syncs the good ones. Called when the sync is over.
    pub fn admit(&mut self, bank: BankId, items: Vec<Incoming>) -> Vec<Admission> {
        if self.faults.full {
            return vec![Admission::Failed; items.len()];
        }
        let faults = self.faults;
        let held = self.synced.entry(bank).or_default();
        let (last, before) = (items.len().saturating_sub(1), &mut self.body_before);
        items
            .into_iter()
            .enumerate()
            .map(|(n, mut item)| {
                if faults.mixes_bodies {
                    let own = item.body.clone();
                    item.body = before.replace(own.clone()).unwrap_or(own);
                }
                if let Some((_, body)) = held.get_mut(&item.record.id()) {
                    if body.is_none() {
                        *body = item.body.map(Into::into);
                    }
                    return Admission::Known;
                }
                let body_is_good = item.body.as_ref().is_none_or(|b| Lesson::from_bytes(b).is_ok());
                match item.record.verify() {
                    Ok(record) if body_is_good => {
                        let (id, body) = (record.id(), item.body.map(Into::into));
                        if faults.files_twice && id.0[0] % 5 == 0 {
                            let second = RecordId(std::array::from_fn(|n| id.0[n] ^ 1));
                            held.insert(second, (record.clone(), Clone::clone(&body)));
                        }
                        if !(faults.loses_tail && n == last && n > 0) {
                            held.insert(id, (record, body));
                        }
                        Admission::Stored
                    }
                    _ => Admission::Invalid,
                }
            })
            .collect()
    }

    /// Syncs records this node wrote itself; false if there is no room.
    pub fn write(&mut self, bank: BankId, items: &[Stored]) -> bool {
        if !self.faults.full {
            self.synced.entry(bank).or_default().extend(items.iter().map(|i| (i.0.id(), i.clone())));
        }
        !self.faults.full
    }

    /// Reads records up to a budget; also which are not here.
    pub fn load(&self, bank: &BankId, ids: &[RecordId], budget_bytes: usize) -> (Vec<Item>, Vec<RecordId>) {
        let (mut items, mut absent, mut used) = (Vec::new(), Vec::new(), 0);
        for id in ids {
            let Some((record, body)) = self.synced.get(bank).and_then(|b| b.get(id)) else {
                absent.push(*id);
                continue;
            };
            let item = Item { record: record.bytes().to_vec(), body: body.as_ref().map(|b| b.to_vec()) };
            used += item.len();
            if used > budget_bytes && !items.is_empty() {
                break;
            }
            items.push(item);
        }
        (items, absent)
    }

    /// What is held in a bank, ascending, with the ids it is filed under.
    pub fn entries(&self, bank: &BankId) -> impl Iterator<Item = (RecordId, &Stored)> {
        self.synced.get(bank).into_iter().flatten().map(|(id, stored)| (*id, stored))
    }

    /// Loses what a backup made earlier would lack.
    pub(crate) fn lose(&mut self, lost: impl Fn(&Record) -> bool) {
        self.synced.values_mut().for_each(|held| held.retain(|_, (record, _)| !lost(record)));
    }

    /// Ids held in a bank, ascending.
    pub fn ids(&self, bank: &BankId) -> Vec<RecordId> {
        self.synced.get(bank).map(|b| b.keys().copied().collect()).unwrap_or_default()
    }

    /// Teachings held in a bank whose lesson is here too.
    pub fn whole_teachings(&self, bank: &BankId) -> usize {
        let held = self.synced.get(bank).into_iter().flat_map(BTreeMap::values);
        held.filter(|(record, body)| record.claim().body().is_some() && body.is_some()).count()
    }

    /// Banks with anything in them, ascending.
    pub fn banks(&self) -> Vec<BankId> {
        self.synced.keys().copied().collect()
    }

    /// A bank that is open, with nothing in it yet.
    pub fn open(&mut self, bank: BankId) {
        self.synced.entry(bank).or_default();
    }

    /// The most useful records first: those near to the texts, by [`Disk::search`], then the highest seq of each author, the
    /// second highest of each, and so on.
    pub fn suggest(&self, bank: &BankId, near: &[String], from: usize, count: usize) -> Vec<RecordId> {
        let mut order: Vec<RecordId> = Vec::new();
        for text in near {
            let found = self.search(bank, text, from + count);
            order.extend(found.iter().filter_map(|item| UnverifiedRecord::parse(&item.record).ok()).map(|r| r.id()));
        }
        let mut by_author: BTreeMap<AuthorId, Vec<(u64, RecordId)>> = BTreeMap::new();
        for (id, (record, _)) in self.entries(bank) {
            by_author.entry(record.author()).or_default().push((record.seq(), id));
        }
        by_author.values_mut().for_each(|own| own.sort_by_key(|entry| std::cmp::Reverse(*entry)));
        let mut ranked: Vec<(usize, RecordId)> =
            by_author.values().flat_map(|own| own.iter().enumerate().map(|(rank, (_, id))| (rank, *id))).collect();
        ranked.sort_by_key(|(rank, _)| *rank);
        order.extend(ranked.into_iter().map(|(_, id)| id));
        let mut seen = BTreeSet::new();
        order.retain(|id| seen.insert(*id));
        order.into_iter().skip(from).take(count).collect()
    }

    /// Records whose lesson shares most words with the query, best first, then by id. The simulator's own stand-in for
    /// recall, good enough to carry an ask across; ranking is the store's.
    pub fn search(&self, bank: &BankId, query: &str, hits: usize) -> Vec<Item> {
        let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
        let mut scored: Vec<(usize, &Stored)> = Vec::new();
        for stored in self.synced.get(bank).into_iter().flat_map(BTreeMap::values) {
            let Some(lesson) = stored.1.as_ref().and_then(|b| Lesson::from_bytes(b).ok()) else { continue };
            let text = lesson.text().to_lowercase();
            let score = words.iter().filter(|w| text.contains(w.as_str())).count();
            if score > 0 {
                scored.push((score, stored));
            }
        }
        scored.sort_by_key(|(score, stored)| (std::cmp::Reverse(*score), stored.0.id()));
        let item = |s: &Stored| Item { record: s.0.bytes().to_vec(), body: s.1.as_ref().map(|b| b.to_vec()) };
        scored.into_iter().take(hits).map(|(_, s)| item(s)).collect()
    }
}
