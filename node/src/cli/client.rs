//! The client's side of the HTTP door.

use std::{path::Path, time::Duration};

use reqwest::{RequestBuilder, Response, StatusCode};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use crate::{
    api::{Answer, ApiError, ErrorBody, ImportEvent},
    home::{DaemonNotice, Home, HomeError},
};

/// How long the daemon may take to accept a connection; it is on this machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a plain call may take: a sync to a slow disk behind an import fits.
const CALL_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest event of an import that is waited for: the lessons and skipped items of one large file.
const MAX_EVENT_BYTES: usize = 64 * 1024 * 1024;

/// A way to the daemon of a home.
pub(super) struct Client {
    http: reqwest::Client,
    notice: DaemonNotice,
    no_daemon: ApiError,
}

impl Client {
    /// Looks up the daemon that serves the home in `dir`. That it is alive only a call tells.
    pub(super) fn find(dir: &Path) -> Answer<Self> {
        let home = Home::open(dir)?;
        let no_daemon = no_daemon(dir);
        let notice = match home.daemon() {
            Ok(Some(notice)) => notice,
            Ok(None) => return Err(no_daemon),
            // Nothing a client could do with it either; the next daemon writes it anew.
            Err(error @ HomeError::Damaged { .. }) => {
                return Err(ApiError::unavailable(format!("{no_daemon} ({error})")));
            }
            Err(error) => return Err(error.into()),
        };
        let http = reqwest::Client::builder()
            // The daemon is on this machine: whatever proxy the environment names, the token must not go there.
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .build()
            .map_err(|error| ApiError::failed(format!("cannot make an HTTP client: {error}")))?;
        Ok(Self { http, notice, no_daemon })
    }

    /// Asks a verb that takes no request.
    pub(super) async fn get(&self, verb: &str) -> Answer<Box<RawValue>> {
        let request = self.http.get(self.url(verb)).timeout(CALL_TIMEOUT);
        self.answer(self.send(request).await?).await
    }

    /// Asks a verb.
    pub(super) async fn post<Q: Serialize + ?Sized>(&self, verb: &str, request: &Q) -> Answer<Box<RawValue>> {
        self.post_long(verb, request, Duration::ZERO).await
    }

    /// Asks a verb that was told to take up to `allowed` by itself.
    pub(super) async fn post_long<Q: Serialize + ?Sized>(
        &self,
        verb: &str,
        request: &Q,
        allowed: Duration,
    ) -> Answer<Box<RawValue>> {
        let timeout = CALL_TIMEOUT.saturating_add(allowed);
        let request = self.http.post(self.url(verb)).json(request).timeout(timeout);
        self.answer(self.send(request).await?).await
    }

    /// Starts an import. It takes as long as it takes, and says on the way how far it is.
    pub(super) async fn import<Q: Serialize>(&self, request: &Q) -> Answer<Events> {
        let response = self.send(self.http.post(self.url("import")).json(request)).await?;
        if response.status().is_success() {
            Ok(Events { response, buffered: Vec::new(), searched: 0 })
        } else {
            Err(self.error_of(response).await)
        }
    }

    fn url(&self, verb: &str) -> String {
        format!("http://{}/v1/{verb}", self.notice.http)
    }

    async fn send(&self, request: RequestBuilder) -> Answer<Response> {
        let sent = request.bearer_auth(&self.notice.token).send().await;
        let response = sent.map_err(|error| self.failure(&error))?;
        // Another program has the port now, or another home's daemon: ours has gone.
        if response.status() == StatusCode::UNAUTHORIZED { Err(self.no_daemon.clone()) } else { Ok(response) }
    }

    async fn answer(&self, response: Response) -> Answer<Box<RawValue>> {
        if !response.status().is_success() {
            return Err(self.error_of(response).await);
        }
        let text = response.text().await.map_err(|error| self.failure(&error))?;
        RawValue::from_string(text).map_err(|_| self.nonsense())
    }

    async fn error_of(&self, response: Response) -> ApiError {
        match response.json::<ErrorBody>().await {
            Ok(body) => body.error,
            Err(_) => self.nonsense(),
        }
    }

    fn failure(&self, error: &reqwest::Error) -> ApiError {
        if error.is_connect() {
            self.no_daemon.clone()
        } else if error.is_timeout() {
            ApiError::failed(format!("the daemon (pid {}) does not answer: see its log", self.notice.pid))
        } else {
            ApiError::failed(format!("the daemon (pid {}) went away during the call", self.notice.pid))
        }
    }

    fn nonsense(&self) -> ApiError {
        ApiError::failed(format!("what answers at {} is no folklore daemon of this kind", self.notice.http))
    }
}

/// The one line for a home without a daemon.
pub(super) fn no_daemon(dir: &Path) -> ApiError {
    let dir = dir.display();
    ApiError::unavailable(format!("no daemon is running on {dir}: start one with 'folklore up --data {dir}'"))
}

/// An answer as the type it should be.
pub(super) fn typed<T: DeserializeOwned>(answer: &RawValue) -> Answer<T> {
    serde_json::from_str(answer.get()).map_err(|error| {
        ApiError::failed(format!("the daemon's answer cannot be read (is it of another version?): {error}"))
    })
}

/// The events of an import under way.
pub(super) struct Events {
    response: Response,
    buffered: Vec<u8>,
    /// Bytes of `buffered` known to hold no line break.
    searched: usize,
}

impl Events {
    /// The next event, with the JSON it came as; `None` when the daemon went away.
    pub(super) async fn next(&mut self) -> Answer<Option<(ImportEvent, String)>> {
        loop {
            if let Some(line) = self.line() {
                let unreadable =
                    |error: String| ApiError::failed(format!("an event of the import cannot be read: {error}"));
                let text = String::from_utf8(line).map_err(|error| unreadable(error.to_string()))?;
                let event = serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
                return Ok(Some((event, text.trim_end().to_owned())));
            }
            if self.buffered.len() > MAX_EVENT_BYTES {
                return Err(ApiError::failed("an event of the import is too long"));
            }
            match self.response.chunk().await {
                Ok(Some(chunk)) => self.buffered.extend_from_slice(&chunk),
                Ok(None) | Err(_) => return Ok(None),
            }
        }
    }

    fn line(&mut self) -> Option<Vec<u8>> {
        let fresh = self.buffered.get(self.searched..)?;
        match fresh.iter().position(|&b| b == b'\n') {
            Some(at) => {
                let line = self.buffered.drain(..=self.searched + at).collect();
                self.searched = 0;
                Some(line)
            }
            None => {
                self.searched = self.buffered.len();
                None
            }
        }
    }
}
