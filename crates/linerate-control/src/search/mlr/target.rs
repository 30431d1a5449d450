//! Targets: a goal, and coarser intermediate goals that take little time.

use linerate_analysis::search::Requirement;
use linerate_model::{Goal, Nanos};

use super::grid::{Grid, Units};

/// Number of coarser targets before a goal. Each is twice as wide, and its sum of durations is
/// smaller by a constant factor, down to the shortest trial.
const PRECEDING: i32 = 2;

/// Target of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Target {
    pub(super) requirement: Requirement,
    pub(super) width: Units,
}

/// Returns the targets of `goal`, the coarsest first and the goal itself last.
pub(super) fn chain(goal: &Goal, grid: &Grid) -> Vec<Target> {
    let mut width = grid.width(goal.width);
    let mut targets = vec![Target { requirement: Requirement::from(goal), width }];
    let (first, sum) = (goal.initial_trial.as_secs_f64(), goal.duration_sum.as_secs_f64());
    // A constant factor from the goal's sum down to one shortest trial.
    let factor = (first / sum).powf(1.0 / f64::from(PRECEDING));
    for count in 1..=PRECEDING {
        let duration_sum = if count == PRECEDING {
            goal.initial_trial
        } else {
            Nanos::from_secs_f64(sum * factor.powi(count))
        };
        width *= 2;
        // A trial cannot be longer than all of the target's trials together.
        let trial = goal.final_trial.min(duration_sum);
        let requirement = Requirement { trial, duration_sum, ..Requirement::from(goal) };
        targets.push(Target { requirement, width });
    }
    targets.reverse();
    targets
}
