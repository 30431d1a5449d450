//! The flow of either end: socket, tags, clock and counters; and the deal of the two ends' workers.

use std::collections::BTreeMap;
use std::net::UdpSocket;

use linerate_model::{Counter, Counters, FlowReport, Nanos, ProbeRecord, Side, SocketValue};
use linerate_sys::udp::{self, Received};
use linerate_sys::{SysError, clock};

use super::PathProbeParams;
use super::receiver::ProbeReceiver;
use super::sender::ProbeSender;
use crate::workloads::companion::Companion;
use crate::workloads::datagram::{Purpose, Tag, number_of};
use crate::workloads::pairing::Paired;
use crate::workloads::parameters::Direction;
use crate::workloads::socket_options;
use crate::{Result, Secret, Tally, Workers};

/// One end of the flow.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) socket: UdpSocket,
    pub(super) outward: Tag,
    pub(super) inward: Tag,
    pairing: Tag,
    pub(super) counters: Counters,
    options: BTreeMap<String, SocketValue>,
    /// Distance of the wall clock, which the kernel stamps arrivals with, from the monotonic clock.
    wall_ahead_ns: u64,
}

impl Flow {
    fn new(
        params: &PathProbeParams,
        secret: Secret,
        socket: UdpSocket,
        [out, back]: [Purpose; 2],
    ) -> Self {
        let tag = |purpose| Tag::new(secret, 0, purpose);
        Self {
            outward: tag(out),
            inward: tag(back),
            pairing: tag(Purpose::Pairing),
            counters: Counters::default(),
            options: params.options.granted(&socket),
            wall_ahead_ns: wall_ahead(),
            socket,
        }
    }

    /// Adds `n` to `counter` of the flow and the worker.
    #[inline]
    pub(super) fn count(&mut self, tally: &mut Tally, counter: Counter, n: u64) {
        self.counters[counter] += n;
        tally.add(counter, n);
    }

    /// Returns the number of a datagram of the other end; counts a stranger's.
    #[inline]
    pub(super) fn number(&mut self, message: &Received<'_>, tally: &mut Tally) -> Option<u64> {
        let number = number_of(message.visible, self.inward);
        // A repeated pairing datagram may arrive late.
        if number.is_none() && number_of(message.visible, self.pairing).is_none() {
            self.count(tally, Counter::Foreign, 1);
        }
        number
    }

    /// Returns the time of arrival of `message` on the monotonic clock; `now` without a stamp.
    #[inline]
    pub(super) fn arrival(&self, message: &Received<'_>, now: Nanos) -> Nanos {
        let stamped = message.stamp_ns.and_then(|stamp| stamp.checked_sub(self.wall_ahead_ns));
        stamped.map_or(now, |stamped| Nanos(stamped.min(now.0)))
    }

    /// Returns the report of this end.
    pub(super) fn report(&mut self, record: ProbeRecord, next_sequence: u64) -> FlowReport {
        socket_options::at_end(&mut self.options, &self.socket);
        self.counters[Counter::SocketDrops] += u64::from(udp::drops(&self.socket).unwrap_or(0));
        FlowReport {
            local: socket_options::name_of(self.socket.local_addr()),
            remote: socket_options::name_of(self.socket.peer_addr()),
            counters: self.counters,
            next_sequence,
            socket: self.options.clone(),
            probe: Some(Box::new(record)),
            ..FlowReport::default()
        }
    }
}

/// Returns how far the wall clock is ahead of the monotonic clock. Of several readings the one that
/// took least time counts: a thread may be interrupted between two clocks.
fn wall_ahead() -> u64 {
    /// Readings; each takes less than a microsecond.
    const READINGS: u32 = 16;
    // The fastest reading has the least time between the clocks, so its difference is the best.
    (0..READINGS).map(|_| wall_reading()).min().map_or(0, |(_, ahead)| ahead)
}

/// Returns the duration of a reading of both clocks, and how far the wall clock was ahead, both in
/// ns.
fn wall_reading() -> (u64, u64) {
    let before = clock::monotonic();
    let wall = clock::realtime();
    let after = clock::monotonic();
    (after - before, wall.saturating_sub(before.midpoint(after)))
}

/// Returns the worker of one end.
pub(super) fn deal(
    params: &PathProbeParams,
    end: Side,
    secret: Secret,
    paired: Paired,
) -> Result<Workers> {
    let (purposes, sends) = match end {
        Side::Active => ([Purpose::Forward, Purpose::Backward], Direction::Tx),
        Side::Passive => ([Purpose::Backward, Purpose::Forward], Direction::Rx),
    };
    let mut workers = Workers::new();
    for (socket, companion) in paired.sockets.into_iter().zip(paired.companions) {
        let flow = Flow::new(params, secret, socket, purposes);
        flow.socket
            .set_nonblocking(false)
            .map_err(|cause| SysError::new("make blocking", "the probe's socket", cause))?;
        let companion = Companion::new(companion)?;
        workers.push(if params.direction == sends {
            Box::new(ProbeSender::new(params, flow, companion)?)
        } else {
            Box::new(ProbeReceiver::new(flow, companion)?)
        });
    }
    Ok(workers)
}
