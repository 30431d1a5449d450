//! Blocks of a ring. The status word of each says if it belongs to the kernel or to us.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};

use super::super::block::STATUS_AT;
use crate::memory::Mapping;

/// `TP_STATUS_USER`: the block is ours. Zero: the block is the kernel's.
const OURS: u32 = 1;
const KERNELS: u32 = 0;

/// Blocks mapped from a socket.
#[derive(Debug)]
pub(super) struct Blocks {
    mapping: Mapping,
    block_bytes: usize,
    n: usize,
}

impl Blocks {
    /// Maps the ring of `socket`, which must have this shape.
    pub(super) fn map(socket: &impl AsFd, block_bytes: usize, n: usize) -> io::Result<Self> {
        assert!(
            block_bytes.is_power_of_two() && block_bytes >= 4096 && n > 0,
            "{n} blocks of {block_bytes} B"
        );
        Ok(Self { mapping: Mapping::shared(socket, block_bytes * n, 0)?, block_bytes, n })
    }

    pub(super) fn n(&self) -> usize {
        self.n
    }

    fn start(&self, idx: usize) -> *mut u8 {
        assert!(idx < self.n, "block {idx} of {}", self.n);
        // SAFETY: the block lies within the mapping, whose length is that of all blocks.
        unsafe { self.mapping.start().as_ptr().add(idx * self.block_bytes) }
    }

    fn status(&self, idx: usize) -> &AtomicU32 {
        // SAFETY: the status word lies within the block, is aligned (blocks begin on pages), lives
        // as long as the mapping, and both sides only access it atomically.
        unsafe { AtomicU32::from_ptr(self.start(idx).add(STATUS_AT).cast()) }
    }

    /// Returns block `idx`, if the kernel has handed it over.
    pub(super) fn handed_over(&self, idx: usize) -> Option<&[u8]> {
        // Acquire: reads after this see everything that the kernel wrote before the hand-over.
        let ours = self.status(idx).load(Ordering::Acquire) & OURS != 0;
        // SAFETY: the range is one block of the mapping. While it is ours the kernel does not write
        // to it, and giving it back takes `&mut self`, which this borrow excludes.
        ours.then(|| unsafe { std::slice::from_raw_parts(self.start(idx), self.block_bytes) })
    }

    /// Returns block `idx` to the kernel.
    pub(super) fn give_back(&mut self, idx: usize) {
        // Release: our reads are complete before the kernel writes again.
        self.status(idx).store(KERNELS, Ordering::Release);
    }
}
