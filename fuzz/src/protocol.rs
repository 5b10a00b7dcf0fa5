//! What reads bytes in `folklore-protocol`, and the state machine that gets what was read.

use folklore_protocol::{
    Admission, AuthorId, BankId, Claim, Config, Effect, Event, Item, Keypair, Lesson, LessonId, Message, Node, Policy,
    Record, RecordId, Tally, Time, UnverifiedRecord,
    canonical::{self, Lines},
    message::{BankTag, GreetedBank, MAX_MESSAGE_BYTES, PROTOCOL_VERSION, ProbeAnswer},
    record::MAX_RECORD_BYTES,
    run_log::MAX_RUN_STEP_BYTES,
};

/// A function that takes any bytes, and its name.
pub type Target = (&'static str, fn(&[u8]));

/// Every target here.
pub const TARGETS: &[Target] = &[
    ("record", record),
    ("lesson", lesson),
    ("claim", claim),
    ("policy", policy),
    ("message", message),
    ("state", state),
    ("ids", ids),
    ("text", text),
];

/// The bank that the state machine of [`state`] has, and in which records here are claimed.
pub const BANK: BankId = BankId([7; 32]);
/// Who speaks to it.
pub const PEER: AuthorId = AuthorId([9; 32]);
/// Who it is.
pub const ME: AuthorId = AuthorId([5; 32]);

/// A record's bytes.
pub fn record(bytes: &[u8]) {
    let Ok(record) = UnverifiedRecord::parse(bytes) else { return };
    assert_eq!(&record.bytes()[..], bytes, "a record keeps its bytes");
    let canonical = canonical::encode(record.fields());
    assert_eq!(canonical, bytes[..bytes.len() - 64], "a record has one encoding");
    let id = record.id();
    assert_eq!(id.to_string().parse(), Ok(id));
    if let Ok(record) = record.verify() {
        let mut tally = Tally::new(record.author());
        tally.apply(&record);
        tally.lessons().for_each(|id| assert!(tally.standing(&id).is_some()));
    }
}

/// A lesson's bytes.
pub fn lesson(bytes: &[u8]) {
    let Ok(lesson) = Lesson::from_bytes(bytes) else { return };
    assert_eq!(&lesson.bytes()[..], bytes, "a lesson keeps its bytes");
    assert_eq!(lesson.id(), LessonId::of(bytes));
    let again = Lesson::new(lesson.fields().clone()).expect("what reads is within every limit of writing");
    assert_eq!(again.id(), lesson.id(), "what reads is in normal form");
    assert!(!lesson.text().is_empty());
}

/// A claim, canonical bytes of its own: who signs it makes a record that others read.
pub fn claim(bytes: &[u8]) {
    if let Ok(claim) = canonical::decode::<Claim, MAX_RECORD_BYTES>(bytes) {
        assert_eq!(canonical::encode(&claim), bytes, "a claim has one encoding");
        sign(claim);
    }
}

/// A policy, likewise.
pub fn policy(bytes: &[u8]) {
    if let Ok(policy) = canonical::decode::<Policy, MAX_RECORD_BYTES>(bytes) {
        assert_eq!(canonical::encode(&policy), bytes, "a policy has one encoding");
        assert!(policy.may_read(&ME, &ME) && policy.may_write(&ME, &ME), "an owner reads and writes");
        policy.may_read(&ME, &PEER);
        sign(Claim::Policy(policy));
    }
}

fn sign(claim: Claim) {
    let key = Keypair::from_seed(&[1; 32]);
    let Ok(signed) = Record::sign(&key, BANK, 1, 0, claim.clone()) else { return };
    let read = UnverifiedRecord::parse(signed.bytes()).expect("what signs reads");
    assert_eq!(read.fields().claim, claim);
    let mut tally = Tally::new(key.author());
    tally.apply(&read.verify().expect("it was signed just now"));
    tally.policy();
}

/// A frame's payload.
pub fn message(bytes: &[u8]) {
    let Ok(message) = Message::decode(bytes) else { return };
    assert_eq!(message.encode(), bytes, "a message has one encoding");
    assert!(bytes.len() <= MAX_MESSAGE_BYTES);
    message.bank();
    match &message {
        Message::Push { item, .. } => look(item),
        Message::Records { items, .. } | Message::Answer { items, .. } => items.iter().for_each(look),
        Message::Probe { probes, .. } => probes.iter().for_each(|probe| {
            probe.prefix.matches(&RecordId([0xab; 32]));
            probe.prefix.child(15);
        }),
        Message::Probed { answers, .. } => answers.iter().for_each(|answer| {
            if let ProbeAnswer::Ids(ids) = answer {
                assert!(ids.is_sorted());
            }
        }),
        _ => {}
    }
}

fn look(item: &Item) {
    record(&item.record);
    item.body.iter().for_each(|body| lesson(body));
}

/// Text of ids.
pub fn ids(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(id) = text.parse::<LessonId>() {
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.to_string().to_lowercase(), text.to_lowercase());
    }
    if let Ok(id) = text.parse::<AuthorId>() {
        assert_eq!(id.to_string(), text, "an author has one text");
    }
    if let Ok(id) = text.parse::<BankId>() {
        assert_eq!(id.to_string(), text.to_lowercase());
    }
    if let Ok(id) = text.parse::<RecordId>() {
        assert_eq!(id.to_string(), text.to_lowercase());
    }
}

