//! Memory that AF_XDP shares with the kernel: four rings and the memory of the frames
//! (linux/if_xdp.h).

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::net::xdp::XdpRingOffset;

use crate::memory::Mapping;

/// `struct xdp_desc`: a part of a frame.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descriptor {
    /// Offset from the start of the memory, bytes.
    pub(super) address: u64,
    pub(super) bytes: u32,
    /// `XDP_PKT_CONTD` if the frame continues in the next descriptor.
    pub(super) options: u32,
}

const _: () = assert!(size_of::<Descriptor>() == 16);

/// Type of a ring's slots; every bit pattern must be valid.
pub(super) trait Entry: Copy {}
impl Entry for u64 {}
impl Entry for Descriptor {}

/// Ring: two indices, flags, and slots.
#[derive(Debug)]
pub(super) struct Ring<E> {
    mapping: Mapping,
    offsets: XdpRingOffset,
    n_slots: u32,
    slots: std::marker::PhantomData<E>,
}

impl<E: Entry> Ring<E> {
    /// Maps the ring of `socket` at `page_offset`.
    pub(super) fn map(
        socket: &impl AsFd,
        page_offset: u64,
        offsets: XdpRingOffset,
        n_slots: u32,
    ) -> io::Result<Self> {
        let bytes = offsets.desc as usize + n_slots as usize * size_of::<E>();
        let mapping = Mapping::shared(socket, bytes, page_offset)?;
        let flags = offsets.flags.unwrap_or(offsets.producer);
        let fits = [offsets.producer, offsets.consumer, flags]
            .iter()
            .all(|at| *at as usize + 4 <= mapping.len());
        let aligned =
            [offsets.producer, offsets.consumer, flags].iter().all(|at| at.is_multiple_of(4))
                && offsets.desc.is_multiple_of(8);
        if !fits || !aligned {
            return Err(io::Error::other("the kernel's ring has an unknown layout"));
        }
        Ok(Self { mapping, offsets, n_slots, slots: std::marker::PhantomData })
    }

    /// Returns the index up to which the ring is filled.
    pub(super) fn filled(&self) -> u32 {
        self.index(self.offsets.producer).load(Ordering::Acquire)
    }

    /// Returns the index up to which the ring is drained.
    pub(super) fn drained(&self) -> u32 {
        self.index(self.offsets.consumer).load(Ordering::Acquire)
    }

    /// Publishes that we filled the ring up to `index`.
    pub(super) fn publish_filled(&self, index: u32) {
        self.index(self.offsets.producer).store(index, Ordering::Release);
    }

    /// Publishes that we drained the ring up to `index`.
    pub(super) fn publish_drained(&self, index: u32) {
        self.index(self.offsets.consumer).store(index, Ordering::Release);
    }

    /// Returns true if the kernel must be woken to process this ring, or does not say.
    pub(super) fn needs_wakeup(&self) -> bool {
        const NEED_WAKEUP: u32 = 1;
        self.offsets
            .flags
            .is_none_or(|at| self.index(at).load(Ordering::Relaxed) & NEED_WAKEUP != 0)
    }

    /// Returns the entry in `slot`, which the kernel has filled and not yet received back.
    #[inline]
    pub(super) fn get(&self, slot: u32) -> E {
        // SAFETY: `at` lies inside the mapping and is aligned; any bits are an entry; between the
        // acquire load that showed the slot filled and the release store that returns it, the
        // kernel leaves it alone.
        unsafe { self.at(slot).read() }
    }

    /// Writes the entry in `slot`, which is ours until it is published.
    #[inline]
    pub(super) fn set(&mut self, slot: u32, entry: E) {
        // SAFETY: `at` lies inside the mapping and is aligned; between the acquire load that showed
        // the slot drained and the release store that publishes it, the kernel leaves it alone.
        unsafe { self.at(slot).write(entry) };
    }

    fn at(&self, slot: u32) -> *mut E {
        assert!(slot < self.n_slots, "slot {slot} of {}", self.n_slots);
        // SAFETY: `map` created a mapping that reaches to the end of the last slot.
        unsafe {
            self.mapping
                .start()
                .as_ptr()
                .add(self.offsets.desc as usize)
                .cast::<E>()
                .add(slot as usize)
        }
    }

    fn index(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: `map` has checked that the word lies inside the mapping and is aligned; both
        // sides access it as a whole.
        unsafe { self.mapping.start().add(offset as usize).cast::<AtomicU32>().as_ref() }
    }
}

/// Memory of the frames (UMEM). The rings decide who may access which part; [`super::umem::Umem`]
/// keeps the account.
#[derive(Debug)]
pub(super) struct Memory {
    mapping: Mapping,
}

impl Memory {
    pub(super) fn new(bytes: usize) -> io::Result<Self> {
        let memory = Self { mapping: Mapping::anonymous(bytes)? };
        // SAFETY: the range is the whole mapping, which nobody else knows yet. Every page is
        // touched now rather than later.
        unsafe { memory.mapping.start().as_ptr().write_bytes(0, memory.mapping.len()) };
        Ok(memory)
    }

    pub(super) fn address(&self) -> u64 {
        self.mapping.address()
    }

    pub(super) fn bytes(&self) -> usize {
        self.mapping.len()
    }

    /// Returns `length` bytes at `at`, which must be a frame that the kernel has given to us and
    /// not received back.
    pub(super) fn slice(&self, at: u64, length: u32) -> &[u8] {
        self.check(at, length);
        // SAFETY: inside the mapping, initialised (zeroed in `new`). The caller, `Umem`, asks only
        // for what came out of a ring and has not gone back into one, so that the kernel does not
        // write to it; `slice_mut` excludes itself by `&mut`.
        unsafe {
            std::slice::from_raw_parts(
                self.mapping.start().as_ptr().add(at as usize),
                length as usize,
            )
        }
    }

    /// Returns the same bytes, writable.
    pub(super) fn slice_mut(&mut self, at: u64, length: u32) -> &mut [u8] {
        self.check(at, length);
        // SAFETY: as in `slice`; `&mut self` excludes every other reference of this process.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.mapping.start().as_ptr().add(at as usize),
                length as usize,
            )
        }
    }

    fn check(&self, at: u64, length: u32) {
        let end = usize::try_from(at).ok().and_then(|at| at.checked_add(length as usize));
        assert!(
            end.is_some_and(|end| end <= self.mapping.len()),
            "{length} bytes at {at} of {}",
            self.mapping.len()
        );
    }
}
