//! The catalogue's file: an opening with it shows what one without it shows, and a file that does not fit is not believed.

use std::{fs, path::Path};

use folklore_protocol::{
    BankId, Claim, Evidence, Keypair, Lesson, LessonDraft, LessonId, LessonKind, Policy, Record, Verdict,
};
use folklore_store::{
    bank::{BankInfo, Batch, Incoming, OpenOptions, Store},
    catalogue::{Catalogue, Wish},
};

const LESSONS: u32 = 60;

fn key(n: u8) -> Keypair {
    Keypair::from_seed(&[n; 32])
}

fn lesson(n: u32) -> Lesson {
    let topics = ["refund", "parcel", "compiler", "database", "kettle"];
    let topic = topics[n as usize % topics.len()];
    Lesson::new(LessonDraft {
        kind: LessonKind::ALL[n as usize % 4],
        title: format!("How to treat the {topic} of case{n}"),
        applies_when: String::new(),
        not_when: String::new(),
        content: format!("Look at the {topic} first, then at detail{n} and only then call module{n}."),
        task: format!("treat a {topic} that failed in way{n}"),
        domain: format!("domain{}", n % 3),
        tags: Vec::new(),
    })
    .unwrap()
}

struct World {
    dir: tempfile::TempDir,
    store: Store,
    banks: [BankInfo; 2],
    seq: u64,
}

impl World {
    /// Two banks, and what several nodes said in them.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store =
            Store::open(&dir.path().join("store"), OpenOptions { entropy: 7, ..OpenOptions::default() }).unwrap().store;
        let banks = ["home", "other"].map(|name| BankInfo::new(key(1).author(), [0; 16], name));
        banks.iter().for_each(|bank| store.add_bank(bank.clone()).unwrap());
        Self { dir, store, banks, seq: 0 }
    }

    fn vectors(&self) -> std::path::PathBuf {
        self.dir.path().join("vectors")
    }

    fn open(&self) -> Catalogue {
        Catalogue::open(self.store.clone(), key(1).author(), &self.vectors()).unwrap()
    }

    fn say(&mut self, catalogue: Option<&Catalogue>, bank: usize, n: u8, claim: Claim, body: Option<Lesson>) {
        self.seq += 1;
        let record = Record::sign(&key(n), self.banks[bank].id, self.seq, 0, claim).unwrap();
        self.receive(catalogue, record, body);
    }

    fn receive(&self, catalogue: Option<&Catalogue>, record: Record, body: Option<Lesson>) {
        let bank = record.bank();
        let incoming = Incoming { record: record.clone(), body: body.clone() };
        self.store.admit(bank, vec![incoming]).unwrap();
        if let Some(catalogue) = catalogue {
            catalogue.learn(&bank, &[record], body.as_slice());
        }
    }

    /// Whether a catalogue lists a lesson.
    fn lists(&self, catalogue: &Catalogue, bank: usize, n: u32) -> bool {
        let wish = Wish { bank: Some(self.banks[bank].id), ..Wish::default() };
        catalogue.list(&wish, 0, 100).unwrap().0.iter().any(|listed| listed.lesson.id() == lesson(n).id())
    }

    fn teach(&mut self, catalogue: Option<&Catalogue>, bank: usize, n: u32) {
        let claim = Claim::Taught { lesson_id: lesson(n).id(), evidence: Evidence::told("person") };
        self.say(catalogue, bank, 2, claim, Some(lesson(n)));
    }

    fn fill(&mut self, catalogue: Option<&Catalogue>) {
        for n in 0..LESSONS {
            self.teach(catalogue, usize::from(n % 5 == 0), n);
        }
        self.teach(catalogue, 0, 5);
        let id = |n: u32| lesson(n).id();
        self.say(catalogue, 0, 3, Claim::Rated { lesson_id: id(1), verdict: Verdict::Helped, run: None }, None);
        self.say(catalogue, 0, 3, Claim::Disputed { lesson_id: id(2), reason: "no".into() }, None);
        self.say(catalogue, 0, 2, Claim::Withdrawn { lesson_id: id(3), reason: "old".into() }, None);
        // Nobody has sent the text of this one.
        let missing = Claim::Taught { lesson_id: id(1000), evidence: Evidence::told("person") };
        self.say(catalogue, 0, 4, missing, None);
    }
}

