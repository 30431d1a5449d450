//! A window overruns a shallow buffer behind a faster link (docs/methodology/diagnosis.md#rules,
//! D3). TCP only.
//!
//! Evidence: the sender retransmits although the standing queue is small, so the overflowing buffer
//! is shallow. The standing queue is goodput times the excess of the round-trip time over its
//! minimum. Where the probe filled the buffer of a link, its size is known, and a buffer that one
//! flow can keep busy is not shallow. A shallow one that the probe filled is evidence enough where
//! only the path limits a sender that is far from the rate of the link: its window collapsed before
//! the run, and a run may end before it overflows the buffer again. A network controller read over
//! NC-SI reports its drops; other devices report nothing.
//! Random loss looks the same, and the proposed experiment, a smaller window, separates the two. A
//! sender that waits for its peer's window overruns nothing: its retransmissions are window probes
//! and tail probes.

use linerate_model::{Arm, Bytes, Command, Direction, metric};

use super::{
    LEAST_EFFECT, Rule, TCP_STREAM,
    cross_traffic::is_shared,
    facts::{MeasuredLink, is_at_known_limit, loses_at_random},
    fills_path, flows, may_be_judged, only_the_path, param, room, score, segment_size, suspected,
    value, waits_for_window, window_open,
};
use crate::diagnosis::experiment::{Experiment, bytes, rate, set};
use crate::diagnosis::{Claim, Evidence, Finding, Sign, Step};
use crate::{JobStudy, PointStudy};

/// Share of retransmitted bytes that counts as loss; tail probes stay below it
/// (docs/methodology/diagnosis.md#rules: 1e-4 on long runs).
const LOSS: f64 = 1e-3;
/// Largest standing queue of a shallow buffer: the largest example of the methodology.
const SHALLOW: Bytes = Bytes(64 << 10);
/// Share of retransmitted bytes at which the evidence of loss is complete.
const MUCH: f64 = 1e-2;
const BITS_PER_BYTE: f64 = 8.0;

/// Returns the standing queue: goodput times the excess of the round-trip time over its minimum.
fn standing(job: &JobStudy, direction: Direction) -> Option<Bytes> {
    let read = |metric| value(job, metric, direction);
    let waited = (read(metric::RTT)? - read(metric::RTT_MIN)?).max(0.0);
    Some(Bytes((waited * read(metric::GOODPUT)? / BITS_PER_BYTE) as u64))
}

/// Returns the frames that the controller of the path dropped, if its counter was read.
fn controller_dropped(job: &JobStudy) -> Option<f64> {
    value(job, metric::CONTROLLER_DROPPED, Direction::Sum)
}

/// Returns true if the loss is known to have another cause than a shallow buffer, or to do no harm:
/// a full link, a policer, a link with a large buffer, loss on a path without a slow link, or
/// traffic of others.
fn is_explained(point: &PointStudy, job: &JobStudy, direction: Direction) -> bool {
    fills_path(job, direction)
        || is_at_known_limit(point, job, direction)
        || MeasuredLink::of(point, job, direction).is_some_and(|link| link.is_deep())
        || loses_at_random(point, job, direction)
        || is_shared(point, job, direction)
}

/// Rule: the sender retransmits although there is no queue.
pub(super) const RULE: Rule = Rule {
    number: 3,
    name: "fire_hose",
    summary: "the sender retransmits although less than 64 KiB are queued, or reaches less than \
        80 % of the rate of a link whose buffer is shallow: a shallow buffer overflows",
    judge,
    score,
    experiments,
    sign,
    ..Rule::PLAIN
};

fn judge(point: &PointStudy) -> Option<Finding> {
    let mut lossy = flows(point).filter(|(job, direction)| loses(point, job, *direction));
    let (job, direction) = lossy.next().filter(|_| may_be_judged(point))?;
    let read = |metric| value(job, metric, direction);
    let (ratio, goodput) = (read(metric::RETRANSMIT_RATIO)?, read(metric::GOODPUT)?);
    let (rtt, rtt_min) = (read(metric::RTT)?, read(metric::RTT_MIN)?);
    let queue = standing(job, direction)?;
    // A deep buffer that overflows builds a queue first, and the rules for links see that
    // queue.
    if queue > SHALLOW {
        return None;
    }
    let mut evidence = vec![
        Evidence::figure(metric::RETRANSMIT_RATIO, ratio),
        Evidence::QueuedBytes { bytes: queue.0, goodput, rtt, rtt_min },
    ];
    evidence.extend(
        MeasuredLink::of(point, job, direction).map(|link| link.evidence()).into_iter().flatten(),
    );
    let dropped = controller_dropped(job);
    let claim = match dropped {
        // The controller's counter separates its own buffer from every other one on the path.
        Some(dropped) if dropped >= 1.0 => {
            evidence.push(Evidence::figure(metric::CONTROLLER_DROPPED, dropped));
            Claim::ControllerOverrun
        }
        // A counter that stayed at zero excludes the controller, but no other buffer.
        _ => Claim::ShallowBuffer { before_controller: dropped.is_some() },
    };
    let finding = suspected(RULE.name, (point, job, direction), claim, evidence);
    let tune = Command::local("tune window", &[]).between(&job.from, &job.to);
    Some(finding.advise(Step::FindWindow.by(tune)))
}

