//! The bank on disk, used through its public interface as a node uses it.

mod common;
mod damage;
mod faults;
mod forget;
mod kill;
mod logs;
mod made;
mod model;
mod restore;
mod upkeep;
mod writing;
