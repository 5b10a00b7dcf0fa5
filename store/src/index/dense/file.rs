//! An index on disk: a directory with a head, full blocks in two files, and a log of the block that is not full.
//!
//! ```text
//! <vectors>/<space>/g<n>/head    whose vectors; see `head`
//!                        hot     a block after the other: header of a page, hot part
//!                        cold    a block after the other: cold part
//!                        log     see `log`
//!
//! header: magic "FLKVBLK1" · number u64 · rows u32 · list u32 · BLAKE3 of the hot part · of the keys · of all before
//! ```
//! `<space>` is named after the embedder's identity, so vectors of different embedders never meet; the head repeats it.
//! `g<n>` is a generation: what is written anew goes into the next, which counts once its head is there.
//!
//! A full block is written once and then mapped; it changes only when a vector in it is to be forgotten. At opening a block that is not whole at the files' end is
//! cut off, and one whose header, codes or keys are damaged has no rows. What is missing then is embedded again: all
//! this is made from texts that the bank holds.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use super::{
    basis::Basis,
    block::{BLOCK_ROWS, Block, OpenBlock, Shape, erase},
    head::Head,
    log::{self, Entry, Log},
};
use crate::{embed::EmbedderIdentity, raw::Map};

const MAGIC: &[u8; 8] = b"FLKVBLK1";
/// Bytes before each hot part: a page, so that what follows is aligned.
const HEADER_BYTES: usize = 4096;
/// Digits of a space's name: 64 bits, which no two embedders of one node share.
const SPACE_NAME_DIGITS: usize = 16;
/// Bytes of the header that are used, without its own hash.
const HEADER_USED: usize = 88;
const HASH_BYTES: usize = 32;
/// Blocks for which a first map has room, and by how much a later one grows.
const MAP_BLOCKS: usize = 64;

/// Why an index on disk could not be used. Vectors are then kept in memory, and made again at the next start.
#[derive(Debug, thiserror::Error)]
#[error("could not {doing} {}: {source}; vectors are kept in memory until the disk is seen to", path.display())]
pub struct VectorFileError {
    doing: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl VectorFileError {
    fn new(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self { doing, path, source }
    }
}

/// Full blocks on disk, and the log.
#[derive(Debug)]
pub(super) struct Files {
    dir: PathBuf,
    head: Head,
    shape: Shape,
    hot: File,
    cold: File,
    hot_map: Map,
    cold_map: Map,
    /// Vectors of each block, none of a damaged one; and its list.
    rows: Vec<(u32, u32)>,
    log: Option<Log>,
    /// Vectors known to be damaged.
    damaged: Vec<u32>,
}

/// What opening found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub entries: Vec<Entry>,
    pub notes: Vec<String>,
}

/// The directory's name of an embedder's space.
fn space_name(identity: &EmbedderIdentity) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("folklore 2026 name of a space of vectors");
    for part in [identity.name.as_bytes(), identity.revision.as_bytes(), &identity.dim.to_le_bytes()] {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
    }
    hasher.finalize().to_hex().chars().take(SPACE_NAME_DIGITS).collect()
}

impl Files {
    /// Opens the space of an embedder below `vectors`, or begins it.
    pub fn open(vectors: &Path, identity: &EmbedderIdentity, exact: bool) -> Result<(Self, Found), VectorFileError> {
        let space = vectors.join(space_name(identity));
        fs::create_dir_all(&space).map_err(VectorFileError::new("make", &space))?;
        let mut generations = generations(&space).map_err(VectorFileError::new("list", &space))?;
        generations.sort_unstable();
        let mut found = Found::default();
        let mut next = 1;
        let mut opened = None;
        while let Some(number) = generations.pop() {
            next = next.max(number.saturating_add(1));
            let dir = space.join(format!("g{number}"));
            let head = Head::read(&dir.join("head")).map_err(VectorFileError::new("read", &dir))?;
            match head.filter(|head| opened.is_none() && head.identity == *identity) {
                Some(head) => opened = Some(Self::open_generation(&dir, head, &mut found)?),
                // Superseded, not finished, or damaged: what it has can be made again.
                None => {
                    if opened.is_none() {
                        found.notes.push(format!("the vectors in {} have no usable head", dir.display()));
                    }
                    fs::remove_dir_all(&dir).map_err(VectorFileError::new("remove", &dir))?;
                }
            }
        }
        let files = match opened {
            Some(files) => files,
            None => {
                let dir = space.join(format!("g{next}"));
                let seed = u64::from(next);
                let files = Self::create(&dir, Head { identity: identity.clone(), seed, exact, basis: None })?;
                files.write_head()?;
                files
            }
        };
        Ok((files, found))
    }

