//! Lessons from runs that the bank holds: by rules at once, by a model through the queue, by the agent's own model in two
//! calls. Also the queue itself.

use std::{collections::BTreeSet, sync::Arc};

use folklore_protocol::{
    BankId, Claim, Lesson, LessonDraft, Outcome, Record, RunDigest,
    canonical::{self, Lines, shorten},
    claim::MAX_NAME_BYTES,
};
use folklore_store::{
    bank::{BankInfo as StoreBank, Batch},
    jobs::{Job, JobId, QueueError, Settings},
    learn::{self, Draft},
    run::{Run, RunStatus, digest_hex},
    runs::{MAX_RUN_BYTES, RunOutcome, RunRow},
};

use super::{
    Memory,
    import::{MAX_COMPARED_BYTES, lesson_of, that_fit},
    merge::Fresh,
    read_failed,
    teach::{Struck, brief},
};
use crate::{
    api::{self, Answer, ApiError, MIN_ID_PREFIX},
    induction::{
        AGENT, Ask, EXTRACTIVE, Induction, InductionOptions, Plan, Work, answer, check, prompt, worker::read_lessons,
    },
    service::ChatProvider,
};

/// What `--induce` takes beside the backends: the runs are kept, and drawn from later.
const NONE: &str = "none";

/// What draws lessons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Backend {
    /// Rules.
    Extractive,
    /// The caller's own model: it asks for the prompt.
    Agent,
    /// Nothing for now.
    None,
    /// A model that is a service, through the queue.
    Model(Plan),
}

/// Claims with the lessons that they teach.
type Claims = Vec<(Claim, Option<Lesson>)>;
/// The records written, what became of the runs, and the jobs or why there are none.
type WrittenAndQueued = (Vec<Record>, Vec<RunOutcome>, Result<Vec<JobId>, QueueError>);

/// A run that the bank holds.
pub(super) struct Held {
    /// As the bank knows it.
    pub digest: RunDigest,
    pub bank: StoreBank,
    pub run: Run,
}

impl Memory {
    pub(super) fn induction(&self) -> &Arc<Induction> {
        &self.0.induction
    }

    /// The backend of this name, with what a request says of its model.
    pub(super) fn backend(&self, name: &str, model: &api::ModelRequest) -> Answer<Backend> {
        let backend = match name {
            EXTRACTIVE => Backend::Extractive,
            AGENT => Backend::Agent,
            NONE => Backend::None,
            _ => {
                let provider = ChatProvider::named(name).ok_or_else(|| {
                    ApiError::bad_request(format!(
                        "no induction backend is called '{}': there are {EXTRACTIVE}, {AGENT}, openai, gemini, anthropic and \
                         {NONE}",
                        brief(name)
                    ))
                })?;
                return Ok(Backend::Model(self.plan(provider, model)?));
            }
        };
        // How much of a run is shown is the one thing that concerns an agent's own model too.
        let named = api::ModelRequest { prompt_bytes: None, ..model.clone() };
        if !named.is_default() || (backend != Backend::Agent && model.prompt_bytes.is_some()) {
            return Err(ApiError::bad_request(format!(
                "a model is named for '{name}', which asks none: say --induce openai, gemini or anthropic"
            )));
        }
        Ok(backend)
    }

    fn plan(&self, provider: ChatProvider, model: &api::ModelRequest) -> Answer<Plan> {
        let named = InductionOptions {
            provider: Some(provider),
            url: model.base_url.clone(),
            model: model.model.clone(),
            judge: model.judge,
            procedures: model.procedures,
            prompt_bytes: model.prompt_bytes,
            ..InductionOptions::default()
        };
        let configured = &self.induction().configured;
        // Another provider's address and model are no default for this one.
        let options = if configured.provider == Some(provider) { named.over(configured.clone()) } else { named };
        Plan::of(&options).map_err(ApiError::bad_request)
    }

    /// The model that runs which end on this node are given to; none: they are drawn from by rules.
    pub(super) fn standing_plan(&self) -> Option<Plan> {
        let configured = &self.induction().configured;
        let wanted = configured.provider.is_some() && configured.ended.unwrap_or(true);
        wanted.then(|| Plan::of(configured).ok()).flatten()
    }

