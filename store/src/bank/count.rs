//! The count file: how many values the bank held when it was last synced, so that a database that opens but silently
//! lacks some is noticed.
//!
//! sled opens a file cut by one per cent without a word. The count lies beside it, in two slots written in turn, each
//! with its own hash, so that a torn write leaves the other. It is written after each synced group and itself synced
//! once in a while: a count that is behind the bank is no alarm, one that is ahead is.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    os::unix::fs::FileExt,
    path::Path,
    time::{Duration, Instant},
};

use crate::frame::Tree;

/// Each slot has a disk page of its own.
const SLOT_BYTES: u64 = 4096;
const MAGIC: &[u8; 8] = b"FLCOUNT\x01";
const BODY_BYTES: usize = 8 + 8 + 8 + 8 + 8 + 8 + 32;
const HASH_KEY: &[u8; 32] = b"folklore 2026 bank count v1\0\0\0\0\0";
/// The count itself is synced at most this far behind the bank.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// How many values there are with arrival numbers below `next_arrival`, and a digest of which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    pub next_arrival: u64,
    pub items: u64,
    digest: [u64; 4],
}

impl Tally {
    /// Of nothing yet, to be compared with a count up to `next_arrival`.
    pub fn below(next_arrival: u64) -> Self {
        Self { next_arrival, ..Self::default() }
    }

    /// Adds a value. The order does not matter.
    pub fn add(&mut self, tree: Tree, arrival: u64, identity: &[u8; 32]) {
        let mut hasher = blake3::Hasher::new_keyed(HASH_KEY);
        hasher.update(&[tree.letter()]).update(&arrival.to_le_bytes()).update(identity);
        for (lane, bytes) in self.digest.iter_mut().zip(hasher.finalize().as_bytes().chunks_exact(8)) {
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            *lane = lane.wrapping_add(u64::from_le_bytes(word));
        }
        self.items += 1;
    }

    /// Whether both are of the same values.
    pub fn same_values(&self, other: &Self) -> bool {
        (self.items, self.digest) == (other.items, other.digest)
    }

    /// Bytes of a tally where it is written down beside the count.
    pub const BYTES: usize = 8 + 8 + 32;

    /// Its words, little-endian.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        let words = [self.next_arrival, self.items].into_iter().chain(self.digest);
        out.chunks_exact_mut(8).zip(words).for_each(|(slot, word)| slot.copy_from_slice(&word.to_le_bytes()));
        out
    }

    /// Reads what [`Tally::to_bytes`] wrote.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let mut words = bytes.chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().unwrap_or_default()));
        let mut next = || words.next().unwrap_or(0);
        Self { next_arrival: next(), items: next(), digest: [next(), next(), next(), next()] }
    }

    /// Adds the values of another tally, none of which is in this one.
    pub fn merge(&mut self, other: &Self) {
        for (lane, word) in self.digest.iter_mut().zip(other.digest) {
            *lane = lane.wrapping_add(word);
        }
        self.items += other.items;
    }
}

/// What a slot says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Count {
    /// Counts the openings of the bank; the upper half of generations.
    pub session: u64,
    /// Counts the writes of this file; set by [`CountFile::write`].
    pub turn: u64,
    /// No own record was ever numbered at or above this.
    pub seq_bound: u64,
    pub tally: Tally,
}

impl Count {
    fn to_bytes(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(BODY_BYTES + 32);
        out.extend_from_slice(MAGIC);
        for n in [self.session, self.turn, self.seq_bound, self.tally.next_arrival, self.tally.items] {
            out.extend_from_slice(&n.to_le_bytes());
        }
        for lane in self.tally.digest {
            out.extend_from_slice(&lane.to_le_bytes());
        }
        let hash = blake3::keyed_hash(HASH_KEY, &out);
        out.extend_from_slice(hash.as_bytes());
        out
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let body = bytes.get(..BODY_BYTES)?;
        let hash = bytes.get(BODY_BYTES..BODY_BYTES + 32)?;
        if !body.starts_with(MAGIC) || blake3::keyed_hash(HASH_KEY, body).as_bytes() != hash {
            return None;
        }
        let mut words = body[8..].chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().unwrap_or_default()));
        let mut next = || words.next().unwrap_or(0);
        Some(Self {
            session: next(),
            turn: next(),
            seq_bound: next(),
            tally: Tally { next_arrival: next(), items: next(), digest: [next(), next(), next(), next()] },
        })
    }
}

