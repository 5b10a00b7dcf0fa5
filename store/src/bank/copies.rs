//! Copies of other nodes' runs, and what of this node's own is told to them.
//!
//! What a peer says of its run is believed of that run alone: a copy is bound to who told of it, its chain is computed
//! here, and it goes when its holder says that the run has ended. Texts that this node would have changed before storing
//! them are not stored: such a copy is not kept at all.

use folklore_protocol::{
    bank::BankId,
    canonical,
    identity::AuthorId,
    run_log::{MAX_PIECES, MAX_RUN_STEP_BYTES, RunAbout, RunHead, RunKey, RunMark, StepPiece},
};

use super::{
    Store,
    logs::{State, StepRef, What},
    read::Reader,
};
use crate::{
    redact::{Classes, fires},
    run::{self, Step},
    runs::log::{
        Branch, Copied, Entry, Head, MAX_COPIED_BYTES, MAX_COPIES, MAX_LOG_BYTES, MAX_STEP_BYTES, RunError, RunId,
        StateHash,
    },
};

/// Whether a text of a peer's is one that this node could have stored itself.
fn is_clean(text: &str) -> bool {
    run::clean(text) == text && fires(text, Classes::CREDENTIAL).is_none()
}

fn marks_of(head: &RunHead) -> Vec<(u32, u64, String)> {
    head.marks.iter().map(|mark| (mark.n, mark.at_ms, mark.action.clone())).collect()
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

    /// Takes in what a peer tells of a run of its own. Returns how many steps of it are here; `None` if it is not wanted.
    /// Durable when it returns.
    pub fn hear_run(
        &self,
        from: AuthorId,
        bank: BankId,
        head: &RunHead,
        about: Option<&RunAbout>,
        at_ms: u64,
    ) -> Result<Option<u32>, RunError> {
        let texts = about.iter().flat_map(|about| {
            [&about.name, &about.task_key, &about.task, &about.domain, &about.agent].into_iter().chain(&about.tags)
        });
        if !texts.chain(head.marks.iter().map(|mark| &mark.action)).all(|text| is_clean(text)) {
            return Ok(None);
        }
        let id = RunId(head.run.0);
        self.log_group(|plan, index| {
            if let Some(state) = index.logs.runs.get(&id) {
                let Some(copy) = state.head.copy.as_ref().filter(|copy| copy.from == from && state.head.bank == bank)
                else {
                    return Ok(Ok(None));
                };
                if !head.open {
                    plan.log_erase(state.slots().chain([state.slot]));
                    plan.logs().what.push(What::Forgotten(id));
                    return Ok(Ok(None));
                }
                let marks = marks_of(head);
                if copy.marks != marks {
                    let copy = Some(Copied { from, marks });
                    plan.log_head(Some(state.slot), Head { leased_ms: at_ms, copy, ..state.head.clone() })?;
                }
                return Ok(Ok(Some(state.count())));
            }
            let Some(about) = about.filter(|_| head.open) else { return Ok(Ok(None)) };
            let (count, bytes) = index
                .logs
                .copies()
                .fold((0, 0u64), |(count, bytes), state| (count + 1, bytes.saturating_add(state.log_bytes())));
            let known = index.bank(&bank).is_some_and(|bank| bank.info.is_some());
            if !known || count >= MAX_COPIES || bytes >= MAX_COPIED_BYTES {
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
                copy: Some(Copied { from, marks: marks_of(head) }),
            };
            plan.log_head(None, copied)?;
            Ok(Ok(Some(0)))
        })
    }

    /// Stores steps of a peer's run, given as canonical bytes, the first numbered `first`. Returns how many are here then;
    /// `None` if they do not lead to the state that the peer told, cannot be, or there is no room: the copy is let go.
    /// Durable when it returns.
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
        let id = RunId(head.run.0);
        self.log_group(|plan, index| {
            let state = index.logs.runs.get(&id).filter(|state| {
                state.head.bank == bank && state.head.copy.as_ref().is_some_and(|copy| copy.from == from)
            });
            let Some(state) = state else { return Ok(Ok(None)) };
            let count = state.count();
            if first != count.saturating_add(1) {
                return Ok(Ok(Some(count)));
            }
            let bytes: u64 = steps.iter().map(|step| step.len() as u64).sum();
            let copied: u64 = index.logs.copies().map(State::log_bytes).sum();
            let room = state.log_bytes().saturating_add(bytes) <= MAX_LOG_BYTES + steps.len() as u64 * 64
                && copied.saturating_add(bytes) <= MAX_COPIED_BYTES;
            let (mut after, mut n) = (state.state(), count);
            let told = StateHash(head.state);
            let mut good = room && u64::from(count) + steps.len() as u64 <= u64::from(head.steps);
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
            if !good || (n == head.steps && after != told) {
                plan.log_erase(state.slots().chain([state.slot]));
                plan.logs().what.push(What::Forgotten(id));
                return Ok(Ok(None));
            }
            for (n, state, step) in chain {
                let slot = plan.log_entry(&Entry::Step { run: id, n, state, at_ms, step })?;
                plan.logs().what.push(What::Step(id, StepRef { slot, state, at_ms }));
            }
            Ok(Ok(Some(n)))
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
