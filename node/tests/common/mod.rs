//! A daemon in this process, on a home that outlives it.
#![allow(dead_code, reason = "not every test that starts daemons needs all of it")]

use std::{
    path::Path,
    time::{Duration, Instant},
};

use folklore_node::{
    api::{Answer, UpOptions, UpReady},
    daemon,
    home::{DaemonNotice, Home},
};
use serde_json::Value;
use tokio::{sync::oneshot, task::JoinHandle};
use tokio_util::sync::CancellationToken;

/// The upper bound of every wait. Only a failing test, or a very busy machine, comes near it.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until `holds`.
pub async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "waited too long for: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A running daemon and the way to its door.
pub struct Running {
    pub ready: UpReady,
    pub notice: DaemonNotice,
    pub http: reqwest::Client,
    stop: CancellationToken,
    task: JoinHandle<Answer<()>>,
}

impl Running {
    /// Starts a daemon on the home in `dir`, which is made if there is none.
    pub async fn start(dir: &Path, options: UpOptions) -> Self {
        let (home, _) = Home::create(dir, "home").expect("a home");
        let lock = home.lock().expect("nobody serves it");
        let stop = CancellationToken::new();
        let (tell, told) = oneshot::channel();
        let task = tokio::spawn(daemon::run(home.clone(), lock, options, stop.clone(), tell));
        let Ok(ready) = told.await else { panic!("{:?}", task.await) };
        let notice = home.daemon().expect("it reads").expect("it runs");
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { ready, notice, http, stop, task }
    }

    /// Its first address, with its id.
    pub fn address(&self) -> String {
        format!("{}/p2p/{}", self.ready.listening[0], self.ready.node)
    }

    /// The answer to a verb that must succeed.
    pub async fn post(&self, verb: &str, body: &Value) -> Value {
        let url = format!("http://{}/v1/{verb}", self.notice.http);
        let sent = self.http.post(url).bearer_auth(&self.notice.token).json(body).send().await;
        self.value(verb, sent).await
    }

    /// The last event of an import, which must succeed.
    pub async fn import(&self, body: &Value) -> Value {
        let text = self.post_text("import", body).await;
        let last = text.lines().last().expect("an event");
        let event: Value = serde_json::from_str(last).expect("JSON");
        assert_eq!(event["event"], "done", "{event}");
        event
    }

    /// The answer to a verb that takes no request.
    pub async fn get(&self, verb: &str) -> Value {
        let url = format!("http://{}/v1/{verb}", self.notice.http);
        let sent = self.http.get(url).bearer_auth(&self.notice.token).send().await;
        self.value(verb, sent).await
    }

    /// The answer to a verb that answers in lines.
    pub async fn post_text(&self, verb: &str, body: &Value) -> String {
        let url = format!("http://{}/v1/{verb}", self.notice.http);
        let sent = self.http.post(url).bearer_auth(&self.notice.token).json(body).send().await.expect("it answers");
        sent.text().await.expect("text")
    }

    /// What its door shows at a path.
    pub async fn text(&self, path: &str) -> String {
        let url = format!("http://{}{path}", self.notice.http);
        let answer = self.http.get(url).bearer_auth(&self.notice.token).send().await.expect("it answers");
        answer.text().await.expect("text")
    }

    async fn value(&self, verb: &str, sent: reqwest::Result<reqwest::Response>) -> Value {
        let answer = sent.expect("it answers");
        let ok = answer.status().is_success();
        let value = answer.json().await.expect("JSON");
        assert!(ok, "{verb}: {value}");
        value
    }

    /// Stops it as a signal would.
    pub async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("it ends").expect("it ends well");
    }
}
