//! Runs that are shared: two state machines, and a storage that keeps what they hand to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use folklore_protocol::{
    Access, AuthorId, BankId, Config, Effect, Event, Message, Node, Time,
    run_log::{MAX_RUN_STEP_BYTES, MAX_RUNS_OF_PEER, RunAbout, RunHead, RunKey, RunMark, StepPiece},
};

const A: AuthorId = AuthorId([1; 32]);
const B: AuthorId = AuthorId([2; 32]);
const BANK: BankId = BankId([7; 32]);
const RUN: RunKey = RunKey([9; 16]);

/// A holder and a reader, the messages between them, and what each stored.
struct World {
    nodes: BTreeMap<AuthorId, Node>,
    now: Time,
    wire: VecDeque<(AuthorId, AuthorId, Message)>,
    /// The holder's steps.
    steps: Vec<Vec<u8>>,
    /// The reader's copy.
    copy: Option<Vec<Vec<u8>>>,
    /// The marks that the reader's storage was told last.
    marks: Vec<RunMark>,
    open: bool,
    /// Kinds of messages that are lost once.
    lose: BTreeSet<&'static str>,
    said: BTreeMap<&'static str, usize>,
}

fn about() -> RunAbout {
    RunAbout {
        name: "shop".into(),
        task_key: "k".into(),
        task: "t".into(),
        domain: String::new(),
        agent: String::new(),
        tags: vec![],
        began_ms: 1,
        branch: None,
    }
}

fn head(run: RunKey) -> RunHead {
    RunHead { run, open: true, steps: 0, state: [0; 32], marks: vec![] }
}

fn marks(started: &[u32]) -> Vec<RunMark> {
    started.iter().map(|n| RunMark { n: *n, at_ms: 5, action: "pay".into() }).collect()
}

impl World {
    fn new(banks_of_b: &[BankId]) -> Self {
        let node = |id: AuthorId| (id, Node::new(id, Config::default(), id.0));
        let mut world = Self {
            nodes: [node(A), node(B)].into(),
            now: Time(1_000),
            wire: VecDeque::new(),
            steps: vec![],
            copy: None,
            marks: vec![],
            open: true,
            lose: BTreeSet::new(),
            said: BTreeMap::new(),
        };
        world.handle(A, Event::BankOpened { bank: BANK, held: vec![] });
        world.handle(A, Event::RunReaders { bank: BANK, readers: Access::Anyone });
        for bank in banks_of_b {
            world.handle(B, Event::BankOpened { bank: *bank, held: vec![] });
        }
        world
    }

    fn connect(&mut self) {
        self.handle(A, Event::Connected { peer: B, dialled: None });
        self.handle(B, Event::Connected { peer: A, dialled: None });
        self.drain();
    }

    fn disconnect(&mut self) {
        self.wire.clear();
        self.handle(A, Event::Disconnected { peer: B });
        self.handle(B, Event::Disconnected { peer: A });
        self.wire.clear();
    }

    fn step(&mut self, bytes: usize) {
        let n = self.steps.len() as u8;
        self.steps.push(vec![n; bytes]);
        self.share();
    }

    fn share(&mut self) {
        self.share_started(&[]);
        self.drain();
    }

    /// As [`World::share`], with steps that were started; what is said stays on the wire.
    fn share_started(&mut self, started: &[u32]) {
        let head = RunHead { open: self.open, steps: self.steps.len() as u32, marks: marks(started), ..head(RUN) };
        self.handle(A, Event::RunShared { bank: BANK, head, about: about() });
    }

    fn drain(&mut self) {
        while let Some((from, to, message)) = self.wire.pop_front() {
            *self.said.entry(message.name()).or_default() += 1;
            if self.lose.remove(message.name()) {
                continue;
            }
            // As it travels.
            let message = Message::decode(&message.encode()).expect("a message reads back");
            self.handle(to, Event::Received { peer: from, message });
        }
    }

