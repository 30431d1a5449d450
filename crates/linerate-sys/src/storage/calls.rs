//! `pread` and `pwrite` in the caller's thread.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::{Completion, Operation, Priority, Request, raw};
use crate::memory::Region;

/// A file, and the buffers of its transfers. A transfer is complete when `queue` returns.
#[derive(Debug)]
pub(super) struct Calls {
    pub(super) file: File,
    buffers: Vec<Region>,
    done: Vec<Completion>,
    priority: Priority,
}

impl Calls {
    pub(super) fn new(file: File, slots: u32, slot_bytes: usize) -> io::Result<Self> {
        let buffers = buffers(slots, slot_bytes)?;
        Ok(Self {
            file,
            buffers,
            done: Vec::with_capacity(slots as usize),
            priority: Priority::NONE,
        })
    }

    pub(super) fn buffer(&mut self, slot: u32) -> &mut [u8] {
        assert!(self.done.iter().all(|done| done.slot != slot), "slot {slot} is under way");
        &mut self.buffers[slot as usize]
    }

    #[inline]
    pub(super) fn queue(&mut self, request: Request) {
        assert!(
            self.done.iter().all(|done| done.slot != request.slot),
            "slot {} is under way",
            request.slot
        );
        let result = transfer(
            &self.file,
            &mut self.buffers[request.slot as usize],
            request,
            &mut self.priority,
        );
        self.done.push(Completion { slot: request.slot, result });
    }

    #[inline]
    pub(super) fn reap(&mut self, done: impl FnMut(Completion)) -> io::Result<()> {
        self.done.drain(..).for_each(done);
        Ok(())
    }
}

/// Allocates one buffer per slot.
pub(super) fn buffers(slots: u32, slot_bytes: usize) -> io::Result<Vec<Region>> {
    (0..slots).map(|_| Region::new(slot_bytes).map_err(|error| error.cause)).collect()
}

/// Performs `request` now, in a thread whose I/O priority is `current`. Returns bytes moved, or the
/// negative error number.
#[inline]
pub(super) fn transfer(
    file: &File,
    buffer: &mut Region,
    request: Request,
    current: &mut Priority,
) -> i32 {
    let Request { offset, bytes, priority, .. } = request;
    if priority != *current {
        if let Err(error) = raw::set_priority(priority) {
            return -error.raw_os_error().unwrap_or(libc::EIO);
        }
        *current = priority;
    }
    let moved = match request.operation {
        Operation::Read => file.read_at(&mut buffer[..bytes as usize], offset),
        Operation::Write => file.write_at(&buffer[..bytes as usize], offset),
        Operation::Fsync => file.sync_all().map(|()| 0),
        Operation::Fdatasync => file.sync_data().map(|()| 0),
        Operation::Trim => raw::discard(file, offset, bytes.into()).map(|()| 0),
    };
    match moved {
        Ok(bytes) => bytes as i32,
        Err(error) => -error.raw_os_error().unwrap_or(libc::EIO),
    }
}
