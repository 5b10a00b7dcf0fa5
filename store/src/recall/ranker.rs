//! The ranking core: two indexes and the fusion of what they find. No disk, no clock.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::gate::{Gate, Likeness};
use super::{DENSE_SHARE, EmptyReason, LEXICAL_SHARE};
use crate::embed::{EmbedError, Embedder, EmbedderIdentity};
use crate::index::Filter;
use crate::index::dense::{DenseError, DenseIndex, Key, VectorFileError};
use crate::index::lexical::{LexicalIndex, LexicalQuery, TermCounts, Weighed};

/// Candidates each index contributes at least. Fusion and weights reorder within these, so there are many more than
/// are asked for.
const POOL_MIN: usize = 128;
/// Candidates each index contributes for each lesson asked for.
const POOL_PER_HIT: usize = 8;

/// What the vectors on disk are of: a lesson's task, then its text. Another name when [`Ranker::add_lesson`] is given other
/// texts than [`folklore_protocol::Lesson::text`] makes today, so that vectors of the old ones are not taken for theirs.
const KEYS: &str = "task-text-1";

/// Why a lesson is not fully indexed. It can be found by its words all the same.
#[derive(Debug, thiserror::Error)]
pub enum RankerError {
    /// The embedder did not answer; add the lesson again when it does.
    #[error(transparent)]
    Embed(#[from] EmbedError),
    /// The embedder's vector does not fit the index.
    #[error(transparent)]
    Dense(#[from] DenseError),
}

/// A lesson that is not in the index but competes in an answer, such as one another node sent.
#[derive(Clone, Copy, Debug)]
pub struct External<'a> {
    /// The lesson's task.
    pub task: &'a str,
    /// The rest of its text.
    pub text: &'a str,
    /// Multiplies its score, as [`RankOptions::weight`] does for slots. Not positive: excluded.
    pub weight: f32,
}

/// Where a scored lesson is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// In the index, under this slot.
    Slot(u32),
    /// Among the externals of the call, at this position.
    External(usize),
}

/// A lesson and how near it is to the query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    /// Which lesson.
    pub source: Source,
    /// The fused score times the weight; at most 1 times the weight.
    pub score: f32,
    /// The larger cosine of task and text with the query, −1 to 1; `None` where the query or the lesson has no vector.
    pub dense: Option<f32>,
    /// BM25 divided by the best of the query, 0 to 1.
    pub lexical: f32,
    /// The share of the query's idf mass whose words the lesson has, 0 to 1.
    pub coverage: f32,
    /// Whether the gate passes it. Always true where the gate decided; with a `min_score` it may be false.
    pub relevant: bool,
}

impl Scored {
    /// The slot, for a lesson in the index.
    #[must_use]
    pub fn slot(&self) -> Option<u32> {
        match self.source {
            Source::Slot(slot) => Some(slot),
            Source::External(_) => None,
        }
    }
}

/// What to answer.
#[derive(Clone, Copy)]
pub struct RankOptions<'a> {
    /// How many lessons at most. One is the default: one experience helps most (ReasoningBank, arXiv 2509.25140).
    pub k: usize,
    /// `None`: the calibrated gate decides what is shown. `Some(x)`: whatever scores at least `x` is, in place of the gate.
    pub min_score: Option<f32>,
    /// Slots that may be answered; `None` for all.
    pub filter: Option<&'a Filter<'a>>,
    /// Multiplies a slot's score, by standing for example; `None` for 1. Not positive: excluded.
    pub weight: Option<&'a dyn Fn(u32) -> f32>,
    /// Decides between equal scores, smaller first: something that is the same at every node, so that equal banks answer
    /// alike. `None`: by source, which is the order of arrival.
    pub tie: Option<&'a dyn Fn(Source) -> [u8; 32]>,
}

impl Default for RankOptions<'_> {
    fn default() -> Self {
        RankOptions { k: 1, min_score: None, filter: None, weight: None, tie: None }
    }
}

/// An answer.
#[derive(Debug, Default)]
pub struct Ranked {
    /// Best first; equal scores by [`RankOptions::tie`], then by source.
    pub hits: Vec<Scored>,
    /// Why there are no hits; `None` where there are.
    pub reason: Option<EmptyReason>,
    /// The embedder's failure, if words alone had to answer.
    pub embedder_error: Option<EmbedError>,
}

/// Lessons by slot, ready to be ranked.
pub struct Ranker {
    embedder: Arc<dyn Embedder>,
    gate: Gate,
    dense: DenseIndex,
    lexical: LexicalIndex,
}

