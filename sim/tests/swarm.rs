//! The swarm and shrinking on the real engine: what is shipped holds under schedules nobody wrote, and a bug that is planted
//! is found and made small.

use folklore_sim::{
    Plant,
    checks::HELD_IS_DURABLE,
    experiment::{NOTHING_FORGED, ROOTS_ARE_EQUAL},
    runner,
    scenario::Scenario,
    shrink::{MAX_RUNS, shrink},
    swarm::{draw, look},
};

/// In an ordinary test run; `folklore-sim swarm --seeds 500` takes longer.
const SEEDS: std::ops::Range<u64> = 1..25;

#[test]
fn what_is_shipped_holds_under_drawn_schedules() {
    let failed: Vec<String> = SEEDS
        .filter_map(|seed| {
            let found = look(runner::shipped, &draw(seed, None));
            found.failed().then(|| format!("folklore-sim replay swarm:{seed}  {:?}", found.violations))
        })
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// What the swarm found before: a clock that was set back stood still (306), and a node that had stood still never heard its
/// own timers again (2911, 3951).
#[test]
fn seeds_that_once_failed_hold() {
    for seed in [306, 2911, 3951] {
        let found = look(runner::shipped, &draw(seed, None));
        assert!(!found.failed(), "swarm:{seed}: {:?}", found.violations);
    }
}

fn found_and_shrunk(plant: Plant, check: &str) {
    let of_seed = |seed| Some(draw(seed, Some(plant))).filter(|scenario| look(runner::shipped, scenario).failed());
    let failing = SEEDS.into_iter().find_map(of_seed).unwrap_or_else(|| panic!("{plant:?} is not found"));
    let before = (failing.nodes(), failing.faults.len());
    let shrunk = shrink(runner::shipped, &failing, &mut |_, _| {}).expect("it fails");
    let small = &shrunk.scenario;
    let text = small.to_toml();
    println!(
        "{plant:?}: {before:?} nodes and faults to {:?} in {} runs, {} lines",
        (small.nodes(), small.faults.len()),
        shrunk.runs,
        text.lines().count()
    );
    assert!(small.nodes() <= 5 && small.faults.len() <= 3, "{text}");
    assert!(shrunk.runs <= MAX_RUNS);
    assert!(shrunk.found.names().contains(&check), "{:?}", shrunk.found);
    // What is written fails by itself, and without the bug it does not.
    let mut again = Scenario::parse("small", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(look(runner::shipped, &again).names(), shrunk.found.names());
    again.run.plant = None;
    assert!(!look(runner::shipped, &again).failed(), "it is the bug that fails:\n{text}");
}

#[test]
fn nodes_that_say_they_are_complete_are_found_and_shrunk() {
    found_and_shrunk(Plant::SayComplete, ROOTS_ARE_EQUAL);
}

#[test]
fn a_disk_that_loses_the_tail_of_a_batch_is_found_and_shrunk() {
    found_and_shrunk(Plant::LoseTail(0), HELD_IS_DURABLE);
}

#[test]
fn bodies_under_a_wrong_hash_are_found_and_shrunk() {
    found_and_shrunk(Plant::AcceptWrongHash(0), NOTHING_FORGED);
}
