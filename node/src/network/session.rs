//! One task a peer: makes a session out of its connections, carries frames, and ends it.
//!
//! A session is one outbound stream for what we send and one inbound stream for what the peer sends, on the same
//! or on two connections (when both sides dialled at once, each may have picked another). The side that accepts a
//! stream answers with one byte, [`ACCEPTED`]; before that byte nothing is written, so no frame goes into a stream
//! that the other side has already dropped.
//!
//! When any part of a session breaks, all of it ends and every connection of the peer is closed, so that neither
//! side goes on with a gap. One case keeps a connection: when the peer opens a second stream it has begun anew
//! (it restarted, and its former connection is dead without our knowing), and the connection that carries the new
//! stream stays and becomes the next session. Another keeps some: when a direct connection stands beside a relayed one that
//! the session writes to, the session ends and the next one begins on the direct connection.

use std::{collections::HashSet, pin::Pin, sync::Arc, time::Duration};

use futures::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, future::pending, io::BufReader};
use libp2p::{Stream, swarm::ConnectionId};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{sleep, timeout},
};
use tracing::{debug, warn};

use super::{
    connection::{Connection, Heard, Listened},
    event::{DisconnectReason, NetworkEvent},
    frame,
    identity::{PeerKey, peer_id_text},
    link::{Link, Registry},
    traffic::Traffic,
};

/// The byte by which an accepted stream is acknowledged (ASCII "acknowledge").
const ACCEPTED: u8 = 0x06;

/// How long opening a stream and its acknowledgement may take. Two round trips; generous for a bad link.
const OPEN_TIMEOUT: Duration = Duration::from_secs(6);

/// How often a stream is tried on one connection before the connection is given up.
const OPEN_ATTEMPTS: u32 = 4;

/// The wait after the first failed attempt; doubled each time.
const OPEN_BACKOFF: Duration = Duration::from_millis(100);

/// How long writing the acknowledgement may take. It is one byte into an empty window.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long frames that had already arrived are still handed over, whole and in order, after the connection closed.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Frames are gathered up to this many bytes before they go to the transport; many small writes would each become
/// a Yamux frame and a Noise packet.
const WRITE_BATCH_BYTES: usize = 64 * 1024;

/// The read buffer of a stream.
const READ_BUFFER_BYTES: usize = 64 * 1024;

/// What a peer's task asks of, or tells, the swarm task. Each task has at most a few under way.
pub(super) enum Request {
    /// Open a stream on a connection; `reply` is dropped where that fails.
    Open { peer: PeerKey, connection: ConnectionId, reply: oneshot::Sender<Stream> },
    /// Close a connection.
    Close { peer: PeerKey, connection: ConnectionId },
    /// A session began to work both ways, or ended.
    Session { peer: PeerKey, up: bool },
}

/// An inbound stream and the connection that it came on.
pub(super) type Arrival = (ConnectionId, Stream);

/// The task of one peer. Ends when the peer has no connection left.
pub(super) struct PeerTask {
    pub(super) peer: PeerKey,
    /// The peer's connections, oldest first, kept current by the swarm task.
    pub(super) connections: watch::Receiver<Vec<Connection>>,
    pub(super) arrivals: mpsc::Receiver<Arrival>,
    pub(super) events: mpsc::Sender<NetworkEvent>,
    pub(super) requests: mpsc::UnboundedSender<Request>,
    pub(super) registry: Arc<Registry>,
    pub(super) outbound_frames: usize,
    pub(super) outbound_bytes: usize,
}

/// An inbound stream that has been acknowledged.
struct Accepted {
    connection: Connection,
    stream: Stream,
}

/// How a session ended, and the new inbound stream that made it end, if that was it.
struct Ending {
    reason: DisconnectReason,
    successor: Option<Arrival>,
}

impl From<DisconnectReason> for Ending {
    fn from(reason: DisconnectReason) -> Self {
        Self { reason, successor: None }
    }
}

