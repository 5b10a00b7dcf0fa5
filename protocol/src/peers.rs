//! The address book: whom this node knows, how to reach them, when to dial again, and how complete it is with each.
//!
//! Whom a person, a ticket or the configuration named is dialled for ever. Others that are known to hold a bank of this node's
//! are candidates for its neighbourhood: they are dialled for ever too, but only while fewer than [`WANTED_NEIGHBOURS`] are
//! connected, first those whose network ([`AddressGroup`]) has no neighbour yet, and never more than [`NEIGHBOURS_PER_GROUP`]
//! of one network. Addresses are cheap within one network and dear over many: whoever wants to surround a node, and so decide
//! what it hears, needs hosts all over the internet (eclipse attacks on Bitcoin's peer-to-peer network, Heilman et al.,
//! USENIX Security 2015; their remedy is the same).

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use rand_chacha::ChaCha8Rng;
use rand_core::Rng;

use crate::{
    bank::BankId,
    config::{Config, DIAL_GIVEN_UP_MS, MAX_ADDRESS_BYTES, MAX_ADDRESSES, MAX_PEERS, STRUCK_OUT_MS},
    identity::AuthorId,
    message::{BankTag, GreetedBank},
    time::Time,
};

/// Neighbours that are enough: of peers that nobody named, no more are dialled while so many peers are connected. Announcements
/// reach thousands of nodes over a tree of much lower degree, and each neighbour costs a comparison of roots now and then.
pub const WANTED_NEIGHBOURS: usize = 32;
/// Peers that nobody named, connected or being dialled, of one network.
pub const NEIGHBOURS_PER_GROUP: usize = 4;
/// A candidate that has no place is looked at again after this, milliseconds.
const NO_PLACE_MS: u64 = 15_000;

/// The network an address belongs to, as far as that says who can hand out addresses in it: the /16 of an IPv4 address, the /32
/// of an IPv6 address, about what one provider has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressGroup {
    /// The first two bytes.
    V4([u8; 2]),
    /// The first four bytes.
    V6([u8; 4]),
}

impl AddressGroup {
    /// The group of a multiaddress; of the relay, where it goes through one. `None` for addresses of this machine and of
    /// private networks, which are no stranger's to choose, and for names: they are bounded by nothing but their number.
    pub fn of(address: &str) -> Option<Self> {
        let mut parts = address.split('/');
        if parts.next() != Some("") {
            return None;
        }
        let ip: IpAddr = match (parts.next()?, parts.next()?) {
            ("ip4", ip) => IpAddr::V4(ip.parse().ok()?),
            ("ip6", ip) => ip.parse::<Ipv6Addr>().ok()?.to_canonical(),
            _ => return None,
        };
        match ip {
            IpAddr::V4(ip) => (!is_near_v4(ip)).then(|| {
                let [a, b, ..] = ip.octets();
                Self::V4([a, b])
            }),
            IpAddr::V6(ip) => {
                let near =
                    ip.is_loopback() || ip.is_unspecified() || ip.is_unique_local() || ip.is_unicast_link_local();
                let [a, b, c, d, ..] = ip.octets();
                (!near).then_some(Self::V6([a, b, c, d]))
            }
        }
    }
}

fn is_near_v4(ip: Ipv4Addr) -> bool {
    let [a, b, ..] = ip.octets();
    let carrier_grade = a == 100 && b & 0xc0 == 64;
    ip.is_loopback() || ip.is_unspecified() || ip.is_private() || ip.is_link_local() || carrier_grade
}

/// What can be dialled: a known peer, or an address whose peer will be known once it answers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum DialTarget {
    /// A peer, at any of its addresses.
    Peer(AuthorId),
    /// Whoever is at an address.
    Address(String),
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Dialling {
    /// Doubles the wait each time; a connection that ended counts too.
    doublings: u32,
    /// Dials that came to nothing.
    in_vain: u32,
    /// A dial is under way since then.
    under_way: Option<Time>,
    /// Not before.
    pub(crate) due: Option<Time>,
}

