//! Clock comparison: the offset of an agent's monotonic clock from the conductor's, by exchange of
//! four timestamps.
//!
//! A request leaves at T1 and arrives at the agent's time T2; its answer leaves there at T3 and
//! arrives here at T4 (RFC 5905 clause 8). The threads that write and read the stream take these
//! times. `linerate_analysis::statistics` computes the offset of an exchange and its uncertainty.
//! Of several exchanges, the one with the shortest round trip is kept. A line through those of a
//! session gives the drift of the agent's clock. An agent in the same kernel and time namespace has
//! the conductor's clock, and nothing is estimated.

use linerate_analysis::statistics::{Course, Offset, course, exchange};
use linerate_model::{ClockExchange, Nanos};

use crate::wire::Message;

/// Offset of an agent's clock, with its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ClockEstimate {
    /// The agent's monotonic clock minus the conductor's at `at`, ns.
    pub(crate) offset_ns: i64,
    /// Half the round trip of the exchange without the time at the agent, ns. 0 if both have the
    /// same clock.
    pub(crate) uncertainty_ns: u64,
    /// Time of the estimate on the conductor's clock.
    pub(crate) at: Nanos,
    /// Drift of the agent's clock against the conductor's, ns per ns, and its uncertainty.
    pub(crate) gains: (f64, f64),
}

/// Largest drift between two estimates that is no jump: 200 parts per million, twice the worst
/// quartz.
const DRIFT_PPM: u64 = 200;
/// Largest change of the offset that is never reported, ns.
const JUMP_FLOOR_NS: u64 = 1_000_000;
/// Assumed bound of an unknown drift: quartz on a board, not disciplined (ns per ns).
const UNKNOWN_DRIFT: f64 = 50e-6;
/// Most exchanges that are kept for the line.
const MOST_KEPT: usize = 64;

impl ClockEstimate {
    /// Returns the estimate for the conductor's own clock.
    pub(crate) fn same(at: Nanos) -> Self {
        Self { offset_ns: 0, uncertainty_ns: 0, at, gains: (0.0, 0.0) }
    }

    /// Estimates the offset from `best`, and the drift from the `earlier` exchanges of the session.
    /// `None` if the four times are impossible.
    pub(crate) fn from_exchange(best: ClockExchange, earlier: &[Offset]) -> Option<Self> {
        let offset = offset_of(best)?;
        let ahead = |theirs: u64, ours: u64| i128::from(theirs) - i128::from(ours);
        // In 128 bits: clocks of two hosts may differ by more than half the range.
        let twice = ahead(best.arrived, best.sent) + ahead(best.answered, best.heard);
        Some(Self {
            offset_ns: (twice.div_euclid(2)) as i64,
            uncertainty_ns: offset.uncertainty.ceil() as u64,
            at: Nanos(best.sent + (best.heard - best.sent) / 2),
            gains: gains(earlier),
        })
    }

    /// Converts a time of the conductor's clock to the agent's.
    pub(crate) fn theirs(&self, ours: Nanos) -> u64 {
        ours.0.wrapping_add_signed(self.ahead(ours))
    }

    /// Converts a time of the agent's clock to the conductor's.
    pub(crate) fn ours(&self, theirs_ns: u64) -> Nanos {
        let about = Nanos(theirs_ns.wrapping_sub(self.offset_ns as u64));
        Nanos(theirs_ns.wrapping_sub(self.ahead(about) as u64))
    }

    /// Returns the agent's clock minus the conductor's at the conductor's time `ours`, ns.
    pub(crate) fn ahead(&self, ours: Nanos) -> i64 {
        let passed = ours.0 as i64 - self.at.0 as i64;
        self.offset_ns + (self.gains.0 * passed as f64).round() as i64
    }

    /// Returns the uncertainty of [`Self::ahead`] at `ours`, ns.
    pub(crate) fn doubt(&self, ours: Nanos) -> u64 {
        let passed = ours.0.abs_diff(self.at.0) as f64;
        self.uncertainty_ns + (self.gains.1 * passed).ceil() as u64
    }

    /// Returns the change of the offset since `earlier` if uncertainty and drift do not explain it,
    /// ns. Then a host was suspended, which stops its monotonic clock, or its clock is broken.
    pub(crate) fn jump_since(&self, earlier: &Self) -> Option<i64> {
        let change = self.offset_ns - earlier.offset_ns;
        let drift = self.at.since(earlier.at).0 / 1_000_000 * DRIFT_PPM;
        let explained = self.uncertainty_ns + earlier.uncertainty_ns + drift + JUMP_FLOOR_NS;
        (change.unsigned_abs() > explained).then_some(change)
    }
}

