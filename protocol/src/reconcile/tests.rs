//! Two nodes that reconcile, every message through its bytes, against the plain difference of their sets.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;

use super::{MAX_SESSION_CELLS, Which, cells::mix, session::Stage, sketch::MAX_KEPT};
use crate::{
    bank::BankId,
    config::Config,
    event::{Effect, Event},
    identity::AuthorId,
    known::{Known, Root, ShortId},
    message::{Cell, MAX_CELLS, Message, SketchAnswer, SketchHead},
    node::Node,
    record::RecordId,
    time::Time,
};

const BANK: BankId = BankId([7; 32]);
const PEERS: [AuthorId; 2] = [AuthorId([1; 32]), AuthorId([2; 32])];

type Set = BTreeSet<RecordId>;

fn id(set: u64, n: u64) -> RecordId {
    RecordId(*blake3::hash(&[set.to_le_bytes(), n.to_le_bytes()].concat()).as_bytes())
}

fn set(number: u64, n: u64) -> Set {
    (0..n).map(|k| id(number, k)).collect()
}

/// An id that shares all but its last `tail` bytes with every other made under `base`.
fn twin(base: u64, n: u64, tail: usize) -> RecordId {
    let mut made = id(99, base);
    let own = id(98, n);
    made.0[32 - tail..].copy_from_slice(&own.0[32 - tail..]);
    made
}

struct Pair {
    nodes: [Node; 2],
    held: [Set; 2],
    now: Time,
    queue: VecDeque<(usize, Message)>,
    seen: BTreeMap<&'static str, usize>,
    bytes: usize,
    /// Drops a message of this number.
    lose: Option<usize>,
    messages: usize,
    /// Short ids asked for that no record has.
    ghosts: usize,
    said: [bool; 2],
}

impl Pair {
    fn new(held: [Set; 2]) -> Self {
        let nodes = [0, 1].map(|n| Node::new(PEERS[n], Config::default(), [n as u8 + 1; 32]));
        let queue = VecDeque::new();
        let seen = BTreeMap::new();
        let (now, said) = (Time(0), [false; 2]);
        let mut pair = Self { nodes, held, now, queue, seen, bytes: 0, lose: None, messages: 0, ghosts: 0, said };
        for n in [0, 1] {
            let held = pair.held[n].iter().copied().collect();
            pair.handle(n, Event::BankOpened { bank: BANK, held });
        }
        pair
    }

    fn connect(&mut self) {
        for n in [0, 1] {
            self.handle(n, Event::Connected { peer: PEERS[1 - n], dialled: None });
        }
        self.talk();
    }

    /// The same, but what they fetch stays unanswered.
    fn connect_to_find_out(&mut self) {
        for n in [0, 1] {
            self.handle(n, Event::Connected { peer: PEERS[1 - n], dialled: None });
        }
        while let Some((to, message)) = self.queue.pop_front() {
            *self.seen.entry(name(&message)).or_default() += 1;
            if !matches!(message, Message::Fetch { .. }) {
                self.handle(to, Event::Received { peer: PEERS[1 - to], message });
            }
        }
    }

    fn handle(&mut self, n: usize, event: Event) {
        self.nodes[n].handle(event, self.now);
        self.drain(n);
    }

    fn drain(&mut self, n: usize) {
        while let Some(effect) = self.nodes[n].next_effect() {
            let Effect::Send { message, .. } = effect else { continue };
            let frame = message.encode();
            self.bytes += frame.len();
            self.queue.push_back((1 - n, Message::decode(&frame).expect("a node sends only what a node reads")));
        }
    }

    /// Lets them talk till nothing is left to say, nor any cells to be made. A fetch is answered by the records being known at
    /// once.
    fn talk(&mut self) {
        loop {
            self.say();
            if self.nodes.iter().all(|node| node.banks.values().all(|bank| bank.coding.is_empty())) {
                return;
            }
            self.now = self.now + 1;
            for n in [0, 1] {
                self.handle(n, Event::Tick);
            }
        }
    }

    fn say(&mut self) {
        while let Some((to, message)) = self.queue.pop_front() {
            self.messages += 1;
            if self.lose == Some(self.messages) {
                continue;
            }
            *self.seen.entry(name(&message)).or_default() += 1;
            match message {
                Message::Fetch { ids, request, .. } => self.fetched(1 - to, request, ids),
                message => self.handle(to, Event::Received { peer: PEERS[1 - to], message }),
            }
            self.check();
        }
    }

