//! Facts: what the index keeps of a value. Read out of the value once; the index is a fold of them.

use folklore_protocol::{
    bank::BankId,
    claim::{Claim, RunDigest},
    identity::AuthorId,
    lesson::LessonId,
    record::{Record, RecordId},
};

use super::index::RunRef;
use crate::frame::Tree;

/// What is known of one value, or where values lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fact {
    /// A pack, by its lowest arrival number.
    Pack(u64),
    Record(u64, RecordFact),
    Lesson(u64, LessonId),
    /// A value that is gone on purpose, and what the count knows it by.
    Erased(Tree, u64, [u8; 32]),
    Run(RunDigest, String, RunRef),
}

/// What the index wants to know of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordFact {
    pub id: RecordId,
    pub bank: BankId,
    pub author: AuthorId,
    pub seq: u64,
    /// The lesson that it teaches (true) or withdraws (false).
    pub word: Option<(LessonId, bool)>,
}

impl RecordFact {
    pub fn of(record: &Record) -> Self {
        let taught = match record.claim() {
            Claim::Taught { .. } => Some(true),
            Claim::Withdrawn { .. } => Some(false),
            _ => None,
        };
        let word = taught.and_then(|taught| Some((record.claim().lesson_id()?, taught)));
        Self { id: record.id(), bank: record.bank(), author: record.author(), seq: record.seq(), word }
    }

    /// The body that it names.
    pub fn body(&self) -> Option<LessonId> {
        self.word.filter(|(_, taught)| *taught).map(|(lesson, _)| lesson)
    }
}
