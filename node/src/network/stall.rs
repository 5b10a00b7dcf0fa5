//! A socket that fails when nothing can be written for too long.
//!
//! libp2p closes a connection in good order: it flushes before it lets go. On a link that was cut while much was
//! under way the kernel's buffer is full and that flush waits for as long as the kernel tries to send, a quarter of
//! an hour; against a peer whose kernel answers and whose process reads nothing, for ever. Each such connection
//! would keep its task and its descriptor. A live peer always reads its socket, since Yamux buffers a stream
//! within its window, so a socket that takes nothing for this long belongs to a dead or hostile one.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures::{AsyncRead, AsyncWrite};
use tokio::time::{Sleep, sleep};

/// A stream whose writes, flushes and close fail with `TimedOut` when they make no progress for `limit`.
pub(super) struct Stalling<S> {
    stream: S,
    limit: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Stalling<S> {
    pub(super) fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, waiting: None }
    }

    fn judge<T>(&mut self, progress: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if progress.is_ready() {
            self.waiting = None;
            return progress;
        }
        let limit = self.limit;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(waiting.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stalling<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stalling<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.judge(progress, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.stream).poll_flush(cx);
        self.judge(progress, cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.stream).poll_close(cx);
        self.judge(progress, cx)
    }
}

#[cfg(test)]
mod tests {
    use futures::AsyncWriteExt;
    use tokio::time::{Instant, Interval, interval};

    use super::*;

    const LIMIT: Duration = Duration::from_millis(200);

    /// Takes one byte at each tick, or nothing at all.
    struct Valve(Option<Interval>);

    impl AsyncWrite for Valve {
        fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            match &mut self.0 {
                Some(ticks) => ticks.poll_tick(cx).map(|_| Ok(bytes.len().min(1))),
                None => Poll::Pending,
            }
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            match &self.0 {
                Some(_) => Poll::Ready(Ok(())),
                None => Poll::Pending,
            }
        }

        fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.poll_flush(cx)
        }
    }

    #[tokio::test]
    async fn what_nobody_takes_fails_after_the_limit() {
        for close in [false, true] {
            let mut stream = Stalling::new(Valve(None), LIMIT);
            let begun = Instant::now();
            let ended = if close { stream.close().await } else { stream.write_all(&[0; 8]).await };
            let error = ended.expect_err("nothing is taken");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert!(begun.elapsed() >= LIMIT);
        }
    }

    #[tokio::test]
    async fn slow_progress_is_no_stall() {
        let mut stream = Stalling::new(Valve(Some(interval(LIMIT / 4))), LIMIT);
        let begun = Instant::now();
        stream.write_all(&[0; 8]).await.expect("it goes on, slowly");
        stream.flush().await.expect("it goes on");
        assert!(begun.elapsed() > LIMIT);
    }
}
