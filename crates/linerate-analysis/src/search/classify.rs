//! Classifying one load by the seconds measured at it (RFC 9971, appendix A;
//! docs/methodology/searches.md#mlrsearch).
//!
//! A trial at least as long as the goal's is *full-length*, otherwise *short*; one that lost more
//! than the goal's ratio is *high-loss*. Time not yet measured could still turn out either way. If
//! the most optimistic and the most pessimistic guess agree, the load is decided. The published
//! worked example contradicts the published code at two points; this module follows the code, as
//! the reference implementation does.

use linerate_model::{Goal, Nanos};

use super::Observation;

/// The criterion for a load: a goal, or one of the coarser targets on the way to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Requirement {
    /// Most loss of a low-loss trial.
    pub loss_ratio: f64,
    /// Most high-loss time, of all.
    pub exceed_ratio: f64,
    /// Length of a full-length trial.
    pub trial: Nanos,
    /// Time that decides.
    pub duration_sum: Nanos,
}

impl From<&Goal> for Requirement {
    fn from(goal: &Goal) -> Self {
        Self {
            loss_ratio: goal.loss_ratio,
            exceed_ratio: goal.exceed_ratio,
            trial: goal.final_trial,
            duration_sum: goal.duration_sum,
        }
    }
}

/// Seconds measured at one load, by kind of trial.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seconds {
    /// Full-length, low-loss.
    pub full_low: f64,
    /// Full-length, high-loss.
    pub full_high: f64,
    /// Short, low-loss.
    pub short_low: f64,
    /// Short, high-loss.
    pub short_high: f64,
}

/// Classes of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Low enough.
    Lower,
    /// Too high.
    Upper,
    /// More must be measured.
    Undecided,
}

/// Returns the seconds of `trials`, all at one load.
pub fn seconds<'a>(
    requirement: &Requirement,
    trials: impl IntoIterator<Item = &'a Observation>,
) -> Seconds {
    let mut seconds = Seconds::default();
    for trial in trials {
        // Targets differ in trial length, so a load may have longer trials than this one asks for.
        let full = trial.duration >= requirement.trial;
        let low = trial.loss_ratio <= requirement.loss_ratio;
        let kind = match (full, low) {
            (true, true) => &mut seconds.full_low,
            (true, false) => &mut seconds.full_high,
            (false, true) => &mut seconds.short_low,
            (false, false) => &mut seconds.short_high,
        };
        *kind += trial.duration.as_secs_f64();
    }
    seconds
}

/// Returns the class of a load at which `seconds` were measured.
#[must_use]
pub fn classify(requirement: &Requirement, seconds: &Seconds) -> Class {
    let exceed = requirement.exceed_ratio;
    // Short low-loss time may offset short high-loss time, in the proportion that the goal
    // tolerates.
    let balancing = seconds.short_low * exceed / (1.0 - exceed);
    // A surplus of short low-loss time must not hide loss of full-length trials.
    let high = seconds.full_high + (seconds.short_high - balancing).max(0.0);
    let whole = (seconds.full_low + high).max(requirement.duration_sum.as_secs_f64());
    let quota = whole * exceed;
    // All time not yet measured is assumed to be good, then bad. If both agree, more trials cannot
    // change the result.
    let lower_if_the_rest_is_low = high <= quota;
    let lower_if_the_rest_is_high = whole - seconds.full_low <= quota;
    match (lower_if_the_rest_is_low, lower_if_the_rest_is_high) {
        (true, true) => Class::Lower,
        (false, false) => Class::Upper,
        _ => Class::Undecided,
    }
}

