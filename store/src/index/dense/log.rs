//! The log: vectors of the block that is not full yet, and vectors that were found damaged, one frame each.
//!
//! ```text
//! frame: length of the payload u32 · payload · first 8 bytes of its BLAKE3
//! payload: 1 · vector number u32 · id 32 bytes · part u16 · of u16 · f32 × dim
//!          2 · vector number u32
//! ```
//! A frame is appended when its vector is added. A torn or damaged frame ends the log: what came after it is embedded
//! again. A frame whose vector is in a full block on disk already is passed over, so nothing depends on when the log is
//! emptied.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

use super::{block::Key, head::replace};
use crate::raw::as_bytes;

const CHECK_BYTES: usize = 8;
const VECTOR: u8 = 1;
const DAMAGED: u8 = 2;

/// What a frame says.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Entry {
    Vector { row: u32, key: Key, vector: Vec<f32> },
    Damaged { row: u32 },
}

impl Entry {
    /// The frame of a vector.
    pub fn vector_frame(row: u32, key: &Key, vector: &[f32]) -> Vec<u8> {
        let numbers = [key.part.to_le_bytes(), key.of.to_le_bytes()].concat();
        frame(&[&[VECTOR], &row.to_le_bytes(), &key.id, &numbers, as_bytes(vector)])
    }

    /// The frame that says that a vector is damaged.
    pub fn damaged_frame(row: u32) -> Vec<u8> {
        frame(&[&[DAMAGED], &row.to_le_bytes()])
    }

    fn decode(payload: &[u8], dim: usize) -> Option<Self> {
        let (kind, rest) = payload.split_first()?;
        let (row, rest) = rest.split_first_chunk::<4>()?;
        let row = u32::from_le_bytes(*row);
        if *kind == DAMAGED && rest.is_empty() {
            return Some(Entry::Damaged { row });
        }
        let (id, rest) = rest.split_first_chunk::<32>()?;
        let (part, rest) = rest.split_first_chunk::<2>()?;
        let (of, rest) = rest.split_first_chunk::<2>()?;
        let (numbers, after) = rest.as_chunks::<4>();
        let key = Key { id: *id, part: u16::from_le_bytes(*part), of: u16::from_le_bytes(*of) };
        let fits = *kind == VECTOR && numbers.len() == dim && after.is_empty();
        fits.then(|| Entry::Vector { row, key, vector: numbers.iter().map(|x| f32::from_le_bytes(*x)).collect() })
    }
}

fn frame(parts: &[&[u8]]) -> Vec<u8> {
    let payload = parts.concat();
    let check = blake3::hash(&payload);
    let check = check.as_bytes().get(..CHECK_BYTES).unwrap_or_default();
    [&(payload.len() as u32).to_le_bytes(), &payload[..], check].concat()
}

/// What a log says, up to the first frame that is not whole; and the bytes after that.
pub(super) fn read(path: &Path, dim: usize) -> io::Result<(Vec<Entry>, usize)> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        Err(error) => return Err(error),
    };
    Ok(entries(&bytes, dim))
}

fn entries(bytes: &[u8], dim: usize) -> (Vec<Entry>, usize) {
    let mut rest = bytes;
    let mut entries = Vec::new();
    while let Some((entry, after)) = next(rest, dim) {
        entries.push(entry);
        rest = after;
    }
    (entries, rest.len())
}

/// The frames of a log as they would be written now, and the bytes after those.
pub(crate) fn reread(bytes: &[u8], dim: usize) -> (Vec<u8>, usize) {
    let (entries, rest) = entries(bytes, dim);
    let frames = entries.iter().flat_map(|entry| match entry {
        Entry::Vector { row, key, vector } => Entry::vector_frame(*row, key, vector),
        Entry::Damaged { row } => Entry::damaged_frame(*row),
    });
    (frames.collect(), rest)
}

fn next(bytes: &[u8], dim: usize) -> Option<(Entry, &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    let (payload, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    let (check, rest) = rest.split_first_chunk::<CHECK_BYTES>()?;
    let whole = blake3::hash(payload).as_bytes().starts_with(check);
    Entry::decode(payload, dim).filter(|_| whole).map(|entry| (entry, rest))
}

/// The log, open for appending.
#[derive(Debug)]
pub(super) struct Log(File);

impl Log {
    /// Puts a log of these frames in place of the one that is there.
    pub fn start(path: &Path, frames: &[u8]) -> io::Result<Self> {
        replace(path, frames)?;
        Ok(Log(File::options().append(true).open(path)?))
    }

    /// Appends frames. They outlive this process at once, and a power cut once the system has written them.
    pub fn append(&mut self, frames: &[u8]) -> io::Result<()> {
        self.0.write_all(frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_cut_or_damaged_anywhere_gives_the_frames_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        assert_eq!(read(&path, 2).unwrap(), (Vec::new(), 0));
        let key = Key { id: [7; 32], part: 1, of: 2 };
        let mut log = Log::start(&path, &Entry::damaged_frame(4)).unwrap();
        log.append(&Entry::vector_frame(5, &key, &[1.0, 0.0])).unwrap();
        log.append(&Entry::vector_frame(6, &key, &[0.0, 1.0])).unwrap();
        let expected = [
            Entry::Damaged { row: 4 },
            Entry::Vector { row: 5, key, vector: vec![1.0, 0.0] },
            Entry::Vector { row: 6, key, vector: vec![0.0, 1.0] },
        ];
        assert_eq!(read(&path, 2).unwrap(), (expected.to_vec(), 0));
        let bytes = fs::read(&path).unwrap();
        let first = Entry::damaged_frame(4).len();
        let second = first + (bytes.len() - first) / 2;
        for cut in 0..bytes.len() {
            let whole = [first, second, bytes.len()].iter().filter(|end| **end <= cut).count();
            fs::write(&path, &bytes[..cut]).unwrap();
            assert_eq!(read(&path, 2).unwrap().0, expected[..whole], "cut at {cut}");
            let mut flipped = bytes.clone();
            flipped[cut] ^= 0x10;
            fs::write(&path, flipped).unwrap();
            assert_eq!(read(&path, 2).unwrap().0, expected[..whole], "flipped at {cut}");
        }
        // Frames of another dimension are not taken for ours.
        fs::write(&path, &bytes).unwrap();
        assert_eq!(read(&path, 3).unwrap().0, expected[..1]);
    }
}
