//! Ranking of lessons for a query.
//!
//! A lesson has two keys: its task and its text. Its dense score is the larger cosine of the two with the query; its
//! lexical score is the BM25 of both together. They are fused as `0.7 × cosine + 0.3 × BM25 ÷ best BM25 of the query`,
//! measured better than either alone and than rank fusion (`weights/README.md`), and multiplied by the caller's weight.
//!
//! The fused score orders candidates but cannot tell nonsense from sense, since some lesson always has the best BM25.
//! What may be shown at all is the [`gate`]'s decision, made on cosine and on the share of the query that the lesson covers.

mod beside;
pub mod gate;
mod ranker;
mod select;
mod shared;

pub use beside::{TASK_KINDS, beside};
pub(crate) use ranker::erase_elsewhere;
pub use ranker::{External, Keys, Prepared, QueryReading, RankOptions, Ranked, Ranker, RankerError, Scored, Source};
pub use shared::SharedRanker;

/// The cosine's part of the fused score.
pub const DENSE_SHARE: f32 = 0.7;
/// The normalised BM25's part of the fused score.
pub const LEXICAL_SHARE: f32 = 0.3;

/// Why an answer is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EmptyReason {
    /// There is no lesson at all.
    BankEmpty,
    /// There are lessons, but none is near enough to the query.
    BelowThreshold,
    /// A lesson would have answered, but the caller's filter or a weight of zero excludes it.
    Filtered,
    /// The embedder failed, and words alone found nothing.
    EmbedderUnavailable,
}

impl EmptyReason {
    /// The word for it at every door.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            EmptyReason::BankEmpty => "bank-empty",
            EmptyReason::BelowThreshold => "below-threshold",
            EmptyReason::Filtered => "filtered",
            EmptyReason::EmbedderUnavailable => "embedder-unavailable",
        }
    }
}

impl std::fmt::Display for EmptyReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests;
