//! Runs under way. Texts are cleaned and redacted before they are hashed or stored; when a run ends it becomes a finished
//! run like those that are imported, and teaches what it teaches in the same group.

use folklore_protocol::{
    AuthorId, Event, LessonId, Outcome,
    canonical::{self, Lines, normalise, shorten},
};
use folklore_store::{
    bank::Batch,
    catalogue::{Recalled, Wish},
    run::{self, Run, RunOutcome, RunStatus, Step, digest_hex},
    runs::{
        MAX_RUN_BYTES,
        log::{
            Branch, Checkpoint, Ending, Lease, MAX_RUN_NAME_BYTES, MAX_STEP_BYTES, NewRun, Recorded, RunError, RunId,
            RunInfo,
        },
    },
};

use super::{
    Memory, clean_run,
    import::{Finished, strike_run},
    read_failed, stopping,
    teach::{Struck, brief},
    write_failed,
};
use crate::{
    api::{self, Answer, ApiError, TimeMs},
    induction::Work,
};

/// Bytes of a task in a list.
const SHOWN_TASK_BYTES: usize = 200;
/// Of the lessons shown as one hit, so many are noted as given: the others are nearly the same.
const NOTED_ALIKE: usize = 3;

impl Memory {
    pub(super) fn begin_now(&self, request: api::BeginRequest) -> Answer<api::BeginResponse> {
        let shared = request.bank.is_some();
        let bank = self.bank(request.bank.as_deref())?;
        self.check_may_write(&bank)?;
        let mut run = Run {
            task_key: request.task_key.unwrap_or_default(),
            task: request.task,
            domain: request.domain,
            agent: request.agent,
            tags: request.tags,
            ..Run::default()
        };
        // Clean first: a zero-width character could hide a secret from the rules.
        run.tidy();
        let struck = clean_run(&mut run);
        if run.task.is_empty() {
            return Err(ApiError::bad_request("the task is empty: say what is to be done"));
        }
        if run.task_key.is_empty() {
            run.task_key = Run::key_from_task(&run.task);
        }
        let id = run_id()?;
        let name = request.name.unwrap_or_else(|| id.to_string().chars().take(12).collect());
        let (task_key, task, tags) = (run.task_key, run.task, run.tags);
        let new = NewRun {
            id,
            name,
            bank: bank.id,
            shared: shared && bank.salt != crate::engine::PUBLIC_SALT,
            task_key,
            task,
            domain: run.domain,
            agent: run.agent,
            tags,
        };
        let shared = new.shared;
        let lease = self.0.store.begin_run(new, self.now_ms()).map_err(run_failed)?;
        self.tell(&lease.name)?;
        let info = self.0.store.run_info(&lease.name).map_err(run_failed)?;
        Ok(api::BeginResponse {
            run: lease.to_string(),
            name: lease.name,
            lease: lease.number,
            bank: bank.id.to_string(),
            shared,
            state: info.state.to_string(),
            redacted: struck.report(),
        })
    }

    pub(super) fn step_now(&self, request: api::StepRequest) -> Answer<api::StepResponse> {
        let lease: Lease = request.run.parse().map_err(run_failed)?;
        let mut struck = Struck::default();
        let mut clean = |text: String| {
            let mut text = run::clean(&text);
            struck.clean(&mut text);
            text
        };
        let (think, action, observation) = (clean(request.think), clean(request.action), clean(request.observation));
        let step = Step { think, action, observation };
        if step == Step::default() {
            return Err(ApiError::bad_request("the step is empty: give 'think', 'action' or 'observation'"));
        }
        let n = request.n;
        let store = &self.0.store;
        let (known, next, state) = if request.started {
            store.mark_started(&lease, n, &step, self.now_ms()).map_err(run_failed)?;
            let info = store.run_info(&lease.name).map_err(run_failed)?;
            (false, info.steps.saturating_add(1), info.state)
        } else {
            let done = store.record_step(&lease, n, &step, self.now_ms()).map_err(run_failed)?;
            (done.known, n.saturating_add(1), done.state)
        };
        if !known {
            self.tell(&lease.name)?;
        }
        Ok(api::StepResponse {
            run: lease.to_string(),
            n,
            next,
            state: state.to_string(),
            known,
            started: request.started,
            redacted: struck.report(),
        })
    }

