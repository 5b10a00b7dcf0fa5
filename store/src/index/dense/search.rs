//! Answering a query: scan, score again, score exactly.

use std::{borrow::Cow, collections::HashSet};

use ndarray::ArrayView1;

use super::{BLOCK_ROWS, DenseIndex, SlotSet, basis::Probe, block::Block};
use crate::{
    index::{Filter, best_first},
    raw::GROUP,
};

/// Vectors up to which all are scored exactly.
const EXACT_ROWS_MAX: usize = 2048;
/// Candidates of the scan that are scored again by integers, at least. Of 10^6 real sentences 400 give a recall at 10 of 0.994, and
/// 1,000 one of 0.998.
const INTEGER_MIN: usize = 640;
/// The same, for each vector that is asked for.
const INTEGER_PER_HIT: usize = 8;
/// Candidates that are scored exactly beyond those asked for.
const EXACT_EXTRA: usize = 32;
/// Groups that are scanned before the bar is raised.
const GROUPS_AT_ONCE: usize = 32;
/// Vectors for each of which one more candidate is scored by integers: among more vectors the estimates of more are too high.
const ROWS_PER_INTEGER: usize = 2_500;
/// Of vectors in lists, one in this many is scanned: those of the nearest lists. In lists as many as 32 million vectors have, of 20,000
/// clusters, that finds 0.988 of the ten nearest of 32 million, and 0.998 of those of a million (`benches/index`).
const PROBED_ONE_IN: usize = 3;
/// Vectors to be scanned from which on all cores do it: less is done before a second one has begun.
const PARALLEL_ROWS_MIN: usize = 2_000_000;
/// A set of slots that has at most one in this many of the vectors is walked, not scanned for.
const WALK_ONE_IN: usize = 16;
/// How far apart two sums of the same products may be, made in different orders.
const ROUNDING: f32 = 1e-5;
/// How many rows ahead of their use integers are fetched: memory takes about as long as eight inner products.
const PREFETCH_ROWS: usize = 8;

/// A vector that may be among the nearest. Score and slot are one number, the greater the better, since selecting the best
/// of many is a fifth of a query.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    key: u64,
    row: u32,
}

impl Candidate {
    fn new(score: f32, slot: u32, row: u32) -> Self {
        // Floats in the order of `total_cmp`: of negative ones the bits run the other way.
        let bits = score.to_bits();
        let ordered = if score.is_sign_negative() { !bits } else { bits | 1 << 31 };
        Candidate { key: u64::from(ordered) << 32 | u64::from(!slot), row }
    }

    fn slot(&self) -> u32 {
        !(self.key as u32)
    }

    fn score(&self) -> f32 {
        let ordered = (self.key >> 32) as u32;
        f32::from_bits(if ordered >> 31 == 1 { ordered & !(1 << 31) } else { !ordered })
    }
}

/// Keeps the best of many candidates: by score, then by slot.
struct Best {
    want: usize,
    found: Vec<Candidate>,
    /// What scores less is not among the best.
    bar: f32,
}

impl Best {
    fn new(want: usize) -> Self {
        Best { want, found: Vec::new(), bar: f32::NEG_INFINITY }
    }

    fn push(&mut self, candidate: Candidate) {
        if candidate.score() < self.bar {
            return;
        }
        self.found.push(candidate);
        // Selecting takes time in proportion to what is there, so it waits until half is to be thrown away.
        if self.found.len() >= 2 * self.want.max(1) {
            self.cut();
        }
    }

    fn cut(&mut self) {
        if self.found.len() > self.want && self.want > 0 {
            let (_, last, _) = self.found.select_nth_unstable_by_key(self.want - 1, |c| std::cmp::Reverse(c.key));
            self.bar = last.score();
            self.found.truncate(self.want);
        }
    }

    fn finish(mut self) -> Vec<Candidate> {
        self.cut();
        self.found
    }
}

