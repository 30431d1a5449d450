//! Targets: a goal, and coarser ones on the way to it that cost little time.

use linerate_analysis::search::Requirement;
use linerate_model::{Goal, Nanos};

use super::grid::{Grid, Units};

/// Coarser targets before a goal's own: each twice as wide, and as much shorter as leads from the
/// shortest trial to the goal's sum of durations in equal factors.
const PRECEDING: i32 = 2;

/// One target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Target {
    pub(super) requirement: Requirement,
    pub(super) width: Units,
}

/// The chain of targets of `goal`, the coarsest first and the goal itself last.
pub(super) fn chain(goal: &Goal, grid: &Grid) -> Vec<Target> {
    let mut width = grid.width(goal.width);
    let mut targets = vec![Target { requirement: Requirement::from(goal), width }];
    let (first, sum) = (goal.initial_trial.as_secs_f64(), goal.duration_sum.as_secs_f64());
    let factor = (first / sum).powf(1.0 / f64::from(PRECEDING));
    for count in 1..=PRECEDING {
        let duration_sum = if count == PRECEDING {
            goal.initial_trial
        } else {
            Nanos::from_secs_f64(sum * factor.powi(count))
        };
        width *= 2;
        let trial = goal.final_trial.min(duration_sum);
        let requirement = Requirement { trial, duration_sum, ..Requirement::from(goal) };
        targets.push(Target { requirement, width });
    }
    targets.reverse();
    targets
}
