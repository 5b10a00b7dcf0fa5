//! Runs under way: begun, recorded step by step, resumed and ended.

use folklore_protocol::claim::Outcome;
use serde::{Deserialize, Serialize};

use super::{DEFAULT_K, EmptyReason, Hit, NoLesson, Redacted, Replaced, TimeMs};

/// `begin`: an agent starts on a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BeginRequest {
    /// The task in words, as the agent was given it.
    pub task: String,
    /// What runs of this task share; none: made of the task's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_key: Option<String>,
    /// What the run is to be called at this node; none: a random name. One that is taken is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Name or id of a bank that gets the run's lessons, and whose readers may take it over. None: the run stays at this
    /// node, and its lessons go to the default bank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bank: Option<String>,
    /// The field of work.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub domain: String,
    /// Who acts: a model or agent name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub agent: String,
    /// Words to filter by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// Answer of `begin`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeginResponse {
    /// `NAME@LEASE`: what `step` and `end` take.
    pub run: String,
    /// The name alone.
    pub name: String,
    /// The lease alone.
    pub lease: u64,
    /// Id of the bank that gets its lessons.
    pub bank: String,
    /// Whether nodes that share the bank get its steps.
    pub shared: bool,
    /// The state without a step, in hex.
    pub state: String,
    /// Secrets removed before the task was hashed.
    #[serde(default)]
    pub redacted: Vec<Redacted>,
}

/// `step`: what was done, or what is about to be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepRequest {
    /// `NAME@LEASE`.
    pub run: String,
    /// The step's number, from 1.
    pub n: u32,
    /// What the agent wrote for itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub think: String,
    /// What it did.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub action: String,
    /// What came back.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub observation: String,
    /// The action is about to be started and may have effects: until step `n` is recorded, `resume` reports it as uncertain.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub started: bool,
}

/// Answer of `step`. What it speaks of is durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepResponse {
    /// `NAME@LEASE`.
    pub run: String,
    /// The step's number.
    pub n: u32,
    /// The number of the next step.
    pub next: u32,
    /// The state of the run after its last step, in hex.
    pub state: String,
    /// The same was recorded before: nothing changed.
    pub known: bool,
    /// It is a started mark and no step.
    pub started: bool,
    /// Secrets removed before it was hashed.
    #[serde(default)]
    pub redacted: Vec<Redacted>,
}

/// `end`: how it went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndRequest {
    /// `NAME@LEASE`.
    pub run: String,
    /// Success, failure, partial or unknown. An unknown outcome teaches nothing.
    pub outcome: Outcome,
    /// Reward in thousandths; 1000 is a full success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reward_milli: Option<i32>,
    /// What the judge said, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged_by: Option<String>,
}

/// Answer of `end`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndResponse {
    /// The run's name.
    pub name: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Its digest, in hex; `rate --run` takes it.
    pub digest: String,
    /// Steps it had.
    pub steps: u32,
    /// Its last state, in hex.
    pub state: String,
    /// It had ended so before: nothing changed.
    pub known: bool,
    /// Ids of the lessons that came of it, by itself and beside other runs of the task.
    pub lessons: Vec<String>,
    /// What is not kept because a lesson says it already.
    #[serde(default)]
    pub replaced: Vec<Replaced>,
    /// Jobs for the model that runs which end here are given to.
    #[serde(default)]
    pub queued: u64,
    /// Why something taught nothing.
    pub no_lesson: Vec<NoLesson>,
}

/// `resume`: goes on with a run, and takes it away from whoever held it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResumeRequest {
    /// The run's name; a lease behind it is of no account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Instead of a name: the task in words, or its key. Exactly one run of it must be under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Most lessons wanted.
    #[serde(default = "default_k")]
    pub k: usize,
}

fn default_k() -> usize {
    DEFAULT_K
}

impl Default for ResumeRequest {
    fn default() -> Self {
        Self { run: None, task: None, k: DEFAULT_K }
    }
}

/// A step as it was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepView {
    /// Its number, from 1.
    pub n: u32,
    /// What the agent wrote for itself.
    pub think: String,
    /// What it did.
    pub action: String,
    /// What came back.
    pub observation: String,
    /// When it was recorded, or marked as started.
    pub at: TimeMs,
    /// The state after it, in hex; empty for what is uncertain.
    #[serde(default)]
    pub state: String,
}

/// Where a run was taken over from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchView {
    /// Id of the node whose run it was.
    pub from: String,
    /// Steps taken over.
    pub steps: u32,
    /// The state after them, in hex.
    pub state: String,
}

/// Answer of `resume`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResumeResponse {
    /// `NAME@LEASE`, of the lease that was just taken.
    pub run: String,
    /// The name alone.
    pub name: String,
    /// The lease alone.
    pub lease: u64,
    /// The task in words.
    pub task: String,
    /// What runs of this task share.
    pub task_key: String,
    /// Id of the bank that gets its lessons.
    pub bank: String,
    /// The field of work.
    pub domain: String,
    /// Who began it.
    pub agent: String,
    /// When it began.
    pub began: TimeMs,
    /// Every durable step, in order.
    pub steps: Vec<StepView>,
    /// The number of the next step.
    pub next: u32,
    /// The state after the last step, in hex: that of an uninterrupted run of the same steps.
    pub state: String,
    /// What was started and not recorded as done: it may or may not have happened.
    pub uncertain: Vec<StepView>,
    /// Set when steps behind this one were recorded and are lost to damage of the disk.
    pub lost_after: Option<u32>,
    /// Where it was taken over from, if it was.
    pub branch: Option<BranchView>,
    /// What is known about the task and was not given to the run before.
    pub lessons: Vec<Hit>,
    /// Why there are no lessons; null when there are.
    pub reason: Option<EmptyReason>,
}

/// `runs`: which are under way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunsRequest {
    /// Ended ones whose names are remembered, too.
    #[serde(default)]
    pub all: bool,
}

/// `runs drop`: lets the copy of another node's run go, for good.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DropRunRequest {
    /// Its name or its id, as `runs` shows them.
    pub run: String,
}

/// Answer of `runs drop`. What it speaks of is durable.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropRunResponse {
    /// What its holder calls the run.
    pub name: String,
    /// What named the copy here, in hex.
    pub id: String,
    /// The node whose run it is.
    pub copy_of: String,
    /// Steps that were here.
    pub steps: u32,
}

/// A run without its steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSummary {
    /// Its name.
    pub name: String,
    /// The lease in force.
    pub lease: u64,
    /// The task, shortened.
    pub task: String,
    /// What runs of this task share.
    pub task_key: String,
    /// Id of its bank.
    pub bank: String,
    /// Whether nodes that share the bank get its steps.
    pub shared: bool,
    /// Who began it.
    pub agent: String,
    /// Steps recorded.
    pub steps: u32,
    /// The state after them, in hex.
    pub state: String,
    /// Started marks that no step has answered.
    pub uncertain: u64,
    /// When it began.
    pub began: TimeMs,
    /// When something was last recorded.
    pub touched: TimeMs,
    /// How it ended; null while it is under way.
    pub outcome: Option<Outcome>,
    /// Where it was taken over from, if it was.
    pub branch: Option<BranchView>,
    /// Names it at this node, in hex.
    #[serde(default)]
    pub id: String,
    /// The node whose run it is, if it is another's: `resume` takes it over as a branch.
    #[serde(default)]
    pub copy_of: Option<String>,
}

/// Answer of `runs`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunsResponse {
    /// Those under way first, the one touched last first.
    pub runs: Vec<RunSummary>,
}
