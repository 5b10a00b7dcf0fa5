//! Group commit: writers queue their groups, one of them writes and syncs for all that wait.

use std::{
    collections::VecDeque,
    fs::File,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use super::{
    count::{Count, CountFile, Tally},
    facts::Fact,
    rewrite::Log,
    summary::{FileLook, Summary},
};
use crate::{
    error::{ReadError, WriteError},
    frame::Tree,
    recover::{self, Paths},
};

/// Once this many bytes wait, what follows goes into the next round. sled writes about three times as much to its log,
/// which is less than one of its segments, and it does not use a freed segment again within the next: so what it moved is
/// durable before its old place is overwritten. (Only a single group larger than this goes beyond.)
const ROUND_BYTES: usize = 2 * 1024 * 1024;

/// What is written together or not at all.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// Keys with new values; `None` removes the key.
    pub changes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// New values, for the count.
    pub items: Vec<(Tree, u64, [u8; 32])>,
    /// Bytes of the values that are no more.
    pub freed: u64,
    /// What the index has learnt of them.
    pub facts: Vec<Fact>,
    /// The arrival number after the last one in the group.
    pub next_arrival: u64,
    /// One above the highest own seq in the group; 0 if there is none.
    pub seq_bound: u64,
}

impl Group {
    fn bytes(&self) -> usize {
        self.changes.iter().map(|(k, v)| k.len() + v.as_ref().map_or(0, Vec::len)).sum()
    }
}

/// An open database.
#[derive(Debug)]
pub(super) struct Base {
    pub db: sled::Db,
    /// A handle of our own on sled's file, for a real sync.
    pub file: File,
}

/// The files that a group must reach.
#[derive(Debug)]
pub(super) struct Disk {
    /// `None` while another takes its place. Never asked for again by who holds it.
    pub base: RwLock<Option<Base>>,
    pub count: Mutex<(CountFile, Count)>,
    pub summary: Mutex<Option<Summary>>,
    pub syncs: AtomicU64,
    pub paths: Paths,
    /// A write or a read failed, so it is not certain what is on disk: the next opening is to read all of it.
    pub doubtful: AtomicBool,
    /// Bytes of all values.
    pub live: AtomicU64,
    /// What is written while a rewrite is under way.
    pub log: Mutex<Option<Log>>,
}

/// Why there is no database at the moment.
const BETWEEN: &str = "it is being opened again";

impl Base {
    /// Runs `f` on sled. A panic of sled is an error like any other.
    pub fn with<T>(&self, f: impl FnOnce(&sled::Db) -> Result<T, sled::Error>) -> Result<T, String> {
        guarded(|| f(&self.db))
    }

    /// Writes a batch and returns once it is durable.
    pub fn write(&self, batch: sled::Batch) -> Result<(), String> {
        self.with(|db| {
            db.apply_batch(batch)?;
            db.flush()
        })?;
        self.file.sync_data().map_err(|e| format!("sync of the database file: {}", io_text(&e)))
    }
}

impl Disk {
    /// Writes the groups as one batch and returns once it is durable.
    ///
    /// sled's flush calls `sync_file_range` on Linux, which neither empties the disk's cache nor writes the file's length
    /// and extents, so a sync of ours follows.
    fn commit(&self, groups: &[Group]) -> Result<(), String> {
        let mut batch = sled::Batch::default();
        for (key, value) in groups.iter().flat_map(|g| &g.changes) {
            match value {
                Some(value) => batch.insert(key.as_slice(), value.as_slice()),
                None => batch.remove(key.as_slice()),
            }
        }
        let guard = self.base.read().unwrap_or_else(PoisonError::into_inner);
        let base = guard.as_ref().ok_or(BETWEEN)?;
        base.write(batch)?;
        drop(guard);
        self.note(groups);
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.write_count(groups);
        Ok(())
    }

