//! Intervals on their way from a worker's thread to the collector.
//!
//! Buffers circulate. The worker takes an empty buffer from one ring, swaps its histograms into it
//! and sends it through another ring. The collector reads it, empties it and sends it back. Nothing
//! is allocated and nobody waits. Without an empty buffer the worker does not cut, and its interval
//! merges into the next one.

use linerate_model::{Counter, Counters, FlowTcp, Interval, Nanos, Stages, StepGap, Variation};
use linerate_sys::cpu::{RunQueueWait, ThreadUsage};
use rtrb::{Consumer, Producer, RingBuffer};

use super::lookout::Stopped;
use crate::operations::EarlierByKind;
use crate::tally::Histograms;
use crate::ticks::ByTick;
use crate::{Tally, Times, Worker};

/// Buffers in circulation per worker. With the usual intervals of 100 ms a collector may pause for
/// more than a second before intervals begin to merge.
const N_BUFFERS: usize = 16;

/// Time between two readings of a worker's CPU time. A gap between its steps may seem shorter by
/// this much than it was.
const LOOK_EVERY: Nanos = Nanos::from_millis(5);

/// One interval, in memory that is reused.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    start: Nanos,
    end: Nanos,
    counters: Counters,
    held_bytes: Option<u64>,
    longest_step: Option<StepGap>,
    times: Histograms,
    earlier: EarlierByKind,
    departures: ByTick,
    arrivals: ByTick,
    flows: Vec<FlowTcp>,
}

/// Worker's end of a lane.
#[derive(Debug)]
pub(super) struct Cutter {
    empty: Consumer<Box<Buffer>>,
    full: Producer<Box<Buffer>>,
    /// Buffer for the very last interval, so that it is never lost.
    reserve: Option<Box<Buffer>>,
    /// Start of the current interval, and the counters at that time.
    start: Nanos,
    counters: Counters,
    usage: ThreadUsage,
    /// Opened on the worker's thread; absent if the kernel does not account waits.
    wait: Option<RunQueueWait>,
    waited: u64,
    steps: StepClock,
}

/// Finds the longest gap between the steps of one worker. It reads the CPU time of the thread only
/// every [`LOOK_EVERY`], because that takes a system call.
#[derive(Debug, Default)]
struct StepClock {
    /// Longest gap of the current interval, on the monotonic clock.
    longest: StepGap,
    looked: Nanos,
    ran_ns: u64,
    /// For a worker whose steps may wait for a disk: only a stop of the whole process is a stall.
    stopped: Option<(Stopped, Nanos)>,
}

impl StepClock {
    /// Starts at the begin of the load, when the thread has used `cpu_ns` of CPU time.
    fn begin(&mut self, now: Nanos, cpu_ns: u64) {
        let _before: Nanos = self.note(now, cpu_ns);
        // The stops before the load began are not part of it.
        if let Some((stopped, behind)) = &mut self.stopped {
            *behind = stopped.behind(now);
        }
    }

    /// Takes the gap from `from`, when a step was to begin, to `until`, when the next one did;
    /// `cpu` reads the CPU time of the thread.
    #[inline]
    fn stepped(&mut self, from: Nanos, until: Nanos, cpu: fn() -> u64) {
        let length = until.since(from);
        let gap = if let Some((stopped, behind)) = &mut self.stopped {
            let before = std::mem::replace(behind, stopped.behind(until));
            let stood = behind.since(before).min(length);
            // Steps wait for a few milliseconds if they can, so a stop usually falls into such a
            // wait and ends it.
            StepGap { start: until.since(stood), length: stood, ran: Nanos(0) }
        } else {
            let ran = if until.since(self.looked) < LOOK_EVERY {
                Nanos(0)
            } else {
                self.note(until, cpu())
            };
            StepGap { start: from, length, ran }
        };
        // Compared by the time for which the thread did not run: a long step that computes is no
        // stall.
        if gap.stood() > self.longest.stood() {
            self.longest = gap;
        }
    }

