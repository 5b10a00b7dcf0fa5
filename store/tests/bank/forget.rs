//! A forgotten lesson's text is in no file, comes back from nowhere, and its records stay.

use std::{
    fs, io,
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use folklore_protocol::{
    claim::Claim,
    lesson::{Lesson, LessonDraft},
    record::Record,
};
use folklore_store::{
    bank::{Admission, Batch, Incoming, Store},
    catalogue::{Catalogue, Wish},
    embed::{EmbedError, Embedder, EmbedderIdentity},
    frame::{self, Key, Kind, Tree},
    recall::gate::Gate,
};

use crate::common::{home, key, lesson, open, open_clean, taught, teach};

/// Files below a directory that have these bytes. A rewrite may put others in their place meanwhile; then it looks again.
fn files_with(dir: &Path, wanted: &[u8]) -> Vec<String> {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        match look_for(dir, wanted) {
            Ok(found) => return found,
            Err(error) => assert!(error.kind() == io::ErrorKind::NotFound && Instant::now() < until, "{error}"),
        }
    }
}

fn look_for(dir: &Path, wanted: &[u8]) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.extend(look_for(&entry.path(), wanted)?);
        } else if fs::read(entry.path())?.windows(wanted.len()).any(|window| window == wanted) {
            found.push(entry.path().display().to_string());
        }
    }
    Ok(found)
}

/// Text that only this lesson has.
fn mark(lesson: &Lesson) -> Vec<u8> {
    lesson.content.as_bytes()[..40].to_vec()
}

fn records(store: &Store) -> Vec<Record> {
    let ids = store.record_ids(&home().id);
    store.records(&ids).unwrap().into_iter().map(|(record, _)| record).collect()
}

/// The lesson is gone, the records are as they were, and the others can be read.
fn check(store: &Store, gone: &Lesson, before: &[Record]) {
    assert!(store.is_forgotten(&gone.id()) && !store.has_lesson(&gone.id()));
    assert_eq!(store.lesson(&gone.id()).unwrap(), None);
    assert_eq!(records(store), before);
    assert!(store.missing_bodies(&home().id).is_empty());
    let mut held = 0;
    store.for_each_lesson(|lesson| held += usize::from(lesson.id() != gone.id())).unwrap();
    assert_eq!(held, store.counts().lessons);
    assert!(store.verify(|_| ()).unwrap().ok(), "{:?}", store.verify(|_| ()));
}

#[test]
fn a_forgotten_text_is_in_no_file_and_does_not_come_back_from_carving_or_from_a_peer() {
    let dir = tempfile::tempdir().unwrap();
    let bank = dir.path().join("store");
    let store = open_clean(&bank);
    for from in [0, 40, 80] {
        store.write(home().id, &key(1), 0, teach(from..from + 40)).unwrap();
    }
    let (gone, before) = (lesson(50), records(&store));
    let catalogue = Catalogue::open(store.clone(), key(1).author(), &dir.path().join("vectors")).unwrap();
    catalogue.save().unwrap();
    assert!(files_with(&bank, &mark(&gone)).len() == 1, "the test looks for the right bytes");
    // Vectors lie under the lesson's id; the catalogue's file may have that, as the records do.
    let (vectors, vector_key) = (dir.path().join("vectors/task-text-1"), &gone.id().0);
    assert!(!files_with(&vectors, vector_key).is_empty());

    let forgotten = store.forget(&[gone.id()]).unwrap();
    assert_eq!((forgotten.erased, forgotten.not_rewritten, forgotten.copies), (1, None, vec![]));
    catalogue.forget(&[gone.id()]).unwrap();
    assert_eq!(files_with(dir.path(), &mark(&gone)), Vec::<String>::new());
    assert_eq!(files_with(&vectors, vector_key), Vec::<String>::new());
    check(&store, &gone, &before);
    assert!(catalogue.list(&Wish::default(), 0, 500).unwrap().0.iter().all(|listed| listed.lesson.id() != gone.id()));
    assert!(catalogue.standing(&gone.id(), None).is_some(), "what records say of it stays");
    // Once more adds nothing.
    assert_eq!(store.forget(&[gone.id()]).unwrap().erased, 0);

    // A peer that has it sends record and text again, and the text alone.
    let record = before.iter().find(|record| record.claim().body() == Some(gone.id())).unwrap().clone();
    let again = store.admit(home().id, vec![Incoming { record: record.clone(), body: Some(gone.clone()) }]).unwrap();
    assert_eq!(again, [Admission::Known]);
    assert_eq!(store.put_bodies(std::slice::from_ref(&gone)).unwrap(), 0);
    catalogue.learn(&home().id, &[record], std::slice::from_ref(&gone));
    assert_eq!(catalogue.list(&Wish::default(), 0, 500).unwrap().1, 119);
    // And another author teaches it.
    let claim = taught(&gone).0;
    let other = Record::sign(&key(5), home().id, 1, 0, claim).unwrap();
    store.admit(home().id, vec![Incoming { record: other, body: Some(gone.clone()) }]).unwrap();
    let before = records(&store);
    check(&store, &gone, &before);
    drop((store, catalogue));

    // From the summary, from all values, and carved out of a file whose beginning is rubbish.
    for spoil in [None, Some("bank.summary"), Some("bank/db")] {
        if let Some(name) = spoil {
            let path = bank.join(name);
            let mut bytes = fs::read(&path).unwrap();
            if name == "bank/db" {
                fs::read_dir(bank.join("bank")).unwrap().flatten().for_each(|entry| {
                    if entry.file_name().to_string_lossy().starts_with("snap.") {
                        fs::remove_file(entry.path()).unwrap();
                    }
                });
                bytes[..16].fill(0xff);
            } else {
                bytes.clear();
            }
            fs::write(&path, bytes).unwrap();
        }
        let (store, report) = open(&bank);
        assert_eq!(report.lost, 0, "{spoil:?} {report:#?}");
        check(&store, &gone, &before);
        assert_eq!(files_with(&bank.join("bank"), &mark(&gone)), Vec::<String>::new(), "{spoil:?}");
        let catalogue = Catalogue::open(store.clone(), key(1).author(), &dir.path().join("vectors")).unwrap();
        assert_eq!(catalogue.list(&Wish::default(), 0, 500).unwrap().1, 119, "{spoil:?}");
    }
}

