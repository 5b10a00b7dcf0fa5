//! The catalogue: what recall needs of the bank, in memory: the tally of every bank, and the rank index over every lesson.
//!
//! It is a pure function of what the store holds, kept up as records become durable. Where a directory is given, most of
//! it lies in a [file](stored) that is mapped at the next opening, and only what came later is read from the store. Bodies stay on
//! disk; a hit is read from there, and so are the records about it that came before this opening. A lesson whose text would
//! be redacted here is kept in the set but not shown: it came from a node with older rules, or from one that does not care.

mod said;
mod same;
mod second;
mod shelf;
pub(crate) mod stored;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashSet},
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use folklore_protocol::{AuthorId, BankId, Lesson, LessonId, LessonKind, Policy, Record, RecordId, Standing, State};

use crate::{
    bank::{BankInfo, Store},
    embed::{BuiltinEmbedder, EmbedError, Embedder, EmbedderIdentity},
    error::ReadError,
    index::{SlotSet, lexical::Corpus},
    learn,
    recall::{
        self, EmptyReason, External, Keys, QueryReading, RankOptions, Ranked, Ranker, Scored, Source, TASK_KINDS,
        beside, gate::Gate,
    },
    redact::{Classes, fires},
    run::Run,
    sections::Writer,
};

use second::prepare;
pub use second::{Embedding, Unembedded};
use shelf::{Entry, Inner, View};
use stored::Read;

/// An unproven lesson from a peer counts like an unproven one held here.
const OFFERED_WEIGHT: f32 = 0.95;
/// Most lessons of one author in an answer, so that no one author fills it.
const MAX_HITS_PER_AUTHOR_SET: usize = 8;
/// Where authors may be cut, so many times the hits wanted are ranked, so that others take the places.
const RANKED_PER_HIT: usize = 2;
/// The name of the catalogue's file, in the directory of the vectors.
const FILE: &str = "catalogue";
/// Lessons and records that are not in the file when a catalogue is closed, up to which it is not written anew: reading them takes
/// a tenth of a second.
const UNSAVED_MAX: usize = 2_000;
/// While a catalogue is open its file is written anew when half as much as it has is not in it, and at least this: so each lesson
/// is written three times or so however many there come to be.
const UNSAVED_OPEN_MIN: usize = 32_000;

/// The catalogue of one store. Shared between threads; readers do not wait for one another.
pub struct Catalogue {
    store: Store,
    me: AuthorId,
    embedder: EmbedderIdentity,
    /// Where vectors are kept, and the catalogue's file; `None`: in memory.
    vectors: Option<PathBuf>,
    /// The embedder of the second space. Asked with no lock held: it may be slow.
    second: RwLock<Option<Arc<dyn Embedder>>>,
    inner: RwLock<Inner>,
    /// Held by who writes the file.
    saving: Mutex<()>,
    /// Held by who opens a space of vectors, or erases vectors in all of them. Taken before `inner`.
    spaces: Mutex<()>,
    /// What the file lacked when it was last written.
    unsaved_then: AtomicUsize,
    opening: Opening,
}

/// A catalogue's files, opened before the bank is.
pub struct Preparation {
    vectors: PathBuf,
    ranker: Ranker,
    /// What the catalogue's file says, and its slots that have no vectors.
    read: Option<(Vec<u32>, Read)>,
    opening: Opening,
}

