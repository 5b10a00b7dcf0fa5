//! Means with intervals, over seeds.

use serde::{Deserialize, Serialize};

/// A mean with its 95 % interval by Student's t.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The mean, or the ratio of two.
    pub mean: f64,
    /// Lower end. Equal to the mean where there is one value only, of which no interval can be told.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Standard deviation of the values (with n − 1).
    pub sd: f64,
    /// How many values.
    pub n: usize,
}

impl Interval {
    /// Of the values; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let n = values.len();
        let mean = (n > 0).then(|| values.iter().sum::<f64>() / n as f64)?;
        let sd = standard_deviation(values, mean);
        Some(Self::around(mean, sd, sd / (n as f64).sqrt(), n))
    }

    /// Of the differences of pairs, the first less the second; `None` if there are no pairs.
    pub fn of_differences(pairs: &[(f64, f64)]) -> Option<Self> {
        Self::of(&pairs.iter().map(|(a, b)| a - b).collect::<Vec<_>>())
    }

    /// Of the ratio of the means of paired values, the first over the second, by linearising it (the ratio estimator of survey
    /// sampling): with r the ratio, the residuals a − r·b have mean zero, and their standard error over the mean of b is that
    /// of r. `None` if there are no pairs or the second mean is zero.
    pub fn of_ratio(pairs: &[(f64, f64)]) -> Option<Self> {
        let n = pairs.len() as f64;
        let below = pairs.iter().map(|(_, b)| b).sum::<f64>() / n;
        if pairs.is_empty() || below == 0.0 {
            return None;
        }
        let ratio = pairs.iter().map(|(a, _)| a).sum::<f64>() / n / below;
        let residuals: Vec<f64> = pairs.iter().map(|(a, b)| (a - ratio * b) / below).collect();
        let sd = standard_deviation(&residuals, 0.0);
        Some(Self::around(ratio, sd, sd / n.sqrt(), pairs.len()))
    }

    /// Of the difference of the means of two lots that are not paired, by Welch's t; `None` if one is empty.
    pub fn of_two(a: &[f64], b: &[f64]) -> Option<Self> {
        let (first, second) = (Self::of(a)?, Self::of(b)?);
        let (va, vb) = (first.sd.powi(2) / a.len() as f64, second.sd.powi(2) / b.len() as f64);
        let mean = first.mean - second.mean;
        let n = a.len().min(b.len());
        if n < 2 {
            return Some(Self { mean, low: mean, high: mean, sd: 0.0, n });
        }
        let below = va.powi(2) / (a.len() - 1) as f64 + vb.powi(2) / (b.len() - 1) as f64;
        // Both lots without any spread: the difference is what it is.
        let freedom = if below > 0.0 { (va + vb).powi(2) / below } else { f64::INFINITY };
        let half = t_975(freedom) * (va + vb).sqrt();
        Some(Self { mean, low: mean - half, high: mean + half, sd: (va + vb).sqrt(), n })
    }

    fn around(mean: f64, sd: f64, error: f64, n: usize) -> Self {
        let half = if n < 2 { 0.0 } else { t_975((n - 1) as f64) * error };
        Self { mean, low: mean - half, high: mean + half, sd, n }
    }

    /// Whether zero lies outside: of a difference, whether it can be told from none.
    pub fn excludes_zero(&self) -> bool {
        self.n > 1 && (self.low > 0.0 || self.high < 0.0)
    }
}

fn standard_deviation(values: &[f64], mean: f64) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64).sqrt()
}

