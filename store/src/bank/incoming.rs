//! What comes from others is checked before it is stored: signatures and bodies, on all cores.

use std::convert::Infallible;

use folklore_protocol::{
    identity::Keys,
    lesson::{Lesson, LessonError},
    record::{RecordError, UnverifiedRecord},
};

use super::{Incoming, parallel::in_order};

/// Records that a thread checks at a time: a signature takes 45 µs, starting a thread about as long.
const BLOCK: usize = 16;

/// Why a record of another node is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Its signature.
    #[error("the record is refused: {0}")]
    Record(#[from] RecordError),
    /// The body that came along.
    #[error("the body is refused: {0}")]
    Body(#[from] LessonError),
}

/// Checks records of others, each with the bytes of its body if they came along; answers in their order.
///
/// Each signature is checked by itself and strictly. Checking them in batches would be twice as fast, but accepts keys and
/// signatures that the strict rule refuses, and then two nodes would hold different sets. What is saved is unpacking the same
/// author's key for each.
pub fn check(items: &[(UnverifiedRecord, Option<Vec<u8>>)]) -> Vec<Result<Incoming, Refused>> {
    let mut out = Vec::with_capacity(items.len());
    let work = |keys: &mut Keys, (record, body): &(UnverifiedRecord, Option<Vec<u8>>)| {
        let body = body.as_deref().map(Lesson::from_bytes).transpose()?;
        Ok(Incoming { record: record.clone().verify_with(keys)?, body })
    };
    let checked: Result<(), Infallible> = in_order(items, BLOCK, Keys::default, work, |item| {
        out.push(item);
        Ok(())
    });
    match checked {
        Ok(()) => out,
    }
}

#[cfg(test)]
mod tests {
    use folklore_protocol::{
        bank::BankId,
        claim::{Claim, Evidence},
        identity::Keypair,
        lesson::LessonId,
        record::Record,
    };

    use super::*;

    #[test]
    fn a_bad_signature_and_a_bad_body_are_refused_in_their_place_and_nothing_else_is() {
        let key = Keypair::from_seed(&[1; 32]);
        let claim = || Claim::Taught { lesson_id: LessonId([3; 32]), evidence: Evidence::told("person") };
        let mut items: Vec<(UnverifiedRecord, Option<Vec<u8>>)> = (0..100)
            .map(|n| Record::sign(&key, BankId([9; 32]), n + 1, 1, claim()).unwrap())
            .map(|record| (UnverifiedRecord::parse(record.bytes()).unwrap(), None))
            .collect();
        let mut bytes = items[40].0.bytes().to_vec();
        *bytes.last_mut().unwrap() ^= 1;
        items[40].0 = UnverifiedRecord::parse(&bytes).unwrap();
        items[77].1 = Some(b"no lesson".to_vec());
        let checked = check(&items);
        assert_eq!(checked.len(), 100);
        for (n, (checked, item)) in checked.iter().zip(&items).enumerate() {
            match (n, checked) {
                (40, Err(Refused::Record(_))) | (77, Err(Refused::Body(_))) => {}
                (_, Ok(incoming)) => assert_eq!(incoming.record.id(), item.0.id()),
                (_, Err(error)) => panic!("{n}: {error}"),
            }
        }
    }
}
