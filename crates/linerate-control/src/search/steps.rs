//! Y.1564 clause 8: the committed rate in steps, each within its loss limit; then the full rate for
//! longer.
//!
//! The first step that fails ends the test, because higher loads would fail too. Transfer delay and
//! its variation are not judged here.

use linerate_analysis::search::Observation;
use linerate_model::{Nanos, Step};

use super::{Controller, at};

/// Controller of this method.
#[derive(Debug)]
pub(super) struct Steps {
    /// Remaining steps, the next one last.
    left: Vec<Step>,
    loss_ratio: f64,
}

impl Steps {
    pub(super) fn new(
        committed: f64,
        trial: Nanos,
        steps: &[f64],
        loss_ratio: f64,
        performance: Nanos,
    ) -> Self {
        let mut left: Vec<Step> = steps.iter().map(|share| at(share * committed, trial)).collect();
        if performance > Nanos(0) {
            left.push(at(committed, performance));
        }
        // The next step is taken from the end.
        left.reverse();
        Self { left, loss_ratio }
    }
}

impl Controller for Steps {
    fn next(&mut self) -> Option<Step> {
        self.left.last().copied()
    }

    fn take(&mut self, observation: &Observation) {
        // Higher loads would fail too, so nothing is left to try.
        self.left.pop();
        if observation.loss_ratio > self.loss_ratio {
            self.left.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::simulated::{Device, run, search};
    use super::*;
    use linerate_model::Method;

    fn asked(capacity: f64) -> Vec<(f64, u64)> {
        let method = Method::Steps {
            trial: Nanos::from_secs(10),
            steps: vec![0.25, 0.5, 0.75, 1.0],
            loss_ratio: 0.001,
            performance: Nanos::from_secs(900),
        };
        let trials = run(&search(1.0, 1e6, method), &mut Device::of(capacity));
        trials.iter().map(|trial| (trial.load, trial.duration.0 / 1_000_000_000)).collect()
    }

    #[test]
    fn a_path_that_carries_its_rate_is_taken_through_every_step_and_the_performance_test() {
        assert_eq!(asked(1e6), [(0.25e6, 10), (0.5e6, 10), (0.75e6, 10), (1e6, 10), (1e6, 900)]);
    }

    #[test]
    fn the_first_step_that_fails_is_the_last() {
        assert_eq!(asked(0.6e6), [(0.25e6, 10), (0.5e6, 10), (0.75e6, 10)]);
    }
}
