//! Receive ring shared with the kernel (`PACKET_RX_RING`, TPACKET_V3): no system call and no copy
//! per frame.
//!
//! The kernel copies accepted frames into a block until it is full or some time has passed, and
//! then hands over the whole block. Its owner walks the frames and returns the block. While the
//! owner has all blocks, the kernel drops frames and counts them (`PACKET_STATISTICS`). Each frame
//! carries the time at which the kernel's packet layer received it. Earlier drops (device, per-CPU
//! backlog) are not visible.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::socket::raw as option;
use crate::{Result, SysError};

use super::block::{RingFrame, frames};
use super::filter::Filter;
use super::{EVERY_TYPE, index_of, open_unbound, raw as packet};

#[allow(unsafe_code)]
mod raw;

/// Smallest block: the kernel requires whole pages, and a block must fit a frame of any size.
const LEAST_BLOCK: usize = 64 << 10;
/// Nominal frame size for the kernel. V3 packs frames by their length, so the value limits nothing.
const NOMINAL_FRAME: usize = 2048;

/// Size of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingShape {
    block_bytes: usize,
    n_blocks: usize,
    /// Time after which a block that is not full is handed over, ms.
    patience_ms: u32,
}

impl RingShape {
    /// Returns the shape of a ring of about `bytes`, in `n_blocks` blocks of a power of two of
    /// pages each. A block that is not full is handed over after `patience_ms`.
    #[must_use]
    pub fn new(bytes: usize, n_blocks: usize, patience_ms: u32) -> Self {
        let n_blocks = n_blocks.max(1);
        let block_bytes = (bytes / n_blocks).max(LEAST_BLOCK).next_power_of_two();
        Self { block_bytes, n_blocks, patience_ms }
    }

    /// Returns its size in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.block_bytes * self.n_blocks
    }

    fn request(&self) -> Request {
        Request {
            block_size: self.block_bytes as u32,
            n_blocks: self.n_blocks as u32,
            frame_size: NOMINAL_FRAME as u32,
            n_frames: (self.bytes() / NOMINAL_FRAME) as u32,
            retire_ms: self.patience_ms,
            private_bytes: 0,
            features: 0,
        }
    }
}

/// `struct tpacket_req3`.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Request {
    block_size: u32,
    n_blocks: u32,
    frame_size: u32,
    n_frames: u32,
    retire_ms: u32,
    private_bytes: u32,
    features: u32,
}

/// `struct tpacket_stats_v3`: frames since the last query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes)]
#[repr(C)]
pub struct RingStatistics {
    /// Accepted by the filter, including dropped ones.
    pub accepted: u32,
    /// Dropped because no block was free.
    pub dropped: u32,
    /// Times the ring was full.
    pub freezes: u32,
}

/// Receiver of frames from one interface of the calling thread's network namespace.
#[derive(Debug)]
pub struct FrameRing {
    // Declared first: it must be dropped before its socket.
    blocks: raw::Blocks,
    fd: OwnedFd,
    device: String,
    next: usize,
}

impl FrameRing {
    /// Opens a ring on `device` for the frames that `filter` accepts. Frames that this host sends
    /// are not received.
    ///
    /// # Errors
    /// If there is no such interface, CAP_NET_RAW is missing, or there is not enough memory.
    pub fn open(device: &str, filter: &Filter, shape: RingShape) -> Result<Self> {
        let failed = |cause: io::Error| SysError::new("open packet ring on", device, cause);
        let ifindex = index_of(device).map_err(failed)?;
        let fd = open_unbound(device, EVERY_TYPE).map_err(failed)?;
        filter.attach(&fd)?;
        let version = libc::tpacket_versions::TPACKET_V3 as libc::c_int;
        option::set_int(&fd, libc::SOL_PACKET, libc::PACKET_VERSION, version).map_err(failed)?;
        option::set(&fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &shape.request())
            .map_err(failed)?;
        let blocks = raw::Blocks::map(&fd, shape.block_bytes, shape.n_blocks).map_err(failed)?;
        packet::bind(&fd, ifindex, libc::ETH_P_ALL as u16).map_err(failed)?;
        Ok(Self { blocks, fd, device: device.to_owned(), next: 0 })
    }

