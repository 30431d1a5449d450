//! Worker of one thread of a stream workload: its connections, and how it waits for them.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use linerate_model::{Counter, FlowReport, FlowTcp};
use linerate_sys::SysError;
use linerate_sys::clock;
use linerate_sys::memory::Region;
use linerate_sys::readiness::{Interest, Readiness};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use socket2::Socket;

use super::flow::Flow;
use super::pace::Pace;
use super::params::{ReceiveMode, StreamParams};
use super::sender::Source;
use crate::workloads::placement::Waiting;
use crate::workloads::socket_options;
use crate::{Due, Progress, Result, Tally, Times, Worker};

/// Longest wait of a blocking call: the engine's patience.
const CALL_TIMEOUT: Duration = Duration::from_millis(10);

/// Connections of one thread.
#[derive(Debug)]
pub(super) struct StreamWorker {
    number: u32,
    flows: Vec<Flow>,
    /// Readiness of each flow to send and receive; cleared when the kernel reports that a call
    /// would block.
    ready: Vec<(bool, bool)>,
    wait: Wait,
    /// Buffer of all copying receives, whichever connection they are for.
    buffer: Region,
    n_ended: usize,
    /// Pace of the application behind it.
    pace: Option<Pace>,
    /// True if its load has an end of its own.
    ends_early: bool,
    /// Strangers refused before the start, to be counted in the first step.
    foreign: u64,
}

#[derive(Debug)]
enum Wait {
    /// In the call itself: a single connection, one way.
    Call,
    /// For any of several connections or both ways of one.
    Any(Readiness),
    /// Never. A receive is simply repeated. A full send buffer is polled until the kernel calls it
    /// writable, because sending into every few free bytes would make tiny calls.
    Spin(Readiness),
}

impl StreamWorker {
    /// Creates worker `number` of the numbered `sockets`; `active` is true at the active end.
    pub(super) fn new(
        number: u32,
        sockets: Vec<(u32, Socket)>,
        (active, source): (bool, &Source),
        params: &StreamParams,
        seed: u64,
        foreign: u64,
    ) -> Result<Self> {
        let payload = Arc::new(random_payload(params.message_size.0 as usize, seed)?);
        let mut flows = Vec::with_capacity(sockets.len());
        for (flow, socket) in sockets {
            flows.push(Flow::new(
                flow,
                socket,
                params.role(flow, active),
                params,
                &payload,
                source,
            )?);
        }
        let wait = waiting(&flows, active, params)?;
        let ready = vec![(true, true); flows.len()];
        let sends = flows.iter().any(|flow| params.role(flow.number, active).sends);
        let pace = if sends { params.source_rate } else { params.sink_rate };
        let pace = pace.map(|rate| Pace::new(rate, sends));
        Ok(Self {
            number,
            flows,
            ready,
            wait,
            buffer: Region::new(params.receive_bytes())?,
            n_ended: 0,
            pace,
            ends_early: params.ends_early(),
            foreign,
        })
    }

    /// Removes a connection that has ended.
    fn end(wait: &Wait, flow: &Flow) {
        if let Wait::Any(readiness) | Wait::Spin(readiness) = wait {
            // It fails only if the connection is not in the set, which is the goal.
            let _: Result<(), SysError> = readiness.remove(&flow.socket);
        }
    }

    /// Stops waiting for room to send on a connection that sends nothing more: readiness to write
    /// would be reported at once and for ever.
    fn read_only(wait: &Wait, flow: &Flow, token: u64) {
        if let Wait::Any(readiness) | Wait::Spin(readiness) = wait {
            let _: Result<(), SysError> = readiness.modify(&flow.socket, token, Interest::Readable);
        }
    }

    /// Gives every ready connection a turn, then waits for more.
    fn turns(&mut self, due: Due, tally: &mut Tally) -> Progress {
        if self.foreign > 0 {
            tally.add(Counter::Foreign, std::mem::take(&mut self.foreign));
        }
        let mut moved = false;
        let mut all_ready = true;
        for ((token, flow), ready) in (0_u64..).zip(&mut self.flows).zip(&mut self.ready) {
            if flow.ended() {
                continue;
            }
            let turn = flow.turn(ready.0, ready.1, &mut self.buffer, tally);
            moved |= turn.moved;
            if flow.ended() {
                self.n_ended += 1;
                Self::end(&self.wait, flow);
            } else {
                if turn.stopped {
                    Self::read_only(&self.wait, flow, token);
                }
                match self.wait {
                    Wait::Call => {}
                    Wait::Any(_) => {
                        *ready = (ready.0 && !turn.send_blocked, ready.1 && !turn.receive_blocked)
                    }
                    Wait::Spin(_) => ready.0 &= !turn.send_blocked,
                }
                all_ready &= ready.0 && ready.1;
            }
        }
        if self.n_ended == self.flows.len() {
            return Progress::Ended;
        }
        let patience = match self.wait {
            // Poll connections that would have blocked even if others moved, or these could starve
            // them.
            Wait::Any(_) if !moved => due.until.0.saturating_sub(clock::monotonic()),
            _ => 0,
        };
        if let (Wait::Any(readiness) | Wait::Spin(readiness), false) = (&mut self.wait, all_ready) {
            for token in readiness.wait(Duration::from_nanos(patience)) {
                self.ready[*token as usize] = (true, true);
            }
        }
        if moved { Progress::Moved } else { Progress::Idle }
    }
}