    fn fetched(&mut self, n: usize, request: u64, shorts: Vec<ShortId>) {
        let other = 1 - n;
        for short in shorts {
            let come: Vec<RecordId> = self.held[other].range(short.range()).copied().collect();
            let node = &mut self.nodes[n];
            if come.is_empty() {
                node.banks.get_mut(&BANK).unwrap().wanted.drop_source(&short, &PEERS[other]);
                node.resolved(BANK, Which::Short(short), Some(&PEERS[other]), false, self.now);
                self.ghosts += 1;
            }
            for id in come {
                let state = node.banks.get_mut(&BANK).unwrap();
                state.known.hold(id);
                state.wanted.resolve(id);
                self.held[n].insert(id);
                node.resolved(BANK, Which::Id(&id), None, true, self.now);
            }
        }
        // As `receive_records` does: the request is over, and the next goes out.
        let node = &mut self.nodes[n];
        let state = node.banks.get_mut(&BANK).unwrap();
        state.wanted.end(request, false);
        node.pump(BANK, self.now);
        self.drain(n);
    }

    /// Nobody says that it is complete who lacks anything.
    fn check(&mut self) {
        for n in [0, 1] {
            if self.complete(n) && !std::mem::replace(&mut self.said[n], true) {
                let lacks = self.held[1 - n].difference(&self.held[n]).count();
                assert_eq!(lacks, 0, "node {n} says that it is complete");
            }
        }
    }

    fn complete(&self, n: usize) -> bool {
        self.nodes[n].peers().get(&PEERS[1 - n]).is_some_and(|p| p.complete_as_of.contains_key(&BANK))
    }

    fn agree(&self) -> bool {
        self.held[0] == self.held[1]
    }

    fn used(&self, name: &str) -> usize {
        self.seen.get(name).copied().unwrap_or_default()
    }

    /// Moves the clock on to whatever is due next, as often as asked.
    fn wait(&mut self, times: usize) {
        for _ in 0..times {
            let due = [0, 1].iter().filter_map(|n| self.nodes[*n].next_deadline()).min();
            self.now = due.unwrap_or(self.now).max(self.now);
            for n in [0, 1] {
                self.handle(n, Event::Tick);
            }
            self.talk();
        }
    }
}

fn name(message: &Message) -> &'static str {
    match message {
        Message::Compare { .. } => "compare",
        Message::Sketch { head: Some(SketchHead { nonce: Some(_), .. }), .. } => "salted sketch",
        Message::Sketch { .. } => "sketch",
        Message::Sketched { answer: SketchAnswer::Done, .. } => "done",
        Message::Sketched { answer: SketchAnswer::More { .. }, .. } => "more",
        Message::Sketched { .. } => "sketched",
        Message::Probe { .. } => "probe",
        Message::Fetch { .. } => "fetch",
        Message::Offer { .. } => "offer",
        _ => "other",
    }
}

fn union(sets: &[&Set]) -> Set {
    sets.iter().flat_map(|s| s.iter().copied()).collect()
}

