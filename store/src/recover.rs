//! Opening a bank whatever state its files are in, one rung after another:
//!
//! 1. open it as it is;
//! 2. else put sled's snapshot files aside and open again: sled rebuilds from its log what they summed up;
//! 3. else, or if the count says that values are missing, carve all framed values out of the raw files into a fresh
//!    database and keep the old directory beside it.
//!
//! sled changes its files while opening: what it takes for a torn end of the log it overwrites. So what it would replay is
//! copied first, and carving reads the copy too. Every rung says what it did. Nothing damaged is ever deleted.

mod carve;

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use crate::{
    bank::{Damaged, FileLook, Found, Loaded, Scan, Summary, Tally, panic_text, sled_text, sync_parent},
    error::{OpenError, open_io},
};

/// sled's page cache. Its default is 1 GiB.
const CACHE_BYTES: u64 = 32 * 1024 * 1024;
/// sled's segments. Larger than one commit round, see the queue, and large enough that no page goes into a blob file:
/// sled never syncs those.
pub(crate) const SEGMENT_BYTES: usize = 8 * 1024 * 1024;
/// Segments that may wait for sled's next snapshot file when a bank is closed: 64 MiB, which copy and replay in a moment.
const MAX_UNSUMMED_SEGMENTS: usize = 8;
/// Room without which sled, opened again, would soon fail again: some segments.
const ROOM_TO_GO_ON_BYTES: u64 = 4 * SEGMENT_BYTES as u64;
/// Ranges of lost arrival numbers that a report lists.
const MAX_GAPS_LISTED: usize = 20;
/// A handle that is just being closed, or a child process that is just being started, gives sled's lock back after at most
/// this long.
const LOCK_RETRIES: u32 = 40;
const LOCK_RETRY: Duration = Duration::from_millis(50);

/// The files of a data directory that belong to the bank.
#[derive(Debug, Clone)]
pub(crate) struct Paths {
    pub dir: PathBuf,
    /// sled's directory.
    pub bank: PathBuf,
    /// sled's file in it.
    pub database: PathBuf,
    pub lock: PathBuf,
    pub count: PathBuf,
    pub marker: PathBuf,
    pub summary: PathBuf,
    pub quarantine: PathBuf,
    /// A database being built, complete once it is renamed.
    pub rebuild: PathBuf,
    /// The database before a rewrite, about to be removed.
    pub old: PathBuf,
}

impl Paths {
    pub fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            bank: dir.join("bank"),
            database: dir.join("bank").join("db"),
            lock: dir.join("bank.lock"),
            count: dir.join("bank.count"),
            marker: dir.join("bank.marker"),
            summary: dir.join("bank.summary"),
            quarantine: dir.join("bank.quarantine"),
            rebuild: dir.join("bank.rebuild"),
            old: dir.join("bank.old"),
        }
    }

    /// Copies of log segments, made before an opening that has not ended well yet.
    fn spares(&self) -> Vec<PathBuf> {
        (0..MAX_SPARES).map(|n| self.dir.join(format!("bank.spare-{n}"))).filter(|p| p.exists()).collect()
    }
}

/// One from an opening that was cut short, one from this opening.
const MAX_SPARES: usize = 2;

/// An open database and how it came about.
pub(crate) struct Recovered {
    pub db: sled::Db,
    pub scan: Scan,
    pub steps: Vec<String>,
    pub lost: u64,
}

/// The lock of a data directory. Held until it is dropped, or the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct DirLock(File);

impl Drop for DirLock {
    fn drop(&mut self) {
        // Closing the file is not enough: a child process that is just being started holds it too until it runs.
        rustix::fs::flock(&self.0, rustix::fs::FlockOperation::Unlock).ok();
    }
}

/// Takes the lock of a data directory.
pub(crate) fn lock(paths: &Paths) -> Result<DirLock, OpenError> {
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&paths.lock)
        .map_err(|e| open_io("open the lock", &paths.lock, e))?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(DirLock(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(OpenError::Locked { dir: paths.dir.clone() }),
        Err(e) => Err(open_io("lock", &paths.lock, e.into())),
    }
}

/// Why an attempt to open failed.
enum Failure {
    /// The files are damaged, as sled says; further rungs may help.
    Damage(String),
    /// The system does not let us; the files may be in best order, so nothing is moved.
    System(OpenError),
}

