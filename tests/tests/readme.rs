//! The README's commands are run, and print what it says they print.
//!
//! Its blocks that begin with `console` are one session of one `bash -eu`: a line that begins with `$ ` is a command, the
//! lines up to the next one are its stdout. In these `…` stands for any text within a line, and a line that is only `…` for any
//! number of lines. A command with no lines below it may print anything.

use std::{fs, os::unix::fs::symlink, process::Command};

use folklore_tests::{
    command::{bare, finish},
    files::copy,
    program::{program, workspace},
};

/// Stands before the output of each command.
const MARK: &str = "--- next command ---";

#[derive(Debug, Default)]
struct Step {
    command: String,
    printed: Vec<String>,
}

/// The commands of a document, in order.
fn steps(document: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let (mut is_block, mut is_console) = (false, false);
    for line in document.lines() {
        if let Some(kind) = line.trim_start().strip_prefix("```") {
            is_block = !is_block;
            is_console = is_block && kind.trim() == "console";
        } else if is_console {
            match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => steps.push(Step { command: command.to_owned(), ..Step::default() }),
                (None, Some(step)) => step.printed.push(line.to_owned()),
                (None, None) => panic!("a console block begins without a command: {line}"),
            }
        }
    }
    steps
}

/// Whether a line is as shown.
fn line_fits(shown: &str, line: &str) -> bool {
    let mut parts = shown.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Whether lines are as shown.
fn fits(shown: &[String], lines: &[&str]) -> bool {
    match (shown.split_first(), lines.split_first()) {
        (None, lines) => lines.is_none(),
        (Some((first, rest)), _) if first.trim() == "…" => (0..=lines.len()).any(|skip| fits(rest, &lines[skip..])),
        (Some((first, rest)), Some((line, others))) => line_fits(first, line.trim_end()) && fits(rest, others),
        (Some(_), None) => false,
    }
}

#[test]
fn the_readme_prints_what_it_says() {
    let Ok(document) = fs::read_to_string(workspace().join("README.md")) else {
        println!("skipped: there is no README.md yet");
        return;
    };
    let steps = steps(&document);
    assert!(steps.len() >= 10, "the README shows only {} commands", steps.len());
    let dir = tempfile::Builder::new().prefix("folklore-readme-").tempdir().expect("a temporary directory");
    for made in ["bin", "tmp", "node/data"] {
        fs::create_dir_all(dir.path().join(made)).expect("a directory");
    }
    symlink(program(), dir.path().join("bin/folklore")).expect("a link");
    copy(&workspace().join("node/data/demo"), &dir.path().join("node/data/demo"));
    // Ends what a failing session leaves behind.
    let mut script = "trap 'kill $(jobs -p) 2> /dev/null || true; wait' EXIT\n".to_owned();
    for step in &steps {
        script.push_str(&format!("echo '{MARK}'\n{}\n", step.command));
    }
    let script_path = dir.path().join("session.sh");
    fs::write(&script_path, script).expect("a script");

    let mut bash = Command::new("bash");
    bare(&mut bash);
    let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".into());
    bash.current_dir(dir.path())
        .env("PATH", format!("{}:{path}", dir.path().join("bin").display()))
        .env("TMPDIR", dir.path().join("tmp"))
        .arg("-eu")
        .arg(&script_path);
    let ran = finish(bash, None);
    let mark = format!("{MARK}\n");
    let mut outputs = ran.stdout.split(&mark).skip(1);
    for step in &steps {
        let output =
            outputs.next().unwrap_or_else(|| panic!("the session ended before `{}`: {}", step.command, ran.stderr));
        let lines: Vec<&str> = output.lines().collect();
        let shown = step.printed.join("\n");
        assert!(
            step.printed.is_empty() || fits(&step.printed, &lines),
            "`{}` prints\n{output}\nand the README says\n{shown}\nstderr: {}",
            step.command,
            ran.stderr
        );
    }
    assert_eq!(ran.code, Some(0), "the last command failed: {}", ran.stderr);
    println!("{} commands", steps.len());
}

#[test]
fn a_document_that_says_something_else_is_noticed() {
    let shown = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    assert!(fits(&shown(&["a … c", "…", "z"]), &["a b c", "1", "2", "z"]));
    assert!(fits(&shown(&["…"]), &[]));
    assert!(!fits(&shown(&["a … c"]), &["a b d"]));
    assert!(!fits(&shown(&["a"]), &["a", "b"]));
    assert!(!fits(&shown(&["a", "b"]), &["a"]));
    assert!(!line_fits("ab", "a"));
    let steps = steps("```sh\n$ no\n```\n```console\n$ yes\nout\n$ and\n```\nprose\n```console\n$ more\n```\n");
    let seen: Vec<_> = steps.iter().map(|step| (step.command.as_str(), step.printed.len())).collect();
    assert_eq!(seen, [("yes", 1), ("and", 0), ("more", 0)]);
}
