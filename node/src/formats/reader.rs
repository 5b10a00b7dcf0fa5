//! Reads one file's items, in order, into the sink: what a format makes of each, its labels, and why an item is none.

use super::detect::strip_bom;
use super::parts::{Gather, Part, Parts};
use super::split::{self, Piece, Splitter};
use super::{BankLesson, FileError, FileSummary, Format, Item, Read, ReadOptions, blobs};
use folklore_protocol::lesson::Lesson;
use folklore_store::run::{Run, one_line};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead};
use std::ops::ControlFlow;

/// A file that keeps account of what was read of it.
pub(super) struct Counted<'a> {
    pub(super) open: File,
    pub(super) at: Option<&'a Cell<u64>>,
}

impl io::Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.open.read(buffer)?;
        if let Some(at) = self.at {
            at.set(at.get() + count as u64);
        }
        Ok(count)
    }
}

/// Reads one file's items into the sink.
pub(super) struct Reader<'a> {
    file: &'a str,
    format: &'static Format,
    options: &'a ReadOptions<'a>,
    sink: &'a mut dyn FnMut(Item) -> ControlFlow<()>,
    gather: Option<Box<dyn Gather>>,
    summary: FileSummary,
    /// Why the file itself, or its one document, gave nothing.
    reason: Option<String>,
    /// The sink wants no more.
    stopped: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        file: &'a str,
        format: &'static Format,
        options: &'a ReadOptions<'a>,
        sink: &'a mut dyn FnMut(Item) -> ControlFlow<()>,
    ) -> Self {
        let gather = match format.read {
            Read::Together(new) | Read::Text(new) => Some(new(file)),
            Read::Run(_) | Read::Several(_) => None,
        };
        let summary = FileSummary { format: format.name, runs: 0, lessons: 0, skipped: 0, labelled: 0 };
        Self { file, format, options, sink, gather, summary, reason: None, stopped: false }
    }

    pub(super) fn values<R: BufRead>(&mut self, input: R) -> io::Result<()> {
        let (mut splitter, first) = Splitter::new(input)?;
        let is_array = first == Some(b'[');
        let mut at = 0;
        while let Some(piece) = splitter.next()? {
            at += 1;
            let name = match (is_array, at) {
                (true, _) => format!("item {at}"),
                (false, 1) => String::new(),
                (false, _) => format!("document {at}"),
            };
            match piece {
                // Several documents one after another are several items; anything else behind a document is none.
                Piece::Value(bytes) if at > 1 && !is_array && !bytes.starts_with(b"{") => {
                    drop(bytes);
                    self.skip(format!("text {at}"), "there is more text behind the document".into());
                    break;
                }
                Piece::Value(bytes) => self.item(&bytes, &name),
                Piece::Broken(reason) | Piece::Truncated(reason) => self.skip(name, reason),
            }
            if self.stopped {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn lines<R: BufRead>(&mut self, mut input: R) -> io::Result<()> {
        let is_text = matches!(self.format.read, Read::Text(_));
        let mut at = 0;
        while let Some(line) = split::next_line(&mut input)? {
            at += 1;
            match line {
                Err(reason) => self.skip(format!("line {at}"), reason),
                // An empty line of a text may end a paragraph.
                Ok(line) if !is_text && strip_bom(&line).iter().all(u8::is_ascii_whitespace) => {}
                Ok(line) => self.item(strip_bom(&line), &format!("line {at}")),
            }
            if self.stopped {
                break;
            }
        }
        Ok(())
    }

    /// Hands on what was still open and says how it went.
    pub(super) fn end(mut self) -> Result<FileSummary, FileError> {
        if let Some(mut gather) = self.gather.take().filter(|_| !self.stopped) {
            let mut parts = Parts::default();
            gather.end(&mut parts);
            self.hand_on("", parts);
        }
        match self.reason {
            // What is wrong with the file as a whole is the file's error, not an item's.
            Some(reason) if self.summary.runs + self.summary.lessons == 0 => {
                Err(FileError::Broken { file: self.file.to_owned(), reason })
            }
            _ => Ok(self.summary),
        }
    }

    fn item(&mut self, bytes: &[u8], name: &str) {
        let mut parts = Parts::default();
        let read = match (self.format.read, &mut self.gather) {
            (Read::Run(parse), _) => parse(bytes, self.file).map(|run| parts.run("", run)),
            (Read::Several(parse), _) => parse(bytes, self.file, &mut parts),
            (Read::Together(_) | Read::Text(_), Some(gather)) => gather.take(bytes, &mut parts),
            (Read::Together(_) | Read::Text(_), None) => Ok(()),
        };
        // What is gathered names itself: it is no longer of this one line.
        let own = if self.gather.is_some() { "" } else { name };
        self.hand_on(own, parts);
        if let Err(reason) = read {
            self.skip(name.to_owned(), reason);
        }
    }

    fn hand_on(&mut self, item: &str, parts: Parts) {
        for (part, made) in parts.0 {
            if self.stopped {
                return;
            }
            let name = match (item.is_empty(), part.is_empty()) {
                (false, false) => format!("{item}, {part}"),
                (true, false) => part,
                (_, true) => item.to_owned(),
            };
            let source = one_line(&[self.format.name, self.file, &name].join(" "));
            match made {
                Part::Refused(reason) => self.skip(name, reason),
                Part::Run(run) => self.run(*run, source),
                Part::Lesson(fields, evidence) => match Lesson::new(*fields) {
                    Err(error) => self.skip(name, error.to_string()),
                    Ok(lesson) => {
                        self.summary.lessons += 1;
                        let fields = lesson.fields().clone();
                        self.give(Item::Lesson(Box::new(BankLesson { source, fields, evidence: *evidence })));
                    }
                },
            }
        }
    }

    fn run(&mut self, mut run: Run, source: String) {
        run.source = source;
        blobs::elide(&mut run);
        run.tidy();
        if self.options.outcomes.is_some_and(|table| table.label(&mut run)) {
            self.summary.labelled += 1;
        }
        self.summary.runs += 1;
        self.give(Item::Run(Box::new(run)));
    }

    fn skip(&mut self, item: String, reason: String) {
        // Both may hold words of the file.
        let (item, reason) = (one_line(&item), one_line(&reason));
        if item.is_empty() {
            self.reason.get_or_insert(reason);
            return;
        }
        self.summary.skipped += 1;
        self.give(Item::Skipped { item, reason });
    }

    fn give(&mut self, item: Item) {
        self.stopped |= (self.sink)(item).is_break();
    }
}
