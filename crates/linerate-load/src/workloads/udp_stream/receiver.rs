//! Receiving half of a worker: accounts every datagram of every message by its number.

use linerate_model::{Counter, Counters, Nanos};
use linerate_sys::clock;
use linerate_sys::udp::{self, ReceiveBatch, Received, Wait};

use super::flow::Flow;
use super::{Receive, UdpStreamParams};
use crate::Tally;
use crate::ticks::Ticks;
use crate::workloads::datagram::{HEADER_BYTES, Tag, number_of, time_of};
use crate::workloads::rendezvous::would_wait;
use linerate_packet::sequence::Arrival;

/// Longest coalesced message.
const COALESCED_BYTES: usize = 1 << 16;
/// Messages per call: sixteen coalesced ones are 1 MiB, about a level 2 cache.
const COALESCED_MESSAGES: usize = 16;
const SINGLE_MESSAGES: usize = 64;

/// Most that a socket buffer is charged for a message beyond its bytes: the descriptor and the
/// rounding of its memory.
const MESSAGE_OVERHEAD: usize = 1 << 10;
/// Datagrams that gather before the next call may fill this fraction (one in this many) of the
/// socket buffer.
const GATHERED_SHARE: usize = 4;

/// By how much the wall clock, which stamps arrivals, is ahead of the monotonic one. A step of the
/// wall clock is no jitter of the path.
#[derive(Debug, Default)]
struct Ahead(Option<u64>);

impl Ahead {
    /// A step, ns. The time between the readings of both clocks is shorter, unless the thread was
    /// interrupted between them.
    const STEP: u64 = 1_000_000;
    /// Most readings of a call.
    const MOST: usize = 4;

    /// Returns the difference, which `read` reads.
    #[inline]
    fn ns(&mut self, read: fn() -> u64) -> u64 {
        let mut last = read();
        if let Some(known) = self.0.filter(|known| is_alike(*known, last)) {
            return known;
        }
        for _ in 1..Self::MOST {
            let before = std::mem::replace(&mut last, read());
            if is_alike(before, last) {
                break;
            }
        }
        *self.0.insert(last)
    }
}

/// Returns whether no step lies between two differences. They wrap if the wall clock is behind.
fn is_alike(one: u64, other: u64) -> bool {
    one.wrapping_sub(other).min(other.wrapping_sub(one)) <= Ahead::STEP
}

/// Receiver of one worker.
#[derive(Debug)]
pub(super) struct Receiver {
    batch: ReceiveBatch,
    discard: bool,
    coalesced: bool,
    /// Messages of the last call, and their bytes.
    messages: usize,
    bytes: usize,
    ahead: Ahead,
}

/// Action of a lone receiver before its next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Wait for a datagram.
    Wait,
    /// Receive again: there may be more.
    Look,
    /// Let datagrams gather for a moment instead of waking up for the next one.
    Gather,
}

impl Receiver {
    pub(super) fn new(params: &UdpStreamParams) -> Self {
        let discard = params.receive == Receive::Discard;
        let messages = if params.gro { COALESCED_MESSAGES } else { SINGLE_MESSAGES };
        let bytes = match (discard, params.gro, params.datagram_size) {
            (true, ..) => HEADER_BYTES,
            (false, false, Some(size)) => size.0 as usize,
            _ => COALESCED_BYTES,
        };
        // A discarding receiver touches no payload, so more messages cost no cache.
        let messages = if discard { SINGLE_MESSAGES } else { messages };
        Self {
            batch: ReceiveBatch::new(messages, bytes),
            discard,
            coalesced: params.gro,
            messages: 0,
            bytes: 0,
            ahead: Ahead::default(),
        }
    }

    /// True if several datagrams may arrive as one message.
    pub(super) fn is_coalesced(&self) -> bool {
        self.coalesced
    }

    /// Returns the name of the mode in reports.
    pub(super) fn mode(&self, wait: &str) -> String {
        let kept = match (self.discard, self.coalesced) {
            (false, false) => "copy",
            (false, true) => "copy, gro (drops at the socket are coalesced messages)",
            (true, false) => "discard (header only)",
            (true, true) => {
                "discard (first header of a message; its other segments are counted by length), \
                    gro (drops at the socket are coalesced messages)"
            }
        };
        format!("{kept}, {wait}")
    }

