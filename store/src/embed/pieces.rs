//! Words and word pieces as the built-in table was trained on them (`weights/README.md`, "Embedding a text").

use unicode_general_category::{GeneralCategory, get_general_category};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Bytes above which a word is skipped whole. Part of the rule the table was trained with.
const WORD_BYTES_MAX: usize = 400;
/// Bytes above which a piece of the vocabulary would not be found. The longest there is has 25.
pub(super) const PIECE_BYTES_MAX: usize = 32;
/// Places of a table for each piece in it.
const PLACES_PER_PIECE: usize = 2;
/// Bits of a filter for each piece: one prefix in about eight that is no piece passes it. It stays in the nearest cache, and
/// the table does not.
const FILTER_BITS_PER_PIECE: usize = 8;

/// FNV-1a of every prefix is had in one pass over a word. Pieces are told apart by all 64 bits of it: no two of the vocabulary
/// share one, a text meets another's by chance in one word of 2^48, and by intent it gains only a vector that other words
/// would have given it.
const HASH_START: u64 = 0xcbf2_9ce4_8422_2325;
const HASH_FACTOR: u64 = 0x0000_0100_0000_01b3;

/// Pieces of one kind, by open addressing, behind a filter: most prefixes that the greedy match tries are no pieces.
struct Table {
    /// A bit for each hash that a piece has.
    filter: Vec<u64>,
    /// The hash, and the piece: an id, 0 for an empty place.
    places: Vec<(u64, u32)>,
    /// Bytes of the longest piece: bounds the greedy match, so that a word costs at most its length times this.
    longest: usize,
}

impl Table {
    fn new(pieces: &[(&'static [u8], u32)]) -> Self {
        let words = (pieces.len() * FILTER_BITS_PER_PIECE).next_power_of_two().max(64) / 64;
        let mut table = Table { filter: vec![0; words], places: Vec::new(), longest: 0 };
        table.places.resize((pieces.len() * PLACES_PER_PIECE).next_power_of_two().max(1), (0, 0));
        for (piece, id) in pieces {
            let hash = piece.iter().fold(HASH_START, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(HASH_FACTOR));
            let (word, bit) = table.filter_bit(hash);
            if let Some(word) = table.filter.get_mut(word) {
                *word |= bit;
            }
            let mut at = table.first(hash);
            while let Some(place) = table.places.get_mut(at) {
                if place.1 == 0 {
                    *place = (hash, *id);
                    break;
                }
                at = (at + 1) % table.places.len();
            }
            table.longest = table.longest.max(piece.len());
        }
        table
    }

    /// The word and the bit of the filter for a hash; by other bits of it than its place.
    fn filter_bit(&self, hash: u64) -> (usize, u64) {
        ((hash >> 40) as usize & (self.filter.len() - 1), 1 << (hash >> 34 & 63))
    }

    fn first(&self, hash: u64) -> usize {
        (hash ^ (hash >> 29)) as usize & (self.places.len() - 1)
    }

    /// The longest piece that `rest` begins with: its id and its bytes.
    fn longest_of(&self, rest: &[u8]) -> Option<(u32, usize)> {
        let mut hashes = [0u64; PIECE_BYTES_MAX];
        // A bit for each length at which the filter lets the prefix pass.
        let mut passing = 0u32;
        let mut hash = HASH_START;
        for (at, (byte, out)) in (0..self.longest).zip(rest.iter().zip(&mut hashes)) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(HASH_FACTOR);
            *out = hash;
            let (word, bit) = self.filter_bit(hash);
            passing |= u32::from(self.filter.get(word).is_some_and(|word| word & bit != 0)) << at;
        }
        while let Some(at) = passing.checked_ilog2() {
            if let Some(id) = hashes.get(at as usize).and_then(|hash| self.find(*hash)) {
                return Some((id, at as usize + 1));
            }
            passing ^= 1 << at;
        }
        None
    }

    fn find(&self, hash: u64) -> Option<u32> {
        let mut at = self.first(hash);
        // A table is never full, so there is an empty place.
        while let Some(&(there, id)) = self.places.get(at).filter(|place| place.1 != 0) {
            if there == hash {
                return Some(id);
            }
            at = (at + 1) & (self.places.len() - 1);
        }
        None
    }
}

/// How much of a text the vocabulary knows, in letters and digits. Words over the limit count as neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) letters: usize,
    pub(super) matched: usize,
}

/// The vocabulary: pieces that begin a word and pieces that continue one.
pub(super) struct Pieces {
    begin: Table,
    more: Table,
}

