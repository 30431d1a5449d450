//! The path's own ceiling is reached (methodology 5.3, D1). L4 goodput against the lowest hard bound.
//!
//! Evidence: at least [`REACHED`] of the ceiling. What it does not see: which of two equal ceilings holds, and whether the
//! declared rate is the true one.

use linerate_model::{BitRate, Evidence, Finding, Verdict};

use super::{Rule, flows, may_be_judged, subject};
use crate::PointStudy;

/// Share of the lowest bound from which it counts as reached.
const REACHED: f64 = 0.95;

/// Fires where goodput reaches the lowest bound known.
#[derive(Debug)]
pub(super) struct LinkCeiling;

impl Rule for LinkCeiling {
    fn name(&self) -> &'static str {
        "link_ceiling"
    }

    fn summary(&self) -> &'static str {
        "goodput is at least 95 % of the lowest ceiling known on its path"
    }

    fn judge(&self, point: &PointStudy) -> Option<Finding> {
        let reached = |(job, direction)| {
            let job: &crate::JobStudy = job;
            let metric = job.metric("goodput", direction)?;
            let share = metric.share.filter(|share| *share >= REACHED)?;
            Some((job, direction, share, metric.estimate?.value, point.ceilings.get(metric.ceiling?)?))
        };
        let (job, direction, share, goodput, ceiling) = flows(point).filter_map(reached).next()?;
        let evidence = Evidence {
            observed: format!("goodput {} is {:.1} % of {}", BitRate(goodput), share * 100.0, BitRate(ceiling.value)),
            source: format!("{}: {}", ceiling.name, ceiling.source),
        };
        let claim = format!("{} is full", ceiling.name);
        let finding =
            Finding::new(self.name(), Verdict::Suspected, &subject(point, job, direction), claim, vec![evidence]);
        let advice = "raise its rate, or its MTU, by a quarter: goodput should follow by at least 0.8 of the change";
        may_be_judged(point).then(|| finding.advise(advice))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::rules::cases::point;

    #[test]
    fn it_fires_at_the_ceiling_and_is_silent_below() {
        let finding = LinkCeiling.judge(&point(&[("goodput", 0.97e9)])).expect("97 % of the ceiling");
        assert_eq!(finding.verdict, Verdict::Suspected);
        assert_eq!(LinkCeiling.judge(&point(&[("goodput", 0.90e9)])), None);
    }
}