    /// Runs `f` on sled. A panic of sled is an error like any other.
    pub fn with<T>(&self, f: impl FnOnce(&sled::Db) -> Result<T, sled::Error>) -> Result<T, ReadError> {
        let guard = self.base.read().unwrap_or_else(PoisonError::into_inner);
        let base = guard.as_ref().ok_or_else(|| ReadError::Database(BETWEEN.into()))?;
        base.with(f).map_err(ReadError::Database)
    }

    /// Counts what is live, and tells a rewrite under way what to copy again.
    fn note(&self, groups: &[Group]) {
        for group in groups {
            let put: usize = group.changes.iter().filter_map(|(_, value)| Some(value.as_ref()?.len())).sum();
            let live = self.live.load(Ordering::Relaxed).saturating_add(put as u64).saturating_sub(group.freed);
            self.live.store(live, Ordering::Relaxed);
        }
        if let Some(log) = &mut *self.log() {
            for group in groups {
                log.keys.extend(group.changes.iter().map(|(key, _)| key.clone()));
                group.items.iter().for_each(|(tree, arrival, identity)| log.tally.add(*tree, *arrival, identity));
                log.facts.extend(group.facts.iter().cloned());
            }
        }
    }

    /// The database, to be read for long: a rewrite does not wait for it.
    pub fn handle(&self) -> Option<sled::Db> {
        self.base.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(|base| base.db.clone())
    }

    /// Bytes of the database file.
    pub fn file_bytes(&self) -> u64 {
        std::fs::metadata(&self.paths.database).map_or(0, |meta| meta.len())
    }

    fn write_count(&self, groups: &[Group]) {
        let mut guard = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, count) = &mut *guard;
        for group in groups {
            for (tree, arrival, identity) in &group.items {
                count.tally.add(*tree, *arrival, identity);
            }
            count.tally.next_arrival = group.next_arrival.max(count.tally.next_arrival);
            count.seq_bound = group.seq_bound.max(count.seq_bound);
        }
        // The group is durable already. A count that stays behind raises no false alarm, so this is no failure.
        if let Err(error) = file.write(*count, false) {
            tracing::warn!(%error, "the bank's count could not be written; a later loss might go unnoticed");
        }
        if let Some(summary) = &mut *self.summary() {
            groups.iter().flat_map(|group| &group.facts).for_each(|fact| summary.add(fact));
        }
    }

    pub fn summary(&self) -> MutexGuard<'_, Option<Summary>> {
        self.summary.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn tally(&self) -> Tally {
        self.count.lock().unwrap_or_else(PoisonError::into_inner).1.tally
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let tally = {
            let (file, count) = &mut *self.count.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = file.sync() {
                tracing::warn!(%error, "the bank's count could not be synced while closing");
            }
            count.tally
        };
        let base = self.base.write().unwrap_or_else(PoisonError::into_inner).take();
        // sled may panic where the disk fails it; what was acknowledged is durable all the same.
        let closed = catch_unwind(AssertUnwindSafe(|| drop(base)));
        let summary = self.summary().take();
        if let (Ok(()), Some(summary), false) = (closed, summary, self.doubtful.load(Ordering::Relaxed)) {
            recover::keep_log_short(&self.paths);
            let done = FileLook::at(&self.paths.database).and_then(|look| summary.close(&tally, look));
            if let Err(error) = done {
                tracing::warn!(%error, "the bank's summary could not be closed; the next opening reads the whole bank");
            }
        }
    }
}

/// Runs `f`, which uses sled. A panic of sled is an error like any other.
pub(super) fn guarded<T>(f: impl FnOnce() -> Result<T, sled::Error>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(e)) => Err(sled_text(&e)),
        Err(panic) => Err(panic_text(panic.as_ref())),
    }
}

/// An error of sled in words a user knows.
pub(crate) fn sled_text(error: &sled::Error) -> String {
    match error {
        sled::Error::Io(e) => io_text(e),
        // Its own text speaks of file offsets and backtraces.
        sled::Error::Corruption { .. } => "sled finds its own data corrupted".into(),
        other => other.to_string(),
    }
}

