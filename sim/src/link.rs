//! The link model: latency, jitter, loss, loss in bursts, rate, queues, and what is cut or held. No other place models a link.
//!
//! Nothing here is kept for each pair of nodes. A node has a site, and a matrix over sites says what the link between two is
//! like; a [`Split`] gives each node a group, and a directed matrix over groups says what passes. What belongs to one direction
//! of one connection ([`Lane`]) lives as long as that connection.
//!
//! Connections are TCP's: what a cut stops is sent again after a while that doubles each time ([`sent_again`]), so what comes
//! through after a heal comes late, and so does the first packet of a dial ([`DIAL_AT_MS`]).

use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;
use rand_core::Rng;

use crate::observe::LossCause;

/// Linux's least retransmission timeout, milliseconds (`TCP_RTO_MIN`); the way there and back comes on top.
const LEAST_RTO_MS: u64 = 200;
/// Linux's longest, milliseconds (`TCP_RTO_MAX`).
pub(crate) const LONGEST_RTO_MS: u64 = 120_000;
/// When a dial sends its first packet, and again as long as nothing answers, milliseconds after it began: after a second, and
/// twice as long each time (RFC 6298, and what Linux does). After that the dial is given up before the next would be due
/// ([`folklore_protocol::DIAL_TIMEOUT_MS`]).
pub(crate) const DIAL_AT_MS: [u64; 4] = [0, 1_000, 3_000, 7_000];

/// When TCP sends again what it first sent at `first_ms` and nobody acknowledged: the first such time that is not before `now_ms`.
pub(crate) fn sent_again(first_ms: u64, rto_ms: u64, now_ms: u64) -> u64 {
    let (mut at_ms, mut wait_ms) = (first_ms, rto_ms.clamp(1, LONGEST_RTO_MS));
    while at_ms < now_ms {
        at_ms += wait_ms;
        wait_ms = (2 * wait_ms).min(LONGEST_RTO_MS);
    }
    at_ms
}

/// What a message meets between two nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Least time under way, milliseconds.
    pub latency_ms: u64,
    /// Up to this much more, drawn evenly.
    pub jitter_ms: u64,
    /// Messages lost, per million. (A TCP stream loses none; a message dropped from a full queue is lost just so.)
    pub loss_ppm: u32,
    /// Loss that comes in bursts, beside the other.
    pub burst: Option<Burst>,
    /// Bytes a second each way; `None`: without bound.
    pub rate_bytes: Option<u64>,
    /// Bytes that wait for their turn where there is a rate; what would be beyond is dropped.
    pub queue_bytes: u64,
}

impl Default for Link {
    fn default() -> Self {
        let (loss_ppm, burst, rate_bytes) = (0, None, None);
        Self { latency_ms: 20, jitter_ms: 10, loss_ppm, burst, rate_bytes, queue_bytes: 256 * 1024 }
    }
}

impl Link {
    /// After how long TCP first sends again what nobody acknowledged, milliseconds.
    pub(crate) fn rto_ms(&self) -> u64 {
        LEAST_RTO_MS + 2 * self.latency_ms
    }

    /// How long one packet is under way, milliseconds: drawn.
    pub(crate) fn trip_ms(&self, rng: &mut ChaCha8Rng) -> u64 {
        let jitter = if self.jitter_ms == 0 { 0 } else { u64::from(rng.next_u32()) % (self.jitter_ms + 1) };
        self.latency_ms + jitter
    }

    /// The same on average.
    pub(crate) fn mean_trip_ms(&self) -> u64 {
        self.latency_ms + self.jitter_ms / 2
    }
}

/// Loss in bursts: a link is good or bad, and changes from message to message (Gilbert 1960, Elliott 1963).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    /// Messages per million after which a good link turns bad.
    pub enter_ppm: u32,
    /// Messages per million after which a bad link turns good.
    pub leave_ppm: u32,
    /// Messages lost while it is bad, per million.
    pub loss_ppm: u32,
}