    /// Returns the CPU time since the last reading; the thread has used `cpu_ns` in all by `now`.
    #[cold]
    fn note(&mut self, now: Nanos, cpu_ns: u64) -> Nanos {
        let before = std::mem::replace(&mut self.ran_ns, cpu_ns);
        self.looked = now;
        Nanos(self.ran_ns.saturating_sub(before))
    }
}

/// Returns the CPU time of the calling thread, nanoseconds.
#[cold]
fn cpu_of_this_thread() -> u64 {
    let usage = ThreadUsage::of_this_thread();
    usage.user_ns + usage.system_ns
}

/// Collector's end of a lane.
#[derive(Debug)]
pub(super) struct Collector {
    worker: u32,
    /// Start barrier.
    origin: Nanos,
    full: Consumer<Box<Buffer>>,
    empty: Producer<Box<Buffer>>,
}

/// Creates both ends for worker `number`; intervals count from `origin`. A worker that may wait for
/// a disk has a clock that stops while this process is stopped.
pub(super) fn lane(
    number: u32,
    origin: Nanos,
    worker: &dyn Worker,
    stopped: Option<Stopped>,
    // Two rings, one for each direction: each has one producer and one consumer, so neither end
    // takes a lock.
) -> (Cutter, Collector) {
    let (mut to_worker, empty) = RingBuffer::new(N_BUFFERS);
    let (full, from_worker) = RingBuffer::new(N_BUFFERS);
    for _ in 0..N_BUFFERS {
        to_worker.push(buffer(worker)).expect("a ring holds as many buffers as it was made for");
    }
    let cutter = Cutter {
        empty,
        full,
        reserve: Some(buffer(worker)),
        start: origin,
        counters: Counters::default(),
        usage: ThreadUsage::default(),
        wait: None,
        waited: 0,
        steps: StepClock {
            stopped: stopped.map(|stopped| (stopped, Nanos(0))),
            ..StepClock::default()
        },
    };
    (cutter, Collector { worker: number, origin, full: from_worker, empty: to_worker })
}

/// Returns the memory of the histograms and accounts of a worker with `times`, bytes: those in use,
/// and those on their way to the collector.
pub(crate) fn bytes(times: Times) -> u64 {
    (N_BUFFERS as u64 + 2) * times.bytes()
}

fn buffer(worker: &dyn Worker) -> Box<Buffer> {
    let times = worker.times();
    Box::new(Buffer {
        times: Histograms::new(times),
        earlier: EarlierByKind::new(times),
        flows: Vec::with_capacity(worker.n_flows()),
        ..Buffer::default()
    })
}

impl Cutter {
    /// Opens what is read at each cut. Call it on the worker's thread, before the barrier.
    pub(super) fn prepare(&mut self) {
        self.wait = RunQueueWait::of_this_thread().ok();
    }

    /// Starts the load. Call it on the worker's thread: its CPU time and waits for a CPU count from
    /// here.
    pub(super) fn begin(&mut self, now: Nanos) {
        self.start = now;
        // CPU time is read before the load, so that opening files and connections does not count.
        self.steps.begin(now, cpu_of_this_thread());
        self.usage = ThreadUsage::of_this_thread();
        self.waited = self.wait.as_ref().and_then(RunQueueWait::nanos).unwrap_or(0);
    }

    /// Records that the worker was to take a step at `from`, and took the next one at `until`.
    #[inline]
    pub(super) fn stepped(&mut self, from: Nanos, until: Nanos) {
        self.steps.stepped(from, until, cpu_of_this_thread);
    }

    /// Ends the current interval at `now` and sends it, if there is a buffer for it. An operation
    /// that was due before `boundary`, the scheduled end of the interval, belongs to it or to an
    /// earlier one.
    pub(super) fn cut(
        &mut self,
        now: Nanos,
        boundary: Nanos,
        tally: &mut Tally,
        worker: &mut dyn Worker,
    ) {
        // Without a buffer the interval simply continues: a slow collector costs resolution, and
        // the worker never waits for it.
        if let Ok(mut buffer) = self.empty.pop() {
            buffer.flows.clear();
            worker.observe(&mut buffer.flows);
            buffer.held_bytes = worker.held_bytes();
            self.fill(&mut buffer, now, tally);
            tally.operations.cut(boundary);
            self.full.push(buffer).expect("there are no more buffers than the ring has room for");
        }
    }

