//! What agents can recall: which lessons the records of a memory teach, and how the store ranks them for a task.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use folklore_protocol::{AuthorId, Claim, Lesson, LessonId, LocalPolicy, Record, Tally};
use folklore_store::{
    embed::{BuiltinEmbedder, Embedder},
    recall::{SharedRanker, Source, gate::Gate},
};

use super::RunError;
use crate::library::{Library, Number, Numbers};

/// A lesson that stands in the ranker.
#[derive(Debug)]
struct Slot {
    id: LessonId,
    /// What it warns of, and whether it is meant to mislead; none of the families.
    about: Option<(u32, bool)>,
    teachings: Vec<Number>,
    /// Claims on it other than that it was taught.
    claims: Vec<Number>,
}

/// What is known of a record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// The lesson it is about.
    pub(super) slot: Option<u32>,
    pub(super) taught: bool,
    pub(super) withdraws: bool,
    /// Its number in what is observed, once it has one.
    pub(super) observed: Option<u64>,
}

/// A lesson that recall shows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown {
    pub(super) about: Option<(u32, bool)>,
    /// A record of that memory which teaches it.
    pub(super) record: Number,
    pub(super) slot: u32,
}

/// Every record of a run, as what agents can make of it.
pub(super) struct Memory {
    owner: AuthorId,
    ranker: SharedRanker,
    entries: Vec<Entry>,
    slots: Vec<Slot>,
    by_lesson: BTreeMap<LessonId, u32>,
    about: BTreeMap<LessonId, (u32, bool)>,
    observed: u64,
    /// What a single stranger's teaching weighs.
    stranger_weight: f32,
    /// The last recall that met each slot, so that nothing need be cleared.
    met: Vec<Met>,
    recalls: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Met {
    taught_at: u32,
    own_at: u32,
    claimed_at: u32,
    record: Number,
}

fn embedder() -> Arc<dyn Embedder> {
    static EMBEDDER: OnceLock<Arc<BuiltinEmbedder>> = OnceLock::new();
    EMBEDDER.get_or_init(|| Arc::new(BuiltinEmbedder::new())).clone()
}

impl Memory {
    pub(super) fn new(owner: AuthorId) -> Self {
        Self {
            owner,
            ranker: SharedRanker::new(embedder(), Gate::BUILTIN),
            entries: Vec::new(),
            slots: Vec::new(),
            by_lesson: BTreeMap::new(),
            about: BTreeMap::new(),
            observed: 0,
            stranger_weight: 1.0,
            met: Vec::new(),
            recalls: 0,
        }
    }

    /// Says what a lesson is about before it is taught.
    pub(super) fn declare(&mut self, lesson: &LessonId, family: u32, poison: bool) {
        self.about.insert(*lesson, (family, poison));
    }

    /// What a lesson was declared to be about.
    pub(super) fn about(&self, lesson: &LessonId) -> Option<(u32, bool)> {
        self.about.get(lesson).copied()
    }

    pub(super) fn entry(&self, number: Number) -> Option<&Entry> {
        self.entries.get(number as usize)
    }

    pub(super) fn lesson_of(&self, slot: u32) -> Option<LessonId> {
        self.slots.get(slot as usize).map(|slot| slot.id)
    }

    /// Gives a record its number in what is observed; false if it has one.
    pub(super) fn number(&mut self, number: Number) -> (u64, bool) {
        let Some(entry) = self.entries.get_mut(number as usize) else { return (0, false) };
        match entry.observed {
            Some(observed) => (observed, false),
            None => {
                let observed = self.observed;
                self.observed += 1;
                entry.observed = Some(observed);
                (observed, true)
            }
        }
    }

    /// Takes in records that came into the library since.
    pub(super) fn take_in(&mut self, library: &Library) -> Result<(), RunError> {
        for number in self.entries.len()..library.len() {
            let number = number as Number;
            let record = library.record(number);
            if self.entries.is_empty() {
                self.stranger_weight = self.weigh_stranger(record);
            }
            let taught = matches!(record.claim(), Claim::Taught { .. });
            let withdraws = matches!(record.claim(), Claim::Withdrawn { .. });
            let slot = match record.claim().lesson_id() {
                Some(id) if taught => self.slot_of(id, library, number)?,
                Some(id) => self.by_lesson.get(&id).copied(),
                None => None,
            };
            if let Some(slot) = slot.and_then(|slot| self.slots.get_mut(slot as usize)) {
                if taught { &mut slot.teachings } else { &mut slot.claims }.push(number);
            }
            self.entries.push(Entry { slot, taught, withdraws, observed: None });
        }
        Ok(())
    }

    fn slot_of(&mut self, id: LessonId, library: &Library, number: Number) -> Result<Option<u32>, RunError> {
        if let Some(slot) = self.by_lesson.get(&id) {
            return Ok(Some(*slot));
        }
        let Some(lesson) = library.body(number).and_then(|body| Lesson::from_bytes(body).ok()) else { return Ok(None) };
        let slot =
            self.ranker.add(&lesson.task, &lesson.text()).map_err(|error| RunError::Recall(error.to_string()))?;
        self.by_lesson.insert(id, slot);
        let about = self.about.get(&id).copied();
        self.slots.push(Slot { id, about, teachings: Vec::new(), claims: Vec::new() });
        self.met.push(Met::default());
        Ok(Some(slot))
    }

