//! Frames: how every value of the bank is wrapped, so that it can be checked on each read and found again in a raw file.
//!
//! ```text
//!  0  magic           4   "FLB" and the frame version
//!  4  tree            1   a letter, see [`Tree`]
//!  5  kind            1   0 a value, 1 erased
//!  6  part            2   little-endian, from 0
//!  8  parts           2   little-endian, from 1
//! 10  arrival         8   little-endian
//! 18  generation      8   little-endian: session in the upper half, replacement in the lower
//! 26  payload length  4   little-endian
//! 30  BLAKE3         32   keyed, over bytes 0..30 and the payload
//! 62  payload
//! ```
//!
//! A frame names its tree, key and generation, so that carving a damaged file brings back neither what was erased nor an
//! older value of the same key.
//!
//! Records and bodies are small and many, and what sled costs is by the value and not by the byte. So their frames lie one
//! behind the other in **packs**: values of up to [`MAX_PACK_BYTES`] under a key of their own, each named by the lowest
//! arrival number in it. A frame is the same in a pack as alone, so carving does not care which it was.

use std::fmt;

/// Most payload bytes in one frame. A frame stays under 32 KiB, beyond which sled bloats; the longest record fits.
pub const MAX_PART_BYTES: usize = 28 * 1024;
/// Payload bytes in one frame of a run. sled has up to 16 values on a page, and keeps at least one page of each of its cache's
/// 256 shards: this way they fit into the cache's size, where larger parts would be several times that in memory.
pub const RUN_PART_BYTES: usize = 8 * 1024;
/// Bytes in front of the payload.
pub const HEADER_BYTES: usize = 62;
/// Longest frame.
pub const MAX_FRAME_BYTES: usize = HEADER_BYTES + MAX_PART_BYTES;
/// Longest pack: what the longest frame has, so that every frame fits into one. Measured with groups of 1,000, sled takes
/// five times as many records a second in values of 28 KB as in one value each for record and body, and reads back as fast.
pub const MAX_PACK_BYTES: usize = MAX_FRAME_BYTES;
/// The first byte of a pack's key. No tree has it.
pub const PACK_LETTER: u8 = b'p';

const MAGIC: [u8; 4] = *b"FLB\x01";
const HASHED_HEADER_BYTES: usize = 30;
const HASH_KEY: &[u8; 32] = b"folklore 2026 bank frame v1\0\0\0\0\0";

/// What a value is. The letter is the first byte of its key and part of the format on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tree {
    /// A bank's id, name and owner.
    Bank,
    /// The body of a lesson.
    Lesson,
    /// An entry in the log of a run under way. Its place is used again when the run has ended.
    Log,
    /// Something an operator should know that recovery or admission found.
    Note,
    /// A record.
    Record,
    /// A setting.
    Setting,
    /// A run.
    Run,
}

impl Tree {
    /// All trees, in key order.
    pub const ALL: [Self; 7] =
        [Self::Bank, Self::Lesson, Self::Log, Self::Note, Self::Record, Self::Setting, Self::Run];

    /// The letter in keys and frames.
    pub const fn letter(self) -> u8 {
        match self {
            Self::Bank => b'b',
            Self::Lesson => b'l',
            Self::Log => b'm',
            Self::Note => b'n',
            Self::Record => b'r',
            Self::Setting => b's',
            Self::Run => b'u',
        }
    }

    pub(crate) fn from_letter(letter: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.letter() == letter)
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bank => "bank",
            Self::Lesson => "lesson",
            Self::Log => "run log",
            Self::Note => "note",
            Self::Record => "record",
            Self::Setting => "setting",
            Self::Run => "run",
        })
    }
}

/// Where a frame lives. Values arrive in ascending numbers: random keys halve sled's rate and grow its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// What it is.
    pub tree: Tree,
    /// Its arrival number, unique over all trees.
    pub arrival: u64,
    /// Which part of a value that is longer than a frame, from 0.
    pub part: u16,
}

impl Key {
    /// Bytes of a key in sled.
    pub const BYTES: usize = 11;

