//! Stalls of the tester: periods in which a worker had work and its thread did not run.
//!
//! A step of a worker waits ten milliseconds at most. If the next step comes later and the thread
//! did not run in between, the tester was stopped: by a signal, a debugger, the hypervisor, a CPU
//! quota or other programs. Operations in flight then took as long as the stall, and open loads
//! catch up after it. Their times are the tester's, not the path's. Intervals disturbed by a stall
//! are therefore in no distribution of times, unless all are, and the trial is suspect. A worker
//! whose steps may wait for a disk (storage, files) counts as stalled where its whole process did
//! not run.
//!
//! The machine stopped, and not only the tester, where the hypervisor used a CPU for half of the
//! stall, or where every worker of both ends that share a kernel stalled at the same time.
//!
//! Not covered: shorter stalls. Several stalls of one worker in one interval count as the longest.
//! On a kernel with one end only, a machine that stops without steal looks like a stopped agent.

use linerate_model::{Interval, JobRecord, JobSpec, Nanos, SeriesSpec, Side, TrialRecord, series};
use serde::{Deserialize, Serialize};

use super::host::{TICK, kernels};
use super::reason::Reason;
use super::samples::{NANOS, Samples};
use super::span::Span;
use super::traffic::{Job, Run};

/// The longest time between two steps in which a thread may be idle. It asks for 10 ms at most;
/// socket timeouts are rounded up by a tick of 10 ms (CONFIG_HZ=100) and the CPU time of a thread
/// is known to 5 ms.
pub const LONGEST_STAND: Nanos = Nanos::from_millis(35);
/// Least time that a load needs to catch up after a stall; otherwise as long as the stall.
const LEAST_AFTERMATH: Nanos = Nanos::from_millis(50);

/// The part that stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stopped {
    /// The worker, or the agent it belongs to.
    #[default]
    Tester,
    /// The whole machine.
    Machine,
}

/// A worker of the tester that did not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall {
    /// Workload of its job.
    pub workload: String,
    /// Its host.
    pub host: String,
    /// Its end of the job.
    pub side: Side,
    /// Its number.
    pub worker: u32,
    /// Start of the stall, ns since the start barrier.
    pub start: Nanos,
    /// Time for which its thread did not run, ns.
    pub length: Nanos,
    /// The part that stopped.
    #[serde(default)]
    pub what: Stopped,
    /// Steal during the stall, of the CPU with the most of it, ns.
    #[serde(default)]
    pub stolen: Nanos,
}

impl Stall {
    /// From its beginning until what it held up has been caught up with.
    fn disturbs(&self) -> Span {
        let aftermath = self.length.max(LEAST_AFTERMATH);
        let to = self.start.0.saturating_add(self.length.0).saturating_add(aftermath.0);
        Span { from: self.start, to: Nanos(to) }
    }
}

/// Returns the stalls of both ends of a job.
pub(super) fn of(spec: &JobSpec, active: &JobRecord, passive: &JobRecord) -> Vec<Stall> {
    let ends = [(Side::Active, &spec.from, active), (Side::Passive, &spec.to, passive)];
    let mut stalls = Vec::new();
    for (side, endpoint, end) in ends {
        let longest = end
            .intervals
            .iter()
            .filter_map(|interval| Some((interval.worker, interval.longest_step?)));
        for (worker, gap) in longest.filter(|(_, gap)| gap.stood() > LONGEST_STAND) {
            stalls.push(Stall {
                workload: spec.workload.clone(),
                host: endpoint.host.clone(),
                side,
                worker,
                start: gap.start,
                length: gap.stood(),
                what: Stopped::default(),
                stolen: Nanos(0),
            });
        }
    }
    stalls
}

/// Returns whether one of `stalls` affects the times of `interval`.
pub(super) fn disturb(stalls: &[Stall], interval: &Interval) -> bool {
    stalls.iter().any(|stall| stall.disturbs().shared_ns(interval.start, interval.end) > 0.0)
}

/// Returns the stalls of measured jobs that disturb the span, each with what stood still.
pub(super) fn during(Run { trial, jobs, hosts, span }: Run<'_>) -> Vec<Stall> {
    let measured = || jobs.iter().filter(|job| job.spec.background.is_none());
    let mut stalls: Vec<Stall> = measured().flat_map(|job| &job.stalls).cloned().collect();
    stalls.retain(|stall| {
        let disturbed = stall.disturbs();
        span.shared_ns(disturbed.from, disturbed.to) > 0.0
    });
    for (kernel, reader) in kernels(jobs, hosts) {
        let (mut here, elsewhere) =
            stalls.into_iter().partition::<Vec<_>, _>(|stall| hosts.kernel(&stall.host) == kernel);
        here.iter_mut().for_each(|stall| stall.stolen = stolen(trial, reader, stall));
        let workers =
            measured().flat_map(watched).filter(|worker| hosts.kernel(&worker.host) == kernel);
        tell_apart(&mut here, &workers.collect::<Vec<Watched>>());
        stalls = [here, elsewhere].concat();
    }
    stalls
}

