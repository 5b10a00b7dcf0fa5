//! Copies of other nodes' runs, and what of this node's own is told to them.
//!
//! What a peer says of its run is believed of that run alone: a copy is bound to who told of it, its chain is computed
//! here, and it goes when its holder says that the run has ended. Texts that this node would have changed before storing
//! them are not stored: such a copy is not kept at all.
//!
//! No peer fills the place of the others: each has a share, and when all is full the peer that has most gives. What goes is
//! the copy that was touched longest ago: nodes that went away for good leave runs that never end.

use std::collections::BTreeMap;

use folklore_protocol::{
    bank::{BankId, PUBLIC_SALT},
    canonical,
    identity::AuthorId,
    run_log::{MAX_PIECES, MAX_RUN_STEP_BYTES, RunAbout, RunHead, RunKey, RunMark, StepPiece},
};

use super::{
    Index, SETTING_DROPPED_COPIES, Store,
    logs::{State, StepRef, What},
    read::Reader,
    write::Plan,
};
use crate::{
    error::WriteError,
    redact::{Classes, fires},
    run::{self, Step},
    runs::log::{
        Branch, Copied, Entry, Head, MAX_COPIED_BYTES, MAX_COPIED_BYTES_OF_PEER, MAX_COPIES, MAX_COPIES_OF_PEER,
        MAX_DROPPED_COPIES, MAX_LOG_BYTES, MAX_STARTED, MAX_STEP_BYTES, Mark, RunError, RunId, StateHash, check_name,
    },
};

/// Whether a text of a peer's is one that this node could have stored itself.
fn is_clean(text: &str) -> bool {
    run::clean(text) == text && fires(text, Classes::CREDENTIAL).is_none()
}

/// Whether what a head says is started could have been stored here.
fn are_clean(head: &RunHead) -> bool {
    head.marks.iter().all(|mark| is_clean(&mark.action))
}

/// The marks of a copy of which `count` steps are here: what its holder says is started, and of what was said before those
/// that it has answered with steps that are not here. A mark that a step here answers is none.
fn marks_of(head: &RunHead, before: &[Mark], count: u32) -> Vec<Mark> {
    let next = |n: u32| n > head.steps && n - head.steps <= MAX_STARTED as u32;
    let started = head.marks.iter().filter(|mark| next(mark.n)).map(|mark| (mark.n, mark.at_ms, mark.action.clone()));
    let unseen = before.iter().filter(|(n, ..)| *n > count && *n <= head.steps).cloned();
    let mut marks: Vec<Mark> = unseen.chain(started).collect();
    marks.sort();
    marks.truncate(MAX_STARTED);
    marks
}

fn is_dropped(index: &Index, id: &RunId) -> bool {
    let dropped = index.settings.get(SETTING_DROPPED_COPIES).map(|held| held.value.as_slice());
    dropped.unwrap_or_default().as_chunks::<16>().0.contains(&id.0)
}

/// A copy that may have to give way.
struct Held {
    touched_ms: u64,
    id: RunId,
    from: AuthorId,
    bytes: u64,
}

