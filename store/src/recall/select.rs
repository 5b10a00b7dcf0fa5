//! Which of the candidates that passed are shown: near-duplicates as one, and, where it is wished, different ones.

use super::ranker::{RankOptions, Scored, Source};
use crate::index::lexical::Bag;

/// From this cosine on two lessons may say the same; the built-in embedder, being a mean of words, gives as much to
/// texts that differ in a name, so the words are asked too.
const SAME_COSINE_MIN: f32 = 0.93;
/// The share of their words, by idf, from which on they do.
const SAME_OVERLAP_MIN: f32 = 0.75;
/// Lessons that say the same match a query about equally: those further apart in score are not even compared.
const SAME_SCORE_GAP_MAX: f32 = 0.2;

/// What a lesson is compared with others by.
pub(super) struct Form {
    /// Its text's vector.
    pub(super) vector: Option<Vec<f32>>,
    /// Its words.
    pub(super) bag: Bag,
}

/// A candidate that is shown, by its place among those that passed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) place: usize,
    /// Places of those that are shown as this one, best first.
    pub(super) folded: Vec<usize>,
}

/// The cosine of two lessons, where both have a vector, and the overlap of their words.
type Likeness<'a> = dyn Fn(&Form, &Form) -> (Option<f32>, f32) + 'a;

/// Chooses at most `options.k` of `passed`, which stand best first.
pub(super) fn choose(
    passed: &[Scored],
    options: &RankOptions<'_>,
    form: &mut dyn FnMut(Source) -> Form,
    likeness: &Likeness<'_>,
) -> Vec<Choice> {
    let diverse = options.diversity > 0.0 && options.k > 1;
    if !diverse && options.may_fold.is_none() {
        return (0..passed.len().min(options.k)).map(|place| Choice { place, folded: Vec::new() }).collect();
    }
    let mut forms: Vec<Option<Form>> = passed.iter().map(|_| None).collect();
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
        let own = forms.get_mut(place).and_then(Option::take).unwrap_or_else(|| form(taken.source));
        let mut folded = Vec::new();
        left.retain(|&other| {
            let Some(scored) = passed.get(other) else { return false };
            let near = (taken.fused - scored.fused).abs() <= SAME_SCORE_GAP_MAX;
            let may_fold = near && options.may_fold.is_some_and(|may| may(taken.source, scored.source));
            if !may_fold && !diverse {
                return true;
            }
            let Some(theirs) = forms.get_mut(other) else { return false };
            let theirs = theirs.get_or_insert_with(|| form(scored.source));
            let (cosine, overlap) = likeness(&own, theirs);
            if may_fold && overlap >= SAME_OVERLAP_MIN && cosine.is_none_or(|cosine| cosine >= SAME_COSINE_MIN) {
                folded.push(other);
                return false;
            }
            if let Some(redundancy) = redundancy.get_mut(other) {
                *redundancy = redundancy.max(cosine.unwrap_or(overlap));
            }
            true
        });
        chosen.push(Choice { place, folded });
    }
    chosen
}
