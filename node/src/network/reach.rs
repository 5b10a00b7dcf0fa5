//! How this node can be reached: NAT, addresses that others confirmed, places at relays; and what it relays for others.
//!
//! A node that nobody has shown to be reachable reserves a place at relays it is connected to, and tells the circuit's
//! address like any other. Over a circuit the two ends then try to dial each other where they say they listen, and to punch a
//! hole (DCUtR); where that works the session moves to the direct connection.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use libp2p::{
    Multiaddr, PeerId, autonat,
    core::transport::ListenerId,
    identify,
    multiaddr::Protocol,
    relay::{self, HOP_PROTOCOL_NAME},
    swarm::{
        ConnectionId,
        dial_opts::{DialOpts, PeerCondition},
    },
};
use tokio::time::Instant;
use tracing::{debug, info};

use super::{
    addr::{Scope, dialable, is_relayed, scope, without_peer},
    behaviour::Refusal,
    connection::Connection,
    dht::DhtView,
    event::Route,
    identity::{PeerKey, from_peer_id, peer_id_text, to_peer_id},
    swarm::Driver,
};

/// Places at relays at one time: one, and one more for when it goes away.
const MAX_PLACES: usize = 2;

/// After a relay gave no place, or took it back, it is asked again after this.
const PLACE_PAUSE: Duration = Duration::from_secs(30);

/// Peers with a circuit announced by the relay whose handshake has not come to an end; and relays whose bounds are remembered.
const MAX_PENDING_CIRCUITS: usize = 256;

/// What is known of this node's reachability.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Nat {
    /// Nobody has tested it: no AutoNAT server (a node with `--relay`) is connected.
    #[default]
    Unknown,
    /// Somebody dialled an address of this node's and got through.
    Public,
    /// Somebody dialled and did not get through, and nobody else has.
    Private,
}

/// What this node does as a relay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Serving {
    /// Peers that are reachable through it.
    pub reservations: usize,
    /// Circuits now.
    pub circuits: usize,
}

/// How this node can be reached, at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// Whether it is behind a NAT.
    pub nat: Nat,
    /// Addresses where others reached it or were told to, multiaddrs without `/p2p`.
    pub external: Vec<String>,
    /// Relays at which it has a place.
    pub relays: Vec<PeerKey>,
    /// What it relays for others; `None`: it is no relay.
    pub serving: Option<Serving>,
    /// Its part in the DHT.
    pub dht: DhtView,
}

/// How often each bound was hit since the start.
#[derive(Debug, Default)]
pub(super) struct LimitHits {
    peers: AtomicU64,
    connections_per_peer: AtomicU64,
    handshakes: AtomicU64,
    pub(super) dials: AtomicU64,
    pub(super) memory: AtomicU64,
    pub(super) send_queue: AtomicU64,
    relay: AtomicU64,
    blocked: AtomicU64,
    strange_addresses: AtomicU64,
    /// No bound, but worth the same attention: inbound connections that broke off in the handshake. With a pre-shared key
    /// that is somebody with another one.
    pub(super) failed_handshakes: AtomicU64,
}

impl LimitHits {
    pub(super) fn refused(&self, refusal: Refusal) {
        let count = match refusal {
            Refusal::Full => &self.peers,
            Refusal::TooManyConnections => &self.connections_per_peer,
            Refusal::TooManyHandshakes => &self.handshakes,
            Refusal::TooManyDials => &self.dials,
            Refusal::Blocked => &self.blocked,
            Refusal::NotItsNetwork => &self.strange_addresses,
            Refusal::NotEd25519 | Refusal::Redundant(_) => return,
        };
        count.fetch_add(1, Relaxed);
    }

    /// Each count by its name; the names are fixed.
    pub(super) fn snapshot(&self) -> BTreeMap<&'static str, u64> {
        [
            ("peers", &self.peers),
            ("connections_per_peer", &self.connections_per_peer),
            ("handshakes", &self.handshakes),
            ("dials", &self.dials),
            ("memory", &self.memory),
            ("send_queue", &self.send_queue),
            ("relay", &self.relay),
            ("blocked", &self.blocked),
            ("strange_addresses", &self.strange_addresses),
            ("failed_handshakes", &self.failed_handshakes),
        ]
        .into_iter()
        .map(|(name, count)| (name, count.load(Relaxed)))
        .collect()
    }
}

