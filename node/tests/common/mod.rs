//! A daemon in this process, on a home that outlives it.

use std::path::Path;

use folklore_node::{
    api::{Answer, UpOptions},
    daemon,
    home::{DaemonNotice, Home},
};
use serde_json::Value;
use tokio::{sync::oneshot, task::JoinHandle};
use tokio_util::sync::CancellationToken;

/// A running daemon and the way to its door.
pub struct Running {
    notice: DaemonNotice,
    http: reqwest::Client,
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
        if told.await.is_err() {
            panic!("{:?}", task.await);
        }
        let notice = home.daemon().expect("it reads").expect("it runs");
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { notice, http, stop, task }
    }

    /// The answer to a verb that must succeed.
    pub async fn post(&self, verb: &str, body: &Value) -> Value {
        let url = format!("http://{}/v1/{verb}", self.notice.http);
        let sent = self.http.post(url).bearer_auth(&self.notice.token).json(body).send().await;
        self.value(verb, sent).await
    }

    /// The last event of an import, which must succeed.
    #[allow(dead_code, reason = "not every test imports")]
    pub async fn import(&self, body: &Value) -> Value {
        let url = format!("http://{}/v1/import", self.notice.http);
        let sent = self.http.post(url).bearer_auth(&self.notice.token).json(body).send().await.expect("it answers");
        let text = sent.text().await.expect("events");
        let last = text.lines().last().expect("an event");
        let event: Value = serde_json::from_str(last).expect("JSON");
        assert_eq!(event["event"], "done", "{event}");
        event
    }

    /// The answer to a verb that takes no request.
    #[allow(dead_code, reason = "not every test asks one")]
    pub async fn get(&self, verb: &str) -> Value {
        let url = format!("http://{}/v1/{verb}", self.notice.http);
        let sent = self.http.get(url).bearer_auth(&self.notice.token).send().await;
        self.value(verb, sent).await
    }

    /// The answer to a verb that answers in lines.
    #[allow(dead_code, reason = "not every test that shares this file imports")]
    pub async fn post_text(&self, verb: &str, body: &Value) -> String {
        let url = format!("http://{}/v1/{verb}", self.notice.http);
        let sent = self.http.post(url).bearer_auth(&self.notice.token).json(body).send().await.expect("it answers");
        sent.text().await.expect("text")
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
