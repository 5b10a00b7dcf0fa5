//! The folklore node.
pub mod api;
