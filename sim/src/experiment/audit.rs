//! What must hold in a run of a scenario, in the Folklore arm: always, at last, and at least once.

use std::collections::BTreeSet;

use folklore_protocol::{LessonId, UnverifiedRecord};

use super::{Experiment, RunEnd, RunError, memory::Shown};
use crate::{
    checks::Violation,
    library::{Number, Numbers},
    observe::Observed,
    scenario::{Arm, FaultKind},
};

/// Always: what a disk acknowledged to the agent that taught it is there, but for what an old copy put back does not have.
pub const ACKNOWLEDGED_IS_THERE: &str = "what was acknowledged is there";
/// Always: every record held has its author's signature, and the body it names.
pub const NOTHING_FORGED: &str = "nothing forged is held";
/// Always: no node shows a lesson whose withdrawal it had.
pub const NOTHING_WITHDRAWN_SERVED: &str = "nothing withdrawn is served";
/// Always: what waits at a node is bounded, whatever others send.
pub const QUEUES_ARE_BOUNDED: &str = "queues are bounded";
/// Always: what a node says it holds is on its disk, and nothing else is.
pub const HELD_IS_DURABLE: &str = crate::checks::HELD_IS_DURABLE;
/// Always, where no link loses and nobody is hostile: a request that reached a node is answered.
pub const REQUESTS_ARE_ANSWERED: &str = crate::checks::REQUESTS_ARE_ANSWERED;
/// At last: after the faults all honest nodes that are up hold the same.
pub const ROOTS_ARE_EQUAL: &str = "roots are equal after the faults";
/// At least once: a scenario that cuts links kept a message from passing.
pub const CUT_CUTS: &str = "the partition cut traffic";

/// How far behind agents' and faults' ends nodes may converge when a file gives no bound: until the run's end.
const NO_BOUND: u64 = u64::MAX;

/// What failed so far.
#[derive(Debug, Default)]
pub(super) struct Audit {
    violations: BTreeSet<Violation>,
    /// Records whose bytes were looked at.
    looked: Numbers,
}

impl Audit {
    fn found(&mut self, check: &'static str, node: usize, detail: String) {
        // The first of a kind at a node says it; a thousand more would say no more.
        if !self.violations.iter().any(|known| (known.check, known.node) == (check, node)) {
            self.violations.insert(Violation { check, node, detail });
        }
    }
}