/// The normal form of text.
pub fn text(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for lines in [Lines::One, Lines::Many] {
        let once = canonical::normalise(&text, lines);
        assert!(canonical::is_normal(&once, lines), "normalising twice changes nothing more");
    }
    for limit in [0, 1, 2, 3, 7, bytes.len()] {
        assert!(canonical::shorten(&text, limit).len() <= limit);
    }
}

/// The state machine of [`state`]: one bank of forty records, one peer that has shown it knows the bank.
pub fn machine() -> Node {
    let mut node = Node::new(ME, Config::default(), [3; 32]);
    let held = (0..40u32).map(held_id).collect();
    node.handle(Event::BankOpened { bank: BANK, held }, Time(0));
    node.handle(Event::Connected { peer: PEER, dialled: None }, Time(0));
    while node.next_effect().is_some() {}
    node
}

/// The `n`th record that it holds.
pub fn held_id(n: u32) -> RecordId {
    RecordId(LessonId::of(&n.to_le_bytes()).0)
}

/// The greeting that shows it that [`PEER`] knows the bank, with another root.
pub fn greeting() -> Message {
    let (tag, root) = (BankTag::new(&BANK, &PEER, &ME), folklore_protocol::Root([1; 32]));
    let banks = vec![GreetedBank { tag, root, records: 40, resumes: false }];
    Message::Hello { version: PROTOCOL_VERSION, banks }
}

/// Messages to the state machine: `00`, two bytes of length (little endian), a frame's payload; or `01` and two bytes of
/// time to wait, in units of 8 milliseconds. A frame that is cut ends it.
pub fn state(bytes: &[u8]) {
    let mut node = machine();
    let (mut now, mut rest) = (Time(0), bytes);
    while let Some(([what, low, high], after)) = rest.split_first_chunk::<3>() {
        let number = u16::from_le_bytes([*low, *high]);
        rest = after;
        if what % 2 == 1 {
            now = now + 8 * u64::from(number);
            feed(&mut node, Event::Tick, now);
            continue;
        }
        let Some((frame, after)) = rest.split_at_checked(usize::from(number)) else { return };
        rest = after;
        let event = match Message::decode(frame) {
            Ok(message) => Event::Received { peer: PEER, message },
            Err(error) => Event::Malformed { peer: PEER, error },
        };
        feed(&mut node, event, now);
    }
    assert!(node.held_len(&BANK) >= 40, "nothing a peer says takes a record away");
}

/// Hands the machine an event, and does what it asks for as a node with good storage would.
fn feed(node: &mut Node, event: Event, now: Time) {
    // Effects and bytes that one message may set off: a walk over the forty records answers far below this, and the most
    // cells that a lying estimate can call for are 3 MiB.
    const MAX_EFFECTS: usize = 4_096;
    const MAX_SENT_BYTES: usize = 4 << 20;
    let mut events = vec![event];
    let (mut effects, mut sent) = (0, 0);
    while let Some(event) = events.pop() {
        node.handle(event, now);
        while let Some(effect) = node.next_effect() {
            effects += 1;
            assert!(effects <= MAX_EFFECTS, "one message sets off {effects} effects");
            match effect {
                Effect::Send { message, .. } => {
                    let frame = message.encode();
                    sent += frame.len();
                    assert!(sent <= MAX_SENT_BYTES, "one message sets off {sent} bytes");
                    assert_eq!(Message::decode(&frame), Ok(message), "a node sends only what a node reads");
                }
                Effect::Admit { ticket, items, .. } => {
                    let judge = |item: folklore_protocol::Incoming| match item.record.verify() {
                        Ok(_) if item.body.iter().all(|b| Lesson::from_bytes(b).is_ok()) => Admission::Stored,
                        _ => Admission::Invalid,
                    };
                    events.push(Event::Admitted { ticket, results: items.into_iter().map(judge).collect() });
                }
                Effect::Load { ticket, ids, .. } => {
                    events.push(Event::Loaded { ticket, items: Vec::new(), absent: ids });
                }
                Effect::Suggest { ticket, count, .. } => {
                    let ids = (0..40).map(held_id).take(count).collect();
                    events.push(Event::Suggested { ticket, ids });
                }
                Effect::Search { ticket, .. } => events.push(Event::Found { ticket, items: Vec::new() }),
                Effect::RunHeard { peer, bank, head, .. } => {
                    events.push(Event::RunHeld { peer, bank, run: head.run, have: Some(0) });
                }
                Effect::StoreSteps { peer, bank, head, from, steps } => {
                    assert!(
                        steps.iter().all(|step| step.len() <= MAX_RUN_STEP_BYTES),
                        "a step is longer than it may be"
                    );
                    let have = Some(from - 1 + steps.len() as u32);
                    events.push(Event::RunHeld { peer, bank, run: head.run, have });
                }
                Effect::LoadSteps { ticket, .. } => events.push(Event::StepsLoaded { ticket, pieces: Vec::new() }),
                Effect::Dial { .. } | Effect::Disconnect { .. } | Effect::Answered { .. } => {}
            }
        }
    }
}
