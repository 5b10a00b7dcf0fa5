//! What is known of one established connection, shared between the swarm task and the peer's task.

use std::{
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures::AsyncRead;
use libp2p::swarm::ConnectionId;
use tokio::time::Instant;

use super::event::{DisconnectReason, Route};

/// One established connection.
#[derive(Debug, Clone)]
pub(super) struct Connection {
    pub(super) id: ConnectionId,
    /// The remote address, a multiaddr without `/p2p`; of the relay where it goes through one.
    pub(super) address: String,
    /// Whether this node dialled it.
    pub(super) dialer: bool,
    pub(super) route: Route,
    pub(super) heard: Heard,
    /// Why this node has closed it. Set before it is closed, so whoever sees its streams end can tell who ended them.
    pub(super) given_up: Arc<OnceLock<DisconnectReason>>,
}

/// When something was last received on a connection. Pings and bytes of frames both count, so that a long
/// transfer over a thin link, which delays the pings behind it, is not mistaken for a dead link.
#[derive(Debug, Clone)]
pub(super) struct Heard {
    since: Instant,
    last_ms: Arc<AtomicU64>,
}

impl Heard {
    pub(super) fn now() -> Self {
        Self { since: Instant::now(), last_ms: Arc::default() }
    }

    pub(super) fn stamp(&self) {
        let ms = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(ms, Relaxed);
    }

    /// How long nothing has been heard.
    pub(super) fn silence(&self) -> Duration {
        let last = Duration::from_millis(self.last_ms.load(Relaxed));
        self.since.elapsed().saturating_sub(last)
    }
}

/// A stream that stamps `heard` whenever bytes arrive.
pub(super) struct Listened<S> {
    pub(super) stream: S,
    pub(super) heard: Heard,
}

impl<S: AsyncRead + Unpin> AsyncRead for Listened<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<std::io::Result<usize>> {
        let got = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if matches!(got, Poll::Ready(Ok(n)) if n > 0) {
            self.heard.stamp();
        }
        got
    }
}
