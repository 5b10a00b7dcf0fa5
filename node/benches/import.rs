//! Import end to end: `folklore import` of one file of runs into a real `folklore up`, lessons drawn without a model.
//!
//! `cargo bench -p folklore-node --bench import [-- MEGABYTES]`
//!
//! The file is JSON Lines in tau-bench's form, the runs of the shared data (`FOLKLORE_SHARED_DATA`, else `../shared/data`), else
//! those that come along, again and again. It is imported twice, each time into a home of its own: once with the runs as further trials of the
//! same tasks, so that they teach mostly what is known; and once each with a task and records of its own, so that each teaches something
//! that nearly says what others say, which is the most that merging has to do. Counted is the CPU time of daemon and command, which says what
//! one core does whatever else the machine is at, and the daemon's peak of resident memory. Beside the speed stands what parsing
//! the same lines as JSON takes, and nothing else.
#![allow(missing_docs, reason = "a benchmark")]

mod daemon;

use std::{
    fs,
    io::{BufRead, BufReader, BufWriter, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use daemon::Daemon;
use folklore_tests::figures::{Figure, Report};
use serde_json::Value;

/// Issue 5: of input, a second of one core.
const MB_A_CORE_SECOND_MIN: f64 = 20.0;
/// Issue 5: of resident memory, whatever the size of the file.
const PEAK_MIB_MAX: f64 = 200.0;
/// Characters of a reservation's code.
const CODE_LEN: usize = 6;
/// What `/proc/PID/stat` counts in, on every Linux there is.
const TICKS_A_SECOND: f64 = 100.0;

/// CPU time of a process and of its children that ended, seconds.
fn cpu_seconds(process: &str) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // The name, in brackets, may hold spaces.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11..15].iter().map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / TICKS_A_SECOND
}

fn peak_mib(process: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}

/// The runs that the file is made of.
fn runs() -> Vec<Value> {
    let shared = std::env::var_os("FOLKLORE_SHARED_DATA").map(PathBuf::from);
    let shared = shared.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"));
    let real = shared.join("tau-bench/gpt-4o-airline.json");
    let path = if real.is_file() { real } else { Path::new(env!("CARGO_MANIFEST_DIR")).join("data/demo/shop.json") };
    println!("runs of {}", path.file_name().unwrap().to_string_lossy());
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The text with each code of [`CODE_LEN`] capitals and digits, as orders and reservations have, turned into another: by the trial, and
/// the same one wherever it stands.
fn with_other_codes(text: &str, trial: u64) -> String {
    let mut out = String::with_capacity(text.len());
    for piece in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
        let word = piece.trim_end_matches(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let has = |is: fn(&u8) -> bool| word.bytes().any(|b| is(&b));
        let is_code = word.len() == CODE_LEN
            && word.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
            && has(u8::is_ascii_uppercase)
            && has(u8::is_ascii_digit);
        if !is_code {
            out.push_str(piece);
            continue;
        }
        let mut left = trial;
        for byte in word.bytes() {
            let (first, letters) = if byte.is_ascii_digit() { (b'0', 10) } else { (b'A', 26) };
            out.push(char::from(first + (u64::from(byte - first) + left % 6) as u8 % letters));
            left /= 6;
        }
        out.push_str(&piece[word.len()..]);
    }
    out
}

/// Writes so many bytes of runs; gives bytes and runs.
fn write(path: &Path, runs: &[Value], wanted: u64, own_tasks: bool) -> (u64, usize) {
    let mut file = BufWriter::new(fs::File::create(path).unwrap());
    let (mut bytes, mut count) = (0, 0);
    for trial in 0_u64.. {
        for run in runs {
            let mut run = run.clone();
            run["trial"] = trial.into();
            if own_tasks {
                run["task_id"] = (run["task_id"].as_u64().unwrap_or(0) + 1_000 * trial).into();
                let told = run["info"]["task"]["instruction"].as_str().unwrap_or_default().to_owned();
                run["info"]["task"]["instruction"] = format!("{told} Your ticket is {}.", 7919 * (trial + 1)).into();
            }
            let mut line = run.to_string();
            if own_tasks {
                line = with_other_codes(&line, trial);
            }
            writeln!(file, "{line}").unwrap();
            bytes += line.len() as u64 + 1;
            count += 1;
            if bytes >= wanted {
                file.flush().unwrap();
                return (bytes, count);
            }
        }
    }
    unreachable!("there is always a further trial")
}

/// CPU seconds of parsing every line and doing nothing with it.
fn parsing(path: &Path) -> f64 {
    let before = cpu_seconds("self");
    for line in BufReader::new(fs::File::open(path).unwrap()).lines() {
        std::hint::black_box(serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    }
    cpu_seconds("self") - before
}

fn main() {
    let megabytes = std::env::args().find_map(|arg| arg.parse().ok()).unwrap_or(1_000_u64);
    let runs = runs();
    let mut report = Report::new("import");
    for (what, own_tasks) in
        [("trials of the same tasks", false), ("each run with a task and records of its own", true)]
    {
        let dir = tempfile::tempdir().unwrap();
        let (file, data) = (dir.path().join("runs.jsonl"), dir.path().join("home"));
        let (bytes, count) = write(&file, &runs, megabytes * 1_000_000, own_tasks);
        let parse = parsing(&file);
        let folklore = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_folklore"));
            command.arg("--data").arg(&data);
            command
        };
        assert!(folklore().arg("init").stdout(Stdio::null()).status().unwrap().success());
        let daemon = Daemon::start(&data);
        let process = daemon.0.id().to_string();
        let (daemon_before, command_before) = (cpu_seconds(&process), cpu_seconds("self"));
        let began = Instant::now();
        let output = folklore().args(["import", "--json"]).arg(&file).stderr(Stdio::inherit()).output().unwrap();
        let wall = began.elapsed().as_secs_f64();
        let cpu = cpu_seconds(&process) - daemon_before + cpu_seconds("self") - command_before;
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["runs"].as_u64(), Some(count as u64), "{answer:.2000}");
        let mb = bytes as f64 / 1e6;
        let setting = format!(
            "{mb:.0} MB, {count} runs, {what}: {} lessons, {} merged; {cpu:.1} s of CPU, {wall:.1} s in all",
            answer["lessons"], answer["merged"]
        );
        let speed = Figure::new("import, extractive", mb / cpu, "MB a core second").on(&setting);
        report.add(speed.beside("parsing the JSON alone", mb / parse).at_least(MB_A_CORE_SECOND_MIN));
        let peak = Figure::new("import, extractive: peak resident", peak_mib(&process), "MiB").on(&setting);
        report.add(peak.at_most(PEAK_MIB_MAX));
    }
    report.finish().expect("the figures are written");
}
