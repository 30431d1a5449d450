//! Many frames a call: `sendmmsg(2)` on a packet socket, past the queueing discipline if wished.
//!
//! What the kernel takes it has handed to the queueing discipline or, past it, to the driver. What
//! these refuse comes back at once as `ENOBUFS`, is dropped and counted by them, and is not among
//! what was taken. What a sender does not see: what becomes of a frame in the driver or behind it.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::SysError;
use crate::socket::{self, Buffer, raw as option};
use crate::udp::{SendBatch, Wait, set_send_timeout};

use super::{EVERY_TYPE, index_of, open_unbound, raw};

/// Memory of frames under way asked for: a device's ring of a few thousand.
const SEND_BUFFER: usize = 8 << 20;
/// A send that finds no room in its socket's buffer gives up after this long, so that its thread
/// stays in command.
pub const SEND_PATIENCE: Duration = Duration::from_millis(4);

/// Whether frames pass the interface's queueing discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueingDiscipline {
    /// Through it, as all other traffic: shapers and queues of the host apply.
    Pass,
    /// Past it, to the driver at once (`PACKET_QDISC_BYPASS`): nothing is queued, a full driver
    /// refuses.
    Bypass,
}

/// Sends frames on one interface of the calling thread's network namespace.
pub struct FrameSender {
    fd: OwnedFd,
    device: String,
    batch: SendBatch,
}

impl FrameSender {
    /// Opens a sender on `device`, with room for `n_frames` of up to `frame_bytes` each a call
    /// (check sequence not included).
    ///
    /// # Errors
    /// If there is no such interface, or CAP_NET_RAW is missing.
    ///
    /// # Panics
    /// If either number is zero.
    pub fn open(
        device: &str,
        n_frames: usize,
        frame_bytes: usize,
        discipline: QueueingDiscipline,
    ) -> Result<Self, SysError> {
        let fd = open_to_send(device, discipline)?;
        set_send_timeout(&fd, SEND_PATIENCE)?;
        let batch = SendBatch::new(n_frames, frame_bytes);
        Ok(Self { fd, device: device.to_owned(), batch })
    }

    /// The buffer of frame `idx`, to be filled or patched.
    ///
    /// # Panics
    /// If `idx` is out of range.
    #[inline]
    pub fn frame_mut(&mut self, idx: usize) -> &mut [u8] {
        self.batch.message_mut(idx)
    }

    /// Says that frame `idx` is `length` bytes long.
    ///
    /// # Panics
    /// If `idx` or `length` is out of range.
    #[inline]
    pub fn set_length(&mut self, idx: usize, length: usize) {
        self.batch.set_length(idx, length);
    }

    /// Sends the first `n` frames and returns how many were taken; fewer than `n` if one was
    /// refused, whose reason the kernel does not tell then.
    ///
    /// # Errors
    /// The kernel's answer if not even the first was taken.
    ///
    /// # Panics
    /// If `n` is zero or out of range.
    #[inline]
    pub fn send(&mut self, n: usize, wait: Wait) -> io::Result<usize> {
        self.batch.send(&self.fd, n, wait)
    }

    /// The interface.
    #[must_use]
    pub fn device(&self) -> &str {
        &self.device
    }
}

/// A socket that sends on `device` and receives nothing, with room for many frames under way.
pub(super) fn open_to_send(
    device: &str,
    discipline: QueueingDiscipline,
) -> Result<OwnedFd, SysError> {
    let failed = |cause: io::Error| SysError::new("open packet socket on", device, cause);
    let ifindex = index_of(device).map_err(failed)?;
    let fd = open_unbound(device, EVERY_TYPE).map_err(failed)?;
    raw::bind(&fd, ifindex, 0).map_err(failed)?;
    if discipline == QueueingDiscipline::Bypass {
        option::set_int(&fd, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1).map_err(|cause| {
            SysError::new("set PACKET_QDISC_BYPASS (Linux 3.14) on", device, cause)
        })?;
    }
    // A smaller grant shows as calls that find no room.
    let _granted = socket::set_buffer(&fd, Buffer::Send, SEND_BUFFER);
    Ok(fd)
}

impl AsFd for FrameSender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl fmt::Debug for FrameSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FrameSender({}, {:?})", self.device, self.batch)
    }
}
