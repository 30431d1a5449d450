//! Random numbers from a seed: the same in every version, so that a lab behaves the same each time.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;

/// Bits of the significand of a double (IEEE 754).
const SIGNIFICAND_BITS: u32 = 53;

/// Returns a number from 0, included, to 1, excluded.
pub(crate) fn fraction(random: &mut Xoshiro256PlusPlus) -> f64 {
    (random.next_u64() >> (u64::BITS - SIGNIFICAND_BITS)) as f64
        / (1_u64 << SIGNIFICAND_BITS) as f64
}