    pub(super) fn end_run_now(&self, request: api::EndRequest) -> Answer<api::EndResponse> {
        let lease: Lease = request.run.parse().map_err(run_failed)?;
        let held = match self.0.store.checkpoint(&lease.name) {
            Ok(held) if held.info.ended.is_none() => held,
            Ok(held) => return ended_before(&held.info, &lease, request.outcome),
            Err(error) => return Err(run_failed(error)),
        };
        let bank = self.bank(Some(&held.info.bank.to_string()))?;
        let state = held.info.state;
        let finished = finished(held, &request);
        let Finished { row, claims, works, mut replaced, mut no_lesson } = self.finish(&bank, &finished);
        // A policy that changed meanwhile keeps the lessons out; the run is this node's own.
        let may_write = self.check_may_write(&bank);
        let not_drawn = |message: String| api::NoLesson { run: finished.source.clone(), reason: message };
        let (claims, works) = match &may_write {
            Ok(()) => (claims, works),
            Err(error) => {
                no_lesson.push(not_drawn(error.message.clone()));
                replaced.clear();
                Default::default()
            }
        };
        let ending = Ending { lease, state, outcome: request.outcome, digest: row.digest };
        let bodies = claims.iter().map(|(_, lesson)| lesson.clone()).collect();
        let batch = Batch { claims, runs: vec![row], skip_if_taught: true };
        // A full queue leaves the run to 'folklore induce'.
        let jobs = works.len() as u64;
        let queue = self.induction().jobs.queue(works.iter().map(Work::to_bytes).collect(), self.now_ms());
        let queue = queue.map_err(|error| no_lesson.push(not_drawn(error.to_string()))).ok();
        let settings = queue.as_ref().map(|queue| queue.settings()).unwrap_or_default();
        let written =
            self.0.store.end_run_with(&self.0.key, self.now_ms(), batch, &settings, &ending).map_err(run_failed)?;
        let mut queued = 0;
        if let Some(queue) = queue {
            queue.keep();
            self.induction().wake();
            queued = jobs;
        }
        let (records, _) = self.publish(&bank.id, written, bodies)?;
        self.tell(&ending.lease.name)?;
        let mut lessons: Vec<String> =
            records.iter().filter_map(|record| record.claim().body()).map(|id| id.to_string()).collect();
        if request.outcome != Outcome::Unknown && may_write.is_ok() {
            let (together, more) = self.contrast_task(&bank, &finished.task_key)?;
            replaced.extend(more);
            queued += together.queued;
            lessons.extend(together.lessons);
            no_lesson.extend(together.no_lesson);
        }
        Ok(api::EndResponse {
            name: ending.lease.name,
            outcome: request.outcome,
            digest: digest_hex(&ending.digest),
            steps: u32::try_from(finished.steps.len()).unwrap_or(u32::MAX),
            state: state.to_string(),
            known: false,
            lessons,
            replaced,
            queued,
            no_lesson,
        })
    }

    pub(super) fn resume_now(&self, request: &api::ResumeRequest) -> Answer<api::ResumeResponse> {
        if request.k > api::MAX_K {
            return Err(ApiError::bad_request(format!("k is 0 to {}", api::MAX_K)));
        }
        let found = match (&request.run, &request.task) {
            (Some(run), None) => self.run_named(run.rsplit_once('@').map_or(run.as_str(), |(name, _)| name))?,
            (None, Some(task)) => self.run_of_task(task)?,
            _ => return Err(ApiError::bad_request("name either a run or its task")),
        };
        let lease = match found.copy_of {
            None => self.0.store.take_lease(&found.name, self.now_ms()).map_err(run_failed)?,
            Some(from) => self.take_over(&found, from)?,
        };
        let Checkpoint { info, steps, uncertain } = self.0.store.checkpoint(&lease.name).map_err(run_failed)?;
        let (lessons, reason) = if request.k == 0 {
            (Vec::new(), None)
        } else {
            let wish = Wish { k: request.k, exclude: info.given.clone(), ..Wish::default() };
            let recalled = self.0.catalogue.recall(&info.task, &wish, &[]).map_err(read_failed)?;
            self.note_given(&lease, &recalled)?;
            let answer = self.to_response(recalled, api::AskedPeers::default(), false);
            (answer.hits, answer.reason)
        };
        let state = info.state.to_string();
        let next = info.steps.saturating_add(1);
        Ok(api::ResumeResponse {
            run: lease.to_string(),
            name: lease.name,
            lease: lease.number,
            bank: info.bank.to_string(),
            began: TimeMs(info.began_ms),
            next,
            state,
            lost_after: info.lost_after,
            branch: info.branch.as_ref().map(to_branch),
            task: info.task,
            task_key: info.task_key,
            domain: info.domain,
            agent: info.agent,
            steps: steps.into_iter().map(to_step).collect(),
            uncertain: uncertain
                .into_iter()
                .map(|mark| step_view(mark.n, mark.what, mark.at_ms, String::new()))
                .collect(),
            lessons,
            reason,
        })
    }

