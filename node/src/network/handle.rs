//! Starting a network, and the handle by which it is used.

use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc, watch};

use super::{
    addr::{Address, AddressError},
    config::NetworkConfig,
    dial,
    event::{DialError, DialTarget, NetworkEvent, SendError, StartError},
    identity::{PeerKey, peer_of_secret},
    link::{Queued, Registry},
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
        let mut listen = Vec::new();
        for text in &config.listen {
            let address = Address::parse(text)?;
            if address.is_quic() && !config.quic {
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
            quic: config.quic,
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

    /// Where others are told to reach this node: the addresses given for that, else those listened on now.
    pub fn announced(&self) -> Vec<String> {
        if self.announce.is_empty() { self.listening() } else { self.announce.to_vec() }
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
        let permit = self.dials.clone().try_acquire_owned().map_err(|_| DialError::TooManyDials)?;
        self.commands.send(Command::Dial { target, addresses, expected, permit }).map_err(|_| DialError::Stopped)
    }

    /// Queues one frame of 1 to [`MAX_FRAME_BYTES`](super::MAX_FRAME_BYTES) bytes for a connected peer. That it
    /// was queued does not mean that it will arrive: the session may end first.
    pub fn send(&self, peer: PeerKey, frame: Vec<u8>) -> Result<(), SendError> {
        self.registry.link(&peer).ok_or(SendError::NotConnected)?.push(frame)
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
