//! Offset between two clocks: from exchanges of four timestamps, and a line through several offsets
//! with its bound.
//!
//! A request leaves here at T1, arrives there at T2, its answer leaves there at T3 and arrives here
//! at T4 (ns, T1 and T4 on our clock, T2 and T3 on theirs). Then `((T2 - T1) + (T3 - T4)) / 2` is
//! the offset of their clock. Its error is at most half of `(T4 - T1) - (T3 - T2)`, however the
//! round trip divides into there and back (RFC 5905 clause 8; RFC 5357 for the same four stamps).
//! Of several exchanges the one with the shortest round trip is kept: it waited least, and has the
//! tightest bound.
//!
//! Over a campaign clocks drift apart. A line through the kept offsets gives the offset at any time
//! between. Its uncertainty is the largest bound of the fitted offsets plus the largest distance of
//! one from the line. Not covered: a clock that was stepped or whose drift bends, except as a
//! larger distance, and a lasting asymmetry of the path, which no exchange shows and every bound
//! includes.

/// An offset and how far it may be off, both ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offset {
    /// Time of the offset on our clock, ns.
    pub at: f64,
    /// Offset of their clock, ns; positive if it is ahead of ours.
    pub offset: f64,
    /// Most by which the offset is wrong.
    pub uncertainty: f64,
}

/// Returns the offset from one exchange of timestamps, ns: T1 and T4 by our clock, T2 and T3 by
/// theirs. `None` where they cannot be: an answer before its request, or more time spent there than
/// passed here.
///
/// # Examples
/// ```
/// use linerate_analysis::statistics::exchange;
///
/// // We send at 1,000 ns and hear the answer at 1,500 ns. The peer receives at 6,200 ns and
/// // answers at 6,300 ns by its own clock.
/// let offset = exchange(1_000, 6_200, 6_300, 1_500).expect("the order is possible");
/// // ((6200 - 1000) + (6300 - 1500)) / 2 = 5000 (RFC 5905 clause 8).
/// assert_eq!(offset.offset, 5_000.0);
/// // The network took (1500 - 1000) - (6300 - 6200) = 400 ns: the offset is right to half of it.
/// assert_eq!(offset.uncertainty, 200.0);
/// ```
#[must_use]
pub fn exchange(sent: u64, arrived: u64, answered: u64, heard: u64) -> Option<Offset> {
    // Timestamps out of order come from a clock that was stepped, and give no offset at all.
    let (here, there) = (heard.checked_sub(sent)?, answered.checked_sub(arrived)?);
    let round_trip = here.checked_sub(there)?;
    // Clocks of two hosts may be decades apart, which overflows a signed 64-bit difference.
    let ahead = |theirs: u64, ours: u64| i128::from(theirs) - i128::from(ours);
    let offset = (ahead(arrived, sent) + ahead(answered, heard)) as f64 / 2.0;
    Some(Offset {
        // The offset belongs to the middle of the exchange.
        at: sent as f64 + here as f64 / 2.0,
        offset,
        uncertainty: round_trip as f64 / 2.0,
    })
}

/// A clock's course against ours: `offset + skew * (t - at)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Course {
    /// Middle of the offsets fitted, on our clock, ns.
    pub at: f64,
    /// Offset there, ns.
    pub offset: f64,
    /// Rate at which their clock gains on ours, ns per ns.
    pub skew: f64,
    /// Largest distance of an offset from the line, ns.
    pub residual: f64,
    /// Largest bound of an offset fitted, ns.
    pub bound: f64,
    /// Number of offsets.
    pub n: usize,
}

/// Returns the least-squares line through `offsets`; with one, or all at one time, a line without
/// skew. `None` without any.
///
/// # Examples
/// ```
/// use linerate_analysis::statistics::{Offset, course};
///
/// let seen = [(0.0, 100.0), (1e9, 1_100.0)];
/// let offsets = seen.map(|(at, offset)| Offset { at, offset, uncertainty: 50.0 });
/// let course = course(&offsets).expect("two offsets");
/// // The peer gains 1,000 ns in one second: one part in a million.
/// assert!((course.skew - 1e-6).abs() < 1e-12);
/// ```
#[must_use]
pub fn course(offsets: &[Offset]) -> Option<Course> {
    let n = offsets.len();
    // Offsets are as large as uptimes. Relative to the first one, sums keep their nanoseconds.
    let origin = *offsets.first()?;
    let moved = || offsets.iter().map(|one| (one.at - origin.at, one.offset - origin.offset));
    let mean_of = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / n as f64;
    let (at, offset) =
        (mean_of(&mut moved().map(|one| one.0)), mean_of(&mut moved().map(|one| one.1)));
    let spread: f64 = moved().map(|(x, _)| (x - at).powi(2)).sum();
    let shared: f64 = moved().map(|(x, y)| (x - at) * (y - offset)).sum();
    // With all offsets at one time, a slope is undefined; a constant offset is the best line.
    let skew = if spread > 0.0 { shared / spread } else { 0.0 };
    let residual = moved().map(|(x, y)| (y - offset - skew * (x - at)).abs()).fold(0.0, f64::max);
    let bound = offsets.iter().map(|one| one.uncertainty).fold(0.0, f64::max);
    Some(Course { at: origin.at + at, offset: origin.offset + offset, skew, residual, bound, n })
}