    /// What a plan asks of one run.
    pub(super) fn works(plan: &Plan, bank: BankId, digest: RunDigest, status: RunStatus) -> Vec<Work> {
        let mut works = Vec::new();
        if status != RunStatus::Unknown || plan.judge {
            works.push(plan.work(bank, Ask::Lessons, vec![digest]));
        }
        if status == RunStatus::Success && plan.procedures {
            works.push(plan.work(bank, Ask::Procedures, vec![digest]));
        }
        works
    }

    /// Writes a group and queues works with it: there both or neither. When the queue is full the group is written alone, and
    /// the error says so.
    pub(super) fn write_queued(&self, bank: &BankId, batch: Batch, works: &[Work]) -> Answer<WrittenAndQueued> {
        let bytes: Vec<Vec<u8>> = works.iter().map(Work::to_bytes).collect();
        let ids = bytes.iter().map(|work| JobId::of(work)).collect();
        match self.induction().jobs.queue(bytes, self.now_ms()) {
            Ok(queued) => {
                let (records, runs) = self.write_with(bank, batch, &queued.settings())?;
                queued.keep();
                self.induction().wake();
                Ok((records, runs, Ok(ids)))
            }
            Err(full) => {
                let (records, runs) = self.write(bank, batch)?;
                Ok((records, runs, Err(full)))
            }
        }
    }

    /// A lesson that a run says it had been given.
    pub(crate) fn given(&self, id: &str) -> Option<LessonDraft> {
        let lesson = self.0.store.lesson(&id.parse().ok()?).ok()??;
        Some(lesson.fields().clone())
    }

    /// Whether this node once taught a lesson in this bank; it may have been withdrawn since, and is not taught again.
    pub(super) fn has_spoken(&self, bank: &BankId, lesson: &Lesson) -> bool {
        self.0.catalogue.has_spoken(bank, &lesson.id(), &self.me())
    }

    /// Claims that teach drafts, without those that this node once taught, and which of the drafts are not kept because lessons
    /// say the same already; what is no lesson is reported.
    pub(super) fn claims_of(
        &self,
        bank: &BankId,
        drafts: Vec<Draft>,
        known: &mut Fresh,
        problems: &mut Vec<String>,
    ) -> (Claims, Vec<api::Replaced>) {
        let (mut claims, mut replaced) = (Vec::new(), Vec::new());
        for draft in drafts {
            match lesson_of(&draft) {
                Ok(lesson) if self.has_spoken(bank, &lesson) => {}
                Ok(lesson) => {
                    if let Some(lesson) = self.merged(bank, lesson, known, &claims, &mut replaced) {
                        let claim = Claim::Taught { lesson_id: lesson.id(), evidence: draft.evidence };
                        claims.push((claim, Some(lesson)));
                    }
                }
                Err(error) => problems.push(error.to_string()),
            }
        }
        (claims, replaced)
    }

    /// The runs of a job, in its order.
    pub(crate) async fn runs_of(&self, work: &Work) -> Answer<Vec<Run>> {
        let digests = work.runs.clone();
        self.blocking(move |m| digests.iter().map(|digest| Ok(m.stored_run(digest)?.0)).collect()).await
    }

    /// A run by the digest that the bank knows it by, and the key of its task there.
    pub(super) fn stored_run(&self, digest: &RunDigest) -> Answer<(Run, String)> {
        let row = self.0.store.run(digest).map_err(read_failed)?;
        let row = row.ok_or_else(|| ApiError::not_found(format!("run {} is not here any more", digest_hex(digest))))?;
        let run = canonical::decode::<Run, MAX_RUN_BYTES>(&row.bytes)
            .map_err(|error| ApiError::failed(format!("run {} does not read: {error}", digest_hex(digest))))?;
        Ok((run, row.task_key))
    }

    /// Whether this node may write to the bank of a job by now.
    pub(crate) async fn may_bring(&self, work: &Work) -> Answer<()> {
        let bank = work.bank;
        self.blocking(move |m| m.check_policy(&bank)).await
    }

    /// Writes what a job brought, and that it is done, as one group. A job that was dropped meanwhile brings nothing. Where the
    /// policy forbids its lessons by now, only a verdict is written, and why the job is to be given up is returned.
    pub(crate) async fn finish_job(
        &self,
        id: JobId,
        work: Work,
        drafts: Vec<Draft>,
        judged: Option<Run>,
    ) -> Answer<Option<String>> {
        self.blocking(move |m| m.finish_job_now(&id, &work, drafts, judged)).await
    }

