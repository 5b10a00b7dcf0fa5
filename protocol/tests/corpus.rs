//! The corpus of the fuzz targets, replayed: nothing that decodes bytes panics, what reads is written the same way, and what
//! is allocated is bounded by what came.
//!
//! The seeds are made here by the crate's own encoder, some of them damaged. `UPDATE_CORPUS=1` writes them. What fuzzing found
//! lies beside them under other names, and stays.

use std::collections::VecDeque;

use folklore_protocol::{
    Access, BankId, Claim, Config, Effect, Event, Evidence, Item, Keypair, Lesson, LessonDraft, LessonKind, Message,
    Node, Policy, Principal, Record, RecordId, Root, Time, Verdict, canonical,
    known::{Prefix, ShortId},
    message::{Cell, ESTIMATE_BYTES, Probe, ProbeAnswer, RefusalCode, SketchAnswer, SketchHead},
    run_log::{RunAbout, RunHead, RunKey, RunMark, StepPiece},
};

#[path = "../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../fuzz/src/protocol.rs"]
mod targets;

use replay::{Allowance, mutated, replay};
use targets::{BANK, ME, PEER, TARGETS};

fn key(n: u8) -> Keypair {
    Keypair::from_seed(&[n; 32])
}

fn draft() -> LessonDraft {
    LessonDraft {
        kind: LessonKind::Procedure,
        title: "Zurückzahlen 返金".into(),
        applies_when: "an order is paid".into(),
        not_when: "it was cancelled\nor never booked".into(),
        content: "First the refund, then the cancel [step 4].".into(),
        task: "refund a paid order".into(),
        domain: "retail".into(),
        tags: vec!["order".into(), "refund".into()],
    }
}

fn lessons() -> Vec<Lesson> {
    let plain = LessonDraft { kind: LessonKind::Strategy, tags: vec![], not_when: String::new(), ..draft() };
    [draft(), plain].into_iter().map(|d| Lesson::new(d).unwrap()).collect()
}

fn claims() -> Vec<Claim> {
    let lesson_id = lessons()[0].id();
    let (a, b) = (key(1).author(), key(2).author());
    let evidence = Evidence { injected: vec![lesson_id], reward_milli: Some(-250), ..Evidence::told("person") };
    vec![
        Claim::Taught { lesson_id, evidence },
        Claim::Rated { lesson_id, verdict: Verdict::Hurt, run: Some([4; 32]) },
        Claim::Disputed { lesson_id, reason: "it holds no more".into() },
        Claim::Withdrawn { lesson_id, reason: String::new() },
        Claim::Endorsed { lesson_id },
        Claim::Policy(policies().remove(1)),
        Claim::Revoked { author: a, keep_through_seq: 70_000, reason: "lost key".into() },
        Claim::Rotated { new_author: b },
        Claim::Succeeds { old_author: a },
    ]
}

fn policies() -> Vec<Policy> {
    let mut keys: Vec<_> = (1..5).map(|n| key(n).author()).collect();
    keys.sort();
    let principals = vec![
        Principal { name: "east".into(), authors: vec![keys[0]] },
        Principal { name: "west".into(), authors: vec![keys[1], keys[2]] },
    ];
    let listed = Policy {
        readers: Access::Listed(keys.clone()),
        writers: Access::Listed(vec![keys[3]]),
        principals,
        curators: vec![keys[0]],
        records_per_author: 5_000,
        endorsed_only: true,
    };
    vec![Policy::default(), listed]
}

fn records() -> Vec<Record> {
    (1..)
        .zip(claims())
        .map(|(seq, claim)| Record::sign(&key(1), BANK, seq, 1_767_225_600_000, claim).unwrap())
        .collect()
}

fn id(n: u8) -> RecordId {
    RecordId([n; 32])
}

