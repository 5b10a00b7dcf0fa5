//! The scenario file: sites, links, faults and a workload in one TOML file, and what is measured and expected of a run.
//!
//! ```toml
//! about = "Site b repeats nothing that site a learnt, although the link was down all night."
//!
//! [run]
//! duration = "12h"
//! seeds = 20
//!
//! [[site]]
//! name = "a"
//! nodes = 3
//!
//! [[site]]
//! name = "b"
//! nodes = 3
//!
//! [[fault]]
//! kind = "drop-partition"
//! at = "2h"
//! for = "8h"
//! ```
//!
//! A key that nobody reads is an error that names the line, and so is a value that cannot be meant. Nodes are numbered through
//! all sites in the order of the file; a file names them by site: `"a"` is all of site a, `"a/0"` its first node, `"a/0-3"` its
//! first four, `"*"` everyone.

mod expect;
mod fault;
mod nodes;
mod read;
pub mod shipped;
mod table;
pub mod units;
mod write;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::plant::Plant;

pub use expect::{Bound, Expect};
pub use fault::{Fault, FaultKind};

/// Longest time that a file can name, milliseconds: ten years.
pub const MAX_DURATION_MS: u64 = 3_650 * 86_400_000;
/// Most nodes of a scenario.
pub const MAX_NODES: usize = 100_000;
/// Most seeds that one run takes.
pub const MAX_SEEDS: usize = 100_000;

/// An experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// The file's name without its end.
    pub name: String,
    /// A sentence on what it shows.
    pub about: String,
    /// How long, how often, in which arms.
    pub run: Run,
    /// The sites, whose nodes are numbered in this order.
    pub sites: Vec<Site>,
    /// The links within and between sites.
    pub links: LinkRules,
    /// What goes wrong, in the order of the file.
    pub faults: Vec<Fault>,
    /// What the agents do.
    pub workload: Workload,
    /// How it is measured.
    pub measure: Measure,
    /// What must come of it.
    pub expect: Expect,
}

/// `[run]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// How many seeds.
    pub seeds: usize,
    /// The first of them; the others follow one by one.
    pub first_seed: u64,
    /// How long agents work, milliseconds.
    pub duration_ms: u64,
    /// How long the nodes are left to themselves afterwards, milliseconds.
    pub settle_ms: u64,
    /// What is compared.
    pub arms: Vec<Arm>,
    /// The site at which the server of the central arm stands.
    pub central: usize,
    /// A bug for the checks to find.
    pub plant: Option<Plant>,
}

/// How the agents share what they learn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arm {
    /// Nobody shares anything.
    Isolated,
    /// One server holds the memory of all; where it cannot be reached there is none.
    Central,
    /// Folklore nodes.
    Folklore,
    /// What anyone learns everyone knows at once.
    Oracle,
    /// Folklore daemons as processes, on real time and emulated links. No file names it: it is asked for with `--real`.
    Real,
}

impl Arm {
    /// Those that are simulated, in the order in which reports show them.
    pub const ALL: [Self; 4] = [Self::Isolated, Self::Central, Self::Folklore, Self::Oracle];

    /// Its name in files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Isolated => "isolated",
            Self::Central => "central",
            Self::Folklore => "folklore",
            Self::Oracle => "oracle",
            Self::Real => "real",
        }
    }

    /// The arm of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|arm| arm.name() == name)
    }
}

/// `[[site]]`: nodes with good links among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// Its name.
    pub name: String,
    /// How many nodes.
    pub nodes: usize,
    /// How many agents work at each node.
    pub agents: usize,
    /// How many other nodes of the site each is told of at the start.
    pub known: usize,
    /// How many of its nodes, the first ones, are told of the gateways of the other sites.
    pub gateways: usize,
    /// How many gateways of other sites each gateway is told of.
    pub uplinks: usize,
}

/// `[links]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkRules {
    /// Between two nodes of one site.
    pub within: LinkSpec,
    /// Between nodes of two sites.
    pub between: LinkSpec,
    /// Between two certain sites, or within one that is named twice; the smaller site first.
    pub pairs: Vec<(usize, usize, LinkSpec)>,
}

impl LinkRules {
    /// The link between a node of one site and a node of another, or of the same.
    pub fn of(&self, a: usize, b: usize) -> &LinkSpec {
        let sites = (a.min(b), a.max(b));
        let pair = self.pairs.iter().find(|(x, y, _)| (*x, *y) == sites).map(|(_, _, link)| link);
        pair.unwrap_or(if a == b { &self.within } else { &self.between })
    }
}

/// What a message meets on one link, in each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkSpec {
    /// Least time under way, milliseconds.
    pub latency_ms: u64,
    /// Up to this much more, drawn evenly, milliseconds.
    pub jitter_ms: u64,
    /// Messages lost one by one, per million.
    pub loss_ppm: u32,
    /// Losses that come together.
    pub burst: Option<Burst>,
    /// What the link carries, bytes a second; `None` if it never fills.
    pub rate: Option<u64>,
    /// What may wait to be sent, bytes; more is lost. Means nothing without a rate.
    pub queue_bytes: u64,
}

