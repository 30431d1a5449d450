//! Modes `packet` and `packet_bypass`: many frames per call through a packet socket, and a receive
//! ring shared with the kernel.
//!
//! Measured on veth between two namespaces, 64 B and 1518 B, one core (medians of 6 interleaved
//! runs): sendmmsg 0.47 and 0.46 M frames a second, a send ring ([`super::packet_ring`]) 0.43 and
//! 0.38, with or without the queueing discipline. Times of receipt are those at which the kernel's
//! packet layer got a frame, turned from the wall clock to the monotonic one by reading both once a
//! block: exact to some tens of nanoseconds unless the wall clock is stepped in between.

use std::os::fd::{AsFd, BorrowedFd};

use linerate_model::{Counter, Counters, Nanos};
use linerate_packet::frame::{FCS_BYTES, VLAN_BYTES};
use linerate_sys::packet::{
    Accept, Filter, FrameRing, FrameSender, QueueingDiscipline, RingFrame, RingShape, Share,
};
use linerate_sys::udp::Wait;
use linerate_sys::{clock, socket};

use super::backend::{FILLING, Opening, Order, Receive, Transmit, locate};
use super::filler::Filler;
use super::ledger::{Ledger, NEEDED};
use super::{Keep, Mode};
use crate::workloads::rendezvous::would_wait;
use crate::{Result, Tally};

/// A block holds a thousand kept headers. A ring has at most 256 of them, and larger ones if it is
/// larger.
const BLOCK_BYTES: usize = 128 << 10;
const LEAST_BLOCKS: usize = 4;
const MOST_BLOCKS: usize = 256;
/// The kernel hands over a partly filled block after this long; frames in it have their own times.
/// Each such block leaves the ring until it is read. With 64 blocks of 1 ms, a worker without a CPU
/// for 0.1 s lost frames of an almost empty ring.
const BLOCK_PATIENCE_MS: u32 = 4;

/// Relation of a sender to the queueing discipline, as its mode names it.
pub(super) const THROUGH: &str = "through the queueing discipline";
pub(super) const PAST: &str = "past the queueing discipline";

/// Returns the relation of `mode`.
pub(super) fn discipline(mode: Mode) -> QueueingDiscipline {
    match mode {
        Mode::PacketBypass | Mode::PacketRingBypass => QueueingDiscipline::Bypass,
        _ => QueueingDiscipline::Pass,
    }
}

/// Sender with `sendmmsg` on a packet socket.
#[derive(Debug)]
pub(super) struct PacketTransmit {
    sender: FrameSender,
    discipline: QueueingDiscipline,
    batch: u32,
    filler: Filler,
}

impl PacketTransmit {
    pub(super) fn open(opening: &Opening<'_>) -> Result<Self> {
        let params = opening.params;
        let discipline = discipline(opening.mode);
        // A burst leaves in one call.
        let batch = params.batch.max(params.burst);
        let frame_bytes = opening.sizes().largest() - FCS_BYTES;
        let mut sender =
            FrameSender::open(&opening.interface.name, batch as usize, frame_bytes, discipline)?;
        // Slots keep their filling; only heads are written from now on.
        (0..batch as usize).for_each(|slot| sender.frame_mut(slot).fill(FILLING));
        Ok(Self { sender, discipline, batch, filler: Filler::new(opening, batch as usize)? })
    }
}

impl PacketTransmit {
    /// Returns the error of a call that took fewer frames than it was given. The kernel stops at a
    /// frame without giving the reason. Either a queue or driver refused that frame and dropped it,
    /// or the socket's buffer had no room for as long as a call waits, and the frame was not made.
    /// In both cases it is unsent, and is sent later under the same number. The time of the call
    /// does not say which: on a busy machine a wait may look short and a refusal long.
    fn cut_short(&self) -> Counter {
        let had_no_room = socket::is_full(&self.sender).unwrap_or(false);
        if had_no_room { Counter::WouldBlock } else { Counter::SendDrops }
    }
}

impl Transmit for PacketTransmit {
    fn mode(&self) -> String {
        let (mode, way) = match self.discipline {
            QueueingDiscipline::Pass => ("packet", THROUGH),
            QueueingDiscipline::Bypass => ("packet_bypass", PAST),
        };
        format!("{mode}: {way}, up to {} frames a call (sendmmsg)", self.batch)
    }

    fn batch(&self) -> u32 {
        self.batch
    }

    #[inline]
    fn send(&mut self, order: Order, change: &mut Counters) -> u32 {
        for slot in 0..order.n as usize {
            let length = self.filler.fill(slot, self.sender.frame_mut(slot), slot as u64, order);
            self.sender.set_length(slot, length);
        }
        change[Counter::CallsSent] += 1;
        let taken = match self.sender.send(order.n as usize, Wait::Block) {
            Ok(taken) => {
                if taken < order.n as usize {
                    change[self.cut_short()] += 1;
                }
                taken as u32
            }
            Err(error) if error.raw_os_error() == Some(NO_BUFFERS) => {
                change[Counter::SendDrops] += 1;
                0
            }
            Err(error) => {
                let kind =
                    if would_wait(&error) { Counter::WouldBlock } else { Counter::SendErrors };
                change[kind] += 1;
                0
            }
        };
        self.filler.taken(u64::from(taken), change);
        taken
    }

