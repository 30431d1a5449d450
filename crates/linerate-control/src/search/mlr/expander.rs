//! How far the next step outwards goes: further each time, until the bound sought is found.

use super::grid::Units;

/// A width that misses its bound is multiplied by this.
const EXPANSION: Units = 2;

/// The next width of one selector; all selectors share the current one, so that their searches
/// outwards keep step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expander {
    least: Units,
    next: Units,
}

impl Expander {
    /// For a target of width `least`, from a pair of loads if both are known.
    pub(super) fn new(least: Units, loads: (Option<Units>, Option<Units>)) -> Self {
        let apart = loads.0.zip(loads.1).map_or(least, |(lower, upper)| upper - lower);
        Self { least, next: apart.max(least) * EXPANSION }
    }

    /// The last step missed: the next goes further, for everybody.
    pub(super) fn expand(&mut self, shared: &mut Units) {
        self.next *= EXPANSION;
        *shared = self.next;
    }

    /// Bounds have come closer than `width`.
    pub(super) fn limit(&mut self, width: Units) {
        self.next = width.max(self.least) * EXPANSION;
    }

    /// How far the next step goes.
    pub(super) fn width(&self, shared: Units) -> Units {
        self.next.max(shared)
    }
}
