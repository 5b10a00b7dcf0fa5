//! Which of the candidates that passed are shown: near-duplicates as one, and, where it is wished, different ones.

use super::ranker::{RankOptions, Scored, Source};

/// From this cosine on two lessons may say the same; the built-in embedder, being a mean of words, gives as much to
/// texts that differ in a name, so the words are asked too.
const SAME_COSINE_MIN: f32 = 0.93;
/// The share of their words, by idf, from which on they do.
const SAME_OVERLAP_MIN: f32 = 0.75;
/// Lessons that say the same match a query about equally: those further apart in score are not even compared.
const SAME_SCORE_GAP_MAX: f32 = 0.15;

/// How alike lessons are. What it takes to tell is gathered when it is first asked for.
pub(super) trait Alike {
    /// The cosine of two lessons' texts on the built-in embedder's scale; `None` where either has no vector.
    fn cosine(&mut self, a: Source, b: Source) -> Option<f32>;
    /// How much of their words two lessons share, 0 to 1.
    fn overlap(&mut self, a: Source, b: Source) -> f32;
}

/// A candidate that is shown, by its place among those that passed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) place: usize,
    /// Places of those that are shown as this one, best first.
    pub(super) folded: Vec<usize>,
}

/// Chooses at most `options.k` of `passed`, which stand best first.
pub(super) fn choose(passed: &[Scored], options: &RankOptions<'_>, alike: &mut dyn Alike) -> Vec<Choice> {
    let diverse = options.diversity > 0.0 && options.k > 1;
    if !diverse && options.may_fold.is_none() {
        return (0..passed.len().min(options.k)).map(|place| Choice { place, folded: Vec::new() }).collect();
    }
    let mut left: Vec<usize> = (0..passed.len()).collect();
    // How alike each candidate is to the nearest of those chosen.
    let mut redundancy = vec![0.0f32; passed.len()];
    let best = passed.first().map_or(1.0, |first| first.score).max(f32::MIN_POSITIVE);
    let mut chosen: Vec<Choice> = Vec::new();
    while chosen.len() < options.k && !left.is_empty() {
        let value = |place: usize| {
            let score = passed.get(place).map_or(0.0, |scored| scored.score / best);
            let redundancy = redundancy.get(place).copied().unwrap_or(0.0);
            (1.0 - options.diversity) * score - options.diversity * redundancy
        };
        // The first of the best: they stand by score, and equal ones by the tie.
        let mut at = 0;
        if diverse {
            for (other, place) in left.iter().enumerate().skip(1) {
                if left.get(at).is_some_and(|best| value(*place) > value(*best)) {
                    at = other;
                }
            }
        }
        let place = left.remove(at);
        let Some(taken) = passed.get(place) else { break };
        let mut folded = Vec::new();
        left.retain(|&other| {
            let Some(scored) = passed.get(other) else { return false };
            let near = (taken.fused - scored.fused).abs() <= SAME_SCORE_GAP_MAX;
            let may_fold = near && options.may_fold.is_some_and(|may| may(taken.source, scored.source));
            if !may_fold && !diverse {
                return true;
            }
            let (ours, theirs) = (taken.source, scored.source);
            let cosine = alike.cosine(ours, theirs);
            // Words are asked last: for nearly all the vectors have said no.
            let same = may_fold
                && cosine.is_none_or(|cosine| cosine >= SAME_COSINE_MIN)
                && alike.overlap(ours, theirs) >= SAME_OVERLAP_MIN;
            if same {
                folded.push(other);
                return false;
            }
            if let Some(redundancy) = redundancy.get_mut(other) {
                *redundancy = redundancy.max(cosine.unwrap_or_else(|| alike.overlap(ours, theirs)));
            }
            true
        });
        chosen.push(Choice { place, folded });
    }
    chosen
}
