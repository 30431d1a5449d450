//! A link whose rate nobody declared is saturated (docs/methodology/diagnosis.md#rules, D22). TCP
//! only.
//!
//! Evidence: nothing at the ends limits the sender, no known ceiling is near, and one of two: the
//! probe measured the rate of the path and goodput is at least 0.8 of it, or a queue stands in the
//! path: the round-trip time exceeds its minimum by at least [`STANDS`] of it. If the probe found a
//! path that carries clearly more than goodput, the queue is elsewhere. A queue that stands keeps
//! its link busy, so goodput is the link's rate without its headers. Packets that wait for a CPU of
//! the ends look the same as a queue, so a queue is no evidence where a worker waited for one. The
//! experiment separates it from a limit in packets, from acknowledgements that wait on the way back
//! and from traffic of others: with small segments, goodput of a link that counts bytes falls by
//! the cost of the headers and no more. Not observed: the hop.

use linerate_model::{Direction, metric};

use super::{
    Rule, changed, cross_traffic,
    facts::{MeasuredLink, carries, is_policed},
    flows, may_be_judged, only_the_path, reverse_path, room, score, shrunk, smaller_segments,
    standing_queue, suspected, value, waits_for_cpu,
};
use crate::diagnosis::experiment::Experiment;
use crate::diagnosis::{Claim, Evidence, Finding, Step};
use crate::study::ALL;
use crate::{JobStudy, PointStudy};

/// Relative increase of the round-trip time over its minimum that shows a standing queue. TCP with
/// a buffer of one bandwidth-delay product keeps it between 40 and 100 % filled.
pub(super) const STANDS: f64 = 0.3;
/// Relative increase at which the evidence is complete: a buffer of several bandwidth-delay
/// products.
const DEEP: f64 = 3.0;
/// Ratio of ceiling to goodput below which the known ceiling explains goodput.
const ROOM: f64 = 1.1;
/// Ratio of goodput to the measured rate of a link at which the evidence is complete. Headers take
/// 0.04 of the rate.
const FULL: f64 = 0.96;
/// Ratio of the rate that the path carries to goodput from which a link of the path is not full.
const FASTER: f64 = 1.3;
/// Longest wait, s, that looks like a queue and may be one for a CPU: the kernel's scheduler lets
/// another task run for this long. A run over an interface without a rate (veth) waits up to 0.7
/// ms.
const A_SLICE: f64 = 1e-3;
const BITS_PER_BYTE: f64 = 8.0;

/// Returns the link that the probe measured, if goodput is its rate.
fn full_link(point: &PointStudy, job: &JobStudy, direction: Direction) -> Option<MeasuredLink> {
    MeasuredLink::of(point, job, direction).filter(MeasuredLink::is_full)
}

/// Returns the score of a saturated link: of its measured rate, or of a queue on a path that is not
/// known to carry more.
fn saturation(point: &PointStudy, job: &JobStudy, direction: Direction) -> Option<f64> {
    let is_elsewhere = cross_traffic::is_shared(point, job, direction)
        || reverse_path::waits(point, job, direction);
    // Where all jobs together fill what they share, no unknown link has to explain what one job
    // gets of it.
    let mut together = point.jobs.iter().filter(|job| job.workload == ALL);
    let is_known = room(job, direction) <= ROOM || together.any(|all| room(all, direction) <= ROOM);
    if !only_the_path(job, direction) || is_known || is_elsewhere {
        return Some(0.0);
    }
    let near = MeasuredLink::of(point, job, direction)
        .map_or(0.0, |link| score::reached(link.share(), MeasuredLink::NEAR, FULL));
    let goodput = value(job, metric::GOODPUT, direction)?;
    let is_faster = point
        .data_path(job, direction)
        .and_then(carries)
        .is_some_and(|rate| rate > goodput * FASTER);
    let least = value(job, metric::RTT_MIN, direction);
    let excess = least.and_then(|least| Some(value(job, metric::RTT, direction)? - least));
    let queue = standing_queue(job, direction)
        .filter(|_| excess.is_some_and(|excess| excess > A_SLICE))
        // Data hardly wait at a policer: what waits there waits for a busy host.
        .filter(|_| !is_faster && !waits_for_cpu(job) && !is_policed(point, job, direction))
        .map(|queue| score::reached(queue, STANDS, DEEP));
    Some(near.max(queue.unwrap_or_default()))
}

