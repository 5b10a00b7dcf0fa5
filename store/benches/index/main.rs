//! How fast and how good the index and the built-in embedder are, against `usearch` and `faiss` on the same vectors.
//!
//! `cargo bench -p folklore-store --bench index -- [WORK [PYTHON [PEERS]]]`; see `README.md` beside this file.
//!
//! `WORK` is a directory that has `sentences.txt` (default: `target/index-bench`). `PYTHON` is an interpreter that has numpy,
//! usearch and faiss-cpu; without it the figures that need a peer are printed alone. `PEERS` are those to ask at 10^6, by
//! default `usearch,faiss`; all of them are asked at 10^5. Times are CPU times of one thread, so
//! that what else the machine does hardly counts. A recall counts every answer at least as near as the true tenth.
#![allow(missing_docs, reason = "a benchmark")]

use std::{
    env, fs,
    hint::black_box,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use folklore_store::{
    embed::{BUILTIN_DIM, BuiltinEmbedder, Embedder},
    index::dense::{DenseIndex, Key, SlotSet},
};
use folklore_tests::figures::{Figure, Report};
use ndarray::ArrayView2;
use serde_json::Value;

const DIM: usize = BUILTIN_DIM;
/// Sentences that are asked for and not stored.
const QUERIES: usize = 500;
const K: usize = 10;
const PEERS: &str = "usearch,faiss";
/// How near to the true tenth counts as equal: what two orders of summing may differ by.
const TIE: f32 = 1e-6;

fn cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.cast_unsigned(), now.tv_nsec as u32)
}

/// CPU seconds that `action` takes.
fn timed<T>(action: impl FnOnce() -> T) -> (T, f64) {
    let before = cpu();
    let out = black_box(action());
    (out, (cpu() - before).as_secs_f64())
}

/// Memory of this process that no file backs, MiB.
fn rss_anon_mib() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1024.0
}

/// What was measured, with targets that take several values to judge.
struct Figures(Report);

impl Figures {
    #[allow(clippy::too_many_arguments, reason = "one line of a table")]
    fn put(
        &mut self,
        figure: &str,
        value: f64,
        unit: &str,
        peer: &str,
        peer_value: Option<f64>,
        target: &str,
        ok: Option<bool>,
        setting: &str,
    ) {
        let mut figure = Figure::new(figure, value, unit).on(setting);
        if let Some(peer_value) = peer_value {
            figure = figure.beside(peer, peer_value);
        }
        if let Some(ok) = ok {
            figure = figure.judged(target, ok);
        }
        self.0.add(figure);
    }
}

/// Rows of `DIM` floats.
struct Vectors(Vec<f32>);

impl Vectors {
    fn rows(&self) -> impl Iterator<Item = &[f32]> {
        self.0.chunks_exact(DIM)
    }

    fn view(&self) -> ArrayView2<'_, f32> {
        ArrayView2::from_shape((self.0.len() / DIM, DIM), &self.0).expect("whole rows")
    }

    fn write(&self, path: &Path) {
        let bytes: Vec<u8> = self.0.iter().flat_map(|x| x.to_le_bytes()).collect();
        // A peer of an earlier run may have the old file mapped.
        let beside = path.with_extension("new");
        fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, path)).expect("room for the vectors");
    }
}

fn embed(sentences: &[&str], figures: &mut Figures) -> Vectors {
    let embedder = BuiltinEmbedder::new();
    embedder.embed_one("warm up").expect("built in");
    let mut out = Vec::with_capacity(sentences.len() * DIM);
    let ((), seconds) = timed(|| {
        for batch in sentences.chunks(256) {
            for vector in embedder.embed(batch).expect("built in").into_iter().flatten() {
                out.extend(vector);
            }
        }
    });
    let tokens: usize = sentences.iter().map(|s| embedder.tokens(s).expect("built in")).sum();
    let rate = tokens as f64 / seconds / 1e6;
    let setting = format!("{} sentences, {tokens} tokens, {} kept", sentences.len(), out.len() / DIM);
    figures.put("embedder", rate, "Mtokens/s", "", None, ">= 5", Some(rate >= 5.0), &setting);
    Vectors(out)
}

