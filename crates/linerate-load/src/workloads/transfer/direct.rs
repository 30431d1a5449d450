//! Sink past the page cache: reads the socket into buffers of whole blocks, and writes full buffers
//! while the next are filled.
//!
//! When every buffer is being written, the socket is not read: its window closes, and the sender
//! slows down to the rate of the disk.

use std::io;
use std::time::Duration;

use linerate_sys::storage::{Completion, Engine, Operation, Priority, Request, Transfers};

use super::failure::Failure;
use super::watched::Watched;
use crate::{LoadError, Result};
use linerate_disk::Target;

/// Bytes of a buffer: enough for a disk's full rate.
pub(super) const SLOT_BYTES: usize = 256 << 10;
/// Longest wait for completions, which are seen only by waiting. Other flows of the worker wait as
/// long.
const LOOK: Duration = Duration::from_micros(20);
/// Buffers of a flow.
const SLOTS: u32 = 8;

/// Buffers being written.
#[derive(Debug)]
pub(super) struct DirectSink {
    transfers: Transfers,
    free: Vec<u32>,
    done: Vec<Completion>,
    /// Buffer being filled, and its bytes so far.
    filling: Option<(u32, usize)>,
    base: u64,
    region: u64,
    block: usize,
    /// Place of the next buffer, from `base`.
    at: u64,
}

/// Outcome of a call.
pub(super) enum Taken {
    Bytes(usize),
    /// Every buffer is being written.
    Full,
}

impl DirectSink {
    /// Creates the sink for the `region` bytes of `target` from `base` on, both multiples of
    /// [`SLOT_BYTES`].
    pub(super) fn new(target: &Target, base: u64, region: u64) -> Result<Self> {
        let mut refused = Vec::new();
        for engine in [Engine::IoUring, Engine::NativeAio, Engine::Threads] {
            let file = target.open(true, true)?;
            match Transfers::new(engine, file, SLOTS, SLOT_BYTES) {
                Ok(transfers) => {
                    let done = Vec::with_capacity(SLOTS as usize);
                    let free = (0..SLOTS).rev().collect();
                    let block = target.block_bytes() as usize;
                    return Ok(Self {
                        transfers,
                        free,
                        done,
                        filling: None,
                        base,
                        region,
                        block,
                        at: 0,
                    });
                }
                Err(error) => refused.push(error.to_string()),
            }
        }
        Err(LoadError::Unsupported {
            what: "write a file past the page cache".into(),
            why: refused.join("; "),
        })
    }

    /// Returns the engine and the options that the kernel granted.
    pub(super) fn described(&self) -> String {
        self.transfers.described()
    }

    /// Begins the next file at the region's start.
    pub(super) fn begin(&mut self) {
        self.at = 0;
        if let Some((slot, _)) = self.filling.take() {
            self.free.push(slot);
        }
    }

    /// Reads up to `left` bytes from `connection` into a buffer.
    pub(super) fn take(
        &mut self,
        connection: &mut Watched,
        left: u64,
    ) -> Result<io::Result<Taken>, Failure> {
        let (slot, filled) = match self.filling.take() {
            Some(filling) => filling,
            None => {
                if self.free.is_empty() {
                    self.reap(LOOK)?;
                }
                match self.free.pop() {
                    Some(slot) => (slot, 0),
                    None => return Ok(Ok(Taken::Full)),
                }
            }
        };
        let room = usize::try_from(left).unwrap_or(usize::MAX).min(SLOT_BYTES - filled);
        let answer = connection.receive(&mut self.transfers.buffer(slot)[filled..filled + room]);
        let came = *answer.as_ref().unwrap_or(&0);
        let filled = filled + came;
        if filled == SLOT_BYTES {
            self.queue(slot, filled)?;
        } else {
            self.filling = Some((slot, filled));
        }
        Ok(answer.map(Taken::Bytes))
    }

    fn queue(&mut self, slot: u32, bytes: usize) -> Result<(), Failure> {
        let offset = self.base + self.at % self.region;
        self.at += SLOT_BYTES as u64;
        // The tail of a file is written as a whole block.
        let bytes = bytes.next_multiple_of(self.block) as u32;
        self.transfers.queue(Request {
            slot,
            operation: Operation::Write,
            offset,
            bytes,
            priority: Priority::NONE,
        });
        self.reap(Duration::ZERO)
    }

    fn reap(&mut self, patience: Duration) -> Result<(), Failure> {
        let done = &mut self.done;
        let reaped = self.transfers.reap(patience, |completion| done.push(completion));
        reaped.map_err(|error| Failure::Sink(error.raw_os_error().unwrap_or(0)))?;
        while let Some(completion) = self.done.pop() {
            self.free.push(completion.slot);
            if completion.result <= 0 {
                return Err(Failure::Sink(-completion.result));
            }
        }
        Ok(())
    }

    /// Writes the rest of a file; returns true when all of it is on the disk.
    pub(super) fn finish(&mut self) -> Result<bool, Failure> {
        if let Some((slot, filled)) = self.filling.take() {
            if filled > 0 {
                self.queue(slot, filled)?;
            } else {
                self.free.push(slot);
            }
        }
        if self.transfers.in_flight() > 0 {
            self.reap(LOOK)?;
        }
        Ok(self.transfers.in_flight() == 0)
    }
}
