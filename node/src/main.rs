//! The folklore command.
fn main() {}
