//! Thread of one worker: wait for the barrier, load, drain, finish.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use linerate_model::{Counter, FlowReport, Incident, IncidentKind, Nanos};
use linerate_sys::{clock, cpu};

use super::incident;
use super::interval::{Buffer, Cutter};
use super::rate_limit::sent_bytes;
use super::{RateLimit, Timeline};
use crate::{Due, Pacer, Progress, Tally, Worker};

/// Longest wait of a step.
const PATIENCE: Nanos = Nanos::from_millis(10);
/// Mode in which a flow reports where its worker ran, and its value for a worker that was not
/// pinned.
const WORKER_CPU: &str = "worker_cpu";
const ANY_CPU: &str = "any CPU";
/// Suffix for a worker that ran before the threads of other programs.
const RUNS_FIRST: &str = ", before other programs (SCHED_FIFO)";
/// Time before the barrier that is spun instead of slept: a sleeping thread wakes up to 100 us
/// late.
const BARRIER_SPIN: Nanos = Nanos(100_000);
/// Interval at which a thread that waits for the barrier checks if it should stop.
const BARRIER_SLICE: Nanos = Nanos::from_millis(20);
/// A burst of steps per clock reading doubles while it takes less than this. Reading the clock
/// costs about 25 ns. A step with a system call is never shorter than this twice in a row, so it
/// gets a fresh reading each time.
const SHORT_BURST: Nanos = Nanos(250);
/// Most steps per clock reading.
const LONGEST_BURST: u32 = 64;
/// Tolerance for a worker that ends before the end of its load: the peer's clock may be ahead of
/// ours.
const EARLY: Nanos = Nanos::from_millis(100);

/// Time after its end in which an open load may catch up: operations that were due before the end
/// are then late instead of missing. A thread on a busy machine gets its CPU back within one or two
/// scheduler slices (`sched_base_slice`, at most 3 ms), and the drain waits for the answers.
const CATCH_UP: Nanos = Nanos::from_millis(10);

/// Longest time in which a worker that was late for the end of the drain takes what has arrived: a
/// socket buffer of 32 MiB is read in a part of it.
const LAST_LOOK: Nanos = Nanos::from_millis(50);

/// Task of one thread.
pub(super) struct Task {
    pub(super) number: u32,
    pub(super) timeline: Timeline,
    pub(super) cpu: Option<usize>,
    pub(super) seed: u64,
    pub(super) stop: Arc<AtomicBool>,
    /// Limit for what the workers of the trial may send.
    pub(super) limit: Option<Arc<RateLimit>>,
}

/// Results of a thread.
#[derive(Debug, Default)]
pub(super) struct Ending {
    pub(super) last: Option<Box<Buffer>>,
    pub(super) flows: Vec<FlowReport>,
    pub(super) incidents: Vec<Incident>,
    pub(super) started: Option<Nanos>,
}

/// Running worker.
struct Run<'a> {
    task: &'a Task,
    worker: &'a mut dyn Worker,
    tally: &'a mut Tally,
    cutter: &'a mut Cutter,
    /// End of the current interval.
    tick: Nanos,
    started: &'a mut Option<Nanos>,
    /// Sent bytes of the worker that the limit has already counted.
    counted_bytes: u64,
    /// True once the worker has sent a load with an end of its own.
    has_sent_all: bool,
}

