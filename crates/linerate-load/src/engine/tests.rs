//! Engine against workers without network traffic. The engine uses the real clock. Loads last
//! fractions of a second, and tests only require that a busy machine runs the thread a few times in
//! them.

use linerate_model::{Counter, FlowTcp, Load, TcpState};

use super::*;
use crate::{Due, Progress, Tally, Times, Worker};
use Counter::{
    CpuSystem, CpuUser, Intended, PayloadSent, RunQueueWait, Started, Steps, Transactions,
};
use linerate_sys::clock;

const MS: u64 = 1_000_000;

fn timeline(load_ms: u64, drain_ms: u64, interval_ms: u64) -> Timeline {
    let start = Nanos(clock::monotonic() + 5 * MS);
    let load_until = start + Nanos::from_millis(load_ms);
    Timeline {
        start,
        load_from: start,
        load_until,
        drain_until: load_until + Nanos::from_millis(drain_ms),
        interval: Nanos::from_millis(interval_ms),
    }
}

/// Worker whose every step is `act`.
struct Scripted<F>(Load, F);

impl<F: FnMut(Due, &mut Tally) -> Progress + Send> Worker for Scripted<F> {
    fn load(&self) -> Load {
        self.0
    }
    fn times(&self) -> Times {
        Times { service: true, ..Times::NONE }
    }
    fn step(&mut self, due: Due, tally: &mut Tally) -> Progress {
        (self.1)(due, tally)
    }
    fn observe(&mut self, flows: &mut Vec<FlowTcp>) {
        flows.push(FlowTcp { flow: 0, tcp: TcpState::default() });
    }
    fn n_flows(&self) -> usize {
        1
    }
    fn stop_sending(&mut self) {}
    fn finish(&mut self) -> Vec<FlowReport> {
        vec![FlowReport::default()]
    }
}

fn scripted(act: impl FnMut(Due, &mut Tally) -> Progress + Send + 'static) -> Workers {
    vec![Box::new(Scripted(Load::Closed { depth: 1 }, act))]
}

fn counting(due: Due, tally: &mut Tally) -> Progress {
    if due.operations == 0 {
        return Progress::Ended;
    }
    tally.add(Transactions, 1);
    tally.times.service.record(100);
    Progress::Moved
}

/// Runs longer and longer loads until `is_enough` holds for one; a slow machine needs more of them.
fn grow(
    workers: impl Fn() -> Workers,
    (drain_ms, interval_ms): (u64, u64),
    cpus: &[usize],
    is_enough: impl Fn(&EngineReport) -> bool,
) -> (Timeline, EngineReport) {
    let mut loads = [40, 300, 2_000, 20_000].into_iter().map(|load_ms| {
        let timeline = timeline(load_ms, drain_ms, interval_ms);
        (timeline, Engine::start(workers(), timeline, cpus, 1).join())
    });
    loads.find(|(_, report)| is_enough(report)).expect("it happened in 20 s")
}

#[test]
fn intervals_follow_each_other_without_gap_and_hold_everything_counted() {
    let (timeline, report) = grow(
        || scripted(counting),
        (10, 10),
        &[],
        |report| report.started.is_some() && report.intervals.len() >= 2,
    );
    let started = report.started.expect("it ran");
    assert!(started >= timeline.start);
    let intervals = &report.intervals;
    assert_eq!(intervals[0].start, started - timeline.start);
    for pair in intervals.windows(2) {
        assert_eq!(pair[0].end, pair[1].start);
    }
    for interval in intervals {
        assert_eq!(interval.counters[Transactions], interval.service.count());
        assert_eq!(interval.flows.len(), 1);
    }
    let steps: u64 = intervals.iter().map(|i| i.counters[Steps]).sum();
    let counted: u64 = intervals.iter().map(|i| i.counters[Transactions]).sum();
    // The step that ends the drain counts as a step and does nothing. On a busy machine the drain
    // may pass without any step.
    assert!((counted..=counted + 1).contains(&steps), "{steps} steps, {counted} counted");
    assert_eq!((report.flows.len(), report.incidents.len()), (1, 0));
}

#[test]
fn what_arrived_while_a_thread_slept_through_the_drain_is_taken() {
    let sleepy = |drain_ms: u64| {
        let (mut has_slept, mut waiting) = (false, 5);
        let worker = scripted(move |due, tally| match due.operations {
            0 if !std::mem::replace(&mut has_slept, true) => {
                std::thread::sleep(std::time::Duration::from_millis(drain_ms + 20));
                Progress::Moved
            }
            0 if waiting > 0 => {
                waiting -= 1;
                tally.add(Transactions, 1);
                Progress::Moved
            }
            _ => Progress::Idle,
        });
        let report = Engine::start(worker, timeline(10, drain_ms, 10), &[], 1).join();
        report.intervals.iter().map(|interval| interval.counters[Transactions]).sum::<u64>()
    };
    // A busy machine may begin the only step of the drain after its end.
    assert!((0..20).any(|_| sleepy(30) == 5), "what had arrived is lost");
    assert_eq!(sleepy(0), 0, "without a drain nobody waits for answers");
}