/// What opening a catalogue took.
#[derive(Debug, Clone, Copy, Default)]
pub struct Opening {
    /// Whether most of it came out of the file.
    pub from_file: bool,
    /// Opening the vectors, and reading the file.
    pub file: Duration,
    /// Giving lessons of the file their vectors.
    pub vectors: Duration,
    /// Reading lessons and records that the file lacks.
    pub later: Duration,
    /// Putting new vectors on disk.
    pub settling: Duration,
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

/// Where traces of lessons that were forgotten may still be, in words. Nothing of them is found any more.
#[derive(Debug, Clone, Default, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.lines().join("; "))]
pub struct TracesLeft {
    /// Spaces of vectors that could not be written, and why.
    vectors: Vec<String>,
    /// Why the catalogue's file could neither be written anew nor removed.
    words: Option<String>,
}

impl TracesLeft {
    /// Each place with the reason.
    pub fn lines(&self) -> Vec<String> {
        let vectors = self.vectors.iter().map(|why| format!("vectors of it may still be on disk: {why}"));
        let words = self.words.iter().map(|why| {
            format!("the catalogue's file could not be written anew ({why}): it may still have words of it")
        });
        vectors.chain(words).collect()
    }
}

impl Catalogue {
    /// Reads the whole store. `me` is this node, whose own teaching it trusts. Vectors are made anew and kept in memory.
    pub fn load(store: Store, me: AuthorId) -> Result<Self, ReadError> {
        Self::with_ranker(store, me, Self::ranker_in_memory(), None, None, Opening::default())
    }

    fn ranker_in_memory() -> Ranker {
        Ranker::new(Arc::new(BuiltinEmbedder::new()), Gate::BUILTIN)
    }

    /// As [`Catalogue::load`], with vectors kept on disk below `vectors`, and the catalogue's own file: only what is missing there is
    /// made and read. The caller has that directory for itself. Where it cannot be used, all is kept in memory.
    pub fn open(store: Store, me: AuthorId, vectors: &Path) -> Result<Self, ReadError> {
        Self::open_prepared(store, me, Self::prepare(me, vectors))
    }

    /// The part of [`Catalogue::open`] that needs no bank, so that it can be done while the bank is being opened.
    pub fn prepare(me: AuthorId, vectors: &Path) -> Preparation {
        let begin = Instant::now();
        let mut ranker = open_ranker(vectors);
        let read = Read::open(&vectors.join(FILE), &me).unwrap_or_else(|error| {
            tracing::warn!(%error, "the catalogue's file cannot be read; every lesson is read instead");
            None
        });
        let mut opening = Opening { file: begin.elapsed(), ..Opening::default() };
        let begin = Instant::now();
        let read = read.map(|read| (read.claim_vectors(&mut ranker), read));
        opening.vectors = begin.elapsed();
        Preparation { vectors: vectors.to_owned(), ranker, read, opening }
    }

    /// The other part of [`Catalogue::open`].
    pub fn open_prepared(store: Store, me: AuthorId, prepared: Preparation) -> Result<Self, ReadError> {
        let Preparation { vectors, ranker, read, opening } = prepared;
        Self::with_ranker(store, me, ranker, Some(vectors), read, opening)
    }

    fn with_ranker(
        store: Store,
        me: AuthorId,
        ranker: Ranker,
        vectors: Option<PathBuf>,
        read: Option<(Vec<u32>, Read)>,
        mut opening: Opening,
    ) -> Result<Self, ReadError> {
        let mut begin = Instant::now();
        let mut lap = || std::mem::replace(&mut begin, Instant::now()).elapsed();
        let embedder = ranker.identity().clone();
        let mut inner = Inner::new(ranker);
        for info in store.banks() {
            inner.open_bank(info);
        }
        let mut first = 0;
        if let Some((without_vectors, read)) = read {
            match inner.take_in(read, &store) {
                Some(below) => {
                    (first, opening.from_file) = (below, true);
                    for slot in without_vectors {
                        inner.embed(&store, slot);
                    }
                }
                // Its lessons claimed vectors under their slots.
                None => inner.ranker = vectors.as_deref().map_or_else(Self::ranker_in_memory, open_ranker),
            }
        }
        opening.file += lap();
        let mut bodies = BTreeSet::new();
        store.for_each_lesson_from(first, |lesson| {
            // What records say of it may all be in the file.
            if inner.add_lesson(lesson) && first > 0 {
                bodies.insert(lesson.id());
            }
        })?;
        for info in store.banks() {
            let (mut touched, mut ruled) = (bodies.clone(), false);
            store.for_each_record_from(&info.id, first, |record| {
                touched.extend(inner.apply(&store, record));
                ruled |= inner.rules(record);
            })?;
            if ruled && first > 0 {
                touched = inner.read_all_claims(&store, &info.id);
            }
            inner.refresh(&store, &info.id, touched, &me);
        }
        opening.later = lap();
        if let Err(error) = inner.ranker.settle() {
            tracing::warn!(%error, "vectors are not kept on disk");
        }
        opening.settling = lap();
        let catalogue = Self {
            store,
            me,
            embedder,
            vectors,
            second: RwLock::default(),
            inner: RwLock::new(inner),
            saving: Mutex::default(),
            spaces: Mutex::default(),
            unsaved_then: AtomicUsize::new(0),
            opening,
        };
        // One that is in memory has no files to look through, and whoever has may still owe it.
        if catalogue.vectors.is_some()
            && catalogue.store.traces_owed().is_some()
            && let Err(error) = catalogue.forget(&[])
        {
            tracing::warn!(%error, "traces of lessons that were forgotten are still on disk; the next start tries again");
        }
        catalogue.save_if_far_behind();
        Ok(catalogue)
    }

