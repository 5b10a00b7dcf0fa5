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
//! no cosine (text in a script the embedder does not know), the coverage alone must reach a bar of its own.
//!
//! The constants were fitted on one half of the labelled queries in `store/tests/data` and are checked on the other
//! half by `store/tests/recall_gate.rs`, which prints the rates.

/// The rule; see the module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gate {
    /// How much full coverage adds to the cosine.
    pub coverage_slope: f32,
    /// What cosine and weighted coverage must reach together.
    pub bar: f32,
    /// What coverage must reach where there is no cosine, 0 to 1.
    pub coverage_bar: f32,
}

impl Gate {
    /// The gate for the built-in embedder's cosines. Another embedder spreads its cosines otherwise and needs its own.
    pub const BUILTIN: Gate = Gate {
        coverage_slope: 0.65,
        bar: 0.51,
        coverage_bar: 0.5,
    };

    /// Whether a candidate of this cosine (−1 to 1, `None` where query or lesson has no vector) and this coverage
    /// (0 to 1) may be shown.
    #[must_use]
    pub fn passes(&self, cosine: Option<f32>, coverage: f32) -> bool {
        match cosine {
            Some(cosine) => cosine + self.coverage_slope * coverage >= self.bar,
            None => coverage >= self.coverage_bar,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_a_faint_likeness_nor_a_stray_word_is_enough() {
        let gate = Gate::BUILTIN;
        assert!(!gate.passes(Some(0.3), 0.2));
        assert!(!gate.passes(Some(0.0), 0.6));
        assert!(gate.passes(Some(0.4), 0.4));
        assert!(gate.passes(Some(0.6), 0.0));
        assert!(!gate.passes(Some(f32::NAN), 1.0));
    }

    #[test]
    fn without_a_cosine_the_words_decide() {
        assert!(Gate::BUILTIN.passes(None, 0.7));
        assert!(!Gate::BUILTIN.passes(None, 0.3));
    }
}