#[test]
fn carving_before_the_rewrite_brings_nothing_back_either() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_clean(dir.path());
    store.write(home().id, &key(1), 0, teach(0..60)).unwrap();
    drop(store);
    // As a crash between the mark and the rewrite leaves it: the old pack still lies in the log.
    let old = fs::read(dir.path().join("bank/db")).unwrap();
    let store = open_clean(dir.path());
    let (gone, before) = (lesson(7), records(&store));
    store.forget(&[gone.id()]).unwrap();
    drop(store);
    // A spare copy of the log from before, as opening makes them.
    fs::write(dir.path().join("bank.spare-0"), old).unwrap();
    let db = dir.path().join("bank/db");
    let mut bytes = fs::read(&db).unwrap();
    bytes[..16].fill(0xff);
    fs::write(&db, bytes).unwrap();
    fs::read_dir(dir.path().join("bank")).unwrap().flatten().for_each(|entry| {
        if entry.file_name().to_string_lossy().starts_with("snap.") {
            fs::remove_file(entry.path()).unwrap();
        }
    });
    let (store, report) = open(dir.path());
    println!("{:#?}", report.lines());
    check(&store, &gone, &before);
}

#[test]
fn a_lesson_that_this_node_teaches_again_is_no_longer_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_clean(dir.path());
    store.write(home().id, &key(1), 0, teach(0..20)).unwrap();
    // One that is here, and one that is not and is not to come.
    store.forget(&[lesson(3).id(), lesson(900).id()]).unwrap();
    let record = Record::sign(&key(2), home().id, 1, 0, taught(&lesson(900)).0).unwrap();
    store.admit(home().id, vec![Incoming { record, body: Some(lesson(900)) }]).unwrap();
    assert!(store.is_forgotten(&lesson(3).id()) && !store.has_lesson(&lesson(900).id()));
    let claim = Claim::Withdrawn { lesson_id: lesson(3).id(), reason: String::new() };
    store.write(home().id, &key(1), 0, Batch { claims: vec![(claim, None)], ..Batch::default() }).unwrap();
    store.write(home().id, &key(1), 0, teach(3..4)).unwrap();
    assert_eq!(store.lesson(&lesson(3).id()).unwrap(), Some(lesson(3)));
    drop(store);
    for summary in [true, false] {
        if !summary {
            fs::remove_file(dir.path().join("bank.summary")).unwrap();
        }
        let store = open_clean(dir.path());
        assert_eq!(store.lesson(&lesson(3).id()).unwrap(), Some(lesson(3)));
        assert!(!store.is_forgotten(&lesson(3).id()) && store.is_forgotten(&lesson(900).id()));
    }
}