/// Marks those of `stalls` in which the machine stood still; both are of one kernel.
fn tell_apart(stalls: &mut [Stall], workers: &[Watched]) {
    let all = stalls.to_vec();
    for stall in stalls {
        let half = Nanos(stall.length.0 / 2);
        if stall.stolen >= half || all_stood(workers, &all, stall, half) {
            stall.what = Stopped::Machine;
        }
    }
}

/// A worker whose steps were timed.
#[derive(PartialEq)]
struct Watched {
    workload: String,
    host: String,
    side: Side,
    worker: u32,
}

impl Watched {
    fn has(&self, stall: &Stall) -> bool {
        (&self.workload, &self.host, self.side, self.worker)
            == (&stall.workload, &stall.host, stall.side, stall.worker)
    }
}

/// Returns the workers of both ends of `job`.
fn watched(job: &Job<'_>) -> Vec<Watched> {
    let ends =
        [(Side::Active, &job.spec.from, job.active), (Side::Passive, &job.spec.to, job.passive)];
    let mut workers = Vec::new();
    for (side, endpoint, end) in ends {
        for interval in end.intervals.iter().filter(|interval| interval.longest_step.is_some()) {
            let (workload, host) = (job.spec.workload.clone(), endpoint.host.clone());
            let worker = Watched { workload, host, side, worker: interval.worker };
            if !workers.contains(&worker) {
                workers.push(worker);
            }
        }
    }
    workers
}

/// Returns whether `workers` are of both ends, and each of them has a stall that covers at least
/// `least` of `stall`.
fn all_stood(workers: &[Watched], stalls: &[Stall], stall: &Stall, least: Nanos) -> bool {
    let span = |stall: &Stall| (stall.start, Nanos(stall.start.0.saturating_add(stall.length.0)));
    let (from, to) = span(stall);
    let at_once = |(start, end)| Span { from, to }.shared_ns(start, end) >= least.0 as f64;
    let has_side = |side| workers.iter().any(|worker| worker.side == side);
    has_side(Side::Active)
        && has_side(Side::Passive)
        && workers
            .iter()
            .all(|worker| stalls.iter().any(|other| worker.has(other) && at_once(span(other))))
}

/// Returns the steal of the CPU with the most of it in the readings around `stall`, less the tick
/// by which a reading is coarse.
fn stolen(trial: &TrialRecord, reader: &str, stall: &Stall) -> Nanos {
    let interval = trial.spec.phases.interval;
    let around = Span {
        from: Nanos(stall.start.0.saturating_sub(interval.0)),
        to: Nanos(stall.start.0.saturating_add(stall.length.0).saturating_add(interval.0)),
    };
    let is_steal = |read: &SeriesSpec| series::cpu::STEAL.is(read);
    let taken = Samples::of(trial, reader).largest_change(around, is_steal).unwrap_or(0.0);
    Nanos((taken - TICK).clamp(0.0, around.seconds() * NANOS) as u64)
}

