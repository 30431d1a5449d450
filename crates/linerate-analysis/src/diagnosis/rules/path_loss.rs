//! The path loses packets, and TCP's reaction to the loss sets goodput
//! (docs/methodology/diagnosis.md#rules, D4).
//!
//! Evidence: the sender retransmits, nothing but the path limits it, and goodput is at least half
//! and at most four times the models for this loss and round-trip time. The lower model is that of
//! Padhye, Firoiu, Towsley and Kurose. The upper one is that of Mathis et al., which ignores
//! timeouts: Linux repairs nearly all loss without them (RACK-TLP, RFC 8985). Where the probe lost
//! datagrams below the rate of the path and goodput is well below that rate, the models need not
//! fit. Not observed: the place of the loss. The rule for a shallow buffer that overflows comes
//! first.

use linerate_model::path::Fact;
use linerate_model::{Bytes, Command, Direction, Nanos, Ratio, metric};

use super::{
    LEAST_EFFECT, Rule, TCP_STREAM,
    cross_traffic::is_shared,
    facts::{MeasuredLink, carries, is_at_known_limit, loses_at_random, random_loss},
    fills_path, fire_hose, flows, may_be_judged, room, score, segment_size, smaller_segments,
    suspected, value, waits_for_cpu, waits_for_window, window_open,
};
use crate::diagnosis::experiment::{Experiment, set};
use crate::diagnosis::{Claim, Evidence, Finding, Step};
use crate::limits::window::{Acknowledgement, mathis, pftk};
use crate::{Given, JobStudy, Obtained, PointStudy};

/// Share of retransmitted bytes that counts as loss; the methodology's 1e-4 applies to long runs.
const LOSS: f64 = 1e-3;
/// Share of retransmitted bytes at which the evidence of loss is complete.
const MUCH: f64 = 1e-2;
/// Score of loss alone, where goodput reaches the ceiling in spite of it or no model applies.
const BELOW: f64 = 0.25;
/// Accepted ratio of goodput to the model (docs/methodology/diagnosis.md#rules). It may be far
/// above: the window shrinks once for a run of lost packets, however many are lost (a run of ten
/// raises goodput by the square root of ten), and a run of a second still has a share of slow
/// start.
const WITHIN: std::ops::RangeInclusive<f64> = 0.5..=4.0;
/// The kernel's least retransmission timeout (`TCP_RTO_MIN`).
const LEAST_TIMEOUT: f64 = 0.2;
/// Ratio of ceiling to goodput below which goodput reaches the ceiling in spite of the loss.
const ROOM: f64 = 1.1;
const MOST_GAINED: f64 = 100.0;
/// Payload of a segment where the connection does not report it, in bytes.
const USUAL_SEGMENT: f64 = 1448.0;

/// Returns true if a flow used a version of BBR, which does not treat loss as congestion: `bbr`,
/// `bbr2`, ...
fn is_bbr(congestion: &Obtained) -> bool {
    congestion.values().filter_map(Given::word).any(|name| name.starts_with("bbr"))
}

/// Rule: loss explains goodput.
pub(super) const RULE: Rule = Rule {
    number: 4,
    name: "path_loss",
    summary: "the sender retransmits, and goodput is 0.5 to 4 times what TCP's models give for \
        such loss",
    judge,
    score,
    turn: Some(turn),
    experiments,
    ..Rule::PLAIN
};

// Linux grows its window by the bytes acknowledged (RFC 3465), so delayed acknowledgements do
// not slow it: b = 1.
/// Returns the goodput that the models give for a flow, in bit/s: with timeouts, and without.
fn models(job: &JobStudy, direction: Direction) -> Option<[f64; 2]> {
    let loss = Ratio(value(job, metric::RETRANSMIT_RATIO, direction).filter(|loss| *loss >= LOSS)?);
    let rtt = value(job, metric::RTT, direction)?;
    // Peers that report no segment size almost always use Ethernet's MTU with timestamps.
    let segment = segment_size(job).unwrap_or(USUAL_SEGMENT);
    // Linux adds its least timeout to the smoothed round-trip time.
    let (rtt, rto) = (Nanos::from_secs_f64(rtt), Nanos::from_secs_f64(LEAST_TIMEOUT + rtt));
    let segment = Bytes(segment as u64);
    let with = pftk(segment, rtt, rto, loss, Acknowledgement::Every)?;
    let without = mathis(segment, rtt, loss, Acknowledgement::Every)?;
    // The models describe one flow, and each flow reacts to its own losses.
    Some([with, without].map(|rate| rate.0 * super::n_flows(job)))
}

