//! The summary file: the facts of all values, so that a bank that was closed in good order opens without decoding them.
//!
//! Facts are appended as groups become durable, unsynced, in blocks whose hashes are chained. Closing adds a last block with
//! the tally and with what the database file looks like then. Opening believes the file only if that last block is there,
//! its tally is the count file's, the database file is still the one that was closed, and a walk over the database meets
//! exactly the values that the facts name. Else everything is read and the file is written anew: it is never needed.
//!
//! ```text
//!  0  magic  8     then blocks: length 4 (little-endian), BLAKE3 32 (keyed, over the hash before and the bytes), bytes
//! ```

use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions},
    io::{self, Seek, SeekFrom, Write},
    os::unix::fs::MetadataExt,
    path::Path,
};

use folklore_protocol::{
    bank::BankId,
    claim::{Outcome, RunDigest},
    identity::AuthorId,
    lesson::LessonId,
    record::RecordId,
};

use super::{
    count::Tally,
    facts::{Fact, RecordFact},
    index::RunRef,
};
use crate::{frame::Tree, runs::MAX_TASK_KEY_BYTES};

const MAGIC: &[u8; 8] = b"FLSUMRY\x01";
const HASH_KEY: &[u8; 32] = b"folklore 2026 bank summary v1\0\0\0";
const BLOCK_HEAD_BYTES: usize = 4 + 32;
/// Facts are written in blocks of about this size.
const BLOCK_BYTES: usize = 64 * 1024;

/// What a database file looks like to the file system. Anything that writes to it, or takes its place, changes that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileLook {
    ino: u64,
    len: u64,
    changed_s: i64,
    changed_ns: i64,
}

impl FileLook {
    pub fn at(path: &Path) -> io::Result<Self> {
        let meta = fs::metadata(path)?;
        Ok(Self { ino: meta.ino(), len: meta.len(), changed_s: meta.mtime(), changed_ns: meta.mtime_nsec() })
    }
}

/// What the last block says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Closed {
    tally: Tally,
    look: FileLook,
}

/// Appends facts. Whatever goes wrong, the file is given up and not the bank.
#[derive(Debug)]
pub(crate) struct Summary {
    file: File,
    chain: [u8; 32],
    pending: Vec<u8>,
    names: Names,
    failed: bool,
}

/// Banks and authors by number.
#[derive(Debug, Default)]
struct Names {
    banks: HashMap<BankId, u32>,
    authors: HashMap<AuthorId, u32>,
    /// The lesson named last, which the record behind a body names too.
    last: Option<LessonId>,
}

/// A file that was closed in good order, its hashes checked. What it says is read out of the bytes one by one: as values in
/// memory the facts of a million records would take three times as much.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub tally: Tally,
    bytes: Vec<u8>,
    /// Where the last block of facts ends.
    end: usize,
    chain: [u8; 32],
    file: File,
}

impl Loaded {
    /// About how many records it speaks of: with their bodies they take a hundred bytes each.
    pub fn about(&self) -> usize {
        self.bytes.len() / 100
    }

    /// Calls `f` with each fact, in order. Returns the file, ready to go on behind the last one; `None` if it makes no sense.
    pub fn read(self, mut f: impl FnMut(Fact)) -> Option<Summary> {
        let reading = Reading::of(&self.bytes, self.end, &mut f)?;
        Some(Summary { file: self.file, chain: self.chain, pending: Vec::new(), names: reading.names, failed: false })
    }
}

