//! Sign of a change: the metric that shows the mechanism of a claim in the compared runs
//! (docs/methodology/diagnosis.md#verdict).
//!
//! On a busy host goodput of equal runs differs by a factor of two, while the CPU time that a quota
//! grants differs by a few per cent, and the loss of a shallow buffer ends or goes on. A sign is
//! *shown* where every run with the change lies beyond every run without it, those of the placebo
//! included: of 6 runs and 12, one order of 18 564. Goodput must then only follow. A sign that is
//! missing contradicts the mechanism, however goodput moved.

use linerate_model::{Direction, Metric};
use serde::{Deserialize, Serialize};

use super::experiment::Experiment;
use crate::PointStudy;
use crate::statistics::median;

/// Fewest runs on either side: as many as an interval at 95 % takes.
const LEAST_RUNS: usize = 6;
/// Growth of the typical run below which a metric has not grown.
const LEAST_GROWTH: f64 = 1.1;

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

/// Whether runs show a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Seen {
    /// Every run with the change lies beyond every run without it, by the predicted amount.
    Shown,
    /// The typical runs differ as expected, but single runs overlap.
    Overlapping,
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
        let of = |(point, job): &(&PointStudy, usize)| {
            let figure = point.jobs.get(*job)?.metric(self.metric, direction)?;
            Some(figure.values.iter().copied().flatten().collect::<Vec<f64>>())
        };
        // A point without the metric leaves the comparison without its noise.
        let before = without.iter().map(of).collect::<Option<Vec<_>>>()?.concat();
        let after = of(&with)?;
        if before.len().min(after.len()) < LEAST_RUNS {
            return None;
        }
        let (typical_before, typical_after) = (median(&before)?, median(&after)?);
        let (before_range, after_range) = (range(&before), range(&after));
        let seen = match self.expected {
            Expected::Ends if Experiment::goes_on(typical_before, typical_after) => Seen::Missing,
            Expected::Ends if after_range[1] < before_range[0] => Seen::Shown,
            Expected::Grows if typical_after < LEAST_GROWTH * typical_before => Seen::Missing,
            Expected::Grows
                if after_range[0] > before_range[1]
                    && (lowest..=highest).contains(&(typical_after / typical_before)) =>
            {
                Seen::Shown
            }
            Expected::Ends | Expected::Grows => Seen::Overlapping,
        };
        let (without, with) = ((before_range, before.len()), (after_range, after.len()));
        Some(Reading { metric: self.metric, without, with, seen })
    }
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
    fn cpu_time_that_follows_its_quota_is_a_sign_and_one_run_that_does_not_is_none() {
        let cpu = Sign::grows(metric::SENDER_CPU);
        let of = |with: &[f64]| seen(cpu, [UNCHANGED, PLACEBO], with);
        assert_eq!(of(&DOUBLED), Some(Seen::Shown));
        assert_eq!(of(&DOUBLED[..5]), None, "five runs");
        let mut one = DOUBLED;
        one[2] = 0.094;
        assert_eq!(of(&one), Some(Seen::Overlapping), "as much as a run of the placebo");
        assert_eq!(of(&UNCHANGED), Some(Seen::Missing));
        assert_eq!(of(&DOUBLED.map(|cores| cores * 2.0)), Some(Seen::Overlapping), "4 times");
        let lower = UNCHANGED.map(|cores| cores * 1.3);
        assert_eq!(of(&lower), Some(Seen::Overlapping), "less than predicted");
    }

    #[test]
    fn loss_that_ends_is_a_sign_and_loss_that_goes_on_is_none() {
        let loss = Sign::ends(metric::RETRANSMIT_RATIO);
        let without =
            [[0.0618, 0.187, 0.102, 0.182, 0.192, 0.0823], [0.0916, 0.184, 0.129, 0.2, 0.148, 0.1]];
        let of = |with: &[f64]| seen(loss, without, with);
        assert_eq!(of(&[0.0; 6]), Some(Seen::Shown));
        assert_eq!(of(&[0.0, 0.0, 0.07, 0.0, 0.0, 0.0]), Some(Seen::Overlapping), "one run lost");
        assert_eq!(of(&[0.05; 6]), Some(Seen::Missing), "a third and more is left");
    }
}
