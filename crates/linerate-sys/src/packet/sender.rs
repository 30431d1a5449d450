//! Many frames per call: `sendmmsg(2)` on a packet socket, optionally without the queueing
//! discipline.
//!
//! An accepted frame was handed to the queueing discipline or, without it, to the driver. If these
//! refuse it, the call returns `ENOBUFS` at once; they drop and count the frame, and it does not
//! count as accepted. The fate of a frame in the driver and beyond is not visible.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::socket::{self, Buffer, raw as option};
use crate::udp::{SendBatch, Wait, set_send_timeout};
use crate::{Result, SysError};

use super::{EVERY_TYPE, index_of, open_unbound, raw};

/// Requested memory for frames under way: the contents of a device ring of a few thousand.
const SEND_BUFFER: usize = 8 << 20;
/// Time after which a send gives up if the socket's buffer has no room, so that its thread can
/// react to other events.
const SEND_PATIENCE: Duration = Duration::from_millis(4);

/// Use of the interface's queueing discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueingDiscipline {
    /// Through it, as all other traffic: shapers and queues of the host apply.
    Pass,
    /// Directly to the driver (`PACKET_QDISC_BYPASS`): nothing is queued, and a full driver
    /// refuses.
    Bypass,
}

/// Sender of frames on one interface of the calling thread's network namespace.
pub struct FrameSender {
    fd: OwnedFd,
    device: String,
    batch: SendBatch,
}

impl FrameSender {
    /// Opens a sender on `device`, with room for `n_frames` of up to `frame_bytes` each per call
    /// (without check sequence).
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
    ) -> Result<Self> {
        let fd = open_to_send(device, discipline)?;
        set_send_timeout(&fd, SEND_PATIENCE)?;
        let batch = SendBatch::new(n_frames, frame_bytes);
        Ok(Self { fd, device: device.to_owned(), batch })
    }

    /// Returns the buffer of frame `idx`, to fill or to patch.
    ///
    /// # Panics
    /// If `idx` is out of range.
    #[inline]
    pub fn frame_mut(&mut self, idx: usize) -> &mut [u8] {
        self.batch.message_mut(idx)
    }

    /// Sets the length of frame `idx`.
    ///
    /// # Panics
    /// If `idx` or `length` is out of range.
    #[inline]
    pub fn set_length(&mut self, idx: usize, length: usize) {
        self.batch.set_length(idx, length);
    }

    /// Sends the first `n` frames and returns how many were accepted. If that is less than `n`, a
    /// frame was refused; the kernel then does not give the reason.
    ///
    /// # Errors
    /// The kernel's error if it did not accept the first frame.
    ///
    /// # Panics
    /// If `n` is zero or out of range.
    #[inline]
    pub fn send(&mut self, n: usize, wait: Wait) -> io::Result<usize> {
        self.batch.send(&self.fd, n, wait)
    }

    /// Returns the interface.
    #[must_use]
    pub fn device(&self) -> &str {
        &self.device
    }
}

/// Opens a socket that sends on `device` and receives nothing, with room for many frames under way.
pub(super) fn open_to_send(device: &str, discipline: QueueingDiscipline) -> Result<OwnedFd> {
    let failed = |cause: io::Error| SysError::new("open packet socket on", device, cause);
    let ifindex = index_of(device).map_err(failed)?;
    let fd = open_unbound(device, EVERY_TYPE).map_err(failed)?;
    raw::bind(&fd, ifindex, 0).map_err(failed)?;
    if discipline == QueueingDiscipline::Bypass {
        option::set_int(&fd, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1).map_err(|cause| {
            SysError::new("set PACKET_QDISC_BYPASS (Linux 3.14) on", device, cause)
        })?;
    }
    // A smaller buffer shows as calls that find no room.
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
