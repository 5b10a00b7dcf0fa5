//! Rewriting the database into a fresh one. sled gives back little of what is overwritten or removed, so a bank that lives
//! for a year would grow without bound.
//!
//! All values are copied beside the old database while that serves reads and writes, small packs put together; what changes
//! meanwhile is noted and copied again. The copy is opened anew, read whole and compared with the count. Then, while writers
//! wait a moment, the last changes are copied, all of it is synced, and two renames put the copy in place. A crash before
//! the first rename leaves the old database, and one after it the new (see [`crate::recover`]).

use std::{
    collections::BTreeSet,
    fmt,
    fs::{self, File},
    path::{Path, PathBuf},
    sync::{MutexGuard, PoisonError, atomic::Ordering},
    thread,
    time::Duration,
};

use super::{
    SETTING_MARKER, SETTING_REWRITE_OWED, Store,
    count::Tally,
    facts::Fact,
    keeper::Upkeep,
    marker::{self, sync_parent},
    queue::{Base, Disk, panic_text, sled_text},
    scan::Scan,
    summary::Summary,
};
use crate::{
    error::WriteError,
    frame::{self, Packer},
    recover,
};

/// A file is wasteful if it is so many times what it holds. sled's own need is between 1.5 and 2.5.
const WASTEFUL_TIMES: u64 = 3;
/// And if it has grown by half since the last rewrite: what that could not save, the next cannot either.
const GROWN_TIMES_HALF: u64 = 3;
/// Room that a rewrite leaves to the rest of the bank.
const SPARE_ROOM_BYTES: u64 = 64 * 1024 * 1024;
/// Bytes that go into the fresh database at once.
const BATCH_BYTES: usize = 1024 * 1024;
/// Changes that are copied while writers wait; more are copied before.
const LAST_CHANGES: usize = 200;
/// Rounds of copying changes; writers that are faster than the copy end the attempt.
const MAX_ROUNDS: usize = 50;
/// The fresh database's lock, which sled gives back a moment after it is closed.
const LOCK_RETRIES: u32 = 100;
const LOCK_RETRY: Duration = Duration::from_millis(20);

/// What a rewrite came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rewritten {
    /// Bytes of the file before.
    pub before: u64,
    /// Bytes of the file after.
    pub after: u64,
}

impl fmt::Display for Rewritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} MB before, {} MB after", self.before / 1_000_000, self.after / 1_000_000)
    }
}

/// Why a rewrite came to nothing. The bank goes on with the old database.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RewriteError {
    /// The file system or sled refused.
    #[error("could not {doing}: {detail}; see to the disk, it is tried again later")]
    Failed {
        /// What was tried, a verb.
        doing: &'static str,
        /// What came of it.
        detail: String,
    },
    /// The copy does not hold what the bank holds.
    #[error("the copy holds {found} values of {wanted}: `folklore doctor --verify` tells what is damaged")]
    Differs {
        /// Values in the copy.
        found: u64,
        /// Values counted.
        wanted: u64,
    },
    /// Packs were changed, or writers were faster than the copy.
    #[error("too much changed meanwhile; it is tried again later")]
    Overtaken,
    /// The bank is closing.
    #[error("the bank is closing")]
    Closing,
    /// The bank takes no writes.
    #[error(transparent)]
    Write(#[from] WriteError),
}

fn failed(doing: &'static str, error: impl ToString) -> RewriteError {
    RewriteError::Failed { doing, detail: error.to_string() }
}

/// What was written since a moment, while a rewrite is under way.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub keys: BTreeSet<Vec<u8>>,
    pub tally: Tally,
    pub facts: Vec<Fact>,
}

/// Ends the noting of changes when a rewrite ends, however it ends.
struct Noting<'a>(&'a Store);

impl Drop for Noting<'_> {
    fn drop(&mut self) {
        *self.0.0.disk.log() = None;
        self.0.0.upkeep().rewriting = false;
    }
}

