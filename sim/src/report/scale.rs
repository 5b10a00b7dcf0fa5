//! From values to places on paper, and the ticks of an axis.

/// A stretch of values laid out over a stretch of paper.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
    log: bool,
}

impl Scale {
    /// Even steps.
    pub(super) fn linear(values: (f64, f64), paper: (f64, f64)) -> Self {
        let to = if values.1 > values.0 { values.1 } else { values.0 + 1.0 };
        Self { from: values.0, to, start: paper.0, end: paper.1, log: false }
    }

    /// Even ratios. Values must be above zero.
    pub(super) fn log(values: (f64, f64), paper: (f64, f64)) -> Self {
        Self { log: true, ..Self::linear((values.0.ln(), values.1.ln()), paper) }
    }

    /// Where a value lies.
    pub(super) fn at(&self, value: f64) -> f64 {
        let value = if self.log { value.max(f64::MIN_POSITIVE).ln() } else { value };
        let share = ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0);
        self.start + share * (self.end - self.start)
    }
}

/// Steps that people count time in, milliseconds.
const TIME_STEPS: [u64; 22] = [
    100,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    15_000,
    30_000,
    60_000,
    120_000,
    300_000,
    600_000,
    900_000,
    1_800_000,
    3_600_000,
    7_200_000,
    10_800_000,
    21_600_000,
    43_200_000,
    86_400_000,
    172_800_000,
    604_800_000,
];

/// Ticks of an axis of time up to `to_ms`: at most `most` of them, with labels.
pub(super) fn time_ticks(to_ms: u64, most: u64) -> Vec<(f64, String)> {
    let last = TIME_STEPS[TIME_STEPS.len() - 1];
    let step = TIME_STEPS.into_iter().find(|step| to_ms / step < most).unwrap_or(last * (to_ms / last / most + 1));
    (0..=to_ms / step).map(|n| ((n * step) as f64, short_time(n * step))).collect()
}

/// Ticks of an axis of time whose even steps are ratios.
pub(super) fn log_time_ticks(from_ms: f64, to_ms: f64) -> Vec<(f64, String)> {
    let all = [100, 1_000, 10_000, 60_000, 600_000, 3_600_000, 21_600_000, 86_400_000, 604_800_000];
    let within = all.into_iter().filter(|ms| (from_ms..=to_ms).contains(&(*ms as f64)));
    within.map(|ms| (ms as f64, short_time(ms))).collect()
}

/// A time with its largest unit, and the next if it is needed: `90m` is `1h30`.
pub(super) fn short_time(ms: u64) -> String {
    match ms {
        0 => "0".into(),
        ms if ms < 1_000 => format!("{} s", ms as f64 / 1000.0),
        ms if ms < 60_000 => format!("{} s", super::number(ms as f64 / 1000.0)),
        ms if ms < 3_600_000 && ms.is_multiple_of(60_000) => format!("{} min", ms / 60_000),
        ms if ms < 3_600_000 => format!("{}:{:02}", ms / 60_000, ms / 1_000 % 60),
        ms if ms < 172_800_000 && ms.is_multiple_of(3_600_000) => format!("{} h", ms / 3_600_000),
        ms if ms < 172_800_000 => format!("{}h{:02}", ms / 3_600_000, ms / 60_000 % 60),
        ms if ms.is_multiple_of(86_400_000) => format!("{} d", ms / 86_400_000),
        ms => format!("{:.1} d", ms as f64 / 86_400_000.0),
    }
}

/// Ticks from zero to a round number at or above `most`, about five; the last one is the axis' end.
pub(super) fn ticks(most: f64) -> Vec<f64> {
    if !(most > 0.0 && most.is_finite()) {
        return vec![0.0, 1.0];
    }
    let rough = most / 4.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|m| m * power).find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(10.0 * power);
    let count = (most / step - 1e-9).ceil().max(1.0) as u32;
    (0..=count).map(|n| f64::from(n) * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_cover_what_is_shown() {
        assert_eq!(ticks(1.0), [0.0, 0.25, 0.5, 0.75, 1.0]);
        assert_eq!(ticks(37.0), [0.0, 10.0, 20.0, 30.0, 40.0]);
        for most in [0.003, 0.7, 9.99, 10.0, 123.0, 4e6] {
            let ticks = ticks(most);
            assert!((3..=6).contains(&ticks.len()) && ticks[ticks.len() - 1] >= most * 0.999, "{most} {ticks:?}");
        }
        assert_eq!(ticks(0.0), [0.0, 1.0]);
    }

    #[test]
    fn time_is_counted_as_people_do() {
        let labels: Vec<String> = time_ticks(12 * 3_600_000, 8).into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels, ["0", "2 h", "4 h", "6 h", "8 h", "10 h", "12 h"]);
        assert_eq!(short_time(5_400_000), "1h30");
        assert_eq!(short_time(90_000), "1:30");
        assert!(time_ticks(400 * 86_400_000, 8).len() <= 9);
    }

    #[test]
    fn a_scale_puts_the_ends_at_the_ends() {
        let scale = Scale::log((100.0, 10_000.0), (0.0, 200.0));
        assert!((scale.at(1_000.0) - 100.0).abs() < 1e-9);
        let scale = Scale::linear((0.0, 10.0), (200.0, 0.0));
        assert_eq!((scale.at(0.0), scale.at(10.0), scale.at(99.0)), (200.0, 0.0, 0.0));
    }
}
