//! The receiving thread is out of CPU (methodology 5.3, D11). Cores of the busiest worker.
//!
//! Evidence: the busiest worker of the receiving end used more than [`super::BUSY`] of a core; that the sender waited for the
//! window is told with it. What it does not see: work that the kernel does for the receiver in softirq, which is
//! most of it for small packets; spinning ends, which are busy whatever they do, are left out.

use linerate_model::{Evidence, Finding, Verdict};

use super::{Rule, advise_command, busy, busy_evidence, flows, may_be_judged, subject, value};
use crate::PointStudy;

/// Fires where the busiest receiving worker fills its core.
#[derive(Debug)]
pub(super) struct ReceiverCpu;

impl Rule for ReceiverCpu {
    fn name(&self) -> &'static str {
        "receiver_cpu"
    }

    fn summary(&self) -> &'static str {
        "a receiving thread used more than 90 % of a core"
    }

    fn judge(&self, point: &PointStudy) -> Option<Finding> {
        let (job, direction, cores) = flows(point)
            .find_map(|(job, direction)| Some((job, direction, busy(job, "receiver_cpu", direction)?)))
            .filter(|_| may_be_judged(point))?;
        let mut evidence = vec![busy_evidence("receiving", cores)];
        evidence.extend(value(job, "rwnd_limited", direction).map(|share| Evidence {
            observed: format!("the sender waited for the receiver's window {:.0} % of the time", share * 100.0),
            source: "TCP_INFO of the sender: tcpi_rwnd_limited".into(),
        }));
        let claim = "one receiving thread is out of CPU";
        let finding = Finding::new(self.name(), Verdict::Suspected, &subject(point, job, direction), claim, evidence);
        let advice = "receive two flows on two CPUs: goodput should rise by half or more";
        Some(finding.advise(format!("{advice}{}", advise_command(point, job, "-P 2"))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::rules::cases::point;

    #[test]
    fn it_fires_on_a_full_core() {
        let full = point(&[("goodput", 5e8), ("receiver_cpu", 0.95), ("rwnd_limited", 0.2)]);
        let finding = ReceiverCpu.judge(&full).expect("a full core");
        assert_eq!((finding.verdict, finding.evidence.len()), (Verdict::Suspected, 2));
        assert!(finding.advice[0].ends_with("linerate to HOST -P 2"), "{:?}", finding.advice);
    }

    #[test]
    fn it_is_silent_below_and_on_spinning_threads() {
        assert_eq!(ReceiverCpu.judge(&point(&[("goodput", 5e8), ("receiver_cpu", 0.85)])), None);
        let mut spinning = point(&[("goodput", 5e8), ("receiver_cpu", 1.0)]);
        spinning.jobs[0].obtained.insert("wait".into(), "spin".into());
        assert_eq!(ReceiverCpu.judge(&spinning), None);
    }
}
