//! Searches: which trial comes next. Sans-I/O: a controller is asked for a step, and told what came
//! of it.
//!
//! A controller is a pure function of what it was told: replaying the recorded trials of a search
//! leaves it where it was, so that a search goes on after its conductor was killed. What trials
//! mean for a goal is `linerate_analysis::search`.
//!
//! What it does not see: whether a trial was valid. Trials that the tester spoilt are repeated by
//! [`Searcher`] and never reach a controller.

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

/// Chooses the trials of a search.
pub(crate) trait Controller: fmt::Debug + Send {
    /// The next step; `None` when there is no more to be learnt.
    fn next(&mut self) -> Option<Step>;

    /// Takes what came of the step asked for last.
    fn take(&mut self, observation: &Observation);
}

/// The controller of `search`.
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

/// A trial at `load`.
fn at(load: f64, duration: Nanos) -> Step {
    Step { purpose: Purpose::Load, load, duration, then: None }
}
