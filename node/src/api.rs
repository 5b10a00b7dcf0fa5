//! The words of every door: requests, responses and errors that the CLI, HTTP and later doors share.
//!
//! Scripts rely on the JSON of these types: fields may be added, never renamed. Requests refuse fields they do not know,
//! so that a misspelt option is an error and not silently ignored; responses are read leniently, so that an older client
//! can talk to a newer node. Ids are text: lesson ids as CIDs, bank ids in hex, nodes as peer ids. Wherever a request
//! takes a lesson or bank id, a unique prefix of at least [`MIN_ID_PREFIX`] characters will do.

use std::{
    collections::BTreeMap,
    future::Future,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
};

use folklore_protocol::{
    claim::{Outcome, Verdict},
    lesson::{LessonDraft, LessonKind},
};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

mod time;

pub use time::{ParseTimeError, TimeMs};

/// Shortest prefix of an id that stands for the whole, characters. The first 7 characters of all lesson ids are the same
/// (`b` and the CID header), so a shorter one would say nothing.
pub const MIN_ID_PREFIX: usize = 8;
/// Hits of a recall when the request names no number. More than one experience hurts more often than it helps
/// (ReasoningBank, arXiv 2509.25140: k = 1 solves most).
pub const DEFAULT_K: usize = 1;
/// Most hits of one recall: an answer is for a prompt, not for an export (`list` is).
pub const MAX_K: usize = 100;
/// Lessons of one page of `list` when the request names no number.
pub const DEFAULT_LIST_LIMIT: usize = 50;
/// Most lessons of one page of `list`.
pub const MAX_LIST_LIMIT: usize = 1000;
/// The induction backend when the request names none.
pub const DEFAULT_INDUCE: &str = "extractive";

/// What went wrong, as a word for scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorCode {
    /// The request cannot be meant as it stands; asking again will not help.
    BadRequest,
    /// Nothing has that id or name.
    NotFound,
    /// The bank's policy or the door's rules forbid it.
    Refused,
    /// It was tried and did not work.
    Failed,
    /// No daemon, or it is starting or stopping: try again.
    Unavailable,
}

impl ErrorCode {
    /// Exit code of the `folklore` command.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::BadRequest => 2,
            Self::Unavailable => 3,
            Self::NotFound => 4,
            Self::Refused => 5,
        }
    }

    /// HTTP status of an answer with this code.
    pub fn http_status(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Refused => 403,
            Self::NotFound => 404,
            Self::Failed => 500,
            Self::Unavailable => 503,
        }
    }
}

/// Why a request was not answered. Nothing was changed unless the message says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The word for scripts.
    pub code: ErrorCode,
    /// One line for people: what is wrong and what to do.
    pub message: String,
}

impl ApiError {
    /// An error with this code and message.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// [`ErrorCode::BadRequest`].
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::BadRequest, message)
    }

    /// [`ErrorCode::NotFound`].
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::NotFound, message)
    }

    /// [`ErrorCode::Refused`].
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Refused, message)
    }

    /// [`ErrorCode::Failed`].
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Failed, message)
    }

    /// [`ErrorCode::Unavailable`].
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Unavailable, message)
    }
}

/// The JSON of every error: `{"error":{"code":…,"message":…}}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The error.
    pub error: ApiError,
}

/// What a door answers with.
pub type Answer<T> = Result<T, ApiError>;

