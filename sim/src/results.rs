//! What an experiment came to, as it is written to `results.json` and read again to be compared.

use std::{collections::BTreeMap, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    measure::{
        figures,
        paths::Paths,
        stats::Interval,
        summary::{self, Band, BandSum, RunRow},
    },
    report::number,
    scenario::{Arm, Bound, Scenario},
};

/// Version of the form of `results.json`.
pub const FORMAT: u32 = 1;
/// Longest `results.json` that is read, bytes.
const MAX_RESULTS_BYTES: u64 = 1 << 30;

/// An experiment's results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`FORMAT`].
    pub format: u32,
    /// Which program made them.
    pub program: String,
    /// The scenario's name.
    pub scenario: String,
    /// What it shows.
    pub about: String,
    /// The scenario itself, as it was run.
    pub file: String,
    /// The arms.
    pub arms: Vec<Arm>,
    /// The seeds that were finished, ascending. The figures are over these.
    pub seeds: Vec<u64>,
    /// How many seeds were asked for.
    pub seeds_asked: usize,
    /// Every run, by seed and then by arm.
    pub rows: Vec<RunRow>,
    /// Means with intervals for each arm and figure.
    pub means: BTreeMap<Arm, BTreeMap<String, Interval>>,
    /// Curves for each arm.
    pub bands: BTreeMap<Arm, BTreeMap<String, Band>>,
    /// Paths of some lessons in the first seed of the Folklore arm.
    pub paths: Paths,
    /// When faults began and ended in the first run: milliseconds, the fault's place in the scenario, whether it began.
    pub faults: Vec<(u64, usize, bool)>,
    /// What was expected, and whether it holds.
    pub verdicts: Vec<Verdict>,
}

/// Whether something that was expected holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// What was expected.
    pub expected: String,
    /// Whether it holds.
    pub holds: bool,
    /// What was found.
    pub found: String,
}

/// Why results cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// The file cannot be read.
    #[error("{path}: {error}; name a directory that `folklore-sim run --out` wrote, or its results.json")]
    Unread {
        /// Which.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// It is not what this program writes.
    #[error("{path} is not what `folklore-sim run` writes: {error}")]
    Unknown {
        /// Which.
        path: String,
        /// Why.
        error: String,
    },
}

/// Results under way: runs are taken in one by one, in the order of seeds and arms.
#[derive(Debug, Default)]
pub struct Gathering {
    rows: Vec<RunRow>,
    bands: BTreeMap<Arm, BTreeMap<String, BandSum>>,
    paths: Option<Paths>,
    faults: Option<Vec<(u64, usize, bool)>>,
    /// Seeds whose Folklore run did not end with equal sets.
    unequal: Vec<u64>,
}

/// A run that has ended.
#[derive(Debug, Clone)]
pub struct Ended {
    /// Its figures and how it ended.
    pub row: RunRow,
    /// Its curves, paths and faults; the figures are in the row.
    pub run: crate::measure::RunFigures,
    /// Whether all honest nodes held the same at the end.
    pub converged: bool,
}

impl Gathering {
    /// Takes in a run.
    pub fn take(&mut self, ended: Ended) {
        let arm = ended.row.arm;
        let bands = self.bands.entry(arm).or_default();
        for (name, curve) in &ended.run.curves {
            bands.entry(name.clone()).or_default().add(curve);
        }
        if arm == Arm::Folklore {
            self.paths.get_or_insert(ended.run.paths);
            if !ended.converged {
                self.unequal.push(ended.row.seed);
            }
        }
        self.faults.get_or_insert(ended.run.faults);
        self.rows.push(ended.row);
    }

