//! The index against the exact answer, and its files against damage.

use std::{
    collections::HashSet,
    fs::{self, File},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use proptest::prelude::*;

use super::{
    samples::{clustered, gaussian_unit},
    *,
};
use crate::index::keep_best;

fn unit(components: &[f32]) -> Vec<f32> {
    let norm = components.iter().map(|x| x * x).sum::<f32>().sqrt();
    components.iter().map(|x| x / norm).collect()
}

#[test]
fn the_nearest_of_a_slots_vectors_is_its_score() {
    let mut index = DenseIndex::new(2);
    index.add(7, &[1.0, 0.0]).unwrap();
    index.add(7, &[0.0, 1.0]).unwrap();
    index.add(3, &unit(&[1.0, 1.0])).unwrap();
    let found = index.search(&[0.0, 1.0], 5, &|_| true);
    assert_eq!(found.iter().map(|f| f.0).collect::<Vec<_>>(), [7, 3]);
    assert!((found[0].1 - 1.0).abs() < 1e-6);
    assert_eq!(index.similarity(&[1.0, 0.0], 7), Some(1.0));
    assert_eq!(index.similarity(&[1.0, 0.0], 8), None);
}

#[test]
fn equal_scores_are_ordered_by_slot() {
    let mut index = DenseIndex::new(2);
    for slot in [9, 2, 5, 1] {
        index.add(slot, &[1.0, 0.0]).unwrap();
    }
    let found = index.search(&[1.0, 0.0], 3, &|_| true);
    assert_eq!(found.iter().map(|f| f.0).collect::<Vec<_>>(), [1, 2, 5]);
}

#[test]
fn vectors_that_cannot_be_compared_are_refused() {
    let mut index = DenseIndex::new(2);
    assert_eq!(index.add(1, &[1.0]), Err(DenseError::Dimension { expected: 2, given: 1 }));
    for bad in [[0.0, 0.0], [2.0, 0.0], [f32::NAN, 0.0], [f32::INFINITY, 0.0]] {
        assert_eq!(index.add(1, &bad), Err(DenseError::NotUnit));
    }
    assert!(index.is_empty());
    assert!(index.search(&[1.0, 0.0, 0.0], 1, &|_| true).is_empty());
}

#[test]
fn removed_slots_are_gone_and_so_is_their_room() {
    let mut index = DenseIndex::new(2);
    for slot in 0..3000 {
        index.add(slot, &unit(&[slot as f32 + 1.0, 100.0])).unwrap();
    }
    let rows = index.open_base() + index.open.rows();
    for slot in 0..3000 {
        assert!(index.remove(slot));
        assert!(!index.remove(slot));
        index.add(slot + 3000, &[1.0, 0.0]).unwrap();
    }
    assert!(index.open_base() + index.open.rows() <= rows + 2 * BLOCK_ROWS);
    assert_eq!(index.len(), 3000);
    assert_eq!(index.search(&[1.0, 0.0], 1, &|_| true), [(3000, 1.0)]);
}

proptest! {
    #[test]
    fn after_adding_and_removing_it_answers_as_a_fresh_one(
        vectors in prop::collection::vec((0u32..20, prop::array::uniform4(-10i8..10)), 1..60),
        removed in prop::collection::vec(0u32..20, 0..15),
        query in prop::array::uniform4(-10i8..10),
        k in 1usize..8,
    ) {
        let floats = |v: [i8; 4]| unit(&v.map(|x| f32::from(x) + 0.5));
        let mut index = DenseIndex::new(4);
        let mut fresh = DenseIndex::new(4);
        for (slot, vector) in &vectors {
            index.add(*slot, &floats(*vector)).unwrap();
            if !removed.contains(slot) {
                fresh.add(*slot, &floats(*vector)).unwrap();
            }
        }
        for slot in &removed {
            index.remove(*slot);
        }
        let filter = |slot: u32| !slot.is_multiple_of(3);
        let found = index.search(&floats(query), k, &filter);
        prop_assert_eq!(&found, &fresh.search(&floats(query), k, &filter));
        // The brute-force answer: every slot by its best vector.
        let mut all: Vec<(u32, f32)> = (0..20)
            .filter(|slot| filter(*slot))
            .filter_map(|slot| Some((slot, fresh.similarity(&floats(query), slot)?)))
            .collect();
        keep_best(&mut all, k);
        prop_assert_eq!(found.iter().map(|f| f.0).collect::<Vec<_>>(), all.iter().map(|f| f.0).collect::<Vec<_>>());
    }
}

fn exact(vectors: &[Vec<f32>], query: &[f32], k: usize, passes: impl Fn(usize) -> bool) -> Vec<(u32, f32)> {
    let dot = |v: &[f32]| v.iter().zip(query).map(|(a, b)| a * b).sum::<f32>();
    let mut all: Vec<(u32, f32)> =
        (0u32..).zip(vectors).filter(|(slot, _)| passes(*slot as usize)).map(|(slot, v)| (slot, dot(v))).collect();
    keep_best(&mut all, k);
    all
}

/// The share of the exact answers found; those that score as the last of them count too.
fn recall(found: &[(u32, f32)], exact: &[(u32, f32)]) -> f32 {
    let bar = exact.last().map_or(0.0, |e| e.1) - 1e-6;
    let hits = found.iter().filter(|f| f.1 >= bar).count();
    hits as f32 / exact.len() as f32
}

fn index_of(vectors: &[Vec<f32>]) -> DenseIndex {
    let mut index = DenseIndex::new(vectors[0].len());
    for (slot, vector) in (0..).zip(vectors) {
        index.add(slot, vector).unwrap();
    }
    index
}

#[test]
fn the_nearest_of_many_are_found() {
    for (vectors, kind) in [
        (clustered(128, 12_000, 300, 1), "clustered"),
        ((0..12_000).map(|seed| gaussian_unit(128, seed)).collect(), "random"),
    ] {
        let index = index_of(&vectors);
        assert!(index.basis.is_some() && index.full.len() == 2);
        let mut total = 0.0;
        for q in 0..20usize {
            // Between a stored vector and another direction.
            let away = gaussian_unit(128, 90_000 + q as u64);
            let query = samples::normalised(vectors[q * 500].iter().zip(&away).map(|(a, b)| a + 0.8 * b).collect());
            let found = index.search(&query, 10, &|_| true);
            for (slot, score) in &found {
                let cosine: f32 = vectors[*slot as usize].iter().zip(&query).map(|(a, b)| a * b).sum();
                assert!((cosine - score).abs() < 1e-5);
            }
            assert!(found.is_sorted_by(|a, b| a.1 >= b.1));
            total += recall(&found, &exact(&vectors, &query, 10, |_| true));
        }
        // Of vectors that point anywhere none but the first is really near: the order of the others is noise.
        let bar = if kind == "random" { 0.95 } else { 0.99 };
        assert!(total / 20.0 >= bar, "{kind}: {}", total / 20.0);
    }
}

#[test]
fn every_kernel_gives_the_same_answers() {
    let vectors = clustered(100, 9_000, 50, 4);
    let mut index = index_of(&vectors);
    let mut answers = Vec::new();
    for kernels in Kernels::all() {
        index.kernels = kernels;
        answers.push((0..10).map(|q| index.search(&vectors[q * 700], 20, &|s| s % 3 != 1)).collect::<Vec<_>>());
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]));
}