/// Returns goodput over the nearest model; 1 between the two models.
fn ratio(job: &JobStudy, direction: Direction) -> Option<f64> {
    let goodput = value(job, metric::GOODPUT, direction)?;
    let [least, most] = models(job, direction)?;
    // Between the two models any goodput fits.
    Some(goodput / goodput.clamp(least, most))
}

/// Returns true if something that is known limits goodput in spite of the loss: a ceiling, the
/// peer's window, a busy CPU, a full link, a policer or traffic of others.
fn is_elsewhere(point: &PointStudy, job: &JobStudy, direction: Direction) -> bool {
    room(job, direction) <= ROOM
        // Window probes are counted as retransmissions although nothing was lost.
        || waits_for_window(job, direction)
        // A worker that waits for a CPU sends in bursts, and some of those are lost.
        || waits_for_cpu(job)
        || fills_path(job, direction)
        || is_at_known_limit(point, job, direction)
        || is_shared(point, job, direction)
}

/// Returns the loss that the probe saw on a path that carries more than the goodput of a sender
/// that retransmits.
fn measured(point: &PointStudy, job: &JobStudy, direction: Direction) -> Option<Fact<Ratio>> {
    let loss = random_loss(point, job, direction)?;
    let carried = carries(point.data_path(job, direction)?)?;
    let goodput = value(job, metric::GOODPUT, direction)?;
    let repeated = value(job, metric::RETRANSMIT_RATIO, direction)?;
    // The ramp of the probe ends at the first losses, so its last rate is no limit of a path
    // without a slow link.
    let is_below = goodput < carried * MeasuredLink::NEAR;
    let is_open = is_below || loses_at_random(point, job, direction);
    (is_open && repeated >= LOSS).then_some(loss)
}

/// Comes before the rule for a shallow buffer if the probe lost datagrams. Both see the same
/// retransmissions. The prediction for small segments refutes random loss within seconds, and
/// that for a smaller window refutes a shallow buffer only after many noisy pairs.
fn turn(point: &PointStudy) -> u8 {
    let is_measured =
        flows(point).any(|(job, direction)| measured(point, job, direction).is_some());
    if is_measured { fire_hose::RULE.number - 1 } else { RULE.number }
}

fn judge(point: &PointStudy) -> Option<Finding> {
    let mut explained =
        flows(point).filter(|(job, direction)| is_explained(point, job, *direction));
    let (job, direction) = explained.next().filter(|_| may_be_judged(point))?;
    let [with_timeouts, without_timeouts] = models(job, direction)?;
    let goodput = value(job, metric::GOODPUT, direction)?;
    let loss = value(job, metric::RETRANSMIT_RATIO, direction)?;
    let mut evidence = vec![
        Evidence::figure(metric::RETRANSMIT_RATIO, loss),
        Evidence::LossModels { goodput, with_timeouts, without_timeouts },
    ];
    evidence.extend(random_loss(point, job, direction).map(|loss| {
        let [share, low, high] = [loss.value, loss.low, loss.high].map(|share| share.0);
        Evidence::LossWithoutLoad { share, low, high }
    }));
    let finding = suspected(RULE.name, (point, job, direction), Claim::Loss, evidence);
    let flood = Command::local("run", &["udp_stream"]).between(&job.from, &job.to);
    Some(finding.advise(Step::LocateDrops.by(flood)))
}

