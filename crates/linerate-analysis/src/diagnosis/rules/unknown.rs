//! No other rule explains the point (docs/methodology/diagnosis.md#rules, D18). The finding lists
//! the evidence that the rules examined.
//!
//! It applies only where a ceiling is known and goodput is below it; without a ceiling there is
//! nothing to explain. Not observed: everything that no rule examines. The proposed experiment is
//! the one of the rule that came nearest to its threshold.

use linerate_model::{Advice, Direction, Evidence, Finding, Metric, Unit, Use, Verdict, metric};
use serde_json::Value;

use super::{
    RULES, Rule, UNKNOWN, changed, disk, flows, may_be_judged, more_flows, n_flows, standing_queue,
    subject, value,
};
use crate::diagnosis::experiment::set;
use crate::{JobStudy, PointStudy};

const CLAIM: &str = "the recorded evidence does not show what limits the rate";
/// Wait for a CPU: it makes a queue that is not at any hop.
const NO_CPU: &Metric = metric::RUN_QUEUE_WAIT;
/// Buffer size of an experiment that removes a buffer limit on most paths.
const LARGE_BUFFER: &str = "8 MiB";

/// Quantity that a rule compares with a threshold.
#[derive(Clone, Copy, PartialEq)]
enum Quantity {
    Metric(&'static Metric),
    /// Relative increase of the round-trip time over its minimum.
    StandingQueue,
}

impl Quantity {
    fn name(self) -> &'static str {
        match self {
            Self::Metric(metric) => metric.name,
            Self::StandingQueue => "the standing queue",
        }
    }
}

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
    let with = |key: &str, value: Value| changed(point, &[set(key, value)]);
    match quantity {
        Quantity::Metric(known) if known == metric::RECEIVER_CPU => {
            more_flows(point, job, "receive")
        }
        Quantity::Metric(known) if known == metric::SENDER_CPU => more_flows(point, job, "send"),
        Quantity::Metric(known) if known == metric::RECEIVER_THROTTLED => Advice::new(
            "raise the receiver's CPU \
            quota",
        )
        .expecting("goodput rises with the quota")
        .with_command(changed(point, &[])),
        Quantity::Metric(known) if known == metric::SENDER_THROTTLED => {
            Advice::new("raise the sender's CPU quota")
                .expecting("goodput rises with the quota")
                .with_command(changed(point, &[]))
        }
        Quantity::Metric(known) if known == metric::RWND_LIMITED => {
            Advice::new("use a larger receive buffer")
                .expecting("goodput rises by half or more")
                .with_command(with("receive_buffer", LARGE_BUFFER.into()))
        }
        Quantity::Metric(known) if known == metric::SNDBUF_LIMITED => {
            Advice::new("use a larger send buffer")
                .expecting("goodput rises by half or more")
                .with_command(with("send_buffer", LARGE_BUFFER.into()))
        }
        Quantity::StandingQueue => Advice::new(
            "find the hop with the queue: repeat towards each hop; the first whose rate equals \
                this goodput is saturated",
        )
        .with_command(changed(point, &[])),
        // A single flow cannot be reduced: only other programs take its CPU.
        Quantity::Metric(_) if n_flows(job) < 2.0 => Advice::new(
            "stop other programs, or pin each end to CPUs of its own (`cpus` and `pin` of the \
                testbed's endpoints), and repeat",
        )
        .expecting("the wait for a CPU ends")
        .with_command(changed(point, &[])),
        Quantity::Metric(_) => Advice::new(
            "send one flow, or pin each end to CPUs of its own (`cpus` and `pin` of the testbed's \
                endpoints)",
        )
        .expecting("the wait for a CPU ends")
        .with_command(with("streams", 1.into())),
    }
}

/// Rule: no other rule explains the point.
#[derive(Debug)]
pub(super) struct Unknown;

impl Rule for Unknown {
    fn name(&self) -> &'static str {
        UNKNOWN
    }

    fn summary(&self) -> &'static str {
        "goodput is below every known ceiling, and no other rule explains it"
    }

    fn number(&self) -> u8 {
        18
    }

    fn judge(&self, point: &PointStudy) -> Option<Finding> {
        let others = RULES.iter().filter(|rule| rule.name() != self.name());
        let explained = others
            // Inconclusive findings explain nothing, so they do not silence this rule.
            .filter_map(|rule| rule.judge(point))
            .any(|finding| finding.verdict != Verdict::Inconclusive);
        let below = |(job, direction): &(&JobStudy, Direction)| {
            // Without a ceiling, any goodput may be all that the path can do.
            job.metric(metric::GOODPUT, *direction).is_some_and(|metric| metric.share.is_some())
        };
        let (job, direction) =
            flows(point).find(below).filter(|_| may_be_judged(point) && !explained)?;
        Some(finding(point, job, direction))
    }

    fn score(&self, point: &PointStudy) -> Option<f64> {
        // `diagnosis::scores` assigns it the remainder of the best other rule.
        let _other_rules_decide = point;
        None
    }
}

/// Returns the finding that nothing explains `point`, with the examined evidence and the most
/// promising experiment.
pub(in crate::diagnosis) fn of(point: &PointStudy) -> Finding {
    // Disks have no flows; their load is described by transfers and slots instead.
    if let Some(finding) = disk::unexplained(point, UNKNOWN, CLAIM) {
        return finding;
    }
    match flows(point).next() {
        Some((job, direction)) => finding(point, job, direction),
        None => {
            let observed = "no flow carried data".to_owned();
            let evidence = Evidence { observed, source: "the counters of both ends".into() };
            Finding::new(
                UNKNOWN,
                Verdict::Inconclusive,
                point.sweep.as_str(),
                CLAIM,
                vec![evidence],
            )
        }
    }
}

