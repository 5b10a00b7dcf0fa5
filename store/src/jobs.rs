//! The durable queue of work that needs something which may be away, as a language model is.
//!
//! A job lies in a slot: a setting of the bank (`job:00042`), framed and recovered like every other value. What a job brings
//! (lessons, a label) and the emptying of its slot are one group of the bank ([`Store::write_with`]), so after a crash it is
//! either done and gone or still there; and a job that comes back under the same work is the same job, because its id is the
//! hash of its work. The bank does not look into that work: whoever queues it does it.
//!
//! Slots are used again, so the queue takes no more room than its bound. Nothing here waits or retries by itself; who is
//! taking a job at the moment is known in memory only.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use folklore_protocol::canonical::{self, DecodeError};
use serde::{Deserialize, Serialize};

use crate::{bank::Store, error::WriteError, run::shorten};

/// Most jobs that wait or have failed. Each takes about half a kilobyte in memory and on disk.
pub const MAX_JOBS: usize = 16_384;
/// Longest work of a job, bytes: it names runs, it does not hold them.
pub const MAX_WORK_BYTES: usize = 8 * 1024;
/// Bytes kept of the reason why a job failed.
pub const MAX_FAILURE_BYTES: usize = 512;
/// More jobs than will ever come: a higher number is damage, and those that come after it would find none.
const MAX_NUMBER: u64 = 1 << 62;
/// Room for a job on disk.
const MAX_JOB_BYTES: usize = MAX_WORK_BYTES + MAX_FAILURE_BYTES + 128;
const PREFIX: &str = "job:";
const ID_CONTEXT: &str = "folklore 2026 job id v1";

/// What a job is known by: the hash of its work.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobId(pub [u8; 16]);

impl JobId {
    /// The id of a job with this work.
    #[must_use]
    pub fn of(work: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key(ID_CONTEXT);
        let mut out = [0; 16];
        hasher.update(work).finalize_xof().fill(&mut out);
        Self(out)
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobId({self})")
    }
}

/// A job in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Its place in the order in which jobs came.
    pub number: u64,
    /// When it came, milliseconds since 1970.
    pub queued_ms: u64,
    /// What is to be done, in the words of whoever does it.
    pub work: Vec<u8>,
    /// Why it was given up; empty while it waits.
    pub failure: String,
}

impl Job {
    /// Reads a slot that is not free.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        canonical::decode::<Self, MAX_JOB_BYTES>(bytes)
    }

    /// What it is known by.
    #[must_use]
    pub fn id(&self) -> JobId {
        JobId::of(&self.work)
    }

    /// Whether it was given up and waits for a person to retry or drop it.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        !self.failure.is_empty()
    }
}

/// Why jobs are not queued.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// No slot is free.
    #[error(
        "{MAX_JOBS} jobs wait already, the most there may be: retry or drop failed ones (folklore jobs), then queue it again"
    )]
    Full,
    /// The work is too long.
    #[error("a job of {0} bytes is longer than {MAX_WORK_BYTES}: split it")]
    TooLong(usize),
}

/// What a group of the bank is to write beside its records so that the queue changes with it.
pub type Settings = Vec<(String, Vec<u8>)>;

#[derive(Debug)]
struct Entry {
    slot: usize,
    job: Job,
    /// Somebody is at it.
    taken: bool,
    /// It is on disk: nobody is given a job that a power cut would take back.
    durable: bool,
    /// Its slot is being written: till that is over it is neither dropped nor its slot another's.
    writes: bool,
    /// Nobody wants it any more; it goes when its slot on disk is empty and whoever is at it lets go of it.
    is_dropped: bool,
}

impl Entry {
    fn new(slot: usize, job: Job, durable: bool) -> Self {
        Self { slot, job, taken: false, durable, writes: false, is_dropped: false }
    }

    /// Begins to write a job that has failed as one that waits again: its slot, and what is to be written there. None where it
    /// has not failed, or something is written there already.
    fn again(&mut self) -> Option<(usize, Job)> {
        if !self.job.has_failed() || self.taken || self.writes || self.is_dropped {
            return None;
        }
        self.writes = true;
        Some((self.slot, Job { failure: String::new(), ..self.job.clone() }))
    }
}

#[derive(Debug, Default)]
struct Inner {
    jobs: BTreeMap<JobId, Entry>,
    free: Vec<usize>,
    next_slot: usize,
    next_number: u64,
}

