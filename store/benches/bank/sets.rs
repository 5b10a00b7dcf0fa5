//! Records and bodies from fixed numbers, and sled as a plain user of it has it.

use std::{fs::File, path::Path};

use folklore_protocol::{
    claim::{Claim, Evidence},
    lesson::Lesson,
    record::Record,
};
use folklore_store::bank::{Incoming, OpenOptions, Store};

pub use crate::made::{home, key, sized_lesson};

/// Content that makes a body of about 600 bytes.
const CONTENT_BYTES: usize = 550;
/// Records in a group.
pub const GROUP: u64 = 1000;
/// sled's settings in the bank, for its peer too.
const CACHE_BYTES: u64 = 32 * 1024 * 1024;

pub fn lesson(n: u64) -> Lesson {
    sized_lesson(u32::try_from(n).expect("not so many"), CONTENT_BYTES)
}

/// The n-th record of the other author, and its body.
pub fn incoming(n: u64) -> Incoming {
    let body = lesson(n);
    let claim = Claim::Taught { lesson_id: body.id(), evidence: Evidence::told("test") };
    let record = Record::sign(&key(2), home().id, n + 1, 1, claim).expect("within limits");
    Incoming { record, body: Some(body) }
}

/// One group, made by two threads: what is measured is not this.
pub fn group(from: u64) -> Vec<Incoming> {
    let half = GROUP / 2;
    std::thread::scope(|scope| {
        let first = scope.spawn(move || (from..from + half).map(incoming).collect::<Vec<_>>());
        let second: Vec<_> = (from + half..from + GROUP).map(incoming).collect();
        let mut all = first.join().expect("no panic");
        all.extend(second);
        all
    })
}

pub fn open(dir: &Path) -> Store {
    let opened = Store::open(dir, OpenOptions::default()).expect("opens");
    opened.store.add_bank(home()).expect("writes");
    opened.store
}

/// Seconds of all cores that this process has used: what an idle machine would need at most. To the hundredth, by `proc(5)`.
pub fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in brackets may hold anything; user and system time are the 12th and 13th fields behind it.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().skip(11).take(2);
    fields.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// sled alone, keys by arrival.
pub struct Bare {
    db: sled::Db,
    file: File,
    arrival: u64,
    /// Record and body in one value, or in one each.
    together: bool,
}

impl Bare {
    pub fn open(dir: &Path, segment_bytes: usize, together: bool) -> Self {
        let db = sled::Config::new()
            .path(dir)
            .cache_capacity(CACHE_BYTES)
            .flush_every_ms(None)
            .segment_size(segment_bytes)
            .open()
            .expect("opens");
        Self { db, file: File::open(dir.join("db")).expect("opens"), arrival: 0, together }
    }

    /// The bytes of a group, in one batch, one flush and one sync.
    pub fn write(&mut self, group: &[Incoming]) {
        let mut batch = sled::Batch::default();
        for Incoming { record, body } in group {
            let body = body.as_ref().map_or(&[][..], |body| &body.bytes()[..]);
            if self.together {
                batch.insert(&self.key(b'r'), [body, &record.bytes()[..]].concat());
            } else {
                batch.insert(&self.key(b'l'), body);
                batch.insert(&self.key(b'r'), &record.bytes()[..]);
            }
        }
        self.db.apply_batch(batch).expect("writes");
        self.db.flush().expect("flushes");
        self.file.sync_data().expect("syncs");
    }

    fn key(&mut self, tree: u8) -> [u8; 11] {
        self.arrival += 1;
        let mut key = [0; 11];
        key[0] = tree;
        key[1..9].copy_from_slice(&self.arrival.to_be_bytes());
        key
    }

    /// Every value, read once.
    pub fn read_all(&self) -> u64 {
        self.db.iter().map(|entry| entry.expect("reads").1.len() as u64).sum()
    }
}
