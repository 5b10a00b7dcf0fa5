//! An engine of a few lines that knows nothing of Folklore: lessons spread at random while no cut is on. What reports, the
//! runner and shrinking do with a run does not depend on how the run came about, and this one takes microseconds.

use folklore_sim::{Arm, Class, Observed, Observer, Scenario, runner::Ending, scenario::FaultKind};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// Virtual time goes in steps of this, milliseconds.
const STEP_MS: u64 = 5_000;

/// A run. It fails the check `toy` where a node crashes while a partition is on, which takes two faults and two nodes.
pub fn engine(scenario: &Scenario, arm: Arm, seed: u64, observer: &mut dyn Observer) -> Result<Ending, String> {
    if scenario.workload.families == Some(13) {
        return Err("nothing was cut".into());
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let nodes = scenario.nodes();
    (0..nodes).for_each(|node| observer.see(0, Observed::Up { node }));
    let mut held: Vec<Vec<u64>> = vec![Vec::new(); nodes];
    let mut families: Vec<u32> = Vec::new();
    let (mut crashed, mut handled) = (false, 0);
    let end = scenario.run.duration_ms + scenario.run.settle_ms;
    for now in (0..end).step_by(STEP_MS as usize) {
        let on = |cut: bool| {
            scenario.faults.iter().any(|fault| {
                let is = if cut { fault.kind.is_cut() } else { matches!(fault.kind, FaultKind::Crash { .. }) };
                is && fault.at_ms <= now && fault.end_ms().is_none_or(|end| now < end)
            })
        };
        crashed |= on(true) && on(false) && nodes > 1;
        let site_of = scenario.site_of_nodes();
        for node in 0..nodes {
            let knows = |record: &&u64| arm == Arm::Oracle || held[node].contains(record);
            let all: Vec<u64> = (0..families.len() as u64).collect();
            // New families come up all the time, so that there is something to learn behind a cut too.
            let family = rng.next_u32() % (8 + (now / 120_000) as u32);
            let works = now < scenario.run.duration_ms && rng.next_u32() % 10 == 0;
            // Recall fails now and then, even where everything is known.
            let finds = rng.next_u32() % 12 > 0;
            let known = all.iter().filter(knows).find(|record| finds && families[**record as usize] == family).copied();
            if works {
                handled += 1;
                let (rank, shown, failed) = (known.map(|_| 1), u32::from(known.is_some()), known.is_none());
                let attempt = Observed::Attempted {
                    node,
                    task: handled,
                    family,
                    rank,
                    record: known,
                    shown,
                    failed,
                    poisoned: false,
                    reached: true,
                };
                observer.see(now, attempt);
                if failed {
                    let record = families.len() as u64;
                    families.push(family);
                    held[node].push(record);
                    observer
                        .see(now, Observed::Taught { node, record, family: Some(family), poison: false, bytes: 700 });
                }
            }
            // One lesson from a random other node, unless a cut lies between.
            let other = rng.next_u32() as usize % nodes;
            let cut = on(true) && site_of[node] != site_of[other];
            if arm == Arm::Folklore && !cut {
                let missing = held[other].iter().find(|record| !held[node].contains(record)).copied();
                observer
                    .see(now, Observed::Sent { from: other, to: node, kind: "toy", class: Class::Control, bytes: 90 });
                if let Some(record) = missing {
                    held[node].push(record);
                    observer.see(
                        now,
                        Observed::Sent { from: other, to: node, kind: "toy", class: Class::Data, bytes: 700 },
                    );
                    observer.see(now, Observed::Stored { node, record, from: Some(other), hops: 1 });
                }
            }
        }
    }
    let converged = held.iter().all(|node| node.len() == families.len());
    let violations = if crashed { vec!["toy: a node crashed behind a cut".to_string()] } else { Vec::new() };
    Ok(Ending { digest: format!("{:016x}", rng.next_u64()), handled, violations, converged })
}