impl Inner {
    fn remove(&mut self, id: &JobId) {
        if let Some(entry) = self.jobs.remove(id) {
            self.free.push(entry.slot);
        }
    }

    /// Those that are wanted.
    fn wanted(&self) -> impl Iterator<Item = &Entry> {
        self.jobs.values().filter(|entry| !entry.is_dropped)
    }

    /// Nobody is at a job any more.
    fn let_go(&mut self, id: &JobId) {
        let Some(entry) = self.jobs.get_mut(id) else { return };
        entry.taken = false;
        if entry.is_dropped && !entry.writes {
            self.remove(id);
        }
    }

    /// Whoever is at a job begins to write how it ended: its slot. `None` where that is not wanted: it was dropped, or dropped and
    /// queued again, and then emptying its slot must not come before that is on disk.
    fn begin_to_end(&mut self, id: &JobId) -> Option<usize> {
        let entry = self.jobs.get_mut(id)?;
        if entry.is_dropped || !entry.durable {
            self.let_go(id);
            return None;
        }
        (entry.taken, entry.writes) = (true, true);
        Some(entry.slot)
    }

    /// A slot has been written, or could not be.
    fn wrote(&mut self, id: &JobId) {
        if let Some(entry) = self.jobs.get_mut(id) {
            entry.writes = false;
        }
    }
}

/// The queue of a bank. Cheap to clone; all clones are one queue. There may be only one a bank.
#[derive(Debug, Clone)]
pub struct Jobs {
    store: Store,
    inner: Arc<Mutex<Inner>>,
}

fn name(slot: usize) -> String {
    format!("{PREFIX}{slot:05}")
}

