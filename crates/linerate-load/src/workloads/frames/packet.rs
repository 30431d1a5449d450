//! The modes `packet` and `packet_bypass`: many frames a call through a packet socket, a receive ring shared with the kernel.
//!
//! Measured on veth between two namespaces, 60 B frames, one core: sendmmsg sends 0.9 M frames a second, as a send ring does,
//! with or without the queueing discipline. Times of receipt are those at which the kernel's packet layer got a frame, turned from
//! the wall clock to the monotonic one by reading both once a block: exact to some tens of nanoseconds unless the wall clock is
//! stepped in between.

use std::os::fd::{AsFd, BorrowedFd};

use linerate_model::{Counter, Counters, Nanos};
use linerate_packet::frame::{FCS_BYTES, FrameView, Ports, Signature, Stamp, Template, VLAN_BYTES};
use linerate_sys::clock;
use linerate_sys::packet::{Accept, Filter, FrameRing, FrameSender, QueueingDiscipline, RingFrame, RingShape, Share};
use linerate_sys::udp::Wait;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::backend::{FILLING, Opening, Order, Receive, Transmit};
use super::ledger::{Ledger, NEEDED};
use super::numbering::Numbering;
use super::start::unfit;
use super::{Keep, Mode, PortChoice};
use crate::workloads::rendezvous::would_wait;
use crate::{LoadError, Tally};

/// Blocks of a ring: at 32 MiB each holds some thousand kept headers.
const N_BLOCKS: usize = 64;
/// A block that is not full is handed over after this long, the least the kernel knows; frames in it have their own times.
const BLOCK_PATIENCE_MS: u32 = 1;
/// Random ports are from here on (RFC 4814 clause 4.3: 1024 to 65535).
const FIRST_RANDOM_PORT: u16 = 1024;
/// What no template's index is.
const UNFILLED: usize = usize::MAX;

/// Sends with `sendmmsg` on a packet socket.
#[derive(Debug)]
pub(super) struct PacketTransmit {
    sender: FrameSender,
    discipline: QueueingDiscipline,
    batch: u32,
    numbering: Numbering,
    /// For each flow, one per distinct size.
    templates: Vec<Template>,
    sizes: Vec<usize>,
    /// Which template each slot of the batch was last filled from.
    filled: Vec<usize>,
    /// Bytes of a frame, check sequence included, that are no transport payload.
    overhead: u64,
    random: Option<Xoshiro256PlusPlus>,
}

impl PacketTransmit {
    pub(super) fn open(opening: &Opening<'_>) -> Result<Self, LoadError> {
        let params = opening.params;
        let discipline = match params.mode {
            Mode::PacketBypass => QueueingDiscipline::Bypass,
            _ => QueueingDiscipline::Pass,
        };
        // A burst leaves in one call.
        let batch = params.batch.max(params.burst);
        let templates = opening.templates().map_err(unfit)?;
        let frame_bytes = opening.sizes().largest() - FCS_BYTES;
        let mut sender = FrameSender::open(&opening.interface.name, batch as usize, frame_bytes, discipline)?;
        (0..batch as usize).for_each(|slot| sender.frame_mut(slot).fill(FILLING));
        let overhead = templates.first().map_or(0, Template::signature_at) + FCS_BYTES;
        let random = params.ports == PortChoice::Random;
        Ok(Self {
            sender,
            discipline,
            batch,
            numbering: Numbering::new(opening.flows.len(), opening.sizes().clone()),
            templates,
            sizes: opening.sizes().distinct(),
            filled: vec![UNFILLED; batch as usize],
            overhead: overhead as u64,
            random: random.then(|| Xoshiro256PlusPlus::seed_from_u64(opening.seed)),
        })
    }

    /// Makes slot `slot` the frame `ahead` of the next, to depart at `scheduled`.
    #[inline]
    fn fill(&mut self, slot: usize, scheduled: u64, now: Nanos) {
        let frame = self.numbering.ahead(slot as u64);
        let size_idx = self.sizes.iter().position(|size| *size == frame.size).expect("every size has a template");
        let idx = frame.flow_idx * self.sizes.len() + size_idx;
        let template = &self.templates[idx];
        if std::mem::replace(&mut self.filled[slot], idx) != idx {
            self.sender.set_length(slot, template.bytes().len());
            let head = template.head();
            self.sender.frame_mut(slot)[..head.len()].copy_from_slice(head);
        }
        let lateness_ns = now.0.saturating_sub(scheduled);
        let stamp = Stamp { sequence: frame.sequence, scheduled_ns: scheduled, lateness_ns };
        let bytes = self.sender.frame_mut(slot);
        match &mut self.random {
            None => template.patch(bytes, &stamp),
            Some(random) => template.patch_with_ports(bytes, &stamp, random_ports(random.next_u64())),
        }
    }
}

/// Two ports of RFC 4814's range from 64 random bits, each as likely to one part in 2^16.
#[inline]
fn random_ports(bits: u64) -> Ports {
    const N_PORTS: u64 = (u16::MAX - FIRST_RANDOM_PORT) as u64 + 1;
    let port = |bits: u32| FIRST_RANDOM_PORT + ((u64::from(bits) * N_PORTS) >> u32::BITS) as u16;
    Ports { source: port((bits >> u32::BITS) as u32), destination: port(bits as u32) }
}

