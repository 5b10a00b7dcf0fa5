//! The ranking core: two indexes and the fusion of what they find. No disk, no clock.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;

use super::gate::{Gate, Likeness, Reading};
use super::select::{Alike, choose};
use super::{DENSE_SHARE, EmptyReason, LEXICAL_SHARE};
use crate::embed::{EmbedError, Embedder, EmbedderIdentity};
use crate::index::SlotSet;
use crate::index::dense::{DenseError, DenseIndex, Key, VectorFileError};
use crate::index::lexical::{Bag, Corpus, LexicalIndex, LexicalQuery, Strangers, TermCounts, Weighed};

/// Candidates each index contributes at least. Fusion and weights reorder within these, so there are many more than
/// are asked for.
const POOL_MIN: usize = 128;
/// Candidates each index contributes for each lesson asked for.
const POOL_PER_HIT: usize = 8;

/// Words by which lessons that say the same are looked for. A sentence that one of them lacks has a few.
const RARE_WORDS: usize = 16;

/// What the vectors on disk are of: a lesson's task, then its text. Another name when [`Ranker::add_lesson`] is given other
/// texts than [`folklore_protocol::Lesson::text`] makes today, so that vectors of the old ones are not taken for theirs.
const KEYS: &str = "task-text-1";

/// As [`Ranker::erase`], for every space below `vectors` that no ranker has open: of embedders that are not in use, or not yet,
/// and of other [keys](KEYS). Returns what could not be done, in words.
pub(crate) fn erase_elsewhere(vectors: &Path, open: &[EmbedderIdentity], ids: &HashSet<[u8; 32]>) -> Vec<String> {
    let kinds = match DenseIndex::kinds(vectors) {
        Ok(kinds) => kinds,
        Err(error) => return vec![error.to_string()],
    };
    let of_kind = |kind: &Path| DenseIndex::erase_below(kind, if kind.ends_with(KEYS) { open } else { &[] }, ids);
    kinds.iter().flat_map(|kind| of_kind(kind)).map(|error| error.to_string()).collect()
}

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
    /// `fused` times `weight`; at most 1 times the weight.
    pub score: f32,
    /// `0.7 × dense + 0.3 × lexical`, or `lexical` alone where the query has no vector.
    pub fused: f32,
    /// The caller's factor.
    pub weight: f32,
    /// The larger cosine of task and text with the query, −1 to 1; `None` where the query or the lesson has no vector.
    pub dense: Option<f32>,
    /// BM25 divided by the best of the query, 0 to 1.
    pub lexical: f32,
    /// BM25.
    pub bm25: f32,
    /// The share of the query's idf mass whose words the lesson has, 0 to 1.
    pub coverage: f32,
    /// What the gate saw.
    pub gate: Reading,
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
    /// Slots that may be answered, of those that are held; `None` for all.
    pub filter: Option<&'a SlotSet>,
    /// Among which of the lessons held the query's words are weighed. Of the externals those count that are not excluded.
    pub corpus: Corpus<'a>,
    /// Multiplies a slot's score, by standing for example; `None` for 1. Not positive: excluded.
    pub weight: Option<&'a dyn Fn(u32) -> f32>,
    /// Decides between equal scores, smaller first: something that is the same at every node, so that equal banks answer
    /// alike. `None`: by source, which is the order of arrival.
    pub tie: Option<&'a dyn Fn(Source) -> [u8; 32]>,
    /// How much a hit's difference from those before it counts beside its score, 0 to 1: maximal marginal relevance
    /// (Carbonell and Goldstein, SIGIR 1998). 0: by score alone.
    pub diversity: f32,
    /// Whether two lessons, if they say almost the same, may be shown as one; `None`: near-duplicates stay apart.
    pub may_fold: Option<&'a dyn Fn(Source, Source) -> bool>,
    /// Vectors of the query and the externals in the second space: it is ranked there. `None`: in the first.
    pub prepared: Option<&'a Prepared>,
}

impl Default for RankOptions<'_> {
    fn default() -> Self {
        RankOptions {
            k: 1,
            min_score: None,
            filter: None,
            corpus: Corpus::All,
            weight: None,
            tie: None,
            diversity: 0.0,
            may_fold: None,
            prepared: None,
        }
    }
}

