//! RFC 2285 3.6.2: the forwarding rate at maximum offered load, in one trial.

use linerate_analysis::search::Observation;
use linerate_model::{Nanos, Step};

use super::{Controller, at};

/// Controller of this method.
#[derive(Debug)]
pub(super) struct Frmol {
    step: Option<Step>,
}

impl Frmol {
    pub(super) fn new(max: f64, trial: Nanos) -> Self {
        Self { step: Some(at(max, trial)) }
    }
}

impl Controller for Frmol {
    fn next(&mut self) -> Option<Step> {
        self.step
    }

    fn take(&mut self, _: &Observation) {
        self.step = None;
    }
}
