//! Runs under way: what an agent has done so far, kept so that it can be resumed.
//!
//! A run's steps form a hash chain. The chain begins at the task and takes in the steps and nothing else, so a run that
//! was interrupted and resumed and one that was not have the same state hash after the same steps.
//!
//! Who writes holds a [`Lease`]. Resuming takes the next one, and writes under an earlier one are refused: a stalled agent
//! that wakes up after another took over cannot interleave with it. Texts are expected to be clean ([`crate::run::clean`])
//! and redacted; nothing here looks into them.

use std::{fmt, str::FromStr};

use folklore_protocol::{
    bank::BankId,
    canonical::{self, DecodeError},
    claim::{Outcome, RunDigest},
    identity::AuthorId,
    lesson::LessonId,
    run_log::{MAX_RUNS_OF_PEER, RunKey},
};
use serde::{Deserialize, Serialize};

use crate::{
    error::{ReadError, WriteError},
    run::{self, Step},
};

/// Steps of one run. A finished run keeps as many, and each whole, so nothing is elided when it ends.
pub const MAX_RUN_STEPS: u32 = run::MAX_STEPS as u32;
/// Bytes of a step's three texts together. A longer observation belongs into a file that the step names.
pub const MAX_STEP_BYTES: usize = 256 * 1024;
/// Bytes of all steps of one run: what is left of [`super::MAX_RUN_BYTES`] when each has its overhead.
pub const MAX_LOG_BYTES: u64 = 24 * 1024 * 1024;
/// Runs under way at one node. An agent has one or a few; more are left over and should be ended.
pub const MAX_OPEN_RUNS: usize = 256;
/// Started marks of one run that no step has answered. Agents start tools side by side, and not many.
pub const MAX_STARTED: usize = 16;
/// Ended runs whose names are remembered, so that a late word about one gets an answer. The oldest go first.
pub const MAX_ENDED_KEPT: usize = 1024;
/// Runs of other nodes that are copied, of all of them.
pub const MAX_COPIES: usize = 256;
/// Bytes of all copies. Who shares a bank can make a node keep this much, and no more.
pub const MAX_COPIED_BYTES: u64 = 512 * 1024 * 1024;
/// Copies of one node's runs: as many as are followed of a peer.
pub const MAX_COPIES_OF_PEER: usize = MAX_RUNS_OF_PEER;
/// Bytes of the copies of one node's runs: five of the longest, or many of the usual ones.
pub const MAX_COPIED_BYTES_OF_PEER: u64 = 128 * 1024 * 1024;
/// Copies dropped by hand that are remembered, so that they do not come back. The oldest go first.
pub const MAX_DROPPED_COPIES: usize = 1024;
/// Longest name of a run, bytes.
pub const MAX_RUN_NAME_BYTES: usize = 64;

/// Longest value of a log in the bank: a step and what stands around it, or a head with its task.
const MAX_ENTRY_BYTES: usize = MAX_STEP_BYTES + run::MAX_TASK_BYTES + 16 * 1024;
const ROOT_CONTEXT: &str = "folklore 2026 run log root v1";
const STEP_CONTEXT: &str = "folklore 2026 run log step v1";
const MARK_CONTEXT: &str = "folklore 2026 run log started v1";
const COPY_CONTEXT: &str = "folklore 2026 copy of a run v1";

/// The state of a run after some steps: the last link of its chain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StateHash(pub [u8; 32]);

impl StateHash {
    /// Of a run without steps.
    pub fn root(task_key: &str, task: &str) -> Self {
        Self(hash(ROOT_CONTEXT, &[&canonical::encode(&(task_key, task))]))
    }

    /// After one more step, numbered `n`.
    #[must_use]
    pub fn then(&self, n: u32, step: &Step) -> Self {
        Self(hash(STEP_CONTEXT, &[&self.0, &n.to_le_bytes(), &canonical::encode(step)]))
    }
}

impl fmt::Display for StateHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&run::digest_hex(&self.0))
    }
}

impl fmt::Debug for StateHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StateHash({self})")
    }
}

/// What a started mark is known by.
pub(crate) fn mark_hash(n: u32, what: &Step) -> [u8; 32] {
    hash(MARK_CONTEXT, &[&n.to_le_bytes(), &canonical::encode(what)])
}

