//! Runs under way: what was acknowledged is there after any restart, and nothing else is.

use std::{collections::BTreeMap, path::Path};

use folklore_protocol::{
    bank::BankId,
    canonical,
    claim::Outcome,
    identity::AuthorId,
    run_log::{RunAbout, RunHead, RunKey, RunMark},
};
use folklore_store::{
    bank::{BankInfo, Batch, Store},
    run::Step,
    runs::log::{
        Branch, Ending, Lease, MAX_COPIED_BYTES_OF_PEER, MAX_COPIES, MAX_COPIES_OF_PEER, MAX_OPEN_RUNS, MAX_STARTED,
        MAX_STEP_BYTES, NewRun, RunError, StateHash,
    },
};
use proptest::prelude::*;

use crate::common::{action, home, key, long_action, new_run, open_clean, run, teach};

fn ending(store: &Store, lease: &Lease) -> Ending {
    let info = store.run_info(&lease.name).unwrap();
    let mut digest = *blake3::hash(lease.name.as_bytes()).as_bytes();
    digest[0] = info.steps as u8;
    Ending { lease: lease.clone(), state: info.state, outcome: Outcome::Failure, digest }
}

fn steps_of(store: &Store, name: &str) -> Vec<Step> {
    store.checkpoint(name).unwrap().steps.into_iter().map(|recorded| recorded.step).collect()
}

#[test]
fn a_step_repeated_is_no_step_and_another_under_its_number_is_a_conflict_that_names_both() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_clean(dir.path());
    let lease = store.begin_run(new_run("a"), 1).unwrap();
    let first = store.record_step(&lease, 1, &action(1), 1).unwrap();
    let syncs = store.syncs();
    let again = store.record_step(&lease, 1, &action(1), 2).unwrap();
    assert!(again.known && !first.known && again.state == first.state);
    assert_eq!(store.syncs(), syncs, "nothing is written for it");
    let root = StateHash::root("shop/7", "Refund an order");
    let other = store.record_step(&lease, 1, &action(2), 2).unwrap_err();
    let (held, given) = (root.then(1, &action(1)), root.then(1, &action(2)));
    assert_eq!(other, RunError::Conflict { name: "a".into(), n: 1, held, given, next: 2 });
    let said = other.to_string();
    assert!(said.contains(&held.to_string()) && said.contains(&given.to_string()), "{said}");
    for n in [0, 3, u32::MAX] {
        let gap = store.record_step(&lease, n, &action(1), 2).unwrap_err();
        assert_eq!(gap, RunError::Gap { name: "a".into(), expected: 2, given: n });
    }
    assert_eq!(steps_of(&store, "a"), [action(1)]);
}

#[test]
fn whoever_held_the_lease_before_is_refused_and_told_why() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_clean(dir.path());
    let stalled = store.begin_run(new_run("a"), 1).unwrap();
    store.record_step(&stalled, 1, &action(1), 1).unwrap();
    let fresh = store.take_lease("a", 2).unwrap();
    let fenced = RunError::Fenced { name: "a".into(), given: 1, current: 2 };
    assert_eq!(store.record_step(&stalled, 2, &action(2), 3), Err(fenced.clone()));
    // Not even what is there already: it must learn that it is not alone.
    assert_eq!(store.record_step(&stalled, 1, &action(1), 3), Err(fenced.clone()));
    assert_eq!(store.mark_started(&stalled, 2, &action(2), 3), Err(fenced.clone()));
    assert_eq!(store.note_given(&stalled, &[]), Err(fenced.clone()));
    let ended = store.end_run(&key(1), 3, Batch::default(), &ending(&store, &stalled));
    assert_eq!(ended.unwrap_err(), fenced);
    store.record_step(&fresh, 2, &action(3), 3).unwrap();
    let invented = Lease { number: 9, ..fresh };
    let error = store.record_step(&invented, 3, &action(4), 3).unwrap_err();
    assert_eq!(error, RunError::NoSuchLease { name: "a".into(), given: 9, current: 2 });
    assert_eq!(steps_of(&store, "a"), [action(1), action(3)]);
    // Also after a restart.
    drop(store);
    let store = open_clean(dir.path());
    assert!(matches!(store.record_step(&stalled, 3, &action(2), 3), Err(RunError::Fenced { .. })));
}