impl Experiment<'_> {
    /// Nodes of which something is expected.
    fn honest_up(&self) -> Vec<usize> {
        (0..self.scenario.nodes()).filter(|n| !self.hostile[*n] && self.world.is_up(*n)).collect()
    }

    /// Whether all honest nodes that are up hold the same, and whether what must always hold does.
    pub(super) fn look(&mut self) {
        let honest = self.honest_up();
        let none = Numbers::default();
        let held = |n: &usize| self.world.disk(*n).numbers(&self.bank).unwrap_or(&none);
        let same = honest.windows(2).all(|pair| match pair {
            [a, b] => held(a).same_as(held(b)),
            _ => true,
        });
        if same != self.converged {
            self.converged = same;
            self.converged_at_ms = same.then_some(self.world.now_ms());
            self.observe(if same { Observed::Converged } else { Observed::Diverged });
        }
        if let Some(ms) = self.answers_within_ms() {
            for (n, detail) in self.world.overdue(ms) {
                self.audit.found(REQUESTS_ARE_ANSWERED, n, detail);
            }
        }
        for n in honest {
            let (says, has) = (self.world.node(n).held_len(&self.bank), self.world.disk(n).len(&self.bank));
            if says != has {
                self.audit.found(HELD_IS_DURABLE, n, format!("{says} records held, {has} on disk"));
            }
            if let Err(detail) = self.world.node(n).backlog().check() {
                self.audit.found(QUEUES_ARE_BOUNDED, n, detail);
            }
        }
    }

    /// Looks at what a node showed.
    pub(super) fn check_served(&mut self, node: usize, shown: &[Shown]) {
        let none = Numbers::default();
        for hit in shown {
            let held = self.world.disk(node).numbers(&self.bank).unwrap_or(&none);
            if self.memory.is_withdrawn(self.world.library(), held, &self.withdrawals[node], hit.slot) {
                let detail = format!("lesson {:?} was shown", self.memory.lesson_of(hit.slot));
                self.audit.found(NOTHING_WITHDRAWN_SERVED, node, detail);
                if let Some(record) = self.memory.entry(hit.record).and_then(|entry| entry.observed) {
                    self.observe(Observed::ServedWithdrawn { node, record });
                }
            }
        }
    }

    /// How soon a request is answered that reached a node, where that can be said: links lose nothing and do not fill, and no
    /// fault lets a standing connection lose what is under way or a node keep silent.
    fn answers_within_ms(&self) -> Option<u64> {
        let rules = &self.scenario.links;
        let links = || [&rules.within, &rules.between].into_iter().chain(rules.pairs.iter().map(|(_, _, link)| link));
        let whole = links().all(|link| link.loss_ppm == 0 && link.burst.is_none() && link.rate.is_none());
        let plain = |kind: &FaultKind| {
            let silent = matches!(
                kind,
                FaultKind::Pause { .. }
                    | FaultKind::HoldPartition { .. }
                    | FaultKind::OneWay { .. }
                    | FaultKind::ClockSkew { .. }
                    | FaultKind::ClockDrift { .. }
            );
            !silent && !kind.is_hostile()
        };
        let plain = self.scenario.faults.iter().all(|fault| plain(&fault.kind));
        let way = links().map(|link| link.latency_ms + link.jitter_ms).max().unwrap_or(0);
        (whole && plain).then_some(2 * way + 500)
    }

    /// What was acknowledged and is not there.
    pub(super) fn check_acknowledged(&mut self, nodes: std::ops::Range<usize>) {
        for n in nodes {
            let held = self.world.disk(n).numbers(&self.bank);
            let is_there = |id| {
                let number = self.world.library().number_of(id);
                number.is_some_and(|number| held.is_some_and(|held| held.contains(number)))
            };
            let gone = self.acknowledged[n].iter().filter(|id| !is_there(id)).count();
            if gone > 0 {
                let detail = format!("{gone} of {} records are gone", self.acknowledged[n].len());
                self.audit.found(ACKNOWLEDGED_IS_THERE, n, detail);
            }
        }
    }

    /// Reads what honest nodes hold from its bytes again, signature and all; each record once.
    fn check_genuine(&mut self) {
        for n in 0..self.scenario.nodes() {
            if self.hostile[n] {
                continue;
            }
            for (id, (record, body)) in self.world.entries(n, &self.bank) {
                let number: Option<Number> = self.world.library().number_of(&id);
                let odd = body.as_ref().map(|body| LessonId::of(body)) != record.claim().body() && body.is_some();
                let is_new = number.is_none_or(|number| self.audit.looked.insert(number));
                let read = || UnverifiedRecord::parse(record.bytes()).and_then(UnverifiedRecord::verify);
                if odd || record.id() != id || (is_new && read().map_or(true, |read| read.id() != id)) {
                    self.audit.found(NOTHING_FORGED, n, format!("{id} does not fit its bytes"));
                }
            }
        }
    }

    fn check_converged(&mut self) {
        let expect = &self.scenario.expect;
        if !expect.convergence {
            return;
        }
        let honest = self.honest_up();
        let roots: Vec<_> = honest.iter().map(|n| self.world.held_root(*n, &self.bank)).collect();
        for (n, root) in honest.iter().zip(&roots) {
            if Some(root) != roots.first() {
                let first = honest.first().copied().unwrap_or(0);
                self.audit.found(ROOTS_ARE_EQUAL, *n, format!("another root than node {first} at the end"));
            }
        }
        // Agents that go on teaching keep nodes apart; what is bounded is the time from when both they and faults ended.
        let from = self.scenario.run.duration_ms.max(self.scenario.quiet_from_ms());
        let bound = expect.converge_within_ms.map_or(NO_BOUND, |ms| from.saturating_add(ms));
        if let Some(late) = self.converged_at_ms.filter(|at| *at > bound) {
            self.audit.found(ROOTS_ARE_EQUAL, 0, format!("only at {late} ms, {} ms too late", late - bound));
        }
    }

    pub(super) fn finish(mut self) -> Result<RunEnd, RunError> {
        let counters = self.counters().clone();
        if self.arm != Arm::Folklore {
            self.converged = true;
        } else {
            self.check_converged();
            self.check_genuine();
            let cuts = |kind: &FaultKind| kind.is_cut();
            let began = |at: u64| at < self.world.now_ms();
            if self.scenario.faults.iter().any(|fault| cuts(&fault.kind) && began(fault.at_ms)) && counters.stopped == 0
            {
                self.audit.found(CUT_CUTS, 0, "no message was kept from passing".into());
            }
        }
        self.check_acknowledged(0..self.scenario.nodes());
        let nodes = 0..self.scenario.nodes();
        let roots =
            if self.shares() { nodes.map(|n| self.world.held_root(n, &self.bank)).collect() } else { Vec::new() };
        let mut digest = vec![counters.handled_messages, counters.handled_timers, counters.total_bytes()];
        digest.extend(roots.iter().flatten().filter_map(|root| root.0.first_chunk().map(|b| u64::from_le_bytes(*b))));
        self.world.mark(&digest);
        Ok(RunEnd {
            digest: self.world.digest(),
            messages: counters.handled_messages,
            timers: counters.handled_timers,
            stopped: counters.stopped,
            end_ms: self.world.now_ms(),
            converged: self.converged,
            converged_at_ms: self.converged_at_ms,
            roots,
            violations: self.audit.violations.into_iter().collect(),
            records: self.world.library().len(),
            verified: self.world.library().verified(),
        })
    }
}
