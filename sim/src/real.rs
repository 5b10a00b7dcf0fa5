//! The same scenario on real processes: `folklore` daemons on this machine, joined by emulated links.
//!
//! Tasks, faults and who knows whom are those of the simulation with the same seed; the links are [`crate::link`]'s, the figures
//! [`crate::measure`]'s. What is real is all that the simulation models: processes, their clocks and disks, the operating system's
//! TCP, Noise and Yamux, pings that find a dead connection, the HTTP door through which agents recall and teach. So it takes
//! the time that the scenario says, and no two runs are the same. Linux only: see [`mod@emulator`].
//!
//! Every node knows one more than in the simulation: the first, whose ticket it joins by.
//!
//! It is seen from outside, by asking each daemon every [`LOOK_EVERY`]: times have that much error. A record's way cannot be
//! seen, so nothing is told of hops and duplicates, and of the traffic only how many bytes it was.

// Real processes run on real time; the determinism of the rest of this crate is not touched.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod door;
mod emulator;
mod process;
mod run;
mod tape;

use std::{path::Path, sync::atomic::AtomicBool, time::Duration};

use crate::{
    agents::FamiliesError,
    measure::{Meter, summary::RunRow},
    results::Ended,
    scenario::{Arm, FaultKind, Scenario, units::duration_text},
};

pub use process::find_program;

/// Most nodes: each is a process, and each pair a connection carried by four threads.
pub const MAX_NODES: usize = 15;
/// Longest scenario, milliseconds, its settling included: it takes that long for each seed.
pub const MAX_MS: u64 = 600_000;
/// How often a daemon is asked what it holds.
pub const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Why there is no run on real processes.
#[derive(Debug, thiserror::Error)]
pub enum RealError {
    /// The scenario is not one for real processes.
    #[error("--real: {0}")]
    Refused(String),
    /// The program that the nodes run is not there.
    #[error(
        "--real needs the folklore program: {0}; build it with 'cargo build --release -p folklore-node', or name it with --program or FOLKLORE_PROGRAM"
    )]
    NoProgram(String),
    /// A daemon does not do what it is asked.
    #[error("--real: node {node}: {why}")]
    Daemon {
        /// Which node.
        node: usize,
        /// What it said, or how it is silent.
        why: String,
    },
    /// This machine denies something.
    #[error("--real: {0}")]
    Machine(#[from] std::io::Error),
    /// There are no tasks to draw.
    #[error(transparent)]
    Families(#[from] FamiliesError),
    /// It ran, and says nothing.
    #[error("--real: {0}")]
    Void(String),
    /// It was stopped before its end.
    #[error("--real: stopped before its end")]
    Stopped,
}

/// Whether a scenario can be run on real processes.
///
/// # Errors
/// [`RealError::Refused`] with what stands against it.
pub fn check(scenario: &Scenario) -> Result<(), RealError> {
    let refused = |why: String| Err(RealError::Refused(why));
    if !cfg!(target_os = "linux") {
        return refused("the link emulator tells who dials from /proc, which only Linux has".into());
    }
    if !(2..=MAX_NODES).contains(&scenario.nodes()) {
        return refused(format!("from 2 to {MAX_NODES} nodes are run as processes, not {}", scenario.nodes()));
    }
    let whole_ms = scenario.run.duration_ms + scenario.run.settle_ms;
    if whole_ms > MAX_MS {
        let (whole, most) = (duration_text(whole_ms), duration_text(MAX_MS));
        return refused(format!(
            "real processes take real time, {whole} for each seed of this scenario, duration and settle together; the most is {most}"
        ));
    }
    for fault in &scenario.faults {
        let runs = matches!(
            fault.kind,
            FaultKind::DropPartition { .. }
                | FaultKind::OneWay { .. }
                | FaultKind::Bridge { .. }
                | FaultKind::Isolate { .. }
                | FaultKind::Flapping { .. }
                | FaultKind::Crash { .. }
                | FaultKind::Pause { .. }
                | FaultKind::Join { .. }
                | FaultKind::Leave { .. }
        );
        if !runs {
            let name = fault.kind.name();
            return refused(format!(
                "'{name}' is only simulated; real processes know drop-partition, one-way, bridge, isolate, flapping, crash, pause, join and leave"
            ));
        }
    }
    if scenario.workload.preload > 0 || scenario.workload.withdraw_ppm > 0 {
        return refused("[workload] preload and withdraw are only simulated".into());
    }
    if scenario.run.plant.is_some() {
        return refused("a bug is planted in the simulation alone, the program has none to switch on".into());
    }
    Ok(())
}

/// Runs one seed on real processes and measures it. All processes are ended and their homes removed when this returns, whatever
/// comes of it; `stop` ends it early, `on_second` is told of the time, milliseconds.
///
/// # Errors
/// When the scenario cannot be run so, the machine or a daemon fails, or it is stopped.
pub fn run_one(
    program: &Path,
    scenario: &Scenario,
    seed: u64,
    stop: &AtomicBool,
    on_second: &mut dyn FnMut(u64),
) -> Result<Ended, RealError> {
    check(scenario)?;
    let mut meter = Meter::new(scenario, Arm::Real);
    let ending = run::run(program, scenario, seed, stop, on_second, &mut meter)?;
    let converged = meter.converged();
    let mut run = meter.finish();
    let mut figures = std::mem::take(&mut run.figures);
    // Nobody sees over how many links a record came.
    figures.retain(|name, _| !name.starts_with("hops."));
    run.paths = Default::default();
    figures.insert("bytes".into(), ending.bytes as f64);
    if ending.taught > 0 {
        figures.insert("bytes_per_lesson".into(), ending.bytes as f64 / ending.taught as f64);
    }
    if ending.delivered > 0 {
        figures.insert("bytes_per_delivery".into(), ending.bytes as f64 / ending.delivered as f64);
    }
    let row =
        RunRow { arm: Arm::Real, seed, digest: "real".into(), handled: 0, figures, violations: ending.violations };
    Ok(Ended { row, run, converged })
}