fn finding(point: &PointStudy, job: &JobStudy, direction: Direction) -> Finding {
    let nearest = nearest(job, direction);
    let mut evidence: Vec<Evidence> = nearest.map(threshold_evidence).into_iter().collect();
    let goodput = job.metric(metric::GOODPUT, direction);
    evidence.extend(goodput.and_then(|metric| metric.share).map(|share| Evidence {
        observed: format!("goodput is {:.1} % of the lowest known ceiling", share * 100.0),
        source: "the study's ceilings".into(),
    }));
    evidence.extend(Use::LookedAt.metrics().filter_map(|metric| {
        let seen = read(job, metric, direction)?;
        // Shares, and CPU time as a share of one CPU, in per cent.
        // All other examined metrics are shares.
        let (factor, unit) = if metric.unit == Unit::Second { (1e6, "us") } else { (100.0, "%") };
        let observed = format!("{} {:.2} {unit}", metric.name, seen * factor);
        Some(Evidence { observed, source: metric.meaning.into() })
    }));
    if evidence.is_empty() {
        let observed = "no figure that a rule examines was recorded".to_owned();
        evidence.push(Evidence { observed, source: "the study of the point".into() });
    }
    let step = match nearest {
        Some((quantity, _)) => advice(quantity, point, job),
        None => {
            let streams = 2 * n_flows(job) as u64;
            Advice::new(format!("repeat with {streams} streams"))
                .expecting("goodput rises if the limit is per flow, and stays if it is the path's")
                .with_command(changed(point, &[set("streams", streams)]))
        }
    };
    Finding::new(UNKNOWN, Verdict::Inconclusive, subject(point, job, direction), CLAIM, evidence)
        .advise(step)
}

/// Returns the estimate of `metric` in `direction`, else over both directions.
fn read(job: &JobStudy, metric: &Metric, direction: Direction) -> Option<f64> {
    value(job, metric, direction).or_else(|| value(job, metric, Direction::Sum))
}

/// Returns the quantity that is nearest to the threshold of its rule, and its share of it.
fn nearest(job: &JobStudy, direction: Direction) -> Option<(Quantity, f64)> {
    // Packets that wait for a CPU look like a queue on the path.
    let no_cpu = read(job, NO_CPU, direction).is_some_and(|share| share > super::HELD_BACK);
    // The advice for a queue would send the user along the path although the hosts are busy.
    let candidates =
        NEAREST.iter().filter(|(quantity, _)| !(no_cpu && *quantity == Quantity::StandingQueue));
    let shares = candidates.filter_map(|(quantity, threshold)| {
        let seen = match quantity {
            Quantity::Metric(metric) => read(job, metric, direction),
            Quantity::StandingQueue => standing_queue(job, direction),
        }?;
        Some((*quantity, seen / threshold))
    });
    // Every quantity is some distance from its threshold; below this one the distance says nothing.
    shares.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, share)| *share > WORTH_A_TRY)
}

/// Returns how near `quantity` is to its threshold as evidence.
fn threshold_evidence((quantity, share): (Quantity, f64)) -> Evidence {
    let name = quantity.name();
    let observed = if share < 1.0 {
        format!("{name} is at {:.0} % of the threshold of its rule", share * 100.0)
    } else {
        format!("{name} is {share:.1} times the threshold of its rule, whose other conditions fail")
    };
    Evidence { observed, source: "the thresholds of the diagnosis rules".into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::rules::cases::point;

    #[test]
    fn it_fires_where_nothing_else_does_and_is_silent_elsewhere() {
        let finding = Unknown
            .judge(&point(&[("goodput", 0.5e9), ("rtt", 0.001)]))
            .expect("nothing else speaks");
        assert_eq!((finding.verdict, finding.evidence.len()), (Verdict::Inconclusive, 2));
        assert_eq!(Unknown.judge(&point(&[("goodput", 0.99e9)])), None);
        assert_eq!(Unknown.judge(&point(&[("goodput", 0.5e9), ("sndbuf_limited", 0.9)])), None);
    }

    #[test]
    fn of_a_disk_its_own_figures_are_told() {
        let figures = [("iops", 4_000.0), ("achieved_depth", 31.9), ("service_time_mean", 7.97e-3)];
        let told = of(&disk::cases::load(32, &figures));
        assert_eq!(told.verdict, Verdict::Inconclusive);
        assert!(
            told.evidence[0].observed.starts_with("31.9 transfers in flight of 7.970 ms"),
            "{told:?}"
        );
        let command = told.advice[0].command.as_ref().expect("a command");
        assert_eq!((command.verb.as_str(), &command.path), ("disk sweep", &None));
        let mut open = disk::cases::load(32, &figures);
        open.jobs[0].params.set("rate", "4 kpps");
        assert!(of(&open).evidence[0].observed.contains("a single closed load"), "{:?}", of(&open));
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
            Unknown.judge(&point).expect("nothing else speaks")
        };
        let queue = advice(0.0);
        assert!(queue.advice[0].step.starts_with("find the hop"), "{queue:?}");
        assert!(
            queue.evidence[0]
                .observed
                .starts_with("the standing queue is 17.5 times the threshold"),
            "{queue:?}"
        );
        let waits = advice(0.4);
        assert!(waits.advice[0].step.starts_with("stop other programs"), "one flow: {waits:?}");
    }
}