/// One direction of one connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lane {
    /// When the last message arrives: a stream keeps its order.
    last_arrival_ms: u64,
    /// When what was sent so far is on the wire, microseconds.
    busy_until_us: u64,
    /// What it first sent of all that a cut keeps from arriving, when that was.
    stalled_ms: Option<u64>,
    bad: bool,
}

/// Whether messages pass between two nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Passage {
    /// They do.
    #[default]
    Open,
    /// They wait until the fault is over, and come late.
    Held,
    /// They are lost.
    Cut,
}

/// A partition: a group for each node, and what passes from group to group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    group_of: Vec<u16>,
    groups: usize,
    /// What passes from group `a` to group `b`, at `a * groups + b`.
    matrix: Vec<Passage>,
}

impl Split {
    /// Of these groups, one a node; everything passes.
    pub fn new(group_of: Vec<u16>) -> Self {
        let groups = group_of.iter().max().map_or(1, |most| usize::from(*most) + 1);
        Self { group_of, groups, matrix: vec![Passage::Open; groups * groups] }
    }

    /// Says what passes from one group to another.
    #[must_use]
    pub fn with(mut self, from: u16, to: u16, passage: Passage) -> Self {
        if let Some(cell) = self.matrix.get_mut(usize::from(from) * self.groups + usize::from(to)) {
            *cell = passage;
        }
        self
    }

    /// Says what passes between two groups, both ways.
    #[must_use]
    pub fn between(self, a: u16, b: u16, passage: Passage) -> Self {
        self.with(a, b, passage).with(b, a, passage)
    }

    /// What passes from one node to another. Nodes without a group are in the first.
    pub fn passage(&self, from: usize, to: usize) -> Passage {
        let group = |node: usize| usize::from(self.group_of.get(node).copied().unwrap_or(0));
        self.matrix.get(group(from) * self.groups + group(to)).copied().unwrap_or_default()
    }
}

/// All links.
#[derive(Debug, Clone, Default)]
pub struct Links {
    site_of: Vec<u16>,
    sites: usize,
    /// What the link from site `a` to site `b` is like, at `a * sites + b`; sites beyond have the default.
    between: Vec<Link>,
    default: Link,
    /// Those that are like no other; few.
    by_pair: BTreeMap<(usize, usize), Link>,
    /// What is cut and held now, by the number of the fault.
    splits: BTreeMap<u64, Split>,
    splits_ever: u64,
}

impl Links {
    /// Links that are all like `default`.
    pub fn new(default: Link) -> Self {
        Self { default, ..Self::default() }
    }

    /// Gives each node a site, and each two sites (row by row, the link from the row's to the column's) their link.
    pub fn place(&mut self, site_of: Vec<u16>, between: Vec<Link>) {
        self.sites = between.len().isqrt();
        (self.site_of, self.between) = (site_of, between);
    }

    /// The link from one node to another.
    pub fn get(&self, from: usize, to: usize) -> Link {
        if !self.by_pair.is_empty()
            && let Some(link) = self.by_pair.get(&(from.min(to), from.max(to)))
        {
            return *link;
        }
        if self.sites == 0 {
            return self.default;
        }
        let site = |node: usize| usize::from(self.site_of.get(node).copied().unwrap_or(0));
        self.between.get(site(from) * self.sites + site(to)).copied().unwrap_or(self.default)
    }

    /// The link between two nodes, to change for these two alone.
    pub fn get_mut(&mut self, a: usize, b: usize) -> &mut Link {
        let now = self.get(a, b);
        self.by_pair.entry((a.min(b), a.max(b))).or_insert(now)
    }

    /// Begins a partition; it lasts until [`Links::mend`] with the number given.
    pub fn split(&mut self, split: Split) -> u64 {
        self.splits_ever += 1;
        self.splits.insert(self.splits_ever, split);
        self.splits_ever
    }