impl Jobs {
    /// The jobs that the bank holds. A slot that does not read is passed over, kept, and told in `notes`.
    #[must_use]
    pub fn open(store: Store) -> (Self, Vec<String>) {
        let mut inner = Inner::default();
        let mut notes = Vec::new();
        for slot in 0..MAX_JOBS {
            let Some(value) = store.setting(&name(slot)) else { continue };
            // Slots in between that were never written belonged to jobs that were not kept.
            inner.free.extend(inner.next_slot..slot);
            inner.next_slot = slot + 1;
            if value.is_empty() {
                inner.free.push(slot);
                continue;
            }
            match Job::from_bytes(&value) {
                Ok(job) if job.number >= MAX_NUMBER => {
                    notes.push(format!("the job in slot {slot} has a number that none was given and is left alone"));
                }
                Ok(job) => {
                    inner.next_number = inner.next_number.max(job.number + 1);
                    // One job in two slots could only be an older copy of it.
                    inner.jobs.insert(job.id(), Entry::new(slot, job, true));
                }
                Err(error) => notes.push(format!("the job in slot {slot} does not read and is left alone: {error}")),
            }
        }
        inner.free.reverse();
        (Self { store, inner: Arc::new(Mutex::new(inner)) }, notes)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives works their slots; those that are queued already are left as they are, but for one that has failed: it is to wait
    /// again. The settings of the answer have to be written, and then it has to be [kept](Queued::keep); dropped before that,
    /// nothing was queued.
    ///
    /// # Errors
    /// When not all of them find a slot; then none is queued.
    pub fn queue(&self, works: Vec<Vec<u8>>, now_ms: u64) -> Result<Queued, QueueError> {
        let mut queued =
            Queued { jobs: self.clone(), settings: Vec::new(), ids: Vec::new(), again: Vec::new(), kept: false };
        let mut inner = self.inner();
        for work in works {
            if work.len() > MAX_WORK_BYTES {
                drop(inner);
                return Err(QueueError::TooLong(work.len()));
            }
            let id = JobId::of(&work);
            let number = inner.next_number;
            match inner.jobs.get_mut(&id) {
                // Dropped a moment ago, while somebody was at it, and wanted again.
                Some(entry) if entry.is_dropped && !entry.writes => {
                    (entry.is_dropped, entry.durable) = (false, false);
                    (entry.job.number, entry.job.queued_ms) = (number, now_ms);
                    queued.settings.push((name(entry.slot), canonical::encode(&entry.job)));
                    queued.ids.push(id);
                    inner.next_number += 1;
                    continue;
                }
                Some(entry) => {
                    if let Some((slot, job)) = entry.again() {
                        queued.settings.push((name(slot), canonical::encode(&job)));
                        queued.again.push(id);
                    }
                    continue;
                }
                None => {}
            }
            let slot = match inner.free.pop() {
                Some(slot) => slot,
                None if inner.next_slot < MAX_JOBS => {
                    inner.next_slot += 1;
                    inner.next_slot - 1
                }
                None => {
                    drop(inner);
                    return Err(QueueError::Full);
                }
            };
            let job = Job { number: inner.next_number, queued_ms: now_ms, work, failure: String::new() };
            inner.next_number += 1;
            queued.settings.push((name(slot), canonical::encode(&job)));
            queued.ids.push(id);
            inner.jobs.insert(id, Entry::new(slot, job, false));
        }
        drop(inner);
        Ok(queued)
    }

    /// The job that has waited longest of those that nobody is at and that `wanted` accepts; it is taken until it is
    /// [put back](Self::put_back), [done](Self::done) or [failed](Self::fail).
    #[must_use]
    pub fn take(&self, wanted: impl Fn(&Job) -> bool) -> Option<Job> {
        let mut inner = self.inner();
        let waiting = inner
            .jobs
            .values_mut()
            .filter(|e| !e.taken && e.durable && !e.writes && !e.is_dropped && !e.job.has_failed() && wanted(&e.job));
        let entry = waiting.min_by_key(|entry| entry.job.number)?;
        entry.taken = true;
        Some(entry.job.clone())
    }

    /// Nobody is at a job any more; it waits. One that was dropped goes.
    pub fn put_back(&self, id: &JobId) {
        self.inner().let_go(id);
    }

    /// Takes a job out with the group that `write` writes: it is given the setting that empties the slot. `None` when the job was
    /// dropped meanwhile, and then `write` is not called: what it brought is not wanted.
    ///
    /// # Errors
    /// What `write` says; the job is then still there, and still taken by whoever took it.
    pub fn done<T, E>(&self, id: &JobId, write: impl FnOnce(Settings) -> Result<T, E>) -> Result<Option<T>, E> {
        let slot = self.inner().begin_to_end(id);
        let Some(slot) = slot else { return Ok(None) };
        let written = write(vec![(name(slot), Vec::new())]);
        let mut inner = self.inner();
        match &written {
            Ok(_) => inner.remove(id),
            Err(_) => inner.wrote(id),
        }
        drop(inner);
        written.map(Some)
    }

    /// Gives a job up until somebody retries it. For whoever took it.
    ///
    /// # Errors
    /// When that cannot be written; the job is still taken.
    pub fn fail(&self, id: &JobId, reason: &str) -> Result<(), WriteError> {
        let reason = if reason.trim().is_empty() { "it failed" } else { reason };
        let failure = shorten(reason, MAX_FAILURE_BYTES);
        let found = {
            let mut inner = self.inner();
            let slot = inner.begin_to_end(id);
            slot.zip(inner.jobs.get(id).map(|entry| Job { failure, ..entry.job.clone() }))
        };
        let Some((slot, job)) = found else { return Ok(()) };
        let written = self.store.set_setting(&name(slot), &canonical::encode(&job));
        let mut inner = self.inner();
        inner.wrote(id);
        if let Some(entry) = inner.jobs.get_mut(id).filter(|_| written.is_ok()) {
            (entry.job, entry.taken) = (job, false);
        }
        written
    }

    /// Lets a job that failed wait again; false when there is none of that id that has, or somebody is at it right now.
    ///
    /// # Errors
    /// When that cannot be written; it has failed as before.
    pub fn retry(&self, id: &JobId) -> Result<bool, WriteError> {
        // Dropped now, its slot could be another's by the time it is written, so that waits for it.
        let Some((slot, job)) = self.inner().jobs.get_mut(id).and_then(Entry::again) else { return Ok(false) };
        let written = self.store.set_setting(&name(slot), &canonical::encode(&job));
        let mut inner = self.inner();
        inner.wrote(id);
        if let Some(entry) = inner.jobs.get_mut(id).filter(|_| written.is_ok()) {
            entry.job = job;
        }
        drop(inner);
        written.map(|()| true)
    }

    /// Takes a job out that is not wanted any more, also while somebody is at it: what that brings is then not written. False
    /// when there is none of that id, or what it brought is being written right now.
    ///
    /// # Errors
    /// When that cannot be written; the job is still there.
    pub fn drop_job(&self, id: &JobId) -> Result<bool, WriteError> {
        let slot = {
            let mut inner = self.inner();
            let unwritten = |entry: &&mut Entry| entry.durable && !entry.writes && !entry.is_dropped;
            let Some(entry) = inner.jobs.get_mut(id).filter(unwritten) else { return Ok(false) };
            (entry.is_dropped, entry.writes) = (true, true);
            entry.slot
        };
        let written = self.store.set_setting(&name(slot), &[]);
        let mut inner = self.inner();
        inner.wrote(id);
        if let Some(entry) = inner.jobs.get_mut(id) {
            entry.is_dropped = written.is_ok();
            // Else whoever is at it takes it out when it ends.
            if entry.is_dropped && !entry.taken {
                inner.remove(id);
            }
        }
        drop(inner);
        written.map(|()| true)
    }

    /// The jobs, in the order in which they came, and whether somebody is at each.
    #[must_use]
    pub fn list(&self) -> Vec<(Job, bool)> {
        let mut out: Vec<(Job, bool)> = self.inner().wanted().map(|entry| (entry.job.clone(), entry.taken)).collect();
        out.sort_by_key(|(job, _)| job.number);
        out
    }

    /// Jobs that wait or are being done, and jobs that failed.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let inner = self.inner();
        let failed = inner.wanted().filter(|entry| entry.job.has_failed()).count();
        (inner.wanted().count() - failed, failed)
    }