impl Worker for StreamWorker {
    fn times(&self) -> Times {
        Times::NONE
    }

    fn step(&mut self, due: Due, tally: &mut Tally) -> Progress {
        let Some(mut pace) = self.pace.take() else { return self.turns(due, tally) };
        let now = clock::monotonic();
        let early = pace.early(now);
        let progress = if early > 0 {
            let wait = early.min(due.until.0.saturating_sub(now));
            if pace.counter() == Counter::PayloadSent {
                // The wait is as long as intended: a late CPU is not the source's doing.
                tally.add(Counter::SourceWait, wait);
            }
            thread::sleep(Duration::from_nanos(wait));
            Progress::Idle
        } else {
            let before = tally.counters[pace.counter()];
            let progress = self.turns(due, tally);
            pace.moved(tally.counters[pace.counter()] - before);
            progress
        };
        self.pace = Some(pace);
        progress
    }

    fn observe(&mut self, flows: &mut Vec<FlowTcp>) {
        for flow in &self.flows {
            flow.keep_clamped();
            flows.extend(flow.tcp().map(|tcp| FlowTcp { flow: flow.number, tcp }));
        }
    }

    fn held_bytes(&self) -> Option<u64> {
        socket_options::held(self.flows.iter().map(|flow| &flow.socket))
    }

    fn may_end_early(&self) -> bool {
        self.ends_early
    }

    fn n_flows(&self) -> usize {
        self.flows.len()
    }

    fn stop_sending(&mut self) {
        for (token, flow) in self.flows.iter_mut().enumerate() {
            let had_ended = flow.ended();
            flow.stop_sending();
            if had_ended {
                continue;
            }
            if flow.ended() {
                self.n_ended += 1;
                Self::end(&self.wait, flow);
            } else {
                Self::read_only(&self.wait, flow, token as u64);
                self.ready[token] = (true, true);
            }
        }
    }

    fn finish(&mut self) -> Vec<FlowReport> {
        self.flows.drain(..).map(|flow| flow.report(self.number)).collect()
    }
}

/// Prepares the sockets for the way in which this worker waits.
fn waiting(flows: &[Flow], active: bool, params: &StreamParams) -> Result<Wait> {
    let error = |cause| SysError::new("set timeouts of", "a data connection", cause);
    if let ([flow], Waiting::Block) = (flows, params.placement.wait) {
        let role = params.role(flow.number, active);
        let one_way = role.sends != role.receives;
        // A receive that maps pages never blocks, so it cannot wait in the call.
        if one_way && !(role.receives && params.receive == ReceiveMode::Zerocopy) {
            flow.socket.set_nonblocking(false).map_err(error)?;
            flow.socket.set_read_timeout(Some(CALL_TIMEOUT)).map_err(error)?;
            flow.socket.set_write_timeout(Some(CALL_TIMEOUT)).map_err(error)?;
            return Ok(Wait::Call);
        }
    }
    for flow in flows {
        flow.socket.set_nonblocking(true).map_err(error)?;
    }
    let readiness = Readiness::new()?;
    for (token, flow) in flows.iter().enumerate() {
        let sends = params.role(flow.number, active).sends;
        let interest = if sends { Interest::ReadableOrWritable } else { Interest::Readable };
        readiness.add(&flow.socket, token as u64, interest)?;
    }
    Ok(if params.placement.wait == Waiting::Spin {
        Wait::Spin(readiness)
    } else {
        Wait::Any(readiness)
    })
}

/// Returns bytes that nothing on the path can compress.
fn random_payload(bytes: usize, seed: u64) -> Result<Region, SysError> {
    let mut payload = Region::new(bytes)?;
    Xoshiro256PlusPlus::seed_from_u64(seed).fill_bytes(&mut payload);
    Ok(payload)
}