/// Returns the loss ratio that counts for the load of `trials`: the `1 - exceed_ratio` quantile
/// over full-length seconds, by rising loss. Time not measured counts as lost completely.
pub(crate) fn conditional_loss<'a>(
    requirement: &Requirement,
    trials: impl IntoIterator<Item = &'a Observation> + Clone,
) -> f64 {
    let measured = seconds(requirement, trials.clone());
    let whole =
        (measured.full_low + measured.full_high).max(requirement.duration_sum.as_secs_f64());
    let full = trials.into_iter().filter(|trial| trial.duration >= requirement.trial);
    let mut losses: Vec<(f64, f64)> =
        full.map(|trial| (trial.loss_ratio, trial.duration.as_secs_f64())).collect();
    losses.sort_by(|a, b| a.0.total_cmp(&b.0));
    // The quantile counts time and not trials, because trials may differ in length.
    let mut remaining = whole * (1.0 - requirement.exceed_ratio);
    let mut loss = 1.0;
    for (ratio, duration) in losses {
        if remaining <= 0.0 {
            return loss;
        }
        loss = ratio;
        remaining -= duration;
    }
    // Time that nobody measured counts as lost, which keeps the result conservative.
    if remaining > 0.0 { 1.0 } else { loss }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirement(trial_s: u64, sum_s: u64, loss_ratio: f64, exceed_ratio: f64) -> Requirement {
        let (trial, duration_sum) = (Nanos::from_secs(trial_s), Nanos::from_secs(sum_s));
        Requirement { loss_ratio, exceed_ratio, trial, duration_sum }
    }

    fn goals() -> [Requirement; 4] {
        [
            requirement(60, 60, 0.0, 0.0),
            requirement(60, 120, 0.0, 0.5),
            requirement(1, 120, 0.005, 0.5),
            requirement(60, 60, 0.005, 0.2),
        ]
    }

    /// Number of trials, length of each, seconds, and loss of each.
    type Group = (usize, u64, f64);

    fn trials(points: &[Group]) -> Vec<Observation> {
        let of = |&(n, seconds, loss_ratio): &Group| {
            std::iter::repeat_n(
                Observation { load: 1e6, duration: Nanos::from_secs(seconds), loss_ratio },
                n,
            )
        };
        points.iter().flat_map(of).collect()
    }

    /// The worked example of RFC 9971's draft, as its code and the reference implementation
    /// classify it (docs/methodology/searches.md#mlrsearch): the text prints L for the last goal at
    /// points 5 and 6.
    #[test]
    fn the_worked_example_is_classified_as_the_published_code_does() {
        let low = (59, 1, 0.0);
        let cases: [(&[Group], &str); 6] = [
            (&[low], "????"),
            (&[low, (1, 1, 0.01)], "U???"),
            (&[low, (60, 1, 0.01)], "U??U"),
            (&[(60, 1, 0.0), (60, 1, 0.01)], "U?LU"),
            (&[(60, 1, 0.0), (60, 1, 0.01), (1, 60, 0.001)], "U?LU"),
            (&[(60, 1, 0.0), (60, 1, 0.01), (1, 60, 0.001), (1, 60, 0.0)], "ULLU"),
        ];
        for (number, (points, expected)) in cases.iter().enumerate() {
            let trials = trials(points);
            let letter = |goal: &Requirement| match classify(goal, &seconds(goal, &trials)) {
                Class::Lower => 'L',
                Class::Upper => 'U',
                Class::Undecided => '?',
            };
            assert_eq!(
                goals().iter().map(letter).collect::<String>(),
                *expected,
                "point {}",
                number + 1
            );
        }
    }

    #[test]
    fn the_conditional_loss_at_the_last_point_is_none_for_both_goals_that_hold() {
        let trials = trials(&[(60, 1, 0.0), (60, 1, 0.01), (1, 60, 0.001), (1, 60, 0.0)]);
        assert_eq!(conditional_loss(&goals()[1], &trials), 0.0);
        assert_eq!(conditional_loss(&goals()[2], &trials), 0.0);
    }

    #[test]
    fn time_that_was_not_measured_lost_everything() {
        let goal = requirement(1, 21, 0.0, 0.5);
        assert_eq!(conditional_loss(&goal, &trials(&[(10, 1, 0.0)])), 1.0);
        assert_eq!(conditional_loss(&goal, &trials(&[(11, 1, 0.0)])), 0.0);
        assert_eq!(conditional_loss(&goal, &[]), 1.0);
    }

    /// CSIT's goals: 11 of 21 equal trials that agree decide.
    #[test]
    fn eleven_equal_trials_of_twenty_one_decide() {
        let goal = requirement(1, 21, 0.0, 0.5);
        for (loss, class) in [(0.0, Class::Lower), (0.5, Class::Upper)] {
            let of = |n| classify(&goal, &seconds(&goal, &trials(&[(n, 1, loss)])));
            assert_eq!((of(10), of(11)), (Class::Undecided, class), "{loss}");
        }
    }
}
