//! Memory that the kernel writes into, and the two engines that submit it.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;

use super::{Completion, Engine, Operation, Priority, Request};
use crate::memory::Mapping;

pub(super) mod aio;
pub(super) mod ring;

/// Releases `bytes` of `file` at `offset` to the device or the filesystem.
pub(super) fn discard(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    /// `BLKDISCARD` (include/uapi/linux/fs.h): `_IO(0x12, 119)`.
    const BLKDISCARD: libc::Ioctl = 0x1277;
    if file.metadata()?.file_type().is_block_device() {
        let range = [offset, bytes];
        // SAFETY: the kernel reads two numbers from `range`, which outlives the call.
        let done = unsafe { libc::ioctl(file.as_raw_fd(), BLKDISCARD, range.as_ptr()) };
        return if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
    }
    let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    Ok(rustix::fs::fallocate(file, flags, offset, bytes)?)
}

/// Sets the I/O priority of the calling thread (ioprio_set(2)).
pub(super) fn set_priority(priority: Priority) -> io::Result<()> {
    /// `IOPRIO_WHO_PROCESS` (include/uapi/linux/ioprio.h): a thread by its id, 0 for the caller.
    const THREAD: libc::c_long = 1;
    // SAFETY: the arguments are three numbers; no memory is passed.
    let done = unsafe {
        libc::syscall(libc::SYS_ioprio_set, THREAD, 0, libc::c_long::from(priority.bits()))
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Slots of equal size in one mapping, each owned either by us or by the kernel.
#[derive(Debug)]
pub(super) struct Arena {
    mapping: Mapping,
    slot_bytes: usize,
    is_kernels: Vec<bool>,
}

impl Arena {
    pub(super) fn new(slots: u32, slot_bytes: usize) -> io::Result<Self> {
        let bytes = slot_bytes.checked_mul(slots as usize).ok_or(io::ErrorKind::InvalidInput)?;
        let mapping = Mapping::anonymous(bytes.max(1))?;
        let mut arena = Self { mapping, slot_bytes, is_kernels: vec![false; slots as usize] };
        // Touches every page now, so that no page fault remains for later.
        for slot in 0..slots {
            arena.buffer(slot).fill(0);
        }
        Ok(arena)
    }

    fn start(&self, slot: u32) -> *mut u8 {
        assert!(
            (slot as usize) < self.is_kernels.len(),
            "there are {} slots, not {slot}",
            self.is_kernels.len()
        );
        let start = self.mapping.address() as usize + slot as usize * self.slot_bytes;
        std::ptr::with_exposed_provenance_mut(start)
    }

    /// Returns the buffer of a slot that we own.
    pub(super) fn buffer(&mut self, slot: u32) -> &mut [u8] {
        let start = self.start(slot);
        assert!(!self.is_kernels[slot as usize], "slot {slot} is under way");
        // SAFETY: the slot lies in our anonymous mapping, which is zeroed, readable and writable
        // and lives as long as `self`; the kernel does not have it, and `&mut self` excludes every
        // other reference to it.
        unsafe { std::slice::from_raw_parts_mut(start, self.slot_bytes) }
    }

    /// Passes `request`'s slot to the kernel and returns its start.
    fn lend(&mut self, request: Request) -> *mut u8 {
        let start = self.start(request.slot);
        assert!(
            request.bytes as usize <= self.slot_bytes,
            "{} bytes do not fit a slot",
            request.bytes
        );
        let was = std::mem::replace(&mut self.is_kernels[request.slot as usize], true);
        assert!(!was, "slot {} is under way", request.slot);
        start
    }

    /// Takes back `slot`, with which the kernel is done.
    fn give_back(&mut self, slot: u32) {
        self.is_kernels[slot as usize] = false;
    }
}