impl Task {
    pub(super) fn run(self, mut worker: Box<dyn Worker>, mut cutter: Cutter) -> Ending {
        let mut ending = Ending::default();
        // A refused setting is an incident and not a failure: figures of an unpinned worker are
        // valid, but the report must say that they are.
        let mut cpu = self.cpu;
        if let Some(Err(error)) = self.cpu.map(cpu::pin) {
            cpu = None;
            let message = format!(
                "worker {} runs unpinned: {error} (is the CPU inside this process's cpuset?)",
                self.number
            );
            ending.incidents.push(incident(IncidentKind::NotGranted, message));
        }
        let mut runs_first = worker.runs_first();
        if let Some(Err(error)) = runs_first.then(cpu::run_first) {
            runs_first = false;
            let message = format!(
                "worker {} runs at normal priority: {error} (run as root, or `setcap \
                    cap_sys_nice+ep` the program)",
                self.number
            );
            ending.incidents.push(incident(IncidentKind::NotGranted, message));
        }
        cutter.prepare();
        let mut tally = Tally::new(worker.times());
        tally.begin(self.timeline.start, self.timeline.interval);
        let mut run = Run {
            task: &self,
            worker: &mut *worker,
            tally: &mut tally,
            cutter: &mut cutter,
            tick: Nanos(0),
            started: &mut ending.started,
            counted_bytes: 0,
            has_sent_all: false,
        };
        // The worker is not used after a panic, and the tally contains plain numbers, which are
        // never half-written in a way that matters.
        match catch_unwind(AssertUnwindSafe(|| run.phases())) {
            Ok(early) => {
                let flows = catch_unwind(AssertUnwindSafe(|| {
                    let end = now();
                    if ending.started.is_some() {
                        cutter.cut_quiet(&mut tally, &mut *worker);
                    }
                    // Operations left open must be in the last interval, so they are counted before
                    // it is cut.
                    worker.leave_open(end, &mut tally);
                    ending.last = ending
                        .started
                        .and_then(|_| cutter.last(end, &mut tally, Some(&mut *worker)));
                    worker.finish()
                }));
                let complaint =
                    // The first panic is the one to report, so a second one here is ignored.
                    catch_unwind(AssertUnwindSafe(|| worker.complaint())).ok().flatten();
                // The worker's own reason is more specific than "ended early".
                ending.incidents.extend(match complaint {
                    Some(complaint) => Some(self.complained(&complaint)),
                    None => early.map(|early| self.ended_early(early)),
                });
                match flows {
                    Ok(mut flows) => {
                        let mut place =
                            cpu.map_or_else(|| ANY_CPU.to_owned(), |cpu| format!("CPU {cpu}"));
                        if runs_first {
                            place += RUNS_FIRST;
                        }
                        flows.iter_mut().for_each(|flow| {
                            drop(flow.modes.insert(WORKER_CPU.to_owned(), place.clone()))
                        });
                        // Workers record gaps on this host's clock; reports count from the barrier.
                        let start = self.timeline.start;
                        flows.iter_mut().for_each(|flow| {
                            flow.last_gap = flow.last_gap.map(|gap| gap.since(start))
                        });
                        ending.flows = flows;
                    }
                    Err(panic) => ending.incidents.push(self.panicked(&*panic)),
                }
            }
            Err(panic) => {
                ending.last = ending.started.and_then(|_| cutter.last(now(), &mut tally, None));
                ending.incidents.push(self.panicked(&*panic));
            }
        }
        ending
    }

    fn ended_early(&self, early: Nanos) -> Incident {
        let message = format!(
            "worker {} ended {:.3} s before the end of its load: all its flows had ended (did the \
                peer close, or vanish?)",
            self.number,
            early.as_secs_f64()
        );
        incident(IncidentKind::WorkerStopped, message)
    }

    fn complained(&self, complaint: &str) -> Incident {
        incident(IncidentKind::WorkerStopped, format!("worker {}: {complaint}", self.number))
    }

