//! Making a failing scenario small: faults, nodes and workload are taken away as long as the same check still fails.
//!
//! This is delta debugging (Zeller and Hildebrandt, 2002): ever smaller parts are left out, and what still fails is gone on
//! with. Leaving something out shifts what the seed decides, so a few seeds are tried before a part is taken to be needed.

use crate::{
    runner::Engine,
    scenario::{FaultKind, Scenario},
    swarm::{Found, look, name_of},
};

/// Most runs of one shrinking.
pub const MAX_RUNS: usize = 600;
/// Seeds that are tried for each smaller scenario.
const SEEDS: u64 = 3;

/// What shrinking came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Shrunk {
    /// The smallest scenario that still fails, with the seed with which it does.
    pub scenario: Scenario,
    /// What fails in it.
    pub found: Found,
    /// How many runs that took.
    pub runs: usize,
}

/// Shrinks a scenario that fails; `None` if it does not. `on_run` is told of every run: how many there were, and how many
/// nodes and faults are left.
pub fn shrink(engine: Engine, scenario: &Scenario, on_run: &mut dyn FnMut(usize, &Scenario)) -> Option<Shrunk> {
    let found = look(engine, scenario);
    let wanted: Vec<String> = found.names().iter().map(|name| name.to_string()).collect();
    if wanted.is_empty() {
        return None;
    }
    let mut best = scenario.clone();
    best.run.seeds = 1;
    let mut shrinking = Shrinking { engine, wanted, best, found, runs: 1, on_run };
    loop {
        let before = shrinking.best.clone();
        shrinking.faults();
        shrinking.nodes();
        shrinking.workload();
        shrinking.links();
        shrinking.times();
        if shrinking.best == before || shrinking.runs >= MAX_RUNS {
            break;
        }
    }
    Some(Shrunk { scenario: shrinking.best, found: shrinking.found, runs: shrinking.runs })
}

struct Shrinking<'a> {
    engine: Engine,
    /// The checks that failed at first. A smaller scenario must fail one of them.
    wanted: Vec<String>,
    best: Scenario,
    found: Found,
    runs: usize,
    on_run: &'a mut dyn FnMut(usize, &Scenario),
}

impl Shrinking<'_> {
    /// Goes on with a smaller scenario if it still fails.
    fn keep_if_it_fails(&mut self, mut smaller: Scenario) -> bool {
        if smaller == self.best || smaller.nodes() == 0 {
            return false;
        }
        let first = self.best.run.first_seed;
        for seed in first..first + SEEDS {
            if self.runs >= MAX_RUNS {
                return false;
            }
            self.runs += 1;
            smaller.run.first_seed = seed;
            let found = look(self.engine, &smaller);
            (self.on_run)(self.runs, &self.best);
            if found.violations.iter().any(|what| self.wanted.iter().any(|name| name == name_of(what))) {
                self.best = smaller;
                self.found = found;
                return true;
            }
        }
        false
    }

    /// Leaves out faults: halves, quarters, and so on to single ones.
    fn faults(&mut self) {
        let mut size = self.best.faults.len();
        while size > 0 {
            let mut at = 0;
            while at < self.best.faults.len() {
                let mut smaller = self.best.clone();
                smaller.faults.drain(at..(at + size).min(smaller.faults.len()));
                if !self.keep_if_it_fails(smaller) {
                    at += size;
                }
            }
            size /= 2;
        }
    }

    /// Leaves out sites, then nodes.
    fn nodes(&mut self) {
        for site in (0..self.best.sites.len()).rev() {
            if self.best.sites.len() > 1 {
                let gone = self.best.nodes_of(site);
                self.keep_if_it_fails_without(|node| gone.contains(&node));
            }
        }
        for node in (0..self.best.nodes()).rev() {
            if self.best.nodes() > 1 && node < self.best.nodes() {
                self.keep_if_it_fails_without(|gone| gone == node);
            }
        }
    }

    fn keep_if_it_fails_without(&mut self, gone: impl Fn(usize) -> bool) -> bool {
        without(&self.best, gone).is_some_and(|smaller| self.keep_if_it_fails(smaller))
    }

    /// Makes agents do less.
    fn workload(&mut self) {
        self.try_change(|s| s.workload.withdraw_ppm = 0);
        self.try_change(|s| s.workload.preload = 0);
        self.try_change(|s| s.workload.tasks = None);
        self.try_change(|s| s.sites.iter_mut().for_each(|site| site.agents = site.agents.min(1)));
        self.repeat_change(|s| s.workload.families = Some((s.workload.families.unwrap_or(64) / 2).max(1)));
        self.repeat_change(|s| s.workload.task_every_ms = (s.workload.task_every_ms * 2).min(s.run.duration_ms));
        // Where no node works but one, it is easier to see what it taught.
        for site in 0..self.best.sites.len() {
            self.try_change(|s| s.sites[site].agents = 0);
        }
    }

    /// Makes links plain.
    fn links(&mut self) {
        self.try_change(|s| s.links.pairs.clear());
        for within in [true, false] {
            let link = |s: &mut Scenario, change: fn(&mut crate::scenario::LinkSpec)| {
                change(if within { &mut s.links.within } else { &mut s.links.between });
            };
            self.try_change(|s| link(s, |link| (link.rate, link.burst) = (None, None)));
            self.try_change(|s| link(s, |link| link.loss_ppm = 0));
            self.try_change(|s| link(s, |link| link.jitter_ms = 0));
        }
    }

    /// Makes the run and its faults short, and times round.
    fn times(&mut self) {
        self.repeat_change(|s| {
            let end = s.faults.iter().map(|fault| fault.end_ms().unwrap_or(fault.at_ms) + 1).max().unwrap_or(1);
            s.run.duration_ms = (s.run.duration_ms / 2).max(end).max(s.workload.start_ms + 1);
        });
        for fault in 0..self.best.faults.len() {
            self.repeat_change(|s| {
                let fault = &mut s.faults[fault];
                fault.for_ms = fault.for_ms.map(|ms| (ms / 2).max(1_000).min(ms));
            });
            self.try_change(|s| {
                let fault = &mut s.faults[fault];
                fault.at_ms -= fault.at_ms % 1_000;
                fault.for_ms = fault.for_ms.map(|ms| (ms - ms % 1_000).max(1));
            });
        }
    }

    fn try_change(&mut self, change: impl Fn(&mut Scenario)) -> bool {
        let mut smaller = self.best.clone();
        change(&mut smaller);
        self.keep_if_it_fails(smaller)
    }

    fn repeat_change(&mut self, change: impl Fn(&mut Scenario)) {
        while self.try_change(&change) {}
    }
}