impl DenseIndex {
    /// The `k` nearest slots that pass `filter`, with their cosine in −1..=1, best first. Empty where `query` has another
    /// dimension than the index or is not finite.
    ///
    /// The cosines are exact. Beyond a few thousand vectors a slot may be missed, rarely and near the end: see
    /// `benches/index.rs` for how rarely.
    #[must_use]
    pub fn search(&self, query: &[f32], k: usize, filter: &Filter<'_>) -> Vec<(u32, f32)> {
        let Some(keep) = self.rows_for(query, k) else { return Vec::new() };
        let all = self.open_base() + self.open.rows();
        let candidates = match &self.basis {
            Some(basis) if all > EXACT_ROWS_MAX.max(keep.saturating_mul(INTEGER_PER_HIT)) => {
                let scanned = self.scan(&basis.probe(query), keep, filter);
                self.score_integers(query, scanned, keep)
            }
            _ => return self.rank(self.score_all(query, keep, filter), k),
        };
        self.rank(self.score_exactly(query, candidates), k)
    }

    /// As [`DenseIndex::search`], among the slots of a set. A small set is walked: the fewer slots, the faster.
    #[must_use]
    pub fn search_in(&self, query: &[f32], k: usize, slots: &SlotSet) -> Vec<(u32, f32)> {
        if slots.len() * self.slots.per_slot_max() > self.slots.live() / WALK_ONE_IN {
            return self.search(query, k, &|slot| slots.contains(slot));
        }
        let Some(keep) = self.rows_for(query, k) else { return Vec::new() };
        let members = slots.iter().flat_map(|slot| self.slots.rows(slot).map(move |row| (slot, row)));
        let members = members.map(|(slot, row)| Candidate::new(0.0, slot, row)).collect();
        let candidates = self.score_integers(query, members, keep);
        self.rank(self.score_exactly(query, candidates), k)
    }

    /// The cosine of `slot`'s nearest vector with `query`; `None` where the slot has no vector or the dimensions differ.
    #[must_use]
    pub fn similarity(&self, query: &[f32], slot: u32) -> Option<f32> {
        if query.len() != self.shape.dim {
            return None;
        }
        self.slots.rows(slot).filter_map(|row| self.cosine(query, row)).max_by(f32::total_cmp)
    }

    /// The vector that `slot` was given last.
    #[must_use]
    pub fn last_vector(&self, slot: u32) -> Option<Vec<f32>> {
        let row = self.slots.rows(slot).next()? as usize;
        self.block(row / BLOCK_ROWS)?.vector(row % BLOCK_ROWS).map(Cow::into_owned)
    }

    /// How many vectors hold at least `k` distinct slots, if there are so many; `None` where nothing is to be answered.
    fn rows_for(&self, query: &[f32], k: usize) -> Option<usize> {
        let fits = query.len() == self.shape.dim && query.iter().all(|x| x.is_finite());
        (fits && k > 0).then(|| k.saturating_mul(self.slots.per_slot_max()))
    }

    /// The best by code, in no order.
    fn scan(&self, probe: &Probe, keep: usize, filter: &Filter<'_>) -> Vec<Candidate> {
        let blocks = self.probed(probe);
        let rows: usize = blocks.iter().map(|(_, block)| block.rows).sum();
        let want = INTEGER_MIN.max(keep.saturating_mul(INTEGER_PER_HIT)).max(rows / ROWS_PER_INTEGER);
        let threads =
            if rows < PARALLEL_ROWS_MIN { 1 } else { std::thread::available_parallelism().map_or(1, usize::from) };
        if threads == 1 {
            return self.scan_blocks(probe, blocks.iter(), want, filter).finish();
        }
        // Blocks in turn, so that each thread meets near ones first and soon has a high bar.
        let part = |first: usize| self.scan_blocks(probe, blocks.iter().skip(first).step_by(threads), want, filter);
        let best = std::thread::scope(|scope| {
            let part = &part;
            let started: Vec<_> = (1..threads).map(|first| (first, scope.spawn(move || part(first)))).collect();
            let mut best = part(0);
            for (first, thread) in started {
                // A thread that died is done again here, to die with its message.
                let other = thread.join().unwrap_or_else(|_| part(first));
                other.found.into_iter().for_each(|candidate| best.push(candidate));
            }
            best
        });
        best.finish()
    }

