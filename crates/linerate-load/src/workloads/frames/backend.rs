//! Backends of modes: each sends and receives frames in one way.
//!
//! A backend is opened once per worker and end, with the state known by then ([`Opening`]). It is
//! called per *batch*, never per frame. The sending half numbers and stamps the next frames of the
//! [`Numbering`]; the receiving half passes each frame to the [`Ledger`], which counts. Frames that
//! the kernel took are *sent*, frames that a queue or driver refused are *send drops*, and frames
//! without room in the receiving socket or ring are *socket drops*. A backend that cannot
//! distinguish these names that in its mode.
//!
//! To add a mode: a file with two types (or one that is both halves), a word in `Mode::WORDS`, an
//! arm in [`super::start`].

use std::net::UdpSocket;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use linerate_model::{Counters, Nanos};
use linerate_packet::frame::{FrameView, Headers, Signature, Template, TemplateError};

use super::interface::Interface;
use super::ledger::Ledger;
use super::queues::{Board, Queues};
use super::sizes::Sizes;
use super::{FramesParams, Mode};
use crate::Tally;
use crate::workloads::datagram::Tag;

/// State with which both halves of a backend are opened.
#[derive(Debug)]
pub(super) struct Opening<'a> {
    pub(super) params: &'a FramesParams,
    /// The interface of this end.
    pub(super) interface: &'a Interface,
    /// The mode obtained: never [`Mode::Auto`].
    pub(super) mode: Mode,
    /// This worker's flows, in the order of their numbering.
    pub(super) flows: &'a [FlowPlan],
    /// The sockets that paired them, in the same order.
    pub(super) sockets: &'a [UdpSocket],
    /// Tag of sent frames.
    pub(super) outward: u32,
    /// Tag of received frames.
    pub(super) inward: u32,
    /// This worker's number: it carries the flows whose number leaves this remainder ...
    pub(super) worker: u32,
    /// ... when divided by the number of workers.
    pub(super) n_workers: u32,
    /// Seed of all random values of this worker.
    pub(super) seed: u64,
    /// Common state of this end's workers that read queues of their own.
    pub(super) queues: &'a Queues,
}

/// One flow, as frames of this end carry it.
#[derive(Clone, Debug)]
pub(super) struct FlowPlan {
    /// Number within the job.
    pub(super) number: u16,
    /// Headers of its frames.
    pub(super) headers: Headers,
    /// Tag of its pairing datagrams.
    pub(super) pairing: Tag,
}

impl Opening<'_> {
    /// Frame sizes in turn.
    pub(super) fn sizes(&self) -> &Sizes {
        self.params.frame_size.sizes()
    }

    /// A template for each flow and distinct size, sizes of a flow together, smallest first.
    pub(super) fn templates(&self) -> Result<Vec<Template>, TemplateError> {
        let sizes = self.sizes().distinct();
        let of = |flow: &FlowPlan, size: usize| {
            Template::new(&flow.headers, size, self.outward, flow.number, &[FILLING])
        };
        self.flows.iter().flat_map(|flow| sizes.iter().map(move |size| of(flow, *size))).collect()
    }
}

/// Payload bytes beyond the signature, without meaning.
pub(super) const FILLING: u8 = 0x6c;

/// Returns the payload of a received frame and its position. It is at `expected_at` if a signature
/// with the tag `inward` is there. Otherwise the headers give the position, because tags were added
/// or removed on the way, or the frame is not of this trial. `None`: the frame has no payload.
#[inline]
pub(super) fn locate(frame: &[u8], expected_at: usize, inward: u32) -> Option<(&[u8], usize)> {
    let tagged =
        |payload: &&[u8]| Signature::read(payload).is_some_and(|signature| signature.tag == inward);
    // The expected place first: parsing headers for each frame costs more than reading four bytes.
    if let Some(payload) = frame.get(expected_at..).filter(tagged) {
        return Some((payload, expected_at));
    }
    FrameView::read(frame).map(|view| (view.payload(), view.payload_at))
}

