//! Percentiles of a distribution with their intervals (methodology 4.3 and 6.5).
//!
//! Operations of a run share its fate: from [`ENOUGH_RUNS`] runs on the interval is the bootstrap over runs, each drawn whole, so that what
//! differs between runs is in it. Below that it is the order-statistic interval of all operations together, the ranks between which
//! a binomial variable falls with 95 %: right for operations that do not depend on each other, and blind to differences between
//! runs. Which of the two it is, is told. Below about ten runs the bootstrap covers a little less than it claims.

use linerate_model::Distribution;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};
use statrs::distribution::{Binomial, DiscreteCDF};

/// Runs from which the interval is over runs: what the interval of their median needs as well.
const ENOUGH_RUNS: usize = 6;
/// Resamples drawn.
const RESAMPLES: usize = 2_000;
/// Two-sided error.
const ALPHA: f64 = 0.05;

/// What an interval was computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Runs resampled.
    Runs,
    /// Ranks of operations, as if they did not depend on each other.
    Operations,
}

/// A percentile of all runs together, ns. Of the three times, one that is `None` is infinite: its rank falls among the lost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentile {
    /// Which, in 0..1.
    pub quantile: f64,
    /// Nearest rank.
    pub value_ns: Option<u64>,
    /// Lower end of its interval at 95 %.
    pub low_ns: Option<u64>,
    /// Upper end.
    pub high_ns: Option<u64>,
    /// What the interval is from.
    pub basis: Basis,
    /// Operations.
    pub operations: u64,
    /// Runs they are from.
    pub runs: u32,
}

/// The percentile `quantile` of `runs` together; `None` if they have too few operations for it or for an end of its interval.
/// Seeded: the same runs give the same interval.
#[must_use]
pub fn percentile(runs: &[&Distribution], quantile: f64, seed: u64) -> Option<Percentile> {
    let runs: Vec<&Distribution> = runs.iter().copied().filter(|run| !run.is_empty()).collect();
    let mut merged = Distribution::default();
    runs.iter().for_each(|run| merged.merge(run));
    let value_ns = merged.percentile(quantile)?;
    let operations = merged.count();
    let of = |low_ns, high_ns, basis| Percentile {
        quantile,
        value_ns,
        low_ns,
        high_ns,
        basis,
        operations,
        runs: u32::try_from(runs.len()).unwrap_or(u32::MAX),
    };
    if runs.len() < ENOUGH_RUNS {
        let (low, high) = percentile_ranks(operations, quantile)?;
        return Some(of(merged.rank(low), merged.rank(high), Basis::Operations));
    }
    let (low, high) = over_runs(&runs, &merged, quantile, seed);
    Some(of(low, high, Basis::Runs))
}

/// Ranks (from 1) of `n` operations between which the percentile `quantile` lies with at least 95 %, 2.5 % beyond each at most; `None` if
/// `n` is too small for one of them.
#[must_use]
pub fn percentile_ranks(n: u64, quantile: f64) -> Option<(u64, u64)> {
    let below = Binomial::new(quantile, n).ok()?;
    // The smallest count that is reached with more than the error: at fewer than 2.5 % is the percentile below rank `low`.
    let (low, high) = (below.inverse_cdf(ALPHA / 2.0), below.inverse_cdf(1.0 - ALPHA / 2.0) + 1);
    (low >= 1 && high <= n).then_some((low, high))
}