#[test]
fn filters_and_deletes_hold_among_many() {
    let vectors = clustered(64, 9_000, 20, 2);
    let mut index = index_of(&vectors);
    for slot in (0..9_000).step_by(3) {
        assert!(index.remove(slot));
    }
    assert_eq!(index.len(), 6_000);
    for one_in in [2usize, 10, 100, 1000] {
        let passes = |slot: usize| slot.is_multiple_of(one_in) && !slot.is_multiple_of(3);
        let set: SlotSet = (0..9_000u32).filter(|slot| slot.is_multiple_of(one_in as u32)).collect();
        for q in 0..5 {
            let query = &vectors[q * 1_000 + 1];
            let expected = exact(&vectors, query, 10, passes);
            for found in [index.search(query, 10, &|slot| passes(slot as usize)), index.search_in(query, 10, &set)] {
                assert!(found.iter().all(|(slot, _)| passes(*slot as usize)));
                assert!(recall(&found, &expected) >= 0.9, "one in {one_in}");
            }
        }
    }
}

#[test]
fn queries_that_mean_nothing_are_answered_with_nothing() {
    let index = index_of(&clustered(64, 5_000, 20, 2));
    for query in [vec![f32::NAN; 64], vec![f32::INFINITY; 64], vec![1.0; 63], Vec::new()] {
        assert!(index.search(&query, 5, &|_| true).is_empty());
        assert!(index.search_in(&query, 5, &SlotSet::from_iter([1])).is_empty());
    }
    assert_eq!(index.search(&[0.0; 64], 5, &|_| true).len(), 5);
    assert!(index.search(&[0.1; 64], 0, &|_| true).is_empty());
    assert!(index.search_in(&[0.1; 64], 5, &SlotSet::default()).is_empty());
    assert!(DenseIndex::new(MAX_DIM + 1).add(1, &gaussian_unit(MAX_DIM + 1, 1)) == Err(DenseError::TooWide));
}

