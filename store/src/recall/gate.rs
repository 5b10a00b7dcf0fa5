//! Whether a candidate answers the query at all.
//!
//! Ranking always finds a best lesson; the gate says whether the best is good enough to be shown. Three signals fail in
//! different ways, so all are asked:
//!
//! - the **cosine** knows other words for the same thing, but calls many unrelated questions somewhat similar;
//! - the **coverage**, the share of the query's idf mass whose words the lesson has, knows that "lasagna" occurs
//!   nowhere, but not that "throttled" and "rate limit" belong together;
//! - the **mass**, how much the query says at all, knows that "fix bug" is near to every lesson about programs and
//!   answered by none.
//!
//! The rule is the decision line of a logistic regression: `cosine + slope × coverage ≥ bar − gain × ln(1 + mass)`. Where there is no cosine, the coverage alone must reach a bar of its own: a low one for a
//! query in a script that the embedder cannot read (strange text there shares no word at all, and pairs of characters
//! cover little of any paraphrase), a high one where the embedder failed.
//!
//! The best of many unrelated lessons is nearer by chance than the best of few, as the largest of `n` normal draws lies
//! about `√(2 ln n)` deviations out; all bars rise by that law.
//!
//! The constants were fitted on one half of the labelled queries in `store/tests/data`, in banks of 1 to 530 lessons (12
//! of our own, about a hundred that real runs taught, and web tasks), and are checked on the other half by `store/tests/recall_gate.rs` and `node/tests/recall_gate.rs`, which print the rates.
//!
//! Cosines of different embedders are spread differently, so a gate belongs to an embedder: [`Gate::of`] gives the
//! built-in one its fitted gate, and measures for any other where its cosines lie.

use crate::embed::{BUILTIN_NAME, BUILTIN_REVISION, EmbedError, Embedder};

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

/// Where an embedder's cosines lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The mean cosine of texts that have nothing to do with each other.
    pub unrelated: f32,
    /// The mean cosine of texts that say the same in other words.
    pub related: f32,
}

impl Spread {
    /// That of the built-in embedder over the pairs of [`Gate::of`].
    pub const BUILTIN: Spread = Spread { unrelated: 0.0426, related: 0.3232 };
    /// Closer than this, cosines tell nothing, and no scale can be drawn from them.
    const WIDTH_MIN: f32 = 0.02;

    /// What `cosine` would be if the built-in embedder had said it.
    #[must_use]
    pub fn to_builtin(self, cosine: f32) -> f32 {
        if self == Self::BUILTIN {
            return cosine;
        }
        let stretch = (Self::BUILTIN.related - Self::BUILTIN.unrelated) / (self.related - self.unrelated);
        (Self::BUILTIN.unrelated + (cosine - self.unrelated) * stretch).clamp(-1.0, 1.0)
    }
}

/// What the gate saw in a candidate: it passes where `reached` is not below `bar`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// The cosine on the built-in scale and the weighted coverage together, or the coverage alone where there is no cosine.
    pub reached: f32,
    /// What had to be reached.
    pub bar: f32,
}

impl Reading {
    /// Whether the candidate may be shown.
    #[must_use]
    pub fn passes(self) -> bool {
        self.reached >= self.bar
    }
}

/// The rule; see the module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gate {
    /// Where the embedder's cosines lie.
    pub spread: Spread,
    /// How much full coverage adds to the cosine.
    pub coverage_slope: f32,
    /// What cosine and weighted coverage must reach together, before the rises.
    pub bar: f32,
    /// How much the bar rises for each deviation by which chance reaches further in a larger bank.
    pub bar_rise: f32,
    /// How much the bar sinks with the logarithm of the query's mass; see
    /// [`Weighed::mass`](crate::index::lexical::Weighed::mass).
    pub mass_gain: f32,
    /// The mass of an ordinary question. A longer text says more, but is also nearer to everything by chance: it lowers the
    /// bar no further.
    pub mass_enough: f32,
    /// What coverage must reach for a query that the embedder cannot read, 0 to 1, before the rise.
    pub unreadable_bar: f32,
    /// What coverage must reach where the embedder failed, 0 to 1, before the rise.
    pub unknown_bar: f32,
    /// How much the two coverage bars rise, as `bar_rise`.
    pub coverage_rise: f32,
}

