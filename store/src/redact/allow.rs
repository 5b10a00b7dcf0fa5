//! Values that are no secrets though they look like some: the example keys of a documentation, a public mail address.
//!
//! The list is by value, never by rule: switching off a kind would let every secret of that kind through.

use std::collections::BTreeSet;
use std::sync::OnceLock;

/// Most values of a list: it is written by hand.
pub const MAX_ALLOWED: usize = 1_000;
/// Shortest value, bytes: a shorter one would be a piece of many secrets, and no rule claims so little.
pub const MIN_ALLOWED_BYTES: usize = 6;
/// Longest value, bytes.
pub const MAX_ALLOWED_BYTES: usize = 512;

/// Why a list is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AllowError {
    /// A line's length.
    #[error(
        "line {line} of the allow list has {len} bytes, {MIN_ALLOWED_BYTES} to {MAX_ALLOWED_BYTES} are possible: one value a \
         line, exactly as it stands in texts"
    )]
    Length {
        /// Which, from 1.
        line: usize,
        /// Its bytes.
        len: usize,
    },
    /// Too many lines.
    #[error("the allow list has over {MAX_ALLOWED} values: it is for single values, not for kinds")]
    TooMany,
    /// Another list is in force.
    #[error("an allow list is in force already: restart to read it anew")]
    InForce,
}

/// A list of values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allow(BTreeSet<String>);

static IN_FORCE: OnceLock<Allow> = OnceLock::new();

impl Allow {
    /// Reads a list: one value a line, outer white space aside; lines that are empty or begin with `#` are passed over.
    pub fn parse(text: &str) -> Result<Self, AllowError> {
        let mut values = BTreeSet::new();
        for (at, line) in text.lines().enumerate() {
            let value = line.trim();
            if value.is_empty() || value.starts_with('#') {
                continue;
            }
            let len = value.len();
            if !(MIN_ALLOWED_BYTES..=MAX_ALLOWED_BYTES).contains(&len) {
                return Err(AllowError::Length { line: at + 1, len });
            }
            values.insert(value.to_owned());
            if values.len() > MAX_ALLOWED {
                return Err(AllowError::TooMany);
            }
        }
        Ok(Self(values))
    }

    /// How many values it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts the list in force for this process, once: what was redacted before stays as it is. The same list again is no
    /// error.
    pub fn install(self) -> Result<(), AllowError> {
        let wanted = self.clone();
        if *IN_FORCE.get_or_init(|| self) == wanted { Ok(()) } else { Err(AllowError::InForce) }
    }

    /// The list in force; empty by default.
    #[must_use]
    pub fn in_force() -> &'static Self {
        static NONE: Allow = Allow(BTreeSet::new());
        IN_FORCE.get().unwrap_or(&NONE)
    }

    /// What tells lists apart: what was judged under another one has to be judged again.
    pub(crate) fn digest(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key("folklore 2026 list of values that are no secrets");
        for value in &self.0 {
            hasher.update(&(value.len() as u64).to_le_bytes()).update(value.as_bytes());
        }
        *hasher.finalize().as_bytes()
    }

    /// Whether what a rule claims is one of the values, quotes around it aside.
    pub(super) fn has(&self, claimed: &str) -> bool {
        !self.0.is_empty()
            && (self.0.contains(claimed) || self.0.contains(claimed.trim_matches(|c| matches!(c, '"' | '\'' | '`'))))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Classes, fires_but, redact_but};
    use super::*;

    #[test]
    fn an_allowed_value_stays_and_its_neighbours_go() {
        let example = format!("AKIA{}", "IOSFODNN7EXAMPL2");
        let real = format!("AKIA{}", "Q3Y7ABCDEFGH2345");
        let mail = format!("{}@{}", "help", "folklore-project.org");
        let allow = Allow::parse(&format!("# of the manual\n{example}\n\n  {mail}  \n")).unwrap();
        assert_eq!(allow.len(), 2);
        let text = format!("key {example}, mail {mail}");
        assert!(!redact_but(&text, Classes::ALL, &Allow::default()).fired.is_empty());
        assert_eq!(redact_but(&text, Classes::ALL, &allow).text, text);
        assert_eq!(fires_but(&text, Classes::ALL, &allow), None);
        let both = format!("{text} and {real}");
        let redacted = redact_but(&both, Classes::ALL, &allow);
        assert!(redacted.text.contains(&example) && !redacted.text.contains(&real), "{}", redacted.text);
        assert!(fires_but(&both, Classes::ALL, &allow).is_some());
        // A value that only begins so is another.
        assert!(fires_but(&format!("see x{mail}"), Classes::ALL, &allow).is_some());
    }

    #[test]
    fn lists_have_one_digest_if_they_have_the_same_values() {
        let digest = |text: &str| Allow::parse(text).unwrap().digest();
        assert_eq!(digest("value-1\nvalue-2"), digest("# b\nvalue-2\n value-1"));
        assert_eq!(digest(""), Allow::default().digest());
        assert_ne!(digest("value-1"), digest(""));
        assert_ne!(digest("value-1\nvalue-2"), digest("value-1value-2"));
    }

    #[test]
    fn a_list_of_scraps_or_of_everything_is_refused() {
        assert_eq!(Allow::parse("good-value\nabc"), Err(AllowError::Length { line: 2, len: 3 }));
        assert!(Allow::parse(&"x".repeat(MAX_ALLOWED_BYTES + 1)).is_err());
        let many: String = (0..=MAX_ALLOWED).map(|n| format!("value-{n}\n")).collect();
        assert_eq!(Allow::parse(&many), Err(AllowError::TooMany));
    }
}
