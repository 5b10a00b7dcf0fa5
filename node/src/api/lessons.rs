//! Lessons taught, shown, listed, rated, withdrawn and forgotten.

use folklore_protocol::{
    claim::{Outcome, Verdict},
    lesson::{LessonDraft, LessonKind},
};
use serde::{Deserialize, Serialize};

use super::{DEFAULT_CLAIMS_LIMIT, DEFAULT_LIST_LIMIT, TimeMs};

/// A lesson as shown: its id and its fields side by side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LessonView {
    /// CIDv1 of the canonical bytes.
    pub id: String,
    /// `kind`, `title`, `applies_when`, `not_when`, `content`, `task`, `domain`, `tags`.
    #[serde(flatten)]
    pub fields: LessonDraft,
}

/// How far a lesson is to be trusted here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LessonState {
    /// Borne out by several principals or by ratings.
    Trusted,
    /// Nobody but who taught it has said anything.
    Unproven,
    /// Somebody says it is wrong.
    Disputed,
    /// Whoever taught it, or the bank, took it back.
    Withdrawn,
    /// Kept aside by this node.
    Quarantined,
}

impl LessonState {
    /// The word used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trusted => "trusted",
            Self::Unproven => "unproven",
            Self::Disputed => "disputed",
            Self::Withdrawn => "withdrawn",
            Self::Quarantined => "quarantined",
        }
    }
}

/// What is said about a lesson, counted over distinct principals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// What follows from the counts.
    pub state: LessonState,
    /// Who taught it.
    pub taught_by: u32,
    /// Who says it helped.
    pub helped: u32,
    /// Who says it hurt.
    pub hurt: u32,
    /// Who disputes it.
    pub disputed: u32,
}

/// What a taught lesson rests on. All fields may be left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TeachEvidence {
    /// How the run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Reward in thousandths; 1000 is a full success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reward_milli: Option<i32>,
    /// Which agent ran.
    pub agent: String,
    /// Who judged.
    pub judged_by: String,
}

/// `teach`: a lesson's fields, and where it goes. Limits are those of `folklore_protocol::lesson`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TeachRequest {
    /// What kind of lesson.
    pub kind: LessonKind,
    /// One line that says it.
    pub title: String,
    /// When to use it.
    #[serde(default)]
    pub applies_when: String,
    /// When not to use it.
    #[serde(default)]
    pub not_when: String,
    /// What to know or do.
    pub content: String,
    /// The task in general terms; for a procedure the subquestion.
    #[serde(default)]
    pub task: String,
    /// Where it belongs; may be empty.
    #[serde(default)]
    pub domain: String,
    /// Free words.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Name or id of the bank; none: the node's default bank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bank: Option<String>,
    /// What it rests on; none: somebody wrote it down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<TeachEvidence>,
}

impl TeachRequest {
    /// The lesson's fields, not yet checked.
    pub fn draft(&self) -> LessonDraft {
        LessonDraft {
            kind: self.kind,
            title: self.title.clone(),
            applies_when: self.applies_when.clone(),
            not_when: self.not_when.clone(),
            content: self.content.clone(),
            task: self.task.clone(),
            domain: self.domain.clone(),
            tags: self.tags.clone(),
        }
    }
}

/// A secret rule that struck, and how often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redacted {
    /// Name of the rule.
    pub rule: String,
    /// Places it struck.
    pub count: u64,
}

/// A lesson that is not kept, because another says the same: the claim is on that one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replaced {
    /// Title of what is not kept.
    pub title: String,
    /// Its content, cut.
    pub content: String,
    /// Id of the lesson that says it.
    pub by: String,
    /// Title of that lesson.
    pub by_title: String,
}

/// Answer of `teach`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeachResponse {
    /// Id of the lesson as stored.
    pub id: String,
    /// Whether the bank did not hold it before.
    pub new: bool,
    /// The lesson that holds the claim instead, when this one says almost the same.
    pub merged_into: Option<String>,
    /// Which text that replaces: one, or none.
    #[serde(default)]
    pub replaced: Vec<Replaced>,
    /// Secrets removed before it was hashed.
    #[serde(default)]
    pub redacted: Vec<Redacted>,
}

