//! The hash of a group of links does not spread the flows (methodology 5.3, D14). Member links that carried something.
//!
//! Evidence: at least four flows a link, and so few links used that an even hash would do it less than once in a hundred
//! (methodology 3.7). What it does not see: which fields the hash takes, which only its device knows; drawing ports anew tells
//! nothing where all runs, each with ports of its own, look alike.

use linerate_model::{Direction, Evidence, Finding, Verdict};

use super::{Rule, flows, may_be_judged, members, n_flows, score, subject};
use crate::{JobStudy, PointStudy};

/// Flows a link from which an idle link says something (methodology 5.3).
const FLOWS_A_LINK: f64 = 4.0;
/// Below this chance is not believed (methodology 5.3).
const SIGNIFICANCE: f64 = 0.01;

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
        let (job, direction) = flows(point).find(|flow| crowded(flow).is_some()).filter(|_| may_be_judged(point))?;
        let (available, used, flows) = crowded(&(job, direction))?;
        let evidence = Evidence {
            observed: format!(
                "{flows:.0} flows used {used:.0} of {available:.0} links: by chance in {:.1e} of all draws at the most",
                chance(available, used, flows)
            ),
            source: "bytes that each member link sent".into(),
        };
        let claim = "the hash does not spread these flows over the links";
        let finding =
            Finding::new(self.name(), Verdict::Suspected, &subject(point, job, direction), claim, vec![evidence]);
        let advice = "let the group hash ports too (xmit_hash_policy layer3+4, or the switch's like)";
        Some(finding.advise(format!(
            "{advice}: goodput should rise to what the links in use carry (linerate limit lag --links {available:.0} --flows \
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
}

/// The most that chance gives an even hash which uses no more than `used` of `links` for `flows`: every choice of links, each with all
/// flows on it.
fn chance(links: f64, used: f64, flows: f64) -> f64 {
    let n_chosen = used.min(links) as u32;
    let choices = (0..n_chosen).fold(1.0, |product, k| product * (links - f64::from(k)) / f64::from(k + 1));
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
        assert!(finding.evidence[0].observed.starts_with("16 flows used 1 of 4 links"), "{:?}", finding.evidence);
        assert!(HashPolarised.judge(&group(2.0, 16)).is_some());
    }

    #[test]
    fn it_is_silent_with_few_flows_and_where_chance_would_do_it() {
        assert_eq!(HashPolarised.judge(&group(1.0, 4)), None);
        assert_eq!(HashPolarised.judge(&group(3.0, 16)), None, "one idle link of four is no rarity");
        assert_eq!(HashPolarised.judge(&point(&[("goodput", 1e8)])), None);
    }

    #[test]
    fn chance_is_that_of_all_choices_of_links() {
        assert!((chance(4.0, 1.0, 4.0) - 4.0 / 256.0).abs() < 1e-12);
        assert!((chance(2.0, 2.0, 9.0) - 1.0).abs() < 1e-12);
    }
}