    /// What opening took.
    pub fn opening(&self) -> Opening {
        self.opening
    }

    /// Writes what the next opening would otherwise read out of every lesson to a file; where vectors are kept in memory there is
    /// none. A catalogue that is dropped does it by itself, and one that learns much, now and then.
    ///
    /// While it is put together recall goes on and what is learned waits; once something waits so, recall does too. Nobody waits
    /// for its syncs, which take most of the time on a slow disk.
    ///
    /// # Errors
    /// When the file system refuses. The file before is as it was.
    pub fn save(&self) -> std::io::Result<()> {
        let Some(dir) = &self.vectors else { return Ok(()) };
        let _one = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, unsaved) = self.put_together(dir)?;
        file.finish()?;
        self.unsaved_then.store(unsaved, Ordering::Relaxed);
        Ok(())
    }

    /// The file up to its end, and what it lacks. The syncs at its end are done with no lock held.
    fn put_together(&self, dir: &Path) -> std::io::Result<(Writer, usize)> {
        let inner = self.read();
        Ok((inner.write(&dir.join(FILE), &self.store, &self.me)?, inner.unsaved()))
    }

    /// What the file lacks: lessons and records.
    fn unsaved(&self) -> usize {
        self.read().unsaved().saturating_sub(self.unsaved_then.load(Ordering::Relaxed))
    }

    fn save_if_far_behind(&self) {
        let known = self.read().known_about();
        if self.vectors.is_some() && self.unsaved() > UNSAVED_OPEN_MIN.max(known / 3) {
            self.save_or_warn();
        }
    }

    /// Writes the file, if without it the next opening would take much longer. To be called when there is nothing more to learn.
    pub fn close(&self) {
        if self.vectors.is_some() && self.unsaved() > UNSAVED_MAX {
            self.save_or_warn();
        }
    }

    fn save_or_warn(&self) {
        if let Err(error) = self.save() {
            tracing::warn!(%error, "the catalogue's file was not written; the next opening takes longer");
        }
    }

    /// What the vectors are made by.
    pub fn embedder(&self) -> &EmbedderIdentity {
        &self.embedder
    }

    /// Adds an empty bank.
    pub fn open_bank(&self, info: BankInfo) {
        self.write().open_bank(info);
    }

    /// The banks, ascending by id.
    pub fn banks(&self) -> Vec<BankInfo> {
        self.read().banks().map(|(_, shelf)| shelf.info.clone()).collect()
    }