    /// The first part of a value.
    pub fn first(tree: Tree, arrival: u64) -> Self {
        Self { tree, arrival, part: 0 }
    }

    /// The key in sled: letter, arrival and part, big-endian, so that sled sorts by arrival.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[0] = self.tree.letter();
        out[1..9].copy_from_slice(&self.arrival.to_be_bytes());
        out[9..].copy_from_slice(&self.part.to_be_bytes());
        out
    }

    /// Reads a key; `None` if it is not one of ours.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let (letter, rest) = bytes.split_first()?;
        let (arrival, part) = rest.split_first_chunk::<8>()?;
        Some(Self {
            tree: Tree::from_letter(*letter)?,
            arrival: u64::from_be_bytes(*arrival),
            part: u16::from_be_bytes(part.try_into().ok()?),
        })
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.tree, self.arrival)?;
        if self.part > 0 {
            write!(f, " part {}", self.part)?;
        }
        Ok(())
    }
}

/// Whether a frame holds a value or says that one was erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A value.
    Value,
    /// The value that was here is gone on purpose.
    Erased,
}

/// A frame whose hash is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Where it belongs.
    pub key: Key,
    /// Value or erased.
    pub kind: Kind,
    /// Parts of the whole value, from 1.
    pub parts: u16,
    /// Of two frames with one key the higher generation holds.
    pub generation: u64,
    /// The bytes.
    pub payload: &'a [u8],
}

/// Why bytes are not a good frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// No frame starts here, or its header makes no sense.
    #[error("not a frame")]
    Header,
    /// The bytes end before the frame does, or go on after it.
    #[error("a frame of the wrong length")]
    Length,
    /// The hash does not fit: bytes have changed.
    #[error("the hash does not fit the bytes")]
    Hash,
    /// The frame belongs under another key.
    #[error("the frame of another key")]
    Key,
}

impl Frame<'_> {
    /// The bytes on disk. The payload must be at most [`MAX_PART_BYTES`]; [`split`] sees to it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len());
        self.append(&mut out);
        out
    }

    /// Bytes on disk.
    pub(crate) fn len(&self) -> usize {
        HEADER_BYTES + self.payload.len()
    }

    /// Appends the bytes on disk.
    pub(crate) fn append(&self, out: &mut Vec<u8>) {
        debug_assert!(self.payload.len() <= MAX_PART_BYTES);
        let mut head = [0; HASHED_HEADER_BYTES];
        head[..4].copy_from_slice(&MAGIC);
        head[4] = self.key.tree.letter();
        head[5] = u8::from(self.kind == Kind::Erased);
        head[6..8].copy_from_slice(&self.key.part.to_le_bytes());
        head[8..10].copy_from_slice(&self.parts.to_le_bytes());
        head[10..18].copy_from_slice(&self.key.arrival.to_le_bytes());
        head[18..26].copy_from_slice(&self.generation.to_le_bytes());
        head[26..].copy_from_slice(&(self.payload.len() as u32).to_le_bytes());
        out.extend_from_slice(&head);
        out.extend_from_slice(&hash(&head, self.payload));
        out.extend_from_slice(self.payload);
    }
}

impl<'a> Frame<'a> {
    /// Reads the value that sled holds under `key`: exactly one good frame of that key.
    pub fn read(key: Key, bytes: &'a [u8]) -> Result<Self, FrameError> {
        let frame = Self::at_start(bytes)?;
        if HEADER_BYTES + frame.payload.len() != bytes.len() {
            return Err(FrameError::Length);
        }
        if frame.key != key {
            return Err(FrameError::Key);
        }
        Ok(frame)
    }

    /// Reads a frame at the start of `bytes`, whatever follows it.
    pub fn at_start(bytes: &'a [u8]) -> Result<Self, FrameError> {
        let frame = Self::unchecked(bytes)?;
        let (head, _) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(FrameError::Length)?;
        if hash(&head[..HASHED_HEADER_BYTES], frame.payload) != head[HASHED_HEADER_BYTES..] {
            return Err(FrameError::Hash);
        }
        Ok(frame)
    }