/// An answer.
#[derive(Debug, Default)]
pub struct Ranked {
    /// Best first; equal scores by [`RankOptions::tie`], then by source. With diversity in the order of choice.
    pub hits: Vec<Scored>,
    /// For each hit the lessons that say almost the same and are shown as this one, best first.
    pub folded: Vec<Vec<Source>>,
    /// Where there are no hits: the lesson that came nearest to being one, of those that might be shown.
    pub nearest: Option<Scored>,
    /// Why there are no hits; `None` where there are.
    pub reason: Option<EmptyReason>,
    /// The embedder's failure, if words alone had to answer.
    pub embedder_error: Option<EmbedError>,
    /// What was made of the query.
    pub query: QueryReading,
}

/// What was made of a query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueryReading {
    /// How much it says; see [`Weighed::mass`].
    pub mass: f32,
    /// The BM25 that others were divided by.
    pub best_bm25: f32,
    /// Lessons that competed.
    pub lessons: usize,
    /// Whether it has a vector.
    pub embedded: bool,
    /// Whose space it was ranked in; `None` where there was nothing to rank.
    pub embedder: Option<EmbedderIdentity>,
}

/// How near each key of a lesson is to a query.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Keys {
    /// Cosine of the task.
    pub task_cosine: Option<f32>,
    /// Cosine of the text.
    pub text_cosine: Option<f32>,
    /// BM25 of the task alone.
    pub task_bm25: f32,
    /// BM25 of the text alone.
    pub text_bm25: f32,
}

/// The vectors of one embedder, and what their cosines mean. Vectors of two spaces are never compared.
struct Space {
    identity: EmbedderIdentity,
    gate: Gate,
    dense: DenseIndex,
    /// Whether a lesson without a vector may only be waiting for it.
    is_filled_from_outside: bool,
}

/// Lessons by slot, ready to be ranked.
///
/// The ranker embeds what it is given by an embedder that is always there. It may hold a second space, of an embedder that
/// is slow or may be away: its vectors are made elsewhere and [handed in](Ranker::add_second), and a query that was
/// [prepared](Prepared) for it is ranked by it.
pub struct Ranker {
    embedder: Arc<dyn Embedder>,
    space: Space,
    second: Option<Space>,
    lexical: LexicalIndex,
}

/// Vectors made beforehand by the embedder of the second space.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prepared {
    /// The query's.
    pub query: Vec<f32>,
    /// Two for each external, its task's and its text's.
    pub externals: Vec<Option<Vec<f32>>>,
}

/// A query made ready: its vector, if there is one, and its weighed terms.
struct Probe<'q> {
    /// Whose vector it is.
    space: &'q Space,
    vector: Option<Vec<f32>>,
    error: Option<EmbedError>,
    words: Weighed<'q>,
    mass: f32,
    /// What it means that a candidate has no cosine.
    without_cosine: Likeness,
}

/// A candidate before the best BM25 is known.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    pub(super) source: Source,
    pub(super) dense: Option<f32>,
    pub(super) bm25: f32,
    pub(super) coverage: f32,
    pub(super) weight: f32,
}

/// Lessons that are not in the index, made ready.
#[derive(Default)]
struct Outside {
    counts: Vec<TermCounts>,
    /// Two an external, its task's and its text's, or none at all.
    vectors: Vec<Option<Vec<f32>>>,
    candidates: Vec<Candidate>,
}

/// What passed, in the order of choice.
struct Selected {
    hits: Vec<Scored>,
    folded: Vec<Vec<Source>>,
    nearest: Option<Scored>,
    best_bm25: f32,
    /// Lessons that competed: held and external.
    lessons: usize,
}

impl Space {
    /// Gives a slot the vectors of a lesson's keys, so that they can be claimed by its id after the next opening.
    fn add(&mut self, slot: u32, id: &[u8; 32], vectors: &[Vec<f32>]) -> Result<(), DenseError> {
        let of = u16::try_from(vectors.len()).unwrap_or(u16::MAX);
        for (part, vector) in (0..of).zip(vectors) {
            self.dense.add_keyed(slot, &Key { id: *id, part, of }, vector)?;
        }
        Ok(())
    }
}

