//! Finds a file's container and format from its content.

use super::split::{self, Piece, Splitter};
use super::{BUFFER_BYTES, Detect, FileError, Format, formats, unknown};
use folklore_store::run::one_line;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};

/// How many items or lines are looked at to find the format: a broken first one must not hide the others.
const SNIFF_ITEMS: usize = 16;
/// Bytes looked at to tell text from binary, and the formats of text from each other.
const SNIFF_BYTES: usize = 64 * 1024;
/// Fields of a label row: an id, a verdict and a few figures.
const MAX_ROW_FIELDS: usize = 12;
/// Fields named in the message about an unknown format.
const SHOWN_FIELDS: usize = 8;

/// How items lie in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Container {
    /// One JSON value over many lines.
    Document,
    /// One array of items.
    Array,
    /// One item a line.
    Lines,
    /// A text that is no JSON.
    Text,
}

/// Tells the container from the first bytes and lines.
///
/// Also the format, where it is one of text. `insists` says that the file is to be read as text whatever it looks like.
pub(super) fn container(
    open: &mut File,
    file: &str,
    insists: bool,
) -> Result<(Container, Option<&'static Format>), FileError> {
    let unreadable = |error: io::Error| FileError::Unreadable { file: file.to_owned(), reason: error.to_string() };
    let mut head = Vec::new();
    open.take(SNIFF_BYTES as u64).read_to_end(&mut head).map_err(unreadable)?;
    if head.starts_with(b"PK\x03\x04") {
        return Err(FileError::Zip { file: file.to_owned() });
    }
    if head.contains(&0) {
        return Err(FileError::Binary { file: file.to_owned() });
    }
    if let Err(error) = std::str::from_utf8(&head) {
        // The head may end inside a character; anything earlier is not UTF-8. Only a file that does not even start
        // like JSON is called binary: one bad byte inside an item spoils that item.
        let early = error.error_len().is_some();
        if early && !matches!(first_byte(&head), Some(b'[' | b'{')) {
            return Err(FileError::Binary { file: file.to_owned() });
        }
    }
    let first = match first_byte(&head) {
        Some(byte) => Some(byte),
        None => {
            open.rewind().map_err(unreadable)?;
            Splitter::new(BufReader::new(&mut *open)).map_err(unreadable)?.1
        }
    };
    match first {
        None => {
            return Err(FileError::Empty { file: file.to_owned() });
        }
        Some(_) if insists => return Ok((Container::Text, None)),
        Some(b'{') => {}
        Some(first) => {
            // A list in a text may begin with a bracket, too.
            let text = text_format(&head);
            if text.is_some() {
                return Ok((Container::Text, text));
            }
            if first == b'[' {
                return Ok((Container::Array, None));
            }
        }
    }
    // Objects one a line, or one object over many lines: in the second case no line that begins at its margin is an
    // object by itself with the field names of a run, unless the file is one line, and then both readings are the same.
    // A first line that is no object may still be one broken line among good ones.
    open.rewind().map_err(unreadable)?;
    let mut input = BufReader::new(open);
    for at in 0..SNIFF_ITEMS {
        match split::next_line(&mut input).map_err(unreadable)? {
            None => break,
            Some(Err(_)) => continue,
            Some(Ok(line)) => {
                let line = strip_bom(&line);
                if field_names(line).is_some_and(|names| at == 0 || (line.starts_with(b"{") && names.len() > 2)) {
                    return Ok((Container::Lines, None));
                }
            }
        }
    }
    match first {
        Some(b'{') => Ok((Container::Document, None)),
        _ => Err(unknown(file, "it is not JSON")),
    }
}

/// The format of a text that is no JSON, from its first lines.
fn text_format(head: &[u8]) -> Option<&'static Format> {
    let head = String::from_utf8_lossy(strip_bom(head));
    formats().iter().find(|format| matches!(format.detect, Detect::Lines(detect) if detect(&head)))
}

/// The first byte that is neither white space nor part of a byte order mark.
fn first_byte(head: &[u8]) -> Option<u8> {
    strip_bom(head).iter().copied().find(|byte| !byte.is_ascii_whitespace())
}

pub(super) fn strip_bom(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

/// Looks at the first items for one whose field names a format knows.
pub(super) fn format(container: Container, open: &mut File, file: &str) -> Result<&'static Format, FileError> {
    let unreadable = |error: io::Error| FileError::Unreadable { file: file.to_owned(), reason: error.to_string() };
    let mut input = BufReader::with_capacity(BUFFER_BYTES, open);
    let mut first_reason = None;
    let mut consider = |item: Result<&[u8], String>| match item.and_then(|bytes| name(bytes, file)) {
        Ok(found) => Some(found),
        Err(reason) => {
            first_reason.get_or_insert(reason);
            None
        }
    };
    match container {
        Container::Lines => {
            for _ in 0..SNIFF_ITEMS {
                let Some(line) = split::next_line(&mut input).map_err(unreadable)? else {
                    break;
                };
                let line = line.as_deref().map(strip_bom).map_err(String::clone);
                if line.as_ref().is_ok_and(|line| line.iter().all(u8::is_ascii_whitespace)) {
                    continue;
                }
                if let Some(found) = consider(line) {
                    return found;
                }
            }
        }
        Container::Text => {}
        Container::Array | Container::Document => {
            let (mut splitter, _) = Splitter::new(input).map_err(unreadable)?;
            for _ in 0..SNIFF_ITEMS {
                let found = match splitter.next().map_err(unreadable)? {
                    Some(Piece::Value(bytes)) => consider(Ok(&bytes)),
                    Some(Piece::Broken(reason) | Piece::Truncated(reason)) => consider(Err(reason)),
                    None => break,
                };
                if let Some(found) = found {
                    return found;
                }
            }
        }
    }
    Err(unknown(file, first_reason.as_deref().unwrap_or("it has no items")))
}

/// The format of one item, or that the file is no run file; else why the item says nothing.
fn name(bytes: &[u8], file: &str) -> Result<Result<&'static Format, FileError>, String> {
    let Some(names) = field_names(bytes) else {
        return Err(match serde_json::from_slice::<&RawValue>(bytes) {
            Err(error) => format!("it is not JSON ({error})"),
            Ok(_) => "its items are not objects".to_owned(),
        });
    };
    let names: BTreeSet<&str> = names.keys().map(String::as_str).collect();
    if let Some(format) =
        formats().iter().find(|format| matches!(format.detect, Detect::Fields(detect) if detect(&names)))
    {
        return Ok(Ok(format));
    }
    if is_label_row(&names) {
        let what = "a table of labels; give it to --outcomes".to_owned();
        return Ok(Err(FileError::NotARunFile { file: file.to_owned(), what }));
    }
    let shown: Vec<&str> = names.into_iter().take(SHOWN_FIELDS).collect();
    Err(one_line(&format!("not a known format: its fields are {}", shown.join(", "))))
}

/// A row of `outcomes.json`: an id and a verdict, and nothing of what was done.
fn is_label_row(names: &BTreeSet<&str>) -> bool {
    let id = ["instance_id", "task_id", "id"].iter().any(|name| names.contains(name));
    let verdict = ["resolved", "success", "is_success", "passed"].iter().any(|name| names.contains(name));
    let report = names.contains("resolved_ids");
    (id && verdict && names.len() <= MAX_ROW_FIELDS) || report
}

/// The names of an object's fields, without decoding the fields; `None` when it is not an object.
fn field_names(bytes: &[u8]) -> Option<BTreeMap<String, &RawValue>> {
    serde_json::from_slice(bytes).ok()
}
