//! Transfers between memory and files or block devices, several at once: by io_uring, native AIO,
//! threads, or plain calls.
//!
//! All four are used alike: fill a slot's buffer, queue a request for it, reap. A slot's memory
//! belongs to the kernel from `queue` until its completion is reaped, and is out of reach
//! meanwhile. Which engine is in use, and with what, is told by [`Transfers::described`]. What they
//! do not see: whether the page cache was in the way; that is how the file was opened.

use std::fs::File;
use std::io;
use std::time::Duration;

use crate::SysError;

mod calls;
mod priority;
#[allow(unsafe_code)]
mod raw;
mod threads;

pub use priority::Priority;

use calls::Calls;
use raw::aio::NativeAio;
use raw::ring::Ring;
use threads::Threads;

/// How transfers are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// io_uring, with registered files and buffers where the kernel grants them.
    IoUring,
    /// The same where completions are looked for in the device's queue, not announced by interrupts
    /// (`IORING_SETUP_IOPOLL`). Past the page cache only, and only where the driver has queues for
    /// it: the kernel does not say so itself.
    IoUringPolling,
    /// The same where a thread of the kernel's, on a CPU of its own, takes what is queued
    /// (`IORING_SETUP_SQPOLL`).
    IoUringThread,
    /// `io_submit` and `io_getevents`; asynchronous past the page cache only.
    NativeAio,
    /// One thread per slot, each in `pread` or `pwrite`.
    Threads,
    /// `pread` and `pwrite` in the caller's thread: one at a time.
    Calls,
}

impl Engine {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::IoUring => "io_uring",
            Self::IoUringPolling => "io_uring, polling the device",
            Self::IoUringThread => "io_uring with a submitting thread",
            Self::NativeAio => "aio",
            Self::Threads => "threads",
            Self::Calls => "pread",
        }
    }
}

/// What is asked of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// From the file to the slot's buffer.
    Read,
    /// From the slot's buffer to the file.
    Write,
    /// Makes durable what was written before, metadata included (fsync(2)). Moves nothing.
    Fsync,
    /// The same without metadata that nobody needs to read the data back (fdatasync(2)).
    Fdatasync,
    /// Gives bytes back: `BLKDISCARD` on a block device, a punched hole in a file (fallocate(2)).
    /// Moves nothing.
    Trim,
}

impl Operation {
    /// Whether it is a transfer: it moves bytes.
    #[must_use]
    pub const fn moves(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }

    /// What [`Completion::result`] is when all went well with `bytes` asked for.
    #[must_use]
    pub const fn expected(self, bytes: u32) -> i32 {
        match self {
            Self::Read | Self::Write => bytes as i32,
            Self::Fsync | Self::Fdatasync | Self::Trim => 0,
        }
    }
}

/// One transfer, flush or discard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The slot whose buffer is used.
    pub slot: u32,
    /// Which way.
    pub operation: Operation,
    /// Where in the file.
    pub offset: u64,
    /// How many bytes, at most a slot's.
    pub bytes: u32,
    /// Its I/O priority; flushes and discards have none.
    pub priority: Priority,
}

/// What came of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request's slot.
    pub slot: u32,
    /// Bytes transferred (0 of what moves nothing), or the negative error number.
    pub result: i32,
}

/// An engine with its file, its buffers, and what is under way.
#[derive(Debug)]
pub struct Transfers {
    inner: Inner,
    in_flight: u32,
}

#[derive(Debug)]
enum Inner {
    Ring(Box<Ring>),
    Aio(Box<NativeAio>),
    Threads(Box<Threads>),
    Calls(Box<Calls>),
}

impl Transfers {
    /// `engine` on `file` with `slots` buffers of `slot_bytes` (whole pages) each.
    ///
    /// # Errors
    /// If the kernel refuses the engine, or the memory. `ENOSYS` and `EPERM` mean that another
    /// engine must do.
    pub fn new(
        engine: Engine,
        file: File,
        slots: u32,
        slot_bytes: usize,
    ) -> Result<Self, SysError> {
        let failed = |cause: io::Error| SysError::new("set up", engine.name(), cause);
        let inner = match engine {
            Engine::IoUring | Engine::IoUringPolling | Engine::IoUringThread => {
                Inner::Ring(Box::new(Ring::new(engine, file, slots, slot_bytes).map_err(failed)?))
            }
            Engine::NativeAio => {
                Inner::Aio(Box::new(NativeAio::new(file, slots, slot_bytes).map_err(failed)?))
            }
            Engine::Threads => {
                Inner::Threads(Box::new(Threads::new(file, slots, slot_bytes).map_err(failed)?))
            }
            Engine::Calls => {
                Inner::Calls(Box::new(Calls::new(file, slots, slot_bytes).map_err(failed)?))
            }
        };
        Ok(Self { inner, in_flight: 0 })
    }