/// The 97.5 % point of Student's t with so many degrees of freedom. Between the tabled ones it is interpolated in their
/// reciprocals, which is right to three decimals.
pub fn t_975(freedom: f64) -> f64 {
    const TABLE: [(f64, f64); 34] = [
        (1.0, 12.706),
        (2.0, 4.303),
        (3.0, 3.182),
        (4.0, 2.776),
        (5.0, 2.571),
        (6.0, 2.447),
        (7.0, 2.365),
        (8.0, 2.306),
        (9.0, 2.262),
        (10.0, 2.228),
        (11.0, 2.201),
        (12.0, 2.179),
        (13.0, 2.160),
        (14.0, 2.145),
        (15.0, 2.131),
        (16.0, 2.120),
        (17.0, 2.110),
        (18.0, 2.101),
        (19.0, 2.093),
        (20.0, 2.086),
        (21.0, 2.080),
        (22.0, 2.074),
        (23.0, 2.069),
        (24.0, 2.064),
        (25.0, 2.060),
        (26.0, 2.056),
        (27.0, 2.052),
        (28.0, 2.048),
        (29.0, 2.045),
        (30.0, 2.042),
        (40.0, 2.021),
        (60.0, 2.000),
        (120.0, 1.980),
        (f64::INFINITY, 1.960),
    ];
    let at = TABLE.partition_point(|(tabled, _)| *tabled < freedom);
    match (at.checked_sub(1).and_then(|before| TABLE.get(before)), TABLE.get(at)) {
        (Some((f0, t0)), Some((f1, t1))) => {
            let (x0, x1, x) = (1.0 / f0, 1.0 / f1, 1.0 / freedom);
            t0 + (t1 - t0) * (x - x0) / (x1 - x0)
        }
        (None, Some((_, t))) | (Some((_, t)), None) => *t,
        (None, None) => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-3
    }

    #[test]
    fn a_mean_has_the_interval_of_the_text_book() {
        // 4, 8, 6, 5, 3: mean 5.2, squares of the deviations 1.44 + 7.84 + 0.64 + 0.04 + 4.84 = 14.8, sd = sqrt(14.8 / 4)
        // = 1.9235, error = 0.8602, t(4) = 2.776: half = 2.388.
        let interval = Interval::of(&[4.0, 8.0, 6.0, 5.0, 3.0]).expect("values");
        assert!(near(interval.mean, 5.2) && near(interval.sd, 1.9235), "{interval:?}");
        assert!(near(interval.low, 5.2 - 2.388) && near(interval.high, 5.2 + 2.388), "{interval:?}");
    }

    #[test]
    fn one_value_has_no_interval_and_none_has_no_mean() {
        let one = Interval::of(&[3.0]).expect("a value");
        assert_eq!((one.low, one.mean, one.high, one.n), (3.0, 3.0, 3.0, 1));
        assert!(!one.excludes_zero(), "nothing can be told from one value");
        assert_eq!(Interval::of(&[]), None);
    }

    #[test]
    fn pairs_are_compared_within_each_pair() {
        // Differences 1, 1, 2: mean 4/3, sd = sqrt((1/9 + 1/9 + 4/9) / 2) = 0.57735, error 0.33333, t(2) = 4.303.
        let pairs = [(101.0, 100.0), (51.0, 50.0), (12.0, 10.0)];
        let difference = Interval::of_differences(&pairs).expect("pairs");
        assert!(near(difference.mean, 1.3333) && near(difference.high - difference.mean, 1.4343), "{difference:?}");
    }

    #[test]
    fn a_ratio_of_means_has_the_interval_of_the_ratio_estimator() {
        // Means 3 and 2: r = 1.5. Residuals a − 1.5 b: 2 − 1.5 = 0.5, 3 − 3 = 0, 4 − 4.5 = −0.5; over 2: 0.25, 0, −0.25.
        // sd = sqrt(0.125 / 2) = 0.25, error = 0.14434, t(2) = 4.303: half = 0.6211.
        let ratio = Interval::of_ratio(&[(2.0, 1.0), (3.0, 2.0), (4.0, 3.0)]).expect("pairs");
        assert!(near(ratio.mean, 1.5) && near(ratio.high - 1.5, 0.6211), "{ratio:?}");
        assert_eq!(Interval::of_ratio(&[(1.0, 0.0), (2.0, 0.0)]), None, "nothing is a multiple of nothing");
    }

    #[test]
    fn lots_that_are_not_paired_are_compared_by_welch() {
        // a: 1, 2, 3 (variance 1, over 3: 0.3333); b: 2, 4, 6, 8 (mean 5, variance 20/3, over 4: 1.6667). Difference −3, error
        // sqrt(2) = 1.41421; freedom = 4 / (0.1111 / 2 + 2.7778 / 3) = 4 / 0.98148 = 4.0755; t between 2.776 and 2.571 in the
        // reciprocals: 2.776 − 0.205 × (0.25 − 0.24537) / 0.05 = 2.757: half = 3.899.
        let difference = Interval::of_two(&[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0, 8.0]).expect("values");
        assert!(near(difference.mean, -3.0), "{difference:?}");
        assert!((difference.high - difference.mean - 3.899).abs() < 2e-3, "{difference:?}");
    }

    #[test]
    fn students_t_lies_between_its_tabled_points() {
        assert_eq!(t_975(1.0), 12.706);
        assert_eq!(t_975(19.0), 2.093);
        assert!(near(t_975(50.0), 2.0086), "{}", t_975(50.0));
        assert!(near(t_975(80.0), 1.9901), "{}", t_975(80.0));
        assert!(near(t_975(1e9), 1.96) && near(t_975(f64::INFINITY), 1.96));
    }
}
