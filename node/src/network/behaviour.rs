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
    core::{ConnectedPoint, Endpoint, transport::PortUse, upgrade::ReadyUpgrade},
    swarm::{
        CloseConnection, ConnectionClosed, ConnectionDenied, ConnectionHandler, ConnectionHandlerEvent, ConnectionId,
        DialFailure, FromSwarm, ListenFailure, NetworkBehaviour, NotifyHandler, SubstreamProtocol, THandler,
        THandlerInEvent, THandlerOutEvent, ToSwarm,
        behaviour::ConnectionEstablished,
        handler::{ConnectionEvent, FullyNegotiatedInbound, FullyNegotiatedOutbound},
    },
};
use tokio::sync::oneshot;

use super::{
    addr::{Scope, is_relayed, scope},
    config::NetworkLimits,
    identity::{PeerKey, from_peer_id},
};

/// The one protocol id of the carrier. What is said on it is versioned inside the frames.
pub const PROTOCOL: StreamProtocol = StreamProtocol::new("/folklore/1");

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
    #[error("too many dials are under way")]
    TooManyDials,
    #[error("a session with this peer is up")]
    Redundant(PeerKey),
    #[error("a peer from elsewhere names an address of this network")]
    NotItsNetwork,
}

/// One established connection, as admission sees it.
#[derive(Debug, Clone, Copy)]
struct Standing {
    id: ConnectionId,
    /// Over what network; of the relay, where it goes through one. `None` where that is not known.
    scope: Option<Scope>,
    relayed: bool,
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
    max_connections_per_peer: usize,
    pending_inbound_limit: usize,
    pending_dials_limit: usize,
    blocked: HashSet<PeerId>,
    pending_inbound: HashSet<ConnectionId>,
    /// Dials of the swarm task, until they have an outcome.
    own_dials: HashSet<ConnectionId>,
    /// Dials of other behaviours, until they have an outcome.
    other_dials: HashSet<ConnectionId>,
    connections: HashMap<PeerId, Vec<Standing>>,
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
            max_connections_per_peer: limits.connections_per_peer,
            pending_inbound_limit: limits.pending_inbound,
            pending_dials_limit: limits.pending_dials,
            blocked: HashSet::new(),
            pending_inbound: HashSet::new(),
            own_dials: HashSet::new(),
            other_dials: HashSet::new(),
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

    /// Notes that a dial is the swarm task's own, which bounds and judges those itself.
    pub(super) fn own_dial(&mut self, connection: ConnectionId) {
        self.own_dials.insert(connection);
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
        if self.connections.get(peer).map_or(0, Vec::len) >= self.max_connections_per_peer {
            return Err(Refusal::TooManyConnections);
        }
        if !self.live.contains(peer) && self.live.len() >= places {
            return Err(Refusal::Full);
        }
        Ok(key)
    }

    fn standing(&self, peer: &PeerId) -> impl Iterator<Item = &Standing> {
        self.connections.get(peer).into_iter().flatten()
    }

    /// Whether an address that a peer gave leads into a network over which it is not connected itself.
    fn leads_inside(&self, peer: &PeerId, address: &Multiaddr) -> bool {
        let Some(wanted) = scope(address) else { return false };
        wanted != Scope::Global && !self.standing(peer).any(|c| c.scope.is_some_and(|s| s <= wanted))
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
        connection: ConnectionId,
        peer: Option<PeerId>,
        addresses: &[Multiaddr],
        _: Endpoint,
    ) -> Result<Vec<Multiaddr>, ConnectionDenied> {
        if let Some(peer) = peer {
            self.admit(&peer, self.max_peers).map_err(ConnectionDenied::new)?;
        }
        if !self.own_dials.contains(&connection) {
            // A behaviour that dials a peer it is connected with was given the addresses by that peer.
            let connected = peer.filter(|peer| self.connections.contains_key(peer));
            if connected.is_some_and(|peer| addresses.iter().any(|a| self.leads_inside(&peer, a))) {
                return Err(ConnectionDenied::new(Refusal::NotItsNetwork));
            }
            if self.other_dials.len() >= self.pending_dials_limit {
                return Err(ConnectionDenied::new(Refusal::TooManyDials));
            }
            self.other_dials.insert(connection);
        }
        Ok(Vec::new())
    }