impl Store {
    /// Whether a rewrite is due.
    pub(super) fn wasteful(&self) -> bool {
        let file = self.0.disk.file_bytes();
        let live = self.0.disk.live.load(Ordering::Relaxed);
        let last = self.0.last_rewrite_bytes.load(Ordering::Relaxed);
        file >= self.0.rewrite_above
            && file > live.saturating_mul(WASTEFUL_TIMES)
            && file > last.saturating_mul(GROWN_TIMES_HALF) / 2
    }

    /// Rewrites the database into a fresh one, whether that is due or not. Reads and writes go on meanwhile.
    ///
    /// # Errors
    /// The bank goes on with the old database, except after [`WriteError::Stopped`].
    pub fn rewrite(&self) -> Result<Rewritten, RewriteError> {
        let one = self.0.rewriting.lock().unwrap_or_else(PoisonError::into_inner);
        self.rewrite_alone(&one)
    }

    /// As [`Store::rewrite`], for who holds the lock of the one rewrite at a time.
    pub(super) fn rewrite_alone(&self, _one: &MutexGuard<'_, ()>) -> Result<Rewritten, RewriteError> {
        self.writable()?;
        // Read before anything is copied: of what is forgotten meanwhile the copy may have the text.
        let owed = self.rewrite_owed();
        self.0.upkeep().rewriting = true;
        let noting = Noting(self);
        let before = self.0.disk.file_bytes();
        let done = self.rewrite_into_fresh();
        drop(noting);
        let paths = &self.0.disk.paths;
        if done.is_err() {
            fs::remove_dir_all(&paths.rebuild).ok();
            fs::remove_file(summary_beside(paths)).ok();
        }
        fs::remove_dir_all(&paths.old).ok();
        let done = done.map(|()| Rewritten { before, after: self.0.disk.file_bytes() });
        if let (Ok(_), Some(owed)) = (&done, owed) {
            self.paid(SETTING_REWRITE_OWED, owed);
        }
        let upkeep: &mut Upkeep = &mut self.0.upkeep();
        match &done {
            Ok(rewritten) => {
                self.0.last_rewrite_bytes.store(rewritten.after, Ordering::Relaxed);
                upkeep.rewrites += 1;
                upkeep.rewrite_failed = None;
            }
            Err(error) => upkeep.rewrite_failed = Some(error.to_string()),
        }
        done
    }

    fn rewrite_into_fresh(&self) -> Result<(), RewriteError> {
        let (disk, paths) = (&self.0.disk, &self.0.disk.paths);
        if paths.rebuild.exists() {
            fs::remove_dir_all(&paths.rebuild).map_err(|e| failed("remove an earlier copy", e))?;
        }
        // A copy must not be what fills the disk.
        let room = recover::room(paths).map_err(|e| failed("look at the disk", e))?;
        let needed = disk.live.load(Ordering::Relaxed).saturating_mul(WASTEFUL_TIMES).saturating_add(SPARE_ROOM_BYTES);
        if room < needed {
            let detail = format!("{} MB are free and {} MB needed", room / 1_000_000, needed / 1_000_000);
            return Err(RewriteError::Failed { doing: "find room for the copy", detail });
        }
        // Packs from here on are new; they are noted, and copied as they are.
        let mark = {
            let _pause = self.0.queue.pause();
            *disk.log() = Some(Log::default());
            self.0.queue.durable()
        };
        let mut fresh = Fresh::open(&paths.rebuild)?;
        self.copy_all(&mut fresh, mark)?;
        let mut rounds = 0;
        let wanted = loop {
            let (log, tally) = {
                let _pause = self.0.queue.pause();
                (disk.log().replace(Log::default()).unwrap_or_default(), disk.tally())
            };
            rounds += 1;
            let few = log.keys.len() <= LAST_CHANGES;
            self.copy_changed(&mut fresh, log.keys, mark)?;
            if few {
                break tally;
            }
            if rounds == MAX_ROUNDS {
                return Err(RewriteError::Overtaken);
            }
        };
        // As the next opening will find it, and with a snapshot of sled's own, which it writes when it opens.
        let mut fresh = fresh.reopen()?;
        let summary = Summary::create(&summary_beside(paths)).map_err(|e| failed("write the summary", e))?;
        let mut scan = fresh.base.with(|db| Scan::check(db, summary)).map_err(|e| failed("read the copy", e))?;
        if !scan.damaged.is_empty() || !scan.tally.same_values(&wanted) {
            return Err(RewriteError::Differs { found: scan.tally.items, wanted: wanted.items });
        }
        self.know_both_files(&fresh.path.join("db"))?;
        self.switch(&mut fresh, mark, &mut scan)?;
        self.know_both_files(&paths.database)
    }

