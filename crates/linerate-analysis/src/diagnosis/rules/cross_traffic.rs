//! Other traffic shares a queue of the path (docs/methodology/diagnosis.md#rules, D26). TCP only.
//!
//! Evidence: nothing at the ends limits the sender, and before the load all round trips of the
//! probe in one direction were longer than the shortest one of the runs, or than those of any phase
//! of the probe in either direction. A queue that nobody of us filled stood in
//! the path. Such a queue overflows and drops segments of everybody, so the rules for a shallow
//! buffer, random loss and a full link are silent. A slow reverse path delays long datagrams and
//! their answers more than segments, so the rule is silent there. No experiment: the traffic of
//! others cannot be stopped from here. Not observed: traffic that leaves the queue empty now and
//! then, the hop, and the rate of the other traffic.

use linerate_model::{Direction, Nanos, metric};

use super::{Rule, changed, facts, flows, may_be_judged, only_the_path, score, suspected, value};
use crate::diagnosis::{Claim, Evidence, Finding, Step};
use crate::{JobStudy, PointStudy};

/// Relative excess of the round-trip times without load over the shortest with load from which a
/// queue explains it, and at which the evidence is complete. Without other traffic they differ by
/// less than 0.02.
const EXCESS: f64 = 0.04;
const FULL: f64 = 0.3;
/// Least excess in s: wake-ups of a busy host delay every answer by less.
const LEAST: f64 = 0.001;

/// Rule: a queue stands in the path before the load.
pub(super) const RULE: Rule = Rule {
    number: 26,
    name: "cross_traffic",
    summary: "before the load every round trip took at least 4 % longer than the shortest one with \
        load: other traffic fills a queue of the path",
    judge,
    score,
    ..Rule::PLAIN
};

/// Bytes that the answer to a ping of the probe has beyond an acknowledgement: a payload of 56 B
/// and the headers of UDP, against those of TCP with timestamps.
const LONGER_ANSWER: f64 = 56.0 + 8.0 - 32.0;
const BITS_PER_BYTE: f64 = 8.0;

/// Returns the longest of the shortest round-trip times before the load, and the shortest of the
/// runs or of any phase of a probe, in s. A round trip has both ways, so the probe of each way
/// shows the same queue or its end.
fn shortest(point: &PointStudy, job: &JobStudy, direction: Direction) -> Option<[f64; 2]> {
    let (there, back) = (point.data_path(job, direction)?, point.reverse_path(job, direction));
    let is_slow_back = back.is_some_and(|facts| facts.limiter.is_some());
    let seconds = |rtt: Nanos| Some(rtt.as_secs_f64()).filter(|rtt| *rtt > 0.0);
    let ways = || [Some(there), back].into_iter().flatten();
    let idle = || ways().filter_map(|facts| seconds(facts.base_rtt?.low));
    let loaded = ways().filter_map(|facts| seconds(facts.loaded_rtt?.low));
    let least = value(job, metric::RTT_MIN, direction).filter(|least| *least > 0.0)?;
    let least = idle().chain(loaded).fold(least, f64::min);
    // On a slow way back, an answer takes longer than an acknowledgement.
    let carried = back.and_then(facts::carries).filter(|rate| *rate > 0.0);
    let longer = carried.map_or(0.0, |rate| LONGER_ANSWER * BITS_PER_BYTE / rate);
    let idle = idle().reduce(f64::max)? - longer;
    (!is_slow_back && !facts::is_policed(point, job, direction)).then_some([idle, least])
}

/// Returns the relative excess of the round-trip times before the load.
fn excess(point: &PointStudy, job: &JobStudy, direction: Direction) -> Option<f64> {
    let [idle, least] = shortest(point, job, direction)?;
    Some(if idle - least > LEAST { idle / least - 1.0 } else { 0.0 })
}

/// Returns true if a queue that others fill stands in the path.
pub(super) fn is_shared(point: &PointStudy, job: &JobStudy, direction: Direction) -> bool {
    excess(point, job, direction).is_some_and(|excess| excess >= EXCESS)
        && only_the_path(job, direction)
}

fn judge(point: &PointStudy) -> Option<Finding> {
    let shared = |(job, direction): &(&JobStudy, Direction)| is_shared(point, job, *direction);
    let (job, direction) = flows(point).find(shared).filter(|_| may_be_judged(point))?;
    let [idle, rtt_min] = shortest(point, job, direction)?;
    let evidence = vec![Evidence::QueueBeforeLoad { idle, rtt_min }];
    let claim = Claim::CrossTraffic;
    let finding = suspected(RULE.name, (point, job, direction), claim, evidence);
    Some(finding.advise(Step::WithoutOthers.by(changed(point, &[]))))
}

fn score(point: &PointStudy) -> Option<f64> {
    score::best(point, |job, direction| {
        let reached = score::reached(excess(point, job, direction)?, EXCESS, FULL);
        Some(if only_the_path(job, direction) { reached } else { 0.0 })
    })
}

