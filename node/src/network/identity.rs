//! Peers are raw ed25519 public keys here; libp2p's peer ids are their outer form.
//!
//! A libp2p peer id of an ed25519 key is the identity multihash of the key in protobuf: six fixed bytes, then the
//! 32 bytes of the key. So both directions are a copy, and no key is ever hashed away.

use libp2p::{PeerId, identity::Keypair};

/// A peer: its 32-byte ed25519 public key.
pub type PeerKey = [u8; 32];

/// Identity multihash of 36 bytes (`00 24`), then protobuf: key type 1, ed25519 (`08 01`), 32 bytes follow (`12 20`).
/// From the libp2p peer id specification.
const ED25519_PREFIX: [u8; 6] = [0x00, 0x24, 0x08, 0x01, 0x12, 0x20];

/// Why a text is not a peer id that this network can use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeerIdError {
    /// Not a libp2p peer id at all.
    #[error("{text:?} is not a peer id; one looks like 12D3KooW… and is printed by `folklore status`")]
    Malformed {
        /// The text as it was given.
        text: String,
    },
    /// A valid peer id, but not of an ed25519 key.
    #[error("{text:?} is a peer id of another key type; only ed25519 peers (12D3KooW…) can take part")]
    NotEd25519 {
        /// The text as it was given.
        text: String,
    },
}

/// The peer id of `key` as text (`12D3KooW…`).
pub fn peer_id_text(key: &PeerKey) -> String {
    to_peer_id(key).to_base58()
}

/// The key behind a peer id in text.
pub fn parse_peer_id(text: &str) -> Result<PeerKey, PeerIdError> {
    let id: PeerId = text.trim().parse().map_err(|_| PeerIdError::Malformed { text: text.to_owned() })?;
    from_peer_id(&id).ok_or_else(|| PeerIdError::NotEd25519 { text: text.to_owned() })
}

/// The public key, and so the peer, that belongs to an ed25519 secret seed.
pub fn peer_of_secret(secret: &[u8; 32]) -> Option<PeerKey> {
    from_peer_id(&keypair(secret)?.public().to_peer_id())
}

/// The libp2p key pair of an ed25519 secret seed.
pub(super) fn keypair(secret: &[u8; 32]) -> Option<Keypair> {
    // The callee wipes the buffer that it is given, so it gets a copy.
    Keypair::ed25519_from_bytes(*secret).ok()
}

/// libp2p's form of a peer. Holds for any 32 bytes, also for those that are no point on the curve: such a peer
/// can be named, it can just never be connected to.
pub(super) fn to_peer_id(key: &PeerKey) -> PeerId {
    let mut bytes = [0u8; 38];
    let (prefix, rest) = bytes.split_at_mut(ED25519_PREFIX.len());
    prefix.copy_from_slice(&ED25519_PREFIX);
    rest.copy_from_slice(key);
    PeerId::from_bytes(&bytes).expect("an identity multihash of 36 bytes is always a peer id")
}

/// The peer behind libp2p's form, or `None` for a key of another type.
pub(super) fn from_peer_id(id: &PeerId) -> Option<PeerKey> {
    id.to_bytes().strip_prefix(&ED25519_PREFIX)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn agrees_with_libp2p_on_a_real_key() {
        let secret = [7u8; 32];
        let pair = keypair(&secret).expect("any seed is a key");
        let key = peer_of_secret(&secret).expect("any seed is a key");
        let public = pair.public().try_into_ed25519().expect("it is ed25519");
        assert_eq!(key, public.to_bytes());
        assert_eq!(to_peer_id(&key), pair.public().to_peer_id());
        assert!(peer_id_text(&key).starts_with("12D3KooW"));
    }

    #[test]
    fn other_key_types_and_nonsense_are_refused() {
        // The id of an RSA key, from the libp2p specification's test vectors: a SHA-256 multihash.
        let rsa = "QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N";
        assert!(matches!(parse_peer_id(rsa), Err(PeerIdError::NotEd25519 { .. })));
        assert!(matches!(parse_peer_id("hello"), Err(PeerIdError::Malformed { .. })));
        assert!(matches!(parse_peer_id(""), Err(PeerIdError::Malformed { .. })));
    }

    proptest! {
        #[test]
        fn every_key_survives_the_text(key in any::<[u8; 32]>()) {
            prop_assert_eq!(parse_peer_id(&peer_id_text(&key)), Ok(key));
        }
    }
}
