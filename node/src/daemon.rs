//! The daemon: opens the home, wires store, engine, network and HTTP door together, and takes them down in order.

use std::{
    fs::Permissions,
    net::{Ipv4Addr, TcpListener as StdListener},
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::Arc,
};

use folklore_protocol::Config;
use folklore_store::{
    bank::{OpenOptions, Store},
    catalogue::Catalogue,
    error::{OpenError, ReadError, WriteError},
    jobs::Jobs,
};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::{
    api::{Answer, ApiError, UpOptions, UpReady},
    embedding::Embedding,
    engine::{self, EngineHandle},
    home::{DaemonNotice, Home, HomeError, HomeLock},
    http::{self, BindError, Token},
    induction::{Induction, InductionOptions},
    memory::{self, Memory},
    metrics::Metrics,
    network::{KeyFileError, Network, NetworkConfig, NetworkEvent, NetworkHandle, StartError, read_psk},
    service::RemoteEmbedder,
};

/// The store's setting that remembers the port peers know this node by.
const PORT: &str = "listen-port";
/// The pre-shared key of a private network, if the home has one.
const KEY_FILE: &str = "swarm.key";
/// Directory of the vectors, in that of the store.
const VECTORS: &str = "vectors";
/// How long the first listening address is waited for.
const LISTEN_WAIT: std::time::Duration = std::time::Duration::from_secs(5);

