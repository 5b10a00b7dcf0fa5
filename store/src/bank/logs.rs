//! Logs of runs under way: what the index keeps of them, and the calls that write and read them.
//!
//! Each entry is a value of its own under [`Tree::Log`]. When a run ends its entries are erased and their places are given
//! to later entries, so a bank that checkpoints for a year does not grow by it. The count knows a place by its number
//! alone, so what lies in it may change. Which run an entry belongs to stands in the entry; its order is the step's number.

use std::collections::{BTreeMap, HashMap};

use folklore_protocol::{canonical, identity::Keypair, lesson::LessonId, run_log::MAX_MARK_BYTES};

use super::{
    Batch, Index, Store, Written,
    read::Reader,
    write::{Plan, unreserved},
};
use crate::{
    error::{ReadError, WriteError},
    frame::{Frame, HEADER_BYTES, Key, Kind, Tree},
    run::{MAX_INJECTED, Step},
    runs::log::{
        Branch, Checkpoint, Ended, Ending, Entry, Head, Lease, MAX_ENDED_KEPT, MAX_LOG_BYTES, MAX_OPEN_RUNS,
        MAX_RUN_STEPS, MAX_STARTED, MAX_STEP_BYTES, Mark, NewRun, Recorded, RunError, RunId, RunInfo, StateHash,
        StepDone, Uncertain, check_name, mark_hash,
    },
};

/// What lies in a free place.
const FREE_BYTES: u64 = HEADER_BYTES as u64 + 32;
/// Bytes of a task in an error.
const SHOWN_TASK_BYTES: usize = 120;

/// Where an entry lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    arrival: u64,
    generation: u64,
    parts: u16,
    bytes: u64,
}

impl Slot {
    /// What it takes in the database.
    fn disk_bytes(self) -> u64 {
        self.bytes + u64::from(self.parts) * HEADER_BYTES as u64
    }
}

#[derive(Debug)]
pub(super) struct StepRef {
    pub slot: Slot,
    pub state: StateHash,
    pub at_ms: u64,
}

#[derive(Debug)]
pub(super) struct StartedRef {
    slot: Slot,
    pub n: u32,
    hash: [u8; 32],
    pub at_ms: u64,
    /// Cut to what a peer is told of it.
    pub action: String,
}

impl StartedRef {
    fn new(slot: Slot, n: u32, at_ms: u64, what: &Step) -> Self {
        let action = canonical::shorten(&what.action, MAX_MARK_BYTES);
        Self { slot, n, hash: mark_hash(n, what), at_ms, action }
    }
}

/// A run as the index knows it.
#[derive(Debug)]
pub(super) struct State {
    pub slot: Slot,
    pub head: Head,
    root: StateHash,
    /// In order: the first has number 1.
    pub steps: Vec<StepRef>,
    pub started: Vec<StartedRef>,
    given: Vec<(Slot, Vec<LessonId>)>,
    pub touched_ms: u64,
    /// Steps behind a gap that damage left. They go when the run goes on or ends.
    stray: Vec<Slot>,
}

impl State {
    fn new(slot: Slot, head: Head) -> Self {
        let root = StateHash::root(&head.task_key, &head.task);
        let touched_ms = head.ended.map_or(head.leased_ms, |ended| ended.at_ms);
        Self { slot, head, root, steps: vec![], started: vec![], given: vec![], touched_ms, stray: vec![] }
    }

    pub fn state(&self) -> StateHash {
        self.steps.last().map_or(self.root, |step| step.state)
    }

    pub fn count(&self) -> u32 {
        u32::try_from(self.steps.len()).unwrap_or(u32::MAX)
    }

    pub fn log_bytes(&self) -> u64 {
        self.steps.iter().map(|step| step.slot.bytes).chain(self.started.iter().map(|s| s.slot.bytes)).sum()
    }

    /// Of another's run what its holder says is started and no step here answers.
    fn marks(&self) -> impl Iterator<Item = &Mark> {
        let (marks, count) = (self.head.copy.iter().flat_map(|copy| &copy.marks), self.count());
        marks.filter(move |(n, ..)| *n > count)
    }

