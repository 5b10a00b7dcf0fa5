//! Records known to be missing: who has them, who was asked, what came.
//!
//! Records go by their short ids here: all that a reconcile finds out is those, and whoever is asked for one gives every
//! record that has it. An id is asked of one peer at a time, however many offer it, so that no record is fetched twice; it goes back to the
//! others when that peer fails. All of it is in memory: what is lost in a crash is found again by the next reconcile, and
//! every batch that was answered is already on disk.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    config::{MAX_WANTED, MAX_WANTED_OF_ONE, REQUESTS_PER_PEER},
    identity::AuthorId,
    known::ShortId,
    message::MAX_FETCH,
};

/// Most peers remembered as a source of one record.
const MAX_SOURCES: usize = 8;
/// Records asked for at once when nothing has come over a connection yet. Each answer doubles it, up to [`MAX_FETCH`]: a
/// contact that ends within seconds on a slow link still brings some records whole, and a good link is soon used fully.
const FIRST_FETCH: usize = 4;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    Idle,
    /// Asked for in this request.
    Asked(u64),
    /// Handed to storage.
    Admitting,
}

#[derive(Debug, Clone)]
struct Want {
    sources: Vec<AuthorId>,
    stage: Stage,
}

#[derive(Debug, Clone)]
struct Request {
    peer: AuthorId,
    left: BTreeSet<ShortId>,
}

/// The missing records of one bank.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    wants: BTreeMap<ShortId, Want>,
    /// For each source, ids that may be asked of it now.
    idle: BTreeMap<AuthorId, BTreeSet<ShortId>>,
    requests: BTreeMap<u64, Request>,
    /// Records to ask of a connected peer at once, where not [`FIRST_FETCH`].
    at_once: BTreeMap<AuthorId, usize>,
}

impl Wanted {
    /// Notes that `source` has `id`. False when the list is full; the next reconcile finds it again.
    pub(crate) fn want(&mut self, id: impl Into<ShortId>, source: AuthorId) -> bool {
        let id = id.into();
        let full =
            self.wants.len() >= MAX_WANTED || self.idle.get(&source).is_some_and(|ids| ids.len() >= MAX_WANTED_OF_ONE);
        if !self.wants.contains_key(&id) && full {
            return false;
        }
        let want = self.wants.entry(id).or_insert_with(|| Want { sources: Vec::new(), stage: Stage::Idle });
        if !want.sources.contains(&source) && want.sources.len() < MAX_SOURCES {
            want.sources.push(source);
        }
        if want.stage == Stage::Idle && want.sources.contains(&source) {
            self.idle.entry(source).or_default().insert(id);
        }
        true
    }

    /// Peers that have something to be asked for and room for a request, ascending.
    pub(crate) fn askable(&self) -> Vec<AuthorId> {
        let under_way = |peer| self.requests.values().filter(|r| r.peer == peer).count();
        let has_some = self.idle.iter().filter(|(_, ids)| !ids.is_empty());
        has_some.map(|(peer, _)| *peer).filter(|peer| under_way(*peer) < REQUESTS_PER_PEER).collect()
    }

    /// Takes a batch to ask of `peer` under the number `request`.
    pub(crate) fn ask(&mut self, peer: AuthorId, request: u64) -> Vec<ShortId> {
        let at_once = self.at_once.get(&peer).copied().unwrap_or(FIRST_FETCH);
        let ids: Vec<ShortId> = self.idle.get(&peer).into_iter().flatten().take(at_once).copied().collect();
        for id in &ids {
            self.set_stage(id, Stage::Asked(request));
        }
        if !ids.is_empty() {
            self.requests.insert(request, Request { peer, left: ids.iter().copied().collect() });
        }
        ids
    }

    /// Whether `request` is under way with `peer`.
    pub(crate) fn is_asked(&self, request: u64, peer: &AuthorId) -> bool {
        self.requests.get(&request).is_some_and(|r| r.peer == *peer)
    }