fn score(point: &PointStudy) -> Option<f64> {
    score::best(point, |job, direction| {
        let loss = score::reached(value(job, metric::RETRANSMIT_RATIO, direction)?, LOSS, MUCH);
        // The lower of the two counts: retransmissions of a sender without window are probes.
        let loss = loss.min(window_open(job, direction));
        let is_elsewhere = is_elsewhere(point, job, direction);
        let Some(ratio) = ratio(job, direction).filter(|_| !is_elsewhere) else {
            // Loss that goodput does not follow is a fact about the path, but not its limit.
            return Some(loss.min(BELOW));
        };
        let is_measured = measured(point, job, direction).is_some();
        let fits = if is_measured { 1.0 } else { score::within(ratio, *WITHIN.end()) };
        Some(score::all([loss, fits]))
    })
}

/// Returns two experiments. A sender that does not treat loss as congestion must carry more.
/// Under loss the window counts segments whatever their size (Mathis: goodput is segment /
/// round trip * c / sqrt(loss)), so goodput must shrink in proportion to the segment. A
/// ceiling, window or buffer in bytes would hardly change it.
fn experiments(point: &PointStudy) -> Vec<Experiment> {
    let reacts = |(job, _): &(&JobStudy, Direction)| {
        // A sender that already ignores loss cannot be improved by a control that ignores loss.
        job.workload == TCP_STREAM && !job.obtained.get("congestion").is_some_and(is_bbr)
    };
    let Some((job, _)) = flows(point).find(reacts) else { return Vec::new() };
    let swapped = Experiment::lift(
        "a congestion control that does not treat loss as congestion",
        vec![set("congestion", "bbr")],
        [LEAST_EFFECT, MOST_GAINED],
    );
    let proportional =
        |usual: f64, small: f64| [small / usual / BY_MODEL, small / usual * BY_MODEL];
    [swapped].into_iter().chain(smaller_segments(job, proportional)).collect()
}

/// Returns whether loss explains the goodput of the flow.
fn is_explained(point: &PointStudy, job: &JobStudy, direction: Direction) -> bool {
    let near = ratio(job, direction).is_some_and(|ratio| WITHIN.contains(&ratio));
    (near || measured(point, job, direction).is_some()) && !is_elsewhere(point, job, direction)
}

/// Accepted deviation of goodput from proportionality to the segment.
const BY_MODEL: f64 = 1.25;

#[cfg(test)]
mod tests {
    use linerate_model::path::Method;
    use linerate_model::{BitRate, Verdict};

    use super::*;
    use crate::diagnosis::rules::cases::{on_path, point};

    fn lossy(goodput: f64, loss: f64) -> PointStudy {
        point(&[("goodput", goodput), ("retransmit_ratio", loss), ("rtt", 0.02), ("rtt_min", 0.02)])
    }

    #[test]
    fn it_fires_where_the_model_explains_goodput() {
        // Mathis: 1448 B / 20 ms * sqrt(1.5 / 2) / sqrt(0.01) is 5 Mbit/s.
        let finding = RULE.judge(&lossy(5e6, 0.01)).expect("explained");
        assert_eq!((finding.verdict, finding.evidence.len()), (Verdict::Suspected, 2));
    }

    #[test]
    fn loss_repaired_without_timeouts_leaves_more() {
        // Seen on an emulated path that drops 1 % at random: 17.5 Mbit/s, 2.2 times the model with
        // timeouts, 1.5 times the one without.
        let figures =
            [("goodput", 17.5e6), ("retransmit_ratio", 0.012), ("rtt", 0.01114), ("rtt_min", 0.01)];
        let finding = RULE.judge(&point(&figures)).expect("explained");
        let Evidence::LossModels { goodput, without_timeouts, .. } = finding.evidence[1] else {
            panic!("{:?}", finding.evidence)
        };
        assert!((1.5..1.6).contains(&(goodput / without_timeouts)), "{:?}", finding.evidence);
    }

