//! The agent-facing service. Every door (HTTP, and through it the CLI) calls this and nothing else.
//!
//! A success is answered after its effect is durable. What reads or writes the disk runs on blocking threads.

mod attempts;
mod import;
mod induce;
mod merge;
mod network;
mod recall;
mod runs;
mod secrets;
mod teach;

pub(crate) use import::{clean_run, lesson_of};

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use folklore_protocol::{AuthorId, BankId, Keypair, LessonId};
use folklore_store::{
    bank::{BankInfo as StoreBank, Store},
    catalogue::Catalogue,
    embed::EmbedderIdentity,
    error::{ReadError, WriteError},
    redact,
};
use tokio::sync::mpsc;

use crate::{
    api::{self, Answer, ApiError, MIN_ID_PREFIX, MemoryApi},
    embedding::Embedding,
    engine::{self, EngineHandle, Snapshot},
    home::{Home, HomeLock},
    induction::Induction,
    metrics::Metrics,
    network::NetworkHandle,
};

/// The store's setting that names the bank written to when a request names none.
const DEFAULT_BANK: &str = "default-bank";

/// How often, and after which pauses, it is looked whether all work has ended.
const STOP_LOOKS: u32 = 500;
const STOP_PAUSE: Duration = Duration::from_millis(10);

/// Banks that an error names where a name fits several.
const MAX_NAMED_BANKS: usize = 8;

/// The service. Cheap to clone.
#[derive(Clone)]
pub struct Memory(Arc<Inner>);

struct Inner {
    home: Home,
    lock: Arc<HomeLock>,
    key: Keypair,
    store: Store,
    catalogue: Arc<Catalogue>,
    engine: EngineHandle,
    network: NetworkHandle,
    metrics: Arc<Metrics>,
    embedding: Option<Arc<Embedding>>,
    induction: Arc<Induction>,
    http: SocketAddr,
    /// What opening the store took, in words.
    opening: Vec<String>,
    /// How far the check of everything has come that is under way.
    verifying: Mutex<Option<api::Verifying>>,
}

/// What the service is put together from.
pub struct Parts {
    /// The data directory.
    pub home: Home,
    /// That this process holds it.
    pub lock: Arc<HomeLock>,
    /// The node's key.
    pub key: Keypair,
    /// The bank.
    pub store: Store,
    /// Recall over it.
    pub catalogue: Arc<Catalogue>,
    /// The running state machine.
    pub engine: EngineHandle,
    /// The carrier.
    pub network: NetworkHandle,
    /// Where it counts.
    pub metrics: Arc<Metrics>,
    /// The second embedder, if there is one.
    pub embedding: Option<Arc<Embedding>>,
    /// The queue of what models are asked.
    pub induction: Arc<Induction>,
    /// Where the HTTP door is.
    pub http: SocketAddr,
    /// What opening the store took, in words; empty when there is nothing to say.
    pub opening: Vec<String>,
}

impl Memory {
    /// The service over running parts.
    pub fn new(parts: Parts) -> Self {
        let Parts { home, lock, key, store, catalogue, engine, network, metrics, embedding, induction, http, opening } =
            parts;
        let verifying = Mutex::default();
        Self(Arc::new(Inner {
            home,
            lock,
            key,
            store,
            catalogue,
            engine,
            network,
            metrics,
            embedding,
            induction,
            http,
            opening,
            verifying,
        }))
    }

    /// Waits, for a moment at most, until nobody else holds the service: work on a blocking thread goes on when the call that
    /// wanted it was broken off, and the bank is closed only when that has ended too.
    pub async fn alone(&self) {
        for _ in 0..STOP_LOOKS {
            if Arc::strong_count(&self.0) == 1 {
                return;
            }
            tokio::time::sleep(STOP_PAUSE).await;
        }
        tracing::warn!("something still works on the bank although everything was told to stop");
    }