/// Takes a bank back to how banks were written before there were packs: each value under a key of its own.
fn unpack(dir: &Path) {
    let db = sled::Config::new().path(dir.join("bank")).segment_size(8 * 1024 * 1024).open().unwrap();
    let packs: Vec<_> = db.scan_prefix([frame::PACK_LETTER]).map(|entry| entry.unwrap()).collect();
    assert!(!packs.is_empty());
    for (key, pack) in packs {
        for (_, frame) in frame::carve(&pack) {
            assert_eq!(frame.kind, Kind::Value);
            db.insert(frame.key.to_bytes(), frame.to_bytes()).unwrap();
        }
        db.remove(key).unwrap();
    }
    assert!(db.get(Key::first(Tree::Lesson, u64::MAX).to_bytes()).unwrap().is_none());
    db.flush().unwrap();
}

#[test]
fn a_bank_from_before_there_were_packs_opens_serves_forgets_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_clean(dir.path());
    store.write(home().id, &key(1), 0, teach(0..30)).unwrap();
    let before = records(&store);
    drop(store);
    unpack(dir.path());
    let store = open_clean(dir.path());
    assert_eq!(records(&store), before);
    assert!((0..30).all(|n| store.lesson(&lesson(n).id()).unwrap() == Some(lesson(n))));
    assert!(store.verify(|_| ()).unwrap().ok(), "{:?}", store.verify(|_| ()));
    store.write(home().id, &key(1), 0, teach(30..40)).unwrap();
    let before = records(&store);
    store.forget(&[lesson(4).id(), lesson(35).id()]).unwrap();
    assert_eq!(files_with(dir.path(), &mark(&lesson(4))), Vec::<String>::new());
    check(&store, &lesson(4), &before);
    drop(store);
    let store = open_clean(dir.path());
    check(&store, &lesson(35), &before);
    assert_eq!(store.counts().lessons, 38);
}

/// Keeps a database from being rewritten.
fn in_the_way(dir: &Path) -> std::path::PathBuf {
    let path = dir.join("bank.rebuild");
    fs::write(&path, "in the way of a rewrite").unwrap();
    path
}

#[test]
fn a_forgetting_that_could_not_rewrite_the_database_is_finished_when_it_is_said_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_clean(dir.path());
    store.write(home().id, &key(1), 0, teach(0..60)).unwrap();
    let (gone, before) = (lesson(7), records(&store));
    let obstacle = in_the_way(dir.path());
    let forgotten = store.forget(&[gone.id()]).unwrap();
    assert!(forgotten.erased == 1 && forgotten.not_rewritten.is_some(), "{forgotten:?}");
    assert!(!files_with(dir.path(), &mark(&gone)).is_empty(), "the test looks for the right bytes");
    // Again, with nothing mended: it must not say that all is well.
    let forgotten = store.forget(&[gone.id()]).unwrap();
    assert!(forgotten.erased == 0 && forgotten.not_rewritten.is_some(), "{forgotten:?}");
    fs::remove_file(obstacle).unwrap();
    let forgotten = store.forget(&[gone.id()]).unwrap();
    assert_eq!((forgotten.erased, forgotten.not_rewritten), (0, None));
    assert_eq!(files_with(dir.path(), &mark(&gone)), Vec::<String>::new());
    check(&store, &gone, &before);
    // Nothing is owed any more, so nothing is rewritten for it.
    let rewrites = store.upkeep().rewrites;
    store.forget(&[gone.id(), lesson(900).id()]).unwrap();
    assert_eq!(store.upkeep().rewrites, rewrites);
}

#[test]
fn a_forgetting_that_was_cut_short_is_finished_by_the_next_opening() {
    let dir = tempfile::tempdir().unwrap();
    let (bank, vectors) = (dir.path().join("store"), dir.path().join("vectors"));
    let store = open_clean(&bank);
    store.write(home().id, &key(1), 0, teach(0..59)).unwrap();
    let content = "Before it runs the vermilion escalator needs its governor reseated.".to_owned();
    let gone = Lesson::new(LessonDraft { content, ..lesson(7).fields().clone() }).unwrap();
    store.write(home().id, &key(1), 0, Batch { claims: vec![taught(&gone)], ..Batch::default() }).unwrap();
    let before = records(&store);
    let catalogue = Catalogue::open(store.clone(), key(1).author(), &vectors).unwrap();
    catalogue.save().unwrap();
    let words = || files_with(&vectors, b"vermilion");
    let traces = || [files_with(&vectors.join("task-text-1"), &gone.id().0), words()].concat();
    assert!(words().len() == 1 && traces().len() > 1, "the test looks for the right bytes");
    // The process ends after the mark is durable: no rewrite, and the catalogue is never told.
    let obstacle = in_the_way(&bank);
    assert!(store.forget(&[gone.id()]).unwrap().not_rewritten.is_some());
    drop((store, catalogue));
    fs::remove_file(obstacle).unwrap();
    assert!(!files_with(&bank, &mark(&gone)).is_empty());

    let store = open_clean(&bank);
    let catalogue = Catalogue::open(store.clone(), key(1).author(), &vectors).unwrap();
    assert_eq!(traces(), Vec::<String>::new());
    let until = Instant::now() + Duration::from_secs(120);
    while !files_with(&bank, &mark(&gone)).is_empty() {
        assert!(Instant::now() < until, "{:?}", store.upkeep());
        thread::sleep(Duration::from_millis(100));
    }
    check(&store, &gone, &before);
    assert_eq!(catalogue.list(&Wish::default(), 0, 500).unwrap().1, 59);
    drop((store, catalogue));
    // Once.
    let store = open_clean(&bank);
    Catalogue::open(store.clone(), key(1).author(), &vectors).unwrap();
    thread::sleep(Duration::from_secs(3));
    assert_eq!(store.upkeep().rewrites, 0);
}