    /// Reads a frame at the start of `bytes` without looking at its hash: to pass over it.
    pub(crate) fn unchecked(bytes: &'a [u8]) -> Result<Self, FrameError> {
        let (head, rest) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(FrameError::Length)?;
        if head[..4] != MAGIC {
            return Err(FrameError::Header);
        }
        let tree = Tree::from_letter(head[4]).ok_or(FrameError::Header)?;
        let kind = match head[5] {
            0 => Kind::Value,
            1 => Kind::Erased,
            _ => return Err(FrameError::Header),
        };
        let part = u16::from_le_bytes([head[6], head[7]]);
        let parts = u16::from_le_bytes([head[8], head[9]]);
        if part >= parts {
            return Err(FrameError::Header);
        }
        let arrival = u64_at(head, 10);
        let generation = u64_at(head, 18);
        let len = u32::from_le_bytes([head[26], head[27], head[28], head[29]]) as usize;
        if len > MAX_PART_BYTES {
            return Err(FrameError::Header);
        }
        let payload = rest.get(..len).ok_or(FrameError::Length)?;
        Ok(Self { key: Key { tree, arrival, part }, kind, parts, generation, payload })
    }
}

fn u64_at(head: &[u8; HEADER_BYTES], at: usize) -> u64 {
    let mut out = [0; 8];
    out.copy_from_slice(&head[at..at + 8]);
    u64::from_le_bytes(out)
}

fn hash(head: &[u8], payload: &[u8]) -> [u8; 32] {
    *blake3::Hasher::new_keyed(HASH_KEY).update(head).update(payload).finalize().as_bytes()
}

/// Cuts a value into parts and frames them, first part first. `None` if it is longer than 65,535 parts (537 MB of a run).
pub fn split(tree: Tree, arrival: u64, generation: u64, value: &[u8]) -> Option<Vec<(Key, Vec<u8>)>> {
    let most = if tree == Tree::Run { RUN_PART_BYTES } else { MAX_PART_BYTES };
    let parts = u16::try_from(value.len().div_ceil(most).max(1)).ok()?;
    let mut chunks = value.chunks(most);
    let frames = (0..parts).map(|part| {
        let key = Key { tree, arrival, part };
        let payload = chunks.next().unwrap_or_default();
        (key, Frame { key, kind: Kind::Value, parts, generation, payload }.to_bytes())
    });
    Some(frames.collect())
}

/// The key in sled of the pack whose lowest arrival number is `first`.
pub fn pack_key(first: u64) -> [u8; Key::BYTES] {
    let mut out = [0; Key::BYTES];
    out[0] = PACK_LETTER;
    out[1..9].copy_from_slice(&first.to_be_bytes());
    out
}

/// The lowest arrival number of the pack under a key in sled; `None` if the key is not a pack's.
pub fn pack_first(raw_key: &[u8]) -> Option<u64> {
    let raw_key: &[u8; Key::BYTES] = raw_key.try_into().ok()?;
    let (head, rest) = raw_key.split_first_chunk::<9>()?;
    let (letter, first) = head.split_first()?;
    (*letter == PACK_LETTER && rest == [0, 0]).then(|| u64::from_be_bytes(first.try_into().unwrap_or_default()))
}

/// A piece of a pack: a good frame, or what is wrong where one should be and which one it seems to be.
pub(crate) type Piece<'a> = Result<Frame<'a>, (Option<Key>, FrameError)>;

/// The frames of a pack in order, each checked. Behind a damaged one it goes on at the next good one.
pub(crate) fn unpack(bytes: &[u8]) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let checked = Frame::at_start(rest);
        let skip = match (&checked, Frame::unchecked(rest)) {
            (Ok(frame), _) => frame.len(),
            // Its length may be what is damaged.
            (Err(_), Ok(frame)) if rest.len() == frame.len() || Frame::at_start(&rest[frame.len()..]).is_ok() => {
                frame.len()
            }
            (Err(_), _) => carve(&rest[1..]).next().map_or(rest.len(), |(at, _)| at + 1),
        };
        let key = Frame::unchecked(rest).ok().map(|frame| frame.key);
        rest = &rest[skip..];
        Some(checked.map_err(|e| (key, e)))
    })
}

