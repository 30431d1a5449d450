//! Workers and their device lie in different NUMA nodes (docs/methodology/diagnosis.md#rules, D13).
//! Share of the CPUs that workers are pinned to.
//!
//! Evidence: some lie in another node than the device, and neither end is out of CPU, which would
//! be a reason of its own. What it does not see: workers that are not pinned, which wander; where
//! interrupts of the device are handled; machines of one node.

use linerate_model::{Direction, Evidence, Finding, Verdict, metric};

use super::{FlowEnd, Rule, flows, may_be_judged, out_of_cpu, score, subject, value};
use crate::PointStudy;

/// Fires where pinned workers are remote from their device.
#[derive(Debug)]
pub(super) struct NumaPlacement;

impl Rule for NumaPlacement {
    fn name(&self) -> &'static str {
        "numa_placement"
    }

    fn summary(&self) -> &'static str {
        "workers are pinned to CPUs of another NUMA node than their network device's"
    }

    fn number(&self) -> u8 {
        13
    }

    fn judge(&self, point: &PointStudy) -> Option<Finding> {
        let (job, direction) = flows(point).next().filter(|_| may_be_judged(point))?;
        let remote =
            value(job, metric::REMOTE_CPUS, Direction::Sum).filter(|share| *share > 0.0)?;
        if [FlowEnd::Sending, FlowEnd::Receiving]
            .iter()
            .any(|end| out_of_cpu(job, *end, direction).is_some())
        {
            return None;
        }
        let evidence = Evidence {
            observed: format!(
                "{:.0} % of the CPUs of one end lie in another node than its device",
                remote * 100.0
            ),
            source: "facts: memory.numa, interfaces.*.numa_node".into(),
        };
        let claim = "workers and network device lie in different NUMA nodes";
        let finding = Finding::new(
            self.name(),
            Verdict::Suspected,
            subject(point, job, direction),
            claim,
            vec![evidence],
        );
        Some(finding.advise(
            "compare CPUs of the device's own node (lscpu) with these as arms of \
                        [sweep.compare], by to_cpus: linerate run PLAN.toml --to \
                     HOST (goodput should rise, cycles an instruction should fall)",
        ))
    }

    fn score(&self, point: &PointStudy) -> Option<f64> {
        score::best(point, |job, direction| {
            let remote = value(job, metric::REMOTE_CPUS, Direction::Sum)?;
            let idle = [FlowEnd::Sending, FlowEnd::Receiving]
                .iter()
                .all(|end| out_of_cpu(job, *end, direction).is_none());
            Some(if remote > 0.0 && idle { 0.5 + remote / 2.0 } else { 0.0 })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::rules::cases::point;

    #[test]
    fn it_fires_on_remote_cpus() {
        let finding = NumaPlacement
            .judge(&point(&[("goodput", 5e8), ("remote_cpus", 1.0)]))
            .expect("all remote");
        assert!(finding.evidence[0].observed.starts_with("100 %"), "{:?}", finding.evidence);
    }

    #[test]
    fn it_is_silent_on_local_ones_unknown_ones_and_full_cores() {
        assert_eq!(NumaPlacement.judge(&point(&[("goodput", 5e8), ("remote_cpus", 0.0)])), None);
        assert_eq!(NumaPlacement.judge(&point(&[("goodput", 5e8)])), None);
        let full = point(&[("goodput", 5e8), ("remote_cpus", 1.0), ("receiver_cpu", 0.97)]);
        assert_eq!(NumaPlacement.judge(&full), None);
    }
}
