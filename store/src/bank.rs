//! The bank on disk: sled, and the rules that keep it safe.
//!
//! One sled database holds everything, in one sled tree, under keys that begin with a letter for what they hold and an
//! ascending arrival number. So a group of records, bodies and runs is one sled batch, there after a crash as a whole or
//! not at all. Values are framed ([`crate::frame`]). What is acknowledged is synced: sled's flush, then a sync of ours.
//! All calls block; from async code use `spawn_blocking`.
//!
//! ```text
//! Store::open(dir: &Path, OpenOptions { entropy, had_bank }) -> Result<Opened { store, report: OpenReport }, OpenError>
//!
//! add_bank(BankInfo) -> Result<(), WriteError>            banks() -> Vec<BankInfo>
//! write(BankId, &Keypair, at_ms, Batch { claims, runs, skip_if_taught }) -> Result<Written { claims, runs }, WriteError>
//! check(&[(UnverifiedRecord, Option<Vec<u8>>)]) -> Vec<Result<Incoming, Refused>>
//! admit(BankId, Vec<Incoming { record, body }>) -> Result<Vec<Admission>, WriteError>
//! missing_bodies(&BankId) -> Vec<LessonId>                put_bodies(&[Lesson]) -> Result<usize, WriteError>
//! set_setting(name, bytes) -> Result<(), WriteError>      setting(name) -> Option<Vec<u8>>
//!
//! record(&RecordId) -> Result<Option<Record>, ReadError>  lesson(&LessonId) -> Result<Option<Lesson>, ReadError>
//! records(&[RecordId]) -> Result<Vec<(Record, Option<Lesson>)>, ReadError>
//! record_ids(&BankId) -> Vec<RecordId>                    has_lesson(&LessonId) -> bool
//! for_each_record(&BankId, FnMut(&Record))                for_each_lesson(FnMut(&Lesson))
//! run(&RunDigest) -> Result<Option<RunRow>, ReadError>    runs_of_task(&str) -> Result<Vec<RunRow>, ReadError>
//! run_digests_of_task(&str) -> Vec<RunDigest>             run_count() -> usize
//! run_outcome(&RunDigest) -> Option<Outcome>              upkeep() -> Upkeep
//! rewrite() -> Result<Rewritten, RewriteError>            forget(&[LessonId]) -> Result<Forgotten, WriteError>
//!
//! begin_run(NewRun, at_ms) -> Result<Lease, RunError>     record_step(&Lease, n, &Step, at_ms) -> Result<StepDone, _>
//! take_lease(name, at_ms) -> Result<Lease, RunError>      mark_started(&Lease, n, &Step, at_ms) -> Result<(), RunError>
//! checkpoint(name) -> Result<Checkpoint, RunError>        note_given(&Lease, &[LessonId]) -> Result<(), RunError>
//! end_run(&Keypair, at_ms, Batch, &Ending) -> Result<Written, RunError>             runs_here() -> Vec<RunInfo>
//! hear_run(..), copy_steps(..) -> Result<Option<u32>, RunError>     step_pieces(..) -> Result<Vec<StepPiece>, RunError>
//! drop_copy(&RunId) -> Result<(), RunError>               retain_copies(Fn(&BankId, &AuthorId) -> bool) -> Result<usize, _>
//!
//! counts() -> Counts      record_count(&BankId) -> usize  notes() -> Vec<String>     syncs() -> u64
//! verify(FnMut(VerifyProgress)) -> Result<VerifyReport, ReadError>
//! ```

mod copies;
mod count;
mod facts;
mod forget;
mod incoming;
mod index;
mod keeper;
pub(crate) mod logs;
mod marker;
mod parallel;
mod queue;
mod read;
mod rewrite;
mod scan;
pub(crate) mod summary;
mod verify;
mod write;

