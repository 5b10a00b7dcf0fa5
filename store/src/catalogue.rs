//! The catalogue: what recall needs of the bank, in memory: the tally of every bank, and the rank index over every lesson.
//!
//! It is a pure function of what the store holds, built at opening and kept up as records become durable. Bodies stay on
//! disk; a hit is read from there. A lesson whose text would be redacted here is kept in the set but not shown: it came
//! from a node with older rules, or from one that does not care.

mod same;
mod second;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use folklore_protocol::{
    AuthorId, BankId, Claim, Lesson, LessonId, LessonKind, LocalPolicy, Policy, Record, RecordId, Standing, State,
    Tally,
};

use crate::{
    bank::{BankInfo, Store},
    embed::{BuiltinEmbedder, EmbedError, Embedder, EmbedderIdentity},
    error::ReadError,
    learn,
    recall::{EmptyReason, External, Keys, QueryReading, RankOptions, Ranker, Scored, Source, gate::Gate},
    redact::{Classes, fires},
    run::Run,
};

use second::prepare;
pub use second::{Embedding, Unembedded};

/// An unproven lesson from a peer counts like an unproven one held here.
const OFFERED_WEIGHT: f32 = 0.95;
/// Most lessons of one author in an answer, so that no one author fills it.
const MAX_HITS_PER_AUTHOR_SET: usize = 8;
/// Where authors may be cut, so many times the hits wanted are ranked, so that others take the places.
const RANKED_PER_HIT: usize = 2;

/// The catalogue of one store. Shared between threads; readers do not wait for one another.
pub struct Catalogue {
    store: Store,
    me: AuthorId,
    embedder: EmbedderIdentity,
    /// Where vectors are kept; `None`: in memory.
    vectors: Option<PathBuf>,
    /// The embedder of the second space. Asked with no lock held: it may be slow.
    second: RwLock<Option<Arc<dyn Embedder>>>,
    inner: RwLock<Inner>,
}

struct Inner {
    ranker: Ranker,
    /// By slot of the ranker.
    entries: Vec<Entry>,
    by_id: BTreeMap<LessonId, u32>,
    shelves: BTreeMap<BankId, Shelf>,
    /// Slots that wait for their vectors in the second space, if there is one.
    waiting: Option<BTreeSet<u32>>,
}

struct Entry {
    id: LessonId,
    kind: LessonKind,
    domain: Box<str>,
    /// Which task it was learned from; see [`task_key`].
    task: u64,
    /// The redaction rule that its text breaks, if one.
    secret: Option<&'static str>,
    /// How each bank that speaks of it takes it, and the factor for its score.
    views: Vec<(BankId, State, f32)>,
}

struct Shelf {
    info: BankInfo,
    tally: Tally,
    /// Records about each lesson, by author and number.
    claims: BTreeMap<LessonId, BTreeSet<ClaimKey>>,
    /// Goes up whenever the policy in force or a revocation may have changed.
    edition: u64,
}

/// Where a record stands among those about its lesson: the first 8 bytes of its author, its number, its id.
type ClaimKey = (u64, u64, RecordId);

fn claim_key(record: &Record) -> ClaimKey {
    let author = record.author().0.first_chunk().copied().unwrap_or_default();
    (u64::from_be_bytes(author), record.seq(), record.id())
}

/// What to look for.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// How many lessons at most.
    pub k: usize,
    /// `None`: the calibrated gate decides what is shown.
    pub min_score: Option<f32>,
    /// Only this bank; `None` for all.
    pub bank: Option<BankId>,
    /// Only these kinds; empty for all.
    pub kinds: Vec<LessonKind>,
    /// Only this domain.
    pub domain: Option<String>,
    /// How much a hit's difference from those before it counts beside its score, 0 to 1.
    pub diversity: f32,
    /// Lessons learned from these tasks are left out, as an evaluation must that recalls for the very tasks the bank was
    /// filled with. A task is the whole text that an agent was given, or a lesson's `task`.
    pub exclude_tasks: Vec<String>,
    /// Lessons that are left out: a run was given them before.
    pub exclude: Vec<LessonId>,
    /// Whether to tell how each hit was scored.
    pub explain: bool,
}