impl Ranker {
    /// An empty ranker. `gate` must be the embedder's: [`Gate::of`].
    #[must_use]
    pub fn new(embedder: Arc<dyn Embedder>, gate: Gate) -> Self {
        let dense = DenseIndex::new(embedder.identity().dim);
        Self::with_index(embedder, gate, dense)
    }

    fn with_index(embedder: Arc<dyn Embedder>, gate: Gate, dense: DenseIndex) -> Self {
        let space = Space { identity: embedder.identity().clone(), gate, dense, is_filled_from_outside: false };
        Ranker { embedder, space, second: None, lexical: LexicalIndex::new() }
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
        Ok((Self::with_index(embedder, gate, dense), notes))
    }

    /// Gives the ranker a second space, kept on disk below `vectors` as [`Ranker::open`] does it, or in memory without. Of the
    /// lessons given by slot and id, those get their vectors that have them on disk; the slots of the others are returned, and
    /// what was damaged, in words. A second space that was there before goes.
    pub fn open_second(
        &mut self,
        identity: EmbedderIdentity,
        gate: Gate,
        vectors: Option<&Path>,
        lessons: &[(u32, [u8; 32])],
    ) -> (Vec<u32>, Vec<String>) {
        let opened = vectors.map(|vectors| DenseIndex::open(&vectors.join(KEYS), &identity));
        let (mut dense, mut notes) = match opened {
            Some(Ok(opened)) => opened,
            Some(Err(error)) => (DenseIndex::new(identity.dim), vec![error.to_string()]),
            None => (DenseIndex::new(identity.dim), Vec::new()),
        };
        let waiting = lessons.iter().filter(|(slot, id)| !dense.claim(*slot, id)).map(|(slot, _)| *slot).collect();
        notes.extend(dense.settle().err().map(|error| error.to_string()));
        self.second = Some(Space { identity, gate, dense, is_filled_from_outside: true });
        (waiting, notes)
    }

    /// What the vectors of the second space are made by.
    #[must_use]
    pub fn second_identity(&self) -> Option<&EmbedderIdentity> {
        self.second.as_ref().map(|space| &space.identity)
    }

    /// Hands in the vectors of a lesson's task and text that the embedder `identity` made. False, and nothing is done, if
    /// that is not the second space's embedder.
    ///
    /// # Errors
    /// When a vector does not fit the index.
    pub fn add_second(
        &mut self,
        slot: u32,
        id: &[u8; 32],
        identity: &EmbedderIdentity,
        vectors: &[Vec<f32>],
    ) -> Result<bool, DenseError> {
        let Some(space) = self.second.as_mut().filter(|space| space.identity == *identity) else { return Ok(false) };
        space.dense.remove(slot);
        space.add(slot, id, vectors)?;
        Ok(true)
    }

    /// Ends what [`Ranker::open`] began: vectors of lessons that were not added go, and those made are put on disk.
    ///
    /// # Errors
    /// When the file system refuses. The ranker goes on with its vectors in memory.
    pub fn settle(&mut self) -> Result<(), VectorFileError> {
        self.space.dense.settle()
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
        if self.space.dense.claim(slot, id) {
            return Ok(());
        }
        let vectors: Vec<Vec<f32>> = self.embedder.embed(&[task, text])?.into_iter().flatten().collect();
        Ok(self.space.add(slot, id, &vectors)?)
    }

    /// As [`Ranker::add`], with vectors made earlier by an embedder of the same [`Ranker::identity`].
    ///
    /// # Errors
    /// When a vector does not fit. The lesson is then found by its words and by the vectors before that one.
    pub fn add_embedded(&mut self, slot: u32, task: &str, text: &str, vectors: &[Vec<f32>]) -> Result<(), RankerError> {
        self.add_words(slot, task, text);
        self.add_vectors(slot, vectors.iter().map(Vec::as_slice))
    }

    /// Takes the words of lessons from a file, in place of all that was there: those of slots from 0 on.
    pub(crate) fn set_words(&mut self, words: LexicalIndex) {
        self.lexical = words;
    }

    /// The words of all lessons.
    pub(crate) fn words(&self) -> &LexicalIndex {
        &self.lexical
    }

