//! Experiments: the four arms see the same tasks, what is known on one side of a cut is known on both after it, every fault
//! leaves the honest nodes equal, and a seed decides everything.

use std::collections::BTreeSet;

use folklore_sim::{Arm, Observed, Scenario, agents::Families, experiment};

type Seen = Vec<(u64, Observed)>;

fn two_sites(run: &str, more: &str) -> Scenario {
    let text = format!(
        "[run]\n{run}\n[[site]]\nname = \"a\"\nnodes = 4\n[[site]]\nname = \"b\"\nnodes = 4\n{more}\n[workload]\ntask_every = \
         \"3m\"\n"
    );
    Scenario::parse("two-sites", &text).unwrap()
}

fn run(scenario: &Scenario, arm: Arm, seed: u64) -> (experiment::RunEnd, Seen) {
    let mut seen = Seen::new();
    let end = experiment::run(scenario, arm, seed, &mut seen).unwrap();
    (end, seen)
}

fn attempts(seen: &Seen) -> Vec<(u64, u64, usize, u32, bool)> {
    let attempt = |(at, what): &(u64, Observed)| match what {
        Observed::Attempted { node, task, family, failed, .. } => Some((*at, *task, *node, *family, *failed)),
        _ => None,
    };
    seen.iter().filter_map(attempt).collect()
}

fn failures(seen: &Seen, from_ms: u64, to_ms: u64) -> usize {
    attempts(seen).iter().filter(|(at, .., failed)| *failed && (from_ms..to_ms).contains(at)).count()
}

const HOUR: u64 = 3_600_000;

#[test]
fn arms_see_the_same_tasks_and_sharing_helps_as_far_as_it_reaches() {
    let cut = "[[fault]]\nkind = \"drop-partition\"\nat = \"1h\"\nfor = \"1h\"";
    let scenario = two_sites("duration = \"4h\"", cut);
    let runs: Vec<Seen> = Arm::ALL.into_iter().map(|arm| run(&scenario, arm, 7).1).collect();
    let tasks = |seen: &Seen| attempts(seen).into_iter().map(|(at, task, node, family, _)| (at, task, node, family));
    let first: Vec<_> = tasks(&runs[0]).collect();
    assert!(first.len() > 500, "{}", first.len());
    for seen in &runs {
        assert!(tasks(seen).eq(first.iter().copied()));
        let failed = failures(seen, 0, 4 * HOUR);
        let rate = failed as f64 / first.len() as f64;
        println!("{failed} of {} failed ({rate:.2})", first.len());
    }
    let [isolated, central, folklore, oracle] = [0, 1, 2, 3].map(|arm| failures(&runs[arm], 0, 4 * HOUR));
    assert!(oracle <= folklore && folklore < isolated, "{oracle} {folklore} {isolated}");
    // Site b has no memory at all while it cannot reach the server.
    assert!(central > folklore, "{central} {folklore}");
    let unreached = runs[1].iter().filter(|(_, what)| matches!(what, Observed::Attempted { reached: false, .. }));
    assert!(unreached.count() > 50);
    let last = [2, 3].map(|arm| failures(&runs[arm], 3 * HOUR, 4 * HOUR));
    assert!(last[0] <= last[1] + 2, "after the cut as with instant sharing: {last:?}");
}

#[test]
fn a_run_says_what_travelled_and_when_all_were_equal() {
    let cut = "[[fault]]\nkind = \"drop-partition\"\nat = \"30m\"\nfor = \"30m\"";
    let (end, seen) = run(&two_sites("duration = \"2h\"", cut), Arm::Folklore, 3);
    assert_eq!(end.violations, []);
    assert!(end.converged && end.stopped > 0 && end.messages > 1_000 && end.timers > 100);
    assert!(seen.windows(2).all(|pair| pair[0].0 <= pair[1].0), "in the order of time");
    let taught: BTreeSet<u64> = seen
        .iter()
        .filter_map(|(_, what)| match what {
            Observed::Taught { record, .. } => Some(*record),
            _ => None,
        })
        .collect();
    assert_eq!(taught.len() as u64, taught.iter().max().map_or(0, |most| most + 1), "numbered without a gap");
    let stored = |wanted: u64| {
        seen.iter().filter(|(_, what)| matches!(what, Observed::Stored { record, .. } if *record == wanted)).count()
    };
    assert!(taught.iter().all(|record| stored(*record) == 7), "each of the others has each record once");
    assert!(
        seen.iter().any(|(_, what)| *what == Observed::Converged)
            && seen.iter().any(|(_, what)| *what == Observed::Diverged)
    );
    let unknown = attempts(&seen).iter().filter(|(.., failed)| !failed).count();
    assert!(unknown > 50);
}

