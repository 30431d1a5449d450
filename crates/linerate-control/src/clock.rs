//! How late it is elsewhere: offset of an agent's monotonic clock from the conductor's, by exchange of messages.
//!
//! A request leaves at t0, is answered at the agent's time c, and the answer arrives at t3 (all ns). Then the agent's
//! clock is ahead by `c - (t0 + t3) / 2`, at most `(t3 - t0) / 2` off, whatever the asymmetry of the path (Cristian 1989;
//! NTP, RFC 5905 clause 8, calls the same bound half the root delay). Of several exchanges the one with the shortest
//! round trip is kept. What it does not see: within the bound, nothing; a drift between two estimates.

use linerate_model::Nanos;

/// How far an agent's clock is ahead of ours, and how sure that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockEstimate {
    /// Agent's monotonic clock minus ours, ns.
    pub(crate) offset_ns: i64,
    /// Half the round trip it comes from, ns.
    pub(crate) uncertainty_ns: u64,
    /// When it was made, on our clock.
    pub(crate) at: Nanos,
}

/// Drift allowed between two estimates: 200 parts per million, the worst of quartz twice over.
const DRIFT_PPM: u64 = 200;
/// Change of the offset that is never worth a word, ns.
const JUMP_FLOOR_NS: u64 = 1_000_000;

impl ClockEstimate {
    /// From one exchange: asked at `sent`, answered at `clock_ns` there, heard at `heard`.
    pub(crate) fn from_exchange(sent: Nanos, clock_ns: u64, heard: Nanos) -> Self {
        let round_trip = heard.since(sent).0;
        let middle = sent.0 + round_trip / 2;
        Self { offset_ns: clock_ns.wrapping_sub(middle) as i64, uncertainty_ns: round_trip.div_ceil(2), at: heard }
    }

    /// The agent's clock at `ours`.
    pub(crate) fn theirs(&self, ours: Nanos) -> u64 {
        ours.0.wrapping_add_signed(self.offset_ns)
    }

    /// Our clock when the agent's shows `theirs_ns`.
    pub(crate) fn ours(&self, theirs_ns: u64) -> Nanos {
        Nanos(theirs_ns.wrapping_sub(self.offset_ns as u64))
    }

    /// By how much the offset changed since `earlier` beyond what uncertainty and drift explain, ns: a host that was
    /// suspended (its monotonic clock stands still), or a clock that is not one.
    pub(crate) fn jump_since(&self, earlier: &Self) -> Option<i64> {
        let change = self.offset_ns - earlier.offset_ns;
        let drift = self.at.since(earlier.at).0 / 1_000_000 * DRIFT_PPM;
        let explained = self.uncertainty_ns + earlier.uncertainty_ns + drift + JUMP_FLOOR_NS;
        (change.unsigned_abs() > explained).then_some(change)
    }
}

/// This host's monotonic clock.
pub(crate) fn monotonic() -> Nanos {
    Nanos(linerate_sys::clock::monotonic())
}

/// The wall clock, nanoseconds since the Unix epoch.
pub(crate) fn wall() -> Nanos {
    Nanos(linerate_sys::clock::realtime())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symmetric_exchange_gives_the_exact_offset() {
        // The agent is 5000 ns ahead; 100 ns each way.
        let estimate = ClockEstimate::from_exchange(Nanos(1_000), 6_100, Nanos(1_200));
        assert_eq!((estimate.offset_ns, estimate.uncertainty_ns), (5_000, 100));
        assert_eq!(estimate.theirs(Nanos(2_000)), 7_000);
        assert_eq!(estimate.ours(7_000), Nanos(2_000));
    }

    #[test]
    fn the_most_asymmetric_exchange_stays_within_the_uncertainty() {
        // True offset -1000; everything on the way out (t0 = 5000, answered at 5200 - 1000), nothing on the way back.
        let estimate = ClockEstimate::from_exchange(Nanos(5_000), 4_200, Nanos(5_200));
        assert!((estimate.offset_ns - -1_000).unsigned_abs() <= estimate.uncertainty_ns);
    }

    #[test]
    fn a_suspended_agent_shows_as_a_jump_and_drift_does_not() {
        let at =
            |offset_ns, seconds| ClockEstimate { offset_ns, uncertainty_ns: 50_000, at: Nanos::from_secs(seconds) };
        assert_eq!(at(-3_000_000_000, 60).jump_since(&at(0, 0)), Some(-3_000_000_000));
        // 100 ppm over 100 s is 10 ms.
        assert_eq!(at(10_000_000, 100).jump_since(&at(0, 0)), None);
    }
}