/// Reconciles two sets; they must come out equal, and both nodes must know it.
fn reconcile(ours: &Set, theirs: &Set) -> Pair {
    let mut pair = Pair::new([ours.clone(), theirs.clone()]);
    pair.connect();
    pair.wait(4);
    assert_eq!(pair.held[0], union(&[ours, theirs]));
    assert!(pair.agree() && pair.complete(0) && pair.complete(1));
    assert_eq!(pair.nodes[0].roots(&BANK), pair.nodes[1].roots(&BANK));
    assert_eq!(pair.ghosts, 0);
    pair
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_two_sets_become_one(common in 0u64..10_000, ours in 0u64..400, theirs in 0u64..400, sides in 0u8..4) {
        let (a, b) = (set(1, if sides & 1 == 0 { ours } else { 0 }), set(2, if sides & 2 == 0 { theirs } else { 0 }));
        let common = set(0, common);
        let pair = reconcile(&union(&[&common, &a]), &union(&[&common, &b]));
        prop_assert_eq!(pair.used("probe"), 0, "hashes need no walk");
    }

    #[test]
    fn prepared_ids_are_found_too(
        common in 0u64..300, ours in 0u64..40, theirs in 0u64..40,
        twins in proptest::collection::vec((0u64..4, 0u64..6, 1usize..28, 1u8..4), 0..12),
    ) {
        let common = set(0, common);
        let (mut a, mut b) = (union(&[&common, &set(1, ours)]), union(&[&common, &set(2, theirs)]));
        for (base, n, tail, sides) in twins {
            if sides & 1 != 0 { a.insert(twin(base, n, tail)); }
            if sides & 2 != 0 { b.insert(twin(base, n, tail)); }
        }
        reconcile(&a, &b);
    }

    #[test]
    fn one_lost_message_delays_and_spoils_nothing(common in 0u64..200, ours in 0u64..60, theirs in 0u64..60, lose in 1usize..14) {
        let common = set(0, common);
        let (a, b) = (union(&[&common, &set(1, ours)]), union(&[&common, &set(2, theirs)]));
        let mut pair = Pair::new([a, b]);
        pair.lose = Some(lose);
        pair.connect();
        for _ in 0..60 {
            pair.wait(1);
        }
        prop_assert!(pair.agree(), "{:?}", pair.seen);
        prop_assert!(pair.complete(0) && pair.complete(1));
    }

    #[test]
    fn an_answerer_survives_whatever_cells_and_heads_it_gets(
        held in 0u64..300,
        batches in proptest::collection::vec((any::<bool>(), any::<u64>(), 0u32..80, 0usize..90, any::<bool>(), any::<bool>(), any::<u64>()), 1..30),
    ) {
        let mut pair = Pair::new([Set::new(), set(0, held)]);
        pair.connect();
        let before = pair.held[1].clone();
        for (begin, records, from, cells, last, salted, seed) in batches {
            let head = SketchHead { root: Root([3; 32]), records, sum: [5; 16], nonce: salted.then_some(seed) };
            let cell = |n: u64| Cell { short: mix(seed ^ n).to_le_bytes(), check: (mix(seed + n) as u32).to_le_bytes() };
            let message = Message::Sketch {
                bank: BANK, session: 1, head: begin.then_some(head), from: if begin { 0 } else { from.max(1) },
                cells: (0..cells as u64).map(cell).collect(), last,
            };
            pair.nodes[1].handle(Event::Received { peer: PEERS[0], message }, pair.now);
            while pair.nodes[1].next_effect().is_some() {}
        }
        prop_assert_eq!(&pair.held[1], &before);
        let state = &pair.nodes[1].banks[&BANK];
        prop_assert!(state.responding.values().all(|r| r.sketched.as_ref().is_none_or(|s| s.theirs.len() <= MAX_SESSION_CELLS)));
    }

    #[test]
    fn an_opener_survives_whatever_answers_it_gets(answers in proptest::collection::vec((0u8..7, any::<u32>(), any::<u64>(), 0usize..30), 1..30)) {
        let mut pair = Pair::new([set(1, 40), set(2, 50)]);
        pair.connect();
        pair.held = [set(1, 40), set(2, 50)];
        let mut node = Node::new(PEERS[0], Config::default(), [9; 32]);
        node.handle(Event::BankOpened { bank: BANK, held: pair.held[0].iter().copied().collect() }, Time(0));
        node.handle(Event::Connected { peer: PEERS[1], dialled: None }, Time(0));
        let tag = crate::message::BankTag::new(&BANK, &PEERS[1], &PEERS[0]);
        let banks = vec![crate::message::GreetedBank { tag, root: Root([1; 32]), records: 50, resumes: false }];
        node.handle(Event::Received { peer: PEERS[1], message: Message::Hello { version: crate::message::PROTOCOL_VERSION, banks } }, Time(0));
        for (kind, small, large, len) in answers {
            let Some(session) = node.banks[&BANK].sessions.get(&PEERS[1]).map(|s| s.number) else { break };
            let shorts: Vec<ShortId> = (0..len).map(|n| ShortId::from_value(mix(large ^ n as u64))).collect();
            let answer = match kind {
                0 => SketchAnswer::Same,
                1 => SketchAnswer::More { have: small % 90, records: large, nonce: large, estimate: (len > 15).then(|| vec![small as u8; 640]) },
                2 => SketchAnswer::Found { lacks: shorts, left: small % 40 },
                3 => SketchAnswer::FoundSalted { lacks: set(3, len as u64).into_iter().collect(), wants: shorts, left: small % 40 },
                4 => SketchAnswer::Salt { nonce: large },
                5 => SketchAnswer::Walk,
                _ => SketchAnswer::Done,
            };
            node.handle(Event::Received { peer: PEERS[1], message: Message::Sketched { bank: BANK, session, answer } }, Time(0));
            let mut cells = 0;
            while let Some(effect) = node.next_effect() {
                if let Effect::Send { message: Message::Sketch { cells: sent, .. }, .. } = &effect {
                    cells += sent.len();
                }
            }
            prop_assert!(cells <= MAX_SESSION_CELLS);
        }
        prop_assert_eq!(node.held_len(&BANK), 40);
        prop_assert!(node.missing_len(&BANK) <= 30 * 30);
    }
}

