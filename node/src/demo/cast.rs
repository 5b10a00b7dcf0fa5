//! One site of the demo: a node as a child process, spoken to over its HTTP door.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use super::{DemoError, Step};
use crate::{
    api::{
        BlockRequest, BlockResponse, ImportEvent, ImportRequest, ImportResponse, RecallRequest, RecallResponse, Status,
    },
    home::{DEFAULT_BANK, DaemonNotice, Home},
};

/// A clean stop takes milliseconds; a process that does not end is killed.
const STOP_WAIT: Duration = Duration::from_secs(5);

/// A running node. Killed when dropped.
pub(super) struct Site {
    pub name: &'static str,
    pub id: String,
    notice: DaemonNotice,
    client: reqwest::Client,
    process: Child,
}

impl Site {
    /// Makes a home, with a ticket to join if there is one, and starts a daemon of this very program on it.
    pub(super) async fn start(name: &'static str, base: &Path, ticket: Option<&str>) -> Step<Self> {
        let fail = |what: String| DemoError::new(format!("{name}: {what}"));
        let dir: PathBuf = base.join(name);
        let (home, _) = Home::create(&dir, DEFAULT_BANK).map_err(|error| fail(error.to_string()))?;
        if let Some(ticket) = ticket {
            let ticket = ticket.parse().map_err(|error: crate::ticket::TicketError| fail(error.to_string()))?;
            home.add_ticket(&ticket).map_err(|error| fail(error.to_string()))?;
        }
        let program = std::env::current_exe().map_err(|error| fail(error.to_string()))?;
        let log = std::fs::File::create(base.join(format!("{name}.log"))).map_err(|error| fail(error.to_string()))?;
        let mut process = Command::new(program)
            .args(["up", "--json", "--data"])
            .arg(&dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| fail(error.to_string()))?;
        let stdout = process.stdout.take().ok_or_else(|| fail("no output".into()))?;
        // The first line says that it answers.
        let ready = BufReader::new(stdout).lines().next_line().await.map_err(|error| fail(error.to_string()))?;
        if ready.is_none() {
            return Err(fail("the daemon ended before it answered".into()));
        }
        let notice = home.daemon().map_err(|error| fail(error.to_string()))?;
        let notice = notice.ok_or_else(|| fail("the daemon did not say where it answers".into()))?;
        let client = reqwest::Client::builder().no_proxy().build().map_err(|error| fail(error.to_string()))?;
        let id = home.node().map_err(|error| fail(error.to_string()))?.to_string();
        Ok(Self { name, id, notice, client, process })
    }

    /// Ends the daemon as a person would, and waits for it.
    pub(super) async fn stop(mut self) -> Step<()> {
        if let Some(pid) = self.process.id().and_then(|pid| rustix::process::Pid::from_raw(pid as i32)) {
            // It may have ended by itself; waiting tells.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        match tokio::time::timeout(STOP_WAIT, self.process.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(DemoError::new(format!("{} ended with {status}", self.name))),
            _ => Err(DemoError::new(format!("{} did not stop", self.name))),
        }
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Step<String> {
        let fail = |what: String| DemoError::new(format!("{}: {what}", self.name));
        let answer = request.bearer_auth(&self.notice.token).send().await.map_err(|error| fail(error.to_string()))?;
        let ok = answer.status().is_success();
        let text = answer.text().await.map_err(|error| fail(error.to_string()))?;
        if ok { Ok(text) } else { Err(fail(text)) }
    }

    async fn call<R: DeserializeOwned>(&self, verb: &str, request: &impl Serialize) -> Step<R> {
        let url = format!("http://{}/v1/{verb}", self.notice.http);
        let text = self.send(self.client.post(url).json(request)).await?;
        serde_json::from_str(&text).map_err(|error| DemoError::new(format!("{}: {verb}: {error}", self.name)))
    }

    pub(super) async fn status(&self) -> Step<Status> {
        let text = self.send(self.client.get(format!("http://{}/v1/status", self.notice.http))).await?;
        serde_json::from_str(&text).map_err(|error| DemoError::new(format!("{}: status: {error}", self.name)))
    }

    pub(super) async fn invite(&self) -> Step<String> {
        let answer: crate::api::BankInviteResponse = self.call("bank/invite", &serde_json::json!({})).await?;
        Ok(answer.ticket)
    }

    pub(super) async fn import(&self, path: &Path, outcomes: Option<&Path>) -> Step<ImportResponse> {
        let request = ImportRequest {
            paths: vec![path.to_owned()],
            format: None,
            outcomes: outcomes.map(Path::to_owned),
            induce: crate::api::DEFAULT_INDUCE.to_owned(),
            model: crate::api::ModelRequest::default(),
            bank: None,
        };
        let text = self.send(self.client.post(format!("http://{}/v1/import", self.notice.http)).json(&request)).await?;
        let fail = |what: String| DemoError::new(format!("{}: import: {what}", self.name));
        let last = text.lines().next_back().ok_or_else(|| fail("no answer".into()))?;
        match serde_json::from_str(last) {
            Ok(ImportEvent::Done(done)) if done.skipped.is_empty() => Ok(done),
            Ok(ImportEvent::Done(done)) => Err(fail(format!("{} items were skipped", done.skipped.len()))),
            Ok(ImportEvent::Error(error)) => Err(fail(error.to_string())),
            Ok(_) => Err(fail("it ended early".into())),
            Err(error) => Err(fail(error.to_string())),
        }
    }

    pub(super) async fn recall(&self, request: &RecallRequest) -> Step<RecallResponse> {
        self.call("recall", request).await
    }

    pub(super) async fn block(&self, other: &Self, blocked: bool) -> Step<()> {
        let _: BlockResponse = self.call("block", &BlockRequest { peer: other.id.clone(), blocked }).await?;
        Ok(())
    }

    pub(super) async fn connected(&self) -> Step<usize> {
        Ok(self.status().await?.peers.iter().filter(|p| p.connected).count())
    }

    pub(super) async fn sees(&self, other: &Self) -> Step<bool> {
        Ok(self.status().await?.peers.iter().any(|p| p.id == other.id && p.connected))
    }

    pub(super) async fn root(&self, bank: &str) -> Step<String> {
        let status = self.status().await?;
        let found = status.banks.into_iter().find(|b| b.id == bank);
        found.map(|b| b.held_root).ok_or_else(|| DemoError::new(format!("{} does not hold the bank", self.name)))
    }

    pub(super) async fn lessons(&self, bank: &str) -> Step<u64> {
        Ok(self.status().await?.banks.iter().find(|b| b.id == bank).map_or(0, |b| b.lessons))
    }

    pub(super) async fn bytes_in(&self) -> Step<u64> {
        Ok(self.status().await?.traffic.bytes_in)
    }
}