    /// The results of all that was taken in.
    pub fn results(mut self, scenario: &Scenario) -> Results {
        // Real runs come after all others.
        self.rows.sort_by_key(|row| (row.seed, row.arm));
        let mut arms = scenario.run.arms.clone();
        arms.extend(self.rows.iter().any(|row| row.arm == Arm::Real).then_some(Arm::Real));
        let mut seeds: Vec<u64> = self.rows.iter().map(|row| row.seed).collect();
        seeds.dedup();
        let names = summary::names(&self.rows);
        let mean = |arm| {
            let of = |name: &String| Some((name.clone(), summary::mean(&self.rows, arm, name)?));
            (arm, names.iter().filter_map(of).collect())
        };
        let band = |(arm, bands): (Arm, BTreeMap<String, BandSum>)| {
            (arm, bands.into_iter().map(|(name, sum)| (name, sum.band())).collect())
        };
        let verdicts = verdicts(scenario, &self.rows, &self.unequal);
        Results {
            format: FORMAT,
            program: format!("folklore-sim {}", env!("CARGO_PKG_VERSION")),
            scenario: scenario.name.clone(),
            about: scenario.about.clone(),
            file: scenario.to_toml(),

            seeds,
            seeds_asked: scenario.run.seeds,
            means: arms.iter().map(|arm| mean(*arm)).collect(),
            arms,
            bands: self.bands.into_iter().map(band).collect(),
            rows: self.rows,
            paths: self.paths.unwrap_or_default(),
            faults: self.faults.unwrap_or_default(),
            verdicts,
        }
    }
}

fn verdicts(scenario: &Scenario, rows: &[RunRow], unequal: &[u64]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let mut violations = rows.iter().flat_map(|row| row.violations.iter().map(move |what| (row, what)));
    let count = violations.clone().count();
    let found = match violations.next() {
        Some((row, what)) => format!("{count} failed, the first with seed {} ({}): {what}", row.seed, row.arm.name()),
        None => format!("none failed in {} runs", rows.len()),
    };
    verdicts.push(Verdict { expected: "all checks hold".into(), holds: count == 0, found });
    if rows.is_empty() {
        return verdicts;
    }
    if scenario.expect.convergence && rows.iter().any(|row| row.arm == Arm::Folklore) {
        let found = match unequal {
            [] => "so it is with every seed".into(),
            seeds => format!("not so with seed {}", list(seeds)),
        };
        let expected = "all honest nodes hold the same at the end".into();
        verdicts.push(Verdict { expected, holds: unequal.is_empty(), found });
    }
    if let Some(within_ms) = scenario.expect.converge_within_ms {
        verdicts.push(converged_within(scenario, rows, within_ms));
    }
    verdicts.extend(scenario.expect.bounds.iter().map(|bound| bounded(bound, rows)));
    verdicts
}

fn list(seeds: &[u64]) -> String {
    let shown: Vec<String> = seeds.iter().take(5).map(u64::to_string).collect();
    let more = if seeds.len() > 5 { format!(" and {} more", seeds.len() - 5) } else { String::new() };
    shown.join(", ") + &more
}

fn converged_within(scenario: &Scenario, rows: &[RunRow], within_ms: u64) -> Verdict {
    let limit_s = within_ms as f64 / 1000.0;
    let time = |row: &RunRow| row.figures.get("converge.all_s").copied().unwrap_or(f64::INFINITY);
    let of_folklore = || rows.iter().filter(|row| row.arm == Arm::Folklore);
    let late: Vec<u64> = of_folklore().filter(|row| time(row) > limit_s).map(|row| row.seed).collect();
    let worst = of_folklore().map(time).fold(0.0, f64::max);
    let duration = crate::scenario::units::duration_text(within_ms);
    let found = match (scenario.during(), late.as_slice()) {
        (None, _) => "nothing is ever cut, so there is nothing to wait for".into(),
        (_, []) => format!("at most {} s", number(worst)),
        (_, late) if worst.is_finite() => format!("{} s with seed {}", number(worst), list(late)),
        (_, late) => format!("never with seed {}", list(late)),
    };
    let expected = format!("all nodes hold all older lessons within {duration} of the heal");
    Verdict { expected, holds: scenario.during().is_some() && late.is_empty(), found }
}

