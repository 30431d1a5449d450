//! One flow uses one link of a group (docs/methodology/diagnosis.md#rules, D15): goodput against
//! the capacity of one member link.
//!
//! Evidence: a single flow crosses a group of links and reaches at least [`REACHED`] of the
//! ceiling, which for one flow is that of one member. Not observed: groups that nobody declared.

use linerate_model::Direction;

use super::{
    LEAST_EFFECT, Rule, TCP_STREAM, changed, flows, members, n_flows, nearest, score, suspected,
};
use crate::diagnosis::experiment::{Experiment, set};
use crate::diagnosis::{Claim, Evidence, Finding, Step};
use crate::{JobStudy, PointStudy};

/// Share of one member's capacity from which it counts as saturated.
const REACHED: f64 = 0.9;
/// Flows per link that are likely to use most links.
const FLOWS_A_LINK: f64 = 4.0;

/// Rule: one flow saturates one member link.
pub(super) const RULE: Rule = Rule {
    number: 15,
    name: "single_flow",
    summary: "a single flow saturates one link of a group, and the other links cannot carry any of \
        it",
    judge,
    score,
    experiments,
    ..Rule::PLAIN
};

fn judge(point: &PointStudy) -> Option<Finding> {
    let (job, direction, evidence, _) = nearest(point, REACHED, is_one_of_a_group)?;
    let (available, _) = members(job, direction)?;
    let evidence = vec![evidence, Evidence::OneFlow { links: available }];
    let finding = suspected(RULE.name, (point, job, direction), Claim::OneLink, evidence);
    let streams = (FLOWS_A_LINK * available) as u64;
    let command = changed(point, &[set("streams", streams)]);
    Some(finding.advise(Step::FlowsOnLinks { streams, links: available }.by(command)))
}

/// Returns whether the flow is alone on a group of links. With two flows or more, the rule for
/// polarised hashes applies.
pub(super) fn is_one_of_a_group(job: &JobStudy, direction: Direction) -> bool {
    members(job, direction).is_some() && n_flows(job) < 2.0
}

fn score(point: &PointStudy) -> Option<f64> {
    let group = flows(point).find(|(job, direction)| members(job, *direction).is_some())?;
    let one = if n_flows(group.0) < 2.0 { 1.0 } else { 0.0 };
    score::share(point, REACHED, |_| true).map(|share| share.min(one))
}

fn experiments(point: &PointStudy) -> Vec<Experiment> {
    let Some((job, direction, ..)) = nearest(point, REACHED, is_one_of_a_group) else {
        return Vec::new();
    };
    let Some((available, _)) = members(job, direction).filter(|_| job.workload == TCP_STREAM)
    else {
        return Vec::new();
    };
    let change = vec![set("streams", (FLOWS_A_LINK * available) as u64)];
    vec![Experiment::lift(
        "several flows",
        change,
        // Four flows per link leave few links idle, but a hash rarely balances them: half of
        // the gain must be enough.
        [LEAST_EFFECT.max(available / 2.0), available * 1.1],
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::rules::cases::point;

    #[test]
    fn it_fires_where_one_flow_fills_a_member() {
        let one = point(&[("goodput", 0.96e9), ("links_available", 4.0), ("links_used", 1.0)]);
        assert!(RULE.judge(&one).is_some());
        assert_eq!(RULE.experiments(&one)[0].candidates[0][0].1, 16);
        let leading = crate::diagnosis::suspects(&one);
        assert_eq!(leading[0].0.name, "single_flow", "the link alone is not the whole truth");
    }

    #[test]
    fn it_fires_beside_a_job_on_a_fuller_link_of_its_own() {
        let mut both = point(&[("goodput", 0.96e9), ("links_available", 4.0), ("links_used", 1.0)]);
        both.jobs.push(point(&[("goodput", 0.99e9)]).jobs.remove(0));
        assert!(RULE.judge(&both).is_some());
    }

    #[test]
    fn it_is_silent_on_links_of_their_own_and_on_several_flows() {
        assert_eq!(RULE.judge(&point(&[("goodput", 0.96e9)])), None);
        let mut several =
            point(&[("goodput", 0.96e9), ("links_available", 4.0), ("links_used", 4.0)]);
        several.jobs[0].params.set("streams", 16);
        assert_eq!(RULE.judge(&several), None);
    }
}
