//! Fuzz targets: each takes any bytes and panics only where something in Folklore is wrong.
//!
//! The files of this crate's targets are also part of the ordinary tests (`tests/corpus.rs` of `protocol`,
//! `store` and `node`), which replay the corpus through the same functions.

#[cfg(feature = "node")]
pub mod node;
pub mod protocol;
#[cfg(feature = "store")]
pub mod store;