    /// Runs what touches the disk on a blocking thread.
    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce(&Self) -> Answer<T> + Send + 'static) -> Answer<T> {
        let memory = self.clone();
        tokio::task::spawn_blocking(move || work(&memory))
            .await
            .map_err(|_| ApiError::failed("the request failed inside the daemon; its log says more"))?
    }

    fn me(&self) -> AuthorId {
        self.0.key.author()
    }

    fn now_ms(&self) -> u64 {
        self.0.engine.clock.now().0
    }

    async fn snapshot(&self) -> Answer<Snapshot> {
        self.0.engine.snapshot().await.map_err(stopping)
    }

    /// The bank called so, or whose id begins so; without a name the default one.
    fn bank(&self, name: Option<&str>) -> Answer<StoreBank> {
        let banks = self.0.store.banks();
        let Some(name) = name else {
            let default = self.default_bank();
            return banks
                .into_iter()
                .find(|b| b.id == default)
                .ok_or_else(|| ApiError::failed("this node has no bank: start the daemon again to make its own"));
        };
        let named: Vec<&StoreBank> = banks.iter().filter(|b| b.name == name || b.id.to_string() == name).collect();
        let begins = |b: &&StoreBank| name.len() >= MIN_ID_PREFIX && b.id.to_string().starts_with(name);
        let found = if named.is_empty() { banks.iter().filter(begins).collect() } else { named };
        match found[..] {
            [] => Err(ApiError::not_found(format!(
                "no bank here is called '{name}': 'folklore bank list' shows those there are"
            ))),
            [bank] => Ok(bank.clone()),
            _ => {
                let ids: Vec<String> = found.iter().take(MAX_NAMED_BANKS).map(|bank| bank.id.to_string()).collect();
                let more = if found.len() > ids.len() { ", ..." } else { "" };
                Err(ApiError::bad_request(format!(
                    "{} banks here fit '{name}': give the id of the one you mean, one of {}{more} ('folklore bank list' says \
                     whose each is)",
                    found.len(),
                    ids.join(", ")
                )))
            }
        }
    }

    /// The bank written to when a request names none: the last one joined, else the home's own.
    fn default_bank(&self) -> BankId {
        let set = self.0.store.setting(DEFAULT_BANK).and_then(|bytes| bytes.try_into().ok()).map(BankId);
        let held = |id: &BankId| self.0.store.banks().iter().any(|b| b.id == *id);
        set.filter(held).or_else(|| self.0.home.bank().ok().map(|own| own.id)).unwrap_or(BankId([0; 32]))
    }

    fn lesson(&self, text: &str) -> Answer<LessonId> {
        if text.len() < MIN_ID_PREFIX {
            return Err(ApiError::bad_request(format!(
                "'{text}' is too short for a lesson id: give at least {MIN_ID_PREFIX} characters of it"
            )));
        }
        self.0.catalogue.find(text).map_err(|error| match error {
            folklore_store::catalogue::FindError::None(_) => ApiError::not_found(error.to_string()),
            folklore_store::catalogue::FindError::Several(..) => ApiError::bad_request(error.to_string()),
        })
    }

    /// The embedder that answers queries now.
    fn embedder(&self) -> api::EmbedderInfo {
        let second = self.0.catalogue.embedding().filter(|e| e.answers).map(|e| e.embedder);
        to_embedder(second.as_ref().unwrap_or(self.0.catalogue.embedder()))
    }

    /// How the second embedder fares, if there is one.
    fn embedding(&self) -> Option<api::EmbeddingInfo> {
        let progress = self.0.embedding.as_ref()?.progress();
        Some(api::EmbeddingInfo {
            service: progress.service,
            identity: progress.identity.as_ref().map(to_embedder),
            answers: progress.answers,
            waiting: progress.waiting.map(|n| n as u64),
            failed: progress.failed as u64,
            error: progress.error,
        })
    }

    /// What waits and what was given up, for vectors and for models together.
    fn job_counts(&self) -> api::JobCounts {
        let (waiting, failed) = self.0.induction.jobs.counts();
        let embedding = self.embedding();
        let of = |count: fn(&api::EmbeddingInfo) -> u64| embedding.as_ref().map_or(0, count);
        api::JobCounts {
            waiting: waiting as u64 + of(|e| e.waiting.unwrap_or(0).saturating_sub(e.failed)),
            failed: failed as u64 + of(|e| e.failed),
        }
    }

    fn bank_infos(&self, snapshot: &Snapshot) -> Vec<api::BankInfo> {
        let default = self.default_bank();
        let info = |bank: StoreBank| {
            let view = snapshot.banks.get(&bank.id)?;
            Some(api::BankInfo {
                id: bank.id.to_string(),
                owner: bank.owner.to_string(),
                records: view.records as u64,
                lessons: self.0.catalogue.lesson_count(&bank.id) as u64,
                known_root: view.known_root.to_string(),
                held_root: view.held_root.to_string(),
                default: bank.id == default,
                public: bank.salt == engine::PUBLIC_SALT,
                name: bank.name,
            })
        };
        self.0.store.banks().into_iter().filter_map(info).collect()
    }

    fn verifying(&self) -> MutexGuard<'_, Option<api::Verifying>> {
        self.0.verifying.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn storage(&self) -> api::StorageInfo {
        let upkeep = self.0.store.upkeep();
        let stopped = self.0.store.writable().err().map(|error| match &upkeep.resume_failed {
            Some(again) => format!("{error} (tried again: {again})"),
            None => error.to_string(),
        });
        api::StorageInfo {
            file_bytes: upkeep.file_bytes,
            live_bytes: upkeep.live_bytes,
            rewrites: upkeep.rewrites,
            rewriting: upkeep.rewriting,
            rewrite_failed: upkeep.rewrite_failed,
            stopped,
            resumed: upkeep.resumed,
            unreadable: self.0.store.unreadable(),
            verifying: *self.verifying(),
        }
    }

    fn recovery(&self) -> Option<Vec<String>> {
        let mut lines = self.0.opening.clone();
        for note in self.0.store.notes() {
            if !lines.contains(&note) {
                lines.push(note);
            }
        }
        (!lines.is_empty()).then_some(lines)
    }
}

