//! Line charts: one line with its band for each arm, named at its end.

use super::{
    number,
    scale::{Scale, log_time_ticks, ticks, time_ticks},
    svg::{Anchor, Svg, arm_class},
};
use crate::{measure::summary::Band, scenario::Arm};

/// Room around the lines: for labels on the left, names on the right.
pub(super) const LEFT: f64 = 64.0;
pub(super) const RIGHT: f64 = 96.0;
const BOTTOM: f64 = 44.0;
/// Names of lines are at least so far apart.
const NAME_STEP: f64 = 15.0;

/// How time runs along a chart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum TimeAxis {
    /// Evenly from nothing to here, milliseconds.
    Even(u64),
    /// In even ratios between these, milliseconds.
    Ratios(f64, f64),
}

/// A chart.
pub(super) struct Chart<'a> {
    pub title: &'a str,
    pub y: &'a str,
    pub x: &'a str,
    pub time: TimeAxis,
    /// The upper end, where it is known beforehand.
    pub most: Option<f64>,
    pub lines: Vec<(Arm, &'a Band)>,
    /// Stretches of time to be shaded, milliseconds.
    pub shaded: Vec<(u64, u64)>,
}

impl Chart<'_> {
    /// As a picture of its own.
    pub(super) fn picture(&self, width: f64, height: f64) -> String {
        let mut svg = Svg::new(width, height, self.title);
        self.draw(&mut svg, 40.0, width, height);
        svg.text((16.0, 22.0), Anchor::Start, "bold", self.title);
        svg.finish()
    }

    /// Into a picture, between `top` and `height`.
    pub(super) fn draw(&self, svg: &mut Svg, top: f64, width: f64, height: f64) {
        let (left, right, bottom) = (LEFT, width - RIGHT, height - BOTTOM);
        let highest = || {
            let all = self.lines.iter().flat_map(|(_, band)| band.mean.iter().chain(&band.high)).flatten();
            all.copied().fold(0.0, f64::max)
        };
        let y_ticks = ticks(self.most.unwrap_or_else(highest));
        let y = Scale::linear((0.0, y_ticks[y_ticks.len() - 1]), (bottom, top));
        let x = self.x_scale(left, right);
        for (from, to) in &self.shaded {
            let (a, b) = (x.at(*from as f64), x.at(*to as f64));
            svg.rect((a, top), (b - a, bottom - top), "cut", "links are cut");
        }
        for tick in &y_ticks {
            svg.line((left, y.at(*tick)), (right, y.at(*tick)), "grid");
            svg.text((left - 8.0, y.at(*tick) + 4.0), Anchor::End, "soft small", &number(*tick));
        }
        let x_ticks = match self.time {
            TimeAxis::Even(to) => time_ticks(to, 9),
            TimeAxis::Ratios(from, to) => log_time_ticks(from, to),
        };
        for (at, label) in x_ticks {
            svg.line((x.at(at), bottom), (x.at(at), bottom + 5.0), "axis");
            svg.text((x.at(at), bottom + 18.0), Anchor::Middle, "soft small", &label);
        }
        svg.line((left, bottom), (right, bottom), "axis");
        svg.text(((left + right) / 2.0, bottom + 36.0), Anchor::Middle, "soft small", self.x);
        svg.upward((16.0, (top + bottom) / 2.0), "soft small", self.y);
        for (arm, band) in &self.lines {
            bands(band, &x, &y).iter().for_each(|area| svg.area(area, &format!("{}-band", arm_class(*arm))));
        }
        let mut names: Vec<(f64, Arm)> = Vec::new();
        for (arm, band) in &self.lines {
            let runs = lines(band, &x, &y);
            for run in &runs {
                match run.as_slice() {
                    [only] => svg.circle(*only, 2.0, arm_class(*arm), ""),
                    many => svg.path(many, arm_class(*arm)),
                }
            }
            names.extend(runs.last().and_then(|run| run.last()).map(|(_, end)| (*end, *arm)));
        }
        for (at, arm) in apart(names, top, bottom) {
            svg.text((right + 8.0, at + 4.0), Anchor::Start, &format!("{}-text bold", arm_class(arm)), arm.name());
        }
    }

    fn x_scale(&self, left: f64, right: f64) -> Scale {
        match self.time {
            TimeAxis::Even(to) => Scale::linear((0.0, to as f64), (left, right)),
            TimeAxis::Ratios(from, to) => Scale::log((from, to), (left, right)),
        }
    }
}

/// Runs of points that have a value.
fn lines(band: &Band, x: &Scale, y: &Scale) -> Vec<Vec<(f64, f64)>> {
    let mut runs = vec![Vec::new()];
    for (at, mean) in band.at_ms.iter().zip(&band.mean) {
        match (mean, runs.last_mut()) {
            (Some(mean), Some(run)) => run.push((x.at(*at as f64), y.at(*mean))),
            _ => runs.push(Vec::new()),
        }
    }
    runs.retain(|run| !run.is_empty());
    runs
}

/// The areas between the ends of the intervals.
fn bands(band: &Band, x: &Scale, y: &Scale) -> Vec<Vec<(f64, f64)>> {
    let end = |values: &[Option<f64>]| {
        lines(&Band { at_ms: band.at_ms.clone(), mean: values.to_vec(), ..Band::default() }, x, y)
    };
    let (low, high) = (end(&band.low), end(&band.high));
    low.into_iter().zip(high).map(|(low, high)| low.into_iter().chain(high.into_iter().rev()).collect()).collect()
}

/// Moves names that would lie upon each other apart.
fn apart(mut names: Vec<(f64, Arm)>, top: f64, bottom: f64) -> Vec<(f64, Arm)> {
    names.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut least = top;
    for (at, _) in &mut names {
        *at = at.max(least);
        least = *at + NAME_STEP;
    }
    // What was pushed out at the bottom comes up again.
    let mut most = bottom;
    for (at, _) in names.iter_mut().rev() {
        *at = at.min(most);
        most = *at - NAME_STEP;
    }
    names
}