#[test]
fn the_same_vector_many_times_is_found_and_ordered_by_slot() {
    let one = gaussian_unit(64, 1);
    let mut vectors = vec![one.clone(); 6_000];
    vectors.extend((0..3_000).map(|seed| gaussian_unit(64, 10 + seed)));
    let index = index_of(&vectors);
    let found: Vec<u32> = index.search(&one, 5, &|_| true).iter().map(|f| f.0).collect();
    assert_eq!(found, [0, 1, 2, 3, 4]);
    let found: Vec<u32> = index.search(&vectors[7_000], 1, &|_| true).iter().map(|f| f.0).collect();
    assert_eq!(found, [7_000]);
}

#[test]
fn a_partition_scans_a_part_and_finds_nearly_all() {
    let vectors = clustered(64, 20_000, 60, 8);
    let mut index = index_of(&vectors);
    let whole = index.probed(&index.basis.as_ref().unwrap().probe(&vectors[0])).iter().map(|b| b.1.rows).sum::<usize>();
    assert_eq!(whole, 20_000);
    for slot in (0..20_000).step_by(5) {
        index.remove(slot);
    }
    index.rewrite(40).unwrap();
    assert_eq!((index.len(), index.dead_rows()), (16_000, 0));
    // What is added later is in no list and always scanned.
    let late = gaussian_unit(64, 77);
    index.add(90_000, &late).unwrap();
    assert_eq!(index.search(&late, 1, &|_| true)[0].0, 90_000);
    let mut total = 0.0;
    for q in 0..40 {
        let query = &vectors[q * 500 + 1];
        let probed = index.probed(&index.basis.as_ref().unwrap().probe(query));
        let scanned: usize = probed.iter().filter(|(_, block)| block.list > 0).map(|(_, block)| block.rows).sum();
        assert!(scanned < 16_000 * 2 / 3, "{scanned}");
        let found = index.search(query, 10, &|_| true);
        total += recall(&found, &exact(&vectors, query, 10, |slot| !slot.is_multiple_of(5)));
    }
    assert!(total / 40.0 >= 0.97, "{}", total / 40.0);
}

// ---- on disk

const DIM: usize = 64;

fn identity() -> EmbedderIdentity {
    EmbedderIdentity { name: "test".into(), revision: "1".into(), dim: DIM }
}

fn id(n: usize) -> [u8; 32] {
    *blake3::hash(&n.to_le_bytes()).as_bytes()
}

/// Two vectors a slot, as lessons have.
fn pair(n: usize) -> &'static [Vec<f32>; 2] {
    static PAIRS: OnceLock<Vec<[Vec<f32>; 2]>> = OnceLock::new();
    let make = |n: u64| [gaussian_unit(DIM, 2 * n), gaussian_unit(DIM, 2 * n + 1)];
    &PAIRS.get_or_init(|| (0..9_000).map(make).collect())[n]
}

/// Opens, claims what is there for slots 0..n, makes the rest anew, settles. Says how many were made, and what was noted.
fn load(dir: &Path, n: usize) -> (DenseIndex, usize, Vec<String>) {
    let (mut index, notes) = DenseIndex::open(dir, &identity()).unwrap();
    let mut made = 0;
    for slot in 0..n {
        if !index.claim(slot as u32, &id(slot)) {
            add_pair(&mut index, slot);
            made += 1;
        }
    }
    index.settle().unwrap();
    (index, made, notes)
}

fn add_pair(index: &mut DenseIndex, slot: usize) {
    for (part, vector) in (0..).zip(pair(slot)) {
        index.add_keyed(slot as u32, &Key { id: id(slot), part, of: 2 }, vector).unwrap();
    }
}

/// Every slot is found by both of its vectors and by no other.
fn assert_holds(index: &DenseIndex, n: usize) {
    assert_eq!(index.len(), n);
    for slot in (0..n).step_by((n / 200).max(1)).chain([n - 1]) {
        for vector in pair(slot) {
            let found = index.search(vector, 1, &|_| true);
            assert!(found.len() == 1 && found[0].0 == slot as u32 && found[0].1 > 0.9999, "slot {slot}: {found:?}");
        }
    }
}

