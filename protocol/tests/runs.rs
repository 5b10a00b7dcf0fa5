//! Runs that are shared: two state machines, and a storage that keeps what they hand to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use folklore_protocol::{
    AuthorId, BankId, Config, Effect, Event, Message, Node, Time,
    run_log::{MAX_RUN_STEP_BYTES, RunAbout, RunHead, RunKey, StepPiece},
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

impl World {
    fn new(banks_of_b: &[BankId]) -> Self {
        let node = |id: AuthorId| (id, Node::new(id, Config::default(), id.0));
        let mut world = Self {
            nodes: [node(A), node(B)].into(),
            now: Time(1_000),
            wire: VecDeque::new(),
            steps: vec![],
            copy: None,
            open: true,
            lose: BTreeSet::new(),
            said: BTreeMap::new(),
        };
        world.handle(A, Event::BankOpened { bank: BANK, held: vec![] });
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
        let head = RunHead { run: RUN, open: self.open, steps: self.steps.len() as u32, state: [0; 32], marks: vec![] };
        self.handle(A, Event::RunShared { bank: BANK, head, about: about() });
        self.drain();
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
