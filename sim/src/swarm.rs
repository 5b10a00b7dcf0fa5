//! The swarm: small clusters with fault schedules drawn from a seed, to find what no scenario thinks of.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use crate::{
    plant::Plant,
    runner::{Engine, run_one},
    scenario::{Arm, Fault, FaultKind, LinkSpec, Scenario},
};

/// Least and most nodes of a cluster.
const NODES: (u64, u64) = (2, 7);
/// Least and most faults of a schedule.
const FAULTS: (u64, u64) = (1, 5);
/// How long agents work, milliseconds. Long enough for a few reconciles on the timer, short enough for hundreds of seeds.
const DURATION_MS: u64 = 600_000;
/// Quiet after that, milliseconds: several times the longest wait before a dial, and several reconciles.
const SETTLE_MS: u64 = 300_000;
/// Faults are over by then, milliseconds.
const FAULTS_OVER_MS: u64 = 480_000;

/// Draws from one stream.
struct Draw(ChaCha8Rng);

impl Draw {
    /// A number from `least` to `most`.
    fn from(&mut self, least: u64, most: u64) -> u64 {
        least + self.0.next_u64() % (most - least + 1)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.from(1, n) == 1
    }

    /// Some of the nodes, not all; in order.
    fn some(&mut self, nodes: usize, most: usize) -> Vec<usize> {
        let count = self.from(1, most.clamp(1, nodes.saturating_sub(1).max(1)) as u64) as usize;
        let mut all: Vec<usize> = (0..nodes).collect();
        while all.len() > count {
            let at = self.from(0, all.len() as u64 - 1) as usize;
            all.remove(at);
        }
        all
    }

    /// Two groups, both with somebody in them.
    fn groups(&mut self, nodes: usize) -> Vec<Vec<usize>> {
        let one = self.some(nodes, nodes);
        let other = (0..nodes).filter(|node| !one.contains(node)).collect();
        vec![one, other]
    }
}

/// The scenario of a seed.
pub fn draw(seed: u64, plant: Option<Plant>) -> Scenario {
    let mut bytes = *b"folklore swarm, seed            ";
    bytes[24..].copy_from_slice(&seed.to_le_bytes());
    let mut draw = Draw(ChaCha8Rng::from_seed(bytes));
    let nodes = draw.from(NODES.0, NODES.1) as usize;
    let sites = draw.from(1, 3.min(nodes as u64)) as usize;
    let mut file = String::from("[run]\nduration = \"10m\"\n");
    for site in 0..sites {
        let share = nodes / sites + usize::from(site < nodes % sites);
        file.push_str(&format!("[[site]]\nname = \"s{site}\"\nnodes = {share}\n"));
    }
    let mut scenario = Scenario::parse(&format!("swarm-{seed}"), &file).unwrap_or_else(|error| {
        // The text above is made of numbers within the limits that it is read with.
        unreachable!("{error}: {file}")
    });
    scenario.about = format!("Drawn by the swarm from seed {seed}.");
    scenario.run.seeds = 1;
    scenario.run.first_seed = seed;
    scenario.run.duration_ms = DURATION_MS;
    scenario.run.settle_ms = SETTLE_MS;
    scenario.run.arms = vec![Arm::Folklore];
    // A drawn node need not be there in this cluster.
    scenario.run.plant = plant.map(|plant| on_a_node(plant, nodes));
    scenario.links.within = link(&mut draw, 30);
    scenario.links.between = link(&mut draw, 400);
    scenario.workload.task_every_ms = draw.from(5, 60) * 1_000;
    scenario.workload.families = Some(draw.from(3, 30) as usize);
    scenario.workload.withdraw_ppm = if draw.one_in(2) { draw.from(0, 300_000) as u32 } else { 0 };
    scenario.workload.withdraw_after_ms = draw.from(10, 120) * 1_000;
    let faults = draw.from(FAULTS.0, FAULTS.1);
    scenario.faults = (0..faults).map(|_| fault(&mut draw, nodes)).collect();
    scenario.faults.sort_by_key(|fault| fault.at_ms);
    scenario
}

fn on_a_node(plant: Plant, nodes: usize) -> Plant {
    let within = |n: usize| n.min(nodes - 1);
    match plant {
        Plant::AcceptWrongHash(n) => Plant::AcceptWrongHash(within(n)),
        Plant::CountTwice(n) => Plant::CountTwice(within(n)),
        Plant::LoseTail(n) => Plant::LoseTail(within(n)),
        other => other,
    }
}