fn score(point: &PointStudy) -> Option<f64> {
    score::best(point, |job, direction| {
        let read = |metric| value(job, metric, direction);
        let (ratio, queue) = (read(metric::RETRANSMIT_RATIO)?, standing(job, direction)?);
        let shallow = score::below(queue.0 as f64, SHALLOW.0 as f64);
        let lost = score::reached(ratio, LOSS, MUCH);
        let collapsed = if is_below_shallow_link(point, job, direction) { 1.0 } else { 0.0 };
        Some(score::all([
            lost.max(collapsed),
            shallow,
            window_open(job, direction),
            if is_explained(point, job, direction) { 0.0 } else { 1.0 },
        ]))
    })
}

/// Returns a smaller window and a lower rate: both end the loss of a shallow buffer, and
/// neither ends random loss. On a path that holds more than the largest of these windows, only
/// the rate is left.
fn experiments(point: &PointStudy) -> Vec<Experiment> {
    let of_streams = |(job, _): &(&JobStudy, Direction)| job.workload == TCP_STREAM;
    let Some((job, direction)) = flows(point).find(of_streams) else { return Vec::new() };
    let segment = segment_size(job);
    // Zero goodput gives no rate to pace at.
    let goodput = value(job, metric::GOODPUT, direction).filter(|goodput| *goodput > 0.0);
    let (Some(segment), Some(goodput)) = (segment, goodput) else { return Vec::new() };
    let link = MeasuredLink::of(point, job, direction);
    // `room` is infinite without a known ceiling.
    let declared = Some(room(job, direction) * goodput).filter(|rate| rate.is_finite());
    // What the probe carried is a lower bound of the drain. Below it pacing ends the loss of any
    // buffer, and not that of a policer whose bucket let the probe pass.
    let carried = point.data_path(job, direction).and_then(|facts| facts.carried);
    let carried = carried.map(|rate| rate.0).filter(|rate| *rate > goodput);
    let measured = link.map(|link| link.rate).or(carried);
    let measured = measured.map(|rate| rate * segment / (segment + HEADERS));
    let ceiling = declared.into_iter().chain(measured).reduce(f64::min);
    // Without a ceiling the rates follow what was reached.
    let rates = match ceiling {
        Some(ceiling) => OF_CEILING.map(|share| share * ceiling),
        None => OF_GOODPUT.map(|m| m * goodput),
    };
    // On a long path a window of a few segments carries less than the loss leaves. It would end
    // the loss of any buffer and show nothing.
    let in_flight =
        value(job, metric::RTT_MIN, direction).map_or(0.0, |rtt| goodput * rtt / BITS_PER_BYTE);
    let least = if ceiling.is_some() { in_flight } else { in_flight * SCATTER };
    let windows: Vec<_> = WINDOWS
        .into_iter()
        .map(|segments| segments * segment)
        .filter(|window| *window >= least)
        .chain(link.and_then(|link| link.survivable()))
        .map(|window| vec![set("window_clamp", bytes(window))])
        .collect();
    let rates: Vec<_> = rates.into_iter().filter_map(|one| Some(vec![paced(one)?])).collect();
    if rates.is_empty() {
        return Vec::new();
    }
    let ratio = [LEAST_EFFECT, MOST_GAINED];
    let survived = (!windows.is_empty()).then(|| {
        Experiment::lift_by_one("a window that a shallow buffer survives", windows, ratio)
    });
    let paced = Experiment::lift_by_one("paced below the drain", rates, ratio);
    // Paced segments leave in bursts of two, and late timers of a busy host bunch more of them.
    // A buffer of two frames loses some of these, so only a window refutes the claim.
    let paced = if survived.is_some() { paced.refuting_nothing() } else { paced };
    // A higher rate alone could come from anywhere. Only an end of the loss shows that the
    // buffer was the cause.
    let both = survived.into_iter().chain([paced]);
    let both = both.map(|experiment| experiment.ending(metric::RETRANSMIT_RATIO));
    let is_counted = controller_dropped(job).is_some_and(|dropped| dropped >= 1.0);
    let both = both.map(|experiment| Experiment { is_counted, ..experiment });
    // The probe has filled the buffer: a run of little more goodput says nothing against it.
    match link.is_some_and(|link| link.survivable().is_some()) {
        true => both.map(Experiment::refuting_nothing).collect(),
        false => both.collect(),
    }
}

