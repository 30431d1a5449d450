//! A matrix of the sweep's figure over its two widest axes, such as buffer by message size.
//!
//! Only sweeps with two axes of at least two values have one. Further axes are held where the
//! figure is highest, and the caption says where that is.

use linerate_model::Use;

use super::{Section, Subject};
use crate::curves::heat;
use crate::document::Block;
use crate::grid::Grid;

/// See the file.
pub(super) struct Heat;

impl Section for Heat {
    fn name(&self) -> &'static str {
        "heat"
    }

    fn title(&self) -> &'static str {
        "Two settings at once"
    }

    fn summary(&self) -> &'static str {
        "a tinted matrix of the figure over two axes, such as buffer by message size"
    }

    fn order(&self) -> u32 {
        30
    }

    fn blocks(&self, subject: &Subject<'_>) -> Vec<Block> {
        subject.grids.iter().filter_map(matrix).collect()
    }
}

fn matrix(grid: &Grid<'_>) -> Option<Block> {
    let main = grid.main_axis()?;
    let across = (0..grid.axes.len())
        .filter(|&axis| axis != main && grid.axes[axis].values.len() > 1)
        .max_by_key(|&axis| grid.axes[axis].values.len())?;
    Use::Sweep
        .metrics()
        .filter(|metric| grid.tells(metric.name))
        .find_map(|metric| heat(grid, main, across, metric.name))
        .map(Block::Chart)
}
