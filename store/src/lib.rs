//! The Folklore bank on disk, and recall over it.
pub mod bank;
pub mod error;
pub mod frame;
pub mod recover;
pub mod runs;
