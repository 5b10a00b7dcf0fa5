//! The words of every door: requests, responses and errors that the CLI, HTTP and later doors share.
//!
//! Scripts rely on the JSON of these types: fields may be added, never renamed. Requests refuse fields they do not know,
//! so that a misspelt option is an error and not silently ignored; responses are read leniently, so that an older client
//! can talk to a newer node. Ids are text: lesson ids as CIDs, bank ids in hex, nodes as peer ids. Wherever a request
//! takes a lesson or bank id, a unique prefix of at least [`MIN_ID_PREFIX`] characters will do.

use std::future::Future;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

mod import;
mod induction;
mod lessons;
mod network;
mod recall;
mod runs;
mod time;

pub use import::*;
pub use induction::*;
pub use lessons::*;
pub use network::*;
pub use recall::*;
pub use runs::*;
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
/// Claims of one page of `show` when the request names no number.
pub const DEFAULT_CLAIMS_LIMIT: usize = 20;
/// Most claims of one page of `show`.
pub const MAX_CLAIMS_LIMIT: usize = 1000;
/// Most tasks that one recall excludes.
pub const MAX_EXCLUDED_TASKS: usize = 64;
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
    /// The bank's policy, the door's rules or a run's lease forbid it.
    Refused,
    /// It contradicts what is recorded: a name that is taken, another step under a number, a gap between steps.
    Conflict,
    /// It was tried and did not work.
    Failed,
    /// No daemon, or it is starting or stopping: try again.
    Unavailable,
}

impl ErrorCode {
    /// Exit code of the `folklore` command.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Failed | Self::Conflict => 1,
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
            Self::Conflict => 409,
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
    /// Begins a run.
    fn begin(&self, request: BeginRequest) -> impl Future<Output = Answer<BeginResponse>> + Send;
    /// Records a step of a run, or that one is started.
    fn step(&self, request: StepRequest) -> impl Future<Output = Answer<StepResponse>> + Send;
    /// Ends a run and learns from it.
    fn end(&self, request: EndRequest) -> impl Future<Output = Answer<EndResponse>> + Send;
    /// Takes a run over with everything durable of it.
    fn resume(&self, request: ResumeRequest) -> impl Future<Output = Answer<ResumeResponse>> + Send;
    /// Runs under way.
    fn runs(&self, request: RunsRequest) -> impl Future<Output = Answer<RunsResponse>> + Send;
    /// Lets the copy of another node's run go.
    fn drop_run(&self, request: DropRunRequest) -> impl Future<Output = Answer<DropRunResponse>> + Send;
    /// One lesson with what is claimed about it, a page at a time.
    fn show(&self, request: ShowRequest) -> impl Future<Output = Answer<ShowResponse>> + Send;
    /// Lessons by page.
    fn list(&self, request: ListRequest) -> impl Future<Output = Answer<ListResponse>> + Send;
    /// States that a lesson helped or hurt.
    fn rate(&self, request: RateRequest) -> impl Future<Output = Answer<StandingResponse>> + Send;
    /// Voids this node's own teaching of a lesson.
    fn withdraw(&self, request: WithdrawRequest) -> impl Future<Output = Answer<StandingResponse>> + Send;
    /// Erases the text of a lesson from this node, for good.
    fn forget(&self, request: ForgetRequest) -> impl Future<Output = Answer<ForgetResponse>> + Send;
    /// The banks this node holds.
    fn bank_list(&self) -> impl Future<Output = Answer<BankListResponse>> + Send;
    /// Makes a bank of this node's own; `public`: one that strangers may find.
    fn bank_create(&self, name: String, public: bool) -> impl Future<Output = Answer<BankInfo>> + Send;
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
    /// What is counted, in the Prometheus text format.
    fn metrics(&self) -> impl Future<Output = Answer<String>> + Send;
    /// Cuts (`true`) or heals (`false`) the link to a peer: while cut, it is neither dialled nor let in.
    fn block(&self, peer: String, blocked: bool) -> impl Future<Output = Answer<BlockResponse>> + Send;
    /// Draws lessons from runs that the bank holds, or shows the prompt for it.
    fn induce(&self, request: InduceRequest) -> impl Future<Output = Answer<InduceResponse>> + Send;
    /// Takes what an agent's own model answered to a prompt of [`induce`](Self::induce).
    fn induce_answer(&self, request: InduceAnswerRequest) -> impl Future<Output = Answer<InduceAnswerResponse>> + Send;
    /// The queue of what models are asked.
    fn jobs(&self) -> impl Future<Output = Answer<JobsResponse>> + Send;
    /// Lets jobs that failed wait again.
    fn retry_jobs(&self, request: JobRequest) -> impl Future<Output = Answer<JobResponse>> + Send;
    /// Takes jobs out of the queue.
    fn drop_jobs(&self, request: JobRequest) -> impl Future<Output = Answer<JobResponse>> + Send;
    /// The attempts at one task.
    fn attempts(&self, request: AttemptsRequest) -> impl Future<Output = Answer<AttemptsResponse>> + Send;
    /// The prompt by which an agent looks over its own run.
    fn refine(&self, request: RefineRequest) -> impl Future<Output = Answer<RefineResponse>> + Send;
    /// Imports files. Sends [`ImportEvent::File`] after each file is durable and [`ImportEvent::Progress`] in between;
    /// the door adds the last event itself. When `events` is closed the client has gone: the import stops soon,
    /// with everything it wrote whole; repeating it goes on from there.
    fn import(
        &self,
        request: ImportRequest,
        events: mpsc::Sender<ImportEvent>,
    ) -> impl Future<Output = Answer<ImportResponse>> + Send;
}

#[cfg(test)]
mod tests {
    use super::*;
    use folklore_protocol::lesson::{LessonDraft, LessonKind};
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
        let answer = RecallResponse {
            hits: vec![],
            reason: None,
            embedder: None,
            peers: AskedPeers::default(),
            note: None,
            explain: None,
        };
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
