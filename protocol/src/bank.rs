//! Banks: a named set of records with an owner and a policy.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{
    canonical::{self, DecodeError, Lines},
    identity::{AuthorId, ParseIdError},
};

/// Longest bank name, bytes.
pub const MAX_BANK_NAME_BYTES: usize = 64;
/// Most keys that one policy may name, over all its lists: 512 × 32 bytes stay well inside a record.
pub const MAX_POLICY_KEYS: usize = 512;
/// Most principals in one policy.
pub const MAX_PRINCIPALS: usize = 256;
/// Longest name of a principal, bytes.
pub const MAX_PRINCIPAL_NAME_BYTES: usize = 32;
/// Records an author may have in a bank whose owner has said nothing.
pub const DEFAULT_RECORDS_PER_AUTHOR: u32 = 1_000_000;

/// Random bytes chosen when a bank is made. All zero for a bank that anyone shall find who knows its owner and name.
pub type BankSalt = [u8; 16];
/// The salt of a public bank: whoever knows its owner and name can work out its id and look for it. That it is public is so
/// part of what it is, known to everybody who joins, and cannot be changed later.
pub const PUBLIC_SALT: BankSalt = [0; 16];

/// A bank: BLAKE3 of its owner, salt and name in a context of its own. Shown in hex.
///
/// Knowing the id is what a ticket gives: without the salt it cannot be guessed from the owner and a likely name, and it is
/// never sent to a peer that has not shown that it knows it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BankId(pub [u8; 32]);

impl BankId {
    /// The bank called `name` that `owner` made with `salt`. The name is brought into normal form first.
    pub fn new(owner: &AuthorId, salt: &BankSalt, name: &str) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("folklore 2026 bank id v1");
        hasher.update(&owner.0).update(salt).update(canonical::normalise(name, Lines::One).as_bytes());
        Self(*hasher.finalize().as_bytes())
    }
}

impl fmt::Display for BankId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for BankId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BankId({}…)", data_encoding::HEXLOWER.encode(&self.0[..6]))
    }
}

impl FromStr for BankId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        parse_hex32(text).map(Self).ok_or_else(|| ParseIdError::new("bank id (64 hex digits)", text))
    }
}

/// 64 hex digits as 32 bytes.
pub(crate) fn parse_hex32(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 {
        return None;
    }
    data_encoding::HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?.try_into().ok()
}

/// Whom a right is given to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    /// Whoever knows the bank id.
    Anyone,
    /// These authors, and the owner always. Sorted, no repeats.
    Listed(Vec<AuthorId>),
}

/// Who stands behind one or more author keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Principal {
    /// What the owner calls them.
    pub name: String,
    /// Their keys. Sorted, no repeats.
    pub authors: Vec<AuthorId>,
}

/// What a bank's owner rules. The claim with the owner's highest seq is in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Who may read.
    pub readers: Access,
    /// Who may write.
    pub writers: Access,
    /// Who stands behind which keys; all unlisted authors together count as one. Sorted by name, no repeats.
    pub principals: Vec<Principal>,
    /// Whose endorsement and withdrawal count for the bank. Sorted, no repeats.
    pub curators: Vec<AuthorId>,
    /// Records one author may have in the bank, counted by seq, lowest first.
    pub records_per_author: u32,
    /// Whether a lesson shows only after a curator endorsed it.
    pub endorsed_only: bool,
}

impl Default for Policy {
    /// What holds while the owner has said nothing: open to whoever knows the bank id.
    fn default() -> Self {
        Self {
            readers: Access::Anyone,
            writers: Access::Anyone,
            principals: Vec::new(),
            curators: Vec::new(),
            records_per_author: DEFAULT_RECORDS_PER_AUTHOR,
            endorsed_only: false,
        }
    }
}

impl Policy {
    pub(crate) fn check(&self) -> Result<(), DecodeError> {
        let mut keys = self.curators.len();
        canonical::check_set("curators", &self.curators, MAX_POLICY_KEYS)?;
        for (field, access) in [("readers", &self.readers), ("writers", &self.writers)] {
            if let Access::Listed(authors) = access {
                canonical::check_set(field, authors, MAX_POLICY_KEYS)?;
                keys += authors.len();
            }
        }
        if self.principals.len() > MAX_PRINCIPALS {
            return Err(DecodeError::Invalid(format!("more than {MAX_PRINCIPALS} principals")));
        }
        if self.principals.windows(2).any(|p| p[0].name >= p[1].name) {
            return Err(DecodeError::Invalid("principals are not sorted by name without repeats".into()));
        }
        for principal in &self.principals {
            canonical::check_text("a principal's name", &principal.name, MAX_PRINCIPAL_NAME_BYTES, Lines::One)?;
            canonical::check_set("a principal's authors", &principal.authors, MAX_POLICY_KEYS)?;
            keys += principal.authors.len();
        }
        let mut listed: Vec<&AuthorId> = self.principals.iter().flat_map(|p| &p.authors).collect();
        listed.sort();
        if listed.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(DecodeError::Invalid("one key stands in two principals".into()));
        }
        if keys > MAX_POLICY_KEYS {
            return Err(DecodeError::Invalid(format!("a policy names {keys} keys, the limit is {MAX_POLICY_KEYS}")));
        }
        Ok(())
    }

    /// Whether `author` may read a bank of `owner` under this policy.
    pub fn may_read(&self, owner: &AuthorId, author: &AuthorId) -> bool {
        owner == author || self.readers.allows(author)
    }

    /// Who may read a bank of `owner` under this policy, with the owner listed where there is a list.
    pub fn readers_with(&self, owner: &AuthorId) -> Access {
        let mut readers = self.readers.clone();
        if let Access::Listed(authors) = &mut readers
            && let Err(at) = authors.binary_search(owner)
        {
            authors.insert(at, *owner);
        }
        readers
    }

    /// Whether `author` may write to a bank of `owner` under this policy.
    pub fn may_write(&self, owner: &AuthorId, author: &AuthorId) -> bool {
        owner == author || self.writers.allows(author)
    }
}

impl Access {
    /// Whether it is given to `author`; that the owner has it too is for whoever knows the owner to say.
    pub fn allows(&self, author: &AuthorId) -> bool {
        match self {
            Self::Anyone => true,
            Self::Listed(authors) => authors.binary_search(author).is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bank_belongs_to_its_owner_and_name() {
        let (a, b) = (AuthorId([1; 32]), AuthorId([2; 32]));
        let salt = [7; 16];
        assert_ne!(BankId::new(&a, &salt, "home"), BankId::new(&b, &salt, "home"));
        assert_ne!(BankId::new(&a, &salt, "home"), BankId::new(&a, &salt, "work"));
        assert_ne!(BankId::new(&a, &salt, "home"), BankId::new(&a, &[8; 16], "home"), "a guess needs the salt");
        assert_eq!(BankId::new(&a, &salt, " home "), BankId::new(&a, &salt, "home"));
        let id = BankId::new(&a, &salt, "home");
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn a_policy_names_a_bounded_number_of_keys() {
        let many: Vec<AuthorId> =
            (0..=MAX_POLICY_KEYS as u32).map(|n| AuthorId(*blake3::hash(&n.to_le_bytes()).as_bytes())).collect();
        let mut sorted = many;
        sorted.sort();
        let policy = Policy { readers: Access::Listed(sorted), ..Policy::default() };
        assert!(policy.check().is_err());
    }
}