fn hash(context: &str, parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key(context);
    for part in parts {
        hasher.update(part);
    }
    *hasher.finalize().as_bytes()
}

/// The right to write to a run, shown as `NAME@NUMBER`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The run's name.
    pub name: String,
    /// The fencing number: each resume makes the next.
    pub number: u64,
}

impl fmt::Display for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.number)
    }
}

impl FromStr for Lease {
    type Err = RunError;

    fn from_str(text: &str) -> Result<Self, RunError> {
        let wrong = || RunError::NotALease(canonical::shorten(text, 2 * MAX_RUN_NAME_BYTES));
        let (name, number) = text.rsplit_once('@').ok_or_else(wrong)?;
        let number = number.parse().map_err(|_| wrong())?;
        check_name(name)?;
        Ok(Self { name: name.to_owned(), number })
    }
}

/// Whether a run may be called so: letters, digits, `.`, `_` and `-`.
pub(crate) fn check_name(name: &str) -> Result<(), RunError> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || name.len() > MAX_RUN_NAME_BYTES || !name.chars().all(good) {
        return Err(RunError::BadName(canonical::shorten(name, 2 * MAX_RUN_NAME_BYTES)));
    }
    Ok(())
}

/// A run that is to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRun {
    /// Random, and so its own over all nodes.
    pub id: RunId,
    /// What it is called here; unique among the runs of this node.
    pub name: String,
    /// Where its lessons go when it has ended, and whose readers may take it over.
    pub bank: BankId,
    /// Whether the bank's readers get its steps.
    pub shared: bool,
    /// Runs of one task share it.
    pub task_key: String,
    /// The task in words.
    pub task: String,
    /// The field of work; empty when unknown.
    pub domain: String,
    /// Who acts; empty when unknown.
    pub agent: String,
    /// Words to filter by.
    pub tags: Vec<String>,
}

/// Names a run at a node: one of its own by random bytes, which name it over all nodes, the copy of another's by
/// [`RunId::of_copy`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunId(pub [u8; 16]);

impl RunId {
    /// Of the copy of a run that `holder` tells of: made of both, so that nobody takes a run's place by telling of another
    /// under its key.
    #[must_use]
    pub fn of_copy(holder: &AuthorId, run: &RunKey) -> Self {
        let mut id = [0; 16];
        let whole = hash(COPY_CONTEXT, &[&holder.0, &run.0]);
        id.iter_mut().zip(whole).for_each(|(to, from)| *to = from);
        Self(id)
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunId({self})")
    }
}

/// Where a run was taken over from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    /// The node whose log was gone on from.
    pub from: AuthorId,
    /// Steps taken over.
    pub steps: u32,
    /// The state after them.
    pub state: StateHash,
}

/// What stands at the head of a log. Rewritten when the lease passes on and when the run ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    pub id: RunId,
    pub name: String,
    pub bank: BankId,
    pub shared: bool,
    pub task_key: String,
    /// Empty once it has ended: the finished run has it.
    pub task: String,
    pub domain: String,
    pub agent: String,
    pub tags: Vec<String>,
    pub lease: u64,
    pub began_ms: u64,
    pub leased_ms: u64,
    pub branch: Option<Branch>,
    pub ended: Option<Ended>,
    /// It is another node's, and this is what that node said of it last.
    pub copy: Option<Copied>,
}

/// What another node said of its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Copied {
    /// Whose run it is.
    pub from: AuthorId,
    /// Started marks.
    pub marks: Vec<Mark>,
}

/// A started mark of another node's: step number, time there, action.
pub(crate) type Mark = (u32, u64, String);

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Success, failure, partial or unknown.
    pub outcome: Outcome,
    /// What the finished run is known by in the bank.
    pub digest: RunDigest,
    /// Steps it had.
    pub steps: u32,
    /// Its last state.
    pub state: StateHash,
    /// When, wall time of this node, milliseconds.
    pub at_ms: u64,
}

