//! RFC 2544 26.3: the loss ratio at 100 %, 90 %, 80 % ... of the highest load, until two trials in
//! a row have no loss. Then a finer grid between the lowest load with loss and the highest load
//! without, where the curve begins.

use linerate_analysis::search::Observation;
use linerate_model::{Nanos, Step};

use super::{Controller, at};

/// Trials in a row without loss that end the coarse part (RFC 2544 26.3).
const ENOUGH: u32 = 2;

/// Controller of this method.
#[derive(Debug, Default)]
pub(super) struct LossCurve {
    max: f64,
    trial: Nanos,
    step: f64,
    fine_step: f64,
    /// Number of coarse steps so far.
    n_coarse: u32,
    without_loss: u32,
    /// Lowest load with loss, as a share of the highest load.
    lossy: Option<f64>,
    /// Highest load without loss below it, as a share of the highest load.
    clean: Option<f64>,
    /// Remaining shares of the finer grid, in ascending order; the last one is next.
    fine: Option<Vec<f64>>,
    asked: f64,
}

impl LossCurve {
    pub(super) fn new(max: f64, trial: Nanos, step: f64, fine_step: f64) -> Self {
        Self { max, trial, step, fine_step, ..Self::default() }
    }

    /// Returns the shares strictly between the clean step and the lossy one, the lowest first.
    fn grid(&self) -> Vec<f64> {
        let (Some(lossy), clean) = (self.lossy, self.clean.unwrap_or(0.0)) else {
            return Vec::new();
        };
        let n = ((lossy - clean) / self.fine_step).round() as u32;
        (1..n).map(|k| clean + f64::from(k) * self.fine_step).collect()
    }

    fn ask(&mut self, share: f64) -> Option<Step> {
        self.asked = share;
        Some(at(share * self.max, self.trial))
    }
}

impl Controller for LossCurve {
    fn next(&mut self) -> Option<Step> {
        if let Some(fine) = &mut self.fine {
            let share = fine.pop()?;
            return self.ask(share);
        }
        let share = 1.0 - f64::from(self.n_coarse) * self.step;
        if self.without_loss >= ENOUGH || share < self.step / 2.0 {
            let fine = self.grid();
            self.fine = Some(fine);
            return self.next();
        }
        self.ask(share)
    }

    fn take(&mut self, observation: &Observation) {
        if self.fine.is_some() {
            return;
        }
        self.n_coarse += 1;
        if observation.loss_ratio > 0.0 {
            (self.lossy, self.clean, self.without_loss) = (Some(self.asked), None, 0);
        } else {
            self.clean.get_or_insert(self.asked);
            self.without_loss += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::simulated::{Device, run, search};
    use super::*;
    use linerate_model::Method;

    fn shares(capacity: f64) -> Vec<u32> {
        let method = Method::LossCurve { trial: Nanos::from_secs(1), step: 0.1, fine_step: 0.01 };
        let trials = run(&search(1.0, 1e6, method), &mut Device::of(capacity));
        trials.iter().map(|trial| (trial.load / 1e4).round() as u32).collect()
    }

    #[test]
    fn it_ends_after_two_trials_without_loss_and_refines_around_the_first_loss() {
        assert_eq!(shares(735_000.0), [100, 90, 80, 70, 60, 79, 78, 77, 76, 75, 74, 73, 72, 71]);
    }

    #[test]
    fn a_path_that_loses_nothing_takes_two_trials() {
        assert_eq!(shares(2e6), [100, 90]);
    }

    #[test]
    fn a_path_that_always_loses_is_tried_down_to_one_step() {
        assert_eq!(shares(1.0)[..10], [100, 90, 80, 70, 60, 50, 40, 30, 20, 10]);
    }
}
