//! Start times of operations: closed loop, constant rate, Poisson arrivals, bursts.
//!
//! Time is an argument. An open load keeps *intended* times. When the worker falls behind, the
//! operations that it missed are due at once with the times at which they should have started,
//! which avoids coordinated omission. A worker that starts fewer operations than were due calls
//! [`crate::Tally::defer`].

use linerate_model::{Arrival, Load, Nanos};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Operations that are due now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Operations that may start: `u32::MAX` for a closed load (as many as fit a batch), 0 during
    /// the drain or if it is too early.
    pub operations: u32,
    /// Intended start of the first one, on the monotonic clock. For a closed load it is the last
    /// clock reading, which is at most a microsecond old.
    pub intended: Nanos,
    /// Gap between two intended starts, ns; 0 for a closed load and within a burst. With Poisson
    /// arrivals `operations` is at most 1.
    pub gap: Nanos,
    /// Deadline of the step's wait: the next operation is due, an interval ends, or patience ends.
    pub until: Nanos,
}

/// Most operations of an open load at once. A late worker catches up in bursts of this size, and
/// the engine reads the clock between them.
pub const BURST: u32 = 1024;

/// Source of the start times of one worker.
///
/// # Examples
/// ```
/// use linerate_load::Pacer;
/// use linerate_model::{Arrival, Load, Nanos};
///
/// // 1,000 operations per second: one is due every millisecond.
/// let load = Load::Open { rate: 1_000.0, arrival: Arrival::Constant };
/// let mut pacer = Pacer::new(load, Nanos(0), 42);
/// let due = pacer.next(Nanos(0), Nanos::from_secs(1));
/// assert_eq!((due.operations, due.intended), (1, Nanos(0)));
/// // The worker is 2.5 ms late. Two operations are due, and the first keeps its intended time.
/// let due = pacer.next(Nanos(2_500_000), Nanos::from_secs(1));
/// assert_eq!((due.operations, due.intended), (2, Nanos(1_000_000)));
/// ```
#[derive(Debug)]
pub struct Pacer {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Closed,
    /// The `issued`-th operation is due at `start + issued * gap_ns`. Each time is computed from
    /// the count, so there is no drift.
    Constant {
        start: Nanos,
        gap_ns: f64,
        issued: u64,
    },
    /// `burst` operations at once, a `gap_ns` apart, and at most one burst per call. Missed bursts
    /// follow one by one, at least half a gap after the `last` one: two bursts without a pause
    /// would be one of twice the size.
    Burst {
        start: Nanos,
        gap_ns: f64,
        burst: u64,
        issued: u64,
        last: Option<Nanos>,
    },
    Poisson(Arrivals),
}

/// Exponential gaps.
#[derive(Debug)]
struct Arrivals {
    /// Time of the next operation; `fraction` carries the rest that is less than a nanosecond.
    next: Nanos,
    fraction: f64,
    /// The last operation handed out, and true if it was given back.
    last: Nanos,
    held: bool,
    /// Operations handed out, including those given back.
    issued: u64,
    gap_ns: f64,
    random: Xoshiro256PlusPlus,
}

const NANOS_PER_SECOND: f64 = 1e9;

impl Pacer {
    /// Creates a pacer for `load` whose first operation is due at `start` (for Poisson arrivals a
    /// random gap later). With a rate of zero nothing is ever due.
    #[must_use]
    pub fn new(load: Load, start: Nanos, seed: u64) -> Self {
        let kind = match load {
            Load::Closed { .. } => Kind::Closed,
            Load::Open { rate, arrival } => {
                let gap_ns = NANOS_PER_SECOND / rate;
                // At a rate of zero the start is never reached, so nothing is ever due.
                let start = if rate > 0.0 { start } else { Nanos(u64::MAX) };
                match arrival {
                    Arrival::Poisson => {
                        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
                        let mut arrivals = Arrivals {
                            next: start,
                            fraction: 0.0,
                            last: start,
                            held: false,
                            issued: 0,
                            gap_ns,
                            random,
                        };
                        // A first arrival at the start itself would be no Poisson process: the time
                        // to the first event is exponential too.
                        arrivals.advance();
                        Kind::Poisson(arrivals)
                    }
                    Arrival::Constant => Kind::Constant { start, gap_ns, issued: 0 },
                    Arrival::Burst(burst) => {
                        let gap_ns = gap_ns * f64::from(burst.get());
                        Kind::Burst {
                            start,
                            gap_ns,
                            burst: burst.get().into(),
                            issued: 0,
                            last: None,
                        }
                    }
                }
            }
        };
        Self { kind }
    }

