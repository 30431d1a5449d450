//! Medians over rounds with the product's order-statistic intervals, which assume nothing about the
//! distribution of the noise.

use linerate_analysis::statistics::estimate;

/// A median with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Median {
    pub(crate) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    /// Probability that low and high enclose the true median; 0 for a single value.
    pub(super) coverage: f64,
    pub(super) n: usize,
}

impl Median {
    /// Returns the median of the finite `values`; `None` if there are none.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        let median = estimate(&finite)?;
        Some(Self {
            value: median.value,
            low: median.low.unwrap_or(median.value),
            high: median.high.unwrap_or(median.value),
            coverage: median.confidence.unwrap_or(0.0),
            n: finite.len(),
        })
    }

    /// Returns it with its interval and the number of rounds, each value written by `number`.
    pub(crate) fn cell(self, number: impl Fn(f64) -> String) -> String {
        let [value, low, high] = [self.value, self.low, self.high].map(number);
        format!("{value} [{low}, {high}] ({})", self.n)
    }

    /// The same with three decimals; a dash without a median.
    pub(super) fn shown(median: Option<Self>) -> String {
        median.map_or("-".to_owned(), |median| median.cell(|value| format!("{value:.3}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_lies_in_its_interval() {
        let median =
            Median::of(&[9.0, 1.0, 5.0, 3.0, 7.0, 8.0, 2.0, 4.0, 6.0]).expect("nine values");
        assert_eq!((median.value, median.low, median.high, median.n), (5.0, 2.0, 8.0, 9));
        let median = Median::of(&[2.0, 1.0, f64::NAN]).expect("two values");
        assert_eq!((median.value, median.low, median.high, median.n), (1.5, 1.0, 2.0, 2));
        assert_eq!(Median::of(&[f64::NAN]), None);
        assert_eq!(
            Median::of(&[3.0]).map(|median| (median.value, median.coverage)),
            Some((3.0, 0.0))
        );
    }
}
