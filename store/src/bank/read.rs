//! Reading. Every frame is checked on each read; what is not durable yet is not shown.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError, atomic::Ordering},
};

use folklore_protocol::{
    bank::BankId,
    claim::{Outcome, RunDigest},
    lesson::{Lesson, LessonId},
    record::{Record, RecordId, UnverifiedRecord},
};

use super::{BankInfo, Counts, Store, parallel::in_order};
use crate::{
    error::{ReadError, WriteError},
    frame::{self, Frame, Key, Kind, Tree},
    runs::RunRow,
};

/// Values that a thread reads at a time when many are: some packs full, since neighbours lie in one pack.
pub(super) const BLOCK: usize = 1024;

fn damaged(key: Key, detail: impl ToString) -> ReadError {
    ReadError::Damaged { what: key.to_string(), detail: detail.to_string() }
}

/// Values that are named when they cannot be read. If there are more, the disk is done for anyway.
pub const MAX_UNREADABLE: usize = 100;

/// Values that could not be read, by name.
#[derive(Debug, Default)]
pub(super) struct Unreadable(Mutex<BTreeMap<String, String>>);

impl Unreadable {
    fn note(&self, what: &str, detail: &str) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.len() < MAX_UNREADABLE && noted.insert(what.to_owned(), detail.to_owned()).is_none() {
            tracing::error!(what, detail, "a value of the bank cannot be read");
        }
    }

    fn lines(&self) -> Vec<String> {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.iter().map(|(what, detail)| format!("{what}: {detail}")).collect()
    }
}

/// How many lessons and records are held, and a digest of which. Against mistakes, not against forgery: ids are hashes, so
/// sums of their words tell sets apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Holding {
    pub lessons: u64,
    pub records: u64,
    digest: [u64; 2],
}

impl Holding {
    fn add(&mut self, what: u64, id: &[u8; 32]) {
        for (lane, word) in self.digest.iter_mut().zip(id.as_chunks::<8>().0) {
            *lane = lane.wrapping_add(u64::from_le_bytes(*word).wrapping_mul(2 * what + 1));
        }
    }
}

/// sled notes which pages were used in 256 queues of so many places, and lets pages go when one of them is full. Runs are
/// large and many are read once, each on a page of its own: 16,000 such pages would stay in memory, whatever the cache's size.
/// Whoever reads one asks for it again until the queue is full.
const SLED_QUEUE_PLACES: usize = 64;

/// Reads values, keeping the last pack at hand: neighbours are often read one after the other.
pub(super) struct Reader<'a> {
    store: &'a Store,
    pack: Option<(u64, sled::IVec)>,
}

impl<'a> Reader<'a> {
    pub fn new(store: &'a Store) -> Self {
        Self { store, pack: None }
    }

    /// The value under an arrival number, its parts put together; `None` if it was erased.
    pub fn fetch(&mut self, tree: Tree, arrival: u64) -> Result<Option<Vec<u8>>, ReadError> {
        let fetched = self.find(tree, arrival);
        self.noted(fetched)
    }

    fn find(&mut self, tree: Tree, arrival: u64) -> Result<Option<Vec<u8>>, ReadError> {
        let key = Key::first(tree, arrival);
        let mut place = self.store.index().pack_of(arrival);
        while let Some(first) = place {
            let kept = self.pack.as_ref().is_some_and(|(held, _)| *held == first);
            if !kept {
                let found = self.store.0.disk.with(|db| db.get(frame::pack_key(first)))?;
                self.pack = found.map(|bytes| (first, bytes));
            }
            if let Some((_, bytes)) = &self.pack
                && let Some(frame) = frame::find(bytes, key).map_err(|e| damaged(key, e))?
            {
                return Ok((frame.kind == Kind::Value).then(|| frame.payload.to_vec()));
            }
            // A rewrite may just have put it elsewhere, or into a pack of which an older edition was kept here.
            self.pack = None;
            place = self.store.index().pack_of(arrival).filter(|now| kept || *now != first);
        }
        self.alone(key)
    }

