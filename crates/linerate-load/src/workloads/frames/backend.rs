//! What a mode is: one way to send frames and one way to receive them.
//!
//! A backend is opened once per worker and end, with everything that is known by then
//! ([`Opening`]). It is called per *batch*, never per frame: sending, it numbers and stamps what
//! the [`Numbering`] says is next; receiving, it shows each frame to the [`Ledger`], which counts.
//! What the kernel took is *sent*; what a queue or driver refused is a *send drop*; what the
//! receiving socket or ring had no room for is a *socket drop*. A backend that cannot tell one of
//! these apart says so in its mode.
//!
//! To add a mode: a file with two types (or one that is both halves), a word in `Mode` and `MODES`,
//! an arm in [`super::start`].

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

/// What both halves of a backend are opened with.
#[derive(Debug)]
pub(super) struct Opening<'a> {
    pub(super) params: &'a FramesParams,
    /// The interface of this end.
    pub(super) interface: &'a Interface,
    /// The mode obtained: never [`Mode::Auto`].
    pub(super) mode: Mode,
    /// This worker's flows, in the order of their numbering.
    pub(super) flows: &'a [FlowPlan],
    /// The sockets they were paired by, in the same order.
    pub(super) sockets: &'a [UdpSocket],
    /// Tag of what this end sends.
    pub(super) outward: u32,
    /// Tag of what it receives.
    pub(super) inward: u32,
    /// This worker's number: it carries the flows whose number leaves this remainder ...
    pub(super) worker: u32,
    /// ... when divided by the number of workers.
    pub(super) n_workers: u32,
    /// Seed of what is random at this worker.
    pub(super) seed: u64,
    /// What the workers of this end have in common that read queues of their own.
    pub(super) queues: &'a Queues,
}

/// One flow, as frames of this end bear it.
#[derive(Clone, Debug)]
pub(super) struct FlowPlan {
    /// Number within the job.
    pub(super) number: u16,
    /// Headers of its frames.
    pub(super) headers: Headers,
    /// What its pairing datagrams bear.
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

/// Payload bytes beyond the signature; what they are means nothing.
pub(super) const FILLING: u8 = 0x6c;

/// The payload of a received frame, and where it begins: at `expected_at` if a signature with the
/// tag `inward` is there, else where its headers say, because tags were added or removed on the way
/// or it is not what is waited for. `None`: it has no payload.
#[inline]
pub(super) fn locate(frame: &[u8], expected_at: usize, inward: u32) -> Option<(&[u8], usize)> {
    let tagged =
        |payload: &&[u8]| Signature::read(payload).is_some_and(|signature| signature.tag == inward);
    if let Some(payload) = frame.get(expected_at..).filter(tagged) {
        return Some((payload, expected_at));
    }
    FrameView::read(frame).map(|view| (view.payload(), view.payload_at))
}

/// A batch to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    /// How many frames, at most the backend's batch.
    pub(super) n: u32,
    /// When the first was to depart, on the monotonic clock.
    pub(super) intended: Nanos,
    /// How much later each next was.
    pub(super) gap: Nanos,
    /// Now, on the same clock.
    pub(super) now: Nanos,
}

/// The sending half.
pub(super) trait Transmit: Send {
    /// The mode obtained, in words, as reports print it.
    fn mode(&self) -> String;

    /// The most frames per call of [`Self::send`].
    fn batch(&self) -> u32;

    /// Sends the next `order.n` frames; returns how many the kernel took, from the first on. Counts
    /// into `change` what it sent (`DatagramsSent`, `MessagesSent`, `PayloadSent`), its calls, and
    /// what was refused. Neither allocates nor panics; waits a few milliseconds at most.
    fn send(&mut self, order: Order, change: &mut Counters) -> u32;

    /// Frames sent of the `flow_idx`-th flow, and their transport payload.
    fn sent(&self, flow_idx: usize) -> (u64, u64);

    /// Whether frames of a closed load carry the time at which they were made, which nobody here
    /// knows, instead of the order's.
    fn stamps_itself(&self) -> bool {
        false
    }
}

/// The receiving half.
pub(super) trait Receive: Send {
    /// The mode obtained, in words.
    fn mode(&self) -> String;

    /// Shows what has come to `ledger` and counts into `tally` calls and drops; returns whether
    /// there was anything. Never waits.
    fn receive(&mut self, ledger: &mut Ledger, tally: &mut Tally) -> bool;

    /// What becomes readable when something has come.
    fn watched(&self) -> Vec<BorrowedFd<'_>>;

    /// Where workers tell each other of frames that came in at another one's queue; `None`: each
    /// gets its own.
    fn board(&self) -> Option<Arc<Board>> {
        None
    }

    /// Drops since the last call that no received frame has told, by the kernel's counters.
    fn drops(&mut self) -> u64;

    /// The same at the end, when each flow lacks so many of its last numbers, by what its sender
    /// told.
    fn last_drops(&mut self, missing: &[u64]) -> u64 {
        let _ = missing;
        self.drops()
    }
}

/// A backend whose halves share what they send and receive by.
pub(super) trait Both: Transmit + Receive {}

impl<T: Transmit + Receive> Both for T {}

/// The halves of a worker's backend.
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
