//! A chat model on loopback that can misbehave in every way that services do.

use axum::{body::Body, http::Response};
use serde_json::{Value, json};

use crate::fake_service::{self, breaks_off, is_slow, refuses, says};

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

/// The model. What is not planned is answered well.
pub type Fake = fake_service::Fake<Act>;

impl Fake {
    pub async fn new(acts: impl IntoIterator<Item = Act>) -> Self {
        Self::serve(acts, Act::Well, answer).await
    }

    /// What it does next, and from then on.
    #[allow(dead_code, reason = "one of the tests that share this file plans nothing later")]
    pub fn plan(&self, acts: impl IntoIterator<Item = Act>, otherwise: Option<Act>) {
        let mut seen = self.seen.lock().expect("not poisoned");
        seen.acts = acts.into_iter().collect();
        seen.otherwise = otherwise.unwrap_or(Act::Well);
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

async fn answer(act: Act, path: String, body: Value) -> Response<Body> {
    let form = |text: &str, cut: bool| {
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
    match act {
        Act::Well => says(form(&good_answer(&body), false)),
        Act::Says(text) => says(form(&text, false)),
        Act::AtLimit => says(form(&good_answer(&body), true)),
        Act::Raw(text) => says(text),
        Act::Huge(bytes) => says(form(&"x".repeat(bytes), false)),
        Act::Status(status, wait) => refuses(status, wait, "{\"error\": {\"message\": \"no\"}}"),
        Act::Slow => is_slow().await,
        Act::CutOff => breaks_off(&form(&good_answer(&body), false)),
    }
}
