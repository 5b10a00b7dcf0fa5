//! Recall: what an agent is about to do, and what is known about it.

use folklore_protocol::lesson::LessonKind;
use serde::{Deserialize, Serialize};

use super::{DEFAULT_K, EmbedderInfo, LessonView, Standing};

/// How far a recall looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// This node's banks.
    #[default]
    Local,
    /// The connected peers too.
    Network,
}

/// `recall`: what an agent is about to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecallRequest {
    /// The task, in any words.
    pub task: String,
    /// Most hits wanted, 1 to [`MAX_K`](super::MAX_K).
    #[serde(default = "default_k")]
    pub k: usize,
    /// How far to look.
    #[serde(default)]
    pub scope: Scope,
    /// Lowest score of a hit, 0 to 1; none: the calibrated one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_score: Option<f32>,
    /// Name or id of a bank; none: all banks of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bank: Option<String>,
    /// Only these kinds; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<LessonKind>,
    /// Only this domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// How long to wait for peers, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// How much a hit's difference from those before it counts beside its score, 0 to 1 (maximal marginal relevance);
    /// none: by score alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diverse: Option<f32>,
    /// Attempts at the task that run side by side: so many different lessons are wanted, the first for the first attempt and so
    /// on. Takes the place of `k`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<usize>,
    /// Leave out lessons learned from these tasks: each the whole text an agent was given, or a lesson's `task`. For
    /// evaluations, so that a task is not helped by its own memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude_tasks: Vec<String>,
    /// Tell how each hit was scored, and for an empty answer what came nearest.
    #[serde(default, skip_serializing_if = "is_false")]
    pub explain: bool,
    /// The task is a subquestion that an agent is on in the middle of a run: up to `k` procedures come first, then up to
    /// `k` lessons of other kinds. With `kinds` these alone, as ever.
    #[serde(default, skip_serializing_if = "is_false")]
    pub step: bool,
    /// The run that asks, `NAME@LEASE`: what it was given before is left out, and what it is given now is noted, durably,
    /// so that it is not learned again from this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl RecallRequest {
    /// A recall of one local hit with every default.
    pub fn new(task: impl Into<String>) -> Self {
        Self {
            task: task.into(),
            k: DEFAULT_K,
            scope: Scope::Local,
            min_score: None,
            bank: None,
            kinds: Vec::new(),
            domain: None,
            deadline_ms: None,
            diverse: None,
            attempts: None,
            exclude_tasks: Vec::new(),
            explain: false,
            step: false,
            run: None,
        }
    }
}

fn default_k() -> usize {
    DEFAULT_K
}

/// A lesson that was recalled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// The lesson.
    pub lesson: LessonView,
    /// What it was ranked by.
    pub score: f32,
    /// Cosine of the vectors.
    pub dense: f32,
    /// BM25 divided by the query's best.
    pub lexical: f32,
    /// What is said about it.
    pub standing: Standing,
    /// Node ids of those who taught it.
    pub authors: Vec<String>,
    /// `local`, or the id of the peer it came from.
    pub source: String,
    /// Ids of lessons that say almost the same and are shown as this one, best first.
    #[serde(default)]
    pub also: Vec<String>,
    /// How it was scored, where the request asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explain: Option<HitExplanation>,
}

/// How a lesson was scored: `score = fused × standing_factor`, `fused = 0.7 × dense + 0.3 × lexical` (where the query has
/// no vector, `lexical` alone), and the gate shows it where `reached` is not below `bar`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HitExplanation {
    /// Cosine of the lesson's task with the query; null without vectors.
    pub task_cosine: Option<f32>,
    /// Cosine of the lesson's text with the query.
    pub text_cosine: Option<f32>,
    /// BM25 of the task alone.
    pub task_bm25: f32,
    /// BM25 of the text alone.
    pub text_bm25: f32,
    /// BM25 of both together, which counts.
    pub bm25: f32,
    /// The score before standing.
    pub fused: f32,
    /// What the lesson's standing multiplies it by.
    pub standing_factor: f32,
    /// What the gate saw.
    pub gate: GateExplanation,
}

/// What the gate saw in a lesson.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GateExplanation {
    /// The share of the query's idf mass whose words the lesson has.
    pub coverage: f32,
    /// Cosine and weighted coverage together.
    pub reached: f32,
    /// What must be reached.
    pub bar: f32,
    /// Whether it is.
    pub passes: bool,
}

/// What was made of the query, and what came nearest where nothing was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecallExplanation {
    /// Lessons that competed: those held, and those that peers sent.
    pub lessons: u64,
    /// How much the query says, counted in words that no lesson has.
    pub mass: f32,
    /// The BM25 that all are divided by.
    pub best_bm25: f32,
    /// Whether the query has a vector.
    pub embedded: bool,
    /// For an empty answer: the lesson that came nearest to being shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<Nearest>,
}

/// A lesson that was not shown, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Nearest {
    /// Its id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// What it would have been ranked by.
    pub score: f32,
    /// BM25 divided by the query's best.
    pub lexical: f32,
    /// How it was scored.
    pub explain: HitExplanation,
}

/// Why a recall has no hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EmptyReason {
    /// Nothing was ever learned here.
    BankEmpty,
    /// There are lessons, none close enough.
    BelowThreshold,
    /// There are close ones, and the filters of the request (or their standing) keep them out.
    Filtered,
    /// The query could not be embedded.
    EmbedderUnavailable,
}

impl EmptyReason {
    /// The word used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BankEmpty => "bank-empty",
            Self::BelowThreshold => "below-threshold",
            Self::Filtered => "filtered",
            Self::EmbedderUnavailable => "embedder-unavailable",
        }
    }
}

/// Who was asked. Node ids; empty for a local recall.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedPeers {
    /// All that were asked.
    pub asked: Vec<String>,
    /// Those that answered in time, also with nothing.
    pub answered: Vec<String>,
    /// Those that did not.
    pub silent: Vec<String>,
}

/// Answer of `recall`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecallResponse {
    /// Best first.
    pub hits: Vec<Hit>,
    /// Why there are none; null when there are.
    pub reason: Option<EmptyReason>,
    /// What embedded the query; null when nothing could.
    pub embedder: Option<EmbedderInfo>,
    /// Who was asked.
    pub peers: AskedPeers,
    /// More for people, such as the best score below the threshold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What was made of the query, where the request asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explain: Option<RecallExplanation>,
}
