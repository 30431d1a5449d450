//! Send ring shared with the kernel (`PACKET_TX_RING`, TPACKET_V2): frames are built where the
//! kernel reads them, with one call per batch.
//!
//! The kernel copies a frame's Ethernet header and refers to the rest in place. A slot therefore
//! belongs to the kernel until the last user of the frame frees it, and it is not filled before
//! that. A frame that a queue or driver refuses stays in its slot and is reported (`PACKET_LOSS` is
//! off). A call sends frames up to the first refused one and withdraws the rest.
//!
//! The fate of a frame in the driver and beyond is not visible. A device on this host may report
//! that it is done with a frame that it still holds (a tap device, a delay queue). Such a frame is
//! sent with the slot's later contents.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{SendFlags, send};
use zerocopy::{Immutable, IntoBytes};

use crate::socket::raw as option;
use crate::{Result, SysError};

use super::sender::{QueueingDiscipline, open_to_send};

#[allow(unsafe_code)]
mod raw;
mod slot;

use slot::Status;
pub use slot::Stopped;

/// Smallest block: the kernel requires whole pages; a few are enough.
const LEAST_BLOCK: usize = 64 << 10;

/// `struct tpacket_req`.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Request {
    block_size: u32,
    n_blocks: u32,
    frame_size: u32,
    n_frames: u32,
}

impl Request {
    /// Returns a request for at least `n_frames` of up to `frame_bytes`, in whole blocks.
    fn new(n_frames: usize, frame_bytes: usize) -> Self {
        let slot = slot::slot_bytes(frame_bytes);
        let block = slot.max(LEAST_BLOCK);
        let n_blocks = (n_frames * slot).div_ceil(block).max(1);
        Self {
            block_size: block as u32,
            n_blocks: n_blocks as u32,
            frame_size: slot as u32,
            n_frames: (n_blocks * block / slot) as u32,
        }
    }
}

/// Result of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSent {
    /// Frames that the kernel accepted, from the first on.
    pub taken: u32,
    /// Reason for stopping, if it did not accept all frames.
    pub stopped: Option<Stopped>,
}

/// Sender of frames on one interface of the calling thread's network namespace.
pub struct SendRing {
    // Declared first: it must be dropped before its socket.
    slots: raw::Slots,
    fd: OwnedFd,
    device: String,
    /// The slot that the kernel reads next, which is the first one to fill.
    next: usize,
}

impl SendRing {
    /// Opens a ring on `device` of at least `n_frames` of up to `frame_bytes` each (without check
    /// sequence).
    ///
    /// # Errors
    /// If there is no such interface, CAP_NET_RAW is missing, or there is not enough memory.
    pub fn open(
        device: &str,
        n_frames: usize,
        frame_bytes: usize,
        discipline: QueueingDiscipline,
    ) -> Result<Self> {
        let fd = open_to_send(device, discipline)?;
        let failed = |cause: io::Error| SysError::new("open packet send ring on", device, cause);
        let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
        option::set_int(&fd, libc::SOL_PACKET, libc::PACKET_VERSION, version).map_err(failed)?;
        let request = Request::new(n_frames, frame_bytes);
        option::set(&fd, libc::SOL_PACKET, libc::PACKET_TX_RING, &request).map_err(failed)?;
        let slots = raw::Slots::map(&fd, request.frame_size as usize, request.n_frames as usize)
            .map_err(failed)?;
        Ok(Self { slots, fd, device: device.to_owned(), next: 0 })
    }

    /// Returns the number of slots; `prepare` and `send` number them from 0.
    #[must_use]
    pub fn n_slots(&self) -> usize {
        self.slots.n()
    }

    /// Calls `write` for every slot that is ours, which before the first frame are all. Later calls
    /// only need to write what changes.
    pub fn prepare(&mut self, mut write: impl FnMut(usize, &mut [u8])) {
        for idx in 0..self.slots.n() {
            if let Some(frame) = self.slots.frame_mut(idx) {
                write(idx, frame);
            }
        }
    }

    /// Sends up to `wanted` frames in one call. For each, `write` receives the slot's number and
    /// its old bytes and returns the frame's length. A frame that was not accepted is lost: its
    /// slot is filled anew. Never waits.
    ///
    /// # Panics
    /// If a frame is longer than its slot.
    #[inline]
    pub fn send(
        &mut self,
        wanted: u32,
        mut write: impl FnMut(usize, &mut [u8]) -> usize,
    ) -> RingSent {
        let mut filled = 0;
        while filled < wanted {
            let idx = self.ahead(filled);
            let Some(frame) = self.slots.frame_mut(idx) else { break };
            let (room, length) = (frame.len(), write(idx, frame));
            assert!(length <= room, "a frame of {length} bytes in a slot of {room}");
            self.slots.hand_over(idx, length as u32);
            filled += 1;
        }
        if filled == 0 {
            return RingSent { taken: 0, stopped: (wanted > 0).then_some(Stopped::NoRoom) };
        }
        let answer = send(&self.fd, &[], SendFlags::DONTWAIT).map_err(io::Error::from);
        // An error does not say how many frames were accepted before it. The slots do.
        let was_taken = |k: &u32| {
            !matches!(self.slots.status(self.ahead(*k)), Status::Requested | Status::WrongFormat)
        };
        let taken = (0..filled).take_while(was_taken).count() as u32;
        let mut stopped = (filled < wanted).then_some(Stopped::NoRoom);
        if taken < filled {
            stopped = Some(Stopped::why(&answer, self.slots.status(self.ahead(taken))));
            (taken..filled).for_each(|k| self.slots.withdraw(self.ahead(k)));
        }
        self.next = self.ahead(taken);
        RingSent { taken, stopped }
    }

