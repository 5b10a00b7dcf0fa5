//! From what stands on the command line to a scenario.

use std::path::Path;

use folklore_sim::{Plant, Scenario, ScenarioError, scenario::shipped, swarm};

use crate::{Failure, args::PlantName};

/// A file, or the name of a scenario that comes along.
pub(crate) fn scenario(name: &str) -> Result<Scenario, Failure> {
    let path = Path::new(name);
    if path.is_file() {
        return Scenario::load(path).map_err(|error| said(name, &error));
    }
    match shipped::text(name) {
        Some(text) => Scenario::parse(name, text).map_err(|error| said(name, &error)),
        None => Err(Failure::NotFound(format!(
            "there is no file {name}, and no scenario of that name comes along; these do: {}",
            shipped::ALL.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
        ))),
    }
}

fn said(name: &str, error: &ScenarioError) -> Failure {
    match error {
        ScenarioError::At { .. } => Failure::Usage(format!("{name}: {error}")),
        ScenarioError::Unread { .. } => Failure::NotFound(error.to_string()),
    }
}

/// As [`scenario`], or what the swarm draws from a seed; with a seed and a bug of its own.
pub(crate) fn failing(name: &str, seed: Option<u64>, plant: Option<PlantName>) -> Result<Scenario, Failure> {
    let plant = plant.map(Plant::from);
    let mut scenario = match name.strip_prefix("swarm:") {
        Some(number) => {
            let number = number.parse();
            swarm::draw(number.map_err(|_| Failure::Usage(format!("{name} names no seed: write swarm:17")))?, plant)
        }
        None => {
            let mut scenario = scenario(name)?;
            scenario.run.plant = plant.or(scenario.run.plant);
            scenario
        }
    };
    scenario.run.first_seed = seed.unwrap_or(scenario.run.first_seed);
    Ok(scenario)
}

/// How many threads to use.
pub(crate) fn threads(asked: Option<usize>) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    asked.filter(|threads| *threads > 0).unwrap_or_else(cores)
}
