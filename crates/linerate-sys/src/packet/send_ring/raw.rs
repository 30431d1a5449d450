//! Slots of a send ring. The status word of each says if it belongs to the kernel or to us.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};

use super::slot::{FRAME_AT, LENGTH_AT, Status};
use crate::memory::Mapping;

/// Slots mapped from a socket.
#[derive(Debug)]
pub(super) struct Slots {
    mapping: Mapping,
    slot_bytes: usize,
    n: usize,
}

impl Slots {
    /// Maps the ring of `socket`, which must have this shape.
    pub(super) fn map(socket: &impl AsFd, slot_bytes: usize, n: usize) -> io::Result<Self> {
        assert!(
            slot_bytes.is_power_of_two() && slot_bytes > FRAME_AT && n > 0,
            "{n} slots of {slot_bytes} B"
        );
        Ok(Self { mapping: Mapping::shared(socket, slot_bytes * n, 0)?, slot_bytes, n })
    }

    pub(super) fn n(&self) -> usize {
        self.n
    }

    fn start(&self, idx: usize) -> *mut u8 {
        assert!(idx < self.n, "slot {idx} of {}", self.n);
        // SAFETY: the slot lies within the mapping, whose length is that of all slots.
        unsafe { self.mapping.start().as_ptr().add(idx * self.slot_bytes) }
    }

    fn word(&self, idx: usize, at: usize) -> &AtomicU32 {
        debug_assert!(at.is_multiple_of(size_of::<u32>()) && at < FRAME_AT, "a word of the header");
        // SAFETY: the word lies within the slot's header, is aligned (slots are powers of two, a
        // ring begins on a page), lives as long as the mapping, and is only accessed atomically.
        unsafe { AtomicU32::from_ptr(self.start(idx).add(at).cast()) }
    }

    /// Returns the owner of slot `idx`.
    #[inline]
    pub(super) fn status(&self, idx: usize) -> Status {
        // Acquire: the kernel read the frame before it returned the slot.
        Status::of(self.word(idx, Status::AT).load(Ordering::Acquire))
    }

    /// Returns the frame in slot `idx`, if the slot is ours.
    #[inline]
    pub(super) fn frame_mut(&mut self, idx: usize) -> Option<&mut [u8]> {
        let ours = self.status(idx) == Status::Ours;
        // SAFETY: the range is the slot's behind its header, within the mapping. While it is ours
        // the kernel does not read it, and handing it over takes `&mut self`, which this borrow
        // excludes.
        ours.then(|| unsafe {
            std::slice::from_raw_parts_mut(
                self.start(idx).add(FRAME_AT),
                self.slot_bytes - FRAME_AT,
            )
        })
    }

    /// Asks the kernel to send the `length` bytes in slot `idx` with the next call.
    #[inline]
    pub(super) fn hand_over(&mut self, idx: usize, length: u32) {
        self.word(idx, LENGTH_AT).store(length, Ordering::Relaxed);
        // Release: frame and length are written before the kernel sees the request.
        self.word(idx, Status::AT).store(Status::REQUESTED, Ordering::Release);
    }

    /// Withdraws slot `idx`, which the kernel did not accept. The kernel reads slots only during
    /// our calls.
    #[inline]
    pub(super) fn withdraw(&mut self, idx: usize) {
        self.word(idx, Status::AT).store(Status::AVAILABLE, Ordering::Relaxed);
    }
}