    /// Notes that a requested record came and goes to storage. False if it was not asked for.
    pub(crate) fn came(&mut self, request: u64, id: &ShortId) -> bool {
        let asked = self.requests.get_mut(&request).is_some_and(|r| r.left.remove(id));
        if asked {
            self.set_stage(id, Stage::Admitting);
        }
        asked
    }

    /// Notes that an answer to `request` has come: the link carries batches of this size.
    pub(crate) fn answered(&mut self, request: u64) {
        if let Some(request) = self.requests.get(&request) {
            let at_once = self.at_once.entry(request.peer).or_insert(FIRST_FETCH);
            *at_once = (*at_once * 2).min(MAX_FETCH);
        }
    }

    /// Notes that a record goes to storage that came without being asked for.
    pub(crate) fn pushed(&mut self, id: impl Into<ShortId>) {
        self.set_stage(&id.into(), Stage::Admitting);
    }

    /// Ends a request. Ids it left go back to be asked for; from the same peer too unless `blame`.
    pub(crate) fn end(&mut self, request: u64, blame: bool) -> Vec<ShortId> {
        let Some(ended) = self.requests.remove(&request) else { return Vec::new() };
        let mut orphans = Vec::new();
        for id in ended.left {
            if blame && self.drop_source(&id, &ended.peer) {
                orphans.push(id);
            }
            self.set_stage_if_asked(&id, request);
        }
        orphans
    }

    /// Ends a request that got no answer; tells who owes it, or `None` if it had ended already.
    pub(crate) fn end_timed_out(&mut self, request: u64) -> Option<AuthorId> {
        let ended = self.requests.get(&request)?;
        let (peer, left) = (ended.peer, ended.left.clone());
        // The link is slower than thought.
        self.at_once.remove(&peer);
        self.end(request, false);
        // Whoever leaves a request unanswered is not asked again for what others have too.
        for id in left {
            if self.has_other_source(&id, &peer) {
                self.drop_source(&id, &peer);
            }
        }
        Some(peer)
    }

    /// Whether somebody but `peer` is known to have `id`.
    pub(crate) fn has_other_source(&self, id: &ShortId, peer: &AuthorId) -> bool {
        self.wants.get(id).is_some_and(|want| want.sources.iter().any(|source| source != peer))
    }

    /// Puts a record back that storage could not take.
    pub(crate) fn retry(&mut self, id: impl Into<ShortId>) {
        self.set_stage(&id.into(), Stage::Idle);
    }

    /// `peer` does not have `id`, or gave a bad one. True if nobody else is known to have it: it is then forgotten.
    pub(crate) fn drop_source(&mut self, id: &ShortId, peer: &AuthorId) -> bool {
        let Some(want) = self.wants.get_mut(id) else { return false };
        want.sources.retain(|s| s != peer);
        let orphan = want.sources.is_empty();
        if let Some(ids) = self.idle.get_mut(peer) {
            ids.remove(id);
        }
        if orphan {
            self.wants.remove(id);
        }
        orphan
    }

    /// The record is known now.
    pub(crate) fn resolve(&mut self, id: impl Into<ShortId>) {
        let id = id.into();
        self.set_stage(&id, Stage::Admitting);
        self.wants.remove(&id);
    }

    /// `peer` is gone: nothing can be asked of it.
    pub(crate) fn disconnected(&mut self, peer: &AuthorId) {
        let requests: Vec<u64> = self.requests.iter().filter(|(_, r)| r.peer == *peer).map(|(n, _)| *n).collect();
        for request in requests {
            self.end(request, false);
        }
        let gone: Vec<ShortId> =
            self.wants.iter().filter(|(_, w)| w.sources.contains(peer)).map(|(id, _)| *id).collect();
        for id in gone {
            // A record already with storage is not put back by this: its answer will resolve or retry it.
            self.drop_source(&id, peer);
        }
        self.idle.remove(peer);
        self.at_once.remove(peer);
    }

    /// Whether a record is missing, wherever it may be on its way.
    pub(crate) fn wants(&self, id: impl Into<ShortId>) -> bool {
        self.wants.contains_key(&id.into())
    }

