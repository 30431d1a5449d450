//! A worker's counters and histograms while it steps.

use linerate_model::{Counter, Counters, Nanos, OperationKind};

use crate::Histogram;
use crate::operations::{EarlierByKind, Operations, Start};
use crate::ticks::Ticks;

/// Which times a worker measures. Only these histograms get memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Whether it records into [`Tally::service`].
    pub service: bool,
    /// Whether it records into [`Tally::writes`].
    pub writes: bool,
    /// Whether it records into [`Tally::flushes`].
    pub flushes: bool,
    /// Whether it records into [`Tally::trims`].
    pub trims: bool,
    /// Whether it records into [`Tally::response`].
    pub response: bool,
    /// Whether it records into [`Tally::gap`].
    pub gap: bool,
    /// Whether it records into [`Tally::falls`] and [`Tally::rises`].
    pub variation: bool,
    /// Whether it records into [`Tally::connect`], [`Tally::first_byte`], [`Tally::transfer`] and
    /// [`Tally::close`].
    pub stages: bool,
    /// Whether it records which operations were due, answered, lost and left open
    /// ([`Tally::started`] and those below it).
    pub operations: bool,
}

impl Times {
    /// All of them.
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
    /// None: only counters.
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
    /// Of a client that sends requests.
    pub(crate) const REQUESTS: Self =
        Self { service: true, response: true, operations: true, ..Self::NONE };
    /// Of a client that moves files.
    pub(crate) const FILES: Self =
        Self { service: true, stages: true, operations: true, ..Self::NONE };

    /// Memory of one interval's histograms and accounts, bytes.
    pub(crate) fn bytes(self) -> u64 {
        let single = [self.service, self.writes, self.flushes, self.trims, self.response, self.gap];
        let n_histograms = single.map(u64::from).iter().sum::<u64>()
            + 2 * u64::from(self.variation)
            + 4 * u64::from(self.stages);
        n_histograms * Histogram::BYTES + EarlierByKind::bytes(self)
    }
}

/// What a worker counts into. All of it is allocated before the measure phase.
#[derive(Debug, Default)]
pub struct Tally {
    /// Counters, monotone over the trial.
    pub counters: Counters,
    /// Service times of this interval, ns; emptied when the interval is cut.
    pub service: Histogram,
    /// Service times of writes to disks and files in this interval, ns.
    pub writes: Histogram,
    /// Times of flushes of disks and files in this interval, ns.
    pub flushes: Histogram,
    /// Times of discards of disks and files in this interval, ns.
    pub trims: Histogram,
    /// Response times of this interval, ns.
    pub response: Histogram,
    /// Departure gaps of this interval, ns.
    pub gap: Histogram,
    /// How much less delay a frame had than the one sent before it on its flow, ns; no zeros.
    pub falls: Histogram,
    /// How much more, or as much.
    pub rises: Histogram,
    /// Times to open the connection that carries a file, ns.
    pub connect: Histogram,
    /// From a file's request to its first byte.
    pub first_byte: Histogram,
    /// From its first byte to its last.
    pub transfer: Histogram,
    /// From its last byte until it is where it belongs.
    pub close: Histogram,
    /// To which interval each operation belongs.
    pub(crate) operations: Operations,
    /// Datagrams and frames sent, and those that came, by the interval of their sender in which
    /// they were to depart.
    pub(crate) departures: Ticks,
    pub(crate) arrivals: Ticks,
    /// Operations of the current step put off by [`Tally::defer`].
    pub(crate) deferred: u32,
}

impl Tally {
    /// An empty tally with memory for `times`.
    #[must_use]
    pub fn new(times: Times) -> Self {
        let histogram = |wanted: bool| if wanted { Histogram::new() } else { Histogram::default() };
        Self {
            counters: Counters::default(),
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
            operations: Operations::new(times),
            departures: Ticks::default(),
            arrivals: Ticks::default(),
            deferred: 0,
        }
    }

    /// Says that this worker's intervals begin at `start`, and that they and those of the other end
    /// are `interval` long.
    pub(crate) fn begin(&mut self, start: Nanos, interval: Nanos) {
        (self.departures, self.arrivals) = (Ticks::new(interval), Ticks::new(interval));
        self.departures.begin(start);
    }

    /// Adds `n` to `counter`.
    #[inline]
    pub fn add(&mut self, counter: Counter, n: u64) {
        self.counters[counter] = self.counters[counter].wrapping_add(n);
    }

    /// A request that was to start at `intended` has started.
    #[inline]
    pub fn started(&mut self, intended: Nanos) {
        self.started_of(OperationKind::Request, intended);
    }

    /// An operation of `kind` that was to start at `intended` has started.
    #[inline]
    pub fn started_of(&mut self, kind: OperationKind, intended: Nanos) {
        let [due, ..] = kind.counters();
        self.add(due, 1);
        self.operations.started(kind, intended);
    }

    /// A request was answered at `now`: records its times.
    #[inline]
    pub fn answered(&mut self, start: Start, now: Nanos) {
        self.service.record(now.since(start.at).0);
        self.response.record(now.since(start.intended).0);
        self.ended(OperationKind::Request, start, now);
    }

    /// An operation of `kind` ended well at `now`; whoever calls this records its times.
    #[inline]
    pub fn ended(&mut self, kind: OperationKind, start: Start, now: Nanos) {
        let [_, answered, ..] = kind.counters();
        self.add(answered, 1);
        self.operations.answered(kind, start, now);
    }

    /// A request was given up at `now`: infinitely slow, and waited for that long.
    #[inline]
    pub fn lost(&mut self, start: Start, now: Nanos) {
        self.lost_of(OperationKind::Request, start, now);
    }

    /// An operation of `kind` was given up or failed at `now`.
    #[inline]
    pub(crate) fn lost_of(&mut self, kind: OperationKind, start: Start, now: Nanos) {
        match kind {
            OperationKind::Request => self.service.record_lost(),
            OperationKind::Write => self.writes.record_lost(),
            OperationKind::Flush => self.flushes.record_lost(),
            OperationKind::Trim => self.trims.record_lost(),
        }
        if kind != OperationKind::Flush {
            self.response.record_lost();
        }
        let [_, _, lost, _] = kind.counters();
        self.add(lost, 1);
        self.operations.lost(kind, start, now);
    }

    /// A request is still open at `now`, the end of the trial.
    pub fn left_open(&mut self, start: Start, now: Nanos) {
        self.left_open_of(OperationKind::Request, start, now);
    }

    /// An operation of `kind` is still open at `now`, the end of the trial.
    pub(crate) fn left_open_of(&mut self, kind: OperationKind, start: Start, now: Nanos) {
        let [.., open] = kind.counters();
        self.add(open, 1);
        self.operations.left_open(kind, start, now);
    }

    /// One of an open load that was to start at `intended` never did, and now it is `now`, the end
    /// of the trial.
    pub(crate) fn never_started(&mut self, intended: Nanos, now: Nanos) {
        self.add(Counter::OperationsDue, 1);
        self.add(Counter::OperationsUnstarted, 1);
        self.operations.never_started(intended, now);
    }

    /// Says that the last `n` operations of this step's [`crate::Due`] could not be started. They
    /// will be due again, at their intended times; without this they count as started.
    #[inline]
    pub fn defer(&mut self, n: u32) {
        self.deferred = n;
    }
}