/// Burst loss: a link that is good or bad (the model of Gilbert and Elliott), and loses in its bad state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    /// How likely a message is the first of a bad spell, per million.
    pub start_ppm: u32,
    /// Messages that a bad spell lasts on average.
    pub length: u32,
    /// Messages lost in a bad spell, per million.
    pub loss_ppm: u32,
}

/// `[workload]`: agents draw tasks from families of problems; each family has a trap that a lesson of that family warns of.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Real tasks instead of the built-in families: a file of WebArena intents, tau-bench tasks or JSON Lines.
    pub tasks: Option<PathBuf>,
    /// How many families are drawn from; `None` for all there are.
    pub families: Option<usize>,
    /// How unevenly: the n-th family comes up in proportion to n to the minus this. 0 draws all alike.
    pub zipf: f64,
    /// Mean time between the tasks of one agent, milliseconds. The gaps are drawn from an exponential distribution.
    pub task_every_ms: u64,
    /// When the agents begin, milliseconds.
    pub start_ms: u64,
    /// How many lessons recall may show for a task.
    pub k: usize,
    /// Share of lessons that their author withdraws again, per million.
    pub withdraw_ppm: u32,
    /// How long after it was taught a lesson is withdrawn on average, milliseconds.
    pub withdraw_after_ms: u64,
    /// Lessons about none of the families that all nodes hold from the start.
    pub preload: usize,
}

/// `[measure]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measure {
    /// Width of the steps of curves over time, milliseconds.
    pub step_ms: u64,
    /// When the phase "during" begins and ends, milliseconds; `None` for from the first to the last cut.
    pub during: Option<(u64, u64)>,
    /// How long the phase "after" lasts from there, milliseconds.
    pub after_ms: u64,
    /// How often equal roots are looked for, milliseconds.
    pub look_every_ms: u64,
}

/// Why a scenario cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file cannot be read.
    #[error("{}: {error}", path.display())]
    Unread {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Something in it cannot be meant.
    #[error("line {line}: {message}")]
    At {
        /// The line, from 1.
        line: usize,
        /// What, and what could stand there.
        message: String,
    },
}

impl ScenarioError {
    fn at(line: usize, message: impl Into<String>) -> Self {
        Self::At { line, message: message.into() }
    }
}

impl Scenario {
    /// Reads a scenario from its text. Errors: [`ScenarioError::At`].
    pub fn parse(name: &str, text: &str) -> Result<Self, ScenarioError> {
        read::scenario(name, text)
    }

    /// Reads a file. A relative path of a file of tasks starts from the scenario's directory.
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| ScenarioError::Unread { path: path.into(), error })?;
        let name = path.file_stem().map_or_else(|| "scenario".into(), |stem| stem.to_string_lossy());
        let mut scenario = Self::parse(&name, &text)?;
        if let (Some(tasks), Some(directory)) = (&mut scenario.workload.tasks, path.parent()) {
            *tasks = directory.join(&tasks);
        }
        Ok(scenario)
    }

    /// The scenario as a file that [`Scenario::parse`] reads as the same, with no key that says only what is the default.
    pub fn to_toml(&self) -> String {
        write::scenario(self)
    }

    /// How many nodes.
    pub fn nodes(&self) -> usize {
        self.sites.iter().map(|site| site.nodes).sum()
    }

    /// The numbers of the nodes of a site.
    pub fn nodes_of(&self, site: usize) -> std::ops::Range<usize> {
        let first = self.sites.iter().take(site).map(|site| site.nodes).sum();
        first..first + self.sites.get(site).map_or(0, |site| site.nodes)
    }

    /// For each node, its site.
    pub fn site_of_nodes(&self) -> Vec<usize> {
        self.sites.iter().enumerate().flat_map(|(n, site)| std::iter::repeat_n(n, site.nodes)).collect()
    }

    /// For each node, whether it is hostile at some time of the run.
    pub fn hostile(&self) -> Vec<bool> {
        let mut hostile = vec![false; self.nodes()];
        for node in self.faults.iter().filter(|fault| fault.kind.is_hostile()).flat_map(|fault| fault.kind.nodes()) {
            if let Some(entry) = hostile.get_mut(*node) {
                *entry = true;
            }
        }
        hostile
    }

    /// From when to when links are cut, milliseconds; `None` if they never are. A cut without an end lasts as long as the
    /// agents work.
    pub fn cut_span(&self) -> Option<(u64, u64)> {
        let cuts = || self.faults.iter().filter(|fault| fault.kind.is_cut());
        let begin = cuts().map(|fault| fault.at_ms).min()?;
        let end = cuts().map(|fault| fault.end_ms().unwrap_or(self.run.duration_ms)).max()?;
        Some((begin, end.min(self.run.duration_ms)))
    }

    /// From when to when the phase "during" lasts, milliseconds: as `[measure]` says, else the span of the cuts.
    pub fn during(&self) -> Option<(u64, u64)> {
        self.measure.during.or_else(|| self.cut_span())
    }

    /// When the last fault ends that keeps nodes from holding the same, milliseconds. Faults without an end are left out:
    /// what they reach is not expected to converge.
    pub fn quiet_from_ms(&self) -> u64 {
        self.faults.iter().filter_map(Fault::end_ms).max().unwrap_or(0)
    }
}
