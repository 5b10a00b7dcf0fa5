//! The corpus of the fuzz targets for the bank's own files, replayed; see `protocol/tests/corpus.rs`.
//!
//! Files that carry a random key, or say what the file system calls them, are made anew with `UPDATE_CORPUS=1` only; that those
//! committed are still read is a test of its own.

use std::{
    fs,
    path::Path,
    sync::{Mutex, PoisonError},
};

use folklore_protocol::{
    AuthorId, BankId, Claim, Evidence, Keypair, Lesson, LessonDraft, LessonId, LessonKind, Outcome, canonical,
};
use folklore_store::{
    bank::{BankInfo, Batch, OpenOptions, Store},
    catalogue::Catalogue,
    files,
    frame::{self, Frame, Key, Kind, Tree},
    jobs::Job,
    run::Step,
    runs::log::{Branch, Ended, RunId, StateHash},
};

#[path = "../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../fuzz/src/store.rs"]
mod targets;

use replay::{Allowance, mutated, replay};
use targets::{ME, TARGETS};

fn frames() -> Vec<Vec<u8>> {
    let split = frame::split(Tree::Record, 7, 1, &[5; 300]).unwrap();
    let whole: Vec<u8> = split.into_iter().flat_map(|(_, bytes)| bytes).collect();
    let key = Key::first(Tree::Record, 9);
    let erased = Frame { key, kind: Kind::Erased, parts: 1, generation: 2, payload: b"" }.to_bytes();
    vec![whole.clone(), [b"noise".as_slice(), &erased, b"more", &whole].concat(), key.to_bytes().to_vec()]
}

fn lesson(n: u8) -> Lesson {
    let topic = ["refund", "parcel", "kettle"][usize::from(n) % 3];
    Lesson::new(LessonDraft {
        kind: LessonKind::ALL[usize::from(n) % 4],
        title: format!("How to treat the {topic} of case{n}"),
        applies_when: String::new(),
        not_when: String::new(),
        content: format!("Look at the {topic} first, then call module{n}."),
        task: format!("treat a {topic} that failed"),
        domain: format!("domain{}", n % 2),
        tags: Vec::new(),
    })
    .unwrap()
}

/// The summary of a small bank that was closed, and its catalogue's file.
fn bank_files(dir: &Path) -> (Vec<u8>, Vec<u8>) {
    let (at, vectors) = (dir.join("store"), dir.join("vectors"));
    let store = Store::open(&at, OpenOptions { entropy: 7, ..OpenOptions::default() }).unwrap().store;
    let key = Keypair::from_seed(&[1; 32]);
    for (n, name) in (0..).zip(["home", "other"]) {
        let bank = BankInfo::new(key.author(), [n; 16], name);
        store.add_bank(bank.clone()).unwrap();
        let taught =
            |n: u8| (Claim::Taught { lesson_id: lesson(n).id(), evidence: Evidence::told("person") }, Some(lesson(n)));
        let mut claims: Vec<_> = (n..n + 5).map(taught).collect();
        claims.push((Claim::Withdrawn { lesson_id: lesson(n).id(), reason: "old".into() }, None));
        store.write(bank.id, &key, 0, Batch { claims, runs: Vec::new(), skip_if_taught: false }).unwrap();
    }
    let catalogue = Catalogue::open(store.clone(), ME, &vectors).unwrap();
    catalogue.save().unwrap();
    drop((catalogue, store));
    (fs::read(at.join("bank.summary")).unwrap(), fs::read(vectors.join("catalogue")).unwrap())
}

fn summaries() -> Vec<Vec<u8>> {
    let dir = tempfile::tempdir().unwrap();
    let (whole, _) = bank_files(dir.path());
    let facts = files::summary(&whole).unwrap();
    // Facts of runs and of what was erased, which this bank has none of.
    let run = [&[7; 33][..], &[1; 16], &[3, 1, 0, 4, 0], b"task"].concat();
    let erased = [&[6, Tree::Lesson.letter()][..], &[2; 8], &[9; 32]].concat();
    vec![whole, [&facts[..], &run, &erased].concat(), facts]
}

/// As the targets read pieces.
fn pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let piece = |piece: &'a [u8]| (piece.len() as u16).to_le_bytes().into_iter().chain(piece.iter().copied());
    pieces.into_iter().flat_map(piece).collect()
}

fn catalogues() -> Vec<Vec<u8>> {
    let dir = tempfile::tempdir().unwrap();
    let (_, file) = bank_files(dir.path());
    let ranges = files::sections(&file, files::CATALOGUE_MAGIC).unwrap();
    let sections: Vec<&[u8]> = ranges.into_iter().map(|range| &file[range]).collect();
    vec![pieces(sections.iter().copied()), pieces(sections[5..].iter().copied())]
}

fn sections() -> Vec<Vec<u8>> {
    let ends =
        |ends: &[(u64, u64)]| ends.iter().flat_map(|e| [e.0, e.1]).flat_map(u64::to_le_bytes).collect::<Vec<u8>>();
    let seed = |told: &[(u64, u64)]| [&[told.len() as u8][..], &ends(told), &[7; 40]].concat();
    vec![seed(&[(8, 20), (24, 48)]), seed(&[]), seed(&[(8, 49)]), seed(&[(30, 8)]), seed(&[(0, u64::MAX)])]
}

fn head(dim: u32, centres: Option<u32>) -> Vec<u8> {
    let mut body = [&[4, 0][..], b"name", &[1, 0], b"1", &dim.to_le_bytes(), &9u64.to_le_bytes(), &[1]].concat();
    body.push(centres.is_some().into());
    if let Some(lists) = centres {
        body.extend(lists.to_le_bytes());
        body.extend((0..lists * dim).flat_map(|n| (n as f32).to_le_bytes()));
    }
    body
}

