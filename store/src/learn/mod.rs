//! Induction without an LLM: what the steps of finished runs teach, word for word.

pub mod moves;
mod verdict;

pub use verdict::{Comparison, Difference, compare, explain_verdict};
