//! How the swarm is put together: transports, limits of streams, behaviours.

use std::{sync::Arc, time::Duration};

use folklore_protocol::DIAL_TIMEOUT_MS;
use libp2p::{
    PeerId, Swarm, Transport, autonat,
    core::{
        ConnectedPoint,
        muxing::StreamMuxerBox,
        transport::{Boxed, timeout::TransportTimeout},
        upgrade,
    },
    dcutr, identify,
    identity::Keypair,
    kad, mdns, memory_connection_limits, noise, ping,
    pnet::{PnetConfig, PnetError},
    quic, relay,
    swarm::{self, NetworkBehaviour, behaviour::toggle::Toggle},
    tcp, yamux,
};
use rand_chacha::{ChaCha20Rng, rand_core::SeedableRng};

use super::{
    behaviour::{Carrier, PROTOCOL},
    candidates::Capped,
    config::{NetworkConfig, RelayLimits},
    dht,
    event::StartError,
    identity::keypair,
    link::Registry,
    providers::Providers,
    stall::Stalling,
};

/// Inbound streams of one connection that may be under negotiation: ours, ping, identify and its push, relay, AutoNAT, DHT.
const NEGOTIATING_STREAMS: usize = 32;

/// Streams of one Yamux connection, both directions together. Four are in use in normal times; circuits and queries of the DHT
/// come on top.
const YAMUX_STREAMS: usize = 128;

/// How long a transport may take from the first packet to the end of the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_millis(DIAL_TIMEOUT_MS);

/// Above this part of the machine's memory no new connection is made, where the configuration names no number.
const MEMORY_PART: f64 = 0.75;

#[derive(NetworkBehaviour)]
pub(super) struct Behaviour {
    // First, so that they refuse before the others prepare anything.
    pub(super) carrier: Carrier,
    pub(super) memory: memory_connection_limits::Behaviour,
    pub(super) ping: ping::Behaviour,
    pub(super) identify: identify::Behaviour,
    pub(super) mdns: Toggle<mdns::tokio::Behaviour>,
    pub(super) relay: Toggle<relay::Behaviour>,
    pub(super) circuits: relay::client::Behaviour,
    pub(super) punching: dcutr::Behaviour,
    pub(super) nat: Capped<autonat::v2::client::Behaviour<ChaCha20Rng>>,
    pub(super) dial_back: Toggle<autonat::v2::server::Behaviour>,
    pub(super) dht: kad::Behaviour<Providers>,
}

/// A swarm with the behaviour and the transports of the carrier, listening nowhere yet.
pub(super) fn build_swarm(config: &NetworkConfig, registry: &Arc<Registry>) -> Result<Swarm<Behaviour>, StartError> {
    let keypair = keypair(&config.keypair_secret).ok_or(StartError::Key)?;
    let local = keypair.public().to_peer_id();

    let mdns = if config.mdns {
        let found = mdns::tokio::Behaviour::new(mdns::Config::default(), local)
            .map_err(|error| StartError::Mdns(error.to_string()))?;
        Some(found)
    } else {
        None
    };
    let identify = identify::Behaviour::new(
        identify::Config::new(PROTOCOL.to_string(), keypair.public())
            .with_agent_version(concat!("folklore/", env!("CARGO_PKG_VERSION")).to_owned())
            .with_push_listen_addr_updates(true)
            // The address book above is the only place where addresses of peers are kept.
            .with_cache_size(0)
            .with_hide_listen_addrs(!config.announce.is_empty()),
    );
    let ping =
        ping::Behaviour::new(ping::Config::new().with_interval(config.ping_interval).with_timeout(config.ping_timeout));
    let memory = match config.limits.memory_bytes {
        Some(bytes) => memory_connection_limits::Behaviour::with_max_bytes(bytes),
        None => memory_connection_limits::Behaviour::with_max_percentage(MEMORY_PART),
    };
    let nat = autonat::v2::client::Config::default().with_probe_interval(config.nat_interval);
    let (relayed, circuits) = relay::client::new(local);
    let behaviour = Behaviour {
        carrier: Carrier::new(&config.limits),
        memory,
        ping,
        identify,
        mdns: mdns.into(),
        relay: config.relay.as_ref().map(|limits| relay::Behaviour::new(local, relay_config(limits))).into(),
        circuits,
        punching: dcutr::Behaviour::new(local),
        nat: Capped::new(autonat::v2::client::Behaviour::new(random()?, nat)),
        dial_back: config.relay.as_ref().map(|_| autonat::v2::server::Behaviour::default()).into(),
        dht: dht::behaviour(local),
    };
    let transport = transports(config, &keypair, relayed, registry.clone()).map_err(StartError::Transport)?;
    let settings = swarm::Config::with_tokio_executor().with_max_negotiating_inbound_streams(NEGOTIATING_STREAMS);
    Ok(Swarm::new(transport, behaviour, local, settings))
}

