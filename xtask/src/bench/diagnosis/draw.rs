//! Random draws of a scenario, the same for the same seed.

/// Generator of random numbers (SplitMix64).
#[derive(Clone, Copy, Debug)]
pub(super) struct Draw(u64);

impl Draw {
    /// Returns the generator that follows from `seed`.
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the generator of the scenario `name` with `seed`: scenarios of one seed differ.
    pub(super) fn of(name: &str, seed: u64) -> Self {
        // FNV-1a.
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Self(name.bytes().fold(0xcbf2_9ce4_8422_2325, hash) ^ seed.wrapping_mul(0x9e37_79b9))
    }

    /// Returns a number in [0, 1).
    pub(super) fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number between `least` and `most`, evenly spread over its logarithm.
    pub(super) fn between(&mut self, least: f64, most: f64) -> f64 {
        least * (most / least).powf(self.share())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_name_give_the_same_numbers_again_and_others_do_not() {
        let drawn = |name, seed| Draw::of(name, seed).between(10.0, 50.0);
        assert_eq!(drawn("policer", 1), drawn("policer", 1));
        assert!(drawn("policer", 1) != drawn("policer", 2));
        assert!(drawn("policer", 1) != drawn("slow hop", 1));
        let mut draw = Draw::new(5);
        assert!((0..1000).map(|_| draw.between(10.0, 50.0)).all(|n| (10.0..50.0).contains(&n)));
    }
}