    /// How many records are missing.
    pub(crate) fn len(&self) -> usize {
        self.wants.len()
    }

    fn set_stage_if_asked(&mut self, id: &ShortId, request: u64) {
        if self.wants.get(id).is_some_and(|w| w.stage == Stage::Asked(request)) {
            self.set_stage(id, Stage::Idle);
        }
    }

    fn set_stage(&mut self, id: &ShortId, stage: Stage) {
        let Some(want) = self.wants.get_mut(id) else { return };
        for source in &want.sources {
            let ids = self.idle.entry(*source).or_default();
            if stage == Stage::Idle {
                ids.insert(*id);
            } else {
                ids.remove(id);
            }
        }
        want.stage = stage;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: AuthorId = AuthorId([1; 32]);
    const B: AuthorId = AuthorId([2; 32]);

    fn id(n: u8) -> ShortId {
        ShortId([n; 8])
    }

    #[test]
    fn a_record_is_asked_of_one_peer_at_a_time() {
        let mut wanted = Wanted::default();
        wanted.want(id(1), A);
        wanted.want(id(1), B);
        assert_eq!(wanted.ask(A, 1), [id(1)]);
        assert!(wanted.ask(B, 2).is_empty());
        wanted.end(1, true);
        assert_eq!(wanted.ask(B, 3), [id(1)]);
        assert!(wanted.came(3, &id(1)));
        assert!(!wanted.came(3, &id(1)), "nothing comes twice");
        wanted.resolve(id(1));
        assert_eq!(wanted.len(), 0);
        assert!(wanted.askable().is_empty());
    }

    #[test]
    fn who_does_not_answer_is_not_asked_again_for_what_others_have() {
        let mut wanted = Wanted::default();
        wanted.want(id(1), A);
        wanted.want(id(1), B);
        wanted.want(id(2), A);
        assert_eq!(wanted.ask(A, 1).len(), 2);
        assert_eq!(wanted.end_timed_out(1), Some(A));
        assert_eq!(wanted.ask(A, 2), [id(2)], "nobody else has the second");
        assert_eq!(wanted.ask(B, 3), [id(1)]);
        assert_eq!(wanted.end_timed_out(1), None);
    }

    #[test]
    fn what_a_lost_peer_was_asked_goes_to_the_others() {
        let mut wanted = Wanted::default();
        wanted.want(id(1), A);
        wanted.want(id(1), B);
        wanted.want(id(2), A);
        assert_eq!(wanted.ask(A, 1).len(), 2);
        wanted.disconnected(&A);
        assert_eq!(wanted.ask(B, 2), [id(1)]);
        assert_eq!(wanted.len(), 1, "nobody left has the second");
    }

    #[test]
    fn batches_begin_small_on_every_connection_and_grow_with_each_answer() {
        let mut wanted = Wanted::default();
        for n in 0..=255 {
            wanted.want(id(n), A);
        }
        let mut sizes = Vec::new();
        for request in 0..4 {
            let ids = wanted.ask(A, request);
            sizes.push(ids.len());
            wanted.answered(request);
            ids.iter().for_each(|id| wanted.resolve(*id));
            wanted.end(request, false);
        }
        assert_eq!(sizes, [FIRST_FETCH, 2 * FIRST_FETCH, 4 * FIRST_FETCH, 8 * FIRST_FETCH]);
        wanted.disconnected(&A);
        for n in 0..=255 {
            wanted.want(id(n), A);
        }
        assert_eq!(wanted.ask(A, 9).len(), FIRST_FETCH);
    }

    #[test]
    fn a_record_pushed_while_asked_for_is_not_asked_again() {
        let mut wanted = Wanted::default();
        wanted.want(id(1), A);
        wanted.ask(A, 1);
        wanted.pushed(id(1));
        wanted.end(1, false);
        assert!(wanted.askable().is_empty());
        wanted.retry(id(1));
        assert_eq!(wanted.askable(), [A]);
    }
}
