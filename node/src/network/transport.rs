//! How the swarm is put together: transports, limits of streams, behaviours.

use std::time::Duration;

use libp2p::{
    Swarm, SwarmBuilder, Transport,
    core::upgrade,
    identify, mdns, noise, ping,
    swarm::{NetworkBehaviour, behaviour::toggle::Toggle},
    tcp, yamux,
};

use super::{
    behaviour::{Carrier, PROTOCOL},
    config::NetworkConfig,
    event::StartError,
    identity::keypair,
    stall::Stalling,
};

/// Inbound streams of one connection that may be under negotiation: ours, ping, identify and its push.
const NEGOTIATING_STREAMS: usize = 16;

/// Streams of one Yamux connection, both directions together. Four are in use in normal times.
const YAMUX_STREAMS: usize = 64;

/// How long a transport may take from the first packet to the end of the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(NetworkBehaviour)]
pub(super) struct Behaviour {
    // First, so that it refuses before the others prepare anything.
    pub(super) carrier: Carrier,
    pub(super) ping: ping::Behaviour,
    pub(super) identify: identify::Behaviour,
    pub(super) mdns: Toggle<mdns::tokio::Behaviour>,
}

/// A swarm with the behaviour and the transports of the carrier, listening nowhere yet.
pub(super) fn build_swarm(config: &NetworkConfig) -> Result<Swarm<Behaviour>, StartError> {
    let keypair = keypair(&config.keypair_secret).ok_or(StartError::Key)?;
    let local = keypair.public().to_peer_id();
    let transport_error = |error: &dyn std::fmt::Display| StartError::Transport(error.to_string());

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
    let behaviour = Behaviour { carrier: Carrier::new(&config.limits), ping, identify, mdns: mdns.into() };

    let mut yamux = yamux::Config::default();
    yamux.set_max_num_streams(YAMUX_STREAMS);
    let stall_after = config.ping_interval.saturating_add(config.ping_timeout);
    let tcp = tcp::tokio::Transport::new(tcp::Config::default().nodelay(true))
        .map(move |stream, _| Stalling::new(stream, stall_after))
        .upgrade(upgrade::Version::V1Lazy)
        .authenticate(noise::Config::new(&keypair).map_err(|error| transport_error(&error))?)
        .multiplex(yamux);
    let swarm = SwarmBuilder::with_existing_identity(keypair)
        .with_tokio()
        // Opens no socket until a QUIC address is listened on or dialled, and those are refused when it is off.
        .with_quic()
        .with_other_transport(|_| tcp)
        .map_err(|error| transport_error(&error))?
        .with_behaviour(move |_| behaviour)
        .map_err(|error| transport_error(&error))?
        .with_swarm_config(|swarm| swarm.with_max_negotiating_inbound_streams(NEGOTIATING_STREAMS))
        .with_connection_timeout(HANDSHAKE_TIMEOUT)
        .build();
    Ok(swarm)
}
