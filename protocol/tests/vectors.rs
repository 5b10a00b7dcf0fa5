//! The byte format, pinned by the committed files in `tests/vectors`; `FORMAT.md` says how to read them.
//!
//! Each test makes its cases anew and compares them with the file, then reads the file as another implementation would:
//! from the JSON to bytes, and from the bytes back. With `UPDATE_VECTORS=1` the files are written instead of compared.
//! A difference means that the format changed: nodes of the two builds would not understand each other.

use std::{fs, path::PathBuf};

use data_encoding::HEXLOWER;
use folklore_protocol::{
    Access, AuthorId, BankId, Claim, Config, Effect, Event, Evidence, Item, Keypair, Lesson, LessonDraft, LessonError,
    LessonId, LessonKind, Message, Node, Outcome, Policy, Principal, Record, RecordError, RecordId, Root, Time,
    UnverifiedRecord, Verdict,
    bank::{BankSalt, MAX_POLICY_KEYS, MAX_PRINCIPAL_NAME_BYTES, MAX_PRINCIPALS},
    canonical::{self, DecodeError, FORMAT_VERSION, Lines},
    claim::{MAX_INJECTED, MAX_NAME_BYTES, MAX_REASON_BYTES},
    known::{IdTree, LEAF_IDS, Prefix, ShortId, Subtree},
    lesson::{
        MAX_BODY_BYTES, MAX_CONDITION_BYTES, MAX_CONTENT_BYTES, MAX_DOMAIN_BYTES, MAX_TAG_BYTES, MAX_TAGS,
        MAX_TASK_BYTES, MAX_TITLE_BYTES,
    },
    message::{
        BankTag, Cell, ESTIMATE_BYTES, GreetedBank, ITEMS_BUDGET_BYTES, MAX_ASKED_HITS, MAX_CELLS, MAX_FETCH,
        MAX_GREETED_BANKS, MAX_IDS, MAX_MESSAGE_BYTES, MAX_NEAR, MAX_NEAR_BYTES, MAX_PROBES, MAX_QUERY_BYTES,
        MAX_SHORT_IDS, PROTOCOL_VERSION, Probe, ProbeAnswer, RefusalCode, SketchAnswer, SketchHead,
    },
    record::{MAX_RECORD_BYTES, RecordFields},
    run_log::{
        MAX_MARK_BYTES, MAX_PIECES, MAX_RUN_LINE_BYTES, MAX_RUN_MARKS, MAX_RUN_STEP_BYTES, MAX_RUN_STEPS, MAX_RUN_TAGS,
        MAX_RUN_TASK_BYTES, RunAbout, RunHead, RunKey, RunMark, StepPiece,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

/// The second the example records claim to have been written in. Any number would do.
const AT_MS: u64 = 1_767_225_600_000;
/// Runs of one byte at least this long are written as byte and number.
const RUN: usize = 48;

// ---- the files ----

/// Compares `made` with the committed file (or writes it, when asked to) and gives back what the file says.
fn committed(file: &str, made: &Value) -> Vec<Value> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(file);
    let text = readable(made);
    if std::env::var_os("UPDATE_VECTORS").is_some_and(|v| v == "1") {
        fs::write(&path, &text).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let found: Value = serde_json::from_str(&found).unwrap();
    let (found_cases, made_cases) = (found.as_array().unwrap(), made.as_array().unwrap());
    for (found, made) in found_cases.iter().zip(made_cases) {
        assert_eq!(
            found, made,
            "{file} says another thing than this build. If the format is meant to change, raise its version, change \
             FORMAT.md, and write the files with UPDATE_VECTORS=1"
        );
    }
    assert_eq!(found_cases.len(), made_cases.len(), "{file} has another number of cases than this build makes");
    found_cases.clone()
}

/// JSON with everything outside ASCII escaped: half of what the vectors are about cannot be seen.
fn readable(value: &Value) -> String {
    let mut out = String::new();
    for c in serde_json::to_string_pretty(value).unwrap().chars() {
        if c.is_ascii() && c != '\u{7f}' {
            out.push(c);
        } else {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        }
    }
    out + "\n"
}

/// Bytes as hex; with long runs of one byte a list of hex and of `{"byte", "times"}`.
fn hex(bytes: &[u8]) -> Value {
    let mut parts: Vec<Value> = Vec::new();
    let mut plain: Vec<u8> = Vec::new();
    for run in bytes.chunk_by(|a, b| a == b) {
        if run.len() < RUN {
            plain.extend_from_slice(run);
            continue;
        }
        if !plain.is_empty() {
            parts.push(HEXLOWER.encode(&std::mem::take(&mut plain)).into());
        }
        parts.push(json!({ "byte": HEXLOWER.encode(&run[..1]), "times": run.len() }));
    }
    if parts.is_empty() {
        return HEXLOWER.encode(&plain).into();
    }
    if !plain.is_empty() {
        parts.push(HEXLOWER.encode(&plain).into());
    }
    parts.into()
}

/// The bytes that [`hex`] wrote.
fn unhex(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => HEXLOWER.decode(text.as_bytes()).unwrap(),
        Value::Array(parts) => parts.iter().flat_map(unhex).collect(),
        _ => unhex(&value["byte"]).repeat(value["times"].as_u64().unwrap() as usize),
    }
}

fn text<'a>(case: &'a Value, key: &str) -> &'a str {
    case[key].as_str().unwrap_or_else(|| panic!("{key} in {case}"))
}

// ---- values as JSON: serde's own form, but with ids and bytes as text ----

/// How the byte strings under a key are written.
#[derive(Clone, Copy)]
enum Form {
    Hex,
    Lesson,
    Author,
}

fn form(key: &str) -> Option<Form> {
    match key {
        "bank" | "run" | "run_digest" | "tag" | "root" | "hash" | "record" | "body" | "bytes" | "ids" | "absent"
        | "unknown" | "Ids" | "Children" | "sum" | "short" | "check" | "estimate" | "lacks" | "wants" => {
            Some(Form::Hex)
        }
        "lesson_id" | "injected" => Some(Form::Lesson),
        "author" | "new_author" | "old_author" | "curators" | "authors" | "Listed" => Some(Form::Author),
        _ => None,
    }
}

/// Keys that hold a list of byte strings, not one.
fn is_list(key: &str) -> bool {
    matches!(
        key,
        "ids"
            | "absent"
            | "unknown"
            | "Ids"
            | "Children"
            | "lacks"
            | "wants"
            | "injected"
            | "curators"
            | "authors"
            | "Listed"
    )
}

fn walk(value: Value, change: &dyn Fn(Form, Value) -> Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(|item| walk(item, change)).collect(),
        Value::Object(fields) => {
            let changed = |(key, value): (String, Value)| {
                let value = match (form(&key), value) {
                    (_, Value::Null) => Value::Null,
                    (Some(form), Value::Array(items)) if is_list(&key) => {
                        items.into_iter().map(|item| change(form, item)).collect()
                    }
                    (Some(form), value) => change(form, value),
                    (None, value) => walk(value, change),
                };
                (key, value)
            };
            Value::Object(fields.into_iter().map(changed).collect::<Map<_, _>>())
        }
        other => other,
    }
}

fn to_json<T: Serialize>(value: &T) -> Value {
    walk(serde_json::to_value(value).unwrap(), &|form, value| {
        let bytes: Vec<u8> = serde_json::from_value(value).unwrap();
        match form {
            Form::Hex => hex(&bytes),
            Form::Lesson => LessonId(bytes.try_into().unwrap()).to_string().into(),
            Form::Author => AuthorId(bytes.try_into().unwrap()).to_string().into(),
        }
    })
}

fn from_json<T: DeserializeOwned>(value: &Value) -> T {
    let bytes = walk(value.clone(), &|form, value| match form {
        Form::Hex => unhex(&value).into(),
        Form::Lesson => value.as_str().unwrap().parse::<LessonId>().unwrap().0.to_vec().into(),
        Form::Author => value.as_str().unwrap().parse::<AuthorId>().unwrap().0.to_vec().into(),
    });
    serde_json::from_value(bytes).unwrap()
}

// ---- values used in many cases ----

fn key(n: u8) -> Keypair {
    Keypair::from_seed(&[n; 32])
}

fn author(n: u8) -> AuthorId {
    key(n).author()
}

fn authors(ns: &[u8]) -> Vec<AuthorId> {
    let mut authors: Vec<AuthorId> = ns.iter().map(|n| author(*n)).collect();
    authors.sort();
    authors
}

/// The salt of the example bank. Any would do.
const SALT: BankSalt = [7; 16];

fn bank() -> BankId {
    BankId::new(&author(1), &SALT, "home")
}

fn digest(n: u32) -> [u8; 32] {
    *blake3::hash(&n.to_le_bytes()).as_bytes()
}

fn sorted_ids(n: u32) -> Vec<RecordId> {
    let mut ids: Vec<RecordId> = (0..n).map(|n| RecordId(digest(n))).collect();
    ids.sort();
    ids
}

fn draft(kind: LessonKind, title: &str, content: &str) -> LessonDraft {
    let empty = String::new;
    LessonDraft {
        kind,
        title: title.into(),
        applies_when: empty(),
        not_when: empty(),
        content: content.into(),
        task: empty(),
        domain: empty(),
        tags: vec![],
    }
}

