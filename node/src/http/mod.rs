//! The HTTP door: JSON over loopback, opened by a token.
//!
//! `POST /v1/<verb>` takes the verb's request as JSON (an empty body is `{}`) and answers with its response; `status`,
//! `peers`, `banks` and `jobs` are `GET`. `import` answers with one JSON object a line while it runs. Errors are
//! `{"error":{"code":…,"message":…}}` with the status of their code. `GET /metrics` is for Prometheus. `GET /healthz` needs no
//! token and says only that the daemon is up.
//!
//! Every call runs in a task of its own, so that a client that hangs up cannot stop a write half-way.

mod body;
mod connections;
#[cfg(test)]
pub(crate) mod double;
mod guard;
mod import;
#[cfg(test)]
mod tests;
mod token;

use std::{future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::State,
    http::StatusCode,
    middleware,
    routing::{MethodRouter, get, post},
};
use folklore_store::runs::log::MAX_STEP_BYTES;
use serde::{Serialize, de::DeserializeOwned};
use tokio::{net::TcpListener, sync::Semaphore, time};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use token::Token;

use crate::api::{
    Answer, ApiError, AttemptsRequest, BankCreateRequest, BankInviteRequest, BankJoinRequest, BeginRequest,
    BlockRequest, DoctorRequest, DropRunRequest, EndRequest, ForgetRequest, InduceAnswerRequest, InduceRequest,
    JobRequest, ListRequest, MAX_INDUCED_ANSWER_BYTES, MemoryApi, RateRequest, RecallRequest, RefineRequest,
    ResumeRequest, RunsRequest, ShowRequest, StepRequest, SyncRequest, TeachRequest, WithdrawRequest,
};
use body::{read_json, reply, reply_error, with_type};

/// Longest body of `teach`: a lesson at all its limits, each character escaped in JSON, is below.
pub const MAX_TEACH_BYTES: usize = 64 * 1024;
/// Longest body of `step`: a step at its limit ([`MAX_STEP_BYTES`]), each character escaped in JSON.
pub const MAX_STEP_BODY_BYTES: usize = 6 * MAX_STEP_BYTES + 4 * 1024;
/// Longest body of any other request; an `import` may name some thousand files.
pub const MAX_BODY_BYTES: usize = 256 * 1024;
/// Longest body that brings a model's answer: each character of it may be escaped in JSON.
pub const MAX_ANSWER_BODY_BYTES: usize = 2 * MAX_INDUCED_ANSWER_BYTES + MAX_BODY_BYTES;
/// Calls at one time. One agent makes a few; more is a runaway client, which is told to come back.
const MAX_CALLS: usize = 256;
/// How long a stop waits for calls under way.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// Why the door does not open.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Whoever reaches the door and has the token is this node, so it opens on loopback only.
    #[error("the HTTP door opens on loopback only, not on {0}: use 127.0.0.1:PORT")]
    NotLoopback(SocketAddr),
    /// The system said no.
    #[error("cannot listen on {address}: {source}")]
    Io {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

impl From<BindError> for ApiError {
    fn from(error: BindError) -> Self {
        match error {
            BindError::NotLoopback(_) => Self::bad_request(error.to_string()),
            BindError::Io { .. } => Self::failed(error.to_string()),
        }
    }
}

/// Takes the address of the door; port 0 is any free port.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, BindError> {
    if !address.ip().is_loopback() {
        return Err(BindError::NotLoopback(address));
    }
    TcpListener::bind(address).await.map_err(|source| BindError::Io { address, source })
}

/// Answers requests until `stop`, then lets the calls under way end, for a bounded time. Returns when no call runs any
/// more or that time is over.
pub async fn serve<M: MemoryApi>(
    listener: TcpListener,
    memory: M,
    token: Token,
    stop: CancellationToken,
) -> io::Result<()> {
    let app = Door {
        memory,
        token: Arc::new(token),
        port: listener.local_addr()?.port(),
        stop: stop.clone(),
        calls: TaskTracker::new(),
        slots: Arc::new(Semaphore::new(MAX_CALLS)),
    };
    let calls = app.calls.clone();
    connections::serve(listener, router(app), stop, connections::Limits::default()).await;
    calls.close();
    if time::timeout(STOP_GRACE, calls.wait()).await.is_err() {
        tracing::warn!(calls = calls.len(), "calls were still running when the HTTP door closed");
    }
    Ok(())
}