    fn finish_job_now(
        &self,
        id: &JobId,
        work: &Work,
        drafts: Vec<Draft>,
        judged: Option<Run>,
    ) -> Answer<Option<String>> {
        let mut problems = Vec::new();
        let (claims, replaced) = self.claims_of(&work.bank, drafts, &mut Fresh::default(), &mut problems);
        for api::Replaced { title, by, .. } in replaced {
            tracing::info!(job = %id, title, by, "a lesson of a model says what that one says");
        }
        for problem in problems {
            tracing::warn!(job = %id, problem, "a lesson of a model is no lesson after redaction");
        }
        let (mut rows, mut next) = (Vec::new(), Vec::new());
        if let (Some(run), Some(digest)) = (judged, work.runs.first()) {
            (rows, next) = self.relabelled(*digest, &run, work)?;
        }
        if !claims.is_empty()
            && let Err(refused) = self.check_policy(&work.bank)
        {
            if !rows.is_empty() {
                self.write(&work.bank, Batch { claims: Vec::new(), runs: rows, skip_if_taught: true })?;
            }
            return Ok(Some(refused.message));
        }
        let batch = Batch { claims, runs: rows, skip_if_taught: true };
        let jobs = &self.induction().jobs;
        // What follows from a verdict finds no room in a full queue; the run keeps its label and can be induced by hand.
        let queued = jobs.queue(next.iter().map(Work::to_bytes).collect(), self.now_ms()).ok();
        let mut more: Settings = queued.as_ref().map(|queued| queued.settings()).unwrap_or_default();
        let done = jobs.done(id, |mut settings| {
            settings.append(&mut more);
            self.write_with(&work.bank, batch, &settings)
        })?;
        if let (Some(queued), Some(_)) = (queued, done) {
            queued.keep();
            self.induction().wake();
        }
        Ok(None)
    }

    /// The row of a run that a model gave a label, and what is to be asked now that it has one.
    fn relabelled(&self, digest: RunDigest, run: &Run, work: &Work) -> Answer<(Vec<RunRow>, Vec<Work>)> {
        let (_, task_key) = self.stored_run(&digest)?;
        let plan = Plan::from(work);
        let mut next = Vec::new();
        if run.outcome.status == RunStatus::Success && plan.procedures {
            next.push(plan.work(work.bank, Ask::Procedures, vec![digest]));
        }
        // Its label may be the one that a contrast was waiting for.
        let outcome = Outcome::from(run.outcome.status);
        let group = self.both_outcomes(&task_key, prompt::MAX_GROUP, Some((digest, outcome)));
        if !group.is_empty() {
            next.push(plan.work(work.bank, Ask::Contrast, group));
        }
        let bytes = canonical::encode(run);
        Ok((vec![RunRow { digest, task_key, outcome, bytes }], next))
    }

    /// The runs of a task that a contrast is drawn from: none unless it has both outcomes, else the first of each by digest, at
    /// most `most` that can be read at once, without reading the others. `label` is one that is about to be written.
    pub(super) fn both_outcomes(&self, task: &str, most: usize, label: Option<(RunDigest, Outcome)>) -> Vec<RunDigest> {
        let store = &self.0.store;
        let mut digests = store.run_digests_of_task(task);
        digests.sort_unstable();
        let (mut solved, mut others) = (Vec::new(), Vec::new());
        let mut failed = false;
        for digest in digests {
            let about = label.filter(|(other, _)| *other == digest).map(|(_, outcome)| outcome);
            match about.or_else(|| store.run_outcome(&digest)) {
                Some(Outcome::Success) => solved.push(digest),
                Some(outcome @ (Outcome::Failure | Outcome::Partial)) => {
                    failed |= outcome == Outcome::Failure;
                    others.push(digest);
                }
                Some(Outcome::Unknown) | None => {}
            }
        }
        if solved.is_empty() || !failed {
            return Vec::new();
        }
        // One outcome that is rare leaves its room to the other.
        let half = most / 2;
        let room = most - others.len().min(half);
        solved.truncate(room.max(half));
        others.truncate(most - solved.len());
        that_fit(&mut solved, &mut others, |digest| store.run_bytes(digest).unwrap_or_default());
        let mut both = [solved, others].concat();
        both.sort_unstable();
        both
    }

