//! Datagrams by the sender's interval in which they departed, and frames by that in which they were
//! to depart.
//!
//! Each carries that time by its sender's clock. The sender counts what it sent by
//! that time, and the receiver counts what arrived by the same time. For any span of whole
//! intervals the analysis therefore knows exactly how many were sent in it and how many of those
//! arrived, whatever the delay and the difference of the clocks. The companion reports when the
//! sender's first interval began; arrivals before that report belong to the first interval. Times
//! are nanoseconds. At most [`MOST_TICKS`] intervals between two cuts are counted. If there are
//! more, the sum is less than the number of arrivals, and the analysis does not use the counts.

use linerate_model::{Distribution, Nanos};
use linerate_packet::frame::signature::extend;

/// Intervals of the sender that are distinguished between two cuts.
const MOST_TICKS: usize = 32;
/// Low bits of the time that a frame carries.
const SHORT_MASK: u64 = (1 << 40) - 1;

/// Counts by the start of an interval, ns since the start barrier.
#[derive(Debug, Default)]
pub(crate) struct ByTick {
    counts: [(u64, u64); MOST_TICKS],
    used: usize,
}

impl ByTick {
    fn add(&mut self, start: u64, n: u64) {
        // Latest first: nearly all datagrams belong to the last interval or the one before.
        match self.counts[..self.used].iter_mut().rev().find(|(known, _)| *known == start) {
            Some((_, count)) => *count += n,
            None if self.used < MOST_TICKS => {
                self.counts[self.used] = (start, n);
                self.used += 1;
            }
            // A full table drops counts. The sum is then smaller, and the analysis discards them.
            None => {}
        }
    }

    /// Returns the counts by start of the interval, ascending.
    pub(crate) fn distribution(&self) -> Distribution {
        let mut buckets = self.counts[..self.used].to_vec();
        buckets.sort_unstable();
        Distribution { buckets, ..Distribution::default() }
    }

    /// Clears all counts.
    pub(crate) fn clear(&mut self) {
        self.used = 0;
    }
}

/// Counts of one direction while a worker steps. The default has no interval and counts nothing.
#[derive(Debug, Default)]
pub(crate) struct Ticks {
    /// Start of the sender's first interval, on the clock of the times; absent until it is known.
    origin: Option<Nanos>,
    /// Length of an interval, ns.
    width: u64,
    /// Bounds of the interval that was counted last, and its count since then.
    from: u64,
    until: u64,
    n: u64,
    /// Arrivals before the origin was known: their number, and the scheduled departure of the last
    /// one.
    early: (u64, u64),
    /// Counts since the last cut, without `n`.
    pub(crate) by_tick: ByTick,
}

impl Ticks {
    /// Creates counts for intervals of `width`; the origin is not known yet.
    pub(crate) fn new(width: Nanos) -> Self {
        Self { width: width.0.max(1), ..Self::default() }
    }

    /// Returns the start of the sender's first interval, if it is known.
    pub(crate) fn origin(&self) -> Option<Nanos> {
        self.origin
    }

    /// Returns true if the origin is unknown and few datagrams have arrived, so that it may still
    /// be set.
    pub(crate) fn awaits_origin(&self) -> bool {
        const FEW: u64 = 64;
        self.origin.is_none() && self.early.0 < FEW
    }

    /// Sets the origin, once.
    pub(crate) fn begin(&mut self, origin: Nanos) {
        // A width of zero is the default, which counts nothing.
        if self.origin.is_some() || self.width == 0 {
            return;
        }
        self.origin = Some(origin);
        (self.from, self.until) = (origin.0, origin.0.saturating_add(self.width));
        // Early arrivals count only if the last one falls into the first interval: otherwise their
        // intervals are unknown, and the smaller sum makes the analysis discard the counts.
        let (n, last) = std::mem::take(&mut self.early);
        if extend(last & SHORT_MASK, origin.0) < self.until {
            self.n = n;
        }
    }

    /// Counts one datagram that was to depart at `time`.
    #[inline]
    pub(crate) fn count(&mut self, time: u64) {
        // One comparison for both bounds: a time before `from` wraps to a large number.
        if time.wrapping_sub(self.from) < self.until - self.from {
            self.n += 1;
        } else {
            self.turn(time);
        }
    }

    /// Counts one datagram with the low 40 bits of its time.
    #[inline]
    pub(crate) fn count_short(&mut self, time_low: u64) {
        self.count(extend(time_low, self.from));
    }