/// A lesson that a peer answered with, verified.
#[derive(Debug, Clone)]
pub struct Offered {
    /// The lesson.
    pub lesson: Lesson,
    /// Who taught it, by the record that came along.
    pub author: AuthorId,
    /// Which peer sent it.
    pub peer: AuthorId,
}

/// A lesson found.
#[derive(Debug, Clone)]
pub struct Hit {
    /// The lesson.
    pub lesson: Lesson,
    /// What it was ranked by.
    pub score: f32,
    /// Cosine of the nearer key, `None` where there is no vector.
    pub dense: Option<f32>,
    /// BM25 divided by the query's best.
    pub lexical: f32,
    /// How it is taken here.
    pub state: State,
    /// What the records say of it.
    pub standing: Standing,
    /// The peer it came from; `None` for this node's own bank.
    pub peer: Option<AuthorId>,
    /// Lessons that say almost the same and are shown as this one, best first.
    pub also: Vec<LessonId>,
    /// How it was scored, if the wish asked.
    pub explained: Option<Explained>,
}

/// How a lesson was scored.
#[derive(Debug, Clone, Copy)]
pub struct Explained {
    /// Scores, weights and the gate's reading.
    pub scored: Scored,
    /// How near each of its keys is.
    pub keys: Keys,
}

/// An answer.
#[derive(Debug, Default)]
pub struct Recalled {
    /// Best first.
    pub hits: Vec<Hit>,
    /// Why there are none.
    pub reason: Option<EmptyReason>,
    /// The embedder's failure, if words alone had to answer.
    pub embedder_error: Option<EmbedError>,
    /// The second embedder's failure, if the built-in one had to answer for it.
    pub fallback: Option<EmbedError>,
    /// What was made of the query, and by which embedder.
    pub query: QueryReading,
    /// Where there are no hits: what came nearest to being one, of what may be shown, and its scores.
    pub nearest: Option<(Lesson, Explained)>,
}

/// A lesson in a list.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The lesson.
    pub lesson: Lesson,
    /// How it is taken here.
    pub state: State,
    /// What the records say of it.
    pub standing: Standing,
}

/// Why a prefix names no lesson.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// None begins so.
    #[error("no lesson here has an id that begins with {0}: 'folklore list' shows those there are")]
    None(String),
    /// More than one does.
    #[error("{1} lessons here have ids that begin with {0}: give more of it")]
    Several(String, usize),
}

impl Catalogue {
    /// Reads the whole store. `me` is this node, whose own teaching it trusts. Vectors are made anew and kept in memory.
    pub fn load(store: Store, me: AuthorId) -> Result<Self, ReadError> {
        Self::with_ranker(store, me, Ranker::new(Arc::new(BuiltinEmbedder::new()), Gate::BUILTIN), None)
    }

    /// As [`Catalogue::load`], with vectors kept on disk below `vectors`: only those that are missing there are made. The
    /// caller has that directory for itself. Where it cannot be used, vectors are kept in memory.
    pub fn open(store: Store, me: AuthorId, vectors: &Path) -> Result<Self, ReadError> {
        let embedder = Arc::new(BuiltinEmbedder::new());
        let ranker = match Ranker::open(embedder.clone(), Gate::BUILTIN, vectors) {
            Ok((ranker, notes)) => {
                for note in notes {
                    tracing::warn!("{note}; what is missing is embedded again");
                }
                ranker
            }
            Err(error) => {
                tracing::warn!(%error, "vectors are not kept on disk");
                Ranker::new(embedder, Gate::BUILTIN)
            }
        };
        Self::with_ranker(store, me, ranker, Some(vectors.to_owned()))
    }

    fn with_ranker(store: Store, me: AuthorId, ranker: Ranker, vectors: Option<PathBuf>) -> Result<Self, ReadError> {
        let embedder = ranker.identity().clone();
        let (by_id, shelves) = (BTreeMap::new(), BTreeMap::new());
        let inner = Inner { ranker, entries: Vec::new(), by_id, shelves, waiting: None };
        let catalogue = Self { store, me, embedder, vectors, second: RwLock::default(), inner: RwLock::new(inner) };
        for info in catalogue.store.banks() {
            catalogue.open_bank(info);
        }
        {
            let mut inner = catalogue.write();
            catalogue.store.for_each_lesson(|lesson| inner.add_lesson(lesson))?;
            for info in catalogue.store.banks() {
                let mut records = Vec::new();
                catalogue.store.for_each_record(&info.id, |record| records.push(record.clone()))?;
                let mut touched = BTreeSet::new();
                for record in &records {
                    touched.extend(inner.apply(record));
                }
                inner.refresh(&info.id, touched, &catalogue.me);
            }
            if let Err(error) = inner.ranker.settle() {
                tracing::warn!(%error, "vectors are not kept on disk");
            }
        }
        Ok(catalogue)
    }

