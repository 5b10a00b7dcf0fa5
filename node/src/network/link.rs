//! The bounded queue of frames that wait for one peer, and the table of the links that are up.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use libp2p::Multiaddr;
use tokio::sync::Notify;

use super::{
    addr::without_peer,
    event::{Route, SendError},
    frame::MAX_FRAME_BYTES,
    identity::PeerKey,
    reach::{LimitHits, Reach},
    traffic::{Counters, Traffic},
};

/// How many peers that are not connected keep their byte counts. Beyond, the counts of some of them are forgotten:
/// identities cost a stranger nothing.
const MAX_REMEMBERED_TRAFFIC: usize = 1024;

/// Dials whose outcome is awaited; more than may be under way.
const MAX_HALF_MET: usize = 1024;

/// What waits to be written to one peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queued {
    /// Frames not yet taken by the writer.
    pub frames: usize,
    /// Bytes of those, and of the batch being written.
    pub bytes: usize,
}

/// The frames on their way to one peer during one session. Dropped with the session, so that no frame of an old
/// session leaks into the next.
pub(super) struct Link {
    state: Mutex<Queue>,
    filled: Notify,
    max_frames: usize,
    max_bytes: usize,
}

#[derive(Default)]
struct Queue {
    frames: VecDeque<Vec<u8>>,
    /// Bytes of the queued frames and of those taken but not yet written.
    bytes: usize,
}

impl Link {
    pub(super) fn new(max_frames: usize, max_bytes: usize) -> Self {
        Self { state: Mutex::default(), filled: Notify::new(), max_frames, max_bytes }
    }

    /// Queues a frame, or says that there is no room. Never waits.
    pub(super) fn push(&self, frame: Vec<u8>) -> Result<(), SendError> {
        if frame.is_empty() {
            return Err(SendError::Empty);
        }
        if frame.len() > MAX_FRAME_BYTES {
            return Err(SendError::TooLarge(frame.len()));
        }
        {
            let mut queue = lock(&self.state);
            let bytes = queue.bytes.saturating_add(frame.len());
            if queue.frames.len() >= self.max_frames || bytes > self.max_bytes {
                return Err(SendError::Full);
            }
            queue.bytes = bytes;
            queue.frames.push_back(frame);
        }
        self.filled.notify_one();
        Ok(())
    }

    pub(super) fn queued(&self) -> Queued {
        let queue = lock(&self.state);
        Queued { frames: queue.frames.len(), bytes: queue.bytes }
    }

    /// Waits for frames and takes them, oldest first: at least one, and more as long as `batch_bytes` is not passed.
    /// Their bytes count as queued until [`Link::written`].
    pub(super) async fn take(&self, batch_bytes: usize) -> Vec<Vec<u8>> {
        loop {
            {
                let mut queue = lock(&self.state);
                let mut batch = Vec::new();
                let mut bytes = 0usize;
                while let Some(next) = queue.frames.front() {
                    bytes = bytes.saturating_add(next.len());
                    if !batch.is_empty() && bytes > batch_bytes {
                        break;
                    }
                    batch.extend(queue.frames.pop_front());
                }
                if !batch.is_empty() {
                    return batch;
                }
            }
            // `notify_one` stores a permit, so a push between the look and the wait is not missed.
            self.filled.notified().await;
        }
    }

    /// Gives back the room of `bytes` that have been written.
    pub(super) fn written(&self, bytes: usize) {
        let mut queue = lock(&self.state);
        queue.bytes = queue.bytes.saturating_sub(bytes);
    }
}

/// What the handles, the peer tasks and the swarm task share.
#[derive(Default)]
pub(super) struct Registry {
    links: Mutex<HashMap<PeerKey, (Arc<Link>, Route)>>,
    traffic: Mutex<HashMap<PeerKey, Arc<Traffic>>>,
    pub(super) total: Traffic,
    listening: Mutex<Vec<String>>,
    reach: Mutex<Reach>,
    pub(super) hits: LimitHits,
    /// Dialled addresses where somebody answered under a pre-shared key, and where what follows has not been understood yet.
    half_met: Mutex<HashSet<Multiaddr>>,
}

impl Registry {
    pub(super) fn link(&self, peer: &PeerKey) -> Option<Arc<Link>> {
        lock(&self.links).get(peer).map(|(link, _)| link.clone())
    }

    /// What the session with each connected peer goes over.
    pub(super) fn routes(&self) -> BTreeMap<PeerKey, Route> {
        lock(&self.links).iter().map(|(peer, (_, route))| (*peer, *route)).collect()
    }

    pub(super) fn connected(&self) -> Vec<PeerKey> {
        let mut peers: Vec<PeerKey> = lock(&self.links).keys().copied().collect();
        peers.sort_unstable();
        peers
    }

    pub(super) fn insert(&self, peer: PeerKey, link: Arc<Link>, route: Route) {
        lock(&self.links).insert(peer, (link, route));
    }

    pub(super) fn remove(&self, peer: &PeerKey) {
        lock(&self.links).remove(peer);
    }

