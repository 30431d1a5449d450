//! Shift between two sets of runs: Hodges-Lehmann estimates with rank intervals
//! (docs/methodology/with-and-without.md#the-figure).
//!
//! Paired: the median of the Walsh averages, interval from the exact Wilcoxon signed-rank
//! distribution (normal beyond `EXACT` pairs). Unpaired: the median of all differences, interval
//! from the Mann-Whitney normal approximation. Ratios are compared as logarithms. Not covered:
//! dependence between runs.

use statrs::distribution::{ContinuousCDF, Normal};

use super::order::{median_of_sorted, sorted};

/// Pairs up to which the signed-rank distribution is counted exactly.
const EXACT: usize = 50;
/// Two-sided error of an interval that is examined once.
pub(crate) const ALPHA: f64 = 0.05;

/// An estimated shift.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// Hodges-Lehmann estimate.
    pub value: f64,
    /// Interval at 95 %, or at the requested confidence; `None` where there are too few runs for
    /// one (at 95 %: fewer than six pairs).
    pub interval: Option<(f64, f64)>,
    /// Probability that a run of the second set exceeds one of the first, ties halved.
    pub superiority: f64,
    /// Probability of a shift as large, either way, if there were none. Paired: exact signed rank,
    /// ties ranked in the middle and pairs that do not differ left out. Not paired: rank sum, exact
    /// where no value occurs twice and no side has more than 50 runs, else normal with the
    /// correction for ties. `None` if nothing differs.
    pub p: Option<f64>,
}

/// Returns shift of `b` against `a`, run by run; `None` without values or on unequal lengths.
#[must_use]
pub(crate) fn paired_shift(a: &[f64], b: &[f64]) -> Option<Shift> {
    paired_shift_within(a, b, ALPHA)
}

/// Returns the same with an interval whose error is at most `error`.
#[must_use]
pub(crate) fn paired_shift_within(a: &[f64], b: &[f64], error: f64) -> Option<Shift> {
    if a.len() != b.len() || a.is_empty() {
        return None;
    }
    let changes: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - a).collect();
    let mut walsh = Vec::with_capacity(changes.len() * (changes.len() + 1) / 2);
    for (i, x) in changes.iter().enumerate() {
        // Each value is also paired with itself, which makes the estimate that of the signed-rank
        // test.
        walsh.extend(changes[i..].iter().map(|y| (x + y) / 2.0));
    }
    let walsh = sorted(&walsh);
    let interval =
        signed_rank_cut(changes.len(), error).map(|cut| (walsh[cut], walsh[walsh.len() - 1 - cut]));
    Some(Shift {
        value: median_of_sorted(&walsh)?,
        interval,
        superiority: superiority(&[0.0], &changes),
        p: signed_rank_p(&changes),
    })
}

/// Returns shift of the logarithm of `b / a`, run by run: `exp` of it is the typical ratio; its
/// interval is wrong by no more than `error`. `None` where a value is not positive.
#[must_use]
pub(crate) fn log_ratio_shift(a: &[f64], b: &[f64], error: f64) -> Option<Shift> {
    let logarithms = |values: &[f64]| {
        values.iter().map(|value| (*value > 0.0).then(|| value.ln())).collect::<Option<Vec<f64>>>()
    };
    paired_shift_within(&logarithms(a)?, &logarithms(b)?, error)
}

/// Returns shift of `b` against `a`, runs not paired; `None` if one is empty. O(n m log(n m)).
///
/// # Examples
/// ```
/// use linerate_analysis::statistics::unpaired_shift;
///
/// let before = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
/// let after = before.map(|value| value + 10.0);
/// // Hodges-Lehmann: the median of all 36 differences.
/// assert_eq!(unpaired_shift(&before, &after).expect("two groups").value, 10.0);
/// ```
#[must_use]
pub fn unpaired_shift(a: &[f64], b: &[f64]) -> Option<Shift> {
    unpaired_shift_within(a, b, ALPHA)
}