    /// Every place but the head's.
    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        let steps = self.steps.iter().map(|step| step.slot);
        let others = self.started.iter().map(|s| s.slot).chain(self.given.iter().map(|g| g.0));
        steps.chain(others).chain(self.stray.iter().copied())
    }

    /// Whether a lease may write.
    fn admit(&self, lease: &Lease) -> Result<(), RunError> {
        let (name, given, current) = (lease.name.clone(), lease.number, self.head.lease);
        if given > current || given == 0 {
            return Err(RunError::NoSuchLease { name, given, current });
        }
        if let Some(ended) = self.head.ended {
            return Err(RunError::Ended { name, outcome: ended.outcome, steps: ended.steps });
        }
        if given < current { Err(RunError::Fenced { name, given, current }) } else { Ok(()) }
    }

    pub fn info(&self) -> RunInfo {
        let head = &self.head;
        RunInfo {
            id: head.id,
            name: head.name.clone(),
            bank: head.bank,
            shared: head.shared,
            task_key: head.task_key.clone(),
            task: head.task.clone(),
            domain: head.domain.clone(),
            agent: head.agent.clone(),
            tags: head.tags.clone(),
            lease: head.lease,
            steps: head.ended.map_or(self.count(), |ended| ended.steps),
            state: head.ended.map_or(self.state(), |ended| ended.state),
            uncertain: self.started.len() + self.marks().count(),
            given: self.given.iter().flat_map(|(_, lessons)| lessons.iter().copied()).collect(),
            began_ms: head.began_ms,
            touched_ms: self.touched_ms,
            branch: head.branch,
            ended: head.ended,
            lost_after: (!self.stray.is_empty()).then(|| self.count()),
            copy_of: head.copy.as_ref().map(|copy| copy.from),
        }
    }
}

/// All logs, and places that are free.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    pub(super) runs: HashMap<RunId, State>,
    names: HashMap<String, RunId>,
    /// Ended runs in the order in which they ended.
    ended: BTreeMap<(u64, RunId), ()>,
    free: Vec<(u64, u64)>,
    /// Entries met while the bank is read, until [`Logs::settle`].
    met: Vec<(Slot, Entry)>,
}

/// What a group does to the logs.
#[derive(Debug, Default)]
pub(super) struct Change {
    /// Free places that were used.
    used: usize,
    /// Places that are free now, with their generation.
    freed: Vec<(u64, u64)>,
    pub what: Vec<What>,
}

#[derive(Debug)]
pub(super) enum What {
    Head(Slot, Box<Head>),
    Step(RunId, StepRef),
    Answered(RunId, u32),
    Started(RunId, StartedRef),
    Given(RunId, Slot, Vec<LessonId>),
    Cleared(RunId),
    Stray(RunId),
    Forgotten(RunId),
}

/// What the count knows a place by.
pub(super) fn identity(arrival: u64) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("folklore 2026 run log place v1");
    *hasher.update(&arrival.to_le_bytes()).finalize().as_bytes()
}

impl Logs {
    /// Takes in an entry met while the bank is read; the error says why it is none.
    pub(super) fn meet(&mut self, key: Key, generation: u64, parts: u16, bytes: &[u8]) -> Result<(), String> {
        let entry = Entry::from_bytes(bytes).map_err(|e| e.to_string())?;
        let slot = Slot { arrival: key.arrival, generation, parts, bytes: bytes.len() as u64 };
        // Of steps only what the index keeps: the texts of all of them could be gigabytes.
        let entry = match entry {
            Entry::Step { run, n, state, at_ms, .. } => Entry::Step { run, n, state, at_ms, step: Step::default() },
            other => other,
        };
        self.met.push((slot, entry));
        Ok(())
    }

    pub(super) fn meet_free(&mut self, arrival: u64, generation: u64) {
        self.free.push((arrival, generation));
    }

