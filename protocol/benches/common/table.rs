// Part of benchmarks: figures with their targets, as a table and as JSON.

use std::{fmt::Write as _, fs, path::PathBuf};

/// One figure that was measured.
pub struct Figure {
    pub figure: String,
    /// On what it was measured.
    pub setting: String,
    pub value: f64,
    pub unit: &'static str,
    /// It must not be more than this.
    pub target: f64,
    /// What it was compared with in the same run, and what that took.
    pub peer: Option<(&'static str, f64)>,
}

impl Figure {
    fn ok(&self) -> bool {
        self.value <= self.target
    }
}

/// Prints the figures and writes them to `target/figures/NAME.json`. Gives how many missed their target.
pub fn report(name: &str, figures: &[Figure]) -> usize {
    println!("\n| figure | setting | measured | target | | beside it |\n| --- | --- | --- | --- | --- | --- |");
    let mut json = String::from("[");
    for figure in figures {
        let Figure { figure: what, setting, value, unit, target, peer } = figure;
        let mark = if figure.ok() { "ok" } else { "MISS" };
        let beside = peer.map_or(String::new(), |(peer, theirs)| format!("{peer}: {} {unit}", number(theirs)));
        println!("| {what} | {setting} | {} {unit} | ≤ {} | {mark} | {beside} |", number(*value), number(*target));
        let comma = if json.len() > 1 { "," } else { "" };
        let (peer, theirs, ratio) = peer.map_or(("null".into(), "null".into(), "null".into()), |(peer, theirs)| {
            (format!("\"{peer}\""), theirs.to_string(), (value / theirs).to_string())
        });
        // Nothing in the words needs escaping but quotes, of which there are none.
        let _ = write!(
            json,
            "{comma}\n  {{\"figure\": \"{what}\", \"value\": {value}, \"unit\": \"{unit}\", \"peer\": {peer}, \"peer_value\": \
             {theirs}, \"ratio\": {ratio}, \"setting\": \"{setting}\", \"target\": {target}, \"ok\": {}}}",
            figure.ok(),
        );
    }
    json.push_str("\n]\n");
    let directory = target_directory().join("figures");
    let path = directory.join(format!("{name}.json"));
    match fs::create_dir_all(&directory).and_then(|()| fs::write(&path, json)) {
        Ok(()) => println!("\nwritten to target/figures/{name}.json"),
        Err(error) => println!("\nthe figures could not be written: {error}"),
    }
    figures.iter().filter(|figure| !figure.ok()).count()
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value}") } else { format!("{value:.3}") }
}

fn target_directory() -> PathBuf {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target");
    std::env::var_os("CARGO_TARGET_DIR").map_or(beside, PathBuf::from)
}