    /// What the vectors are made by.
    pub fn embedder(&self) -> &EmbedderIdentity {
        &self.embedder
    }

    /// Adds an empty bank.
    pub fn open_bank(&self, info: BankInfo) {
        let shelf = Shelf { tally: Tally::new(info.owner), info, claims: BTreeMap::new(), edition: 0 };
        self.write().shelves.entry(shelf.info.id).or_insert(shelf);
    }

    /// The banks, ascending by id.
    pub fn banks(&self) -> Vec<BankInfo> {
        self.read().shelves.values().map(|s| s.info.clone()).collect()
    }

    /// Takes in records of one bank, and the bodies that came with them, once they are durable. True if the policy in force
    /// may have changed.
    pub fn learn(&self, bank: &BankId, records: &[Record], lessons: &[Lesson]) -> bool {
        let mut inner = self.write();
        for lesson in lessons {
            inner.add_lesson(lesson);
        }
        let mut touched: BTreeSet<LessonId> = lessons.iter().map(Lesson::id).collect();
        let mut ruled = false;
        for record in records {
            touched.extend(inner.apply(record));
            ruled |= inner.rules(record);
        }
        if ruled {
            if let Some(shelf) = inner.shelves.get_mut(bank) {
                shelf.edition += 1;
            }
            // A policy or a revocation may change how any lesson stands.
            touched = inner.by_id.keys().copied().collect();
        }
        inner.refresh(bank, touched, &self.me);
        ruled
    }

    /// A number that goes up whenever the policy in force in a bank, or a revocation, may have changed.
    pub fn edition(&self, bank: &BankId) -> u64 {
        self.read().shelves.get(bank).map_or(0, |s| s.edition)
    }

    /// Whether an author has said in a bank that a lesson stands, or that it does not.
    pub fn has_spoken(&self, bank: &BankId, id: &LessonId, author: &AuthorId) -> bool {
        self.read().shelves.get(bank).is_some_and(|s| s.tally.has_taught(id, author))
    }

    /// The policy in force in a bank.
    pub fn policy(&self, bank: &BankId) -> Policy {
        self.read().shelves.get(bank).map(|s| s.tally.policy()).unwrap_or_default()
    }

    /// The last seq of an author that counts in a bank, if the owner shut it out.
    pub fn revoked_after(&self, bank: &BankId, author: &AuthorId) -> Option<u64> {
        self.read().shelves.get(bank)?.tally.revoked_after(author)
    }

    /// Lessons of a bank that are held and not withdrawn.
    pub fn lesson_count(&self, bank: &BankId) -> usize {
        let live = |e: &&Entry| e.views.iter().any(|(b, state, _)| b == bank && *state != State::Withdrawn);
        self.read().entries.iter().filter(live).count()
    }

    /// Whether a bank holds a live teaching of a lesson.
    pub fn teaches(&self, bank: &BankId, id: &LessonId) -> bool {
        let inner = self.read();
        inner.shelves.get(bank).and_then(|s| s.tally.standing(id)).is_some_and(|s| !s.withdrawn)
    }