/// What every handler has.
#[derive(Clone)]
struct Door<M> {
    memory: M,
    token: Arc<Token>,
    port: u16,
    stop: CancellationToken,
    calls: TaskTracker,
    slots: Arc<Semaphore>,
}

impl<M: MemoryApi> Door<M> {
    /// Runs a call to its end whether or not somebody still waits for it. A panic in it becomes an error.
    async fn run<R, F>(&self, call: F) -> Answer<R>
    where
        R: Send + 'static,
        F: Future<Output = Answer<R>> + Send + 'static,
    {
        let slot = Arc::clone(&self.slots)
            .try_acquire_owned()
            .map_err(|_| ApiError::unavailable(format!("{MAX_CALLS} calls are under way: try again later")))?;
        let call = async move {
            let _slot = slot;
            call.await
        };
        self.calls.spawn(call).await.unwrap_or_else(|error| {
            tracing::error!(%error, "a call broke off");
            Err(ApiError::failed("the node made a mistake over this request, its log says more"))
        })
    }
}

fn router<M: MemoryApi>(door: Door<M>) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/metrics", get(metrics::<M>))
        .route("/v1/status", query(|m: M| async move { m.status().await }))
        .route("/v1/peers", query(|m: M| async move { m.peers().await }))
        .route("/v1/banks", query(|m: M| async move { m.bank_list().await }))
        .route("/v1/teach", verb(MAX_TEACH_BYTES, |m: M, q: TeachRequest| async move { m.teach(q).await }))
        .route("/v1/recall", verb(MAX_BODY_BYTES, |m: M, q: RecallRequest| async move { m.recall(q).await }))
        .route("/v1/begin", verb(MAX_BODY_BYTES, |m: M, q: BeginRequest| async move { m.begin(q).await }))
        .route("/v1/step", verb(MAX_STEP_BODY_BYTES, |m: M, q: StepRequest| async move { m.step(q).await }))
        .route("/v1/end", verb(MAX_BODY_BYTES, |m: M, q: EndRequest| async move { m.end(q).await }))
        .route("/v1/resume", verb(MAX_BODY_BYTES, |m: M, q: ResumeRequest| async move { m.resume(q).await }))
        .route("/v1/runs", verb(MAX_BODY_BYTES, |m: M, q: RunsRequest| async move { m.runs(q).await }))
        .route("/v1/runs/drop", verb(MAX_BODY_BYTES, |m: M, q: DropRunRequest| async move { m.drop_run(q).await }))
        .route("/v1/show", verb(MAX_BODY_BYTES, |m: M, q: ShowRequest| async move { m.show(q).await }))
        .route("/v1/list", verb(MAX_BODY_BYTES, |m: M, q: ListRequest| async move { m.list(q).await }))
        .route("/v1/rate", verb(MAX_BODY_BYTES, |m: M, q: RateRequest| async move { m.rate(q).await }))
        .route("/v1/withdraw", verb(MAX_BODY_BYTES, |m: M, q: WithdrawRequest| async move { m.withdraw(q).await }))
        .route("/v1/forget", verb(MAX_BODY_BYTES, |m: M, q: ForgetRequest| async move { m.forget(q).await }))
        .route("/v1/sync", verb(MAX_BODY_BYTES, |m: M, q: SyncRequest| async move { m.sync(q).await }))
        .route("/v1/doctor", verb(MAX_BODY_BYTES, |m: M, q: DoctorRequest| async move { m.doctor(q).await }))
        .route(
            "/v1/block",
            verb(MAX_BODY_BYTES, |m: M, q: BlockRequest| async move { m.block(q.peer, q.blocked).await }),
        )
        .route(
            "/v1/bank/create",
            verb(MAX_BODY_BYTES, |m: M, q: BankCreateRequest| async move { m.bank_create(q.name, q.public).await }),
        )
        .route(
            "/v1/bank/invite",
            verb(MAX_BODY_BYTES, |m: M, q: BankInviteRequest| async move { m.bank_invite(q.bank).await }),
        )
        .route(
            "/v1/bank/join",
            verb(MAX_BODY_BYTES, |m: M, q: BankJoinRequest| async move { m.bank_join(q.ticket).await }),
        )
        .route("/v1/jobs", query(|m: M| async move { m.jobs().await }))
        .route("/v1/jobs/retry", verb(MAX_BODY_BYTES, |m: M, q: JobRequest| async move { m.retry_jobs(q).await }))
        .route("/v1/jobs/drop", verb(MAX_BODY_BYTES, |m: M, q: JobRequest| async move { m.drop_jobs(q).await }))
        .route("/v1/induce", verb(MAX_BODY_BYTES, |m: M, q: InduceRequest| async move { m.induce(q).await }))
        .route(
            "/v1/induce/prompt",
            verb(MAX_BODY_BYTES, |m: M, q: InduceRequest| async move { m.induce(q.of_agent()?).await }),
        )
        .route(
            "/v1/induce/answer",
            verb(MAX_ANSWER_BODY_BYTES, |m: M, q: InduceAnswerRequest| async move { m.induce_answer(q).await }),
        )
        .route("/v1/attempts", verb(MAX_BODY_BYTES, |m: M, q: AttemptsRequest| async move { m.attempts(q).await }))
        .route("/v1/refine", verb(MAX_BODY_BYTES, |m: M, q: RefineRequest| async move { m.refine(q).await }))
        .route("/v1/import", post(import::import::<M>))
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(door.clone(), guard::guard::<M>))
        .with_state(door)
}