    /// The counts of `peer`, which go on where they were if it was here before.
    pub(super) fn traffic(&self, peer: PeerKey) -> Arc<Traffic> {
        let connected = self.connected();
        let mut traffic = lock(&self.traffic);
        if traffic.len() >= MAX_REMEMBERED_TRAFFIC && !traffic.contains_key(&peer) {
            let mut room = MAX_REMEMBERED_TRAFFIC / 2;
            traffic.retain(|known, _| {
                connected.binary_search(known).is_ok() || {
                    let keep = room > 0;
                    room = room.saturating_sub(1);
                    keep
                }
            });
        }
        traffic.entry(peer).or_default().clone()
    }

    pub(super) fn counters(&self) -> Counters {
        let peers: BTreeMap<_, _> =
            lock(&self.traffic).iter().map(|(peer, traffic)| (*peer, traffic.snapshot())).collect();
        Counters { total: self.total.snapshot(), peers }
    }

    pub(super) fn listening(&self) -> Vec<String> {
        lock(&self.listening).clone()
    }

    pub(super) fn set_listening(&self, addresses: Vec<String>) {
        *lock(&self.listening) = addresses;
    }

    /// Somebody answered at a dialled address, under some pre-shared key: whether it is the same shows in what follows.
    pub(super) fn half_met(&self, address: &Multiaddr) {
        let mut addresses = lock(&self.half_met);
        if addresses.len() >= MAX_HALF_MET {
            addresses.clear();
        }
        addresses.insert(without_peer(address));
    }

    /// Whether somebody answered at an address and nothing more came of it. Asked once.
    pub(super) fn was_half_met(&self, address: &Multiaddr) -> bool {
        lock(&self.half_met).remove(&without_peer(address))
    }

    pub(super) fn reach(&self) -> Reach {
        lock(&self.reach).clone()
    }

    pub(super) fn change_reach(&self, change: impl FnOnce(&mut Reach)) {
        change(&mut lock(&self.reach));
    }
}

/// The guarded values are whole after every statement, so a panic elsewhere leaves nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_queue_is_full_by_count_and_by_bytes() {
        let link = Link::new(2, 100);
        assert_eq!(link.push(vec![1; 10]), Ok(()));
        assert_eq!(link.push(vec![1; 91]), Err(SendError::Full));
        assert_eq!(link.push(vec![2; 90]), Ok(()));
        let link = Link::new(2, 100);
        assert_eq!(link.push(vec![1]), Ok(()));
        assert_eq!(link.push(vec![2]), Ok(()));
        assert_eq!(link.push(vec![3]), Err(SendError::Full));
    }

    #[test]
    fn room_comes_back_only_when_frames_are_written() {
        let link = Link::new(10, 100);
        assert_eq!(link.push(vec![1; 100]), Ok(()));
        let batch = link.take(10).now_or_never().expect("a frame waits");
        assert_eq!(batch.len(), 1);
        assert_eq!(link.push(vec![1]), Err(SendError::Full));
        assert_eq!(link.queued(), Queued { frames: 0, bytes: 100 });
        link.written(100);
        assert_eq!(link.queued(), Queued { frames: 0, bytes: 0 });
        assert_eq!(link.push(vec![1]), Ok(()));
    }

    #[test]
    fn batches_keep_the_order_and_the_size() {
        let link = Link::new(10, 1000);
        for n in 0..5u8 {
            link.push(vec![n; 4]).expect("there is room");
        }
        let first = link.take(10).now_or_never().expect("frames wait");
        let rest = link.take(100).now_or_never().expect("frames wait");
        assert_eq!(first, [vec![0; 4], vec![1; 4]]);
        assert_eq!(rest, [vec![2; 4], vec![3; 4], vec![4; 4]]);
        assert!(link.take(1).now_or_never().is_none());
    }

    #[test]
    fn frames_of_a_wrong_size_are_refused() {
        let link = Link::new(10, usize::MAX);
        assert_eq!(link.push(Vec::new()), Err(SendError::Empty));
        assert_eq!(link.push(vec![0; MAX_FRAME_BYTES + 1]), Err(SendError::TooLarge(MAX_FRAME_BYTES + 1)));
        assert_eq!(link.push(vec![0; MAX_FRAME_BYTES]), Ok(()));
    }

    #[test]
    fn traffic_of_strangers_is_bounded_and_that_of_the_connected_kept() {
        let registry = Registry::default();
        let here = [255u8; 32];
        registry.insert(here, Arc::new(Link::new(1, 1)), Route::Direct);
        registry.traffic(here).sent(5);
        for n in 0..3000u32 {
            let mut peer = [0u8; 32];
            peer[..4].copy_from_slice(&n.to_le_bytes());
            registry.traffic(peer);
        }
        let counters = registry.counters();
        assert!(counters.peers.len() <= MAX_REMEMBERED_TRAFFIC);
        assert_eq!(counters.peers.get(&here).map(|t| t.bytes_out), Some(9));
    }
}