#[test]
fn an_old_name_is_refused_for_a_new_run_also_when_that_one_has_ended() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_clean(dir.path());
    let lease = store.begin_run(new_run("a"), 1).unwrap();
    let other = || NewRunOf { name: "a", task: "Ship a parcel" }.make();
    let taken = store.begin_run(other(), 1).unwrap_err().to_string();
    assert!(taken.contains("Refund an order") && taken.contains("another name"), "{taken}");
    let same = store.begin_run(new_run("a"), 1).unwrap_err().to_string();
    assert!(same.contains("resume"), "{same}");
    store.end_run(&key(1), 2, Batch::default(), &ending(&store, &lease)).unwrap();
    for new in [other(), new_run("a")] {
        let taken = store.begin_run(new, 3).unwrap_err().to_string();
        assert!(taken.contains("ended"), "{taken}");
    }
    assert!(matches!(store.take_lease("a", 3), Err(RunError::Ended { .. })));
    assert!(matches!(store.record_step(&lease, 1, &action(1), 3), Err(RunError::Ended { .. })));
}

struct NewRunOf {
    name: &'static str,
    task: &'static str,
}

impl NewRunOf {
    fn make(&self) -> NewRun {
        NewRun { task: self.task.into(), task_key: "other/1".into(), ..new_run(self.name) }
    }
}

#[test]
fn what_was_started_and_not_recorded_is_uncertain_until_its_step_is() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_clean(dir.path());
    let lease = store.begin_run(new_run("a"), 1).unwrap();
    let paying = Step { action: "pay".into(), ..Step::default() };
    store.mark_started(&lease, 1, &paying, 5).unwrap();
    store.mark_started(&lease, 1, &paying, 6).unwrap();
    drop(store);
    let store = open_clean(dir.path());
    let held = store.checkpoint("a").unwrap();
    assert_eq!((held.uncertain.len(), held.uncertain[0].n, &held.uncertain[0].what), (1, 1, &paying));
    let lease = store.take_lease("a", 7).unwrap();
    store.record_step(&lease, 1, &action(1), 7).unwrap();
    assert_eq!(store.checkpoint("a").unwrap().uncertain, []);
    // What is done cannot be started, and not everything at once.
    assert!(matches!(store.mark_started(&lease, 1, &paying, 8), Err(RunError::Gap { expected: 2, .. })));
    for n in 2..2 + MAX_STARTED as u32 {
        store.mark_started(&lease, n, &paying, 8).unwrap();
    }
    assert!(matches!(store.mark_started(&lease, 2, &action(9), 8), Err(RunError::Limit { .. })));
    assert!(matches!(store.mark_started(&lease, 99, &action(9), 8), Err(RunError::Gap { .. })));
}

#[test]
fn too_much_is_refused_with_the_limit_and_leaves_the_run_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_clean(dir.path());
    let lease = store.begin_run(new_run("a"), 1).unwrap();
    let long = long_action(1, MAX_STEP_BYTES);
    let refused = store.record_step(&lease, 1, &long, 1).unwrap_err().to_string();
    assert!(refused.contains(&MAX_STEP_BYTES.to_string()), "{refused}");
    let room = MAX_STEP_BYTES - long_action(1, 0).think.len() - long_action(1, 0).action.len();
    store.record_step(&lease, 1, &long_action(1, room), 1).unwrap();
    drop(store);
    let store = open_clean(dir.path());
    assert_eq!(steps_of(&store, "a"), [long_action(1, room)]);
    for n in 1..MAX_OPEN_RUNS {
        store.begin_run(new_run(&format!("r{n}")), 2).unwrap();
    }
    let refused = store.begin_run(new_run("one-more"), 3).unwrap_err();
    assert_eq!(refused, RunError::TooManyRuns("a".into()));
    store.end_run(&key(1), 2, Batch::default(), &ending(&store, &lease)).unwrap();
    store.begin_run(new_run("one-more"), 3).unwrap();
}

#[test]
fn places_of_ended_runs_are_used_again_and_their_steps_are_gone_from_the_database() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_clean(dir.path());
    let mut live = 0;
    for round in 0..40u32 {
        let lease = store.begin_run(new_run(&format!("r{round}")), u64::from(round)).unwrap();
        for n in 1..=10 {
            store.record_step(&lease, n, &long_action(round * 100 + n, 40_000), 1).unwrap();
        }
        store.end_run(&key(1), u64::from(round), Batch::default(), &ending(&store, &lease)).unwrap();
        let now = store.upkeep().live_bytes;
        assert!(round < 2 || now < live + 1000, "round {round}: {live} bytes before, {now} after");
        live = now;
    }
    assert!(store.verify(|_| ()).unwrap().ok());
    drop(store);
    let store = open_clean(dir.path());
    assert_eq!(store.runs_here().len(), 40);
    assert!(store.runs_here().iter().all(|run| run.ended.is_some_and(|ended| ended.steps == 10)));
}

