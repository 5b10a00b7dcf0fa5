//! `name = value` in the many ways that code, configuration, JSON, shells, URLs and logs write it.

use super::hay::{Hay, is_word};
use std::ops::Range;

/// What is assigned, and how it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    /// The value without its quotes.
    pub(crate) range: Range<usize>,
    /// Whether it stands in quotes.
    pub(crate) quoted: bool,
    /// What the name is tied to the value with.
    pub(crate) tie: Tie,
}

/// What stands between name and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tie {
    /// `=`, `:`, `=>`, `:=`, `==`.
    Sign,
    /// A blank after a command-line flag: `--token abc`.
    Flag,
    /// An argument: `login("password", "abc")`, `setToken("abc")`.
    Argument,
    /// `<token>abc</token>`.
    Element,
    /// The value of a pair: `{"name": "TOKEN", "value": "abc"}`, `<add key="Token" value="abc"/>`.
    Pair,
    /// Prose: `the password is abc`.
    Is,
}

/// Blanks skipped around a sign, in bytes: enough for columns that people align.
const BLANK_BYTES: usize = 32;

/// The longest value read, in bytes.
pub(crate) const VALUE_BYTES: usize = 512;

/// The longest rest of a name after its keyword, in bytes (`datadog` in `DATADOG_STAGING_API_KEY`).
const NAME_BYTES: usize = 40;

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// The values that may be assigned to a name that contains the keyword at `hit`: read with the name as one word, then
/// with further words of the name before the sign (`datadog api key: …`).
pub(crate) fn after_name(hay: &Hay<'_>, hit: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let word_end = hay.skip(hit.end, NAME_BYTES, |b| is_word(b) || matches!(b, b'-' | b'.'));
    let name_end = hay.skip(hit.end, NAME_BYTES, |b| is_word(b) || matches!(b, b'-' | b'.' | b' '));
    let name_end = hay.skip_back(name_end, name_end - hit.end, is_blank);
    [Some(word_end), (name_end > word_end).then_some(name_end)]
        .into_iter()
        .flatten()
        .filter_map(move |end| value(hay, hit.start, end).map(|value| value.range))
}

/// The value tied to the name that ends at `name_end` (the name's keyword begins at `name_at`).
pub(crate) fn value(hay: &Hay<'_>, name_at: usize, name_end: usize) -> Option<Value> {
    let name_start = name_start(hay, name_at);
    // `"name"`, `\"name\"`, `["name"]`, `('name')`.
    let closed = hay.skip(name_end, 8, |b| matches!(b, b'"' | b'\'' | b'`' | b'\\' | b']' | b')'));
    let quoted_name = hay.get(name_end..closed).iter().any(|b| matches!(b, b'"' | b'\'' | b'`'));
    let sign = hay.skip(closed, BLANK_BYTES, is_blank);
    if let Some(after) = past_pair(hay, closed) {
        return literal(hay, hay.skip(after, BLANK_BYTES, is_blank), Tie::Pair);
    }
    let (tie, after) = match hay.at(sign)? {
        b'=' => (Tie::Sign, hay.skip(sign, 3, |b| matches!(b, b'=' | b'>' | b'~'))),
        b':' if hay.at(sign + 1) == Some(b':') => return None,
        b':' => (Tie::Sign, hay.skip(sign + 1, 1, |b| b == b'=')),
        b',' if quoted_name => (Tie::Argument, sign + 1),
        b'(' if sign == name_end => (Tie::Argument, sign + 1),
        b'>' if sign == name_end && hay.before(name_start) == Some(b'<') => (Tie::Element, sign + 1),
        b'i' if sign > closed && hay.ahead(sign, 3) == b"is " => (Tie::Is, sign + 3),
        _ if sign > closed && closed == name_end && is_flag(hay, name_at) => (Tie::Flag, sign),
        _ => return None,
    };
    let start = hay.skip(after, BLANK_BYTES, is_blank);
    let start = if tie == Tie::Sign { past_annotation(hay, start) } else { start };
    let found = literal(hay, start, tie)?;
    if tie == Tie::Argument && !found.quoted {
        return None;
    }
    Some(found)
}

/// Whether the name around the keyword at `at` is a command-line flag: one or two dashes that stand alone, then words
/// joined by dashes.
fn is_flag(hay: &Hay<'_>, at: usize) -> bool {
    let start = hay.skip_back(at, NAME_BYTES, |b| is_word(b) || b == b'-');
    // The `n` of `\n--token` is not part of the flag.
    let start = if start < at && hay.ends_escape(start + 1) { start + 1 } else { start };
    let dashes = hay.skip(start, 3, |b| b == b'-') - start;
    (1..=2).contains(&dashes) && hay.opens(start)
}

/// Where the name around the keyword at `at` begins.
pub(crate) fn name_start(hay: &Hay<'_>, at: usize) -> usize {
    let start = hay.skip_back(at, NAME_BYTES, is_word);
    // The `n` of `\n` is not part of the name.
    if start < at && hay.ends_escape(start + 1) { start + 1 } else { start }
}

/// Where the sign of `value` ends, if the name that ends at `at` is itself the value of a pair's `name` or `key`.
fn past_pair(hay: &Hay<'_>, at: usize) -> Option<usize> {
    let gap = |b: u8| is_blank(b) || matches!(b, b'"' | b'\'' | b'\\' | b',' | b'\n' | b'\r' | b'n');
    let word = hay.skip(at, BLANK_BYTES, gap);
    if word == at || !hay.ahead(word, 5).eq_ignore_ascii_case(b"value") {
        return None;
    }
    let closed = hay.skip(word + 5, 8, |b| is_blank(b) || matches!(b, b'"' | b'\'' | b'\\'));
    matches!(hay.at(closed), Some(b':' | b'=')).then_some(closed + 1)
}

