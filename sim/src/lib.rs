//! Folklore nodes on a virtual clock, network and disk, and experiments on them.
//!
//! The harness drives [`folklore_protocol::Node`] unchanged: peer choice, announce, reconcile, fetch and ask are the shipped
//! code. One seed decides everything, so a run that fails is a run that can be looked at again.

pub mod agents;
mod carrier;
pub mod checks;
pub mod clock;
mod connection;
pub mod disk;
pub mod experiment;
pub mod fact;
mod heap;
pub mod hostile;
pub mod library;
pub mod link;
pub mod measure;
pub mod observe;
pub mod plant;
pub mod real;
pub mod report;
pub mod results;
pub mod runner;
pub mod scenario;
pub mod seeds;
pub mod shrink;
mod step;
pub mod swarm;
pub mod world;

pub use checks::{Checks, Violation};
pub use disk::{Disk, DiskFaults};
pub use experiment::{RunEnd, RunError};
pub use fact::Fact;
pub use link::{Burst, Link, Links, Passage, Split};
pub use measure::{Meter, RunFigures};
pub use observe::{Class, LossCause, Observed, Observer};
pub use plant::Plant;
pub use results::Results;
pub use scenario::{Arm, Scenario, ScenarioError};
pub use world::{Counters, World, WorldConfig};