    /// Takes in records of one bank, and the bodies that came with them, once they are durable. True if the policy in force
    /// may have changed.
    pub fn learn(&self, bank: &BankId, records: &[Record], lessons: &[Lesson]) -> bool {
        let mut inner = self.write();
        // What was forgotten is not stored either, whoever sends it.
        let taken = lessons.iter().filter(|lesson| !self.store.is_forgotten(&lesson.id()));
        let new: BTreeSet<LessonId> = taken.filter(|lesson| inner.add_lesson(lesson)).map(Lesson::id).collect();
        let mut touched: BTreeSet<LessonId> = lessons.iter().map(Lesson::id).collect();
        let mut ruled = false;
        for record in records {
            touched.extend(inner.apply(&self.store, record));
            ruled |= inner.rules(record);
        }
        if ruled {
            let number = inner.number(bank);
            if let Some(shelf) = number.and_then(|number| inner.shelves.get_mut(usize::from(number))) {
                shelf.edition += 1;
            }
            touched = inner.read_all_claims(&self.store, bank);
        }
        inner.refresh(&self.store, bank, touched, &self.me);
        // A text is one for all banks: others may have waited for it too.
        if !new.is_empty() {
            let others: Vec<BankId> = inner.banks().map(|(_, s)| s.info.id).filter(|other| other != bank).collect();
            others.iter().for_each(|other| inner.refresh(&self.store, other, new.clone(), &self.me));
        }
        drop(inner);
        self.save_if_far_behind();
        ruled
    }

    /// Takes forgotten lessons out of everything: they are shown nowhere, their vectors are overwritten, those of embedders that
    /// are not in use too, and their words are in no file. What records say of them stays. To be called once the store has
    /// forgotten them. What an earlier call did not come to, because the process ended, is done too; opening does that as well.
    ///
    /// # Errors
    /// Where traces of them may still be. All that could be done is done; it is tried again at the next opening.
    pub fn forget(&self, lessons: &[LessonId]) -> Result<(), TracesLeft> {
        let _alone = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
        let owed = self.store.traces_owed();
        let mut left = TracesLeft::default();
        let mut inner = self.write();
        // Asked under the lock: what is taught again meanwhile is taken in after this, and is not to go.
        let forgotten = self.store.forgotten();
        lessons.iter().filter(|id| forgotten.contains(id)).for_each(|id| {
            inner.forget(id);
        });
        let ids: HashSet<[u8; 32]> = forgotten.into_iter().map(|id| id.0).collect();
        left.vectors.extend(inner.ranker.erase(&ids).err().map(|error| error.to_string()));
        let open: Vec<EmbedderIdentity> = inner.ranker.spaces_on_disk().cloned().collect();
        drop(inner);
        if let Some(vectors) = &self.vectors {
            left.vectors.extend(recall::erase_elsewhere(vectors, &open, &ids));
            if let Err(error) = self.save() {
                tracing::warn!(%error, "the catalogue's file was not written and is removed, since it has words of lessons forgotten");
                let removed = std::fs::remove_file(vectors.join(FILE));
                left.words = removed.err().filter(|e| e.kind() != ErrorKind::NotFound).map(|_| error.to_string());
            }
        }
        if !left.vectors.is_empty() || left.words.is_some() {
            return Err(left);
        }
        if let Some(owed) = owed.filter(|_| self.vectors.is_some()) {
            self.store.traces_gone(owed);
        }
        Ok(())
    }

    /// Whether the text of a lesson is here.
    pub fn holds(&self, id: &LessonId) -> bool {
        self.read().slot(id).is_some()
    }

    /// A number that goes up whenever the policy in force in a bank, or a revocation, may have changed.
    pub fn edition(&self, bank: &BankId) -> u64 {
        self.read().shelf(bank).map_or(0, |s| s.edition)
    }

    /// Whether an author has said in a bank that a lesson stands, or that it does not.
    pub fn has_spoken(&self, bank: &BankId, id: &LessonId, author: &AuthorId) -> bool {
        let inner = self.read();
        inner.number(bank).is_some_and(|number| inner.has_spoken(&self.store, number, id, author))
    }

    /// The policy in force in a bank.
    pub fn policy(&self, bank: &BankId) -> Policy {
        self.read().shelf(bank).map(|s| s.tally.policy()).unwrap_or_default()
    }

