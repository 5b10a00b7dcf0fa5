//! Text to terms, for text of people and of programs alike, in any script.
//!
//! - Words by Unicode segmentation (UAX #29), lower-cased, Latin accents folded, Snowball stems: Latin letters as English,
//!   Cyrillic as Russian, and those of Greek and Arabic.
//! - Names of programs as a whole *and* in parts: `parse_json`, `parseJson` and `parse-json` all give `parsejson`, `parse`
//!   and `json`; `src/net/tcp.rs` gives the path, the file name and their words; `E0277` stays whole.
//! - Scripts written without spaces (Chinese, Japanese, Korean, Thai, ...) by overlapping pairs of characters.

use std::borrow::Cow;

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;
use unicode_segmentation::UnicodeSegmentation;

/// Raised whenever any text may give other terms than before, so that indexes on disk are made anew.
pub const VERSION: u32 = 1;
/// Bytes above which a term is dropped: hashes, keys and base64 that nobody asks for again and that would swell the index.
pub const TERM_BYTES_MAX: usize = 64;

/// Letters before digits that make a word worth finding alone: `python3` also as `python`, but `e0277` only whole.
const LETTERS_BEFORE_DIGITS_MIN: usize = 3;

/// One term of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The term, as it is indexed.
    pub term: String,
    /// How many of the tokens that follow are this one's parts; 0 for a simple word.
    pub parts: usize,
}

/// The terms of `text` in order; a compound stands before its parts.
#[must_use]
pub fn tokenize(text: &str) -> Vec<Token> {
    let mut tokens = Tokens { out: Vec::new() };
    chunks(text, |chunk| tokens.chunk(chunk));
    tokens.out
}

/// Calls `each` for the chunks of `text`, what stands between white space: the terms of a text are those of its chunks.
pub(crate) fn chunks(text: &str, mut each: impl FnMut(&str)) {
    fold(text).split_whitespace().for_each(&mut each);
}

/// The terms of a chunk that [`chunks`] gave.
pub(crate) fn chunk_terms(chunk: &str) -> Vec<Token> {
    let mut tokens = Tokens { out: Vec::new() };
    tokens.chunk(chunk);
    tokens.out
}

struct Tokens {
    out: Vec<Token>,
}

impl Tokens {
    fn chunk(&mut self, chunk: &str) {
        let chunk = chunk.trim_matches(|ch: char| !ch.is_alphanumeric());
        if is_compound_chunk(chunk) {
            self.compound(chunk, |tokens| tokens.words(chunk));
        } else {
            self.words(chunk);
        }
    }

    fn push(&mut self, term: String) {
        if !term.is_empty() && term.len() <= TERM_BYTES_MAX {
            self.out.push(Token { term, parts: 0 });
        }
    }

    /// A lower-cased word, stemmed by the script it is written in.
    fn word(&mut self, word: &str) {
        let is_lower = word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let word = if is_lower { Cow::Borrowed(word) } else { Cow::Owned(word.to_lowercase()) };
        match stemming(&word) {
            // Making a stemmer is only choosing a function.
            Some(algorithm) => self.push(Stemmer::create(algorithm).stem(&word).into_owned()),
            None => self.push(word.into_owned()),
        }
    }

    /// `whole` as one term, then what `parts` adds. One part that is the same term again is left out.
    fn compound(&mut self, whole: &str, parts: impl FnOnce(&mut Self)) {
        let joined: String = whole.chars().filter(|ch| !matches!(ch, '_' | '-')).flat_map(char::to_lowercase).collect();
        let at = self.out.len();
        self.word(&joined);
        let added = self.out.len();
        parts(self);
        if added == at {
            return;
        }
        // A compound within this one (a camel-case name in a path) may repeat it: its parts are enough.
        if self.out.get(added).map(|t| &t.term) == self.out.get(at).map(|t| &t.term) {
            self.out.remove(added);
        }
        let parts = self.out.len() - added;
        if let Some(token) = self.out.get_mut(at) {
            token.parts = parts;
        }
    }

