//! Percentiles of a distribution with their intervals (docs/methodology/latency.md#percentiles and
//! docs/methodology/repeats.md#interval-of-a-point).
//!
//! Operations of a run share its conditions, so the unit of replication is the run. From
//! [`ENOUGH_RUNS`] runs on, the interval is the bootstrap over runs, each drawn whole, so that it
//! includes differences between runs. With fewer runs it reaches from the smallest to the largest
//! of the runs' own percentiles, with the confidence of that few runs. For a single run it is the
//! order-statistic interval of its operations: the ranks between which a binomial variable falls
//! with 95 %. That is correct for independent operations, and for that run alone. The result names
//! the method. Below about ten runs the bootstrap covers a little less than it claims.

use linerate_model::Distribution;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};
use statrs::distribution::{Binomial, DiscreteCDF};

use super::order::interval_ranks;

/// Runs from which they are resampled: what the interval of their median needs as well.
const ENOUGH_RUNS: usize = 6;
/// Resamples drawn.
const RESAMPLES: usize = 2_000;
/// Two-sided error.
const ALPHA: f64 = 0.05;

/// The method behind an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Runs resampled.
    Runs,
    /// The least and the greatest of the runs' own percentiles.
    Range,
    /// Ranks of the operations of a single run, as if they did not depend on each other.
    Operations,
}

/// A percentile of all runs together, ns. A `None` among the three times is infinite: its rank
/// falls among lost operations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentile {
    /// The quantile, in 0..1.
    pub quantile: f64,
    /// Nearest rank.
    pub value_ns: Option<u64>,
    /// Where the time is infinite: a lower bound, the longest time that the lost operations were
    /// waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least_ns: Option<u64>,
    /// Lower end of its interval.
    pub low_ns: Option<u64>,
    /// Upper end.
    pub high_ns: Option<u64>,
    /// Confidence of the interval; `None` if there is none.
    pub confidence: Option<f64>,
    /// The method behind the interval.
    pub basis: Basis,
    /// Operations.
    pub operations: u64,
    /// Runs they are from.
    pub runs: u32,
}

/// Returns the percentile `quantile` of `runs` together. `None` if they have too few operations for
/// it, or a single run too few for an end of its interval. Seeded: the same runs give the same
/// interval.
///
/// # Examples
/// ```
/// use linerate_analysis::statistics::{Basis, percentile};
/// use linerate_model::Distribution;
///
/// // One run: 900 operations of 1 ms, 100 of 5 ms.
/// let run = Distribution {
///     buckets: vec![(1_000_000, 900), (5_000_000, 100)],
///     ..Distribution::default()
/// };
/// let p95 = percentile(&[&run], 0.95, 1).expect("enough operations");
/// assert_eq!((p95.value_ns, p95.basis), (Some(5_000_000), Basis::Operations));
/// ```
#[must_use]
pub fn percentile(runs: &[&Distribution], quantile: f64, seed: u64) -> Option<Percentile> {
    // A run without operations would be drawn as often as the others and narrow the interval.
    let runs: Vec<&Distribution> = runs.iter().copied().filter(|run| !run.is_empty()).collect();
    let mut merged = Distribution::default();
    runs.iter().for_each(|run| merged.merge(run));
    let value_ns = merged.percentile(quantile)?;
    let operations = merged.count();
    // An interval contains what it is about: of few runs that differ much, resamples may all lie to
    // one side. `None` is infinite.
    let least = |low: Option<u64>| low.into_iter().chain(value_ns).min();
    let most = |high: Option<u64>| high.zip(value_ns).map(|(high, value)| high.max(value));
    let ((low, high), confidence, basis) = match runs.len() {
        1 => {
            let (low, high) = percentile_ranks(operations, quantile)?;
            ((merged.rank(low), merged.rank(high)), Some(1.0 - ALPHA), Basis::Operations)
        }
        n if n < ENOUGH_RUNS => {
            // One run with too few operations for this quantile leaves no range at all.
            let own: Option<Vec<Option<u64>>> =
                runs.iter().map(|run| run.percentile(quantile)).collect();
            let confidence =
                interval_ranks(n).filter(|_| own.is_some()).map(|(.., confidence)| confidence);
            (own.map_or((None, None), |own| range(&own)), confidence, Basis::Range)
        }
        _ => (over_runs(&runs, &merged, quantile, seed), Some(1.0 - ALPHA), Basis::Runs),
    };
    Some(Percentile {
        quantile,
        value_ns,
        at_least_ns: merged.percentile_at_least(quantile),
        low_ns: if confidence.is_some() { least(low) } else { low },
        high_ns: if confidence.is_some() { most(high) } else { high },
        confidence,
        basis,
        operations,
        runs: u32::try_from(runs.len()).unwrap_or(u32::MAX),
    })
}