use std::{
    fs::File,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use folklore_protocol::{
    bank::{BankId, BankSalt, MAX_BANK_NAME_BYTES},
    claim::Claim,
    identity::AuthorId,
    lesson::Lesson,
    record::{Record, RecordId},
};

use self::{
    count::{Count, CountFile},
    index::Index,
    keeper::Keeper,
    queue::{Base, Disk, Queue},
};
pub(crate) use self::{
    count::{Found, Tally},
    marker::sync_parent,
    queue::{panic_text, sled_text},
    read::Holding,
    scan::Scan,
    summary::{FileLook, Loaded, Summary},
};
pub use self::{
    forget::{Forgotten, MAX_FORGOTTEN},
    incoming::{Refused, check},
    keeper::Upkeep,
    read::MAX_UNREADABLE,
    rewrite::{RewriteError, Rewritten},
    scan::Damaged,
    verify::{VerifyProgress, VerifyReport},
};
use crate::{
    error::{OpenError, open_io},
    recover::{self, DirLock, Paths},
    runs::{RunOutcome, RunRow},
};

/// Longest value of a setting, bytes: sled keeps what is overwritten for long.
pub const MAX_SETTING_BYTES: usize = 64 * 1024;
/// Settings under this prefix belong to the bank itself.
const SETTING_PREFIX: &str = "bank:";
const SETTING_OWN: &str = "bank:own-authors";
const SETTING_SEQ_FLOOR: &str = "bank:seq-floor";
const SETTING_MARKER: &str = "bank:marker";
/// Set while text that was forgotten is still in the database file.
const SETTING_REWRITE_OWED: &str = "bank:rewrite-owed";
/// Set while what was made of such text may still be in the catalogue's files.
const SETTING_TRACES_OWED: &str = "bank:traces-owed";
/// Copies of other nodes' runs that were dropped here by hand: their ids, the latest last.
const SETTING_DROPPED_COPIES: &str = "bank:dropped-copies";
/// Waste of less than this is not worth a rewrite: what sled takes for a few of its segments.
const REWRITE_ABOVE_BYTES: u64 = 128 * 1024 * 1024;
/// Room for an owner, a name and their lengths.
const MAX_BANK_VALUE_BYTES: usize = MAX_BANK_NAME_BYTES + 64;
/// After a restore numbering goes on at least this far above what the copy shows: more than any node writes between two
/// copies. As many random numbers again keep two restores of one copy apart. 2^22 restores fit into a seq.
const RESTORE_GAP: u64 = 1 << 40;

/// A data directory's bank. Cheap to clone; all clones are the same bank. Closed when the last one is dropped.
#[derive(Debug, Clone)]
pub struct Store(Arc<Inner>, Option<Arc<Keeper>>);

#[derive(Debug)]
struct Inner {
    // In the order in which they must be dropped: sled first, our lock last.
    disk: Disk,
    queue: Queue,
    index: RwLock<Index>,
    order: Mutex<()>,
    session: AtomicU64,
    /// Held by the one rewrite at a time.
    rewriting: Mutex<()>,
    /// The last clone is gone: what takes long ends.
    closing: AtomicBool,
    upkeep: Mutex<Upkeep>,
    unreadable: read::Unreadable,
    rewrite_above: u64,
    last_rewrite_bytes: AtomicU64,
    _lock: DirLock,
}

/// What the caller brings to opening a bank.
#[derive(Debug, Clone, Copy)]
pub struct OpenOptions {
    /// 64 random bits, new at each opening. They keep the numbers of two nodes restored from one copy apart.
    pub entropy: u64,
    /// Whether the caller knows that a bank was here before: an empty one is then a loss and not a beginning.
    pub had_bank: bool,
    /// A database file smaller than this is not rewritten, however much of it is waste.
    pub rewrite_above_bytes: u64,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { entropy: 0, had_bank: false, rewrite_above_bytes: REWRITE_ABOVE_BYTES }
    }
}

/// An open bank, and what opening it took.
#[derive(Debug)]
pub struct Opened {
    /// The bank.
    pub store: Store,
    /// What was done and found.
    pub report: OpenReport,
}

/// What opening a bank took.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// There was no bank before.
    pub created: bool,
    /// It was closed in good order, so its summary told what it holds and not every value was read.
    pub from_summary: bool,
    /// What was held when it was open.
    pub counts: Counts,
    /// Each step beyond a plain opening, in order, in words. Empty for a bank in good order.
    pub steps: Vec<String>,
    /// Values that were there and could not be read back; their bytes are kept in `bank.quarantine`.
    pub damaged: Vec<Damaged>,
    /// Values that the count says were there and that are gone, the damaged ones included.
    pub lost: u64,
    /// Set when own records go on with a gap in their numbers.
    pub restored: Option<Restored>,
}

impl OpenReport {
    /// Whether there is nothing to tell an operator.
    pub fn is_clean(&self) -> bool {
        self.steps.is_empty() && self.damaged.is_empty() && self.lost == 0 && self.restored.is_none()
    }

    /// The report in words, a line each; empty for a clean opening.
    pub fn lines(&self) -> Vec<String> {
        let mut out = self.steps.clone();
        out.extend(self.damaged.iter().map(|d| format!("damaged: {}: {}", d.key, d.detail)));
        if self.lost > 0 {
            out.push(format!("{} values are lost here; a sync with peers brings back what they have", self.lost));
        }
        if let Some(restored) = &self.restored {
            out.push(format!("{}; own records go on from number {}", restored.why, restored.next_seq));
        }
        out
    }
}