    /// Gives lessons, whose words are there already, the vectors that are on disk, and returns the slots of those that have none.
    /// Fastest where the ids ascend.
    pub(crate) fn claim_all<'i>(&mut self, lessons: impl Iterator<Item = (u32, &'i [u8; 32])>) -> Vec<u32> {
        lessons.filter(|(slot, id)| !self.space.dense.claim(*slot, id)).map(|(slot, _)| slot).collect()
    }

    /// Makes the vectors of a lesson, whose words are there already.
    ///
    /// # Errors
    /// As [`Ranker::add`].
    pub(crate) fn embed(&mut self, slot: u32, id: &[u8; 32], task: &str, text: &str) -> Result<(), RankerError> {
        let vectors: Vec<Vec<f32>> = self.embedder.embed(&[task, text])?.into_iter().flatten().collect();
        Ok(self.space.add(slot, id, &vectors)?)
    }

    fn add_words(&mut self, slot: u32, task: &str, text: &str) {
        self.space.dense.remove(slot);
        self.lexical.add(slot, &[task, text]);
    }

    fn add_vectors<'v>(&mut self, slot: u32, vectors: impl Iterator<Item = &'v [f32]>) -> Result<(), RankerError> {
        for vector in vectors {
            self.space.dense.add(slot, vector)?;
        }
        Ok(())
    }

    /// Forgets the lesson of `slot`; says whether there was one.
    pub fn remove(&mut self, slot: u32) -> bool {
        self.space.dense.remove(slot);
        if let Some(second) = &mut self.second {
            second.dense.remove(slot);
        }
        self.lexical.remove(slot)
    }

    /// Overwrites the vectors that are here under these ids, also those that no slot has: in memory and on disk.
    ///
    /// # Errors
    /// When the file system refuses. Those vectors are found no more, but some of their bytes may still be there.
    pub fn erase(&mut self, ids: &HashSet<[u8; 32]>) -> Result<(), VectorFileError> {
        let second = self.second.as_mut().map_or(Ok(()), |second| second.dense.erase(ids));
        self.space.dense.erase(ids)?;
        second
    }

    /// What the vectors of those of its spaces are made by that are open on disk.
    pub(crate) fn spaces_on_disk(&self) -> impl Iterator<Item = &EmbedderIdentity> {
        self.second.iter().chain([&self.space]).filter(|space| space.dense.is_on_disk()).map(|space| &space.identity)
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
        let (space, prepared) = match (&self.second, options.prepared) {
            (Some(second), Some(prepared)) => (second, Some(prepared)),
            _ => (&self.space, None),
        };
        let vector = prepared.map_or_else(|| self.embedder.embed_one(query), |p| Ok(Some(p.query.clone())));
        let competing: Vec<TermCounts> =
            externals.iter().zip(&counts).filter(|(e, _)| e.weight > 0.0).map(|(_, counts)| counts.clone()).collect();
        let mut probe = self.probe(space, &words, &competing, options.corpus, vector);
        let mut embedder_error = probe.error.take();
        let vectors = match prepared {
            Some(prepared) => prepared.externals.clone(),
            None => self.external_vectors(&probe, externals).unwrap_or_else(|error| {
                embedder_error = Some(error);
                Vec::new()
            }),
        };
        let candidates = external_candidates(&probe, externals, &counts, &vectors);
        let outside = Outside { counts, vectors, candidates };
        let selected = self.select(&probe, options, &outside);
        let reason = if !selected.hits.is_empty() {
            None
        } else if self.would_pass_unfiltered(&probe, options, &outside) {
            Some(EmptyReason::Filtered)
        } else if embedder_error.is_some() {
            Some(EmptyReason::EmbedderUnavailable)
        } else {
            Some(EmptyReason::BelowThreshold)
        };
        let query = QueryReading {
            mass: probe.mass,
            best_bm25: selected.best_bm25,
            lessons: selected.lessons,
            embedded: probe.vector.is_some(),
            embedder: Some(space.identity.clone()),
        };
        let nearest = selected.nearest.filter(|_| selected.hits.is_empty());
        Ranked { hits: selected.hits, folded: selected.folded, nearest, reason, embedder_error, query }
    }

    /// The slots of at most `k` lessons that share the rarest words of a text, most of them first: those that may say the same in
    /// nearly the same words. Costs a small part of ranking.
    #[must_use]
    pub fn nearest_by_rare_words(&self, text: &str, k: usize, filter: Option<&SlotSet>) -> Vec<u32> {
        let found = self.lexical.search_rarest(&LexicalQuery::new(text), RARE_WORDS, k, filter);
        found.into_iter().map(|(slot, _)| slot).collect()
    }

    /// Scores lessons that are not in the index, each in its place, as [`Ranker::rank_with`] would: with the idf of all
    /// lessons together, relative to the best BM25 among held and given. Nothing is left out; see [`Scored::relevant`].
    ///
    /// # Errors
    /// When the embedder fails.
    pub fn score_external(&self, query: &str, externals: &[External<'_>]) -> Result<Vec<Scored>, EmbedError> {
        let words = LexicalQuery::new(query);
        let counts = term_counts(externals);
        let vector = Ok(self.embedder.embed_one(query)?);
        let probe = self.probe(&self.space, &words, &counts, Corpus::All, vector);
        let vectors = self.external_vectors(&probe, externals)?;
        let outside = external_candidates(&probe, externals, &counts, &vectors);
        let held = self.lexical.search(&probe.words, 1, None);
        let best = best_bm25(outside.iter().map(|c| c.bm25).chain(held.iter().map(|h| h.1)));
        let lessons = self.len() + outside.len();
        Ok(outside.iter().map(|c| fuse_in(&probe, c, best, lessons)).collect())
    }

    /// How near each key of these lessons (task, text) is to `query`, whose terms weigh what they do among those held and
    /// `externals`: to explain an answer. `prepared` are the query's vector and two for each lesson, where the second space
    /// was asked. Where there are no vectors the words alone are told.
    #[must_use]
    pub fn keys(
        &self,
        query: &str,
        lessons: &[(&str, &str)],
        externals: &[External<'_>],
        prepared: Option<&Prepared>,
    ) -> Vec<Keys> {
        let words = LexicalQuery::new(query);
        let weighed = self.lexical.weigh(&words, &term_counts(externals));
        let vectors = match prepared {
            Some(made) => [&[Some(made.query.clone())], made.externals.as_slice()].concat(),
            None => {
                let mut texts = vec![query];
                texts.extend(lessons.iter().flat_map(|(task, text)| [*task, *text]));
                self.embedder.embed(&texts).unwrap_or_default()
            }
        };
        let asked = vectors.first().and_then(Option::as_ref);
        let near = |at: usize| Some(dot(asked?, vectors.get(at)?.as_ref()?));
        let keys = |(at, (task, text)): (usize, &(&str, &str))| Keys {
            task_cosine: near(2 * at + 1),
            text_cosine: near(2 * at + 2),
            task_bm25: weighed.score(&TermCounts::new(&[task])),
            text_bm25: weighed.score(&TermCounts::new(&[text])),
        };
        lessons.iter().enumerate().map(keys).collect()
    }

    fn probe<'q>(
        &'q self,
        space: &'q Space,
        words: &'q LexicalQuery,
        counts: &[TermCounts],
        corpus: Corpus<'_>,
        vector: Result<Option<Vec<f32>>, EmbedError>,
    ) -> Probe<'q> {
        let without_cosine = if matches!(vector, Ok(None)) { Likeness::Unreadable } else { Likeness::Unknown };
        let (vector, error) = match vector {
            Ok(vector) => (vector, None),
            Err(error) => (None, Some(error)),
        };
        let words = self.lexical.weigh_by(words, counts, corpus);
        Probe { space, vector, error, mass: words.mass(), words, without_cosine }
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

    /// Gathers, fuses, gates, orders, folds and cuts.
    fn select(&self, probe: &Probe<'_>, options: &RankOptions<'_>, outside: &Outside) -> Selected {
        let pool = options.k.saturating_mul(POOL_PER_HIT).max(POOL_MIN);
        let by_words = self.lexical.search(&probe.words, pool, options.filter);
        let mut slots: BTreeSet<u32> = by_words.iter().map(|(slot, _)| *slot).collect();
        if let Some(vector) = &probe.vector {
            let by_meaning = match options.filter {
                Some(open) => probe.space.dense.search_in(vector, pool, open),
                None => probe.space.dense.search(vector, pool, &|_| true),
            };
            slots.extend(by_meaning.iter().map(|(slot, _)| *slot));
        }
        let candidate = |slot| {
            let matching = self.lexical.matching(&probe.words, slot);
            Candidate {
                source: Source::Slot(slot),
                dense: probe.vector.as_ref().and_then(|vector| probe.space.dense.similarity(vector, slot)),
                bm25: matching.bm25,
                coverage: matching.coverage,
                weight: options.weight.map_or(1.0, |weight| weight(slot)),
            }
        };
        let held: Vec<Candidate> = slots.into_iter().map(candidate).collect();
        let competing = || held.iter().chain(&outside.candidates).filter(|candidate| candidate.weight > 0.0);
        let best = best_bm25(competing().map(|candidate| candidate.bm25));
        // The best of many is nearer by chance than the best of few: what may not be answered adds nothing to that.
        let given = outside.candidates.iter().filter(|candidate| candidate.weight > 0.0).count();
        let lessons = options.filter.map_or(self.len(), SlotSet::len) + given;
        let mut passed: Vec<Scored> = Vec::new();
        let mut nearest: Option<Scored> = None;
        let lack = |scored: &Scored| scored.gate.bar - scored.gate.reached;
        for candidate in competing() {
            let scored = fuse_in(probe, candidate, best, lessons);
            if options.min_score.map_or(scored.relevant, |min| scored.score >= min) {
                passed.push(scored);
            }
            if nearest.is_none_or(|nearest| lack(&scored) < lack(&nearest)) {
                nearest = Some(scored);
            }
        }
        passed.sort_unstable_by(|a, b| better_first(a, b, options.tie));
        let chosen = choose(&passed, options, &mut Forms::new(self, probe.space, outside));
        let at = |place: &usize| passed.get(*place).copied();
        Selected {
            hits: chosen.iter().filter_map(|choice| at(&choice.place)).collect(),
            folded: chosen.iter().map(|c| c.folded.iter().filter_map(at).map(|s| s.source).collect()).collect(),
            nearest,
            best_bm25: best,
            lessons,
        }
    }

    /// Whether something would have been answered but for the filter and the weights. Where those keep nothing out a
    /// search without them finds nothing else.
    fn would_pass_unfiltered(&self, probe: &Probe<'_>, options: &RankOptions<'_>, outside: &Outside) -> bool {
        let refused = options.filter.is_some_and(|open| open.len() < self.len());
        let excluded_outside = outside.candidates.iter().any(|candidate| candidate.weight <= 0.0);
        let weighed_out = options.weight.is_some() && options.filter.is_none();
        if options.k == 0 || !(refused || weighed_out || excluded_outside) {
            return false;
        }
        let open = RankOptions { k: 1, filter: None, weight: None, may_fold: None, ..*options };
        let candidates = outside.candidates.iter().map(|candidate| Candidate { weight: 1.0, ..*candidate }).collect();
        !self.select(probe, &open, &Outside { candidates, ..Outside::default() }).hits.is_empty()
    }
}