impl Course {
    /// Returns the offset at `ours` on our clock, ns.
    #[must_use]
    pub(crate) fn offset_at(&self, ours: f64) -> f64 {
        self.offset + self.skew * (ours - self.at)
    }

    /// Most by which an offset between the fitted ones is wrong, ns.
    #[must_use]
    pub fn uncertainty(&self) -> f64 {
        // Both parts are worst cases, so they add up instead of averaging out.
        self.bound + self.residual
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    /// RFC 5905 clause 8: theta = 1/2 [(T2-T1) + (T3-T4)], delta = (T4-T1) - (T3-T2).
    #[test]
    fn four_stamps_take_the_time_spent_there_out_of_the_round_trip() {
        // Theirs is 5000 ahead; 100 there, 40 spent there, 100 back.
        let offset = exchange(1_000, 6_100, 6_140, 1_240).expect("possible");
        assert_eq!(offset, Offset { at: 1_120.0, offset: 5_000.0, uncertainty: 100.0 });
        assert_eq!(exchange(1_000, 6_100, 6_140, 1_030), None, "more time there than here");
        assert_eq!(exchange(1_000, 6_100, 6_090, 1_240), None, "answered before it came");
    }

    proptest! {
        #[test]
        fn the_true_offset_lies_within_the_bound(ahead in -1_000_000_000_i64..1_000_000_000,
            there in 0_u64..1_000_000, spent in 0_u64..1_000_000, back in 0_u64..1_000_000) {
            let sent = 2_000_000_000_u64;
            let arrived = (sent + there).wrapping_add_signed(ahead);
            let offset = exchange(sent, arrived, arrived + spent,
                sent + there + spent + back).expect("possible");
            prop_assert!((offset.offset - ahead as f64).abs() <= offset.uncertainty + 1e-6);
        }

        #[test]
        fn a_drifting_clock_is_followed_to_within_the_bound(ppm in -200.0_f64..200.0,
            seed in 0_u64..1_000) {
            // Ten exchanges over an hour with up to 50 us each way.
            let mut state = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let mut way = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005);
                state = state.wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as f64 / f64::from(1_u32 << 31) * 50_000.0
            };
            let truth = |t: f64| 1e15 + ppm * 1e-6 * t;
            let offsets: Vec<Offset> = (0..10).map(|i| {
                let (t, there, back) = (f64::from(i) * 360e9, way(), way());
                Offset { at: t, offset: truth(t) + (there - back) / 2.0,
                    uncertainty: f64::midpoint(there, back) }
            }).collect();
            let course = course(&offsets).expect("offsets");
            for i in 0..=36 {
                let t = f64::from(i) * 90e9;
                let at = t.min(3_240e9);
                let error = (course.offset_at(at) - truth(at)).abs();
                prop_assert!(error <= course.uncertainty() + 1.0);
            }
        }
    }

    #[test]
    fn a_step_of_the_clock_shows_as_a_residual() {
        let of = |at: f64, offset| Offset { at, offset, uncertainty: 10.0 };
        let steady: Vec<Offset> =
            (0..6).map(|i| of(f64::from(i) * 1e9, 7e9 + 2e4 * f64::from(i))).collect();
        let line = course(&steady).expect("offsets");
        assert!(
            (line.skew - 2e-5).abs() < 1e-12
                && line.residual < 1e-3
                && (line.uncertainty() - 10.0).abs() < 1e-3
        );
        let mut stepped = steady;
        stepped.iter_mut().skip(3).for_each(|one| one.offset += 1e6);
        assert!(course(&stepped).expect("offsets").uncertainty() > 2e5);
        let alone = course(&[of(5.0, 3.0)]).expect("one");
        assert_eq!((alone.skew, alone.offset_at(1e9), alone.uncertainty()), (0.0, 3.0, 10.0));
    }
}