fn vectors() -> Vec<Vec<u8>> {
    let vector = [&[1, 5, 0, 0, 0][..], &[7; 32], &[1, 0, 2, 0], &1f32.to_le_bytes(), &0f32.to_le_bytes()].concat();
    let log = pieces([&vector[..], &[2, 4, 0, 0, 0]]);
    vec![head(3, None), head(3, Some(2)), [&[1][..], &log].concat(), [&[2][..], &log].concat()]
}

fn jobs() -> Vec<Vec<u8>> {
    let job = Job { number: 3, queued_ms: 70_000, work: vec![9; 40], failure: String::new() };
    let failed = Job { failure: "no answer".into(), ..job.clone() };
    [job, failed].iter().map(canonical::encode).collect()
}

/// The four kinds of entries, written down field by field: what the crate reads it may not change unnoticed.
fn entries() -> Vec<Vec<u8>> {
    // Of another node's run: whose, and what was started there: number, when, action.
    type Copied = (AuthorId, Vec<(u32, u64, String)>);
    let (run, bank, author) = (RunId([7; 16]), BankId([3; 32]), AuthorId([2; 32]));
    let state = StateHash([4; 32]);
    let step = Step { think: "so".into(), action: "pay".into(), observation: "paid".into() };
    let ended = Ended { outcome: Outcome::Success, digest: [8; 32], steps: 2, state, at_ms: 90 };
    let head = |branch: Option<Branch>, ended: Option<Ended>, copy: Option<Copied>| {
        let words = ("shop/7", "refund an order", "retail", "clerk", vec!["refund"]);
        canonical::encode(&(0u8, run, "shop-7", bank, true, words, (2u64, 70u64, 80u64), branch, ended, copy))
    };
    let branch = Branch { from: author, steps: 1, state };
    vec![
        head(None, None, None),
        head(Some(branch), Some(ended), None),
        head(None, None, Some((author, vec![(3, 70, "pay".into())]))),
        canonical::encode(&(1u8, run, 1u32, state, 71u64, &step)),
        canonical::encode(&(2u8, run, 2u32, 72u64, &step)),
        canonical::encode(&(3u8, run, vec![LessonId([6; 32])])),
    ]
}

fn run_logs() -> Vec<Vec<u8>> {
    let mut seeds = entries();
    let all = pieces(seeds.iter().map(|entry| &entry[..]));
    let open = pieces([0, 3, 4, 5].map(|n| &seeds[n][..]));
    seeds.extend([all, open]);
    seeds
}

fn allowed() -> Vec<Vec<u8>> {
    let texts = ["# of the manual\nhelp@example.org\n\n  second value  \n", "short\n", "one value\r\none value\r\n"];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// One at a time: what is allocated is counted over the whole process.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn nothing_in_the_corpus_panics_or_allocates_beyond_its_size() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for target in TARGETS {
        let mut seeds = match target.0 {
            "frame" => frames(),
            "summary" => summaries(),
            "sections" => sections(),
            "catalogue" => catalogues(),
            "vectors" => vectors(),
            "job" => jobs(),
            "run_log" => run_logs(),
            "allow" => allowed(),
            other => panic!("no seeds for {other}"),
        };
        let whole = seeds.clone();
        seeds.extend(whole.iter().enumerate().map(|(n, seed)| mutated(seed, &whole, 1_000 + n as u64)));
        let allowance = match target.0 {
            // Threads that check a file's hashes, and what they run on.
            "sections" => Allowance { fixed: 256 << 10, each: 256, pinned: true },
            "summary" => Allowance { fixed: 64 << 10, each: 256, pinned: false },
            // A block of documents that are added is a megabyte; there are two indexes. Tables of words are made at first use.
            "catalogue" => Allowance { fixed: 8 << 20, each: 512, pinned: false },
            // A centre is kept rotated too, which is at least 64 components long.
            "vectors" => Allowance { fixed: 64 << 10, each: 1024, pinned: true },
            _ => Allowance { fixed: 64 << 10, each: 256, pinned: true },
        };
        replay(*target, &seeds, 150, &allowance);
    }
}

#[test]
fn the_seeds_are_files_that_are_read_and_not_only_refused() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let committed = |target: &str, seed: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target).join(seed);
        fs::read(path).unwrap()
    };
    let summary = committed("summary", "seed-00");
    assert!(files::summary(&summary).is_some_and(|facts| !facts.is_empty()));
    assert!(files::summary_block(&committed("summary", "seed-01")).is_some());
    let catalogue = committed("catalogue", "seed-00");
    let sections = targets::pieces(&catalogue);
    let (words, lessons, claims) = files::catalogue(&sections, &ME).expect("a newer version writes the seeds anew");
    assert!(words.len() == lessons && lessons == 6 && claims >= 6, "{lessons} {claims}");
    assert!(files::words(&sections[5..]).is_some());
    for body in [head(3, None), head(3, Some(2))] {
        let head = [b"FLKVECT1", &(body.len() as u32).to_le_bytes()[..], &body].concat();
        assert!(files::vector_head(&[&head[..], blake3::hash(&head).as_bytes()].concat()).is_some());
    }
    assert!(jobs().iter().all(|job| files::job(job).is_some()));
    assert!(entries().iter().all(|entry| files::run_log_entry(entry).is_some()));
    let entries = entries();
    let runs = files::run_log(&[0, 3, 4, 5].map(|n| &entries[n][..]));
    assert_eq!((runs.len(), runs[0].steps, runs[0].uncertain, runs[0].given.len()), (1, 1, 1, 1));
}