    /// A run by its id or the first digits of it.
    pub(super) fn held(&self, text: &str) -> Answer<Held> {
        let short = || {
            ApiError::bad_request(format!(
                "'{}' is no run id: at least {MIN_ID_PREFIX} hex digits, as 'folklore attempts' shows them",
                brief(text)
            ))
        };
        if text.len() < MIN_ID_PREFIX || text.len() > 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(short());
        }
        let found = self.0.store.find_runs(&text.to_ascii_lowercase());
        let digest = match found[..] {
            [] => return Err(ApiError::not_found(format!("no run here has an id that begins with {text}"))),
            [one] => one,
            _ => return Err(ApiError::bad_request(format!("several runs begin with {text}: give more digits"))),
        };
        self.held_run(digest)
    }

    pub(super) fn held_run(&self, digest: RunDigest) -> Answer<Held> {
        let (run, task_key) = self.stored_run(&digest)?;
        // The key begins with the bank's id: a run imported into one bank is no evidence in another.
        let place = task_key.split('/').next().unwrap_or_default();
        let bank = self.0.store.banks().into_iter().find(|bank| bank.id.to_string().starts_with(place));
        let bank =
            bank.ok_or_else(|| ApiError::not_found(format!("the bank of run {} is gone", digest_hex(&digest))))?;
        Ok(Held { digest, bank, run })
    }

    /// Runs that are read one by one, as long as they can be held at once.
    fn gathered(&self, runs: impl Iterator<Item = Answer<Held>>) -> Answer<Vec<Held>> {
        let (mut gathered, mut bytes) = (Vec::new(), 0);
        for held in runs {
            let held = held?;
            bytes += self.0.store.run_bytes(&held.digest).unwrap_or_default();
            // The longest of all has a part more than its limit.
            if bytes > MAX_COMPARED_BYTES && gathered.len() > 1 {
                return Err(ApiError::bad_request(format!(
                    "the runs have more than {MAX_COMPARED_BYTES} bytes together, the limit: name fewer of them, by \
                     their ids"
                )));
            }
            gathered.push(held);
        }
        Ok(gathered)
    }

    /// The runs that a request names: ids, or one task.
    fn named_runs(&self, names: &[String], ask: Ask) -> Answer<Vec<Held>> {
        if names.is_empty() || names.len() > api::MAX_INDUCED_RUNS {
            return Err(ApiError::bad_request(format!("1 to {} runs are wanted", api::MAX_INDUCED_RUNS)));
        }
        let is_id = |text: &str| text.len() >= MIN_ID_PREFIX && text.bytes().all(|b| b.is_ascii_hexdigit());
        let held: Vec<Held> = match names {
            [one] if !is_id(one) => {
                let (mut groups, _) = self.tasks_like(one, None)?;
                let Some((key, digests)) = groups.pop().filter(|_| groups.is_empty()) else {
                    return Err(ApiError::not_found(format!(
                        "'{}' is neither a run's id nor one task: 'folklore attempts' shows what there is",
                        brief(one)
                    )));
                };
                let both = if ask == Ask::Contrast {
                    self.both_outcomes(&key, prompt::MAX_GROUP, None)
                } else {
                    digests.into_iter().take(api::MAX_INDUCED_RUNS).collect()
                };
                self.gathered(both.into_iter().map(|digest| self.held_run(digest)))?
            }
            _ => self.gathered(names.iter().map(|name| self.held(name)))?,
        };
        let Some(first) = held.first() else {
            return Err(ApiError::bad_request(
                "a contrast needs runs of one task with both outcomes, and there are none",
            ));
        };
        if held.iter().any(|other| other.bank.id != first.bank.id) {
            return Err(ApiError::bad_request("the runs are of several banks: name those of one"));
        }
        if ask == Ask::Contrast {
            if held.iter().any(|other| other.run.task_key != first.run.task_key) {
                return Err(ApiError::bad_request(
                    "a contrast is drawn from runs of one task, and these are of several",
                ));
            }
            let has = |status| held.iter().any(|held| held.run.outcome.status == status);
            if held.len() > prompt::MAX_GROUP || !has(RunStatus::Success) || !has(RunStatus::Failure) {
                return Err(ApiError::bad_request(format!(
                    "a contrast needs a run that succeeded and one that failed, {} at most",
                    prompt::MAX_GROUP
                )));
            }
        }
        self.check_may_write(&first.bank)?;
        Ok(held)
    }

    pub(super) fn induce_now(&self, request: api::InduceRequest) -> Answer<api::InduceResponse> {
        let configured = self.induction().configured.provider.map(ChatProvider::as_str);
        let name = request.backend.as_deref().or(configured).unwrap_or(EXTRACTIVE);
        let backend = self.backend(name, &request.model)?;
        let held = self.named_runs(&request.runs, request.ask)?;
        match backend {
            Backend::Extractive if request.dry_run => {
                Err(ApiError::bad_request("the extractive backend asks nobody, so there is no prompt to show"))
            }
            Backend::Extractive => self.induce_by_rules(&held, request.ask),
            Backend::None => Err(ApiError::bad_request("'none' draws no lessons: name a backend")),
            Backend::Agent => {
                let bytes = request.model.prompt_bytes.unwrap_or(self.induction().configured.prompt_bytes());
                Ok(api::InduceResponse { prompts: prompts(&held, request.ask, bytes, None)?, ..Default::default() })
            }
            Backend::Model(plan) if request.dry_run => {
                let service = format!("{} at {}", plan.target.name(), plan.target.url);
                let prompts = prompts(&held, request.ask, plan.prompt_bytes, Some(&service))?;
                Ok(api::InduceResponse { prompts, ..Default::default() })
            }
            Backend::Model(plan) => self.queue_runs(&held, request.ask, &plan),
        }
    }

    fn queue_runs(&self, held: &[Held], ask: Ask, plan: &Plan) -> Answer<api::InduceResponse> {
        let Some(bank) = held.first().map(|held| held.bank.id) else { return Ok(api::InduceResponse::default()) };
        let works: Vec<Work> = groups(held, ask)
            .into_iter()
            .map(|group| plan.work(bank, ask, group.iter().map(|held| held.digest).collect()))
            .collect();
        let (_, _, queued) = self.write_queued(&bank, Batch::default(), &works)?;
        let ids = queued.map_err(|error| ApiError::failed(error.to_string()))?;
        Ok(api::InduceResponse { jobs: ids.iter().map(ToString::to_string).collect(), ..Default::default() })
    }

    fn induce_by_rules(&self, held: &[Held], ask: Ask) -> Answer<api::InduceResponse> {
        let Some(bank) = held.first().map(|held| held.bank.id) else { return Ok(api::InduceResponse::default()) };
        let given = |id: &str| self.given(id);
        let runs: Vec<Run> = held.iter().map(|held| held.run.clone()).collect();
        let induced = match ask {
            Ask::Lessons => learn::separately(&runs, &given),
            Ask::Contrast => learn::contrast(&runs.iter().collect::<Vec<_>>(), &given),
            Ask::Procedures | Ask::Judge => {
                return Err(ApiError::bad_request(format!(
                    "'{}' needs a model: --backend agent, openai, gemini or anthropic",
                    ask.as_str()
                )));
            }
        };
        let no_lesson = |none: learn::NoLesson| api::NoLesson { run: none.run, reason: none.reason };
        let mut no_lesson: Vec<api::NoLesson> = induced.no_lesson.into_iter().map(no_lesson).collect();
        let mut problems = Vec::new();
        let (claims, replaced) = self.claims_of(&bank, induced.lessons, &mut Fresh::default(), &mut problems);
        no_lesson.extend(problems.into_iter().map(|reason| api::NoLesson { run: String::new(), reason }));
        let (records, _) = self.write(&bank, Batch { claims, runs: Vec::new(), skip_if_taught: true })?;
        Ok(api::InduceResponse { lessons: ids_of(&records), replaced, no_lesson, ..Default::default() })
    }

    /// Takes what an agent's own model answered: the same checks as for any model, and the objection is the caller's to pass on.
    pub(super) fn induce_answer_now(&self, request: api::InduceAnswerRequest) -> Answer<api::InduceAnswerResponse> {
        if request.answer.len() > api::MAX_INDUCED_ANSWER_BYTES {
            return Err(ApiError::bad_request(format!(
                "the answer has {} bytes, the limit is {}",
                request.answer.len(),
                api::MAX_INDUCED_ANSWER_BYTES
            )));
        }
        let held = self.named_runs(&request.runs, request.ask)?;
        let [group] = &groups(&held, request.ask)[..] else {
            return Err(ApiError::bad_request("an answer is about the runs of one prompt: name those"));
        };
        let Some(first) = group.first() else { return Ok(api::InduceAnswerResponse::default()) };
        let mut by = request.by.unwrap_or_default();
        Struck::default().settle(&mut by, Lines::One);
        let by = if by.is_empty() { AGENT.to_owned() } else { format!("{AGENT}:{}", shorten(&by, MAX_NAME_BYTES / 2)) };
        if request.ask == Ask::Judge {
            return self.take_verdict(first, &request.answer, &by);
        }
        if group.iter().any(|held| held.run.outcome.status == RunStatus::Unknown) {
            return Err(ApiError::bad_request(
                "the run has no outcome label yet: ask for a verdict first (--ask judge)",
            ));
        }
        let runs: Vec<&Run> = group.iter().map(|held| &held.run).collect();
        let checked = read_lessons(&request.answer, request.ask, &runs, &by, self);
        let mut problems = checked.problems;
        let (claims, replaced) = self.claims_of(&first.bank.id, checked.drafts, &mut Fresh::default(), &mut problems);
        let (records, _) = self.write(&first.bank.id, Batch { claims, runs: Vec::new(), skip_if_taught: true })?;
        let objection = (!problems.is_empty()).then(|| prompt::objection(&problems));
        Ok(api::InduceAnswerResponse { lessons: ids_of(&records), replaced, verdict: None, problems, objection })
    }

    fn take_verdict(&self, held: &Held, text: &str, by: &str) -> Answer<api::InduceAnswerResponse> {
        if held.run.outcome.status != RunStatus::Unknown {
            return Err(ApiError::bad_request("the run has a label already; a verdict does not replace one"));
        }
        let mut run = held.run.clone();
        let read = answer::verdict(text).and_then(|told| check::verdict(&told, &mut run, by));
        match read {
            Err(problem) => {
                let objection = Some(prompt::objection(std::slice::from_ref(&problem)));
                Ok(api::InduceAnswerResponse { problems: vec![problem], objection, ..Default::default() })
            }
            Ok(false) => Ok(api::InduceAnswerResponse { verdict: Some(Outcome::Unknown), ..Default::default() }),
            Ok(true) => {
                let (_, task_key) = self.stored_run(&held.digest)?;
                let outcome = Outcome::from(run.outcome.status);
                let row = RunRow { digest: held.digest, task_key, outcome, bytes: canonical::encode(&run) };
                self.write(&held.bank.id, Batch { claims: Vec::new(), runs: vec![row], skip_if_taught: true })?;
                Ok(api::InduceAnswerResponse { verdict: Some(outcome), ..Default::default() })
            }
        }
    }

    pub(super) fn jobs_now(&self) -> api::JobsResponse {
        let progress = self.induction().progress();
        let jobs = self.induction().jobs.list().into_iter().map(|(job, taken)| to_job(&job, taken)).collect();
        api::JobsResponse {
            jobs,
            waiting: progress.waiting as u64,
            failed: progress.failed as u64,
            error: progress.error,
            retry_in_s: progress.rests_s,
        }
    }

    pub(super) fn induction_info(&self) -> Option<api::InductionInfo> {
        let induction = self.induction();
        let progress = induction.progress();
        let service =
            Plan::of(&induction.configured).ok().map(|plan| format!("{} at {}", plan.target.name(), plan.target.url));
        if service.is_none() && progress.waiting + progress.failed == 0 {
            return None;
        }
        Some(api::InductionInfo {
            ended: self.standing_plan().is_some(),
            service,
            waiting: progress.waiting as u64,
            failed: progress.failed as u64,
            error: progress.error,
            retry_in_s: progress.rests_s,
        })
    }

    /// The jobs that a request names.
    fn named_jobs(&self, text: &str) -> Answer<Vec<JobId>> {
        let jobs = self.induction().jobs.list();
        if text == "all" {
            return Ok(jobs.iter().filter(|(job, _)| job.has_failed()).map(|(job, _)| job.id()).collect());
        }
        if text.len() < MIN_ID_PREFIX {
            return Err(ApiError::bad_request(format!(
                "'{}' is too short for a job's id: give at least {MIN_ID_PREFIX} digits of it, or 'all' for those that failed",
                brief(text)
            )));
        }
        let begins = |id: &JobId| id.to_string().starts_with(&text.to_ascii_lowercase());
        let found: Vec<JobId> = jobs.iter().map(|(job, _)| job.id()).filter(begins).collect();
        match found.len() {
            0 => Err(ApiError::not_found(format!("no job has an id that begins with {}", brief(text)))),
            1 => Ok(found),
            _ => Err(ApiError::bad_request(format!("several jobs begin with {}: give more digits", brief(text)))),
        }
    }

    pub(super) fn retry_jobs_now(&self, request: &api::JobRequest) -> Answer<api::JobResponse> {
        let ids = self.named_jobs(&request.id)?;
        for id in &ids {
            self.induction().jobs.retry(id).map_err(super::write_failed)?;
        }
        self.induction().hurry();
        Ok(api::JobResponse { jobs: ids.iter().map(ToString::to_string).collect() })
    }

    pub(super) fn drop_jobs_now(&self, request: &api::JobRequest) -> Answer<api::JobResponse> {
        let ids = self.named_jobs(&request.id)?;
        for id in &ids {
            if !self.induction().jobs.drop_job(id).map_err(super::write_failed)? {
                return Err(ApiError::failed(format!("what job {id} brought is being written right now")));
            }
        }
        Ok(api::JobResponse { jobs: ids.iter().map(ToString::to_string).collect() })
    }
}