    /// Lets time pass until nothing is due before `until_ms` more have gone.
    fn pass(&mut self, until_ms: u64) {
        let end = self.now + until_ms;
        while let Some(at) = self.nodes.values().filter_map(Node::next_deadline).min().filter(|at| *at <= end) {
            self.now = at.max(self.now);
            self.handle(A, Event::Tick);
            self.handle(B, Event::Tick);
            self.drain();
        }
        self.now = end;
    }

    fn handle(&mut self, at: AuthorId, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let now = self.now;
            let node = self.nodes.get_mut(&at).expect("it is one of two");
            node.handle(event, now);
            let effects: Vec<Effect> = std::iter::from_fn(|| node.next_effect()).collect();
            for effect in effects {
                match effect {
                    Effect::Send { peer, message } => self.wire.push_back((at, peer, message)),
                    Effect::RunHeard { peer, bank, head, about } => {
                        self.marks = head.marks;
                        if !head.open {
                            self.copy = None;
                        } else if about.is_some() && self.copy.is_none() {
                            self.copy = Some(vec![]);
                        }
                        let have = self.copy.as_ref().map(|copy| copy.len() as u32);
                        events.push_back(Event::RunHeld { peer, bank, run: head.run, have });
                    }
                    Effect::StoreSteps { peer, bank, head, from, steps } => {
                        let copy = self.copy.as_mut().expect("a copy was begun");
                        assert_eq!(from as usize, copy.len() + 1, "in order, none twice");
                        copy.extend(steps);
                        self.marks = head.marks;
                        let have = Some(copy.len() as u32);
                        events.push_back(Event::RunHeld { peer, bank, run: head.run, have });
                    }
                    Effect::LoadSteps { ticket, from, offset, budget_bytes, .. } => {
                        let (mut pieces, mut left, mut skip) = (vec![], budget_bytes, offset as usize);
                        for step in self.steps.iter().skip(from as usize - 1) {
                            let rest = &step[std::mem::take(&mut skip)..];
                            let taken = rest.len().min(left);
                            if taken == 0 {
                                break;
                            }
                            left -= taken;
                            let cut = (rest.len() - taken) as u32;
                            pieces.push(StepPiece { bytes: rest[..taken].to_vec(), left: cut });
                            if cut > 0 {
                                break;
                            }
                        }
                        events.push_back(Event::StepsLoaded { ticket, pieces });
                    }
                    _ => {}
                }
            }
        }
    }
}

#[test]
fn steps_of_any_length_arrive_whole_and_in_order() {
    let mut world = World::new(&[BANK]);
    for bytes in [10, 48 * 1024, 1, 200_000, MAX_RUN_STEP_BYTES, 5] {
        world.step(bytes);
    }
    world.connect();
    assert_eq!(world.copy.as_ref(), Some(&world.steps));
    world.step(70_000);
    world.step(7);
    assert_eq!(world.copy.as_ref(), Some(&world.steps));
    // A small step costs one word, one question and one answer.
    let before = world.said.clone();
    world.step(7);
    let said = |kind| world.said[kind] - before[kind];
    assert_eq!((said("run"), said("run-fetch"), said("run-steps")), (1, 1, 1));
}

#[test]
fn a_run_is_told_only_to_those_who_know_the_bank() {
    let mut world = World::new(&[BankId([8; 32])]);
    world.step(10);
    world.connect();
    world.step(10);
    world.pass(120_000);
    assert_eq!((world.copy.as_ref(), world.said.get("run")), (None, None));
    // And one who asks all the same gets nothing.
    let ask = Message::RunFetch { bank: BANK, request: 1, run: RUN, from: 1, offset: 0 };
    world.handle(A, Event::Received { peer: B, message: ask });
    assert!(world.wire.iter().all(|(_, _, message)| matches!(message, Message::Refusal { .. })), "{:?}", world.wire);
}