impl PeerTask {
    /// Runs until the peer has no connection left, or the network stops.
    pub(super) async fn run(mut self) {
        // Connections that are used no more; they may be listed until the swarm has closed them.
        let mut retired = HashSet::new();
        let mut inbound = None;
        while let Some((connection, outbound)) = self.open(&mut retired, &mut inbound).await {
            let link = Arc::new(Link::new(self.outbound_frames, self.outbound_bytes));
            self.registry.insert(self.peer, link.clone(), connection.route);
            self.tell(Request::Session { peer: self.peer, up: true });
            let connected = NetworkEvent::Connected {
                peer: self.peer,
                address: connection.address.clone(),
                dialer: connection.dialer,
                route: connection.route,
            };
            let ending = if self.events.send(connected).await.is_ok() {
                self.carry(&link, &connection, outbound, inbound.take()).await
            } else {
                DisconnectReason::Stopping.into()
            };
            self.registry.remove(&self.peer);
            self.tell(Request::Session { peer: self.peer, up: false });

            let successor = ending.successor.as_ref().map(|(id, _)| *id);
            let listed: Vec<Connection> = self.connections.borrow().clone();
            retired.retain(|id| listed.iter().any(|c| c.id == *id));
            let keep = |c: &Connection| {
                // A direct connection beside a relayed session is not part of what broke.
                successor == Some(c.id) || (connection.route.is_relayed() && !c.route.is_relayed())
            };
            for c in listed.iter().filter(|c| !keep(c)) {
                self.retire(c.id, &mut retired);
            }
            debug!(peer = peer_id_text(&self.peer), reason = %ending.reason, "session ended");
            let disconnected = NetworkEvent::Disconnected { peer: self.peer, reason: ending.reason };
            if self.events.send(disconnected).await.is_err() {
                return;
            }
            if let Some(arrival) = ending.successor {
                inbound = self.accept(arrival, &retired).await;
            }
        }
    }

    /// Opens an outbound stream on the newest usable connection, accepting an inbound one meanwhile. `None` when no
    /// connection is left.
    async fn open(
        &mut self,
        retired: &mut HashSet<ConnectionId>,
        inbound: &mut Option<Accepted>,
    ) -> Option<(Connection, Stream)> {
        loop {
            let newest = {
                let listed = self.connections.borrow_and_update();
                if listed.is_empty() {
                    return None;
                }
                listed.iter().rev().find(|c| !retired.contains(&c.id)).cloned()
            };
            let Some(connection) = newest else {
                tokio::select! {
                    changed = self.connections.changed() => changed.ok()?,
                    Some(arrival) = self.arrivals.recv() => {
                        // A retired connection is being closed, its streams with it.
                        drop(arrival);
                    }
                }
                continue;
            };
            let mut wait = OPEN_BACKOFF;
            for attempt in 1..=OPEN_ATTEMPTS {
                match self.open_on(&connection, retired, inbound).await {
                    Ok(stream) => {
                        // The inbound stream may have gone with its connection in the meantime.
                        if let Some(accepted) = inbound.take() {
                            *inbound = self.listed(accepted.connection.id).map(|_| accepted);
                        }
                        return Some((connection, stream));
                    }
                    Err(error) => {
                        debug!(peer = peer_id_text(&self.peer), attempt, error, "no stream yet");
                    }
                }
                if self.listed(connection.id).is_none() {
                    break;
                }
                if attempt < OPEN_ATTEMPTS {
                    sleep(wait).await;
                    wait = wait.saturating_mul(2);
                }
            }
            self.retire(connection.id, retired);
        }
    }