/// The frame of `key` in a pack, checked; `None` if the pack does not hold it.
pub(crate) fn find(pack: &[u8], key: Key) -> Result<Option<Frame<'_>>, FrameError> {
    let mut rest = pack;
    while let Ok(frame) = Frame::unchecked(rest) {
        if frame.key == key {
            return Frame::at_start(rest).map(Some);
        }
        rest = &rest[frame.len()..];
    }
    // A damaged length led astray, or it is not here.
    let found = carve(pack).map(|(_, frame)| frame).find(|frame| frame.key == key);
    if found.is_none() && !rest.is_empty() { Err(FrameError::Header) } else { Ok(found) }
}

/// Puts frames of ascending arrival numbers into packs.
#[derive(Debug, Default)]
pub(crate) struct Packer {
    first: u64,
    bytes: Vec<u8>,
}

impl Packer {
    /// Adds a frame. Returns a pack that had no room for it, with its lowest arrival number.
    pub fn push(&mut self, frame: &Frame<'_>) -> Option<(u64, Vec<u8>)> {
        let full = if self.bytes.len() + frame.len() > MAX_PACK_BYTES { self.take() } else { None };
        if self.bytes.is_empty() {
            self.first = frame.key.arrival;
            self.bytes.reserve(MAX_PACK_BYTES.min(8 * frame.len()));
        }
        frame.append(&mut self.bytes);
        full
    }

    /// The pack that is not full yet, if anything is in it.
    pub fn take(&mut self) -> Option<(u64, Vec<u8>)> {
        let bytes = std::mem::take(&mut self.bytes);
        (!bytes.is_empty()).then_some((self.first, bytes))
    }
}