/// All that a catalogue shows.
fn shown(catalogue: &Catalogue, world: &World) -> Vec<String> {
    let mut out = Vec::new();
    let wishes = [
        Wish { k: 5, ..Wish::default() },
        Wish { k: 5, bank: Some(world.banks[1].id), ..Wish::default() },
        Wish { k: 5, kinds: vec![LessonKind::Pitfall, LessonKind::Contrast], ..Wish::default() },
        Wish { k: 5, domain: Some("domain1".into()), min_score: Some(0.0), ..Wish::default() },
        Wish { k: 5, exclude_tasks: vec![lesson(7).task.clone()], ..Wish::default() },
    ];
    for query in
        ["treat a refund that failed", "detail7 of a compiler", "case12 kettle", "parcel of way21", "xylophone"]
    {
        for wish in &wishes {
            let recalled = catalogue.recall(query, wish, &[]).unwrap();
            for hit in &recalled.hits {
                out.push(format!("{query}: {} {} {:?} {:?}", hit.lesson.id(), hit.score, hit.state, hit.standing));
            }
            out.push(format!("{query}: {:?} {:?}", recalled.reason, recalled.query));
        }
    }
    for n in (0..LESSONS + 40).chain([1000]) {
        let id = lesson(n).id();
        for bank in &world.banks {
            out.push(format!("{n}: {:?}", catalogue.standing(&id, Some(&bank.id))));
            let claims = catalogue.claims(&bank.id, &id).unwrap();
            out.push(format!("{n}: {:?}", claims.iter().map(Record::id).collect::<Vec<_>>()));
            let spoken = [2, 3, 4].map(|by| catalogue.has_spoken(&bank.id, &id, &key(by).author()));
            out.push(format!("{n}: {spoken:?} {}", catalogue.teaches(&bank.id, &id)));
        }
        out.push(format!("{n}: {:?}", catalogue.find(&id.to_string()[..20])));
    }
    for bank in &world.banks {
        let listed = catalogue.list(&Wish { bank: Some(bank.id), ..Wish::default() }, 0, 100).unwrap();
        let ids: Vec<LessonId> = listed.0.iter().map(|listed| listed.lesson.id()).collect();
        out.push(format!("{} {ids:?}", listed.1));
        out.push(format!("{} {:?}", catalogue.lesson_count(&bank.id), catalogue.policy(&bank.id)));
    }
    out
}

fn without_file(world: &World) -> Vec<String> {
    shown(&Catalogue::load(world.store.clone(), key(1).author()).unwrap(), world)
}

#[test]
fn a_catalogue_opened_from_its_file_shows_what_one_that_read_everything_shows() {
    let mut world = World::new();
    let first = world.open();
    world.fill(Some(&first));
    assert_eq!(shown(&first, &world), without_file(&world));
    first.save().unwrap();
    drop(first);
    let second = world.open();
    assert_eq!(shown(&second, &world), without_file(&world));
    // It goes on from there, with news about what the file has and about what it has not.
    for n in LESSONS..LESSONS + 10 {
        world.teach(Some(&second), 0, n);
    }
    world.say(Some(&second), 0, 5, Claim::Rated { lesson_id: lesson(1).id(), verdict: Verdict::Hurt, run: None }, None);
    world.teach(Some(&second), 0, 1000);
    assert_eq!(shown(&second, &world), without_file(&world));
    // A file that lags behind is made good from the bank.
    drop(second);
    let third = world.open();
    assert_eq!(shown(&third, &world), without_file(&world));
    // And a file written by one that was itself opened from a file.
    third.save().unwrap();
    drop(third);
    assert_eq!(shown(&world.open(), &world), without_file(&world));
}

#[test]
fn a_text_that_came_after_the_file_for_a_record_before_it_is_shown_at_the_next_openings() {
    let mut world = World::new();
    let first = world.open();
    world.fill(Some(&first));
    first.save().unwrap();
    let record = first.claims(&world.banks[0].id, &lesson(1000).id()).unwrap().remove(0);
    assert!(!world.lists(&first, 0, 1000));
    // The record is known already, so it is only its text that is new. And one of which the catalogue never hears.
    world.receive(Some(&first), record, Some(lesson(1000)));
    world.say(Some(&first), 1, 4, Claim::Taught { lesson_id: lesson(99).id(), evidence: Evidence::told("test") }, None);
    first.save().unwrap();
    world.store.put_bodies(&[lesson(99)]).unwrap();
    assert!(world.lists(&first, 0, 1000));
    drop(first);
    let second = world.open();
    assert!(second.opening().from_file && world.lists(&second, 0, 1000) && world.lists(&second, 1, 99));
    assert_eq!(shown(&second, &world), without_file(&world));
    second.save().unwrap();
    drop(second);
    assert_eq!(shown(&world.open(), &world), without_file(&world));
}

#[test]
fn a_text_that_came_for_one_bank_is_shown_in_every_bank_that_waited_for_it() {
    let mut world = World::new();
    let catalogue = world.open();
    world.fill(Some(&catalogue));
    // Two banks have a record that names it; its text comes with another record in the second.
    let teaching = || Claim::Taught { lesson_id: lesson(1000).id(), evidence: Evidence::told("person") };
    world.say(Some(&catalogue), 1, 4, teaching(), Some(lesson(1000)));
    assert!(world.lists(&catalogue, 1, 1000) && world.lists(&catalogue, 0, 1000));
    assert_eq!(shown(&catalogue, &world), without_file(&world));
}

