//! The measured span of a trial, and the part of a record that falls into it.
//!
//! Times are nanoseconds since the trial's start barrier. Intervals that overlap the edge of the
//! span are apportioned by time. Not covered: the distribution of bytes inside an interval. For a
//! path that is full all the time the error at an edge is zero; for any other it is at most the
//! part of the interval outside the span, times the distance to the path's capacity.

use linerate_model::{Counter, Interval, JobRecord, Nanos, added};

/// Nanoseconds in a second.
const NANOS: f64 = 1e9;

/// A span of time within a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// Its start.
    pub(super) from: Nanos,
    /// Its end.
    pub(super) to: Nanos,
}

impl Span {
    /// Returns its length in seconds.
    pub(super) fn seconds(self) -> f64 {
        self.to.since(self.from).as_secs_f64()
    }

    /// Length of what it shares with `start..end`, ns.
    pub(super) fn shared_ns(self, start: Nanos, end: Nanos) -> f64 {
        end.0.min(self.to.0).saturating_sub(start.0.max(self.from.0)) as f64
    }

    /// Returns the share of `start..end` that lies in it. An instant counts whole if it lies
    /// inside.
    pub(super) fn share(self, start: Nanos, end: Nanos) -> f64 {
        if end > start {
            self.shared_ns(start, end) / (end.0 - start.0) as f64
        } else {
            f64::from(u8::from(self.from <= start && start < self.to))
        }
    }

    /// Returns whether the middle of `interval` lies in the span. For values that cannot be
    /// apportioned, such as distributions.
    pub(super) fn holds_middle(self, interval: &Interval) -> bool {
        let middle = Nanos(interval.start.0 + interval.end.since(interval.start).0 / 2);
        self.from <= middle && middle < self.to
    }

    /// Returns the part that both spans share.
    pub(super) fn within(self, other: Self) -> Self {
        let from = self.from.max(other.from);
        Self { from, to: self.to.min(other.to).max(from) }
    }
}

/// Returns the count of `counter` in `record` during `span`.
pub(super) fn counted(record: &JobRecord, counter: Counter, span: Span) -> f64 {
    record
        .intervals
        .iter()
        .filter(|interval| interval.counters[counter] != 0)
        .map(|interval| {
            interval.counters[counter] as f64 * span.share(interval.start, interval.end)
        })
        .sum()
}

/// Returns the count of `counter` in `record` in the whole trial: the flows' totals, or the
/// intervals' where they are more (a worker without a flow, or an end that was cut off).
pub(super) fn total(record: &JobRecord, counter: Counter) -> u64 {
    let flows = added(record.flows.iter().map(|flow| flow.counters[counter]));
    let intervals = added(record.intervals.iter().map(|interval| interval.counters[counter]));
    flows.max(intervals)
}

/// Returns the share of `span` that the intervals of `record` cover, the mean over its workers;
/// `None` without workers.
pub(super) fn coverage(record: &JobRecord, span: Span) -> Option<f64> {
    let mut workers: Vec<u32> = record.intervals.iter().map(|interval| interval.worker).collect();
    workers.sort_unstable();
    workers.dedup();
    let covered: f64 = record.intervals.iter().map(|i| span.shared_ns(i.start, i.end)).sum();
    let whole = span.seconds() * NANOS * workers.len() as f64;
    (whole > 0.0).then(|| covered / whole)
}

/// From the first to the last thing `record` counted.
pub(super) fn extent(record: &JobRecord) -> Option<Span> {
    let from = record.intervals.iter().map(|interval| interval.start).min()?;
    let to = record.intervals.iter().map(|interval| interval.end).max()?;
    Some(Span { from, to })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(intervals: &[(u64, u64, u64)]) -> JobRecord {
        let intervals = intervals.iter().map(|&(start, end, bytes)| {
            let mut interval =
                Interval { start: Nanos(start), end: Nanos(end), ..Interval::default() };
            interval.counters[Counter::PayloadReceived] = bytes;
            interval
        });
        JobRecord { intervals: intervals.collect(), flows: Vec::new() }
    }

    #[test]
    fn an_interval_across_the_edge_is_apportioned_by_time() {
        let record = record(&[(0, 100, 1000), (100, 200, 1000), (200, 300, 1000)]);
        let span = Span { from: Nanos(150), to: Nanos(300) };
        assert_eq!(counted(&record, Counter::PayloadReceived, span), 1500.0);
        assert_eq!(coverage(&record, span), Some(1.0));
        assert_eq!(coverage(&record, Span { from: Nanos(200), to: Nanos(400) }), Some(0.5));
    }
}
