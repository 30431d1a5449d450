//! Points that are repeated until their figures are precise enough
//! (docs/methodology/repeats.md#number-of-runs): the state at each look, and why the point ended
//! there.
//!
//! Everything is computed again from the recorded runs and the planned looks, so a ledger shows how
//! often the results were examined.

use std::collections::BTreeMap;

use linerate_model::{Direction, Metric, TrialOutcome, TrialRecord, Until};
use serde::{Deserialize, Serialize};

use super::{JobStudy, MetricStudy, PointStudy};
use crate::statistics::{coefficient_of_variation, half_width_at, part_of_error};

/// Runs from which their spread is known well enough to stop without a result
/// (docs/methodology/repeats.md#stop-conditions).
const ENOUGH_TO_GIVE_UP: usize = 10;

/// A point's looks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Looks {
    /// The planned looks.
    pub until: Until,
    /// The metric that the looks examine; `None` if no run has one.
    pub metric: Option<&'static Metric>,
    /// The looks so far.
    pub taken: Vec<Look>,
    /// Runs that ended.
    pub runs: u32,
    /// Why the point ended.
    pub ended: LooksEnded,
}

/// One look.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// Number of runs at the look.
    pub runs: u32,
    /// Half width of the interval as a fraction of the median, for the least precise direction;
    /// `None` if there are too few figures for one.
    pub half_width: Option<f64>,
    /// Standard deviation over mean of the runs, for the direction with the largest scatter; `None`
    /// if there are too few figures for one.
    pub variation: Option<f64>,
    /// True if the interval is narrow enough.
    pub is_enough: bool,
    /// True if it is not, and the runs differ too much for more of them to be of use.
    pub is_unstable: bool,
}

impl Look {
    /// Returns whether another look follows if the plan has one.
    #[must_use]
    pub const fn goes_on(&self) -> bool {
        !self.is_enough && !self.is_unstable
    }
}

/// Why a point is not repeated any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LooksEnded {
    /// The interval is narrow enough.
    Narrow,
    /// It is not, after as many runs as the plan allows.
    Most,
    /// Runs differ by more than [`Looks::UNSTABLE`]: something else disturbs them.
    Noisy,
    /// Neither: the campaign was interrupted, or runs proved invalid later.
    Short,
}

/// Figures of one run that a look examines, by direction.
pub type LookedAt = BTreeMap<Direction, f64>;

impl Looks {
    /// Standard deviation over mean of runs above which more of them are no use: find the
    /// disturbance first (docs/methodology/repeats.md#stop-conditions).
    pub const UNSTABLE: f64 = 0.3;

    /// Returns the share of the total error that a claim on these runs may spend, so that it holds
    /// at whichever look they ended.
    #[must_use]
    pub(crate) fn part_of_error(&self) -> f64 {
        // Runs may have ended between two looks; they belong to the next one.
        part_of_error(&self.until.looks, number(&self.until, self.runs as usize))
    }
}

/// Returns the number of the look that `runs` belong to: the first one at or after that many runs.
pub(super) fn number(until: &Until, runs: usize) -> usize {
    until
        .looks
        .iter()
        .position(|look| *look as usize >= runs)
        .unwrap_or(until.looks.len().saturating_sub(1))
}

/// Returns the look of this number at the figures of the runs up to it.
#[must_use]
pub fn look(until: &Until, number: usize, figures: &[LookedAt]) -> Look {
    let directions: std::collections::BTreeSet<Direction> =
        figures.iter().flat_map(|run| run.keys().copied()).collect();
    let of = |direction: &Direction| -> Vec<f64> {
        figures.iter().filter_map(|run| run.get(direction).copied()).collect()
    };
    let series: Vec<Vec<f64>> = directions.iter().map(of).collect();
    let widths: Option<Vec<f64>> =
        // One direction without an interval means that the point is not precise enough yet.
        series.iter().map(|values| half_width_at(values, &until.looks, number)).collect();
    let half_width = widths.and_then(|widths| widths.into_iter().reduce(f64::max));
    // A few runs estimate their own scatter so poorly that giving up on it would be a guess.
    let known = series.iter().filter(|values| values.len() >= ENOUGH_TO_GIVE_UP);
    let variation = known.filter_map(|values| coefficient_of_variation(values)).reduce(f64::max);
    let is_enough = half_width.is_some_and(|width| width <= until.within.0);
    Look {
        runs: until.looks.get(number).copied().unwrap_or_default(),
        half_width,
        variation,
        is_enough,
        // A narrow interval is enough however much single runs scatter.
        is_unstable: !is_enough && variation.is_some_and(|variation| variation > Looks::UNSTABLE),
    }
}

