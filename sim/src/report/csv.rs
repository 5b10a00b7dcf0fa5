//! CSV files (RFC 4180): every run, every mean, every curve; one value a line, as plotting programs like it.

use std::fmt::Write;

use crate::{measure::figures, results::Results};

/// A field; quoted where it must be.
fn field(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.into() }
}

pub(super) fn runs(results: &Results) -> String {
    let mut csv = String::from("arm,seed,figure,value\n");
    for row in &results.rows {
        for (name, value) in &row.figures {
            let _ = writeln!(csv, "{},{},{},{value}", row.arm.name(), row.seed, field(name));
        }
    }
    csv
}

pub(super) fn summary(results: &Results) -> String {
    let mut csv = String::from("figure,arm,mean,low,high,sd,seeds,unit,meaning\n");
    for (arm, means) in &results.means {
        for (name, i) in means {
            let figure = figures::find(name);
            let (unit, about) =
                figure.map_or_else(Default::default, |f| (format!("{:?}", f.unit).to_lowercase(), f.about));
            let (name, arm, about) = (field(name), arm.name(), field(about));
            let _ = writeln!(csv, "{name},{arm},{},{},{},{},{},{unit},{about}", i.mean, i.low, i.high, i.sd, i.n);
        }
    }
    csv
}

pub(super) fn curves(results: &Results) -> String {
    let mut csv = String::from("curve,arm,seconds,mean,low,high\n");
    let text = |value: &Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    for (arm, bands) in &results.bands {
        for (name, band) in bands {
            for (n, at) in band.at_ms.iter().enumerate() {
                let [mean, low, high] = [&band.mean, &band.low, &band.high].map(|values| values.get(n).map(text));
                let (Some(mean), Some(low), Some(high)) = (mean, low, high) else { continue };
                let _ = writeln!(csv, "{name},{},{},{mean},{low},{high}", arm.name(), *at as f64 / 1000.0);
            }
        }
    }
    csv
}
