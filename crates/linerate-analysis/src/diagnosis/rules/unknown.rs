//! No other rule explains the point (docs/methodology/diagnosis.md#rules, D18). The finding lists
//! the evidence that the rules examined.
//!
//! It applies only where a ceiling is known and goodput is below it; without a ceiling there is
//! nothing to explain. Not observed: everything that no rule examines. The proposed experiment is
//! the one of the rule that came nearest to its threshold.

use linerate_model::{Direction, Metric, Use, Verdict, metric};
use serde_json::Value;

use super::{
    FlowEnd, RULES, Rule, UNKNOWN, changed, disk, flows, may_be_judged, more_flows, n_flows,
    standing_queue, subject, value,
};
use crate::diagnosis::experiment::set;
use crate::diagnosis::{Advice, Claim, Evidence, Finding, Quantity, Step, Subject};
use crate::{JobStudy, PointStudy};

/// Wait for a CPU: it makes a queue that is not at any hop.
const NO_CPU: &Metric = metric::RUN_QUEUE_WAIT;
/// Buffer size of an experiment that removes a buffer limit on most paths.
const LARGE_BUFFER: &str = "8 MiB";

/// Quantities that suggest a limit, with the threshold of their rule.
const NEAREST: [(Quantity, f64); 8] = [
    (Quantity::Metric(metric::RECEIVER_CPU), super::BUSY),
    (Quantity::Metric(metric::RECEIVER_THROTTLED), super::THROTTLED),
    (Quantity::Metric(NO_CPU), super::HELD_BACK),
    (Quantity::Metric(metric::RWND_LIMITED), super::HELD_BACK),
    (Quantity::Metric(metric::SENDER_CPU), super::BUSY),
    (Quantity::Metric(metric::SENDER_THROTTLED), super::THROTTLED),
    (Quantity::Metric(metric::SNDBUF_LIMITED), super::HELD_BACK),
    // A buffer delay of 100 % (docs/methodology/diagnosis.md#rules, D17).
    (Quantity::StandingQueue, 1.0),
];
/// Share of a threshold below which an experiment is not worth its time.
const WORTH_A_TRY: f64 = 0.3;

/// Returns the step that shows whether `quantity` limits the load of `job`.
fn advice(quantity: Quantity, point: &PointStudy, job: &JobStudy) -> Advice {
    // Only the parameter under suspicion changes, so that a different result has one cause.
    let again = |change: &[(String, Value)]| changed(point, change);
    let ends = [FlowEnd::Sending, FlowEnd::Receiving];
    let Quantity::Metric(known) = quantity else { return Step::FindHop.by(again(&[])) };
    if let Some(end) = ends.into_iter().find(|end| end.cpu()[0] == known) {
        return more_flows(point, job, end);
    }
    if let Some(end) = ends.into_iter().find(|end| end.cpu()[1] == known) {
        return Step::CpuQuota(end).by(again(&[]));
    }
    if known == metric::RWND_LIMITED {
        let change = [set("receive_buffer", LARGE_BUFFER)];
        return Step::LargeBuffer(FlowEnd::Receiving).by(again(&change));
    }
    if known == metric::SNDBUF_LIMITED {
        return Step::LargeBuffer(FlowEnd::Sending).by(again(&[set("send_buffer", LARGE_BUFFER)]));
    }
    // A single flow cannot be reduced: only other programs take its CPU.
    if n_flows(job) < 2.0 {
        return Step::FreeCpus.by(again(&[]));
    }
    Step::OneFlow.by(again(&[set("streams", 1)]))
}

/// Rule: no other rule explains the point.
pub(super) const RULE: Rule = Rule {
    number: 18,
    name: UNKNOWN,
    summary: "goodput is below every known ceiling, and no other rule explains it",
    judge,
    score,
    ..Rule::PLAIN
};

fn judge(point: &PointStudy) -> Option<Finding> {
    let others = RULES.iter().filter(|rule| rule.name != RULE.name);
    let explained = others
        // Inconclusive findings explain nothing, so they do not silence this rule.
        .filter_map(|rule| rule.judge(point))
        .any(|finding| finding.verdict != Verdict::Inconclusive);
    fn below((job, direction): &(&JobStudy, Direction)) -> bool {
        // Without a ceiling, any goodput may be all that the path can do.
        job.metric(metric::GOODPUT, *direction).is_some_and(|metric| metric.share.is_some())
    }
    let (job, direction) =
        flows(point).find(below).filter(|_| may_be_judged(point) && !explained)?;
    Some(finding(point, job, direction))
}

fn score(point: &PointStudy) -> Option<f64> {
    // `diagnosis::scores` assigns it the remainder of the best other rule.
    let _other_rules_decide = point;
    None
}

/// Returns the finding that nothing explains `point`, with the examined evidence and the most
/// promising experiment.
pub(in crate::diagnosis) fn of(point: &PointStudy) -> Finding {
    // Disks have no flows; their load is described by transfers and slots instead.
    if let Some(finding) = disk::unexplained(point, UNKNOWN) {
        return finding;
    }
    match flows(point).next() {
        Some((job, direction)) => finding(point, job, direction),
        None => inconclusive(Subject::of_sweep(&point.sweep), vec![Evidence::NoFlow]),
    }
}

fn inconclusive(subject: Subject, evidence: Vec<Evidence>) -> Finding {
    Finding::new(UNKNOWN, Verdict::Inconclusive, subject, Claim::Unexplained, evidence)
}

