//! Records known to be missing: who has them, who was asked, what came.
//!
//! Records go by their short ids here: all that a reconcile finds out is those, and whoever is asked for one gives every
//! record that has it. An id is asked of one peer at a time, however many offer it, so that no record is fetched twice; it goes back to the
//! others when that peer fails. What a peer was found to have stays wanted of it when the connection breaks, so that the next
//! one goes on where this one stopped, with nothing to be found again. All of it is in memory: what is lost in a crash is
//! found by the next reconcile, and every batch that was answered is already on disk.
//!
//! How much is asked for at once follows from how much the connection has carried: a tenth of it, and not less than a few
//! records. So however often a link breaks, what was on its way when it did is a small part of what came over it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::{
    config::{AT_STAKE, LEAST_BATCH_BYTES, MAX_WANTED, MAX_WANTED_OF_ONE, REQUESTS_PER_PEER},
    identity::AuthorId,
    known::ShortId,
    message::{ITEMS_BUDGET_BYTES, MAX_FETCH},
};

/// Most peers remembered as a source of one record.
const MAX_SOURCES: usize = 8;
/// Most suggestions kept of one peer.
const MAX_PREFERRED: usize = 2 * MAX_FETCH;
/// How many records to ask for before any has shown how large they are.
const LEAST_BATCH_RECORDS: usize = 4;

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
    /// Connected sources, with the bytes of records that came from each on this connection.
    present: BTreeMap<AuthorId, u64>,
    /// Sources that said they are busy: nothing is asked of them for a while.
    paused: BTreeSet<AuthorId>,
    /// What each source suggested to ask it for first, in that order.
    preferred: BTreeMap<AuthorId, VecDeque<ShortId>>,
    /// Bytes and number of all records that came, to tell how many fit a batch.
    came_bytes: u64,
    came_records: u64,
}

/// A batch to ask a peer for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) ids: Vec<ShortId>,
    pub(crate) budget_bytes: usize,
}

impl Wanted {
    /// Notes that `source` has `id`. False when the list is full; the next reconcile finds it again.
    pub(crate) fn want(&mut self, id: impl Into<ShortId>, source: AuthorId) -> bool {
        let id = id.into();
        self.present.entry(source).or_default();
        let too_many_of_one = self.idle.get(&source).is_some_and(|ids| ids.len() >= MAX_WANTED_OF_ONE);
        if !self.wants.contains_key(&id) && too_many_of_one {
            return false;
        }
        if !self.wants.contains_key(&id) && self.wants.len() >= MAX_WANTED {
            self.forget_absent();
            if self.wants.len() >= MAX_WANTED {
                return false;
            }
        }
        let want = self.wants.entry(id).or_insert_with(|| Want { sources: Vec::new(), stage: Stage::Idle });
        if !want.sources.contains(&source) {
            if want.sources.len() >= MAX_SOURCES {
                // Somebody who is here is worth more than somebody who is not.
                let away = want.sources.iter().position(|s| !self.present.contains_key(s));
                let dropped = away.map(|at| want.sources.remove(at));
                if let Some(ids) = dropped.and_then(|d| self.idle.get_mut(&d)) {
                    ids.remove(&id);
                }
            }
            if want.sources.len() < MAX_SOURCES {
                want.sources.push(source);
            }
        }
        if want.stage == Stage::Idle && want.sources.contains(&source) {
            self.idle.entry(source).or_default().insert(id);
        }
        true
    }

    /// Peers that have something to be asked for and room for a request, ascending.
    pub(crate) fn askable(&self) -> Vec<AuthorId> {
        let under_way = |peer| self.requests.values().filter(|r| r.peer == peer).count();
        let has_some = self.idle.iter().filter(|(peer, ids)| !ids.is_empty() && self.present.contains_key(*peer));
        let may = |peer: &AuthorId| !self.paused.contains(peer) && under_way(*peer) < REQUESTS_PER_PEER;
        has_some.map(|(peer, _)| *peer).filter(may).collect()
    }

    /// Takes a batch to ask of `peer` under the number `request`.
    pub(crate) fn ask(&mut self, peer: AuthorId, request: u64) -> Batch {
        let carried = self.present.get(&peer).copied().unwrap_or_default() as usize;
        let budget_bytes = (carried / AT_STAKE / REQUESTS_PER_PEER).clamp(LEAST_BATCH_BYTES, ITEMS_BUDGET_BYTES);
        // One more than would fit, since the last is given whole.
        let each = (self.came_bytes / self.came_records.max(1)).max(1) as usize;
        let many = if self.came_records == 0 { LEAST_BATCH_RECORDS } else { (budget_bytes / each + 1).min(MAX_FETCH) };
        let ids = self.first_of(&peer, many);
        for id in &ids {
            self.set_stage(id, Stage::Asked(request));
        }
        if !ids.is_empty() {
            self.requests.insert(request, Request { peer, left: ids.iter().copied().collect() });
        }
        Batch { ids, budget_bytes }
    }

