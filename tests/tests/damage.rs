//! A bank whose files were damaged: opened as far as it goes, with a word about it, and made whole by a peer.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    os::unix::fs::FileExt,
    path::Path,
};

use folklore_tests::{
    Link, Node,
    inputs::{hotel_file, lesson},
    node::{join, text},
};
use serde_json::json;

/// One way to damage the directory `store` of a home.
type Damage = (&'static str, fn(&Path));

/// The database and how much of it is used: sled takes room ahead, and what hits only that damages nothing.
fn database(store: &Path) -> (File, u64) {
    let path = store.join("bank/db");
    let bytes = fs::read(&path).expect("the database");
    let used = bytes.iter().rposition(|&byte| byte != 0).expect("something is in it") + 1;
    let file = File::options().read(true).write(true).open(path).expect("the database");
    (file, used as u64)
}

const DAMAGES: [Damage; 6] = [
    ("cut by a tenth", |store| {
        let (file, length) = database(store);
        file.set_len(length - length / 10).expect("it can be cut");
    }),
    ("cut in half", |store| {
        let (file, length) = database(store);
        file.set_len(length / 2).expect("it can be cut");
    }),
    ("bits flipped all over", |store| {
        let (file, length) = database(store);
        for n in 1..20 {
            let (at, mut byte) = (length * n / 20, [0]);
            file.read_exact_at(&mut byte, at).expect("a byte");
            file.write_all_at(&[byte[0] ^ 0x10], at).expect("a byte");
        }
    }),
    ("the first page overwritten", |store| {
        database(store).0.write_all_at(&[0xa5; 4096], 0).expect("a page");
    }),
    ("the database gone", |store| fs::remove_file(store.join("bank/db")).expect("it can be removed")),
    ("the count gone", |store| fs::remove_file(store.join("bank.count")).expect("it can be removed")),
];

#[test]
fn a_damaged_bank_says_so_uses_no_number_twice_and_gets_everything_back_from_a_peer() {
    for (what, damage) in DAMAGES {
        let (mut a, mut b) = (Node::new("a"), Node::new("b"));
        let link = Link::between(&mut a, &mut b);
        let bank = join(&a, &b);
        let file = hotel_file(a.scratch(), "desk.json", 0..40);
        let last = a.door().import(&json!({"paths": [file]})).last().expect("events");
        assert_eq!(last["event"], "done", "{last}");
        link.heal_to_equal(&a, &b, &bank);
        let mut whole: BTreeSet<String> = a.lesson_ids().into_iter().collect();
        assert!(whole.len() >= 40);

        a.stop();
        damage(&a.data().join("store"));
        link.cut();
        a.up();
        let (recovery, left) = (a.status()["recovery"].clone(), a.lessons().len());
        println!("{what}: {left} of {} lessons there; {recovery}", whole.len());
        // A cut may fall on pages that newer ones have replaced; then nothing is lost and nothing needs to be said.
        let harmless = what.starts_with("cut by") && left == whole.len();
        assert!(recovery.is_array() || harmless, "{what}: nothing is said of it");
        // Before it meets anybody.
        whole.insert(a.teach(&lesson("north")));
        link.follow(&a, &b);
        link.heal_to_equal(&a, &b, &bank);
        let listed: BTreeSet<String> = a.lesson_ids().into_iter().collect();
        assert_eq!(listed, whole, "{what}");
        let mut numbers = BTreeSet::new();
        for id in &listed {
            for claim in b.show(id)["claims"].as_array().expect("claims") {
                let number = (text(&claim["author"]), claim["seq"].as_u64());
                assert!(numbers.insert(number), "{what}: a number twice: {claim}");
            }
        }
        // And from then on it opens as it was left.
        a.stop();
        a.up();
        assert_eq!(a.lessons().len(), whole.len(), "{what}");
    }
}