    /// Ends the current interval with the last arrival, if `worker` has only waited since then.
    pub(super) fn cut_quiet(&mut self, tally: &mut Tally, worker: &mut dyn Worker) {
        if let Some(since) = worker.quiet_since().filter(|since| *since > self.start) {
            self.cut(since, since, tally, worker);
        }
    }

    /// Ends the last interval at `now`; called once. `worker` is absent if it panicked.
    pub(super) fn last(
        &mut self,
        now: Nanos,
        tally: &mut Tally,
        worker: Option<&mut dyn Worker>,
    ) -> Option<Box<Buffer>> {
        // The ring may be full or its collector gone, so the last interval does not use it.
        let mut buffer = self.reserve.take()?;
        if let Some(worker) = worker {
            worker.observe(&mut buffer.flows);
            buffer.held_bytes = worker.held_bytes();
        }
        self.fill(&mut buffer, now, tally);
        Some(buffer)
    }

    fn fill(&mut self, buffer: &mut Buffer, now: Nanos, tally: &mut Tally) {
        let used = ThreadUsage::of_this_thread().since(&self.usage);
        // If the kernel stops accounting waits, the last value stays: the difference is then zero.
        let waited = self.wait.as_ref().and_then(RunQueueWait::nanos).unwrap_or(self.waited);
        for (counter, value) in [
            (Counter::CpuUser, used.user_ns),
            (Counter::CpuSystem, used.system_ns),
            (Counter::VoluntarySwitches, used.voluntary_switches),
            (Counter::InvoluntarySwitches, used.involuntary_switches),
            (Counter::RunQueueWait, waited.saturating_sub(self.waited)),
        ] {
            // Totals, not differences: the counters of a tally are monotone.
            tally.counters[counter] = value;
        }
        (buffer.start, buffer.end) = (self.start, now);
        buffer.longest_step = Some(std::mem::take(&mut self.steps.longest));
        buffer.counters = tally.counters.since(&self.counters);
        // Swapped instead of copied: a histogram has 213 KiB.
        std::mem::swap(&mut buffer.times, &mut tally.times);
        std::mem::swap(&mut buffer.earlier, &mut tally.operations.earlier);
        for (kept, ticks) in [
            (&mut buffer.departures, &mut tally.departures),
            (&mut buffer.arrivals, &mut tally.arrivals),
        ] {
            // Counts of the interval under way would otherwise be missing in its table.
            ticks.settle();
            std::mem::swap(kept, &mut ticks.by_tick);
        }
        (self.start, self.counters) = (now, tally.counters);
    }
}

impl Collector {
    /// Appends every interval that has arrived, and returns its buffers to the worker.
    pub(super) fn take(&mut self, intervals: &mut Vec<Interval>) {
        while let Ok(mut buffer) = self.full.pop() {
            intervals.push(self.read(&buffer));
            buffer.times.clear();
            buffer.earlier.clear();
            buffer.departures.clear();
            buffer.arrivals.clear();
            // The worker may have ended and dropped its end. Then the buffer is freed here.
            let _: Result<(), _> = self.empty.push(buffer);
        }
    }