/// Climbs the ladder.
pub(crate) fn open(paths: &Paths, found: Found) -> Result<Recovered, OpenError> {
    let mut steps = Vec::new();
    finish_interrupted(paths, &mut steps)?;
    let created = !paths.bank.exists();
    let counted = match found {
        Found::Count(count) => count.tally,
        Found::Absent | Found::Damaged => Tally::default(),
    };
    if !created && !matches!(found, Found::Count(_)) {
        steps.push("the count file was absent or damaged: a loss before now would go unnoticed".into());
    }
    if created && counted.items > 0 {
        steps.push(format!("the bank's directory {} is gone", paths.bank.display()));
    }
    if !created {
        drop_leftovers(paths, &mut steps)?;
        carve::spare(paths, false)?;
    }

    let summary = if created { None } else { summary(paths, &counted) };
    let mut rung = attempt(paths, counted.next_arrival, First::Yes, summary);
    if let Err(Failure::Damage(detail)) = &rung {
        steps.push(format!("the database did not open: {detail}"));
        // Without the snapshot sled replays the whole log, so all of it is copied first.
        if !snapshots(&paths.bank)?.is_empty() && carve::spare(paths, true)? {
            put_snapshots_aside(paths, &mut steps)?;
            rung = attempt(paths, counted.next_arrival, First::No, None);
            if let Err(Failure::Damage(detail)) = &rung {
                steps.push(format!("it did not open without them either: {detail}"));
            }
        }
    }
    let (db, scan) = match rung {
        Err(Failure::System(e)) => return Err(e),
        Ok((db, scan)) if created || (scan.below.items >= counted.items && scan.damaged.is_empty()) => (db, scan),
        other => {
            if let Ok((db, scan)) = other {
                steps.push(format!(
                    "it opened with {} of {} counted values, {} of them damaged",
                    scan.below.items,
                    counted.items,
                    scan.damaged.len()
                ));
                drop(db);
            }
            let kept = carve::rebuild(paths, &mut steps)?;
            steps.push(format!("the old files are kept in {}; delete them when nothing is missed", kept.display()));
            match attempt(paths, counted.next_arrival, First::No, None) {
                Ok(opened) => opened,
                Err(Failure::System(e)) => return Err(e),
                Err(Failure::Damage(detail)) => {
                    return Err(OpenError::Unrecoverable { path: paths.bank.clone(), detail });
                }
            }
        }
    };
    let lost = counted.items.saturating_sub(scan.below.items);
    if lost > 0 {
        let gaps = scan.gaps();
        let listed: Vec<String> = gaps
            .iter()
            .take(MAX_GAPS_LISTED)
            .map(|(a, b)| if a == b { a.to_string() } else { format!("{a}–{b}") })
            .collect();
        let more = if gaps.len() > MAX_GAPS_LISTED { ", …" } else { "" };
        steps.push(format!("lost: the values that arrived as number {}{more}", listed.join(", ")));
    } else if scan.below != counted {
        steps.push("the database holds other values than were counted: the count file is not of this bank".into());
    }
    sync_names(paths)?;
    for spare in paths.spares() {
        fs::remove_file(&spare).map_err(|e| open_io("remove", &spare, e))?;
    }
    Ok(Recovered { db, scan, steps, lost })
}

/// Whether sled is opened for the first time in this call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    Yes,
    No,
}

/// What the summary file says, if it is of the database as it lies there and of what was counted. sled changes its file
/// while opening, so this comes first.
fn summary(paths: &Paths, counted: &Tally) -> Option<Loaded> {
    let loaded = FileLook::at(&paths.database).and_then(|look| Summary::load(&paths.summary, look));
    match loaded {
        Ok(loaded) => loaded.filter(|loaded| loaded.tally == *counted),
        Err(error) => {
            tracing::warn!(%error, "the bank's summary could not be read; the whole bank is read instead");
            None
        }
    }
}

