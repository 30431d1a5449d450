//! The modes `xdp`, `xdp_copy`, `xdp_generic` and `xdp_zero_copy`: AF_XDP sockets, one a transmit queue and worker, one a receive
//! queue, and a program at the receiving interface that takes only this trial's frames.
//!
//! The queueing discipline is passed by on the way out, and with it any shaper; on the way in so are ingress disciplines. Frames
//! that the device refused are known one by one, and are not among those sent though their numbers are used up. What this does not
//! see: hardware time stamps; frames are stamped when they are read, tens of nanoseconds apart in a batch.
//!
//! Measured on veth, 60 B frames: 1.1 M frames a second sent and received by one core each.

use std::os::fd::{AsFd, BorrowedFd};

use linerate_model::{Counter, Counters, Nanos};
use linerate_packet::frame::{FCS_BYTES, VLAN_BYTES};
use linerate_sys::netlink::RouteSocket;
use linerate_sys::xdp::{Copying, Filter, Match, Options, Placement, Received, XdpSocket};
use linerate_sys::{SysError, clock};

use super::Mode;
use super::backend::{FILLING, Opening, Order, Receive, Transmit, locate};
use super::filler::Filler;
use super::ledger::Ledger;
use crate::{LoadError, Tally};

/// Frames that may be under way to the device, beyond which more only cool the caches.
const N_TRANSMIT: u32 = 1024;
/// Frames that may wait to be read, over all queues: 4,096 hold a millisecond of what one core takes.
const N_RECEIVE: u32 = 8192;
const LEAST_RECEIVE: u32 = 256;
/// Frames read of one queue before the next has its turn.
const READ_AT_ONCE: u32 = 256;
/// How long a batch may wait for the kernel to take it out of the ring, in copy mode.
const TAKE_PATIENCE: Nanos = Nanos::from_millis(2);

/// How frames are copied, and where the program at the receiver runs; `None` is the best there is.
fn ways(mode: Mode) -> (Copying, Option<Placement>) {
    match mode {
        Mode::XdpCopy => (Copying::Copy, Some(Placement::Native)),
        Mode::XdpGeneric => (Copying::Copy, Some(Placement::Generic)),
        Mode::XdpZeroCopy => (Copying::ZeroCopy, Some(Placement::Native)),
        _ => (Copying::IfNeeded, None),
    }
}

fn copies(socket: &XdpSocket) -> &'static str {
    if socket.is_zero_copy() { "zero-copy" } else { "copy" }
}

/// Sends from memory shared with the kernel.
#[derive(Debug)]
pub(super) struct XdpTransmit {
    socket: XdpSocket,
    batch: u32,
    filler: Filler,
    n_flows: u64,
    sizes: super::sizes::Sizes,
    /// Frames of each flow that the device refused, and their transport payload.
    refused: Vec<(u64, u64)>,
}

impl XdpTransmit {
    /// On the transmit queue with the worker's number.
    pub(super) fn open(opening: &Opening<'_>) -> Result<Self, LoadError> {
        let params = opening.params;
        let batch = params.batch.max(params.burst);
        let options = Options {
            queue: opening.worker,
            copying: ways(params.mode).0,
            frame_bytes: (opening.sizes().largest() - FCS_BYTES) as u32,
            n_transmit: N_TRANSMIT.max(batch.next_power_of_two()),
            n_receive: 0,
        };
        let mut socket = XdpSocket::open(&opening.interface.name, options)?;
        socket.prepare(|_, frame| frame.fill(FILLING));
        let filler = Filler::new(opening, socket.n_slots() as usize)?;
        let n_flows = opening.flows.len();
        let sizes = opening.sizes().clone();
        Ok(Self { socket, batch, filler, n_flows: n_flows as u64, sizes, refused: vec![(0, 0); n_flows] })
    }