    /// What to ask `peer` for next: what it suggested, as far as that is still to be had of it, then the others.
    fn first_of(&mut self, peer: &AuthorId, many: usize) -> Vec<ShortId> {
        let Some(idle) = self.idle.get(peer) else { return Vec::new() };
        let mut ids = Vec::new();
        if let Some(preferred) = self.preferred.get_mut(peer) {
            while ids.len() < many
                && let Some(id) = preferred.pop_front()
            {
                if idle.contains(&id) && !ids.contains(&id) {
                    ids.push(id);
                }
            }
        }
        let rest = idle.iter().filter(|id| !ids.contains(id)).take(many - ids.len()).copied();
        let rest: Vec<ShortId> = rest.collect();
        ids.extend(rest);
        ids
    }

    /// Notes what `peer` suggests to ask it for, after what it suggested before. Gives how many of them are wanted of it.
    pub(crate) fn prefer(&mut self, peer: AuthorId, ids: impl IntoIterator<Item = ShortId>) -> usize {
        let Some(idle) = self.idle.get(&peer) else { return 0 };
        let preferred = self.preferred.entry(peer).or_default();
        let before = preferred.len();
        let room = MAX_PREFERRED.saturating_sub(before);
        preferred.extend(ids.into_iter().filter(|id| idle.contains(id)).take(room));
        preferred.len() - before
    }

    /// How many records may be asked of `peer`, and how many of those it suggested are left.
    pub(crate) fn to_ask(&self, peer: &AuthorId) -> (usize, usize) {
        (self.idle.get(peer).map_or(0, BTreeSet::len), self.preferred.get(peer).map_or(0, VecDeque::len))
    }

    /// Asks nothing of `peer` until [`Wanted::resume`].
    pub(crate) fn pause(&mut self, peer: AuthorId) {
        self.paused.insert(peer);
    }

    /// Asks `peer` again.
    pub(crate) fn resume(&mut self, peer: &AuthorId) {
        self.paused.remove(peer);
    }