/// Returns the reasons why a trial with `stalls` is suspect: the longest stall of the machine, and
/// the longest one of the tester on each host.
pub(super) fn doubts(stalls: &[Stall]) -> Vec<Reason> {
    let of = |what: Stopped| stalls.iter().filter(move |stall| stall.what == what);
    let machine = of(Stopped::Machine).max_by_key(|stall| stall.length);
    let mut hosts: Vec<&str> = of(Stopped::Tester).map(|stall| stall.host.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let longest = |host: &str| {
        of(Stopped::Tester).filter(|stall| stall.host == host).max_by_key(|stall| stall.length)
    };
    machine
        .into_iter()
        .chain(hosts.into_iter().filter_map(longest))
        .cloned()
        .map(Reason::Stood)
        .collect()
}

#[cfg(test)]
mod tests {
    use linerate_model::{Distribution, StepGap};

    use super::*;

    const MS: u64 = 1_000_000;

    /// Ten intervals of 100 ms with a request of 1 ms each; the longest step of the fourth ends
    /// with it, and stood for `stood_ms` of `length_ms`.
    fn end(length_ms: u64, stood_ms: u64) -> JobRecord {
        let interval = |number: u64| {
            let (start, end) =
                (Nanos::from_millis(number * 100), Nanos::from_millis((number + 1) * 100));
            let (length, stood) = if number == 3 { (length_ms, stood_ms) } else { (10, 10) };
            let length = Nanos::from_millis(length);
            let gap = StepGap {
                start: end.since(length),
                length,
                ran: length.since(Nanos::from_millis(stood)),
            };
            let service = Distribution::of(vec![(MS, 1)]).into();
            Interval { start, end, service, longest_step: Some(gap), ..Interval::default() }
        };
        JobRecord { intervals: (0..10).map(interval).collect(), flows: Vec::new() }
    }

    fn spec() -> JobSpec {
        let endpoint = |host: &str| -> linerate_model::Endpoint {
            let text =
                serde_json::json!({"name": host, "host": host, "address": null, "device": null});
            serde_json::from_value(text).expect("an endpoint")
        };
        JobSpec {
            workload: "udp_rr".into(),
            from: endpoint("a"),
            to: endpoint("b"),
            params: linerate_model::Params::default(),
            background: None,
        }
    }

    fn times(active: &JobRecord, passive: &JobRecord) -> (u64, Vec<Reason>) {
        times_until(1_000, active, passive)
    }

    fn times_until(ms: u64, active: &JobRecord, passive: &JobRecord) -> (u64, Vec<Reason>) {
        let spec = spec();
        let stalls = of(&spec, active, passive);
        let doubts = doubts(&stalls);
        let job = Job { spec: &spec, active, passive, clocks: [None, None], stalls };
        let span = Span { from: Nanos(0), to: Nanos::from_millis(ms) };
        (job.distributions(span).service.count(), doubts)
    }

    /// Returns the part that stopped where both ends are on one kernel with `stolen_ms` of steal
    /// during each stall.
    fn stood(active: &JobRecord, passive: &JobRecord, stolen_ms: u64) -> Vec<Stopped> {
        let spec = spec();
        let mut stalls = of(&spec, active, passive);
        stalls.iter_mut().for_each(|stall| stall.stolen = Nanos::from_millis(stolen_ms));
        let job = Job { spec: &spec, active, passive, clocks: [None, None], stalls: Vec::new() };
        tell_apart(&mut stalls, &watched(&job));
        stalls.iter().map(|stall| stall.what).collect()
    }

    #[test]
    fn the_machine_stood_still_if_every_worker_did_or_the_hypervisor_took_its_cpu() {
        use Stopped::{Machine, Tester};
        assert_eq!(stood(&end(150, 150), &end(140, 120), 0), [Machine, Machine]);
        assert_eq!(stood(&end(150, 150), &end(10, 10), 0), [Tester], "the other end went on");
        assert_eq!(
            stood(&end(150, 150), &end(60, 60), 0),
            [Tester, Machine],
            "for most of it the other end went on"
        );
        assert_eq!(stood(&end(10, 10), &end(150, 150), 74), [Tester]);
        assert_eq!(stood(&end(10, 10), &end(150, 150), 75), [Machine]);
        let mut unwatched = end(10, 10);
        unwatched.intervals.iter_mut().for_each(|interval| interval.longest_step = None);
        assert_eq!(stood(&end(150, 150), &unwatched, 0), [Tester], "nobody knows of the other end");
    }

    #[test]
    fn times_around_a_stall_of_either_end_are_left_out_and_said_so() {
        let (n, none) = times(&end(20, 20), &end(10, 10));
        assert_eq!((n, none.as_slice()), (20, &[][..]), "it waited for what it asked for");
        // 250 to 400 ms is disturbed, and as much again: intervals 2 to 5 of each end.
        let (n, doubts) = times(&end(10, 10), &end(150, 150));
        assert_eq!(n, 20 - 2 * 4);
        let [Reason::Stood(stall)] = &doubts[..] else { panic!("{doubts:?}") };
        let (start, length) = (Nanos::from_millis(250), Nanos::from_millis(150));
        assert_eq!((&*stall.host, stall.start, stall.length), ("b", start, length));
        assert_eq!(
            times(&end(50, 45), &end(10, 10)).1.len(),
            1,
            "a stop of 50 ms, of which 5 ms may seem to have run"
        );
    }

    #[test]
    fn times_are_kept_with_a_doubt_if_a_stall_disturbed_all_of_them() {
        let stopped = end(400, 400);
        assert_eq!(times(&stopped, &end(10, 10)).0, 2 * 2, "disturbed until 800 ms");
        let (n, doubts) = times_until(800, &stopped, &end(10, 10));
        assert_eq!((n, doubts.len()), (2 * 8, 1));
    }

    #[test]
    fn a_long_step_that_ran_is_no_stall() {
        assert_eq!(times(&end(150, 20), &end(10, 10)), (20, Vec::new()));
    }

    #[test]
    fn ledgers_without_step_times_have_no_stalls() {
        let mut old = end(150, 150);
        old.intervals.iter_mut().for_each(|interval| interval.longest_step = None);
        assert_eq!(times(&old, &end(10, 10)), (20, Vec::new()));
    }
}