    /// The lessons nearest to a task, of this node's banks and of what peers offered, scored by one measure.
    pub fn recall(&self, query: &str, wish: &Wish, offered: &[Offered]) -> Result<Recalled, ReadError> {
        // What is held here is judged by what is known here; a peer's copy of it adds nothing.
        let offered: Vec<&Offered> = {
            let (inner, mut seen) = (self.read(), BTreeSet::new());
            let news = |o: &&Offered| !inner.by_id.contains_key(&o.lesson.id()) && !inner.is_withdrawn(&o.lesson.id());
            offered.iter().filter(news).filter(|o| seen.insert(o.lesson.id())).collect()
        };
        let texts: Vec<String> = offered.iter().map(|o| o.lesson.text()).collect();
        let second = self.answering();
        let asked = second.as_deref().map(|embedder| {
            let keys: Vec<(&str, &str)> =
                offered.iter().zip(&texts).map(|(o, text)| (o.lesson.task.as_str(), text.as_str())).collect();
            prepare(embedder, query, &keys)
        });
        let (prepared, fallback) = match asked {
            Some(Ok(prepared)) => (Some(prepared), None),
            Some(Err(error)) => (None, Some(error)),
            None => (None, None),
        };
        let inner = self.read();
        let in_scope = |bank: &BankId| wish.bank.as_ref().is_none_or(|only| only == bank);
        let excluded = excluded_tasks(&wish.exclude_tasks);
        let fits = |kind: LessonKind, domain: &str, task: &dyn Fn() -> u64| {
            (wish.kinds.is_empty() || wish.kinds.contains(&kind))
                && wish.domain.as_deref().is_none_or(|d| d == domain)
                && (excluded.is_empty() || !excluded.contains(&task()))
        };
        let weight = |slot: u32| {
            let Some(entry) = inner.entries.get(slot as usize) else { return 0.0 };
            if wish.exclude.contains(&entry.id) || !fits(entry.kind, &entry.domain, &|| entry.task) {
                return 0.0;
            }
            let views = entry.views.iter().filter(|(bank, ..)| in_scope(bank));
            views.map(|(_, _, weight)| *weight).fold(0.0, f32::max)
        };
        let externals: Vec<External<'_>> = offered
            .iter()
            .zip(&texts)
            .map(|(o, text)| {
                let wanted = !wish.exclude.contains(&o.lesson.id())
                    && fits(o.lesson.kind, &o.lesson.domain, &|| task_key(&o.lesson.task));
                // It may have come in meanwhile.
                let shown = wanted && secret_in(&o.lesson).is_none() && !inner.by_id.contains_key(&o.lesson.id());
                External { task: &o.lesson.task, text, weight: if shown { OFFERED_WEIGHT } else { 0.0 } }
            })
            .collect();
        let id_of = |source: Source| match source {
            Source::Slot(slot) => inner.entries.get(slot as usize).map(|entry| entry.id),
            Source::External(at) => offered.get(at).map(|o| o.lesson.id()),
        };
        let kind_of = |source: Source| match source {
            Source::Slot(slot) => inner.entries.get(slot as usize).map(|entry| entry.kind),
            Source::External(at) => offered.get(at).map(|o| o.lesson.kind),
        };
        // A pitfall may have the words of a strategy and say the opposite.
        let may_fold = |a: Source, b: Source| kind_of(a) == kind_of(b);
        // What may not be shown must not take a place among the candidates either.
        let open = |slot: u32| weight(slot) > 0.0;
        let k = wish.k.max(1);
        let options = RankOptions {
            k: if k > MAX_HITS_PER_AUTHOR_SET { k.saturating_mul(RANKED_PER_HIT) } else { k },
            min_score: wish.min_score,
            filter: Some(&open),
            weight: Some(&weight),
            tie: Some(&|source| id_of(source).map_or([0; 32], |id| id.0)),
            diversity: wish.diversity,
            may_fold: Some(&may_fold),
            prepared: prepared.as_ref(),
        };
        let ranked = inner.ranker.rank_with(query, &options, &externals);
        let mut by_authors: BTreeMap<Vec<AuthorId>, usize> = BTreeMap::new();
        let mut hits = Vec::new();
        for (at, scored) in ranked.hits.iter().enumerate() {
            if hits.len() == k {
                break;
            }
            let Some((lesson, state, standing, peer)) = self.found(&inner, scored.source, &offered, in_scope) else {
                continue;
            };
            let count = by_authors.entry(standing.authors.clone()).or_default();
            *count += 1;
            let only_strangers = standing.authors.binary_search(&self.me).is_err() && state == State::Unproven;
            if only_strangers && *count > MAX_HITS_PER_AUTHOR_SET {
                continue;
            }
            let also = ranked.folded.get(at).map(|folded| folded.iter().filter_map(|s| id_of(*s)).collect());
            let (score, dense, lexical) = (scored.score, scored.dense, scored.lexical);
            let explained = wish.explain.then_some(Explained { scored: *scored, keys: Keys::default() });
            let also = also.unwrap_or_default();
            hits.push(Hit { lesson, score, dense, lexical, state, standing, peer, also, explained });
        }
        let nearest = ranked.nearest.filter(|_| wish.explain).and_then(|scored| {
            let (lesson, ..) = self.found(&inner, scored.source, &offered, in_scope)?;
            Some((lesson, Explained { scored, keys: Keys::default() }))
        });
        let nothing_in_scope = externals.is_empty()
            && !inner.entries.iter().any(|e| e.views.iter().any(|(b, s, _)| in_scope(b) && *s != State::Withdrawn));
        let reason = if !hits.is_empty() {
            None
        } else if nothing_in_scope {
            Some(EmptyReason::BankEmpty)
        } else {
            ranked.reason.or(Some(EmptyReason::BelowThreshold))
        };
        let (embedder_error, reading) = (ranked.embedder_error, ranked.query);
        let mut recalled = Recalled { hits, reason, embedder_error, fallback, query: reading, nearest };
        drop(inner);
        if wish.explain {
            let lessons = recalled.explained_keys();
            let keys: Vec<(&str, &str)> = lessons.iter().map(|(task, text)| (task.as_str(), text.as_str())).collect();
            // Explained without cosines rather than not at all, should the embedder be gone by now.
            let vectors = second.filter(|_| prepared.is_some()).map(|e| prepare(&*e, query, &keys).unwrap_or_default());
            let keys = self.read().ranker.keys(query, &keys, &externals, vectors.as_ref());
            recalled.add_keys(keys);
        }
        Ok(recalled)
    }