#[test]
fn differences_from_none_to_all_and_to_a_hundred_thousand() {
    for (common, ours, theirs) in [
        (0, 0, 0),
        (0, 1, 0),
        (0, 0, 1),
        (5, 0, 0),
        (0, 3_000, 3_000),
        (0, 0, 20_000),
        (20_000, 2_000, 2_000),
        (90_000, 8_000, 2_000),
    ] {
        let common = set(0, common);
        let pair = reconcile(&union(&[&common, &set(1, ours)]), &union(&[&common, &set(2, theirs)]));
        assert_eq!(pair.used("probe"), 0);
    }
    let pair = reconcile(&set(1, 50_000), &union(&[&set(0, 10), &set(2, 50_000)]));
    assert!(pair.used("more") <= 4, "{:?}", pair.seen);
}

#[test]
fn a_difference_of_up_to_two_thousand_is_found_in_two_round_trips_but_for_one_time_in_a_thousand() {
    const TRIALS: u64 = 1_000;
    let common = Known::holding(set(0, 10_000));
    let mut late = Vec::new();
    for trial in 0..TRIALS {
        // Evenly over the orders of magnitude, and over how it lies between the two sides.
        let drawn = mix(trial + 1);
        let d = 2u64.pow((drawn % 11) as u32) + (drawn >> 8) % 2u64.pow((drawn % 11) as u32).min(976);
        let ours = [d / 2, 0, d, d / 3, d - d / 20, d / 10][(drawn >> 40) as usize % 6];
        let mut pair = Pair::new([Set::new(), Set::new()]);
        for (n, (set, alone)) in [(1_000_000 + trial, ours), (2_000_000 + trial, d - ours)].into_iter().enumerate() {
            let known = &mut pair.nodes[n].banks.get_mut(&BANK).unwrap().known;
            *known = common.clone();
            (0..alone).for_each(|k| assert!(known.hold(id(set, k))));
        }
        pair.connect_to_find_out();
        assert_eq!((pair.used("salted sketch"), pair.used("probe")), (0, 0));
        assert_eq!(pair.nodes[0].missing_len(&BANK) as u64, d - ours);
        assert_eq!(pair.nodes[1].missing_len(&BANK) as u64, ours);
        if pair.used("more") > 1 {
            late.push((d, ours));
        }
    }
    assert!(late.len() as u64 <= TRIALS / 1_000, "{late:?}");
}

#[test]
fn beyond_what_cells_can_tell_the_tree_does_it() {
    let pair = reconcile(&Set::new(), &set(2, MAX_SESSION_CELLS as u64 + 1));
    assert_eq!(pair.used("sketch"), 0);
    assert!(pair.used("probe") > 0);
}

#[test]
fn colliding_short_ids_are_found_under_a_salt_without_a_walk() {
    // One on either side, both on one side, and beside one that both know; alone and among others.
    let cases: [(&[u64], &[u64]); 4] = [(&[1], &[2]), (&[1, 2], &[]), (&[1], &[1, 2]), (&[1, 2, 3], &[3, 4])];
    for more in [0, 30] {
        for (ours, theirs) in cases {
            let with = |twins: &[u64], number| {
                let twins: Set = twins.iter().map(|n| twin(5, *n, 24)).collect();
                union(&[&set(0, 500), &set(number, more), &twins])
            };
            let pair = reconcile(&with(ours, 1), &with(theirs, 2));
            assert!(pair.used("salted sketch") > 0, "{ours:?} {theirs:?}");
            assert_eq!(pair.used("probe"), 0, "{ours:?} {theirs:?}");
        }
    }
}