    /// Puts together what was met.
    pub(super) fn settle(&mut self) {
        let mut steps: BTreeMap<(RunId, u32), StepRef> = BTreeMap::new();
        let mut others = Vec::new();
        for (slot, entry) in std::mem::take(&mut self.met) {
            match entry {
                Entry::Head(head) => self.apply(What::Head(slot, head)),
                Entry::Step { run, n, state, at_ms, .. } => {
                    let step = StepRef { slot, state, at_ms };
                    // Of two with one number, which only damage leaves, the later one was acknowledged last.
                    let later = steps.get(&(run, n)).is_none_or(|held| held.slot.generation < slot.generation);
                    if later {
                        steps.insert((run, n), step);
                    }
                }
                other => others.push((slot, other)),
            }
        }
        for ((run, n), step) in steps {
            let Some(state) = self.runs.get_mut(&run) else { continue };
            if state.head.ended.is_some() || n != state.count().saturating_add(1) {
                state.stray.push(step.slot);
            } else {
                state.touched_ms = state.touched_ms.max(step.at_ms);
                state.steps.push(step);
            }
        }
        for (slot, entry) in others {
            match entry {
                Entry::Started { run, .. } | Entry::Given { run, .. }
                    if self.runs.get(&run).is_none_or(|state| state.head.ended.is_some()) => {}
                Entry::Started { run, n, at_ms, what } => {
                    self.apply(What::Started(run, StartedRef::new(slot, n, at_ms, &what)));
                }
                Entry::Given { run, lessons } => self.apply(What::Given(run, slot, lessons)),
                Entry::Head(_) | Entry::Step { .. } => {}
            }
        }
    }

    pub(super) fn learn(&mut self, change: Change) {
        self.free.truncate(self.free.len().saturating_sub(change.used));
        self.free.extend(change.freed);
        change.what.into_iter().for_each(|what| self.apply(what));
    }

    fn apply(&mut self, what: What) {
        match what {
            What::Head(slot, head) => {
                let id = head.id;
                if head.copy.is_none() {
                    self.names.insert(head.name.clone(), id);
                }
                if let Some(ended) = head.ended {
                    self.ended.insert((ended.at_ms, id), ());
                }
                match self.runs.get_mut(&id) {
                    Some(state) => {
                        state.touched_ms = state.touched_ms.max(head.ended.map_or(head.leased_ms, |e| e.at_ms));
                        (state.slot, state.head) = (slot, *head);
                    }
                    None => {
                        self.runs.insert(id, State::new(slot, *head));
                    }
                }
            }
            What::Step(run, step) => {
                if let Some(state) = self.runs.get_mut(&run) {
                    state.touched_ms = state.touched_ms.max(step.at_ms);
                    state.steps.push(step);
                }
            }
            What::Answered(run, n) => {
                if let Some(state) = self.runs.get_mut(&run) {
                    state.started.retain(|mark| mark.n != n);
                }
            }
            What::Started(run, mark) => {
                if let Some(state) = self.runs.get_mut(&run) {
                    state.touched_ms = state.touched_ms.max(mark.at_ms);
                    state.started.push(mark);
                }
            }
            What::Given(run, slot, lessons) => {
                if let Some(state) = self.runs.get_mut(&run) {
                    state.given.push((slot, lessons));
                }
            }
            What::Cleared(run) => {
                if let Some(state) = self.runs.get_mut(&run) {
                    (state.steps, state.started, state.stray) = (vec![], vec![], vec![]);
                    state.given = vec![];
                }
            }
            What::Stray(run) => {
                if let Some(state) = self.runs.get_mut(&run) {
                    state.stray = vec![];
                }
            }
            What::Forgotten(run) => {
                if let Some(state) = self.runs.remove(&run) {
                    if state.head.copy.is_none() {
                        self.names.remove(&state.head.name);
                    }
                    self.ended.retain(|(_, id), ()| *id != run);
                }
            }
        }
    }

    pub(super) fn get(&self, name: &str) -> Result<&State, RunError> {
        let id = self.names.get(name).ok_or_else(|| RunError::Unknown(name.to_owned()))?;
        self.runs.get(id).ok_or_else(|| RunError::Unknown(name.to_owned()))
    }