    /// A ranked lesson with how it stands, and the peer that offered it.
    fn found(
        &self,
        inner: &Inner,
        source: Source,
        offered: &[&Offered],
        in_scope: impl Fn(&BankId) -> bool,
    ) -> Option<(Lesson, State, Standing, Option<AuthorId>)> {
        match source {
            Source::External(at) => {
                let o = offered.get(at)?;
                let standing = Standing {
                    authors: vec![o.author],
                    taught_by: 1,
                    helped: 0,
                    hurt: 0,
                    disputed: 0,
                    endorsed: 0,
                    endorsed_by_curator: false,
                    withdrawn: false,
                    evidence: Vec::new(),
                };
                Some((o.lesson.clone(), State::Unproven, standing, Some(o.peer)))
            }
            Source::Slot(slot) => {
                let entry = inner.entries.get(slot as usize)?;
                let (state, standing) = inner.best_view(entry, in_scope)?;
                Some((self.read_lesson(&entry.id)?, state, standing, None))
            }
        }
    }

    /// Records of one bank that teach the lessons nearest to a query, with the lessons: what a peer is answered with.
    pub fn search(&self, bank: &BankId, query: &str, hits: usize) -> Result<Vec<(Record, Lesson)>, ReadError> {
        let wish = Wish { k: hits, bank: Some(*bank), ..Wish::default() };
        let recalled = self.recall(query, &wish, &[])?;
        let mut out = Vec::new();
        for hit in recalled.hits {
            let id = hit.lesson.id();
            let teaches = |r: &Record| r.claim().body() == Some(id) && hit.standing.authors.contains(&r.author());
            if let Some(record) = self.claims(bank, &id)?.into_iter().rev().find(teaches) {
                out.push((record, hit.lesson));
            }
        }
        Ok(out)
    }

    /// Every record of a bank that speaks of a lesson, by author and number.
    pub fn claims(&self, bank: &BankId, id: &LessonId) -> Result<Vec<Record>, ReadError> {
        Ok(self.claims_page(bank, id, 0, usize::MAX)?.0)
    }

    /// A page of the records of a bank that speak of a lesson, by author and number, and how many there are in all.
    /// Only the page is read.
    pub fn claims_page(
        &self,
        bank: &BankId,
        id: &LessonId,
        offset: usize,
        limit: usize,
    ) -> Result<(Vec<Record>, usize), ReadError> {
        let (page, total) = {
            let inner = self.read();
            let claims = inner.shelves.get(bank).and_then(|s| s.claims.get(id));
            let page: Vec<RecordId> =
                claims.into_iter().flatten().skip(offset).take(limit).map(|(.., id)| *id).collect();
            (page, claims.map_or(0, BTreeSet::len))
        };
        let read: Result<Vec<Record>, ReadError> =
            page.iter().filter_map(|id| self.store.record(id).transpose()).collect();
        Ok((read?, total))
    }

