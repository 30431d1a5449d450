//! Large segments do not arrive, small ones do: a path MTU black hole (RFC 2923 clause 2.1, RFC
//! 4821). TCP only.
//!
//! Evidence: connections opened and exchanged a greeting of a few bytes; then data was sent and
//! retransmitted, and none of it arrived. A link of the path accepts smaller packets than the
//! interfaces assume, and the ICMP messages that report it ("fragmentation needed", "packet too
//! big") are filtered. A probe that found a smaller MTU than the interface allows is evidence even
//! before anything is retransmitted. Not observed: whether the whole path broke just after the
//! greeting. The advice, small segments, separates the two cases. No ratio can prove it, because
//! nothing arrived before.

use linerate_model::{Direction, metric};

use super::{
    Rule, TCP_STREAM, changed, may_be_judged, score, segment_size, silent_flows, suspected, value,
};
use crate::diagnosis::experiment::{bytes, set};
use crate::diagnosis::{Claim, Evidence, Finding, Step};
use crate::{JobStudy, PointStudy};

/// Share of retransmitted bytes from which the rule applies.
const REPEATED: f64 = 0.1;
/// Share of retransmitted bytes at which the evidence is complete.
const ALL_REPEATED: f64 = 0.5;
/// Segment size of the advice, in bytes: IPv4 requires every host to accept 576-byte packets
/// (RFC 791), so such segments pass nearly every link.
const SMALL_SEGMENT: f64 = 500.0;

/// Headers of IP and TCP, in bytes.
const HEADERS: f64 = 40.0;

/// Returns the largest packets that passed the probe and that the interface of the sender allows,
/// in bytes, if the path drops larger ones.
fn probed(point: &PointStudy, job: &JobStudy, direction: Direction) -> Option<(u64, u64)> {
    let facts = point.data_path(job, direction).filter(|facts| facts.has_smaller_mtu())?;
    Some((facts.mtu?.value.0, facts.routed_mtu?.0))
}

/// Rule: the sender retransmits, and no data arrives.
pub(super) const RULE: Rule = Rule {
    number: 19,
    name: "path_mtu",
    summary: "connections open, but no data arrives in spite of retransmissions: large segments do \
        not pass",
    judge,
    score,
    ..Rule::PLAIN
};

fn repeated(job: &JobStudy, direction: Direction) -> Option<f64> {
    value(job, metric::RETRANSMIT_RATIO, direction)
}

fn is_repeated(job: &JobStudy, direction: Direction) -> bool {
    repeated(job, direction).is_some_and(|share| share >= REPEATED)
}

fn judge(point: &PointStudy) -> Option<Finding> {
    let drops = |(job, direction): &(&JobStudy, Direction)| {
        is_repeated(job, *direction) || probed(point, job, *direction).is_some()
    };
    let (job, direction) =
        // A flow with any goodput passed full segments, so the MTU is not the cause.
        silent_flows(point).find(drops).filter(|_| may_be_judged(point))?;
    let share = repeated(job, direction)?;
    let found = probed(point, job, direction);
    let segments = segment_size(job).map(|bytes| Evidence::Segments { bytes });
    let evidence = [Evidence::NothingArrived, Evidence::figure(metric::RETRANSMIT_RATIO, share)]
        .into_iter()
        .chain(segments)
        .chain(found.map(|(found, routed)| Evidence::SmallerMtu { found, routed }))
        .collect();
    let finding = suspected(RULE.name, (point, job, direction), Claim::SmallerMtu, evidence);
    // A small segment size is negotiated by both ends, so it needs no setting of a host and
    // leaves nothing behind.
    let segment = found.map_or(SMALL_SEGMENT, |(found, _)| found as f64 - HEADERS);
    let command = changed(point, &[set("mss", bytes(segment))]);
    Some(finding.advise(Step::SmallSegments.by(command)))
}

fn score(point: &PointStudy) -> Option<f64> {
    let streams = point.jobs.iter().any(|job| job.workload == TCP_STREAM);
    let scores = silent_flows(point).filter_map(|(job, direction)| {
        let repeats = score::reached(repeated(job, direction)?, REPEATED, ALL_REPEATED);
        Some(probed(point, job, direction).map_or(repeats, |_| 1.0))
    });
    let most = scores.reduce(f64::max);
    // A stream with goodput scores zero. Other workloads cannot show this fault, and zero would
    // say that they had.
    most.or(streams.then_some(0.0))
}

#[cfg(test)]
mod tests {
    use linerate_model::Bytes;
    use linerate_model::path::{Fact, Method, PathFacts};

    use super::*;
    use crate::diagnosis::rules::cases::point;

    #[test]
    fn it_fires_where_nothing_arrives_and_no_other_rule_speaks_nor_paces_at_nothing() {
        for nothing in [0.0, -0.0] {
            let mut hole = point(&[
                ("goodput", nothing),
                ("retransmit_ratio", 0.6),
                ("rtt", 0.0004),
                ("rtt_min", 0.0002),
                ("sender_busy", 1.0),
                ("rwnd_limited", 0.0),
                ("sndbuf_limited", 0.0),
            ]);
            hole.jobs[0].obtained.insert("mss".into(), crate::Obtained::granted(1448));
            let finding = RULE.judge(&hole).expect("nothing arrives");
            assert_eq!(finding.evidence[2], Evidence::Segments { bytes: 1448.0 });
            let others = crate::diagnosis::suspects(&hole);
            assert_eq!(others.iter().map(|(rule, _)| rule.name).collect::<Vec<_>>(), ["path_mtu"]);
            let experiments = super::super::RULES.iter().flat_map(|rule| rule.experiments(&hole));
            assert_eq!(experiments.count(), 0);
        }
    }

    #[test]
    fn a_smaller_mtu_that_the_probe_found_is_evidence_before_anything_is_sent_again() {
        let judge = |mtu: u64| {
            let facts = PathFacts {
                from: "a".into(),
                to: "b".into(),
                mtu: Some(Fact::exact(Bytes(mtu), Method::Sizes)),
                routed_mtu: Some(Bytes(1500)),
                ..PathFacts::default()
            };
            let silent = point(&[("goodput", 0.0), ("retransmit_ratio", 0.0)]);
            RULE.judge(&PointStudy { path: vec![facts], ..silent })
        };
        let finding = judge(1314).expect("the probe found it");
        assert!(finding.evidence.contains(&Evidence::SmallerMtu { found: 1314, routed: 1500 }));
        let command = finding.advice[0].command.as_ref().expect("small segments");
        assert!(format!("{command:?}").contains("1274"), "{command:?}");
        assert_eq!(judge(1500), None);
    }

    #[test]
    fn it_is_silent_where_something_arrives_and_where_nothing_was_sent_again() {
        assert_eq!(RULE.judge(&point(&[("goodput", 1e4), ("retransmit_ratio", 0.6)])), None);
        assert_eq!(RULE.judge(&point(&[("goodput", 0.0), ("retransmit_ratio", 0.0)])), None);
    }
}
