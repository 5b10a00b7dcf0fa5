//! The simulated disk: what is synced survives a crash, what is not does not.
//!
//! A disk holds numbers of records that stand once in the world's [`Library`]; only what a planted bug made of a record is
//! kept by itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use folklore_protocol::{Admission, AuthorId, BankId, Incoming, Item, Lesson, Record, RecordId};

use crate::library::{Library, Number, Numbers};

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

/// What a disk holds of one bank.
#[derive(Debug, Clone, Default)]
struct Held {
    numbers: Numbers,
    /// Those of them without the body that they name.
    bodiless: BTreeSet<Number>,
    /// What is filed otherwise than it should be.
    odd: BTreeMap<RecordId, Stored>,
}

/// One node's disk.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    /// How it misbehaves.
    pub faults: DiskFaults,
    synced: BTreeMap<BankId, Held>,
    /// For [`DiskFaults::mixes_bodies`].
    body_before: Option<Option<Vec<u8>>>,
}

impl Disk {
    /// Checks records as a store does, and syncs the good ones. Called when the sync is over.
    pub fn admit(&mut self, library: &mut Library, bank: BankId, items: Vec<Incoming>) -> Vec<Admission> {
        if self.faults.full {
            return vec![Admission::Failed; items.len()];
        }
        let faults = self.faults;
        let held = self.synced.entry(bank).or_default();
        let (last, before) = (items.len().saturating_sub(1), &mut self.body_before);
        let admit = |(n, item): (usize, Incoming)| {
            let id = item.record.id();
            if held.odd.contains_key(&id) {
                return Admission::Known;
            }
            if faults.mixes_bodies
                && let Some(other) = before.replace(item.body.clone()).filter(|other| *other != item.body)
            {
                let Some(number) = library.check(&item.record, None) else { return Admission::Invalid };
                held.odd.insert(id, (library.record(number).clone(), other.map(Into::into)));
                return Admission::Stored;
            }
            let known = library.number_of(&id).filter(|number| held.numbers.contains(*number));
            if let Some(number) = known {
                if item.body.is_some() && library.check(&item.record, item.body.as_deref()).is_some() {
                    held.bodiless.remove(&number);
                }
                return Admission::Known;
            }
            let Some(number) = library.check(&item.record, item.body.as_deref()) else { return Admission::Invalid };
            if faults.files_twice && id.0[0] % 5 == 0 {
                let second = RecordId(std::array::from_fn(|n| id.0[n] ^ 1));
                held.odd.insert(second, (library.record(number).clone(), library.body(number).cloned()));
            }
            if !(faults.loses_tail && n == last && n > 0) {
                held.numbers.insert(number);
                if item.body.is_none() && library.record(number).claim().body().is_some() {
                    held.bodiless.insert(number);
                }
            }
            Admission::Stored
        };
        items.into_iter().enumerate().map(admit).collect()
    }

    /// Syncs records this node wrote itself; false if there is no room.
    pub fn write(&mut self, library: &mut Library, bank: BankId, items: &[Stored]) -> bool {
        if self.faults.full {
            return false;
        }
        let held = self.synced.entry(bank).or_default();
        for (record, body) in items {
            let number = library.put(record.clone(), body.clone());
            held.numbers.insert(number);
            if body.is_some() {
                held.bodiless.remove(&number);
            } else if record.claim().body().is_some() {
                held.bodiless.insert(number);
            }
        }
        true
    }

    /// Reads records up to a budget; also which are not here.
    pub fn load(
        &self,
        library: &Library,
        bank: &BankId,
        ids: &[RecordId],
        budget_bytes: usize,
    ) -> (Vec<Item>, Vec<RecordId>) {
        let (mut items, mut absent, mut used) = (Vec::new(), Vec::new(), 0);
        for id in ids {
            let Some((record, body)) = self.get(library, bank, id) else {
                absent.push(*id);
                continue;
            };
            used += record.bytes().len() + body.as_ref().map_or(0, |body| body.len());
            if used > budget_bytes && !items.is_empty() {
                break;
            }
            items.push(item_of(&(record, body)));
        }
        (items, absent)
    }

    fn get(&self, library: &Library, bank: &BankId, id: &RecordId) -> Option<Stored> {
        let held = self.synced.get(bank)?;
        if let Some(odd) = held.odd.get(id) {
            return Some(odd.clone());
        }
        let number = library.number_of(id).filter(|number| held.numbers.contains(*number))?;
        Some(held.stored(library, number))
    }

