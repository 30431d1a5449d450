//! What limits a path, with proof.
//!
//! A short baseline is run and its leading hypothesis taken; what that says is the limit is
//! changed, beside a placebo, and the pairs are judged. Where the change lifts the limit the ladder
//! goes on from there, limit by limit. All it changes are parameters of its own load and, where a
//! host consents, a setting. Every stage is a plan of its own, so that everything it says can be
//! judged again.

mod climb;
#[cfg(test)]
mod disk_tests;
mod pairs;
mod plans;
mod scouts;
#[cfg(test)]
mod tests;

pub use climb::{Rung, climb};
pub use plans::{Load, STORAGE};

use crate::Exit;

/// What is looked for, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The load whose limit is looked for.
    pub workload: String,
    /// Its parameters, each `KEY=VALUE`.
    pub params: Vec<String>,
    /// Pairs of an experiment.
    pub pairs: u32,
    /// Length of each run, s.
    pub seconds: f64,
    /// What does not count before it, s.
    pub omit: f64,
    /// Orders what is drawn at random.
    pub seed: u64,
}

/// How a ladder ends: what limits is known, or not.
#[must_use]
pub fn exit_of(rungs: &[Rung]) -> Exit {
    if rungs.iter().any(Rung::is_proven) { Exit::Done } else { Exit::Missed }
}
