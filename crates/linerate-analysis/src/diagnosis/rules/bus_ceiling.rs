//! A host's bus is saturated (docs/methodology/diagnosis.md#rules, D2): L4 goodput against the
//! lowest hard ceiling, where a bus sets it.
//!
//! Evidence: goodput is at least [`REACHED`] of the ceiling. The threshold is lower than for a link
//! because the ceiling leaves out descriptors and bus turnarounds. Not observed: which of two
//! devices on one bus uses most of it.

use linerate_model::Command;

use super::{Rule, at_ceiling, is_bus, score, shrunk, smaller_segments, stream_of, suspected};
use crate::PointStudy;
use crate::diagnosis::experiment::Experiment;
use crate::diagnosis::{Claim, Finding, Step};

/// Share of the ceiling from which the bus counts as saturated.
const REACHED: f64 = 0.9;

/// Rule: goodput reaches the ceiling of a bus.
pub(super) const RULE: Rule = Rule {
    number: 2,
    name: "bus_ceiling",
    summary: "goodput is at least 90 % of the lowest known ceiling, and a host's bus sets that \
        ceiling",
    judge,
    score,
    experiments,
    ..Rule::PLAIN
};

fn judge(point: &PointStudy) -> Option<Finding> {
    let (job, direction, evidence, bus) = at_ceiling(point, REACHED, is_bus)?;
    let claim = Claim::Saturated(bus.subject.clone());
    let finding = suspected(RULE.name, (point, job, direction), claim, vec![evidence]);
    Some(finding.advise(Step::OtherSlot.by(Command::local("limit pcie", &[]))))
}

fn score(point: &PointStudy) -> Option<f64> {
    score::share(point, REACHED, is_bus)
}

fn experiments(point: &PointStudy) -> Vec<Experiment> {
    at_ceiling(point, REACHED, is_bus)
        // A slot cannot be changed from here. Smaller segments lower its ceiling by a known
        // ratio, which shows the limit without removing it.
        .and_then(|(job, ..)| smaller_segments(stream_of(point, job), shrunk))
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use linerate_model::{BoundClass, CeilingSubject, ModelName, Verdict};

    use super::*;
    use crate::diagnosis::rules::cases::point;

    fn on_bus(goodput: f64) -> PointStudy {
        let mut point = point(&[("goodput", goodput)]);
        point.ceilings[0].subject = CeilingSubject::Model {
            class: BoundClass::Bus,
            name: ModelName::Text("I/O assembly, a to b".into()),
        };
        point.jobs[0].obtained.insert("mss".into(), crate::Obtained::granted(1448));
        point
    }

    #[test]
    fn it_fires_where_a_bus_is_full_and_asks_for_smaller_segments() {
        let finding = RULE.judge(&on_bus(0.92e9)).expect("92 % of the slot");
        assert_eq!(
            (finding.verdict, finding.claim),
            (Verdict::Suspected, Claim::Saturated(on_bus(0.92e9).ceilings[0].subject.clone()))
        );
        let experiments = RULE.experiments(&on_bus(0.92e9));
        assert_eq!(experiments[0].candidates[0][0].0, "mss");
        assert!(experiments[0].ratio[1] < 0.9 && !experiments[0].lifts, "{experiments:?}");
    }

    #[test]
    fn of_several_jobs_the_one_nearest_to_its_ceiling_decides() {
        let mut both = on_bus(0.97e9);
        let mut other = both.jobs[0].clone();
        let mut link = both.ceilings[0].clone();
        link.subject = "link".into();
        both.ceilings.push(link);
        (other.metrics[0].ceiling, other.metrics[0].share) = (Some(1), Some(0.96));
        both.jobs.push(other);
        let link_ceiling = crate::diagnosis::rules::link_ceiling::RULE;
        assert!(RULE.judge(&both).is_some() && link_ceiling.judge(&both).is_none());
        // Nearest is the sum: its experiment changes the streams.
        both.jobs[0].workload = crate::study::ALL.to_owned();
        (both.jobs[1].metrics[0].ceiling, both.jobs[1].metrics[0].share) = (Some(0), Some(0.5));
        assert_eq!(RULE.experiments(&both).len(), 1);
    }

    #[test]
    fn it_is_silent_below_and_on_links() {
        assert_eq!(RULE.judge(&on_bus(0.85e9)), None);
        let mut link = point(&[("goodput", 0.97e9)]);
        link.ceilings[0].subject = "link a-robust of the PCI bus slot".into();
        assert_eq!(RULE.judge(&link), None, "a link, whatever it is called");
    }
}
