//! The Folklore bank on disk, redaction, induction without an LLM, and recall.

pub mod learn;
pub mod run;
