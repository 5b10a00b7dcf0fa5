//! Addresses: from what people write to what can be dialled.
//!
//! Accepted are `HOST:PORT`, `[V6]:PORT`, and multiaddrs of the shapes
//! `/(ip4|ip6|dns|dns4|dns6)/X/tcp/N` and `…/udp/N/quic-v1`, each with an optional `/p2p/ID` that names the peer
//! expected there; and each of them followed by `/p2p/RELAY/p2p-circuit/p2p/ID`, which is the peer `ID` through the relay
//! that is there. Names are resolved by the system resolver (so `/etc/hosts` counts), never on the swarm task.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use libp2p::{Multiaddr, multiaddr::Protocol};

use super::identity::{PeerKey, from_peer_id, to_peer_id};

/// The longest address text that is looked at, in bytes: a DNS name is at most 253, a peer id 52, the rest is small.
pub const MAX_ADDRESS_TEXT: usize = 512;

/// How many addresses of one name, and of one dial, are tried. Enough for a few A and AAAA records each.
pub const MAX_ADDRESSES: usize = 16;

/// How long the system resolver may take for one name.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Why an address cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The text is no address of an accepted shape.
    #[error("{text:?} is not an address ({why}); write HOST:PORT or /ip4/192.0.2.1/tcp/4001, optionally with /p2p/ID")]
    Malformed {
        /// The text as it was given, shortened.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// It needs QUIC, which the configuration leaves off.
    #[error("{text:?} needs QUIC, which is off (always, where a pre-shared key is used); give a TCP address")]
    QuicOff {
        /// The address.
        text: String,
    },
    /// The name has no address, or the resolver failed.
    #[error("cannot resolve {name:?}: {detail}; check the name and this host's resolver")]
    Unresolved {
        /// The host name.
        name: String,
        /// What the resolver said.
        detail: String,
    },
}

/// Where a host is: known already, or a name to ask the resolver for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Host {
    Ip(IpAddr),
    Name { name: String, family: Family },
}

/// Which addresses of a name are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Any,
    V4,
    V6,
}

/// How the host is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Carrier {
    Tcp,
    Quic,
}

/// A parsed address: host, port, carrier, perhaps the relay that is there, and perhaps the peer that is expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    host: Host,
    port: u16,
    carrier: Carrier,
    /// The relay at the host, where the peer is to be reached through one.
    relay: Option<PeerKey>,
    peer: Option<PeerKey>,
}

