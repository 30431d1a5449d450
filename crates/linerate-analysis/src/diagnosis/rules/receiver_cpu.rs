//! The receiver uses all of its CPU (docs/methodology/diagnosis.md#rules, D11): cores of the
//! busiest worker.
//!
//! Evidence: the busiest worker of the receiving end used more than [`super::BUSY`] of a core. The
//! finding also reports how long the sender waited for the window. Not observed: the kernel's work
//! for the receiver in softirq, which dominates for small packets. Spinning ends are always busy
//! and are left out.

use linerate_model::{Arm, metric};

use super::{
    FlowEnd, Rule, first_out_of_cpu, follows_quota, more_cpu, more_flows, score, seen, suspected,
};
use crate::PointStudy;
use crate::diagnosis::experiment::Experiment;
use crate::diagnosis::{Claim, Finding, Sign};

/// Rule: the busiest receiving worker uses a whole core.
pub(super) const RULE: Rule = Rule {
    number: 11,
    name: super::RECEIVER_CPU,
    summary: "the receiver uses all of its CPU: a thread above 90 % of a core, or an exhausted CPU \
        quota",
    judge,
    score,
    experiments,
    sign,
    ..Rule::PLAIN
};

fn judge(point: &PointStudy) -> Option<Finding> {
    let (job, direction, mut evidence) =
        first_out_of_cpu(point, &[FlowEnd::Receiving], |_, _| true)?;
    // A receiver without CPU time reads late, so its window closes. The wait confirms the
    // claim.
    evidence.extend(seen(job, metric::RWND_LIMITED, direction));
    let claim = Claim::OutOfCpu(FlowEnd::Receiving);
    let finding = suspected(RULE.name, (point, job, direction), claim, evidence);
    Some(finding.advise(more_flows(point, job, FlowEnd::Receiving)))
}

fn score(point: &PointStudy) -> Option<f64> {
    score::best(point, |job, direction| score::out_of_cpu(job, FlowEnd::Receiving, direction))
}

fn experiments(point: &PointStudy) -> Vec<Experiment> {
    more_cpu(point, FlowEnd::Receiving, ("receive", ["discard"]))
}

fn sign(base: &PointStudy, changed: &Arm) -> Option<Sign> {
    follows_quota(base, changed, FlowEnd::Receiving)
}

#[cfg(test)]
mod tests {
    use linerate_model::Verdict;

    use super::*;
    use crate::diagnosis::rules::cases::point;

    #[test]
    fn it_fires_on_a_full_core() {
        let full = point(&[("goodput", 5e8), ("receiver_cpu", 0.95), ("rwnd_limited", 0.2)]);
        let finding = RULE.judge(&full).expect("a full core");
        assert_eq!((finding.verdict, finding.evidence.len()), (Verdict::Suspected, 2));
        let command = finding.advice[0].command.as_ref().expect("a command");
        assert_eq!(
            (command.verb.as_str(), &command.arguments[..]),
            ("diagnose", &["--param".to_owned(), "streams=2".to_owned()][..])
        );
    }

    #[test]
    fn a_quota_used_up_is_doubled_at_the_receiving_host() {
        let used_up =
            point(&[("goodput", 5e7), ("receiver_cpu", 0.1), ("receiver_throttled", 0.9)]);
        let experiments = RULE.experiments(&used_up);
        assert_eq!((experiments.len(), experiments[0].settings[0].at.as_str()), (2, "b"));
    }

    #[test]
    fn it_is_silent_below_and_on_spinning_threads() {
        assert_eq!(RULE.judge(&point(&[("goodput", 5e8), ("receiver_cpu", 0.85)])), None);
        let mut spinning = point(&[("goodput", 5e8), ("receiver_cpu", 1.0)]);
        spinning.jobs[0].obtained.insert("wait".into(), crate::Obtained::mode("spin"));
        assert_eq!(RULE.judge(&spinning), None);
    }
}