    /// Notes what a recall gave to a run, durably, before the agent sees it.
    pub(super) fn note_given(&self, lease: &Lease, recalled: &Recalled) -> Answer<()> {
        let ids: Vec<LessonId> = recalled
            .hits
            .iter()
            .flat_map(|hit| std::iter::once(hit.lesson.id()).chain(hit.also.iter().copied().take(NOTED_ALIKE)))
            .collect();
        self.0.store.note_given(lease, &ids).map_err(run_failed)
    }

    /// Tells the readers of its bank how far a run has come, if they may have it.
    fn tell(&self, name: &str) -> Answer<()> {
        match self.0.store.told_run(name) {
            Some((bank, head, about)) => {
                self.0.engine.event_blocking(Event::RunShared { bank, head, about }).map_err(stopping)
            }
            None => Ok(()),
        }
    }

    /// Goes on with another node's run as a branch of this node's own: what is held of it is copied, and both are kept.
    fn take_over(&self, copy: &RunInfo, from: AuthorId) -> Answer<Lease> {
        let bank = self.bank(Some(&copy.bank.to_string()))?;
        self.check_may_write(&bank)?;
        let shared = bank.salt != crate::engine::PUBLIC_SALT;
        let Checkpoint { info, steps, uncertain } = self.0.store.checkpoint_of(&copy.id).map_err(run_failed)?;
        let id = run_id()?;
        let is_free = |name: &str| matches!(self.0.store.run_info(name), Err(RunError::Unknown(_)));
        let name = match is_free(&info.name) {
            true => info.name,
            // Cut so that the end fits: names have a limit.
            false => format!("{}-{}", shorten(&info.name, MAX_RUN_NAME_BYTES - 9), &id.to_string()[..8]),
        };
        let branch = Branch { from, steps: info.steps, state: info.state };
        let RunInfo { bank, task_key, task, domain, agent, tags, .. } = info;
        let new = NewRun { id, name, bank, shared, task_key, task, domain, agent, tags };
        let lease = self.0.store.begin_branch(new, branch, &steps, &uncertain, self.now_ms()).map_err(run_failed)?;
        self.tell(&lease.name)?;
        Ok(lease)
    }

    /// A run by its name; one of this node's own, else the one copy of another node's that is called so or has that id.
    fn run_named(&self, name: &str) -> Answer<RunInfo> {
        match self.0.store.run_info(name) {
            Err(RunError::Unknown(_)) => {}
            found => return found.map_err(run_failed),
        }
        let found = self.copies_called(name);
        if found.is_empty() {
            return Err(run_failed(RunError::Unknown(name.to_owned())));
        }
        only_one(found, "called so")
    }

    /// The one run of a task that is under way: of this node's own, else of another's.
    fn run_of_task(&self, task: &str) -> Answer<RunInfo> {
        let mut asked = Run { task: task.to_owned(), ..Run::default() };
        asked.tidy();
        clean_run(&mut asked);
        let key = run::one_line(task);
        let words = asked.task;
        let open = self.0.store.runs_here().into_iter().filter(|run| run.ended.is_none());
        let of_task = open.filter(|run| run.task == words || run.task_key == key);
        let (copies, own): (Vec<RunInfo>, Vec<RunInfo>) = of_task.partition(|run| run.copy_of.is_some());
        let found = if own.is_empty() { copies } else { own };
        if found.is_empty() {
            return Err(ApiError::not_found(format!(
                "no run of the task '{}' is under way here: 'folklore runs' lists those that are",
                brief(task)
            )));
        }
        only_one(found, "of this task")
    }

    /// Lets copies of other nodes' runs go, so that they do not come back.
    pub(super) fn drop_copy_now(&self, request: &api::DropRunRequest) -> Answer<api::DropRunResponse> {
        let named = self.copies_called(&request.run);
        let named = if named.is_empty() { vec![self.run_named(&request.run)?] } else { named };
        let run = only_one(named, "called so")?;
        self.0.store.drop_copy(&run.id).map_err(run_failed)?;
        Ok(api::DropRunResponse {
            name: run.name,
            id: run.id.to_string(),
            copy_of: run.copy_of.map(|node| node.to_string()).unwrap_or_default(),
            steps: run.steps,
        })
    }

