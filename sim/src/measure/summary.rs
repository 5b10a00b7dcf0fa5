//! Many runs together: means with intervals for each arm, differences between arms over the same seeds, curves with bands.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Curve, figures, stats::Interval};
use crate::scenario::Arm;

/// What one run came to, without its curves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRow {
    /// In which arm.
    pub arm: Arm,
    /// With which seed.
    pub seed: u64,
    /// A digest of everything that happened.
    pub digest: String,
    /// Messages and timers that nodes handled.
    pub handled: u64,
    /// Figures by name.
    pub figures: BTreeMap<String, f64>,
    /// Checks that failed, and what was seen.
    pub violations: Vec<String>,
}

/// A mean curve with the interval of each of its points.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Band {
    /// Times, milliseconds.
    pub at_ms: Vec<u64>,
    /// The means; `None` where no run has a value.
    pub mean: Vec<Option<f64>>,
    /// Lower ends of the 95 % intervals.
    pub low: Vec<Option<f64>>,
    /// Upper ends.
    pub high: Vec<Option<f64>>,
}

/// Curves under way of being averaged, in memory that does not grow with the runs.
#[derive(Debug, Clone, Default)]
pub struct BandSum {
    at_ms: Vec<u64>,
    /// For each point how many values, their mean, and the sum of squared deviations from it (Welford).
    points: Vec<(u64, f64, f64)>,
}

impl BandSum {
    /// Takes in a run's curve. Curves of one name have the same times as far as they go.
    pub fn add(&mut self, curve: &Curve) {
        if curve.at_ms.len() > self.at_ms.len() {
            self.at_ms = curve.at_ms.clone();
            self.points.resize(self.at_ms.len(), (0, 0.0, 0.0));
        }
        for (point, value) in self.points.iter_mut().zip(&curve.values) {
            let Some(value) = value else { continue };
            point.0 += 1;
            let from_mean = value - point.1;
            point.1 += from_mean / point.0 as f64;
            point.2 += from_mean * (value - point.1);
        }
    }

    /// The band so far.
    pub fn band(&self) -> Band {
        let mut band = Band { at_ms: self.at_ms.clone(), ..Band::default() };
        for (n, mean, squares) in &self.points {
            let some = |value: f64| (*n > 0).then_some(value);
            let half = if *n > 1 {
                let error = (squares / (n - 1) as f64 / *n as f64).sqrt();
                super::stats::t_975((n - 1) as f64) * error
            } else {
                0.0
            };
            band.mean.push(some(*mean));
            band.low.push(some(mean - half));
            band.high.push(some(mean + half));
        }
        band
    }
}

/// The values of a figure in one arm, by seed.
pub fn values(rows: &[RunRow], arm: Arm, figure: &str) -> BTreeMap<u64, f64> {
    let of_arm = rows.iter().filter(|row| row.arm == arm);
    of_arm.filter_map(|row| Some((row.seed, *row.figures.get(figure)?))).collect()
}

/// The values of two arms over the seeds that have both.
pub fn pairs(rows: &[RunRow], figure: &str, a: Arm, b: Arm) -> Vec<(f64, f64)> {
    let (a, b) = (values(rows, a, figure), values(rows, b, figure));
    a.iter().filter_map(|(seed, value)| Some((*value, *b.get(seed)?))).collect()
}

/// The mean of a figure in one arm.
pub fn mean(rows: &[RunRow], arm: Arm, figure: &str) -> Option<Interval> {
    Interval::of(&values(rows, arm, figure).into_values().collect::<Vec<_>>())
}

/// The names of all figures that any row has, in the order of [`figures::ALL`], those of single sites after those of all.
pub fn names(rows: &[RunRow]) -> Vec<String> {
    let mut names: Vec<&String> = rows.iter().flat_map(|row| row.figures.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let place = |name: &str| {
        let base = name.split('@').next().unwrap_or(name);
        figures::ALL.iter().position(|figure| figure.name == base).unwrap_or(usize::MAX)
    };
    let mut names: Vec<String> = names.into_iter().cloned().collect();
    names.sort_by_key(|name| (place(name), name.clone()));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_band_is_the_mean_and_interval_of_each_point() {
        let curve = |values: &[Option<f64>]| Curve { at_ms: vec![10, 20, 30], values: values.to_vec() };
        let mut sum = BandSum::default();
        sum.add(&curve(&[Some(1.0), None, Some(4.0)]));
        sum.add(&curve(&[Some(3.0), None, None]));
        // 1 and 3: mean 2, sd sqrt(2), error 1, t(1) = 12.706.
        let band = sum.band();
        assert_eq!(band.mean, [Some(2.0), None, Some(4.0)]);
        assert!((band.high[0].unwrap_or_default() - 14.706).abs() < 1e-9, "{band:?}");
        assert_eq!((band.low[1], band.low[2], band.high[2]), (None, Some(4.0), Some(4.0)));
    }

    #[test]
    fn arms_are_paired_by_seed() {
        let row = |arm, seed, value: f64| RunRow {
            arm,
            seed,
            digest: String::new(),
            handled: 0,
            figures: [("attempts".to_string(), value)].into(),
            violations: Vec::new(),
        };
        let rows = [
            row(Arm::Folklore, 1, 5.0),
            row(Arm::Oracle, 2, 1.0),
            row(Arm::Folklore, 2, 7.0),
            row(Arm::Oracle, 3, 9.0),
        ];
        assert_eq!(pairs(&rows, "attempts", Arm::Folklore, Arm::Oracle), [(7.0, 1.0)]);
        assert_eq!(mean(&rows, Arm::Folklore, "attempts").map(|i| i.mean), Some(6.0));
        assert_eq!(mean(&rows, Arm::Central, "attempts"), None);
    }
}
