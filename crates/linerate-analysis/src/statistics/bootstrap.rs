//! The mean with its BCa bootstrap interval (Efron 1987; methodology 6.5), seeded: the same runs give the same interval.
//!
//! Resamples runs, and, where what happened inside them is known, moving blocks of readings inside each run drawn (Kuensch 1989):
//! seconds of a run follow each other and are never resampled one by one. Below about ten runs its coverage falls short of what
//! it claims; the order-statistic interval of the median is the first line, this the second.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};

use super::order::sorted;
use super::spread::mean;

/// Resamples drawn.
const RESAMPLES: usize = 10_000;
/// Two-sided error.
const ALPHA: f64 = 0.05;

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

/// The mean of `runs` with its bias-corrected, accelerated bootstrap interval; `None` below three runs or if one is not
/// finite. Costs 10 000 resamples of `runs`.
#[must_use]
pub fn bootstrap_mean(runs: &[f64], seed: u64) -> Option<MeanInterval> {
    let value = mean(runs).filter(|mean| runs.len() > 2 && mean.is_finite())?;
    let n = runs.len();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let means: Vec<f64> =
        (0..RESAMPLES).map(|_| (0..n).map(|_| runs[random.random_range(0..n)]).sum::<f64>() / n as f64).collect();
    Some(bias_corrected(runs, value, &sorted(&means)))
}

/// The mean over `runs`, each a list of readings at equal distances, with its hierarchical bootstrap interval: runs are resampled, then
/// moving blocks of `⌈n^(1/3)⌉` of the `n` readings of each run drawn. A run counts once, however long it is. `None` below three
/// runs, or if a run has no reading or one that is not finite. Costs 10 000 resamples of `runs`, each of `n^(2/3)` draws.
#[must_use]
pub fn hierarchical_mean(runs: &[Vec<f64>], seed: u64) -> Option<MeanInterval> {
    let own: Vec<f64> = runs.iter().map(|readings| mean(readings)).collect::<Option<_>>()?;
    let value = mean(&own).filter(|mean| runs.len() > 2 && mean.is_finite())?;
    let blocks: Vec<Blocks> = runs.iter().map(|readings| Blocks::of(readings)).collect();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut resample = || {
        let sum: f64 = (0..blocks.len()).map(|_| blocks[random.random_range(0..blocks.len())].mean(&mut random)).sum();
        sum / blocks.len() as f64
    };
    let means: Vec<f64> = (0..RESAMPLES).map(|_| resample()).collect();
    Some(bias_corrected(&own, value, &sorted(&means)))
}

/// The readings of a run, to be resampled in blocks: sums of the first 0, 1, 2, ... of them, less their mean.
struct Blocks {
    mean: f64,
    sums: Vec<f64>,
    length: usize,
}

impl Blocks {
    fn of(readings: &[f64]) -> Self {
        let own = mean(readings).unwrap_or(0.0);
        // Small numbers add up without a loss of digits.
        let mut sum = 0.0;
        let steps = readings.iter().map(|reading| {
            sum += reading - own;
            sum
        });
        let sums: Vec<f64> = std::iter::once(0.0).chain(steps).collect();
        let n = readings.len() as f64;
        // A cube root that is whole may come out a little above it.
        Self { mean: own, sums, length: (n.cbrt() - 1e-9).ceil().max(1.0) as usize }
    }

    /// The mean of as many readings as there are, in blocks that begin anywhere; the last is cut.
    fn mean(&self, random: &mut Xoshiro256PlusPlus) -> f64 {
        let n = self.sums.len() - 1;
        let mut left = n;
        let mut sum = 0.0;
        while left > 0 {
            let start = random.random_range(0..=n - self.length);
            let taken = self.length.min(left);
            sum += self.sums[start + taken] - self.sums[start];
            left -= taken;
        }
        self.mean + sum / n as f64
    }
}