#[test]
fn a_kept_sketch_gone_wrong_is_found_out_and_the_sets_become_equal_all_the_same() {
    // A planted bug: what is kept on one side has an id too many, or lacks one, in the cells and in the sum.
    for (extra, alone) in [(true, 0), (false, 0), (true, 20), (false, 20)] {
        for broken in [0, 1] {
            let common = set(0, 300);
            let (a, b) = (union(&[&common, &set(1, 10 + alone)]), union(&[&common, &set(2, alone)]));
            let whole = union(&[&a, &b]);
            let mut pair = Pair::new([a, b]);
            let known = &mut pair.nodes[broken].banks.get_mut(&BANK).unwrap().known;
            match extra {
                true => known.break_sketch(|sketch| sketch.add(&id(77, 1))),
                false => known.break_sketch(|sketch| sketch.remove(&id(0, 7))),
            }
            pair.connect();
            pair.wait(6);
            assert_eq!(pair.held, [whole.clone(), whole], "extra {extra} alone {alone} broken {broken}");
        }
    }
}

#[test]
fn equal_roots_end_a_comparison_in_one_round_trip_of_119_bytes() {
    let mut pair = Pair::new([set(0, 2_000), set(0, 2_000)]);
    pair.connect();
    pair.bytes = 0;
    pair.handle(0, Event::Sync { peer: None });
    pair.talk();
    assert_eq!((pair.used("compare"), pair.used("sketch")), (1, 0));
    assert!(pair.bytes <= 128, "{}", pair.bytes);
}

#[test]
fn a_lying_count_and_endless_cells_end_at_the_tree_within_bounds() {
    let mut pair = Pair::new([Set::new(), set(0, 50)]);
    pair.connect();
    let mut walked = false;
    let mut from = 0u32;
    let noise = |n: u32| Cell { short: mix(u64::from(n)).to_le_bytes(), check: n.to_le_bytes() };
    while !walked && (from as usize) < 2 * MAX_SESSION_CELLS {
        let head = SketchHead { root: Root([3; 32]), records: u64::MAX, sum: [0; 16], nonce: None };
        let cells = (from..from + MAX_CELLS as u32).map(noise).collect();
        let message =
            Message::Sketch { bank: BANK, session: 4, head: (from == 0).then_some(head), from, cells, last: false };
        from += MAX_CELLS as u32;
        pair.nodes[1].handle(Event::Received { peer: PEERS[0], message }, pair.now);
        while let Some(effect) = pair.nodes[1].next_effect() {
            walked |=
                matches!(effect, Effect::Send { message: Message::Sketched { answer: SketchAnswer::Walk, .. }, .. });
        }
    }
    assert!(walked);
    assert!(from as usize <= MAX_SESSION_CELLS + MAX_CELLS);
    let state = &pair.nodes[1].banks[&BANK];
    assert!(state.responding.values().all(|r| r.sketched.is_none()), "and nothing of it is kept");
}

#[test]
fn cells_of_a_silent_peer_are_dropped_and_large_ones_are_few() {
    let config = Config::default();
    let mut node = Node::new(PEERS[1], config.clone(), [1; 32]);
    node.handle(Event::BankOpened { bank: BANK, held: set(0, 20_000).into_iter().collect() }, Time(0));
    let peer = |n: u8| AuthorId([n; 32]);
    let mut walks = 0;
    for n in 10..20 {
        node.handle(Event::Connected { peer: peer(n), dialled: None }, Time(0));
        let tag = crate::message::BankTag::new(&BANK, &peer(n), &PEERS[1]);
        let banks = vec![crate::message::GreetedBank { tag, root: Root([1; 32]), records: 5, resumes: false }];
        let hello = Message::Hello { version: crate::message::PROTOCOL_VERSION, banks };
        node.handle(Event::Received { peer: peer(n), message: hello }, Time(0));
        let head = SketchHead { root: Root([n; 32]), records: 90_000, sum: [0; 16], nonce: None };
        let cells = vec![Cell { short: [n; 8], check: [n; 4] }; MAX_KEPT + 1];
        let message = Message::Sketch { bank: BANK, session: 1, head: Some(head), from: 0, cells, last: false };
        node.handle(Event::Received { peer: peer(n), message }, Time(0));
        while let Some(effect) = node.next_effect() {
            walks += u32::from(matches!(
                effect,
                Effect::Send { message: Message::Sketched { answer: SketchAnswer::Walk, .. }, .. }
            ));
        }
    }
    let large = |node: &Node| node.banks[&BANK].responding.values().filter(|r| r.is_large()).count();
    assert_eq!((large(&node), walks), (super::MAX_LARGE, 10 - super::MAX_LARGE as u32));
    let later = Time(config.request_timeout_ms + 1);
    let head = SketchHead { root: Root([9; 32]), records: 5, sum: [0; 16], nonce: None };
    let message = Message::Sketch { bank: BANK, session: 2, head: Some(head), from: 0, cells: vec![], last: false };
    node.handle(Event::Received { peer: peer(19), message }, later);
    assert_eq!(large(&node), 0);
}