fn lesson() -> Lesson {
    Lesson::new(LessonDraft {
        applies_when: "an order is paid".into(),
        not_when: "nothing was charged".into(),
        task: "refund a paid order".into(),
        domain: "retail".into(),
        tags: vec!["refund".into(), "order".into()],
        ..draft(
            LessonKind::Pitfall,
            "Book the refund before you cancel",
            "Cancelling first loses the payment [step 4].",
        )
    })
    .unwrap()
}

/// Every field at its limit.
fn largest_draft() -> LessonDraft {
    LessonDraft {
        kind: LessonKind::Procedure,
        title: "t".repeat(MAX_TITLE_BYTES),
        applies_when: "a".repeat(MAX_CONDITION_BYTES),
        not_when: "n".repeat(MAX_CONDITION_BYTES),
        content: "c".repeat(MAX_CONTENT_BYTES),
        task: "k".repeat(MAX_TASK_BYTES),
        domain: "d".repeat(MAX_DOMAIN_BYTES),
        tags: (0..MAX_TAGS).map(|n| format!("{n:0>width$}", width = MAX_TAG_BYTES)).collect(),
    }
}

fn evidence() -> Evidence {
    let mut injected = vec![lesson().id(), LessonId(digest(7))];
    injected.sort();
    Evidence {
        outcome: Outcome::Failure,
        reward_milli: Some(-250),
        attempts: 3,
        judged_by: "labels".into(),
        induced_by: "extractive".into(),
        run_digest: Some(digest(1)),
        agent: "shop-agent".into(),
        injected,
    }
}

fn policy() -> Policy {
    Policy {
        readers: Access::Anyone,
        writers: Access::Listed(authors(&[2, 3])),
        principals: vec![
            Principal { name: "east".into(), authors: authors(&[2]) },
            Principal { name: "west".into(), authors: authors(&[3, 4]) },
        ],
        curators: authors(&[2]),
        records_per_author: 5000,
        endorsed_only: true,
    }
}

/// All claims, with names.
fn claims() -> Vec<(&'static str, Claim)> {
    let lesson_id = lesson().id();
    let reason = "it holds for one shop only\nsee the log".to_owned();
    let rated = |verdict, run| Claim::Rated { lesson_id, verdict, run };
    vec![
        ("taught, nothing behind it", Claim::Taught { lesson_id, evidence: Evidence::told("person") }),
        ("taught, all fields", Claim::Taught { lesson_id, evidence: evidence() }),
        ("rated, helped in a known run", rated(Verdict::Helped, Some(digest(2)))),
        ("rated, hurt in no known run", rated(Verdict::Hurt, None)),
        ("disputed", Claim::Disputed { lesson_id, reason: reason.clone() }),
        ("withdrawn without a reason", Claim::Withdrawn { lesson_id, reason: String::new() }),
        ("endorsed", Claim::Endorsed { lesson_id }),
        ("policy, the default", Claim::Policy(Policy::default())),
        ("policy, all fields", Claim::Policy(policy())),
        ("revoked", Claim::Revoked { author: author(3), keep_through_seq: 70_000, reason }),
        ("rotated", Claim::Rotated { new_author: author(4) }),
        ("succeeds", Claim::Succeeds { old_author: author(3) }),
    ]
}

fn record() -> Record {
    let claim = Claim::Taught { lesson_id: lesson().id(), evidence: evidence() };
    Record::sign(&key(1), bank(), 1, AT_MS, claim).unwrap()
}

// ---- lessons, claims, records ----

#[test]
fn lessons_have_these_bytes_and_ids() {
    let mut cases = Vec::new();
    let mut add = |name: &str, written: LessonDraft| {
        let lesson = Lesson::new(written.clone()).unwrap();
        let mut case = json!({ "name": name, "lesson": to_json(lesson.fields()) });
        if written != *lesson.fields() {
            case["written"] = to_json(&written);
        }
        case["bytes"] = hex(lesson.bytes());
        case["id"] = lesson.id().to_string().into();
        cases.push(case);
    };
    add("the least", draft(LessonKind::Strategy, "t", "c"));
    add("all fields", lesson().fields().clone());
    for kind in LessonKind::ALL {
        add(&format!("kind {kind}"), draft(kind, "t", "c"));
    }
    add(
        "250 bytes of content: the longest with a length of one byte",
        draft(LessonKind::Strategy, "t", &"c".repeat(250)),
    );
    add("251 bytes of content: a length of three bytes", draft(LessonKind::Strategy, "t", &"c".repeat(251)));
    add(
        "written out of normal form",
        LessonDraft {
            applies_when: "one\r\ntwo\rthree\u{2028}four ".into(),
            domain: "a\nb".into(),
            tags: vec!["b ".into(), "\u{200b}".into(), "a".into(), "b".into(), "B".into(), "\u{e9}".into()],
            ..draft(LessonKind::Contrast, " cafe\u{301}\u{200b} ", "\u{feff}x\u{0}y\tz\n")
        },
    );
    add("beyond the basic plane", draft(LessonKind::Strategy, "\u{1f9ed} \u{4f60}\u{597d}", "\u{1d11e}"));
    let largest = Lesson::new(largest_draft()).unwrap();
    // Without the fields: they would be long, and the bytes say them.
    cases.push(
        json!({ "name": "every field at its limit", "bytes": hex(largest.bytes()), "id": largest.id().to_string() }),
    );

    for case in committed("lessons.json", &cases.into()) {
        let bytes = unhex(&case["bytes"]);
        let back = Lesson::from_bytes(&bytes).unwrap();
        assert_eq!(**back.bytes(), *bytes);
        assert_eq!(back.id().to_string(), text(&case, "id"));
        for key in ["lesson", "written"] {
            if let Some(fields) = case.get(key) {
                assert_eq!(**Lesson::new(from_json(fields)).unwrap().bytes(), *bytes, "{key} of {}", case["name"]);
            }
        }
        if let Some(fields) = case.get("lesson") {
            assert_eq!(to_json(back.fields()), *fields);
        }
    }
}

#[test]
fn claims_have_these_bytes() {
    let case = |(name, claim): (&str, Claim)| {
        let mut bytes = Vec::new();
        canonical::append(&claim, &mut bytes);
        json!({ "name": name, "claim": to_json(&claim), "bytes": hex(&bytes) })
    };
    for case in committed("claims.json", &claims().into_iter().map(case).collect()) {
        let claim: Claim = from_json(&case["claim"]);
        let bytes = unhex(&case["bytes"]);
        let versioned = [&[FORMAT_VERSION], &bytes[..]].concat();
        assert_eq!(canonical::encode(&claim), versioned);
        assert_eq!(canonical::decode::<Claim, MAX_RECORD_BYTES>(&versioned), Ok(claim));
    }
}

#[test]
fn records_have_these_bytes_ids_and_signatures() {
    let mut cases = Vec::new();
    let mut add = |name: &str, seed: u8, seq: u64, at_ms: u64, claim: Claim| {
        let record = Record::sign(&key(seed), bank(), seq, at_ms, claim).unwrap();
        let (canonical, signature) = record.bytes().split_at(record.bytes().len() - 64);
        cases.push(json!({
            "name": name,
            "seed": hex(&[seed; 32]),
            "fields": to_json(record.fields()),
            "canonical": hex(canonical),
            "id": record.id().to_string(),
            "signed": hex(&[b"folklore record signature v1\0", &record.id().0[..]].concat()),
            "signature": hex(signature),
            "bytes": hex(record.bytes()),
        }));
    };
    for (name, claim) in claims() {
        add(name, 1, 1, AT_MS, claim);
    }
    let endorsed = || Claim::Endorsed { lesson_id: lesson().id() };
    for number in [250, 251, 65_535, 65_536, u64::from(u32::MAX), u64::from(u32::MAX) + 1, u64::MAX] {
        add(&format!("seq and time {number}"), 2, number, number, endorsed());
    }
    add("time 0", 2, 1, 0, endorsed());
    let at_limits = Evidence {
        judged_by: "j".repeat(MAX_NAME_BYTES),
        induced_by: "i".repeat(MAX_NAME_BYTES),
        agent: "a".repeat(MAX_NAME_BYTES),
        reward_milli: Some(i32::MIN),
        attempts: u32::MAX,
        injected: (0..MAX_INJECTED as u8).map(|n| LessonId([n; 32])).collect(),
        ..evidence()
    };
    add("evidence at its limits", 2, 2, AT_MS, Claim::Taught { lesson_id: lesson().id(), evidence: at_limits });
    let reason = "r".repeat(MAX_REASON_BYTES);
    add("the longest reason", 2, 3, AT_MS, Claim::Disputed { lesson_id: lesson().id(), reason });

    for case in committed("records.json", &cases.into()) {
        let bytes = unhex(&case["bytes"]);
        let fields: RecordFields = from_json(&case["fields"]);
        let record = UnverifiedRecord::parse(&bytes).unwrap().verify().unwrap();
        assert_eq!(*record.fields(), fields);
        assert_eq!(record.id().to_string(), text(&case, "id"));
        assert_eq!([unhex(&case["canonical"]), unhex(&case["signature"])].concat(), bytes);
        assert_eq!(canonical::encode(&fields), unhex(&case["canonical"]));
        let keypair = Keypair::from_seed(&unhex(&case["seed"]).try_into().unwrap());
        assert_eq!(keypair.sign(&unhex(&case["signed"])).0.to_vec(), unhex(&case["signature"]));
        let again = Record::sign(&keypair, fields.bank, fields.seq, fields.at_ms, fields.claim).unwrap();
        assert_eq!(**again.bytes(), *bytes);
    }
}

