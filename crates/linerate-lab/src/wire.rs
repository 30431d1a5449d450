//! A wire with a length, and faults if they are wanted: frames that enter at one end leave at the other after a fixed delay,
//! but for every n-th datagram, which is dropped or leaves twice.
//!
//! The kernels linerate meets do not all have a delay of their own (netem), and no netem drops exactly every n-th, so the wire
//! is ours. Frames keep their order.

use std::collections::HashMap;
use std::num::NonZeroU32;

use linerate_model::Nanos;

use crate::description::Faults;
use crate::middle::{Departures, Passage};

/// Offsets into a frame (IEEE 802.3 clause 3.2.6, RFC 791 clause 3.1, RFC 8200 clause 3), and what stands there for UDP.
const ETHERTYPE: usize = 12;
const IPV4_PROTOCOL: usize = 14 + 9;
const IPV6_NEXT_HEADER: usize = 14 + 6;
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
const UDP: u8 = 17;

/// A wire: what it does to frames, and how many datagrams have entered at each end.
#[derive(Debug)]
pub(crate) struct Wire {
    delay: Nanos,
    faults: Faults,
    counts: [Counts; 2],
}

impl Wire {
    /// A wire that takes `delay` each way.
    pub(crate) fn new(delay: Nanos, faults: Faults) -> Self {
        Self { delay, faults, counts: Default::default() }
    }
}

impl Passage for Wire {
    fn enter(&mut self, end: usize, frame: &[u8], now: Nanos, departures: &mut Departures) {
        for _ in 0..self.counts[end].copies(self.faults, frame) {
            departures.hold(1 - end, frame, now + self.delay);
        }
    }
}

/// Datagrams that have entered in one direction, for each frame length.
#[derive(Debug, Default)]
struct Counts(HashMap<usize, u64>);

impl Counts {
    /// How many times `frame` is to leave.
    fn copies(&mut self, faults: Faults, frame: &[u8]) -> usize {
        if faults == Faults::default() || !is_udp(frame) {
            return 1;
        }
        let count = self.0.entry(frame.len()).or_default();
        *count += 1;
        let due = |one_in: Option<NonZeroU32>| one_in.is_some_and(|n| count.is_multiple_of(u64::from(n.get())));
        if due(faults.drop_one_in) {
            return 0;
        }
        1 + usize::from(due(faults.duplicate_one_in))
    }
}

fn is_udp(frame: &[u8]) -> bool {
    let protocol_at = match frame.get(ETHERTYPE..ETHERTYPE + 2).map(|bytes| [bytes[0], bytes[1]]) {
        Some(IPV4) => IPV4_PROTOCOL,
        Some(IPV6) => IPV6_NEXT_HEADER,
        _ => return false,
    };
    frame.get(protocol_at) == Some(&UDP)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(ethertype: [u8; 2], protocol_at: usize, protocol: u8, length: usize) -> Vec<u8> {
        let mut frame = vec![0; length];
        frame[ETHERTYPE..ETHERTYPE + 2].copy_from_slice(&ethertype);
        frame[protocol_at] = protocol;
        frame
    }

    #[test]
    fn every_third_datagram_of_a_length_is_dropped_and_every_fourth_leaves_twice() {
        let faults = Faults { drop_one_in: NonZeroU32::new(3), duplicate_one_in: NonZeroU32::new(4) };
        let (v4, v6) = (frame(IPV4, IPV4_PROTOCOL, UDP, 100), frame(IPV6, IPV6_NEXT_HEADER, UDP, 100));
        let mut counts = Counts::default();
        let mut copies = Vec::new();
        for number in 0..12 {
            copies.push(counts.copies(faults, if number % 2 == 0 { &v4 } else { &v6 }));
        }
        assert_eq!(copies, [1, 1, 0, 2, 1, 0, 1, 2, 0, 1, 1, 0]);
        let shorter = frame(IPV4, IPV4_PROTOCOL, UDP, 60);
        assert_eq!([(); 3].map(|()| counts.copies(faults, &shorter)), [1, 1, 0], "other lengths are counted apart");
    }

    #[test]
    fn what_is_no_datagram_always_passes() {
        let faults = Faults { drop_one_in: NonZeroU32::new(1), duplicate_one_in: None };
        let tcp = frame(IPV4, IPV4_PROTOCOL, 6, 100);
        let arp = frame([0x08, 0x06], IPV4_PROTOCOL, UDP, 42);
        for passing in [&tcp[..], &arp, &[], &[0; 13], &frame(IPV4, IPV4_PROTOCOL, UDP, 100)[..20]] {
            assert_eq!(Counts::default().copies(faults, passing), 1);
        }
        assert_eq!(Counts::default().copies(faults, &frame(IPV4, IPV4_PROTOCOL, UDP, 100)), 0);
    }
}
