//! What reads the bank's own files in `folklore-store`.
//!
//! Most of them carry hashes that no fuzzer guesses. So their targets also put the right hashes around whatever came: as if
//! a disk, or this code, had damaged a file and its hashes had let it pass.

use folklore_protocol::AuthorId;
use folklore_store::{
    files,
    frame::{Frame, Key, carve},
    index::lexical::{LexicalIndex, LexicalQuery},
    redact::Allow,
};

/// A function that takes any bytes, and its name.
pub type Target = (&'static str, fn(&[u8]));

/// Every target here.
pub const TARGETS: &[Target] = &[
    ("frame", frame),
    ("summary", summary),
    ("sections", sections),
    ("catalogue", catalogue),
    ("vectors", vectors),
    ("job", job),
    ("run_log", run_log),
    ("allow", allow),
];

/// Whose catalogue [`catalogue`] reads.
pub const ME: AuthorId = AuthorId([5; 32]);
/// Sections of a file of [`sections`] at most, and one more than a file may have.
const SECTIONS_TRIED: usize = 65;

/// A damaged database file, carved; and one frame alone.
pub fn frame(bytes: &[u8]) {
    let mut end = 0;
    for (start, frame) in carve(bytes) {
        assert!(start >= end, "frames do not overlap");
        let written = frame.to_bytes();
        end = start + written.len();
        assert_eq!(bytes.get(start..end), Some(&written[..]), "a frame has one encoding");
        assert_eq!(Frame::read(frame.key, &written).ok(), Some(frame));
    }
    if let Some(key) = Key::from_bytes(bytes) {
        assert_eq!(&key.to_bytes()[..], bytes);
    }
}

/// A bank's summary: a whole file, and a block of facts.
pub fn summary(bytes: &[u8]) {
    let facts = [files::summary(bytes), files::summary_block(bytes)];
    for facts in facts.into_iter().flatten() {
        assert_eq!(files::summary_block(&facts), Some(facts), "facts are read as they are written");
    }
}

/// A file of sections; and one whose hashes are right: a byte for how many sections, 16 bytes with the ends of each, the rest
/// is what they lie in.
pub fn sections(bytes: &[u8]) {
    const MAGIC: &[u8; 8] = b"FLFUZZ01";
    if let Some(ranges) = files::sections(bytes, MAGIC) {
        assert!(ranges.into_iter().all(|range| bytes.get(range).is_some()));
    }
    let Some((count, rest)) = bytes.split_first() else { return };
    let count = usize::from(*count) % (SECTIONS_TRIED + 1);
    let Some((ends, content)) = rest.split_at_checked(16 * count) else { return };
    let body = [MAGIC, content].concat();
    let chunks: Vec<[u8; 32]> = body.chunks(1 << 20).map(|chunk| *blake3::hash(chunk).as_bytes()).collect();
    let counts = [count as u32, chunks.len() as u32].map(u32::to_le_bytes).concat();
    let table = [&counts[..], ends, chunks.as_flattened()].concat();
    let len = body.len() + table.len() + 48;
    let numbers = [body.len() as u64, len as u64].map(u64::to_le_bytes).concat();
    let hash = *blake3::Hasher::new().update(MAGIC).update(&table).update(&numbers).finalize().as_bytes();
    let file = [&body[..], &table, &numbers, &hash].concat();
    let read = files::sections(&file, MAGIC);
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let told: Vec<(u64, u64)> = ends.chunks(16).map(|ends| (number(&ends[..8]), number(&ends[8..]))).collect();
    let within = told.iter().all(|(start, end)| start <= end && *end <= body.len() as u64);
    assert_eq!(read.is_some(), within && count < SECTIONS_TRIED, "a file is read if its sections are in it");
    for (range, told) in read.into_iter().flatten().zip(told) {
        assert_eq!((range.start as u64, range.end as u64), told);
    }
}

/// Pieces, each behind its length in two bytes, little-endian; a cut one ends them.
pub fn pieces(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut out = Vec::new();
    while let Some((len, rest)) = bytes.split_first_chunk::<2>()
        && let Some((piece, rest)) = rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))
    {
        out.push(piece);
        bytes = rest;
    }
    out
}

