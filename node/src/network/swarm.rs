//! The swarm task: drives libp2p, keeps the table of peers, and never waits for anybody.
//!
//! Frames do not pass through here. Streams are handed to the peers' tasks, and what this task itself has to tell
//! goes through a small outbox into the event queue as soon as that has room.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use folklore_protocol::SILENCE_CHECK_MS;
use futures::StreamExt;
use libp2p::{
    Multiaddr, PeerId, Swarm,
    core::{ConnectedPoint, transport::ListenerId},
    identify, mdns,
    memory_connection_limits::MemoryUsageLimitExceeded,
    metrics::{Metrics, Recorder},
    ping,
    swarm::{ConnectionDenied, ConnectionId, DialError as SwarmDialError, ListenError, SwarmEvent},
};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc, watch},
    task::{Id, JoinError, JoinSet},
    time::{Instant, MissedTickBehavior, interval, timeout, timeout_at},
};
use tracing::{debug, info, warn};

use super::{
    addr::{Address, AddressError, Scope, dialable, is_relayed, scope, without_peer},
    behaviour::{InboundStream, Refusal},
    config::{NetworkConfig, NetworkLimits},
    connection::{Connection, Heard},
    dht::{Dht, DhtKey},
    dial::{Attempt, transport_error_text},
    event::{DialError, DialTarget, DisconnectReason, NetworkEvent, StartError},
    identity::{PeerKey, from_peer_id, peer_id_text, to_peer_id},
    link::Registry,
    reach::{Relays, Serving},
    session::{Arrival, PeerTask, Request},
    transport::{Behaviour, BehaviourEvent, build_swarm},
};

/// Events of the swarm task that may wait for room in the event queue before hints (discovered, identified) are
/// left out. Other events are few: dials are bounded, and addresses to listen on come from the configuration.
const OUTBOX_HINTS: usize = 256;

/// Inbound streams that may wait for a peer's task. A peer opens one a session.
const ARRIVALS: usize = 4;

/// How long a shutdown waits for a reader to take the last events.
const LAST_EVENTS_TIMEOUT: Duration = Duration::from_millis(500);

/// How long a shutdown waits for connections to be closed in good order.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(1);

/// What the handles ask for.
pub(super) enum Command {
    Dial { target: DialTarget, addresses: Vec<Address>, expected: Option<PeerKey>, permit: OwnedSemaphorePermit },
    Close(PeerKey),
    Block(PeerKey, bool),
    Publish(Vec<DhtKey>),
    Shutdown,
}

/// What is kept of a peer while it has a connection, or a task that is winding up.
pub(super) struct Peer {
    connections: watch::Sender<Vec<Connection>>,
    arrivals: mpsc::Sender<Arrival>,
    session_up: bool,
    /// Dials that have connected and wait for the session.
    dials: Vec<Attempt>,
}

/// The state of the swarm task.
pub(super) struct Driver {
    pub(super) swarm: Swarm<Behaviour>,
    limits: NetworkLimits,
    dead_after: Duration,
    events: mpsc::Sender<NetworkEvent>,
    /// A place among the pending dials is given back when the outcome has been handed over, not before.
    outbox: VecDeque<(NetworkEvent, Option<OwnedSemaphorePermit>)>,
    commands: mpsc::UnboundedReceiver<Command>,
    request_sender: mpsc::UnboundedSender<Request>,
    requests: mpsc::UnboundedReceiver<Request>,
    pub(super) registry: Arc<Registry>,
    pub(super) peers: HashMap<PeerKey, Peer>,
    tasks: JoinSet<()>,
    task_peers: HashMap<Id, PeerKey>,
    lookups: JoinSet<Lookup>,
    attempts: HashMap<ConnectionId, Attempt>,
    listeners: HashMap<ListenerId, String>,
    pub(super) listening: Vec<Multiaddr>,
    pub(super) relays: Relays,
    pub(super) dht: Dht,
    /// Whether what is listened on is offered as the address of circuits: for a relay that was told of no other.
    offers_listening: bool,
    /// Addresses dialled from the port that is listened on.
    via: Vec<String>,
    metrics: Option<Arc<Metrics>>,
}

