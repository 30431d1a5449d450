//! Times of the parts of a transfer, and counters of a flow.

use linerate_model::{Counter, Counters, FlowTcp, Nanos, TcpState};
use linerate_sys::clock;
use socket2::Socket;

use crate::Tally;
use crate::workloads::tcp_state;

/// Ends of the parts of a transfer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Course {
    begun: Nanos,
    /// Start of the current stage.
    since: Nanos,
    pub(crate) connect: Option<u64>,
    pub(crate) first_byte: Option<u64>,
    pub(crate) transfer: Option<u64>,
    pub(crate) close: Option<u64>,
}

impl Course {
    /// Begins a transfer.
    pub(crate) fn begin(now: Nanos) -> Self {
        Self { begun: now, since: now, ..Self::default() }
    }

    /// Returns the duration of the current stage and starts the next.
    pub(crate) fn lap(&mut self) -> Option<u64> {
        let now = Nanos(clock::monotonic());
        let lasted = now.since(self.since).0;
        self.since = now;
        Some(lasted)
    }

    /// Records the times of a completed file.
    pub(crate) fn record(&self, tally: &mut Tally) {
        let whole = Nanos(clock::monotonic()).since(self.begun).0;
        tally.times.service.record(whole);
        for (stage, histogram) in [
            (self.connect, &mut tally.times.connect),
            (self.first_byte, &mut tally.times.first_byte),
            (self.transfer, &mut tally.times.transfer),
            (self.close, &mut tally.times.close),
        ] {
            if let Some(ns) = stage {
                histogram.record(ns);
            }
        }
    }
}

/// Counters of one flow, over all its connections.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(crate) counters: Counters,
    /// TCP state of closed connections.
    closed: TcpState,
}

impl Account {
    /// Counts for the flow and the worker together.
    #[inline]
    pub(crate) fn count(&mut self, tally: &mut Tally, counter: Counter, n: u64) {
        self.counters[counter] += n;
        tally.add(counter, n);
    }

    /// Adds the state of a connection that is about to close.
    pub(crate) fn keep(&mut self, socket: &Socket) {
        if let Some(state) = tcp_state::of(socket) {
            tcp_state::add(&mut self.closed, state);
        }
    }

    /// Returns the state of all connections of flow `number` so far, including `open`: counters
    /// never fall.
    pub(crate) fn state(&self, number: u32, open: Option<&Socket>) -> Option<FlowTcp> {
        let mut sum = self.closed;
        if let Some(state) = open.and_then(tcp_state::of) {
            tcp_state::add(&mut sum, state);
        }
        (sum != TcpState::default()).then_some(FlowTcp { flow: number, tcp: sum })
    }
}