    /// Takes off what the device refused since it was looked last.
    fn count_refused(&mut self, change: &mut Counters) {
        for ordinal in self.socket.dropped() {
            let (flow, sequence) = (&mut self.refused[(ordinal % self.n_flows) as usize], ordinal / self.n_flows);
            let payload = self.sizes.of(sequence) as u64 - self.filler.overhead;
            *flow = (flow.0 + 1, flow.1 + payload);
            change[Counter::SendDrops] += 1;
            // Counters wrap, so that what was counted by an earlier call may be taken off here.
            for (counter, n) in
                [(Counter::DatagramsSent, 1), (Counter::MessagesSent, 1), (Counter::PayloadSent, payload)]
            {
                change[counter] = change[counter].wrapping_sub(n);
            }
        }
    }
}

impl Transmit for XdpTransmit {
    fn mode(&self) -> String {
        format!(
            "xdp: AF_XDP, {}, queue {}, past the queueing discipline, up to {} frames a call",
            copies(&self.socket),
            self.socket.queue(),
            self.batch
        )
    }

    fn batch(&self) -> u32 {
        self.batch
    }

    #[inline]
    fn send(&mut self, order: Order, change: &mut Counters) -> u32 {
        let (socket, filler) = (&mut self.socket, &mut self.filler);
        let mut handed = 0;
        let mut result = socket.send(order.n, |slot, frame| {
            let bytes = filler.fill(slot as usize, frame, handed, order);
            handed += 1;
            bytes
        });
        let bytes = filler.numbering.advance(handed);
        change[Counter::CallsSent] += 1;
        change[Counter::DatagramsSent] += handed;
        change[Counter::MessagesSent] += handed;
        change[Counter::PayloadSent] += bytes - filler.overhead * handed;
        let before = change[Counter::SendDrops];
        self.count_refused(change);
        // A frame counts as sent when the kernel has it; a driver without copying takes them by itself.
        let until = order.now + TAKE_PATIENCE;
        while result.is_ok() && self.socket.waiting() > 0 && !self.socket.is_zero_copy() && clock::monotonic() < until.0
        {
            result = self.socket.flush().map(|_| 0);
            change[Counter::CallsSent] += 1;
            self.count_refused(change);
        }
        change[Counter::SendErrors] += u64::from(result.is_err());
        change[Counter::WouldBlock] += u64::from(result.is_ok() && handed == 0);
        handed.saturating_sub(change[Counter::SendDrops] - before) as u32
    }

    fn sent(&self, flow_idx: usize) -> (u64, u64) {
        let (frames, bytes) = self.filler.numbering.sent(flow_idx);
        let (refused, payload) = self.refused[flow_idx];
        (frames - refused, bytes - self.filler.overhead * frames - payload)
    }
}

/// Receives from every queue of an interface.
#[derive(Debug)]
pub(super) struct XdpReceive {
    sockets: Vec<XdpSocket>,
    filter: Filter,
    frames: u32,
    /// Where a signature is expected.
    expected_at: usize,
    inward: u32,
    /// Drops told so far.
    told: u64,
}

impl XdpReceive {
    pub(super) fn open(opening: &Opening<'_>) -> Result<Self, LoadError> {
        let device = &opening.interface.name;
        if opening.n_workers > 1 {
            return Err(LoadError::Unsupported {
                what: format!("mode `xdp` with {} workers at {device}", opening.n_workers),
                why: "one worker reads every queue of the interface: say `workers = 1`, or take mode `packet`".into(),
            });
        }
        let (copying, placement) = ways(opening.params.mode);
        let headers = &opening.flows.first().expect("a worker has a flow").headers;
        let expected_at = headers.signature_at();
        let filter = attach(opening, expected_at, headers.tags.len(), placement)?;
        let n_queues = queues(device)?.max(1);
        let frames = (N_RECEIVE / n_queues.next_power_of_two()).max(LEAST_RECEIVE);
        let mut sockets = Vec::new();
        for queue in 0..n_queues {
            let frame_bytes = (opening.sizes().largest() - FCS_BYTES) as u32;
            let options = Options { queue, copying, frame_bytes, n_transmit: 0, n_receive: frames };
            match XdpSocket::open(device, options) {
                Ok(socket) => sockets.push(socket),
                // A device may have been made with more queues than it uses.
                Err(error) if queue > 0 && error.errno() == Some(NO_SUCH_QUEUE) => break,
                Err(error) => return Err(error.into()),
            }
        }
        sockets.iter().try_for_each(|socket| filter.direct(socket))?;
        Ok(Self { sockets, filter, frames, expected_at, inward: opening.inward, told: 0 })
    }

