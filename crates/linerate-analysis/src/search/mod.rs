//! Evaluation of searches: the trials at each load against a goal, and the resulting bounds of the
//! device.
//!
//! A load is a lower bound, an upper bound or neither by the seconds measured at it (RFC 9971,
//! appendix A). Bounds over all loads follow from that, and the conditional throughput from the
//! lower one. Only observations are read, so that a recorded search is evaluated by today's rules.
//! Loads are per direction, in the unit of their search.
//!
//! Not covered: the choice of the next trial (`linerate-control`).

mod bounds;
mod burst;
mod classify;

pub use bounds::{Bounds, bounds};
pub use burst::{BackToBack, back_to_back};
pub(crate) use classify::conditional_loss;
pub use classify::{Class, Requirement, Seconds, classify, seconds};

use linerate_model::Nanos;

/// Repeats of a trial that the tester spoilt, before the search stops
/// (docs/methodology/searches.md#trial).
pub const MOST_REPEATS: u32 = 3;

/// One trial, as far as a goal is concerned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// Intended load.
    pub load: f64,
    /// Intended duration.
    pub duration: Nanos,
    /// Lost frames over expected ones; unsent ones are lost (docs/methodology/searches.md#trial).
    pub loss_ratio: f64,
}
