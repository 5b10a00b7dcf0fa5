//! Records: a claim in its signed envelope.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    bank::{BankId, parse_hex32},
    canonical::{self, DecodeError},
    claim::Claim,
    identity::{self, AuthorId, Keypair, Keys, ParseIdError, Signature},
};

/// Longest record, bytes, signature included. The largest claim, a policy with all its keys, fits.
pub const MAX_RECORD_BYTES: usize = 28 * 1024;
const SIGNATURE_BYTES: usize = 64;
/// In front of what is signed. The same key also authenticates connections, so what it signs here says what it is.
const SIGNING_DOMAIN: &[u8] = b"folklore record signature v1\0";

/// BLAKE3 of a record's canonical bytes without the signature, in a context of its own. Shown in hex.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RecordId(pub [u8; 32]);

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordId({}…)", data_encoding::HEXLOWER.encode(&self.0[..6]))
    }
}

impl FromStr for RecordId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        parse_hex32(text).map(Self).ok_or_else(|| ParseIdError::new("record id (64 hex digits)", text))
    }
}

/// What is signed. The order of the fields is part of the format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordFields {
    /// The bank the claim is made in.
    pub bank: BankId,
    /// Who claims.
    pub author: AuthorId,
    /// The author's number for this record in this bank, from 1. Where one claim replaces another of the same author the
    /// higher seq wins, ties by record id.
    pub seq: u64,
    /// The author's wall clock, milliseconds since 1970. Shown, never trusted: nothing is ordered or expired by it.
    pub at_ms: u64,
    /// The claim.
    pub claim: Claim,
}

/// Why bytes are not a record. Nothing was changed by the attempt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Not the canonical bytes of a record.
    #[error("not a record: {0}")]
    Bytes(#[from] DecodeError),
    /// The signature is not the author's.
    #[error("the signature is not the author's")]
    Signature,
}

/// A record whose signature is good. Immutable; cheap to clone.
#[derive(Clone)]
pub struct Record(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    fields: RecordFields,
    bytes: Arc<[u8]>,
    id: RecordId,
}

/// A record that reads, with a signature nobody has checked yet.
#[derive(Debug, Clone)]
pub struct UnverifiedRecord(Record);

impl Record {
    /// Signs a claim.
    ///
    /// # Errors
    /// When the claim breaks a limit or is not in normal form.
    pub fn sign(keypair: &Keypair, bank: BankId, seq: u64, at_ms: u64, claim: Claim) -> Result<Self, RecordError> {
        let fields = RecordFields { bank, author: keypair.author(), seq, at_ms, claim };
        check(&fields)?;
        let mut bytes = canonical::encode(&fields);
        let id = id_of(&bytes);
        bytes.extend_from_slice(&keypair.sign(&signed_message(&id)).0);
        if bytes.len() > MAX_RECORD_BYTES {
            return Err(DecodeError::TooLong { len: bytes.len(), limit: MAX_RECORD_BYTES }.into());
        }
        Ok(Self(Arc::new(Inner { fields, bytes: bytes.into(), id })))
    }

    /// The record's id.
    pub fn id(&self) -> RecordId {
        self.0.id
    }

    /// The bytes that travel and are stored: canonical bytes, then the signature.
    pub fn bytes(&self) -> &Arc<[u8]> {
        &self.0.bytes
    }

    /// What was signed.
    pub fn fields(&self) -> &RecordFields {
        &self.0.fields
    }

    /// The bank.
    pub fn bank(&self) -> BankId {
        self.0.fields.bank
    }

    /// The author.
    pub fn author(&self) -> AuthorId {
        self.0.fields.author
    }

    /// The author's number for the record.
    pub fn seq(&self) -> u64 {
        self.0.fields.seq
    }

    /// The claim.
    pub fn claim(&self) -> &Claim {
        &self.0.fields.claim
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record").field("id", &self.0.id).field("fields", &self.0.fields).finish()
    }
}

impl PartialEq for Record {
    fn eq(&self, other: &Self) -> bool {
        self.0.bytes == other.0.bytes
    }
}

impl Eq for Record {}

impl UnverifiedRecord {
    /// Reads a record's bytes. The signature is not looked at yet: it costs fifty times the rest.
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordError> {
        if bytes.len() > MAX_RECORD_BYTES {
            return Err(DecodeError::TooLong { len: bytes.len(), limit: MAX_RECORD_BYTES }.into());
        }
        let split = bytes.len().checked_sub(SIGNATURE_BYTES).ok_or(DecodeError::Empty)?;
        let fields = canonical::decode::<RecordFields, MAX_RECORD_BYTES>(&bytes[..split])?;
        check(&fields)?;
        let id = id_of(&bytes[..split]);
        Ok(Self(Record(Arc::new(Inner { fields, bytes: bytes.into(), id }))))
    }