fn sign(_base: &PointStudy, _changed: &Arm) -> Option<Sign> {
    Some(Sign::ends(metric::RETRANSMIT_RATIO))
}

/// Returns true if nothing but the path limits goodput, which is below 80 % of the rate of a link
/// whose buffer the probe found shallow.
pub(super) fn is_below_shallow_link(
    point: &PointStudy,
    job: &JobStudy,
    direction: Direction,
) -> bool {
    MeasuredLink::of(point, job, direction)
        .is_some_and(|link| link.is_shallow() && !link.is_full())
        && only_the_path(job, direction)
        // A rate that the plan asked for needs no other explanation.
        && param(job, "pacing_rate").is_none()
}

/// Returns whether the flow loses packets, or did before, although neither its window nor the path
/// is full.
fn loses(point: &PointStudy, job: &JobStudy, direction: Direction) -> bool {
    let loses_now =
        value(job, metric::RETRANSMIT_RATIO, direction).is_some_and(|ratio| ratio >= LOSS);
    (loses_now || is_below_shallow_link(point, job, direction))
        // A sender without window sends probes, which the kernel counts as retransmissions.
        && !waits_for_window(job, direction)
        && !is_explained(point, job, direction)
}

/// Returns the parameter that paces a sender at `bits` per second; `None` for a rate that cannot be
/// paced.
pub(super) fn paced(bits: f64) -> Option<(String, serde_json::Value)> {
    Some(set("pacing_rate", rate(bits)?))
}

/// Factor by which goodput of single runs under loss differs. Without a known ceiling, a window
/// within this factor of the data in flight may carry less than another run without it.
const SCATTER: f64 = 2.0;
/// Headers of IP and TCP with timestamps, in bytes.
const HEADERS: f64 = 52.0;
/// Windows to try, in segments. Nothing reports the depth of the buffer, so each is tried.
const WINDOWS: [f64; 4] = [2.0, 3.0, 5.0, 10.0];
/// Pacing rates to try: shares of the ceiling where one is known, else multiples of goodput.
const OF_CEILING: [f64; 3] = [0.5, 0.7, 0.85];
const OF_GOODPUT: [f64; 3] = [1.25, 2.0, 3.0];
/// Upper end of the prediction: the depth of a congestion collapse cannot be predicted.
const MOST_GAINED: f64 = 100.0;

#[cfg(test)]
mod tests {
    use linerate_model::path::{Fact, Limiter, Method};
    use linerate_model::{BitRate, Nanos, Verdict};

    use super::*;
    use crate::diagnosis::rules::cases::{on_path, point};

    #[test]
    fn it_fires_where_bytes_are_sent_again_and_nothing_stands_in_a_queue() {
        // The sideband of the lab under BBR: 40 Mbit/s, a third sent again, 0.9 ms above a least of
        // 0.3 ms.
        let bbr = point(&[
            ("goodput", 40e6),
            ("retransmit_ratio", 0.33),
            ("rtt", 0.0012),
            ("rtt_min", 0.0003),
        ]);
        let finding = RULE.judge(&bbr).expect("it loses");
        assert_eq!(finding.verdict, Verdict::Suspected);
        assert!(
            matches!(finding.evidence[1], Evidence::QueuedBytes { bytes: 4500, .. }),
            "{:?}",
            finding.evidence
        );
    }

