//! Faults of a scenario, begun and ended in a world.

use folklore_protocol::Lesson;

use super::{Call, Experiment};
use crate::{
    hostile::Attack,
    link::{Passage, Split},
    observe::Observed,
    scenario::FaultKind,
};

/// A withholder acts by leaving things undone; its timer does nothing, this often, milliseconds.
const IDLE_ATTACK_MS: u64 = 3_600_000;

/// Which group each node is in: 0 is no group.
fn groups_of(nodes: usize, groups: &[Vec<usize>]) -> Vec<u16> {
    let mut group_of = vec![0; nodes];
    for (group, members) in (1..).zip(groups) {
        for n in members {
            if let Some(of) = group_of.get_mut(*n) {
                *of = group;
            }
        }
    }
    group_of
}

/// What a fault cuts while it does: its groups, to which `place` may add nodes beyond those that it names. `None`: it is no cut.
pub(crate) fn split_of(kind: &FaultKind, nodes: usize, place: impl Fn(Vec<u16>) -> Vec<u16>) -> Option<Split> {
    let passage = if matches!(kind, FaultKind::HoldPartition { .. }) { Passage::Held } else { Passage::Cut };
    match kind {
        FaultKind::DropPartition { groups }
        | FaultKind::Bridge { groups, .. }
        | FaultKind::HoldPartition { groups }
        | FaultKind::Flapping { groups, .. } => {
            let numbers = 1..=groups.len() as u16;
            Some(numbers.clone().fold(Split::new(place(groups_of(nodes, groups))), |split, a| {
                numbers.clone().filter(|b| a != *b).fold(split, |split, b| split.with(a, b, passage))
            }))
        }
        FaultKind::OneWay { from, to } => {
            let group_of = place(groups_of(nodes, &[from.clone(), to.clone()]));
            Some(Split::new(group_of).with(1, 2, passage))
        }
        FaultKind::Isolate { nodes: isolated } => {
            let group_of = place(groups_of(nodes, std::slice::from_ref(isolated)));
            Some(Split::new(group_of).between(0, 1, passage).with(1, 1, passage))
        }
        _ => None,
    }
}

