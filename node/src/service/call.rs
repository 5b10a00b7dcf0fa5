//! One JSON request to a service that may be slow, full, broken or gone.

use std::time::Duration;

use futures::StreamExt;
use reqwest::{Client, RequestBuilder, StatusCode, header, redirect};
use serde::{Serialize, de::DeserializeOwned};

use super::Secret;

/// Longest answer read, bytes: 2,048 vectors of 4,096 components in decimal text stay below.
const MAX_ANSWER_BYTES: usize = 128 * 1024 * 1024;
/// Longest part of a service's own words that is passed on, characters.
const MAX_WORDS: usize = 200;
/// Longest wait that a service may ask for with `Retry-After`.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// How long a call may take and how often it is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For one try, from connecting to the last byte.
    pub timeout: Duration,
    /// Tries in all; at least one is made.
    pub tries: u32,
    /// Wait before the second try. It doubles with each try, up to `most_pause`; half of it is random, so that many
    /// nodes do not come back in step.
    pub pause: Duration,
    /// Longest wait between two tries, but for one that the service asks for.
    pub most_pause: Duration,
}

impl Patience {
    /// For work in the background.
    pub const BACKGROUND: Self = Self {
        timeout: Duration::from_secs(60),
        tries: 4,
        pause: Duration::from_millis(500),
        most_pause: Duration::from_secs(20),
    };
    /// For a query that an agent waits for: one try, and words alone answer if it fails.
    pub const QUERY: Self =
        Self { timeout: Duration::from_secs(2), tries: 1, pause: Duration::ZERO, most_pause: Duration::ZERO };
}

/// Why a call brought nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No answer, or one that broke off.
    #[error("{url} cannot be reached ({reason}); check the address and the network")]
    Unreachable {
        /// What was called, without its query.
        url: String,
        /// What happened.
        reason: String,
    },
    /// The service says that it is too busy or out of order.
    #[error("{url} is busy or out of order (HTTP {status}{}); it will be tried again", said(.words))]
    Busy {
        /// What was called.
        url: String,
        /// Its status.
        status: u16,
        /// Its words, cut.
        words: String,
    },
    /// The service will not do it, now or later.
    #[error("{url} refuses the request (HTTP {status}{}); check the model's name and the key", said(.words))]
    Refused {
        /// What was called.
        url: String,
        /// Its status.
        status: u16,
        /// Its words, cut.
        words: String,
    },
    /// It answered with something else than was asked for.
    #[error("{url} gave an unusable answer ({reason}); check that it speaks the configured interface")]
    BadAnswer {
        /// What was called.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl CallError {
    /// Whether the same request may succeed later.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Busy { .. })
    }

    /// Whether the request may have been too large for the service.
    pub fn may_be_too_large(&self) -> bool {
        matches!(self, Self::Refused { status: 400 | 413 | 422, .. })
    }
}

fn said(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(": {words}") }
}

/// How a key is handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// None is needed, as with a service of one's own.
    None,
    /// `Authorization: Bearer …`.
    Bearer(Secret),
    /// In a header of this name.
    Header(&'static str, Secret),
}

/// A service and the way to it.
#[derive(Debug, Clone)]
pub struct Service {
    http: Client,
    base: String,
    auth: Auth,
    /// A header that the interface wants with every request.
    header: Option<(&'static str, &'static str)>,
    /// Longest answer that is read, bytes.
    max_answer: usize,
}

impl Service {
    /// A service below a base address such as `http://127.0.0.1:11434`.
    ///
    /// # Errors
    /// When the address is no HTTP address, in words for the user.
    pub fn new(base: &str, auth: Auth) -> Result<Self, String> {
        let url = reqwest::Url::parse(base).map_err(|error| format!("{base} is no address: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(format!("{base} is no address of a service: http:// or https:// and a host are wanted"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("an address with a password in it would be shown in messages: give the key apart".into());
        }
        // A redirect would carry the texts, and perhaps the key, to somewhere the user did not name.
        let http = Client::builder()
            .redirect(redirect::Policy::none())
            .connect_timeout(Duration::from_secs(10))
            .build()
            .map_err(|error| format!("cannot make HTTP requests here: {error}"))?;
        let base = base.trim_end_matches('/').to_owned();
        Ok(Self { http, base, auth, header: None, max_answer: MAX_ANSWER_BYTES })
    }

    /// The same service, with a header that goes with every request.
    #[must_use]
    pub fn with_header(self, name: &'static str, value: &'static str) -> Self {
        Self { header: Some((name, value)), ..self }
    }

    /// The same service, from which no longer answers are read.
    #[must_use]
    pub fn reading_at_most(self, bytes: usize) -> Self {
        Self { max_answer: bytes.min(MAX_ANSWER_BYTES), ..self }
    }

    /// Where it is.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Posts JSON to a path below the base and reads the JSON that comes back.
    ///
    /// # Errors
    /// When there is no usable answer after all tries. Refusals and unusable answers are not tried again.
    pub async fn post<A: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        patience: Patience,
    ) -> Result<A, CallError> {
        self.post_while(path, body, patience, &|| true).await
    }

