//! Distance of a new load from known ones: the limits of the grid, and bounds.

use super::grid::{Units, middle};

/// Limits of the grid.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Position of the highest load.
    pub(super) last: Units,
}

impl Limits {
    /// Moves `load` so that it is at least `width` from `lower`, `upper` and the ends of the grid,
    /// or on such an end. `None` if there is no such load.
    pub(super) fn keep(
        self,
        load: Units,
        width: Units,
        lower: Option<Units>,
        upper: Option<Units>,
    ) -> Option<Units> {
        let load = load.clamp(0, self.last);
        match (lower, upper) {
            (None, None) => within(load, width, (0, false), (self.last, false)),
            (None, Some(upper)) => {
                if upper <= 0 || load >= upper {
                    return None;
                }
                within(load, width, (0, false), (upper, true))
            }
            (Some(lower), None) => {
                if lower >= self.last || load <= lower {
                    return None;
                }
                within(load, width, (lower, true), (self.last, false))
            }
            (Some(lower), Some(upper)) => {
                if load <= lower || load >= upper {
                    return None;
                }
                within(load, width, (lower, true), (upper, true))
            }
        }
    }
}

/// Moves `load` between two ends, each of which may be excluded.
fn within(
    load: Units,
    width: Units,
    (low, low_excluded): (Units, bool),
    (high, high_excluded): (Units, bool),
) -> Option<Units> {
    if width >= high - low {
        return match (low_excluded, high_excluded) {
            (false, _) => Some(low),
            (true, false) => Some(high),
            (true, true) => None,
        };
    }
    let (mut least, mut most) = (low + width, high - width);
    if least > most {
        least = middle(low, high, width);
        most = least;
    }
    Some(if load < least {
        if low_excluded { least } else { low }
    } else if load > most {
        if high_excluded { most } else { high }
    } else {
        load
    })
}
