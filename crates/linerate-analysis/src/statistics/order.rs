//! The median and its distribution-free confidence interval from order statistics
//! (docs/methodology/repeats.md#interval-of-a-point).
//!
//! The interval `x_(l)..x_(u)` with `u = n + 1 - l` covers the median with probability `1 - 2
//! P(Bin(n, 1/2) < l)`, whatever the distribution (ties make it wider, never narrower). It needs
//! six runs to reach 95 %; with fewer, the whole range is returned with the confidence it achieves.
//! Not covered: drift or dependence between runs.

use linerate_model::Estimate;
use statrs::distribution::{Binomial, DiscreteCDF};

/// The requested confidence, which is achieved from [`ENOUGH_RUNS`] runs on.
const CONFIDENCE: f64 = 0.95;
/// Smallest number of runs whose range covers the median with 95 % (2^-5 = 3.1 % outside).
const ENOUGH_RUNS: usize = 6;

/// Returns the median of `values`: the mean of the two middle ones where their number is even.
/// `None` without values. NaN sorts last.
///
/// # Examples
/// ```
/// use linerate_analysis::statistics::median;
///
/// // An outlier does not move the median: the middle of 9.4, 9.5 and 2.1 is 9.4.
/// assert_eq!(median(&[9.4, 2.1, 9.5]), Some(9.4));
/// assert_eq!(median(&[]), None);
/// ```
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    median_of_sorted(&sorted(values))
}

/// Returns the ranks (from 1) of the narrowest symmetric interval that covers the median of `n`
/// values with at least 95 %, and the confidence achieved. Below six values these are the smallest
/// and the largest; `None` below two.
#[must_use]
pub(crate) fn interval_ranks(n: usize) -> Option<(usize, usize, f64)> {
    if n < 2 {
        return None;
    }
    let below = Binomial::new(0.5, n as u64).expect("one half is a probability");
    let confidence = |low: usize| 1.0 - 2.0 * below.cdf(low as u64 - 1);
    let mut low = 1;
    // Below six runs even the whole range misses 95 %, so it is used as it is and its real
    // confidence is reported.
    while n >= ENOUGH_RUNS && low < n / 2 && confidence(low + 1) >= CONFIDENCE {
        low += 1;
    }
    Some((low, n + 1 - low, confidence(low)))
}

/// Returns the median over runs with its interval; `None` without runs.
///
/// # Examples
/// ```
/// use linerate_analysis::statistics::estimate;
///
/// let gbit_per_s = [9.41, 9.38, 9.40, 9.44, 9.39, 9.42];
/// let goodput = estimate(&gbit_per_s).expect("six runs");
/// // The mean of the two middle runs, 9.40 and 9.41.
/// assert!((goodput.value - 9.405).abs() < 1e-9);
/// // With six runs the interval is the whole range. Both ends miss the median only if all six
/// // runs fall on one side of it: 2 / 2^6 = 3.125 %.
/// assert_eq!((goodput.low, goodput.high), (Some(9.38), Some(9.44)));
/// assert!((goodput.confidence.expect("an interval") - 0.96875).abs() < 1e-12);
/// ```
#[must_use]
pub fn estimate(runs: &[f64]) -> Option<Estimate> {
    let sorted = sorted(runs);
    let value = median_of_sorted(&sorted)?;
    let n = u32::try_from(sorted.len()).unwrap_or(u32::MAX);
    let bounds = interval_ranks(sorted.len());
    Some(Estimate {
        value,
        low: bounds.map(|(low, _, _)| sorted[low - 1]),
        high: bounds.map(|(_, high, _)| sorted[high - 1]),
        confidence: bounds.map(|(_, _, confidence)| confidence),
        n,
    })
}

/// Returns the smallest of `values` that at least the share `q` of them does not exceed; `None`
/// without values.
///
/// # Examples
/// ```
/// use linerate_analysis::statistics::quantile;
///
/// let milliseconds = [1.0, 2.0, 3.0, 4.0, 50.0];
/// // Nearest rank: 0.8 * 5 = 4, so the fourth smallest value.
/// assert_eq!(quantile(&milliseconds, 0.8), Some(4.0));
/// assert_eq!(quantile(&milliseconds, 1.0), Some(50.0));
/// ```
#[must_use]
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    let sorted = sorted(values);
    // A quantile of zero is the smallest value.
    let rank = (q * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank - 1).copied()
}

pub(super) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    // A total order places NaN last instead of panicking or leaving the order open.
    sorted.sort_by(f64::total_cmp);
    sorted
}

pub(super) fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let n = sorted.len();
    match n {
        0 => None,
        _ if n % 2 == 1 => Some(sorted[n / 2]),
        _ => Some((sorted[n / 2 - 1] + sorted[n / 2]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/methodology/repeats.md#interval-of-a-point.
    #[test]
    fn ranks_match_the_published_table() {
        let table =
            [(6, 1, 6), (8, 1, 8), (10, 2, 9), (12, 3, 10), (15, 4, 12), (20, 6, 15), (30, 10, 21)];
        for (n, low, high) in table {
            let (l, h, confidence) = interval_ranks(n).expect("enough values");
            assert_eq!((l, h), (low, high), "n = {n}");
            assert!(confidence >= 0.95, "n = {n}: {confidence}");
        }
        assert!((interval_ranks(6).expect("six").2 - 0.96875).abs() < 1e-12);
    }

    #[test]
    fn too_few_runs_say_what_they_achieve() {
        assert_eq!(interval_ranks(1), None);
        let five = estimate(&[5.0, 1.0, 4.0, 2.0, 3.0]).expect("five runs");
        assert_eq!((five.value, five.low, five.high, five.n), (3.0, Some(1.0), Some(5.0), 5));
        assert!((five.confidence.expect("achieved") - 0.9375).abs() < 1e-12);
        let one = estimate(&[7.0]).expect("one run");
        assert_eq!(
            (one.value, one.low, one.high, one.confidence, one.n),
            (7.0, None, None, None, 1)
        );
        assert_eq!(estimate(&[]), None);
    }

    #[test]
    fn an_infinite_run_moves_the_median_only_when_it_must() {
        assert_eq!(median(&[1.0, f64::INFINITY, 2.0]), Some(2.0));
        assert_eq!(median(&[1.0, f64::INFINITY]), Some(f64::INFINITY));
    }
}
