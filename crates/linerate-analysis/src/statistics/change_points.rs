//! Change points of the mean of a series (docs/methodology/repeats.md#steady-state).
//!
//! Candidates are the cuts that minimise the squared distances from the means of the pieces plus a
//! penalty for each cut: optimal partitioning (Jackson et al. 2005), whose result PELT (Killick,
//! Fearnhead and Eckley 2012) finds faster. A candidate remains if the means beside it differ by at
//! least [`LEAST_CHANGE`] and, by Student's test, with a chance below [`CHANCE`], as in Hunter and
//! Otava. The weakest candidate is removed first, and its neighbours are then tested again.
//! Readings that follow their predecessors carry less information: of n readings the test counts n
//! (1 - r) / (1 + r), where r is the correlation with the previous reading within the pieces.
//!
//! Not covered: a change shorter than [`SHORTEST`] readings, a change of the spread alone, and a
//! slow drift, which no cut explains well.

use std::ops::Range;

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::order::median;
use super::spread::mean;

/// Readings of the shortest piece.
const SHORTEST: usize = 2;
/// Probability below which a change is not put down to chance (Otava's own is the same).
const CHANCE: f64 = 0.001;
/// Change of the larger level below which it does not matter.
const LEAST_CHANGE: f64 = 0.05;
/// Penalty of a cut in variances of a reading, times the logarithm of their number: more than the 2
/// of Schwarz's criterion (a place and a level are two numbers), as the variance is itself
/// estimated.
const PENALTY: f64 = 3.0;
/// Median absolute deviation of a normal distribution, in standard deviations.
const NORMAL_MAD: f64 = 0.674_489_750_196_081_7;
/// Largest correlation accepted; above it the test has no power.
const MOST_CORRELATED: f64 = 0.95;

/// Returns the first reading of each new level of `series`. Empty for fewer than four readings or
/// if one is not finite. O(n^2) time in the number of readings.
#[must_use]
pub(crate) fn change_points(series: &[f64]) -> Vec<usize> {
    // A constant series has no change, and its penalty would be zero.
    let variance = variance_of_reading(series);
    if series.len() < 2 * SHORTEST
        || variance <= 0.0
        || series.iter().any(|value| !value.is_finite())
    {
        return Vec::new();
    }
    let mut cuts = partition(series, PENALTY * variance * (series.len() as f64).ln());
    // One cut at a time: removing a cut changes the pieces, and so the significance of its
    // neighbours.
    while let Some(weakest) = weakest(series, &cuts) {
        cuts.remove(weakest);
    }
    cuts
}

/// Returns the ranges of `series` that have a level of their own, each with its mean, in order; one
/// range where no change is significant, and none without readings.
#[must_use]
pub fn levels(series: &[f64]) -> Vec<(Range<usize>, f64)> {
    let pieces = pieces(series.len(), &change_points(series)).into_iter();
    pieces.filter_map(|piece| Some((piece.clone(), mean(&series[piece])?))).collect()
}

/// Returns the cuts of `series` that make squared distances plus `penalty` for each cut smallest.
pub(super) fn partition(series: &[f64], penalty: f64) -> Vec<usize> {
    let n = series.len();
    // Sums of all before each place, of distances from the first reading so that large levels do
    // not cost digits.
    let (mut sums, mut squares) = (vec![0.0; n + 1], vec![0.0; n + 1]);
    for (place, value) in series.iter().enumerate() {
        let distance = value - series[0];
        sums[place + 1] = sums[place] + distance;
        squares[place + 1] = squares[place] + distance * distance;
    }
    let cost = |piece| squared_error(piece, &sums, &squares);
    // The least cost of all before each place, and where the last piece of that begins.
    let (mut least, mut begins) = (vec![f64::INFINITY; n + 1], vec![0; n + 1]);
    // The first piece pays no penalty, because it needs no cut.
    least[0] = -penalty;
    for end in SHORTEST..=n {
        for start in 0..=end - SHORTEST {
            let total = least[start] + cost(start..end) + penalty;
            // Strictly less, so that among equal partitions the earliest cut is kept and results
            // repeat.
            if total < least[end] {
                (least[end], begins[end]) = (total, start);
            }
        }
    }
    let mut cuts = Vec::new();
    let mut end = n;
    while begins[end] > 0 {
        end = begins[end];
        cuts.push(end);
    }
    cuts.reverse();
    cuts
}

