//! One call of the `folklore` command.

use std::{
    ffi::{OsStr, OsString},
    io::{Read, Write},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
};

use serde_json::Value;

use crate::{PATIENCE, program::program, until};

/// How a call ended and what it said.
#[derive(Debug, Clone)]
pub struct Ran {
    /// The exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// All of stdout.
    pub stdout: String,
    /// All of stderr.
    pub stderr: String,
}

impl Ran {
    /// Itself, if the call succeeded.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.code(0)
    }

    /// Itself, if the exit code is this one.
    #[track_caller]
    pub fn code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    /// Stdout as the one JSON value that `--json` promises.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| {
            panic!("stdout is not one JSON value ({error}): {}\nstderr: {}", self.stdout, self.stderr)
        })
    }

    /// Stderr as the one line that an error is.
    #[track_caller]
    pub fn one_line(&self) -> &str {
        let line = self.stderr.trim_end();
        assert!(!line.is_empty() && !line.contains('\n'), "stderr is not one line: {:?}", self.stderr);
        line
    }
}

/// The command with these arguments and no environment.
pub fn folklore<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(program());
    command.args(args).stdin(Stdio::null());
    bare(&mut command);
    command
}

/// Leaves a command no environment but what the loader of dynamic libraries may need.
pub fn bare(command: &mut Command) {
    command.env_clear();
    if let Some(path) = std::env::var_os("LD_LIBRARY_PATH") {
        command.env("LD_LIBRARY_PATH", path);
    }
}

/// Calls a verb on the home in `data` with `--json`.
pub fn call<S: Into<OsString>>(data: &Path, args: impl IntoIterator<Item = S>, stdin: Option<&str>) -> Ran {
    let mut all: Vec<OsString> = vec!["--data".into(), data.into(), "--json".into()];
    all.extend(args.into_iter().map(Into::into));
    finish(folklore(all), stdin)
}

/// Runs a command to its end.
///
/// # Panics
/// When it takes longer than [`PATIENCE`]; it is killed then.
pub fn finish(mut command: Command, stdin: Option<&str>) -> Ran {
    let shown = format!("{command:?}");
    let input = if stdin.is_some() { Stdio::piped() } else { Stdio::null() };
    let child = command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = KilledOnDrop(child.unwrap_or_else(|error| panic!("cannot start {shown}: {error}")));
    let (stdout, stderr) = (reader(child.0.stdout.take()), reader(child.0.stderr.take()));
    if let (Some(text), Some(mut pipe)) = (stdin, child.0.stdin.take()) {
        // It may have refused already and gone.
        let _ = pipe.write_all(text.as_bytes());
    }
    let status =
        until(&format!("the end of {shown}"), PATIENCE, || child.0.try_wait().expect("a child can be waited for"));
    let text = |handle: thread::JoinHandle<Vec<u8>>| {
        String::from_utf8(handle.join().expect("the reader ends")).expect("output is UTF-8")
    };
    Ran { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

/// A child that does not outlive the test.
pub struct KilledOnDrop(pub Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}
