//! What the engine costs: messages and timers a second, memory a node, and an hour of a thousand nodes.
//!
//! `cargo bench -p folklore-sim --bench engine`
//!
//! With `-- rate 1000`, `-- rate 10000`, `-- memory` or `-- hour` one of them alone; `-- digest` prints what the run of
//! `tests/figures/seed.toml` comes to in this build, which the tests hold a debug build to.
#![allow(missing_docs, reason = "a benchmark")]
#![allow(clippy::disallowed_types, reason = "a benchmark measures real time")]

#[path = "../../protocol/benches/common/table.rs"]
mod table;

use std::time::Instant;

use folklore_sim::{Arm, Scenario, experiment};
use table::Figure;

/// Ten sites.
fn scenario(nodes: usize, minutes: u64, more: &str) -> Scenario {
    let sites: String =
        (0..10).map(|n| format!("[[site]]\nname = \"s{n}\"\nnodes = {}\n", nodes / 10)).collect::<Vec<_>>().concat();
    let text = format!("[run]\nduration = \"{minutes}m\"\nsettle = \"5m\"\n{sites}{more}");
    Scenario::parse("engine", &text).expect("a scenario")
}

/// Resident memory, bytes; 0 where the system does not say.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// The processor time this process took so far, seconds; the wall's where the system does not say.
fn cpu(started: Instant) -> f64 {
    // Fields 14 and 15 of the line, after the name in brackets, in hundredths of a second.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let mut fields = stat.rsplit(") ").next().unwrap_or("").split_whitespace().skip(11);
    let mut next = || fields.next().and_then(|ticks| ticks.parse::<f64>().ok());
    match (next(), next()) {
        (Some(user), Some(system)) => (user + system) / 100.0,
        _ => started.elapsed().as_secs_f64(),
    }
}

fn timed(scenario: &Scenario) -> (experiment::RunEnd, f64) {
    let started = Instant::now();
    let before = cpu(started);
    let end = experiment::run(scenario, Arm::Folklore, 1, &mut ()).expect("a run");
    let took = cpu(started) - before;
    println!(
        "{} nodes: {took:.1} s of one core ({:.1} s by the wall) for {} s of virtual time, {} messages, {} timers, {} records, {} \
         signatures checked, equal at the end: {}, violations: {:?}, digest {:016x}",
        scenario.nodes(),
        started.elapsed().as_secs_f64(),
        end.end_ms / 1000,
        end.messages,
        end.timers,
        end.records,
        end.verified,
        end.converged,
        end.violations,
        end.digest,
    );
    (end, took)
}

/// `every`: between the tasks of an agent. Each record reaches every node, so ten times the nodes get a tenth of the tasks.
fn rate(nodes: usize, minutes: u64, every: &str) -> f64 {
    let (end, took) = timed(&scenario(nodes, minutes, &format!("[workload]\ntask_every = \"{every}\"\n")));
    (end.messages + end.timers) as f64 / took
}

/// Bytes a node beyond what the records themselves take.
fn memory(nodes: usize) -> f64 {
    let more = "[workload]\npreload = 1000\ntask_every = \"10h\"\n";
    let before = resident();
    let scenario = scenario(nodes, 1, more);
    let held = experiment::hold(&scenario, 1).expect("a world");
    let after = resident();
    let own: usize = (0..held.library().len() as u32)
        .map(|n| held.library().record(n).bytes().len() + held.library().body(n).map_or(0, |body| body.len()))
        .sum();
    println!(
        "{nodes} nodes with {} records: {} MiB, of them records {} KiB",
        held.library().len(),
        (after - before) >> 20,
        own >> 10
    );
    (after - before).saturating_sub(own as u64) as f64 / nodes as f64 / 1024.0
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let wants = |name: &str| wanted.is_empty() || wanted.first().is_some_and(|first| first == name);
    let at = |nodes: usize| wanted.get(1).is_none_or(|size| *size == nodes.to_string());
    let figure = |figure: &str, setting: &str, value: f64, unit, target| Figure {
        figure: figure.into(),
        setting: setting.into(),
        value,
        unit,
        target,
        peer: None,
    };
    if wanted.first().is_some_and(|first| first == "digest") {
        let scenario = Scenario::parse("seed", include_str!("../tests/figures/seed.toml")).expect("a scenario");
        println!("{:016x}", experiment::run(&scenario, Arm::Folklore, 11, &mut ()).expect("a run").digest);
        return;
    }
    let mut all = Vec::new();
    if wants("memory") {
        all.push(figure("memory a node", "10,000 nodes, 1,000 lessons", memory(10_000), "KiB", 96.0));
    }
    if wants("rate") && at(1_000) {
        let per_s = rate(1_000, 20, "2m");
        all.push(figure("messages and timers", "1,000 nodes, one core", 1e6 / per_s, "µs each", 1e6 / 200_000.0));
    }
    if wants("rate") && at(10_000) {
        let per_s = rate(10_000, 3, "4h");
        all.push(figure("messages and timers", "10,000 nodes, one core", 1e6 / per_s, "µs each", 1e6 / 100_000.0));
    }
    if wants("hour") {
        let (_, took) = timed(&scenario(1_000, 60, ""));
        all.push(figure("an hour of 1,000 nodes", "default workload", took, "s", 60.0));
    }
    table::report("engine", &all);
}
