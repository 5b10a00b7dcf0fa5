//! Banks whose files were damaged: they always open, or say what to do, and lose at most what was hit.

use std::{
    collections::HashSet,
    fs::{self, File, OpenOptions as FileOptions},
    os::unix::fs::{FileExt, PermissionsExt},
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use folklore_protocol::{
    claim::{Claim, Outcome},
    record::{Record, RecordId},
};
use folklore_store::{
    bank::{Batch, Incoming, OpenOptions, OpenReport, Store},
    error::OpenError,
    frame::{self, Frame, Key, Kind, Tree},
};

use crate::common::{home, how_many, key, lesson, open, open_clean, run, taught, teach};

/// Fills a bank over several openings, so that sled's snapshot covers only part of the log. Returns all record ids.
fn fill(dir: &Path, groups: u32, each: u32) -> Vec<RecordId> {
    let mut ids = Vec::new();
    for half in 0..2 {
        let store = open_clean(dir);
        for group in half * groups / 2..(half + 1) * groups / 2 {
            let batch = Batch {
                claims: (group * each..(group + 1) * each).map(|n| taught(&lesson(n))).collect(),
                runs: vec![run(group, Outcome::Failure, 3000)],
                ..Batch::default()
            };
            ids.extend(store.write(home().id, &key(1), 1, batch).unwrap().records().map(|r| r.id()));
        }
    }
    ids
}

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status().unwrap();
    assert!(done.success());
}

/// Ids that were there and are not any more.
fn lost(store: &Store, ids: &[RecordId]) -> usize {
    let held: HashSet<RecordId> = store.record_ids(&home().id).into_iter().collect();
    ids.iter().filter(|id| !held.contains(id)).count()
}

/// Opens a bank that lacks none of these records.
fn open_whole(dir: &Path, ids: &[RecordId]) -> (Store, OpenReport) {
    let (store, report) = open(dir);
    println!("{:#?}", report.lines());
    assert_eq!(lost(&store, ids), 0, "{report:#?}");
    (store, report)
}

/// A bank that was damaged goes on: it takes writes, and reopens without a word about the damage.
fn goes_on(dir: &Path, store: Store) {
    assert!(store.verify(|_| ()).unwrap().ok(), "{:?}", store.verify(|_| ()));
    store.add_bank(home()).unwrap();
    store.write(home().id, &key(1), 1, teach([900_000])).unwrap();
    let held = store.counts();
    drop(store);
    let (store, report) = open(dir);
    assert!(report.is_clean(), "{report:#?}");
    assert_eq!(store.counts(), held);
}

#[test]
fn a_flipped_bit_loses_at_most_what_it_hit_and_is_told() {
    let master = tempfile::tempdir().unwrap();
    let ids = fill(master.path(), 20, 50);
    let len = used(&master.path().join("bank/db"));
    let (mut told, mut total_lost) = (0, 0);
    let flips = u64::from(how_many(30, 200));
    for place in 0..flips {
        let dir = tempfile::tempdir().unwrap();
        copy(master.path(), dir.path());
        let at = (place * 2 + 1) * len / (2 * flips);
        flip(&dir.path().join("bank/db"), at);
        let (store, report) = open(dir.path());
        let gone = lost(&store, &ids);
        assert!(gone <= 1, "flip at {at} of {len}: {gone} records lost\n{report:#?}");
        assert!(gone == 0 || report.lost > 0, "flip at {at}: a loss that was not told\n{report:#?}");
        total_lost += gone;
        told += usize::from(!report.steps.is_empty());
        goes_on(dir.path(), store);
    }
    println!("{flips} flips in {len} bytes: {told} took recovery, {total_lost} records lost");
    assert!(told > 0, "no flip hit anything: the test proves nothing");
}

/// Bytes of sled's file before the padding at its end.
fn used(path: &Path) -> u64 {
    fs::read(path).unwrap().iter().rposition(|b| *b != 0).map_or(0, |at| at as u64 + 1)
}

