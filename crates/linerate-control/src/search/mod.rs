//! Searches: the choice of the next trial. Without I/O: a controller returns a step, and receives
//! its observation.
//!
//! A controller is a pure function of its observations. Replaying the recorded trials of a search
//! restores its state, so that a search can be resumed after its conductor was killed.
//! `linerate_analysis::search` evaluates trials for a goal.
//!
//! Not seen by a controller: whether a trial was valid. [`Searcher`] repeats trials that the tester
//! made invalid.

mod back_to_back;
mod expected;
mod frmol;
mod halving;
mod latency;
mod loss_curve;
mod mlr;
mod recovery;
mod searcher;
#[cfg(test)]
mod simulated;
mod steps;

use std::fmt;

use linerate_analysis::search::Observation;
use linerate_model::{Method, Nanos, Purpose, Search, Step};

pub use expected::{Expected, expected};
pub use searcher::{Ended, Outcome, Searcher};

/// Method that chooses the trials of a search.
pub(crate) trait Controller: fmt::Debug + Send {
    /// Returns the next step. `None` when the search has its result.
    fn next(&mut self) -> Option<Step>;

    /// Receives the observation of the last step.
    fn take(&mut self, observation: &Observation);
}

/// Creates the controller of `search`.
pub(crate) fn controller(search: &Search) -> Box<dyn Controller> {
    match &search.method {
        Method::Halving { goal, repeats } => {
            Box::new(halving::Halving::new(search, goal, *repeats))
        }
        Method::Mlr { goals } => Box::new(mlr::Mlr::new(search, goals)),
        Method::LossCurve { trial, step, fine_step } => {
            Box::new(loss_curve::LossCurve::new(search.max, *trial, *step, *fine_step))
        }
        Method::BackToBack { goal, repeats, longest } => {
            Box::new(back_to_back::BackToBack::new(search, goal, *repeats, *longest))
        }
        Method::Recovery { goal, overload, after, repeats } => {
            Box::new(recovery::Recovery::new(search, goal, *overload, *after, *repeats))
        }
        Method::Latency { goal, trial, shares, repeats } => {
            Box::new(latency::Latency::new(search, goal, *trial, shares, *repeats))
        }
        Method::Frmol { trial } => Box::new(frmol::Frmol::new(search.max, *trial)),
        Method::Steps { trial, steps, loss_ratio, performance } => {
            Box::new(steps::Steps::new(search.max, *trial, steps, *loss_ratio, *performance))
        }
    }
}

/// Returns a step with a trial at `load`.
fn at(load: f64, duration: Nanos) -> Step {
    Step { purpose: Purpose::Load, load, duration, then: None }
}