    /// Jobs that somebody is at.
    #[must_use]
    pub fn running(&self) -> usize {
        self.inner().wanted().filter(|entry| entry.taken && !entry.job.has_failed()).count()
    }
}

/// Jobs with a slot, on their way to disk.
#[derive(Debug)]
pub struct Queued {
    jobs: Jobs,
    settings: Settings,
    ids: Vec<JobId>,
    /// Jobs that had failed.
    again: Vec<JobId>,
    kept: bool,
}

impl Queued {
    /// What has to be written.
    #[must_use]
    pub fn settings(&self) -> Settings {
        self.settings.clone()
    }

    /// The jobs that are new.
    #[must_use]
    pub fn ids(&self) -> &[JobId] {
        &self.ids
    }

    /// The settings are on disk: the jobs are in the queue.
    pub fn keep(mut self) {
        self.kept = true;
        let mut inner = self.jobs.inner();
        for id in &self.ids {
            if let Some(entry) = inner.jobs.get_mut(id) {
                entry.durable = true;
            }
        }
        for id in &self.again {
            inner.wrote(id);
            if let Some(entry) = inner.jobs.get_mut(id) {
                entry.job.failure.clear();
            }
        }
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        let mut inner = self.jobs.inner();
        for id in &self.ids {
            inner.remove(id);
        }
        self.again.iter().for_each(|id| inner.wrote(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bank::OpenOptions;

    fn store(dir: &std::path::Path) -> Store {
        Store::open(dir, OpenOptions { entropy: 7, ..OpenOptions::default() }).unwrap().store
    }

    fn put(jobs: &Jobs, store: &Store, works: &[&str]) -> Vec<JobId> {
        let queued = jobs.queue(works.iter().map(|work| work.as_bytes().to_vec()).collect(), 5).unwrap();
        for (name, value) in queued.settings() {
            store.set_setting(&name, &value).unwrap();
        }
        let ids = queued.ids().to_vec();
        queued.keep();
        ids
    }

    fn works(jobs: &Jobs) -> Vec<String> {
        jobs.list().into_iter().map(|(job, _)| String::from_utf8(job.work).unwrap()).collect()
    }

    #[test]
    fn jobs_come_back_in_order_after_the_bank_was_closed() {
        let dir = tempfile::tempdir().unwrap();
        {
            let store = store(dir.path());
            let (jobs, notes) = Jobs::open(store.clone());
            assert!(notes.is_empty());
            let ids = put(&jobs, &store, &["one", "two", "three"]);
            assert_eq!(put(&jobs, &store, &["two"]), [], "the same work is the same job");
            jobs.fail(&ids[0], "no").unwrap();
            let taken = jobs.take(|_| true).unwrap();
            assert_eq!(taken.work, b"two", "the failed one waits for a person");
            assert_eq!((jobs.counts(), jobs.running()), ((2, 1), 1), "one that somebody is at waits no less");
            let cleared = jobs.done(&taken.id(), |settings| {
                settings.iter().try_for_each(|(name, value)| store.set_setting(name, value))
            });
            assert!(cleared.unwrap().is_some());
        }
        let store = store(dir.path());
        let (jobs, _) = Jobs::open(store.clone());
        assert_eq!((works(&jobs), jobs.counts()), (vec!["one".to_owned(), "three".to_owned()], (1, 1)));
        let one = jobs.list()[0].0.id();
        assert!(jobs.retry(&one).unwrap());
        assert_eq!(jobs.take(|_| true).unwrap().work, b"one");
        jobs.put_back(&one);
        assert!(jobs.drop_job(&one).unwrap() && !jobs.drop_job(&one).unwrap());
        // The slots of what has gone are used again.
        put(&jobs, &store, &["four", "five"]);
        assert_eq!(works(&jobs), ["three", "four", "five"]);
        assert!(store.setting("job:00003").is_none());
    }

    #[test]
    fn what_was_not_written_was_not_queued_and_gives_its_slot_back() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let (jobs, _) = Jobs::open(store.clone());
        let queued = jobs.queue(vec![b"lost".to_vec()], 0).unwrap();
        assert!(jobs.take(|_| true).is_none(), "not before it is on disk");
        drop(queued);
        assert_eq!(jobs.counts(), (0, 0));
        put(&jobs, &store, &["kept"]);
        assert!(store.setting("job:00000").is_some() && store.setting("job:00001").is_none());
        // A gap that such a job left hides nothing behind it.
        let gap = jobs.queue(vec![b"never kept".to_vec()], 0).unwrap();
        put(&jobs, &store, &["behind the gap"]);
        drop(gap);
        assert_eq!(works(&Jobs::open(store.clone()).0), ["kept", "behind the gap"]);
        let id = JobId::of(b"behind the gap");
        assert!(jobs.drop_job(&id).unwrap());
        let id = JobId::of(b"kept");
        let failed: Result<Option<()>, &str> = jobs.done(&id, |_| Err("the disk is full"));
        assert!(failed.is_err() && jobs.counts() == (1, 0), "a result that cannot be written leaves the job");
        assert_eq!(jobs.done(&JobId::of(b"never"), |_| Ok::<_, ()>(())), Ok(None));
    }

    #[test]
    fn a_job_that_somebody_is_at_can_be_dropped_and_what_it_brings_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let (jobs, _) = Jobs::open(store.clone());
        let ids = put(&jobs, &store, &["asked", "failing", "put back", "ending"]);
        for _ in &ids {
            jobs.take(|_| true).unwrap();
        }
        for id in &ids[..3] {
            assert!(jobs.drop_job(id).unwrap());
            assert!(!jobs.drop_job(id).unwrap(), "once is enough");
        }
        assert_eq!((works(&jobs), jobs.counts(), jobs.running()), (vec!["ending".to_owned()], (1, 0), 1));
        // The next opening knows nothing of them either.
        assert_eq!(works(&Jobs::open(store.clone()).0), ["ending"]);
        let write = |_: Settings| -> Result<(), ()> { panic!("nothing is written") };
        assert_eq!(jobs.done(&ids[0], write), Ok(None));
        jobs.fail(&ids[1], "no").unwrap();
        jobs.put_back(&ids[2]);
        // What is being written cannot be taken back.
        let ended = jobs.done(&ids[3], |settings| {
            assert!(!jobs.drop_job(&ids[3]).unwrap());
            settings.iter().try_for_each(|(name, value)| store.set_setting(name, value))
        });
        assert!(ended.unwrap().is_some() && jobs.list().is_empty());
        // One that is wanted again while its old self is at work waits once more.
        put(&jobs, &store, &["again"]);
        let again = jobs.take(|_| true).unwrap().id();
        assert!(jobs.drop_job(&again).unwrap());
        let queued = jobs.queue(vec![b"again".to_vec()], 1).unwrap();
        assert_eq!(jobs.done(&again, write), Ok(None), "it is not on disk yet");
        queued.settings().iter().for_each(|(name, value)| store.set_setting(name, value).unwrap());
        queued.keep();
        assert_eq!(works(&Jobs::open(store.clone()).0), ["again"]);
        assert_eq!(jobs.take(|_| true).unwrap().id(), again);
        assert!(jobs.drop_job(&again).unwrap());
        jobs.put_back(&again);
        // All slots are free again, each once.
        put(&jobs, &store, &["asked", "b", "c", "d", "e"]);
        assert_eq!(works(&Jobs::open(store.clone()).0), ["asked", "b", "c", "d", "e"]);
        assert!(store.setting("job:00005").is_none());
    }

    #[test]
    fn a_job_that_failed_waits_again_when_its_work_is_queued_once_more() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let (jobs, _) = Jobs::open(store.clone());
        let id = put(&jobs, &store, &["one"])[0];
        jobs.fail(&id, "no").unwrap();
        // What is not written changes nothing, and while it is on its way nobody else changes it.
        let lost = jobs.queue(vec![b"one".to_vec()], 9).unwrap();
        assert!(!jobs.retry(&id).unwrap() && !jobs.drop_job(&id).unwrap() && jobs.take(|_| true).is_none());
        drop(lost);
        assert_eq!((jobs.counts(), Jobs::open(store.clone()).0.counts()), ((0, 1), (0, 1)));
        assert_eq!(put(&jobs, &store, &["one", "one"]), [], "it is no new job");
        assert_eq!((jobs.counts(), Jobs::open(store.clone()).0.counts()), ((1, 0), (1, 0)));
        assert_eq!(jobs.take(|_| true).map(|job| job.work), Some(b"one".to_vec()));
    }

