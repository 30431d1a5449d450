//! Size of a buffer that no counter reports, found with trains of back-to-back frames that grow
//! until one loses.
//!
//! Sans-I/O: [`BufferSearch::next`] returns the length of the next trains,
//! [`BufferSearch::observe`] takes their results. A buffer that overflows loses at least one frame
//! of every train that left back to back. A sender that loses its CPU within a train gives the
//! buffer time to drain, and the train passes. An occasional loss has another cause; it is counted
//! separately and does not move the search. Source: NC-SI reference 7.4; RFC 9004 for back-to-back
//! searches.
//!
//! Not covered: a buffer that other traffic fills meanwhile; the drain must be idle between trains.

use std::ops::Range;

use linerate_model::Bytes;

use super::Hose;

/// Trains longer than this are not tried: 4 MiB of full frames, beyond which a buffer is not
/// shallow.
const LONGEST: u32 = 2770;
/// Fraction of the trains that must lose for the buffer to be the cause. Trains that were
/// interrupted pass however small the buffer is, and a path with random loss would have to lose one
/// frame in twenty to spoil that many trains of six.
const FEWEST_TRAINS: f64 = 0.25;

/// Looks for the longest train that an unknown buffer takes.
#[derive(Clone, Debug)]
pub struct BufferSearch {
    /// The longest train known to pass, and the shortest known not to.
    passes: u32,
    overflows: Option<u32>,
    stray_losses: u64,
}

impl Default for BufferSearch {
    fn default() -> Self {
        Self::new()
    }
}

/// Result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inferred {
    /// Frames of the longest train that passed.
    pub longest_train: u32,
    /// Buffer sizes that this fits: at least the first, less than the second. One frame apart.
    pub buffer: Range<Bytes>,
    /// Frames lost in trains that the buffer holds: something else loses too.
    pub stray_losses: u64,
}

impl BufferSearch {
    /// Returns a search at its start.
    #[must_use]
    pub const fn new() -> Self {
        Self { passes: 0, overflows: None, stray_losses: 0 }
    }

    /// Returns the frames of the trains to send next; `None` when the search is over.
    #[must_use]
    pub fn next(&self) -> Option<u32> {
        match self.overflows {
            // The bounds are one frame apart, which is the finest answer trains can give.
            Some(overflows) if overflows - self.passes <= 1 => None,
            Some(overflows) => Some(self.passes + (overflows - self.passes) / 2),
            None if self.passes >= LONGEST => None,
            // Doubling finds the order of magnitude in few trains; halving then finds the exact
            // length.
            None => Some((self.passes * 2).clamp(1, LONGEST)),
        }
    }

    /// Records that `lost` frames of `trains` trains of `length` frames each did not arrive.
    pub fn observe(&mut self, length: u32, trains: u32, lost: u64) {
        // Without this condition, zero trains would count as an overflow.
        if lost as f64 >= f64::from(trains) * FEWEST_TRAINS && lost > 0 {
            // Results may arrive for several lengths at once, so a longer train must not widen the
            // bounds again.
            self.overflows = Some(self.overflows.map_or(length, |known| known.min(length)));
        } else {
            self.passes = self.passes.max(length);
            self.stray_losses += lost;
        }
    }

    /// Returns the buffer that the trains fit, on a path with the rates and frame size of `path`.
    /// `None` while the search continues, or if nothing overflowed.
    #[must_use]
    pub fn inferred(&self, path: &Hose) -> Option<Inferred> {
        // Bounds further apart mean that the search has not ended.
        let overflows = self.overflows.filter(|overflows| *overflows == self.passes + 1)?;
        Some(Inferred {
            longest_train: self.passes,
            buffer: path.occupied_by(self.passes)..path.occupied_by(overflows),
            stray_losses: self.stray_losses,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::SIDEBAND;
    use super::*;

    const TRAINS: u32 = 20;

    /// Lets a device with the buffer of `truth` answer a search; each `stray`-th observation loses
    /// one frame more.
    fn search(truth: &Hose, stray: usize) -> BufferSearch {
        let fits = truth.longest_burst().expect("it can overrun");
        let mut search = BufferSearch::new();
        for step in 1.. {
            let Some(length) = search.next() else { break };
            let overflow = u64::from(length.saturating_sub(fits)) * u64::from(TRAINS);
            search.observe(length, TRAINS, overflow + u64::from(step % stray == 0));
        }
        search
    }

    #[test]
    fn eight_kibibytes_are_found_in_a_handful_of_trains() {
        let found = search(&SIDEBAND, usize::MAX).inferred(&SIDEBAND).expect("it overflowed");
        assert_eq!((found.longest_train, found.buffer), (5, Bytes(7570)..Bytes(9084)));
    }

    #[test]
    fn a_sender_that_is_held_up_in_more_than_half_of_its_trains_still_shows_the_buffer() {
        let mut search = BufferSearch::new();
        while let Some(length) = search.next() {
            search.observe(length, TRAINS, if length > 5 { u64::from(TRAINS) * 9 / 20 } else { 1 });
        }
        assert_eq!(search.inferred(&SIDEBAND).map(|found| found.longest_train), Some(5));
    }

    #[test]
    fn a_path_that_never_overflows_is_not_given_a_size() {
        let mut search = BufferSearch::new();
        while let Some(length) = search.next() {
            search.observe(length, TRAINS, 0);
        }
        assert_eq!(search.inferred(&SIDEBAND), None);
    }

    proptest! {
        #[test]
        fn the_truth_lies_within_one_frame(buffer in 1514_u64..4_000_000, gigabits in 1_u32..40,
            stray in 2_usize..9) {
            let truth = Hose {
                buffer: Bytes(buffer),
                feed: linerate_model::BitRate(f64::from(gigabits) * 1e9),
                ..SIDEBAND
            };
            prop_assume!(truth.longest_burst().is_some_and(|longest| longest < LONGEST));
            let found = search(&truth, stray).inferred(&truth).expect("it overflowed");
            prop_assert!(found.buffer.contains(&truth.buffer), "{found:?} for {buffer}");
            prop_assert!(found.buffer.end.0 - found.buffer.start.0 <= truth.frame.0);
        }
    }
}