/// Texts that say the same in other words, for measuring an embedder. A text and that of another pair are unrelated.
/// Written for this project.
const PAIRS: [(&str, &str); 12] = [
    ("the service answers that there were too many requests", "wait before calling a throttled API again"),
    ("a table is locked while its schema is changed", "the database migration blocks every other query"),
    ("cancel a hotel booking and give the money back", "the guest wants a refund for the room she reserved"),
    ("the picture is upside down after the upload", "photos taken with a phone are rotated wrongly on the site"),
    ("find the cheapest train from Lyon to Turin", "book the least expensive rail ticket between two cities"),
    ("the parser rejects numbers with a leading plus sign", "reading \"+5\" as an integer raises a ValueError"),
    ("reset a forgotten password by e-mail", "a user cannot log in and asks for a new passphrase"),
    ("the nightly backup fills the disk", "no space is left because old dumps are never deleted"),
    ("sort the reviews of a product by date", "show the newest customer opinions first"),
    ("a thread waits for a lock that it holds itself", "the program hangs in a deadlock"),
    ("translate the menu into three languages", "the navigation should also be available in French and Polish"),
    ("count how many commits an author made in March", "number of changes that one person pushed last month"),
];

impl Gate {
    /// The gate for the built-in embedder.
    pub const BUILTIN: Gate = Gate {
        spread: Spread::BUILTIN,
        coverage_slope: 1.35,
        bar: 0.67,
        bar_rise: 0.115,
        mass_gain: 0.188,
        mass_enough: 4.5,
        unreadable_bar: 0.15,
        unknown_bar: 0.33,
        coverage_rise: 0.03,
    };

    /// The gate of an embedder: the fitted one for the built-in; for another the same rule on its cosines brought to the
    /// built-in's scale, which takes one call that embeds two dozen short texts.
    ///
    /// # Errors
    /// When the embedder does not answer, or its cosines do not tell related texts from others.
    pub fn of(embedder: &dyn Embedder) -> Result<Gate, EmbedError> {
        let identity = embedder.identity();
        if identity.name == BUILTIN_NAME && identity.revision == BUILTIN_REVISION {
            return Ok(Gate::BUILTIN);
        }
        let spread = measure(embedder)?;
        if spread.related - spread.unrelated >= Spread::WIDTH_MIN {
            Ok(Gate { spread, ..Gate::BUILTIN })
        } else {
            Err(EmbedError::BadAnswer("its vectors of related texts are no nearer than those of unrelated ones".into()))
        }
    }

    /// What a candidate of this likeness and this coverage (0 to 1) reaches, for a query of this mass, as one of `lessons`
    /// that competed; and what it must.
    #[must_use]
    pub fn read(&self, likeness: Likeness, coverage: f32, mass: f32, lessons: usize) -> Reading {
        let reach = (2.0 * (1.0 + lessons as f32).ln()).sqrt();
        let coverage_rise = self.coverage_rise * reach;
        match likeness {
            Likeness::Cosine(cosine) => Reading {
                reached: self.spread.to_builtin(cosine) + self.coverage_slope * coverage,
                bar: self.bar + self.bar_rise * reach - self.mass_gain * (1.0 + mass.clamp(0.0, self.mass_enough)).ln(),
            },
            Likeness::Unreadable => Reading { reached: coverage, bar: self.unreadable_bar + coverage_rise },
            Likeness::Unknown => Reading { reached: coverage, bar: self.unknown_bar + coverage_rise },
        }
    }
}

/// The mean cosines of an embedder over [`PAIRS`].
fn measure(embedder: &dyn Embedder) -> Result<Spread, EmbedError> {
    let texts: Vec<&str> = PAIRS.iter().flat_map(|(a, b)| [*a, *b]).collect();
    let vectors = embedder.embed(&texts)?;
    if vectors.len() != texts.len() {
        return Err(EmbedError::BadAnswer("not one vector a text".into()));
    }
    let (mut related, mut unrelated) = (Mean::default(), Mean::default());
    for (i, a) in vectors.iter().enumerate() {
        for (j, b) in vectors.iter().enumerate().skip(i + 1) {
            if let (Some(a), Some(b)) = (a, b) {
                let cosine = a.iter().zip(b).map(|(a, b)| a * b).sum();
                if i / 2 == j / 2 { related.add(cosine) } else { unrelated.add(cosine) }
            }
        }
    }
    Ok(Spread { unrelated: unrelated.value(), related: related.value() })
}