    fn sent(&self, flow_idx: usize) -> (u64, u64) {
        self.filler.sent(flow_idx)
    }
}

/// `ENOBUFS`: a queue or driver refused a frame and dropped it (the same on every architecture
/// linerate runs on).
const NO_BUFFERS: i32 = 105;

/// Receiver through a ring.
#[derive(Debug)]
pub(super) struct PacketReceive {
    ring: FrameRing,
    bytes: usize,
    keep: Keep,
    /// Expected position of a signature in frames as the kernel shows them.
    expected_at: usize,
    inward: u32,
}

impl PacketReceive {
    pub(super) fn open(opening: &Opening<'_>) -> Result<Self> {
        let params = opening.params;
        let headers = &opening.flows.first().expect("a worker has a flow").headers;
        // The kernel removes the outer tag and reports it beside the frame.
        let tagged_at = headers.signature_at();
        let expected_at = tagged_at - if headers.tags.is_empty() { 0 } else { VLAN_BYTES };
        // The filter runs before the tag is put back, so its offsets count without tags.
        let plain_at = tagged_at - headers.tags.len() * VLAN_BYTES;
        let keep = match params.receive {
            // Two tags more than expected: a device on the way may have added them.
            Keep::Headers => (plain_at + 2 * VLAN_BYTES + NEEDED) as u32,
            Keep::Copy => u32::from(u16::MAX),
        };
        // On the loopback the sender's own frames are not reflected frames: they are the sent ones.
        let marks = if opening.interface.is_loopback() {
            vec![opening.inward]
        } else {
            vec![opening.inward, opening.outward]
        };
        // A device on the way may have added or removed a tag.
        let places = [plain_at, plain_at + VLAN_BYTES].map(|at| Accept {
            offset: at as u32,
            marks: marks.clone(),
            share: (opening.n_workers > 1).then(|| Share {
                offset: (at + FLOW_AT) as u32,
                of: opening.n_workers,
                own: opening.worker,
            }),
        });
        let bytes = params.options.receive_buffer.map_or(0, |bytes| bytes.0 as usize);
        // At least a few blocks, so that one may be read while others fill; at most 256, so that
        // each is large enough to last.
        let n_blocks = (bytes / BLOCK_BYTES).clamp(LEAST_BLOCKS, MOST_BLOCKS);
        let shape = RingShape::new(bytes, n_blocks, BLOCK_PATIENCE_MS);
        let ring = FrameRing::open(&opening.interface.name, &Filter::any_of(&places, keep), shape)?;
        Ok(Self {
            ring,
            bytes: shape.bytes(),
            keep: params.receive,
            expected_at,
            inward: opening.inward,
        })
    }
}

/// Position of the flow's number in a signature.
const FLOW_AT: usize = 4;

/// Accounts one frame of a ring; the wall clock is `ahead` of the monotonic one.
#[inline]
fn account(
    frame: &RingFrame<'_>,
    expected_at: usize,
    inward: u32,
    ahead: u64,
    ledger: &mut Ledger,
    tally: &mut Tally,
) {
    let Some((payload, at)) = locate(frame.bytes, expected_at, inward) else {
        return tally.add(Counter::Foreign, 1);
    };
    let came = Nanos(frame.stamp_ns.saturating_sub(ahead));
    ledger.arrived(payload, frame.length.saturating_sub(at), came, tally);
}

impl Receive for PacketReceive {
    fn mode(&self) -> String {
        let kept = match self.keep {
            Keep::Headers => "headers copied",
            Keep::Copy => "frames copied",
        };
        format!(
            "packet: receive ring of {} KiB, {kept}, stamped by the kernel's packet layer",
            self.bytes >> 10
        )
    }

    #[inline]
    fn receive(&mut self, ledger: &mut Ledger, tally: &mut Tally) -> bool {
        let (expected_at, inward) = (self.expected_at, self.inward);
        // Both clocks are read once for a block: the packet layer stamps by the wall clock.
        let ahead = clock::realtime().saturating_sub(clock::monotonic());
        let blocks =
            self.ring.receive(|frame| account(&frame, expected_at, inward, ahead, ledger, tally));
        tally.add(Counter::MessagesReceived, blocks.unwrap_or(0) as u64);
        blocks.is_some()
    }

    fn watched(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.ring.as_fd()]
    }

    fn drops(&mut self) -> u64 {
        self.ring.statistics().map_or(0, |counted| u64::from(counted.dropped))
    }
}