/// `show`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShowRequest {
    /// Lesson id or prefix.
    pub id: String,
    /// Most claims wanted, 0 to [`MAX_CLAIMS_LIMIT`](super::MAX_CLAIMS_LIMIT).
    #[serde(default = "default_claims_limit")]
    pub limit: usize,
    /// Claims to leave out first.
    #[serde(default)]
    pub offset: usize,
}

impl ShowRequest {
    /// The first page of the lesson whose id is or begins with `id`.
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), limit: DEFAULT_CLAIMS_LIMIT, offset: 0 }
    }
}

fn default_claims_limit() -> usize {
    DEFAULT_CLAIMS_LIMIT
}

/// What a teaching rests on, as shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceView {
    /// How the run ended.
    pub outcome: Outcome,
    /// Reward in thousandths.
    pub reward_milli: Option<i32>,
    /// Runs it was drawn from.
    pub attempts: u32,
    /// Who judged.
    pub judged_by: String,
    /// What drew it.
    pub induced_by: String,
    /// Which agent ran.
    pub agent: String,
}

/// One claim about a lesson.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimView {
    /// Who claims.
    pub author: String,
    /// The author's number for the record.
    pub seq: u64,
    /// The author's clock: shown, never trusted.
    pub at: TimeMs,
    /// `taught`, `helped`, `hurt`, `disputed`, `withdrawn` or `endorsed`.
    pub claim: String,
    /// Why, where the author says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For `taught`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<EvidenceView>,
}

/// Answer of `show`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShowResponse {
    /// The lesson.
    pub lesson: LessonView,
    /// What is said about it, counted.
    pub standing: Standing,
    /// Node ids of those who taught it.
    pub authors: Vec<String>,
    /// What is said about it, claim by claim, by author and number: a page.
    pub claims: Vec<ClaimView>,
    /// Claims in all.
    #[serde(default)]
    pub total: u64,
    /// Offset of the next page; null on the last.
    #[serde(default)]
    pub next: Option<usize>,
    /// Id of the bank that holds it.
    pub bank: String,
}

/// `list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListRequest {
    /// Name or id of a bank; none: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bank: Option<String>,
    /// Only this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<LessonKind>,
    /// Only this domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Lessons of this page, 1 to [`MAX_LIST_LIMIT`](super::MAX_LIST_LIMIT).
    #[serde(default = "default_list_limit")]
    pub limit: usize,
    /// Lessons to pass over.
    #[serde(default)]
    pub offset: usize,
}

impl Default for ListRequest {
    fn default() -> Self {
        Self { bank: None, kind: None, domain: None, limit: DEFAULT_LIST_LIMIT, offset: 0 }
    }
}

fn default_list_limit() -> usize {
    DEFAULT_LIST_LIMIT
}

/// A lesson in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LessonSummary {
    /// Lesson id.
    pub id: String,
    /// Kind.
    pub kind: LessonKind,
    /// Title.
    pub title: String,
    /// Task.
    pub task: String,
    /// Domain.
    pub domain: String,
    /// How far to trust it.
    pub state: LessonState,
    /// Principals that taught it.
    pub taught_by: u32,
}

/// Answer of `list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListResponse {
    /// This page.
    pub lessons: Vec<LessonSummary>,
    /// Lessons that match, on all pages.
    pub total: u64,
    /// Offset of the next page, when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<usize>,
}

/// `rate`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateRequest {
    /// Lesson id or prefix.
    pub id: String,
    /// `helped` or `hurt`.
    pub verdict: Verdict,
    /// Digest of the run it was used in, 64 hex digits, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// `withdraw`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WithdrawRequest {
    /// Lesson id or prefix.
    pub id: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `forget`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForgetRequest {
    /// Lesson id or prefix.
    pub id: String,
}

/// Answer of `forget`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgetResponse {
    /// The whole lesson id.
    pub id: String,
    /// Whether its text was here and is erased; false if there was none. It is remembered as forgotten in both cases.
    pub erased: bool,
    /// Whether it was forgotten before. What that could not erase then is erased too, but for what is `left`.
    #[serde(default)]
    pub again: bool,
    /// Where bytes of the text may still lie in this home, and why, in words. Empty: nowhere.
    pub left: Vec<String>,
}

/// Answer of `rate` and `withdraw`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandingResponse {
    /// The whole lesson id.
    pub id: String,
    /// What is said about it now.
    pub standing: Standing,
}
