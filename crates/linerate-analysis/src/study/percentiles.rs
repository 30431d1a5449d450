//! Percentiles of the times of a job over its runs, with intervals; and the means of its rates over what was read inside the runs.

use std::collections::BTreeMap;

use linerate_model::{Direction, Distribution};

use super::JobStudy;
use super::settling::Rates;
use super::traffic::Distributions;
use crate::statistics::{MeanInterval, Percentile, hierarchical_mean, percentile};

/// Percentiles that are told, as far as there are operations enough for them.
const QUANTILES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 0.9999];
/// Resamples are drawn from it: the same runs give the same interval.
const SEED: u64 = 42;
/// Which distribution of a job.
type Pick = fn(&Distributions) -> &Distribution;
/// Distributions whose percentiles are told, by name.
const TOLD: [(&str, Pick); 5] = [
    ("response", |of| &of.response),
    ("service", |of| &of.service),
    ("reads", |of| &of.reads),
    ("writes", |of| &of.writes),
    ("gap", |of| &of.gap),
];

/// Percentiles of `runs`, by the name of the distribution; none where there are too few operations.
pub(super) fn percentiles(runs: &[Distributions]) -> BTreeMap<String, Vec<Percentile>> {
    let of = |(name, pick): &(&str, Pick)| {
        let each: Vec<&Distribution> = runs.iter().map(*pick).collect();
        let found: Vec<Percentile> = QUANTILES.iter().filter_map(|&share| percentile(&each, share, SEED)).collect();
        (!found.is_empty()).then(|| ((*name).to_owned(), found))
    };
    TOLD.iter().filter_map(of).collect()
}

/// Metrics that are percentiles end in these.
const SUFFIXES: [(&str, f64); 4] = [("_p50", 0.5), ("_p90", 0.9), ("_p99", 0.99), ("_p999", 0.999)];

impl JobStudy {
    /// The percentile of all runs together that stands beside the metric `name` (`service_time_p99`), which is taken run by run; `None` if
    /// that is no percentile of a time of requests or transfers.
    #[must_use]
    pub fn percentile(&self, name: &str, direction: Direction) -> Option<&Percentile> {
        let (stem, quantile) =
            SUFFIXES.iter().find_map(|(suffix, share)| Some((name.strip_suffix(suffix)?, *share)))?;
        let times = match (stem, direction) {
            ("response_time", Direction::Sum) => "response",
            ("service_time", Direction::Sum) => "service",
            ("service_time", Direction::Rx) => "reads",
            ("service_time", Direction::Tx) => "writes",
            _ => return None,
        };
        self.percentiles.get(times)?.iter().find(|of| of.quantile == quantile)
    }
}

/// The mean of the rate `metric` over `runs`, those that carry figures, with its interval: runs and what was read inside them
/// resampled. `None` if it was not read inside them all.
pub(super) fn mean_of(runs: &[&Rates], metric: &str, direction: Direction) -> Option<MeanInterval> {
    let readings: Vec<Vec<f64>> =
        runs.iter().map(|rates| rates.of(metric, direction).map(<[f64]>::to_vec)).collect::<Option<_>>()?;
    hierarchical_mean(&readings, SEED)
}
