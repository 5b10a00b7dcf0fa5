//! The figures of reconcile and announce that need more than two sets of ids: bodies, cuts, meshes and fleets, on virtual time.
//!
//! `cargo bench -p folklore-sim --bench harness`
//!
//! With `-p folklore-protocol --bench reconcile` in the same command the whole table is printed.
#![allow(missing_docs, reason = "a benchmark")]

#[path = "../tests/figures/mod.rs"]
mod figures;

use folklore_tests::figures::{Figure, Report};

fn main() {
    let mut report = Report::new("harness");
    let mut add = |figure: &str, setting: &str, value: f64, unit: &str, target| {
        report.add(Figure::new(figure, value, unit).on(setting).at_most(target));
    };
    let mesh = "mesh of 30, 200 records one by one, 3 seeds";
    add(
        "bodies fetched as well",
        "d = 1,000 of 3,000, even",
        figures::catch_up_with_bodies(),
        "× their own bytes",
        1.12,
    );
    add("catch-up with 100 cuts", "10,000 records", figures::catch_up_with_cuts(), "× uncut", 1.15);
    add("body copies received, no loss", mesh, figures::copies(0), "a node", 1.1);
    add("body copies received, 10 % loss", mesh, figures::copies(100_000), "a node", 1.3);
    let worst = figures::quiet().last().copied().unwrap_or_default() as f64;
    add(
        "quiet until equal roots",
        "20 nodes, restarts and cuts for 10 minutes, worst of 50 seeds",
        worst / 1e3,
        "s",
        30.0,
    );
    report.finish().expect("the figures are written");
}
