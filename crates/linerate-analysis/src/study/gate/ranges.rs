//! Limits that follow from the meaning of a metric: shares up to one, whole counts, no negative
//! values but for differences, frames no smaller than their payload.

use linerate_model::{Direction, Metric, metric};

use super::path::CLOCK_RATE_ERROR;
use super::{Admitted, Judgement, Refusal, Withheld};
use crate::study::MetricStudy;
use crate::study::span::Span;

/// The coarsest clock that a share of time is read from, seconds: `/proc/stat` counts in USER_HZ,
/// 100 in every Linux ABI, and TCP its own states in jiffies, which are no longer.
const TICK: f64 = 0.01;
/// Ticks by which a difference of two readings may be off.
const TICKS: f64 = 2.0;
/// The rate of frames, and that of what they carry.
const FRAMES: &Metric = metric::THROUGHPUT_L2;
const PAYLOAD: &Metric = metric::GOODPUT;
/// Rounding error above one that addition and division may leave.
const ROUNDING: f64 = 1e-9;

/// Returns the judgement of `value` by the range of `metric`, read over `span`.
pub(super) fn judge(metric: &Metric, value: f64, span: Span) -> Judgement {
    let range = metric.range();
    let tolerance =
        // Shares of time divide two clocks with ticks; other ratios are off by rounding alone.
        if range.of_time { TICKS * TICK / span.seconds() + CLOCK_RATE_ERROR } else { ROUNDING };
    if let Some(least) = range.least.filter(|least| value < least - tolerance) {
        return Judgement::Withheld(Refusal::BelowRange { value, least });
    }
    if let Some(most) = range.most.filter(|most| value > most + tolerance) {
        return Judgement::Withheld(Refusal::AboveRange { value, most, tolerance });
    }
    // The excess within the tolerance is cut, so that no report shows a share of 100.3 %.
    let value = value.max(range.least.unwrap_or(value)).min(range.most.unwrap_or(value));
    // Minus zero plus zero is zero.
    Judgement::Admitted(if range.whole { value.round() } else { value } + 0.0)
}

/// A virtual device that takes segments whole counts one set of headers for many: a rate of frames
/// below the payload in them is none.
pub(super) fn withhold_frames_below_payload(admitted: &mut Admitted) {
    for direction in [Direction::Tx, Direction::Rx, Direction::Sum] {
        let of = |metric| admitted.figures.get(metric, direction);
        let (Some(frames), Some(payload)) = (of(FRAMES), of(PAYLOAD)) else { continue };
        if frames < payload {
            admitted.figures.remove(|metric, way, _| metric == FRAMES && way == direction);
            let why = Refusal::BelowPayload { frames, payload };
            admitted.withhold(FRAMES.name, direction, why);
        }
    }
}

/// Withholds estimates below the payload: medians of runs of which not all have both figures.
pub(in crate::study) fn withhold_estimates_below_payload(
    metrics: &mut [MetricStudy],
) -> Vec<Withheld> {
    fn value(metrics: &[MetricStudy], wanted: &Metric, direction: Direction) -> Option<f64> {
        let found =
            metrics.iter().find(|figure| figure.metric == wanted && figure.direction == direction);
        found.and_then(|figure| figure.estimate).map(|estimate| estimate.value)
    }
    let mut withheld = Vec::new();
    for direction in [Direction::Tx, Direction::Rx, Direction::Sum] {
        let (frames, payload) =
            (value(metrics, FRAMES, direction), value(metrics, PAYLOAD, direction));
        let Some((frames, payload)) =
            // Medians are taken over different runs if some lack a figure, so each run can be right
            // and the medians still contradict.
            frames.zip(payload).filter(|(frames, payload)| frames < payload)
        else {
            continue;
        };
        let why = Refusal::MedianBelowPayload { frames, payload };
        for figure in metrics
            .iter_mut()
            .filter(|figure| figure.metric == FRAMES && figure.direction == direction)
        {
            // The figure stays in the list without a value, so that the report can say why it is
            // missing.
            (figure.estimate, figure.share, figure.mean) = (None, None, None);
        }
        withheld.push(Withheld { name: FRAMES.name.to_owned(), direction, why });
    }
    withheld
}

#[cfg(test)]
mod tests {
    use linerate_model::{Nanos, metric};

    use super::*;

    fn admitted(name: &str, value: f64) -> Option<f64> {
        let span = Span { from: Nanos(0), to: Nanos::from_secs(5) };
        match judge(Metric::named(name).expect("a metric"), value, span) {
            Judgement::Admitted(value) => Some(value),
            _ => None,
        }
    }

    #[test]
    fn a_share_of_time_is_cut_within_its_clocks_ticks_and_withheld_beyond() {
        // Two ticks of 10 ms in 5 s are 0.4 %.
        assert_eq!(admitted("sender_busy", 1.0008), Some(1.0));
        assert_eq!(admitted("idle_core", 1.004), Some(1.0));
        assert_eq!(admitted("idle_core", 1.05), None);
        assert_eq!(admitted("loss_ratio", 1.0008), None, "what is counted has no ticks");
        assert_eq!(admitted("cycles_per_instruction", 1.5), Some(1.5), "no share");
    }

    #[test]
    fn nothing_is_a_negative_zero_and_what_is_counted_is_whole() {
        let zero = admitted("pacing_rate", -0.0).expect("a figure");
        assert!(zero == 0.0 && zero.is_sign_positive());
        assert_eq!(admitted("lost", 60.37), Some(60.0));
        assert_eq!(admitted("delay_variation_min", -4e-6), Some(-4e-6));
        assert_eq!(admitted("goodput", -5.0), None);
    }

    #[test]
    fn a_median_of_frames_below_that_of_their_payload_is_withheld() {
        let study = |name: &str, value: f64| {
            let known = linerate_model::Metric::named(name).expect(name);
            MetricStudy::single(known, Direction::Tx, value)
        };
        let mut metrics = [study("goodput", 57.9e9), study("throughput_l2", 56.4e9)];
        let withheld = withhold_estimates_below_payload(&mut metrics);
        assert_eq!(withheld.len(), 1);
        assert_eq!((metrics[0].estimate.is_some(), metrics[1].estimate), (true, None));
        let mut possible = [study("goodput", 57.9e9), study("throughput_l2", 58.1e9)];
        assert_eq!(withhold_estimates_below_payload(&mut possible), []);
        assert!(possible[1].estimate.is_some());
    }

    #[test]
    fn a_rate_of_frames_below_its_payload_is_withheld() {
        let mut both = Admitted::default();
        both.figures.put(metric::GOODPUT, Direction::Tx, 100e6);
        both.figures.put(metric::THROUGHPUT_L2, Direction::Tx, 99e6);
        both.figures.put(metric::GOODPUT, Direction::Rx, 100e6);
        both.figures.put(metric::THROUGHPUT_L2, Direction::Rx, 106e6);
        withhold_frames_below_payload(&mut both);
        let frames = |direction| both.get(metric::THROUGHPUT_L2, direction);
        assert_eq!((frames(Direction::Tx), frames(Direction::Rx)), (None, Some(106e6)));
        let why = Refusal::BelowPayload { frames: 99e6, payload: 100e6 };
        assert_eq!(both.withheld()[0].why, why);
    }
}