fn to_embedder(identity: &EmbedderIdentity) -> api::EmbedderInfo {
    api::EmbedderInfo { name: identity.name.clone(), revision: identity.revision.clone(), dim: identity.dim }
}

impl MemoryApi for Memory {
    async fn status(&self) -> Answer<api::Status> {
        let snapshot = self.snapshot().await?;
        let counters = self.0.network.counters();
        self.blocking(move |m| {
            Ok(api::Status {
                node: m.me().to_string(),
                version: env!("CARGO_PKG_VERSION").into(),
                data: m.0.home.dir().display().to_string(),
                pid: std::process::id(),
                http: m.0.http.to_string(),
                listening: m.0.network.listening(),
                banks: m.bank_infos(&snapshot),
                peers: m.peer_infos(&snapshot, &counters),
                embedder: m.embedder(),
                jobs: m.job_counts(),
                embedding: m.embedding(),
                induction: m.induction_info(),
                recovery: m.recovery(),
                storage: m.storage(),
                redaction: api::RedactionInfo { rules_version: redact::RULES_VERSION },
                traffic: api::Traffic { bytes_in: counters.total.bytes_in, bytes_out: counters.total.bytes_out },
                network: m.network_info(&snapshot),
            })
        })
        .await
    }

    async fn teach(&self, request: api::TeachRequest) -> Answer<api::TeachResponse> {
        self.blocking(move |m| m.teach_now(request)).await
    }

    async fn recall(&self, request: api::RecallRequest) -> Answer<api::RecallResponse> {
        let network = request.scope == api::Scope::Network;
        let began = Instant::now();
        let answer = self.recall_now(request).await;
        if answer.is_ok() {
            self.0.metrics.recalled(network, began.elapsed());
        }
        answer
    }

    async fn begin(&self, request: api::BeginRequest) -> Answer<api::BeginResponse> {
        self.blocking(move |m| m.begin_now(request)).await
    }

    async fn step(&self, request: api::StepRequest) -> Answer<api::StepResponse> {
        self.blocking(move |m| m.step_now(request)).await
    }

    async fn end(&self, request: api::EndRequest) -> Answer<api::EndResponse> {
        self.blocking(move |m| m.end_run_now(request)).await
    }

    async fn resume(&self, request: api::ResumeRequest) -> Answer<api::ResumeResponse> {
        self.blocking(move |m| m.resume_now(&request)).await
    }

    async fn runs(&self, request: api::RunsRequest) -> Answer<api::RunsResponse> {
        self.blocking(move |m| Ok(m.runs_now(&request))).await
    }

    async fn drop_run(&self, request: api::DropRunRequest) -> Answer<api::DropRunResponse> {
        self.blocking(move |m| m.drop_copy_now(&request)).await
    }

    async fn show(&self, request: api::ShowRequest) -> Answer<api::ShowResponse> {
        self.blocking(move |m| m.show_now(&request)).await
    }

    async fn list(&self, request: api::ListRequest) -> Answer<api::ListResponse> {
        self.blocking(move |m| m.list_now(request)).await
    }

    async fn rate(&self, request: api::RateRequest) -> Answer<api::StandingResponse> {
        self.blocking(move |m| m.rate_now(request)).await
    }