#[test]
fn intervals_merge_and_are_not_lost_when_nobody_collects_them() {
    let report = Engine::start(scripted(counting), timeline(60, 0, 1), &[], 1).join();
    // Nobody collects during the run, so only the buffers in circulation can be filled.
    assert!(report.intervals.len() <= 17, "16 buffers and the last one");
    let last = report.intervals.last().expect("some");
    assert!(last.end >= Nanos::from_millis(60));
    for pair in report.intervals.windows(2) {
        assert_eq!(pair[0].end, pair[1].start);
    }
    let steps: u64 = report.intervals.iter().map(|i| i.counters[Transactions]).sum();
    let recorded: u64 = report.intervals.iter().map(|i| i.service.count()).sum();
    assert_eq!(steps, recorded);
}

/// Worker that sends ten operations of an open load, receives until `last`, and then waits.
struct Waiting {
    n_sent: u32,
    last: Nanos,
    moved: Option<Nanos>,
}

impl Waiting {
    const AMOUNT: u32 = 10;
    const WAIT: Nanos = Nanos(1_000 * MS);
}

impl Worker for Waiting {
    fn load(&self) -> Load {
        Load::Open { rate: 10_000.0, arrival: linerate_model::Arrival::Constant }
    }
    fn may_end_early(&self) -> bool {
        true
    }
    fn has_sent_all(&self) -> bool {
        self.n_sent == Self::AMOUNT
    }
    fn quiet_since(&self) -> Option<Nanos> {
        self.moved.filter(|_| Nanos(clock::monotonic()) > self.last)
    }
    fn step(&mut self, due: Due, tally: &mut Tally) -> Progress {
        let now = Nanos(clock::monotonic());
        let n = due.operations.min(Self::AMOUNT - self.n_sent);
        tally.defer(due.operations - n);
        self.n_sent += n;
        if now < self.last {
            tally.add(Transactions, 1);
            self.moved = Some(now);
        }
        if now > self.last + Self::WAIT { Progress::Ended } else { Progress::Moved }
    }
    fn stop_sending(&mut self) {}
    fn finish(&mut self) -> Vec<FlowReport> {
        Vec::new()
    }
}

#[test]
fn a_wait_for_what_was_lost_is_no_part_of_the_load_and_nothing_is_due_in_it() {
    // The last arrival is in the middle of the third interval: nobody collects, so there are few
    // of them. A machine that did not run the thread until then gets more time.
    let mut loads = [50, 310, 2_010, 20_010].into_iter().map(|last_ms| {
        let timeline = timeline(60_000, 0, last_ms * 2 / 5);
        let last = timeline.start + Nanos::from_millis(last_ms);
        let worker = Waiting { n_sent: 0, last, moved: None };
        (timeline, last, Engine::start(vec![Box::new(worker)], timeline, &[], 1).join())
    });
    let moved = |report: &EngineReport| {
        let moving = report.intervals.iter().rfind(|interval| interval.counters[Transactions] > 0);
        moving.map(|interval| interval.end)
    };
    let (timeline, last, report) =
        loads.find(|(.., report)| moved(report).is_some()).expect("it ran within 20 s");
    let moved = moved(&report).expect("it ran");
    assert!(timeline.start + moved <= last, "{moved}: {:?}", report.intervals);
    let sum = |counter| report.intervals.iter().map(|one| one.counters[counter]).sum::<u64>();
    assert_eq!(sum(Started), u64::from(Waiting::AMOUNT));
    let end = report.intervals.last().expect("intervals").end;
    // A thread that began late starts all operations at once.
    let begun = report.started.expect("it ran").since(timeline.start);
    let due_by = |time: Nanos| time.0 / (MS / 10) + 1;
    assert!((10..due_by(begun) + 5_000).contains(&sum(Intended)), "{} of {end}", sum(Intended));
    assert!(timeline.start + end >= last + Waiting::WAIT);
    for pair in report.intervals.windows(2) {
        assert_eq!(pair[0].end, pair[1].start);
    }
}

