//! A worker's counters and histograms while it steps.

use linerate_model::{Counter, Counters};

use crate::Histogram;

/// What a worker counts into. All of it is allocated before the measure phase.
#[derive(Debug, Default)]
pub struct Tally {
    /// Counters, monotone over the trial.
    pub counters: Counters,
    /// Service times of this interval, ns; emptied when the interval is cut.
    pub service: Histogram,
    /// Response times of this interval, ns.
    pub response: Histogram,
    /// Departure gaps of this interval, ns.
    pub gap: Histogram,
}

impl Tally {
    /// Adds `n` to `counter`.
    #[inline]
    pub fn add(&mut self, counter: Counter, n: u64) {
        self.counters[counter] = self.counters[counter].wrapping_add(n);
    }
}