/// Returns the same with an interval whose error is at most `error`.
#[must_use]
pub(crate) fn unpaired_shift_within(a: &[f64], b: &[f64], error: f64) -> Option<Shift> {
    let differences: Vec<f64> = b.iter().flat_map(|y| a.iter().map(move |x| y - x)).collect();
    let differences = sorted(&differences);
    let value = median_of_sorted(&differences)?;
    let (m, n) = (a.len() as f64, b.len() as f64);
    let deviation = (m * n * (m + n + 1.0) / 12.0).sqrt();
    // Rounded down, so that the interval is rather too wide than too narrow.
    let cut = (m * n / 2.0 - quantile_of_normal(error) * deviation).floor();
    let interval = (cut >= 1.0).then(|| {
        let rank = cut as usize;
        (differences[rank - 1], differences[differences.len() - rank])
    });
    Some(Shift { value, interval, superiority: superiority(a, b), p: rank_sum_p(a, b) })
}

/// Returns Walsh averages to leave out at each end so that the rest covers the shift with all but
/// `error`; `None` if even leaving out none does not.
fn signed_rank_cut(n: usize, error: f64) -> Option<usize> {
    let largest = n * (n + 1) / 2;
    if n > EXACT {
        let (n, mean) = (n as f64, largest as f64 / 2.0);
        let deviation = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
        return Some((mean - quantile_of_normal(error) * deviation).floor().max(0.0) as usize);
    }
    let mut ways = vec![0.0; largest + 1];
    ways[0] = 1.0;
    for rank in 1..=n {
        // Downwards, so that each rank is used at most once.
        for sum in (rank..=largest).rev() {
            ways[sum] += ways[sum - rank];
        }
    }
    let total = 2.0_f64.powi(i32::try_from(n).expect("at most fifty"));
    let mut tail = 0.0;
    let within = ways.iter().take_while(|count| {
        tail += **count / total;
        // Half of the error belongs to each end.
        tail <= error / 2.0
    });
    within.count().checked_sub(1)
}

/// Returns the two-sided probability of signed ranks as far from even as those of `changes`. Exact
/// up to [`EXACT`] pairs that differ, normal beyond.
fn signed_rank_p(changes: &[f64]) -> Option<f64> {
    // Pairs without a difference say nothing about a direction (Wilcoxon's own rule).
    let mut differing: Vec<f64> = changes.iter().copied().filter(|change| *change != 0.0).collect();
    if differing.is_empty() {
        return None;
    }
    differing.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    // Twice the rank, so that a rank between two is whole.
    let ranks: Vec<usize> = differing
        .iter()
        .map(|change| {
            let below = differing.iter().filter(|other| other.abs() < change.abs()).count();
            let equal = differing.iter().filter(|other| other.abs() == change.abs()).count();
            2 * below + equal + 1
        })
        .collect();
    let total: usize = ranks.iter().sum();
    let up: usize = ranks
        .iter()
        .zip(&differing)
        .filter(|(_, change)| **change > 0.0)
        .map(|(rank, _)| rank)
        .sum();
    // Both tails are equally likely, so the smaller sum is doubled below.
    let smaller = up.min(total - up);
    if ranks.len() > EXACT {
        let deviation = ranks.iter().map(|rank| (*rank as f64).powi(2)).sum::<f64>().sqrt() / 2.0;
        return Some(
            (2.0 * Normal::standard().cdf((smaller as f64 - total as f64 / 2.0) / deviation))
                .min(1.0),
        );
    }
    // The number of ways to give signs to the ranks, by the sum of the positive ones.
    let mut ways = vec![0.0; total + 1];
    ways[0] = 1.0;
    for rank in &ranks {
        for sum in (*rank..=total).rev() {
            ways[sum] += ways[sum - rank];
        }
    }
    let all = 2.0_f64.powi(i32::try_from(ranks.len()).expect("at most fifty"));
    Some((2.0 * ways[..=smaller].iter().sum::<f64>() / all).min(1.0))
}