/// The agent-facing service as the doors see it. Every method returns after its effect is durable.
pub trait MemoryApi: Clone + Send + Sync + 'static {
    /// What this node is and holds.
    fn status(&self) -> impl Future<Output = Answer<Status>> + Send;
    /// Stores one lesson.
    fn teach(&self, request: TeachRequest) -> impl Future<Output = Answer<TeachResponse>> + Send;
    /// Ranks lessons for a task.
    fn recall(&self, request: RecallRequest) -> impl Future<Output = Answer<RecallResponse>> + Send;
    /// One lesson with everything claimed about it; `id` may be a prefix.
    fn show(&self, id: String) -> impl Future<Output = Answer<ShowResponse>> + Send;
    /// Lessons by page.
    fn list(&self, request: ListRequest) -> impl Future<Output = Answer<ListResponse>> + Send;
    /// States that a lesson helped or hurt.
    fn rate(&self, request: RateRequest) -> impl Future<Output = Answer<StandingResponse>> + Send;
    /// Voids this node's own teaching of a lesson.
    fn withdraw(&self, request: WithdrawRequest) -> impl Future<Output = Answer<StandingResponse>> + Send;
    /// The banks this node holds.
    fn bank_list(&self) -> impl Future<Output = Answer<BankListResponse>> + Send;
    /// Makes a bank of this node's own.
    fn bank_create(&self, name: String) -> impl Future<Output = Answer<BankInfo>> + Send;
    /// A ticket for a bank (name or id; none: the bank this home owns).
    fn bank_invite(&self, bank: Option<String>) -> impl Future<Output = Answer<BankInviteResponse>> + Send;
    /// Joins the bank of a ticket.
    fn bank_join(&self, ticket: String) -> impl Future<Output = Answer<BankJoinResponse>> + Send;
    /// The nodes this one knows.
    fn peers(&self) -> impl Future<Output = Answer<PeersResponse>> + Send;
    /// Reconciles with peers now.
    fn sync(&self, request: SyncRequest) -> impl Future<Output = Answer<SyncResponse>> + Send;
    /// Looks for trouble.
    fn doctor(&self, request: DoctorRequest) -> impl Future<Output = Answer<DoctorResponse>> + Send;
    /// Cuts (`true`) or heals (`false`) the link to a peer: while cut, it is neither dialled nor let in.
    fn block(&self, peer: String, blocked: bool) -> impl Future<Output = Answer<BlockResponse>> + Send;
    /// Imports files. Sends [`ImportEvent::File`] after each file is durable and [`ImportEvent::Progress`] in between;
    /// the door adds the last event itself. When `events` is closed the client has gone: the import goes on to the end of
    /// the current file and stops.
    fn import(
        &self,
        request: ImportRequest,
        events: mpsc::Sender<ImportEvent>,
    ) -> impl Future<Output = Answer<ImportResponse>> + Send;
}

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

/// The embedder in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbedderInfo {
    /// For example `builtin`.
    pub name: String,
    /// Which weights.
    pub revision: String,
    /// Numbers in a vector.
    pub dim: usize,
}

/// A bank this node holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BankInfo {
    /// Bank id, hex.
    pub id: String,
    /// The owner's name for it.
    pub name: String,
    /// The owner's node id.
    pub owner: String,
    /// Records held.
    pub records: u64,
    /// Lessons whose bodies are held.
    pub lessons: u64,
    /// Root over every id known, hex; what reconcile compares.
    pub known_root: String,
    /// Root over what is held, hex. Equal roots, equal sets.
    pub held_root: String,
    /// Whether lessons go here when a request names no bank: the bank joined last, else the home's own.
    #[serde(default)]
    pub default: bool,
}

/// A node that this one knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerInfo {
    /// Node id.
    pub id: String,
    /// Where it was reached or is said to be, as multiaddresses.
    pub addresses: Vec<String>,
    /// Whether a connection stands.
    pub connected: bool,
    /// When a reconcile with it last ended well.
    pub last_sync: Option<TimeMs>,
    /// Per bank id: everything that the peer held at this time is here.
    #[serde(default)]
    pub complete_as_of: BTreeMap<String, TimeMs>,
    /// Bytes received from it since the daemon started.
    #[serde(default)]
    pub bytes_in: u64,
    /// Bytes sent to it since the daemon started.
    #[serde(default)]
    pub bytes_out: u64,
}

/// Work waiting in the durable queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobCounts {
    /// Not done yet.
    pub waiting: u64,
    /// Given up.
    pub failed: u64,
}

/// The rules that keep secrets out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedactionInfo {
    /// Version of the rule set.
    pub rules_version: u32,
}

/// Bytes on all links since the daemon started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Received.
    pub bytes_in: u64,
    /// Sent.
    pub bytes_out: u64,
}

/// Answer of `status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// This node's id.
    pub node: String,
    /// Version of the program.
    pub version: String,
    /// The home directory.
    pub data: String,
    /// The daemon's process id.
    pub pid: u32,
    /// Address of the HTTP door, `host:port`.
    pub http: String,
    /// Multiaddresses where peers reach this node.
    pub listening: Vec<String>,
    /// The banks.
    pub banks: Vec<BankInfo>,
    /// The nodes known.
    pub peers: Vec<PeerInfo>,
    /// The embedder.
    pub embedder: EmbedderInfo,
    /// The queue.
    pub jobs: JobCounts,
    /// What was done and lost when the store was opened; null when there is nothing to say.
    pub recovery: Option<Vec<String>>,
    /// The secret rules.
    pub redaction: RedactionInfo,
    /// The links.
    pub traffic: Traffic,
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

/// Answer of `teach`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeachResponse {
    /// Id of the lesson as stored.
    pub id: String,
    /// Whether the bank did not hold it before.
    pub new: bool,
    /// The lesson that holds the claim instead, when this one says almost the same.
    pub merged_into: Option<String>,
    /// Secrets removed before it was hashed.
    #[serde(default)]
    pub redacted: Vec<Redacted>,
}

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
    /// Most hits wanted, 1 to [`MAX_K`].
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

