//! The space-time diagram: nodes from top to bottom by site, time from left to right, and how some lessons went across.

use std::collections::BTreeMap;

use super::{
    plot::RIGHT,
    scale::{Scale, short_time, time_ticks},
    svg::{Anchor, Svg},
    timeline::cut_spans,
};
use crate::{measure::paths::Paths, scenario::Scenario};

/// More nodes than this are drawn as one row a site.
const MAX_ROWS: usize = 48;
/// A lesson that took longer than this to a node is drawn as late, milliseconds.
const LATE_MS: u64 = 60_000;

/// The picture; `None` if no lesson was followed.
pub(super) fn picture(paths: &Paths, scenario: &Scenario, end_ms: u64, width: f64) -> Option<String> {
    if paths.lessons.is_empty() {
        return None;
    }
    let by_site = scenario.nodes() > MAX_ROWS;
    let rows = if by_site { scenario.sites.len() } else { scenario.nodes() };
    let step = (420.0 / rows as f64).clamp(9.0, 28.0);
    let (top, left, gap) = (58.0, 110.0, 10.0);
    let site_of = scenario.site_of_nodes();
    let row = |node: usize| {
        let site = site_of.get(node).copied().unwrap_or_default();
        top + step * (if by_site { site } else { node }) as f64 + if by_site { 0.0 } else { gap * site as f64 }
    };
    let bottom = top + step * rows as f64 + if by_site { 0.0 } else { gap * (scenario.sites.len() as f64 - 1.0) };
    let height = bottom + 44.0;
    let right = width - RIGHT;
    let x = Scale::linear((0.0, end_ms as f64), (left, right));
    let mut svg = Svg::new(width, height, "How some lessons went from node to node");
    svg.text((16.0, 22.0), Anchor::Start, "bold", "How some lessons went from node to node");
    let note = "a dot: taught · a line: another node got it · orange: more than a minute after it was taught";
    svg.text((16.0, 40.0), Anchor::Start, "soft small", note);
    for (from, to) in cut_spans(scenario, end_ms) {
        let (a, b) = (x.at(from as f64), x.at(to as f64));
        svg.rect((a, top - 8.0), (b - a, bottom - top), "cut", "links are cut");
    }
    for (site, spec) in scenario.sites.iter().enumerate() {
        let nodes = scenario.nodes_of(site);
        svg.text((left - 10.0, row(nodes.start) + 4.0), Anchor::End, "small", &spec.name);
        let shown = if by_site { nodes.start..nodes.start + 1 } else { nodes };
        shown.for_each(|node| svg.line((left, row(node)), (right, row(node)), "grid"));
    }
    let taught: BTreeMap<u64, (usize, u64)> = paths.lessons.iter().map(|l| (l.record, (l.node, l.at_ms))).collect();
    // Other names of a hostile node have no row.
    let has_row = |node: usize| node < scenario.nodes();
    for step in paths.steps.iter().filter(|step| has_row(step.to) && step.from.is_none_or(has_row)) {
        let Some((author, at_ms)) = taught.get(&step.record) else { continue };
        let from = step.from.unwrap_or(*author);
        let class = if step.at_ms - at_ms > LATE_MS { "late" } else { "step" };
        let at = x.at(step.at_ms as f64);
        svg.line((at, row(from)), (at, row(step.to)), class);
        svg.circle((at, row(step.to)), 1.6, class, "");
    }
    for lesson in paths.lessons.iter().filter(|lesson| has_row(lesson.node)) {
        let about = format!("taught at node {} at {}", lesson.node, short_time(lesson.at_ms));
        svg.circle((x.at(lesson.at_ms as f64), row(lesson.node)), 3.5, "taught", &about);
    }
    for (at, label) in time_ticks(end_ms, 9) {
        svg.line((x.at(at), bottom), (x.at(at), bottom + 5.0), "axis");
        svg.text((x.at(at), bottom + 18.0), Anchor::Middle, "soft small", &label);
    }
    svg.line((left, bottom), (right, bottom), "axis");
    Some(svg.finish())
}
