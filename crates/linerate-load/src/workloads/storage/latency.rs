//! Search for the greatest depth within a latency target, window by window while the load runs.
//!
//! The depth doubles from 1 until a window misses the target. Then the search halves the distance
//! between the greatest depth that met the target and the least that missed it. The depth found
//! stays; a window that misses the target later starts the search again below it. A window counts
//! only the transfers that were started in it.

use linerate_model::Nanos;

/// Latency target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Target {
    /// Longest time of a transfer.
    pub(super) latency: Nanos,
    /// Share of transfers that may take longer.
    pub(super) misses: f64,
    /// Trial time of each depth.
    pub(super) window: Nanos,
}

/// Search of one worker.
#[derive(Clone, Debug)]
pub(super) struct DepthSearch {
    target: Target,
    /// Greatest depth that met the target, or 0; and least depth that missed it, or one more than
    /// `most`.
    between: (u32, u32),
    most: u32,
    depth: u32,
    window_from: Nanos,
    n: u64,
    missed: u64,
    windows: u32,
}

impl DepthSearch {
    /// A search up to the depth `most`.
    pub(super) fn new(target: Target, most: u32) -> Self {
        Self {
            target,
            between: (0, most + 1),
            most,
            depth: 1,
            window_from: Nanos(0),
            n: 0,
            missed: 0,
            windows: 0,
        }
    }

    /// Returns how many transfers may be in flight at `now`.
    #[inline]
    pub(super) fn depth(&mut self, now: Nanos) -> u32 {
        if self.window_from == Nanos(0) {
            self.window_from = now;
        }
        if now.since(self.window_from) >= self.target.window && self.n > 0 {
            self.judge();
            (self.window_from, self.n, self.missed) = (now, 0, 0);
        }
        self.depth
    }

    /// Counts a transfer that began at `started` and took `took`.
    #[inline]
    pub(super) fn ended(&mut self, started: Nanos, took: Nanos) {
        if started >= self.window_from {
            self.n += 1;
            self.missed += u64::from(took > self.target.latency);
        }
    }

    fn judge(&mut self) {
        self.windows += 1;
        let keeps = self.missed as f64 <= self.target.misses * self.n as f64;
        let (low, high) = self.between;
        let is_found = low > 0 && low + 1 == high;
        self.between = match keeps {
            true if is_found => return,
            true => (self.depth, high.max(self.depth + 1)),
            false if is_found => (0, self.depth),
            false => (low.min(self.depth - 1), self.depth),
        };
        let (low, high) = self.between;
        let is_unbounded = high > self.most;
        self.depth = match low {
            _ if low + 1 >= high => low.max(1),
            0 if !is_unbounded => (high / 2).max(1),
            _ if is_unbounded => (low * 2).min(self.most),
            _ => low + (high - low) / 2,
        };
    }

    /// Describes the outcome for reports.
    pub(super) fn outcome(&self) -> String {
        let (low, high) = self.between;
        let found = match (low, high) {
            (0, 1) => "not even depth 1".to_owned(),
            (low, high) if low > 0 && low + 1 == high => format!("depth {low}"),
            (low, high) => format!("not found yet: between {low} and {high}"),
        };
        format!(
            "{found}, at most {} were allowed: {} % of the transfers within {} ms in each window \
                of {} ms ({} windows)",
            self.most,
            (1.0 - self.target.misses) * 100.0,
            self.target.latency.as_secs_f64() * 1e3,
            self.target.window.as_secs_f64() * 1e3,
            self.windows
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Target = Target { latency: Nanos(1_000), misses: 0.1, window: Nanos(10_000) };

    /// Runs `n` windows on a device whose transfers take `each_ns` per transfer in flight. Returns
    /// the depths.
    fn depths(search: &mut DepthSearch, each_ns: u64, from: u64, n: u64) -> Vec<u32> {
        let window = |number| {
            let now = Nanos(1 + (from + number) * 10_000);
            let depth = search.depth(now);
            (0..20).for_each(|_| search.ended(now, Nanos(each_ns * u64::from(depth))));
            // One in twenty is very slow: fewer than the target permits.
            search.ended(now, Nanos(1_000_000));
            depth
        };
        (0..n).map(window).collect()
    }

    #[test]
    fn the_greatest_depth_within_the_target_is_found_and_kept() {
        let mut search = DepthSearch::new(TARGET, 128);
        assert_eq!(depths(&mut search, 50, 0, 12), [1, 2, 4, 8, 16, 32, 24, 20, 22, 21, 20, 20]);
        assert!(search.outcome().starts_with("depth 20, at most 128"), "{}", search.outcome());
        // The device becomes slower: depth 10 is too much now.
        let after = depths(&mut search, 110, 12, 12);
        assert_eq!(after.last(), Some(&9), "{after:?}");
    }

    #[test]
    fn a_fast_device_gets_the_greatest_depth_and_a_slow_one_depth_one() {
        let mut search = DepthSearch::new(TARGET, 24);
        assert_eq!(depths(&mut search, 1, 0, 7), [1, 2, 4, 8, 16, 24, 24]);
        assert!(search.outcome().starts_with("depth 24"), "{}", search.outcome());
        let mut search = DepthSearch::new(TARGET, 24);
        assert_eq!(depths(&mut search, 5_000, 0, 3), [1, 1, 1]);
        assert!(search.outcome().starts_with("not even depth 1"), "{}", search.outcome());
    }

    #[test]
    fn a_transfer_of_an_earlier_window_does_not_count() {
        let mut search = DepthSearch::new(TARGET, 8);
        assert_eq!(search.depth(Nanos(1)), 1);
        search.ended(Nanos(1), Nanos(10));
        assert_eq!(search.depth(Nanos(10_001)), 2);
        search.ended(Nanos(9_000), Nanos(99_999));
        search.ended(Nanos(10_001), Nanos(10));
        assert_eq!(search.depth(Nanos(20_001)), 4, "the slow one began at another depth");
    }
}
