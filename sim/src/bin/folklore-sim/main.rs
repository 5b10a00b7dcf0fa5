//! The `folklore-sim` command: experiments on Folklore under partitions, on virtual time.

mod args;
mod compare;
mod find;
mod list;
mod replay;
mod run;
mod shrink;
mod swarm;

use std::{fmt, process::ExitCode};

use clap::Parser;

use args::{Args, Verb};

/// How a verb ended without success.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An expectation or a check does not hold, and all of it has been said.
    Failed,
    /// What was asked for could not be done.
    Broken(String),
    /// It cannot be meant: the command line or the file.
    Usage(String),
    /// There is no such thing.
    NotFound(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed => Ok(()),
            Self::Broken(text) | Self::Usage(text) | Self::NotFound(text) => f.write_str(text),
        }
    }
}

fn main() -> ExitCode {
    let done = match Args::parse().verb {
        Verb::Run(args) => run::run(args),
        Verb::Scenarios(args) => list::scenarios(&args),
        Verb::Figures => list::figures(),
        Verb::Swarm(args) => swarm::swarm(&args),
        Verb::Shrink(args) => shrink::shrink(&args),
        Verb::Replay(args) => replay::replay(&args),
        Verb::Compare(args) => compare::compare(&args),
    };
    let Err(failure) = done else { return ExitCode::SUCCESS };
    let text = failure.to_string();
    if !text.is_empty() {
        eprintln!("folklore-sim: {text}");
    }
    ExitCode::from(match failure {
        Failure::Failed | Failure::Broken(_) => 1,
        Failure::Usage(_) => 2,
        Failure::NotFound(_) => 4,
    })
}

/// Prints to stdout. Whoever stopped reading (`| head`) has enough.
pub(crate) fn say(text: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}
