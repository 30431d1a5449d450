//! How late it is elsewhere: offset of an agent's monotonic clock from the conductor's, by exchange
//! of four timestamps.
//!
//! A request leaves at T1, arrives at the agent's time T2, its answer leaves there at T3 and is
//! heard here at T4 (RFC 5905 clause 8); each is stamped by the thread that writes or reads the
//! stream. What an exchange tells, and how well, is arithmetic of `linerate_analysis::statistics`.
//! Of several exchanges the one with the shortest round trip is kept; through those of a session a
//! line says what the agent's clock gains. An agent in the same kernel and time namespace has our
//! clock: nothing is estimated.

use linerate_analysis::statistics::{Course, Offset, course, exchange};
use linerate_model::{ClockExchange, Nanos};

use crate::wire::Message;

/// How far an agent's clock is ahead of ours, and how sure that is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ClockEstimate {
    /// Agent's monotonic clock minus ours at `at`, ns.
    pub(crate) offset_ns: i64,
    /// Half the round trip it comes from less the time spent there, ns; 0 if the agent has our
    /// clock.
    pub(crate) uncertainty_ns: u64,
    /// When it was made, on our clock.
    pub(crate) at: Nanos,
    /// What the agent's clock gains on ours, ns per ns, and how far that may be off.
    pub(crate) gains: (f64, f64),
}

/// Drift allowed between two estimates: 200 parts per million, the worst of quartz twice over.
const DRIFT_PPM: u64 = 200;
/// Change of the offset that is never worth a word, ns.
const JUMP_FLOOR_NS: u64 = 1_000_000;
/// Between hosts nothing is known of, clocks drift by no more than this: quartz on a board, not
/// disciplined (parts in a whole).
const UNKNOWN_DRIFT: f64 = 50e-6;
/// Exchanges kept through which the line is drawn.
const MOST_KEPT: usize = 64;

impl ClockEstimate {
    /// A clock that is ours.
    pub(crate) fn same(at: Nanos) -> Self {
        Self { offset_ns: 0, uncertainty_ns: 0, at, gains: (0.0, 0.0) }
    }

    /// From `best`, with the line through the `earlier` ones of the session; `None` if the four
    /// stamps cannot be.
    pub(crate) fn from_exchange(best: ClockExchange, earlier: &[Offset]) -> Option<Self> {
        let offset = offset_of(best)?;
        let ahead = |theirs: u64, ours: u64| i128::from(theirs) - i128::from(ours);
        let twice = ahead(best.arrived, best.sent) + ahead(best.answered, best.heard);
        Some(Self {
            offset_ns: (twice.div_euclid(2)) as i64,
            uncertainty_ns: offset.uncertainty.ceil() as u64,
            at: Nanos(best.sent + (best.heard - best.sent) / 2),
            gains: gains(earlier),
        })
    }

    /// The agent's clock at `ours`.
    pub(crate) fn theirs(&self, ours: Nanos) -> u64 {
        ours.0.wrapping_add_signed(self.ahead(ours))
    }

    /// Our clock when the agent's shows `theirs_ns`.
    pub(crate) fn ours(&self, theirs_ns: u64) -> Nanos {
        let about = Nanos(theirs_ns.wrapping_sub(self.offset_ns as u64));
        Nanos(theirs_ns.wrapping_sub(self.ahead(about) as u64))
    }

    /// How far the agent's is ahead at `ours`, ns.
    pub(crate) fn ahead(&self, ours: Nanos) -> i64 {
        let passed = ours.0 as i64 - self.at.0 as i64;
        self.offset_ns + (self.gains.0 * passed as f64).round() as i64
    }

    /// How far [`Self::ahead`] may be off at `ours`, ns.
    pub(crate) fn doubt(&self, ours: Nanos) -> u64 {
        let passed = ours.0.abs_diff(self.at.0) as f64;
        self.uncertainty_ns + (self.gains.1 * passed).ceil() as u64
    }

    /// By how much the offset changed since `earlier` beyond what uncertainty and drift explain,
    /// ns: a host that was suspended (its monotonic clock stands still), or a clock that is not
    /// one.
    pub(crate) fn jump_since(&self, earlier: &Self) -> Option<i64> {
        let change = self.offset_ns - earlier.offset_ns;
        let drift = self.at.since(earlier.at).0 / 1_000_000 * DRIFT_PPM;
        let explained = self.uncertainty_ns + earlier.uncertainty_ns + drift + JUMP_FLOOR_NS;
        (change.unsigned_abs() > explained).then_some(change)
    }
}

/// What the clock gains by the line through `earlier`, and how far that may be off: both ends of
/// the line may be as wrong as the worst of its points.
fn gains(earlier: &[Offset]) -> (f64, f64) {
    let span = earlier.last().zip(earlier.first()).map_or(0.0, |(last, first)| last.at - first.at);
    let known = course(earlier)
        .filter(|_| span > 0.0)
        .map(|line: Course| (line.skew, 2.0 * line.uncertainty() / span));
    known.filter(|(_, doubt)| *doubt < UNKNOWN_DRIFT).unwrap_or((0.0, UNKNOWN_DRIFT))
}

/// What one exchange tells.
pub(crate) fn offset_of(made: ClockExchange) -> Option<Offset> {
    exchange(made.sent, made.arrived, made.answered, made.heard)
}

/// The exchange of `made` with the shortest round trip.
pub(crate) fn best(made: &[ClockExchange]) -> Option<ClockExchange> {
    let bound = |one: &ClockExchange| offset_of(*one).map(|offset| offset.uncertainty);
    let possible = made.iter().copied().filter_map(|one| Some((one, bound(&one)?)));
    possible.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(one, _)| one)
}

/// Halves the number of exchanges once there are too many, keeping the better of each two
/// neighbours.
pub(crate) fn thin(kept: &mut Vec<ClockExchange>) {
    if kept.len() > MOST_KEPT {
        *kept = kept.chunks(2).filter_map(best).collect();
    }
}

/// Writes the time at which a ping or a pong leaves into it.
pub(crate) fn stamp(message: &mut Message, now: Nanos) {
    match message {
        Message::Ping { sent_ns, .. } => *sent_ns = now.0,
        Message::Pong { answered_ns, .. } => *answered_ns = now.0,
        _ => {}
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
    fn what_a_clock_gains_is_learnt_once_it_is_told_from_what_exchanges_may_be_off() {
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