#[test]
fn what_a_run_taught_and_its_end_are_one_group() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_clean(dir.path());
    let lease = store.begin_run(new_run("a"), 1).unwrap();
    store.record_step(&lease, 1, &action(1), 1).unwrap();
    let stale = Ending { state: StateHash([0; 32]), ..ending(&store, &lease) };
    let batch = || Batch { runs: vec![run(1, Outcome::Failure, 10)], ..teach([1, 2]) };
    assert_eq!(store.end_run(&key(1), 2, batch(), &stale).unwrap_err(), RunError::Moved("a".into()));
    assert_eq!(store.counts().records, 0);
    let syncs = store.syncs();
    let written = store.end_run(&key(1), 2, batch(), &ending(&store, &lease)).unwrap();
    assert_eq!((written.records().count(), written.runs.len()), (2, 1));
    assert!(store.syncs() - syncs <= 2, "the author's number, then the group");
    assert_eq!(store.checkpoint("a").unwrap().steps, []);
    assert_eq!(store.record_count(&home().id), 2);
}

#[derive(Debug, Clone)]
enum Call {
    Begin(u8),
    Step { run: u8, content: u32, bytes: usize },
    Again { run: u8 },
    Conflict { run: u8 },
    Started { run: u8, content: u32 },
    Resume(u8),
    Fenced(u8),
    End(u8),
    Teach(u32),
    Restart,
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        2 => (0u8..4).prop_map(Call::Begin),
        8 => (0u8..4, 0u32..50, prop_oneof![Just(0usize), Just(300), Just(70_000)])
            .prop_map(|(run, content, bytes)| Call::Step { run, content, bytes }),
        1 => (0u8..4).prop_map(|run| Call::Again { run }),
        1 => (0u8..4).prop_map(|run| Call::Conflict { run }),
        2 => (0u8..4, 0u32..3).prop_map(|(run, content)| Call::Started { run, content }),
        2 => (0u8..4).prop_map(Call::Resume),
        1 => (0u8..4).prop_map(Call::Fenced),
        1 => (0u8..4).prop_map(Call::End),
        1 => (0u32..12).prop_map(Call::Teach),
        2 => Just(Call::Restart),
    ]
}

#[derive(Debug, Default)]
struct Twin {
    lease: u64,
    steps: Vec<Step>,
    started: Vec<(u32, Step)>,
}