fn flip(path: &Path, at: u64) {
    let file = FileOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

#[test]
fn a_cut_file_is_noticed_and_what_is_left_is_kept() {
    let master = tempfile::tempdir().unwrap();
    let ids = fill(master.path(), 20, 50);
    let len = used(&master.path().join("bank/db"));
    let cuts: Vec<u64> = if how_many(0, 1) == 1 { (0..50).map(|n| n * 2).collect() } else { vec![98, 90, 50, 10, 0] };
    for percent in cuts {
        let dir = tempfile::tempdir().unwrap();
        copy(master.path(), dir.path());
        let db = dir.path().join("bank/db");
        let left = len * percent / 100;
        FileOptions::new().write(true).open(&db).unwrap().set_len(left).unwrap();
        // What any recovery could find: records whose bytes are in what is left of the file.
        let raw = fs::read(&db).unwrap();
        let findable: HashSet<u64> =
            frame::carve(&raw).filter(|(_, f)| f.key.tree == Tree::Record).map(|(_, f)| f.key.arrival).collect();
        let (store, report) = open(dir.path());
        let gone = lost(&store, &ids);
        println!("cut to {percent} %: {gone} of {} records lost; {:?}", ids.len(), report.lines());
        assert_eq!(gone, ids.len() - findable.len(), "{report:#?}");
        assert!(report.lost as usize >= gone, "{report:#?}");
        assert!(report.restored.is_some(), "numbers jump after a loss\n{report:#?}");
        goes_on(dir.path(), store);
    }
}

#[test]
fn every_single_file_may_be_missing() {
    let master = tempfile::tempdir().unwrap();
    let ids = fill(master.path(), 6, 20);
    let names = |dir: &Path| fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect::<Vec<_>>();
    let mut files = names(master.path());
    files.extend(names(&master.path().join("bank")));
    assert!(files.len() >= 7, "{files:?}");
    for file in files {
        let name = file.strip_prefix(master.path()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        copy(master.path(), dir.path());
        let gone = dir.path().join(name);
        if gone.is_dir() {
            fs::remove_dir_all(&gone).unwrap()
        } else {
            fs::remove_file(&gone).unwrap()
        }
        let (store, report) = open(dir.path());
        println!("without {}: {:?}", name.display(), report.lines());
        let expected = if name == Path::new("bank") || name == Path::new("bank/db") { ids.len() } else { 0 };
        assert_eq!(lost(&store, &ids), expected, "without {}\n{report:#?}", name.display());
        assert!(expected == 0 || report.lost > 0, "{report:#?}");
        // All copies are noticed as such, so the numbers jump whatever is missing.
        assert!(report.restored.is_some(), "without {}\n{report:#?}", name.display());
        goes_on(dir.path(), store);
    }
}

#[test]
fn rubbish_in_sleds_own_files_loses_nothing() {
    let master = tempfile::tempdir().unwrap();
    let ids = fill(master.path(), 6, 20);
    let snapshot = fs::read_dir(master.path().join("bank"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .find(|n| n.starts_with("snap."))
        .expect("a snapshot after the second opening");
    let spoil: [(&str, Vec<u8>); 5] = [
        (&snapshot, Vec::new()),
        (&snapshot, b"not a snapshot, but long enough to be read as one".to_vec()),
        ("conf", b"segment_size: nonsense\n".to_vec()),
        ("conf", Vec::new()),
        ("snap.0FFFFFFFFFFFFFFF.generating", Vec::new()),
    ];
    for (name, content) in spoil {
        let dir = tempfile::tempdir().unwrap();
        copy(master.path(), dir.path());
        fs::write(dir.path().join("bank").join(name), content).unwrap();
        let (store, report) = open(dir.path());
        println!("{name}: {:?}", report.lines());
        assert_eq!(lost(&store, &ids), 0, "{report:#?}");
        assert_eq!(store.run_count(), 6);
        goes_on(dir.path(), store);
    }
}

#[test]
fn a_frame_damaged_under_good_sled_is_named_and_put_aside() {
    let dir = tempfile::tempdir().unwrap();
    let ids = fill(dir.path(), 2, 10);
    {
        // Behind sled's checksums, as a bug or bad memory would do it.
        let db = bare_sled(dir.path());
        let (key, value) = db.scan_prefix([frame::PACK_LETTER]).nth(1).unwrap().unwrap();
        let mut value = value.to_vec();
        value[100] ^= 1;
        db.insert(key, value).unwrap();
        db.insert(b"strange", b"x").unwrap();
        db.flush().unwrap();
    }
    // The good frame of the same generation is still in the log.
    let (store, report) = open_whole(dir.path(), &ids);
    assert!(!report.is_clean());
    goes_on(dir.path(), store);
}

#[test]
fn a_value_that_no_rung_can_read_is_put_aside_once() {
    let dir = tempfile::tempdir().unwrap();
    let ids = fill(dir.path(), 2, 10);
    let key = Key::first(Tree::Run, 1_000);
    let frame = Frame { key, kind: Kind::Value, parts: 1, generation: 1 << 32, payload: b"no run" }.to_bytes();
    {
        let db = bare_sled(dir.path());
        db.insert(key.to_bytes(), frame.clone()).unwrap();
        db.flush().unwrap();
    }
    let (store, report) = open_whole(dir.path(), &ids);
    assert_eq!(report.damaged.len(), 1);
    assert!(report.damaged[0].key.contains("run 1000"), "{report:#?}");
    let kept = fs::read_dir(dir.path().join("bank.quarantine")).unwrap().next().unwrap().unwrap().path();
    let file = fs::read_dir(kept).unwrap().next().unwrap().unwrap().path();
    assert_eq!(fs::read(file).unwrap(), frame);
    goes_on(dir.path(), store);
}

#[test]
fn what_cannot_be_read_in_a_pack_is_left_out_of_it_and_its_neighbours_stay() {
    let dir = tempfile::tempdir().unwrap();
    let ids = fill(dir.path(), 2, 10);
    let key = Key::first(Tree::Record, 1_000);
    let frame = Frame { key, kind: Kind::Erased, parts: 1, generation: 1 << 32, payload: b"no id" }.to_bytes();
    {
        let db = bare_sled(dir.path());
        let (key, value) = db.scan_prefix([frame::PACK_LETTER]).last().unwrap().unwrap();
        db.insert(key, [&value[..], &frame].concat()).unwrap();
        db.flush().unwrap();
    }
    let (store, report) = open_whole(dir.path(), &ids);
    assert_eq!(report.damaged.len(), 1);
    assert!(report.damaged[0].key.contains("record 1000"), "{report:#?}");
    let lessons = ids.len() as u32;
    assert!((0..lessons).all(|n| store.lesson(&lesson(n).id()).unwrap() == Some(lesson(n))));
    goes_on(dir.path(), store);
}

/// Everything that a caller can see, so that two ways of opening can be compared.
fn all_of(store: &Store) -> impl PartialEq + std::fmt::Debug + use<> {
    let (mut records, mut lessons) = (Vec::new(), Vec::new());
    store.for_each_record(&home().id, |record| records.push(record.clone())).unwrap();
    store.for_each_lesson(|lesson| lessons.push(lesson.clone())).unwrap();
    let runs: Vec<_> = (0..3).flat_map(|n| store.runs_of_task(&format!("task {n}")).unwrap()).collect();
    (store.banks(), store.counts(), store.missing_bodies(&home().id), records, lessons, runs)
}

#[test]
fn a_bank_closed_in_good_order_opens_from_its_summary_and_shows_the_same_as_one_read_whole() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), 6, 40);
    {
        let store = open_clean(dir.path());
        let strange = Record::sign(&key(2), home().id, 1, 1, taught(&lesson(1_000)).0).unwrap();
        store.admit(home().id, vec![Incoming { record: strange, body: None }]).unwrap();
        let withdrawn = Claim::Withdrawn { lesson_id: lesson(3).id(), reason: String::new() };
        store.write(home().id, &key(1), 1, Batch { claims: vec![(withdrawn, None)], ..Batch::default() }).unwrap();
    }
    let (store, report) = open(dir.path());
    assert!(report.from_summary && report.is_clean(), "{report:#?}");
    let quick = all_of(&store);
    // A stand is part of it: what was withdrawn is taught again, what was not is known.
    let again = Batch { skip_if_taught: true, ..teach([3, 4]) };
    assert_eq!(store.write(home().id, &key(1), 1, again).unwrap().records().count(), 1);
    let after = all_of(&store);
    drop(store);

    fs::remove_file(dir.path().join("bank.summary")).unwrap();
    let (store, report) = open(dir.path());
    assert!(!report.from_summary && report.is_clean(), "{report:#?}");
    assert_eq!(all_of(&store), after);
    assert_ne!(all_of(&store), quick);
    drop(store);
    let (store, report) = open(dir.path());
    assert!(report.from_summary, "{report:#?}");
    assert_eq!(all_of(&store), after);
    goes_on(dir.path(), store);
}

#[test]
fn a_run_that_rots_unseen_is_named_when_it_is_read_and_the_next_opening_looks_at_everything() {
    let dir = tempfile::tempdir().unwrap();
    let ids = fill(dir.path(), 6, 40);
    let db = dir.path().join("bank/db");
    let written = fs::metadata(&db).unwrap().modified().unwrap();
    let raw = fs::read(&db).unwrap();
    // All copies of it, so that there is no good one to be found.
    let wanted = run(2, Outcome::Failure, 3000);
    let copies: Vec<usize> = frame::carve(&raw)
        .filter(|(_, f)| f.key.tree == Tree::Run && f.payload.ends_with(&wanted.bytes))
        .map(|(at, _)| at)
        .collect();
    assert!(!copies.is_empty());
    copies.iter().for_each(|at| flip(&db, *at as u64 + 500));
    File::options().write(true).open(&db).unwrap().set_modified(written).unwrap();
    let (store, report) = open(dir.path());
    if report.from_summary {
        assert!(store.unreadable().is_empty());
        let error = store.run(&wanted.digest).unwrap_err();
        println!("{error}; {:?}", store.unreadable());
    }
    drop(store);
    let (store, _) = open_whole(dir.path(), &ids);
    assert_eq!(store.run_count(), 5);
    goes_on(dir.path(), store);
}

#[test]
fn a_summary_of_other_values_is_not_believed() {
    let dir = tempfile::tempdir().unwrap();
    let ids = fill(dir.path(), 6, 40);
    let db = dir.path().join("bank/db");
    let written = fs::metadata(&db).unwrap().modified().unwrap();
    let (before, raw) = (fs::metadata(&db).unwrap().len(), fs::read(&db).unwrap());
    // A record's bytes change, and the file looks as before, as with a bit that rots.
    let (at, _) = frame::carve(&raw).filter(|(_, f)| f.key.tree == Tree::Record).last().unwrap();
    flip(&db, at as u64 + 80);
    File::options().write(true).open(&db).unwrap().set_modified(written).unwrap();
    assert_eq!(fs::metadata(&db).unwrap().len(), before);
    let (store, report) = open(dir.path());
    println!("{:#?}", report.lines());
    assert!(lost(&store, &ids) <= 1, "{report:#?}");
    goes_on(dir.path(), store);
}

#[test]
fn an_interrupted_rebuild_is_finished_or_started_again() {
    let master = tempfile::tempdir().unwrap();
    let ids = fill(master.path(), 4, 10);
    // Between the two renames: the old directory is moved, the rebuilt one waits for its name.
    let dir = tempfile::tempdir().unwrap();
    copy(master.path(), dir.path());
    fs::rename(dir.path().join("bank"), dir.path().join("bank.rebuild")).unwrap();
    let (store, report) = open(dir.path());
    assert_eq!(lost(&store, &ids), 0, "{report:#?}");
    goes_on(dir.path(), store);
    // While it was being built.
    let dir = tempfile::tempdir().unwrap();
    copy(master.path(), dir.path());
    fs::create_dir(dir.path().join("bank.rebuild")).unwrap();
    fs::write(dir.path().join("bank.rebuild/db"), b"half").unwrap();
    let (store, report) = open(dir.path());
    assert_eq!(lost(&store, &ids), 0, "{report:#?}");
    goes_on(dir.path(), store);
}

/// The database behind the bank's back. Tries for a while, as the bank does: see [`SmallDisk::remount`].
fn bare_sled(dir: &Path) -> sled::Db {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        match sled::Config::new().path(dir.join("bank")).segment_size(8 << 20).open() {
            Ok(db) => return db,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn refused(dir: &Path) -> OpenError {
    match Store::open(dir, OpenOptions::default()) {
        Err(error) => error,
        Ok(opened) => panic!("opened: {:?}", opened.report),
    }
}

#[test]
fn a_directory_that_cannot_be_made_or_written_is_one_clear_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, b"").unwrap();
    let error = refused(&file.join("data"));
    assert!(error.to_string().contains("file/data"), "{error}");

    let locked = dir.path().join("locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o500)).unwrap();
    if File::create(locked.join("probe")).is_ok() {
        println!("skipped the rest: permissions do not bind this user");
        return;
    }
    let error = refused(&locked);
    assert!(matches!(error, OpenError::Denied { .. }), "{error:?}");
    assert!(error.to_string().contains("permission"), "{error}");
}

/// Needs a file system of its own, so it mounts one where that is allowed.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(options: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(dir.path()).output().ok()?;
        mounted.status.success().then_some(Self(dir))
    }

    /// Tries for a while: a process that another test is just starting holds this one's files until it has become
    /// another program, and a disk with a file open for writing cannot be made read-only.
    fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let told = Command::new("mount").args(["-o", &options]).arg(self.0.path()).output().unwrap();
            if told.status.success() {
                return;
            }
            let why = String::from_utf8_lossy(&told.stderr);
            assert!(Instant::now() < until, "{options}: {why}");
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        Command::new("umount").arg(self.0.path()).status().ok();
    }
}