#[test]
fn a_policy_with_the_most_principals_and_keys_reads_as_it_was_signed() {
    // In bytes it is inside the limit of a record, and only bytes count: not what a decoder reserves for them.
    let principals = (0..MAX_PRINCIPALS)
        .map(|n| {
            let mut authors: Vec<AuthorId> = (0..2).map(|half| AuthorId(digest(2 * n as u32 + half))).collect();
            authors.sort();
            Principal { name: format!("{n:0>width$}", width = MAX_PRINCIPAL_NAME_BYTES), authors }
        })
        .collect();
    let policy = Policy { principals, ..Policy::default() };
    let record = Record::sign(&key(1), bank(), 1, AT_MS, Claim::Policy(policy)).unwrap();
    assert!(record.bytes().len() <= MAX_RECORD_BYTES);
    let read = UnverifiedRecord::parse(record.bytes()).and_then(UnverifiedRecord::verify);
    assert!(read == Ok(record), "{:?}", read.err());
}

// ---- ids ----

#[test]
fn ids_and_tags_are_these() {
    let mut cases = Vec::new();
    for n in [0, 1, 2, 255] {
        let author = author(n);
        cases.push(
            json!({ "author": { "seed": hex(&[n; 32]), "public_key": hex(&author.0), "text": author.to_string() } }),
        );
    }
    let ascending: BankSalt = std::array::from_fn(|at| at as u8);
    let banks = [
        (1, SALT, "home"),
        (1, SALT, "  home "),
        (2, SALT, "home"),
        (1, [0; 16], "home"),
        (1, ascending, "home"),
        (1, SALT, "cafe\u{301}"),
        (1, SALT, "\u{2764}\u{fe0f}"),
        (1, SALT, ""),
    ];
    for (n, salt, name) in banks {
        let id = BankId::new(&author(n), &salt, name).to_string();
        let owner = author(n).to_string();
        cases.push(json!({ "bank": { "owner": owner, "salt": hex(&salt), "name": name, "id": id } }));
    }
    for bytes in [&b""[..], b"abc", lesson().bytes()] {
        let id = LessonId::of(bytes);
        cases.push(json!({ "lesson": { "bytes": hex(bytes), "hash": hex(&id.0), "text": id.to_string() } }));
    }
    for (from, to) in [(1, 2), (2, 1)] {
        let tag = BankTag::new(&bank(), &author(from), &author(to));
        let (from, to) = (author(from).to_string(), author(to).to_string());
        cases.push(json!({ "tag": { "bank": bank().to_string(), "from": from, "to": to, "tag": hex(&tag.0) } }));
    }
    let (node, cid, hexed) = (author(1).to_string(), lesson().id().to_string(), bank().to_string());
    let refused = [
        ("author", String::new(), "empty"),
        ("author", node[1..].to_owned(), "without the identity multihash"),
        ("author", node.replacen('D', "0", 1), "0 is no digit of base58"),
        ("author", "QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N".into(), "the peer id of another kind of key"),
        ("lesson", cid[1..].to_owned(), "without the multibase letter"),
        ("lesson", cid[..cid.len() - 1].to_owned(), "cut"),
        ("lesson", LessonId([0; 32]).to_string().replacen("bafkr4i", "bafkrei", 1), "a sha2-256 multihash"),
        ("lesson", "QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N".into(), "a CIDv0"),
        ("bank", hexed[2..].to_owned(), "62 digits"),
        ("bank", hexed.replacen(|c: char| c.is_ascii_digit(), "g", 1), "g is no digit of hex"),
    ];
    for (kind, text, why) in refused {
        cases.push(json!({ "refused": { "kind": kind, "text": text, "why": why } }));
    }

    for case in committed("ids.json", &cases.into()) {
        let (kind, case) = case.as_object().unwrap().iter().next().unwrap();
        match kind.as_str() {
            "author" => {
                let author = Keypair::from_seed(&unhex(&case["seed"]).try_into().unwrap()).author();
                assert_eq!(author.0.to_vec(), unhex(&case["public_key"]));
                assert_eq!(author.to_string(), text(case, "text"));
                assert_eq!(text(case, "text").parse(), Ok(author));
            }
            "bank" => {
                let salt: BankSalt = unhex(&case["salt"]).try_into().unwrap();
                let id = BankId::new(&text(case, "owner").parse().unwrap(), &salt, text(case, "name"));
                assert_eq!(text(case, "id").parse(), Ok(id));
                assert_eq!(id.to_string(), text(case, "id"));
            }
            "lesson" => {
                let id = LessonId::of(&unhex(&case["bytes"]));
                assert_eq!(id.0.to_vec(), unhex(&case["hash"]));
                assert_eq!(text(case, "text").parse(), Ok(id));
                assert_eq!(id.to_string(), text(case, "text"));
            }
            "tag" => {
                let node = |key| text(case, key).parse().unwrap();
                let tag = BankTag::new(&text(case, "bank").parse().unwrap(), &node("from"), &node("to"));
                assert_eq!(tag.0.to_vec(), unhex(&case["tag"]));
            }
            _ => {
                let refused = text(case, "text");
                let read = match text(case, "kind") {
                    "author" => refused.parse::<AuthorId>().is_ok(),
                    "lesson" => refused.parse::<LessonId>().is_ok(),
                    _ => refused.parse::<BankId>().is_ok() || refused.parse::<RecordId>().is_ok(),
                };
                assert!(!read, "{case}");
            }
        }
    }
}

// ---- messages ----

fn prefix(nibbles: &str) -> Prefix {
    nibbles.chars().fold(Prefix::root(), |p, c| p.child(c.to_digit(16).unwrap() as u8).unwrap())
}

/// Bytes as many as an estimate has.
fn estimate() -> Vec<u8> {
    (0..ESTIMATE_BYTES as u32 / 32).flat_map(digest).collect()
}

/// Bytes in the shape of cells: what they hold is no part of a message's form.
fn cells(n: u32) -> Vec<Cell> {
    let cut = |n| {
        let digest = digest(n);
        Cell { short: std::array::from_fn(|at| digest[at]), check: std::array::from_fn(|at| digest[8 + at]) }
    };
    (0..n).map(cut).collect()
}

fn head(nonce: Option<u64>) -> SketchHead {
    SketchHead { root: Root(digest(3)), records: 300, sum: std::array::from_fn(|n| n as u8), nonce }
}

fn shorts(n: u32) -> Vec<ShortId> {
    sorted_ids(n).iter().map(ShortId::of).collect()
}