    /// What the tally makes of one stranger's teaching that nobody else has said anything about.
    fn weigh_stranger(&self, record: &Record) -> f32 {
        let mut tally = Tally::new(self.owner);
        tally.apply(record);
        // The owner is no stranger to itself: somebody else looks.
        let nobody = LocalPolicy { me: AuthorId([0; 32]) };
        record.claim().lesson_id().and_then(|id| tally.standing(&id)).map_or(1.0, |s| tally.view(&s, &nobody, false).1)
    }

    /// What a memory that holds these records shows `me` for a task.
    pub(super) fn recall(
        &mut self,
        library: &Library,
        held: &Numbers,
        whole: &dyn Fn(Number) -> bool,
        me: AuthorId,
        task: &str,
        k: usize,
    ) -> Result<Vec<Shown>, RunError> {
        self.recalls += 1;
        let now = self.recalls;
        let mut bank = Vec::new();
        for number in held.iter() {
            let Some(entry) = self.entries.get(number as usize) else { continue };
            let Some(met) = entry.slot.and_then(|slot| self.met.get_mut(slot as usize)) else { continue };
            if !entry.taught {
                met.claimed_at = now;
                continue;
            }
            if !whole(number) {
                continue;
            }
            if met.taught_at != now {
                met.taught_at = now;
                met.record = number;
                bank.extend(entry.slot);
            }
            if library.record(number).author() == me {
                met.own_at = now;
            }
        }
        let (slots, met, owner, stranger) = (&self.slots, &self.met, self.owner, self.stranger_weight);
        let weight = |slot: u32| {
            let (Some(slot), Some(met)) = (slots.get(slot as usize), met.get(slot as usize)) else { return 0.0 };
            if met.claimed_at != now {
                return if met.own_at == now { 1.0 } else { stranger };
            }
            let mut tally = Tally::new(owner);
            let claims = slot.teachings.iter().chain(&slot.claims).filter(|number| held.contains(**number));
            claims.for_each(|number| tally.apply(library.record(*number)));
            tally.standing(&slot.id).map_or(0.0, |standing| tally.view(&standing, &LocalPolicy { me }, false).1)
        };
        let tie = |slot: u32| slots.get(slot as usize).map_or([0; 32], |slot| slot.id.0);
        let ranked = self.ranker.rank(task, &bank, k, &weight, &tie);
        let ranked = ranked.map_err(|error| RunError::Recall(error.to_string()))?;
        let shown = ranked.iter().filter_map(|hit| match hit.source {
            Source::Slot(slot) => Some(slot),
            Source::External(_) => None,
        });
        let shown = shown.filter_map(|at| {
            let (slot, met) = (self.slots.get(at as usize)?, self.met.get(at as usize)?);
            Some(Shown { about: slot.about, record: met.record, slot: at })
        });
        Ok(shown.collect())
    }

    /// Whether `author` has taught a lesson in a memory, and not withdrawn it since.
    pub(super) fn has_taught(&self, library: &Library, held: &Numbers, author: AuthorId, lesson: &LessonId) -> bool {
        let Some(slot) = self.by_lesson.get(lesson).and_then(|slot| self.slots.get(*slot as usize)) else {
            return false;
        };
        let own = |number: &&Number| held.contains(**number) && library.record(**number).author() == author;
        let latest = slot.teachings.iter().chain(&slot.claims).filter(own).max_by_key(|n| library.record(**n).seq());
        latest.is_some_and(|number| self.entries.get(*number as usize).is_some_and(|entry| entry.taught))
    }

    /// Whether every teaching of a lesson that a memory holds is one that its author withdrew later, by withdrawals that are
    /// among `arrived`. Told from the records alone, not by the tally, which it checks.
    pub(super) fn is_withdrawn(&self, library: &Library, held: &Numbers, arrived: &Numbers, slot: u32) -> bool {
        let Some(slot) = self.slots.get(slot as usize) else { return false };
        let withdrawn = |teaching: &Number| {
            let teaching = library.record(*teaching);
            slot.claims.iter().any(|claim| {
                let record = library.record(*claim);
                arrived.contains(*claim)
                    && matches!(record.claim(), Claim::Withdrawn { .. })
                    && record.author() == teaching.author()
                    && record.seq() > teaching.seq()
            })
        };
        let mut teachings = slot.teachings.iter().filter(|number| held.contains(**number)).peekable();
        teachings.peek().is_some() && teachings.all(withdrawn)
    }

    /// The record by which `author` taught what it withdraws with `withdrawal`.
    pub(super) fn taught_before(&self, library: &Library, withdrawal: Number) -> Option<Number> {
        let record = library.record(withdrawal);
        let slot = self.by_lesson.get(&record.claim().lesson_id()?).and_then(|slot| self.slots.get(*slot as usize))?;
        let own = |number: &&Number| library.record(**number).author() == record.author();
        slot.teachings.iter().filter(own).max_by_key(|number| library.record(**number).seq()).copied()
    }
}