/// A query made ready: its vector, if there is one, and its weighed terms.
struct Probe<'q> {
    vector: Option<Vec<f32>>,
    error: Option<EmbedError>,
    words: Weighed<'q>,
    /// Lessons that compete: held and external.
    lessons: usize,
    /// What it means that a candidate has no cosine.
    without_cosine: Likeness,
}

/// A candidate before the best BM25 is known.
#[derive(Clone, Copy)]
struct Candidate {
    source: Source,
    dense: Option<f32>,
    bm25: f32,
    coverage: f32,
    weight: f32,
}

impl Ranker {
    /// An empty ranker. `gate` must suit the embedder: [`Gate::BUILTIN`] for the built-in one.
    #[must_use]
    pub fn new(embedder: Arc<dyn Embedder>, gate: Gate) -> Self {
        let dense = DenseIndex::new(embedder.identity().dim);
        Ranker { embedder, gate, dense, lexical: LexicalIndex::new() }
    }

    /// As [`Ranker::new`], with vectors kept on disk below `vectors`, a directory that the caller has for itself; and what
    /// was damaged there, in words. Then add every lesson by [`Ranker::add_lesson`], and [settle](Ranker::settle).
    ///
    /// # Errors
    /// When the file system refuses; [`Ranker::new`] works all the same.
    pub fn open(
        embedder: Arc<dyn Embedder>,
        gate: Gate,
        vectors: &Path,
    ) -> Result<(Self, Vec<String>), VectorFileError> {
        let (dense, notes) = DenseIndex::open(&vectors.join(KEYS), embedder.identity())?;
        Ok((Ranker { embedder, gate, dense, lexical: LexicalIndex::new() }, notes))
    }

    /// Ends what [`Ranker::open`] began: vectors of lessons that were not added go, and those made are put on disk.
    ///
    /// # Errors
    /// When the file system refuses. The ranker goes on with its vectors in memory.
    pub fn settle(&mut self) -> Result<(), VectorFileError> {
        self.dense.settle()
    }

    /// What its vectors are made by.
    #[must_use]
    pub fn identity(&self) -> &EmbedderIdentity {
        self.embedder.identity()
    }

