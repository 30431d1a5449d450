//! The cost of a call limits the sender, not the bytes in it (docs/methodology/diagnosis.md#rules,
//! D9). Cores of the busiest worker.
//!
//! Evidence: the busiest worker of the sending end used more than [`super::BUSY`] of a core in
//! calls of less than [`super::LARGE`]. What it does not see: requests, whose size is the
//! application's; spinning ends, which are busy whatever they do; and whether calls per second
//! really stay when messages grow, which the advice would show.

use linerate_model::{Direction, Evidence, Finding, Verdict, metric};

use super::{
    FlowEnd, LARGE, Rule, TCP_STREAM, advise_command, flows, grown, may_be_judged, out_of_cpu,
    room, score, subject, value,
};
use crate::PointStudy;
use crate::diagnosis::experiment::{Experiment, bytes, set};

/// Fires where the busiest sending worker fills its core with small messages.
#[derive(Debug)]
pub(super) struct SmallMessage;

impl Rule for SmallMessage {
    fn name(&self) -> &'static str {
        "small_message"
    }

    fn summary(&self) -> &'static str {
        "the sender is out of CPU on calls of less than 4 KiB: a thread above 90 % of a core, or a \
            CPU quota used up"
    }

    fn number(&self) -> u8 {
        9
    }

    fn judge(&self, point: &PointStudy) -> Option<Finding> {
        let (job, direction, mut evidence) = flows(point)
            .filter(|(job, _)| value(job, metric::TRANSACTION_RATE, Direction::Sum).is_none())
            .filter(|(job, direction)| {
                value(job, metric::PAYLOAD_PER_SEND, *direction).is_some_and(|bytes| bytes < LARGE)
            })
            .find_map(|(job, direction)| {
                Some((job, direction, out_of_cpu(job, FlowEnd::Sending, direction)?))
            })
            .filter(|_| may_be_judged(point))?;
        evidence.extend(super::payload_evidence(job, direction));
        evidence.extend(value(job, metric::CALLS_PER_SECOND, Direction::Sum).map(|rate| {
            Evidence {
                observed: format!("{rate:.0} calls per second, both ends added"),
                source: "the workers' counters".into(),
            }
        }));
        let claim = "the cost of each system call limits the sender: messages are small";
        let finding = Finding::new(
            self.name(),
            Verdict::Suspected,
            subject(point, job, direction),
            claim,
            evidence,
        );
        let bytes = value(job, metric::PAYLOAD_PER_SEND, direction)?;
        let command = advise_command(point, job, &format!("-l {:.0}", 2.0 * bytes));
        let advice = "hand over twice as much per call, or several messages a call: goodput should \
            rise by 1.6 or more";
        Some(finding.advise(format!("{advice}{command}")))
    }

    fn score(&self, point: &PointStudy) -> Option<f64> {
        score::best(point, |job, direction| {
            let small = value(job, metric::PAYLOAD_PER_SEND, direction)? < LARGE;
            let asked = value(job, metric::TRANSACTION_RATE, Direction::Sum).is_some();
            score::out_of_cpu(job, FlowEnd::Sending, direction).filter(|_| small && !asked)
        })
    }

    fn experiments(&self, point: &PointStudy) -> Vec<Experiment> {
        let sizes = |(job, direction)| {
            let job: &crate::JobStudy = job;
            let size = value(job, metric::PAYLOAD_PER_SEND, direction)
                .filter(|_| job.workload == TCP_STREAM)?;
            let change = vec![set("message_size", bytes(LARGER * size))];
            Some(Experiment::lift(
                "messages of twice the size",
                change,
                grown(LARGER, room(job, direction)),
            ))
        };
        flows(point).find_map(sizes).into_iter().collect()
    }
}

/// By how much messages are made larger.
const LARGER: f64 = 2.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::rules::cases::point;

    #[test]
    fn it_fires_on_a_full_core_with_small_messages() {
        let full = point(&[("goodput", 5e8), ("payload_per_send", 64.0), ("sender_cpu", 0.97)]);
        let finding = SmallMessage.judge(&full).expect("a full core");
        assert_eq!((finding.verdict, finding.evidence.len()), (Verdict::Suspected, 2));
        assert!(finding.advice[0].ends_with("linerate to HOST -l 128"), "{:?}", finding.advice);
    }

    #[test]
    fn it_is_silent_on_large_messages_idle_cores_and_requests() {
        let judge = |bytes, cores| {
            SmallMessage.judge(&point(&[
                ("goodput", 5e8),
                ("payload_per_send", bytes),
                ("sender_cpu", cores),
            ]))
        };
        assert_eq!((judge(65_536.0, 0.99), judge(64.0, 0.85)), (None, None));
        let mut requests =
            point(&[("goodput", 5e8), ("payload_per_send", 1.0), ("sender_cpu", 0.99)]);
        let mut rate = requests.jobs[0].metrics[0].clone();
        (rate.name, rate.direction) = ("transaction_rate".into(), Direction::Sum);
        requests.jobs[0].metrics.push(rate);
        assert_eq!(SmallMessage.judge(&requests), None);
    }
}
