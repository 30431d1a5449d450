//! Test whether a load had reached a steady state: both criteria of the SNIA Performance Test
//! Specification 2.0.1, clause 2.1.24.
//!
//! Over a window of five rounds, (a) the largest less the smallest value is at most 20 % of their
//! mean, and (b) the best straight line rises or falls by at most 10 % of the mean from the first
//! round to the last. Rounds are fifths of a trial's measured span. As in the specification, rounds
//! are also the repeats of a point in the order they were run, all points of a round one after the
//! other (`order` of a plan: interleaved). Not covered: a change slower than the trial, or than the
//! repeats.

/// Rounds of the window.
pub(super) const ROUNDS: usize = 5;
/// Criterion (a).
const MOST_RANGE: f64 = 0.20;
/// Criterion (b).
const MOST_EXCURSION: f64 = 0.10;

/// Distance of a window's rounds from a steady state, as fractions of their mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Steadiness {
    /// Largest less smallest value.
    pub(super) range: f64,
    /// Change of the least-squares line over the window, without its sign.
    pub(super) excursion: f64,
}

impl Steadiness {
    /// Returns the steadiness of `rounds`; `None` if there are fewer than two, or nothing happened
    /// in them.
    pub(super) fn of(rounds: &[f64]) -> Option<Self> {
        let n = rounds.len() as f64;
        let mean = rounds.iter().sum::<f64>() / n;
        if rounds.len() < 2 || mean <= 0.0 {
            return None;
        }
        let middle = (n - 1.0) / 2.0;
        let (mut over, mut under) = (0.0, 0.0);
        for (place, value) in rounds.iter().enumerate() {
            let from_middle = place as f64 - middle;
            over += from_middle * (value - mean);
            under += from_middle * from_middle;
        }
        let (low, high) = rounds
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(*v), high.max(*v)));
        Some(Self {
            range: (high - low) / mean,
            excursion: (over / under).abs() * (n - 1.0) / mean,
        })
    }

    /// Returns whether both criteria are met.
    pub(super) fn is_attained(self) -> bool {
        self.range <= MOST_RANGE && self.excursion <= MOST_EXCURSION
    }
}

/// Returns the text of a row for the trials whose range and excursion are `trials`: that of the
/// worst one.
pub(super) fn told(trials: &[Steadiness]) -> Option<String> {
    let worst = |of: fn(&Steadiness) -> f64| trials.iter().map(of).fold(f64::NAN, f64::max) * 100.0;
    let attained = trials.iter().filter(|trial| trial.is_attained()).count();
    let word = match attained {
        _ if trials.is_empty() => return None,
        0 => "not attained".to_owned(),
        all if all == trials.len() => "attained".to_owned(),
        some => format!("attained in {some} of {} trials", trials.len()),
    };
    Some(format!(
        "{word}: range {:.1} %, trend {:.1} %",
        worst(|trial| trial.range),
        worst(|trial| trial.excursion)
    ))
}

/// Returns the text of a row for `rounds`, one rate for each repeat of its point in the order they
/// were run: the first steady window, or the distance of the last one from a steady state. `None`
/// if there are too few for a window.
pub(super) fn told_of_rounds(rounds: &[f64]) -> Option<String> {
    let windows: Vec<Steadiness> =
        rounds.windows(ROUNDS).map(Steadiness::of).collect::<Option<_>>()?;
    let last = *windows.last()?;
    let (word, window) = match windows.iter().position(|window| window.is_attained()) {
        Some(first) => (
            format!("attained in rounds {} to {} of {}", first + 1, first + ROUNDS, rounds.len()),
            windows[first],
        ),
        None => (format!("not attained in {} rounds, the last {ROUNDS} have", rounds.len()), last),
    };
    Some(format!(
        "{word}: range {:.1} %, trend {:.1} %",
        window.range * 100.0,
        window.excursion * 100.0
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rounds: &[f64]) -> Steadiness {
        Steadiness::of(rounds).expect("it has rounds")
    }

    #[test]
    fn both_criteria_must_hold() {
        assert!(of(&[100.0, 101.0, 99.0, 100.0, 100.0]).is_attained());
        // A straight fall by 16 %: within the range, not within the trend.
        let falls = of(&[108.0, 104.0, 100.0, 96.0, 92.0]);
        assert!(
            (falls.range - 0.16).abs() < 1e-12
                && (falls.excursion - 0.16).abs() < 1e-12
                && !falls.is_attained()
        );
        // Up and down by 30 %: no trend, but not within the range.
        let swings = of(&[100.0, 130.0, 100.0, 130.0, 100.0]);
        assert!(swings.excursion < 1e-9 && swings.range > 0.2 && !swings.is_attained());
    }

    #[test]
    fn the_limits_themselves_are_attained() {
        // Mean 100, a range of 20 and no trend; then a trend of 10.
        assert!(of(&[100.0, 110.0, 90.0, 110.0, 90.0]).range <= 0.20 + 1e-12);
        assert!((of(&[95.0, 97.5, 100.0, 102.5, 105.0]).excursion - 0.10).abs() < 1e-12);
    }

    #[test]
    fn what_did_not_happen_is_neither_steady_nor_not() {
        assert_eq!(Steadiness::of(&[0.0; 5]), None);
        assert_eq!(Steadiness::of(&[1.0]), None);
        assert_eq!(told(&[]), None);
    }

    #[test]
    fn the_first_steady_window_of_rounds_is_told_and_how_far_off_the_last_is() {
        let settles = [200.0, 150.0, 110.0, 100.0, 100.0, 101.0, 99.0, 100.0];
        assert_eq!(
            told_of_rounds(&settles).as_deref(),
            Some("attained in rounds 3 to 7 of 8: range 10.8 %, trend 8.2 %")
        );
        let falls = [400.0, 340.0, 300.0, 260.0, 200.0, 150.0];
        let told = told_of_rounds(&falls).expect("two windows");
        assert!(
            told.starts_with("not attained in 6 rounds, the last 5 have: range 76.0 %"),
            "{told}"
        );
        assert_eq!(told_of_rounds(&falls[..4]), None);
        assert_eq!(told_of_rounds(&[0.0; 5]), None);
    }

    #[test]
    fn a_row_names_its_worst_trial() {
        let (still, moving) = (of(&[100.0; 5]), of(&[150.0, 125.0, 100.0, 75.0, 50.0]));
        assert!(told(&[still]).expect("one").starts_with("attained: "));
        assert!(
            told(&[still, moving])
                .expect("two")
                .starts_with("attained in 1 of 2 trials: range 100.0 %, trend 100.0 %")
        );
        assert!(told(&[moving]).expect("one").starts_with("not attained"));
    }
}