    /// Tells the bank that it may be found in this file from now on, besides the one it is in. Otherwise the next opening
    /// would take it for a copy that was put back.
    fn know_both_files(&self, other: &Path) -> Result<(), RewriteError> {
        let paths = &self.0.disk.paths;
        let look = |file: &Path| marker::identity(&paths.marker, file).map_err(|e| failed("look at the marker", e));
        let (Some(now), Some(then)) = (look(&paths.database)?, look(other)?) else { return Ok(()) };
        let known = if now == then { now.to_vec() } else { [now, then].concat() };
        Ok(self.group(|_, plan| plan.setting(SETTING_MARKER, &known))?)
    }

    /// Copies what is there, packs that are not new put together.
    fn copy_all(&self, fresh: &mut Fresh, mark: u64) -> Result<(), RewriteError> {
        let db = self.0.disk.handle().ok_or(RewriteError::Closing)?;
        let mut packer = Packer::default();
        for entry in db.iter() {
            let (key, value) = entry.map_err(|e| failed("read the database", sled_text(&e)))?;
            match frame::pack_first(&key) {
                None => fresh.insert(&key, value.to_vec())?,
                Some(first) if first >= mark => {}
                Some(_) => {
                    for piece in frame::unpack(&value) {
                        // A copy that lacks something is found out by its tally.
                        let Ok(frame) = piece else { continue };
                        if let Some((first, pack)) = packer.push(&frame) {
                            fresh.insert(&frame::pack_key(first), pack)?;
                        }
                    }
                }
            }
            if self.0.closing.load(Ordering::Relaxed) {
                return Err(RewriteError::Closing);
            }
        }
        if let Some((first, pack)) = packer.take() {
            fresh.insert(&frame::pack_key(first), pack)?;
        }
        fresh.write()
    }

    /// Copies the values of these keys as they are now.
    fn copy_changed(&self, fresh: &mut Fresh, keys: BTreeSet<Vec<u8>>, mark: u64) -> Result<(), RewriteError> {
        let db = self.0.disk.handle().ok_or(RewriteError::Closing)?;
        for key in keys {
            if frame::pack_first(&key).is_some_and(|first| first < mark) {
                // Its frames lie in other packs by now.
                return Err(RewriteError::Overtaken);
            }
            match db.get(&key).map_err(|e| failed("read the database", sled_text(&e)))? {
                Some(value) => fresh.insert(&key, value.to_vec())?,
                None => fresh.batch.remove(key),
            }
        }
        fresh.write()
    }

