//! The folklore node.

pub mod network;
