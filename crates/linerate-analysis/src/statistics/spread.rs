//! Mean, spread and fairness.

/// Returns the arithmetic mean; `None` without values.
///
/// # Examples
/// ```
/// use linerate_analysis::statistics::mean;
///
/// assert_eq!(mean(&[1.0, 2.0, 6.0]), Some(3.0));
/// ```
#[must_use]
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the sample standard deviation (n - 1); `None` below two values.
#[must_use]
pub(crate) fn standard_deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() > 1)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// Returns standard deviation over the mean's magnitude; `None` below two values or where the mean
/// is zero.
///
/// # Examples
/// ```
/// use linerate_analysis::statistics::coefficient_of_variation;
///
/// // Mean 10; squared deviations 1 + 1 over n - 1 = 1, so the deviation is the root of 2.
/// let variation = coefficient_of_variation(&[9.0, 11.0]).expect("two runs");
/// assert!((variation - 0.1414).abs() < 1e-4);
/// ```
#[must_use]
pub fn coefficient_of_variation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|mean| *mean != 0.0)?;
    standard_deviation(values).map(|deviation| deviation / mean.abs())
}

/// Jain's fairness index `(Σx)² / (n Σx²)` (Jain, Chiu and Hawe 1984): 1 where all shares are
/// equal, 1/n where one takes all. `None` of nothing, or where every share is zero.
///
/// # Examples
/// ```
/// use linerate_analysis::statistics::jain;
///
/// // Two flows share a link 1 to 3: (1 + 3)^2 / (2 * (1 + 9)) = 16 / 20.
/// assert_eq!(jain(&[1.0, 3.0]), Some(0.8));
/// // One of four flows gets everything: 1 / 4.
/// assert_eq!(jain(&[8.0, 0.0, 0.0, 0.0]), Some(0.25));
/// ```
#[must_use]
pub fn jain(shares: &[f64]) -> Option<f64> {
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    let sum: f64 = shares.iter().sum();
    // Shares of zero throughout are equal, but nothing was shared.
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_runs_from_one_over_n_to_one() {
        assert_eq!(jain(&[5.0; 4]), Some(1.0));
        assert_eq!(jain(&[8.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain(&[0.0, 0.0]), None);
        assert_eq!(jain(&[1.0, 3.0]), Some(0.8));
    }

    #[test]
    fn variation_is_relative_to_the_mean() {
        assert_eq!(coefficient_of_variation(&[9.0, 11.0]), Some(2.0_f64.sqrt() / 10.0));
        assert_eq!(coefficient_of_variation(&[1.0]), None);
        assert_eq!(coefficient_of_variation(&[-1.0, 1.0]), None);
    }
}
