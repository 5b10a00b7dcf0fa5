//! Attempts at one task: the runs here, what other nodes' lessons say of theirs, and the prompt by which an agent looks over
//! its own.

use std::collections::BTreeSet;

use folklore_protocol::{
    Claim, Outcome, RunDigest,
    canonical::{Lines, normalise},
    lesson::LessonKind,
};
use folklore_store::{
    catalogue::Wish,
    learn::task,
    run::{Run, digest_hex},
};

use super::{Memory, import::task_in_bank, read_failed};
use crate::{
    api::{self, Answer, ApiError},
    induction::prompt,
    service::chat::Prompt,
};

/// Runs that are read to find a task by its words. Beyond, its key has to be named.
const MAX_READ_TASKS: usize = 5_000;
/// Shortest part of a key that is looked for in others.
const MIN_KEY_PART_BYTES: usize = 3;
/// Ways to word one task whose lessons are looked for.
const MAX_WORDINGS: usize = 4;
/// Lessons near to a task that are looked through for its own.
const NEAR_LESSONS: usize = 64;
/// Claims of one lesson that are read for what other nodes say.
const READ_CLAIMS: usize = 64;
/// Lessons that a refinement may put beside a run.
const MAX_REFINE_LESSONS: usize = 5;

/// A task's key in its bank, and its runs.
pub(super) type Group = (String, Vec<RunDigest>);

impl Memory {
    /// The tasks that a text names: by key, by a part of a key, else by the words an agent was given. And how many more fit.
    pub(super) fn tasks_like(&self, text: &str, bank: Option<&str>) -> Answer<(Vec<Group>, u64)> {
        let text = normalise(text, Lines::Many);
        if text.is_empty() {
            return Err(ApiError::bad_request("the task is empty: name its key, or say it in words"));
        }
        let only = bank.map(|name| self.bank(Some(name))).transpose()?;
        let banks = self.0.store.banks().into_iter().filter(|b| only.as_ref().is_none_or(|only| only.id == b.id));
        let places: Vec<String> = banks.map(|bank| task_in_bank(&bank.id, "")).collect();
        let exact: Vec<String> = places
            .iter()
            .flat_map(|place| [format!("{place}{text}"), format!("{place}{}", Run::key_from_task(&text))])
            .filter(|key| !self.0.store.run_digests_of_task(key).is_empty())
            .collect();
        let keys = if exact.is_empty() { self.keys_like(&text, &places)? } else { exact };
        let more = keys.len().saturating_sub(api::MAX_SHOWN_TASKS) as u64;
        let group = |key: String| {
            let digests = self.0.store.run_digests_of_task(&key);
            (key, digests)
        };
        Ok((keys.into_iter().take(api::MAX_SHOWN_TASKS).map(group).collect(), more))
    }

    fn keys_like(&self, text: &str, places: &[String]) -> Answer<Vec<String>> {
        let mut all: Vec<String> = self.0.store.tasks();
        all.retain(|key| places.iter().any(|place| key.starts_with(place.as_str())));
        all.sort();
        let part = |key: &&String| key.split_once('/').is_some_and(|(_, key)| key.contains(text));
        let by_part: Vec<String> = all.iter().filter(part).cloned().collect();
        if text.len() >= MIN_KEY_PART_BYTES && !by_part.is_empty() {
            return Ok(by_part);
        }
        if all.len() > MAX_READ_TASKS {
            return Err(ApiError::bad_request(format!(
                "the bank has {} tasks, too many to look through for words: name the task's key",
                all.len()
            )));
        }
        let mut found = Vec::new();
        for key in all {
            let Some(first) = self.0.store.run_digests_of_task(&key).first().copied() else { continue };
            let (run, _) = self.stored_run(&first)?;
            let said = [normalise(&run.task, Lines::Many), normalise(&task::general(&run), Lines::Many)];
            if said.iter().any(|said| said == text) {
                found.push(key);
            }
        }
        Ok(found)
    }

    pub(super) fn attempts_now(&self, request: &api::AttemptsRequest) -> Answer<api::AttemptsResponse> {
        let (groups, more) = self.tasks_like(&request.task, request.bank.as_deref())?;
        if groups.is_empty() {
            let tasks = self.attempts_elsewhere(request)?;
            if tasks.is_empty() {
                return Err(ApiError::not_found(
                    "no run here is an attempt at that task, and no lesson tells of one: name its key, a part of it, or \
                     all of its words",
                ));
            }
            return Ok(api::AttemptsResponse { tasks, more: 0 });
        }
        let tasks = groups.into_iter().map(|group| self.attempts_at(group)).collect::<Answer<_>>()?;
        Ok(api::AttemptsResponse { tasks, more })
    }

    /// A task that no run here is of, by its words: what lessons tell of other nodes' attempts, bank by bank.
    fn attempts_elsewhere(&self, request: &api::AttemptsRequest) -> Answer<Vec<api::TaskAttempts>> {
        let text = normalise(&request.task, Lines::Many);
        let general = task::general(&Run { task: text.clone(), ..Run::default() });
        let said = BTreeSet::from([text.clone(), general]);
        let only = request.bank.as_deref().map(|name| self.bank(Some(name))).transpose()?;
        let banks = self.0.store.banks().into_iter().filter(|b| only.as_ref().is_none_or(|only| only.id == b.id));
        let mut tasks = Vec::new();
        for bank in banks {
            let key = Run::key_from_task(&text);
            let mut out =
                api::TaskAttempts { key, task: text.clone(), bank: bank.id.to_string(), ..Default::default() };
            for words in said.iter().filter(|words| !words.is_empty()) {
                self.lessons_of_task(words, &said, &mut out)?;
            }
            once(&mut out);
            if !out.elsewhere.is_empty() {
                tasks.push(out);
            }
        }
        Ok(tasks)
    }

