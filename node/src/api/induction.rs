//! Lessons from runs that the bank holds, the queue of what models are asked, and attempts at one task.

use folklore_protocol::Outcome;
use serde::{Deserialize, Serialize};

use super::{Answer, ApiError, NoLesson, Replaced, TimeMs};
use crate::induction::{AGENT, Ask};

/// Runs that one request may name.
pub const MAX_INDUCED_RUNS: usize = 16;
/// Longest answer of an agent's model that is taken, bytes.
pub const MAX_INDUCED_ANSWER_BYTES: usize = 256 * 1024;
/// Tasks that one request for attempts shows.
pub const MAX_SHOWN_TASKS: usize = 20;
/// Attempts shown of one task.
pub const MAX_SHOWN_ATTEMPTS: usize = 256;

/// Which model is asked, where a request says something else than the home's configuration. It never holds a key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelRequest {
    /// The model's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Base address of its service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Whether runs without a label are judged by the model first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge: Option<bool>,
    /// Whether successes are also split into procedures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub procedures: Option<bool>,
    /// Bytes of runs in one prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_bytes: Option<usize>,
}

impl ModelRequest {
    /// Whether nothing is said.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// `induce`: draw lessons from runs that the bank holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InduceRequest {
    /// Ids of runs, or their first digits; or one task key, for all its runs.
    pub runs: Vec<String>,
    /// What is asked of them.
    #[serde(default = "default_ask")]
    pub ask: Ask,
    /// The backend; none: the one that the home's configuration names, else `extractive`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Which model, for a backend that has one.
    #[serde(default, skip_serializing_if = "ModelRequest::is_default")]
    pub model: ModelRequest,
    /// Only show the prompt.
    #[serde(default)]
    pub dry_run: bool,
}

impl InduceRequest {
    /// The same for an agent's own model: only the prompt.
    ///
    /// # Errors
    /// When it names another backend.
    pub fn of_agent(self) -> Answer<Self> {
        match self.backend.as_deref() {
            None | Some(AGENT) => Ok(Self { backend: Some(AGENT.into()), ..self }),
            Some(other) => Err(ApiError::bad_request(format!(
                "'{other}' asks its model itself: /v1/induce, with \"dry_run\": true for the prompt alone"
            ))),
        }
    }
}

fn default_ask() -> Ask {
    Ask::Lessons
}

/// A prompt as it would be sent, or as the agent's own model is to answer it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptView {
    /// What is asked.
    pub ask: Ask,
    /// The runs that it shows, in order.
    pub runs: Vec<String>,
    /// The rules.
    pub system: String,
    /// The material.
    pub user: String,
    /// Tokens of both, about.
    pub estimated_tokens: u64,
    /// Where it would be sent; null for an agent's own model.
    pub service: Option<String>,
}

/// Answer of `induce`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InduceResponse {
    /// Ids of lessons that are new to the bank.
    pub lessons: Vec<String>,
    /// What is not kept because a lesson says it already.
    #[serde(default)]
    pub replaced: Vec<Replaced>,
    /// Runs that taught nothing.
    pub no_lesson: Vec<NoLesson>,
    /// Jobs that were queued, or were already.
    pub jobs: Vec<String>,
    /// The prompts, for `agent` and for a dry run.
    pub prompts: Vec<PromptView>,
}

/// `induce/answer`: what an agent's own model answered to a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InduceAnswerRequest {
    /// The runs of the prompt, in its order.
    pub runs: Vec<String>,
    /// What was asked.
    #[serde(default = "default_ask")]
    pub ask: Ask,
    /// The answer, as the model gave it.
    pub answer: String,
    /// The model's name, for the lessons' evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Answer of `induce/answer`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InduceAnswerResponse {
    /// Ids of lessons that are new to the bank.
    pub lessons: Vec<String>,
    /// What is not kept because a lesson says it already.
    #[serde(default)]
    pub replaced: Vec<Replaced>,
    /// The verdict that was stored, if one was asked for.
    pub verdict: Option<Outcome>,
    /// What is wrong with the answer, or with some of its lessons.
    pub problems: Vec<String>,
    /// What to say to the model so that it puts that right; null when nothing is wrong.
    pub objection: Option<String>,
}

