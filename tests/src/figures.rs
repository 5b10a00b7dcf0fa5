//! Figures of benchmarks: what was measured, on what, beside what, and whether that is good enough.
//!
//! A benchmark makes one [`Report`], adds a [`Figure`] for everything that it measured, and ends with [`Report::finish`], which
//! prints the table and writes `target/figures/NAME.json`: a list of
//! `{figure, value, unit, peer, peer_value, ratio, setting, target, ok}`, where `ratio` is the value over the peer's.
//! `cargo figures` runs all benchmarks and gathers these files into `FIGURES.md`.

use std::{fs, io, path::PathBuf};

use serde_json::{Value, json};

/// What a figure has to be.
#[derive(Debug, Clone, PartialEq)]
enum Target {
    ValueAtMost(f64),
    ValueAtLeast(f64),
    RatioAtMost(f64),
    RatioAtLeast(f64),
    /// What it is in words, and whether it holds.
    Judged(String, bool),
}

/// One figure that was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    figure: String,
    value: f64,
    unit: String,
    setting: String,
    peer: Option<(String, f64)>,
    target: Option<Target>,
}

impl Figure {
    /// A value in a unit, with nothing to compare it with yet.
    pub fn new(figure: impl Into<String>, value: f64, unit: impl Into<String>) -> Self {
        let (figure, unit) = (figure.into(), unit.into());
        Self { figure, value, unit, setting: String::new(), peer: None, target: None }
    }

    /// On what it was measured: sizes, counts, threads.
    #[must_use]
    pub fn on(self, setting: impl Into<String>) -> Self {
        Self { setting: setting.into(), ..self }
    }

    /// What something else took for the same in the same run, in the same unit.
    #[must_use]
    pub fn beside(self, peer: impl Into<String>, value: f64) -> Self {
        Self { peer: Some((peer.into(), value)), ..self }
    }

    /// The value must not be more.
    #[must_use]
    pub fn at_most(self, value: f64) -> Self {
        Self { target: Some(Target::ValueAtMost(value)), ..self }
    }

    /// The value must not be less.
    #[must_use]
    pub fn at_least(self, value: f64) -> Self {
        Self { target: Some(Target::ValueAtLeast(value)), ..self }
    }

    /// The value must not be more than this many times the peer's.
    #[must_use]
    pub fn ratio_at_most(self, ratio: f64) -> Self {
        Self { target: Some(Target::RatioAtMost(ratio)), ..self }
    }

    /// The value must be at least this many times the peer's.
    #[must_use]
    pub fn ratio_at_least(self, ratio: f64) -> Self {
        Self { target: Some(Target::RatioAtLeast(ratio)), ..self }
    }

    /// A target that takes more than this value to judge: what it is, and whether it holds.
    #[must_use]
    pub fn judged(self, target: impl Into<String>, ok: bool) -> Self {
        Self { target: Some(Target::Judged(target.into(), ok)), ..self }
    }

    /// The value over the peer's; `None` without a peer.
    pub fn ratio(&self) -> Option<f64> {
        self.peer.as_ref().map(|(_, theirs)| self.value / theirs)
    }

    /// Whether the target holds; `None` without one. A ratio to no peer, and what is not a number, holds nothing.
    pub fn ok(&self) -> Option<bool> {
        let ratio = self.ratio().unwrap_or(f64::NAN);
        self.target.as_ref().map(|target| match target {
            Target::ValueAtMost(bound) => self.value <= *bound,
            Target::ValueAtLeast(bound) => self.value >= *bound,
            Target::RatioAtMost(bound) => ratio <= *bound,
            Target::RatioAtLeast(bound) => ratio >= *bound,
            Target::Judged(_, ok) => *ok,
        })
    }

    fn target(&self) -> String {
        match &self.target {
            None => String::new(),
            Some(Target::ValueAtMost(bound)) => format!("≤ {}", number(*bound)),
            Some(Target::ValueAtLeast(bound)) => format!("≥ {}", number(*bound)),
            Some(Target::RatioAtMost(bound)) => format!("≤ {} ×", number(*bound)),
            Some(Target::RatioAtLeast(bound)) => format!("≥ {} ×", number(*bound)),
            Some(Target::Judged(words, _)) => words.clone(),
        }
    }

    fn json(&self) -> Value {
        let (peer, peer_value) = self.peer.clone().unzip();
        let (ratio, ok) = (self.ratio(), self.ok());
        let target = self.target.as_ref().map(|_| self.target());
        let Self { figure, value, unit, setting, .. } = self;
        json!({
            "figure": figure, "value": value, "unit": unit, "peer": peer, "peer_value": peer_value, "ratio": ratio,
            "setting": setting, "target": target, "ok": ok,
        })
    }
}

