//! How lessons stand: what the records of a bank say of each, out of the tally or read from disk.
//!
//! The tally has all records about a lesson or none: of two that contradict each other one alone would be a lie. So where
//! one cannot be read, nothing is made of the others, and the lesson stays as it was taken before.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
};

use folklore_protocol::{AuthorId, BankId, Claim, LessonId, LocalPolicy, Record, RecordId, Standing, State, Tally};

use super::shelf::{ClaimKey, Entry, Inner, View, author_prefix};
use crate::bank::Store;

/// Records about a lesson from which on what they say is kept, once it was read from disk: fewer are read about as fast as a body.
const KEPT_FROM: usize = 16;
/// Authors in all standings that are kept, about a hundred bytes each. A standing with more is kept alone.
const AUTHORS_KEPT: usize = 100_000;

/// What the records of a bank say of a lesson.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Said {
    /// What those say that can be read; `None` if none speaks of it.
    pub standing: Option<Standing>,
    /// A record that teaches it and counts.
    pub teaching: Option<RecordId>,
    /// Whether all of them could be read.
    pub whole: bool,
}

/// What was read of lessons with many records, until one more comes or the policy changes. Anyone may write any number of
/// records about a lesson, and whoever asks for it must not pay for them again and again.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<Standings>);

#[derive(Debug, Default)]
struct Standings {
    said: BTreeMap<(u16, LessonId), Said>,
    authors: usize,
}

impl Said {
    fn authors(&self) -> usize {
        1 + self.standing.as_ref().map_or(0, |standing| standing.authors.len())
    }
}

impl Kept {
    fn get(&self, number: u16, id: &LessonId) -> Option<Said> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).said.get(&(number, *id)).cloned()
    }

    fn put(&self, number: u16, id: &LessonId, said: &Said) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.authors + said.authors() > AUTHORS_KEPT {
            *kept = Standings::default();
        }
        // Two may have read it at once.
        if kept.said.insert((number, *id), said.clone()).is_none() {
            kept.authors += said.authors();
        }
    }

    /// Drops what is kept of a lesson, since something was said of it.
    pub fn drop_one(&mut self, number: u16, id: &LessonId) {
        let kept = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(said) = kept.said.remove(&(number, *id)) {
            kept.authors = kept.authors.saturating_sub(said.authors());
        }
    }

    /// Drops all of it, since the policy may be another.
    pub fn drop_all(&mut self) {
        *self.0.get_mut().unwrap_or_else(PoisonError::into_inner) = Standings::default();
    }
}

impl Inner {
    /// Reads the records about a lesson into the tally, unless it has them. False if one cannot be read: the tally has none of
    /// them then.
    pub(super) fn read_claims(&mut self, store: &Store, number: u16, id: &LessonId) -> bool {
        let Some(shelf) = self.shelves.get(usize::from(number)) else { return false };
        if shelf.tally.speaks_of(id) {
            return true;
        }
        let claims = self.claims_of(number, id);
        if claims.is_empty() {
            return true;
        }
        let (about, whole) = read_about(store, &shelf.info.owner, &claims);
        if whole && let Some(shelf) = self.shelves.get_mut(usize::from(number)) {
            shelf.tally.merge(about);
        }
        whole
    }

    /// Records of a bank about a lesson, by author and number.
    pub fn claims_of(&self, number: u16, id: &LessonId) -> Vec<ClaimKey> {
        let stored = self.slot(id).into_iter().flat_map(|slot| self.stored.of(slot, number));
        let recent = self.shelves.get(usize::from(number)).and_then(|shelf| shelf.claims.get(id));
        let mut all: Vec<ClaimKey> = stored.chain(recent.into_iter().flatten().copied()).collect();
        all.sort_unstable();
        all
    }

    /// What the records of a bank say of a lesson. Read from disk where the tally does not have them.
    pub fn said(&self, store: &Store, number: u16, id: &LessonId) -> Said {
        let Some(shelf) = self.shelves.get(usize::from(number)) else {
            return Said { standing: None, teaching: None, whole: true };
        };
        if shelf.tally.speaks_of(id) {
            return Said { standing: shelf.tally.standing(id), teaching: shelf.tally.teaching(id), whole: true };
        }
        if let Some(kept) = self.said.get(number, id) {
            return kept;
        }
        let claims = self.claims_of(number, id);
        let (about, whole) = read_about(store, &shelf.info.owner, &claims);
        let (standing, teaching) = (shelf.tally.standing_in(&about, id), shelf.tally.teaching_in(&about, id));
        let said = Said { standing, teaching, whole };
        if claims.len() >= KEPT_FROM {
            self.said.put(number, id, &said);
        }
        said
    }

    /// How a bank takes a lesson and what is said of it; `None` if no record speaks of it. Where not all records can be read
    /// it stays as it was taken before.
    pub fn taken(&self, store: &Store, number: u16, id: &LessonId, me: &AuthorId) -> Option<(State, Standing)> {
        let said = self.said(store, number, id);
        let (standing, entry) = (said.standing?, self.entry(id));
        let before = entry.and_then(|entry| entry.views().find(|view| view.shelf == number));
        if let Some(view) = before.filter(|_| !said.whole) {
            return Some((view.state, standing));
        }
        let secret = entry.is_some_and(|entry| entry.secret != 0);
        let (state, _) = self.shelves.get(usize::from(number))?.tally.view(&standing, &LocalPolicy { me: *me }, secret);
        Some((state, standing))
    }

