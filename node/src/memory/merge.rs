//! Near-duplicates: a lesson that says what another says becomes a claim on that one, where this node may sign that one's words.

use folklore_protocol::{BankId, Claim, Lesson, LessonId, canonical::shorten};
use folklore_store::learn::merge::Gist;

use super::Memory;
use crate::api;

/// Bytes of a text that is not kept which an answer shows.
const SHOWN_BYTES: usize = 400;

/// Lessons of a group that is not written yet, for comparing.
#[derive(Default)]
pub(super) struct Fresh(Vec<(Gist, Lesson)>);

impl Memory {
    /// The other lesson that a claim on `lesson` is to go to: one of the bank or of `fresh` that says the same. None:
    /// `lesson` itself, which joins `fresh`.
    pub(super) fn said_by(&self, bank: &BankId, fresh: &mut Fresh, lesson: &Lesson) -> Option<Lesson> {
        if self.0.catalogue.teaches(bank, &lesson.id()) {
            return None;
        }
        let gist = Gist::of(lesson.fields());
        // Those of the group are this node's own words too.
        let found = match fresh.0.iter().find(|(other, _)| gist.same(other)) {
            Some((_, held)) => Some(held.clone()),
            None => self.0.catalogue.same_as(bank, lesson),
        };
        match found {
            Some(held) => (held.id() != lesson.id()).then_some(held),
            None => {
                fresh.0.push((gist, lesson.clone()));
                None
            }
        }
    }

    /// The lesson that a claim is to be made on, `None` if this node or `claims` make it already; where it is another than
    /// `lesson`, `replaced` tells.
    pub(super) fn merged(
        &self,
        bank: &BankId,
        lesson: Lesson,
        fresh: &mut Fresh,
        claims: &[(Claim, Option<Lesson>)],
        replaced: &mut Vec<api::Replaced>,
    ) -> Option<Lesson> {
        let Some(held) = self.said_by(bank, fresh, &lesson) else { return Some(lesson) };
        replaced.push(to_replaced(&lesson, &held));
        let said = self.has_spoken(bank, &held) || taught(claims, &held.id());
        (!said).then_some(held)
    }
}

/// Which text is not kept, and which lesson stands for it.
pub(super) fn to_replaced(lesson: &Lesson, by: &Lesson) -> api::Replaced {
    api::Replaced {
        title: lesson.title.clone(),
        content: shorten(&lesson.content, SHOWN_BYTES),
        by: by.id().to_string(),
        by_title: by.title.clone(),
    }
}

/// Whether claims of a group teach a lesson already.
pub(super) fn taught(claims: &[(Claim, Option<Lesson>)], id: &LessonId) -> bool {
    claims.iter().any(|(claim, _)| claim.body() == Some(*id))
}