    /// Lessons held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lexical.len()
    }

    /// Whether no lesson is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lexical.is_empty()
    }

    /// Indexes a lesson under `slot`, in place of what was there.
    ///
    /// # Errors
    /// When the embedder fails. The lesson is then found by its words only.
    pub fn add(&mut self, slot: u32, task: &str, text: &str) -> Result<(), RankerError> {
        self.add_words(slot, task, text);
        let vectors = self.embedder.embed(&[task, text])?;
        self.add_vectors(slot, vectors.iter().flatten().map(Vec::as_slice))
    }

    /// As [`Ranker::add`], for a lesson of this id: vectors that are on disk are not made again.
    ///
    /// # Errors
    /// As [`Ranker::add`].
    pub fn add_lesson(&mut self, slot: u32, id: &[u8; 32], task: &str, text: &str) -> Result<(), RankerError> {
        self.add_words(slot, task, text);
        if self.dense.claim(slot, id) {
            return Ok(());
        }
        let vectors: Vec<Vec<f32>> = self.embedder.embed(&[task, text])?.into_iter().flatten().collect();
        let of = u16::try_from(vectors.len()).unwrap_or(u16::MAX);
        for (part, vector) in (0..of).zip(&vectors) {
            self.dense.add_keyed(slot, &Key { id: *id, part, of }, vector)?;
        }
        Ok(())
    }

    /// As [`Ranker::add`], with vectors made earlier by an embedder of the same [`Ranker::identity`].
    ///
    /// # Errors
    /// When a vector does not fit. The lesson is then found by its words and by the vectors before that one.
    pub fn add_embedded(&mut self, slot: u32, task: &str, text: &str, vectors: &[Vec<f32>]) -> Result<(), RankerError> {
        self.add_words(slot, task, text);
        self.add_vectors(slot, vectors.iter().map(Vec::as_slice))
    }

    fn add_words(&mut self, slot: u32, task: &str, text: &str) {
        self.dense.remove(slot);
        self.lexical.add(slot, &[task, text]);
    }

    fn add_vectors<'v>(&mut self, slot: u32, vectors: impl Iterator<Item = &'v [f32]>) -> Result<(), RankerError> {
        for vector in vectors {
            self.dense.add(slot, vector)?;
        }
        Ok(())
    }

    /// Forgets the lesson of `slot`; says whether there was one.
    pub fn remove(&mut self, slot: u32) -> bool {
        self.dense.remove(slot);
        self.lexical.remove(slot)
    }

    /// The best lessons for `query`.
    #[must_use]
    pub fn rank(&self, query: &str, options: &RankOptions<'_>) -> Ranked {
        self.rank_with(query, options, &[])
    }

    /// The best lessons for `query` among those held and `externals`, scored by one measure: idf and the best BM25
    /// are those of all together. The caller leaves out externals that it holds itself.
    #[must_use]
    pub fn rank_with(&self, query: &str, options: &RankOptions<'_>, externals: &[External<'_>]) -> Ranked {
        if self.is_empty() && externals.is_empty() {
            return Ranked { reason: Some(EmptyReason::BankEmpty), ..Ranked::default() };
        }
        let words = LexicalQuery::new(query);
        let counts = term_counts(externals);
        let mut probe = self.probe(&words, &counts, self.embedder.embed_one(query));
        let mut embedder_error = probe.error.take();
        let outside = match self.external_vectors(&probe, externals) {
            Ok(vectors) => external_candidates(&probe, externals, &counts, &vectors),
            Err(error) => {
                embedder_error = Some(error);
                external_candidates(&probe, externals, &counts, &[])
            }
        };
        let hits = self.select(&probe, options, &outside);
        let reason = if !hits.is_empty() {
            None
        } else if self.would_pass_unfiltered(&probe, options, &outside) {
            Some(EmptyReason::Filtered)
        } else if embedder_error.is_some() {
            Some(EmptyReason::EmbedderUnavailable)
        } else {
            Some(EmptyReason::BelowThreshold)
        };
        Ranked { hits, reason, embedder_error }
    }

    /// Scores lessons that are not in the index, each in its place, as [`Ranker::rank_with`] would: with the idf of all
    /// lessons together, relative to the best BM25 among held and given. Nothing is left out; see [`Scored::relevant`].
    ///
    /// # Errors
    /// When the embedder fails.
    pub fn score_external(&self, query: &str, externals: &[External<'_>]) -> Result<Vec<Scored>, EmbedError> {
        let words = LexicalQuery::new(query);
        let counts = term_counts(externals);
        let probe = self.probe(&words, &counts, Ok(self.embedder.embed_one(query)?));
        let vectors = self.external_vectors(&probe, externals)?;
        let outside = external_candidates(&probe, externals, &counts, &vectors);
        let held = self.lexical.search(&probe.words, 1, &|_| true);
        let best = best_bm25(outside.iter().map(|c| c.bm25).chain(held.iter().map(|h| h.1)));
        Ok(outside.iter().map(|c| self.fuse(&probe, c, best)).collect())
    }

    fn probe<'q>(
        &self,
        words: &'q LexicalQuery,
        counts: &[TermCounts],
        vector: Result<Option<Vec<f32>>, EmbedError>,
    ) -> Probe<'q> {
        let without_cosine = if matches!(vector, Ok(None)) { Likeness::Unreadable } else { Likeness::Unknown };
        let (vector, error) = match vector {
            Ok(vector) => (vector, None),
            Err(error) => (None, Some(error)),
        };
        let words = self.lexical.weigh(words, counts);
        Probe { vector, error, words, lessons: self.len() + counts.len(), without_cosine }
    }

    /// Two vectors an external, its task's and its text's. None are made where the query has none to compare them with.
    fn external_vectors(
        &self,
        probe: &Probe<'_>,
        externals: &[External<'_>],
    ) -> Result<Vec<Option<Vec<f32>>>, EmbedError> {
        if probe.vector.is_none() || externals.is_empty() {
            return Ok(Vec::new());
        }
        let texts: Vec<&str> = externals.iter().flat_map(|external| [external.task, external.text]).collect();
        let vectors = self.embedder.embed(&texts)?;
        if vectors.len() == texts.len() {
            Ok(vectors)
        } else {
            Err(EmbedError::BadAnswer("not one vector a text".into()))
        }
    }

    /// Gathers, fuses, gates, orders and cuts.
    fn select(&self, probe: &Probe<'_>, options: &RankOptions<'_>, outside: &[Candidate]) -> Vec<Scored> {
        let filter: &Filter<'_> = options.filter.unwrap_or(&|_| true);
        let pool = options.k.saturating_mul(POOL_PER_HIT).max(POOL_MIN);
        let by_words = self.lexical.search(&probe.words, pool, filter);
        let mut slots: BTreeSet<u32> = by_words.iter().map(|(slot, _)| *slot).collect();
        if let Some(vector) = &probe.vector {
            slots.extend(self.dense.search(vector, pool, filter).iter().map(|(slot, _)| *slot));
        }
        let held: Vec<Candidate> = slots
            .into_iter()
            .map(|slot| Candidate {
                source: Source::Slot(slot),
                dense: probe.vector.as_ref().and_then(|vector| self.dense.similarity(vector, slot)),
                bm25: self.lexical.score(&probe.words, slot),
                coverage: self.lexical.idf_mass_covered(&probe.words, slot),
                weight: options.weight.map_or(1.0, |weight| weight(slot)),
            })
            .collect();
        let best = best_bm25(held.iter().chain(outside).map(|candidate| candidate.bm25));
        let mut hits: Vec<Scored> = held
            .iter()
            .chain(outside)
            .filter(|candidate| candidate.weight > 0.0)
            .map(|candidate| self.fuse(probe, candidate, best))
            .filter(|scored| options.min_score.map_or(scored.relevant, |min| scored.score >= min))
            .collect();
        hits.sort_unstable_by(|a, b| better_first(a, b, options.tie));
        hits.truncate(options.k);
        hits
    }

    fn fuse(&self, probe: &Probe<'_>, candidate: &Candidate, best: f32) -> Scored {
        let lexical = if best > 0.0 { candidate.bm25 / best } else { 0.0 };
        let fused = match probe.vector {
            Some(_) => DENSE_SHARE * candidate.dense.unwrap_or(0.0) + LEXICAL_SHARE * lexical,
            None => lexical,
        };
        Scored {
            source: candidate.source,
            score: fused * candidate.weight,
            dense: candidate.dense,
            lexical,
            coverage: candidate.coverage,
            relevant: self.gate.passes(
                candidate.dense.map_or(probe.without_cosine, Likeness::Cosine),
                candidate.coverage,
                probe.lessons,
            ),
        }
    }

    /// Whether something would have been answered but for the filter and the weights.
    fn would_pass_unfiltered(&self, probe: &Probe<'_>, options: &RankOptions<'_>, outside: &[Candidate]) -> bool {
        let excluded_outside = outside.iter().any(|candidate| candidate.weight <= 0.0);
        if options.k == 0 || (options.filter.is_none() && options.weight.is_none() && !excluded_outside) {
            return false;
        }
        let open = RankOptions { k: 1, filter: None, weight: None, ..*options };
        let outside: Vec<Candidate> = outside.iter().map(|candidate| Candidate { weight: 1.0, ..*candidate }).collect();
        !self.select(probe, &open, &outside).is_empty()
    }
}

