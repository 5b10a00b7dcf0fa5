//! The command line, in one place.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use folklore_sim::{Arm, Plant};

const EXIT_CODES: &str = "Exit codes: 0 done, and all that was expected holds · 1 something that was expected does not hold, or \
                          it failed · 2 the command line or the file cannot be meant · 4 there is no such scenario or file";

/// Experiments on Folklore under partitions: the shipped protocol on virtual time, exact for a seed.
#[derive(Debug, Parser)]
#[command(name = "folklore-sim", version, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run a scenario over its seeds and arms, and report.
    Run(RunArgs),
    /// List the scenarios that come along, or show one.
    Scenarios(ScenariosArgs),
    /// List the figures that are measured, with what they mean.
    Figures,
    /// Look for failures: small clusters with faults drawn from seeds.
    Swarm(SwarmArgs),
    /// Make a failing scenario small.
    Shrink(ShrinkArgs),
    /// Run one seed of one arm again and say what happened.
    Replay(ReplayArgs),
    /// Compare the results of two runs, figure by figure.
    Compare(CompareArgs),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RunArgs {
    /// A scenario file, or the name of one that comes along (see `scenarios`).
    pub scenario: String,
    /// How many seeds, instead of what the file says.
    #[arg(long)]
    pub seeds: Option<usize>,
    /// The first seed, instead of what the file says.
    #[arg(long)]
    pub first_seed: Option<u64>,
    /// Only this arm. May be given several times.
    #[arg(long = "arm")]
    pub arms: Vec<ArmName>,
    /// Where results, plots and the page go. The directory is made if it is not there.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Tasks from a file instead of what the scenario says.
    #[arg(long)]
    pub tasks: Option<PathBuf>,
    /// Threads; all cores unless given. They change nothing but how long it takes.
    #[arg(long)]
    pub threads: Option<usize>,
    /// Run each seed on real `folklore` processes too, over emulated links: up to 15 nodes, in real time.
    #[arg(long)]
    pub real: bool,
    /// The `folklore` program for --real [default: FOLKLORE_PROGRAM, else the one beside this program, else on the PATH].
    #[arg(long, requires = "real")]
    pub program: Option<PathBuf>,
    /// Print the results as JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ScenariosArgs {
    /// Print the file of this one.
    pub name: Option<String>,
    /// Print the list as JSON.
    #[arg(long, conflicts_with = "name")]
    pub json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SwarmArgs {
    /// How many seeds.
    #[arg(long, default_value_t = 100)]
    pub seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    pub first: u64,
    /// Put a bug in, to see that it is found.
    #[arg(long)]
    pub plant: Option<PlantName>,
    /// Threads; all cores unless given.
    #[arg(long)]
    pub threads: Option<usize>,
    /// Print what was found as JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ShrinkArgs {
    /// A scenario file, a name, or `swarm:SEED` as `swarm` prints it.
    pub scenario: String,
    /// The seed with which it fails; the file's first unless given.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Put a bug in.
    #[arg(long)]
    pub plant: Option<PlantName>,
    /// Where the small scenario goes; stdout unless given.
    #[arg(long)]
    pub out: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ReplayArgs {
    /// A scenario file, a name, or `swarm:SEED` as `swarm` prints it.
    pub scenario: String,
    /// The seed; the file's first unless given.
    #[arg(long)]
    pub seed: Option<u64>,
    /// The arm.
    #[arg(long, default_value = "folklore")]
    pub arm: ArmName,
    /// Put a bug in.
    #[arg(long)]
    pub plant: Option<PlantName>,
    /// Write everything that happened here, one event a line.
    #[arg(long)]
    pub events: Option<PathBuf>,
    /// Print as JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CompareArgs {
    /// A directory that `run --out` wrote, or its results.json.
    pub a: PathBuf,
    /// Another.
    pub b: PathBuf,
    /// Only this arm.
    #[arg(long)]
    pub arm: Option<ArmName>,
    /// Print as JSON.
    #[arg(long)]
    pub json: bool,
}

/// An arm on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ArmName {
    Isolated,
    Central,
    Folklore,
    Oracle,
}

impl From<ArmName> for Arm {
    fn from(name: ArmName) -> Self {
        match name {
            ArmName::Isolated => Self::Isolated,
            ArmName::Central => Self::Central,
            ArmName::Folklore => Self::Folklore,
            ArmName::Oracle => Self::Oracle,
        }
    }
}

/// A planted bug on the command line, at the first node where it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlantName {
    DropReplies,
    BringBackWithdrawn,
    AcceptWrongHash,
    CountTwice,
    LoseTail,
    SayComplete,
}

impl PlantName {
    /// As one writes it.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
    }
}

impl From<PlantName> for Plant {
    fn from(name: PlantName) -> Self {
        match name {
            PlantName::DropReplies => Self::DropReplies(3),
            PlantName::BringBackWithdrawn => Self::BringBackWithdrawn,
            PlantName::AcceptWrongHash => Self::AcceptWrongHash(0),
            PlantName::CountTwice => Self::CountTwice(0),
            PlantName::LoseTail => Self::LoseTail(0),
            PlantName::SayComplete => Self::SayComplete,
        }
    }
}
