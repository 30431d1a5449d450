//! Counters and histograms of a worker while it steps.

use linerate_model::{Counter, Counters, Nanos, OperationKind};

use crate::Histogram;
use crate::operations::{EarlierByKind, Operations, Start};
use crate::ticks::Ticks;

/// Times that a worker measures. Only these histograms get memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// True if it records into [`Histograms::service`].
    pub service: bool,
    /// True if it records into [`Histograms::writes`].
    pub writes: bool,
    /// True if it records into [`Histograms::flushes`].
    pub flushes: bool,
    /// True if it records into [`Histograms::trims`].
    pub trims: bool,
    /// True if it records into [`Histograms::response`].
    pub response: bool,
    /// True if it records into [`Histograms::gap`].
    pub gap: bool,
    /// True if it records into [`Histograms::falls`] and [`Histograms::rises`].
    pub variation: bool,
    /// True if it records into [`Histograms::connect`], [`Histograms::first_byte`],
    /// [`Histograms::transfer`] and [`Histograms::close`].
    pub stages: bool,
    /// True if it records the operations that were due, answered, lost and left open
    /// ([`Tally::started`] and the methods below it).
    pub operations: bool,
}

impl Times {
    /// All times.
    pub const ALL: Self = Self {
        service: true,
        writes: true,
        flushes: true,
        trims: true,
        response: true,
        gap: true,
        variation: true,
        stages: true,
        operations: true,
    };
    /// No times, only counters.
    pub const NONE: Self = Self {
        service: false,
        writes: false,
        flushes: false,
        trims: false,
        response: false,
        gap: false,
        variation: false,
        stages: false,
        operations: false,
    };
    /// Times of a client that sends requests.
    pub(crate) const REQUESTS: Self =
        Self { service: true, response: true, operations: true, ..Self::NONE };
    /// Times of a client that transfers files.
    pub(crate) const FILES: Self =
        Self { service: true, stages: true, operations: true, ..Self::NONE };

    /// Returns the memory of one interval's histograms and accounts, bytes.
    pub(crate) fn bytes(self) -> u64 {
        let single = [self.service, self.writes, self.flushes, self.trims, self.response, self.gap];
        let n_histograms = single.map(u64::from).iter().sum::<u64>()
            + 2 * u64::from(self.variation)
            + 4 * u64::from(self.stages);
        n_histograms * Histogram::BYTES + EarlierByKind::bytes(self)
    }
}

/// Histograms of one interval, ns.
#[derive(Debug, Default)]
pub struct Histograms {
    /// Service times.
    pub service: Histogram,
    /// Service times of writes to disks and files.
    pub writes: Histogram,
    /// Times of flushes of disks and files.
    pub flushes: Histogram,
    /// Times of discards of disks and files.
    pub trims: Histogram,
    /// Response times.
    pub response: Histogram,
    /// Departure gaps.
    pub gap: Histogram,
    /// Decreases of delay from one frame of a flow to the next, without zeros.
    pub falls: Histogram,
    /// Increases of delay, including zeros.
    pub rises: Histogram,
    /// Times to open the connection of a file transfer.
    pub connect: Histogram,
    /// Times from a file's request to its first byte.
    pub first_byte: Histogram,
    /// Times from its first byte to its last.
    pub transfer: Histogram,
    /// Times from its last byte until the file is complete at its destination.
    pub close: Histogram,
}

impl Histograms {
    /// Returns empty histograms with memory for `times`.
    pub(crate) fn new(times: Times) -> Self {
        // A time that is not measured gets no memory, and recording into it does nothing.
        let histogram = |wanted: bool| if wanted { Histogram::new() } else { Histogram::default() };
        Self {
            service: histogram(times.service),
            writes: histogram(times.writes),
            flushes: histogram(times.flushes),
            trims: histogram(times.trims),
            response: histogram(times.response),
            gap: histogram(times.gap),
            falls: histogram(times.variation),
            rises: histogram(times.variation),
            connect: histogram(times.stages),
            first_byte: histogram(times.stages),
            transfer: histogram(times.stages),
            close: histogram(times.stages),
        }
    }

    /// Empties all of them.
    pub(crate) fn clear(&mut self) {
        self.service.clear();
        self.writes.clear();
        self.flushes.clear();
        self.trims.clear();
        self.response.clear();
        self.gap.clear();
        self.falls.clear();
        self.rises.clear();
        self.connect.clear();
        self.first_byte.clear();
        self.transfer.clear();
        self.close.clear();
    }
}

