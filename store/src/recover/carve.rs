//! The last rung: finding framed values in raw files and building a fresh database from them.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, BufWriter, Read, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use folklore_protocol::{lesson::Lesson, record::UnverifiedRecord};

use super::{Paths, SEGMENT_BYTES, open_sled, snapshots};
use crate::{
    bank::sync_parent,
    error::{OpenError, open_io},
    frame::{self, Frame, Key, Kind, MAX_FRAME_BYTES, Packer, Tree},
};

/// Raw files are read in windows of this size, overlapping by a frame.
const WINDOW_BYTES: usize = 8 * 1024 * 1024;
/// Values go into the fresh database in batches of about this size.
const BATCH_BYTES: usize = 1024 * 1024;
/// A spare copy leaves at least this much room on the disk for sled.
const SPARE_ROOM_BYTES: u64 = 8 * SEGMENT_BYTES as u64;
/// In front of each sled segment: a CRC, then its place in the log, both masked (sled 0.34.7, `SegmentHeader`).
const SEGMENT_HEADER_BYTES: usize = 20;
const LSN_MASK: i64 = i64::MAX;

/// Copies the log segments that sled will replay, and so may overwrite, to a spare file: those at or after its newest
/// snapshot, or all of them. Returns false if the disk has no room to spare; then the opening goes on without.
pub(super) fn spare(paths: &Paths, all: bool) -> Result<bool, OpenError> {
    let have = paths.spares().len();
    if have == super::MAX_SPARES && !all {
        return Ok(true);
    }
    let target = paths.dir.join(format!("bank.spare-{}", have.min(super::MAX_SPARES - 1)));
    let fresh = paths.dir.join("bank.spare-new");
    let from = if all { None } else { snapshot_lsn(&paths.bank)? };
    let size = fs::metadata(&paths.database).map_or(0, |m| m.len());
    if super::room(paths)? < size.saturating_add(SPARE_ROOM_BYTES) {
        tracing::warn!("no room to copy the end of the log before opening; going on without");
        return Ok(false);
    }
    match copy_segments(&paths.database, &fresh, from) {
        Ok(()) => {
            fs::rename(&fresh, &target).map_err(|e| open_io("rename", &fresh, e))?;
            Ok(true)
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(e) => {
            fs::remove_file(&fresh).ok();
            Err(open_io("copy", &paths.database, e))
        }
    }
}

/// The log position that the newest snapshot reaches, from its name.
fn snapshot_lsn(bank: &Path) -> Result<Option<i64>, OpenError> {
    let lsn = |path: &PathBuf| i64::from_str_radix(path.extension()?.to_str()?, 16).ok();
    Ok(snapshots(bank)?.iter().filter_map(lsn).max())
}

/// Log segments that sled's newest snapshot does not reach, as far as their headers tell.
pub(super) fn unsummed_segments(paths: &Paths) -> io::Result<usize> {
    let first = match snapshot_lsn(&paths.bank) {
        Ok(lsn) => lsn.map(|lsn| lsn - lsn % SEGMENT_BYTES as i64),
        Err(_) => return Ok(0),
    };
    let file = File::open(&paths.database)?;
    let len = file.metadata()?.len();
    let mut count = 0;
    for at in (0..len).step_by(SEGMENT_BYTES) {
        let mut head = [0; SEGMENT_HEADER_BYTES];
        file.read_exact_at(&mut head, at)?;
        count += usize::from(segment_lsn(&head).is_some_and(|lsn| first.is_none_or(|first| lsn >= first)));
    }
    Ok(count)
}

fn copy_segments(database: &Path, target: &Path, from: Option<i64>) -> io::Result<()> {
    let source = File::open(database)?;
    let len = source.metadata()?.len();
    let mut out = BufWriter::new(File::create(target)?);
    let mut segment = vec![0; SEGMENT_BYTES];
    let first = from.map(|lsn| lsn - lsn % SEGMENT_BYTES as i64);
    let mut at = 0;
    while at < len {
        let size = usize::try_from(len - at).unwrap_or(usize::MAX).min(SEGMENT_BYTES);
        let replayed = first.is_none_or(|first| {
            let mut head = [0; SEGMENT_HEADER_BYTES];
            match source.read_exact_at(&mut head[..size.min(SEGMENT_HEADER_BYTES)], at) {
                // A header that makes no sense may be a damaged one.
                Ok(()) => segment_lsn(&head).is_none_or(|lsn| lsn >= first),
                Err(_) => true,
            }
        });
        if replayed {
            source.read_exact_at(&mut segment[..size], at)?;
            out.write_all(&segment[..size])?;
        }
        at += SEGMENT_BYTES as u64;
    }
    out.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok(())
}

fn segment_lsn(head: &[u8; SEGMENT_HEADER_BYTES]) -> Option<i64> {
    let lsn = i64::from_le_bytes(head[4..12].try_into().ok()?) ^ LSN_MASK;
    (lsn >= 0 && lsn % SEGMENT_BYTES as i64 == 0).then_some(lsn)
}

/// Where a frame's bytes are.
#[derive(Debug, Clone, Copy)]
struct Place {
    file: usize,
    offset: u64,
    len: usize,
}

/// One generation of a value, its parts as far as they were found.
#[derive(Debug)]
struct Found {
    kind: Kind,
    parts: Vec<Option<Place>>,
}

/// By arrival and tree, then by generation.
type Values = BTreeMap<(u64, Tree), BTreeMap<u64, Found>>;

/// Carves the bank's files into a fresh database that takes their place. Returns where the old ones are kept.
pub(super) fn rebuild(paths: &Paths, steps: &mut Vec<String>) -> Result<PathBuf, OpenError> {
    if paths.rebuild.exists() {
        fs::remove_dir_all(&paths.rebuild).map_err(|e| open_io("remove", &paths.rebuild, e))?;
    }
    let built = carve_into(paths, steps);
    if built.is_err() {
        // What is half built is worth nothing, and its room may be needed.
        fs::remove_dir_all(&paths.rebuild).ok();
    }
    built?;
    let kept = (1..)
        .map(|n| paths.dir.join(format!("bank.damaged-{n}")))
        .find(|p| !p.exists())
        .unwrap_or_else(|| paths.dir.join("bank.damaged"));
    let rename = |from: &Path, to: &Path| fs::rename(from, to).map_err(|e| open_io("rename", from, e));
    if paths.bank.exists() {
        rename(&paths.bank, &kept)?;
    } else {
        fs::create_dir_all(&kept).map_err(|e| open_io("create", &kept, e))?;
    }
    rename(&paths.rebuild, &paths.bank)?;
    for spare in paths.spares() {
        if let Some(name) = spare.file_name() {
            rename(&spare, &kept.join(name))?;
        }
    }
    sync_parent(&paths.bank).map_err(|e| open_io("sync the directory of", &paths.bank, e))?;
    Ok(kept)
}

fn carve_into(paths: &Paths, steps: &mut Vec<String>) -> Result<(), OpenError> {
    let mut files = Vec::new();
    let mut values = Values::new();
    for path in sources(paths) {
        let file = File::open(&path).map_err(|e| open_io("open", &path, e))?;
        scan_file(&file, files.len(), &mut values).map_err(|e| open_io("read", &path, e))?;
        files.push(file);
    }
    let (mut kept, mut refused, mut torn) = (0u64, 0u64, 0u64);
    let read = |place: Place| -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; place.len];
        files[place.file].read_exact_at(&mut bytes, place.offset)?;
        Ok(bytes)
    };
    let mut fresh = Fresh::new(&paths.rebuild)?;
    for ((arrival, tree), generations) in values {
        // The newest generation of which every part was found.
        let whole = generations.into_iter().rev().find(|(_, found)| found.parts.iter().all(Option::is_some));
        let Some((_, found)) = whole else {
            torn += 1;
            continue;
        };
        let frames: io::Result<Vec<Vec<u8>>> = found.parts.iter().flatten().map(|place| read(*place)).collect();
        let frames = frames.map_err(|e| open_io("read", &paths.bank, e))?;
        if found.kind == Kind::Value && !is_authentic(tree, &frames) {
            refused += 1;
            continue;
        }
        kept += 1;
        for (part, frame) in frames.into_iter().enumerate() {
            fresh.put(Key { tree, arrival, part: part as u16 }, frame)?;
        }
    }
    fresh.finish()?;
    steps.push(format!("{kept} values were carved out of the raw files into a fresh database"));
    if torn > 0 {
        steps.push(format!("{torn} values were found in part only and left behind"));
    }
    if refused > 0 {
        steps.push(format!("{refused} values had a wrong signature or hash and were left behind"));
    }
    Ok(())
}

