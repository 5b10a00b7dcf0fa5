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
}