/// What lessons are compared with each other by.
struct Forms<'a> {
    ranker: &'a Ranker,
    space: &'a Space,
    outside: &'a Outside,
    vectors: BTreeMap<Source, Option<Vec<f32>>>,
    bags: BTreeMap<Source, Bag>,
    strangers: Strangers,
}

impl<'a> Forms<'a> {
    fn new(ranker: &'a Ranker, space: &'a Space, outside: &'a Outside) -> Self {
        let (vectors, bags, strangers) = (BTreeMap::new(), BTreeMap::new(), Strangers::default());
        Forms { ranker, space, outside, vectors, bags, strangers }
    }

    /// The vector of the text, which is the last key; a lesson without one has its task's.
    fn see(&mut self, source: Source) {
        let (space, outside) = (self.space, self.outside);
        self.vectors.entry(source).or_insert_with(|| match source {
            Source::Slot(slot) => space.dense.last_vector(slot),
            Source::External(at) => outside.vectors.get(2 * at..2 * at + 2)?.iter().flatten().next_back().cloned(),
        });
    }

    fn read(&mut self, source: Source) {
        let (ranker, outside, strangers) = (self.ranker, self.outside, &mut self.strangers);
        self.bags.entry(source).or_insert_with(|| {
            let bag = match source {
                Source::Slot(slot) => ranker.lexical.bag(slot),
                Source::External(at) => outside.counts.get(at).map(|counts| ranker.lexical.bag_of(counts, strangers)),
            };
            bag.unwrap_or_default()
        });
    }
}