    /// Visits every frame of the next block and returns their number, or `None` if no block is
    /// ready. Never waits: the socket is readable when a block is ready.
    #[inline]
    pub fn receive(&mut self, mut visit: impl FnMut(RingFrame<'_>)) -> Option<usize> {
        let block = self.blocks.handed_over(self.next)?;
        let mut n = 0;
        for frame in frames(block) {
            n += 1;
            visit(frame);
        }
        self.blocks.give_back(self.next);
        self.next = if self.next + 1 < self.blocks.n() { self.next + 1 } else { 0 };
        Some(n)
    }

    /// Returns the counts of frames since the last call.
    ///
    /// # Errors
    /// If the socket is broken.
    pub fn statistics(&self) -> Result<RingStatistics> {
        option::get(&self.fd, libc::SOL_PACKET, libc::PACKET_STATISTICS)
            .map_err(|cause| SysError::new("read packet statistics of", &*self.device, cause))
    }
}

impl AsFd for FrameRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::super::marked::{frame, privileged, received};
    use super::super::{Accept, FrameSender, QueueingDiscipline};
    use super::*;
    use crate::udp::Wait;

    #[test]
    fn a_ring_is_of_whole_blocks_that_hold_any_frame() {
        let shape = RingShape::new(32 << 20, 64, 1);
        assert_eq!((shape.block_bytes, shape.n_blocks, shape.bytes()), (512 << 10, 64, 32 << 20));
        assert_eq!(RingShape::new(1, 4, 1).block_bytes, LEAST_BLOCK);
        assert_eq!(RingShape::new(100_000 * 3, 3, 1).block_bytes, 128 << 10);
        assert_eq!(RingShape::new(0, 0, 1).bytes(), LEAST_BLOCK);
        let request = shape.request();
        assert_eq!(request.n_frames * request.frame_size, request.block_size * request.n_blocks);
    }

    #[test]
    fn marked_frames_come_through_the_ring_once_in_order_stamped_and_others_do_not() {
        if !privileged(
            "marked_frames_come_through_the_ring_once_in_order_stamped_and_others_do_not",
        ) {
            return;
        }
        for discipline in [QueueingDiscipline::Pass, QueueingDiscipline::Bypass] {
            const MARK: u32 = 0x6c72_0001;
            let mark = MARK + discipline as u32 * 2;
            let filter =
                Filter::any_of(&[Accept { offset: 14, marks: vec![mark], share: None }], 32);
            let mut ring =
                FrameRing::open("lo", &filter, RingShape::new(1 << 20, 4, 1)).expect("a ring");
            let mut sender = FrameSender::open("lo", 8, 60, discipline).expect("a sender");
            let before = crate::clock::realtime();
            for idx in 0..8 {
                // Every other frame has another program's mark.
                sender.frame_mut(idx).copy_from_slice(&frame(mark + (idx as u32 & 1)));
            }
            assert_eq!(sender.send(8, Wait::Block).expect("sent"), 8);
            let got = received(&mut ring, 4);
            assert_eq!(
                got.iter().map(|(mark, length, _)| (*mark, *length)).collect::<Vec<_>>(),
                [(mark, 60); 4]
            );
            assert!(got.windows(2).all(|pair| pair[0].2 <= pair[1].2));
            assert!(got[0].2 >= before && got[3].2 <= crate::clock::realtime());
            let counted = ring.statistics().expect("statistics");
            assert_eq!((counted.accepted, counted.dropped), (4, 0));
        }
    }

    #[test]
    fn what_a_full_ring_drops_is_counted_to_the_frame() {
        if !privileged("what_a_full_ring_drops_is_counted_to_the_frame") {
            return;
        }
        const MARK: u32 = 0x6c72_0010;
        let filter =
            Filter::any_of(&[Accept { offset: 14, marks: vec![MARK], share: None }], u32::MAX);
        let mut ring = FrameRing::open("lo", &filter, RingShape::new(0, 2, 1)).expect("a ring");
        let mut sender =
            FrameSender::open("lo", 64, 60, QueueingDiscipline::Bypass).expect("a sender");
        (0..64).for_each(|idx| sender.frame_mut(idx).copy_from_slice(&frame(MARK)));
        let mut sent = 0;
        while sent < 8192 {
            sent += sender.send(64, Wait::Block).expect("sent");
        }
        let mut got = 0;
        let mut counted = RingStatistics::default();
        let until = crate::clock::monotonic() + 200_000_000;
        while crate::clock::monotonic() < until {
            ring.receive(|_| got += 1);
            let more = ring.statistics().expect("statistics");
            counted.accepted += more.accepted;
            counted.dropped += more.dropped;
        }
        assert!(counted.dropped > 0, "{counted:?}");
        assert_eq!((counted.accepted as usize, got + counted.dropped as usize), (sent, sent));
    }
}
