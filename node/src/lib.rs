//! The folklore node.
