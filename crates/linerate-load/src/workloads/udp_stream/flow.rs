//! Flows and their state at one end.

use std::collections::BTreeMap;
use std::net::UdpSocket;

use linerate_model::{Counter, Counters, SocketValue};
use linerate_sys::udp;

use super::UdpStreamParams;
use crate::Secret;
use crate::workloads::datagram::{Purpose, Tag};
use linerate_packet::sequence::Sequence;

/// One flow, as one end sees it.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) number: u32,
    pub(super) socket: UdpSocket,
    pub(super) outward: Tag,
    pub(super) inward: Tag,
    pub(super) pairing: Tag,
    pub(super) next_number: u64,
    pub(super) sequence: Sequence,
    pub(super) counters: Counters,
    /// Last value of the socket's drop counter, and whether it was read since the last message.
    pub(super) drops: u32,
    pub(super) drops_known: bool,
    /// Messages dropped by the socket without a known gap in the numbers yet.
    pub(super) undated_drops: u64,
    /// Most datagrams of a received message; 0 before the first.
    pub(super) widest_message: u64,
    /// Arrival by a clock of this end minus departure by the sender's, ns, of the last datagram
    /// that was timed. The difference of the clocks is in it, and cancels out in changes.
    transit: Option<u64>,
    /// Datagrams that the other end reports as sent.
    pub(super) peer_sent: Option<u64>,
    /// True if each datagram departs at its own time, also within a message.
    pub(super) is_paced: bool,
    pub(super) options: BTreeMap<String, SocketValue>,
}

impl Flow {
    /// Creates flow `number` of the end that sends datagrams of purpose `out` and receives `back`.
    pub(super) fn new(
        params: &UdpStreamParams,
        secret: Secret,
        [out, back]: [Purpose; 2],
        (number, socket): (u32, UdpSocket),
    ) -> Self {
        Self {
            number,
            outward: Tag::new(secret, number, out),
            inward: Tag::new(secret, number, back),
            pairing: Tag::new(secret, number, Purpose::Pairing),
            next_number: 0,
            sequence: Sequence::default(),
            counters: Counters::default(),
            drops: udp::drops(&socket).unwrap_or(0),
            drops_known: true,
            undated_drops: 0,
            widest_message: 0,
            transit: None,
            peer_sent: None,
            is_paced: params.arrivals.is_open(),
            options: params.options.granted(&socket),
            socket,
        }
    }

    /// Notes a datagram that departed and arrived at these times, and returns by how much its
    /// transit took longer or shorter than that of the one before.
    #[inline]
    pub(super) fn note_transit(&mut self, departed: u64, arrived: u64) -> Option<u64> {
        let transit = arrived.wrapping_sub(departed);
        let before = self.transit.replace(transit)?;
        // As signed: the clocks of two hosts may differ by any amount.
        Some((transit.wrapping_sub(before) as i64).unsigned_abs())
    }

    /// Returns the drops since the counter was last read.
    pub(super) fn note_drops(&mut self, drops: u32) -> u64 {
        let new = u64::from(drops.wrapping_sub(std::mem::replace(&mut self.drops, drops)));
        self.undated_drops += new;
        new
    }

    /// Returns the datagrams that the socket dropped before number `next`, which arrives now or
    /// would be next. The socket counts messages; the gap in the numbers bounds the datagrams in
    /// them, and a dropped message held at most as many as the widest one received.
    #[inline]
    pub(super) fn dropped_before(&mut self, next: u64, coalesced: bool) -> u64 {
        let dropped = std::mem::take(&mut self.undated_drops);
        if dropped == 0 {
            return 0;
        }
        let widest = match (coalesced, self.widest_message) {
            (false, _) => 1,
            (true, 0) => udp::MAX_SEGMENTS as u64,
            (true, widest) => widest,
        };
        next.saturating_sub(self.sequence.next()).min(dropped.saturating_mul(widest))
    }

    /// Returns true if every datagram of the other end is accounted for.
    pub(super) fn is_complete(&self) -> bool {
        let known = self.counters[Counter::DatagramsReceived] + self.counters[Counter::Late];
        self.peer_sent.is_some_and(|sent| known >= sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;
    use crate::workloads::datagram::Purpose;

    fn flow(widest_message: u64) -> Flow {
        let tag = |purpose| Tag::new(Secret([1; 16]), 0, purpose);
        let mut sequence = Sequence::default();
        for number in 0..10 {
            let _ = sequence.observe(number);
        }
        Flow {
            number: 0,
            socket: UdpSocket::bind("127.0.0.1:0").expect("loopback"),
            outward: tag(Purpose::Forward),
            inward: tag(Purpose::Backward),
            pairing: tag(Purpose::Pairing),
            next_number: 0,
            sequence,
            counters: Counters::default(),
            drops: u32::MAX,
            drops_known: true,
            undated_drops: 0,
            widest_message,
            transit: None,
            peer_sent: None,
            is_paced: false,
            options: BTreeMap::new(),
        }
    }

    #[test]
    fn dropped_messages_are_counted_in_datagrams_by_the_gap_they_leave() {
        let mut flow = flow(64);
        assert_eq!(flow.dropped_before(50, true), 0, "a gap without a drop was lost elsewhere");
        assert_eq!(flow.note_drops(1), 2, "the counter wraps");
        assert_eq!(flow.dropped_before(10 + 128, true), 128, "two whole messages");
        assert_eq!(flow.dropped_before(10 + 128, true), 0, "once");
        flow.note_drops(2);
        assert_eq!(flow.dropped_before(10 + 7, true), 7, "a short one");
        flow.note_drops(3);
        assert_eq!(flow.dropped_before(10 + 1000, true), 64, "the rest was lost elsewhere");
        flow.note_drops(4);
        assert_eq!(flow.dropped_before(10 + 1000, false), 1, "single datagrams");
        flow.note_drops(5);
        assert_eq!(flow.dropped_before(10, true), 0, "no gap: what was dropped was none of ours");
    }

    #[test]
    fn a_socket_that_passed_nothing_may_have_dropped_the_widest_messages_there_are() {
        let mut flow = flow(0);
        flow.note_drops(0);
        assert_eq!(flow.dropped_before(10 + 1000, true), udp::MAX_SEGMENTS as u64);
    }

    #[test]
    fn a_change_of_the_transit_time_has_no_sign_and_no_clock() {
        let mut flow = flow(1);
        // The receiver's clock is far behind the sender's.
        let times = [(9_000, 100), (9_500, 600), (10_000, 1_350), (10_500, 1_600)];
        let changes = times.map(|(departed, arrived)| flow.note_transit(departed, arrived));
        assert_eq!(changes, [None, Some(0), Some(250), Some(250)]);
    }
}