    /// Makes waits end when `least` transfers have ended, not with the first: fewer wake-ups where
    /// each costs more than the transfer, as in memory. Engines without a queue in the kernel do
    /// not wait for more than one.
    pub fn wait_for(&mut self, least: u32) {
        match &mut self.inner {
            Inner::Ring(ring) => ring.least = least,
            Inner::Aio(aio) => aio.least = least,
            Inner::Threads(_) | Inner::Calls(_) => {}
        }
    }

    /// Hands requests over as soon as `most` are queued, instead of all with the next
    /// [`Transfers::reap`]: a device that ends many at once works on the first of the next while
    /// the others are still being made. Engines without a queue in the kernel begin each at once
    /// anyhow.
    pub fn hold_at_most(&mut self, most: u32) {
        match &mut self.inner {
            Inner::Ring(ring) => ring.most_held = most,
            Inner::Aio(aio) => aio.most_held = most,
            Inner::Threads(_) | Inner::Calls(_) => {}
        }
    }

    /// Whether a request may begin before the next [`Transfers::reap`].
    #[must_use]
    pub fn hands_over_early(&self) -> bool {
        match &self.inner {
            Inner::Ring(ring) => ring.most_held < u32::MAX,
            Inner::Aio(aio) => aio.most_held < u32::MAX,
            Inner::Threads(_) | Inner::Calls(_) => false,
        }
    }

    /// Whether `engine` can do `operation`: native AIO discards nothing, and io_uring only in
    /// files.
    #[must_use]
    pub const fn can(engine: Engine, operation: Operation, is_device: bool) -> bool {
        match (engine, operation) {
            (Engine::NativeAio, Operation::Trim) => false,
            (Engine::IoUring | Engine::IoUringThread, Operation::Trim) => !is_device,
            // What does not go through the device's queue cannot be looked for there.
            (Engine::IoUringPolling, Operation::Fsync | Operation::Fdatasync | Operation::Trim) => {
                false
            }
            _ => true,
        }
    }

    /// The engine and what the kernel granted it.
    #[must_use]
    pub fn described(&self) -> String {
        match &self.inner {
            Inner::Ring(ring) => ring.described(),
            Inner::Aio(_) => "aio".into(),
            Inner::Threads(_) => "threads".into(),
            Inner::Calls(_) => "pread".into(),
        }
    }

    /// Requests queued and not yet reaped.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Works on `file` from now on and closes the one before; nothing may be under way.
    ///
    /// # Errors
    /// If something is, or the kernel refuses. The engine of one thread per slot keeps its file:
    /// see [`Transfers::can_reopen`].
    pub fn reopen(&mut self, file: File) -> io::Result<()> {
        if self.in_flight > 0 {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        match &mut self.inner {
            Inner::Ring(ring) => ring.reopen(file),
            Inner::Aio(aio) => {
                aio.file = file;
                Ok(())
            }
            Inner::Calls(calls) => {
                calls.file = file;
                Ok(())
            }
            Inner::Threads(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Whether `engine` can go over to another file.
    #[must_use]
    pub const fn can_reopen(engine: Engine) -> bool {
        !matches!(engine, Engine::Threads)
    }

    /// The buffer of a slot that is not under way.
    ///
    /// # Panics
    /// If it is.
    #[must_use]
    pub fn buffer(&mut self, slot: u32) -> &mut [u8] {
        match &mut self.inner {
            Inner::Ring(ring) => ring.arena.buffer(slot),
            Inner::Aio(aio) => aio.arena.buffer(slot),
            Inner::Threads(threads) => threads.buffer(slot),
            Inner::Calls(calls) => calls.buffer(slot),
        }
    }

    /// Queues a transfer; nothing need happen before [`Transfers::reap`].
    ///
    /// # Panics
    /// If the slot is under way or the request is longer than its buffer.
    #[inline]
    pub fn queue(&mut self, request: Request) {
        match &mut self.inner {
            Inner::Ring(ring) => ring.queue(request),
            Inner::Aio(aio) => aio.queue(request),
            Inner::Threads(threads) => threads.queue(request),
            Inner::Calls(calls) => calls.queue(request),
        }
        self.in_flight += 1;
    }

    /// Hands to the kernel what is queued, waits until at least one transfer has ended (see
    /// [`Transfers::wait_for`]) but not longer than `patience`, and gives all that have ended to
    /// `done`. Without patience it only looks.
    ///
    /// # Errors
    /// If the engine itself failed; transfers' errors are in their completions.
    #[inline]
    pub fn reap(
        &mut self,
        patience: Duration,
        mut done: impl FnMut(Completion),
    ) -> io::Result<u32> {
        let mut n = 0;
        let counted = |completion| {
            n += 1;
            done(completion);
        };
        match &mut self.inner {
            Inner::Ring(ring) => ring.reap(patience, counted),
            Inner::Aio(aio) => aio.reap(patience, counted),
            Inner::Threads(threads) => threads.reap(patience, counted),
            Inner::Calls(calls) => calls.reap(counted),
        }?;
        self.in_flight -= n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests;
