//! Test whether a load had reached a steady state: both criteria of the SNIA Performance Test
//! Specification 2.0.1, clause 2.1.24.
//!
//! Over a window of five rounds, (a) the largest less the smallest value is at most 20 % of their
//! mean, and (b) the best straight line rises or falls by at most 10 % of the mean from the first
//! round to the last. Rounds are fifths of a trial's measured span. As in the specification, rounds
//! are also the repeats of a point in the order they were run, all points of a round one after the
//! other (`order` of a plan: interleaved). Not covered: a change slower than the trial, or than the
//! repeats.

use serde::{Deserialize, Serialize};

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

/// Steadiness of a row: of its trials, or of its repeats as rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Steady {
    /// Trials or rounds that were judged.
    pub of: SteadyOf,
    /// Largest less smallest value, as a fraction of the mean.
    pub range: f64,
    /// Change of the trend over the window, as a fraction of the mean.
    pub excursion: f64,
}

/// Trials or rounds that were judged as steady or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SteadyOf {
    /// Trials, each by its own rounds.
    Trials {
        /// Trials that attained a steady state.
        attained: usize,
        /// Trials.
        of: usize,
    },
    /// A window of rounds: the first steady one, or the last one.
    Rounds {
        /// True if it is steady.
        attained: bool,
        /// Number of its first round, from 1.
        first: usize,
        /// Number of its last round.
        last: usize,
        /// Rounds.
        of: usize,
    },
}

/// Returns the steadiness of `trials`, with the range and excursion of the worst one; `None` if
/// there are none.
pub(super) fn of_trials(trials: &[Steadiness]) -> Option<Steady> {
    let worst = |of: fn(&Steadiness) -> f64| trials.iter().map(of).reduce(f64::max);
    let attained = trials.iter().filter(|trial| trial.is_attained()).count();
    Some(Steady {
        of: SteadyOf::Trials { attained, of: trials.len() },
        range: worst(|trial| trial.range)?,
        excursion: worst(|trial| trial.excursion)?,
    })
}

/// Returns the steadiness of `rounds`, one rate for each repeat of a point in the order they were
/// run: the first steady window, or the last one. `None` if there are too few for a window.
pub(super) fn of_rounds(rounds: &[f64]) -> Option<Steady> {
    let windows: Vec<Steadiness> =
        rounds.windows(ROUNDS).map(Steadiness::of).collect::<Option<_>>()?;
    let steady = windows.iter().position(|window| window.is_attained());
    let at = steady.or(windows.len().checked_sub(1))?;
    let Steadiness { range, excursion } = windows[at];
    let (attained, of) = (steady.is_some(), rounds.len());
    let of = SteadyOf::Rounds { attained, first: at + 1, last: at + ROUNDS, of };
    Some(Steady { of, range, excursion })
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
        assert_eq!(of_trials(&[]), None);
    }

    #[test]
    fn the_first_steady_window_of_rounds_is_found_or_else_the_last() {
        let window = |rounds: &[f64]| of_rounds(rounds).expect("two windows");
        let settles = window(&[200.0, 150.0, 110.0, 100.0, 100.0, 101.0, 99.0, 100.0]);
        assert_eq!(settles.of, SteadyOf::Rounds { attained: true, first: 3, last: 7, of: 8 });
        assert!((settles.range - 0.108).abs() < 5e-4 && (settles.excursion - 0.082).abs() < 5e-4);
        let falls = [400.0, 340.0, 300.0, 260.0, 200.0, 150.0];
        let last = window(&falls);
        assert_eq!(last.of, SteadyOf::Rounds { attained: false, first: 2, last: 6, of: 6 });
        assert!((last.range - 0.76).abs() < 5e-4, "{last:?}");
        assert_eq!(of_rounds(&falls[..4]), None);
        assert_eq!(of_rounds(&[0.0; 5]), None);
    }

    #[test]
    fn a_row_has_the_figures_of_its_worst_trial() {
        let (still, moving) = (of(&[100.0; 5]), of(&[150.0, 125.0, 100.0, 75.0, 50.0]));
        let row = of_trials(&[still, moving]).expect("two");
        let of = SteadyOf::Trials { attained: 1, of: 2 };
        assert_eq!(row, Steady { of, range: moving.range, excursion: moving.excursion });
    }
}
