//! A small random generator whose sequence never changes: a seed written down today means the same
//! trials in ten years.
//!
//! SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) for numbers, Fisher-Yates for order, FNV-1a (RFC
//! 9923) to turn names into seeds. Not for secrets.

/// SplitMix64.
pub(super) struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator that starts at `seed`.
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub(super) fn next(&mut self) -> u64 {
        /// 2^64 divided by the golden ratio, odd.
        const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
        self.0 = self.0.wrapping_add(GOLDEN_GAMMA);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not zero; the bias is below `bound` / 2^64.
    fn below(&mut self, bound: usize) -> usize {
        // A multiplication needs no division, and its bias is spread over the whole range.
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// Puts `items` into random order, every order equally likely.
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        // The order of Fisher and Yates; any other would change the trials of every old plan.
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// A seed made of `seed` and `parts`; parts are kept apart, so ("ab", "c") differs from ("a",
/// "bc").
pub(super) fn derive(seed: u64, parts: &[&str]) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    // A fixed byte order gives hosts of either order the same trials.
    let mut hash = hashed(OFFSET_BASIS, &seed.to_le_bytes());
    for part in parts {
        // The length goes in before the text, or ("ab", "c") and ("a", "bc") would give the same
        // seed.
        hash = hashed(hash, &(part.len() as u64).to_le_bytes());
        hash = hashed(hash, part.as_bytes());
    }
    SplitMix64::new(hash).next()
}

/// Returns the FNV-1a hash `hash` continued by `bytes`.
fn hashed(hash: u64, bytes: &[u8]) -> u64 {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference output of `splitmix64.c` (Vigna, prng.di.unimi.it) for the seed 1234567.
    #[test]
    fn splitmix64_gives_the_published_sequence() {
        let mut random = SplitMix64::new(1_234_567);
        let known =
            [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431];
        assert_eq!(known.map(|_| random.next()), known);
    }

    #[test]
    fn a_shuffle_is_a_permutation_and_stays_the_same_for_ever() {
        let mut items: Vec<u32> = (0..10).collect();
        SplitMix64::new(42).shuffle(&mut items);
        assert_eq!(items, [8, 3, 6, 5, 4, 0, 9, 2, 1, 7]);
    }

    #[test]
    fn parts_of_a_seed_do_not_run_together() {
        assert_ne!(derive(1, &["ab", "c"]), derive(1, &["a", "bc"]));
        assert_ne!(derive(1, &["a"]), derive(2, &["a"]));
    }
}