    /// The last seq of an author that counts in a bank, if the owner shut it out.
    pub fn revoked_after(&self, bank: &BankId, author: &AuthorId) -> Option<u64> {
        self.read().shelf(bank)?.tally.revoked_after(author)
    }

    /// Lessons of a bank that are held and not withdrawn.
    pub fn lesson_count(&self, bank: &BankId) -> usize {
        let inner = self.read();
        let Some(number) = inner.number(bank) else { return 0 };
        let live = |e: &&Entry| e.views().any(|view| view.shelf == number && view.state != State::Withdrawn);
        inner.entries.iter().filter(live).count()
    }

    /// Whether a bank holds a live teaching of a lesson.
    pub fn teaches(&self, bank: &BankId, id: &LessonId) -> bool {
        let inner = self.read();
        inner.number(bank).and_then(|number| inner.is_withdrawn_in(&self.store, number, id)) == Some(false)
    }

    /// The lessons nearest to a task, of this node's banks and of what peers offered, scored by one measure.
    pub fn recall(&self, query: &str, wish: &Wish, offered: &[Offered]) -> Result<Recalled, ReadError> {
        // What is held here is judged by what is known here; a peer's copy of it adds nothing.
        let offered: Vec<&Offered> = {
            let (inner, mut seen) = (self.read(), BTreeSet::new());
            let news = |o: &&Offered| {
                let id = o.lesson.id();
                inner.slot(&id).is_none() && !inner.is_withdrawn(&self.store, &id) && !self.store.is_forgotten(&id)
            };
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
        // A bank that is not here has no number and no lessons.
        let only = wish.bank.as_ref().map(|bank| inner.number(bank).unwrap_or(u16::MAX));
        let excluded = excluded_tasks(&wish.exclude_tasks);
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
        let k = wish.k.max(1);
        let most = if k > MAX_HITS_PER_AUTHOR_SET { k.saturating_mul(RANKED_PER_HIT) } else { k };
        let rank = |wish: &Wish, corpus: Corpus<'_>| {
            let fits = |lesson: &Lesson| {
                (wish.kinds.is_empty() || wish.kinds.contains(&lesson.kind))
                    && wish.domain.as_deref().is_none_or(|d| d == lesson.domain.as_str())
                    && (excluded.is_empty() || !excluded.contains(&task_key(&lesson.task)))
                    && !wish.exclude.contains(&lesson.id())
            };
            // What may not be shown must not take a place among the candidates either.
            let open: Cow<'_, SlotSet> = inner.open(wish, &excluded);
            let weight = |slot: u32| {
                let Some(entry) = inner.entries.get(slot as usize).filter(|_| open.contains(slot)) else { return 0.0 };
                let views = entry.views().filter(|view| only.is_none_or(|only| only == view.shelf));
                views.map(|view| view.weight).fold(0.0, f32::max)
            };
            let externals: Vec<External<'_>> = offered
                .iter()
                .zip(&texts)
                .map(|(o, text)| {
                    // It may have come in meanwhile.
                    let shown =
                        fits(&o.lesson) && secret_in(&o.lesson).is_none() && inner.slot(&o.lesson.id()).is_none();
                    External { task: &o.lesson.task, text, weight: if shown { OFFERED_WEIGHT } else { 0.0 } }
                })
                .collect();
            let options = RankOptions {
                k: most,
                min_score: wish.min_score,
                // Where everything is open there is nothing to look up.
                filter: (open.len() < inner.ranker.len()).then_some(&*open),
                corpus,
                weight: Some(&weight),
                tie: Some(&|source| id_of(source).map_or([0; 32], |id| id.0)),
                diversity: wish.diversity,
                may_fold: Some(&may_fold),
                prepared: prepared.as_ref(),
            };
            inner.ranker.rank_with(query, &options, &externals)
        };
        // Procedures answer the subquestion that a run is on, and there may be thousands of them: they do not compete with
        // what was learned about whole tasks for the same places and against the same bars.
        let offers_any = offered.iter().any(|o| o.lesson.kind == LessonKind::Procedure);
        let ranked = if inner.has(LessonKind::Procedure) || offers_any {
            let (tasks, steps) = (inner.of_kinds(TASK_KINDS), inner.of_kinds(&[LessonKind::Procedure]));
            // Counted are the fewer.
            let (of_tasks, of_steps) = if tasks.len() < steps.len() {
                (Corpus::Only(&tasks), Corpus::Without(&tasks))
            } else {
                (Corpus::Without(&steps), Corpus::Only(&steps))
            };
            let of = |kinds: &[LessonKind], corpus| rank(&Wish { kinds: kinds.to_vec(), ..wish.clone() }, corpus);
            if wish.kinds.is_empty() {
                let (lessons, procedures) = (of(TASK_KINDS, of_tasks), of(&[LessonKind::Procedure], of_steps));
                let both = beside(lessons, procedures, most, wish.min_score.is_none());
                // Each side left the other out, which is no filter that the caller set.
                let whole = |_| rank(wish, Corpus::All).reason.unwrap_or(EmptyReason::BelowThreshold);
                Ranked { reason: both.reason.map(whole), ..both }
            } else if wish.kinds.iter().all(|kind| TASK_KINDS.contains(kind)) {
                rank(wish, of_tasks)
            } else if wish.kinds.iter().all(|kind| *kind == LessonKind::Procedure) {
                rank(wish, of_steps)
            } else {
                rank(wish, Corpus::All)
            }
        } else {
            rank(wish, Corpus::All)
        };
        let mut by_authors: BTreeMap<Vec<AuthorId>, usize> = BTreeMap::new();
        let mut hits = Vec::new();
        for (at, scored) in ranked.hits.iter().enumerate() {
            if hits.len() == k {
                break;
            }
            let Some((lesson, state, standing, peer)) = self.found(&inner, scored.source, &offered, only) else {
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
            let (lesson, ..) = self.found(&inner, scored.source, &offered, only)?;
            Some((lesson, Explained { scored, keys: Keys::default() }))
        });
        // Looks through all of them where all are withdrawn, so only an empty answer asks.
        let nothing_in_scope = || {
            let live =
                |e: &Entry| e.views().any(|v| only.is_none_or(|only| only == v.shelf) && v.state != State::Withdrawn);
            offered.is_empty() && !inner.entries.iter().any(live)
        };
        let reason = if !hits.is_empty() {
            None
        } else if nothing_in_scope() {
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
            let externals: Vec<External<'_>> = offered
                .iter()
                .zip(&texts)
                .map(|(o, text)| External { task: &o.lesson.task, text, weight: OFFERED_WEIGHT })
                .collect();
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
        only: Option<u16>,
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
                let (state, standing) = inner.best_view(&self.store, entry, only)?;
                Some((self.read_lesson(&entry.id)?, state, standing, None))
            }
        }
    }

    /// Records of one bank that teach the lessons nearest to a query, with the lessons: what a peer is answered with.
    ///
    /// Who asks does not say whether for a whole task or for a step of one, so procedures and the rest take turns.
    pub fn search(&self, bank: &BankId, query: &str, hits: usize) -> Result<Vec<(Record, Lesson)>, ReadError> {
        let of = |kinds: &[LessonKind]| {
            let wish = Wish { k: hits, bank: Some(*bank), kinds: kinds.to_vec(), ..Wish::default() };
            Ok::<_, ReadError>(self.recall(query, &wish, &[])?.hits.into_iter())
        };
        let (mut lessons, mut procedures) = (of(TASK_KINDS)?, of(&[LessonKind::Procedure])?);
        let turns = std::iter::from_fn(|| {
            let pair = [lessons.next(), procedures.next()];
            pair.iter().any(Option::is_some).then_some(pair)
        });
        let mut out = Vec::new();
        for hit in turns.flatten().flatten().take(hits) {
            let teaching = {
                let inner = self.read();
                inner.number(bank).and_then(|number| inner.said(&self.store, number, &hit.lesson.id()).teaching)
            };
            match teaching.map_or(Ok(None), |id| self.store.record(&id)) {
                Ok(record) => out.extend(record.map(|record| (record, hit.lesson))),
                Err(error) => tracing::error!(%error, "a record that teaches a lesson could not be read"),
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
            let claims = inner.number(bank).map(|number| inner.claims_of(number, id)).unwrap_or_default();
            let page: Vec<RecordId> = claims.iter().skip(offset).take(limit).map(|(.., id)| *id).collect();
            (page, claims.len())
        };
        let read: Result<Vec<Record>, ReadError> =
            page.iter().filter_map(|id| self.store.record(id).transpose()).collect();
        Ok((read?, total))
    }

    /// How a lesson stands: in the bank named, or else in the first one, by id, that speaks of it.
    pub fn standing(&self, id: &LessonId, bank: Option<&BankId>) -> Option<(BankId, State, Standing)> {
        let inner = self.read();
        inner.banks().filter(|(_, s)| bank.is_none_or(|b| *b == s.info.id)).find_map(|(number, shelf)| {
            let (state, standing) = inner.taken(&self.store, number, id, &self.me)?;
            Some((shelf.info.id, state, standing))
        })
    }

    /// The redaction rule that keeps a lesson back, if one does.
    pub fn kept_back_by(&self, id: &LessonId) -> Option<&'static str> {
        let inner = self.read();
        inner.entry(id).and_then(|entry| inner.secret(entry))
    }

    /// The lesson whose id is or begins with `prefix`.
    pub fn find(&self, prefix: &str) -> Result<LessonId, FindError> {
        if let Ok(id) = prefix.parse::<LessonId>() {
            return if self.read().is_spoken_of(&id) { Ok(id) } else { Err(FindError::None(prefix.into())) };
        }
        let matching: Vec<LessonId> = {
            let inner = self.read();
            let ids =
                inner.by_id.ascending(&inner.entries).filter_map(|slot| Some(inner.entries.get(slot as usize)?.id));
            ids.filter(|id| id.to_string().starts_with(prefix)).collect()
        };
        match matching[..] {
            [] => Err(FindError::None(prefix.into())),
            [id] => Ok(id),
            _ => Err(FindError::Several(prefix.into(), matching.len())),
        }
    }

    /// Lessons by id, those withdrawn or kept back left out: a page, and how many there are in all.
    pub fn list(&self, wish: &Wish, offset: usize, limit: usize) -> Result<(Vec<Listed>, usize), ReadError> {
        let inner = self.read();
        let only = wish.bank.as_ref().map(|bank| inner.number(bank).unwrap_or(u16::MAX));
        let in_scope = |view: &View| only.is_none_or(|only| only == view.shelf) && !is_hidden(view.state);
        let matching: Vec<&Entry> = inner
            .by_id
            .ascending(&inner.entries)
            .filter_map(|slot| inner.entries.get(slot as usize))
            .filter(|e| wish.kinds.is_empty() || wish.kinds.contains(&e.kind))
            .filter(|e| wish.domain.as_deref().is_none_or(|d| d == inner.domain(e)))
            .filter(|e| e.views().any(in_scope))
            .collect();
        let mut page = Vec::new();
        for entry in matching.iter().skip(offset).take(limit) {
            let Some((state, standing)) = inner.best_view(&self.store, entry, only) else { continue };
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

impl Drop for Catalogue {
    fn drop(&mut self) {
        self.close();
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

/// The rank index with its vectors below a directory, or in memory where that cannot be used.
fn open_ranker(vectors: &Path) -> Ranker {
    let embedder = Arc::new(BuiltinEmbedder::new());
    match Ranker::open(embedder, Gate::BUILTIN, vectors) {
        Ok((ranker, notes)) => {
            for note in notes {
                tracing::warn!("{note}; what is missing is embedded again");
            }
            ranker
        }
        Err(error) => {
            tracing::warn!(%error, "vectors are not kept on disk");
            Catalogue::ranker_in_memory()
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

#[cfg(test)]
mod tests;
