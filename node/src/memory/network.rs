//! Banks, tickets, peers, sync and the doctor.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use folklore_protocol::{
    AuthorId, BankId, Event, Time,
    bank::MAX_BANK_NAME_BYTES,
    canonical::{Lines, normalise},
};
use folklore_store::bank::BankInfo as StoreBank;

use super::{DEFAULT_BANK, Memory, read_failed, stopping, teach::brief, write_failed};
use crate::{
    api::{self, Answer, ApiError, Check},
    engine::{DialView, PUBLIC_SALT, Snapshot, split_address},
    metrics::{MAX_BANK_LABELS, State, bank_label},
    network::{Counters, Nat, Route, peer_id_text, with_peer},
    ticket::{Ticket, TicketError},
};

/// How long `sync --wait` waits when the request does not say, milliseconds.
const DEFAULT_SYNC_MS: u64 = 30_000;
/// Longest a sync may wait, milliseconds.
const MAX_SYNC_MS: u64 = 600_000;
/// How often a waiting sync asks for another comparison.
const ASK_AGAIN: Duration = Duration::from_millis(500);
/// Bounds that the doctor speaks of when they were hit: those that a person can raise.
const BOUNDS_OF_NOTE: [&str; 6] = ["peers", "connections_per_peer", "handshakes", "dials", "memory", "relay"];
/// How often a waiting sync looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);

impl Memory {
    pub(super) fn create_bank(&self, name: &str, public: bool) -> Answer<BankId> {
        let name = normalise(name, Lines::One);
        if name.is_empty() || name.len() > MAX_BANK_NAME_BYTES {
            return Err(ApiError::bad_request(format!("a bank's name has 1 to {MAX_BANK_NAME_BYTES} bytes")));
        }
        let own = |b: &StoreBank| b.owner == self.me() && b.name == name;
        if let Some(bank) = self.0.store.banks().into_iter().find(own) {
            if public && bank.salt != PUBLIC_SALT {
                return Err(ApiError::bad_request(format!(
                    "there is a bank '{}' of this node's already that is not public, and that cannot be changed: take \
                     another name",
                    brief(&name)
                )));
            }
            return Ok(bank.id);
        }
        let mut salt = PUBLIC_SALT;
        if !public {
            getrandom::fill(&mut salt)
                .map_err(|error| ApiError::failed(format!("no randomness for the bank's id: {error}")))?;
        }
        let info = StoreBank::new(self.me(), salt, &name);
        self.open_bank(&info)?;
        Ok(info.id)
    }

    /// Adds a bank durably and opens it; false for one that is there.
    pub fn open_bank(&self, info: &StoreBank) -> Answer<bool> {
        if self.0.store.banks().iter().any(|b| b.id == info.id) {
            return Ok(false);
        }
        self.0.store.add_bank(info.clone()).map_err(write_failed)?;
        self.0.catalogue.open_bank(info.clone());
        let held = self.0.store.record_ids(&info.id);
        self.0.engine.event_blocking(Event::BankOpened { bank: info.id, held }).map_err(stopping)?;
        Ok(true)
    }

    pub(super) fn invite(&self, bank: Option<&str>) -> Answer<api::BankInviteResponse> {
        let bank = match bank {
            Some(name) => self.bank(Some(name))?,
            None => {
                let own = self.0.home.bank()?;
                self.bank(Some(&own.id.to_string()))?
            }
        };
        let me = self.me();
        let mut addresses = Vec::new();
        for address in self.0.network.announced() {
            let whole = with_peer(&address, &me.0).map_err(|error| ApiError::failed(error.to_string()))?;
            if let Ok(address) = whole.parse() {
                addresses.push(address);
            }
        }
        if addresses.is_empty() {
            return Err(ApiError::failed(
                "this node listens nowhere, so nobody could join: start it with 'folklore up --listen ADDR'",
            ));
        }
        addresses.truncate(crate::ticket::MAX_ADDRESSES);
        let ticket =
            Ticket::new(bank.owner, bank.salt, &bank.name, addresses).map_err(|e| ApiError::failed(e.to_string()))?;
        Ok(api::BankInviteResponse { ticket: ticket.to_string(), bank: bank.id.to_string() })
    }

