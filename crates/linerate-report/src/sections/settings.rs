//! Section `settings`: sweeps over an offered rate, a time, a buffer alone, or words such as
//! congestion control.
//!
//! Sweeps over message size and over counts have sections of their own.

use linerate_model::Use;

use super::{Section, Subject};
use crate::curves::over_main_axis;
use crate::document::Block;

/// Section `settings`.
pub(super) const SECTION: Section = Section {
    name: "settings",
    title: "Other settings",
    summary: "figures over offered rate, buffer size, congestion control and other axes",
    order: 50,
    blocks,
};

fn blocks(subject: &Subject<'_>) -> Vec<Block> {
    over_main_axis("settings", subject.grids, Use::BySetting, |axis| {
        !axis.is_message() && !axis.is_parallel()
    })
}