    #[test]
    fn a_controller_that_was_read_tells_an_overrun_from_random_loss() {
        let claim = |dropped: f64| {
            let figures = [
                ("goodput", 40e6),
                ("retransmit_ratio", 0.33),
                ("rtt", 0.0012),
                ("rtt_min", 0.0003),
            ];
            let figures: Vec<_> =
                figures.into_iter().chain([("controller_dropped", dropped)]).collect();
            RULE.judge(&point(&figures)).expect("it loses")
        };
        let overrun = claim(812.0);
        assert_eq!(overrun.claim, Claim::ControllerOverrun);
        assert_eq!(overrun.evidence[2], Evidence::figure(metric::CONTROLLER_DROPPED, 812.0));
        assert_eq!(claim(0.0).claim, Claim::ShallowBuffer { before_controller: true });
    }

    /// 12 Mbit/s with losses on a link of 20 Mbit/s and 20 ms (50 kB), of which the probe filled
    /// the buffer of `bytes`.
    fn overrun(bytes: u64) -> PointStudy {
        let figures =
            [("goodput", 12e6), ("retransmit_ratio", 0.02), ("rtt", 0.022), ("rtt_min", 0.02)];
        let mut point = on_path(&figures, Some(Limiter::Link), 2e7);
        let facts = &mut point.path[0];
        facts.base_rtt = Some(Fact::exact(Nanos::from_millis(20), Method::Pings));
        facts.queue_bytes = Some(Fact::exact(Bytes(bytes), Method::Flood));
        facts.is_queue_full = true;
        point.jobs[0].obtained.insert("mss".into(), crate::Obtained::granted(1448));
        point
    }

    #[test]
    fn a_buffer_that_the_probe_filled_is_judged_by_its_size() {
        let finding = RULE.judge(&overrun(12_000)).expect("the buffer is shallow");
        assert!(finding.evidence.iter().any(|seen| matches!(seen, Evidence::Buffer { .. })));
        assert_eq!(RULE.judge(&overrun(60_000)), None, "one flow keeps the link busy");
        assert_eq!(RULE.score(&overrun(60_000)), Some(0.0));
    }

    #[test]
    fn a_window_that_collapsed_before_the_run_is_the_shallow_buffer_s_and_no_choice_of_a_control() {
        let names = |bytes: u64, more: &[(&str, f64)]| -> Vec<&str> {
            let mut point = overrun(bytes);
            let usual = [
                ("goodput", 5.3e6),
                ("retransmit_ratio", 0.0),
                ("rtt", 0.0205),
                ("rtt_min", 0.02),
                ("sender_busy", 1.0),
                ("pacing_rate", 6.1e6),
            ];
            let figures: Vec<_> = more.iter().copied().chain(usual).collect();
            point.jobs = on_path(&figures, Some(Limiter::Link), 2e7).jobs;
            let suspects = crate::diagnosis::suspects(&point);
            suspects.iter().map(|(rule, _)| rule.name).collect()
        };
        assert_eq!(names(6_000, &[]), ["fire_hose"]);
        assert_eq!(names(60_000, &[]), ["congestion_control"], "the buffer holds a window");
        assert!(!names(6_000, &[("rwnd_limited", 0.9)]).contains(&"fire_hose"));
    }

    #[test]
    fn a_window_collapses_only_below_the_rate_of_the_link_and_without_one_of_the_plan() {
        let judged = |goodput, pacing_rate: Option<&str>| {
            let figures = [
                ("goodput", goodput),
                ("retransmit_ratio", 0.0),
                ("rtt", 0.0205),
                ("rtt_min", 0.02),
                ("sender_busy", 1.0),
                ("pacing_rate", goodput * 1.2),
            ];
            let mut point = overrun(6_000);
            point.jobs = on_path(&figures, Some(Limiter::Link), 2e7).jobs;
            pacing_rate.into_iter().for_each(|rate| point.jobs[0].params.set("pacing_rate", rate));
            let below = is_below_shallow_link(&point, &point.jobs[0], Direction::Tx);
            (below, RULE.score(&point).is_some_and(|score| score > 0.5))
        };
        assert_eq!(judged(5.3e6, None), (true, true), "nothing is sent again");
        assert_eq!(judged(17e6, None), (false, false), "85 % of the rate");
        assert_eq!(judged(5.3e6, Some("6 Mbit/s")), (false, false), "the plan asks for the rate");
    }

