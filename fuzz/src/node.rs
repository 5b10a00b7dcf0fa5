//! What reads tickets and files in `folklore-node` and `folklore-store`.

use std::ops::ControlFlow;

use folklore_node::{
    formats::{self, Item, Outcomes, ReadOptions},
    ticket::Ticket,
};
use folklore_store::frame::{Frame, Key, carve};

/// A function that takes any bytes, and its name.
pub type Target = (&'static str, fn(&[u8]));

/// Every target here.
pub const TARGETS: &[Target] = &[("ticket", ticket), ("runs", runs), ("outcomes", outcomes), ("frame", frame)];

/// A ticket, as somebody typed it.
pub fn ticket(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(ticket) = text.parse::<Ticket>() {
        let written = ticket.to_string();
        assert_eq!(written.parse(), Ok(ticket), "what reads can be written and read");
        assert!(written.eq_ignore_ascii_case(text.trim()), "a ticket has one text");
    }
}

/// A file of finished runs: found out by itself, and read as each format in turn.
pub fn runs(bytes: &[u8]) {
    let Ok(file) = tempfile(bytes) else { return };
    let read = |format| {
        let mut runs = 0;
        let mut sink = |item| {
            if let Item::Run(run) = item {
                runs += 1;
                // The digest goes over every field.
                assert_eq!(run.digest(), run.clone().digest());
            }
            ControlFlow::Continue(())
        };
        let summary = formats::read_path(&file, &ReadOptions { format, outcomes: None }, &mut sink);
        if let Ok(summary) = summary {
            assert_eq!(summary.runs, runs);
        }
        runs
    };
    read(None);
    formats::formats().iter().for_each(|format| {
        read(Some(format));
    });
}

/// Where the bytes lie while they are read: one file a process, since importers read files.
fn tempfile(bytes: &[u8]) -> std::io::Result<std::path::PathBuf> {
    let thread = std::thread::current().id();
    let path = std::env::temp_dir().join(format!("folklore-fuzz-{}-{thread:?}.json", std::process::id()));
    std::fs::write(&path, bytes)?;
    Ok(path)
}

/// A table of labels.
pub fn outcomes(bytes: &[u8]) {
    if let Ok(table) = Outcomes::parse(bytes, "labels.json") {
        assert_eq!(table.is_empty(), table.task_keys().next().is_none());
    }
}

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