fn check(store: &Store, twins: &BTreeMap<u8, Twin>, names: &BTreeMap<u8, String>) {
    let open: Vec<_> = store.runs_here().into_iter().filter(|run| run.ended.is_none()).collect();
    assert_eq!(open.len(), twins.len());
    for (run, twin) in twins {
        let held = store.checkpoint(&names[run]).unwrap();
        assert_eq!(held.info.lease, twin.lease);
        let steps: Vec<Step> = held.steps.iter().map(|recorded| recorded.step.clone()).collect();
        assert_eq!(steps, twin.steps);
        let mut state = StateHash::root("shop/7", "Refund an order");
        for (n, step) in (1..).zip(&twin.steps) {
            state = state.then(n, step);
        }
        assert_eq!(held.info.state, state, "as for a run that was never interrupted");
        let mut started: Vec<(u32, Step)> = held.uncertain.into_iter().map(|mark| (mark.n, mark.what)).collect();
        let mut wanted = twin.started.clone();
        started.sort_by(|a, b| (a.0, &a.1.think).cmp(&(b.0, &b.1.think)));
        wanted.sort_by(|a, b| (a.0, &a.1.think).cmp(&(b.0, &b.1.think)));
        assert_eq!(started, wanted);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn logs_are_what_their_twin_is_over_restarts_leases_and_ended_runs(calls in proptest::collection::vec(call(), 1..60)) {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open_clean(dir.path());
        let mut twins: BTreeMap<u8, Twin> = BTreeMap::new();
        let mut names: BTreeMap<u8, String> = BTreeMap::new();
        let lease = |names: &BTreeMap<u8, String>, twins: &BTreeMap<u8, Twin>, run: u8| {
            Some(Lease { name: names.get(&run)?.clone(), number: twins.get(&run)?.lease })
        };
        for (turn, call) in calls.into_iter().enumerate() {
            match call {
                Call::Begin(run) if !twins.contains_key(&run) => {
                    let name = format!("run-{run}-{turn}");
                    store.begin_run(new_run(&name), turn as u64).unwrap();
                    names.insert(run, name);
                    twins.insert(run, Twin { lease: 1, ..Twin::default() });
                }
                Call::Begin(run) => prop_assert!(store.begin_run(new_run(&names[&run]), 1).is_err()),
                Call::Step { run, content, bytes } => if let Some(lease) = lease(&names, &twins, run) {
                    let twin = twins.get_mut(&run).unwrap();
                    let n = twin.steps.len() as u32 + 1;
                    let step = long_action(content, bytes);
                    prop_assert!(!store.record_step(&lease, n, &step, turn as u64).unwrap().known);
                    twin.steps.push(step);
                    twin.started.retain(|(at, _)| *at != n);
                },
                Call::Again { run } => if let Some(lease) = lease(&names, &twins, run) {
                    for (n, step) in (1..).zip(&twins[&run].steps) {
                        prop_assert!(store.record_step(&lease, n, step, 1).unwrap().known);
                    }
                },
                Call::Conflict { run } => if let Some(lease) = lease(&names, &twins, run) {
                    for n in 1..=twins[&run].steps.len() as u32 {
                        let other = store.record_step(&lease, n, &action(1000), 1);
                        let conflict = matches!(other, Err(RunError::Conflict { .. }));
                        prop_assert!(conflict, "{other:?}");
                    }
                },
                Call::Started { run, content } => if let Some(lease) = lease(&names, &twins, run) {
                    let twin = twins.get_mut(&run).unwrap();
                    let mark = (twin.steps.len() as u32 + 1, action(content));
                    store.mark_started(&lease, mark.0, &mark.1, 1).unwrap();
                    if !twin.started.contains(&mark) {
                        twin.started.push(mark);
                    }
                },
                Call::Resume(run) => if let Some(before) = lease(&names, &twins, run) {
                    let after = store.take_lease(&before.name, turn as u64).unwrap();
                    prop_assert_eq!(after.number, before.number + 1);
                    twins.get_mut(&run).unwrap().lease = after.number;
                },
                Call::Fenced(run) => if let Some(now) = lease(&names, &twins, run).filter(|l| l.number > 1) {
                    let old = Lease { number: now.number - 1, ..now };
                    let n = twins[&run].steps.len() as u32 + 1;
                    let refused = store.record_step(&old, n, &action(7), 1);
                    let fenced = matches!(refused, Err(RunError::Fenced { .. }));
                    prop_assert!(fenced, "{refused:?}");
                },
                Call::End(run) => if let Some(lease) = lease(&names, &twins, run) {
                    let ending = ending(&store, &lease);
                    store.end_run(&key(1), turn as u64, teach([200 + turn as u32]), &ending).unwrap();
                    twins.remove(&run);
                    names.remove(&run);
                },
                Call::Teach(n) => store.write(home().id, &key(1), 1, teach([n])).map(drop).unwrap(),
                Call::Restart => {
                    drop(store);
                    store = open_clean(dir.path());
                    check(&store, &twins, &names);
                }
            }
        }
        check(&store, &twins, &names);
        prop_assert!(store.verify(|_| ()).unwrap().ok());
        drop(store);
        // The long way too: without the summary everything is read.
        std::fs::remove_file(dir.path().join("bank.summary")).unwrap();
        check(&open_clean(dir.path()), &twins, &names);
    }
}

/// A bank whose runs may be shared: the home bank of these tests is a public one.
fn fleet() -> BankInfo {
    BankInfo::new(key(1).author(), [7; 16], "fleet")
}

/// Opens a bank with [`fleet`] in it.
fn open_fleet(dir: &Path) -> (Store, BankId) {
    let store = open_clean(dir);
    store.add_bank(fleet()).unwrap();
    (store, fleet().id)
}

/// What a peer tells of a run with these steps.
fn told(steps: &[Step]) -> (RunHead, RunAbout, Vec<Vec<u8>>) {
    let mut state = StateHash::root("k", "Ship a parcel");
    for (n, step) in (1..).zip(steps) {
        state = state.then(n, step);
    }
    let head = RunHead { run: RunKey([9; 16]), open: true, steps: steps.len() as u32, state: state.0, marks: vec![] };
    let about = RunAbout {
        name: "theirs".into(),
        task_key: "k".into(),
        task: "Ship a parcel".into(),
        domain: String::new(),
        agent: "clerk".into(),
        tags: vec![],
        began_ms: 1,
        branch: None,
    };
    (head, about, steps.iter().map(canonical::encode).collect())
}

#[test]
fn a_copy_is_bound_to_who_told_of_it_and_goes_with_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let (store, bank) = open_fleet(dir.path());
    let (them, others) = (key(2).author(), key(3).author());
    let steps = [action(1), long_action(2, 90_000), action(3)];
    let (head, about, bytes) = told(&steps);
    assert_eq!(store.hear_run(them, bank, &head, None, 1), Ok(None), "of what nobody said what it is about");
    assert_eq!(store.hear_run(them, bank, &head, Some(&about), 1), Ok(Some(0)));
    assert_eq!(store.copy_steps(others, bank, &head, 1, &bytes, 1), Ok(None), "it is not theirs");
    assert_eq!(store.copy_steps(them, bank, &head, 1, &bytes[..2], 1), Ok(Some(2)));
    assert_eq!(store.copy_steps(them, bank, &head, 1, &bytes[..2], 1), Ok(Some(2)), "again: it is here");
    assert_eq!(store.copy_steps(them, bank, &head, 3, &bytes[2..], 1), Ok(Some(3)));
    drop(store);
    let store = open_clean(dir.path());
    let copy = store.runs_here().remove(0);
    assert_eq!((copy.copy_of, copy.steps, copy.state.0), (Some(them), 3, head.state));
    let held = store.checkpoint_of(&copy.id).unwrap();
    assert_eq!(held.steps.iter().map(|recorded| recorded.step.clone()).collect::<Vec<_>>(), steps);
    // It is no run of this node's: its name is free, and nobody writes to it.
    assert!(matches!(store.take_lease("theirs", 2), Err(RunError::Unknown(_))));
    let branch = Branch { from: them, steps: 3, state: copy.state };
    let new = NewRun { name: "theirs".into(), task_key: "k".into(), task: "Ship a parcel".into(), ..new_run("b") };
    let lease = store.begin_branch(new, branch, &held.steps, &held.uncertain, 2).unwrap();
    assert_eq!(store.run_info("theirs").unwrap().state, copy.state, "the state goes on");
    store.record_step(&lease, 4, &action(4), 3).unwrap();
    let over = RunHead { open: false, ..head };
    assert_eq!(store.hear_run(them, bank, &over, None, 4), Ok(None));
    assert_eq!(store.runs_here().iter().map(|run| run.copy_of).collect::<Vec<_>>(), [None]);
    assert_eq!(store.checkpoint("theirs").unwrap().steps.len(), 4, "a branch stays");
    assert!(store.verify(|_| ()).unwrap().ok());
}