/// Counters and histograms of a worker. All memory is allocated before the measure phase.
#[derive(Debug, Default)]
pub struct Tally {
    /// Counters, monotone over the trial.
    pub counters: Counters,
    /// Times of this interval; cleared when the interval is cut.
    pub times: Histograms,
    /// Account of operations by the interval in which they were due.
    pub(crate) operations: Operations,
    /// Datagrams and frames, sent and received, by the sender's interval in which they were to
    /// depart.
    pub(crate) departures: Ticks,
    pub(crate) arrivals: Ticks,
    /// Operations of the current step that [`Tally::defer`] postponed.
    pub(crate) deferred: u32,
}

impl Tally {
    /// Creates an empty tally with memory for `times`.
    #[must_use]
    pub fn new(times: Times) -> Self {
        Self {
            counters: Counters::default(),
            times: Histograms::new(times),
            operations: Operations::new(times),
            departures: Ticks::default(),
            arrivals: Ticks::default(),
            deferred: 0,
        }
    }

    /// Starts this worker's intervals at `start`; they and those of the other end are `interval`
    /// long.
    pub(crate) fn begin(&mut self, start: Nanos, interval: Nanos) {
        (self.departures, self.arrivals) = (Ticks::new(interval), Ticks::new(interval));
        // Only the departures: the origin of the arrivals is the other end's, which its companion
        // reports later.
        self.departures.begin(start);
    }

    /// Adds `n` to `counter`.
    #[inline]
    pub fn add(&mut self, counter: Counter, n: u64) {
        // Wrapping: a panic in a hot path would cost more than a counter that nobody can fill.
        self.counters[counter] = self.counters[counter].wrapping_add(n);
    }

    /// Records the start of a request that was to start at `intended`.
    #[inline]
    pub fn started(&mut self, intended: Nanos) {
        self.started_of(OperationKind::Request, intended);
    }

    /// Records the start of an operation of `kind` that was to start at `intended`.
    #[inline]
    pub fn started_of(&mut self, kind: OperationKind, intended: Nanos) {
        let [due, ..] = kind.counters();
        self.add(due, 1);
        self.operations.started(kind, intended);
    }

    /// Records that a request was answered at `now`, and its times.
    #[inline]
    pub fn answered(&mut self, start: Start, now: Nanos) {
        self.times.service.record(now.since(start.at).0);
        self.times.response.record(now.since(start.intended).0);
        self.ended(OperationKind::Request, start, now);
    }

    /// Records that an operation of `kind` succeeded at `now`; the caller records its times.
    #[inline]
    pub fn ended(&mut self, kind: OperationKind, start: Start, now: Nanos) {
        let [_, answered, ..] = kind.counters();
        self.add(answered, 1);
        self.operations.answered(kind, start, now);
    }

    /// Records that a request was abandoned at `now`: infinitely slow, after a wait until now.
    #[inline]
    pub fn lost(&mut self, start: Start, now: Nanos) {
        self.lost_of(OperationKind::Request, start, now);
    }

    /// Records that an operation of `kind` was abandoned or failed at `now`.
    #[inline]
    pub(crate) fn lost_of(&mut self, kind: OperationKind, start: Start, now: Nanos) {
        match kind {
            OperationKind::Request => self.times.service.record_lost(),
            OperationKind::Write => self.times.writes.record_lost(),
            OperationKind::Flush => self.times.flushes.record_lost(),
            OperationKind::Trim => self.times.trims.record_lost(),
        }
        // Flushes are not in the response times either when they succeed.
        if kind != OperationKind::Flush {
            self.times.response.record_lost();
            // Counters of one kind have a fixed order: due, answered, lost, open.
        }
        let [_, _, lost, _] = kind.counters();
        self.add(lost, 1);
        self.operations.lost(kind, start, now);
    }

    /// Records that a request is still open at `now`, the end of the trial.
    pub fn left_open(&mut self, start: Start, now: Nanos) {
        self.left_open_of(OperationKind::Request, start, now);
    }

    /// Records that an operation of `kind` is still open at `now`, the end of the trial.
    pub(crate) fn left_open_of(&mut self, kind: OperationKind, start: Start, now: Nanos) {
        let [.., open] = kind.counters();
        self.add(open, 1);
        self.operations.left_open(kind, start, now);
    }

    /// Records at `now`, the end of the trial, that an operation of an open load that was to start
    /// at `intended` never did.
    pub(crate) fn never_started(&mut self, intended: Nanos, now: Nanos) {
        self.add(Counter::OperationsDue, 1);
        self.add(Counter::OperationsUnstarted, 1);
        self.operations.never_started(intended, now);
    }

    /// Postpones the last `n` operations of this step's [`crate::Due`], which could not be started.
    /// They will be due again at their intended times. Without this call they count as started.
    #[inline]
    pub fn defer(&mut self, n: u32) {
        self.deferred = n;
    }
}
