//! The sending thread is out of CPU on large messages (methodology 5.3, D10). Cores of the busiest worker.
//!
//! Evidence: the busiest worker of the sending end used more than [`super::BUSY`] of a core, in calls of at least
//! [`super::LARGE`]. What it does not see: a worker that spins is busy whatever it does, so that spinning ends are left out; and
//! work that the kernel does for the sender in softirq.

use linerate_model::{Finding, Verdict};

use super::{LARGE, Rule, advise_command, busy, busy_evidence, flows, may_be_judged, subject, value};
use crate::PointStudy;

/// Fires where the busiest sending worker fills its core with large messages.
#[derive(Debug)]
pub(super) struct SenderCpu;

impl Rule for SenderCpu {
    fn name(&self) -> &'static str {
        "sender_cpu"
    }

    fn summary(&self) -> &'static str {
        "a sending thread used more than 90 % of a core on calls of 4 KiB and more"
    }

    fn judge(&self, point: &PointStudy) -> Option<Finding> {
        let (job, direction, cores) = flows(point)
            .filter(|(job, direction)| value(job, "payload_per_send", *direction).is_some_and(|bytes| bytes >= LARGE))
            .find_map(|(job, direction)| Some((job, direction, busy(job, "sender_cpu", direction)?)))
            .filter(|_| may_be_judged(point))?;
        let mut evidence = vec![busy_evidence("sending", cores)];
        evidence.extend(super::payload_evidence(job, direction));
        let claim = "one sending thread is out of CPU";
        let finding = Finding::new(self.name(), Verdict::Suspected, &subject(point, job, direction), claim, evidence);
        let advice = "send without copying: CPU per byte should fall and goodput rise until another limit is met";
        let more = "spread the flows over two sending CPUs: goodput should rise by half or more";
        let [zerocopy, parallel] = ["-Z", "-P 2"].map(|options| advise_command(point, job, options));
        Some(finding.advise(format!("{advice}{zerocopy}")).advise(format!("{more}{parallel}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::rules::cases::point;

    #[test]
    fn it_fires_on_a_full_core_with_large_messages() {
        let full = point(&[("goodput", 5e8), ("payload_per_send", 65_536.0), ("sender_cpu", 0.97)]);
        let finding = SenderCpu.judge(&full).expect("a full core");
        assert_eq!((finding.verdict, finding.evidence.len()), (Verdict::Suspected, 2));
        assert!(finding.advice[0].ends_with("linerate to HOST -Z"), "{:?}", finding.advice);
    }

    #[test]
    fn it_is_silent_below_on_small_messages_and_on_spinning_threads() {
        let judge = |bytes, cores| {
            SenderCpu.judge(&point(&[("goodput", 5e8), ("payload_per_send", bytes), ("sender_cpu", cores)]))
        };
        assert_eq!((judge(65_536.0, 0.85), judge(64.0, 0.99)), (None, None));
        let mut spinning = point(&[("goodput", 5e8), ("payload_per_send", 65_536.0), ("sender_cpu", 1.0)]);
        spinning.jobs[0].obtained.insert("wait".into(), "from: spin; to: block".into());
        assert_eq!(SenderCpu.judge(&spinning), None);
    }
}