fn io_text(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "the disk is full".into(),
        _ => error.to_string(),
    }
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let said = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    format!("sled panicked: {}", said.unwrap_or("without a word"))
}

#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
    /// Values with arrival numbers below this are durable and may be shown.
    durable: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Group>,
    /// Groups ever queued, and how many of them are durable.
    queued: u64,
    done: u64,
    /// Somebody is writing.
    busy: bool,
    failed: Option<String>,
    /// Failures that writing was taken up again after.
    failures: u64,
}

/// Names a queued group; also stands for all before it. And how many failures there had been before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ticket(u64, u64);

impl Queue {
    pub fn new(durable: u64) -> Self {
        Self { state: Mutex::default(), wake: Condvar::new(), durable: AtomicU64::new(durable) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Whether writes are still taken.
    pub fn check(&self) -> Result<(), WriteError> {
        match &self.lock().failed {
            Some(reason) => Err(WriteError::Stopped(reason.clone())),
            None => Ok(()),
        }
    }

    /// Queues a group. Whoever calls must hold the lock under which arrival numbers are given out.
    pub fn push(&self, group: Group) -> Ticket {
        let mut state = self.lock();
        state.waiting.push_back(group);
        state.queued += 1;
        Ticket(state.queued, state.failures)
    }

    /// Stands for all that is queued now.
    pub fn tail(&self) -> Ticket {
        let state = self.lock();
        Ticket(state.queued, state.failures)
    }

    /// Returns once the ticket's group and all before it are durable, writing them if nobody else does.
    pub fn wait(&self, ticket: Ticket, disk: &Disk) -> Result<(), WriteError> {
        let mut state = self.lock();
        loop {
            if state.failures > ticket.1 {
                // It failed, and writing was taken up again before this thread could be told.
                return Err(WriteError::Stopped("writing stopped for a while".into()));
            }
            if state.done >= ticket.0 {
                return Ok(());
            }
            if let Some(reason) = &state.failed {
                return Err(WriteError::Stopped(reason.clone()));
            }
            if state.busy {
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.busy = true;
            let groups = state.next_round();
            drop(state);
            let result = disk.commit(&groups);
            state = self.lock();
            state.busy = false;
            match result {
                Ok(()) => {
                    state.done += groups.len() as u64;
                    if let Some(last) = groups.last() {
                        self.durable.fetch_max(last.next_arrival, Ordering::Release);
                    }
                }
                Err(reason) => {
                    tracing::error!(%reason, "a write to the bank failed; it takes no more until the disk does");
                    disk.doubtful.store(true, Ordering::Relaxed);
                    state.failed = Some(reason);
                }
            }
            self.wake.notify_all();
        }
    }
}

/// While it lives nothing is committed; groups may still be queued.
#[derive(Debug)]
pub(super) struct Pause<'a>(&'a Queue);

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.0.lock().busy = false;
        self.0.wake.notify_all();
    }
}

impl Queue {
    /// Waits until nobody writes, and keeps it so.
    pub fn pause(&self) -> Pause<'_> {
        let mut state = self.lock();
        while state.busy {
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.busy = true;
        Pause(self)
    }

    /// Takes writes again after a failure. What waited failed with it. Values below `durable` may be shown.
    pub fn resume(&self, durable: u64) {
        let mut state = self.lock();
        state.waiting.clear();
        state.failures += 1;
        state.done = state.queued;
        state.failed = None;
        self.durable.store(durable, Ordering::Release);
    }
}

impl State {
    fn next_round(&mut self) -> Vec<Group> {
        let mut groups = Vec::new();
        let mut bytes = 0;
        while let Some(group) = self.waiting.front() {
            bytes += group.bytes();
            if !groups.is_empty() && bytes > ROUND_BYTES {
                break;
            }
            groups.extend(self.waiting.pop_front());
        }
        groups
    }
}
