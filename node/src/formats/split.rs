//! Cuts a JSON file into values without reading it whole.
//!
//! Elements of an array and objects one after another come out as raw bytes, one at a time. Nothing is decoded here, so
//! that a lone surrogate or a wrong word inside one element spoils that element only. Memory is bounded by one value.

use std::io::{self, BufRead};

/// Bytes of one array element, one line or one single-document file. The largest real runs are a few megabytes.
pub const MAX_VALUE_BYTES: usize = 64 * 1024 * 1024;

/// One value cut out of a file, or why it could not be.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// The bytes of one value; balanced, not yet parsed.
    Value(Vec<u8>),
    /// Something that is not a value; reading goes on behind it.
    Broken(String),
    /// The input ended too early; nothing follows.
    Truncated(String),
}

/// Reads the pieces of one file.
pub struct Splitter<R> {
    input: R,
    /// Whether the values stand in one array.
    in_array: bool,
    done: bool,
}

impl<R: BufRead> Splitter<R> {
    /// Starts at the first byte that is not white space or a byte order mark; `None` when there is no such byte.
    /// The second value is that byte.
    pub fn new(mut input: R) -> io::Result<(Self, Option<u8>)> {
        if input.fill_buf()?.starts_with(b"\xef\xbb\xbf") {
            input.consume(3);
        }
        let first = skip_space(&mut input)?;
        let in_array = first == Some(b'[');
        if in_array {
            input.consume(1);
        }
        Ok((Self { input, in_array, done: first.is_none() }, first))
    }

    /// The next piece, or `None` behind the last.
    pub fn next(&mut self) -> io::Result<Option<Piece>> {
        if self.done {
            return Ok(None);
        }
        let mut first = skip_space(&mut self.input)?;
        while self.in_array && first == Some(b',') {
            self.input.consume(1);
            first = skip_space(&mut self.input)?;
        }
        match first {
            None => {
                self.done = true;
                let cut = || Piece::Truncated("the file ends inside the array".into());
                Ok(self.in_array.then(cut))
            }
            Some(b']') if self.in_array => {
                self.done = true;
                self.input.consume(1);
                let more = skip_space(&mut self.input)?.is_some();
                Ok(more.then(|| Piece::Truncated("there is text behind the end of the array".into())))
            }
            Some(_) => self.value().map(Some),
        }
    }

    /// Reads one value: brackets are counted outside strings, everything else is left to the parser.
    fn value(&mut self) -> io::Result<Piece> {
        let mut bytes = Vec::new();
        let (mut depth, mut in_string, mut escaped, mut too_long) = (0_usize, false, false, false);
        loop {
            let chunk = self.input.fill_buf()?;
            if chunk.is_empty() {
                self.done = true;
                if too_long {
                    return Ok(Piece::Truncated(too_long_text()));
                }
                // A bare document may end with its last byte; an array may not.
                return Ok(if depth == 0 && !in_string && !self.in_array {
                    Piece::Value(bytes)
                } else {
                    Piece::Truncated("the file ends inside a value".into())
                });
            }
            let mut used = 0;
            let mut ended = false;
            for &byte in chunk {
                if in_string {
                    match byte {
                        _ if escaped => escaped = false,
                        b'\\' => escaped = true,
                        b'"' => in_string = false,
                        _ => {}
                    }
                } else {
                    match byte {
                        b'"' => in_string = true,
                        b'[' | b'{' => depth += 1,
                        b']' | b'}' if depth > 0 => {
                            depth -= 1;
                            if depth == 0 {
                                used += 1;
                                ended = true;
                                break;
                            }
                        }
                        // The array's own end, or the comma before its next element: a scalar ends here.
                        b']' | b',' if depth == 0 && self.in_array => {
                            ended = true;
                            break;
                        }
                        b'\n' if depth == 0 && !self.in_array => {
                            ended = true;
                            break;
                        }
                        _ => {}
                    }
                }
                used += 1;
            }
            if bytes.len() + used > MAX_VALUE_BYTES {
                // Keep counting brackets so that the next element is found, but keep no more bytes.
                too_long = true;
                bytes = Vec::new();
            }
            if !too_long {
                bytes.extend_from_slice(&chunk[..used]);
            }
            self.input.consume(used);
            if ended {
                if too_long {
                    return Ok(Piece::Broken(too_long_text()));
                }
                if bytes.is_empty() {
                    // A stray closing bracket would otherwise be met for ever.
                    self.input.consume(1);
                    return Ok(Piece::Broken("a closing bracket that nothing opened".into()));
                }
                return Ok(Piece::Value(bytes));
            }
        }
    }
}