/// For each query the score of its true tenth among the first `n`.
fn truth(stored: &Vectors, queries: &Vectors, n: usize) -> Vec<f32> {
    let mut best: Vec<Vec<f32>> = vec![Vec::new(); queries.view().nrows()];
    for block in stored.view().slice(ndarray::s![..n, ..]).axis_chunks_iter(ndarray::Axis(0), 8192) {
        let scores = queries.view().dot(&block.t());
        for (best, scores) in best.iter_mut().zip(scores.rows()) {
            best.extend(scores);
            best.select_nth_unstable_by(K - 1, |a, b| b.total_cmp(a));
            best.truncate(K);
        }
    }
    best.into_iter().map(|best| best.into_iter().fold(f32::INFINITY, f32::min)).collect()
}

struct Asked {
    recall: f64,
    /// CPU milliseconds a query: mean, and best of the rounds.
    ms: f64,
}

fn ask(queries: &Vectors, truth: &[f32], search: impl Fn(&[f32]) -> Vec<(u32, f32)>) -> Asked {
    let mut hits = 0;
    let mut ms = f64::INFINITY;
    for round in 0..3 {
        let (found, seconds) = timed(|| queries.rows().map(&search).collect::<Vec<_>>());
        ms = ms.min(seconds * 1e3 / found.len() as f64);
        if round == 0 {
            let near = found.iter().zip(truth).map(|(found, bar)| found.iter().filter(|f| f.1 >= bar - TIE).count());
            hits = near.map(|n| n.min(K)).sum();
        }
    }
    Asked { recall: hits as f64 / (truth.len() * K) as f64, ms }
}

fn build(dir: &Path, stored: &Vectors, n: usize) -> (DenseIndex, f64) {
    if dir.exists() {
        fs::remove_dir_all(dir).expect("an old index removed");
    }
    timed(|| {
        let (mut index, _) = DenseIndex::open(dir, BuiltinEmbedder::new().identity()).expect("a place for the index");
        for (slot, vector) in (0u32..).zip(stored.rows().take(n)) {
            let mut id = [0; 32];
            id[..4].copy_from_slice(&slot.to_le_bytes());
            index.add_keyed(slot, &Key { id, part: 0, of: 1 }, vector).expect("a unit vector");
        }
        index.settle().expect("a disk");
        index
    })
}

/// Seconds to read so many bytes at memory speed.
fn memory_read_ms(bytes: usize) -> f64 {
    // Far more than any cache, read often enough that every page is there.
    let words = vec![1u64; 32 << 20];
    let sum = |words: &[u64]| {
        let mut sums = [0u64; 64];
        for chunk in words.as_chunks::<64>().0 {
            for (sum, word) in sums.iter_mut().zip(chunk) {
                *sum = sum.wrapping_add(*word);
            }
        }
        sums.iter().fold(0u64, |a, b| a.wrapping_add(*b))
    };
    sum(&words);
    let best = (0..7).map(|_| timed(|| sum(black_box(&words))).1).fold(f64::INFINITY, f64::min);
    best * 1e3 * bytes as f64 / (words.len() * 8) as f64
}

