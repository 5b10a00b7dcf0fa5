//! The lesson that says the same already, if one does, and may stand for it.

use std::collections::BTreeSet;

use folklore_protocol::{BankId, Lesson, LessonId, State};

use super::{Catalogue, Wish};
use crate::{
    learn::merge::{Gist, adds_nothing},
    recall::{RankOptions, Source},
};

/// Lessons that are read and compared word for word: the nearest by what the index knows of them.
const CANDIDATES: usize = 8;

impl Catalogue {
    /// The lesson of a bank that says what `lesson` says in nearly the same words and may be taught in its place, if there is one:
    /// the nearest, or itself. Withdrawn ones and those that are kept back are none, nor are those that add words of somebody
    /// whom nobody vouches for: this node would sign them. Costs a recall.
    pub fn same_as(&self, bank: &BankId, lesson: &Lesson) -> Option<Lesson> {
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
        // One that cannot be read says nothing; it must not keep what comes from being taught.
        nearest.iter().filter_map(|id| self.read_lesson(id)).find(|held| {
            let may_stand =
                |held: &Lesson| adds_nothing(held.fields(), lesson.fields()) || self.is_vouched_for(bank, held);
            held.id() == lesson.id() || (gist.same(&Gist::of(held.fields())) && may_stand(held))
        })
    }

    /// Whether this node may sign a lesson's words in the place of words of its own: it has signed them before, or they are trusted
    /// for what several principals or a curator say. That somebody found them helpful is not enough: a stranger's second key
    /// can say so.
    fn is_vouched_for(&self, bank: &BankId, lesson: &Lesson) -> bool {
        self.standing(&lesson.id(), Some(bank)).is_some_and(|(_, state, standing)| {
            standing.authors.contains(&self.me)
                || (state == State::Trusted && (standing.taught_by > 1 || standing.endorsed_by_curator))
        })
    }
}