    #[test]
    fn a_retry_beside_the_end_of_a_job_does_not_bring_it_back_over_another() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let (jobs, _) = Jobs::open(store.clone());
        put(&jobs, &store, &["one"]);
        let id = jobs.take(|_| true).unwrap().id();
        let done = jobs.done(&id, |settings| {
            settings.iter().try_for_each(|(name, value)| store.set_setting(name, value))?;
            // A person's retry comes when the slot is empty on disk and the job is still known.
            assert!(!jobs.retry(&id)?, "it has not failed, and somebody is at it");
            Ok::<_, WriteError>(())
        });
        assert_eq!(done, Ok(Some(())));
        assert_eq!(works(&Jobs::open(store.clone()).0), Vec::<String>::new());
        put(&jobs, &store, &["two"]);
        assert_eq!(works(&Jobs::open(store).0), ["two"]);
    }

    #[test]
    fn what_cannot_be_written_stays_with_who_took_it() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let (jobs, _) = Jobs::open(store.clone());
        put(&jobs, &store, &["one"]);
        let id = jobs.take(|_| true).unwrap().id();
        let failed: Result<Option<()>, &str> = jobs.done(&id, |_| Err("the disk is full"));
        assert!(failed.is_err() && jobs.take(|_| true).is_none(), "what it brought is still to be written");
        jobs.fail(&id, "no").unwrap();
        assert!(jobs.retry(&id).unwrap() && jobs.take(|_| true).is_some());
    }

    #[test]
    fn a_job_of_a_number_that_none_was_given_is_told_and_later_ones_find_theirs() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let job = Job { number: u64::MAX, queued_ms: 0, work: b"damaged".to_vec(), failure: String::new() };
        store.set_setting(&name(0), &canonical::encode(&job)).unwrap();
        let (jobs, notes) = Jobs::open(store.clone());
        assert!(notes.len() == 1 && works(&jobs).is_empty(), "{notes:?}");
        put(&jobs, &store, &["one", "two"]);
        assert_eq!(works(&Jobs::open(store).0), ["one", "two"]);
    }

    #[test]
    fn the_queue_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let (jobs, _) = Jobs::open(store(dir.path()));
        let many = (0..MAX_JOBS).map(|n| n.to_le_bytes().to_vec()).collect();
        let held = jobs.queue(many, 0).unwrap();
        assert!(matches!(jobs.queue(vec![b"one more".to_vec()], 0), Err(QueueError::Full)));
        drop(held);
        assert!(jobs.queue(vec![b"one more".to_vec()], 0).is_ok());
        assert!(matches!(jobs.queue(vec![vec![0; MAX_WORK_BYTES + 1]], 0), Err(QueueError::TooLong(_))));
    }
}
