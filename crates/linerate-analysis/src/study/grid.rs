//! Bins of equal width from the start barrier on, to which intervals are apportioned by time. One
//! pass over the intervals.

use linerate_model::Nanos;

/// The bins.
pub(super) struct Grid {
    /// Width of each, ns.
    pub(super) width: u64,
    /// Number of bins.
    pub(super) n_bins: usize,
    /// End of the last bin, ns, which may be shorter than the others.
    pub(super) end: u64,
}

impl Grid {
    /// Returns the ends of the bins, seconds.
    pub(super) fn ends(&self) -> Vec<f64> {
        (1..=self.n_bins as u64)
            .map(|bin| Nanos((bin * self.width).min(self.end)).as_secs_f64())
            .collect()
    }

    /// Returns the length of `bin`, ns.
    pub(super) fn length(&self, bin: usize) -> f64 {
        let from = bin as u64 * self.width;
        // The last bin may be shorter. With its full width, its rate would look too low.
        (from + self.width).min(self.end).saturating_sub(from) as f64
    }

    /// Returns the bin whose end is nearest to `at`.
    pub(super) fn bin_ending_at(&self, at: Nanos) -> usize {
        // Rounded to the nearest end, because readings come a little before or after it.
        ((at.0.saturating_sub(self.width / 2) / self.width) as usize).min(self.n_bins - 1)
    }

    /// Apportions `amount`, counted from `start` to `end`, to the bins; what lies beyond the last
    /// is left out.
    pub(super) fn spread(&self, start: Nanos, end: Nanos, amount: f64, bins: &mut [f64]) {
        let length = end.since(start).0 as f64;
        if length == 0.0 {
            // An interval without length has no share in any bin; its count belongs to the bin that
            // it ends.
            bins[self.bin_ending_at(end)] += amount;
            return;
        }
        let first = (start.0 / self.width) as usize;
        for (bin, sum) in bins.iter_mut().enumerate().skip(first) {
            let from = (bin as u64 * self.width).max(start.0);
            let to = ((bin as u64 + 1) * self.width).min(end.0).min(self.end);
            if to <= from {
                // Bins are in order of time, so none of the later ones can overlap.
                break;
            }
            *sum += amount * (to - from) as f64 / length;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_apportioned_by_time_and_cut_at_the_last_bin() {
        let grid = Grid { width: 10, n_bins: 3, end: 30 };
        let mut bins = vec![0.0; 3];
        grid.spread(Nanos(5), Nanos(25), 20.0, &mut bins);
        assert_eq!(bins, [5.0, 10.0, 5.0]);
        grid.spread(Nanos(25), Nanos(35), 10.0, &mut bins);
        assert_eq!(bins, [5.0, 10.0, 10.0]);
        grid.spread(Nanos(40), Nanos(50), 1.0, &mut bins);
        assert_eq!(bins, [5.0, 10.0, 10.0]);
    }

    #[test]
    fn a_reading_a_little_late_belongs_to_the_bin_it_ended() {
        let grid = Grid { width: 1000, n_bins: 3, end: 3000 };
        assert_eq!(
            [999, 1000, 1003, 1999, 2400].map(|at| grid.bin_ending_at(Nanos(at))),
            [0, 0, 0, 1, 1]
        );
    }
}