    /// As [`Reader::fetch`], of a value that is never in a pack.
    pub fn fetch_alone(&mut self, tree: Tree, arrival: u64) -> Result<Option<Vec<u8>>, ReadError> {
        let fetched = self.alone(Key::first(tree, arrival));
        self.noted(fetched)
    }

    fn noted<T>(&self, fetched: Result<T, ReadError>) -> Result<T, ReadError> {
        if let Err(ReadError::Damaged { what, detail }) = &fetched {
            self.store.0.unreadable.note(what, detail);
            self.store.0.disk.doubtful.store(true, Ordering::Relaxed);
        }
        fetched
    }

    /// A value that is in no pack.
    fn alone(&self, mut key: Key) -> Result<Option<Vec<u8>>, ReadError> {
        let mut out = Vec::new();
        let mut whole: Option<(u16, u64)> = None;
        loop {
            let bytes = self
                .store
                .0
                .disk
                .with(|db| db.get(key.to_bytes()))?
                .ok_or_else(|| damaged(key, "not in the database"))?;
            let frame = Frame::read(key, &bytes).map_err(|e| damaged(key, e))?;
            let (parts, generation) = *whole.get_or_insert((frame.parts, frame.generation));
            if (frame.parts, frame.generation) != (parts, generation) {
                return Err(damaged(key, "parts of two generations"));
            }
            if frame.kind == Kind::Erased {
                return Ok(None);
            }
            out.extend_from_slice(frame.payload);
            if key.tree == Tree::Run {
                let again = || self.store.0.disk.with(|db| db.contains_key(key.to_bytes()));
                (1..SLED_QUEUE_PLACES).try_for_each(|_| again().map(drop))?;
            }
            key.part += 1;
            if key.part >= parts {
                return Ok(Some(out));
            }
        }
    }

    pub fn record(&mut self, arrival: u64, id: &RecordId) -> Result<Record, ReadError> {
        let key = Key::first(Tree::Record, arrival);
        let bytes = self.fetch(Tree::Record, arrival)?.ok_or_else(|| damaged(key, "erased"))?;
        let record = UnverifiedRecord::parse(&bytes).map_err(|e| damaged(key, e))?;
        if record.id() != *id {
            return Err(damaged(key, "another record"));
        }
        // It was verified before it was stored, under a hash that was just checked.
        Ok(record.assume_verified())
    }

    pub fn lesson(&mut self, arrival: u64, id: &LessonId) -> Result<Option<Lesson>, ReadError> {
        let Some(bytes) = self.fetch(Tree::Lesson, arrival)? else { return Ok(None) };
        let key = Key::first(Tree::Lesson, arrival);
        let lesson = Lesson::from_bytes(&bytes).map_err(|e| damaged(key, e))?;
        if lesson.id() != *id {
            return Err(damaged(key, "another lesson"));
        }
        Ok(Some(lesson))
    }
}

impl Store {
    /// The value under an arrival number, its parts put together; `None` if it was erased.
    pub(super) fn fetch(&self, tree: Tree, arrival: u64) -> Result<Option<Vec<u8>>, ReadError> {
        Reader::new(self).fetch(tree, arrival)
    }

    fn shown(&self, arrival: Option<&u64>) -> Option<u64> {
        let durable = self.0.queue.durable();
        arrival.copied().filter(|a| *a < durable)
    }

    /// The banks known here, in the order in which they were added.
    pub fn banks(&self) -> Vec<BankInfo> {
        self.index().banks.iter().filter_map(|b| b.info.clone()).collect()
    }

    /// A record by its id.
    pub fn record(&self, id: &RecordId) -> Result<Option<Record>, ReadError> {
        let arrival = self.shown(self.index().records.get(id));
        arrival.map(|arrival| Reader::new(self).record(arrival, id)).transpose()
    }

