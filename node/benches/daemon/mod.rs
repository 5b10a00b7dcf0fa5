//! A real `folklore up` for benchmarks.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

/// The daemon, ended with the benchmark.
pub struct Daemon(pub Child);

impl Daemon {
    /// Starts it over a home and waits until it serves.
    pub fn start(data: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_folklore"))
            .args(["up", "--json", "--data"])
            .arg(data)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("http"), "the daemon said: {line}");
        Daemon(child)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
