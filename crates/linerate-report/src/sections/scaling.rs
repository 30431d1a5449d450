//! Section `scaling`: throughput over connections, CPUs and pairs of endpoints, with the fairness
//! among flows.
//!
//! Fairness is Jain's index over the goodput of the flows: 1 for equal shares, 1/n if one flow
//! takes everything. No scaling law is fitted to the points.

use linerate_model::Use;

use super::{Section, Subject};
use crate::curves::over_main_axis;
use crate::document::Block;
use crate::grid::GridAxis;

/// Section `scaling`.
pub(super) const SECTION: Section = Section {
    name: "scaling",
    title: "Scaling",
    summary: "throughput over connections, CPUs and pairs of endpoints, with fairness",
    order: 40,
    blocks,
};

fn blocks(subject: &Subject<'_>) -> Vec<Block> {
    over_main_axis("scaling", subject.grids, Use::ByCount, GridAxis::is_parallel)
}
