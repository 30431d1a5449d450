//! Assigns each operation to the interval in which it was due, whenever it is answered.
//!
//! An interval counts what happened in it. An operation that was due in an earlier interval is also
//! counted here, by how many intervals earlier it was due. From both counts the analysis assigns
//! every operation to the span in which it was due, although the interval of a request that is
//! answered seconds later has long been delivered. An operation is due at its intended start; for a
//! closed load that is its actual start. Within one interval only the distribution of times is
//! kept, not the time of each operation.

use linerate_model::{Carried, Distribution, Interval, Nanos, OperationKind};

use crate::{CoarseHistogram, Times};

/// Number of past intervals that are distinguished; older operations count into the oldest.
const MOST_BACK: usize = 1023;

/// Counts by the number of intervals back, from 1.
#[derive(Debug, Default)]
struct Back {
    counts: Vec<u64>,
    used: bool,
}

impl Back {
    fn new() -> Self {
        Self { counts: vec![0; MOST_BACK + 1], used: false }
    }

    #[inline]
    fn add(&mut self, back: usize) {
        // Operations of the current interval are in its own counts, so they are left out here.
        if back > 0
            && let Some(count) = self.counts.get_mut(back)
        {
            *count += 1;
            self.used = true;
        }
    }

    fn distribution(&self) -> Distribution {
        // Without use the table is not visited: it has a thousand entries.
        let counted = (0_u64..).zip(&self.counts).filter(|(_, count)| **count > 0 && self.used);
        Distribution::of(counted.map(|(back, count)| (back, *count)).collect())
    }

    fn clear(&mut self) {
        // Most intervals carry nothing over, so most of the tables are never touched.
        if std::mem::take(&mut self.used) {
            self.counts.fill(0);
        }
    }
}

/// Record of one interval about operations that were due before it, in memory that is reused. The
/// default has no memory and records nothing.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    due: Back,
    answered: Back,
    lost: Back,
    open: Back,
    unstarted: Back,
    service: CoarseHistogram,
    response: CoarseHistogram,
    waited_service: CoarseHistogram,
    waited_response: CoarseHistogram,
}

impl Earlier {
    /// Memory of a record, bytes: five counts by interval, four distributions.
    const BYTES: u64 = 5 * ((MOST_BACK + 1) * size_of::<u64>()) as u64 + 4 * CoarseHistogram::BYTES;

    fn new() -> Self {
        Self {
            due: Back::new(),
            answered: Back::new(),
            lost: Back::new(),
            open: Back::new(),
            unstarted: Back::new(),
            service: CoarseHistogram::new(),
            response: CoarseHistogram::new(),
            waited_service: CoarseHistogram::new(),
            waited_response: CoarseHistogram::new(),
        }
    }

    /// Returns the record.
    fn carried(&self) -> Carried {
        Carried {
            due: self.due.distribution(),
            answered: self.answered.distribution(),
            lost: self.lost.distribution(),
            open: self.open.distribution(),
            unstarted: self.unstarted.distribution(),
            service: self.service.distribution(),
            response: self.response.distribution(),
            // Lower bounds: an abandoned operation would have taken at least this long.
            waited_service: self.waited_service.lower_bounds(),
            waited_response: self.waited_response.lower_bounds(),
        }
    }

    fn waited(&mut self, start: Start, now: Nanos) {
        // Two times, because the analysis needs a lower bound for both kinds of latency.
        self.waited_service.record(now.since(start.at).0);
        self.waited_response.record(now.since(start.intended).0);
    }

    fn clear(&mut self) {
        for back in
            [&mut self.due, &mut self.answered, &mut self.lost, &mut self.open, &mut self.unstarted]
        {
            back.clear();
        }
        for times in [
            &mut self.service,
            &mut self.response,
            &mut self.waited_service,
            &mut self.waited_response,
        ] {
            times.clear();
        }
    }
}

/// Records of each kind of operation. The default has no memory and records nothing.
#[derive(Debug, Default)]
pub(crate) struct EarlierByKind([Earlier; OperationKind::ALL.len()]);

impl EarlierByKind {
    /// Allocates the records that a worker with `times` needs.
    pub(crate) fn new(times: Times) -> Self {
        let memory =
            |kind| if Self::is_kept(kind, times) { Earlier::new() } else { Earlier::default() };
        Self(OperationKind::ALL.map(memory))
    }

    /// Returns true if a worker with `times` has an account of operations of `kind`.
    fn is_kept(kind: OperationKind, times: Times) -> bool {
        times.operations
            // Requests are kept by every worker with an account; the others only where they occur.
            && match kind {
                OperationKind::Request => true,
                OperationKind::Write => times.writes,
                OperationKind::Flush => times.flushes,
                OperationKind::Trim => times.trims,
            }
    }