#[test]
fn what_a_peer_tells_must_lead_to_its_state_and_hold_nothing_that_would_not_be_stored() {
    let dir = tempfile::tempdir().unwrap();
    let (store, bank) = open_fleet(dir.path());
    let them = key(2).author();
    let secret = Step { observation: format!("token ghp_{}", "aB3dE5gH7jK9".repeat(3)), ..Step::default() };
    let hidden = Step { action: "pay\u{202e}".into(), ..Step::default() };
    let (head, about, bytes) = told(&[action(1)]);
    let wrong = RunHead { state: [1; 32], ..head.clone() };
    for (head, bytes) in [
        (wrong, bytes.clone()),
        (head.clone(), vec![vec![1, 2, 3]]),
        (head.clone(), vec![bytes[0].clone(), bytes[0].clone()]),
        (told(std::slice::from_ref(&secret)).0, told(&[secret]).2),
        (told(std::slice::from_ref(&hidden)).0, told(&[hidden]).2),
        (head.clone(), told(&[long_action(1, MAX_STEP_BYTES)]).2),
    ] {
        assert_eq!(store.hear_run(them, bank, &head, Some(&about), 1), Ok(Some(0)));
        assert_eq!(store.copy_steps(them, bank, &head, 1, &bytes, 1), Ok(None));
        assert_eq!(store.runs_here(), [], "it is let go");
    }
    // Nor may what is started there hold any, by whichever way it is heard; a copy that was clean until then goes.
    let leaks = RunMark { action: format!("login ghp_{}", "aB3dE5gH7jK9".repeat(3)), ..started(2) };
    let leaking = RunHead { marks: vec![leaks], ..head.clone() };
    assert_eq!(store.hear_run(them, bank, &leaking, Some(&about), 1), Ok(None));
    for with_steps in [false, true] {
        assert_eq!(store.hear_run(them, bank, &head, Some(&about), 1), Ok(Some(0)));
        let heard = match with_steps {
            false => store.hear_run(them, bank, &leaking, None, 1),
            true => store.copy_steps(them, bank, &leaking, 1, &bytes, 1),
        };
        assert_eq!((heard, store.runs_here().len()), (Ok(None), 0));
    }
    let secret = RunAbout { task: format!("use ghp_{}", "aB3dE5gH7jK9".repeat(3)), ..about };
    assert_eq!(store.hear_run(them, bank, &head, Some(&secret), 1), Ok(None));
}

