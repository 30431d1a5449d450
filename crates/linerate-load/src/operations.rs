//! Which interval each operation belongs to: that in which it was due, whenever it is answered.
//!
//! An interval counts what happened in it. An operation that was due in an earlier interval is counted here a second time, by how many
//! intervals earlier that was. With both the study gives every operation to the span in which it was due, to the last one: the
//! interval of a request that is answered seconds later has long been handed on. An operation was due at its intended start; for a
//! closed load that is its start. What it does not keep: which of the operations of one interval took how long, beyond their
//! distribution.

use linerate_model::{Carried, Distribution, Nanos};

use crate::CoarseHistogram;

/// Intervals kept apart; operations that are older count as that old.
const MOST_BACK: usize = 1023;

/// Counts by how many intervals back, from 1.
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
        if back > 0
            && let Some(count) = self.counts.get_mut(back)
        {
            *count += 1;
            self.used = true;
        }
    }

    fn distribution(&self) -> Distribution {
        let counted = (0_u64..).zip(&self.counts).filter(|(_, count)| **count > 0 && self.used);
        Distribution { buckets: counted.map(|(back, count)| (back, *count)).collect(), ..Distribution::default() }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.used) {
            self.counts.fill(0);
        }
    }
}

/// What an interval says of operations that were due before it, in memory that is reused. The default has none and records nothing.
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

    /// What was recorded.
    pub(crate) fn carried(&self) -> Carried {
        Carried {
            due: self.due.distribution(),
            answered: self.answered.distribution(),
            lost: self.lost.distribution(),
            open: self.open.distribution(),
            unstarted: self.unstarted.distribution(),
            service: self.service.distribution(),
            response: self.response.distribution(),
            waited_service: self.waited_service.lower_bounds(),
            waited_response: self.waited_response.lower_bounds(),
        }
    }

    /// Forgets everything; keeps its memory.
    pub(crate) fn clear(&mut self) {
        for back in [&mut self.due, &mut self.answered, &mut self.lost, &mut self.open, &mut self.unstarted] {
            back.clear();
        }
        for times in [&mut self.service, &mut self.response, &mut self.waited_service, &mut self.waited_response] {
            times.clear();
        }
    }
}

/// When an operation was started, and when it was meant to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// Its actual start.
    pub at: Nanos,
    /// Its intended start: the same for a closed load.
    pub intended: Nanos,
}

/// The operations of one worker by when they were due. The default has no memory and records nothing.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    pub(crate) earlier: Earlier,
    /// When the last intervals were to end, the latest at `(n_cuts - 1) % MOST_BACK`.
    cuts: Vec<Nanos>,
    n_cuts: usize,
    /// The end of the latest, so that an operation of the current interval costs one comparison.
    latest: Nanos,
}

impl Operations {
    pub(crate) fn new() -> Self {
        Self { earlier: Earlier::new(), cuts: vec![Nanos(0); MOST_BACK], n_cuts: 0, latest: Nanos(0) }
    }

    /// Memory for what an interval says, as a worker with `wanted` needs it.
    pub(crate) fn memory(wanted: bool) -> Earlier {
        if wanted { Earlier::new() } else { Earlier::default() }
    }

    /// Whether the worker keeps this account.
    pub(crate) fn is_kept(&self) -> bool {
        !self.cuts.is_empty()
    }

    /// An interval has ended that was to end at `boundary`: what is due from then on belongs to the next.
    pub(crate) fn cut(&mut self, boundary: Nanos) {
        if self.is_kept() {
            self.cuts[self.n_cuts % MOST_BACK] = boundary;
            self.n_cuts += 1;
            self.latest = boundary;
        }
    }

    /// How many intervals before the current one `intended` lies.
    #[inline]
    fn back(&self, intended: Nanos) -> usize {
        if intended >= self.latest {
            return 0;
        }
        let kept = self.n_cuts.min(MOST_BACK);
        let ended_after = |back: &usize| self.cuts[(self.n_cuts - 1 - back) % MOST_BACK] > intended;
        (0..kept).take_while(ended_after).count()
    }