    /// Returns the memory of [`EarlierByKind::new`] with `times`, bytes.
    pub(crate) fn bytes(times: Times) -> u64 {
        let n_kept =
            OperationKind::ALL.into_iter().filter(|kind| Self::is_kept(*kind, times)).count()
                as u64;
        n_kept * Earlier::BYTES
    }

    /// Writes the records into `interval`.
    pub(crate) fn fill(&self, interval: &mut Interval) {
        for kind in OperationKind::ALL {
            let carried = self.0[kind as usize].carried();
            if !carried.is_empty() {
                *interval.carried_of_mut(kind) = carried;
            }
        }
    }

    /// Clears all records; keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.0.iter_mut().for_each(Earlier::clear);
    }
}

/// Actual and intended start of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// Actual start.
    pub at: Nanos,
    /// Intended start; equal to the actual start for a closed load.
    pub intended: Nanos,
}

impl Start {
    /// Returns the start of an operation that started when intended, as in a closed load.
    #[must_use]
    pub const fn closed(at: Nanos) -> Self {
        Self { at, intended: at }
    }
}

/// Operations of one worker by the interval in which they were due. The default has no memory and
/// records nothing.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    pub(crate) earlier: EarlierByKind,
    /// Scheduled ends of the last intervals; the latest is at `(n_cuts - 1) % MOST_BACK`.
    cuts: Vec<Nanos>,
    n_cuts: usize,
    /// Latest scheduled end, so that an operation of the current interval costs one comparison.
    latest: Nanos,
}

impl Operations {
    /// Allocates the account of a worker with `times`.
    pub(crate) fn new(times: Times) -> Self {
        let n_cuts_kept = if times.operations { MOST_BACK } else { 0 };
        let cuts = vec![Nanos(0); n_cuts_kept];
        Self { earlier: EarlierByKind::new(times), cuts, n_cuts: 0, latest: Nanos(0) }
    }

    fn of(&mut self, kind: OperationKind) -> &mut Earlier {
        &mut self.earlier.0[kind as usize]
    }

    /// Returns true if the worker has this account.
    pub(crate) fn is_kept(&self) -> bool {
        !self.cuts.is_empty()
    }

    /// Ends an interval at its scheduled end `boundary`. Operations that are due from then on
    /// belong to the next interval.
    pub(crate) fn cut(&mut self, boundary: Nanos) {
        if self.is_kept() {
            // A ring: the oldest boundary is overwritten, and operations before it count into the
            // oldest interval.
            self.cuts[self.n_cuts % MOST_BACK] = boundary;
            self.n_cuts += 1;
            self.latest = boundary;
        }
    }

    /// Returns how many intervals before the current one `intended` is.
    #[inline]
    fn back(&self, intended: Nanos) -> usize {
        // The common case: the operation belongs to the current interval.
        if intended >= self.latest {
            return 0;
        }
        let kept = self.n_cuts.min(MOST_BACK);
        // Boundary 0 is the latest; an operation at a boundary belongs to the interval that begins
        // there.
        let ended_after = |back: usize| self.cuts[(self.n_cuts - 1 - back) % MOST_BACK] > intended;
        // First in steps that double, then by bisection. An overloaded disk works on operations
        // that were due hundreds of intervals ago, and needs this twice for each.
        let (mut least, mut step) = (0, 1);
        while least + step <= kept && ended_after(least + step - 1) {
            least += step;
            step *= 2;
        }
        let mut most = (least + step - 1).min(kept);
        while least < most {
            let middle = usize::midpoint(least, most);
            if ended_after(middle) {
                least = middle + 1;
            } else {
                most = middle;
            }
        }
        least
    }

    /// Records the start of an operation that was to start at `intended`.
    #[inline]
    pub(crate) fn started(&mut self, kind: OperationKind, intended: Nanos) {
        let back = self.back(intended);
        self.of(kind).due.add(back);
    }

    /// Records its answer at `now`.
    #[inline]
    pub(crate) fn answered(&mut self, kind: OperationKind, start: Start, now: Nanos) {
        let back = self.back(start.intended);
        // An answer within its own interval is already in the interval's histograms.
        if back > 0 {
            let earlier = self.of(kind);
            earlier.answered.add(back);
            earlier.service.record(now.since(start.at).0);
            earlier.response.record(now.since(start.intended).0);
        }
    }

    /// Records that it was abandoned at `now`.
    #[inline]
    pub(crate) fn lost(&mut self, kind: OperationKind, start: Start, now: Nanos) {
        let back = self.back(start.intended);
        let earlier = self.of(kind);
        earlier.lost.add(back);
        earlier.waited(start, now);
    }