    fn words(&mut self, chunk: &str) {
        // Most chunks by far: UAX #29 would give the chunk itself.
        if !chunk.is_empty() && chunk.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return self.name(chunk);
        }
        self.segments(chunk);
    }

    /// The words of a chunk by UAX #29.
    fn segments(&mut self, chunk: &str) {
        if chunk.chars().any(is_unspaced) {
            return self.unspaced(chunk);
        }
        for word in chunk.unicode_words() {
            // UAX #29 keeps `a.b`, `a:b`, `3.14`, `don't` and `a_b` together.
            let is_number = word.chars().all(|ch| ch.is_numeric() || matches!(ch, '.' | ','));
            if is_number || word.chars().all(char::is_alphanumeric) {
                self.name(word);
            } else if word.chars().all(|ch| ch.is_alphanumeric() || ch == '\'') {
                self.word(word);
            } else if word.contains(['_', '.', ':']) {
                self.compound(word, |tokens| {
                    word.split(['_', '.', ':']).filter(|part| !part.is_empty()).for_each(|part| tokens.name(part));
                });
            } else {
                // Letters with marks that are not alphanumeric, as in Hindi.
                self.word(word);
            }
        }
    }

    /// A name without separators: whole, and in its camel-case parts if there are any.
    fn name(&mut self, name: &str) {
        let parts = camel_parts(name);
        if parts.len() > 1 {
            self.compound(name, |tokens| parts.iter().for_each(|part| tokens.word(part)));
        } else {
            let letters = name.trim_end_matches(|ch: char| ch.is_ascii_digit());
            let is_word = letters.len() < name.len()
                && letters.len() >= LETTERS_BEFORE_DIGITS_MIN
                && letters.bytes().all(|b| b.is_ascii_alphabetic());
            if is_word {
                self.compound(name, |tokens| tokens.word(letters));
            } else {
                self.word(name);
            }
        }
    }

    /// Runs of a script without spaces by pairs of characters, a lone character alone, and what else the chunk holds as words.
    fn unspaced(&mut self, chunk: &str) {
        let chars: Vec<char> = chunk.chars().collect();
        for run in chars.chunk_by(|a, b| is_unspaced(*a) == is_unspaced(*b)) {
            match run {
                [first, ..] if !is_unspaced(*first) => self.words(&run.iter().collect::<String>()),
                [lone] => self.push(lone.to_string()),
                run => run.windows(2).for_each(|pair| self.push(pair.iter().collect())),
            }
        }
    }
}

/// How to stem a lower-cased word: by its script where all of it is of one, `None` where it is a code or of another script.
fn stemming(word: &str) -> Option<Algorithm> {
    let script = |ch| match ch {
        'a'..='z' | '\'' => Some(Algorithm::English),
        '\u{400}'..='\u{45f}' => Some(Algorithm::Russian),
        '\u{386}'..='\u{3ce}' => Some(Algorithm::Greek),
        '\u{621}'..='\u{652}' => Some(Algorithm::Arabic),
        _ => None,
    };
    let mut letters = word.chars();
    let first = script(letters.next()?)?;
    letters.all(|ch| script(ch) == Some(first)).then_some(first)
}

/// Compatibility forms made plain, Latin accents folded, typographic apostrophes made plain.
fn fold(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text); // Nothing below is done to ASCII.
    }
    Cow::Owned(folded(text))
}

fn folded(text: &str) -> String {
    text.nfkc()
        .filter(|ch| !matches!(ch, '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200d}' | '\u{ad}' | '\u{feff}'))
        .map(|ch| match ch {
            '\u{2019}' | '\u{2bc}' => '\'',
            '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' => std::iter::once(ch).nfd().next().unwrap_or(ch),
            ch => ch,
        })
        .collect()
}

/// A path, a hyphenated word or a qualified name: joined by separators, nothing else in it.
fn is_compound_chunk(chunk: &str) -> bool {
    chunk.contains(['-', '/', '\\', ':', '@'])
        && !chunk.chars().any(is_unspaced)
        && chunk.chars().all(|ch| {
            ch.is_alphanumeric() || matches!(ch, '-' | '_' | '/' | '\\' | ':' | '.' | '@' | '~' | '+' | '#' | '=')
        })
}