#[test]
fn the_same_seed_is_the_same_run_and_another_seed_another() {
    let scenario = Scenario::parse("seed", include_str!("figures/seed.toml")).unwrap();
    let (first, saw) = run(&scenario, Arm::Folklore, 11);
    let (again, saw_again) = run(&scenario, Arm::Folklore, 11);
    assert_eq!((&first, &saw), (&again, &saw_again));
    assert_eq!(first.violations, []);
    let (other, _) = run(&scenario, Arm::Folklore, 12);
    assert_ne!(first.digest, other.digest);
    // Of debug and release builds alike: `cargo bench -p folklore-sim --bench engine -- digest` prints that of a release build.
    assert_eq!(format!("{:016x}", first.digest), DIGEST, "what a seed means has changed: record it anew");
}

const DIGEST: &str = "42cf3ae4e3cfdc42";

/// One fault of each kind, in a world that must come out of it equal.
#[test]
fn every_kind_of_fault_happens_and_leaves_the_honest_nodes_equal() {
    let kinds = [
        ("drop-partition", ""),
        ("hold-partition", ""),
        ("one-way", "from = \"a\"\nto = \"b\""),
        ("bridge", "groups = [\"a/0-2\", \"b/0-2\"]\nbridge = [\"a/3\", \"b/3\"]"),
        ("isolate", "nodes = [\"b/1\"]"),
        ("flapping", "down = \"40s\"\nup = \"20s\""),
        ("crash", "nodes = [\"a/1\"]"),
        ("pause", "nodes = [\"a/1\"]"),
        ("restart-lost-writes", "nodes = [\"a/1\"]"),
        ("restore-old-copy", "nodes = [\"a/1\"]\nage = \"8m\""),
        ("disk-full", "nodes = [\"b/2\"]"),
        ("clock-skew", "nodes = [\"b/2\"]\nby = \"-2h\""),
        ("clock-drift", "nodes = [\"b/2\"]\nppm = 100000"),
        ("join", "nodes = [\"b/3\"]"),
        ("leave", "nodes = [\"b/3\"]"),
        ("forge", "nodes = [\"a/3\"]\nevery = \"20s\""),
        ("equivocate", "nodes = [\"a/3\"]\nevery = \"60s\""),
        ("flood", "nodes = [\"a/3\"]\nevery = \"30s\""),
        ("withhold", "nodes = [\"a/3\"]"),
        ("stale-replay", "nodes = [\"a/3\"]\nevery = \"30s\""),
        ("poison", "nodes = [\"a/3\"]\nevery = \"30s\""),
        ("sybil", "nodes = [\"a/3\"]\nidentities = 3\nevery = \"60s\""),
    ];
    for (kind, more) in kinds {
        let length = if ["join", "leave"].contains(&kind) { "" } else { "for = \"5m\"\n" };
        let fault = format!("[[fault]]\nkind = \"{kind}\"\nat = \"10m\"\n{length}{more}");
        let scenario = two_sites("duration = \"25m\"", &fault);
        let (end, seen) = run(&scenario, Arm::Folklore, 5);
        println!("{kind}: {} messages, {} stopped, equal at {:?} ms", end.messages, end.stopped, end.converged_at_ms);
        assert_eq!(end.violations, [], "{kind}");
        assert!(end.converged, "{kind}");
        let count = |is: &dyn Fn(&Observed) -> bool| seen.iter().filter(|(_, what)| is(what)).count();
        match kind {
            "drop-partition" | "hold-partition" | "one-way" | "bridge" | "isolate" | "flapping" => {
                assert!(end.stopped > 0, "{kind}");
            }
            "crash" | "restart-lost-writes" | "restore-old-copy" => {
                assert_eq!(count(&|what| *what == Observed::Down { node: 1 }), 1, "{kind}");
                assert_eq!(count(&|what| *what == Observed::Up { node: 1 }), 2, "{kind}");
                let gone = count(&|what| matches!(what, Observed::Gone { .. }));
                assert_eq!(gone > 0, kind == "restore-old-copy", "{kind}");
            }
            "forge" => assert!(count(&|what| matches!(what, Observed::Refused { .. })) > 0),
            "poison" | "sybil" => {
                assert!(count(&|what| matches!(what, Observed::Taught { node: 3, poison: true, .. })) > 3, "{kind}");
                assert!(count(&|what| matches!(what, Observed::Attempted { poisoned: true, .. })) > 0, "{kind}");
            }
            "flood" => assert!(count(&|what| matches!(what, Observed::Taught { node: 3, .. })) > 50),
            "join" => assert_eq!(count(&|what| *what == Observed::Up { node: 7 }), 1),
            "leave" => assert_eq!(count(&|what| *what == Observed::Down { node: 7 }), 1),
            _ => {}
        }
    }
}

