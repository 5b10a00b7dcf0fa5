//! The lesson that says the same already, if one does.

use std::collections::BTreeSet;

use folklore_protocol::{BankId, Lesson, LessonId};

use super::{Catalogue, Wish};
use crate::{
    error::ReadError,
    learn::merge::Gist,
    recall::{RankOptions, Source},
};

/// Lessons that are read and compared word for word: the nearest by what the index knows of them.
const CANDIDATES: usize = 8;

impl Catalogue {
    /// The lesson of a bank that says what `lesson` says in nearly the same words, if there is one: the nearest, or
    /// itself. Withdrawn ones and those that are kept back are none. Costs a recall.
    pub fn same_as(&self, bank: &BankId, lesson: &Lesson) -> Result<Option<Lesson>, ReadError> {
        let nearest: Vec<LessonId> = {
            let inner = self.read();
            let wish = Wish { bank: Some(*bank), kinds: vec![lesson.kind], ..Wish::default() };
            let open = inner.open(&wish, &BTreeSet::new());
            let id_of = |source: Source| match source {
                Source::Slot(slot) => inner.entries.get(slot as usize).map(|entry| entry.id),
                Source::External(_) => None,
            };
            let options = RankOptions {
                k: CANDIDATES,
                min_score: Some(0.0),
                filter: Some(&open),
                tie: Some(&|source| id_of(source).map_or([0; 32], |id| id.0)),
                ..RankOptions::default()
            };
            let ranked = inner.ranker.rank_with(&lesson.content, &options, &[]);
            ranked.hits.iter().filter_map(|scored| id_of(scored.source)).collect()
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