/// Own records go on with a gap, since numbers after the highest one held may be used already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// What gave it away.
    pub why: String,
    /// The lowest number that an own record gets from now on.
    pub next_seq: u64,
}

/// How much is held over all banks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Banks known by name.
    pub banks: usize,
    /// Records.
    pub records: usize,
    /// Bodies of lessons.
    pub lessons: usize,
    /// Runs.
    pub runs: usize,
}

/// A bank as a node knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BankInfo {
    /// Its id: what [`BankId::new`] gives for owner, salt and name.
    pub id: BankId,
    /// Its name.
    pub name: String,
    /// Its owner.
    pub owner: AuthorId,
    /// What keeps its id from being guessed.
    pub salt: BankSalt,
}

impl BankInfo {
    /// The bank called `name` that `owner` made with `salt`.
    pub fn new(owner: AuthorId, salt: BankSalt, name: &str) -> Self {
        Self { id: BankId::new(&owner, &salt, name), name: name.to_owned(), owner, salt }
    }
}

/// A record of another node, its signature checked, and the body it names if that came along.
#[derive(Debug, Clone)]
pub struct Incoming {
    /// The record.
    pub record: Record,
    /// The lesson it teaches.
    pub body: Option<Lesson>,
}

/// What became of a record that was to be admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// New, and durable now.
    Stored,
    /// It was there already. Its body was stored if it was missing.
    Known,
    /// Not stored.
    Declined {
        /// Why.
        reason: String,
    },
}

/// What is to be written together.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// Claims of our own, each with the body it teaches, if it teaches one.
    pub claims: Vec<(Claim, Option<Lesson>)>,
    /// Runs.
    pub runs: Vec<RunRow>,
    /// Leave out a teaching of a lesson that this author already teaches in this bank and has not withdrawn since.
    pub skip_if_taught: bool,
}

/// What a [`Batch`] came to. Durable.
#[derive(Debug, Clone, Default)]
pub struct Written {
    /// For each claim, in order.
    pub claims: Vec<ClaimOutcome>,
    /// For each run, in order.
    pub runs: Vec<RunOutcome>,
}

/// What happened to a claim that was to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// Signed and stored.
    Written(Record),
    /// Left out: this record of the author teaches the lesson already.
    Known(RecordId),
}

impl Written {
    /// The new records, in order.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.claims.iter().filter_map(|claim| match claim {
            ClaimOutcome::Written(record) => Some(record),
            ClaimOutcome::Known(_) => None,
        })
    }
}