fn messages() -> Vec<(&'static str, Message)> {
    let (bank, record) = (bank(), record());
    let item = || Item { record: record.bytes().to_vec(), body: Some(lesson().bytes().to_vec()) };
    let bare = || Item { record: record.bytes().to_vec(), body: None };
    let mut tree: IdTree = sorted_ids(40).into_iter().collect();
    let children = match tree.subtree(&Prefix::root()) {
        Subtree::Children(hashes) => hashes,
        Subtree::Ids(_) => panic!("forty ids are no leaf"),
    };
    let mut probe = |nibbles| {
        let prefix = prefix(nibbles);
        Probe { hash: tree.hash(&prefix), prefix }
    };
    let probes = vec![probe(""), probe("a"), probe("a3"), probe("0f7")];
    let greeted = GreetedBank {
        tag: BankTag::new(&bank, &author(1), &author(2)),
        root: Root(digest(3)),
        records: 300,
        resumes: true,
    };
    let refusal = |code, detail: &str| Message::Refusal { code, detail: detail.into() };
    let sketched = |answer| Message::Sketched { bank, session: 7, answer };
    let answers = vec![
        ProbeAnswer::Same,
        ProbeAnswer::Ids(vec![]),
        ProbeAnswer::Ids(sorted_ids(3)),
        ProbeAnswer::Children(children),
    ];
    vec![
        ("hello without banks", Message::Hello { version: PROTOCOL_VERSION, banks: vec![] }),
        ("hello", Message::Hello { version: PROTOCOL_VERSION, banks: vec![greeted] }),
        ("refusal, version", refusal(RefusalCode::Version, "this node speaks version 3, not 300")),
        ("refusal, bank", refusal(RefusalCode::Bank, "")),
        ("refusal, malformed", refusal(RefusalCode::Malformed, "")),
        ("push", Message::Push { bank, hops: 2, item: item() }),
        ("push without the body", Message::Push { bank, hops: 0, item: bare() }),
        ("have", Message::Have { bank, ids: sorted_ids(2) }),
        ("graft", Message::Graft { bank }),
        ("prune", Message::Prune { bank }),
        ("probe", Message::Probe { bank, session: 7, probes }),
        ("probed", Message::Probed { bank, session: 7, answers }),
        ("offer", Message::Offer { bank, session: 7, from: 0, ids: sorted_ids(2), last: false }),
        ("offer, the last and empty", Message::Offer { bank, session: u64::MAX, from: 1_024, ids: vec![], last: true }),
        ("fetch", Message::Fetch { bank, request: 251, budget_bytes: 49_152, ids: vec![ShortId::of(&record.id())] }),
        (
            "records",
            Message::Records {
                bank,
                request: 251,
                items: vec![item(), bare()],
                absent: sorted_ids(1),
                unknown: shorts(2),
            },
        ),
        ("ask", Message::Ask { bank, request: 9, query: "how do I refund\nan order".into(), hits: MAX_ASKED_HITS }),
        ("answer", Message::Answer { bank, request: 9, items: vec![item()], records: 65_536 }),
        ("answer, nothing found", Message::Answer { bank, request: 9, items: vec![], records: 0 }),
        ("compare", Message::Compare { bank, session: 7, root: Root(digest(3)) }),
        (
            "sketch, the first cells",
            Message::Sketch { bank, session: 7, head: Some(head(None)), from: 0, cells: cells(3), last: true },
        ),
        (
            "sketch, the first cells under a salt, with more to come",
            Message::Sketch { bank, session: 7, head: Some(head(Some(300))), from: 0, cells: cells(2), last: false },
        ),
        (
            "sketch, more cells",
            Message::Sketch { bank, session: 7, head: None, from: 251, cells: cells(1), last: true },
        ),
        (
            "sketch, no cells",
            Message::Sketch { bank, session: 7, head: Some(head(None)), from: 0, cells: vec![], last: true },
        ),
        ("sketched, same", sketched(SketchAnswer::Same)),
        (
            "sketched, more, with the estimate",
            sketched(SketchAnswer::More { have: 28, records: 301, nonce: 1 << 32, estimate: Some(estimate()) }),
        ),
        (
            "sketched, more, without the estimate: also the answer to compare",
            sketched(SketchAnswer::More { have: 0, records: 301, nonce: 251, estimate: None }),
        ),
        ("sketched, found", sketched(SketchAnswer::Found { lacks: shorts(2), left: 0 })),
        ("sketched, found, nothing lacking", sketched(SketchAnswer::Found { lacks: vec![], left: 0 })),
        (
            "sketched, found under a salt",
            sketched(SketchAnswer::FoundSalted { lacks: sorted_ids(1), wants: shorts(2), left: 251 }),
        ),
        ("sketched, salt", sketched(SketchAnswer::Salt { nonce: 65_536 })),
        ("sketched, walk", sketched(SketchAnswer::Walk)),
        ("sketched, done", sketched(SketchAnswer::Done)),
        ("busy", Message::Busy { bank, request: 251 }),
        ("suggest", Message::Suggest { bank, request: 251, near: vec![], from: 0 }),
        (
            "suggest, what is near",
            Message::Suggest { bank, request: 9, near: vec!["refund\nan order".into(), "login".into()], from: 256 },
        ),
        ("suggested", Message::Suggested { bank, request: 251, ids: shorts(2) }),
        ("run, for the first time", Message::Run { bank, head: run_head(2, 1), about: Some(run_about()) }),
        ("run, a step further", Message::Run { bank, head: run_head(300, 0), about: None }),
        ("run fetch", Message::RunFetch { bank, request: 251, run: RunKey([7; 16]), from: 3, offset: 300 }),
        ("run steps, the last one cut", {
            let piece = |bytes: &[u8], left| StepPiece { bytes: bytes.to_vec(), left };
            let pieces = vec![piece(&[1, 0, 1, b'a', 0], 0), piece(&[1, 0], 300)];
            Message::RunSteps { bank, request: 251, run: RunKey([7; 16]), pieces }
        }),
        ("run steps, no more", Message::RunSteps { bank, request: 9, run: RunKey([7; 16]), pieces: vec![] }),
    ]
}

fn run_head(steps: u32, marks: usize) -> RunHead {
    let mark = RunMark { n: steps + 1, at_ms: AT_MS, action: "pay".into() };
    RunHead { run: RunKey([7; 16]), open: true, steps, state: digest(5), marks: vec![mark; marks] }
}

fn run_about() -> RunAbout {
    RunAbout {
        name: "shop-7".into(),
        task_key: "shop/7".into(),
        task: "Refund an order\nof two parts".into(),
        domain: "shop".into(),
        agent: "clerk".into(),
        tags: vec!["refund".into()],
        began_ms: AT_MS,
        branch: Some((author(2), 1, digest(4))),
    }
}

/// Messages with a list or a text at its limit each.
fn largest_messages() -> Vec<(&'static str, Message)> {
    let bank = BankId([0; 32]);
    let ids = |n| vec![RecordId([0; 32]); n];
    let shorts = |n| vec![ShortId([0; 8]); n];
    let sketched = |answer| Message::Sketched { bank, session: u64::MAX, answer };
    let greeted = GreetedBank { tag: BankTag([0; 16]), root: Root([0; 32]), records: 0, resumes: false };
    let item = |record, body| Item { record: vec![0; record], body: Some(vec![0; body]) };
    let probe = Probe { prefix: prefix(&"0".repeat(64)), hash: [0; 16] };
    vec![
        ("the most banks", Message::Hello { version: PROTOCOL_VERSION, banks: vec![greeted; MAX_GREETED_BANKS] }),
        ("the longest detail", Message::Refusal { code: RefusalCode::Malformed, detail: "d".repeat(256) }),
        ("the most hops", Message::Push { bank, hops: u32::MAX, item: item(0, 0) }),
        ("the most ids", Message::Have { bank, ids: ids(MAX_IDS) }),
        (
            "the most ids offered",
            Message::Offer { bank, session: u64::MAX, from: u32::MAX, ids: ids(MAX_IDS), last: false },
        ),
        (
            "the most short ids fetched",
            Message::Fetch { bank, request: u64::MAX, budget_bytes: u32::MAX, ids: shorts(MAX_FETCH) },
        ),
        ("the most texts, and the longest", {
            let near = vec!["n".repeat(MAX_NEAR_BYTES); MAX_NEAR];
            Message::Suggest { bank, request: u64::MAX, near, from: u32::MAX }
        }),
        ("the most short ids suggested", Message::Suggested { bank, request: 0, ids: shorts(MAX_FETCH) }),
        (
            "the longest prefixes, and the most of them",
            Message::Probe { bank, session: 0, probes: vec![probe; MAX_PROBES] },
        ),
        ("the most answers, one of them the longest list", {
            let mut answers = vec![ProbeAnswer::Children(Box::new([[0; 16]; 16])); MAX_PROBES];
            answers[0] = ProbeAnswer::Ids((0..LEAF_IDS as u8).map(|n| RecordId([n; 32])).collect());
            Message::Probed { bank, session: 0, answers }
        }),
        ("the longest record and body", {
            let items = vec![item(MAX_RECORD_BYTES, MAX_BODY_BYTES)];
            Message::Records { bank, request: 0, items, absent: ids(MAX_FETCH), unknown: shorts(MAX_FETCH) }
        }),
        ("the most items", Message::Answer { bank, request: 0, items: vec![item(0, 0); MAX_FETCH], records: u64::MAX }),
        ("the longest words about a run, and the most marks", {
            let mark = RunMark { n: u32::MAX, at_ms: u64::MAX, action: "a".repeat(MAX_MARK_BYTES) };
            let head = RunHead { steps: MAX_RUN_STEPS, marks: vec![mark; MAX_RUN_MARKS], ..run_head(0, 0) };
            let line = || "l".repeat(MAX_RUN_LINE_BYTES);
            let about = RunAbout {
                name: line(),
                task_key: line(),
                task: "t".repeat(MAX_RUN_TASK_BYTES),
                domain: line(),
                agent: line(),
                tags: vec![line(); MAX_RUN_TAGS],
                ..run_about()
            };
            Message::Run { bank, head, about: Some(about) }
        }),
        ("the last step that can be asked for", {
            let (from, offset) = (MAX_RUN_STEPS + 1, MAX_RUN_STEP_BYTES as u32);
            Message::RunFetch { bank, request: u64::MAX, run: RunKey([0; 16]), from, offset }
        }),
        ("the most bytes of a step", {
            let pieces = vec![StepPiece { bytes: vec![0; ITEMS_BUDGET_BYTES], left: u32::MAX }];
            Message::RunSteps { bank, request: u64::MAX, run: RunKey([0; 16]), pieces }
        }),
        ("the most pieces", {
            let pieces = vec![StepPiece { bytes: vec![], left: 0 }; MAX_PIECES];
            Message::RunSteps { bank, request: u64::MAX, run: RunKey([0; 16]), pieces }
        }),
        (
            "the longest query",
            Message::Ask { bank, request: 0, query: "q".repeat(MAX_QUERY_BYTES), hits: MAX_ASKED_HITS },
        ),
        ("exactly the limit of a message", {
            // Version, variant, bank, request, number of items, two of them, the third's length and option, none absent,
            // none unknown.
            let head = 1 + 1 + 32 + 1 + 1 + 2 * (3 + MAX_RECORD_BYTES + 1) + (3 + 1) + 1 + 1;
            let bare = |len| Item { record: vec![0; len], body: None };
            let items = vec![bare(MAX_RECORD_BYTES), bare(MAX_RECORD_BYTES), bare(MAX_MESSAGE_BYTES - head)];
            Message::Records { bank, request: 0, items, absent: vec![], unknown: vec![] }
        }),
        (
            "the most cells",
            Message::Sketch {
                bank,
                session: u64::MAX,
                head: Some(SketchHead {
                    root: Root([0; 32]),
                    records: u64::MAX,
                    sum: [255; 16],
                    nonce: Some(u64::MAX),
                }),
                from: 0,
                cells: vec![Cell { short: [0; 8], check: [0; 4] }; MAX_CELLS],
                last: false,
            },
        ),
        (
            "the last cells that can be numbered",
            Message::Sketch { bank, session: 0, head: None, from: u32::MAX, cells: vec![], last: true },
        ),
        (
            "the largest numbers of an answer to a sketch",
            sketched(SketchAnswer::More {
                have: u32::MAX,
                records: u64::MAX,
                nonce: u64::MAX,
                estimate: Some(vec![0; ESTIMATE_BYTES]),
            }),
        ),
        ("the most short ids found", sketched(SketchAnswer::Found { lacks: shorts(MAX_SHORT_IDS), left: u32::MAX })),
        (
            "the most ids and short ids found under a salt",
            sketched(SketchAnswer::FoundSalted { lacks: ids(MAX_IDS), wants: shorts(MAX_SHORT_IDS), left: u32::MAX }),
        ),
    ]
}