    fn open(&self) -> impl Iterator<Item = &State> {
        self.runs.values().filter(|state| state.head.ended.is_none() && state.head.copy.is_none())
    }

    pub(super) fn copies(&self) -> impl Iterator<Item = &State> {
        self.runs.values().filter(|state| state.head.copy.is_some())
    }
}

/// The runs that entries make, met in this order.
pub(crate) fn put_together<'a>(entries: impl IntoIterator<Item = &'a [u8]>) -> Vec<RunInfo> {
    let mut logs = Logs::default();
    for (arrival, bytes) in (0..).zip(entries) {
        // What is no entry is told when a bank is read, and passed over.
        let _ = logs.meet(Key::first(Tree::Log, arrival), arrival, 1, bytes);
    }
    logs.settle();
    logs.runs.values().map(State::info).collect()
}

impl Plan<'_> {
    pub(super) fn logs(&mut self) -> &mut Change {
        self.logs.get_or_insert_default()
    }

    /// Writes an entry to a free place or a new one.
    pub(super) fn log_entry(&mut self, entry: &Entry) -> Result<Slot, WriteError> {
        let value = entry.to_bytes();
        let bytes = value.len() as u64;
        let used = self.logs.as_ref().map_or(0, |change| change.used);
        let free = &self.index.logs.free;
        let place = free.len().checked_sub(used + 1).and_then(|at| free.get(at)).copied();
        if let Some((arrival, generation)) = place {
            self.logs().used += 1;
            self.group.freed += FREE_BYTES;
            let generation = self.after(generation);
            let parts = self.put_at(Tree::Log, arrival, generation, &value)?;
            return Ok(Slot { arrival, generation, parts, bytes });
        }
        let generation = self.session_generation();
        let (arrival, parts) = self.put_as(Tree::Log, &value, identity)?;
        Ok(Slot { arrival, generation, parts, bytes })
    }

    /// Puts an entry in place of another.
    fn log_replace(&mut self, slot: Slot, entry: &Entry) -> Result<Slot, WriteError> {
        let value = entry.to_bytes();
        let generation = self.after(slot.generation);
        let parts = self.put_at(Tree::Log, slot.arrival, generation, &value)?;
        self.drop_parts(slot, parts);
        self.group.freed += slot.disk_bytes();
        Ok(Slot { generation, parts, bytes: value.len() as u64, ..slot })
    }

    /// Erases entries; their places are free once the group is learnt.
    pub(super) fn log_erase(&mut self, slots: impl IntoIterator<Item = Slot>) {
        for slot in slots {
            let generation = self.after(slot.generation);
            let key = Key::first(Tree::Log, slot.arrival);
            let payload = identity(slot.arrival);
            let frame = Frame { key, kind: Kind::Erased, parts: 1, generation, payload: &payload };
            self.change(key.to_bytes().to_vec(), Some(frame.to_bytes()));
            self.drop_parts(slot, 1);
            self.group.freed += slot.disk_bytes();
            self.logs().freed.push((slot.arrival, generation));
        }
    }

    fn drop_parts(&mut self, slot: Slot, kept: u16) {
        for part in kept..slot.parts {
            self.change(Key { tree: Tree::Log, arrival: slot.arrival, part }.to_bytes().to_vec(), None);
        }
    }

    pub(super) fn log_head(&mut self, slot: Option<Slot>, head: Head) -> Result<(), WriteError> {
        let entry = Entry::Head(Box::new(head));
        let slot = match slot {
            Some(slot) => self.log_replace(slot, &entry)?,
            None => self.log_entry(&entry)?,
        };
        if let Entry::Head(head) = entry {
            self.logs().what.push(What::Head(slot, head));
        }
        Ok(())
    }

    /// Ends a run and forgets the oldest ended ones beyond the limit.
    fn end_run(&mut self, ending: &Ending, at_ms: u64) -> Result<Result<(), RunError>, WriteError> {
        let index = self.index;
        let state = match index.logs.get(&ending.lease.name) {
            Ok(state) => state,
            Err(error) => return Ok(Err(error)),
        };
        if let Err(error) = state.admit(&ending.lease) {
            return Ok(Err(error));
        }
        if state.state() != ending.state {
            return Ok(Err(RunError::Moved(ending.lease.name.clone())));
        }
        let id = state.head.id;
        let (outcome, digest) = (ending.outcome, ending.digest);
        let ended = Ended { outcome, digest, steps: state.count(), state: state.state(), at_ms };
        let head = Head { task: String::new(), ended: Some(ended), ..state.head.clone() };
        self.log_head(Some(state.slot), head)?;
        self.log_erase(state.slots());
        self.logs().what.push(What::Cleared(id));
        let over = (index.logs.ended.len() + 1).saturating_sub(MAX_ENDED_KEPT);
        let oldest: Vec<RunId> = index.logs.ended.keys().take(over).map(|(_, id)| *id).collect();
        for id in oldest {
            if let Some(state) = index.logs.runs.get(&id) {
                self.log_erase(state.slots().chain([state.slot]));
                self.logs().what.push(What::Forgotten(id));
            }
        }
        Ok(Ok(()))
    }
}

