//! The list of values that are no secrets, and the catalogue's file. A process has one list, so each opening is a process.

use std::{
    env, fs,
    path::Path,
    process::{Command, Stdio},
};

use folklore_protocol::{Claim, Evidence, Keypair, Lesson, LessonDraft, LessonKind, Record};
use folklore_store::{
    bank::{BankInfo, Incoming, OpenOptions, Store},
    catalogue::{Catalogue, Wish},
    redact::Allow,
};

const ROLE: &str = "FOLKLORE_TEST_OPENING_DIR";
const ALLOWED: &str = "FOLKLORE_TEST_ALLOWED_VALUE";

/// What a manual may print, and a rule takes for a key.
fn example() -> String {
    format!("AKIA{}", "IOSFODNN7EXAMPL2")
}

/// Not a test of its own: what the test starts. Opens the catalogue and prints whether it came out of its file and what it lists.
#[test]
fn opening() {
    let Ok(dir) = env::var(ROLE) else { return };
    let dir = Path::new(&dir);
    if let Ok(value) = env::var(ALLOWED) {
        Allow::parse(&value).unwrap().install().unwrap();
    }
    let key = Keypair::from_seed(&[1; 32]);
    let store = Store::open(&dir.join("store"), OpenOptions::default()).unwrap().store;
    let bank = BankInfo::new(key.author(), [0; 16], "home");
    store.add_bank(bank.clone()).unwrap();
    let text = |content: String| {
        let draft = LessonDraft {
            kind: LessonKind::Strategy,
            title: "Sign in".into(),
            applies_when: String::new(),
            not_when: String::new(),
            content,
            task: "sign in".into(),
            domain: "test".into(),
            tags: Vec::new(),
        };
        Lesson::new(draft).unwrap()
    };
    let lessons = [text(format!("The key is {}, says the manual.", example())), text("Ask for a key.".into())];
    for (seq, lesson) in (1..).zip(lessons) {
        let claim = Claim::Taught { lesson_id: lesson.id(), evidence: Evidence::told("test") };
        let record = Record::sign(&Keypair::from_seed(&[2; 32]), bank.id, seq, 0, claim).unwrap();
        store.admit(bank.id, vec![Incoming { record, body: Some(lesson) }]).unwrap();
    }
    let catalogue = Catalogue::open(store, key.author(), &dir.join("vectors")).unwrap();
    catalogue.save().unwrap();
    let (listed, _) = catalogue.list(&Wish::default(), 0, 10).unwrap();
    fs::write(dir.join("said"), format!("{} {}", catalogue.opening().from_file, listed.len())).unwrap();
}

/// Whether the catalogue came out of its file, and how many of the two lessons it lists.
fn opened(dir: &Path, allowed: Option<&str>) -> (bool, usize) {
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["opening", "--exact", "--test-threads=1"]).env(ROLE, dir).env_remove(ALLOWED);
    child.envs(allowed.map(|value| (ALLOWED, value))).stdout(Stdio::null());
    assert!(child.status().unwrap().success());
    let said = fs::read_to_string(dir.join("said")).unwrap();
    let (from_file, listed) = said.split_once(' ').unwrap();
    (from_file.parse().unwrap(), listed.parse().unwrap())
}

#[test]
fn a_value_that_is_allowed_frees_lessons_in_the_file_at_the_next_opening_and_one_taken_out_keeps_them_back() {
    let dir = tempfile::tempdir().unwrap();
    let example = example();
    assert_eq!(opened(dir.path(), None), (false, 1));
    assert_eq!(opened(dir.path(), None), (true, 1));
    assert_eq!(opened(dir.path(), Some(&example)), (false, 2));
    assert_eq!(opened(dir.path(), Some(&example)), (true, 2));
    assert_eq!(opened(dir.path(), Some("another-value")), (false, 1));
    assert_eq!(opened(dir.path(), None), (false, 1));
}