    /// Joins the bank of a ticket, or a public bank by `OWNER/NAME`.
    pub(super) fn join(&self, text: &str) -> Answer<api::BankJoinResponse> {
        let ticket = match text.split_once('/') {
            None => text.parse().map_err(|error: TicketError| ApiError::bad_request(error.to_string()))?,
            Some((owner, name)) => {
                let owner = self.peer(owner)?;
                Ticket::new(owner, PUBLIC_SALT, name, Vec::new()).map_err(|e| ApiError::bad_request(e.to_string()))?
            }
        };
        let joined = self.join_ticket(&ticket)?;
        self.0.home.keep_ticket(&self.0.lock, &ticket)?;
        if ticket.owner() != self.me() {
            // Said by a person just now, so it holds for a bank that was joined long ago as well.
            self.0.store.set_setting(DEFAULT_BANK, &ticket.bank().id.0).map_err(write_failed)?;
        }
        Ok(joined)
    }

    /// Joins the bank of a ticket: it is held here from now on and its nodes are dialled for ever. The first time, or while
    /// nothing else was chosen, it is where lessons go when a request names no bank.
    pub fn join_ticket(&self, ticket: &Ticket) -> Answer<api::BankJoinResponse> {
        let info = ticket.bank();
        let fresh = self.open_bank(&info)? || self.0.store.setting(DEFAULT_BANK).is_none();
        if fresh && info.owner != self.me() {
            self.0.store.set_setting(DEFAULT_BANK, &info.id.0).map_err(write_failed)?;
        }
        let dialing: Vec<String> = ticket.addresses().iter().map(ToString::to_string).collect();
        for address in &dialing {
            let (peer, address) = split_address(address);
            let event = Event::AddressLearned { peer, address, keep: true };
            self.0.engine.event_blocking(event).map_err(stopping)?;
        }
        // A bank whose nodes were forgotten in a crash would be joined and never heard of.
        self.0.engine.remember_peers_blocking().map_err(stopping)?.map_err(write_failed)?;
        Ok(api::BankJoinResponse { bank: info.id.to_string(), name: info.name, owner: info.owner.to_string(), dialing })
    }

    pub(super) fn peer_infos(&self, snapshot: &Snapshot, counters: &Counters) -> Vec<api::PeerInfo> {
        let routes = self.0.network.routes();
        let infos = snapshot.peers.iter().map(|peer| {
            let traffic = counters.peers.get(&peer.id.0).copied().unwrap_or_default();
            let (route, circuit) = routes.get(&peer.id.0).filter(|_| peer.connected).map(route_info).unzip();
            api::PeerInfo {
                id: peer.id.to_string(),
                addresses: peer.addresses.clone(),
                connected: peer.connected,
                last_sync: peer.last_sync.map(ms),
                complete_as_of: peer.complete_as_of.iter().map(|(bank, at)| (bank.to_string(), ms(*at))).collect(),
                bytes_in: traffic.bytes_in,
                bytes_out: traffic.bytes_out,
                route,
                circuit: circuit.flatten(),
                named: peer.named,
                next_attempt: peer.next_dial.map(ms),
                failed_attempts: peer.failures,
                last_error: peer.last_error.clone().filter(|_| !peer.connected),
                barred_until: peer.barred_until.filter(|until| until.0 > self.now_ms()).map(ms),
            }
        });
        infos.collect()
    }

    pub(super) fn dial_infos(&self, snapshot: &Snapshot) -> Vec<api::DialInfo> {
        let info = |dial: &DialView| api::DialInfo {
            address: dial.address.clone(),
            next_attempt: dial.next_dial.map(ms),
            failed_attempts: dial.failures,
            last_error: dial.last_error.clone(),
        };
        snapshot.dialing.iter().map(info).collect()
    }