/// Order to send a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    /// Number of frames, at most the backend's batch.
    pub(super) n: u32,
    /// Scheduled departure of the first, on the monotonic clock.
    pub(super) intended: Nanos,
    /// Gap between scheduled departures.
    pub(super) gap: Nanos,
    /// Now, on the same clock.
    pub(super) now: Nanos,
}

/// Sending half of a backend.
pub(super) trait Transmit: Send {
    /// Returns the mode obtained, in words, as reports print it.
    fn mode(&self) -> String;

    /// Returns the most frames per call of [`Self::send`].
    fn batch(&self) -> u32;

    /// Sends the next `order.n` frames; returns how many the kernel took, from the first on. Counts
    /// into `change` the sent frames (`DatagramsSent`, `MessagesSent`, `PayloadSent`), its calls,
    /// and refusals. Neither allocates nor panics; waits a few milliseconds at most.
    fn send(&mut self, order: Order, change: &mut Counters) -> u32;

    /// Returns the frames sent of the `flow_idx`-th flow, and their transport payload.
    fn sent(&self, flow_idx: usize) -> (u64, u64);

    /// Returns true if frames of a closed load carry the time at which the kernel made them,
    /// instead of the order's.
    fn stamps_itself(&self) -> bool {
        false
    }
}

/// Receiving half of a backend.
pub(super) trait Receive: Send {
    /// Returns the mode obtained, in words.
    fn mode(&self) -> String;

    /// Passes received frames to `ledger` and adds calls and drops to `tally`; returns true if
    /// there were any. Never waits.
    fn receive(&mut self, ledger: &mut Ledger, tally: &mut Tally) -> bool;

    /// Returns the descriptor that becomes readable when frames have arrived.
    fn watched(&self) -> Vec<BorrowedFd<'_>>;

    /// Returns the board on which workers report frames that arrived at another worker's queue;
    /// `None` if each gets its own.
    fn board(&self) -> Option<Arc<Board>> {
        None
    }

    /// Returns the drops since the last call that no received frame has reported, by the kernel's
    /// counters.
    fn drops(&mut self) -> u64;

    /// Returns the same at the end, when each flow lacks this many of its last numbers, by its
    /// sender's count.
    fn last_drops(&mut self, missing: &[u64]) -> u64 {
        let _ = missing;
        self.drops()
    }
}

/// Backend whose halves share their sockets.
pub(super) trait Both: Transmit + Receive {}

impl<T: Transmit + Receive> Both for T {}

/// Halves of a worker's backend.
pub(super) enum Halves {
    /// Each on its own, as far as the trial needs it.
    Apart(Option<Box<dyn Transmit>>, Option<Box<dyn Receive>>),
    /// Both in one.
    Joined(Box<dyn Both>),
}

impl Halves {
    pub(super) fn transmit(&self) -> Option<&dyn Transmit> {
        match self {
            Self::Apart(transmit, _) => transmit.as_deref(),
            Self::Joined(both) => Some(&**both),
        }
    }

    pub(super) fn transmit_mut(&mut self) -> Option<&mut dyn Transmit> {
        match self {
            Self::Apart(Some(transmit), _) => Some(&mut **transmit),
            Self::Apart(None, _) => None,
            Self::Joined(both) => Some(&mut **both),
        }
    }

    pub(super) fn receive(&self) -> Option<&dyn Receive> {
        match self {
            Self::Apart(_, receive) => receive.as_deref(),
            Self::Joined(both) => Some(&**both),
        }
    }

    pub(super) fn receive_mut(&mut self) -> Option<&mut dyn Receive> {
        match self {
            Self::Apart(_, Some(receive)) => Some(&mut **receive),
            Self::Apart(_, None) => None,
            Self::Joined(both) => Some(&mut **both),
        }
    }
}