    /// The next generation after this one, empty. It counts once its head is written.
    pub fn next_generation(&self, basis: Option<Basis>) -> Result<Self, VectorFileError> {
        let number = self.dir.file_name().and_then(|name| generation(name.to_str()?)).unwrap_or(0);
        let dir = self.dir.with_file_name(format!("g{}", number.saturating_add(1)));
        if dir.exists() {
            fs::remove_dir_all(&dir).map_err(VectorFileError::new("remove", &dir))?;
        }
        Self::create(&dir, Head { basis, ..self.head.clone() })
    }

    /// Removes a generation that another has taken the place of.
    pub fn discard(self) -> Result<(), VectorFileError> {
        fs::remove_dir_all(&self.dir).map_err(VectorFileError::new("remove", &self.dir))
    }

    fn create(dir: &Path, head: Head) -> Result<Self, VectorFileError> {
        fs::create_dir_all(dir).map_err(VectorFileError::new("make", dir))?;
        Self::open_generation(dir, head, &mut Found::default())
    }

    fn open_generation(dir: &Path, head: Head, found: &mut Found) -> Result<Self, VectorFileError> {
        let open = |name: &str| {
            let path = dir.join(name);
            let options = File::options().read(true).write(true).create(true).truncate(false).open(&path);
            options.map_err(VectorFileError::new("open", &path))
        };
        let shape = Shape { dim: head.identity.dim, exact: head.exact };
        let mut files = Files {
            dir: dir.to_owned(),
            shape,
            hot: open("hot")?,
            cold: open("cold")?,
            hot_map: Map::empty(),
            cold_map: Map::empty(),
            rows: Vec::new(),
            log: None,
            damaged: Vec::new(),
            head,
        };
        files.read_blocks(found).map_err(VectorFileError::new("read", dir))?;
        let path = dir.join("log");
        let (entries, torn) = log::read(&path, shape.dim).map_err(VectorFileError::new("read", &path))?;
        if torn > 0 {
            found.notes.push(format!("{torn} bytes at the end of the log of vectors are not whole"));
        }
        for entry in &entries {
            if let Entry::Damaged { row } = entry {
                files.damaged.push(*row);
            }
        }
        found.entries = entries;
        Ok(files)
    }

    fn hot_stride(&self) -> usize {
        HEADER_BYTES + self.shape.hot_bytes()
    }

    /// Counts the whole blocks, cuts off the rest, maps them and checks each.
    fn read_blocks(&mut self, found: &mut Found) -> io::Result<()> {
        let whole = |file: &File, stride: usize| Ok::<_, io::Error>(file.metadata()?.len() / stride as u64);
        let (hot, cold) = (self.hot_stride(), self.shape.cold_bytes());
        let blocks = whole(&self.hot, hot)?.min(whole(&self.cold, cold)?);
        // Without a basis no block was ever written.
        let blocks = if self.head.basis.is_some() { blocks as usize } else { 0 };
        for (file, stride) in [(&self.hot, hot), (&self.cold, cold)] {
            let len = (blocks * stride) as u64;
            if file.metadata()?.len() > len {
                found.notes.push("a block of vectors was not whole at the end of its file".into());
                file.set_len(len)?;
            }
        }
        self.map(blocks)?;
        for number in 0..blocks {
            let rows = self.check(number);
            if rows.is_none() {
                found.notes.push(format!("block {number} of the vectors is damaged"));
            }
            self.rows.push(rows.unwrap_or_default());
        }
        Ok(())
    }

    fn map(&mut self, blocks: usize) -> io::Result<()> {
        let (hot, cold) = (self.hot_stride(), self.shape.cold_bytes());
        let room = (blocks + MAP_BLOCKS).next_power_of_two();
        self.hot_map.show(&self.hot, blocks * hot, room * hot)?;
        self.cold_map.show(&self.cold, blocks * cold, room * cold)
    }

    /// Rows and list of a block whose header, codes and keys are whole.
    fn check(&self, number: usize) -> Option<(u32, u32)> {
        let start = number * self.hot_stride();
        let (header, hot) = self.hot_map.bytes().get(start..start + self.hot_stride())?.split_at(HEADER_BYTES);
        let keys = self.cold_block(number).get(..self.shape.keys_bytes())?;
        let rows = u32::from_le_bytes(*header.get(16..)?.first_chunk::<4>()?);
        let list = u32::from_le_bytes(*header.get(20..)?.first_chunk::<4>()?);
        let expected = header_of(number, (rows, list), hot, keys);
        (header.get(..expected.len())? == expected && rows as usize <= BLOCK_ROWS).then_some((rows, list))
    }