#[test]
fn the_length_of_a_message_is_that_of_its_bytes() {
    for (name, message) in messages().into_iter().chain(largest_messages()) {
        assert_eq!(message.encoded_len(), message.encode().len(), "{name}");
    }
}

#[test]
fn messages_have_these_bytes() {
    let case = |(name, message): (&str, Message)| {
        let bytes = message.encode();
        let frame = [&(bytes.len() as u32).to_le_bytes(), &bytes[..]].concat();
        json!({ "name": name, "message": to_json(&message), "bytes": hex(&bytes), "frame": hex(&frame[..4]) })
    };
    // Without the fields: they would be long, and the bytes say them.
    let large = |(name, message): (&str, Message)| json!({ "name": name, "bytes": hex(&message.encode()) });
    let cases = messages().into_iter().map(case).chain(largest_messages().into_iter().map(large)).collect();
    for case in committed("messages.json", &cases) {
        let bytes = unhex(&case["bytes"]);
        let message = Message::decode(&bytes).unwrap();
        assert_eq!(message.encode(), bytes);
        let Some(fields) = case.get("message") else { continue };
        assert_eq!(from_json::<Message>(fields), message);
        assert_eq!(unhex(&case["frame"]), (bytes.len() as u32).to_le_bytes());
    }
}

// ---- trees ----

#[test]
fn trees_have_these_hashes_and_roots() {
    let nested = |n: u8| {
        // All below one prefix of four half bytes, so that three levels have one child that is not empty.
        let mut id = digest(u32::from(n));
        (id[0], id[1]) = (0xab, 0xcd);
        RecordId(id)
    };
    let sets = [
        ("no ids", vec![]),
        ("one id", sorted_ids(1)),
        ("sixteen ids: one leaf", sorted_ids(LEAF_IDS as u32)),
        ("seventeen ids: sixteen children", sorted_ids(LEAF_IDS as u32 + 1)),
        ("three hundred ids", sorted_ids(300)),
        ("twenty ids that begin alike", {
            let mut ids: Vec<RecordId> = (0..20).map(nested).collect();
            ids.sort();
            ids
        }),
    ];
    let mut cases = Vec::new();
    for (name, ids) in sets {
        let mut tree: IdTree = ids.iter().copied().collect();
        let mut parts = Vec::new();
        for nibbles in ["", "0", "a", "ab", "abc", "abcd", "abcd0", "abcd1", "1234"] {
            let prefix = prefix(nibbles);
            let below = match tree.subtree(&prefix) {
                Subtree::Ids(ids) => json!({ "ids": ids.iter().map(ToString::to_string).collect::<Vec<_>>() }),
                Subtree::Children(hashes) => json!({ "children": hashes.iter().map(|h| hex(h)).collect::<Vec<_>>() }),
            };
            let encoded = canonical::encode(&prefix);
            parts.push(json!({
                "prefix": nibbles, "encoded": hex(&encoded[1..]), "hash": hex(&tree.hash(&prefix)), "below": below,
            }));
        }
        let mut case = json!({ "name": name, "root": tree.root().to_string(), "parts": parts });
        if ids == sorted_ids(ids.len() as u32) {
            case["hashes_of_numbers_below"] = ids.len().into();
        } else {
            case["ids"] = ids.iter().map(ToString::to_string).collect();
        }
        cases.push(case);
    }

    for case in committed("trees.json", &cases.into()) {
        let ids: Vec<RecordId> = match case["hashes_of_numbers_below"].as_u64() {
            Some(n) => sorted_ids(n as u32),
            None => case["ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().parse().unwrap()).collect(),
        };
        let mut tree: IdTree = ids.into_iter().rev().collect();
        assert_eq!(tree.root().to_string(), text(&case, "root"));
        for part in case["parts"].as_array().unwrap() {
            let prefix = prefix(text(part, "prefix"));
            assert_eq!(tree.hash(&prefix).to_vec(), unhex(&part["hash"]));
            let encoded = [vec![FORMAT_VERSION], unhex(&part["encoded"])].concat();
            assert_eq!(canonical::decode::<Prefix, 64>(&encoded), Ok(prefix.clone()));
            let list = |key: &str| part["below"][key].as_array().map(|l| l.iter().map(unhex).collect::<Vec<_>>());
            match tree.subtree(&prefix) {
                Subtree::Ids(ids) => {
                    assert_eq!(list("ids"), Some(ids.iter().map(|id| id.0.to_vec()).collect()));
                }
                Subtree::Children(hashes) => {
                    assert_eq!(list("children"), Some(hashes.iter().map(|h| h.to_vec()).collect()));
                }
            }
        }
    }
}

// ---- sketches ----

/// Another node, whose id is above that of the node under test, so that the latter opens.
const PEER: AuthorId = AuthorId([255; 32]);

/// A node that a test speaks to.
struct Spoken(Node);

impl Spoken {
    /// What it says to an event.
    fn says(&mut self, event: Event) -> Vec<Message> {
        self.0.handle(event, Time(0));
        let sent = |effect| match effect {
            Effect::Send { message, .. } => Some(message),
            _ => None,
        };
        std::iter::from_fn(|| self.0.next_effect()).filter_map(sent).collect()
    }

    /// What it says to a message of the peer.
    fn answers(&mut self, message: Message) -> Vec<Message> {
        self.says(Event::Received { peer: PEER, message })
    }

    /// A node that holds `ids` and is greeted by a peer with another set, and what it says to that: its session, the head and
    /// the first cells.
    fn greeted(ids: &[RecordId]) -> (Self, u64, SketchHead, Vec<Cell>) {
        let mut node = Self(Node::new(author(1), Config::default(), [7; 32]));
        let bank = bank();
        node.says(Event::BankOpened { bank, held: ids.to_vec() });
        node.says(Event::Connected { peer: PEER, dialled: None });
        let tag = BankTag::new(&bank, &PEER, &author(1));
        let greeted = GreetedBank { tag, root: Root([0; 32]), records: ids.len() as u64, resumes: false };
        let said = node.answers(Message::Hello { version: PROTOCOL_VERSION, banks: vec![greeted] });
        let (session, head, cells) = said.into_iter().find_map(first_cells).expect("the first cells");
        (node, session, head, cells)
    }
}

fn first_cells(message: Message) -> Option<(u64, SketchHead, Vec<Cell>)> {
    match message {
        Message::Sketch { session, head: Some(head), cells, .. } => Some((session, head, cells)),
        _ => None,
    }
}

/// What a node that holds `ids` tells a peer with another set: the head and the first cells, and the estimate.
fn told(ids: &[RecordId]) -> (SketchHead, Vec<Cell>, Vec<u8>) {
    let (mut node, _, first_head, first_cells) = Spoken::greeted(ids);
    // Cells that do not come apart at all: an answer to such gives the estimate.
    let head = SketchHead { root: Root([0; 32]), records: 0, sum: [0; 16], nonce: None };
    let cells = vec![Cell { short: [1; 8], check: [2; 4] }; 28];
    let message = Message::Sketch { bank: bank(), session: 1, head: Some(head), from: 0, cells, last: true };
    let estimate = node.answers(message).into_iter().find_map(|message| match message {
        Message::Sketched { answer: SketchAnswer::More { estimate, .. }, .. } => estimate,
        _ => None,
    });
    (first_head, first_cells, estimate.expect("an estimate"))
}

/// The cells that a node with `ids` begins anew with when its peer answers Salt with a nonce, and the nonce of its own.
fn salted(ids: &[RecordId], nonce: u64) -> (u64, Vec<Cell>) {
    let (mut node, session, ..) = Spoken::greeted(ids);
    let answer = Message::Sketched { bank: bank(), session, answer: SketchAnswer::Salt { nonce } };
    let (_, head, cells) = node.answers(answer).into_iter().find_map(first_cells).expect("cells under the salt");
    (head.nonce.expect("a nonce"), cells)
}

#[test]
fn sketches_have_these_sums_cells_and_estimates() {
    let mut cases = Vec::new();
    for (name, n) in [("one id under a salt", 1), ("three hundred ids under a salt", 300)] {
        let answerer = 251;
        let (opener, cells) = salted(&sorted_ids(n), answerer);
        cases.push(json!({
            "name": name,
            "hashes_of_numbers_below": n,
            "nonces": [opener, answerer],
            "cells": to_json(&cells),
        }));
    }
    for (name, n) in [("no ids", 0), ("one id", 1), ("two ids", 2), ("three hundred ids", 300), ("3 000 ids", 3000)] {
        let (head, cells, estimate) = told(&sorted_ids(n));
        assert_eq!((head.records, head.nonce), (u64::from(n), None));
        cases.push(json!({
            "name": name,
            "hashes_of_numbers_below": n,
            "root": head.root.to_string(),
            "sum": hex(&head.sum),
            "cells": to_json(&cells),
            "estimate": hex(&estimate),
        }));
    }
    for case in committed("sketches.json", &cases.into()) {
        let n = case["hashes_of_numbers_below"].as_u64().unwrap();
        if let Some(nonces) = case["nonces"].as_array() {
            let (opener, cells) = salted(&sorted_ids(n as u32), nonces[1].as_u64().unwrap());
            assert_eq!(nonces[0], opener);
            assert_eq!(cells, from_json::<Vec<Cell>>(&case["cells"]));
            continue;
        }
        let (head, cells, estimate) = told(&sorted_ids(n as u32));
        assert_eq!(head.sum.to_vec(), unhex(&case["sum"]));
        assert_eq!(cells, from_json::<Vec<Cell>>(&case["cells"]));
        assert_eq!(estimate, unhex(&case["estimate"]));
    }
}

// ---- text ----

/// All characters for which `holds`, as ranges of code points in hex.
fn ranges(holds: impl Fn(char) -> bool) -> Vec<String> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for code in (0..=u32::from(char::MAX)).filter(|code| char::from_u32(*code).is_some_and(&holds)) {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == code => *last = code,
            _ => ranges.push((code, code)),
        }
    }
    let show = |(first, last)| if first == last { format!("{first:04x}") } else { format!("{first:04x}-{last:04x}") };
    ranges.into_iter().map(show).collect()
}

