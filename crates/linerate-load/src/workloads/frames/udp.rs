//! Mode `udp`: plain UDP sockets, which need no privilege. The kernel makes the headers, so it also
//! fragments, routes and counts as usual; sizes are those of the frames that carry the datagrams.
//!
//! As fast as possible, one message hands over many datagrams of one size. Stack or device segment
//! it (UDP_SEGMENT), and it may arrive as one (UDP_GRO). Then one skb carries up to 128 frames, in
//! each cost and in the socket's drop counter. So drops are counted by the gap they leave in the
//! flow's numbers, which shows the frames of each message. At a rate, each datagram is a message of
//! its own. Flows take turns per call, not per frame. Times of receipt are taken after the
//! receiving call, because the kernel stamps messages, not the datagrams in them.

use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use linerate_model::{Counter, Counters, Nanos};
use linerate_packet::frame::{FCS_BYTES, SIGNATURE_BYTES, Signature, Stamp, signature};
use linerate_sys::udp::{self, ReceiveBatch, SendBatch, Wait};
use linerate_sys::{SysError, clock};

use super::backend::{FILLING, FlowPlan, Opening, Order, Receive, Transmit};
use super::ledger::{Ledger, Received};
use super::sizes::Sizes;
use crate::workloads::datagram::number_of;
use crate::workloads::rendezvous::would_wait;
use crate::{LoadError, Result, Tally};

/// Longest wait of a send without room, so that its thread stays responsive.
const PATIENCE: Duration = Duration::from_millis(4);
/// A coalesced message is up to 64 KiB long; sixteen are 1 MiB, about a level 2 cache.
const COALESCED_BYTES: usize = 1 << 16;
const COALESCED_MESSAGES: usize = 16;

/// Prepares a paired socket for this mode.
pub(super) fn prepare(socket: &UdpSocket) -> Result<()> {
    udp::count_drops(socket)?;
    udp::coalesce(socket)?;
    Ok(udp::set_send_timeout(socket, PATIENCE)?)
}

/// Both halves need the sockets.
fn shared(sockets: &[UdpSocket]) -> Result<Vec<UdpSocket>> {
    let cloned: io::Result<Vec<UdpSocket>> = sockets.iter().map(UdpSocket::try_clone).collect();
    Ok(cloned.map_err(|cause| SysError::new("duplicate", "a paired socket", cause))?)
}

/// Sender of messages with one or many datagrams.
#[derive(Debug)]
pub(super) struct UdpTransmit {
    batch: SendBatch,
    flows: Vec<Flow>,
    turn: usize,
    outward: u32,
    sizes: Sizes,
    /// Bytes of a frame that are not payload of the datagram, check sequence included.
    overhead: usize,
    /// Datagrams per full message.
    segments: usize,
    messages: usize,
}

#[derive(Debug)]
struct Flow {
    number: u16,
    socket: UdpSocket,
    sent: u64,
}

impl UdpTransmit {
    pub(super) fn open(opening: &Opening<'_>) -> Result<Self> {
        let params = opening.params;
        let sizes = opening.sizes().clone();
        let headers = &opening.flows.first().expect("a worker has a flow").headers;
        let (smallest, largest) = (sizes.distinct()[0], sizes.largest());
        if smallest < headers.least_frame_size() {
            return Err(LoadError::Unsupported {
                what: "frame_size of `frames`".into(),
                why: format!(
                    "a frame of {smallest} B has no room for its headers and a signature of \
                        {SIGNATURE_BYTES} B: at least {} B",
                    headers.least_frame_size()
                ),
            });
        }
        let overhead = headers.signature_at() + FCS_BYTES;
        let payload = largest - overhead;
        let one_size = sizes.distinct().len() == 1;
        let most = udp::most_segments().min(udp::MAX_PAYLOAD_BYTES / payload);
        // Segments of one message have one size. At a rate each datagram leaves on its own.
        let segments = if one_size && !params.arrivals.is_open() { most } else { 1 };
        // A burst must fit one call, or it would be two bursts.
        let messages = (params.batch.max(params.burst) as usize).div_ceil(segments);
        let mut flows = Vec::new();
        for (plan, socket) in opening.flows.iter().zip(shared(opening.sockets)?) {
            if segments > 1 {
                // A frame is at most 16 KiB long.
                udp::set_segment_size(&socket, payload as u16)?;
            }
            flows.push(Flow { number: plan.number, socket, sent: 0 });
        }
        let mut batch = SendBatch::new(messages, segments * payload);
        (0..messages).for_each(|message| batch.message_mut(message).fill(FILLING));
        Ok(Self {
            batch,
            flows,
            turn: 0,
            outward: opening.outward,
            sizes,
            overhead,
            segments,
            messages,
        })
    }
}

