//! The page: everything about an experiment in one file, with no script and nothing fetched from elsewhere.

use std::fmt::Write;

use super::{
    number,
    plot::{Chart, TimeAxis},
    site_map, space_time,
    svg::{STYLE, escaped},
    timeline,
};
use crate::{
    measure::{
        figures::{self, Better, Unit},
        stats::Interval,
        summary::{self, Band},
    },
    results::Results,
    scenario::{Arm, Scenario},
};

const WIDTH: f64 = 920.0;
/// Figures at the top of the page.
const HEADLINES: [&str; 6] = [
    "repeat_failure_rate.during",
    "repeat_failure_rate.after",
    "converge.all_s",
    "staleness.p95_s",
    "bytes_per_delivery",
    "recall_at_1",
];

/// A plot with the name of its file, without the end.
pub(super) struct Plot {
    pub file: &'static str,
    pub svg: String,
}

/// All plots that these results have something for.
pub(super) fn plots(results: &Results, scenario: &Scenario) -> Vec<Plot> {
    let end_ms = scenario.run.duration_ms + scenario.run.settle_ms;
    let shaded = timeline::cut_spans(scenario, end_ms);
    let lines = |name: &str| -> Vec<(Arm, &Band)> {
        let of = |(arm, bands): (&Arm, &'_ std::collections::BTreeMap<String, Band>)| -> Option<Arm> {
            bands.get(name).map(|_| *arm)
        };
        let arms: Vec<Arm> = results.bands.iter().filter_map(of).collect();
        arms.into_iter().filter_map(|arm| Some((arm, results.bands.get(&arm)?.get(name)?))).collect()
    };
    let mut plots = vec![Plot { file: "site-map", svg: site_map::picture(scenario, WIDTH) }];
    let chart = Chart {
        title: "Repeat failures over time, and what was wrong when",
        y: "repeat failure rate",
        x: "time in the run",
        time: timeline::whole(scenario.run.duration_ms),
        most: Some(1.0),
        lines: lines("repeat_failure_rate"),
        shaded: shaded.clone(),
    };
    if !chart.lines.is_empty() {
        let svg = timeline::picture(&chart, scenario, scenario.run.duration_ms, WIDTH);
        plots.push(Plot { file: "timeline", svg });
    }
    let sums = Chart {
        title: "Repeat failures so far",
        y: "repeat failures",
        most: None,
        lines: lines("repeat_failures_so_far"),
        ..chart
    };
    if !sums.lines.is_empty() {
        plots.push(Plot { file: "repeat-failures", svg: sums.picture(WIDTH, 340.0) });
    }
    let made_up = lines("made_up");
    if !made_up.is_empty() {
        let (from, to) = shown_of(&made_up);
        let chart = Chart {
            title: "Convergence after the heal: of what nodes lacked, what they have",
            y: "share made up",
            x: "time since the heal",
            time: TimeAxis::Ratios(from, to),
            most: Some(1.0),
            lines: made_up,
            shaded: Vec::new(),
        };
        plots.push(Plot { file: "convergence", svg: chart.picture(WIDTH, 340.0) });
    }
    let held = lines("held_share");
    if !held.is_empty() {
        let chart = Chart {
            title: "Of all lessons and nodes, the share that is where it could be",
            y: "share held",
            x: "time in the run",
            time: timeline::whole(end_ms),
            most: Some(1.0),
            lines: held,
            shaded,
        };
        plots.push(Plot { file: "held-share", svg: chart.picture(WIDTH, 340.0) });
    }
    let path = space_time::picture(&results.paths, scenario, scenario.run.duration_ms, WIDTH);
    plots.extend(path.map(|svg| Plot { file: "space-time", svg }));
    plots
}

/// From when to when curves after the heal have something to show, milliseconds: until twice the time by which the last of
/// them is at its end.
fn shown_of(lines: &[(Arm, &Band)]) -> (f64, f64) {
    let settled = |band: &Band| {
        let last = band.mean.iter().rev().flatten().next().copied()?;
        let at = band.mean.iter().rposition(|mean| mean.is_some_and(|mean| (mean - last).abs() > 1e-9))?;
        band.at_ms.get(at + 1).or_else(|| band.at_ms.last()).copied()
    };
    let to = lines.iter().filter_map(|(_, band)| settled(band)).max().unwrap_or(60_000) as f64 * 2.0;
    let first = lines.iter().filter_map(|(_, band)| band.at_ms.first()).min().copied().unwrap_or(100) as f64;
    (first, to.max(first * 100.0))
}