#[test]
fn text_has_this_normal_form() {
    let texts = [
        ("plain", "already normal, nothing changes"),
        ("empty", ""),
        ("only what goes", "\u{200b} \u{feff}\n"),
        ("outer white space", "\u{a0}\u{3000} a b \t\n"),
        ("inner white space stays", "a  b\u{a0}c"),
        ("line ends", "a\r\nb\rc\nd\u{85}e\u{2028}f\u{2029}g\r\r\nh"),
        ("tab", "a\tb"),
        ("controls", "a\u{0}b\u{7}c\u{b}d\u{c}e\u{1b}[31mf\u{7f}g\u{9f}h"),
        ("direction", "a\u{202e}b\u{2066}c\u{61c}d\u{200f}e"),
        ("zero width", "a\u{200b}b\u{200c}c\u{200d}d\u{2060}e\u{feff}f\u{ad}g"),
        ("tags and variation selectors", "a\u{e0041}b\u{e0100}c\u{fe00}d\u{180b}e"),
        ("emoji variation selectors", "\u{2764}\u{fe0f} \u{2764}\u{fe0e}"),
        ("a run of selectors, which could carry bits", "a\u{fe0e}\u{fe0f}\u{fe0f}\u{fe0e}b"),
        ("shorthand format controls", "a\u{1bca0}b\u{1bca3}c"),
        ("composed", "e\u{301} A\u{30a} \u{1100}\u{1161}"),
        ("what stood between letter and accent goes first", "e\u{200b}\u{301}"),
        ("order of accents", "a\u{301}\u{323}"),
        ("not compatibility forms", "\u{fb01} \u{ff21} \u{2460}"),
        ("single characters that decompose", "\u{212b} \u{2126} \u{958} \u{2000}x"),
        ("excluded from composition", "\u{915}\u{93c} \u{958}"),
        ("a letter composed since Unicode 16", "\u{105d2}\u{307}"),
        ("a text of a format character alone between spaces", " a \u{200b} "),
    ];
    let lines = [("one", Lines::One), ("many", Lines::Many)];
    let mut cases = Vec::new();
    for (name, text) in texts {
        for (word, lines) in lines {
            cases.push(
                json!({ "name": name, "lines": word, "text": text, "normal": canonical::normalise(text, lines) }),
            );
        }
    }
    let inside = |c: char, lines| canonical::normalise(&format!("a{c}a"), lines);
    let outside = |c: char| canonical::normalise(&format!("{c}a"), Lines::Many);
    for (word, lines) in lines {
        cases.push(json!({ "characters": "removed", "lines": word, "ranges": ranges(|c| inside(c, lines) == "aa") }));
        for (becomes, result) in [("\n", "a\na"), (" ", "a a")] {
            let ranges = ranges(|c| inside(c, lines) == result);
            cases.push(json!({ "characters": "replaced", "by": becomes, "lines": word, "ranges": ranges }));
        }
    }
    let trimmed = ranges(|c| inside(c, Lines::Many) != "aa" && outside(c) == "a");
    cases.push(json!({ "characters": "trimmed", "ranges": trimmed }));

    assert_eq!(unicode_normalization::UNICODE_VERSION, (18, 0, 0), "FORMAT.md names the version of the NFC tables");
    for case in committed("normalise.json", &cases.into()) {
        if case.get("characters").is_none() {
            let lines = if text(&case, "lines") == "one" { Lines::One } else { Lines::Many };
            let normal = text(&case, "normal");
            assert_eq!(canonical::normalise(text(&case, "text"), lines), normal);
            assert_eq!(canonical::normalise(normal, lines), normal);
        }
    }
}

// ---- what must be refused ----

/// The kind of fault, in one word.
fn fault(error: &DecodeError) -> &'static str {
    match error {
        DecodeError::Empty => "empty",
        DecodeError::Version { .. } | DecodeError::Protocol { .. } => "version",
        DecodeError::TooLong { .. } => "too long",
        DecodeError::Malformed(_) => "malformed",
        DecodeError::Trailing { .. } => "trailing",
        DecodeError::NotCanonical => "not canonical",
        DecodeError::Invalid(_) => "invalid",
    }
}

fn refusal(kind: &str, bytes: &[u8]) -> Option<&'static str> {
    match kind {
        "lesson" => match Lesson::from_bytes(bytes) {
            Err(LessonError::Bytes(error)) => Some(fault(&error)),
            Err(LessonError::TooLong { .. } | LessonError::Empty { .. }) => Some("invalid"),
            Ok(_) => None,
        },
        "record" => match UnverifiedRecord::parse(bytes).and_then(UnverifiedRecord::verify) {
            Err(RecordError::Bytes(error)) => Some(fault(&error)),
            Err(RecordError::Signature) => Some("signature"),
            Ok(_) => None,
        },
        _ => Message::decode(bytes).as_ref().err().map(fault),
    }
}

/// Lesson bytes that break one rule each.
fn refused_lessons() -> Vec<(&'static str, Vec<u8>)> {
    let good = lesson().bytes().to_vec();
    let least = Lesson::new(draft(LessonKind::Strategy, "t", "c")).unwrap().bytes().to_vec();
    let with = |change: &dyn Fn(&mut LessonDraft)| {
        let mut fields = lesson().fields().clone();
        change(&mut fields);
        canonical::encode(&fields)
    };
    vec![
        ("no bytes", vec![]),
        ("only a version", vec![FORMAT_VERSION]),
        ("another version", [&[2], &good[1..]].concat()),
        ("version 0", [&[0], &good[1..]].concat()),
        ("the last byte is missing", good[..good.len() - 1].to_vec()),
        ("a byte too many", [&good[..], &[0]].concat()),
        ("a fifth kind", [&[1, 4], &least[2..]].concat()),
        ("kind as a padded integer", [&[1, 251, 0, 0], &least[2..]].concat()),
        ("a length as a padded integer of three bytes", [&least[..2], &[251, 1, 0], &least[3..]].concat()),
        ("a length as a padded integer of five bytes", [&least[..2], &[252, 1, 0, 0, 0], &least[3..]].concat()),
        (
            "a length as a padded integer of nine bytes",
            [&least[..2], &[253, 1, 0, 0, 0, 0, 0, 0, 0], &least[3..]].concat(),
        ),
        ("an integer of sixteen bytes", [&least[..2], &[254], &[0; 16], &least[3..]].concat()),
        ("a length tag that means nothing", [&least[..2], &[255], &least[3..]].concat()),
        ("a length of 2^40", [&least[..2], &[253, 0, 0, 0, 0, 0, 1, 0, 0], &least[3..]].concat()),
        ("text that is not UTF-8", [&least[..3], &[0xff], &least[4..]].concat()),
        ("a surrogate", [&[1, 0, 3, 0xed, 0xa0, 0x80], &least[4..]].concat()),
        ("no title", with(&|l| l.title.clear())),
        ("no content", with(&|l| l.content.clear())),
        ("title over its limit", with(&|l| l.title = "t".repeat(MAX_TITLE_BYTES + 1))),
        ("applies_when over its limit", with(&|l| l.applies_when = "a".repeat(MAX_CONDITION_BYTES + 1))),
        ("not_when over its limit", with(&|l| l.not_when = "n".repeat(MAX_CONDITION_BYTES + 1))),
        ("content over its limit", with(&|l| l.content = "c".repeat(MAX_CONTENT_BYTES + 1))),
        ("task over its limit", with(&|l| l.task = "k".repeat(MAX_TASK_BYTES + 1))),
        ("domain over its limit", with(&|l| l.domain = "d".repeat(MAX_DOMAIN_BYTES + 1))),
        ("a tag over its limit", with(&|l| l.tags = vec!["g".repeat(MAX_TAG_BYTES + 1)])),
        ("a tag too many", with(&|l| l.tags = (0..=MAX_TAGS).map(|n| format!("{n:02}")).collect())),
        ("over the limit of a body", [&[1u8][..], &vec![0; MAX_BODY_BYTES]].concat()),
        ("tags not sorted", with(&|l| l.tags = vec!["b".into(), "a".into()])),
        ("a tag twice", with(&|l| l.tags = vec!["a".into(), "a".into()])),
        ("an empty tag", with(&|l| l.tags = vec![String::new()])),
        ("title not NFC", with(&|l| l.title = "cafe\u{301}".into())),
        ("title with outer space", with(&|l| l.title = "t ".into())),
        ("title of two lines", with(&|l| l.title = "a\nb".into())),
        ("content with a carriage return", with(&|l| l.content = "a\r\nb".into())),
        ("content with an invisible character", with(&|l| l.content = "a\u{200b}b".into())),
        ("content with a selector of emoji form", with(&|l| l.content = "\u{2764}\u{fe0f}".into())),
        ("content with a shorthand format control", with(&|l| l.content = "a\u{1bca0}b".into())),
        ("content that changes direction", with(&|l| l.content = "a\u{202e}b".into())),
        ("a tag not NFC", with(&|l| l.tags = vec!["e\u{301}".into()])),
    ]
}