/// Returns the two-sided probability of a rank sum as far from even as that of `b` against `a`
/// (Mann and Whitney 1947).
fn rank_sum_p(a: &[f64], b: &[f64]) -> Option<f64> {
    let (m, n) = (a.len(), b.len());
    let all = sorted(&[a, b].concat());
    let runs_of_equals: Vec<usize> = all.chunk_by(|x, y| x == y).map(<[f64]>::len).collect();
    if runs_of_equals.len() < 2 {
        return None;
    }
    let wins = superiority(a, b) * (m * n) as f64;
    let smaller = wins.min((m * n) as f64 - wins);
    if runs_of_equals.len() == all.len() && m.max(n) <= EXACT {
        let ways = rank_sum_ways(m, n);
        let total: f64 = ways.iter().sum();
        return Some((2.0 * ways[..=smaller as usize].iter().sum::<f64>() / total).min(1.0));
    }
    let (size, pairs) = ((m + n) as f64, (m * n) as f64);
    let ties: f64 = runs_of_equals.iter().map(|&equal| (equal as f64).powi(3) - equal as f64).sum();
    let deviation = (pairs / 12.0 * (size + 1.0 - ties / (size * (size - 1.0)))).sqrt();
    // The statistic moves in steps: half of one towards the middle.
    let distance = (pairs / 2.0 - smaller - 0.5).max(0.0);
    Some((2.0 * Normal::standard().cdf(-distance / deviation)).min(1.0))
}

/// In how many orders of `m` and `n` runs the second set wins 0, 1, 2, ... of the `m n`
/// comparisons.
fn rank_sum_ways(m: usize, n: usize) -> Vec<f64> {
    // counts[j][u]: orders of the runs so far, j of them of the second set, which wins u.
    let mut counts = vec![vec![0.0; m * n + 1]; n + 1];
    counts[0][0] = 1.0;
    for placed in 1..=m + n {
        let before = counts.clone();
        for second in 0..=n.min(placed) {
            let first = placed - second;
            if first > m {
                // More runs of the first set than exist: no such order.
                counts[second].fill(0.0);
                continue;
            }
            for wins in 0..=m * n {
                // The run placed last is of the first set, or of the second, which then wins over
                // every one of the first.
                let of_first = if first > 0 { before[second][wins] } else { 0.0 };
                let of_second = if second > 0 && wins >= first {
                    before[second - 1][wins - first]
                } else {
                    0.0
                };
                counts[second][wins] = of_first + of_second;
            }
        }
    }
    counts.swap_remove(n)
}

fn quantile_of_normal(error: f64) -> f64 {
    Normal::standard().inverse_cdf(1.0 - error / 2.0)
}

