//! A file that grows at its end, seen as memory.
//!
//! What a disk cannot read of a mapped file ends the process by a signal, where reading the file would have given an error. The
//! store does not lose anything by that, and the files here can be removed.

use std::{fs::File, io};

use memmap2::{Mmap, MmapOptions};

/// A read-only map of a file. What it shows is at most what the caller says was written, so the file may grow behind it.
#[derive(Debug)]
pub(crate) struct Map {
    map: Option<Mmap>,
    len: usize,
}

impl Map {
    /// A map of nothing.
    pub fn empty() -> Self {
        Map { map: None, len: 0 }
    }

    /// Shows the first `len` bytes of `file`. Addresses are taken for `room` bytes (at least `len`), so that most growing
    /// needs no new map. Nobody else may shorten or change the file while it is mapped: that is what the lock on the
    /// data directory is for.
    ///
    /// # Errors
    /// When the file is shorter than `len`, or the system refuses.
    pub fn show(&mut self, file: &File, len: usize, room: usize) -> io::Result<()> {
        if file.metadata()?.len() < len as u64 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file is shorter than what was written"));
        }
        if len > self.map.as_ref().map_or(0, |map| map.len()) {
            // SAFETY: the map is read-only and shared. Bytes beyond the file's end are never looked at, since `bytes` stops
            // at `len`, which the file has. What is below `len` is written before it is shown. Where it is written again
            // (a vector that is forgotten) the owner of the map is borrowed mutably, so no slice of it is alive. Only this
            // process has the directory (`recover::lock`), and it never shortens a mapped file.
            self.map = Some(unsafe { MmapOptions::new().len(room.max(len)).map(file)? });
        }
        self.len = len;
        Ok(())
    }

    /// What is shown.
    pub fn bytes(&self) -> &[u8] {
        match &self.map {
            // SAFETY: `show` made the map at least `len` long and checked that the file is; see there. The slice
            // borrows `self`, so the map outlives it.
            Some(map) => unsafe { std::slice::from_raw_parts(map.as_ptr(), self.len) },
            None => &[],
        }
    }
}