    pub(super) fn network_info(&self, snapshot: &Snapshot) -> api::NetworkInfo {
        let network = &self.0.network;
        let reach = network.reach();
        api::NetworkInfo {
            nat: match reach.nat {
                Nat::Unknown => api::NatKind::Unknown,
                Nat::Public => api::NatKind::Public,
                Nat::Private => api::NatKind::Private,
            },
            external: reach.external,
            announced: network.announced(),
            relays: reach.relays.iter().map(peer_id_text).collect(),
            relay: reach.serving.map(|serving| api::RelayInfo {
                reservations: serving.reservations as u64,
                circuits: serving.circuits as u64,
            }),
            dht: api::DhtInfo {
                serving: reach.dht.serving,
                nodes: reach.dht.nodes as u64,
                published: reach.dht.published as u64,
                kept: reach.dht.kept.len() as u64,
            },
            private: network.is_private(),
            quic: network.quic(),
            limit_hits: network.limit_hits().into_iter().map(|(name, count)| (name.to_owned(), count)).collect(),
            dialing: self.dial_infos(snapshot),
        }
    }

    pub(super) fn metrics_now(&self, snapshot: &Snapshot) -> Answer<String> {
        let mut peers = BTreeMap::from([("connected", 0), ("away", 0), ("barred", 0)]);
        for peer in &snapshot.peers {
            let barred = peer.barred_until.is_some_and(|until| until.0 > self.now_ms());
            let state = if peer.connected {
                "connected"
            } else if barred {
                "barred"
            } else {
                "away"
            };
            *peers.entry(state).or_default() += 1;
        }
        let mut routes = BTreeMap::from([("direct", 0), ("relayed", 0), ("hole-punched", 0)]);
        for route in self.0.network.routes().values() {
            let name = match route {
                Route::Direct => "direct",
                Route::HolePunched => "hole-punched",
                Route::Relayed { .. } => "relayed",
            };
            *routes.entry(name).or_default() += 1;
        }
        let mut banks: Vec<(String, u64, u64)> = Vec::new();
        let mut others = (0, 0);
        for bank in self.0.store.banks() {
            let Some(view) = snapshot.banks.get(&bank.id) else { continue };
            let (records, missing) = (view.records as u64, view.missing as u64);
            if banks.len() < MAX_BANK_LABELS {
                banks.push((bank_label(&bank.name, &bank.id), records, missing));
            } else {
                others = (others.0 + records, others.1 + missing);
            }
        }
        if others != (0, 0) {
            banks.push(("(others)".to_owned(), others.0, others.1));
        }
        let total = self.0.network.counters().total;
        let limits = self.0.network.limit_hits();
        let (traffic, induction) = ((total.bytes_in, total.bytes_out), self.induction().meter());
        let state = State { peers, routes, banks, limits, traffic, induction };
        self.0.metrics.encode(state).map_err(|_| ApiError::failed("the metrics cannot be written as text"))
    }

