//! Reading trajectory files: the real ones where they are present, and everything that can be wrong with a file.

use folklore_node::formats::{self, BankLesson, FileError, FileSummary, Item, Outcomes, ReadOptions};
use folklore_store::run::{Run, RunStatus};
use std::fs;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

#[path = "formats/every.rs"]
mod every;
#[path = "formats/real.rs"]
mod real;
#[path = "formats/samples.rs"]
mod samples;

type Skips = Vec<(String, String)>;

/// What came out of a file.
struct Out {
    summary: Result<FileSummary, FileError>,
    runs: Vec<Run>,
    lessons: Vec<BankLesson>,
    skips: Skips,
}

fn out(path: &Path, options: &ReadOptions<'_>) -> Out {
    let (mut runs, mut lessons, mut skips) = (Vec::new(), Vec::new(), Vec::new());
    let summary = formats::read_path(path, options, &mut |item| {
        match item {
            Item::Run(run) => runs.push(*run),
            Item::Lesson(lesson) => lessons.push(*lesson),
            Item::Skipped { item, reason } => skips.push((item, reason)),
        }
        ControlFlow::Continue(())
    });
    Out { summary, runs, lessons, skips }
}

fn read_with(path: &Path, options: &ReadOptions<'_>) -> (Result<FileSummary, FileError>, Vec<Run>, Skips) {
    let Out { summary, runs, skips, .. } = out(path, options);
    (summary, runs, skips)
}

fn read(path: &Path) -> (Result<FileSummary, FileError>, Vec<Run>, Skips) {
    read_with(path, &ReadOptions::default())
}

fn shared_data(test: &str) -> Option<PathBuf> {
    let path = std::env::var_os("FOLKLORE_SHARED_DATA").map(PathBuf::from);
    let path = path.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"));
    if path.is_dir() {
        return Some(path);
    }
    println!("{test}: skipped, {} is not there", path.display());
    None
}

fn count(runs: &[Run], status: RunStatus) -> usize {
    runs.iter().filter(|run| run.outcome.status == status).count()
}

#[test]
fn real_tau_bench_files_keep_their_labels() {
    let Some(data) = shared_data("real_tau_bench_files_keep_their_labels") else {
        return;
    };
    for (file, domain, solved, failed) in [
        ("gpt-4o-airline.json", "airline", 16, 56),
        ("retail_assertions.json", "retail", 4, 6),
        ("retail_tool-calling.json", "retail", 9, 3),
    ] {
        let (summary, runs, skips) = read(&data.join("tau-bench").join(file));
        assert_eq!(summary.unwrap().format, "tau-bench");
        assert_eq!((count(&runs, RunStatus::Success), count(&runs, RunStatus::Failure)), (solved, failed), "{file}");
        assert_eq!((runs.len(), skips.len()), (solved + failed, 0), "{file}");
        for run in &runs {
            assert_eq!(run.domain, domain, "{}", run.source);
            assert!(run.task_key.starts_with(&format!("tau-bench/{domain}/")) && !run.task.is_empty());
            assert!(run.source.contains(file) && !run.source.contains('/'), "{}", run.source);
            assert!(!run.steps.is_empty() && run.outcome.expected.is_some());
        }
        let mut digests: Vec<_> = runs.iter().map(Run::digest).collect();
        digests.sort();
        digests.dedup();
        assert_eq!(digests.len(), runs.len(), "{file}");
    }
}

#[test]
fn a_tau_bench_failure_says_what_the_judge_expected() {
    let Some(data) = shared_data("a_tau_bench_failure_says_what_the_judge_expected") else {
        return;
    };
    let (_, runs, _) = read(&data.join("tau-bench/gpt-4o-airline.json"));
    let reason = |task: &str, trial: u32| {
        let run = runs.iter().find(|run| run.task_key.ends_with(task) && run.attempt == Some(trial)).unwrap();
        run.outcome.reason.clone().unwrap_or_default()
    };
    assert!(reason("/0", 0).contains("nonfree_baggages 1 where 0 was expected"), "{}", reason("/0", 0));
    assert!(reason("/1", 0).contains("expected cancel_reservation"), "{}", reason("/1", 0));
    assert!(reason("/2", 0).contains("never said 23553"), "{}", reason("/2", 0));
    let unexplained = runs.iter().filter(|r| r.outcome.status == RunStatus::Failure && r.outcome.reason.is_none());
    let unexplained: Vec<_> = unexplained.map(|run| run.source.clone()).collect();
    println!("failures without a reason: {unexplained:?}");
    assert!(unexplained.len() <= 6);
}