    #[test]
    fn the_loss_of_a_sender_that_waits_for_a_cpu_is_no_limit() {
        let mut busy = lossy(5e6, 0.01);
        let mut waits = busy.jobs[0].metrics[0].clone();
        (waits.metric, waits.direction) = (metric::RUN_QUEUE_WAIT, Direction::Sum);
        waits.estimate = waits.estimate.map(|one| linerate_model::Estimate { value: 0.656, ..one });
        busy.jobs[0].metrics.push(waits);
        assert_eq!(RULE.judge(&busy), None);
        assert!(RULE.score(&busy).is_some_and(|score| score <= BELOW));
    }

    #[test]
    fn it_is_silent_without_loss_and_far_from_the_model() {
        assert_eq!(RULE.judge(&lossy(5e6, 0.0001)), None);
        assert_eq!(RULE.judge(&lossy(0.5e6, 0.01)), None);
        assert_eq!(RULE.judge(&lossy(50e6, 0.01)), None);
    }

    #[test]
    fn loss_of_the_probe_is_evidence_where_the_models_do_not_fit() {
        let judge_with = |carried: f64, low: f64, burst: Option<f64>| {
            let mut point = lossy(40e6, 0.008);
            point.path = on_path(&[], None, carried).path;
            let facts = &mut point.path[0];
            if let Some(burst) = burst {
                // The ramp ended at its first losses.
                (facts.capacity, facts.carried) = (None, Some(BitRate(carried)));
                facts.burst_rate = Some(Fact::exact(BitRate(burst), Method::Trains));
            }
            let [value, low, high] = [0.008, low, 0.02].map(Ratio);
            point.path[0].idle_loss = Some(Fact { value, low, high, n: 900, method: Method::Ramp });
            RULE.judge(&point)
        };
        let judge = |carried, low| judge_with(carried, low, None);
        assert!(judge_with(2.4e7, 0.003, Some(4.4e8)).is_some(), "no link of the path is slow");
        assert_eq!(judge_with(2.4e7, 0.003, Some(6e7)), None, "a link may be");
        let finding = judge(9e7, 0.003).expect("the path carries 90 Mbit/s and loses");
        assert!(matches!(finding.evidence[2], Evidence::LossWithoutLoad { .. }), "{finding:?}");
        assert_eq!(judge(4.4e7, 0.003), None, "goodput is what the path carries");
        assert_eq!(judge(9e7, 0.0001), None, "an accident");
    }

    #[test]
    fn it_is_tested_before_a_shallow_buffer_if_the_probe_lost_datagrams() {
        let mut point = lossy(5e6, 0.01);
        let first = |point: &PointStudy| crate::diagnosis::suspects(point)[0].0.name;
        assert_eq!(first(&point), "fire_hose");
        point.path = on_path(&[], None, 2e7).path;
        let [value, low, high] = [0.01, 0.003, 0.02].map(Ratio);
        point.path[0].idle_loss = Some(Fact { value, low, high, n: 900, method: Method::Ramp });
        assert_eq!(first(&point), "path_loss");
    }

    #[test]
    fn it_is_silent_where_the_sender_waits_for_the_window() {
        let figures = [
            ("goodput", 5e6),
            ("retransmit_ratio", 0.01),
            ("rtt", 0.02),
            ("rtt_min", 0.02),
            ("rwnd_limited", 0.8),
        ];
        assert_eq!(RULE.judge(&point(&figures)), None);
        assert_eq!(RULE.score(&point(&figures)), Some(0.0));
    }

    #[test]
    fn what_is_predicted_of_small_segments_is_their_size() {
        let mut point = lossy(5e6, 0.01);
        assert_eq!(RULE.experiments(&point).len(), 1, "nobody knows the segment");
        point.jobs[0].obtained.insert("mss".into(), crate::Obtained::granted(1448));
        let [_, small] = &RULE.experiments(&point)[..] else { panic!("two") };
        let [least, most] = small.ratio;
        assert!(((least * most).sqrt() - 238.0 / 1448.0).abs() < 1e-9, "{small:?}");
        assert!(
            !small.lifts && small.is_hopeless(&[0.8]),
            "a ceiling in bytes gives 0.8: {small:?}"
        );
        point.jobs[0].obtained.insert("congestion".into(), crate::Obtained::granted("bbr"));
        assert_eq!(RULE.experiments(&point), []);
    }
}