fn too_long_text() -> String {
    format!("longer than {} MiB", MAX_VALUE_BYTES / (1024 * 1024))
}

/// The next byte that is not white space, left unread.
fn skip_space<R: BufRead>(input: &mut R) -> io::Result<Option<u8>> {
    loop {
        let chunk = input.fill_buf()?;
        if chunk.is_empty() {
            return Ok(None);
        }
        match chunk.iter().position(|byte| !byte.is_ascii_whitespace()) {
            Some(at) => {
                let byte = chunk[at];
                input.consume(at);
                return Ok(Some(byte));
            }
            None => {
                let all = chunk.len();
                input.consume(all);
            }
        }
    }
}

/// Reads one line without its end, at most [`MAX_VALUE_BYTES`]; a longer line is skipped whole.
///
/// `None` at the end of the input; `Some(Err(reason))` for a line that is too long.
pub fn next_line<R: BufRead>(input: &mut R) -> io::Result<Option<Result<Vec<u8>, String>>> {
    let mut line = Vec::new();
    let (mut any, mut too_long) = (false, false);
    loop {
        let chunk = input.fill_buf()?;
        if chunk.is_empty() {
            break;
        }
        any = true;
        let end = chunk.iter().position(|&byte| byte == b'\n');
        let take = end.unwrap_or(chunk.len());
        if line.len() + take > MAX_VALUE_BYTES {
            too_long = true;
            line = Vec::new();
        }
        if !too_long {
            line.extend_from_slice(&chunk[..take]);
        }
        input.consume(take + usize::from(end.is_some()));
        if end.is_some() {
            break;
        }
    }
    Ok(match (any, too_long) {
        (false, _) => None,
        (true, true) => Some(Err(too_long_text())),
        (true, false) => Some(Ok(line)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    fn pieces(text: &[u8], buffer: usize) -> Vec<Piece> {
        let (mut splitter, _) = Splitter::new(BufReader::with_capacity(buffer, text)).unwrap();
        let mut out = Vec::new();
        while let Some(piece) = splitter.next().unwrap() {
            out.push(piece);
        }
        out
    }

    fn value(text: &str) -> Piece {
        Piece::Value(text.as_bytes().to_vec())
    }

    #[test]
    fn elements_come_out_whole_at_any_buffer_size() {
        let text = br#"[ {"a":"]}\"{,"} ,[1,[2]], 7,"x,y" ]"#;
        for buffer in [1, 2, 3, 7, 64] {
            let want = vec![value(r#"{"a":"]}\"{,"}"#), value("[1,[2]]"), value("7"), value(r#""x,y" "#)];
            assert_eq!(pieces(text, buffer), want, "buffer of {buffer}");
        }
    }

    #[test]
    fn a_truncated_array_gives_what_was_whole_and_says_where_it_ends() {
        let got = pieces(br#"[{"a":1},{"b":"#, 64);
        assert_eq!(got, vec![value(r#"{"a":1}"#), Piece::Truncated("the file ends inside a value".into())]);
        assert_eq!(pieces(b"[1,", 64).last(), Some(&Piece::Truncated("the file ends inside the array".into())));
    }

    #[test]
    fn a_wrong_element_does_not_hide_the_next() {
        let got = pieces(br#"[{"a":nope},{"b":1}]"#, 64);
        assert_eq!(got, vec![value(r#"{"a":nope}"#), value(r#"{"b":1}"#)]);
        assert!(matches!(pieces(b"[1}]", 64)[..], [Piece::Value(_)]));
        assert_eq!(pieces(b"[] trailing", 64).len(), 1);
    }

    #[test]
    fn stray_brackets_end_by_themselves() {
        for text in [&b"[}}}}"[..], b"[,,,", b"]]]]", b"}", b"[\"", b"[\\"] {
            assert!(pieces(text, 3).len() <= text.len() + 1);
        }
    }
}
