//! Passive end: a response for each complete request.

use std::collections::BTreeMap;

use linerate_model::{Counter, FlowReport, FlowTcp};

use super::TcpRrParams;
use crate::workloads::byte_flow::{ByteFlow, CHUNK_BYTES, modes};
use crate::workloads::placement::deal as deal_flows;
use crate::workloads::rendezvous::Arrivals;
use crate::workloads::rest::Rest;
use crate::workloads::socket_options;
use crate::{Due, Progress, Result, Tally, Times, Worker, Workers};

struct Flow {
    bytes: ByteFlow,
    /// Bytes of an incomplete request.
    come: usize,
}

struct TcpRrServer {
    number: u32,
    flows: Vec<Flow>,
    request_bytes: usize,
    response_bytes: usize,
    filling: Box<[u8]>,
    buffer: Box<[u8]>,
    alone: bool,
    rest: Rest,
    foreign: u64,
    modes: BTreeMap<String, String>,
}

/// Deals the connections to workers.
pub(super) fn deal(params: &TcpRrParams, arrivals: Arrivals) -> Result<Workers> {
    let TcpRrParams { exchange, placement, options, .. } = params;
    let mut foreign = arrivals.foreign;
    let mut workers = Workers::new();
    for (number, own) in (0_u32..).zip(deal_flows(arrivals.streams, placement.workers())) {
        // A lone flow waits in its own call, so it is not watched.
        let alone = placement.is_alone(own.len(), false);
        let rest =
            Rest::new(placement.wait, own.iter().map(|(_, stream)| stream).filter(|_| !alone))?;
        let flow = |(number, stream)| {
            Ok(Flow { bytes: ByteFlow::new(number, stream, options, alone)?, come: 0 })
        };
        workers.push(Box::new(TcpRrServer {
            number,
            flows: own.into_iter().map(flow).collect::<Result<Vec<_>>>()?,
            request_bytes: exchange.request_bytes(),
            response_bytes: exchange.response_bytes(),
            filling: vec![b'a'; CHUNK_BYTES].into_boxed_slice(),
            buffer: vec![0; CHUNK_BYTES].into_boxed_slice(),
            alone,
            rest,
            foreign: std::mem::take(&mut foreign),
            modes: modes(placement.wait, alone, false),
        }));
    }
    Ok(workers)
}

impl Worker for TcpRrServer {
    fn times(&self) -> Times {
        Times::NONE
    }

    fn step(&mut self, due: Due, tally: &mut Tally) -> Progress {
        tally.add(Counter::Foreign, std::mem::take(&mut self.foreign));
        let mut moved = false;
        for flow in self.flows.iter_mut().filter(|flow| !flow.bytes.ended) {
            // Responses first: a client that does not read them gets no further ones.
            if flow.bytes.owed == 0 {
                let n = flow.bytes.receive(&mut self.buffer, tally);
                flow.come += n;
                moved |= n > 0;
                // Several requests may arrive in one piece, and a part of the next one.
                let whole = flow.come / self.request_bytes;
                if whole > 0 {
                    flow.come %= self.request_bytes;
                    flow.bytes.owed += whole * self.response_bytes;
                    flow.bytes.count(tally, Counter::MessagesReceived, whole as u64);
                }
            }
            if flow.bytes.owed > 0 {
                let owed = flow.bytes.owed;
                flow.bytes.flush(&self.filling, tally);
                moved |= flow.bytes.owed < owed;
            }
        }
        if moved {
            return Progress::Moved;
        }
        if self.flows.iter().all(|flow| flow.bytes.ended) {
            // Flows that have ended leave the worker nothing to wait for.
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

    fn stop_sending(&mut self) {}

    fn finish(&mut self) -> Vec<FlowReport> {
        self.flows.drain(..).map(|flow| flow.bytes.report(self.number, &self.modes)).collect()
    }
}
