//! The measures, each on a stream of events written by hand whose figures can be counted on one's fingers.

use folklore_sim::{Arm, Class, LossCause, Meter, Observed, Observer, RunFigures, Scenario, measure::figures};

/// Two sites of two nodes, cut from 100 s to 200 s, hostile node 4 at a third site that is not measured.
const FILE: &str = r#"
[run]
duration = "400s"
settle = "100s"

[[site]]
name = "a"
nodes = 2

[[site]]
name = "b"
nodes = 2

[[site]]
name = "h"
nodes = 1

[[fault]]
kind = "drop-partition"
at = "100s"
for = "100s"
groups = ["a", "b"]

[[fault]]
kind = "poison"
at = "0s"
nodes = "h"

[measure]
after = "100s"
step = "50s"
"#;

struct Stream(Meter);

impl Stream {
    fn new(arm: Arm) -> Self {
        let scenario = Scenario::parse("hand", FILE).expect("a scenario");
        let mut stream = Self(Meter::new(&scenario, arm));
        for node in 0..5 {
            stream.at(0, Observed::Up { node });
        }
        stream
    }

    fn at(&mut self, seconds: u64, what: Observed) -> &mut Self {
        self.0.see(seconds * 1000, what);
        self
    }

    fn taught(&mut self, seconds: u64, node: usize, record: u64, family: u32) -> &mut Self {
        self.at(seconds, Observed::Taught { node, record, family: Some(family), poison: false, bytes: 500 })
    }

    fn stored(&mut self, seconds: u64, node: usize, record: u64, from: usize, hops: u32) -> &mut Self {
        self.at(seconds, Observed::Stored { node, record, from: Some(from), hops })
    }

    /// An attempt that is given a lesson of its family if `record` names one, and fails otherwise.
    fn tried(&mut self, seconds: u64, node: usize, family: u32, record: Option<u64>) -> &mut Self {
        let rank = record.map(|_| 1);
        let shown = u32::from(record.is_some());
        let failed = record.is_none();
        let what =
            Observed::Attempted { node, task: 0, family, rank, record, shown, failed, poisoned: false, reached: true };
        self.at(seconds, what)
    }

    fn finish(self) -> RunFigures {
        let run = self.0.finish();
        for name in run.figures.keys() {
            assert!(figures::find(name).is_some(), "{name} is not among the figures that are documented");
        }
        run
    }
}

fn is(run: &RunFigures, name: &str, value: f64) {
    let found = run.figures.get(name).copied();
    assert!(found.is_some_and(|found| (found - value).abs() < 1e-9), "{name}: {found:?}, by hand {value}");
}

#[test]
fn a_repeat_failure_is_one_of_a_family_that_somebody_anywhere_had_learnt() {
    let mut stream = Stream::new(Arm::Folklore);
    stream.tried(10, 0, 7, None); // Nobody knew: no repeat.
    stream.taught(10, 0, 0, 7);
    stream.tried(20, 2, 7, None); // Before, site b: a repeat.
    stream.tried(30, 0, 7, Some(0)); // Before, site a: none.
    stream.tried(110, 2, 7, None); // During, site b.
    stream.taught(120, 1, 1, 8);
    stream.tried(130, 3, 8, None); // During, site b, what only site a knew.
    stream.tried(140, 0, 8, Some(1)); // During, site a, known at the site.
    stream.tried(210, 3, 8, Some(1)); // After: only elsewhere still, and no failure.
    stream.tried(310, 3, 8, None); // After the phase after.
    let run = stream.finish();
    is(&run, "attempts", 8.0);
    is(&run, "failure_rate", 5.0 / 8.0);
    is(&run, "repeat_failures", 4.0);
    is(&run, "repeat_failure_rate", 4.0 / 7.0);
    is(&run, "repeat_failure_rate@a", 0.0);
    is(&run, "repeat_failure_rate@b", 4.0 / 5.0);
    is(&run, "repeat_failure_rate.before", 1.0 / 2.0);
    is(&run, "repeat_failure_rate.during", 2.0 / 3.0);
    is(&run, "repeat_failure_rate.during@a", 0.0);
    is(&run, "repeat_failures.during@b", 2.0);
    is(&run, "repeat_failure_rate.after", 0.0);
    is(&run, "only_elsewhere.attempts.during", 1.0);
    is(&run, "only_elsewhere.failure_rate.during", 1.0);
    is(&run, "only_elsewhere.failure_rate.after", 0.0);
    is(&run, "recall_at_1", 3.0 / 7.0);
    assert!(!run.figures.contains_key("repeat_failure_rate.after@a"), "no attempt, no rate");
    let curve = &run.curves["repeat_failure_rate"];
    assert_eq!(curve.at_ms[..3], [50_000, 100_000, 150_000]);
    assert_eq!(curve.values[..3], [Some(0.5), None, Some(2.0 / 3.0)]);
}

