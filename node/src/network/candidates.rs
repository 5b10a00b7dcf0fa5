//! A bound on how many addresses this node is said to have.
//!
//! Every peer tells at which address it sees this node, and each address becomes a candidate to be tested. AutoNAT's client
//! keeps every candidate it ever heard of, so that strangers could fill its table without end, and push the true one far
//! down. Here only so many reach it.

use std::{
    collections::HashSet,
    task::{Context, Poll},
};

use libp2p::{
    Multiaddr, PeerId,
    core::{Endpoint, transport::PortUse},
    swarm::{
        ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, NewExternalAddrCandidate, THandler,
        THandlerInEvent, THandlerOutEvent, ToSwarm,
    },
};

/// Candidates that are looked at while this node runs. A host has a few interfaces and transports, and a laptop that travels
/// sees a few more networks.
const MAX_CANDIDATES: usize = 128;

/// Lets at most [`MAX_CANDIDATES`] different candidates through to a behaviour.
pub(super) struct Capped<B> {
    inner: B,
    seen: HashSet<Multiaddr>,
}

impl<B> Capped<B> {
    pub(super) fn new(inner: B) -> Self {
        Self { inner, seen: HashSet::new() }
    }

    fn takes(&mut self, address: &Multiaddr) -> bool {
        self.seen.contains(address) || (self.seen.len() < MAX_CANDIDATES && self.seen.insert(address.clone()))
    }
}

impl<B: NetworkBehaviour> NetworkBehaviour for Capped<B> {
    type ConnectionHandler = B::ConnectionHandler;
    type ToSwarm = B::ToSwarm;

    fn handle_pending_inbound_connection(
        &mut self,
        connection: ConnectionId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<(), ConnectionDenied> {
        self.inner.handle_pending_inbound_connection(connection, local, remote)
    }

    fn handle_established_inbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: PeerId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.inner.handle_established_inbound_connection(connection, peer, local, remote)
    }

    fn handle_pending_outbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: Option<PeerId>,
        addresses: &[Multiaddr],
        role: Endpoint,
    ) -> Result<Vec<Multiaddr>, ConnectionDenied> {
        self.inner.handle_pending_outbound_connection(connection, peer, addresses, role)
    }

    fn handle_established_outbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: PeerId,
        address: &Multiaddr,
        role: Endpoint,
        port_use: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.inner.handle_established_outbound_connection(connection, peer, address, role, port_use)
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        if let FromSwarm::NewExternalAddrCandidate(NewExternalAddrCandidate { addr, .. }) = &event
            && !self.takes(addr)
        {
            return;
        }
        self.inner.on_swarm_event(event);
    }

    fn on_connection_handler_event(&mut self, peer: PeerId, connection: ConnectionId, event: THandlerOutEvent<Self>) {
        self.inner.on_connection_handler_event(peer, connection, event);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ToSwarm<Self::ToSwarm, THandlerInEvent<Self>>> {
        self.inner.poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_strangers_say_of_this_nodes_address_is_bounded() {
        let mut capped = Capped::new(libp2p::swarm::dummy::Behaviour);
        let address = |n: usize| format!("/ip4/192.0.2.1/tcp/{}", n + 1).parse::<Multiaddr>().expect("a multiaddr");
        let taken = (0..10 * MAX_CANDIDATES).filter(|n| capped.takes(&address(*n))).count();
        assert_eq!(taken, MAX_CANDIDATES);
        assert!(capped.takes(&address(0)), "a known one goes on counting");
    }
}