impl Address {
    /// Parses any of the accepted shapes (see the module).
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let text = text.trim();
        if text.len() > MAX_ADDRESS_TEXT {
            return Err(malformed(text, "it is too long"));
        }
        if text.starts_with('/') {
            let address = text.parse::<Multiaddr>().map_err(|_| malformed(text, "it is not a multiaddr"))?;
            Self::from_multiaddr(&address).map_err(|why| malformed(text, why))
        } else {
            Self::from_host_port(text).map_err(|why| malformed(text, why))
        }
    }

    /// The peer named by a `/p2p/ID` at the end.
    pub fn peer(&self) -> Option<PeerKey> {
        self.peer
    }

    /// The relay through which the peer is reached.
    pub fn relay(&self) -> Option<PeerKey> {
        self.relay
    }

    /// Whether it is a QUIC address.
    pub fn is_quic(&self) -> bool {
        self.carrier == Carrier::Quic
    }

    /// The address as a multiaddr without `/p2p`, a name still unresolved.
    pub fn to_text(&self) -> String {
        self.multiaddr_without_peer().to_string()
    }

    pub(super) fn from_multiaddr(address: &Multiaddr) -> Result<Self, &'static str> {
        let mut parts = address.iter();
        let host = match parts.next() {
            Some(Protocol::Ip4(ip)) => Host::Ip(ip.into()),
            Some(Protocol::Ip6(ip)) => Host::Ip(ip.into()),
            Some(Protocol::Dns(name)) => named(&name, Family::Any)?,
            Some(Protocol::Dns4(name)) => named(&name, Family::V4)?,
            Some(Protocol::Dns6(name)) => named(&name, Family::V6)?,
            _ => return Err("it must begin with /ip4, /ip6, /dns, /dns4 or /dns6"),
        };
        let (port, carrier) = match parts.next() {
            Some(Protocol::Tcp(port)) => (port, Carrier::Tcp),
            Some(Protocol::Udp(port)) => match parts.next() {
                Some(Protocol::QuicV1) => (port, Carrier::Quic),
                _ => return Err("after /udp/PORT only /quic-v1 is known"),
            },
            _ => return Err("after the host comes /tcp/PORT or /udp/PORT/quic-v1"),
        };
        let named = |part: Option<Protocol<'_>>| match part {
            None => Ok(None),
            Some(Protocol::P2p(id)) => from_peer_id(&id).map(Some).ok_or("its peer id is not of an ed25519 key"),
            Some(_) => Err("only /p2p/ID may follow the port, or /p2p/RELAY/p2p-circuit/p2p/ID"),
        };
        let first = named(parts.next())?;
        let (relay, peer) = match parts.next() {
            None => (None, first),
            Some(Protocol::P2pCircuit) if first.is_some() => (first, named(parts.next())?),
            Some(_) => return Err("after /p2p/ID only /p2p-circuit is known"),
        };
        if parts.next().is_some() {
            return Err("nothing may follow the last /p2p/ID");
        }
        Ok(Self { host, port, carrier, relay, peer })
    }

    fn from_host_port(text: &str) -> Result<Self, &'static str> {
        let address = |host, port| Self { host, port, carrier: Carrier::Tcp, relay: None, peer: None };
        if let Ok(socket) = text.parse::<SocketAddr>() {
            return Ok(address(Host::Ip(socket.ip()), socket.port()));
        }
        let (name, port) = text.rsplit_once(':').ok_or("the port is missing")?;
        let port = port.parse().map_err(|_| "the port is not a number below 65536")?;
        if name.contains(':') {
            return Err("an IPv6 address goes in brackets before the port");
        }
        Ok(address(named(name, Family::Any)?, port))
    }

    /// Whether the host of `address` is this one, to the letter.
    pub(super) fn has_host_of(&self, address: &Multiaddr) -> bool {
        self.multiaddr_without_peer().iter().next() == address.iter().next()
    }

    pub(super) fn multiaddr_without_peer(&self) -> Multiaddr {
        let host = match &self.host {
            Host::Ip(ip) => Protocol::from(*ip),
            Host::Name { name, family } => match family {
                Family::Any => Protocol::Dns(name.as_str().into()),
                Family::V4 => Protocol::Dns4(name.as_str().into()),
                Family::V6 => Protocol::Dns6(name.as_str().into()),
            },
        };
        self.with_host(host)
    }

    fn with_host(&self, host: Protocol<'_>) -> Multiaddr {
        let base = Multiaddr::empty().with(host);
        let there = match self.carrier {
            Carrier::Tcp => base.with(Protocol::Tcp(self.port)),
            Carrier::Quic => base.with(Protocol::Udp(self.port)).with(Protocol::QuicV1),
        };
        match &self.relay {
            None => there,
            Some(relay) => there.with(Protocol::P2p(to_peer_id(relay))).with(Protocol::P2pCircuit),
        }
    }

    /// The multiaddrs to dial or listen on: one where the host is an IP address, else what the system resolver
    /// gives for the name. Never empty, at most [`MAX_ADDRESSES`].
    pub(super) async fn resolve(&self) -> Result<Vec<Multiaddr>, AddressError> {
        let (name, family) = match &self.host {
            Host::Ip(_) => return Ok(vec![self.multiaddr_without_peer()]),
            Host::Name { name, family } => (name, *family),
        };
        let unresolved = |detail: String| AddressError::Unresolved { name: name.clone(), detail };
        let lookup = tokio::net::lookup_host((name.as_str(), self.port));
        let found = tokio::time::timeout(RESOLVE_TIMEOUT, lookup)
            .await
            .map_err(|_| unresolved(format!("no answer in {} s", RESOLVE_TIMEOUT.as_secs())))?
            .map_err(|error| unresolved(error.to_string()))?;
        let mut addresses: Vec<Multiaddr> = Vec::new();
        for socket in found {
            let wanted = match family {
                Family::Any => true,
                Family::V4 => socket.is_ipv4(),
                Family::V6 => socket.is_ipv6(),
            };
            let address = self.with_host(Protocol::from(socket.ip()));
            if wanted && !addresses.contains(&address) && addresses.len() < MAX_ADDRESSES {
                addresses.push(address);
            }
        }
        if addresses.is_empty() {
            return Err(unresolved("it has no address of the wanted family".to_owned()));
        }
        Ok(addresses)
    }
}

/// `address` with `/p2p/ID` of `peer` at its end, the form that others can dial and check. A `/p2p` that is there
/// already is replaced.
pub fn with_peer(address: &str, peer: &PeerKey) -> Result<String, AddressError> {
    let parsed = Address::parse(address)?;
    Ok(parsed.multiaddr_without_peer().with(Protocol::P2p(to_peer_id(peer))).to_string())
}