#[test]
fn whatever_is_lost_is_made_good_by_the_next_word() {
    for lost in ["run", "run-fetch", "run-steps"] {
        let mut world = World::new(&[BANK]);
        world.connect();
        world.step(60_000);
        world.lose.insert(lost);
        world.step(60_000);
        assert!(world.lose.is_empty(), "{lost} was never said");
        assert_ne!(world.copy.as_ref(), Some(&world.steps), "{lost}");
        world.pass(120_000);
        assert_eq!(world.copy.as_ref(), Some(&world.steps), "{lost}");
    }
}

#[test]
fn a_copy_goes_on_after_a_cut_and_goes_with_the_end() {
    let mut world = World::new(&[BANK]);
    world.connect();
    world.step(100);
    world.disconnect();
    world.step(200_000);
    world.step(100);
    assert_eq!(world.copy.as_ref().map(Vec::len), Some(1));
    world.connect();
    assert_eq!(world.copy.as_ref(), Some(&world.steps));
    // Ended while nobody was there to hear it.
    world.disconnect();
    world.open = false;
    world.share();
    world.connect();
    assert_eq!(world.copy, None);
}

#[test]
fn a_step_without_end_is_an_offence() {
    let mut world = World::new(&[BANK]);
    world.connect();
    world.step(10);
    let mut disconnected = false;
    for request in 0..2_000u64 {
        world.steps = vec![vec![0; 10]; 1];
        let head = RunHead { run: RunKey([request as u8; 16]), open: true, steps: 1, state: [0; 32], marks: vec![] };
        let told = Message::Run { bank: BANK, head, about: Some(about()) };
        world.copy = None;
        world.handle(B, Event::Received { peer: A, message: told });
        let asked = world.wire.drain(..).find_map(|(_, _, message)| match message {
            Message::RunFetch { request, run, .. } => Some((request, run)),
            _ => None,
        });
        let Some((request, run)) = asked else {
            disconnected = true;
            break;
        };
        let pieces = vec![StepPiece { bytes: vec![0; 1_000], left: u32::MAX }];
        world.handle(B, Event::Received { peer: A, message: Message::RunSteps { bank: BANK, request, run, pieces } });
    }
    let struck = world.nodes[&B].peers().get(&A).is_some_and(|peer| peer.barred_until().is_some());
    assert!(disconnected || struck, "garbage is not taken for ever");
}

#[test]
fn what_was_heard_and_not_stored_when_the_connection_goes_is_stored_then() {
    let mut world = World::new(&[BANK]);
    world.connect();
    world.step(10);
    // A step, and at once what comes next is started: its mark is heard while the step is asked for.
    world.steps.push(vec![1; 10]);
    world.share_started(&[]);
    world.share_started(&[3]);
    let told: Vec<_> = world.wire.drain(..).collect();
    for (from, _, message) in told {
        world.handle(B, Event::Received { peer: from, message });
    }
    assert_eq!((world.copy.as_ref().map(Vec::len), &world.marks), (Some(1), &vec![]));
    world.disconnect();
    assert_eq!(world.marks, marks(&[3]), "the third may have happened");
    world.connect();
    assert_eq!(world.copy.as_ref(), Some(&world.steps), "and it goes on from there");
}

#[test]
fn a_mark_that_is_heard_while_steps_are_on_their_way_reaches_storage_with_them() {
    let mut world = World::new(&[BANK]);
    world.connect();
    world.steps.push(vec![1; 10]);
    world.share_started(&[]);
    world.share_started(&[2]);
    world.drain();
    assert_eq!((world.copy.as_ref(), &world.marks), (Some(&world.steps), &marks(&[2])));
}

/// A reader that knows [`A`] and its bank, and whose storage is played by the test.
fn reader() -> Node {
    let mut world = World::new(&[BANK]);
    world.connect();
    world.nodes.remove(&B).expect("it is one of two")
}

/// Hands a node an event, and returns what it does.
fn effects(node: &mut Node, event: Event) -> Vec<Effect> {
    effects_at(node, event, Time(2_000))
}