impl Inner {
    fn upkeep(&self) -> MutexGuard<'_, Upkeep> {
        self.upkeep.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store {
    /// Opens the bank of a data directory, making both if they are absent, and repairs what it can.
    ///
    /// # Errors
    /// See [`OpenError`]; nothing is lost by a failed attempt.
    pub fn open(dir: &Path, options: OpenOptions) -> Result<Opened, OpenError> {
        let paths = Paths::new(dir);
        if !dir.exists() {
            std::fs::create_dir_all(dir)
                .and_then(|()| sync_parent(dir))
                .map_err(|e| open_io("create the data directory", dir, e))?;
        }
        let lock = recover::lock(&paths)?;
        let (mut count_file, found) =
            CountFile::open(&paths.count).map_err(|e| open_io("open the count", &paths.count, e))?;
        let recovered = recover::open(&paths, found)?;
        let mut scan = recovered.scan;
        let before = if let Found::Count(count) = found { count } else { Count::default() };
        let session = before.session.max(scan.session) + 1;
        let count = Count { session, tally: scan.tally, ..before };
        count_file.write(count, true).map_err(|e| open_io("write the count", &paths.count, e))?;

        let mut report = OpenReport {
            // Nothing was ever stored: the first opening, or one that was cut short.
            created: scan.tally.items == 0 && before.tally.items == 0,
            steps: recovered.steps,
            from_summary: scan.from_summary,
            damaged: scan.damaged,
            lost: recovered.lost,
            ..OpenReport::default()
        };
        let file = File::open(&paths.database).map_err(|e| open_io("open", &paths.database, e))?;
        let inner = Inner {
            queue: Queue::new(scan.index.next_arrival),
            disk: Disk {
                base: RwLock::new(Some(Base { db: recovered.db, file })),
                count: Mutex::new((count_file, count)),
                summary: Mutex::new(scan.summary.take()),
                syncs: AtomicU64::new(0),
                paths: paths.clone(),
                doubtful: AtomicBool::new(false),
                live: AtomicU64::new(scan.bytes),
                log: Mutex::default(),
            },
            index: RwLock::new(scan.index),
            order: Mutex::new(()),
            session: AtomicU64::new(session),
            rewriting: Mutex::new(()),
            closing: AtomicBool::new(false),
            upkeep: Mutex::default(),
            unreadable: read::Unreadable::default(),
            rewrite_above: options.rewrite_above_bytes,
            last_rewrite_bytes: AtomicU64::new(0),
            _lock: lock,
        };
        let mut store = Self(Arc::new(inner), None);
        store.settle(&paths, options, before.seq_bound, &mut report)?;
        let keeper = Keeper::start(store.clone()).map_err(|e| open_io("start a thread for", &paths.dir, e))?;
        store.1 = Some(Arc::new(keeper));
        report.counts = store.counts();
        Ok(Opened { store, report })
    }

    /// Takes damaged values out of the way, and jumps in numbering if this may be an old copy of the bank.
    fn settle(
        &self,
        paths: &Paths,
        options: OpenOptions,
        seq_bound: u64,
        report: &mut OpenReport,
    ) -> Result<(), OpenError> {
        let failed =
            |e: crate::error::WriteError| OpenError::Unrecoverable { path: paths.bank.clone(), detail: e.to_string() };
        if !report.damaged.is_empty() {
            let read = |key: &[u8]| self.0.disk.with(|db| db.get(key)).ok().flatten().map(|bytes| bytes.to_vec());
            let kept = recover::quarantine(paths, self.0.session.load(Ordering::Relaxed), read, &report.damaged)?;
            report.steps.push(format!("{} damaged values were moved to {}", report.damaged.len(), kept.display()));
            let removed = self.group(|_, plan| {
                for (key, keep) in scan::without_damaged(&report.damaged, read) {
                    plan.change(key, keep);
                }
                Ok(())
            });
            removed.map_err(failed)?;
        }

        let marker_io = |e| open_io("read the marker", &paths.marker, e);
        let seen = marker::identity(&paths.marker, &paths.database).map_err(marker_io)?;
        let held = self.setting(SETTING_MARKER);
        let why = match (&held, &seen) {
            _ if report.created && options.had_bank => Some("the bank that was here is gone, and this is a new one"),
            _ if report.created => None,
            _ if report.lost > 0 || !report.damaged.is_empty() => {
                Some("values are lost, records of our own may be among them")
            }
            (Some(held), Some(seen)) if held.chunks(seen.len()).any(|held| held == seen) => None,
            (_, None) => Some("the marker file is gone, so this may be a copy of the bank put back"),
            (None, Some(_)) => Some("the bank does not know its marker file, so it may be an old copy put back"),
            (Some(_), Some(_)) => Some("this bank is a copy that was put back, or was copied from elsewhere"),
        };
        if why.is_none() && held.is_some() {
            return Ok(());
        }
        // A new marker first: if it stops here, the next opening finds a marker it does not know and jumps again.
        marker::renew(&paths.marker).map_err(|e| open_io("write the marker", &paths.marker, e))?;
        let seen =
            marker::identity(&paths.marker, &paths.database).map_err(marker_io)?.unwrap_or([0; marker::IDENTITY_BYTES]);
        let floor = why.map(|why| {
            let index = self.index();
            let used = index.highest_own_seq().max(index.seq_floor).max(seq_bound);
            let next_seq = used.saturating_add(RESTORE_GAP).saturating_add(options.entropy % RESTORE_GAP);
            Restored { why: why.to_owned(), next_seq }
        });
        self.group(|_, plan| {
            plan.setting(SETTING_MARKER, &seen)?;
            floor.iter().try_for_each(|restored| plan.seq_floor(restored.next_seq))
        })
        .map_err(failed)?;
        report.restored = floor;
        Ok(())
    }

    /// Durable syncs since the bank was opened.
    pub fn syncs(&self) -> u64 {
        self.0.disk.syncs.load(Ordering::Relaxed)
    }

    /// The lock under which numbers are given out.
    fn order(&self) -> MutexGuard<'_, ()> {
        self.0.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn index(&self) -> RwLockReadGuard<'_, Index> {
        self.0.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn index_mut(&self) -> RwLockWriteGuard<'_, Index> {
        self.0.index.write().unwrap_or_else(PoisonError::into_inner)
    }
}
