//! Mean, spread and fairness.

/// Returns the arithmetic mean; `None` without values.
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
#[must_use]
pub fn coefficient_of_variation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|mean| *mean != 0.0)?;
    standard_deviation(values).map(|deviation| deviation / mean.abs())
}

/// Jain's fairness index `(Σx)² / (n Σx²)` (Jain, Chiu and Hawe 1984): 1 where all shares are
/// equal, 1/n where one takes all. `None` of nothing, or where every share is zero.
#[must_use]
pub fn jain(shares: &[f64]) -> Option<f64> {
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    let sum: f64 = shares.iter().sum();
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
