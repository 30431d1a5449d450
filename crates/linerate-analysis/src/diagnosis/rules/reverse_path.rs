//! The reverse path carries fewer acknowledgements than the data need
//! (docs/methodology/diagnosis.md#rules, D25). TCP only.
//!
//! Evidence: the probe measured the rate of the reverse path. At the rate that the data path
//! carries, a receiver that acknowledges every second segment needs more than that, and goodput is
//! well below the rate of the data path. Where the rate of the data path is unknown, the
//! acknowledgements of the present goodput must fill the reverse path: those that arrived, or one
//! for every second segment. No experiment: the load has no parameter for the number of
//! acknowledgements. Not observed: acknowledgements that were dropped.

use linerate_model::{Direction, metric};

use super::{
    Rule, changed, facts::carries, flows, may_be_judged, score, seen, suspected, value,
    waits_for_window,
};
use crate::diagnosis::{Claim, Evidence, Finding, Step};
use crate::{JobStudy, PointStudy};

/// Bits of an acknowledgement with timestamps in an Ethernet frame. Links count frames; the
/// datagrams of the probe are so long that their headers do not matter.
const ACKNOWLEDGEMENT: f64 = (14.0 + 52.0) * 8.0;
/// Bytes of an acknowledgement with timestamps over those of the two segments that it acknowledges.
const ACKNOWLEDGED: f64 = 52.0 / 3000.0;
/// Share of the rate of the reverse path that acknowledgements of a full one use.
const FULL: f64 = 0.8;
/// Largest share of the rate of the data path that the missing acknowledgements explain.
const BELOW: f64 = 0.7;
/// Idle time of the sender above which its application is the limit.
const BUSY: f64 = 0.7;

/// Rates of the two directions, and goodput, in bit/s.
struct Rates {
    /// Rate that the data path carries, if it is known.
    data: Option<f64>,
    reverse: f64,
    /// Rate of the acknowledgements that arrived, if they were counted.
    arrived: Option<f64>,
    goodput: f64,
}

impl Rates {
    fn of(point: &PointStudy, job: &JobStudy, direction: Direction) -> Option<Self> {
        // Only an overloaded direction has a known upper end.
        let back = point.reverse_path(job, direction).filter(|back| back.limiter.is_some())?;
        let goodput = value(job, metric::GOODPUT, direction)?;
        let there = point.data_path(job, direction);
        // The interval of a path with few packets a second is wide: its upper end is no rate that
        // acknowledgements reach.
        let reverse = back.capacity?.value.0;
        let arrived = value(job, metric::ACKNOWLEDGEMENTS, direction)
            .map(|per_second| per_second * ACKNOWLEDGEMENT);
        // The ramp of the data path ends early where its record would fill the way back. A lower
        // bound below goodput shows nothing, nor does one near it where acknowledgements fill the
        // way back.
        let is_measured = there.is_some_and(|facts| facts.capacity.is_some());
        let is_full = arrived.is_some_and(|arrived| arrived > FULL * reverse);
        let least = if is_full { goodput / BELOW } else { goodput };
        let data = there.and_then(carries).filter(|rate| is_measured || *rate >= least);
        Some(Self { data, reverse, arrived, goodput })
    }

    /// Returns the rate of the acknowledgements that the data path could cause, over the rate of
    /// the reverse path.
    fn need(&self) -> f64 {
        let arrived = self.arrived.unwrap_or_default() / FULL;
        (self.data.unwrap_or(self.goodput) * ACKNOWLEDGED).max(arrived) / self.reverse
    }

    /// Returns true if acknowledgements exceed the reverse path, and goodput is below the rate of
    /// the data path.
    fn explain(&self) -> bool {
        self.need() > 1.0 && self.data.is_none_or(|data| self.goodput < data * BELOW)
    }
}

/// Returns true if the reverse path explains the goodput of a sender that always has data.
pub(super) fn waits(point: &PointStudy, job: &JobStudy, direction: Direction) -> bool {
    Rates::of(point, job, direction).is_some_and(|rates| rates.explain())
        && value(job, metric::SENDER_BUSY, direction).is_some_and(|share| share > BUSY)
        && !waits_for_window(job, direction)
}

/// Rule: acknowledgements exceed the reverse path.
pub(super) const RULE: Rule = Rule {
    number: 25,
    name: "reverse_path",
    summary: "the probe found a reverse path too slow for the acknowledgements of the data path's \
        rate",
    judge,
    score,
    ..Rule::PLAIN
};

fn judge(point: &PointStudy) -> Option<Finding> {
    let limited = |(job, direction): &(&JobStudy, Direction)| waits(point, job, *direction);
    let (job, direction) = flows(point).find(limited).filter(|_| may_be_judged(point))?;
    let Rates { data, reverse, goodput, .. } = Rates::of(point, job, direction)?;
    let mut evidence = vec![Evidence::ReversePath { reverse, data, goodput }];
    evidence.extend(seen(job, metric::ACKNOWLEDGEMENTS, direction));
    evidence.extend(seen(job, metric::RTT, direction));
    let claim = Claim::ReversePath { rate: reverse };
    let finding = suspected(RULE.name, (point, job, direction), claim, evidence);
    Some(finding.advise(Step::FasterReversePath.by(changed(point, &[]))))
}

