//! The Folklore bank on disk, redaction, induction without an LLM, and recall.

pub mod embed;
pub mod index;
pub mod learn;
pub mod recall;
pub mod redact;
pub mod run;