/// The interval of `value`, the mean of `runs`, from the sorted means of resamples.
fn bias_corrected(runs: &[f64], value: f64, means: &[f64]) -> MeanInterval {
    let below = means.iter().filter(|mean| **mean < value).count() as f64;
    let tied = means.iter().filter(|mean| **mean == value).count() as f64;
    let share = (below + tied / 2.0) / means.len() as f64;
    if share <= 0.0 || share >= 1.0 {
        return MeanInterval { value, low: means[0], high: means[means.len() - 1] };
    }
    let normal = Normal::standard();
    let bias = normal.inverse_cdf(share);
    let acceleration = acceleration_of_mean(runs, value);
    let end = |probability: f64| {
        let z = bias + normal.inverse_cdf(probability);
        let corrected = normal.cdf(bias + z / (1.0 - acceleration * z));
        means[((corrected * means.len() as f64) as usize).min(means.len() - 1)]
    };
    MeanInterval { value, low: end(ALPHA / 2.0), high: end(1.0 - ALPHA / 2.0) }
}

/// Jackknife acceleration; for the mean, leaving run i out moves it by `(mean - x_i) / (n - 1)`.
fn acceleration_of_mean(runs: &[f64], mean: f64) -> f64 {
    let (mut squares, mut cubes) = (0.0, 0.0);
    for run in runs {
        let influence = run - mean;
        squares += influence.powi(2);
        cubes += influence.powi(3);
    }
    if squares == 0.0 { 0.0 } else { cubes / (6.0 * squares.powf(1.5)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_reproducible_and_holds_the_mean() {
        let runs = [9.0, 10.0, 11.0, 10.5, 9.5, 10.2, 9.8, 10.1];
        let a = bootstrap_mean(&runs, 42).expect("eight runs");
        assert_eq!(Some(a), bootstrap_mean(&runs, 42));
        assert!(a.low < a.value && a.value < a.high && a.low > 9.0 && a.high < 11.0, "{a:?}");
    }

    /// For near-normal runs BCa is close to the percentile interval mean ± 1.96 s/√n (with s over n).
    #[test]
    fn symmetric_runs_give_nearly_the_normal_interval() {
        let runs: Vec<f64> = (0..50).map(|i| f64::from(i) - 24.5).collect();
        let half_width = 1.96 * ((50.0_f64 * 50.0 - 1.0) / 12.0).sqrt() / 50.0_f64.sqrt();
        let found = bootstrap_mean(&runs, 7).expect("fifty runs");
        assert!((found.high - half_width).abs() < 0.25 && (found.low + half_width).abs() < 0.25, "{found:?}");
    }

    #[test]
    fn a_skewed_sample_has_a_skewed_interval() {
        let runs = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 11.0];
        let found = bootstrap_mean(&runs, 1).expect("ten runs");
        assert!(found.high - found.value > found.value - found.low, "{found:?}");
        assert_eq!(bootstrap_mean(&[1.0, 2.0], 1), None);
        assert_eq!(bootstrap_mean(&[3.0; 6], 1).expect("six").low, 3.0);
    }

    /// What varies only inside runs, and slowly, makes the interval wider than readings taken one by one would.
    #[test]
    fn slow_waves_inside_runs_widen_the_interval() {
        use crate::statistics::oracle::noise;
        let slow: Vec<Vec<f64>> = (0..6).map(|run| noise(100, 0.9, run)).collect();
        let same_mean = |readings: &Vec<f64>| {
            let own = mean(readings).expect("readings");
            readings.iter().map(|reading| reading - own).collect::<Vec<f64>>()
        };
        let level: Vec<Vec<f64>> = slow.iter().map(same_mean).collect();
        let found = hierarchical_mean(&level, 5).expect("six runs");
        // One by one: the mean of 600 independent readings of deviation one, 1.96 / sqrt(600).
        assert!(found.low < -0.1 && found.high > 0.1, "{found:?}");
        assert_eq!(hierarchical_mean(&level, 5), Some(found), "seeded");
        assert_eq!(hierarchical_mean(&level[..2], 5), None);
        assert_eq!(hierarchical_mean(&[vec![1.0], vec![], vec![2.0]], 5), None, "a run without a reading");
    }

    /// Runs of one reading each are runs.
    #[test]
    fn one_reading_a_run_is_the_plain_bootstrap() {
        let runs = [9.0, 10.0, 11.0, 10.5, 9.5, 10.2, 9.8, 10.1];
        let (flat, plain) = (hierarchical_mean(&runs.map(|run| vec![run]), 42), bootstrap_mean(&runs, 42));
        let (flat, plain) = (flat.expect("eight runs"), plain.expect("eight runs"));
        assert!((flat.low - plain.low).abs() < 0.05 && (flat.high - plain.high).abs() < 0.05, "{flat:?} {plain:?}");
    }
}