    /// Notes what an answer of a peer's brought.
    pub(crate) fn carried(&mut self, peer: &AuthorId, records: usize, bytes: usize) {
        if let Some(carried) = self.present.get_mut(peer) {
            *carried += bytes as u64;
        }
        self.came_bytes += bytes as u64;
        self.came_records += records as u64;
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

    /// Notes that a record goes to storage that came without being asked for.
    pub(crate) fn pushed(&mut self, id: impl Into<ShortId>) {
        self.set_stage(&id.into(), Stage::Admitting);
    }

    /// Ends a request. Ids it left go back to be asked for; from the same peer too unless `blame`.
    pub(crate) fn end(&mut self, request: u64, blame: bool) -> Vec<ShortId> {
        let Some(ended) = self.requests.remove(&request) else { return Vec::new() };
        let mut orphans = Vec::new();
        // What the answer had no room for was first in line, and still is.
        if let Some(preferred) = self.preferred.get_mut(&ended.peer).filter(|_| !blame) {
            ended.left.iter().rev().for_each(|id| preferred.push_front(*id));
            preferred.truncate(MAX_PREFERRED);
        }
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
        if let Some(carried) = self.present.get_mut(&peer) {
            *carried = 0;
        }
        self.end(request, false);
        // Whoever leaves a request unanswered is not asked again for what others have too.
        for id in left {
            if self.has_other_source(&id, &peer) {
                self.drop_source(&id, &peer);
            }
        }
        Some(peer)
    }

    /// Whether somebody else who is here is known to have `id`.
    pub(crate) fn has_other_source(&self, id: &ShortId, peer: &AuthorId) -> bool {
        let other = |source: &AuthorId| source != peer && self.present.contains_key(source);
        self.wants.get(id).is_some_and(|want| want.sources.iter().any(other))
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

    /// `peer` is gone: nothing can be asked of it until it is back.
    pub(crate) fn disconnected(&mut self, peer: &AuthorId) {
        let requests: Vec<u64> = self.requests.iter().filter(|(_, r)| r.peer == *peer).map(|(n, _)| *n).collect();
        for request in requests {
            self.end(request, false);
        }
        self.present.remove(peer);
        self.paused.remove(peer);
        self.preferred.remove(peer);
        if self.idle.get(peer).is_some_and(BTreeSet::is_empty) {
            self.idle.remove(peer);
        }
    }

    /// `peer` is back. True if it was found to have something that is still missing.
    pub(crate) fn returned(&mut self, peer: AuthorId) -> bool {
        self.present.entry(peer).or_default();
        !self.is_drained(&peer)
    }

    /// Whether nothing is left to be asked of `peer`, and nothing is being asked.
    pub(crate) fn is_drained(&self, peer: &AuthorId) -> bool {
        self.idle.get(peer).is_none_or(BTreeSet::is_empty) && !self.requests.values().any(|r| r.peer == *peer)
    }

    /// Drops what nobody has who is here.
    fn forget_absent(&mut self) {
        let here = |want: &Want| want.sources.iter().any(|s| self.present.contains_key(s));
        let gone: Vec<ShortId> = self.wants.iter().filter(|(_, w)| !here(w)).map(|(id, _)| *id).collect();
        gone.into_iter().for_each(|id| self.resolve(id));
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
        assert_eq!(wanted.ask(A, 1).ids, [id(1)]);
        assert!(wanted.ask(B, 2).ids.is_empty());
        wanted.end(1, true);
        assert_eq!(wanted.ask(B, 3).ids, [id(1)]);
        assert!(wanted.came(3, &id(1)));
        assert!(!wanted.came(3, &id(1)), "nothing comes twice");
        wanted.resolve(id(1));
        assert_eq!(wanted.len(), 0);
        assert!(wanted.askable().is_empty());
    }

    #[test]
    fn what_a_lost_peer_was_asked_goes_to_the_others() {
        let mut wanted = Wanted::default();
        wanted.want(id(1), A);
        wanted.want(id(1), B);
        wanted.want(id(2), A);
        assert_eq!(wanted.ask(A, 1).ids.len(), 2);
        wanted.disconnected(&A);
        assert_eq!(wanted.ask(B, 2).ids, [id(1)]);
        assert!(wanted.askable().is_empty(), "nobody here has the second");
        assert_eq!(wanted.len(), 2, "but it is known to be missing");
        assert!(wanted.returned(A));
        assert_eq!(wanted.ask(A, 3).ids, [id(2)]);
    }

    #[test]
    fn who_does_not_answer_is_not_asked_again_for_what_others_have() {
        let mut wanted = Wanted::default();
        wanted.want(id(1), A);
        wanted.want(id(1), B);
        wanted.want(id(2), A);
        assert_eq!(wanted.ask(A, 1).ids.len(), 2);
        assert_eq!(wanted.end_timed_out(1), Some(A));
        assert_eq!(wanted.ask(A, 2).ids, [id(2)], "nobody else has the second");
        assert_eq!(wanted.ask(B, 3).ids, [id(1)]);
        assert_eq!(wanted.end_timed_out(1), None);
    }

    #[test]
    fn what_is_at_stake_grows_with_what_the_connection_has_carried_and_starts_anew_with_the_next() {
        let mut wanted = Wanted::default();
        (0..=255).for_each(|n| {
            wanted.want(id(n), A);
        });
        let first = wanted.ask(A, 1);
        assert_eq!((first.budget_bytes, first.ids.len()), (LEAST_BATCH_BYTES, LEAST_BATCH_RECORDS));
        wanted.carried(&A, 100, 100_000);
        let second = wanted.ask(A, 2);
        assert_eq!((second.budget_bytes, second.ids.len()), (5_000, 6));
        wanted.carried(&A, 10_000, 10_000_000);
        assert_eq!(wanted.ask(A, 3).budget_bytes, ITEMS_BUDGET_BYTES);
        wanted.disconnected(&A);
        assert!(wanted.returned(A));
        assert_eq!(wanted.ask(A, 4).budget_bytes, LEAST_BATCH_BYTES);
    }

    #[test]
    fn a_full_list_makes_room_by_forgetting_what_nobody_here_has() {
        let mut wanted = Wanted::default();
        let short = |n: usize| ShortId::from_value(n as u64);
        let many = |n: usize| AuthorId([10 + (n / MAX_WANTED_OF_ONE) as u8; 32]);
        assert!((0..MAX_WANTED).all(|n| wanted.want(short(n), many(n))));
        assert!(!wanted.want(short(MAX_WANTED), B));
        (0..MAX_WANTED).step_by(MAX_WANTED_OF_ONE).for_each(|n| wanted.disconnected(&many(n)));
        assert!(wanted.want(short(MAX_WANTED), B));
        assert_eq!((wanted.len(), wanted.askable()), (1, vec![B]));
    }

    #[test]
    fn no_one_fills_the_list_for_all() {
        let mut wanted = Wanted::default();
        let short = |n: usize| ShortId::from_value(n as u64);
        assert!((0..MAX_WANTED_OF_ONE).all(|n| wanted.want(short(n), A)));
        assert!(!wanted.want(short(MAX_WANTED_OF_ONE), A));
        assert!(wanted.want(short(MAX_WANTED_OF_ONE), B));
    }

    #[test]
    fn a_source_that_is_here_takes_the_place_of_one_that_is_away() {
        let mut wanted = Wanted::default();
        for n in 0..MAX_SOURCES as u8 {
            wanted.want(id(1), AuthorId([10 + n; 32]));
            wanted.disconnected(&AuthorId([10 + n; 32]));
        }
        wanted.want(id(1), A);
        assert_eq!(wanted.askable(), [A]);
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
