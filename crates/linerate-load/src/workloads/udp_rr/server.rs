//! Passive end: a response for each request, with the same number. It answers only the proven
//! address, because its sockets are connected to it.

use std::collections::BTreeMap;

use linerate_model::{Counter, FlowReport};

use super::UdpRrParams;
use super::flow::{DatagramFlow, label_mode, shares};
use crate::workloads::byte_flow::modes;
use crate::workloads::companion::Companion;
use crate::workloads::datagram::{Purpose, write_label};
use crate::workloads::pairing::Paired;
use crate::workloads::rest::Rest;
use crate::workloads::socket_options;
use crate::{Due, Progress, Result, Secret, Tally, Times, Worker, Workers};

/// Largest possible request.
const BUFFER_BYTES: usize = 1 << 16;
/// Requests answered on one flow before the next has its turn.
const TURN: usize = 64;

struct UdpRrServer {
    number: u32,
    flows: Vec<DatagramFlow>,
    response: Box<[u8]>,
    buffer: Box<[u8]>,
    alone: bool,
    rest: Rest,
    companion: Companion,
    foreign: u64,
    modes: BTreeMap<String, String>,
}

/// Deals the flows to workers.
pub(super) fn deal(params: &UdpRrParams, secret: Secret, mut paired: Paired) -> Result<Workers> {
    let shares = shares(params, secret, &mut paired, (Purpose::Response, Purpose::Request), false)?;
    let mut foreign = paired.foreign;
    let mut workers = Workers::new();
    for ((number, flows), stream) in (0_u32..).zip(shares).zip(paired.companions) {
        let alone = params.placement.is_alone(flows.len(), false);
        let mut modes = modes(params.placement.wait, alone, false);
        modes.insert("label".to_owned(), label_mode(params));
        workers.push(Box::new(UdpRrServer {
            number,
            rest: Rest::new(
                params.placement.wait,
                flows.iter().map(DatagramFlow::socket).filter(|_| !alone),
            )?,
            flows,
            response: vec![b'a'; params.exchange.response_bytes()].into_boxed_slice(),
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            alone,
            companion: Companion::new(stream)?,
            foreign: std::mem::take(&mut foreign),
            modes,
        }));
    }
    Ok(workers)
}

impl Worker for UdpRrServer {
    fn times(&self) -> Times {
        Times::NONE
    }

    fn step(&mut self, due: Due, tally: &mut Tally) -> Progress {
        tally.add(Counter::Foreign, std::mem::take(&mut self.foreign));
        let turn = if self.alone { 1 } else { TURN };
        let mut moved = false;
        for flow in &mut self.flows {
            for _ in 0..turn {
                let (label, came) = flow.receive(&mut self.buffer, tally);
                if let Some(number) = label {
                    write_label(&mut self.response, flow.outward, number);
                    flow.send(&self.response, tally);
                }
                if !came {
                    break;
                }
                moved = true;
            }
        }
        if moved {
            return Progress::Moved;
        }
        // The session ends with the companion: until then a request may always arrive.
        self.companion.look(due.intended, |_, _| {});
        if self.companion.is_gone() {
            return Progress::Ended;
        }
        if !self.alone {
            self.rest.until(due);
        }
        Progress::Idle
    }

    fn held_bytes(&self) -> Option<u64> {
        socket_options::held(self.flows.iter().map(DatagramFlow::socket))
    }

    fn stop_sending(&mut self) {}

    fn finish(&mut self) -> Vec<FlowReport> {
        self.flows.drain(..).map(|flow| flow.report(self.number, &self.modes)).collect()
    }
}