    /// Ends a partition.
    pub fn mend(&mut self, number: u64) {
        self.splits.remove(&number);
    }

    /// Ends all.
    pub fn mend_all(&mut self) {
        self.splits.clear();
    }

    /// What passes from one node to another: the least that any partition lets through.
    pub fn passage(&self, from: usize, to: usize) -> Passage {
        self.splits.values().map(|split| split.passage(from, to)).max().unwrap_or_default()
    }

    /// Whether a message, and the answer to it, pass now.
    pub fn is_open(&self, a: usize, b: usize) -> bool {
        self.splits.is_empty() || (self.passage(a, b) == Passage::Open && self.passage(b, a) == Passage::Open)
    }

    /// When a message sent now arrives, or why it is lost on the way. (What is cut or held is not asked here.)
    pub fn arrival(
        &self,
        lane: &mut Lane,
        (from, to): (usize, usize),
        now_ms: u64,
        bytes: usize,
        rng: &mut ChaCha8Rng,
    ) -> Result<u64, LossCause> {
        let link = self.get(from, to);
        let lost = |rng: &mut ChaCha8Rng, ppm: u32| ppm > 0 && rng.next_u32() % 1_000_000 < ppm;
        if let Some(burst) = link.burst {
            lane.bad ^= lost(rng, if lane.bad { burst.leave_ppm } else { burst.enter_ppm });
            if lane.bad && lost(rng, burst.loss_ppm) {
                return Err(LossCause::Loss);
            }
        }
        if lost(rng, link.loss_ppm) {
            return Err(LossCause::Loss);
        }
        let mut sent_ms = now_ms;
        if let Some(rate) = link.rate_bytes {
            let (rate, now_us) = (rate.max(1), now_ms * 1000);
            let waiting_us = lane.busy_until_us.saturating_sub(now_us);
            if waiting_us.saturating_mul(rate) / 1_000_000 > link.queue_bytes {
                return Err(LossCause::Queue);
            }
            lane.busy_until_us = now_us + waiting_us + (bytes as u64).saturating_mul(1_000_000) / rate;
            sent_ms = lane.busy_until_us.div_ceil(1000);
        }
        Ok(lane.after(sent_ms + link.trip_ms(rng)))
    }
}

impl Lane {
    /// When something arrives that would come at `at_ms` if nothing were before it.
    pub fn after(&mut self, at_ms: u64) -> u64 {
        self.last_arrival_ms = self.last_arrival_ms.max(at_ms);
        self.last_arrival_ms
    }

    /// Something that was sent at this time meets a cut.
    pub(crate) fn stall(&mut self, at_ms: u64) {
        self.stalled_ms = Some(self.stalled_ms.map_or(at_ms, |first| first.min(at_ms)));
    }

