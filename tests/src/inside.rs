//! Runs a test again inside namespaces of its own: without a network, or with a small disk.

use std::process::Command;

use crate::{
    command::{bare, finish},
    program::program,
};

/// Set in the copy of a test that runs inside.
const INSIDE: &str = "FOLKLORE_TEST_INSIDE";

/// Whether this is the copy of a test that runs inside.
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Runs the test called `test` of this executable again: in namespaces of the kinds that the `unshare(1)` flags name,
/// after `setup` in a shell there. It must pass. Where such namespaces may not be made, that is said on stdout and nothing is
/// run.
#[track_caller]
pub fn inside(kinds: &[&str], setup: &str, test: &str) {
    // As root; else with a user namespace in which one is root.
    for more in [&[][..], &["-r"]] {
        let flags = || more.iter().chain(kinds);
        let mut probe = Command::new("unshare");
        probe.args(flags()).args(["sh", "-c", setup]);
        if !probe.output().is_ok_and(|ran| ran.status.success()) {
            continue;
        }
        let mut again = Command::new("unshare");
        bare(&mut again);
        again.env(INSIDE, "1").env("FOLKLORE_PROGRAM", program());
        for name in ["PATH", "TMPDIR"] {
            if let Some(value) = std::env::var_os(name) {
                again.env(name, value); // For this executable, `ip`, `kill` and `cp`; the nodes get none of it.
            }
        }
        let executable = std::env::current_exe().expect("a test knows its own path");
        again.args(flags()).args(["sh", "-c", &format!("{setup} && exec \"$0\" --exact \"$1\" --nocapture")]);
        let ran = finish(
            {
                again.arg(executable).arg(test);
                again
            },
            None,
        )
        .ok();
        assert!(ran.stdout.contains("1 passed"), "no test is called {test}: {}", ran.stdout);
        print!("{}", ran.stdout);
        return;
    }
    println!("skipped: namespaces of the kinds {kinds:?} may not be made here");
}
