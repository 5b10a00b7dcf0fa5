//! Who holds which record: staleness, hops, and what became of each record in the end.

use super::{Curve, RunFigures, histogram::Histogram};
use crate::{observe::Observed, scenario::Scenario};

/// A taught record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub taught_ms: u64,
    pub node: usize,
    pub poison: bool,
    /// Whether an honest node other than its author's ever held it.
    pub travelled: bool,
}

/// What an event changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// A node holds a record of an honest author that it did not.
    Gained { node: usize, record: usize },
    /// A node no longer holds one.
    Lost { node: usize, record: usize },
    /// A node is up that was not.
    Up { node: usize },
    /// A node is down that was up.
    Down { node: usize },
}

/// Which records each node holds.
#[derive(Debug)]
pub struct Holding {
    site_of: Vec<usize>,
    hostile: Vec<bool>,
    up: Vec<bool>,
    /// When each node was first up, milliseconds.
    since_ms: Vec<Option<u64>>,
    records: Vec<Option<Entry>>,
    /// One bit a record, for each node.
    held: Vec<Vec<u64>>,
    /// Records of honest authors held at each node.
    held_count: Vec<u64>,
    /// Of all honest nodes that are up together.
    held_by_up: u64,
    up_count: u64,
    honest_records: u64,
    taught: u64,
    delivered: u64,
    stale_ms: Histogram,
    hops: Histogram,
    poisoned_nodes: Vec<bool>,
    poison_taught: u64,
    refused: u64,
    share: Curve,
    step_ms: u64,
}

impl Holding {
    pub(super) fn new(scenario: &Scenario, step_ms: u64) -> Self {
        let nodes = scenario.nodes();
        Self {
            site_of: scenario.site_of_nodes(),
            hostile: scenario.hostile(),
            up: vec![false; nodes],
            since_ms: vec![None; nodes],
            records: Vec::new(),
            held: vec![Vec::new(); nodes],
            held_count: vec![0; nodes],
            held_by_up: 0,
            up_count: 0,
            honest_records: 0,
            taught: 0,
            delivered: 0,
            stale_ms: Histogram::default(),
            hops: Histogram::default(),
            poisoned_nodes: vec![false; nodes],
            poison_taught: 0,
            refused: 0,
            share: Curve::default(),
            step_ms,
        }
    }

    /// Lessons taught by honest nodes.
    pub fn taught(&self) -> u64 {
        self.taught
    }

