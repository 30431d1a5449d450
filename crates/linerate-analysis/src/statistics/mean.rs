//! The mean over runs with Student's interval (Student 1908;
//! docs/methodology/repeats.md#interval-of-a-point).
//!
//! Runs are the replicates: what happened inside one moves its own mean and is in their spread
//! already. A bootstrap of six runs is too narrow, since it takes their spread for the true one (5
//! degrees of freedom know it to a third only); Student's quantile is wider by as much. It covers
//! what it claims for runs that are near normal, and a few percent less where they are skewed (see
//! the test below). Not seen: a host that is slower for a whole campaign. The interval is about the
//! runs of this one.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::spread::{mean, standard_deviation};

/// Two-sided error.
const ALPHA: f64 = 0.05;
/// Least number of runs for an interval: with two runs it is 13 times as wide as their distance.
const LEAST_RUNS: usize = 3;

/// A mean and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeanInterval {
    /// The mean.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Returns the mean of `runs` with its interval; `None` below three runs or if one is not finite.
///
/// # Examples
/// ```
/// use linerate_analysis::statistics::mean_interval;
///
/// let interval = mean_interval(&[9.0, 11.0, 10.0, 9.0, 11.0]).expect("five runs");
/// assert!((interval.value - 10.0).abs() < 1e-12);
/// // Student's t for 4 degrees of freedom is 2.776 (any printed table); the standard deviation is
/// // 1, so the half width is 2.776 / sqrt(5) = 1.2415.
/// assert!((interval.high - 11.2415).abs() < 1e-3);
/// ```
#[must_use]
pub fn mean_interval(runs: &[f64]) -> Option<MeanInterval> {
    // An infinite run has no deviation, and its mean says only that one operation never ended.
    let value = mean(runs).filter(|mean| runs.len() >= LEAST_RUNS && mean.is_finite())?;
    let deviation = standard_deviation(runs)?;
    let n = runs.len() as f64;
    let student = StudentsT::new(0.0, 1.0, n - 1.0).expect("at least two degrees of freedom");
    let half_width = student.inverse_cdf(1.0 - ALPHA / 2.0) * deviation / n.sqrt();
    Some(MeanInterval { value, low: value - half_width, high: value + half_width })
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    /// By hand: mean 10, deviation 1, quantile 2.776 of four degrees of freedom (Student's table),
    /// over the root of 5.
    #[test]
    fn the_half_width_is_students_quantile_times_the_error_of_the_mean() {
        let runs = [9.0, 11.0, 10.0, 9.0, 11.0];
        let found = mean_interval(&runs).expect("five runs");
        assert!(
            (found.value - 10.0).abs() < 1e-12
                && (found.high - found.value - 2.776_445 / 5.0_f64.sqrt()).abs() < 1e-5
        );
        assert!((found.high + found.low - 20.0).abs() < 1e-9);
        assert_eq!(mean_interval(&[1.0, 2.0]), None);
        assert_eq!(mean_interval(&[1.0, 2.0, f64::INFINITY]), None);
        assert_eq!(mean_interval(&[3.0; 6]).expect("six").low, 3.0);
    }

    /// Returns how often the interval of `n` runs contains the true mean, 0, in 4,000 campaigns
    /// whose runs `draw` derives from a standard normal number.
    fn coverage(n: usize, draw: impl Fn(f64) -> f64) -> f64 {
        const CAMPAIGNS: usize = 4_000;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut normal = || {
            // The sum of twelve uniform numbers less six has deviation one.
            (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0
        };
        let holds = (0..CAMPAIGNS).filter(|_| {
            let runs: Vec<f64> = (0..n).map(|_| draw(normal())).collect();
            mean_interval(&runs).is_some_and(|found| found.low <= 0.0 && 0.0 <= found.high)
        });
        holds.count() as f64 / CAMPAIGNS as f64
    }

    #[test]
    fn six_runs_hold_the_mean_as_often_as_they_claim() {
        for n in [3, 6, 12] {
            let found = coverage(n, |normal| normal);
            assert!((0.94..=0.96).contains(&found), "{n} normal runs: {found}");
            // Runs of a busy host: most alike, some much slower. The mean of exp(s z) is exp(s^2 /
            // 2).
            let skewed = coverage(n, |normal| (0.125_f64).exp() - (0.5 * normal).exp());
            assert!(skewed > 0.90, "{n} skewed runs: {skewed}");
        }
    }
}
