//! Modes `packet_ring` and `packet_ring_bypass`: frames made in a send ring that the kernel reads,
//! one call per batch.
//!
//! Received as in [`super::packet`]. The kernel reads a frame in its slot until the last user frees
//! it. Some devices (a tap, a delay on the host) free a frame too early, and then send the bytes of
//! later frames, which the receiver counts as lost and doubled. Therefore `packet` and `auto` use
//! `sendmmsg`, which copies.

use linerate_model::{Counter, Counters};
use linerate_packet::frame::FCS_BYTES;
use linerate_sys::packet::{QueueingDiscipline, SendRing, Stopped};

use super::backend::{FILLING, Opening, Order, Transmit};
use super::filler::Filler;
use super::packet::{PAST, THROUGH, discipline};
use crate::Result;

/// Frames in flight: enough for a receiver's late CPU, and for a queue of a thousand
/// (`txqueuelen`).
const SLOTS: usize = 2048;

/// Sender from a ring.
#[derive(Debug)]
pub(super) struct RingTransmit {
    ring: SendRing,
    discipline: QueueingDiscipline,
    batch: u32,
    filler: Filler,
}

impl RingTransmit {
    pub(super) fn open(opening: &Opening<'_>) -> Result<Self> {
        let params = opening.params;
        let discipline = discipline(opening.mode);
        // A burst leaves in one call.
        let batch = params.batch.max(params.burst);
        let frame_bytes = opening.sizes().largest() - FCS_BYTES;
        let mut ring = SendRing::open(&opening.interface.name, SLOTS, frame_bytes, discipline)?;
        // Filled once: frames of a slot differ in their heads only.
        ring.prepare(|_, frame| frame.fill(FILLING));
        let filler = Filler::new(opening, ring.n_slots())?;
        Ok(Self { ring, discipline, batch, filler })
    }
}

impl Transmit for RingTransmit {
    fn mode(&self) -> String {
        let (mode, way) = match self.discipline {
            QueueingDiscipline::Pass => ("packet_ring", THROUGH),
            QueueingDiscipline::Bypass => ("packet_ring_bypass", PAST),
        };
        let (batch, slots) = (self.batch, self.ring.n_slots());
        format!("{mode}: {way}, up to {batch} frames a call from a ring of {slots} (TPACKET_V2)")
    }

    fn batch(&self) -> u32 {
        self.batch
    }

    #[inline]
    fn send(&mut self, order: Order, change: &mut Counters) -> u32 {
        let (filler, mut ahead) = (&mut self.filler, 0);
        let sent = self.ring.send(order.n, |slot, frame| {
            let length = filler.fill(slot, frame, ahead, order);
            ahead += 1;
            length
        });
        change[Counter::CallsSent] += 1;
        if let Some(why) = sent.stopped {
            change[counter(why)] += 1;
        }
        self.filler.taken(u64::from(sent.taken), change);
        sent.taken
    }

    fn sent(&self, flow_idx: usize) -> (u64, u64) {
        self.filler.sent(flow_idx)
    }
}

/// Returns the error of a call that took fewer frames than requested. The other frames are unsent,
/// and are sent later under the same number.
fn counter(why: Stopped) -> Counter {
    match why {
        Stopped::Refused => Counter::SendDrops,
        Stopped::NoRoom => Counter::WouldBlock,
        Stopped::WrongFormat | Stopped::Failed(_) => Counter::SendErrors,
    }
}