/// Rule: a queue stands in the path, and nothing at the ends explains goodput.
pub(super) const RULE: Rule = Rule {
    number: 22,
    name: "path_rate",
    summary: "goodput is the rate of the path that the probe measured, or a queue stands in the \
        path, and nothing at the ends limits the sender: a link of unknown rate is saturated",
    judge,
    score,
    experiments,
    rests_on_prediction,
    ..Rule::PLAIN
};

fn judge(point: &PointStudy) -> Option<Finding> {
    let full = |(job, direction): &(&JobStudy, Direction)| {
        saturation(point, job, *direction).is_some_and(score::is_suspected)
    };
    let (job, direction) = flows(point).find(full).filter(|_| may_be_judged(point))?;
    let read = |metric| value(job, metric, direction);
    let (goodput, rtt, rtt_min) =
        (read(metric::GOODPUT)?, read(metric::RTT)?, read(metric::RTT_MIN)?);
    let bytes = ((rtt - rtt_min) * goodput / BITS_PER_BYTE).round() as u64;
    let link = full_link(point, job, direction);
    let mut evidence = link.map_or_else(Vec::new, |link| link.evidence());
    evidence.push(Evidence::QueuedBytes { bytes, goodput, rtt, rtt_min });
    let claim = Claim::PathRate { goodput };
    let finding = suspected(RULE.name, (point, job, direction), claim, evidence);
    let finding = finding.advise(Step::FindHop.by(changed(point, &[])));
    let is_bloated = link.is_some_and(|link| link.is_bloated());
    Some(if is_bloated { finding.advise(Step::ShortenQueue) } else { finding })
}

fn rests_on_prediction(point: &PointStudy) -> bool {
    // Any element with a queue has the same evidence. Only an effect of the size of the headers
    // shows that the element counts bytes and not packets. A probe has measured the element.
    flows(point).all(|(job, direction)| full_link(point, job, direction).is_none())
}

fn score(point: &PointStudy) -> Option<f64> {
    score::best(point, |job, direction| saturation(point, job, direction))
}

