//! How some lessons went from node to node, for a space-time diagram.

use serde::{Deserialize, Serialize};

use super::{Phase, Phases};
use crate::observe::Observed;

/// Lessons followed in each phase.
const FOLLOWED_PER_PHASE: usize = 6;
/// Most steps kept for one run: what a diagram can show.
const MAX_STEPS: usize = 4_000;

/// Paths of a few lessons.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Paths {
    /// The lessons followed, in the order they were taught.
    pub lessons: Vec<Taught>,
    /// Their steps from node to node, in the order of time.
    pub steps: Vec<Step>,
}

/// Follows a few lessons of each phase.
#[derive(Debug)]
pub(super) struct Following {
    phases: Phases,
    followed: [usize; 3],
    pub paths: Paths,
}

/// A lesson that is followed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Taught {
    /// Its record.
    pub record: u64,
    /// By which node.
    pub node: usize,
    /// When, milliseconds.
    pub at_ms: u64,
}

/// A step of a lesson.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Its record.
    pub record: u64,
    /// From which node; `None` from a copy of its own disk.
    pub from: Option<usize>,
    /// To which.
    pub to: usize,
    /// When it was durable there, milliseconds.
    pub at_ms: u64,
}

impl Following {
    pub(super) fn new(phases: Phases) -> Self {
        Self { phases, followed: [0; 3], paths: Paths::default() }
    }

    pub(super) fn see(&mut self, at_ms: u64, what: &Observed) {
        match *what {
            Observed::Taught { node, record, family: Some(_), .. } => {
                // Where nothing is cut, all of the run counts as before.
                let uncut = self.phases.heal_ms().is_none();
                let phase = if uncut { Some(Phase::Before) } else { self.phases.at(at_ms) };
                let Some(followed) = phase.and_then(|phase| self.followed.get_mut(phase as usize)) else { return };
                if *followed < FOLLOWED_PER_PHASE {
                    *followed += 1;
                    self.paths.lessons.push(Taught { record, node, at_ms });
                }
            }
            Observed::Stored { node, record, from, .. } => {
                let Paths { lessons, steps } = &mut self.paths;
                if steps.len() < MAX_STEPS && lessons.iter().any(|lesson| lesson.record == record) {
                    steps.push(Step { record, from, to: node, at_ms });
                }
            }
            _ => {}
        }
    }
}