fn generation_dir(dir: &Path) -> PathBuf {
    let space = fs::read_dir(dir).unwrap().next().unwrap().unwrap().path();
    fs::read_dir(space).unwrap().next().unwrap().unwrap().path()
}

fn copy(from: &Path, to: &Path) {
    let target = to.join(from.parent().unwrap().file_name().unwrap()).join(from.file_name().unwrap());
    fs::create_dir_all(&target).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), target.join(entry.file_name())).unwrap();
    }
}

#[test]
fn what_was_added_before_or_after_settling_is_there_at_the_next_opening() {
    let dir = tempfile::tempdir().unwrap();
    let (mut index, made, notes) = load(dir.path(), 5_000);
    assert_eq!((made, notes.len()), (5_000, 0));
    assert_eq!(index.files.as_ref().unwrap().blocks(), 2);
    // Dropped without a word, as by a kill.
    for slot in 5_000..7_000 {
        add_pair(&mut index, slot);
    }
    assert_eq!(index.files.as_ref().unwrap().blocks(), 3);
    drop(index);
    let (mut index, made, notes) = load(dir.path(), 7_000);
    assert_eq!((made, notes), (0, vec![]));
    assert_holds(&index, 7_000);
    add_pair(&mut index, 7_000);
    assert_holds(&index, 7_001);
    drop(index);
    assert_eq!(load(dir.path(), 7_001).1, 0);
}

#[test]
fn what_nobody_claims_is_gone_and_its_room_is_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    drop(load(dir.path(), 9_000));
    let before = fs::metadata(generation_dir(dir.path()).join("cold")).unwrap().len();
    let (index, made, _) = load(dir.path(), 3_000);
    assert_eq!(made, 0);
    assert_holds(&index, 3_000);
    assert!(index.search(&pair(5_000)[0], 1, &|_| true)[0].1 < 0.99);
    drop(index);
    let after = fs::metadata(generation_dir(dir.path()).join("cold")).unwrap().len();
    assert!(after < before / 2, "{before} {after}");
    let (index, made, notes) = load(dir.path(), 3_000);
    assert_eq!((made, notes), (0, vec![]));
    assert_holds(&index, 3_000);
}

#[test]
fn an_index_that_keeps_no_exact_vectors_finds_the_same_and_stays_so() {
    let dir = tempfile::tempdir().unwrap();
    let (mut index, _) = DenseIndex::open_compact(dir.path(), &identity()).unwrap();
    (0..4_500).for_each(|slot| add_pair(&mut index, slot));
    index.settle().unwrap();
    index.rewrite(8).unwrap();
    index.settle().unwrap();
    drop(index);
    let (index, made, notes) = load(dir.path(), 4_500);
    assert_eq!((made, notes, index.shape.exact), (0, vec![], false));
    let found = (0..4_500).step_by(50).filter(|slot| {
        let found = index.search(&pair(*slot)[1], 1, &|_| true);
        found.first().is_some_and(|found| found.0 == *slot as u32 && (found.1 - 1.0).abs() < 0.02)
    });
    assert!(found.count() >= 85);
}

#[test]
fn a_partition_is_there_at_the_next_opening() {
    let dir = tempfile::tempdir().unwrap();
    let (mut index, ..) = load(dir.path(), 5_000);
    index.rewrite(10).unwrap();
    index.settle().unwrap();
    add_pair(&mut index, 5_000);
    assert_holds_nearly(&index, 5_001);
    drop(index);
    let (index, made, notes) = load(dir.path(), 5_001);
    assert_eq!((made, notes), (0, vec![]));
    assert!(index.blocks().filter(|block| block.list > 0).count() >= 10);
    assert_holds_nearly(&index, 5_001);
}

/// Every slot is there; a query that is a vector itself finds it in nearly all cases.
fn assert_holds_nearly(index: &DenseIndex, n: usize) {
    assert_eq!(index.len(), n);
    let found = (0..n).step_by(50).filter(|slot| {
        let found = index.search(&pair(*slot)[0], 1, &|_| true);
        found.first().is_some_and(|found| found.0 == *slot as u32 && found.1 > 0.9999)
    });
    assert!(found.count() * 100 >= n.div_ceil(50) * 95);
}

#[test]
fn a_lesson_with_only_some_of_its_vectors_is_not_claimed() {
    let dir = tempfile::tempdir().unwrap();
    let (mut index, ..) = load(dir.path(), 10);
    index.add_keyed(10, &Key { id: id(10), part: 0, of: 2 }, &pair(10)[0]).unwrap();
    drop(index);
    let (index, made, _) = load(dir.path(), 11);
    assert_eq!(made, 1);
    assert_holds(&index, 11);
}