impl Plan<'_> {
    fn let_go(&mut self, state: &State) {
        self.log_erase(state.slots().chain([state.slot]));
        self.logs().what.push(What::Forgotten(state.head.id));
    }

    /// Stores what a copy's holder says is started, where that is news.
    fn note_marks(
        &mut self,
        state: &State,
        copy: &Copied,
        head: &RunHead,
        count: u32,
        at_ms: u64,
    ) -> Result<(), WriteError> {
        let marks = marks_of(head, &copy.marks, count);
        if marks == copy.marks {
            return Ok(());
        }
        let copy = Some(Copied { from: copy.from, marks });
        self.log_head(Some(state.slot), Head { leased_ms: at_ms, copy, ..state.head.clone() })
    }

    /// Lets copies go until `bytes` more of a peer's fit, into `grows` or else a new copy; false if that cannot be.
    fn make_room(&mut self, index: &Index, peer: AuthorId, grows: Option<RunId>, bytes: u64) -> bool {
        let held = index.logs.copies().filter_map(|state| {
            let from = state.head.copy.as_ref()?.from;
            Some(Held { touched_ms: state.touched_ms, id: state.head.id, from, bytes: state.log_bytes() })
        });
        let mut held: Vec<Held> = held.collect();
        held.sort_by_key(|copy| (copy.touched_ms, copy.id));
        loop {
            let mut shares: BTreeMap<AuthorId, (usize, u64)> = BTreeMap::new();
            *shares.entry(peer).or_default() = (usize::from(grows.is_none()), bytes);
            for copy in &held {
                let share = shares.entry(copy.from).or_default();
                *share = (share.0 + 1, share.1.saturating_add(copy.bytes));
            }
            let share_of = |peer: &AuthorId| shares.get(peer).copied().unwrap_or_default();
            let all = shares.values().fold((0, 0u64), |all, share| (all.0 + share.0, all.1.saturating_add(share.1)));
            let most = shares.values().fold((0, 0), |most, share| (share.0.max(most.0), share.1.max(most.1)));
            let (copies, copied) = share_of(&peer);
            let gives: &dyn Fn(&Held) -> bool = if copies > MAX_COPIES_OF_PEER || copied > MAX_COPIED_BYTES_OF_PEER {
                &|copy| copy.from == peer
            } else if all.0 > MAX_COPIES {
                &|copy| share_of(&copy.from).0 == most.0
            } else if all.1 > MAX_COPIED_BYTES {
                &|copy| share_of(&copy.from).1 == most.1
            } else {
                return true;
            };
            let Some(at) = held.iter().position(|copy| Some(copy.id) != grows && gives(copy)) else { return false };
            let gone = held.remove(at);
            if let Some(state) = index.logs.runs.get(&gone.id) {
                tracing::info!(run = state.head.name, node = %gone.from, "the copy of a run gives way to another");
                self.let_go(state);
            }
        }
    }
}

impl State {
    /// What is told of a run of this node's own.
    fn told(&self) -> (BankId, RunHead, RunAbout) {
        let (head, info) = (&self.head, self.info());
        let mark =
            |mark: &super::logs::StartedRef| RunMark { n: mark.n, at_ms: mark.at_ms, action: mark.action.clone() };
        let told = RunHead {
            run: RunKey(head.id.0),
            open: head.ended.is_none(),
            steps: info.steps,
            state: info.state.0,
            marks: self.started.iter().map(mark).collect(),
        };
        let about = RunAbout {
            name: head.name.clone(),
            task_key: head.task_key.clone(),
            task: head.task.clone(),
            domain: head.domain.clone(),
            agent: head.agent.clone(),
            tags: head.tags.clone(),
            began_ms: head.began_ms,
            branch: head.branch.map(|branch| (branch.from, branch.steps, branch.state.0)),
        };
        (head.bank, told, about)
    }
}

impl Store {
    /// What is told to the readers of each bank of the runs of this node's own that they may have.
    pub fn told_runs(&self) -> Vec<(BankId, RunHead, RunAbout)> {
        let index = self.index();
        let own = index.logs.runs.values().filter(|state| state.head.shared && state.head.copy.is_none());
        let mut told: Vec<(BankId, RunHead, RunAbout)> = own.map(State::told).collect();
        // Ended ones first: where not all can be told of, those go.
        told.sort_by_key(|(_, head, about)| (head.open, about.began_ms));
        told
    }

    /// As [`Store::told_runs`], of one run; `None` if it is not shared.
    pub fn told_run(&self, name: &str) -> Option<(BankId, RunHead, RunAbout)> {
        let index = self.index();
        index.logs.get(name).ok().filter(|state| state.head.shared).map(State::told)
    }