/// `address` without a `/p2p/ID` at its end.
pub(super) fn without_peer(address: &Multiaddr) -> Multiaddr {
    let mut address = address.clone();
    if let Some(Protocol::P2p(_)) = address.iter().last() {
        address.pop();
    }
    address
}

/// The addresses in a list from a stranger that this node could dial, as text without `/p2p`, bounded.
pub(super) fn dialable<'a>(addresses: impl Iterator<Item = &'a Multiaddr>) -> Vec<String> {
    let mut texts = Vec::new();
    for address in addresses.take(4 * MAX_ADDRESSES) {
        if address.as_ref().len() > MAX_ADDRESS_TEXT {
            continue;
        }
        let Ok(parsed) = Address::from_multiaddr(address) else {
            continue;
        };
        let text = parsed.to_text();
        if !texts.contains(&text) {
            texts.push(text);
        }
        if texts.len() == MAX_ADDRESSES {
            break;
        }
    }
    texts
}

/// How far an address reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    /// This machine.
    Loopback,
    /// A network behind a router: RFC 1918 and 6598, link-local, unique local.
    Private,
    /// Anywhere. A host name counts as such.
    Global,
}

/// The scope of an address, of its relay where it goes through one; `None` where it does not begin with a host.
pub(super) fn scope(address: &Multiaddr) -> Option<Scope> {
    match address.iter().next()? {
        Protocol::Ip4(ip) => Some(scope_of(ip.into())),
        Protocol::Ip6(ip) => Some(scope_of(ip.into())),
        Protocol::Dns(_) | Protocol::Dns4(_) | Protocol::Dns6(_) => Some(Scope::Global),
        _ => None,
    }
}

fn scope_of(ip: IpAddr) -> Scope {
    let ip = ip.to_canonical();
    let private = match ip {
        IpAddr::V4(ip) => {
            let shared = ip.octets()[0] == 100 && ip.octets()[1] & 0xc0 == 64;
            ip.is_private() || ip.is_link_local() || shared
        }
        IpAddr::V6(ip) => ip.is_unique_local() || ip.is_unicast_link_local(),
    };
    match (ip.is_loopback() || ip.is_unspecified(), private) {
        (true, _) => Scope::Loopback,
        (false, true) => Scope::Private,
        (false, false) => Scope::Global,
    }
}

/// Whether an address goes through a relay.
pub(super) fn is_relayed(address: &Multiaddr) -> bool {
    address.iter().any(|part| part == Protocol::P2pCircuit)
}

fn named(name: &str, family: Family) -> Result<Host, &'static str> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    if name.is_empty() || name.len() > 253 || !name.bytes().all(plain) {
        return Err("the host is neither an IP address nor a host name");
    }
    Ok(Host::Name { name: name.to_owned(), family })
}