#[test]
fn vectors_of_another_embedder_are_never_seen() {
    let dir = tempfile::tempdir().unwrap();
    drop(load(dir.path(), 20));
    for other in [
        EmbedderIdentity { revision: "2".into(), ..identity() },
        EmbedderIdentity { name: "tes".into(), ..identity() },
        EmbedderIdentity { dim: DIM + 1, ..identity() },
    ] {
        let (mut index, notes) = DenseIndex::open(dir.path(), &other).unwrap();
        assert!(notes.is_empty());
        assert!(!index.claim(0, &id(0)));
        index.settle().unwrap();
        assert!(index.is_empty());
    }
    // A directory put in the place of another's is not taken either.
    let own = generation_dir(dir.path());
    let away = tempfile::tempdir().unwrap();
    let other = EmbedderIdentity { revision: "2".into(), ..identity() };
    drop(DenseIndex::open(away.path(), &other).unwrap());
    let theirs = generation_dir(away.path());
    fs::remove_dir_all(&theirs).unwrap();
    fs::create_dir(&theirs).unwrap();
    for entry in fs::read_dir(&own).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), theirs.join(entry.file_name())).unwrap();
    }
    let (mut index, notes) = DenseIndex::open(away.path(), &other).unwrap();
    assert_eq!(notes.len(), 1);
    assert!(!index.claim(0, &id(0)));
    assert_eq!(load(dir.path(), 20).1, 0);
}

#[test]
fn a_file_cut_anywhere_loses_only_what_was_cut() {
    let master = tempfile::tempdir().unwrap();
    let n = 4_200;
    drop(load(master.path(), n));
    let own = generation_dir(master.path());
    let log_frame = Entry::vector_frame(0, &Key { id: id(0), part: 0, of: 2 }, &pair(0)[0]).len();
    for (file, cuts) in [("log", 40), ("hot", 12), ("cold", 12), ("head", 6)] {
        let len = fs::metadata(own.join(file)).unwrap().len();
        for at in 0..cuts {
            // The last bytes one by one in the log, since there a frame ends every few hundred.
            let keep = if file == "log" { len - 1 - at * 27 } else { len * at / cuts };
            let dir = tempfile::tempdir().unwrap();
            copy(&own, dir.path());
            File::options().write(true).open(generation_dir(dir.path()).join(file)).unwrap().set_len(keep).unwrap();
            let (index, made, notes) = load(dir.path(), n);
            assert_holds(&index, n);
            match file {
                "log" => {
                    let frames = (len - keep).div_ceil(log_frame as u64);
                    assert_eq!(made as u64, frames.div_ceil(2), "log cut to {keep}");
                    assert_eq!(notes.is_empty(), keep.is_multiple_of(log_frame as u64));
                }
                "head" => assert_eq!(made, n),
                _ => assert!(made > 0),
            }
            drop(index);
            assert_eq!(load(dir.path(), n).1, 0, "{file} cut to {keep} was not made good");
        }
    }
}

#[test]
fn flipped_bits_lose_a_block_or_a_vector_and_are_made_good() {
    let master = tempfile::tempdir().unwrap();
    let n = 4_200;
    drop(load(master.path(), n));
    let own = generation_dir(master.path());
    let shape = Shape { dim: DIM, exact: true };
    for file in ["head", "hot", "cold", "log"] {
        let len = fs::metadata(own.join(file)).unwrap().len() as usize;
        for at in 0..12 {
            let dir = tempfile::tempdir().unwrap();
            copy(&own, dir.path());
            let path = generation_dir(dir.path()).join(file);
            let mut bytes = fs::read(&path).unwrap();
            let place = len * at / 12 + 7;
            bytes[place] ^= 0x20;
            fs::write(&path, bytes).unwrap();
            let (index, made, _) = load(dir.path(), n);
            assert_eq!(index.len(), n);
            let key = file == "cold" && place % shape.cold_bytes() < shape.keys_bytes();
            if file == "cold" && !key {
                // Found when a query reads it, by whichever lessons it hits: at most one vector is missing.
                assert_eq!(made, 0);
                for slot in 0..n {
                    let _ = index.similarity(&pair(0)[0], slot as u32);
                }
                let hit = index.damaged.lock().unwrap().clone();
                assert_eq!(hit.len(), 1, "byte {place}");
                // Noted with the next write, and embedded again at the next opening.
                let mut index = index;
                add_pair(&mut index, n);
                drop(index);
                let (index, made, _) = load(dir.path(), n + 1);
                assert_eq!(made, 1);
                assert_holds(&index, n + 1);
            } else {
                assert_holds(&index, n);
                drop(index);
                assert_eq!(load(dir.path(), n).1, 0);
            }
        }
    }
}

