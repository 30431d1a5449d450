//! Mann-Kendall: test whether a series rises or falls from its beginning to its end (Mann 1945,
//! Kendall 1975).
//!
//! Pairs in time order that rise, less those that fall, against the normal approximation with the
//! tie correction. The shape of the change does not matter. Not covered: a change that comes and
//! goes. Correlation between successive values makes the test too sensitive, so callers require a
//! small probability.

use statrs::distribution::{ContinuousCDF, Normal};

/// Values below which the normal approximation does not hold.
const ENOUGH: usize = 10;

/// A direction over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// Kendall's tau against time: 1 for a series that only rises, -1 for one that only falls.
    pub tau: f64,
    /// Two-sided probability of as much without any trend.
    pub probability: f64,
}

/// Returns the trend of `values`; `None` below ten or of a constant. O(n^2).
///
/// # Examples
/// ```
/// use linerate_analysis::statistics::trend;
///
/// let rising: Vec<f64> = (0..12).map(f64::from).collect();
/// let found = trend(&rising).expect("ten values or more");
/// // All 66 pairs rise, so Kendall's tau is 1.
/// assert_eq!(found.tau, 1.0);
/// assert!(found.probability < 0.001);
/// ```
#[must_use]
pub fn trend(values: &[f64]) -> Option<Trend> {
    let n = values.len();
    if n < ENOUGH {
        return None;
    }
    fn sign(a: f64, b: f64) -> f64 {
        if b > a {
            1.0
        } else if b < a {
            -1.0
        } else {
            0.0
        }
    }
    let score: f64 = values
        .iter()
        .enumerate()
        .map(|(i, a)| values[i + 1..].iter().map(|b| sign(*a, *b)).sum::<f64>())
        .sum();
    let weight = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
    let n = n as f64;
    // Equal values cannot rise or fall, so they reduce the variance of the score.
    let variance = (weight(n) - ties(values).map(weight).sum::<f64>()) / 18.0;
    // A constant series consists of one tie.
    if variance <= 0.0 {
        return None;
    }
    // One step towards zero: the score is a whole number of pairs, two apart.
    let z = (score.abs() - 1.0).max(0.0) / variance.sqrt();
    let probability = 2.0 * (1.0 - Normal::standard().cdf(z));
    Some(Trend { tau: score / (n * (n - 1.0) / 2.0), probability })
}

/// Returns how often each value occurs.
fn ties(values: &[f64]) -> impl Iterator<Item = f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let counts: Vec<f64> = sorted.chunk_by(|a, b| a == b).map(|tied| tied.len() as f64).collect();
    counts.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worked by hand: ten values that only rise have a score of 45, a variance of 125 and z = 44 /
    /// sqrt(125) = 3.935.
    #[test]
    fn ten_rising_values_have_the_probability_of_the_tables() {
        let rising: Vec<f64> = (0..10).map(f64::from).collect();
        let found = trend(&rising).expect("ten values");
        assert_eq!(found.tau, 1.0);
        assert!((found.probability - 8.3e-5).abs() < 1e-6, "{}", found.probability);
        let falling: Vec<f64> = rising.iter().rev().copied().collect();
        assert_eq!(trend(&falling).expect("ten values").tau, -1.0);
    }

    #[test]
    fn too_few_values_and_a_constant_say_nothing() {
        assert_eq!(trend(&[1.0; 30]), None);
        assert_eq!(trend(&[1.0, 2.0, 3.0]), None);
    }

    #[test]
    fn a_series_that_swings_without_direction_has_no_trend() {
        let swinging: Vec<f64> = (0..60).map(|i| f64::from(i % 7)).collect();
        assert!(trend(&swinging).expect("sixty values").probability > 0.5);
    }
}
