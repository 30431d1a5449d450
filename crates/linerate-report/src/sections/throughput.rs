//! Section `throughput`: goodput and packet rate over the message size (S1 and S2 of
//! docs/methodology/papers.md#sources).
//!
//! Goodput is bit/s at L4 and packet rate is packets/s at L3, both in the stated direction.
//! Rejected points are not shown here but in section `validity`.

use linerate_model::Use;

use super::{Section, Subject};
use crate::curves::over_main_axis;
use crate::document::Block;
use crate::grid::GridAxis;

/// Section `throughput`.
pub(super) const SECTION: Section = Section {
    name: "throughput",
    title: "Throughput by size",
    summary: "throughput and packet rate against message size, with intervals and ceilings",
    order: 20,
    blocks,
};

fn blocks(subject: &Subject<'_>) -> Vec<Block> {
    over_main_axis("throughput", subject.grids, Use::BySize, GridAxis::is_message)
}