fn bounded(bound: &Bound, rows: &[RunRow]) -> Verdict {
    let (name, interval) = match bound.of {
        None => {
            let name = format!("{} of {}", bound.figure, bound.arm.name());
            (name, summary::mean(rows, bound.arm, &bound.figure))
        }
        Some(of) => {
            let name = format!("{} of {} over that of {}", bound.figure, bound.arm.name(), of.name());
            (name, Interval::of_ratio(&summary::pairs(rows, &bound.figure, bound.arm, of)))
        }
    };
    let limits = [(bound.at_least, "at least"), (bound.at_most, "at most")];
    let limits: Vec<String> =
        limits.iter().filter_map(|(limit, word)| Some(format!("{word} {}", number((*limit)?)))).collect();
    let holds = interval.is_some_and(|found| {
        let (low, high) = if bound.interval { (found.low, found.high) } else { (found.mean, found.mean) };
        bound.at_least.is_none_or(|least| low >= least) && bound.at_most.is_none_or(|most| high <= most)
    });
    let found = match interval {
        Some(i) => format!("{} ({} to {}, {} seeds)", number(i.mean), number(i.low), number(i.high), i.n),
        None if bound.of.is_some() => "no seed has both, or the second is zero throughout".into(),
        None => "no seed has this figure".into(),
    };
    let with = if bound.interval { ", its interval included" } else { "" };
    Verdict { expected: format!("{name} {}{with}", limits.join(" and ")), holds, found }
}

impl Results {
    /// Whether all that was expected holds.
    pub fn pass(&self) -> bool {
        self.verdicts.iter().all(|verdict| verdict.holds)
    }

    /// Reads `results.json`, or that of a directory.
    pub fn load(path: &Path) -> Result<Self, ResultsError> {
        let path = if path.is_dir() { path.join("results.json") } else { path.to_path_buf() };
        let shown = path.display().to_string();
        let unread = |error| ResultsError::Unread { path: shown.clone(), error };
        let unknown = |error: String| ResultsError::Unknown { path: shown.clone(), error };
        if std::fs::metadata(&path).map_err(unread)?.len() > MAX_RESULTS_BYTES {
            return Err(unknown(format!("it is longer than {MAX_RESULTS_BYTES} bytes")));
        }
        let text = std::fs::read(&path).map_err(unread)?;
        let results: Self = serde_json::from_slice(&text).map_err(|error| unknown(error.to_string()))?;
        if results.format == FORMAT { Ok(results) } else { Err(unknown(format!("its format is {}", results.format))) }
    }

    /// Convergence after the heal: `(figure, simulated, real, real over simulated)`, seconds, over the seeds that have both; for
    /// results with real runs. The ratio is missing where the simulated mean is zero.
    pub fn real_against_simulated(&self) -> Vec<(&'static str, f64, f64, Option<Interval>)> {
        let compared = ["converge.first_s", "converge.all_s", "converge.equal_s"].into_iter().filter_map(|name| {
            let pairs = summary::pairs(&self.rows, name, Arm::Folklore, Arm::Real);
            let of = |side: fn(&(f64, f64)) -> f64| pairs.iter().map(side).sum::<f64>() / pairs.len() as f64;
            let (simulated, real) = (of(|pair| pair.0), of(|pair| pair.1));
            let ratio =
                Interval::of_ratio(&pairs.iter().map(|(simulated, real)| (*real, *simulated)).collect::<Vec<_>>());
            (!pairs.is_empty()).then_some((name, simulated, real, ratio))
        });
        compared.collect()
    }

    /// A figure's mean in an arm.
    pub fn mean(&self, arm: Arm, figure: &str) -> Option<&Interval> {
        self.means.get(&arm)?.get(figure)
    }

    /// Figures that any arm has, in the order reports show them, without those of single sites.
    pub fn names(&self) -> Vec<String> {
        let all = summary::names(&self.rows);
        all.into_iter().filter(|name| !name.contains('@') && figures::find(name).is_some()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_on_the_mean_unless_it_is_on_the_whole_interval() {
        let row = |seed, value: f64| RunRow {
            arm: Arm::Folklore,
            seed,
            digest: String::new(),
            handled: 0,
            figures: [("attempts".to_owned(), value)].into(),
            violations: Vec::new(),
        };
        // Mean 10, and 95 % within 4.3 × 1/√3 = 2.48 of it (Student's t of two degrees of freedom).
        let rows = [row(1, 9.0), row(2, 10.0), row(3, 11.0)];
        let holds = |at_most, interval| {
            let (figure, arm) = ("attempts".into(), Arm::Folklore);
            bounded(&Bound { figure, arm, of: None, at_least: None, at_most: Some(at_most), interval }, &rows).holds
        };
        assert_eq!([9.9, 10.1, 12.4, 12.6].map(|most| holds(most, false)), [false, true, true, true]);
        assert_eq!([9.9, 10.1, 12.4, 12.6].map(|most| holds(most, true)), [false, false, false, true]);
    }
}
