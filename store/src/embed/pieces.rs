//! Words and word pieces as the built-in table was trained on them (`weights/README.md`, "Embedding a text").

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use unicode_general_category::{GeneralCategory, get_general_category};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Bytes above which a word is skipped whole. Part of the rule the table was trained with.
const WORD_BYTES_MAX: usize = 400;

/// FNV-1a. The keys of the table are fixed at build time, so nobody can fill it with colliding ones, and a short-key
/// hash is what the greedy match spends its time on.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

type PieceMap = HashMap<&'static [u8], u32, BuildHasherDefault<Fnv>>;

/// How much of a text the vocabulary knows, in letters and digits. Words over the limit count as neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) letters: usize,
    pub(super) matched: usize,
}

/// The vocabulary: pieces that begin a word and pieces that continue one.
pub(super) struct Pieces {
    begin: PieceMap,
    more: PieceMap,
    /// Bytes of the longest piece of each kind: bounds the greedy match, so that a word costs at most its length times this.
    begin_bytes_max: usize,
    more_bytes_max: usize,
}

impl Pieces {
    /// Reads the vocabulary; the position in `tokens` is the id. Id 0 is `[UNK]` and matches nothing.
    pub(super) fn new(tokens: impl Iterator<Item = &'static str>) -> Self {
        let mut pieces =
            Pieces { begin: PieceMap::default(), more: PieceMap::default(), begin_bytes_max: 0, more_bytes_max: 0 };
        for (id, token) in (0u32..).zip(tokens) {
            if id == 0 || token.is_empty() {
                continue;
            }
            let (map, longest, key) = match token.strip_prefix("##") {
                Some(rest) if !rest.is_empty() => (&mut pieces.more, &mut pieces.more_bytes_max, rest),
                _ => (&mut pieces.begin, &mut pieces.begin_bytes_max, token),
            };
            *longest = (*longest).max(key.len());
            map.insert(key.as_bytes(), id);
        }
        pieces
    }

    /// Calls `found` with the id of every piece of `text`, in order; tells how much of the text they are.
    pub(super) fn for_each(&self, text: &str, mut found: impl FnMut(u32)) -> Known {
        let mut known = Known::default();
        let mut word = String::new();
        for ch in text.chars().flat_map(char::to_lowercase).nfd().filter(|&ch| !is_dropped(ch)) {
            if ch.is_whitespace() {
                self.word(&word, &mut found, &mut known);
                word.clear();
            } else if stands_alone(ch) {
                self.word(&word, &mut found, &mut known);
                word.clear();
                word.push(ch);
                self.word(&word, &mut found, &mut known);
                word.clear();
            } else {
                word.push(ch);
            }
        }
        self.word(&word, &mut found, &mut known);
        known
    }

    /// Greedy longest match from the left; one character is skipped where nothing matches.
    fn word(&self, word: &str, found: &mut impl FnMut(u32), known: &mut Known) {
        if word.len() > WORD_BYTES_MAX {
            return;
        }
        let letters = |text: &str| text.chars().filter(|ch| ch.is_alphanumeric()).count();
        known.letters += letters(word);
        let mut rest = word;
        while !rest.is_empty() {
            let (map, longest) = if rest.len() == word.len() {
                (&self.begin, self.begin_bytes_max)
            } else {
                (&self.more, self.more_bytes_max)
            };
            let matched = (1..=longest.min(rest.len())).rev().find_map(|end| {
                let piece = rest.get(..end)?;
                map.get(piece.as_bytes()).map(|&id| (id, end))
            });
            let advance = match matched {
                Some((id, end)) => {
                    found(id);
                    known.matched += letters(rest.get(..end).unwrap_or_default());
                    end
                }
                None => rest.chars().next().map_or(rest.len(), char::len_utf8),
            };
            rest = rest.get(advance..).unwrap_or_default();
        }
    }
}

/// Combining marks, the replacement character, and control or format characters that are not white space.
fn is_dropped(ch: char) -> bool {
    if ch.is_ascii() {
        return ch.is_ascii_control() && !ch.is_whitespace();
    }
    ch == '\u{fffd}'
        || is_combining_mark(ch)
        || (!ch.is_whitespace()
            && matches!(get_general_category(ch), GeneralCategory::Control | GeneralCategory::Format))
}

/// A word of its own: punctuation (all ASCII symbols too) and CJK ideographs.
fn stands_alone(ch: char) -> bool {
    if ch.is_ascii() {
        return ch.is_ascii_punctuation();
    }
    matches!(ch, '\u{4e00}'..='\u{9fff}' | '\u{3400}'..='\u{4dbf}' | '\u{20000}'..='\u{2a6df}' | '\u{f900}'..='\u{faff}')
        || matches!(
            get_general_category(ch),
            GeneralCategory::ConnectorPunctuation
                | GeneralCategory::DashPunctuation
                | GeneralCategory::OpenPunctuation
                | GeneralCategory::ClosePunctuation
                | GeneralCategory::InitialPunctuation
                | GeneralCategory::FinalPunctuation
                | GeneralCategory::OtherPunctuation
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(text: &str) -> Vec<u32> {
        let tokens = ["[UNK]", "abc", "ab", "##c", "##cd", "-", "##", "订"];
        let mut ids = Vec::new();
        Pieces::new(tokens.into_iter()).for_each(text, |id| ids.push(id));
        ids
    }

    #[test]
    fn the_longest_piece_wins_and_later_pieces_continue_the_word() {
        assert_eq!(ids("abc"), [1]);
        assert_eq!(ids("abcd abccd"), [1, 1, 4]);
        assert_eq!(ids("ABC-ab"), [1, 5, 2]);
    }

    #[test]
    fn a_character_that_matches_nothing_is_skipped() {
        assert_eq!(ids("abzc"), [2, 3]);
        assert!(ids("é").is_empty());
        // What follows a skipped first character still continues a word.
        assert_eq!(ids("zabc"), [3]);
    }

    #[test]
    fn words_over_the_limit_give_no_piece() {
        let at = format!("abc{}", "z".repeat(WORD_BYTES_MAX - 3));
        assert_eq!(ids(&at), [1]);
        assert!(ids(&format!("{at}z")).is_empty());
    }

    #[test]
    fn accents_controls_and_zero_width_characters_do_not_split_words() {
        assert_eq!(ids("a\u{301}b\u{0}c\u{200b}"), [1]);
        assert_eq!(ids("ab\u{85}abc"), [2, 1]);
    }

    #[test]
    fn ideographs_stand_alone() {
        assert_eq!(ids("ab订ab"), [2, 7, 2]);
    }
}