fn effects_at(node: &mut Node, event: Event, now: Time) -> Vec<Effect> {
    node.handle(event, now);
    std::iter::from_fn(|| node.next_effect()).collect()
}

fn hear(node: &mut Node, head: &RunHead, about: Option<RunAbout>) -> Vec<Effect> {
    let message = Message::Run { bank: BANK, head: head.clone(), about };
    effects(node, Event::Received { peer: A, message })
}

fn held(node: &mut Node, run: RunKey, have: Option<u32>) -> Vec<Effect> {
    effects(node, Event::RunHeld { peer: A, bank: BANK, run, have })
}

/// The one question for steps among effects: its number, the first step, and the offset into that.
fn asked(effects: &[Effect]) -> (u64, u32, u32) {
    let asked = effects.iter().filter_map(|effect| match effect {
        Effect::Send { message: Message::RunFetch { request, from, offset, .. }, .. } => {
            Some((*request, *from, *offset))
        }
        _ => None,
    });
    let asked: Vec<_> = asked.collect();
    assert_eq!(asked.len(), 1, "{effects:?}");
    asked[0]
}

fn answer(node: &mut Node, request: u64, pieces: &[(usize, u32)]) -> Vec<Effect> {
    let pieces = pieces.iter().map(|(bytes, left)| StepPiece { bytes: vec![7; *bytes], left: *left }).collect();
    effects(node, Event::Received { peer: A, message: Message::RunSteps { bank: BANK, request, run: RUN, pieces } })
}

#[test]
fn a_word_that_comes_while_steps_are_on_their_way_waits_for_them() {
    let mut node = reader();
    let told = RunHead { steps: 5, ..head(RUN) };
    assert!(matches!(hear(&mut node, &told, Some(about()))[..], [Effect::RunHeard { .. }]));
    let (request, from, offset) = asked(&held(&mut node, RUN, Some(0)));
    assert_eq!((from, offset), (1, 0));
    // The regular word, with what it is about.
    assert!(hear(&mut node, &told, Some(about())).is_empty(), "one thing at a time");
    let stored = answer(&mut node, request, &[(10, 0), (20, 0), (30, 70)]);
    assert!(matches!(&stored[..], [Effect::StoreSteps { from: 1, steps, .. }] if steps.len() == 2), "{stored:?}");
    // Nothing is asked or told before storage has answered.
    assert!(hear(&mut node, &told, Some(about())).is_empty());
    let (request, from, offset) = asked(&held(&mut node, RUN, Some(2)));
    assert_eq!((from, offset), (3, 30));
    let stored = answer(&mut node, request, &[(70, 0), (8, 0), (9, 0)]);
    let [Effect::StoreSteps { from: 3, steps, .. }] = &stored[..] else { panic!("{stored:?}") };
    assert_eq!(steps.iter().map(Vec::len).collect::<Vec<_>>(), [100, 8, 9]);
}

#[test]
fn a_part_of_a_step_is_put_to_no_other_step() {
    let mut node = reader();
    let told = RunHead { steps: 5, ..head(RUN) };
    hear(&mut node, &told, Some(about()));
    let (request, ..) = asked(&held(&mut node, RUN, Some(0)));
    answer(&mut node, request, &[(10, 0), (20, 0), (30, 70)]);
    // The copy was let go and begun anew meanwhile: what is there of the third step is of no use now.
    let (request, from, offset) = asked(&held(&mut node, RUN, Some(0)));
    assert_eq!((from, offset), (1, 0));
    let stored = answer(&mut node, request, &[(10, 0)]);
    assert!(matches!(&stored[..], [Effect::StoreSteps { from: 1, steps, .. }] if steps[0].len() == 10), "{stored:?}");
}