impl Store {
    /// Plans a change of the logs; durable when it returns. An error leaves everything as it was.
    pub(super) fn log_group<T>(
        &self,
        plan: impl FnOnce(&mut Plan<'_>, &Index) -> Result<Result<T, RunError>, WriteError>,
    ) -> Result<T, RunError> {
        self.group(|_, planned| {
            let index = planned.index;
            plan(planned, index)
        })?
    }

    /// Begins a run. Returns its first lease. Durable when it returns.
    pub fn begin_run(&self, new: NewRun, at_ms: u64) -> Result<Lease, RunError> {
        self.begin_from(new, None, &[], &[], at_ms)
    }

    /// Begins a run that goes on from steps taken over from elsewhere. Durable when it returns.
    pub fn begin_branch(
        &self,
        new: NewRun,
        branch: Branch,
        steps: &[Recorded],
        uncertain: &[Uncertain],
        at_ms: u64,
    ) -> Result<Lease, RunError> {
        self.begin_from(new, Some(branch), steps, uncertain, at_ms)
    }

    fn begin_from(
        &self,
        new: NewRun,
        branch: Option<Branch>,
        steps: &[Recorded],
        uncertain: &[Uncertain],
        at_ms: u64,
    ) -> Result<Lease, RunError> {
        check_name(&new.name)?;
        self.log_group(|plan, index| {
            let logs = &index.logs;
            if let Ok(held) = logs.get(&new.name) {
                let same = held.head.task_key == new.task_key;
                let hint = match (same, held.head.ended) {
                    (_, Some(_)) => "it has ended, so begin under another name",
                    (true, None) => "'folklore resume' goes on with it",
                    (false, None) => "begin under another name, or end that one first",
                };
                let shown = if held.head.task.is_empty() { &held.head.task_key } else { &held.head.task };
                let task = canonical::shorten(shown, SHOWN_TASK_BYTES);
                return Ok(Err(RunError::Taken { name: new.name, task, hint }));
            }
            if logs.open().count() >= MAX_OPEN_RUNS {
                let oldest = logs.open().min_by_key(|state| state.touched_ms);
                return Ok(Err(RunError::TooManyRuns(oldest.map(|s| s.head.name.clone()).unwrap_or_default())));
            }
            if index.bank(&new.bank).is_none_or(|bank| bank.info.is_none()) {
                return Err(WriteError::UnknownBank(new.bank));
            }
            let lease = Lease { name: new.name.clone(), number: 1 };
            let head = Head {
                id: new.id,
                name: new.name,
                bank: new.bank,
                shared: new.shared,
                task_key: new.task_key,
                task: new.task,
                domain: new.domain,
                agent: new.agent,
                tags: new.tags,
                lease: 1,
                began_ms: at_ms,
                leased_ms: at_ms,
                branch,
                ended: None,
                copy: None,
            };
            plan.log_head(None, head)?;
            for Recorded { n, state, at_ms, step } in steps {
                let (n, state, at_ms) = (*n, *state, *at_ms);
                let slot = plan.log_entry(&Entry::Step { run: new.id, n, state, at_ms, step: step.clone() })?;
                plan.logs().what.push(What::Step(new.id, StepRef { slot, state, at_ms }));
            }
            for Uncertain { n, at_ms, what } in uncertain {
                let (n, at_ms) = (*n, *at_ms);
                let slot = plan.log_entry(&Entry::Started { run: new.id, n, at_ms, what: what.clone() })?;
                plan.logs().what.push(What::Started(new.id, StartedRef::new(slot, n, at_ms, what)));
            }
            Ok(Ok(lease))
        })
    }

    /// Records step `n` of a run; durable when it returns. The same step again changes nothing and says so.
    pub fn record_step(&self, lease: &Lease, n: u32, step: &Step, at_ms: u64) -> Result<StepDone, RunError> {
        self.log_group(|plan, index| {
            let state = match index.logs.get(&lease.name).and_then(|state| state.admit(lease).map(|()| state)) {
                Ok(state) => state,
                Err(error) => return Ok(Err(error)),
            };
            let expected = state.count().saturating_add(1);
            let before = match n.checked_sub(2) {
                Some(at) => state.steps.get(at as usize).map(|step| step.state),
                None => Some(state.root),
            };
            let (Some(before), true) = (before, n > 0) else {
                return Ok(Err(RunError::Gap { name: lease.name.clone(), expected, given: n }));
            };
            let after = before.then(n, step);
            if let Some(held) = state.steps.get(n as usize - 1) {
                let held = held.state;
                if held == after {
                    return Ok(Ok(StepDone { state: after, known: true }));
                }
                let (name, given, next) = (lease.name.clone(), after, expected);
                return Ok(Err(RunError::Conflict { name, n, held, given, next }));
            }
            if let Err(error) = within_limits(state, lease, step, n) {
                return Ok(Err(error));
            }
            let run = state.head.id;
            let slot = plan.log_entry(&Entry::Step { run, n, state: after, at_ms, step: step.clone() })?;
            plan.log_erase(state.started.iter().filter(|mark| mark.n == n).map(|mark| mark.slot));
            plan.log_erase(state.stray.iter().copied());
            let what = [What::Answered(run, n), What::Stray(run)];
            plan.logs().what.extend(what);
            plan.logs().what.push(What::Step(run, StepRef { slot, state: after, at_ms }));
            Ok(Ok(StepDone { state: after, known: false }))
        })
    }

    /// Notes that what is to be step `n` was started: until that step is recorded its effects are uncertain. Durable when
    /// it returns; the same again changes nothing.
    pub fn mark_started(&self, lease: &Lease, n: u32, what: &Step, at_ms: u64) -> Result<(), RunError> {
        self.log_group(|plan, index| {
            let state = match index.logs.get(&lease.name).and_then(|state| state.admit(lease).map(|()| state)) {
                Ok(state) => state,
                Err(error) => return Ok(Err(error)),
            };
            let expected = state.count().saturating_add(1);
            let hash = mark_hash(n, what);
            if state.started.iter().any(|mark| mark.n == n && mark.hash == hash) {
                return Ok(Ok(()));
            }
            // Tools that run side by side become steps one after the other.
            if n < expected || n - expected >= MAX_STARTED as u32 {
                return Ok(Err(RunError::Gap { name: lease.name.clone(), expected, given: n }));
            }
            if state.started.len() >= MAX_STARTED {
                return Ok(Err(RunError::Limit {
                    name: lease.name.clone(),
                    what: "started marks without a step",
                    found: state.started.len() as u64 + 1,
                    limit: MAX_STARTED as u64,
                    hint: "record the steps they stand for first",
                }));
            }
            if let Err(error) = within_limits(state, lease, what, n) {
                return Ok(Err(error));
            }
            let run = state.head.id;
            let slot = plan.log_entry(&Entry::Started { run, n, at_ms, what: what.clone() })?;
            plan.logs().what.push(What::Started(run, StartedRef::new(slot, n, at_ms, what)));
            Ok(Ok(()))
        })
    }

    /// Notes lessons that the agent of a run was given, so that they are not given again and not learned again from it.
    /// Those noted before, and more than a finished run keeps, are left out. Durable when it returns.
    pub fn note_given(&self, lease: &Lease, lessons: &[LessonId]) -> Result<(), RunError> {
        self.log_group(|plan, index| {
            let state = match index.logs.get(&lease.name).and_then(|state| state.admit(lease).map(|()| state)) {
                Ok(state) => state,
                Err(error) => return Ok(Err(error)),
            };
            let held: Vec<LessonId> = state.given.iter().flat_map(|(_, ids)| ids.iter().copied()).collect();
            let mut fresh: Vec<LessonId> = Vec::new();
            for id in lessons {
                if !held.contains(id) && !fresh.contains(id) {
                    fresh.push(*id);
                }
            }
            fresh.truncate(MAX_INJECTED.saturating_sub(held.len()));
            if fresh.is_empty() {
                return Ok(Ok(()));
            }
            let run = state.head.id;
            let slot = plan.log_entry(&Entry::Given { run, lessons: fresh.clone() })?;
            plan.logs().what.push(What::Given(run, slot, fresh));
            Ok(Ok(()))
        })
    }

    /// Takes the next lease of a run: whoever held it before cannot write any more. Durable when it returns.
    pub fn take_lease(&self, name: &str, at_ms: u64) -> Result<Lease, RunError> {
        self.log_group(|plan, index| {
            let state = match index.logs.get(name) {
                Ok(state) => state,
                Err(error) => return Ok(Err(error)),
            };
            if let Some(ended) = state.head.ended {
                let name = name.to_owned();
                return Ok(Err(RunError::Ended { name, outcome: ended.outcome, steps: ended.steps }));
            }
            let number = state.head.lease.saturating_add(1);
            plan.log_head(Some(state.slot), Head { lease: number, leased_ms: at_ms, ..state.head.clone() })?;
            Ok(Ok(Lease { name: name.to_owned(), number }))
        })
    }

    /// Everything durable of a run, its chain checked.
    ///
    /// # Errors
    /// [`RunError::Read`] where a step is damaged, or does not follow from those before it.
    pub fn checkpoint(&self, name: &str) -> Result<Checkpoint, RunError> {
        let id = self.run_info(name)?.id;
        self.checkpoint_of(&id)
    }

    /// As [`Store::checkpoint`], of this node's or another's run by its id. Of another's what is uncertain is known by its
    /// action alone.
    pub fn checkpoint_of(&self, id: &RunId) -> Result<Checkpoint, RunError> {
        // Waits for what is on its way to disk: only what is durable is shown.
        let (info, root, steps, started, marks) = self.log_group(|_, index| {
            let Some(state) = index.logs.runs.get(id) else {
                return Ok(Err(RunError::Unknown(id.to_string())));
            };
            let marks: Vec<Mark> = state.marks().cloned().collect();
            let steps: Vec<Slot> = state.steps.iter().map(|step| step.slot).collect();
            let started: Vec<Slot> = state.started.iter().map(|mark| mark.slot).collect();
            Ok(Ok((state.info(), state.root, steps, started, marks)))
        })?;
        let name = info.name.clone();
        let mut reader = Reader::new(self);
        let mut out = Checkpoint { info, steps: Vec::with_capacity(steps.len()), uncertain: Vec::new() };
        let mut before = root;
        for slot in steps {
            match self.log_read(&mut reader, &name, slot)? {
                Entry::Step { n, state, at_ms, step, .. } if before.then(n, &step) == state => {
                    before = state;
                    out.steps.push(Recorded { n, state, at_ms, step });
                }
                _ => return Err(damaged(slot, "a step that does not follow from those before it").into()),
            }
        }
        for slot in started {
            match self.log_read(&mut reader, &name, slot)? {
                Entry::Started { n, at_ms, what, .. } => out.uncertain.push(Uncertain { n, at_ms, what }),
                _ => return Err(damaged(slot, "no started mark").into()),
            }
        }
        out.uncertain.extend(marks.into_iter().map(|(n, at_ms, action)| {
            let what = Step { action, ..Step::default() };
            Uncertain { n, at_ms, what }
        }));
        out.uncertain.sort_by_key(|mark| (mark.n, mark.at_ms));
        Ok(out)
    }

    pub(super) fn log_read(&self, reader: &mut Reader<'_>, name: &str, slot: Slot) -> Result<Entry, RunError> {
        // Erased in between: the run was ended by another, who could not have done so before the list was made.
        let bytes = reader.fetch_alone(Tree::Log, slot.arrival)?.ok_or_else(|| RunError::Moved(name.to_owned()))?;
        Ok(Entry::from_bytes(&bytes).map_err(|e| damaged(slot, e))?)
    }

    /// Ends a run: what was learned of it and the finished run are written, its steps are erased, as one durable group.
    ///
    /// # Errors
    /// State unchanged, except after [`WriteError::Stopped`], where what is on disk is not certain.
    pub fn end_run(&self, keypair: &Keypair, at_ms: u64, batch: Batch, ending: &Ending) -> Result<Written, RunError> {
        self.end_run_with(keypair, at_ms, batch, &[], ending)
    }

    /// As [`end_run`](Self::end_run), with settings in the same group.
    ///
    /// # Errors
    /// As for [`end_run`](Self::end_run), and when a setting is too long or the bank's own.
    pub fn end_run_with(
        &self,
        keypair: &Keypair,
        at_ms: u64,
        batch: Batch,
        settings: &[(String, Vec<u8>)],
        ending: &Ending,
    ) -> Result<Written, RunError> {
        unreserved(settings)?;
        let bank = {
            let index = self.index();
            index.logs.get(&ending.lease.name)?.head.bank
        };
        self.adopt(keypair.author())?;
        self.group(|_, plan| match plan.end_run(ending, at_ms)? {
            Ok(()) => plan.write(bank, keypair, at_ms, batch, settings).map(Ok),
            Err(error) => Ok(Err(error)),
        })?
    }

    /// Runs here, those under way first, then copies of other nodes', the one touched last first; ended ones are those whose
    /// names are remembered.
    pub fn runs_here(&self) -> Vec<RunInfo> {
        let index = self.index();
        let mut out: Vec<RunInfo> = index.logs.runs.values().map(State::info).collect();
        out.sort_by(|a, b| {
            let key = |run: &RunInfo| (run.ended.is_some(), run.copy_of.is_some(), u64::MAX - run.touched_ms);
            key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
        });
        out
    }

    /// What is known of a run by its name.
    pub fn run_info(&self, name: &str) -> Result<RunInfo, RunError> {
        self.index().logs.get(name).map(State::info)
    }

    /// What is known of a run by its id.
    pub fn run_by_id(&self, id: &RunId) -> Option<RunInfo> {
        self.index().logs.runs.get(id).map(State::info)
    }
}

fn within_limits(state: &State, lease: &Lease, step: &Step, n: u32) -> Result<(), RunError> {
    let bytes = step.think.len() + step.action.len() + step.observation.len();
    let limit = |what, found: u64, limit: u64, hint| {
        let name = lease.name.clone();
        if found > limit { Err(RunError::Limit { name, what, found, limit, hint }) } else { Ok(()) }
    };
    limit("bytes of a step", bytes as u64, MAX_STEP_BYTES as u64, "put what is long into a file and name it")?;
    limit("steps", u64::from(n), u64::from(MAX_RUN_STEPS), "end it and begin another that goes on")?;
    let log = state.log_bytes().saturating_add(bytes as u64);
    limit("bytes of all steps", log, MAX_LOG_BYTES, "end it and begin another that goes on")
}

fn damaged(slot: Slot, detail: impl ToString) -> ReadError {
    ReadError::Damaged { what: Key::first(Tree::Log, slot.arrival).to_string(), detail: detail.to_string() }
}