/// Why a daemon does not run. What was acknowledged before is on disk.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The data directory.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The bank.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The bank, when read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The bank, when written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The network.
    #[error(transparent)]
    Network(#[from] StartError),
    /// The pre-shared key.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// An address to listen on for peers.
    #[error("cannot listen on {address}: {reason}")]
    Listen {
        /// As given.
        address: String,
        /// Why.
        reason: String,
    },
    /// The embedding service, as it is named.
    #[error("{0}")]
    Embedder(String),
    /// The model that draws lessons, as it is named.
    #[error("{0}")]
    Induction(String),
    /// The HTTP door.
    #[error(transparent)]
    Http(#[from] BindError),
    /// The system.
    #[error("{0}")]
    System(String),
}

impl From<DaemonError> for ApiError {
    fn from(error: DaemonError) -> Self {
        match error {
            DaemonError::Home(error) => error.into(),
            DaemonError::Http(error) => error.into(),
            DaemonError::Network(StartError::Listen(_) | StartError::QuicWithKey(_))
            | DaemonError::Key(_)
            | DaemonError::Embedder(_)
            | DaemonError::Induction(_) => Self::bad_request(error.to_string()),
            _ => Self::failed(error.to_string()),
        }
    }
}

/// Runs a daemon on a home whose lock it is given: says when it is ready, stops when told, and returns when everything is
/// closed. Without addresses to listen on it takes a port on loopback, the same as last time if that is free.
pub async fn run(
    home: Home,
    lock: HomeLock,
    options: UpOptions,
    stop: CancellationToken,
    ready: oneshot::Sender<UpReady>,
) -> Answer<()> {
    let daemon = Daemon::start(home, lock, options).await?;
    // The one to be told may have gone; the daemon runs all the same.
    let _ = ready.send(daemon.ready());
    stop.cancelled().await;
    Ok(daemon.stop().await?)
}

/// A running daemon.
struct Daemon {
    notice: DaemonNotice,
    node: String,
    listening: Vec<String>,
    home: Home,
    lock: Arc<HomeLock>,
    network: NetworkHandle,
    catalogue: Arc<Catalogue>,
    embedding: Option<Arc<Embedding>>,
    memory: Memory,
    /// The work on the queue.
    induced: tokio::task::JoinHandle<()>,
    stop: CancellationToken,
    door: tokio::task::JoinHandle<std::io::Result<()>>,
}

impl Daemon {
    /// Starts everything; when this returns the daemon answers.
    async fn start(home: Home, lock: HomeLock, options: UpOptions) -> Result<Self, DaemonError> {
        let key = home.keypair()?;
        let own = home.bank()?;
        let options = home.network_settings()?.under(options, home.dir());
        let second = second_embedder(&home, &options)?;
        // Before anything is read or taken in.
        if let Some(allow) = home.allow_list()? {
            allow.install().map_err(|error| DaemonError::System(error.to_string()))?;
        }
        let induction = induction_options(&home, &options)?;
        let door = http::bind(options.http).await?;
        let http = door.local_addr().map_err(|error| DaemonError::System(error.to_string()))?;

        let seed = random::<32>()?;
        let entropy = u64::from_le_bytes(random::<8>()?);
        let had_bank = home.was_served()?;
        let (store_dir, me) = (home.store_dir(), key.author());
        let opened = tokio::task::spawn_blocking(move || -> Result<_, DaemonError> {
            private_directory(&store_dir)?;
            let vectors = store_dir.join(VECTORS);
            // What needs no bank is read while that is opened. The home's lock is held, so nobody else is at these files.
            let preparing = std::thread::spawn(move || Catalogue::prepare(me, &vectors));
            let opened = Store::open(&store_dir, OpenOptions { entropy, had_bank, ..OpenOptions::default() })?;
            if !opened.store.banks().iter().any(|b| b.id == own.id) {
                opened.store.add_bank(own)?;
            }
            let prepared = preparing
                .join()
                .map_err(|_| DaemonError::System("reading the catalogue failed; the log says more".into()))?;
            let catalogue = Catalogue::open_prepared(opened.store.clone(), me, prepared)?;
            Ok((opened.store, opened.report, catalogue))
        });
        let (store, report, catalogue) =
            opened.await.map_err(|_| DaemonError::System("opening the bank failed; the log says more".into()))??;
        home.mark_served(&lock)?;
        let lock = Arc::new(lock);
        let mut opening = report.lines();
        let (jobs, unread) = Jobs::open(store.clone());
        opening.extend(unread);
        let induction = Arc::new(Induction::new(induction, jobs));
        for line in &opening {
            tracing::warn!("{line}");
        }

        let metrics = Arc::new(Metrics::new());
        let by_default = options.listen.is_empty() && !options.no_listen;
        let listen = if by_default { vec![default_listen(&store)] } else { options.listen.clone() };
        let asked = listen.len();
        let mut config = network_config(&home, &options)?;
        config.keypair_secret = key.seed();
        config.listen = listen;
        config.metrics = Some(metrics.libp2p());
        let enough_peers = config.limits.max_peers / 2;
        let network = Network::start(config)?;
        let handle = network.handle.clone();
        let network = first_listening(network, asked).await?;
        if by_default {
            remember_port(&store, &handle);
        }
        let catalogue = Arc::new(catalogue);
        let embedding = second.map(|(remote, texts)| Arc::new(Embedding::start(remote, catalogue.clone(), texts)));
        let engine: EngineHandle = engine::start(engine::Parts {
            me,
            seed,
            store: store.clone(),
            catalogue: catalogue.clone(),
            network,
            config: Config::default(),
            dial: [options.peers, options.bootstrap, options.via].concat(),
            enough_peers,
            metrics: metrics.clone(),
            shows_work: options.fetch_near,
        });
        let (network, lock_held) = (handle.clone(), lock.clone());
        let home_held = home.clone();
        let memory = Memory::new(memory::Parts {
            home: home_held,
            lock: lock_held,
            key,
            store,
            catalogue: catalogue.clone(),
            engine,
            network,
            metrics,
            embedding: embedding.clone(),
            induction: Arc::clone(&induction),
            http,
            opening,
        });
        for ticket in home.tickets()? {
            let memory = memory.clone();
            let joined = tokio::task::spawn_blocking(move || memory.join_ticket(&ticket)).await;
            let joined = joined.map_err(|_| DaemonError::System("joining a bank failed; the log says more".into()))?;
            if let Err(error) = joined {
                // The home's own bank and the others are served all the same; the ticket is tried again at the next start.
                tracing::error!(%error, "a bank could not be joined");
            }
        }

        let token = Token::generate().map_err(|error| DaemonError::System(error.to_string()))?;
        let notice = DaemonNotice { pid: std::process::id(), http, token: token.reveal().to_owned() };
        let stop = CancellationToken::new();
        let induced = tokio::spawn(induction.work(memory.clone(), stop.clone()));
        let door = tokio::spawn(http::serve(door, memory.clone(), token, stop.clone()));
        home.write_daemon(&lock, &notice)?;
        let listening = handle.listening();
        let (node, network) = (me.to_string(), handle);
        Ok(Self { notice, node, listening, home, lock, network, catalogue, embedding, memory, induced, stop, door })
    }

    fn ready(&self) -> UpReady {
        UpReady {
            node: self.node.clone(),
            listening: self.listening.clone(),
            http: self.notice.http,
            data: self.home.dir().display().to_string(),
            pid: self.notice.pid,
        }
    }

    /// Lets calls under way end, leaves the network and takes the notice back. What was acknowledged is on disk anyway.
    async fn stop(self) -> Result<(), DaemonError> {
        self.home.remove_daemon(&self.lock)?;
        self.stop.cancel();
        if let Ok(Err(error)) = self.door.await {
            tracing::warn!(%error, "the HTTP door did not close cleanly");
        }
        if self.induced.await.is_err() {
            tracing::warn!("the work on the queue broke off; the log says more");
        }
        if let Some(embedding) = &self.embedding {
            embedding.stop().await;
        }
        self.memory.alone().await;
        self.network.shutdown().await;
        let catalogue = self.catalogue;
        if tokio::task::spawn_blocking(move || catalogue.close()).await.is_err() {
            tracing::warn!("the catalogue was not closed; the next opening takes longer");
        }
        Ok(())
    }
}

/// The embedding service that the command line or the home names, and how many texts it is sent in an hour.
fn second_embedder(home: &Home, options: &UpOptions) -> Result<Option<(RemoteEmbedder, u32)>, DaemonError> {
    if options.builtin_only {
        return Ok(None);
    }
    let named = options.embedder.clone().over(home.embedder_options()?);
    named.embedder(|name| std::env::var(name).ok()).map_err(DaemonError::Embedder)
}

/// The model that the command line or the home names.
fn induction_options(home: &Home, options: &UpOptions) -> Result<InductionOptions, DaemonError> {
    let named = options.induction.clone().over(home.induction_options()?);
    if named != InductionOptions::default() {
        named.target().map_err(DaemonError::Induction)?;
    }
    Ok(named)
}

/// How the network is to run. The pre-shared key is the one named, else `swarm.key` in the home if it is there.
fn network_config(home: &Home, options: &UpOptions) -> Result<NetworkConfig, DaemonError> {
    let mut config = NetworkConfig::new([0; 32]);
    let usual = home.dir().join(KEY_FILE);
    let file = options.psk.clone().or_else(|| usual.exists().then_some(usual));
    config.psk = file.map(|path| read_psk(&path)).transpose()?;
    if config.psk.is_some() {
        tracing::info!("a pre-shared key is in use: only nodes with the same one can connect, and QUIC is off");
    }
    config.mdns = options.mdns;
    config.quic = options.quic && config.psk.is_none();
    config.announce = options.announce.clone();
    config.relay = options.relay.then(|| options.relay_limits.clone());
    config.use_relays = options.use_relays;
    config.via = options.via.clone();
    config.dht = options.dht;
    config.limits = options.limits.clone();
    Ok(config)
}

/// Makes a directory that only this user can look into, or makes it so.
fn private_directory(dir: &Path) -> Result<(), DaemonError> {
    let fail = |error: std::io::Error| DaemonError::System(format!("{}: {error}", dir.display()));
    std::fs::create_dir_all(dir).map_err(fail)?;
    std::fs::set_permissions(dir, Permissions::from_mode(0o700)).map_err(fail)
}

fn random<const N: usize>() -> Result<[u8; N], DaemonError> {
    let mut bytes = [0u8; N];
    getrandom::fill(&mut bytes).map_err(|error| DaemonError::System(format!("no randomness: {error}")))?;
    Ok(bytes)
}

/// Loopback, at the port that peers know from last time if it is free.
fn default_listen(store: &Store) -> String {
    let last = store.setting(PORT).and_then(|bytes| bytes.try_into().ok()).map_or(0, u16::from_le_bytes);
    let port = if last != 0 && StdListener::bind((Ipv4Addr::LOCALHOST, last)).is_ok() { last } else { 0 };
    format!("/ip4/127.0.0.1/tcp/{port}")
}

fn remember_port(store: &Store, network: &NetworkHandle) {
    let port = network.listening().iter().find_map(|a| a.rsplit_once("/tcp/")?.1.parse::<u16>().ok());
    if let Some(port) = port
        && store.setting(PORT).as_deref() != Some(&port.to_le_bytes())
        && let Err(error) = store.set_setting(PORT, &port.to_le_bytes())
    {
        tracing::warn!(%error, "the port could not be remembered");
    }
}

/// Waits until every address is listened on. Events that are about anything else are put back in order.
async fn first_listening(mut network: Network, asked: usize) -> Result<Network, DaemonError> {
    let (sender, events) = mpsc::channel(1024);
    let mut heard = 0;
    let deadline = tokio::time::Instant::now() + LISTEN_WAIT;
    while heard < asked {
        let Ok(event) = tokio::time::timeout_at(deadline, network.events.recv()).await else { break };
        match event {
            Some(NetworkEvent::Listening { address }) => {
                tracing::info!(address, "listening");
                heard += 1;
            }
            Some(NetworkEvent::ListenFailed { address, error }) => {
                return Err(DaemonError::Listen { address, reason: error });
            }
            Some(other) => {
                let _ = sender.try_send(other);
            }
            None => return Err(DaemonError::System("the network stopped while starting".into())),
        }
    }
    let mut rest = std::mem::replace(&mut network.events, events);
    tokio::spawn(async move {
        while let Some(event) = rest.recv().await {
            if sender.send(event).await.is_err() {
                break;
            }
        }
    });
    Ok(network)
}
