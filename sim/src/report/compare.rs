//! Two experiments side by side, figure by figure.

use std::fmt::Write;

use super::number;
use crate::{
    measure::{
        figures::{self, Better, Figure},
        stats::Interval,
        summary,
    },
    results::Results,
    scenario::Arm,
};

/// One figure of one arm in both.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Compared {
    /// The figure.
    pub figure: String,
    /// The arm.
    pub arm: Arm,
    /// Its mean in the first.
    pub a: Interval,
    /// Its mean in the second.
    pub b: Interval,
    /// The second less the first: over the seeds that both have where those are two or more, else of two separate lots.
    pub difference: Interval,
    /// Whether the difference is over pairs.
    pub paired: bool,
    /// `better`, `worse` or `same`: whether the second can be told from the first, and in which way.
    pub verdict: &'static str,
}

/// Everything that both have.
pub fn compare(a: &Results, b: &Results) -> Vec<Compared> {
    let mut all = Vec::new();
    for name in a.names().into_iter().filter(|name| b.names().contains(name)) {
        for arm in a.arms.iter().filter(|arm| b.arms.contains(arm)) {
            all.extend(one(a, b, &name, *arm));
        }
    }
    all
}

fn one(a: &Results, b: &Results, name: &str, arm: Arm) -> Option<Compared> {
    let (first, second) = (*a.mean(arm, name)?, *b.mean(arm, name)?);
    let (of_a, of_b) = (summary::values(&a.rows, arm, name), summary::values(&b.rows, arm, name));
    let pairs: Vec<(f64, f64)> = of_b.iter().filter_map(|(seed, value)| Some((*value, *of_a.get(seed)?))).collect();
    let paired = pairs.len() > 1;
    let difference = if paired {
        Interval::of_differences(&pairs)?
    } else {
        let lot = |values: std::collections::BTreeMap<u64, f64>| values.into_values().collect::<Vec<_>>();
        Interval::of_two(&lot(of_b), &lot(of_a))?
    };
    let better = figures::find(name).map_or(Better::Neither, |figure| figure.better);
    let verdict = match (difference.excludes_zero(), better) {
        (false, _) | (_, Better::Neither) => "same",
        (true, Better::Lower) if difference.mean < 0.0 => "better",
        (true, Better::Higher) if difference.mean > 0.0 => "better",
        (true, _) => "worse",
    };
    // Runs that are the same differ by nothing, and an interval of no width says so rightly; but what is not measured in
    // either direction is just shown.
    Some(Compared { figure: name.into(), arm, a: first, b: second, difference, paired, verdict })
}

/// The comparison as a table for a terminal.
pub fn table(compared: &[Compared], only: Option<Arm>) -> String {
    let mut text =
        format!("{:<36} {:<9} {:>11} {:>11} {:>11} {:>25}\n", "figure", "arm", "A", "B", "B - A", "95 % interval");
    for row in compared.iter().filter(|row| only.is_none_or(|arm| row.arm == arm)) {
        let (a, b, d) = (number(row.a.mean), number(row.b.mean), row.difference);
        let interval = if d.n < 2 { String::new() } else { format!("{} to {}", number(d.low), number(d.high)) };
        let sign = match row.verdict {
            "better" => "  better",
            "worse" => "  WORSE",
            _ => "",
        };
        let (figure, arm) = (&row.figure, row.arm.name());
        let _ = writeln!(text, "{figure:<36} {arm:<9} {a:>11} {b:>11} {:>11} {interval:>25}{sign}", number(d.mean));
    }
    text
}

/// What a figure means, as a sentence that stands by itself.
pub(super) fn sentence(figure: &Figure) -> String {
    // "the same …" refers to the figure before it, which need not stand there.
    if !figure.about.starts_with("the same") && !figure.about.starts_with("of these") {
        return figure.about.into();
    }
    let own = figures::ALL.iter().position(|one| one.name == figure.name).unwrap_or_default();
    let base = figures::ALL.iter().take(own).rev().find(|one| {
        !one.about.starts_with("the same")
            && !one.about.starts_with("of these")
            && figure.name.starts_with(one.name.split('.').next().unwrap_or(one.name))
    });
    base.map_or_else(|| figure.about.into(), |base| format!("{}; {}", base.about, figure.about))
}
