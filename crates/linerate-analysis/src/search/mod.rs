//! Searches judged: what the trials at each load say about a goal, and what follows for the device.
//!
//! A load is a lower bound, an upper bound or neither by the seconds measured at it (RFC 9971,
//! appendix A); bounds over all loads follow from that, and the conditional throughput from the
//! lower one. It reads observations only, so that a recorded search is judged by today's rules.
//! Loads are of each direction, in the unit of their search.
//!
//! What it does not see: which trial would come next (`linerate-control`).

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
