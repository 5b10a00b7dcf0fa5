//! A service on loopback that does as planned and keeps what it was asked. What it answers is up to the test.
#![allow(dead_code, reason = "each test that shares this file takes what it needs of it")]

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    http::{HeaderMap, Response, Uri},
};
use folklore_node::service::Patience;
use serde_json::Value;

/// A request: its path, headers and body.
pub type Request = (String, HeaderMap, Value);

/// What is planned, and what was asked.
pub struct Seen<A> {
    pub acts: VecDeque<A>,
    /// What is done when nothing is planned.
    pub otherwise: A,
    pub requests: Vec<Request>,
}

/// The service; it ends when it is dropped.
pub struct Fake<A> {
    pub url: String,
    pub seen: Arc<Mutex<Seen<A>>>,
    task: tokio::task::JoinHandle<()>,
}

impl<A: Clone + Send + 'static> Fake<A> {
    /// One that answers by `answer`, given what is to be done and the request.
    pub async fn serve<F: Future<Output = Response<Body>> + Send>(
        acts: impl IntoIterator<Item = A>,
        otherwise: A,
        answer: impl Fn(A, String, Value) -> F + Clone + Send + Sync + 'static,
    ) -> Self {
        let seen = Seen { acts: acts.into_iter().collect(), otherwise, requests: Vec::new() };
        let seen = Arc::new(Mutex::new(seen));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let shared = Arc::clone(&seen);
        let router = Router::new().fallback(move |uri: Uri, headers: HeaderMap, body: Bytes| async move {
            let (path, body) = (uri.path().to_owned(), serde_json::from_slice::<Value>(&body).expect("JSON"));
            let act = {
                let mut seen = shared.lock().expect("not poisoned");
                seen.requests.push((path.clone(), headers, body.clone()));
                seen.acts.pop_front().unwrap_or_else(|| seen.otherwise.clone())
            };
            answer(act, path, body).await
        });
        let task = tokio::spawn(async move { axum::serve(listener, router).await.expect("served") });
        Self { url, seen, task }
    }

    /// What it was asked so far.
    pub fn requests(&self) -> Vec<Request> {
        self.seen.lock().expect("not poisoned").requests.clone()
    }
}

impl<A> Drop for Fake<A> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub fn says(text: impl Into<Body>) -> Response<Body> {
    Response::new(text.into())
}

/// A status, and how many seconds to wait where one is named.
pub fn refuses(status: u16, wait: Option<u32>, words: &'static str) -> Response<Body> {
    let mut reply = Response::builder().status(status);
    if let Some(seconds) = wait {
        reply = reply.header("retry-after", seconds.to_string());
    }
    reply.body(Body::from(words)).expect("a sound reply")
}

/// Not within the patience of anybody here.
pub async fn is_slow() -> Response<Body> {
    tokio::time::sleep(Duration::from_secs(600)).await;
    Response::new(Body::empty())
}

/// An answer that breaks off in the middle of the stream.
pub fn breaks_off(text: &str) -> Response<Body> {
    let half = Bytes::from(text[..text.len() / 2].to_owned());
    let broken = futures::stream::iter([Ok(half), Err(std::io::Error::other("the cable was pulled"))]);
    let reply = Response::builder().header("content-length", text.len());
    reply.body(Body::from_stream(broken)).expect("a sound reply")
}

/// Patient enough for a busy machine, quick where the fake lets one wait for ever.
pub fn patience(tries: u32) -> Patience {
    Patience {
        timeout: Duration::from_secs(30),
        tries,
        pause: Duration::from_millis(1),
        most_pause: Duration::from_millis(4),
    }
}