#[test]
fn a_full_disk_stops_writing_loses_nothing_and_opens_again_with_room() {
    let Some(disk) = SmallDisk::mount("size=48m") else {
        println!("skipped: no permission to mount a small file system");
        return;
    };
    let dir = disk.0.path().join("data");
    let store = open_clean(&dir);
    let mut acknowledged = Vec::new();
    let error = loop {
        let from = acknowledged.len() as u32;
        match store.write(home().id, &key(1), 1, teach(from..from + 500)) {
            Ok(written) => acknowledged.extend(written.records().map(|r| r.id())),
            Err(error) => break error,
        }
        assert!(acknowledged.len() < 1_000_000);
    };
    println!("full after {} records: {error}", acknowledged.len());
    assert!(error.to_string().contains("nothing acknowledged is lost"), "{error}");
    assert!(error.to_string().contains("the disk is full"), "{error}");
    // Nothing more is taken; what can be read is right, and what cannot is an error.
    assert_eq!(store.write(home().id, &key(1), 1, teach([1])).unwrap_err(), error);
    if let Err(error) = store.records(&acknowledged) {
        println!("reading meanwhile: {error}");
    }
    assert_eq!(lost(&store, &acknowledged), 0);
    drop(store);

    match Store::open(&dir, OpenOptions::default()) {
        Ok(opened) => assert_eq!(lost(&opened.store, &acknowledged), 0, "{:?}", opened.report),
        Err(error) => {
            println!("while full: {error}");
            assert!(matches!(error, OpenError::DiskFull { .. }), "{error:?}");
        }
    }
    disk.remount("size=200m");
    let (store, report) = open(&dir);
    println!("with room: {:?}", report.lines());
    assert_eq!(lost(&store, &acknowledged), 0, "{report:#?}");
    goes_on(&dir, store);
}

