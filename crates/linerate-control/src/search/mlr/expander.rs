//! Width of the next step outwards: larger each time, until a bound is found.

use super::grid::Units;

/// Factor for a width after a step that did not find its bound.
const EXPANSION: Units = 2;

/// Next width of one selector. All selectors share the current one, so that they extend their
/// searches together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expander {
    least: Units,
    next: Units,
}

impl Expander {
    /// Creates it for a target of width `least`, from a pair of loads if both are known.
    pub(super) fn new(least: Units, loads: (Option<Units>, Option<Units>)) -> Self {
        let apart = loads.0.zip(loads.1).map_or(least, |(lower, upper)| upper - lower);
        Self { least, next: apart.max(least) * EXPANSION }
    }

    /// Widens the next step of all selectors, after a step without a bound.
    pub(super) fn expand(&mut self, shared: &mut Units) {
        self.next *= EXPANSION;
        *shared = self.next;
    }

    /// Limits the next step, after bounds came closer than `width`.
    pub(super) fn limit(&mut self, width: Units) {
        self.next = width.max(self.least) * EXPANSION;
    }

    /// Returns the width of the next step.
    pub(super) fn width(&self, shared: Units) -> Units {
        self.next.max(shared)
    }
}
