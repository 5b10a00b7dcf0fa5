//! Ranking for many banks in one process that hold the same lessons again and again, as simulated nodes do.
//!
//! A lesson is taken apart and embedded once, a query once, and how near the two are is worked out once. What depends on the
//! bank, that is how rare each word is among the lessons held and how many compete, is worked out from these parts for each
//! answer. So an answer is the one that a [`Ranker`](super::Ranker) over just that bank would give, at the cost of a walk over
//! the bank. No disk, no clock.

use std::collections::HashMap;
use std::sync::Arc;

use super::gate::{Gate, Likeness};
use super::ranker::{Asked, Candidate, RankerError, Scored, Source, better_first, dot, fuse};
use crate::embed::{EmbedError, Embedder};
use crate::index::lexical::{LexicalQuery, TermCounts};

/// A lesson's keys, taken apart.
struct Lesson {
    counts: TermCounts,
    vectors: Vec<Vec<f32>>,
}

/// How near a query and a lesson are, whatever bank they meet in.
struct Near {
    cosine: Option<f32>,
    /// How often the lesson has each term of the query.
    counts: Box<[u32]>,
    length: u32,
}

struct Query {
    words: LexicalQuery,
    vector: Option<Vec<f32>>,
    /// One a lesson, as far as lessons were there when it was last asked.
    near: Vec<Near>,
}

/// Lessons that are ranked within banks which each hold some of them.
pub struct SharedRanker {
    embedder: Arc<dyn Embedder>,
    gate: Gate,
    lessons: Vec<Lesson>,
    queries: HashMap<String, Query>,
}

impl SharedRanker {
    /// Without lessons. `gate` must be the embedder's: [`Gate::of`].
    #[must_use]
    pub fn new(embedder: Arc<dyn Embedder>, gate: Gate) -> Self {
        SharedRanker { embedder, gate, lessons: Vec::new(), queries: HashMap::new() }
    }

    /// Takes a lesson in; gives its slot.
    ///
    /// # Errors
    /// When the embedder fails, or for more than 2^32 lessons. Nothing is taken in then.
    pub fn add(&mut self, task: &str, text: &str) -> Result<u32, RankerError> {
        let slot = u32::try_from(self.lessons.len());
        let slot = slot.map_err(|_| EmbedError::BadAnswer("more lessons than slots".into()))?;
        let vectors = self.embedder.embed(&[task, text])?.into_iter().flatten().collect();
        self.lessons.push(Lesson { counts: TermCounts::new(&[task, text]), vectors });
        Ok(slot)
    }

