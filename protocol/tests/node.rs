//! The state machine by itself: what it answers to single events.

use folklore_protocol::{
    AuthorId, BankId, Config, Effect, Event, Keypair, Message, Node, Time,
    canonical::DecodeError,
    message::{BankTag, GreetedBank, PROTOCOL_VERSION, RefusalCode},
};

const PEER: AuthorId = AuthorId([9; 32]);

fn node() -> Node {
    Node::new(Keypair::from_seed(&[1; 32]).author(), Config::default(), [7; 32])
}

fn effects(node: &mut Node, event: Event, now: u64) -> Vec<Effect> {
    node.handle(event, Time(now));
    std::iter::from_fn(|| node.next_effect()).collect()
}

fn refusals(effects: &[Effect]) -> Vec<RefusalCode> {
    let code = |effect: &Effect| match effect {
        Effect::Send { message: Message::Refusal { code, .. }, .. } => Some(*code),
        _ => None,
    };
    effects.iter().filter_map(code).collect()
}

#[test]
fn a_peer_of_another_version_is_told_so_and_let_go() {
    let mut node = node();
    effects(&mut node, Event::Connected { peer: PEER, dialled: None }, 0);
    let hello = Message::Hello { version: PROTOCOL_VERSION + 1, banks: Vec::new() };
    let out = effects(&mut node, Event::Received { peer: PEER, message: hello }, 1);
    assert_eq!(refusals(&out), [RefusalCode::Version]);
    assert!(out.iter().any(|e| matches!(e, Effect::Disconnect { peer: PEER, .. })));
}

/// What a node of version 1 says first, with a bank as greetings of that version had it; and one of a later version.
fn other_greetings() -> [Vec<u8>; 2] {
    let old = [&[1, 0, 1, 1], &[7; 16][..], &[9; 32], &[251, 44, 1]].concat();
    [old, vec![1, 0, (PROTOCOL_VERSION + 1) as u8, 9, 9, 9]]
}

#[test]
fn greetings_of_older_and_newer_nodes_are_told_apart_from_garbage_and_answered_so_that_they_understand() {
    for hello in other_greetings() {
        let mut node = node();
        effects(&mut node, Event::Connected { peer: PEER, dialled: None }, 0);
        let error = Message::decode(&hello).expect_err("it is of another version");
        assert_eq!(error, DecodeError::Protocol { found: u32::from(hello[2]) });
        let mut refused = 0;
        // However often it comes back: it is no breach of the protocol to be older.
        for n in 1..20 {
            let out = effects(&mut node, Event::Malformed { peer: PEER, error: error.clone() }, n);
            assert_eq!(refusals(&out), [RefusalCode::Version]);
            assert!(out.iter().any(|e| matches!(e, Effect::Disconnect { peer: PEER, .. })));
            let said = out.iter().find_map(|e| match e {
                Effect::Send { message, .. } => Some(message.encode()),
                _ => None,
            });
            // The layout that no version may change: refusal, code 0, a text.
            let said = said.expect("a refusal");
            assert_eq!((&said[..3], usize::from(said[3])), (&[1, 1, 0][..], said.len() - 4));
            let words = String::from_utf8(said[4..].to_vec()).unwrap();
            assert!(words.contains(&format!("version {}", hello[2])) && words.contains("update the older"), "{words}");
            refused += 1;
            effects(&mut node, Event::Disconnected { peer: PEER }, n);
            let out = effects(&mut node, Event::Connected { peer: PEER, dialled: None }, n);
            assert!(!out.iter().any(|e| matches!(e, Effect::Disconnect { .. })), "it is let in again");
        }
        assert_eq!(refused, 19);
    }
}

#[test]
fn a_request_too_many_is_answered_as_such_by_its_number() {
    let mut node = node();
    let bank = BankId::new(&node.id(), &[3; 16], "home");
    let ids: Vec<_> = (0..20u8).map(|n| folklore_protocol::RecordId([n; 32])).collect();
    effects(&mut node, Event::BankOpened { bank, held: ids.clone() }, 0);
    effects(&mut node, Event::Connected { peer: PEER, dialled: None }, 0);
    let (root, _) = node.roots(&bank).unwrap();
    let greeted = GreetedBank { tag: BankTag::new(&bank, &PEER, &node.id()), root, records: 20, resumes: false };
    let hello = Message::Hello { version: PROTOCOL_VERSION, banks: vec![greeted] };
    effects(&mut node, Event::Received { peer: PEER, message: hello }, 1);
    let mut busy = Vec::new();
    for (request, id) in (0..).zip(ids) {
        let short = folklore_protocol::known::ShortId::of(&id);
        let message = Message::Fetch { bank, request, budget_bytes: 4_096, ids: vec![short] };
        for effect in effects(&mut node, Event::Received { peer: PEER, message }, 2) {
            if let Effect::Send { message: Message::Busy { request, .. }, .. } = effect {
                busy.push(request);
            }
        }
    }
    assert_eq!(busy, (8..20).collect::<Vec<u64>>());
}

#[test]
fn bytes_of_another_format_version_are_answered_as_such_and_others_as_malformed() {
    let mut node = node();
    effects(&mut node, Event::Connected { peer: PEER, dialled: None }, 0);
    let other = Event::Malformed { peer: PEER, error: DecodeError::Version { found: 2 } };
    assert_eq!(refusals(&effects(&mut node, other, 1)), [RefusalCode::Version]);
    let garbage = Event::Malformed { peer: PEER, error: DecodeError::Empty };
    let mut out = effects(&mut node, garbage.clone(), 2);
    assert_eq!(refusals(&out), [RefusalCode::Malformed]);
    for n in 3..10 {
        out.extend(effects(&mut node, garbage.clone(), n));
    }
    assert!(out.iter().any(|e| matches!(e, Effect::Disconnect { peer: PEER, .. })), "garbage is not taken for ever");
}

#[test]
fn what_a_refusal_says_fits_a_message() {
    let mut node = node();
    effects(&mut node, Event::Connected { peer: PEER, dialled: None }, 0);
    let other = Event::Malformed { peer: PEER, error: DecodeError::Version { found: 255 } };
    for effect in effects(&mut node, other, 1) {
        if let Effect::Send { message, .. } = effect {
            assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
    }
}

#[test]
fn a_greeting_names_no_bank_to_one_who_does_not_know_it() {
    let mut node = node();
    let bank = BankId::new(&node.id(), &[3; 16], "home");
    effects(&mut node, Event::BankOpened { bank, held: Vec::new() }, 0);
    let out = effects(&mut node, Event::Connected { peer: PEER, dialled: None }, 1);
    let hello = out.iter().find_map(|e| match e {
        Effect::Send { message: message @ Message::Hello { .. }, .. } => Some(message.encode()),
        _ => None,
    });
    let hello = hello.expect("a greeting");
    assert!(!hello.windows(32).any(|w| w == bank.0));
    // A tag made for another pair of nodes is not taken for knowing the bank.
    let tag = BankTag::new(&bank, &PEER, &AuthorId([8; 32]));
    let (root, _) = node.roots(&bank).unwrap();
    let stolen = Message::Hello {
        version: PROTOCOL_VERSION,
        banks: vec![GreetedBank { tag, root, records: 0, resumes: false }],
    };
    effects(&mut node, Event::Received { peer: PEER, message: stolen }, 2);
    assert!(node.peers().sharing(&bank).is_empty());
}