impl Experiment<'_> {
    pub(super) fn begin(&mut self, fault: usize) {
        self.observe(Observed::FaultBegan { fault });
        let Some(what) = self.scenario.faults.get(fault).cloned() else { return };
        let now = self.world.now_ms();
        let end = what.end_ms();
        match &what.kind {
            FaultKind::DropPartition { .. }
            | FaultKind::Bridge { .. }
            | FaultKind::HoldPartition { .. }
            | FaultKind::OneWay { .. }
            | FaultKind::Isolate { .. } => self.cut(fault, &what.kind),
            FaultKind::Flapping { .. } => self.flap(fault, true),
            FaultKind::Crash { nodes } => nodes.iter().for_each(|n| self.take_down(*n, true)),
            FaultKind::RestartLostWrites { nodes } | FaultKind::Leave { nodes } => {
                nodes.iter().for_each(|n| self.take_down(*n, false));
            }
            FaultKind::RestoreOldCopy { nodes, .. } => {
                for n in nodes {
                    self.take_down(*n, false);
                    self.put_back(fault, *n);
                }
            }
            FaultKind::Pause { nodes } => {
                let ms = end.unwrap_or(self.end_ms()).saturating_sub(now);
                nodes.iter().for_each(|n| self.world.pause(*n, ms));
            }
            FaultKind::DiskFull { nodes } => nodes.iter().for_each(|n| self.world.disk_faults(*n).full = true),
            FaultKind::ClockSkew { nodes, by_ms } => nodes.iter().for_each(|n| self.set_clock(*n, *by_ms, 0)),
            FaultKind::ClockDrift { nodes, ppm } => nodes.iter().for_each(|n| self.set_clock(*n, 0, *ppm)),
            FaultKind::Join { nodes } => nodes.iter().for_each(|n| self.bring_up(*n)),
            FaultKind::Forge { nodes, every_ms } => self.turn(nodes, Attack::Forge, *every_ms),
            FaultKind::Equivocate { nodes, every_ms } => self.turn(nodes, Attack::Equivocate, *every_ms),
            FaultKind::Flood { nodes, every_ms } => self.turn(nodes, Attack::Flood, *every_ms),
            FaultKind::Withhold { nodes } => self.turn(nodes, Attack::Withhold, IDLE_ATTACK_MS),
            FaultKind::StaleReplay { nodes, every_ms } => self.turn(nodes, Attack::Replay, *every_ms),
            FaultKind::Poison { nodes, every_ms } => self.turn(nodes, Attack::Poison, *every_ms),
            FaultKind::Sybil { every_ms, .. } => {
                let names: Vec<usize> = self.names_of(fault).collect();
                names.iter().for_each(|n| self.bring_up(*n));
                self.turn(&names, Attack::Poison, *every_ms);
            }
        }
    }

    pub(super) fn end(&mut self, fault: usize) {
        let Some(what) = self.scenario.faults.get(fault).cloned() else { return };
        self.heal(fault);
        match &what.kind {
            FaultKind::Crash { nodes }
            | FaultKind::RestartLostWrites { nodes }
            | FaultKind::RestoreOldCopy { nodes, .. } => nodes.iter().for_each(|n| self.bring_up(*n)),
            FaultKind::DiskFull { nodes } => nodes.iter().for_each(|n| self.world.disk_faults(*n).full = false),
            FaultKind::ClockSkew { nodes, by_ms } => nodes.iter().for_each(|n| self.set_clock(*n, -by_ms, 0)),
            FaultKind::ClockDrift { nodes, ppm } => nodes.iter().for_each(|n| self.set_clock(*n, 0, -ppm)),
            kind if kind.is_hostile() => {
                kind.nodes().into_iter().for_each(|n| self.world.turn_honest(*n));
                let names: Vec<usize> = self.names_of(fault).collect();
                names.into_iter().for_each(|n| self.world.turn_honest(n));
            }
            _ => {}
        }
        self.observe(Observed::FaultEnded { fault });
    }

    /// A link that flaps is cut, or open, from now on for a while.
    pub(super) fn flap(&mut self, fault: usize, down: bool) {
        let Some(what) = self.scenario.faults.get(fault).cloned() else { return };
        let FaultKind::Flapping { down_ms, up_ms, .. } = &what.kind else { return };
        if down {
            self.cut(fault, &what.kind);
        } else {
            self.heal(fault);
        }
        let next = self.world.now_ms() + if down { *down_ms } else { *up_ms }.max(1);
        if next < what.end_ms().unwrap_or(self.end_ms()) {
            self.call(next, Call::Flap { fault, down: !down });
        }
    }

    /// Other names of a node are where it is, and the server is with most of the nodes of its site.
    fn with_server(&self, mut group_of: Vec<u16>) -> Vec<u16> {
        for n in self.scenario.nodes()..self.world.len() {
            group_of[n] = group_of[self.face(n)];
        }
        let site = self.scenario.nodes_of(self.scenario.run.central);
        let mut counts = std::collections::BTreeMap::<u16, usize>::new();
        group_of.get(site).unwrap_or_default().iter().for_each(|group| *counts.entry(*group).or_default() += 1);
        let most = counts.into_iter().max_by_key(|(group, count)| (*count, std::cmp::Reverse(*group)));
        group_of.push(most.map_or(0, |(group, _)| group));
        group_of
    }

    fn cut(&mut self, fault: usize, kind: &FaultKind) {
        self.heal(fault);
        let split = split_of(kind, self.world.len(), |group_of| self.with_server(group_of));
        let Some(split) = split else { return };
        let number = self.world.split(split);
        self.splits.insert(fault, number);
    }

    fn heal(&mut self, fault: usize) {
        if let Some(number) = self.splits.remove(&fault) {
            self.world.mend(number);
        }
    }

    fn take_down(&mut self, n: usize, softly: bool) {
        self.down[n] += 1;
        if self.world.is_up(n) {
            if softly { self.world.kill(n) } else { self.world.crash(n) }
        }
    }

    /// One reason less for a node to be down.
    fn bring_up(&mut self, n: usize) {
        self.down[n] = self.down[n].saturating_sub(1);
        if self.down[n] > 0 || self.world.is_up(n) {
            return;
        }
        let is_new = self.world.node(n).peers().iter().next().is_none();
        self.world.restart(n);
        // Before any peer brings back what a disk has lost.
        self.check_acknowledged(n..n + 1);
        if is_new && self.shares() {
            self.introduce(n);
        }
    }

    fn put_back(&mut self, fault: usize, n: usize) {
        let Some(copy) = self.copies.get(&(fault, n)).cloned() else { return };
        let before = self.world.disk(n).numbers(&self.bank).cloned().unwrap_or_default();
        for id in self.world.restore_disk(n, copy) {
            self.acknowledged[n].retain(|own| *own != id);
        }
        let after = self.world.disk(n).numbers(&self.bank).cloned().unwrap_or_default();
        self.see_facts();
        for number in before.iter().filter(|number| !after.contains(*number)) {
            // A withdrawal that is gone has to arrive anew.
            self.withdrawals[n].remove(number);
            if let Some(record) = self.memory.entry(number).filter(|entry| entry.taught).and_then(|e| e.observed) {
                let node = self.face(n);
                self.observe(Observed::Gone { node, record });
            }
        }
    }

    fn set_clock(&mut self, n: usize, by_ms: i64, ppm: i64) {
        let now = self.world.now_ms();
        let (skew, drift) = &mut self.clocks[n];
        (*skew, *drift) = (*skew + by_ms, *drift + ppm);
        let (skew, drift) = (*skew, *drift);
        self.world.clock(n).set_wrong(now, skew, drift);
    }

    fn turn(&mut self, nodes: &[usize], attack: Attack, every_ms: u64) {
        let lies: Vec<Lesson> = if attack == Attack::Poison { self.lies() } else { Vec::new() };
        for n in nodes {
            self.world.turn_hostile(*n, attack, self.bank, every_ms, lies.clone());
        }
    }

    /// Lessons that mislead on every task there is, those on the commonest families first.
    fn lies(&mut self) -> Vec<Lesson> {
        let mut counts = vec![0usize; self.families.len()];
        self.tasks.iter().for_each(|task| counts[task.family] += 1);
        let mut order: Vec<usize> = (0..counts.len()).collect();
        order.sort_by_key(|family| std::cmp::Reverse(counts[*family]));
        let mut lies = Vec::new();
        for family in order {
            let Some(of) = self.families.get(family) else { continue };
            for lie in (0..of.tasks.len()).filter_map(|task| of.poison(task)) {
                self.memory.declare(&lie.id(), family as u32, true);
                lies.push(lie);
            }
        }
        lies
    }
}