#[test]
fn steps_beyond_the_last_word_wait_for_the_next() {
    let mut node = reader();
    hear(&mut node, &RunHead { steps: 1, ..head(RUN) }, Some(about()));
    let (request, ..) = asked(&held(&mut node, RUN, Some(0)));
    // The second step was recorded after the word about the first, and before the question came.
    let stored = answer(&mut node, request, &[(10, 0), (20, 0)]);
    assert!(matches!(&stored[..], [Effect::StoreSteps { from: 1, steps, .. }] if steps.len() == 1), "{stored:?}");
    assert!(held(&mut node, RUN, Some(1)).is_empty());
    let (_, from, offset) = asked(&hear(&mut node, &RunHead { steps: 2, ..head(RUN) }, None));
    assert_eq!((from, offset), (2, 0));
}

#[test]
fn a_question_that_is_lost_or_turned_away_is_asked_again_before_the_next_word() {
    let config = Config::default();
    for busy in [false, true] {
        let mut node = reader();
        hear(&mut node, &RunHead { steps: 1, ..head(RUN) }, Some(about()));
        let (request, ..) = asked(&held(&mut node, RUN, Some(0)));
        let mut wait_ms = config.request_timeout_ms;
        if busy {
            wait_ms = config.busy_pause_ms;
            let turned = Message::Busy { bank: BANK, request };
            assert!(effects(&mut node, Event::Received { peer: A, message: turned }).is_empty(), "it rests");
            assert!(hear(&mut node, &RunHead { steps: 1, ..head(RUN) }, Some(about())).is_empty(), "whatever is said");
        }
        assert!(wait_ms < config.reconcile_every_ms * 3 / 4, "no comparison comes before");
        let again = effects_at(&mut node, Event::Tick, Time(2_000 + wait_ms));
        let again: Vec<Effect> =
            again.into_iter().filter(|e| matches!(e, Effect::Send { message: Message::RunFetch { .. }, .. })).collect();
        assert_eq!(asked(&again).1, 1);
    }
}

#[test]
fn the_end_of_a_run_is_heard_also_while_its_last_step_is_asked_for() {
    let mut node = reader();
    hear(&mut node, &RunHead { steps: 1, ..head(RUN) }, Some(about()));
    let (request, ..) = asked(&held(&mut node, RUN, Some(0)));
    let over = RunHead { steps: 1, open: false, ..head(RUN) };
    assert!(hear(&mut node, &over, None).is_empty());
    // Its steps are erased by then.
    let told = answer(&mut node, request, &[]);
    assert!(matches!(&told[..], [Effect::RunHeard { head, .. }] if !head.open), "{told:?}");
    assert!(held(&mut node, RUN, None).is_empty());
}

/// A holder of so many runs that have ended and so many under way, and what it says to [`B`] in the first two minutes of a
/// connection, by second. The keys of those under way come last.
fn told_by_holder(ended: u8, open: u8) -> (World, Vec<(u64, RunHead, bool)>) {
    let mut world = World::new(&[BANK]);
    for n in 0..ended + open {
        let head = RunHead { open: n >= ended, ..head(RunKey([n; 16])) };
        world.handle(A, Event::RunShared { bank: BANK, head, about: RunAbout { began_ms: u64::from(n), ..about() } });
    }
    world.handle(A, Event::Connected { peer: B, dialled: None });
    world.handle(B, Event::Connected { peer: A, dialled: None });
    let began = world.now;
    let mut told = Vec::new();
    for _ in 0..240 {
        while let Some((from, to, message)) = world.wire.pop_front() {
            if let Message::Run { head, about, .. } = &message {
                told.push((world.now - began, head.clone(), about.is_some()));
            } else {
                world.handle(to, Event::Received { peer: from, message });
            }
        }
        world.now = world.now + 500;
        world.handle(A, Event::Tick);
        world.handle(B, Event::Tick);
    }
    (world, told)
}