impl Dialling {
    /// When to dial next: when due, or when a dial whose outcome nobody told has taken too long. (A dial to a name can end in
    /// a connection that tells only the address behind the name.)
    fn next(&self) -> Option<Time> {
        match self.under_way {
            Some(since) => Some(since + DIAL_GIVEN_UP_MS),
            None => self.due,
        }
    }

    fn begin(&mut self, now: Time) {
        self.under_way = Some(now);
        self.due = None;
    }

    fn failed(&mut self, config: &Config, rng: &mut ChaCha8Rng, now: Time) {
        let doubled = config.dial_backoff_ms.saturating_mul(1 << self.doublings.min(16));
        let base = doubled.min(config.dial_backoff_cap_ms);
        self.doublings = self.doublings.saturating_add(1);
        self.under_way = None;
        self.due = Some(now + jittered(base, rng));
    }
}

/// `ms`, a quarter more or less, so that nodes that lost a hub together do not return together.
pub(crate) fn jittered(ms: u64, rng: &mut ChaCha8Rng) -> u64 {
    let spread = ms / 2;
    ms - spread / 2 + rng.next_u64() % (spread + 1)
}

/// What is known of one peer.
#[derive(Debug, Clone, Default)]
pub struct Peer {
    /// Where it was reached or said to be, best first.
    pub addresses: Vec<String>,
    /// Whether a connection stands.
    pub connected: bool,
    /// Whether it greeted on this connection.
    pub greeted: bool,
    /// Banks it has shown that it knows, on this connection or the last.
    pub banks: BTreeSet<BankId>,
    /// When a reconcile with it last ended.
    pub last_sync: Option<Time>,
    /// Records that came from it and were new, since this node started.
    pub records_in: u64,
    /// Records sent to it, repeats included, since this node started.
    pub records_out: u64,
    /// For each bank: everything the peer held at this time is here.
    pub complete_as_of: BTreeMap<BankId, Time>,
    /// Dialled for ever: named, or known to hold a bank of this node's.
    pub(crate) keep: bool,
    /// Given by a person, a ticket or the configuration: dialled whatever network it is in.
    pub(crate) named: bool,
    /// When it was last to be dialled there was no place for it in the neighbourhood.
    waits: bool,
    /// Banks whose regular comparison is armed for this connection.
    pub(crate) compared_regularly: Vec<BankId>,
    /// What it greeted with; few, so a list takes less than a map.
    pub(crate) tags: Vec<GreetedBank>,
    pub(crate) dialling: Dialling,
    pub(crate) strikes: u32,
    /// It broke the protocol too often: not let in before this.
    pub(crate) barred_until: Option<Time>,
    pub(crate) timeouts: u32,
    /// Loads and searches under way for it.
    pub(crate) served: usize,
    /// Which connection this is, so that a timer of an earlier one does nothing.
    pub(crate) connection: u64,
}

impl Peer {
    /// What it greeted with under a tag.
    pub(crate) fn greeted_with(&self, tag: &BankTag) -> Option<&GreetedBank> {
        self.tags.iter().find(|greeted| greeted.tag == *tag)
    }

    /// Whether it is dialled for ever: a person, a ticket or the address book named it, or it shares a bank.
    pub fn is_kept(&self) -> bool {
        self.keep
    }

    /// Whether a person, a ticket or the configuration named it.
    pub fn is_named(&self) -> bool {
        self.named
    }

    /// Whether it is not dialled for now, since the neighbourhood has no place for it.
    pub fn waits_for_place(&self) -> bool {
        self.waits && !self.connected
    }

    /// When it is dialled next, if it is away and dialled at all.
    pub fn next_dial(&self) -> Option<Time> {
        if self.connected || self.addresses.is_empty() { None } else { self.dialling.next() }
    }