    /// One attempt to open an acknowledged outbound stream on `connection`.
    async fn open_on(
        &mut self,
        connection: &Connection,
        retired: &HashSet<ConnectionId>,
        inbound: &mut Option<Accepted>,
    ) -> Result<Stream, &'static str> {
        let (reply, opened) = oneshot::channel();
        self.tell(Request::Open { peer: self.peer, connection: connection.id, reply });
        let opening = timeout(OPEN_TIMEOUT, async {
            let mut stream = opened.await.map_err(|_| "it could not be negotiated")?;
            let mut answer = [0u8; 1];
            stream.read_exact(&mut answer).await.map_err(|_| "the peer dropped it")?;
            if answer != [ACCEPTED] {
                return Err("the peer answered out of turn");
            }
            Ok(stream)
        });
        let mut opening = std::pin::pin!(opening);
        loop {
            tokio::select! {
                opened = &mut opening => return opened.unwrap_or(Err("it took too long")),
                Some(arrival) = self.arrivals.recv() => {
                    if let Some(accepted) = self.accept(arrival, retired).await {
                        *inbound = Some(accepted);
                    }
                }
            }
        }
    }

    /// Acknowledges an inbound stream, unless its connection is gone.
    async fn accept(&self, (id, mut stream): Arrival, retired: &HashSet<ConnectionId>) -> Option<Accepted> {
        if retired.contains(&id) {
            return None;
        }
        let connection = self.listed(id)?;
        acknowledge(&mut stream).await.ok()?;
        Some(Accepted { connection, stream })
    }

    /// Carries frames both ways until something ends the session.
    async fn carry(
        &mut self,
        link: &Link,
        outbound_on: &Connection,
        outbound: Stream,
        inbound: Option<Accepted>,
    ) -> Ending {
        let traffic = self.registry.traffic(self.peer);
        let mut reading_on = inbound.as_ref().map(|accepted| accepted.connection.clone());
        let mut reader: Pin<Box<dyn Future<Output = DisconnectReason> + Send>> = match inbound {
            Some(Accepted { connection, stream }) => {
                Box::pin(self.reader(stream, connection.heard, traffic.clone(), true))
            }
            None => Box::pin(pending()),
        };
        let mut writer = std::pin::pin!(write_frames(outbound, link, &traffic, &self.registry.total));
        loop {
            tokio::select! {
                error = &mut writer => {
                    if reading_on.as_ref().is_some_and(|c| c.given_up.get().is_none()) {
                        let _ = timeout(DRAIN_TIMEOUT, &mut reader).await;
                    }
                    let seen = DisconnectReason::StreamEnded(error.to_string());
                    return self.judge(seen, outbound_on, reading_on.as_ref()).into();
                }
                reason = &mut reader => return self.judge(reason, outbound_on, reading_on.as_ref()).into(),
                changed = self.connections.changed() => {
                    if changed.is_err() {
                        return DisconnectReason::Stopping.into();
                    }
                    let gone = |connection: &Connection| self.listed(connection.id).is_none();
                    if let Some(connection) = reading_on.as_ref().filter(|c| gone(c)) {
                        if connection.given_up.get().is_none() {
                            let _ = timeout(DRAIN_TIMEOUT, &mut reader).await;
                        }
                        return self.judge(DisconnectReason::ConnectionClosed, outbound_on, reading_on.as_ref()).into();
                    }
                    if gone(outbound_on) || self.is_superseded(outbound_on) {
                        return self.judge(DisconnectReason::ConnectionClosed, outbound_on, reading_on.as_ref()).into();
                    }
                }
                Some((id, stream)) = self.arrivals.recv() => {
                    let Some(connection) = self.listed(id) else { continue };
                    if reading_on.is_some() {
                        return Ending {
                            reason: DisconnectReason::Replaced,
                            successor: Some((id, stream)),
                        };
                    }
                    let heard = connection.heard.clone();
                    reading_on = Some(connection);
                    reader = Box::pin(self.reader(stream, heard, traffic.clone(), false));
                }
            }
        }
    }

    /// Whether a session that writes to `connection` should move to a direct one.
    fn is_superseded(&self, connection: &Connection) -> bool {
        connection.route.is_relayed() && self.connections.borrow().iter().any(|c| !c.route.is_relayed())
    }

    /// Why a session ended. What this node did itself comes before what its streams saw of it: a connection is closed here
    /// only after the reason was noted.
    fn judge(
        &self,
        seen: DisconnectReason,
        outbound_on: &Connection,
        reading_on: Option<&Connection>,
    ) -> DisconnectReason {
        let used = || [Some(outbound_on), reading_on].into_iter().flatten();
        if let Some(reason) = used().find_map(|c| c.given_up.get()) {
            return reason.clone();
        }
        let broke = matches!(seen, DisconnectReason::ConnectionClosed | DisconnectReason::StreamEnded(_));
        match broke {
            true if self.is_superseded(outbound_on) => DisconnectReason::Upgraded,
            true if used().any(|c| c.route.is_relayed()) => DisconnectReason::CircuitEnded,
            _ => seen,
        }
    }

    /// Reads frames into the event queue, waiting when that is full, until the stream ends.
    fn reader(
        &self,
        mut stream: Stream,
        heard: Heard,
        traffic: Arc<Traffic>,
        acknowledged: bool,
    ) -> impl Future<Output = DisconnectReason> + Send + use<> {
        let (peer, events, registry) = (self.peer, self.events.clone(), self.registry.clone());
        async move {
            if !acknowledged && let Err(error) = acknowledge(&mut stream).await {
                return DisconnectReason::StreamEnded(error.to_string());
            }
            let mut stream = BufReader::with_capacity(READ_BUFFER_BYTES, Listened { stream, heard });
            loop {
                let bytes = match frame::read(&mut stream).await {
                    Ok(Some(bytes)) => bytes,
                    Ok(None) => {
                        return DisconnectReason::StreamEnded("the peer closed it".to_owned());
                    }
                    Err(error) => {
                        let reason = DisconnectReason::from(error);
                        if matches!(reason, DisconnectReason::Misbehaved(_)) {
                            warn!(peer = peer_id_text(&peer), %reason, "closing the connection");
                        }
                        return reason;
                    }
                };
                traffic.received(bytes.len());
                registry.total.received(bytes.len());
                if events.send(NetworkEvent::Frame { peer, bytes }).await.is_err() {
                    return DisconnectReason::Stopping;
                }
            }
        }
    }

    fn listed(&self, id: ConnectionId) -> Option<Connection> {
        self.connections.borrow().iter().find(|c| c.id == id).cloned()
    }

    fn retire(&self, connection: ConnectionId, retired: &mut HashSet<ConnectionId>) {
        retired.insert(connection);
        self.tell(Request::Close { peer: self.peer, connection });
    }

    fn tell(&self, request: Request) {
        // Fails only while the network stops; then this task is about to be stopped too.
        let _ = self.requests.send(request);
    }
}

