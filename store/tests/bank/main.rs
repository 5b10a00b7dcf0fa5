//! The bank on disk, used through its public interface as a node uses it.

mod common;
mod damage;
mod kill;
mod model;
mod rate;
mod restore;
mod writing;