/// A finished look-up of names, off the swarm task.
enum Lookup {
    Dial(Attempt),
    Listen { text: String, found: Result<Vec<Multiaddr>, AddressError> },
}

impl Driver {
    pub(super) fn new(
        config: &NetworkConfig,
        listen: Vec<(String, Address)>,
        events: mpsc::Sender<NetworkEvent>,
        commands: mpsc::UnboundedReceiver<Command>,
        registry: Arc<Registry>,
    ) -> Result<Self, StartError> {
        let mut swarm = build_swarm(config, &registry)?;
        for text in &config.announce {
            swarm.add_external_address(Address::parse(text)?.multiaddr_without_peer());
        }
        let (request_sender, requests) = mpsc::unbounded_channel();
        let mut lookups = JoinSet::new();
        for (text, address) in listen {
            lookups.spawn(async move { Lookup::Listen { found: address.resolve().await, text } });
        }
        let relays = Relays::new(config.use_relays && config.relay.is_none() && config.announce.is_empty());
        registry.change_reach(|reach| {
            reach.external = config.announce.clone();
            reach.serving = config.relay.as_ref().map(|_| Serving::default());
        });
        let via = config.via.iter().filter_map(|text| Some(Address::parse(text).ok()?.to_text())).collect();
        Ok(Self {
            swarm,
            limits: config.limits.clone(),
            dead_after: config.ping_interval.saturating_add(config.ping_timeout),
            events,
            outbox: VecDeque::new(),
            commands,
            request_sender,
            requests,
            registry,
            peers: HashMap::new(),
            tasks: JoinSet::new(),
            task_peers: HashMap::new(),
            lookups,
            attempts: HashMap::new(),
            listeners: HashMap::new(),
            listening: Vec::new(),
            relays,
            dht: Dht::new(config.dht, config.dht_interval),
            offers_listening: config.relay.is_some() && config.announce.is_empty(),
            via,
            metrics: config.metrics.clone(),
        })
    }

