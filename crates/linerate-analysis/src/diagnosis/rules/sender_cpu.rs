//! The sending thread is out of CPU on large messages (docs/methodology/diagnosis.md#rules, D10).
//! Cores of the busiest worker.
//!
//! Evidence: the busiest worker of the sending end used more than [`super::BUSY`] of a core, in
//! calls of at least [`super::LARGE`]. What it does not see: a worker that spins is busy whatever
//! it does, so that spinning ends are left out; and work that the kernel does for the sender in
//! softirq.

use linerate_model::{Finding, Verdict, metric};

use super::{
    FlowEnd, LARGE, Rule, TCP_STREAM, advise_command, flows, may_be_judged, more_cpu, out_of_cpu,
    score, subject, value,
};
use crate::PointStudy;
use crate::diagnosis::experiment::Experiment;

/// Fires where the busiest sending worker fills its core with large messages.
#[derive(Debug)]
pub(super) struct SenderCpu;

impl Rule for SenderCpu {
    fn name(&self) -> &'static str {
        metric::SENDER_CPU
    }

    fn summary(&self) -> &'static str {
        "the sender is out of CPU on calls of 4 KiB and more: a thread above 90 % of a core, or a \
            CPU quota used up"
    }

    fn number(&self) -> u8 {
        10
    }

    fn judge(&self, point: &PointStudy) -> Option<Finding> {
        let (job, direction, mut evidence) = flows(point)
            .filter(|(job, direction)| {
                value(job, metric::PAYLOAD_PER_SEND, *direction).is_some_and(|bytes| bytes >= LARGE)
            })
            .find_map(|(job, direction)| {
                Some((job, direction, out_of_cpu(job, FlowEnd::Sending, direction)?))
            })
            .filter(|_| may_be_judged(point))?;
        evidence.extend(super::payload_evidence(job, direction));
        let claim = "the sender is out of CPU";
        let finding = Finding::new(
            self.name(),
            Verdict::Suspected,
            subject(point, job, direction),
            claim,
            evidence,
        );
        let advice = "send without copying: CPU per byte should fall and goodput rise until \
            another limit is met";
        let more = "spread the flows over two sending CPUs: goodput should rise by half or more";
        let [zerocopy, parallel] =
            ["-Z", "-P 2"].map(|options| advise_command(point, job, options));
        // Datagrams are copied whatever is asked for: only TCP has a way to send without.
        let finding = if job.workload == TCP_STREAM {
            finding.advise(format!("{advice}{zerocopy}"))
        } else {
            finding
        };
        Some(finding.advise(format!("{more}{parallel}")))
    }

    fn score(&self, point: &PointStudy) -> Option<f64> {
        score::best(point, |job, direction| {
            let large = value(job, metric::PAYLOAD_PER_SEND, direction)? >= LARGE;
            score::out_of_cpu(job, FlowEnd::Sending, direction).filter(|_| large)
        })
    }

    fn experiments(&self, point: &PointStudy) -> Vec<Experiment> {
        more_cpu(
            point,
            FlowEnd::Sending,
            "sent without copying",
            ("send", ["sendfile", "zerocopy"]),
        )
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::{Failing, HostSetting};

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
    fn a_quota_used_up_is_doubled_and_only_that_can_refute() {
        let cpu = [("sender_cpu", 0.1), ("sender_throttled", 0.96)];
        let load = [("goodput", 5e7), ("payload_per_send", 65_536.0)];
        let experiments = SenderCpu.experiments(&point(&[load, cpu].concat()));
        let told: Vec<_> = experiments
            .iter()
            .map(|experiment| (experiment.name.as_str(), experiment.failing))
            .collect();
        assert_eq!(
            told,
            [
                ("twice the CPU quota", Failing::Refutes),
                ("sent without copying", Failing::SaysNothing)
            ]
        );
        let HostSetting { at, name, value } = &experiments[0].settings[0];
        assert_eq!((at.as_str(), name.as_str(), value.as_str()), ("a", "cpu_quota", "x2"));
        assert_eq!(SenderCpu.experiments(&point(&load)).len(), 1, "no quota, nothing to raise");
    }

    #[test]
    fn of_datagrams_it_advises_only_what_the_command_takes() {
        let mut full =
            point(&[("goodput", 5e8), ("payload_per_send", 65_536.0), ("sender_cpu", 0.97)]);
        full.jobs[0].workload = "udp_stream".into();
        let advice = SenderCpu.judge(&full).expect("a full core").advice;
        assert!(
            advice.len() == 1 && advice[0].ends_with("linerate to HOST udp -P 2"),
            "{advice:?}"
        );
    }

    #[test]
    fn it_is_silent_below_on_small_messages_and_on_spinning_threads() {
        let judge = |bytes, cores| {
            SenderCpu.judge(&point(&[
                ("goodput", 5e8),
                ("payload_per_send", bytes),
                ("sender_cpu", cores),
            ]))
        };
        assert_eq!((judge(65_536.0, 0.85), judge(64.0, 0.99)), (None, None));
        let mut spinning =
            point(&[("goodput", 5e8), ("payload_per_send", 65_536.0), ("sender_cpu", 1.0)]);
        let mode = |word: &str| vec![crate::Given::Mode(word.to_owned())];
        let modes = crate::Obtained { from: mode("spin"), to: mode("block") };
        spinning.jobs[0].obtained.insert("wait".into(), modes);
        assert_eq!(SenderCpu.judge(&spinning), None);
    }
}