fn experiments(point: &PointStudy) -> Vec<Experiment> {
    let tested = |(job, _)| smaller_segments(job, shrunk);
    let found = flows(point).find_map(tested).into_iter();
    match rests_on_prediction(point) {
        true => found.collect(),
        false => found.map(Experiment::refuting_nothing).collect(),
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::Verdict;
    use linerate_model::path::Limiter;

    use super::*;
    use crate::diagnosis::rules::cases::{on_path, point};

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
    fn a_load_that_has_the_rate_of_its_plan_is_limited_by_nothing_else() {
        let offered = |rate: &str| {
            let mut point = queued(0.044, &[]);
            point.jobs[0].params.set("rate", rate);
            RULE.judge(&point)
        };
        assert_eq!(offered("17.3 Mbit/s"), None);
        assert!(offered("20 Mbit/s").is_some());
    }

    #[test]
    fn it_fires_where_a_queue_stands_and_is_silent_where_none_does() {
        let finding = RULE.judge(&queued(0.044, &[])).expect("17 ms are queued");
        assert_eq!(finding.verdict, Verdict::Suspected);
        let [Evidence::QueuedBytes { bytes, .. }] = finding.evidence[..] else {
            panic!("{finding:?}")
        };
        assert_eq!(bytes, 36_550);
        assert_eq!(RULE.judge(&queued(0.0275, &[])), None);
        assert!(RULE.score(&queued(0.044, &[])).is_some_and(|score| score > 0.5));
    }

    #[test]
    fn a_queue_that_is_shorter_than_a_turn_of_a_cpu_is_none() {
        // Recorded between two namespaces without a rate, beside other programs, at 21.6 Gbit/s.
        let veth = [("goodput", 0.8e9), ("rtt_min", 7e-6)];
        assert_eq!(RULE.judge(&queued(75.6e-6, &veth)), None);
        assert!(RULE.judge(&queued(1.1e-3, &veth)).is_some());
    }

    #[test]
    fn it_is_silent_where_an_end_or_a_known_ceiling_explains_the_goodput() {
        let silent = |more: &[(&str, f64)]| RULE.judge(&queued(0.044, more)).is_none();
        assert!(silent(&[("rwnd_limited", 0.8)]), "the peer's window");
        assert!(silent(&[("sender_cpu", 0.99)]), "the sender's CPU");
        let mut waits = queued(0.044, &[("run_queue_wait", 0.6)]);
        for figure in &mut waits.jobs[0].metrics {
            if figure.metric == metric::RUN_QUEUE_WAIT {
                figure.direction = Direction::Sum;
            }
        }
        assert_eq!(RULE.judge(&waits), None, "a worker waits for a CPU");
        assert_eq!(RULE.judge(&point(&[("goodput", 0.97e9), ("rtt", 0.01)])), None);
    }

    #[test]
    fn it_is_silent_where_all_jobs_fill_what_they_share() {
        let beside = |share| {
            let mut point = queued(0.044, &[]);
            let mut all = point.jobs[0].clone();
            all.workload = ALL.to_owned();
            all.metrics[0].share = Some(share);
            point.jobs.push(all);
            RULE.judge(&point)
        };
        assert!(beside(0.8).is_some());
        assert_eq!(beside(0.99), None);
    }

    #[test]
    fn the_measured_rate_of_a_link_names_it_without_a_queue_and_a_faster_path_does_not() {
        let on = |limiter, rate: f64, rtt| {
            let mut point = queued(rtt, &[]);
            point.path = on_path(&[], limiter, rate).path;
            RULE.judge(&point)
        };
        let link = Some(Limiter::Link);
        let finding = on(link, 1.8e7, 0.0275).expect("goodput is 0.956 of the rate");
        assert!(matches!(finding.evidence[0], Evidence::OfPath { .. }), "{finding:?}");
        assert_eq!(on(link, 2.5e7, 0.0275), None, "goodput is 0.69 of the rate, and no queue");
        assert_eq!(on(Some(Limiter::Policer), 1.8e7, 0.0275), None, "drops, and no link");
        // Recorded at goodput 0.87 of a token rate: a busy host held answers up by 9 of 24 ms.
        assert_eq!(on(Some(Limiter::Policer), 1.97e7, 0.0368), None, "no queue at a policer");
        assert!(on(None, 1.8e7, 0.044).is_some(), "a queue stands");
        let mut busy = queued(0.0275, &[("run_queue_wait", 0.6)]);
        busy.jobs[0].metrics[0].direction = Direction::Sum;
        assert_eq!(RULE.judge(&busy), None);
        busy.path = on_path(&[], link, 1.8e7).path;
        assert!(RULE.judge(&busy).is_some(), "the rate is measured, whoever waits for a CPU");
        assert_eq!(on(None, 9e7, 0.044), None, "the path carries more, so the queue is elsewhere");
    }

    #[test]
    fn loss_at_a_full_link_is_neither_a_shallow_buffer_nor_random() {
        let mut full = queued(0.044, &[]);
        full.jobs[0].obtained.insert("mss".into(), crate::Obtained::granted(1448));
        let suspects = crate::diagnosis::suspects(&full);
        let names: Vec<&str> = suspects.iter().map(|(rule, _)| rule.name).collect();
        assert_eq!(names, ["path_rate"]);
        assert_eq!(RULE.experiments(&full)[0].ratio, shrunk(1448.0, 238.0));
    }
}