#[derive(Default)]
struct Mean {
    sum: f32,
    count: f32,
}

impl Mean {
    fn add(&mut self, value: f32) {
        self.sum += value;
        self.count += 1.0;
    }

    fn value(&self) -> f32 {
        self.sum / self.count.max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Likeness::{Cosine, Unknown, Unreadable};
    use super::*;
    use crate::embed::{BuiltinEmbedder, EmbedderIdentity};

    /// The mass of an ordinary question.
    const ENOUGH: f32 = 6.0;

    fn passes(likeness: Likeness, coverage: f32, lessons: usize) -> bool {
        Gate::BUILTIN.read(likeness, coverage, ENOUGH, lessons).passes()
    }

    #[test]
    fn neither_a_faint_likeness_nor_a_stray_word_is_enough() {
        assert!(!passes(Cosine(0.3), 0.2, 100));
        assert!(!passes(Cosine(0.0), 0.35, 100));
        assert!(passes(Cosine(0.4), 0.3, 100));
        assert!(passes(Cosine(0.75), 0.0, 100));
        assert!(!passes(Cosine(f32::NAN), 1.0, 100));
    }

    #[test]
    fn a_larger_bank_asks_for_more_but_a_good_answer_passes_in_the_largest() {
        for (likeness, coverage) in [(Cosine(0.2), 0.4), (Unreadable, 0.2), (Unknown, 0.4)] {
            assert!(passes(likeness, coverage, 1));
            assert!(!passes(likeness, coverage, 10_000));
        }
        for (likeness, coverage) in [(Cosine(0.5), 0.6), (Unreadable, 0.5), (Unknown, 0.7)] {
            assert!(passes(likeness, coverage, 100_000_000));
        }
    }

    #[test]
    fn a_query_that_says_little_needs_a_better_match() {
        let gate = Gate::BUILTIN;
        assert!(gate.read(Cosine(0.4), 0.35, ENOUGH, 100).passes());
        assert!(!gate.read(Cosine(0.4), 0.35, 0.8, 100).passes());
    }

    #[test]
    fn without_a_cosine_the_words_decide() {
        assert!(passes(Unreadable, 0.3, 100) && !passes(Unreadable, 0.1, 100));
        assert!(passes(Unknown, 0.5, 100) && !passes(Unknown, 0.3, 100));
    }

    #[test]
    fn the_scale_of_the_builtin_embedder_is_the_measured_one() {
        let measured = measure(&BuiltinEmbedder::new()).unwrap();
        assert!((measured.unrelated - Spread::BUILTIN.unrelated).abs() < 1e-3, "{measured:?}");
        assert!((measured.related - Spread::BUILTIN.related).abs() < 1e-3, "{measured:?}");
    }

    /// The built-in embedder with one component more, the same for every text: all its cosines are high and near.
    struct Crowded(EmbedderIdentity, f32);

    impl Embedder for Crowded {
        fn identity(&self) -> &EmbedderIdentity {
            &self.0
        }
        fn embed(&self, texts: &[&str]) -> Result<Vec<Option<Vec<f32>>>, EmbedError> {
            let widen = |vector: Vec<f32>| -> Vec<f32> {
                let norm = (1.0 + self.1 * self.1).sqrt();
                vector.into_iter().chain([self.1]).map(|x| x / norm).collect()
            };
            Ok(BuiltinEmbedder::new().embed(texts)?.into_iter().map(|vector| vector.map(widen)).collect())
        }
    }

    #[test]
    fn an_embedder_whose_cosines_are_crowded_gets_a_gate_of_its_own_scale() {
        let identity = EmbedderIdentity { name: "crowded".into(), revision: "1".into(), dim: 257 };
        let gate = Gate::of(&Crowded(identity.clone(), 2.0)).unwrap();
        assert!(gate.spread.unrelated > 0.8, "{:?}", gate.spread);
        // (0.4 + 4) / 5: what the built-in would have called 0.4.
        assert!((gate.spread.to_builtin(0.88) - 0.4).abs() < 0.01);
        assert!(gate.read(Cosine(0.88), 0.5, ENOUGH, 100).passes());
        assert!(!gate.read(Cosine(0.82), 0.2, ENOUGH, 100).passes());
        assert!(matches!(Gate::of(&Crowded(identity, 100.0)), Err(EmbedError::BadAnswer(_))));
    }
}