/// Returns the drift by the line through `earlier`, and its uncertainty: both ends of the line may
/// be as wrong as the worst of its points.
fn gains(earlier: &[Offset]) -> (f64, f64) {
    let span = earlier.last().zip(earlier.first()).map_or(0.0, |(last, first)| last.at - first.at);
    let known = course(earlier)
        .filter(|_| span > 0.0)
        .map(|line: Course| (line.skew, 2.0 * line.uncertainty() / span));
    known.filter(|(_, doubt)| *doubt < UNKNOWN_DRIFT).unwrap_or((0.0, UNKNOWN_DRIFT))
}

/// Returns the offset of one exchange.
pub(crate) fn offset_of(made: ClockExchange) -> Option<Offset> {
    exchange(made.sent, made.arrived, made.answered, made.heard)
}

/// Returns the exchange of `made` with the shortest round trip.
pub(crate) fn best(made: &[ClockExchange]) -> Option<ClockExchange> {
    let bound = |one: &ClockExchange| offset_of(*one).map(|offset| offset.uncertainty);
    let possible = made.iter().copied().filter_map(|one| Some((one, bound(&one)?)));
    possible.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(one, _)| one)
}

/// Halves the number of exchanges once there are too many. Keeps the better of each two neighbours.
pub(crate) fn thin(kept: &mut Vec<ClockExchange>) {
    if kept.len() > MOST_KEPT {
        *kept = kept.chunks(2).filter_map(best).collect();
    }
}

/// Writes the present time into a ping or a pong that is about to leave.
pub(crate) fn stamp(message: &mut Message, now: Nanos) {
    match message {
        Message::Ping { sent_ns, .. } => *sent_ns = now.0,
        Message::Pong { answered_ns, .. } => *answered_ns = now.0,
        _ => {}
    }
}

/// Reads this host's monotonic clock.
pub(crate) fn monotonic() -> Nanos {
    Nanos(linerate_sys::clock::monotonic())
}

/// Reads the wall clock, nanoseconds since the Unix epoch.
pub(crate) fn wall() -> Nanos {
    Nanos(linerate_sys::clock::realtime())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(sent: u64, arrived: u64, answered: u64, heard: u64) -> ClockExchange {
        ClockExchange { sent, arrived, answered, heard }
    }

    #[test]
    fn a_symmetric_exchange_gives_the_exact_offset_whatever_time_is_spent_there() {
        // The agent is 5000 ns ahead; 100 ns each way, 40 there.
        let estimate =
            ClockEstimate::from_exchange(made(1_000, 6_100, 6_140, 1_240), &[]).expect("possible");
        assert_eq!((estimate.offset_ns, estimate.uncertainty_ns), (5_000, 100));
        assert_eq!(estimate.theirs(Nanos(2_000)), 7_000);
        assert_eq!(estimate.ours(7_000), Nanos(2_000));
    }

    #[test]
    fn the_most_asymmetric_exchange_stays_within_the_uncertainty() {
        // True offset -1000; everything on the way out (T1 = 5000, answered at 5200 - 1000),
        // nothing on the way back.
        let estimate =
            ClockEstimate::from_exchange(made(5_000, 4_200, 4_200, 5_200), &[]).expect("possible");
        assert!((estimate.offset_ns - -1_000).unsigned_abs() <= estimate.uncertainty_ns);
    }

    #[test]
    fn a_suspended_agent_shows_as_a_jump_and_drift_does_not() {
        let at = |offset_ns, seconds| ClockEstimate {
            offset_ns,
            uncertainty_ns: 50_000,
            at: Nanos::from_secs(seconds),
            gains: (0.0, 0.0),
        };
        assert_eq!(at(-3_000_000_000, 60).jump_since(&at(0, 0)), Some(-3_000_000_000));
        // 100 ppm over 100 s is 10 ms.
        assert_eq!(at(10_000_000, 100).jump_since(&at(0, 0)), None);
    }

    #[test]
    fn drift_is_estimated_once_it_exceeds_the_uncertainty_of_the_exchanges() {
        // 20 ppm, exchanges every 10 s that are off by at most 100 us.
        let earlier = |n: u32| -> Vec<Offset> {
            let of = |i: u32| Offset {
                at: f64::from(i) * 1e10,
                offset: f64::from(i) * 2e5,
                uncertainty: 1e5,
            };
            (0..n).map(of).collect()
        };
        let after = |n| {
            ClockEstimate::from_exchange(made(0, 0, 0, 200_000), &earlier(n))
                .expect("possible")
                .gains
        };
        assert_eq!(after(1), (0.0, UNKNOWN_DRIFT));
        let (gains, doubt) = after(31);
        assert!((gains - 20e-6).abs() < 1e-9 && doubt < 1e-6, "{gains} {doubt}");
    }

    #[test]
    fn too_many_exchanges_are_thinned_to_the_better_ones() {
        let mut kept: Vec<ClockExchange> =
            (0..65).map(|i| made(i * 1_000, 0, 0, i * 1_000 + 10 + i % 2)).collect();
        thin(&mut kept);
        assert_eq!(kept.len(), 33);
        assert!(kept.iter().all(|one| one.heard - one.sent == 10));
    }
}