    /// Takes in what a peer tells of a run of its own. Returns how many steps of it are here; `None` if it is not wanted: it has
    /// ended, nobody said what it is about, its bank is not here or public, it was dropped here, or it holds what this node
    /// would not have stored. Durable when it returns.
    pub fn hear_run(
        &self,
        from: AuthorId,
        bank: BankId,
        head: &RunHead,
        about: Option<&RunAbout>,
        at_ms: u64,
    ) -> Result<Option<u32>, RunError> {
        let id = RunId::of_copy(&from, &head.run);
        // Most of what a peer tells again has ended long ago. What is told of one run comes one word after the other.
        let is_told_whole = head.open && about.is_some();
        if !is_told_whole && !self.index().logs.runs.contains_key(&id) {
            return Ok(None);
        }
        let mut texts = about.into_iter().flat_map(|about| {
            [&about.name, &about.task_key, &about.task, &about.domain, &about.agent].into_iter().chain(&about.tags)
        });
        // By its name whoever takes it over goes on with it.
        let named = about.is_none_or(|about| check_name(&about.name).is_ok());
        let good = named && texts.all(|text| is_clean(text)) && are_clean(head);
        self.log_group(|plan, index| {
            let info = index.bank(&bank).and_then(|bank| bank.info.as_ref());
            let shared = info.is_some_and(|info| info.salt != PUBLIC_SALT);
            let wanted = good && head.open && shared && !is_dropped(index, &id);
            if let Some(state) = index.logs.runs.get(&id) {
                let Some(copy) = state.head.copy.as_ref().filter(|copy| copy.from == from && state.head.bank == bank)
                else {
                    return Ok(Ok(None));
                };
                if !wanted {
                    plan.let_go(state);
                    return Ok(Ok(None));
                }
                plan.note_marks(state, copy, head, state.count(), at_ms)?;
                return Ok(Ok(Some(state.count())));
            }
            let Some(about) = about.filter(|_| wanted) else { return Ok(Ok(None)) };
            if !plan.make_room(index, from, None, 0) {
                return Ok(Ok(None));
            }
            let branch = about.branch.map(|(from, steps, state)| Branch { from, steps, state: StateHash(state) });
            let copied = Head {
                id,
                name: about.name.clone(),
                bank,
                shared: true,
                task_key: about.task_key.clone(),
                task: about.task.clone(),
                domain: about.domain.clone(),
                agent: about.agent.clone(),
                tags: about.tags.clone(),
                lease: 0,
                began_ms: about.began_ms,
                leased_ms: at_ms,
                branch,
                ended: None,
                copy: Some(Copied { from, marks: marks_of(head, &[], 0) }),
            };
            plan.log_head(None, copied)?;
            Ok(Ok(Some(0)))
        })
    }

    /// Stores steps of a peer's run, given as canonical bytes, the first numbered `first`, and what its head says is started.
    /// Returns how many steps are here then; `None` if they do not lead to the state that the peer told, cannot be, or there is
    /// no room: the copy is let go. Durable when it returns.
    pub fn copy_steps(
        &self,
        from: AuthorId,
        bank: BankId,
        head: &RunHead,
        first: u32,
        steps: &[Vec<u8>],
        at_ms: u64,
    ) -> Result<Option<u32>, RunError> {
        let parsed: Option<Vec<Step>> = steps
            .iter()
            .map(|bytes| {
                let step = canonical::decode::<Step, MAX_RUN_STEP_BYTES>(bytes).ok()?;
                let texts = [&step.think, &step.action, &step.observation];
                let fits = texts.iter().map(|text| text.len()).sum::<usize>() <= MAX_STEP_BYTES;
                (fits && texts.iter().all(|text| is_clean(text))).then_some(step)
            })
            .collect();
        let (id, clean) = (RunId::of_copy(&from, &head.run), are_clean(head));
        self.log_group(|plan, index| {
            let state = index.logs.runs.get(&id).filter(|state| state.head.bank == bank);
            let copy = state.and_then(|state| state.head.copy.as_ref()).filter(|copy| copy.from == from);
            let (Some(state), Some(copy)) = (state, copy) else { return Ok(Ok(None)) };
            let count = state.count();
            if first != count.saturating_add(1) {
                return Ok(Ok(Some(count)));
            }
            let bytes: u64 = steps.iter().map(|step| step.len() as u64).sum();
            let room = state.log_bytes().saturating_add(bytes) <= MAX_LOG_BYTES + steps.len() as u64 * 64;
            let (mut after, mut n) = (state.state(), count);
            let told = StateHash(head.state);
            let mut good = room && clean && head.open && u64::from(count) + steps.len() as u64 <= u64::from(head.steps);
            let chain: Vec<(u32, StateHash, Step)> = parsed
                .unwrap_or_else(|| {
                    good = false;
                    Vec::new()
                })
                .into_iter()
                .map(|step| {
                    n = n.saturating_add(1);
                    after = after.then(n, &step);
                    (n, after, step)
                })
                .collect();
            if !good || (n == head.steps && after != told) || !plan.make_room(index, from, Some(id), bytes) {
                plan.let_go(state);
                return Ok(Ok(None));
            }
            plan.note_marks(state, copy, head, n, at_ms)?;
            for (n, state, step) in chain {
                let slot = plan.log_entry(&Entry::Step { run: id, n, state, at_ms, step })?;
                plan.logs().what.push(What::Step(id, StepRef { slot, state, at_ms }));
            }
            Ok(Ok(Some(n)))
        })
    }

