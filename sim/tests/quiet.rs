//! Twenty nodes, restarts and cuts at random, then quiet: how long until all hold the same.

mod figures;

#[test]
fn after_restarts_and_cuts_all_roots_are_equal_within_thirty_seconds_of_quiet() {
    let took = figures::quiet();
    assert!(took.last().is_some_and(|ms| *ms <= 30_000), "{took:?}");
}