    fn cold_block(&self, number: usize) -> &[u8] {
        let stride = self.shape.cold_bytes();
        self.cold_map.bytes().get(number * stride..(number + 1) * stride).unwrap_or_default()
    }

    /// Full blocks, damaged ones too.
    pub fn blocks(&self) -> usize {
        self.rows.len()
    }

    /// Vectors in all blocks.
    pub fn vectors(&self) -> usize {
        self.rows.iter().map(|(rows, _)| *rows as usize).sum()
    }

    pub fn block(&self, number: usize) -> Option<Block<'_>> {
        let (rows, list) = *self.rows.get(number)?;
        let start = number * self.hot_stride() + HEADER_BYTES;
        let hot = self.hot_map.bytes().get(start..start + self.shape.hot_bytes())?;
        Some(Block { shape: self.shape, hot, cold: self.cold_block(number), rows: rows as usize, list: list as usize })
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }

    pub fn seed(&self) -> u64 {
        self.head.seed
    }

    pub fn basis(&self) -> Option<&Basis> {
        self.head.basis.as_ref()
    }

    /// Vectors known to be damaged.
    pub fn damaged(&self) -> &[u32] {
        &self.damaged
    }

    /// Keeps what the codes of all blocks are relative to; before the first block is written.
    pub fn set_basis(&mut self, basis: Basis) -> Result<(), VectorFileError> {
        self.head.basis = Some(basis);
        self.write_head()
    }

    pub fn write_head(&self) -> Result<(), VectorFileError> {
        let path = self.dir.join("head");
        self.head.write(&path).map_err(VectorFileError::new("write", &path))
    }

    /// Writes a block after the last one and shows it.
    pub fn append(&mut self, block: &OpenBlock, sync: bool) -> Result<(), VectorFileError> {
        let number = self.rows.len();
        self.append_at(number, block, sync).map_err(VectorFileError::new("write a block into", &self.dir))
    }

    fn append_at(&mut self, number: usize, block: &OpenBlock, sync: bool) -> io::Result<()> {
        let view = block.view();
        let keys = view.cold.get(..self.shape.keys_bytes()).unwrap_or_default();
        let counts = (view.rows as u32, view.list as u32);
        let mut header = header_of(number, counts, view.hot, keys);
        header.resize(HEADER_BYTES, 0);
        let start = (number * self.hot_stride()) as u64;
        let cold = (number * self.shape.cold_bytes()) as u64;
        for range in self.shape.cold_ranges(view.rows) {
            self.cold.write_all_at(view.cold.get(range.clone()).unwrap_or_default(), cold + range.start as u64)?;
        }
        if view.rows < BLOCK_ROWS {
            // What is left out is a hole, and reads as zeros.
            self.cold.set_len(cold + self.shape.cold_bytes() as u64)?;
        }
        self.hot.write_all_at(view.hot, start + HEADER_BYTES as u64)?;
        self.hot.write_all_at(&header, start)?;
        if sync {
            self.sync()?;
        }
        self.map(number + 1)?;
        self.rows.push(counts);
        Ok(())
    }

    /// Overwrites vectors of full blocks, ascending by number, with zeros, durably. A crash in between leaves a block that counts as
    /// damaged: its vectors are then made again.
    pub fn erase(&mut self, rows: &[u32]) -> Result<(), VectorFileError> {
        let number = |row: u32| row as usize / BLOCK_ROWS;
        let mut blocks = rows.chunk_by(|a, b| number(*a) == number(*b));
        blocks.try_for_each(|rows| self.erase_in(rows)).map_err(VectorFileError::new("erase a vector in", &self.dir))
    }

    /// Overwrites vectors of one block.
    fn erase_in(&mut self, rows: &[u32]) -> io::Result<()> {
        let Some(number) = rows.first().map(|row| *row as usize / BLOCK_ROWS) else { return Ok(()) };
        let Some(block) = self.block(number) else { return Ok(()) };
        let counts = (block.rows as u32, block.list as u32);
        let (mut hot, mut cold) = (block.hot.to_vec(), block.cold.to_vec());
        let erased = rows.iter().filter_map(|row| erase(self.shape, &mut hot, &mut cold, *row as usize % BLOCK_ROWS));
        if erased.count() == 0 {
            return Ok(());
        }
        let header = header_of(number, counts, &hot, cold.get(..self.shape.keys_bytes()).unwrap_or_default());
        let (hot_at, cold_at) = ((number * self.hot_stride()) as u64, (number * self.shape.cold_bytes()) as u64);
        for range in self.shape.cold_ranges(block.rows) {
            self.cold.write_all_at(cold.get(range.clone()).unwrap_or_default(), cold_at + range.start as u64)?;
        }
        self.hot.write_all_at(&hot, hot_at + HEADER_BYTES as u64)?;
        self.hot.write_all_at(&header, hot_at)?;
        self.sync()
    }

    /// Why files that could not be written once are as they were then.
    pub fn given_up(&self) -> VectorFileError {
        let why = "it could not be written before; restart once the disk is seen to";
        VectorFileError::new("write", &self.dir.join("log"))(io::Error::other(why))
    }

    fn sync(&self) -> io::Result<()> {
        self.cold.sync_data()?;
        self.hot.sync_data()
    }

    /// Syncs the blocks, and begins the log anew with what is not in them.
    pub fn settle(&mut self, frames: &[u8]) -> Result<(), VectorFileError> {
        let path = self.dir.join("log");
        let damaged: Vec<u8> = self.damaged.iter().flat_map(|row| Entry::damaged_frame(*row)).collect();
        let started = self.sync().and_then(|()| Log::start(&path, &[&damaged, frames].concat()));
        self.log = Some(started.map_err(VectorFileError::new("write", &path))?);
        Ok(())
    }

    /// Appends frames to the log, once there is one.
    pub fn log(&mut self, frames: &[u8]) -> Result<(), VectorFileError> {
        let Some(log) = &mut self.log else { return Ok(()) };
        log.append(frames).map_err(VectorFileError::new("write", &self.dir.join("log")))
    }

    /// Notes in the log that a vector is damaged, so that the next opening does not take it for one.
    pub fn log_damaged(&mut self, row: u32) -> Result<(), VectorFileError> {
        self.damaged.push(row);
        self.log(&Entry::damaged_frame(row))
    }
}

