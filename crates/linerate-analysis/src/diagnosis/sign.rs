//! Sign of a change: the metric that shows the mechanism of a claim in the compared runs
//! (docs/methodology/diagnosis.md#verdict).
//!
//! On a busy host goodput of equal runs differs by a factor of two, while the CPU time that a quota
//! grants differs by a few per cent, and the loss of a shallow buffer ends or goes on. A sign is
//! *shown* where the typical run changes as predicted and the runs with the change lie beyond those
//! without it, the placebo's included, with a probability of at most [`CHANCE`] (rank sum,
//! one-sided).
//! Goodput must then only follow. Runs are not compared pair by pair: the measured noise of
//! neighbouring runs is independent, so pairs would only halve the runs without the change. A sign
//! that is missing contradicts the mechanism, however goodput moved.

use linerate_model::{Direction, Metric};
use serde::{Deserialize, Serialize};

use super::experiment::Experiment;
use crate::PointStudy;
use crate::statistics::{ALPHA, median, unpaired_shift_within};

/// Fewest runs on either side: as many as an interval at 95 % takes.
const LEAST_RUNS: usize = 6;
/// Growth of the typical run below which a metric has not grown, and goodput has not followed.
const LEAST_GROWTH: f64 = 1.1;
/// Share of retransmitted bytes from which loss has not ended, however much there was before: the
/// evidence of a loss is complete there.
const LOSSY: f64 = 1e-2;
/// Probability of a sign without cause: two looks at a claim together stay below 1 %.
const CHANCE: f64 = 0.005;

/// Metric that a change moves if the mechanism of the claim is there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sign {
    metric: &'static Metric,
    expected: Expected,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Expected {
    Grows,
    Ends,
}

/// Verdict on a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Seen {
    /// Runs with the change lie beyond those without it, by the predicted amount.
    Shown,
    /// The typical runs differ as expected, but single runs overlap, or the amount is another one.
    Unclear,
    /// The metric did not change as expected.
    Missing,
}

/// Values of a sign's metric.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reading {
    pub(super) metric: &'static Metric,
    /// Least and largest value of the runs without the change, and their number.
    pub(super) without: ([f64; 2], usize),
    /// The same of the runs with the change.
    pub(super) with: ([f64; 2], usize),
    pub(super) seen: Seen,
}

impl Sign {
    /// Returns a metric that grows by the predicted ratio of goodput.
    pub(super) const fn grows(metric: &'static Metric) -> Self {
        Self { metric, expected: Expected::Grows }
    }

    /// Returns a metric that ends.
    pub(super) const fn ends(metric: &'static Metric) -> Self {
        Self { metric, expected: Expected::Ends }
    }

    /// Reads the sign from the points without the change (unchanged and placebo) and with it, each
    /// with the number of its job. `None` with too few runs, or without the metric.
    pub(super) fn read(
        &self,
        without: &[(&PointStudy, usize)],
        with: (&PointStudy, usize),
        direction: Direction,
        [lowest, highest]: [f64; 2],
    ) -> Option<Reading> {
        let (before, after) = values(self.metric, without, with, direction)?;
        let (typical_before, typical_after) = (median(&before)?, median(&after)?);
        let (before_range, after_range) = (range(&before), range(&after));
        let ratio = typical_after / typical_before;
        let seen = match self.expected {
            Expected::Ends
                if Experiment::goes_on(typical_before, typical_after) || typical_after >= LOSSY =>
            {
                Seen::Missing
            }
            Expected::Ends if by_chance(&after, &before)? <= CHANCE => Seen::Shown,
            Expected::Grows if ratio < LEAST_GROWTH => Seen::Missing,
            Expected::Grows
                if (lowest..=highest).contains(&ratio) && by_chance(&before, &after)? <= CHANCE =>
            {
                Seen::Shown
            }
            Expected::Ends | Expected::Grows => Seen::Unclear,
        };
        let (without, with) = ((before_range, before.len()), (after_range, after.len()));
        Some(Reading { metric: self.metric, without, with, seen })
    }
}

/// Returns true if the rate `metric` rises with the change by the least effect or more, and a rise
/// by chance has a probability of at most `error` (one-sided).
pub(super) fn follows(
    metric: &'static Metric,
    without: &[(&PointStudy, usize)],
    with: (&PointStudy, usize),
    direction: Direction,
    error: f64,
) -> bool {
    let Some((before, after)) = values(metric, without, with, direction) else { return false };
    let logarithms =
        [before, after].map(|values| values.iter().map(|v| v.ln()).collect::<Vec<_>>());
    let [before, after] = &logarithms;
    let shift = unpaired_shift_within(before, after, ALPHA).map(|shift| shift.value);
    shift.is_some_and(|shift| shift >= LEAST_GROWTH.ln())
        && by_chance(before, after).is_some_and(|chance| chance <= error)
}

/// Returns the values of `metric` in the runs without the change and with it; `None` with too few
/// runs, or where a point does not have it.
fn values(
    metric: &'static Metric,
    without: &[(&PointStudy, usize)],
    with: (&PointStudy, usize),
    direction: Direction,
) -> Option<(Vec<f64>, Vec<f64>)> {
    // A placebo without the metric leaves the comparison without its noise.
    let before = without.iter().map(|point| values_of(metric, *point, direction));
    let before = before.collect::<Option<Vec<_>>>()?.concat();
    let after = values_of(metric, with, direction)?;
    (before.len().min(after.len()) >= LEAST_RUNS).then_some((before, after))
}

/// Returns the values of `metric` of a job of `point`.
fn values_of(
    metric: &'static Metric,
    (point, job): (&PointStudy, usize),
    direction: Direction,
) -> Option<Vec<f64>> {
    let figure = point.jobs.get(job)?.metric(metric, direction)?;
    Some(figure.values.iter().copied().flatten().collect())
}

