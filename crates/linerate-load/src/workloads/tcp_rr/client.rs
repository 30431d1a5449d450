//! Active end: starts requests, matches responses in order, and times them.

use std::collections::BTreeMap;
use std::net::TcpStream;

use linerate_model::{Counter, FlowReport, FlowTcp, Load, Nanos};
use linerate_sys::clock;

use super::TcpRrParams;
use crate::workloads::arrivals::{late_starts, mean_gap};
use crate::workloads::byte_flow::{ByteFlow, CHUNK_BYTES, modes};
use crate::workloads::placement::deal as deal_flows;
use crate::workloads::rest::Rest;
use crate::workloads::socket_options;
use crate::{Due, Progress, Result, Start, Tally, Times, Worker, Workers};

/// Flow with its outstanding requests, oldest first, in a ring of `depth` places.
#[derive(Debug)]
struct Flow {
    bytes: ByteFlow,
    ring: Box<[Start]>,
    oldest: usize,
    outstanding: usize,
    /// Bytes received of the oldest request's response.
    come: usize,
}

struct TcpRrClient {
    number: u32,
    flows: Vec<Flow>,
    turn: usize,
    request_bytes: usize,
    response_bytes: usize,
    filling: Box<[u8]>,
    buffer: Box<[u8]>,
    load: Load,
    mean_gap: Option<Nanos>,
    /// True if this is the only flow, which waits in its own calls.
    alone: bool,
    rest: Rest,
    stopped: bool,
    modes: BTreeMap<String, String>,
}

/// Deals the connections to workers.
pub(super) fn deal(params: &TcpRrParams, streams: Vec<TcpStream>) -> Result<Workers> {
    let TcpRrParams { depth, exchange, arrivals, placement, options } = params;
    let open = arrivals.is_open();
    let mut workers = Workers::new();
    for (number, own) in (0_u32..).zip(deal_flows(streams, placement.workers())) {
        let alone = placement.is_alone(own.len(), open);
        let rest =
            Rest::new(placement.wait, own.iter().map(|(_, stream)| stream).filter(|_| !alone))?;
        let load = arrivals.requests(*depth, own.len(), placement.streams());
        let mut flows = Vec::with_capacity(own.len());
        for (number, stream) in own {
            flows.push(Flow {
                bytes: ByteFlow::new(number, stream, options, alone)?,
                ring: vec![Start::default(); *depth as usize].into_boxed_slice(),
                oldest: 0,
                outstanding: 0,
                come: 0,
            });
        }
        let request_bytes = exchange.request_bytes();
        workers.push(Box::new(TcpRrClient {
            number,
            flows,
            turn: 0,
            request_bytes,
            response_bytes: exchange.response_bytes(),
            filling: vec![b'q'; CHUNK_BYTES.min(request_bytes * *depth as usize)]
                .into_boxed_slice(),
            buffer: vec![0; CHUNK_BYTES].into_boxed_slice(),
            load,
            mean_gap: mean_gap(load),
            alone,
            rest,
            stopped: false,
            modes: modes(placement.wait, alone, open),
        }));
    }
    Ok(workers)
}

impl Flow {
    #[inline]
    fn start(&mut self, started: Start, request_bytes: usize) {
        let depth = self.ring.len();
        let mut place = self.oldest + self.outstanding;
        if place >= depth {
            place -= depth;
        }
        self.ring[place] = started;
        self.outstanding += 1;
        self.bytes.owed += request_bytes;
    }

    /// Accounts `n` received bytes; returns true if they completed a response.
    #[inline]
    fn take(&mut self, n: usize, response_bytes: usize, tally: &mut Tally) -> bool {
        self.come += n;
        // The clock is read only where a response is complete.
        if self.come < response_bytes || self.outstanding == 0 {
            return false;
        }
        let now = Nanos(clock::monotonic());
        while self.come >= response_bytes && self.outstanding > 0 {
            let started = self.ring[self.oldest];
            self.come -= response_bytes;
            self.outstanding -= 1;
            self.oldest = if self.oldest + 1 < self.ring.len() { self.oldest + 1 } else { 0 };
            tally.answered(started, now);
            self.bytes.count(tally, Counter::Transactions, 1);
        }
        true
    }