#[test]
fn submitting_is_no_success_without_a_label() {
    let Some(data) = shared_data("submitting_is_no_success_without_a_label") else {
        return;
    };
    let folder = data.join("mini-swe-agent");
    let outcomes = Outcomes::read(&folder.join("outcomes.json")).unwrap();
    let labelled = ReadOptions { outcomes: Some(&outcomes), ..ReadOptions::default() };
    let (mut plain, mut judged, mut side_files) = (Vec::new(), Vec::new(), 0);
    for found in formats::expand(&[folder]) {
        assert!(found.walked && found.problem.is_none());
        let (summary, runs, skips) = read(&found.path);
        match summary {
            Ok(summary) => assert_eq!((summary.format, summary.runs, summary.skipped), ("mini-swe-agent", 1, 0)),
            Err(error) => {
                assert!(found.passes_over(&error), "{error}");
                side_files += usize::from(error.is_side_file());
            }
        }
        assert!(skips.is_empty());
        plain.extend(runs);
        judged.extend(read_with(&found.path, &labelled).1);
    }
    assert_eq!((plain.len(), side_files), (13, 1));
    assert_eq!(count(&plain, RunStatus::Unknown), 13);
    assert_eq!((count(&judged, RunStatus::Failure), count(&judged, RunStatus::Success)), (7, 6));
    for (plain, judged) in plain.iter().zip(&judged) {
        assert_eq!(plain.digest(), judged.digest(), "a label does not make another run");
        assert_eq!(judged.outcome.judged_by.as_deref(), Some("outcomes.json"));
        assert!(plain.task.lines().count() >= 1 && !plain.task.contains("<pr_description>"));
        assert!(!plain.task.contains("Consider the following"), "{}", plain.task);
        assert!(plain.steps.last().unwrap().observation.starts_with("diff --git"), "{}", plain.source);
    }
    assert!(judged.iter().any(|run| run.tags == ["sympy"]));
}

/// Writes a file and reads it.
fn reading(name: &str, bytes: &[u8]) -> (Result<FileSummary, FileError>, Vec<Run>, Skips) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, bytes).unwrap();
    read(&path)
}

const GOOD: &str = r#"{"task_id":1,"reward":1.0,"info":{},"traj":[{"role":"assistant","content":"done"}],"trial":0}"#;

#[test]
fn one_bad_item_does_not_hide_the_others() {
    let surrogate = GOOD.replace("done", r"\ud800 lone");
    let deep = GOOD.replace("{},\"traj\"", &format!("{}{}, \"traj\"", "[".repeat(500), "]".repeat(500)));
    let binary = [&GOOD.as_bytes()[..60], &[0xff, 0xfe], &GOOD.as_bytes()[60..]].concat();
    let missing = r#"{"task_id":1,"reward":0.0}"#;
    let null = GOOD.replace("\"done\"", "null");
    let bad: [&[u8]; 7] =
        [surrogate.as_bytes(), deep.as_bytes(), &binary, missing.as_bytes(), b"{\"task_id\": nope}", b"7", b"null"];
    for bad in bad {
        for position in 0..3 {
            let mut items: Vec<&[u8]> = vec![GOOD.as_bytes(), null.as_bytes()];
            items.insert(position, bad);
            let array = [b"[".as_slice(), &items.join(&b","[..]), b"]"].concat();
            let lines = items.join(&b"\n"[..]);
            for (name, bytes, word) in [("a.json", array, "item"), ("a.jsonl", lines, "line")] {
                let (summary, runs, skips) = reading(name, &bytes);
                let shown = String::from_utf8_lossy(bad).into_owned();
                let summary = summary.unwrap_or_else(|error| panic!("{name} {shown}: {error}"));
                assert_eq!((runs.len(), summary.runs, summary.skipped), (2, 2, 1), "{name}: {shown}");
                assert_eq!(skips[0].0, format!("{word} {}", position + 1), "{name}: {shown}");
                assert!(!skips[0].1.is_empty() && !skips[0].1.contains('\n'));
            }
        }
    }
}

#[test]
fn a_truncated_file_gives_what_was_whole() {
    let array = format!("[{GOOD},{GOOD},{GOOD}]");
    let (summary, runs, skips) = reading("a.json", &array.as_bytes()[..array.len() - 40]);
    assert_eq!((runs.len(), summary.unwrap().skipped), (2, 1));
    assert_eq!(skips[0].0, "item 3");
    assert!(skips[0].1.contains("ends"), "{}", skips[0].1);
    // A document is one item: its error is the file's.
    let (summary, runs, _) = reading("a.traj.json", b"{\n \"messages\": [],\n \"info\": {\"exit_status\"");
    assert!(runs.is_empty());
    let error = summary.unwrap_err().to_string();
    assert!(error.starts_with("a.traj.json: ") && error.contains("ends"), "{error}");
}