    /// Whether a lesson is withdrawn in a bank; `None` if no record there speaks of it. Where it cannot be told, it is.
    pub fn is_withdrawn_in(&self, store: &Store, number: u16, id: &LessonId) -> Option<bool> {
        let said = self.said(store, number, id);
        if said.whole {
            return said.standing.map(|standing| standing.withdrawn);
        }
        let view = self.entry(id).and_then(|entry| entry.views().find(|view| view.shelf == number));
        Some(view.is_none_or(|view| view.state == State::Withdrawn))
    }

    /// Whether a lesson is withdrawn in some bank.
    pub fn is_withdrawn(&self, store: &Store, id: &LessonId) -> bool {
        (0..self.shelves.len() as u16).any(|number| self.is_withdrawn_in(store, number, id) == Some(true))
    }

    /// Whether an author has said in a bank that a lesson stands, or that it does not. Where a record of that author cannot
    /// be read, it may have been that.
    pub fn has_spoken(&self, store: &Store, number: u16, id: &LessonId, author: &AuthorId) -> bool {
        let Some(shelf) = self.shelves.get(usize::from(number)) else { return false };
        if shelf.tally.speaks_of(id) {
            return shelf.tally.has_taught(id, author);
        }
        let prefix = author_prefix(author);
        let claims = self.claims_of(number, id).into_iter().filter(|(by, ..)| *by == prefix);
        let word = |r: &Record| matches!(r.claim(), Claim::Taught { .. } | Claim::Withdrawn { .. });
        let mut spoken = false;
        let whole = store.each_readable(claims.map(|(.., id)| id), |record| {
            spoken |= record.author() == *author && word(record);
        });
        spoken || !whole
    }

    /// Whether a record sets the policy or revokes an author: only the owner's do.
    pub fn rules(&self, record: &Record) -> bool {
        let is_ruling = matches!(record.claim(), Claim::Policy(_) | Claim::Revoked { .. });
        is_ruling && self.shelf(&record.bank()).is_some_and(|s| s.info.owner == record.author())
    }

    /// Reads all records of a bank into the tally: a policy may change how any lesson stands.
    pub fn read_all_claims(&mut self, store: &Store, bank: &BankId) -> BTreeSet<LessonId> {
        if let Some(number) = self.number(bank)
            && let Some(shelf) = self.shelves.get_mut(usize::from(number))
        {
            let mut rest = Tally::new(shelf.info.owner);
            let is_new = |r: &Record| r.claim().lesson_id().is_none_or(|id| !shelf.tally.speaks_of(&id));
            let read = store.for_each_record(bank, |record| {
                if is_new(record) {
                    rest.apply(record);
                }
            });
            match read {
                Ok(()) => shelf.tally.merge(rest),
                // What was read so far may lack the half of what is said of a lesson. Each is read by itself then.
                Err(error) => tracing::error!(%error, "not all records could be read"),
            }
        }
        self.said.drop_all();
        self.by_id.ascending(&self.entries).filter_map(|slot| Some(self.entries.get(slot as usize)?.id)).collect()
    }

    /// Brings up to date how a bank takes these lessons. One of which not every record can be read stays as it is: what cannot be
    /// read may be that it was withdrawn.
    pub fn refresh(&mut self, store: &Store, bank: &BankId, lessons: BTreeSet<LessonId>, me: &AuthorId) {
        let Some(number) = self.number(bank) else { return };
        for id in lessons {
            let Some(slot) = self.slot(&id) else { continue };
            let said = self.said(store, number, &id);
            let (Some(shelf), Some(entry)) =
                (self.shelves.get(usize::from(number)), self.entries.get_mut(slot as usize))
            else {
                continue;
            };
            if !said.whole {
                tracing::error!(lesson = %id, "not every record about a lesson can be read; it stays as it was taken");
                continue;
            }
            let view = said.standing.map(|standing| {
                let (state, weight) = shelf.tally.view(&standing, &LocalPolicy { me: *me }, entry.secret != 0);
                View { shelf: number, state, weight }
            });
            entry.set_view(number, view);
            self.show(slot);
        }
    }

    /// State and standing in the bank that takes it best, of those in scope.
    pub fn best_view(&self, store: &Store, entry: &Entry, only: Option<u16>) -> Option<(State, Standing)> {
        let views = entry.views().filter(|view| only.is_none_or(|only| only == view.shelf));
        let view = views.max_by(|a, b| a.weight.total_cmp(&b.weight))?;
        Some((view.state, self.said(store, view.shelf, &entry.id).standing?))
    }
}

/// What these records say of the lesson that they are about, and whether all of them could be read.
fn read_about(store: &Store, owner: &AuthorId, claims: &[ClaimKey]) -> (Tally, bool) {
    let mut about = Tally::new(*owner);
    let whole = store.each_readable(claims.iter().map(|(.., id)| *id), |record| about.apply(record));
    (about, whole)
}
