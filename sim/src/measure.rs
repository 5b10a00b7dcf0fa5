//! What a run comes to: figures, curves over time and the paths of some lessons, made of nothing but what was
//! [`Observed`].
//!
//! Memory does not grow with the length of a run: what is kept is one entry a record, one bit a node and record, one entry a
//! family and site, and curves of at most [`MAX_STEPS`] steps.

pub mod attempts;
pub mod figures;
pub mod healing;
pub mod histogram;
pub mod holding;
pub mod paths;
pub mod stats;
pub mod summary;
pub mod traffic;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    observe::{Observed, Observer},
    scenario::{Arm, Scenario},
};
use attempts::Attempts;
use healing::Healing;
use holding::Holding;
use paths::{Following, Paths};
use traffic::Traffic;

/// Most steps of a curve; a finer `step` is made coarser.
pub const MAX_STEPS: u64 = 2_000;

/// The phases of a run: before, during and after its cuts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Until the first cut.
    Before,
    /// From the first cut until the last heals.
    During,
    /// For a while after that.
    After,
}

impl Phase {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Before, Self::During, Self::After];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::During => "during",
            Self::After => "after",
        }
    }
}

/// When the phases are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phases {
    during: Option<(u64, u64)>,
    after_ms: u64,
}

impl Phases {
    /// Of a scenario.
    pub fn of(scenario: &Scenario) -> Self {
        Self { during: scenario.during(), after_ms: scenario.measure.after_ms }
    }

    /// The phase at a time, milliseconds; `None` when the one after is over, or where nothing is ever cut.
    pub fn at(&self, at_ms: u64) -> Option<Phase> {
        let (begin, end) = self.during?;
        match at_ms {
            at if at < begin => Some(Phase::Before),
            at if at < end => Some(Phase::During),
            at if at < end + self.after_ms => Some(Phase::After),
            _ => None,
        }
    }

    /// When the cuts begin, milliseconds.
    pub fn begin_ms(&self) -> Option<u64> {
        self.during.map(|(begin, _)| begin)
    }

    /// When they have healed, milliseconds.
    pub fn heal_ms(&self) -> Option<u64> {
        self.during.map(|(_, end)| end)
    }
}

/// What one run came to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunFigures {
    /// Figures by name, those that this run has; see [`figures`].
    pub figures: BTreeMap<String, f64>,
    /// Curves by name.
    pub curves: BTreeMap<String, Curve>,
    /// Paths of some lessons, for a space-time diagram.
    pub paths: Paths,
    /// When faults began and ended, milliseconds: the fault's place in the scenario, and whether it began.
    pub faults: Vec<(u64, usize, bool)>,
}

/// Values over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Times, milliseconds, ascending. Of a curve over steps, where each step ends.
    pub at_ms: Vec<u64>,
    /// The value at each; `None` where there is none.
    pub values: Vec<Option<f64>>,
}

/// Watches one run.
#[derive(Debug)]
pub struct Meter {
    arm: Arm,
    attempts: Attempts,
    holding: Holding,
    healing: Healing,
    traffic: Traffic,
    following: Following,
    faults: Vec<(u64, usize, bool)>,
    converged: bool,
    /// When equal roots were first seen after the heal, or the heal if they were equal then.
    equal_ms: Option<u64>,
    heal_ms: Option<u64>,
    healed: bool,
    end_ms: u64,
}

impl Meter {
    /// Before the run.
    pub fn new(scenario: &Scenario, arm: Arm) -> Self {
        let phases = Phases::of(scenario);
        let whole = scenario.run.duration_ms + scenario.run.settle_ms;
        let step_ms = scenario.measure.step_ms.max(whole.div_ceil(MAX_STEPS));
        Self {
            arm,
            attempts: Attempts::new(scenario, phases, step_ms),
            holding: Holding::new(scenario, step_ms),
            healing: Healing::new(phases.heal_ms()),
            traffic: Traffic::default(),
            following: Following::new(phases),
            faults: Vec::new(),
            converged: false,
            equal_ms: None,
            heal_ms: phases.heal_ms(),
            healed: false,
            end_ms: whole,
        }
    }

    /// The time up to which everything was seen, if it is not the whole run (a run that was broken off).
    pub fn ended_at(&mut self, at_ms: u64) {
        self.end_ms = at_ms;
    }

    /// Whether the honest nodes held the same when it was last looked.
    pub fn converged(&self) -> bool {
        self.converged
    }

    fn advance(&mut self, at_ms: u64) {
        self.holding.advance(at_ms);
        self.healing.advance(at_ms, &self.holding);
        if !self.healed && self.heal_ms.is_some_and(|heal| at_ms >= heal) {
            self.healed = true;
            self.equal_ms = self.heal_ms.filter(|_| self.converged);
        }
    }

    /// What it came to.
    pub fn finish(mut self) -> RunFigures {
        self.advance(self.end_ms);
        let mut run = RunFigures { paths: self.following.paths, faults: self.faults, ..RunFigures::default() };
        self.attempts.report(&mut run);
        // Where nothing travels between nodes there is nothing to say of how it does.
        if matches!(self.arm, Arm::Folklore | Arm::Isolated | Arm::Real) {
            self.holding.report(&mut run);
            self.healing.report(&mut run);
        }
        // What goes between processes is encrypted: how much it was is told by who carried it, what it was by nobody.
        if self.arm != Arm::Real {
            self.traffic.report(&mut run, self.holding.taught(), self.holding.delivered());
        }
        if let (Arm::Folklore | Arm::Real, Some(heal)) = (self.arm, self.heal_ms) {
            let after = self.equal_ms.map(|at| at.saturating_sub(heal) as f64 / 1000.0);
            run.figures.extend(after.map(|seconds| ("converge.equal_s".to_string(), seconds)));
        }
        run
    }
}

impl Observer for Meter {
    fn see(&mut self, at_ms: u64, what: Observed) {
        self.advance(at_ms);
        match what {
            Observed::Sent { .. } | Observed::Lost { .. } | Observed::Duplicate { .. } => self.traffic.see(&what),
            Observed::FaultBegan { fault } => self.faults.push((at_ms, fault, true)),
            Observed::FaultEnded { fault } => self.faults.push((at_ms, fault, false)),
            Observed::Converged => {
                self.converged = true;
                if self.healed {
                    self.equal_ms.get_or_insert(at_ms);
                }
            }
            Observed::Diverged => self.converged = false,
            _ => {
                self.attempts.see(at_ms, &what, &self.holding);
                self.following.see(at_ms, &what);
                let change = self.holding.see(at_ms, &what);
                self.healing.see(at_ms, &what, change, &self.holding);
            }
        }
    }
}