/// Returns the least and the greatest of `times`; `None` is infinite.
fn range(times: &[Option<u64>]) -> (Option<u64>, Option<u64>) {
    // One infinite percentile makes the upper end infinite.
    let greatest =
        times.iter().copied().collect::<Option<Vec<u64>>>().and_then(|all| all.into_iter().max());
    (times.iter().flatten().copied().min(), greatest)
}

/// Number of operations up to which ranks come from the binomial distribution. Beyond, they come
/// from the normal distribution, which is within two ranks: the search for exact ones does not
/// converge among some 10^9 operations, which a long run has.
const MOST_EXACT: u64 = 1 << 24;
/// The normal distribution's quantile at 97.5 %.
const Z: f64 = 1.959_963_984_540_054;

/// Returns the ranks (from 1) of `n` operations between which the percentile `quantile` lies with
/// at least 95 %, 2.5 % beyond each at most; `None` if `n` is too small for one of them.
#[must_use]
pub(crate) fn percentile_ranks(n: u64, quantile: f64) -> Option<(u64, u64)> {
    if n > MOST_EXACT {
        let (mean, spread) = (quantile * n as f64, (quantile * (1.0 - quantile) * n as f64).sqrt());
        let ends = [mean - Z * spread, mean + Z * spread + 1.0];
        return Some((ends[0] as u64, (ends[1] as u64).min(n)));
    }
    let below = Binomial::new(quantile, n).ok()?;
    // The smallest count that is reached with more than the error: at fewer than 2.5 % is the
    // percentile below rank `low`.
    let (low, high) = (below.inverse_cdf(ALPHA / 2.0), below.inverse_cdf(1.0 - ALPHA / 2.0) + 1);
    // The tail may need more operations than there are; then there is no end on that side.
    (low >= 1 && high <= n).then_some((low, high))
}

/// Returns the interval by resampling `runs`, which together are `merged`; `None` is infinite.
fn over_runs(
    runs: &[&Distribution],
    merged: &Distribution,
    quantile: f64,
    seed: u64,
) -> (Option<u64>, Option<u64>) {
    let times: Vec<u64> = merged.buckets.iter().map(|&(ns, _)| ns).collect();
    // Per run: the number of operations no longer than each of the times.
    // Counting once per run makes each of the 2,000 resamples a sum, not a merge of distributions.
    let within: Vec<Vec<u64>> = runs.iter().map(|run| counts_within(run, &times)).collect();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut drawn = vec![0_usize; runs.len()];
    // The place of the percentile among the times; beyond them it is infinite.
    let mut places = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        drawn.iter_mut().for_each(|run| *run = random.random_range(0..runs.len()));
        let n = total(drawn.iter().map(|&run| runs[run].count()));
        let rank = (quantile * n as f64).ceil().max(1.0) as u64;
        let n_within = |place: usize| total(drawn.iter().map(|&run| within[run][place]));
        places.push(partition(times.len(), |place| n_within(place) < rank));
    }
    places.sort_unstable();
    let end = |share: f64| {
        // The share of one would point behind the last place.
        times.get(places[((share * RESAMPLES as f64) as usize).min(RESAMPLES - 1)]).copied()
    };
    (end(ALPHA / 2.0), end(1.0 - ALPHA / 2.0))
}

/// Returns the sum of `counts`, or the largest number.
fn total(counts: impl Iterator<Item = u64>) -> u64 {
    // Counts come from ledgers, whose contents may be damaged.
    counts.fold(0, u64::saturating_add)
}

fn counts_within(run: &Distribution, times: &[u64]) -> Vec<u64> {
    let mut left = run.buckets.iter().peekable();
    let mut seen = 0;
    let mut counts = Vec::with_capacity(times.len());
    for time in times {
        while let Some((_, count)) = left.next_if(|(ns, _)| ns <= time) {
            seen = u64::saturating_add(seen, *count);
        }
        counts.push(seen);
    }
    counts
}