    /// Copies of other nodes' runs by name or id.
    fn copies_called(&self, name: &str) -> Vec<RunInfo> {
        let copies = self.0.store.runs_here().into_iter().filter(|run| run.copy_of.is_some());
        copies.filter(|run| run.name == name || run.id.to_string() == name).collect()
    }

    pub(super) fn runs_now(&self, request: &api::RunsRequest) -> api::RunsResponse {
        let runs = self.0.store.runs_here().into_iter().filter(|run| request.all || run.ended.is_none());
        api::RunsResponse { runs: runs.map(to_summary).collect() }
    }
}

/// The one that is meant, or those it could be.
fn only_one(mut found: Vec<RunInfo>, what: &str) -> Answer<RunInfo> {
    match found.pop() {
        Some(run) if found.is_empty() => Ok(run),
        last => {
            found.extend(last);
            let name = |run: &RunInfo| if run.copy_of.is_some() { run.id.to_string() } else { run.name.clone() };
            let names: Vec<String> = found.iter().take(8).map(name).collect();
            Err(ApiError::bad_request(format!(
                "{} runs {what} are under way: name the one you mean, of {} ('folklore runs' tells more)",
                found.len(),
                names.join(", ")
            )))
        }
    }
}

fn run_id() -> Answer<RunId> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| ApiError::failed(format!("no randomness: {error}")))?;
    Ok(RunId(id))
}

/// The finished run of a log.
fn finished(held: Checkpoint, request: &api::EndRequest) -> Run {
    let Checkpoint { info, steps, .. } = held;
    let [a, b, c, d, ..] = info.id.0;
    let status = match request.outcome {
        Outcome::Success => RunStatus::Success,
        Outcome::Failure => RunStatus::Failure,
        Outcome::Partial => RunStatus::Partial,
        Outcome::Unknown => RunStatus::Unknown,
    };
    let mut run = Run {
        task_key: info.task_key,
        task: info.task,
        domain: info.domain,
        agent: info.agent,
        // Two attempts that went the same way word for word are two.
        attempt: Some(u32::from_le_bytes([a, b, c, d])),
        source: format!("run {}", info.name),
        steps: steps.into_iter().map(|recorded| recorded.step).collect(),
        outcome: RunOutcome {
            status,
            reward_milli: request.reward_milli,
            reason: request.reason.clone(),
            judged_by: request.judged_by.clone(),
            ..RunOutcome::default()
        },
        tags: info.tags,
        injected: info.given.iter().map(ToString::to_string).collect(),
    };
    // What was acknowledged stays whole. Only what redaction makes longer, by rules that came since, could pass the limit.
    let mut most_bytes = MAX_STEP_BYTES;
    run.tidy_to(most_bytes);
    strike_run(&mut run);
    run.tidy_to(most_bytes);
    while most_bytes > 1024 && canonical::encode(&run).len() > MAX_RUN_BYTES {
        most_bytes /= 2;
        run.tidy_to(most_bytes);
    }
    run
}

/// A run that had ended: the same again is no error.
fn ended_before(info: &RunInfo, lease: &Lease, outcome: Outcome) -> Answer<api::EndResponse> {
    let (name, steps) = (info.name.clone(), info.steps);
    let Some(ended) = info.ended else { return Err(ApiError::failed("the run has not ended")) };
    if ended.outcome != outcome || lease.number != info.lease {
        return Err(run_failed(RunError::Ended { name, outcome: ended.outcome, steps }));
    }
    Ok(api::EndResponse {
        name,
        outcome,
        digest: digest_hex(&ended.digest),
        steps,
        state: ended.state.to_string(),
        known: true,
        lessons: Vec::new(),
        replaced: Vec::new(),
        queued: 0,
        no_lesson: Vec::new(),
    })
}

fn to_step(recorded: Recorded) -> api::StepView {
    step_view(recorded.n, recorded.step, recorded.at_ms, recorded.state.to_string())
}

fn step_view(n: u32, step: Step, at_ms: u64, state: String) -> api::StepView {
    let Step { think, action, observation } = step;
    api::StepView { n, think, action, observation, at: TimeMs(at_ms), state }
}

fn to_branch(branch: &Branch) -> api::BranchView {
    api::BranchView { from: branch.from.to_string(), steps: branch.steps, state: branch.state.to_string() }
}

