//! Works off the queue of what models are asked.
//!
//! A job that meets a service that is away, full, or not set up rightly goes back into the queue, and that service is left
//! alone for a while: from a second up to five minutes, half of it random, so that many nodes do not come back in step. A job
//! whose answer cannot be used after one objection fails and waits for a person (`folklore jobs`). What a job brings is
//! written in one group with its end, so a crash at any moment leaves it either done or still to do. Where that cannot be
//! written, as on a full disk, the answer is kept and only the write is tried again: nobody pays for it twice.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use folklore_store::{
    jobs::{Job, JobId, Jobs},
    learn::Draft,
    run::{Run, RunStatus},
};
use tokio::{sync::Notify, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{
    Ask, InductionOptions, Target, Work, answer,
    check::{self, Checked},
    config::{DEFAULT_CALLS_AN_HOUR, DEFAULT_TOKENS_AN_HOUR},
    prompt,
};
use crate::{
    memory::Memory,
    service::{
        CallError, ChatModel, Patience,
        call::half_random,
        chat::{MAX_ANSWER_TOKENS, Prompt, Reply},
    },
};

/// Jobs at one time. A model of one's own serves few at once, and a service counts them.
const AT_ONCE: usize = 4;
/// First and longest rest of a service that failed.
const FIRST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(300);
/// First rest before what a job brought is written again.
const FIRST_UNWRITTEN_REST: Duration = Duration::from_secs(10);
/// Times that it is tried, after which it may be the job that is at fault: it is given up, if at least that can be written.
const MAX_WRITES: u32 = 3;
/// Longest time between two looks at the queue.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Times that a service may answer one job with something unusable before the job is given up. A network that asks for a
/// login first answers so too, so one time is not enough.
const MAX_UNUSABLE: u32 = 3;
const HOUR: Duration = Duration::from_secs(3600);

/// The queue, whom it asks, and how that goes.
#[derive(Debug)]
pub struct Induction {
    /// What the home's configuration says.
    pub configured: InductionOptions,
    /// The queue.
    pub jobs: Jobs,
    state: Mutex<State>,
    wake: Notify,
    /// Wakes those that wait to write again.
    write_again: Notify,
}

#[derive(Debug)]
struct State {
    rests: BTreeMap<Target, Rest>,
    unusable: BTreeMap<JobId, u32>,
    /// Why the ends of jobs cannot be written.
    unwritten: BTreeMap<JobId, String>,
    hour: Instant,
    calls: u32,
    tokens: u64,
    /// The hour's budget is used up.
    spent: Option<String>,
    /// Since the start.
    used: Used,
}

/// What models were asked since the start, and how the jobs ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// Calls made, those that failed too.
    pub calls: u64,
    /// Tokens of prompts and answers, estimated as the budget does.
    pub tokens: u64,
    /// Jobs done.
    pub done: u64,
    /// Jobs given up.
    pub given_up: u64,
}

/// How the queue stands, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Meter {
    /// Jobs that wait.
    pub waiting: u64,
    /// Jobs that are being done.
    pub running: u64,
    /// Jobs that were given up and wait for a person.
    pub failed: u64,
    /// Services that are being left alone.
    pub resting: u64,
    /// Calls of this hour, and how many it may have.
    pub calls: (u64, u64),
    /// Tokens of this hour, and how many it may have.
    pub tokens: (u64, u64),
    /// Since the start.
    pub used: Used,
}

impl State {
    fn take(&mut self, calls: u32, tokens: u64) {
        self.calls += calls;
        self.tokens += tokens;
        self.used.calls += u64::from(calls);
        self.used.tokens += tokens;
    }
}

#[derive(Debug)]
struct Rest {
    until: Instant,
    pause: Duration,
    error: String,
}

/// How a job ended.
enum Ended {
    /// With something to be written.
    Brought(Box<Brought>),
    /// To be done later: the service is at fault, or the budget.
    Later(Later),
    /// Not to be done again by itself.
    Failed(String),
}

enum Later {
    Service(Target, String),
    Budget,
}

/// What a job brought.
struct Brought {
    work: Work,
    drafts: Vec<Draft>,
    judged: Option<Run>,
}

