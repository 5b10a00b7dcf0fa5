//! A chat model on loopback that can misbehave in every way that services do.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Response, Uri},
};
use serde_json::{Value, json};

/// One way to answer a request.
#[derive(Debug, Clone)]
#[allow(dead_code, reason = "each test that shares this file needs some of them")]
pub enum Act {
    /// These words, in the form of the interface that was asked.
    Says(String),
    /// What [`good_answer`] makes of the prompt.
    Well,
    /// A status, and how many seconds to wait where one is named.
    Status(u16, Option<u32>),
    /// Not within the patience of anybody here.
    Slow,
    /// A good answer that breaks off in the middle of the stream.
    CutOff,
    /// This instead of an answer of the interface.
    Raw(String),
    /// An answer of more bytes than anybody wants.
    Huge(usize),
    /// A good answer that says that it stopped at the limit.
    AtLimit,
}

#[derive(Default)]
pub struct Seen {
    pub acts: VecDeque<Act>,
    /// What is done when nothing is planned; none: well.
    pub otherwise: Option<Act>,
    /// Path, headers and body of each request.
    pub requests: Vec<(String, HeaderMap, Value)>,
}

/// The model. What is not planned is answered well.
pub struct Fake {
    pub url: String,
    pub seen: Arc<Mutex<Seen>>,
    task: tokio::task::JoinHandle<()>,
}

impl Fake {
    pub async fn new(acts: impl IntoIterator<Item = Act>) -> Self {
        let seen = Arc::new(Mutex::new(Seen { acts: acts.into_iter().collect(), ..Seen::default() }));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let router = Router::new().fallback(answer).with_state(Arc::clone(&seen));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.expect("served") });
        Self { url, seen, task }
    }

    pub fn requests(&self) -> Vec<(String, HeaderMap, Value)> {
        self.seen.lock().expect("not poisoned").requests.clone()
    }

    /// What it does next, and from then on.
    #[allow(dead_code, reason = "one of the tests that share this file plans nothing later")]
    pub fn plan(&self, acts: impl IntoIterator<Item = Act>, otherwise: Option<Act>) {
        let mut seen = self.seen.lock().expect("not poisoned");
        seen.acts = acts.into_iter().collect();
        seen.otherwise = otherwise;
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The last words of the user in a request of any of the interfaces.
#[allow(dead_code, reason = "one of the tests that share this file looks at all of the body")]
pub fn asked(body: &Value) -> String {
    let messages = body.get("messages").or_else(|| body.get("contents")).and_then(Value::as_array).expect("messages");
    let last = messages.last().expect("one");
    let text = last.get("content").or_else(|| last.pointer("/parts/0/text")).and_then(Value::as_str);
    text.expect("a text").to_owned()
}

/// A lesson that quotes the first long line of a step of each run in the prompt; for the judge a verdict.
pub fn good_answer(body: &Value) -> String {
    let messages = body.get("messages").or_else(|| body.get("contents")).and_then(Value::as_array).expect("messages");
    let system = body.pointer("/systemInstruction/parts/0/text").or_else(|| body.get("system")).and_then(Value::as_str);
    let system = system.or_else(|| messages[0]["content"].as_str()).expect("rules").to_owned();
    let users = messages.iter().filter(|m| m["role"] == "user");
    let user = users.map(|m| m.get("content").or_else(|| m.pointer("/parts/0/text")).and_then(Value::as_str)).next();
    let user = user.flatten().expect("material");
    let mut evidence = Vec::new();
    let (mut run, mut step) = (0, 0);
    let mut quoted_of = 0;
    for line in user.lines() {
        if let Some(number) = line.strip_prefix("RUN ") {
            (run, step) = (number.parse::<usize>().expect("a number"), 0);
        } else if let Some(number) = line.strip_prefix("step ") {
            step = number.parse::<usize>().expect("a number");
        } else if let Some(text) = line.strip_prefix("> ")
            && step > 0
            && quoted_of < run
            && text.len() > 12
            && !text.contains("left out here")
        {
            quoted_of = run;
            let quote: String = text.chars().take(60).collect();
            evidence.push(json!({"run": run, "step": step, "quote": quote.trim()}));
        }
    }
    if system.contains("You judge") {
        return json!({"verdict": "failure", "reason": "The record shows that it was not done.", "evidence": evidence})
            .to_string();
    }
    let shown: Vec<String> =
        evidence.iter().map(|one| one["quote"].as_str().expect("a text").replace('"', "'")).collect();
    let title: String =
        format!("Mind what {} shows", shown.first().cloned().unwrap_or_default()).chars().take(140).collect();
    json!({"lessons": [{
        "title": title,
        "applies_when": "The same kind of record is about to be changed.",
        "not_when": "Another tool is at hand.",
        "content": format!("Before the change look at this: {}", shown.join(" / ")),
        "evidence": evidence,
    }]})
    .to_string()
}

async fn answer(State(seen): State<Arc<Mutex<Seen>>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    let act = {
        let mut seen = seen.lock().expect("not poisoned");
        seen.requests.push((uri.path().to_owned(), headers, body.clone()));
        let otherwise = seen.otherwise.clone().unwrap_or(Act::Well);
        seen.acts.pop_front().unwrap_or(otherwise)
    };
    let form = |text: &str, cut: bool| {
        let path = uri.path();
        let value = if path.ends_with(":generateContent") {
            json!({"candidates": [{"content": {"parts": [{"text": "hm", "thought": true}, {"text": text}]},
                "finishReason": if cut { "MAX_TOKENS" } else { "STOP" }}]})
        } else if path == "/v1/messages" {
            json!({"content": [{"type": "text", "text": text}], "stop_reason": if cut { "max_tokens" } else { "end_turn" }})
        } else {
            json!({"choices": [{"message": {"role": "assistant", "content": text},
                "finish_reason": if cut { "length" } else { "stop" }}]})
        };
        value.to_string()
    };
    let reply = Response::builder();
    let made = match act {
        Act::Well => reply.body(Body::from(form(&good_answer(&body), false))),
        Act::Says(text) => reply.body(Body::from(form(&text, false))),
        Act::AtLimit => reply.body(Body::from(form(&good_answer(&body), true))),
        Act::Raw(text) => reply.body(Body::from(text)),
        Act::Huge(bytes) => reply.body(Body::from(form(&"x".repeat(bytes), false))),
        Act::Status(status, wait) => {
            let reply = match wait {
                Some(seconds) => reply.header("retry-after", seconds.to_string()),
                None => reply,
            };
            reply.status(status).body(Body::from("{\"error\": {\"message\": \"no\"}}"))
        }
        Act::Slow => {
            tokio::time::sleep(Duration::from_secs(600)).await;
            reply.body(Body::empty())
        }
        Act::CutOff => {
            let text = form(&good_answer(&body), false);
            let half = Bytes::from(text[..text.len() / 2].to_owned());
            let broken = futures::stream::iter([Ok(half), Err(std::io::Error::other("the cable was pulled"))]);
            reply.header("content-length", text.len()).body(Body::from_stream(broken))
        }
    };
    made.expect("a sound reply")
}