/// The count file, open.
#[derive(Debug)]
pub(crate) struct CountFile {
    file: File,
    last: Count,
    synced: Instant,
    dirty: bool,
}

/// What the count file said when it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// There was none.
    Absent,
    /// There was one, and neither slot is good.
    Damaged,
    /// The newer good slot.
    Count(Count),
}

impl CountFile {
    /// Opens or creates the file and reads the newer of its good slots.
    pub fn open(path: &Path) -> io::Result<(Self, Found)> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let mut bytes = Vec::new();
        Read::by_ref(&mut file).take(2 * SLOT_BYTES).read_to_end(&mut bytes)?;
        let slots = [bytes.as_slice(), bytes.get(SLOT_BYTES as usize..).unwrap_or_default()];
        let found = match slots.into_iter().filter_map(Count::from_bytes).max_by_key(|c| c.turn) {
            Some(count) => Found::Count(count),
            None if bytes.is_empty() => Found::Absent,
            None => Found::Damaged,
        };
        let last = if let Found::Count(count) = found { count } else { Count::default() };
        Ok((Self { file, last, synced: Instant::now(), dirty: false }, found))
    }

    /// Writes a new count into the older slot. Call only after what it counts is synced.
    pub fn write(&mut self, count: Count, sync: bool) -> io::Result<()> {
        let count = Count { turn: self.last.turn + 1, ..count };
        self.file.write_all_at(&count.to_bytes(), count.turn % 2 * SLOT_BYTES)?;
        self.last = count;
        self.dirty = true;
        if sync || self.synced.elapsed() >= SYNC_EVERY {
            self.sync()?;
        }
        Ok(())
    }

    /// Makes what was written durable.
    pub fn sync(&mut self) -> io::Result<()> {
        if self.dirty {
            self.file.sync_data()?;
            self.dirty = false;
        }
        self.synced = Instant::now();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(items: u64) -> Count {
        let mut tally = Tally { next_arrival: items, ..Tally::default() };
        (0..items).for_each(|n| tally.add(Tree::Record, n, &[n as u8; 32]));
        Count { session: 3, seq_bound: 9, tally, ..Count::default() }
    }

    #[test]
    fn a_torn_slot_leaves_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("count");
        let (mut file, found) = CountFile::open(&path).unwrap();
        assert_eq!(found, Found::Absent);
        for items in 1..6 {
            file.write(count(items), true).unwrap();
            let Found::Count(read) = CountFile::open(&path).unwrap().1 else { panic!("no count") };
            assert_eq!((read.tally, read.session, read.seq_bound), (count(items).tally, 3, 9));
        }
        let turn = CountFile::open(&path).unwrap().0.last.turn;
        file.file.write_all_at(&[0xee; 20], turn % 2 * SLOT_BYTES + 40).unwrap();
        let Found::Count(read) = CountFile::open(&path).unwrap().1 else { panic!("no count") };
        assert_eq!(read.tally.items, 4);
        file.file.write_all_at(&[0xee; 20], (turn + 1) % 2 * SLOT_BYTES + 40).unwrap();
        assert_eq!(CountFile::open(&path).unwrap().1, Found::Damaged);
    }

    #[test]
    fn the_digest_tells_which_values_and_not_in_which_order() {
        let (mut a, mut b, mut c) = (Tally::default(), Tally::default(), Tally::default());
        a.add(Tree::Record, 1, &[1; 32]);
        a.add(Tree::Lesson, 2, &[2; 32]);
        b.add(Tree::Lesson, 2, &[2; 32]);
        b.add(Tree::Record, 1, &[1; 32]);
        c.add(Tree::Record, 1, &[1; 32]);
        c.add(Tree::Lesson, 3, &[2; 32]);
        assert_eq!(a, b);
        assert_ne!(a, c);
    }
}
