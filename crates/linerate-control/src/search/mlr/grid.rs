//! Logarithmic grid of loads with integer positions, so that widening and narrowing an interval are
//! exact inverses.
//!
//! The unit of the grid is chosen so that every goal's width is just above an integer number of
//! units: an interval of that many units is never wider than the goal. Position 0 is the lowest
//! load, the last one the highest.

/// Load or width, in units of the grid.
pub(super) type Units = i64;

/// Smallest share of a goal's width that an integer number of units must cover.
const QUALITY_LOWER: f64 = 0.99;
/// Largest share. It is below 1 so that rounding never makes an interval wider than its goal.
const QUALITY_UPPER: f64 = 0.999_999;

/// Grid of loads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    min: f64,
    max: f64,
    last: Units,
}

impl Grid {
    /// Creates a grid from `min` to `max` on which each of `widths` (relative to the upper load) is
    /// nearly an integer.
    pub(super) fn new(min: f64, max: f64, widths: &[f64]) -> Self {
        let whole = max.ln() - min.ln();
        let widths: Vec<f64> = widths.iter().map(|width| -(-width).ln_1p()).collect();
        let mut last = 1.0_f64;
        loop {
            let unit = whole / last;
            let mut tries = last + 1.0;
            let mut acceptable = true;
            for width in &widths {
                let units = width / unit;
                let quality = units.floor() / units;
                if !(QUALITY_LOWER..=QUALITY_UPPER).contains(&quality) {
                    acceptable = false;
                    tries = tries.max((units.floor() + 1.0) / QUALITY_UPPER / units * last);
                }
            }
            if acceptable {
                return Self { min, max, last: last as Units };
            }
            last = tries.ceil();
        }
    }

    /// Returns the position of the highest load.
    pub(super) fn last(&self) -> Units {
        self.last
    }

    /// Returns the load at `units`, limited to the grid.
    pub(super) fn load(&self, units: Units) -> f64 {
        if units <= 0 {
            self.min
        } else if units >= self.last {
            self.max
        } else {
            self.min * ((self.max.ln() - self.min.ln()) * (units as f64 / self.last as f64)).exp()
        }
    }

    /// Returns the highest position whose load is not above `load`.
    pub(super) fn units(&self, load: f64) -> Units {
        if load <= self.min {
            return 0;
        }
        if load >= self.max {
            return self.last;
        }
        let share = (load.ln() - self.min.ln()) / (self.max.ln() - self.min.ln());
        let mut units = (share * self.last as f64).floor() as Units;
        // The logarithm may be off by its last bit.
        while self.load(units) > load {
            units -= 1;
        }
        while self.load(units + 1) <= load {
            units += 1;
        }
        units
    }

    /// Returns the number of units in a relative `width`, rounded down.
    pub(super) fn width(&self, width: f64) -> Units {
        self.units(self.min / (1.0 - width)).max(1)
    }
}

/// Returns the middle of the interval from `lower` to `upper`, which is wider than `goal`. One part
/// is `goal` times the power of two that splits most evenly; the lower part is the smaller one.
pub(super) fn middle(lower: Units, upper: Units, goal: Units) -> Units {
    let whole = upper - lower;
    debug_assert!(whole > goal, "an interval of one goal is not halved");
    if whole == 2 * goal {
        return lower + goal;
    }
    if whole < 2 * goal {
        return if goal % 2 == 0 && goal > 1 {
            middle(lower, upper, goal / 2)
        } else {
            lower + whole / 2
        };
    }
    let (mut high, mut low) = (goal, whole - goal);
    loop {
        let (doubled, rest) = (high * 2, whole - high * 2);
        if rest <= doubled {
            // The split with the larger product is the more even one.
            return lower + if high * low > doubled * rest { high } else { rest };
        }
        (high, low) = (doubled, rest);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_load_on_the_grid_is_found_again(
            min in 1.0_f64..1e6, factor in 1.5_f64..1e6, at in 0.0_f64..1.0
        ) {
            let grid = Grid::new(min, min * factor, &[0.005, 0.01]);
            let units = (at * grid.last() as f64) as Units;
            prop_assert_eq!(grid.units(grid.load(units)), units);
            prop_assert!(grid.load(units) <= grid.load(units + 1));
        }

        #[test]
        fn a_width_in_units_is_never_wider_than_requested(
            min in 1.0_f64..1e6, factor in 1.5_f64..1e6, width in 1e-3_f64..0.2
        ) {
            let grid = Grid::new(min, min * factor, &[width]);
            let (lower, upper) = (grid.load(0), grid.load(grid.width(width)));
            prop_assert!((upper - lower) / upper <= width);
        }

        #[test]
        fn the_middle_lies_between(lower in 0_i64..1000, whole in 2_i64..5000, goal in 1_i64..600) {
            prop_assume!(whole > goal);
            let at = middle(lower, lower + whole, goal);
            prop_assert!(lower < at && at < lower + whole);
        }
    }
}
