//! `folklore-sim run`.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use folklore_sim::{
    Arm, Scenario,
    measure::summary::RunRow,
    real::{self, RealError},
    report,
    runner::{self, RunnerError},
    scenario::MAX_SEEDS,
};
use indicatif::{ProgressBar, ProgressStyle};

use crate::{Failure, args::RunArgs, find, say};

pub(crate) fn run(args: RunArgs) -> Result<(), Failure> {
    let scenario = chosen(&args)?;
    let program = if args.real { Some(program(&args, &scenario)?) } else { None };
    let stop =
        stop_flag(args.real).map_err(|error| Failure::Broken(format!("Ctrl-C cannot be listened to: {error}")))?;
    let bar = bar((scenario.run.seeds * (scenario.run.arms.len() + usize::from(args.real))) as u64);
    let threads = find::threads(args.threads);
    let scenario = Arc::new(scenario);
    let mut on_real = |seed| {
        let program = program.as_deref().ok_or("there is no program")?;
        let mut on_second = |ms: u64| bar.set_message(format!("seed {seed} real, {} s", ms / 1000));
        real::run_one(program, &scenario, seed, &stop, &mut on_second).map_err(|error| error.to_string())
    };
    let on_real: Option<&mut runner::RealEngine<'_>> = if args.real { Some(&mut on_real) } else { None };
    let mut on_run = |row: &RunRow| {
        bar.set_message(format!("seed {} {}", row.seed, row.arm.name()));
        bar.inc(1);
    };
    let results = runner::run_all(runner::shipped, &scenario, threads, &stop, &mut on_run, on_real);
    bar.finish_and_clear();
    let results = results.map_err(|error| match error {
        RunnerError::Stopped => Failure::Broken(error.to_string()),
        RunnerError::Run { .. } => Failure::Broken(format!("{}: {error}", scenario.name)),
    })?;
    if stop.load(Ordering::Relaxed) {
        eprintln!("folklore-sim: stopped; {} of {} seeds are finished", results.seeds.len(), results.seeds_asked);
    }
    if let Some(out) = &args.out {
        report::write(out, &results, &scenario)
            .map_err(|error| Failure::Broken(format!("{}: {error}; choose another --out", out.display())))?;
    }
    if args.json {
        let json = serde_json::to_string(&results).map_err(|error| Failure::Broken(error.to_string()))?;
        say(&(json + "\n"));
    } else {
        say(&report::terminal::summary(&results));
        if let Some(out) = &args.out {
            say(&format!("\nThe page is {}\n", out.join("report.html").display()));
        }
    }
    if results.pass() { Ok(()) } else { Err(Failure::Failed) }
}

/// Set by Ctrl-C: once to stop in good order, twice at once. Where there are processes to end, always in good order, which
/// takes a moment, and by SIGTERM and SIGHUP too.
fn stop_flag(real: bool) -> std::io::Result<Arc<AtomicBool>> {
    use signal_hook::{consts, flag};
    let stop = Arc::new(AtomicBool::new(false));
    if !real {
        flag::register_conditional_shutdown(consts::SIGINT, 130, stop.clone())?;
    }
    let signals: &[i32] = if real { &[consts::SIGINT, consts::SIGTERM, consts::SIGHUP] } else { &[consts::SIGINT] };
    for signal in signals {
        flag::register(*signal, stop.clone())?;
    }
    Ok(stop)
}

/// The program that real nodes run, if the scenario is one for real nodes.
fn program(args: &RunArgs, scenario: &Scenario) -> Result<PathBuf, Failure> {
    let failure = |error: RealError| match error {
        RealError::Refused(_) => Failure::Usage(error.to_string()),
        RealError::NoProgram(_) => Failure::NotFound(error.to_string()),
        _ => Failure::Broken(error.to_string()),
    };
    real::check(scenario).map_err(failure)?;
    real::find_program(args.program.as_deref()).map_err(failure)
}

/// The scenario with what the command line says instead.
fn chosen(args: &RunArgs) -> Result<Scenario, Failure> {
    let mut scenario = find::scenario(&args.scenario)?;
    if let Some(seeds) = args.seeds {
        if !(1..=MAX_SEEDS).contains(&seeds) {
            return Err(Failure::Usage(format!("--seeds must be from 1 to {MAX_SEEDS}")));
        }
        scenario.run.seeds = seeds;
    }
    scenario.run.first_seed = args.first_seed.unwrap_or(scenario.run.first_seed);
    if !args.arms.is_empty() {
        scenario.run.arms = args.arms.iter().map(|arm| Arm::from(*arm)).collect();
        scenario.run.arms.sort_unstable();
        scenario.run.arms.dedup();
        // What is expected of an arm that is not run cannot be told.
        let runs = |arm: &Arm| scenario.run.arms.contains(arm);
        scenario.expect.bounds.retain(|bound| runs(&bound.arm) && bound.of.as_ref().is_none_or(runs));
        if !runs(&Arm::Folklore) {
            scenario.expect.converge_within_ms = None;
        }
    }
    if let Some(tasks) = &args.tasks {
        scenario.workload.tasks = Some(tasks.clone());
    }
    if let Some(tasks) = scenario.workload.tasks.as_ref().filter(|tasks| !tasks.is_file()) {
        return Err(Failure::NotFound(format!("there is no file of tasks {}", tasks.display())));
    }
    Ok(scenario)
}

/// A bar on a terminal, nothing elsewhere.
pub(crate) fn bar(of: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:32} {pos}/{len} {msg} [{elapsed}, {eta} to go]");
    ProgressBar::new(of).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