fn messages() -> Vec<Message> {
    let (bank, session) = (BANK, 7);
    let item = Item { record: records()[0].bytes().to_vec(), body: Some(lessons()[0].bytes().to_vec()) };
    let head = SketchHead { root: Root([3; 32]), records: 60, sum: [5; 16], nonce: Some(1 << 40) };
    let cell = Cell { short: [1; 8], check: [2; 4] };
    let nibbles = |path: &[u8]| path.iter().fold(Prefix::root(), |prefix, n| prefix.child(*n).unwrap());
    let probe = |path: &[u8]| Probe { prefix: nibbles(path), hash: [6; 16] };
    vec![
        targets::greeting(),
        Message::Refusal { code: RefusalCode::Malformed, detail: "that was not a message".into() },
        Message::Push { bank, hops: 2, item: item.clone() },
        Message::Have { bank, ids: vec![id(3), id(1)] },
        Message::Graft { bank },
        Message::Prune { bank },
        Message::Probe { bank, session, probes: vec![probe(&[]), probe(&[10]), probe(&[10, 3, 0])] },
        Message::Probed {
            bank,
            session,
            answers: vec![
                ProbeAnswer::Same,
                ProbeAnswer::Ids(vec![id(1), id(2)]),
                ProbeAnswer::Children(Box::default()),
            ],
        },
        Message::Offer { bank, session, from: 0, ids: vec![id(9)], last: true },
        Message::Fetch { bank, request: 300, budget_bytes: 4_096, ids: vec![ShortId::of(&targets::held_id(3))] },
        Message::Records {
            bank,
            request: 300,
            items: vec![item.clone()],
            absent: vec![id(4)],
            unknown: vec![ShortId([5; 8])],
        },
        Message::Ask { bank, request: 9, query: "refund\nan order".into(), hits: 4 },
        Message::Answer { bank, request: 9, items: vec![item], records: 40 },
        Message::Compare { bank, session, root: Root([3; 32]) },
        Message::Sketch { bank, session, head: Some(head), from: 0, cells: vec![cell; 4], last: true },
        Message::Sketch { bank, session, head: None, from: 4, cells: vec![cell; 2], last: false },
        Message::Sketched { bank, session, answer: SketchAnswer::Same },
        Message::Sketched {
            bank,
            session,
            answer: SketchAnswer::More { have: 28, records: 41, nonce: 1, estimate: Some(vec![0x5a; ESTIMATE_BYTES]) },
        },
        Message::Sketched { bank, session, answer: SketchAnswer::Found { lacks: vec![ShortId([1; 8])], left: 1 } },
        Message::Sketched {
            bank,
            session,
            answer: SketchAnswer::FoundSalted { lacks: vec![id(2)], wants: vec![ShortId([1; 8])], left: 0 },
        },
        Message::Sketched { bank, session, answer: SketchAnswer::Salt { nonce: 7 } },
        Message::Sketched { bank, session, answer: SketchAnswer::Walk },
        Message::Sketched { bank, session, answer: SketchAnswer::Done },
        Message::Busy { bank, request: 9 },
        Message::Suggest { bank, request: 10, near: vec!["refund an order".into()], from: 128 },
        Message::Suggested { bank, request: 10, ids: vec![ShortId([1; 8])] },
        Message::Run { bank, head: run_head(), about: Some(run_about()) },
        Message::RunFetch { bank, request: 11, run: RunKey([7; 16]), from: 1, offset: 0 },
        Message::RunSteps {
            bank,
            request: 12,
            run: RunKey([7; 16]),
            pieces: vec![StepPiece { bytes: vec![1, 0, 1, b'a', 0], left: 0 }, StepPiece { bytes: vec![1], left: 300 }],
        },
    ]
}

fn run_head() -> RunHead {
    let marks = vec![RunMark { n: 3, at_ms: 70_000, action: "pay".into() }];
    RunHead { run: RunKey([7; 16]), open: true, steps: 2, state: [5; 32], marks }
}

fn run_about() -> RunAbout {
    RunAbout {
        name: "shop-7".into(),
        task_key: "shop/7".into(),
        task: "refund an order".into(),
        domain: "retail".into(),
        agent: "clerk".into(),
        tags: vec!["refund".into()],
        began_ms: 70_000,
        branch: Some((key(2).author(), 1, [4; 32])),
    }
}