/// Opens sled and reads everything once, as far as the summary does not say it already.
fn attempt(
    paths: &Paths,
    counted: u64,
    first: First,
    mut summary: Option<Loaded>,
) -> Result<(sled::Db, Scan), Failure> {
    let mut tries = 0;
    loop {
        let opened = catch_unwind(AssertUnwindSafe(|| {
            let db = open_sled(&paths.bank)?;
            if let Some(loaded) = summary.take() {
                if let Some(scan) = Scan::quick(&db, loaded)? {
                    return Ok((db, scan));
                }
                tracing::warn!("the bank's summary is of other values; the whole bank is read");
            }
            let fresh = Summary::create(&paths.summary);
            if let Err(error) = &fresh {
                tracing::warn!(%error, "the bank's summary cannot be written; the next opening reads the whole bank");
            }
            let scan = Scan::run(&db, counted, fresh.ok())?;
            Ok((db, scan))
        }));
        let error = match opened {
            Ok(Ok(opened)) => return Ok(opened),
            Ok(Err(error)) => error,
            Err(panic) => {
                let detail = panic_text(panic.as_ref());
                // sled also panics where the system refuses; then nothing is damaged.
                room_to_write(paths).map_err(Failure::System)?;
                return Err(Failure::Damage(detail));
            }
        };
        if is_lock_error(&error) && tries < LOCK_RETRIES {
            tries += 1;
            thread::sleep(LOCK_RETRY);
            continue;
        }
        if is_lock_error(&error) {
            return Err(match first {
                First::Yes => Failure::System(OpenError::Locked { dir: paths.dir.clone() }),
                // We hold the directory's lock, so it is an attempt of our own that panicked and kept sled's.
                First::No => Failure::Damage("an earlier attempt still holds the file".into()),
            });
        }
        return Err(classify(paths, error));
    }
}

/// sled with our settings. Background flushing is off: what is acknowledged is synced, and nothing else needs to be.
pub(crate) fn open_sled(path: &Path) -> Result<sled::Db, sled::Error> {
    sled::Config::new().path(path).cache_capacity(CACHE_BYTES).flush_every_ms(None).segment_size(SEGMENT_BYTES).open()
}

/// sled writes a snapshot file only when it opens. What came since is copied before each opening and replayed by it, so a
/// closing bank that has much of it opens sled once more.
pub(crate) fn keep_log_short(paths: &Paths) {
    match carve::unsummed_segments(paths) {
        Ok(segments) if segments > MAX_UNSUMMED_SEGMENTS => {}
        _ => return,
    }
    let opened = catch_unwind(AssertUnwindSafe(|| open_sled(&paths.bank).map(drop)));
    if !matches!(opened, Ok(Ok(()))) {
        tracing::warn!("sled's log could not be summed up while closing; the next opening takes longer");
    }
}

pub(crate) fn is_lock_error(error: &sled::Error) -> bool {
    matches!(error, sled::Error::Io(e) if e.to_string().contains("could not acquire lock"))
}

fn classify(paths: &Paths, error: sled::Error) -> Failure {
    match error {
        // What sled makes of a missing or short file; all others come from the system.
        sled::Error::Io(e)
            if matches!(
                e.kind(),
                io::ErrorKind::NotFound
                    | io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::InvalidData
                    | io::ErrorKind::InvalidInput
            ) || e.raw_os_error().is_none() =>
        {
            Failure::Damage(e.to_string())
        }
        sled::Error::Io(e) => Failure::System(open_io("open", &paths.bank, e)),
        other => Failure::Damage(sled_text(&other)),
    }
}

