//! Section `scaling`: throughput over connections, CPUs and pairs of endpoints, with the fairness
//! among flows.
//!
//! Fairness is Jain's index over the goodput of the flows: 1 for equal shares, 1/n if one flow
//! takes everything. No scaling law is fitted to the points.

use linerate_model::Use;

use super::{Section, Subject};
use crate::curves::curves;
use crate::document::Block;

/// Section `scaling`.
pub(super) struct Scaling;

impl Section for Scaling {
    fn name(&self) -> &'static str {
        "scaling"
    }

    fn title(&self) -> &'static str {
        "Scaling"
    }

    fn summary(&self) -> &'static str {
        "throughput over connections, CPUs and pairs of endpoints, with fairness"
    }

    fn order(&self) -> u32 {
        40
    }

    fn blocks(&self, subject: &Subject<'_>) -> Vec<Block> {
        let over_count = |grid| {
            let grid: &crate::grid::Grid<'_> = grid;
            let main = grid.main_axis().filter(|&axis| grid.axes[axis].is_parallel())?;
            Some(
                Use::ByCount
                    .metrics()
                    .flat_map(move |metric| curves("scaling", grid, main, metric))
                    .collect::<Vec<_>>(),
            )
        };
        subject.grids.iter().filter_map(over_count).flatten().collect()
    }
}