fn header_of(number: usize, (rows, list): (u32, u32), hot: &[u8], keys: &[u8]) -> Vec<u8> {
    let counts = [rows.to_le_bytes(), list.to_le_bytes()].concat();
    let mut header = [&MAGIC[..], &(number as u64).to_le_bytes(), &counts].concat();
    header.extend(blake3::hash(hot).as_bytes());
    header.extend(blake3::hash(keys).as_bytes());
    debug_assert_eq!(header.len(), HEADER_USED);
    header.extend(blake3::hash(&header).as_bytes());
    debug_assert_eq!(header.len(), HEADER_USED + HASH_BYTES);
    header
}

/// The directories in one; none if there is no such one.
pub(super) fn directories(dir: &Path) -> Result<Vec<PathBuf>, VectorFileError> {
    let list = || -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                found.push(entry.path());
            }
        }
        found.sort();
        Ok(found)
    };
    match list() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        found => found.map_err(VectorFileError::new("list", dir)),
    }
}

/// The spaces below `vectors`, whoever's they are.
pub(super) fn spaces(vectors: &Path) -> Result<Vec<PathBuf>, VectorFileError> {
    let mut found = directories(vectors)?;
    found.retain(|dir| {
        let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.len() == SPACE_NAME_DIGITS && name.bytes().all(|b| b.is_ascii_hexdigit())
    });
    Ok(found)
}

/// Whether a space is that of an embedder.
pub(super) fn is_of(space: &Path, identity: &EmbedderIdentity) -> bool {
    space.ends_with(space_name(identity))
}

/// Whose vectors a space has, and whether as they were given; `None` if none of its heads says so.
pub(super) fn identity_of(space: &Path) -> Result<Option<(EmbedderIdentity, bool)>, VectorFileError> {
    let read = || -> io::Result<Option<(EmbedderIdentity, bool)>> {
        for number in generations(space)? {
            let head = Head::read(&space.join(format!("g{number}")).join("head"))?;
            if let Some(head) = head.filter(|head| is_of(space, &head.identity)) {
                return Ok(Some((head.identity, head.exact)));
            }
        }
        Ok(None)
    };
    read().map_err(VectorFileError::new("read", space))
}

/// Removes a space with all that is in it.
pub(super) fn remove_space(space: &Path) -> Result<(), VectorFileError> {
    fs::remove_dir_all(space).map_err(VectorFileError::new("remove", space))
}

fn generation(name: &str) -> Option<u32> {
    name.strip_prefix('g')?.parse().ok()
}

fn generations(space: &Path) -> io::Result<Vec<u32>> {
    let names = fs::read_dir(space)?.map(|entry| Ok(entry?.file_name().to_str().and_then(generation)));
    Ok(names.collect::<io::Result<Vec<_>>>()?.into_iter().flatten().collect())
}
