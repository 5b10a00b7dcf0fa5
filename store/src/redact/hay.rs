//! The stretch of text a rule may look at, and what counts as the edge of a word in it.

use std::ops::Range;

/// The text between two placeholders (or the ends of the whole text). A rule reads nothing outside it.
///
/// Why there is such a thing: a placeholder written by an earlier pass must hide nothing and reveal nothing. Wherever
/// the stretch ends at a placeholder, that end counts as *inside a word*, as the secret that stood there did; so a
/// second pass can find only what the first one could have found too, and redaction is idempotent.
#[derive(Clone, Copy)]
pub(crate) struct Hay<'t> {
    bytes: &'t [u8],
    lo: usize,
    hi: usize,
}

impl<'t> Hay<'t> {
    /// The stretch `bounds` of `text`; offsets taken and given by all methods are offsets into `text`.
    pub(crate) fn new(text: &'t str, bounds: Range<usize>) -> Self {
        let hi = bounds.end.min(text.len());
        Self { bytes: text.as_bytes(), lo: bounds.start.min(hi), hi }
    }

    /// The byte at `at`, if it lies in the stretch.
    pub(crate) fn at(&self, at: usize) -> Option<u8> {
        (self.lo <= at && at < self.hi).then(|| self.bytes[at])
    }

    /// The byte before `at`, if it lies in the stretch.
    pub(crate) fn before(&self, at: usize) -> Option<u8> {
        at.checked_sub(1).and_then(|at| self.at(at))
    }

    /// At most `max` bytes from `from` on.
    pub(crate) fn ahead(&self, from: usize, max: usize) -> &'t [u8] {
        let ahead = self.slice_ahead(from, max);
        charge(ahead.len().min(CHARGED_BYTES));
        ahead
    }

    fn slice_ahead(&self, from: usize, max: usize) -> &'t [u8] {
        let from = from.clamp(self.lo, self.hi);
        &self.bytes[from..from.saturating_add(max).min(self.hi)]
    }

    /// At most `max` bytes that end right before `to`.
    pub(crate) fn behind(&self, to: usize, max: usize) -> &'t [u8] {
        let behind = self.slice_behind(to, max);
        charge(behind.len().min(CHARGED_BYTES));
        behind
    }

    fn slice_behind(&self, to: usize, max: usize) -> &'t [u8] {
        let to = to.clamp(self.lo, self.hi);
        &self.bytes[to.saturating_sub(max).max(self.lo)..to]
    }

    /// The bytes of `range`, clipped to the stretch.
    pub(crate) fn get(&self, range: Range<usize>) -> &'t [u8] {
        self.ahead(range.start, range.end.saturating_sub(range.start))
    }

    /// The first offset at or after `from` whose byte does not satisfy `keep`, at most `max` bytes on.
    pub(crate) fn skip(&self, from: usize, max: usize, keep: impl Fn(u8) -> bool) -> usize {
        let kept = self.slice_ahead(from, max).iter().take_while(|&&b| keep(b)).count();
        charge(kept + 1);
        from + kept
    }

    /// The smallest offset such that all bytes from there to `to` satisfy `keep`, at most `max` bytes back.
    pub(crate) fn skip_back(&self, to: usize, max: usize, keep: impl Fn(u8) -> bool) -> usize {
        let kept = self.slice_behind(to, max).iter().rev().take_while(|&&b| keep(b)).count();
        charge(kept + 1);
        to - kept
    }

    /// Whether the stretch begins at `at` because a placeholder ends there.
    pub(crate) fn cut_left(&self, at: usize) -> bool {
        at <= self.lo && self.lo > 0
    }

    /// Whether the stretch ends at `at` because a placeholder begins there.
    pub(crate) fn cut_right(&self, at: usize) -> bool {
        at >= self.hi && self.hi < self.bytes.len()
    }

    /// Whether a word may begin at `at`: no letter, digit or `_` right before it, except where that is the tail of an
    /// escape (`\n`, `\u0022`, `%3D`) or of a terminal colour (`ESC[31m`).
    pub(crate) fn opens(&self, at: usize) -> bool {
        if self.cut_left(at) {
            return false;
        }
        match self.before(at) {
            Some(byte) if is_word(byte) => self.ends_escape(at),
            _ => true,
        }
    }

    /// Whether a word may end at `at`: no letter, digit or `_` follows.
    pub(crate) fn closes(&self, at: usize) -> bool {
        !self.cut_right(at) && !self.at(at).is_some_and(is_word)
    }

    /// Whether the bytes right before `at` are an escape sequence, as in JSON strings, URLs and terminal output.
    pub(crate) fn ends_escape(&self, at: usize) -> bool {
        let behind = self.behind(at, 16);
        match behind {
            [.., b'\\', b'n' | b't' | b'r' | b'b' | b'f' | b'v' | b'0'] => true,
            [.., b'\\', b'u', a, b, c, d] if [a, b, c, d].iter().all(|h| h.is_ascii_hexdigit()) => true,
            [.., b'\\', b'x', a, b] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => true,
            [.., b'%', a, b] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => true,
            [.., b'm'] => {
                // The introducer may be the raw byte or its own escape (`\u001b[31m`), hence the test on `[` alone
                // with what such escapes end in.
                let digits =
                    behind[..behind.len() - 1].iter().rev().take_while(|b| b.is_ascii_digit() || **b == b';').count();
                matches!(
                    behind[..behind.len() - 1 - digits],
                    [.., 0x1b, b'['] | [.., b'1', b'b' | b'B', b'['] | [.., b'3', b'3', b'['] | [.., b'\\', b'e', b'[']
                )
            }
            _ => false,
        }
    }
}

/// A slice handed out counts as read up to this length; the longer ones are searched with the methods that count.
const CHARGED_BYTES: usize = 4096;

/// Counts bytes read, in tests only: they check that the work of all rules together stays linear.
fn charge(_bytes: usize) {
    #[cfg(test)]
    work::BYTES.with(|sum| sum.set(sum.get() + _bytes as u64));
}

#[cfg(test)]
pub(crate) mod work {
    use std::cell::Cell;

    thread_local! {
        pub(crate) static BYTES: Cell<u64> = const { Cell::new(0) };
    }
}

/// Letters, digits and `_`: what makes up a word for [`Hay::opens`] and [`Hay::closes`].
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The base64 alphabets, standard and URL-safe, without padding.
pub(crate) fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_opens_after_escapes_and_colours_but_not_inside_a_word() {
        for (text, opens) in [
            ("key", true),
            (" key", true),
            ("xkey", false),
            ("\\nkey", true),
            ("\\u0022key", true),
            ("%3Dkey", true),
            ("\u{1b}[1;31mkey", true),
            ("\\u001b[31mkey", true),
            ("31mkey", false),
        ] {
            let hay = Hay::new(text, 0..text.len());
            assert_eq!(hay.opens(text.len() - 3), opens, "{text}");
        }
    }

    #[test]
    fn a_placeholder_edge_counts_as_inside_a_word() {
        let text = "aa key bb";
        let hay = Hay::new(text, 3..6);
        assert!(!hay.opens(3));
        assert!(!hay.closes(6));
        assert!(Hay::new(text, 0..text.len()).closes(6));
    }
}