/// The figures of one benchmark.
#[derive(Debug)]
pub struct Report {
    name: String,
    figures: Vec<Figure>,
}

impl Report {
    /// The report of a benchmark; its name is that of the file.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), figures: Vec::new() }
    }

    /// Adds a figure and says it, so that a long benchmark shows what it has found so far.
    pub fn add(&mut self, figure: Figure) {
        let verdict = figure.ok().map_or("", verdict);
        let ratio = figure.ratio().map_or(String::new(), |ratio| format!(" ({} ×)", number(ratio)));
        let Figure { figure: what, value, unit, setting, .. } = &figure;
        eprintln!("{what}: {} {unit}{ratio} {} {verdict} [{setting}]", number(*value), figure.target());
        self.figures.push(figure);
    }

    /// Prints the table and writes the file. Gives how many figures missed their target.
    ///
    /// # Errors
    ///
    /// The directory cannot be made or the file not be written.
    pub fn finish(self) -> io::Result<usize> {
        let figures: Vec<Value> = self.figures.iter().map(Figure::json).collect();
        println!("\n{}", table(&figures));
        let directory = directory();
        fs::create_dir_all(&directory)?;
        fs::write(directory.join(format!("{}.json", self.name)), serde_json::to_vec_pretty(&figures)?)?;
        let missed = self.figures.iter().filter(|figure| figure.ok() == Some(false)).count();
        println!("{missed} figures miss their target; written to target/figures/{}.json", self.name);
        Ok(missed)
    }
}

/// Where the files of the figures are.
pub fn directory() -> PathBuf {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target");
    std::env::var_os("CARGO_TARGET_DIR").map_or(beside, PathBuf::from).join("figures")
}

/// Figures, as [`Report::finish`] writes them, as a table in Markdown.
pub fn table(figures: &[Value]) -> String {
    let mut lines = vec![
        "| figure | setting | measured | target | | beside it | ratio |".to_owned(),
        "| --- | --- | --- | --- | --- | --- | --- |".to_owned(),
    ];
    for figure in figures {
        let text = |name: &str| figure[name].as_str().unwrap_or_default().replace('|', "\\|");
        let value = |name: &str| figure[name].as_f64().map_or(String::new(), number);
        let unit = text("unit");
        let beside = figure["peer"]
            .as_str()
            .map_or(String::new(), |_| format!("{}: {} {unit}", text("peer"), value("peer_value")));
        let ok = figure["ok"].as_bool().map_or("", verdict);
        lines.push(format!(
            "| {} | {} | {} {unit} | {} | {ok} | {beside} | {} |",
            text("figure"),
            text("setting"),
            value("value"),
            text("target"),
            value("ratio"),
        ));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn verdict(ok: bool) -> &'static str {
    if ok { "ok" } else { "**miss**" }
}

/// Three figures that count: what is measured here is not known better.
fn number(value: f64) -> String {
    if value.fract() == 0.0 || value.abs() >= 1000.0 {
        return grouped(value);
    }
    let decimals = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        size if size >= 0.1 => 3,
        _ => 4,
    };
    format!("{value:.decimals$}")
}

/// A whole number with its thousands set apart.
fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut out = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if value < 0.0 { format!("-{out}") } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_holds_only_what_it_was_measured_against() {
        assert_eq!(Figure::new("f", 3.0, "B").ok(), None);
        assert_eq!(Figure::new("f", 3.0, "B").at_most(3.0).ok(), Some(true));
        assert_eq!(Figure::new("f", 3.0, "B").at_least(3.5).ok(), Some(false));
        assert_eq!(Figure::new("f", 3.0, "B").ratio_at_most(9.0).ok(), Some(false), "there is no peer");
        assert_eq!(Figure::new("f", 3.0, "B").beside("p", 2.0).ratio_at_most(1.5).ok(), Some(true));
        assert_eq!(Figure::new("f", f64::NAN, "B").at_most(1.0).ok(), Some(false));
    }

    #[test]
    fn the_table_shows_every_figure_with_its_peer_and_verdict() {
        let figures = [
            Figure::new("rate", 28_500.4, "/s").on("two cores").beside("a|b", 46_100.0).ratio_at_least(0.7).json(),
            Figure::new("size", 0.0312, "ms").at_most(2.0).json(),
        ];
        let table = table(&figures);
        assert!(
            table.contains("| rate | two cores | 28,500 /s | ≥ 0.700 × | **miss** | a\\|b: 46,100 /s | 0.618 |"),
            "{table}"
        );
        assert!(table.contains("| size |  | 0.0312 ms | ≤ 2 | ok |  |  |"), "{table}");
    }
}
