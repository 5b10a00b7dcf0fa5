//! Reads finished runs from the trajectory files of other projects.
//!
//! Two things are kept apart: the **container** (one document, an array of items, JSON lines), which is found from the
//! first bytes, and the **format** of an item, which is found from the names of its fields and never from the file's
//! name. A file is read item by item: one bad item is skipped with its reason and the others still come.
//!
//! One file a format. A format says which field names it knows itself by and turns one item's bytes into a
//! [`Run`]; it does no I/O.

mod aider;
mod any_agent;
mod arguments;
mod atif;
mod blobs;
mod chat;
mod claude_code;
mod codex;
mod cq;
mod detect;
mod dynamic_cheatsheet;
mod gsm8k;
mod inspect_ai;
mod langfuse;
mod lats;
mod memento;
mod mini_swe_agent;
mod openhands;
mod otlp;
pub mod outcomes;
mod parts;
mod playbook;
mod reader;
mod reasoning_bank;
mod reflexion;
mod session;
mod skillrl;
mod spans;
mod split;
mod swe_agent;
mod tau_bench;
mod walk;
mod who_and_when;
mod words;
mod workflow;

pub use outcomes::{Outcomes, OutcomesError};
pub use parts::{BankLesson, IMPORTED};
pub use split::MAX_VALUE_BYTES;
pub use walk::{Found, MAX_WALK_DEPTH, MAX_WALK_FILES, expand};

use detect::Container;
use folklore_store::run::Run;
use parts::{Gather, Parts};
use reader::{Counted, Reader};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, Seek};
use std::ops::ControlFlow;
use std::path::Path;

/// Read buffer of one file, bytes.
const BUFFER_BYTES: usize = 256 * 1024;

/// A trajectory format.
#[derive(Debug)]
pub struct Format {
    /// The word for `--format`.
    pub name: &'static str,
    /// What files of it look like, for `folklore formats`.
    pub shape: &'static str,
    /// What is in them.
    pub gives: Gives,
    /// Written from a description, without having seen the producer's own files.
    pub from_description: bool,
    detect: Detect,
    read: Read,
}

/// What a format holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Gives {
    /// Runs, from which lessons are drawn here.
    Runs,
    /// Lessons that another system drew or that somebody wrote.
    Lessons,
    /// Both.
    Both,
}

/// How a format is recognised.
#[derive(Debug, Clone, Copy)]
enum Detect {
    /// By the field names of one item.
    Fields(fn(&BTreeSet<&str>) -> bool),
    /// By the first lines of a text that is not JSON.
    Lines(fn(&str) -> bool),
}

/// How a format's items are read. Functions that get a text beside the bytes get the file's name, as a last hint.
#[derive(Debug, Clone, Copy)]
enum Read {
    /// One item is one run, or why it is none.
    Run(fn(&[u8], &str) -> Result<Run, String>),
    /// One item holds several runs or lessons.
    Several(fn(&[u8], &str, &mut Parts) -> Result<(), String>),
    /// Items that belong together, such as the lines of one session.
    Together(fn(&str) -> Box<dyn Gather>),
    /// A text that is no JSON, line by line.
    Text(fn(&str) -> Box<dyn Gather>),
}

/// Every format this build reads, in the order in which they are tried.
#[must_use]
pub fn formats() -> &'static [Format] {
    const FORMATS: &[Format] = &[
        mini_swe_agent::FORMAT,
        swe_agent::FORMAT,
        openhands::EVENTS,
        openhands::OUTPUT,
        tau_bench::FORMAT,
        reflexion::FORMAT,
        lats::FORMAT,
        who_and_when::FORMAT,
        claude_code::FORMAT,
        aider::FORMAT,
        otlp::FORMAT,
        any_agent::FORMAT,
        langfuse::FORMAT,
        inspect_ai::FORMAT,
        gsm8k::SOLUTIONS,
        skillrl::FORMAT,
        playbook::FORMAT,
        workflow::AWM,
        memento::FORMAT,
        dynamic_cheatsheet::FORMAT,
        cq::FORMAT,
        gsm8k::SOCRATIC,
        reasoning_bank::FORMAT,
        workflow::WEBARENA,
        atif::FORMAT,
        codex::FORMAT,
    ];
    FORMATS
}

/// The format of this name.
pub fn by_name(name: &str) -> Result<&'static Format, FileError> {
    formats()
        .iter()
        .find(|format| format.name == name)
        .ok_or_else(|| FileError::NoSuchFormat { name: name.to_owned(), known: known() })
}

/// How to read.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadOptions<'a> {
    /// Read as this format whatever the content looks like.
    pub format: Option<&'static Format>,
    /// Labels for runs whose files have none.
    pub outcomes: Option<&'a Outcomes>,
    /// Where to keep account of the bytes read so far; the sink may look at it.
    pub position: Option<&'a Cell<u64>>,
}

/// One item of a file.
#[derive(Debug)]
pub enum Item {
    /// A run, tidied.
    Run(Box<Run>),
    /// A lesson of another system's bank, checked.
    Lesson(Box<BankLesson>),
    /// An item that could not be read; the rest of the file goes on.
    Skipped {
        /// Which one, e.g. `item 3`.
        item: String,
        /// Why, in one line.
        reason: String,
    },
}

