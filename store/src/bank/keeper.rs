//! The keeper: the bank's own thread. It takes writes again after a disk was full, and has the database rewritten when too
//! much of its file is waste, or when text that was forgotten is still in it.

use std::{
    fs::File,
    sync::{Arc, Condvar, Mutex, PoisonError, atomic::Ordering},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use super::{Store, count::Found, queue::Base};
use crate::recover;

/// How often the keeper looks round.
const ROUND: Duration = Duration::from_secs(2);
/// First pause before writing is tried again after a failure, and the longest; it doubles in between.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// After a rewrite that came to nothing the next one waits.
const REWRITE_PAUSE: Duration = Duration::from_secs(600);

/// How the bank's files are kept, for an operator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Upkeep {
    /// Bytes of the database file.
    pub file_bytes: u64,
    /// Bytes of the values in it, runs rounded up to whole parts after a quick opening.
    pub live_bytes: u64,
    /// Rewrites into a fresh database since the bank was opened.
    pub rewrites: u32,
    /// Whether one is under way.
    pub rewriting: bool,
    /// Why the last rewrite came to nothing.
    pub rewrite_failed: Option<String>,
    /// Times that writing was taken up again after it had stopped.
    pub resumed: u32,
    /// Why the last attempt to take up writing failed.
    pub resume_failed: Option<String>,
}

/// The running thread; dropping it ends it.
#[derive(Debug)]
pub(super) struct Keeper {
    signal: Arc<Signal>,
    store: Arc<super::Inner>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Signal {
    stop: Mutex<bool>,
    wake: Condvar,
}

impl Keeper {
    /// Starts the thread over a store without a keeper of its own.
    pub fn start(store: Store) -> std::io::Result<Self> {
        let signal = Arc::new(Signal::default());
        let (seen, inner) = (signal.clone(), store.0.clone());
        let thread = thread::Builder::new().name("bank-keeper".into()).spawn(move || run(&store, &seen))?;
        Ok(Self { signal, store: inner, thread: Mutex::new(Some(thread)) })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.store.closing.store(true, Ordering::Relaxed);
        *self.signal.stop.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.signal.wake.notify_all();
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take()
            && thread.join().is_err()
        {
            tracing::error!("the bank's keeper ended with a panic");
        }
    }
}

fn run(store: &Store, signal: &Signal) {
    let (mut retry, mut retry_at) = (FIRST_RETRY, None);
    let mut no_rewrite_before = Instant::now();
    loop {
        {
            let stop = signal.stop.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = signal.wake.wait_timeout_while(stop, ROUND.min(retry), |stop| !*stop);
            if *waited.unwrap_or_else(PoisonError::into_inner).0 {
                return;
            }
        }
        if store.writable().is_err() {
            let now = Instant::now();
            if *retry_at.get_or_insert(now + retry) > now {
                continue;
            }
            match store.resume_writing() {
                Ok(()) => tracing::info!("the bank takes writes again"),
                Err(error) => {
                    retry = (retry * 2).min(LONGEST_RETRY);
                    retry_at = Some(Instant::now() + retry);
                    tracing::warn!(error, "the bank cannot take writes yet");
                    store.0.upkeep().resume_failed = Some(error);
                    continue;
                }
            }
        }
        (retry, retry_at) = (FIRST_RETRY, None);
        let owed = store.rewrite_owed().is_some();
        if (owed || store.wasteful()) && Instant::now() >= no_rewrite_before {
            // What a forgetting is rewriting just now is not owed any more once its turn is over.
            let done = if owed { store.rewrite_if_owed().map(|()| None) } else { store.rewrite().map(Some) };
            match done {
                Ok(Some(done)) => tracing::info!("the bank's database was rewritten: {done}"),
                Ok(None) => tracing::info!("the bank's database has no forgotten text any more"),
                Err(error) => {
                    no_rewrite_before = Instant::now() + REWRITE_PAUSE;
                    tracing::warn!(%error, "the bank's database could not be rewritten; it goes on as it is");
                }
            }
        }
    }
}

impl Store {
    /// How the bank's files are kept.
    pub fn upkeep(&self) -> Upkeep {
        let mut upkeep = self.0.upkeep().clone();
        upkeep.file_bytes = self.0.disk.file_bytes();
        upkeep.live_bytes = self.0.disk.live.load(Ordering::Relaxed);
        upkeep
    }

    /// Opens the database again after a write failed, if the disk has room now. sled takes nothing more after an error of the
    /// disk, so this is what a restart would do. Readers wait in between. What was acknowledged is there; of what was not,
    /// some may be.
    fn resume_writing(&self) -> Result<(), String> {
        let disk = &self.0.disk;
        recover::room_to_go_on(&disk.paths).map_err(|e| e.to_string())?;
        let _order = self.order();
        // Whoever waits has been told that it failed, or is being told now.
        let _pause = self.0.queue.pause();
        let mut count = disk.count.lock().unwrap_or_else(PoisonError::into_inner);
        let mut index = self.index_mut();
        let mut base = disk.base.write().unwrap_or_else(PoisonError::into_inner);
        let old = base.take();
        // sled may panic while it closes a file that failed it.
        drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(old))));
        let recovered = recover::open(&disk.paths, Found::Count(count.1)).map_err(|e| e.to_string())?;
        let mut scan = recovered.scan;
        let file = File::open(&disk.paths.database).map_err(|e| e.to_string())?;
        // What failed had numbers and a generation that must not come again.
        let session = self.0.session.load(Ordering::Relaxed).max(scan.session) + 1;
        count.1.session = session;
        count.1.tally = scan.tally;
        let counted = count.1;
        count.0.write(counted, true).map_err(|e| e.to_string())?;
        self.0.session.store(session, Ordering::Relaxed);
        *disk.summary() = scan.summary.take();
        disk.live.store(scan.bytes, Ordering::Relaxed);
        *index = scan.index;
        *base = Some(Base { db: recovered.db, file });
        let lost = recovered.lost > 0 || !scan.damaged.is_empty();
        index.notes.extend(recovered.steps);
        if lost {
            return Err("values are lost or damaged: restart, and opening repairs what it can".into());
        }
        disk.doubtful.store(false, Ordering::Relaxed);
        self.0.queue.resume(index.next_arrival);
        let mut upkeep = self.0.upkeep();
        upkeep.resumed += 1;
        upkeep.resume_failed = None;
        Ok(())
    }
}
