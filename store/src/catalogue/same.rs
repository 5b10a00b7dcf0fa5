//! The lesson that says the same already, if one does, and may stand for it.

use std::collections::BTreeSet;

use folklore_protocol::{BankId, Lesson, LessonId, State};

use super::{Catalogue, Wish};
use crate::learn::merge::{Gist, adds_nothing};

/// Lessons that are read and compared word for word: those that share most of its rare words.
const CANDIDATES: usize = 8;

impl Catalogue {
    /// The lesson of a bank that says what `lesson` says in nearly the same words and may be taught in its place, if there is one:
    /// the nearest, or itself. Withdrawn ones and those that are kept back are none, nor are those that add words of somebody
    /// whom nobody vouches for: this node would sign them.
    pub fn same_as(&self, bank: &BankId, lesson: &Lesson) -> Option<Lesson> {
        let nearest: Vec<LessonId> = {
            let inner = self.read();
            let wish = Wish { bank: Some(*bank), kinds: vec![lesson.kind], ..Wish::default() };
            let open = inner.open(&wish, &BTreeSet::new());
            let slots = inner.ranker.nearest_by_rare_words(&lesson.content, CANDIDATES, Some(&open));
            slots.into_iter().filter_map(|slot| Some(inner.entries.get(slot as usize)?.id)).collect()
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
