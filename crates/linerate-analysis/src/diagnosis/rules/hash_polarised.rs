//! The hash of a group of links does not spread the flows (docs/methodology/diagnosis.md#rules,
//! D14). Member links that carried something.
//!
//! Evidence: at least four flows a link, and so few links used that an even hash would do it less
//! than once in a hundred (docs/methodology/ceilings.md#groups-of-links). Every run has ports of
//! its own: a draw that is merely unlucky does not come again. What it does not see: which fields
//! the hash takes, which only its device knows.
//!
//! That a link lies idle limits nothing by itself. Where goodput is about what the links in use
//! carry, small segments tell whether these are full: then the flows get no more because of where
//! the hash puts them. That they would get more elsewhere is not shown: only the owner of the group
//! can change its hash.

use linerate_model::{Direction, Evidence, Finding, Verdict};

use super::{
    Rule, flows, may_be_judged, members, n_flows, room, score, shrunk, smaller_segments, subject,
};
use crate::diagnosis::experiment::Experiment;
use crate::{JobStudy, PointStudy};

/// Flows a link from which an idle link says something (docs/methodology/diagnosis.md#rules).
const FLOWS_A_LINK: f64 = 4.0;
/// Below this chance is not believed (docs/methodology/diagnosis.md#rules).
const SIGNIFICANCE: f64 = 0.01;
/// Share of what the links in use carry from which they count as full.
const REACHED: f64 = 0.9;

/// Goodput over what the links in use carry; nothing where no flow crosses a group or its rate is
/// not known.
fn filled(job: &JobStudy, direction: Direction) -> Option<f64> {
    let (available, used) = members(job, direction)?;
    let share = 1.0 / room(job, direction);
    (share > 0.0 && used >= 1.0).then(|| share * available / used)
}

/// Fires where flows crowd on few of a group's links.
#[derive(Debug)]
pub(super) struct HashPolarised;

impl Rule for HashPolarised {
    fn name(&self) -> &'static str {
        "hash_polarised"
    }

    fn summary(&self) -> &'static str {
        "flows, four a link or more, leave links of a group unused that an even hash would use"
    }

    fn number(&self) -> u8 {
        14
    }

    fn judge(&self, point: &PointStudy) -> Option<Finding> {
        let crowded = |(job, direction): &(&JobStudy, Direction)| {
            let (available, used) = members(job, *direction)?;
            let flows = n_flows(job);
            (flows >= FLOWS_A_LINK * available && chance(available, used, flows) < SIGNIFICANCE)
                .then_some((available, used, flows))
        };
        let (job, direction) =
            flows(point).find(|flow| crowded(flow).is_some()).filter(|_| may_be_judged(point))?;
        let (available, used, flows) = crowded(&(job, direction))?;
        let crowd = Evidence {
            observed: format!(
                "{flows:.0} flows used {used:.0} of {available:.0} links: by chance in {:.1e} of \
                    all draws at the most",
                chance(available, used, flows)
            ),
            source: "bytes that each member link sent".into(),
        };
        let full = filled(job, direction).map(|share| Evidence {
            observed: format!("goodput is {:.0} % of what the links in use carry", share * 100.0),
            source: "the capacities declared, and which of them sent anything".into(),
        });
        let evidence = [crowd].into_iter().chain(full).collect();
        let claim = match filled(job, direction) {
            Some(share) if share >= REACHED => {
                "the hash does not spread these flows over the links, and those in use are full"
            }
            _ => "the hash does not spread these flows over the links",
        };
        let finding = Finding::new(
            self.name(),
            Verdict::Suspected,
            subject(point, job, direction),
            claim,
            evidence,
        );
        let advice =
            "let the group hash ports too (xmit_hash_policy layer3+4, or the switch's like)";
        Some(finding.advise(format!(
            "{advice}: goodput should rise to what the links in use carry (linerate limit lag \
                --links {available:.0} --flows \
             {flows:.0})"
        )))
    }

    fn score(&self, point: &PointStudy) -> Option<f64> {
        score::best(point, |job, direction| {
            let (available, used) = members(job, direction)?;
            let (flows, enough) = (n_flows(job), FLOWS_A_LINK * available);
            let unlikely = -chance(available, used, flows).max(f64::MIN_POSITIVE).log10();
            let significant = -SIGNIFICANCE.log10();
            Some(score::all([
                score::reached(unlikely, significant, 2.0 * significant),
                score::reached(flows, enough, enough + 1.0),
            ]))
        })
    }

    fn experiments(&self, point: &PointStudy) -> Vec<Experiment> {
        let is_full = |(job, direction): &(&JobStudy, Direction)| {
            filled(job, *direction).is_some_and(|share| share >= REACHED)
        };
        flows(point)
            .find(is_full)
            .and_then(|(job, _)| smaller_segments(job, shrunk))
            .into_iter()
            .collect()
    }
}

/// The most that chance gives an even hash which uses no more than `used` of `links` for `flows`:
/// every choice of links, each with all flows on it.
fn chance(links: f64, used: f64, flows: f64) -> f64 {
    let n_chosen = used.min(links) as u32;
    let choices =
        (0..n_chosen).fold(1.0, |product, k| product * (links - f64::from(k)) / f64::from(k + 1));
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
        let finding = HashPolarised.judge(&group(1.0, 16)).expect("all on one");
        assert!(
            finding.evidence[0].observed.starts_with("16 flows used 1 of 4 links"),
            "{:?}",
            finding.evidence
        );
        assert!(HashPolarised.judge(&group(2.0, 16)).is_some());
    }

    #[test]
    fn it_is_silent_with_few_flows_and_where_chance_would_do_it() {
        assert_eq!(HashPolarised.judge(&group(1.0, 4)), None);
        assert_eq!(
            HashPolarised.judge(&group(3.0, 16)),
            None,
            "one idle link of four is no rarity"
        );
        assert_eq!(HashPolarised.judge(&point(&[("goodput", 1e8)])), None);
    }

    #[test]
    fn small_segments_ask_whether_the_links_in_use_are_full() {
        let asked = |goodput: f64| {
            let figures = [("goodput", goodput), ("links_available", 4.0), ("links_used", 1.0)];
            let mut point = point(&figures);
            point.jobs[0].params.set("streams", 16);
            point.jobs[0].obtained.insert("mss".into(), crate::Obtained::granted(1448));
            let observed =
                HashPolarised.judge(&point).expect("all on one").evidence[1].observed.clone();
            (HashPolarised.experiments(&point).len(), observed)
        };
        // Of four links that carry 1 Gbit/s together one is in use.
        assert_eq!(asked(0.24e9), (1, "goodput is 96 % of what the links in use carry".to_owned()));
        assert_eq!(asked(0.1e9).0, 0, "something else holds these flows back");
    }

    #[test]
    fn chance_is_that_of_all_choices_of_links() {
        assert!((chance(4.0, 1.0, 4.0) - 4.0 / 256.0).abs() < 1e-12);
        assert!((chance(2.0, 2.0, 9.0) - 1.0).abs() < 1e-12);
    }
}
