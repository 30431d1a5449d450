//! The receive window is smaller than the path needs (docs/methodology/diagnosis.md#rules, D5). TCP
//! only; times are shares of the sender's time.
//!
//! Evidence: the sender waited for the window more than [`WAITED`] of the time, and goodput times
//! round-trip time is within [`NEAR`] of the window. Otherwise the window is small for another
//! reason, such as a slow reader, and the status is inconclusive. Other rules cover a receiver that
//! uses all of its CPU, and one that reads slowly (its buffer is more than half full, or it closed
//! a larger window). Not observed: a queue that fills and empties between two readings.

use linerate_model::{BoundClass, Direction, Verdict, metric};

use super::cpu_taken::starves_receiver;
use super::slow_receiver::{UNREAD, Unread};
use super::{
    FlowEnd, Rule, TCP_STREAM, flows, grown, may_be_judged, option_of_receiver, out_of_cpu, room,
    score, seen, subject, value,
};
use crate::diagnosis::experiment::{Experiment, bytes, set};
use crate::diagnosis::{Claim, Evidence, Finding, Permit, Step};
use crate::{JobStudy, PointStudy};

/// Share of the time waiting for the window above which it counts as the limit.
const WAITED: f64 = 0.3;
/// Goodput over (window / round-trip time) where the window is the limit. The range is wider than
/// the 0.9 to 1.1 of the reference because both are sampled once per interval.
const NEAR: std::ops::RangeInclusive<f64> = 0.8..=1.2;

/// Rule: the sender waits for the peer's window.
pub(super) const RULE: Rule = Rule {
    number: 5,
    name: "receive_window",
    summary: "the sender waited for the peer's receive window more than 30 % of the time",
    judge,
    score,
    experiments,
    ..Rule::PLAIN
};

fn judge(point: &PointStudy) -> Option<Finding> {
    let waits = |(job, direction): &(&JobStudy, Direction)| {
        value(job, metric::RWND_LIMITED, *direction).is_some_and(|share| share > WAITED)
    };
    fn is_read((job, direction): &(&JobStudy, Direction)) -> bool {
        // A foreign receiver reports no buffer. The wait of the sender is evidence all the
        // same.
        Unread::of(job, *direction).is_none_or(|unread| !unread.speaks())
            && out_of_cpu(job, FlowEnd::Receiving, *direction).is_none()
    }
    let (job, direction) =
        // Only the first waiting flow is examined, so that a slow reader on it does not make
        // the rule fall on another flow.
        flows(point).find(waits).filter(|flow| may_be_judged(point) && is_read(flow))?;
    // The window of a receiver that waits for a CPU closes, whatever its size.
    if starves_receiver(point, job, direction) {
        return None;
    }
    let mut evidence: Vec<Evidence> =
        seen(job, metric::RWND_LIMITED, direction).into_iter().collect();
    let fits = from_window(point, job, direction).map(|(rate, ratio)| {
        let by = Permit::ReceiveWindow;
        evidence.push(Evidence::OfPermit { by, goodput: rate * ratio, rate });
        NEAR.contains(&ratio)
    });
    let (verdict, claim) = if fits == Some(true) {
        (Verdict::Suspected, Claim::ReceiveBuffer)
    } else {
        // The wait is a fact either way, so it is reported even where the buffer does not
        // explain it.
        (Verdict::Inconclusive, Claim::Receiver)
    };
    let finding = Finding::new(RULE.name, verdict, subject(point, job, direction), claim, evidence);
    Some(finding.advise(Step::DoubleBuffer(FlowEnd::Receiving)))
}

fn score(point: &PointStudy) -> Option<f64> {
    score::best(point, |job, direction| {
        let waited = score::reached(value(job, metric::RWND_LIMITED, direction)?, WAITED, 1.0);
        let fits = from_window(point, job, direction)
            .map_or(0.0, |(_, ratio)| score::within(ratio, *NEAR.end()));
        let unread = match Unread::of(job, direction) {
            // A buffer that fills gradually lowers the score instead of ending it.
            Some(Unread::Held(held)) => score::below(held, UNREAD),
            Some(unread) if unread.speaks() => 0.0,
            _ => 1.0,
        };
        let cpu = out_of_cpu(job, FlowEnd::Receiving, direction).map_or(1.0, |_| 0.0);
        Some(score::all([waited, fits, unread, cpu]))
    })
}