#[test]
fn recall_counts_the_first_place_and_any_place() {
    let mut stream = Stream::new(Arm::Folklore);
    stream.taught(1, 0, 0, 7);
    for (rank, record) in [(Some(1), Some(0)), (Some(3), Some(0)), (None, None), (None, None)] {
        let failed = rank.is_none();
        let (node, task, family, shown) = (0, 0, 7, 3);
        stream.at(
            2,
            Observed::Attempted { node, task, family, rank, record, shown, failed, poisoned: false, reached: true },
        );
    }
    let run = stream.finish();
    is(&run, "recall_at_1", 0.25);
    is(&run, "recall_at_k", 0.5);
}

#[test]
fn staleness_and_hops_are_those_of_copies_that_came_over_links() {
    let mut stream = Stream::new(Arm::Folklore);
    stream.taught(10, 0, 0, 7);
    stream.stored(11, 1, 0, 0, 1).stored(14, 2, 0, 1, 2).stored(50, 3, 0, 2, 3);
    stream.stored(51, 4, 0, 2, 3); // A hostile node is not measured.
    let run = stream.finish();
    is(&run, "staleness.mean_s", (1.0 + 4.0 + 40.0) / 3.0);
    assert!((run.figures["staleness.p50_s"] - 4.0).abs() <= 4.0 / 64.0, "{:?}", run.figures["staleness.p50_s"]);
    is(&run, "staleness.max_s", 40.0);
    is(&run, "hops.mean", 2.0);
    is(&run, "hops.max", 3.0);
    let held = &run.curves["held_share"];
    assert_eq!(held.values[..2], [Some(3.0 / 4.0), Some(1.0)], "at 50 s the last copy was not there yet");
}

#[test]
fn convergence_is_timed_from_the_heal_for_what_is_older_than_it() {
    let mut stream = Stream::new(Arm::Folklore);
    stream.taught(110, 0, 0, 7).stored(111, 1, 0, 0, 1);
    stream.taught(120, 2, 1, 8).stored(121, 3, 1, 2, 1);
    // At the heal, 200 s, each of four nodes lacks one record.
    stream.taught(205, 0, 2, 9); // Younger: not waited for.
    stream.stored(206, 1, 1, 2, 1);
    stream.tried(207, 1, 7, Some(0)); // From its own site: not what is looked for.
    stream.tried(208, 1, 8, Some(1));
    stream.stored(210, 0, 1, 1, 2).stored(211, 2, 0, 0, 1);
    stream.at(215, Observed::Down { node: 3 }); // The last that lacks something goes down, and comes back with it missing.
    stream.at(230, Observed::Up { node: 3 });
    stream.stored(240, 3, 0, 2, 2);
    let run = stream.finish();
    is(&run, "converge.missing", 4.0);
    is(&run, "converge.first_s", 6.0);
    is(&run, "converge.first_useful_s", 8.0);
    is(&run, "converge.all_s", 15.0);
    is(&run, "converge.left", 0.0);
    let made_up = &run.curves["made_up"];
    let at =
        |ms: u64| made_up.at_ms.iter().zip(&made_up.values).rfind(|(at, _)| **at <= ms).and_then(|(_, value)| *value);
    assert_eq!((at(5_000), at(7_000), at(100_000)), (Some(0.0), Some(0.25), Some(1.0)));
}

