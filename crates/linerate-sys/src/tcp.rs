//! TCP sockets: `TCP_INFO`, discarding and mapping receives, many messages per call, window clamp.
//!
//! Byte counters of `TCP_INFO` cover everything on the connection, including a workload's opening
//! handshake. They do not show how offloads divide the data on the wire.

use std::io;
use std::os::fd::AsFd;

use crate::memory::Region;
use crate::socket::{describe, raw as option};
use crate::{Result, SysError, memory};

mod info;
#[allow(unsafe_code)]
mod raw;

pub use info::TcpInfo;

/// Largest number of vectors per call: `UIO_MAXIOV`, Linux `include/uapi/linux/uio.h`.
const MAX_VECTORS: usize = 1024;
/// Size up to which small messages are laid side by side. One vector per small message would cost
/// the kernel as much as its bytes, and a larger block would not stay in the L1 and L2 caches
/// together with the kernel's copy.
const BLOCK_BYTES: usize = 64 << 10;

/// Returns the kernel's view of a connection.
///
/// # Errors
/// If the socket is not a TCP socket.
pub fn info(socket: &impl AsFd) -> Result<TcpInfo> {
    let mut bytes = [0_u8; info::LARGEST];
    let length = option::get_into(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes)
        .map_err(|cause| SysError::new("read TCP_INFO of", describe(socket), cause))?;
    Ok(TcpInfo::decode(&bytes[..length.min(info::LARGEST)]))
}

/// Limits the window that the socket advertises to `bytes` (`TCP_WINDOW_CLAMP`), and returns the
/// effective limit.
///
/// # Errors
/// If the kernel refuses.
pub fn set_window_clamp(socket: &impl AsFd, bytes: u32) -> Result<u32> {
    let error = |cause| SysError::new("set TCP_WINDOW_CLAMP of", describe(socket), cause);
    let value = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    option::set_int(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, value).map_err(error)?;
    window_clamp(socket)
}

/// Returns the limit of the advertised window.
///
/// # Errors
/// If the socket is not a TCP socket.
pub fn window_clamp(socket: &impl AsFd) -> Result<u32> {
    option::get_int(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP)
        .map(|bytes| u32::try_from(bytes).unwrap_or(0))
        .map_err(|cause| SysError::new("read TCP_WINDOW_CLAMP of", describe(socket), cause))
}

/// Limits the payload of segments in both directions to `bytes` (`TCP_MAXSEG`, tcp(7)). Set it
/// before a socket connects. On a listening socket it applies to every connection that is accepted
/// afterwards, because both ends obey the limit in the opening segments.
///
/// # Errors
/// If the kernel refuses.
pub fn set_largest_segment(socket: &impl AsFd, bytes: u16) -> Result<()> {
    option::set_int(socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG, bytes.into())
        .map_err(|cause| SysError::new("set TCP_MAXSEG of", describe(socket), cause))
}

/// Sends from `bytes` and returns the number of bytes that the socket accepted. Reports `EPIPE`
/// instead of raising a signal.
///
/// # Errors
/// As `send(2)`; `WouldBlock` if a non-blocking socket is full or a timeout has passed.
#[inline]
pub fn send(socket: &impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, bytes, rustix::net::SendFlags::NOSIGNAL)?)
}

/// Receives into `bytes`; 0 is the end of the stream.
///
/// # Errors
/// As `recv(2)`.
#[inline]
pub fn receive(socket: &impl AsFd, bytes: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::net::recv(socket, bytes, rustix::net::RecvFlags::empty())?.1)
}

/// Copies received data without removing it from the receive queue (`MSG_PEEK`); 0 is the end of
/// the stream.
///
/// # Errors
/// As `recv(2)`.
#[inline]
pub fn peek(socket: &impl AsFd, bytes: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::net::recv(socket, bytes, rustix::net::RecvFlags::PEEK)?.1)
}

/// Removes up to `bytes` from the receive queue without copying them (`MSG_TRUNC`, tcp(7)); 0 is
/// the end of the stream.
///
/// # Errors
/// As `recv(2)`.
#[inline]
pub fn discard(socket: &impl AsFd, bytes: usize) -> io::Result<usize> {
    raw::discard(socket, bytes)
}

/// Returns the number of sent bytes that the peer's TCP has not acknowledged (`SIOCOUTQ`, tcp(7)).
///
/// # Errors
/// If the socket is not a TCP socket, or if it listens.
#[inline]
pub fn unacknowledged(socket: &impl AsFd) -> io::Result<u64> {
    raw::unacknowledged(socket).map(|bytes| u64::try_from(bytes).unwrap_or(0))
}