    /// The record's id, which the signature does not change.
    pub fn id(&self) -> RecordId {
        self.0.id()
    }

    /// The claimed fields.
    pub fn fields(&self) -> &RecordFields {
        self.0.fields()
    }

    /// The bytes as they came.
    pub fn bytes(&self) -> &Arc<[u8]> {
        self.0.bytes()
    }

    /// Checks the signature.
    pub fn verify(self) -> Result<Record, RecordError> {
        self.judged_by(identity::verify)
    }

    /// The same for one of many, with `keys` for all of them.
    pub fn verify_with(self, keys: &mut Keys) -> Result<Record, RecordError> {
        self.judged_by(|author, message, signature| keys.verify(author, message, signature))
    }

    fn judged_by(self, good: impl FnOnce(&AuthorId, &[u8], &Signature) -> bool) -> Result<Record, RecordError> {
        let signature = self.0.bytes().last_chunk::<SIGNATURE_BYTES>().ok_or(RecordError::Signature)?;
        if good(&self.0.author(), &signed_message(&self.0.id()), &Signature(*signature)) {
            Ok(self.0)
        } else {
            Err(RecordError::Signature)
        }
    }

    /// Takes the record as verified. Only for bytes that this node verified before it stored them under a checked hash.
    pub fn assume_verified(self) -> Record {
        self.0
    }
}

fn id_of(canonical_bytes: &[u8]) -> RecordId {
    RecordId(blake3::derive_key("folklore 2026 record id v1", canonical_bytes))
}

fn signed_message(id: &RecordId) -> Vec<u8> {
    [SIGNING_DOMAIN, &id.0].concat()
}

fn check(fields: &RecordFields) -> Result<(), DecodeError> {
    if fields.seq == 0 {
        return Err(DecodeError::Invalid("seq starts at 1".into()));
    }
    fields.claim.check()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        bank::{Access, MAX_POLICY_KEYS, Policy},
        claim::{Evidence, MAX_REASON_BYTES},
        lesson::LessonId,
    };

    fn claim() -> Claim {
        Claim::Taught { lesson_id: LessonId([3; 32]), evidence: Evidence::told("person") }
    }

    fn record() -> Record {
        Record::sign(&Keypair::from_seed(&[1; 32]), BankId([9; 32]), 1, 1_700_000_000_000, claim()).unwrap()
    }

    #[test]
    fn a_signed_record_reads_back_and_verifies() {
        let record = record();
        let back = UnverifiedRecord::parse(record.bytes()).unwrap();
        assert_eq!(back.id(), record.id());
        assert_eq!(back.verify().unwrap(), record);
    }

    #[test]
    fn any_flipped_bit_is_refused_or_is_another_record_with_a_bad_signature() {
        let record = record();
        for at in 0..record.bytes().len() {
            for bit in 0..8 {
                let mut bytes = record.bytes().to_vec();
                bytes[at] ^= 1 << bit;
                assert!(
                    UnverifiedRecord::parse(&bytes).and_then(UnverifiedRecord::verify).is_err(),
                    "byte {at} bit {bit}"
                );
            }
        }
    }

    #[test]
    fn cut_and_extended_bytes_are_refused() {
        let bytes = record().bytes().to_vec();
        for len in 0..bytes.len() {
            assert!(UnverifiedRecord::parse(&bytes[..len]).and_then(UnverifiedRecord::verify).is_err());
        }
        let mut longer = bytes;
        longer.push(0);
        assert!(UnverifiedRecord::parse(&longer).and_then(UnverifiedRecord::verify).is_err());
    }

    #[test]
    fn limits_hold_when_signing_too() {
        let key = Keypair::from_seed(&[1; 32]);
        let long = Claim::Withdrawn { lesson_id: LessonId([3; 32]), reason: "x".repeat(MAX_REASON_BYTES + 1) };
        assert!(Record::sign(&key, BankId([9; 32]), 1, 0, long).is_err());
        assert!(Record::sign(&key, BankId([9; 32]), 0, 0, claim()).is_err());
    }

    #[test]
    fn the_largest_policy_fits_a_record() {
        let mut keys: Vec<AuthorId> =
            (0..MAX_POLICY_KEYS as u32).map(|n| AuthorId(*blake3::hash(&n.to_le_bytes()).as_bytes())).collect();
        keys.sort();
        let policy = Policy { readers: Access::Listed(keys), ..Policy::default() };
        let record = Record::sign(&Keypair::from_seed(&[1; 32]), BankId([9; 32]), 1, 0, Claim::Policy(policy)).unwrap();
        assert!(UnverifiedRecord::parse(record.bytes()).unwrap().verify().is_ok());
    }
}
