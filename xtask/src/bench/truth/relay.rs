//! Exact faults of the relay (`relay.rs`): delay and another order.
//!
//! Faults concern frames whose inner IPv4 packet is UDP of one given length, so that control
//! traffic passes untouched, and counts are exact.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::super::relay::{self, ETHERNET, Treatment, VXLAN};

/// VXLAN header, then Ethernet's: where the inner IPv4 header begins.
const INNER_IP: usize = VXLAN + ETHERNET;
/// Within an IPv4 header: total length and protocol (RFC 791 clause 3.1).
const IP_LENGTH: usize = 2;
const IP_PROTOCOL: usize = 9;
const PROTOCOL_UDP: u8 = 17;
/// Ethertype of IPv4, just before the IPv4 header.
const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];

/// Treatment of frames that count.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Faults {
    /// Total length of the inner IPv4 packets that count, B.
    pub(super) ip_length: u16,
    /// How long a frame is kept, each way.
    pub(super) delay: Duration,
    /// Which frames.
    pub(super) delays: Delays,
    /// Hold back every N-th frame that counts until three others that count have passed it; 0:
    /// none.
    pub(super) reorder_every: u64,
}

/// Which frames the relay delays.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Delays {
    /// Those that count.
    #[default]
    Load,
    /// All others: control traffic.
    Others,
}

/// How many later frames pass one that is held back.
const OVERTAKING: usize = 3;

impl Faults {
    pub(super) fn arguments(&self) -> [String; 4] {
        let delay_us = self.delay.as_micros();
        [
            self.ip_length.to_string(),
            delay_us.to_string(),
            u8::from(self.delays == Delays::Others).to_string(),
            self.reorder_every.to_string(),
        ]
    }

    fn parse(words: &[String]) -> anyhow::Result<Self> {
        let [length, delay_us, others, reorder] = words else {
            bail!("relay: four values expected, not {words:?}")
        };
        Ok(Self {
            ip_length: length.parse().context("relay: length of packets")?,
            delay: Duration::from_micros(delay_us.parse().context("relay: delay in us")?),
            delays: if others == "1" { Delays::Others } else { Delays::Load },
            reorder_every: reorder.parse().context("relay: reorder every")?,
        })
    }

    /// Returns true if `datagram`, a VXLAN header and a frame, counts.
    fn counts(&self, datagram: &[u8]) -> bool {
        datagram.get(INNER_IP - 2..INNER_IP) == Some(&ETHERTYPE_IPV4)
            && datagram.get(INNER_IP + IP_PROTOCOL) == Some(&PROTOCOL_UDP)
            && datagram.get(INNER_IP + IP_LENGTH..INNER_IP + IP_LENGTH + 2)
                == Some(&self.ip_length.to_be_bytes())
    }
}

/// Order in which datagrams of one direction leave, and their counts.
#[derive(Debug, Default)]
struct Order {
    faults: Faults,
    n_counted: u64,
    /// Of the frames that count, those that others passed.
    n_held: u64,
    /// Held back, with how many have yet to pass it.
    held: VecDeque<(Vec<u8>, usize)>,
    /// Time between arrival and departure of each frame that counts, us.
    stayed_us: Vec<u64>,
}

impl Order {
    /// Returns the datagrams that leave when `datagram` arrives.
    fn pass(&mut self, datagram: Vec<u8>) -> Vec<Vec<u8>> {
        let faults = self.faults;
        if !faults.counts(&datagram) {
            return vec![datagram];
        }
        self.n_counted += 1;
        if faults.reorder_every > 0 && self.n_counted.is_multiple_of(faults.reorder_every) {
            self.n_held += 1;
            self.held.push_back((datagram, OVERTAKING));
            return Vec::new();
        }
        let mut leaving = vec![datagram];
        for held in &mut self.held {
            held.1 -= 1;
        }
        while self.held.front().is_some_and(|held| held.1 == 0) {
            leaving.extend(self.held.pop_front().map(|held| held.0));
        }
        leaving
    }
}

impl Treatment for Order {
    fn arrive(&mut self, now: Instant, datagram: &[u8]) -> Vec<(Option<Instant>, Vec<u8>)> {
        let faults = self.faults;
        // All are kept equally long, so that the first in is the first out.
        let due = |datagram: &[u8]| {
            ((faults.delays == Delays::Load) == faults.counts(datagram)).then(|| now + faults.delay)
        };
        let leaving = self.pass(datagram.to_vec()).into_iter();
        leaving.map(|datagram| (due(&datagram), datagram)).collect()
    }

    fn sent(&mut self, arrived: Instant, datagram: &[u8]) {
        if self.faults.counts(datagram) {
            self.stayed_us.push(u64::try_from(arrived.elapsed().as_micros()).unwrap_or(u64::MAX));
        }
    }

    fn counts(&self) -> Value {
        let mut stays = self.stayed_us.clone();
        stays.sort_unstable();
        json!({ "seen": self.n_counted, "held": self.n_held,
            "stayed_us": stays.get(stays.len() / 2) })
    }
}

/// Relays until standard input ends: `relay OWN END END LENGTH DELAY_US OTHERS REORDER_EVERY`.
///
/// # Errors
/// If an argument is wrong or the port is in use.
pub(super) fn run(arguments: &[String]) -> anyhow::Result<bool> {
    let Some((addresses, faults)) = arguments.split_first_chunk() else {
        bail!("relay: OWN END END LENGTH DELAY_US OTHERS REORDER_EVERY")
    };
    let faults = Faults::parse(faults)?;
    relay::run(addresses, [(); 2].map(|()| Order { faults, ..Order::default() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A VXLAN header, an Ethernet header, and an IPv4 packet of `length` with `mark` as its last
    /// byte.
    fn datagram(length: u16, protocol: u8, mark: u8) -> Vec<u8> {
        let mut bytes = vec![0; INNER_IP + usize::from(length)];
        bytes[INNER_IP - 2..INNER_IP].copy_from_slice(&ETHERTYPE_IPV4);
        bytes[INNER_IP + IP_LENGTH..INNER_IP + IP_LENGTH + 2]
            .copy_from_slice(&length.to_be_bytes());
        bytes[INNER_IP + IP_PROTOCOL] = protocol;
        *bytes.last_mut().expect("not empty") = mark;
        bytes
    }

    #[test]
    fn every_nth_datagram_that_counts_is_overtaken_by_three() {
        let faults = Faults { ip_length: 100, reorder_every: 4, ..Faults::default() };
        let mut order = Order { faults, ..Order::default() };
        let mut left = Vec::new();
        for mark in 1..=8 {
            left.extend(order.pass(datagram(100, PROTOCOL_UDP, mark)));
        }
        let marks: Vec<u8> = left.iter().filter_map(|datagram| datagram.last().copied()).collect();
        // The 8th is held at the end, and the 4th left behind the 7th.
        assert_eq!(marks, [1, 2, 3, 5, 6, 7, 4]);
    }

    #[test]
    fn other_traffic_is_not_touched() {
        let faults = Faults { ip_length: 100, reorder_every: 1, ..Faults::default() };
        let mut order = Order { faults, ..Order::default() };
        assert_eq!(order.pass(datagram(101, PROTOCOL_UDP, 1)).len(), 1);
        assert_eq!(order.pass(datagram(100, 6, 1)).len(), 1);
        assert_eq!(order.pass(vec![1, 2, 3]).len(), 1);
        assert_eq!(order.pass(datagram(100, PROTOCOL_UDP, 1)).len(), 0);
    }
}
