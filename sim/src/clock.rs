//! A node's own clock: true time, set wrong and running wrong.

/// Turns true milliseconds into those that a node sees, and back. What a node sees never runs backwards.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Clock {
    /// Added to true time, milliseconds.
    skew_ms: i64,
    /// Runs this much too fast, parts per million.
    drift_ppm: i64,
    /// Since when it drifts.
    since_ms: u64,
    latest_ms: u64,
}

impl Clock {
    /// What the node sees at a true time.
    pub fn local(&mut self, true_ms: u64) -> u64 {
        self.latest_ms = self.latest_ms.max(self.shows(true_ms));
        self.latest_ms
    }

    fn shows(&self, true_ms: u64) -> u64 {
        if self.skew_ms == 0 && self.drift_ppm == 0 {
            return true_ms;
        }
        let run_ms = i128::from(true_ms.saturating_sub(self.since_ms));
        let drifted = run_ms * i128::from(self.drift_ppm) / 1_000_000;
        let shown = i128::from(true_ms) + i128::from(self.skew_ms) + drifted;
        u64::try_from(shown.max(0)).unwrap_or(u64::MAX)
    }

    /// The first true time, not before `now_ms`, at which it shows `local_ms`.
    pub fn true_at(&self, local_ms: u64, now_ms: u64) -> u64 {
        if self.skew_ms == 0 && self.drift_ppm == 0 {
            return local_ms.max(now_ms);
        }
        let mut at = now_ms;
        // A clock is off by far less than it runs, so this closes in quickly; the last step is exact.
        while self.shows(at) < local_ms {
            let lacks = local_ms - self.shows(at);
            at += (lacks * 1_000_000 / (1_000_000 + self.drift_ppm.max(0) as u64)).max(1);
        }
        at
    }

    /// Sets it wrong by `skew_ms` from now on, running `drift_ppm` too fast. Both 0: it is right again, unless it was fast:
    /// a daemon counts the time that passes since its start, so its clock keeps what it is ahead and goes on from there.
    pub fn set_wrong(&mut self, now_ms: u64, skew_ms: i64, drift_ppm: i64) {
        let before = self.local(now_ms);
        // Half speed at most: time must go on.
        (self.skew_ms, self.drift_ppm, self.since_ms) = (skew_ms, drift_ppm.clamp(-500_000, 1_000_000), now_ms);
        self.skew_ms += i64::try_from(before.saturating_sub(self.shows(now_ms))).unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_back_goes_on_from_where_it_was() {
        let mut clock = Clock::default();
        clock.set_wrong(10_000, 3_600_000, 0);
        assert_eq!(clock.local(20_000), 3_620_000);
        clock.set_wrong(20_000, 0, 0);
        assert_eq!(clock.local(21_000), 3_621_000, "it stood still");
        assert_eq!(clock.true_at(3_626_000, 21_000), 26_000);
        // And one that was slow is right again.
        let mut clock = Clock::default();
        clock.set_wrong(10_000, -5_000, 0);
        clock.set_wrong(30_000, 0, 0);
        assert_eq!(clock.local(31_000), 31_000);
    }

    #[test]
    fn a_wrong_clock_never_runs_backwards_and_a_deadline_on_it_comes() {
        for (skew, drift) in [(0, 0), (5_000, 200), (-60_000, -300), (0, 100_000), (3_600_000, -400_000)] {
            let mut clock = Clock::default();
            assert_eq!(clock.local(100_000), 100_000);
            clock.set_wrong(100_000, skew, drift);
            let mut last = 0;
            for now in (100_000..400_000).step_by(777) {
                let seen = clock.local(now);
                assert!(seen >= last);
                last = seen;
                let at = clock.true_at(seen + 15_000, now);
                assert!(clock.shows(at) >= seen + 15_000 && (at == now || clock.shows(at - 1) < seen + 15_000));
            }
            clock.set_wrong(400_000, 0, 0);
            assert!(clock.local(400_001) >= last);
        }
    }
}
