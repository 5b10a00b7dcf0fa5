//! What the catalogue keeps, and who waits while its file is written.

use folklore_protocol::{Claim, Evidence, Keypair, Lesson, LessonDraft, LessonId, LessonKind, Record, Verdict};

use super::*;
use crate::bank::{Incoming, OpenOptions};

/// Claims on the flooded lesson beside its teaching.
const FLOOD: u64 = 300;

fn key(n: u64) -> Keypair {
    Keypair::from_seed(blake3::hash(&n.to_le_bytes()).as_bytes())
}

fn bank() -> BankInfo {
    BankInfo::new(key(0).author(), [0; 16], "home")
}

fn lesson(title: &str) -> Lesson {
    Lesson::new(LessonDraft {
        kind: LessonKind::Strategy,
        title: title.into(),
        applies_when: String::new(),
        not_when: String::new(),
        content: format!("Look at {title} before all else."),
        task: format!("treat {title}"),
        domain: "test".into(),
        tags: Vec::new(),
    })
    .unwrap()
}

fn say(by: u64, seq: u64, claim: Claim) -> Incoming {
    Incoming { record: Record::sign(&key(by), bank().id, seq, 0, claim).unwrap(), body: None }
}

fn taught(by: u64, lesson: &Lesson) -> Incoming {
    let claim = Claim::Taught { lesson_id: lesson.id(), evidence: Evidence::told("test") };
    Incoming { body: Some(lesson.clone()), ..say(by, 1, claim) }
}

fn rated(by: u64, id: LessonId, verdict: Verdict) -> Incoming {
    say(by, 2, Claim::Rated { lesson_id: id, verdict, run: None })
}

fn withdrawn(by: u64, lesson: &Lesson) -> Incoming {
    say(by, 2, Claim::Withdrawn { lesson_id: lesson.id(), reason: String::new() })
}

/// Stores something and lets a catalogue learn it.
fn receive(store: &Store, catalogue: &Catalogue, news: Incoming) {
    store.admit(bank().id, vec![news.clone()]).unwrap();
    catalogue.learn(&bank().id, &[news.record], news.body.as_slice());
}

fn open(dir: &Path) -> Store {
    let store = Store::open(dir, OpenOptions { entropy: 7, ..OpenOptions::default() }).unwrap().store;
    store.add_bank(bank()).unwrap();
    store
}

#[test]
fn a_lesson_under_a_flood_of_claims_is_read_once_after_an_opening_and_not_at_every_answer() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("store"));
    let flooded = lesson("the refund");
    let claims = (0..FLOOD).map(|n| rated(100 + n, flooded.id(), Verdict::Helped));
    store.admit(bank().id, [taught(2, &flooded)].into_iter().chain(claims).collect()).unwrap();
    let (me, vectors) = (key(1).author(), dir.path().join("vectors"));
    Catalogue::open(store.clone(), me, &vectors).unwrap().save().unwrap();
    let catalogue = Catalogue::open(store.clone(), me, &vectors).unwrap();
    assert!(catalogue.opening().from_file);
    // A bank that has no record at all: what is answered out of it was not read.
    let nothing = open(&dir.path().join("nothing"));
    let said = |store: &Store| catalogue.read().said(store, 0, &flooded.id());
    assert!(!said(&nothing).whole, "the claims are on disk");
    catalogue.write().said.drop_all();

    let recalled = catalogue.recall("treat the refund", &Wish { k: 1, ..Wish::default() }, &[]).unwrap();
    assert_eq!(recalled.hits[0].standing.helped, 1, "all strangers are one");
    let first = said(&store);
    assert!(first.whole && first.standing.as_ref() == Some(&recalled.hits[0].standing));
    assert_eq!(said(&nothing), first);
    // What a peer is answered with needs none of the claims either, but the one that teaches.
    let answer = catalogue.search(&bank().id, "treat the refund", 1).unwrap();
    assert_eq!(answer[0].0, taught(2, &flooded).record);

    // The next claim is seen.
    let news = rated(0, flooded.id(), Verdict::Hurt);
    receive(&store, &catalogue, news);
    assert_eq!(said(&store).standing.unwrap().hurt, 1);
    assert_eq!(
        catalogue.recall("treat the refund", &Wish { k: 1, ..Wish::default() }, &[]).unwrap().hits[0].standing.hurt,
        1
    );
}