    /// What is held in a bank, ascending, with the ids it is filed under.
    pub fn entries(&self, library: &Library, bank: &BankId) -> BTreeMap<RecordId, Stored> {
        let Some(held) = self.synced.get(bank) else { return BTreeMap::new() };
        let mut all: BTreeMap<RecordId, Stored> =
            held.numbers.iter().map(|n| (library.record(n).id(), held.stored(library, n))).collect();
        all.extend(held.odd.iter().map(|(id, stored)| (*id, stored.clone())));
        all
    }

    /// Numbers of the records held in a bank.
    pub fn numbers(&self, bank: &BankId) -> Option<&Numbers> {
        self.synced.get(bank).map(|held| &held.numbers)
    }

    /// How many records are filed in a bank.
    pub fn len(&self, bank: &BankId) -> usize {
        self.synced.get(bank).map_or(0, |held| held.numbers.len() + held.odd.len())
    }

    /// Whether a record is held together with the body it names.
    pub fn is_whole(&self, bank: &BankId, number: Number) -> bool {
        self.synced.get(bank).is_some_and(|held| held.numbers.contains(number) && !held.bodiless.contains(&number))
    }

    /// Loses what a backup made earlier would lack.
    pub(crate) fn lose(&mut self, library: &Library, lost: impl Fn(&Record) -> bool) {
        for held in self.synced.values_mut() {
            let gone: Vec<Number> = held.numbers.iter().filter(|n| lost(library.record(*n))).collect();
            for number in gone {
                held.numbers.remove(number);
                held.bodiless.remove(&number);
            }
            held.odd.retain(|_, (record, _)| !lost(record));
        }
    }

    /// Puts what another disk holds in the place of what this one does, as one who copies a backup back.
    pub(crate) fn restore(&mut self, copy: Self) {
        self.synced = copy.synced;
        self.body_before = None;
    }

    /// Ids held in a bank, ascending.
    pub fn ids(&self, library: &Library, bank: &BankId) -> Vec<RecordId> {
        let Some(held) = self.synced.get(bank) else { return Vec::new() };
        let mut ids: Vec<RecordId> = held.numbers.iter().map(|number| library.record(number).id()).collect();
        ids.extend(held.odd.keys());
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Teachings held in a bank whose lesson is here too.
    pub fn whole_teachings(&self, library: &Library, bank: &BankId) -> usize {
        let entries = self.entries(library, bank).into_values();
        entries.filter(|(record, body)| record.claim().body().is_some() && body.is_some()).count()
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
    pub fn suggest(
        &self,
        library: &Library,
        bank: &BankId,
        near: &[String],
        from: usize,
        count: usize,
    ) -> Vec<RecordId> {
        let mut order: Vec<RecordId> = Vec::new();
        for text in near {
            order.extend(self.search(library, bank, text, from + count).iter().map(|(record, _)| record.id()));
        }
        let mut by_author: BTreeMap<AuthorId, Vec<(u64, RecordId)>> = BTreeMap::new();
        for (id, (record, _)) in self.entries(library, bank) {
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

    /// Records whose lesson shares most words with the query, best first, then by id. Good enough to carry an ask across and
    /// to order a fetch; what agents recall is ranked by the store ([`crate::agents`]).
    pub fn search(&self, library: &Library, bank: &BankId, query: &str, hits: usize) -> Vec<Stored> {
        let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
        let mut scored: Vec<(usize, Stored)> = Vec::new();
        for stored in self.entries(library, bank).into_values() {
            let Some(lesson) = stored.1.as_ref().and_then(|b| Lesson::from_bytes(b).ok()) else { continue };
            let text = lesson.text().to_lowercase();
            let score = words.iter().filter(|w| text.contains(w.as_str())).count();
            if score > 0 {
                scored.push((score, stored));
            }
        }
        scored.sort_by_key(|(score, stored)| (std::cmp::Reverse(*score), stored.0.id()));
        scored.into_iter().take(hits).map(|(_, stored)| stored).collect()
    }
}

impl Held {
    fn stored(&self, library: &Library, number: Number) -> Stored {
        let body = library.body(number).filter(|_| !self.bodiless.contains(&number));
        (library.record(number).clone(), body.cloned())
    }
}

/// A record as it travels.
pub(crate) fn item_of((record, body): &Stored) -> Item {
    Item { record: record.bytes().to_vec(), body: body.as_ref().map(|body| body.to_vec()) }
}