    /// Records that came to a node that lacked them, over a link.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    pub(super) fn site_of(&self, node: usize) -> usize {
        self.site_of.get(node).copied().unwrap_or_default()
    }

    pub(super) fn is_honest(&self, node: usize) -> bool {
        self.hostile.get(node).is_some_and(|hostile| !hostile)
    }

    pub(super) fn is_up(&self, node: usize) -> bool {
        self.up.get(node) == Some(&true)
    }

    pub(super) fn nodes(&self) -> usize {
        self.up.len()
    }

    pub(super) fn entry(&self, record: usize) -> Option<&Entry> {
        self.records.get(record)?.as_ref()
    }

    pub(super) fn records(&self) -> u64 {
        self.honest_records
    }

    /// How many records of honest authors a node holds.
    pub(super) fn count(&self, node: usize) -> u64 {
        self.held_count.get(node).copied().unwrap_or_default()
    }

    pub(super) fn holds(&self, node: usize, record: usize) -> bool {
        let word = self.held.get(node).and_then(|words| words.get(record / 64));
        word.is_some_and(|word| word >> (record % 64) & 1 == 1)
    }

    /// Puts the share that is held into the curve, for every step that ended by then.
    pub(super) fn advance(&mut self, at_ms: u64) {
        while (self.share.at_ms.len() as u64 + 1) * self.step_ms <= at_ms {
            let possible = self.up_count * self.honest_records;
            self.share.values.push((possible > 0).then(|| self.held_by_up as f64 / possible as f64));
            self.share.at_ms.push((self.share.at_ms.len() as u64 + 1) * self.step_ms);
        }
    }

    pub(super) fn see(&mut self, at_ms: u64, what: &Observed) -> Option<Change> {
        match *what {
            Observed::Taught { node, record, poison, .. } => {
                let record = usize::try_from(record).ok()?;
                if self.records.len() <= record {
                    self.records.resize(record + 1, None);
                }
                self.records[record] = Some(Entry { taught_ms: at_ms, node, poison, travelled: false });
                self.poison_taught += u64::from(poison);
                if !self.is_honest(node) {
                    return None;
                }
                self.taught += 1;
                self.honest_records += 1;
                self.gain(node, record)
            }
            Observed::Stored { node, record, from, hops } => {
                let record = usize::try_from(record).ok()?;
                if self.holds(node, record) || self.hostile.get(node) != Some(&false) {
                    return None;
                }
                let entry = self.records.get_mut(record)?.as_mut()?;
                if from.is_some() {
                    self.delivered += 1;
                    self.hops.add(u64::from(hops));
                    if node != entry.node {
                        entry.travelled = true;
                        // Nobody knows anything before he comes.
                        let since = self.since_ms.get(node).copied().flatten().unwrap_or(0);
                        self.stale_ms.add(at_ms.saturating_sub(entry.taught_ms.max(since)));
                    }
                }
                if entry.poison {
                    self.poisoned_nodes[node] = true;
                }
                self.gain(node, record)
            }
            Observed::Gone { node, record } => {
                let record = usize::try_from(record).ok()?;
                let entry = *self.entry(record)?;
                if !self.holds(node, record) {
                    return None;
                }
                self.held[node][record / 64] &= !(1 << (record % 64));
                if !self.is_honest(entry.node) {
                    return None;
                }
                self.held_count[node] -= 1;
                if self.is_up(node) && self.is_honest(node) {
                    self.held_by_up -= 1;
                }
                Some(Change::Lost { node, record })
            }
            Observed::Up { node } if !self.is_up(node) => {
                *self.up.get_mut(node)? = true;
                self.since_ms[node].get_or_insert(at_ms);
                if !self.is_honest(node) {
                    return None;
                }
                self.up_count += 1;
                self.held_by_up += self.held_count[node];
                Some(Change::Up { node })
            }
            Observed::Down { node } if self.is_up(node) => {
                self.up[node] = false;
                if !self.is_honest(node) {
                    return None;
                }
                self.up_count -= 1;
                self.held_by_up -= self.held_count[node];
                Some(Change::Down { node })
            }
            Observed::Refused { .. } => {
                self.refused += 1;
                None
            }
            _ => None,
        }
    }

    fn gain(&mut self, node: usize, record: usize) -> Option<Change> {
        if self.holds(node, record) {
            return None;
        }
        let words = self.held.get_mut(node)?;
        if words.len() <= record / 64 {
            words.resize(record / 64 + 1, 0);
        }
        words[record / 64] |= 1 << (record % 64);
        let author = self.records.get(record)?.as_ref()?.node;
        if !self.is_honest(author) {
            return None;
        }
        self.held_count[node] += 1;
        if self.is_up(node) && self.is_honest(node) {
            self.held_by_up += 1;
        }
        Some(Change::Gained { node, record })
    }

    pub(super) fn report(&self, run: &mut RunFigures) {
        let mut put = |name: &str, value: Option<f64>| run.figures.extend(value.map(|value| (name.to_string(), value)));
        let seconds = |ms: Option<u64>| ms.map(|ms| ms as f64 / 1000.0);
        put("staleness.mean_s", self.stale_ms.mean().map(|ms| ms / 1000.0));
        put("staleness.p50_s", seconds(self.stale_ms.quantile(0.5)));
        put("staleness.p95_s", seconds(self.stale_ms.quantile(0.95)));
        put("staleness.max_s", seconds(self.stale_ms.max()));
        put("hops.mean", self.hops.mean());
        put("hops.max", self.hops.max().map(|hops| hops as f64));
        // What a reader of all nodes finds at the end, in the terms of Jepsen's set-full.
        let readers: Vec<usize> = (0..self.nodes()).filter(|n| self.is_up(*n) && self.is_honest(*n)).collect();
        let (mut lost, mut stale, mut never_read) = (0_u64, 0_u64, 0_u64);
        for (record, entry) in self.records.iter().enumerate() {
            let Some(entry) = entry.filter(|entry| self.is_honest(entry.node)) else { continue };
            let held = readers.iter().filter(|node| self.holds(**node, record)).count();
            lost += u64::from(held == 0);
            stale += u64::from(held > 0 && held < readers.len());
            never_read += u64::from(!entry.travelled);
        }
        put("set.acknowledged", Some(self.honest_records as f64));
        put("set.lost", Some(lost as f64));
        put("set.stale", Some(stale as f64));
        put("set.never_read", Some(never_read as f64));
        if self.poison_taught > 0 {
            let honest = self.hostile.iter().filter(|hostile| !**hostile).count();
            let hit =
                self.poisoned_nodes.iter().zip(&self.hostile).filter(|(hit, hostile)| **hit && !**hostile).count();
            put("poison.held_by", (honest > 0).then(|| hit as f64 / honest as f64));
        }
        if self.refused > 0 {
            put("refused", Some(self.refused as f64));
        }
        run.curves.insert("held_share".into(), self.share.clone());
    }
}
