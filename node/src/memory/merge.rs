//! Near-duplicates: a lesson that says what another says becomes a claim on that one.

use folklore_protocol::{BankId, Claim, Lesson, LessonId};
use folklore_store::learn::merge::Gist;

use super::{Memory, read_failed};
use crate::api::Answer;

/// Lessons of a group that is not written yet, for comparing.
#[derive(Default)]
pub(super) struct Fresh(Vec<(Gist, Lesson)>);

impl Memory {
    /// The lesson that a claim goes to: one of the bank or of `fresh` that says the same, else `lesson` itself, which joins
    /// `fresh`. True if it is another.
    pub(super) fn settled(&self, bank: &BankId, fresh: &mut Fresh, lesson: Lesson) -> Answer<(Lesson, bool)> {
        if self.0.catalogue.teaches(bank, &lesson.id()) {
            return Ok((lesson, false));
        }
        let gist = Gist::of(lesson.fields());
        if let Some((_, held)) = fresh.0.iter().find(|(other, _)| gist.same(other)) {
            let other = held.id() != lesson.id();
            return Ok((held.clone(), other));
        }
        if let Some(held) = self.0.catalogue.same_as(bank, &lesson).map_err(read_failed)? {
            let other = held.id() != lesson.id();
            return Ok((held, other));
        }
        fresh.0.push((gist, lesson.clone()));
        Ok((lesson, false))
    }

    /// The lesson that a claim is to be made on, `None` if this node or `claims` make it already; and whether it is another
    /// than `lesson`.
    pub(super) fn merged(
        &self,
        bank: &BankId,
        lesson: Lesson,
        fresh: &mut Fresh,
        claims: &[(Claim, Option<Lesson>)],
    ) -> Answer<(Option<Lesson>, bool)> {
        let (held, merged) = self.settled(bank, fresh, lesson)?;
        let said = merged && (self.has_spoken(bank, &held) || taught(claims, &held.id()));
        Ok(((!said).then_some(held), merged))
    }
}

/// Whether claims of a group teach a lesson already.
pub(super) fn taught(claims: &[(Claim, Option<Lesson>)], id: &LessonId) -> bool {
    claims.iter().any(|(claim, _)| claim.body() == Some(*id))
}