#[test]
fn what_never_arrives_is_left() {
    let mut stream = Stream::new(Arm::Folklore);
    stream.taught(110, 0, 0, 7).stored(111, 1, 0, 0, 1).stored(201, 2, 0, 0, 1);
    let run = stream.finish();
    is(&run, "converge.left", 1.0);
    assert!(!run.figures.contains_key("converge.all_s"));
}

#[test]
fn equal_roots_are_timed_from_the_heal() {
    let mut stream = Stream::new(Arm::Folklore);
    stream.at(20, Observed::Converged).at(110, Observed::Diverged).at(230, Observed::Converged);
    is(&stream.finish(), "converge.equal_s", 30.0);
    let mut stream = Stream::new(Arm::Folklore);
    stream.at(20, Observed::Converged).taught(210, 0, 0, 1).at(211, Observed::Diverged);
    is(&stream.finish(), "converge.equal_s", 0.0);
}

#[test]
fn lost_stale_and_never_read_are_told_as_jepsen_does() {
    let mut stream = Stream::new(Arm::Folklore);
    for record in 0..4 {
        stream.taught(10, 0, record, 7);
    }
    for node in 1..4 {
        stream.stored(20, node, 0, 0, 1); // 0 is everywhere.
    }
    stream.stored(20, 1, 1, 0, 1); // 1 is at two of four: stale.
    stream.stored(20, 1, 2, 0, 1); // 2 was read, and then lost at both.
    stream.at(30, Observed::Gone { node: 0, record: 2 }).at(30, Observed::Gone { node: 1, record: 2 });
    let run = stream.finish(); // 3 never left its author: stale too.
    is(&run, "set.acknowledged", 4.0);
    is(&run, "set.lost", 1.0);
    is(&run, "set.stale", 2.0);
    is(&run, "set.never_read", 1.0);
}

#[test]
fn a_record_that_only_a_node_that_left_holds_is_lost() {
    let mut stream = Stream::new(Arm::Folklore);
    stream.taught(10, 0, 0, 7).at(11, Observed::Down { node: 0 });
    let run = stream.finish();
    is(&run, "set.lost", 1.0);
    is(&run, "set.never_read", 1.0);
}

#[test]
fn bytes_are_split_by_what_they_are_for() {
    let mut stream = Stream::new(Arm::Folklore);
    stream.taught(10, 0, 0, 7).taught(10, 0, 1, 7);
    stream.stored(11, 1, 0, 0, 1).stored(11, 2, 0, 0, 1).stored(11, 3, 0, 0, 1).stored(11, 1, 1, 0, 1);
    for (class, bytes) in [(Class::Data, 1_000), (Class::Data, 600), (Class::Reconcile, 300), (Class::Control, 100)] {
        stream.at(12, Observed::Sent { from: 0, to: 1, kind: "any", class, bytes });
    }
    stream.at(12, Observed::Duplicate { node: 1, bytes: 500 });
    stream.at(13, Observed::Lost { from: 0, to: 2, cause: LossCause::Cut });
    let run = stream.finish();
    is(&run, "bytes", 2_000.0);
    is(&run, "messages", 4.0);
    is(&run, "bytes_per_lesson", 1_000.0);
    is(&run, "bytes_per_lesson.data", 800.0);
    is(&run, "bytes_per_delivery.data", 400.0);
    is(&run, "bytes_per_delivery.reconcile", 75.0);
    is(&run, "bytes_per_delivery.control", 25.0);
    is(&run, "duplicates_per_delivery", 0.25);
    is(&run, "duplicate_bytes", 500.0);
    is(&run, "lost_messages.cut", 1.0);
}

