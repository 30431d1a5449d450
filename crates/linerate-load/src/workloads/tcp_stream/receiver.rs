//! Receiving modes of a stream: one variant per mode, one call per [`Receiver::receive`].

use std::io;

use linerate_sys::SysError;
use linerate_sys::memory::Region;
use linerate_sys::tcp::{self, ReceiveWindow, Taken};
use socket2::Socket;

use super::params::{ReceiveMode, StreamParams};

/// The receiving side of one connection.
#[derive(Debug)]
pub(super) enum Receiver {
    /// Into the worker's buffer, by each call at most this number of bytes.
    Copy(usize),
    /// To nowhere, likewise.
    Discard(usize),
    /// Onto pages.
    Window(Box<ReceiveWindow>),
}

impl Receiver {
    pub(super) fn new(socket: &Socket, params: &StreamParams) -> Result<Self, SysError> {
        let most = params.receive_bytes();
        Ok(match params.receive {
            ReceiveMode::Copy => Self::Copy(most),
            ReceiveMode::Discard => Self::Discard(most),
            ReceiveMode::Zerocopy => Self::Window(Box::new(ReceiveWindow::new(socket, most)?)),
        })
    }

    /// Makes one call, into `buffer` if it copies.
    #[inline]
    pub(super) fn receive(&mut self, socket: &Socket, buffer: &mut Region) -> io::Result<Taken> {
        let copied = match self {
            Self::Copy(most) => tcp::receive(socket, &mut buffer[..*most])?,
            Self::Discard(most) => tcp::discard(socket, *most)?,
            Self::Window(window) => return window.receive(socket),
        };
        Ok(Taken { mapped: 0, copied, ended: copied == 0 })
    }
}
