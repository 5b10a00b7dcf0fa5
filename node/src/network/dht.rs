//! The DHT (Kademlia): finds holders of public banks, and nothing else.
//!
//! What it is told and asked is a key that the caller derived by hash from a public bank's id; private banks are never
//! named. It keeps no content ([`Providers`]), only who says that it holds something, within bounds and for a day. A node
//! with no public bank takes no part unless it was told to: it answers no queries and makes none.
//!
//! Anybody can claim to hold a bank. Such a claim makes this node dial, and no more: whether the peer knows the bank shows
//! in its greeting.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use libp2p::{
    Multiaddr, PeerId, StreamProtocol, identify,
    kad::{
        self, BucketInserts, Event, GetClosestPeersError, GetClosestPeersOk, GetProvidersOk, InboundRequest, Mode,
        PeerInfo, ProviderRecord, QueryId, QueryResult, RecordKey, StoreInserts, store::RecordStore,
    },
};
use tokio::time::Instant;
use tracing::debug;

use super::{
    addr::{Address, MAX_ADDRESSES, Scope, dialable, scope},
    event::NetworkEvent,
    identity::{PeerKey, from_peer_id, to_peer_id},
    providers::{KEY_BYTES, Providers},
    swarm::Driver,
};

/// The DHT of this network is its own, apart from that of IPFS and others.
const PROTOCOL: StreamProtocol = StreamProtocol::new("/folklore/kad/1");

/// Longest time a query may take.
const QUERY_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a claim to hold a bank is believed when it is not repeated.
const CLAIM_TTL: Duration = Duration::from_secs(24 * 3600);

/// Public banks that are announced and looked for.
pub const MAX_PUBLISHED: usize = 64;

/// Searches for the addresses of a holder at one time.
const MAX_LOOKUPS: usize = 16;

/// The wait after the first node of the DHT is met, or the set of public banks changed, before it is asked.
const SETTLE: Duration = Duration::from_millis(500);

/// How often expired claims are thrown away.
const PURGE_EVERY: Duration = Duration::from_secs(60);

/// What a public bank is called in the DHT.
pub type DhtKey = [u8; KEY_BYTES];

/// The part this node takes in the DHT, at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DhtView {
    /// Whether it answers queries of others.
    pub serving: bool,
    /// Nodes in its routing table.
    pub nodes: usize,
    /// Public banks of its own that it announces.
    pub published: usize,
    /// Keys for which it keeps the names of others that hold the bank.
    pub kept: Vec<DhtKey>,
}

pub(super) fn behaviour(local: PeerId) -> kad::Behaviour<Providers> {
    let mut config = kad::Config::new(PROTOCOL);
    config
        .set_query_timeout(QUERY_TIMEOUT)
        .set_record_filtering(StoreInserts::FilterBoth)
        .set_provider_record_ttl(Some(CLAIM_TTL))
        // When to ask and to tell is decided here.
        .set_provider_publication_interval(None)
        .set_periodic_bootstrap_interval(None)
        // Whoever is connected is put in with the addresses it tells, and not with the one it came from.
        .set_kbucket_inserts(BucketInserts::Manual);
    let mut behaviour = kad::Behaviour::with_config(local, Providers::new(local), config);
    behaviour.set_mode(Some(Mode::Client));
    behaviour
}

/// What is under way in the DHT.
pub(super) struct Dht {
    /// Serve others even without a public bank.
    always: bool,
    interval: Duration,
    published: BTreeSet<DhtKey>,
    /// When to ask and tell again.
    due: Option<Instant>,
    purge_due: Instant,
    /// Searches for a holder's addresses.
    lookups: HashMap<QueryId, PeerKey>,
    nodes: BTreeSet<PeerKey>,
    /// Connected peers that serve the DHT, and where they say they listen: put into the routing table when this node takes
    /// part.
    servers: HashMap<PeerKey, Vec<Multiaddr>>,
}

impl Dht {
    pub(super) fn new(always: bool, interval: Duration) -> Self {
        let purge_due = Instant::now() + PURGE_EVERY;
        Self {
            always,
            interval,
            published: BTreeSet::new(),
            due: None,
            purge_due,
            lookups: HashMap::new(),
            nodes: BTreeSet::new(),
            servers: HashMap::new(),
        }
    }

    /// The peer has no connection left.
    pub(super) fn gone(&mut self, peer: &PeerKey) {
        self.servers.remove(peer);
    }

    fn takes_part(&self) -> bool {
        self.always || !self.published.is_empty()
    }
}

impl Driver {
    /// Sets which public banks are announced and looked for.
    pub(super) fn publish(&mut self, keys: Vec<DhtKey>) {
        let keys: BTreeSet<DhtKey> = keys.into_iter().take(MAX_PUBLISHED).collect();
        let gone: Vec<DhtKey> = self.dht.published.difference(&keys).copied().collect();
        for key in gone {
            self.swarm.behaviour_mut().dht.stop_providing(&RecordKey::new(&key));
        }
        self.dht.published = keys;
        self.dht.due = Some(Instant::now() + SETTLE);
        self.settle_dht_mode();
        self.fill_routing_table();
    }

    fn fill_routing_table(&mut self) {
        if !self.dht.takes_part() {
            return;
        }
        for (peer, addresses) in &self.dht.servers {
            for address in addresses {
                self.swarm.behaviour_mut().dht.add_address(&to_peer_id(peer), address.clone());
            }
        }
    }