impl Alike for Forms<'_> {
    fn cosine(&mut self, a: Source, b: Source) -> Option<f32> {
        self.see(a);
        self.see(b);
        let (a, b) = (self.vectors.get(&a)?.as_ref()?, self.vectors.get(&b)?.as_ref()?);
        Some(self.space.gate.spread.to_builtin(dot(a, b)))
    }

    fn overlap(&mut self, a: Source, b: Source) -> f32 {
        self.read(a);
        self.read(b);
        self.bags.get(&a).zip(self.bags.get(&b)).map_or(0.0, |(a, b)| self.ranker.lexical.overlap(a, b))
    }
}

/// What fusing has to know of the query and of those that compete.
pub(super) struct Asked {
    pub(super) embedded: bool,
    pub(super) without_cosine: Likeness,
    pub(super) is_filled_from_outside: bool,
    pub(super) mass: f32,
    pub(super) lessons: usize,
}

/// A candidate's score as one of so many lessons.
fn fuse_in(probe: &Probe<'_>, candidate: &Candidate, best: f32, lessons: usize) -> Scored {
    let asked = Asked {
        embedded: probe.vector.is_some(),
        without_cosine: probe.without_cosine,
        is_filled_from_outside: probe.space.is_filled_from_outside,
        mass: probe.mass,
        lessons,
    };
    fuse(&probe.space.gate, &asked, candidate, best)
}