    /// Runs until told to stop, until every handle is gone, or until nobody reads the events any more.
    pub(super) async fn run(mut self) {
        let events = self.events.clone();
        // A fraction, so that a dead link is noticed soon after its time is up.
        let every = (self.dead_after / 20).clamp(Duration::from_millis(20), Duration::from_millis(SILENCE_CHECK_MS));
        let mut tick = interval(every);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                event = self.swarm.select_next_some() => self.on_swarm_event(event),
                command = self.commands.recv() => match command {
                    None | Some(Command::Shutdown) => break,
                    Some(command) => self.on_command(command),
                },
                Some(request) = self.requests.recv() => self.on_request(request),
                permit = events.reserve(), if !self.outbox.is_empty() => match permit {
                    Ok(permit) => if let Some((event, _place)) = self.outbox.pop_front() {
                        permit.send(event);
                    },
                    Err(_) => break,
                },
                () = events.closed() => break,
                Some(ended) = self.tasks.join_next_with_id() => self.on_task_ended(ended),
                Some(found) = self.lookups.join_next() => self.on_lookup(found),
                _ = tick.tick() => {
                    self.close_silent();
                    self.take_places();
                    self.tick_dht();
                }
            }
        }
        self.wind_down().await;
    }

    /// Ends every task and closes every connection, in good order where the peers answer in time.
    async fn wind_down(mut self) {
        // Tells the peers' tasks that it is over. Those that cannot hand over their last event are stopped.
        self.peers.clear();
        let ending = async { while self.tasks.join_next().await.is_some() {} };
        let _ = timeout(LAST_EVENTS_TIMEOUT, ending).await;
        self.tasks.shutdown().await;
        self.lookups.shutdown().await;
        for listener in self.listeners.keys() {
            self.swarm.remove_listener(*listener);
        }
        let connected: Vec<PeerId> = self.swarm.connected_peers().copied().collect();
        for peer in connected {
            let _ = self.swarm.disconnect_peer_id(peer);
        }
        let deadline = Instant::now() + GOODBYE_TIMEOUT;
        while self.swarm.connected_peers().next().is_some() {
            if timeout_at(deadline, self.swarm.select_next_some()).await.is_err() {
                break;
            }
        }
        for peer in self.registry.connected() {
            self.registry.remove(&peer);
        }
        self.registry.set_listening(Vec::new());
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Dial { target, addresses, expected, permit } => {
                self.lookups
                    .spawn(async move { Lookup::Dial(Attempt::resolve(target, addresses, expected, permit).await) });
            }
            Command::Close(peer) => self.close_all(&peer),
            Command::Publish(keys) => self.publish(keys),
            Command::Block(peer, block) => {
                self.swarm.behaviour_mut().carrier.block(to_peer_id(&peer), block);
                if block {
                    self.close_all(&peer);
                }
            }
            Command::Shutdown => {}
        }
    }

    fn on_request(&mut self, request: Request) {
        match request {
            Request::Open { peer, connection, reply } => {
                self.swarm.behaviour_mut().carrier.open(to_peer_id(&peer), connection, reply)
            }
            // The session has ended and said why.
            Request::Close { peer, connection } => self.close(&peer, connection, None),
            Request::Session { peer, up } => {
                self.swarm.behaviour_mut().carrier.set_up(to_peer_id(&peer), up);
                if let Some(entry) = self.peers.get_mut(&peer) {
                    entry.session_up = up;
                    if up {
                        entry.dials.clear();
                    }
                }
            }
        }
    }

    fn on_lookup(&mut self, found: Result<Lookup, JoinError>) {
        match found {
            Ok(Lookup::Dial(attempt)) => self.dial(attempt),
            Ok(Lookup::Listen { text, found }) => match found {
                Ok(addresses) => {
                    for address in addresses {
                        self.listen(text.clone(), address);
                    }
                }
                Err(error) => self.listen_failed(text, error.to_string()),
            },
            Err(error) => warn!(%error, "a name look-up broke"),
        }
    }

    fn listen(&mut self, text: String, address: Multiaddr) {
        match self.swarm.listen_on(address) {
            Ok(id) => {
                self.listeners.insert(id, text);
            }
            Err(error) => self.listen_failed(text, transport_error_text(&error)),
        }
    }

    fn listen_failed(&mut self, address: String, error: String) {
        warn!(address, error, "cannot listen");
        self.outbox.push_back((NetworkEvent::ListenFailed { address, error }, None));
    }

    /// Makes the next dial of an attempt, or tells that it came to nothing.
    fn dial(&mut self, mut attempt: Attempt) {
        if let Some(peer) = attempt.expected() {
            // Judged here and not by libp2p, for which a dead connection counts until it is closed in full.
            let connected = self.peers.get(&peer).is_some_and(|entry| !entry.connections.borrow().is_empty());
            if connected {
                attempt.refuse(DialError::AlreadyConnected(peer));
            } else if self.attempts.values().any(|other| other.expected() == Some(peer)) {
                attempt.refuse(DialError::AlreadyDialing);
            }
        }
        let from_listening = attempt.target.addresses.iter().any(|a| self.is_via(a));
        while let Some(options) = attempt.next(from_listening) {
            let id = options.connection_id();
            self.swarm.behaviour_mut().carrier.own_dial(id);
            match self.swarm.dial(options) {
                Ok(()) => {
                    self.attempts.insert(id, attempt);
                    return;
                }
                Err(error) => {
                    self.note_dial_error(&error);
                    attempt.failed(error, |address| self.registry.was_half_met(address));
                }
            }
        }
        let (target, error, permit) = attempt.give_up();
        self.outbox.push_back((NetworkEvent::DialFailed { target, error }, Some(permit)));
    }

    fn is_via(&self, address: &str) -> bool {
        Address::parse(address).is_ok_and(|address| self.via.contains(&address.to_text()))
    }

    /// Counts a dial that a bound forbade.
    fn note_dial_error(&self, error: &SwarmDialError) {
        if let SwarmDialError::Denied { cause } = error {
            self.note_denial(cause);
        }
    }

    fn note_denial(&self, cause: &ConnectionDenied) {
        let hits = &self.registry.hits;
        if let Some(refusal) = cause.downcast_ref::<Refusal>() {
            hits.refused(*refusal);
        } else if cause.downcast_ref::<MemoryUsageLimitExceeded>().is_some() {
            hits.memory.fetch_add(1, Relaxed);
        }
    }

    /// Closes one connection. For the peer's task it is gone at once, whatever the transport still does to close it. The
    /// reason is there before anything ends, so that it is the one that is told.
    fn close(&mut self, key: &PeerKey, id: ConnectionId, reason: Option<DisconnectReason>) {
        if let Some(entry) = self.peers.get(key) {
            entry.connections.send_modify(|list| {
                list.retain(|connection| {
                    if connection.id == id {
                        // Closed twice: the first reason stays.
                        let _ = connection.given_up.set(reason.clone().unwrap_or(DisconnectReason::ConnectionClosed));
                    }
                    connection.id != id
                });
            });
        }
        self.swarm.close_connection(id);
    }

    /// Closes all connections of a peer.
    fn close_all(&mut self, key: &PeerKey) {
        let ids: Vec<ConnectionId> = self
            .peers
            .get(key)
            .map(|entry| entry.connections.borrow().iter().map(|c| c.id).collect())
            .unwrap_or_default();
        for id in ids {
            self.close(key, id, Some(DisconnectReason::ClosedHere));
        }
        // Also those that have just come about and are not in the table yet.
        self.swarm.behaviour_mut().carrier.close_peer(to_peer_id(key));
    }

    fn on_behaviour_event(&mut self, event: BehaviourEvent) {
        match event {
            BehaviourEvent::Carrier(stream) => self.on_stream(stream),
            BehaviourEvent::Ping(ping) => self.on_ping(ping),
            BehaviourEvent::Identify(event) => self.on_identify(event),
            BehaviourEvent::Mdns(event) => self.on_mdns(event),
            BehaviourEvent::Relay(event) => self.on_relay(event),
            BehaviourEvent::Circuits(event) => self.on_circuit(event),
            BehaviourEvent::Punching(event) => debug!(?event, "hole punching"),
            BehaviourEvent::Nat(event) => self.on_nat(event),
            BehaviourEvent::DialBack(event) => debug!(?event, "dialled somebody back"),
            BehaviourEvent::Dht(event) => self.on_dht(event),
        }
    }

    fn on_identify(&mut self, event: identify::Event) {
        let identify::Event::Received { peer_id, connection_id, info } = event else { return };
        let Some(peer) = from_peer_id(&peer_id) else { return };
        let Some(connection) = self.connection(&peer, connection_id) else { return };
        let address: Option<Multiaddr> = connection.address.parse().ok();
        let near = address.as_ref().and_then(scope);
        let dialled = address.filter(|_| connection.dialer && !connection.route.is_relayed());
        self.try_directly(peer, &connection, &info.listen_addrs, near);
        self.meet_relay(peer, &info, dialled);
        self.meet_dht_node(peer, &info, near);
        let listen_addresses = dialable(info.listen_addrs.iter());
        self.hint(NetworkEvent::Identified { peer, address: connection.address, listen_addresses });
    }

    fn on_swarm_event(&mut self, event: SwarmEvent<BehaviourEvent>) {
        self.record(&event);
        match event {
            SwarmEvent::Behaviour(event) => self.on_behaviour_event(event),
            SwarmEvent::ConnectionEstablished { peer_id, connection_id, endpoint, .. } => {
                self.on_established(peer_id, connection_id, &endpoint)
            }
            SwarmEvent::ConnectionClosed { peer_id, connection_id, cause, .. } => {
                debug!(%peer_id, %connection_id, ?cause, "connection closed");
                if let Some(entry) = from_peer_id(&peer_id).and_then(|key| self.peers.get(&key)) {
                    entry.connections.send_modify(|list| list.retain(|c| c.id != connection_id));
                }
            }
            SwarmEvent::OutgoingConnectionError { connection_id, error, .. } => {
                self.note_dial_error(&error);
                if let Some(mut attempt) = self.attempts.remove(&connection_id) {
                    attempt.failed(error, |address| self.registry.was_half_met(address));
                    self.dial(attempt);
                }
            }
            SwarmEvent::IncomingConnectionError { send_back_addr, error, .. } => {
                debug!(%send_back_addr, %error, "an inbound connection was refused or broke off");
                match &error {
                    ListenError::Denied { cause } => self.note_denial(cause),
                    _ => {
                        self.registry.hits.failed_handshakes.fetch_add(1, Relaxed);
                    }
                }
            }
            SwarmEvent::NewListenAddr { address, listener_id } => self.on_listening(listener_id, &address),
            SwarmEvent::ExpiredListenAddr { address, .. } => {
                let address = without_peer(&address);
                self.listening.retain(|a| *a != address);
                self.publish_listening();
            }
            SwarmEvent::ListenerClosed { listener_id, addresses, reason } => {
                let addresses: Vec<Multiaddr> = addresses.iter().map(without_peer).collect();
                self.listening.retain(|a| !addresses.contains(a));
                self.publish_listening();
                let error = match reason {
                    Ok(()) => "the listener closed".to_owned(),
                    Err(error) => error.to_string(),
                };
                if self.relays.holds(&listener_id) {
                    self.lost_place(&listener_id, &error);
                } else if let Some(text) = self.listeners.remove(&listener_id) {
                    self.listen_failed(text, error);
                }
            }
            SwarmEvent::ExternalAddrConfirmed { .. } | SwarmEvent::ExternalAddrExpired { .. } => {
                self.publish_reach();
                self.settle_dht_mode();
            }
            SwarmEvent::ListenerError { error, .. } => warn!(%error, "a listener reports an error"),
            _ => {}
        }
    }

    fn on_listening(&mut self, listener: ListenerId, address: &Multiaddr) {
        let address = without_peer(address);
        info!(%address, "listening");
        if !self.listening.contains(&address) {
            self.listening.push(address.clone());
        }
        self.publish_listening();
        if is_relayed(&address) {
            return; // No address of the configuration.
        }
        // A circuit's address begins with one of the relay's. Loopback is of use only where nothing else was asked for.
        let asked = self.listeners.get(&listener).and_then(|text| Address::parse(text).ok());
        let exactly = asked.is_some_and(|asked| asked.has_host_of(&address));
        if self.offers_listening && (exactly || scope(&address) != Some(Scope::Loopback)) {
            self.swarm.add_external_address(address.clone());
        }
        self.settle_dht_mode();
        self.outbox.push_back((NetworkEvent::Listening { address: address.to_string() }, None));
    }

    /// A connection that stands.
    fn connection(&self, peer: &PeerKey, connection: ConnectionId) -> Option<Connection> {
        self.peers.get(peer)?.connections.borrow().iter().find(|c| c.id == connection).cloned()
    }

    fn on_established(&mut self, id: PeerId, connection: ConnectionId, endpoint: &ConnectedPoint) {
        // The behaviour admits ed25519 keys only.
        let Some(key) = from_peer_id(&id) else { return };
        let address = match endpoint {
            ConnectedPoint::Dialer { address, .. } => address,
            // Of one who came through a relay only its name is known; what tells more is through which.
            ConnectedPoint::Listener { local_addr, .. } if is_relayed(local_addr) => local_addr,
            ConnectedPoint::Listener { send_back_addr, .. } => send_back_addr,
        };
        let attempt = self.attempts.remove(&connection);
        self.registry.was_half_met(address);
        let standing = |entry: &Peer| entry.connections.borrow().iter().any(|c| c.route.is_relayed());
        let punched = attempt.is_none() && self.peers.get(&key).is_some_and(standing);
        let connection = Connection {
            id: connection,
            address: without_peer(address).to_string(),
            dialer: endpoint.is_dialer(),
            route: self.route_of(&key, address, endpoint.is_dialer(), punched),
            heard: Heard::now(),
            given_up: Arc::default(),
        };
        debug!(peer = %id, address = connection.address, dialer = connection.dialer, "connection established");
        self.swarm.behaviour_mut().carrier.set_live(id, true);
        match self.peers.entry(key) {
            Entry::Occupied(entry) => {
                let peer = entry.into_mut();
                peer.connections.send_modify(|list| list.push(connection));
                if !peer.session_up {
                    peer.dials.extend(attempt);
                }
            }
            Entry::Vacant(entry) => {
                let (arrivals, arrived) = mpsc::channel(ARRIVALS);
                let peer = entry.insert(Peer {
                    connections: watch::Sender::new(vec![connection]),
                    arrivals,
                    session_up: false,
                    dials: attempt.into_iter().collect(),
                });
                let listed = peer.connections.subscribe();
                self.spawn(key, listed, arrived);
            }
        }
    }

    fn spawn(
        &mut self,
        peer: PeerKey,
        connections: watch::Receiver<Vec<Connection>>,
        arrivals: mpsc::Receiver<Arrival>,
    ) {
        let task = PeerTask {
            peer,
            connections,
            arrivals,
            events: self.events.clone(),
            requests: self.request_sender.clone(),
            registry: self.registry.clone(),
            outbound_frames: self.limits.outbound_frames,
            outbound_bytes: self.limits.outbound_bytes,
        };
        let id = self.tasks.spawn(task.run()).id();
        self.task_peers.insert(id, peer);
    }

    /// A peer's task ended because it saw no connection left. If one has come since, the peer gets a new task;
    /// only so do the events of two sessions never overlap.
    fn on_task_ended(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = match ended {
            Ok((id, ())) => id,
            Err(error) => {
                warn!(%error, "a peer's task broke");
                error.id()
            }
        };
        let Some(key) = self.task_peers.remove(&id) else {
            return;
        };
        let Some(peer) = self.peers.get_mut(&key) else {
            return;
        };
        if !peer.connections.borrow().is_empty() {
            let (arrivals, arrived) = mpsc::channel(ARRIVALS);
            peer.arrivals = arrivals;
            let listed = peer.connections.subscribe();
            self.spawn(key, listed, arrived);
            return;
        }
        let failed = self.peers.remove(&key).map(|peer| peer.dials).unwrap_or_default();
        for attempt in failed {
            self.outbox.push_back((
                NetworkEvent::DialFailed { target: attempt.target, error: DialError::NoSession },
                Some(attempt.permit),
            ));
        }
        self.registry.remove(&key);
        self.relays.gone(&key);
        self.dht.gone(&key);
        let carrier = &mut self.swarm.behaviour_mut().carrier;
        carrier.set_up(to_peer_id(&key), false);
        carrier.set_live(to_peer_id(&key), false);
    }

    fn on_stream(&mut self, inbound: InboundStream) {
        let Some(peer) = from_peer_id(&inbound.peer).and_then(|key| self.peers.get(&key)) else {
            return;
        };
        // Where there is no room the stream is dropped unacknowledged, and the peer tries again.
        if peer.arrivals.try_send((inbound.connection, inbound.stream)).is_err() {
            debug!(peer = %inbound.peer, "dropped an inbound stream");
        }
    }

    fn on_ping(&mut self, ping: ping::Event) {
        match ping.result {
            Ok(_) => {
                if let Some(peer) = from_peer_id(&ping.peer).and_then(|key| self.peers.get(&key))
                    && let Some(connection) = peer.connections.borrow().iter().find(|c| c.id == ping.connection)
                {
                    connection.heard.stamp();
                }
            }
            // Said once a connection; the silence will end it, if no frames come either.
            Err(ping::Failure::Unsupported) => debug!(peer = %ping.peer, "does not answer pings"),
            // Only reported from the second failure on, which with the defaults is too late; what usually ends a
            // dead connection is `close_silent`.
            Err(error) => debug!(peer = %ping.peer, %error, "a ping failed"),
        }
    }

    /// Closes connections on which nothing has been heard for too long.
    fn close_silent(&mut self) {
        let mut silent = Vec::new();
        for (key, peer) in &self.peers {
            for connection in peer.connections.borrow().iter() {
                if connection.heard.silence() > self.dead_after {
                    silent.push((*key, connection.id));
                }
            }
        }
        for (key, id) in silent {
            info!(peer = peer_id_text(&key), "nothing heard for too long, closing");
            self.close(&key, id, Some(DisconnectReason::Silent));
        }
    }

    fn on_mdns(&mut self, event: mdns::Event) {
        let mdns::Event::Discovered(found) = event else {
            return;
        };
        let mut peers: Vec<(PeerKey, Vec<Multiaddr>)> = Vec::new();
        for (id, address) in found {
            let Some(key) = from_peer_id(&id) else {
                continue;
            };
            match peers.iter_mut().find(|(known, _)| *known == key) {
                Some((_, addresses)) => addresses.push(without_peer(&address)),
                None => peers.push((key, vec![without_peer(&address)])),
            }
        }
        for (peer, addresses) in peers {
            let addresses = dialable(addresses.iter());
            if !addresses.is_empty() {
                self.hint(NetworkEvent::Discovered { peer, addresses });
            }
        }
    }

    /// Counts an event in libp2p's metrics. What strangers can make up is left out, since each kind of address would become a
    /// series of its own.
    fn record(&self, event: &SwarmEvent<BehaviourEvent>) {
        let Some(metrics) = &self.metrics else { return };
        match event {
            SwarmEvent::NewExternalAddrCandidate { .. } => {}
            SwarmEvent::Behaviour(event) => match event {
                BehaviourEvent::Ping(event) => metrics.record(event),
                BehaviourEvent::Relay(event) => metrics.record(event),
                BehaviourEvent::Punching(event) => metrics.record(event),
                BehaviourEvent::Dht(event) => metrics.record(event),
                BehaviourEvent::Identify(identify::Event::Received { peer_id, connection_id, info }) => {
                    let mut info = info.clone();
                    info.listen_addrs.retain(|a| Address::from_multiaddr(a).is_ok());
                    if Address::from_multiaddr(&info.observed_addr).is_err() {
                        info.observed_addr = Multiaddr::empty();
                    }
                    let (peer_id, connection_id) = (*peer_id, *connection_id);
                    metrics.record(&identify::Event::Received { peer_id, connection_id, info });
                }
                BehaviourEvent::Identify(event) => metrics.record(event),
                _ => {}
            },
            event => metrics.record(event),
        }
    }

    fn publish_listening(&self) {
        let texts = self.listening.iter().map(ToString::to_string).collect();
        self.registry.set_listening(texts);
    }

    pub(super) fn hint(&mut self, event: NetworkEvent) {
        if self.outbox.len() < OUTBOX_HINTS {
            self.outbox.push_back((event, None));
        }
    }
}
