//! The marker: a file whose identity tells whether a data directory is the one written last, or a copy put in its place.
//!
//! A node restored from an old copy would number its next records from where the copy ends, and those numbers are used
//! already. The copy has the same bytes; what it cannot have are the inode and birth time of the marker and of the
//! database file, nor the marker's change time, which no tool can set. So `cp -a`, `tar`, `rsync` and a copy over the
//! files in place are noticed. What cannot be noticed from within is the whole disk rolled back (a virtual machine's
//! snapshot); there the numbers that peers show help. Device numbers are left out: they change across reboots.

use std::{
    fs::{self, File, Metadata},
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::Path,
    time::UNIX_EPOCH,
};

/// Bytes of an identity.
pub(crate) const IDENTITY_BYTES: usize = 6 * 8;

/// What the marker and the database file look like to the file system.
pub(crate) type Identity = [u8; IDENTITY_BYTES];

const TEXT: &str = "This file's identity tells Folklore whether this directory was copied. Copying is fine.\n";

/// Makes a new marker in place of any that is there, durably.
pub(crate) fn renew(marker: &Path) -> io::Result<()> {
    let fresh = marker.with_extension("marker-new");
    let mut file = File::create(&fresh)?;
    file.write_all(TEXT.as_bytes())?;
    file.sync_all()?;
    fs::rename(&fresh, marker)?;
    sync_parent(marker)
}

/// The identity of the marker and the database file, `None` if there is no marker.
pub(crate) fn identity(marker: &Path, database: &Path) -> io::Result<Option<Identity>> {
    let seen = match fs::metadata(marker) {
        Ok(seen) => seen,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let db = fs::metadata(database)?;
    let words = [seen.ino(), birth_ns(&seen), seen.ctime() as u64, seen.ctime_nsec() as u64, db.ino(), birth_ns(&db)];
    let mut out = [0; IDENTITY_BYTES];
    for (slot, word) in out.chunks_exact_mut(8).zip(words) {
        slot.copy_from_slice(&word.to_le_bytes());
    }
    Ok(Some(out))
}

/// Nanoseconds since 1970; 0 where the file system keeps no birth time.
fn birth_ns(meta: &Metadata) -> u64 {
    meta.created()
        .ok()
        .and_then(|t| t.duration_since(UNIX_EPOCH).ok())
        .map_or(0, |d| d.as_secs().wrapping_mul(1_000_000_000).wrapping_add(u64::from(d.subsec_nanos())))
}

/// Syncs the directory that holds `path`, so that a name made or changed in it lasts.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(dir) if dir.as_os_str().is_empty() => File::open(".")?.sync_all(),
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}