#[test]
fn what_is_given_to_readers_puts_together_to_the_steps() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_clean(dir.path());
    let bank = home().id;
    let shared = store.begin_run(NewRun { shared: true, ..new_run("a") }, 1).unwrap();
    let private = store.begin_run(new_run("b"), 1).unwrap();
    let steps = [action(1), long_action(2, 120_000), action(3), long_action(4, 30_000)];
    for (n, step) in (1..).zip(&steps) {
        store.record_step(&shared, n, step, 1).unwrap();
        store.record_step(&private, n, step, 1).unwrap();
    }
    let id = |lease: &Lease| store.run_info(&lease.name).unwrap().id;
    assert_eq!(store.told_runs().len(), 1);
    assert_eq!(store.told_run("b"), None);
    assert_eq!(store.step_pieces(bank, &id(&private), 1, 0, 1000), Ok(vec![]));
    let (mut from, mut offset, mut got, mut partial) = (1u32, 0u32, Vec::new(), Vec::new());
    loop {
        let pieces = store.step_pieces(bank, &id(&shared), from, offset, 7_000).unwrap();
        if pieces.is_empty() {
            break;
        }
        for piece in pieces {
            partial.extend(piece.bytes);
            offset = partial.len() as u32;
            if piece.left == 0 {
                got.push(std::mem::take(&mut partial));
                (from, offset) = (from + 1, 0);
            }
        }
    }
    assert_eq!(got, steps.iter().map(canonical::encode).collect::<Vec<_>>());
}

fn started(n: u32) -> RunMark {
    RunMark { n, at_ms: 70, action: format!("pay {n}") }
}

/// The numbers and actions of what is uncertain of the one copy here.
fn uncertain(store: &Store) -> Vec<(u32, String)> {
    let copy = store.runs_here().into_iter().find(|run| run.copy_of.is_some()).unwrap();
    let marks = store.checkpoint_of(&copy.id).unwrap().uncertain;
    assert_eq!(copy.uncertain, marks.len());
    marks.into_iter().map(|mark| (mark.n, mark.what.action)).collect()
}

#[test]
fn what_was_started_elsewhere_is_uncertain_here_until_the_step_that_answers_it_is_here() {
    let dir = tempfile::tempdir().unwrap();
    let (store, bank) = open_fleet(dir.path());
    let them = key(2).author();
    let steps = [action(1), action(2), action(3)];
    let head_of = |count: usize, marks: &[u32]| {
        let (head, ..) = told(&steps[..count]);
        RunHead { marks: marks.iter().map(|n| started(*n)).collect(), ..head }
    };
    let (_, about, bytes) = told(&steps);
    let copy = |head: &RunHead, first: usize, last: usize| {
        store.copy_steps(them, bank, head, first as u32, &bytes[first - 1..last], 1)
    };
    assert_eq!(store.hear_run(them, bank, &head_of(1, &[]), Some(&about), 1), Ok(Some(0)));
    // The mark was told while the first step was on its way: it is stored with that.
    assert_eq!(copy(&head_of(1, &[2]), 1, 1), Ok(Some(1)));
    assert_eq!(uncertain(&store), [(2, "pay 2".into())]);
    // There it is answered, by a step that has not come: here nobody knows how it went.
    assert_eq!(store.hear_run(them, bank, &head_of(2, &[3]), None, 1), Ok(Some(1)));
    assert_eq!(uncertain(&store), [(2, "pay 2".into()), (3, "pay 3".into())]);
    assert_eq!(copy(&head_of(2, &[3]), 2, 2), Ok(Some(2)));
    assert_eq!(uncertain(&store), [(3, "pay 3".into())]);
    // What is no mark of a step to come is none: it would never be answered.
    assert_eq!(copy(&head_of(3, &[0, 2, 3, 400]), 3, 3), Ok(Some(3)));
    assert_eq!(uncertain(&store), []);
    drop(store);
    let (store, _) = open_fleet(dir.path());
    assert_eq!(uncertain(&store), []);
}