fn to_summary(run: RunInfo) -> api::RunSummary {
    api::RunSummary {
        task: shorten(&normalise(&run.task, Lines::One), SHOWN_TASK_BYTES),
        branch: run.branch.as_ref().map(to_branch),
        lease: run.lease,
        bank: run.bank.to_string(),
        shared: run.shared,
        steps: run.steps,
        state: run.state.to_string(),
        uncertain: run.uncertain as u64,
        began: TimeMs(run.began_ms),
        touched: TimeMs(run.touched_ms),
        outcome: run.ended.map(|ended| ended.outcome),
        id: run.id.to_string(),
        copy_of: run.copy_of.map(|node| node.to_string()),
        name: run.name,
        task_key: run.task_key,
        agent: run.agent,
    }
}

pub(super) fn run_failed(error: RunError) -> ApiError {
    let text = error.to_string();
    match error {
        RunError::Unknown(_) => ApiError::not_found(text),
        RunError::BadName(_)
        | RunError::NotALease(_)
        | RunError::NotACopy(_)
        | RunError::Limit { .. }
        | RunError::NoSuchLease { .. } => ApiError::bad_request(text),
        RunError::Fenced { .. } | RunError::TooManyRuns(_) => ApiError::refused(text),
        RunError::Taken { .. }
        | RunError::Ended { .. }
        | RunError::Conflict { .. }
        | RunError::Gap { .. }
        | RunError::Moved(_) => ApiError::new(api::ErrorCode::Conflict, text),
        RunError::Write(error) => write_failed(error),
        RunError::Read(error) => read_failed(error),
    }
}

#[cfg(test)]
mod tests {
    use folklore_protocol::BankId;
    use folklore_store::runs::log::StateHash;

    use super::*;

    fn held(steps: Vec<Step>) -> Checkpoint {
        let mut state = StateHash::root("k", "t");
        let recorded = (1..).zip(steps).map(|(n, step)| {
            state = state.then(n, &step);
            Recorded { n, state, at_ms: 5, step }
        });
        let steps: Vec<Recorded> = recorded.collect();
        let info = RunInfo {
            id: RunId([7; 16]),
            name: "shop".into(),
            bank: BankId([1; 32]),
            shared: false,
            task_key: "k".into(),
            task: "t".into(),
            domain: String::new(),
            agent: "clerk".into(),
            tags: vec![],
            lease: 1,
            steps: u32::try_from(steps.len()).unwrap(),
            state,
            uncertain: 0,
            given: vec![],
            began_ms: 1,
            touched_ms: 5,
            branch: None,
            ended: None,
            lost_after: None,
            copy_of: None,
        };
        Checkpoint { info, steps, uncertain: vec![] }
    }

    fn request() -> api::EndRequest {
        api::EndRequest {
            run: "shop@1".into(),
            outcome: Outcome::Failure,
            reward_milli: None,
            reason: None,
            judged_by: None,
        }
    }

    fn seen(bytes: usize) -> Step {
        Step {
            action: "look".into(),
            observation: "shelf-7-is-empty,".chars().cycle().take(bytes).collect(),
            ..Step::default()
        }
    }

    #[test]
    fn a_run_that_ends_keeps_every_step_as_it_was_acknowledged() {
        let steps =
            vec![seen(10), seen(100 * 1024), seen(MAX_STEP_BYTES - 4), Step { think: "  so ".into(), ..seen(20) }];
        let run = finished(held(steps.clone()), &request());
        let lens = |steps: &[Step]| steps.iter().map(|step| step.observation.len()).collect::<Vec<_>>();
        assert_eq!(lens(&run.steps)[1..3], lens(&steps)[1..3]);
        assert_eq!(run.steps[..3], steps[..3]);
        assert!(canonical::encode(&run).len() <= MAX_RUN_BYTES);
    }

    #[test]
    fn a_run_that_redaction_made_too_long_is_cut_visibly_and_can_still_end() {
        // Each short address becomes a longer marker. None of them is stored by the way that steps come in.
        let mails = "a@b.io ".repeat(MAX_STEP_BYTES / 7);
        let step = Step { observation: mails, ..Step::default() };
        let steps = vec![step; 90];
        assert!(steps.iter().map(|step| step.observation.len()).sum::<usize>() < MAX_RUN_BYTES);
        let run = finished(held(steps), &request());
        let len = canonical::encode(&run).len();
        assert!((MAX_RUN_BYTES / 4..=MAX_RUN_BYTES).contains(&len), "{len}");
        assert!(run.steps.iter().all(|step| step.observation.contains(" bytes elided, blake3 ")));
    }
}