/// Externals as candidates; without `vectors` they compete by their words.
fn external_candidates(
    probe: &Probe<'_>,
    externals: &[External<'_>],
    counts: &[TermCounts],
    vectors: &[Option<Vec<f32>>],
) -> Vec<Candidate> {
    let cosine = |key: &Vec<f32>, query: &Vec<f32>| key.iter().zip(query).map(|(a, b)| a * b).sum::<f32>();
    let candidate = |(at, (external, counts)): (usize, (&External<'_>, &TermCounts))| Candidate {
        source: Source::External(at),
        dense: probe.vector.as_ref().and_then(|query| {
            let keys = vectors.get(2 * at..2 * at + 2).unwrap_or_default();
            keys.iter().flatten().map(|key| cosine(key, query)).max_by(f32::total_cmp)
        }),
        bm25: probe.words.score(counts),
        coverage: probe.words.idf_mass_covered(counts),
        weight: external.weight,
    };
    externals.iter().zip(counts).enumerate().map(candidate).collect()
}

fn term_counts(externals: &[External<'_>]) -> Vec<TermCounts> {
    externals.iter().map(|external| TermCounts::new(&[external.task, external.text])).collect()
}

fn best_bm25(scores: impl Iterator<Item = f32>) -> f32 {
    scores.fold(0.0, f32::max)
}

fn better_first(a: &Scored, b: &Scored, tie: Option<&dyn Fn(Source) -> [u8; 32]>) -> Ordering {
    let by_key = || tie.map_or(Ordering::Equal, |key| key(a.source).cmp(&key(b.source)));
    b.score.total_cmp(&a.score).then_with(by_key).then(a.source.cmp(&b.source))
}
