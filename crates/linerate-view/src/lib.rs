//! Live view and progress of a campaign on a terminal.
//!
//! | Module | Content |
//! |---|---|
//! | `view` | thread that draws snapshots of a campaign and reads keys |
//! | `frame`, `chart` | one frame of it, as a pure function of a snapshot |
//! | `progress` | where there is no view: a bar on a terminal, lines elsewhere |
//! | `safe_text` | text whose control characters are shown, not obeyed |
//!
//! A command gives its wishes and its ways to print as a [`Console`]. This crate does *not* print
//! lines itself, read a command line, or touch a measurement: a terminal that is stopped delays
//! none.

#![forbid(unsafe_code)]

mod chart;
mod frame;
mod progress;
mod safe_text;
mod view;

use std::any::Any;

pub use progress::Display;
pub use safe_text::safe_text;
pub use view::View;

/// Wishes of a command for its terminal, and its ways to print there.
#[derive(Clone, Copy, Debug)]
pub struct Console {
    /// True if a live view may be drawn: the person wants no lines, and no document.
    pub may_draw: bool,
    /// True if only results and errors are wanted.
    pub is_quiet: bool,
    /// True if more progress is wanted.
    pub is_verbose: bool,
    /// True if colours are wanted.
    pub has_color: bool,
    /// Prints a line to standard error.
    pub say: fn(&str),
    /// Holds everything that is printed, until the result is dropped.
    pub hold: fn() -> Box<dyn Any>,
    /// Prints from a thread of its own, until the result is dropped.
    pub relay: fn() -> Box<dyn Any>,
}