#[test]
fn after_a_full_disk_has_room_again_writing_goes_on_by_itself() {
    let Some(disk) = SmallDisk::mount("size=64m") else {
        println!("skipped: no permission to mount a small file system");
        return;
    };
    let dir = disk.0.path().join("data");
    let store = open_clean(&dir);
    let mut acknowledged = Vec::new();
    for round in 0..2u32 {
        let error = loop {
            let from = acknowledged.len() as u32;
            match store.write(home().id, &key(1), 1, teach(from..from + 500)) {
                Ok(written) => acknowledged.extend(written.records().map(|r| r.id())),
                Err(error) => break error,
            }
            assert!(acknowledged.len() < 1_000_000);
        };
        assert!(error.to_string().contains("the disk is full"), "{error}");
        // A rewrite would only make it worse, and is refused.
        assert!(store.rewrite().is_err());
        disk.remount(["size=112m", "size=180m"][round as usize]);
        let until = Instant::now() + Duration::from_secs(60);
        while let Err(error) = store.writable() {
            assert!(Instant::now() < until, "{error}, {:?}", store.upkeep());
            thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(store.upkeep().resumed, round + 1);
        assert_eq!(lost(&store, &acknowledged), 0);
        let read = store.records(&acknowledged).unwrap();
        assert!(read.len() == acknowledged.len() && read.iter().all(|(_, body)| body.is_some()));
    }
    println!("{} records acknowledged over two full disks", acknowledged.len());
    goes_on(&dir, store);
}

#[test]
fn a_read_only_disk_is_one_clear_error() {
    let Some(disk) = SmallDisk::mount("size=64m") else {
        println!("skipped: no permission to mount a small file system");
        return;
    };
    let dir = disk.0.path().join("data");
    let ids = fill(&dir, 2, 10);
    disk.remount("ro");
    let error = refused(&dir);
    assert!(matches!(error, OpenError::ReadOnly { .. }), "{error:?}");
    disk.remount("rw");
    let store = open_clean(&dir);
    assert_eq!(lost(&store, &ids), 0);
}

#[test]
fn a_report_that_is_clean_has_no_lines() {
    assert!(OpenReport::default().lines().is_empty());
}