    /// Returns the action before the next call, with a socket buffer of `buffer_bytes`. Datagrams
    /// gather under three conditions: they arrive faster than single receives can take them, the
    /// last call emptied the buffer, and several times as many would fit.
    #[inline]
    pub(super) fn next(&self, buffer_bytes: usize) -> Next {
        let booked = self.bytes + self.messages * MESSAGE_OVERHEAD;
        if self.messages >= self.batch.n() {
            Next::Look
        } else if self.messages > 1 && booked * GATHERED_SHARE <= buffer_bytes {
            Next::Gather
        } else {
            Next::Wait
        }
    }

    /// Receives the datagrams present on `flow`; returns true if there were any.
    #[inline]
    pub(super) fn receive(&mut self, flow: &mut Flow, wait: Wait, tally: &mut Tally) -> bool {
        let mut change = Counters::default();
        change[Counter::CallsReceived] = 1;
        let messages = match self.batch.receive(&flow.socket, wait) {
            Ok(messages) => messages,
            Err(error) => {
                let kind =
                    if would_wait(&error) { Counter::WouldBlock } else { Counter::ReceiveErrors };
                change[kind] = 1;
                0
            }
        };
        (self.messages, self.bytes) = (messages, 0);
        for (idx, message) in (0..messages).map(|idx| (idx, self.batch.message(idx))) {
            self.bytes += message.bytes;
            if let Some(changed) = arrived(message, idx == 0, &mut self.ahead)
                .and_then(|arrived| flow.note_transit(departed(message, flow)?, arrived))
            {
                change[Counter::DelayChange] += changed;
                change[Counter::DelayChanges] += 1;
            }
            if let Some(drops) = message.drops {
                change[Counter::SocketDrops] += flow.note_drops(drops);
            }
            if let Some(first) = number_of(first_of(message), flow.inward) {
                flow.widest_message = flow.widest_message.max(message.n_datagrams() as u64);
                change[Counter::SocketDroppedDatagrams] +=
                    flow.dropped_before(first, self.coalesced);
            }
            let arrivals = &mut tally.arrivals;
            if self.discard {
                count_run(flow, message, arrivals, &mut change);
            } else {
                count_each(flow, message, arrivals, &mut change);
            }
        }
        change[Counter::MessagesReceived] = messages as u64;
        if messages > 0 {
            flow.drops_known = false;
        } else if !std::mem::replace(&mut flow.drops_known, true) {
            // No message follows the last drops to carry their count.
            let drops = udp::drops(&flow.socket);
            change[Counter::SocketDrops] += drops.map_or(0, |drops| flow.note_drops(drops));
        }
        flow.counters.add(&change);
        tally.counters.add(&change);
        messages > 0
    }
}

/// Returns the time at which a message arrived, ns: by the kernel's stamp, on which the receiver's
/// wake-up has no effect, or without stamps now.
#[inline]
fn arrived(message: Received<'_>, is_first: bool, ahead: &mut Ahead) -> Option<u64> {
    let difference = || clock::realtime().wrapping_sub(clock::monotonic());
    let stamp = message.stamp_ns.map(|stamp| stamp.wrapping_sub(ahead.ns(difference)));
    // Of the others of a call, nobody knows how long they lay in the buffer.
    stamp.or_else(|| is_first.then(clock::monotonic))
}

/// Returns the time at which the first datagram of a message departed by its sender's clock, ns.
#[inline]
fn departed(message: Received<'_>, flow: &Flow) -> Option<u64> {
    let first = first_of(message);
    number_of(first, flow.inward).and_then(|_| time_of(first))
}

/// Returns the visible part of the first datagram of a message.
#[inline]
fn first_of(message: Received<'_>) -> &[u8] {
    &message.visible[..message.visible.len().min(message.segment_bytes.max(1))]
}

/// Accounts every segment of a message by its own header.
#[inline]
fn count_each(flow: &mut Flow, message: Received<'_>, arrivals: &mut Ticks, change: &mut Counters) {
    for datagram in message.visible.chunks(message.segment_bytes.max(1)) {
        match number_of(datagram, flow.inward) {
            Some(number) => {
                if count(flow, number, datagram.len(), change)
                    && let Some(time) = time_of(datagram)
                {
                    arrivals.count(time);
                }
            }
            None => change[Counter::Foreign] += u64::from(is_foreign(datagram, flow.pairing)),
        }
    }
}