    pub(super) async fn sync_now(&self, request: api::SyncRequest) -> Answer<api::SyncResponse> {
        let only = request.peer.as_deref().map(|text| self.peer(text)).transpose()?;
        let before = self.snapshot().await?;
        if let Some(peer) = only
            && !before.peers.iter().any(|p| p.id == peer)
        {
            return Err(ApiError::not_found(format!(
                "no peer {peer} is known here: 'folklore peers' shows those that are"
            )));
        }
        let began = self.0.engine.clock.now();
        self.0.engine.event(Event::Sync { peer: only }).await.map_err(stopping)?;
        let wait_ms = if request.wait { request.timeout_ms.unwrap_or(DEFAULT_SYNC_MS).min(MAX_SYNC_MS) } else { 0 };
        let deadline = Instant::now() + Duration::from_millis(wait_ms);
        let mut asked = Instant::now();
        loop {
            let now = self.snapshot().await?;
            let answer = state_of_sync(&before, &now, only, began);
            if answer.complete || Instant::now() >= deadline {
                return Ok(answer);
            }
            if asked.elapsed() >= ASK_AGAIN {
                // A comparison that was under way when this began says nothing of what came after its own beginning.
                asked = Instant::now();
                self.0.engine.event(Event::Sync { peer: only }).await.map_err(stopping)?;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn peer(&self, text: &str) -> Answer<AuthorId> {
        text.parse().map_err(|_| {
            ApiError::bad_request(format!("'{}' is not a node id: 'folklore peers' shows the ids", brief(text)))
        })
    }

    pub(super) async fn block_peer(&self, text: &str, blocked: bool) -> Answer<api::BlockResponse> {
        let peer = self.peer(text)?;
        self.0.network.block(peer.0, blocked);
        if !blocked {
            self.0.engine.event(Event::Sync { peer: Some(peer) }).await.map_err(stopping)?;
        }
        Ok(api::BlockResponse { peer: peer.to_string(), blocked })
    }

    pub(super) fn examine(&self, request: api::DoctorRequest, snapshot: &Snapshot) -> Answer<api::DoctorResponse> {
        let mut checks = Vec::new();
        if request.secrets {
            checks.extend(self.look_for_secrets()?);
        }
        let exposed = self.0.home.identity_exposure()?;
        checks.push(Check::new(
            "identity",
            exposed == 0,
            if exposed == 0 {
                format!("node {}, key private", self.me())
            } else {
                "others on this machine can read the key: chmod 600 identity.key".into()
            },
        ));
        let storage = self.storage();
        if let Some(reason) = &storage.stopped {
            checks.push(Check::new("writing", false, reason));
        }
        checks.push(Check::new("database", storage.rewrite_failed.is_none(), database_line(&storage)));
        if !storage.unreadable.is_empty() {
            let detail = format!("{}: restart to recover what can be", storage.unreadable.join("; "));
            checks.push(Check::new("unreadable", false, detail));
        }
        let recovery = self.recovery();
        let opened = recovery.as_ref().map_or_else(|| "opened as it was left".to_owned(), |lines| lines.join("; "));
        checks.push(Check::new("bank", recovery.is_none(), opened));
        for bank in self.0.store.banks() {
            let missing = self.0.store.missing_bodies(&bank.id).len();
            let records = self.0.store.record_count(&bank.id);
            let detail = if missing == 0 {
                format!("{records} records, every body there")
            } else {
                format!("{records} records, {missing} bodies missing: they are asked for at every contact")
            };
            checks.push(Check::new(format!("bank {}", brief(&bank.name)), missing == 0, detail));
        }
        let listening = self.0.network.listening();
        let detail =
            if listening.is_empty() { "nowhere: peers cannot reach this node".into() } else { listening.join(", ") };
        checks.push(Check::new("listening", !listening.is_empty(), detail));
        let info = self.network_info(snapshot);
        let by_relay = info.relays.len();
        let detail = match (info.nat, by_relay) {
            (api::NatKind::Public, _) => "others dialled this node and got through".to_owned(),
            (api::NatKind::Private, 0) => {
                "behind a NAT, and no relay known: name one with 'folklore up --via ADDR'".into()
            }
            (api::NatKind::Private, n) => format!("behind a NAT, reachable through {n} relays"),
            (api::NatKind::Unknown, 0) => "not tested: no node that tests it ('up --relay') is connected".into(),
            (api::NatKind::Unknown, n) => format!("not tested, reachable through {n} relays"),
        };
        checks.push(Check::new("reachable", info.nat != api::NatKind::Private || by_relay > 0, detail));
        let strangers = info.limit_hits.get("failed_handshakes").copied().unwrap_or(0);
        let key_error = |error: &Option<String>| error.as_ref().filter(|e| e.contains("pre-shared key")).cloned();
        let refused = info.dialing.iter().find_map(|d| key_error(&d.last_error));
        let refused = refused.or_else(|| snapshot.peers.iter().find_map(|p| key_error(&p.last_error)));
        if info.private || refused.is_some() {
            let detail = match &refused {
                Some(error) => error.clone(),
                None => format!("in use, QUIC is off with it; {strangers} inbound connections had another key or none"),
            };
            checks.push(Check::new("pre-shared key", refused.is_none(), detail));
        }
        let hit: Vec<String> = info
            .limit_hits
            .iter()
            .filter(|(name, count)| **count > 0 && BOUNDS_OF_NOTE.contains(&name.as_str()))
            .map(|(name, count)| format!("{name} {count} times"))
            .collect();
        if !hit.is_empty() {
            let detail = format!("hit {}: raise it in network.json if that was no attack", hit.join(", "));
            checks.push(Check::new("limits", true, detail));
        }
        if let Some(embedding) = self.embedding() {
            let detail = match (&embedding.error, embedding.answers) {
                (Some(error), _) => format!("{}: {error}", embedding.service),
                (None, true) => format!("{} answers", embedding.service),
                (None, false) => format!("{} is at work; the built-in embedder answers", embedding.service),
            };
            checks.push(Check::new("embedder", embedding.error.is_none(), detail));
        }
        let (known, connected) = (snapshot.peers.len(), snapshot.peers.iter().filter(|p| p.connected).count());
        checks.push(Check::new(
            "peers",
            known == 0 || connected > 0,
            match (known, connected) {
                (0, _) => "none known: 'folklore bank invite' and 'folklore bank join' connect nodes".into(),
                (_, 0) => format!("none of {known} known peers is connected; they are dialled again and again"),
                _ => format!("{connected} of {known} known peers connected"),
            },
        ));
        if request.verify {
            let _told = Told(self);
            let report = self.0.store.verify(|at| {
                *self.verifying() = Some(api::Verifying { done: at.done as u64, total: at.total as u64 });
            });
            let report = report.map_err(read_failed)?;
            let detail = if report.ok() {
                format!(
                    "{} records, {} lessons, {} runs: every hash and signature is right",
                    report.records, report.lessons, report.runs
                )
            } else {
                report.wrong.join("; ")
            };
            checks.push(Check::new("hashes and signatures", report.ok(), detail));
        }
        Ok(api::DoctorResponse { ok: checks.iter().all(|c| c.ok), checks })
    }
}

fn ms(time: Time) -> api::TimeMs {
    api::TimeMs(time.0)
}

fn route_info(route: &Route) -> (api::RouteKind, Option<api::CircuitInfo>) {
    match route {
        Route::Direct => (api::RouteKind::Direct, None),
        Route::HolePunched => (api::RouteKind::HolePunched, None),
        Route::Relayed { limit_bytes, limit_time } => {
            let limit_seconds = limit_time.map(|time| time.as_secs());
            (api::RouteKind::Relayed, Some(api::CircuitInfo { limit_bytes: *limit_bytes, limit_seconds }))
        }
    }
}

/// Ends the word on how far a check has come, however it ends.
struct Told<'a>(&'a Memory);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        *self.0.verifying() = None;
    }
}

