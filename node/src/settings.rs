//! `network.json` in the home: how the node connects, for what does not change from start to start.
//!
//! ```json
//! {
//!   "listen": ["0.0.0.0:4001"], "announce": [], "peers": [], "bootstrap": ["node.example:4001"], "via": [],
//!   "mdns": false, "quic": true, "relay": false, "use_relays": true, "dht": false, "psk": "swarm.key",
//!   "limits": { "max_peers": 128, "max_inbound_peers": 96, "connections_per_peer": 4, "pending_inbound": 64,
//!               "pending_dials": 64, "memory_mib": 2048 },
//!   "relay_limits": { "reservations": 128, "circuits": 64, "circuits_per_peer": 8, "circuit_seconds": 900,
//!                     "circuit_kib": 8192 }
//! }
//! ```
//!
//! Every field may be left out, and a field that is not known is an error, so that a misspelt limit is no limit silently lost.
//! What the command line says comes on top: lists are joined (but for `listen` and `announce`, where it takes their place), and
//! a switch that either sets is set.

use std::{path::PathBuf, time::Duration};

use serde::Deserialize;

use crate::{
    api::UpOptions,
    network::{NetworkLimits, RelayLimits},
};

/// What the file says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkSettings {
    listen: Vec<String>,
    announce: Vec<String>,
    peers: Vec<String>,
    bootstrap: Vec<String>,
    via: Vec<String>,
    mdns: bool,
    quic: Option<bool>,
    relay: bool,
    use_relays: Option<bool>,
    dht: bool,
    psk: Option<PathBuf>,
    limits: Limits,
    relay_limits: Relayed,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Limits {
    max_peers: Option<usize>,
    max_inbound_peers: Option<usize>,
    connections_per_peer: Option<usize>,
    pending_inbound: Option<usize>,
    pending_dials: Option<usize>,
    memory_mib: Option<usize>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Relayed {
    reservations: Option<usize>,
    circuits: Option<usize>,
    circuits_per_peer: Option<usize>,
    circuit_seconds: Option<u64>,
    circuit_kib: Option<u64>,
}

impl NetworkSettings {
    /// Reads the file's text.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let settings: Self = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let addresses = [&settings.listen, &settings.announce, &settings.peers, &settings.bootstrap, &settings.via];
        for address in addresses.into_iter().flatten() {
            crate::network::Address::parse(address).map_err(|error| error.to_string())?;
        }
        let l = &settings.limits;
        for (name, value) in [
            ("max_peers", l.max_peers),
            ("max_inbound_peers", l.max_inbound_peers),
            ("connections_per_peer", l.connections_per_peer),
            ("pending_inbound", l.pending_inbound),
            ("pending_dials", l.pending_dials),
            ("memory_mib", l.memory_mib),
        ] {
            if value == Some(0) {
                return Err(format!("{name} is 0, and nobody could ever connect: leave it out, or give a number"));
            }
        }
        Ok(settings)
    }

    /// What the command line says, on top of the file. `psk` in the file is relative to the home.
    pub fn under(self, mut options: UpOptions, home: &std::path::Path) -> UpOptions {
        if options.listen.is_empty() && !options.no_listen {
            options.listen = self.listen;
        }
        if options.announce.is_empty() {
            options.announce = self.announce;
        }
        options.peers.extend(self.peers);
        options.bootstrap.extend(self.bootstrap);
        options.via.extend(self.via);
        options.mdns |= self.mdns;
        options.relay |= self.relay;
        options.dht |= self.dht;
        options.quic &= self.quic.unwrap_or(true);
        options.use_relays &= self.use_relays.unwrap_or(true);
        options.psk = options.psk.or(self.psk.map(|path| home.join(path)));
        self.limits.set(&mut options.limits);
        self.relay_limits.set(&mut options.relay_limits);
        options
    }
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

impl Limits {
    fn set(self, limits: &mut NetworkLimits) {
        set(&mut limits.max_peers, self.max_peers);
        set(&mut limits.max_inbound_peers, self.max_inbound_peers);
        set(&mut limits.connections_per_peer, self.connections_per_peer);
        set(&mut limits.pending_inbound, self.pending_inbound);
        set(&mut limits.pending_dials, self.pending_dials);
        if let Some(mib) = self.memory_mib {
            limits.memory_bytes = Some(mib.saturating_mul(1024 * 1024));
        }
    }
}

impl Relayed {
    fn set(self, limits: &mut RelayLimits) {
        set(&mut limits.reservations, self.reservations);
        set(&mut limits.circuits, self.circuits);
        set(&mut limits.circuits_per_peer, self.circuits_per_peer);
        set(&mut limits.circuit_time, self.circuit_seconds.map(Duration::from_secs));
        set(&mut limits.circuit_bytes, self.circuit_kib.map(|kib| kib.saturating_mul(1024)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_this_module_is_a_file_that_reads() {
        let source = include_str!("settings.rs");
        let page: Vec<&str> = source.lines().filter_map(|line| line.strip_prefix("//! ")).collect();
        let from = page.iter().position(|line| *line == "```json").expect("an example");
        let text: String = page[from + 1..].iter().take_while(|line| **line != "```").copied().collect();
        let settings = NetworkSettings::parse(text.as_bytes()).expect("it reads");
        let options = settings.under(UpOptions::default(), std::path::Path::new("/home/x"));
        // What the page shows are the defaults, but for what it is there to show.
        assert_eq!(options.limits.max_peers, NetworkLimits::default().max_peers);
        assert_eq!(options.limits.memory_bytes, Some(2 << 30));
        assert_eq!(options.relay_limits, RelayLimits::default());
        assert_eq!(options.psk, Some("/home/x/swarm.key".into()));
        assert_eq!(options.bootstrap, ["node.example:4001"]);
    }

    #[test]
    fn a_slip_is_an_error_that_names_it() {
        for (text, named) in [
            (r#"{"max_peers": 3}"#, "max_peers"),
            (r#"{"limits": {"max_piers": 3}}"#, "max_piers"),
            (r#"{"bootstrap": ["nonsense"]}"#, "nonsense"),
            (r#"{"limits": {"max_peers": 0}}"#, "max_peers"),
            ("[", "EOF"),
        ] {
            let error = NetworkSettings::parse(text.as_bytes()).expect_err(text);
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn the_command_line_comes_on_top() {
        let file = r#"{"listen": ["0.0.0.0:1"], "peers": ["a:1"], "relay": true, "quic": false, "psk": "file.key"}"#;
        let settings = NetworkSettings::parse(file.as_bytes()).expect("it reads");
        let told = UpOptions {
            listen: vec!["0.0.0.0:2".into()],
            peers: vec!["b:2".into()],
            psk: Some("/told.key".into()),
            ..UpOptions::default()
        };
        let options = settings.clone().under(told, std::path::Path::new("/h"));
        assert_eq!(options.listen, ["0.0.0.0:2"]);
        assert_eq!(options.peers, ["b:2", "a:1"]);
        assert_eq!(options.psk, Some("/told.key".into()));
        assert!(options.relay && !options.quic && options.use_relays);
        let hidden = UpOptions { no_listen: true, ..UpOptions::default() };
        assert!(settings.under(hidden, std::path::Path::new("/h")).listen.is_empty());
    }
}
