//! Whether a candidate answers the query at all.
//!
//! Ranking always finds a best lesson; the gate says whether the best is good enough to be shown. Two signals fail in
//! different ways, so both are asked:
//!
//! - the **cosine** knows other words for the same thing, but calls many unrelated questions somewhat similar;
//! - the **coverage**, the share of the query's idf mass whose words the lesson has, knows that "lasagna" occurs
//!   nowhere, but not that "throttled" and "rate limit" belong together.
//!
//! The rule is the decision line of a logistic regression on the two: `cosine + slope × coverage ≥ bar`. Where there is
//! no cosine, the coverage alone must reach a bar of its own: a low one for a query in a script that the embedder cannot
//! read (strange text there shares no word at all, and pairs of characters cover little of any paraphrase), a high one
//! where the embedder failed.
//!
//! The best of many unrelated lessons is nearer by chance than the best of few, as the largest of `n` normal draws lies
//! about `√(2 ln n)` deviations out; all bars rise by that law.
//!
//! The constants were fitted on one half of the labelled queries in `store/tests/data`, in banks of 12 to 530 lessons
//! (12 of our own, about a hundred that real runs taught, and web tasks), and are checked on the other half by
//! `store/tests/recall_gate.rs` and `node/tests/recall_gate.rs`, which print the rates.

/// How alike the meanings of query and lesson are, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Likeness {
    /// The cosine of their vectors, −1 to 1.
    Cosine(f32),
    /// The embedder cannot read the query.
    Unreadable,
    /// The query or the lesson has no vector for another reason: the embedder failed.
    Unknown,
}

/// The rule; see the module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gate {
    /// How much full coverage adds to the cosine.
    pub coverage_slope: f32,
    /// What cosine and weighted coverage must reach together, before the rise.
    pub bar: f32,
    /// How much `bar` rises for each deviation by which chance reaches further in a larger bank.
    pub bar_rise: f32,
    /// What coverage must reach for a query that the embedder cannot read, 0 to 1, before the rise.
    pub unreadable_bar: f32,
    /// What coverage must reach where the embedder failed, 0 to 1, before the rise.
    pub unknown_bar: f32,
    /// How much the two coverage bars rise, as `bar_rise`.
    pub coverage_rise: f32,
}

impl Gate {
    /// The gate for the built-in embedder's cosines. Another embedder spreads its cosines otherwise and needs its own.
    pub const BUILTIN: Gate = Gate {
        coverage_slope: 0.75,
        bar: 0.39,
        bar_rise: 0.046,
        unreadable_bar: 0.15,
        unknown_bar: 0.33,
        coverage_rise: 0.03,
    };

    /// Whether a candidate of this likeness and this coverage (0 to 1), one of `lessons` that competed, may be shown.
    #[must_use]
    pub fn passes(&self, likeness: Likeness, coverage: f32, lessons: usize) -> bool {
        let reach = (2.0 * (1.0 + lessons as f32).ln()).sqrt();
        let coverage_rise = self.coverage_rise * reach;
        match likeness {
            Likeness::Cosine(cosine) => cosine + self.coverage_slope * coverage >= self.bar + self.bar_rise * reach,
            Likeness::Unreadable => coverage >= self.unreadable_bar + coverage_rise,
            Likeness::Unknown => coverage >= self.unknown_bar + coverage_rise,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Likeness::{Cosine, Unknown, Unreadable};
    use super::*;

    #[test]
    fn neither_a_faint_likeness_nor_a_stray_word_is_enough() {
        let gate = Gate::BUILTIN;
        assert!(!gate.passes(Cosine(0.3), 0.2, 100));
        assert!(!gate.passes(Cosine(0.0), 0.6, 100));
        assert!(gate.passes(Cosine(0.4), 0.4, 100));
        assert!(gate.passes(Cosine(0.6), 0.0, 100));
        assert!(!gate.passes(Cosine(f32::NAN), 1.0, 100));
    }

    #[test]
    fn a_larger_bank_asks_for_more_but_a_good_answer_passes_in_the_largest() {
        let gate = Gate::BUILTIN;
        for (likeness, coverage) in [(Cosine(0.2), 0.4), (Unreadable, 0.2), (Unknown, 0.4)] {
            assert!(gate.passes(likeness, coverage, 1));
            assert!(!gate.passes(likeness, coverage, 10_000));
        }
        for (likeness, coverage) in [(Cosine(0.5), 0.5), (Unreadable, 0.5), (Unknown, 0.7)] {
            assert!(gate.passes(likeness, coverage, usize::MAX));
        }
    }

    #[test]
    fn without_a_cosine_the_words_decide() {
        let gate = Gate::BUILTIN;
        assert!(gate.passes(Unreadable, 0.3, 100) && !gate.passes(Unreadable, 0.1, 100));
        assert!(gate.passes(Unknown, 0.5, 100) && !gate.passes(Unknown, 0.3, 100));
    }
}
