//! Time as the protocol sees it: a number that comes in with every event.

use std::ops::{Add, Sub};

/// Milliseconds since an epoch of the caller's choice. Never read from a clock in here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Time(pub u64);

impl Add<u64> for Time {
    type Output = Self;

    fn add(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }
}

impl Sub for Time {
    type Output = u64;

    /// Milliseconds from `earlier` to `self`, 0 if there are none.
    fn sub(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
