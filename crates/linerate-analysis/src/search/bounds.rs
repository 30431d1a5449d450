//! The relevant bounds of a goal over all loads, and the conditional throughput (RFC 9971 4.7).

use linerate_model::Goal;
use serde::{Deserialize, Serialize};

use super::{Class, Observation, Requirement, classify, conditional_loss, seconds};

/// Result of a search for one goal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// The largest load that is a lower bound and lies below `upper`.
    pub lower: Option<f64>,
    /// The smallest load that is an upper bound.
    pub upper: Option<f64>,
    /// Forwarding rate at `lower`, as far as the goal guarantees it: `lower * (1 - conditional
    /// loss)`.
    pub conditional_throughput: Option<f64>,
}

impl Bounds {
    /// Returns the relative distance of the bounds, of the upper one.
    #[must_use]
    pub fn width(&self) -> Option<f64> {
        let (lower, upper) = (self.lower?, self.upper?);
        Some((upper - lower) / upper)
    }

    /// Returns whether both bounds exist and are no further apart than `goal` requires; otherwise
    /// the result is irregular.
    #[must_use]
    pub fn regular(&self, goal: &Goal) -> bool {
        /// Loads are rounded on a grid; the last bit must not make a result irregular.
        const ROUNDING: f64 = 1e-9;
        self.width().is_some_and(|width| width <= goal.width + ROUNDING)
    }
}

/// Returns the bounds of `requirement` over `trials`. A low loss above a high one is ignored, which
/// is conservative.
#[must_use]
pub fn bounds(requirement: &Requirement, trials: &[Observation]) -> Bounds {
    let mut sorted: Vec<&Observation> = trials.iter().collect();
    // Loads rise, so the first upper bound ends the search for lower ones.
    sorted.sort_by(|a, b| a.load.total_cmp(&b.load));
    let mut found = Bounds::default();
    for at_load in sorted.chunk_by(|a, b| a.load == b.load) {
        let own = || at_load.iter().copied();
        let load = at_load[0].load;
        // All trials at one load count together: their seconds decide, not their number.
        match classify(requirement, &seconds(requirement, own())) {
            Class::Lower => {
                let loss = conditional_loss(requirement, own().collect::<Vec<_>>());
                found.lower = Some(load);
                found.conditional_throughput = Some(load * (1.0 - loss));
            }
            Class::Upper => {
                found.upper = Some(load);
                // RFC 9971 ignores any low loss above a load that failed.
                break;
            }
            Class::Undecided => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use linerate_model::Nanos;

    use super::*;

    const STRICT: Requirement = Requirement {
        loss_ratio: 0.0,
        exceed_ratio: 0.0,
        trial: Nanos::from_secs(60),
        duration_sum: Nanos::from_secs(60),
    };

    fn trial(load: f64, seconds: u64, loss_ratio: f64) -> Observation {
        Observation { load, duration: Nanos::from_secs(seconds), loss_ratio }
    }

    #[test]
    fn a_low_loss_above_a_high_one_is_no_bound() {
        let trials = [trial(3.0, 60, 0.0), trial(1.0, 60, 0.0), trial(2.0, 60, 0.1)];
        let found = bounds(&STRICT, &trials);
        assert_eq!(
            (found.lower, found.upper, found.conditional_throughput),
            (Some(1.0), Some(2.0), Some(1.0))
        );
        assert_eq!(found.width(), Some(0.5));
    }

    #[test]
    fn one_short_trial_with_loss_is_enough_for_a_strict_goal_and_none_without_is() {
        let found = bounds(&STRICT, &[trial(1.0, 1, 0.0), trial(2.0, 1, 1e-9)]);
        assert_eq!((found.lower, found.upper), (None, Some(2.0)));
        assert_eq!(found.conditional_throughput, None);
    }

    #[test]
    fn a_load_that_nothing_was_lost_at_has_no_upper_bound_and_is_irregular() {
        let goal = Goal::strict("RFC 2544", 0.005, Nanos::from_secs(60));
        let found = bounds(&Requirement::from(&goal), &[trial(1.0, 60, 0.0)]);
        assert!(found.lower.is_some() && !found.regular(&goal));
    }
}