    fn handle_established_outbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: PeerId,
        _: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        let key = self.admit(&peer, self.max_peers).map_err(ConnectionDenied::new)?;
        if !self.own_dials.contains(&connection) {
            // A direct connection beside another is a dial-back of AutoNAT: of use for a moment, and let go when quiet.
            let spare = self.standing(&peer).any(|c| !c.relayed);
            return Ok(StreamHandler { keep: !spare, ..StreamHandler::default() });
        }
        // Happens when an address is dialled without knowing who is there. When both sides dial at the same moment
        // they cannot both end up here: a session is up only after the other side took a stream on a connection
        // that it keeps.
        // A direct connection beside a relayed session is no such case: the session moves to it.
        if self.up.contains(&peer) && self.standing(&peer).any(|c| !c.relayed) {
            return Err(ConnectionDenied::new(Refusal::Redundant(key)));
        }
        Ok(StreamHandler::default())
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        match event {
            FromSwarm::ConnectionEstablished(ConnectionEstablished { peer_id, connection_id, endpoint, .. }) => {
                self.own_dials.remove(&connection_id);
                self.other_dials.remove(&connection_id);
                let (ConnectedPoint::Dialer { address, .. } | ConnectedPoint::Listener { local_addr: address, .. }) =
                    endpoint;
                // The scope of what the peer can reach too: of its own address, or of the relay's.
                let relayed = is_relayed(address);
                let seen = if relayed { address } else { endpoint.get_remote_address() };
                let standing = Standing { id: connection_id, scope: scope(seen), relayed };
                self.connections.entry(peer_id).or_default().push(standing);
                self.live.insert(peer_id);
            }
            FromSwarm::ConnectionClosed(ConnectionClosed { peer_id, connection_id, .. }) => {
                if let Some(standing) = self.connections.get_mut(&peer_id) {
                    standing.retain(|c| c.id != connection_id);
                    if standing.is_empty() {
                        self.connections.remove(&peer_id);
                    }
                }
            }
            FromSwarm::DialFailure(DialFailure { connection_id, .. }) => {
                self.own_dials.remove(&connection_id);
                self.other_dials.remove(&connection_id);
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
pub(super) struct StreamHandler {
    /// Whether the connection stays when nothing is under way on it.
    keep: bool,
    wanted: VecDeque<oneshot::Sender<Stream>>,
    arrived: VecDeque<Stream>,
}

impl Default for StreamHandler {
    fn default() -> Self {
        Self { keep: true, wanted: VecDeque::new(), arrived: VecDeque::new() }
    }
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

    /// Whether a quiet connection that is kept stays is decided above, and by the pings.
    fn connection_keep_alive(&self) -> bool {
        self.keep
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

#[cfg(test)]
mod tests {
    use super::*;

    fn connect(carrier: &mut Carrier, peer: PeerId, id: usize, address: &str) {
        let address: Multiaddr = address.parse().expect("a multiaddr");
        let endpoint = ConnectedPoint::Dialer { address, role_override: Endpoint::Dialer, port_use: PortUse::New };
        carrier.on_swarm_event(FromSwarm::ConnectionEstablished(ConnectionEstablished {
            peer_id: peer,
            connection_id: ConnectionId::new_unchecked(id),
            endpoint: &endpoint,
            failed_addresses: &[],
            other_established: 0,
        }));
    }

    /// Whether another behaviour may dial `peer` at `address`.
    fn may_dial(carrier: &mut Carrier, peer: PeerId, id: usize, address: &str) -> bool {
        let address = address.parse().expect("a multiaddr");
        let id = ConnectionId::new_unchecked(id);
        carrier.handle_pending_outbound_connection(id, Some(peer), &[address], Endpoint::Dialer).is_ok()
    }

    #[test]
    fn a_peer_from_afar_cannot_have_this_node_knock_at_doors_of_its_own_network() {
        let mut carrier = Carrier::new(&NetworkLimits::default());
        let peer = |n: u8| super::super::identity::to_peer_id(&[n; 32]);
        let relay = super::super::peer_id_text(&[9; 32]);
        connect(&mut carrier, peer(1), 1, "/ip4/8.8.8.8/tcp/1");
        connect(&mut carrier, peer(2), 2, "/ip4/192.168.1.7/tcp/1");
        connect(&mut carrier, peer(3), 3, "/ip4/127.0.0.1/tcp/1");
        connect(&mut carrier, peer(4), 4, &format!("/ip4/8.8.4.4/tcp/1/p2p/{relay}/p2p-circuit"));
        let mut id = 10;
        for (host, allowed) in [
            ("8.8.4.4", [true, true, true, true]),
            ("192.168.1.9", [false, true, true, false]),
            ("169.254.169.254", [false, true, true, false]),
            ("127.0.0.1", [false, false, true, false]),
        ] {
            for (n, allowed) in (1..).zip(allowed) {
                id += 1;
                assert_eq!(may_dial(&mut carrier, peer(n), id, &format!("/ip4/{host}/tcp/22")), allowed, "{n} {host}");
            }
        }
        // What this node was told to dial itself is not judged so.
        carrier.own_dial(ConnectionId::new_unchecked(99));
        assert!(may_dial(&mut carrier, peer(1), 99, "/ip4/127.0.0.1/tcp/22"));
    }

    #[test]
    fn dials_of_other_behaviours_are_bounded_and_their_places_come_back() {
        let mut carrier = Carrier::new(&NetworkLimits { pending_dials: 3, ..NetworkLimits::default() });
        let peer = super::super::identity::to_peer_id(&[1; 32]);
        let taken = (0..10).filter(|id| may_dial(&mut carrier, peer, *id, "/ip4/8.8.8.8/tcp/1")).count();
        assert_eq!(taken, 3);
        connect(&mut carrier, peer, 0, "/ip4/8.8.8.8/tcp/1");
        assert!(may_dial(&mut carrier, peer, 20, "/ip4/8.8.8.8/tcp/1"));
    }

    #[test]
    fn a_dial_back_beside_a_direct_connection_is_not_kept() {
        let mut carrier = Carrier::new(&NetworkLimits::default());
        let peer = super::super::identity::to_peer_id(&[1; 32]);
        let address: Multiaddr = "/ip4/8.8.8.8/tcp/1".parse().expect("a multiaddr");
        let dialled = |carrier: &mut Carrier, id: usize| {
            let id = ConnectionId::new_unchecked(id);
            let handler =
                carrier.handle_established_outbound_connection(id, peer, &address, Endpoint::Dialer, PortUse::New);
            handler.expect("it is admitted").connection_keep_alive()
        };
        assert!(dialled(&mut carrier, 1), "the first is a connection like any other");
        let relay = super::super::peer_id_text(&[9; 32]);
        connect(&mut carrier, peer, 2, &format!("/ip4/8.8.4.4/tcp/1/p2p/{relay}/p2p-circuit"));
        assert!(dialled(&mut carrier, 3), "a punched hole takes the place of the circuit");
        connect(&mut carrier, peer, 3, "/ip4/8.8.8.8/tcp/1");
        assert!(!dialled(&mut carrier, 4));
    }
}
