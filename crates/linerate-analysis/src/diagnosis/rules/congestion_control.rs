//! Congestion control or pacing keeps less data in flight than the path could carry
//! (docs/methodology/diagnosis.md#rules, D17). TCP only.
//!
//! Evidence: no window, buffer, CPU or application limits the sender; loss is below [`LOSSLESS`];
//! the round-trip time is near its minimum, so there is no queue; and goodput equals the rate that
//! the congestion window or the kernel's pacing permits. Not observed: a path of unknown rate that
//! a paced sender fills exactly.

use linerate_model::{Direction, metric};

use super::{
    LEAST_EFFECT, Rule, TCP_STREAM, facts::is_at_known_limit, fire_hose::is_below_shallow_link,
    flows, may_be_judged, only_the_path, param, room, score, standing_queue, suspected, value,
};
use crate::diagnosis::experiment::{Experiment, set};
use crate::diagnosis::{Claim, Evidence, Finding, Permit, Step};
use crate::{JobStudy, PointStudy};

/// Loss below which loss does not explain the size of the window
/// (docs/methodology/diagnosis.md#rules, D4).
const LOSSLESS: f64 = 1e-4;
/// Relative increase of the round-trip time over its minimum that still counts as no queue.
const NO_QUEUE: f64 = 0.25;
/// Goodput over the permitted rate; the range allows for headers and sampling.
const FOLLOWS: std::ops::RangeInclusive<f64> = 0.8..=1.15;
/// Ratio of ceiling to goodput below which the ceiling may be the limit instead.
const ROOM: f64 = 1.1;
const BITS_PER_BYTE: f64 = 8.0;
/// Pacing rate that limits nothing, in a plan's notation.
const UNBOUNDED: &str = "1 Tbit/s";
const MOST_GAINED: f64 = 100.0;

/// Returns true if only the path limits the sender, and no known limit of the path explains
/// goodput: a rate that is near, or a buffer that collapses every window.
fn has_room(point: &PointStudy, job: &JobStudy, direction: Direction) -> bool {
    only_the_path(job, direction)
        && room(job, direction) > ROOM
        && !is_at_known_limit(point, job, direction)
        && !is_below_shallow_link(point, job, direction)
}

/// Rule: the congestion window or pacing is the limit.
pub(super) const RULE: Rule = Rule {
    number: 17,
    name: "congestion_control",
    summary: "there is neither loss nor a queue, and goodput equals the rate that the congestion \
        window or the kernel's pacing permits",
    judge,
    score,
    experiments,
    ..Rule::PLAIN
};

fn judge(point: &PointStudy) -> Option<Finding> {
    let (job, direction) = flows(point)
        .find(|(job, direction)| has_room(point, job, *direction))
        .filter(|_| may_be_judged(point))?;
    let read = |metric| value(job, metric, direction);
    let (goodput, rtt, rtt_min) =
        (read(metric::GOODPUT)?, read(metric::RTT)?, read(metric::RTT_MIN)?);
    if read(metric::RETRANSMIT_RATIO)? >= LOSSLESS || standing_queue(job, direction)? > NO_QUEUE {
        return None;
    }
    // The window is sent once per round trip.
    let window = read(metric::CONGESTION_WINDOW).map(|bytes| bytes * BITS_PER_BYTE / rtt);
    let paced = read(metric::PACING_RATE);
    let by = |rate: Option<f64>| rate.filter(|rate| FOLLOWS.contains(&(goodput / rate)));
    let (by, rate) = match (by(paced), by(window)) {
        // The window of a paced sender usually allows more than its pacing rate, so pacing is
        // the limit where both fit.
        (Some(rate), _) => (Permit::Pacing, rate),
        (_, Some(rate)) => (Permit::CongestionWindow, rate),
        _ => return None,
    };
    let evidence =
        vec![Evidence::OfPermit { by, goodput, rate }, Evidence::NoQueue { rtt, rtt_min }];
    let finding = suspected(RULE.name, (point, job, direction), Claim::Paced(by), evidence);
    Some(finding.advise(Step::OtherCongestionControl))
}