/// What the swarm task knows of relays and NATs.
#[derive(Default)]
pub(super) struct Relays {
    /// Whether places are wanted at all.
    wanted: bool,
    /// Connected peers that are relays, with the address they were dialled at.
    hops: HashMap<PeerKey, Multiaddr>,
    /// Places held or asked for.
    places: HashMap<ListenerId, Place>,
    /// Not asked again before.
    paused: HashMap<PeerKey, Instant>,
    /// What each relay said a circuit of its carries.
    limits: HashMap<PeerKey, (Option<u64>, Option<Duration>)>,
    /// The same, of circuits whose handshake is under way, by who is at the other end.
    inbound: HashMap<PeerKey, (Option<u64>, Option<Duration>)>,
    /// Relayed connections beside which a direct one was tried.
    tried: HashMap<PeerKey, ConnectionId>,
    reserved_here: HashSet<PeerId>,
    circuits_here: usize,
    tested: Tested,
}

struct Place {
    relay: PeerKey,
    confirmed: bool,
}

/// What AutoNAT servers found.
#[derive(Default)]
struct Tested {
    reached: HashSet<Multiaddr>,
    unreached: bool,
}

impl Relays {
    pub(super) fn new(wanted: bool) -> Self {
        Self { wanted, ..Self::default() }
    }

    /// Whether a listener is a place at a relay.
    pub(super) fn holds(&self, listener: &ListenerId) -> bool {
        self.places.contains_key(listener)
    }

    /// The peer has no connection left.
    pub(super) fn gone(&mut self, peer: &PeerKey) {
        self.hops.remove(peer);
        self.inbound.remove(peer);
        self.tried.remove(peer);
    }

    fn confirmed(&self) -> Vec<PeerKey> {
        self.places.values().filter(|p| p.confirmed).map(|p| p.relay).collect()
    }
}

impl Driver {
    /// What a new connection goes over. `address` is the one that shows the relay, if there is one.
    pub(super) fn route_of(
        &mut self,
        peer: &PeerKey,
        address: &Multiaddr,
        dialer: bool,
        beside_relayed: bool,
    ) -> Route {
        if !is_relayed(address) {
            return if beside_relayed { Route::HolePunched } else { Route::Direct };
        }
        let relay = address.iter().find_map(|part| match part {
            Protocol::P2p(id) => from_peer_id(&id),
            _ => None,
        });
        let limits = if dialer {
            relay.and_then(|relay| self.relays.limits.get(&relay).copied())
        } else {
            self.relays.inbound.remove(peer)
        };
        let (limit_bytes, limit_time) = limits.unwrap_or_default();
        Route::Relayed { limit_bytes, limit_time }
    }

    /// Notes that a peer is a relay, and takes a place there if one is wanted.
    pub(super) fn meet_relay(&mut self, peer: PeerKey, info: &identify::Info, dialled: Option<Multiaddr>) {
        let Some(address) = dialled else { return };
        if info.protocols.contains(&HOP_PROTOCOL_NAME) {
            self.relays.hops.insert(peer, address);
            self.take_places();
        }
    }

    /// Tries, once for each circuit, whether a peer behind a relay can simply be dialled where it says it listens. Where it can,
    /// hole punching is not only needless but often fails: both then dial at the same moment, from and to their listening ports,
    /// and each takes the other for the one who waits.
    pub(super) fn try_directly(
        &mut self,
        peer: PeerKey,
        connection: &Connection,
        told: &[Multiaddr],
        near: Option<Scope>,
    ) {
        if !connection.route.is_relayed() || self.relays.tried.insert(peer, connection.id) == Some(connection.id) {
            return;
        }
        let usable = |a: &&Multiaddr| !is_relayed(a) && scope(a).is_some_and(|s| near.is_some_and(|near| near <= s));
        let addresses = dialable(told.iter().filter(usable));
        let addresses: Vec<Multiaddr> = addresses.iter().filter_map(|text| text.parse().ok()).collect();
        if addresses.is_empty() {
            return;
        }
        let options = DialOpts::peer_id(to_peer_id(&peer))
            .condition(PeerCondition::Always)
            .addresses(addresses)
            .allocate_new_port()
            .build();
        if let Err(error) = self.swarm.dial(options) {
            debug!(peer = peer_id_text(&peer), %error, "no direct way beside the relayed one");
        }
    }

    /// Reserves places at relays while too few are held.
    pub(super) fn take_places(&mut self) {
        if !self.relays.wanted || self.registry.reach().nat == Nat::Public {
            return;
        }
        let now = Instant::now();
        self.relays.paused.retain(|_, until| *until > now);
        let mut asked = Vec::new();
        for (relay, address) in &self.relays.hops {
            let taken = self.relays.places.values().any(|place| place.relay == *relay);
            if self.relays.places.len() + asked.len() < MAX_PLACES && !taken && !self.relays.paused.contains_key(relay)
            {
                asked.push((*relay, address.clone()));
            }
        }
        for (relay, address) in asked {
            let circuit = address.with(Protocol::P2p(to_peer_id(&relay))).with(Protocol::P2pCircuit);
            match self.swarm.listen_on(circuit) {
                Ok(id) => {
                    self.relays.places.insert(id, Place { relay, confirmed: false });
                }
                Err(error) => {
                    debug!(relay = peer_id_text(&relay), %error, "no place at a relay");
                    self.relays.paused.insert(relay, now + PLACE_PAUSE);
                }
            }
        }
    }