    /// Lessons taken in.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lessons.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lessons.is_empty()
    }

    /// The best `k` lessons for a query in the bank that holds these slots (each once), best first; only what the gate passes.
    /// `weight` multiplies a score, and excludes where it is not positive; `tie` orders equal scores, smaller first.
    ///
    /// # Errors
    /// When the embedder fails.
    pub fn rank(
        &mut self,
        query: &str,
        bank: &[u32],
        k: usize,
        weight: &dyn Fn(u32) -> f32,
        tie: &dyn Fn(u32) -> [u8; 32],
    ) -> Result<Vec<Scored>, EmbedError> {
        self.prepare(query)?;
        let Some(asked) = self.queries.get(query) else { return Ok(Vec::new()) };
        let held = || bank.iter().filter_map(|slot| Some((*slot, asked.near.get(*slot as usize)?)));
        let (mut frequencies, mut documents, mut length_sum) = (vec![0; asked.words.len()], 0, 0);
        for (_, near) in held() {
            documents += 1;
            length_sum += u64::from(near.length);
            frequencies.iter_mut().zip(&near.counts).for_each(|(all, count)| *all += usize::from(*count > 0));
        }
        let words = asked.words.weigh_by(&frequencies, documents, length_sum);
        let candidate = |(slot, near): (u32, &Near)| {
            let matching = words.match_counts(&near.counts, near.length);
            let (bm25, coverage) = (matching.bm25, matching.coverage);
            Candidate { source: Source::Slot(slot), dense: near.cosine, bm25, coverage, weight: weight(slot) }
        };
        let candidates: Vec<Candidate> = held().map(candidate).filter(|c| c.weight > 0.0).collect();
        let best = candidates.iter().map(|candidate| candidate.bm25).fold(0.0, f32::max);
        let embedded = asked.vector.is_some();
        let asked = Asked {
            embedded,
            without_cosine: if embedded { Likeness::Unknown } else { Likeness::Unreadable },
            is_filled_from_outside: false,
            mass: words.mass(),
            // As there: what is excluded does not compete.
            lessons: candidates.len(),
        };
        let scored = candidates.iter().map(|candidate| fuse(&self.gate, &asked, candidate, best));
        let mut passed: Vec<Scored> = scored.filter(|scored| scored.relevant).collect();
        let by_slot = |source: Source| match source {
            Source::Slot(slot) => tie(slot),
            Source::External(_) => [0; 32],
        };
        passed.sort_unstable_by(|a, b| better_first(a, b, Some(&by_slot)));
        passed.truncate(k);
        Ok(passed)
    }

    /// Sees to it that a query is embedded and compared with every lesson.
    fn prepare(&mut self, query: &str) -> Result<(), EmbedError> {
        if !self.queries.contains_key(query) {
            let (words, vector) = (LexicalQuery::new(query), self.embedder.embed_one(query)?);
            self.queries.insert(query.to_owned(), Query { words, vector, near: Vec::new() });
        }
        let Some(asked) = self.queries.get_mut(query) else { return Ok(()) };
        for lesson in self.lessons.get(asked.near.len()..).unwrap_or_default() {
            let cosine = asked
                .vector
                .as_ref()
                .and_then(|query| lesson.vectors.iter().map(|key| dot(key, query)).max_by(f32::total_cmp));
            let counts = asked.words.counts_in(&lesson.counts);
            asked.near.push(Near { cosine, counts, length: lesson.counts.length() });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embed::BuiltinEmbedder;
    use crate::recall::{RankOptions, Ranker};

    const VERBS: [&str; 6] = ["cancel", "refund", "migrate", "deploy", "translate", "archive"];
    const THINGS: [&str; 7] = ["order", "database", "booking", "report", "certificate", "photo gallery", "invoice"];

    fn text(n: usize) -> (String, String) {
        let (verb, thing) = (VERBS[n % VERBS.len()], THINGS[n / VERBS.len() % THINGS.len()]);
        let task = format!("{verb} the {thing} of customer {}", n % 11);
        (task.clone(), format!("Before you {verb} a {thing}, read its state; {n} runs did not and were refused."))
    }

    #[test]
    fn an_answer_is_the_one_that_a_ranker_over_the_bank_alone_gives() {
        let embedder = Arc::new(BuiltinEmbedder::new());
        let mut shared = SharedRanker::new(embedder.clone(), Gate::BUILTIN);
        for n in 0..90 {
            let (task, text) = text(n);
            assert_eq!(shared.add(&task, &text).unwrap(), n as u32);
        }
        let banks: [Vec<u32>; 4] =
            [vec![], vec![7], (0..90).step_by(3).collect(), (0..90).filter(|n| n % 7 != 2).collect()];
        let queries = ["cancel my booking please", "the database has to be migrated", "zzz qqq", "refund an invoice"];
        let mut hits = 0;
        for bank in &banks {
            let mut alone = Ranker::new(embedder.clone(), Gate::BUILTIN);
            for slot in bank {
                let (task, text) = text(*slot as usize);
                alone.add(*slot, &task, &text).unwrap();
            }
            let weight = |slot: u32| [1.0, 0.5, 0.0][slot as usize % 3];
            let open = bank.iter().copied().filter(|slot| weight(*slot) > 0.0).collect();
            let tie = |slot: u32| [slot as u8; 32];
            for query in queries {
                let ranked = alone.rank(
                    query,
                    &RankOptions {
                        k: 4,
                        weight: Some(&weight),
                        filter: Some(&open),
                        tie: Some(&|source| match source {
                            Source::Slot(slot) => tie(slot),
                            Source::External(_) => [0; 32],
                        }),
                        ..RankOptions::default()
                    },
                );
                let answer = shared.rank(query, bank, 4, &weight, &tie).unwrap();
                let slots = |hits: &[Scored]| hits.iter().map(|hit| hit.source).collect::<Vec<_>>();
                assert_eq!(slots(&answer), slots(&ranked.hits), "{query}");
                for (ours, theirs) in answer.iter().zip(&ranked.hits) {
                    assert!((ours.score - theirs.score).abs() < 1e-4, "{query}: {ours:?} {theirs:?}");
                }
                hits += answer.len();
            }
        }
        assert!(hits > 10, "{hits} hits");
    }
}