/// `show`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShowRequest {
    /// Lesson id or prefix.
    pub id: String,
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
    /// What is said about it, claim by claim.
    pub claims: Vec<ClaimView>,
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
    /// Lessons of this page, 1 to [`MAX_LIST_LIMIT`].
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

/// Answer of `rate` and `withdraw`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandingResponse {
    /// The whole lesson id.
    pub id: String,
    /// What is said about it now.
    pub standing: Standing,
}

/// Answer of `bank list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BankListResponse {
    /// The banks.
    pub banks: Vec<BankInfo>,
}

/// `bank create`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BankCreateRequest {
    /// Its name, at most 64 bytes.
    pub name: String,
}

/// `bank invite`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BankInviteRequest {
    /// Name or id; none: the bank this home owns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bank: Option<String>,
}

/// Answer of `bank invite`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BankInviteResponse {
    /// All that another node needs to join.
    pub ticket: String,
    /// Bank id.
    pub bank: String,
}

/// `bank join`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BankJoinRequest {
    /// What `bank invite` printed.
    pub ticket: String,
}

/// Answer of `bank join`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BankJoinResponse {
    /// Bank id.
    pub bank: String,
    /// The owner's name for it.
    pub name: String,
    /// The owner's node id.
    pub owner: String,
    /// Multiaddresses being dialled.
    pub dialing: Vec<String>,
}

/// Answer of `peers`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeersResponse {
    /// The nodes known.
    pub peers: Vec<PeerInfo>,
}

/// `sync`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SyncRequest {
    /// Node id; none: every peer known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// Answer only when done, or when the time is over.
    #[serde(default)]
    pub wait: bool,
    /// How long to wait, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// What a sync did with one peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncedPeer {
    /// Node id.
    pub id: String,
    /// Whether it could be reached.
    pub reached: bool,
    /// Whether everything it held when asked is here.
    pub complete: bool,
    /// Records received.
    pub received: u64,
    /// Records sent.
    pub sent: u64,
}

/// Answer of `sync`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncResponse {
    /// Peer by peer.
    pub peers: Vec<SyncedPeer>,
    /// Whether all of them are complete.
    pub complete: bool,
    /// Node ids of those that are not.
    pub missing: Vec<String>,
}

/// `doctor`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DoctorRequest {
    /// Also read everything and check every hash and signature.
    #[serde(default)]
    pub verify: bool,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// What.
    pub name: String,
    /// Whether it is well.
    pub ok: bool,
    /// What was found; where not well, what to do.
    pub detail: String,
}

impl Check {
    /// Something looked at and found in this state.
    pub fn new(name: impl Into<String>, ok: bool, detail: impl Into<String>) -> Self {
        Self { name: name.into(), ok, detail: detail.into() }
    }
}

/// Answer of `doctor`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoctorResponse {
    /// Whether every check is well.
    pub ok: bool,
    /// The checks, in the order they were made.
    pub checks: Vec<Check>,
}

/// Cuts or heals a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockRequest {
    /// Node id.
    pub peer: String,
    /// `true` cuts, `false` heals.
    pub blocked: bool,
}

/// Answer of the cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockResponse {
    /// Node id.
    pub peer: String,
    /// How the link is now.
    pub blocked: bool,
}

/// `import`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportRequest {
    /// Absolute paths of files or directories, readable by the daemon.
    pub paths: Vec<PathBuf>,
    /// Format name; none: told from the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// Absolute path of a label table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcomes: Option<PathBuf>,
    /// Induction backend.
    #[serde(default = "default_induce")]
    pub induce: String,
    /// Name or id of the bank; none: the node's default bank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bank: Option<String>,
}

fn default_induce() -> String {
    DEFAULT_INDUCE.to_owned()
}

/// Something in the input that was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// File.
    pub path: String,
    /// Which item of the file, as its format counts them (`item 3`); null for the whole file.
    pub item: Option<String>,
    /// Why.
    pub reason: String,
}

/// A run that taught nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoLesson {
    /// The run: its digest, or file and item.
    pub run: String,
    /// Why.
    pub reason: String,
}

/// Answer of `import`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportResponse {
    /// Files read.
    pub files: u64,
    /// Runs stored for the first time.
    pub runs: u64,
    /// Lessons that are new to the bank.
    pub lessons: u64,
    /// Runs that were here already.
    pub duplicates: u64,
    /// What was left out.
    pub skipped: Vec<Skipped>,
    /// Runs that taught nothing.
    pub no_lesson: Vec<NoLesson>,
}

