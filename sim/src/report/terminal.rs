//! What `folklore-sim run` prints for a person: the verdicts and the figures that matter most.

use std::fmt::Write;

use super::number;
use crate::results::Results;

/// Figures that are shown where a run has them.
const SHOWN: [&str; 18] = [
    "repeat_failure_rate.before",
    "repeat_failure_rate.during",
    "repeat_failure_rate.after",
    "repeat_failures",
    "only_elsewhere.failure_rate.during",
    "recall_at_1",
    "unavailability",
    "staleness.p95_s",
    "converge.first_s",
    "converge.first_useful_s",
    "converge.all_s",
    "converge.equal_s",
    "bytes_per_delivery",
    "duplicates_per_delivery",
    "set.lost",
    "set.stale",
    "poison.accept_rate",
    "poison.blast_radius",
];

/// The table and the verdicts.
pub fn summary(results: &Results) -> String {
    let mut text = format!("{}: {}\n", results.scenario, results.about);
    let _ = writeln!(text, "{} of {} seeds\n", results.seeds.len(), results.seeds_asked);
    let _ = write!(text, "{:<41}", "figure (mean ± half of the 95 % interval)");
    for arm in &results.arms {
        let _ = write!(text, " {:>18}", arm.name());
    }
    text.push('\n');
    for name in SHOWN.iter().filter(|name| results.arms.iter().any(|arm| results.mean(*arm, name).is_some())) {
        let _ = write!(text, "{name:<41}");
        for arm in &results.arms {
            let cell = match results.mean(*arm, name) {
                Some(i) if i.n > 1 => format!("{} ± {}", number(i.mean), number(i.high - i.mean)),
                Some(i) => number(i.mean),
                None => "–".into(),
            };
            let _ = write!(text, " {cell:>18}");
        }
        text.push('\n');
    }
    for (name, simulated, real, ratio) in results.real_against_simulated() {
        let (simulated, real) = (number(simulated), number(real));
        let ratio =
            ratio.map_or("–".into(), |i| format!("{} ({} to {})", number(i.mean), number(i.low), number(i.high)));
        let _ = writeln!(text, "\nreal against simulated, {name}: {real} s against {simulated} s, ratio {ratio}");
    }
    text.push('\n');
    for verdict in &results.verdicts {
        let sign = if verdict.holds { "ok    " } else { "FAILED" };
        let _ = writeln!(text, "{sign} {}: {}", verdict.expected, verdict.found);
    }
    text
}
