//! One dial: which addresses are still to be tried, and how libp2p's errors are told.

use libp2p::{
    Multiaddr, TransportError,
    memory_connection_limits::MemoryUsageLimitExceeded,
    swarm::{
        DialError as SwarmDialError,
        dial_opts::{DialOpts, PeerCondition},
    },
};
use tokio::sync::OwnedSemaphorePermit;

use super::{
    addr::{Address, MAX_ADDRESSES, without_peer},
    behaviour::Refusal,
    event::{DialError, DialTarget},
    identity::{PeerKey, from_peer_id, to_peer_id},
};

/// A dial with its addresses resolved. Holds its place among the dials under way until its outcome is told.
pub(super) struct Attempt {
    pub(super) target: DialTarget,
    pub(super) permit: OwnedSemaphorePermit,
    expected: Option<PeerKey>,
    /// Not yet tried; of a known peer all are tried together, and those where somebody else answered are taken out.
    remaining: Vec<Multiaddr>,
    /// Through relays: tried when nothing else led anywhere.
    relayed: Vec<Multiaddr>,
    /// The error worth telling if all fails.
    error: Option<DialError>,
}

/// The parsed addresses of a target, and the peer that all of them agree on.
pub(super) fn parse(target: &DialTarget, quic: bool) -> Result<(Vec<Address>, Option<PeerKey>), DialError> {
    let mut expected = target.peer;
    let mut addresses = Vec::new();
    let mut refused = None;
    for text in target.addresses.iter().take(MAX_ADDRESSES) {
        let address = match Address::parse(text) {
            Ok(address) if address.is_quic() && !quic => {
                refused = Some(super::AddressError::QuicOff { text: text.clone() });
                continue;
            }
            Ok(address) => address,
            Err(error) => {
                refused = Some(error);
                continue;
            }
        };
        if let Some(named) = address.peer()
            && *expected.get_or_insert(named) != named
        {
            return Err(DialError::ConflictingPeers);
        }
        addresses.push(address);
    }
    if expected.is_none() && addresses.iter().any(|a| a.relay().is_some()) {
        return Err(DialError::RelayedWithoutPeer);
    }
    match (addresses.is_empty(), refused) {
        (true, Some(error)) => Err(error.into()),
        (true, None) => Err(DialError::NoAddress),
        (false, _) => Ok((addresses, expected)),
    }
}

impl Attempt {
    /// Resolves the addresses of a target. Waits for the resolver, so not for the swarm task.
    pub(super) async fn resolve(
        target: DialTarget,
        addresses: Vec<Address>,
        expected: Option<PeerKey>,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let (mut remaining, mut relayed): (Vec<Multiaddr>, Vec<Multiaddr>) = (Vec::new(), Vec::new());
        let mut error = None;
        for address in addresses {
            match address.resolve().await {
                Ok(found) => {
                    for one in found {
                        let list = if address.relay().is_some() { &mut relayed } else { &mut remaining };
                        if list.len() < MAX_ADDRESSES && !list.contains(&one) {
                            list.push(one);
                        }
                    }
                }
                Err(failure) => error = Some(failure.into()),
            }
        }
        Self { target, permit, expected, remaining, relayed, error }
    }

    /// The peer that must answer, if that is known.
    pub(super) fn expected(&self) -> Option<PeerKey> {
        self.expected
    }

    /// Ends the attempt before a dial is made.
    pub(super) fn refuse(&mut self, error: DialError) {
        self.give_up_all();
        self.error = Some(error);
    }

    fn give_up_all(&mut self) {
        self.remaining.clear();
        self.relayed.clear();
    }