/// Bytes free on the disk of the data directory.
pub(crate) fn room(paths: &Paths) -> Result<u64, OpenError> {
    let disk = rustix::fs::statvfs(&paths.dir).map_err(|e| open_io("look at the disk of", &paths.dir, e.into()))?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Whether there is room enough for sled to go on after the disk was full.
pub(crate) fn room_to_go_on(paths: &Paths) -> Result<(), OpenError> {
    if room(paths)? < ROOM_TO_GO_ON_BYTES {
        return Err(OpenError::DiskFull { path: paths.dir.clone() });
    }
    room_to_write(paths)
}

/// Whether the directory can be written at all: a megabyte, synced, and gone again.
fn room_to_write(paths: &Paths) -> Result<(), OpenError> {
    let probe = paths.dir.join("bank.probe");
    let tried = fs::write(&probe, vec![0x5a; 1 << 20]).and_then(|()| File::open(&probe)?.sync_all());
    let removed = fs::remove_file(&probe);
    tried.and(removed).map_err(|e| open_io("write", &probe, e))
}

/// The names of files that sled renamed or made are durable before anything is built on them.
fn sync_names(paths: &Paths) -> Result<(), OpenError> {
    let sync = |path: &Path| sync_parent(path).map_err(|e| open_io("sync the directory of", path, e));
    sync(&paths.database)?;
    sync(&paths.bank)?;
    // sled writes this one without a sync, and refuses to open without it if it is torn.
    let conf = paths.bank.join("conf");
    File::open(&conf).and_then(|f| f.sync_all()).map_err(|e| open_io("sync", &conf, e))
}

/// A rebuild or rewrite that was cut short either had not taken its place yet, then it starts again, or only had to be renamed.
fn finish_interrupted(paths: &Paths, steps: &mut Vec<String>) -> Result<(), OpenError> {
    let remove = |path: &Path| match fs::remove_dir_all(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(open_io("remove", path, e)),
        _ => Ok(()),
    };
    if paths.rebuild.exists() && !paths.bank.exists() {
        fs::rename(&paths.rebuild, &paths.bank).map_err(|e| open_io("rename", &paths.rebuild, e))?;
        sync_parent(&paths.bank).map_err(|e| open_io("sync the directory of", &paths.bank, e))?;
        steps.push("a rebuild that was interrupted at its last step was finished".into());
    } else {
        remove(&paths.rebuild)?;
    }
    if paths.bank.exists() {
        remove(&paths.old)?;
    } else if paths.old.exists() {
        // The first name of the two was durable and the copy's was not; the database under it is whole.
        fs::rename(&paths.old, &paths.bank).map_err(|e| open_io("rename", &paths.old, e))?;
        steps.push("a rewrite that was interrupted was taken back".into());
    }
    Ok(())
}

/// sled leaves `snap.*.generating` behind when it is stopped in between, and then refuses to open.
fn drop_leftovers(paths: &Paths, steps: &mut Vec<String>) -> Result<(), OpenError> {
    for path in snapshots(&paths.bank)?.into_iter().filter(|p| p.extension().is_some_and(|e| e == "generating")) {
        fs::remove_file(&path).map_err(|e| open_io("remove", &path, e))?;
        steps.push("an unfinished snapshot file was removed".into());
    }
    Ok(())
}

/// sled's snapshot files, oldest first.
fn snapshots(bank: &Path) -> Result<Vec<PathBuf>, OpenError> {
    let read = || -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(bank)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with("snap.") {
                found.push(entry.path());
            }
        }
        found.sort();
        Ok(found)
    };
    read().map_err(|e| open_io("list", bank, e))
}

fn put_snapshots_aside(paths: &Paths, steps: &mut Vec<String>) -> Result<(), OpenError> {
    for path in snapshots(&paths.bank)? {
        let Some(name) = path.file_name() else { continue };
        let aside = paths.dir.join(format!("bank.{}.aside", name.to_string_lossy()));
        fs::rename(&path, &aside).map_err(|e| open_io("move aside", &path, e))?;
        steps.push(format!("the snapshot file was moved to {}", aside.display()));
    }
    Ok(())
}

/// Keeps the bytes of damaged values in files, before they are taken out of the database.
pub(crate) fn quarantine(
    paths: &Paths,
    session: u64,
    read: impl Fn(&[u8]) -> Option<Vec<u8>>,
    damaged: &[Damaged],
) -> Result<PathBuf, OpenError> {
    let dir = paths.quarantine.join(session.to_string());
    fs::create_dir_all(&dir).map_err(|e| open_io("create", &dir, e))?;
    let keys: BTreeSet<&Vec<u8>> = damaged.iter().flat_map(|d| &d.raw_keys).collect();
    for key in keys {
        // A key that sled cannot read any more has no bytes to keep.
        if let Some(bytes) = read(key) {
            let name: String = key.iter().take(64).map(|b| format!("{b:02x}")).collect();
            let path = dir.join(name);
            fs::write(&path, &bytes)
                .and_then(|()| File::open(&path)?.sync_all())
                .map_err(|e| open_io("write", &path, e))?;
        }
    }
    Ok(dir)
}