/// Four nodes that withdraw most of what they teach; all of them crash after an hour.
fn withdrawing(plant: &str) -> Scenario {
    let text = format!(
        "[run]\nduration = \"2h\"\n{plant}\n[[site]]\nname = \"a\"\nnodes = 4\n[[fault]]\nkind = \"crash\"\nat = \"1h\"\nfor = \
         \"1m\"\nnodes = [\"*\"]\n[workload]\nfamilies = 4\ntask_every = \"2m\"\nwithdraw = 0.8\nwithdraw_after = \"10m\"\n"
    );
    Scenario::parse("withdrawing", &text).unwrap()
}

#[test]
fn withdrawn_lessons_are_shown_nowhere() {
    let (end, seen) = run(&withdrawing(""), Arm::Folklore, 2);
    assert_eq!(end.violations, []);
    assert!(seen.iter().any(|(_, what)| matches!(what, Observed::Withdrawn { .. })));
    assert!(!seen.iter().any(|(_, what)| matches!(what, Observed::ServedWithdrawn { .. })));
}

#[test]
fn each_planted_bug_makes_the_check_speak_that_is_there_for_it() {
    let bugs = [
        ("bring-back-withdrawn\"", experiment::NOTHING_WITHDRAWN_SERVED),
        ("bring-back-withdrawn\"", experiment::ACKNOWLEDGED_IS_THERE),
        ("accept-wrong-hash\", node = \"a/1\"", experiment::NOTHING_FORGED),
        ("count-twice\", node = \"a/2\"", experiment::HELD_IS_DURABLE),
        ("drop-replies\", one_in = 20", experiment::REQUESTS_ARE_ANSWERED),
        ("say-complete\"", experiment::ROOTS_ARE_EQUAL),
    ];
    for (bug, check) in bugs {
        let plant = format!("plant = {{ bug = \"{bug} }}");
        // Only what a cut keeps apart shows whether nodes that say that they are complete are.
        let cut = "[[fault]]\nkind = \"drop-partition\"\nat = \"10m\"\nfor = \"10m\"";
        let scenario = match check {
            experiment::ROOTS_ARE_EQUAL => two_sites(&format!("duration = \"30m\"\n{plant}"), cut),
            _ => withdrawing(&plant),
        };
        let caught = (1..=4).any(|seed| {
            let (end, _) = run(&scenario, Arm::Folklore, seed);
            let failed: BTreeSet<&str> = end.violations.iter().map(|violation| violation.check).collect();
            println!("{bug}, seed {seed}: {failed:?}");
            failed.contains(check)
        });
        assert!(caught, "{bug}: not {check:?}");
    }
}

#[test]
fn a_cut_that_cuts_nothing_is_told() {
    let fault = "[[fault]]\nkind = \"isolate\"\nat = \"5m\"\nfor = \"1m\"\nnodes = [\"b/0\"]\n[[fault]]\nkind = \"crash\"\nat = \
                 \"1m\"\nfor = \"10m\"\nnodes = [\"b/0\"]";
    let (end, _) = run(&two_sites("duration = \"20m\"", fault), Arm::Folklore, 1);
    let failed: Vec<&str> = end.violations.iter().map(|violation| violation.check).collect();
    assert_eq!(failed, [experiment::CUT_CUTS]);
}

/// A file of real data, or that it is not there.
fn shared_data(file: &str) -> Option<std::path::PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data");
    let root = std::env::var_os("FOLKLORE_SHARED_DATA").map_or_else(|| beside.into(), std::path::PathBuf::from);
    let path = root.join(file);
    if !path.is_file() {
        println!("skipped: {} is not there", path.display());
        return None;
    }
    Some(path)
}

#[test]
fn real_tasks_are_drawn_from_files() {
    let files = [
        ("retrieval/webarena_tasks_even_templates.jsonl", 95, 1_000_000),
        ("tau-bench/gpt-4o-airline.json", 5, 999_999),
        ("tau-bench/retail_tool-calling.json", 3, 1_000_000),
    ];
    for (file, families_at_least, trap_at_most) in files {
        let Some(path) = shared_data(file) else { continue };
        let mut families = Families::load(&path).unwrap();
        let traps: Vec<u32> = (0..families.len()).filter_map(|n| families.get(n)).map(|f| f.trap_ppm).collect();
        let tasks: usize = (0..families.len()).filter_map(|n| families.get(n)).map(|f| f.tasks.len()).sum();
        println!("{file}: {} families, {tasks} tasks, traps {:?}", families.len(), traps.iter().min());
        assert!(families.len() >= families_at_least, "{file}: {}", families.len());
        assert!(traps.iter().min().is_some_and(|least| *least <= trap_at_most), "{file}");
        assert!((0..families.len()).all(|n| families.lesson(n, 0).is_some()), "{file}");
        let mut scenario = two_sites("duration = \"2h\"", "");
        scenario.workload.tasks = Some(path);
        let failed = [Arm::Isolated, Arm::Folklore].map(|arm| failures(&run(&scenario, arm, 1).1, 0, 2 * HOUR));
        println!("{file}: {failed:?} failures, isolated and shared");
        assert!(failed[1] < failed[0], "{file}: {failed:?}");
    }
}
