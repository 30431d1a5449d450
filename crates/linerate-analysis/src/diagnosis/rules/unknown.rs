//! No other rule explains the point (docs/methodology/diagnosis.md#rules, D18): said aloud, with
//! what was looked at.
//!
//! It speaks only where a ceiling is known and goodput is below it, for without a ceiling there is
//! nothing to explain. What it does not see: everything no rule looks at. The experiment it
//! proposes is the one whose rule was nearest to speaking.

use linerate_model::{Direction, Evidence, Finding, Unit, Use, Verdict, metric};

use super::{RULES, Rule, UNKNOWN, disk, flows, may_be_judged, standing_queue, subject, value};
use crate::{JobStudy, PointStudy};

const CLAIM: &str = "what limits it is not known from what was recorded";
/// Not a metric but a relation of two.
const STANDING_QUEUE: &str = "the standing queue";
/// What waits for a CPU makes a queue that is no hop's.
const NO_CPU: &str = metric::RUN_QUEUE_WAIT;
/// What would speak for a rule, from where on, and the experiment that would tell.
const NEAREST: [(&str, f64, &str); 8] = [
    (
        metric::RECEIVER_CPU,
        super::BUSY,
        "receive two flows on two CPUs, linerate diagnose --to HOST --param streams=2 (goodput \
            should rise by half or more)",
    ),
    (
        metric::RECEIVER_THROTTLED,
        super::THROTTLED,
        "give the receiving host more CPU, then linerate diagnose --to HOST (goodput should rise \
            as the quota does)",
    ),
    (
        NO_CPU,
        super::HELD_BACK,
        "no CPU had time for all that ran: give the ends CPUs of their own (`cpus` and `pin` of a \
            testbed's endpoints), or send one flow, \
         linerate diagnose --to HOST --param streams=1 (the wait should end)",
    ),
    (
        metric::RWND_LIMITED,
        super::HELD_BACK,
        "a larger receive buffer, linerate diagnose --to HOST --param 'receive_buffer=8 MiB' \
            (goodput should rise by half or more)",
    ),
    (
        metric::SENDER_CPU,
        super::BUSY,
        "send two flows from two CPUs, linerate diagnose --to HOST --param streams=2 (goodput \
            should rise by half or more)",
    ),
    (
        metric::SENDER_THROTTLED,
        super::THROTTLED,
        "give the sending host more CPU, then linerate diagnose --to HOST (goodput should rise as \
            the quota does)",
    ),
    (
        metric::SNDBUF_LIMITED,
        super::HELD_BACK,
        "a larger send buffer, linerate diagnose --to HOST --param 'send_buffer=8 MiB' (goodput \
            should rise by half or more)",
    ),
    // A buffer delay of 100 % (docs/methodology/diagnosis.md#rules, D17).
    (
        STANDING_QUEUE,
        1.0,
        "ask where the queue stands, for some hop is full whose rate nobody declared: linerate run \
            udp_stream --to HOST at each hop (the \
         first whose ceiling is the goodput seen is the one)",
    ),
];
/// Less than this is near nothing.
const WORTH_A_TRY: f64 = 0.3;

/// Fires where no other rule does.
#[derive(Debug)]
pub(super) struct Unknown;

impl Rule for Unknown {
    fn name(&self) -> &'static str {
        UNKNOWN
    }

    fn summary(&self) -> &'static str {
        "goodput is below every ceiling known and no other rule says why"
    }

    fn number(&self) -> u8 {
        18
    }

    fn judge(&self, point: &PointStudy) -> Option<Finding> {
        let others = RULES.iter().filter(|rule| rule.name() != self.name());
        let explained = others
            .filter_map(|rule| rule.judge(point))
            .any(|finding| finding.verdict != Verdict::Inconclusive);
        let below = |(job, direction): &(&JobStudy, Direction)| {
            job.metric(metric::GOODPUT, *direction).is_some_and(|metric| metric.share.is_some())
        };
        let (job, direction) =
            flows(point).find(below).filter(|_| may_be_judged(point) && !explained)?;
        Some(finding(point, job, direction))
    }

    fn score(&self, point: &PointStudy) -> Option<f64> {
        // What is left of it by the best of the others: see `diagnosis::scores`.
        let _others_tell = point;
        None
    }
}

/// That nothing explains `point`, with all that was looked at and the experiment that would tell
/// most.
pub(in crate::diagnosis) fn of(point: &PointStudy) -> Finding {
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
    let goodput = job.metric(metric::GOODPUT, direction);
    let share = goodput.and_then(|metric| metric.share).map(|share| Evidence {
        observed: format!("goodput is {:.1} % of the lowest ceiling", share * 100.0),
        source: "the study's ceilings".into(),
    });
    let read =
        |metric: &str| value(job, metric, direction).or_else(|| value(job, metric, Direction::Sum));
    let looked_at = Use::LookedAt.metrics().filter_map(|metric| {
        let seen = read(metric.name)?;
        // Shares, and CPU time as a share of one CPU, in per cent.
        let (factor, unit) = if metric.unit == Unit::Second { (1e6, "us") } else { (100.0, "%") };
        let observed = format!("{} {:.2} {unit}", metric.name, seen * factor);
        Some(Evidence { observed, source: metric.meaning.into() })
    });
    let mut evidence: Vec<Evidence> = share.into_iter().chain(looked_at).collect();
    if evidence.is_empty() {
        let observed = "nothing that a rule could look at was recorded".to_owned();
        evidence.push(Evidence { observed, source: "the study of the point".into() });
    }
    let finding = Finding::new(
        UNKNOWN,
        Verdict::Inconclusive,
        subject(point, job, direction),
        CLAIM,
        evidence,
    );
    let no_cpu = read(NO_CPU).is_some_and(|share| share > super::HELD_BACK);
    let nearest = NEAREST.iter().filter(|(metric, ..)| !(no_cpu && *metric == STANDING_QUEUE));
    let nearest = nearest.filter_map(|(metric, threshold, experiment)| {
        let seen =
            if *metric == STANDING_QUEUE { standing_queue(job, direction) } else { read(metric) }?;
        Some((seen / threshold, *metric, *experiment))
    });
    let nearest =
        nearest.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(share, ..)| *share > WORTH_A_TRY);
    finding.advise(match nearest {
        Some((share, metric, experiment)) if share < 1.0 => format!(
            "{experiment}: {metric} is nearest to being a reason, at {:.0} % of where a rule would \
                speak",
            share * 100.0
        ),
        Some((_, metric, experiment)) => format!(
            "{experiment}: {metric} would be a reason, but for what else its rule asks and what \
                was not seen"
        ),
        None => "repeat it with twice the streams: linerate diagnose --to HOST --param streams=2 \
            (what limits a flow moves, what limits the path does \
                 not)"
            .to_owned(),
    })
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
        assert!(told.advice[0].contains("linerate disk sweep"), "{told:?}");
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
                .find(|metric| metric.name == NO_CPU)
                .expect("it is there");
            wait.direction = Direction::Sum;
            let told = Unknown.judge(&point).expect("nothing else speaks").advice;
            told[0].clone()
        };
        assert!(advice(0.0).starts_with("ask where the queue stands"), "{}", advice(0.0));
        assert!(
            advice(0.0).ends_with("but for what else its rule asks and what was not seen"),
            "{}",
            advice(0.0)
        );
        assert!(advice(0.4).starts_with("no CPU had time"), "{}", advice(0.4));
    }
}
