//! Modes `xdp`, `xdp_copy`, `xdp_generic` and `xdp_zero_copy`: AF_XDP sockets, one per transmit
//! queue and worker, one per receive queue, and a program at the receiving interface that takes
//! only this trial's frames. Workers share the receive queues ([`super::queues`]).
//!
//! These modes bypass the queueing discipline, and so any shaper, on the way out, and ingress
//! disciplines on the way in. The kernel reports each frame that the device refused; it does not
//! count as sent, although its number is used up. There are no hardware time stamps: frames are
//! stamped when they are read, tens of nanoseconds apart in a batch.
//!
//! Measured on veth with 60 B frames: 1.1 M frames per second, sent and received by one core each.
//! There the sending core also does the work of the receiving queue. Polling by the receiver's core
//! (SO_PREFER_BUSY_POLL) was slower: 0.71 against 0.95.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use linerate_model::{Counter, Counters, Nanos};
use linerate_packet::frame::{FCS_BYTES, VLAN_BYTES};
use linerate_sys::netlink::RouteSocket;
use linerate_sys::xdp::{Copying, Filter, Match, Options, Placement, Received, XdpSocket};
use linerate_sys::{SysError, clock};

use super::Mode;
use super::backend::{FILLING, Opening, Order, Receive, Transmit, locate};
use super::filler::Filler;
use super::ledger::Ledger;
use super::queues::Board;
use crate::{LoadError, Result, Tally};

/// Most frames in flight to the device: more only evict the caches.
const N_TRANSMIT: u32 = 1024;
/// Most frames waiting to be read at a rate, over all queues: where none should be lost, a receiver
/// may be late.
const N_RECEIVE: u32 = 8192;
/// The same as fast as possible: the receiver uses their memory in turn, and it should stay in a
/// second-level cache. On veth, 64 B, one core (medians of 7 interleaved runs): 0.95 against 0.79 M
/// frames per second by AF_XDP, 3.6 against 3.4 by live frames, single runs 2.5 to 4.4.
const N_RECEIVE_AT_FULL_SPEED: u32 = 2048;
const LEAST_RECEIVE: u32 = 256;
/// Frames read of one queue before the next has its turn.
const READ_AT_ONCE: u32 = 256;
/// Longest wait for the kernel to take a batch out of the ring, in copy mode.
const TAKE_PATIENCE: Nanos = Nanos::from_millis(2);

/// Returns how frames are copied, and where the receiver's program runs; `None` is the best
/// available.
fn ways(opening: &Opening<'_>) -> (Copying, Option<Placement>) {
    match opening.params.mode {
        Mode::XdpCopy => (Copying::Copy, Some(Placement::Native)),
        Mode::XdpGeneric => (Copying::Copy, Some(Placement::Generic)),
        Mode::XdpZeroCopy => (Copying::ZeroCopy, Some(Placement::Native)),
        // A driver interrupts its interface for a socket without copying.
        _ if opening.interface.carries_control => (Copying::Copy, None),
        _ => (Copying::IfNeeded, None),
    }
}

fn copies(socket: &XdpSocket) -> &'static str {
    if socket.is_zero_copy() { "zero-copy" } else { "copy" }
}

/// State of a sending half beside its socket.
#[derive(Debug)]
struct Sending {
    batch: u32,
    filler: Filler,
    n_flows: u64,
    sizes: super::sizes::Sizes,
    /// Frames of each flow that the device refused, and their transport payload.
    refused: Vec<(u64, u64)>,
}

impl Sending {
    /// Fills every slot of `socket`.
    fn new(opening: &Opening<'_>, socket: &mut XdpSocket) -> Result<Self> {
        socket.prepare(|_, frame| frame.fill(FILLING));
        let n_flows = opening.flows.len();
        Ok(Self {
            batch: batch_of(opening),
            filler: Filler::new(opening, socket.n_slots() as usize)?,
            n_flows: n_flows as u64,
            sizes: opening.sizes().clone(),
            refused: vec![(0, 0); n_flows],
        })
    }

