//! Section `heat`: matrix of a sweep's figure over its two largest axes, such as buffer by message
//! size.
//!
//! It needs two axes with at least two values. Further axes are fixed where the figure is highest,
//! and the caption names that point.

use linerate_model::Use;

use super::{Section, Subject};
use crate::curves::heat;
use crate::document::Block;
use crate::grid::Grid;

/// Section `heat`.
pub(super) const SECTION: Section = Section {
    name: "heat",
    title: "Two axes at once",
    summary: "a tinted matrix of the figure over two axes, such as buffer by message size",
    order: 30,
    blocks,
};

fn blocks(subject: &Subject<'_>) -> Vec<Block> {
    subject.grids.iter().filter_map(matrix).collect()
}

fn matrix(grid: &Grid<'_>) -> Option<Block> {
    let main = grid.main_axis()?;
    // The longest axis gives the fullest matrix.
    let across = (0..grid.axes.len())
        .filter(|&axis| axis != main && grid.axes[axis].values.len() > 1)
        .max_by_key(|&axis| grid.axes[axis].values.len())?;
    Use::Sweep
        .metrics()
        .filter(|metric| grid.tells(metric))
        // One figure is enough; the next would have the same shape.
        .find_map(|metric| heat(grid, main, across, metric))
        .map(Block::Chart)
}
