//! `[expect]`: what must come of a run for it to pass.

use super::Arm;

/// What must come of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Expect {
    /// Whether the honest nodes of the Folklore arm must hold the same at the end. Required unless a file says otherwise.
    pub convergence: bool,
    /// How long after the last fault that may take, milliseconds; `None` for until the end of the run.
    pub converge_within_ms: Option<u64>,
    /// Bounds on figures.
    pub bounds: Vec<Bound>,
}

impl Default for Expect {
    fn default() -> Self {
        Self { convergence: true, converge_within_ms: None, bounds: Vec::new() }
    }
}

/// A bound on the mean of a figure over the seeds. Of a bound that names another arm, it is the ratio to that arm's mean
/// which is bounded.
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    /// The figure's name, as reports give it.
    pub figure: String,
    /// In this arm.
    pub arm: Arm,
    /// Divided by the figure of that arm.
    pub of: Option<Arm>,
    /// Not below this.
    pub at_least: Option<f64>,
    /// Not above this.
    pub at_most: Option<f64>,
    /// Whether the whole 95 % interval must be within, and not the mean alone.
    pub interval: bool,
}