    /// The records among `ids` that are here, each with the body it teaches where that is here too. Unknown ids are left
    /// out.
    pub fn records(&self, ids: &[RecordId]) -> Result<Vec<(Record, Option<Lesson>)>, ReadError> {
        let mut out = Vec::with_capacity(ids.len());
        let mut reader = Reader::new(self);
        for id in ids {
            let arrival = self.shown(self.index().records.get(id));
            let Some(arrival) = arrival else { continue };
            let record = reader.record(arrival, id)?;
            let lesson = record.claim().body();
            let place = lesson.and_then(|lesson| Some((self.shown(self.index().lessons.get(&lesson))?, lesson)));
            let body = place.map(|(arrival, lesson)| reader.lesson(arrival, &lesson)).transpose()?.flatten();
            out.push((record, body));
        }
        Ok(out)
    }

    /// A lesson by its id.
    pub fn lesson(&self, id: &LessonId) -> Result<Option<Lesson>, ReadError> {
        let arrival = self.shown(self.index().lessons.get(id));
        arrival.map_or(Ok(None), |arrival| Reader::new(self).lesson(arrival, id))
    }

    /// Whether the body of a lesson is here.
    pub fn has_lesson(&self, id: &LessonId) -> bool {
        self.shown(self.index().lessons.get(id)).is_some()
    }

    /// The ids of a bank's records in the order in which they came.
    pub fn record_ids(&self, bank: &BankId) -> Vec<RecordId> {
        self.arrivals(bank).into_iter().map(|(_, id)| id).collect()
    }

    fn arrivals(&self, bank: &BankId) -> Vec<(u64, RecordId)> {
        let durable = self.0.queue.durable();
        let index = self.index();
        let Some(bank) = index.bank(bank) else { return Vec::new() };
        let shown = bank.records.partition_point(|(arrival, _)| *arrival < durable);
        bank.records[..shown].to_vec()
    }

    /// Calls `f` with each record of a bank, in the order in which they came. Records that come meanwhile are left out.
    pub fn for_each_record(&self, bank: &BankId, mut f: impl FnMut(&Record)) -> Result<(), ReadError> {
        self.read_records(&self.arrivals(bank), |record| f(record))
    }

    /// Calls `f` with the records of these ids that are here and can be read, in no order, some of them more than once; says
    /// whether that is all of them.
    pub(crate) fn each_readable(&self, ids: impl Iterator<Item = RecordId>, mut f: impl FnMut(&Record)) -> bool {
        let (mut wanted, mut found) = (0, Vec::new());
        let durable = self.0.queue.durable();
        {
            let index = self.index();
            for id in ids {
                wanted += 1;
                found
                    .extend(index.records.get(&id).filter(|arrival| **arrival < durable).map(|arrival| (*arrival, id)));
            }
        }
        let mut whole = found.len() == wanted;
        // Neighbours lie in one pack.
        found.sort_unstable();
        if self.read_records(&found, &mut f).is_err() {
            whole = false;
            let mut reader = Reader::new(self);
            found.iter().filter_map(|(arrival, id)| reader.record(*arrival, id).ok()).for_each(|record| f(&record));
        }
        whole
    }

    /// Calls `f` with the records of these arrival numbers, in order.
    pub(super) fn read_records(
        &self,
        arrivals: &[(u64, RecordId)],
        mut f: impl FnMut(&Record),
    ) -> Result<(), ReadError> {
        in_order(
            arrivals,
            BLOCK,
            || Reader::new(self),
            |reader, (arrival, id)| reader.record(*arrival, id),
            |record| record.map(|record| f(&record)),
        )
    }

    /// Calls `f` with each lesson whose body is here, in the order in which the bodies came.
    pub fn for_each_lesson(&self, f: impl FnMut(&Lesson)) -> Result<(), ReadError> {
        self.for_each_lesson_from(0, f)
    }

    /// As [`Store::for_each_lesson`], for those that came with this arrival number or later.
    pub(crate) fn for_each_lesson_from(&self, first: u64, mut f: impl FnMut(&Lesson)) -> Result<(), ReadError> {
        let mut lessons = self.lesson_arrivals();
        lessons.retain(|(arrival, _)| *arrival >= first);
        lessons.sort_unstable();
        let read = |reader: &mut Reader<'_>, (arrival, id): &(u64, LessonId)| reader.lesson(*arrival, id);
        in_order(
            &lessons,
            BLOCK,
            || Reader::new(self),
            read,
            |lesson| lesson.map(|lesson| lesson.iter().for_each(&mut f)),
        )
    }