/// A candidate's score, once the best BM25 is known.
pub(super) fn fuse(gate: &Gate, asked: &Asked, candidate: &Candidate, best: f32) -> Scored {
    let lexical = if best > 0.0 { candidate.bm25 / best } else { 0.0 };
    let scaled = match candidate.dense {
        Some(cosine) => gate.spread.to_builtin(cosine),
        // Its vector is still to be made: what its words cover stands in, else it could not compete at all.
        None if asked.is_filled_from_outside => candidate.coverage,
        None => 0.0,
    };
    let fused = if asked.embedded { DENSE_SHARE * scaled + LEXICAL_SHARE * lexical } else { lexical };
    let likeness = candidate.dense.map_or(asked.without_cosine, Likeness::Cosine);
    let gate = gate.read(likeness, candidate.coverage, asked.mass, asked.lessons);
    Scored {
        source: candidate.source,
        score: fused * candidate.weight,
        fused,
        weight: candidate.weight,
        dense: candidate.dense,
        lexical,
        bm25: candidate.bm25,
        coverage: candidate.coverage,
        gate,
        relevant: gate.passes(),
    }
}

/// Externals as candidates; without `vectors` they compete by their words.
fn external_candidates(
    probe: &Probe<'_>,
    externals: &[External<'_>],
    counts: &[TermCounts],
    vectors: &[Option<Vec<f32>>],
) -> Vec<Candidate> {
    let candidate = |(at, (external, counts)): (usize, (&External<'_>, &TermCounts))| {
        let matching = probe.words.matching(counts);
        Candidate {
            source: Source::External(at),
            dense: probe.vector.as_ref().and_then(|query| {
                let keys = vectors.get(2 * at..2 * at + 2).unwrap_or_default();
                keys.iter().flatten().map(|key| dot(key, query)).max_by(f32::total_cmp)
            }),
            bm25: matching.bm25,
            coverage: matching.coverage,
            weight: external.weight,
        }
    };
    externals.iter().zip(counts).enumerate().map(candidate).collect()
}

fn term_counts(externals: &[External<'_>]) -> Vec<TermCounts> {
    externals.iter().map(|external| TermCounts::new(&[external.task, external.text])).collect()
}

fn best_bm25(scores: impl Iterator<Item = f32>) -> f32 {
    scores.fold(0.0, f32::max)
}

pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

pub(super) fn better_first(a: &Scored, b: &Scored, tie: Option<&dyn Fn(Source) -> [u8; 32]>) -> Ordering {
    let by_key = || tie.map_or(Ordering::Equal, |key| key(a.source).cmp(&key(b.source)));
    b.score.total_cmp(&a.score).then_with(by_key).then(a.source.cmp(&b.source))
}
