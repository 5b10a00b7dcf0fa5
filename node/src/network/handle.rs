//! Starting a network, and the handle by which it is used.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering::Relaxed},
};

use tokio::sync::{Semaphore, mpsc, watch};

use super::{
    addr::{Address, AddressError},
    config::NetworkConfig,
    dht::DhtKey,
    dial,
    event::{DialError, DialTarget, NetworkEvent, Route, SendError, StartError},
    identity::{PeerKey, peer_of_secret},
    link::{Queued, Registry},
    reach::Reach,
    swarm::{Command, Driver},
    traffic::Counters,
};

/// A running network: the handle to act, and the events to read.
#[derive(Debug)]
pub struct Network {
    /// Acts on the network; clone it freely. When the last clone is dropped the network stops.
    pub handle: NetworkHandle,
    /// What happens on it. Must be read; when it is dropped the network stops. Ends (`None`) once the network has
    /// stopped.
    pub events: mpsc::Receiver<NetworkEvent>,
}

impl Network {
    /// Starts a network in the tokio runtime of the caller. That an address cannot be listened on comes as
    /// [`NetworkEvent::ListenFailed`]; a malformed one fails here.
    pub fn start(config: NetworkConfig) -> Result<Self, StartError> {
        tokio::runtime::Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        let local = peer_of_secret(&config.keypair_secret).ok_or(StartError::Key)?;
        let quic = config.quic && config.psk.is_none();
        let mut listen = Vec::new();
        for text in &config.listen {
            let address = Address::parse(text)?;
            if address.is_quic() && config.psk.is_some() {
                return Err(StartError::QuicWithKey(text.clone()));
            }
            if address.is_quic() && !quic {
                return Err(AddressError::QuicOff { text: text.clone() }.into());
            }
            listen.push((text.clone(), address));
        }
        let announce = config.announce.iter().map(|text| Address::parse(text).map(|address| address.to_text()));
        let announce = announce.collect::<Result<Vec<String>, AddressError>>()?;
        let (event_sender, events) = mpsc::channel(config.limits.event_queue.max(1));
        let (commands, command_receiver) = mpsc::unbounded_channel();
        let registry = Arc::new(Registry::default());
        let driver = Driver::new(&config, listen, event_sender, command_receiver, registry.clone())?;
        let (stopped_sender, stopped) = watch::channel(());
        tokio::spawn(async move {
            driver.run().await;
            // Dropped last, whatever happens above: that is what a shutdown waits for.
            drop(stopped_sender);
        });
        let handle = NetworkHandle {
            local,
            quic,
            private: config.psk.is_some(),
            commands,
            registry,
            dials: Arc::new(Semaphore::new(config.limits.pending_dials)),
            stopped,
            announce: announce.into(),
        };
        Ok(Self { handle, events })
    }
}

/// Acts on a running network. Cheap to clone; no method but [`NetworkHandle::shutdown`] waits for anything.
#[derive(Clone)]
pub struct NetworkHandle {
    local: PeerKey,
    quic: bool,
    private: bool,
    commands: mpsc::UnboundedSender<Command>,
    registry: Arc<Registry>,
    dials: Arc<Semaphore>,
    stopped: watch::Receiver<()>,
    announce: Arc<[String]>,
}

impl NetworkHandle {
    /// This node as others see it.
    pub fn local_peer(&self) -> PeerKey {
        self.local
    }

    /// The addresses that are listened on now: multiaddrs without `/p2p`.
    pub fn listening(&self) -> Vec<String> {
        self.registry.listening()
    }

    /// Where others are told to reach this node: the addresses given for that, else those listened on now, places at relays
    /// among them, and those at which others got through.
    pub fn announced(&self) -> Vec<String> {
        if !self.announce.is_empty() {
            return self.announce.to_vec();
        }
        let mut addresses = self.listening();
        addresses.extend(self.registry.reach().external.into_iter().filter(|a| Address::parse(a).is_ok()));
        let mut seen = BTreeSet::new();
        addresses.retain(|a| seen.insert(a.clone()));
        addresses
    }

