//! Figures that drift over the order in which the trials of a point were run: they are no repeats
//! of one experiment.

use linerate_model::{TrialRecord, Use};

use super::JobStudy;
use super::reason::Reason;
use crate::statistics::drifts;

/// Returns the reasons why the figures of `job` are suspect; `trials` are in the order of its
/// values.
pub(super) fn doubts(trials: &[&TrialRecord], job: &JobStudy) -> Vec<Reason> {
    let mut order: Vec<usize> = (0..trials.len()).collect();
    // Values are in the order of the plan. A shuffled plan ran them in another order, and a drift
    // follows the time.
    order.sort_by_key(|&place| (trials[place].started, trials[place].spec.id));
    // Only headline figures are tested: among all metrics some correlate with time by chance.
    let headlines = job.metrics.iter().filter(|metric| metric.metric.is_for(Use::Sweep));
    headlines
        .filter_map(|metric| {
            let values: Vec<f64> = order.iter().filter_map(|&place| metric.values[place]).collect();
            let rho = drifts(&values)?;
            Some(Reason::Drifts { metric: metric.metric, direction: metric.direction, rho })
        })
        .collect()
}