/// One value of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Entry {
    Head(Box<Head>),
    Step {
        run: RunId,
        n: u32,
        state: StateHash,
        at_ms: u64,
        step: Step,
    },
    Started {
        run: RunId,
        n: u32,
        at_ms: u64,
        what: Step,
    },
    /// Lessons that the agent was given on the way.
    Given {
        run: RunId,
        lessons: Vec<LessonId>,
    },
}

impl Entry {
    pub fn to_bytes(&self) -> Vec<u8> {
        canonical::encode(self)
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        canonical::decode::<Self, MAX_ENTRY_BYTES>(bytes)
    }
}

/// A step as it was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// Its number, from 1.
    pub n: u32,
    /// The state after it.
    pub state: StateHash,
    /// When, wall time of this node, milliseconds.
    pub at_ms: u64,
    /// What was done.
    pub step: Step,
}

/// A step that was marked started and not recorded as done: its effects may or may not have happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uncertain {
    /// The number it was to have.
    pub n: u32,
    /// When it was started, wall time of this node, milliseconds.
    pub at_ms: u64,
    /// What was to be done.
    pub what: Step,
}

/// What is known of a run without reading its steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunInfo {
    /// Names it, at this node.
    pub id: RunId,
    /// What it is called here.
    pub name: String,
    /// Its bank.
    pub bank: BankId,
    /// Whether the bank's readers get its steps.
    pub shared: bool,
    /// Runs of one task share it.
    pub task_key: String,
    /// The task in words; empty once it has ended.
    pub task: String,
    /// The field of work.
    pub domain: String,
    /// Who acts.
    pub agent: String,
    /// Words to filter by.
    pub tags: Vec<String>,
    /// The lease in force.
    pub lease: u64,
    /// Steps recorded.
    pub steps: u32,
    /// The state after them.
    pub state: StateHash,
    /// Started marks that no step has answered.
    pub uncertain: usize,
    /// Lessons that the agent was given.
    pub given: Vec<LessonId>,
    /// When it began, wall time of this node, milliseconds.
    pub began_ms: u64,
    /// When something was last recorded, wall time of this node, milliseconds.
    pub touched_ms: u64,
    /// Where it was taken over from, if it was.
    pub branch: Option<Branch>,
    /// How it ended, if it has.
    pub ended: Option<Ended>,
    /// Steps behind this one were recorded and are lost to damage of the disk.
    pub lost_after: Option<u32>,
    /// The node whose run it is, if it is another's.
    pub copy_of: Option<AuthorId>,
}

/// A run with all that is durable of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// What is known of it.
    pub info: RunInfo,
    /// Every step, in order.
    pub steps: Vec<Recorded>,
    /// What may or may not have happened.
    pub uncertain: Vec<Uncertain>,
}

/// What became of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepDone {
    /// The state after it.
    pub state: StateHash,
    /// It was recorded before, with the same content: nothing changed.
    pub known: bool,
}

/// How a run is to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// Who ends it.
    pub lease: Lease,
    /// The state that the finished run was made from.
    pub state: StateHash,
    /// How it ended.
    pub outcome: Outcome,
    /// What the finished run is known by in the bank.
    pub digest: RunDigest,
}