fn superiority(a: &[f64], b: &[f64]) -> f64 {
    let wins: f64 = b
        .iter()
        .flat_map(|y| {
            a.iter().map(move |x| {
                if y > x {
                    1.0
                } else if y == x {
                    0.5
                } else {
                    0.0
                }
            })
        })
        .sum();
    wins / (a.len() * b.len()) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::intel;

    /// docs/methodology/with-and-without.md#the-figure: Intel, modified against default buffers,
    /// Mbit/s, with seconds as units of replication.
    #[test]
    fn intel_shifts_match_the_reference() {
        for (from, to, value, low, high, superiority) in [
            (
                "11.1.1 default RHEL | B1 uni N2B",
                "11.2.1 modified RHEL | B1 uni N2B",
                -1.00,
                -3.20,
                2.10,
                Some(0.473),
            ),
            (
                "11.1.1 default RHEL | B1 bi N2B",
                "11.2.1 modified RHEL | B1 bi N2B",
                20.96,
                18.90,
                22.06,
                Some(0.959),
            ),
            (
                "11.1.2 default WIN | B1 uni N2B",
                "11.2.2 modified WIN | B1 uni N2B",
                58.91,
                56.55,
                61.51,
                None,
            ),
            (
                "11.1.2 default WIN | B2 bi B2N",
                "11.2.2 modified WIN | B2 bi B2N",
                -39.80,
                -42.00,
                -36.70,
                None,
            ),
        ] {
            let shift = unpaired_shift(&intel::values(from), &intel::values(to))
                .expect("sixty values each");
            let interval = shift.interval.expect("sixty values each");
            for (got, expected) in [(shift.value, value), (interval.0, low), (interval.1, high)] {
                assert!((got - expected).abs() < 0.011, "{from}: {got} instead of {expected}");
            }
            if let Some(superiority) = superiority {
                assert!(
                    (shift.superiority - superiority).abs() < 0.001,
                    "{from}: {}",
                    shift.superiority
                );
            }
        }
    }

    /// Six pairs are the fewest for 95 % (2/2^6 = 3.1 %): the interval is the whole range of the
    /// Walsh averages.
    #[test]
    fn six_pairs_are_the_fewest_for_an_interval() {
        let a = [0.0; 6];
        let b = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let shift = paired_shift(&a, &b).expect("six pairs");
        assert_eq!((shift.value, shift.interval), (3.5, Some((1.0, 6.0))));
        assert_eq!(paired_shift(&a[..5], &b[..5]).expect("five pairs").interval, None);
    }

    /// Critical values of the signed-rank statistic at 5 % two-sided: 8 at n = 10, 52 at n = 20
    /// (standard tables).
    #[test]
    fn exact_cuts_match_the_tables() {
        assert_eq!(signed_rank_cut(10, ALPHA), Some(8));
        assert_eq!(signed_rank_cut(20, ALPHA), Some(52));
        // At 1 %: 3 of n = 10, 37 of n = 20.
        assert_eq!((signed_rank_cut(10, 0.01), signed_rank_cut(20, 0.01)), (Some(3), Some(37)));
        assert_eq!((signed_rank_cut(6, ALPHA), signed_rank_cut(6, 0.01)), (Some(0), None));
    }

    /// Rank sums of the smaller sign whose two-sided probability the standard tables print: 8 of n
    /// = 10 is 4.88 %, 52 of n = 20 is 4.84 %.
    #[test]
    fn probabilities_match_the_tables() {
        let p = |n: i32, down: &[i32]| {
            let changes: Vec<f64> = (1..=n)
                .map(|rank| f64::from(if down.contains(&rank) { -rank } else { rank }))
                .collect();
            signed_rank_p(&changes).expect("they differ")
        };
        assert!((p(10, &[8]) - 0.048_828).abs() < 1e-6, "{}", p(10, &[8]));
        assert!((p(20, &[20, 19, 13]) - 0.048_441).abs() < 1e-5, "{}", p(20, &[20, 19, 13]));
        assert_eq!(signed_rank_p(&[0.0, 0.0]), None);
        // Two of one size: each has rank 1.5, and of four ways two have a sum as small as one of
        // them.
        assert_eq!(signed_rank_p(&[1.0, -1.0]), Some(1.0));
    }

    /// scipy.stats.mannwhitneyu, two-sided: method="exact" without ties, "asymptotic" with
    /// continuity correction with them.
    #[test]
    fn rank_sum_probabilities_match_scipy() {
        let p = |a: &[f64], b: &[f64]| rank_sum_p(a, b).expect("they differ");
        for (a, b, expected) in [
            (&[1.0, 2.0, 3.0, 4.0][..], &[5.0, 6.0, 7.0, 8.0][..], 0.028571428571),
            (
                &[1.1, 2.7, 3.3, 9.4, 5.2, 6.1],
                &[4.8, 7.5, 8.2, 2.2, 10.3, 11.7, 12.9],
                0.137529137529,
            ),
            (&[1.0, 2.0, 2.0, 3.0, 5.0], &[2.0, 4.0, 5.0, 6.0, 6.0, 7.0], 0.064146618734),
        ] {
            assert!(
                (p(a, b) - expected).abs() < 1e-9,
                "{a:?} {b:?}: {} instead of {expected}",
                p(a, b)
            );
        }
        assert_eq!(rank_sum_p(&[1.0, 1.0], &[1.0]), None, "nothing differs");
    }

    #[test]
    fn log_ratios_turn_a_factor_into_its_logarithm() {
        let a = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0];
        let b = a.map(|value| value * 1.5);
        let shift = log_ratio_shift(&a, &b, ALPHA).expect("positive");
        assert!((shift.value.exp() - 1.5).abs() < 1e-12);
        assert_eq!(log_ratio_shift(&[0.0], &[1.0], ALPHA), None);
    }
}