#[test]
fn every_kind_of_wrong_file_gives_one_line_that_names_it() {
    let cases: [(&str, &[u8], &str); 12] = [
        ("empty.json", b"", "is empty"),
        ("space.json", b" \n\t\n", "is empty"),
        ("bom.json", b"\xef\xbb\xbf", "is empty"),
        ("elf.json", b"\x7fELF\x02\x01\x01\x00\x00", "not a text file"),
        ("latin.json", b"caf\xe9 au lait", "not a text file"),
        ("notes.json", b"dear diary", "not JSON"),
        ("number.json", b"17", "not JSON"),
        ("strings.json", b"[\"a\", \"b\"]", "not objects"),
        ("none.json", b"[]", "no items"),
        ("other.json", b"{\"name\": \"x\", \"version\": 3}", "name, version"),
        ("labels.json", b"[{\"instance_id\":\"a\",\"resolved\":true}]", "--outcomes"),
        ("deep.json", &[b'['; 100_000], "ends inside a value"),
    ];
    for (name, bytes, says) in cases {
        let (summary, runs, _) = reading(name, bytes);
        assert!(runs.is_empty());
        let error = summary.unwrap_err().to_string();
        assert!(error.starts_with(name) && error.contains(says) && !error.contains('\n'), "{name}: {error}");
    }
    let unknown = formats::by_name("nope").unwrap_err().to_string();
    for format in formats::formats() {
        assert!(unknown.contains(format.name), "{unknown}");
    }
}

#[test]
fn directories_missing_files_and_locked_files_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let directory = read(dir.path()).0.unwrap_err();
    assert!(matches!(directory, FileError::NotAFile { .. }), "{directory}");
    let missing = read(&dir.path().join("gone.json")).0.unwrap_err().to_string();
    assert!(missing.contains("gone.json") && !missing.contains(&*dir.path().to_string_lossy()), "{missing}");
}

#[test]
fn a_byte_order_mark_and_another_name_do_no_harm() {
    let (summary, runs, _) = reading("renamed.txt", format!("\u{feff}  [{GOOD}]").as_bytes());
    assert_eq!((summary.unwrap().format, runs.len()), ("tau-bench", 1));
    let (summary, runs, _) = reading("lines", format!("\u{feff}{GOOD}\n\n{GOOD}\n").as_bytes());
    assert_eq!((summary.unwrap().runs, runs.len()), (2, 2));
}

#[test]
fn insisting_on_a_format_reads_what_detection_would_refuse() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("odd.json");
    fs::write(&path, "{\n\"messages\": [{\"role\": \"user\", \"content\": \"fix it\"}]\n}").unwrap();
    assert!(read(&path).0.is_err());
    let options = ReadOptions { format: Some(formats::by_name("mini-swe-agent").unwrap()), ..ReadOptions::default() };
    assert_eq!(read_with(&path, &options).1.len(), 1);
}

#[test]
fn a_sink_that_breaks_ends_the_reading() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.json");
    fs::write(&path, format!("[{GOOD},{GOOD},{GOOD}]")).unwrap();
    let mut seen = 0;
    let summary = formats::read_path(&path, &ReadOptions::default(), &mut |_| {
        seen += 1;
        ControlFlow::Break(())
    });
    assert_eq!((seen, summary.unwrap().runs), (1, 1));
}

/// Peak resident memory of this process so far, in bytes; `None` where the system does not tell.
fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

#[test]
fn two_hundred_megabytes_of_garbage_end_in_one_line_without_being_held() {
    const MEGABYTES: usize = 200;
    let dir = tempfile::tempdir().unwrap();
    for (name, start, fill) in [
        ("text.json", &b"lorem "[..], b'x'),
        ("array.json", b"[\"", b'x'),
        ("object.json", b"{\"a\":\"", b'x'),
        ("nest.json", b"[", b'['),
        ("commas.json", b"[", b','),
    ] {
        let path = dir.path().join(name);
        let mut file = fs::File::create(&path).unwrap();
        file.write_all(start).unwrap();
        let block = vec![fill; 1024 * 1024];
        for _ in 0..MEGABYTES {
            file.write_all(&block).unwrap();
        }
        drop(file);
        let (summary, runs, skips) = read(&path);
        assert!(runs.is_empty() && skips.is_empty());
        let error = summary.unwrap_err().to_string();
        assert!(error.starts_with(name) && error.len() < 400, "{error}");
        fs::remove_file(&path).unwrap();
    }
    if let Some(peak) = peak_memory() {
        // One value's bound, twice while a buffer grows, and the test binary itself.
        assert!(peak < 3 * formats::MAX_VALUE_BYTES as u64 + (64 << 20), "peak of {peak} bytes");
    }
}
