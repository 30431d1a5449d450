//! Warm-up detection: the marginal standard error rule, MSER and MSER-5 (White 1997;
//! docs/methodology/repeats.md#warm-up).
//!
//! The series is cut where the standard error of the mean of the rest is smallest. At most half of
//! it may be cut. The rule finds an initial transient; it does not see a drift that goes on to the
//! end, a late slowdown or a cycle: a truncation at the limit is a sign of those.

/// Observations averaged into one by MSER-5.
const BATCH: usize = 5;

/// Cut of the warm-up from a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncation {
    /// Observations to drop at the beginning.
    pub drop: usize,
    /// True if the cut is the longest allowed; the series may have no steady state.
    pub at_limit: bool,
}

/// MSER on single observations: where the sum of squared deviations of the rest over the square of
/// its length is smallest. `None` below two.
#[must_use]
pub(crate) fn mser(series: &[f64]) -> Option<Truncation> {
    let n = series.len();
    if n < 2 {
        return None;
    }
    let limit = n / 2;
    let mut best = (f64::INFINITY, 0);
    // From the end, so that each observation is added once (Welford's recurrence): O(n).
    let (mut mean, mut squares) = (0.0, 0.0);
    for (drop, value) in series.iter().enumerate().rev() {
        let kept = (n - drop) as f64;
        let distance = value - mean;
        mean += distance / kept;
        squares += distance * (value - mean);
        let statistic = squares / (kept * kept);
        // Less or equal, going backwards: of equal cuts the shortest is used.
        if drop <= limit && statistic <= best.0 {
            best = (statistic, drop);
        }
    }
    Some(Truncation { drop: best.1, at_limit: best.1 == limit })
}

/// MSER on means of five: less easily misled by noise. `drop` counts single observations; a rest
/// shorter than a batch is left out of the decision, not out of the series. `None` below two
/// batches.
#[must_use]
pub(crate) fn mser5(series: &[f64]) -> Option<Truncation> {
    let batches: Vec<f64> =
        series.chunks_exact(BATCH).map(|batch| batch.iter().sum::<f64>() / BATCH as f64).collect();
    mser(&batches).map(|cut| Truncation { drop: cut.drop * BATCH, ..cut })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::intel;

    /// docs/methodology/repeats.md#warm-up.
    #[test]
    fn intel_series_are_cut_where_the_reference_cuts_them() {
        let slowdown = intel::values("11.1.1 default RHEL | B2 bi N2B");
        assert_eq!(mser(&slowdown).expect("60 values").drop, 12);
        assert_eq!(mser5(&slowdown).expect("60 values").drop, 15);
        let steady = intel::values("11.1.1 default RHEL | B1 uni N2B");
        assert_eq!(mser(&steady).expect("60 values").drop, 0);
    }

    #[test]
    fn a_slow_start_is_cut_and_a_constant_is_not() {
        let mut series = vec![1.0, 2.0, 4.0, 8.0, 16.0];
        series.extend([32.0; 45]);
        assert_eq!(mser5(&series), Some(Truncation { drop: 5, at_limit: false }));
        assert_eq!(mser(&[7.0; 20]), Some(Truncation { drop: 0, at_limit: false }));
    }

    #[test]
    fn a_drift_to_the_end_cuts_to_the_limit() {
        let series: Vec<f64> = (0..40).map(|i| 100.0 * 0.8_f64.powi(i)).collect();
        assert!(mser5(&series).expect("forty values").at_limit);
    }
}
