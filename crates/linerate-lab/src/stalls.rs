//! Stalls of a device: spans of one length, at equal or random distances, in virtual time.
//!
//! Both directions of a device stall at the same times, because both use the same seed and the same
//! start. Random distances from the end of one stall to the start of the next are exponential, so
//! that stalls never overlap and their mean distance is exact.

use linerate_model::Nanos;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::description::Stall;
use crate::draw::fraction;

/// Sequence of a device's stalls.
#[derive(Clone, Debug)]
pub(crate) struct Stalls {
    stall: Stall,
    /// Start of the first stall that was not over at the last call.
    begin: Nanos,
    random: Xoshiro256PlusPlus,
}

impl Stalls {
    /// Creates the sequence of `stall`. The first stall is one distance after `start`.
    pub(crate) fn new(stall: Stall, start: Nanos) -> Self {
        let random = Xoshiro256PlusPlus::seed_from_u64(stall.seed);
        let mut stalls = Self { stall, begin: start, random };
        stalls.begin = start + stalls.distance();
        stalls
    }

    /// Returns the first instant from `now` on at which the device works. `now` must not go back
    /// from call to call.
    pub(crate) fn after(&mut self, now: Nanos) -> Nanos {
        // Stalls that ended before `now` are passed over: no frame came meanwhile.
        while now >= self.begin {
            let end = self.begin + self.stall.length;
            if now < end {
                return end;
            }
            self.begin = end + self.distance();
        }
        now
    }

    /// Returns the distance from the end of one stall to the start of the next.
    fn distance(&mut self) -> Nanos {
        let mean = Nanos(self.stall.every.0 - self.stall.length.0);
        if !self.stall.random {
            return mean;
        }
        // Inverse of the exponential law. One minus the draw is never zero, so the logarithm is
        // finite.
        Nanos((-(1.0 - fraction(&mut self.random)).ln() * mean.0 as f64).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL: Stall = Stall { length: Nanos(5), every: Nanos(100), random: false, seed: 1 };

    #[test]
    fn a_device_stalls_for_its_span_once_a_period() {
        let mut stalls = Stalls::new(STALL, Nanos(1000));
        let asked = [1000, 1094, 1095, 1099, 1100, 1101, 1194, 1199, 1350, 1396];
        let works = [1000, 1094, 1100, 1100, 1100, 1101, 1194, 1200, 1350, 1400];
        assert_eq!(asked.map(|now| stalls.after(Nanos(now)).0), works);
    }

    #[test]
    fn random_stalls_take_as_large_a_part_of_the_time_and_repeat_with_their_seed() {
        let still = |seed: u64| {
            let mut stalls = Stalls::new(Stall { random: true, seed, ..STALL }, Nanos(0));
            (0..1_000_000).filter(|&now| stalls.after(Nanos(now)) > Nanos(now)).count()
        };
        // 10 000 stalls of 5 in a million, give or take 1 % (their number's deviation is 1/sqrt(10
        // 000)).
        assert!((48_000..52_000).contains(&still(1)), "{}", still(1));
        assert_eq!(still(1), still(1));
        assert_ne!(still(1), still(2));
    }
}