fn score(point: &PointStudy) -> Option<f64> {
    score::best(point, |job, direction| {
        let read = |metric| value(job, metric, direction);
        let (goodput, rtt) = (read(metric::GOODPUT)?, read(metric::RTT)?);
        let window = read(metric::CONGESTION_WINDOW).map(|bytes| bytes * BITS_PER_BYTE / rtt);
        let follows =
            |rate: Option<f64>| rate.map(|rate| score::within(goodput / rate, *FOLLOWS.end()));
        let followed = follows(read(metric::PACING_RATE))
            .into_iter()
            .chain(follows(window))
            .reduce(f64::max)?;
        let queue = score::below(standing_queue(job, direction)?, NO_QUEUE);
        let path = if has_room(point, job, direction) { 1.0 } else { 0.0 };
        Some(score::all([
            followed,
            queue,
            path,
            score::below(read(metric::RETRANSMIT_RATIO)?, LOSSLESS),
        ]))
    })
}

fn experiments(point: &PointStudy) -> Vec<Experiment> {
    let of_streams = |(job, _): &(&JobStudy, Direction)| job.workload == TCP_STREAM;
    let Some((job, _)) = flows(point).find(of_streams) else { return Vec::new() };
    let ratio = [LEAST_EFFECT, MOST_GAINED];
    // A rate that the plan asked for is no decision of the congestion control, so only removing
    // it can help.
    vec![if param(job, "pacing_rate").is_some() {
        Experiment::lift("without pacing", vec![set("pacing_rate", UNBOUNDED)], ratio)
    } else {
        // Which algorithm suits the path is unknown, so two that size their window in
        // different ways are tried.
        let algorithms = ["bbr", "reno"].map(|name| vec![set("congestion", name)]);
        Experiment::lift_by_one("another congestion control", algorithms, ratio)
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::rules::cases::point;

    fn clean(goodput: f64, rtt: f64, paced: f64) -> PointStudy {
        point(&[
            ("goodput", goodput),
            ("retransmit_ratio", 0.0),
            ("rtt", rtt),
            ("rtt_min", 0.02),
            ("sender_busy", 1.0),
            ("congestion_window", 250_000.0),
            ("pacing_rate", paced),
        ])
    }

    #[test]
    fn it_fires_on_a_window_and_on_pacing() {
        let window = RULE.judge(&clean(98e6, 0.02, 200e6)).expect("250 kB every 20 ms");
        assert_eq!(window.claim, Claim::Paced(Permit::CongestionWindow));
        let paced = RULE.judge(&clean(19e6, 0.02, 20e6)).expect("paced at 20 Mbit/s");
        assert_eq!(paced.claim, Claim::Paced(Permit::Pacing));
        assert_eq!(
            RULE.experiments(&clean(98e6, 0.02, 200e6))[0].name,
            "another congestion control"
        );
    }

    #[test]
    fn bursts_on_a_short_path_are_no_queue() {
        // Paced at 10 Mbit/s over 2 ms: the smoothed round trip is half as long again, by less than
        // a segment.
        let short = point(&[
            ("goodput", 9.98e6),
            ("retransmit_ratio", 0.0),
            ("rtt", 0.003_087),
            ("rtt_min", 0.002),
            ("sender_busy", 1.0),
            ("pacing_rate", 10e6),
        ]);
        assert!(
            RULE.judge(&short).is_some_and(|finding| finding.claim == Claim::Paced(Permit::Pacing))
        );
    }

    #[test]
    fn it_is_silent_at_a_queue_and_where_neither_is_followed() {
        assert_eq!(RULE.judge(&clean(50e6, 0.04, 200e6)), None, "a queue stands");
        assert_eq!(
            RULE.judge(&clean(30e6, 0.02, 200e6)),
            None,
            "the window would let more through"
        );
    }
}
