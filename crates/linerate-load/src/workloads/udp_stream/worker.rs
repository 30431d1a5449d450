//! Worker: sends on its flows in turn, receives from them, and exchanges the totals over its
//! companion.

use std::collections::BTreeMap;

use linerate_model::{Counter, FlowReport, Load, Nanos, Side};
use linerate_sys::clock;
use linerate_sys::readiness::{Interest, Readiness};
use linerate_sys::socket::{self, Buffer};
use linerate_sys::udp::{self, Wait};

use super::UdpStreamParams;
use super::flow::Flow;
use super::receiver::{Next, Receiver};
use super::sender::{Pools, Sender};
use crate::workloads::arrivals::share;
use crate::workloads::companion::{Companion, START};
use crate::workloads::datagram::Purpose;
use crate::workloads::pairing::Paired;
use crate::workloads::parameters::Direction;
use crate::workloads::placement::{Waiting, deal as deal_flows};
use crate::workloads::socket_options;
use crate::{Due, Progress, Result, Secret, Tally, Times, Worker, Workers};

/// A paced sender sleeps until this long before the next departure and then spins. One wake-up in a
/// thousand is later than that.
const DEPARTURE_SPIN: Nanos = Nanos(100_000);
/// Shorter waits of a sender do not pay for a system call or a wake-up.
const SHORTEST_WAIT: Nanos = Nanos::from_millis(2);
/// A receiver sleeps until this long before the end of its wait. It checks the clock about when its
/// interval ends, and meanwhile leaves the CPU to a sender beside it. With a spin over the last
/// millisecond, it kept the sender off a shared CPU for that long.
const WAKE_EARLY: Nanos = Nanos(50_000);

/// Time for which a lone receiver lets datagrams gather. A wake-up for each datagram costs the
/// sender, who has to perform it, more than the datagram itself: over veth 0.33 M/s of 64 B with
/// wake-ups, 0.59 M/s without, for less CPU.
const GATHER: Nanos = Nanos(50_000);

/// Silence after which no more datagrams come from a sender that has sent its amount: more than a
/// bloated queue holds, as that would keep delivering.
const QUIET: Nanos = Nanos::from_millis(500);

struct UdpStreamWorker {
    number: u32,
    flows: Vec<Flow>,
    turn: usize,
    sender: Option<Sender>,
    receiver: Option<Receiver>,
    companion: Companion,
    readiness: Readiness,
    wait: Waiting,
    load: Load,
    stopped: bool,
    /// Size of the receive buffers, as the kernel counts it.
    buffer_bytes: usize,
    /// Action before the next receive of a lone flow that only receives.
    next: Next,
    /// Strangers seen during pairing, not yet counted.
    foreign: u64,
    /// True once the other end knows the start of this one's first interval.
    start_told: bool,
    /// True if the load has an end of its own.
    ends_early: bool,
    /// Time of the last arrival.
    arrived_at: Option<Nanos>,
    /// Time from which the peer is known to have sent its amount.
    peer_ended_at: Option<Nanos>,
}

/// Deals the flows of one end to its workers.
pub(super) fn deal(
    params: &UdpStreamParams,
    end: Side,
    secret: Secret,
    paired: Paired,
) -> Result<Workers> {
    let purposes = match end {
        Side::Active => [Purpose::Forward, Purpose::Backward],
        Side::Passive => [Purpose::Backward, Purpose::Forward],
    };
    let flow = |paired| Flow::new(params, secret, purposes, paired);
    let pools = Pools::default();
    let shares = deal_flows(paired.sockets, params.placement.workers());
    let mut workers = Workers::new();
    for ((number, own), stream) in (0_u32..).zip(shares).zip(paired.companions) {
        let flows = own.into_iter().map(flow).collect();
        let companion = Companion::new(stream)?;
        let foreign = if number == 0 { paired.foreign } else { 0 };
        workers.push(Box::new(UdpStreamWorker::new(
            (params, &pools),
            end,
            number,
            flows,
            companion,
            foreign,
        )?));
    }
    Ok(workers)
}

