//! Faults on purpose: exactly every n-th datagram, or a share of them at random, and random loss of
//! all IP packets.

use std::collections::HashMap;
use std::num::NonZeroU32;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use super::Fate;
use crate::description::Faults;
use crate::draw::fraction;

/// Offsets into a frame (IEEE 802.3 clause 3.2.6, RFC 791 clause 3.1, RFC 8200 clause 3), and their
/// values for UDP.
const ETHERTYPE: usize = 12;
const IPV4_PROTOCOL: usize = 14 + 9;
const IPV6_NEXT_HEADER: usize = 14 + 6;
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
const UDP: u8 = 17;

/// Decision on a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// It is dropped; the reason.
    pub(super) dropped: Option<Fate>,
    /// It is forwarded twice.
    pub(super) duplicated: bool,
    /// Later frames overtake it.
    pub(super) overtaken: bool,
    /// A copy goes back to the sender.
    pub(super) reflected: bool,
}

impl Verdict {
    /// It is forwarded.
    pub(super) const PASS: Self =
        Self { dropped: None, duplicated: false, overtaken: false, reflected: false };
}

/// Faults of one direction, with the number of datagrams of each length so far.
#[derive(Debug)]
pub(super) struct Faulty {
    faults: Faults,
    counts: HashMap<usize, u64>,
    random: Xoshiro256PlusPlus,
}

impl Faulty {
    pub(super) fn new(faults: Faults) -> Self {
        Self {
            faults,
            counts: HashMap::new(),
            random: Xoshiro256PlusPlus::seed_from_u64(faults.seed),
        }
    }

    /// Decides on the datagram `frame`.
    pub(super) fn judge(&mut self, frame: &[u8]) -> Verdict {
        if self.faults == Faults::default() {
            return Verdict::PASS;
        }
        // Counted by length: a client's small control datagrams must not shift the n-th of the
        // measured ones.
        let count = self.counts.entry(frame.len()).or_default();
        *count += 1;
        let due = |one_in: Option<NonZeroU32>| {
            one_in.is_some_and(|n| count.is_multiple_of(u64::from(n.get())))
        };
        // Drawn for every datagram, so that other faults do not shift the sequence.
        let unlucky =
            self.faults.drop_ratio.is_some_and(|ratio| fraction(&mut self.random) < ratio.0);
        // Loss by order wins, so that its count stays exact beside random loss.
        let by_order = due(self.faults.drop_one_in).then_some(Fate::DroppedByOrder);
        Verdict {
            dropped: by_order.or(unlucky.then_some(Fate::DroppedAtRandom)),
            duplicated: due(self.faults.duplicate_one_in),
            overtaken: due(self.faults.reorder_one_in),
            reflected: due(self.faults.reflect_one_in),
        }
    }
}

impl Faulty {
    /// Decides whether the IP packet `frame`, of any kind, is lost at random.
    pub(super) fn loses(&mut self, frame: &[u8]) -> bool {
        let Some(ratio) = self.faults.drop_packets else { return false };
        let is_ip = frame
            .get(ETHERTYPE..ETHERTYPE + 2)
            .is_some_and(|bytes| [IPV4, IPV6].iter().any(|ip| ip == bytes));
        is_ip && fraction(&mut self.random) < ratio.0
    }
}

/// Returns whether `frame` is UDP over IPv4 or IPv6 without extension headers.
pub(super) fn is_udp(frame: &[u8]) -> bool {
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

    /// How many times `frame` goes on.
    fn copies(faulty: &mut Faulty, frame: &[u8]) -> u32 {
        let verdict = faulty.judge(frame);
        if verdict.dropped.is_some() { 0 } else { 1 + u32::from(verdict.duplicated) }
    }

    #[test]
    fn every_third_datagram_of_a_length_is_dropped_and_every_fourth_leaves_twice() {
        let faults = Faults {
            drop_one_in: NonZeroU32::new(3),
            duplicate_one_in: NonZeroU32::new(4),
            ..Faults::default()
        };
        let (v4, v6) =
            (frame(IPV4, IPV4_PROTOCOL, UDP, 100), frame(IPV6, IPV6_NEXT_HEADER, UDP, 100));
        let mut faulty = Faulty::new(faults);
        let sent =
            (0..12).map(|number| copies(&mut faulty, if number % 2 == 0 { &v4 } else { &v6 }));
        assert_eq!(sent.collect::<Vec<_>>(), [1, 1, 0, 2, 1, 0, 1, 2, 0, 1, 1, 0]);
        let shorter = frame(IPV4, IPV4_PROTOCOL, UDP, 60);
        assert_eq!(
            [(); 3].map(|()| copies(&mut faulty, &shorter)),
            [1, 1, 0],
            "other lengths are counted apart"
        );
    }

    #[test]
    fn packets_of_any_kind_are_lost_and_nothing_else() {
        let ratio = |ratio: f64| Faults {
            drop_packets: Some(linerate_model::Ratio(ratio)),
            ..Faults::default()
        };
        let tcp = frame(IPV4, IPV4_PROTOCOL, 6, 100);
        let mut all = Faulty::new(ratio(1.0));
        assert!(
            all.loses(&tcp) && !all.loses(&frame([0x08, 0x06], IPV4_PROTOCOL, 6, 42)),
            "ARP is no IP"
        );
        let mut some = Faulty::new(ratio(0.1));
        let lost = (0..10_000).filter(|_| some.loses(&tcp)).count();
        assert!((800..1200).contains(&lost), "{lost}");
        assert!(!Faulty::new(Faults::default()).loses(&tcp));
    }

    #[test]
    fn only_udp_is_a_datagram() {
        let tcp = frame(IPV4, IPV4_PROTOCOL, 6, 100);
        let arp = frame([0x08, 0x06], IPV4_PROTOCOL, UDP, 42);
        for other in [&tcp[..], &arp, &[], &[0; 13], &frame(IPV4, IPV4_PROTOCOL, UDP, 100)[..20]] {
            assert!(!is_udp(other));
        }
        assert!(
            is_udp(&frame(IPV4, IPV4_PROTOCOL, UDP, 100))
                && is_udp(&frame(IPV6, IPV6_NEXT_HEADER, UDP, 100))
        );
    }
}
