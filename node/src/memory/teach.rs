//! Lessons written, rated, withdrawn and looked at, one at a time.

use folklore_protocol::{
    BankId, Claim, Evidence, Lesson, LessonDraft, LessonId, Outcome, Record, Standing, State, Verdict,
    canonical::{Lines, normalise, shorten},
    claim::MAX_REASON_BYTES,
};
use folklore_store::{
    bank::{BankInfo as StoreBank, Batch, ClaimOutcome, Written},
    catalogue::Wish,
    redact::{Classes, Fired, redact},
};

use super::{
    Memory,
    merge::{Fresh, to_replaced},
    read_failed, stopping, write_failed,
};
use crate::{
    api::{self, Answer, ApiError},
    engine,
};

/// Counts of what was taken out, by rule.
#[derive(Debug, Default)]
pub(crate) struct Struck(std::collections::BTreeMap<&'static str, u64>);

impl Struck {
    /// Brings a text into normal form, and redacts it, for storing and for leaving the node. In this order: a character that
    /// shows nothing could hide a secret from the rules, and goes when a lesson or a claim is made.
    pub(super) fn settle(&mut self, text: &mut String, lines: Lines) {
        *text = normalise(text, lines);
        self.clean(text);
    }

    /// Redacts a text in place that is in the form it is kept in.
    pub(super) fn clean(&mut self, text: &mut String) {
        let redacted = redact(text, Classes::ALL);
        self.count(&redacted.fired);
        if let std::borrow::Cow::Owned(clean) = redacted.text {
            *text = clean;
        }
    }

    fn count(&mut self, fired: &[Fired]) {
        for fired in fired {
            *self.0.entry(fired.rule).or_default() += fired.count as u64;
        }
    }

    pub(super) fn clean_draft(&mut self, draft: &mut LessonDraft) {
        let LessonDraft { kind: _, title, applies_when, not_when, content, task, domain, tags } = draft;
        for text in [title, domain].into_iter().chain(tags) {
            self.settle(text, Lines::One);
        }
        for text in [applies_when, not_when, content, task] {
            self.settle(text, Lines::Many);
        }
    }

    pub(super) fn report(self) -> Vec<api::Redacted> {
        self.0.into_iter().map(|(rule, count)| api::Redacted { rule: rule.into(), count }).collect()
    }
}

impl Memory {
    pub(super) fn teach_now(&self, request: api::TeachRequest) -> Answer<api::TeachResponse> {
        let bank = self.bank(request.bank.as_deref())?;
        self.check_may_write(&bank)?;
        let mut struck = Struck::default();
        let mut draft = request.draft();
        struck.clean_draft(&mut draft);
        let lesson = Lesson::new(draft).map_err(|error| ApiError::bad_request(error.to_string()))?;
        let mut evidence = Evidence::told("person");
        if let Some(told) = request.evidence {
            let (mut agent, mut judged_by) = (told.agent, told.judged_by);
            struck.settle(&mut agent, Lines::One);
            struck.settle(&mut judged_by, Lines::One);
            evidence.outcome = told.outcome.unwrap_or(Outcome::Unknown);
            evidence.attempts = u32::from(evidence.outcome != Outcome::Unknown);
            evidence.reward_milli = told.reward_milli;
            evidence.agent = agent;
            evidence.judged_by = judged_by;
        }
        let id = lesson.id();
        let other = self.said_by(&bank.id, &mut Fresh::default(), &lesson);
        let new = other.is_none() && !(self.0.catalogue.teaches(&bank.id, &id) && self.0.catalogue.holds(&id));
        let merged_into = other.as_ref().map(|other| other.id().to_string());
        let replaced = other.as_ref().map(|other| to_replaced(&lesson, other)).into_iter().collect();
        let held = other.unwrap_or(lesson);
        let claim = Claim::Taught { lesson_id: held.id(), evidence: evidence.normalised() };
        self.claim(&bank, vec![(claim, Some(held))])?;
        Ok(api::TeachResponse { id: id.to_string(), new, merged_into, replaced, redacted: struck.report() })
    }

    /// Signs and stores claims, and tells the catalogue and the peers. Durable when it returns.
    pub(super) fn claim(&self, bank: &StoreBank, claims: Vec<(Claim, Option<Lesson>)>) -> Answer<Vec<Record>> {
        let batch = Batch { claims, runs: Vec::new(), skip_if_taught: true };
        Ok(self.write(&bank.id, batch)?.0)
    }

    /// Writes a group, and tells the catalogue and the peers. Durable when it returns.
    pub(super) fn write(
        &self,
        bank: &BankId,
        batch: Batch,
    ) -> Answer<(Vec<Record>, Vec<folklore_store::runs::RunOutcome>)> {
        self.write_with(bank, batch, &[])
    }

    /// As [`write`](Self::write), with settings of the store in the same group.
    pub(super) fn write_with(
        &self,
        bank: &BankId,
        batch: Batch,
        settings: &[(String, Vec<u8>)],
    ) -> Answer<(Vec<Record>, Vec<folklore_store::runs::RunOutcome>)> {
        // Here too, since what was begun may have waited: what others decline would set this node's bank apart for good.
        if !batch.claims.is_empty() {
            self.check_policy(bank)?;
        }
        let bodies: Vec<Option<Lesson>> = batch.claims.iter().map(|(_, lesson)| lesson.clone()).collect();
        let written =
            self.0.store.write_with(*bank, &self.0.key, self.now_ms(), batch, settings).map_err(write_failed)?;
        self.publish(bank, written, bodies)
    }

    /// Tells the catalogue and the peers of what was written; `bodies` are those of its claims.
    pub(super) fn publish(
        &self,
        bank: &BankId,
        written: Written,
        bodies: Vec<Option<Lesson>>,
    ) -> Answer<(Vec<Record>, Vec<folklore_store::runs::RunOutcome>)> {
        let (mut fresh, mut records, mut alone) = (Vec::new(), Vec::new(), Vec::new());
        for (outcome, body) in written.claims.into_iter().zip(bodies) {
            match outcome {
                ClaimOutcome::Written(record) => {
                    records.push(record.clone());
                    fresh.push((record, body));
                }
                // Said before, but its text was forgotten here, or lost, and is back with this.
                ClaimOutcome::Known(id) => {
                    if let Some(body) = body.filter(|body| !self.0.catalogue.holds(&body.id())) {
                        match self.0.store.record(&id) {
                            Ok(Some(record)) => fresh.push((record, Some(body))),
                            // The text is held all the same.
                            Ok(None) | Err(_) => alone.push(body),
                        }
                    }
                }
            }
        }
        let told: Vec<Record> = fresh.iter().map(|(record, _)| record.clone()).collect();
        let lessons: Vec<Lesson> = fresh.iter().filter_map(|(_, lesson)| lesson.clone()).chain(alone).collect();
        self.0.catalogue.learn(bank, &told, &lessons);
        if !fresh.is_empty() {
            self.0.metrics.committed();
            self.0.engine.event_blocking(engine::published(*bank, fresh)).map_err(stopping)?;
        }
        Ok((records, written.runs))
    }

    /// Whether the policy of a bank lets this node write to it now.
    pub(super) fn check_policy(&self, bank: &BankId) -> Answer<()> {
        match self.0.store.banks().iter().find(|known| known.id == *bank) {
            Some(known) => self.check_may_write(known),
            None => Err(ApiError::not_found(format!("bank {bank} is not here any more"))),
        }
    }

    pub(super) fn check_may_write(&self, bank: &StoreBank) -> Answer<()> {
        if self.0.catalogue.policy(&bank.id).may_write(&bank.owner, &self.me()) {
            return Ok(());
        }
        Err(ApiError::refused(format!(
            "the policy of bank '{}' does not let this node write: ask its owner",
            bank.name
        )))
    }

    /// The bank that a claim about a lesson goes to: the first that speaks of it.
    fn bank_of(&self, id: &LessonId) -> Answer<StoreBank> {
        let spoken = self.0.catalogue.standing(id, None).map(|(bank, ..)| bank);
        let bank = spoken.and_then(|id| self.0.store.banks().into_iter().find(|b| b.id == id));
        bank.ok_or_else(|| ApiError::not_found(format!("no bank here speaks of lesson {id}")))
    }

    pub(super) fn rate_now(&self, request: api::RateRequest) -> Answer<api::StandingResponse> {
        let id = self.lesson(&request.id)?;
        let run =
            match &request.run {
                None => None,
                Some(text) => Some(hex32(text).ok_or_else(|| {
                    ApiError::bad_request(format!("'{text}' is not a run digest: it has 64 hex digits"))
                })?),
            };
        let bank = self.bank_of(&id)?;
        self.check_may_write(&bank)?;
        let verdict: Verdict = request.verdict;
        self.claim(&bank, vec![(Claim::Rated { lesson_id: id, verdict, run }, None)])?;
        self.standing_of(id, &bank)
    }

    pub(super) fn withdraw_now(&self, request: api::WithdrawRequest) -> Answer<api::StandingResponse> {
        let id = self.lesson(&request.id)?;
        let bank = self.bank_of(&id)?;
        let (_, _, standing) =
            self.0.catalogue.standing(&id, Some(&bank.id)).ok_or_else(|| ApiError::not_found("no such lesson"))?;
        let policy = self.0.catalogue.policy(&bank.id);
        let me = self.me();
        let may = bank.owner == me || policy.curators.contains(&me) || standing.authors.contains(&me);
        if standing.withdrawn && !standing.authors.contains(&me) {
            return self.standing_of(id, &bank); // It is withdrawn already; saying so again adds nothing.
        }
        if !may {
            return Err(ApiError::refused(
                "only who taught a lesson, the bank's owner or a curator can withdraw it; 'folklore rate ID hurt' tells \
                 others that it misleads",
            ));
        }
        let mut reason = request.reason.unwrap_or_default();
        Struck::default().settle(&mut reason, Lines::Many);
        if reason.len() > MAX_REASON_BYTES {
            return Err(ApiError::bad_request(format!(
                "the reason has {} bytes, the limit is {MAX_REASON_BYTES}",
                reason.len()
            )));
        }
        self.claim(&bank, vec![(Claim::Withdrawn { lesson_id: id, reason }, None)])?;
        self.standing_of(id, &bank)
    }

    /// Erases the text; what the records say of the lesson stays, so that this node and its peers go on agreeing.
    pub(super) fn forget_now(&self, request: &api::ForgetRequest) -> Answer<api::ForgetResponse> {
        let id = self.lesson(&request.id)?;
        let again = self.0.store.is_forgotten(&id);
        let forgotten = self.0.store.forget(&[id]).map_err(write_failed)?;
        let mut left = Vec::new();
        if let Some(error) = forgotten.not_rewritten {
            left.push(format!("bytes of it stay in the database file until that is rewritten: {error}"));
        }
        if let Err(traces) = self.0.catalogue.forget(&[id]) {
            left.extend(traces.lines());
        }
        let aside = |name: String| {
            format!("{name} in the store was put aside by an earlier recovery or rewrite and may have it: delete it")
        };
        left.extend(forgotten.copies.into_iter().map(aside));
        Ok(api::ForgetResponse { id: id.to_string(), erased: forgotten.erased > 0, again, left })
    }

    fn standing_of(&self, id: LessonId, bank: &StoreBank) -> Answer<api::StandingResponse> {
        let (_, state, standing) = self
            .0
            .catalogue
            .standing(&id, Some(&bank.id))
            .ok_or_else(|| ApiError::not_found(format!("no lesson {id} in bank '{}'", bank.name)))?;
        Ok(api::StandingResponse { id: id.to_string(), standing: to_standing(state, &standing) })
    }

    pub(super) fn show_now(&self, request: &api::ShowRequest) -> Answer<api::ShowResponse> {
        if request.limit > api::MAX_CLAIMS_LIMIT {
            return Err(ApiError::bad_request(format!("limit is 0 to {}", api::MAX_CLAIMS_LIMIT)));
        }
        let id = self.lesson(&request.id)?;
        let bank = self.bank_of(&id)?;
        if let Some(rule) = self.0.catalogue.kept_back_by(&id) {
            return Err(ApiError::refused(format!(
                "lesson {id} is kept back: its text holds what looks like a secret ({rule}). Who taught it can withdraw it"
            )));
        }
        if self.0.store.is_forgotten(&id) {
            return Err(ApiError::not_found(format!(
                "lesson {id} was forgotten here; 'folklore teach' would bring it back"
            )));
        }
        let lesson = self.0.store.lesson(&id).map_err(read_failed)?.ok_or_else(|| {
            ApiError::not_found(format!(
                "the records here name lesson {id}, but no peer has sent its text yet; it is asked for at every contact"
            ))
        })?;
        let (_, state, standing) = self
            .0
            .catalogue
            .standing(&id, Some(&bank.id))
            .ok_or_else(|| ApiError::not_found(format!("no bank here speaks of lesson {id}")))?;
        let (claims, total) =
            self.0.catalogue.claims_page(&bank.id, &id, request.offset, request.limit).map_err(read_failed)?;
        let end = request.offset.saturating_add(claims.len());
        Ok(api::ShowResponse {
            lesson: to_view(&lesson),
            standing: to_standing(state, &standing),
            authors: standing.authors.iter().map(ToString::to_string).collect(),
            claims: claims.iter().map(to_claim).collect(),
            total: total as u64,
            next: (end < total && !claims.is_empty()).then_some(end),
            bank: bank.id.to_string(),
        })
    }

    pub(super) fn list_now(&self, request: api::ListRequest) -> Answer<api::ListResponse> {
        if request.limit == 0 || request.limit > api::MAX_LIST_LIMIT {
            return Err(ApiError::bad_request(format!("limit is 1 to {}", api::MAX_LIST_LIMIT)));
        }
        let bank = request.bank.as_deref().map(|name| self.bank(Some(name))).transpose()?.map(|b| b.id);
        let kinds = request.kind.into_iter().collect();
        let wish = Wish { bank, kinds, domain: request.domain, ..Wish::default() };
        let (page, total) = self.0.catalogue.list(&wish, request.offset, request.limit).map_err(read_failed)?;
        let lessons = page.into_iter().map(|listed| api::LessonSummary {
            id: listed.lesson.id().to_string(),
            kind: listed.lesson.kind,
            title: listed.lesson.title.clone(),
            task: listed.lesson.task.clone(),
            domain: listed.lesson.domain.clone(),
            state: to_state(listed.state),
            taught_by: listed.standing.taught_by,
        });
        let end = request.offset.saturating_add(request.limit);
        Ok(api::ListResponse { lessons: lessons.collect(), total: total as u64, next: (end < total).then_some(end) })
    }
}

pub(super) fn to_view(lesson: &Lesson) -> api::LessonView {
    api::LessonView { id: lesson.id().to_string(), fields: lesson.fields().clone() }
}

pub(super) fn to_state(state: State) -> api::LessonState {
    match state {
        State::Trusted => api::LessonState::Trusted,
        State::Unproven => api::LessonState::Unproven,
        State::Disputed => api::LessonState::Disputed,
        State::Withdrawn => api::LessonState::Withdrawn,
        State::Quarantined => api::LessonState::Quarantined,
    }
}

pub(super) fn to_standing(state: State, s: &Standing) -> api::Standing {
    let (taught_by, helped, hurt, disputed) = (s.taught_by, s.helped, s.hurt, s.disputed);
    api::Standing { state: to_state(state), taught_by, helped, hurt, disputed }
}

fn to_claim(record: &Record) -> api::ClaimView {
    let mut evidence = None;
    let mut why = None;
    let claim = match record.claim() {
        Claim::Taught { evidence: e, .. } => {
            evidence = Some(api::EvidenceView {
                outcome: e.outcome,
                reward_milli: e.reward_milli,
                attempts: e.attempts,
                judged_by: e.judged_by.clone(),
                induced_by: e.induced_by.clone(),
                agent: e.agent.clone(),
            });
            "taught"
        }
        Claim::Rated { verdict: Verdict::Helped, .. } => "helped",
        Claim::Rated { verdict: Verdict::Hurt, .. } => "hurt",
        Claim::Disputed { reason, .. } => {
            why = Some(reason.clone());
            "disputed"
        }
        Claim::Withdrawn { reason, .. } => {
            why = Some(reason.clone());
            "withdrawn"
        }
        Claim::Endorsed { .. } => "endorsed",
        Claim::Policy(_) => "policy",
        Claim::Revoked { .. } => "revoked",
        Claim::Rotated { .. } => "rotated",
        Claim::Succeeds { .. } => "succeeds",
    };
    api::ClaimView {
        author: record.author().to_string(),
        seq: record.seq(),
        at: api::TimeMs(record.fields().at_ms),
        claim: claim.into(),
        reason: why.filter(|r| !r.is_empty()),
        evidence,
    }
}

fn hex32(text: &str) -> Option<[u8; 32]> {
    data_encoding::HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?.try_into().ok()
}

/// One line of a text for a log or an error.
pub(super) fn brief(text: &str) -> String {
    shorten(&normalise(text, Lines::One), 120)
}
