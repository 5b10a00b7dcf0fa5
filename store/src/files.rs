//! This crate's own files as bytes, for the tests and fuzz targets that damage them: each function reads what a file or a value
//! of the database says, and gives it as it would be written now. No part of what the crate offers.

use std::ops::Range;

use folklore_protocol::{AuthorId, canonical};

use crate::{
    bank::{logs, summary},
    catalogue::stored,
    index::{
        dense::{head, log},
        lexical::LexicalIndex,
    },
    jobs::Job,
    runs::log::{Entry, RunInfo},
    sections::Sections,
};

/// What the catalogue's file begins with.
pub const CATALOGUE_MAGIC: &[u8; 8] = stored::MAGIC;

/// The facts of a bank's summary file; `None` if it was not closed in good order, or makes no sense.
#[must_use]
pub fn summary(bytes: &[u8]) -> Option<Vec<u8>> {
    summary::reread(bytes)
}

/// The facts of one block of such a file, without its hash.
#[must_use]
pub fn summary_block(body: &[u8]) -> Option<Vec<u8>> {
    summary::reread_block(body)
}

/// Where the sections of a file are; `None` if it is damaged, or begins with something else.
#[must_use]
pub fn sections(bytes: &[u8], magic: &[u8; 8]) -> Option<Vec<Range<usize>>> {
    Sections::of(bytes.to_vec(), magic).map(|file| file.ranges().to_vec())
}

/// What the sections of a catalogue's file of node `me` say: its index of words, how many lessons, how many records about them.
#[must_use]
pub fn catalogue(sections: &[&[u8]], me: &AuthorId) -> Option<(LexicalIndex, usize, usize)> {
    stored::look(Sections::held(sections), me)
}

/// The index that sections of words make.
#[must_use]
pub fn words(sections: &[&[u8]]) -> Option<LexicalIndex> {
    LexicalIndex::open(Sections::held(sections).into(), 0)
}

/// The head of an index of vectors.
#[must_use]
pub fn vector_head(bytes: &[u8]) -> Option<Vec<u8>> {
    head::reread(bytes)
}

/// The frames of a log of vectors of `dim` components that are whole, and how many bytes follow them.
#[must_use]
pub fn vector_log(bytes: &[u8], dim: usize) -> (Vec<u8>, usize) {
    log::reread(bytes, dim)
}

/// A job of the queue.
#[must_use]
pub fn job(bytes: &[u8]) -> Option<Vec<u8>> {
    Job::from_bytes(bytes).ok().map(|job| canonical::encode(&job))
}

/// An entry of the log of a run under way.
#[must_use]
pub fn run_log_entry(bytes: &[u8]) -> Option<Vec<u8>> {
    Entry::from_bytes(bytes).ok().map(|entry| entry.to_bytes())
}

/// The runs that entries make, met in this order when a bank is opened.
#[must_use]
pub fn run_log(entries: &[&[u8]]) -> Vec<RunInfo> {
    logs::put_together(entries.iter().copied())
}