/// Skips a type between name and value: `token: str = "…"`, `let t: &'static str = "…"`.
fn past_annotation(hay: &Hay<'_>, at: usize) -> usize {
    let end = hay.skip(at, 32, |b| is_word(b) || matches!(b, b'<' | b'>' | b'&' | b'\'' | b' ' | b'[' | b']' | b'|'));
    let kind = hay.get(at..end);
    if hay.at(end) == Some(b'=')
        && kind.first().is_some_and(|b| b.is_ascii_alphabetic() || *b == b'&')
        && kind.ends_with(b" ")
    {
        hay.skip(end + 1, BLANK_BYTES, |b| is_blank(b) || b == b'=')
    } else {
        at
    }
}

/// The literal that begins at `at`, quoted or bare.
fn literal(hay: &Hay<'_>, at: usize, tie: Tie) -> Option<Value> {
    // Python and C# string prefixes.
    let at = match hay.ahead(at, 2) {
        [b'b' | b'r' | b'u' | b'B' | b'R' | b'@', b'"' | b'\''] => at + 1,
        _ => at,
    };
    let slashes = hay.skip(at, 8, |b| b == b'\\') - at;
    let quote = at + slashes;
    let range = match hay.at(quote)? {
        mark @ (b'"' | b'\'' | b'`') => {
            let start = hay.skip(quote, 3, |b| b == mark);
            if start > quote + 1 && start < quote + 3 {
                // `""`: nothing in it.
                return None;
            }
            match quoted_end(hay, start, mark, slashes) {
                Some(end) => {
                    return (end > start).then_some(Value { range: start..end, quoted: true, tie });
                }
                // Its quote may stand behind a placeholder.
                None if hay.cut_right(start + hay.ahead(start, VALUE_BYTES).len()) => return None,
                // Cut off before its quote.
                None => start..hay.skip(start, VALUE_BYTES, |b| is_bare(b, tie)),
            }
        }
        _ if slashes > 0 => return None,
        _ => at..hay.skip(at, VALUE_BYTES, |b| is_bare(b, tie)),
    };
    (!range.is_empty()).then_some(Value { range, quoted: false, tie })
}

/// What a bare value is made of.
fn is_bare(byte: u8, tie: Tie) -> bool {
    match byte {
        b'"' | b'\'' | b'`' | b'\\' | b'<' | b'>' => false,
        b',' | b';' | b'&' | b'|' | b'(' | b')' | b'[' | b']' => tie == Tie::Element,
        _ => byte.is_ascii_graphic() || byte >= 0x80,
    }
}

/// Where a quoted value ends: at a quote with no more backslashes before it than the opening one had; `None` where
/// the line or what may be read of it ends first.
fn quoted_end(hay: &Hay<'_>, start: usize, mark: u8, slashes: usize) -> Option<usize> {
    let mut run = 0;
    for (at, &byte) in (start..).zip(hay.ahead(start, VALUE_BYTES)) {
        match byte {
            b'\\' => run += 1,
            b'\n' | b'\r' => return None,
            _ if byte == mark && (run <= slashes || (slashes == 0 && run % 2 == 0)) => {
                return Some(at - run.min(slashes));
            }
            _ => run = 0,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assigned(text: &str) -> Option<(&str, bool, Tie)> {
        let at = text.find("token")?;
        let hay = Hay::new(text, 0..text.len());
        let value = value(&hay, at, at + 5)?;
        Some((&text[value.range], value.quoted, value.tie))
    }

    #[test]
    fn values_are_found_however_they_are_assigned() {
        for (text, value, quoted, tie) in [
            ("token=abc", "abc", false, Tie::Sign),
            ("token : abc, x", "abc", false, Tie::Sign),
            ("token := 'abc'", "abc", true, Tie::Sign),
            ("\"token\": \"abc\"", "abc", true, Tie::Sign),
            ("{\\\"token\\\": \\\"abc\\\"}", "abc", true, Tie::Sign),
            ("\\\"token\\\": \\\"a\\\\\\\"c\\\"}", "a\\\\\\\"c", true, Tie::Sign),
            ("os.environ[\"token\"] = \"abc\"", "abc", true, Tie::Sign),
            ("token: str = \"abc\"", "abc", true, Tie::Sign),
            ("let token: &'static str = \"abc\";", "abc", true, Tie::Sign),
            ("token => \"abc\"", "abc", true, Tie::Sign),
            ("--token abc next", "abc", false, Tie::Flag),
            ("f(\"token\", \"abc\")", "abc", true, Tie::Argument),
            ("token(\"abc\")", "abc", true, Tie::Argument),
            ("<token>abc</token>", "abc", false, Tie::Element),
            ("the token is abc", "abc", false, Tie::Is),
            ("token=\"\"\"abc\"\"\"", "abc", true, Tie::Sign),
            ("token=\"abc", "abc", false, Tie::Sign),
            ("{\"name\": \"token\", \"value\": \"abc\"}", "abc", true, Tie::Pair),
            ("- name: token\n  value: abc\n", "abc", false, Tie::Pair),
            ("<add key=\"token\" value=\"abc\" />", "abc", true, Tie::Pair),
        ] {
            assert_eq!(assigned(text), Some((value, quoted, tie)), "{text}");
        }
    }

    #[test]
    fn what_assigns_nothing_has_no_value() {
        for text in ["token", "token abc", "token::abc", "token()", "token(abc)", "token = \"\"", "tokenabc=1"] {
            assert_eq!(assigned(text), None, "{text}");
        }
    }
}