fn score(point: &PointStudy) -> Option<f64> {
    score::best(point, |job, direction| {
        let need = Rates::of(point, job, direction)?.need();
        let is_limit = waits(point, job, direction);
        let lack = score::reached(need, 1.0, 4.0);
        Some(if is_limit { lack } else { 0.0 })
    })
}

#[cfg(test)]
mod tests {
    use linerate_model::BitRate;
    use linerate_model::path::{Fact, Limiter, Method, PathFacts};

    use super::super::cases::on_path;
    use super::*;

    /// A path that carries 200 Mbit/s there and `reverse` bit/s back.
    fn slow_back(reverse: f64, more: &[(&str, f64)]) -> PointStudy {
        let usual = [
            ("goodput", 2.1e7),
            ("rtt", 0.12),
            ("rtt_min", 0.016),
            ("sender_busy", 1.0),
            ("retransmit_ratio", 0.002),
        ];
        let figures: Vec<_> = more.iter().copied().chain(usual).collect();
        let mut point = on_path(&figures, None, 0.0);
        let there = &mut point.path[0];
        (there.capacity, there.carried) = (None, Some(BitRate(2e8)));
        let back = PathFacts {
            from: there.to.clone(),
            to: there.from.clone(),
            limiter: Some(Limiter::Link),
            capacity: Some(Fact::exact(BitRate(reverse), Method::Flood)),
            ..PathFacts::default()
        };
        point.path.push(back);
        point
    }

    #[test]
    fn it_fires_where_the_reverse_path_is_too_slow_and_the_queue_is_no_full_link() {
        let point = slow_back(2e5, &[]);
        let suspects = crate::diagnosis::suspects(&point);
        let names: Vec<&str> = suspects.iter().map(|(rule, _)| rule.name).collect();
        assert_eq!(names, ["reverse_path"]);
        assert_eq!(suspects[0].1.claim, Claim::ReversePath { rate: 2e5 });
        assert!(RULE.score(&point).is_some_and(|score| score > 0.5));
    }

    #[test]
    fn a_wide_interval_is_judged_by_its_value() {
        let judge = |low, value, high| {
            let figures = [("acknowledgements", 210.0), ("goodput", 3.5e6)];
            let mut point = slow_back(value, &figures);
            point.path[0].carried = Some(BitRate(3.6e6));
            let capacity = point.path[1].capacity.as_mut().expect("it is measured");
            (capacity.low, capacity.high) = (BitRate(low), BitRate(high));
            RULE.judge(&point).is_some()
        };
        // 210 acknowledgements a second are 0.11 Mbit/s.
        assert!(judge(1.19e5, 1.2e5, 1.57e5));
        assert!(!judge(1.19e5, 1.57e5, 1.57e5));
    }

    #[test]
    fn it_is_silent_where_the_way_back_suffices_or_goodput_is_near_the_capacity() {
        assert_eq!(RULE.judge(&slow_back(5e6, &[])), None);
        assert_eq!(RULE.judge(&slow_back(2e5, &[("goodput", 1.8e8)])), None);
        assert_eq!(RULE.judge(&slow_back(2e5, &[("rwnd_limited", 0.8)])), None);
        let mut unknown = slow_back(2e5, &[]);
        unknown.path[1].limiter = None;
        assert_eq!(RULE.judge(&unknown), None);
    }

    #[test]
    fn without_facts_of_the_data_path_the_acknowledgements_of_goodput_must_fill_the_way_back() {
        let judge = |reverse| {
            let mut point = slow_back(reverse, &[]);
            point.path.remove(0);
            RULE.judge(&point)
        };
        let mut short = slow_back(2e5, &[]);
        short.path[0].carried = Some(BitRate(4e6));
        assert!(RULE.judge(&short).is_some(), "the ramp of the data path ended early");
        let suspects = crate::diagnosis::suspects(&short);
        assert_eq!(
            suspects.iter().map(|(rule, _)| rule.name).collect::<Vec<_>>(),
            ["reverse_path"]
        );
        let near = |per_second| {
            let mut point = slow_back(5e5, &[("acknowledgements", per_second)]);
            point.path[0].carried = Some(BitRate(2.2e7));
            RULE.judge(&point).is_some()
        };
        assert_eq!([near(700.0), near(800.0)], [false, true], "a lower bound near goodput");
        // Not every acknowledgement covers two segments: 800 of them are 0.42 Mbit/s.
        let counted = |per_second| {
            let mut point = slow_back(5e5, &[("acknowledgements", per_second)]);
            point.path.remove(0);
            RULE.judge(&point).is_some()
        };
        assert_eq!([counted(700.0), counted(800.0)], [false, true]);
        // 21 Mbit/s of data need 0.36 Mbit/s of acknowledgements.
        let finding = judge(2e5).expect("they exceed 0.2 Mbit/s");
        assert!(matches!(finding.evidence[0], Evidence::ReversePath { data: None, .. }));
        assert_eq!(judge(5e5), None);
    }
}