    /// Returns true if nothing has arrived.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.full.is_empty()
    }

    /// Returns the interval with which the worker's thread ended, unless it is empty.
    pub(super) fn last(&self, buffer: Option<Box<Buffer>>) -> Option<Interval> {
        let interval = self.read(&*buffer?);
        (interval.end > interval.start).then_some(interval)
    }

    fn read(&self, buffer: &Buffer) -> Interval {
        let mut interval = Interval {
            worker: self.worker,
            start: buffer.start.since(self.origin),
            end: buffer.end.since(self.origin),
            counters: buffer.counters.into(),
            held_bytes: buffer.held_bytes,
            longest_step: buffer
                .longest_step
                .map(|longest| StepGap { start: longest.start.since(self.origin), ..longest }),
            service: buffer.times.service.distribution().into(),
            writes: buffer.times.writes.distribution().into(),
            flushes: buffer.times.flushes.distribution().into(),
            trims: buffer.times.trims.distribution().into(),
            response: buffer.times.response.distribution().into(),
            gap: buffer.times.gap.distribution().into(),
            variation: Variation {
                falls: buffer.times.falls.distribution(),
                rises: buffer.times.rises.distribution(),
            }
            .into(),
            stages: Stages {
                connect: buffer.times.connect.distribution(),
                first_byte: buffer.times.first_byte.distribution(),
                transfer: buffer.times.transfer.distribution(),
                close: buffer.times.close.distribution(),
            }
            .into(),
            departures: buffer.departures.distribution().into(),
            arrivals: buffer.arrivals.distribution().into(),
            flows: buffer.flows.clone(),
            ..Interval::default()
        };
        buffer.earlier.fill(&mut interval);
        interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_long_step_knows_how_much_of_it_the_thread_ran() {
        let mut steps =
            StepClock { looked: Nanos(100 * MS), ran_ns: 7 * MS, ..StepClock::default() };
        // Too soon after the last reading for another system call.
        steps.stepped(Nanos(100 * MS), Nanos(104 * MS), || panic!("a system call"));
        assert_eq!(
            steps.longest,
            StepGap { start: Nanos(100 * MS), length: Nanos(4 * MS), ran: Nanos(0) }
        );
        // 20 ms of CPU time since that reading.
        steps.stepped(Nanos(104 * MS), Nanos(134 * MS), || 27 * MS);
        assert_eq!(
            steps.longest,
            StepGap { start: Nanos(104 * MS), length: Nanos(30 * MS), ran: Nanos(20 * MS) }
        );
        // The scheduler's clock may run ahead of ours. A thread that ran all the time was not
        // stalled at all.
        steps.longest = StepGap::default();
        steps.stepped(Nanos(134 * MS), Nanos(164 * MS), || 58 * MS);
        assert_eq!(steps.longest, StepGap::default());
    }

    #[test]
    fn cpu_time_of_a_thread_that_works_goes_on() {
        let before = cpu_of_this_thread();
        let began = std::time::Instant::now();
        while cpu_of_this_thread() == before {
            assert!(began.elapsed().as_secs() < 30, "no CPU time in 30 s of work");
        }
        assert!(cpu_of_this_thread() > before);
    }

    #[test]
    fn a_step_that_may_wait_for_a_disk_is_stalled_only_while_the_process_is() {
        let ms = Nanos::from_millis;
        let clock = Stopped::new(ms(1_000));
        let mut steps =
            StepClock { stopped: Some((clock.clone(), Nanos(0))), ..StepClock::default() };
        steps.begin(ms(1_000), 0);
        // A disk takes 200 ms while the process runs.
        (0..50).for_each(|k| clock.slept(ms(1_000 + 4 * k), ms(1_004 + 4 * k)));
        steps.stepped(ms(1_000), ms(1_201), || 0);
        assert!(steps.longest.stood() <= ms(1), "{:?}", steps.longest);
        // The disk takes another 200 ms, and at their end the process is stopped for 50 ms.
        (0..37).for_each(|k| clock.slept(ms(1_200 + 4 * k), ms(1_204 + 4 * k)));
        clock.slept(ms(1_348), ms(1_400));
        steps.stepped(ms(1_201), ms(1_401), || 0);
        assert_eq!(steps.longest, StepGap { start: ms(1_401 - 48), length: ms(48), ran: Nanos(0) });
    }

    #[test]
    fn the_gap_with_the_longest_stall_is_kept() {
        let mut steps = StepClock { looked: Nanos(100), ..StepClock::default() };
        for (from, until) in [(100, 200), (200, 900), (900, 1000)] {
            steps.stepped(Nanos(from), Nanos(until), || 0);
        }
        assert_eq!(steps.longest, StepGap { start: Nanos(200), length: Nanos(700), ran: Nanos(0) });
    }
}
