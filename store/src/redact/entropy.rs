//! How random a string looks, and whether it is only a stand-in for a secret.

use aho_corasick::AhoCorasick;
use std::sync::OnceLock;

/// Shannon entropy of the bytes of `value`, in bits per byte (0.0 for an empty value, at most 8.0).
///
/// A random token over 62 letters and digits measures about 3.7 at 16 bytes and 4.9 at 40; random hex about 3.2 at 16
/// bytes; English words about 2.5 to 3.3; a run of one character 0.
pub(crate) fn shannon(value: &[u8]) -> f64 {
    if value.is_empty() {
        return 0.0;
    }
    let mut counts = [0u32; 256];
    for &byte in value {
        counts[usize::from(byte)] += 1;
    }
    let total = value.len() as f64;
    counts
        .iter()
        .filter(|&&count| count > 0)
        .map(|&count| {
            let share = f64::from(count) / total;
            -share * share.log2()
        })
        .sum()
}

/// Least entropy of a token without digits, bits a byte: names in camel case of that length measure below 4.
const LETTERS_FLOOR: f64 = 4.2;

/// Whether `value` has what random tokens have and words have not: two digits or more, or letters of both cases in more
/// variety, or changing case more often, than names show.
pub(crate) fn looks_drawn(value: &[u8]) -> bool {
    let some = |kind: fn(&u8) -> bool| value.iter().any(kind);
    let changes = value.windows(2).filter(|pair| pair[0].is_ascii_uppercase() != pair[1].is_ascii_uppercase()).count();
    value.iter().filter(|b| b.is_ascii_digit()).count() >= 2
        || (some(u8::is_ascii_uppercase)
            && some(u8::is_ascii_lowercase)
            // Names in camel case stay below a third, random letters are near a half.
            && (shannon(value) >= LETTERS_FLOOR || changes * 3 >= value.len()))
}

/// Words (lower case) that people write where a secret would stand.
const STAND_IN_WORDS: &[&str] = &[
    "example",
    "placeholder",
    "your",
    "xxxx",
    "changeme",
    "change_me",
    "change-me",
    "change-this",
    "changethis",
    "redacted",
    "dummy",
    "sample",
    "fake",
    "insert",
    "replace",
    "todo",
    "mock",
    "undefined",
    "not-a-real",
    "notreal",
    "not_real",
    "secret",
    "password",
    "passwd",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "foobar",
    "....",
    "****",
    "____",
    "----",
    "0000000000",
    "1234567890",
];

/// How a reference to a secret kept elsewhere begins (lower case).
const REFERENCE_STARTS: &[&str] = &[
    "$",
    "%",
    "{",
    "#{",
    "<",
    "[",
    "@",
    "&",
    "*",
    "!",
    "/",
    "./",
    "../",
    "~",
    "os.",
    "env.",
    "env[",
    "env(",
    "env:",
    "process.env",
    "import.meta",
    "getenv",
    "system.",
    "config.",
    "config[",
    "settings.",
    "self.",
    "this.",
    "request.",
    "req.",
    "args.",
    "vault:",
    "arn:",
    "file:",
    "http:",
    "https:",
    "ssm:",
    "op:",
    "projects/",
    "secretref",
    "ref+",
];

/// Whether `value` is plainly not a secret itself: a stand-in (`your_api_key_here`, `xxxx`, `<token>`), a reference to
/// one (`$TOKEN`, `${X}`, `os.environ[...]`), a mask, or a plain sequence such as `12345678`.
pub(crate) fn is_stand_in(value: &[u8]) -> bool {
    let lower = value.to_ascii_lowercase();
    REFERENCE_STARTS.iter().any(|start| lower.starts_with(start.as_bytes()))
        || says_stand_in(&lower)
        || contains(&lower, b"${")
        || contains(&lower, b"{{")
        || contains(&lower, b"%s")
        || is_sequence(&lower)
}

/// Up to this length, in bytes, a stand-in word counts wherever it occurs.
const SHORT_VALUE_BYTES: usize = 20;

/// From this length on, in bytes, a stand-in word counts in any value: chance does not write it.
const LONG_WORD_BYTES: usize = 7;

/// Whether `value` says one of the stand-in words. In a long value a short word must begin or end where the value or a
/// part of it does: among random characters `mock` or `fake` comes up once in some ten thousand tokens.
fn says_stand_in(value: &[u8]) -> bool {
    static WORDS: OnceLock<AhoCorasick> = OnceLock::new();
    let words =
        WORDS.get_or_init(|| AhoCorasick::new(STAND_IN_WORDS).expect("a constant list of words fits an automaton"));
    let edge = |at: Option<usize>| at.and_then(|at| value.get(at)).is_none_or(|b| !b.is_ascii_alphanumeric());
    words.find_overlapping_iter(value).any(|word| {
        value.len() <= SHORT_VALUE_BYTES
            || word.len() >= LONG_WORD_BYTES
            || edge(word.start().checked_sub(1))
            || edge(Some(word.end()))
    })
}

/// Whether `needle` occurs in `hay`.
pub(crate) fn contains(hay: &[u8], needle: &[u8]) -> bool {
    find(hay, needle).is_some()
}

/// Where `needle` first occurs in `hay`. Plain search: both are short here.
pub(crate) fn find(hay: &[u8], needle: &[u8]) -> Option<usize> {
    hay.windows(needle.len()).position(|window| window == needle)
}

/// Whether at least three quarters of the neighbouring bytes go up by one, go down by one or stay the same.
fn is_sequence(value: &[u8]) -> bool {
    let pairs = value.len().saturating_sub(1);
    let steady = |step: i16| value.windows(2).filter(|pair| i16::from(pair[1]) - i16::from(pair[0]) == step).count();
    pairs > 0 && [1, 0, -1].into_iter().any(|step| steady(step) * 4 >= pairs * 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entropy_is_zero_for_one_letter_and_log2_for_all_different() {
        assert_eq!(shannon(b""), 0.0);
        assert_eq!(shannon(b"aaaaaaaa"), 0.0);
        assert!((shannon(b"abcdefgh") - 3.0).abs() < 1e-12);
        assert!((shannon(b"aabb") - 1.0).abs() < 1e-12);
    }

    #[test]
    fn tokens_look_drawn_and_names_do_not() {
        assert!(looks_drawn(b"9f8c2b7ad1e04653"));
        assert!(looks_drawn(b"ZuHEBNUcMDCWaptfOjWeYYveZoaH"));
        assert!(!looks_drawn(b"AbstractSingletonProxyFactoryBean"));
        assert!(!looks_drawn(b"a-plain-sentence-of-words"));
    }

    #[test]
    fn stand_ins_are_told_from_values() {
        for stand_in in [
            "your_api_key_here",
            "xxxxxxxxxxxx",
            "<token>",
            "$TOKEN",
            "${X}",
            "os.environ['A']",
            "AKIAEXAMPLE",
            "{{ vault.key }}",
            "12345678",
            "abcdefgh",
            "aaaaaaaa",
            "********",
            "%s",
        ] {
            assert!(is_stand_in(stand_in.as_bytes()), "{stand_in}");
        }
        for value in ["hunter2", "Tr0ub4dor&3", "9f8c2b7ad1e04653"] {
            assert!(!is_stand_in(value.as_bytes()), "{value}");
        }
    }
}
