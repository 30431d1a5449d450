//! Workers and their device are in different NUMA nodes (docs/methodology/diagnosis.md#rules, D13):
//! share of the CPUs that workers are pinned to.
//!
//! Evidence: some of these CPUs are in another node than the device, and neither end uses all of
//! its CPU, which would be a cause of its own. Not observed: workers that are not pinned, the CPUs
//! that handle the device's interrupts, and machines with one node.

use linerate_model::{Direction, metric};

use super::{FlowEnd, Rule, flows, may_be_judged, out_of_cpu, score, suspected, value};
use crate::PointStudy;
use crate::diagnosis::{Claim, Evidence, Finding, Step};

/// Rule: pinned workers are remote from their device.
pub(super) const RULE: Rule = Rule {
    number: 13,
    name: "numa_placement",
    summary: "workers are pinned to CPUs of a NUMA node other than their network device's node",
    judge,
    score,
    ..Rule::PLAIN
};

fn judge(point: &PointStudy) -> Option<Finding> {
    let (job, direction) = flows(point).next().filter(|_| may_be_judged(point))?;
    let remote = value(job, metric::REMOTE_CPUS, Direction::Sum).filter(|share| *share > 0.0)?;
    // A busy core limits the rate by itself; the remote node would only make it busy earlier.
    if [FlowEnd::Sending, FlowEnd::Receiving]
        .iter()
        .any(|end| out_of_cpu(job, *end, direction).is_some())
    {
        return None;
    }
    let evidence = vec![Evidence::figure(metric::REMOTE_CPUS, remote)];
    let finding = suspected(RULE.name, (point, job, direction), Claim::RemoteNode, evidence);
    Some(finding.advise(Step::PinToNode))
}

fn score(point: &PointStudy) -> Option<f64> {
    score::best(point, |job, direction| {
        let remote = value(job, metric::REMOTE_CPUS, Direction::Sum)?;
        let idle = [FlowEnd::Sending, FlowEnd::Receiving]
            .iter()
            .all(|end| out_of_cpu(job, *end, direction).is_none());
        // Any remote CPU reaches the threshold, and more of them raise the score.
        Some(if remote > 0.0 && idle { 0.5 + remote / 2.0 } else { 0.0 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::rules::cases::point;

    #[test]
    fn it_fires_on_remote_cpus() {
        let finding =
            RULE.judge(&point(&[("goodput", 5e8), ("remote_cpus", 1.0)])).expect("all remote");
        assert_eq!(finding.evidence, [Evidence::figure(metric::REMOTE_CPUS, 1.0)]);
    }

    #[test]
    fn it_is_silent_on_local_ones_unknown_ones_and_full_cores() {
        assert_eq!(RULE.judge(&point(&[("goodput", 5e8), ("remote_cpus", 0.0)])), None);
        assert_eq!(RULE.judge(&point(&[("goodput", 5e8)])), None);
        let full = point(&[("goodput", 5e8), ("remote_cpus", 1.0), ("receiver_cpu", 0.97)]);
        assert_eq!(RULE.judge(&full), None);
    }
}
