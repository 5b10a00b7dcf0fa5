//! Reports: a directory with `results.json`, CSV files, SVG plots and one HTML page that needs nothing beside it.

pub mod compare;
mod csv;
mod html;
mod plot;
mod scale;
mod site_map;
mod space_time;
mod svg;
pub mod terminal;
mod timeline;

use std::{io, path::Path};

use crate::{results::Results, scenario::Scenario};

/// Writes everything about an experiment into a directory, which is made if it is not there.
pub fn write(directory: &Path, results: &Results, scenario: &Scenario) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    let put = |name: &str, text: &str| std::fs::write(directory.join(name), text);
    let json = serde_json::to_string(results).map_err(io::Error::other)?;
    put("results.json", &json)?;
    put("scenario.toml", &results.file)?;
    put("runs.csv", &csv::runs(results))?;
    put("summary.csv", &csv::summary(results))?;
    put("curves.csv", &csv::curves(results))?;
    let plots = html::plots(results, scenario);
    for plot in &plots {
        put(&format!("{}.svg", plot.file), &svg::standalone(&plot.svg))?;
    }
    put("report.html", &html::page(results, scenario, &plots))
}

/// A number as people read it: four significant digits, no more than needed.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    let size = value.abs();
    let decimals = match size {
        s if s >= 1000.0 || s == 0.0 => 0,
        s if s >= 100.0 => 1,
        s if s >= 10.0 => 2,
        s if s >= 0.1 => 3,
        s if s >= 0.001 => 5,
        _ => return format!("{value:.2e}"),
    };
    let text = format!("{value:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if size < 10_000.0 { text.into() } else { grouped(text) }
}

/// Digits in threes.
fn grouped(text: &str) -> String {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    let mut out = String::from(sign);
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_grouped() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (0.25, "0.25"),
            (0.12345, "0.123"),
            (12.3456, "12.35"),
            (1234.6, "1235"),
            (1_234_567.0, "1,234,567"),
            (-98_765.0, "-98,765"),
            (0.00012, "1.20e-4"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
