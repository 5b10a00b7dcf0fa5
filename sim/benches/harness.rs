//! The figures of reconcile and announce that need more than two sets of ids: bodies, cuts, meshes and fleets, on virtual time.
//!
//! `cargo bench -p folklore-sim --bench harness`
//!
//! With `-p folklore-protocol --bench reconcile` in the same command the whole table is printed.
#![allow(missing_docs, reason = "a benchmark")]

#[path = "../tests/figures/mod.rs"]
mod figures;
#[path = "../../protocol/benches/common/table.rs"]
mod table;

use table::Figure;

fn main() {
    let figure = |figure: &str, setting: &str, value: f64, unit, target| Figure {
        figure: figure.into(),
        setting: setting.into(),
        value,
        unit,
        target,
        peer: None,
    };
    let mesh = "mesh of 30, 200 records one by one, 3 seeds";
    let took = figures::quiet();
    let worst = took.last().copied().unwrap_or_default() as f64;
    let all = [
        figure(
            "bodies fetched as well",
            "d = 1,000 of 3,000, even",
            figures::catch_up_with_bodies(),
            "× their own bytes",
            1.12,
        ),
        figure("catch-up with 100 cuts", "10,000 records", figures::catch_up_with_cuts(), "× uncut", 1.15),
        figure("body copies received, no loss", mesh, figures::copies(0), "a node", 1.1),
        figure("body copies received, 10 % loss", mesh, figures::copies(100_000), "a node", 1.3),
        figure(
            "quiet until equal roots",
            "20 nodes, restarts and cuts for 10 minutes, worst of 50 seeds",
            worst / 1e3,
            "s",
            30.0,
        ),
    ];
    table::report("harness", &all);
}