    /// Counts `n` datagrams that were to depart from `first` on, a `gap` apart.
    #[inline]
    pub(crate) fn count_run(&mut self, first: Nanos, gap: Nanos, n: u64) {
        let Some(more) = n.checked_sub(1) else { return };
        self.count(first.0);
        let last = first.0.saturating_add(gap.0.saturating_mul(more));
        // A run within one interval, nearly every batch, costs one addition.
        if self.from <= first.0 && last < self.until {
            self.n += more;
        } else {
            // One by one: a run across a boundary belongs to both intervals.
            (1..=more).for_each(|k| self.count(first.0.saturating_add(k.saturating_mul(gap.0))));
        }
    }

    /// Counts a datagram of another interval than the last one.
    #[cold]
    fn turn(&mut self, time: u64) {
        let Some(origin) = self.origin else {
            // Without an interval nothing is counted, so nothing is early either.
            self.early = (self.early.0 + u64::from(self.width > 0), time);
            return;
        };
        // The finished interval goes to the table first: datagrams of two flows may alternate
        // between intervals.
        self.settle();
        let passed = time.saturating_sub(origin.0) / self.width;
        self.from = origin.0.saturating_add(passed.saturating_mul(self.width));
        self.until = self.from.saturating_add(self.width);
        self.n = 1;
    }

    /// Moves the count of the last interval into [`Ticks::by_tick`].
    pub(crate) fn settle(&mut self) {
        let n = std::mem::take(&mut self.n);
        if n > 0
            && let Some(origin) = self.origin
        {
            self.by_tick.add(self.from.saturating_sub(origin.0), n);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTH: u64 = 100;

    fn counted(ticks: &mut Ticks) -> Vec<(u64, u64)> {
        ticks.settle();
        ticks.by_tick.distribution().buckets
    }

    #[test]
    fn datagrams_count_into_the_interval_of_their_scheduled_departure() {
        let mut ticks = Ticks::new(Nanos(WIDTH));
        ticks.begin(Nanos(1_050));
        // One was to depart before the first interval and counts into it; two arrive late.
        for time in [1_000, 1_050, 1_149, 1_150, 1_249, 1_149, 1_149, 1_950] {
            ticks.count(time);
        }
        assert_eq!(counted(&mut ticks), [(0, 5), (100, 2), (900, 1)]);
        ticks.by_tick.clear();
        ticks.count_run(Nanos(1_940), Nanos(3), 10);
        assert_eq!(counted(&mut ticks), [(800, 4), (900, 6)]);
    }

    #[test]
    fn arrivals_before_the_origin_is_known_count_into_the_first_interval_or_not_at_all() {
        for (last, expected) in [(1_149, vec![(0, 3)]), (1_150, vec![(0, 1)])] {
            let mut ticks = Ticks::new(Nanos(WIDTH));
            ticks.count(1_060);
            ticks.count(last);
            ticks.begin(Nanos(1_050));
            ticks.begin(Nanos(7));
            ticks.count(1_100);
            assert_eq!(counted(&mut ticks), expected);
        }
    }

    #[test]
    fn short_times_are_completed_from_the_last_interval() {
        const DAY: u64 = 86_400_000_000_000;
        let mut ticks = Ticks::new(Nanos(WIDTH));
        ticks.count_short((DAY + 5) & SHORT_MASK);
        ticks.begin(Nanos(DAY));
        // Each jump is less than half of the range of 40 bits.
        let jumps = [1 << 38, 2 << 38, 3 << 38, 4 << 38];
        for time in [99, 100].into_iter().chain(jumps) {
            ticks.count_short((DAY + time) & SHORT_MASK);
        }
        let starts = [0, 100].into_iter().chain(jumps.map(|jump| jump / WIDTH * WIDTH));
        let expected: Vec<(u64, u64)> = starts.zip([2, 1, 1, 1, 1, 1]).collect();
        assert_eq!(counted(&mut ticks), expected);
    }

    #[test]
    fn more_intervals_than_are_kept_leave_a_smaller_sum() {
        let mut ticks = Ticks::new(Nanos(WIDTH));
        ticks.begin(Nanos(0));
        (0..2 * MOST_TICKS as u64).for_each(|k| ticks.count(k * WIDTH));
        assert_eq!(counted(&mut ticks).len(), MOST_TICKS);
        let mut without = Ticks::default();
        without.begin(Nanos(0));
        without.count(7);
        assert!(counted(&mut without).is_empty());
    }
}