    /// Returns true if operations have intended start times.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !matches!(self.kind, Kind::Closed)
    }

    /// Returns the operations that are due at `now`; a step may wait until `patience` at the
    /// latest. An operation is handed out once, unless it is given back.
    #[inline]
    pub fn next(&mut self, now: Nanos, patience: Nanos) -> Due {
        match &mut self.kind {
            Kind::Closed => {
                Due { operations: u32::MAX, intended: now, gap: Nanos(0), until: patience }
            }
            Kind::Constant { start, gap_ns, issued } => {
                let intended = due_at(*start, *gap_ns, *issued);
                let mut operations = 0;
                if intended <= now {
                    // Rounding may make the quotient wrong by one. The exact test decides.
                    let reached = (now.since(*start).0 as f64 / *gap_ns) as u64 + 1;
                    // At least one is due here. The upper bound keeps a late worker's batch within
                    // what one call can take.
                    let behind = reached.saturating_sub(*issued).clamp(1, u64::from(BURST));
                    let last_is_due = due_at(*start, *gap_ns, *issued + behind - 1) <= now;
                    operations = if last_is_due { behind } else { behind - 1 } as u32;
                    *issued += u64::from(operations);
                    // Floating point, because the gap may be a fraction of a nanosecond.
                }
                let until = due_at(*start, *gap_ns, *issued).min(patience);
                Due { operations, intended, gap: Nanos(*gap_ns as u64), until }
            }
            Kind::Burst { start, gap_ns, burst, issued, last } => {
                let due = |issued: u64| due_at(*start, *gap_ns, issued / *burst);
                let apart = |last: Option<Nanos>| {
                    last.map_or(Nanos(0), |last| due_at(last, *gap_ns / 2.0, 1))
                };
                let begun = *issued % *burst;
                let intended = due(*issued);
                // The rest of a burst that a worker deferred may not wait for the distance.
                let may_start = intended <= now && (begun > 0 || apart(*last) <= now);
                let operations = if may_start { *burst - begun } else { 0 };
                if operations > 0 && begun == 0 {
                    *last = Some(now);
                }
                *issued += operations;
                // The rest of a burst that has begun follows at once.
                let apart = if *issued % *burst == 0 { apart(*last) } else { Nanos(0) };
                let until = due(*issued).max(apart).min(patience);
                Due { operations: operations as u32, intended, gap: Nanos(0), until }
            }
            Kind::Poisson(arrivals) => {
                let (operations, intended) = arrivals.take(now);
                Due { operations, intended, gap: Nanos(0), until: arrivals.next.min(patience) }
            }
        }
    }

    /// Returns the number of operations due by `now` since the start, and the number of those
    /// started; `None` for a closed load. For overdue Poisson arrivals that are not drawn yet it
    /// uses the expected number.
    #[must_use]
    pub fn account(&self, now: Nanos) -> Option<(u64, u64)> {
        // The operation at the start itself counts, so it is one more than the number of gaps.
        let since = |start: Nanos, gap_ns: f64| {
            if start <= now { (now.since(start).0 as f64 / gap_ns) as u64 + 1 } else { 0 }
        };
        match &self.kind {
            Kind::Closed => None,
            Kind::Constant { start, gap_ns, issued } => {
                // Rounding may put the count one below what was handed out.
                Some((since(*start, *gap_ns).max(*issued), *issued))
            }
            Kind::Burst { start, gap_ns, burst, issued, .. } => {
                Some(((since(*start, *gap_ns) * burst).max(*issued), *issued))
            }
            Kind::Poisson(arrivals) => {
                // An operation that was given back has not started.
                let started = arrivals.issued - u64::from(arrivals.held);
                Some((arrivals.issued + since(arrivals.next, arrivals.gap_ns), started))
            }
        }
    }

    /// Takes back the last `n` operations of the last [`Due`], which could not be started. They are
    /// due again at their original times.
    pub fn give_back(&mut self, n: u32) {
        match &mut self.kind {
            Kind::Closed => {}
            Kind::Constant { issued, .. } => *issued = issued.saturating_sub(u64::from(n)),
            Kind::Burst { issued, burst, last, .. } => {
                *issued = issued.saturating_sub(u64::from(n));
                // A burst that did not begin needs no distance from the next one.
                *last = last.filter(|_| *issued % *burst > 0 || n == 0);
            }
            Kind::Poisson(arrivals) => arrivals.held |= n > 0,
        }
    }
}

