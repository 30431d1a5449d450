//! Spearman's rank correlation, and the drift test based on it
//! (docs/methodology/repeats.md#stop-conditions).

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::mean;

/// A rank correlation with the order of the runs beyond this may be a drift.
pub(crate) const DRIFT: f64 = 0.7;
/// Probability below which a correlation is not put down to chance: a campaign has hundreds of
/// points, and among six runs without any drift one point in seven correlates by more than
/// [`DRIFT`].
const CHANCE: f64 = 0.01;
/// Runs needed before a drift may be claimed: five in strict order happen by chance too often (2/5!
/// = 1.7 %).
const ENOUGH_RUNS: usize = 6;

/// Returns Spearman's rho of two series with mean ranks for ties. `None` below two pairs, on
/// unequal lengths, or where one series is constant.
#[must_use]
pub(crate) fn spearman(x: &[f64], y: &[f64]) -> Option<f64> {
    if x.len() != y.len() || x.len() < 2 {
        return None;
    }
    let (x, y) = (ranks(x), ranks(y));
    let (mean_x, mean_y) = (mean(&x)?, mean(&y)?);
    let covariance: f64 = x.iter().zip(&y).map(|(a, b)| (a - mean_x) * (b - mean_y)).sum();
    let spread =
        |ranks: &[f64], mean: f64| ranks.iter().map(|rank| (rank - mean).powi(2)).sum::<f64>();
    let scale = (spread(&x, mean_x) * spread(&y, mean_y)).sqrt();
    // A constant series has no order to compare with.
    (scale > 0.0).then(|| covariance / scale)
}

/// Returns the rank correlation of `values` with the order they were measured in, if it is strong
/// enough to be called a drift.
///
/// # Examples
/// ```
/// use linerate_analysis::statistics::drifts;
///
/// // Ten runs, each slower than the one before: the rank correlation with time is -1.
/// let slower: Vec<f64> = (0..10).map(|run| 100.0 - f64::from(run)).collect();
/// assert!((drifts(&slower).expect("a drift") + 1.0).abs() < 1e-12);
/// // Runs that alternate do not drift.
/// assert_eq!(drifts(&[9.0, 10.0, 9.1, 10.1, 9.0, 10.0, 9.1, 10.1]), None);
/// ```
#[must_use]
pub fn drifts(values: &[f64]) -> Option<f64> {
    let order: Vec<f64> = (0..values.len()).map(|i| i as f64).collect();
    // The size of the correlation and its probability are both required: many runs make a weak one
    // significant, and few make a strong one common.
    let strong = |rho: &f64| values.len() >= ENOUGH_RUNS && rho.abs() > DRIFT;
    spearman(&order, values)
        .filter(strong)
        .filter(|rho| probability_of(*rho, values.len()) < CHANCE)
}

/// Returns the two-sided probability of a correlation this strong without any, Student's t
/// approximation.
fn probability_of(rho: f64, n: usize) -> f64 {
    let freedom = n as f64 - 2.0;
    // A perfect order would divide by zero.
    let t = rho.abs() * (freedom / (1.0 - rho * rho).max(f64::EPSILON)).sqrt();
    let student = StudentsT::new(0.0, 1.0, freedom).expect("there are degrees of freedom");
    2.0 * (1.0 - student.cdf(t))
}

/// Returns the ranks from 1, tied values sharing the mean of their ranks.
pub(super) fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    while start < order.len() {
        let tied = order[start..]
            .iter()
            .take_while(|&&i| values[i] == values[order[start]])
            .count()
            .max(1);
        // Tied values share a rank, or their arbitrary order would count as a trend.
        let shared = start as f64 + (tied as f64 + 1.0) / 2.0;
        for &i in &order[start..start + tied] {
            ranks[i] = shared;
        }
        start += tied;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rho_is_one_for_any_rising_series_and_shares_ties() {
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[10.0, 100.0, 1000.0]), Some(1.0));
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), Some(-1.0));
        assert_eq!(ranks(&[5.0, 1.0, 5.0]), vec![2.5, 1.0, 2.5]);
        assert_eq!(spearman(&[1.0, 2.0], &[4.0, 4.0]), None);
    }

    #[test]
    fn a_drift_needs_six_runs_and_a_strong_order() {
        assert!(drifts(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).is_some());
        assert_eq!(drifts(&[1.0, 2.0, 3.0, 4.0, 5.0]), None);
        assert_eq!(drifts(&[3.0, 1.0, 6.0, 2.0, 5.0, 4.0]), None);
        assert_eq!(
            drifts(&[1.0, 3.0, 2.0, 5.0, 4.0, 6.0]),
            None,
            "rho 0.886, which six runs reach by chance too often"
        );
    }
}
