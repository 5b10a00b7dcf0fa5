//! The folklore node.
pub mod api;
pub mod home;
pub mod http;
pub mod ticket;
