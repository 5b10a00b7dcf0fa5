// Part of the tests that replay the corpus (`protocol/tests/corpus.rs`, `node/tests/corpus.rs`), not of the fuzz crate.

use std::{alloc::System, fs, path::PathBuf};

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// A function that takes any bytes.
type Target = (&'static str, fn(&[u8]));

/// What one target may allocate in all (not at a time) for an input: so many bytes, and so many for each byte of input.
pub struct Allowance {
    pub fixed: usize,
    pub each: usize,
    /// Whether the seeds must be those that this build makes. Conversations change with how nodes behave; those recorded once stay good.
    pub pinned: bool,
}

/// Compares the committed seeds of a target with those made anew (or writes them, with `UPDATE_CORPUS=1`), and runs the target
/// over every file of its corpus and over `mutations` changed copies of each.
pub fn replay((name, target): Target, seeds: &[Vec<u8>], mutations: u64, allowance: &Allowance) {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(name);
    let is_seed = |path: &PathBuf| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("seed-"));
    let files = || {
        let found = fs::read_dir(&directory).map(|d| d.filter_map(Result::ok).map(|e| e.path()).collect::<Vec<_>>());
        let mut found = found.unwrap_or_default();
        found.sort();
        found
    };
    if std::env::var_os("UPDATE_CORPUS").is_some_and(|v| v == "1") {
        fs::create_dir_all(&directory).unwrap();
        files().iter().filter(|p| is_seed(p)).for_each(|path| fs::remove_file(path).unwrap());
        for (n, seed) in seeds.iter().enumerate() {
            fs::write(directory.join(format!("seed-{n:02}")), seed).unwrap();
        }
    }
    let committed: Vec<Vec<u8>> = files().iter().filter(|p| is_seed(p)).map(|p| fs::read(p).unwrap()).collect();
    let same = if allowance.pinned { committed == seeds } else { !committed.is_empty() };
    assert!(same, "{name}: the seeds are not those this build makes; write them with UPDATE_CORPUS=1");
    let corpus: Vec<Vec<u8>> = files().iter().map(|path| fs::read(path).unwrap()).collect();
    let (mut most, mut runs) = (0.0f64, 0u64);
    let mut run = |bytes: &[u8]| {
        let region = Region::new(ALLOCATOR);
        target(bytes);
        let allocated = region.change().bytes_allocated;
        let allowed = allowance.fixed + allowance.each * bytes.len();
        assert!(allocated <= allowed, "{name}: {allocated} bytes allocated for {} of input: {bytes:02x?}", bytes.len());
        most = most.max(allocated as f64 / allowed as f64);
        runs += 1;
    };
    run(&[]);
    for (n, bytes) in corpus.iter().enumerate() {
        run(bytes);
        for round in 0..mutations {
            run(&mutated(bytes, &corpus, (n as u64) << 32 | round));
        }
    }
    println!("{name}: {} files, {runs} runs, at most {:.1} % of what it may allocate", corpus.len(), 100.0 * most);
}

/// A copy of `bytes` with a few changes of the kinds that decoders stumble over; which ones follows from `seed` alone.
pub fn mutated(bytes: &[u8], others: &[Vec<u8>], seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut draw = |below: usize| {
        // splitmix64
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % below.max(1) as u64) as usize
    };
    let mut out = bytes.to_vec();
    for _ in 0..=draw(3) {
        let at = draw(out.len() + 1);
        match draw(8) {
            0 if at < out.len() => out[at] ^= 1 << draw(8),
            1 if at < out.len() => out[at] = [0, 1, 250, 251, 252, 253, 254, 255][draw(8)],
            2 => out.truncate(at),
            3 => out.splice(at..at, [253, 255, 255, 255, 255, 255, 255, 255, 255]).for_each(drop),
            4 => out.splice(at..at, [251, draw(256) as u8, draw(256) as u8]).for_each(drop),
            5 => {
                let end = at + draw(out.len() - at + 1).min(40);
                let piece = out[at..end].to_vec();
                out.splice(at..at, piece).for_each(drop);
            }
            6 => {
                let end = at + draw(out.len() - at + 1).min(40);
                out.drain(at..end);
            }
            _ => {
                let other = &others[draw(others.len())];
                let from = draw(other.len() + 1);
                out.truncate(at);
                out.extend_from_slice(&other[from..]);
            }
        }
    }
    out
}
