//! Reads finished runs from the trajectory files of other projects.
//!
//! Two things are kept apart: the **container** (one document, an array of items, JSON lines), which is found from the
//! first bytes, and the **format** of an item, which is found from the names of its fields and never from the file's
//! name. A file is read item by item: one bad item is skipped with its reason and the others still come.
//!
//! One file a format. A format says which field names it knows itself by and turns one item's bytes into a
//! [`Run`]; it does no I/O.

mod detect;
mod mini_swe_agent;
pub mod outcomes;
mod reasoning_bank;
mod split;
mod tau_bench;
mod walk;

pub use outcomes::{Outcomes, OutcomesError};
pub use split::MAX_VALUE_BYTES;
pub use walk::{Found, MAX_WALK_DEPTH, MAX_WALK_FILES, expand};

use detect::{Container, strip_bom};
use folklore_store::run::Run;
use serde::Deserialize;
use split::{Piece, Splitter};
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
    /// Written from a description, without having seen the producer's own files.
    pub from_description: bool,
    /// Whether an item with these field names is of this format.
    detect: fn(&BTreeSet<&str>) -> bool,
    /// One item as a run, or why it is none. The second argument is the file's name, for formats that need a last hint.
    parse: fn(&[u8], &str) -> Result<Run, String>,
}

/// Every format this build reads, in the order in which they are tried.
#[must_use]
pub fn formats() -> &'static [Format] {
    const FORMATS: &[Format] = &[mini_swe_agent::FORMAT, tau_bench::FORMAT, reasoning_bank::FORMAT];
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
}

/// One item of a file.
#[derive(Debug)]
pub enum Item {
    /// A run, tidied.
    Run(Box<Run>),
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
    /// A directory without anything to read.
    #[error("{file} holds no .json, .jsonl or .traj file")]
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
    /// It is JSON, but not one of the formats; or not JSON at all.
    #[error("{file}: {reason}; known formats: {known} (--format NAME to insist on one)")]
    UnknownFormat {
        /// File name.
        file: String,
        /// What was found instead.
        reason: String,
        /// The formats of this build.
        known: String,
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
    let container = detect::container(&mut open, &file)?;
    open.rewind().map_err(unreadable)?;
    let format = match options.format {
        Some(format) => format,
        None => detect::format(container, &mut open, &file)?,
    };
    open.rewind().map_err(unreadable)?;
    let mut reader =
        Reader { file: &file, format, options, sink, runs: 0, skipped: 0, labelled: 0, first_reason: None };
    let input = BufReader::with_capacity(BUFFER_BYTES, open);
    match container {
        Container::Array | Container::Document => reader.values(input).map_err(unreadable)?,
        Container::Lines => reader.lines(input).map_err(unreadable)?,
    }
    let Reader { runs, skipped, labelled, first_reason, .. } = reader;
    match first_reason {
        // A document is one item: a second line for it would say the same thing twice.
        Some(reason) if container == Container::Document && runs == 0 => Err(FileError::Broken { file, reason }),
        _ => Ok(FileSummary { format: format.name, runs, skipped, labelled }),
    }
}

fn unknown(file: &str, reason: &str) -> FileError {
    FileError::UnknownFormat { file: file.to_owned(), reason: reason.to_owned(), known: known() }
}

fn known() -> String {
    formats().iter().map(|format| format.name).collect::<Vec<_>>().join(", ")
}

/// A path's last part for messages and sources: directories would tell where the importer keeps its files.
fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Reads one file's items into the sink.
struct Reader<'a> {
    file: &'a str,
    format: &'static Format,
    options: &'a ReadOptions<'a>,
    sink: &'a mut dyn FnMut(Item) -> ControlFlow<()>,
    runs: usize,
    skipped: usize,
    labelled: usize,
    /// Why the first item that was skipped was.
    first_reason: Option<String>,
}

impl Reader<'_> {
    fn values(&mut self, input: BufReader<File>) -> io::Result<()> {
        let (mut splitter, first) = Splitter::new(input)?;
        let is_array = first == Some(b'[');
        let mut at = 0;
        while let Some(piece) = splitter.next()? {
            at += 1;
            let name = if is_array { format!("item {at}") } else { String::new() };
            let flow = match piece {
                Piece::Value(bytes) if at > 1 && !is_array => {
                    drop(bytes);
                    let _ = self.skip(format!("text {at}"), "there is more text behind the document".into());
                    ControlFlow::Break(())
                }
                Piece::Value(bytes) => self.item(&bytes, &name),
                Piece::Broken(reason) => self.skip(name, reason),
                Piece::Truncated(reason) => self.skip(name, reason),
            };
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn lines(&mut self, mut input: BufReader<File>) -> io::Result<()> {
        let mut at = 0;
        while let Some(line) = split::next_line(&mut input)? {
            at += 1;
            let name = format!("line {at}");
            let flow = match line {
                Err(reason) => self.skip(name, reason),
                Ok(line) if strip_bom(&line).iter().all(u8::is_ascii_whitespace) => ControlFlow::Continue(()),
                Ok(line) => self.item(strip_bom(&line), &name),
            };
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn item(&mut self, bytes: &[u8], name: &str) -> ControlFlow<()> {
        match (self.format.parse)(bytes, self.file) {
            Err(reason) => self.skip(name.to_owned(), reason),
            Ok(mut run) => {
                run.source = [self.format.name, self.file, name].join(" ").trim_end().to_owned();
                run.tidy();
                if self.options.outcomes.is_some_and(|table| table.label(&mut run)) {
                    self.labelled += 1;
                }
                self.runs += 1;
                (self.sink)(Item::Run(Box::new(run)))
            }
        }
    }

    fn skip(&mut self, item: String, reason: String) -> ControlFlow<()> {
        self.first_reason.get_or_insert_with(|| reason.clone());
        if item.is_empty() {
            // A document that is one item: the file's error says it.
            return ControlFlow::Continue(());
        }
        self.skipped += 1;
        (self.sink)(Item::Skipped { item, reason })
    }
}

/// Decodes one item, with an error that a person can act on.
fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String> {
    if let Err(error) = std::str::from_utf8(bytes) {
        return Err(format!("not UTF-8 at byte {}", error.valid_up_to()));
    }
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}