/// A verb without a request.
fn query<M, R, F, Fut>(call: F) -> MethodRouter<Door<M>>
where
    M: MemoryApi,
    R: Serialize + Send + 'static,
    F: Fn(M) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Answer<R>> + Send + 'static,
{
    get(move |State(door): State<Door<M>>| async move { reply(door.run(call(door.memory.clone())).await) })
}

/// A verb with a request of at most `limit` bytes.
fn verb<M, Q, R, F, Fut>(limit: usize, call: F) -> MethodRouter<Door<M>>
where
    M: MemoryApi,
    Q: DeserializeOwned + Send + 'static,
    R: Serialize + Send + 'static,
    F: Fn(M, Q) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Answer<R>> + Send + 'static,
{
    post(move |State(door): State<Door<M>>, body: Body| async move {
        match read_json(body, limit).await {
            Ok(request) => reply(door.run(call(door.memory.clone(), request)).await),
            Err(refusal) => refusal.into(),
        }
    })
}

/// The Prometheus text format, under the same token as everything else: it tells names of banks and how busy this node is.
async fn metrics<M: MemoryApi>(State(door): State<Door<M>>) -> axum::response::Response {
    let memory = door.memory.clone();
    match door.run(async move { memory.metrics().await }).await {
        Ok(text) => {
            with_type(StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", Body::from(text))
        }
        Err(error) => reply::<()>(Err(error)),
    }
}

async fn healthz() -> axum::response::Response {
    reply(Ok(serde_json::json!({"ok": true})))
}

async fn unknown_route(uri: axum::http::Uri) -> axum::response::Response {
    let path = folklore_protocol::canonical::shorten(uri.path(), 80);
    reply_error(
        StatusCode::NOT_FOUND,
        &ApiError::not_found(format!("there is nothing at {path}: verbs are at /v1/<verb>")),
    )
}

async fn wrong_method(method: axum::http::Method, uri: axum::http::Uri) -> axum::response::Response {
    let message =
        format!("{} does not take {method}: status, peers, banks and jobs take GET, all others POST", uri.path());
    reply_error(StatusCode::METHOD_NOT_ALLOWED, &ApiError::bad_request(message))
}