/// Messages of one size, many per call. Small messages lie side by side in a block of memory, and
/// every vector of the call (`sendmsg`) refers to that block. The batch remembers the position at
/// which a short send stopped.
#[derive(Debug)]
pub struct MessageBatch {
    vectors: raw::Vectors,
}

impl MessageBatch {
    /// Creates a batch of `n_messages` copies of `message`.
    ///
    /// # Errors
    /// If there is not enough memory.
    ///
    /// # Panics
    /// If the message is empty, or if there are none or more than [`MessageBatch::most`].
    pub fn new(message: &[u8], n_messages: usize) -> Result<Self> {
        let most = Self::most(message.len());
        assert!(
            (1..=most).contains(&n_messages),
            "{n_messages} messages per call, at most {most} fit"
        );
        let mut block = Region::new(in_block(message.len()) * message.len())?;
        for part in block.chunks_mut(message.len()) {
            part.copy_from_slice(&message[..part.len()]);
        }
        Ok(Self {
            vectors: raw::Vectors::new(block, in_block(message.len()), n_messages, message.len()),
        })
    }

    /// Returns the largest number of messages of `message_bytes` per call.
    #[must_use]
    pub const fn most(message_bytes: usize) -> usize {
        MAX_VECTORS * in_block(message_bytes)
    }

    /// Sends the rest of the batch, or a new batch if the last one was sent in full. Returns the
    /// number of bytes that the socket accepted.
    ///
    /// # Errors
    /// As [`send`].
    #[inline]
    pub fn send(&mut self, socket: &impl AsFd) -> io::Result<usize> {
        self.vectors.send(socket)
    }
}

/// Returns the number of messages of `message_bytes` in one block.
const fn in_block(message_bytes: usize) -> usize {
    if message_bytes < BLOCK_BYTES { BLOCK_BYTES / message_bytes } else { 1 }
}

/// Memory window into which the kernel maps received pages instead of copying them
/// (`TCP_ZEROCOPY_RECEIVE`, since Linux 4.18). Only whole, page-aligned pages can be mapped; the
/// kernel copies the rest.
#[derive(Debug)]
pub struct ReceiveWindow {
    window: memory::Mapping,
    copied: Region,
}

/// Bytes that one receive of a [`ReceiveWindow`] removed from the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Bytes mapped.
    pub mapped: usize,
    /// Bytes copied, because they did not fill a page.
    pub copied: usize,
    /// True if the peer has ended the stream.
    pub ended: bool,
}

impl ReceiveWindow {
    /// Maps a window of `bytes` for `socket`.
    ///
    /// # Errors
    /// If the socket cannot be mapped.
    pub fn new(socket: &impl AsFd, bytes: usize) -> Result<Self> {
        let window = memory::Mapping::receive_window(socket, bytes)
            .map_err(|cause| SysError::new("map received pages of", describe(socket), cause))?;
        Ok(Self { window, copied: Region::new(bytes)? })
    }

    /// Maps the queued pages over the previous ones, and copies what cannot be mapped. Never waits
    /// for data.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is queued; otherwise as `getsockopt(2)` and `recv(2)`.
    pub fn receive(&mut self, socket: &impl AsFd) -> io::Result<Taken> {
        let mut request = raw::ZerocopyReceive {
            address: self.window.address(),
            length: u32::try_from(self.window.len()).unwrap_or(u32::MAX),
            ..raw::ZerocopyReceive::default()
        };
        match option::get_into(socket, libc::IPPROTO_TCP, raw::TCP_ZEROCOPY_RECEIVE, &mut request) {
            Ok(_) => {}
            // A stream that was shut down and read to its end returns EIO.
            Err(error) if error.raw_os_error() == Some(libc::EIO) => {
                return Ok(Taken { ended: true, ..Taken::default() });
            }
            Err(error) => return Err(error),
        }
        let mapped = request.length as usize;
        let skip = (request.recv_skip_hint as usize).min(self.copied.len());
        if mapped > 0 && skip == 0 {
            return Ok(Taken { mapped, ..Taken::default() });
        }
        // Without a hint nothing is queued. A request for one byte distinguishes the end of the
        // stream from an idle stream.
        let wanted = skip.max(1);
        match rustix::net::recv(
            socket,
            &mut self.copied[..wanted],
            rustix::net::RecvFlags::DONTWAIT,
        ) {
            Ok((_, 0)) => Ok(Taken { mapped, copied: 0, ended: true }),
            Ok((_, copied)) => Ok(Taken { mapped, copied, ended: false }),
            Err(_) if mapped > 0 => Ok(Taken { mapped, ..Taken::default() }),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests;