async fn acknowledge<W>(stream: &mut W) -> std::io::Result<()>
where
    W: AsyncWrite + Unpin,
{
    timeout(ACCEPT_TIMEOUT, async {
        stream.write_all(&[ACCEPTED]).await?;
        stream.flush().await
    })
    .await
    .unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
}

/// Writes queued frames until that fails, and returns how.
async fn write_frames<S>(mut stream: S, link: &Link, traffic: &Traffic, total: &Traffic) -> std::io::Error
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut buffer = Vec::new();
    loop {
        let batch = link.take(WRITE_BATCH_BYTES).await;
        buffer.clear();
        for frame in &batch {
            // The queue takes no frame without a header.
            if let Some(header) = frame::header(frame.len()) {
                buffer.extend_from_slice(&header);
                buffer.extend_from_slice(frame);
            }
        }
        let written = async {
            stream.write_all(&buffer).await?;
            stream.flush().await
        };
        if let Err(error) = written.await {
            return error;
        }
        let mut bytes = 0usize;
        for frame in &batch {
            traffic.sent(frame.len());
            total.sent(frame.len());
            bytes = bytes.saturating_add(frame.len());
        }
        link.written(bytes);
        // A single long frame must not leave a long buffer behind for the rest of the session.
        buffer.shrink_to(WRITE_BATCH_BYTES);
    }
}
