//! The hash of a link group does not spread the flows (docs/methodology/diagnosis.md#rules, D14):
//! member links that carried traffic against member links available.
//!
//! Evidence: there are at least four flows per link, and an even hash would use so few links in
//! less than one draw of a hundred (docs/methodology/ceilings.md#groups-of-links). Every run uses
//! ports of its own, so an unlucky draw does not repeat. Not observed: the fields that the hash
//! uses, which only its device knows.
//!
//! An idle link limits nothing by itself. Where goodput is near the capacity of the links in use,
//! an experiment with small segments shows whether those links are saturated. It does not show that
//! a better hash would help, because only the owner of the group can change the hash.

use linerate_model::{Command, Direction};

use super::{
    Rule, flows, may_be_judged, members, n_flows, room, score, shrunk, smaller_segments, suspected,
};
use crate::diagnosis::experiment::Experiment;
use crate::diagnosis::{Claim, Evidence, Finding, Step};
use crate::{JobStudy, PointStudy};

/// Flows per link from which an idle link is significant (docs/methodology/diagnosis.md#rules).
const FLOWS_A_LINK: f64 = 4.0;
/// Probability below which chance is ruled out (docs/methodology/diagnosis.md#rules).
const SIGNIFICANCE: f64 = 0.01;
/// Share of the capacity of the links in use from which they count as saturated.
const REACHED: f64 = 0.9;

/// Returns goodput over the capacity of the links in use; `None` where no flow crosses a group or
/// its rate is not known.
fn filled(job: &JobStudy, direction: Direction) -> Option<f64> {
    let (available, used) = members(job, direction)?;
    // `room` is infinite where no capacity is declared, which makes the share zero.
    let share = 1.0 / room(job, direction);
    (share > 0.0 && used >= 1.0).then(|| share * available / used)
}

/// Rule: the flows use few links of a group.
pub(super) const RULE: Rule = Rule {
    number: 14,
    name: "hash_polarised",
    summary: "there are four flows per link or more, and links are idle that an even hash would \
        use",
    judge,
    score,
    experiments,
    ..Rule::PLAIN
};

fn judge(point: &PointStudy) -> Option<Finding> {
    let mut crowded =
        flows(point).filter_map(|(job, direction)| Some((job, direction, crowd(job, direction)?)));
    let (job, direction, crowd) = crowded.next().filter(|_| may_be_judged(point))?;
    let (available, used, flows) = crowd;
    let chance = chance(available, used, flows);
    let crowd = Evidence::FlowsOnLinks { flows, used, available, chance };
    let filled = filled(job, direction);
    let full = filled.map(|share| Evidence::OfLinksInUse { share });
    let evidence = [crowd].into_iter().chain(full).collect();
    let claim = Claim::UnevenHash { saturated: filled.is_some_and(|share| share >= REACHED) };
    let finding = suspected(RULE.name, (point, job, direction), claim, evidence);
    let (links, flows) = (format!("{available:.0}"), format!("{flows:.0}"));
    let limit = Command::local("limit lag", &["--links", &links, "--flows", &flows]);
    Some(finding.advise(Step::HashPorts.by(limit)))
}

fn score(point: &PointStudy) -> Option<f64> {
    score::best(point, |job, direction| {
        let (available, used) = members(job, direction)?;
        let (flows, enough) = (n_flows(job), FLOWS_A_LINK * available);
        // Many flows underflow the probability to zero, whose logarithm is infinite.
        let unlikely = -chance(available, used, flows).max(f64::MIN_POSITIVE).log10();
        let significant = -SIGNIFICANCE.log10();
        Some(score::all([
            score::reached(unlikely, significant, 2.0 * significant),
            score::reached(flows, enough, enough + 1.0),
        ]))
    })
}

fn experiments(point: &PointStudy) -> Vec<Experiment> {
    let is_full = |(job, direction): &(&JobStudy, Direction)| {
        filled(job, *direction).is_some_and(|share| share >= REACHED)
    };
    flows(point)
        .find(is_full)
        .and_then(|(job, _)| smaller_segments(job, shrunk))
        .into_iter()
        .collect()
}

/// Returns the available links, the used links and the number of flows, if so few used links are
/// hardly chance.
fn crowd(job: &JobStudy, direction: Direction) -> Option<(f64, f64, f64)> {
    let (available, used) = members(job, direction)?;
    let flows = n_flows(job);
    // With fewer flows an idle link is common under a perfect hash.
    (flows >= FLOWS_A_LINK * available && chance(available, used, flows) < SIGNIFICANCE)
        .then_some((available, used, flows))
}

/// Returns an upper bound of the probability that an even hash uses at most `used` of `links` for
/// `flows`: the sum over every choice of links, each with all flows on it.
fn chance(links: f64, used: f64, flows: f64) -> f64 {
    // The counters can report more links in use than the group declares.
    let n_chosen = used.min(links) as u32;
    let choices =
        (0..n_chosen).fold(1.0, |product, k| product * (links - f64::from(k)) / f64::from(k + 1));
    // A sum over choices counts overlapping cases several times, so it may exceed one.
    (choices * (used / links).powf(flows)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::rules::cases::point;

    fn group(used: f64, streams: u32) -> PointStudy {
        let mut point = point(&[("goodput", 1e8), ("links_available", 4.0), ("links_used", used)]);
        point.jobs[0].params.set("streams", streams);
        point
    }

    #[test]
    fn it_fires_where_sixteen_flows_crowd_on_one_or_two_of_four_links() {
        let finding = RULE.judge(&group(1.0, 16)).expect("all on one");
        assert!(
            matches!(
                finding.evidence[0],
                Evidence::FlowsOnLinks { flows: 16.0, used: 1.0, available: 4.0, .. }
            ),
            "{:?}",
            finding.evidence
        );
        assert!(RULE.judge(&group(2.0, 16)).is_some());
    }

    #[test]
    fn it_is_silent_with_few_flows_and_where_chance_would_do_it() {
        assert_eq!(RULE.judge(&group(1.0, 4)), None);
        assert_eq!(RULE.judge(&group(3.0, 16)), None, "one idle link of four is no rarity");
        assert_eq!(RULE.judge(&point(&[("goodput", 1e8)])), None);
    }

    #[test]
    fn small_segments_ask_whether_the_links_in_use_are_full() {
        let asked = |goodput: f64| {
            let figures = [("goodput", goodput), ("links_available", 4.0), ("links_used", 1.0)];
            let mut point = point(&figures);
            point.jobs[0].params.set("streams", 16);
            point.jobs[0].obtained.insert("mss".into(), crate::Obtained::granted(1448));
            let finding = RULE.judge(&point).expect("all on one");
            let Evidence::OfLinksInUse { share } = finding.evidence[1] else {
                panic!("{finding:?}")
            };
            (RULE.experiments(&point).len(), share)
        };
        // Of four links that carry 1 Gbit/s together one is in use.
        let (n_experiments, share) = asked(0.24e9);
        assert!(n_experiments == 1 && (share - 0.96).abs() < 1e-9, "{share}");
        assert_eq!(asked(0.1e9).0, 0, "something else holds these flows back");
    }

    #[test]
    fn chance_is_that_of_all_choices_of_links() {
        assert!((chance(4.0, 1.0, 4.0) - 4.0 / 256.0).abs() < 1e-12);
        assert!((chance(2.0, 2.0, 9.0) - 1.0).abs() < 1e-12);
    }
}