/// Accounts a message of which only the first header is known. Its segments are assumed to follow
/// each other, as they were sent. If a device coalesced around a loss, the gap shows one message
/// later.
#[inline]
fn count_run(flow: &mut Flow, message: Received<'_>, arrivals: &mut Ticks, change: &mut Counters) {
    let n = message.n_datagrams();
    match number_of(message.visible, flow.inward) {
        Some(first) => {
            let whole = message.segment_bytes;
            let mut new = 0;
            for k in 0..n {
                let bytes = whole.min(message.bytes - k * whole);
                new += u64::from(count(flow, first.saturating_add(k as u64), bytes, change));
            }
            // The datagrams of a message departed together, unless they were paced: then only the
            // first one's time is known.
            if let Some(time) = time_of(message.visible).filter(|_| n == 1 || !flow.is_paced) {
                arrivals.count_run(Nanos(time), Nanos(0), new);
            }
        }
        None => {
            change[Counter::Foreign] +=
                n as u64 * u64::from(is_foreign(message.visible, flow.pairing))
        }
    }
}

/// Counts a datagram; returns true if it is the first of its number.
#[inline]
fn count(flow: &mut Flow, number: u64, bytes: usize, change: &mut Counters) -> bool {
    let expected = flow.sequence.next();
    let arrival = flow.sequence.observe(number);
    change[Counter::SequenceAdvance] += flow.sequence.next() - expected;
    match arrival {
        Arrival::InOrder | Arrival::Reordered => {
            change[Counter::DatagramsReceived] += 1;
            change[Counter::PayloadReceived] += bytes as u64;
            change[Counter::Reordered] += u64::from(arrival == Arrival::Reordered);
        }
        Arrival::Duplicate => change[Counter::Duplicates] += 1,
        Arrival::Late => change[Counter::Late] += 1,
    }
    arrival != Arrival::Duplicate
}