    #[test]
    fn only_a_buffer_that_the_probe_did_not_fill_can_be_refuted() {
        use linerate_model::Failing;

        let failing = |point: &PointStudy| -> Vec<Failing> {
            RULE.experiments(point).iter().map(|experiment| experiment.failing).collect()
        };
        let mut point = overrun(12_000);
        assert_eq!(failing(&point), [Failing::SaysNothing; 2], "a window, and pacing");
        point.path[0].is_queue_full = false;
        assert_eq!(failing(&point), [Failing::Refutes], "pacing alone");
        // Pacing leaves bursts of two segments, so it refutes nothing beside a window.
        let less =
            [("goodput", 4e6), ("retransmit_ratio", 0.02), ("rtt", 0.022), ("rtt_min", 0.02)];
        point.jobs = on_path(&less, Some(Limiter::Link), 2e7).jobs;
        point.jobs[0].obtained.insert("mss".into(), crate::Obtained::granted(1448));
        assert_eq!(failing(&point), [Failing::Refutes, Failing::SaysNothing], "a window");
    }

    #[test]
    fn drops_that_a_controller_counts_are_known_before_the_experiment() {
        let counted = |dropped: f64| {
            let figures = [
                ("goodput", 14.2e6),
                ("retransmit_ratio", 0.12),
                ("rtt", 0.0019),
                ("rtt_min", 0.00055),
                ("controller_dropped", dropped),
            ];
            let mut point = point(&figures);
            point.jobs[0].obtained.insert("mss".into(), crate::Obtained::granted(1448));
            for figure in &mut point.jobs[0].metrics {
                if figure.metric == metric::CONTROLLER_DROPPED {
                    figure.direction = Direction::Sum;
                }
            }
            RULE.experiments(&point).iter().map(|one| one.is_counted).collect::<Vec<_>>()
        };
        assert_eq!((counted(49.0), counted(0.0)), (vec![true; 2], vec![false; 2]));
    }

    #[test]
    fn experiments_follow_the_measured_rate_and_buffer() {
        let [window, paced] = &RULE.experiments(&overrun(12_000))[..] else { panic!("two") };
        // 56,000 B fill the link and half of the buffer; 30,000 B are in flight now.
        assert_eq!(window.candidates, [vec![set("window_clamp", "56000 B")]]);
        let rates: Vec<_> = paced.candidates.iter().map(|change| change[0].1.clone()).collect();
        assert_eq!(rates, ["9.653333 Mbit/s", "13.514667 Mbit/s", "16.410667 Mbit/s"]);
    }

    #[test]
    fn a_path_that_carried_more_is_paced_below_that() {
        // Recorded behind a policer of nftables on a busy host: the bucket of 1 s let the probe
        // pass, and pacing at 1.25 times the goodput ended the loss as for a shallow buffer.
        let figures =
            [("goodput", 15.4e6), ("retransmit_ratio", 0.65), ("rtt", 0.026), ("rtt_min", 0.024)];
        let mut point = on_path(&figures, None, 126e6);
        point.jobs[0].obtained.insert("mss".into(), crate::Obtained::granted(1448));
        let rates = |point: &PointStudy| -> Vec<serde_json::Value> {
            let experiments = RULE.experiments(point);
            let paced = experiments.last().expect("pacing");
            paced.candidates.iter().map(|change| change[0].1.clone()).collect()
        };
        point.path[0].carried = Some(BitRate(126e6));
        point.path[0].capacity = None;
        assert_eq!(rates(&point), ["60.816 Mbit/s", "85.1424 Mbit/s", "103.3872 Mbit/s"]);
        point.path[0].carried = Some(BitRate(12e6));
        assert_eq!(rates(&point)[0], "500 Mbit/s", "half of the declared ceiling");
    }

    #[test]
    fn a_sender_that_waits_for_the_window_overruns_nothing() {
        // A peer that reads 8 Mbit/s: the window is shut four fifths of the time.
        let slow = |waited: f64| {
            point(&[
                ("goodput", 8e6),
                ("retransmit_ratio", 0.004),
                ("rtt", 0.0112),
                ("rtt_min", 0.0105),
                ("rwnd_limited", waited),
            ])
        };
        assert!(RULE.judge(&slow(0.1)).is_some());
        assert_eq!(RULE.judge(&slow(0.8)), None);
        assert_eq!(RULE.score(&slow(0.8)), Some(0.0));
    }

    #[test]
    fn it_is_silent_without_loss_and_where_a_deep_queue_overflows() {
        let clean =
            [("goodput", 94e6), ("retransmit_ratio", 0.0001), ("rtt", 0.0012), ("rtt_min", 0.0003)];
        assert_eq!(RULE.judge(&point(&clean)), None);
        let deep =
            [("goodput", 94e6), ("retransmit_ratio", 0.02), ("rtt", 0.04), ("rtt_min", 0.001)];
        assert_eq!(RULE.judge(&point(&deep)), None);
    }
}
