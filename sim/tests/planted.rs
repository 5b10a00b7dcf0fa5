//! The checks themselves: a run with a bug planted in it must make the check speak that is there for it, and the same run
//! without the bug must leave all of them silent.

use std::collections::BTreeSet;

use folklore_sim::{Checks, Link, Plant, World, WorldConfig, checks};

const NODES: usize = 5;

/// Five nodes teach and withdraw, links are cut and mended, nodes crash and start again; then all is quiet. Gives the checks
/// that failed.
fn run(seed: u64, plant: Option<Plant>) -> BTreeSet<&'static str> {
    let link = Link { latency_ms: 20, jitter_ms: 30, ..Link::default() };
    let mut world = World::new(WorldConfig { seed, nodes: NODES, link, plant, ..WorldConfig::default() });
    let bank = world.open_bank(0, 0..NODES);
    for a in 0..NODES {
        for b in 0..a {
            world.introduce(a, b);
        }
    }
    let mut checks = Checks::new(bank, link.latency_ms + link.jitter_ms);
    let others = |n: usize| (0..NODES).filter(|m| *m != n).collect::<Vec<_>>();
    for round in 0..12u64 {
        let pick = (seed * 3 + round * 2) as usize % NODES;
        match round % 4 {
            0 => world.cut(&[pick], &others(pick)),
            1 => world.heal(),
            2 => {
                world.crash(pick);
                world.run_for(2_000);
                world.restart(pick);
                // What it lost it has again from its neighbours within a second.
                checks.look(&mut world);
            }
            _ => {}
        }
        for n in (0..NODES).filter(|n| world.is_up(*n)).collect::<Vec<_>>() {
            let first = round * 100 + n as u64 * 10;
            world.teach_all(n, bank, first..first + 3 + 17 * u64::from(round % 3 == 0));
            if round > 3 {
                world.withdraw(n, bank, (round - 3) * 100 + n as u64 * 10);
            }
        }
        for _ in 0..8 {
            world.run_for(1_250);
            checks.look(&mut world);
        }
    }
    world.heal();
    for _ in 0..10 {
        world.run_for(10_000);
        checks.look(&mut world);
    }
    checks.settle(&mut world);
    for violation in checks.violations().take(4) {
        println!("seed {seed} {plant:?}: {violation:?}");
    }
    checks.failed()
}

#[test]
fn without_a_bug_all_checks_are_silent() {
    for seed in 0..6 {
        assert_eq!(run(seed, None), BTreeSet::new(), "seed {seed}");
    }
}

/// The check must speak for every one of these seeds.
fn must_be_caught(plant: Plant, check: &str) {
    for seed in 0..2 {
        let failed = run(seed, Some(plant));
        assert!(failed.contains(check), "seed {seed}, {plant:?}: only {failed:?} failed, not {check:?}");
    }
}

#[test]
fn one_reply_in_fifty_dropped_is_caught() {
    must_be_caught(Plant::DropReplies(50), checks::REQUESTS_ARE_ANSWERED);
}

#[test]
fn a_withdrawn_lesson_brought_back_is_caught() {
    must_be_caught(Plant::BringBackWithdrawn, checks::WITHDRAWN_STAYS_WITHDRAWN);
}

#[test]
fn a_body_of_another_hash_is_caught() {
    must_be_caught(Plant::AcceptWrongHash(1), checks::BYTES_ARE_WHAT_IDS_SAY);
}

#[test]
fn a_record_counted_twice_is_caught() {
    must_be_caught(Plant::CountTwice(3), checks::RECORDS_COUNT_ONCE);
}

#[test]
fn a_lost_tail_of_a_batch_is_caught() {
    must_be_caught(Plant::LoseTail(4), checks::HELD_IS_DURABLE);
}

#[test]
fn saying_complete_too_early_is_caught() {
    must_be_caught(Plant::SayComplete, checks::COMPLETE_IS_COMPLETE);
}
