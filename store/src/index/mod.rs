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
