//! The sender uses all of its CPU on large messages (docs/methodology/diagnosis.md#rules, D10):
//! cores of the busiest worker.
//!
//! Evidence: the busiest worker of the sending end used more than [`super::BUSY`] of a core, in
//! calls of at least [`super::LARGE`]. Not observed: the kernel's work for the sender in softirq.
//! Spinning ends are always busy and are left out.

use linerate_model::{Arm, metric};

use super::{
    FlowEnd, Rule, TCP_STREAM, changed, first_out_of_cpu, follows_quota, more_cpu, more_flows,
    score, seen, sends_large, suspected,
};
use crate::PointStudy;
use crate::diagnosis::experiment::{Experiment, set};
use crate::diagnosis::{Claim, Finding, Sign, Step};

/// Rule: the busiest sending worker uses a whole core on large messages.
pub(super) const RULE: Rule = Rule {
    number: 10,
    name: super::SENDER_CPU,
    summary: "the sender uses all of its CPU on calls of 4 KiB and more: a thread above 90 % of a \
        core, or an exhausted CPU quota",
    judge,
    score,
    experiments,
    sign,
    ..Rule::PLAIN
};

fn judge(point: &PointStudy) -> Option<Finding> {
    let (job, direction, mut evidence) = first_out_of_cpu(point, &[FlowEnd::Sending], sends_large)?;
    // The size of the calls separates this claim from the rule for small messages.
    evidence.extend(seen(job, metric::PAYLOAD_PER_SEND, direction));
    let claim = Claim::OutOfCpu(FlowEnd::Sending);
    let finding = suspected(RULE.name, (point, job, direction), claim, evidence);
    // Datagrams are always copied: only TCP can send without copying.
    let finding = if job.workload == TCP_STREAM {
        let command = changed(point, &[set("send", "sendfile")]);
        finding.advise(Step::WithoutCopies { both: false }.by(command))
    } else {
        finding
    };
    Some(finding.advise(more_flows(point, job, FlowEnd::Sending)))
}

fn score(point: &PointStudy) -> Option<f64> {
    score::best(point, |job, direction| {
        // `None` instead of zero: small calls belong to another rule, so nothing was missing
        // here.
        score::out_of_cpu(job, FlowEnd::Sending, direction).filter(|_| sends_large(job, direction))
    })
}

fn experiments(point: &PointStudy) -> Vec<Experiment> {
    more_cpu(point, FlowEnd::Sending, ("send", ["sendfile", "zerocopy"]))
}

fn sign(base: &PointStudy, changed: &Arm) -> Option<Sign> {
    follows_quota(base, changed, FlowEnd::Sending)
}

#[cfg(test)]
mod tests {
    use linerate_model::{Failing, HostSetting, Verdict};

    use super::*;
    use crate::diagnosis::rules::cases::point;

    #[test]
    fn it_fires_on_a_full_core_with_large_messages() {
        let full = point(&[("goodput", 5e8), ("payload_per_send", 65_536.0), ("sender_cpu", 0.97)]);
        let finding = RULE.judge(&full).expect("a full core");
        assert_eq!((finding.verdict, finding.evidence.len()), (Verdict::Suspected, 2));
        let command = finding.advice[0].command.as_ref().expect("a command");
        assert_eq!(command.arguments, ["--param", "send=sendfile"]);
    }

    #[test]
    fn a_quota_used_up_is_doubled_and_only_that_can_refute() {
        let cpu = [("sender_cpu", 0.1), ("sender_throttled", 0.96)];
        let load = [("goodput", 5e7), ("payload_per_send", 65_536.0)];
        let experiments = RULE.experiments(&point(&[load, cpu].concat()));
        let told: Vec<_> = experiments
            .iter()
            .map(|experiment| (experiment.name.as_str(), experiment.failing))
            .collect();
        assert_eq!(
            told,
            [
                ("twice the CPU quota", Failing::Refutes),
                ("send sendfile or zerocopy", Failing::SaysNothing)
            ]
        );
        let HostSetting { at, name, value } = &experiments[0].settings[0];
        assert_eq!((at.as_str(), name.as_str(), value.as_str()), ("a", "cpu_quota", "x2"));
        assert_eq!(RULE.experiments(&point(&load)).len(), 1, "no quota, nothing to raise");
    }

    #[test]
    fn advice_for_datagrams_does_not_include_sending_without_copying() {
        let mut full =
            point(&[("goodput", 5e8), ("payload_per_send", 65_536.0), ("sender_cpu", 0.97)]);
        full.jobs[0].workload = "udp_stream".into();
        let advice = RULE.judge(&full).expect("a full core").advice;
        let [advice] = &advice[..] else { panic!("one step: {advice:?}") };
        let command = advice.command.as_ref().expect("a command");
        assert_eq!(command.arguments, ["--workload", "udp_stream", "--param", "streams=2"]);
    }

    #[test]
    fn it_is_silent_below_on_small_messages_and_on_spinning_threads() {
        let judge = |bytes, cores| {
            RULE.judge(&point(&[
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
        assert_eq!(RULE.judge(&spinning), None);
    }
}