/// Signs what [`Record::sign`] would not.
fn signed(fields: &RecordFields) -> Vec<u8> {
    let mut bytes = canonical::encode(fields);
    let id = blake3::derive_key("folklore 2026 record id v1", &bytes);
    bytes.extend(key(1).sign(&[b"folklore record signature v1\0", &id[..]].concat()).0);
    bytes
}

/// Record bytes that break one rule each.
fn refused_records() -> Vec<(&'static str, Vec<u8>)> {
    let good = record().bytes().to_vec();
    let split = good.len() - 64;
    let fields = |claim| RecordFields { bank: bank(), author: author(1), seq: 1, at_ms: AT_MS, claim };
    let lesson_id = lesson().id();
    let taught = |change: &dyn Fn(&mut Evidence)| {
        let mut evidence = evidence();
        change(&mut evidence);
        signed(&fields(Claim::Taught { lesson_id, evidence }))
    };
    let ruled = |change: &dyn Fn(&mut Policy)| {
        let mut policy = policy();
        change(&mut policy);
        signed(&fields(Claim::Policy(policy)))
    };
    let disputed = |reason: &str| signed(&fields(Claim::Disputed { lesson_id, reason: reason.into() }));
    let mut backwards = authors(&[2, 3]);
    backwards.reverse();
    let endorsed = signed(&fields(Claim::Endorsed { lesson_id }));
    let numbers = |count: usize| {
        (0..count).map(|n| AuthorId(std::array::from_fn(|at| if at < 2 { (n >> (8 - 8 * at)) as u8 } else { 0 })))
    };
    let claim_at = 1 + 32 + 32 + 1 + 9;
    assert_eq!(endorsed[claim_at], 4, "where the claim begins");
    vec![
        ("fewer bytes than a signature", good[..63].to_vec()),
        ("a signature alone", good[split..].to_vec()),
        ("another version", [&[2], &good[1..]].concat()),
        ("version 0", [&[0], &good[1..]].concat()),
        ("a byte too many before the signature", [&good[..split], &[0], &good[split..]].concat()),
        ("a byte too many after the signature", [&good[..], &[0]].concat()),
        ("a tenth claim", [&endorsed[..claim_at], &[9], &endorsed[claim_at + 1..]].concat()),
        ("seq as a padded integer", [&endorsed[..65], &[251, 1, 0], &endorsed[66..]].concat()),
        ("seq 0", signed(&RecordFields { seq: 0, ..fields(Claim::Endorsed { lesson_id }) })),
        ("over the limit of a record", [&[1u8][..], &vec![0; MAX_RECORD_BYTES]].concat()),
        ("a name over its limit", taught(&|e| e.agent = "a".repeat(MAX_NAME_BYTES + 1))),
        ("a name not in normal form", taught(&|e| e.judged_by = "a\nb".into())),
        ("injected lessons not sorted", taught(&|e| e.injected.reverse())),
        ("an injected lesson twice", taught(&|e| e.injected = vec![lesson_id; 2])),
        (
            "injected lessons over the limit",
            taught(&|e| e.injected = (0..=MAX_INJECTED as u8).map(|n| LessonId([n; 32])).collect()),
        ),
        ("an outcome that means nothing", {
            let at = claim_at + 1 + 32;
            [&good[..at], &[4], &good[at + 1..]].concat()
        }),
        ("an option that is neither there nor not", {
            let at = claim_at + 1 + 32 + 1;
            [&good[..at], &[2], &good[at + 1..]].concat()
        }),
        ("a reason over its limit", disputed(&"r".repeat(MAX_REASON_BYTES + 1))),
        ("a reason not NFC", disputed("cafe\u{301}")),
        ("curators not sorted", ruled(&|p| p.curators = backwards.clone())),
        ("writers not sorted", ruled(&|p| p.writers = Access::Listed(backwards.clone()))),
        ("principals not sorted", ruled(&|p| p.principals.reverse())),
        ("two principals of one name", ruled(&|p| p.principals[1].name = "east".into())),
        ("a principal's keys not sorted", ruled(&|p| p.principals[0].authors = backwards.clone())),
        ("one key in two principals", ruled(&|p| p.principals[1].authors = authors(&[2, 3]))),
        (
            "a principal's name over its limit",
            ruled(&|p| p.principals[1].name = "x".repeat(MAX_PRINCIPAL_NAME_BYTES + 1)),
        ),
        (
            "a principal too many",
            ruled(&|p| {
                p.principals =
                    (0..=MAX_PRINCIPALS).map(|n| Principal { name: format!("{n:03}"), authors: vec![] }).collect();
            }),
        ),
        (
            "a policy with a key too many in all lists together",
            ruled(&|p| {
                *p = Policy {
                    readers: Access::Listed(numbers(MAX_POLICY_KEYS).collect()),
                    curators: numbers(1).collect(),
                    ..Policy::default()
                };
            }),
        ),
        ("a flag that is neither yes nor no", {
            let mut bytes = ruled(&|_| ());
            let at = bytes.len() - 65;
            bytes[at] = 2;
            bytes
        }),
        ("a bit of the signature flipped", {
            let mut bytes = good.clone();
            bytes[split + 3] ^= 1;
            bytes
        }),
        ("the signature of another author", {
            let other = signed(&RecordFields { author: author(2), ..fields(Claim::Endorsed { lesson_id }) });
            assert_eq!(other.len(), endorsed.len());
            other
        }),
        ("what is signed is the id without the domain", {
            let id = blake3::derive_key("folklore 2026 record id v1", &good[..split]);
            [&good[..split], &key(1).sign(&id).0].concat()
        }),
        ("S of the signature not reduced", [&good[..split + 32], &plus_order(&good[split + 32..])].concat()),
        ("a key that is no point of the curve", {
            let mut fields = fields(Claim::Endorsed { lesson_id });
            fields.author = AuthorId(std::array::from_fn(|n| u8::from(n == 0) * 2));
            signed(&fields)
        }),
        ("a small-order key, whose one signature fits everything", {
            let mut fields = fields(Claim::Endorsed { lesson_id });
            fields.author = AuthorId(std::array::from_fn(|n| u8::from(n == 0)));
            let neutral: [u8; 64] = std::array::from_fn(|n| u8::from(n == 0));
            [canonical::encode(&fields), neutral.to_vec()].concat()
        }),
        ("fits only if multiplied by the cofactor", HEXLOWER.decode(COFACTORED.as_bytes()).unwrap()),
    ]
}

/// `s` plus the order of the group, little endian: the same scalar, written another way.
fn plus_order(s: &[u8]) -> [u8; 32] {
    let order = HEXLOWER.decode(b"edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010").unwrap();
    let mut carry = 0;
    std::array::from_fn(|n| {
        let sum = u16::from(s[n]) + u16::from(order[n]) + carry;
        carry = sum >> 8;
        sum as u8
    })
}

