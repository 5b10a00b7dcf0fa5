//! The lesson that says the same already, if one does.

use std::collections::BTreeSet;

use folklore_protocol::{BankId, Lesson, LessonId};

use super::{Catalogue, Wish};
use crate::{error::ReadError, learn::merge::Gist};

/// Lessons that are read and compared word for word: those that share most of its rare words.
const CANDIDATES: usize = 8;

impl Catalogue {
    /// The lesson of a bank that says what `lesson` says in nearly the same words, if there is one: the nearest, or
    /// itself. Withdrawn ones and those that are kept back are none.
    pub fn same_as(&self, bank: &BankId, lesson: &Lesson) -> Result<Option<Lesson>, ReadError> {
        let nearest: Vec<LessonId> = {
            let inner = self.read();
            let wish = Wish { bank: Some(*bank), kinds: vec![lesson.kind], ..Wish::default() };
            let open = inner.open(&wish, &BTreeSet::new());
            let slots = inner.ranker.nearest_by_rare_words(&lesson.content, CANDIDATES, Some(&open));
            slots.into_iter().filter_map(|slot| Some(inner.entries.get(slot as usize)?.id)).collect()
        };
        let gist = Gist::of(lesson.fields());
        for id in nearest {
            if let Some(held) = self.store.lesson(&id)?
                && (id == lesson.id() || gist.same(&Gist::of(held.fields())))
            {
                return Ok(Some(held));
            }
        }
        Ok(None)
    }
}