impl Transmit for UdpTransmit {
    fn mode(&self) -> String {
        match self.segments {
            1 => format!("udp: up to {} datagrams a call (sendmmsg)", self.messages),
            n => format!("udp: gso {n} x {} messages a call (sendmmsg)", self.messages),
        }
    }

    fn batch(&self) -> u32 {
        (self.segments * self.messages) as u32
    }

    #[inline]
    fn send(&mut self, order: Order, change: &mut Counters) -> u32 {
        // Flows take turns by calls: a message belongs to one socket.
        self.turn = if self.turn + 1 < self.flows.len() { self.turn + 1 } else { 0 };
        let flow = &mut self.flows[self.turn];
        let n = order.n as usize;
        let n_messages = n.div_ceil(self.segments);
        let mut k = 0;
        for message in 0..n_messages {
            let mut length = 0;
            for _ in 0..self.segments.min(n - k) {
                let sequence = flow.sent + k as u64;
                let scheduled_ns = order.intended.0 + k as u64 * order.gap.0;
                let lateness_ns = order.now.0.saturating_sub(scheduled_ns);
                let stamp = Stamp { sequence, scheduled_ns, lateness_ns };
                signature::write(
                    &mut self.batch.message_mut(message)[length..],
                    self.outward,
                    flow.number,
                    &stamp,
                );
                length += self.sizes.of(sequence) - self.overhead;
                k += 1;
            }
            self.batch.set_length(message, length);
        }
        change[Counter::CallsSent] += 1;
        let (messages, taken) = match self.batch.send(&flow.socket, n_messages, Wait::Block) {
            // Whole messages are taken; of the last one perhaps fewer datagrams than a full message
            // has.
            Ok(messages) => (messages, (messages * self.segments).min(n)),
            Err(error) => {
                let kind =
                    if would_wait(&error) { Counter::WouldBlock } else { Counter::SendErrors };
                change[kind] += 1;
                (0, 0)
            }
        };
        let bytes = self.sizes.bytes_of(flow.sent + taken as u64) - self.sizes.bytes_of(flow.sent);
        flow.sent += taken as u64;
        change[Counter::MessagesSent] += messages as u64;
        change[Counter::DatagramsSent] += taken as u64;
        change[Counter::PayloadSent] += bytes - (self.overhead * taken) as u64;
        taken as u32
    }

    fn sent(&self, flow_idx: usize) -> (u64, u64) {
        let frames = self.flows[flow_idx].sent;
        (frames, self.sizes.bytes_of(frames) - self.overhead as u64 * frames)
    }
}

/// Receiver of messages with one or many datagrams.
#[derive(Debug)]
pub(super) struct UdpReceive {
    batch: ReceiveBatch,
    flows: Vec<Incoming>,
    /// Dropped frames reported so far.
    dropped: u64,
    /// The most frames in a message.
    most_segments: u64,
}

/// One flow's socket.
#[derive(Debug)]
struct Incoming {
    socket: UdpSocket,
    plan: FlowPlan,
    /// Last value of its drop counter: messages.
    drops: u32,
}

impl Incoming {
    /// Returns the messages dropped since the last call, if the counter is `drops` now.
    fn since(&mut self, drops: u32) -> u64 {
        u64::from(drops.wrapping_sub(std::mem::replace(&mut self.drops, drops)))
    }
}

