//! placeholder
pub mod redact;
