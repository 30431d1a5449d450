//! Transfers between memory and files or block devices, several at once: io_uring, native AIO,
//! threads, or plain calls.
//!
//! All engines have one interface: fill a slot's buffer, queue a request for it, reap. From `queue`
//! until its completion is reaped a slot's memory belongs to the kernel and is inaccessible.
//! [`Transfers::described`] returns the engine and what the kernel granted it. The page cache is
//! not controlled here; that depends on how the file was opened.

use std::fs::File;
use std::io;
use std::time::Duration;

use crate::{Result, SysError};

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

/// Interface through which transfers are requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// io_uring, with registered files and buffers if the kernel grants them.
    IoUring,
    /// The same, but completions are polled in the device's queue instead of announced by
    /// interrupts (`IORING_SETUP_IOPOLL`). Works only without the page cache, and only if the
    /// driver has poll queues, which the kernel does not check.
    IoUringPolling,
    /// The same, but a kernel thread on its own CPU takes what is queued (`IORING_SETUP_SQPOLL`).
    IoUringThread,
    /// `io_submit` and `io_getevents`; asynchronous only without the page cache.
    NativeAio,
    /// One thread per slot, each in `pread` or `pwrite`.
    Threads,
    /// `pread` and `pwrite` in the caller's thread: one at a time.
    Calls,
}

impl Engine {
    /// Returns its name.
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

/// Operation on the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// From the file to the slot's buffer.
    Read,
    /// From the slot's buffer to the file.
    Write,
    /// Makes earlier writes durable, including metadata (fsync(2)). Moves nothing.
    Fsync,
    /// The same without metadata that is not needed to read the data back (fdatasync(2)).
    Fdatasync,
    /// Releases bytes: `BLKDISCARD` on a block device, a punched hole in a file (fallocate(2)).
    /// Moves nothing.
    Trim,
}

impl Operation {
    /// Returns true for transfers, which move bytes.
    #[must_use]
    pub const fn moves(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }

    /// Returns the [`Completion::result`] of a complete success of a request of `bytes`.
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
    /// Slot whose buffer is used.
    pub slot: u32,
    /// Kind of operation.
    pub operation: Operation,
    /// Position in the file.
    pub offset: u64,
    /// Number of bytes, at most the size of a slot.
    pub bytes: u32,
    /// Its I/O priority; flushes and discards have none.
    pub priority: Priority,
}

/// Result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request's slot.
    pub slot: u32,
    /// Bytes transferred (0 for operations that move nothing), or the negative error number.
    pub result: i32,
}

/// Engine with its file, its buffers, and the requests under way.
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
    /// Sets up `engine` on `file` with `slots` buffers of `slot_bytes` (whole pages) each.
    ///
    /// # Errors
    /// If the kernel refuses the engine or the memory. `ENOSYS` and `EPERM` mean that the caller
    /// must use another engine.
    pub fn new(engine: Engine, file: File, slots: u32, slot_bytes: usize) -> Result<Self> {
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

    /// Makes waits end when `least` transfers have ended, instead of one: fewer wake-ups if each
    /// costs more than a transfer, as in memory. Engines without a queue in the kernel wait for one
    /// only.
    pub fn wait_for(&mut self, least: u32) {
        match &mut self.inner {
            Inner::Ring(ring) => ring.least = least,
            Inner::Aio(aio) => aio.least = least,
            Inner::Threads(_) | Inner::Calls(_) => {}
        }
    }

    /// Submits requests as soon as `most` are queued, instead of all of them in the next
    /// [`Transfers::reap`]. A device that completes many at once then starts on new ones while the
    /// caller still prepares the others. Engines without a queue in the kernel start each at once
    /// anyway.
    pub fn hold_at_most(&mut self, most: u32) {
        match &mut self.inner {
            Inner::Ring(ring) => ring.most_held = most,
            Inner::Aio(aio) => aio.most_held = most,
            Inner::Threads(_) | Inner::Calls(_) => {}
        }
    }

    /// Returns true if a request may start before the next [`Transfers::reap`].
    #[must_use]
    pub fn hands_over_early(&self) -> bool {
        match &self.inner {
            Inner::Ring(ring) => ring.most_held < u32::MAX,
            Inner::Aio(aio) => aio.most_held < u32::MAX,
            Inner::Threads(_) | Inner::Calls(_) => false,
        }
    }

    /// Returns true if `engine` supports `operation`: native AIO cannot discard, and io_uring can
    /// only in files.
    #[must_use]
    pub const fn can(engine: Engine, operation: Operation, is_device: bool) -> bool {
        match (engine, operation) {
            (Engine::NativeAio, Operation::Trim) => false,
            (Engine::IoUring | Engine::IoUringThread, Operation::Trim) => !is_device,
            // A request that does not use the device's queue cannot be polled there.
            (Engine::IoUringPolling, Operation::Fsync | Operation::Fdatasync | Operation::Trim) => {
                false
            }
            _ => true,
        }
    }

    /// Returns the engine and what the kernel granted it.
    #[must_use]
    pub fn described(&self) -> String {
        match &self.inner {
            Inner::Ring(ring) => ring.described(),
            Inner::Aio(_) => "aio".into(),
            Inner::Threads(_) => "threads".into(),
            Inner::Calls(_) => "pread".into(),
        }
    }

    /// Returns the number of requests that are queued and not yet reaped.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Switches to `file` and closes the previous file; nothing may be under way.
    ///
    /// # Errors
    /// If something is under way, or the kernel refuses. The engine of one thread per slot keeps
    /// its file: see [`Transfers::can_reopen`].
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

    /// Returns true if `engine` can switch to another file.
    #[must_use]
    pub const fn can_reopen(engine: Engine) -> bool {
        !matches!(engine, Engine::Threads)
    }

    /// Returns the buffer of a slot that is not under way.
    ///
    /// # Panics
    /// If the slot is under way.
    #[must_use]
    pub fn buffer(&mut self, slot: u32) -> &mut [u8] {
        match &mut self.inner {
            Inner::Ring(ring) => ring.arena.buffer(slot),
            Inner::Aio(aio) => aio.arena.buffer(slot),
            Inner::Threads(threads) => threads.buffer(slot),
            Inner::Calls(calls) => calls.buffer(slot),
        }
    }

    /// Queues a request; it may start as late as in [`Transfers::reap`].
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

    /// Submits what is queued, waits until at least one transfer has ended (see
    /// [`Transfers::wait_for`]) but at most for `patience`, and passes all ended transfers to
    /// `done`. With zero patience it does not wait.
    ///
    /// # Errors
    /// If the engine itself failed. Errors of transfers are in their completions.
    #[inline]
    pub fn reap(&mut self, patience: Duration, done: impl FnMut(Completion)) -> io::Result<u32> {
        let mut n = 0;
        let counted = counting(&mut n, done);
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

/// Returns `done` with a count of its calls in `n`.
fn counting(n: &mut u32, mut done: impl FnMut(Completion)) -> impl FnMut(Completion) {
    move |completion| {
        *n += 1;
        done(completion);
    }
}

#[cfg(test)]
mod tests;