    /// A place at a relay is gone. It is never given back from here: libp2p's relay client panics when the answer to a
    /// request comes after that.
    pub(super) fn lost_place(&mut self, listener: &ListenerId, reason: &str) {
        if let Some(place) = self.relays.places.remove(listener) {
            info!(relay = peer_id_text(&place.relay), reason, "the place at a relay is gone");
            self.relays.paused.insert(place.relay, Instant::now() + PLACE_PAUSE);
            self.publish_reach();
        }
    }

    pub(super) fn on_circuit(&mut self, event: relay::client::Event) {
        match event {
            relay::client::Event::ReservationReqAccepted { relay_peer_id, renewal, limit } => {
                let Some(relay) = from_peer_id(&relay_peer_id) else { return };
                if !renewal {
                    info!(relay = %relay_peer_id, ?limit, "reachable through a relay");
                }
                for place in self.relays.places.values_mut().filter(|p| p.relay == relay) {
                    place.confirmed = true;
                }
                self.publish_reach();
            }
            relay::client::Event::OutboundCircuitEstablished { relay_peer_id, limit } => {
                if let (Some(relay), Some(limit)) = (from_peer_id(&relay_peer_id), limit) {
                    // Strangers can name relays without end.
                    if self.relays.limits.len() >= MAX_PENDING_CIRCUITS {
                        self.relays.limits.clear();
                    }
                    self.relays.limits.insert(relay, (limit.data_in_bytes(), limit.duration()));
                }
            }
            relay::client::Event::InboundCircuitEstablished { src_peer_id, limit } => {
                if let (Some(peer), Some(limit)) = (from_peer_id(&src_peer_id), limit) {
                    if self.relays.inbound.len() >= MAX_PENDING_CIRCUITS {
                        self.relays.inbound.clear();
                    }
                    self.relays.inbound.insert(peer, (limit.data_in_bytes(), limit.duration()));
                }
            }
        }
    }

    /// What happens at this node as a relay.
    pub(super) fn on_relay(&mut self, event: relay::Event) {
        use relay::Event;
        match event {
            Event::ReservationReqAccepted { src_peer_id, .. } => {
                self.relays.reserved_here.insert(src_peer_id);
            }
            Event::ReservationClosed { src_peer_id } | Event::ReservationTimedOut { src_peer_id } => {
                self.relays.reserved_here.remove(&src_peer_id);
            }
            Event::ReservationReqDenied { .. } | Event::CircuitReqDenied { .. } => {
                self.registry.hits.relay.fetch_add(1, Relaxed);
            }
            Event::CircuitReqAccepted { .. } => self.relays.circuits_here += 1,
            Event::CircuitClosed { .. } => self.relays.circuits_here = self.relays.circuits_here.saturating_sub(1),
            _ => {}
        }
        self.publish_reach();
    }

    pub(super) fn on_nat(&mut self, event: autonat::v2::client::Event) {
        let address = without_peer(&event.tested_addr);
        match event.result {
            Ok(()) => {
                info!(%address, server = %event.server, "somebody dialled this node and got through");
                self.relays.tested.reached.insert(address);
            }
            Err(error) => {
                debug!(%address, server = %event.server, %error, "somebody could not dial this node");
                self.relays.tested.unreached = true;
            }
        }
        self.publish_reach();
        self.settle_dht_mode();
    }

    pub(super) fn publish_reach(&mut self) {
        let tested = &self.relays.tested;
        let nat = match (tested.reached.is_empty(), tested.unreached) {
            (false, _) => Nat::Public,
            (true, true) => Nat::Private,
            (true, false) => Nat::Unknown,
        };
        let mut external: Vec<String> = self.swarm.external_addresses().map(|a| without_peer(a).to_string()).collect();
        external.sort();
        external.dedup();
        let relays = self.relays.confirmed();
        let here = Serving { reservations: self.relays.reserved_here.len(), circuits: self.relays.circuits_here };
        let serving = self.swarm.behaviour().relay.is_enabled().then_some(here);
        self.registry.change_reach(|reach| {
            reach.nat = nat;
            reach.external = external;
            reach.relays = relays;
            reach.serving = serving;
        });
    }
}