#[test]
fn a_policy_that_came_after_the_file_changes_how_lessons_in_it_stand() {
    let mut world = World::new();
    let first = world.open();
    world.fill(Some(&first));
    first.save().unwrap();
    drop(first);
    let ruling = |catalogue: Option<&Catalogue>, world: &mut World, endorsed_only| {
        world.say(catalogue, 0, 1, Claim::Policy(Policy { endorsed_only, ..Policy::default() }), None);
    };
    ruling(None, &mut world, true);
    let second = world.open();
    assert_eq!(shown(&second, &world), without_file(&world));
    ruling(Some(&second), &mut world, false);
    let revoked = Claim::Revoked { author: key(2).author(), keep_through_seq: 20, reason: String::new() };
    world.say(Some(&second), 0, 1, revoked, None);
    assert_eq!(shown(&second, &world), without_file(&world));
    second.save().unwrap();
    drop(second);
    assert_eq!(shown(&world.open(), &world), without_file(&world));
}

#[test]
fn a_file_that_is_damaged_cut_or_of_another_bank_is_not_believed() {
    let mut world = World::new();
    let first = world.open();
    world.fill(Some(&first));
    first.save().unwrap();
    drop(first);
    let file = world.vectors().join("catalogue");
    let good = fs::read(&file).unwrap();
    let expected = without_file(&world);
    let write = |path: &Path, bytes: &[u8]| fs::write(path, bytes).unwrap();
    for at in (0..good.len()).step_by(good.len() / 12) {
        let mut bad = good.clone();
        bad[at] ^= 0x20;
        write(&file, &bad);
        assert_eq!(shown(&world.open(), &world), expected, "flipped at {at}");
        write(&file, &good[..at]);
        assert_eq!(shown(&world.open(), &world), expected, "cut at {at}");
    }
    // Another bank with as many arrivals: the digest tells them apart.
    write(&file, &good);
    let mut other = World::new();
    for n in 100..100 + LESSONS + 6 {
        other.teach(None, 0, n);
    }
    fs::create_dir_all(other.vectors()).unwrap();
    write(&other.vectors().join("catalogue"), &good);
    assert_eq!(shown(&other.open(), &other), without_file(&other));
    // And another node, which trusts its own lessons and not these.
    let theirs = Catalogue::open(world.store.clone(), key(2).author(), &world.vectors()).unwrap();
    let fresh = Catalogue::load(world.store.clone(), key(2).author()).unwrap();
    assert_eq!(shown(&theirs, &world), shown(&fresh, &world));
}

#[test]
fn records_that_are_durable_and_were_never_learned_are_read_at_the_next_opening() {
    let mut world = World::new();
    let first = world.open();
    world.fill(Some(&first));
    // The bank has these, the catalogue that writes the file does not.
    world.teach(None, 0, 70);
    world.teach(Some(&first), 0, 71);
    world.say(None, 1, 6, Claim::Disputed { lesson_id: lesson(5).id(), reason: "no".into() }, None);
    first.save().unwrap();
    drop(first);
    assert_eq!(shown(&world.open(), &world), without_file(&world));
}

#[test]
fn vectors_that_are_gone_are_made_again_for_lessons_in_the_file() {
    let mut world = World::new();
    let first = world.open();
    world.fill(Some(&first));
    first.save().unwrap();
    drop(first);
    let expected = without_file(&world);
    for entry in fs::read_dir(world.vectors()).unwrap().flatten().filter(|entry| entry.path().is_dir()) {
        fs::remove_dir_all(entry.path()).unwrap();
    }
    assert_eq!(shown(&world.open(), &world), expected);
}

#[test]
fn own_lessons_taught_through_the_store_are_in_the_file_too() {
    let world = World::new();
    let bank: BankId = world.banks[0].id;
    let catalogue = world.open();
    let claims = (0..30).map(|n| {
        let body = lesson(n);
        (Claim::Taught { lesson_id: body.id(), evidence: Evidence::told("person") }, Some(body))
    });
    let batch = Batch { claims: claims.collect(), runs: Vec::new(), skip_if_taught: true };
    let written = world.store.write(bank, &key(1), 0, batch).unwrap();
    let records: Vec<Record> = written.records().cloned().collect();
    let lessons: Vec<Lesson> = (0..30).map(lesson).collect();
    catalogue.learn(&bank, &records, &lessons);
    catalogue.save().unwrap();
    drop(catalogue);
    assert_eq!(shown(&world.open(), &world), without_file(&world));
}
