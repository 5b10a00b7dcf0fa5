//! `folklore-sim swarm`.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
};

use folklore_sim::{
    Plant, runner,
    swarm::{self, Found},
};

use crate::{
    Failure,
    args::{PlantName, SwarmArgs},
    find, run, say,
};

pub(crate) fn swarm(args: &SwarmArgs) -> Result<(), Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register_conditional_shutdown(signal_hook::consts::SIGINT, 130, stop.clone())
        .and_then(|_| signal_hook::flag::register(signal_hook::consts::SIGINT, stop.clone()))
        .map_err(|error| Failure::Broken(format!("Ctrl-C cannot be listened to: {error}")))?;
    let last = args.first.checked_add(args.seeds).ok_or_else(|| Failure::Usage("--first is too large".into()))?;
    let bar = run::bar(args.seeds);
    let (next, plant) = (AtomicU64::new(args.first), args.plant.map(Plant::from));
    let (sender, receiver) = mpsc::channel();
    let mut found: BTreeMap<u64, Found> = BTreeMap::new();
    std::thread::scope(|scope| {
        for _ in 0..find::threads(args.threads) {
            let (sender, next, stop) = (sender.clone(), &next, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= last
                        || sender.send((seed, swarm::look(runner::shipped, &swarm::draw(seed, plant)))).is_err()
                    {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (seed, one) in receiver {
            bar.inc(1);
            if one.failed() {
                bar.suspend(|| eprintln!("{}", line(seed, &one, args.plant)));
            }
            found.insert(seed, one);
        }
    });
    bar.finish_and_clear();
    let failed: Vec<(&u64, &Found)> = found.iter().filter(|(_, one)| one.failed()).collect();
    if args.json {
        let list = failed.iter().map(|(seed, one)| {
            serde_json::json!({"seed": seed, "checks": one.names(), "violations": one.violations, "replay": again("replay", **seed, args.plant)})
        });
        let list = serde_json::Value::from_iter(list);
        say(&format!("{}\n", serde_json::json!({"seeds": found.len(), "failed": list})));
    } else {
        say(&format!("{} of {} seeds failed\n", failed.len(), found.len()));
    }
    if failed.is_empty() { Ok(()) } else { Err(Failure::Failed) }
}

/// The one line by which a failure is seen again.
fn line(seed: u64, found: &Found, plant: Option<PlantName>) -> String {
    let first = found.violations.first().map_or("", String::as_str);
    format!(
        "seed {seed} failed: {first}\n  again: {}\n  small: {}",
        again("replay", seed, plant),
        again("shrink", seed, plant)
    )
}

fn again(verb: &str, seed: u64, plant: Option<PlantName>) -> String {
    let plant = plant.map_or_else(String::new, |plant| format!(" --plant {}", plant.name()));
    format!("folklore-sim {verb} swarm:{seed}{plant}")
}