    fn attempts_at(&self, (key, digests): Group) -> Answer<api::TaskAttempts> {
        let more = digests.len().saturating_sub(api::MAX_SHOWN_ATTEMPTS) as u64;
        let mut out = api::TaskAttempts { more, ..api::TaskAttempts::default() };
        // The words may differ from attempt to attempt, and each lesson has those of one.
        let mut said = BTreeSet::new();
        for digest in digests.iter().take(api::MAX_SHOWN_ATTEMPTS) {
            let held = self.held_run(*digest)?;
            if out.runs.is_empty() {
                (out.key, out.task) = (held.run.task_key.clone(), task::general(&held.run));
                out.bank = held.bank.id.to_string();
            }
            if said.len() < MAX_WORDINGS {
                said.insert(task::general(&held.run));
            }
            out.runs.push(attempt(digest, &held.run));
        }
        out.runs.sort_by_key(|run| match run.outcome {
            Outcome::Success => 0,
            Outcome::Partial => 1,
            Outcome::Failure => 2,
            Outcome::Unknown => 3,
        });
        out.mixed = !self.both_outcomes(&key, prompt::MAX_GROUP, None).is_empty();
        said.remove("");
        for words in &said {
            self.lessons_of_task(words, &said, &mut out)?;
        }
        once(&mut out);
        Ok(out)
    }

    /// The lessons of a task: its contrasts, and what their claims say of other nodes' attempts.
    fn lessons_of_task(&self, words: &str, said: &BTreeSet<String>, out: &mut api::TaskAttempts) -> Answer<()> {
        let me = self.me();
        let bank = self.bank(Some(&out.bank))?;
        let wish = Wish { k: NEAR_LESSONS, min_score: Some(0.0), bank: Some(bank.id), ..Wish::default() };
        let recalled = self.0.catalogue.recall(words, &wish, &[]).map_err(read_failed)?;
        for hit in recalled.hits.iter().filter(|hit| said.contains(&hit.lesson.task)) {
            let id = hit.lesson.id();
            if hit.lesson.kind == LessonKind::Contrast {
                out.contrasts.push(id.to_string());
            }
            let (claims, _) = self.0.catalogue.claims_page(&bank.id, &id, 0, READ_CLAIMS).map_err(read_failed)?;
            for record in claims.iter().filter(|record| record.author() != me) {
                let Claim::Taught { evidence, .. } = record.claim() else { continue };
                if evidence.attempts > 0 {
                    out.elsewhere.push(api::ElsewhereView {
                        author: record.author().to_string(),
                        lesson: id.to_string(),
                        outcome: evidence.outcome,
                        attempts: evidence.attempts,
                        agent: evidence.agent.clone(),
                        judged_by: evidence.judged_by.clone(),
                    });
                }
            }
        }
        Ok(())
    }

    pub(super) async fn refine_now(&self, request: api::RefineRequest) -> Answer<api::RefineResponse> {
        if request.round == 0 || request.lessons > MAX_REFINE_LESSONS {
            return Err(ApiError::bad_request(format!(
                "rounds count from 1, and at most {MAX_REFINE_LESSONS} lessons fit"
            )));
        }
        let id = request.run.clone();
        let held = self.blocking(move |m| m.held(&id)).await?;
        let (mut texts, mut ids) = (Vec::new(), Vec::new());
        if request.lessons > 0 && !held.run.task.trim().is_empty() {
            let recall = api::RecallRequest { k: request.lessons, ..api::RecallRequest::new(held.run.task.clone()) };
            for hit in self.recall_now(recall).await?.hits {
                let fields = &hit.lesson.fields;
                texts.push(format!("{}\nWhen: {}\n{}", fields.title, fields.applies_when, fields.content));
                ids.push(hit.lesson.id);
            }
        }
        let bytes = self.induction().configured.prompt_bytes();
        let text = prompt::refine(&held.run, request.round, &texts, bytes);
        let prompt = Prompt { system: String::new(), user: text }.outgoing();
        Ok(api::RefineResponse { estimated_tokens: prompt.tokens(), prompt: prompt.user, lessons: ids })
    }
}

/// Leaves each contrast and each claim in once, by whichever wording of the task it was found.
fn once(task: &mut api::TaskAttempts) {
    task.contrasts.sort();
    task.contrasts.dedup();
    let mut told = BTreeSet::new();
    task.elsewhere.retain(|one| told.insert((one.author.clone(), one.lesson.clone())));
}

fn attempt(digest: &RunDigest, run: &Run) -> api::AttemptView {
    api::AttemptView {
        run: digest_hex(digest),
        outcome: run.outcome.status.into(),
        reward_milli: run.outcome.reward_milli,
        judged_by: run.outcome.judged_by.clone(),
        agent: run.agent.clone(),
        attempt: run.attempt,
        steps: run.steps.len() as u64,
        source: run.source.clone(),
    }
}
