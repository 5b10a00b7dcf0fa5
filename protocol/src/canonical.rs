//! Canonical bytes: one encoding per value, bounded before anything is allocated, and the normal form of text.
//!
//! bincode writes and [`read`] reads; this is the only module that names bincode. The layout is written down in `FORMAT.md` and pinned by the committed
//! vectors in `tests/vectors`, so that another language can implement it.

mod read;

use read::Reader;
use serde::{Serialize, de::DeserializeOwned};
use unicode_normalization::{UnicodeNormalization, is_nfc};

/// The version byte that leads every canonical value.
pub const FORMAT_VERSION: u8 = 1;

/// Why bytes are not the canonical form of a value. Nothing was changed by the attempt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// No bytes at all.
    #[error("empty bytes")]
    Empty,
    /// The leading version byte is one this build does not speak.
    #[error("format version {found}, this build reads version {FORMAT_VERSION}: update the older of the two nodes")]
    Version {
        /// The version byte found.
        found: u8,
    },
    /// A greeting in another version of the protocol.
    #[error(
        "protocol version {found}, this node speaks {}: update the older of the two",
        crate::message::PROTOCOL_VERSION
    )]
    Protocol {
        /// The version it is in.
        found: u32,
    },
    /// More bytes than the value may have.
    #[error("{len} bytes, the limit is {limit}")]
    TooLong {
        /// Bytes given.
        len: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// The bytes end early, or a length, tag or string in them is wrong.
    #[error("malformed bytes: {0}")]
    Malformed(String),
    /// Bytes are left over after the value.
    #[error("{extra} bytes left over after the value")]
    Trailing {
        /// Bytes left over.
        extra: usize,
    },
    /// The value reads, but is written in another way than the canonical one (a padded integer, say).
    #[error("not the canonical encoding of its value")]
    NotCanonical,
    /// The value breaks a limit or is not in normal form.
    #[error("{0}")]
    Invalid(String),
}

/// Canonical bytes of `value`, with the leading version byte.
///
/// Serialising the types of this crate cannot fail: they hold no maps, floats or values without a length.
pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    let mut out = vec![FORMAT_VERSION];
    append(value, &mut out);
    out
}

/// Appends the encoding of `value`, without a version byte, to `out`.
pub fn append<T: Serialize>(value: &T, out: &mut Vec<u8>) {
    let bytes = bincode::serde::encode_to_vec(value, bincode::config::standard())
        .expect("plain structs of integers, byte arrays, strings and lists always encode");
    out.extend_from_slice(&bytes);
}

/// Reads a canonical value of at most `LIMIT` bytes. The whole input must be the value, written canonically.
///
/// What is allocated while decoding is bounded by the bytes there are, whatever lengths they claim.
pub fn decode<T: Serialize + DeserializeOwned, const LIMIT: usize>(bytes: &[u8]) -> Result<T, DecodeError> {
    let (&version, rest) = bytes.split_first().ok_or(DecodeError::Empty)?;
    if version != FORMAT_VERSION {
        return Err(DecodeError::Version { found: version });
    }
    if bytes.len() > LIMIT {
        return Err(DecodeError::TooLong { len: bytes.len(), limit: LIMIT });
    }
    let mut reader = Reader::new(rest);
    let value = T::deserialize(&mut reader).map_err(|e| DecodeError::Malformed(e.to_string()))?;
    if reader.left() != 0 {
        return Err(DecodeError::Trailing { extra: reader.left() });
    }
    if !encodes_to(&value, rest) {
        return Err(DecodeError::NotCanonical);
    }
    Ok(value)
}

/// Whether the encoding of `value`, without a version byte, is just these bytes. Nothing is written anywhere.
fn encodes_to<T: Serialize>(value: &T, bytes: &[u8]) -> bool {
    let mut left = Expected(bytes);
    bincode::serde::encode_into_writer(value, &mut left, bincode::config::standard()).is_ok() && left.0.is_empty()
}

/// Bytes that are to be written next; any others are an error.
struct Expected<'a>(&'a [u8]);

impl bincode::enc::write::Writer for Expected<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), bincode::error::EncodeError> {
        self.0 = self.0.strip_prefix(bytes).ok_or(bincode::error::EncodeError::UnexpectedEnd)?;
        Ok(())
    }
}

/// Whether a text may hold line breaks and tabs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lines {
    /// One line: breaks and tabs become spaces.
    One,
    /// Many lines: `\n` and tab stay.
    Many,
}

/// The normal form of `text`: NFC, `\n` line ends, no control, bidi, zero-width, tag or other invisible characters, no
/// outer white space. Applying it twice changes nothing more.
pub fn normalise(text: &str, lines: Lines) -> String {
    if is_plain(text, lines) {
        return text.trim().to_owned();
    }
    let unix = text.replace("\r\n", "\n");
    let kept: String = unix
        .chars()
        .filter_map(|c| match c {
            '\n' | '\t' if lines == Lines::Many => Some(c),
            '\r' | '\u{85}' | '\u{2028}' | '\u{2029}' if lines == Lines::Many => Some('\n'),
            '\n' | '\t' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}' => Some(' '),
            c if is_invisible(c) => None,
            c => Some(c),
        })
        .collect();
    // Composition can only follow removal: what stood between a letter and its accent may just have gone.
    let composed: String = if is_nfc(&kept) { kept } else { kept.nfc().collect() };
    composed.trim().to_owned()
}

