//! Score of a rule's evidence: 0 where nothing supports the claim, 0.5 at the rule's threshold, 1
//! where the evidence is complete (docs/methodology/diagnosis.md#rules). Of several conditions, the
//! lowest score counts.
//!
//! A score is no probability. Scores set the order of experiments, and experiments decide.

use linerate_model::{BoundClass, Direction, metric};

use super::{BUSY, FlowEnd, THROTTLED, flows, may_be_judged};
use crate::{JobStudy, PointStudy};

/// Score at the threshold of a rule.
const SPEAKS: f64 = 0.5;

/// Returns true if a score supports a claim.
pub(super) fn is_suspected(score: f64) -> bool {
    score >= SPEAKS
}

/// Scores a value that must exceed `threshold`: 0 at zero, 0.5 at `threshold`, 1 from `full` on.
pub(super) fn reached(value: f64, threshold: f64, full: f64) -> f64 {
    // Two straight lines meet at the threshold, so a score orders rules below their threshold too.
    if value <= threshold {
        (SPEAKS * value / threshold).clamp(0.0, SPEAKS)
    } else {
        (SPEAKS + (1.0 - SPEAKS) * (value - threshold) / (full - threshold)).clamp(SPEAKS, 1.0)
    }
}

/// Scores a value that must stay below `threshold`: 1 at zero, 0 from twice the threshold on.
pub(super) fn below(value: f64, threshold: f64) -> f64 {
    (1.0 - SPEAKS * value / threshold).clamp(0.0, 1.0)
}

/// Scores a ratio that should be 1: 0.5 where it is off by `factor` in either direction.
pub(super) fn within(ratio: f64, factor: f64) -> f64 {
    // A rate at half of the model is as wrong as one at twice the model.
    if ratio > 0.0 { below(ratio.ln().abs(), factor.ln()) } else { 0.0 }
}

/// Returns the lowest score of several conditions.
pub(super) fn all(conditions: impl IntoIterator<Item = f64>) -> f64 {
    conditions.into_iter().fold(1.0, f64::min)
}

/// Returns the highest score that `of` gives to any flow of `point`; `None` for a point that is not
/// valid.
pub(super) fn best(
    point: &PointStudy,
    of: impl Fn(&JobStudy, Direction) -> Option<f64>,
) -> Option<f64> {
    let scores = flows(point).filter_map(|(job, direction)| of(job, direction));
    // An invalid point gets no score rather than zero: nothing was examined there.
    scores.reduce(f64::max).filter(|_| may_be_judged(point))
}

/// Scores how nearly `end` uses all of its CPU.
pub(super) fn out_of_cpu(job: &JobStudy, end: FlowEnd, direction: Direction) -> Option<f64> {
    let used = end.cores(job, direction).map(|cores| reached(cores, BUSY, 1.0));
    let throttled = end.throttled(job, direction).map(|share| reached(share, THROTTLED, 1.0));
    [used, throttled].into_iter().flatten().reduce(f64::max)
}

/// Scores how nearly goodput reaches `threshold` of the lowest ceiling, if its class is `wanted`.
pub(super) fn share(
    point: &PointStudy,
    threshold: f64,
    wanted: impl Fn(BoundClass) -> bool,
) -> Option<f64> {
    best(point, |job, direction| {
        let metric = job.metric(metric::GOODPUT, direction)?;
        point.ceilings.get(metric.ceiling?).filter(|ceiling| wanted(ceiling.class()))?;
        Some(reached(metric.share?, threshold, 1.0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::rules::cases::point;
    use crate::diagnosis::scores;

    #[test]
    fn a_condition_scores_half_at_its_threshold() {
        assert_eq!(
            [0.0, 0.15, 0.3, 0.65, 1.0, 2.0].map(|v| reached(v, 0.3, 1.0)),
            [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]
        );
        assert_eq!([0.0, 1.0, 3.0].map(|v| below(v, 1.0)), [1.0, 0.5, 0.0]);
        assert_eq!((within(1.0, 2.0), within(2.0, 2.0), within(0.5, 2.0)), (1.0, 0.5, 0.5));
        assert_eq!((all([0.7, 0.2, 0.9]), all([])), (0.2, 1.0));
    }

    #[test]
    fn a_rule_that_speaks_scores_half_or_more_and_one_that_is_silent_less() {
        let of = |figures: &[(&str, f64)], rule: &str| {
            let scores = scores(&point(figures));
            scores.iter().find(|(name, _)| *name == rule).expect("every rule has one").1
        };
        let waits = |share: f64| [("goodput", 5e8), ("sndbuf_limited", share)];
        assert!(of(&waits(0.31), "send_buffer") >= 0.5 && of(&waits(0.9), "send_buffer") > 0.9);
        assert_eq!(of(&waits(0.15), "send_buffer"), 0.25);
        assert_eq!(of(&waits(0.0), "send_buffer"), 0.0);
        assert!(
            of(&[("goodput", 0.97e9)], "link_ceiling") >= 0.5
                && of(&[("goodput", 0.9e9)], "link_ceiling") < 0.5
        );
        assert_eq!(of(&[("goodput", 1e9)], "unknown"), 0.0);
        assert!(of(&[("goodput", 1e7)], "unknown") > 0.9, "nothing is near");
        // The best first.
        assert_eq!(scores(&point(&waits(0.8)))[0].0, "send_buffer");
    }
}