/// Returns the first of `n` places that is not `before`, which holds for the first ones only.
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
        Distribution::of(sorted.into_iter().map(|ns| (ns, 1)).collect())
    }

    /// Returns the confidence rounded to a hundredth of a per cent.
    fn rounded(confidence: Option<f64>) -> f64 {
        (confidence.expect("an interval") * 1e4).round() / 1e4
    }

    #[test]
    fn ranks_among_more_operations_than_anybody_has_seen_are_those_that_the_exact_ones_approach() {
        let close = |a: u64, b: u64| a.abs_diff(b) <= 2;
        for quantile in [0.5, 0.99, 0.9999] {
            let exact = percentile_ranks(MOST_EXACT, quantile).expect("enough");
            let near = percentile_ranks(MOST_EXACT + 1, quantile).expect("enough");
            assert!(
                close(exact.0, near.0) && close(exact.1, near.1),
                "{quantile}: {exact:?}, {near:?}"
            );
            let (low, high) = percentile_ranks(u64::MAX, quantile).expect("enough");
            assert!(low < high);
            // Every number of operations on the way is answered.
            assert!(
                (13..=64).all(|bits| percentile_ranks(u64::MAX >> (64 - bits), quantile).is_some()
                    || quantile > 0.99)
            );
        }
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

    /// Series with known truth: operations of a run scatter by 1 around its level, runs by
    /// `between`. The interval contains the percentile of the typical run as often as its
    /// confidence claims; ranks of operations alone do not.
    #[test]
    fn few_runs_hold_the_percentile_of_the_typical_run_as_often_as_they_claim() {
        const SERIES: u64 = 600;
        const OPERATIONS: usize = 120;
        let at = |z: f64| (1e6 * (20.0 + z)) as u64;
        for (quantile, typical) in [(0.5, 0.0), (0.9, 1.281_552)] {
            for (n, claimed) in [(2, 0.5), (3, 0.75), (5, 0.9375)] {
                for between in [0.0, 0.3, 2.0] {
                    let (mut held, mut by_ranks) = (0.0, 0.0);
                    for series in 0..SERIES {
                        let seed = series * 1_000 + n as u64 * 100;
                        let means = noise(n, 0.0, seed);
                        let run = |number: usize| {
                            let operations = noise(OPERATIONS, 0.0, seed + 1 + number as u64);
                            let times = operations.iter().map(|z| at(z + between * means[number]));
                            distribution(&times.collect::<Vec<_>>())
                        };
                        let runs: Vec<Distribution> = (0..n).map(run).collect();
                        let all: Vec<&Distribution> = runs.iter().collect();
                        let found = percentile(&all, quantile, 1).expect("operations enough");
                        assert_eq!(
                            (found.basis, rounded(found.confidence)),
                            (Basis::Range, claimed)
                        );
                        let holds = |low: Option<u64>, high: Option<u64>| {
                            f64::from(low <= Some(at(typical)) && high >= Some(at(typical)))
                        };
                        held += holds(found.low_ns, found.high_ns) / SERIES as f64;
                        let merged = Distribution::default();
                        let merged = runs.iter().fold(merged, |mut sum, run| {
                            sum.merge(run);
                            sum
                        });
                        let (low, high) =
                            percentile_ranks(merged.count(), quantile).expect("operations enough");
                        by_ranks += holds(merged.rank(low), merged.rank(high)) / SERIES as f64;
                    }
                    // Three standard errors of a share of this many series.
                    let error = 3.0 * (claimed * (1.0 - claimed) / SERIES as f64).sqrt();
                    assert!(
                        held >= claimed - error,
                        "{n} runs, {quantile}, {between}: {held} of {claimed}"
                    );
                    assert!(
                        between < 2.0 || by_ranks < 0.5,
                        "{n} runs, {quantile}: ranks hold {by_ranks}"
                    );
                }
            }
        }
    }

    #[test]
    fn few_runs_of_too_few_operations_have_a_percentile_and_no_interval() {
        let runs: Vec<Distribution> =
            (0..3).map(|run| distribution(&(run..run + 500).collect::<Vec<_>>())).collect();
        let all: Vec<&Distribution> = runs.iter().collect();
        let p99 = percentile(&all, 0.99, 1).expect("fifteen beyond it");
        assert_eq!((p99.confidence, p99.low_ns, p99.high_ns), (None, None, None));
        let lost = Distribution { lost: 100, ..Distribution::of(vec![(5, 900)]) };
        let p95 = percentile(&[&lost, &runs[0]], 0.95, 1).expect("operations");
        assert_eq!((p95.low_ns, p95.high_ns, rounded(p95.confidence)), (Some(474), None, 0.5));
    }

    #[test]
    fn an_end_among_the_lost_is_infinite() {
        let run = Distribution { lost: 95, ..Distribution::of(vec![(5, 9_905)]) };
        let p99 = percentile(&[&run], 0.99, 1).expect("operations");
        assert_eq!((p99.value_ns, p99.low_ns, p99.high_ns), (Some(5), Some(5), None));
    }

    /// Runs that differ by much more than their operations: the interval over runs is as wide as
    /// they lie apart, that of the operations is not.
    #[test]
    fn what_differs_between_runs_is_in_the_interval() {
        let run = |number: u64| {
            let base = 1_000_000 + 100_000 * number;
            distribution(
                &noise(500, 0.0, number)
                    .iter()
                    .map(|z| base + (10_000.0 * (z + 5.0)) as u64)
                    .collect::<Vec<_>>(),
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
        let width = |of: Percentile| {
            of.high_ns.zip(of.low_ns).map(|(high, low)| high - low).expect("finite")
        };
        assert_eq!((over.basis, over.runs, over.operations), (Basis::Runs, 8, 4_000));
        assert!(width(over) > 3 * width(alone), "{over:?} {alone:?}");
        assert_eq!(percentile(&all, 0.5, 3), Some(over), "seeded");
    }
}