impl Pieces {
    /// Reads the vocabulary; the position in `tokens` is the id. Id 0 is `[UNK]` and matches nothing.
    pub(super) fn new(tokens: impl Iterator<Item = &'static str>) -> Self {
        let (mut begin, mut more) = (Vec::new(), Vec::new());
        for (id, token) in (0u32..).zip(tokens) {
            let (kind, key) = match token.strip_prefix("##") {
                Some(rest) if !rest.is_empty() => (&mut more, rest),
                _ => (&mut begin, token),
            };
            if id != 0 && !key.is_empty() && key.len() <= PIECE_BYTES_MAX {
                kind.push((key.as_bytes(), id));
            }
        }
        Pieces { begin: Table::new(&begin), more: Table::new(&more) }
    }

    /// Calls `found` with the id of every piece of `text`, in order; tells how much of the text they are.
    pub(super) fn for_each(&self, text: &str, mut found: impl FnMut(u32)) -> Known {
        let mut known = Known::default();
        if text.is_ascii() {
            self.for_each_ascii(text, &mut found, &mut known);
        } else {
            self.for_each_char(text, &mut found, &mut known);
        }
        known
    }

    fn for_each_char(&self, text: &str, found: &mut impl FnMut(u32), known: &mut Known) {
        let mut word = String::new();
        for ch in text.chars().flat_map(char::to_lowercase).nfd().filter(|&ch| !is_dropped(ch)) {
            if ch.is_whitespace() {
                self.word::<false>(&word, found, known);
                word.clear();
            } else if stands_alone(ch) {
                self.word::<false>(&word, found, known);
                word.clear();
                word.push(ch);
                self.word::<false>(&word, found, known);
                word.clear();
            } else {
                word.push(ch);
            }
        }
        self.word::<false>(&word, found, known);
    }

    /// The same for what most texts are: no decomposition, no look at tables of categories, and words are slices.
    fn for_each_ascii(&self, text: &str, found: &mut impl FnMut(u32), known: &mut Known) {
        let mut lower = text.to_ascii_lowercase();
        if lower.bytes().any(|byte| byte.is_ascii_control()) {
            lower.retain(|ch| !is_dropped(ch));
        }
        let mut start = 0;
        for (at, byte) in lower.bytes().enumerate() {
            let alone = byte.is_ascii_punctuation();
            if alone || char::from(byte).is_whitespace() {
                self.word::<true>(lower.get(start..at).unwrap_or_default(), found, known);
                if alone {
                    self.word::<true>(lower.get(at..at + 1).unwrap_or_default(), found, known);
                }
                start = at + 1;
            }
        }
        self.word::<true>(lower.get(start..).unwrap_or_default(), found, known);
    }

    /// Greedy longest match from the left; one character is skipped where nothing matches.
    fn word<const ASCII: bool>(&self, word: &str, found: &mut impl FnMut(u32), known: &mut Known) {
        if word.len() > WORD_BYTES_MAX || word.is_empty() {
            return;
        }
        let letters = |text: &str| match ASCII {
            // What is neither control, space nor punctuation; and a word of punctuation is one character.
            true if text.as_bytes().first().is_some_and(u8::is_ascii_punctuation) => 0,
            true => text.len(),
            false => text.chars().filter(|ch| ch.is_alphanumeric()).count(),
        };
        known.letters += letters(word);
        let mut rest = word;
        while !rest.is_empty() {
            let table = if rest.len() == word.len() { &self.begin } else { &self.more };
            // A piece is whole characters, so what is left after one is too.
            let advance = match table.longest_of(rest.as_bytes()) {
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

    proptest::proptest! {
        #[test]
        fn ascii_is_read_as_any_text_is(text in "[ -~\t\n\r\x0b\x0c\x00-\x1f\x7f]{0,60}|[abcdz#. -]{0,40}") {
            let tokens = ["[UNK]", "abc", "ab", "##c", "##cd", "-", "##", "a", "d", "##d"];
            let pieces = Pieces::new(tokens.into_iter());
            let (mut fast, mut slow) = (Vec::new(), Vec::new());
            let (mut known_fast, mut known_slow) = (Known::default(), Known::default());
            pieces.for_each_ascii(&text, &mut |id| fast.push(id), &mut known_fast);
            pieces.for_each_char(&text, &mut |id| slow.push(id), &mut known_slow);
            proptest::prop_assert_eq!(fast, slow);
            proptest::prop_assert_eq!(known_fast, known_slow);
        }
    }

    #[test]
    fn no_two_pieces_have_one_hash() {
        let hash = |piece: &[u8]| piece.iter().fold(HASH_START, |h, b| (h ^ u64::from(*b)).wrapping_mul(HASH_FACTOR));
        let hashes: Vec<u64> = super::super::builtin::vocabulary().map(|token| hash(token.as_bytes())).collect();
        let distinct: std::collections::BTreeSet<u64> = hashes.iter().copied().collect();
        assert!(hashes.len() > 10_000 && hashes.len() == distinct.len());
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