    fn lesson_arrivals(&self) -> Vec<(u64, LessonId)> {
        let durable = self.0.queue.durable();
        self.index().lessons.iter().map(|(id, a)| (*a, *id)).filter(|(a, _)| *a < durable).collect()
    }

    /// As [`Store::for_each_record`], for those that came with this arrival number or later.
    pub(crate) fn for_each_record_from(
        &self,
        bank: &BankId,
        first: u64,
        mut f: impl FnMut(&Record),
    ) -> Result<(), ReadError> {
        let all = self.arrivals(bank);
        let known = all.partition_point(|(arrival, _)| *arrival < first);
        self.read_records(all.get(known..).unwrap_or_default(), |record| f(record))
    }

    /// What is held below an arrival number, and durable.
    pub(crate) fn holding(&self, below: u64) -> Holding {
        let below = below.min(self.0.queue.durable());
        let index = self.index();
        let mut out = Holding::default();
        for (id, _) in index.lessons.iter().filter(|(_, arrival)| **arrival < below) {
            out.lessons += 1;
            out.add(1, &id.0);
        }
        for bank in index.banks.iter().filter(|bank| bank.info.is_some()) {
            let records = bank.records.partition_point(|(arrival, _)| *arrival < below);
            out.records += records as u64;
            for (_, id) in bank.records.iter().take(records) {
                out.add(2, &id.0);
            }
        }
        out
    }

    /// Up to which arrival number, exclusive, everything durable is known to somebody who knows so many lessons and records of
    /// this bank and no others; `lesson` and `record` say whether they know one, and are asked only where the numbers differ.
    pub(crate) fn covered(
        &self,
        known: (usize, usize),
        lesson: impl Fn(&LessonId) -> bool,
        record: impl Fn(&BankId, &RecordId) -> bool,
    ) -> u64 {
        let durable = self.0.queue.durable();
        let held = self.holding(durable);
        if known == (held.lessons as usize, held.records as usize) {
            return durable;
        }
        let unknown = self.lesson_arrivals().into_iter().filter(|(_, id)| !lesson(id)).map(|(arrival, _)| arrival);
        let first = unknown.min().unwrap_or(durable);
        let banks: Vec<BankId> = self.banks().into_iter().map(|bank| bank.id).collect();
        // Records come in order, so the first that is unknown ends the search in its bank.
        let of_bank = |id: &BankId| {
            let arrivals = self.arrivals(id);
            arrivals.into_iter().find(|(_, known)| !record(id, known)).map(|(arrival, _)| arrival)
        };
        banks.iter().filter_map(of_bank).chain([first]).min().unwrap_or(durable)
    }

    /// Lessons that records of the bank teach and whose body is not here, sorted.
    pub fn missing_bodies(&self, bank: &BankId) -> Vec<LessonId> {
        let mut out: Vec<LessonId> =
            self.index().bank(bank).map(|b| b.missing.iter().copied().collect()).unwrap_or_default();
        out.sort_unstable();
        out
    }

    /// A run by its digest.
    pub fn run(&self, digest: &RunDigest) -> Result<Option<RunRow>, ReadError> {
        let arrival = self.index().runs.get(digest).map(|r| r.arrival);
        let Some(arrival) = self.shown(arrival.as_ref()) else { return Ok(None) };
        let Some(value) = self.fetch(Tree::Run, arrival)? else { return Ok(None) };
        let run = RunRow::from_value(&value).map_err(|e| damaged(Key::first(Tree::Run, arrival), e))?;
        Ok(Some(run))
    }

    /// How a run ended, without reading it; `None` if it is not here.
    pub fn run_outcome(&self, digest: &RunDigest) -> Option<Outcome> {
        let run = self.index().runs.get(digest).copied();
        run.filter(|r| r.arrival < self.0.queue.durable()).map(|r| r.outcome)
    }