#[cfg(test)]
mod tests {
    use linerate_model::path::{Fact, Limiter, Method, PathFacts};
    use linerate_model::{BitRate, Nanos};

    use super::super::cases::on_path;
    use super::*;

    /// A path whose round trips take `idle` milliseconds before the load, and 35 ms at least with
    /// it.
    fn shared(idle: u64, more: &[(&str, f64)]) -> PointStudy {
        let usual = [
            ("goodput", 0.5e6),
            ("rtt", 0.082),
            ("rtt_min", 0.035),
            ("sender_busy", 1.0),
            ("retransmit_ratio", 0.27),
        ];
        let figures: Vec<_> = more.iter().copied().chain(usual).collect();
        let mut point = on_path(&figures, None, 4e6);
        let rtt = Fact::exact(Nanos::from_millis(idle), Method::Pings);
        point.path[0].base_rtt = Some(rtt);
        point
    }

    #[test]
    fn it_fires_on_a_queue_before_the_load_and_no_other_rule_explains_its_drops() {
        let point = shared(60, &[]);
        let suspects = crate::diagnosis::suspects(&point);
        let names: Vec<&str> = suspects.iter().map(|(rule, _)| rule.name).collect();
        assert_eq!(names, ["cross_traffic"]);
        let seen = Evidence::QueueBeforeLoad { idle: 0.06, rtt_min: 0.035 };
        assert_eq!(suspects[0].1.evidence, [seen]);
        assert!(RULE.score(&point).is_some_and(|score| score > 0.5));
    }

    #[test]
    fn a_queue_that_was_empty_while_the_way_back_was_probed_is_seen() {
        // Recorded: 62.6 ms in all pings, 60 ms in all runs, and 26.6 ms between them.
        let mut point = shared(62, &[("rtt_min", 0.06)]);
        assert_eq!(RULE.judge(&point), None);
        let loaded = Fact::exact(Nanos(26_580_000), Method::Flood);
        let back = PathFacts { loaded_rtt: Some(loaded), ..PathFacts::default() };
        point.path.push(PathFacts { from: "b".into(), to: "a".into(), ..back });
        let finding = RULE.judge(&point).expect("others fill the queue");
        let seen = Evidence::QueueBeforeLoad { idle: 0.062, rtt_min: 0.02658 };
        assert_eq!(finding.evidence, [seen]);
    }

    #[test]
    fn a_queue_that_grows_between_the_probes_is_seen_and_a_longer_answer_on_a_slow_way_is_none() {
        let back = |base: u64, carried: Option<f64>| {
            let mut point = shared(0, &[("rtt_min", 0.07392)]);
            point.path[0].base_rtt = Some(Fact::exact(Nanos(71_732_913), Method::Pings));
            let rtt = Fact::exact(Nanos(base), Method::Pings);
            let back = PathFacts { base_rtt: Some(rtt), ..PathFacts::default() };
            let carried = carried.map(BitRate);
            point.path.push(PathFacts { from: "b".into(), to: "a".into(), carried, ..back });
            RULE.judge(&point)
        };
        // Recorded beside four flows of iperf3: 71.7 ms in the first probe, 92.9 ms in the other.
        assert!(back(92_918_363, Some(199e6)).is_some(), "others fill the queue");
        assert_eq!(back(71_900_000, Some(199e6)), None);
        // Recorded on a way back of 0.15 Mbit/s: pings took 19.6 ms, and segments 17.8 ms.
        let slow = |carried: Option<f64>| {
            let mut point = shared(0, &[("rtt_min", 0.01777)]);
            point.path[0].base_rtt = Some(Fact::exact(Nanos(19_582_035), Method::Pings));
            let rtt = Fact::exact(Nanos(19_921_653), Method::Pings);
            let back = PathFacts { base_rtt: Some(rtt), ..PathFacts::default() };
            let carried = carried.map(BitRate);
            point.path.push(PathFacts { from: "b".into(), to: "a".into(), carried, ..back });
            RULE.judge(&point)
        };
        assert_eq!(slow(Some(111_111.0)), None);
        assert!(slow(None).is_some(), "the rate of the way back is not known");
    }

    #[test]
    fn it_is_silent_on_a_still_path_behind_a_slow_reverse_path_and_where_an_end_is_the_limit() {
        assert_eq!(RULE.judge(&shared(36, &[])), None);
        assert_eq!(RULE.judge(&shared(60, &[("rwnd_limited", 0.8)])), None);
        let mut slow_back = shared(60, &[]);
        slow_back.path.push(PathFacts {
            from: "b".into(),
            to: "a".into(),
            limiter: Some(Limiter::Link),
            ..PathFacts::default()
        });
        assert_eq!(RULE.judge(&slow_back), None);
    }
}
