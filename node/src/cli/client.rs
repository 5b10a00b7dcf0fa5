//! The client's side of the HTTP door.

use std::{future::Future, path::Path, time::Duration};

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
/// Whether the daemon still runs is asked beside every call that takes longer than `every`; when it has not said so `misses`
/// times, each within `timeout`, it does not run: it was stopped (SIGSTOP), or hangs. A call itself may take as long as it
/// takes.
#[derive(Debug, Clone, Copy)]
struct Patience {
    every: Duration,
    timeout: Duration,
    misses: u32,
}

/// Half a minute in the worst case. A machine that is so busy that the daemon does not get to a word in that time gives no other
/// answer either.
const PATIENCE: Patience = Patience { every: Duration::from_secs(4), timeout: Duration::from_secs(6), misses: 3 };
/// Longest event of an import that is waited for: the lessons and skipped items of one large file.
const MAX_EVENT_BYTES: usize = 64 * 1024 * 1024;

/// A way to the daemon of a home.
pub(super) struct Client {
    alive: Alive,
    no_daemon: ApiError,
}

/// Asks the daemon whether it runs.
#[derive(Clone)]
struct Alive {
    http: reqwest::Client,
    notice: DaemonNotice,
    patience: Patience,
}

impl Alive {
    /// Waits for `call` for as long as the daemon runs.
    async fn wait<T>(&self, call: impl Future<Output = T>) -> Answer<T> {
        let mut call = std::pin::pin!(call);
        let mut missed = 0;
        loop {
            tokio::select! {
                biased;
                done = &mut call => return Ok(done),
                () = tokio::time::sleep(self.patience.every) => {}
            }
            let asked = self.http.get(format!("http://{}/healthz", self.notice.http)).timeout(self.patience.timeout);
            tokio::select! {
                biased;
                done = &mut call => return Ok(done),
                asked = asked.send() => match asked {
                    // Whatever it says, it speaks.
                    Ok(_) => missed = 0,
                    Err(_) => missed += 1,
                },
            }
            if missed >= self.patience.misses {
                return Err(ApiError::failed(format!(
                    "the daemon (pid {}) is there and does not answer: it was stopped (continue it with 'kill -CONT \
                     {0}') or it hangs; what it acknowledged is safe",
                    self.notice.pid
                )));
            }
        }
    }
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
        Ok(Self { alive: Alive { http, notice, patience: PATIENCE }, no_daemon })
    }

    /// Asks a verb that takes no request.
    pub(super) async fn get(&self, verb: &str) -> Answer<Box<RawValue>> {
        let request = self.alive.http.get(self.url(verb)).timeout(CALL_TIMEOUT);
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
        let request = self.alive.http.post(self.url(verb)).json(request).timeout(timeout);
        self.answer(self.send(request).await?).await
    }

    /// Starts an import. It takes as long as it takes, and says on the way how far it is.
    pub(super) async fn import<Q: Serialize>(&self, request: &Q) -> Answer<Events> {
        let response = self.send(self.alive.http.post(self.url("import")).json(request)).await?;
        if response.status().is_success() {
            Ok(Events { response, alive: self.alive.clone(), buffered: Vec::new(), searched: 0 })
        } else {
            Err(self.error_of(response).await)
        }
    }

    fn url(&self, verb: &str) -> String {
        format!("http://{}/v1/{verb}", self.alive.notice.http)
    }

    async fn send(&self, request: RequestBuilder) -> Answer<Response> {
        let sent = self.alive.wait(request.bearer_auth(&self.alive.notice.token).send()).await?;
        let response = sent.map_err(|error| self.failure(&error))?;
        // Another program has the port now, or another home's daemon: ours has gone.
        if response.status() == StatusCode::UNAUTHORIZED { Err(self.no_daemon.clone()) } else { Ok(response) }
    }

    async fn answer(&self, response: Response) -> Answer<Box<RawValue>> {
        if !response.status().is_success() {
            return Err(self.error_of(response).await);
        }
        let text = self.alive.wait(response.text()).await?.map_err(|error| self.failure(&error))?;
        RawValue::from_string(text).map_err(|_| self.nonsense())
    }

    async fn error_of(&self, response: Response) -> ApiError {
        match self.alive.wait(response.json::<ErrorBody>()).await {
            Ok(Ok(body)) => body.error,
            Ok(Err(_)) => self.nonsense(),
            Err(error) => error,
        }
    }

    fn failure(&self, error: &reqwest::Error) -> ApiError {
        if error.is_connect() {
            self.no_daemon.clone()
        } else if error.is_timeout() {
            ApiError::failed(format!("the daemon (pid {}) does not answer: see its log", self.alive.notice.pid))
        } else {
            ApiError::failed(format!("the daemon (pid {}) went away during the call", self.alive.notice.pid))
        }
    }

    fn nonsense(&self) -> ApiError {
        ApiError::failed(format!("what answers at {} is no folklore daemon of this kind", self.alive.notice.http))
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
    alive: Alive,
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
            match self.alive.wait(self.response.chunk()).await? {
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

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    const SHORT: Patience =
        Patience { every: Duration::from_millis(50), timeout: Duration::from_millis(200), misses: 3 };

    /// A home whose daemon is said to be at `address`.
    fn client(dir: &Path, address: std::net::SocketAddr) -> Client {
        let (home, _) = Home::create(dir, "home").unwrap();
        let lock = home.lock().unwrap();
        home.write_daemon(&lock, &DaemonNotice { pid: 4711, http: address, token: "t".into() }).unwrap();
        let mut client = Client::find(dir).unwrap();
        client.alive.patience = SHORT;
        client
    }

    #[tokio::test]
    async fn a_stopped_daemon_is_given_up_with_a_word_on_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        // The kernel takes connections for a stopped process, and nobody reads them.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = client(dir.path(), listener.local_addr().unwrap());
        let plain = client.get("status").await.unwrap_err();
        assert!(plain.message.contains("4711") && plain.message.contains("kill -CONT"), "{plain}");
        let import = client.import(&serde_json::json!({})).await.map(drop).unwrap_err();
        assert_eq!(import.message, plain.message);
    }

    #[tokio::test]
    async fn a_slow_call_of_a_daemon_that_lives_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = client(dir.path(), listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut head = [0; 1024];
                    let read = stream.read(&mut head).await.unwrap_or(0);
                    if !String::from_utf8_lossy(&head[..read]).contains("/healthz") {
                        // Far longer than the patience with a dead one.
                        tokio::time::sleep(20 * (SHORT.every + SHORT.timeout)).await;
                    }
                    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
                    let _ = stream.write_all(answer.as_bytes()).await;
                });
            }
        });
        assert_eq!(client.get("status").await.unwrap().get(), "{}");
    }
}