/// Whether `text` is already in the form that [`normalise`] gives.
pub fn is_normal(text: &str, lines: Lines) -> bool {
    if is_plain(text, lines) { text.trim().len() == text.len() } else { normalise(text, lines) == text }
}

/// Whether all of `text` is visible ASCII, spaces and what else `lines` allows: of such only the outer white space goes. Most
/// text is, and the rest of the rules costs ten times as much.
fn is_plain(text: &str, lines: Lines) -> bool {
    text.bytes().all(|b| matches!(b, b' '..=b'~') || (lines == Lines::Many && matches!(b, b'\n' | b'\t')))
}

/// Whether a reader cannot see a character, or it changes how others are seen: no text keeps it.
pub fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Cuts `text` to at most `limit` bytes at a character boundary, marking the cut with `…`. For texts this node makes
/// itself; what others wrote is refused when too long, never cut.
pub fn shorten(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let room = limit.saturating_sub('…'.len_utf8());
    let mut end = room;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut out = text[..end].trim_end().to_owned();
    if limit >= '…'.len_utf8() {
        out.push('…');
    }
    out
}

/// Checks that `text` has at most `limit` bytes and is in normal form; the error names the field.
pub(crate) fn check_text(field: &'static str, text: &str, limit: usize, lines: Lines) -> Result<(), DecodeError> {
    if text.len() > limit {
        return Err(DecodeError::Invalid(format!("{field} has {} bytes, the limit is {limit}", text.len())));
    }
    if !is_normal(text, lines) {
        return Err(DecodeError::Invalid(format!("{field} is not in normal form")));
    }
    Ok(())
}

/// Checks that a list has at most `limit` items, strictly ascending, so that a set has one encoding.
pub(crate) fn check_set<T: Ord>(field: &'static str, items: &[T], limit: usize) -> Result<(), DecodeError> {
    if items.len() > limit {
        return Err(DecodeError::Invalid(format!("{field} has {} items, the limit is {limit}", items.len())));
    }
    if items.windows(2).any(|pair| pair[0] >= pair[1]) {
        return Err(DecodeError::Invalid(format!("{field} is not sorted without repeats")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn normalising_twice_changes_nothing(text in "\\PC{0,40}|[\\x00-\\x20a\u{300}\u{200d}\u{202e}\u{e0041}\r\n]{0,40}") {
            for lines in [Lines::One, Lines::Many] {
                let once = normalise(&text, lines);
                prop_assert_eq!(normalise(&once, lines), once.clone());
                prop_assert!(is_normal(&once, lines));
            }
        }

        #[test]
        fn the_short_way_for_plain_text_gives_what_the_long_one_does(text in "[ -~]{0,12}|[ -~\\n\\t]{0,12}") {
            for lines in [Lines::One, Lines::Many] {
                // With a character that rules out the short way and goes.
                let long = normalise(&format!("\u{200b}{text}"), lines);
                prop_assert_eq!(normalise(&text, lines), long.clone());
                prop_assert_eq!(is_normal(&text, lines), long == text);
            }
        }

        #[test]
        fn shortened_text_fits_and_keeps_whole_characters(text in "\\PC{0,60}", limit in 0usize..80) {
            prop_assert!(shorten(&text, limit).len() <= limit.max(text.len().min(limit)));
        }

        #[test]
        fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode::<Vec<String>, 4096>(&bytes);
        }
    }

    #[test]
    fn a_length_prefix_beyond_the_limit_is_refused_before_allocation() {
        // A list that claims 2^40 items in 11 bytes.
        let mut bytes = vec![FORMAT_VERSION, 253];
        bytes.extend_from_slice(&(1u64 << 40).to_le_bytes());
        assert!(matches!(decode::<Vec<u64>, 1024>(&bytes), Err(DecodeError::Malformed(_))));
    }

    #[test]
    fn padded_integers_and_trailing_bytes_are_refused() {
        assert_eq!(decode::<u64, 64>(&[1, 251, 7, 0]), Err(DecodeError::NotCanonical));
        assert_eq!(decode::<u64, 64>(&[1, 7, 0]), Err(DecodeError::Trailing { extra: 1 }));
        assert_eq!(decode::<u64, 64>(&[2, 7]), Err(DecodeError::Version { found: 2 }));
    }

    #[test]
    fn invisible_and_direction_changing_characters_go() {
        assert_eq!(normalise(" a\u{202e}b\u{200b}c\u{e0041}\r\nd\u{0007} ", Lines::Many), "abc\nd");
        assert_eq!(normalise("e\u{200b}\u{301}", Lines::One), "\u{e9}");
    }
}