#[test]
fn a_session_whose_records_never_come_says_nothing_of_complete_and_is_replaced() {
    let mut pair = Pair::new([set(1, 30), set(2, 30)]);
    pair.connect_to_find_out();
    assert!(!pair.complete(0) && !pair.complete(1));
    let session = &pair.nodes[0].banks[&BANK].sessions[&PEERS[1]];
    assert!(matches!(session.stage, Stage::Found { confirmed: false }));
    assert_eq!((session.pending.len(), pair.nodes[0].missing_len(&BANK)), (30, 30));
}

#[test]
fn a_lost_offer_is_noticed_at_once_and_a_lost_last_one_before_the_next_regular_comparison() {
    for lost in [Some(1), Some(2), Some(3), None] {
        let mut pair = Pair::new([set(1, 3_500), set(2, 20)]);
        for n in [0, 1] {
            pair.handle(n, Event::Connected { peer: PEERS[1 - n], dialled: None });
        }
        let mut offers = 0;
        while let Some((to, message)) = pair.queue.pop_front() {
            *pair.seen.entry(name(&message)).or_default() += 1;
            match message {
                // The first comparison is by the tree.
                Message::Sketch { session, .. } if offers == 0 => {
                    let message = Message::Sketched { bank: BANK, session, answer: SketchAnswer::Walk };
                    pair.handle(1 - to, Event::Received { peer: PEERS[to], message });
                    continue;
                }
                Message::Offer { last, .. } => {
                    offers += 1;
                    if lost.map_or(last, |n| offers == n) {
                        continue;
                    }
                }
                _ => {}
            }
            match message {
                Message::Fetch { ids, request, .. } => pair.fetched(1 - to, request, ids),
                message => pair.handle(to, Event::Received { peer: PEERS[1 - to], message }),
            }
        }
        assert!(offers > 3, "{:?}", pair.seen);
        if lost.is_some() {
            assert!(pair.agree(), "offer {lost:?}: {:?}", pair.seen);
        } else {
            assert!(!pair.complete(0) && !pair.complete(1), "neither can know");
        }
        while pair.now < Time(Config::default().request_timeout_ms) {
            pair.wait(1);
        }
        assert!(pair.agree() && pair.complete(0) && pair.complete(1), "offer {lost:?}: {:?}", pair.seen);
    }
}

#[test]
fn what_arrives_between_two_batches_does_no_harm() {
    // Large enough that the first cells do not do, and more are asked for.
    let common = set(0, 3_000);
    let mut pair = Pair::new([union(&[&common, &set(1, 600)]), union(&[&common, &set(2, 600)])]);
    for n in [0, 1] {
        pair.handle(n, Event::Connected { peer: PEERS[1 - n], dialled: None });
    }
    let mut fresh = 0;
    while let Some((to, message)) = pair.queue.pop_front() {
        if matches!(message, Message::Sketch { .. } | Message::Sketched { .. }) {
            for n in [0, 1] {
                fresh += 1;
                let new = id(50 + n as u64, fresh);
                pair.nodes[n].banks.get_mut(&BANK).unwrap().known.hold(new);
                pair.held[n].insert(new);
            }
        }
        *pair.seen.entry(name(&message)).or_default() += 1;
        match message {
            Message::Fetch { ids, request, .. } => pair.fetched(1 - to, request, ids),
            message => pair.handle(to, Event::Received { peer: PEERS[1 - to], message }),
        }
    }
    assert_eq!((pair.used("salted sketch"), pair.used("probe")), (0, 0), "{:?}", pair.seen);
    assert!(pair.used("sketch") <= 3, "{:?}", pair.seen);
    // What came late is not part of what they said to be complete as of then.
    pair.said = [true; 2];
    pair.wait(4);
    assert!(pair.agree());
}