#[test]
fn cpu_time_is_counted_into_the_intervals() {
    let cpu_time = |report: &EngineReport| -> u64 {
        report.intervals.iter().map(|i| i.counters[CpuUser] + i.counters[CpuSystem]).sum()
    };
    let (_, report) = grow(|| scripted(counting), (0, 10), &[], |report| cpu_time(report) > 0);
    let busy = cpu_time(&report);
    let span = report.intervals.last().expect("one").end - report.intervals[0].start;
    // The kernel accounts CPU time by the scheduler's clock, which may run ahead of ours by a tick.
    assert!(busy < span.0 + 10 * MS, "{busy} ns of CPU in {span} of spinning");
}

#[test]
fn workers_that_share_a_cpu_wait_for_it() {
    let cpu =
        *linerate_sys::cpu::allowed().expect("affinity").last().expect("a thread runs somewhere");
    let waits = |report: &EngineReport| {
        [0, 1].map(|worker| {
            let own = report.intervals.iter().filter(|interval| interval.worker == worker);
            own.fold((0, 0), |(waited, span), interval| {
                (
                    waited + interval.counters[RunQueueWait],
                    span + interval.end.since(interval.start).0,
                )
            })
        })
    };
    let workers = || (0..2).flat_map(|_| scripted(counting)).collect();
    // A worker that started late may have had the CPU to itself.
    let is_shared = |report: &EngineReport| {
        let is_long = |(waited, span): &(u64, u64)| *span > 50 * MS && *waited > span / 4;
        waits(report).iter().all(is_long)
    };
    let (_, report) = grow(workers, (0, 10), &[cpu], is_shared);
    for (waited, span) in waits(&report) {
        // The first wait began before the first interval.
        assert!(waited < span + 10 * MS, "waited {waited} of {span} ns");
    }
}

#[test]
fn a_panic_becomes_an_incident_and_keeps_what_was_counted() {
    let mut steps = 0;
    let worker = scripted(move |due, tally| {
        steps += 1;
        assert!(steps < 1_000, "step {steps} was one too many");
        counting(due, tally)
    });
    let report = Engine::start(worker, timeline(60_000, 0, 10), &[], 1).join();
    assert_eq!(report.incidents.len(), 1);
    assert_eq!(report.incidents[0].kind, IncidentKind::WorkerStopped);
    assert!(
        report.incidents[0].message.contains("step 1000 was one too many"),
        "{}",
        report.incidents[0].message
    );
    let counted: u64 = report.intervals.iter().map(|i| i.counters[Transactions]).sum();
    assert_eq!(counted, 999);
}

#[test]
fn a_worker_that_ends_too_early_is_an_incident() {
    let report =
        Engine::start(scripted(|_, _| Progress::Ended), timeline(60_000, 0, 10), &[], 1).join();
    assert_eq!(report.incidents.len(), 1);
    assert!(
        report.incidents[0].message.contains("before the end of its load"),
        "{}",
        report.incidents[0].message
    );
    assert_eq!(report.flows.len(), 1);
}

#[test]
fn stopping_ends_a_running_and_a_waiting_engine() {
    let engine = Engine::start(scripted(counting), timeline(60_000, 60_000, 10), &[], 1);
    while !engine.finished() && engine.threads[0].intervals.is_empty() {
        std::thread::yield_now();
    }
    engine.stop();
    assert!(engine.join().started.is_some());

    let mut later = timeline(60_000, 0, 10);
    later.start = later.start + Nanos::from_secs(3_600);
    later.load_from = later.start;
    let engine = Engine::start(scripted(counting), later, &[], 1);
    engine.stop();
    let report = engine.join();
    assert_eq!((report.started, report.intervals.len()), (None, 0));
}

/// Runs open loads of 10,000/s that start at most `limit` operations per step, until some
/// operations are done, and checks the intended time of each.
fn run_open(limit: u32) {
    let done = [40, 300, 2_000, 20_000].into_iter().any(|load_ms| run_open_for(limit, load_ms) > 0);
    assert!(done, "nothing was done in 20 s");
}

fn run_open_for(limit: u32, load_ms: u64) -> u64 {
    const GAP: u64 = 100_000;
    let timeline = timeline(load_ms, 0, 10);
    let mut k = 0;
    let act = move |due: Due, tally: &mut Tally| {
        let started = due.operations.min(limit);
        tally.defer(due.operations - started);
        if started == 0 {
            clock::sleep_until(due.until.0, 0);
            return Progress::Idle;
        }
        assert_eq!(due.intended, Nanos(timeline.load_from.0 + k * GAP), "operation {k}");
        assert!(
            clock::monotonic() >= due.intended.0 + u64::from(started - 1) * GAP,
            "none is early"
        );
        k += u64::from(started);
        tally.add(Transactions, started.into());
        Progress::Moved
    };
    let worker: Workers = vec![Box::new(Scripted(
        Load::Open { rate: 10_000.0, arrival: linerate_model::Arrival::Constant },
        act,
    ))];
    let report = Engine::start(worker, timeline, &[], 1).join();
    assert!(report.incidents.is_empty(), "{:?}", report.incidents);
    let sum =
        |counter| report.intervals.iter().map(|interval| interval.counters[counter]).sum::<u64>();
    assert_eq!(sum(Started), sum(Transactions));
    let due = load_ms * MS / GAP;
    assert!((due - 1..=due + 1).contains(&sum(Intended)), "{} of {due} were due", sum(Intended));
    assert!(sum(Transactions) <= due + 1);
    sum(Transactions)
}