impl Summary {
    /// Begins a file anew.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        file.write_all(MAGIC)?;
        Ok(Self { file, chain: *HASH_KEY, pending: Vec::new(), names: Names::default(), failed: false })
    }

    /// Reads a file, if it was closed in good order for a database that looks like `look`. It is open again afterwards.
    pub fn load(path: &Path, look: FileLook) -> io::Result<Option<Loaded>> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        let Some((end, chain, closed)) = check(&bytes).filter(|(_, _, closed)| closed.look == look) else {
            return Ok(None);
        };
        let mut file = OpenOptions::new().read(true).write(true).open(path)?;
        // From here on it is a file that was not closed.
        file.set_len(end as u64)?;
        file.seek(SeekFrom::End(0))?;
        Ok(Some(Loaded { tally: closed.tally, bytes, end, chain, file }))
    }

    /// Adds a fact.
    pub fn add(&mut self, fact: &Fact) {
        if self.failed {
            return;
        }
        self.names.write(fact, &mut self.pending);
        if self.pending.len() >= BLOCK_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let body = std::mem::take(&mut self.pending);
        if body.is_empty() || self.failed {
            return;
        }
        self.chain = link(&self.chain, &body);
        let mut block = Vec::with_capacity(BLOCK_HEAD_BYTES + body.len());
        block.extend_from_slice(&(body.len() as u32).to_le_bytes());
        block.extend_from_slice(&self.chain);
        block.extend_from_slice(&body);
        if let Err(error) = self.file.write_all(&block) {
            tracing::warn!(%error, "the bank's summary could not be written; the next opening reads the whole bank");
            self.failed = true;
        }
    }

    /// Says that the database, closed, looks like this and holds this. Durable when it returns.
    pub fn close(mut self, tally: &Tally, look: FileLook) -> io::Result<()> {
        self.flush();
        self.pending = vec![tag::CLOSED];
        self.pending.extend_from_slice(&tally.to_bytes());
        for word in [look.ino, look.len, look.changed_s as u64, look.changed_ns as u64] {
            self.pending.extend_from_slice(&word.to_le_bytes());
        }
        self.flush();
        if self.failed { Ok(()) } else { self.file.sync_data() }
    }
}

fn link(chain: &[u8; 32], body: &[u8]) -> [u8; 32] {
    *blake3::Hasher::new_keyed(HASH_KEY).update(chain).update(body).finalize().as_bytes()
}

mod tag {
    pub const PACK: u8 = 1;
    pub const BANK: u8 = 2;
    pub const AUTHOR: u8 = 3;
    pub const RECORD: u8 = 4;
    pub const LESSON: u8 = 5;
    pub const ERASED: u8 = 6;
    pub const RUN: u8 = 7;
    pub const CLOSED: u8 = 8;
}

/// What a record says of a lesson.
mod word {
    pub const NONE: u8 = 0;
    pub const WITHDRAWS: u8 = 1;
    pub const TEACHES: u8 = 2;
    pub const TEACHES_LAST: u8 = 3;
}

impl Names {
    fn write(&mut self, fact: &Fact, out: &mut Vec<u8>) {
        match fact {
            Fact::Pack(first) => {
                out.push(tag::PACK);
                out.extend_from_slice(&first.to_le_bytes());
            }
            Fact::Record(arrival, record) => {
                let bank = number(&mut self.banks, record.bank, tag::BANK, &record.bank.0, out);
                let author = number(&mut self.authors, record.author, tag::AUTHOR, &record.author.0, out);
                out.push(tag::RECORD);
                out.extend_from_slice(&arrival.to_le_bytes());
                out.extend_from_slice(&record.id.0);
                out.extend_from_slice(&bank.to_le_bytes());
                out.extend_from_slice(&author.to_le_bytes());
                out.extend_from_slice(&record.seq.to_le_bytes());
                match record.word {
                    None => out.push(word::NONE),
                    Some((lesson, true)) if self.last == Some(lesson) => out.push(word::TEACHES_LAST),
                    Some((lesson, taught)) => {
                        out.push(if taught { word::TEACHES } else { word::WITHDRAWS });
                        out.extend_from_slice(&lesson.0);
                    }
                }
            }
            Fact::Lesson(arrival, id) => {
                self.last = Some(*id);
                out.push(tag::LESSON);
                out.extend_from_slice(&arrival.to_le_bytes());
                out.extend_from_slice(&id.0);
            }
            Fact::Erased(tree, arrival, identity) => {
                out.extend_from_slice(&[tag::ERASED, tree.letter()]);
                out.extend_from_slice(&arrival.to_le_bytes());
                out.extend_from_slice(identity);
            }
            Fact::Run(digest, task_key, run) => {
                let outcome = match run.outcome {
                    Outcome::Unknown => 0,
                    Outcome::Success => 1,
                    Outcome::Failure => 2,
                    Outcome::Partial => 3,
                };
                out.push(tag::RUN);
                out.extend_from_slice(digest);
                out.extend_from_slice(&run.arrival.to_le_bytes());
                out.extend_from_slice(&run.generation.to_le_bytes());
                out.push(outcome);
                out.extend_from_slice(&run.parts.to_le_bytes());
                out.extend_from_slice(&(task_key.len() as u16).to_le_bytes());
                out.extend_from_slice(task_key.as_bytes());
            }
        }
    }
}