/// Returns the time of operation `k`, computed from the count so that rounding does not add up.
#[inline]
fn due_at(start: Nanos, gap_ns: f64, k: u64) -> Nanos {
    // An infinite gap times zero is not a number, which casts to zero: the start itself.
    Nanos(start.0.saturating_add((k as f64 * gap_ns) as u64))
}

impl Arrivals {
    fn take(&mut self, now: Nanos) -> (u32, Nanos) {
        // The one that was given back keeps its time; drawing again would change the process.
        if self.held {
            self.held = false;
            return (1, self.last);
        }
        let intended = self.next;
        if intended > now {
            return (0, intended);
        }
        self.last = intended;
        self.issued += 1;
        self.advance();
        (1, intended)
    }

    /// Draws the next exponential gap by inversion.
    fn advance(&mut self) {
        /// Makes uniform numbers in (0, 1] from 53 random bits. Zero is excluded, so the logarithm
        /// is finite.
        const STEP: f64 = 1.0 / (1_u64 << 53) as f64;
        let uniform = ((self.random.next_u64() >> 11) + 1) as f64 * STEP;
        let exact = self.fraction - uniform.ln() * self.gap_ns;
        // Dropped fractions would add up: at 10^7 operations a second a gap is 100 ns, and half a
        // nanosecond is 0.5 % of the rate.
        self.fraction = exact.fract();
        self.next = Nanos(self.next.0.saturating_add(exact as u64));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: Nanos = Nanos(1_000_000);
    const NEVER: Nanos = Nanos(u64::MAX);

    fn constant(rate: f64) -> Pacer {
        Pacer::new(Load::Open { rate, arrival: Arrival::Constant }, START, 0)
    }

    #[test]
    fn a_burst_is_due_at_once_and_the_gap_after_it_keeps_the_rate() {
        let three = std::num::NonZeroU32::new(3).expect("literal");
        let mut pacer =
            Pacer::new(Load::Open { rate: 3e6, arrival: Arrival::Burst(three) }, START, 0);
        let at = |offset_us: u64| START + Nanos(offset_us * 1_000);
        let due = |operations, intended, until| Due { operations, intended, gap: Nanos(0), until };
        assert_eq!(pacer.next(Nanos(0), NEVER), due(0, START, START));
        assert_eq!(pacer.next(at(0), NEVER), due(3, START, at(1)));
        pacer.give_back(1);
        assert_eq!(pacer.next(at(0), NEVER), due(1, START, at(1)));
        // Two bursts are missed: they follow one at a time, each with its own time and half a gap
        // between them.
        assert_eq!(pacer.account(at(2)), Some((9, 3)));
        let apart = at(2) + Nanos(500);
        assert_eq!(pacer.next(at(2), NEVER), due(3, at(1), apart));
        assert_eq!(pacer.next(at(2), NEVER), due(0, at(2), apart));
        assert_eq!(pacer.next(apart, NEVER), due(3, at(2), at(3)));
        assert_eq!(pacer.account(apart), Some((9, 9)));
        // A burst that did not begin is due as if it had never been handed out.
        assert_eq!(pacer.next(at(3), NEVER).operations, 3);
        pacer.give_back(3);
        assert_eq!(pacer.next(at(3), NEVER), due(3, at(3), at(4)));
    }

    #[test]
    fn a_closed_load_is_always_due_now() {
        let due = Pacer::new(Load::Closed { depth: 1 }, START, 0).next(Nanos(5), Nanos(9));
        let (intended, until) = (Nanos(5), Nanos(9));
        assert_eq!(due, Due { operations: u32::MAX, intended, gap: Nanos(0), until });
    }

    #[test]
    fn open_loop_keeps_intended_times_when_behind() {
        let mut pacer = constant(1e6);
        assert_eq!(pacer.next(Nanos(999_999), NEVER).operations, 0);
        let late = pacer.next(Nanos(START.0 + 5_500), NEVER);
        let until = Nanos(START.0 + 6_000);
        assert_eq!(late, Due { operations: 6, intended: START, gap: Nanos(1_000), until });
        assert_eq!(pacer.next(Nanos(START.0 + 5_900), NEVER).operations, 0);
    }

    #[test]
    fn due_and_started_operations_are_counted_separately() {
        let mut pacer = constant(1e6);
        assert_eq!(pacer.account(Nanos(999_999)), Some((0, 0)));
        assert_eq!(pacer.next(Nanos(START.0 + 9_000), NEVER).operations, 10);
        pacer.give_back(4);
        assert_eq!(pacer.account(Nanos(START.0 + 19_500)), Some((20, 6)));
        assert_eq!(constant(0.0).account(NEVER.min(Nanos(5))), Some((0, 0)));
        assert_eq!(Pacer::new(Load::Closed { depth: 1 }, START, 0).account(NEVER), None);

        let mut pacer = Pacer::new(Load::Open { rate: 1e6, arrival: Arrival::Poisson }, START, 7);
        let end = Nanos(START.0 + 100_000_000);
        let (expected, _) = pacer.account(end).expect("an open load");
        assert!((99_990..=100_001).contains(&expected), "{expected} of 100 000, none drawn yet");
        while pacer.next(end, NEVER).operations > 0 {}
        let (due, started) = pacer.account(end).expect("an open load");
        assert_eq!(due, started);
        assert!(due.abs_diff(100_000) < 2_000, "{due}: six standard deviations");
        pacer.give_back(1);
        assert_eq!(pacer.account(end), Some((due, started - 1)));
    }

    #[test]
    fn operations_given_back_are_due_again_at_their_times() {
        let mut pacer = constant(1e6);
        assert_eq!(pacer.next(Nanos(START.0 + 9_000), NEVER).operations, 10);
        pacer.give_back(4);
        let again = pacer.next(Nanos(START.0 + 9_000), NEVER);
        assert_eq!((again.operations, again.intended), (4, Nanos(START.0 + 6_000)));

        let mut pacer = Pacer::new(Load::Open { rate: 1e6, arrival: Arrival::Poisson }, START, 7);
        let first = pacer.next(NEVER, NEVER);
        pacer.give_back(1);
        assert_eq!(pacer.next(NEVER, NEVER).intended, first.intended);
    }

    #[test]
    fn a_rate_of_zero_has_nothing_due() {
        for arrival in
            [Arrival::Constant, Arrival::Poisson, Arrival::Burst(std::num::NonZeroU32::MIN)]
        {
            let mut pacer = Pacer::new(Load::Open { rate: 0.0, arrival }, START, 1);
            assert_eq!(pacer.next(Nanos(u64::MAX - 1), Nanos(u64::MAX - 1)).operations, 0);
        }
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_deviation_of_an_exponential() {
        let mut pacer = Pacer::new(Load::Open { rate: 1e6, arrival: Arrival::Poisson }, START, 42);
        let times: Vec<f64> =
            (0..100_000).map(|_| pacer.next(NEVER, NEVER).intended.0 as f64).collect();
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // The standard error of the mean at n = 10^5 is 0.3 %.
        assert!((mean - 1_000.0).abs() < 15.0, "{mean}");
        assert!((variance.sqrt() - 1_000.0).abs() < 30.0, "{}", variance.sqrt());
    }

    #[test]
    fn the_same_seed_gives_the_same_arrivals() {
        let arrivals = |seed| {
            let mut pacer =
                Pacer::new(Load::Open { rate: 5e5, arrival: Arrival::Poisson }, START, seed);
            (0..100).map(|_| pacer.next(NEVER, NEVER).intended).collect::<Vec<_>>()
        };
        assert_eq!(arrivals(3), arrivals(3));
        assert_ne!(arrivals(3), arrivals(4));
    }

    proptest! {
        #[test]
        fn the_kth_operation_is_intended_at_start_plus_k_gaps_and_never_issued_early(
            rate in 1.0..1e8_f64,
            waits in proptest::collection::vec(0_u64..50_000_000, 1..50),
            returned in 0_u32..3,
        ) {
            let mut pacer = constant(rate);
            let gap_ns = 1e9 / rate;
            let (mut now, mut issued) = (START.0 - 1_000, 0_u64);
            for wait in waits {
                now += wait;
                let due = pacer.next(Nanos(now), NEVER);
                prop_assert_eq!(due.intended, Nanos(START.0 + (issued as f64 * gap_ns) as u64));
                if due.operations > 0 {
                    let last_idx = issued + u64::from(due.operations) - 1;
                    let last = START.0 + (last_idx as f64 * gap_ns) as u64;
                    prop_assert!(last <= now);
                }
                issued += u64::from(due.operations);
                let next = START.0 + (issued as f64 * gap_ns) as u64;
                prop_assert!(next > now || due.operations == BURST, "an operation due at {} was \
                    withheld at {}", next, now);
                let back = returned.min(due.operations);
                pacer.give_back(back);
                issued -= u64::from(back);
            }
        }
    }
}
