//! Figures of a ranking, and how sure their means are.

use serde::Serialize;

/// The share of a mean's resamples that its interval leaves out at each end.
const TAIL: f64 = 0.025;

/// Figures of one query; all 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct QueryFigures {
    /// Whether the first answers.
    pub recall_1: f64,
    /// Of the lessons that answer, at most five, the share among the first five.
    pub recall_5: f64,
    /// The same for ten.
    pub recall_10: f64,
    /// One divided by the place of the first that answers; 0 where none does.
    pub reciprocal_rank: f64,
    /// Discounted gain of the first ten, of the best possible (Järvelin and Kekäläinen 2002), gains as graded.
    pub ndcg_10: f64,
}

/// A mean with its 95 % interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Interval {
    /// The mean.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The figures of `ranking`, best first, where `relevant` answer.
pub(super) fn figures(ranking: &[usize], relevant: &[(usize, f32)]) -> QueryFigures {
    let grade = |place: &usize| relevant.iter().find(|(other, _)| other == place).map_or(0.0, |(_, grade)| *grade);
    let recall = |k: usize| {
        let found = ranking.iter().take(k).filter(|place| grade(place) > 0.0).count();
        found as f64 / relevant.len().min(k).max(1) as f64
    };
    let gain = |grades: &mut dyn Iterator<Item = f32>| -> f64 {
        grades.take(10).enumerate().map(|(at, grade)| f64::from(grade) / (at as f64 + 2.0).log2()).sum()
    };
    let mut best: Vec<f32> = relevant.iter().map(|(_, grade)| *grade).collect();
    best.sort_by(|a, b| b.total_cmp(a));
    let ideal = gain(&mut best.into_iter());
    let first = ranking.iter().position(|place| grade(place) > 0.0);
    QueryFigures {
        recall_1: recall(1),
        recall_5: recall(5),
        recall_10: recall(10),
        reciprocal_rank: first.map_or(0.0, |at| 1.0 / (at as f64 + 1.0)),
        ndcg_10: if ideal > 0.0 { gain(&mut ranking.iter().map(grade)) / ideal } else { 0.0 },
    }
}

/// The mean of `values` and its interval by the percentile bootstrap (Efron 1979): the mean of as many values drawn with
/// repetition, `resamples` times.
pub(super) fn bootstrap(values: &[f64], seed: u64, resamples: usize) -> Interval {
    let value = mean(values.iter().copied(), values.len());
    if values.is_empty() || resamples == 0 {
        return Interval { value, low: value, high: value };
    }
    let mut random = SplitMix(seed);
    let mut drawn: Vec<f64> = (0..resamples)
        .map(|_| {
            let draw = |_| values.get(random.below(values.len())).copied().unwrap_or(0.0);
            mean((0..values.len()).map(draw).collect::<Vec<_>>().into_iter(), values.len())
        })
        .collect();
    drawn.sort_by(f64::total_cmp);
    let at = |share: f64| drawn.get((share * (resamples - 1) as f64).round() as usize).copied().unwrap_or(value);
    Interval { value, low: at(TAIL).min(value), high: at(1.0 - TAIL).max(value) }
}

fn mean(values: impl Iterator<Item = f64>, count: usize) -> f64 {
    values.sum::<f64>() / count.max(1) as f64
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): enough for resampling, and the same everywhere.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is above 0; the bias of a 64-bit product is beyond measure here.
    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_worked_out_by_hand() {
        let found = figures(&[7, 3, 9, 4], &[(3, 1.0), (4, 1.0), (8, 1.0)]);
        assert_eq!((found.recall_1, found.recall_5, found.reciprocal_rank), (0.0, 2.0 / 3.0, 0.5));
        let ideal = 1.0 + 1.0 / 3f64.log2() + 0.5;
        assert!((found.ndcg_10 - (1.0 / 3f64.log2() + 1.0 / 5f64.log2()) / ideal).abs() < 1e-12);
        assert_eq!(figures(&[], &[(1, 1.0)]), QueryFigures::default());
        let graded = figures(&[1, 2], &[(1, 1.0), (2, 2.0)]);
        assert!(graded.ndcg_10 < 1.0 && figures(&[2, 1], &[(1, 1.0), (2, 2.0)]).ndcg_10 == 1.0);
        let many: Vec<(usize, f32)> = (0..20).map(|place| (place, 1.0)).collect();
        assert_eq!(figures(&(0..10).collect::<Vec<_>>(), &many).recall_10, 1.0);
    }

    #[test]
    fn an_interval_holds_its_mean_and_narrows_with_more_queries() {
        let values = |n: usize| (0..n).map(|at| (at % 2) as f64).collect::<Vec<_>>();
        let (few, many) = (bootstrap(&values(40), 1, 1000), bootstrap(&values(4000), 1, 1000));
        assert_eq!(few.value, 0.5);
        // The standard error of 40 coin flips is 0.079: the interval is about ± 0.155.
        assert!((few.high - few.low - 0.31).abs() < 0.06, "{few:?}");
        assert!(many.high - many.low < 0.1 * (few.high - few.low) * 1.5, "{many:?}");
        assert_eq!(few, bootstrap(&values(40), 1, 1000));
        assert_eq!(bootstrap(&[], 1, 10), Interval::default());
        assert_eq!(bootstrap(&[0.3; 5], 1, 10).low, 0.3);
    }
}