impl UdpStreamWorker {
    fn new(
        (params, pools): (&UdpStreamParams, &Pools),
        end: Side,
        number: u32,
        flows: Vec<Flow>,
        companion: Companion,
        foreign: u64,
    ) -> Result<Self> {
        let sends = params.direction == Direction::Both
            || (params.direction == Direction::Tx) == (end == Side::Active);
        let receives = params.direction == Direction::Both || !sends;
        let wait = if params.placement.wait == Waiting::Spin || receives {
            Wait::Never
        } else {
            Wait::Block
        };
        let sender = sends.then(|| Sender::new(params, &flows, (wait, pools))).transpose()?;
        let readiness = Readiness::new()?;
        // Watched only if the worker waits for several sockets: each arrival at a watched socket
        // costs a callback.
        let watched =
            receives && params.placement.wait == Waiting::Block && (sends || flows.len() > 1);
        for (token, flow) in (0_u64..).zip(&flows).filter(|_| watched) {
            readiness.add(&flow.socket, token, Interest::Readable)?;
        }
        let rate = params
            .arrivals
            .rate
            .zip(sender.as_ref())
            .map(|(rate, sender)| rate.per_second(sender.datagram_bytes));
        let mut buffers = flows.iter().map(|flow| socket::buffer(&flow.socket, Buffer::Receive));
        let buffer_bytes =
            buffers.try_fold(usize::MAX, |least, bytes| bytes.map(|bytes| least.min(bytes)))?;
        Ok(Self {
            number,
            load: share(rate, params.arrival(), 1, flows.len(), params.placement.streams()),
            receiver: receives.then(|| Receiver::new(params)),
            sender,
            flows,
            turn: 0,
            companion,
            readiness,
            wait: params.placement.wait,
            stopped: !sends,
            buffer_bytes,
            next: Next::Wait,
            foreign,
            start_told: false,
            ends_early: params.amount.is_given(),
            arrived_at: None,
            peer_ended_at: None,
        })
    }

    /// Sends a batch on the next flow, if any is due.
    #[inline]
    fn send(&mut self, due: Due, now: Nanos, tally: &mut Tally) -> bool {
        let Some(sender) = self.sender.as_mut().filter(|_| due.operations > 0 && !self.stopped)
        else {
            return false;
        };
        self.turn = if self.turn + 1 < self.flows.len() { self.turn + 1 } else { 0 };
        sender.send(&mut self.flows[self.turn], due, now, tally)
    }

    /// Returns true for a lone flow that only receives, and may sleep.
    fn is_alone(&self) -> bool {
        self.flows.len() == 1 && self.stopped && self.wait == Waiting::Block
    }

    /// Receives from every flow once. With a lone flow the worker waits before the receive, or in
    /// it.
    #[inline]
    fn receive(&mut self, due: Due, now: Nanos, tally: &mut Tally) -> bool {
        let alone = self.is_alone();
        let Some(receiver) = &mut self.receiver else { return false };
        if alone && self.next == Next::Gather {
            clock::sleep_until((now + GATHER).min(due.until).0, 0);
        }
        let wait = if alone && self.next == Next::Wait { Wait::Block } else { Wait::Never };
        let mut moved = false;
        for flow in &mut self.flows {
            moved |= receiver.receive(flow, wait, tally);
        }
        self.next = receiver.next(self.buffer_bytes);
        moved
    }

    /// Waits for the next event, in the requested mode, after a step that moved nothing.
    fn rest(&mut self, due: Due, now: Nanos) {
        let left = due.until.since(now);
        let shortest = if self.stopped { WAKE_EARLY } else { SHORTEST_WAIT };
        match (&self.receiver, self.wait) {
            (_, Waiting::Spin) => {}
            (None, Waiting::Block) if due.operations == 0 => {
                clock::sleep_until(due.until.0, DEPARTURE_SPIN.0)
            }
            // The worker has waited in the call, and its socket is not watched.
            (Some(_), Waiting::Block) if self.is_alone() => {}
            (Some(_), Waiting::Block)
                if left > shortest && (due.operations == 0 || self.stopped) =>
            {
                self.readiness.is_ready_within(left.since(WAKE_EARLY).into());
            }
            _ => {}
        }
    }

    fn has_ended(&self, now: Nanos) -> bool {
        let sent_all = self.stopped;
        // The trial has no drain for a load that ends by itself: what does not come was lost.
        let is_quiet = self.peer_ended_at.is_some_and(|ended| {
            let moved = self.arrived_at.map_or(ended, |arrived| arrived.max(ended));
            self.ends_early && now.since(moved) > QUIET
        });
        let received_all =
            self.receiver.is_none() || is_quiet || self.flows.iter().all(Flow::is_complete);
        let forsaken = self.companion.is_gone()
            && (self.receiver.is_none() || self.flows.iter().any(|flow| flow.peer_sent.is_none()));
        (sent_all && received_all) || forsaken
    }
}

