//! A file of sections: written once, checked whole when it is opened, and then mapped.
//!
//! ```text
//! magic 8 · sections, each aligned to 8 bytes, in chunks of 1 MiB from the file's start · table · trailer
//! table:   sections u32 · chunks u32 · (start u64 · end u64) a section · BLAKE3 32 a chunk, the last one to the table's start
//! trailer: where the table starts u64 · length of the file u64 · BLAKE3 32 of magic, table and these two
//! ```
//! Numbers are little-endian. The file is written beside, synced and renamed, so it is there as a whole or not at all; and
//! what a disk did to it since is found by the hashes of the chunks, which are computed on all cores.

use std::{
    fs::{self, File},
    io::{self, Write},
    ops::Range,
    path::{Path, PathBuf},
    thread,
};

use crate::raw::Map;

/// Bytes of a magic.
pub(crate) const MAGIC_BYTES: usize = 8;
/// Bytes that are hashed together: enough that a hash costs nothing beside them, few enough to be spread over cores.
const CHUNK_BYTES: usize = 1 << 20;
const HASH_BYTES: usize = 32;
const TRAILER_BYTES: usize = 8 + 8 + HASH_BYTES;
/// Every section starts at a multiple of this.
const ALIGN: usize = 8;
/// More sections than any file has.
const SECTIONS_MAX: usize = 64;

/// An open file of sections.
#[derive(Debug)]
pub(crate) struct Sections {
    bytes: Bytes,
    ranges: Vec<Range<usize>>,
}

#[derive(Debug)]
enum Bytes {
    Mapped(Map),
    Held(Vec<u8>),
}

impl Bytes {
    fn all(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map.bytes(),
            Bytes::Held(bytes) => bytes,
        }
    }
}

impl Sections {
    /// Opens a file of this magic. `None` if there is none, if it is of another kind, or if any byte of it is damaged.
    pub fn open(path: &Path, magic: &[u8; MAGIC_BYTES]) -> io::Result<Option<Self>> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let Ok(len) = usize::try_from(file.metadata()?.len()) else { return Ok(None) };
        let mut map = Map::empty();
        map.show(&file, len, len)?;
        let Some(ranges) = check(map.bytes(), magic) else { return Ok(None) };
        Ok(Some(Sections { bytes: Bytes::Mapped(map), ranges }))
    }

    /// A file as bytes in memory; `None` if it is of another kind, or damaged.
    pub fn of(bytes: Vec<u8>, magic: &[u8; MAGIC_BYTES]) -> Option<Self> {
        let ranges = check(&bytes, magic)?;
        Some(Sections { bytes: Bytes::Held(bytes), ranges })
    }

    /// What a file of these sections would be, with no hashes to keep out what makes no sense.
    pub fn held(sections: &[&[u8]]) -> Self {
        let ends = sections.iter().scan(0, |end, section| {
            let start = *end;
            *end += section.len();
            Some(start..*end)
        });
        Sections { ranges: ends.collect(), bytes: Bytes::Held(sections.concat()) }
    }

    /// Where each section is in the file.
    pub fn ranges(&self) -> &[Range<usize>] {
        &self.ranges
    }

    /// A section by its number; empty where there is none.
    pub fn get(&self, number: usize) -> &[u8] {
        self.ranges.get(number).and_then(|range| self.bytes.all().get(range.clone())).unwrap_or_default()
    }
}

/// Where the sections are, if all of the file is as it was written.
fn check(bytes: &[u8], magic: &[u8; MAGIC_BYTES]) -> Option<Vec<Range<usize>>> {
    let (rest, trailer) = bytes.split_last_chunk::<TRAILER_BYTES>()?;
    let (numbers, hash) = trailer.split_at_checked(16)?;
    let (table_at, len) = (number(numbers, 0)?, number(numbers, 8)?);
    if rest.get(..MAGIC_BYTES)? != magic || len != bytes.len() {
        return None;
    }
    let (body, table) = rest.split_at_checked(table_at)?;
    if trailer_hash(magic, table, numbers) != *hash {
        return None;
    }
    let counts = table.get(..8)?;
    let sections = u32::from_le_bytes(*counts.first_chunk()?) as usize;
    let chunks = u32::from_le_bytes(*counts.last_chunk()?) as usize;
    let hashes = table.get(8 + sections.checked_mul(16)?..)?;
    if sections > SECTIONS_MAX
        || chunks != body.len().div_ceil(CHUNK_BYTES)
        || hashes.len() != chunks.checked_mul(HASH_BYTES)?
    {
        return None;
    }
    let range = |at: usize| {
        let range = number(table, 8 + 16 * at)?..number(table, 16 + 16 * at)?;
        body.get(range.clone())?;
        Some(range)
    };
    let ranges: Option<Vec<_>> = (0..sections).map(range).collect();
    let good = |threads: usize, first: usize| {
        let chunks = body.chunks(CHUNK_BYTES).zip(hashes.as_chunks::<HASH_BYTES>().0).skip(first).step_by(threads);
        chunks.into_iter().all(|(chunk, hash)| blake3::hash(chunk).as_bytes() == hash)
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let whole = thread::scope(|scope| {
        let good = &good;
        let started: Vec<_> = (1..threads).map(|first| scope.spawn(move || good(threads, first))).collect();
        let first = good(threads, 0);
        started.into_iter().all(|thread| thread.join().unwrap_or(false)) && first
    });
    ranges.filter(|_| whole)
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?)).ok()
}