    /// How this node can be reached, and its part in relaying and in the DHT.
    pub fn reach(&self) -> Reach {
        self.registry.reach()
    }

    /// What the session with each connected peer goes over.
    pub fn routes(&self) -> BTreeMap<PeerKey, Route> {
        self.registry.routes()
    }

    /// Whether only nodes with the same pre-shared key can connect.
    pub fn is_private(&self) -> bool {
        self.private
    }

    /// Whether QUIC addresses may be used.
    pub fn quic(&self) -> bool {
        self.quic
    }

    /// How often each bound was hit since the start, by its name.
    pub fn limit_hits(&self) -> BTreeMap<&'static str, u64> {
        self.registry.hits.snapshot()
    }

    /// Sets which public banks are announced in the DHT and looked for there, [`MAX_PUBLISHED`](super::MAX_PUBLISHED) at
    /// most. With none, and unless the configuration says otherwise, this node takes no part in it.
    pub fn publish(&self, keys: Vec<DhtKey>) {
        let _ = self.commands.send(Command::Publish(keys));
    }

    /// The peers with a session, in the order of their keys.
    pub fn connected(&self) -> Vec<PeerKey> {
        self.registry.connected()
    }

    /// Dials a peer, or an address whose peer is not known. An error means that nothing was begun; otherwise
    /// either `Connected` or `DialFailed` follows as an event. When the peer's own dial came first, both do:
    /// `Connected`, and `DialFailed` with [`DialError::AlreadyConnected`], which is no fault.
    pub fn dial(&self, target: DialTarget) -> Result<(), DialError> {
        let (addresses, expected) = dial::parse(&target, self.quic)?;
        let permit = self.dials.clone().try_acquire_owned().map_err(|_| {
            self.registry.hits.dials.fetch_add(1, Relaxed);
            DialError::TooManyDials
        })?;
        self.commands.send(Command::Dial { target, addresses, expected, permit }).map_err(|_| DialError::Stopped)
    }

    /// Queues one frame of 1 to [`MAX_FRAME_BYTES`](super::MAX_FRAME_BYTES) bytes for a connected peer. That it
    /// was queued does not mean that it will arrive: the session may end first.
    pub fn send(&self, peer: PeerKey, frame: Vec<u8>) -> Result<(), SendError> {
        let sent = self.registry.link(&peer).ok_or(SendError::NotConnected)?.push(frame);
        if sent == Err(SendError::Full) {
            self.registry.hits.send_queue.fetch_add(1, Relaxed);
        }
        sent
    }

    /// How much waits to be written to a connected peer; `None` where no session is up. For those who would rather
    /// look before they build a frame than have it refused.
    pub fn queued(&self, peer: &PeerKey) -> Option<Queued> {
        self.registry.link(peer).map(|link| link.queued())
    }

    /// Closes all connections of a peer; `Disconnected` follows if a session was up.
    pub fn close(&self, peer: PeerKey) {
        // Fails only when the network has stopped, and then everything is closed. So below.
        let _ = self.commands.send(Command::Close(peer));
    }

    /// Refuses a peer from now on (`true`): what it has is closed, its connections are refused and dials to it
    /// fail. Or lets it in again (`false`). Not remembered across a restart.
    pub fn block(&self, peer: PeerKey, block: bool) {
        let _ = self.commands.send(Command::Block(peer, block));
    }

    /// Byte and frame counts since the start.
    pub fn counters(&self) -> Counters {
        self.registry.counters()
    }

    /// Stops the network and waits, two seconds at most, until its tasks have ended. `Disconnected` comes for each peer
    /// if the events are still read, then they end. Frames still queued are
    /// dropped. Other clones of the handle stay harmless: their verbs fail or do nothing.
    pub async fn shutdown(mut self) {
        let _ = self.commands.send(Command::Shutdown);
        // Nothing is ever sent: the error that ends the wait is the sender's end.
        while self.stopped.changed().await.is_ok() {}
    }
}

impl std::fmt::Debug for NetworkHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NetworkHandle")
            .field("local", &super::peer_id_text(&self.local))
            .field("connected", &self.registry.connected().len())
            .finish_non_exhaustive()
    }
}