const PAGE_STYLE: &str = "
*{box-sizing:border-box}body{margin:0 auto;max-width:980px;padding:28px 24px 60px;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}
h1{font-size:26px;margin:0 0 4px}h2{font-size:18px;margin:36px 0 8px}.soft{color:var(--soft)}
.verdicts{list-style:none;padding:0;margin:16px 0}.verdicts li{padding:8px 12px;border-left:4px solid;margin:6px 0;background:var(--grid)}
.verdicts .holds{border-color:var(--oracle)}.verdicts .fails{border-color:var(--isolated)}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(270px,1fr));gap:12px}
.card{border:1px solid var(--grid);border-radius:8px;padding:12px 14px}.card h3{margin:0;font-size:14px}
.card p{margin:2px 0 8px;font-size:12px;color:var(--soft)}.card table{width:100%}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}td,th{padding:3px 10px 3px 0;text-align:right;font-size:13px;white-space:nowrap}
td:first-child,th:first-child{text-align:left}tr.line td,tr.line th{border-top:1px solid var(--grid)}
.interval{color:var(--soft);font-size:12px}.scroll{overflow-x:auto}figure{margin:18px 0;overflow-x:auto}figure svg{max-width:100%;height:auto}
pre{background:var(--grid);padding:12px;border-radius:8px;overflow-x:auto;font-size:12.5px}summary{cursor:pointer;margin:8px 0}
.arm-isolated{color:var(--isolated)}.arm-central{color:var(--central)}.arm-folklore{color:var(--folklore)}.arm-oracle{color:var(--oracle)}.arm-real{color:var(--real)}
code{font-family:ui-monospace,'DejaVu Sans Mono',monospace}
@media print{body{max-width:none}details{display:none}}
";

/// The page.
pub(super) fn page(results: &Results, scenario: &Scenario, plots: &[Plot]) -> String {
    let mut html = String::new();
    let name = escaped(&results.scenario);
    let _ = write!(
        html,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{name} · Folklore</title>\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\n<style>{STYLE}{PAGE_STYLE}</style></head><body>\n\
         <h1>{name}</h1>\n<p>{}</p>\n<p class=\"soft\">{} · {} nodes at {} sites · {} of work · {} of {} seeds · {}</p>\n",
        escaped(&results.about),
        escaped(&results.program),
        scenario.nodes(),
        scenario.sites.len(),
        crate::scenario::units::duration_text(scenario.run.duration_ms),
        results.seeds.len(),
        results.seeds_asked,
        results.arms.iter().map(|arm| arm.name()).collect::<Vec<_>>().join(", "),
    );
    html.push_str("<ul class=\"verdicts\">\n");
    for verdict in &results.verdicts {
        let (class, sign) = if verdict.holds { ("holds", "✓") } else { ("fails", "✗") };
        let (expected, found) = (escaped(&verdict.expected), escaped(&verdict.found));
        let _ = writeln!(html, "<li class=\"{class}\">{sign} {expected}: <span class=\"soft\">{found}</span></li>");
    }
    html.push_str("</ul>\n<div class=\"cards\">\n");
    HEADLINES.iter().for_each(|name| card(&mut html, results, name));
    html.push_str("</div>\n");
    for plot in plots {
        let _ = writeln!(html, "<figure id=\"{}\">{}</figure>", plot.file, plot.svg);
    }
    html.push_str(
        "<p class=\"soft\">Lines are means over the seeds, bands and brackets 95 % intervals (Student's t). All arms of a seed \
         see the same tasks and the same faults, so differences between arms are paired.</p>\n",
    );
    for (name, simulated, real, ratio) in results.real_against_simulated() {
        let (simulated, real) = (value(name, simulated), value(name, real));
        let ratio = ratio.map_or("–".into(), |ratio| with_interval("", &ratio));
        let _ = writeln!(
            html,
            "<p>On real processes, over emulated links (dashed): <code>{name}</code> {real}, simulated {simulated}, ratio {ratio}.</p>"
        );
    }
    table(&mut html, results);
    differences(&mut html, results);
    runs(&mut html, results);
    let _ = write!(
        html,
        "<h2>The scenario</h2>\n<p>Run it again with <code>folklore-sim run scenario.toml</code>; the same program and file give \
         the same digests.</p>\n<pre>{}</pre>\n</body></html>\n",
        escaped(&results.file)
    );
    html
}

