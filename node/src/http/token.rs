//! The token that opens the HTTP door.

use std::fmt;

/// A secret made anew at every start of the daemon. Never logged.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// 256 random bits.
    ///
    /// # Errors
    /// When the system gives no randomness.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut bytes = [0u8; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Self(data_encoding::HEXLOWER.encode(&bytes)))
    }

    /// The text, for `daemon.json`.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether `given` is the token. Hashes are compared, in a time that says nothing about where they differ.
    pub fn matches(&self, given: &[u8]) -> bool {
        blake3::hash(self.0.as_bytes()) == blake3::hash(given)
    }
}

impl From<String> for Token {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_tokens_differ_and_each_matches_only_itself() {
        let (a, b) = (Token::generate().unwrap(), Token::generate().unwrap());
        assert!(a.matches(a.reveal().as_bytes()) && !a.matches(b.reveal().as_bytes()) && !a.matches(b""));
        assert!(!format!("{a:?}").contains(a.reveal()));
    }
}
