//! Receiving modes of a stream: one variant per mode, one call per [`Receiver::receive`].

use std::io;

use linerate_sys::SysError;
use linerate_sys::memory::Region;
use linerate_sys::tcp::{self, ReceiveWindow, Taken};
use socket2::Socket;

use super::params::ReceiveMode;

/// Bytes requested by one copying receive. Larger reads make fewer calls, but evict the data in
/// flight from the second-level cache. With both ends on one core with 1 MiB: 50.4 Gbit/s with
/// 128 KiB, 47.2 with twice that and 44.3 with half of it.
pub(super) const COPY_BYTES: usize = 128 << 10;
/// Bytes taken by one discarding receive, and the size of a mapped window.
const TAKE_BYTES: usize = 1 << 20;

/// The receiving side of one connection.
#[derive(Debug)]
pub(super) enum Receiver {
    /// Into the worker's buffer.
    Copy,
    /// To nowhere.
    Discard,
    /// Onto pages.
    Window(Box<ReceiveWindow>),
}

impl Receiver {
    pub(super) fn new(socket: &Socket, mode: ReceiveMode) -> Result<Self, SysError> {
        Ok(match mode {
            ReceiveMode::Copy => Self::Copy,
            ReceiveMode::Discard => Self::Discard,
            ReceiveMode::Zerocopy => {
                Self::Window(Box::new(ReceiveWindow::new(socket, TAKE_BYTES)?))
            }
        })
    }

    /// Makes one call, into `buffer` if it copies.
    #[inline]
    pub(super) fn receive(&mut self, socket: &Socket, buffer: &mut Region) -> io::Result<Taken> {
        let copied = match self {
            Self::Copy => tcp::receive(socket, buffer)?,
            Self::Discard => tcp::discard(socket, TAKE_BYTES)?,
            Self::Window(window) => return window.receive(socket),
        };
        Ok(Taken { mapped: 0, copied, ended: copied == 0 })
    }
}