fn malformed(text: &str, why: &'static str) -> AddressError {
    AddressError::Malformed { text: text.chars().take(120).collect(), why }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text_of(address: &str) -> Result<String, AddressError> {
        Address::parse(address).map(|a| a.to_text())
    }

    #[test]
    fn plain_host_and_port_become_multiaddrs() {
        assert_eq!(text_of("127.0.0.1:4001"), Ok("/ip4/127.0.0.1/tcp/4001".into()));
        assert_eq!(text_of("[::1]:4001"), Ok("/ip6/::1/tcp/4001".into()));
        assert_eq!(text_of(" node-b.example:4001 "), Ok("/dns/node-b.example/tcp/4001".into()));
    }

    #[test]
    fn accepted_multiaddrs_keep_their_form() {
        for text in [
            "/ip4/192.0.2.1/tcp/1",
            "/ip6/2001:db8::1/udp/2/quic-v1",
            "/dns4/a.example/tcp/3",
            "/dns6/a.example/tcp/3",
            "/dns/a.example/udp/3/quic-v1",
        ] {
            assert_eq!(text_of(text).as_deref(), Ok(text));
        }
    }

    #[test]
    fn the_peer_suffix_is_parsed_added_and_replaced() {
        let (one, two) = ([1u8; 32], [2u8; 32]);
        let with_one = with_peer("127.0.0.1:9", &one).expect("it parses");
        assert_eq!(Address::parse(&with_one).expect("it parses").peer(), Some(one));
        let with_two = with_peer(&with_one, &two).expect("it parses");
        assert_eq!(Address::parse(&with_two).expect("it parses").peer(), Some(two));
        assert_eq!(with_two.matches("/p2p/").count(), 1);
        let bare = without_peer(&with_two.parse().expect("it parses"));
        assert_eq!(bare.to_string(), "/ip4/127.0.0.1/tcp/9");
    }

    #[test]
    fn a_peer_behind_a_relay_is_named_with_the_relay() {
        let (relay, peer) = (super::super::peer_id_text(&[1; 32]), super::super::peer_id_text(&[2; 32]));
        let text = format!("/ip4/192.0.2.1/tcp/4001/p2p/{relay}/p2p-circuit/p2p/{peer}");
        let address = Address::parse(&text).expect("it parses");
        assert_eq!((address.relay(), address.peer()), (Some([1; 32]), Some([2; 32])));
        assert_eq!(format!("{}/p2p/{peer}", address.to_text()), text);
        assert_eq!(with_peer(&address.to_text(), &[2; 32]), Ok(text.clone()));
        let whole: Multiaddr = text.parse().expect("a multiaddr");
        assert!(is_relayed(&whole));
        assert_eq!(without_peer(&whole).to_string(), address.to_text());
        assert_eq!(dialable([&whole].into_iter()), [address.to_text()]);
    }

    #[test]
    fn the_scope_of_an_address_is_told_from_its_host() {
        let of = |text: &str| scope(&text.parse().expect("a multiaddr"));
        for (text, wanted) in [
            ("/ip4/127.0.0.1/tcp/1", Scope::Loopback),
            ("/ip6/::1/tcp/1", Scope::Loopback),
            ("/ip6/::ffff:127.0.0.1/tcp/1", Scope::Loopback),
            ("/ip4/10.1.2.3/tcp/1", Scope::Private),
            ("/ip4/100.64.0.1/tcp/1", Scope::Private),
            ("/ip4/169.254.169.254/tcp/80", Scope::Private),
            ("/ip6/fd00::1/tcp/1", Scope::Private),
            ("/ip4/8.8.8.8/udp/1/quic-v1", Scope::Global),
            ("/dns/a.example/tcp/1", Scope::Global),
        ] {
            assert_eq!(of(text), Some(wanted), "{text}");
        }
        assert_eq!(of("/tcp/1"), None);
    }

    #[test]
    fn other_shapes_are_refused_with_a_reason() {
        for text in [
            "",
            "host",
            "host:",
            ":1",
            "host:70000",
            "::1:80",
            "a b:80",
            "/ip4/127.0.0.1",
            "/ip4/127.0.0.1/udp/1",
            "/ip4/127.0.0.1/tcp/1/ws",
            "/tcp/1",
            "/dnsaddr/a.example/tcp/1",
            "/unix/x",
            "/ip4/127.0.0.1/tcp/1/p2p-circuit",
            "/ip4/127.0.0.1/tcp/1/p2p/12D3KooWK99VoVxNE7XzyBwXEzW7xhK7Gpv85r9F3V3fyKSUKPH5/p2p-circuit/tcp/1",
            "/ip4/127.0.0.1/tcp/1/p2p/QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N",
        ] {
            assert!(matches!(Address::parse(text), Err(AddressError::Malformed { .. })), "{text}");
        }
        assert!(Address::parse(&"a".repeat(MAX_ADDRESS_TEXT + 1)).is_err());
    }

    #[test]
    fn a_strangers_list_is_filtered_and_bounded() {
        let mut list: Vec<Multiaddr> = vec![
            "/ip4/127.0.0.1/tcp/1/ws".parse().expect("a multiaddr"),
            "/ip4/127.0.0.1/tcp/1".parse().expect("a multiaddr"),
            "/ip4/127.0.0.1/tcp/1".parse().expect("a multiaddr"),
        ];
        for port in 2..100u16 {
            list.push(format!("/ip4/127.0.0.1/tcp/{port}").parse().expect("a multiaddr"));
        }
        let texts = dialable(list.iter());
        assert_eq!(texts.len(), MAX_ADDRESSES);
        assert_eq!(texts.first().map(String::as_str), Some("/ip4/127.0.0.1/tcp/1"));
        assert_eq!(texts.get(1).map(String::as_str), Some("/ip4/127.0.0.1/tcp/2"));
    }

    #[tokio::test]
    async fn a_name_resolves_to_the_wanted_family() {
        let v4 = Address::parse("/dns4/localhost/tcp/7").expect("it parses");
        let found = v4.resolve().await.expect("localhost resolves");
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), ["/ip4/127.0.0.1/tcp/7"]);
        let none = Address::parse("name.invalid:7").expect("it parses");
        assert!(matches!(none.resolve().await, Err(AddressError::Unresolved { .. })));
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in ".{0,80}") {
            if let Ok(address) = Address::parse(&text) {
                prop_assert_eq!(Address::parse(&address.to_text()).map(|a| a.to_text()), Ok(address.to_text()));
            }
        }
    }
}