    /// Returns the slot `k` positions ahead.
    #[inline]
    fn ahead(&self, k: u32) -> usize {
        ahead(self.next, k, self.slots.n())
    }

    /// Returns the interface.
    #[must_use]
    pub fn device(&self) -> &str {
        &self.device
    }
}

/// Returns the slot `k` positions after `from` in a ring of `n`. `k` is at most `n`, so no division
/// is needed.
#[inline]
fn ahead(from: usize, k: u32, n: usize) -> usize {
    let slot = from + k as usize;
    if slot < n { slot } else { slot - n }
}

impl AsFd for SendRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl fmt::Debug for SendRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SendRing({}, {} slots)", self.device, self.slots.n())
    }
}

#[cfg(test)]
mod tests {
    use super::super::marked::{frame, privileged, received};
    use super::super::{Accept, Filter, FrameRing, RingShape};
    use super::*;

    #[test]
    fn a_ring_is_of_whole_blocks_of_slots() {
        for (n_frames, frame_bytes, slot, n) in
            [(1, 60, 128, 512), (600, 60, 128, 1024), (64, 9014, 16_384, 64)]
        {
            let request = Request::new(n_frames, frame_bytes);
            assert_eq!(
                (request.frame_size, request.n_frames),
                (slot, n),
                "{n_frames} of {frame_bytes} B"
            );
            assert_eq!(
                request.n_frames * request.frame_size,
                request.n_blocks * request.block_size
            );
        }
    }

    #[test]
    fn behind_the_last_slot_comes_the_first() {
        const N: usize = 5;
        for from in 0..N {
            for k in 0..=N as u32 {
                assert_eq!(
                    ahead(from, k, N),
                    (from + k as usize) % N,
                    "{k} further on than {from}"
                );
            }
        }
    }

    /// Returns a ring to send with, and one that receives frames with `mark`.
    fn rings(mark: u32, discipline: QueueingDiscipline) -> (SendRing, FrameRing) {
        let filter = Filter::any_of(&[Accept { offset: 14, marks: vec![mark], share: None }], 64);
        let receiver =
            FrameRing::open("lo", &filter, RingShape::new(1 << 20, 4, 1)).expect("a ring");
        let mut sender = SendRing::open("lo", 1, 60, discipline).expect("a ring to send by");
        sender.prepare(|_, bytes| bytes[..60].copy_from_slice(&frame(mark)));
        (sender, receiver)
    }

    #[test]
    fn frames_patched_in_place_come_once_and_in_order_however_often_the_ring_goes_round() {
        if !privileged(
            "frames_patched_in_place_come_once_and_in_order_however_often_the_ring_goes_round",
        ) {
            return;
        }
        const BATCH: u32 = 100;
        for discipline in [QueueingDiscipline::Pass, QueueingDiscipline::Bypass] {
            let (mut sender, mut receiver) = rings(0x6c72_0020 + discipline as u32, discipline);
            let n = 3 * sender.n_slots() as u32;
            let (mut sent, mut got) = (0, Vec::new());
            let until = crate::clock::monotonic() + 5_000_000_000;
            while (sent < n || got.len() < n as usize) && crate::clock::monotonic() < until {
                let mut number = sent;
                let batch = sender.send(BATCH.min(n - sent), |_, bytes| {
                    bytes[20..24].copy_from_slice(&number.to_be_bytes());
                    number += 1;
                    60
                });
                assert!(matches!(batch.stopped, None | Some(Stopped::NoRoom)), "{batch:?}");
                sent += batch.taken;
                receiver.receive(|frame| {
                    got.push(u32::from_be_bytes(
                        frame.bytes[20..24].try_into().expect("four bytes"),
                    ));
                });
            }
            assert_eq!(receiver.statistics().expect("statistics").dropped, 0);
            assert_eq!(got, (0..n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_frame_the_kernel_cannot_send_is_reported_and_the_next_ones_go() {
        if !privileged("a_frame_the_kernel_cannot_send_is_reported_and_the_next_ones_go") {
            return;
        }
        const MARK: u32 = 0x6c72_0030;
        let (mut sender, mut receiver) = rings(MARK, QueueingDiscipline::Pass);
        let mut lengths = [60, 60, 5, 60].into_iter();
        let stopped = sender.send(4, |_, _| lengths.next().expect("four"));
        assert_eq!(stopped, RingSent { taken: 2, stopped: Some(Stopped::WrongFormat) });
        assert_eq!(sender.send(2, |_, _| 60), RingSent { taken: 2, stopped: None });
        assert_eq!(received(&mut receiver, 4).len(), 4);
        assert_eq!(
            receiver.statistics().expect("statistics").accepted,
            4,
            "what was withdrawn did not go later"
        );
    }
}