/// What the peers need for the same queries, by their own script on the same files.
fn peers(work: &Path, python: Option<&str>, n: usize, wanted: &str) -> Value {
    let Some(python) = python else { return Value::Null };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/index/peers.py");
    let out =
        Command::new(python).arg(script).arg(work).arg(n.to_string()).arg(wanted).output().expect("an interpreter");
    eprint!("{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap_or(Value::Null)
}

/// The n-th of clustered unit vectors: one of 20,000 centres and a spread about it, from a counter, so that any of them can be
/// made at any time. Neighbours are those of a cluster; their cosines lie about 0.6.
fn clustered(n: u64, dim: usize) -> Vec<f32> {
    let draws = |stream: u64, out: &mut dyn FnMut(f32)| {
        let mut bytes = vec![0u8; 4 * dim];
        let mut hasher = blake3::Hasher::new();
        hasher.update(&stream.to_le_bytes()).finalize_xof().fill(&mut bytes);
        // The sum of four even draws of a byte is near enough to a normal one.
        bytes.as_chunks::<4>().0.iter().for_each(|b| out(b.iter().map(|b| f32::from(*b)).sum::<f32>() / 147.8 - 3.45));
    };
    let mut out = Vec::with_capacity(dim);
    draws(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 20_000, &mut |x| out.push(x));
    let mut at = 0;
    draws(n + (1 << 40), &mut |x| {
        out[at] += 0.8 * x;
        at += 1;
    });
    let norm = out.iter().map(|x| x * x).sum::<f32>().sqrt();
    out.iter_mut().for_each(|x| *x /= norm);
    out
}

/// Slots with their scores.
type Slots = Vec<(u32, f32)>;

/// What `large` is told beside the number of vectors.
#[derive(Default)]
struct Large {
    /// Into how many lists the vectors are parted, whatever their number.
    lists: Option<usize>,
    /// The index stays where it is, and one that an earlier run left is asked instead of building it again.
    keep: bool,
}

/// So many clustered vectors, without their exact form, and partitioned if there are enough or if `lists` says into how many:
/// what tens of millions need.
fn large(work: &Path, n: u64, told: &Large, figures: &mut Figures) {
    let queries = Vectors((0..100).flat_map(|q| clustered((1 << 50) + q * 7919, DIM)).collect());
    fs::create_dir_all(work).expect("a place for the index");
    let (dir, built) = (work.join("large"), work.join("large.built"));
    let kept = fs::read_to_string(&built).ok().filter(|_| told.keep).and_then(|line| {
        let numbers: Vec<f64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
        (numbers.first() == Some(&(n as f64))).then(|| Some((*numbers.get(1)?, *numbers.get(2)?)))?
    });
    let identity = BuiltinEmbedder::new().identity().clone();
    let key = |slot: u64| {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&slot.to_le_bytes());
        id
    };
    if kept.is_none() {
        fs::remove_dir_all(&dir).ok();
    }
    let begin = std::time::Instant::now();
    let (mut index, _) = DenseIndex::open_compact(&dir, &identity).expect("a place for the index");
    for slot in 0..n {
        if kept.is_some() {
            assert!(index.claim(slot as u32, &key(slot)), "the index of the last run is whole");
        } else {
            let key = Key { id: key(slot), part: 0, of: 1 };
            index.add_keyed(slot as u32, &key, &clustered(slot, DIM)).expect("a unit vector");
        }
    }
    let did = if kept.is_some() { "claimed" } else { "made and added" };
    println!("{n} vectors {did} after {:.1} min", begin.elapsed().as_secs_f64() / 60.0);
    index.settle().expect("a disk");
    if let Some(lists) = told.lists.filter(|_| kept.is_none()) {
        index.part(lists).expect("a disk");
    }
    let minutes = kept.map_or(begin.elapsed().as_secs_f64() / 60.0, |(minutes, _)| minutes);
    let setting = format!("{n} x {DIM} clustered, 100 queries, {}", index.kernels());
    figures.put(
        "large: build, with making the vectors",
        minutes,
        "min",
        "",
        None,
        "<= 30 at 32 million",
        Some(minutes <= 30.0),
        &setting,
    );
    let ask = || {
        let (mut times, mut answers) = (Vec::new(), Vec::new());
        for query in queries.rows() {
            let begin = std::time::Instant::now();
            answers.push(index.search(query, K, &|_| true));
            times.push(begin.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        (times[50], answers)
    };
    // What was just written lies twice on the disk until then, so half of it is not in memory.
    let (cold, _) = ask();
    figures.put("large: p50, wall clock, first asked", cold, "ms", "", None, "", None, &setting);
    let anonymous = kept.map_or_else(rss_anon_mib, |(_, anonymous)| anonymous);
    figures.put("large: RssAnon", anonymous, "MiB", "", None, "<= 2048", Some(anonymous <= 2048.0), &setting);
    if told.keep && kept.is_none() {
        fs::write(&built, format!("{n} {minutes} {anonymous}")).expect("room");
    }
    let bytes = read_through(&dir);
    println!("{:.1} GB read once, as a node does that has been up for a while", bytes as f64 / 1e9);
    let (warm, answers) = ask();
    figures.put(
        "large: p50, wall clock, its files read before",
        warm,
        "ms",
        "",
        None,
        "<= 30",
        Some(warm <= 30.0),
        &setting,
    );
    // The truth, a block at a time.
    let mut best: Vec<Slots> = vec![Vec::new(); 100];
    for first in (0..n).step_by(8192) {
        let block = Vectors((first..(first + 8192).min(n)).flat_map(|slot| clustered(slot, DIM)).collect());
        let scores = queries.view().dot(&block.view().t());
        for (best, scores) in best.iter_mut().zip(scores.rows()) {
            best.extend((first as u32..).zip(scores.iter().copied()));
            best.select_nth_unstable_by(K - 1, |a, b| b.1.total_cmp(&a.1));
            best.truncate(K);
        }
    }
    // Cosines are by integers here, so answers are compared by what they are.
    let hit =
        |(found, best): (&Slots, &Slots)| found.iter().filter(|(slot, _)| best.iter().any(|b| b.0 == *slot)).count();
    let hits: usize = answers.iter().zip(&best).map(hit).sum();
    let recall = hits as f64 / (100 * K) as f64;
    figures.put("large: recall@10", recall, "", "", None, ">= 0.97", Some(recall >= 0.97), &setting);
    drop(index);
    if !told.keep {
        fs::remove_dir_all(&dir).ok();
    }
}

/// Reads every file below a directory once; how many bytes.
fn read_through(dir: &Path) -> u64 {
    let mut bytes = 0;
    for entry in fs::read_dir(dir).expect("the index's directory") {
        let path = entry.expect("an entry").path();
        bytes += if path.is_dir() {
            read_through(&path)
        } else {
            std::io::copy(&mut fs::File::open(&path).expect("its file"), &mut std::io::sink()).expect("its bytes")
        };
    }
    bytes
}

fn main() {
    // Cargo passes `--bench`.
    let args: Vec<String> = env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    let work = args.first().map_or_else(|| target.join("index-bench"), PathBuf::from);
    let python = args.get(1).map(String::as_str);
    let wanted = args.get(2).map_or(PEERS, String::as_str);
    if let (Some("large"), Some(n)) = (python, args.get(2).and_then(|n| n.parse().ok())) {
        let more = args.get(3..).unwrap_or_default();
        let told = Large {
            lists: more.iter().find_map(|word| word.parse().ok()),
            keep: more.iter().any(|word| word == "keep"),
        };
        let mut figures = Figures(Report::new("index-large"));
        large(&work, n, &told, &mut figures);
        figures.0.finish().expect("the figures are written");
        return;
    }
    let path = work.join("sentences.txt");
    let Ok(text) = fs::read_to_string(&path) else {
        println!("skipped: no {}; benches/index/README.md says how to make it", path.display());
        return;
    };
    let mut figures = Figures(Report::new("index"));
    let sentences: Vec<&str> = text.lines().collect();
    let (asked, stored) = sentences.split_at(QUERIES.min(sentences.len() / 10));
    let stored = embed(stored, &mut figures);
    let queries = embed(asked, &mut Figures(Report::new("queries")));
    drop(text);
    let all = stored.view().nrows();
    let million = all.min(1_000_000);
    stored.write(&work.join("vectors.f32"));
    queries.write(&work.join("queries.f32"));

    for n in [million, 100_000.min(all)] {
        let setting = format!("{n} x {DIM}, {} queries", queries.view().nrows());
        let truth = truth(&stored, &queries, n);
        let bytes: Vec<u8> = truth.iter().flat_map(|x| x.to_le_bytes()).collect();
        fs::write(work.join(format!("truth-{n}.f32")), bytes).expect("room");
        let before = rss_anon_mib();
        let dir = work.join("index");
        let (index, seconds) = build(&dir, &stored, n);
        let anonymous = rss_anon_mib() - before;
        let setting = format!("{setting}, {}", index.kernels());
        let peers = peers(&work, python, n, if n == million { wanted } else { PEERS });
        let peer = |path: &str| peers.pointer(path).and_then(Value::as_f64);

        let answer = ask(&queries, &truth, |query| index.search(query, K, &|_| true));
        let tag = if n == million { "10^6" } else { "10^5" };
        figures.put(
            &format!("{tag}: recall@10"),
            answer.recall,
            "",
            "",
            None,
            ">= 0.99",
            Some(answer.recall >= 0.99),
            &setting,
        );
        let usearch = peer("/usearch/ms");
        let note = format!("usearch i8, recall {:.4}", peer("/usearch/recall").unwrap_or(f64::NAN));
        if n == million {
            let ok = usearch.map(|peer| answer.ms <= peer && answer.recall >= 0.99);
            figures.put("10^6: query", answer.ms, "ms", &note, usearch, "<= usearch at 0.97", ok, &setting);
            let note = format!("faiss PQ64x4fs, recall {:.4}", peer("/faiss/recall").unwrap_or(f64::NAN));
            let faiss = peer("/faiss/ms");
            let ok = faiss.map(|peer| answer.ms <= 1.2 * peer && answer.recall >= 0.995);
            figures.put("10^6: query", answer.ms, "ms", &note, faiss, "<= 1.2 x faiss, recall >= 0.995", ok, &setting);
            let read = memory_read_ms(n * (DIM / 8 + 2));
            let ok = Some(answer.ms <= 1.5 * read);
            figures.put(
                "10^6: query",
                answer.ms,
                "ms",
                "reading the codes at memory speed",
                Some(read),
                "<= 1.5 x",
                ok,
                &setting,
            );
            let rate = n as f64 / seconds;
            let theirs = peer("/usearch/inserts_per_s");
            let ok = theirs.map(|theirs| rate >= 100.0 * theirs);
            figures.put(
                "10^6: build",
                rate,
                "vectors/s",
                "usearch, one thread",
                theirs,
                ">= 100 x usearch",
                ok,
                &setting,
            );
            figures.put(
                "10^6: RssAnon",
                anonymous,
                "MiB",
                "usearch",
                peer("/usearch/mib"),
                "<= 64",
                Some(anonymous <= 64.0),
                &setting,
            );
            let set: SlotSet = (0..n as u32).filter(|slot| slot.wrapping_mul(2_654_435_761) % 100 == 0).collect();
            let few: Vec<f32> = stored
                .rows()
                .enumerate()
                .take(n)
                .filter(|(slot, _)| set.contains(*slot as u32))
                .flat_map(|(_, v)| v.to_vec())
                .collect();
            let few = Vectors(few);
            let truth = self::truth(&few, &queries, few.view().nrows());
            let filtered = ask(&queries, &truth, |query| index.search_in(query, K, &set));
            let setting = format!("{setting}, recall {:.4}", filtered.recall);
            let ok = Some(filtered.ms <= answer.ms && filtered.recall >= 0.99);
            figures.put(
                "10^6: query, 1 % pass",
                filtered.ms,
                "ms",
                "unfiltered",
                Some(answer.ms),
                "<= unfiltered",
                ok,
                &setting,
            );
            let (_, reopened) = timed(|| {
                let (mut index, notes) = DenseIndex::open(&dir, BuiltinEmbedder::new().identity()).expect("there");
                assert!(notes.is_empty());
                for slot in 0..n as u32 {
                    let mut id = [0; 32];
                    id[..4].copy_from_slice(&slot.to_le_bytes());
                    assert!(index.claim(slot, &id));
                }
                index.settle().expect("a disk");
                index
            });
            figures.put("10^6: opening and claiming", reopened, "s", "", None, "", None, &setting);
        } else {
            let ok = Some(answer.ms <= 0.5);
            figures.put("10^5: query", answer.ms, "ms", &note, usearch, "<= 0.5", ok, &setting);
            let note = format!("faiss PQ64x4fs, recall {:.4}", peer("/faiss/recall").unwrap_or(f64::NAN));
            figures.put("10^5: query", answer.ms, "ms", &note, peer("/faiss/ms"), "", None, &setting);
            let rate = n as f64 / seconds;
            let theirs = peer("/usearch/inserts_per_s");
            figures.put("10^5: build", rate, "vectors/s", "usearch, one thread", theirs, "", None, &setting);
        }
        drop(index);
        fs::remove_dir_all(&dir).ok();
    }
    figures.0.finish().expect("the figures are written");
}
