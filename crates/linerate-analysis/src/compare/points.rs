//! Points that two campaigns share, and those that only one of them has.

use linerate_model::{Point, Validity};
use serde::{Deserialize, Serialize};

use crate::study::Compared;

/// One point of both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointChange {
    /// The sweep it belongs to.
    pub sweep: String,
    /// Its coordinate.
    pub parameters: Point,
    /// Its jobs: workload and endpoints, in the order of the plan.
    pub jobs: Vec<String>,
    /// Every figure both have.
    pub figures: Vec<Compared>,
    /// Standing before and after.
    pub validity: [Validity; 2],
}

/// A point or search that only one campaign has, or has figures of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unmatched {
    /// The campaign's place: 0 before, 1 after.
    pub side: usize,
    /// The sweep.
    pub sweep: String,
    /// The coordinate.
    pub parameters: Point,
}
