//! Vectors of messages, `recv` without a buffer, and the argument of `TCP_ZEROCOPY_RECEIVE`.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::null_mut;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::memory::Region;

/// `TCP_ZEROCOPY_RECEIVE`, Linux `include/uapi/linux/tcp.h`.
pub(super) const TCP_ZEROCOPY_RECEIVE: i32 = 35;

/// `struct tcp_zerocopy_receive` as of Linux 5.11; older kernels use the front of it.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct ZerocopyReceive {
    pub(super) address: u64,
    pub(super) length: u32,
    pub(super) recv_skip_hint: u32,
    pub(super) inq: u32,
    pub(super) err: i32,
    pub(super) copybuf_address: u64,
    pub(super) copybuf_len: i32,
    pub(super) flags: u32,
    pub(super) msg_control: u64,
    pub(super) msg_controllen: u64,
    pub(super) msg_flags: u32,
    pub(super) reserved: u32,
}

const _: () = assert!(size_of::<ZerocopyReceive>() == 64);

pub(super) fn discard(socket: &impl AsFd, bytes: usize) -> io::Result<usize> {
    // SAFETY: with MSG_TRUNC a TCP socket writes nothing through the pointer (tcp(7)), and on any
    // other socket a null pointer makes the call fail with EFAULT instead of writing.
    let answer =
        unsafe { libc::recv(socket.as_fd().as_raw_fd(), null_mut(), bytes, libc::MSG_TRUNC) };
    usize::try_from(answer).map_err(|_| io::Error::last_os_error())
}

/// Returns the result of an ioctl that stores one integer: `SIOCOUTQ` of a TCP socket, Linux
/// `include/uapi/linux/sockios.h`.
pub(super) fn unacknowledged(socket: &impl AsFd) -> io::Result<libc::c_int> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: SIOCOUTQ stores one int through the pointer, which leads to one that outlives the
    // call (tcp(7)).
    let answer = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if answer == 0 { Ok(bytes) } else { Err(io::Error::last_os_error()) }
}

/// Vectors, one per block of messages, that all refer to the same memory, which this value owns.
#[derive(Debug)]
pub(super) struct Vectors {
    vectors: Vec<libc::iovec>,
    block_bytes: usize,
    batch_bytes: usize,
    /// Bytes of the batch that have been sent.
    position: usize,
    // `vectors` points to it; this field keeps it alive.
    _block: Region,
}

// SAFETY: the pointers lead into memory owned by the same value, and nothing else uses them.
unsafe impl Send for Vectors {}

impl Vectors {
    /// Creates vectors for `n_messages`, of which `block` contains `in_block`.
    pub(super) fn new(
        mut block: Region,
        in_block: usize,
        n_messages: usize,
        message_bytes: usize,
    ) -> Self {
        let block_bytes = in_block * message_bytes;
        assert!(block_bytes <= block.len(), "{block_bytes} of {} bytes", block.len());
        let batch_bytes = n_messages * message_bytes;
        let start: *mut u8 = block.as_mut_ptr();
        let lengths =
            (0..batch_bytes).step_by(block_bytes).map(|from| (batch_bytes - from).min(block_bytes));
        let vectors =
            lengths.map(|length| libc::iovec { iov_base: start.cast(), iov_len: length }).collect();
        Self { vectors, block_bytes, batch_bytes, position: 0, _block: block }
    }

    pub(super) fn send(&mut self, socket: &impl AsFd) -> io::Result<usize> {
        let (first, offset) = (self.position / self.block_bytes, self.position % self.block_bytes);
        let rest = &mut self.vectors[first..];
        // The first block may have been sent in part. Its vector is shortened for the call and
        // restored afterwards.
        let whole = rest[0];
        rest[0].iov_base = whole.iov_base.wrapping_byte_add(offset);
        rest[0].iov_len = whole.iov_len - offset;
        // SAFETY: all zeroes is a valid `msghdr`: no name, no control data.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = rest.as_mut_ptr();
        header.msg_iovlen = rest.len() as _;
        // SAFETY: `header` and the vectors are live for the call, every vector lies within
        // `_block`, and the kernel only reads.
        let answer =
            unsafe { libc::sendmsg(socket.as_fd().as_raw_fd(), &header, libc::MSG_NOSIGNAL) };
        rest[0] = whole;
        let sent = usize::try_from(answer).map_err(|_| io::Error::last_os_error())?;
        self.position = (self.position + sent) % self.batch_bytes;
        Ok(sent)
    }
}
