//! What this node keeps for the DHT: who says that it holds which public bank. Nothing else fits in.

use std::{
    borrow::Cow,
    collections::HashMap,
    iter::{Empty, empty},
    time::Instant,
    vec,
};

use libp2p::{
    PeerId,
    kad::{
        ProviderRecord, Record, RecordKey,
        store::{Error, RecordStore, Result},
    },
};

/// Keys for which providers are kept. With all of them full that is some tens of megabytes, and a DHT of a few hundred nodes
/// has room for thousands of public banks.
const MAX_KEYS: usize = 1024;
/// Providers of one key: as many as an answer holds, by libp2p's replication factor.
const MAX_PROVIDERS: usize = 20;
/// Keys of one provider that are kept for it; a node with more public banks is found through some of them.
const MAX_KEYS_OF_ONE: usize = 64;
/// Length of a key: a hash.
pub(super) const KEY_BYTES: usize = 32;

/// A bounded store of provider records.
pub(super) struct Providers {
    local: PeerId,
    by_key: HashMap<RecordKey, Vec<ProviderRecord>>,
    keys_of: HashMap<PeerId, usize>,
}

impl Providers {
    pub(super) fn new(local: PeerId) -> Self {
        Self { local, by_key: HashMap::new(), keys_of: HashMap::new() }
    }

    /// Keys for which somebody else is known to be a provider.
    pub(super) fn keys_of_others(&self) -> impl Iterator<Item = &RecordKey> {
        self.by_key.iter().filter(|(_, all)| all.iter().any(|p| p.provider != self.local)).map(|(key, _)| key)
    }

    /// Forgets what has expired.
    pub(super) fn purge(&mut self, now: Instant) {
        let keys_of = &mut self.keys_of;
        self.by_key.retain(|_, all| {
            all.retain(|p| {
                let keep = !p.is_expired(now);
                if !keep {
                    release(keys_of, &p.provider);
                }
                keep
            });
            !all.is_empty()
        });
    }
}

fn release(keys_of: &mut HashMap<PeerId, usize>, peer: &PeerId) {
    if let Some(count) = keys_of.get_mut(peer) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            keys_of.remove(peer);
        }
    }
}

impl RecordStore for Providers {
    type RecordsIter<'a> = Empty<Cow<'a, Record>>;
    type ProvidedIter<'a> = vec::IntoIter<Cow<'a, ProviderRecord>>;

    fn get(&self, _: &RecordKey) -> Option<Cow<'_, Record>> {
        None
    }

    fn put(&mut self, _: Record) -> Result<()> {
        Err(Error::MaxRecords)
    }

    fn remove(&mut self, _: &RecordKey) {}

    fn records(&self) -> Self::RecordsIter<'_> {
        empty()
    }

    fn add_provider(&mut self, record: ProviderRecord) -> Result<()> {
        if record.key.as_ref().len() != KEY_BYTES {
            return Err(Error::ValueTooLarge);
        }
        if let Some(known) =
            self.by_key.get_mut(&record.key).and_then(|all| all.iter_mut().find(|p| p.provider == record.provider))
        {
            *known = record;
            return Ok(());
        }
        let own = record.provider == self.local;
        if !own && (!self.by_key.contains_key(&record.key) && self.by_key.len() >= MAX_KEYS) {
            self.purge(Instant::now());
        }
        let held = self.keys_of.get(&record.provider).copied().unwrap_or(0);
        let of_key = self.by_key.get(&record.key).map_or(0, Vec::len);
        let full = self.by_key.len() >= MAX_KEYS && of_key == 0;
        // Those already there stay: somebody who floods the store with names pushes nobody out.
        if !own && (full || held >= MAX_KEYS_OF_ONE || of_key >= MAX_PROVIDERS) {
            return Err(Error::MaxProvidedKeys);
        }
        *self.keys_of.entry(record.provider).or_default() += 1;
        self.by_key.entry(record.key.clone()).or_default().push(record);
        Ok(())
    }

    fn providers(&self, key: &RecordKey) -> Vec<ProviderRecord> {
        self.by_key.get(key).cloned().unwrap_or_default()
    }

    fn provided(&self) -> Self::ProvidedIter<'_> {
        let own = self.by_key.values().flatten().filter(|p| p.provider == self.local);
        own.map(Cow::Borrowed).collect::<Vec<_>>().into_iter()
    }

    fn remove_provider(&mut self, key: &RecordKey, provider: &PeerId) {
        if let Some(all) = self.by_key.get_mut(key) {
            let before = all.len();
            all.retain(|p| p.provider != *provider);
            if all.len() < before {
                release(&mut self.keys_of, provider);
            }
            if all.is_empty() {
                self.by_key.remove(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn peer(n: u32) -> PeerId {
        super::super::identity::to_peer_id(blake3::hash(&n.to_le_bytes()).as_bytes())
    }

    fn record(key: u32, provider: PeerId, expires: Option<Instant>) -> ProviderRecord {
        let key = RecordKey::new(blake3::hash(&key.to_le_bytes()).as_bytes());
        ProviderRecord { key, provider, expires, addresses: Vec::new() }
    }

    #[test]
    fn strangers_cannot_fill_it_and_nobody_is_pushed_out() {
        let mut store = Providers::new(peer(0));
        assert!(store.add_provider(record(7, peer(1), None)).is_ok());
        for n in 0..10_000u32 {
            let _ = store.add_provider(record(n % 3000, peer(2 + n), None));
        }
        assert!(store.by_key.len() <= MAX_KEYS);
        assert!(store.by_key.values().all(|all| all.len() <= MAX_PROVIDERS));
        assert!(store.providers(&record(7, peer(1), None).key).iter().any(|p| p.provider == peer(1)));
        // Its own banks are announced however full it is.
        assert!(store.add_provider(record(999_999, peer(0), None)).is_ok());
        assert_eq!(store.provided().count(), 1);
    }

    #[test]
    fn one_stranger_has_a_bounded_share() {
        let mut store = Providers::new(peer(0));
        let taken = (0..1000).filter(|n| store.add_provider(record(*n, peer(1), None)).is_ok()).count();
        assert_eq!(taken, MAX_KEYS_OF_ONE);
        store.remove_provider(&record(0, peer(1), None).key, &peer(1));
        assert!(store.add_provider(record(5000, peer(1), None)).is_ok(), "what was taken back makes room");
    }

    #[test]
    fn content_is_refused_and_what_expired_is_forgotten() {
        let mut store = Providers::new(peer(0));
        let key = record(1, peer(1), None).key;
        assert!(store.put(Record::new(key.clone(), vec![1])).is_err());
        assert!(store.get(&key).is_none());
        let short = ProviderRecord { key: RecordKey::new(b"short"), ..record(1, peer(1), None) };
        assert!(store.add_provider(short).is_err());
        let now = Instant::now();
        store.add_provider(record(1, peer(1), Some(now))).expect("there is room");
        store.purge(now + Duration::from_secs(1));
        assert_eq!(store.keys_of_others().count(), 0);
        assert!(store.keys_of.is_empty());
    }
}