/// The number of a bank or author, given out, and written down, at first sight.
fn number<K: std::hash::Hash + Eq>(
    known: &mut HashMap<K, u32>,
    key: K,
    tag: u8,
    bytes: &[u8; 32],
    out: &mut Vec<u8>,
) -> u32 {
    let next = known.len() as u32;
    *known.entry(key).or_insert_with(|| {
        out.push(tag);
        out.extend_from_slice(bytes);
        next
    })
}

/// Reads fields off the front of bytes.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn block(&mut self) -> Option<Block<'a>> {
        let len = self.u32()? as usize;
        let hash = self.array()?;
        Some(Block { hash, body: self.bytes(len)? })
    }

    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (field, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(field)
    }
}

/// A block, its hash not checked.
struct Block<'a> {
    hash: [u8; 32],
    body: &'a [u8],
}

/// Where the facts end, the hash there, and the last block, if every block is good, that is the last one, and nothing follows.
fn check(bytes: &[u8]) -> Option<(usize, [u8; 32], Closed)> {
    let mut rest = Fields(bytes.strip_prefix(MAGIC)?);
    let mut chain = *HASH_KEY;
    loop {
        let end = bytes.len() - rest.0.len();
        let Block { hash, body } = rest.block()?;
        let before = chain;
        chain = link(&chain, body);
        if chain != hash {
            return None;
        }
        if rest.0.is_empty() {
            return Some((end, before, Closed::of(body)?));
        }
    }
}

impl Closed {
    fn of(body: &[u8]) -> Option<Self> {
        let mut fields = Fields(body);
        if fields.byte()? != tag::CLOSED {
            return None;
        }
        let tally = Tally::from_bytes(&fields.array()?);
        let (ino, len) = (fields.u64()?, fields.u64()?);
        let (changed_s, changed_ns) = (fields.u64()? as i64, fields.u64()? as i64);
        Some(Self { tally, look: FileLook { ino, len, changed_s, changed_ns } })
    }
}

/// What was named so far.
#[derive(Default)]
struct Reading {
    names: Names,
    banks: Vec<BankId>,
    authors: Vec<AuthorId>,
}

impl Reading {
    /// Reads the blocks of a file that was checked, up to `end`.
    fn of(bytes: &[u8], end: usize, f: &mut impl FnMut(Fact)) -> Option<Self> {
        let mut reading = Self::default();
        let mut rest = Fields(bytes.get(MAGIC.len()..end)?);
        while let Some(block) = rest.block() {
            reading.facts(block.body, f)?;
        }
        Some(reading)
    }

    fn facts(&mut self, body: &[u8], f: &mut impl FnMut(Fact)) -> Option<()> {
        let mut fields = Fields(body);
        while let Some(tag) = fields.byte() {
            match tag {
                tag::PACK => f(Fact::Pack(fields.u64()?)),
                tag::BANK => {
                    let bank = BankId(fields.array()?);
                    self.names.banks.insert(bank, self.banks.len() as u32);
                    self.banks.push(bank);
                }
                tag::AUTHOR => {
                    let author = AuthorId(fields.array()?);
                    self.names.authors.insert(author, self.authors.len() as u32);
                    self.authors.push(author);
                }
                tag::RECORD => {
                    let (arrival, id) = (fields.u64()?, RecordId(fields.array()?));
                    let bank = *self.banks.get(fields.u32()? as usize)?;
                    let author = *self.authors.get(fields.u32()? as usize)?;
                    let seq = fields.u64()?;
                    let word = match fields.byte()? {
                        word::NONE => None,
                        word::WITHDRAWS => Some((LessonId(fields.array()?), false)),
                        word::TEACHES => Some((LessonId(fields.array()?), true)),
                        word::TEACHES_LAST => Some((self.names.last?, true)),
                        _ => return None,
                    };
                    f(Fact::Record(arrival, RecordFact { id, bank, author, seq, word }));
                }
                tag::LESSON => {
                    let (arrival, id) = (fields.u64()?, LessonId(fields.array()?));
                    self.names.last = Some(id);
                    f(Fact::Lesson(arrival, id));
                }
                tag::ERASED => {
                    let tree = Tree::from_letter(fields.byte()?)?;
                    f(Fact::Erased(tree, fields.u64()?, fields.array()?));
                }
                tag::RUN => {
                    let digest: RunDigest = fields.array()?;
                    let (arrival, generation) = (fields.u64()?, fields.u64()?);
                    let outcome = match fields.byte()? {
                        0 => Outcome::Unknown,
                        1 => Outcome::Success,
                        2 => Outcome::Failure,
                        3 => Outcome::Partial,
                        _ => return None,
                    };
                    let (parts, len) = (fields.u16()?, usize::from(fields.u16()?));
                    if len > MAX_TASK_KEY_BYTES {
                        return None;
                    }
                    let task_key = String::from_utf8(fields.bytes(len)?.to_vec()).ok()?;
                    f(Fact::Run(digest, task_key, RunRef { arrival, generation, outcome, parts }));
                }
                _ => return None,
            }
        }
        Some(())
    }
}