/// As the target [`targets::state`] reads them.
fn script(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    for frame in frames {
        out.push(0);
        out.extend((frame.len() as u16).to_le_bytes());
        out.extend(frame);
    }
    out
}

/// What a real peer says to the machine under test, that lacks some of its records and has others. `walk`: it only walks.
fn conversation(records: std::ops::Range<u32>, walk: bool) -> Vec<u8> {
    let mut ours = targets::machine();
    let mut theirs = Node::new(PEER, Config::default(), [8; 32]);
    let held = records.map(targets::held_id).collect();
    theirs.handle(Event::BankOpened { bank: BANK, held }, Time(0));
    theirs.handle(Event::Connected { peer: ME, dialled: None }, Time(0));
    ours.handle(Event::Connected { peer: PEER, dialled: None }, Time(0));
    let (mut said, mut queue) = (Vec::new(), VecDeque::new());
    loop {
        for (n, node) in [&mut ours, &mut theirs].into_iter().enumerate() {
            while let Some(effect) = node.next_effect() {
                if let Effect::Send { message, .. } = effect {
                    queue.push_back((n, message));
                }
            }
        }
        let Some((from, message)) = queue.pop_front() else { return script(&said) };
        let (to, peer) = if from == 0 { (&mut theirs, ME) } else { (&mut ours, PEER) };
        if from == 1 {
            said.push(message.encode());
        }
        if walk && let Message::Sketch { bank, session, .. } = message {
            let answer = Message::Sketched { bank, session, answer: SketchAnswer::Walk };
            queue.push_back((1 - from, answer));
            continue;
        }
        if said.len() < 40 {
            to.handle(Event::Received { peer, message }, Time(0));
        }
    }
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let bytes = |message: &Message| message.encode();
    let canon = |claims: Vec<Claim>| claims.iter().map(canonical::encode).collect::<Vec<_>>();
    let mut seeds: Vec<Vec<u8>> = match target {
        "record" => records().iter().map(|r| r.bytes().to_vec()).collect(),
        "lesson" => lessons().iter().map(|l| l.bytes().to_vec()).collect(),
        "claim" => canon(claims()),
        "policy" => policies().iter().map(canonical::encode).collect(),
        "message" => messages().iter().map(bytes).collect(),
        "state" => {
            let all: Vec<Vec<u8>> = messages().iter().map(bytes).collect();
            let mut waits = script(&all[..1]);
            waits.extend([1, 0x00, 0x10]);
            vec![
                script(&all),
                waits,
                conversation(20..60, false),
                conversation(0..0, false),
                conversation(0..2_000, false),
                conversation(30..90, true),
            ]
        }
        "ids" => {
            let (author, bank) = (key(1).author(), BankId::new(&key(1).author(), &[0; 16], "home"));
            let texts = [lessons()[0].id().to_string(), author.to_string(), bank.to_string(), id(200).to_string()];
            texts.into_iter().map(String::into_bytes).collect()
        }
        "text" => ["a\r\nb\rc\td ", "e\u{200b}\u{301}\u{202e}x\u{fe0f}", "\u{1100}\u{1161}\u{11a8} \u{fb01} \u{2028}"]
            .into_iter()
            .map(|t| t.as_bytes().to_vec())
            .collect(),
        other => panic!("no seeds for {other}"),
    };
    let whole = seeds.clone();
    seeds.extend(whole.iter().enumerate().map(|(n, seed)| mutated(seed, &whole, 1_000 + n as u64)));
    seeds
}

#[test]
fn nothing_in_the_corpus_panics_reads_otherwise_than_written_or_allocates_beyond_its_size() {
    for target in TARGETS {
        let allowance = match target.0 {
            // Cells of a session, which grow with what is claimed up to a bound of their own.
            "state" => Allowance { fixed: 8 << 20, each: 512, pinned: false },
            _ => Allowance { fixed: 16 << 10, each: 64, pinned: true },
        };
        let mutations = if target.0 == "state" { 60 } else { 300 };
        replay(*target, &seeds(target.0), mutations, &allowance);
    }
}
