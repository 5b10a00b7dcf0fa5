//! Whether a candidate answers the query at all.
//!
//! Ranking always finds a best lesson; the gate says whether the best is good enough to be shown. Two signals fail in
//! different ways, so both are asked:
//!
//! - the **cosine** knows other words for the same thing, but calls many unrelated questions somewhat similar;
//! - the **coverage**, the share of the query's idf mass whose words the lesson has, knows that "lasagna" occurs
//!   nowhere, but not that "throttled" and "rate limit" belong together.
//!
//! The rule is the decision line of a logistic regression on the two: `cosine + slope × coverage ≥ bar`. The best of many
//! unrelated lessons is nearer by chance than the best of few, as the largest of `n` normal draws lies about `√(2 ln (1 + n))`
//! deviations out; the bar rises by that law. Where there is no cosine (text in a script the embedder does not know),
//! the coverage alone must reach a bar of its own.
//!
//! The constants were fitted on one half of the labelled queries in `store/tests/data`, in banks of 12, 119 and 530
//! lessons, and are checked on the other half by `store/tests/recall_gate.rs`, which prints the rates.

/// The rule; see the module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gate {
    /// How much full coverage adds to the cosine.
    pub coverage_slope: f32,
    /// What cosine and weighted coverage must reach together, before the rise.
    pub bar: f32,
    /// How much the bar rises for each deviation by which chance reaches further in a larger bank.
    pub bar_rise: f32,
    /// What coverage must reach where there is no cosine, 0 to 1.
    pub coverage_bar: f32,
}

impl Gate {
    /// The gate for the built-in embedder's cosines. Another embedder spreads its cosines otherwise and needs its own.
    pub const BUILTIN: Gate = Gate { coverage_slope: 0.75, bar: 0.395, bar_rise: 0.0415, coverage_bar: 0.5 };

    /// Whether a candidate of this cosine (−1 to 1, `None` where query or lesson has no vector) and this coverage
    /// (0 to 1), one of `lessons` that competed, may be shown.
    #[must_use]
    pub fn passes(&self, cosine: Option<f32>, coverage: f32, lessons: usize) -> bool {
        match cosine {
            Some(cosine) => cosine + self.coverage_slope * coverage >= self.bar_among(lessons),
            None => coverage >= self.coverage_bar,
        }
    }

    fn bar_among(&self, lessons: usize) -> f32 {
        self.bar + self.bar_rise * (2.0 * (1.0 + lessons as f32).ln()).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_a_faint_likeness_nor_a_stray_word_is_enough() {
        let gate = Gate::BUILTIN;
        assert!(!gate.passes(Some(0.3), 0.2, 100));
        assert!(!gate.passes(Some(0.0), 0.6, 100));
        assert!(gate.passes(Some(0.4), 0.4, 100));
        assert!(gate.passes(Some(0.6), 0.0, 100));
        assert!(!gate.passes(Some(f32::NAN), 1.0, 100));
    }

    #[test]
    fn a_larger_bank_asks_for_more_but_never_for_much_more() {
        let gate = Gate::BUILTIN;
        let bars: Vec<f32> = [0, 1, 10, 1_000, 1_000_000, usize::MAX].map(|n| gate.bar_among(n)).to_vec();
        assert!(bars.is_sorted() && bars.iter().all(|bar| (0.39..0.8).contains(bar)), "{bars:?}");
    }

    #[test]
    fn without_a_cosine_the_words_decide() {
        assert!(Gate::BUILTIN.passes(None, 0.7, 100));
        assert!(!Gate::BUILTIN.passes(None, 0.3, 100));
    }
}