/// Returns the looks at `study`, the point of `trials`, if looks were planned.
pub(super) fn looks(study: &PointStudy, trials: &[&TrialRecord]) -> Option<Looks> {
    let until = trials.first()?.spec.until.as_deref()?;
    let ended = |trial: &&&TrialRecord| {
        // Interrupted trials are repeated and do not count towards a look.
        matches!(trial.outcome, Some(TrialOutcome::Completed | TrialOutcome::Failed))
    };
    let runs = trials.iter().filter(ended).count();
    let (metric, metrics) = chief(study, until).unzip();
    let metrics = metrics.unwrap_or_default();
    let figures: Vec<LookedAt> = (0..trials.len())
        .map(|place| {
            metrics.iter().filter_map(|of| Some((of.direction, of.values[place]?))).collect()
        })
        .collect();
    let reached = until.looks.iter().enumerate().filter(|(_, n)| **n as usize <= runs);
    let taken: Vec<Look> = reached
        .map(|(number, n)| look(until, number, &figures[..(*n as usize).min(figures.len())]))
        .collect();
    // A look that later runs followed did not end the point.
    let last = taken.last().filter(|look| look.runs as usize == runs);
    let ended = if last.is_some_and(|look| look.is_enough) {
        LooksEnded::Narrow
    } else if last.is_some_and(|look| look.is_unstable) {
        LooksEnded::Noisy
    } else if runs >= until.most() as usize {
        LooksEnded::Most
    } else {
        LooksEnded::Short
    };
    Some(Looks {
        until: until.clone(),
        metric,
        taken,
        runs: u32::try_from(runs).unwrap_or(u32::MAX),
        ended,
    })
}

/// Returns the metric that the looks examine, in every direction, of all measured jobs together.
pub(super) fn chief<'a>(
    study: &'a PointStudy,
    until: &Until,
) -> Option<(&'static Metric, Vec<&'a MetricStudy>)> {
    let job: &JobStudy = study
        .jobs
        .last()
        .filter(|job| job.workload == super::ALL)
        // A single job has no sum.
        .or_else(|| study.jobs.iter().find(|job| !job.background))?;
    let of_metric = |metric: &Metric| -> Vec<&'a MetricStudy> {
        job.metrics.iter().filter(|known| known.metric == metric).collect()
    };
    // A plan of another version may ask for a metric that is not in the table: it has no figure.
    let wanted = match until.of.as_deref() {
        None => Metric::chiefs(),
        Some(name) => Metric::named(name).into_iter().collect(),
    };
    wanted
        .into_iter()
        .map(|metric| (metric, of_metric(metric)))
        .find(|(_, figures)| !figures.is_empty())
}

#[cfg(test)]
mod tests {
    use linerate_model::Ratio;

    use super::*;

    fn until(looks: &[u32]) -> Until {
        Until { within: Ratio(0.02), of: None, looks: looks.to_vec() }
    }

    /// Runs that alternate by `deviation` of 100 in one direction, and are steady in the other.
    fn runs(n: usize, deviation: f64) -> Vec<LookedAt> {
        let value =
            |run: usize| 100.0 * (1.0 + if run.is_multiple_of(2) { deviation } else { -deviation });
        (0..n).map(|run| [(Direction::Tx, value(run)), (Direction::Rx, 50.0)].into()).collect()
    }

    #[test]
    fn runs_that_scatter_by_more_than_thirty_percent_are_given_up_after_ten() {
        let until = until(&[6, 10, 15]);
        let early = look(&until, 0, &runs(6, 0.5));
        assert!(early.goes_on() && early.variation.is_none(), "six runs are too few: {early:?}");
        let given_up = look(&until, 1, &runs(10, 0.5));
        // By hand: 0.5 times the square root of 10 / 9.
        assert!(
            given_up.variation.is_some_and(|found| (found - 0.527_046).abs() < 1e-6),
            "{given_up:?}"
        );
        assert!(given_up.is_unstable && !given_up.is_enough && !given_up.goes_on());
        let noisy = look(&until, 1, &runs(10, 0.28));
        assert!(noisy.goes_on(), "29.5 % is noise that more runs narrow: {noisy:?}");
        let failed = look(&until, 1, &runs(9, 0.5));
        assert!(failed.goes_on(), "one of ten carries no figure: {failed:?}");
    }

    #[test]
    fn a_median_that_is_known_well_enough_is_enough_whatever_a_few_runs_did() {
        let mut figures = runs(20, 0.0);
        figures[3].insert(Direction::Tx, 1000.0);
        let seen = look(&until(&[20]), 0, &figures);
        assert!(seen.variation.is_some_and(|variation| variation > Looks::UNSTABLE), "{seen:?}");
        assert!(seen.is_enough && !seen.is_unstable);
    }
}