/// How far a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// It waits for its turn, or for its service.
    Waiting,
    /// A model is being asked.
    Running,
    /// It was given up, until somebody retries or drops it.
    Failed,
}

/// A job in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobView {
    /// Its id.
    pub id: String,
    /// How far it is.
    pub state: JobState,
    /// What is asked: `lessons`, `contrast`, `procedures` or `judge`.
    pub ask: String,
    /// The runs.
    pub runs: Vec<String>,
    /// Whom.
    pub service: String,
    /// When it was queued.
    pub queued: TimeMs,
    /// Why it was given up.
    pub reason: Option<String>,
}

/// Answer of `jobs`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobsResponse {
    /// The jobs, oldest first.
    pub jobs: Vec<JobView>,
    /// Jobs that wait or run.
    pub waiting: u64,
    /// Jobs that were given up.
    pub failed: u64,
    /// Why waiting jobs wait, if it is not for their turn.
    pub error: Option<String>,
    /// Seconds until that is tried again.
    pub retry_in_s: Option<u64>,
}

/// `jobs/retry` and `jobs/drop`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobRequest {
    /// The job's id, or its first digits; `all` for every job that has failed.
    pub id: String,
}

/// Answer of `jobs/retry` and `jobs/drop`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobResponse {
    /// The jobs it was done to.
    pub jobs: Vec<String>,
}

/// `attempts`: the runs of one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttemptsRequest {
    /// A task key, a part of one, or the task in the words an agent was given.
    pub task: String,
    /// Name or id of a bank; none: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bank: Option<String>,
}

/// Answer of `attempts`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptsResponse {
    /// The tasks that fit.
    pub tasks: Vec<TaskAttempts>,
    /// Tasks that fit and are not shown.
    pub more: u64,
}

/// The attempts at one task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskAttempts {
    /// The task's key.
    pub key: String,
    /// The task in general terms.
    pub task: String,
    /// Id of the bank.
    pub bank: String,
    /// Runs here, successes first.
    pub runs: Vec<AttemptView>,
    /// Runs here that are not shown.
    pub more: u64,
    /// What other nodes say of their attempts at the task: their runs stay with them, their lessons' evidence does not.
    pub elsewhere: Vec<ElsewhereView>,
    /// Whether a contrast can be drawn here.
    pub mixed: bool,
    /// Contrasts of the task that the bank holds.
    pub contrasts: Vec<String>,
}

/// One attempt that this node holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptView {
    /// The run's id.
    pub run: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Reward in thousandths.
    pub reward_milli: Option<i32>,
    /// Who judged.
    pub judged_by: Option<String>,
    /// Which agent ran.
    pub agent: String,
    /// Which attempt it was, where its format numbers them.
    pub attempt: Option<u32>,
    /// Steps.
    pub steps: u64,
    /// Where it came from.
    pub source: String,
}

/// What another node's lesson says of attempts there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElsewhereView {
    /// The node.
    pub author: String,
    /// The lesson that says so.
    pub lesson: String,
    /// How they ended.
    pub outcome: Outcome,
    /// How many.
    pub attempts: u32,
    /// Which agent ran.
    pub agent: String,
    /// Who judged.
    pub judged_by: String,
}

/// `refine`: the prompt by which an agent looks over its own run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefineRequest {
    /// The run's id, or its first digits.
    pub run: String,
    /// Which look it is, from 1.
    #[serde(default = "first_round")]
    pub round: u32,
    /// Lessons put beside it.
    #[serde(default = "default_lessons")]
    pub lessons: usize,
}

fn first_round() -> u32 {
    1
}

fn default_lessons() -> usize {
    1
}

/// Answer of `refine`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefineResponse {
    /// The prompt.
    pub prompt: String,
    /// Tokens of it, about.
    pub estimated_tokens: u64,
    /// The lessons that stand in it.
    pub lessons: Vec<String>,
}

/// How induction by a model fares, in `status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InductionInfo {
    /// The model that the home's configuration names.
    pub service: Option<String>,
    /// Whether runs that end here are given to it.
    pub ended: bool,
    /// Jobs that wait or run.
    pub waiting: u64,
    /// Jobs that were given up.
    pub failed: u64,
    /// Why waiting jobs wait, if it is not for their turn.
    pub error: Option<String>,
    /// Seconds until that is tried again.
    pub retry_in_s: Option<u64>,
}