#[test]
fn while_the_files_end_waits_for_the_disk_lessons_are_learned_and_recalled() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("store"));
    let (me, vectors) = (key(1).author(), dir.path().join("vectors"));
    let catalogue = Catalogue::open(store.clone(), me, &vectors).unwrap();
    let learn = |title: &str| receive(&store, &catalogue, taught(2, &lesson(title)));
    learn("the refund");
    // All is put together and nothing is synced yet: this is as long as a slow disk takes.
    let (file, _) = catalogue.put_together(&vectors).unwrap();
    assert!(catalogue.inner.try_write().is_ok(), "nobody waits");
    learn("the parcel");
    assert_eq!(catalogue.recall("treat the parcel", &Wish { k: 1, ..Wish::default() }, &[]).unwrap().hits.len(), 1);
    file.finish().unwrap();
    drop(catalogue);
    let catalogue = Catalogue::open(store, me, &vectors).unwrap();
    assert!(catalogue.opening().from_file);
    assert_eq!(catalogue.lesson_count(&bank().id), 2);
}

/// A bank with a lesson that its author withdrew, and another; opened from the catalogue's file, after the record of the
/// withdrawal rotted.
struct Rotten {
    dir: tempfile::TempDir,
    store: Store,
    gone: Lesson,
    kept: Lesson,
}

impl Rotten {
    fn new() -> (Self, Catalogue) {
        let dir = tempfile::tempdir().unwrap();
        let store = open(&dir.path().join("store"));
        let (gone, kept) = (lesson("the refund"), lesson("the parcel"));
        let withdrawal = withdrawn(2, &gone);
        store.admit(bank().id, vec![taught(2, &gone), taught(3, &kept), withdrawal.clone()]).unwrap();
        let rotten = Self { dir, store, gone, kept };
        rotten.open().save().unwrap();
        rotten.store.rot(&withdrawal.record);
        rotten.store.record(&withdrawal.record.id()).unwrap_err();
        let catalogue = rotten.open();
        assert!(catalogue.opening().from_file);
        rotten.check(&catalogue);
        (rotten, catalogue)
    }

    fn open(&self) -> Catalogue {
        Catalogue::open(self.store.clone(), key(1).author(), &self.dir.path().join("vectors")).unwrap()
    }

    /// What was withdrawn is so wherever it is asked, and the other lesson is shown.
    fn check(&self, catalogue: &Catalogue) {
        let (bank, id) = (bank().id, self.gone.id());
        assert_eq!(catalogue.standing(&id, None).unwrap().1, State::Withdrawn);
        assert!(!catalogue.teaches(&bank, &id));
        assert!(catalogue.has_spoken(&bank, &id, &key(2).author()), "it may not be taught again by itself");
        let (all, _) = catalogue.list(&Wish::default(), 0, 10).unwrap();
        assert_eq!(all.iter().map(|listed| listed.lesson.id()).collect::<Vec<_>>(), [self.kept.id()]);
        let wish = Wish { k: 5, min_score: Some(0.0), ..Wish::default() };
        let offered = Offered { lesson: self.gone.clone(), author: key(2).author(), peer: key(9).author() };
        let recalled = catalogue.recall("treat the refund", &wish, &[offered]).unwrap();
        assert!(recalled.hits.iter().all(|hit| hit.lesson.id() != id));
        assert!(catalogue.search(&bank, "treat the refund", 5).unwrap().iter().all(|(_, lesson)| lesson.id() != id));
    }
}

#[test]
fn a_claim_after_a_withdrawal_that_cannot_be_read_does_not_bring_the_lesson_back() {
    let (rotten, catalogue) = Rotten::new();
    for by in [4, 5] {
        receive(&rotten.store, &catalogue, rated(by, rotten.gone.id(), Verdict::Helped));
        rotten.check(&catalogue);
    }
    // The file that is written now says so too.
    catalogue.save().unwrap();
    drop(catalogue);
    let catalogue = rotten.open();
    assert!(catalogue.opening().from_file);
    rotten.check(&catalogue);
    // And a claim that the catalogue meets at an opening.
    let news = rated(6, rotten.gone.id(), Verdict::Helped);
    rotten.store.admit(bank().id, vec![news]).unwrap();
    drop(catalogue);
    rotten.check(&rotten.open());
}

#[test]
fn a_policy_after_a_withdrawal_that_cannot_be_read_does_not_bring_the_lesson_back() {
    let (rotten, catalogue) = Rotten::new();
    let curators = vec![key(9).author()];
    receive(&rotten.store, &catalogue, say(0, 1, Claim::Policy(Policy { curators, ..Policy::default() })));
    rotten.check(&catalogue);
    // It is in force for what can be read.
    receive(&rotten.store, &catalogue, withdrawn(9, &rotten.kept));
    assert_eq!(catalogue.list(&Wish::default(), 0, 10).unwrap().1, 0);
}
