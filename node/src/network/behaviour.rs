//! The libp2p behaviour under the carrier: who may connect, and plain streams of our protocol on chosen connections.
//!
//! `libp2p-stream` was the first choice and fell short in three ways that matter here: it opens a stream on a
//! connection picked at random (after a crash one of two may be dead), it drops inbound streams whenever its
//! one-place channel is taken, and it keeps an entry for every connection that ever was, which a stranger can make
//! grow without end. The same holds, per peer id, for `libp2p-connection-limits`. So both jobs are done here.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    task::{Context, Poll},
};

use libp2p::{
    Multiaddr, PeerId, Stream, StreamProtocol,
    core::{Endpoint, transport::PortUse, upgrade::ReadyUpgrade},
    swarm::{
        CloseConnection, ConnectionClosed, ConnectionDenied, ConnectionHandler, ConnectionHandlerEvent, ConnectionId,
        FromSwarm, ListenFailure, NetworkBehaviour, NotifyHandler, SubstreamProtocol, THandler, THandlerInEvent,
        THandlerOutEvent, ToSwarm,
        behaviour::ConnectionEstablished,
        handler::{ConnectionEvent, FullyNegotiatedInbound, FullyNegotiatedOutbound},
    },
};
use tokio::sync::oneshot;

use super::{
    config::NetworkLimits,
    identity::{PeerKey, from_peer_id},
};

/// The one protocol id of the carrier. What is said on it is versioned inside the frames.
pub const PROTOCOL: StreamProtocol = StreamProtocol::new("/folklore/1");

/// Connections of one peer at once: two when both sides dial at the same moment, and two more for a peer that
/// restarted while its former connections are not yet known to be dead.
const MAX_CONNECTIONS_PER_PEER: usize = 4;

/// Inbound streams that wait on one connection to be picked up. A peer opens one a session.
const MAX_WAITING_STREAMS: usize = 4;

/// Why a connection is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("the peer's key is not ed25519")]
    NotEd25519,
    #[error("the peer is blocked")]
    Blocked,
    #[error("the peer has too many connections")]
    TooManyConnections,
    #[error("as many peers as allowed are connected")]
    Full,
    #[error("too many handshakes are under way")]
    TooManyHandshakes,
    #[error("a session with this peer is up")]
    Redundant(PeerKey),
}

/// An inbound stream of our protocol.
#[derive(Debug)]
pub(super) struct InboundStream {
    pub(super) peer: PeerId,
    pub(super) connection: ConnectionId,
    pub(super) stream: Stream,
}

/// Admission and streams; see the module.
pub(super) struct Carrier {
    max_peers: usize,
    max_inbound_peers: usize,
    pending_inbound_limit: usize,
    blocked: HashSet<PeerId>,
    pending_inbound: HashSet<ConnectionId>,
    connections: HashMap<PeerId, usize>,
    /// Peers that take a place: connected, or their last session is not yet wound up.
    live: HashSet<PeerId>,
    /// Peers with a session that works both ways.
    up: HashSet<PeerId>,
    actions: VecDeque<ToSwarm<InboundStream, OpenStream>>,
}

impl Carrier {
    pub(super) fn new(limits: &NetworkLimits) -> Self {
        Self {
            max_peers: limits.max_peers,
            max_inbound_peers: limits.max_inbound_peers.min(limits.max_peers),
            pending_inbound_limit: limits.pending_inbound,
            blocked: HashSet::new(),
            pending_inbound: HashSet::new(),
            connections: HashMap::new(),
            live: HashSet::new(),
            up: HashSet::new(),
            actions: VecDeque::new(),
        }
    }

    // The mutators below wake nobody: the swarm task polls the swarm again after every command.

    /// Refuses `peer` from now on, or lets it in again.
    pub(super) fn block(&mut self, peer: PeerId, block: bool) {
        if block {
            self.blocked.insert(peer);
        } else {
            self.blocked.remove(&peer);
        }
    }

    /// Closes all connections of `peer`.
    pub(super) fn close_peer(&mut self, peer: PeerId) {
        self.actions.push_back(ToSwarm::CloseConnection { peer_id: peer, connection: CloseConnection::All });
    }

    /// Asks for an outbound stream on one connection. If that comes to nothing, `reply` is dropped.
    pub(super) fn open(&mut self, peer: PeerId, connection: ConnectionId, reply: oneshot::Sender<Stream>) {
        self.actions.push_back(ToSwarm::NotifyHandler {
            peer_id: peer,
            handler: NotifyHandler::One(connection),
            event: OpenStream(reply),
        });
    }

    /// Whether a place is taken for `peer`.
    pub(super) fn set_live(&mut self, peer: PeerId, live: bool) {
        if live {
            self.live.insert(peer);
        } else {
            self.live.remove(&peer);
        }
    }

    /// Whether a session with `peer` works both ways.
    pub(super) fn set_up(&mut self, peer: PeerId, up: bool) {
        if up {
            self.up.insert(peer);
        } else {
            self.up.remove(&peer);
        }
    }

    fn admit(&self, peer: &PeerId, places: usize) -> Result<PeerKey, Refusal> {
        let key = from_peer_id(peer).ok_or(Refusal::NotEd25519)?;
        if self.blocked.contains(peer) {
            return Err(Refusal::Blocked);
        }
        if self.connections.get(peer).copied().unwrap_or(0) >= MAX_CONNECTIONS_PER_PEER {
            return Err(Refusal::TooManyConnections);
        }
        if !self.live.contains(peer) && self.live.len() >= places {
            return Err(Refusal::Full);
        }
        Ok(key)
    }
}

impl NetworkBehaviour for Carrier {
    type ConnectionHandler = StreamHandler;
    type ToSwarm = InboundStream;

