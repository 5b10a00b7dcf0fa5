//! Fuzz targets: each takes any bytes and panics only where something in Folklore is wrong.
//!
//! The files of this crate's targets are also part of the ordinary tests (`protocol/tests/corpus.rs`,
//! `node/tests/corpus.rs`), which replay the corpus through the same functions.

#[cfg(feature = "node")]
pub mod node;
pub mod protocol;
