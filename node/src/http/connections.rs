//! The connections of the door: how many, and how long one may take to say what it wants.
//!
//! axum's own server bounds neither, so that whatever runs on this machine could hold the door shut with connections that say
//! nothing. Once a request's head is here its body has a deadline of its own, and the answer takes as long as the verb takes:
//! an import or a waiting sync is never cut.

use std::{sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::STOP_GRACE;

/// Bounds on connections.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Open at one time. Twice the calls that may be under way: the other half are idle ones that clients keep.
    pub(super) connections: usize,
    /// How long a request's head may take to come in, and so how long a connection may be idle.
    pub(super) head: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 2 * super::MAX_CALLS, head: Duration::from_secs(30) }
    }
}

/// Longest head of a request, bytes, and most lines of it.
const MAX_HEAD_BYTES: usize = 64 * 1024;
const MAX_HEADERS: usize = 64;
/// The wait after the system would not give a connection (no descriptors left, mostly).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long telling one that it is one too many may take.
const REFUSE_TIMEOUT: Duration = Duration::from_secs(1);
/// What one too many is told.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: 97\r\nconnection: \
close\r\n\r\n{\"error\":{\"code\":\"unavailable\",\"message\":\"too many connections to this daemon: try again later\"}}";

/// Serves until `stop`, then lets what is under way end, for a bounded time.
pub(super) async fn serve(listener: TcpListener, router: Router, stop: CancellationToken, limits: Limits) {
    let places = Arc::new(Semaphore::new(limits.connections));
    let open = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "the HTTP door cannot take a connection");
                time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        match Arc::clone(&places).try_acquire_owned() {
            Ok(place) => {
                let (router, stop) = (router.clone(), stop.clone());
                open.spawn(async move {
                    serve_one(stream, router, stop, limits).await;
                    drop(place);
                });
            }
            // Bounded by its timeout times how fast connections can be made on one machine.
            Err(_) => {
                open.spawn(refuse(stream));
            }
        }
    }
    drop(listener);
    open.close();
    if time::timeout(STOP_GRACE, open.wait()).await.is_err() {
        tracing::warn!("connections were still open when the HTTP door closed");
    }
}

async fn serve_one(stream: TcpStream, router: Router, stop: CancellationToken, limits: Limits) {
    // Answers are small and waited for.
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to the HTTP door ended");
    }
}

async fn refuse(mut stream: TcpStream) {
    let told = async {
        stream.write_all(FULL).await?;
        stream.shutdown().await
    };
    // Whoever does not listen is not told.
    let _ = time::timeout(REFUSE_TIMEOUT, told).await;
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::AsyncReadExt;

    use super::*;

    const SHORT: Limits = Limits { connections: 2, head: Duration::from_millis(300) };

    async fn door(limits: Limits) -> (std::net::SocketAddr, CancellationToken) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let slow = get(|| async {
            time::sleep(Duration::from_millis(900)).await;
            "slow"
        });
        let router = Router::new().route("/", get(|| async { "here" })).route("/slow", slow);
        tokio::spawn(serve(listener, router, stop.clone(), limits));
        (address, stop)
    }

    async fn read_all(stream: &mut TcpStream) -> String {
        let mut text = Vec::new();
        let read = time::timeout(Duration::from_secs(30), stream.read_to_end(&mut text)).await;
        // A reset says as well that it is over.
        let _ = read.expect("the door ends the connection");
        String::from_utf8_lossy(&text).into_owned()
    }

    #[tokio::test]
    async fn a_head_that_does_not_come_in_time_ends_the_connection() {
        let (address, stop) = door(SHORT).await;
        for said in ["", "GET / HTTP/1.1\r\nHost: x\r\n"] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(said.as_bytes()).await.unwrap();
            let text = read_all(&mut stream).await;
            assert!(!text.contains("here"), "{text}");
        }
        stop.cancel();
    }

    #[tokio::test]
    async fn an_answer_that_takes_longer_than_a_head_may_is_not_cut() {
        let (address, stop) = door(SHORT).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        assert!(read_all(&mut stream).await.ends_with("slow"));
        stop.cancel();
    }

    #[tokio::test]
    async fn one_connection_too_many_is_told_and_a_place_comes_free() {
        let (address, stop) = door(Limits { head: Duration::from_secs(60), ..SHORT }).await;
        let mut idle = Vec::new();
        for _ in 0..2 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
            let mut first = [0; 12];
            stream.read_exact(&mut first).await.unwrap();
            assert_eq!(&first, b"HTTP/1.1 200");
            idle.push(stream);
        }
        let mut third = TcpStream::connect(address).await.unwrap();
        let text = read_all(&mut third).await;
        let body = text.split("\r\n\r\n").nth(1).unwrap_or_default();
        assert!(text.contains("503") && serde_json::from_str::<crate::api::ErrorBody>(body).is_ok(), "{text}");
        assert!(text.contains(&format!("content-length: {}", body.len())), "{text}");
        idle.clear();
        let ask = async {
            loop {
                let mut stream = TcpStream::connect(address).await.unwrap();
                let asked = stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
                if asked.is_ok() && read_all(&mut stream).await.ends_with("here") {
                    return;
                }
            }
        };
        time::timeout(Duration::from_secs(30), ask).await.expect("a place comes free");
        stop.cancel();
    }
}