    /// Returns the start of each outstanding request.
    fn open(&self) -> impl Iterator<Item = Start> + '_ {
        (0..self.outstanding).map(|k| self.ring[(self.oldest + k) % self.ring.len()])
    }

    /// Counts the outstanding requests of a connection that has ended as lost.
    fn give_up(&mut self, tally: &mut Tally) {
        let now = Nanos(clock::monotonic());
        self.open().for_each(|start| tally.lost(start, now));
        self.bytes.count(tally, Counter::TransactionsLost, self.outstanding as u64);
        self.outstanding = 0;
    }
}

impl TcpRrClient {
    /// Starts due requests: on each flow in turn, as many as its depth has room for.
    #[inline]
    fn start(&mut self, due: Due, tally: &mut Tally) {
        let now = Nanos(clock::monotonic());
        let mut left = u64::from(due.operations);
        let mut intended = due.intended;
        for _ in 0..self.flows.len() {
            self.turn = if self.turn + 1 < self.flows.len() { self.turn + 1 } else { 0 };
            let flow = &mut self.flows[self.turn];
            let room = if flow.bytes.ended { 0 } else { flow.ring.len() - flow.outstanding };
            let n = left.min(room as u64);
            for _ in 0..n {
                // A closed load has no schedule: a request is due when there is room for it.
                let meant = if self.mean_gap.is_some() { intended } else { now };
                flow.start(Start { at: now, intended: meant }, self.request_bytes);
                tally.started(meant);
                intended = intended + due.gap;
            }
            if n > 0 {
                flow.bytes.count(tally, Counter::MessagesSent, n);
            }
            left -= n;
            if left == 0 {
                break;
            }
        }
        if let Some(gap) = self.mean_gap {
            tally.defer(left as u32);
            let started = u64::from(due.operations) - left;
            tally.add(Counter::LateStarts, late_starts(now, due.intended, gap, started));
        }
    }
}

impl Worker for TcpRrClient {
    fn load(&self) -> Load {
        self.load
    }

    fn times(&self) -> Times {
        Times::REQUESTS
    }

    fn step(&mut self, due: Due, tally: &mut Tally) -> Progress {
        if due.operations > 0 && !self.stopped {
            self.start(due, tally);
        }
        let mut moved = false;
        let mut busy = false;
        for flow in self.flows.iter_mut().filter(|flow| !flow.bytes.ended) {
            flow.bytes.flush(&self.filling, tally);
            if flow.outstanding > 0 {
                let n = flow.bytes.receive(&mut self.buffer, tally);
                moved |= n > 0;
                if n > 0 && flow.take(n, self.response_bytes, tally) {
                    continue;
                }
            }
            if flow.bytes.ended {
                flow.bytes.count(tally, Counter::ConnectionsFailed, 1);
                flow.give_up(tally);
            }
            busy |= flow.outstanding > 0;
        }
        if moved {
            return Progress::Moved;
        }
        if self.flows.iter().all(|flow| flow.bytes.ended) || (self.stopped && !busy) {
            return Progress::Ended;
        }
        if !self.alone {
            self.rest.until(due);
        }
        Progress::Idle
    }

    fn observe(&mut self, flows: &mut Vec<FlowTcp>) {
        let state = |flow: &Flow| Some(FlowTcp { flow: flow.bytes.number, tcp: flow.bytes.tcp()? });
        flows.extend(self.flows.iter().filter_map(state));
    }

    fn held_bytes(&self) -> Option<u64> {
        socket_options::held(self.flows.iter().map(|flow| &flow.bytes.stream))
    }

    fn n_flows(&self) -> usize {
        self.flows.len()
    }

    fn stop_sending(&mut self) {
        self.stopped = true;
    }

    fn leave_open(&mut self, now: Nanos, tally: &mut Tally) {
        self.flows.iter().flat_map(Flow::open).for_each(|start| tally.left_open(start, now));
    }

    fn finish(&mut self) -> Vec<FlowReport> {
        for flow in &self.flows {
            flow.bytes.close_sending();
        }
        let (worker, modes) = (self.number, &self.modes);
        self.flows.drain(..).map(|flow| flow.bytes.report(worker, modes)).collect()
    }
}