#[test]
fn a_run_that_has_ended_is_told_once_a_connection_and_behind_those_under_way() {
    let (mut world, told) = told_by_holder(200, 2);
    let ended: Vec<_> = told.iter().filter(|(_, head, _)| !head.open).collect();
    assert_eq!(ended.len(), 200, "each once, however often the banks are compared");
    assert!(ended.iter().all(|(at, _, about)| *at < 1_000 && !about));
    let open: Vec<_> =
        told.iter().filter(|(_, head, _)| head.open).map(|(at, head, about)| (*at, head.run, *about)).collect();
    assert!(open.len() >= 3 * 2, "{open:?}");
    assert_eq!(open[..2], [(0, RunKey([201; 16]), true), (0, RunKey([200; 16]), true)], "the latest begun first");
    assert!(told.iter().position(|(_, head, _)| !head.open) > Some(1));
    // One that ends meanwhile is told at once, and once more for the case that this is lost.
    world.wire.clear();
    let over = RunHead { open: false, ..head(RunKey([200; 16])) };
    world.handle(A, Event::RunShared { bank: BANK, head: over, about: about() });
    let mut said = 0;
    for _ in 0..240 {
        for (from, to, message) in world.wire.drain(..).collect::<Vec<_>>() {
            match message {
                Message::Run { head, .. } => said += usize::from(head.run == RunKey([200; 16])),
                message => world.handle(to, Event::Received { peer: from, message }),
            }
        }
        world.now = world.now + 500;
        world.handle(A, Event::Tick);
        world.handle(B, Event::Tick);
    }
    assert_eq!(said, 2);
}

#[test]
fn a_run_under_way_is_followed_however_many_have_ended_before_storage_answers() {
    let (_, told) = told_by_holder(200, 1);
    let mut node = reader();
    // Also where the ended ones are heard first.
    let mut heard = Vec::new();
    for (_, head, about) in told.iter().filter(|(at, ..)| *at == 0).rev() {
        heard.extend(hear(&mut node, head, about.then(crate::about)));
    }
    let open = heard.iter().filter(|effect| matches!(effect, Effect::RunHeard { head, .. } if head.open)).count();
    assert_eq!((heard.len(), open), (201, 1));
    // Nor can a peer have more followed than its share, or storage told without end.
    for n in 0..2_000u16 {
        let [low, high] = n.to_le_bytes();
        let run = RunKey([[low; 8], [high; 8]].concat().try_into().expect("sixteen bytes"));
        heard.extend(hear(&mut node, &head(run), Some(about())));
        heard.extend(hear(&mut node, &RunHead { open: false, ..head(run) }, None));
    }
    let open = heard.iter().filter(|effect| matches!(effect, Effect::RunHeard { head, .. } if head.open)).count();
    assert!((MAX_RUNS_OF_PEER..=400).contains(&open) && heard.len() <= 400, "{open} of {}", heard.len());
}

#[test]
fn a_run_is_told_only_to_those_whom_the_policy_lets_read() {
    let mut world = World::new(&[BANK]);
    world.handle(A, Event::RunReaders { bank: BANK, readers: Access::Listed(vec![A, AuthorId([3; 32])]) });
    world.step(10);
    world.connect();
    world.step(10);
    world.pass(120_000);
    assert_eq!((world.copy.as_ref(), world.said.get("run")), (None, None), "it shares the bank, and may not read it");
    let ask = Message::RunFetch { bank: BANK, request: 1, run: RUN, from: 1, offset: 0 };
    world.handle(A, Event::Received { peer: B, message: ask });
    let none = |message: &Message| matches!(message, Message::RunSteps { pieces, .. } if pieces.is_empty());
    assert!(world.wire.iter().all(|(_, _, message)| none(message)) && world.wire.len() == 1, "{:?}", world.wire);
    // Once it may, it is told at once.
    world.handle(A, Event::RunReaders { bank: BANK, readers: Access::Listed(vec![A, B]) });
    world.drain();
    assert_eq!(world.copy.as_ref(), Some(&world.steps));
}