fn experiments(point: &PointStudy) -> Vec<Experiment> {
    flows(point).find_map(|(job, direction)| larger_buffer(job, direction)).into_iter().collect()
}

fn larger_buffer(job: &JobStudy, direction: Direction) -> Option<Experiment> {
    let window =
        value(job, metric::PEER_WINDOW, direction).filter(|_| job.workload == TCP_STREAM)?;
    // The figure is the sum over flows, the parameter is per flow.
    let of_window = LARGER * window / super::n_flows(job);
    // The kernel grants twice the requested size, so requesting the present size doubles it, and
    // with it the window. A window is a share of its buffer that differs between kernels: that is
    // doubled where a foreign receiver reports no buffer.
    let present = option_of_receiver(job, RECEIVE_BUFFER, direction);
    let larger = present.filter(|present| *present > 0.0).unwrap_or(of_window);
    let change = vec![set(RECEIVE_BUFFER, bytes(larger))];
    let prediction = grown(LARGER, room(job, direction));
    Some(Experiment::lift("twice the receive buffer", change, prediction))
}

/// Socket option, and the parameter that sets it.
const RECEIVE_BUFFER: &str = "receive_buffer";
/// Factor by which the experiment enlarges the buffer.
const LARGER: f64 = 2.0;

/// Returns window over smoothed round-trip time, in bit/s, and goodput as a share of it.
fn from_window(point: &PointStudy, job: &JobStudy, direction: Direction) -> Option<(f64, f64)> {
    let measured_jobs =
        // The sum of several jobs has no window of its own.
        point.jobs.iter().filter(|job| !job.background && job.workload != "all").count();
    // With several jobs, the ceiling cannot be assigned to one of them.
    let windows = point.ceilings.iter().filter(|_| measured_jobs == 1);
    let mut windows = windows.filter(|ceiling| ceiling.class() == BoundClass::Window);
    let over_smallest =
        windows.find(|ceiling| !ceiling.is_hard() && ceiling.direction == direction)?.value;
    let (smallest, smoothed) =
        (value(job, metric::RTT_MIN, direction)?, value(job, metric::RTT, direction)?);
    // The ceiling divides the window by the smallest round-trip time. A sender with a queue gets
    // the window once per smoothed time.
    let expected = over_smallest * smallest / smoothed;
    (expected > 0.0)
        .then(|| (expected, value(job, metric::GOODPUT, direction).unwrap_or(0.0) / expected))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::rules::cases::point;
    use linerate_model::Ceiling;

    #[test]
    fn it_fires_and_tells_a_small_buffer_from_a_slow_reader() {
        let with_window = |goodput: f64| {
            let mut point = point(&[
                ("goodput", goodput),
                ("rtt", 0.002),
                ("rtt_min", 0.001),
                ("rwnd_limited", 0.6),
            ]);
            let name = "window";
            let bound = Ceiling::new(
                name,
                metric::GOODPUT,
                200e6,
                Direction::Tx,
                vec!["by hand".into()],
                "TCP_INFO",
            );
            point.ceilings.push(bound.of(BoundClass::Window).expected());
            RULE.judge(&point).expect("it waited").verdict
        };
        assert_eq!(with_window(95e6), Verdict::Suspected);
        assert_eq!(with_window(10e6), Verdict::Inconclusive);
    }

    #[test]
    fn the_experiment_doubles_the_buffer_that_the_kernel_granted() {
        // Linux 6.18: a granted buffer of 256 KiB advertised a window of 163,040 B.
        let mut point =
            point(&[("goodput", 28e6), ("rwnd_limited", 0.9), ("peer_window", 163_040.0)]);
        let requested = |point: &PointStudy| RULE.experiments(point)[0].candidates[0][0].1.clone();
        assert_eq!(requested(&point), "326080 B", "a foreign receiver");
        let granted = crate::Obtained::granted(262_144);
        point.jobs[0].obtained.insert(RECEIVE_BUFFER.into(), granted);
        assert_eq!(requested(&point), "262144 B");
    }

    #[test]
    fn it_is_silent_where_the_sender_did_not_wait() {
        assert_eq!(RULE.judge(&point(&[("goodput", 1e8), ("rwnd_limited", 0.1)])), None);
        assert_eq!(RULE.judge(&point(&[("goodput", 1e8)])), None);
    }
}