    /// Dials that came to nothing since it was last connected.
    pub fn failures(&self) -> u32 {
        self.dialling.in_vain
    }

    /// Until when it is shut out for breaking the protocol.
    pub fn barred_until(&self) -> Option<Time> {
        self.barred_until
    }

    /// The network it counts for: that of its best address.
    fn group(&self) -> Option<AddressGroup> {
        self.addresses.first().and_then(|address| AddressGroup::of(address))
    }
}

/// All peers.
#[derive(Debug, Clone, Default)]
pub struct Peers {
    /// Boxed, as a map keeps room for more than it has.
    by_id: BTreeMap<AuthorId, Box<Peer>>,
    unnamed: BTreeMap<String, Dialling>,
}

impl Peers {
    /// A peer, if known.
    pub fn get(&self, id: &AuthorId) -> Option<&Peer> {
        self.by_id.get(id).map(Box::as_ref)
    }

    pub(crate) fn get_mut(&mut self, id: &AuthorId) -> Option<&mut Peer> {
        self.by_id.get_mut(id).map(Box::as_mut)
    }

    /// Every peer, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (&AuthorId, &Peer)> {
        self.by_id.iter().map(|(id, peer)| (id, peer.as_ref()))
    }

    /// Connected peers that share `bank`, ascending.
    pub fn sharing(&self, bank: &BankId) -> Vec<AuthorId> {
        self.by_id.iter().filter(|(_, p)| p.greeted && p.banks.contains(bank)).map(|(id, _)| *id).collect()
    }

    /// Connected peers, ascending.
    pub fn connected(&self) -> Vec<AuthorId> {
        self.by_id.iter().filter(|(_, p)| p.connected).map(|(id, _)| *id).collect()
    }

    /// Addresses that were named and whose peer is not known yet, each with when it is dialled next and how often it failed.
    pub fn unnamed(&self) -> impl Iterator<Item = (&str, Option<Time>, u32)> {
        self.unnamed.iter().map(|(address, dialling)| (address.as_str(), dialling.next(), dialling.in_vain))
    }

    /// Notes that a peer is said to hold a bank of this node's: a candidate.
    pub(crate) fn found(&mut self, id: AuthorId, address: String, now: Time) {
        let named = self.get(&id).is_some_and(|p| p.named);
        self.learn(id, address, true, now);
        if let Some(peer) = self.by_id.get_mut(&id) {
            peer.named = named;
        }
    }

    /// Notes where a peer may be; true if that is news. `keep`: it was named, dial it for ever.
    pub(crate) fn learn(&mut self, id: AuthorId, address: String, keep: bool, now: Time) -> bool {
        if address.len() > MAX_ADDRESS_BYTES {
            return false;
        }
        if !self.by_id.contains_key(&id) {
            self.make_room();
        }
        let peer = self.by_id.entry(id).or_default();
        peer.keep |= keep;
        peer.named |= keep;
        if peer.keep && !peer.connected && peer.dialling.due.is_none() && peer.dialling.under_way.is_none() {
            peer.dialling.due = Some(now);
        }
        if peer.addresses.contains(&address) {
            return false;
        }
        peer.addresses.push(address);
        if peer.addresses.len() > MAX_ADDRESSES {
            peer.addresses.remove(MAX_ADDRESSES - 1);
        }
        true
    }

    /// Notes an address whose peer is not known yet.
    pub(crate) fn learn_unnamed(&mut self, address: String, now: Time) {
        if address.len() <= MAX_ADDRESS_BYTES && self.unnamed.len() < MAX_PEERS {
            self.unnamed.entry(address).or_default().due.get_or_insert(now);
        }
    }

    /// Notes a connection. `dialled`: the address this node reached it at.
    pub(crate) fn connected_to(&mut self, id: AuthorId, dialled: Option<String>, connection: u64) {
        self.make_room();
        let peer = self.by_id.entry(id).or_default();
        peer.connected = true;
        peer.waits = false;
        peer.greeted = false;
        peer.connection = connection;
        peer.timeouts = 0;
        peer.served = 0;
        peer.tags.clear();
        peer.compared_regularly.clear();
        peer.dialling = Dialling::default();
        if let Some(address) = dialled.filter(|a| a.len() <= MAX_ADDRESS_BYTES) {
            if self.unnamed.remove(&address).is_some() {
                peer.keep = true;
                peer.named = true;
            }
            peer.addresses.retain(|a| *a != address);
            peer.addresses.insert(0, address);
            peer.addresses.truncate(MAX_ADDRESSES);
        }
    }

    /// Notes the end of a connection, and when to dial again.
    pub(crate) fn disconnected(&mut self, id: &AuthorId, config: &Config, rng: &mut ChaCha8Rng, now: Time) {
        let Some(peer) = self.by_id.get_mut(id) else { return };
        peer.connected = false;
        peer.greeted = false;
        if peer.keep && !peer.addresses.is_empty() && peer.dialling.due.is_none() {
            peer.dialling.failed(config, rng, now);
        }
    }

    pub(crate) fn dial_failed(&mut self, target: &DialTarget, config: &Config, rng: &mut ChaCha8Rng, now: Time) {
        let dialling = match target {
            DialTarget::Peer(id) => match self.by_id.get_mut(id) {
                Some(peer) if !peer.connected => &mut peer.dialling,
                _ => return,
            },
            DialTarget::Address(address) => match self.unnamed.get_mut(address) {
                Some(dialling) => dialling,
                None => return,
            },
        };
        dialling.failed(config, rng, now);
        dialling.in_vain = dialling.in_vain.saturating_add(1);
    }

    /// An address turned out to be this node's own, or to be served by a peer that is connected already.
    pub(crate) fn drop_unnamed(&mut self, address: &str) {
        self.unnamed.remove(address);
    }

    /// Bars a peer that broke the protocol too often.
    pub(crate) fn strike_out(&mut self, id: &AuthorId, now: Time) {
        if let Some(peer) = self.by_id.get_mut(id) {
            peer.strikes = 0;
            peer.barred_until = Some(now + STRUCK_OUT_MS);
            peer.dialling.due = peer.barred_until;
        }
    }

    /// Dials everyone that is away as soon as may be: the caller has reason to think that links are back.
    pub(crate) fn dial_soon(&mut self, only: Option<&AuthorId>, now: Time) {
        for (id, peer) in &mut self.by_id {
            let named = only == Some(id);
            // Somebody asks for this very peer.
            peer.named |= named;
            if peer.barred_until.is_some_and(|until| now < until) {
                continue;
            }
            if peer.connected || peer.addresses.is_empty() || !(named || (only.is_none() && peer.keep)) {
                continue;
            }
            if peer.dialling.under_way.is_none() {
                peer.dialling.due = Some(now);
            }
        }
        if only.is_none() {
            self.unnamed.values_mut().filter(|d| d.under_way.is_none()).for_each(|d| d.due = Some(now));
        }
    }

    /// Whom to dial now; each is then under way until it connects or fails. Candidates without a place wait.
    pub(crate) fn due(&mut self, now: Time) -> Vec<(DialTarget, Vec<String>)> {
        let mut out = Vec::new();
        let is_due = |d: &Dialling| d.next().is_some_and(|t| t <= now);
        let mut candidates = Vec::new();
        for (id, peer) in &mut self.by_id {
            if !peer.connected && is_due(&peer.dialling) && !peer.addresses.is_empty() {
                if peer.named {
                    peer.dialling.begin(now);
                    out.push((DialTarget::Peer(*id), peer.addresses.clone()));
                } else {
                    candidates.push(*id);
                }
            }
        }
        if !candidates.is_empty() {
            out.extend(self.choose(candidates, now));
        }
        for (address, dialling) in &mut self.unnamed {
            if is_due(dialling) {
                dialling.begin(now);
                out.push((DialTarget::Address(address.clone()), vec![address.clone()]));
            }
        }
        out
    }

    /// Dials those of the candidates that have a place in the neighbourhood, spread over networks; the others wait.
    fn choose(&mut self, mut candidates: Vec<AuthorId>, now: Time) -> Vec<(DialTarget, Vec<String>)> {
        let (mut neighbours, mut of_group) = (0, BTreeMap::<AddressGroup, usize>::new());
        for peer in self.by_id.values().filter(|p| p.connected || p.dialling.under_way.is_some()) {
            neighbours += 1;
            if let Some(group) = peer.group().filter(|_| !peer.named) {
                *of_group.entry(group).or_default() += 1;
            }
        }
        // Of several of one network the one that waits longest, so that one that never answers does not keep the others out.
        let waiting = |peers: &Self, id: &AuthorId| peers.get(id).and_then(|p| p.dialling.due);
        candidates.sort_by_key(|id| (waiting(self, id), *id));
        let mut out = Vec::new();
        while !candidates.is_empty() {
            let place = |id: &AuthorId| {
                self.get(id).and_then(Peer::group).map_or(0, |g| of_group.get(&g).copied().unwrap_or(0))
            };
            let Some((at, id, taken)) = candidates
                .iter()
                .enumerate()
                .map(|(at, id)| (at, *id, place(id)))
                .min_by_key(|(at, _, taken)| (*taken, *at))
            else {
                break;
            };
            if neighbours >= WANTED_NEIGHBOURS || taken >= NEIGHBOURS_PER_GROUP {
                break; // And so it is for all that are left: this one had the best claim.
            }
            candidates.remove(at);
            let Some(peer) = self.by_id.get_mut(&id) else { continue };
            peer.waits = false;
            peer.dialling.begin(now);
            neighbours += 1;
            if let Some(group) = peer.group() {
                *of_group.entry(group).or_default() += 1;
            }
            out.push((DialTarget::Peer(id), peer.addresses.clone()));
        }
        for id in candidates {
            if let Some(peer) = self.by_id.get_mut(&id) {
                peer.waits = true;
                peer.dialling.due = Some(now + NO_PLACE_MS);
            }
        }
        out
    }

    /// When the next dial is due.
    pub(crate) fn next_due(&self) -> Option<Time> {
        let named = self.by_id.values().filter(|p| !p.connected && !p.addresses.is_empty()).map(|p| &p.dialling);
        named.chain(self.unnamed.values()).filter_map(Dialling::next).min()
    }

    /// Drops somebody nobody asked for when the book is full.
    fn make_room(&mut self) {
        if self.by_id.len() < MAX_PEERS {
            return;
        }
        let idle = self.by_id.iter().find(|(_, p)| !p.connected && !p.keep).map(|(id, _)| *id);
        let any = || self.by_id.iter().find(|(_, p)| !p.connected).map(|(id, _)| *id);
        if let Some(id) = idle.or_else(any) {
            self.by_id.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::SeedableRng;

    fn peer(n: u32) -> AuthorId {
        AuthorId(*blake3::hash(&n.to_le_bytes()).as_bytes())
    }

    #[test]
    fn a_peer_that_went_away_is_dialled_for_ever_with_capped_backoff() {
        let (config, mut rng) = (Config::default(), ChaCha8Rng::from_seed([0; 32]));
        let mut peers = Peers::default();
        let mut now = Time(0);
        peers.learn(peer(1), "a".into(), true, now);
        let mut waits = Vec::new();
        for _ in 0..40 {
            let due = peers.next_due().expect("always another dial");
            waits.push(due - now);
            now = due;
            assert_eq!(peers.due(now).len(), 1);
            assert!(peers.due(now).is_empty(), "one dial at a time");
            peers.dial_failed(&DialTarget::Peer(peer(1)), &config, &mut rng, now);
        }
        assert!(waits[1] < waits[4] && waits[4] < waits[7]);
        assert!(waits.iter().all(|w| *w <= config.dial_backoff_cap_ms * 5 / 4));
    }

    #[test]
    fn the_book_and_the_addresses_of_a_peer_are_bounded() {
        let mut peers = Peers::default();
        for n in 0..(MAX_PEERS as u32 + 50) {
            peers.learn(peer(n), format!("address {n}"), n == 0, Time(0));
        }
        assert!(peers.iter().count() <= MAX_PEERS);
        assert!(peers.get(&peer(0)).is_some(), "who was asked for stays");
        for n in 0..100 {
            peers.learn(peer(0), format!("other {n}"), false, Time(0));
        }
        assert_eq!(peers.get(&peer(0)).unwrap().addresses.len(), MAX_ADDRESSES);
        peers.learn(peer(1), "x".repeat(MAX_ADDRESS_BYTES + 1), false, Time(0));
    }

    #[test]
    fn a_dial_whose_outcome_nobody_tells_is_tried_again() {
        let mut peers = Peers::default();
        peers.learn_unnamed("name".into(), Time(0));
        assert_eq!(peers.due(Time(0)).len(), 1);
        assert_eq!(peers.next_due(), Some(Time(DIAL_GIVEN_UP_MS)));
        assert_eq!(peers.due(Time(DIAL_GIVEN_UP_MS)).len(), 1);
    }

    fn at(group: u8, host: u8) -> String {
        format!("/ip4/203.{group}.0.{host}/tcp/4001")
    }

    fn dialled(out: Vec<(DialTarget, Vec<String>)>) -> Vec<AuthorId> {
        out.into_iter()
            .filter_map(|(target, _)| match target {
                DialTarget::Peer(id) => Some(id),
                DialTarget::Address(_) => None,
            })
            .collect()
    }

    #[test]
    fn a_network_that_is_not_represented_comes_before_one_that_is() {
        let mut peers = Peers::default();
        for n in 0..40 {
            peers.found(peer(n), at(1, n as u8), Time(0));
        }
        for n in 40..70 {
            peers.found(peer(n), at(n as u8, 1), Time(0));
        }
        let out = dialled(peers.due(Time(0)));
        assert_eq!(out.len(), WANTED_NEIGHBOURS);
        let of_group = |group: u8| {
            let prefix = format!("/ip4/203.{group}.");
            out.iter().filter(|id| peers.get(id).is_some_and(|p| p.addresses[0].starts_with(&prefix))).count()
        };
        assert!((40..70).all(|group| of_group(group) == 1), "each of thirty networks has one");
        assert_eq!(of_group(1), 2, "and the crowded one the places that are left");
    }

    #[test]
    fn one_network_gets_a_bounded_part_of_the_neighbourhood_until_one_goes() {
        let (config, mut rng) = (Config::default(), ChaCha8Rng::from_seed([0; 32]));
        let mut peers = Peers::default();
        for n in 0..20 {
            peers.found(peer(n), at(1, n as u8), Time(0));
        }
        let first = dialled(peers.due(Time(0)));
        assert_eq!(first.len(), NEIGHBOURS_PER_GROUP);
        for (n, id) in first.iter().enumerate() {
            peers.connected_to(*id, Some(peers.get(id).unwrap().addresses[0].clone()), n as u64);
        }
        let later = peers.next_due().expect("the others wait");
        assert!(dialled(peers.due(later)).is_empty(), "no place yet");
        assert!(peers.next_due().is_some(), "and are not forgotten");
        assert_eq!(peers.iter().filter(|(_, p)| p.waits_for_place()).count(), 20 - NEIGHBOURS_PER_GROUP);
        peers.disconnected(&first[0], &config, &mut rng, later);
        let next = peers.next_due().expect("somebody is tried again") + NO_PLACE_MS;
        let replaced = dialled(peers.due(next));
        assert_eq!(replaced.len(), 1, "one place, one dial");
        let asked = *peers.iter().find(|(_, p)| p.waits_for_place()).expect("most of them").0;
        peers.dial_soon(Some(&asked), next);
        assert_eq!(dialled(peers.due(next)), [asked], "whoever is asked for by name needs no place");
    }

    #[test]
    fn whoever_was_named_is_dialled_whatever_network_it_is_in() {
        let mut peers = Peers::default();
        for n in 0..60 {
            peers.learn(peer(n), at(1, n as u8), true, Time(0));
        }
        assert_eq!(peers.due(Time(0)).len(), 60);
        peers.found(peer(0), at(1, 200), Time(1));
        assert!(peers.get(&peer(0)).unwrap().is_named(), "that it was found as well makes it no stranger");
    }

    #[test]
    fn private_addresses_and_names_are_bounded_by_the_neighbourhood_only() {
        let mut peers = Peers::default();
        for n in 0..10 {
            peers.found(peer(n), format!("/ip4/10.0.0.{n}/tcp/1"), Time(0));
            peers.found(peer(100 + n), format!("/dns/node{n}.example/tcp/1"), Time(0));
        }
        assert_eq!(peers.due(Time(0)).len(), 20);
    }

    #[test]
    fn the_choice_is_the_same_every_time() {
        let choose = || {
            let mut peers = Peers::default();
            for n in 0..200 {
                peers.found(peer(n), at((n % 11) as u8, (n % 200) as u8), Time(u64::from(n % 3)));
            }
            dialled(peers.due(Time(10)))
        };
        assert_eq!(choose(), choose());
    }

    #[test]
    fn groups_are_what_one_provider_has() {
        let group = |text: &str| AddressGroup::of(text);
        assert_eq!(group("/ip4/203.7.113.9/tcp/1"), Some(AddressGroup::V4([203, 7])));
        assert_eq!(group("/ip6/2001:db8:1::1/udp/1/quic-v1"), Some(AddressGroup::V6([0x20, 0x01, 0x0d, 0xb8])));
        assert_eq!(
            group("/ip6/::ffff:203.7.0.1/tcp/1"),
            Some(AddressGroup::V4([203, 7])),
            "the same host by another name"
        );
        for near in ["/ip4/127.0.0.1/tcp/1", "/ip4/192.168.1.1/tcp/1", "/ip4/100.64.1.1/tcp/1", "/ip6/::1/tcp/1"] {
            assert_eq!(group(near), None, "{near}");
        }
        for odd in ["", "/", "/ip4", "/ip4/x/tcp/1", "n3", "/dns/a.example/tcp/1"] {
            assert_eq!(group(odd), None, "{odd}");
        }
    }

    #[test]
    fn an_address_gets_its_peer_once_it_answers() {
        let mut peers = Peers::default();
        peers.learn_unnamed("somewhere".into(), Time(5));
        assert_eq!(peers.due(Time(5)), [(DialTarget::Address("somewhere".into()), vec!["somewhere".into()])]);
        peers.connected_to(peer(1), Some("somewhere".into()), 1);
        assert_eq!(peers.next_due(), None);
        let (config, mut rng) = (Config::default(), ChaCha8Rng::from_seed([0; 32]));
        peers.disconnected(&peer(1), &config, &mut rng, Time(9));
        let due = peers.next_due().expect("and is then dialled for ever");
        assert_eq!(peers.get(&peer(1)).map(Peer::failures), Some(0), "that a connection ended is no dial in vain");
        assert_eq!(peers.due(due).len(), 1);
        peers.dial_failed(&DialTarget::Peer(peer(1)), &config, &mut rng, due);
        assert_eq!(peers.get(&peer(1)).map(Peer::failures), Some(1));
    }
}