    /// An operation that was to start at `intended` has started.
    #[inline]
    pub(crate) fn started(&mut self, intended: Nanos) {
        let back = self.back(intended);
        self.earlier.due.add(back);
    }

    /// It was answered at `now`.
    #[inline]
    pub(crate) fn answered(&mut self, start: Start, now: Nanos) {
        let back = self.back(start.intended);
        if back > 0 {
            self.earlier.answered.add(back);
            self.earlier.service.record(now.since(start.at).0);
            self.earlier.response.record(now.since(start.intended).0);
        }
    }

    /// It was given up at `now`.
    #[inline]
    pub(crate) fn lost(&mut self, start: Start, now: Nanos) {
        let back = self.back(start.intended);
        self.earlier.lost.add(back);
        self.waited(start, now);
    }

    /// It is still open at `now`, the end of the trial.
    pub(crate) fn left_open(&mut self, start: Start, now: Nanos) {
        let back = self.back(start.intended);
        self.earlier.open.add(back);
        self.waited(start, now);
    }

    /// An operation that was to start at `intended` never did, and now it is `now`.
    pub(crate) fn never_started(&mut self, intended: Nanos, now: Nanos) {
        let back = self.back(intended);
        self.earlier.due.add(back);
        self.earlier.unstarted.add(back);
        self.earlier.waited_response.record(now.since(intended).0);
    }

    fn waited(&mut self, start: Start, now: Nanos) {
        self.earlier.waited_service.record(now.since(start.at).0);
        self.earlier.waited_response.record(now.since(start.intended).0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(at: u64) -> Start {
        Start { at: Nanos(at), intended: Nanos(at) }
    }

    #[test]
    fn an_operation_belongs_to_the_interval_in_which_it_was_due() {
        let mut operations = Operations::new();
        operations.started(Nanos(50));
        assert!(operations.earlier.carried().is_empty(), "no interval has ended");
        operations.cut(Nanos(100));
        operations.cut(Nanos(200));
        for intended in [50, 99, 100, 150, 199, 200, 250] {
            operations.answered(closed(intended), Nanos(300));
        }
        let carried = operations.earlier.carried();
        assert_eq!(carried.answered.buckets, [(1, 3), (2, 2)]);
        assert_eq!(carried.response.buckets, [(101, 1), (150, 1), (200, 1), (201, 1), (250, 1)]);
        operations.lost(closed(250), Nanos(300));
        operations.never_started(Nanos(10), Nanos(300));
        let carried = operations.earlier.carried();
        assert!(carried.lost.is_empty(), "it was due in this interval");
        assert_eq!((carried.due.buckets, carried.unstarted.buckets), (vec![(2, 1)], vec![(2, 1)]));
        assert_eq!(carried.waited_service.buckets, [(50, 1)]);
        assert_eq!(carried.waited_response.count(), 2);
        operations.earlier.clear();
        assert!(operations.earlier.carried().is_empty());
    }

    #[test]
    fn what_is_older_than_is_kept_counts_as_the_oldest() {
        let mut operations = Operations::new();
        (1..=2_000).for_each(|k| operations.cut(Nanos(k * 10)));
        operations.answered(closed(5), Nanos(20_001));
        operations.answered(closed(19_989), Nanos(20_001));
        assert_eq!(operations.earlier.carried().answered.buckets, [(2, 1), (MOST_BACK as u64, 1)]);
    }

    #[test]
    fn without_memory_nothing_is_recorded() {
        let mut operations = Operations::default();
        operations.cut(Nanos(100));
        operations.answered(closed(5), Nanos(101));
        operations.lost(closed(5), Nanos(101));
        assert!(operations.earlier.carried().is_empty());
    }
}
