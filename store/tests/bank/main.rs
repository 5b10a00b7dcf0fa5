//! The bank on disk, used through its public interface as a node uses it.

mod common;
mod writing;