/// `HTTPServerName` is `HTTP`, `Server`, `Name`; digits stay with what precedes them.
fn camel_parts(name: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let chars: Vec<(usize, char)> = name.char_indices().collect();
    for window in chars.windows(2) {
        let [(_, before), (at, ch)] = *window else {
            continue;
        };
        let next_is_lower =
            name.get(at + ch.len_utf8()..).and_then(|rest| rest.chars().next()).is_some_and(char::is_lowercase);
        let begins = ch.is_uppercase() && (!before.is_uppercase() || next_is_lower);
        // `E0277`, `A1B2` and other codes are no camel case: a part needs two characters before it.
        if begins && at - start >= 2 {
            parts.extend(name.get(start..at));
            start = at;
        }
    }
    parts.extend(name.get(start..));
    parts
}

/// Letters of scripts that are written without spaces between words.
fn is_unspaced(ch: char) -> bool {
    matches!(ch,
        '\u{e00}'..='\u{eff}'       // Thai, Lao
        | '\u{1000}'..='\u{109f}'   // Myanmar
        | '\u{1100}'..='\u{11ff}'   // Hangul Jamo
        | '\u{1780}'..='\u{17ff}'   // Khmer
        | '\u{3005}'..='\u{3007}'
        | '\u{3041}'..='\u{30ff}'   // Hiragana, Katakana
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7af}'   // Hangul
        | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3134f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(text: &str) -> Vec<String> {
        tokenize(text).into_iter().map(|token| token.term).collect()
    }

    #[test]
    fn the_version_is_of_these_terms() {
        // Whoever changes this also raises `VERSION`: terms of the old version lie in files.
        let text =
            "Cancelled HTTPServer parse_json src/net/tcp.rs E0277 3.14 naïve 取消订单 Отмена don't C:\\a\\b.rs py3k";
        let hash = blake3::hash(format!("{:?}", terms(text)).as_bytes());
        assert_eq!((VERSION, &hash.to_hex()[..16]), (1, "79d2f4c587ead9b9"));
    }

    #[test]
    fn words_are_lower_cased_and_stemmed() {
        assert_eq!(terms("Cancelled reservations, cancelling!"), ["cancel", "reserv", "cancel"]);
        assert_eq!(terms("I don’t"), terms("i don't"));
        assert_eq!(terms("naïve CAFÉ cafe\u{301}"), terms("naive cafe cafe"));
    }

    #[test]
    fn names_of_programs_are_found_whole_and_in_parts_however_they_are_written() {
        for name in ["parse_json", "parseJson", "ParseJSON", "parse-json"] {
            assert_eq!(terms(name), ["parsejson", "pars", "json"], "{name}");
        }
        assert_eq!(terms("HTTPServer"), ["httpserver", "http", "server"]);
        assert_eq!(terms("get_reservation_details"), ["getreservationdetail", "get", "reserv", "detail"]);
    }

    #[test]
    fn codes_and_numbers_stay_whole() {
        assert_eq!(terms("error[E0277]: 3.14"), ["error", "e0277", "3.14"]);
        assert_eq!(terms("order #W2378156"), ["order", "w2378156"]);
        assert_eq!(terms("python3"), ["python3", "python"]);
    }

    #[test]
    fn paths_are_found_whole_by_file_name_and_by_word() {
        let found = terms("fix django/db/models/query_utils.py now");
        for term in ["django/db/models/queryutils.py", "queryutils.py", "django", "model", "queri", "util"] {
            assert!(found.contains(&term.to_owned()), "{term} in {found:?}");
        }
        assert!(terms("std::io::Error").contains(&"std::io::error".to_owned()));
    }

    #[test]
    fn codes_of_errors_are_found_whole_and_by_their_words() {
        for (text, wanted) in [
            ("ORA-00942", vec!["ora00942", "ora", "00942"]),
            ("CVE-2024-3094", vec!["cve20243094", "cve", "2024", "3094"]),
            ("exit code 0xC0000005", vec!["0xc0000005"]),
            ("failed with ENOENT", vec!["enoent"]),
            ("HTTP 429", vec!["http", "429"]),
            ("TS2345:", vec!["ts2345"]),
            ("java.lang.NullPointerException", vec!["nullpointerexcept", "pointer", "except", "java"]),
            ("KeyError: 'user_id'", vec!["keyerror", "key", "error", "userid", "user", "id"]),
            ("SIGSEGV(11)", vec!["sigsegv", "11"]),
        ] {
            let found = terms(text);
            for term in wanted {
                assert!(found.contains(&term.to_owned()), "{term} of {text} in {found:?}");
            }
        }
    }

    #[test]
    fn paths_and_addresses_of_every_kind_give_their_words() {
        for (text, wanted) in [
            (r"C:\Users\build\main.rs", vec!["main.rs", "main", "build"]),
            ("~/.config/folklore/home.json", vec!["home.json", "config", "folklor"]),
            ("os.path.join(a, b)", vec!["os.path.join", "path", "join"]),
            ("https://docs.rs/tokio/latest", vec!["docs.rs", "tokio", "latest"]),
            ("git@github.com:acme/parcel.git", vec!["acm", "parcel"]),
            ("--no-verify", vec!["noverifi", "verifi"]),
        ] {
            let found = terms(text);
            for term in wanted {
                assert!(found.contains(&term.to_owned()), "{term} of {text} in {found:?}");
            }
        }
    }

    #[test]
    fn code_inside_text_without_spaces_is_found() {
        let found = terms("调用parse_json时出现E0277错误");
        for term in ["parsejson", "json", "e0277", "调用", "错误"] {
            assert!(found.contains(&term.to_owned()), "{term} in {found:?}");
        }
    }

    #[test]
    fn a_compound_counts_its_parts() {
        let tokens = tokenize("a get_user b");
        assert_eq!(tokens.iter().map(|t| t.parts).collect::<Vec<_>>(), [0, 2, 0, 0, 0]);
    }

    #[test]
    fn scripts_without_spaces_are_paired() {
        assert_eq!(terms("取消订单"), ["取消", "消订", "订单"]);
        assert_eq!(terms("订"), ["订"]);
        assert!(!terms("ยกเลิกคำสั่งซื้อ").is_empty());
        assert!(terms("注文をcancelする").contains(&"cancel".to_owned()));
        assert!(terms("주문 취소").contains(&"취소".to_owned()));
    }

    #[test]
    fn other_scripts_are_words() {
        assert_eq!(terms("Отмена ЗАКАЗА"), terms("отмены заказов"));
        assert_eq!(terms("रद्द करें").len(), 2);
        assert_eq!(terms("إلغاء الطلب").len(), 2);
    }

    #[test]
    fn what_nobody_asks_for_again_is_dropped() {
        assert!(terms(&"a1".repeat(TERM_BYTES_MAX)).is_empty());
        assert!(terms("🙂 --- ... \u{0}").is_empty());
    }

    #[test]
    fn the_short_way_through_plain_words_gives_what_the_long_way_gives() {
        for chunk in ["Cancelled", "3", "HTTPServer", "E0277", "python3", "x", "a1B2", "3rd", "007", "orders"] {
            let mut long = Tokens { out: Vec::new() };
            long.segments(chunk);
            assert_eq!(tokenize(chunk), long.out, "{chunk}");
            assert_eq!(tokenize(chunk), tokenize(&format!("{chunk}\u{200b}")), "{chunk}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_gives_bounded_terms_whose_parts_exist(text in "\\PC{0,80}") {
            let tokens = tokenize(&text);
            for (at, token) in tokens.iter().enumerate() {
                proptest::prop_assert!(!token.term.is_empty() && token.term.len() <= TERM_BYTES_MAX);
                proptest::prop_assert!(at + token.parts < tokens.len());
            }
            proptest::prop_assert_eq!(tokens, tokenize(&text));
        }
    }
}
