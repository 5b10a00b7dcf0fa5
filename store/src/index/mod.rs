//! Search over what is held in memory: an exact scan of vectors and BM25 over words.
//!
//! Both index *slots*: small numbers the caller gives out, one a lesson. Both are deterministic: equal scores are
//! ordered by slot, and what was removed leaves no trace in later answers.

pub mod dense;
pub mod lexical;
pub mod tokens;

use std::cmp::Ordering;

pub use dense::SlotSet;

/// Which slots may be answered. Called once a candidate, from several threads where there is much to scan.
pub type Filter<'a> = dyn Fn(u32) -> bool + Sync + 'a;

/// Higher scores first, then lower slots: the order of every answer.
pub(crate) fn best_first(a: &(u32, f32), b: &(u32, f32)) -> Ordering {
    b.1.total_cmp(&a.1).then(a.0.cmp(&b.0))
}

/// Keeps the best `k` of `scored`, best first, without sorting the rest.
pub(crate) fn keep_best(scored: &mut Vec<(u32, f32)>, k: usize) {
    if k == 0 {
        scored.clear();
        return;
    }
    if scored.len() > k {
        scored.select_nth_unstable_by(k - 1, best_first);
        scored.truncate(k);
    }
    scored.sort_unstable_by(best_first);
}
/// The best `k` of what is offered, while it is being offered.
pub(crate) struct Best {
    k: usize,
    kept: Vec<(u32, f32)>,
    /// What scores less cannot be among the best any more.
    pub worst_kept: f32,
}

impl Best {
    pub fn new(k: usize) -> Self {
        Self { k, kept: Vec::new(), worst_kept: f32::NEG_INFINITY }
    }

    pub fn offer(&mut self, slot: u32, score: f32) {
        if score < self.worst_kept {
            return;
        }
        self.kept.push((slot, score));
        // Now and then, so that each costs little.
        if self.kept.len() >= 2 * self.k + 64 {
            keep_best(&mut self.kept, self.k);
            self.worst_kept = self.kept.last().map_or(f32::NEG_INFINITY, |(_, score)| *score);
        }
    }

    /// Best first.
    pub fn done(mut self) -> Vec<(u32, f32)> {
        keep_best(&mut self.kept, self.k);
        self.kept
    }
}