/// Returns the frames of `messages` dropped messages, if this many of a flow's numbers are missing:
/// the rest was lost elsewhere.
fn frames_of(messages: u64, missing: u64, most_segments: u64) -> u64 {
    // At least one frame was in each dropped message, and no more than a message holds.
    missing.clamp(messages, messages * most_segments)
}

impl UdpReceive {
    pub(super) fn open(opening: &Opening<'_>) -> Result<Self> {
        let pairs = shared(opening.sockets)?.into_iter().zip(opening.flows.iter().cloned());
        let flows = pairs.map(|(socket, plan)| Incoming {
            // Drops before the load are not part of it.
            drops: udp::drops(&socket).unwrap_or(0),
            socket,
            plan,
        });
        let smallest = opening.sizes().distinct()[0];
        let headers = &opening.flows.first().expect("a worker has a flow").headers;
        let payload = smallest.saturating_sub(headers.signature_at() + FCS_BYTES).max(1);
        Ok(Self {
            batch: ReceiveBatch::new(COALESCED_MESSAGES, COALESCED_BYTES),
            flows: flows.collect(),
            dropped: 0,
            most_segments: udp::most_segments().min(udp::MAX_PAYLOAD_BYTES / payload) as u64,
        })
    }
}

impl Receive for UdpReceive {
    fn mode(&self) -> String {
        "udp: gro, stamped after the call".to_owned()
    }

    #[inline]
    fn receive(&mut self, ledger: &mut Ledger, tally: &mut Tally) -> bool {
        let mut moved = false;
        for flow in &mut self.flows {
            let messages = match self.batch.receive(&flow.socket, Wait::Never) {
                Ok(messages) => messages,
                Err(error) => {
                    tally.add(
                        if would_wait(&error) {
                            Counter::WouldBlock
                        } else {
                            Counter::ReceiveErrors
                        },
                        1,
                    );
                    0
                }
            };
            let at = Nanos(clock::monotonic());
            let number = u32::from(flow.plan.number);
            for message in (0..messages).map(|idx| self.batch.message(idx)) {
                let expected = ledger.flow(number).map_or(0, Received::next_sequence);
                // A message without coalescing reports a segment size of zero.
                let datagrams = message.visible.chunks(message.segment_bytes.max(1));
                // The counter was read when the message was queued, so its drops came before the
                // message.
                let dropped = message.drops.map_or(0, |drops| flow.since(drops));
                if dropped > 0 {
                    let first = datagrams.clone().next().and_then(Signature::read);
                    let missing =
                        // The gap in the numbers shows how many frames the dropped messages had.
                        first.map_or(0, |first| first.sequence(expected).saturating_sub(expected));
                    self.dropped += frames_of(dropped, missing, self.most_segments);
                }
                for datagram in datagrams {
                    // A repeated pairing datagram is ours and needs no account.
                    if number_of(datagram, flow.plan.pairing).is_none() {
                        ledger.arrived(datagram, datagram.len(), at, tally);
                    }
                }
            }
            tally.add(Counter::MessagesReceived, messages as u64);
            moved |= messages > 0;
        }
        moved
    }

    fn watched(&self) -> Vec<BorrowedFd<'_>> {
        self.flows.iter().map(|flow| flow.socket.as_fd()).collect()
    }

    fn drops(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    fn last_drops(&mut self, missing: &[u64]) -> u64 {
        // No message follows the last drops to report them.
        let mut dropped = self.drops();
        for (flow, missing) in self.flows.iter_mut().zip(missing) {
            let messages = udp::drops(&flow.socket).map_or(0, |drops| flow.since(drops));
            dropped += frames_of(messages, *missing, self.most_segments);
        }
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_message_is_as_many_frames_as_are_missing_but_no_more_than_fit() {
        assert_eq!(frames_of(1, 40, 128), 40);
        assert_eq!(frames_of(2, 1000, 128), 256, "the others were lost elsewhere");
        assert_eq!(frames_of(3, 0, 128), 3, "reordered ones came before");
        assert_eq!(frames_of(0, 7, 128), 0);
    }
}
