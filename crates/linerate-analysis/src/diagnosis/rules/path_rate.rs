//! A link whose rate nobody declared is saturated (docs/methodology/diagnosis.md#rules, D22). TCP
//! only.
//!
//! Evidence: nothing at the ends limits the sender, no known ceiling is near, and a queue stands in
//! the path: the round-trip time exceeds its minimum by at least [`STANDS`] of it. A queue that
//! stands keeps its link busy, so goodput is the link's rate without its headers. Packets that wait
//! for a CPU of the ends look the same, so the rule is silent where a worker waited for one. The
//! experiment separates it from a limit in packets, from acknowledgements that wait on the way back
//! and from traffic of others: with small segments, goodput of a link that counts bytes falls by
//! the cost of the headers and no more. Not observed: the hop, and a limit that counts bytes and is
//! no link, such as a shaper.

use linerate_model::{Direction, metric};

use super::{
    Rule, changed, fills_path, flows, may_be_judged, only_the_path, room, score, shrunk,
    smaller_segments, standing_queue, suspected, value, waits_for_cpu,
};
use crate::diagnosis::experiment::Experiment;
use crate::diagnosis::{Claim, Evidence, Finding, Step};
use crate::{JobStudy, PointStudy};

/// Relative increase of the round-trip time over its minimum that shows a standing queue. TCP with
/// a buffer of one bandwidth-delay product keeps it between 40 and 100 % filled.
pub(super) const STANDS: f64 = 0.3;
/// Relative increase at which the evidence is complete: a buffer of several bandwidth-delay
/// products.
const DEEP: f64 = 3.0;
/// Ratio of ceiling to goodput below which the known ceiling explains goodput.
const ROOM: f64 = 1.1;
const BITS_PER_BYTE: f64 = 8.0;

/// Rule: a queue stands in the path, and nothing at the ends explains goodput.
#[derive(Debug)]
pub(super) struct PathRate;

impl Rule for PathRate {
    fn name(&self) -> &'static str {
        "path_rate"
    }

    fn summary(&self) -> &'static str {
        "a queue stands in the path and nothing at the ends limits the sender: a link of unknown \
            rate is saturated"
    }

    fn number(&self) -> u8 {
        22
    }

    fn judge(&self, point: &PointStudy) -> Option<Finding> {
        let full = |(job, direction): &(&JobStudy, Direction)| {
            fills_path(job, *direction) && room(job, *direction) > ROOM && !waits_for_cpu(job)
        };
        let (job, direction) = flows(point).find(full).filter(|_| may_be_judged(point))?;
        let read = |metric| value(job, metric, direction);
        let (goodput, rtt, rtt_min) =
            (read(metric::GOODPUT)?, read(metric::RTT)?, read(metric::RTT_MIN)?);
        let bytes = ((rtt - rtt_min) * goodput / BITS_PER_BYTE).round() as u64;
        let evidence = vec![Evidence::QueuedBytes { bytes, goodput, rtt, rtt_min }];
        let claim = Claim::PathRate { goodput };
        let finding = suspected(self.name(), (point, job, direction), claim, evidence);
        Some(finding.advise(Step::FindHop.by(changed(point, &[]))))
    }

    fn rests_on_prediction(&self) -> bool {
        // Any element with a queue has the same evidence. Only an effect of the size of the headers
        // shows that the element counts bytes and not packets.
        true
    }

    fn score(&self, point: &PointStudy) -> Option<f64> {
        score::best(point, |job, direction| {
            let queue = standing_queue(job, direction)?;
            let is_free =
                only_the_path(job, direction) && room(job, direction) > ROOM && !waits_for_cpu(job);
            Some(if is_free { score::reached(queue, STANDS, DEEP) } else { 0.0 })
        })
    }

    fn experiments(&self, point: &PointStudy) -> Vec<Experiment> {
        let tested = |(job, _)| smaller_segments(job, shrunk);
        flows(point).find_map(tested).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::Verdict;

    use super::*;
    use crate::diagnosis::rules::cases::point;

    fn queued(rtt: f64, more: &[(&str, f64)]) -> PointStudy {
        let usual = [
            ("goodput", 17.2e6),
            ("rtt", rtt),
            ("rtt_min", 0.027),
            ("sender_busy", 1.0),
            ("rwnd_limited", 0.0),
            ("sndbuf_limited", 0.0),
            ("retransmit_ratio", 0.001),
        ];
        // Of two figures of one name the first counts.
        point(&more.iter().copied().chain(usual).collect::<Vec<_>>())
    }

    #[test]
    fn it_fires_where_a_queue_stands_and_is_silent_where_none_does() {
        let finding = PathRate.judge(&queued(0.044, &[])).expect("17 ms are queued");
        assert_eq!(finding.verdict, Verdict::Suspected);
        let [Evidence::QueuedBytes { bytes, .. }] = finding.evidence[..] else {
            panic!("{finding:?}")
        };
        assert_eq!(bytes, 36_550);
        assert_eq!(PathRate.judge(&queued(0.0275, &[])), None);
        assert!(PathRate.score(&queued(0.044, &[])).is_some_and(|score| score > 0.5));
    }

    #[test]
    fn it_is_silent_where_an_end_or_a_known_ceiling_explains_the_goodput() {
        let silent = |more: &[(&str, f64)]| PathRate.judge(&queued(0.044, more)).is_none();
        assert!(silent(&[("rwnd_limited", 0.8)]), "the peer's window");
        assert!(silent(&[("sender_cpu", 0.99)]), "the sender's CPU");
        let mut waits = queued(0.044, &[("run_queue_wait", 0.6)]);
        for figure in &mut waits.jobs[0].metrics {
            if figure.metric == metric::RUN_QUEUE_WAIT {
                figure.direction = Direction::Sum;
            }
        }
        assert_eq!(PathRate.judge(&waits), None, "a worker waits for a CPU");
        assert_eq!(PathRate.judge(&point(&[("goodput", 0.97e9), ("rtt", 0.01)])), None);
    }

    #[test]
    fn loss_at_a_full_link_is_neither_a_shallow_buffer_nor_random() {
        let mut full = queued(0.044, &[]);
        full.jobs[0].obtained.insert("mss".into(), crate::Obtained::granted(1448));
        let suspects = crate::diagnosis::suspects(&full);
        let names: Vec<&str> = suspects.iter().map(|(rule, _)| rule.name()).collect();
        assert_eq!(names, ["path_rate"]);
        assert_eq!(PathRate.experiments(&full)[0].ratio, shrunk(1448.0, 238.0));
    }
}
