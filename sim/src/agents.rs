//! What agents do: they draw tasks from problem families, recall, fail a family's trap unless recall brought them a lesson of
//! that family, and teach what a failure shows.

pub mod families;
pub mod tasks;

use rand_chacha::ChaCha8Rng;
use rand_core::Rng;

use crate::{
    scenario::Scenario,
    seeds::{self, Purpose, WORLD},
};

pub use families::{Families, FamiliesError, Family};

/// Agents of one node that are told apart by their streams of tasks.
const AGENTS_A_NODE: u64 = 1 << 20;

/// One task of one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// When it is drawn, milliseconds.
    pub at_ms: u64,
    /// At which node.
    pub node: usize,
    /// Of which family.
    pub family: usize,
    /// Which of the family's wordings.
    pub wording: usize,
    /// Whether the trap is in the way this time.
    pub trapped: bool,
    /// How long after it was taught the lesson is withdrawn, if it is one that will be, milliseconds.
    pub withdrawn_after_ms: Option<u64>,
}

/// All tasks of a run, by time: a function of scenario and seed, and so the same in every arm.
pub fn schedule(scenario: &Scenario, seed: u64, families: &Families) -> Vec<Task> {
    let drawn = Drawn::new(scenario, seed, families);
    let mut tasks: Vec<(u64, usize, u64, Task)> = Vec::new();
    let hostile = scenario.hostile();
    for (node, site) in scenario.site_of_nodes().into_iter().enumerate() {
        let agents = scenario.sites.get(site).map_or(0, |site| site.agents) as u64;
        for agent in (0..agents).filter(|_| !hostile.get(node).copied().unwrap_or(false)) {
            let mut rng = seeds::stream(seed, node as u64 * AGENTS_A_NODE + agent, Purpose::Tasks);
            let mut at_ms = scenario.workload.start_ms + exponential(&mut rng, scenario.workload.task_every_ms);
            while at_ms < scenario.run.duration_ms {
                tasks.push((at_ms, node, agent, drawn.task(&mut rng, at_ms, node, families)));
                at_ms += exponential(&mut rng, scenario.workload.task_every_ms).max(1);
            }
        }
    }
    tasks.sort_by_key(|(at, node, agent, _)| (*at, *node, *agent));
    tasks.into_iter().map(|(.., task)| task).collect()
}

/// The families of a run, most frequent first.
struct Drawn {
    order: Vec<usize>,
    /// Up to which share of all draws each place reaches.
    reach: Vec<f64>,
    withdraw_ppm: u32,
    withdraw_after_ms: u64,
}

impl Drawn {
    fn new(scenario: &Scenario, seed: u64, families: &Families) -> Self {
        let workload = &scenario.workload;
        let mut order: Vec<usize> = (0..families.len()).collect();
        let mut rng = seeds::stream(seed, WORLD, Purpose::Tasks);
        for at in (1..order.len()).rev() {
            order.swap(at, seeds::below(&mut rng, at as u64 + 1) as usize);
        }
        order.truncate(workload.families.unwrap_or(order.len()));
        let weights = (1..=order.len()).map(|rank| (rank as f64).powf(-workload.zipf));
        let mut reach: Vec<f64> = weights
            .scan(0.0, |sum, weight| {
                *sum += weight;
                Some(*sum)
            })
            .collect();
        let all = reach.last().copied().unwrap_or(1.0);
        reach.iter_mut().for_each(|reach| *reach /= all);
        let (withdraw_ppm, withdraw_after_ms) = (workload.withdraw_ppm, workload.withdraw_after_ms);
        Self { order, reach, withdraw_ppm, withdraw_after_ms }
    }

    /// Always as many draws, so that one setting does not move another's.
    fn task(&self, rng: &mut ChaCha8Rng, at_ms: u64, node: usize, families: &Families) -> Task {
        let drawn = unit(rng);
        let place = self.reach.partition_point(|reach| *reach < drawn).min(self.order.len().saturating_sub(1));
        let family = self.order.get(place).copied().unwrap_or(0);
        let wordings = families.get(family).map_or(1, |family| family.tasks.len());
        let wording = seeds::below(rng, wordings as u64) as usize;
        let trapped = seeds::chance(rng, families.get(family).map_or(0, |family| family.trap_ppm));
        let withdrawn = seeds::chance(rng, self.withdraw_ppm);
        let after_ms = exponential(rng, self.withdraw_after_ms);
        Task { at_ms, node, family, wording, trapped, withdrawn_after_ms: withdrawn.then_some(after_ms) }
    }
}

/// Evenly from (0, 1].
fn unit(rng: &mut ChaCha8Rng) -> f64 {
    ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// An exponential draw of this mean, milliseconds.
fn exponential(rng: &mut ChaCha8Rng, mean_ms: u64) -> u64 {
    (-unit(rng).ln() * mean_ms as f64).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_come_at_the_rate_asked_for_and_the_commonest_family_as_often_as_zipf_says() {
        let text = "[run]\nduration = \"100h\"\n[[site]]\nname = \"a\"\nnodes = 20\n[workload]\nfamilies = 10\nzipf = 1.0\n\
                    task_every = \"5m\"\n";
        let scenario = Scenario::parse("t", text).unwrap();
        let families = Families::builtin().unwrap();
        let tasks = schedule(&scenario, 3, &families);
        assert_eq!(tasks, schedule(&scenario, 3, &families));
        let expected = 20.0 * 100.0 * 12.0;
        assert!((tasks.len() as f64 / expected - 1.0).abs() < 0.03, "{}", tasks.len());
        let mut counts = std::collections::BTreeMap::<usize, usize>::new();
        tasks.iter().for_each(|task| *counts.entry(task.family).or_default() += 1);
        let harmonic: f64 = (1..=10).map(|n| 1.0 / n as f64).sum();
        let most = counts.values().max().copied().unwrap_or(0) as f64 / tasks.len() as f64;
        assert!((most - 1.0 / harmonic).abs() < 0.02, "{most}");
        assert_eq!(counts.len(), 10);
    }
}
