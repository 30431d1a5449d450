//! Arithmetic of rings that a kernel and a process share: free-running 32-bit indices and a power
//! of two of slots. Pure.
//!
//! One side fills and the other drains. Each side writes one index and reads the other's. It reads
//! the other's index only if its last known value does not suffice, because that cache line is in
//! use on another CPU.

/// Side that fills the ring.
#[derive(Clone, Copy, Debug)]
pub struct Filling {
    n_slots: u32,
    /// Next slot to fill, free-running. Once published, it is the end of what the other side may
    /// drain.
    next: u32,
    /// Last known index up to which the other side had drained.
    drained: u32,
}

/// Side that drains the ring.
#[derive(Clone, Copy, Debug)]
pub struct Draining {
    n_slots: u32,
    /// Next slot to drain, free-running.
    next: u32,
    /// Last known index up to which the other side had filled.
    filled: u32,
}

impl Filling {
    /// Returns the state of an unused ring.
    ///
    /// # Panics
    /// If `n_slots` is not a power of two.
    #[must_use]
    pub fn new(n_slots: u32) -> Self {
        Self::from(n_slots, 0)
    }

    fn from(n_slots: u32, next: u32) -> Self {
        assert!(n_slots.is_power_of_two(), "{n_slots} slots are not a power of two");
        Self { n_slots, next, drained: next }
    }

    /// Returns how many of `wanted` slots may be filled now. `drained` reads the other side's
    /// index, with acquire ordering; it is called only if necessary.
    #[inline]
    pub fn room(&mut self, wanted: u32, drained: impl FnOnce() -> u32) -> u32 {
        if self.free() < wanted {
            self.drained = drained();
        }
        self.free().min(wanted)
    }

    /// Returns the slot of the `k`-th entry from now.
    #[inline]
    #[must_use]
    pub fn slot(&self, k: u32) -> u32 {
        self.next.wrapping_add(k) & (self.n_slots - 1)
    }

    /// Advances by `n` filled slots; returns the index to publish, with release ordering.
    #[inline]
    pub fn advance(&mut self, n: u32) -> u32 {
        debug_assert!(n <= self.free(), "{n} entries into {} free slots", self.free());
        self.next = self.next.wrapping_add(n);
        self.next
    }

    /// Returns the number of entries that are not drained if the other side's index is `drained`.
    #[inline]
    #[must_use]
    pub fn pending(&self, drained: u32) -> u32 {
        self.next.wrapping_sub(drained)
    }

    fn free(&self) -> u32 {
        // An index ahead of ours would be a mistake of the kernel. Saturation keeps it harmless.
        self.n_slots.saturating_sub(self.next.wrapping_sub(self.drained))
    }
}

impl Draining {
    /// Returns the state of an unused ring.
    ///
    /// # Panics
    /// If `n_slots` is not a power of two.
    #[must_use]
    pub fn new(n_slots: u32) -> Self {
        Self::from(n_slots, 0)
    }

    fn from(n_slots: u32, next: u32) -> Self {
        assert!(n_slots.is_power_of_two(), "{n_slots} slots are not a power of two");
        Self { n_slots, next, filled: next }
    }

    /// Returns how many of `wanted` entries are available. `filled` reads the other side's index,
    /// with acquire ordering; it is called only if necessary.
    #[inline]
    pub fn available(&mut self, wanted: u32, filled: impl FnOnce() -> u32) -> u32 {
        if self.known() < wanted {
            self.filled = filled();
        }
        self.known().min(wanted)
    }

    /// Returns the slot of the `k`-th entry from now.
    #[inline]
    #[must_use]
    pub fn slot(&self, k: u32) -> u32 {
        self.next.wrapping_add(k) & (self.n_slots - 1)
    }

    /// Advances by `n` drained entries; returns the index to publish, with release ordering.
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
        /// For any sizes of steps and any first index, everything comes out once and in order, and
        /// no slot is overwritten before it was drained.
        #[test]
        fn everything_comes_out_once_and_in_order(
            bits in 0_u32..6,
            begin in prop_oneof![Just(0_u32), Just(u32::MAX - 3), any::<u32>()],
            steps in prop::collection::vec((any::<bool>(), 0_u32..40), 1..200),
        ) {
            let n_slots = 1 << bits;
            let mut world = World { slots: vec![None; n_slots as usize], filled: begin,
                drained: begin };
            let (mut filling, mut draining) = (Filling::from(n_slots, begin),
                Draining::from(n_slots, begin));
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

        /// A senseless index never leads to more slots than there are.
        #[test]
        fn a_senseless_index_of_the_other_side_is_harmless(other in any::<u32>(),
            wanted in any::<u32>()) {
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