/// All good frames in raw bytes, with where each starts. Bytes between frames are passed over.
pub fn carve(bytes: &[u8]) -> impl Iterator<Item = (usize, Frame<'_>)> {
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let rest = bytes.get(from..)?;
            let start = from + rest.windows(MAGIC.len()).position(|w| w == MAGIC)?;
            if let Ok(frame) = Frame::at_start(&bytes[start..]) {
                from = start + HEADER_BYTES + frame.payload.len();
                return Some((start, frame));
            }
            from = start + 1;
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn framed(payload: &[u8]) -> (Key, Vec<u8>) {
        let key = Key { tree: Tree::Record, arrival: 7, part: 0 };
        (key, Frame { key, kind: Kind::Value, parts: 1, generation: 3 << 32, payload }.to_bytes())
    }

    #[test]
    fn a_frame_reads_back_under_its_own_key_only() {
        let (key, bytes) = framed(b"hello");
        let frame = Frame::read(key, &bytes).unwrap();
        assert_eq!((frame.payload, frame.generation), (&b"hello"[..], 3 << 32));
        assert_eq!(Frame::read(Key { arrival: 8, ..key }, &bytes), Err(FrameError::Key));
    }

    #[test]
    fn any_flipped_bit_or_cut_is_noticed() {
        let (key, bytes) = framed(b"some payload");
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut bad = bytes.clone();
                bad[at] ^= 1 << bit;
                assert!(Frame::read(key, &bad).is_err(), "byte {at} bit {bit}");
            }
            assert!(Frame::read(key, &bytes[..at]).is_err(), "cut at {at}");
        }
        assert!(Frame::read(key, &[bytes, vec![0]].concat()).is_err());
    }

    #[test]
    fn keys_sort_by_tree_and_arrival() {
        let mut keys: Vec<Key> = [300u64, 2, 70_000]
            .into_iter()
            .flat_map(|arrival| [Key { tree: Tree::Run, arrival, part: 256 }, Key::first(Tree::Lesson, arrival)])
            .collect();
        keys.sort();
        let mut bytes: Vec<_> = keys.iter().map(|k| k.to_bytes()).collect();
        assert!(bytes.is_sorted());
        assert!(bytes.drain(..).zip(&keys).all(|(b, k)| Key::from_bytes(&b) == Some(*k)));
        assert_eq!(Key::from_bytes(b"zz"), None);
    }

    #[test]
    fn a_long_value_is_cut_into_parts_under_the_limit() {
        let value = vec![9u8; 3 * RUN_PART_BYTES + 1];
        let frames = split(Tree::Run, 1, 1, &value).unwrap();
        assert_eq!(frames.len(), 4);
        assert!(frames.iter().all(|(_, f)| f.len() <= MAX_FRAME_BYTES && f.len() < 32 * 1024));
        assert_eq!(split(Tree::Run, 1, 1, &[]).unwrap().len(), 1);
    }

    fn pack(payloads: &[&[u8]]) -> Vec<u8> {
        let mut packer = Packer::default();
        for (n, payload) in payloads.iter().enumerate() {
            let key = Key::first(Tree::Record, 10 + n as u64);
            let frame = Frame { key, kind: Kind::Value, parts: 1, generation: 1, payload };
            assert_eq!(packer.push(&frame), None);
        }
        let (first, bytes) = packer.take().unwrap();
        assert_eq!(pack_first(&pack_key(first)), Some(10));
        bytes
    }

    #[test]
    fn a_pack_gives_each_frame_back_and_none_that_it_does_not_hold() {
        let bytes = pack(&[b"one", b"", b"three"]);
        let payloads: Vec<&[u8]> = unpack(&bytes).map(|frame| frame.unwrap().payload).collect();
        assert_eq!(payloads, [&b"one"[..], b"", b"three"]);
        for (arrival, wanted) in [(9, None), (10, Some(&b"one"[..])), (12, Some(b"three")), (13, None)] {
            let found = find(&bytes, Key::first(Tree::Record, arrival)).unwrap();
            assert_eq!(found.map(|frame| frame.payload), wanted, "{arrival}");
        }
        assert_eq!(pack_first(&Key::first(Tree::Record, 10).to_bytes()), None);
    }

    #[test]
    fn a_pack_is_cut_before_it_grows_too_long() {
        let payload = vec![7; MAX_PART_BYTES / 3];
        let mut packer = Packer::default();
        let frame = |arrival| Frame {
            key: Key::first(Tree::Lesson, arrival),
            kind: Kind::Value,
            parts: 1,
            generation: 1,
            payload: &payload,
        };
        let mut packs: Vec<_> = (0..10).filter_map(|n| packer.push(&frame(n))).collect();
        packs.extend(packer.take());
        assert!(packs.iter().all(|(_, bytes)| bytes.len() <= MAX_PACK_BYTES));
        assert_eq!(packs.iter().map(|(first, _)| *first).collect::<Vec<_>>(), [0, 2, 4, 6, 8]);
    }

    #[test]
    fn damage_in_a_pack_costs_the_frame_that_it_hit_and_no_other() {
        let good = pack(&[b"one", b"two", b"three"]);
        for at in 0..good.len() {
            let mut bytes = good.clone();
            bytes[at] ^= 0x10;
            let hit = (at / (HEADER_BYTES + 3)).min(2);
            let held: Vec<u64> = unpack(&bytes).filter_map(|p| p.ok()).map(|f| f.key.arrival - 10).collect();
            let wanted: Vec<u64> = (0..3).filter(|n| *n != hit as u64).collect();
            assert_eq!(held, wanted, "byte {at}");
            assert_eq!(unpack(&bytes).filter(|p| p.is_err()).count(), 1, "byte {at}");
            for n in wanted {
                assert!(find(&bytes, Key::first(Tree::Record, 10 + n)).is_ok_and(|f| f.is_some()), "byte {at}, {n}");
            }
        }
    }

    proptest! {
        #[test]
        fn carving_finds_frames_between_rubbish(
            payloads in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..90), 1..6),
            rubbish in "[FLB\\x01x]{0,12}",
        ) {
            let mut raw = rubbish.clone().into_bytes();
            for payload in &payloads {
                raw.extend(framed(payload).1);
                raw.extend_from_slice(rubbish.as_bytes());
            }
            let found: Vec<Vec<u8>> = carve(&raw).map(|(_, f)| f.payload.to_vec()).collect();
            prop_assert_eq!(found, payloads);
        }
    }
}
