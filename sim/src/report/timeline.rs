//! The timeline: what was wrong when, above how often agents repeated a failure.

use super::{
    plot::{Chart, LEFT, RIGHT, TimeAxis},
    scale::{Scale, short_time},
    svg::{Anchor, Svg},
};
use crate::scenario::{Fault, FaultKind, Scenario};

/// Most rows of faults that are drawn; the others are counted.
const MAX_ROWS: usize = 10;
/// Most bars of one fault that comes and goes.
const MAX_BARS: u64 = 400;
const ROW: f64 = 18.0;

/// When a fault is on, milliseconds.
pub(super) fn spans(fault: &Fault, end_ms: u64) -> Vec<(u64, u64)> {
    let end = match fault.kind {
        FaultKind::Join { .. } | FaultKind::Leave { .. } => fault.at_ms,
        _ => fault.end_ms().unwrap_or(end_ms).min(end_ms),
    };
    let FaultKind::Flapping { down_ms, up_ms, .. } = fault.kind else { return vec![(fault.at_ms, end)] };
    let period = down_ms + up_ms;
    if (end - fault.at_ms) / period > MAX_BARS {
        return vec![(fault.at_ms, end)];
    }
    (0..).map(|n| fault.at_ms + n * period).take_while(|at| *at < end).map(|at| (at, (at + down_ms).min(end))).collect()
}

/// The picture.
pub(super) fn picture(chart: &Chart<'_>, scenario: &Scenario, end_ms: u64, width: f64) -> String {
    let rows = scenario.faults.len().min(MAX_ROWS);
    let more = scenario.faults.len() - rows;
    let strip = 46.0 + ROW * (rows + usize::from(more > 0)) as f64;
    let height = strip + 330.0;
    let mut svg = Svg::new(width, height, chart.title);
    svg.text((16.0, 22.0), Anchor::Start, "bold", chart.title);
    let x = Scale::linear((0.0, end_ms as f64), (LEFT, width - RIGHT));
    for (row, fault) in scenario.faults.iter().take(rows).enumerate() {
        let y = 40.0 + ROW * row as f64;
        let class = match &fault.kind {
            kind if kind.is_hostile() => "hostile",
            kind if kind.is_cut() => "cut",
            _ => "fault",
        };
        let mut first = None;
        for (from, to) in spans(fault, end_ms) {
            let (a, b) = (x.at(from as f64), x.at(to as f64));
            let about = format!("{} from {} to {}", fault.kind.name(), short_time(from), short_time(to));
            svg.rect((a, y), ((b - a).max(3.0), ROW - 5.0), class, &about);
            first.get_or_insert(a);
        }
        let at = first.unwrap_or(LEFT);
        // A name that would run out of the picture stands before its bar.
        let (at, anchor) = if at > width * 0.75 { (at - 6.0, Anchor::End) } else { (at + 4.0, Anchor::Start) };
        svg.text((at, y + 11.0), anchor, "small", fault.kind.name());
    }
    if more > 0 {
        let y = 51.0 + ROW * rows as f64;
        svg.text((LEFT, y), Anchor::Start, "soft small", &format!("and {more} more faults"));
    }
    chart.draw(&mut svg, strip, width, height);
    svg.finish()
}

/// When links are cut anywhere, as few stretches as that takes, milliseconds.
pub(super) fn cut_spans(scenario: &Scenario, end_ms: u64) -> Vec<(u64, u64)> {
    let cuts = scenario.faults.iter().filter(|fault| fault.kind.is_cut());
    let mut all: Vec<(u64, u64)> = cuts.flat_map(|fault| spans(fault, end_ms)).collect();
    all.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (from, to) in all {
        match merged.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

/// The axis of a whole run.
pub(super) fn whole(end_ms: u64) -> TimeAxis {
    TimeAxis::Even(end_ms)
}