impl Worker for UdpStreamWorker {
    fn load(&self) -> Load {
        self.load
    }

    fn times(&self) -> Times {
        Times { gap: self.sender.is_some(), ..Times::NONE }
    }

    fn step(&mut self, due: Due, tally: &mut Tally) -> Progress {
        let now = Nanos(clock::monotonic());
        if self.foreign > 0 {
            tally.add(Counter::Foreign, std::mem::take(&mut self.foreign));
        }
        if !self.start_told
            && let Some(start) = tally.departures.origin().filter(|_| self.sender.is_some())
        {
            self.start_told = true;
            self.companion.tell(START, start.0);
        }
        if self.receiver.is_some() && tally.arrivals.awaits_origin() {
            self.companion.look_at_once();
        }
        let (flows, arrivals) = (&mut self.flows, &mut tally.arrivals);
        self.companion.look(now, |number, sent| {
            if number == START {
                arrivals.begin(Nanos(sent));
            } else if let Some(flow) = flows.iter_mut().find(|flow| flow.number == number) {
                flow.peer_sent = Some(sent);
            }
        });
        if self.peer_ended_at.is_none() && self.flows.iter().all(|flow| flow.peer_sent.is_some()) {
            self.peer_ended_at = Some(now);
        }
        let sent = self.send(due, now, tally);
        if self.sender.as_ref().is_some_and(Sender::is_done) {
            self.stop_sending();
        }
        let received = self.receive(due, now, tally);
        if received {
            self.arrived_at = Some(now);
        }
        if sent || received {
            return Progress::Moved;
        }
        if self.has_ended(now) {
            return Progress::Ended;
        }
        self.rest(due, now);
        Progress::Idle
    }

    fn held_bytes(&self) -> Option<u64> {
        socket_options::held(self.flows.iter().map(|flow| &flow.socket))
    }

    fn may_end_early(&self) -> bool {
        self.ends_early
    }

    fn has_sent_all(&self) -> bool {
        self.stopped && self.sender.is_some()
    }

    fn quiet_since(&self) -> Option<Nanos> {
        self.peer_ended_at.and(self.arrived_at).filter(|_| self.ends_early && self.stopped)
    }

    fn stop_sending(&mut self) {
        if !std::mem::replace(&mut self.stopped, true) {
            self.flows.iter().for_each(|flow| self.companion.tell(flow.number, flow.next_number));
        }
    }

    fn finish(&mut self) -> Vec<FlowReport> {
        self.stop_sending();
        let mut modes = BTreeMap::new();
        if let Some(sender) = &self.sender {
            modes.insert("send".to_owned(), sender.mode());
            modes.insert("datagram_size".to_owned(), format!("{} B", sender.datagram_bytes));
        }
        if let Some(receiver) = &self.receiver {
            modes.insert("receive".to_owned(), receiver.mode(self.wait.name()));
        }
        let coalesced = self.receiver.as_ref().map(Receiver::is_coalesced);
        let report = |flow| report(flow, self.number, coalesced, &modes);
        self.flows.drain(..).map(report).collect()
    }
}

/// Returns the report of `flow`, carried by worker `worker`. `coalesced` is `None` at an end that
/// does not receive.
fn report(
    mut flow: Flow,
    worker: u32,
    coalesced: Option<bool>,
    modes: &BTreeMap<String, String>,
) -> FlowReport {
    if let Some(coalesced) = coalesced {
        let drops = udp::drops(&flow.socket).map_or(0, |drops| flow.note_drops(drops));
        flow.counters[Counter::SocketDrops] += drops;
        let tail = flow.peer_sent.map_or(0, |sent| flow.dropped_before(sent, coalesced));
        flow.counters[Counter::SocketDroppedDatagrams] += tail;
    }
    socket_options::at_end(&mut flow.options, &flow.socket);
    FlowReport {
        flow: flow.number,
        worker,
        local: socket_options::name_of(flow.socket.local_addr()),
        remote: socket_options::name_of(flow.socket.peer_addr()),
        counters: flow.counters,
        next_sequence: if coalesced.is_some() { flow.sequence.next() } else { flow.next_number },
        socket: flow.options,
        modes: modes.clone(),
        ..FlowReport::default()
    }
}