#[test]
fn poison_is_counted_by_answers_and_by_nodes() {
    let mut stream = Stream::new(Arm::Folklore);
    stream.at(5, Observed::Taught { node: 4, record: 0, family: Some(7), poison: true, bytes: 500 });
    stream.stored(6, 0, 0, 4, 1).stored(6, 1, 0, 4, 1);
    for (node, shown, poisoned) in [(0, 1, true), (0, 1, true), (1, 1, false), (2, 1, false), (3, 0, false)] {
        let (task, family, rank, record, failed) = (0, 7, None, None, true);
        stream.at(9, Observed::Attempted { node, task, family, rank, record, shown, failed, poisoned, reached: true });
    }
    stream.at(9, Observed::Refused { node: 1 });
    let run = stream.finish();
    is(&run, "poison.accept_rate", 2.0 / 4.0);
    is(&run, "poison.blast_radius", 1.0 / 4.0);
    is(&run, "poison.held_by", 2.0 / 4.0);
    is(&run, "refused", 1.0);
    is(&run, "repeat_failures", 0.0);
    is(&run, "set.acknowledged", 0.0);
}

#[test]
fn a_memory_that_cannot_be_reached_is_counted() {
    let mut stream = Stream::new(Arm::Central);
    for reached in [true, true, false, true] {
        let (node, task, family, rank, record, shown, failed, poisoned) = (0, 0, 1, None, None, 0, true, false);
        stream.at(9, Observed::Attempted { node, task, family, rank, record, shown, failed, poisoned, reached });
    }
    stream.at(9, Observed::TeachFailed { node: 0, family: 1 });
    let run = stream.finish();
    is(&run, "unavailability", 0.25);
    is(&run, "lessons_not_kept", 1.0);
    assert!(!run.figures.contains_key("set.lost"), "one server holds it all: there is nothing to agree on");
}

#[test]
fn some_lessons_are_followed_on_their_way() {
    let mut stream = Stream::new(Arm::Folklore);
    stream.taught(110, 0, 0, 7).stored(111, 1, 0, 0, 1).stored(201, 2, 0, 0, 1);
    let run = stream.finish();
    assert_eq!(run.paths.lessons.len(), 1);
    assert_eq!(
        run.paths.steps.iter().map(|step| (step.from, step.to)).collect::<Vec<_>>(),
        [(Some(0), 1), (Some(0), 2)]
    );
}

#[test]
fn memory_is_bounded_by_records_and_nodes_not_by_what_happens() {
    let mut stream = Stream::new(Arm::Folklore);
    stream.taught(1, 0, 0, 7);
    for n in 0..200_000_u64 {
        stream.at(2 + n / 1_000, Observed::Sent { from: 0, to: 1, kind: "any", class: Class::Data, bytes: 10 });
        stream.stored(2 + n / 1_000, 1, 0, 0, 1);
    }
    let run = stream.finish();
    is(&run, "bytes", 2_000_000.0);
    // A record that a node holds already has not come anew.
    is(&run, "bytes_per_delivery", 2_000_000.0);
    assert!(run.paths.steps.len() <= 4_000);
    assert!(run.curves.values().all(|curve| curve.values.len() <= 2_000));
}

#[test]
fn a_node_that_comes_late_is_stale_only_from_then_on() {
    let mut stream = Stream::new(Arm::Folklore);
    stream.at(5, Observed::Down { node: 3 });
    stream.taught(10, 0, 0, 7);
    let late = Scenario::parse("hand", FILE).expect("a scenario");
    let mut late = Stream(Meter::new(&late, Arm::Folklore));
    late.at(0, Observed::Up { node: 0 }).taught(10, 0, 0, 7).at(300, Observed::Up { node: 3 }).stored(302, 3, 0, 0, 1);
    is(&late.finish(), "staleness.max_s", 2.0);
    // One that was there and went away has missed it.
    stream.at(300, Observed::Up { node: 3 }).stored(302, 3, 0, 0, 1);
    is(&stream.finish(), "staleness.max_s", 292.0);
}