#[test]
fn an_open_load_gets_its_intended_times() {
    run_open(u32::MAX);
}

#[test]
fn an_open_load_that_lost_its_cpu_at_its_end_catches_up() {
    let step = |due: Due, tally: &mut Tally| {
        if due.operations == 0 {
            clock::sleep_until(due.until.0, 0);
            return Progress::Idle;
        }
        tally.add(Transactions, 1);
        tally.defer(due.operations - 1);
        // After its 40th millisecond the thread sleeps until after the end.
        if tally.counters[Transactions] == 40 {
            std::thread::sleep(std::time::Duration::from_millis(12));
        }
        Progress::Moved
    };
    let load = Load::Open { rate: 1_000.0, arrival: linerate_model::Arrival::Constant };
    let of = |drain_ms| {
        let timeline = Timeline { interval: Nanos::from_secs(1), ..timeline(50, drain_ms, 10) };
        let report = Engine::start(vec![Box::new(Scripted(load, step))], timeline, &[], 1).join();
        let total = |counter| {
            report.intervals.iter().map(|interval| interval.counters[counter]).sum::<u64>()
        };
        (total(Intended), total(Started), total(Transactions))
    };
    // A busy machine may keep the thread away for longer than the patience, but not in every
    // attempt.
    let caught_up = (0..100).map(|_| of(100)).find(|counts| *counts == (50, 50, 50));
    assert!(caught_up.is_some(), "what was due before the end is late, not left out");
    assert_eq!(of(0).0, 50, "nothing is due at the end itself");
}

#[test]
fn deferred_operations_come_back_at_their_intended_times() {
    run_open(1);
}

#[test]
fn pinning_to_a_missing_cpu_is_an_incident_and_the_worker_runs_on() {
    let report = Engine::start(scripted(counting), timeline(10, 0, 10), &[1_000_000], 1).join();
    assert_eq!(report.incidents[0].kind, IncidentKind::NotGranted);
    assert!(report.started.is_some());
}

#[test]
fn a_step_in_which_the_thread_slept_is_the_longest_of_its_interval() {
    let worker = || {
        let mut slept = false;
        scripted(move |due, tally| {
            if due.operations > 0 && !std::mem::replace(&mut slept, true) {
                std::thread::sleep(std::time::Duration::from_millis(40));
            }
            counting(due, tally)
        })
    };
    let longest = |report: &EngineReport| {
        let gaps = report.intervals.iter().filter_map(|interval| interval.longest_step);
        gaps.max_by_key(|gap| gap.stood()).expect("every worker is watched")
    };
    let (_, report) = grow(worker, (0, 20), &[], |report| {
        report.intervals.iter().any(|one| one.counters[Steps] > 0)
    });
    // The CPU time before the sleep may be counted to the step.
    assert!(longest(&report).stood() >= Nanos::from_millis(30), "{:?}", longest(&report));
}

#[test]
fn what_all_workers_send_stays_within_the_limit_of_the_trial() {
    const STEP_BYTES: u64 = 10_000;
    const CLOSED: Load = Load::Closed { depth: 1 };
    let sending = |_: Due, tally: &mut Tally| {
        tally.add(PayloadSent, STEP_BYTES);
        Progress::Moved
    };
    let worker = || -> Box<dyn Worker> { Box::new(Scripted(CLOSED, sending)) };
    let has_waited = [100, 1_000, 10_000].into_iter().any(|load_ms| {
        // 8 Mbit/s are a byte per microsecond; one step of each worker is allowed on top.
        let limit = Arc::new(RateLimit::new(linerate_model::BitRate(8e6)));
        let timeline = timeline(load_ms, 0, 10);
        // A thread that waits for a CPU ends its load late, and the limit is one of rate.
        let begun = std::time::Instant::now();
        let report =
            Engine::start_within(vec![worker(), worker()], timeline, &[], 1, Some(&limit)).join();
        let took = begun.elapsed().as_micros() as u64;
        let sent: u64 =
            report.intervals.iter().map(|interval| interval.counters[PayloadSent]).sum();
        assert!(sent <= took + 2 * STEP_BYTES, "{sent} in {took} us");
        limit.has_waited()
    });
    assert!(has_waited, "in ten seconds each worker has made a step and was to make another one");
}
