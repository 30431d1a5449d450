//! Sending modes of a stream: one struct per mode, one call per [`Sender::send`].

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use linerate_model::Counter;
use linerate_sys::file::{self, MemoryFile};
use linerate_sys::memory::Region;
use linerate_sys::pipe::Splicer;
use linerate_sys::tcp::{self, MessageBatch};
use linerate_sys::{SysError, zerocopy};
use socket2::Socket;

use super::params::{SendMode, StreamParams};
use crate::Tally;
use crate::workloads::amount::Pool;

/// Sends between two reads of zero-copy completions: each read costs a system call, and completions
/// queue in limited memory.
const COMPLETIONS_EVERY: u32 = 16;
/// Longest wait of a backlogged zero-copy sender for completions.
const COMPLETION_PATIENCE: Duration = Duration::from_millis(1);

/// The sending side of one connection.
#[derive(Debug)]
pub(super) struct Sender {
    mode: Mode,
    message_bytes: usize,
    /// Bytes of the current message that were sent.
    position: usize,
    /// All bytes sent.
    sent: u64,
    /// Bytes that it may still send; `None` for a load that ends with the trial.
    pool: Option<Pool>,
}

/// Source of what an end sends beyond its parameters.
#[derive(Clone, Debug, Default)]
pub(super) struct Source {
    /// File that each connection sends once, and its length.
    pub(super) file: Option<(Arc<File>, u64)>,
    /// Bytes that all connections together may send.
    pub(super) pool: Option<Pool>,
}

#[derive(Debug)]
enum Mode {
    Copy(Arc<Region>),
    Batch(Box<MessageBatch>),
    Zerocopy {
        payload: Arc<Region>,
        unreaped: u32,
    },
    Sendfile(MemoryFile),
    /// A file of the host, sent once, and the bytes of a call: it may wait for each part of them.
    File(Arc<File>, usize),
    Splice(Splicer),
}

impl Sender {
    /// Creates a sender of `payload`, whose first `message_size` bytes are a message.
    pub(super) fn new(
        socket: &Socket,
        params: &StreamParams,
        payload: &Arc<Region>,
        source: &Source,
    ) -> Result<Self, SysError> {
        if let Some((file, bytes)) = &source.file {
            let (pool, message_bytes) = (Some(Pool::new(*bytes)), *bytes as usize);
            let mode = Mode::File(Arc::clone(file), params.message_size.0 as usize);
            return Ok(Self { mode, message_bytes, position: 0, sent: 0, pool });
        }
        let message_bytes = params.message_size.0 as usize;
        let mode = match params.send {
            SendMode::Copy => Mode::Copy(Arc::clone(payload)),
            SendMode::Batch => {
                Mode::Batch(Box::new(MessageBatch::new(&payload[..message_bytes], params.batch())?))
            }
            SendMode::Zerocopy => {
                zerocopy::enable(socket)?;
                Mode::Zerocopy { payload: Arc::clone(payload), unreaped: 0 }
            }
            SendMode::Sendfile => Mode::Sendfile(MemoryFile::new(&payload[..message_bytes])?),
            SendMode::Splice => Mode::Splice(Splicer::new(&payload[..message_bytes])?),
        };
        Ok(Self { mode, message_bytes, position: 0, sent: 0, pool: source.pool.clone() })
    }

    /// Makes one call; returns the bytes that the socket took: zero at the end of an amount or a
    /// file. Adds zero-copy completions to `counts`.
    #[inline]
    pub(super) fn send(&mut self, socket: &Socket, counts: &mut Counts) -> io::Result<usize> {
        let mut rest = self.position..self.message_bytes;
        if let Some(pool) = &self.pool {
            rest.end = rest.start + pool.take(rest.len() as u64) as usize;
            if rest.is_empty() {
                return Ok(0);
            }
        }
        let allowed = rest.len();
        let answer = self.call(socket, rest, counts);
        if let Some(pool) = &self.pool {
            pool.give_back((allowed - answer.as_ref().map_or(0, |taken| *taken)) as u64);
        }
        let taken = answer?;
        self.sent += taken as u64;
        self.position = advance(self.position, taken, self.message_bytes);
        Ok(taken)
    }

    /// Sends the part `rest` of the message.
    #[inline]
    fn call(
        &mut self,
        socket: &Socket,
        rest: Range<usize>,
        counts: &mut Counts,
    ) -> io::Result<usize> {
        Ok(match &mut self.mode {
            Mode::Copy(payload) => tcp::send(socket, &payload[rest])?,
            Mode::Batch(batch) => batch.send(socket)?,
            Mode::Zerocopy { payload, unreaped } => {
                let taken = send_zerocopy(socket, &payload[rest], counts)?;
                *unreaped += 1;
                if *unreaped >= COMPLETIONS_EVERY {
                    *unreaped = 0;
                    counts.reap(socket);
                }
                taken
            }
            Mode::Sendfile(file) => file.send(socket, rest.start, rest.len())?,
            Mode::File(file, bytes) => {
                file::send(socket, file, rest.start as u64, rest.len().min(*bytes))?
            }
            Mode::Splice(splicer) => splicer.send(socket, rest.len())?,
        })
    }

    /// Returns the number of complete messages sent.
    pub(super) fn messages(&self) -> u64 {
        let bytes = match self.mode {
            Mode::File(_, bytes) => bytes,
            _ => self.message_bytes,
        };
        self.sent / bytes as u64
    }

    /// Reads the remaining completions, as far as they are present.
    pub(super) fn settle(&mut self, socket: &Socket, counts: &mut Counts) {
        if matches!(self.mode, Mode::Zerocopy { .. }) {
            counts.reap(socket);
        }
    }
}

/// Returns the position in a message after `taken` more bytes. It divides only if a call took more
/// than a message.
#[inline]
fn advance(position: usize, taken: usize, message_bytes: usize) -> usize {
    let reached = position + taken;
    if reached < message_bytes {
        reached
    } else if reached == message_bytes {
        0
    } else {
        reached % message_bytes
    }
}

/// Completions seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    completed: u64,
    copied: u64,
}

impl Counts {
    fn reap(&mut self, socket: &Socket) -> bool {
        let some = zerocopy::completions(socket);
        self.completed += some.completed;
        self.copied += some.copied;
        some.completed > 0
    }

    pub(super) fn into_tallies(self, tallies: [&mut Tally; 2]) {
        if self.completed > 0 {
            for tally in tallies {
                tally.add(Counter::ZerocopySends, self.completed);
                tally.add(Counter::ZerocopyCopied, self.copied);
            }
        }
    }
}

fn send_zerocopy(socket: &Socket, bytes: &[u8], counts: &mut Counts) -> io::Result<usize> {
    match zerocopy::send(socket, bytes) {
        Err(error) if zerocopy::is_backlogged(&error) => {
            // The kernel has no memory left to announce completions; collecting some frees it.
            if !counts.reap(socket) {
                zerocopy::wait(socket, COMPLETION_PATIENCE);
                counts.reap(socket);
            }
            Err(io::ErrorKind::WouldBlock.into())
        }
        answer => answer,
    }
}