#[test]
fn a_generation_that_was_not_finished_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    drop(load(dir.path(), 100));
    let unfinished = generation_dir(dir.path()).with_file_name("g2");
    fs::create_dir(&unfinished).unwrap();
    fs::write(unfinished.join("hot"), [1, 2, 3]).unwrap();
    let (index, made, notes) = load(dir.path(), 100);
    assert_eq!((made, notes.len()), (0, 1));
    assert_holds(&index, 100);
    assert!(!unfinished.exists());
}

#[test]
fn when_the_disk_refuses_the_index_goes_on_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let (mut index, ..) = load(dir.path(), 100);
    // The directory goes away: the log's replacement at the next full block fails.
    fs::remove_dir_all(dir.path()).unwrap();
    for slot in 100..5_000 {
        add_pair(&mut index, slot);
    }
    assert!(index.failed);
    assert_holds(&index, 5_000);
    fs::create_dir_all(dir.path()).unwrap();
    let (index, made, _) = load(dir.path(), 5_000);
    assert_eq!(made, 5_000);
    assert_holds(&index, 5_000);
}

#[test]
fn an_erased_vector_leaves_no_byte_on_disk_and_takes_no_other_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let n = 5_000;
    let (mut index, ..) = load(dir.path(), n);
    let bytes = |dir: &Path| -> Vec<u8> {
        let files = ["hot", "cold", "log"].map(|name| fs::read(generation_dir(dir).join(name)).unwrap());
        files.concat()
    };
    let has = |all: &[u8], wanted: &[u8]| all.windows(wanted.len()).any(|window| window == wanted);
    // One in the full block, and one in the block that is not full and so in the log.
    for slot in [40, 4_990] {
        let exact: Vec<u8> = pair(slot)[1].iter().take(8).flat_map(|x| x.to_le_bytes()).collect();
        let before = bytes(dir.path());
        assert!(has(&before, &id(slot)) && has(&before, &exact), "{slot}");
        index.erase(&HashSet::from([id(slot)])).unwrap();
        let after = bytes(dir.path());
        assert!(!has(&after, &id(slot)) && !has(&after, &exact), "{slot}");
        index.erase(&HashSet::from([id(slot)])).unwrap();
        assert_eq!(bytes(dir.path()), after, "what is erased is not erased again");
    }
    assert_eq!(index.len(), n - 2);
    for slot in [41, 4_991] {
        assert_eq!(index.search(&pair(slot)[0], 1, &|_| true)[0].0, slot as u32);
    }
    drop(index);
    // The next opening finds nothing damaged, and makes these two anew.
    let (index, made, notes) = load(dir.path(), n);
    assert_eq!((made, notes.len()), (2, 0), "{notes:?}");
    assert_holds(&index, n);
}

#[test]
fn vectors_under_an_erased_id_are_overwritten_though_no_slot_has_them() {
    let dir = tempfile::tempdir().unwrap();
    let n = 5_000;
    let (mut index, ..) = load(dir.path(), n);
    // One slot is given other vectors, one nothing any more; a third is not claimed at the next opening.
    for slot in [40, 4_990] {
        index.remove(slot as u32);
    }
    let key = Key { id: id(40), part: 0, of: 1 };
    index.add_keyed(40, &key, &pair(n)[0]).unwrap();
    drop(index);
    let (mut index, _) = DenseIndex::open(dir.path(), &identity()).unwrap();
    for slot in (0..n).filter(|slot| ![40, 41, 4_990].contains(slot)) {
        assert!(index.claim(slot as u32, &id(slot)), "{slot}");
    }
    index.settle().unwrap();
    index.erase(&HashSet::from([40, 41, 4_990].map(id))).unwrap();
    for name in ["hot", "cold", "log"] {
        let bytes = fs::read(generation_dir(dir.path()).join(name)).unwrap();
        for slot in [40, 41, 4_990] {
            assert!(!bytes.windows(32).any(|window| window == id(slot)), "{slot} in {name}");
        }
    }
    assert_eq!(index.len(), n - 3);
    assert_eq!(index.search(&pair(42)[0], 1, &|_| true)[0].0, 42);
}