    /// Answers others only when it takes part and can be reached.
    pub(super) fn settle_dht_mode(&mut self) {
        let reachable = !self.listening.is_empty() || self.swarm.external_addresses().next().is_some();
        let mode = if self.dht.takes_part() && reachable { Mode::Server } else { Mode::Client };
        if self.swarm.behaviour().dht.mode() != mode {
            self.swarm.behaviour_mut().dht.set_mode(Some(mode));
        }
        self.publish_dht();
    }

    /// Notes whether a connected peer serves the DHT, and where.
    pub(super) fn meet_dht_node(&mut self, peer: PeerKey, info: &identify::Info, near: Option<Scope>) {
        if !info.protocols.contains(&PROTOCOL) {
            self.dht.servers.remove(&peer);
            return;
        }
        // What a peer says of itself is no use where it leads into a network that this node shares with nobody there.
        let usable = |a: &&Multiaddr| scope(a).is_some_and(|s| near.is_some_and(|near| near <= s));
        let addresses = dialable(info.listen_addrs.iter().filter(usable));
        let addresses = addresses.iter().filter_map(|text| text.parse().ok()).collect();
        self.dht.servers.insert(peer, addresses);
        self.fill_routing_table();
    }

    /// Asks and tells the DHT when it is time.
    pub(super) fn tick_dht(&mut self) {
        let now = Instant::now();
        if now >= self.dht.purge_due {
            self.dht.purge_due = now + PURGE_EVERY;
            self.swarm.behaviour_mut().dht.store_mut().purge(now.into_std());
            self.publish_dht();
        }
        if self.dht.due.is_none_or(|due| now < due) || !self.dht.takes_part() {
            return;
        }
        if self.dht.nodes.is_empty() {
            // Nobody to ask; the first one met sets the time.
            self.dht.due = None;
            return;
        }
        self.dht.due = Some(now + self.dht.interval);
        let dht = &mut self.swarm.behaviour_mut().dht;
        if let Err(error) = dht.bootstrap() {
            debug!(%error, "the DHT knows nobody");
        }
        for key in &self.dht.published {
            let key = RecordKey::new(key);
            dht.get_providers(key.clone());
            if let Err(error) = dht.start_providing(key) {
                debug!(%error, "a public bank could not be announced");
            }
        }
    }

    pub(super) fn on_dht(&mut self, event: Event) {
        match event {
            Event::InboundRequest { request: InboundRequest::AddProvider { record: Some(record) } } => {
                self.keep_provider(record);
            }
            Event::OutboundQueryProgressed { id, result, .. } => match result {
                QueryResult::GetProviders(Ok(GetProvidersOk::FoundProviders { key, providers })) => {
                    let ours = key.as_ref().try_into().is_ok_and(|key: DhtKey| self.dht.published.contains(&key));
                    if ours {
                        providers.iter().for_each(|provider| self.look_up(provider));
                    }
                }
                QueryResult::GetClosestPeers(
                    Ok(GetClosestPeersOk { peers, .. }) | Err(GetClosestPeersError::Timeout { peers, .. }),
                ) => self.looked_up(id, &peers),
                _ => {}
            },
            Event::RoutingUpdated { peer, old_peer, .. } => {
                if self.dht.nodes.is_empty() {
                    self.dht.due.get_or_insert(Instant::now() + SETTLE);
                }
                self.dht.nodes.extend(from_peer_id(&peer));
                if let Some(old) = old_peer.and_then(|old| from_peer_id(&old)) {
                    self.dht.nodes.remove(&old);
                }
                self.publish_dht();
            }
            _ => {}
        }
    }

    /// Takes a claim of the peer itself (libp2p lets nobody claim for another).
    fn keep_provider(&mut self, mut record: ProviderRecord) {
        if !self.dht.takes_part() {
            return;
        }
        record.addresses.retain(|a| Address::from_multiaddr(a).is_ok());
        record.addresses.truncate(MAX_ADDRESSES);
        if let Err(error) = self.swarm.behaviour_mut().dht.store_mut().add_provider(record) {
            debug!(%error, "a claim to hold a bank is not kept");
        }
        self.publish_dht();
    }

    /// Looks for the addresses of somebody who holds a bank of ours.
    fn look_up(&mut self, provider: &PeerId) {
        let Some(key) = from_peer_id(provider) else { return };
        let known = self.peers.contains_key(&key) || self.dht.lookups.values().any(|other| *other == key);
        if known || provider == self.swarm.local_peer_id() || self.dht.lookups.len() >= MAX_LOOKUPS {
            return;
        }
        let query = self.swarm.behaviour_mut().dht.get_closest_peers(*provider);
        self.dht.lookups.insert(query, key);
    }

    fn looked_up(&mut self, query: QueryId, peers: &[PeerInfo]) {
        let Some(key) = self.dht.lookups.remove(&query) else { return };
        let id = to_peer_id(&key);
        let addresses = peers.iter().filter(|p| p.peer_id == id).flat_map(|p| &p.addrs);
        let addresses = dialable(addresses);
        if !addresses.is_empty() {
            self.hint(NetworkEvent::Found { peer: key, addresses });
        }
    }

    fn publish_dht(&mut self) {
        let serving = self.swarm.behaviour().dht.mode() == Mode::Server;
        let store = self.swarm.behaviour_mut().dht.store_mut();
        let mut kept: Vec<DhtKey> = store.keys_of_others().filter_map(|key| key.as_ref().try_into().ok()).collect();
        kept.sort_unstable();
        let view = DhtView { serving, nodes: self.dht.nodes.len(), published: self.dht.published.len(), kept };
        self.registry.change_reach(|reach| reach.dht = view);
    }
}