/// A scenario without some of its nodes: sites, faults and the planted bug are about the others. `None` if nothing is left.
fn without(scenario: &Scenario, gone: impl Fn(usize) -> bool) -> Option<Scenario> {
    let mut smaller = scenario.clone();
    // Where each node that stays is found afterwards.
    let mut places = Vec::new();
    let mut kept = 0;
    for node in 0..scenario.nodes() {
        places.push((!gone(node)).then_some(kept));
        kept += usize::from(!gone(node));
    }
    let place = |node: usize| places.get(node).copied().flatten();
    for (n, site) in smaller.sites.iter_mut().enumerate() {
        site.nodes = scenario.nodes_of(n).filter(|node| place(*node).is_some()).count();
    }
    for fault in &mut smaller.faults {
        for set in fault.kind.sets_mut() {
            *set = set.iter().filter_map(|node| place(*node)).collect();
        }
    }
    smaller.faults.retain_mut(|fault| still_means_something(&mut fault.kind));
    let sites_before: Vec<usize> = (0..smaller.sites.len()).filter(|n| smaller.sites[*n].nodes > 0).collect();
    smaller.run.central = sites_before.iter().position(|n| *n == smaller.run.central).unwrap_or(0);
    let site = |n: usize| sites_before.iter().position(|kept| *kept == n);
    smaller.links.pairs =
        smaller.links.pairs.iter().filter_map(|(a, b, link)| Some((site(*a)?, site(*b)?, *link))).collect();
    smaller.sites.retain(|site| site.nodes > 0);
    use crate::plant::Plant;
    smaller.run.plant = match smaller.run.plant {
        // Without its node the bug is gone, and so is what is looked for.
        Some(Plant::AcceptWrongHash(n)) => Some(Plant::AcceptWrongHash(place(n)?)),
        Some(Plant::CountTwice(n)) => Some(Plant::CountTwice(place(n)?)),
        Some(Plant::LoseTail(n)) => Some(Plant::LoseTail(place(n)?)),
        other => other,
    };
    (kept > 0).then_some(smaller)
}

/// Takes empty groups away; whether enough is left for a fault.
fn still_means_something(kind: &mut FaultKind) -> bool {
    match kind {
        FaultKind::DropPartition { groups }
        | FaultKind::HoldPartition { groups }
        | FaultKind::Flapping { groups, .. } => {
            groups.retain(|group| !group.is_empty());
            groups.len() > 1
        }
        FaultKind::Bridge { groups, bridge } => {
            groups.retain(|group| !group.is_empty());
            groups.len() > 1 && !bridge.is_empty()
        }
        other => other.sets().iter().all(|set| !set.is_empty()),
    }
}
