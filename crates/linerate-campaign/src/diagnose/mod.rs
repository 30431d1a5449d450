//! The limit of a path, with proof.
//!
//! The ladder runs a short baseline and takes the leading hypothesis. It changes the suspected
//! limit, beside a placebo, and judges the pairs. Where the change lifts the limit, the ladder
//! continues from there. It changes only parameters of its own load and, where a host consents, a
//! setting. Every stage is a plan of its own, so that each claim can be judged again.

mod climb;
#[cfg(test)]
mod disk_tests;
mod injected;
mod outcomes;
mod pairs;
mod plans;
mod scouts;
mod stages;
#[cfg(test)]
mod tests;

pub use climb::{Rung, climb};
pub use injected::{INJECTED, LONG_LAB, injected};
pub use plans::{Load, STORAGE};

use crate::Exit;

/// The load whose limit is wanted, and the effort.
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
    /// Warm-up of each run, s.
    pub omit: f64,
    /// Orders what is drawn at random.
    pub seed: u64,
}

/// Returns the exit of a ladder: done if a limit is proven.
#[must_use]
pub fn exit_of(rungs: &[Rung]) -> Exit {
    if rungs.iter().any(Rung::is_proven) { Exit::Done } else { Exit::Missed }
}
