//! Whole-system tests on real processes: what a user sees, from outside.
//!
//! Nothing here links the project's code. A test makes homes in temporary directories, starts `folklore up` on them,
//! talks to them through the command or the HTTP door, kills them, cuts their links, and looks at what is left. Every
//! process that a test starts ends with it, every wait has a bound and waits for something observed, and everything stays
//! on loopback.
//!
//! - [`node`]: a home and the daemon on it · [`command`]: one call of `folklore` · [`door`]: the HTTP door without the client
//! - [`relay`]: a link that can be cut, frozen and overheard · [`trace`]: what `strace` saw · [`inside`]: a test run again without a network or
//!   with a small disk
//! - [`inputs`]: lessons and run files made up for the tests, the shared data · [`files`]: copying and searching directories
//! - [`model`]: a chat model that can be away
//! - [`program`]: finds the program, and builds it when it is absent or stale · [`wait`]: bounded waiting
//!
//! The helpers panic when something is not as it must be: in a test that is the report.

pub mod command;
pub mod door;
pub mod figures;
pub mod files;
pub mod inputs;
pub mod inside;
pub mod model;
pub mod node;
pub mod program;
pub mod relay;
pub mod trace;
pub mod wait;

pub use command::{Ran, folklore};
pub use node::Node;
pub use relay::{Link, Relay};
pub use wait::{PATIENCE, until};
