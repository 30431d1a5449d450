//! Section `settings`: sweeps over an offered rate, a time, a buffer alone, or words such as
//! congestion control.
//!
//! Sweeps over message size and over counts have sections of their own.

use linerate_model::Use;

use super::{Section, Subject};
use crate::curves::curves;
use crate::document::Block;

/// Section `settings`.
pub(super) struct Settings;

impl Section for Settings {
    fn name(&self) -> &'static str {
        "settings"
    }

    fn title(&self) -> &'static str {
        "Other settings"
    }

    fn summary(&self) -> &'static str {
        "figures over offered rate, buffer size, congestion control and other axes"
    }

    fn order(&self) -> u32 {
        50
    }

    fn blocks(&self, subject: &Subject<'_>) -> Vec<Block> {
        let over_rest = |grid| {
            let grid: &crate::grid::Grid<'_> = grid;
            let axis = |index: usize| &grid.axes[index];
            let main = grid
                .main_axis()
                .filter(|&main| !axis(main).is_message() && !axis(main).is_parallel())?;
            Some(
                Use::BySetting
                    .metrics()
                    .flat_map(move |metric| curves("settings", grid, main, metric))
                    .collect::<Vec<_>>(),
            )
        };
        subject.grids.iter().filter_map(over_rest).flatten().collect()
    }
}