type Transports = Boxed<(PeerId, StreamMuxerBox)>;

/// TCP, under the pre-shared key where there is one; QUIC where it is on; and circuits through relays over these. What a
/// behaviour dials by itself goes through here too, so what is off is not here at all.
fn transports(
    config: &NetworkConfig,
    keypair: &Keypair,
    relayed: relay::client::Transport,
    registry: Arc<Registry>,
) -> Result<Transports, String> {
    let noise = || noise::Config::new(keypair).map_err(|error| error.to_string());
    let mut muxer = yamux::Config::default();
    muxer.set_max_num_streams(YAMUX_STREAMS);
    let stall_after = config.ping_interval.saturating_add(config.ping_timeout);
    let tcp = tcp::tokio::Transport::new(tcp::Config::default().nodelay(true))
        .map(move |stream, _| Stalling::new(stream, stall_after));
    let mut transport: Transports = match config.psk {
        None => tcp
            .upgrade(upgrade::Version::V1Lazy)
            .authenticate(noise()?)
            .multiplex(muxer.clone())
            .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)))
            .boxed(),
        Some(key) => tcp
            .and_then(move |stream, point| {
                let registry = registry.clone();
                async move {
                    let stream = PnetConfig::new(key).handshake(stream).await?;
                    // Only numbers have been exchanged: with another key both now read noise, and mostly wait for more of it.
                    if let ConnectedPoint::Dialer { address, .. } = &point {
                        registry.half_met(address);
                    }
                    Ok::<_, PnetError>(stream)
                }
            })
            .upgrade(upgrade::Version::V1Lazy)
            .authenticate(noise()?)
            .multiplex(muxer.clone())
            .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)))
            .boxed(),
    };
    if config.quic && config.psk.is_none() {
        // Opens no socket until a QUIC address is listened on or dialled.
        transport = quic::tokio::Transport::new(quic::Config::new(keypair))
            .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)))
            .or_transport(transport)
            .map(|either, _| either.into_inner())
            .boxed();
    }
    // End to end under a handshake of its own: a relay carries what it cannot read.
    let relayed = relayed
        .upgrade(upgrade::Version::V1Lazy)
        .authenticate(noise()?)
        .multiplex(muxer)
        .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)));
    let transport = relayed.or_transport(transport).map(|either, _| either.into_inner());
    Ok(TransportTimeout::new(transport, HANDSHAKE_TIMEOUT).boxed())
}

/// Nonces of AutoNAT come from here: whoever guesses one can claim to have been dialled back.
fn random() -> Result<ChaCha20Rng, StartError> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| StartError::Transport(format!("no randomness: {error}")))?;
    Ok(ChaCha20Rng::from_seed(seed))
}

fn relay_config(limits: &RelayLimits) -> relay::Config {
    relay::Config {
        max_reservations: limits.reservations,
        max_circuits: limits.circuits,
        max_circuits_per_peer: limits.circuits_per_peer,
        // libp2p panics over more than 2^32 seconds.
        max_circuit_duration: limits.circuit_time.min(Duration::from_secs(u64::from(u32::MAX))),
        max_circuit_bytes: limits.circuit_bytes,
        ..relay::Config::default()
    }
}