fn trailer_hash(magic: &[u8; MAGIC_BYTES], table: &[u8], numbers: &[u8]) -> [u8; HASH_BYTES] {
    *blake3::Hasher::new().update(magic).update(table).update(numbers).finalize().as_bytes()
}

/// Writes a file of sections, one section after the other.
#[derive(Debug)]
pub(crate) struct Writer {
    file: File,
    path: PathBuf,
    beside: PathBuf,
    magic: [u8; MAGIC_BYTES],
    /// The chunk that is not full yet.
    chunk: Vec<u8>,
    hashes: Vec<[u8; HASH_BYTES]>,
    ranges: Vec<Range<u64>>,
}

impl Writer {
    /// Begins a file beside `path`.
    pub fn create(path: &Path, magic: &[u8; MAGIC_BYTES]) -> io::Result<Self> {
        let beside = path.with_extension("new");
        let file = File::create(&beside)?;
        let (hashes, ranges) = (Vec::new(), Vec::new());
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        chunk.extend(magic);
        Ok(Writer { file, path: path.to_owned(), beside, magic: *magic, chunk, hashes, ranges })
    }

    fn at(&self) -> u64 {
        (self.hashes.len() * CHUNK_BYTES + self.chunk.len()) as u64
    }

    /// Begins the next section.
    pub fn section(&mut self) -> io::Result<()> {
        let gap = self.at().next_multiple_of(ALIGN as u64) - self.at();
        self.append([0; ALIGN].get(..gap as usize).unwrap_or_default())?;
        self.ranges.push(self.at()..self.at());
        Ok(())
    }

    /// Appends to the section that was begun last.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.append(bytes)?;
        let at = self.at();
        if let Some(range) = self.ranges.last_mut() {
            range.end = at;
        }
        Ok(())
    }

    fn append(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK_BYTES - self.chunk.len()));
            self.chunk.extend(now);
            bytes = later;
            if self.chunk.len() == CHUNK_BYTES {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all(&self.chunk)?;
        self.hashes.push(*blake3::hash(&self.chunk).as_bytes());
        self.chunk.clear();
        Ok(())
    }

    /// Ends the file and puts it in place, durably.
    pub fn finish(mut self) -> io::Result<()> {
        let table_at = self.at();
        if !self.chunk.is_empty() {
            self.flush()?;
        }
        let mut table = [self.ranges.len() as u32, self.hashes.len() as u32].map(u32::to_le_bytes).concat();
        table.extend(self.ranges.iter().flat_map(|range| [range.start, range.end]).flat_map(u64::to_le_bytes));
        table.extend(self.hashes.as_flattened());
        let len = table_at + (table.len() + TRAILER_BYTES) as u64;
        let numbers = [table_at, len].map(u64::to_le_bytes).concat();
        let hash = trailer_hash(&self.magic, &table, &numbers);
        self.file.write_all(&[&table[..], &numbers, &hash].concat())?;
        self.file.sync_all()?;
        fs::rename(&self.beside, &self.path)?;
        match self.path.parent() {
            Some(dir) => File::open(dir)?.sync_all(),
            None => Ok(()),
        }
    }
}

/// Reads fields of fixed size off the front of bytes.
pub(crate) fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAGIC: &[u8; 8] = b"FLTEST01";

    fn written(dir: &Path, sections: &[Vec<u8>]) -> PathBuf {
        let path = dir.join("file");
        let mut writer = Writer::create(&path, MAGIC).unwrap();
        for section in sections {
            writer.section().unwrap();
            section.chunks(1000).for_each(|piece| writer.write(piece).unwrap());
        }
        writer.finish().unwrap();
        path
    }

    #[test]
    fn sections_are_read_as_they_were_written_and_aligned() {
        let dir = tempfile::tempdir().unwrap();
        let sections = [vec![1u8; 3], vec![], vec![7; 3 * CHUNK_BYTES + 5], (0..=255).collect()];
        let path = written(dir.path(), &sections);
        let read = Sections::open(&path, MAGIC).unwrap().unwrap();
        for (number, section) in sections.iter().enumerate() {
            assert_eq!(read.get(number), section);
            assert!(read.ranges[number].start.is_multiple_of(ALIGN));
        }
        assert!(read.get(4).is_empty());
        assert!(Sections::open(&path, b"FLTEST02").unwrap().is_none());
        assert!(Sections::open(&dir.path().join("none"), MAGIC).unwrap().is_none());
    }

    #[test]
    fn a_file_that_is_damaged_or_cut_anywhere_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = written(dir.path(), &[vec![5; 40], vec![6; 9]]);
        let good = fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            fs::write(&path, &bad).unwrap();
            assert!(Sections::open(&path, MAGIC).unwrap().is_none(), "flipped at {at}");
            fs::write(&path, &good[..at]).unwrap();
            assert!(Sections::open(&path, MAGIC).unwrap().is_none(), "cut at {at}");
        }
        fs::write(&path, [&good[..], b"x"].concat()).unwrap();
        assert!(Sections::open(&path, MAGIC).unwrap().is_none());
    }

    #[test]
    fn a_file_that_was_not_finished_leaves_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = written(dir.path(), &[vec![5; 40]]);
        let mut writer = Writer::create(&path, MAGIC).unwrap();
        writer.section().unwrap();
        writer.write(&[9; 2 * CHUNK_BYTES]).unwrap();
        drop(writer);
        assert_eq!(Sections::open(&path, MAGIC).unwrap().unwrap().get(0), [5; 40]);
    }
}