    /// Lets the copy of a peer's run go for good: it is not taken again when the peer tells of it, as far back as the last
    /// [`MAX_DROPPED_COPIES`]. Durable when it returns.
    ///
    /// # Errors
    /// [`RunError::NotACopy`] for a run of this node's own. State unchanged.
    pub fn drop_copy(&self, id: &RunId) -> Result<(), RunError> {
        self.log_group(|plan, index| {
            let Some(state) = index.logs.runs.get(id) else { return Ok(Err(RunError::Unknown(id.to_string()))) };
            if state.head.copy.is_none() {
                return Ok(Err(RunError::NotACopy(state.head.name.clone())));
            }
            let dropped = index.settings.get(SETTING_DROPPED_COPIES).map(|held| held.value.clone());
            let mut dropped = dropped.unwrap_or_default();
            dropped.extend_from_slice(&id.0);
            let beyond = dropped.len().saturating_sub(16 * MAX_DROPPED_COPIES);
            plan.setting(SETTING_DROPPED_COPIES, dropped.get(beyond..).unwrap_or_default())?;
            plan.let_go(state);
            Ok(Ok(()))
        })
    }

    /// Lets those copies go that `keep` does not name, by their bank and the node whose they are. Returns how many. Durable when
    /// it returns.
    pub fn retain_copies(&self, keep: impl Fn(&BankId, &AuthorId) -> bool) -> Result<usize, RunError> {
        let lost = |state: &&State| state.head.copy.as_ref().is_some_and(|copy| !keep(&state.head.bank, &copy.from));
        if !self.index().logs.copies().any(|state| lost(&state)) {
            return Ok(0);
        }
        self.log_group(|plan, index| {
            let lost = index.logs.copies().filter(lost);
            Ok(Ok(lost.map(|state| plan.let_go(state)).count()))
        })
    }

    /// Steps of a run of this node's own for a reader of its bank, as canonical bytes from `first` on, the first `offset` bytes
    /// of that left out, at most `budget` bytes; none if there are no more, or the run is not shared there.
    pub fn step_pieces(
        &self,
        bank: BankId,
        id: &RunId,
        first: u32,
        offset: u32,
        budget: usize,
    ) -> Result<Vec<StepPiece>, RunError> {
        let slots = self.log_group(|_, index| {
            let own = |state: &&State| state.head.shared && state.head.bank == bank && state.head.copy.is_none();
            let state = index.logs.runs.get(id).filter(own);
            let steps = state.map(|state| state.steps.as_slice()).unwrap_or_default();
            let from = (first as usize).saturating_sub(1);
            Ok(Ok(steps.iter().skip(from).take(MAX_PIECES).map(|step| step.slot).collect::<Vec<_>>()))
        })?;
        let (mut reader, mut pieces, mut left) = (Reader::new(self), Vec::new(), budget);
        let mut skip = offset as usize;
        for slot in slots {
            let Entry::Step { step, .. } = self.log_read(&mut reader, &id.to_string(), slot)? else { break };
            let bytes = canonical::encode(&step);
            let Some(rest) = bytes.get(std::mem::take(&mut skip)..).filter(|rest| !rest.is_empty()) else { break };
            let taken = rest.len().min(left);
            if taken == 0 {
                break;
            }
            left -= taken;
            let piece = StepPiece { bytes: rest[..taken].to_vec(), left: (rest.len() - taken) as u32 };
            let is_cut = piece.left > 0;
            pieces.push(piece);
            if is_cut {
                break;
            }
        }
        Ok(pieces)
    }
}
