//! The Folklore bank on disk, redaction, induction without an LLM, and recall.

pub mod bank;
pub mod catalogue;
pub mod embed;
pub mod error;
pub mod eval;
#[doc(hidden)]
pub mod files;
pub mod frame;
pub mod index;
pub mod jobs;
pub mod learn;
mod raw;
pub mod recall;
pub mod recover;
pub mod redact;
pub mod run;
pub mod runs;
mod sections;
