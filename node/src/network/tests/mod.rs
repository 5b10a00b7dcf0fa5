//! Tests of the whole carrier over real sockets on loopback. They wait for what they want to see, with an upper
//! bound; no test takes a pause to be long enough.

mod exchange;
mod finding;
mod hostile;
mod links;
mod relays;
mod stopping;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::{DialTarget, Network, NetworkConfig, NetworkEvent, NetworkHandle, PeerKey, SendError};

/// The upper bound of every wait. Only a failing test, or a very busy machine, comes near it.
const PATIENCE: Duration = Duration::from_secs(40);

/// A network with its events in the hand of a test.
struct Node {
    network: Network,
    /// Its first listening address.
    address: String,
}

impl Node {
    async fn start(seed: u8) -> Self {
        Self::start_with(seed, |_| {}).await
    }

    /// Starts a network on a free loopback port and waits until it listens.
    async fn start_with(seed: u8, change: impl FnOnce(&mut NetworkConfig)) -> Self {
        let mut config = NetworkConfig::new([seed; 32]);
        config.listen = vec!["127.0.0.1:0".to_owned()];
        change(&mut config);
        let network = Network::start(config).expect("the configuration is sound");
        let mut node = Self { network, address: String::new() };
        node.address = node
            .wait("listening", |event| match event {
                NetworkEvent::Listening { address } => Some(address),
                NetworkEvent::ListenFailed { error, .. } => panic!("cannot listen: {error}"),
                _ => None,
            })
            .await;
        node
    }

    /// Starts a network that listens nowhere.
    async fn hidden(seed: u8, change: impl FnOnce(&mut NetworkConfig)) -> Self {
        let mut config = NetworkConfig::new([seed; 32]);
        change(&mut config);
        Self { network: Network::start(config).expect("the configuration is sound"), address: String::new() }
    }

    fn handle(&self) -> &NetworkHandle {
        &self.network.handle
    }

    fn key(&self) -> PeerKey {
        self.handle().local_peer()
    }

    fn socket(&self) -> SocketAddr {
        let mut parts = self.address.split('/');
        let ip = parts.nth(2).expect("/ip4/…");
        let port = parts.nth(1).expect("/tcp/…");
        format!("{ip}:{port}").parse().expect("a socket address")
    }

    fn target(&self) -> DialTarget {
        DialTarget { peer: Some(self.key()), addresses: vec![self.address.clone()] }
    }

    /// The next event that is not a mere hint.
    async fn next(&mut self) -> NetworkEvent {
        loop {
            let event = timeout(PATIENCE, self.network.events.recv())
                .await
                .expect("an event comes in time")
                .expect("the network runs");
            match event {
                NetworkEvent::Identified { .. } | NetworkEvent::Discovered { .. } | NetworkEvent::Found { .. } => {}
                event => return event,
            }
        }
    }

    /// Passes over events until `wanted` picks one.
    async fn wait<T>(&mut self, what: &str, mut wanted: impl FnMut(NetworkEvent) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let event = tokio::time::timeout_at(deadline, self.network.events.recv())
                .await
                .unwrap_or_else(|_| panic!("waited too long for: {what}"))
                .unwrap_or_else(|| panic!("the network stopped before: {what}"));
            if let Some(found) = wanted(event) {
                return found;
            }
        }
    }

    /// The next real event must be the beginning of a session with `peer`.
    async fn connected(&mut self, peer: PeerKey) -> bool {
        match self.next().await {
            NetworkEvent::Connected { peer: who, dialer, .. } if who == peer => dialer,
            other => panic!("expected a session, got {other:?}"),
        }
    }

    async fn disconnected(&mut self, peer: PeerKey) -> super::DisconnectReason {
        match self.next().await {
            NetworkEvent::Disconnected { peer: who, reason } if who == peer => reason,
            other => panic!("expected the end of a session, got {other:?}"),
        }
    }

    /// The next real event must be a frame of `peer`.
    async fn frame(&mut self, peer: PeerKey) -> Vec<u8> {
        match self.next().await {
            NetworkEvent::Frame { peer: who, bytes } if who == peer => bytes,
            other => panic!("expected a frame, got {other:?}"),
        }
    }

    async fn dial_failed(&mut self) -> super::DialError {
        match self.next().await {
            NetworkEvent::DialFailed { error, .. } => error,
            other => panic!("expected a failed dial, got {other:?}"),
        }
    }

    /// Lets `self` dial `other` and waits until both have a session.
    async fn join(&mut self, other: &mut Node) {
        self.handle().dial(other.target()).expect("a sound target");
        let (mine, theirs) = (self.key(), other.key());
        tokio::join!(self.connected(theirs), other.connected(mine));
    }

    async fn stop(self) {
        self.network.handle.shutdown().await;
    }
}

/// Sends a frame, waiting while the queue is full.
async fn send_all(handle: NetworkHandle, peer: PeerKey, frames: impl Iterator<Item = Vec<u8>>) {
    for frame in frames {
        let deadline = Instant::now() + PATIENCE;
        while let Err(error) = handle.send(peer, frame.clone()) {
            assert_eq!(error, SendError::Full);
            assert!(Instant::now() < deadline, "the queue stays full");
            sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Frame `n` of a test: its number, then filling of a size that varies up to about 3 KiB.
fn numbered(n: u32) -> Vec<u8> {
    let mut frame = n.to_le_bytes().to_vec();
    frame.resize(4 + (n as usize * 37) % 3000, n.to_le_bytes()[0]);
    frame
}

/// Waits until `holds`.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited too long for: {what}");
        sleep(Duration::from_millis(2)).await;
    }
}

/// A link between two nodes that can be cut without either noticing at once: a TCP relay that, when frozen,
/// forwards nothing more and closes nothing.
struct Relay {
    address: String,
    frozen: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Relay {
    async fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let frozen = Arc::new(AtomicBool::new(false));
        let stop = frozen.clone();
        let task = tokio::spawn(async move {
            let mut pumps = tokio::task::JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                let Ok(far) = TcpStream::connect(target).await else {
                    continue;
                };
                let (near_read, near_write) = near.into_split();
                let (far_read, far_write) = far.into_split();
                pumps.spawn(pump(near_read, far_write, stop.clone()));
                pumps.spawn(pump(far_read, near_write, stop.clone()));
            }
        });
        Self { address, frozen, task }
    }

    fn freeze(&self) {
        self.frozen.store(true, Ordering::SeqCst);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pump(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    frozen: Arc<AtomicBool>,
) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(read) = from.read(&mut buffer).await {
        if frozen.load(Ordering::SeqCst) {
            // Holds both sockets open, silent, until the relay is dropped.
            std::future::pending::<()>().await;
        }
        if read == 0 || to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