#[test]
fn two_nodes_that_tell_of_one_run_are_both_heard() {
    let dir = tempfile::tempdir().unwrap();
    let (store, bank) = open_fleet(dir.path());
    let (them, liar) = (key(2).author(), key(3).author());
    let (head, about, bytes) = told(&[action(1), action(2)]);
    let (lie, _, invented) = told(&[action(9)]);
    let open = RunAbout { name: "no-one-is-here".into(), ..about.clone() };
    assert_eq!(store.hear_run(liar, bank, &lie, Some(&open), 1), Ok(Some(0)));
    assert_eq!(store.copy_steps(liar, bank, &lie, 1, &invented, 1), Ok(Some(1)));
    assert_eq!(store.hear_run(them, bank, &head, Some(&about), 1), Ok(Some(0)), "whoever told of it first");
    assert_eq!(store.copy_steps(them, bank, &head, 1, &bytes, 1), Ok(Some(2)));
    drop(store);
    let (store, _) = open_fleet(dir.path());
    let held = |node: AuthorId| {
        let copy = store.runs_here().into_iter().find(|run| run.copy_of == Some(node)).unwrap();
        let steps = store.checkpoint_of(&copy.id).unwrap().steps;
        (copy.name, steps.into_iter().map(|recorded| recorded.step).collect::<Vec<_>>())
    };
    assert_eq!(held(them), ("theirs".into(), vec![action(1), action(2)]));
    assert_eq!(held(liar), ("no-one-is-here".into(), vec![action(9)]));
    assert_eq!(store.hear_run(liar, bank, &RunHead { open: false, ..lie }, None, 1), Ok(None));
    assert_eq!(held(them).1.len(), 2, "nobody ends another's");
}

/// A word about the run of this number.
fn word(n: u32) -> (RunHead, RunAbout) {
    let (head, about, _) = told(&[]);
    let key = blake3::hash(&n.to_le_bytes());
    (
        RunHead { run: RunKey(*key.as_bytes().first_chunk().unwrap()), ..head },
        RunAbout { name: format!("run-{n}"), ..about },
    )
}

fn names(store: &Store, of: AuthorId) -> Vec<String> {
    let mut names: Vec<String> =
        store.runs_here().into_iter().filter(|run| run.copy_of == Some(of)).map(|run| run.name).collect();
    names.sort();
    names
}

#[test]
fn no_peer_fills_the_place_of_the_others_and_what_was_touched_longest_ago_gives_way() {
    let dir = tempfile::tempdir().unwrap();
    let (store, bank) = open_fleet(dir.path());
    let hear = |node: u8, n: u32, at_ms: u64| {
        let (head, about) = word(n);
        store.hear_run(key(node).author(), bank, &head, Some(&about), at_ms)
    };
    // Five take as much as they can get, and one of them comes again and again.
    for node in 11..=15u8 {
        for n in 0..MAX_COPIES_OF_PEER as u32 + 3 {
            assert_eq!(hear(node, n, 100 + u64::from(n)), Ok(Some(0)));
        }
    }
    let all = || (11..=15).map(|node| names(&store, key(node).author()).len()).collect::<Vec<_>>();
    assert_eq!(all().iter().sum::<usize>(), MAX_COPIES);
    assert!(all().iter().all(|copies| *copies <= MAX_COPIES_OF_PEER && *copies > MAX_COPIES / 6), "{:?}", all());
    // Their first have given way to their last.
    assert!(!names(&store, key(15).author()).contains(&"run-0".into()));
    assert!(names(&store, key(15).author()).contains(&format!("run-{}", MAX_COPIES_OF_PEER + 2)));
    // Whoever has few is heard all the same, and stays.
    let few = key(2).author();
    assert_eq!((hear(2, 1, 5), hear(2, 2, 6)), (Ok(Some(0)), Ok(Some(0))));
    for n in 200..300 {
        assert_eq!(hear(11, n, 1_000), Ok(Some(0)));
    }
    assert_eq!(names(&store, few), ["run-1", "run-2"], "touched longest ago of all, but of a peer that has few");
    assert_eq!(store.runs_here().len(), MAX_COPIES);
    drop(store);
    let (store, _) = open_fleet(dir.path());
    assert_eq!((store.runs_here().len(), names(&store, few).len()), (MAX_COPIES, 2));
    assert!(store.verify(|_| ()).unwrap().ok());
}

