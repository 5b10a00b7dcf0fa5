//! Many runs of one scenario on all cores. What comes of it does not depend on how many threads there are: runs are taken in
//! by seed and arm, whichever ends first.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use crate::{
    checks::Violation,
    experiment,
    measure::{Meter, summary::RunRow},
    observe::Observer,
    results::{Ended, Gathering, Results},
    scenario::{Arm, Scenario},
};

/// How often a run that waits looks whether it is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How a run ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ending {
    /// A digest of everything that happened.
    pub digest: String,
    /// Messages and timers that nodes handled.
    pub handled: u64,
    /// Checks that failed, each as `name: what was seen`.
    pub violations: Vec<String>,
    /// Whether all honest nodes held the same at the end.
    pub converged: bool,
}

/// What runs one seed of one arm. The error says why nothing can be told of the run.
pub type Engine = fn(&Scenario, Arm, u64, &mut dyn Observer) -> Result<Ending, String>;

/// What runs one seed on real processes: [`crate::real::run_one`]. The error says why nothing can be told of it.
pub type RealEngine<'a> = dyn FnMut(u64) -> Result<Ended, String> + 'a;

/// Why there are no results.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// A run says nothing: the scenario does not do what it is written for.
    #[error("seed {seed}, {}: {why}", arm.name())]
    Run {
        /// Which seed.
        seed: u64,
        /// Which arm.
        arm: Arm,
        /// Why.
        why: String,
    },
    /// It was stopped before any seed was finished.
    #[error("stopped before the first seed was finished")]
    Stopped,
}

/// Runs one seed of one arm and measures it. A panic is a check that failed, like any other.
pub fn run_one(engine: Engine, scenario: &Scenario, arm: Arm, seed: u64) -> Result<Ended, String> {
    let mut meter = Meter::new(scenario, arm);
    let ending = catch_unwind(AssertUnwindSafe(|| engine(scenario, arm, seed, &mut meter)));
    let ending = match ending {
        Ok(ending) => ending?,
        Err(panic) => {
            let said = panic.downcast_ref::<String>().cloned();
            let said = said.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
            let violations = vec![format!("no panic: {}", said.unwrap_or_else(|| "of no text".into()))];
            Ending { digest: "panic".into(), violations, ..Ending::default() }
        }
    };
    let mut run = meter.finish();
    let figures = std::mem::take(&mut run.figures);
    let Ending { digest, handled, violations, converged } = ending;
    Ok(Ended { row: RunRow { arm, seed, digest, handled, figures, violations }, run, converged })
}

/// Runs all seeds and arms of a scenario. `stop` ends it early, with the seeds that were finished; `on_run` is told of
/// each run as it is taken in. `real` runs a seed on real processes, when all that is simulated is done and the machine is free.
pub fn run_all(
    engine: Engine,
    scenario: &Arc<Scenario>,
    threads: usize,
    stop: &Arc<AtomicBool>,
    on_run: &mut dyn FnMut(&RunRow),
    mut real: Option<&mut RealEngine<'_>>,
) -> Result<Results, RunnerError> {
    let arms = scenario.run.arms.len();
    let jobs = scenario.run.seeds * arms;
    let next = Arc::new(AtomicUsize::new(0));
    let (sender, receiver) = mpsc::channel();
    for _ in 0..threads.clamp(1, jobs.max(1)) {
        let (scenario, stop, next, sender) = (scenario.clone(), stop.clone(), next.clone(), sender.clone());
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let job = next.fetch_add(1, Ordering::Relaxed);
                let Some(arm) = scenario.run.arms.get(job % arms).filter(|_| job < jobs) else { return };
                let seed = scenario.run.first_seed + (job / arms) as u64;
                // Nobody listens any more once it was stopped.
                if sender.send((job, *arm, seed, run_one(engine, &scenario, *arm, seed))).is_err() {
                    return;
                }
            }
        });
    }
    drop(sender);
    let (mut gathering, mut waiting, mut taken) = (Gathering::default(), BTreeMap::new(), 0);
    while taken < jobs && !stop.load(Ordering::Relaxed) {
        match receiver.recv_timeout(LOOK_EVERY) {
            Ok((job, arm, seed, ended)) => {
                let ended = ended.map_err(|why| RunnerError::Run { seed, arm, why })?;
                on_run(&ended.row);
                waiting.insert(job, ended);
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
        // Whole seeds only, so that what is compared is paired.
        while (taken..taken + arms).all(|job| waiting.contains_key(&job)) && taken < jobs {
            (taken..taken + arms).filter_map(|job| waiting.remove(&job)).for_each(|ended| gathering.take(ended));
            taken += arms;
        }
    }
    if taken == 0 {
        return Err(RunnerError::Stopped);
    }
    for seed in (0..taken / arms).map(|n| scenario.run.first_seed + n as u64) {
        let Some(real) = real.as_deref_mut().filter(|_| !stop.load(Ordering::Relaxed)) else { break };
        match real(seed) {
            Ok(ended) => {
                on_run(&ended.row);
                gathering.take(ended);
            }
            Err(_) if stop.load(Ordering::Relaxed) => break,
            Err(why) => return Err(RunnerError::Run { seed, arm: Arm::Real, why }),
        }
    }
    Ok(gathering.results(scenario))
}

/// The engine that is shipped: [`experiment::run`]. That a cut cut nothing is no failure of the nodes, but the run then says
/// nothing of what it is written for.
pub fn shipped(scenario: &Scenario, arm: Arm, seed: u64, observer: &mut dyn Observer) -> Result<Ending, String> {
    let end = experiment::run(scenario, arm, seed, observer).map_err(|error| error.to_string())?;
    if let Some(violation) = end.violations.iter().find(|violation| violation.check == experiment::CUT_CUTS) {
        return Err(format!("{}; choose a time at which something is under way", violation.detail));
    }
    let text = |violation: &Violation| format!("{}: node {}: {}", violation.check, violation.node, violation.detail);
    Ok(Ending {
        digest: format!("{:016x}", end.digest),
        handled: end.messages + end.timers,
        violations: end.violations.iter().map(text).collect(),
        converged: end.converged,
    })
}