/// Returns the squared error of the mean of `piece`, from the running `sums` of the values and of
/// their `squares`.
fn squared_error(piece: Range<usize>, sums: &[f64], squares: &[f64]) -> f64 {
    let sum = sums[piece.end] - sums[piece.start];
    squares[piece.end] - squares[piece.start] - sum * sum / piece.len() as f64
}

/// Returns the pieces that `cuts` make of `n` readings.
pub(super) fn pieces(n: usize, cuts: &[usize]) -> Vec<Range<usize>> {
    let starts = std::iter::once(0).chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain(std::iter::once(n));
    starts.zip(ends).map(|(start, end)| start..end).collect()
}

/// Returns the least significant cut of `cuts` if it fails the test.
fn weakest(series: &[f64], cuts: &[usize]) -> Option<usize> {
    let pieces = pieces(series.len(), cuts);
    let correlated = correlation_within(series, &pieces);
    let doubts = pieces
        .windows(2)
        .map(|beside| doubt(&series[beside[0].clone()], &series[beside[1].clone()], correlated));
    let doubts = doubts.enumerate().filter(|(_, doubt)| *doubt >= CHANCE);
    doubts.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(number, _)| number)
}

/// Returns how doubtful a change between `before` and `after` is: the probability that it is
/// chance, or more than one for a change that is too small to matter.
fn doubt(before: &[f64], after: &[f64], correlated: f64) -> f64 {
    let change = relative_change(before, after);
    // A change too small is worse than one by chance.
    if change < LEAST_CHANGE { 2.0 - change } else { probability(before, after, correlated) }
}

/// Difference of the means over the larger of them.
fn relative_change(before: &[f64], after: &[f64]) -> f64 {
    let (before, after) = (mean(before).unwrap_or(0.0), mean(after).unwrap_or(0.0));
    let larger = before.abs().max(after.abs());
    if larger > 0.0 { (after - before).abs() / larger } else { 0.0 }
}

/// Returns the two-sided probability of means as far apart by chance: Student's test of equal
/// variances, `correlated` being how far a reading follows the one before.
pub(super) fn probability(before: &[f64], after: &[f64], correlated: f64) -> f64 {
    let (Some(first), Some(second)) = (mean(before), mean(after)) else { return 1.0 };
    let scatter =
        |values: &[f64], mean: f64| values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    let freedom = (before.len() + after.len()) as f64 - 2.0;
    let variance = (scatter(before, first) + scatter(after, second)) / freedom;
    // Readings without scatter differ certainly or not at all.
    if freedom <= 0.0 || variance == 0.0 {
        return if first == second { 1.0 } else { 0.0 };
    }
    // Correlated readings repeat their predecessors. They count as fewer independent ones, or noise
    // would look like a change.
    let news = (1.0 - correlated) / (1.0 + correlated);
    let (n, m) = (before.len() as f64 * news, after.len() as f64 * news);
    let t = (second - first).abs() / (variance * (1.0 / n + 1.0 / m)).sqrt();
    let student =
        // Strong correlation can leave less than one degree of freedom.
        StudentsT::new(0.0, 1.0, (n + m - 2.0).max(1.0)).expect("there are degrees of freedom");
    2.0 * student.sf(t)
}

/// Returns the correlation of a reading with the previous one within `pieces`, from 0 to
/// [`MOST_CORRELATED`]. Subtracting the mean of each piece removes correlation, `(1 + 3 r) / n` of
/// it in a piece of n (Kendall 1954); that part is added back.
fn correlation_within(series: &[f64], pieces: &[Range<usize>]) -> f64 {
    let (mut products, mut squares) = (0.0, 0.0);
    for piece in pieces {
        let values = &series[piece.clone()];
        let mean = mean(values).unwrap_or(0.0);
        products += values.windows(2).map(|two| (two[0] - mean) * (two[1] - mean)).sum::<f64>();
        squares += values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    }
    if squares == 0.0 {
        return 0.0;
    }
    let raw: f64 = products / squares;
    let taken = pieces.len() as f64 * (1.0 + 3.0 * raw.max(0.0)) / series.len() as f64;
    (raw + taken).clamp(0.0, MOST_CORRELATED)
}

