//! What agents got from memory: repeat failures by site and phase, recall, poison, and what could not be reached.

use std::collections::BTreeMap;

use super::{Curve, Phase, Phases, RunFigures, holding::Holding};
use crate::{observe::Observed, scenario::Scenario};

/// Attempts at families that somebody had learnt, and those of them that failed.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    attempts: u64,
    failures: u64,
}

impl Tally {
    fn add(&mut self, failed: bool) {
        self.attempts += 1;
        self.failures += u64::from(failed);
    }

    fn rate(self) -> Option<f64> {
        (self.attempts > 0).then(|| self.failures as f64 / self.attempts as f64)
    }
}

/// Watches the agents of honest nodes.
#[derive(Debug)]
pub struct Attempts {
    phases: Phases,
    site_names: Vec<String>,
    site_of: Vec<usize>,
    hostile: Vec<bool>,
    step_ms: u64,
    /// For each family, when it was first learnt at each site.
    learnt: BTreeMap<u32, Vec<Option<u64>>>,
    all: Tally,
    known: Tally,
    by_phase: [Tally; 3],
    by_site: Vec<Tally>,
    by_phase_and_site: Vec<[Tally; 3]>,
    /// Families that somebody learnt since the cuts began, and nobody at the site.
    elsewhere: [Tally; 3],
    steps: Vec<Tally>,
    found_first: u64,
    found: u64,
    answered: u64,
    poisoned: u64,
    poisoned_nodes: Vec<bool>,
    unreached: u64,
    unkept: u64,
    served_withdrawn: u64,
    poison_taught: bool,
}

impl Attempts {
    pub(super) fn new(scenario: &Scenario, phases: Phases, step_ms: u64) -> Self {
        let sites = scenario.sites.len();
        Self {
            phases,
            site_names: scenario.sites.iter().map(|site| site.name.clone()).collect(),
            site_of: scenario.site_of_nodes(),
            hostile: scenario.hostile(),
            step_ms,
            learnt: BTreeMap::new(),
            all: Tally::default(),
            known: Tally::default(),
            by_phase: Default::default(),
            by_site: vec![Tally::default(); sites],
            by_phase_and_site: vec![Default::default(); sites],
            elsewhere: Default::default(),
            steps: Vec::new(),
            found_first: 0,
            found: 0,
            answered: 0,
            poisoned: 0,
            poisoned_nodes: vec![false; scenario.nodes()],
            unreached: 0,
            unkept: 0,
            served_withdrawn: 0,
            poison_taught: false,
        }
    }

    pub(super) fn see(&mut self, at_ms: u64, what: &Observed, holding: &Holding) {
        match *what {
            Observed::Attempted { node, family, rank, shown, failed, poisoned, reached, .. } => {
                let (Some(site), Some(false)) = (self.site_of.get(node).copied(), self.hostile.get(node)) else {
                    return;
                };
                self.all.add(failed);
                self.unreached += u64::from(!reached);
                self.answered += u64::from(shown > 0);
                if poisoned {
                    self.poisoned += 1;
                    self.poisoned_nodes[node] = true;
                }
                self.known_attempt(at_ms, site, family, rank, failed);
            }
            Observed::Taught { node, family: Some(family), poison: false, .. } if holding.is_honest(node) => {
                let sites = self.site_names.len();
                let learnt = self.learnt.entry(family).or_insert_with(|| vec![None; sites]);
                if let Some(first) = learnt.get_mut(holding.site_of(node)) {
                    first.get_or_insert(at_ms);
                }
            }
            Observed::Taught { poison: true, .. } => self.poison_taught = true,
            Observed::TeachFailed { .. } => self.unkept += 1,
            Observed::ServedWithdrawn { .. } => self.served_withdrawn += 1,
            _ => {}
        }
    }

    fn known_attempt(&mut self, at_ms: u64, site: usize, family: u32, rank: Option<u32>, failed: bool) {
        let Some(learnt) = self.learnt.get(&family) else { return };
        let Some(first) = learnt.iter().flatten().min().copied() else { return };
        self.known.add(failed);
        self.by_site[site].add(failed);
        self.found_first += u64::from(rank == Some(1));
        self.found += u64::from(rank.is_some());
        let step = (at_ms / self.step_ms) as usize;
        if self.steps.len() <= step {
            self.steps.resize(step + 1, Tally::default());
        }
        self.steps[step].add(failed);
        let Some(phase) = self.phases.at(at_ms) else { return };
        self.by_phase[phase as usize].add(failed);
        self.by_phase_and_site[site][phase as usize].add(failed);
        let since_the_cut = self.phases.begin_ms().is_some_and(|begin| first >= begin);
        if since_the_cut && learnt[site].is_none() {
            self.elsewhere[phase as usize].add(failed);
        }
    }

    pub(super) fn report(&self, run: &mut RunFigures) {
        let mut put = |name: String, value: Option<f64>| run.figures.extend(value.map(|value| (name, value)));
        let ratio = |a: u64, b: u64| (b > 0).then(|| a as f64 / b as f64);
        put("attempts".into(), Some(self.all.attempts as f64));
        put("failure_rate".into(), self.all.rate());
        let mut tally = |suffix: String, tally: Tally| {
            put(format!("repeat_failure_rate{suffix}"), tally.rate());
            put(format!("repeat_failures{suffix}"), Some(tally.failures as f64));
        };
        tally(String::new(), self.known);
        for (site, name) in self.site_names.iter().enumerate() {
            tally(format!("@{name}"), self.by_site[site]);
        }
        if self.phases.begin_ms().is_some() {
            for phase in Phase::ALL {
                tally(format!(".{}", phase.name()), self.by_phase[phase as usize]);
                for (site, name) in self.site_names.iter().enumerate() {
                    tally(format!(".{}@{name}", phase.name()), self.by_phase_and_site[site][phase as usize]);
                }
            }
            for phase in [Phase::During, Phase::After] {
                let elsewhere = self.elsewhere[phase as usize];
                put(format!("only_elsewhere.failure_rate.{}", phase.name()), elsewhere.rate());
                put(format!("only_elsewhere.attempts.{}", phase.name()), Some(elsewhere.attempts as f64));
            }
        }
        put("recall_at_1".into(), ratio(self.found_first, self.known.attempts));
        put("recall_at_k".into(), ratio(self.found, self.known.attempts));
        put("unavailability".into(), ratio(self.unreached, self.all.attempts));
        put("lessons_not_kept".into(), Some(self.unkept as f64));
        put("served_withdrawn".into(), Some(self.served_withdrawn as f64));
        if self.poison_taught {
            let honest = self.hostile.iter().filter(|hostile| !**hostile).count() as u64;
            let hit = self.poisoned_nodes.iter().filter(|hit| **hit).count() as u64;
            put("poison.accept_rate".into(), ratio(self.poisoned, self.answered));
            put("poison.blast_radius".into(), ratio(hit, honest));
        }
        let at_ms = (1..=self.steps.len() as u64).map(|step| step * self.step_ms).collect();
        let rates = self.steps.iter().map(|step| step.rate()).collect();
        run.curves.insert("repeat_failure_rate".into(), Curve { at_ms, values: rates });
        let mut failures = 0;
        let at_ms = (1..=self.steps.len() as u64).map(|step| step * self.step_ms).collect();
        let sums = self.steps.iter().map(|step| {
            failures += step.failures;
            Some(failures as f64)
        });
        let values = sums.collect();
        run.curves.insert("repeat_failures_so_far".into(), Curve { at_ms, values });
    }
}
