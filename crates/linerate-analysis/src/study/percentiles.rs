//! Percentiles of the times of a job over its runs, with intervals, as measured and corrected for
//! coordinated omission in a closed load.

use std::collections::BTreeMap;

use linerate_model::{Direction, Distribution, Metric, Statistic, Times, metric};
use serde::{Deserialize, Serialize};

use super::JobStudy;
use super::traffic::Distributions;
use crate::statistics::{Basis, Percentile, filled_in, percentile};

/// Percentiles that are reported, as far as there are enough operations for them.
const QUANTILES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 0.9999];
/// Seed of the resampling: the same runs give the same interval.
const SEED: u64 = 42;
/// Selects a distribution of a job.
type Pick = fn(&Distributions) -> &Distribution;
/// Distributions whose percentiles are reported, by name.
const TOLD: [(&str, Pick); 7] = [
    ("response", |of| &of.response),
    ("service", |of| &of.service),
    ("reads", |of| &of.reads),
    ("writes", |of| &of.writes),
    ("flushes", |of| &of.flushes),
    ("trims", |of| &of.trims),
    ("gap", |of| &of.gap),
];

/// Percentiles of `runs`, by the name of the distribution; none where there are too few operations.
pub(super) fn percentiles(runs: &[Distributions]) -> BTreeMap<String, Vec<Percentile>> {
    let mut all = BTreeMap::new();
    for (name, pick) in TOLD {
        let found = those_told(&runs.iter().map(pick).collect::<Vec<_>>());
        if !found.is_empty() {
            all.insert(name.to_owned(), found);
        }
    }
    all
}

fn those_told(runs: &[&Distribution]) -> Vec<Percentile> {
    QUANTILES.iter().filter_map(|&share| percentile(runs, share, SEED)).collect()
}

/// Waiting times of a client that arrives at the pace of a closed load's median: an estimate,
/// always labelled as one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CorrectedStudy {
    /// The pace: the median of all runs, ns.
    pub pace_ns: u64,
    /// Requests filled in over all runs.
    pub n_filled: u64,
    /// Percentiles of the measured and the estimated times. Each run is completed by itself and
    /// resampled as a whole; the pace is assumed to be known. A single run has no interval: its
    /// estimates follow from few stalls, so its requests are no sample.
    pub percentiles: Vec<Percentile>,
}

/// Returns the correction of `runs` of `job`, a closed load; `None` if that is none of requests.
pub(super) fn corrected(job: &JobStudy, runs: &[Distributions]) -> Option<CorrectedStudy> {
    let asks = job.metric(metric::TRANSACTION_RATE, Direction::Sum).is_some();
    let pace_ns = job.service.percentile(0.5).flatten().filter(|_| asks)?;
    let filled =
        runs.iter().map(|run| filled_in(&run.service, pace_ns)).collect::<Option<Vec<_>>>()?;
    let times: Vec<&Distribution> = filled.iter().map(|run| &run.times).collect();
    let mut percentiles = those_told(&times);
    for of in percentiles.iter_mut().filter(|of| of.basis == Basis::Operations) {
        (of.low_ns, of.high_ns, of.confidence) = (None, None, None);
    }
    let n_filled = linerate_model::added(filled.iter().map(|run| run.n_filled));
    Some(CorrectedStudy { pace_ns, n_filled, percentiles })
}

/// Percentiles of last frames of bursts, ns, burst by burst in each of `runs`.
pub(super) fn of_bursts(runs: &[Vec<u64>]) -> Vec<Percentile> {
    let each: Vec<Distribution> = runs.iter().map(|run| distribution(run)).collect();
    those_told(&each.iter().collect::<Vec<_>>())
}

fn distribution(times: &[u64]) -> Distribution {
    let mut counted: BTreeMap<u64, u64> = BTreeMap::new();
    times.iter().for_each(|ns| *counted.entry(*ns).or_default() += 1);
    Distribution::of(counted.into_iter().collect())
}

impl JobStudy {
    /// Returns the percentile over all runs together that belongs to `metric`, whose own figures
    /// are percentiles of single runs. `None` if `metric` is no percentile of a time of requests or
    /// transfers.
    #[must_use]
    pub fn percentile(&self, metric: &Metric, direction: Direction) -> Option<&Percentile> {
        let Some(Statistic::Quantile(quantile)) = metric.statistic else { return None };
        let times = match (metric.times?, direction) {
            (Times::Response, Direction::Sum) => "response",
            (Times::Service, Direction::Sum) => "service",
            (Times::Service, Direction::Rx) => "reads",
            (Times::Service, Direction::Tx) => "writes",
            _ => return None,
        };
        self.percentiles.get(times)?.iter().find(|of| of.quantile == quantile)
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::metric;

    use super::*;
    use crate::MetricStudy;

    const MS: u64 = 1_000_000;

    /// Returns a closed load of 1 ms a request, in which one in ten runs stops for 50 ms now and
    /// then.
    fn runs(n: usize) -> Vec<Distributions> {
        let run = |number: usize| {
            let stalls = if number == 0 { 40 } else { 20 };
            let service = Distribution::of(vec![(MS, 10_000), (50 * MS, stalls)]);
            Distributions { service, ..Distributions::default() }
        };
        (0..n).map(run).collect()
    }

    fn job(runs: &[Distributions]) -> JobStudy {
        let told = metric::TRANSACTION_RATE;
        let rate = MetricStudy::new(told, Direction::Sum);
        let mut study = JobStudy { metrics: vec![rate], ..JobStudy::default() };
        runs.iter().for_each(|run| study.service.merge(&run.service));
        study
    }

    #[test]
    fn what_a_closed_load_hides_is_filled_in_run_by_run_with_intervals() {
        for (n, basis) in [(3, Basis::Range), (6, Basis::Runs)] {
            let runs = runs(n);
            let found = corrected(&job(&runs), &runs).expect("a closed load");
            // Each stall of 50 ms keeps 49 more waiting: 49 ms, 48 ms, ... 1 ms.
            let stalls = 40 + 20 * (n as u64 - 1);
            assert_eq!((found.pace_ns, found.n_filled), (MS, 49 * stalls));
            let p99 =
                found.percentiles.iter().find(|of| of.quantile == 0.99).expect("operations enough");
            assert_eq!((p99.basis, p99.runs as usize), (basis, n));
            let (low, value, high) = (p99.low_ns, p99.value_ns, p99.high_ns);
            assert!(low <= value && value <= high && low < high, "{p99:?}");
            // As measured it is 1 ms, without the waiting of later requests.
            assert_eq!(job(&runs).service.percentile(0.99), Some(Some(MS)));
        }
    }

    #[test]
    fn what_is_filled_in_of_a_single_run_has_no_interval() {
        let runs = runs(1);
        let found = corrected(&job(&runs), &runs).expect("a closed load");
        assert!(
            !found.percentiles.is_empty()
                && found.percentiles.iter().all(|of| of.confidence.is_none())
        );
    }

    #[test]
    fn what_is_no_request_has_no_correction() {
        let runs = runs(3);
        assert_eq!(corrected(&JobStudy { metrics: Vec::new(), ..job(&runs) }, &runs), None);
        assert_eq!(corrected(&JobStudy::default(), &[]), None);
    }
}