/// What a file held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSummary {
    /// Name of the format.
    pub format: &'static str,
    /// Runs handed on.
    pub runs: usize,
    /// Lessons handed on.
    pub lessons: usize,
    /// Items skipped.
    pub skipped: usize,
    /// Runs that took their label from the table.
    pub labelled: usize,
}

/// Why a file gave nothing. Items that were handed on before stay handed on.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be opened or read.
    #[error("cannot read {file}: {reason}")]
    Unreadable {
        /// File name.
        file: String,
        /// What the system said.
        reason: String,
    },
    /// It is a directory, a device or a pipe.
    #[error("{file} is not a regular file")]
    NotAFile {
        /// File name.
        file: String,
    },
    /// A directory with nothing in it that can be read.
    #[error("no run file is in {file}: runs are read from *.json, *.jsonl, *.traj, *.md and *.txt files")]
    NoFiles {
        /// Name of the directory.
        file: String,
    },
    /// It has no bytes, or only white space.
    #[error("{file} is empty")]
    Empty {
        /// File name.
        file: String,
    },
    /// It is not text.
    #[error("{file} is not a text file")]
    Binary {
        /// File name.
        file: String,
    },
    /// It is a packed archive.
    #[error("{file} is a zip archive: unpack it first (a log of inspect_ai with 'inspect log convert --to json')")]
    Zip {
        /// File name.
        file: String,
    },
    /// It is JSON, but not one of the formats; or not JSON at all.
    #[error("{file}: {reason}; 'folklore formats' lists what is read (--format NAME to insist on one)")]
    UnknownFormat {
        /// File name.
        file: String,
        /// What was found instead.
        reason: String,
    },
    /// A label table or another file that lies beside runs and holds none.
    #[error("{file}: not a run file ({what})")]
    NotARunFile {
        /// File name.
        file: String,
        /// What it is.
        what: String,
    },
    /// Nothing in it could be read.
    #[error("{file}: {reason}")]
    Broken {
        /// File name.
        file: String,
        /// The first reason.
        reason: String,
    },
    /// `--format` names no format.
    #[error("no format is called {name:?}; known formats: {known}")]
    NoSuchFormat {
        /// What was asked for.
        name: String,
        /// The formats of this build.
        known: String,
    },
}

impl FileError {
    /// Whether the file only lies beside runs, so that passing over it in a directory is no fault.
    #[must_use]
    pub fn is_side_file(&self) -> bool {
        matches!(self, Self::NotARunFile { .. })
    }

    /// Whether nothing in the file is of a known format.
    fn is_unknown(&self) -> bool {
        matches!(self, Self::UnknownFormat { .. } | Self::Empty { .. } | Self::Binary { .. })
    }
}

/// Reads a file's runs into `sink`, in order, until the end or until `sink` breaks.
pub fn read_path(
    path: &Path,
    options: &ReadOptions<'_>,
    sink: &mut dyn FnMut(Item) -> ControlFlow<()>,
) -> Result<FileSummary, FileError> {
    let file = file_name(path);
    let unreadable = |error: io::Error| FileError::Unreadable { file: file.clone(), reason: error.to_string() };
    // A directory or a pipe: opening a pipe would wait for a writer.
    if !path.metadata().map_err(unreadable)?.is_file() {
        return Err(FileError::NotAFile { file });
    }
    let mut open = File::open(path).map_err(unreadable)?;
    let insists = options.format.is_some_and(|format| matches!(format.read, Read::Text(_)));
    let (container, text_format) = detect::container(&mut open, &file, insists)?;
    open.rewind().map_err(unreadable)?;
    let format = match (options.format, text_format) {
        (Some(format), _) | (None, Some(format)) => format,
        (None, None) => detect::format(container, &mut open, &file)?,
    };
    open.rewind().map_err(unreadable)?;
    let input = BufReader::with_capacity(BUFFER_BYTES, Counted { open, at: options.position });
    let mut reader = Reader::new(&file, format, options, sink);
    match (container, format.read) {
        (_, Read::Text(_)) | (Container::Lines, _) => reader.lines(input).map_err(unreadable)?,
        (Container::Text, _) => return Err(unknown(&file, "it is not JSON")),
        (Container::Array | Container::Document, _) => reader.values(input).map_err(unreadable)?,
    }
    reader.end()
}

fn unknown(file: &str, reason: &str) -> FileError {
    FileError::UnknownFormat { file: file.to_owned(), reason: reason.to_owned() }
}

fn known() -> String {
    formats().iter().map(|format| format.name).collect::<Vec<_>>().join(", ")
}

/// A path's last part for messages and sources: directories would tell where the importer keeps its files.
pub(crate) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Values that one item may hold. A decoded value takes tens of bytes however short it is written, so an item within
/// [`MAX_VALUE_BYTES`] could otherwise need gigabytes; the largest real items have a few hundred thousand.
const MAX_ITEM_VALUES: usize = 2_000_000;

/// Decodes one item, with an error that a person can act on.
fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String> {
    // Each value but the last of its list or object is followed by a comma; commas in texts count too, which is no harm.
    if bytes.iter().filter(|byte| **byte == b',').count() > MAX_ITEM_VALUES {
        return Err(format!("it holds more than {MAX_ITEM_VALUES} values"));
    }
    if let Err(error) = std::str::from_utf8(bytes) {
        return Err(format!("not UTF-8 at byte {}", error.valid_up_to()));
    }
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}
