//! Who signs: ed25519 keys. An author's key is also its node's libp2p identity.

use std::{collections::BTreeMap, fmt, str::FromStr};

use ed25519_dalek::{Signature as DalekSignature, Signer, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};

/// The protobuf and multihash header in front of an ed25519 key in a libp2p peer id
/// (libp2p peer-ids specification: identity multihash of the encoded public key).
const PEER_ID_HEADER: [u8; 6] = [0x00, 0x24, 0x08, 0x01, 0x12, 0x20];

/// An author: the 32 bytes of an ed25519 public key. Shown as the libp2p peer id of the same key (`12D3KooW…`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AuthorId(pub [u8; 32]);

impl fmt::Display for AuthorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = PEER_ID_HEADER.to_vec();
        bytes.extend_from_slice(&self.0);
        f.write_str(&bs58::encode(bytes).into_string())
    }
}

impl fmt::Debug for AuthorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AuthorId({self})")
    }
}

/// A text that is not an identifier of the kind that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a {kind}")]
pub struct ParseIdError {
    /// What the text should have been.
    pub kind: &'static str,
    /// The text, shortened.
    pub text: String,
}

impl ParseIdError {
    pub(crate) fn new(kind: &'static str, text: &str) -> Self {
        Self { kind, text: crate::canonical::shorten(text, 80) }
    }
}

impl FromStr for AuthorId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let wrong = || ParseIdError::new("node id", text);
        if text.len() > 64 {
            return Err(wrong());
        }
        let bytes = bs58::decode(text).into_vec().map_err(|_| wrong())?;
        let key = bytes.strip_prefix(&PEER_ID_HEADER).ok_or_else(wrong)?;
        Ok(Self(key.try_into().map_err(|_| wrong())?))
    }
}

/// 64 bytes of an ed25519 signature.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature(pub [u8; 64]);

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signature({})", data_encoding::HEXLOWER.encode(&self.0[..8]))
    }
}

/// A signing key. The secret is wiped from memory when dropped and never shown.
#[derive(Clone)]
pub struct Keypair(SigningKey);

impl Keypair {
    /// The key for a 32-byte secret seed. The caller draws the seed; this crate has no randomness of its own.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(seed))
    }

    /// The public half.
    pub fn author(&self) -> AuthorId {
        AuthorId(self.0.verifying_key().to_bytes())
    }

    /// The secret seed, for the identity file and the transport.
    pub fn seed(&self) -> [u8; 32] {
        self.0.to_bytes()
    }

    /// Signs `message`.
    pub fn sign(&self, message: &[u8]) -> Signature {
        Signature(self.0.sign(message).to_bytes())
    }
}

impl fmt::Debug for Keypair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keypair({})", self.author())
    }
}

/// Whether `signature` by `author` fits `message`, by the strict rule: a small-order key, which would make one signature
/// fit two messages, is refused.
pub fn verify(author: &AuthorId, message: &[u8], signature: &Signature) -> bool {
    VerifyingKey::from_bytes(&author.0)
        .and_then(|key| key.verify_strict(message, &DalekSignature::from_bytes(&signature.0)))
        .is_ok()
}

/// Most keys that [`Keys`] holds: 13 KB of them.
const MAX_KEYS: usize = 64;

/// Authors' keys, unpacked: that takes a tenth of what checking a signature takes, and a batch of records is by few authors.
#[derive(Debug, Default)]
pub struct Keys(BTreeMap<AuthorId, VerifyingKey>);

impl Keys {
    /// The same as [`verify`], by the same rule.
    pub fn verify(&mut self, author: &AuthorId, message: &[u8], signature: &Signature) -> bool {
        let signature = DalekSignature::from_bytes(&signature.0);
        if let Some(key) = self.0.get(author) {
            return key.verify_strict(message, &signature).is_ok();
        }
        let Ok(key) = VerifyingKey::from_bytes(&author.0) else { return false };
        if self.0.len() >= MAX_KEYS {
            self.0.clear();
        }
        self.0.insert(*author, key);
        key.verify_strict(message, &signature).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_kept_judge_as_those_that_are_not() {
        let mut kept = Keys::default();
        let mut neutral = [0u8; 32];
        neutral[0] = 1;
        let mut none = [0xff; 32];
        none[0] = 2;
        // More than are kept, each twice, with good and bad signatures, and keys that are no point or of small order.
        for round in 0..2 {
            for n in 0..MAX_KEYS as u8 + 10 {
                let key = Keypair::from_seed(&[n; 32]);
                let good = key.sign(b"x");
                for (author, message, signature) in [
                    (key.author(), b"x", good),
                    (key.author(), b"y", good),
                    (AuthorId(neutral), b"x", Signature(std::array::from_fn(|n| u8::from(n == 0)))),
                    (AuthorId(none), b"x", good),
                ] {
                    let plain = verify(&author, message, &signature);
                    assert_eq!(kept.verify(&author, message, &signature), plain, "round {round}, key {n}");
                    assert_eq!(plain, author == key.author() && message == b"x");
                }
            }
            assert!(kept.0.len() <= MAX_KEYS);
        }
    }

    #[test]
    fn an_author_is_shown_as_a_peer_id_and_read_back() {
        let author = Keypair::from_seed(&[7; 32]).author();
        let text = author.to_string();
        assert!(text.starts_with("12D3KooW"), "{text}");
        assert_eq!(text.parse::<AuthorId>(), Ok(author));
        for wrong in ["", "12D3KooW", "QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N", "0OIl", &"1".repeat(5000)] {
            assert!(wrong.parse::<AuthorId>().is_err());
        }
    }

    #[test]
    fn a_small_order_key_verifies_nothing() {
        // The neutral element: with a plain verify, one signature under it fits any message.
        let mut neutral = [0u8; 32];
        neutral[0] = 1;
        let mut signature = [0u8; 64];
        signature[0] = 1;
        assert!(!verify(&AuthorId(neutral), b"a", &Signature(signature)));
    }

    #[test]
    fn a_signature_fits_only_its_message_and_author() {
        let (a, b) = (Keypair::from_seed(&[1; 32]), Keypair::from_seed(&[2; 32]));
        let signature = a.sign(b"x");
        assert!(verify(&a.author(), b"x", &signature));
        assert!(!verify(&a.author(), b"y", &signature));
        assert!(!verify(&b.author(), b"x", &signature));
    }
}
