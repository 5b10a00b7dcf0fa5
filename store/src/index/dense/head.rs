//! The head of an index on disk: whose vectors, and what their codes are relative to.
//!
//! ```text
//! magic "FLKVECT1" · length of the body u32 · body · BLAKE3 of all before, 32 bytes
//! body: name and revision of the embedder (u16 length, bytes) · dim u32 · seed u64 · form u8 · basis u8
//!       if basis is 1: lists u32, list 0 among them · a centre f32 × dim for each
//! ```
//! A form of 1 keeps exact vectors, one of 2 what the integers left of them; 0 had neither and is made anew from the texts.
//! Numbers are little-endian. It is written beside, synced and renamed, so it is there as a whole or not at all.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

use ndarray::Array2;

use super::basis::Basis;
use crate::embed::EmbedderIdentity;

const MAGIC: &[u8; 8] = b"FLKVECT1";
const HASH_BYTES: usize = 32;
const EXACT: u8 = 1;
const COMPACT: u8 = 2;
/// More than any head has: names, and as many centres as there are lists at most, of 4,096 components.
const HEAD_BYTES_MAX: u64 = 256 << 20;

/// What the head says.
#[derive(Debug, Clone)]
pub(super) struct Head {
    pub identity: EmbedderIdentity,
    /// Of the rotation.
    pub seed: u64,
    /// Whether vectors are kept as they were given.
    pub exact: bool,
    /// Learned when the first block is full.
    pub basis: Option<Basis>,
}

impl Head {
    /// The head in a file; `None` if there is none, or if it is damaged.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        match fs::metadata(path) {
            Ok(meta) if meta.len() > HEAD_BYTES_MAX => Ok(None),
            Ok(_) => Ok(Self::decode(&fs::read(path)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Puts the head in place of what was in `path`, durably.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        replace(path, &self.encode())
    }

    fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        for text in [&self.identity.name, &self.identity.revision] {
            let bytes = text.as_bytes().get(..text.len().min(usize::from(u16::MAX))).unwrap_or_default();
            body.extend((bytes.len() as u16).to_le_bytes());
            body.extend(bytes);
        }
        body.extend((self.identity.dim as u32).to_le_bytes());
        body.extend(self.seed.to_le_bytes());
        body.push(if self.exact { EXACT } else { COMPACT });
        body.push(self.basis.is_some().into());
        if let Some(basis) = &self.basis {
            body.extend((basis.centres().nrows() as u32).to_le_bytes());
            body.extend(basis.centres().iter().flat_map(|x| x.to_le_bytes()));
        }
        let mut out = [&MAGIC[..], &(body.len() as u32).to_le_bytes(), &body].concat();
        out.extend(blake3::hash(&out).as_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (bytes, hash) = bytes.split_last_chunk::<HASH_BYTES>()?;
        if blake3::hash(bytes) != *hash {
            return None;
        }
        let mut rest = bytes.strip_prefix(MAGIC)?;
        let len = u32::from_le_bytes(take(&mut rest)?) as usize;
        if rest.len() != len {
            return None;
        }
        let mut text = || {
            let len = u16::from_le_bytes(take(&mut rest)?).into();
            let (text, after) = rest.split_at_checked(len)?;
            rest = after;
            String::from_utf8(text.to_vec()).ok()
        };
        let (name, revision) = (text()?, text()?);
        let dim = u32::from_le_bytes(take(&mut rest)?) as usize;
        let seed = u64::from_le_bytes(take(&mut rest)?);
        let [form, has_basis] = take::<2>(&mut rest)?;
        if ![EXACT, COMPACT].contains(&form) || has_basis > 1 {
            return None;
        }
        let basis = if has_basis == 1 {
            let lists = u32::from_le_bytes(take(&mut rest)?) as usize;
            let (numbers, after) = rest.as_chunks::<4>();
            let numbers = numbers.iter().map(|x| f32::from_le_bytes(*x)).collect();
            // Without components there could be any number of lists, and each takes memory.
            let fits = after.is_empty() && lists > 0 && dim > 0;
            let centres = Array2::from_shape_vec((lists, dim), numbers).ok().filter(|_| fits);
            Some(Basis::new(centres?, seed))
        } else if rest.is_empty() {
            None
        } else {
            return None;
        };
        Some(Head { identity: EmbedderIdentity { name, revision, dim }, seed, exact: form == EXACT, basis })
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*first)
}

/// Writes a file beside, syncs it, and puts it in place of `path`.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut file = File::create(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    match path.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

/// A head as it would be written now; `None` if it is damaged.
pub(crate) fn reread(bytes: &[u8]) -> Option<Vec<u8>> {
    Head::decode(bytes).map(|head| head.encode())
}

#[cfg(test)]
mod tests {
    use super::{super::samples::gaussian_unit, *};

    fn head(basis: bool) -> Head {
        Head {
            identity: EmbedderIdentity { name: "näme".into(), revision: "1".into(), dim: 70 },
            seed: 9,
            exact: true,
            basis: basis.then(|| Basis::new(Array2::from_shape_vec((3, 70), gaussian_unit(210, 1)).unwrap(), 9)),
        }
    }

    #[test]
    fn a_head_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("head");
        assert!(Head::read(&path).unwrap().is_none());
        for basis in [false, true] {
            let head = head(basis);
            head.write(&path).unwrap();
            let read = Head::read(&path).unwrap().unwrap();
            assert_eq!((read.identity, read.seed, read.exact), (head.identity, 9, true));
            assert_eq!(read.basis.as_ref().map(Basis::centres), head.basis.as_ref().map(Basis::centres));
        }
    }

    /// A head whose hash is right, with a body of these last bytes.
    fn sealed(dim: u32, tail: &[u8]) -> Vec<u8> {
        let body = [&[0; 4][..], &dim.to_le_bytes(), &[0; 8], tail].concat();
        let head = [&MAGIC[..], &(body.len() as u32).to_le_bytes(), &body].concat();
        [&head[..], blake3::hash(&head).as_bytes()].concat()
    }

    #[test]
    fn a_head_has_one_encoding_and_lists_that_take_no_bytes_are_none() {
        assert!(Head::decode(&sealed(3, &[1, 0])).is_some() && Head::decode(&sealed(3, &[2, 0])).is_some());
        let wrong = [(3, &[3, 0][..]), (3, &[1, 2]), (3, &[1, 0, 9]), (0, &[1, 1, 255, 255, 255, 255])];
        for (dim, tail) in [(3, &[0, 0][..])].into_iter().chain(wrong) {
            assert!(Head::decode(&sealed(dim, tail)).is_none(), "{dim} {tail:?}");
        }
    }

    #[test]
    fn a_damaged_or_short_head_is_none() {
        let bytes = head(true).encode();
        assert!(Head::decode(&bytes).is_some());
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            assert!(Head::decode(&flipped).is_none() && Head::decode(&bytes[..at]).is_none(), "{at}");
        }
    }
}