    fn mode(&self, socket: &XdpSocket) -> String {
        format!(
            "xdp: AF_XDP, {}, queue {}, past the queueing discipline, up to {} frames a call",
            copies(socket),
            socket.queue(),
            self.batch
        )
    }

    #[inline]
    fn send(&mut self, socket: &mut XdpSocket, order: Order, change: &mut Counters) -> u32 {
        let filler = &mut self.filler;
        let mut handed = 0;
        // Frames are filled in place: the ring's memory is shared with the kernel.
        let mut result = socket.send(order.n, |slot, frame| {
            let bytes = filler.fill(slot as usize, frame, handed, order);
            handed += 1;
            bytes
        });
        change[Counter::CallsSent] += 1;
        filler.taken(handed, change);
        let before = change[Counter::SendDrops];
        self.count_refused(socket, change);
        // A frame counts as sent when the kernel has it; a driver without copying takes frames by
        // itself.
        let until = order.now + TAKE_PATIENCE;
        while result.is_ok()
            && socket.waiting() > 0
            && !socket.is_zero_copy()
            // In copy mode the kernel takes frames in the call, and may leave some for the next
            // one.
            && clock::monotonic() < until.0
        {
            result = socket.flush().map(|_| 0);
            change[Counter::CallsSent] += 1;
            self.count_refused(socket, change);
        }
        change[Counter::SendErrors] += u64::from(result.is_err());
        // A full ring without an error means that the device is slower than the load.
        change[Counter::WouldBlock] += u64::from(result.is_ok() && handed == 0);
        handed.saturating_sub(change[Counter::SendDrops] - before) as u32
    }

    /// Subtracts the device's refusals since the last call.
    fn count_refused(&mut self, socket: &XdpSocket, change: &mut Counters) {
        for ordinal in socket.dropped() {
            // The numbering deals frames in turn, so the position gives flow and number.
            let (flow, sequence) =
                (&mut self.refused[(ordinal % self.n_flows) as usize], ordinal / self.n_flows);
            let payload = self.sizes.of(sequence) as u64 - self.filler.overhead;
            *flow = (flow.0 + 1, flow.1 + payload);
            change[Counter::SendDrops] += 1;
            // Counters wrap, so a subtraction of an earlier call's frames is correct here.
            for (counter, n) in [
                (Counter::DatagramsSent, 1),
                (Counter::MessagesSent, 1),
                (Counter::PayloadSent, payload),
            ] {
                change[counter] = change[counter].wrapping_sub(n);
            }
        }
    }

    fn sent(&self, flow_idx: usize) -> (u64, u64) {
        let (frames, bytes) = self.filler.sent(flow_idx);
        let (refused, payload) = self.refused[flow_idx];
        (frames - refused, bytes - payload)
    }
}

/// Frames per call.
fn batch_of(opening: &Opening<'_>) -> u32 {
    // A burst leaves in one call.
    opening.params.batch.max(opening.params.burst)
}

/// Returns the options of a socket on `queue` that sends, receives up to this many frames, or both.
fn options(opening: &Opening<'_>, queue: u32, sends: bool, n_receive: u32) -> Options {
    // The ring's size must be a power of two, and a batch must fit it.
    let n_transmit = if sends { N_TRANSMIT.max(batch_of(opening).next_power_of_two()) } else { 0 };
    Options {
        queue,
        copying: ways(opening).0,
        frame_bytes: (opening.sizes().largest() - FCS_BYTES) as u32,
        n_transmit,
        n_receive,
    }
}

/// Sender from memory shared with the kernel.
#[derive(Debug)]
pub(super) struct XdpTransmit {
    socket: XdpSocket,
    sending: Sending,
}

impl XdpTransmit {
    /// Opens the transmit queue with the worker's number.
    pub(super) fn open(opening: &Opening<'_>) -> Result<Self> {
        let options = options(opening, opening.worker, true, 0);
        let socket = XdpSocket::open(&opening.interface.name, options);
        // A device with fewer queues than workers answers with an error that names no cause.
        let mut socket = socket.map_err(|error| match error.errno() {
            Some(NO_SUCH_QUEUE) if opening.worker > 0 => too_few_queues(opening),
            _ => error.into(),
        })?;
        let sending = Sending::new(opening, &mut socket)?;
        Ok(Self { socket, sending })
    }
}