impl Transmit for PacketTransmit {
    fn mode(&self) -> String {
        let way = match self.discipline {
            QueueingDiscipline::Pass => "packet: through the queueing discipline",
            QueueingDiscipline::Bypass => "packet_bypass: past the queueing discipline",
        };
        format!("{way}, up to {} frames a call (sendmmsg)", self.batch)
    }

    fn batch(&self) -> u32 {
        self.batch
    }

    #[inline]
    fn send(&mut self, order: Order, change: &mut Counters) -> u32 {
        for slot in 0..order.n as usize {
            self.fill(slot, order.intended.0 + slot as u64 * order.gap.0, order.now);
        }
        change[Counter::CallsSent] += 1;
        let taken = match self.sender.send(order.n as usize, Wait::Block) {
            Ok(taken) => {
                // The kernel stops at the frame that was refused, and drops it; it is sent again later under the same number.
                change[Counter::SendDrops] += u64::from(taken < order.n as usize);
                taken as u32
            }
            Err(error) if error.raw_os_error() == Some(NO_BUFFERS) => {
                change[Counter::SendDrops] += 1;
                0
            }
            Err(error) => {
                let kind = if would_wait(&error) { Counter::WouldBlock } else { Counter::SendErrors };
                change[kind] += 1;
                0
            }
        };
        let bytes = self.numbering.advance(u64::from(taken));
        change[Counter::MessagesSent] += u64::from(taken);
        change[Counter::DatagramsSent] += u64::from(taken);
        change[Counter::PayloadSent] += bytes - self.overhead * u64::from(taken);
        taken
    }

    fn sent(&self, flow_idx: usize) -> (u64, u64) {
        let (frames, bytes) = self.numbering.sent(flow_idx);
        (frames, bytes - self.overhead * frames)
    }
}

/// `ENOBUFS`: a queue or driver refused a frame and dropped it (the same on every architecture linerate runs on).
const NO_BUFFERS: i32 = 105;

/// Receives through a ring.
#[derive(Debug)]
pub(super) struct PacketReceive {
    ring: FrameRing,
    bytes: usize,
    keep: Keep,
    /// Where a signature is expected in frames as the kernel shows them.
    expected_at: usize,
    inward: u32,
}

impl PacketReceive {
    pub(super) fn open(opening: &Opening<'_>) -> Result<Self, LoadError> {
        let params = opening.params;
        let headers = &opening.flows.first().expect("a worker has a flow").headers;
        // The kernel takes the outer tag off and tells it beside the frame.
        let tagged_at = headers.signature_at();
        let expected_at = tagged_at - if headers.tags.is_empty() { 0 } else { VLAN_BYTES };
        let plain_at = tagged_at - headers.tags.len() * VLAN_BYTES;
        let keep = match params.receive {
            Keep::Headers => (plain_at + 2 * VLAN_BYTES + NEEDED) as u32,
            Keep::Copy => u32::from(u16::MAX),
        };
        let share = |at: usize| Share { offset: (at + FLOW_AT) as u32, of: opening.n_workers, own: opening.worker };
        // On the loopback a sender's own frames are not reflected: they are what was sent.
        let marks =
            if opening.interface.is_loopback() { vec![opening.inward] } else { vec![opening.inward, opening.outward] };
        // A device on the way may have added or removed a tag.
        let places = [plain_at, plain_at + VLAN_BYTES].map(|at| Accept {
            offset: at as u32,
            marks: marks.clone(),
            share: (opening.n_workers > 1).then(|| share(at)),
        });
        let bytes = params.options.receive_buffer.map_or(0, |bytes| bytes.0 as usize);
        let shape = RingShape::new(bytes, N_BLOCKS, BLOCK_PATIENCE_MS);
        let ring = FrameRing::open(&opening.interface.name, &Filter::any_of(&places, keep), shape)?;
        Ok(Self { ring, bytes: shape.bytes(), keep: params.receive, expected_at, inward: opening.inward })
    }
}

/// Where the flow's number stands in a signature.
const FLOW_AT: usize = 4;

/// Accounts one frame of a ring; `ahead` is how far the wall clock is ahead of the monotonic one.
#[inline]
fn account(frame: &RingFrame<'_>, expected_at: usize, inward: u32, ahead: u64, ledger: &mut Ledger, tally: &mut Tally) {
    let usual = frame
        .bytes
        .get(expected_at..)
        .filter(|payload| Signature::read(payload).is_some_and(|signature| signature.tag == inward));
    let (payload, at) = match usual {
        Some(payload) => (payload, expected_at),
        // Not where it should be: tags were added or removed, or it is not what we wait for.
        None => match FrameView::read(frame.bytes) {
            Some(view) => (view.payload(), view.payload_at),
            None => return tally.add(Counter::Foreign, 1),
        },
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
        format!("packet: receive ring of {} KiB, {kept}, stamped by the kernel's packet layer", self.bytes >> 10)
    }

    #[inline]
    fn receive(&mut self, ledger: &mut Ledger, tally: &mut Tally) -> bool {
        let (expected_at, inward) = (self.expected_at, self.inward);
        let ahead = clock::realtime().saturating_sub(clock::monotonic());
        let blocks = self.ring.receive(|frame| account(&frame, expected_at, inward, ahead, ledger, tally));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_ports_cover_the_range_of_rfc_4814() {
        assert_eq!(random_ports(0), Ports { source: 1024, destination: 1024 });
        assert_eq!(random_ports(u64::MAX), Ports { source: 65_535, destination: 65_535 });
    }
}