    /// The next dial to make, or `None` when nothing is left to try.
    pub(super) fn next(&mut self, from_listening: bool) -> Option<DialOpts> {
        if self.remaining.is_empty() {
            self.remaining = std::mem::take(&mut self.relayed);
        }
        if self.remaining.is_empty() {
            return None;
        }
        // Not from the listening port if it can be helped: when two nodes dial each other from and to their listening ports
        // at the same moment, TCP makes one connection of it with two dialers, and the handshake fails on both. A relay that
        // this node wants to be reached through is dialled so: it sees the NAT's mapping of the port.
        Some(match (&self.expected, from_listening) {
            (Some(key), false) => DialOpts::peer_id(to_peer_id(key))
                .condition(PeerCondition::Always)
                .addresses(self.remaining.clone())
                .allocate_new_port()
                .build(),
            (Some(key), true) => DialOpts::peer_id(to_peer_id(key))
                .condition(PeerCondition::Always)
                .addresses(self.remaining.clone())
                .build(),
            (None, false) => DialOpts::unknown_peer_id().address(self.remaining.remove(0)).allocate_new_port().build(),
            (None, true) => DialOpts::unknown_peer_id().address(self.remaining.remove(0)).build(),
        })
    }

    /// Notes how a dial failed, and leaves what is still worth trying. `strangers` says of an address whether somebody there
    /// did answer, under another pre-shared key than this node's.
    pub(super) fn failed(&mut self, error: SwarmDialError, strangers: impl Fn(&Multiaddr) -> bool) {
        let told = match error {
            SwarmDialError::WrongPeerId { obtained, address } => {
                if self.expected.is_some() {
                    let wrong = without_peer(&address);
                    let before = self.remaining.len();
                    self.remaining.retain(|a| *a != wrong);
                    if self.remaining.len() == before {
                        self.remaining.clear();
                    }
                }
                DialError::WrongPeer { found: from_peer_id(&obtained) }
            }
            SwarmDialError::Transport(failures) => {
                if self.expected.is_some() {
                    self.remaining.clear();
                }
                match failures.iter().any(|(address, _)| strangers(address)) {
                    true => DialError::PreSharedKey(describe(&failures)),
                    false => DialError::Unreachable(describe(&failures)),
                }
            }
            SwarmDialError::Denied { cause } => {
                let refusal = cause.downcast_ref::<Refusal>().copied();
                let memory = cause.downcast_ref::<MemoryUsageLimitExceeded>().is_some();
                // Another address of the same target would be refused as well.
                self.give_up_all();
                match refusal {
                    None if memory => DialError::OutOfMemory,
                    Some(Refusal::Blocked) => DialError::Blocked,
                    Some(Refusal::NotEd25519) => DialError::NotEd25519,
                    Some(Refusal::Full) => DialError::Full,
                    Some(Refusal::Redundant(peer)) => DialError::AlreadyConnected(peer),
                    Some(
                        Refusal::TooManyConnections
                        | Refusal::TooManyHandshakes
                        | Refusal::TooManyDials
                        | Refusal::NotItsNetwork,
                    )
                    | None => DialError::Unreachable(cause.to_string()),
                }
            }
            SwarmDialError::DialPeerConditionFalse(_) => {
                self.give_up_all();
                DialError::AlreadyDialing
            }
            SwarmDialError::LocalPeerId { .. } => {
                self.give_up_all();
                DialError::OwnIdentity
            }
            SwarmDialError::NoAddresses => {
                self.remaining.clear();
                DialError::NoAddress
            }
            SwarmDialError::Aborted => {
                self.give_up_all();
                DialError::Unreachable("the dial was given up".to_owned())
            }
        };
        // That somebody else answered says more than that another address was silent.
        if !matches!(self.error, Some(DialError::WrongPeer { .. })) {
            self.error = Some(told);
        }
    }

    /// The outcome of a dial that has nothing left to try.
    pub(super) fn give_up(self) -> (DialTarget, DialError, OwnedSemaphorePermit) {
        let error = self.error.unwrap_or(DialError::NoAddress);
        (self.target, error, self.permit)
    }
}

fn describe(failures: &[(Multiaddr, TransportError<std::io::Error>)]) -> String {
    let mut text = String::new();
    for (address, error) in failures.iter().take(MAX_ADDRESSES) {
        if !text.is_empty() {
            text.push_str("; ");
        }
        text.push_str(&format!("{}: {}", without_peer(address), transport_error_text(error)));
    }
    text
}

/// libp2p's own text of a transport error is empty where the operating system gave the reason.
pub(super) fn transport_error_text(error: &TransportError<std::io::Error>) -> String {
    match error {
        TransportError::MultiaddrNotSupported(address) => format!("{address} is not supported"),
        TransportError::Other(error) => error.to_string(),
    }
}