    fn handle_pending_inbound_connection(
        &mut self,
        connection: ConnectionId,
        _: &Multiaddr,
        _: &Multiaddr,
    ) -> Result<(), ConnectionDenied> {
        if self.pending_inbound.len() >= self.pending_inbound_limit {
            return Err(ConnectionDenied::new(Refusal::TooManyHandshakes));
        }
        self.pending_inbound.insert(connection);
        Ok(())
    }

    fn handle_established_inbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: PeerId,
        _: &Multiaddr,
        _: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.pending_inbound.remove(&connection);
        self.admit(&peer, self.max_inbound_peers).map_err(ConnectionDenied::new)?;
        Ok(StreamHandler::default())
    }

    fn handle_pending_outbound_connection(
        &mut self,
        _: ConnectionId,
        peer: Option<PeerId>,
        _: &[Multiaddr],
        _: Endpoint,
    ) -> Result<Vec<Multiaddr>, ConnectionDenied> {
        if let Some(peer) = peer {
            self.admit(&peer, self.max_peers).map_err(ConnectionDenied::new)?;
        }
        Ok(Vec::new())
    }

    fn handle_established_outbound_connection(
        &mut self,
        _: ConnectionId,
        peer: PeerId,
        _: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        let key = self.admit(&peer, self.max_peers).map_err(ConnectionDenied::new)?;
        // Happens when an address is dialled without knowing who is there. When both sides dial at the same moment
        // they cannot both end up here: a session is up only after the other side took a stream on a connection
        // that it keeps.
        if self.up.contains(&peer) {
            return Err(ConnectionDenied::new(Refusal::Redundant(key)));
        }
        Ok(StreamHandler::default())
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        match event {
            FromSwarm::ConnectionEstablished(ConnectionEstablished { peer_id, .. }) => {
                *self.connections.entry(peer_id).or_default() += 1;
                self.live.insert(peer_id);
            }
            FromSwarm::ConnectionClosed(ConnectionClosed { peer_id, .. }) => {
                if let Some(count) = self.connections.get_mut(&peer_id) {
                    *count = count.saturating_sub(1);
                    if *count == 0 {
                        self.connections.remove(&peer_id);
                    }
                }
            }
            FromSwarm::ListenFailure(ListenFailure { connection_id, .. }) => {
                self.pending_inbound.remove(&connection_id);
            }
            _ => {}
        }
    }

    fn on_connection_handler_event(&mut self, peer: PeerId, connection: ConnectionId, stream: THandlerOutEvent<Self>) {
        self.actions.push_back(ToSwarm::GenerateEvent(InboundStream { peer, connection, stream }));
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<Self::ToSwarm, THandlerInEvent<Self>>> {
        match self.actions.pop_front() {
            Some(action) => Poll::Ready(action),
            None => Poll::Pending,
        }
    }
}

/// The wish for an outbound stream, with the place to put it.
#[derive(Debug)]
pub(super) struct OpenStream(oneshot::Sender<Stream>);

/// Negotiates streams of our protocol on one connection and hands them over.
#[derive(Default)]
pub(super) struct StreamHandler {
    wanted: VecDeque<oneshot::Sender<Stream>>,
    arrived: VecDeque<Stream>,
}

impl ConnectionHandler for StreamHandler {
    type FromBehaviour = OpenStream;
    type ToBehaviour = Stream;
    type InboundProtocol = ReadyUpgrade<StreamProtocol>;
    type OutboundProtocol = ReadyUpgrade<StreamProtocol>;
    type InboundOpenInfo = ();
    type OutboundOpenInfo = oneshot::Sender<Stream>;

    fn listen_protocol(&self) -> SubstreamProtocol<Self::InboundProtocol> {
        SubstreamProtocol::new(ReadyUpgrade::new(PROTOCOL), ())
    }

    /// Whether a quiet connection stays is decided above, and by the pings.
    fn connection_keep_alive(&self) -> bool {
        true
    }

    fn poll(
        &mut self,
        _: &mut Context<'_>,
    ) -> Poll<ConnectionHandlerEvent<Self::OutboundProtocol, Self::OutboundOpenInfo, Self::ToBehaviour>> {
        if let Some(stream) = self.arrived.pop_front() {
            return Poll::Ready(ConnectionHandlerEvent::NotifyBehaviour(stream));
        }
        if let Some(reply) = self.wanted.pop_front() {
            return Poll::Ready(ConnectionHandlerEvent::OutboundSubstreamRequest {
                protocol: SubstreamProtocol::new(ReadyUpgrade::new(PROTOCOL), reply),
            });
        }
        Poll::Pending
    }

    fn on_behaviour_event(&mut self, OpenStream(reply): OpenStream) {
        self.wanted.push_back(reply);
    }

    fn on_connection_event(
        &mut self,
        event: ConnectionEvent<
            '_,
            Self::InboundProtocol,
            Self::OutboundProtocol,
            Self::InboundOpenInfo,
            Self::OutboundOpenInfo,
        >,
    ) {
        match event {
            ConnectionEvent::FullyNegotiatedInbound(FullyNegotiatedInbound { protocol: stream, .. })
                if self.arrived.len() < MAX_WAITING_STREAMS =>
            {
                self.arrived.push_back(stream)
            }
            ConnectionEvent::FullyNegotiatedOutbound(FullyNegotiatedOutbound { protocol: stream, info: reply }) => {
                // The asker may have given up; then the stream is dropped, which tells the peer.
                let _ = reply.send(stream);
            }
            // An inbound stream beyond the bound is dropped, and the peer tries again. A failed outbound upgrade drops
            // its `reply`, and so tells the asker.
            _ => {}
        }
    }
}