/// What an import says on its way; over HTTP one JSON object a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum ImportEvent {
    /// A file is done. Sent only after its runs and lessons are durable.
    File(ImportedFile),
    /// Bytes read so far, over all files.
    Progress {
        /// The file being read.
        path: String,
        /// Bytes done.
        done_bytes: u64,
        /// Bytes in all.
        total_bytes: u64,
    },
    /// The end: everything is durable.
    Done(ImportResponse),
    /// The end: it stopped. What earlier events reported is durable.
    Error(ApiError),
}

/// What one file gave.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedFile {
    /// The file.
    pub path: String,
    /// Runs stored for the first time.
    pub runs: u64,
    /// Ids of the lessons that are new to the bank.
    pub lessons: Vec<String>,
    /// Runs that were here already.
    pub duplicates: u64,
    /// What was left out.
    #[serde(default)]
    pub skipped: Vec<Skipped>,
    /// Runs that taught nothing.
    #[serde(default)]
    pub no_lesson: Vec<NoLesson>,
}

/// How a daemon is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpOptions {
    /// Addresses to listen on for peers; empty: a port on loopback, the same as last time if it is free.
    pub listen: Vec<String>,
    /// Addresses that others are told, in tickets too, instead of those listened on; empty: the ones listened on.
    pub announce: Vec<String>,
    /// Addresses of peers to dial for ever.
    pub peers: Vec<String>,
    /// Where the HTTP door opens; loopback only. Port 0 takes any free port.
    pub http: SocketAddr,
    /// Whether to look for peers, and be found, on the local network.
    pub mdns: bool,
}

impl Default for UpOptions {
    fn default() -> Self {
        let http = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self { listen: Vec::new(), announce: Vec::new(), peers: Vec::new(), http, mdns: false }
    }
}

/// What a daemon says when it answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpReady {
    /// The node's id.
    pub node: String,
    /// Where peers reach it, multiaddresses.
    pub listening: Vec<String>,
    /// Where the HTTP door is.
    pub http: SocketAddr,
    /// The home directory.
    pub data: String,
    /// Its process id.
    pub pid: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_misspelt_field_of_a_request_is_an_error_that_names_it() {
        let wrong = json!({"kind": "pitfall", "title": "t", "content": "c", "aplies_when": "x"});
        let error = serde_json::from_value::<TeachRequest>(wrong).unwrap_err().to_string();
        assert!(error.contains("aplies_when"), "{error}");
    }

    #[test]
    fn a_short_request_has_the_documented_defaults() {
        let recall: RecallRequest = serde_json::from_value(json!({"task": "x"})).unwrap();
        assert_eq!(recall, RecallRequest::new("x"));
        assert_eq!(serde_json::from_value::<ListRequest>(json!({})).unwrap(), ListRequest::default());
        let import: ImportRequest = serde_json::from_value(json!({"paths": ["/x"]})).unwrap();
        assert_eq!(import.induce, "extractive");
    }

    #[test]
    fn import_events_carry_a_tag_and_their_fields_side_by_side() {
        let done = serde_json::to_value(ImportEvent::Done(ImportResponse { files: 2, ..Default::default() })).unwrap();
        assert_eq!((&done["event"], &done["files"]), (&json!("done"), &json!(2)));
        let error = ImportEvent::Error(ApiError::refused("no"));
        let text = serde_json::to_string(&error).unwrap();
        assert_eq!(text, r#"{"event":"error","code":"refused","message":"no"}"#);
        assert_eq!(serde_json::from_str::<ImportEvent>(&text).unwrap(), error);
    }

    #[test]
    fn a_recall_answer_says_null_where_there_is_no_reason() {
        let answer =
            RecallResponse { hits: vec![], reason: None, embedder: None, peers: AskedPeers::default(), note: None };
        let value = serde_json::to_value(answer).unwrap();
        assert_eq!(value["reason"], Value::Null);
        assert!(value.as_object().unwrap().contains_key("reason"));
    }

    #[test]
    fn a_lesson_is_shown_flat() {
        let lesson = LessonView {
            id: "b1".into(),
            fields: LessonDraft {
                kind: LessonKind::Pitfall,
                title: "t".into(),
                applies_when: String::new(),
                not_when: String::new(),
                content: "c".into(),
                task: String::new(),
                domain: String::new(),
                tags: vec![],
            },
        };
        let value = serde_json::to_value(&lesson).unwrap();
        assert_eq!((&value["id"], &value["kind"], &value["title"]), (&json!("b1"), &json!("pitfall"), &json!("t")));
        assert_eq!(serde_json::from_value::<LessonView>(value).unwrap(), lesson);
    }
}
