//! The arithmetic of rings that a kernel and a process share: free-running 32-bit indices, a power
//! of two of slots. Pure.
//!
//! One side fills and the other drains; each writes one index and reads the other's. The other's is
//! read seldom, because its cache line is hot elsewhere: only when what is known of it does not
//! suffice.

/// The side that fills: what we hand over.
#[derive(Clone, Copy, Debug)]
pub struct Filling {
    n_slots: u32,
    /// Next slot to fill, free-running; what the other side may drain ends here once it is
    /// published.
    next: u32,
    /// How far the other side had drained when it was last looked at.
    drained: u32,
}

/// The side that drains: what is handed to us.
#[derive(Clone, Copy, Debug)]
pub struct Draining {
    n_slots: u32,
    /// Next slot to drain, free-running.
    next: u32,
    /// How far the other side had filled when it was last looked at.
    filled: u32,
}

impl Filling {
    /// A ring that has never been used.
    ///
    /// # Panics
    /// If `n_slots` is no power of two.
    #[must_use]
    pub fn new(n_slots: u32) -> Self {
        Self::from(n_slots, 0)
    }

    fn from(n_slots: u32, next: u32) -> Self {
        assert!(n_slots.is_power_of_two(), "{n_slots} slots are no power of two");
        Self { n_slots, next, drained: next }
    }

    /// How many of `wanted` slots may be filled now. `drained` reads the other side's index, with
    /// acquire ordering; it is asked only if need be.
    #[inline]
    pub fn room(&mut self, wanted: u32, drained: impl FnOnce() -> u32) -> u32 {
        if self.free() < wanted {
            self.drained = drained();
        }
        self.free().min(wanted)
    }

    /// The slot that the `k`-th entry from now goes to.
    #[inline]
    #[must_use]
    pub fn slot(&self, k: u32) -> u32 {
        self.next.wrapping_add(k) & (self.n_slots - 1)
    }

    /// `n` slots were filled: the index to publish, with release ordering.
    #[inline]
    pub fn advance(&mut self, n: u32) -> u32 {
        debug_assert!(n <= self.free(), "{n} entries into {} free slots", self.free());
        self.next = self.next.wrapping_add(n);
        self.next
    }

    /// Entries not drained, if the other side's index is `drained`.
    #[inline]
    #[must_use]
    pub fn pending(&self, drained: u32) -> u32 {
        self.next.wrapping_sub(drained)
    }

    fn free(&self) -> u32 {
        // An index that ran ahead of ours would be the kernel's mistake; it must not become ours.
        self.n_slots.saturating_sub(self.next.wrapping_sub(self.drained))
    }
}

impl Draining {
    /// A ring that has never been used.
    ///
    /// # Panics
    /// If `n_slots` is no power of two.
    #[must_use]
    pub fn new(n_slots: u32) -> Self {
        Self::from(n_slots, 0)
    }

    fn from(n_slots: u32, next: u32) -> Self {
        assert!(n_slots.is_power_of_two(), "{n_slots} slots are no power of two");
        Self { n_slots, next, filled: next }
    }

    /// How many of `wanted` entries are there. `filled` reads the other side's index, with acquire
    /// ordering; it is asked only if need be.
    #[inline]
    pub fn available(&mut self, wanted: u32, filled: impl FnOnce() -> u32) -> u32 {
        if self.known() < wanted {
            self.filled = filled();
        }
        self.known().min(wanted)
    }

    /// The slot that the `k`-th entry from now is in.
    #[inline]
    #[must_use]
    pub fn slot(&self, k: u32) -> u32 {
        self.next.wrapping_add(k) & (self.n_slots - 1)
    }

    /// `n` entries were drained: the index to publish, with release ordering.
    #[inline]
    pub fn advance(&mut self, n: u32) -> u32 {
        debug_assert!(n <= self.known(), "{n} entries of {} known", self.known());
        self.next = self.next.wrapping_add(n);
        self.next
    }

    fn known(&self) -> u32 {
        self.filled.wrapping_sub(self.next).min(self.n_slots)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Both sides of one ring in memory.
    struct World {
        slots: Vec<Option<u64>>,
        filled: u32,
        drained: u32,
    }

    proptest! {
        /// Whatever the sizes of the steps and wherever the indices begin, everything comes out
        /// once and in order, and no slot is overwritten before it was drained.
        #[test]
        fn everything_comes_out_once_and_in_order(
            bits in 0_u32..6,
            begin in prop_oneof![Just(0_u32), Just(u32::MAX - 3), any::<u32>()],
            steps in prop::collection::vec((any::<bool>(), 0_u32..40), 1..200),
        ) {
            let n_slots = 1 << bits;
            let mut world = World { slots: vec![None; n_slots as usize], filled: begin, drained: begin };
            let (mut filling, mut draining) = (Filling::from(n_slots, begin), Draining::from(n_slots, begin));
            let (mut put, mut got) = (0_u64, 0_u64);
            for (fill, wanted) in steps {
                if fill {
                    let n = filling.room(wanted, || world.drained);
                    prop_assert!(n <= wanted);
                    for k in 0..n {
                        let slot = &mut world.slots[filling.slot(k) as usize];
                        prop_assert_eq!(slot.replace(put), None, "overwritten");
                        put += 1;
                    }
                    world.filled = filling.advance(n);
                    prop_assert_eq!(u64::from(filling.pending(world.drained)), put - got);
                } else {
                    let n = draining.available(wanted, || world.filled);
                    prop_assert_eq!(u64::from(n), u64::from(wanted).min(put - got));
                    for k in 0..n {
                        prop_assert_eq!(world.slots[draining.slot(k) as usize].take(), Some(got));
                        got += 1;
                    }
                    world.drained = draining.advance(n);
                }
            }
        }

        /// An index that makes no sense never leads to more slots than there are.
        #[test]
        fn a_senseless_index_of_the_other_side_is_harmless(other in any::<u32>(), wanted in any::<u32>()) {
            prop_assert!(Filling::new(8).room(wanted, || other) <= 8);
            prop_assert!(Draining::new(8).available(wanted, || other) <= 8);
        }
    }

    #[test]
    fn a_ring_takes_as_many_as_it_has_slots() {
        let mut filling = Filling::new(4);
        assert_eq!(filling.room(9, || 0), 4);
        filling.advance(4);
        assert_eq!(filling.room(1, || 0), 0);
        assert_eq!((filling.room(9, || 3), filling.slot(0)), (3, 0));
    }
}