impl Transmit for XdpTransmit {
    fn mode(&self) -> String {
        self.sending.mode(&self.socket)
    }

    fn batch(&self) -> u32 {
        self.sending.batch
    }

    #[inline]
    fn send(&mut self, order: Order, change: &mut Counters) -> u32 {
        self.sending.send(&mut self.socket, order, change)
    }

    fn sent(&self, flow_idx: usize) -> (u64, u64) {
        self.sending.sent(flow_idx)
    }
}

/// Sender and receiver on the same sockets, because a queue has only one. Frames leave by the
/// worker's first queue and arrive at all of its queues.
#[derive(Debug)]
pub(super) struct XdpBoth {
    receive: XdpReceive,
    sending: Sending,
}

impl XdpBoth {
    pub(super) fn open(opening: &Opening<'_>) -> Result<Self> {
        let mut receive = XdpReceive::open_to(opening, true)?;
        let sending = Sending::new(opening, &mut receive.sockets[0])?;
        Ok(Self { receive, sending })
    }
}

impl Transmit for XdpBoth {
    fn mode(&self) -> String {
        self.sending.mode(&self.receive.sockets[0])
    }

    fn batch(&self) -> u32 {
        self.sending.batch
    }

    #[inline]
    fn send(&mut self, order: Order, change: &mut Counters) -> u32 {
        self.sending.send(&mut self.receive.sockets[0], order, change)
    }

    fn sent(&self, flow_idx: usize) -> (u64, u64) {
        self.sending.sent(flow_idx)
    }
}

impl Receive for XdpBoth {
    fn mode(&self) -> String {
        self.receive.mode()
    }

    #[inline]
    fn receive(&mut self, ledger: &mut Ledger, tally: &mut Tally) -> bool {
        self.receive.receive(ledger, tally)
    }

    fn watched(&self) -> Vec<BorrowedFd<'_>> {
        self.receive.watched()
    }

    fn board(&self) -> Option<Arc<Board>> {
        self.receive.board()
    }

    fn drops(&mut self) -> u64 {
        self.receive.drops()
    }
}

/// Receiver from the worker's share of an interface's queues.
#[derive(Debug)]
pub(super) struct XdpReceive {
    sockets: Vec<XdpSocket>,
    filter: Arc<Filter>,
    board: Option<Arc<Board>>,
    frames: u32,
    /// Expected position of a signature.
    expected_at: usize,
    inward: u32,
    /// Drops reported so far.
    reported: u64,
}

impl XdpReceive {
    pub(super) fn open(opening: &Opening<'_>) -> Result<Self> {
        Self::open_to(opening, false)
    }

    /// Opens the queues. The first queue's socket also sends, if `first_sends`.
    fn open_to(opening: &Opening<'_>, first_sends: bool) -> Result<Self> {
        let device = &opening.interface.name;
        let placement = ways(opening).1;
        let headers = &opening.flows.first().expect("a worker has a flow").headers;
        let expected_at = headers.signature_at();
        let filter = opening
            .queues
            .filter(|| attach(opening, expected_at, headers.tags.len(), placement))?;
        let n_queues = queues(device)?.max(1);
        let in_all =
            if opening.params.arrivals.is_open() { N_RECEIVE } else { N_RECEIVE_AT_FULL_SPEED };
        // The memory is shared out, so that a card with many queues does not use many times as
        // much.
        let frames = (in_all / n_queues.next_power_of_two()).max(LEAST_RECEIVE);
        let mut sockets = Vec::new();
        for queue in (opening.worker..n_queues).step_by(opening.n_workers as usize) {
            match XdpSocket::open(
                device,
                options(opening, queue, first_sends && queue == opening.worker, frames),
            ) {
                Ok(socket) => sockets.push(socket),
                // A device may have been made with more queues than it uses.
                Err(error) if queue > 0 && error.errno() == Some(NO_SUCH_QUEUE) => break,
                Err(error) => return Err(error.into()),
            }
        }
        if sockets.is_empty() {
            return Err(too_few_queues(opening));
        }
        // The program sends frames to the socket of their queue. Queues without one pass to the
        // stack.
        sockets.iter().try_for_each(|socket| filter.direct(socket))?;
        let board = (opening.n_workers > 1).then(|| opening.queues.board());
        Ok(Self {
            sockets,
            filter,
            board,
            frames,
            expected_at,
            inward: opening.inward,
            reported: 0,
        })
    }