/// Why a talk with a model brought nothing.
enum Trouble {
    Later(Later),
    Call(CallError),
}

/// How the queue fares.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// Jobs that wait or are being done.
    pub waiting: usize,
    /// Jobs that were given up.
    pub failed: usize,
    /// What is wrong with a service that is being left alone, or with the budget.
    pub error: Option<String>,
    /// Seconds until it is tried again.
    pub rests_s: Option<u64>,
}

impl Induction {
    /// A queue and the configuration it is worked off by.
    #[must_use]
    pub fn new(configured: InductionOptions, jobs: Jobs) -> Self {
        let state = State {
            rests: BTreeMap::new(),
            unusable: BTreeMap::new(),
            unwritten: BTreeMap::new(),
            hour: Instant::now(),
            calls: 0,
            tokens: 0,
            spent: None,
            used: Used::default(),
        };
        Self { configured, jobs, state: Mutex::new(state), wake: Notify::new(), write_again: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something new waits.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// A person wants it tried now: no service is left alone any longer.
    pub fn hurry(&self) {
        self.state().rests.clear();
        self.wake.notify_one();
        self.write_again.notify_waiters();
    }

    /// How it fares.
    pub fn progress(&self) -> Progress {
        let (waiting, failed) = self.jobs.counts();
        let state = self.state();
        let now = Instant::now();
        let rest = state.rests.values().filter(|rest| rest.until > now).min_by_key(|rest| rest.until);
        let unwritten = state.unwritten.values().next().cloned();
        let error = unwritten.or_else(|| state.spent.clone()).or_else(|| rest.map(|rest| rest.error.clone()));
        // Nothing is wrong with a service that nobody waits for.
        let error = error.filter(|_| waiting > 0);
        let rests_s = rest.filter(|_| waiting > 0).map(|rest| rest.until.duration_since(now).as_secs());
        Progress { waiting, failed, error, rests_s }
    }

    /// How it stands.
    pub fn meter(&self) -> Meter {
        let count = |n: usize| n as u64;
        let ((waiting, failed), running) = (self.jobs.counts(), self.jobs.running());
        let (most_calls, most_tokens) = self.most();
        let state = self.state();
        let now = Instant::now();
        // A new hour begins with the next job that is looked at.
        let over = now.duration_since(state.hour) >= HOUR;
        let of_hour = |n: u64| if over { 0 } else { n };
        Meter {
            waiting: count(waiting.saturating_sub(running)),
            running: count(running),
            failed: count(failed),
            resting: count(state.rests.values().filter(|rest| rest.until > now).count()),
            calls: (of_hour(state.calls.into()), most_calls.into()),
            tokens: (of_hour(state.tokens), most_tokens),
            used: state.used,
        }
    }

    /// The calls and tokens that an hour may have.
    fn most(&self) -> (u32, u64) {
        let calls = self.configured.calls_an_hour.unwrap_or(DEFAULT_CALLS_AN_HOUR);
        (calls, self.configured.tokens_an_hour.unwrap_or(DEFAULT_TOKENS_AN_HOUR))
    }

    /// Works the queue off until `stop`. Jobs under way then are put back by their end: they are still in the bank.
    pub async fn work(self: Arc<Self>, memory: Memory, stop: CancellationToken) {
        let mut under_way = JoinSet::new();
        loop {
            while under_way.len() < AT_ONCE
                && let Some(job) = self.next()
            {
                let (induction, memory) = (Arc::clone(&self), memory.clone());
                under_way.spawn(async move { induction.one(&memory, &job).await });
            }
            let nap = self.nap();
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(_) = under_way.join_next(), if !under_way.is_empty() => {}
                () = self.wake.notified() => {}
                () = tokio::time::sleep(nap) => {}
            }
        }
        under_way.shutdown().await;
    }

    /// The next job whose service is not being left alone.
    fn next(&self) -> Option<Job> {
        let now = Instant::now();
        let resting: Vec<Target> = {
            let mut state = self.state();
            if now.duration_since(state.hour) >= HOUR {
                (state.hour, state.calls, state.tokens, state.spent) = (now, 0, 0, None);
            }
            if state.spent.is_some() {
                return None;
            }
            state.rests.iter().filter(|(_, rest)| rest.until > now).map(|(target, _)| target.clone()).collect()
        };
        let rests = |job: &Job| Work::from_bytes(&job.work).is_ok_and(|work| resting.contains(&work.target));
        self.jobs.take(|job| resting.is_empty() || !rests(job))
    }

    /// How long nothing happens unless somebody wakes the worker.
    fn nap(&self) -> Duration {
        let now = Instant::now();
        let state = self.state();
        let ends = state.rests.values().map(|rest| rest.until).filter(|until| *until > now);
        let next = ends.min().map_or(LOOK_EVERY, |until| until.duration_since(now));
        next.clamp(Duration::from_millis(10), LOOK_EVERY)
    }

    /// One job from its beginning to its end.
    async fn one(&self, memory: &Memory, job: &Job) {
        let id = job.id();
        match self.perform(memory, job).await {
            Ended::Brought(brought) => self.settle(memory, id, Some(*brought), None).await,
            Ended::Failed(reason) => self.settle(memory, id, None, Some(reason)).await,
            Ended::Later(why) => {
                self.jobs.put_back(&id);
                match why {
                    Later::Service(target, error) => self.rest(target, error),
                    // The next hour begins anew.
                    Later::Budget => {}
                }
            }
        }
    }

    /// Writes the end of a job: what it brought, or why it is given up. Goes on until one of them is written, and holds the job so
    /// long: put back, it would be asked about and paid for again. What can never be written is given up after some tries.
    async fn settle(&self, memory: &Memory, id: JobId, mut brought: Option<Brought>, mut reason: Option<String>) {
        let mut pause = FIRST_UNWRITTEN_REST;
        let mut writes = 0_u32;
        loop {
            let mut error = None;
            if let Some(Brought { work, drafts, judged }) = &brought {
                match memory.finish_job(id, work.clone(), drafts.clone(), judged.clone()).await {
                    Ok(None) => {
                        self.state().used.done += 1;
                        break;
                    }
                    Ok(Some(refused)) => (brought, reason) = (None, Some(refused)),
                    Err(failed) => error = Some(failed.message),
                }
                writes = writes.saturating_add(1);
                if writes >= MAX_WRITES {
                    let unwritten = error.as_deref().map(|error| format!("what it brought cannot be written: {error}"));
                    reason = reason.or(unwritten);
                }
            }
            if let Some(reason) = &reason {
                match self.give_up(id, reason).await {
                    Ok(()) => break,
                    Err(failed) => error = Some(failed),
                }
            }
            let error = error.unwrap_or_default();
            tracing::error!(job = %id, error, "how a job ended cannot be written; it is tried again");
            self.state().unwritten.insert(id, format!("how a job ended cannot be written: {error}"));
            tokio::select! {
                () = tokio::time::sleep(half_random(pause)) => {}
                () = self.write_again.notified() => {}
            }
            pause = (pause * 2).min(LONGEST_REST);
        }
        let mut state = self.state();
        state.unusable.remove(&id);
        state.unwritten.remove(&id);
    }

    async fn give_up(&self, id: JobId, reason: &str) -> Result<(), String> {
        let (jobs, why) = (self.jobs.clone(), reason.to_owned());
        let failed = tokio::task::spawn_blocking(move || jobs.fail(&id, &why)).await;
        match failed {
            Ok(Ok(())) => {
                tracing::warn!(job = %id, reason, "a job is given up: 'folklore jobs' shows it");
                self.state().used.given_up += 1;
                Ok(())
            }
            Ok(Err(error)) => Err(error.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Leaves a service alone for a while, longer each time.
    fn rest(&self, target: Target, error: String) {
        let now = Instant::now();
        let mut state = self.state();
        let before = state.rests.get(&target);
        // Several jobs met the same trouble at the same time.
        if before.is_some_and(|rest| rest.until > now) {
            return;
        }
        let pause = before.map_or(FIRST_REST, |rest| (rest.pause * 2).min(LONGEST_REST));
        tracing::warn!(error, rest_s = pause.as_secs(), "a model cannot be asked; its jobs wait");
        state.rests.insert(target, Rest { until: now + half_random(pause), pause, error });
    }

    async fn perform(&self, memory: &Memory, job: &Job) -> Ended {
        let work = match Work::from_bytes(&job.work) {
            Ok(work) => work,
            Err(error) => return Ended::Failed(format!("the job does not read: {error}")),
        };
        // It may have waited for weeks. A verdict stays with the run, which is this node's own.
        if work.ask != Ask::Judge
            && let Err(refused) = memory.may_bring(&work).await
        {
            return Ended::Failed(refused.message);
        }
        let mut runs = match memory.runs_of(&work).await {
            Ok(runs) => runs,
            Err(error) => return Ended::Failed(error.message),
        };
        let variable = |name: &str| std::env::var(name).ok();
        let model = match work.target.open(&self.configured, variable) {
            Ok(model) => model,
            Err(error) => return Ended::Later(Later::Service(work.target, error)),
        };
        let mut judged = None;
        let wants_verdict = work.ask == Ask::Judge || work.ask == Ask::Lessons;
        if let Some(run) = runs.first_mut()
            && wants_verdict
            && run.outcome.status == RunStatus::Unknown
        {
            if work.ask == Ask::Lessons && !work.judge {
                return Ended::Failed("the run has no outcome label, and the model is not to judge".into());
            }
            match self.verdict(&model, run, &work).await {
                Ok(Ok(true)) => judged = Some(run.clone()),
                // It cannot be told how the run ended, so it teaches nothing; that is an end too.
                Ok(Ok(false)) => {}
                Ok(Err(problem)) => return Ended::Failed(problem),
                Err(trouble) => return self.trouble(job, &work, trouble),
            }
        }
        let unlabelled = runs.iter().any(|run| run.outcome.status == RunStatus::Unknown);
        let drafts = if work.ask == Ask::Judge || unlabelled {
            Vec::new()
        } else {
            match self.lessons(memory, &model, &runs, &work).await {
                Ok(Ok(checked)) => {
                    if checked.drafts.is_empty() {
                        tracing::info!(job = %job.id(), none = checked.none, relearned = checked.relearned, "no lesson");
                    }
                    checked.drafts
                }
                Ok(Err(problem)) => return Ended::Failed(problem),
                Err(trouble) => return self.trouble(job, &work, trouble),
            }
        };
        self.state().rests.remove(&work.target);
        Ended::Brought(Box::new(Brought { work, drafts, judged }))
    }

    fn trouble(&self, job: &Job, work: &Work, trouble: Trouble) -> Ended {
        let error = match trouble {
            Trouble::Later(later) => return Ended::Later(later),
            Trouble::Call(error) => error,
        };
        let later = |error: &CallError| Ended::Later(Later::Service(work.target.clone(), error.to_string()));
        match &error {
            // A wrong key or name is put right by a person, for all jobs at once.
            CallError::Unreachable { .. } | CallError::Busy { .. } => later(&error),
            CallError::Refused { status: 401..=404, .. } => later(&error),
            CallError::Refused { .. } => Ended::Failed(error.to_string()),
            CallError::BadAnswer { .. } => {
                let mut state = self.state();
                let times = state.unusable.entry(job.id()).or_default();
                *times += 1;
                if *times >= MAX_UNUSABLE { Ended::Failed(error.to_string()) } else { later(&error) }
            }
        }
    }

    /// A model's verdict on a run, put into it; an error is a problem with the answer.
    async fn verdict(&self, model: &ChatModel, run: &mut Run, work: &Work) -> Result<Result<bool, String>, Trouble> {
        let asked = prompt::of(Ask::Judge, &[run], work.prompt_bytes as usize);
        let by = model.name();
        let mut read = |text: &str| answer::verdict(text).and_then(|told| check::verdict(&told, run, &by));
        let first = self.call(model, work, &asked, &[]).await?;
        let problem = match read(&first) {
            Ok(labelled) => return Ok(Ok(labelled)),
            Err(problem) => problem,
        };
        let objection = prompt::objection(&[problem]);
        let second = self.call(model, work, &asked, &[Reply { answered: &first, objection: &objection }]).await?;
        Ok(read(&second).map_err(|problem| format!("the model gave no usable verdict, twice: {problem}")))
    }

    /// The lessons that a model draws; an error is a problem with the answer.
    async fn lessons(
        &self,
        memory: &Memory,
        model: &ChatModel,
        runs: &[Run],
        work: &Work,
    ) -> Result<Result<Checked, String>, Trouble> {
        let runs: Vec<&Run> = runs.iter().collect();
        let asked = prompt::of(work.ask, &runs, work.prompt_bytes as usize);
        let by = model.name();
        let read = |text: &str| read_lessons(text, work.ask, &runs, &by, memory);
        let first = self.call(model, work, &asked, &[]).await?;
        let before = read(&first);
        if before.problems.is_empty() {
            return Ok(Ok(before));
        }
        let objection = prompt::objection(&before.problems);
        let second = self.call(model, work, &asked, &[Reply { answered: &first, objection: &objection }]).await;
        let after = match second {
            Ok(second) => read(&second),
            // What was good in the first answer is not given up because nobody answers any more.
            Err(_) if !before.drafts.is_empty() => return Ok(Ok(before)),
            Err(trouble) => return Err(trouble),
        };
        let best = if after.drafts.len() >= before.drafts.len() { after } else { before };
        if best.drafts.is_empty() && !best.problems.is_empty() {
            return Ok(Err(format!("the model gave no usable lesson, twice: {}", best.problems.join("; "))));
        }
        Ok(Ok(best))
    }

    /// One call within the hour's budget.
    async fn call(
        &self,
        model: &ChatModel,
        work: &Work,
        prompt: &Prompt,
        then: &[Reply<'_>],
    ) -> Result<String, Trouble> {
        let talk: usize = then.iter().map(|reply| reply.answered.len() + reply.objection.len()).sum();
        let tokens = prompt.tokens() + (talk as u64).div_ceil(4);
        self.spend(tokens).map_err(|()| Trouble::Later(Later::Budget))?;
        let patience = Patience { timeout: self.timeout(work), ..Patience::BACKGROUND };
        // What a service did not answer in time it may have worked on, and want to be paid for.
        let again = || self.spend(tokens).is_ok();
        let answer = model.ask_while(prompt, then, patience, &again).await.map_err(Trouble::Call)?;
        self.state().take(0, (answer.len() as u64).div_ceil(4));
        Ok(answer)
    }

    fn timeout(&self, work: &Work) -> Duration {
        let named = self.configured.timeout_s.filter(|_| self.configured.provider == Some(work.target.provider));
        Duration::from_secs(named.unwrap_or(super::config::DEFAULT_TIMEOUT_S))
    }

    /// Takes a call of so many tokens from the hour's budget, with room for its answer.
    fn spend(&self, tokens: u64) -> Result<(), ()> {
        let (most_calls, most_tokens) = self.most();
        let mut state = self.state();
        // A prompt that is larger than the whole budget would otherwise wait for ever.
        let wanted = (tokens + u64::from(MAX_ANSWER_TOKENS)).min(most_tokens);
        if state.calls >= most_calls || state.tokens.saturating_add(wanted) > most_tokens {
            let text = format!(
                "{} calls and about {} tokens were used within an hour, of {most_calls} and {most_tokens} allowed; it goes \
                 on afterwards",
                state.calls, state.tokens
            );
            tracing::warn!("{text}");
            state.spent = Some(text);
            return Err(());
        }
        state.take(1, tokens);
        Ok(())
    }
}

/// What an answer holds, and what is wrong with it.
pub(crate) fn read_lessons(text: &str, ask: Ask, runs: &[&Run], by: &str, memory: &Memory) -> Checked {
    match answer::lessons(text) {
        Ok(told) => check::lessons(told, ask, runs, by, &|id| memory.given(id)),
        Err(problem) => Checked { problems: vec![problem], ..Checked::default() },
    }
}