/// Returns true for a repeated pairing datagram, which is ours and needs no account.
fn is_foreign(datagram: &[u8], pairing: Tag) -> bool {
    number_of(datagram, pairing).is_none()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::net::UdpSocket;
    use std::time::Duration;

    use linerate_model::Params;
    use serde_json::json;
    use socket2::Socket;

    use super::super::sender::{Pools, Sender};
    use super::*;
    use crate::workloads::datagram::Purpose;
    use crate::workloads::pairing::PairedParams;
    use crate::workloads::parameters;
    use crate::{Due, Secret};

    /// Longest that a datagram lies in the buffer here.
    const REST: Duration = Duration::from_millis(200);

    fn params(table: serde_json::Value) -> UdpStreamParams {
        let table: Params = serde_json::from_value(table).expect("a table");
        parameters::read(&table).expect("legal")
    }

    fn pair(params: &UdpStreamParams) -> [Flow; 2] {
        let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("loopback"));
        let addresses = sockets.each_ref().map(|socket| socket.local_addr().expect("bound"));
        let purposes = [Purpose::Forward, Purpose::Backward];
        let [a, b] = sockets;
        a.connect(addresses[1]).expect("loopback");
        b.connect(addresses[0]).expect("loopback");
        let b = Socket::from(b);
        params.prepare(&b).expect("options");
        let flow = |purposes, socket| Flow::new(params, Secret([7; 16]), purposes, (0, socket));
        [flow(purposes, a), flow([purposes[1], purposes[0]], b.into())]
    }

    /// Sends a datagram that was due at the start of the clock, and returns when it departed and
    /// when it had arrived in the receiver's buffer at the latest.
    fn send(sender: &mut Sender, flow: &mut Flow) -> [Nanos; 2] {
        let now = Nanos(clock::monotonic());
        let due = Due { operations: 1, intended: Nanos(0), gap: Nanos(0), until: now };
        assert!(sender.send(flow, due, now, &mut Tally::default()));
        [now, Nanos(clock::monotonic())]
    }

    #[test]
    fn a_step_of_the_wall_clock_is_followed_and_an_interruption_between_readings_is_not() {
        thread_local! {
            static READINGS: Cell<&'static [u64]> = const { Cell::new(&[]) };
        }
        fn read() -> u64 {
            let (first, rest) = READINGS.get().split_first().expect("another reading");
            READINGS.set(rest);
            *first
        }
        let mut ahead = Ahead::default();
        for (readings, expected) in [
            (&[7_000_000_000, 7_000_000_050][..], 7_000_000_050),
            (&[7_000_000_400], 7_000_000_050),
            (&[7_020_000_000, 7_000_000_020, 7_000_000_030], 7_000_000_030),
            (&[9_000_000_000, 9_000_000_010], 9_000_000_010),
            (&[u64::MAX - 100_000, 300_000], 300_000),
            (&[u64::MAX], 300_000),
        ] {
            READINGS.set(readings);
            assert_eq!(ahead.ns(read), expected, "{readings:?}");
            assert!(READINGS.get().is_empty(), "a reading too few: {readings:?}");
        }
    }

    /// Waits until the kernel stamps arrivals. It begins to a moment after the first socket asked
    /// for it, and until then it stamps a datagram when the program takes it. While the returned
    /// sockets live, it goes on.
    fn stamps(params: &UdpStreamParams) -> [Flow; 2] {
        let [mut from, to] = pair(params);
        let mut sender =
            Sender::new(params, std::slice::from_ref(&from), (Wait::Never, &Pools::default()))
                .expect("a short datagram");
        let mut batch = ReceiveBatch::new(1, COALESCED_BYTES);
        loop {
            let _departed = send(&mut sender, &mut from);
            std::thread::sleep(Duration::from_millis(1));
            let taken = clock::realtime();
            assert_eq!(batch.receive(&to.socket, Wait::Block).expect("a datagram"), 1);
            if batch.message(0).stamp_ns.expect("asked for") < taken {
                return [from, to];
            }
        }
    }

    #[test]
    fn jitter_is_the_paths_and_not_that_of_late_workers() {
        let params = params(json!({"rate": "1 kpps", "datagram_size": "100 B"}));
        let _stamped = stamps(&params);
        let [mut from, mut to] = pair(&params);
        let mut sender =
            Sender::new(&params, std::slice::from_ref(&from), (Wait::Never, &Pools::default()))
                .expect("a short datagram");
        let mut receiver = Receiver::new(&params);
        let mut tally = Tally::default();
        let mut sent = [[Nanos(0); 2]; 2];
        for (place, rest) in [(0, REST), (1, Duration::ZERO)] {
            sent[place] = send(&mut sender, &mut from);
            std::thread::sleep(rest);
            assert!(receiver.receive(&mut to, Wait::Block, &mut tally));
        }
        assert!(sent[1][0].since(sent[0][0]).0 >= REST.as_nanos() as u64);
        assert_eq!(tally.counters[Counter::DelayChanges], 1);
        // By intended departures it would be the time between the two; by arrivals at the program
        // the time in the buffer. The path's delay is at most the time that sending took.
        let change = tally.counters[Counter::DelayChange];
        let most = sent.map(|[departed, arrived]| arrived.since(departed).0).into_iter().max();
        // Two clocks take part, whose distance is read with an error.
        const CLOCKS_NS: u64 = 1_000_000;
        assert!(change <= most.expect("two") + CLOCKS_NS, "{change} ns, {most:?}");
    }

    #[test]
    fn every_stamped_message_of_a_call_counts_and_of_others_the_first() {
        let paced = json!({"rate": "1 kpps", "datagram_size": "100 B", "gro": false});
        for (table, n_changes) in [(paced, 2), (json!({"datagram_size": "100 B"}), 0)] {
            let params = params(table);
            let [mut from, mut to] = pair(&params);
            let alone = UdpStreamParams { gso: super::super::Segments::Number(1), ..params };
            let mut sender =
                Sender::new(&alone, std::slice::from_ref(&from), (Wait::Never, &Pools::default()))
                    .expect("a short datagram");
            for _ in 0..3 {
                let _departed = send(&mut sender, &mut from);
            }
            let mut tally = Tally::default();
            assert!(Receiver::new(&alone).receive(&mut to, Wait::Block, &mut tally));
            assert_eq!(tally.counters[Counter::DatagramsReceived], 3);
            assert_eq!(tally.counters[Counter::DelayChanges], n_changes);
        }
    }
}