    /// Returns true if the program runs in the driver.
    pub(super) fn is_native(&self) -> bool {
        self.filter.placement() == Placement::Native
    }
}

/// `EINVAL`.
const NO_SUCH_QUEUE: i32 = 22;

/// The error that a worker has no queue of its own.
fn too_few_queues(opening: &Opening<'_>) -> LoadError {
    let Opening { worker, n_workers, interface, .. } = opening;
    LoadError::Unsupported {
        what: format!("AF_XDP with {n_workers} workers at {}", interface.name),
        why: format!(
            "each needs a queue of its own, and it has {worker}: say `workers = {worker}`, or give \
                it more queues (`ethtool -L {}`; `queues` of a lab's link)",
            interface.name
        ),
    }
}

/// Loads the program that takes frames with this trial's tags, wherever VLAN tags were added or
/// removed.
fn attach(
    opening: &Opening<'_>,
    expected_at: usize,
    n_tags: usize,
    placement: Option<Placement>,
) -> Result<Filter, SysError> {
    let device = &opening.interface.name;
    let plain_at = expected_at - n_tags * VLAN_BYTES;
    let mut places = vec![expected_at];
    // A device may have removed or added tags, so the signature may be at another place.
    places.extend((0..=2).map(|tags| plain_at + tags * VLAN_BYTES).filter(|at| *at != expected_at));
    let tags = [opening.inward, opening.outward];
    let alternatives: Vec<[Match; 1]> = places
        .iter()
        .flat_map(|at| tags.map(|tag| [Match::exactly(*at as u16, &tag.to_be_bytes())]))
        .collect();
    let alternatives: Vec<&[Match]> = alternatives.iter().map(<[Match; 1]>::as_slice).collect();
    // A program that may see several buffers leaves a device's MTU and offloads as they are; before
    // Linux 5.18 there is none.
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
        let whose = if self.board.is_some() { " a worker" } else { "" };
        format!(
            "xdp: AF_XDP, {}, {}, {} queue(s){whose} of {} frames, stamped when read",
            self.filter.placement().name(),
            copies(&self.sockets[0]),
            self.sockets.len(),
            self.frames
        )
    }

    fn board(&self) -> Option<Arc<Board>> {
        self.board.clone()
    }

    #[inline]
    fn receive(&mut self, ledger: &mut Ledger, tally: &mut Tally) -> bool {
        let (expected_at, inward) = (self.expected_at, self.inward);
        let mut n = 0;
        for socket in &mut self.sockets {
            let came = Nanos(clock::monotonic());
            n += socket.receive(READ_AT_ONCE, |frame| {
                account(frame, expected_at, inward, came, ledger, tally)
            });
        }
        tally.add(Counter::MessagesReceived, n.into());
        n > 0
    }

    fn watched(&self) -> Vec<BorrowedFd<'_>> {
        self.sockets.iter().map(AsFd::as_fd).collect()
    }

    fn drops(&mut self) -> u64 {
        let counted = self.sockets.iter().filter_map(|socket| socket.statistics().ok());
        let so_far = counted.map(|counts| counts.receive_dropped + counts.receive_ring_full).sum();
        // The counters are totals since the socket was opened.
        let new = u64::saturating_sub(so_far, self.reported);
        self.reported = so_far;
        new
    }
}

#[inline]
fn account(
    frame: Received<'_>,
    expected_at: usize,
    inward: u32,
    came: Nanos,
    ledger: &mut Ledger,
    tally: &mut Tally,
) {
    match locate(frame.visible, expected_at, inward) {
        Some((payload, at)) => {
            ledger.arrived(payload, (frame.bytes as usize).saturating_sub(at), came, tally);
        }
        None => tally.add(Counter::Foreign, 1),
    }
}