fn finding(point: &PointStudy, job: &JobStudy, direction: Direction) -> Finding {
    let nearest = nearest(job, direction);
    let mut evidence: Vec<Evidence> = Vec::new();
    evidence.extend(nearest.map(|(quantity, value, threshold)| Evidence::Near {
        quantity,
        value,
        threshold,
    }));
    let goodput = job.metric(metric::GOODPUT, direction);
    evidence.extend(
        goodput.and_then(|metric| metric.share).map(|share| Evidence::BelowCeiling { share }),
    );
    // The nearest quantity is already listed beside its threshold.
    let is_nearest = |metric: &&'static Metric| {
        nearest.is_some_and(|(quantity, ..)| quantity == Quantity::Metric(metric))
    };
    evidence.extend(
        Use::LookedAt
            .metrics()
            .filter(|metric| !is_nearest(metric))
            .filter_map(|metric| Some(Evidence::figure(metric, read(job, metric, direction)?))),
    );
    if evidence.is_empty() {
        evidence.push(Evidence::NoFigure);
    }
    let step = match nearest {
        Some((quantity, ..)) => advice(quantity, point, job),
        None => {
            let streams = 2 * n_flows(job) as u64;
            Step::Streams { streams }.by(changed(point, &[set("streams", streams)]))
        }
    };
    inconclusive(subject(point, job, direction), evidence).advise(step)
}

/// Returns the estimate of `metric` in `direction`, else over both directions.
fn read(job: &JobStudy, metric: &Metric, direction: Direction) -> Option<f64> {
    value(job, metric, direction).or_else(|| value(job, metric, Direction::Sum))
}

/// Returns the quantity that is nearest to the threshold of its rule, its value and the threshold.
fn nearest(job: &JobStudy, direction: Direction) -> Option<(Quantity, f64, f64)> {
    // Packets that wait for a CPU look like a queue on the path.
    let no_cpu = read(job, NO_CPU, direction).is_some_and(|share| share > super::HELD_BACK);
    // The advice for a queue would send the user along the path although the hosts are busy.
    let candidates =
        NEAREST.iter().filter(|(quantity, _)| !(no_cpu && *quantity == Quantity::StandingQueue));
    let read = candidates.filter_map(|(quantity, threshold)| {
        let value = match quantity {
            Quantity::Metric(metric) => read(job, metric, direction),
            Quantity::StandingQueue => standing_queue(job, direction),
        }?;
        Some((*quantity, value, *threshold))
    });
    let share = |(_, value, threshold): &(Quantity, f64, f64)| value / threshold;
    // Every quantity is some distance from its threshold; below this one the distance says nothing.
    read.max_by(|a, b| share(a).total_cmp(&share(b))).filter(|one| share(one) > WORTH_A_TRY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::rules::cases::point;

    #[test]
    fn it_fires_where_nothing_else_does_and_is_silent_elsewhere() {
        let finding =
            RULE.judge(&point(&[("goodput", 0.5e9), ("rtt", 0.001)])).expect("nothing else speaks");
        assert_eq!((finding.verdict, finding.evidence.len()), (Verdict::Inconclusive, 2));
        assert_eq!(RULE.judge(&point(&[("goodput", 0.99e9)])), None);
        assert_eq!(RULE.judge(&point(&[("goodput", 0.5e9), ("sndbuf_limited", 0.9)])), None);
    }

    #[test]
    fn of_a_disk_its_own_figures_are_told() {
        let figures = [("iops", 4_000.0), ("achieved_depth", 31.9), ("service_time_mean", 7.97e-3)];
        let told = of(&disk::cases::load(32, &figures));
        assert_eq!(told.verdict, Verdict::Inconclusive);
        assert!(matches!(told.evidence[0], Evidence::InFlight { transfers: 31.9, .. }), "{told:?}");
        let command = told.advice[0].command.as_ref().expect("a command");
        assert_eq!((command.verb.as_str(), &command.path), ("disk sweep", &None));
        let mut open = disk::cases::load(32, &figures);
        open.jobs[0].params.set("rate", "4 kpps");
        assert_eq!(of(&open).evidence, [Evidence::NoClosedLoad]);
        // Recorded at 190 ms a transfer, more than the run waited.
        let hanging =
            [("iops", 170.0), ("achieved_depth", 32.0), ("service_time_mean", f64::INFINITY)];
        let found = of(&disk::cases::load(32, &hanging));
        assert_eq!(found.evidence, [Evidence::NeverEnded { rate: 170.0 }]);
    }

    #[test]
    fn a_queue_of_what_waits_for_a_cpu_is_no_hops() {
        let advice = |waited: f64| {
            let figures =
                [("goodput", 0.9e9), ("rtt", 74e-6), ("rtt_min", 4e-6), ("run_queue_wait", waited)];
            // The wait is of whole hosts.
            let mut point = point(&figures);
            let wait = point.jobs[0]
                .metrics
                .iter_mut()
                .find(|figure| figure.metric == NO_CPU)
                .expect("it is there");
            wait.direction = Direction::Sum;
            RULE.judge(&point).expect("nothing else speaks")
        };
        let queue = advice(0.0);
        assert_eq!(queue.advice[0].step, Step::FindHop);
        let Evidence::Near { quantity: Quantity::StandingQueue, value, threshold } =
            queue.evidence[0]
        else {
            panic!("{queue:?}")
        };
        assert!((value - 17.5).abs() < 1e-9 && threshold == 1.0, "{queue:?}");
        let waits = advice(0.4);
        assert_eq!(waits.advice[0].step, Step::FreeCpus, "one flow");
    }
}