/// A frame's hash is no secret, so what looks like a frame could be a part of somebody's text. What others may have
/// written is checked as if it had just come from them.
fn is_authentic(tree: Tree, frames: &[Vec<u8>]) -> bool {
    let value: Vec<u8> =
        frames.iter().filter_map(|f| Frame::at_start(f).ok()).flat_map(|f| f.payload.to_vec()).collect();
    match tree {
        Tree::Record => UnverifiedRecord::parse(&value).and_then(UnverifiedRecord::verify).is_ok(),
        Tree::Lesson => Lesson::from_bytes(&value).is_ok(),
        Tree::Bank | Tree::Log | Tree::Note | Tree::Setting | Tree::Run => true,
    }
}

/// The raw files: sled's log, its blobs if there are any, and spare copies of log segments.
fn sources(paths: &Paths) -> Vec<PathBuf> {
    let blobs = fs::read_dir(paths.bank.join("blobs")).into_iter().flatten().flatten().map(|e| e.path());
    [paths.database.clone()].into_iter().chain(blobs).chain(paths.spares()).filter(|p| p.is_file()).collect()
}

fn scan_file(file: &File, number: usize, values: &mut Values) -> io::Result<()> {
    let mut reader = file;
    let mut window = Vec::with_capacity(WINDOW_BYTES + MAX_FRAME_BYTES);
    let mut base = 0u64;
    loop {
        let before = window.len();
        Read::by_ref(&mut reader).take((WINDOW_BYTES + MAX_FRAME_BYTES - before) as u64).read_to_end(&mut window)?;
        if window.len() == before {
            return Ok(());
        }
        for (at, frame) in frame::carve(&window) {
            let len = frame::HEADER_BYTES + frame.payload.len();
            let place = Place { file: number, offset: base + at as u64, len };
            let generations = values.entry((frame.key.arrival, frame.key.tree)).or_default();
            let found = generations
                .entry(frame.generation)
                .or_insert_with(|| Found { kind: frame.kind, parts: vec![None; usize::from(frame.parts)] });
            if let Some(slot) = found.parts.get_mut(usize::from(frame.key.part)) {
                *slot = Some(place);
            }
        }
        // The last frame may go on in the next window.
        let keep = window.len().min(MAX_FRAME_BYTES);
        base += (window.len() - keep) as u64;
        window.drain(..window.len() - keep);
    }
}