    fn scan_blocks<'b>(
        &self,
        probe: &Probe,
        blocks: impl Iterator<Item = &'b (usize, Block<'b>)>,
        want: usize,
        filter: &Filter<'_>,
    ) -> Best {
        let mut best = Best::new(want);
        let mut hits = Vec::with_capacity(GROUPS_AT_ONCE * GROUP);
        for (number, block) in blocks {
            for first in (0..block.rows.div_ceil(GROUP)).step_by(GROUPS_AT_ONCE) {
                let row = (number * BLOCK_ROWS + first * GROUP) as u32;
                let scan = probe.scan(block.groups(first, GROUPS_AT_ONCE), block.list, row, best.bar);
                self.kernels.scan(&scan, &mut hits);
                for (row, score) in hits.drain(..) {
                    let score = probe.cosine(block.list, score);
                    if score < best.bar {
                        continue;
                    }
                    // A vector without a slot is deleted, or beyond the end of its block.
                    if let Some(slot) = self.slots.slot(row).filter(|slot| filter(*slot)) {
                        best.push(Candidate::new(score, slot, row));
                    }
                }
            }
        }
        best
    }

    /// The nearest slot, of the `compared` nearest by their codes. For an index in memory whose vectors all have
    /// [codes](DenseIndex::code_all).
    pub(super) fn nearest(&self, query: &[f32], compared: usize) -> Option<u32> {
        let candidates = match &self.basis {
            Some(basis) if self.slots.live() > compared => {
                let probe = basis.probe(query);
                let blocks = self.probed(&probe);
                self.scan_blocks(&probe, blocks.iter(), compared, &|_| true).finish()
            }
            _ => self.score_all(query, 1, &|_| true),
        };
        let best = self.score_exactly(query, candidates).into_iter().max_by_key(|candidate| candidate.key);
        best.map(|candidate| candidate.slot())
    }

    /// The blocks to be scanned: all of them, or those in no list and those of the lists that are nearest.
    pub(super) fn probed(&self, probe: &Probe) -> Vec<(usize, Block<'_>)> {
        let mut blocks: Vec<(usize, Block<'_>)> = self.blocks().enumerate().collect();
        let bases = probe.bases();
        if bases.len() > 1 {
            let base = |block: &Block<'_>| match block.list {
                0 => f32::INFINITY,
                list => bases.get(list).copied().unwrap_or(f32::NEG_INFINITY),
            };
            // Stable, so that a list's blocks stay in order. The nearest first, which raises the bar soonest.
            blocks.sort_by(|(_, a), (_, b)| base(b).total_cmp(&base(a)));
            let mut left =
                blocks.iter().filter(|(_, b)| b.list > 0).map(|(_, b)| b.rows).sum::<usize>() / PROBED_ONE_IN;
            let reached = blocks.iter().position(|(_, block)| {
                let done = block.list > 0 && left == 0;
                left = left.saturating_sub(if block.list > 0 { block.rows } else { 0 });
                done
            });
            blocks.truncate(reached.unwrap_or(blocks.len()));
        }
        blocks
    }

    /// The best by integers, a few more than `keep`, in no order.
    fn score_integers(&self, query: &[f32], mut candidates: Vec<Candidate>, keep: usize) -> Vec<Candidate> {
        let (query, unit) = integer_query(query, self.shape.code_len());
        // In the order of the file.
        candidates.sort_unstable_by_key(|candidate| candidate.row);
        let mut best = Best::new(keep.saturating_add(EXACT_EXTRA.max(keep / 4)));
        for (at, candidate) in candidates.iter().enumerate() {
            if let Some(ahead) = candidates.get(at + PREFETCH_ROWS)
                && let Some(block) = self.block(ahead.row as usize / BLOCK_ROWS)
            {
                block.prefetch(ahead.row as usize % BLOCK_ROWS);
            }
            let block = self.block(candidate.row as usize / BLOCK_ROWS);
            if let Some((row, scale)) = block.and_then(|block| block.integers(candidate.row as usize % BLOCK_ROWS)) {
                let score = self.kernels.dot(row, &query) as f32 * (scale * unit);
                // Damage may have made it anything.
                if score.is_finite() {
                    best.push(Candidate::new(score, candidate.slot(), candidate.row));
                }
            }
        }
        best.finish()
    }

    fn score_exactly(&self, query: &[f32], mut candidates: Vec<Candidate>) -> Vec<Candidate> {
        candidates.retain_mut(|candidate| match self.cosine(query, candidate.row) {
            Some(score) => {
                *candidate = Candidate::new(score, candidate.slot(), candidate.row);
                true
            }
            None => false,
        });
        candidates
    }

    /// All vectors that pass, scored exactly; the best `keep`.
    fn score_all(&self, query: &[f32], keep: usize, filter: &Filter<'_>) -> Vec<Candidate> {
        let query_view = ArrayView1::from(query);
        let mut best = Best::new(keep.min(self.slots.live()));
        for (number, block) in self.blocks().enumerate() {
            let products = block.vectors().map(|vectors| vectors.dot(&query_view));
            for at in 0..block.rows {
                let row = (number * BLOCK_ROWS + at) as u32;
                let Some(slot) = self.slots.slot(row) else { continue };
                // Rows below what is already kept need not bother the filter.
                let estimate = products.as_ref().and_then(|p| p.get(at)).copied();
                if estimate.is_some_and(|score| score + ROUNDING < best.bar) || !filter(slot) {
                    continue;
                }
                if let Some(score) = self.cosine(query, row) {
                    best.push(Candidate::new(score, slot, row));
                }
            }
        }
        best.finish()
    }

    /// The exact cosine of one vector; `None` where it is damaged, which is noted.
    fn cosine(&self, query: &[f32], row: u32) -> Option<f32> {
        let block = self.block(row as usize / BLOCK_ROWS)?;
        match block.vector(row as usize % BLOCK_ROWS) {
            Some(vector) => Some(ArrayView1::from(&*vector).dot(&ArrayView1::from(query))),
            None => {
                let mut damaged = self.damaged.lock().unwrap_or_else(|e| e.into_inner());
                if damaged.insert(row) {
                    tracing::warn!(row, "a vector is damaged on disk; its text is embedded again at the next start");
                }
                None
            }
        }
    }

    /// The best `k` slots of candidates, each once.
    fn rank(&self, candidates: Vec<Candidate>, k: usize) -> Vec<(u32, f32)> {
        let mut scored: Vec<(u32, f32)> = candidates.into_iter().map(|c| (c.slot(), c.score())).collect();
        scored.sort_unstable_by(best_first);
        let mut seen = HashSet::new();
        scored.retain(|(slot, _)| seen.insert(*slot));
        scored.truncate(k);
        scored
    }
}

/// A query as integers, padded with zeros, and what one of them means. Small enough that no inner product with a row of
/// 4,096 components overflows: 127 × 2,047 × 4,096 < 2^31.
fn integer_query(query: &[f32], len: usize) -> (Vec<i16>, f32) {
    let largest = query.iter().fold(f32::MIN_POSITIVE, |max, x| max.max(x.abs()));
    let unit = largest / 2047.0;
    let mut out: Vec<i16> = query.iter().map(|x| (x / unit).round() as i16).collect();
    out.resize(len, 0);
    (out, unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn candidates_are_ordered_as_answers_are(a in proptest::num::f32::ANY, b in proptest::num::f32::ANY, s in 0u32..9, t in 0u32..9) {
            let (one, other) = (Candidate::new(a, s, 1), Candidate::new(b, t, 2));
            proptest::prop_assert_eq!((one.score().to_bits(), one.slot(), one.row), (a.to_bits(), s, 1));
            proptest::prop_assert_eq!(other.key.cmp(&one.key), best_first(&(s, a), &(t, b)));
        }
    }
}