    /// As [`Service::post`], where `again` decides before each try but the first whether it may be made: who pays by the
    /// request counts them.
    ///
    /// # Errors
    /// When there is no usable answer after the last try.
    pub async fn post_while<A: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        patience: Patience,
        again: &(dyn Fn() -> bool + Sync),
    ) -> Result<A, CallError> {
        let url = format!("{}{path}", self.base);
        let mut pause = patience.pause;
        let mut left = patience.tries.max(1);
        loop {
            left -= 1;
            let request = self.authorised(self.http.post(&url).json(body).timeout(patience.timeout));
            let (error, asked) = match one_try(request, &url, self.max_answer).await {
                Ok(bytes) => {
                    return serde_json::from_slice(&bytes).map_err(|error| CallError::BadAnswer {
                        url,
                        reason: format!("not the JSON that was expected: {error}"),
                    });
                }
                Err(failed) => failed,
            };
            if left == 0 || !error.is_passing() {
                return Err(error);
            }
            tracing::debug!(%error, left, "a service will be tried again");
            tokio::time::sleep(asked.unwrap_or_else(|| half_random(pause))).await;
            pause = (pause * 2).min(patience.most_pause);
            if !again() {
                return Err(error);
            }
        }
    }

    fn authorised(&self, request: RequestBuilder) -> RequestBuilder {
        let request = match self.header {
            Some((name, value)) => request.header(name, value),
            None => request,
        };
        match &self.auth {
            Auth::None => request,
            Auth::Bearer(key) => request.bearer_auth(key.reveal()),
            Auth::Header(name, key) => request.header(*name, key.reveal()),
        }
    }
}

/// The bytes of a good answer; or what went wrong, and how long the service wants to be left alone.
async fn one_try(
    request: RequestBuilder,
    url: &str,
    max_answer: usize,
) -> Result<Vec<u8>, (CallError, Option<Duration>)> {
    let unreachable =
        |error: &reqwest::Error| (CallError::Unreachable { url: url.to_owned(), reason: reason(error) }, None);
    let response = request.send().await.map_err(|error| unreachable(&error))?;
    let status = response.status();
    let wait = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let wait = wait.map(|seconds| Duration::from_secs(seconds).min(MAX_RETRY_AFTER));
    let mut bytes = Vec::new();
    let mut chunks = response.bytes_stream();
    // A status that is no success keeps its meaning, however its body ends.
    let most = if status.is_success() { max_answer } else { 4 * MAX_WORDS };
    while let Some(chunk) = chunks.next().await {
        match chunk {
            Ok(chunk) if bytes.len() + chunk.len() <= most => bytes.extend_from_slice(&chunk),
            Ok(chunk) if !status.is_success() => {
                bytes.extend_from_slice(&chunk[..(most - bytes.len()).min(chunk.len())]);
                break;
            }
            Ok(_) => {
                let reason = format!("longer than {max_answer} bytes");
                return Err((CallError::BadAnswer { url: url.to_owned(), reason }, None));
            }
            Err(_) if !status.is_success() => break,
            Err(error) => return Err(unreachable(&error)),
        }
    }
    if status.is_success() {
        return Ok(bytes);
    }
    let (url, words) = (url.to_owned(), words(&bytes));
    let passing = status.is_server_error()
        || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT);
    let status = status.as_u16();
    Err(if passing {
        (CallError::Busy { url, status, words }, wait)
    } else {
        (CallError::Refused { url, status, words }, None)
    })
}

/// A service's own words on one line, cut; control characters and credentials do not get through.
fn words(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let visible: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = visible.split_whitespace().collect::<Vec<_>>().join(" ");
    let clean = folklore_store::redact::redact(&line, folklore_store::redact::Classes::CREDENTIAL).text;
    clean.chars().take(MAX_WORDS).collect()
}

/// The innermost reason of an error, without the address that the message names already.
fn reason(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "it did not answer in time".into();
    }
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

/// Between half of `pause` and all of it.
pub(crate) fn half_random(pause: Duration) -> Duration {
    let mut bytes = [0; 2];
    // Without randomness the pause is whole: only the spreading is lost.
    let part = getrandom::fill(&mut bytes).map_or(u16::MAX, |()| u16::from_le_bytes(bytes));
    pause / 2 + pause.mul_f64(f64::from(part) / f64::from(u16::MAX) / 2.0)
}