    fn panicked(&self, panic: &(dyn Any + Send)) -> Incident {
        let what = panic
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let message = format!("worker {} panicked: {}", self.number, what.unwrap_or("no message"));
        incident(IncidentKind::WorkerStopped, message)
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Run<'_> {
    /// Runs everything from the barrier to the end of the drain. Returns how much too early the
    /// worker ended, if it did.
    fn phases(&mut self) -> Option<Nanos> {
        let timeline = self.task.timeline;
        if !self.wait(timeline.load_from.max(timeline.start)) {
            return None;
        }
        let began = now();
        *self.started = Some(began);
        self.cutter.begin(began);
        // A late start is a gap like any other: the worker should have stepped since the barrier.
        self.cutter.stepped(timeline.load_from.max(timeline.start), began);
        self.tick = next_tick(&timeline, began);
        let own_start = (timeline.load_from + self.worker.starts_after()).min(timeline.load_until);
        let mut pacer = Pacer::new(self.worker.load(), own_start, self.task.seed);
        let mut progress = Progress::Moved;
        if own_start > timeline.load_from {
            // A delayed worker answers and reads before its own load begins, but starts nothing.
            progress = self.span(own_start, None);
        }
        if progress != Progress::Ended {
            progress = self.span(timeline.load_until, Some(&mut pacer));
        }
        if progress != Progress::Ended {
            progress = self.catch_up(&mut pacer);
        }
        // A worker that ended early is only measured against what was due until then.
        let due_until = now().min(last_of(&timeline));
        self.account(Some(&pacer).filter(|_| !self.has_sent_all), due_until);
        if progress == Progress::Ended {
            self.abandon(&mut pacer, due_until);
            let early = timeline.load_until.since(now());
            // Below an interval the loss does not show in any rate.
            let is_incident = early > EARLY.max(timeline.interval) && !self.worker.may_end_early();
            return is_incident.then_some(early);
        }
        self.worker.stop_sending();
        if !self.task.stopped() {
            // The end of the load is a boundary of its own: the analysis separates load and drain
            // by it.
            let at = now();
            // An interval boundary here keeps the drain out of the last interval of the load.
            self.cutter.cut(at, at, self.tally, self.worker);
            if self.span(timeline.drain_until, None) != Progress::Ended {
                self.last_look();
            }
        }
        self.abandon(&mut pacer, due_until);
        None
    }

    /// Takes what has arrived, if the thread had no CPU when the drain ended: it is no loss.
    fn last_look(&mut self) {
        let Timeline { load_until, drain_until, .. } = self.task.timeline;
        let mut at = now();
        if drain_until == load_until || at < drain_until + CATCH_UP {
            return;
        }
        let until = at + LAST_LOOK;
        while at < until && !self.task.stopped() {
            let due = Due { operations: 0, intended: at, gap: Nanos(0), until: at };
            if self.burst(due, 1) != Progress::Moved {
                return;
            }
            at = now();
        }
    }

    /// Records the operations of an open load that were due by `until` and never started. They have
    /// waited since they were due.
    fn abandon(&mut self, pacer: &mut Pacer, until: Nanos) {
        if !pacer.is_open() || !self.tally.operations.is_kept() || self.has_sent_all {
            return;
        }
        let at = now();
        loop {
            let due = pacer.next(until, until);
            if due.operations == 0 {
                return;
            }
            for k in 0..u64::from(due.operations) {
                self.tally.never_started(Nanos(due.intended.0 + k * due.gap.0), at);
            }
        }
    }

    /// Waits for the barrier; returns false if asked to stop before.
    fn wait(&self, barrier: Nanos) -> bool {
        // In a loop: a sleep in slices may end before the barrier.
        while now() < barrier {
            if self.task.stopped() {
                return false;
            }
            // In slices, so that a trial that is cancelled before its barrier ends at once.
            let slice = now() + BARRIER_SLICE;
            // The last stretch is spun, which needs a whole slice before it.
            if slice + BARRIER_SPIN < barrier {
                clock::sleep_until(slice.0, 0);
            } else {
                clock::sleep_until(barrier.0, BARRIER_SPIN.0);
            }
        }
        !self.task.stopped()
    }

    /// Steps until `end`, until the worker has ended, or until asked to stop, and cuts intervals on
    /// the way. Without a pacer nothing is due.
    fn span(&mut self, end: Nanos, mut pacer: Option<&mut Pacer>) -> Progress {
        let timeline = self.task.timeline;
        // An open load needs a fresh clock reading per step: its operations are due at set times.
        let may_burst = pacer.as_ref().is_none_or(|pacer| !pacer.is_open());
        let mut burst = 1;
        let mut at = now();
        while at < end && !self.task.stopped() {
            if pacer.is_some() && self.worker.has_sent_all() {
                self.account(pacer.take().as_deref(), at);
                self.has_sent_all = true;
            }
            if at >= self.tick {
                self.account(pacer.as_deref(), at);
                self.tick = next_tick(&timeline, at);
                // An operation of an open load starts only after it is due, so none that belongs
                // after the tick has started yet. An operation of a closed load is due when it
                // starts, up to this very cut.
                let boundary = if may_burst { at } else { self.tick.since(timeline.interval) };
                self.cutter.cut_quiet(self.tally, self.worker);
                self.cutter.cut(at, boundary, self.tally, self.worker);
            }
            // No wait crosses a tick or the end, so intervals are cut on time also when nothing
            // moves.
            let patience = (at + PATIENCE).min(self.tick).min(end);
            let may_send = self.may_send_from(at) <= at;
            if !may_send && may_burst {
                // A step of a closed load always sends, so it must wait here.
                clock::sleep_until(self.may_send_from(at).min(patience).0, 0);
                let before = std::mem::replace(&mut at, now());
                self.cutter.stepped(before, at);
                continue;
            }
            let due = match pacer.as_deref_mut().filter(|_| may_send) {
                Some(pacer) => pacer.next(at, patience),
                None => Due { operations: 0, intended: at, gap: Nanos(0), until: patience },
            };
            let progress = self.burst(due, burst);
            self.report_to_limit();
            if let Some(pacer) = &mut pacer {
                // What could not be started is due again at once, with its original time.
                pacer.give_back(std::mem::take(&mut self.tally.deferred));
            }
            // A worker that has ended must not be stepped again.
            if progress == Progress::Ended {
                return Progress::Ended;
            }
            let before = std::mem::replace(&mut at, now());
            self.cutter.stepped(before, at);
            if may_burst {
                let short = at.since(before) < SHORT_BURST;
                // Doubled and halved: the burst follows a workload whose steps change in cost, such
                // as a socket that becomes full.
                burst = if short { (burst * 2).min(LONGEST_BURST) } else { (burst / 2).max(1) };
            }
        }
        Progress::Moved
    }

    /// Starts operations of an open load that were due before its end and have not started.
    fn catch_up(&mut self, pacer: &mut Pacer) -> Progress {
        let timeline = self.task.timeline;
        // The drain belongs to answers, so catching up never goes beyond it.
        let until = (timeline.load_until + CATCH_UP).min(timeline.drain_until);
        let may_start = pacer.is_open() && !self.has_sent_all;
        while may_start && now() < until && !self.task.stopped() {
            let at = now();
            if self.may_send_from(at) > at {
                // Operations that the limit has postponed must not be sent at once.
                break;
            }
            // Asked for the end of the load, not for now: nothing that is due later may start.
            let due = pacer.next(last_of(&timeline), until);
            if due.operations == 0 {
                break;
            }
            let progress = self.burst(due, 1);
            self.report_to_limit();
            pacer.give_back(std::mem::take(&mut self.tally.deferred));
            if progress == Progress::Ended {
                return progress;
            }
        }
        Progress::Moved
    }

    /// Counts the operations of an open load that were due by `at`, and those that have started.
    fn account(&mut self, pacer: Option<&Pacer>, at: Nanos) {
        if let Some((due, started)) = pacer.and_then(|pacer| pacer.account(at)) {
            // Of overdue random arrivals only the expected number is known, and fewer may be drawn
            // later. A counter never goes back: its differences would wrap.
            for (counter, n) in [(Counter::Intended, due), (Counter::Started, started)] {
                let total = &mut self.tally.counters[counter];
                *total = n.max(*total);
            }
        }
    }

    /// Returns the time from which a step that sends may begin; `at` if at once.
    fn may_send_from(&self, at: Nanos) -> Nanos {
        self.task.limit.as_ref().map_or(at, |limit| limit.next(self.task.timeline.start, at))
    }

    /// Reports to the limit what the last step sent.
    fn report_to_limit(&mut self) {
        if let Some(limit) = &self.task.limit {
            let sent = sent_bytes(&self.tally.counters);
            // Counters are totals; the limit takes differences, because other workers add theirs.
            limit.spend(sent.saturating_sub(self.counted_bytes));
            self.counted_bytes = sent;
        }
    }

    /// Makes at most `n` steps per clock reading; an idle step ends the burst.
    #[inline]
    fn burst(&mut self, due: Due, n: u32) -> Progress {
        let mut progress = Progress::Idle;
        let mut steps = 0;
        while steps < n {
            steps += 1;
            progress = self.worker.step(due, self.tally);
            if progress != Progress::Moved {
                break;
            }
        }
        self.tally.add(Counter::Steps, u64::from(steps));
        progress
    }
}

/// Returns the last instant at which an operation of the load may be due.
fn last_of(timeline: &Timeline) -> Nanos {
    // The end itself no longer belongs to the load.
    timeline.load_until.since(Nanos(1))
}

fn now() -> Nanos {
    Nanos(clock::monotonic())
}

/// Returns the end of the interval that contains `at`. Ticks are multiples of the interval after
/// the start barrier, so that the intervals of all workers and hosts coincide.
fn next_tick(timeline: &Timeline, at: Nanos) -> Nanos {
    let interval = timeline.interval.0.max(1);
    let passed = at.since(timeline.start).0 / interval;
    Nanos(timeline.start.0.saturating_add((passed + 1).saturating_mul(interval)))
}