/// Variance of a reading about its level, from differences of neighbours: those see a change of
/// level once. Half of the differences may be of anything; where more than half are equal, all of
/// them count.
fn variance_of_reading(series: &[f64]) -> f64 {
    let steps: Vec<f64> = series.windows(2).map(|two| two[1] - two[0]).collect();
    let Some(middle) = median(&steps) else { return 0.0 };
    let distances: Vec<f64> = steps.iter().map(|step| (step - middle).abs()).collect();
    let deviation = median(&distances).unwrap_or(0.0) / NORMAL_MAD;
    // The median resists steps between levels, which are no noise. If most steps are zero, only all
    // of them show any scatter.
    let of_steps = if deviation > 0.0 {
        deviation * deviation
    } else {
        let mean = mean(&steps).unwrap_or(0.0);
        mean_of_squares(&steps, mean)
    };
    // The difference of two readings has twice the variance of one.
    of_steps / 2.0
}

fn mean_of_squares(values: &[f64], about: f64) -> f64 {
    values.iter().map(|value| (value - about).powi(2)).sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::intel;
    use crate::statistics::oracle::{self, noise};

    /// `fixtures/oracles/change-points.json`: PELT and dynamic programming of ruptures, Student's
    /// test of scipy.
    #[test]
    fn cuts_and_probabilities_are_those_of_ruptures_and_scipy() {
        for case in oracle::cases(include_str!("../../fixtures/oracles/change-points.json")) {
            let (name, series) =
                (case["name"].as_str().expect("a name"), oracle::numbers(&case["series"]));
            let expected: Vec<usize> =
                oracle::numbers(&case["cuts"]).iter().map(|cut| *cut as usize).collect();
            let penalty = case["penalty"].as_f64().expect("a penalty");
            assert_eq!(partition(&series, penalty), expected, "{name}, penalty {penalty}");
            let found: Vec<f64> = pieces(series.len(), &expected)
                .windows(2)
                .map(|beside| {
                    probability(&series[beside[0].clone()], &series[beside[1].clone()], 0.0)
                })
                .collect();
            for (found, expected) in found.iter().zip(oracle::numbers(&case["p"])) {
                assert!(
                    (found - expected).abs() <= 1e-9 + 1e-6 * expected,
                    "{name}: p {found} instead of {expected}"
                );
            }
        }
    }

    /// docs/methodology/repeats.md#steady-state: the series of Otava's own README.
    #[test]
    fn ten_readings_of_one_and_ten_of_a_half_change_once() {
        let level = |of: f64| {
            [0.02, -0.01, 0.01, -0.02, 0.0, 0.01, -0.01, 0.02, 0.0, -0.02].map(|noise| of + noise)
        };
        let series = [level(1.0), level(0.5)].concat();
        assert_eq!(change_points(&series), [10]);
    }

    #[test]
    fn intel_series_change_where_they_fall_or_stand_still() {
        assert_eq!(change_points(&intel::values("11.1.1 default RHEL | B2 bi N2B")), [12]);
        assert_eq!(change_points(&intel::values("11.2.2 modified WIN | B1 bi N2B")), [23, 28]);
        assert_eq!(change_points(&intel::values("11.1.1 default RHEL | B1 uni N2B")), [0; 0]);
    }

    /// Seeded: 200 series of each length. A reading may follow the one before.
    #[test]
    fn noise_is_seldom_cut_and_a_fall_by_four_deviations_is_found() {
        for (n, follows, most) in
            [(12, 0.0, 4), (20, 0.0, 6), (60, 0.0, 6), (12, 0.3, 6), (60, 0.3, 16), (60, 0.6, 24)]
        {
            let made: Vec<Vec<f64>> = (0..200)
                .map(|seed| noise(n, follows, seed).iter().map(|x| 100.0 + 10.0 * x).collect())
                .collect();
            let claims = made.iter().filter(|series| !change_points(series).is_empty()).count();
            assert!(claims <= most, "{n} readings, correlation {follows}: {claims} of 200 cut");
        }
        let found = (0..200).filter(|seed| {
            let mut series: Vec<f64> =
                noise(60, 0.0, *seed).iter().map(|x| 100.0 + 10.0 * x).collect();
            series[30..].iter_mut().for_each(|value| *value -= 40.0);
            change_points(&series).len() == 1
        });
        assert!(found.count() >= 196);
    }

    #[test]
    fn constants_and_what_is_too_short_have_no_change() {
        assert!(change_points(&[5.0; 40]).is_empty());
        assert!(change_points(&[1.0, 2.0, 3.0]).is_empty());
        assert!(change_points(&[1.0, f64::NAN, 1.0, 9.0, 9.0, 9.0]).is_empty());
        assert_eq!(
            change_points(&[[3.0; 8], [6.0; 8]].concat()),
            [8],
            "quantised readings have no spread at all"
        );
        assert!(change_points(&[[100.0; 8], [103.0; 8]].concat()).is_empty(), "3 % do not matter");
    }
}