/// Message bytes that break one rule each.
fn refused_messages() -> Vec<(&'static str, Vec<u8>)> {
    let bank = bank();
    let hello = Message::Hello { version: PROTOCOL_VERSION, banks: vec![] }.encode();
    let last = Message::Offer { bank, session: 7, from: 0, ids: vec![], last: true }.encode();
    let ids = |n: usize| vec![RecordId([0; 32]); n];
    let shorts = |n: usize| vec![ShortId([0; 8]); n];
    let sketch = |head, from, cells: usize| {
        let cells = vec![Cell { short: [0; 8], check: [0; 4] }; cells];
        Message::Sketch { bank, session: 7, head, from, cells, last: true }.encode()
    };
    let sketched = |answer| Message::Sketched { bank, session: 7, answer }.encode();
    let more =
        |bytes: usize| sketched(SketchAnswer::More { have: 0, records: 0, nonce: 0, estimate: Some(vec![0; bytes]) });
    let probe = |nibbles: u8, bytes: &[u8]| {
        let head = [&[FORMAT_VERSION, 6], &bank.0[..], &[7, 1, nibbles, bytes.len() as u8]].concat();
        [&head, bytes, &[0; 16]].concat()
    };
    let probed = |ids| Message::Probed { bank, session: 7, answers: vec![ProbeAnswer::Ids(ids)] }.encode();
    let greeted = GreetedBank { tag: BankTag([0; 16]), root: Root([0; 32]), records: 0, resumes: false };
    let push = |record, body| Message::Push { bank, hops: 0, item: Item { record, body } }.encode();
    let ask = |query: &str, hits| Message::Ask { bank, request: 1, query: query.into(), hits }.encode();
    let refusal = |detail: &str| Message::Refusal { code: RefusalCode::Bank, detail: detail.into() }.encode();
    let mut backwards = sorted_ids(2);
    backwards.reverse();
    let empty = || Item { record: vec![], body: None };
    let suggest = |near| Message::Suggest { bank, request: 1, near, from: 0 }.encode();
    vec![
        ("no bytes", vec![]),
        ("another version", [&[2], &hello[1..]].concat()),
        ("version 0", [&[0], &hello[1..]].concat()),
        ("another version, and nothing after it", vec![2]),
        ("another version, over the limit of this one", [&[2u8][..], &vec![0; MAX_MESSAGE_BYTES]].concat()),
        ("a byte too many", [&hello[..], &[0]].concat()),
        ("a greeting of version 1, with a bank as it was then", {
            let greeted = [&[1, 0, 1, 1], &[7; 16][..], &[9; 32], &[251, 44, 1]].concat();
            greeted.to_vec()
        }),
        ("a greeting of a later version, whatever follows", vec![1, 0, 251, 44, 1, 255, 255]),
        ("a message that is not in the list", vec![1, 22]),
        ("marks over the limit", { Message::Run { bank, head: run_head(0, MAX_RUN_MARKS + 1), about: None }.encode() }),
        (
            "steps of a run over the limit",
            Message::Run { bank, head: run_head(MAX_RUN_STEPS + 1, 0), about: None }.encode(),
        ),
        ("a task of a run over its limit", {
            let about = RunAbout { task: "t".repeat(MAX_RUN_TASK_BYTES + 1), ..run_about() };
            Message::Run { bank, head: run_head(0, 0), about: Some(about) }.encode()
        }),
        ("a name of a run over its limit", {
            let about = RunAbout { name: "n".repeat(MAX_RUN_LINE_BYTES + 1), ..run_about() };
            Message::Run { bank, head: run_head(0, 0), about: Some(about) }.encode()
        }),
        ("pieces over the limit", {
            let pieces = vec![StepPiece { bytes: vec![], left: 0 }; MAX_PIECES + 1];
            Message::RunSteps { bank, request: 1, run: RunKey([0; 16]), pieces }.encode()
        }),
        ("a piece behind one that is cut", {
            let pieces = vec![StepPiece { bytes: vec![1], left: 1 }, StepPiece { bytes: vec![1], left: 0 }];
            Message::RunSteps { bank, request: 1, run: RunKey([0; 16]), pieces }.encode()
        }),
        ("a refusal code that means nothing", vec![1, 1, 3, 0]),
        ("over the limit of a message", [&[1u8][..], &vec![0; MAX_MESSAGE_BYTES]].concat()),
        ("last is neither yes nor no", [&last[..last.len() - 1], &[2]].concat()),
        ("a u32 in nine bytes", vec![1, 0, 253, 0, 0, 0, 0, 1, 0, 0, 0, 0]),
        (
            "banks over the limit",
            Message::Hello { version: PROTOCOL_VERSION, banks: vec![greeted; MAX_GREETED_BANKS + 1] }.encode(),
        ),
        ("detail over its limit", refusal(&"d".repeat(257))),
        ("detail of two lines", refusal("a\nb")),
        ("a record over its limit", push(vec![0; MAX_RECORD_BYTES + 1], None)),
        ("a body over its limit", push(vec![], Some(vec![0; MAX_BODY_BYTES + 1]))),
        ("ids over the limit", Message::Have { bank, ids: ids(MAX_IDS + 1) }.encode()),
        ("offered ids over the limit", {
            Message::Offer { bank, session: 7, from: 0, ids: ids(MAX_IDS + 1), last: true }.encode()
        }),
        ("texts over the limit", suggest(vec![String::new(); MAX_NEAR + 1])),
        ("a text over its limit", suggest(vec!["n".repeat(MAX_NEAR_BYTES + 1)])),
        ("a text out of normal form", suggest(vec![" refund".into()])),
        (
            "suggested short ids over the limit",
            Message::Suggested { bank, request: 1, ids: shorts(MAX_FETCH + 1) }.encode(),
        ),
        (
            "fetched short ids over the limit",
            Message::Fetch { bank, request: 1, budget_bytes: 1, ids: shorts(MAX_FETCH + 1) }.encode(),
        ),
        (
            "absent ids over the limit",
            Message::Records { bank, request: 1, items: vec![], absent: ids(MAX_FETCH + 1), unknown: vec![] }.encode(),
        ),
        (
            "unknown short ids over the limit",
            Message::Records { bank, request: 1, items: vec![], absent: vec![], unknown: shorts(MAX_FETCH + 1) }
                .encode(),
        ),
        (
            "records of a fetch over the limit",
            Message::Records {
                bank,
                request: 1,
                items: (0..=MAX_FETCH).map(|_| empty()).collect(),
                absent: vec![],
                unknown: vec![],
            }
            .encode(),
        ),
        (
            "records over the limit",
            Message::Answer { bank, request: 1, items: (0..=MAX_FETCH).map(|_| empty()).collect(), records: 0 }
                .encode(),
        ),
        ("probes over the limit", {
            let probe = Probe { prefix: Prefix::root(), hash: [0; 16] };
            Message::Probe { bank, session: 7, probes: vec![probe; MAX_PROBES + 1] }.encode()
        }),
        (
            "answers over the limit",
            Message::Probed { bank, session: 7, answers: vec![ProbeAnswer::Same; MAX_PROBES + 1] }.encode(),
        ),
        ("a prefix of 65 half bytes", probe(65, &[0; 33])),
        ("a prefix with a byte too few", probe(3, &[0xab])),
        ("a prefix with a byte too many", probe(2, &[0xab, 0])),
        ("a prefix with bits behind its end", probe(3, &[0xab, 0xcd])),
        ("ids of a leaf not sorted", probed(backwards)),
        ("an id of a leaf twice", probed(ids(2))),
        ("a leaf over its limit", probed(sorted_ids(LEAF_IDS as u32 + 1))),
        ("hits over the limit", ask("q", MAX_ASKED_HITS + 1)),
        ("a query over its limit", ask(&"q".repeat(MAX_QUERY_BYTES + 1), 1)),
        ("a query not in normal form", ask("q\u{200b}", 1)),
        ("cells over the limit", sketch(Some(head(None)), 0, MAX_CELLS + 1)),
        ("first cells without a head", sketch(None, 0, 1)),
        ("a head with cells that are not the first", sketch(Some(head(None)), 1, 1)),
        ("half a cell", {
            // The second of two cells ends within its check.
            let bytes = sketch(Some(head(None)), 0, 2);
            bytes[..bytes.len() - 3].to_vec()
        }),
        ("an estimate with a byte too few", more(ESTIMATE_BYTES - 1)),
        ("an estimate with a byte too many", more(ESTIMATE_BYTES + 1)),
        ("an estimate without bytes", more(0)),
        ("short ids found over the limit", sketched(SketchAnswer::Found { lacks: shorts(MAX_SHORT_IDS + 1), left: 0 })),
        (
            "ids found under a salt over the limit",
            sketched(SketchAnswer::FoundSalted { lacks: ids(MAX_IDS + 1), wants: vec![], left: 0 }),
        ),
        (
            "short ids wanted under a salt over the limit",
            sketched(SketchAnswer::FoundSalted { lacks: vec![], wants: shorts(MAX_SHORT_IDS + 1), left: 0 }),
        ),
        ("an eighth answer to a sketch", {
            let mut bytes = sketched(SketchAnswer::Done);
            if let Some(last) = bytes.last_mut() {
                assert_eq!(*last, 6, "the last answer there is");
                *last = 7;
            }
            bytes
        }),
    ]
}

#[test]
fn these_bytes_are_refused() {
    let kinds = [("lesson", refused_lessons()), ("record", refused_records()), ("message", refused_messages())];
    let mut cases = Vec::new();
    for (kind, refused) in kinds {
        for (why, bytes) in refused {
            let fault = refusal(kind, &bytes).unwrap_or_else(|| panic!("{kind} is read: {why}"));
            cases.push(json!({ "kind": kind, "why": why, "fault": fault, "bytes": hex(&bytes) }));
        }
    }
    for case in committed("refused.json", &cases.into()) {
        assert_eq!(refusal(text(&case, "kind"), &unhex(&case["bytes"])), Some(text(&case, "fault")), "{}", case["why"]);
    }
}

/// A record whose author key is a good key plus a point of order eight. Its signature fits the equation multiplied by
/// the cofactor and not the plain one; signed with other tools, since ours cannot.
const COFACTORED: &str = concat!(
    "0109090909090909090909090909090909090909090909090909090909090909096959b0aaaf17d11888e678edc9aabb4c5b",
    "ff3b1deb927bdc841f8fc655e870c30100040505050505050505050505050505050505050505050505050505050505050505",
    "37c15f7a0f61dafd5284997da049d9b988c656c63b51721abb850f05832243b0314c42a71059259f887045c7f39b42149c97",
    "fd4dfd49a9c3c831f9c4df8ea40f",
);
