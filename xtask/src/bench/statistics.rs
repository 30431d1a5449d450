//! Medians with order-statistic intervals: no assumption about how the noise is distributed.
//!
//! The interval is between the k-th smallest and the k-th largest of n values, with the largest k
//! that still covers the median with 95 % (binomial distribution with p = 1/2). With fewer than six
//! values even smallest and largest cover less; then they are given, with the coverage they have.

/// The coverage asked for.
const CONFIDENCE: f64 = 0.95;

/// A median and where the true one lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Median {
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    /// The probability that low and high enclose the true median.
    pub(super) coverage: f64,
    pub(super) n: usize,
}

impl Median {
    /// Of `values`; `None` if there are none.
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> =
            values.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let n = sorted.len();
        if n == 0 {
            return None;
        }
        let k = (1..=n.div_ceil(2)).rev().find(|k| coverage(n, *k) >= CONFIDENCE).unwrap_or(1);
        Some(Self {
            value: sorted[(n - 1) / 2].midpoint(sorted[n / 2]),
            low: sorted[k - 1],
            high: sorted[n - k],
            coverage: coverage(n, k),
            n,
        })
    }
}

/// The probability that the median lies between the k-th smallest and the k-th largest of n values.
fn coverage(n: usize, k: usize) -> f64 {
    let mut outside = 0.0;
    let mut binomial = 0.5_f64.powi(n as i32);
    for i in 0..k {
        outside += 2.0 * binomial;
        binomial *= (n - i) as f64 / (i + 1) as f64;
    }
    (1.0 - outside).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Coverages from tables of the sign test: n = 6, k = 1: 96.9 %; n = 9, k = 2: 96.1 %; n = 3, k
    /// = 1: 75 %.
    #[test]
    fn intervals_have_the_coverage_of_the_sign_test() {
        for (n, k, expected) in [(6, 1, 0.969), (9, 2, 0.961), (3, 1, 0.75), (1, 1, 0.0)] {
            assert!((coverage(n, k) - expected).abs() < 5e-4, "{n} {k}: {}", coverage(n, k));
        }
    }

    #[test]
    fn a_median_lies_in_its_interval() {
        let median =
            Median::of(&[9.0, 1.0, 5.0, 3.0, 7.0, 8.0, 2.0, 4.0, 6.0]).expect("nine values");
        assert_eq!((median.value, median.low, median.high, median.n), (5.0, 2.0, 8.0, 9));
        let median = Median::of(&[2.0, 1.0]).expect("two values");
        assert_eq!((median.value, median.low, median.high), (1.5, 1.0, 2.0));
        assert_eq!(Median::of(&[f64::NAN]), None);
    }
}
