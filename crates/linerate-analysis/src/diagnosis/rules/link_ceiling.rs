//! The path's own ceiling is reached (methodology 5.3, D1). L4 goodput against the lowest hard bound.
//!
//! Evidence: at least [`REACHED`] of the ceiling. What it does not see: which of two equal ceilings holds, and whether the
//! declared rate is the true one. A bus is told apart by its name, one flow on a group of links by itself.

use linerate_model::{Finding, Verdict};

use super::{Rule, at_ceiling, flows, is_bus, members, n_flows, score, smaller_segments, subject};
use crate::PointStudy;
use crate::diagnosis::experiment::Experiment;

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
        "goodput is at least 95 % of the lowest ceiling known on its path, which is a link"
    }

    fn number(&self) -> u8 {
        1
    }

    fn judge(&self, point: &PointStudy) -> Option<Finding> {
        let (job, direction, evidence, ceiling) = at_ceiling(point, REACHED, |name| !is_bus(name))?;
        if members(job, direction).is_some() && n_flows(job) < 2.0 {
            return None;
        }
        let claim = format!("{ceiling} is full");
        let finding =
            Finding::new(self.name(), Verdict::Suspected, &subject(point, job, direction), claim, vec![evidence]);
        Some(
            finding.advise(
                "raise its rate, or its MTU, by a quarter: goodput should follow by at least 0.8 of the change",
            ),
        )
    }

    fn score(&self, point: &PointStudy) -> Option<f64> {
        let one_of_a_group =
            flows(point).any(|(job, direction)| members(job, direction).is_some() && n_flows(job) < 2.0);
        score::share(point, REACHED, |name| !is_bus(name)).filter(|_| !one_of_a_group)
    }

    fn experiments(&self, point: &PointStudy) -> Vec<Experiment> {
        let full = at_ceiling(point, REACHED, |name| !is_bus(name));
        full.and_then(|(job, ..)| smaller_segments(job)).into_iter().collect()
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