/// The interval by resampling `runs`, which together are `merged`; `None` is infinite.
fn over_runs(runs: &[&Distribution], merged: &Distribution, quantile: f64, seed: u64) -> (Option<u64>, Option<u64>) {
    let times: Vec<u64> = merged.buckets.iter().map(|&(ns, _)| ns).collect();
    // Per run, how many of its operations took no longer than each of the times.
    let within: Vec<Vec<u64>> = runs.iter().map(|run| counts_within(run, &times)).collect();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut drawn = vec![0_usize; runs.len()];
    // The place of the percentile among the times; beyond them it is infinite.
    let mut resample = || {
        drawn.iter_mut().for_each(|run| *run = random.random_range(0..runs.len()));
        let n: u64 = drawn.iter().map(|&run| runs[run].count()).sum();
        let rank = (quantile * n as f64).ceil().max(1.0) as u64;
        partition(times.len(), |place| drawn.iter().map(|&run| within[run][place]).sum::<u64>() < rank)
    };
    let mut places: Vec<usize> = (0..RESAMPLES).map(|_| resample()).collect();
    places.sort_unstable();
    let end = |share: f64| times.get(places[((share * RESAMPLES as f64) as usize).min(RESAMPLES - 1)]).copied();
    (end(ALPHA / 2.0), end(1.0 - ALPHA / 2.0))
}

fn counts_within(run: &Distribution, times: &[u64]) -> Vec<u64> {
    let mut left = run.buckets.iter().peekable();
    let mut seen = 0;
    let within = |time: &u64| {
        while let Some((_, count)) = left.next_if(|(ns, _)| ns <= time) {
            seen += count;
        }
        seen
    };
    times.iter().map(within).collect()
}

/// The first of `n` places that is not `before`, which holds for the first ones only.
fn partition(n: usize, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, n);
    while low < high {
        let middle = usize::midpoint(low, high);
        if before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::oracle::noise;

    fn distribution(values: &[u64]) -> Distribution {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        Distribution { buckets: sorted.into_iter().map(|ns| (ns, 1)).collect(), lost: 0 }
    }

    #[test]
    fn what_operations_cannot_carry_is_withheld() {
        let few = distribution(&(1..=999).collect::<Vec<_>>());
        assert_eq!(percentile(&[&few], 0.99, 1), None);
        let enough = distribution(&(1..=1_000).collect::<Vec<_>>());
        let p99 = percentile(&[&enough], 0.99, 1).expect("ten beyond it");
        assert_eq!(
            (p99.value_ns, p99.low_ns, p99.high_ns, p99.basis),
            (Some(990), Some(983), Some(997), Basis::Operations)
        );
        let three = distribution(&[5, 6, 7]);
        assert_eq!(percentile(&[&three], 0.5, 1), None, "no rank bounds it");
    }

    #[test]
    fn an_end_among_the_lost_is_infinite() {
        let run = Distribution { buckets: vec![(5, 9_905)], lost: 95 };
        let p99 = percentile(&[&run], 0.99, 1).expect("operations");
        assert_eq!((p99.value_ns, p99.low_ns, p99.high_ns), (Some(5), Some(5), None));
    }

    /// Runs that differ by much more than their operations: the interval over runs is as wide as they lie apart, that of the
    /// operations is not.
    #[test]
    fn what_differs_between_runs_is_in_the_interval() {
        let run = |number: u64| {
            let base = 1_000_000 + 100_000 * number;
            distribution(
                &noise(500, 0.0, number).iter().map(|z| base + (10_000.0 * (z + 5.0)) as u64).collect::<Vec<_>>(),
            )
        };
        let runs: Vec<Distribution> = (0..8).map(run).collect();
        let all: Vec<&Distribution> = runs.iter().collect();
        let over = percentile(&all, 0.5, 3).expect("operations");
        let merged = runs.iter().fold(Distribution::default(), |mut sum, run| {
            sum.merge(run);
            sum
        });
        let alone = percentile(&[&merged], 0.5, 3).expect("operations");
        let width = |of: Percentile| of.high_ns.zip(of.low_ns).map(|(high, low)| high - low).expect("finite");
        assert_eq!((over.basis, over.runs, over.operations), (Basis::Runs, 8, 4_000));
        assert!(width(over) > 3 * width(alone), "{over:?} {alone:?}");
        assert_eq!(percentile(&all, 0.5, 3), Some(over), "seeded");
    }
}