/// A value with its unit.
fn value(name: &str, value: f64) -> String {
    match figures::find(name).map(|figure| figure.unit) {
        Some(Unit::Share) => format!("{} %", number(100.0 * value)),
        Some(Unit::Seconds) => format!("{} s", number(value)),
        Some(Unit::Bytes) if value.abs() >= 1_048_576.0 => format!("{} MiB", number(value / 1_048_576.0)),
        Some(Unit::Bytes) if value.abs() >= 4_096.0 => format!("{} KiB", number(value / 1_024.0)),
        Some(Unit::Bytes) => format!("{} B", number(value)),
        _ => number(value),
    }
}

fn with_interval(name: &str, i: &Interval) -> String {
    let mean = value(name, i.mean);
    if i.n < 2 {
        return mean;
    }
    format!("{mean} <span class=\"interval\">[{}, {}]</span>", value(name, i.low), value(name, i.high))
}

fn card(html: &mut String, results: &Results, name: &str) {
    let means: Vec<(Arm, &Interval)> =
        results.arms.iter().filter_map(|arm| Some((*arm, results.mean(*arm, name)?))).collect();
    let (Some(figure), false) = (figures::find(name), means.is_empty()) else { return };
    let about = escaped(&crate::report::compare::sentence(figure));
    let _ = write!(html, "<div class=\"card\"><h3>{name}</h3><p>{about}</p><table>");
    for (arm, interval) in means {
        let (class, cell) = (arm.name(), with_interval(name, interval));
        let _ = write!(html, "<tr><td class=\"arm-{class}\">{class}</td><td>{cell}</td></tr>");
    }
    html.push_str("</table></div>\n");
}

fn table(html: &mut String, results: &Results) {
    html.push_str("<h2>Figures</h2>\n<div class=\"scroll\"><table><tr><th>figure</th>");
    for arm in &results.arms {
        let _ = write!(html, "<th class=\"arm-{0}\">{0}</th>", arm.name());
    }
    html.push_str("</tr>\n");
    for name in summary::names(&results.rows) {
        let about = figures::find(&name).map_or("", |figure| figure.about);
        let _ = write!(html, "<tr class=\"line\"><td title=\"{}\">{}</td>", escaped(about), escaped(&name));
        for arm in &results.arms {
            let cell = results.mean(*arm, &name).map_or_else(|| "–".into(), |i| with_interval(&name, i));
            let _ = write!(html, "<td>{cell}</td>");
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</table></div>\n");
}

/// Folklore against the other arms, seed by seed.
fn differences(html: &mut String, results: &Results) {
    let others: Vec<Arm> = results.arms.iter().copied().filter(|arm| *arm != Arm::Folklore).collect();
    if others.is_empty() || !results.arms.contains(&Arm::Folklore) {
        return;
    }
    html.push_str(
        "<h2>Folklore against the other arms, seed by seed</h2>\n<div class=\"scroll\"><table><tr><th>figure</th>",
    );
    for arm in &others {
        let _ = write!(html, "<th>less {0}</th><th>over {0}</th>", arm.name());
    }
    html.push_str("</tr>\n");
    let compared = |name: &String| figures::find(name).is_some_and(|figure| figure.better != Better::Neither);
    for name in results.names().iter().filter(|name| compared(name)) {
        let cells: Vec<String> = others
            .iter()
            .flat_map(|arm| {
                let pairs = summary::pairs(&results.rows, name, Arm::Folklore, *arm);
                let difference = Interval::of_differences(&pairs).map(|i| with_interval(name, &i));
                let ratio = Interval::of_ratio(&pairs).map(|i| with_interval("", &i));
                [difference, ratio]
            })
            .map(|cell| cell.unwrap_or_else(|| "–".into()))
            .collect();
        if cells.iter().any(|cell| cell != "–") {
            let _ = writeln!(html, "<tr class=\"line\"><td>{name}</td><td>{}</td></tr>", cells.join("</td><td>"));
        }
    }
    html.push_str("</table></div>\n");
}

fn runs(html: &mut String, results: &Results) {
    html.push_str("<details><summary>Every run</summary><div class=\"scroll\"><table>");
    html.push_str("<tr><th>seed</th><th>arm</th><th>handled</th><th>digest</th><th>checks</th></tr>\n");
    for row in &results.rows {
        let checks = if row.violations.is_empty() { "hold".into() } else { escaped(&row.violations.join("; ")) };
        let (seed, arm, handled, digest) = (row.seed, row.arm.name(), row.handled, escaped(&row.digest));
        let _ = writeln!(
            html,
            "<tr class=\"line\"><td>{seed}</td><td>{arm}</td><td>{handled}</td><td><code>{digest}</code></td><td>{checks}</td></tr>"
        );
    }
    html.push_str("</table></div></details>\n");
}
