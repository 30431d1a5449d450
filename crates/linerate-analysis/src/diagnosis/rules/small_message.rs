//! The cost of a call limits the sender, not the bytes in it (methodology 5.3, D9). Cores of the busiest worker.
//!
//! Evidence: the busiest worker of the sending end used more than [`super::BUSY`] of a core in calls of less than
//! [`super::LARGE`]. What it does not see: requests, whose size is the application's; spinning ends, which are busy whatever
//! they do; and whether calls per second really stay when messages grow, which the advice would show.

use linerate_model::{Direction, Evidence, Finding, Verdict};

use super::{LARGE, Rule, advise_command, busy, busy_evidence, flows, may_be_judged, subject, value};
use crate::PointStudy;

/// Fires where the busiest sending worker fills its core with small messages.
#[derive(Debug)]
pub(super) struct SmallMessage;

impl Rule for SmallMessage {
    fn name(&self) -> &'static str {
        "small_message"
    }

    fn summary(&self) -> &'static str {
        "a sending thread used more than 90 % of a core on calls of less than 4 KiB"
    }

    fn judge(&self, point: &PointStudy) -> Option<Finding> {
        let (job, direction, cores) = flows(point)
            .filter(|(job, _)| value(job, "transaction_rate", Direction::Sum).is_none())
            .filter(|(job, direction)| value(job, "payload_per_send", *direction).is_some_and(|bytes| bytes < LARGE))
            .find_map(|(job, direction)| Some((job, direction, busy(job, "sender_cpu", direction)?)))
            .filter(|_| may_be_judged(point))?;
        let mut evidence = vec![busy_evidence("sending", cores)];
        evidence.extend(super::payload_evidence(job, direction));
        evidence.extend(value(job, "calls_per_second", Direction::Sum).map(|rate| Evidence {
            observed: format!("{rate:.0} calls per second, both ends added"),
            source: "the workers' counters".into(),
        }));
        let claim = "the cost of each system call limits the sender: messages are small";
        let finding = Finding::new(self.name(), Verdict::Suspected, &subject(point, job, direction), claim, evidence);
        let bytes = value(job, "payload_per_send", direction)?;
        let command = advise_command(point, job, &format!("-l {:.0}", 2.0 * bytes));
        let advice = "hand over twice as much per call, or several messages a call: goodput should rise by 1.6 or more";
        Some(finding.advise(format!("{advice}{command}")))
    }
}

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
            SmallMessage.judge(&point(&[("goodput", 5e8), ("payload_per_send", bytes), ("sender_cpu", cores)]))
        };
        assert_eq!((judge(65_536.0, 0.99), judge(64.0, 0.85)), (None, None));
        let mut requests = point(&[("goodput", 5e8), ("payload_per_send", 1.0), ("sender_cpu", 0.99)]);
        let mut rate = requests.jobs[0].metrics[0].clone();
        (rate.name, rate.direction) = ("transaction_rate".into(), Direction::Sum);
        requests.jobs[0].metrics.push(rate);
        assert_eq!(SmallMessage.judge(&requests), None);
    }
}
