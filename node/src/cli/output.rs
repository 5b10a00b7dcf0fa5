//! Where answers go: stdout, cleaned, and without a fuss when the reader has gone.

use std::io::{self, ErrorKind, Write};

use serde::Serialize;

use crate::api::{Answer, ApiError};

/// stdout and stderr of a verb.
pub(super) struct Output {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    json: bool,
    /// The reader of stdout has gone (`| head`): nothing more is written there, and that is no error.
    closed: bool,
    failed: Option<io::Error>,
}

impl Output {
    pub(super) fn new(out: Box<dyn Write + Send>, err: Box<dyn Write + Send>) -> Self {
        Self { out, err, json: false, closed: false, failed: None }
    }

    pub(super) fn set_json(&mut self, json: bool) {
        self.json = json;
    }

    pub(super) fn is_json(&self) -> bool {
        self.json
    }

    /// Writes text, ending in one line break, to stdout.
    pub(super) fn text(&mut self, text: &str) {
        self.write(&format!("{}\n", clean(text.trim_end_matches('\n'))));
    }

    /// Writes a value as one line of JSON to stdout.
    pub(super) fn json<T: Serialize>(&mut self, value: &T) -> Answer<()> {
        let text = serde_json::to_string(value)
            .map_err(|error| ApiError::failed(format!("the answer cannot be written as JSON: {error}")))?;
        self.json_text(&text);
        Ok(())
    }

    /// Writes JSON as it came, to stdout.
    pub(super) fn json_text(&mut self, json: &str) {
        self.write(&format!("{}\n", escape_json(json)));
    }

    /// Writes a line to stderr. When that is gone there is nobody left to tell.
    pub(super) fn note(&mut self, text: &str) {
        let _ = self.err.write_all(format!("{}\n", clean(text)).as_bytes()).and_then(|()| self.err.flush());
    }

    /// Whether everything could be written.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.failed.take().map_or(Ok(()), Err)
    }

    fn write(&mut self, text: &str) {
        if self.closed || self.failed.is_some() {
            return;
        }
        match self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => self.closed = true,
            Err(error) => self.failed = Some(error),
            Ok(()) => {}
        }
    }
}

/// Text with every character escaped that could move the cursor, hide something or turn the reading direction.
pub(super) fn clean(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) && !matches!(c, '\n' | '\t') {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// JSON with the same characters written as escapes. They can only stand inside strings, so its meaning is the same.
fn escape_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        if is_hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                shown.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            shown.push(c);
        }
    }
    shown
}

fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Gone(ErrorKind);

    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_left_is_no_error_and_a_full_disk_is() {
        for (kind, fails) in [(ErrorKind::BrokenPipe, false), (ErrorKind::StorageFull, true)] {
            let mut out = Output::new(Box::new(Gone(kind)), Box::new(Vec::new()));
            out.text("a");
            out.text("b");
            assert_eq!(out.finish().is_err(), fails, "{kind}");
        }
    }

    #[test]
    fn terminal_tricks_are_shown_and_not_played() {
        assert_eq!(clean("a\u{1b}[2Jb\u{202e}c\rd\n\te\u{9b}"), "a\\u{1b}[2Jb\\u{202e}c\\u{d}d\n\te\\u{9b}");
        let json = serde_json::to_string("x\u{9b}\u{202e}\u{e0041}é").unwrap();
        let shown = escape_json(&json);
        assert_eq!(shown, "\"x\\u009b\\u202e\\udb40\\udc41é\"");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), "x\u{9b}\u{202e}\u{e0041}é");
    }
}