    /// How a lesson stands: in the bank named, or else in the first one, by id, that speaks of it.
    pub fn standing(&self, id: &LessonId, bank: Option<&BankId>) -> Option<(BankId, State, Standing)> {
        let inner = self.read();
        let secret = inner.entry(id).and_then(|e| e.secret).is_some();
        inner.shelves.values().filter(|s| bank.is_none_or(|b| *b == s.info.id)).find_map(|shelf| {
            let standing = shelf.tally.standing(id)?;
            let (state, _) = shelf.tally.view(&standing, &LocalPolicy { me: self.me }, secret);
            Some((shelf.info.id, state, standing))
        })
    }

    /// The redaction rule that keeps a lesson back, if one does.
    pub fn kept_back_by(&self, id: &LessonId) -> Option<&'static str> {
        self.read().entry(id)?.secret
    }

    /// The lesson whose id is or begins with `prefix`.
    pub fn find(&self, prefix: &str) -> Result<LessonId, FindError> {
        if let Ok(id) = prefix.parse::<LessonId>() {
            return if self.read().is_spoken_of(&id) { Ok(id) } else { Err(FindError::None(prefix.into())) };
        }
        let matching: Vec<LessonId> =
            self.read().by_id.keys().filter(|id| id.to_string().starts_with(prefix)).copied().collect();
        match matching[..] {
            [] => Err(FindError::None(prefix.into())),
            [id] => Ok(id),
            _ => Err(FindError::Several(prefix.into(), matching.len())),
        }
    }

    /// Lessons by id, those withdrawn or kept back left out: a page, and how many there are in all.
    pub fn list(&self, wish: &Wish, offset: usize, limit: usize) -> Result<(Vec<Listed>, usize), ReadError> {
        let inner = self.read();
        let in_scope = |bank: &BankId| wish.bank.as_ref().is_none_or(|only| only == bank);
        let matching: Vec<&Entry> = inner
            .by_id
            .values()
            .map(|slot| &inner.entries[*slot as usize])
            .filter(|e| wish.kinds.is_empty() || wish.kinds.contains(&e.kind))
            .filter(|e| wish.domain.as_deref().is_none_or(|d| d == &*e.domain))
            .filter(|e| e.views.iter().any(|(b, s, _)| in_scope(b) && !is_hidden(*s)))
            .collect();
        let mut page = Vec::new();
        for entry in matching.iter().skip(offset).take(limit) {
            let Some((state, standing)) = inner.best_view(entry, in_scope) else { continue };
            if let Some(lesson) = self.read_lesson(&entry.id) {
                page.push(Listed { lesson, state, standing });
            }
        }
        Ok((page, matching.len()))
    }

    /// A body from disk. Damage there takes one lesson out of an answer, not the answer.
    fn read_lesson(&self, id: &LessonId) -> Option<Lesson> {
        self.store.lesson(id).unwrap_or_else(|error| {
            tracing::error!(%error, lesson = %id, "a lesson could not be read");
            None
        })
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        // A panic while writing leaves at worst a lesson that is not indexed; better served than refused.
        self.inner.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Inner {
    fn entry(&self, id: &LessonId) -> Option<&Entry> {
        self.by_id.get(id).and_then(|slot| self.entries.get(*slot as usize))
    }

    fn is_spoken_of(&self, id: &LessonId) -> bool {
        self.by_id.contains_key(id) || self.shelves.values().any(|s| s.claims.contains_key(id))
    }

    fn is_withdrawn(&self, id: &LessonId) -> bool {
        self.shelves.values().any(|s| s.tally.standing(id).is_some_and(|s| s.withdrawn))
    }

    fn add_lesson(&mut self, lesson: &Lesson) {
        if self.by_id.contains_key(&lesson.id()) {
            return;
        }
        let Ok(slot) = u32::try_from(self.entries.len()) else { return };
        // The built-in embedder cannot fail; one that does leaves the lesson to be found by its words.
        if let Err(error) = self.ranker.add_lesson(slot, &lesson.id().0, &lesson.task, &lesson.text()) {
            tracing::warn!(%error, lesson = %lesson.id(), "a lesson is indexed by its words only");
        }
        self.by_id.insert(lesson.id(), slot);
        let secret = secret_in(lesson);
        if let Some(waiting) = self.waiting.as_mut().filter(|_| secret.is_none()) {
            waiting.insert(slot);
        }
        self.entries.push(Entry {
            id: lesson.id(),
            kind: lesson.kind,
            domain: lesson.domain.as_str().into(),
            task: task_key(&lesson.task),
            secret,
            views: Vec::new(),
        });
    }

    /// Folds a record in; the lesson it is about, or `None` for one about the bank.
    fn apply(&mut self, record: &Record) -> Option<LessonId> {
        let shelf = self.shelves.get_mut(&record.bank())?;
        shelf.tally.apply(record);
        let about = record.claim().lesson_id()?;
        shelf.claims.entry(about).or_default().insert(claim_key(record));
        Some(about)
    }

    /// Whether a record sets the policy or revokes an author: only the owner's do.
    fn rules(&self, record: &Record) -> bool {
        let is_ruling = matches!(record.claim(), Claim::Policy(_) | Claim::Revoked { .. });
        is_ruling && self.shelves.get(&record.bank()).is_some_and(|s| s.info.owner == record.author())
    }

    fn refresh(&mut self, bank: &BankId, lessons: BTreeSet<LessonId>, me: &AuthorId) {
        let Some(shelf) = self.shelves.get(bank) else { return };
        for id in lessons {
            let Some(slot) = self.by_id.get(&id) else { continue };
            let entry = &mut self.entries[*slot as usize];
            entry.views.retain(|(b, ..)| b != bank);
            if let Some(standing) = shelf.tally.standing(&id) {
                let (state, weight) = shelf.tally.view(&standing, &LocalPolicy { me: *me }, entry.secret.is_some());
                entry.views.push((*bank, state, weight));
            }
        }
    }

    /// State and standing in the bank that takes it best.
    fn best_view(&self, entry: &Entry, in_scope: impl Fn(&BankId) -> bool) -> Option<(State, Standing)> {
        let views = entry.views.iter().filter(|(bank, ..)| in_scope(bank));
        let (bank, state, _) = views.max_by(|a, b| a.2.total_cmp(&b.2))?;
        let standing = self.shelves.get(bank)?.tally.standing(&entry.id)?;
        Some((*state, standing))
    }
}

impl Recalled {
    /// Task and text of each lesson that is explained, hits first.
    fn explained_keys(&self) -> Vec<(String, String)> {
        let explained = self.hits.iter().filter(|hit| hit.explained.is_some()).map(|hit| &hit.lesson);
        let all = explained.chain(self.nearest.iter().map(|(lesson, _)| lesson));
        all.map(|lesson| (lesson.task.clone(), lesson.text())).collect()
    }

    /// How near each key of what is explained is, in the order of [`Recalled::explained_keys`].
    fn add_keys(&mut self, keys: Vec<Keys>) {
        let hits = self.hits.iter_mut().filter_map(|hit| hit.explained.as_mut());
        let nearest = self.nearest.iter_mut().map(|(_, explained)| explained);
        for (explained, keys) in hits.chain(nearest).zip(keys) {
            explained.keys = keys;
        }
    }
}

/// A number for a task, the same for texts that differ in letter case and white space only.
fn task_key(task: &str) -> u64 {
    let plain = task.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    let hash = blake3::hash(plain.as_bytes());
    u64::from_le_bytes(hash.as_bytes().first_chunk().copied().unwrap_or_default())
}

/// The keys that lessons of these tasks have: under the task itself, and under the general terms that learning puts it in.
fn excluded_tasks(tasks: &[String]) -> BTreeSet<u64> {
    let general = |task: &String| learn::task::general(&Run { task: task.clone(), ..Run::default() });
    tasks.iter().flat_map(|task| [task_key(task), task_key(&general(task))]).collect()
}

/// Whether a lesson in this state is shown nowhere.
fn is_hidden(state: State) -> bool {
    matches!(state, State::Withdrawn | State::Quarantined)
}

/// The first redaction rule that any text of a lesson breaks.
pub fn secret_in(lesson: &Lesson) -> Option<&'static str> {
    let f = lesson.fields();
    let texts = [&f.title, &f.applies_when, &f.not_when, &f.content, &f.task, &f.domain];
    texts.into_iter().chain(&f.tags).find_map(|text| fires(text, Classes::CREDENTIAL))
}
