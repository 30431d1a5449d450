//! A link of the path is saturated (docs/methodology/diagnosis.md#rules, D1): L4 goodput against
//! the lowest hard ceiling.
//!
//! Evidence: goodput is at least [`REACHED`] of the ceiling. Other programs may have used the CPUs
//! of the ends, so that these could not keep the link full all the time. The stolen share is then
//! added to the share reached, from [`LEAST`] of the ceiling on, if nothing but the path limited
//! the sender and a queue remained. Not observed: which of two equal ceilings applies, whether the
//! declared rate is the true one, and at which hop the queue is. A bus has a rule of its own, and
//! so has a single flow on a group of links.

use linerate_model::{CeilingSubject, Direction};

use super::single_flow::is_one_of_a_group;
use super::{
    Rule, at_ceiling, changed, flows, is_bus, only_the_path, score, shrunk, smaller_segments,
    standing_queue, stream_of, suspected,
};
use crate::diagnosis::experiment::Experiment;
use crate::diagnosis::{Claim, Evidence, Finding, Step};
use crate::{JobStudy, PointStudy};

/// Share of the lowest ceiling from which the link counts as saturated.
const REACHED: f64 = 0.95;
/// Least share of the ceiling, however much CPU time other programs used: below it, their share
/// does not explain the difference.
const LEAST: f64 = 0.85;
/// Relative increase of the round-trip time over its minimum that shows a queue: a buffer delay of
/// 100 % (docs/methodology/diagnosis.md#rules, D17).
const STANDS: f64 = 1.0;

/// Returns the flow that saturates its link, the evidence, and the link.
fn full(point: &PointStudy) -> Option<(&JobStudy, Direction, Vec<Evidence>, CeilingSubject)> {
    let is_link = |class| !is_bus(class);
    if let Some((job, direction, evidence, ceiling)) = at_ceiling(point, REACHED, is_link) {
        return Some((job, direction, vec![evidence], ceiling.subject.clone()));
    }
    let taken = point.taken()?;
    let (job, direction, evidence, ceiling) =
        at_ceiling(point, (REACHED - taken).max(LEAST), is_link)?;
    let queue = standing_queue(job, direction)
        .filter(|queue| *queue > STANDS && only_the_path(job, direction))?;
    let missing = Evidence::CpuTaken { share: taken };
    let stands = Evidence::Queue { ratio: 1.0 + queue };
    Some((job, direction, vec![evidence, missing, stands], ceiling.subject.clone()))
}

/// Rule: goodput reaches the lowest known ceiling, which a link sets.
pub(super) const RULE: Rule = Rule {
    number: 1,
    name: "link_ceiling",
    summary: "goodput is at least 95 % of the lowest known ceiling, and a link sets that ceiling; \
        where a queue remains, CPU time that other programs used is added",
    judge,
    score,
    experiments,
    ..Rule::PLAIN
};

fn judge(point: &PointStudy) -> Option<Finding> {
    let (job, direction, evidence, link) = full(point)?;
    // One flow on a group of links has a rule of its own: the group is not full, the flow
    // cannot use more of it.
    if is_one_of_a_group(job, direction) {
        return None;
    }
    let claim = Claim::Saturated(link);
    let finding = suspected(RULE.name, (point, job, direction), claim, evidence);
    Some(finding.advise(Step::FasterLink.by(changed(point, &[]))))
}

fn score(point: &PointStudy) -> Option<f64> {
    let one_of_a_group = flows(point).any(|(job, direction)| is_one_of_a_group(job, direction));
    score::share(point, REACHED, |class| !is_bus(class)).filter(|_| !one_of_a_group)
}

fn experiments(point: &PointStudy) -> Vec<Experiment> {
    full(point)
        .and_then(|(job, ..)| smaller_segments(stream_of(point, job), shrunk))
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use linerate_model::Verdict;

    use super::*;
    use crate::TrialStudy;
    use crate::diagnosis::rules::cases::point;

    #[test]
    fn it_fires_at_the_ceiling_and_is_silent_below() {
        let finding = RULE.judge(&point(&[("goodput", 0.97e9)])).expect("97 % of the ceiling");
        assert_eq!(finding.verdict, Verdict::Suspected);
        assert_eq!(RULE.judge(&point(&[("goodput", 0.90e9)])), None);
    }

    /// 91 % of the ceiling, with a round trip of `rtt` seconds and what others took of each of two
    /// trials.
    fn disturbed(goodput: f64, rtt: f64, rwnd_limited: f64, taken: [f64; 2]) -> PointStudy {
        let figures = [
            ("goodput", goodput),
            ("rtt", rtt),
            ("rtt_min", 0.0021),
            ("sender_busy", 0.99),
            ("rwnd_limited", rwnd_limited),
            ("sndbuf_limited", 0.0),
        ];
        let trials =
            taken.map(|taken| TrialStudy { taken: [Some(taken); 2], ..TrialStudy::default() });
        PointStudy { trials: trials.to_vec(), ..point(&figures) }
    }

    #[test]
    fn what_others_took_counts_where_a_queue_stands() {
        let finding =
            RULE.judge(&disturbed(0.91e9, 0.0109, 0.0, [0.03, 0.07])).expect("5 % were taken");
        assert_eq!((finding.verdict, finding.evidence.len()), (Verdict::Suspected, 3));
        assert_eq!(finding.evidence[1], Evidence::CpuTaken { share: 0.05 });
        let silent = |goodput, rtt, waited, taken| {
            RULE.judge(&disturbed(goodput, rtt, waited, taken)).is_none()
        };
        assert!(silent(0.91e9, 0.0109, 0.0, [0.0, 0.03]), "more is missing than was taken");
        assert!(silent(0.84e9, 0.0109, 0.0, [0.5, 0.5]), "far from full, whatever was taken");
        assert!(silent(0.91e9, 0.0030, 0.0, [0.05, 0.05]), "no queue stands");
        assert!(
            silent(0.91e9, 0.0109, 0.5, [0.05, 0.05]),
            "the receive window held the sender back"
        );
    }
}
