//! Runs the benchmarks and gathers their figures into `FIGURES.md`: `cargo figures [--quick] [--keep] [NAME...]`.
//!
//! Without names all of them are run, one after the other, since each wants the machine for itself. `--quick` takes smaller
//! sets, to see that everything runs; its figures are printed and not kept. `--keep` runs nothing and gathers what the last runs left.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use folklore_tests::figures;
use serde_json::Value;

/// A benchmark: the name of its file of figures, what it measures, where it is, its arguments, and those of a quick run.
struct Bench {
    name: &'static str,
    about: &'static str,
    package: &'static str,
    bench: &'static str,
    args: &'static [&'static str],
    quick: &'static [&'static str],
}

/// Where `store/benches/index` has its sentences and its Python, seen from the package.
const WORK: &str = "../target/index-bench";
const PYTHON: &str = "../target/index-bench/venv/bin/python";

const BENCHES: &[Bench] = &[
    Bench {
        name: "reconcile",
        about: "Finding and fetching what differs",
        package: "folklore-protocol",
        bench: "reconcile",
        args: &["table"],
        quick: &["quick"],
    },
    Bench {
        name: "harness",
        about: "Announcing, cuts and healing, in virtual time",
        package: "folklore-sim",
        bench: "harness",
        args: &[],
        quick: &[],
    },
    Bench {
        name: "engine",
        about: "The simulator",
        package: "folklore-sim",
        bench: "engine",
        args: &[],
        quick: &["rate", "1000"],
    },
    Bench {
        name: "bank-insert",
        about: "Durable inserts into a growing bank",
        package: "folklore-store",
        bench: "bank",
        args: &["insert", "--records", "4000000"],
        quick: &["insert", "--records", "100000"],
    },
    Bench {
        name: "bank-open",
        about: "Opening a bank",
        package: "folklore-store",
        bench: "bank",
        args: &["open", "--records", "1000000"],
        quick: &["open", "--records", "100000"],
    },
    Bench {
        name: "bank-ingest",
        about: "Records from peers",
        package: "folklore-store",
        bench: "bank",
        args: &["ingest"],
        quick: &["ingest", "--records", "20000"],
    },
    Bench {
        name: "opening",
        about: "From a closed bank to the first answer",
        package: "folklore-store",
        bench: "opening",
        args: &[],
        quick: &["100000"],
    },
    Bench {
        name: "recall",
        about: "Recall from end to end",
        package: "folklore-node",
        bench: "recall",
        args: &[],
        quick: &["10000"],
    },
    Bench {
        name: "import",
        about: "Importing runs",
        package: "folklore-node",
        bench: "import",
        args: &[],
        quick: &["50"],
    },
    Bench {
        name: "lexical",
        about: "Recall by words",
        package: "folklore-store",
        bench: "lexical",
        args: &["1000000"],
        quick: &["20000"],
    },
    Bench {
        name: "index",
        about: "Recall by vectors, and the built-in embedder (store/benches/index/README.md says what it needs)",
        package: "folklore-store",
        bench: "index",
        args: &[WORK, PYTHON],
        quick: &[WORK],
    },
    Bench {
        name: "index-large",
        about: "32 million vectors",
        package: "folklore-store",
        bench: "index",
        args: &[WORK, "large", "32000000"],
        quick: &[WORK, "large", "200000"],
    },
];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(message)) => {
            eprintln!("figures: {message}");
            ExitCode::from(2)
        }
        Err(Failure::Failed(message)) => {
            eprintln!("figures: {message}");
            ExitCode::FAILURE
        }
    }
}

enum Failure {
    Usage(String),
    Failed(String),
}

fn run() -> Result<(), Failure> {
    let (mut quick, mut keep, mut names) = (false, false, Vec::new());
    for arg in env::args().skip(1) {
        match arg.as_str() {
            "--quick" => quick = true,
            "--keep" => keep = true,
            name if BENCHES.iter().any(|bench| bench.name == name) => names.push(arg),
            other => return Err(Failure::Usage(format!("no benchmark is called {other}; there are: {}", all_names()))),
        }
    }
    let wanted = |bench: &&Bench| names.is_empty() || names.iter().any(|name| name == bench.name);
    let mut failed = Vec::new();
    for bench in BENCHES.iter().filter(wanted).filter(|_| !keep) {
        eprintln!("\n== {}: {}", bench.name, bench.about);
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let args = if quick { bench.quick } else { bench.args };
        let ran = Command::new(cargo)
            .args(["bench", "-p", bench.package, "--bench", bench.bench, "--"])
            .args(args)
            .current_dir(root())
            .status()
            .map_err(|error| Failure::Failed(format!("cargo does not start: {error}")))?;
        // A missed target is a figure too: the others are still wanted.
        if !ran.success() {
            failed.push(bench.name);
        }
    }
    if !quick {
        let page = page();
        let path = root().join("FIGURES.md");
        fs::write(&path, page).map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
        eprintln!("\nFIGURES.md is written");
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::Failed(format!("failed, or missed a target: {}", failed.join(", "))))
}

fn all_names() -> String {
    BENCHES.iter().map(|bench| bench.name).collect::<Vec<_>>().join(", ")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The page, of what the last run of each benchmark left.
fn page() -> String {
    let mut page = format!(
        "# Figures\n\nWritten by `cargo figures` on {}, at {}, on {}. Times on a machine that does other things are longer; a ratio is of \
         two things measured in the same run.\n",
        said("date", &["-u", "+%Y-%m-%d"]),
        said("git", &["describe", "--always", "--dirty"]),
        machine(),
    );
    for bench in BENCHES {
        let path = figures::directory().join(format!("{}.json", bench.name));
        let read = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Vec<Value>>(&bytes).ok());
        let table = read.map_or("Not measured yet.\n".into(), |figures| figures::table(&figures));
        page.push_str(&format!("\n## {}\n\n`cargo figures {}`\n\n{table}", bench.about, bench.name));
    }
    page
}

/// What a program prints; a word that says so when it does not.
fn said(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).current_dir(root()).output();
    let text = output.ok().filter(|o| o.status.success()).map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned());
    text.filter(|text| !text.is_empty()).unwrap_or_else(|| "an unknown state".into())
}

/// The processor, its cores and the memory, as Linux tells them.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let field = |file: &str, name: &str| {
        let text = fs::read_to_string(file).ok()?;
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let model = field("/proc/cpuinfo", "model name").unwrap_or_else(|| env::consts::ARCH.into());
    let memory = field("/proc/meminfo", "MemTotal")
        .and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(String::new(), |kib| format!(", {} GiB of memory", kib.div_ceil(1 << 20)));
    format!("{cores} cores of {model}{memory}")
}
