//! Stalls of the tester: times in which a worker had something to do and its thread did not run.
//!
//! A step of a worker waits ten milliseconds at most. If the next step comes later and the thread did not run meanwhile, the tester was stopped:
//! by a signal, a debugger, the hypervisor, a CPU quota or other programs. Operations under way then took as long as the stall, and open loads
//! catch up after it. Their times are the tester's, not the path's: the intervals that a stall disturbed are in no distribution of
//! times, and the trial is suspect. A worker whose steps may wait for a disk (storage, files) stalls where its whole process stood. What this
//! does not see: shorter stalls. Several stalls of one worker in one interval count as the longest.

use linerate_model::{Interval, JobRecord, JobSpec, Nanos, Side};
use serde::{Deserialize, Serialize};

use super::span::Span;
use super::traffic::Job;

/// The longest time between two steps in which a thread may stand still. It asks for 10 ms at most; socket timeouts are rounded up by a tick of
/// 10 ms (CONFIG_HZ=100) and the CPU time of a thread is known to 5 ms.
const LONGEST_STAND: Nanos = Nanos::from_millis(35);
/// Loads that were held up are caught up with for as long as the stall took, and for this long at the least.
const LEAST_AFTERMATH: Nanos = Nanos::from_millis(50);
/// Nanoseconds in a millisecond.
const MILLI: f64 = 1e6;

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
    /// When the stall began, ns since the start barrier.
    pub start: Nanos,
    /// How long its thread did not run, ns.
    pub length: Nanos,
}

impl Stall {
    /// From its beginning until what it held up has been caught up with.
    fn disturbs(&self) -> Span {
        let aftermath = self.length.max(LEAST_AFTERMATH);
        let to = self.start.0.saturating_add(self.length.0).saturating_add(aftermath.0);
        Span { from: self.start, to: Nanos(to) }
    }
}

/// The stalls of both ends of a job.
pub(super) fn of(spec: &JobSpec, active: &JobRecord, passive: &JobRecord) -> Vec<Stall> {
    let ends = [(Side::Active, &spec.from, active), (Side::Passive, &spec.to, passive)];
    let of_end = |(side, endpoint, end): (Side, &linerate_model::Endpoint, &JobRecord)| {
        let longest = end.intervals.iter().filter_map(|interval| Some((interval.worker, interval.longest_step?)));
        let stood = longest.filter(|(_, gap)| gap.stood() > LONGEST_STAND);
        let stall = |(worker, gap): (u32, linerate_model::StepGap)| Stall {
            workload: spec.workload.clone(),
            host: endpoint.host.clone(),
            side,
            worker,
            start: gap.start,
            length: gap.stood(),
        };
        stood.map(stall).collect::<Vec<Stall>>()
    };
    ends.into_iter().flat_map(of_end).collect()
}

/// Whether one of `stalls` is in the times of `interval`.
pub(super) fn disturb(stalls: &[Stall], interval: &Interval) -> bool {
    stalls.iter().any(|stall| stall.disturbs().shared_ns(interval.start, interval.end) > 0.0)
}

/// The stalls of measured jobs that disturb `span`.
pub(super) fn during(jobs: &[Job<'_>], span: Span) -> Vec<Stall> {
    let measured = jobs.iter().filter(|job| job.spec.background.is_none());
    let disturbs = |stall: &&Stall| {
        let disturbed = stall.disturbs();
        span.shared_ns(disturbed.from, disturbed.to) > 0.0
    };
    measured.flat_map(|job| job.stalls.iter().filter(disturbs).cloned()).collect()
}

/// Why a trial that was measured during `span` is suspect: the longest stall of each host.
pub(super) fn doubts(jobs: &[Job<'_>], span: Span) -> Vec<String> {
    let stalls = during(jobs, span);
    let mut hosts: Vec<&str> = stalls.iter().map(|stall| stall.host.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let doubt = |host: &str| {
        let longest = stalls.iter().filter(|stall| stall.host == host).max_by_key(|stall| stall.length)?;
        Some(format!(
            "tester stall: worker {} of {} on {host} did not run for {:.0} ms at {:.2} s (limit {:.0} ms). Times of operations under way then \
             are left out. Something stopped linerate (a signal, a debugger, the hypervisor, a CPU quota, other programs): stop it and repeat",
            longest.worker,
            longest.workload,
            longest.length.0 as f64 / MILLI,
            longest.start.as_secs_f64(),
            LONGEST_STAND.0 as f64 / MILLI,
        ))
    };
    hosts.into_iter().filter_map(doubt).collect()
}

#[cfg(test)]
mod tests {
    use linerate_model::{Distribution, StepGap};

    use super::*;

    const MS: u64 = 1_000_000;

    /// Ten intervals of 100 ms with a request of 1 ms each; the longest step of the fourth ends with it, and stood for `stood_ms` of
    /// `length_ms`.
    fn end(length_ms: u64, stood_ms: u64) -> JobRecord {
        let interval = |number: u64| {
            let (start, end) = (Nanos::from_millis(number * 100), Nanos::from_millis((number + 1) * 100));
            let (length, stood) = if number == 3 { (length_ms, stood_ms) } else { (10, 10) };
            let length = Nanos::from_millis(length);
            let gap = StepGap { start: end.since(length), length, ran: length.since(Nanos::from_millis(stood)) };
            let service = Distribution { buckets: vec![(MS, 1)], lost: 0, ..Distribution::default() };
            Interval { start, end, service, longest_step: Some(gap), ..Interval::default() }
        };
        JobRecord { intervals: (0..10).map(interval).collect(), flows: Vec::new() }
    }

    fn spec() -> JobSpec {
        let endpoint = |host: &str| -> linerate_model::Endpoint {
            let text = serde_json::json!({"name": host, "host": host, "address": null, "device": null});
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

    fn times(active: &JobRecord, passive: &JobRecord) -> (u64, Vec<String>) {
        let spec = spec();
        let stalls = of(&spec, active, passive);
        let job = Job { spec: &spec, active, passive, clocks: [None, None], stalls };
        let span = Span { from: Nanos(0), to: Nanos::from_secs(1) };
        (job.distributions(span).service.count(), doubts(std::slice::from_ref(&job), span))
    }

    #[test]
    fn times_around_a_stall_of_either_end_are_left_out_and_said_so() {
        let (n, none) = times(&end(20, 20), &end(10, 10));
        assert_eq!((n, none.as_slice()), (20, &[][..]), "it waited for what it asked for");
        // 250 to 400 ms is disturbed, and as much again: intervals 2 to 5 of each end.
        let (n, doubts) = times(&end(10, 10), &end(150, 150));
        assert_eq!(n, 20 - 2 * 4);
        assert!(doubts.len() == 1 && doubts[0].contains("on b did not run for 150 ms at 0.25 s"), "{doubts:?}");
        assert_eq!(times(&end(50, 45), &end(10, 10)).1.len(), 1, "a stop of 50 ms, of which 5 ms may seem to have run");
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