/// The database being built.
struct Fresh<'a> {
    path: &'a Path,
    db: sled::Db,
    packer: Packer,
    batch: sled::Batch,
    bytes: usize,
}

impl<'a> Fresh<'a> {
    fn new(path: &'a Path) -> Result<Self, OpenError> {
        let db = open_sled(path).map_err(|e| failed(path, e))?;
        Ok(Self { path, db, packer: Packer::default(), batch: sled::Batch::default(), bytes: 0 })
    }

    /// Adds a frame; those that go into packs come in the order of their arrival.
    fn put(&mut self, key: Key, bytes: Vec<u8>) -> Result<(), OpenError> {
        self.bytes += bytes.len();
        match Frame::at_start(&bytes) {
            Ok(frame) if matches!(key.tree, Tree::Record | Tree::Lesson) && frame.parts == 1 => {
                let full = self.packer.push(&frame);
                self.put_pack(full);
            }
            _ => self.batch.insert(&key.to_bytes(), bytes),
        }
        if self.bytes >= BATCH_BYTES {
            self.write()?;
        }
        Ok(())
    }

    fn put_pack(&mut self, pack: Option<(u64, Vec<u8>)>) {
        if let Some((first, bytes)) = pack {
            self.batch.insert(&frame::pack_key(first), bytes);
        }
    }

    fn write(&mut self) -> Result<(), OpenError> {
        self.bytes = 0;
        self.db.apply_batch(std::mem::take(&mut self.batch)).map_err(|e| failed(self.path, e))?;
        let database = self.path.join("db");
        self.db.flush().map_err(|e| failed(self.path, e))?;
        File::open(&database).and_then(|f| f.sync_all()).map_err(|e| open_io("sync", &database, e))
    }

    fn finish(mut self) -> Result<(), OpenError> {
        let last = self.packer.take();
        self.put_pack(last);
        self.write()?;
        let database = self.path.join("db");
        sync_parent(&database).map_err(|e| open_io("sync the directory of", &database, e))
    }
}

fn failed(path: &Path, error: sled::Error) -> OpenError {
    match error {
        sled::Error::Io(e) => open_io("rebuild into", path, e),
        other => OpenError::Unrecoverable { path: path.to_owned(), detail: other.to_string() },
    }
}
