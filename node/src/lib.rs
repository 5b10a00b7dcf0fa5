//! The Folklore node: the daemon and the `folklore` command.

pub mod api;
pub mod cli;
pub mod daemon;
pub mod demo;
pub mod embedding;
pub mod engine;
pub mod formats;
pub mod home;
pub mod http;
pub mod induction;
pub mod memory;
pub mod metrics;
pub mod network;
pub mod service;
pub mod settings;
pub mod ticket;
