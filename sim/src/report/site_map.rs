//! The site map: sites round a circle, with the links between them and which of these are ever cut.

use super::{
    number,
    svg::{Anchor, Svg},
};
use crate::scenario::{FaultKind, LinkSpec, Scenario, units};

/// With more sites than this no link is drawn but those that are cut or that a file names.
const MAX_MESH: usize = 8;
/// Nodes drawn one by one in a site; of more only the number is told.
const MAX_DOTS: usize = 24;

/// The picture.
pub(super) fn picture(scenario: &Scenario, width: f64) -> String {
    let sites = scenario.sites.len();
    let height = if sites <= 2 { 240.0 } else { 420.0 };
    let mut svg = Svg::new(width, height, "The sites");
    svg.text((16.0, 22.0), Anchor::Start, "bold", "The sites");
    svg.text((16.0, 40.0), Anchor::Start, "soft small", "dashed: cut at some time · pink: hostile");
    let (middle, hostile) = ((width / 2.0, height / 2.0 + 14.0), scenario.hostile());
    let place = |site: usize| {
        let turn = std::f64::consts::TAU * site as f64 / sites as f64 + std::f64::consts::PI;
        let (rx, ry) =
            if sites == 1 { (0.0, 0.0) } else { (width * 0.30, if sites == 2 { 0.0 } else { height * 0.33 }) };
        (middle.0 + rx * turn.cos(), middle.1 + ry * turn.sin())
    };
    for a in 0..sites {
        for b in a + 1..sites {
            let cut = is_cut(scenario, a, b);
            let named = scenario.links.pairs.iter().any(|(x, y, _)| (*x, *y) == (a, b));
            if sites > MAX_MESH && !cut && !named {
                continue;
            }
            let (from, to) = (place(a), place(b));
            svg.line(from, to, if cut { "link-cut" } else { "link" });
            if sites <= MAX_MESH {
                // Not in the middle, where the lines of a mesh cross.
                let at = (from.0 + (to.0 - from.0) * 0.42, from.1 + (to.1 - from.1) * 0.42 - 6.0);
                svg.text(at, Anchor::Middle, "soft small halo", &about(scenario.links.of(a, b)));
            }
        }
    }
    let radius = if sites <= MAX_MESH { 40.0 } else { (160.0 / sites as f64).clamp(6.0, 22.0) };
    for (site, spec) in scenario.sites.iter().enumerate() {
        let (x, y) = place(site);
        let nodes = scenario.nodes_of(site);
        let bad = nodes.clone().filter(|node| hostile.get(*node) == Some(&true)).count();
        let class = if bad == spec.nodes { "hostile-node" } else { "node" };
        let said = format!("{}: {} nodes, {} agents at each", spec.name, spec.nodes, spec.agents);
        svg.circle((x, y), radius, class, &said);
        if sites > MAX_MESH {
            continue;
        }
        if spec.nodes <= MAX_DOTS {
            for (n, node) in nodes.enumerate() {
                let turn = std::f64::consts::TAU * n as f64 / spec.nodes as f64 - std::f64::consts::FRAC_PI_2;
                let at = (x + (radius - 9.0) * turn.cos(), y + (radius - 9.0) * turn.sin());
                svg.circle(at, 4.0, if hostile.get(node) == Some(&true) { "hostile-node" } else { "taught" }, "");
            }
        }
        svg.text((x, y + 5.0), Anchor::Middle, "bold", &spec.nodes.to_string());
        svg.text((x, y + radius + 16.0), Anchor::Middle, "bold halo", &spec.name);
    }
    svg.finish()
}

/// A link in a few words.
fn about(link: &LinkSpec) -> String {
    let mut parts = vec![units::duration_text(link.latency_ms)];
    if link.loss_ppm > 0 || link.burst.is_some() {
        let bursts = if link.burst.is_some() { " + bursts" } else { "" };
        parts.push(format!("{} % lost{bursts}", number(f64::from(link.loss_ppm) / 10_000.0)));
    }
    parts.extend(link.rate.map(units::rate_text));
    parts.join(", ")
}

/// Whether some cut lies between nodes of two sites.
fn is_cut(scenario: &Scenario, a: usize, b: usize) -> bool {
    let (a, b) = (scenario.nodes_of(a), scenario.nodes_of(b));
    scenario.faults.iter().any(|fault| match &fault.kind {
        FaultKind::DropPartition { groups }
        | FaultKind::HoldPartition { groups }
        | FaultKind::Flapping { groups, .. }
        | FaultKind::Bridge { groups, .. } => {
            let of = |nodes: &std::ops::Range<usize>| {
                groups.iter().position(|group| group.iter().any(|node| nodes.contains(node)))
            };
            matches!((of(&a), of(&b)), (Some(x), Some(y)) if x != y)
        }
        FaultKind::OneWay { from, to } => {
            let any = |nodes: &[usize], of: &std::ops::Range<usize>| nodes.iter().any(|node| of.contains(node));
            any(from, &a) && any(to, &b) || any(from, &b) && any(to, &a)
        }
        _ => false,
    })
}
