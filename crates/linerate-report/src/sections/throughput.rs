//! Section `throughput`: goodput and packet rate over the message size (S1 and S2 of
//! docs/methodology/papers.md#sources).
//!
//! Goodput is bit/s at L4 and packet rate is packets/s at L3, both in the stated direction.
//! Rejected points are not shown here but in section `validity`.

use linerate_model::Use;

use super::{Section, Subject};
use crate::curves::curves;
use crate::document::Block;

/// Section `throughput`.
pub(super) struct Throughput;

impl Section for Throughput {
    fn name(&self) -> &'static str {
        "throughput"
    }

    fn title(&self) -> &'static str {
        "Throughput by size"
    }

    fn summary(&self) -> &'static str {
        "throughput and packet rate against message size, with intervals and ceilings"
    }

    fn order(&self) -> u32 {
        20
    }

    fn blocks(&self, subject: &Subject<'_>) -> Vec<Block> {
        let by_size = |grid| {
            let grid: &crate::grid::Grid<'_> = grid;
            let main = grid.main_axis().filter(|&axis| grid.axes[axis].is_message())?;
            Some(
                Use::BySize
                    .metrics()
                    .flat_map(move |metric| curves("throughput", grid, main, metric))
                    .collect::<Vec<_>>(),
            )
        };
        subject.grids.iter().filter_map(by_size).flatten().collect()
    }
}