    /// The cut is over: when what it stopped is sent again; `None` where it stopped nothing.
    pub(crate) fn resume(&mut self, link: &Link, now_ms: u64) -> Option<u64> {
        self.stalled_ms.take().map(|first_ms| sent_again(first_ms, link.rto_ms(), now_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::SeedableRng;

    fn arrivals(link: Link, messages: u64, every_ms: u64, bytes: usize) -> Vec<Option<u64>> {
        let (links, mut lane, mut rng) = (Links::new(link), Lane::default(), ChaCha8Rng::from_seed([1; 32]));
        (0..messages).map(|n| links.arrival(&mut lane, (0, 1), n * every_ms, bytes, &mut rng).ok()).collect()
    }

    #[test]
    fn loss_is_near_the_rate_asked_for_and_order_is_kept() {
        let arrived: Vec<u64> =
            arrivals(Link { loss_ppm: 200_000, ..Link::default() }, 10_000, 1, 100).into_iter().flatten().collect();
        assert!((7_800..8_200).contains(&arrived.len()), "{}", arrived.len());
        assert!(arrived.windows(2).all(|w| w[0] <= w[1]));
    }

    #[test]
    fn losses_in_bursts_come_together_and_as_often_as_the_chain_says() {
        // Bad a quarter of the time, in runs of twenty; all is lost then.
        let burst = Burst { enter_ppm: 16_667, leave_ppm: 50_000, loss_ppm: 1_000_000 };
        let lost: Vec<bool> = arrivals(Link { burst: Some(burst), ..Link::default() }, 100_000, 1, 100)
            .into_iter()
            .map(|at| at.is_none())
            .collect();
        let share = lost.iter().filter(|lost| **lost).count() as f64 / 1e5;
        assert!((0.22..0.28).contains(&share), "{share}");
        let runs = lost.chunk_by(|a, b| a == b).filter(|run| run[0]).count() as f64;
        let mean = share * 1e5 / runs;
        assert!((17.0..23.0).contains(&mean), "{mean}");
    }

    #[test]
    fn a_rate_spaces_messages_and_a_full_queue_drops_them() {
        let link =
            Link { latency_ms: 5, jitter_ms: 0, rate_bytes: Some(10_000), queue_bytes: 4_000, ..Link::default() };
        // A thousand bytes take a tenth of a second; ten at once: five wait or go, the others find the queue full.
        let at = arrivals(link, 10, 0, 1_000);
        assert_eq!(at[..5], [Some(105), Some(205), Some(305), Some(405), Some(505)]);
        assert!(at[5..].iter().all(Option::is_none), "{at:?}");
        assert!(arrivals(link, 50, 100, 1_000).iter().all(Option::is_some), "at its rate nothing is lost");
    }

    #[test]
    fn what_a_cut_stopped_is_sent_again_after_a_wait_that_doubles() {
        let at = |now_ms| sent_again(1_000, 300, now_ms);
        assert_eq!((at(900), at(1_000), at(1_001), at(1_301), at(1_901)), (1_000, 1_000, 1_300, 1_900, 3_100));
        // Never more than two minutes apart.
        assert!((1_000..2_000).map(|s| at(s * 1000) - s * 1000).all(|wait| wait <= LONGEST_RTO_MS));
        let (link, mut lane) = (Link { latency_ms: 50, ..Link::default() }, Lane::default());
        assert_eq!(lane.resume(&link, 5_000), None);
        lane.stall(1_000);
        lane.stall(1_200);
        assert_eq!(lane.resume(&link, 1_800), Some(1_900));
        assert_eq!(lane.resume(&link, 1_800), None, "all of it went");
    }

    #[test]
    fn a_split_is_directed_and_several_add_up() {
        let mut links = Links::default();
        let one_way = links.split(Split::new(vec![0, 1, 1]).with(0, 1, Passage::Cut));
        assert_eq!((links.passage(0, 1), links.passage(1, 0)), (Passage::Cut, Passage::Open));
        assert_eq!(links.passage(1, 2), Passage::Open);
        let held = links.split(Split::new(vec![0, 0, 1]).between(0, 1, Passage::Held));
        assert_eq!((links.passage(0, 2), links.passage(2, 0)), (Passage::Cut, Passage::Held));
        links.mend(one_way);
        assert_eq!(links.passage(0, 2), Passage::Held);
        links.mend(held);
        assert!(links.is_open(0, 2));
    }

    #[test]
    fn a_node_s_site_decides_its_links() {
        let mut links = Links::default();
        let of = |latency_ms| Link { latency_ms, ..Link::default() };
        links.place(vec![0, 0, 1], vec![of(1), of(80), of(90), of(2)]);
        assert_eq!((links.get(0, 1).latency_ms, links.get(0, 2).latency_ms, links.get(2, 0).latency_ms), (1, 80, 90));
        links.get_mut(0, 1).latency_ms = 7;
        assert_eq!((links.get(1, 0).latency_ms, links.get(2, 2).latency_ms), (7, 2));
    }
}