fn link(draw: &mut Draw, most_latency_ms: u64) -> LinkSpec {
    let loss_ppm = if draw.one_in(3) { draw.from(0, 100_000) as u32 } else { 0 };
    let rate = draw.one_in(4).then(|| draw.from(16, 512) * 1024);
    let (latency_ms, jitter_ms) = (draw.from(1, most_latency_ms), draw.from(0, most_latency_ms / 2));
    LinkSpec { latency_ms, jitter_ms, loss_ppm, burst: None, rate, queue_bytes: 256 * 1024 }
}

fn fault(draw: &mut Draw, nodes: usize) -> Fault {
    let at_ms = draw.from(0, FAULTS_OVER_MS * 3 / 4);
    let for_ms = draw.from(1_000, FAULTS_OVER_MS - at_ms);
    let some = |draw: &mut Draw| draw.some(nodes, 2);
    let kind = match draw.from(0, 13) {
        0 | 1 => FaultKind::DropPartition { groups: draw.groups(nodes) },
        2 => FaultKind::HoldPartition { groups: draw.groups(nodes) },
        3 => FaultKind::OneWay { from: some(draw), to: (0..nodes).collect() },
        4 if nodes > 2 => {
            let mut groups = draw.groups(nodes);
            // Somebody of the larger group is the bridge.
            let larger = usize::from(groups[1].len() > groups[0].len());
            let bridge = groups[larger].pop().into_iter().collect();
            FaultKind::Bridge { groups, bridge }
        }
        4 | 5 => FaultKind::Isolate { nodes: some(draw) },
        6 => {
            let (down_ms, up_ms) = (draw.from(1, 60) * 1_000, draw.from(1, 60) * 1_000);
            FaultKind::Flapping { groups: draw.groups(nodes), down_ms, up_ms }
        }
        7 => FaultKind::Crash { nodes: some(draw) },
        8 => FaultKind::Pause { nodes: some(draw) },
        9 => FaultKind::RestartLostWrites { nodes: some(draw) },
        10 => FaultKind::RestoreOldCopy { nodes: draw.some(nodes, 1), age_ms: draw.from(1_000, at_ms.max(1_000)) },
        11 => FaultKind::DiskFull { nodes: some(draw) },
        12 => {
            let by_ms = draw.from(0, 7_200_000) as i64 - 3_600_000;
            FaultKind::ClockSkew { nodes: some(draw), by_ms }
        }
        _ => FaultKind::ClockDrift { nodes: some(draw), ppm: draw.from(0, 100_000) as i64 - 50_000 },
    };
    Fault { at_ms, for_ms: Some(for_ms), kind }
}

/// What the run of a scenario found: the names of what failed, with what was seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Each as `name: what was seen`.
    pub violations: Vec<String>,
}

/// What stands for sets that are not equal at the end.
pub const NOT_CONVERGED: &str = "convergence";

impl Found {
    /// Whether anything failed.
    pub fn failed(&self) -> bool {
        !self.violations.is_empty()
    }

    /// The names of what failed, each once.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.violations.iter().map(|what| name_of(what)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// The name at the front of a violation.
pub fn name_of(violation: &str) -> &str {
    violation.split(": ").next().unwrap_or(violation)
}

/// Runs the Folklore arm of a scenario with its first seed and looks at what failed. A run that says nothing (a cut that cut
/// nothing, since nothing was under way) found nothing.
pub fn look(engine: Engine, scenario: &Scenario) -> Found {
    let Ok(ended) = run_one(engine, scenario, Arm::Folklore, scenario.run.first_seed) else { return Found::default() };
    let mut violations = ended.row.violations;
    if scenario.expect.convergence && !ended.converged && violations.is_empty() {
        violations.push(format!("{NOT_CONVERGED}: honest nodes do not hold the same at the end"));
    }
    Found { violations }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_draws_the_same_and_a_file_that_can_be_read() {
        let mut kinds = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let scenario = draw(seed, None);
            assert_eq!(scenario, draw(seed, None));
            kinds.extend(scenario.faults.iter().map(|fault| fault.kind.name()));
            let again = Scenario::parse(&scenario.name, &scenario.to_toml()).expect("a drawn scenario reads back");
            assert_eq!(again, scenario);
            assert!(scenario.faults.iter().all(|fault| fault.end_ms().is_some_and(|end| end <= FAULTS_OVER_MS)));
        }
        assert_eq!(kinds.len(), 13, "every kind that ends is drawn: {kinds:?}");
    }
}
