//! Figures that the stages read from what was recorded.

use linerate_analysis::statistics::median;
use linerate_analysis::{PointStudy, Study};
use linerate_model::{Campaign, Direction, Metric, TrialRecord};

/// Returns the first trial of `sweep`.
pub(super) fn trial<'a>(campaign: &'a Campaign, sweep: &str) -> Option<&'a TrialRecord> {
    campaign.trials.iter().find(|trial| trial.spec.sweep == sweep)
}

/// Returns `metric` of the first job of `sweep`, one value for each run. Without a direction the
/// first one recorded counts.
pub(super) fn values(
    study: &Study,
    sweep: &str,
    metric: &Metric,
    direction: Option<Direction>,
) -> Vec<Option<f64>> {
    let point: Option<&PointStudy> = study.points.iter().find(|point| point.sweep == sweep);
    let metrics =
        point.and_then(|point| point.jobs.first()).into_iter().flat_map(|job| &job.metrics);
    let mut found = metrics
        .filter(|found| found.metric == metric && direction.is_none_or(|d| d == found.direction));
    found.next().map(|found| found.values.clone()).unwrap_or_default()
}

/// Returns the median of `metric` over the runs of `sweep`.
pub(super) fn typical(study: &Study, sweep: &str, metric: &Metric) -> Option<f64> {
    let known: Vec<f64> = values(study, sweep, metric, None).into_iter().flatten().collect();
    median(&known)
}
