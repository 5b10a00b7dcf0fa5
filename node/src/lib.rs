//! The folklore node.

pub mod formats;