/// The sections of a catalogue's file, as [`pieces`]; and of words alone.
pub fn catalogue(bytes: &[u8]) {
    let sections = pieces(bytes);
    if let Some((words, lessons, _)) = files::catalogue(&sections, &ME) {
        assert_eq!(words.len(), lessons);
        look(words);
    }
    if let Some(words) = files::words(&sections) {
        look(words);
    }
}

/// Asks an index of words, and goes on from it, as a bank does that was opened again.
fn look(mut words: LexicalIndex) {
    const TEXT: &str = "treat the refund of case3";
    let held = words.len();
    let query = LexicalQuery::new(TEXT);
    let ask = |words: &LexicalIndex, k: usize| {
        let weighed = words.weigh(&query, &[]);
        let found = words.search(&weighed, k, None);
        assert!(found.len() <= k.min(words.len()));
        assert!(found.is_sorted_by(|a, b| a.1 >= b.1), "best first, and each score is a number: {found:?}");
        for (slot, _) in &found {
            assert!((0.0..=1.001).contains(&words.idf_mass_covered(&weighed, *slot)));
        }
    };
    ask(&words, 3);
    ask(&words, held + 1);
    for slot in 0..held.min(4) as u32 {
        assert!(words.bag(slot).is_some());
        assert!(words.remove(slot) && !words.remove(slot));
    }
    words.add(held as u32, &[TEXT]);
    words.add(0, &["another", TEXT]);
    ask(&words, 3);
    let _ = words.packed_bytes();
}

/// The head of an index of vectors, and behind a first byte that says how many components they have (up to 8) its log; then both
/// with the right hashes, and the log's frames as [`pieces`].
pub fn vectors(bytes: &[u8]) {
    let head = [b"FLKVECT1", &(bytes.len() as u32).to_le_bytes()[..], bytes].concat();
    let sealed = [&head[..], blake3::hash(&head).as_bytes()].concat();
    for head in [bytes, &sealed] {
        if let Some(written) = files::vector_head(head) {
            assert_eq!(written, head, "a head has one encoding");
        }
    }
    let Some((dim, rest)) = bytes.split_first() else { return };
    let frame = |payload: &[u8]| {
        [&(payload.len() as u32).to_le_bytes()[..], payload, &blake3::hash(payload).as_bytes()[..8]].concat()
    };
    let sealed: Vec<u8> = pieces(rest).into_iter().flat_map(frame).collect();
    for log in [rest, &sealed] {
        let (written, left) = files::vector_log(log, 1 + usize::from(dim % 8));
        assert_eq!(written, log[..log.len() - left], "a frame has one encoding");
    }
}

/// A slot of the queue.
pub fn job(bytes: &[u8]) {
    if let Some(written) = files::job(bytes) {
        assert_eq!(written, bytes, "a job has one encoding");
    }
}

/// An entry of the log of a run under way; and the runs that entries make, as [`pieces`].
pub fn run_log(bytes: &[u8]) {
    if let Some(written) = files::run_log_entry(bytes) {
        assert_eq!(written, bytes, "an entry has one encoding");
    }
    let entries = pieces(bytes);
    let runs = files::run_log(&entries);
    assert!(runs.len() <= entries.len());
    let steps: usize = runs.iter().filter(|run| run.ended.is_none()).map(|run| run.steps as usize).sum();
    assert!(steps <= entries.len(), "a run has the steps that were read");
}

/// A list of values that are no secrets: the order of its lines is all one.
pub fn allow(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let turned: Vec<&str> = text.lines().rev().collect();
    let (read, turned) = (Allow::parse(text), Allow::parse(&turned.join("\n")));
    assert_eq!(read.is_ok(), turned.is_ok());
    if let Ok(list) = &read {
        assert!(list.len() <= folklore_store::redact::MAX_ALLOWED);
        assert_eq!(read, turned);
    }
}
