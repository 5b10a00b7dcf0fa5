//! Waiting for something observed, for a bounded time.

use std::{
    thread,
    time::{Duration, Instant},
};

/// How long anything may take to come about. Two cores under a debug build and other tests are slow; nothing that works
/// comes near this.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// How often a condition is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// Looks until there is something to see and returns it.
///
/// # Panics
/// When it does not come within `patience`; `what` says what was waited for.
#[track_caller]
pub fn until<T>(what: &str, patience: Duration, look: impl FnMut() -> Option<T>) -> T {
    within(patience, look).unwrap_or_else(|| panic!("waited {patience:?} in vain: {what}"))
}

/// The same, for those who have more to say when it does not come.
pub fn within<T>(patience: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(seen) = look() {
            return Some(seen);
        }
        if Instant::now() >= deadline {
            return None;
        }
        thread::sleep(LOOK_EVERY);
    }
}