/// Why a run under way was not touched. It is as it was, unless [`RunError::Write`] says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// No run has that name.
    #[error("no run here is called '{0}': 'folklore runs' lists those under way")]
    Unknown(String),
    /// A name that cannot be one.
    #[error(
        "'{0}' cannot be the name of a run: up to {MAX_RUN_NAME_BYTES} letters, digits, dots, dashes and underscores"
    )]
    BadName(String),
    /// A run without its lease.
    #[error("'{0}' names no lease: write RUN@LEASE, as 'begin' and 'resume' answered it")]
    NotALease(String),
    /// A new run under an old name.
    #[error("a run called '{name}' is here already, of the task '{task}': {hint}")]
    Taken {
        /// The name.
        name: String,
        /// Its task, shortened.
        task: String,
        /// What to do.
        hint: &'static str,
    },
    /// Somebody else resumed the run.
    #[error(
        "the run was resumed by another under {name}@{current}, so writes of {name}@{given} are refused: stop here, or take it \
         back with 'folklore resume {name}'"
    )]
    Fenced {
        /// The run.
        name: String,
        /// The lease of whoever writes.
        given: u64,
        /// The lease in force.
        current: u64,
    },
    /// A lease that nobody was given.
    #[error(
        "{name}@{given} was never given out, the last is {name}@{current}: 'folklore resume {name}' gives the next"
    )]
    NoSuchLease {
        /// The run.
        name: String,
        /// The lease of whoever writes.
        given: u64,
        /// The lease in force.
        current: u64,
    },
    /// The run is over.
    #[error("run '{name}' has ended ({outcome}, {steps} steps): begin another for a new attempt")]
    Ended {
        /// The run.
        name: String,
        /// How.
        outcome: Outcome,
        /// Steps it had.
        steps: u32,
    },
    /// Another step has this number.
    #[error(
        "step {n} of run '{name}' is recorded with other content: {held} is held, {given} was given; the next step is \
         {next}"
    )]
    Conflict {
        /// The run.
        name: String,
        /// The step's number.
        n: u32,
        /// The state after what is held.
        held: StateHash,
        /// The state that what was given would lead to.
        given: StateHash,
        /// The next number.
        next: u32,
    },
    /// A number that does not follow.
    #[error("step {given} of run '{name}' leaves a gap: the next number is {expected}")]
    Gap {
        /// The run.
        name: String,
        /// The next number.
        expected: u32,
        /// The number given.
        given: u32,
    },
    /// A run of this node's own where a copy is meant.
    #[error("run '{0}' is this node's own and no copy: 'folklore end' ends it")]
    NotACopy(String),
    /// Steps came in while the run was being ended.
    #[error("run '{0}' went on while it was being ended: end it again")]
    Moved(String),
    /// A limit.
    #[error("{what} of run '{name}': {found}, the limit is {limit}: {hint}")]
    Limit {
        /// The run.
        name: String,
        /// What there is too much of.
        what: &'static str,
        /// How much there would be.
        found: u64,
        /// How much there may be.
        limit: u64,
        /// What to do.
        hint: &'static str,
    },
    /// Too many runs.
    #[error(
        "{MAX_OPEN_RUNS} runs are under way here, the limit: end one that is left over ('folklore runs' lists them; nobody \
         touched '{0}' for longest)"
    )]
    TooManyRuns(String),
    /// Nothing was written, or it is not certain.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The log could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(action: &str) -> Step {
        Step { action: action.into(), ..Step::default() }
    }

    #[test]
    fn the_state_depends_on_the_task_the_order_and_every_text() {
        let root = StateHash::root("key", "task");
        let after = root.then(1, &step("a")).then(2, &step("b"));
        assert_eq!(after, StateHash::root("key", "task").then(1, &step("a")).then(2, &step("b")));
        assert_ne!(after, root.then(1, &step("b")).then(2, &step("a")));
        assert_ne!(root, StateHash::root("keyt", "ask"));
        assert_ne!(root.then(1, &step("a")), root.then(2, &step("a")));
        let moved = Step { think: "a".into(), ..Step::default() };
        assert_ne!(root.then(1, &step("a")), root.then(1, &moved));
    }

    #[test]
    fn a_lease_reads_back_and_a_bare_name_is_none() {
        let lease = Lease { name: "shop-7.b_2".into(), number: 12 };
        assert_eq!(lease.to_string().parse::<Lease>(), Ok(lease));
        for wrong in ["shop", "shop@", "shop@x", "@1", "sh op@1", "a@-1", &format!("{}@1", "x".repeat(65))] {
            assert!(wrong.parse::<Lease>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_entry_reads_back_and_a_cut_one_does_not() {
        let entry = Entry::Started { run: RunId([7; 16]), n: 3, at_ms: 9, what: step("pay") };
        let bytes = entry.to_bytes();
        assert_eq!(Entry::from_bytes(&bytes), Ok(entry));
        assert!(Entry::from_bytes(&bytes[..bytes.len() - 1]).is_err());
    }

    #[test]
    fn the_longest_step_fits_into_an_entry() {
        let step = Step { observation: "x".repeat(MAX_STEP_BYTES), ..Step::default() };
        let entry = Entry::Step { run: RunId([7; 16]), n: 1, state: StateHash([0; 32]), at_ms: u64::MAX, step };
        assert!(Entry::from_bytes(&entry.to_bytes()).is_ok());
    }
}
