//! The Folklore bank on disk, redaction, induction without an LLM, and recall.

pub mod embed;
pub mod index;
pub mod recall;
pub mod redact;