    async fn forget(&self, request: api::ForgetRequest) -> Answer<api::ForgetResponse> {
        self.blocking(move |m| m.forget_now(&request)).await
    }

    async fn withdraw(&self, request: api::WithdrawRequest) -> Answer<api::StandingResponse> {
        self.blocking(move |m| m.withdraw_now(request)).await
    }

    async fn bank_list(&self) -> Answer<api::BankListResponse> {
        let snapshot = self.snapshot().await?;
        self.blocking(move |m| Ok(api::BankListResponse { banks: m.bank_infos(&snapshot) })).await
    }

    async fn bank_create(&self, name: String, public: bool) -> Answer<api::BankInfo> {
        let id = self.blocking(move |m| m.create_bank(&name, public)).await?;
        let snapshot = self.snapshot().await?;
        let named = move |bank: &api::BankInfo| bank.id == id.to_string();
        self.blocking(move |m| {
            let found = m.bank_infos(&snapshot).into_iter().find(named);
            found.ok_or_else(|| ApiError::failed("the bank was made but is not open yet: see 'folklore bank list'"))
        })
        .await
    }

    async fn bank_invite(&self, bank: Option<String>) -> Answer<api::BankInviteResponse> {
        self.blocking(move |m| m.invite(bank.as_deref())).await
    }

    async fn bank_join(&self, ticket: String) -> Answer<api::BankJoinResponse> {
        self.blocking(move |m| m.join(&ticket)).await
    }

    async fn peers(&self) -> Answer<api::PeersResponse> {
        let snapshot = self.snapshot().await?;
        let peers = self.peer_infos(&snapshot, &self.0.network.counters());
        Ok(api::PeersResponse { peers, dialing: self.dial_infos(&snapshot) })
    }

    async fn sync(&self, request: api::SyncRequest) -> Answer<api::SyncResponse> {
        self.sync_now(request).await
    }

    async fn doctor(&self, request: api::DoctorRequest) -> Answer<api::DoctorResponse> {
        let snapshot = self.snapshot().await?;
        self.blocking(move |m| m.examine(request, &snapshot)).await
    }

    async fn metrics(&self) -> Answer<String> {
        let snapshot = self.snapshot().await?;
        self.blocking(move |m| m.metrics_now(&snapshot)).await
    }

    async fn block(&self, peer: String, blocked: bool) -> Answer<api::BlockResponse> {
        self.block_peer(&peer, blocked).await
    }

    async fn induce(&self, request: api::InduceRequest) -> Answer<api::InduceResponse> {
        self.blocking(move |m| m.induce_now(request)).await
    }

    async fn induce_answer(&self, request: api::InduceAnswerRequest) -> Answer<api::InduceAnswerResponse> {
        self.blocking(move |m| m.induce_answer_now(request)).await
    }

    async fn jobs(&self) -> Answer<api::JobsResponse> {
        self.blocking(|m| Ok(m.jobs_now())).await
    }

    async fn retry_jobs(&self, request: api::JobRequest) -> Answer<api::JobResponse> {
        self.blocking(move |m| m.retry_jobs_now(&request)).await
    }

    async fn drop_jobs(&self, request: api::JobRequest) -> Answer<api::JobResponse> {
        self.blocking(move |m| m.drop_jobs_now(&request)).await
    }

    async fn attempts(&self, request: api::AttemptsRequest) -> Answer<api::AttemptsResponse> {
        self.blocking(move |m| m.attempts_now(&request)).await
    }

    async fn refine(&self, request: api::RefineRequest) -> Answer<api::RefineResponse> {
        self.refine_now(request).await
    }

    async fn import(
        &self,
        request: api::ImportRequest,
        events: mpsc::Sender<api::ImportEvent>,
    ) -> Answer<api::ImportResponse> {
        self.blocking(move |m| m.import_now(request, &events)).await
    }
}

fn stopping(_: engine::Stopped) -> ApiError {
    ApiError::unavailable("the daemon is stopping: start it again with 'folklore up'")
}

fn read_failed(error: ReadError) -> ApiError {
    ApiError::failed(error.to_string())
}

fn write_failed(error: WriteError) -> ApiError {
    match error {
        WriteError::UnknownBank(_) => ApiError::not_found(error.to_string()),
        WriteError::TooLarge { .. } | WriteError::Claim { .. } => ApiError::bad_request(error.to_string()),
        _ => ApiError::failed(error.to_string()),
    }
}