/// Returns the probability that values like `higher` exceed those like `lower` as far by chance.
fn by_chance(lower: &[f64], higher: &[f64]) -> Option<f64> {
    let shift = unpaired_shift_within(lower, higher, ALPHA)?;
    let half = shift.p.unwrap_or(1.0) / 2.0;
    Some(if shift.superiority >= 0.5 { half } else { 1.0 - half })
}

/// Returns the least and the largest of `values`.
fn range(values: &[f64]) -> [f64; 2] {
    let fold = |of: fn(f64, f64) -> f64, start| values.iter().copied().fold(start, of);
    [fold(f64::min, f64::INFINITY), fold(f64::max, f64::NEG_INFINITY)]
}

#[cfg(test)]
mod tests {
    use linerate_model::metric;

    use super::*;
    use crate::{JobStudy, MetricStudy};

    fn point(metric: &'static Metric, values: &[f64]) -> PointStudy {
        let metric = MetricStudy {
            values: values.iter().copied().map(Some).collect(),
            ..MetricStudy::new(metric, Direction::Tx)
        };
        let job = JobStudy { metrics: vec![metric], ..JobStudy::default() };
        PointStudy { jobs: vec![job], ..PointStudy::default() }
    }

    fn seen(sign: Sign, without: [[f64; 6]; 2], with: &[f64]) -> Option<Seen> {
        let without = without.map(|values| point(sign.metric, &values));
        let with = point(sign.metric, with);
        let without = [(&without[0], 0), (&without[1], 0)];
        sign.read(&without, (&with, 0), Direction::Tx, [1.43, 2.63]).map(|reading| reading.seen)
    }

    // Values of a sender with a quota of 10 % on a host whose CPUs others used.
    const UNCHANGED: [f64; 6] = [0.0888, 0.0897, 0.0894, 0.0916, 0.0895, 0.0941];
    const PLACEBO: [f64; 6] = [0.0899, 0.092, 0.0944, 0.0915, 0.0931, 0.0915];
    const DOUBLED: [f64; 6] = [0.189, 0.191, 0.189, 0.192, 0.174, 0.182];

    #[test]
    fn cpu_time_that_follows_its_quota_is_a_sign() {
        let cpu = Sign::grows(metric::SENDER_CPU);
        let of = |with: &[f64]| seen(cpu, [UNCHANGED, PLACEBO], with);
        assert_eq!(of(&DOUBLED), Some(Seen::Shown));
        assert_eq!(of(&DOUBLED[..5]), None, "five runs");
        let with_low = |low: &[f64]| {
            let mut values = DOUBLED;
            values[..low.len()].copy_from_slice(low);
            of(&values)
        };
        // 9 of the 72 pairs of runs in the other order have a probability of 0.49 %, 10 of 0.67 %.
        assert_eq!(with_low(&[0.0901]), Some(Seen::Shown), "one run is below 7 others");
        assert_eq!(with_low(&[0.0887]), Some(Seen::Unclear), "one run is below all others");
        assert_eq!(of(&UNCHANGED), Some(Seen::Missing));
        assert_eq!(of(&DOUBLED.map(|cores| cores * 2.0)), Some(Seen::Unclear), "4 times");
        let more = UNCHANGED.map(|cores| cores * 1.3);
        assert_eq!(of(&more), Some(Seen::Unclear), "less than predicted");
    }

    #[test]
    fn loss_that_ends_is_a_sign_and_loss_that_goes_on_is_none() {
        let loss = Sign::ends(metric::RETRANSMIT_RATIO);
        let without =
            [[0.0618, 0.187, 0.102, 0.182, 0.192, 0.0823], [0.0916, 0.184, 0.129, 0.2, 0.148, 0.1]];
        let of = |with: &[f64]| seen(loss, without, with);
        assert_eq!(of(&[0.0; 6]), Some(Seen::Shown));
        assert_eq!(of(&[0.0, 0.0, 0.3, 0.0, 0.0, 0.0]), Some(Seen::Unclear), "one run lost more");
        assert_eq!(of(&[0.05; 6]), Some(Seen::Missing), "a third and more is left");
        // In ranges recorded behind a policer: 15 to 66 % before, and 5 to 8 % paced.
        let policed = [[0.46, 0.15, 0.52, 0.66, 0.4, 0.48], [0.5, 0.3, 0.44, 0.61, 0.47, 0.2]];
        let paced = [0.0498, 0.062, 0.071, 0.0818, 0.055, 0.066];
        assert_eq!(seen(loss, policed, &paced), Some(Seen::Missing), "loss goes on");
    }

    #[test]
    fn goodput_follows_where_it_rises_more_than_by_chance() {
        let rates = |of: [f64; 6]| point(metric::GOODPUT, &of);
        let (unchanged, placebo) = (
            rates([20.1, 16.1, 19.7, 12.6, 14.3, 13.5]),
            rates([10.6, 12.4, 19.4, 13.6, 14.0, 24.8]),
        );
        let rises = |with: [f64; 6], error: f64| {
            let without = [(&unchanged, 0), (&placebo, 0)];
            follows(metric::GOODPUT, &without, (&rates(with), 0), Direction::Tx, error)
        };
        // 9 of 72 pairs of runs are in the other order: 0.49 %.
        let window = [23.3, 22.6, 20.4, 26.9, 15.3, 21.4];
        assert!(rises(window, 0.03) && !rises(window, 0.004));
        assert!(!rises([14.0, 16.2, 13.4, 19.9, 12.2, 15.0], 0.9), "as much as before");
        assert!(!rises(window.map(|rate| rate / 2.0), 0.9), "less");
    }
}