    /// About how many bytes a run has, without reading it: never less, and at most a part more.
    pub fn run_bytes(&self, digest: &RunDigest) -> Option<u64> {
        let run = self.index().runs.get(digest).copied();
        run.map(|run| u64::from(run.parts) * frame::RUN_PART_BYTES as u64)
    }

    /// The runs of a task, in the order in which they came.
    pub fn runs_of_task(&self, task_key: &str) -> Result<Vec<RunRow>, ReadError> {
        self.run_digests_of_task(task_key).iter().filter_map(|digest| self.run(digest).transpose()).collect()
    }

    /// The digests of a task's runs, in the order in which they came: a task may have more runs than fit into memory.
    pub fn run_digests_of_task(&self, task_key: &str) -> Vec<RunDigest> {
        self.index().tasks.get(task_key).cloned().unwrap_or_default()
    }

    /// The digests of all runs held, in the order in which they came.
    pub fn run_digests(&self) -> Vec<RunDigest> {
        let durable = self.0.queue.durable();
        let mut runs: Vec<(u64, RunDigest)> = self
            .index()
            .runs
            .iter()
            .map(|(digest, run)| (run.arrival, *digest))
            .filter(|(at, _)| *at < durable)
            .collect();
        runs.sort_unstable();
        runs.into_iter().map(|(_, digest)| digest).collect()
    }

    /// The runs whose digest in hex begins so: none, the one, or two of several.
    pub fn find_runs(&self, prefix: &str) -> Vec<RunDigest> {
        let durable = self.0.queue.durable();
        let index = self.index();
        let shown = index.runs.iter().filter(|(_, run)| run.arrival < durable).map(|(digest, _)| *digest);
        let mut found: Vec<RunDigest> =
            shown.filter(|digest| crate::run::digest_hex(digest).starts_with(prefix)).take(2).collect();
        found.sort_unstable();
        found
    }

    /// The keys of all tasks that have runs, in no order.
    pub fn tasks(&self) -> Vec<String> {
        self.index().tasks.keys().cloned().collect()
    }

    /// Runs held.
    pub fn run_count(&self) -> usize {
        self.index().runs.len()
    }

    /// A setting.
    pub fn setting(&self, name: &str) -> Option<Vec<u8>> {
        self.index().settings.get(name).map(|s| s.value.clone())
    }

    /// What recovery and admission noted for the operator, oldest first.
    pub fn notes(&self) -> Vec<String> {
        self.index().notes.clone()
    }

    /// Values that were asked for and could not be read since the bank was opened, each in words: the first
    /// [`MAX_UNREADABLE`] of them. Opening the bank again repairs what can be repaired.
    pub fn unreadable(&self) -> Vec<String> {
        self.0.unreadable.lines()
    }

    /// Whether the bank still takes writes; the error says what to do when it does not.
    pub fn writable(&self) -> Result<(), WriteError> {
        self.0.queue.check()
    }

    /// How much is held over all banks.
    pub fn counts(&self) -> Counts {
        let index = self.index();
        Counts {
            banks: index.banks.iter().filter(|b| b.info.is_some()).count(),
            records: index.records.len(),
            lessons: index.lessons.len(),
            runs: index.runs.len(),
        }
    }

    /// Records of one bank.
    pub fn record_count(&self, bank: &BankId) -> usize {
        self.index().bank(bank).map_or(0, |b| b.records.len())
    }
}

#[cfg(test)]
impl Store {
    /// Damages the bytes of a record, as a disk does that rots.
    pub(crate) fn rot(&self, record: &Record) {
        let arrival = self.index().records[&record.id()];
        let first = self.index().pack_of(arrival).unwrap();
        let rot = |db: &sled::Db| {
            let mut pack = db.get(frame::pack_key(first))?.unwrap().to_vec();
            let bytes = record.bytes();
            let at = pack.windows(bytes.len()).position(|window| *window == bytes[..]).unwrap();
            pack[at + bytes.len() / 2] ^= 0x10;
            db.insert(frame::pack_key(first), pack).map(drop)
        };
        self.0.disk.with(rot).unwrap();
    }
}