/// The database file in words.
fn database_line(storage: &api::StorageInfo) -> String {
    let mb = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    let mut line = format!("{} for {} of values", mb(storage.file_bytes), mb(storage.live_bytes));
    if storage.rewrites > 0 {
        line.push_str(&format!(", rewritten {} times", storage.rewrites));
    }
    if storage.resumed > 0 {
        line.push_str(&format!(", writing was taken up again {} times", storage.resumed));
    }
    if storage.rewriting {
        line.push_str(", being rewritten");
    }
    if let Some(reason) = &storage.rewrite_failed {
        line.push_str(&format!("; the last rewrite came to nothing: {reason}"));
    }
    line
}

/// Peer by peer: was it reached, and is everything here that it held when the sync began.
fn state_of_sync(before: &Snapshot, now: &Snapshot, only: Option<AuthorId>, began: Time) -> api::SyncResponse {
    let ours: BTreeSet<BankId> = now.banks.keys().copied().collect();
    let mut peers = Vec::new();
    for peer in now.peers.iter().filter(|p| only.is_none_or(|o| o == p.id)) {
        let shared: Vec<&BankId> = peer.banks.intersection(&ours).collect();
        let shares_nothing = shared.is_empty() && (peer.greeted || (!peer.connected && peer.addresses.is_empty()));
        if only.is_none() && (shares_nothing || peer.waits_for_place) {
            // Somebody who is no part of any bank here, or once connected and cannot be dialled, or beyond the neighbours that
            // are enough: what it holds comes through them.
            continue;
        }
        let earlier = before.peers.iter().find(|p| p.id == peer.id);
        let as_of = |bank: &&BankId| peer.complete_as_of.get(*bank).is_some_and(|at| *at >= began);
        let complete = peer.connected && !shared.is_empty() && shared.iter().all(as_of);
        peers.push(api::SyncedPeer {
            id: peer.id.to_string(),
            reached: peer.connected,
            complete,
            received: peer.records_in.saturating_sub(earlier.map_or(0, |p| p.records_in)),
            sent: peer.records_out.saturating_sub(earlier.map_or(0, |p| p.records_out)),
        });
    }
    let missing: Vec<String> = peers.iter().filter(|p| !p.complete).map(|p| p.id.clone()).collect();
    api::SyncResponse { complete: missing.is_empty() && !peers.is_empty(), missing, peers }
}