/// What is asked about together: all runs for a contrast, else each by itself.
fn groups(held: &[Held], ask: Ask) -> Vec<Vec<&Held>> {
    if ask == Ask::Contrast { vec![held.iter().collect()] } else { held.iter().map(|held| vec![held]).collect() }
}

fn prompts(held: &[Held], ask: Ask, bytes: usize, service: Option<&str>) -> Answer<Vec<api::PromptView>> {
    if !crate::induction::config::PROMPT_BYTES.contains(&bytes) {
        let range = crate::induction::config::PROMPT_BYTES;
        return Err(ApiError::bad_request(format!("prompt_bytes is {} to {}", range.start(), range.end())));
    }
    let view = |group: Vec<&Held>| {
        let runs: Vec<&Run> = group.iter().map(|held| &held.run).collect();
        // A run that nobody judged is judged first: what it teaches depends on how it ended.
        let unlabelled = runs.first().is_some_and(|run| run.outcome.status == RunStatus::Unknown);
        let ask = if ask == Ask::Lessons && unlabelled { Ask::Judge } else { ask };
        let prompt = prompt::of(ask, &runs, bytes).outgoing();
        api::PromptView {
            ask,
            runs: group.iter().map(|held| digest_hex(&held.digest)).collect(),
            estimated_tokens: prompt.tokens(),
            system: prompt.system,
            user: prompt.user,
            service: service.map(str::to_owned),
        }
    };
    Ok(groups(held, ask).into_iter().map(view).collect())
}

pub(super) fn ids_of(records: &[Record]) -> Vec<String> {
    let ids: BTreeSet<String> = records.iter().filter_map(|r| r.claim().body()).map(|id| id.to_string()).collect();
    ids.into_iter().collect()
}

fn to_job(job: &Job, taken: bool) -> api::JobView {
    let work = Work::from_bytes(&job.work);
    let state = match (job.has_failed(), taken) {
        (true, _) => api::JobState::Failed,
        (false, true) => api::JobState::Running,
        (false, false) => api::JobState::Waiting,
    };
    let (ask, runs, service) = match &work {
        Ok(work) => (
            work.ask.as_str().to_owned(),
            work.runs.iter().map(digest_hex).collect(),
            format!("{} at {}", work.target.name(), work.target.url),
        ),
        Err(_) => ("unreadable".to_owned(), Vec::new(), String::new()),
    };
    api::JobView {
        id: job.id().to_string(),
        state,
        ask,
        runs,
        service,
        queued: api::TimeMs(job.queued_ms),
        reason: job.has_failed().then(|| job.failure.clone()),
    }
}
