//! The Folklore node: the daemon and the `folklore` command.

pub mod formats;
pub mod network;