    /// Records that it is still open at `now`, the end of the trial.
    pub(crate) fn left_open(&mut self, kind: OperationKind, start: Start, now: Nanos) {
        let back = self.back(start.intended);
        let earlier = self.of(kind);
        earlier.open.add(back);
        earlier.waited(start, now);
    }

    /// Records at `now`, the end of the trial, that an operation that was to start at `intended`
    /// never did.
    pub(crate) fn never_started(&mut self, intended: Nanos, now: Nanos) {
        let back = self.back(intended);
        let earlier = self.of(OperationKind::Request);
        earlier.due.add(back);
        earlier.unstarted.add(back);
        earlier.waited_response.record(now.since(intended).0);
    }
}

#[cfg(test)]
mod tests {
    use OperationKind::{Request, Write};

    use super::*;

    fn closed(at: u64) -> Start {
        Start::closed(Nanos(at))
    }

    fn carried(operations: &Operations, kind: OperationKind) -> Carried {
        let mut interval = Interval::default();
        operations.earlier.fill(&mut interval);
        interval.carried_of(kind).clone()
    }

    #[test]
    fn an_operation_belongs_to_the_interval_in_which_it_was_due() {
        let mut operations = Operations::new(Times::ALL);
        operations.started(Request, Nanos(50));
        assert!(carried(&operations, Request).is_empty(), "no interval has ended");
        operations.cut(Nanos(100));
        operations.cut(Nanos(200));
        for intended in [50, 99, 100, 150, 199, 200, 250] {
            operations.answered(Request, closed(intended), Nanos(300));
        }
        let found = carried(&operations, Request);
        assert_eq!(found.answered.buckets, [(1, 3), (2, 2)]);
        assert_eq!(found.response.buckets, [(101, 1), (150, 1), (200, 1), (201, 1), (250, 1)]);
        operations.lost(Request, closed(250), Nanos(300));
        operations.never_started(Nanos(10), Nanos(300));
        let found = carried(&operations, Request);
        assert!(found.lost.is_empty(), "it was due in this interval");
        assert_eq!((found.due.buckets, found.unstarted.buckets), (vec![(2, 1)], vec![(2, 1)]));
        assert_eq!(found.waited_service.buckets, [(50, 1)]);
        assert_eq!(found.waited_response.count(), 2);
        operations.earlier.clear();
        assert!(carried(&operations, Request).is_empty());
    }

    #[test]
    fn any_number_of_intervals_back_is_found() {
        for n_cuts in [1, 2, 3, 7, 8, 100, MOST_BACK - 1, MOST_BACK, MOST_BACK + 1, 3 * MOST_BACK] {
            let mut operations = Operations::new(Times::ALL);
            (1..=n_cuts as u64).for_each(|k| operations.cut(Nanos(k * 10)));
            let latest = n_cuts as u64 * 10;
            for intended in (0..=latest).step_by(5) {
                // An interval includes its last nanosecond: an operation that is due at a cut
                // belongs to the next interval.
                let expected = (latest - intended).div_ceil(10).min(MOST_BACK as u64) as usize;
                assert_eq!(operations.back(Nanos(intended)), expected, "{intended} of {latest}");
            }
        }
    }

    #[test]
    fn kinds_are_separate_and_only_requested_ones_have_memory() {
        let mut operations =
            Operations::new(Times { operations: true, writes: true, ..Times::NONE });
        operations.cut(Nanos(100));
        operations.answered(Write, closed(40), Nanos(300));
        operations.left_open(OperationKind::Flush, closed(40), Nanos(300));
        assert_eq!(carried(&operations, Write).service.buckets, [(261, 1)]);
        assert!(
            carried(&operations, Request).is_empty()
                && carried(&operations, OperationKind::Flush).is_empty()
        );
    }

    #[test]
    fn operations_older_than_the_oldest_interval_count_into_it() {
        let mut operations = Operations::new(Times::ALL);
        (1..=2_000).for_each(|k| operations.cut(Nanos(k * 10)));
        operations.answered(Request, closed(5), Nanos(20_001));
        operations.answered(Request, closed(19_989), Nanos(20_001));
        assert_eq!(carried(&operations, Request).answered.buckets, [(2, 1), (MOST_BACK as u64, 1)]);
    }

    #[test]
    fn without_memory_nothing_is_recorded() {
        let mut operations = Operations::default();
        operations.cut(Nanos(100));
        operations.answered(Request, closed(5), Nanos(101));
        operations.lost(Request, closed(5), Nanos(101));
        assert!(carried(&operations, Request).is_empty());
    }
}