/// An embedder that is not always there: a text's vector is made of its hash.
struct Hashed(EmbedderIdentity);

impl Hashed {
    fn new(name: &str) -> Self {
        Self(EmbedderIdentity { name: name.into(), revision: "1".into(), dim: 8 })
    }
}

impl Embedder for Hashed {
    fn identity(&self) -> &EmbedderIdentity {
        &self.0
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Option<Vec<f32>>>, EmbedError> {
        let vector = |text: &&str| {
            let all: Vec<f32> =
                blake3::hash(text.as_bytes()).as_bytes()[..8].iter().map(|b| f32::from(*b) + 1.0).collect();
            let norm = all.iter().map(|x| x * x).sum::<f32>().sqrt();
            Some(all.into_iter().map(|x| x / norm).collect())
        };
        Ok(texts.iter().map(vector).collect())
    }
}

/// Lets a catalogue use an embedder, and makes all vectors that wait for it.
fn embed_all(catalogue: &Catalogue, name: &str) {
    let embedder = Hashed::new(name);
    let notes = catalogue.use_embedder(Arc::new(Hashed::new(name)), Gate::BUILTIN);
    assert_eq!(notes, Vec::<String>::new());
    let (waiting, _) = catalogue.unembedded(None, usize::MAX, |_| false);
    let made: Vec<_> = waiting
        .iter()
        .map(|lesson| {
            let keys: Vec<&str> = lesson.keys.iter().map(String::as_str).collect();
            (lesson.id, embedder.embed(&keys).unwrap().into_iter().flatten().collect())
        })
        .collect();
    catalogue.embedded(embedder.identity(), &made).unwrap();
    assert_eq!(catalogue.embedding().unwrap().waiting, 0);
}

#[test]
fn vectors_of_embedders_that_are_not_in_use_are_forgotten_too() {
    let dir = tempfile::tempdir().unwrap();
    let (bank, vectors) = (dir.path().join("store"), dir.path().join("vectors"));
    let store = open_clean(&bank);
    store.write(home().id, &key(1), 0, teach(0..50)).unwrap();
    let open = || Catalogue::open(store.clone(), key(1).author(), &vectors).unwrap();
    // Three models have been in use, one after the other; in the last space most vectors are in a full block.
    let spaces = || {
        let mut all: Vec<_> = fs::read_dir(vectors.join("task-text-1")).unwrap().map(|e| e.unwrap().path()).collect();
        all.sort();
        all
    };
    for name in ["of last year", "of last month"] {
        embed_all(&open(), name);
    }
    store.write(home().id, &key(1), 0, teach(1000..3200)).unwrap();
    let catalogue = open();
    embed_all(&catalogue, "away now");
    assert_eq!(spaces().len(), 4);
    let (first, last) = (lesson(7), lesson(3190));
    let with = |lesson: &Lesson| spaces().iter().map(|space| files_with(space, &lesson.id().0).len()).sum::<usize>();
    assert_eq!((with(&first), with(&last)), (4, 2));
    catalogue.save().unwrap();
    drop(catalogue);

    // One that was begun and never finished, of which nothing can be read.
    let broken = vectors.join("task-text-1/0123456789abcdef/g1");
    fs::create_dir_all(&broken).unwrap();
    fs::write(broken.join("log"), first.id().0).unwrap();
    let catalogue = open();
    store.forget(&[first.id(), last.id()]).unwrap();
    catalogue.forget(&[first.id(), last.id()]).unwrap();
    assert_eq!((with(&first), with(&last)), (0, 0));
    // The others have theirs still, and nothing is damaged.
    for (name, waiting) in [("of last year", 2200 - 1), ("away now", 0)] {
        let notes = catalogue.use_embedder(Arc::new(Hashed::new(name)), Gate::BUILTIN);
        assert_eq!((notes, catalogue.embedding().unwrap().waiting), (Vec::<String>::new(), waiting), "{name}");
    }
}