/// The facts of a whole file, as they would be written now; `None` if it is not believed.
pub(crate) fn reread(bytes: &[u8]) -> Option<Vec<u8>> {
    let (end, ..) = check(bytes)?;
    let (mut names, mut out) = (Names::default(), Vec::new());
    Reading::of(bytes, end, &mut |fact| names.write(&fact, &mut out))?;
    Some(out)
}

/// The same of one block alone.
pub(crate) fn reread_block(body: &[u8]) -> Option<Vec<u8>> {
    let (mut names, mut out) = (Names::default(), Vec::new());
    Reading::default().facts(body, &mut |fact| names.write(&fact, &mut out))?;
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(from: u64) -> Vec<Fact> {
        let lesson = |n: u64| LessonId(*blake3::hash(&n.to_le_bytes()).as_bytes());
        let record = |n: u64, word| RecordFact {
            id: RecordId([n as u8; 32]),
            bank: BankId([(n % 2) as u8; 32]),
            author: AuthorId([(n % 3) as u8; 32]),
            seq: n,
            word,
        };
        let run = RunRef { arrival: from + 5, generation: 1 << 32, outcome: Outcome::Partial, parts: 3 };
        vec![
            Fact::Pack(from),
            Fact::Lesson(from, lesson(from)),
            Fact::Record(from + 1, record(from + 1, Some((lesson(from), true)))),
            Fact::Record(from + 2, record(from + 2, Some((lesson(from), false)))),
            Fact::Record(from + 3, record(from + 3, None)),
            Fact::Erased(Tree::Lesson, from + 4, [7; 32]),
            Fact::Run([9; 32], "a task".into(), run),
        ]
    }

    fn look() -> FileLook {
        FileLook { ino: 1, len: 2, changed_s: 3, changed_ns: 4 }
    }

    #[test]
    fn facts_come_back_over_several_closings() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("summary");
        let mut summary = Summary::create(&path).unwrap();
        let mut all = Vec::new();
        for round in 0..4u64 {
            for n in 0..500 {
                let new = facts((round * 500 + n) * 10);
                new.iter().for_each(|fact| summary.add(fact));
                all.extend(new);
            }
            let tally = Tally::below(round);
            summary.close(&tally, look()).unwrap();
            let loaded = Summary::load(&path, look()).unwrap().unwrap();
            assert_eq!(loaded.tally, tally);
            let mut read = Vec::new();
            summary = loaded.read(|fact| read.push(fact)).unwrap();
            assert_eq!(read, all);
        }
    }

    #[test]
    fn a_file_that_was_not_closed_or_is_damaged_or_of_another_database_is_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("summary");
        assert!(Summary::load(&path, look()).unwrap().is_none());
        let mut summary = Summary::create(&path).unwrap();
        facts(0).iter().for_each(|fact| summary.add(fact));
        summary.flush();
        assert!(Summary::load(&path, look()).unwrap().is_none(), "open");
        summary.close(&Tally::default(), look()).unwrap();
        let good = fs::read(&path).unwrap();
        assert!(Summary::load(&path, FileLook { len: 9, ..look() }).unwrap().is_none(), "another database");
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            fs::write(&path, bad).unwrap();
            assert!(Summary::load(&path, look()).unwrap().is_none(), "byte {at}");
            fs::write(&path, &good[..at]).unwrap();
            assert!(Summary::load(&path, look()).unwrap().is_none(), "cut at {at}");
        }
        fs::write(&path, &good).unwrap();
        // Reading it opens it, and then it is not closed any more.
        assert!(Summary::load(&path, look()).unwrap().is_some());
        assert!(Summary::load(&path, look()).unwrap().is_none());
    }
}
