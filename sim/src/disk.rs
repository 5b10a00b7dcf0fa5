//! The simulated disk: what is synced survives a crash, what is not does not.

use std::{collections::BTreeMap, sync::Arc};

use folklore_protocol::{Admission, BankId, Incoming, Item, Lesson, Record, RecordId};

/// How a disk misbehaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskFaults {
    /// A sync takes this long, milliseconds.
    pub sync_ms: u64,
    /// No room: every write fails.
    pub full: bool,
}

impl Default for DiskFaults {
    fn default() -> Self {
        Self { sync_ms: 5, full: false }
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
}

impl Disk {
    /// Checks records as a store does, and syncs the good ones. Called when the sync is over.
    pub fn admit(&mut self, bank: BankId, items: Vec<Incoming>) -> Vec<Admission> {
        if self.faults.full {
            return vec![Admission::Failed; items.len()];
        }
        let held = self.synced.entry(bank).or_default();
        items
            .into_iter()
            .map(|item| {
                if held.contains_key(&item.record.id()) {
                    return Admission::Known;
                }
                let body_is_good = item.body.as_ref().is_none_or(|b| Lesson::from_bytes(b).is_ok());
                match item.record.verify() {
                    Ok(record) if body_is_good => {
                        held.insert(record.id(), (record, item.body.map(Into::into)));
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