    /// Whether the program runs in the driver.
    pub(super) fn is_native(&self) -> bool {
        self.filter.placement() == Placement::Native
    }
}

/// `EINVAL`.
const NO_SUCH_QUEUE: i32 = 22;

/// The program that takes frames with this trial's tags, wherever tags of a VLAN were added or removed.
fn attach(
    opening: &Opening<'_>,
    expected_at: usize,
    n_tags: usize,
    placement: Option<Placement>,
) -> Result<Filter, SysError> {
    let device = &opening.interface.name;
    let plain_at = expected_at - n_tags * VLAN_BYTES;
    let mut places = vec![expected_at];
    places.extend((0..=2).map(|tags| plain_at + tags * VLAN_BYTES).filter(|at| *at != expected_at));
    let tags = [opening.inward, opening.outward];
    let alternatives: Vec<[Match; 1]> =
        places.iter().flat_map(|at| tags.map(|tag| [Match::exactly(*at as u16, &tag.to_be_bytes())])).collect();
    let alternatives: Vec<&[Match]> = alternatives.iter().map(<[Match; 1]>::as_slice).collect();
    // A program that may see several buffers leaves a device's MTU and offloads as they are; before Linux 5.18 there is none.
    Filter::attach(device, &alternatives, placement, true)
        .or_else(|_| Filter::attach(device, &alternatives, placement, false))
}

/// Receive queues that `device` was made with.
fn queues(device: &str) -> Result<u32, SysError> {
    let mut n_queues = 0;
    RouteSocket::open()?.links(|link| {
        if link.name == device {
            n_queues = link.rx_queues;
        }
    })?;
    Ok(n_queues)
}

impl Receive for XdpReceive {
    fn mode(&self) -> String {
        format!(
            "xdp: AF_XDP, {}, {}, {} queue(s) of {} frames, stamped when read",
            self.filter.placement().name(),
            copies(&self.sockets[0]),
            self.sockets.len(),
            self.frames
        )
    }

    #[inline]
    fn receive(&mut self, ledger: &mut Ledger, tally: &mut Tally) -> bool {
        let (expected_at, inward) = (self.expected_at, self.inward);
        let mut n = 0;
        for socket in &mut self.sockets {
            let came = Nanos(clock::monotonic());
            n += socket.receive(READ_AT_ONCE, |frame| account(frame, expected_at, inward, came, ledger, tally));
        }
        tally.add(Counter::MessagesReceived, n.into());
        n > 0
    }

    fn watched(&self) -> Vec<BorrowedFd<'_>> {
        self.sockets.iter().map(AsFd::as_fd).collect()
    }

    fn drops(&mut self) -> u64 {
        let counted = self.sockets.iter().filter_map(|socket| socket.statistics().ok());
        let so_far = counted.map(|told| told.receive_dropped + told.receive_ring_full).sum();
        let new = u64::saturating_sub(so_far, self.told);
        self.told = so_far;
        new
    }
}

#[inline]
fn account(frame: Received<'_>, expected_at: usize, inward: u32, came: Nanos, ledger: &mut Ledger, tally: &mut Tally) {
    match locate(frame.visible, expected_at, inward) {
        Some((payload, at)) => {
            ledger.arrived(payload, (frame.bytes as usize).saturating_sub(at), came, tally);
        }
        None => tally.add(Counter::Foreign, 1),
    }
}
