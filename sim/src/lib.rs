//! Folklore nodes on a virtual clock, network and disk.
//!
//! The harness drives [`folklore_protocol::Node`] unchanged: peer choice, announce, reconcile, fetch and ask are the shipped
//! code. One seed decides everything, so a run that fails is a run that can be looked at again.

pub mod checks;
pub mod disk;
pub mod link;
pub mod measure;
pub mod observe;
pub mod plant;
pub mod report;
pub mod results;
pub mod runner;
pub mod scenario;
pub mod shrink;
pub mod swarm;
pub mod world;

pub use checks::{Checks, Violation};
pub use disk::{Disk, DiskFaults};
pub use link::{Link, Links};
pub use measure::{Meter, RunFigures};
pub use observe::{Class, LossCause, Observed, Observer};
pub use plant::Plant;
pub use results::Results;
pub use scenario::{Arm, Scenario, ScenarioError};
pub use world::{Counters, World, WorldConfig};