#[test]
fn the_bytes_of_one_peers_copies_are_bounded_and_its_oldest_gives_way() {
    let dir = tempfile::tempdir().unwrap();
    let (store, bank) = open_fleet(dir.path());
    let (them, few) = (key(2).author(), key(3).author());
    let (head, about) = word(1_000);
    assert_eq!(store.hear_run(few, bank, &head, Some(&about), 0), Ok(Some(0)));
    // Steps as long as they may be, sixteen at a time; the chain is checked where the head says it ends.
    let step = long_action(7, MAX_STEP_BYTES - 100);
    let bytes = vec![canonical::encode(&step); 16];
    let per_run = 80 * MAX_STEP_BYTES as u64;
    let runs = u32::try_from(MAX_COPIED_BYTES_OF_PEER / per_run).unwrap() + 1;
    for n in 0..runs {
        let (head, about) = word(n);
        let head = RunHead { steps: 2_000, ..head };
        assert_eq!(store.hear_run(them, bank, &head, Some(&about), u64::from(n)), Ok(Some(0)));
        for first in (1..=80).step_by(16) {
            assert_eq!(store.copy_steps(them, bank, &head, first, &bytes, u64::from(n)), Ok(Some(first + 15)));
        }
    }
    let left = names(&store, them);
    assert!(left.len() < runs as usize && !left.contains(&"run-0".into()), "{left:?}");
    assert!(left.contains(&format!("run-{}", runs - 1)), "{left:?}");
    assert_eq!(names(&store, few), ["run-1000"]);
}

#[test]
fn a_public_banks_runs_are_not_copied_whoever_tells_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open_fleet(dir.path());
    let (head, about) = word(1);
    assert_eq!(store.hear_run(key(2).author(), home().id, &head, Some(&about), 1), Ok(None));
    assert_eq!(store.hear_run(key(2).author(), BankId([9; 32]), &head, Some(&about), 1), Ok(None), "of no bank here");
    assert_eq!(store.runs_here(), []);
}

#[test]
fn a_copy_whose_name_could_not_be_taken_over_is_not_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (store, bank) = open_fleet(dir.path());
    let (head, about) = word(1);
    for name in ["", "two words", "a@1", "../x", &"x".repeat(65)] {
        let about = RunAbout { name: name.into(), ..about.clone() };
        assert_eq!(store.hear_run(key(2).author(), bank, &head, Some(&about), 1), Ok(None), "{name:?}");
    }
    assert_eq!(store.runs_here(), []);
}

#[test]
fn a_copy_that_was_dropped_does_not_come_back_and_an_own_run_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let (store, bank) = open_fleet(dir.path());
    let (them, others) = (key(2).author(), key(3).author());
    let (head, about) = word(1);
    assert_eq!(store.hear_run(them, bank, &head, Some(&about), 1), Ok(Some(0)));
    let copy = store.runs_here().remove(0).id;
    store.drop_copy(&copy).unwrap();
    assert_eq!(store.drop_copy(&copy), Err(RunError::Unknown(copy.to_string())));
    assert_eq!(store.hear_run(them, bank, &head, Some(&about), 1), Ok(None));
    drop(store);
    let (store, _) = open_fleet(dir.path());
    assert_eq!(store.hear_run(them, bank, &head, Some(&about), 1), Ok(None), "also after a restart");
    assert_eq!(store.hear_run(others, bank, &head, Some(&about), 1), Ok(Some(0)), "another's is another");
    let lease = store.begin_run(new_run("mine"), 1).unwrap();
    let mine = store.run_info(&lease.name).unwrap().id;
    assert_eq!(store.drop_copy(&mine), Err(RunError::NotACopy("mine".into())));
    assert_eq!(store.runs_here().len(), 2);
}

#[test]
fn copies_of_whom_the_bank_shut_out_are_let_go() {
    let dir = tempfile::tempdir().unwrap();
    let (store, bank) = open_fleet(dir.path());
    let (them, others) = (key(2).author(), key(3).author());
    let (head, about) = word(1);
    for node in [them, others] {
        assert_eq!(store.hear_run(node, bank, &head, Some(&about), 1), Ok(Some(0)));
    }
    let mine = store.begin_run(new_run("mine"), 1).unwrap();
    assert_eq!(store.retain_copies(|of, node| *of == bank && *node == others), Ok(1));
    let left: Vec<Option<AuthorId>> = store.runs_here().into_iter().map(|run| run.copy_of).collect();
    assert_eq!(left, [None, Some(others)]);
    store.record_step(&mine, 1, &action(1), 1).unwrap();
    assert_eq!(store.retain_copies(|_, _| true), Ok(0));
    // It was the bank that shut it out: once it may, it is heard again.
    assert_eq!(store.hear_run(them, bank, &head, Some(&about), 2), Ok(Some(0)));
}