    /// Puts the copy in place of the database. Writers wait meanwhile, and readers for the renames.
    fn switch(&self, fresh: &mut Fresh, mark: u64, scan: &mut Scan) -> Result<(), RewriteError> {
        let (disk, paths) = (&self.0.disk, &self.0.disk.paths);
        let _order = self.order();
        let _pause = self.0.queue.pause();
        self.writable()?;
        let log = disk.log().take().unwrap_or_default();
        self.copy_changed(fresh, log.keys, mark)?;
        let mut tally = scan.tally;
        tally.merge(&log.tally);
        let wanted = disk.tally();
        if !tally.same_values(&wanted) {
            return Err(RewriteError::Differs { found: tally.items, wanted: wanted.items });
        }
        fresh.sync()?;
        let mut summary = scan.summary.take();
        if let Some(summary) = &mut summary {
            log.facts.iter().for_each(|fact| summary.add(fact));
        }

        let mut index = self.index_mut();
        let mut base = disk.base.write().unwrap_or_else(PoisonError::into_inner);
        let file = File::open(fresh.path.join("db")).map_err(|e| failed("open the copy", e))?;
        fs::rename(&paths.bank, &paths.old).map_err(|e| failed("move the database aside", e))?;
        if let Err(error) = fs::rename(&paths.rebuild, &paths.bank) {
            let back = fs::rename(&paths.old, &paths.bank).map_err(|e| e.to_string()).err().unwrap_or_default();
            return Err(failed("put the copy in place", format!("{error} {back}")));
        }
        sync_parent(&paths.bank).map_err(|e| failed("sync the directory", e))?;
        let old = base.replace(Base { db: fresh.base.db.clone(), file });
        index.packs.retain(|first| *first >= mark);
        let mut packs = std::mem::take(&mut scan.pack_firsts);
        packs.retain(|first| *first < mark);
        packs.append(&mut index.packs);
        index.packs = packs;
        disk.live.store(scan.bytes.saturating_add(fresh.since_reopened), Ordering::Relaxed);
        *disk.summary() = summary;
        drop((base, index));
        if let Err(error) = fs::rename(summary_beside(paths), &paths.summary) {
            tracing::warn!(%error, "the bank's summary could not be put in place; the next opening reads the whole bank");
        }
        // sled may take its time to close.
        drop(old);
        Ok(())
    }
}

fn summary_beside(paths: &recover::Paths) -> PathBuf {
    paths.summary.with_extension("summary-new")
}

/// The database being written.
struct Fresh {
    path: PathBuf,
    base: Base,
    batch: sled::Batch,
    bytes: usize,
    since_reopened: u64,
}

impl Fresh {
    fn open(path: &Path) -> Result<Self, RewriteError> {
        let mut tries = 0;
        let db = loop {
            let opened = std::panic::catch_unwind(|| recover::open_sled(path));
            match opened {
                Ok(Ok(db)) => break db,
                Ok(Err(error)) if recover::is_lock_error(&error) && tries < LOCK_RETRIES => {
                    tries += 1;
                    thread::sleep(LOCK_RETRY);
                }
                Ok(Err(error)) => return Err(failed("open the copy", sled_text(&error))),
                Err(panic) => return Err(failed("open the copy", panic_text(panic.as_ref()))),
            }
        };
        let file = File::open(path.join("db")).map_err(|e| failed("open the copy", e))?;
        let base = Base { db, file };
        Ok(Self { path: path.to_owned(), base, batch: sled::Batch::default(), bytes: 0, since_reopened: 0 })
    }

    fn reopen(self) -> Result<Self, RewriteError> {
        let path = self.path.clone();
        drop(self);
        Self::open(&path)
    }

    fn insert(&mut self, key: &[u8], value: Vec<u8>) -> Result<(), RewriteError> {
        self.bytes += value.len();
        self.since_reopened += value.len() as u64;
        self.batch.insert(key, value);
        if self.bytes >= BATCH_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), RewriteError> {
        self.bytes = 0;
        self.base.write(std::mem::take(&mut self.batch)).map_err(|e| failed("write the copy", e))
    }

    /// Makes the whole directory durable, sled's files that it does not sync itself included.
    fn sync(&self) -> Result<(), RewriteError> {
        let sync = || -> std::io::Result<()> {
            for entry in fs::read_dir(&self.path)? {
                File::open(entry?.path())?.sync_all()?;
            }
            File::open(&self.path)?.sync_all()?;
            sync_parent(&self.path)
        };
        sync().map_err(|e| failed("sync the copy", e))
    }
}

impl Disk {
    pub(super) fn log(&self) -> MutexGuard<'_, Option<Log>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
